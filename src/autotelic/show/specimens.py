"""A sample of an archive for people: tasks with their attempts, and proposals that were refused.

The sample is spread over kinds, outcomes and time, and bounded in number and in bytes; an archive of a million tasks
costs no more than a small one. All text is foreign: it is cut to length here and made visible, and escaped or set as
text where it is shown.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from autotelic import registry
from autotelic.errors import UserError
from autotelic.play.records import Attempt, Records, from_text
from autotelic.play.store import Store
from autotelic.show.figures import Curves, in_order
from autotelic.worlds.base import Answer, World

Plain = Any
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160))}
# Characters that reorder or hide text: a program must not look like another one.
_INVISIBLE = (*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF, 0xAD, 0x61C)
_VISIBLE = str.maketrans(_CONTROLS | {code: f"\\u{code:04x}" for code in _INVISIBLE} | {13: "\\r"})


@dataclass(frozen=True)
class Bounds:
    tasks: int = 180  # shown in all, shared by kinds and outcomes
    rejections: int = 90
    attempts: int = 12  # shown of one task
    characters: int = 3000  # of one text
    bytes: int = 700_000  # of the whole sample
    steps: int = 48  # looked at for candidates


def counts(path: Path) -> dict[str, Any]:
    """Totals of an archive, each from an index; empty for a run that has none yet."""
    if not path.exists():
        return {}
    store = Store.open(path, readonly=True)
    try:
        tables = ("tasks", "samples", "answers", "verdicts", "rejections")
        found: dict[str, Any] = {table: store.value(f"SELECT count(*) FROM {table}") for table in tables}
        found["kinds"] = dict(store.rows("SELECT kind, count(*) FROM tasks GROUP BY kind"))
        found["active"] = dict(
            store.rows("SELECT kind, count(*) FROM tasks WHERE retired_step IS NULL GROUP BY kind ORDER BY kind")
        )
        found["retired"] = dict(
            store.rows(
                "SELECT retired_why, count(*) FROM tasks WHERE retired_step IS NOT NULL GROUP BY 1 ORDER BY 2 DESC"
            )
        )
        return found
    finally:
        store.close()


def admitted(path: Path, curves: Curves) -> dict[str, np.ndarray]:
    """How many proposals of each kind became tasks, one count a measured step."""
    if not path.exists():
        return {}
    at = {int(step): position for position, step in enumerate(curves.steps)}
    found: dict[str, np.ndarray] = {}
    store = Store.open(path, readonly=True)
    try:
        for kind, step, count in store.rows(
            "SELECT kind, step, count(*) FROM tasks WHERE sample IS NOT NULL GROUP BY kind, step"
        ):
            if step in at:
                found.setdefault(kind, np.zeros(len(at)))[at[step]] = count
    finally:
        store.close()
    return found


def sample(path: Path, curves: Curves, bounds: Bounds | None = None) -> list[dict[str, Plain]]:
    """Plain data for the page: tasks attempted, tasks not attempted, rejections; each by kind and step."""
    if not path.exists():
        return []
    bounds = bounds or Bounds()
    store = Store.open(path, readonly=True)
    try:
        # One look at the file: a run that goes on must not change it under us.
        store.write("BEGIN")
        reader = _Reader(store, bounds)
        steps = _steps(store, curves, bounds)
        return reader.fitting(reader.tasks(steps), reader.rejections(steps))
    finally:
        store.close()


def _steps(store: Store, curves: Curves, bounds: Bounds) -> list[int]:
    """Steps to look at: spread evenly, and for each outcome class some in which it occurred."""
    newest = max(store.value(f"SELECT max(step) FROM {table}") or 0 for table in ("tasks", "verdicts", "rejections"))
    chosen = set(_spread(range(newest + 1), bounds.steps // 2))
    classes: dict[str, Any] = defaultdict(lambda: np.zeros(len(curves.steps), dtype=bool))
    for name, row in curves.table.items():
        parts = name.split("/")
        if len(parts) > 3 and parts[2] in ("rejected", "outcome"):
            classes["/".join(parts[:4])] |= np.nan_to_num(row) > 0
    for seen in classes.values():
        chosen.update(int(step) for step in _spread(curves.steps[seen], 4))
    return sorted(chosen)


class _Reader:
    def __init__(self, store: Store, bounds: Bounds) -> None:
        self._store, self._bounds = store, bounds
        self._records = Records(store)

    def tasks(self, steps: Sequence[int]) -> list[int]:
        """Row numbers of tasks that were proposed or attempted in these steps, some for each kind and outcome."""
        listed = (json.dumps(steps),)
        groups: dict[tuple[str, str], set[int]] = defaultdict(set)
        for kind, n, attempts, solved in self._store.rows(
            "SELECT kind, n, attempts, solved FROM tasks WHERE step IN (SELECT value FROM json_each(?))", listed
        ):
            groups[kind, standing(attempts, solved)].add(n)
        for kind, outcome, n in self._store.rows(
            "SELECT DISTINCT t.kind, v.outcome, v.task FROM verdicts v JOIN tasks t ON t.n = v.task "
            "WHERE v.step IN (SELECT value FROM json_each(?))",
            listed,
        ):
            groups[kind, f"attempt {outcome}"].add(n)
        return sorted(_shared(groups, self._bounds.tasks))

    def rejections(self, steps: Sequence[int]) -> list[int]:
        groups: dict[tuple[str, str], set[int]] = defaultdict(set)
        for kind, outcome, n in self._store.rows(
            "SELECT kind, outcome, n FROM rejections WHERE step IN (SELECT value FROM json_each(?))",
            (json.dumps(steps),),
        ):
            groups[kind, outcome].add(n)
        return sorted(_shared(groups, self._bounds.rejections))

    def fitting(self, tasks: Sequence[int], rejections: Sequence[int]) -> list[dict[str, Plain]]:
        """The items in full, as many as the bound on bytes lets through, taken alternately from all over the lists."""
        makers: list[tuple[Callable[[int], dict[str, Plain] | None], int]]
        makers = [(self._task, n) for n in tasks] + [(self._rejection, n) for n in rejections]
        room, items = self._bounds.bytes, []
        for maker, n in _scattered(makers):
            item = maker(n)
            size = len(json.dumps(item))
            if item is not None and size <= room:
                room -= size
                items.append(item)
        kinds = in_order(item["kind"] for item in items)
        places = {"task": lambda item: item["attempts"] == 0, "rejection": lambda item: 2}
        return sorted(items, key=lambda item: (places[item["type"]](item), kinds.index(item["kind"]), item["n"]))

    def _task(self, n: int) -> dict[str, Plain] | None:
        entries = self._records.tasks(after=n - 1, limit=1)
        if not entries or entries[0].n != n:
            return None
        entry = entries[0]
        attempts = self._records.attempts(entry.task.id, self._bounds.attempts)
        total = self._store.value("SELECT count(*) FROM verdicts WHERE task = ?", (n,))
        texts = world_of(entry.task.world).readable(entry.task)
        item = {
            "type": "task",
            "n": n,
            "id": entry.task.id,
            "kind": self._cut(entry.task.kind),
            "step": entry.step,
            "standing": standing(entry.attempts, entry.solved),
            "solved": entry.solved,
            "attempts": entry.attempts,
            "retired": None if entry.retired_step is None else [entry.retired_step, self._cut(str(entry.retired_why))],
            "features": {self._cut(name): value for name, value in entry.task.features.items()},
            "spec": [[self._cut(title), self._cut(text)] for title, text in texts],
            "answers": [self._attempt(attempt) for attempt in attempts],
            "judged": total,
        }
        return item | self._proposal(entry.sample)

    def _attempt(self, attempt: Attempt) -> dict[str, Plain]:
        verdict = attempt.verdict
        return {
            "step": attempt.step,
            "text": self._cut(attempt.answer.text),
            "claim": attempt.answer.claim,
            "outcome": self._cut(verdict.outcome),
            "solved": verdict.solved,
            "score": verdict.score,
            "detail": self._cut(verdict.detail),
            "reward": attempt.reward,
            "metrics": {self._cut(name): value for name, value in verdict.metrics.items()},
            "critiques": [
                [said_of_itself(each), self._cut(each.text)] for each in self._records.critiques(attempt.sample)
            ],
        }

    def _rejection(self, n: int) -> dict[str, Plain] | None:
        rows = self._store.all("SELECT step, kind, sample, outcome, reason FROM rejections WHERE n = ?", (n,))
        if not rows:
            return None
        step, kind, sample, outcome, reason = rows[0]
        item = {"type": "rejection", "n": n, "kind": self._cut(kind), "step": step, "outcome": self._cut(outcome)}
        return item | {"reason": self._cut(from_text(reason))} | self._proposal(sample)

    def _proposal(self, sample: int | None) -> dict[str, Plain]:
        """The text a task came from, what it earned, and what its proposer was shown."""
        if sample is None:
            return {"proposal": None, "reward": None, "lineage": []}
        rows = self._store.all(
            "SELECT a.text, p.reward FROM samples p JOIN answers a ON a.n = p.answer WHERE p.n = ?", (sample,)
        )
        text, reward = rows[0] if rows else ("", None)
        lineage = [[relation, self._cut(target)] for relation, target in self._records.lineage(sample)]
        return {"proposal": self._cut(from_text(text)), "reward": reward, "lineage": lineage}

    def _cut(self, text: str) -> str:
        return cut(text, self._bounds.characters)


def standing(attempts: int, solved: int) -> str:
    if not attempts:
        return "not attempted"
    return "never solved" if not solved else "always solved" if solved == attempts else "sometimes solved"


def said_of_itself(critique: Answer) -> str:
    """The title of what a solver thought of its own answer."""
    thought = {True: "it is right", False: "it is wrong", None: "it does not say"}[critique.claim]
    return f"its own critique, before it was judged: {thought}"


def cut(text: str, limit: int) -> str:
    """As much of a foreign text as is shown of it."""
    kept = text if len(text) <= limit else f"{text[:limit]}\n… ({len(text)} characters in all)"
    return visible(kept)


def visible(text: str) -> str:
    """Text as it is, but for characters that are not seen, reorder their neighbours, or are no characters."""
    return text.translate(_VISIBLE).encode("utf-8", "backslashreplace").decode()


@cache
def world_of(name: str) -> type[World]:
    """The class of a world, for what it says of its tasks. Of one that is not installed here, they are shown as they
    are stored."""
    try:
        return registry.get("worlds", name)
    except UserError:
        return World


def _shared(groups: Mapping[tuple[str, str], set[int]], limit: int) -> set[int]:
    """Members of all groups, the same number from each where they have them, early and late ones alike."""
    lists = [_scattered(sorted(members)) for _, members in sorted(groups.items())]
    chosen: set[int] = set()
    for turn in range(max(map(len, lists), default=0)):
        for members in lists:
            if len(chosen) < limit and turn < len(members):
                chosen.add(members[turn])
    return chosen


def _scattered(items: Iterable[Any]) -> list[Any]:
    """In an order whose every beginning is spread over the whole: by the digits of the position, reversed."""
    listed = list(items)
    width = max(len(listed) - 1, 0).bit_length()
    order = sorted(range(len(listed)), key=lambda at: int(f"{at:0{width}b}"[::-1], 2) if width else 0)
    return [listed[at] for at in order]


def _spread(items: Sequence[Any] | range | np.ndarray, count: int) -> list[Any]:
    """At most `count` of the items at even distances, the first and the last among them."""
    if len(items) <= count:
        return list(items)
    return [items[int(at)] for at in np.linspace(0, len(items) - 1, count).round()]
