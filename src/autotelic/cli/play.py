"""autotelic play: self-play until a bound is reached."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autotelic import registry
from autotelic.cli import carry, play_session, sweep
from autotelic.cli.arguments import add_overrides
from autotelic.cli.carry import RunConfig
from autotelic.errors import UserError
from autotelic.minds.config import LearnerConfig
from autotelic.play.archive import ArchiveConfig
from autotelic.play.episodes import Episodes
from autotelic.play.loop import Loop, LoopConfig
from autotelic.play.player import Player
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
keys: run= root= seed= steps= minutes= episodes= world= player= proposer= solver= curriculum=
      evaluate= evaluate_every= evaluate_suite= evaluate_tasks=
      world.KEY player.KEY curriculum.KEY loop.KEY reward.KEY archive.KEY checkpoint.KEY log.KEY
Who plays, if player= does not say: grammar in world=code, tiny, which learns, in world=arm.
Whichever of steps=, minutes= and episodes= comes first ends the run (100 steps when none is given); it can be stopped
at any time and resumed. An episode is one attempt at a task. With episodes= and a player that does not learn, tasks are
attempted one at a time, once each, and said in a line: play world=arm player=scripted episodes=3 loop.difficulty=easy
"""

# What goes well with episodes= where nobody learns.
ONE_AT_A_TIME = {
    "loop.batch": "1",
    "loop.attempts": "1",
    "loop.attempts_at": "{}",
    "loop.proposals_at": "{}",
    "loop.seeding": "0",
    "evaluate": "false",
}


@dataclass
class PlayConfig(RunConfig):
    """All of a self-play run. One player has both roles unless proposer and solver name two."""

    episodes: int | None = None  # a bound on attempts at tasks; the step in which it is reached is done first
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
        if self.episodes is not None and self.episodes < 1:
            raise UserError(f"episodes={self.episodes}: must be at least 1")
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
        if not isinstance(learner, LearnerConfig) or not _learns(player):
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
        """100 when no bound is given."""
        return 100 if self.steps is None and self.minutes is None and self.episodes is None else self.steps

    @property
    def total(self) -> int | None:
        """Of tasks that are attempted one at a time, once each, a step is an episode."""
        return self.last_step or (self.episodes if self.loop.batch == self.loop.attempts == 1 else None)

    def reached(self, loop: Loop) -> bool:
        return super().reached(loop) or (self.episodes is not None and loop.episodes >= self.episodes)

    @property
    def learns(self) -> bool:
        """Whether any of the players does."""
        both = self.proposer is not None and self.solver is not None
        players = (self.proposer, self.solver, None if both else self.player)
        return any(_learns(player) for player in players if player is not None)


def _learns(player: Any) -> bool:
    """Whether a player of this configuration changes by what it is paid."""
    found = registry.get("players", player.name)
    mind, learner = getattr(found, "mind_class", None), getattr(player, "learner", None)
    if mind is None:
        return found.learn is not Player.learn
    return mind.learns and isinstance(learner, LearnerConfig) and learner.enabled


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
def new_episodes(*overrides: str) -> Iterator[Episodes]:
    """A new run from Python in which tasks are attempted one at a time, configured like the command line:
    `with autotelic.new_episodes("world=arm", "player=scripted") as episodes: print(episodes.run_episode())`"""
    with new_loop(*_one_at_a_time(compose(list(overrides), None)), *overrides) as loop:
        yield Episodes(loop)


@contextmanager
def open_loop(run: str | Path) -> Iterator[Loop]:
    """A run at its last checkpoint, to go on with from Python: `with autotelic.open_loop("runs/one") as loop: …`"""
    with Run.open(run) as directory, play_session.open_loop(directory, restore(directory)) as loop:
        yield loop


def _create(config: PlayConfig) -> Run:
    plain = configuration.plain(config)
    return Run.create(config.root, config.run, plain, verb="play", subject=config.world.name, seed=config.seed)


def compose(overrides: list[str], file: str | None) -> PlayConfig:
    groups = _groups(overrides, file)
    config = configuration.compose(PlayConfig, groups, overrides, file=file, presets=PRESETS)
    if config.episodes is None or config.learns:
        return config
    overrides = [*_one_at_a_time(config), *overrides]
    return configuration.compose(PlayConfig, groups, overrides, file=file, presets=PRESETS)


def _groups(overrides: Sequence[str], file: str | None) -> dict[str, Group]:
    """With the player that is usual in the world that is chosen, unless two others have its roles."""
    data = configuration.read_yaml(Path(file)) if file is not None else {}
    chosen = {key: value.get("name") if isinstance(value, dict) else value for key, value in data.items()}
    chosen |= {override.key_or_group: override.value() for override in configuration.parse(overrides)}
    world = chosen.get("world") or GROUPS["world"].default
    if world not in registry.names("worlds") or (chosen.get("proposer") and chosen.get("solver")):
        return GROUPS
    usual = getattr(registry.config_class("worlds", world), "usual_player", GROUPS["player"].default)
    return {**GROUPS, "player": replace(GROUPS["player"], default=usual)}


def _one_at_a_time(config: PlayConfig) -> list[str]:
    """Overrides that make each step one attempt at one task. Those of the user come after them, and win."""
    wanted = dict(ONE_AT_A_TIME)
    for section in ("world", "player", "proposer", "solver"):
        own = getattr(getattr(config, section), "one_at_a_time", {})
        wanted |= {f"{section}.{key}": value for key, value in own.items()}
    return [f"{key}={value}" for key, value in wanted.items()]


def restore(directory: Run, changes: Sequence[str] = ()) -> PlayConfig:
    """The configuration a run was made with, with changes."""
    where, data = str(directory.path / "config.yaml"), directory.config()
    configuration.require_sections(data, ("world", "player"), where)
    return configuration.restore(PlayConfig, GROUPS, data, where, changes)


carry_on, require_whole = play_session.play, play_session.require_archive
