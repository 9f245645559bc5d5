"""The part of a report that shows attempts at work: a few tasks of many sorts, each with an answer, what came of it and
pictures of it, for which it was run again."""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotelic.errors import UserError
from autotelic.play.records import Attempt, Records
from autotelic.play.store import Store
from autotelic.show.figures import in_order
from autotelic.show.markup import Page, number, text, two
from autotelic.show.plots import short
from autotelic.show.rates import NAMED, PLACED, THIRDS
from autotelic.show.specimens import cut, said_of_itself
from autotelic.worlds.base import Answer, Task, World

CARDS = 12
PICTURES, WIDTH, HEIGHT, COLUMNS = 6, 160, 120, 3  # of a card
COLOURS = 128  # of its sheet: half the bytes, and hardly to be told apart
CHARACTERS = 3000  # of one text
PATIENCE = 30.0  # seconds after which no more pictures are made


@dataclass(frozen=True)
class Exhibit:
    """One judged attempt that was chosen to be shown."""

    task: Task
    attempt: Attempt
    critiques: Sequence[Answer]  # what the solver thought of it
    number: int  # of the attempt among those at its task
    count: int
    sort: str  # a predicate of its goal
    third: str  # how hard it looks among tasks of its kind; empty where all look the same


def chosen(path: Path, goals: Mapping[str, str], limit: int = CARDS) -> list[Exhibit]:
    """Attempts that together show as much as can be: kinds, predicates, outcomes, easy and hard. Always the same."""
    if not path.exists():
        return []
    store = Store.open(path, readonly=True)
    try:
        store.write("BEGIN")  # one look at the file
        rows = [
            (verdict, task, (kind, name, outcome, bool(solved), third))
            for kind, goal in goals.items()
            for name, outcome, solved, third, task, verdict in store.rows(
                f"WITH {NAMED}, {PLACED} "
                "SELECT named.name, v.outcome, v.solved, placed.third, v.task, max(v.n) FROM verdicts v "
                "JOIN named ON named.n = v.task LEFT JOIN placed ON placed.n = v.task WHERE v.evidence "
                "GROUP BY 1, 2, 3, 4",
                (kind, goal),
            )
        ]
        picked = _spread(rows, limit)
        kinds = in_order(kind for _, _, (kind, *_) in picked)[::-1]  # those whose answers act come first
        picked.sort(key=lambda row: (kinds.index(row[2][0]), row[2][1], not row[2][3], row[0]))
        return [_exhibit(store, *row) for row in picked]
    finally:
        store.close()


_Row = tuple[int, int, tuple[str, str, str, bool, int | None]]  # verdict, task, and what there is to tell them apart


def _spread(rows: Sequence[_Row], limit: int) -> list[_Row]:
    """One after the other, each time what is least like those that were taken before; of equals the newest. No task
    comes twice."""
    seen, taken, left = Counter(), list[_Row](), sorted(rows, reverse=True)
    while left and len(taken) < limit:
        best = max(left, key=lambda row: sum(1 / (1 + seen[label]) for label in _labels(row)))
        taken.append(best)
        seen.update(_labels(best))
        left = [row for row in left if row[1] != best[1]]
    return taken


def _labels(row: _Row) -> list[tuple[object, ...]]:
    """What attempts have in common: of each kind there shall be solved ones and failed ones, easy ones and hard."""
    kind, name, outcome, solved, third = row[2]
    return [(kind,), (name,), (kind, solved), (kind, "outcome", outcome), (kind, "third", third)]


def _exhibit(store: Store, verdict: int, row: int, labels: tuple[str, str, str, bool, int | None]) -> Exhibit:
    records = Records(store)
    (task,) = records.tasks_at([row])
    before, count = store.all("SELECT sum(n < ?), count(*) FROM verdicts WHERE task = ?", (verdict, row))[0]
    (attempt,) = records.attempts(task.id, limit=1, skip=before)
    third = "" if labels[4] is None else THIRDS[labels[4]]
    return Exhibit(task, attempt, records.critiques(attempt.sample), before + 1, count, labels[1], third)


