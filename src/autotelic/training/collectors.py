"""Collecting in processes of their own, a rollout ahead of learning: both cores are busy, and nothing waits for a
simulation but the next rollout.

While one rollout is learned from, the next is collected with the weights as they were before: the lag is one update,
always. So a run is still a function of its seed, and one that resumes does what the uninterrupted one would have done:
a checkpoint has the environments as they were before the rollout that is under way, and the weights that collect it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from autotelic import registry
from autotelic.errors import UserError
from autotelic.physics.base import Environment, EnvironmentConfig
from autotelic.policies.base import Policy
from autotelic.runs import machine
from autotelic.runs.config import plain
from autotelic.runs.remote import DONE, Channel, Remote, serve
from autotelic.training.collecting import UNIMPORTANT, Collector, Metrics
from autotelic.training.rollouts import Rollout

COLLECT, STATE, LOAD = "collect", "state", "load"  # asked of a process


@dataclass(frozen=True)
class Job:
    """What one process is told when it starts."""

    environment: dict[str, Any]  # the fields of its section of the configuration
    policy: dict[str, Any]  # the same
    length: int
    seed: int
    rank: int


class Collectors:
    """What a `Collector` is, in `number` processes with an equal share of the environments each."""

    lag = 1

    def __init__(
        self, environment: Environment, config: EnvironmentConfig, policy: Policy, length: int, seed: int, number: int
    ) -> None:
        """`environment` is one of those that `config` describes, to be asked what they are like."""
        share, rest = divmod(config.count, number)
        if rest:
            raise UserError(f"collectors={number}: {config.count} environments cannot be shared equally")
        self.environment, self.policy = environment, policy
        self.rollout = Rollout(length, config.count, environment.sizes)
        self.actor = copy.deepcopy(policy)  # it collected `rollout`
        self.broken = 0
        self._next = copy.deepcopy(policy)  # it collects what is under way
        self._given: Mapping[str, Any] | None = None  # the weights to begin with, where they are not the policy's
        self._under_way = False
        self._found: list[Any] = []  # what was under way, where it had to be waited for
        alike = {name: max(1, machine.threads() // number) for name in UNIMPORTANT if getattr(config, name, 1) == 0}
        self._config = dataclasses.replace(config, count=share, **alike)
        self._remotes: list[Remote] = []
        try:
            for rank in range(number):
                self._remotes.append(Remote(__name__))
                job = Job(_fields(self._config), _fields(policy.config), length, seed, rank)
                self._remotes[rank].channel.send_object(job)
        except BaseException:
            self.close()
            raise

    @property
    def settings(self) -> dict[str, Any]:
        """Of the environments and their processes, as far as a state depends on them."""
        kept = {name: value for name, value in plain(self._config).items() if name not in UNIMPORTANT}
        return {**kept, "collectors": len(self._remotes)}

    def collect(self, iteration: int, step: int) -> Metrics:
        """Fills `rollout`, and lets the next be begun; returns figures."""
        if not self._under_way:
            self._begin(iteration, step, self._given or self.policy.state_dict())
        answers = self._waited_for()
        self._under_way, self._found = False, []
        self.actor, self._next = self._next, self.actor
        share = self._config.count
        for rank, (part, _) in enumerate(answers):
            self.rollout.unpack(rank * share, part)
        figures = joined_figures([figures for _, figures in answers])
        self.broken = int(figures["broken"])
        self._begin(iteration + 1, step + self.rollout.length * self.rollout.count, self.policy.state_dict())
        return figures

    def _begin(self, iteration: int, step: int, weights: Mapping[str, Any]) -> None:
        self._next.load_state_dict(weights)
        self._given, self._under_way = None, True
        arrays = {name: values.numpy() for name, values in self._next.state_dict().items()}
        self._tell((COLLECT, iteration, step, arrays))

    def _waited_for(self) -> list[Any]:
        """The rollout that is under way."""
        if not self._found:
            self._found = self._answers()
        return self._found

    def state(self, step: int) -> dict[str, Any]:
        """As it was before what is under way."""
        if self._under_way:
            self._waited_for()
        self._tell((STATE, step))
        weights = self._given or (self._next if self._under_way else self.policy).state_dict()
        kept = {name: values.clone() for name, values in weights.items()}
        return {"parts": self._answers(), "weights": kept, "broken": self.broken}

    def load_state(self, state: Mapping[str, Any]) -> None:
        for rank, part in enumerate(state["parts"]):
            self._tell((LOAD, part), rank)
        self._answers()
        self._given, self.broken = state["weights"], state["broken"]

    def close(self) -> None:
        for remote in self._remotes:
            remote.hang_up()
        for remote in self._remotes:
            remote.close(patience=1.0 if self._under_way else 10.0)

    def _tell(self, message: tuple[Any, ...], only: int | None = None) -> None:
        for rank, remote in enumerate(self._remotes):
            if only in (None, rank):
                try:
                    remote.channel.send_object(message)
                except ConnectionError:
                    self._answer(rank)  # what it said before it went, or that it went
                    raise

    def _answers(self) -> list[Any]:
        return [self._answer(rank) for rank in range(len(self._remotes))]

    def _answer(self, rank: int) -> Any:
        try:
            return self._remotes[rank].answer()
        except (ConnectionError, EOFError) as error:
            raise UserError(f"collector {rank}: the process {self._remotes[rank].how_it_ended()}") from error


def joined_figures(parts: Sequence[Metrics]) -> Metrics:
    """Of several collectors: means over episodes are weighted by how many ended."""
    ended = [part["episode/ended"] for part in parts]
    figures: Metrics = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        there = [(part[name], number) for part, number in zip(parts, ended, strict=True) if name in part]
        values, numbers = zip(*there, strict=True)
        weights = numbers if name.startswith("episode/") and sum(numbers) else None
        figures[name] = float(np.average(values, weights=weights))
    return figures | {name: sum(part[name] for part in parts) for name in ("episode/ended", "broken")}


def _fields(section: Any) -> dict[str, Any]:
    return {field.name: getattr(section, field.name) for field in dataclasses.fields(section)}


def _made(group: str, fields: dict[str, Any], *arguments: Any) -> Any:
    """What a section names. The class of a section is made when it is read, and is not known to other processes."""
    name = fields["name"]
    config = registry.config_class(group, name)
    known = {field.name for field in dataclasses.fields(config)}
    given = {key: value for key, value in fields.items() if key in known}
    return registry.get(group, name)(config(**given), *arguments)


def main(connection: int) -> None:
    """What the process does."""
    serve(connection, _serve, "a collector")


def _serve(channel: Channel) -> None:
    """Answers until the other end is closed."""
    job: Job = channel.receive_object()
    torch.set_num_threads(1)
    with _made("environments", job.environment) as environment:
        policy: Policy = _made("policies", job.policy, environment.sizes, environment.action_space)
        collector = Collector(environment, policy, job.length, job.seed, job.rank)
        before: dict[str, Any] | None = None  # as it was before the last rollout
        while (asked := _asked(channel)) is not None:
            what, *arguments = asked
            answer: Any = None
            if what == COLLECT:
                iteration, step, weights = arguments
                before = collector.state(step)
                policy.load_state_dict({name: torch.from_numpy(values) for name, values in weights.items()})
                figures = collector.collect(iteration, step)
                answer = (collector.rollout.packed(), figures)
            elif what == STATE:
                answer = before or collector.state(*arguments)
            else:
                collector.load_state(*arguments)
                before = None  # of the time before
            channel.send(DONE)
            channel.send_object(answer)


def _asked(channel: Channel) -> Any:
    try:
        return channel.receive_object()
    except EOFError:
        return None
