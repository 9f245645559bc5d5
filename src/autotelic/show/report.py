"""report.html: one file that shows a run. It opens from disk, loads nothing from elsewhere, and runs no foreign text.

What players wrote reaches the page of a run of self-play in two ways only: escaped, or as JSON whose every `<`, `>` and
`&` is a \\u escape and which the page's own script sets as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotelic.runs.directory import Run, find
from autotelic.runs.files import write_atomic
from autotelic.show import curriculum, gallery, learned, plots, rates, specimens, train_report
from autotelic.show.document import asset, configuration, cost, document, minutes, tiles
from autotelic.show.figures import Curves, in_order
from autotelic.show.markup import Page, card, change, embedded, grid, table, text, two
from autotelic.show.plots import Curve
from autotelic.worlds.base import World

_MAX_LAYERS = 9  # of a stack; the rest is one layer
_LEDGER = {
    "forged_results": ("forged results", "red"),
    "false_claims": ("false claims", "orange"),
    "forbidden_calls": ("forbidden calls", "blue"),
    "escapes_attempted": ("escapes attempted", "purple"),
}
_PHASES = {
    "propose": "blue",
    "admit": "sky",
    "attempt": "orange",
    "judge": "green",
    "learn": "purple",
    "archive": "grey",
}
_WORK = {
    "generating": ("propose", "attempt"),
    "judging": ("admit", "judge"),
    "learning": ("learn",),
    "archiving": ("archive",),
}


def write_report(run_path: str | Path, world: World | None = None) -> Path:
    """Writes report.html into a run's directory, also while the run goes on, and returns its path. `world`, that of a
    run of self-play, is asked for pictures of attempts where it has any."""
    with Run.open(find(run_path), readonly=True) as run:
        shown = train_report.shown(run) if run.meta.get("verb") == "train" else _shown(run, world)
        write_atomic(run.report, shown)
        return run.report


def _shown(run: Run, world: World | None) -> str:
    """A run of self-play."""
    curves = Curves.read(run.metrics.path)
    counts = specimens.counts(run.archive)
    result = run.result() or {}
    kinds = in_order({*curves.kinds(), *counts.get("kinds", {})})
    exams = {*result.get("heldout", {}), *(name for name in curves.under("heldout") if "/" not in name)}
    page = Page(run, curves, result, counts, kinds, plots.kind_colours([*kinds, *exams]))
    sample = specimens.sample(run.archive, curves)
    kind_of_world = specimens.world_of(_world_name(run, result))
    exhibits = gallery.shown(page, kind_of_world, world)
    spent = cost(page, _PHASES, _WORK)
    sections = [
        ("headline", "Headline", _headline(page)),
        ("heldout", "Held-out accuracy", learned.heldout(page)),
        ("players", "Proposing and solving", learned.players(page)),
        ("difficulty", "Difficulty", learned.difficulty(page)),
        ("rates", "Solve rates", rates.shown(page, kind_of_world.goals)),
        ("curriculum", "Curriculum", curriculum.path(page)),
        ("learner", "Learning", learned.learner(page)),
        ("outcomes", "Outcomes", _outcomes(page)),
        ("gallery", "Gallery", exhibits),
        ("tasks", "Tasks and answers", _browser(page, sample)),
        ("cost", "Cost", two(spent, "No time was measured yet.")),
        ("configuration", "Configuration", configuration(page)),
    ]
    subject = f"world {result['world']}" if result.get("world") else ""
    data = embedded(sample)
    return document(page, subject, sections, script=asset("page.js"), data=data, pictures=bool(exhibits))


def _world_name(run: Run, result: Mapping[str, Any]) -> str:
    """As the run says at its end, or as it was asked."""
    section = run.config().get("world")
    return str(result.get("world") or (section.get("name") if isinstance(section, dict) else "") or "")


# --- sections -------------------------------------------------------------------------------------------------------


def _headline(page: Page) -> str:
    curves, counts = page.curves, page.counts
    steps = int(curves.steps.max()) if len(curves.steps) else 0
    spent, active = minutes(page), sum(counts.get("active", {}).values())
    shown = tiles(
        [
            (f"{steps:,}", "steps", ""),
            (f"{spent:.1f}" if spent is not None else "-", "minutes", ""),
            (f"{counts.get('tasks', 0):,}", f"tasks archived, {active:,} active", ""),
            (f"{counts.get('verdicts', 0):,}", "answers judged", ""),
            (f"{counts.get('rejections', 0):,}", "proposals rejected", ""),
            _cheating_tile(page),
        ]
    )
    return f'{shown}<div class="two">{learned.heldout_table(page)}{_by_kind(page)}</div>'


def _ledger(page: Page) -> dict[str, int]:
    """Sums over the steps measured; what the run itself says where there are no metrics."""
    summed = {name: int(np.nansum(row)) for name, row in page.curves.under("cheating").items()}
    said = page.result.get("cheating")
    return summed or ({name: int(n) for name, n in said.items()} if isinstance(said, dict) else {})


def _cheating_tile(page: Page) -> tuple[str, str, str]:
    ledger = _ledger(page)
    parts = ", ".join(f"{n:,} {_LEDGER.get(name, (name, ''))[0]}" for name, n in ledger.items() if n)
    return f"{sum(ledger.values()):,}", f"in the cheating ledger: {parts or 'nothing'}", " warn" if parts else ""


def _by_kind(page: Page) -> str:
    if not page.kinds:
        return '<div class="card"><h3>By kind</h3><p class="soft">No step has been taken yet.</p></div>'
    rows = []
    for kind in page.kinds:
        tasks, active = (page.counts.get(name, {}).get(kind, 0) for name in ("kinds", "active"))
        shares = [
            change(page.curves.first_and_last(name))
            for name in (f"propose/{kind}/valid_share", f"solve/{kind}/solve_rate")
        ]
        rows.append((kind, f"{tasks:,}", f"{active:,}", *shares))
    retired = ", ".join(f"{n:,} {why}" for why, n in page.counts.get("retired", {}).items())
    note = f'<p class="soft">Retired: {text(retired)}.</p>' if retired else ""
    columns = ("kind", "tasks", "active", "valid", "solved")
    return (
        '<div class="card"><h3>By kind</h3><p class="soft">Shares of proposals that are valid and of attempts that '
        f"solve: mean of the first tenth of the steps → mean of the last.</p>{table(columns, rows)}{note}</div>"
    )


def _outcomes(page: Page) -> str:
    cards = []
    admitted = specimens.admitted(page.run.archive, page.curves)
    for kind in page.kinds:
        became = page.curves.under(f"propose/{kind}/rejected")
        if kind in admitted:
            became = {"admitted": admitted[kind], **became}
        cards.append(_stack(page, f"Proposals: {kind}", became))
    cards += [_stack(page, f"Answers: {kind}", page.curves.under(f"solve/{kind}/outcome")) for kind in page.kinds]
    ledger = page.curves.under("cheating")
    if ledger:
        names = {name: _LEDGER.get(name, (name, "grey")) for name in ledger}
        totals = _ledger(page)
        entries = [(label, colour, f"{totals[name]:,}") for name, (label, colour) in names.items()]
        layers = [Curve(names[name][0], names[name][1], row) for name, row in ledger.items()]
        plot = '<p class="soft">Nothing was seen.</p>'
        if any(totals.values()):
            plot = plots.stack("cheating ledger", page.curves.steps, layers, share=False)
        cards.append(card("Cheating ledger", "attempts a step to get the reward without the task", plot, entries))
    return grid(cards, "Nothing was judged yet.")


def _stack(page: Page, title: str, layers: Mapping[str, Any]) -> str:
    """The greatest classes of their own, all others as one; good outcomes at the bottom."""
    if not layers:
        return ""
    totals = {name: float(np.nansum(row)) for name, row in layers.items()}
    ranked = sorted(totals, key=lambda name: (name not in ("admitted", "correct"), -totals[name], name))
    own, others = ranked[:_MAX_LAYERS], ranked[_MAX_LAYERS:]
    rows = {name: layers[name] for name in own}
    if others:
        rows[f"{len(others)} other classes"] = np.nansum([layers[name] for name in others], axis=0)
    colours = plots.class_colours(rows)
    drawn = [Curve(name, colours[name], row) for name, row in rows.items()]
    entries = [(name, colours[name], f"{np.nansum(row):,.0f}") for name, row in rows.items()]
    return card(title, "share by class, and how many in all", plots.stack(title, page.curves.steps, drawn), entries)


def _browser(page: Page, sample: Sequence[Mapping[str, Any]]) -> str:
    if not sample:
        return '<p class="soft">The archive is empty.</p><div hidden>' + _BROWSER + "</div>"
    held = page.counts.get("tasks", 0), page.counts.get("rejections", 0)
    shown = sum(item["type"] == "task" for item in sample)
    return (
        f'<p class="note">{shown:,} of {held[0]:,} tasks and {len(sample) - shown:,} of {held[1]:,} rejected '
        f"proposals, spread over kinds, outcomes and time; {text(page.run.archive.name)} has all.</p>"
        "<noscript><p>The list needs the script inside this page.</p></noscript>" + _BROWSER
    )


_BROWSER = (
    '<div class="filters"><select id="kind" aria-label="kind"></select><select id="outcome" aria-label="outcome">'
    '</select><input type="search" id="search" placeholder="search programs and answers" aria-label="search">'
    '<span class="soft" id="count"></span></div><div class="browser"><ol class="card" id="list"></ol>'
    '<div class="card detail" id="detail"></div></div>'
)
