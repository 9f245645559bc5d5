"""Small plots as inline SVG, which the page's style sheet colours.

Every colour a plot uses has a name and is a CSS variable in the SVG, so that one drawing suits a light and a dark page.
There is no style attribute or style element in it, so that a page can forbid inline styles altogether. Equal figures
give equal text. A report has dozens of them, so they are written directly: a few milliseconds each, where a plotting
library, whose styles would have to be taken out again, needs fifty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# Okabe and Ito's palette, which colour-blind readers can tell apart: name → (on a light page, on a dark page).
PALETTE: Mapping[str, tuple[str, str]] = {
    "blue": ("#0072b2", "#4fa3e0"),
    "orange": ("#d98c00", "#f0ad3c"),
    "green": ("#009e73", "#2fc59a"),
    "red": ("#d55e00", "#f07f3c"),
    "purple": ("#b8608f", "#dd92bb"),
    "sky": ("#56b4e9", "#86cdf4"),
    "yellow": ("#d6c62e", "#efe35f"),
    "brown": ("#8a6d4b", "#b89a76"),
    "grey": ("#9a9a9d", "#7f8287"),
    "dark": ("#3a3d44", "#d9dce2"),
    "ink": ("#44474e", "#b4b8c0"),  # axes and their labels
    "rule": ("#e4e5e8", "#33363d"),  # grid lines
    "paper": ("#fefefd", "#1b1d21"),  # what lies behind the plot
}

KINDS = {"deduction": "blue", "abduction": "orange", "induction": "green"}
_OTHER_KINDS = ("red", "purple", "sky", "brown", "yellow", "grey")

CLASSES = {
    "admitted": "green",
    "correct": "green",
    "wrong": "orange",
    "format": "sky",
    "duplicate": "grey",
    "exception": "red",
    "syntax": "purple",
    "limit": "yellow",
    "forbidden": "dark",
    "nondeterministic": "blue",
    "unsupported": "brown",
}
_OTHER_CLASSES = ("blue", "brown", "purple", "yellow", "grey", "dark", "sky", "red", "orange")

POINTS = 120  # of a curve: more than the eye can tell apart at this size


@dataclass(frozen=True)
class Curve:
    label: str
    colour: str  # a name of PALETTE
    values: ArrayLike  # one a step, NaN where nothing was measured
    spread: ArrayLike | None = None  # how far above and below a band around it goes


def kind_colours(kinds: Iterable[str]) -> dict[str, str]:
    """A colour for each kind; the three known ones have the same in every report."""
    others = sorted(kind for kind in set(kinds) if kind not in KINDS)
    return KINDS | {kind: _OTHER_KINDS[at % len(_OTHER_KINDS)] for at, kind in enumerate(others)}


def class_colours(classes: Iterable[str]) -> dict[str, str]:
    """A colour for each outcome class of one plot: its own if it has one, else one that the others leave."""
    wanted = list(dict.fromkeys(classes))
    chosen = {name: CLASSES[name] for name in wanted if name in CLASSES}
    free = [colour for colour in _OTHER_CLASSES if colour not in chosen.values()] or list(_OTHER_CLASSES)
    others = [name for name in wanted if name not in chosen]
    return chosen | {name: free[at % len(free)] for at, name in enumerate(others)}


def lines(
    name: str, steps: ArrayLike, curves: Sequence[Curve], *, percent: bool = False, from_zero: bool = True
) -> str:
    """Curves over steps. What was measured is faint, its running mean is strong; gaps in between are bridged."""
    at = np.asarray(steps, dtype=float)
    measured = [np.asarray(curve.values, dtype=float) for curve in curves]
    there = [np.isfinite(values) for values in measured]
    binned = [condense(at[finite], values[finite]) for values, finite in zip(measured, there, strict=True)]
    spreads = [
        None
        if curve.spread is None
        else condense(at[finite], np.nan_to_num(np.asarray(curve.spread, float)[finite]))[1]
        for curve, finite in zip(curves, there, strict=True)
    ]
    shown = [(0.0 if spread is None else spread) for spread in spreads]
    lows = [low - spread for (_, _, low, _), spread in zip(binned, shown, strict=True)]
    highs = [high + spread for (_, _, _, high), spread in zip(binned, shown, strict=True)]
    low, high = _reach([*lows, *highs])
    if percent:
        top = next((top for top in (0.1, 0.25, 0.5) if _reach(measured)[1] <= top), 1.0)  # few: plots stay comparable
        chart = _Chart(name, _steps_span(at), (-0.02 * top, 1.03 * top))
        chart.axes(y=np.linspace(0, top, 5 if top == 1.0 else 6), percent=True)
    else:
        margin = 0.05 * (high - low)
        span = (0.0, 1.05 * high) if from_zero and low - margin > 0 else (low - margin, high + margin)
        chart = _Chart(name, _steps_span(at), span)
        chart.axes(y=ticks(*span, 4))
    for curve, finite, (x, y, low, high), spread in zip(curves, there, binned, spreads, strict=True):
        many = len(y) > 20
        if len(x) < finite.sum():
            chart.band(x, low, high, curve.colour)
        elif many:
            chart.line(x, y, curve.colour, width=0.8, opacity=0.3)
        if spread is not None:
            chart.band(x, y - spread, y + spread, curve.colour)
        chart.line(x, running_mean(y) if many else y, curve.colour)
        if len(y) <= 12:
            chart.dots(x, y, curve.colour)
    return chart.svg()


def stack(name: str, steps: ArrayLike, layers: Sequence[Curve], *, share: bool = True) -> str:
    """Counts over steps on top of each other, as shares of their sum or as they are. A missing count is 0."""
    at = np.asarray(steps, dtype=float)
    heights = np.nan_to_num(np.array([layer.values for layer in layers], dtype=float).reshape(len(layers), len(at)))
    measured = heights.sum(axis=0) > 0 if share else np.ones(len(at), dtype=bool)
    x = condense(at[measured], at[measured])[0]
    table = np.array([condense(at[measured], row[measured])[1] for row in heights]).reshape(len(layers), len(x))
    if share:
        table = table / table.sum(axis=0)
    tops = np.vstack([np.zeros(len(x)), np.cumsum(table, axis=0)])
    span = (0.0, 1.0) if share else (0.0, max(1.0, 1.05 * tops[-1].max(initial=0.0)))
    chart = _Chart(name, _steps_span(at), span)
    chart.axes(y=np.linspace(0, 1, 5) if share else ticks(*span, 4, whole=True), percent=share)
    middles = (x[1:] + x[:-1]) / 2
    left, right = np.append(x[:1] - 0.5, middles), np.append(middles, x[-1:] + 0.5)
    if len(x) <= 40:  # few enough to be told apart: bars
        half = 0.43 * (np.diff(x).min() if len(x) > 1 else 1.0)
        left, right = x - half, x + half
    for layer, low, high in zip(layers, tops[:-1], tops[1:], strict=True):
        if len(x) <= 40:
            chart.bars(left, right, low, high, layer.colour)
        else:
            edges = np.stack([left, right], axis=1).ravel()
            chart.band(edges, np.repeat(low, 2), np.repeat(high, 2), layer.colour, opacity=1.0)
    return chart.svg()


def before_after(name: str, rows: Sequence[tuple[str, str, float | None, float | None]]) -> str:
    """(label, colour, before, after) as shares: a hollow dot, a line, a full dot."""
    left = max(75.0, 10.0 + 5.0 * max((len(label) for label, *_ in rows), default=0))
    chart = _Chart(name, (-0.02, 1.02), (-0.6, len(rows) - 0.4), size=(374.0, 40.0 + 23.0 * len(rows)), left=left)
    chart.axes(x=np.linspace(0, 1, 6), percent=True)
    for at, (label, colour, before, after) in enumerate(rows):
        y = np.array([len(rows) - 1.0 - at])
        chart.label(label, y[0])
        if before is not None and after is not None:
            chart.line(np.array([before, after]), np.repeat(y, 2), colour, width=3.0, opacity=0.45)
        if before is not None:
            chart.dots(np.array([before]), y, "paper", radius=3.5, edge=colour)
        if after is not None:
            chart.dots(np.array([after]), y, colour, radius=3.5, edge=colour)
    return chart.svg()


def ticks(low: float, high: float, most: int, whole: bool = False) -> Floats:
    """Round numbers within a span, equally far apart, with at most so many gaps between them."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (size * power for size in (0.5, 1, 2, 2.5, 5, 10, 20)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first <= most and (not whole or step == round(step)):
            break
    return step * np.arange(first, last + 1, dtype=np.float64)


