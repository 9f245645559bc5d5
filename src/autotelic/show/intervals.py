"""Mean, spread and confidence interval of a few repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """What repeats say of a figure. One repeat has no spread, and so no interval."""

    mean: float
    n: int
    std: float | None = None  # of the sample, with n - 1
    low: float | None = None  # Student's t interval of the mean
    high: float | None = None


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate:
    mean, n = fmean(values), len(values)
    if n < 2:
        return Estimate(mean, n)
    std = stdev(values)
    reach = t_quantile(n - 1, level) * std / math.sqrt(n)
    return Estimate(mean, n, std, mean - reach, mean + reach)


def t_quantile(freedom: int, level: float = LEVEL) -> float:
    """The t that Student's distribution stays within, on both sides, with this probability."""
    if freedom < 1 or not 0 < level < 1:
        raise ValueError(f"no t quantile for {freedom} degrees of freedom at {level}")
    low, high = 0.0, math.pi / 2
    for _ in range(100):  # bisection of the angle, which is bounded where t is not
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _within(angle: float, freedom: int) -> float:
    """P(|T| < t) for angle = atan(t / sqrt(freedom)): the finite series for whole degrees of freedom (Abramowitz and
    Stegun, 26.7.3 and 26.7.4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * cosine * cosine
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))
