"""Demonstrations by a policy that is known to succeed."""

import numpy as np
import torch

from autotelic.data.demonstrations import Demonstration, collect
from autotelic.physics.arm.tasks import ArmReach
from autotelic.policies.base import Decision
from autotelic.policies.mlp import MLPConfig, MLPPolicy
from autotelic.training.demonstrating import by_policy


class ToGoal(MLPPolicy):
    """Goes the way from tool to goal, which is the last that it sees; sampled, a little beside it."""

    def act(self, obs):
        way = obs["policy"][:, -3:] / 0.1
        return torch.cat([way, torch.zeros(len(way), 2)], dim=1).clamp(-1, 1)

    def sample(self, obs, generator):
        action = self.act(obs)
        return Decision((action + 0.1 * torch.randn(action.shape, generator=generator)).clamp(-1, 1), {})


def collected(sample: bool) -> list[Demonstration]:
    environment = ArmReach(ArmReach.Config(count=1, threads=1))
    policy = ToGoal(MLPConfig(hidden=(4,)), environment.sizes, environment.action_space)
    kept: list[Demonstration] = []
    failed = collect(environment, by_policy(policy, environment, 0, sample), 2, 4, 0, kept.append)
    assert not failed
    return kept


def test_a_policy_shows_whole_episodes_that_end_in_success():
    first, second = collected(sample=False)
    assert first.success
    assert first.steps == second.steps == 50
    assert not np.array_equal(first.actions, second.actions)


def test_what_a_policy_draws_follows_from_the_seed():
    drawn, again, certain = collected(sample=True), collected(sample=True), collected(sample=False)
    assert np.array_equal(drawn[1].actions, again[1].actions)
    assert not np.array_equal(drawn[0].actions, certain[0].actions)
