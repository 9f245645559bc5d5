import numpy as np
import pytest
import torch
from torch import Tensor

from autotelic.errors import UserError
from autotelic.training.reward_scaling import RewardScaling

torch.set_num_threads(1)


def rewards(seed: int, length: int = 30, count: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(length, count, generator=generator) * 7 + 2, torch.rand(length, count, generator=generator) < 0.1


def test_rewards_are_divided_by_the_deviation_of_returns() -> None:
    earned = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    ended = torch.tensor([[False], [True], [False], [False]])
    scaling = RewardScaling(gamma=0.5)
    found = scaling.scaled(earned, ended)
    # Returns so far: 1, 0.5 + 2, then anew 3, 1.5 + 4.
    wanted = float(np.std([1.0, 2.5, 3.0, 5.5]))
    assert scaling.scale == pytest.approx(wanted)
    assert found[:, 0].tolist() == pytest.approx((earned[:, 0] / wanted).tolist())
    assert earned[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0], "what was earned is left as it is"


def test_returns_go_on_from_rollout_to_rollout() -> None:
    earned, ended = rewards(0)
    whole, parts = RewardScaling(0.9), RewardScaling(0.9)
    whole.scaled(earned, ended)
    for at in (0, 10, 20):
        parts.scaled(earned[at : at + 10], ended[at : at + 10])
    assert parts.scale == pytest.approx(whole.scale)


def test_scaled_rewards_are_cut() -> None:
    earned, ended = rewards(1)
    earned[5, 2] = 1e4
    assert RewardScaling(0.9, clip=3.0).scaled(earned, ended).abs().max().item() == 3.0


def test_rewards_that_are_all_zero_stay_zero() -> None:
    assert not RewardScaling(0.9).scaled(torch.zeros(5, 2), torch.zeros(5, 2, dtype=torch.bool)).any()


def test_scaling_goes_on_from_its_state_to_the_last_bit() -> None:
    one, other = RewardScaling(0.9, 10.0), RewardScaling(0.9, 10.0)
    one.scaled(*rewards(0))
    state = one.state()
    wanted = one.scaled(*rewards(1))
    other.load_state(state)
    assert torch.equal(other.scaled(*rewards(1)), wanted)


def test_another_number_of_environments_is_refused() -> None:
    scaling = RewardScaling(0.9)
    scaling.scaled(*rewards(0, count=4))
    with pytest.raises(UserError, match="rewards of 4 environments: it cannot go on with 3"):
        scaling.scaled(*rewards(0, count=3))
