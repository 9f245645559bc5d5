"""autotelic compare: runs side by side, paired by seed, with spread and confidence interval, and a plot."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from autotelic.cli.arguments import add_json, pairs, print_json, print_table
from autotelic.show import compare
from autotelic.show.compare import Comparison, is_share
from autotelic.show.intervals import Estimate

EPILOG = """\
plot=FILE   where the plot goes: .svg, .png or .pdf (default: compare-FIRST-LAST.svg beside the first run)
Runs that differ in their seed only are one group; the others are compared with the first group, seed by seed.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="run directories, or names of runs under runs/; plot=FILE"
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    names = [argument for argument in arguments.runs if "=" not in argument or Path(argument).is_dir()]
    given = pairs([argument for argument in arguments.runs if argument not in names], ("plot",))
    # Imported late: plotting takes long to load, and a mistake should be said at once.
    from autotelic.show.compare_plot import checked_format, write_plot

    plot = checked_format(Path(given["plot"])) if "plot" in given else None
    runs = [compare.read_run(name) for name in names]
    comparison = compare.compare(runs)
    plot = plot or runs[0].path.parent / f"compare-{runs[0].path.name}-{runs[-1].path.name}.svg"
    write_plot(comparison, plot)
    if arguments.json:
        print_json({**comparison.as_dict(), "plot": str(plot)})
        return 0
    groups = comparison.groups
    keys = list(groups[0].config)
    if keys:
        rows = [(key, *(compare.show(group.config[key]) for group in groups)) for key in keys]
        print_table("what differs", ("", *(group.label for group in groups)), rows)
    columns = ("", *(f"{group.label} ({len(group.runs)})" for group in groups))
    print_table("mean ± standard deviation over seeds", columns, list(_means(comparison)))
    if len(groups) > 1:
        columns = ("", *(group.label for group in groups[1:]))
        print_table(f"difference from {groups[0].label}", columns, list(_differences(comparison)))
    for note in comparison.notes:
        print(note)
    print(f"plot: {plot}")
    return 0


def _means(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    for name in comparison.figures:
        yield (name, *(_mean(group.estimate(name), is_share(name)) for group in comparison.groups))


def _differences(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    for name in comparison.figures:
        found = [comparison.difference(group, name) for group in comparison.groups[1:]]
        yield (name, *(_change(difference, is_share(name)) for difference in found))


def _mean(found: Estimate | None, share: bool) -> str:
    if found is None:
        return "-"
    spread = f" ± {_number(found.std, share)}" if found.std is not None else ""
    return f"{_number(found.mean, share)}{spread}{' %' if share else ''}"


def _change(found: Estimate | None, share: bool) -> str:
    if found is None:
        return "-"
    mean = _number(found.mean, share)
    sign = "" if mean.startswith("-") else "+"
    if found.low is None or found.high is None:
        return f"{sign}{mean}"
    return f"{sign}{mean} [{_number(found.low, share)}, {_number(found.high, share)}]"


def _number(value: float, share: bool) -> str:
    return f"{100 * value:.1f}" if share else f"{value:.4g}"
