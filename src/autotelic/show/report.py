"""report.html: one file that shows a run of self-play. It opens from disk, loads nothing, and runs no foreign text.

What players wrote reaches the page in two ways only: escaped, or as JSON whose every `<`, `>` and `&` is a \\u escape
and which the page's own script sets as text. The page's policy names the hash of that script and of the one style
sheet, so that nothing else could run even if it got in.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from autotelic.runs.directory import Run, find, holder
from autotelic.runs.files import write_atomic
from autotelic.show import learned, plots, specimens
from autotelic.show.figures import Curves, in_order
from autotelic.show.markup import Page, card, change, embedded, grid, table, text
from autotelic.show.plots import Curve

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


def write_report(run_path: str | Path) -> Path:
    """Writes report.html into a run's directory, also while the run goes on, and returns its path."""
    with Run.open(find(run_path), readonly=True) as run:
        curves = Curves.read(run.metrics.path)
        counts = specimens.counts(run.archive)
        result = run.result() or {}
        kinds = in_order({*curves.kinds(), *counts.get("kinds", {})})
        exams = {*result.get("heldout", {}), *(name for name in curves.under("heldout") if "/" not in name)}
        page = Page(run, curves, counts, result, kinds, plots.kind_colours([*kinds, *exams]))
        sample = specimens.sample(run.archive, curves)
        write_atomic(run.report, _document(page, sample))
        return run.report


def _document(page: Page, sample: list[dict[str, Any]]) -> str:
    style = plots.style_variables() + resources.files("autotelic.show").joinpath("page.css").read_text("utf-8")
    script = resources.files("autotelic.show").joinpath("page.js").read_text("utf-8")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    sections = [
        ("headline", "Headline", _headline(page)),
        ("heldout", "Held-out accuracy", learned.heldout(page)),
        ("players", "Proposing and solving", learned.players(page)),
        ("difficulty", "Difficulty", learned.difficulty(page)),
        ("learner", "Learning", learned.learner(page)),
        ("outcomes", "Outcomes", _outcomes(page)),
        ("tasks", "Tasks and answers", _browser(page, sample)),
        ("cost", "Cost", _cost(page)),
        ("configuration", "Configuration", _configuration(page)),
    ]
    sections = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{name}">{text(title)}</a>' for name, title, _ in sections)
    body = "".join(
        f'<section id="{name}"><h2>{text(title)}</h2>{content}</section>' for name, title, content in sections
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{text(page.run.name)} · Autotelic</title><style>{style}</style></head><body>"
        f"<header><div>{_title(page)}</div></header><nav><div>{links}</div></nav><main>{body}</main>"
        f"<footer>Autotelic {text(_versions(page).get('autotelic', ''))}</footer>"
        f'<script type="application/json" id="sample">{embedded(sample)}</script>'
        f"<script>{script}</script></body></html>\n"
    )


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


# --- sections -------------------------------------------------------------------------------------------------------


def _title(page: Page) -> str:
    meta = page.run.meta
    pid = holder(page.run.path)
    finished = page.result.get("finished")
    state = "running" if pid not in (None, os.getpid()) else "finished" if finished else "stopped"
    if not page.result and pid == os.getpid():
        state = "running"
    facts = [
        f"autotelic {meta.get('verb', 'play')}",
        f"world {page.result['world']}" if page.result.get("world") else "",
        f"seed {meta.get('seed', 0)}",
        f"begun {str(meta.get('created', '')).replace('T', ' ')[:16]} UTC" if meta.get("created") else "",
        f"forked from {meta['forked'].get('run')} at step {meta['forked'].get('step')}"
        if isinstance(meta.get("forked"), dict)
        else "",
    ]
    line = " · ".join(text(fact) for fact in facts if fact)
    return f'<h1>{text(page.run.name)}<span class="badge">{state}</span></h1><p class="soft">{line}</p>'


