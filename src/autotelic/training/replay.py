"""Transitions kept for learners that learn from old ones too: a ring that forgets the oldest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autotelic.errors import UserError

Transitions = dict[str, np.ndarray]


class Replay:
    """Steps of `count` environments side by side, in order: arrays are [steps, count, …].

    `example` is one step as `add` takes it: arrays [count, …] of any names. One must be `ended` (bool): whether an
    episode ended with that transition, for whatever reason. Memory for `capacity` transitions is taken at once.
    """

    def __init__(self, capacity: int, example: Mapping[str, np.ndarray]) -> None:
        if "ended" not in example or "mask" in example:
            raise ValueError(f"transitions need 'ended', and 'mask' is not theirs to use: {sorted(example)}")
        self.count = len(example["ended"])
        self.steps = capacity // self.count
        if self.steps < 1:
            raise UserError(f"a replay of {capacity} transitions is too small for {self.count} environments")
        self._data = {name: np.zeros((self.steps, *values.shape), values.dtype) for name, values in example.items()}
        self._since = np.zeros((self.steps, self.count), np.int64)  # steps of the episode so far, this one included
        self._next = 0  # the row that is written next: once the ring is full, the oldest
        self._filled = 0

    def __len__(self) -> int:
        return self._filled * self.count

    def add(self, step: Mapping[str, np.ndarray]) -> None:
        """One step of all environments."""
        at, before = self._next, self._next - 1  # -1 is the last row, as it should be
        for name, values in self._data.items():
            values[at] = step[name]
        # What was added first has nothing before it: there `_since` is still 0.
        self._since[at] = np.where(self._data["ended"][before], 0, self._since[before]) + 1 if self._filled else 1
        self._next = (at + 1) % self.steps
        self._filled = min(self._filled + 1, self.steps)

    def sample(self, n: int, rng: np.random.Generator) -> Transitions:
        """[n, …]: any transition is as likely as any other, each time anew."""
        self._require(1)
        rows, environments = rng.integers(self._filled, size=n), rng.integers(self.count, size=n)
        return {name: values[rows, environments] for name, values in self._data.items()}

    def sequences(self, n: int, length: int, rng: np.random.Generator, *, across: bool = False) -> Transitions:
        """[n, length, …]: transitions that followed each other in one environment, each such sequence as likely.

        They are of one episode, which may end with the last of them. With `across` they may go on with the episodes
        after it: `mask` (bool [n, length]) is then True up to where the first one ended, that step included.
        """
        self._require(length)
        ages, environments = self._ends(n, length, rng, across)
        oldest = self._next if self._filled == self.steps else 0
        # Counted from the oldest, so that none goes from the newest on to the oldest.
        rows = (oldest + ages[:, None] + np.arange(1 - length, 1)) % self.steps
        found = {name: values[rows, environments[:, None]] for name, values in self._data.items()}
        if across:
            before = np.cumsum(found["ended"], axis=1) - found["ended"]  # ends before each step
            found["mask"] = before == 0
        return found

    def _ends(self, n: int, length: int, rng: np.random.Generator, across: bool) -> tuple[np.ndarray, np.ndarray]:
        """Where sequences end: steps since the oldest, and environments."""
        if across:
            return rng.integers(length - 1, self._filled, size=n), rng.integers(self.count, size=n)
        oldest = self._next if self._filled == self.steps else 0
        found = np.empty((0, 2), np.int64)
        while len(found) < n:
            tried = np.stack([rng.integers(length - 1, self._filled, n), rng.integers(self.count, size=n)], axis=1)
            good = tried[self._since[(oldest + tried[:, 0]) % self.steps, tried[:, 1]] >= length]
            if not len(good):
                return self._rare_ends(n, length, rng, oldest)
            found = np.concatenate([found, good])
        return found[:n, 0], found[:n, 1]

    def _rare_ends(self, n: int, length: int, rng: np.random.Generator, oldest: int) -> tuple[np.ndarray, np.ndarray]:
        """The same where luck finds none: all of them are looked for."""
        in_order = np.roll(self._since, -oldest, axis=0)[: self._filled]
        ages, environments = np.nonzero(in_order[length - 1 :] >= length)
        if not len(ages):
            raise UserError(
                f"no episode in the replay has {length} steps: ask for shorter sequences, or across episodes"
            )
        chosen = rng.integers(len(ages), size=n)
        return ages[chosen] + length - 1, environments[chosen]

    def _require(self, length: int) -> None:
        if self._filled < length:
            raise UserError(f"the replay holds {self._filled} steps of each environment, {length} are needed")

    def state(self) -> dict[str, Any]:
        kept = slice(self._filled)
        return {
            "data": {name: values[kept].copy() for name, values in self._data.items()},
            "since": self._since[kept].copy(),
            "next": self._next,
            "steps": self.steps,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        filled = len(state["since"])
        shapes = {name: values.shape[1:] for name, values in state["data"].items()}
        if state["steps"] != self.steps or shapes != {name: values.shape[1:] for name, values in self._data.items()}:
            raise UserError(
                "the replay in the checkpoint has another size or other transitions: keep both as they were"
            )
        for name, values in state["data"].items():
            self._data[name][:filled] = values
        self._since[:filled] = state["since"]
        self._next, self._filled = int(state["next"]), filled
