"""What humanoids earn: named terms, functions of a snapshot, with scales that a preset sets and a user may change.

The reward is the sum of terms, each times its scale, and of `bound`: what cutting the sum took away or gave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from autotelic.errors import UserError
from autotelic.physics.humanoid.observations import LIFT, STANCE, Snapshot
from autotelic.physics.humanoid.robot import HEIGHT, RANGES, STANDING
from autotelic.physics.simulated import squares
from autotelic.registry import nearest

Term = Callable[[Snapshot], np.ndarray]  # [n], not scaled

TERMS: dict[str, Term] = {}
EVENTS: set[str] = set()  # terms that are amounts of a moment; all others are rates


def term(function: Term) -> Term:
    """Makes a function a term under its own name."""
    TERMS[function.__name__] = function
    return function


def event(function: Term) -> Term:
    """The same, of something that happens at once: what it earns does not depend on how long a step is."""
    EVENTS.add(function.__name__)
    return term(function)


# Where it goes


@term
def alive(now: Snapshot) -> np.ndarray:
    return np.ones(len(now.height))


@term
def speed(now: Snapshot) -> np.ndarray:
    """1 at the velocity that is wanted, towards the goal wherever it faces; e^-1 at 0.35 m/s from it."""
    missed = np.abs(now.velocity - now.speed * now.error)
    return np.exp(-8.0 * missed * missed)


@term
def progress(now: Snapshot) -> np.ndarray:
    """Speed towards the goal up to what is wanted: `speed` alone is flat where a robot that stands begins to learn."""
    return np.clip(np.real(now.velocity * now.error.conj()), -1.0, now.speed)


@event
def distance(now: Snapshot) -> np.ndarray:
    """Metres towards the goal."""
    return now.moved


@term
def heading(now: Snapshot) -> np.ndarray:
    """1 when it faces the goal, e^-1 at half a radian from it."""
    return np.exp(8.0 * (np.real(now.error) - 1.0))  # 2 (1 - cos x) is x^2 near 0


@term
def heading_error(now: Snapshot) -> np.ndarray:
    """Radians between where it faces and the goal."""
    return np.abs(np.angle(now.error))


# How it holds itself


@term
def upright(now: Snapshot) -> np.ndarray:
    return squares(now.gravity[:, :2])


@term
def height(now: Snapshot) -> np.ndarray:
    return np.square(now.height - HEIGHT)


@term
def vertical(now: Snapshot) -> np.ndarray:
    return np.square(now.climb)


@term
def sway(now: Snapshot) -> np.ndarray:
    return squares(now.rates[:, :2])


_YAW_AND_ROLL = np.array([0, 1, 6, 7])


@term
def hips(now: Snapshot) -> np.ndarray:
    """Legs turned or spread."""
    return squares(now.angles[:, _YAW_AND_ROLL])


@term
def posture(now: Snapshot) -> np.ndarray:
    """The pose, while it is to stand."""
    return squares(now.angles) * now.still


# Free of penalty: nine tenths of each joint's range.
_CENTRE, _FREE = RANGES.mean(axis=1) - STANDING, 0.45 * (RANGES[:, 1] - RANGES[:, 0])


@term
def joint_limits(now: Snapshot) -> np.ndarray:
    return np.maximum(np.abs(now.angles - _CENTRE) - _FREE, 0.0).sum(axis=1)


# How it steps


@term
def gait(now: Snapshot) -> np.ndarray:
    """The share of feet that are up or down as the clock says; both down when it is to stand."""
    return (now.contact == STANCE[now.gait]).mean(axis=1)


@term
def lift(now: Snapshot) -> np.ndarray:
    """1 when both soles are as high as the clock says, e^-1 at 7 cm from it."""
    missed = now.soles[:, :, 2] - LIFT[now.gait]
    return np.exp(-200.0 * squares(missed))


@term
def slip(now: Snapshot) -> np.ndarray:
    """Squared speed over the ground of feet that stand on it."""
    along = now.sole_velocities[:, :, :2]
    return np.einsum("nfk,nfk,nf->n", along, along, now.contact)


@term
def flight(now: Snapshot) -> np.ndarray:
    """Neither foot on the ground."""
    return (~now.contact.any(axis=1)).astype(float)


@event
def touchdowns(now: Snapshot) -> np.ndarray:
    """Feet that come down: a step has one, a foot that trembles on the ground many."""
    return now.touchdown.sum(axis=1, dtype=float)


@event
def air_time(now: Snapshot) -> np.ndarray:
    """At touchdown: how much longer than a quarter of a second the foot was up. For policies that see no clock."""
    return ((np.minimum(now.air, 0.5) - 0.25) * now.touchdown).sum(axis=1) * ~now.still


# What it costs


@term
def action_rate(now: Snapshot) -> np.ndarray:
    return squares(now.action - now.action_before)


@term
def torque(now: Snapshot) -> np.ndarray:
    """Squared, each in units of 100 Nm."""
    return squares(now.torques) * 1e-4


@term
def energy(now: Snapshot) -> np.ndarray:
    """kW, without recovery."""
    return np.abs(now.torques * now.speeds).sum(axis=1) * 1e-3


@term
def clearance(now: Snapshot) -> np.ndarray:
    """Metres that are missing to 0.7 m before what stands in the way."""
    return np.maximum(0.7 - now.rays.min(axis=1, initial=0.7), 0.0)


@term
def head(now: Snapshot) -> np.ndarray:
    """Whether the head touches something."""
    return (now.touch[:, 3] > 0.0).astype(float)


@event
def fall(now: Snapshot) -> np.ndarray:
    return now.fallen.astype(float)


@dataclass(frozen=True)
class Preset:
    scales: Mapping[str, float]
    a_second: bool  # rates are given a second (so times the time step), not a step
    bound: float  # of one step's sum without `fall`, to both sides: one bad simulation must not outweigh all others


PRESETS: dict[str, Preset] = {
    "walk": Preset(
        {
            "alive": 1.0,
            "speed": 3.0,
            "progress": 2.0,
            "heading": 0.5,
            "gait": 4.0,
            "lift": 1.0,
            "upright": -2.0,
            "height": -20.0,
            "vertical": -1.0,
            "sway": -0.05,
            "hips": -1.0,
            "posture": -0.5,
            "joint_limits": -2.0,
            "slip": -0.5,
            "flight": -4.0,
            "touchdowns": -0.2,
            "action_rate": -0.05,
            "torque": -0.05,
            "energy": -0.2,
            "fall": -3.0,
        },
        a_second=True,
        bound=0.3,
    ),
    # The definition of the textbooks. At 1 m/s `distance` is 0.17 a step, a sixth of being alive; and nothing is too
    # fast: what learns from it shuffles first, then runs.
    "textbook": Preset(
        {"distance": 10.0, "alive": 1.0, "torque": -0.01, "heading_error": -0.1, "head": -1.0, "fall": -10.0},
        a_second=False,
        bound=5.0,
    ),
}

# Instead of terms that ask for a phase which a policy without a clock cannot know. A step must pay: `air_time` gives at
# most 0.075 for one, less than `touchdowns` would take; against feet that tremble it is enough, short swings cost.
CLOCKLESS = {"gait": 0.0, "lift": 0.0, "touchdowns": 0.0, "air_time": 0.3}


def check(changes: Mapping[str, float]) -> None:
    for name in changes:
        if name not in TERMS:
            raise UserError(f"reward_scales: no term named '{name}': {nearest(name, list(TERMS))}")
        if not math.isfinite(changes[name]):
            raise UserError(f"reward_scales: {name} is {changes[name]}: it must be a number")


class Reward:
    """A preset with changes of single scales; 0 switches a term off."""

    def __init__(self, preset: Preset, changes: Mapping[str, float], dt: float) -> None:
        check(changes)
        scales = {name: scale for name, scale in {**preset.scales, **changes}.items() if scale}
        # `fall` is last: the bound is on what comes before it.
        self.scales = dict(sorted(scales.items(), key=lambda item: item[0] == "fall"))
        self._bound, self._bounded = preset.bound, len(self.scales) - ("fall" in self.scales)
        self._terms, self._names = [TERMS[name] for name in self.scales], [*self.scales, "bound"]
        rate = dt if preset.a_second else 1.0
        factors = [scale * (1.0 if name in EVENTS else rate) for name, scale in self.scales.items()]
        self._factors = np.array(factors).reshape(-1, 1)

    def __call__(self, now: Snapshot) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The reward [n], and the terms [n] as they are in it."""
        terms = np.empty((len(self._names), len(now.height)))
        for row, function in zip(terms, self._terms, strict=False):
            row[:] = function(now)
        terms[:-1] *= self._factors
        total = terms[: self._bounded].sum(axis=0)
        np.subtract(np.clip(total, -self._bound, self._bound), total, out=terms[-1])
        return terms.sum(axis=0), dict(zip(self._names, terms, strict=True))
