import itertools
import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from autotelic.learning.advantages import ESTIMATORS, zero_variance
from autotelic.learning.losses import policy_loss

torch.set_num_threads(1)
law = settings(deadline=None, max_examples=50)  # a busy machine is slow, not wrong


def estimate(name: str, rewards: list[float], *, baselines: list[int] | None = None, groups: list[int] | None = None):
    zeros = [0] * len(rewards)
    return (
        ESTIMATORS[name]
        .advantages(
            torch.tensor(rewards, dtype=torch.float64), torch.tensor(baselines or zeros), torch.tensor(groups or zeros)
        )
        .tolist()
    )


labelled = st.lists(st.tuples(st.integers(-8, 8), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=24)


def tensors(rows: list[tuple[int, int, int]]) -> tuple[Tensor, Tensor, Tensor]:
    rewards, baselines, groups = zip(*rows, strict=True)
    return torch.tensor(rewards, dtype=torch.float64) / 4, torch.tensor(baselines), torch.tensor(groups)


# What each estimator gives, by hand


def test_trr_standardises_in_each_baseline_with_the_sample_deviation() -> None:
    # Baseline 5: mean 2, squares 1 + 1, std sqrt(2 / 1). Baseline -1: mean 0, squares 1 + 0 + 1, std 1.
    got = estimate("trr++", [1, -1, 3, 0, 1], baselines=[5, -1, 5, -1, -1], groups=[0, 1, 2, 3, 4])
    assert got == pytest.approx([-1 / math.sqrt(2), -1, 1 / math.sqrt(2), 0, 1])


def test_reinforce_standardises_over_the_batch_with_the_population_deviation() -> None:
    # Mean 2, squares 4 + 0 + 0 + 4, variance 8 / 4.
    got = estimate("reinforce++", [0, 2, 2, 4], baselines=[0, 0, 1, 1], groups=[0, 1, 2, 3])
    assert got == pytest.approx([-math.sqrt(2), 0, 0, math.sqrt(2)])


def test_grpo_standardises_in_each_group_with_the_sample_deviation() -> None:
    # Group 0: mean 1/4, squares 3/4, variance 1/4. Group 7: mean 5, squares 8, variance 8.
    got = estimate("grpo", [1, 7, 0, 0, 3, 0], baselines=[0, 1, 2, 3, 4, 5], groups=[0, 7, 0, 0, 7, 0])
    assert got == pytest.approx([1.5, 1 / math.sqrt(2), -0.5, -0.5, -1 / math.sqrt(2), -0.5])


def test_dr_grpo_subtracts_the_mean_of_the_group() -> None:
    got = estimate("dr-grpo", [1, 7, 0, 0, 3, 0], baselines=[0, 1, 2, 3, 4, 5], groups=[0, 7, 0, 0, 7, 0])
    assert got == pytest.approx([0.75, 2, -0.25, -0.25, -2, -0.25])


def test_self_imitation_keeps_what_was_better_than_the_mean_of_its_group() -> None:
    got = estimate("sil", [1, 7, 0, 0, 3, 0], baselines=[0, 1, 2, 3, 4, 5], groups=[0, 7, 0, 0, 7, 0])
    assert got == pytest.approx([0.75, 2, 0, 0, 0, 0])


def test_rloo_subtracts_the_mean_of_the_others_of_the_group() -> None:
    got = estimate("rloo", [1, 7, 0, 0.5, 3], baselines=[0, 1, 2, 3, 4], groups=[0, 7, 0, 0, 7])
    assert got == pytest.approx([0.75, 4, -0.75, 0, -4])


def test_the_published_way_of_joining_tokens_comes_with_each_estimator() -> None:
    assert {name: estimator.aggregate for name, estimator in ESTIMATORS.items()} == {
        "trr++": "token",
        "reinforce++": "token",
        "grpo": "sequence",
        "dr-grpo": "constant",
        "rloo": "constant",
        "maxrl": "token",
        "sil": "sequence",
    }


# Sets that teach nothing


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reward", [0.1, 0.7, -1 / 3, 1e4 + 0.1])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 77])
def test_equal_rewards_give_advantage_exactly_zero(name: str, dtype: torch.dtype, reward: float, n: int) -> None:
    zeros = torch.zeros(n, dtype=torch.long)
    got = ESTIMATORS[name].advantages(torch.full((n,), reward, dtype=dtype), zeros, zeros)
    assert got.tolist() == [0.0] * n


@pytest.mark.parametrize("name", ESTIMATORS)
def test_rewards_that_differ_by_rounding_only_give_advantage_exactly_zero(name: str) -> None:
    assert 0.1 + 0.2 != 0.3
    assert estimate(name, [0.3, 0.1 + 0.2, 0.3, 0.3]) == [0.0] * 4
    assert estimate(name, [0.0, 0.1 + 0.2 - 0.3, 0.0, 0.0]) == [0.0] * 4


@pytest.mark.parametrize("name", ["trr++", "grpo", "dr-grpo", "rloo"])
def test_a_sample_compared_with_nothing_has_advantage_zero(name: str) -> None:
    assert estimate(name, [5, 0, 1], baselines=[1, 0, 0], groups=[1, 0, 0])[0] == 0.0


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_reward_that_is_not_a_number_is_not_hidden(name: str) -> None:
    assert any(math.isnan(advantage) for advantage in estimate(name, [1.0, math.nan, 1.0]))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_samples_have_no_advantages(name: str) -> None:
    nothing = torch.zeros(0, dtype=torch.long)
    assert ESTIMATORS[name].advantages(torch.zeros(0), nothing, nothing).shape == (0,)


def test_groups_of_equal_rewards_are_counted_but_not_groups_of_one() -> None:
    rewards = torch.tensor([0.1, 1.0, 0.1, 0.5, 0.0, 0.1])
    assert zero_variance(rewards, torch.tensor([3, 2, 3, 9, 2, 3])).tolist() == [False, True, False]


# Laws


@law
@given(labelled)
def test_trr_has_mean_zero_and_unit_deviation_in_each_baseline_that_varies(rows: list[tuple[int, int, int]]) -> None:
    rewards, baselines, groups = tensors(rows)
    advantages = ESTIMATORS["trr++"].advantages(rewards, baselines, groups)
    for baseline in set(baselines.tolist()):
        part = advantages[baselines == baseline]
        varies = len(set(rewards[baselines == baseline].tolist())) > 1
        assert part.mean().item() == pytest.approx(0, abs=1e-9)
        assert not varies or part.std().item() == pytest.approx(1)


@law
@given(labelled)
def test_rloo_is_n_over_n_less_one_times_dr_grpo(rows: list[tuple[int, int, int]]) -> None:
    rewards, baselines, _ = tensors(rows)
    assume(len(rows) > 1)
    group = torch.zeros_like(baselines)
    one = ESTIMATORS["rloo"].advantages(rewards, baselines, group)
    other = len(rows) / (len(rows) - 1) * (rewards - rewards.mean())
    assert torch.allclose(one, other)


@pytest.mark.parametrize("name", ESTIMATORS)
@law
@given(rows=labelled, data=st.data())
def test_order_does_not_matter(name: str, rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    advantages = ESTIMATORS[name].advantages(*tensors(rows))
    shuffled = ESTIMATORS[name].advantages(*tensors([rows[i] for i in order]))
    assert torch.allclose(shuffled, advantages[torch.tensor(order)])


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"maxrl"}))  # to maxrl, 0 is not solved
@law
@given(rows=labelled, shift=st.integers(-5, 5))
def test_a_constant_added_to_all_rewards_changes_nothing(
    name: str, rows: list[tuple[int, int, int]], shift: int
) -> None:
    rewards, baselines, groups = tensors(rows)
    advantages = ESTIMATORS[name].advantages(rewards, baselines, groups)
    assert torch.allclose(ESTIMATORS[name].advantages(rewards + shift, baselines, groups), advantages)


