"""The table at the end of a run."""

from __future__ import annotations

import io

from rich.console import Console

from autotelic.runs.directory import Run
from autotelic.show.report import write_report
from autotelic.show.summary import summary_table


def printed(run: Run) -> str:
    console = Console(width=100, file=io.StringIO())
    with console.capture() as said:
        console.print(summary_table(run))
    return said.get()


def test_it_shows_before_and_after_counts_ledger_and_the_report(make_run):
    path = make_run(6)
    write_report(path)
    with Run.open(path, readonly=True) as run:
        said = printed(run)
    assert "2.0 % → 50.0 %" in said
    assert "72 tasks, 216 verdicts, 18 rejections" in said
    assert "5 forbidden calls" in said
    assert "report.html" in said


def test_a_run_without_steps_has_a_table(tmp_path):
    with Run.create(tmp_path, "new", {}, verb="play") as run:
        said = printed(run)
    assert "0 tasks" in said
    assert "report.html" not in said
