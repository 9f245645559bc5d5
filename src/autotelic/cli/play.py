"""autotelic play: self-play until a bound is reached."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotelic import registry
from autotelic.cli import carry, play_session, sweep
from autotelic.cli.arguments import add_overrides
from autotelic.cli.carry import RunConfig
from autotelic.errors import UserError
from autotelic.minds.config import LearnerConfig
from autotelic.play.archive import ArchiveConfig
from autotelic.play.loop import Loop, LoopConfig
from autotelic.play.rewards import RewardConfig
from autotelic.runs import config as configuration
from autotelic.runs.config import Group
from autotelic.runs.directory import Run

PRESETS = Path(__file__).parent / "presets"

GROUPS = {
    "world": Group("worlds", "code"),
    "player": Group("players", "grammar", generic=("hf", "model")),
    "proposer": Group("players", generic=("hf", "model")),
    "solver": Group("players", generic=("hf", "model")),
    "curriculum": Group("curricula", "none", changeable=True),
}

EPILOG = """\
keys: run= root= seed= steps= minutes= world= player= proposer= solver= curriculum=
      evaluate= evaluate_every= evaluate_suite= evaluate_tasks=
      world.KEY player.KEY curriculum.KEY loop.KEY reward.KEY archive.KEY checkpoint.KEY log.KEY
Whichever of steps= and minutes= comes first ends the run (100 steps when neither is given); it can be stopped at any
time and resumed.
"""


@dataclass
class PlayConfig(RunConfig):
    """All of a self-play run. One player has both roles unless proposer and solver name two."""

    evaluate: bool = True  # measure held-out accuracy before and after
    evaluate_every: int = 0  # steps between measurements while the run goes on; 0: none
    evaluate_suite: str | None = None  # named as for eval's suite=; if not given, the world's held-out suite
    evaluate_tasks: int | None = None  # so many of its tasks, spread evenly; all if not given
    world: Any = None
    player: Any = None
    proposer: Any = None
    solver: Any = None
    curriculum: Any = None
    loop: LoopConfig = field(default_factory=LoopConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.evaluate_every < 0:
            raise UserError(f"evaluate_every={self.evaluate_every}: must be 0 (off) or more")
        if self.evaluate_tasks is not None and self.evaluate_tasks < 1:
            raise UserError(f"evaluate_tasks={self.evaluate_tasks}: must be at least 1")
        for role in ("proposer", "solver"):
            self._check_learner(role)

    def _check_learner(self, role: str) -> None:
        """What a learner remembers must be right, and it knows texts by what they earned alone."""
        own = getattr(self, role)
        key, player = (role, own) if own is not None else ("player", self.player)
        learner = getattr(player, "learner", None)
        if not isinstance(learner, LearnerConfig) or not learner.enabled:
            return
        mind = getattr(registry.get("players", player.name), "mind_class", None)
        if mind is None or not mind.learns:
            return
        solves = role == "solver"
        imitates = f"{key}.learner.replay={learner.replay} imitates " + (
            "answers that earned more than 0" if solves else "proposals that earned 0 or more"
        )
        if learner.replay and solves and self.reward.correct <= 0:
            raise UserError(
                f"reward.correct is {self.reward.correct}, and {imitates}: set reward.correct above 0, or "
                f"{key}.learner.replay=0"
            )
        for bad in ("bad_format", "wrong" if solves else "invalid"):
            paid = getattr(self.reward, bad)
            if learner.replay and (paid > 0 or (paid == 0 and not solves)):
                raise UserError(
                    f"reward.{bad} is {paid}, and {imitates}: set reward.{bad} below 0, or {key}.learner.replay=0"
                )
        if solves and self.loop.hindsight and not learner.replay:
            raise UserError(
                f"loop.hindsight is on, and what is right in hindsight is learned by replay alone: set "
                f"loop.hindsight=false, or {key}.learner.replay above 0"
            )

    @property
    def last_step(self) -> int | None:
        """100 when neither steps nor minutes are given."""
        return 100 if self.steps is None and self.minutes is None else self.steps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_overrides(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.multirun:
        return sweep.run("play", arguments, compose)
    config = compose(arguments.overrides, arguments.config)
    with _create(config) as directory, carry.discarded_on_failure(directory):
        return carry_on(directory, config)


@contextmanager
def new_loop(*overrides: str) -> Iterator[Loop]:
    """A new run from Python, configured like the command line:
    `with autotelic.new_loop("player=grammar") as loop: loop.run(3)`"""
    config = compose(list(overrides), None)
    with _create(config) as directory, ExitStack() as stack:
        with carry.discarded_on_failure(directory):
            loop = stack.enter_context(play_session.open_loop(directory, config))
        yield loop


@contextmanager
def open_loop(run: str | Path) -> Iterator[Loop]:
    """A run at its last checkpoint, to go on with from Python: `with autotelic.open_loop("runs/one") as loop: …`"""
    with Run.open(run) as directory, play_session.open_loop(directory, restore(directory)) as loop:
        yield loop


def _create(config: PlayConfig) -> Run:
    plain = configuration.plain(config)
    return Run.create(config.root, config.run, plain, verb="play", subject=config.world.name, seed=config.seed)


def compose(overrides: list[str], file: str | None) -> PlayConfig:
    return configuration.compose(PlayConfig, GROUPS, overrides, file=file, presets=PRESETS)


def restore(directory: Run, changes: Sequence[str] = ()) -> PlayConfig:
    """The configuration a run was made with, with changes."""
    where, data = str(directory.path / "config.yaml"), directory.config()
    configuration.require_sections(data, ("world", "player"), where)
    return configuration.restore(PlayConfig, GROUPS, data, where, changes)


carry_on, require_whole = play_session.play, play_session.require_archive
