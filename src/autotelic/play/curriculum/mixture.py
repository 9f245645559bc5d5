"""Mixtures of Gaussians by expectation maximisation, the number of components by Akaike's criterion."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FLOOR = 1e-3  # added to variances: features of tasks repeat, and a component on one point would be infinitely likely
_ROUNDS = 100
_TOLERANCE = 1e-3  # of the mean log-likelihood of a point, between rounds


@dataclass(frozen=True)
class Mixture:
    weights: Floats  # [k], summing to 1
    means: Floats  # [k, d]
    covariances: Floats  # [k, d, d]

    def __len__(self) -> int:
        return len(self.weights)

    def log_densities(self, points: Floats) -> Floats:
        """log(weight) + log N(point; mean, covariance), one row a point and one column a component."""
        lower = np.linalg.cholesky(self.covariances)
        apart = points[None, :, :] - self.means[:, None, :]  # [k, n, d]
        whitened = np.linalg.solve(lower, apart.transpose(0, 2, 1))  # [k, d, n]
        half_log_determinant = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        constant = np.log(self.weights) - half_log_determinant - points.shape[1] * math.log(2 * math.pi) / 2
        return (constant[:, None] - (whitened**2).sum(axis=1) / 2).T

    def log_likelihood(self, points: Floats) -> float:
        """Of all points together."""
        return float(np.logaddexp.reduce(self.log_densities(points), axis=1).sum())

    def parameters(self) -> int:
        """Free ones: means, symmetric covariances, and weights but one."""
        k, d = self.means.shape
        return k * d + k * d * (d + 1) // 2 + k - 1

    def aic(self, points: Floats) -> float:
        """Akaike's criterion, 2 parameters - 2 log-likelihood: the less the better."""
        return 2 * self.parameters() - 2 * self.log_likelihood(points)

    def marginal(self, count: int) -> Mixture:
        """The same over the first `count` dimensions alone."""
        return Mixture(self.weights, self.means[:, :count], self.covariances[:, :count, :count])

    def dump(self) -> dict[str, Any]:
        return {name: value.tolist() for name, value in vars(self).items()}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Mixture:
        return cls(**{name: np.array(value, dtype=float) for name, value in state.items()})


def fit(points: Floats, components: int, rng: np.random.Generator) -> Mixture:
    """A mixture that expectation maximisation does not improve any more, begun at points far from each other."""
    mixture, before = _maximise(points, _begin(points, components, rng)), -math.inf
    for _ in range(_ROUNDS):
        densities = mixture.log_densities(points)
        likelihoods = np.logaddexp.reduce(densities, axis=1)
        now = float(likelihoods.mean())
        if now - before < _TOLERANCE:
            break
        before = now
        mixture = _maximise(points, np.exp(densities - likelihoods[:, None]))
    return mixture


def best_fit(points: Floats, components: Iterable[int], rng: np.random.Generator) -> Mixture:
    """The mixture with the least AIC among those with so many components, the smaller of equals."""
    fitted = [fit(points, count, rng) for count in components]
    return min(fitted, key=lambda mixture: mixture.aic(points))


def _begin(points: Floats, components: int, rng: np.random.Generator) -> Floats:
    """Every point to the nearest of some centres, each drawn by its squared distance from those before."""
    centres = [points[int(rng.integers(len(points)))]]
    nearest = ((points - centres[0]) ** 2).sum(axis=1)
    while len(centres) < components:
        total = nearest.sum()
        chances = nearest / total if total > 0 else np.full(len(points), 1 / len(points))
        centres.append(points[int(rng.choice(len(points), p=chances))])
        nearest = np.minimum(nearest, ((points - centres[-1]) ** 2).sum(axis=1))
    distances = ((points[:, None, :] - np.array(centres)[None, :, :]) ** 2).sum(axis=2)
    return np.eye(components)[distances.argmin(axis=1)]


def _maximise(points: Floats, shares: Floats) -> Mixture:
    """The likeliest mixture, given which share of each point belongs to each component."""
    sizes = shares.sum(axis=0) + 10 * np.finfo(float).eps  # a component that nothing belongs to stays finite
    means = shares.T @ points / sizes[:, None]
    apart = points[None, :, :] - means[:, None, :]  # [k, n, d]
    covariances = (shares.T[:, :, None] * apart).transpose(0, 2, 1) @ apart / sizes[:, None, None]
    return Mixture(sizes / sizes.sum(), means, covariances + FLOOR * np.eye(points.shape[1]))
