"""Where things are on the table: regions with names, spots, sizes, and starts that are drawn at random."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from autotelic.physics.arm.scenes import BIN_HEIGHT, BIN_INSIDE, CABINET, HANDLE, Fixture, Load, Placement, Scene, Thing

FRONT, BACK = 0.35, 0.65  # x of the part of the table where things stand
SIDE = 0.3  # and its y, to the left and, negative, to the right
REGIONS: dict[str, tuple[float, float, float, float]] = {  # lowest x, highest x, lowest y, highest y
    "left": (0.2, 0.85, 0.12, 0.6),
    "middle": (0.2, 0.85, -0.08, 0.08),
    "right": (0.2, 0.85, -0.6, -0.12),
    "front": (0.2, 0.43, -0.6, 0.6),
    "back": (0.57, 0.85, -0.6, 0.6),
}
SPOTS: dict[str, tuple[float, float]] = {
    f"{row}_{column}": (x, y)
    for row, x in (("front", 0.4), ("back", 0.55))
    for column, y in (("left", 0.2), ("middle", 0.0), ("right", -0.2))
}
SIZES: dict[str, tuple[float, ...]] = {"box": (0.02, 0.02, 0.02), "cylinder": (0.02, 0.03), "sphere": (0.022,)}
GAP = 0.035  # metres that things keep from each other in starts that are drawn: room for a finger
TRIES = 200  # starts that are drawn until one has room for all

# What fixtures take of the table, along and across, from their middle.
FOOTPRINTS: dict[str, tuple[float, float, float, float]] = {  # lowest and highest along, lowest and highest across
    "bin": (-0.095, 0.095, -0.095, 0.095),
    "drawer": (-CABINET[0] - 0.065, CABINET[0], -CABINET[1], CABINET[1]),
    "button": (-0.035, 0.035, -0.035, 0.035),
}
# What is inside containers: the middle, along from the point that is their position; half lengths; the highest z.
INNER: dict[str, tuple[float, float, float, float]] = {
    "bin": (0.0, BIN_INSIDE, BIN_INSIDE, BIN_HEIGHT),
    "drawer": (-HANDLE[0] - 0.014, 0.084, 0.089, 0.075),
}
FIXED: dict[str, Placement] = {"bin": (0.5, -0.2, 0.0), "drawer": (0.74, 0.05, 0.0), "button": (0.4, 0.25, 0.0)}


def half_width(thing: Thing) -> float:
    """From the centre of a thing to its nearest side."""
    return min(thing.size[:2]) if thing.shape == "box" else thing.size[0]


def radius(thing: Thing) -> float:
    """Of the circle around a thing, whichever way it is turned."""
    return math.hypot(*thing.size[:2]) if thing.shape == "box" else thing.size[0]


def centre_height(thing: Thing) -> float:
    """Above the table, of a thing that stands on it."""
    return thing.size[-1]


def distance_to_region(region: str, x: float, y: float) -> float:
    low_x, high_x, low_y, high_y = REGIONS[region]
    return math.hypot(max(low_x - x, x - high_x, 0.0), max(low_y - y, y - high_y, 0.0))


def share_ground(region: str, other: str) -> bool:
    """Whether there is a place in both."""
    (low_x, high_x, low_y, high_y), (near_x, far_x, near_y, far_y) = REGIONS[region], REGIONS[other]
    return max(low_x, near_x) <= min(high_x, far_x) and max(low_y, near_y) <= min(high_y, far_y)


def in_frame(fixture: Fixture, x: float, y: float) -> tuple[float, float]:
    """A place as the fixture sees it: along and across, from its middle."""
    dx, dy = x - fixture.x, y - fixture.y
    cos, sin = math.cos(fixture.yaw), math.sin(fixture.yaw)
    return cos * dx + sin * dy, cos * dy - sin * dx


def crowded(scene: Scene, start: Mapping[str, Placement], gap: float = GAP) -> tuple[str, str] | None:
    """Two names that are nearer to each other than a gap, if any are. Things count as circles: however they are turned,
    the gripper has room between them."""
    placed: list[tuple[Thing, float, float]] = []
    for thing in scene.things:
        x, y, _ = start[thing.name]
        for fixture in scene.fixtures:
            low, high, right, left = FOOTPRINTS[fixture.kind]
            along, across = in_frame(fixture, x, y)
            apart = math.hypot(max(low - along, along - high, 0.0), max(right - across, across - left, 0.0))
            if apart < radius(thing) + gap:
                return thing.name, fixture.name
        for other, other_x, other_y in placed:
            if math.hypot(x - other_x, y - other_y) < radius(thing) + radius(other) + gap:
                return other.name, thing.name
        placed.append((thing, x, y))
    return None


def drawn(
    scene: Scene, start: Mapping[str, Placement], position: float, yaw: float, rng: np.random.Generator
) -> dict[str, Placement]:
    """A start near the one given: each thing up to `position` metres away along each axis, but on the table, and turned
    by up to `yaw`."""
    found: dict[str, Placement] = {}
    for thing in scene.things:
        x, y, turned = start[thing.name]
        low_x, high_x = max(FRONT, x - position), min(BACK, x + position)
        low_y, high_y = max(-SIDE, y - position), min(SIDE, y + position)
        share = rng.random(3)
        found[thing.name] = (
            float(low_x + share[0] * (high_x - low_x)) if position else x,
            float(low_y + share[1] * (high_y - low_y)) if position else y,
            float(turned + (2 * share[2] - 1) * yaw),
        )
    return found


def drawn_loads(scene: Scene, mass: float, friction: float, rng: np.random.Generator) -> dict[str, Load]:
    """Factors of mass and friction, as likely above 1 as below; none where neither may change."""
    if not mass and not friction:
        return {}
    spread = np.log1p([mass, friction])
    return {thing.name: _pair(np.exp((2 * rng.random(2) - 1) * spread)) for thing in scene.things}


def _pair(values: np.ndarray) -> Load:
    one, other = values.tolist()
    return one, other


def free_spots(scene: Scene) -> list[str]:
    """Spots that no fixture covers."""
    probe = Thing("probe", "box", SIZES["box"], "red")
    alone = Scene((probe,), scene.fixtures, scene.robot)
    return [name for name, (x, y) in SPOTS.items() if crowded(alone, {"probe": (x, y, 0.0)}) is None]


def at_spots(
    scene: Scene, rng: np.random.Generator, known: Sequence[Mapping[str, Placement]]
) -> dict[str, Placement] | None:
    """A start with each thing at a spot of its own, other than those that are known; None where none is found."""
    free = free_spots(scene)
    if len(free) < len(scene.things):
        return None
    for _ in range(TRIES):
        chosen = rng.permutation(len(free))[: len(scene.things)].tolist()
        start = {thing.name: (*SPOTS[free[at]], 0.0) for thing, at in zip(scene.things, chosen, strict=True)}
        if start not in known and crowded(scene, start) is None:
            return start
    return None


def region_of(scene: Scene, position: Sequence[float], held: bool, containers: Mapping[str, bool]) -> str:
    """Where a thing ended up: in the gripper, in a container, on one of the table's three columns, or off the table."""
    if held:
        return "gripper"
    for name, within in containers.items():
        if within:
            return name
    _, y, z = position
    if z < -0.05:
        return "floor"
    return "left" if y > 0.1 else "right" if y < -0.1 else "middle"
