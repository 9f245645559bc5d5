"""Student's t against printed tables, and intervals by hand."""

import math
import random

import pytest

from autotelic.show.intervals import Estimate, estimate, t_quantile


@pytest.mark.parametrize(
    ("freedom", "at_90", "at_95", "at_99"),
    [
        (1, 6.314, 12.706, 63.657),
        (2, 2.920, 4.303, 9.925),
        (3, 2.353, 3.182, 5.841),
        (4, 2.132, 2.776, 4.604),
        (5, 2.015, 2.571, 4.032),
        (9, 1.833, 2.262, 3.250),
        (10, 1.812, 2.228, 3.169),
        (29, 1.699, 2.045, 2.756),
        (30, 1.697, 2.042, 2.750),
        (120, 1.658, 1.980, 2.617),
    ],
)
def test_quantiles_are_those_of_the_tables(freedom, at_90, at_95, at_99):
    found = [round(t_quantile(freedom, level), 3) for level in (0.9, 0.95, 0.99)]
    assert found == [at_90, at_95, at_99]


def test_quantiles_of_many_degrees_approach_the_normal_ones():
    assert t_quantile(100_000) == pytest.approx(1.95996, abs=1e-4)


@pytest.mark.parametrize(("freedom", "level"), [(0, 0.95), (3, 0.0), (3, 1.0)])
def test_what_has_no_quantile_is_refused(freedom, level):
    with pytest.raises(ValueError, match="no t quantile"):
        t_quantile(freedom, level)


def test_an_estimate_has_the_mean_the_sample_deviation_and_the_interval():
    found = estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.std, found.n) == (2.0, 1.0, 3)
    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3))
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3))


def test_one_repeat_has_no_spread_and_no_interval():
    assert estimate([0.25]) == Estimate(0.25, 1)


def test_intervals_hold_the_truth_as_often_as_they_say():
    draw = random.Random(5)
    held = 0
    for _ in range(2000):
        found = estimate([draw.gauss(3, 2) for _ in range(3)], 0.9)
        assert found.low is not None
        assert found.high is not None
        held += found.low < 3 < found.high
    assert held / 2000 == pytest.approx(0.9, abs=0.02)
