"""Builds what a configuration of self-play names, and plays a run to its bound. Shared by play, resume and eval."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from autotelic import registry
from autotelic.cli import carry
from autotelic.errors import UserError
from autotelic.play import evaluation
from autotelic.play.archive import Archive
from autotelic.play.episodes import attempted
from autotelic.play.exchange import Imported
from autotelic.play.loop import Loop
from autotelic.play.player import Player
from autotelic.runs.directory import Run
from autotelic.runs.files import named_errors
from autotelic.runs.progress import Display
from autotelic.worlds.base import Task, World

if TYPE_CHECKING:
    from autotelic.cli.play import PlayConfig


NAMED = 20  # bad lines of an imported file that are named one by one

_BESIDE = {
    "propose/valid_share": "valid_share",
    "solve/solve_rate": "solve_rate",
    "curriculum/difficulty": "wanted",
    "curriculum/rung": "rung",
}
_FEATURE, _FEATURES = "curriculum/wanted/", 3  # wanted features beside the bar: more would not fit


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
    with build_world(config) as world, contextlib.ExitStack() as stack:
        config.loop.check_kinds(world)  # before a player is made, which can take long

        def made(section: Any) -> Player:
            player = registry.get("players", section.name)(section, world)
            stack.callback(player.close)
            return player

        player = made(config.player) if config.proposer is None or config.solver is None else None
        proposer = made(config.proposer) if config.proposer is not None else player
        solver = made(config.solver) if config.solver is not None else player
        assert proposer is not None
        assert solver is not None
        yield Parts(world, proposer, solver)


@contextlib.contextmanager
def open_loop(directory: Run, config: PlayConfig) -> Iterator[Loop]:
    """The loop at its last checkpoint, or at the beginning: what is newer is dropped, as if it had not been."""
    directory.checkpoints.keep = config.checkpoint.keep
    begun = bool(directory.checkpoints.steps())
    step, state = directory.checkpoints.load() if begun else (-1, {})
    if begun:
        require_archive(directory)
    else:
        _start_over(directory)
    opened = Archive.open if begun else Archive.create
    with build(config) as parts, opened(directory.archive, config.archive) as archive:
        loop = _loop(directory, config, parts, archive, _suite(config, parts.world))
        if begun:
            with carry.damage_named(directory.checkpoints.path(step)):
                loop.restore(step, state)
        yield loop


def require_archive(directory: Run) -> None:
    if not directory.archive.is_file():
        raise UserError(
            f"{directory.archive}: gone, and the checkpoints are of no use without it: restore a copy of it, "
            "or start a new run"
        )


def _start_over(directory: Run) -> None:
    """Clears away the work of a process that died before its first checkpoint, which step 0 writes."""
    newest = 0
    if directory.archive.exists():
        with Archive.open(directory.archive, readonly=True) as archive:
            newest = archive.step
    carry.refuse_lost_checkpoints(directory, newest)
    directory.metrics.rewind(-1)
    with named_errors(directory.archive):
        for suffix in ("", "-wal", "-shm"):
            Path(f"{directory.archive}{suffix}").unlink(missing_ok=True)


@contextlib.contextmanager
def open_to_look(directory: Run, config: PlayConfig) -> Iterator[Loop]:
    """The loop at its last checkpoint, to be evaluated: nothing of the run is changed, it may even be running."""
    step, state = directory.checkpoints.load()
    with build(config) as parts, Archive.open(directory.archive, config.archive, readonly=True) as archive:
        loop = _loop(directory, config, parts, archive)
        loop.step = step
        with carry.damage_named(directory.checkpoints.path(step)):
            parts.proposer.load_state(state["proposer"])
            if parts.solver is not parts.proposer:
                parts.solver.load_state(state["solver"])
            parts.world.load_state(state.get("world", {}))
        yield loop


def _suite(config: PlayConfig, world: World) -> list[Task]:
    """The tasks that a run is measured with; none if it is not to be measured."""
    if not config.evaluate and not config.evaluate_every:
        return []
    found = world.suite if config.evaluate_suite is None else world.load_suite(config.evaluate_suite)
    if not found and (config.evaluate_every or config.evaluate_suite):
        where = config.evaluate_suite or f"the world {world.name}"
        raise UserError(f"{where} has no held-out tasks to measure with: give evaluate_suite=FILE.jsonl")
    if config.evaluate_suite is not None:
        world.withhold(found)
    return evaluation.spread(found, config.evaluate_tasks)


def _loop(directory: Run, config: PlayConfig, parts: Parts, archive: Archive, suite: Sequence[Task] = ()) -> Loop:
    return Loop(
        config.loop,
        directory,
        parts.world,
        parts.proposer,
        parts.solver,
        archive,
        seed=config.seed,
        reward=config.reward,
        curriculum=registry.get("curricula", config.curriculum.name)(config.curriculum),
        checkpoint=config.checkpoint,
        suite=suite,
        evaluate_every=config.evaluate_every,
    )


def _measure(loop: Loop, when: str, console: Console) -> None:
    """Enters the held-out accuracy, before or after learning, into the loop's headline figures."""
    if not loop.suite:
        return
    if loop.measured is None:
        with Display(f"held out, {when} learning", len(loop.suite), unit="tasks", console=console) as display:
            loop.measure(display.update)
    evaluation.enter(loop.heldout, when, loop.measure())


