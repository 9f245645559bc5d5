"""Rewards as small pure functions: how learnable a task is, what an answer earns, what a proposal earns.

`k` of `n` attempts solved the task; attempts that are no evidence (a time limit, a lost judge) are in neither. p is the
unknown solve rate, q = 1 - p. A learnability is None where the attempts say nothing: always for n = 0, and for an
unbiased estimate that needs more attempts than there are. `proposer_reward` pays `no_evidence` for None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


def learnability_paper(k: int, n: int) -> float | None:
    """The published one (arXiv 2505.03335): 0 if none or all solved, else 1 - k/n.

    Its expectation is q - q^n: it moves with n, so tasks judged by fewer attempts are paid less.
    """
    _check(k, n)
    if n == 0:
        return None
    return 0.0 if k in (0, n) else 1.0 - k / n


def learnability_paper_unbiased(k: int, n: int, horizon: int = 4) -> float | None:
    """The published one for a fixed `horizon` m instead of n: an unbiased estimate of q - q^m, in words "it fails,
    but m attempts would not all fail". (n - k)/n - C(n - k, m)/C(n, m); equal to the published one for n = m.
    None for n < m.
    """
    _check(k, n)
    _check_horizon(horizon)
    if n < horizon:
        return None
    return (n - k) / n - math.comb(n - k, horizon) / math.comb(n, horizon)


def learnability_paper_posterior(k: int, n: int, horizon: int = 4) -> float | None:
    """Posterior mean of q - q^m under a Beta(1, 1) prior: with a = k + 1 and b = n - k + 1,
    b/(a + b) minus the product over i < m of (b + i)/(a + b + i).
    """
    _check(k, n)
    _check_horizon(horizon)
    if n == 0:
        return None
    a, b = k + 1, n - k + 1
    return b / (a + b) - math.prod((b + i) / (a + b + i) for i in range(horizon))


def learnability_variance(k: int, n: int) -> float | None:
    """Unbiased estimate of p(1 - p): k(n - k) / (n(n - 1)). None for n < 2: one attempt has no variance."""
    _check(k, n)
    return None if n < 2 else k * (n - k) / (n * (n - 1))


def beta_variance(a: float, b: float) -> float:
    """Mean of p(1 - p) under Beta(a, b): ab / ((a + b)(a + b + 1))."""
    if a <= 0 or b <= 0:
        raise ValueError(f"Beta({a}, {b}) does not exist; both must be above 0")
    return a * b / ((a + b) * (a + b + 1))


def learnability_variance_posterior(k: int, n: int) -> float | None:
    """Posterior mean of p(1 - p) under a Beta(1, 1) prior; never 0, also where none or all were solved."""
    _check(k, n)
    return None if n == 0 else beta_variance(k + 1, n - k + 1)


LEARNABILITY: Mapping[str, Callable[..., float | None]] = {
    "paper": learnability_paper,
    "paper-unbiased": learnability_paper_unbiased,
    "paper-posterior": learnability_paper_posterior,
    "variance": learnability_variance,
    "variance-posterior": learnability_variance_posterior,
}


@dataclass(frozen=True)
class RewardConfig:
    """What is paid; the defaults are the published values, without the optional terms."""

    learnability: str = "paper"  # paper, paper-unbiased, paper-posterior, variance or variance-posterior
    horizon: int = 4  # attempts that paper-unbiased and paper-posterior speak of
    no_evidence: float = 0.0  # for a valid task whose attempts say nothing, such as all cut by a time limit
    correct: float = 1.0  # a right answer in the right format
    wrong: float = -0.5  # a wrong answer in the right format
    invalid: float = -0.5  # a proposal in the right format that the world rejects
    bad_format: float = -1.0  # anything that cannot be parsed
    complexity: float = 0.0  # weight of the complexity term of learnable tasks; 0 switches it off
    complexity_half: float = 10.0  # summed features at which the complexity term is one half
    diversity: float = 0.0  # weight of the distance to the references of learnable tasks; 0 switches it off

    def __post_init__(self) -> None:
        if self.learnability not in LEARNABILITY:
            raise ValueError(f"reward.learnability is {self.learnability!r}; known are {', '.join(LEARNABILITY)}")
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"reward.{name} is {value}; it must be a finite number")
        if self.horizon < 2:
            raise ValueError(f"reward.horizon is {self.horizon}; it must be at least 2")
        if not self.complexity_half > 0:
            raise ValueError(f"reward.complexity_half is {self.complexity_half}; it must be above 0")


PUBLISHED = RewardConfig()


def composite_reward(solved: bool, well_formatted: bool, config: RewardConfig = PUBLISHED) -> float:
    """Right 1, wrong but well formatted -0.5, badly formatted -1 even if the answer in it happens to be right."""
    if not well_formatted:
        return config.bad_format
    return config.correct if solved else config.wrong


def proposer_reward(
    well_formatted: bool,
    valid: bool,
    learnability: float | None = None,
    complexity: float = 0.0,
    diversity: float = 0.0,
    config: RewardConfig = PUBLISHED,
) -> float:
    """Badly formatted -1, well formatted but rejected -0.5, valid: its learnability, and 0 stays 0.

    A valid task that nobody or everybody solves is worth nothing, but it is no mistake: turning its 0 into -0.5
    would punish it like a rejected one. The optional terms are paid on learnable tasks only; otherwise a proposer
    would earn them with long tasks that nobody can solve.
    """
    if not well_formatted:
        return config.bad_format
    if not valid:
        return config.invalid
    if learnability is None:
        return config.no_evidence
    if learnability <= 0:
        return learnability
    return learnability + config.complexity * complexity + config.diversity * diversity


def learnability(k: int, n: int, config: RewardConfig = PUBLISHED) -> float | None:
    """The learnability that the configuration names."""
    if config.learnability.startswith("paper-"):
        return LEARNABILITY[config.learnability](k, n, config.horizon)
    return LEARNABILITY[config.learnability](k, n)


def complexity(features: Mapping[str, float], half: float = 10.0) -> float:
    """How much there is to a task, 0 to 1: x / (x + half) for x the sum of its features, none counted below 0."""
    if half <= 0:
        raise ValueError(f"half is {half}; it must be above 0")
    size = math.fsum(max(value, 0.0) for value in features.values())
    return size / (size + half)


def feature_distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """How unlike two tasks are, 0 to 1: the mean of |x - y| / (|x| + |y|) over features; a missing one is 0."""
    names = one.keys() | other.keys()
    if not names:
        return 0.0
    return math.fsum(_relative(one.get(name, 0.0), other.get(name, 0.0)) for name in names) / len(names)


def diversity(distances: Sequence[float]) -> float:
    """How new a task is against its references: the distance to the nearest; 0 without references.

    The nearest, not the mean: a copy of one reference is no new task, however far the others are.
    """
    return min(distances, default=0.0)


def _relative(x: float, y: float) -> float:
    return 0.0 if x == y else abs(x - y) / (abs(x) + abs(y))


def _check(k: int, n: int) -> None:
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} attempts solved; it must be 0 <= k <= n")


def _check_horizon(horizon: int) -> None:
    if horizon < 2:
        raise ValueError(f"horizon is {horizon}; it must be at least 2")
