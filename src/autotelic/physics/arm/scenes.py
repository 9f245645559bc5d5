"""What is on the table. A `Scene` is plain values, so that it can be a task's, compared and written down; `compiled`
makes a `Cell` of it, once.

The table: x forward from the robot's base, y to the left, z up from its top. Things stand where x is 0.35 to 0.65 and y
-0.3 to 0.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import cos, isfinite, pi, sin
from typing import TYPE_CHECKING

import numpy as np

from autotelic.errors import UserError
from autotelic.registry import nearest

if TYPE_CHECKING:
    from autotelic.physics.arm.cell import Cell

COLORS: dict[str, tuple[float, float, float, float]] = {
    "red": (0.84, 0.22, 0.20, 1),
    "green": (0.24, 0.62, 0.32, 1),
    "blue": (0.18, 0.42, 0.80, 1),
    "yellow": (0.93, 0.77, 0.20, 1),
    "orange": (0.92, 0.50, 0.14, 1),
    "purple": (0.52, 0.30, 0.66, 1),
    "cyan": (0.20, 0.68, 0.72, 1),
    "white": (0.94, 0.94, 0.92, 1),
}
SHAPES: dict[str, int] = {"box": 3, "cylinder": 2, "sphere": 1}  # how many numbers the size of each has
KINDS = ("bin", "drawer", "button")
X_RANGE, Y_RANGE = (0.35, 0.65), (-0.3, 0.3)  # where things stand
SMALLEST, LARGEST = 0.008, 0.06  # m: every half extent, radius and half height
LIGHTEST, HEAVIEST = 0.01, 2.0  # kg
SLICKEST, ROUGHEST = 0.1, 2.0  # friction
MOST_THINGS = 8
# Where fixtures may stand (x, y) and how far each may be turned: their handles, insides and caps must be reached.
FIXTURE_RANGES: dict[str, tuple[tuple[float, float], tuple[float, float], float]] = {
    "bin": ((0.40, 0.62), (-0.3, 0.3), pi),
    "drawer": ((0.62, 0.75), (-0.25, 0.25), 0.5),
    "button": ((0.35, 0.65), (-0.3, 0.3), pi),
}

Placement = tuple[float, float, float]  # x, y, yaw of a thing on the table; z follows from its shape
Load = tuple[float, float]  # factors of the mass and the friction of a thing


@dataclass(frozen=True)
class Thing:
    """Something that can be moved."""

    name: str
    shape: str  # box, cylinder (upright) or sphere
    size: tuple[float, ...]  # m: three half extents; radius and half height; radius
    color: str
    mass: float = 0.1  # kg
    friction: float = 1.0

    @property
    def half_height(self) -> float:
        return self.size[-1]


@dataclass(frozen=True)
class Fixture:
    """Something that stays where it is. A drawer opens towards -x of its own frame, which is towards the robot."""

    name: str
    kind: str  # bin, drawer or button
    x: float
    y: float
    yaw: float = 0.0


@dataclass(frozen=True)
class Mark:
    """A place with a name. There is nothing to touch."""

    name: str
    x: float
    y: float
    z: float


@dataclass(frozen=True)
class Scene:
    things: tuple[Thing, ...] = ()
    fixtures: tuple[Fixture, ...] = ()
    robot: str = "arm7"
    marks: tuple[Mark, ...] = ()


def compiled(scene: Scene) -> Cell:
    """The scene's model; a scene that cannot be is a UserError of one line."""
    try:
        hash(scene)
    except TypeError as error:
        raise UserError(f"scene: all of it must be plain values and tuples of them ({error})") from error
    return _compiled(scene)


@lru_cache(maxsize=256)
def _compiled(scene: Scene) -> Cell:
    from autotelic.physics.arm.cell import build

    check(scene)
    return build(scene)


# What can be


def check(scene: Scene) -> None:
    """Whether a scene can be, before anything is built."""
    names = [part.name for part in (*scene.things, *scene.fixtures)]
    for name in names:
        if not name.isidentifier():
            raise UserError(f"scene: '{name}' is no name: letters, digits and _ only")
        if name in RESERVED:
            raise UserError(f"scene: '{name}' is the name of something that is always there")
        if names.count(name) > 1:
            raise UserError(f"scene: '{name}' is there {names.count(name)} times; names must differ")
    if len(scene.things) > MOST_THINGS:
        raise UserError(f"scene: {len(scene.things)} things; at most {MOST_THINGS} can be there")
    for thing in scene.things:
        _check_thing(thing)
    for fixture in scene.fixtures:
        _check_fixture(fixture)
    kinds = [fixture.kind for fixture in scene.fixtures]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise UserError(f"scene: {kinds.count(kind)} fixtures of kind {kind}; there can be one")
    for one, other in combinations(scene.fixtures, 2):
        if _overlap(_swept(one), _swept(other)):
            raise UserError(f"scene: {one.name} and {other.name} stand in each other's way")


RESERVED = ("table", "gripper", "robot", "floor")  # what readings call everything else