# Learning


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_bandit_learns_its_best_arm(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    payoffs = torch.tensor([0.2, 0.8, 0.5])
    logits = torch.zeros(3, requires_grad=True)
    optimiser = torch.optim.Adam([logits], lr=0.1)
    groups = torch.arange(32) // 8
    for _ in range(60):
        arms = torch.multinomial(logits.detach().softmax(0), 32, replacement=True, generator=generator)
        rewards = torch.bernoulli(payoffs[arms], generator=generator)
        advantages = ESTIMATORS[name].advantages(rewards, torch.zeros_like(groups), groups)
        log_probs = logits.log_softmax(0)[arms][:, None]
        loss, _ = policy_loss(
            log_probs,
            log_probs.detach(),
            advantages,
            torch.ones(32, 1, dtype=torch.bool),
            clip_low=0.2,
            clip_high=0.2,
            aggregate=ESTIMATORS[name].aggregate,
            constant=1.0,
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert logits.detach().softmax(0)[1] > 0.8


def test_maxrl_divides_by_the_share_solved():
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    groups = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    found = ESTIMATORS["maxrl"].advantages(rewards, torch.zeros_like(groups), groups)
    expected = torch.tensor([3.0, -1.0, -1.0, -1.0, 1 / 3, 1 / 3, 1 / 3, -1.0])
    torch.testing.assert_close(found, expected)


def test_maxrl_counts_all_that_is_not_right_as_nothing():
    rewards = torch.tensor([1.0, -0.5, -0.5, -1.0, -0.5, -1.0, -0.5, -0.5])
    groups = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    found = ESTIMATORS["maxrl"].advantages(rewards, torch.zeros_like(groups), groups)
    torch.testing.assert_close(found, torch.tensor([3.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0]))


def test_the_expected_gradient_of_maxrl_is_that_of_the_log_likelihood():
    """For one task with answer 0 of three: n samples, weighted by their chance, leave out those without a hit."""
    logits = torch.tensor([0.2, -0.3, 0.5], dtype=torch.float64, requires_grad=True)
    probabilities = logits.softmax(0)
    n, total = 6, torch.zeros((), dtype=torch.float64)
    for drawn in itertools.product(range(3), repeat=n):
        chosen = torch.tensor(drawn)
        rewards = (chosen == 0).double()
        gains = ESTIMATORS["maxrl"].advantages(
            rewards, torch.zeros(n, dtype=torch.long), torch.zeros(n, dtype=torch.long)
        )
        chance = probabilities[chosen].prod().detach()
        total = total + chance * (gains * probabilities[chosen].log()).mean()
    (found,) = torch.autograd.grad(total, logits)
    # Truncated, as n samples are: the gradient of the sum over k < n of -(1 - p)^k / k, whose limit is log p.
    p = logits.softmax(0)[0]
    objective = -torch.stack([(1 - p) ** k / k for k in range(1, n)]).sum()
    (wanted,) = torch.autograd.grad(objective, logits)
    torch.testing.assert_close(found, wanted)
