"""Collecting rollouts: a policy acts in environments, and what happened is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from autotelic.learning.threads import alone
from autotelic.physics.base import Environment, Step
from autotelic.policies.base import Policy
from autotelic.runs import seeds
from autotelic.runs.config import plain
from autotelic.training.evaluate import as_tensors, means
from autotelic.training.rollouts import Rollout

Metrics = dict[str, float]
UNIMPORTANT = ("threads", "processes")  # settings of environments that change nothing but their speed


class Collector:
    """Environments and the policy that acts in them. All chance is a function of seed, rank and iteration, or part of
    the environments' state."""

    lag = 0  # updates since the policy was as it is when it collects

    def __init__(self, environment: Environment, policy: Policy, length: int, seed: int, rank: int = 0) -> None:
        """`rank`: of several collectors with one seed, which this is."""
        self.environment, self.policy, self.seed, self.rank = environment, policy, seed, rank
        self.rollout = Rollout(length, environment.count, environment.sizes)
        self.episodes = Episodes(environment.count)
        self._obs: dict[str, torch.Tensor] | None = None

    @property
    def actor(self) -> Policy:
        """The policy that collected the last rollout."""
        return self.policy

    @property
    def settings(self) -> dict[str, Any]:
        """Of the environments, as far as their state depends on them."""
        return {name: value for name, value in plain(self.environment.config).items() if name not in UNIMPORTANT}

    @property
    def broken(self) -> int:
        """Simulations that broke so far."""
        return self.environment.broken

    def collect(self, iteration: int, step: int) -> Metrics:
        """Fills `rollout`; returns figures of it. `step`: how many the run has behind it."""
        obs, environment, rollout = self._begun(step), self.environment, self.rollout
        generator = torch.Generator().manual_seed(self._seed("sample", iteration))
        with alone():  # a simulation has threads of its own, which must not wait for those of a small product
            for t in range(rollout.length):
                decision = self.policy.sample(obs, generator)
                found = environment.step(decision.action.numpy())
                rollout.add(t, obs, decision.trace, found)
                self.episodes.add(found)
                obs = as_tensors(found.obs)
        rollout.close(obs)
        self._obs = obs
        return self.episodes.figures() | {"broken": float(environment.broken)}

    def _begun(self, step: int) -> dict[str, torch.Tensor]:
        """The observation under way; of new environments, the first."""
        if self._obs is None:
            self._obs = as_tensors(self.environment.reset(self._seed("environment", step)))
            if self.environment.stagger(np.random.default_rng(self._seed("stagger"))):
                self.episodes.staggered()
        return self._obs

    def _seed(self, *purpose: str | int) -> int:
        return seeds.derive(self.seed, *purpose, self.rank)

    def state(self, step: int) -> dict[str, Any]:
        self._begun(step)  # a run may be stopped before its first step
        return {"environment": self.environment.state(), "episodes": self.episodes.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._obs = as_tensors(self.environment.load_state(state["environment"]))
        if self.environment.exact:  # otherwise all of them have begun a new episode
            self.episodes.load_state(state["episodes"])


class Episodes:
    """Returns and lengths of the episodes that are under way, and figures of those that ended in an iteration."""

    def __init__(self, count: int) -> None:
        self._returns, self._lengths = np.zeros(count), np.zeros(count, np.int64)
        self._whole = np.ones(count, bool)  # not so for a first episode that pretends to have begun before
        self._steps = 0
        self._terms: dict[str, np.ndarray] = {}
        self._ended: dict[str, list[np.ndarray]] = {}
        self._last: Metrics = {}

    def staggered(self) -> None:
        self._whole[:] = False

    def add(self, step: Step) -> None:
        self._steps += 1
        self._returns += step.reward
        self._lengths += 1
        for name, values in step.terms.items():
            if name in self._terms:
                self._terms[name] += values
            else:
                self._terms[name] = np.array(values, np.float64)
        if len(ids := step.ended):
            whole = self._whole[ids]
            ended = {"return": self._returns[ids], "length": self._lengths[ids], **step.episodes}
            for name, values in ended.items():
                self._ended.setdefault(name, []).append(values[whole])
            self._returns[ids], self._lengths[ids], self._whole[ids] = 0.0, 0, True

    def figures(self) -> Metrics:
        """Means since they were last asked for. Where no episode ended, the last ones still hold."""
        terms = {f"reward/{name}": float(values.mean()) / self._steps for name, values in self._terms.items()}
        ended = {name: np.concatenate(values) for name, values in self._ended.items()}
        number = len(ended.get("return", ()))
        if number:
            self._last = {f"episode/{name}": value for name, value in means(ended, number).items()}
        self._steps, self._terms, self._ended = 0, {}, {}
        return {**self._last, "episode/ended": float(number), **terms}

    def state(self) -> dict[str, Any]:
        return {
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "whole": self._whole.copy(),
            "last": dict(self._last),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._returns[:], self._lengths[:] = state["returns"], state["lengths"]
        self._whole[:], self._last = state["whole"], dict(state["last"])
