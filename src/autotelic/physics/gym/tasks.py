"""The ten MuJoCo tasks of Gymnasium (v5, as their constructors' defaults make them), for a whole batch at once.

Constants have the names Gymnasium's constructors give them. Fields of the simulation are one substep behind its state,
in Gymnasium as here; where a task looks at a field and where at the state is part of the task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import ClassVar

import numpy as np

from autotelic.physics import chance
from autotelic.physics.simulated import ALL, Judgement, Rows, squares
from autotelic.physics.simulation import Simulation

Bounds = tuple[float, float]
SEEN: Bounds = (-10.0, 10.0)  # where an observation's velocities and forces are cut


class Task(ABC):
    """What is drawn, seen and earned. Live arrays are [count, …] and belong to the simulation."""

    xml_file: ClassVar[str]  # in Gymnasium's assets
    frame_skip: ClassVar[int]
    limit: ClassVar[int] = 1000
    forces: ClassVar[bool] = False  # whether it looks at cfrc_ext
    reset_noise_scale: ClassVar[float]
    gaussian_start: ClassVar[bool] = False  # whether the noise of the first velocities is normal; else it is uniform

    def __init__(self, simulation: Simulation, memory: dict[str, np.ndarray]) -> None:
        """`memory` is the environment's: what a task needs of the step before, it keeps there."""
        self.simulation, self.memory, self.dt = simulation, memory, simulation.dt
        self.qpos, self.qvel, self.ctrl = simulation.qpos, simulation.qvel, simulation.ctrl
        self.nq, self.nv = self.qpos.shape[1], self.qvel.shape[1]
        # A row of MuJoCo's state begins with the time, qpos and qvel: both in one view.
        self.state = simulation.batch.state[:, 1 : 1 + self.nq + self.nv]

    def start(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first qpos and qvel of an episode for each key."""
        scale = self.reset_noise_scale
        qpos = self.simulation.model.qpos0 + chance.between(keys, self.nq, -scale, scale)
        if self.gaussian_start:
            return qpos, scale * chance.normal(keys, self.nv, clock=1)
        return qpos, chance.between(keys, self.nv, -scale, scale, clock=1)

    def remember(self, rows: Rows) -> None:  # noqa: B027 - not every task looks back
        """After a start was computed: what the next step is compared with."""

    @abstractmethod
    def layout(self) -> list[tuple[str, int]]:
        """The parts of an observation, in order, with their sizes; named after MuJoCo's fields."""

    @abstractmethod
    def observe(self, rows: Rows, out: np.ndarray) -> None:
        """Writes what is seen of these environments into `out`, of any float type."""

    @abstractmethod
    def judge(self) -> Judgement:
        """What the last step earned, for the controls that are still in the simulation."""

    def judgement(self, terms: dict[str, np.ndarray], terminated: np.ndarray | None = None) -> Judgement:
        """The reward is the sum of its terms. Without `terminated`, the task goes on until its limit."""
        if terminated is None:
            terminated = np.zeros(len(self.qpos), bool)
        return Judgement(reduce(np.add, terms.values()), terminated, terms)


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(squares(vectors))


def _drawn_until(
    keys: np.ndarray, low: Sequence[float], high: Sequence[float], right: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Places [n, 2] in a rectangle, each drawn again until it is right."""
    places, missing, clock = np.empty((len(keys), 2)), np.arange(len(keys)), 2
    while len(missing):
        places[missing] = low + np.subtract(high, low) * chance.even(keys[missing], 2, clock)
        missing, clock = missing[~right(places[missing])], clock + 1
    return places


# Those that run


class Runner(Task):
    """Rewarded for speed along x, less what its motors take. It does not see where it is."""

    forward_reward_weight: ClassVar[float] = 1.0
    ctrl_cost_weight: ClassVar[float]
    hidden: ClassVar[int] = 1  # the first coordinates, which are left out of the observation

    def __init__(self, simulation: Simulation, memory: dict[str, np.ndarray]) -> None:
        super().__init__(simulation, memory)
        memory["x"] = np.zeros(simulation.count)

    def x(self, rows: Rows) -> np.ndarray:
        """How far it has come."""
        return self.qpos[rows, 0]

    def remember(self, rows: Rows) -> None:
        self.memory["x"][rows] = self.x(rows)

    def layout(self) -> list[tuple[str, int]]:
        return [(f"qpos[{self.hidden}:]", self.nq - self.hidden), ("qvel", self.nv)]

    def observe(self, rows: Rows, out: np.ndarray) -> None:
        out[:] = self.state[rows, self.hidden :]

    def terms(self) -> dict[str, np.ndarray]:
        x, before = self.x(ALL), self.memory["x"]
        speed = (x - before) / self.dt
        before[:] = x
        return {"forward": self.forward_reward_weight * speed, "ctrl": -self.ctrl_cost_weight * squares(self.ctrl)}

    def judge(self) -> Judgement:
        return self.judgement(self.terms())


class HalfCheetah(Runner):
    xml_file, frame_skip = "half_cheetah.xml", 5
    ctrl_cost_weight, reset_noise_scale, gaussian_start = 0.1, 0.1, True


class Swimmer(Runner):
    xml_file, frame_skip, hidden = "swimmer.xml", 4, 2
    ctrl_cost_weight, reset_noise_scale = 1e-4, 0.1


class Walker(Runner):
    """A runner whose episode ends when it is not healthy: when a coordinate leaves its range."""

    healthy_reward: ClassVar[float]
    healthy_z_range: ClassVar[Bounds]

    def __init__(self, simulation: Simulation, memory: dict[str, np.ndarray]) -> None:
        super().__init__(simulation, memory)
        first, ranges = self.ranges()
        self._watched = self.state[:, first : first + len(ranges)]
        self._low, self._high = np.array(ranges).T

    def ranges(self) -> tuple[int, list[Bounds]]:
        """The open ranges that successive coordinates must stay in, from which coordinate on."""
        return 2, [self.healthy_z_range]

    def judge(self) -> Judgement:
        terms = self.terms()
        healthy = ((self._low < self._watched) & (self._watched < self._high)).all(axis=1)
        return self.judgement(terms | {"survive": self.healthy_reward * healthy}, ~healthy)


class Hopper(Walker):
    xml_file, frame_skip = "hopper.xml", 4
    ctrl_cost_weight, reset_noise_scale, healthy_reward = 1e-3, 5e-3, 1.0
    healthy_state_range: ClassVar[Bounds] = (-100.0, 100.0)  # of all but the first two coordinates
    healthy_z_range = (0.7, float("inf"))
    healthy_angle_range: ClassVar[Bounds] = (-0.2, 0.2)

    def ranges(self) -> tuple[int, list[Bounds]]:
        others = self.nq + self.nv - 3
        return 1, [self.healthy_z_range, self.healthy_angle_range, *[self.healthy_state_range] * others]

    def observe(self, rows: Rows, out: np.ndarray) -> None:
        positions = self.nq - self.hidden
        out[:, :positions] = self.qpos[rows, self.hidden :]
        np.clip(self.qvel[rows], *SEEN, out=out[:, positions:])


class Walker2d(Hopper):
    xml_file = "walker2d_v5.xml"
    healthy_z_range, healthy_angle_range = (0.8, 2.0), (-1.0, 1.0)

    def ranges(self) -> tuple[int, list[Bounds]]:
        return 1, [self.healthy_z_range, self.healthy_angle_range]


class Ant(Walker):
    xml_file, frame_skip, hidden, forces = "ant.xml", 5, 2, True
    ctrl_cost_weight, reset_noise_scale, gaussian_start, healthy_reward = 0.5, 0.1, True, 1.0
    contact_cost_weight: ClassVar[float] = 5e-4
    contact_force_range: ClassVar[Bounds] = (-1.0, 1.0)
    healthy_z_range = (0.2, 1.0)
    main_body: ClassVar[int] = 1

    def __init__(self, simulation: Simulation, memory: dict[str, np.ndarray]) -> None:
        super().__init__(simulation, memory)
        self._main = simulation.field("xpos")[:, self.main_body]
        self._contacts = simulation.field("cfrc_ext").reshape(simulation.count, -1)

    def x(self, rows: Rows) -> np.ndarray:
        return self._main[rows, 0]

    def ranges(self) -> tuple[int, list[Bounds]]:
        # The only range that its ends belong to.
        low, high = self.healthy_z_range
        return 2, [(float(np.nextafter(low, -np.inf)), float(np.nextafter(high, np.inf)))]

    def layout(self) -> list[tuple[str, int]]:
        return [*super().layout(), ("cfrc_ext[1:]", self._contacts.shape[1] - 6)]

    def observe(self, rows: Rows, out: np.ndarray) -> None:
        coordinates = self.nq + self.nv - self.hidden
        out[:, :coordinates] = self.state[rows, self.hidden :]
        np.clip(self._contacts[rows, 6:], *self.contact_force_range, out=out[:, coordinates:])

    def terms(self) -> dict[str, np.ndarray]:
        forces = np.clip(self._contacts, *self.contact_force_range)
        return super().terms() | {"contact": -self.contact_cost_weight * squares(forces)}


class Humanoid(Walker):
    xml_file, frame_skip, hidden, forces = "humanoid.xml", 5, 2, True
    forward_reward_weight, ctrl_cost_weight, healthy_reward, reset_noise_scale = 1.25, 0.1, 5.0, 1e-2
    contact_cost_weight: ClassVar[float] = 5e-7
    contact_cost_range: ClassVar[Bounds] = (-np.inf, 10.0)
    healthy_z_range = (1.0, 2.0)

    def __init__(self, simulation: Simulation, memory: dict[str, np.ndarray]) -> None:
        super().__init__(simulation, memory)
        self._contacts, cinert, cvel = (
            simulation.field(name).reshape(simulation.count, -1) for name in ("cfrc_ext", "cinert", "cvel")
        )
        # Without the world, the first of the bodies, and without the free joint, which no motor moves.
        fields = {"cinert[1:]": cinert[:, 10:], "cvel[1:]": cvel[:, 6:]}
        fields["qfrc_actuator[6:]"] = simulation.field("qfrc_actuator")[:, 6:]
        self._seen = fields | {"cfrc_ext[1:]": self._contacts[:, 6:]}
        self._mass_x = simulation.field("xipos")[:, :, 0]
        masses = simulation.model.body_mass
        self._shares = masses / masses.sum()

    def x(self, rows: Rows) -> np.ndarray:
        return self._mass_x[rows] @ self._shares

    def layout(self) -> list[tuple[str, int]]:
        return [*super().layout(), *((name, values.shape[1]) for name, values in self._seen.items())]

    def observe(self, rows: Rows, out: np.ndarray) -> None:
        parts = [self.state[rows, self.hidden :], *(values[rows] for values in self._seen.values())]
        np.concatenate(parts, axis=1, out=out, casting="same_kind")

    def terms(self) -> dict[str, np.ndarray]:
        cost = np.clip(self.contact_cost_weight * squares(self._contacts), *self.contact_cost_range)
        return super().terms() | {"contact": -cost}


# Those that stay in their place


class InvertedPendulum(Task):
    xml_file, frame_skip, reset_noise_scale = "inverted_pendulum.xml", 2, 0.01

    def layout(self) -> list[tuple[str, int]]:
        return [("qpos", self.nq), ("qvel", self.nv)]

    def observe(self, rows: Rows, out: np.ndarray) -> None:
        out[:] = self.state[rows]

    def judge(self) -> Judgement:
        upright = np.abs(self.qpos[:, 1]) <= 0.2
        return self.judgement({"survive": upright.astype(np.float64)}, ~upright)


class InvertedDoublePendulum(Task):
    xml_file, frame_skip = "inverted_double_pendulum.xml", 5
    reset_noise_scale, gaussian_start = 0.1, True
    healthy_reward: ClassVar[float] = 10.0

    def __init__(self, simulation: Simulation, memory: dict[str, np.ndarray]) -> None:
        super().__init__(simulation, memory)
        self._tip = simulation.field("site_xpos")[:, 0]
        self._constraint = simulation.field("qfrc_constraint")

    def layout(self) -> list[tuple[str, int]]:
        links = self.nq - 1
        return [
            ("qpos[:1]", 1),
            ("sin(qpos[1:])", links),
            ("cos(qpos[1:])", links),
            ("qvel", self.nv),
            ("qfrc_constraint[:1]", 1),
        ]

    def observe(self, rows: Rows, out: np.ndarray) -> None:
        angles, links = self.qpos[rows, 1:], self.nq - 1
        out[:, :1] = self.qpos[rows, :1]
        np.sin(angles, out=out[:, 1 : 1 + links])
        np.cos(angles, out=out[:, 1 + links : 1 + 2 * links])
        np.clip(self.qvel[rows], *SEEN, out=out[:, 1 + 2 * links : -1])
        np.clip(self._constraint[rows, :1], *SEEN, out=out[:, -1:])

    def judge(self) -> Judgement:
        x, y = self._tip[:, 0], self._tip[:, 2]
        upright = y > 1
        terms = {
            "survive": self.healthy_reward * upright,
            "distance_penalty": -(0.01 * x**2 + (y - 2) ** 2),
            "velocity_penalty": -(1e-3 * self.qvel[:, 1] ** 2 + 5e-3 * self.qvel[:, 2] ** 2),
        }
        return self.judgement(terms, ~upright)


class Reacher(Task):
    xml_file, frame_skip, limit = "reacher.xml", 2, 50
    reward_dist_weight: ClassVar[float] = 1.0
    reward_control_weight: ClassVar[float] = 1.0

    def __init__(self, simulation: Simulation, memory: dict[str, np.ndarray]) -> None:
        super().__init__(simulation, memory)
        positions, body = simulation.field("xpos"), simulation.model.body
        self._fingertip, self._target = positions[:, body("fingertip").id], positions[:, body("target").id]

    def start(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        qpos = self.simulation.model.qpos0 + chance.between(keys, self.nq, -0.1, 0.1)
        qvel = chance.between(keys, self.nv, -0.005, 0.005, clock=1)
        qpos[:, -2:] = _drawn_until(keys, (-0.2, -0.2), (0.2, 0.2), lambda goals: squares(goals) < 0.2**2)
        qvel[:, -2:] = 0.0
        return qpos, qvel

    def layout(self) -> list[tuple[str, int]]:
        return [
            ("cos(qpos[:2])", 2),
            ("sin(qpos[:2])", 2),
            ("qpos[2:]", 2),
            ("qvel[:2]", 2),
            ("(fingertip - target)[:2]", 2),
        ]

    def observe(self, rows: Rows, out: np.ndarray) -> None:
        angles = self.qpos[rows, :2]
        np.cos(angles, out=out[:, :2])
        np.sin(angles, out=out[:, 2:4])
        out[:, 4:6] = self.qpos[rows, 2:]
        out[:, 6:8] = self.qvel[rows, :2]
        np.subtract(self._fingertip[rows, :2], self._target[rows, :2], out=out[:, 8:])

    def judge(self) -> Judgement:
        terms = {
            "dist": -self.reward_dist_weight * _lengths(self._fingertip - self._target),
            "ctrl": -self.reward_control_weight * squares(self.ctrl),
        }
        return self.judgement(terms)


class Pusher(Task):
    xml_file, frame_skip, limit = "pusher_v5.xml", 5, 100
    reward_near_weight: ClassVar[float] = 0.5
    reward_dist_weight: ClassVar[float] = 1.0
    reward_control_weight: ClassVar[float] = 0.1

    def __init__(self, simulation: Simulation, memory: dict[str, np.ndarray]) -> None:
        super().__init__(simulation, memory)
        positions = simulation.field("xpos")
        self._tips, self._object, self._goal = (
            positions[:, simulation.model.body(name).id] for name in ("tips_arm", "object", "goal")
        )

    def start(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        qpos = np.repeat(self.simulation.model.qpos0[None], len(keys), axis=0)
        # The object somewhere beside the goal, which is where the last two coordinates are zero.
        qpos[:, -4:-2] = _drawn_until(keys, (-0.3, -0.2), (0.0, 0.2), lambda places: squares(places) > 0.17**2)
        qpos[:, -2:] = 0.0
        qvel = chance.between(keys, self.nv, -0.005, 0.005, clock=1)
        qvel[:, -4:] = 0.0
        return qpos, qvel

    def layout(self) -> list[tuple[str, int]]:
        return [("qpos[:7]", 7), ("qvel[:7]", 7), ("xpos of tips_arm", 3), ("xpos of object", 3), ("xpos of goal", 3)]

    def observe(self, rows: Rows, out: np.ndarray) -> None:
        parts = (self.qpos[rows, :7], self.qvel[rows, :7], self._tips[rows], self._object[rows], self._goal[rows])
        np.concatenate(parts, axis=1, out=out, casting="same_kind")

    def judge(self) -> Judgement:
        terms = {
            "dist": -self.reward_dist_weight * _lengths(self._object - self._goal),
            "ctrl": -self.reward_control_weight * squares(self.ctrl),
            "near": -self.reward_near_weight * _lengths(self._object - self._tips),
        }
        return self.judgement(terms)


TASKS: dict[str, type[Task]] = {
    f"{task.__name__}-v5": task
    for task in (
        HalfCheetah,
        Hopper,
        Walker2d,
        Ant,
        Humanoid,
        Swimmer,
        Reacher,
        Pusher,
        InvertedPendulum,
        InvertedDoublePendulum,
    )
}
