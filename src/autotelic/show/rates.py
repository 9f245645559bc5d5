"""The part of a report that shows which attempts succeed: by what goals are made of, and by how hard tasks look.

All is counted in the archive's own file: what comes out of it is one row a step and line, however many tasks there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from autotelic.play.store import Store
from autotelic.show import plots
from autotelic.show.figures import ends
from autotelic.show.markup import Page, card, change, grid, percent
from autotelic.show.plots import Curve

THIRDS = ("easy", "medium", "hard")
_LINES = 6  # of a chart
_CHARTS = 3  # of a kind: names come from the run
_COLOURS = ("blue", "orange", "green", "red", "purple", "sky")

Rates = dict[str, dict[int, tuple[int, int]]]  # by name and step: attempts that solved their task, and all

# Attempted tasks of a kind (?1) with the names of what their goals (at ?2) are made of, each name once a task.
NAMED = """named AS (
    SELECT DISTINCT t.n, CAST(json_extract(p.value, '$[0]') AS TEXT) AS name
    FROM tasks t JOIN specs s ON s.n = t.n, json_each(s.spec, ?2) p
    WHERE t.kind = ?1 AND t.attempts > 0 AND p.type = 'array' AND json_array_length(p.value) > 0)"""
# Attempted tasks of a kind (?1) in thirds, as curricula see them: a feature's place among its distinct values, the mean
# of a task's places, and of that the rank among tasks, in the middle of those that are alike.
PLACED = """valued AS (
    SELECT t.n, f.key, f.value FROM tasks t JOIN specs s ON s.n = t.n, json_each(s.features) f
    WHERE t.kind = ?1 AND t.attempts > 0),
ranked AS (SELECT n, key, dense_rank() OVER (PARTITION BY key ORDER BY value) - 1.0 AS rank FROM valued),
widest AS (SELECT key, max(rank) AS most FROM ranked GROUP BY key HAVING max(rank) > 0),
looking AS (SELECT n, avg(rank / most) AS hard FROM ranked JOIN widest USING (key) GROUP BY n),
placed AS (
    SELECT n, min(2, CAST(1.5 * ((rank() OVER w - 1.0) / (count(*) OVER ()) + cume_dist() OVER w) AS INTEGER)) AS third
    FROM looking WINDOW w AS (ORDER BY hard))"""


def by_predicate(store: Store, kind: str, goal: str) -> Rates:
    """Of tasks whose goal has a predicate of that name. `goal` says where goals stand in a spec, as `World.goals`."""
    sql = (
        f"WITH {NAMED} SELECT named.name, v.step, sum(v.solved), count(*) FROM verdicts v "
        "JOIN named ON named.n = v.task WHERE v.evidence GROUP BY 1, 2"
    )
    return _rates(store.rows(sql, (kind, goal)))


def by_difficulty(store: Store, kind: str) -> Rates:
    """Of tasks that look easy, medium and hard: a third of them each. Empty where all look the same."""
    sql = (
        f"WITH {PLACED} SELECT placed.third, v.step, sum(v.solved), count(*) FROM verdicts v "
        "JOIN placed ON placed.n = v.task WHERE v.evidence GROUP BY 1, 2"
    )
    found = _rates((THIRDS[third], *row) for third, *row in store.rows(sql, (kind,)))
    return {third: found[third] for third in THIRDS if third in found}


def _rates(rows: Iterable[tuple]) -> Rates:
    found: Rates = {}
    for name, step, solved, attempts in rows:
        found.setdefault(name, {})[step] = solved, attempts
    return found


def shown(page: Page, goals: Mapping[str, str]) -> str:
    """Charts of every kind whose goals can be found; nothing at all where there are none."""
    path: Path = page.run.archive
    if not goals or not path.exists():
        return ""
    store, cards = Store.open(path, readonly=True), []
    try:
        store.write("BEGIN")  # one look at the file
        for kind in (kind for kind in page.kinds if kind in goals):
            rates = by_predicate(store, kind, goals[kind])
            ordered = sorted(rates, key=lambda name: (-_total(rates[name])[1], name))
            for at, names in _charts(ordered):
                title = f"Solve rate by predicate: {kind}{f', from the {at + 1}th' if at else ''}"
                cards.append(_chart(page, title, "in a task's goal, the most attempted first", rates, names))
            thirds = by_difficulty(store, kind)
            note = "thirds of the tasks, by the ranks of their features, as curricula see them"
            cards.append(_chart(page, f"Solve rate by difficulty: {kind}", note, thirds, list(thirds)))
    finally:
        store.close()
    return grid(cards)


def _charts(names: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Names for as few charts as they fit in, about the same number each, with the place of each chart's first."""
    shown = list(names[: _LINES * _CHARTS])
    size = -(-len(shown) // max(1, -(-len(shown) // _LINES)))
    for at in range(0, len(shown), max(size, 1)):
        yield at, shown[at : at + size]


def _total(rate: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    return sum(solved for solved, _ in rate.values()), sum(attempts for _, attempts in rate.values())


def _chart(page: Page, title: str, note: str, rates: Rates, names: Sequence[str]) -> str:
    if not names:
        return ""
    steps = page.curves.steps
    curves, entries = [], []
    for name, colour in zip(names, _COLOURS, strict=False):
        counts = [rates[name].get(int(step), (0, 0)) for step in steps]
        row = np.array([solved / attempts if attempts else np.nan for solved, attempts in counts])
        solved, attempts = _total(rates[name])
        over_time = f", {change(ends(row))}" if len(row) > 1 and ends(row) else ""
        curves.append(Curve(name, colour, row))
        entries.append((name, colour, f"{percent(solved / attempts)} of {attempts:,}{over_time}"))
    return card(title, note, plots.lines(title, steps, curves, percent=True), entries)