def play(directory: Run, config: PlayConfig) -> int:
    """Plays from the last checkpoint, or the beginning, to the nearer bound. Returns the exit code."""
    with open_loop(directory, config) as loop:

        def say(display: Display) -> None:
            if loop.step == 0 and loop.imported is not None:
                for line in _imported(str(config.loop.tasks), loop.imported):
                    display.say(line)
            if config.episodes is not None and not config.learns:
                for number, episode in enumerate(attempted(loop), loop.episodes - len(loop.attempted.verdicts) + 1):
                    # A bar on the terminal and lines on stdout would write over each other.
                    (display.say if sys.stdout.isatty() else print)(f"{number}. {episode}")

        exact = loop.proposer.exact and loop.solver.exact
        code = carry.to_bound(
            loop,
            directory,
            config,
            "play",
            _shown,
            begun=loop.step >= 0,
            note="" if exact else "what this player says is not decided here",
            first=lambda console: _measure(loop, "before", console) if config.evaluate else None,
            after_step=say,
            last=lambda console: _measure(loop, "after", console) if config.evaluate else None,
        )
        # Imported when there is something to show: plotting takes long to load, and a mistake should be said at once.
        from autotelic.show.report import write_report
        from autotelic.show.summary import summary_table

        # Who stops a run waits for no pictures.
        write_report(directory.path, loop.world if not code else None)
    if not code:
        Console(highlight=False).print(summary_table(directory))
    return code


def _imported(file: str, imported: Imported) -> Iterator[str]:
    """What became of the lines of a file of tasks."""
    yield from map(str, imported.bad[:NAMED])
    if len(imported.bad) > NAMED:
        yield f"{file}: {len(imported.bad) - NAMED} more bad lines skipped"
    classes = Counter(rejection.outcome for _, rejection in imported.rejected)
    why = ", ".join(f"{n} {outcome}" for outcome, n in sorted(classes.items()))
    yield (
        f"{file}: {len(imported.tasks)} tasks imported, {imported.duplicates} known already, "
        f"{len(imported.rejected)} rejected{f' ({why})' if why else ''}, {len(imported.bad)} bad lines, "
        f"{imported.ignored} lines of other types ignored"
    )


def _shown(figures: Mapping[str, float]) -> dict[str, float]:
    """The few figures beside the bar, each the mean over kinds: how many proposals became tasks, how many attempts
    solved one, and what the curriculum wants."""
    found: dict[str, list[float]] = {}
    for name, value in figures.items():
        role, _, rest = name.partition("/")
        found.setdefault(f"{role}/{rest.partition('/')[2]}", []).append(value)
    features = sorted(name for name in found if name.startswith(_FEATURE))
    labels = _BESIDE | {name: f"wanted {name.removeprefix(_FEATURE)}" for name in features[:_FEATURES]}
    return {label: sum(found[name]) / len(found[name]) for name, label in labels.items() if name in found}
