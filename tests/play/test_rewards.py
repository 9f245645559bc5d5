import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotelic.play import rewards
from autotelic.play.rewards import RewardConfig

rates = st.floats(0, 1)


def expectation(estimate, n: int, p: float) -> float:
    return math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) * estimate(k, n) for k in range(n + 1))


@pytest.mark.parametrize(("k", "value"), [(0, 0.0), (1, 0.875), (2, 0.75), (4, 0.5), (7, 0.125), (8, 0.0)])
def test_published_learnability(k: int, value: float) -> None:
    assert rewards.learnability_paper(k, 8) == value


@given(st.integers(2, 12), rates)
def test_the_published_learnability_expects_q_minus_q_to_the_n(n: int, p: float) -> None:
    assert expectation(rewards.learnability_paper, n, p) == pytest.approx((1 - p) - (1 - p) ** n, abs=1e-9)


@given(st.integers(4, 12), rates)
def test_the_corrected_published_learnability_expects_the_same_for_every_n(n: int, p: float) -> None:
    assert expectation(rewards.learnability_paper_unbiased, n, p) == pytest.approx((1 - p) - (1 - p) ** 4, abs=1e-9)


@given(st.integers(2, 12), st.data())
def test_the_corrected_published_learnability_is_the_published_one_at_its_horizon(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    assert rewards.learnability_paper_unbiased(k, n, n) == pytest.approx(rewards.learnability_paper(k, n))


def test_the_posterior_of_the_published_learnability_is_the_integral_over_the_posterior() -> None:
    k, n, grid = 3, 8, 20000
    ps = [(i + 0.5) / grid for i in range(grid)]
    density = [p**k * (1 - p) ** (n - k) for p in ps]
    integral = math.fsum(d * ((1 - p) - (1 - p) ** 4) for p, d in zip(ps, density, strict=True)) / math.fsum(density)
    assert rewards.learnability_paper_posterior(k, n) == pytest.approx(integral, abs=1e-6)


@given(st.integers(2, 12), rates)
def test_the_variance_learnability_is_unbiased(n: int, p: float) -> None:
    assert expectation(rewards.learnability_variance, n, p) == pytest.approx(p * (1 - p), abs=1e-9)


@pytest.mark.parametrize(("k", "n", "value"), [(4, 8, 16 / 56), (1, 2, 0.5), (0, 8, 0.0), (8, 8, 0.0)])
def test_variance_learnability(k: int, n: int, value: float) -> None:
    assert rewards.learnability_variance(k, n) == pytest.approx(value)


@pytest.mark.parametrize(("a", "b", "value"), [(1, 1, 1 / 6), (2, 1, 2 / 12), (5, 5, 25 / 110), (0.5, 0.5, 0.125)])
def test_beta_mean_of_the_variance(a: float, b: float, value: float) -> None:
    assert rewards.beta_variance(a, b) == pytest.approx(value)


def test_the_posterior_variance_starts_from_a_flat_prior() -> None:
    assert rewards.learnability_variance_posterior(0, 8) == pytest.approx(9 / 110)


@pytest.mark.parametrize("name", sorted(rewards.LEARNABILITY))
def test_no_attempts_are_no_evidence(name: str) -> None:
    assert rewards.LEARNABILITY[name](0, 0) is None


def test_one_attempt_has_no_variance() -> None:
    assert rewards.learnability_variance(1, 1) is None


@pytest.mark.parametrize("name", sorted(rewards.LEARNABILITY))
@pytest.mark.parametrize(("k", "n"), [(-1, 8), (9, 8), (1, 0)])
def test_impossible_counts_are_refused(name: str, k: int, n: int) -> None:
    with pytest.raises(ValueError, match="attempts solved"):
        rewards.LEARNABILITY[name](k, n)


@pytest.mark.parametrize(
    ("solved", "well_formatted", "value"), [(True, True, 1), (False, True, -0.5), (False, False, -1), (True, False, -1)]
)
def test_composite_reward_has_the_published_values(solved: bool, well_formatted: bool, value: float) -> None:
    assert rewards.composite_reward(solved, well_formatted) == value


@pytest.mark.parametrize(
    ("well_formatted", "valid", "learnability", "value"),
    [(False, False, None, -1), (False, True, 0.5, -1), (True, False, None, -0.5), (True, True, 0.75, 0.75)],
)
def test_proposer_reward_has_the_published_values(
    well_formatted: bool, valid: bool, learnability: float | None, value: float
) -> None:
    assert rewards.proposer_reward(well_formatted, valid, learnability) == value


@pytest.mark.parametrize("k", [0, 8])
def test_a_valid_task_that_all_or_none_solve_earns_zero_and_no_penalty(k: int) -> None:
    assert rewards.proposer_reward(True, True, rewards.learnability_paper(k, 8)) == 0.0


def test_a_valid_task_without_evidence_earns_what_the_configuration_says() -> None:
    assert rewards.proposer_reward(True, True, None) == 0.0
    assert rewards.proposer_reward(True, True, None, config=RewardConfig(no_evidence=-0.1)) == -0.1


def test_optional_terms_are_off_by_default_and_weighted_when_on() -> None:
    assert rewards.proposer_reward(True, True, 0.5, complexity=1.0, diversity=1.0) == 0.5
    config = RewardConfig(complexity=0.1, diversity=0.2)
    assert rewards.proposer_reward(True, True, 0.5, 1.0, 0.5, config) == pytest.approx(0.7)


def test_optional_terms_are_not_paid_for_tasks_nobody_can_solve() -> None:
    assert rewards.proposer_reward(True, True, 0.0, 1.0, 1.0, RewardConfig(complexity=1, diversity=1)) == 0.0


def test_complexity_is_one_half_where_it_is_set() -> None:
    assert rewards.complexity({"depth": 4.0, "operations": 6.0}, half=10.0) == 0.5
    assert rewards.complexity({}) == 0.0


def test_feature_distance_is_the_mean_relative_difference() -> None:
    assert rewards.feature_distance({"depth": 1, "operations": 2}, {"depth": 3, "operations": 2}) == 0.25
    assert rewards.feature_distance({"depth": 1}, {}) == 1.0
    assert rewards.feature_distance({}, {}) == 0.0


def test_diversity_is_the_distance_to_the_nearest_reference() -> None:
    assert rewards.diversity([0.9, 0.1, 0.5]) == 0.1
    assert rewards.diversity([]) == 0.0


def test_the_configuration_names_the_learnability() -> None:
    assert rewards.learnability(4, 8, RewardConfig(learnability="variance")) == pytest.approx(16 / 56)
    with pytest.raises(ValueError, match="known are paper"):
        RewardConfig(learnability="papr")
