"""Prioritised level replay (Jiang et al., arXiv 2010.03934): practise what taught most, and what was left longest.

P = (1 - rho) P_score + rho P_stale. P_score is in proportion to (1 / rank)^(1 / beta), so that only the order of scores
matters; P_stale to the steps since the last attempt, so that scores do not grow old. A score is the posterior mean of
p(1 - p) of the newest attempts at a task: what there is to learn from it where outcomes are right or wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotelic.play.curriculum.base import Curriculum, Figures, Outcome, Pool, Wish, by_kind, require
from autotelic.play.curriculum.history import Floats
from autotelic.play.rewards import beta_variance
from autotelic.worlds.base import Task


@dataclass(frozen=True)
class PLRConfig:
    rho: float = 0.3  # share of practice by staleness; the rest is by score
    beta: float = 0.3  # temperature: near 0 only the best, great all alike
    capacity: int = 1000  # tasks a kind that are remembered; those with the least scores go, the oldest first

    def __post_init__(self) -> None:
        require("rho", self.rho, 0, 1)
        require("capacity", self.capacity, 1)
        if not self.beta > 0:
            raise ValueError(f"curriculum.beta is {self.beta:g}; it must be above 0")


@dataclass(frozen=True)
class Level:
    """A task that was attempted."""

    id: str
    score: float
    step: int  # of the last attempt, in updates of its kind


class PLR(Curriculum):
    """Wants nothing of proposals; chooses what is practised."""

    name = "plr"
    Config = PLRConfig
    config: PLRConfig

    def __init__(self, config: PLRConfig | None = None) -> None:
        super().__init__(config or PLRConfig())
        self._levels: dict[str, dict[str, Level]] = {}  # by id, in the order of their last attempts
        self._steps: dict[str, int] = {}  # updates of each kind

    def sample(self, kind: str, count: int, rng: np.random.Generator) -> list[Wish]:
        return [Wish()] * count

    def practise(self, kind: str, count: int, rng: np.random.Generator, pool: Pool) -> list[Task]:
        levels = self._levels.get(kind, {})
        active = pool.active(list(levels))
        if not active:
            return []
        drawn = draw(*self.chances(kind, [levels[id] for id in active]), self.config.rho, count, rng)
        return pool.tasks([active[at] for at in drawn])

    def chances(self, kind: str, levels: Sequence[Level]) -> tuple[Floats, Floats]:
        """Of each level to be practised: by score and by staleness."""
        waited = [self._steps[kind] - level.step for level in levels]
        return score_chances([level.score for level in levels], self.config.beta), stale_chances(waited)

    def update(self, outcomes: Sequence[Outcome], rng: np.random.Generator) -> Figures:
        figures: Figures = {}
        for kind, found in by_kind(outcomes).items():
            step = self._steps[kind] = self._steps.get(kind, 0) + 1
            levels = self._levels.setdefault(kind, {})
            for outcome in found:
                score = beta_variance(outcome.solved + 1, outcome.attempts - outcome.solved + 1)
                levels.pop(outcome.task.id, None)
                levels[outcome.task.id] = Level(outcome.task.id, score, step)
            self._trim(kind)
            kept = self._levels[kind].values()
            figures[f"{kind}/levels"] = float(len(kept))
            figures[f"{kind}/score"] = float(np.mean([level.score for level in kept]))
            figures[f"{kind}/staleness"] = float(np.mean([step - level.step for level in kept]))
        return figures

    def _trim(self, kind: str) -> None:
        levels = self._levels[kind]
        excess = len(levels) - self.config.capacity
        if excess > 0:
            gone = sorted(levels.values(), key=lambda level: level.score)[:excess]  # stable: the oldest of equals
            for level in gone:
                del levels[level.id]

    def dump(self) -> dict[str, Any]:
        levels = {kind: [dict(vars(level)) for level in found.values()] for kind, found in self._levels.items()}
        return {"levels": levels, "steps": dict(self._steps)}

    def load(self, state: Mapping[str, Any]) -> None:
        self._levels = {
            kind: {level["id"]: Level(**level) for level in found} for kind, found in state["levels"].items()
        }
        self._steps = dict(state["steps"])


def score_chances(scores: Sequence[float], beta: float) -> Floats:
    """In proportion to (1 / rank)^(1 / beta), rank 1 for the greatest score; of equals the last is first."""
    order = np.argsort(np.asarray(scores, dtype=float), kind="stable")[::-1]
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    weights = (1 / ranks) ** (1 / beta)
    return weights / weights.sum()


def stale_chances(waited: Sequence[int]) -> Floats:
    """In proportion to the steps since the last attempt; all alike where none has waited."""
    steps = np.asarray(waited, dtype=float)
    total = steps.sum()
    return steps / total if total > 0 else np.full(len(steps), 1 / len(steps))


def draw(by_score: Floats, by_staleness: Floats, rho: float, count: int, rng: np.random.Generator) -> list[int]:
    """Up to `count` distinct positions, each drawn from (1 - rho) P_score + rho P_stale among those left.

    Which of the two decides is drawn each time anew. One draw from their mixture without replacement would take the few
    best first and be left with staleness alone, since nearly all of P_score is theirs.
    """
    left = np.ones(len(by_score))
    drawn: list[int] = []
    for _ in range(min(count, len(left))):
        weights = left * (by_staleness if rng.random() < rho else by_score)
        if not weights.any():
            weights = left
        drawn.append(int(rng.choice(len(left), p=weights / weights.sum())))
        left[drawn[-1]] = 0.0
    return drawn
