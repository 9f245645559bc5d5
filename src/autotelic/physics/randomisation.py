"""Domain randomisation: robots that differ from each other and from one episode to the next, so that what is learned
does not hang on the numbers of one model.

A term is drawn in one of three modes. At start-up, once for each environment: what MuJoCo derives constants from, which
is slow to change. At reset, for each episode. At intervals, during an episode, at times which are drawn when it begins.
All of it is a function of the seed: `Randomiser.draw_start` and `draw_episode` say again what was drawn. So is the
noise of every step, which `chance.even` gives of an episode's key and its clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import ceil, inf, isfinite
from typing import Any

import mujoco
import numpy as np

from autotelic.errors import UserError
from autotelic.physics import chance
from autotelic.physics.simulation import Simulation
from autotelic.registry import nearest

_EACH_EPISODE = ("friction", "gains", "gravity", "latency", "push_speed")
FADE = 0.95  # a control step, of the memory of a push: gone after a second

_LINKS, _GAINS = ("body_mass", "body_inertia"), ("actuator_gainprm", "actuator_biasprm")
_PARAMETERS = {  # of the model, that terms are written to
    "mass": _LINKS,
    "torso_mass": _LINKS,
    "centre_of_mass": ("body_ipos",),
    "joint_friction": ("dof_frictionloss",),
    "armature": ("dof_armature",),
    "friction": ("geom_friction",),
    "gains": _GAINS,
    "gravity": ("opt.gravity",),
}


@dataclass(frozen=True)
class Randomisation:
    """Ranges (low, high) of what is drawn, evenly. None: as the preset has it; nothing is drawn where that has none."""

    # At start-up
    mass: tuple[float, float] | None = None  # of every link, times
    torso_mass: tuple[float, float] | None = None  # kg, added to the torso
    centre_of_mass: tuple[float, float] | None = None  # m along each axis, added to the torso's
    joint_friction: tuple[float, float] | None = None  # times
    armature: tuple[float, float] | None = None  # times
    # At reset
    friction: tuple[float, float] | None = None  # between feet and ground
    gains: tuple[float, float] | None = None  # of every actuator, times
    gravity: tuple[float, float] | None = None  # m/s^2
    latency: tuple[int, int] | None = None  # control steps until an action arrives
    # At intervals
    push_speed: tuple[float, float] | None = None  # m/s that the torso gets at once, in any direction
    push_every: tuple[float, float] | None = None  # s from one push to the next
    # At every step: what is seen is wrong by up to this much, by name of the part of the observation
    noise: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.ranges().items():
            if len(value) != 2 or not -inf < value[0] <= value[1] < inf:
                raise UserError(f"{name}={list(value)}: must be [low, high], finite")
            if name not in ("torso_mass", "centre_of_mass") and value[0] < 0:
                raise UserError(f"{name}={list(value)}: must not be below 0")
        for name in ("mass", "armature", "push_every"):
            value = self.ranges().get(name)
            if value is not None and value[0] <= 0:
                raise UserError(f"{name}={list(value)}: must be above 0")
        for name, level in self.noise.items():
            if not 0 <= level < inf:
                raise UserError(f"noise.{name}={level}: must be 0 or more, finite")

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Those that are given."""
        named = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "noise"}
        return {name: value for name, value in named.items() if value is not None}


def _noise(*levels: float) -> dict[str, float]:
    return dict(
        zip(("joint_angles", "joint_velocities", "gravity", "angular_velocity", "velocity"), levels, strict=True)
    )


PRESETS: dict[str, Randomisation] = {
    "off": Randomisation(),
    "mild": Randomisation(
        mass=(0.95, 1.05),
        friction=(0.6, 1.0),
        push_speed=(0.0, 0.3),
        push_every=(5.0, 10.0),
        noise=_noise(0.01, 0.2, 0.01, 0.05, 0.02),
    ),
    "sim-to-real": Randomisation(
        mass=(0.9, 1.1),
        torso_mass=(-1.0, 1.0),
        centre_of_mass=(-0.05, 0.05),
        joint_friction=(0.5, 2.0),
        armature=(1.0, 1.05),
        friction=(0.4, 1.0),
        gains=(0.9, 1.1),
        gravity=(9.7, 9.9),
        latency=(0, 2),
        push_speed=(0.1, 2.0),
        push_every=(5.0, 10.0),
        noise=_noise(0.03, 1.5, 0.05, 0.2, 0.1),
    ),
}


