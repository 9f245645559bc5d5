"""autotelic play: self-play until a bound is reached."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotelic import registry
from autotelic.cli import session, sweep
from autotelic.errors import UserError
from autotelic.minds.config import LearnerConfig
from autotelic.play.archive import ArchiveConfig
from autotelic.play.loop import Loop, LoopConfig
from autotelic.play.rewards import RewardConfig
from autotelic.runs import config as configuration
from autotelic.runs.checkpoints import CheckpointConfig
from autotelic.runs.config import Group
from autotelic.runs.directory import Run
from autotelic.runs.metrics import LogConfig

PRESETS = Path(__file__).parent / "presets"

GROUPS = {
    "world": Group("worlds", "code"),
    "player": Group("players", "grammar", generic=("hf", "model")),
    "proposer": Group("players", generic=("hf", "model")),
    "solver": Group("players", generic=("hf", "model")),
}

EPILOG = """\
keys: run= root= seed= steps= minutes= world= player= proposer= solver=
      evaluate= evaluate_every= evaluate_suite= evaluate_tasks=
      world.KEY player.KEY loop.KEY reward.KEY archive.KEY checkpoint.KEY log.KEY
Whichever of steps= and minutes= comes first ends the run (100 steps when neither is given); it can be stopped at any
time and resumed.
"""


@dataclass
class PlayConfig:
    """All of a self-play run. One player has both roles unless proposer and solver name two."""

    run: str | None = None  # the run's name; made up when not given
    root: str = "runs"  # where run directories are
    seed: int = 0
    steps: int | None = None  # a bound; 100 when minutes is not given either
    minutes: float | None = None  # a bound on the time spent in steps
    evaluate: bool = True  # measure held-out accuracy before and after
    evaluate_every: int = 0  # steps between measurements while the run goes on; 0: none
    evaluate_suite: str | None = None  # named as for eval's suite=; if not given, the world's held-out suite
    evaluate_tasks: int | None = None  # so many of its tasks, spread evenly; all if not given
    world: Any = None
    player: Any = None
    proposer: Any = None
    solver: Any = None
    loop: LoopConfig = field(default_factory=LoopConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise UserError(f"steps={self.steps}: must be at least 1")
        if self.minutes is not None and not self.minutes > 0:
            raise UserError(f"minutes={self.minutes}: must be above 0")
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
        """The step that ends the run, unless time does so first."""
        return 100 if self.steps is None and self.minutes is None else self.steps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="what differs from the defaults")
    parser.add_argument("--config", metavar="FILE", help="YAML with keys and values; overrides win over it")
    parser.add_argument("-m", "--multirun", action="store_true", help="sweep: one run for each of key=a,b,c")


def run(arguments: argparse.Namespace) -> int:
    if arguments.multirun:
        jobs = configuration.expand(arguments.overrides)
        configs = [compose(job, arguments.config) for job in jobs]
        options = ["--log-level", arguments.log_level, *(["--debug"] if arguments.debug else [])]
        return sweep.run("play", jobs, configs, options + (["--config", arguments.config] if arguments.config else []))
    config = compose(arguments.overrides, arguments.config)
    with _create(config) as directory, session.discarded_on_failure(directory):
        return session.play(directory, config)


@contextmanager
def new_loop(*overrides: str) -> Iterator[Loop]:
    """A new run from Python, configured like the command line:
    `with autotelic.new_loop("player=grammar") as loop: loop.run(3)`"""
    config = compose(list(overrides), None)
    with _create(config) as directory, ExitStack() as stack:
        with session.discarded_on_failure(directory):
            loop = stack.enter_context(session.open_loop(directory, config))
        yield loop


@contextmanager
def open_loop(run: str | Path) -> Iterator[Loop]:
    """A run at its last checkpoint, to go on with from Python: `with autotelic.open_loop("runs/one") as loop: …`"""
    with Run.open(run) as directory, session.open_loop(directory, restore(directory)) as loop:
        yield loop


def _create(config: PlayConfig) -> Run:
    plain = configuration.plain(config)
    return Run.create(config.root, config.run, plain, verb="play", subject=config.world.name, seed=config.seed)


def compose(overrides: list[str], file: str | None) -> PlayConfig:
    return configuration.compose(PlayConfig, GROUPS, overrides, file=file, presets=PRESETS)


def restore(directory: Run, changes: Sequence[str] = ()) -> PlayConfig:
    """The configuration a run was made with, with changes."""
    where, data = str(directory.path / "config.yaml"), directory.config()
    if absent := [key for key in ("world", "player") if not data.get(key)]:
        # Defaults in their place would go on with another game than the one that was played.
        raise UserError(f"{where}: names no {' and no '.join(absent)}: only code that made this run can go on with it")
    return configuration.restore(PlayConfig, GROUPS, data, where, changes)
