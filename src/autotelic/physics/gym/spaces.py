"""Gymnasium's spaces as policies know them: an observation is a row of float32, an action is of [-1, 1] or a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from autotelic.errors import UserError

OBSERVATIONS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def observation_size(space: spaces.Space[Any]) -> int:
    """How many numbers an observation is; what has no fixed number of them is refused."""
    _check_observation(space, "")
    return spaces.flatdim(space)


def observation_layout(space: spaces.Space[Any], name: str = "") -> list[tuple[str, int]]:
    """The parts of an observation in the order they are flattened, with how many numbers each then is. What has no
    parts is one, named "observation"; parts of parts are named a.b in a Dict and a[0] in a Tuple."""
    if isinstance(space, spaces.Dict):
        parts = [(f"{name}.{key}" if name else str(key), part) for key, part in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        parts = [(f"{name or 'observation'}[{index}]", part) for index, part in enumerate(space.spaces)]
    else:
        return [(name or "observation", spaces.flatdim(space))]
    return [found for name, part in parts for found in observation_layout(part, name)]


def _check_observation(space: spaces.Space[Any], where: str) -> None:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            _check_observation(part, f"{where}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space.spaces):
            _check_observation(part, f"{where}[{index}]")
    elif not isinstance(space, OBSERVATIONS):
        raise UserError(
            f"observation{where} is a {type(space).__name__} space, which is no fixed number of numbers: use Box, "
            "Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of them"
        )


def row_of(space: spaces.Space[Any]) -> Callable[[Any], np.ndarray]:
    """What turns an observation of this space into a flat array, in few calls where it is one already."""
    shape, size = space.shape, spaces.flatdim(space)

    def box(observation: Any) -> np.ndarray:
        row = np.asarray(observation)
        # Written into a row as it is, a shorter one would be repeated to fill it.
        if row.shape != shape:
            raise UserError(f"an observation has shape {row.shape}, but its space has {shape}")
        return row if row.ndim == 1 else row.reshape(-1)

    def other(observation: Any) -> np.ndarray:
        row = np.asarray(spaces.flatten(space, observation))
        if row.shape != (size,):
            raise UserError(f"an observation has {row.size} numbers, but its space has {size}")
        return row

    return box if isinstance(space, spaces.Box) else other


class Actions:
    """How the actions of one environment are written: `space` is what a policy acts in, `write` gives the environment's
    own values.

    A dimension of a Box with two finite bounds is [-1, 1] to a policy. One with an infinite bound has no scale to go
    by: it stays as it is, and is cut only where it has a bound.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
            self._box(space)
        elif isinstance(space, spaces.Discrete):
            self.space = spaces.Discrete(int(space.n))
            self.start: np.ndarray | None = np.array([space.start])
        elif isinstance(space, spaces.MultiDiscrete):
            self.space = spaces.MultiDiscrete(space.nvec.reshape(-1))
            self.start = np.asarray(space.start).reshape(-1)
        else:
            kind = type(space).__name__ + (f" of {space.dtype}" if isinstance(space, spaces.Box) else "")
            raise UserError(
                f"actions are a {kind} space: only Box of floats, Discrete and MultiDiscrete can be learned"
            )
        self.shape: tuple[int, ...] = space.shape or ()
        self.size = int(np.prod(self.shape))
        self.dtype = np.dtype(space.dtype)

    def _box(self, space: spaces.Box) -> None:
        self.start = None
        self.low, self.high = (bound.reshape(-1).astype(np.float64) for bound in (space.low, space.high))
        scaled = np.isfinite(self.low) & np.isfinite(self.high)
        with np.errstate(invalid="ignore"):  # infinity less infinity, which is not taken
            self.scale = np.where(scaled, (self.high - self.low) / 2, 1.0)
            self.offset = np.where(scaled, (self.high + self.low) / 2, 0.0)
        self.space = spaces.Box(
            np.where(scaled, -1.0, self.low).astype(np.float32), np.where(scaled, 1.0, self.high).astype(np.float32)
        )

    def write(self, action: np.ndarray, out: np.ndarray) -> None:
        """Actions as `Environment.step` takes them, into rows [count, size] of the environment's own."""
        if self.start is None:
            values = action * self.scale
            values += self.offset
            # Cut after scaling: to the environment's bounds exactly, whatever rounding did.
            np.maximum(values, self.low, out=values)
            np.minimum(values, self.high, out=out)
        else:
            np.add(action.reshape(out.shape), self.start, out=out, casting="unsafe")

    def contract(self) -> dict[str, Any]:
        """What an action means to the environment, as plain data."""
        if self.start is not None:
            return {"meaning": "each number counts from its start", "start": self.start.tolist()}
        meaning = "action * scale + offset, cut to the bounds of the environment"
        return {"meaning": meaning, "scale": self.scale.tolist(), "offset": self.offset.tolist()}
