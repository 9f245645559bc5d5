"""The loop of training and its measurements, in an environment whose answers are known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium import spaces

from autotelic.errors import UserError
from autotelic.learning import parallel
from autotelic.physics.base import Environment, EnvironmentConfig, Observation, Step
from autotelic.policies.base import Decision, Observations
from autotelic.policies.mlp import MLPConfig, MLPPolicy
from autotelic.training import evaluate as measuring
from autotelic.training.collecting import Collector
from autotelic.training.evaluate import as_tensors, evaluate
from autotelic.training.loop import Training
from autotelic.training.ppo import PPO, Batch
from autotelic.training.ppo_config import PPOConfig

torch.set_num_threads(1)


@dataclass(frozen=True)
class ClockConfig(EnvironmentConfig):
    count: int = 2


class Clock(Environment):
    """Every step earns 1. Episodes of environment i are cut after (i + 1) * `length` steps; one observation is the
    time, the other says whose it is. Those of environment 1 are successes; before the first nothing is said of any."""

    Config: ClassVar[type[EnvironmentConfig]] = ClockConfig

    def __init__(self, config: EnvironmentConfig, length: int = 3, limit: int | None = 6, exact: bool = True) -> None:
        self.config, self.name, self.count, self.dt = config, "clock", config.count, 1.0
        self.limit, self.sizes, self.action_space = limit, {"policy": 2}, spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.exact = exact  # type: ignore[misc]
        self.length, self.reward = length, 1.0
        self.time, self.episode = np.zeros(self.count, np.int64), np.zeros(self.count, np.int64)

    def observed(self) -> np.ndarray:
        return np.stack([self.time / 10, np.arange(self.count)], axis=1).astype(np.float32)

    def reset(self, seed: int) -> Observation:
        self.time[:], self.episode[:] = 0, 0
        return {"policy": self.observed()}

    def step(self, action: np.ndarray) -> Step:
        self.time += 1
        final, cut = self.observed(), self.time >= self.length * np.arange(1, self.count + 1)
        ended = np.flatnonzero(cut)
        told = {"success": (ended == 1).astype(float)} if 1 in ended else {}
        self.time[ended] = 0
        self.episode[ended] += 1
        reward = np.full(self.count, self.reward, np.float32)
        obs = {"policy": self.observed()}
        return Step(obs, reward, np.zeros(self.count, bool), cut, ended, {"policy": final[ended]}, {}, told)

    def state(self) -> dict[str, Any]:
        return {"time": self.time.copy(), "episode": self.episode.copy()}

    def load_state(self, state: Mapping[str, Any]) -> Observation:
        if not self.exact:
            return self.reset(0)
        self.time[:], self.episode[:] = state["time"], state["episode"]
        return {"policy": self.observed()}


def training(environment: Environment | None = None, **settings: Any) -> Training:
    torch.manual_seed(0)
    environment = environment or Clock(ClockConfig())
    policy = MLPPolicy(MLPConfig(hidden=(16,)), environment.sizes, environment.action_space)
    config = PPOConfig(**{"steps": 8, "minibatches": 2, "epochs": 2, "reward_scaling": False, **settings})
    return Training(None, Collector(environment, policy, config.steps, seed=0), policy, PPO(config, policy))


def weights(policy: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: values.clone() for name, values in policy.state_dict().items()}


# Measuring


def test_observations_are_handed_on_without_a_copy():
    values = np.zeros((2, 3), np.float32)
    tensor = as_tensors({"policy": values})["policy"]
    values[1, 2] = 7.0
    assert tensor[1, 2] == 7.0
    assert tensor.data_ptr() == values.ctypes.data


def test_every_environment_plays_equally_many_episodes():
    found = evaluate(Clock(ClockConfig()), training().policy, 4, seed=0)
    assert (found["episodes"], found["length_mean"]) == (4, (2 * 3 + 2 * 6) / 4)


def test_an_episode_that_says_nothing_of_success_had_none():
    assert evaluate(Clock(ClockConfig()), training().policy, 4, seed=0)["success_rate"] == 2 / 4


def test_an_episode_without_an_end_is_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measuring, "LONGEST", 20)
    with pytest.raises(UserError, match="clock is longer than 20 steps, and it has no time limit"):
        evaluate(Clock(ClockConfig(), length=10**6, limit=None), training().policy, 1, seed=0)


# Learning


def test_the_first_rollout_is_only_looked_at():
    run = training()
    before = weights(run.policy)
    run._iterate()
    changed = {name for name, values in weights(run.policy).items() if not torch.equal(values, before[name])}
    assert changed == {f"actor.normaliser.{name}" for name in ("count", "mean", "variance")}


def test_a_first_rollout_with_a_nan_is_refused_before_it_is_in_the_statistics():
    environment = Clock(ClockConfig())
    run = training(environment)
    before = weights(run.policy)
    environment.reward = float("nan")
    with pytest.raises(UserError, match="reward is not finite: environment 0 at step 0"):
        run._iterate()
    assert all(torch.equal(values, before[name]) for name, values in weights(run.policy).items())


def test_a_frozen_actor_stays_with_its_statistics_to_the_last_bit():
    run = training(frozen=("actor",))
    run._iterate()
    before = weights(run.policy)
    for _ in range(3):
        run._iterate()
    after = weights(run.policy)
    assert all(torch.equal(values, before[name]) for name, values in after.items() if name.startswith("actor."))
    assert any(not torch.equal(values, before[name]) for name, values in after.items() if name.startswith("critic."))


def test_an_update_finds_decisions_as_likely_as_they_were_when_they_were_taken(monkeypatch: pytest.MonkeyPatch):
    """Statistics that moved before the update would change what an observation meant to who acted."""
    run = training(epochs=1, schedule="constant")
    with torch.no_grad():
        run.policy.get_parameter("actor.head.mean.weight").mul_(100.0)  # as if it had learned to look
    sample, batch = run.policy.sample, run.learner._batch
    when_taken: list[torch.Tensor] = []
    compared = 0

    def sampled(obs: Observations, generator: torch.Generator) -> Decision:
        decision = sample(obs, generator)
        when_taken.append(run.policy.evaluate(run.policy.prepare(obs), decision.trace).log_prob.detach())
        return decision

    def looked_at(*arguments: Any) -> tuple[Batch, dict[str, float]]:
        nonlocal compared
        found = batch(*arguments)
        assert torch.allclose(found[0].log_prob, torch.cat(when_taken), rtol=0.0, atol=1e-5)
        compared += 1
        return found

    monkeypatch.setattr(run.policy, "sample", sampled)
    monkeypatch.setattr(run.learner, "_batch", looked_at)
    for _ in range(4):
        when_taken.clear()
        run._iterate()
    assert compared == 3, "the first rollout is not learned from"


def test_values_of_episodes_that_are_cut_are_those_of_going_on():
    """A reward of 1 for ever is worth 1 / (1 - gamma), however often an episode is cut."""
    run = training(gamma=0.5, lam=0.5, lr=1e-2, schedule="constant", steps=12, epochs=8)
    for _ in range(60):
        run._iterate()
    obs = run.policy.prepare({"policy": torch.tensor([[0.0, 0.0], [0.2, 0.0], [0.3, 1.0]])})
    assert torch.allclose(run.policy.value(obs), torch.full((3,), 2.0), atol=0.1)


def test_progress_is_by_the_bound_that_is_nearer():
    run = training()
    assert run.progress is None
    run.last_step, run.last_minutes, run.step, run.seconds = 100, 2.0, 25, 60.0
    assert run.progress == 0.5
    run.step = 75
    assert run.progress == 0.75


def test_a_process_that_follows_has_the_clock_of_the_first(monkeypatch: pytest.MonkeyPatch):
    told = iter([90.0, "end"])
    monkeypatch.setattr(parallel, "told", lambda: next(told))
    run = training()
    run.last_minutes = 2.0
    run.follow()
    assert (run.iteration, run.progress) == (1, 0.75)


# Going on


def test_episodes_under_way_are_forgotten_with_environments_that_begin_anew():
    run = training(Clock(ClockConfig(), exact=False), reward_scaling=True)
    for _ in range(2):
        run._iterate()
    state = {"policy": weights(run.policy), "processes": [run._own_state()], "iteration": 2, "task": run.task}
    again = training(Clock(ClockConfig(), exact=False), reward_scaling=True)
    again._restore(32, state)
    again._iterate()
    assert isinstance(again.collector, Collector)
    assert again.collector.episodes.figures()["episode/length"] <= 6
    assert again.learner.scaling is not None
    assert again.learner.scaling.running is not None
    assert again.learner.scaling.running.max() < 6
