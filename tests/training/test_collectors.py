"""Collectors in processes of their own: what one in this process would have collected, a rollout ahead."""

import copy
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch

from autotelic.cli.train import TrainConfig, compose
from autotelic.cli.train_session import build_environment, build_policy, build_training
from autotelic.errors import UserError
from autotelic.policies.base import Policy
from autotelic.training.collecting import Collector
from autotelic.training.collectors import Collectors, joined_figures
from autotelic.training.ppo import Batch
from autotelic.training.rollouts import Rollout

SMALL = ("env=InvertedPendulum-v5", "env.count=4", "policy.hidden=[8]", "learner.steps=16", "learner.minibatches=2")


def settings(*more: str) -> TrainConfig:
    return compose([*SMALL, *more], None)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def here(stack: ExitStack, *more: str, rank: int = 0) -> Collector:
    config = settings(*more)
    environment = stack.enter_context(build_environment(config.env))
    return Collector(environment, build_policy(config, environment), config.learner.steps, config.seed, rank)


def elsewhere(stack: ExitStack, number: int, *more: str) -> Collectors:
    config = settings(*more)
    environment = stack.enter_context(build_environment(config.env, count=1))
    policy = build_policy(config, environment)
    collectors = Collectors(environment, config.env, policy, config.learner.steps, config.seed, number)
    stack.callback(collectors.close)
    return collectors


def same(one: Rollout, other: Rollout, columns: slice = slice(None)) -> bool:
    pairs = [(one.reward, other.reward), (one.ended, other.ended), (one.terminated, other.terminated)]
    pairs += [(one.obs[name], other.obs[name]) for name in one.obs]
    pairs += [(one.trace[name], other.trace[name]) for name in one.trace]
    return all(torch.equal(mine[:, columns], others) for mine, others in pairs)


def move(policy: Policy, by: float = 0.5) -> None:
    with torch.no_grad():
        for weight in policy.parameters():
            weight += by


def test_each_process_collects_what_one_here_would_have_and_none_is_left_running(stack: ExitStack, alive):
    with ExitStack() as inner:
        collectors = elsewhere(inner, 2)
        collectors.collect(0, 0)
        pids = [remote.process.pid for remote in collectors._remotes]
        assert list(map(alive, pids)) == [True, True]
    assert not any(map(alive, pids))
    for rank in (0, 1):
        alone = here(stack, "env.count=2", rank=rank)
        alone.collect(0, 0)
        assert same(collectors.rollout, alone.rollout, slice(2 * rank, 2 * rank + 2))
        tails = collectors.rollout.tail()["policy"], alone.rollout.tail()["policy"]
        assert torch.equal(tails[0][2 * rank : 2 * rank + 2], tails[1][:2])


def test_a_rollout_is_of_the_weights_before_the_last_change_and_the_actor_has_them(stack: ExitStack):
    collectors, alone = elsewhere(stack, 1), here(stack)
    for iteration in range(3):
        collectors.collect(iteration, 64 * iteration)
        alone.collect(iteration, 64 * iteration)
        assert same(collectors.rollout, alone.rollout)
        actor, collected = collectors.actor.state_dict(), alone.policy.state_dict()
        assert all(torch.equal(actor[name], values) for name, values in collected.items())
        alone.policy.load_state_dict(collectors.policy.state_dict())
        move(collectors.policy)


def test_collectors_of_one_seed_differ_in_episodes_and_in_chance(stack: ExitStack, monkeypatch: pytest.MonkeyPatch):
    """Otherwise many processes would collect one process's episodes many times."""
    first, second = here(stack, rank=0), here(stack, rank=1)
    begun = [collector._begun(0)["policy"].clone() for collector in (first, second)]
    assert not (begun[0] == begun[1]).any(), "other beginnings"
    ages = [collector.environment.state()["elapsed"] for collector in (first, second)]
    assert (ages[0] != ages[1]).any(), "first episodes that end at other times"
    blind = torch.zeros_like(begun[0])
    for collector in (first, second):
        sample = collector.policy.sample
        monkeypatch.setattr(
            collector.policy, "sample", lambda _, generator, sample=sample: sample({"policy": blind}, generator)
        )
        collector.collect(0, 0)
    taken = [collector.rollout.trace["action"] for collector in (first, second)]
    assert not (taken[0] == taken[1]).any(), "other actions, whatever is seen"


@pytest.mark.parametrize(("number", "after"), [(1, 0), (2, 3)])
def test_a_state_is_from_before_what_is_under_way(stack: ExitStack, number: int, after: int):
    first, second = elsewhere(stack, number), elsewhere(stack, number)
    for iteration in range(after):
        first.collect(iteration, 64 * iteration)
        move(first.policy)
    first.broken = 3
    second.load_state(first.state(64 * after))
    assert second.broken == 3, "simulations that broke are still counted"
    second.policy.load_state_dict(first.policy.state_dict())
    for iteration in range(after, after + 2):
        figures = [collectors.collect(iteration, 64 * iteration) for collectors in (first, second)]
        assert figures[0] == figures[1]
        assert same(first.rollout, second.rollout)
        for collectors in (first, second):
            move(collectors.policy, 0.1)


