"""Weighted sampling in O(log n): a Fenwick tree over insertion positions, and draws without replacement from several.

Weights are integers, so a tree that was kept up to date and one that was rebuilt hold exactly the same sums: what
a generator draws depends only on the ordered list of live weights, never on the history that led to it. Floating
sums would drift apart, and a resumed run would sample other tasks than the run that was never stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]

_SMALLEST = 64  # first capacity; a power of two, as all capacities


class Fenwick:
    """Integer weights at positions 0, 1, 2, … with prefix sums. A weight of 0 is a dead position."""

    def __init__(self, weights: ArrayLike = ()) -> None:
        self._build(np.asarray(weights, dtype=np.int64))

    def _build(self, weights: Integers) -> None:
        if weights.ndim != 1 or (weights.size and weights.min() < 0):
            raise ValueError("weights are a flat sequence of integers, none below 0")
        self._length = len(weights)
        capacity = _SMALLEST
        while capacity < self._length:
            capacity *= 2
        self._weights = np.zeros(capacity, dtype=np.int64)
        self._weights[: self._length] = weights
        self._live = int(np.count_nonzero(weights))
        # Node j (from 1) holds the sum of the lowbit(j) weights that end at j; built level by level, in O(n).
        self._tree = np.zeros(capacity + 1, dtype=np.int64)
        self._tree[1:] = self._weights
        span = 1
        while span < capacity:
            self._tree[2 * span :: 2 * span] += self._tree[span : capacity : 2 * span]
            span *= 2

    def __len__(self) -> int:
        """Positions ever given out since the last compaction, dead ones included."""
        return self._length

    @property
    def live(self) -> int:
        """Positions with a weight above 0."""
        return self._live

    @property
    def total(self) -> int:
        return int(self._tree[-1])

    @property
    def weights(self) -> Integers:
        """A read-only view of the weights, by position."""
        view = self._weights[: self._length]
        view.flags.writeable = False
        return view

    def append(self, weights: ArrayLike) -> None:
        """Gives the next positions to `weights`; capacity doubles when it must, so the cost is amortised."""
        added = np.asarray(weights, dtype=np.int64)
        first, self._length = self._length, self._length + len(added)
        while self._length > len(self._weights):
            self._grow()
        self.set(np.arange(first, self._length), added)

    def _grow(self) -> None:
        capacity = len(self._weights)
        self._weights = np.concatenate([self._weights, np.zeros(capacity, dtype=np.int64)])
        # Nodes up to the old capacity keep their spans; of the new ones only the root covers anything yet.
        tree = np.zeros(2 * capacity + 1, dtype=np.int64)
        tree[: capacity + 1] = self._tree
        tree[-1] = self._tree[-1]
        self._tree = tree

    def set(self, positions: ArrayLike, weights: ArrayLike) -> None:
        """Changes the weights at distinct positions, all in one pass over the levels."""
        nodes = np.array(positions, dtype=np.int64)
        after = np.broadcast_to(np.asarray(weights, dtype=np.int64), nodes.shape)
        if not nodes.size:
            return
        if nodes.min() < 0 or nodes.max() >= self._length:
            raise IndexError(f"position outside 0 … {self._length - 1}")
        if after.min() < 0:
            raise ValueError("a weight is below 0")
        before = self._weights[nodes]
        self._weights[nodes] = after
        self._live += int(np.count_nonzero(after)) - int(np.count_nonzero(before))
        change = after - before
        nodes += 1
        while nodes.size:
            np.add.at(self._tree, nodes, change)
            nodes = nodes + (nodes & -nodes)
            inside = nodes < len(self._tree)
            nodes, change = nodes[inside], change[inside]

    def find(self, targets: ArrayLike) -> Integers:
        """For each target t in [0, total): the position whose weight covers it, as if laid end to end."""
        left = np.array(targets, dtype=np.int64)
        if left.size and (left.min() < 0 or left.max() >= self.total):
            raise IndexError(f"target outside 0 … {self.total - 1}")
        positions = np.zeros_like(left)
        span = len(self._weights) // 2
        while span:
            sums = self._tree[positions + span]
            right = sums <= left
            left -= np.where(right, sums, 0)
            positions += np.where(right, span, 0)
            span //= 2
        return positions

    def compact(self) -> Integers:
        """Drops dead positions and keeps the order of the rest, so draws are unchanged; returns the kept positions."""
        kept = np.flatnonzero(self.weights)
        self._build(self._weights[kept])
        return kept


def draw(
    trees: Sequence[Fenwick],
    k: int,
    rng: np.random.Generator,
    recency: int = 1,
    exclude: Iterable[tuple[int, int]] = (),
) -> list[tuple[int, int]]:
    """Up to `k` distinct (tree, position) pairs, drawn one after the other in proportion to weight.

    Each round draws as many as are missing, keeps the first of equals and hides them, which is the same as drawing
    singly without replacement and never needs more than `k` rounds, however uneven the weights are. With
    `recency` r > 1 a draw is the latest of r draws within its tree: the newest share x is hit with 1 - (1 - x)^r.
    `exclude` names pairs that must not be drawn. The trees are as before when this returns or raises.
    """
    hidden: list[tuple[int, Integers, Integers]] = []

    def hide(pairs: Iterable[tuple[int, int]]) -> None:
        grouped: dict[int, list[int]] = {}
        for which, position in pairs:
            grouped.setdefault(which, []).append(position)
        for which, group in grouped.items():
            positions = np.unique(np.array(group, dtype=np.int64))
            hidden.append((which, positions, trees[which].weights[positions].copy()))
            trees[which].set(positions, 0)

    drawn: list[tuple[int, int]] = []
    try:
        hide(exclude)
        while len(drawn) < k:
            sizes = np.array([tree.total for tree in trees], dtype=np.int64)
            ends = np.cumsum(sizes)
            if not len(ends) or ends[-1] == 0:
                break
            fresh = list(dict.fromkeys(_draw_round(trees, sizes, ends, k - len(drawn), rng, recency)))
            drawn += fresh
            if len(drawn) < k:
                hide(fresh)
    finally:
        for which, positions, weights in reversed(hidden):
            trees[which].set(positions, weights)
    return drawn


def _draw_round(
    trees: Sequence[Fenwick], sizes: Integers, ends: Integers, count: int, rng: np.random.Generator, recency: int
) -> Iterable[tuple[int, int]]:
    targets = rng.integers(ends[-1], size=count)
    which = np.searchsorted(ends, targets, side="right")
    targets -= ends[which] - sizes[which]
    if recency > 1:
        again = rng.integers(sizes[which][:, None], size=(count, recency - 1))
        targets = np.maximum(targets, again.max(axis=1))
    positions = np.empty_like(targets)
    for tree in np.unique(which):
        mine = which == tree
        positions[mine] = trees[tree].find(targets[mine])
    return zip(which.tolist(), positions.tolist(), strict=True)