def condense(steps: Floats, values: Floats, points: int = POINTS) -> tuple[Floats, Floats, Floats, Floats]:
    """At most `points` neighbours' means, with their least and greatest; all as it is where there are fewer."""
    if len(steps) <= points:
        return steps, values, values, values
    starts = np.unique(np.linspace(0, len(steps), points, endpoint=False).astype(int))
    sizes = np.diff(np.append(starts, len(steps)))
    return (
        np.add.reduceat(steps, starts) / sizes,
        np.add.reduceat(values, starts) / sizes,
        np.minimum.reduceat(values, starts),
        np.maximum.reduceat(values, starts),
    )


def running_mean(values: Floats) -> Floats:
    """The mean over a centred window of about a twelfth of the curve, narrower at its ends."""
    half = max(1, len(values) // 24)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    reach = np.minimum(half, np.minimum(at, len(values) - 1 - at))
    return (sums[at + reach + 1] - sums[at - reach]) / (2 * reach + 1)


def short(value: float, _: int | None = None) -> str:
    """A number in few characters: 0.25, 12, 3.4k, 2M."""
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}" if math.isfinite(value) else "-"


def style_variables() -> str:
    """The palette as CSS variables, for the two colour schemes."""
    light = "".join(f"--{name}:{pair[0]};" for name, pair in PALETTE.items())
    dark = "".join(f"--{name}:{pair[1]};" for name, pair in PALETTE.items())
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"