def shown(page: Page, kind_of_world: type[World], world: World | None = None) -> str:
    """Cards, where there is something to see of a world's attempts. `world` runs them again for the pictures; without
    it, the cards say how to see them."""
    if not kind_of_world.seen:
        return ""
    exhibits = chosen(page.run.archive, kind_of_world.goals)
    without = _soft("No pictures: they are drawn when a run reaches its bound. The command below films the attempt.")
    pictures = _pictures(world, exhibits) if world is not None else [without] * len(exhibits)
    note = (
        '<p class="note">Some of the attempts, chosen to differ in kind, predicate, outcome and difficulty. Pictures '
        "are of the attempt run again, exactly as it was judged, and where there were several starts of the last.</p>"
    )
    cards = [_card(page, kind_of_world, *pair) for pair in zip(exhibits, pictures, strict=True)]
    return (note if cards else "") + two(cards, "No task has been attempted yet.")


def _pictures(world: World, exhibits: Sequence[Exhibit]) -> list[str]:
    """What stands in the place of pictures: they themselves, or a line that says why there are none."""
    from autotelic.show.video import contact_sheet, drawing

    found: list[str] = []
    refused, end = "", time.monotonic() + PATIENCE
    for exhibit in exhibits:
        if not refused and time.monotonic() > end:
            refused = "No pictures: those before took too long to draw."
        if refused:
            found.append(_soft(refused))
            continue
        verdict = exhibit.attempt.verdict
        try:
            replay = world.replay(exhibit.task, exhibit.attempt.answer, verdict.seed)
        except UserError as error:
            found.append(_soft(f"No pictures: {error}"))
            continue
        if not replay.clips:
            found.append(_soft("No pictures: nothing came to be run."))
            continue
        clip = replay.clips[-1]
        try:
            with drawing("the attempt"):
                numbers = sorted({round(at) for at in np.linspace(0, clip.count - 1, PICTURES)})
                drawn = [(at / clip.fps, clip.draw(at, WIDTH, HEIGHT)) for at in numbers]
        except UserError as error:  # nor can the others be
            refused = f"No pictures: {error}"
            found.append(_soft(refused))
            continue
        same = replay.verdict.judgement == verdict.judgement
        found.append(
            _image(contact_sheet(drawn, COLUMNS, COLOURS))
            + ("" if same else _soft(f"It is not as it was judged: now it is {replay.verdict.judgement}."))
        )
    return found


def _image(sheet: bytes) -> str:
    source = f"data:image/png;base64,{base64.b64encode(sheet).decode()}"
    return f'<img src="{source}" alt="pictures of the attempt, with their times">'


def _soft(line: str) -> str:
    return f'<p class="soft">{text(line)}</p>'


def _card(page: Page, world: type[World], exhibit: Exhibit, picture: str) -> str:
    task, attempt = exhibit.task, exhibit.attempt
    verdict = attempt.verdict
    (_, about), *parts = [(title, cut(words, CHARACTERS)) for title, words in world.readable(task)] or [("", "")]
    title = ", ".join(filter(None, (task.kind, exhibit.sort, exhibit.third)))
    facts = [f"attempt {exhibit.number} of {exhibit.count}", f"step {attempt.step}", f"score {short(verdict.score)}"]
    facts += [f"reward {short(attempt.reward)}"] if attempt.reward is not None else []
    measured = {name: number(value) for name, value in verdict.metrics.items() if name != "state"}
    pills = "".join(
        f"<span>{text(name)} {short(value)}</span>" for name, value in measured.items() if value is not None
    )
    blocks = [*parts, ("answer", cut(attempt.answer.text, CHARACTERS) or "(empty)")]
    blocks += [(said_of_itself(each), cut(each.text, CHARACTERS) or "(empty)") for each in exhibit.critiques]
    command = f"autotelic watch {page.run.name} task={task.id[:12]} attempt={exhibit.number}"
    return (
        f'<figure class="card exhibit"><h3>{text(title)}</h3><figcaption>{text(about)}</figcaption>{picture}'
        f'<p><span class="{"good" if verdict.solved else "bad"}">{text(verdict.outcome)}</span> '
        f'<span class="soft">{text(" · ".join(facts))}</span></p>'
        + (_soft(cut(verdict.detail, CHARACTERS)) if verdict.detail else "")
        + "".join(_block(title, words) for title, words in blocks)
        + (f'<p class="pills soft">{pills}</p>' if pills else "")
        + f"<p><code>{text(command)}</code></p></figure>"
    )


def _block(title: str, words: str) -> str:
    """A text below its title; plain data is folded away."""
    opened = "" if words.startswith("{") else " open"
    return f"<details{opened}><summary>{text(title)}</summary><pre>{text(words)}</pre></details>"
