"""Builds what a configuration of training names, and trains a run to its bound. Shared by train, resume, eval, watch
and export."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console

from autotelic import registry
from autotelic.cli import carry
from autotelic.errors import UserError
from autotelic.learning import parallel
from autotelic.learning.threads import at_most
from autotelic.physics.base import Environment
from autotelic.policies.base import Policy
from autotelic.runs import machine, seeds
from autotelic.runs.directory import Run
from autotelic.runs.progress import Display, stderr_console
from autotelic.runs.workers import graceful_stop
from autotelic.training.collecting import Collector
from autotelic.training.collectors import Collectors
from autotelic.training.loop import Exam, Training, load_policy

if TYPE_CHECKING:
    from autotelic.cli.train import TrainConfig


def build_environment(section: Any, **changes: Any) -> Environment:
    section = dataclasses.replace(section, **changes) if changes else section
    return registry.get("environments", section.name)(section)


def build_policy(config: TrainConfig, environment: Environment) -> Policy:
    """New weights, a function of the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds.derive(config.seed, "weights"))
        policy = registry.get("policies", config.policy.name)
        return policy(config.policy, environment.sizes, environment.action_space)


def exam_seed(config: TrainConfig) -> int:
    """Of the episodes that a run is measured with: the same each time, so that what changes is the policy."""
    return seeds.derive(config.seed, "evaluate")


@contextlib.contextmanager
def open_training(directory: Run, config: TrainConfig) -> Iterator[Training]:
    """The training at its last checkpoint, or at the beginning: what is newer is dropped, as if it had not been."""
    directory.checkpoints.keep = config.checkpoint.keep
    begun = bool(directory.checkpoints.steps())
    with build_training(directory, config) as training:
        if not begun:
            carry.refuse_lost_checkpoints(directory, first=training.steps_an_iteration)
            directory.metrics.rewind(-1)
        else:
            step, state = directory.checkpoints.load()
            with carry.damage_named(directory.checkpoints.path(step)):
                training.restore(step, state)
        yield training


def follow(config: TrainConfig) -> int:
    """What a process that is not the first does: iterations as it is told, nothing with files or signals."""
    with build_training(None, config) as training, graceful_stop():
        training.follow()
    return 0


@contextlib.contextmanager
def build_training(directory: Run | None, config: TrainConfig) -> Iterator[Training]:
    """At the beginning."""
    ahead = config.collectors
    if ahead and parallel.processes() > 1:
        raise UserError(f"collectors={ahead}: processes that learn together collect for themselves; set it to 0")
    # Collectors have environments of their own: here, one says what they are like.
    with build_environment(config.env, **{"count": 1} if ahead else {}) as environment, contextlib.ExitStack() as stack:
        policy = build_policy(config, environment)
        learner = registry.get("learners", config.learner.name)(
            config.learner, policy, mirror=environment.mirror(), seed=seeds.derive(config.seed, "learner")
        )
        length = config.learner.steps
        if ahead:
            stack.enter_context(at_most(max(1, machine.threads() - ahead)))
            collector = Collectors(environment, config.env, policy, length, config.seed, ahead)
            stack.callback(collector.close)
        else:
            collector = Collector(environment, policy, length, config.seed, parallel.rank())
        training = Training(
            directory,
            collector,
            policy,
            learner,
            seed=config.seed,
            checkpoint=config.checkpoint,
            last_step=config.last_step,
            last_minutes=config.minutes,
            exam=Exam(
                lambda: build_environment(config.env, count=min(config.evaluate_episodes, config.env.count)),
                config.evaluate_episodes,
                exam_seed(config),
                config.evaluate_every,
                config.target,
                config.target_success,
            ),
        )
        stack.callback(training.close)
        yield training
        training.end()


@contextlib.contextmanager
def open_to_look(
    directory: Run, config: TrainConfig, step: int | None = None, **changes: Any
) -> Iterator[tuple[int, Environment, Policy]]:
    """A step (the newest by default), its policy, and environments to try it in: nothing of the run is changed, it may
    even be running. `changes` are to the environment's configuration."""
    step, state = directory.checkpoints.load(step)
    with build_environment(config.env, **changes) as environment:
        policy = build_policy(config, environment)
        with carry.damage_named(directory.checkpoints.path(step)):
            load_policy(policy, state, {"environment": environment.name, "sizes": dict(environment.sizes)})
        yield step, environment, policy


def train(directory: Run, config: TrainConfig) -> int:
    """Trains from the last checkpoint, or the beginning, to the nearer bound. Returns the exit code."""
    with open_training(directory, config) as training:

        def measure(console: Console) -> None:
            if not config.evaluate:
                return
            with Display("evaluation", config.evaluate_episodes, unit="episodes", console=console) as display:
                training.measure(display.update)
            training.save_checkpoint()  # with what was measured: it may be the best

        note = "" if training.environment.exact else f"{training.environment.name} cannot be restored exactly"
        if training.begun_anew:
            note = "the environments are others than before, and begin new episodes"
        if training.rescheduled:
            fall = "its learning rate now falls to 0 at another bound than before"
            note = f"{note}; {fall}" if note else fall
        code = carry.to_bound(
            training,
            directory,
            config,
            "train",
            _shown,
            begun=training.step > 0,
            note=note,
            last=measure,
        )
    _show(directory, config, finished=not code)
    return code


def _show(directory: Run, config: TrainConfig, finished: bool) -> None:
    """The film, the report, the table."""
    from autotelic.cli.watch import film_run
    from autotelic.show.report import write_report
    from autotelic.show.summary import summary_table

    if config.video and finished:
        try:
            film_run(directory, config)
        except UserError as error:  # a machine without graphics still has a trained policy
            stderr_console().print(f"note: no video: {error}", markup=False)
    write_report(directory.path)
    if finished:
        Console(highlight=False).print(summary_table(directory))


def _shown(figures: Mapping[str, float]) -> dict[str, float]:
    """The few figures beside the bar."""
    names = {"episode/return": "return", "episode/length": "length", "eval/success_rate": "success"}
    return {label: figures[name] for name, label in names.items() if name in figures}
