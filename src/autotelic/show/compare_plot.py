"""The plot of a comparison: how each group learned, with its spread over seeds, and where it ended."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from autotelic.errors import UserError
from autotelic.runs.files import write_atomic
from autotelic.show.compare import Comparison, Group, is_share
from autotelic.show.figures import Floats, in_order
from autotelic.show.plots import PALETTE, condense, running_mean, short

FORMATS = (".svg", ".png", ".pdf")
COLOURS = ("blue", "orange", "green", "red", "purple", "sky", "brown", "yellow", "grey", "dark")
_COLUMNS = 4  # panels beside each other
_RC = {"svg.fonttype": "none", "text.parse_math": False, "font.size": 9, "svg.hashsalt": "autotelic compare"}

# Curves that are drawn, by name with {} for a kind: the first of these that any run has.
_CURVES = {"heldout/{}": "held-out accuracy", "solve/{}/solve_rate": "attempts solved"}


def checked_format(path: Path) -> Path:
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"plot={path}: choose a name that ends in {', '.join(FORMATS)}")
    return path


def write_plot(comparison: Comparison, path: Path) -> None:
    """Draws into a file of the format that its name ends in. Equal runs give an equal file."""
    checked_format(path)
    colours = {id(group): PALETTE[COLOURS[at % len(COLOURS)]][0] for at, group in enumerate(comparison.groups)}
    with matplotlib.rc_context(_RC):  # pyright: ignore[reportArgumentType]
        figure = _drawn(comparison, [(group, colours[id(group)]) for group in comparison.groups])
        buffer = io.BytesIO()
        kind = path.suffix.lower()[1:]
        undated: Mapping[str, None] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
        figure.savefig(buffer, format=kind, metadata=undated, dpi=150)
    write_atomic(path, buffer.getvalue())


Coloured = Sequence[tuple[Group, str]]


def _drawn(comparison: Comparison, groups: Coloured) -> Figure:
    curves, bars = list(_curves(groups)), list(_bars(comparison))
    panels = len(curves) + len(bars)
    columns = min(_COLUMNS, panels)
    rows = -(-panels // columns)
    figure = Figure(figsize=(max(4.8, 3.4 * columns), 0.7 + 2.5 * rows))
    grid = GridSpec(rows, columns, figure=figure)
    for at, (title, name) in enumerate(curves):
        axes = figure.add_subplot(grid[at // columns, at % columns])
        _draw_curves(axes, name, groups)
        _dress(axes, title)
    for at, (title, figures) in enumerate(bars, len(curves)):
        axes = figure.add_subplot(grid[at // columns, at % columns])
        _draw_bars(axes, figures, groups)
        _dress(axes, title)
    handles = [Line2D([], [], color=colour, linewidth=4) for _, colour in groups]
    labels = [f"{group.label} ({len(group.runs)})" for group, _ in groups]
    figure.legend(handles, labels, loc="upper center", ncols=min(5, len(groups)), frameon=False)
    legend = 0.25 * -(-len(groups) // 5)
    figure.tight_layout(rect=(0, 0, 1, 1 - legend / figure.get_figheight()))
    return figure


def _curves(groups: Coloured) -> Iterator[tuple[str, str]]:
    """Title and metric of each panel with curves: one a kind."""
    runs = [run for group, _ in groups for run in group.runs]
    for pattern, title in _CURVES.items():
        before, after = pattern.split("{}")
        names = {name for run in runs for name in run.curves.table if name.startswith(before) and name.endswith(after)}
        kinds = {name[len(before) : len(name) - len(after)] for name in names}
        kinds = {kind for kind in kinds if kind and "/" not in kind}
        if kinds:
            yield from ((f"{kind}: {title}", pattern.format(kind)) for kind in in_order(kinds))
            return


def _bars(comparison: Comparison) -> Iterator[tuple[str, dict[str, str]]]:
    """Title and figures, by the label of their bars, of each panel with bars. Shares stand side by side; anything else
    has a scale of its own."""
    after = {name.removesuffix(" after"): name for name in comparison.figures if name.endswith(" after")}
    after = {label: name for label, name in after.items() if " depth " not in label}
    if after:
        yield "held-out accuracy after learning", after
        return
    for name in comparison.figures:
        yield name.replace("_", " "), {"": name}


def _draw_curves(axes: Axes, name: str, groups: Coloured) -> None:
    """A group's mean over the steps that all its runs have measured, and one standard deviation around it."""
    for group, colour in groups:
        steps, table = _shared(group, name)
        if not len(steps):
            continue
        mean = table.mean(axis=0)
        spread = table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros(len(steps))
        many = len(steps) > 20
        x, mean, _, _ = condense(steps, running_mean(mean) if many else mean)
        _, spread, _, _ = condense(steps, running_mean(spread) if many else spread)
        if len(table) > 1:
            axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.18, linewidth=0)
        axes.plot(x, mean, color=colour, linewidth=1.7, marker=None if many else "o", markersize=3)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(short))
    axes.set_xlabel("step", color=PALETTE["ink"][0])


def _shared(group: Group, name: str) -> tuple[Floats, Floats]:
    """Steps that every run of the group has measured, and the values: [run, step]."""
    measured = []
    for run in group.runs:
        values = run.curves.get(name)
        there = np.isfinite(values)
        measured.append(dict(zip(run.curves.steps[there].tolist(), values[there].tolist(), strict=True)))
    steps = sorted(set.intersection(*(set(one) for one in measured)))
    return np.array(steps), np.array([[one[step] for step in steps] for one in measured])


def _draw_bars(axes: Axes, figures: Mapping[str, str], groups: Coloured) -> None:
    """A bar a group and figure, with the confidence interval of its mean."""
    width = 0.8 / len(groups)
    for at, (group, colour) in enumerate(groups):
        for place, name in enumerate(figures.values()):
            found = group.estimate(name)
            if found is None:
                continue
            x = place + (at - (len(groups) - 1) / 2) * width
            axes.bar(x, found.mean, 0.9 * width, color=colour, alpha=0.75, linewidth=0)
            if found.low is not None and found.high is not None:
                axes.plot([x, x], [found.low, found.high], color=PALETTE["dark"][0], linewidth=1.2)
    axes.set_xticks(range(len(figures)), list(figures))
    if all(map(is_share, figures.values())):
        axes.set_ylim(0, max(0.05, min(1.0, axes.get_ylim()[1])))
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    else:
        axes.yaxis.set_major_formatter(FuncFormatter(short))


def _dress(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9, color=PALETTE["ink"][0])
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(PALETTE["rule"][0])
    axes.grid(True, axis="y", color=PALETTE["rule"][0], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=PALETTE["ink"][0])
