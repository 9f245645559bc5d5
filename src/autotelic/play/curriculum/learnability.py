"""Tasks that are solved sometimes: the posterior mean of p(1 - p) by cell of features, and a bonus for rare cells.

p(1 - p) is the variance of a success, and what there is to learn from binary outcomes: nothing where all attempts fail
or all succeed. A cell pools tasks that look alike, so that a few attempts at each say much of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autotelic.play.curriculum.base import Curriculum, Figures, Outcome, Pool, Wish, by_kind, pick, require
from autotelic.play.curriculum.history import Floats, History, Scale, Seen
from autotelic.play.rewards import beta_variance
from autotelic.worlds.base import Task

_POOL = 8  # archived tasks looked at for each one that is practised

Cell = tuple[int, ...]


@dataclass(frozen=True)
class LearnabilityConfig:
    bins: int = 4  # of each feature, by rank among the values seen
    novelty: float = 0.1  # what a cell without tasks gets on top of its score; it falls with the root of their number
    sharpness: float = 2.0  # cells are drawn in proportion to their score to this power
    explore: float = 0.1  # share of wishes for cells beside those seen, which nothing is known of
    window: int = 1000  # tasks a kind that are remembered
    features: tuple[str, ...] = ()  # those used; all if none is named

    def __post_init__(self) -> None:
        require("bins", self.bins, 2)
        require("novelty", self.novelty, 0)
        require("sharpness", self.sharpness, 0)
        require("explore", self.explore, 0, 1)
        require("window", self.window, 1)


@dataclass
class Evidence:
    """What attempts at the tasks of a cell said."""

    solved: int = 0
    failed: int = 0
    tasks: list[int] = field(default_factory=list)  # where in the history they are

    def score(self, novelty: float) -> float:
        """Posterior mean of p(1 - p) under Beta(1, 1), and novelty / sqrt(1 + tasks); 1/6 + novelty for no task."""
        return beta_variance(self.solved + 1, self.failed + 1) + novelty / math.sqrt(1 + len(self.tasks))

    @property
    def failing(self) -> float:
        """Posterior mean of 1 - p."""
        return (self.failed + 1) / (self.solved + self.failed + 2)


class Grid:
    """The cells of one kind, as the history fills them."""

    def __init__(self, seen: Sequence[Seen], config: LearnabilityConfig) -> None:
        self.seen, self.config = seen, config
        self.scale = Scale.of([each.features for each in seen], config.features)
        self.cells: dict[Cell, Evidence] = {}
        for at, (cell, each) in enumerate(zip(self.locate([each.features for each in seen]), seen, strict=True)):
            found = self.cells.setdefault(cell, Evidence())
            found.solved += each.solved
            found.failed += each.attempts - each.solved
            found.tasks.append(at)

    def locate(self, tasks: Sequence[Mapping[str, float]]) -> list[Cell]:
        places = np.minimum((self.scale.place(tasks) * self.config.bins).astype(int), self.config.bins - 1)
        return [tuple(row) for row in places.tolist()]

    def weights(self, cells: Iterable[Cell]) -> Floats:
        empty = Evidence()
        scores = [self.cells.get(cell, empty).score(self.config.novelty) for cell in cells]
        return np.asarray(scores) ** self.config.sharpness

    def beside(self) -> list[tuple[Cell, int, int]]:
        """Cells without a task next to one with some: that one, the axis and the bin on it."""
        found: dict[Cell, tuple[Cell, int, int]] = {}
        for cell in self.cells:
            for axis, here in enumerate(cell):
                for there in (here - 1, here + 1):
                    other = (*cell[:axis], there, *cell[axis + 1 :])
                    if 0 <= there < self.config.bins and other not in self.cells:
                        found.setdefault(other, (cell, axis, there))
        return list(found.values())


class Learnability(Curriculum):
    """Wants what is solved about half the time, and now and then what nothing is known of."""

    name = "learnability"
    Config = LearnabilityConfig
    config: LearnabilityConfig

    def __init__(self, config: LearnabilityConfig | None = None) -> None:
        super().__init__(config or LearnabilityConfig())
        self.history = History(self.config.window)

    def grid(self, kind: str) -> Grid:
        return Grid(self.history.of(kind), self.config)

    def sample(self, kind: str, count: int, rng: np.random.Generator) -> list[Wish]:
        """A cell's features as one of its tasks has them, so that what is wanted can be; its share of failing attempts.

        Without features there is one cell, and half of all attempts should fail, where p(1 - p) is greatest.
        """
        grid = self.grid(kind)
        if not len(grid.scale):
            return [Wish(0.5)] * count
        cells, beside = list(grid.cells), grid.beside()
        weights = grid.weights(cells)
        drawn = rng.choice(len(cells), size=count, p=weights / weights.sum())
        chances = rng.random((count, 3))  # drawn always: one wish takes the same numbers whatever it is
        wishes = []
        for at, (new, which, task) in zip(drawn.tolist(), chances.tolist(), strict=True):
            if beside and new < self.config.explore:
                wishes.append(self._unknown(grid, *beside[int(which * len(beside))], task))
            else:
                found = grid.cells[cells[at]]
                wishes.append(Wish(found.failing, self._like(grid, found, task)))
        return wishes

    def _like(self, grid: Grid, found: Evidence, chance: float) -> dict[str, float]:
        features = grid.seen[found.tasks[int(chance * len(found.tasks))]].features
        return {name: float(features.get(name, 0.0)) for name in grid.scale.names}

    def _unknown(self, grid: Grid, cell: Cell, axis: int, there: int, chance: float) -> Wish:
        """A task of the cell beside, with one feature moved over."""
        features = self._like(grid, grid.cells[cell], chance)
        middle = np.full((1, len(grid.scale)), (there + 0.5) / self.config.bins)
        name = grid.scale.names[axis]
        return Wish(0.5, features | {name: grid.scale.features(middle)[0][name]})

    def practise(self, kind: str, count: int, rng: np.random.Generator, pool: Pool) -> list[Task]:
        tasks, grid = pool.draw(_POOL * count), self.grid(kind)
        return pick(tasks, grid.weights(grid.locate([task.features for task in tasks])), count, rng)

    def update(self, outcomes: Sequence[Outcome], rng: np.random.Generator) -> Figures:
        self.history.add(outcomes)
        figures: Figures = {}
        for kind in by_kind(outcomes):
            grid = self.grid(kind)
            weights = grid.weights(grid.cells)
            scores = np.array([found.score(0.0) for found in grid.cells.values()])
            figures[f"{kind}/cells"] = float(len(grid.cells))
            figures[f"{kind}/cells_beside"] = float(len(grid.beside()))
            figures[f"{kind}/learnability"] = float(np.average(scores, weights=weights))
        return figures

    def dump(self) -> dict[str, Any]:
        return {"history": self.history.dump()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.history.load(state["history"])
