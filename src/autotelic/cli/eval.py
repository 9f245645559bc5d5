"""autotelic eval: measures a run's player, as it is at the last checkpoint, on tasks it has not learned from."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotelic.cli import play, session
from autotelic.cli.arguments import add_json, figure, pairs, print_json, print_table, whole
from autotelic.errors import UserError
from autotelic.runs.directory import Run
from autotelic.runs.files import write_atomic
from autotelic.worlds.base import Task

EPILOG = """\
suite=FILE.jsonl   your own tasks, one JSON object a line (default: the world's held-out suite)
episodes=N         tasks attempted, spread evenly over the suite (default: all)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory, or the name of one under runs/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="see below")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    given = pairs(arguments.overrides, ("suite", "episodes"))
    episodes = whole("episodes", given["episodes"], least=1) if "episodes" in given else None
    file = Path(given["suite"]) if "suite" in given else None
    if file is not None and not file.is_file():
        raise UserError(f"suite={file}: no such file")
    with Run.open(arguments.run, readonly=True) as directory:
        config = play.restore(directory)
        with session.open_to_look(directory, config) as loop:
            tasks = thinned(loop.world.load_suite(file) if file else loop.world.suite, episodes)
            if not tasks:
                raise UserError(f"{file or config.world.name}: no held-out tasks to measure on; give suite=FILE.jsonl")
            kinds = loop.evaluate(tasks)
            report = {"run": str(directory.path), "step": loop.step, "suite": str(file or "held out"), "kinds": kinds}
        now = datetime.datetime.now(datetime.UTC)
        path = directory.directory("eval") / f"step_{report['step']:06d}_{now:%Y%m%dT%H%M%S%f}.json"
        write_atomic(path, json.dumps(report, indent=1, allow_nan=False) + "\n")
    if arguments.json:
        print_json(report)
    else:
        rows = [(kind, figure(row["accuracy"]), figure(row["n"]), _by_depth(row)) for kind, row in kinds.items()]
        print_table("", ("kind", "accuracy", "tasks", "by depth"), rows)
        print(f"written to {path}")
    return 0


def thinned(tasks: Sequence[Task], wanted: int | None) -> list[Task]:
    """So many of the tasks, spread evenly over the suite, which is ordered by kind and depth."""
    if wanted is None or wanted >= len(tasks):
        return list(tasks)
    return [tasks[index * len(tasks) // wanted] for index in range(wanted)]


def _by_depth(row: Mapping[str, Any]) -> str:
    return "  ".join(f"{depth}: {figure(share)}" for depth, share in (row.get("depth") or {}).items())
