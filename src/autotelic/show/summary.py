"""The end of a run in the terminal: one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from autotelic.runs.directory import Run
from autotelic.show import specimens
from autotelic.show.figures import Curves, in_order


def summary_table(run: Run) -> Table:
    """What was measured by kind, first and last; below it the archive's counts, the ledger, where the report is."""
    curves, counts, result = Curves.read(run.metrics.path), specimens.counts(run.archive), run.result() or {}
    said = result.get("heldout")
    heldout: Mapping[str, Any] = said if isinstance(said, dict) else {}
    kinds = in_order({*curves.kinds(), *counts.get("kinds", {}), *heldout})
    table = Table(title=Text(run.name), title_justify="left", caption=_caption(run, counts, result))
    table.caption_justify = "left"
    table.add_column("", no_wrap=True)
    for kind in kinds:
        table.add_column(Text(kind), justify="right")
    if heldout:
        suite = run.config().get("evaluate_suite")
        label = Text(f"held out: {suite}" if suite else "held out")
        table.add_row(label, *[_heldout(heldout.get(kind)) for kind in kinds])
    for label, name in (("proposals valid", "propose/{}/valid_share"), ("attempts solved", "solve/{}/solve_rate")):
        table.add_row(label, *[_change(curves.first_and_last(name.format(kind))) for kind in kinds])
    for label, name in (("tasks", "kinds"), ("active tasks", "active")):
        table.add_row(label, *[f"{counts.get(name, {}).get(kind, 0):,}" for kind in kinds])
    return table


def _heldout(row: object) -> str:
    row = row if isinstance(row, dict) else {}
    return f"{_share(row.get('before'))} → {_share(row.get('after'))}"


def _change(pair: tuple[float, float] | None) -> str:
    return "-" if pair is None else f"{_share(pair[0])} → {_share(pair[1])}"


def _share(value: object) -> str:
    return f"{100 * value:.1f} %" if isinstance(value, int | float) else "-"


def _caption(run: Run, counts: Mapping[str, Any], result: Mapping[str, Any]) -> Text:
    said = result.get("cheating")
    ledger = {name: n for name, n in said.items() if n} if isinstance(said, dict) else {}
    lines = [
        "held out: before → after the run; other shares: first → last tenth of its steps",
        "archive: " + ", ".join(f"{counts.get(name, 0):,} {name}" for name in ("tasks", "verdicts", "rejections")),
        "cheating: " + (", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in ledger.items()) or "none seen"),
    ]
    if run.report.exists():
        lines.append(f"report: {run.report}")
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")  # a path in two pieces cannot be copied
