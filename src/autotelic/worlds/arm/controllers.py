"""What a controller may ask of the robot and of the world, and who answers it.

A controller is a Python program with `def execute_controller(robot, world)`. It runs in the sandbox; `robot` and
`world` are objects there whose every call arrives here, where the simulation is. The public methods below are the whole
interface: what prompts say of it is generated from their signatures and docstrings. Every argument is checked. What is
wrong with one is raised inside the program, as an exception of its own; budgets that are used up end it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any

from autotelic.physics.arm.control import Arm, OutOfTime
from autotelic.physics.arm.scenes import Scene
from autotelic.worlds.arm import goals
from autotelic.worlds.arm.places import region_of
from autotelic.worlds.code.sandbox import Remote, RemoteError

ENTRY = "execute_controller"
STATUSES = {"success": True, "failure": False, "continue": None}
FAR = 2.0  # metres: no coordinate of a target is larger
ANGLE = 2 * math.pi
ACTION = 5  # dx, dy, dz, dyaw, gripper


class OutOfCallsError(Exception):
    """The program has made all the calls that it may make."""


class Robot:
    """The arm: where it is, and what it shall do. A movement returns when it is done, True if it got there."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self._actions: list[str] = []

    def get_end_effector_position(self) -> list[float]:
        """The point between the fingertips: [x, y, z] in metres. x is forward, y to the left, z up from the table."""
        return list(map(float, self._arm.tool()))

    def get_joint_positions(self) -> list[float]:
        """The angles of the arm's joints, in radians, from the base on."""
        return list(map(float, self._arm.joints()))

    def move_to(self, position: list[float], yaw: float | None = None, above: float = 0.0) -> bool:
        """Moves the fingertips in a straight line to [x, y, z], or to `above` metres over it. The gripper points down;
        `yaw` turns it about the vertical, in radians. The gripper stays as it is, open or closed."""
        x, y, z = _numbers(position, 3, "position", FAR)
        lift = _number(above, "above", FAR)
        turn = None if yaw is None else _number(yaw, "yaw", ANGLE)
        return self._did("move_to", self._arm.move_to((x, y, z + lift), turn))

    def move_joints(self, joints: list[float]) -> bool:
        """Moves every joint to its angle, in radians; as many as get_joint_positions gives."""
        count = len(self._arm.joints())
        return self._did("move_joints", self._arm.move_joints(_numbers(joints, count, "joints", ANGLE)))

    def open_gripper(self) -> bool:
        """Opens the gripper; what it held is let go."""
        return self._did("open_gripper", self._arm.open_gripper())

    def close_gripper(self) -> bool:
        """Closes the gripper until it meets a thing or itself."""
        return self._did("close_gripper", self._arm.close_gripper())

    def home(self) -> bool:
        """Moves back to where the arm was at the start, above the middle of the table."""
        return self._did("home", self._arm.home())

    def apply_action(self, action: list[float]) -> None:
        """One small step of 20 milliseconds: [dx, dy, dz, dyaw, gripper], each from -1 to 1. The first four are shares
        of the largest step; gripper is 1 to open and -1 to close."""
        values = _numbers(action, ACTION, "action", 1e9)
        self._did("apply_action", True)
        self._arm.apply(tuple(min(1.0, max(-1.0, value)) for value in values))

    def get_actions(self) -> list[str]:
        """The names of the movements made so far, the newest last."""
        return list(self._actions[-100:])

    def get_path_efficiency(self) -> float:
        """The straight way from the start to here as a share of the way that the fingertips went, 0 to 1."""
        return float(self._arm.metrics["path_efficiency"])

    def get_energy_efficiency(self) -> float:
        """Metres that the fingertips went for each joule spent so far."""
        energy = float(self._arm.metrics["energy"])
        return float(self._arm.metrics["path_length"]) / energy if energy > 0 else 0.0

    def _did(self, name: str, arrived: bool) -> bool:
        self._actions.append(name)
        return bool(arrived)