def _reach(rows: Iterable[Floats]) -> tuple[float, float]:
    """The least and the greatest of all that is finite, apart from each other."""
    values = np.concatenate([np.atleast_1d(row).ravel() for row in rows] or [np.empty(0)])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return low, high if high > low else low + (abs(low) or 1.0)


def _steps_span(at: Floats) -> tuple[float, float]:
    if not len(at):
        return 0.0, 1.0
    edge = max((at.max() - at.min()) * 0.015, 0.5)
    return float(at.min() - edge), float(at.max() + edge)


class _Chart:
    """Shapes in a frame with two scales. Lengths are points; what lies beyond the frame is moved to its edge."""

    def __init__(
        self,
        name: str,
        across: tuple[float, float],
        up: tuple[float, float],
        size: tuple[float, float] = (324.0, 148.0),
        left: float = 40.0,
    ) -> None:
        self.name, self.across, self.up, self.size = name, across, up, size
        self.left, self.right, self.top, self.bottom = left, size[0] - 12.0, 7.0, size[1] - 21.0
        self.shapes: list[str] = []

    def x(self, values: ArrayLike) -> Floats:
        share = (np.asarray(values, dtype=float) - self.across[0]) / (self.across[1] - self.across[0])
        return self.left + np.clip(share, 0, 1) * (self.right - self.left)

    def y(self, values: ArrayLike) -> Floats:
        share = (np.asarray(values, dtype=float) - self.up[0]) / (self.up[1] - self.up[0])
        return self.bottom - np.clip(share, 0, 1) * (self.bottom - self.top)

    def axes(self, *, x: Floats | None = None, y: Floats | None = None, percent: bool = False) -> None:
        """Numbers along both sides, with lines across the frame at those that are given; steps are whole numbers."""
        self._rule(self.left, self.bottom, self.right, self.bottom)
        for value in ticks(*self.across, 6, whole=True) if x is None else x:
            at = float(self.x(value))
            if x is not None:
                self._rule(at, self.top, at, self.bottom)
            self._text(at, self.bottom + 13.0, _percent(value) if percent and x is not None else short(value), "middle")
        for value in () if y is None else y:
            at = float(self.y(value))
            self._rule(self.left, at, self.right, at)
            self.label(_percent(value) if percent else short(value), value)

    def label(self, text: str, y: float) -> None:
        self._text(self.left - 4.0, float(self.y(y)) + 3.2, text, "end")

    def line(self, x: Floats, y: Floats, colour: str, *, width: float = 1.7, opacity: float = 1.0) -> None:
        drawn = f'fill="none" stroke="var(--{colour})" stroke-width="{width:g}"{_opacity(opacity)}'
        self.shapes.append(f'<polyline points="{_points(self.x(x), self.y(y))}" {drawn}/>')

    def band(self, x: Floats, low: Floats, high: Floats, colour: str, *, opacity: float = 0.15) -> None:
        points = _points(self.x(np.append(x, x[::-1])), self.y(np.append(low, high[::-1])))
        self.shapes.append(f'<polygon points="{points}" fill="var(--{colour})"{_opacity(opacity)}/>')

    def bars(self, left: Floats, right: Floats, low: Floats, high: Floats, colour: str) -> None:
        sides = zip(self.x(left), self.x(right), self.y(low), self.y(high), strict=True)
        path = "".join(f"M{x:.1f},{y:.1f}H{end:.1f}V{top:.1f}H{x:.1f}z" for x, end, y, top in sides if y > top)
        self.shapes.append(f'<path d="{path}" fill="var(--{colour})"/>')

    def dots(self, x: Floats, y: Floats, colour: str, *, radius: float = 1.5, edge: str | None = None) -> None:
        ring = f' stroke="var(--{edge})" stroke-width="1.6"' if edge else ""
        for across, up in zip(self.x(x), self.y(y), strict=True):
            circle = f'<circle cx="{across:.1f}" cy="{up:.1f}" r="{radius:g}" fill="var(--{colour})"{ring}/>'
            self.shapes.append(circle)

    def svg(self) -> str:
        box = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.size[0]:g} {self.size[1]:g}"'
        said = f'class="plot" role="img" aria-label="{escape(self.name)}"'
        return f"<svg {box} {said}>{''.join(self.shapes)}</svg>"

    def _rule(self, x: float, y: float, end_x: float, end_y: float) -> None:
        ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{end_x:.1f}" y2="{end_y:.1f}"'
        self.shapes.append(f'<line {ends} stroke="var(--rule)" stroke-width="0.8"/>')

    def _text(self, x: float, y: float, text: str, anchor: str) -> None:
        where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="9px"'
        self.shapes.append(f'<text {where} fill="var(--ink)">{escape(text)}</text>')


def _points(x: Floats, y: Floats) -> str:
    return " ".join(f"{across:.1f},{up:.1f}" for across, up in zip(x.tolist(), y.tolist(), strict=True))


def _opacity(share: float) -> str:
    return "" if share == 1.0 else f' opacity="{share:g}"'


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"