def _check_thing(thing: Thing) -> None:
    where = f"scene: {thing.name}"
    if thing.shape not in SHAPES:
        raise UserError(f"{where}: no shape named '{thing.shape}': {nearest(thing.shape, list(SHAPES))}")
    if thing.color not in COLORS:
        raise UserError(f"{where}: no color named '{thing.color}': {nearest(thing.color, list(COLORS))}")
    if len(thing.size) != SHAPES[thing.shape]:
        raise UserError(f"{where}: the size of a {thing.shape} is {SHAPES[thing.shape]} numbers, not {len(thing.size)}")
    for key, values, low, high in (
        ("size", thing.size, SMALLEST, LARGEST),
        ("mass", (thing.mass,), LIGHTEST, HEAVIEST),
        ("friction", (thing.friction,), SLICKEST, ROUGHEST),
    ):
        for value in values:
            _check_range(f"{where}: {key}", value, low, high)


def _check_fixture(fixture: Fixture) -> None:
    where = f"scene: {fixture.name}"
    if fixture.kind not in KINDS:
        raise UserError(f"{where}: no fixture of kind '{fixture.kind}': {nearest(fixture.kind, list(KINDS))}")
    along, across, turn = FIXTURE_RANGES[fixture.kind]
    _check_range(f"{where}: x", fixture.x, *along)
    _check_range(f"{where}: y", fixture.y, *across)
    _check_range(f"{where}: yaw", fixture.yaw, -turn, turn)


def _check_range(what: str, value: float, low: float, high: float) -> None:
    if not (isinstance(value, int | float) and isfinite(value) and low <= value <= high):
        raise UserError(f"{what} {value} must be a number from {low:g} to {high:g}")


# What is where


_Area = tuple[np.ndarray, np.ndarray, float, float]  # middle, unit vector along, half length along, half width across

BIN_INSIDE, BIN_WALL, BIN_HEIGHT = 0.085, 0.005, 0.06  # half width, half thickness of walls, height
CABINET = (0.10, 0.11, 0.115)  # half depth, half width, height
HANDLE = (
    -0.155,
    0.075,
)  # the middle of the bar: along x from the cabinet's middle, and up
TRAVEL = 0.15  # m that a drawer opens
BUTTON = 0.035  # half width


def _fixture_area(fixture: Fixture, front: float) -> _Area:
    """The rectangle of a fixture; `front` is how far a drawer's reaches before its cabinet."""
    outside = BIN_INSIDE + 2 * BIN_WALL
    back, width = {"bin": (outside, outside), "drawer": CABINET[:2], "button": (BUTTON, BUTTON)}[fixture.kind]
    low = -back - (front if fixture.kind == "drawer" else 0.0)
    along = np.array([cos(fixture.yaw), sin(fixture.yaw)])
    return np.array([fixture.x, fixture.y]) + along * (low + back) / 2, along, (back - low) / 2, width


def _swept(fixture: Fixture) -> _Area:
    """With all the room an opening drawer needs."""
    return _fixture_area(fixture, 0.065 + TRAVEL)


def _thing_area(thing: Thing, placement: Placement) -> _Area:
    x, y, yaw = placement
    half = thing.size[:2] if thing.shape == "box" else (thing.size[0], thing.size[0])
    return np.array([x, y]), np.array([cos(yaw), sin(yaw)]), half[0], half[1]


def _overlap(one: _Area, other: _Area, margin: float = 0.0) -> bool:
    """Rectangles are apart where a line along a side of one of them separates them."""
    for _, along, _, _ in (one, other):
        for axis in (along, np.array([-along[1], along[0]])):
            reach = sum(
                length * abs(axis @ way) + width * abs(axis[1] * way[0] - axis[0] * way[1])
                for _, way, length, width in (one, other)
            )
            if abs(axis @ (other[0] - one[0])) >= reach + margin:
                return False
    return True


def in_the_way(scene: Scene, placements: Mapping[str, Placement], margin: float = 0.005) -> tuple[str, str] | None:
    """Two things, or a thing and a fixture, that these placements put into each other or nearer than `margin`; None
    where there are none. A thing may stand within a bin."""
    areas = {thing.name: _thing_area(thing, placements[thing.name]) for thing in scene.things}
    for one, other in combinations(areas, 2):
        if _overlap(areas[one], areas[other], margin):
            return one, other
    for fixture in scene.fixtures:
        for name, area in areas.items():
            if _overlap(area, _fixture_area(fixture, 0.065), margin) and not _within(area, fixture, margin):
                return name, fixture.name
    return None


def _within(area: _Area, fixture: Fixture, margin: float) -> bool:
    """Whether all of an area is between the walls of a bin."""
    if fixture.kind != "bin":
        return False
    middle, along, length, width = area
    across, bin_along = np.array([-along[1], along[0]]), np.array([cos(fixture.yaw), sin(fixture.yaw)])
    for axis in (bin_along, np.array([-bin_along[1], bin_along[0]])):
        reach = length * abs(axis @ along) + width * abs(axis @ across)
        if abs(axis @ (middle - (fixture.x, fixture.y))) + reach > BIN_INSIDE - margin:
            return False
    return True
