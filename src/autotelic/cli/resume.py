"""autotelic resume: goes on with a run, or forks it."""

from __future__ import annotations

import argparse
import os

from autotelic.cli import carry
from autotelic.cli.arguments import add_run
from autotelic.cli.carry import RunConfig
from autotelic.errors import UserError
from autotelic.runs import config as configuration
from autotelic.runs.directory import Run
from autotelic.runs.files import write_atomic
from autotelic.runs.progress import stderr_console

EPILOG = """\
autotelic resume RUN                         goes on from the last checkpoint
autotelic resume RUN steps=200               the same, with a farther bound
autotelic resume RUN step=50 run=NEW [...]   a new run from the checkpoint of step 50 (or of step=best); other keys
                                             may change too, and root= says where it is made (default: beside the
                                             first)
"""

BOUNDS = ("steps", "minutes", "episodes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)


def run(arguments: argparse.Namespace) -> int:
    given = dict(override.partition("=")[::2] for override in arguments.overrides)
    fork_to, fork_at = given.get("run"), given.get("step")
    changes = [text for text in arguments.overrides if text.partition("=")[0] not in ("run", "step")]
    if _rank():  # of torchrun's processes the first has the run; the others follow it
        with Run.open(arguments.run, readonly=True) as directory:
            return carry.verb_of(directory).carry_on(directory, _changed(directory, changes))
    if fork_to is None:
        if fork_at is not None:
            raise UserError(f"step={fork_at} forks a run: name the new one with run=NEW")
        if other := [text for text in changes if text.partition("=")[0] not in BOUNDS]:
            raise UserError(f"'{other[0]}' would change the run's past: fork it with step=N run=NEW {other[0]}")
        with Run.open(arguments.run) as directory:
            config = _changed(directory, changes)
            if changes:
                write_atomic(directory.path / "config.yaml", configuration.to_yaml(config))
            _say_differences(directory)
            return carry.verb_of(directory).carry_on(directory, config)
    with Run.open(arguments.run, readonly=True) as source:
        step = source.checkpoints.require(carry.chosen_step(source, fork_at))
        verb = carry.verb_of(source)
        verb.require_whole(source)
        config = _changed(source, [*changes, f"run={fork_to}"])
        root = config.root if "root" in given else None
        with source.fork(step, fork_to, configuration.plain(config), root) as fork, carry.discarded_on_failure(fork):
            _say_differences(source)
            return verb.carry_on(fork, config)


def _rank() -> int:
    """Which of torchrun's processes this is; asked without loading torch."""
    return int(os.environ.get("RANK", "0")) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else 0


def _say_differences(directory: Run) -> None:
    console = stderr_console()
    for line in directory.differences():
        console.print(f"note: {line}; results may differ from an uninterrupted run", markup=False)


def _changed(directory: Run, changes: list[str]) -> RunConfig:
    """The run's configuration with the changes, which go through the same checks as those of a new run."""
    verb = carry.verb_of(directory)
    for text in changes:
        key = text.partition("=")[0]
        if key in verb.GROUPS and not verb.GROUPS[key].changeable:
            raise UserError(f"'{text}': a run keeps its {key}; start a new run for another")
    return verb.restore(directory, changes)
