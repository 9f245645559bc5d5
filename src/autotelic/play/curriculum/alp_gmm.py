"""ALP-GMM: tasks where success changes fastest (Portelas et al., arXiv 1910.07224).

The absolute learning progress of a task is how much its solve rate differs from that of the nearest task attempted
before, be it for better or for worse: what is being forgotten is worth practising too. A mixture of Gaussians over
(features, progress) of the newest tasks finds the regions where it is great.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotelic.play.curriculum.base import Curriculum, Figures, Outcome, Pool, Wish, by_kind, pick, require
from autotelic.play.curriculum.history import Floats, History, Scale
from autotelic.play.curriculum.mixture import Mixture, best_fit
from autotelic.worlds.base import Task

_POOL = 8  # archived tasks looked at for each one that is practised
_NEIGHBOURS = 5  # tasks nearest to a point that say what share of attempts fails there


@dataclass(frozen=True)
class ALPGMMConfig:
    window: int = 250  # newest tasks a kind that a mixture is fitted to
    every: int = 50  # new tasks between fits, and before the first
    components: tuple[int, int] = (2, 10)  # fewest and most; as many as Akaike's criterion wants
    uniform: float = 0.2  # share of wishes drawn from anywhere
    memory: int = 2000  # tasks a kind among which the nearest is looked for
    features: tuple[str, ...] = ()  # those used; all if none is named

    def __post_init__(self) -> None:
        require("every", self.every, 2)
        require("window", self.window, self.every)
        require("memory", self.memory, self.window)
        require("uniform", self.uniform, 0, 1)
        require("components", self.components[0], 1)
        require("components", self.components[1], self.components[0])


@dataclass(frozen=True)
class Regions:
    """A mixture over (coordinates, learning progress), and the scale that its coordinates are on."""

    mixture: Mixture
    scale: Scale

    @property
    def progress(self) -> Floats:
        """Mean learning progress of each component; never below 0."""
        return np.maximum(self.mixture.means[:, -1], 0.0)

    def chances(self) -> Floats:
        """Of each component to be sampled: in proportion to its learning progress."""
        progress = self.progress
        total = progress.sum()
        return progress / total if total > 0 else np.full(len(progress), 1 / len(progress))

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Coordinates within components, one row a point."""
        which = rng.choice(len(self.mixture), size=count, p=self.chances())
        alone = self.mixture.marginal(len(self.scale))
        lower = np.linalg.cholesky(alone.covariances)
        apart = (lower[which] @ rng.standard_normal((count, len(self.scale), 1)))[:, :, 0]
        return np.clip(alone.means[which] + apart, 0, 1)

    def expected(self, points: Floats) -> Floats:
        """Learning progress at some coordinates: the components' mean, each by how likely it is there."""
        densities = self.mixture.marginal(len(self.scale)).log_densities(points)
        shares = np.exp(densities - np.logaddexp.reduce(densities, axis=1)[:, None])
        return shares @ self.progress


