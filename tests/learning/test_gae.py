import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from autotelic.learning.gae import gae, token_advantages

torch.set_num_threads(1)
law = settings(deadline=None, max_examples=50)  # a busy machine is slow, not wrong


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def flags(*values: bool) -> Tensor:
    return torch.tensor(values, dtype=torch.bool)[:, None]


NO = (False, False, False)


def test_gae_of_three_steps_by_hand() -> None:
    advantages, returns = gae(
        column(1, 2, 3), column(10, 20, 30), column(20, 30, 40), flags(*NO), flags(*NO), gamma=0.5, lam=0.5
    )
    # deltas: 1 + 10 - 10 = 1, 2 + 15 - 20 = -3, 3 + 20 - 30 = -7; each flows back with weight 1/4.
    assert advantages[:, 0].tolist() == [1 + (-3 + -7 / 4) / 4, -3 + -7 / 4, -7]
    assert returns[:, 0].tolist() == [10 + 1 + (-3 + -7 / 4) / 4, 20 + -3 + -7 / 4, 30 + -7]


def test_a_terminal_step_ignores_the_next_value_and_what_comes_after() -> None:
    ends = flags(False, True, False)
    next_values = column(20, float("nan"), 40)
    advantages, _ = gae(column(1, 2, 3), column(10, 20, 30), next_values, ends, ends, gamma=0.5, lam=0.5)
    assert advantages[:, 0].tolist() == [1 + (2 - 20) / 4, 2 - 20, -7]


def test_a_time_out_counts_the_value_of_the_final_observation_but_nothing_after_it() -> None:
    ended = flags(False, True, False)
    # 100 is what the final observation was worth; the next row starts another episode at 30.
    advantages, _ = gae(column(1, 2, 3), column(10, 20, 30), column(20, 100, 40), flags(*NO), ended, gamma=0.5, lam=0.5)
    assert advantages[:, 0].tolist() == [1 + (2 + 50 - 20) / 4, 2 + 50 - 20, -7]


def test_termination_alone_also_cuts_the_trace() -> None:
    terminated = flags(False, True, False)
    case = (column(1, 2, 3), column(10, 20, 30), column(20, 30, 40), terminated)
    alone, _ = gae(*case, flags(*NO), gamma=0.9, lam=0.9)
    both, _ = gae(*case, terminated, gamma=0.9, lam=0.9)
    assert torch.equal(alone, both)


def test_targets_carry_no_gradient() -> None:
    values = column(1, 2, 3).requires_grad_()
    advantages, returns = gae(column(1, 1, 1), values, values, flags(*NO), flags(*NO), gamma=0.9, lam=0.9)
    assert not advantages.requires_grad
    assert not returns.requires_grad


def test_no_steps_have_no_advantages() -> None:
    nothing, never = torch.zeros(0, 2), torch.zeros(0, 2, dtype=torch.bool)
    assert gae(nothing, nothing, nothing, never, never, 0.9, 0.9)[0].shape == (0, 2)


@st.composite
def rollouts(draw: st.DrawFn) -> dict[str, Tensor]:
    steps, envs = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    floats = torch.randn(3, steps, envs, generator=generator, dtype=torch.float64)
    terminated = torch.rand(steps, envs, generator=generator) < 0.2
    ended = terminated | (torch.rand(steps, envs, generator=generator) < 0.2)
    return {
        "rewards": floats[0],
        "values": floats[1],
        "next_values": floats[2],
        "terminated": terminated,
        "ended": ended,
    }


@law
@given(rollouts(), st.floats(0, 1), st.floats(0, 1))
def test_gae_equals_its_definition_sum_by_sum(case: dict[str, Tensor], gamma: float, lam: float) -> None:
    advantages, returns = gae(**case, gamma=gamma, lam=lam)
    steps, envs = case["rewards"].shape
    for n in range(envs):
        for start in range(steps):
            expected = 0.0
            for t in range(start, steps):
                reward, value, following = (case[name][t, n].item() for name in ("rewards", "values", "next_values"))
                delta = reward + gamma * following * (not case["terminated"][t, n]) - value
                expected += (gamma * lam) ** (t - start) * delta
                if case["ended"][t, n]:
                    break
            assert advantages[start, n].item() == pytest.approx(expected, abs=1e-9)
    assert torch.equal(returns, advantages + case["values"])


@law
@given(rollouts(), st.floats(0, 1))
def test_lambda_one_gives_discounted_returns_less_values(case: dict[str, Tensor], gamma: float) -> None:
    # Within an episode the next value is the value of the next row, as in any true rollout.
    inside = ~case["ended"][:-1]
    case["next_values"][:-1] = torch.where(inside, case["values"][1:], case["next_values"][:-1])
    advantages, returns = gae(**case, gamma=gamma, lam=1.0)
    steps, envs = case["rewards"].shape
    for n in range(envs):
        following = 0.0
        for t in reversed(range(steps)):
            if case["ended"][t, n] or t == steps - 1:
                following = case["next_values"][t, n].item() * (not case["terminated"][t, n])
            following = case["rewards"][t, n].item() + gamma * following
            assert returns[t, n].item() == pytest.approx(following, abs=1e-9)
            assert advantages[t, n].item() == pytest.approx(following - case["values"][t, n].item(), abs=1e-9)


# Tokens


def test_the_reward_of_an_answer_comes_with_its_last_token() -> None:
    nan = float("nan")
    values = torch.tensor([[10.0, 20.0, 30.0], [10.0, 20.0, nan], [nan, nan, nan]])
    mask = torch.tensor([[True, True, True], [True, True, False], [False, False, False]])
    advantages, returns = token_advantages(torch.tensor([4.0, 8.0, 5.0]), values, mask, gamma=0.5, lam=0.5)
    # Row 0: deltas 10 - 10 = 0, 15 - 20 = -5, 4 - 30 = -26. Row 1: 0, 8 - 20 = -12. Row 2: nothing was written.
    assert advantages.tolist() == [[-5 / 4 - 26 / 16, -5 - 26 / 4, -26], [-3, -12, 0], [0, 0, 0]]
    assert returns.tolist() == [[10 - 5 / 4 - 26 / 16, 20 - 5 - 26 / 4, 4], [7, 8, 0], [0, 0, 0]]


@law
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**31))
def test_padding_changes_no_token(lengths: list[int], gamma: float, lam: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(len(lengths), 6, generator=generator, dtype=torch.float64)
    rewards = torch.randn(len(lengths), generator=generator, dtype=torch.float64)
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    together, _ = token_advantages(rewards, values, mask, gamma, lam)
    for row, length in enumerate(lengths):
        alone, _ = token_advantages(
            rewards[row : row + 1], values[row : row + 1, :length], mask[row : row + 1, :length], gamma, lam
        )
        assert torch.equal(together[row, :length], alone[0])
        assert together[row, length:].tolist() == [0.0] * (6 - length)


def test_with_no_discount_and_lambda_one_every_token_returns_the_reward() -> None:
    values = torch.tensor([[0.5, 0.25, 0.0], [0.125, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    _, returns = token_advantages(torch.tensor([1.0, -0.5]), values, mask, gamma=1.0, lam=1.0)
    assert returns.tolist() == [[1, 1, 1], [-0.5, -0.5, 0]]


def test_left_padding_is_refused() -> None:
    mask = torch.tensor([[False, True]])
    with pytest.raises(ValueError, match="padded on the right"):
        token_advantages(torch.ones(1), torch.zeros(1, 2), mask, 1.0, 1.0)