def _headline(page: Page) -> str:
    curves, counts, result = page.curves, page.counts, page.result
    steps = int(curves.steps.max()) if len(curves.steps) else 0
    phases = [row for name, row in curves.under("time").items() if "/" not in name and name != "evaluate"]
    spent = sum(float(np.nansum(row)) for row in phases) / 60
    minutes = result.get("minutes", spent)
    active = sum(counts.get("active", {}).values())
    tiles = [
        (f"{steps:,}", "steps", ""),
        (f"{minutes:.1f}" if isinstance(minutes, int | float) else "-", "minutes", ""),
        (f"{counts.get('tasks', 0):,}", f"tasks archived, {active:,} active", ""),
        (f"{counts.get('verdicts', 0):,}", "answers judged", ""),
        (f"{counts.get('rejections', 0):,}", "proposals rejected", ""),
        _cheating_tile(page),
    ]
    shown = "".join(
        f'<div class="tile{warn}"><b>{text(value)}</b><span>{text(label)}</span></div>' for value, label, warn in tiles
    )
    return f'<div class="tiles">{shown}</div><div class="two">{learned.heldout_table(page)}{_by_kind(page)}</div>'


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


def _cost(page: Page) -> str:
    measured = page.curves.under("time")
    times = {name: row for name, row in measured.items() if "/" not in name and name != "evaluate"}
    if not times:
        return '<p class="soft">No time was measured yet.</p>'
    ordered = [name for name in _PHASES if name in times] + sorted(set(times) - set(_PHASES))
    colours = dict.fromkeys(ordered, "dark") | _PHASES
    totals = {name: float(np.nansum(times[name])) for name in ordered}
    whole = sum(totals.values()) or 1.0
    layers = [Curve(name, colours[name], times[name]) for name in ordered]
    shares = [(name, colours[name], f"{100 * totals[name] / whole:.0f} %") for name in ordered]
    parts = {what: sum(totals.get(name, 0.0) for name in names) / whole for what, names in _WORK.items()}
    note = ", ".join(f"{what} {100 * part:.0f} %" for what, part in parts.items())
    share = card("Share of time", note, plots.stack("share of time", page.curves.steps, layers), shares)
    total = np.nansum([times[name] for name in ordered], axis=0)
    seconds = plots.lines("seconds a step", page.curves.steps, [Curve("all", "dark", total)])
    kinds = page.curves.kinds()
    by_kind = {
        name: [f"{np.nansum(row):,.1f}" if len(row := measured.get(f"{name}/{kind}", ())) else "" for kind in kinds]
        for name in ordered
    }
    rows = [(name, f"{totals[name]:,.1f}", f"{100 * totals[name] / whole:.1f} %", *by_kind[name]) for name in ordered]
    spent = table(("phase", "seconds", "share", *kinds), rows)
    beside = float(np.nansum(page.curves.get("time/evaluate")))
    measuring = f'<p class="soft">Beside these, {beside:,.1f} seconds of measuring.</p>' if beside else ""
    spent = f'<div class="card"><h3>Seconds in all</h3>{spent}{measuring}</div>'
    return f'<div class="two">{share}{card("Seconds a step", "all phases", seconds)}{spent}</div>'


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


def _versions(page: Page) -> Mapping[str, Any]:
    versions = page.run.meta.get("versions")
    return versions if isinstance(versions, dict) else {}


def _configuration(page: Page) -> str:
    meta = page.run.meta
    rows = [(name, meta[name]) for name in ("commit", "python", "platform", "cpu", "threads", "id") if meta.get(name)]
    rows += sorted(_versions(page).items())
    command = " ".join(map(str, meta["command"])) if isinstance(meta.get("command"), list) else ""
    asked = f"<pre>autotelic {text(command)}</pre>" if command else ""
    config = yaml.safe_dump(page.run.config(), sort_keys=False, allow_unicode=True)
    return (
        f'<div class="two"><div class="card"><h3>Asked for</h3>{asked}<pre>{text(config)}</pre></div>'
        f'<div class="card"><h3>Run on</h3>{table(("", ""), rows, figures=False)}</div></div>'
    )
