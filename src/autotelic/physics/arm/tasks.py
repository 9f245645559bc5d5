"""The seven families of tasks as environments: reach, push, lift, pick and place, stack, open a drawer, press a
button."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi
from typing import Any, ClassVar

import numpy as np

from autotelic.physics.arm.environment import LET_GO, ArmConfig, ArmTask, Snapshot
from autotelic.physics.arm.scenes import BIN_HEIGHT, BIN_INSIDE, TRAVEL, Fixture, Scene, Thing

NEAR = 0.02  # m within which a tool has reached its goal
PUSHED = 0.03  # m, over the table, within which a thing has been pushed there
LIFTED = 0.10  # m above the table
OPEN = 0.8  # of a drawer's travel


def _between(drawn: np.ndarray, low: float, high: float) -> np.ndarray:
    return low + (high - low) * drawn


def _distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.linalg.norm(one - other, axis=1)


def _close(distance: np.ndarray, scale: float) -> np.ndarray:
    """1 where there is no distance, a half at `scale`, never flat."""
    return 1.0 / (1.0 + distance / scale)


def _box(color: str, half: float) -> Thing:
    return Thing(f"{color}_box", "box", (half, half, half), color)


def _placements(drawn: np.ndarray) -> np.ndarray:
    """[n, 3]: anywhere on the table."""
    x, y, yaw = drawn[:, 0], drawn[:, 1], drawn[:, 2]
    return np.stack([_between(x, 0.38, 0.62), _between(y, -0.25, 0.25), _between(yaw, -pi, pi)], axis=1)


def _apart(drawn: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Two placements, one on either side, `least` metres from the middle or more."""
    side = np.where(drawn[:, 6] < 0.5, -1.0, 1.0)
    one, other = _placements(drawn[:, :3]), _placements(drawn[:, 3:6])
    one[:, 1] = side * _between(drawn[:, 1], least, 0.25)
    other[:, 1] = -side * _between(drawn[:, 4], least, 0.25)
    return one, other


@dataclass(frozen=True)
class ArmReachConfig(ArmConfig):
    """Quickly learned."""

    seconds: float = 2.0

    beside: ClassVar[Mapping[str, Any]] = {**ArmConfig.beside, "usual_steps": 500_000}


