"""Three rungs, easy, medium and hard: up when most attempts succeed, down when most fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotelic.play.curriculum.base import Curriculum, Figures, Outcome, Pool, Wish, by_kind, pick, require
from autotelic.play.curriculum.history import History, Scale, hardness
from autotelic.worlds.base import Task

RUNGS = ("easy", "medium", "hard")
_WIDTH = 0.15  # how far from the rung a task's hardness may be and still be worth practising, as a deviation
_POOL = 8  # archived tasks looked at for each one that is practised


@dataclass(frozen=True)
class LadderConfig:
    easy: float = 0.2  # share of attempts that should fail on each rung; tasks look as hard, by rank among those seen
    medium: float = 0.5
    hard: float = 0.8
    start: str = "easy"  # the rung a run begins on
    up: float = 0.8  # share of the last attempts that must succeed to go up
    down: float = 0.2  # share at or below which to go down
    episodes: int = 50  # attempts that the share is taken over, and the least on a rung before it is left
    spread: float = 0.1  # deviation of wanted features around the rung, in shares of what was seen
    window: int = 1000  # tasks a kind that are remembered to scale features by
    features: tuple[str, ...] = ()  # those used; all if none is named

    def __post_init__(self) -> None:
        for name in ("easy", "medium", "hard", "up", "down"):
            require(name, getattr(self, name), 0, 1)
        if not self.easy <= self.medium <= self.hard:
            raise ValueError(f"curriculum: easy {self.easy:g}, medium {self.medium:g}, hard {self.hard:g} must rise")
        if self.down >= self.up:
            raise ValueError(f"curriculum.down is {self.down:g}; it must be below curriculum.up, {self.up:g}")
        if self.start not in RUNGS:
            raise ValueError(f"curriculum.start is {self.start!r}; known are {', '.join(RUNGS)}")
        require("episodes", self.episodes, 1)
        require("spread", self.spread, 0)
        require("window", self.window, 1)


class Ladder(Curriculum):
    """One rung a kind. A move clears what was counted: the next is decided by attempts on the new rung."""

    name = "ladder"
    Config = LadderConfig
    config: LadderConfig

    def __init__(self, config: LadderConfig | None = None) -> None:
        super().__init__(config or LadderConfig())
        self.history = History(self.config.window)
        self._rungs: dict[str, str] = {}
        self._counted: dict[str, list[tuple[int, int]]] = {}  # (solved, attempts) of tasks on this rung, oldest first

    def rung(self, kind: str) -> str:
        return self._rungs.get(kind, self.config.start)

    def wanted(self, kind: str) -> float:
        """The share of attempts that should fail."""
        return float(getattr(self.config, self.rung(kind)))

    def sample(self, kind: str, count: int, rng: np.random.Generator) -> list[Wish]:
        """The rung's difficulty, and features about as far up among those seen."""
        difficulty, scale = self.wanted(kind), self._scale(kind)
        around = rng.normal(difficulty, self.config.spread, size=(count, len(scale)))
        if not len(scale):
            return [Wish(difficulty)] * count
        return [Wish(difficulty, features) for features in scale.features(np.clip(around, 0, 1))]

    def practise(self, kind: str, count: int, rng: np.random.Generator, pool: Pool) -> list[Task]:
        """Tasks whose hardness is near the rung's."""
        tasks, scale = pool.draw(_POOL * count), self._scale(kind)
        said = {seen.id: seen for seen in self.history.of(kind)}  # the newest of each
        weights = []
        for task, place in zip(tasks, scale.place([task.features for task in tasks]), strict=True):
            seen = said.get(task.id)
            hard = hardness(place, seen.solved, seen.attempts, seen.progress) if seen else hardness(place, 0, 0)
            weights.append(np.exp(-(((hard - self.wanted(kind)) / _WIDTH) ** 2) / 2) + 1e-9)
        return pick(tasks, weights, count, rng)

    def update(self, outcomes: Sequence[Outcome], rng: np.random.Generator) -> Figures:
        self.history.add(outcomes)
        figures: Figures = {}
        for kind, found in by_kind(outcomes).items():
            counted = [*self._counted.get(kind, ()), *((outcome.solved, outcome.attempts) for outcome in found)]
            while sum(n for _, n in counted[1:]) >= self.config.episodes:
                counted.pop(0)
            attempts = sum(n for _, n in counted)
            share = sum(k for k, _ in counted) / attempts
            self._counted[kind] = counted
            if attempts >= self.config.episodes:
                self._move(kind, share)
            figures[f"{kind}/rung"] = float(RUNGS.index(self.rung(kind)))
            figures[f"{kind}/success"] = share
            figures[f"{kind}/hardness"] = self._mean_hardness(kind, found)
        return figures

    def _move(self, kind: str, share: float) -> None:
        at = RUNGS.index(self.rung(kind))
        to = min(at + 1, len(RUNGS) - 1) if share >= self.config.up else at
        to = max(at - 1, 0) if share <= self.config.down else to
        if to != at:
            self._rungs[kind] = RUNGS[to]
            self._counted[kind] = []

    def _mean_hardness(self, kind: str, outcomes: Sequence[Outcome]) -> float:
        places = self._scale(kind).place([outcome.task.features for outcome in outcomes])
        pairs = zip(places, outcomes, strict=True)
        return float(np.mean([hardness(place, said.solved, said.attempts, said.progress) for place, said in pairs]))

    def _scale(self, kind: str) -> Scale:
        return self.history.scale(kind, self.config.features)

    def dump(self) -> dict[str, Any]:
        counted = {kind: [list(pair) for pair in pairs] for kind, pairs in self._counted.items()}
        return {"history": self.history.dump(), "rungs": dict(self._rungs), "counted": counted}

    def load(self, state: Mapping[str, Any]) -> None:
        self.history.load(state["history"])
        self._rungs = dict(state["rungs"])
        self._counted = {kind: [(k, n) for k, n in pairs] for kind, pairs in state["counted"].items()}
