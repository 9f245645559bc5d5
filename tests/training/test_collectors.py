"""Collectors in processes of their own: what one in this process would have collected, a rollout ahead."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import torch

from autotelic.cli.train import TrainConfig, compose
from autotelic.cli.train_session import build_environment, build_policy, build_training
from autotelic.errors import UserError
from autotelic.policies.base import Policy
from autotelic.training.collecting import Collector
from autotelic.training.collectors import Collectors, joined_figures
from autotelic.training.loop import Training
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


def test_each_process_collects_what_one_here_would_have(stack: ExitStack):
    collectors = elsewhere(stack, 2)
    collectors.collect(0, 0)
    for rank in (0, 1):
        alone = here(stack, "env.count=2", rank=rank)
        alone.collect(0, 0)
        assert same(collectors.rollout, alone.rollout, slice(2 * rank, 2 * rank + 2))
        tails = collectors.rollout.tail()["policy"], alone.rollout.tail()["policy"]
        assert torch.equal(tails[0][2 * rank : 2 * rank + 2], tails[1][:2])


def test_a_rollout_is_of_the_weights_before_the_last_change(stack: ExitStack):
    collectors, alone = elsewhere(stack, 1), here(stack)
    for iteration in range(3):
        collectors.collect(iteration, 64 * iteration)
        alone.collect(iteration, 64 * iteration)
        assert same(collectors.rollout, alone.rollout)
        alone.policy.load_state_dict(collectors.policy.state_dict())
        move(collectors.policy)


def test_the_actor_is_the_policy_that_collected(stack: ExitStack):
    collectors = elsewhere(stack, 1)
    began = {name: values.clone() for name, values in collectors.policy.state_dict().items()}
    for iteration in range(2):
        collectors.collect(iteration, 64 * iteration)
        assert all(torch.equal(values, began[name]) for name, values in collectors.actor.state_dict().items())
        move(collectors.policy)
    collectors.collect(2, 128)
    assert not torch.equal(collectors.actor.state_dict()["critic.head.bias"], began["critic.head.bias"])


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_state_is_from_before_what_is_under_way(stack: ExitStack, after: int):
    first, second = elsewhere(stack, 2), elsewhere(stack, 2)
    for iteration in range(after):
        first.collect(iteration, 64 * iteration)
        move(first.policy)
    second.load_state(first.state(64 * after))
    second.policy.load_state_dict(first.policy.state_dict())
    for iteration in range(after, after + 2):
        figures = [collectors.collect(iteration, 64 * iteration) for collectors in (first, second)]
        assert figures[0] == figures[1]
        assert same(first.rollout, second.rollout)
        for collectors in (first, second):
            move(collectors.policy, 0.1)


def test_simulations_that_broke_are_still_counted_after_a_resume(stack: ExitStack):
    first, second = elsewhere(stack, 1), elsewhere(stack, 1)
    first.broken = 3
    second.load_state(first.state(0))
    assert second.broken == 3


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


def test_nothing_is_left_running(stack: ExitStack, alive):
    with ExitStack() as inner:
        collectors = elsewhere(inner, 2)
        collectors.collect(0, 0)
        pids = [remote.process.pid for remote in collectors._remotes]
        assert all(map(alive, pids))
    assert not any(map(alive, pids))


# Learning from them


def ahead(stack: ExitStack, *more: str) -> Training:
    return stack.enter_context(build_training(None, settings("collectors=1", *more)))


def test_rollouts_that_a_blind_normaliser_saw_are_only_looked_at(stack: ExitStack):
    run = ahead(stack)
    before = run.policy.get_parameter("actor.head.mean.weight").clone()
    moved = []
    for _ in range(3):
        run._iterate()
        moved.append(not torch.equal(run.policy.get_parameter("actor.head.mean.weight"), before))
    assert moved == [False, False, True]


def test_it_learns(stack: ExitStack):
    """A pendulum that falls within a tenth of a second at first stands several times as long."""
    more = ("env.count=16", "learner.steps=64", "policy.hidden=[32,32]", "learner.minibatches=8", "learner.lr=1e-3")
    run = ahead(stack, *more)
    lengths = [run._iterate()["episode/length"] for _ in range(40)]
    assert lengths[-1] > 5 * lengths[0]
