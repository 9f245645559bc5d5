"""autotelic train: a policy learns in an environment until a bound is reached."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotelic.cli import carry, sweep, train_session
from autotelic.cli.arguments import add_overrides
from autotelic.cli.carry import RunConfig
from autotelic.errors import UserError
from autotelic.learning import parallel
from autotelic.runs import config as configuration
from autotelic.runs.config import Group
from autotelic.runs.directory import Run

PRESETS = Path(__file__).parent / "presets"

GROUPS = {
    "env": Group("environments", "humanoid-walk", generic=("gymnasium", "id"), pattern=r"[A-Z].*|.*-v\d+|.*:.*"),
    "policy": Group("policies", "mlp"),
    "learner": Group("learners", "ppo"),
}

EPILOG = """\
keys: run= root= seed= steps= minutes= env= policy= learner= evaluate= evaluate_every= evaluate_episodes= target=
      target_success= collectors= video= env.KEY policy.KEY learner.KEY checkpoint.KEY log.KEY
env= is one of our own tasks or the name of any Gymnasium environment (HalfCheetah-v5). Steps are actions, all
environments counted; checkpoint.every and evaluate_every count iterations, each a rollout and an update.
"""


@dataclass
class TrainConfig(RunConfig):
    """All of a training run."""

    usual_steps: int = 1_000_000  # the bound where neither steps nor minutes are given
    evaluate: bool = True  # measure the policy, without chance, at the end
    evaluate_every: int = 0  # iterations between measurements while the run goes on; 0: none
    evaluate_episodes: int = 100
    target: float | None = None  # ends the run when the mean return of a measurement reaches it
    target_success: float | None = None  # ends the run when the share of successes in a measurement reaches it
    collectors: int = 0  # processes that collect the next rollout while this one is learned from; 0: in turn, in one
    video: bool = True  # film the policy at the end
    env: Any = None
    policy: Any = None
    learner: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.usual_steps < 1:
            raise UserError(f"usual_steps={self.usual_steps}: must be at least 1")
        if self.collectors < 0:
            raise UserError(f"collectors={self.collectors}: must be 0 (collect, then learn) or more")
        if self.evaluate_every < 0:
            raise UserError(f"evaluate_every={self.evaluate_every}: must be 0 (off) or more")
        if self.evaluate_episodes < 1:
            raise UserError(f"evaluate_episodes={self.evaluate_episodes}: must be at least 1")
        if (self.target is not None or self.target_success is not None) and not self.evaluate_every:
            raise UserError("target: nothing measures whether it is reached: give evaluate_every=N")

    @property
    def last_step(self) -> int | None:
        return self.usual_steps if self.steps is None and self.minutes is None else self.steps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_overrides(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.multirun:
        return sweep.run("train", arguments, compose)
    config = compose(arguments.overrides, arguments.config)
    with parallel.joined():
        if parallel.rank():
            return train_session.follow(config)
        plain = configuration.plain(config)
        subject = config.env.id if hasattr(config.env, "id") else config.env.name
        with (
            Run.create(config.root, config.run, plain, verb="train", subject=subject, seed=config.seed) as directory,
            carry.discarded_on_failure(directory),
        ):
            return train_session.train(directory, config)


def compose(overrides: list[str], file: str | None) -> TrainConfig:
    return configuration.compose(TrainConfig, GROUPS, overrides, file=file, presets=PRESETS)


def restore(directory: Run, changes: Sequence[str] = ()) -> TrainConfig:
    """The configuration a run was made with, with changes."""
    where, data = str(directory.path / "config.yaml"), directory.config()
    configuration.require_sections(data, ("env", "policy", "learner"), where)
    return configuration.restore(TrainConfig, GROUPS, data, where, changes)


def carry_on(directory: Run, config: TrainConfig) -> int:
    with parallel.joined():
        return train_session.follow(config) if parallel.rank() else train_session.train(directory, config)


def require_whole(directory: Run) -> None:
    """A checkpoint has all there is of a training run."""
