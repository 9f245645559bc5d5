"""autotelic resume: goes on with a run, or forks it."""

from __future__ import annotations

import argparse

from autotelic.cli import play, session
from autotelic.cli.arguments import whole
from autotelic.errors import UserError
from autotelic.runs import config as configuration
from autotelic.runs.directory import Run
from autotelic.runs.files import write_atomic
from autotelic.runs.progress import stderr_console

EPILOG = """\
autotelic resume RUN                         goes on from the last checkpoint
autotelic resume RUN steps=200               the same, with a farther bound
autotelic resume RUN step=50 run=NEW [...]   a new run from the checkpoint of step 50; other keys may change too
"""

BOUNDS = ("steps", "minutes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory, or the name of one under runs/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="see below")


def run(arguments: argparse.Namespace) -> int:
    given = dict(override.partition("=")[::2] for override in arguments.overrides)
    fork_to, fork_at = given.get("run"), given.get("step")
    changes = [text for text in arguments.overrides if text.partition("=")[0] not in ("run", "step")]
    if fork_to is None:
        if fork_at is not None:
            raise UserError(f"step={fork_at} forks a run: name the new one with run=NEW")
        if other := [text for text in changes if text.partition("=")[0] not in BOUNDS]:
            raise UserError(f"'{other[0]}' would change the run's past: fork it with step=N run=NEW {other[0]}")
        with Run.open(arguments.run) as directory:
            return _go_on(directory, changes)
    with Run.open(arguments.run, readonly=True) as source:
        step = source.checkpoints.require(None if fork_at is None else whole("step", fork_at))
        _changed(source, changes)  # a mistake is said before anything is copied
        with source.fork(step, fork_to) as directory:
            return _go_on(directory, [*changes, f"run={fork_to}"])


def _go_on(directory: Run, changes: list[str]) -> int:
    if directory.meta.get("verb") != "play":
        raise UserError(f"{directory.path}: a run of '{directory.meta.get('verb')}' cannot be resumed by this version")
    config = _changed(directory, changes)
    if changes:
        write_atomic(directory.path / "config.yaml", configuration.to_yaml(config))
    console = stderr_console()
    for line in directory.differences():
        console.print(f"note: {line}; results may differ from an uninterrupted run", markup=False)
    return session.play(directory, config)


def _changed(directory: Run, changes: list[str]) -> play.PlayConfig:
    """The run's configuration with the changes, which go through the same checks as those of a new run."""
    for text in changes:
        if text.partition("=")[0] in play.GROUPS:
            raise UserError(f"'{text}': a run keeps its {text.partition('=')[0]}; start a new run for another")
    return play.restore(directory, changes)