def resolve(preset: str, changes: Randomisation, push: float = 0.0) -> Randomisation:
    """A preset with changes of single terms. `push`: instead of all other pushes, one of this speed every 5 s."""
    if preset not in PRESETS:
        raise UserError(f"randomise={preset}: {nearest(preset, list(PRESETS))}")
    if not (push >= 0 and isfinite(push)):
        raise UserError(f"push={push}: must be 0 or more, finite")
    base = PRESETS[preset]
    given: dict[str, Any] = {**changes.ranges(), "noise": {**base.noise, **changes.noise}}
    settled = replace(base, **given)
    if push:
        settled = replace(settled, push_speed=(push, push), push_every=(5.0, 5.0))
    if settled.push_speed is not None and settled.push_every is None:
        raise UserError(f"push_speed={list(settled.push_speed)}: give push_every too, the seconds between pushes")
    return settled


class Randomiser:
    """Draws a Randomisation for simulations of one robot and writes it to them. What it remembers is in `memory`."""

    def __init__(
        self,
        settings: Randomisation,
        simulation: Simulation,
        *,
        torso: str,
        feet: np.ndarray,
        steps: int,
        joint_friction: float,
    ) -> None:
        """`torso`: the body with the free joint; `feet`: the geoms whose friction counts; `steps`: of the longest
        episode; `joint_friction`: Nm, what a factor of 1 stands for."""
        self.settings, self._simulation, self._feet = settings, simulation, feet
        model, count = simulation.model, simulation.count
        self._torso, self._joint_friction = model.body(torso).id, joint_friction
        self._links = np.flatnonzero(model.body_mass > 0)
        self._check_masses()
        for name in settings.ranges():
            for parameter in _PARAMETERS.get(name, ()):
                simulation.parameter(parameter)
        self._hinges = np.flatnonzero(model.jnt_type[model.dof_jntid] == mujoco.mjtJoint.mjJNT_HINGE)
        slowest = 0 if settings.latency is None else int(settings.latency[1])
        pushes = 0
        if settings.push_speed is not None and settings.push_every is not None:
            pushes = ceil(steps * simulation.dt / settings.push_every[0])
        self.memory = {
            "mass": np.ones(count),  # of the whole, as a multiple of the model's
            "friction": np.full(count, model.geom_friction[feet[0], 0]),
            "latency": np.zeros(count, np.int64),
            "sent": np.zeros((count, slowest + 1, model.nu)),  # the last actions, in turn
            "push_at": np.zeros((count, pushes), np.int64),  # control steps since the episode began
            "pushes": np.zeros((count, pushes, 2)),  # m/s
            "pushed": np.zeros((count, 2)),  # m/s of the last push, fading
        }
        self._all = np.arange(count)
        self._each_episode = not settings.ranges().keys().isdisjoint(_EACH_EPISODE)

    def _check_masses(self) -> None:
        """The other links have what is left of them, which is above 0; the torso may have something taken off too."""
        ranges = self.settings.ranges()
        torso = self._simulation.model.body_mass[self._torso] * ranges.get("mass", (1.0, 1.0))[0]
        taken = ranges.get("torso_mass", (0.0, 0.0))
        if torso + taken[0] <= 0:
            raise UserError(f"torso_mass={list(taken)}: the torso has {torso:.3g} kg, of which something must be left")

    # Draws take as many random numbers whatever is randomised: a change of one term changes no other's.

    def draw_start(self, seed: int, ids: np.ndarray) -> dict[str, np.ndarray]:
        """What these environments get for good, a row each; only what is randomised."""
        links, hinges = len(self._links), len(self._hinges)
        even = chance.even(chance.keys(seed, "startup", ids, np.zeros(len(ids), int)), links + 4 + 2 * hinges)
        mass, torso, centre, friction, armature = np.split(even, np.cumsum([links, 1, 3, hinges]), axis=1)
        drawn = {"mass": mass, "torso_mass": torso[:, 0], "centre_of_mass": centre}
        return self._within(drawn | {"joint_friction": friction, "armature": armature})

    def draw_episode(self, seed: int, ids: np.ndarray, episodes: np.ndarray) -> dict[str, np.ndarray]:
        """What these environments get for these episodes (0 is the first), a row each; only what is randomised."""
        actuators, pushes = self._simulation.model.nu, self.memory["push_at"].shape[1]
        even = chance.even(chance.keys(seed, "randomise", ids, episodes), 3 + actuators + 3 * pushes)
        drawn = {"friction": even[:, 0], "gravity": even[:, 1], "gains": even[:, 3 : 3 + actuators]}
        drawn = self._within(drawn)
        if self.settings.latency is not None:
            low, high = self.settings.latency
            drawn["latency"] = (low + np.floor(even[:, 2] * (high - low + 1))).astype(np.int64)
        if pushes:
            every, speed, turn = np.moveaxis(even[:, 3 + actuators :].reshape(len(ids), pushes, 3), 2, 0)
            timing = self._within({"push_every": every, "push_speed": speed})
            drawn["push_at"] = np.rint(np.cumsum(timing["push_every"], axis=1) / self._simulation.dt).astype(np.int64)
            direction = np.stack([np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)], axis=-1)
            drawn["pushes"] = timing["push_speed"][:, :, None] * direction
        return drawn

    def _within(self, even: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        ranges = self.settings.ranges()
        return {
            name: ranges[name][0] + (ranges[name][1] - ranges[name][0]) * values
            for name, values in even.items()
            if name in ranges
        }

    # Writing

    def start(self, seed: int) -> None:
        """Draws and writes what is drawn once."""
        drawn = self.draw_start(seed, self._all)
        if not drawn:
            return
        model, torso = self._simulation.model, self._torso
        if "mass" in drawn or "torso_mass" in drawn:
            masses = np.repeat(model.body_mass[None], len(self._all), axis=0)
            masses[:, self._links] *= drawn.get("mass", 1.0)
            masses[:, torso] += drawn.get("torso_mass", 0.0)
            times = masses[:, self._links] / model.body_mass[self._links]
            self._simulation.parameter("body_mass")[:] = masses
            inertia = self._simulation.parameter("body_inertia")
            inertia[:, self._links] = model.body_inertia[self._links] * times[:, :, None]
            self.memory["mass"][:] = masses.sum(axis=1) / model.body_mass.sum()
        if "centre_of_mass" in drawn:
            self._simulation.parameter("body_ipos")[:, torso] = model.body_ipos[torso] + drawn["centre_of_mass"]
        if "armature" in drawn:
            armature = model.dof_armature[self._hinges] * drawn["armature"]
            self._simulation.parameter("dof_armature")[:, self._hinges] = armature
        if "joint_friction" in drawn:
            friction = self._joint_friction * drawn["joint_friction"]
            self._simulation.parameter("dof_frictionloss")[:, self._hinges] = friction
        self._simulation.settle()

    def begin(self, seed: int, ids: np.ndarray, episodes: np.ndarray) -> None:
        """Draws and writes what these environments get for these episodes. MuJoCo derives no constants from it."""
        if not self._each_episode:
            return
        drawn, model = self.draw_episode(seed, ids, episodes), self._simulation.model
        if "friction" in drawn:
            self._simulation.parameter("geom_friction")[ids[:, None], self._feet, 0] = drawn["friction"][:, None]
        if "gravity" in drawn:
            self._simulation.parameter("opt.gravity")[ids, 2] = -drawn["gravity"]
        if "gains" in drawn:
            for name in _GAINS:
                self._simulation.parameter(name)[ids] = getattr(model, name) * drawn["gains"][:, :, None]
        for name in ("friction", "latency", "push_at", "pushes"):
            if name in drawn:
                self.memory[name][ids] = drawn[name]
        self.memory["sent"][ids] = 0.0
        self.memory["pushed"][ids] = 0.0

    # During an episode; `clock` [count]: control steps since it began

    def delay(self, action: np.ndarray, clock: np.ndarray) -> np.ndarray:
        """The actions that arrive now; until the first does, none (0)."""
        sent = self.memory["sent"]
        slots = sent.shape[1]
        if slots == 1:
            return action
        at = clock % slots
        sent[self._all, at] = action
        return sent[self._all, (at - self.memory["latency"]) % slots]

    def push(self, clock: np.ndarray) -> None:
        """Pushes those whose time has come."""
        if not self.memory["push_at"].shape[1]:
            return
        due = self.memory["push_at"] == clock[:, None]
        self.memory["pushed"] *= FADE
        if due.any():
            rows = np.flatnonzero(due.any(axis=1))
            # Times are rounded to steps, so that two may come in one.
            sums = (self.memory["pushes"][rows] * due[rows, :, None]).sum(axis=1)
            self._simulation.qvel[rows, :2] += sums
            self.memory["pushed"][rows] = sums