def test_first_episodes_end_at_different_times_and_are_not_counted(stack: ExitStack):
    """Robots that stand until their time is up, after twelve steps."""
    asked = ("env=humanoid-stand", "env.count=16", "env.seconds=0.2", "env.randomise=off", "policy.hidden=[8]")
    config = compose([*asked, "policy.initial_std=0.01", "learner.steps=12"], None)
    environment = stack.enter_context(build_environment(config.env))
    collector = Collector(environment, build_policy(config, environment), config.learner.steps, config.seed)
    figures = collector.collect(0, 0)
    ends = collector.rollout.ended.nonzero()
    assert sorted(ends[:, 1].tolist()) == list(range(16)), "each ends once, earlier than its time"
    assert len(set(ends[:, 0].tolist())) > 5
    assert figures["episode/ended"] == 0.0
    assert "episode/length" not in figures
    figures = collector.collect(1, 192)
    assert (figures["episode/ended"], figures["episode/length"]) == (16.0, 12.0)


def test_means_of_episodes_are_weighted_by_how_many_ended():
    one = {"episode/return": 10.0, "episode/ended": 3.0, "reward/alive": 1.0, "broken": 1.0}
    other = {"episode/return": 2.0, "episode/ended": 1.0, "reward/alive": 3.0, "broken": 0.0}
    figures = joined_figures([one, other])
    assert figures == {"episode/return": 8.0, "episode/ended": 4.0, "reward/alive": 2.0, "broken": 1.0}


def test_what_only_one_knows_counts_whole():
    one = {"episode/return": 10.0, "episode/ended": 0.0, "broken": 0.0}
    assert joined_figures([one, {"episode/ended": 0.0, "broken": 0.0}])["episode/return"] == 10.0


def test_environments_that_cannot_be_shared_are_one_line(stack: ExitStack):
    with pytest.raises(UserError, match="collectors=3: 4 environments cannot be shared equally"):
        elsewhere(stack, 3)


def test_a_collector_that_was_killed_is_one_line(stack: ExitStack):
    collectors = elsewhere(stack, 2)
    collectors.collect(0, 0)
    os.kill(collectors._remotes[1].process.pid, signal.SIGKILL)
    collectors._remotes[1].process.wait()
    with pytest.raises(UserError, match="collector 1: the process was ended by SIGKILL"):
        collectors.collect(1, 64)


def test_what_an_environment_says_when_it_fails_is_said_here(stack: ExitStack):
    collectors = elsewhere(stack, 1)
    with torch.no_grad():
        collectors.policy.get_parameter("actor.head.mean.bias").fill_(torch.nan)
    with pytest.raises(UserError, match="environment 0: the policy gave an action that is not finite"):
        collectors.collect(0, 0)


# Learning from them


def test_an_update_weights_decisions_by_the_policy_that_took_them(stack: ExitStack, monkeypatch: pytest.MonkeyPatch):
    """That is the one of an update earlier, with the statistics of then."""
    run = stack.enter_context(build_training(None, settings("collectors=1", "learner.lr=1e-2")))
    before, weights, batch = list[Policy](), list[torch.Tensor](), run.learner._batch

    def likely(policy: Policy) -> torch.Tensor:
        rollout = run.collector.rollout
        obs = policy.prepare({name: values.flatten(0, 1) for name, values in rollout.obs.items()})
        trace = {name: values.flatten(0, 1) for name, values in rollout.trace.items()}
        return policy.evaluate(obs, trace).log_prob.detach()

    def looked_at(*arguments: Any) -> tuple[Batch, dict[str, float]]:
        found = batch(*arguments)
        assert found[0].weight is not None
        wanted = (likely(before[-1]) - likely(before[-2])).exp().clamp(max=2.0)
        assert torch.allclose(found[0].weight, wanted, rtol=1e-4)
        weights.append(found[0].weight)
        return found

    monkeypatch.setattr(run.learner, "_batch", looked_at)
    for _ in range(5):
        before.append(copy.deepcopy(run.policy))
        run._iterate()
    assert len(weights) == 3, "the first two rollouts are not learned from"
    assert torch.cat(weights).std() > 0.01


def test_it_learns_but_only_looks_at_what_a_blind_normaliser_saw(stack: ExitStack):
    """A pendulum that falls within a tenth of a second at first stands several times as long."""
    more = ("env.count=16", "learner.steps=64", "policy.hidden=[32,32]", "learner.minibatches=8", "learner.lr=1e-3")
    run = stack.enter_context(build_training(None, settings("collectors=1", *more)))
    before = run.policy.get_parameter("actor.head.mean.weight").clone()
    lengths, moved = [], []
    for _ in range(40):
        lengths.append(run._iterate()["episode/length"])
        moved.append(not torch.equal(run.policy.get_parameter("actor.head.mean.weight"), before))
    assert moved[:3] == [False, False, True]
    assert lengths[-1] > 5 * lengths[0]