class ArmReach(ArmTask):
    """To bring the tool to a point, and to stay there."""

    name = "arm-reach"
    instruction = "bring the gripper to the goal"
    Config: ClassVar[type[ArmReachConfig]] = ArmReachConfig
    scales: ClassVar = {"near": 1.0, "close": 1.0, "success": 2.0, "action_rate": -0.02}
    has_goal = True

    def place(self, drawn: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        x, y, z = drawn[:, :3].T
        return {}, np.stack([_between(x, 0.35, 0.65), _between(y, -0.3, 0.3), _between(z, 0.03, 0.35)], axis=1)

    def done(self, now: Snapshot) -> np.ndarray:
        return _distance(now.tool, now.goal) < NEAR

    def terms(self, now: Snapshot) -> dict[str, np.ndarray]:
        distance = _distance(now.tool, now.goal)
        return {"near": _close(distance, 0.2), "close": _close(distance, 0.02)}


class ArmPush(ArmTask):
    """To push a box over the table to a place."""

    name = "arm-push"
    instruction = "push the red box to the goal"
    scene = Scene((_box("red", 0.025),))
    scales: ClassVar = {"reach": 0.5, "near": 2.0, "close": 2.0, "success": 3.0, "action_rate": -0.02}
    has_goal = True

    def place(self, drawn: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        start = _placements(drawn)
        start[:, 0], start[:, 1] = _between(drawn[:, 0], 0.45, 0.56), _between(drawn[:, 1], -0.18, 0.18)
        angle, distance = _between(drawn[:, 3], -pi, pi), _between(drawn[:, 4], 0.07, 0.12)
        way = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        goal = np.concatenate([start[:, :2] + distance[:, None] * way, np.full((len(start), 1), 0.025)], axis=1)
        return {"red_box": start}, goal

    def done(self, now: Snapshot) -> np.ndarray:
        box = now.things["red_box"]
        return (_distance(box[:, :2], now.goal[:, :2]) < PUSHED) & (box[:, 2] < 0.035)

    def terms(self, now: Snapshot) -> dict[str, np.ndarray]:
        box = now.things["red_box"]
        distance = _distance(box[:, :2], now.goal[:, :2])
        reach = _close(np.maximum(_distance(now.tool, box) - 0.03, 0.0), 0.1)
        return {"reach": reach, "near": _close(distance, 0.1), "close": _close(distance, 0.02)}


class Grasping(ArmTask):
    """What tasks share in which the red box is gripped."""

    half: ClassVar[float] = 0.02

    def grasp(self, now: Snapshot) -> dict[str, np.ndarray]:
        """How near fingers are to the box, and whether they hold it, as far as one sees without touch."""
        box = now.things["red_box"]
        return {"reach": _close(_distance(now.tool, box), 0.05), "grip": self.gripped(now).astype(float)}

    def gripped(self, now: Snapshot) -> np.ndarray:
        around = _distance(now.tool, now.things["red_box"]) < 0.02
        return around & (np.abs(now.fingers - 2 * self.half) < 0.006)

    def let_go(self, now: Snapshot) -> np.ndarray:
        return (now.fingers > 2 * self.half + LET_GO) | (_distance(now.tool, now.things["red_box"]) > 0.06)


class ArmLift(Grasping):
    """To lift a box, and to hold it there."""

    name = "arm-lift"
    instruction = "lift the red box"
    scene = Scene((_box("red", Grasping.half),))
    scales: ClassVar = {"reach": 1.0, "grip": 0.5, "height": 4.0, "success": 4.0, "action_rate": -0.02}

    def place(self, drawn: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        return {"red_box": _placements(drawn)}, np.zeros((len(drawn), 3))

    def done(self, now: Snapshot) -> np.ndarray:
        return (now.things["red_box"][:, 2] - self.half > LIFTED) & self.gripped(now)

    def terms(self, now: Snapshot) -> dict[str, np.ndarray]:
        height = np.clip((now.things["red_box"][:, 2] - self.half) / LIFTED, 0.0, 1.0)
        return {**self.grasp(now), "height": height}


class ArmPickPlace(Grasping):
    """To put a box into a bin, and to let go of it."""

    name = "arm-pick-place"
    instruction = "put the red box into the bin"
    scene = Scene((_box("red", Grasping.half),), (Fixture("bin", "bin", 0.5, 0.2),))
    scales: ClassVar = {
        "reach": 1.0,
        "grip": 0.5,
        "height": 2.0,
        "over": 4.0,
        "inside": 4.0,
        "success": 8.0,
        "action_rate": -0.02,
    }

    def place(self, drawn: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        box, bin_ = _apart(drawn, 0.0)
        bin_[:, 0] = _between(drawn[:, 3], 0.42, 0.58)
        bin_[:, 1] = np.where(bin_[:, 1] < 0, -1.0, 1.0) * _between(drawn[:, 4], 0.16, 0.25)
        return {"red_box": box, "bin": bin_}, np.zeros((len(drawn), 3))

    def _inside(self, now: Snapshot) -> np.ndarray:
        off = np.abs(now.things["red_box"] - now.fixtures["bin"])
        return (off[:, :2].max(axis=1) < BIN_INSIDE) & (off[:, 2] < BIN_HEIGHT)

    def done(self, now: Snapshot) -> np.ndarray:
        return self._inside(now) & (now.things["red_box"][:, 2] < self.half + 0.02) & self.let_go(now)

    def terms(self, now: Snapshot) -> dict[str, np.ndarray]:
        box, inside = now.things["red_box"], self._inside(now).astype(float)
        height = np.clip((box[:, 2] - self.half) / LIFTED, 0.0, 1.0)
        over = _close(_distance(box[:, :2], now.fixtures["bin"][:, :2]), 0.1) * np.maximum(height, inside)
        grasp = {name: np.maximum(values, inside) for name, values in self.grasp(now).items()}
        return {**grasp, "height": np.maximum(height, inside), "over": over, "inside": inside}


class ArmStack(Grasping):
    """To put the red box onto the blue one, and to let go of it."""

    name = "arm-stack"
    instruction = "put the red box onto the blue box"
    base: ClassVar[float] = 0.025  # half a side of the blue box
    scene = Scene((_box("red", Grasping.half), _box("blue", base)))
    scales: ClassVar = {
        "reach": 1.0,
        "grip": 0.5,
        "height": 2.0,
        "over": 4.0,
        "success": 12.0,
        "action_rate": -0.02,
    }

    def place(self, drawn: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        red, blue = _apart(drawn, 0.05)
        return {"red_box": red, "blue_box": blue}, np.zeros((len(drawn), 3))

    def done(self, now: Snapshot) -> np.ndarray:
        off = now.things["red_box"] - now.things["blue_box"]
        level = np.abs(off[:, 2] - self.half - self.base) < 0.006
        return (np.linalg.norm(off[:, :2], axis=1) < self.base) & level & self.let_go(now)

    def terms(self, now: Snapshot) -> dict[str, np.ndarray]:
        red, blue = now.things["red_box"], now.things["blue_box"]
        above = blue[:, 2] + self.base + self.half
        height = np.clip((red[:, 2] - self.half) / (above - self.half), 0.0, 1.0)
        target = np.stack([blue[:, 0], blue[:, 1], above], axis=1)
        done = self.done(now)
        grasp = {name: np.maximum(values, done) for name, values in self.grasp(now).items()}
        return {**grasp, "height": height, "over": _close(_distance(red, target), 0.05) * height}


class ArmDrawer(ArmTask):
    """To pull a drawer open."""

    name = "arm-drawer"
    instruction = "pull the drawer open"
    scene = Scene((), (Fixture("drawer", "drawer", 0.68, 0.0),))
    scales: ClassVar = {"reach": 1.0, "opening": 4.0, "success": 4.0, "action_rate": -0.02}

    def place(self, drawn: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        drawer = np.stack(
            [_between(drawn[:, 0], 0.64, 0.72), _between(drawn[:, 1], -0.2, 0.2), np.zeros(len(drawn))], axis=1
        )
        return {"drawer": drawer}, np.zeros((len(drawn), 3))

    def done(self, now: Snapshot) -> np.ndarray:
        return now.drawer > OPEN * TRAVEL

    def terms(self, now: Snapshot) -> dict[str, np.ndarray]:
        opening = np.clip(now.drawer / (OPEN * TRAVEL), 0.0, 1.0)
        return {"reach": _close(_distance(now.tool, now.fixtures["drawer"]), 0.05), "opening": opening}


class ArmButton(ArmTask):
    """To press a button once."""

    name = "arm-button"
    instruction = "press the button"
    scene = Scene((), (Fixture("button", "button", 0.5, 0.0),))
    scales: ClassVar = {"reach": 1.0, "success": 4.0, "action_rate": -0.02}

    def place(self, drawn: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        return {"button": _placements(drawn)}, np.zeros((len(drawn), 3))

    def done(self, now: Snapshot) -> np.ndarray:
        return now.pressed

    def terms(self, now: Snapshot) -> dict[str, np.ndarray]:
        return {"reach": _close(_distance(now.tool, now.fixtures["button"]), 0.05)}


FAMILIES: tuple[type[ArmTask], ...] = (ArmReach, ArmPush, ArmLift, ArmPickPlace, ArmStack, ArmDrawer, ArmButton)
