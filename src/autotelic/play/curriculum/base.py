"""What every curriculum shares: three verbs, `sample`, `update` and `dump`, over wishes and outcomes.

A curriculum says what is wanted of the next proposals and which archived tasks are worth another attempt. It knows
tasks by their features alone, so the same one goes with any world, and nothing it says is an order: a proposer may
miss a wish, and the world decides what is true of what it proposed instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from autotelic.play.archive import Archive
from autotelic.worlds.base import Task

Figures = dict[str, float]


@dataclass(frozen=True)
class Wish:
    """What is wanted of one proposal; what is not said is left to the loop and the proposer."""

    difficulty: float | None = None  # share of attempts that should fail, 0 to 1
    features: Mapping[str, float] = field(default_factory=dict)  # in the world's own units


@dataclass(frozen=True)
class Outcome:
    """What one step's attempts said of a task. Attempts that are no evidence are not among them."""

    task: Task
    solved: int
    attempts: int
    progress: float  # mean of how far attempts came, 0 to 1; a solved one came all the way


class Pool:
    """The archive's active tasks of one kind: what there is to practise."""

    def __init__(self, archive: Archive, kind: str, rng: np.random.Generator) -> None:
        self._archive, self.kind, self._rng = archive, kind, rng

    def __len__(self) -> int:
        return self._archive.active(self.kind)

    def draw(self, count: int) -> list[Task]:
        """Distinct tasks, all alike likely; all there are if fewer."""
        return self._archive.sample_references([self.kind], count, self._rng, "uniform")

    def active(self, ids: Sequence[str]) -> list[str]:
        """Those of the ids that are still active, in their order."""
        return self._archive.active_among(self.kind, ids)

    def tasks(self, ids: Sequence[str]) -> list[Task]:
        """The tasks of these ids, in their order."""
        rows = self._archive.rows_of(set(ids))
        return self._archive.tasks_at([rows[id] for id in ids])


class Curriculum(ABC):
    """Decides what is worth proposing and practising next.

    `sample` and `practise` change nothing: all that is learned comes by `update`, and `dump` holds all of it.
    """

    name: ClassVar[str]
    Config: ClassVar[type[Any]]
    steers: ClassVar[bool] = True  # False for the one that leaves everything as it is, and has no figures

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def sample(self, kind: str, count: int, rng: np.random.Generator) -> list[Wish]:
        """A wish for each of `count` proposals of a kind."""

    def practise(self, kind: str, count: int, rng: np.random.Generator, pool: Pool) -> list[Task]:
        """Up to `count` distinct tasks of the pool to attempt again; `loop.practice` fills up what is missing."""
        return []

    @abstractmethod
    def update(self, outcomes: Sequence[Outcome], rng: np.random.Generator) -> Figures:
        """Takes in what a step's attempts said, and returns figures, named KIND/NAME, of what it made of it."""

    @abstractmethod
    def dump(self) -> dict[str, Any]:
        """All that it knows, as plain data: what a checkpoint holds."""

    @abstractmethod
    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over what `dump` gave, also from one with other settings: a fork may change them."""


@dataclass(frozen=True)
class NoCurriculumConfig:
    """Nothing to set: `loop.difficulty` and `loop.practice` say what is wanted."""


class NoCurriculum(Curriculum):
    """Wants nothing: proposals as they come, practice as `loop.practice` draws it."""

    name = "none"
    Config = NoCurriculumConfig
    steers = False

    def __init__(self, config: NoCurriculumConfig | None = None) -> None:
        super().__init__(config or NoCurriculumConfig())

    def sample(self, kind: str, count: int, rng: np.random.Generator) -> list[Wish]:
        return [Wish()] * count

    def update(self, outcomes: Sequence[Outcome], rng: np.random.Generator) -> Figures:
        return {}

    def dump(self) -> dict[str, Any]:
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """There is nothing to know."""


def pick(tasks: Sequence[Task], weights: ArrayLike, count: int, rng: np.random.Generator) -> list[Task]:
    """Up to `count` of the tasks, without replacement, in proportion to weights; none with a weight of 0."""
    found = np.asarray(weights, dtype=float)
    many = min(count, int(np.count_nonzero(found > 0)))
    if not many:
        return []
    return [tasks[at] for at in rng.choice(len(tasks), size=many, replace=False, p=found / found.sum()).tolist()]


def by_kind(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Outcomes of each kind, in their order."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.task.kind, []).append(outcome)
    return found


def require(name: str, value: float, least: float, most: float | None = None) -> None:
    """A setting within its bounds, or one line."""
    if value != value or value < least or (most is not None and value > most):
        bounds = f"at least {least:g}" if most is None else f"{least:g} to {most:g}"
        raise ValueError(f"curriculum.{name} is {value:g}; it must be {bounds}")
