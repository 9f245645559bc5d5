"""autotelic export: what a run made, for use elsewhere. Of self-play its archive as JSON lines, which another run reads
with loop.tasks=FILE; of training its policy as ONNX, with a contract that says what the numbers mean."""

from __future__ import annotations

import argparse
from pathlib import Path

from autotelic.cli import carry
from autotelic.cli.arguments import add_json, add_run, pairs, print_json
from autotelic.errors import UserError
from autotelic.runs.directory import Run
from autotelic.runs.files import named_errors

EPILOG = """\
of self-play: JSON lines, by default RUN/archive.jsonl
of training:  policy.onnx, policy.json (the contract) and, of our own tasks, model.xml; by default in RUN/export
  step=N      a checkpoint's step, or best (default: the newest checkpoint)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--out", metavar="PATH", type=Path, help="where to write: a file of self-play, else a folder")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    with Run.open(arguments.run, readonly=True) as directory:
        carry.verb_of(directory)
        export = _policy if directory.meta.get("verb") == "train" else _archive
        return export(directory, arguments)


def _archive(directory: Run, arguments: argparse.Namespace) -> int:
    from autotelic.play.archive import Archive
    from autotelic.play.exchange import export_jsonl

    if arguments.overrides:
        raise UserError(f"'{arguments.overrides[0]}': the export of a run of self-play has no keys; see --help")
    target = arguments.out or directory.path / "archive.jsonl"
    with Archive.open(directory.archive, readonly=True) as archive:
        lines = export_jsonl(archive, target)
    if arguments.json:
        print_json({"file": str(target), "lines": lines})
    else:
        print(f"{lines} lines: {target}")
    return 0


def _policy(directory: Run, arguments: argparse.Namespace) -> int:
    from autotelic.cli import train, train_session
    from autotelic.show.onnx import export_policy

    step = carry.chosen_step(directory, pairs(arguments.overrides, ("step",)).get("step"))
    config = train.restore(directory)
    folder = arguments.out or directory.path / "export"
    with train_session.open_to_look(directory, config, step, count=1) as (step, environment, policy):
        with named_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        files = export_policy(policy, environment, folder, {"run": directory.name, "step": step})
    if arguments.json:
        print_json({"step": step, **{name: str(path) for name, path in files.items()}})
    else:
        for name, path in files.items():
            print(f"{name}: {path}")
    return 0
