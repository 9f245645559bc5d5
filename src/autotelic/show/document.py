"""What the reports of all verbs share: the frame of the page, its title, where time went, the configuration.

A page opens from disk, and its policy names all that it may use: the hash of its one style sheet, of its script if it
has one, and files beside it if it shows some. Nothing else could run or load even if it got in.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
import yaml

from autotelic.runs.directory import holder
from autotelic.show import plots
from autotelic.show.markup import Page, card, table, text
from autotelic.show.plots import Curve

Section = tuple[str, str, str]  # its name, its title, what is in it


def document(
    page: Page,
    subject: str,
    sections: Sequence[Section],
    *,
    script: str = "",
    data: str = "",
    files: bool = False,
    pictures: bool = False,
) -> str:
    """The page: sections that are not empty below a title and links to them. `subject` is what the run was about;
    `data` is JSON for the script, in which nothing can end its element; `files` allows pictures and videos beside the
    page, `pictures` those inside it."""
    style = plots.style_variables() + asset("page.css")
    # Not every browser takes 'self' for the files beside a page that was opened from disk.
    beside = "media-src 'self' file:; img-src 'self' file:; " if files else ""
    beside += "img-src data:; " if pictures else ""
    policy = (
        f"default-src 'none'; {_allowed('script', script)}{_allowed('style', style)}{beside}"
        "base-uri 'none'; form-action 'none'"
    )
    sections = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{name}">{text(title)}</a>' for name, title, _ in sections)
    body = "".join(
        f'<section id="{name}"><h2>{text(title)}</h2>{content}</section>' for name, title, content in sections
    )
    scripts = f'<script type="application/json" id="sample">{data}</script><script>{script}</script>' if script else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{text(page.run.name)} · Autotelic</title><style>{style}</style></head><body>"
        f"<header><div>{_title(page, subject)}</div></header><nav><div>{links}</div></nav><main>{body}</main>"
        f"<footer>Autotelic {text(_versions(page).get('autotelic', ''))}</footer>{scripts}</body></html>\n"
    )


def asset(name: str) -> str:
    """A file of the page that lies beside this module."""
    return resources.files("autotelic.show").joinpath(name).read_text("utf-8")


def _allowed(what: str, source: str) -> str:
    if not source:
        return ""
    return f"{what}-src 'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'; "


def _title(page: Page, subject: str) -> str:
    meta = page.run.meta
    pid = holder(page.run.path)
    finished = page.result.get("finished")
    state = "running" if pid not in (None, os.getpid()) else "finished" if finished else "stopped"
    if not page.result and pid == os.getpid():
        state = "running"
    facts = [
        f"autotelic {meta.get('verb', 'play')}",
        subject,
        f"seed {meta.get('seed', 0)}",
        f"begun {str(meta.get('created', '')).replace('T', ' ')[:16]} UTC" if meta.get("created") else "",
        f"forked from {meta['forked'].get('run')} at step {meta['forked'].get('step')}"
        if isinstance(meta.get("forked"), dict)
        else "",
    ]
    line = " · ".join(text(fact) for fact in facts if fact)
    return f'<h1>{text(page.run.name)}<span class="badge">{state}</span></h1><p class="soft">{line}</p>'


def tiles(shown: Sequence[tuple[str, str, str]]) -> str:
    """Headline figures: value, label, and " warn" where it should be looked at."""
    drawn = "".join(
        f'<div class="tile{warn}"><b>{text(value)}</b><span>{text(label)}</span></div>' for value, label, warn in shown
    )
    return f'<div class="tiles">{drawn}</div>'


def minutes(page: Page) -> float | None:
    """Spent learning: what the run says, or the sum of what its steps took."""
    phases = [row for name, row in page.curves.under("time").items() if "/" not in name and name != "evaluate"]
    said = page.result.get("minutes", sum(float(np.nansum(row)) for row in phases) / 60)
    return said if isinstance(said, int | float) else None


def cost(
    page: Page, colours: Mapping[str, str], work: Mapping[str, Sequence[str]] | None = None, unit: str = "step"
) -> list[str]:
    """Cards that show where time went, by phase; `work` sums some of them up under other names, `unit` is what a line
    of metrics is of. Empty where nothing was measured."""
    measured = page.curves.under("time")
    times = {name: row for name, row in measured.items() if "/" not in name and name != "evaluate"}
    if not times:
        return []
    ordered = [name for name in colours if name in times] + sorted(set(times) - set(colours))
    colours = dict.fromkeys(ordered, "dark") | dict(colours)
    totals = {name: float(np.nansum(times[name])) for name in ordered}
    whole = sum(totals.values()) or 1.0
    layers = [Curve(name, colours[name], times[name]) for name in ordered]
    shares = [(name, colours[name], f"{100 * totals[name] / whole:.0f} %") for name in ordered]
    parts = {what: sum(totals.get(name, 0.0) for name in names) / whole for what, names in (work or {}).items()}
    note = ", ".join(f"{what} {100 * part:.0f} %" for what, part in parts.items())
    share = card("Share of time", note, plots.stack("share of time", page.curves.steps, layers), shares)
    total = np.nansum([times[name] for name in ordered], axis=0)
    by_unit = f"Seconds {'an' if unit[0] in 'aeiou' else 'a'} {unit}"
    seconds = plots.lines(by_unit.lower(), page.curves.steps, [Curve("all", "dark", total)])
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
    return [share, card(by_unit, "all phases", seconds), spent]


def _versions(page: Page) -> Mapping[str, Any]:
    versions = page.run.meta.get("versions")
    return versions if isinstance(versions, dict) else {}


def configuration(page: Page) -> str:
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
