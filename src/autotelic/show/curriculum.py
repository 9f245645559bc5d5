"""The part of a report that shows where the curriculum led: what it wanted, what it got, what it made of it."""

from __future__ import annotations

from collections.abc import Iterable

from autotelic.show.markup import Page, change, grid, kind_lines, lines, ranked, table, text

_MAX_CHARTS = 12  # of a group whose names come from the run

# What curricula report of themselves: name → title, note. Others are shown by their names.
_OWN = {
    "rung": ("Rung", "0 easy, 1 medium, 2 hard"),
    "success": ("Success on the rung", "share of the last attempts; what decides the next move"),
    "hardness": ("Hardness", "of attempted tasks, 0 to 1: half how they look, half what attempts said"),
    "learnability": ("Learnability of what is wanted", "posterior mean of p(1 - p), by how likely each cell is drawn"),
    "cells": ("Cells", "of features that have tasks in them"),
    "cells_beside": ("Cells beside", "without tasks, next to one that has some"),
    "progress": ("Absolute learning progress", "mean of a step's tasks"),
    "components": ("Components", "of the mixture last fitted"),
    "score": ("Score", "mean of the tasks that may be practised"),
    "staleness": ("Staleness", "steps since the last attempt, mean of the tasks that may be practised"),
    "levels": ("Tasks remembered", "that may be practised"),
    "practised": ("Practice chosen", "archived tasks that the curriculum chose in a step"),
}
_SHARES = ("success", "hardness")
_ASKED = ("difficulty", "wanted", "practised")


def path(page: Page) -> str:
    """Nothing at all where there was no curriculum."""
    found = {kind: page.curves.under(f"curriculum/{kind}") for kind in page.kinds}
    if not any(found.values()):
        return ""
    note = "share of attempts that should fail; the mean of a step's requests"
    cards = [kind_lines(page, "Wanted difficulty", note, "curriculum/{kind}/difficulty", share=True)]
    cards += [_wanted_and_got(page, kind) for kind in page.kinds]
    own = {name for figures in found.values() for name in figures if name not in _ASKED and "/" not in name}
    for name in ranked(own | {"practised"}, _OWN, _MAX_CHARTS):
        title, note = _OWN.get(name, (name, ""))
        cards.append(kind_lines(page, title, note, f"curriculum/{{kind}}/{name}", share=name in _SHARES))
    for what, title in (("wanted", "Wanted"), ("practised", "Practised")):
        for name in _features(page, what)[:_MAX_CHARTS]:
            pattern = f"curriculum/{{kind}}/{what}/{name}"
            cards.append(kind_lines(page, f"{title}: {name}", "mean of a step, in the world's units", pattern))
    return f"{_summary(page)}{grid(cards)}"


def _features(page: Page, *groups: str) -> list[str]:
    names: Iterable[str] = (
        name for group in groups for kind in page.kinds for name in page.curves.under(f"curriculum/{kind}/{group}")
    )
    return sorted(set(names))


def _wanted_and_got(page: Page, kind: str) -> str:
    """How far a proposer follows: the share that should fail beside the share of attempts at new tasks that did."""
    rows = {
        "wanted": page.curves.get(f"curriculum/{kind}/difficulty"),
        "new tasks": 1 - page.curves.get(f"propose/{kind}/solve_rate"),
    }
    if not page.curves.has(f"curriculum/{kind}/difficulty"):
        return ""
    note = "share of attempts that fail: wanted, and at the tasks then proposed"
    return lines(page, f"Wanted and got: {kind}", note, rows, {"wanted": "dark", "new tasks": "orange"}, share=True)


def _summary(page: Page) -> str:
    """Which features were favoured, first and last: wanted, proposed, practised."""
    rows = []
    for kind in page.kinds:
        for name in _features(page, "wanted", "practised"):
            names = (
                f"curriculum/{kind}/wanted/{name}",
                f"propose/{kind}/feature/{name}",
                f"curriculum/{kind}/practised/{name}",
            )
            if page.curves.has(names[0]) or page.curves.has(names[2]):
                ends = (change(page.curves.first_and_last(full), share=False) for full in names)
                rows.append((f"{kind}: {name}", *ends))
    if not rows:
        return ""
    chosen = page.run.config().get("curriculum")
    name = chosen.get("name", "") if isinstance(chosen, dict) else ""
    return (
        f'<div class="card"><h3>{text(f"Features favoured by {name}" if name else "Features favoured")}</h3>'
        '<p class="soft">Means of the first tenth of the steps → of the last: what the curriculum wanted, what new '
        "tasks had, and what the archived tasks had that it chose to practise.</p>"
        f"{table(('feature', 'wanted', 'proposed', 'practised'), rows)}</div>"
    )
