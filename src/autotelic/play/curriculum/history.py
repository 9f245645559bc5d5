"""What a curriculum remembers of tasks that were attempted, and the scale that makes their features comparable."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotelic.play.curriculum.base import Outcome

Floats = NDArray[np.float64]

_KNOTS = 64  # values a scale keeps of a feature: more cannot be told apart


@dataclass(frozen=True)
class Seen:
    """One task in one step: what it looks like, and what became of the attempts at it."""

    id: str
    features: Mapping[str, float]
    solved: int
    attempts: int
    progress: float

    @property
    def rate(self) -> float:
        return self.solved / self.attempts


class History:
    """The newest outcomes of each kind, at most `window`: what is older says little of what can be solved now."""

    def __init__(self, window: int) -> None:
        self.window = window
        self._kinds: dict[str, deque[Seen]] = {}

    def add(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            task = outcome.task
            seen = Seen(task.id, dict(task.features), outcome.solved, outcome.attempts, outcome.progress)
            self._kinds.setdefault(task.kind, deque(maxlen=self.window)).append(seen)

    def of(self, kind: str) -> Sequence[Seen]:
        """Oldest first."""
        return list(self._kinds.get(kind, ()))

    def kinds(self) -> list[str]:
        return list(self._kinds)

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        return {kind: [dict(vars(seen)) for seen in kept] for kind, kept in self._kinds.items()}

    def load(self, state: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._kinds = {kind: deque((Seen(**seen) for seen in kept), self.window) for kind, kept in state.items()}

    def scale(self, kind: str, only: Sequence[str] = ()) -> Scale:
        """The scale that what is remembered of a kind makes."""
        return Scale.of([seen.features for seen in self._kinds.get(kind, ())], only)


class Scale:
    """Features as coordinates from 0 to 1: where a value lies among the distinct values that have been seen.

    Worlds count in units of their own, and one monstrous task would squeeze all others together on a scale from the
    least to the greatest. Ranks of distinct values do not care. A missing feature is 0; one that never varied is no
    axis at all.
    """

    def __init__(self, values: Mapping[str, Sequence[float] | Floats]) -> None:
        """`values` are at least two of each feature, rising."""
        self.values: dict[str, Floats] = {name: np.asarray(found, dtype=float) for name, found in values.items()}
        self.names = list(self.values)

    @classmethod
    def of(cls, seen: Sequence[Mapping[str, float]], only: Sequence[str] = ()) -> Scale:
        """`only` names the features to use; all if it is empty."""
        values = {}
        for name in sorted({name for features in seen for name in features if not only or name in only}):
            distinct = np.unique([features.get(name, 0.0) for features in seen])
            if len(distinct) > _KNOTS:
                distinct = distinct[np.linspace(0, len(distinct) - 1, _KNOTS).round().astype(int)]
            if len(distinct) > 1:
                values[name] = distinct
        return cls(values)

    def dump(self) -> dict[str, list[float]]:
        return {name: found.tolist() for name, found in self.values.items()}

    def __len__(self) -> int:
        return len(self.names)

    def place(self, tasks: Sequence[Mapping[str, float]]) -> Floats:
        """One row of coordinates a task; what lies beyond all that was seen is at the edge."""
        table = np.zeros((len(tasks), len(self)))
        for at, (name, distinct) in enumerate(self.values.items()):
            ranks = np.linspace(0.0, 1.0, len(distinct))
            table[:, at] = np.interp([features.get(name, 0.0) for features in tasks], distinct, ranks)
        return table

    def features(self, points: Floats) -> list[dict[str, float]]:
        """The features at some coordinates, one row a task, in the world's units."""
        columns = [
            np.interp(points[:, at], np.linspace(0.0, 1.0, len(distinct)), distinct).tolist()
            for at, distinct in enumerate(self.values.values())
        ]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]


def hardness(place: Floats, solved: float, attempts: float, progress: float | None = None) -> float:
    """How hard a task is by all that is known of it, 0 to 1: half how it looks, half what attempts at it said.

    Looks are the mean of its coordinates; what was said is the share that fails, (failed + 1)/(attempts + 2), so that
    few attempts say little, averaged with how far attempts stayed from the end. No features, no looks: then the other
    half is all.
    """
    said = (attempts - solved + 1) / (attempts + 2)
    if progress is not None:
        said = (said + 1 - progress) / 2
    return said if not len(place) else (float(np.mean(place)) + said) / 2
