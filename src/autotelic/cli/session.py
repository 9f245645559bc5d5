"""Builds what a configuration of self-play names, and carries a run to its bound. Shared by play, resume and eval."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from autotelic import registry
from autotelic.errors import UserError
from autotelic.play.archive import Archive
from autotelic.play.loop import Loop
from autotelic.play.player import Player
from autotelic.runs.directory import Run
from autotelic.runs.files import named_errors
from autotelic.runs.progress import Display, stderr_console
from autotelic.runs.workers import Stop, graceful_stop
from autotelic.worlds.base import Task, World

if TYPE_CHECKING:
    from autotelic.cli.play import PlayConfig


@dataclass
class Parts:
    world: World
    proposer: Player
    solver: Player


@contextlib.contextmanager
def build_world(config: PlayConfig) -> Iterator[World]:
    world = registry.get("worlds", config.world.name)(config.world)
    try:
        yield world
    finally:
        world.close()


@contextlib.contextmanager
def build(config: PlayConfig) -> Iterator[Parts]:
    """The world and the players, closed at the end."""
    with build_world(config) as world:
        player = None
        if config.proposer is None or config.solver is None:
            player = _player(config.player, world)
        proposer = _player(config.proposer, world) if config.proposer is not None else player
        solver = _player(config.solver, world) if config.solver is not None else player
        assert proposer is not None
        assert solver is not None
        yield Parts(world, proposer, solver)


def _player(config: Any, world: World) -> Player:
    return registry.get("players", config.name)(config, world)


@contextlib.contextmanager
def open_loop(directory: Run, config: PlayConfig) -> Iterator[Loop]:
    """The loop at its last checkpoint, or at the beginning: what is newer is dropped, as if it had not been."""
    directory.checkpoints.keep = config.checkpoint.keep
    begun = bool(directory.checkpoints.steps())
    step, state = directory.checkpoints.load() if begun else (-1, {})
    if not begun:
        # Nothing was committed: what is there is the work of a process that died before its first checkpoint.
        directory.metrics.rewind(step)
        with named_errors(directory.archive):
            for left in directory.path.glob("archive.sqlite*"):
                left.unlink()
    opened = Archive.open if begun else Archive.create
    with build(config) as parts, opened(directory.archive, config.archive) as archive:
        loop = _loop(directory, config, parts, archive)
        if begun:
            loop.restore(step, state)
        yield loop


@contextlib.contextmanager
def open_to_look(directory: Run, config: PlayConfig) -> Iterator[Loop]:
    """The loop at its last checkpoint, to be evaluated: nothing of the run is changed, it may even be running."""
    step, state = directory.checkpoints.load()
    with build(config) as parts, Archive.open(directory.archive, config.archive, readonly=True) as archive:
        loop = _loop(directory, config, parts, archive)
        loop.step = step
        parts.proposer.load_state(state["proposer"])
        if parts.solver is not parts.proposer:
            parts.solver.load_state(state["solver"])
        yield loop


def _loop(directory: Run, config: PlayConfig, parts: Parts, archive: Archive) -> Loop:
    return Loop(
        config.loop,
        directory,
        parts.world,
        parts.proposer,
        parts.solver,
        archive,
        seed=config.seed,
        reward=config.reward,
        checkpoint=config.checkpoint,
    )


def suite(world: World, path: Path | None = None) -> list[Task]:
    """The world's held-out tasks, or a user's own from a file."""
    if path is not None:
        load = getattr(world, "load_suite", None)
        if load is None:
            raise UserError(f"suite={path}: the world {world.name} reads no suites")
        return load(path)
    return list(getattr(world, "suite", ()))


def _measure(loop: Loop, when: str) -> None:
    """Enters the held-out accuracy, before or after learning, into the loop's headline figures."""
    tasks = suite(loop.world)
    for kind, row in (loop.evaluate(tasks) if tasks else {}).items():
        loop.heldout.setdefault(kind, {}).update({when: row["accuracy"], "n": row["n"]})


def play(directory: Run, config: PlayConfig) -> int:
    """Plays from the last checkpoint, or the beginning, to the nearer bound. Returns the exit code."""
    console = stderr_console()

    def say(line: str) -> None:
        console.print(line, markup=False)

    with open_loop(directory, config) as loop, graceful_stop(say) as stop:
        directory.log_to(config.log, loop.step + 1)
        if config.evaluate and loop.step < 0:
            say("measuring held-out accuracy before learning")
            _measure(loop, "before")
        _advance(loop, directory, config, stop, console)
        finished = _bound_reached(loop, config)
        if loop.step >= 0:
            loop.save_checkpoint()
        if config.evaluate and finished:
            say("measuring held-out accuracy after learning")
            _measure(loop, "after")
        result = loop.result(finished)
        directory.write_result(result)
    # Imported when there is something to show: plotting takes long to load, and a mistake should be said at once.
    from autotelic.show.report import write_report
    from autotelic.show.summary import summary_table

    write_report(directory.path)
    if not finished:
        say(f"stopped after step {result['steps']}; go on with: autotelic resume {directory.path}")
        return stop.exit_code
    Console(highlight=False).print(summary_table(directory))
    return 0


def _advance(loop: Loop, directory: Run, config: PlayConfig, stop: Stop, console: Console) -> None:
    """Steps until a bound is reached or the user asks to stop."""
    left = None if config.minutes is None else config.minutes - loop.seconds / 60
    where = str(directory.path)
    with Display("play", config.steps, done=max(loop.step, 0), minutes=left, results=where, console=console) as display:
        while not stop.requested and not _bound_reached(loop, config):
            figures = loop.run_step()
            display.update(loop.step, _shown(figures))


def _bound_reached(loop: Loop, config: PlayConfig) -> bool:
    return loop.step >= config.steps or (config.minutes is not None and loop.seconds >= config.minutes * 60)


def _shown(figures: Mapping[str, float]) -> dict[str, float]:
    """The few figures beside the bar: how many proposals became tasks, how many attempts solved one."""
    shown = {}
    for name in ("valid_share", "solve_rate"):
        values = [value for key, value in figures.items() if key.endswith(f"/{name}")]
        if values:
            shown[name] = sum(values) / len(values)
    return shown
