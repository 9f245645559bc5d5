"""The active tasks of one kind in memory: their counters, two sampling trees, and the choice of what to retire.

The archive's file is the truth; this is a view of it that can always be loaded again. Everything is integer and
ordered by row number, so a loaded view and one kept up to date draw the same tasks from the same generator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from autotelic.play.index import Fenwick, Integers

STRATEGIES = ("uniform", "recent", "learnable")
COLUMNS = ("n", "attempts", "solved", "streak", "touched", "unsound")  # of the archive's tasks table
ROW, ATTEMPTS, SOLVED, STREAK, TOUCHED, UNSOUND = range(len(COLUMNS))

WEIGHT_SCALE = 1 << 20  # resolution of learnable weights; products stay in 64 bits up to 4 million attempts a task
_COMPACT_FROM = 1024  # positions below which dead ones are not worth dropping


@dataclass(frozen=True)
class ArchiveConfig:
    """How the active set is bounded and how references are drawn from it."""

    capacity: int = 16384  # active tasks a kind; more than these are retired, the least learnable first
    reference_strategy: str = "uniform"  # how references are drawn: uniform, recent or learnable
    recency: int = 4  # "recent": each draw is the newest of this many uniform draws
    solved_out: int = 16  # solved attempts in a row after which a task teaches nothing; 0 switches it off
    stale_after: int = 200  # steps without an attempt after which a task is retired; 0 switches it off
    floor: int = 64  # active tasks a kind that solved-out and stale retirement leave, so that batches can be filled

    def __post_init__(self) -> None:
        for name, least in {"capacity": 1, "recency": 1, "solved_out": 0, "stale_after": 0, "floor": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"archive.{name} is {getattr(self, name)}; it must be at least {least}")
        if self.reference_strategy not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise ValueError(f"archive.reference_strategy is {self.reference_strategy!r}; known are {known}")


def learnable_weights(attempts: ArrayLike, solved: ArrayLike) -> Integers:
    """Posterior mean of p(1 - p) under Beta(1, 1), ab / ((a + b)(a + b + 1)), in units of 1 / WEIGHT_SCALE.

    Never 0: a task that looks solved out or hopeless keeps a chance until it is retired.
    """
    a = np.asarray(solved, dtype=np.int64) + 1
    b = np.asarray(attempts, dtype=np.int64) + 2 - a
    return np.maximum(a * b * WEIGHT_SCALE // ((a + b) * (a + b + 1)), 1)


class ActiveSet:
    """The active tasks of one kind, in order of insertion."""

    def __init__(self, table: Integers) -> None:
        """`table` has one row a task, in ascending order of row number, with the columns COLUMNS."""
        self._table = np.ascontiguousarray(table, dtype=np.int64).reshape(-1, len(COLUMNS))
        self._length = len(self._table)
        self.uniform = Fenwick(np.ones(self._length, dtype=np.int64))
        self.learnable = Fenwick(learnable_weights(self._table[:, ATTEMPTS], self._table[:, SOLVED]))

    def __len__(self) -> int:
        return self.uniform.live

    def tree(self, strategy: str) -> Fenwick:
        return self.learnable if strategy == "learnable" else self.uniform

    def table(self) -> Integers:
        """A copy of the live rows, oldest first."""
        return self._table[: self._length][self.uniform.weights > 0]

    def row_at(self, position: int) -> int:
        return int(self._table[position, ROW])

    def newest(self, count: int) -> list[int]:
        """Row numbers of the newest live tasks, newest first."""
        ranks = np.arange(len(self) - 1, max(len(self) - 1 - count, -1), -1)
        return self._table[self.uniform.find(ranks), ROW].tolist()

    def positions(self, rows: ArrayLike) -> Integers:
        """Positions of those of the rows that are live here, in the order of the rows."""
        wanted = np.asarray(rows, dtype=np.int64)
        if not self._length:
            return np.empty(0, dtype=np.int64)
        found = np.searchsorted(self._table[: self._length, ROW], wanted)
        found = np.minimum(found, self._length - 1)
        here = (self._table[found, ROW] == wanted) & (self.uniform.weights[found] > 0)
        return found[here]

    def append(self, table: Integers) -> None:
        """Takes in new tasks; their row numbers are above all that came before."""
        added = np.asarray(table, dtype=np.int64).reshape(-1, len(COLUMNS))
        first, self._length = self._length, self._length + len(added)
        if self._length > len(self._table):
            grown = np.zeros((max(64, 2 * self._length), len(COLUMNS)), dtype=np.int64)
            grown[:first] = self._table[:first]
            self._table = grown
        self._table[first : self._length] = added
        self.uniform.append(np.ones(len(added), dtype=np.int64))
        self.learnable.append(learnable_weights(added[:, ATTEMPTS], added[:, SOLVED]))

    def update(self, table: Integers) -> None:
        """Takes over new counters of live tasks."""
        changed = np.asarray(table, dtype=np.int64).reshape(-1, len(COLUMNS))
        positions = self.positions(changed[:, ROW])
        self._table[positions] = changed
        self.learnable.set(positions, learnable_weights(changed[:, ATTEMPTS], changed[:, SOLVED]))

    def remove(self, rows: ArrayLike) -> None:
        positions = self.positions(rows)
        self.uniform.set(positions, 0)
        self.learnable.set(positions, 0)
        if self._length > _COMPACT_FROM and len(self) < self._length // 2:
            kept = self.uniform.compact()
            self.learnable.compact()
            self._table = self._table[kept]
            self._length = len(kept)

    def to_retire(self, step: int, config: ArchiveConfig) -> dict[str, list[int]]:
        """Row numbers to retire after `step`, by reason.

        Tasks found non-deterministic always go. Solved-out and stale ones go, oldest first, as long as `floor`
        stay. What is then still over capacity goes by learnability, the least first and the oldest of equals, but
        never from the newest half of the capacity: a bound that keeps the oldest would freeze the curriculum.
        """
        table = self.table()
        chosen: dict[str, list[int]] = {}

        def take(why: str, picked: Integers) -> None:
            nonlocal table
            if len(picked):
                chosen[why] = np.sort(table[picked, ROW]).tolist()
                table = np.delete(table, picked, axis=0)

        take("nondeterministic", np.flatnonzero(table[:, UNSOUND]))
        if config.solved_out:
            solved_out = np.flatnonzero(table[:, STREAK] >= config.solved_out)
            take("solved-out", solved_out[: max(len(table) - config.floor, 0)])
        if config.stale_after:
            stale = np.flatnonzero(table[:, TOUCHED] < step - config.stale_after)
            take("stale", stale[: max(len(table) - config.floor, 0)])
        excess = len(table) - config.capacity
        if excess > 0:
            older = table[: len(table) - (config.capacity + 1) // 2]
            weights = learnable_weights(older[:, ATTEMPTS], older[:, SOLVED])
            take("capacity", np.lexsort((older[:, ROW], weights))[:excess])
        return chosen
