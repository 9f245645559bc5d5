"""Environments: batched reset and step. Arrays are [count, …], a row an environment.

Episodes follow each other without a gap. Where one ends in a step, the observation that step returns is already the
first of the next episode; the last one of the old is kept in `final_obs`, so that a value can be asked of it. Ending is
of two kinds which a learner must tell apart: `terminated` (nothing could have followed) and `truncated` (cut: by the
time limit, or because a simulation broke).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from autotelic.errors import UserError

# "policy": float32 [count, size], what the policy acts from; "critic": what only the critic may see, where it differs.
Observation = dict[str, np.ndarray]


@dataclass(frozen=True)
class Step:
    """What followed an action. Arrays are the caller's to keep: the next step writes into none of them."""

    obs: Observation
    reward: np.ndarray  # float32 [count]
    terminated: np.ndarray  # bool [count]
    truncated: np.ndarray  # bool [count]; never where terminated
    ended: np.ndarray  # int [k]: the environments whose episode ended, in order
    final_obs: Observation  # [k, …]: the last observation of each of those episodes
    terms: Mapping[str, np.ndarray] = field(default_factory=dict)  # float [count]: the named parts of the reward
    # float [k]: what else is known of the episodes that ended; NaN where it is not. "success" is 1 or 0, where a task
    # knows of any.
    episodes: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class EnvironmentConfig:
    """What every environment has."""

    count: int = 256  # environments side by side
    threads: int = 0  # for the simulation; 0: one a processor

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"count={self.count}: must be at least 1")
        if self.threads < 0:
            raise UserError(f"threads={self.threads}: must be 0 (one a processor) or more")


class Environment(ABC):
    """Many environments of one task. Everything is a function of the seed and the actions."""

    Config: ClassVar[type[EnvironmentConfig]] = EnvironmentConfig
    exact: ClassVar[bool] = True  # whether `state` holds all that decides what follows

    config: EnvironmentConfig
    name: str  # the task's
    count: int
    dt: float  # seconds from one action to the next
    limit: int | None  # steps after which an episode is cut
    sizes: dict[str, int]  # of each observation
    action_space: spaces.Space[Any]  # of one: Box of [-1, 1] where bounds are finite, Discrete or MultiDiscrete

    @abstractmethod
    def reset(self, seed: int) -> Observation:
        """All environments at the start of a first episode."""

    @abstractmethod
    def step(self, action: np.ndarray) -> Step:
        """One action each: float [count, size] for a Box (what is out of its bounds is cut there), int [count] for
        Discrete, int [count, parts] for MultiDiscrete."""

    def check_action(self, action: np.ndarray) -> None:
        """Refuses what `step` does not take, before anything moves."""
        wanted = (self.count, *(self.action_space.shape or ()))
        if action.shape != wanted:  # numpy would spread one row over all environments
            raise ValueError(f"{self.name}: actions are {list(wanted)}, not {list(action.shape)}")
        # The environment would be blamed for a NaN: MuJoCo takes it for a simulation that broke, others earn it.
        if not np.isfinite(action).all():
            row = int(np.argwhere(~np.isfinite(action))[0, 0])
            raise UserError(f"{self.name}, environment {row}: the policy gave an action that is not finite")

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that decides what follows, as plain data and arrays."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Any]) -> Observation:
        """Goes on from a `state`; returns the observation that it was left with."""

    def stagger(self, rng: np.random.Generator) -> bool:
        """Makes the first episodes end at different times, as if they had begun before: environments that are all reset
        together would give a learner the same part of an episode again and again. Whether that was done."""
        return False

    def mirror(self) -> Mapping[str, tuple[np.ndarray, np.ndarray]] | None:
        """What left and right mean: for "action" and each observation, the order and the signs that make the mirror
        image of a vector, `vector[order] * signs`. None where the task has no such symmetry."""
        return None

    @property
    def broken(self) -> int:
        """Simulations that became NaN or flew apart, and were reset, since the beginning."""
        return 0

    def frame(self, index: int, width: int, height: int) -> np.ndarray:
        """A picture of one environment as it is: uint8 [height, width, 3]."""
        raise UserError(f"{self.name} cannot be looked at: it has no pictures")

    def contract(self) -> dict[str, Any]:
        """What someone needs who runs an exported policy elsewhere: names and order of observations, meaning of
        actions, time step."""
        return {"environment": self.name, "dt": self.dt, "observations": dict(self.sizes)}

    def model_xml(self) -> str | None:
        """The simulated model as MJCF, to run an exported policy in plain MuJoCo; None where there is none to give."""
        return None

    def close(self) -> None:  # noqa: B027 - not every environment holds something
        """Lets go of processes and windows."""

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
