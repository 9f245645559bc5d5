"""The pieces a report is made of: text that is safe to show, cards, tables, plots with a line for each of several
figures."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autotelic.runs.directory import Run
from autotelic.show import plots, specimens
from autotelic.show.figures import Curves, Floats, ends
from autotelic.show.plots import Curve


@dataclass(frozen=True)
class Page:
    """What all parts of a report draw from."""

    run: Run
    curves: Curves
    result: Mapping[str, Any]
    # Of self-play: what the archive holds, and the kinds of its tasks with a colour each.
    counts: Mapping[str, Any] = field(default_factory=dict)
    kinds: Sequence[str] = ()
    colours: Mapping[str, str] = field(default_factory=dict)

    @property
    def heldout(self) -> Mapping[str, Any]:
        """{kind: {"before": …, "after": …, "n": …, "depth": {…}}}; empty where nothing was measured."""
        found = self.result.get("heldout")
        return found if isinstance(found, dict) else {}


# --- text that may hold anything ------------------------------------------------------------------------------------


def text(value: object) -> str:
    """Any text as inert HTML."""
    return html.escape(specimens.visible(str(value)), quote=True)


def embedded(data: object) -> str:
    """JSON for a script element: no character in it can end the element or begin another."""
    dumped = json.dumps(_finite(data), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return dumped.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _finite(data: Any) -> Any:
    """NaN and infinities have no place in JSON; an archive from elsewhere may hold them all the same."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


# --- pieces ---------------------------------------------------------------------------------------------------------


def card(title: str, note: str, plot: str, entries: Iterable[tuple[str, str, str]] = ()) -> str:
    """A plot under its title, with a legend: label, colour, figure."""
    listed = "".join(
        f'<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10" rx="2" fill="var(--{colour})"/>'
        f'</svg>{text(label)} <span class="soft">{text(value)}</span></li>'
        for label, colour, value in entries
    )
    legend = f'<ul class="legend">{listed}</ul>' if listed else ""
    return f'<figure class="card"><h3>{text(title)}</h3><figcaption>{text(note)}</figcaption>{plot}{legend}</figure>'


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], figures: bool = True) -> str:
    classes = ["" if at == 0 or not figures else ' class="n"' for at in range(len(columns))]
    head = "".join(f"<th{mark}>{text(column)}</th>" for mark, column in zip(classes, columns, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{text(cell)}</td>" for mark, cell in zip(classes, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if any(columns) else ''}<tbody>{body}</tbody></table>"


def grid(cards: Iterable[str], otherwise: str = "") -> str:
    """Cards beside and below each other; where there are none, a line of text or nothing."""
    drawn = "".join(cards)
    if drawn:
        return f'<div class="grid">{drawn}</div>'
    return f'<p class="soft">{text(otherwise)}</p>' if otherwise else ""


def two(cards: Iterable[str], otherwise: str = "") -> str:
    """The same with wide cards, at most two beside each other."""
    return grid(cards, otherwise).replace('class="grid"', 'class="two"', 1)


def ranked(names: Iterable[str], known: Iterable[str], others: int) -> list[str]:
    """Those that are known, in that order, then some of the others."""
    known, found = list(known), set(names)
    return [name for name in known if name in found] + sorted(found.difference(known))[:others]


def kind_lines(page: Page, title: str, note: str, pattern: str, *, share: bool = False) -> str:
    """One line a kind; nothing at all where no kind has been measured. `pattern` is a figure's name with {kind} in
    it."""
    rows = {kind: page.curves.get(pattern.replace("{kind}", kind)) for kind in page.kinds}
    return lines(page, title, note, rows, page.colours, share=share)


def lines(
    page: Page,
    title: str,
    note: str,
    rows: Mapping[str, Floats],
    colours: Mapping[str, str],
    *,
    share: bool = False,
    from_zero: bool = True,
) -> str:
    """Curves over steps by label, and how each began and ended; nothing at all where none has been measured."""
    drawn = [Curve(label, colours[label], row) for label, row in rows.items() if np.isfinite(row).any()]
    if not drawn:
        return ""
    entries = [(label, colours[label], change(ends(row), share)) for label, row in rows.items() if ends(row)]
    plot = plots.lines(title, page.curves.steps, drawn, percent=share, from_zero=from_zero)
    return card(title, note, plot, entries)


def number(value: object) -> float | None:
    found = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if found else None  # type: ignore[arg-type]


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def change(pair: tuple[float, float] | None, share: bool = True) -> str:
    """First → last, as shares or as plain figures."""
    if pair is None:
        return "-"
    show = percent if share else plots.short
    return f"{show(pair[0])} → {show(pair[1])}"
