"""`-m key=a,b,c`: one run for each combination, one process for each run, a table at the end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autotelic.cli.arguments import figure, measured, print_table
from autotelic.cli.carry import RunConfig
from autotelic.errors import UserError
from autotelic.runs import config as configuration
from autotelic.runs import workers
from autotelic.runs.directory import Run, automatic_name
from autotelic.runs.progress import Display, stderr_console


def run(verb: str, arguments: argparse.Namespace, compose: Callable[[list[str], str | None], RunConfig]) -> int:
    """Runs the jobs one after another: each may use all cores. One that fails does not stop the others."""
    jobs = configuration.expand(arguments.overrides)
    configs = [compose(job, arguments.config) for job in jobs]
    options = ["--log-level", arguments.log_level, *(["--debug"] if arguments.debug else [])]
    options += ["--config", arguments.config] if arguments.config else []
    if len(jobs) < 2:
        raise UserError("-m sweeps over several values, but no key has any: give key=a,b,c")
    if len({config.root for config in configs}) > 1 or len({config.run for config in configs}) > 1:
        raise UserError("-m cannot sweep over run= or root=: the runs are named NAME-000, NAME-001 and so on")
    root = Path(configs[0].root)
    name = configs[0].run or automatic_name(root, verb, "sweep")
    names = [f"{name}-{index:03d}" for index in range(len(jobs))]
    for taken in names:
        if (root / taken).exists():
            raise UserError(f"run {root / taken} exists already: choose another name with run=NAME")
    codes: list[int | None] = []
    console = stderr_console()
    with workers.graceful_stop(lambda line: console.print(line)) as stop, _display(len(jobs), root / name) as display:
        for job, job_name in zip(jobs, names, strict=True):
            if stop.requested:
                codes.append(None)
                continue
            codes.append(_job(verb, job, job_name, options, stop))
            display.update(len(codes))
    changing = _changing(jobs)
    rows = []
    for job, job_name, code in zip(jobs, names, codes, strict=True):
        result = _result(root / job_name)
        state = "not started" if code is None else "finished" if code == 0 else f"exit code {code}"
        values = [part for part in job if part.partition("=")[0] in changing]
        rows.append([job_name, " ".join(values), state, *_figures(result)])
    print_table("", ("run", "values", "state", "steps", "minutes", "measured"), rows)
    if stop.requested:
        return stop.exit_code
    return 0 if all(code == 0 for code in codes) else 1


def _display(total: int, where: Path) -> Display:
    return Display("sweep", total, unit="runs", results=f"{where}-000 …", plain_seconds=0)


def _job(verb: str, overrides: list[str], name: str, options: Sequence[str], stop: workers.Stop) -> int:
    kept = [override for override in overrides if override.partition("=")[0] != "run"]
    command = [sys.executable, "-m", "autotelic.cli", verb, *kept, f"run={name}", *options]
    # Its own output would be mixed up with the sweep's: the run directory has all of it.
    worker = workers.start(command, stdout=sys.stderr, lifeline=True)
    while workers.wait(worker, 0.2) is None:
        if stop.requested:
            return workers.stop(worker, patience=60.0)  # time to finish its step and write its checkpoint
    return workers.stop(worker)


def _changing(jobs: Sequence[list[str]]) -> set[str]:
    return {jobs[0][i].partition("=")[0] for i in range(len(jobs[0])) if len({job[i] for job in jobs}) > 1}


def _result(path: Path) -> dict[str, Any]:
    try:
        with Run.open(path, readonly=True) as run_directory:
            return run_directory.result() or {}
    except UserError:
        return {}  # the job ended before it had a directory; its exit code says so


def _figures(result: dict[str, Any]) -> list[str]:
    return [figure(result.get("steps")), figure(result.get("minutes")), measured(result)]