class World:
    """What is on the table. Names are like red_box; fixtures are bin, drawer and button."""

    def __init__(self, arm: Arm, scene: Scene) -> None:
        self._arm, self._scene = arm, scene
        self._things = {thing.name: thing for thing in scene.things}
        self._marks = {mark.name: [mark.x, mark.y, mark.z] for mark in scene.marks}
        self._names = [*self._things, *(fixture.name for fixture in scene.fixtures), *self._marks]

    def objects(self) -> list[str]:
        """The names of all that is there, fixtures last."""
        return list(self._names)

    def position(self, name: str) -> list[float]:
        """[x, y, z] of the middle of a thing; of the drawer its handle, of the button its top, of the bin the middle of
        its floor."""
        if self._known(name) in self._marks:
            return list(self._marks[name])
        return list(map(float, self._arm.position(name)))

    def pose(self, name: str) -> list[float]:
        """Position and orientation: [x, y, z, qw, qx, qy, qz]."""
        if self._known(name) in self._marks:
            return [*self._marks[name], 1.0, 0.0, 0.0, 0.0]
        return list(map(float, self._arm.pose(name)))

    def size(self, name: str) -> list[float]:
        """Half lengths of a box [x, y, z]; radius and half height of a cylinder; radius of a sphere."""
        return list(self._thing(name).size)

    def color(self, name: str) -> str:
        """The colour of a thing."""
        return self._thing(name).color

    def region(self, name: str) -> str:
        """Where a thing is now: left, middle or right on the table, bin, drawer, gripper or floor. Left begins at y =
        0.1 and right at -0.1; goals that ask for a region want 2 cm more."""
        return ending_region(self._scene, state_of(self._arm), self._thing(name).name)

    def _known(self, name: object) -> str:
        if type(name) is not str or name not in self._names:
            raise RemoteError("ValueError", f"nothing is called {name!r:.60}: {', '.join(self._names)}")
        return name

    def _thing(self, name: object) -> Any:
        thing = self._things.get(self._known(name))
        if thing is None:
            raise RemoteError("ValueError", f"{name} is a {'mark' if name in self._marks else 'fixture'}")
        return thing


def state_of(arm: Arm) -> goals.State:
    """What the simulation says, as goals look at it."""
    readings = arm.readings()
    positions = {name: pose[:3] for name, pose in readings.poses.items()}
    positions |= {mark.name: (mark.x, mark.y, mark.z) for mark in arm.cell.scene.marks}
    touched = frozenset(name for pair in readings.touching if "gripper" in pair for name in pair) - {"gripper"}
    opening, pressed = readings.opening or 0.0, bool(readings.pressed)
    return goals.State(readings.tool, positions, frozenset(readings.held), touched, opening, pressed)


def ending_region(scene: Scene, state: goals.State, name: str) -> str:
    """Where a thing is, in one word."""
    containers = {
        fixture.name: goals.distance(goals.Predicate("inside", (name, fixture.name)), scene, state) == 0.0
        for fixture in scene.fixtures
        if fixture.kind in ("bin", "drawer")
    }
    return region_of(scene, state.positions[name], name in state.held, containers)


class Host:
    """Answers the calls of one program. Counts them, and ends a program that makes too many."""

    def __init__(self, arm: Arm, scene: Scene, calls: int, horizon: float) -> None:
        self._sides: dict[str, Any] = {"robot": Robot(arm), "world": World(arm, scene)}
        self._arm, self._horizon = arm, horizon
        self.left = calls

    def answer(self, remote: str, method: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        self.spend()
        side = self._sides[remote]
        try:
            signature_of(type(side), method).bind(side, *args, **keywords)
        except TypeError as error:
            raise RemoteError("TypeError", f"{method}: {error}") from None
        found = getattr(side, method)(*args, **keywords)
        if self._arm.time > self._horizon:
            raise OutOfTime
        return found

    def spend(self) -> None:
        """One call less, whoever makes it."""
        if self.left <= 0:
            raise OutOfCallsError
        self.left -= 1


@cache
def signature_of(side: type, method: str) -> inspect.Signature:
    return inspect.signature(getattr(side, method))


@cache
def methods(side: type) -> tuple[str, ...]:
    """The public methods of a side, as they are written."""
    return tuple(name for name, value in vars(side).items() if inspect.isfunction(value) and not name.startswith("_"))


ROBOT = Remote("robot", methods(Robot))
WORLD = Remote("world", methods(World))


@cache
def interface_text() -> str:
    """All that a controller may call, in words for a prompt."""
    lines: list[str] = []
    for name, side in (("robot", Robot), ("world", World)):
        lines.append(f"{name}: {_one_line(side)}")
        for method in methods(side):
            lines.append(f"  {name}.{method}{_shown(getattr(side, method))}")
            lines.append(f"      {_one_line(getattr(side, method))}")
    return "\n".join(lines)


def _one_line(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split())


def _shown(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    kept = [value for name, value in signature.parameters.items() if name != "self"]
    return str(signature.replace(parameters=kept)).replace("'", "")


# Checking arguments


def _number(value: object, what: str, most: float) -> float:
    if type(value) not in (int, float):
        raise RemoteError("TypeError", f"{what} must be a number, not {type(value).__name__}")
    assert isinstance(value, int | float)
    if not abs(value) <= most:  # NaN is not either, and a whole number may be too large for a float
        raise RemoteError("ValueError", f"{what} must be a finite number, at most {most:g} either way")
    return float(value)


def _numbers(values: object, count: int, what: str, most: float) -> tuple[float, ...]:
    if not isinstance(values, list | tuple) or len(values) != count:
        raise RemoteError("TypeError", f"{what} must be a list of {count} numbers")
    return tuple(_number(value, what, most) for value in values)
