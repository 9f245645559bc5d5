"""What an archive holds, row by row: how tasks, answers and verdicts are stored, and how they are read back.

Nothing here changes a file; `Archive` adds the writing and the active set.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotelic.errors import UserError
from autotelic.play.store import TABLES, Store
from autotelic.worlds.base import Answer, Plain, Task, Verdict

_PAGE = 1000  # rows a query of a long iteration

_TASK = "t.id, t.world, t.kind, s.spec, s.features"
_VERDICT = "v.solved, v.outcome, v.score, v.detail, v.metrics, v.timings, v.version, v.seed"


@dataclass(frozen=True)
class Entry:
    """A task with what the run knows of it."""

    n: int  # its row number: the order of archiving
    step: int
    task: Task
    sample: int | None  # the proposal it came from
    attempts: int  # judged attempts that are evidence
    solved: int
    retired_step: int | None
    retired_why: str | None


@dataclass(frozen=True)
class Attempt:
    """One judged answer to a task."""

    step: int
    sample: int
    answer: Answer
    reward: float | None
    verdict: Verdict


class Records:
    """Reads one archive file: tasks by id, pages for people, verdicts for judging again, sums a step, the digest."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def path(self) -> Path:
        return self._store.path

    def rows_of(self, ids: Collection[str]) -> dict[str, int]:
        """Row numbers by id; a KeyError names an id that is not archived."""
        rows = dict(
            self._store.rows(
                "SELECT id, n FROM tasks WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
            )
        )
        if len(rows) < len(ids):
            raise KeyError(f"task {min(set(ids) - set(rows))} is not in the archive")
        return rows

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of the ids that are archived, active or retired."""
        listed = json.dumps(list(ids))
        found = self._store.rows("SELECT id FROM tasks WHERE id IN (SELECT value FROM json_each(?))", (listed,))
        return {id for (id,) in found}

    def task(self, id: str) -> Task:
        return self.tasks_at([self.rows_of({id})[id]])[0]

    def tasks_at(self, rows: Sequence[int]) -> list[Task]:
        """Tasks by row number, in the order of the rows."""
        found = {
            n: self._task(*columns)
            for n, *columns in self._store.rows(
                f"SELECT t.n, {_TASK} FROM tasks t JOIN specs s ON s.n = t.n "
                "WHERE t.n IN (SELECT value FROM json_each(?))",
                (json.dumps(list(rows)),),
            )
        }
        if len(found) < len(set(rows)):
            raise self._damaged(f"task row {min(set(rows) - set(found))} has lost its content")
        return [found[n] for n in rows]

    def tasks(
        self, kind: str | None = None, active: bool | None = None, after: int = 0, limit: int = 100
    ) -> list[Entry]:
        """One page of tasks in the order of archiving; go on with `after` = the last entry's `n`."""
        where: list[str] = ["t.n > ?"]
        parameters: list[Any] = [after]
        if kind is not None:
            where.append("t.kind = ?")
            parameters.append(kind)
        if active is not None:
            where.append(f"t.retired_step IS {'' if active else 'NOT'} NULL")
        return [
            Entry(n, step, self._task(*columns), sample, attempts, solved, retired_step, retired_why)
            for n, step, sample, attempts, solved, retired_step, retired_why, *columns in self._store.rows(
                f"SELECT t.n, t.step, t.sample, t.attempts, t.solved, t.retired_step, t.retired_why, {_TASK} "
                f"FROM tasks t JOIN specs s ON s.n = t.n WHERE {' AND '.join(where)} ORDER BY t.n LIMIT ?",
                (*parameters, limit),
            )
        ]

    def beginning(self, prefix: str, limit: int) -> list[str]:
        """Ids of tasks that begin so, in the order of the alphabet."""
        found = self._store.rows(
            "SELECT id FROM tasks WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", (prefix, f"{prefix}\U0010ffff", limit)
        )
        return [id for (id,) in found]

    def newest_solved(self, kind: str) -> str | None:
        """The task of a kind that was solved last."""
        return self._store.value(
            "SELECT t.id FROM verdicts v JOIN tasks t ON t.n = v.task WHERE v.solved AND t.kind = ? "
            "ORDER BY v.n DESC LIMIT 1",
            (kind,),
        )

    def solved(self, id: str) -> list[bool]:
        """Of every judged answer to a task, in order, whether it solved it."""
        rows = (self.rows_of({id})[id],)
        found = self._store.rows("SELECT solved FROM verdicts WHERE task = ? ORDER BY n", rows)
        return [bool(solved) for (solved,) in found]

    def attempts(self, id: str, limit: int = 100, skip: int = 0) -> list[Attempt]:
        """Judged answers to a task, in order: the first, or those after the first few."""
        return [
            Attempt(step, sample, self._answer(text, claim), reward, self._verdict(*columns))
            for step, sample, text, claim, reward, *columns in self._store.rows(
                f"SELECT v.step, v.sample, a.text, p.claim, p.reward, {_VERDICT} FROM verdicts v "
                "JOIN samples p ON p.n = v.sample JOIN answers a ON a.n = p.answer "
                "WHERE v.task = ? ORDER BY v.n LIMIT ? OFFSET ?",
                (self.rows_of({id})[id], limit, skip),
            )
        ]

    def critiques(self, sample: int) -> list[Answer]:
        """What a solver thought of an answer of its own, by the answer's sample, before it was judged; the claim is
        what it thought would come of it. Equal answers to a task in one step share what was thought of them."""
        found = self._store.rows(
            "SELECT said.text, c.claim FROM samples p JOIN answers a ON a.n = p.answer "
            "JOIN samples c ON c.step = p.step AND c.task = p.task AND c.role = 'criticise' "
            "JOIN lineage l ON l.sample = c.n AND l.relation = 'parent' AND l.target = a.address "
            "JOIN answers said ON said.n = c.answer WHERE p.n = ? ORDER BY c.n",
            (sample,),
        )
        return [self._answer(text, claim) for text, claim in found]

    def solved_answer(self, address: str) -> str | None:
        """The text of an answer that has solved a task, by its content address."""
        found = self._store.all(
            "SELECT a.text FROM answers a WHERE a.address = ? AND EXISTS (SELECT 1 FROM samples p "
            "JOIN verdicts v ON v.sample = p.n WHERE p.answer = a.n AND v.solved)",
            (address,),
        )
        return self._text(found[0][0]) if found else None

    def lineage(self, sample: int) -> list[tuple[str, str]]:
        """(relation, target) of a sample: "reference" and a task id, "parent" and the content address of the
        answer that it retries or criticises."""
        return [
            (relation, target)
            for relation, target in self._store.rows(
                "SELECT relation, target FROM lineage WHERE sample = ? ORDER BY n", (sample,)
            )
        ]

    def verdict_rows(self) -> Iterator[tuple[Task, Answer, Verdict, int]]:
        """Every verdict in order, with its task, its answer and its sample's number: what judging again needs."""
        sql = (
            f"SELECT v.n, v.sample, a.text, p.claim, {_TASK}, {_VERDICT} FROM verdicts v "
            "JOIN tasks t ON t.n = v.task JOIN specs s ON s.n = v.task "
            "JOIN samples p ON p.n = v.sample JOIN answers a ON a.n = p.answer WHERE v.n > ? ORDER BY v.n LIMIT ?"
        )
        for _, sample, text, claim, *columns in self._paged(sql):
            yield self._task(*columns[:5]), self._answer(text, claim), self._verdict(*columns[5:]), sample

    def sample_rows(self) -> Iterator[dict[str, Any]]:
        """Every sample in order, as plain data."""
        names = ("n", "step", "role", "kind", "task", "claim", "reward", "text")
        sql = (
            "SELECT p.n, p.step, p.role, p.kind, t.id, p.claim, p.reward, a.text FROM samples p "
            "JOIN answers a ON a.n = p.answer LEFT JOIN tasks t ON t.n = p.task WHERE p.n > ? ORDER BY p.n LIMIT ?"
        )
        for *columns, claim, reward, text in self._paged(sql):
            claimed = None if claim is None else bool(claim)
            row = dict(zip(names, (*columns, claimed, reward, self._text(text)), strict=True))
            yield {"type": "sample", **row}

    def rejection_rows(self) -> Iterator[dict[str, Any]]:
        """Every rejection in order, as plain data."""
        names = ("n", "step", "kind", "sample", "outcome", "reason")
        sql = f"SELECT {', '.join(names)} FROM rejections WHERE n > ? ORDER BY n LIMIT ?"
        for *columns, reason in self._paged(sql):
            yield {"type": "rejection", **dict(zip(names, (*columns, self._text(reason)), strict=True))}

    def _paged(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """All rows of a query that starts after a row number, page by page: one long read would keep SQLite from
        emptying the log of a run that goes on."""
        last = 0
        while True:
            page = self._store.all(sql, (last, _PAGE))
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1][0]

    def digest(self) -> str:
        """A hash of all content but timings: equal for two archives if and only if their content is equal."""
        digest = hashlib.sha256()
        for table in TABLES:
            columns = [name for _, name, *_ in self._store.rows(f"PRAGMA table_info({table})") if name != "timings"]
            digest.update(f"{table} {columns}\n".encode())
            for row in self._paged(f"SELECT {', '.join(columns)} FROM {table} WHERE n > ? ORDER BY n LIMIT ?"):
                digest.update(repr(row).encode("utf-8"))
        return digest.hexdigest()

    def _damaged(self, what: str) -> UserError:
        return UserError(f"archive {self.path} is damaged: {what}; restore a copy of it")

    def _plain(self, stored: str) -> Any:
        try:
            return json.loads(stored)
        except (TypeError, ValueError) as error:
            raise self._damaged(f"{stored[:40]!r} is not the JSON that was written") from error

    def _text(self, stored: str | bytes) -> str:
        try:
            return from_text(stored)
        except ValueError as error:
            raise self._damaged(f"{stored[:40]!r} is not text") from error

    def _task(self, id: str, world: str, kind: str, spec: str, features: str) -> Task:
        return Task(id, world, kind, self._plain(spec), self._plain(features))

    def _answer(self, text: str | bytes, claim: int | None) -> Answer:
        return Answer(self._text(text), None if claim is None else bool(claim))

    def _verdict(
        self, solved: int, outcome: str, score: float, detail: str, metrics: str, timings: str, version: str, seed: str
    ) -> Verdict:
        figures = {**self._plain(metrics), **self._plain(timings)}
        return Verdict(bool(solved), outcome, score, self._text(detail), figures, version, int(seed))


def finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}; an archive holds finite numbers")
    return float(value)


def to_json(value: Plain) -> str:
    return json.dumps(value if not isinstance(value, Mapping) else dict(value), allow_nan=False, separators=(",", ":"))


def to_figures(values: Mapping[str, float]) -> str:
    return to_json({name: finite(name, value) for name, value in values.items()})


def to_text(text: str) -> str | bytes:
    """Text as SQLite takes it. Half a surrogate pair, which a model may well write, is no UTF-8: kept as bytes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def from_text(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")
