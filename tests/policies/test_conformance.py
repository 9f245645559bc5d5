from typing import Any

import pytest
import torch
from gymnasium import spaces

from autotelic.policies.mlp import MLPConfig, MLPPolicy
from autotelic.testing import check_policy

torch.set_num_threads(1)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("std", ["shared", "state"])
@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (3,)), spaces.Discrete(4), spaces.MultiDiscrete([2, 5])])
def test_mlp_policies_conform(space: spaces.Space[Any], std: str, normalise: bool) -> None:
    torch.manual_seed(0)
    sizes = {"policy": 6, "critic": 9}
    policy = MLPPolicy(MLPConfig(hidden=(16,), std=std, normalise=normalise), sizes, space)
    generator = torch.Generator().manual_seed(0)
    check_policy(policy, {name: torch.randn(12, size, generator=generator) for name, size in sizes.items()})
