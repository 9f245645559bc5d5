"""autotelic export: a run's archive as JSON lines, which another run reads with loop.tasks=FILE."""

from __future__ import annotations

import argparse
from pathlib import Path

from autotelic.cli.arguments import add_json, print_json
from autotelic.play.archive import Archive
from autotelic.play.exchange import export_jsonl
from autotelic.runs.directory import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory, or the name of one under runs/")
    parser.add_argument("--out", metavar="FILE", type=Path, help="where to write; default RUN/archive.jsonl")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    with Run.open(arguments.run, readonly=True) as directory:
        target = arguments.out or directory.path / "archive.jsonl"
        with Archive.open(directory.archive, readonly=True) as archive:
            lines = export_jsonl(archive, target)
    if arguments.json:
        print_json({"file": str(target), "lines": lines})
    else:
        print(f"{lines} lines: {target}")
    return 0
