import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from autotelic.learning.losses import policy_loss
from autotelic.learning.losses import value_loss as masked_value_loss
from autotelic.learning.ppo import (
    adapted,
    annealed,
    explained_variance,
    mirror_loss,
    normalised,
    sampled_kl,
    surrogate_loss,
    value_loss,
)

torch.set_num_threads(1)
law = settings(deadline=None, max_examples=50)  # a busy machine is slow, not wrong


def row(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def draws(size: int, seed: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# The loss


def test_the_surrogate_of_three_decisions_by_hand() -> None:
    ratios, old = row(1.1, 1.5, 0.5), row(-1.0, -2.0, -3.0)
    loss, clipped, largest = surrogate_loss(old + ratios.log(), old, row(2.0, 1.0, -1.0), 0.2, 0.3)
    # 1.1 * 2 is free; 1.5 is held at 1.3; 0.5 with a negative advantage is held at 0.8.
    assert loss.item() == pytest.approx(-(2.2 + 1.3 - 0.8) / 3)
    assert clipped.item() == pytest.approx(2 / 3)
    assert largest.item() == pytest.approx(1.5)


def test_where_nothing_has_moved_the_gradient_is_that_of_reinforce() -> None:
    log_prob, advantages = row(-1.0, -2.0).requires_grad_(), row(3.0, -5.0)
    loss, clipped, largest = surrogate_loss(log_prob, log_prob.detach(), advantages, 0.2, 0.2)
    loss.backward()
    assert log_prob.grad is not None
    assert log_prob.grad.tolist() == [-1.5, 2.5]
    assert (clipped.item(), largest.item()) == (0.0, 1.0)


@law
@given(st.integers(0, 2**31), st.integers(1, 20), st.floats(0.01, 0.5), st.floats(0.0, 0.5))
def test_robots_and_tokens_have_the_same_losses(seed: int, size: int, clip: float, value_clip: float) -> None:
    new, old, wanted = (draws(size, seed + at) for at in range(3))
    mask = torch.ones(1, size, dtype=torch.bool)
    of_tokens, figures = policy_loss(new[None], old[None], wanted[None], mask, clip_low=clip, clip_high=2 * clip)
    loss, clipped, largest = surrogate_loss(new, old, wanted, clip, 2 * clip)
    assert loss.item() == pytest.approx(of_tokens.item())
    assert (clipped.item(), largest.item()) == pytest.approx((figures.clipped, figures.ratio_max))
    assert sampled_kl(new, old).item() == pytest.approx(figures.kl)
    error = value_loss(new, old, wanted, value_clip).item()
    assert error == pytest.approx(masked_value_loss(new[None], old[None], wanted[None], mask, value_clip)[0].item())


def test_a_value_that_moved_too_far_gains_nothing_by_moving_on() -> None:
    values = row(1.5, 0.1).requires_grad_()
    loss = value_loss(values, row(0.0, 0.0), row(2.0, 2.0), clip=0.5)
    loss.backward()
    assert values.grad is not None
    # 1.5 counts as 0.5, whose error is larger; 0.1 is within the bound.
    assert loss.item() == pytest.approx(0.5 * (1.5**2 + 1.9**2) / 2)
    assert values.grad.tolist() == pytest.approx([0.0, (0.1 - 2.0) / 2])


def test_the_mirror_loss_is_the_mean_squared_distance() -> None:
    assert mirror_loss(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, -2.0]])).item() == 8.0


@law
@given(st.integers(0, 2**31))
def test_the_sampled_kl_is_never_negative_and_zero_for_the_same(seed: int) -> None:
    new, old = draws(8, seed), draws(8, seed + 1)
    assert sampled_kl(new, old).item() >= 0
    assert sampled_kl(old, old).item() == 0


def test_the_sampled_kl_is_right_on_average() -> None:
    old, new = torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(0.3, 1.2)
    drawn = torch.randn(200_000, generator=torch.Generator().manual_seed(0))
    wanted = torch.distributions.kl_divergence(old, new).item()
    assert sampled_kl(new.log_prob(drawn), old.log_prob(drawn)).item() == pytest.approx(wanted, rel=0.03)


# Advantages and values


@law
@given(st.integers(0, 2**31), st.integers(2, 50), st.floats(-100, 100), st.floats(0.1, 100))
def test_normalised_advantages_have_mean_zero_and_deviation_one(
    seed: int, size: int, centre: float, scale: float
) -> None:
    known = draws(size, seed)
    assume(known.std() > 0.2)  # two that are nearly equal are told apart by their rounding
    found = normalised((known * scale + centre).float())
    assert found.mean().item() == pytest.approx(0, abs=1e-3)
    assert found.std(correction=0).item() == pytest.approx(1, abs=1e-3)


def test_equal_advantages_teach_nothing() -> None:
    assert normalised(torch.full((7,), 0.1)).tolist() == [0.0] * 7


def test_explained_variance_of_right_of_constant_and_of_opposite_values() -> None:
    returns = row(1.0, 2.0, 3.0)
    assert explained_variance(returns, returns).item() == 1.0
    assert explained_variance(row(5.0, 5.0, 5.0), returns).item() == 0.0
    assert explained_variance(-returns, returns).item() == pytest.approx(-3.0)
    assert math.isnan(explained_variance(returns, row(1.0, 1.0, 1.0)).item())


# The learning rate


@pytest.mark.parametrize(
    ("lr", "kl", "wanted"),
    [
        (3e-4, 0.021, 2e-4),  # above twice the target
        (3e-4, 0.019, 3e-4),
        (3e-4, 0.006, 3e-4),
        (3e-4, 0.004, 4.5e-4),  # below half of it
        (1.2e-5, 0.5, 1e-5),
        (9e-3, 0.0, 1e-2),
        (1e-6, 0.5, 1e-6),  # set below the bound: too far never makes it faster
        (2e-2, 0.0, 2e-2),
    ],
)
def test_the_learning_rate_follows_how_far_the_policy_moved(lr: float, kl: float, wanted: float) -> None:
    assert adapted(lr, kl, target=0.01) == pytest.approx(wanted)


def test_the_linear_schedule_ends_at_zero() -> None:
    assert [annealed(2.0, progress) for progress in (0.0, 0.25, 1.0)] == [2.0, 1.5, 0.0]
