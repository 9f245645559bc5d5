"""An arm that is driven by commands: one simulation of a cell, in ticks of 20 ms.

What follows is a function of the cell, the placements and the commands alone, to the last bit, whatever was simulated
before.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import atan2, cos, hypot, inf, pi, sin, sqrt
from typing import Any

import mujoco
import numpy as np

from autotelic.errors import UserError
from autotelic.physics.arm import ik, readings
from autotelic.physics.arm.cell import HOUSING, LEFT, LINK, PRESSED, RIGHT, TABLE, Cell
from autotelic.physics.arm.pictures import Painter
from autotelic.physics.arm.readings import Point, Pose, Readings
from autotelic.physics.arm.robots import DRAG, LAG, TIMESTEP
from autotelic.physics.arm.scenes import TRAVEL, Load, Placement
from autotelic.physics.simulation import FASTEST
from autotelic.registry import nearest

SUBSTEPS = 5
TICK = SUBSTEPS * TIMESTEP  # s
SETTLING = 10  # ticks after a reset, before time begins
SPEED, ACCELERATION = 0.5, 4.0  # of the tool in moves: m/s, m/s²
TURNING, TURNING_UP = 2.5, 15.0  # of its yaw: rad/s, rad/s²
SWING, SWINGING_UP = 1.8, 10.0  # of joints: rad/s, rad/s²
NEAR, TURNED, SLOW = 0.004, 0.04, 0.04  # m, rad and m/s (or rad/s) within which a move has arrived
STALLED, IDLE = 0.3, 0.03  # s after which a move is given up in which joints are slower than this, rad/s
LONGEST = 60.0  # s that any move takes
# m that the tool, and rad that a joint is asked to be ahead of where it is, at most: bounds the force it pushes with
AHEAD, AHEAD_JOINT = 0.03, 0.15
# Of the step of joints in this tick and in the last: how far controls are ahead of them.
_AHEAD_BEFORE = DRAG / TICK**2
_AHEAD = LAG / TICK - 0.5 + _AHEAD_BEFORE
ACTION = np.array([0.01, 0.01, 0.01, 0.05, 0.008])  # what an action of 1 asks of a tick: m, m, m, rad, m of the gripper
# Where the tool can be, pointing down: a little above the table (fingertips are 9 mm below it), and distances from the
# vertical through the robot's base, up to a height from which on the farthest comes nearer.
LOWEST, HIGHEST, NEAREST, FARTHEST = 0.013, 0.45, 0.30, 0.76
_LEVEL, _SLOPE = 0.3, 0.35

Action = tuple[float, float, float, float, float]  # dx, dy, dz, dyaw, gripper: -1 to 1


class OutOfTime(Exception):
    """The simulated time that was given is over."""


class Broken(Exception):
    """The simulation flew apart: what it says means nothing."""


class Arm:
    """Nothing is there before the first `reset`."""

    overlap: float  # m that things or fixtures were within each other, at most, where the last reset placed them
    steps: int  # of physics, since the reset

    def __init__(self, cell: Cell, watch: Callable[[Action], None] | None = None) -> None:
        """`watch` is called after every tick, whatever command it was of, with the action that `apply` would have been
        given for it: to film what is done, or to write it down."""
        self.cell, self.watch = cell, watch
        self._painter: Painter | None = None
        self._model, self._data = cell.model, mujoco.MjData(cell.model)
        self._loads: dict[str, Load] = {}
        self._looking: mujoco.MjData | None = None
        # What is looked at in every tick: to ask MuJoCo for an array takes as long as to compute with it.
        data, dof = self._data, cell.dof
        self._place, self._frame = data.site_xpos[cell.tool], data.site_xmat[cell.tool]
        self._qpos, self._qvel, self._ctrl = data.qpos, data.qvel, data.ctrl
        self._angles, self._speeds, self._forces = data.qpos[:dof], data.qvel[:dof], data.actuator_force[:dof]
        self._solver = ik.Solver(cell.robot)
        self._target, self._yaw, self._grip = np.zeros(3), 0.0, 0.0
        self._unwanted = _unwanted(cell.classes)
        self._low, self._high = cell.model.jnt_range[:dof].T.copy()
        self._horizon, self._pressed, self.steps = 0.0, False, 0
        self._still, self._step = np.zeros(dof), np.zeros(dof)

    def reset(
        self,
        placements: Mapping[str, Placement],
        joints: Sequence[float] | None = None,
        *,
        horizon: float = inf,
        loads: Mapping[str, Load] | None = None,
    ) -> None:
        """Every thing of the scene where its placement says, the robot at home or with these joints, open. Things are
        given a moment to settle; `time` begins after it and may not pass `horizon`, in seconds. `loads` are factors of
        the mass and the friction of things."""
        self._load(dict(loads or {}))
        data, cell = self._data, self.cell
        start = np.array(cell.robot.home) if joints is None else self._joints_within(joints, "reset")
        self._check(placements)
        # More than positions and velocities: actuators and the solver's first guess have a past too.
        mujoco.mj_resetData(self._model, data)
        data.qpos[:] = cell.start
        data.qpos[: cell.dof] = start
        for thing in cell.scene.things:
            x, y, yaw = placements[thing.name]
            address = cell.things[thing.name]
            data.qpos[address : address + 7] = x, y, thing.half_height, cos(yaw / 2), 0, 0, sin(yaw / 2)
        self._solver.reset(start)
        self._step[:] = 0.0
        self._grip = cell.robot.widest
        data.ctrl[: cell.dof], data.ctrl[cell.grip] = start, cell.robot.opened
        data.act[:] = data.ctrl
        mujoco.mj_forward(self._model, data)
        self.overlap = max(0.0, -float(np.min(data.contact.dist, initial=0.0)))
        self._horizon = inf
        self._begin()
        watch, self.watch = self.watch, None
        for _ in range(SETTLING):
            self._tick(self._still)
        self.watch = watch
        data.time, self._horizon = 0.0, horizon
        self._begin()

    def _load(self, loads: dict[str, Load]) -> None:
        if loads == self._loads:
            return
        usual = self.cell.model
        if self._model is usual:  # others may have it too
            self._model = copy.copy(usual)
        model, self._loads = self._model, loads
        for name in ("body_mass", "body_inertia", "geom_friction"):
            getattr(model, name)[:] = getattr(usual, name)
        for name, (mass, friction) in loads.items():
            body = int(model.joint(name).bodyid[0])
            model.body_mass[body] *= mass
            model.body_inertia[body] *= mass
            first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
            model.geom_friction[first : first + count] *= friction
        mujoco.mj_setConst(model, self._data)  # what follows from masses

    def _begin(self) -> None:
        self.steps, self._pressed, self._colliding = 0, False, False
        self._hold()
        self._told = self.asked
        place = self.tool()
        self._trail, self._moved = [place] * 4, 0.0  # where the tool was, newest first
        self._origin = place
        self._sums = {"path_length": 0.0, "energy": 0.0, "smoothness": 0.0, "collisions": 0.0}

    def _check(self, placements: Mapping[str, Placement]) -> None:
        names = [thing.name for thing in self.cell.scene.things]
        for name in placements:
            if name not in names:
                raise UserError(f"placements: nothing to place is named '{name}': {nearest(name, names)}")
        for name in names:
            if name not in placements:
                raise UserError(f"placements: '{name}' has none")
            if len(placements[name]) != 3 or not np.isfinite(placements[name]).all():
                raise UserError(f"placements: {name}: x, y and yaw must be three finite numbers")

    # What is

    @property
    def time(self) -> float:
        """Seconds simulated since the reset."""
        return self.steps * TIMESTEP

    def tool(self) -> Point:
        """Between the fingertips."""
        return tuple(self._place.tolist())

    def yaw(self) -> float:
        """How far the gripper is turned about the vertical; at 0 its fingers open along y."""
        return atan2(self._frame[3], self._frame[0])

    def joints(self) -> tuple[float, ...]:
        return tuple(self._angles.tolist())

    @property
    def asked(self) -> Action:
        """What the last command asks of the tool by now: x, y, z, yaw, and metres that the gripper shall be open."""
        x, y, z = self._target.tolist()
        return x, y, z, self._yaw, self._grip

    def fingers(self) -> float:
        """Metres between them."""
        left, right = self._data.geom_xpos[self.cell.pads[0]], self._data.geom_xpos[self.cell.pads[1]]
        apart = (left - right) @ self._frame[1::3]
        return max(0.0, float(apart) - 2 * self.cell.robot.pad_depth)

    def position(self, name: str) -> Point:
        """Of a thing, its middle; of a bin, the middle of its floor; of a drawer, its handle; of a button, the top."""
        return self.pose(name)[:3]

    def pose(self, name: str) -> Pose:
        data, cell = self._data, self.cell
        address = cell.things.get(name)
        if address is not None:
            return tuple(data.qpos[address : address + 7].tolist())
        site = cell.fixtures.get(name)
        if site is None:
            raise UserError(f"nothing is named '{name}': {nearest(name, [*cell.things, *cell.fixtures])}")
        yaw = next(fixture.yaw for fixture in cell.scene.fixtures if fixture.name == name)
        x, y, z = data.site_xpos[site].tolist()
        return x, y, z, cos(yaw / 2), 0.0, 0.0, sin(yaw / 2)

    def held(self, name: str) -> bool:
        """Touched by both fingers, and by nothing that carries it."""
        if name not in self.cell.things:
            raise UserError(f"nothing to hold is named '{name}': {nearest(name, list(self.cell.things))}")
        return name in readings.held(self.cell, self._contacts(), self._qpos)

    def opening(self) -> float:
        """Of the drawer, from 0 to 1."""
        if self.cell.drawer is None:
            raise UserError("there is no drawer in this scene")
        return min(1.0, max(0.0, float(self._data.qpos[self.cell.drawer]) / TRAVEL))

    def pressed(self) -> bool:
        """Whether the button has been, all the way, since the reset."""
        if self.cell.button is None:
            raise UserError("there is no button in this scene")
        return self._pressed

    def readings(self) -> Readings:
        cell, contacts = self.cell, self._contacts()
        return Readings(
            time=self.time,
            tool=self.tool(),
            yaw=self.yaw(),
            joints=self.joints(),
            fingers=self.fingers(),
            poses={name: self.pose(name) for name in (*cell.things, *cell.fixtures)},
            held=readings.held(cell, contacts, self._qpos),
            touching=readings.touching(cell, contacts),
            opening=None if cell.drawer is None else self.opening(),
            pressed=None if cell.button is None else self._pressed,
        )

    @property
    def metrics(self) -> dict[str, float]:
        """Since the reset: metres the tool went, how straight (1 is a line from where it began to where it is), joules,
        the integral of squared jerk (m²/s⁵), and how often the arm hit something that it should not: its links
        anything, its fingers the table or the fixed part of a fixture."""
        length = self._sums["path_length"]
        straight = float(np.linalg.norm(np.subtract(self.tool(), self._origin)))
        return {**self._sums, "path_efficiency": min(1.0, straight / length) if length > 0.001 else 1.0}

    def state_digest(self) -> str:
        """Of the exact state: equal only where everything that was simulated is."""
        data, digest = self._data, hashlib.sha256()
        for part in (data.qpos, data.qvel, data.act, data.ctrl, self._solver.joints, self._step, self._target):
            digest.update(part.tobytes())
        digest.update(repr((self.steps, self._yaw, self._grip, self._pressed, self._sums)).encode())
        return digest.hexdigest()

    def positions(self) -> np.ndarray:
        """Of all that moves: what a picture of it as it is needs, to be drawn later."""
        return self._qpos.copy()

    def frame(self, width: int = 640, height: int = 480) -> np.ndarray:
        """A picture of it as it is: uint8 [height, width, 3]. `close` lets go of what draws it."""
        if self._painter is None:
            self._painter = Painter()
        return self._painter.draw(self.cell, self._qpos, width, height)

    def close(self) -> None:
        if self._painter is not None:
            self._painter.close()
            self._painter = None

    # What it does

    def move_to(self, position: Sequence[float], yaw: float | None = None, *, seconds: float = 3.0) -> bool:
        """Moves the tool in a straight line, gripper down, and waits until it is there. Whether it is: False where the
        place cannot be reached, something is in the way, or `seconds` are over. `yaw` stays as it is unless given; as
        the gripper is symmetric, half turns count for nothing."""
        wanted = _numbers(position, 3, "move_to: position")
        goal = within_reach(wanted)
        if yaw is not None:
            yaw = float(_numbers([yaw], 1, "move_to: yaw")[0])
        turn = self._yaw if yaw is None else turned(yaw)
        self._keep_near(AHEAD)
        speed = turning = 0.0
        for moved in self._ticks(seconds):
            left = goal - self._target
            distance, angle = sqrt(left @ left), turn - self._yaw
            if distance < 1e-6 and abs(angle) < 1e-6 and moved < SLOW * TICK and self._is_at(goal, turn, NEAR):
                return self._is_at(wanted, turn, 2 * NEAR)
            speed = _faster(speed, distance, SPEED, ACCELERATION)
            turning = _faster(turning, abs(angle), TURNING, TURNING_UP)
            if distance > 0:
                self._target += left * (min(1.0, speed * TICK / distance))
            self._yaw += max(-turning * TICK, min(turning * TICK, angle))
            if self._keep_near(AHEAD):
                speed = min(speed, moved / TICK)
            self._tick(self._solver.step(self._target, self._yaw, TICK))
        return False

    def _is_at(self, place: np.ndarray, yaw: float, near: float) -> bool:
        missed = place - self._place
        return bool(missed @ missed < near * near) and abs(turned(yaw - self.yaw())) < TURNED

    def move_joints(self, joints: Sequence[float], *, seconds: float = 3.0) -> bool:
        """Moves all joints evenly to these angles, and waits until they are there."""
        wanted = _numbers(joints, self.cell.dof, "move_joints: joints")
        goal = np.clip(wanted, self._low, self._high)
        speed = 0.0
        for moved in self._ticks(seconds):
            left = goal - self._solver.joints
            distance = np.abs(left).max()
            off = np.abs(goal - self._angles).max()
            if distance < 1e-6 and off < TURNED / 2 and moved < SLOW * TICK:
                return bool(np.abs(goal - wanted).max() < TURNED)
            speed = _faster(speed, distance, SWING, SWINGING_UP)
            told = self._solver.joints
            after = told + left * (min(1.0, speed * TICK / distance) if distance > 0 else 0.0)
            step = np.clip(after, self._angles - AHEAD_JOINT, self._angles + AHEAD_JOINT) - told
            told += step
            self._hold()
            self._tick(step)
        return False

    def home(self) -> bool:
        """Where it begins. The gripper stays as it is."""
        return self.move_joints(self.cell.robot.home)

    def open_gripper(self) -> bool:
        return self._move_fingers(self.cell.robot.widest)

    def close_gripper(self) -> bool:
        """Until the fingers are together or something between them stops them: True for both."""
        return self._move_fingers(0.0)

    def _move_fingers(self, opening: float) -> bool:
        """Until they stop."""
        before, still, most = self.fingers(), 0, float(ACTION[4])
        for _ in range(round(1.0 / TICK)):
            self._grip += max(-most, min(most, opening - self._grip))
            self._tick(self._still)
            now = self.fingers()
            still = still + 1 if abs(now - before) < 0.0002 and self._grip == opening else 0
            before = now
            if still == 3:
                return opening == 0.0 or now > opening - 0.004
        return False

    def apply(self, action: Sequence[float]) -> None:
        """One tick of 20 ms: (dx, dy, dz, dyaw, gripper), each from -1 to 1; beyond they are cut. 1 is 10 mm, 0.05 rad,
        and 8 mm that the gripper opens; below 0 it closes."""
        dx, dy, dz, dyaw, grip = (np.clip(_numbers(action, 5, "apply: action"), -1.0, 1.0) * ACTION).tolist()
        self._target += (dx, dy, dz)
        self._target[:] = within_reach(self._target)
        self._keep_near(AHEAD)
        self._yaw = max(-pi / 2, min(pi / 2, self._yaw + dyaw))
        self._grip = max(0.0, min(self.cell.robot.widest, self._grip + grip))
        self._tick(self._solver.step(self._target, self._yaw, TICK))

    # One tick

    def _ticks(self, seconds: float) -> Iterator[float]:
        """Until the time is over or the arm has stopped: metres that the tool moved in the last tick."""
        stopped, limit = 0, float(_numbers([seconds], 1, "seconds")[0])
        for _ in range(max(1, round(min(limit, LONGEST) / TICK))):
            yield self._moved
            stopped = stopped + 1 if self._speeds @ self._speeds < IDLE * IDLE else 0
            if stopped * TICK >= STALLED:
                return

    def _tick(self, step: np.ndarray) -> None:
        """Asks for the joints the solver is at, where `step` has brought them."""
        if (self.steps + SUBSTEPS) * TIMESTEP > self._horizon + 1e-9:
            raise OutOfTime(f"{self._horizon:g} s of simulated time are over")
        model, data, cell, robot = self._model, self._data, self.cell, self.cell.robot
        # Ahead by what joints lag behind, so that the tool is where it was asked to be while it moves; less half a tick
        # in which the control already is what is wanted at its end.
        ahead = step * _AHEAD
        ahead -= self._step * _AHEAD_BEFORE
        ahead += self._solver.joints
        self._ctrl[: cell.dof] = ahead
        self._ctrl[cell.grip] = robot.closed + (robot.opened - robot.closed) * self._grip / robot.widest
        self._step[:] = step
        mujoco.mj_step(model, data, SUBSTEPS)
        if not self._qvel @ self._qvel < FASTEST**2:  # nor is NaN
            raise Broken(f"the simulation flew apart after {self.time:.2f} s")
        mujoco.mj_kinematics(model, data)  # a step leaves places as they were at its beginning
        self.steps += SUBSTEPS
        self._account()
        if self.watch is not None:
            told = self.asked
            action = np.clip(np.subtract(told, self._told) / ACTION, -1.0, 1.0)
            self._told = told
            self.watch(tuple(action.tolist()))

    def _account(self) -> None:
        data, cell, sums, trail = self._data, self.cell, self._sums, self._trail
        place = self.tool()
        self._moved = _distance(place, trail[0])
        sums["path_length"] += self._moved
        sums["energy"] += float(np.abs(self._forces) @ np.abs(self._speeds)) * TICK
        trail.insert(0, place)
        del trail[4:]
        (a, b, c), (d, e, f), (g, h, i), (j, k, m) = trail
        x, y, z = a - 3 * d + 3 * g - j, b - 3 * e + 3 * h - k, c - 3 * f + 3 * i - m
        sums["smoothness"] += (x * x + y * y + z * z) / TICK**5
        colliding = False
        if data.ncon:
            unwanted = self._unwanted
            colliding = any(unwanted[one][other] for one, other in data.contact.geom.tolist())
        sums["collisions"] += colliding and not self._colliding
        self._colliding = colliding
        if cell.button is not None and self._qpos[cell.button] >= PRESSED:
            self._pressed = True

    def _hold(self) -> None:
        """What is wanted of the tool becomes what the joints were told last."""
        self._target[:], yaw = self._solver.pose()
        self._yaw = turned(yaw)

    def _keep_near(self, distance: float) -> bool:
        """Draws the target to within this distance of the tool. Whether it had to."""
        ahead = self._target - self._place
        length = sqrt(ahead @ ahead)
        if length <= distance:
            return False
        self._target -= ahead * (1.0 - distance / length)
        return True

    # Contacts

    def _contacts(self) -> Any:
        """Of everything where it is now. The simulation itself forgets contacts of what sleeps."""
        return self._looked_at().contact

    def _looked_at(self) -> mujoco.MjData:
        looking = self._looking
        if looking is None:
            looking = self._looking = mujoco.MjData(self.cell.awake)
        looking.qpos[:] = self._qpos
        mujoco.mj_fwdPosition(self.cell.awake, looking)
        return looking

    def _joints_within(self, joints: Sequence[float], what: str) -> np.ndarray:
        found = _numbers(joints, self.cell.dof, f"{what}: joints")
        if (found < self._low).any() or (found > self._high).any():
            raise UserError(f"{what}: joints beyond their limits")
        return found


def _unwanted(classes: np.ndarray) -> list[list[bool]]:
    """Of each geom with each: the links of a robot must touch nothing, its fingers nothing that is fixed."""
    link, finger = classes == LINK, (classes == LEFT) | (classes == RIGHT)
    fixed = (classes == TABLE) | (classes == HOUSING)
    found = link[:, None] | (finger[:, None] & fixed[None, :])
    return (found | found.T).tolist()


def _numbers(values: Any, size: int, what: str) -> np.ndarray:
    try:
        found = np.array(values, np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (size,) or not np.isfinite(found).all():
        raise UserError(f"{what} must be {size} finite number{'s' * (size > 1)}")
    return found


def within_reach(position: np.ndarray) -> np.ndarray:
    """The nearest place where the tool can be, gripper down."""
    x, y, z = position.tolist()
    z, distance = max(LOWEST, min(HIGHEST, z)), hypot(x, y)
    if distance < 1e-9:
        x, distance = 1e-9, 1e-9
    factor = max(NEAREST, min(farthest(z), distance)) / distance
    return np.array([x * factor, y * factor, z])


def farthest(height: Any) -> Any:
    """Metres from the vertical through the base, at this height or these."""
    over = height - _LEVEL
    return FARTHEST - _SLOPE * over * (over > 0)


def _faster(speed: float, left: float, limit: float, acceleration: float) -> float:
    """The next speed of something that must still go so far and stop there."""
    return min(speed + acceleration * TICK, limit, max(sqrt(2 * acceleration * left) - acceleration * TICK / 2, 0.01))


def _distance(one: Point, other: Point) -> float:
    return sqrt((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2 + (one[2] - other[2]) ** 2)


def turned(angle: float) -> float:
    """The same angle for a gripper, to which half turns are nothing: from -pi/2 to pi/2."""
    return (angle + pi / 2) % pi - pi / 2
