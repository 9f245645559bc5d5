"""What the arm's environments share: many arms side by side, each moving its tool by small steps.

An action is (dx, dy, dz, dyaw, gripper), each from -1 to 1, 25 times a second.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import atan2, inf, pi
from typing import Any, ClassVar

import mujoco
import numpy as np
from gymnasium import spaces

from autotelic.errors import UserError
from autotelic.physics import chance
from autotelic.physics.arm import cell, control, ik, robots
from autotelic.physics.arm.scenes import Mark, Placement, Scene
from autotelic.physics.base import EnvironmentConfig, Observation
from autotelic.physics.simulated import ALL, Judgement, Rows, SimulatedEnvironment, squares
from autotelic.registry import nearest

SUBSTEPS = 10
STEP = SUBSTEPS * robots.TIMESTEP  # s from one action to the next
ACTION = control.ACTION * (STEP / control.TICK)  # what an action of 1 asks of a step
AHEAD = 0.12  # rad that a joint is asked to be ahead of where it is, at most: bounds the force an arm pushes with
START_ANGLES = 0.05  # rad by which beginnings differ
LET_GO = 0.008  # m: fingers that are so much wider than a thing have let go of it
REWARDS = ("shaped", "sparse")


@dataclass(frozen=True)
class ArmConfig(EnvironmentConfig):
    """What all tasks have."""

    robot: str = "arm7"  # arm7 or ur5e
    reward: str = "shaped"  # shaped, or sparse: 1 a step while the task is done
    reward_scales: dict[str, float] = field(default_factory=dict)  # of single terms; 0 switches one off
    seconds: float = 4.0  # after which an episode is cut

    beside: ClassVar[Mapping[str, Any]] = {
        "usual_steps": 5_000_000,
        "policy": {"hidden": [128, 128], "activation": "elu", "initial_std": 0.6},
        "learner": {"steps": 16, "epochs": 5, "minibatches": 4, "gamma": 0.97},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        robots.get(self.robot)
        if self.reward not in REWARDS:
            raise UserError(f"reward={self.reward}: {nearest(self.reward, list(REWARDS))}")
        if not 0 < self.seconds < inf:
            raise UserError(f"seconds={self.seconds}: must be above 0, finite")


@dataclass
class Snapshot:
    """What tasks look at: rows of environments as they are. Metres, radians."""

    tool: np.ndarray  # [n, 3]
    fingers: np.ndarray  # [n]: between them
    things: dict[str, np.ndarray]  # [n, 3] each
    fixtures: dict[str, np.ndarray]  # [n, 3] each: as `Arm.position`
    goal: np.ndarray  # [n, 3]
    drawer: np.ndarray  # [n]: m that it is open
    button: np.ndarray  # [n]: m that it is down
    pressed: np.ndarray  # bool [n]: whether it has been in the episode


Part = tuple[str, np.ndarray]  # of an observation: its name, and float [n, size]


class ArmTask(SimulatedEnvironment):
    """A task says what is on the table, where (`place`), when it is done (`done`), and what brings it nearer (`terms`).
    An episode goes on when it is done, and is a success where it is so at the end."""

    Config: ClassVar[type[ArmConfig]] = ArmConfig
    config: ArmConfig
    camera = cell.CAMERA
    instruction: ClassVar[str]  # the task, as one would say it to the robot
    scene: ClassVar[Scene] = Scene()
    scales: ClassVar[Mapping[str, float]]  # of the terms of the shaped reward, a second
    has_goal: ClassVar[bool] = False  # whether there is a place to reach or to bring something to

    def __init__(self, config: ArmConfig) -> None:
        robot = self.robot = robots.get(config.robot)
        self._scene = Scene(self.scene.things, self.scene.fixtures, config.robot)
        model = self._specify().compile()
        super().__init__(config, model, substeps=SUBSTEPS, limit=max(1, round(config.seconds / STEP)))
        for name in config.reward_scales:
            if name not in self.scales:
                raise UserError(f"reward_scales: no term named '{name}': {nearest(name, list(self.scales))}")
        shaped = {**self.scales, **config.reward_scales} if config.reward == "shaped" else {"success": 1.0 / STEP}
        self._scales = {name: scale * self.dt for name, scale in shaped.items() if scale}
        self.action_space = spaces.Box(-1.0, 1.0, (5,), np.float32)
        self._solver, self._dof = ik.BatchSolver(robot), len(robot.joints)
        self._home, self._act = np.array(robot.home), self.simulation.batch.bind("act")
        self._low, self._high = model.jnt_range[: self._dof].T.copy()
        self._start = np.array([*robot.home, *robot.spread, *model.qpos0[self._dof + len(robot.spread) :]])
        # Of the fixtures, in order, and then of the mark where the goal is.
        self._fixtures = self.simulation.batch.bind("mocap_pos") if model.nmocap else np.zeros((self.count, 0, 3))
        self._sites, self._frames = self.simulation.field("site_xpos"), self.simulation.field("site_xmat")
        self._geoms = self.simulation.field("geom_xpos")
        self._tool = model.site("tool").id
        self._pads = [model.geom(pad).id for pad in robot.pads]
        self._places = {thing.name: int(model.joint(thing.name).qposadr[0]) for thing in self.scene.things}
        self._speeds = {thing.name: int(model.joint(thing.name).dofadr[0]) for thing in self.scene.things}
        self._fixture_sites = {part.name: model.site(part.name).id for part in self.scene.fixtures}
        self._slides = {
            part.kind: int(model.joint(part.name).qposadr[0]) for part in self.scene.fixtures if part.kind != "bin"
        }
        count = self.count
        self.memory = {
            "joints": np.zeros((count, self._dof)),  # what they were told last
            "grip": np.zeros(count),  # m that the gripper was told to be open
            "action": np.zeros((count, 5)),
            "action_before": np.zeros((count, 5)),
            "goal": np.zeros((count, 3)),
            "pressed": np.zeros(count, bool),
            "done": np.zeros(count, bool),
            "done_steps": np.zeros(count, np.int64),  # steps of the episode in which the task was done
        }
        self.reset(0)
        self._layout = [(name, values.shape[1]) for name, values in self._parts(ALL)]
        self.sizes = {"policy": sum(size for _, size in self._layout)}

    def _specify(self) -> mujoco.MjSpec:
        spec = cell.specify(self._scene, movable=True)
        if self.has_goal:
            mark = spec.worldbody.add_body(name="goal", mocap=True)
            robots.add_geom(mark, "sphere", (0.015,), rgba=(0.2, 0.8, 0.3, 0.6))
        return spec

    # What a task says

    @abstractmethod
    def place(self, drawn: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Of numbers drawn evenly from 0 to 1, [n, 12]: x, y and yaw [n, 3] of every thing and fixture, and goals
        [n, 3]."""

    @abstractmethod
    def done(self, now: Snapshot) -> np.ndarray:
        """bool [n]"""

    @abstractmethod
    def terms(self, now: Snapshot) -> dict[str, np.ndarray]:
        """[n] each, from 0 to 1: what the shaped reward has beside `success` and `action_rate`."""

    # Episodes

    def begin(self, ids: np.ndarray, keys: np.ndarray) -> None:
        simulation, memory, dof = self.simulation, self.memory, self._dof
        drawn = chance.even(keys, dof + 12).astype(np.float64)
        places, goal = self.place(drawn[:, dof:])
        qpos = np.tile(self._start, (len(ids), 1))
        qpos[:, :dof] += START_ANGLES * (2.0 * drawn[:, :dof] - 1.0)
        for thing in self.scene.things:
            x, y, yaw = places[thing.name].T
            address = self._places[thing.name]
            qpos[:, address : address + 2] = np.stack([x, y], axis=1)
            qpos[:, address + 2] = thing.half_height
            qpos[:, address + 3], qpos[:, address + 6] = np.cos(yaw / 2), np.sin(yaw / 2)
        for number, fixture in enumerate(self.scene.fixtures):
            self._fixtures[ids, number, :2] = places[fixture.name][:, :2]
        if self.has_goal:
            self._fixtures[ids, -1] = goal
        simulation.qpos[ids] = qpos
        simulation.ctrl[ids, :dof], simulation.ctrl[ids, dof] = qpos[:, :dof], self.robot.opened
        self._act[ids] = simulation.ctrl[ids]
        memory["joints"][ids], memory["grip"][ids], memory["goal"][ids] = qpos[:, :dof], self.robot.widest, goal
        for name in ("action", "action_before", "pressed", "done", "done_steps"):
            memory[name][ids] = 0

    def apply(self, action: np.ndarray) -> None:
        memory, dof, robot, ctrl = self.memory, self._dof, self.robot, self.simulation.ctrl
        memory["action_before"][:] = memory["action"]
        np.clip(action, -1.0, 1.0, out=memory["action"])
        asked = memory["action"] * ACTION
        joints = memory["joints"]
        known = self._solver.forward(joints)
        place, frame, _ = known
        yaw = np.clip(np.arctan2(frame[:, 1, 0], frame[:, 0, 0]) + asked[:, 3], -pi / 2, pi / 2)
        step = self._solver.step(joints, _within_reach(place + asked[:, :3]), yaw, STEP, known)
        angles = self.simulation.qpos[:, :dof]
        joints[:] = np.clip(joints + step, angles - AHEAD, angles + AHEAD)
        memory["grip"][:] = np.clip(memory["grip"] + asked[:, 4], 0.0, robot.widest)
        ctrl[:, :dof] = joints
        ctrl[:, dof] = robot.closed + (robot.opened - robot.closed) * memory["grip"] / robot.widest

    def towards(self, poses: np.ndarray) -> np.ndarray:
        """Actions [count, 5] that bring what is asked of each tool as near as they can to these, as `Arm.asked` has
        them: x, y, z, yaw, metres that the gripper is open."""
        place, frame, _ = self._solver.forward(self.memory["joints"])
        yaw = np.arctan2(frame[:, 1, 0], frame[:, 0, 0])
        asked = np.column_stack([place, yaw, self.memory["grip"]])
        return np.clip((poses - asked) / ACTION, -1.0, 1.0)

    def scene_of(self, index: int) -> tuple[Scene, dict[str, Placement], tuple[float, ...]]:
        """One environment as it is, for an `Arm`: the scene with its fixtures where they are and its goal marked, where
        things are, and the joints."""
        qpos, goal = self.simulation.qpos[index], self.memory["goal"][index]
        fixtures = [
            replace(fixture, x=float(x), y=float(y))
            for fixture, (x, y, _) in zip(self.scene.fixtures, self._fixtures[index], strict=False)
        ]
        placements = {}
        for name, address in self._places.items():
            x, y, _, w, _, _, z = qpos[address : address + 7].tolist()
            placements[name] = (x, y, 2 * atan2(z, w))
        marks = (Mark("goal", *goal.tolist()),) if self.has_goal else ()
        scene = replace(self._scene, fixtures=tuple(fixtures), marks=marks)
        return scene, placements, tuple(qpos[: self._dof].tolist())

    def measure(self, rows: Rows) -> Snapshot:
        qpos, frames = self.simulation.qpos[rows], self._frames[rows, self._tool].reshape(-1, 3, 3)
        left, right = (self._geoms[rows, pad] for pad in self._pads)
        apart = np.einsum("nk,nk->n", left - right, frames[:, :, 1]) - 2 * self.robot.pad_depth
        slides = {kind: qpos[:, address].copy() for kind, address in self._slides.items()}
        still = np.zeros(len(qpos))
        return Snapshot(
            tool=self._sites[rows, self._tool].copy(),
            fingers=np.maximum(apart, 0.0),
            things={name: qpos[:, address : address + 3].copy() for name, address in self._places.items()},
            fixtures={name: self._sites[rows, site].copy() for name, site in self._fixture_sites.items()},
            goal=self.memory["goal"][rows].copy(),
            drawer=slides.get("drawer", still),
            button=slides.get("button", still),
            pressed=self.memory["pressed"][rows].copy(),
        )

    def judge(self) -> Judgement:
        memory = self.memory
        if "button" in self._slides:
            memory["pressed"] |= self.simulation.qpos[:, self._slides["button"]] >= cell.PRESSED
        now = self.measure(ALL)
        done = memory["done"][:] = self.done(now)
        memory["done_steps"] += done
        found = {"success": done.astype(float)}
        if self.config.reward == "shaped":
            found |= self.terms(now)
            found["action_rate"] = squares(memory["action"] - memory["action_before"])
        terms = {name: found[name] * scale for name, scale in self._scales.items()}
        reward = np.sum(list(terms.values()), axis=0) if terms else np.zeros(self.count)
        return Judgement(reward, np.zeros(self.count, bool), terms)

    def summarise(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        failed = self.failed[ids]
        share = self.memory["done_steps"][ids] / np.maximum(self.elapsed[ids], 1)
        return {
            "success": (self.memory["done"][ids] & ~failed).astype(float),
            "done_share": np.where(failed, np.nan, share),  # of the episode's time
        }

    # Observations

    def observe(self, rows: Rows) -> Observation:
        return {"policy": np.concatenate([values for _, values in self._parts(rows)], axis=1).astype(np.float32)}

    def _parts(self, rows: Rows) -> list[Part]:
        now, dof, memory = self.measure(rows), self._dof, self.memory
        qpos, qvel = self.simulation.qpos[rows], self.simulation.qvel[rows]
        frames = self._frames[rows, self._tool].reshape(-1, 3, 3)
        parts = [
            ("joints", qpos[:, :dof] - self._home),
            ("joint_speeds", 0.2 * qvel[:, :dof]),
            ("joints_ahead", 10.0 * (memory["joints"][rows] - qpos[:, :dof])),
            ("tool", now.tool - _MIDDLE),
            ("tool_x_axis", frames[:, :2, 0]),
            ("fingers", 10.0 * now.fingers[:, None]),
            ("grip", 10.0 * memory["grip"][rows][:, None]),
        ]
        for name, address in self._places.items():
            parts.append((name, now.things[name] - now.tool))
            parts.append((f"{name}_turned", _upright_turn(qpos[:, address + 3 : address + 7])))
            speed = self._speeds[name]
            parts.append((f"{name}_speed", qvel[:, speed : speed + 3]))
        for name, place in now.fixtures.items():
            parts.append((name, place - now.tool))
        for kind in self._slides:
            parts.append((f"{kind}_moved", 10.0 * (now.drawer if kind == "drawer" else now.button)[:, None]))
        if "button" in self._slides:
            parts.append(("pressed", now.pressed[:, None].astype(float)))
        if self.has_goal:
            parts.append(("goal", now.goal - now.tool))
        return parts

    # What others need to know

    def contract(self) -> dict[str, Any]:
        return super().contract() | {
            "layout": {"policy": [[name, size] for name, size in self._layout]},
            "actions": {
                "meaning": "dx, dy, dz (m), dyaw (rad) of the tool and how much its fingers open (m): scale * action",
                "scale": ACTION.tolist(),
                "motors": [*self.robot.joints, "gripper"],
            },
            "robot": self.robot.name,
            "home": list(self.robot.home),
            "physics": {"timestep": robots.TIMESTEP, "substeps": SUBSTEPS},
        }

    def model_xml(self) -> str:
        spec = self._specify()
        spec.compile()  # writing needs it
        return spec.to_xml()


_MIDDLE = np.array([0.5, 0.0, 0.15])  # of where tools are


def _within_reach(position: np.ndarray) -> np.ndarray:
    """As `control.within_reach` of each row."""
    height = np.clip(position[:, 2], control.LOWEST, control.HIGHEST)
    distance = np.maximum(np.hypot(position[:, 0], position[:, 1]), 1e-9)
    factor = np.clip(distance, control.NEAREST, control.farthest(height)) / distance
    return np.stack([position[:, 0] * factor, position[:, 1] * factor, height], axis=1)


def _upright_turn(quaternions: np.ndarray) -> np.ndarray:
    """[n, 3]: how things are turned, as a gripper sees a square (cosine and sine of four times the angle), and how
    upright they are (1 is upright, 0 lies on its side)."""
    w, x, y, z = quaternions.T
    yaw = 4.0 * np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    up = 1 - 2 * (x * x + y * y)
    return np.stack([np.cos(yaw), np.sin(yaw), up], axis=1)
