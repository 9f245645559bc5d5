"""Demonstrations by a policy: whole episodes in which it acts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from autotelic.data.demonstrations import Found, Source, record
from autotelic.physics.arm.environment import ArmTask
from autotelic.physics.base import Observation
from autotelic.policies.base import Policy
from autotelic.runs import seeds
from autotelic.training.evaluate import as_tensors


def by_policy(policy: Policy, environment: ArmTask, seed: int, sample: bool) -> Source:
    """What the policy does without chance, or with `sample` what it draws."""

    def source(chosen: Sequence[int], tried: int) -> Iterator[Found]:
        generator = torch.Generator().manual_seed(seeds.derive(seed, "sample", tried))

        def decide(obs: Observation) -> np.ndarray:
            seen = as_tensors(obs)
            return (policy.sample(seen, generator).action if sample else policy.act(seen)).numpy()

        for each in chosen:
            yield record(environment, each, decide) or "nothing done"

    return source