class ALPGMM(Curriculum):
    """Wants what is learned, or forgotten, fastest."""

    name = "alp-gmm"
    Config = ALPGMMConfig
    config: ALPGMMConfig

    def __init__(self, config: ALPGMMConfig | None = None) -> None:
        super().__init__(config or ALPGMMConfig())
        self.history = History(self.config.memory)
        self._progress: dict[str, deque[float]] = {}  # of the newest tasks, as many as the window
        self._waiting: dict[str, int] = {}  # tasks since the last fit
        self._regions: dict[str, Regions] = {}

    def sample(self, kind: str, count: int, rng: np.random.Generator) -> list[Wish]:
        """Points within regions of much learning progress, or anywhere; the share of attempts that fails near them."""
        seen, regions = self.history.of(kind), self._regions.get(kind)
        scale = regions.scale if regions is not None else self.history.scale(kind, self.config.features)
        if not len(scale):
            return [Wish()] * count
        points, anywhere = rng.random((count, len(scale))), rng.random(count) < self.config.uniform
        if regions is not None:
            points[~anywhere] = regions.sample(int((~anywhere).sum()), rng)
        distances = _squared_distances(points, scale.place([each.features for each in seen]))
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :_NEIGHBOURS]
        failing = 1 - np.array([each.rate for each in seen])[nearest].mean(axis=1)
        return [Wish(hard, each) for hard, each in zip(failing.tolist(), scale.features(points), strict=True)]

    def practise(self, kind: str, count: int, rng: np.random.Generator, pool: Pool) -> list[Task]:
        tasks, regions = pool.draw(_POOL * count), self._regions.get(kind)
        if regions is None or not tasks:
            return []
        expected = regions.expected(regions.scale.place([task.features for task in tasks]))
        even = np.full(len(tasks), 1 / len(tasks))
        likely = expected / expected.sum() if expected.sum() > 0 else even
        return pick(tasks, (1 - self.config.uniform) * likely + self.config.uniform * even, count, rng)

    def update(self, outcomes: Sequence[Outcome], rng: np.random.Generator) -> Figures:
        figures: Figures = {}
        for kind, found in by_kind(outcomes).items():
            before = self.history.of(kind)
            self.history.add(found)
            scale = self.history.scale(kind, self.config.features)
            if before:  # the very first have nothing to be compared with
                old = scale.place([each.features for each in before])
                new = scale.place([outcome.task.features for outcome in found])
                rates = np.array([outcome.solved / outcome.attempts for outcome in found])
                progress = learning_progress(new, rates, old, np.array([each.rate for each in before]))
                kept = self._progress.setdefault(kind, deque(maxlen=self.config.window))
                kept.extend(progress.tolist())
                figures[f"{kind}/progress"] = float(progress.mean())
                self._waiting[kind] = self._waiting.get(kind, 0) + len(found)
            if self._waiting.get(kind, 0) >= self.config.every and len(scale):
                self._fit(kind, scale, rng)
            if kind in self._regions:
                figures[f"{kind}/components"] = float(len(self._regions[kind].mixture))
        return figures

    def _fit(self, kind: str, scale: Scale, rng: np.random.Generator) -> None:
        progress = np.array(self._progress[kind])
        newest = [each.features for each in self.history.of(kind)][-len(progress) :]
        points = np.column_stack([scale.place(newest), progress])
        fewest, most = self.config.components
        fewest = min(fewest, len(points))
        counts = range(fewest, max(fewest, min(most, len(points) // 2)) + 1)
        self._regions[kind] = Regions(best_fit(points, counts, rng), scale)
        self._waiting[kind] = 0

    def dump(self) -> dict[str, Any]:
        return {
            "history": self.history.dump(),
            "progress": {kind: list(kept) for kind, kept in self._progress.items()},
            "waiting": dict(self._waiting),
            "regions": {
                kind: {"mixture": regions.mixture.dump(), "scale": regions.scale.dump()}
                for kind, regions in self._regions.items()
            },
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.history.load(state["history"])
        self._progress = {kind: deque(kept, self.config.window) for kind, kept in state["progress"].items()}
        self._waiting = dict(state["waiting"])
        self._regions = {
            kind: Regions(Mixture.load(found["mixture"]), Scale(found["scale"]))
            for kind, found in state["regions"].items()
        }


def learning_progress(new: Floats, new_rates: Floats, old: Floats, old_rates: Floats) -> Floats:
    """|rate - rate of the nearest old one| of each new task; of several as near, the newest, which is the last."""
    distances = _squared_distances(new, old)
    nearest = old.shape[0] - 1 - np.argmin(distances[:, ::-1], axis=1)
    return np.abs(new_rates - old_rates[nearest])


def _squared_distances(these: Floats, those: Floats) -> Floats:
    """Axis by axis: equal points are exactly 0 apart, and memory stays at one table."""
    total = np.zeros((len(these), len(those)))
    for axis in range(these.shape[1]):
        total += (these[:, axis, None] - those[None, :, axis]) ** 2
    return total
