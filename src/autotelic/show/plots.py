"""Small plots as inline SVG: matplotlib draws, the page's style sheet colours.

Every colour a plot uses has a name; in the SVG it becomes a CSS variable, so that one drawing suits a light and a dark
page. No style attribute or style element is left in it, so that a page can forbid inline styles altogether. Equal
figures give equal text.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter
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
_VARIABLE = {light: f"var(--{name})" for name, (light, _) in PALETTE.items()}

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
_RC: Any = {
    "svg.fonttype": "none",  # text stays text: small, searchable, in the page's own font
    "text.parse_math": False,  # a name with $ in it is a name
    "font.size": 9,
    "axes.linewidth": 0.8,
    "path.simplify": False,
}
_PRESENTATION = re.compile(r"(fill|stroke|opacity|text-anchor|clip|font-size|font-weight)")
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"


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

    def draw(axes: Axes) -> None:
        at = np.asarray(steps, dtype=float)
        for curve in curves:
            values = np.asarray(curve.values, dtype=float)
            there = np.isfinite(values)
            if not there.any():
                continue
            x, y, low, high = condense(at[there], values[there])
            colour = PALETTE[curve.colour][0]
            smooth = running_mean(y)
            many = len(y) > 20
            if len(x) < there.sum():
                axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            elif many:
                axes.plot(x, y, color=colour, alpha=0.3, linewidth=0.8)
            if curve.spread is not None:
                around = condense(at[there], np.nan_to_num(np.asarray(curve.spread, dtype=float)[there]))[1]
                axes.fill_between(x, y - around, y + around, color=colour, alpha=0.15, linewidth=0)
            marker = "o" if len(y) <= 12 else None
            axes.plot(x, smooth if many else y, color=colour, linewidth=1.7, marker=marker, markersize=3)
        if percent:
            most = max(
                (float(np.nanmax(curve.values)) for curve in curves if np.isfinite(curve.values).any()), default=1
            )
            top = next((top for top in (0.1, 0.25, 0.5) if most <= top), 1.0)  # few steps: plots stay comparable
            axes.set_ylim(-0.02 * top, 1.03 * top)
            axes.set_yticks(np.linspace(0, top, 5 if top == 1.0 else 6))
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        else:
            low, high = axes.get_ylim()
            if from_zero and low > 0:
                axes.set_ylim(0, 1.05 * high)
            axes.yaxis.set_major_locator(MaxNLocator(4))
            axes.yaxis.set_major_formatter(FuncFormatter(short))

    return _chart(name, steps, draw)


def stack(name: str, steps: ArrayLike, layers: Sequence[Curve], *, share: bool = True) -> str:
    """Counts over steps on top of each other, as shares of their sum or as they are. A missing count is 0."""

    def draw(axes: Axes) -> None:
        at = np.asarray(steps, dtype=float)
        heights = np.nan_to_num(np.array([layer.values for layer in layers], dtype=float))
        measured = heights.sum(axis=0) > 0 if share else np.ones(len(at), dtype=bool)
        if not measured.any():
            return
        binned = [condense(at[measured], row[measured]) for row in heights]
        x, table = binned[0][0], np.array([row[1] for row in binned])
        if share:
            table = table / table.sum(axis=0)
        colours = [PALETTE[layer.colour][0] for layer in layers]
        if len(x) <= 40:
            gaps = float(np.min(np.diff(x))) if len(x) > 1 else 1.0
            base = np.zeros(len(x))
            for row, colour in zip(table, colours, strict=True):
                axes.bar(x, row, width=0.86 * gaps, bottom=base, color=colour, linewidth=0)
                base += row
        else:
            axes.stackplot(x, table, colors=colours, linewidth=0, step="mid")
        if share:
            axes.set_ylim(0, 1)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        else:
            axes.set_ylim(0, max(1.0, 1.05 * float(table.sum(axis=0).max())))
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
            axes.yaxis.set_major_formatter(FuncFormatter(short))

    return _chart(name, steps, draw)


def before_after(name: str, rows: Sequence[tuple[str, str, float | None, float | None]]) -> str:
    """(label, colour, before, after) as shares: a hollow dot, a line, a full dot."""
    with matplotlib.rc_context({**_RC, "svg.hashsalt": f"autotelic {name}"}):
        figure = Figure(figsize=(5.2, 0.55 + 0.32 * len(rows)))
        axes = figure.add_axes((0.2, 0.42 / figure.get_figheight(), 0.76, 1 - 0.5 / figure.get_figheight()))
        for at, (_, colour, before, after) in enumerate(rows):
            light, y = PALETTE[colour][0], len(rows) - 1 - at
            if before is not None and after is not None:
                axes.plot([before, after], [y, y], color=light, linewidth=3, alpha=0.45, solid_capstyle="butt")
            if before is not None:
                paper = PALETTE["paper"][0]
                axes.plot([before], [y], "o", markersize=7, markeredgewidth=1.6, color=paper, markeredgecolor=light)
            if after is not None:
                axes.plot([after], [y], "o", markersize=7, markeredgewidth=1.6, color=light)
        axes.set_yticks(range(len(rows)), [label for label, *_ in reversed(rows)])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        _dress(axes, "x")
        return _inline(figure, name)


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


def _chart(name: str, steps: ArrayLike, draw: Callable[[Axes], None]) -> str:
    with matplotlib.rc_context({**_RC, "svg.hashsalt": f"autotelic {name}"}):
        figure = Figure(figsize=(4.5, 2.05))
        axes = figure.add_axes((0.125, 0.14, 0.855, 0.81))
        draw(axes)
        at = np.asarray(steps, dtype=float)
        if len(at):
            edge = max((at.max() - at.min()) * 0.015, 0.5)
            axes.set_xlim(at.min() - edge, at.max() + edge)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(short))
        _dress(axes, "y")
        return _inline(figure, name)


def _dress(axes: Axes, grid: str) -> None:
    ink, rule = PALETTE["ink"][0], PALETTE["rule"][0]
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(rule)
    axes.grid(True, axis="x" if grid == "x" else "y", color=rule, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=ink, labelcolor=ink)


def _inline(figure: Figure, name: str) -> str:
    """The figure as an element for a page: no styles, no names that two plots could share, colours as variables."""
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    FigureCanvasSVG(figure)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    used = {match for node in root.iter() for value in node.attrib.values() for match in re.findall(r"#(\w+)", value)}
    for node in root.iter():
        if "id" in node.attrib and node.attrib["id"] not in used:
            del node.attrib["id"]
        for key, value in _declarations(node.attrib.pop("style", "")):
            node.attrib.setdefault(key, value)
        for key in ("fill", "stroke"):
            if key in node.attrib:
                node.attrib[key] = _VARIABLE.get(node.attrib[key], node.attrib[key])
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"class": "plot", "role": "img", "aria-label": name}
    ElementTree.register_namespace("", _SVG.strip("{}"))
    ElementTree.register_namespace("xlink", _HREF[1:].partition("}")[0])
    text = ElementTree.tostring(root, encoding="unicode")
    return re.sub(r"\n\s*|<g />", "", re.sub(r" (?:x|y|d|transform)=\"[^\"]*\"", _rounded, text))


def _rounded(attribute: re.Match[str]) -> str:
    """Coordinates to a tenth of a point: what more there is cannot be seen and is most of the text."""
    return re.sub(r"(\.\d)\d+", r"\1", attribute[0])


def _declarations(style: str) -> Iterable[tuple[str, str]]:
    for declaration in style.split(";"):
        key, colon, value = (part.strip() for part in declaration.partition(":"))
        if key == "font":  # the shorthand is no attribute; of it only the size matters here
            size = re.search(r"[\d.]+px", value)
            yield "font-size", size[0] if size else "9px"
        elif colon and _PRESENTATION.match(key):
            yield key, value
