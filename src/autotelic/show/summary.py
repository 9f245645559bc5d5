"""The end of a run in the terminal: one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from autotelic.runs.directory import Run
from autotelic.show import specimens
from autotelic.show.figures import Curves, in_order
from autotelic.show.train_report import figure, measured_of, newest_video

FEW = 3  # rows of held-out tasks that are of no kind that was played, and still have a column each


def summary_table(run: Run) -> Table:
    """What became of a run in figures, and below them what else there is to know and where to look."""
    return _training(run) if run.meta.get("verb") == "train" else _play(run)


def _training(run: Run) -> Table:
    """Of episodes: as they were learned from, first and last, and as they were measured."""
    curves, result = Curves.read(run.metrics.path), run.result() or {}
    measured = measured_of(result)
    names = {"return": "return_mean", "length": "length_mean", "success": "success_rate"}
    others = {name: name for name in curves.under("episode") if name not in names and name != "ended"}
    table = Table(title=Text(run.name), title_justify="left", caption=_after_training(run, result, measured))
    table.caption_justify = "left"
    table.add_column("", no_wrap=True)
    for column in ("first episodes", "last episodes", "measured"):
        table.add_column(column, justify="right")
    for name, exam in {**names, **others}.items():
        pair, last = curves.first_and_last(f"episode/{name}"), measured.get(exam)
        if pair is not None or last is not None:
            figures = [figure(name, value) for value in (*(pair or (None, None)), last)]
            if name == "return" and "return_std" in measured:
                figures[2] += f" ± {figure('return', measured['return_std'])}"
            table.add_row(Text(name.replace("_", " ")), *figures)
    return table


def _after_training(run: Run, result: Mapping[str, Any], measured: Mapping[str, float]) -> Text:
    steps, seconds = result.get("steps", 0), result.get("minutes", 0.0)
    lines = ["episodes: mean of the first → last tenth of what was learned from; measured: without chance"]
    if measured:
        lines[0] += f", {measured.get('episodes', 0):.0f} episodes"
    lines.append(f"{steps:,} steps in {seconds:.1f} minutes, {result.get('steps_per_second', 0):,.0f} a second")
    if broken := result.get("broken"):
        lines.append(f"{broken:,} simulations broke and were reset")
    video = newest_video(run)
    lines += [f"video: {video}"] if video is not None else []
    lines += [f"report: {run.report}"] if run.report.exists() else []
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")  # a path in two pieces cannot be copied


def _play(run: Run) -> Table:
    """What was measured by kind, first and last; below it the archive's counts, the ledger, where the report is."""
    curves, counts, result = Curves.read(run.metrics.path), specimens.counts(run.archive), run.result() or {}
    said = result.get("heldout")
    heldout: Mapping[str, Any] = said if isinstance(said, dict) else {}
    played = {*curves.kinds(), *counts.get("kinds", {})}
    families = [name for name in heldout if name not in played]  # what is only measured with
    if len(families) <= FEW:
        played, families = {*played, *families}, []
    kinds = in_order(played)
    caption = _caption(run, counts, result, {name: _heldout(heldout[name]) for name in families})
    table = Table(title=Text(run.name), title_justify="left", caption=caption)
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


def _caption(run: Run, counts: Mapping[str, Any], result: Mapping[str, Any], families: Mapping[str, str]) -> Text:
    said = result.get("cheating")
    ledger = {name: n for name, n in said.items() if n} if isinstance(said, dict) else {}
    lines = [
        *(f"held out, {name}: {change}" for name, change in families.items()),
        "held out: before → after the run; other shares: first → last tenth of its steps",
        "archive: " + ", ".join(f"{counts.get(name, 0):,} {name}" for name in ("tasks", "verdicts", "rejections")),
        "cheating: " + (", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in ledger.items()) or "none seen"),
    ]
    if run.report.exists():
        lines.append(f"report: {run.report}")
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")  # a path in two pieces cannot be copied
