"""What can be wanted of a scene: predicates over readings of the simulation. Each says how far from true it is.

A distance of 0 means that the predicate holds; any other is in metres, or a share where nothing is measured in metres.
Left is the robot's left (y grows), behind is away from the robot (x grows).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from autotelic.physics.arm.scenes import Scene, Thing
from autotelic.worlds.arm import canonical
from autotelic.worlds.arm.places import (
    INNER,
    REGIONS,
    centre_height,
    distance_to_region,
    half_width,
    in_frame,
    share_ground,
)

TOUCHING = 0.05  # metres from the tool to what it is near
CLEARANCE = 0.05  # metres that a lifted thing hangs above where it stood
BESIDE = 0.06  # metres between the centres of things that are left of, right of, behind or in front of each other
OPEN = 0.6  # share of its way that an open drawer has come out
CLOSE = 0.01  # metres by which a thing that stands on another may be off its height
STANDING = 0.03  # metres that a thing which stands on the table may hang above it
MARKED = 0.03  # metres, over the table, from a mark to what is at it
GRASP = 0.036  # half width of the widest thing that fits between the fingers
SHORT = 0.01  # how far a predicate is that lacks nothing but a grip, or the letting go


@dataclass(frozen=True)
class State:
    """What goals look at: plain numbers, from a simulation's readings or from a start that was only written down."""

    tool: tuple[float, float, float]
    positions: Mapping[str, tuple[float, float, float]]  # of things and fixtures
    held: frozenset[str] = frozenset()  # by the gripper alone
    touched: frozenset[str] = frozenset()  # by the gripper; what is held is touched
    opening: float = 0.0
    pressed: bool = False


@dataclass(frozen=True)
class Predicate:
    """One thing that shall hold: its name and what it is said of."""

    name: str
    args: tuple[str, ...]

    def plain(self) -> list[str]:
        return [self.name, *self.args]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.args)})"

    def words(self) -> str:
        sort = SORTS[self.name]
        if self.name == "stacked":
            return " on ".join(f"the {spoken(arg)}" for arg in self.args) + ", stacked"
        if self.name == "at" and self.args[1] not in REGIONS:
            return f"the {spoken(self.args[0])} is at the {spoken(self.args[1])}"
        return sort.words.format(*(spoken(arg) for arg in self.args))


@dataclass(frozen=True)
class Sort:
    """A sort of predicates. `roles` says what each argument may be, `when` exactly when it holds, `level` how much it
    takes to make it true."""

    roles: tuple[str, ...]  # thing, any, support, container, drawer, button, region; "support+": two or more of them
    words: str
    when: str
    family: str
    level: int
    distance: Callable[..., float]


def spoken(name: str) -> str:
    return name.replace("_", " ")


def distance(predicate: Predicate, scene: Scene, state: State) -> float:
    """How far a predicate is from holding; 0 if it holds."""
    return SORTS[predicate.name].distance(scene, state, *predicate.args)


def distances(goal: Sequence[Predicate], scene: Scene, state: State) -> list[float]:
    return [distance(predicate, scene, state) for predicate in goal]


def holds(goal: Sequence[Predicate], scene: Scene, state: State) -> bool:
    return all(far == 0.0 for far in distances(goal, scene, state))


def family(goal: Sequence[Predicate]) -> str:
    """The family that a goal belongs to: that of what is hardest in it."""
    return SORTS[max(goal, key=lambda predicate: SORTS[predicate.name].level).name].family


def described(goal: Sequence[Predicate]) -> str:
    """A goal in words, from what it is made of."""
    return "; and ".join(predicate.words() for predicate in goal)


def contradiction(goal: Sequence[Predicate]) -> str:
    """Parts of a goal that hold together in no state; empty where none are found. Of those that only hardly any scene
    allows, such as two things lifted at once, nothing is said."""
    rows = canonical.goal(predicate.plain() for predicate in goal)
    parts = [*goal, *(Predicate(name, tuple(args)) for name, *args in rows if name == "on")]  # stacks, in pairs too
    for one, other in itertools.combinations(parts, 2):
        if one.args[0] == other.args[0] and (_apart(one, other) or _apart(other, one)):
            return f"{one} and {other} exclude each other"
    for order in ("on", "left_of", "behind"):
        if _circular([args for name, *args in rows if name == order]):
            return f"what is {order} what goes round in a circle"
    return ""


def _apart(one: Predicate, other: Predicate) -> bool:
    """Of the same thing: what is lifted neither stands nor is let go, nothing is in two containers, nor in two regions
    that have nothing in common."""
    match one.name, other.name:
        case "lifted", name:
            return name in ("on", "inside", "at", "left_of", "right_of", "behind", "in_front_of")
        case "inside", "inside":
            return one.args != other.args
        case "at", "at" if one.args[1] in REGIONS and other.args[1] in REGIONS:
            return not share_ground(one.args[1], other.args[1])
    return False


def highest(goal: Sequence[Predicate], scene: Scene) -> float:
    """Metres from the table to the middle of the top thing of the highest stack that is asked for."""
    rows = canonical.goal(predicate.plain() for predicate in goal)
    below = {upper: lower for name, upper, *rest in rows if name == "on" for lower in rest}
    found = 0.0
    for name in below:
        height = centre_height(_thing(scene, name))
        while name in below:
            name = below[name]
            height += 2 * centre_height(_thing(scene, name))
        found = max(found, height)
    return found


def _circular(pairs: Sequence[Sequence[str]]) -> bool:
    """Whether something is above itself, by way of others."""
    while pairs:
        below = {lower for _, lower in pairs}
        rest = [pair for pair in pairs if pair[0] in below]  # what is above all goes
        if len(rest) == len(pairs):
            return True
        pairs = rest
    return False


def stateable(scene: Scene) -> list[Predicate]:
    """Every predicate that can be said of a scene, the hardest first; stacks as pairs."""
    candidates = {
        "thing": [thing.name for thing in scene.things],
        "any": [*(thing.name for thing in scene.things), *(fixture.name for fixture in scene.fixtures)],
        "support": [thing.name for thing in scene.things if thing.shape != "sphere"],
        "container": [fixture.name for fixture in scene.fixtures if fixture.kind in INNER],
        "drawer": [fixture.name for fixture in scene.fixtures if fixture.kind == "drawer"],
        "button": [fixture.name for fixture in scene.fixtures if fixture.kind == "button"],
        "region": list(REGIONS),
    }
    found = []
    for name, sort in sorted(SORTS.items(), key=lambda item: -item[1].level):
        if name == "stacked":
            continue
        rows: list[tuple[str, ...]] = [()]
        for role in sort.roles:
            fitting = [arg for arg in candidates[role] if role != "thing" or graspable(name, _thing(scene, arg))]
            rows = [(*row, arg) for row in rows for arg in fitting if arg not in row]
        found += [Predicate(name, row) for row in rows]
    return found


def graspable(name: str, thing: Thing) -> bool:
    """Whether a thing is narrow enough for what a sort of predicates asks."""
    return SORTS[name].level < 3 or half_width(thing) <= GRASP


# How far each sort is


def _thing(scene: Scene, name: str) -> Thing:
    return next(thing for thing in scene.things if thing.name == name)


def _released(state: State, name: str, far: float) -> float:
    return max(far, SHORT) if name in state.touched else far


def _near(scene: Scene, state: State, name: str) -> float:
    return max(0.0, math.dist(state.tool, state.positions[name]) - TOUCHING)


def _lifted(scene: Scene, state: State, name: str) -> float:
    clearance = state.positions[name][2] - centre_height(_thing(scene, name))
    far = max(0.0, CLEARANCE - clearance)
    return far if name in state.held else max(far, SHORT)


def _on(scene: Scene, state: State, upper: str, lower: str) -> float:
    above, below = _thing(scene, upper), _thing(scene, lower)
    (x, y, z), (under_x, under_y, under_z) = state.positions[upper], state.positions[lower]
    aside = max(0.0, math.hypot(x - under_x, y - under_y) - half_width(below))
    height = abs(z - under_z - centre_height(above) - centre_height(below))
    return _released(state, upper, max(aside, height - CLOSE, 0.0))


def _stacked(scene: Scene, state: State, *names: str) -> float:
    return max(_on(scene, state, upper, lower) for upper, lower in itertools.pairwise(names))


def _inside(scene: Scene, state: State, name: str, container: str) -> float:
    fixture = next(each for each in scene.fixtures if each.name == container)
    middle, half_along, half_across, top = INNER[fixture.kind]
    at_x, at_y, _ = state.positions[container]
    x, y, z = state.positions[name]
    along, across = in_frame(replace(fixture, x=at_x, y=at_y), x, y)
    aside = math.hypot(max(0.0, abs(along - middle) - half_along), max(0.0, abs(across) - half_across))
    return _released(state, name, max(aside, z - top, -z, 0.0))  # what has fallen off the table is not inside


def _open(scene: Scene, state: State, name: str) -> float:
    return max(0.0, OPEN - state.opening)


def _pressed(scene: Scene, state: State, name: str) -> float:
    return 0.0 if state.pressed else 1.0


def _standing(scene: Scene, state: State, name: str, far: float) -> float:
    """Where a thing is counts when it stands on the table, or nearly: not held up, not fallen off."""
    clearance = state.positions[name][2] - centre_height(_thing(scene, name))
    return max(far, clearance - STANDING, -0.05 - clearance)


def _offset(axis: int, sign: int) -> Callable[..., float]:
    def measure(scene: Scene, state: State, name: str, other: str) -> float:
        apart = sign * (state.positions[name][axis] - state.positions[other][axis])
        return _standing(scene, state, name, max(0.0, BESIDE - apart))

    return measure


def _at(scene: Scene, state: State, name: str, region: str) -> float:
    x, y, _ = state.positions[name]
    if region not in REGIONS:
        at_x, at_y, _ = state.positions[region]
        return _standing(scene, state, name, max(0.0, math.hypot(x - at_x, y - at_y) - MARKED))
    return _standing(scene, state, name, distance_to_region(region, x, y))


_ON_TABLE = f"it stands on the table, at most {100 * STANDING:g} cm above it"
_APART = f"its middle is at least {100 * BESIDE:g} cm farther"
_LET_GO = "and the gripper does not touch it"

SORTS: dict[str, Sort] = {
    "near": Sort(
        ("any",),
        "the gripper is at the {}",
        f"the fingertips are within {100 * TOUCHING:g} cm of its position",
        "reach",
        0,
        _near,
    ),
    "at": Sort(
        ("thing", "region"),
        "the {} is in the {} region",
        f"its middle is within the region, and {_ON_TABLE}",
        "push",
        1,
        _at,
    ),
    "left_of": Sort(
        ("thing", "any"),
        "the {} is left of the {}",
        f"{_APART} to the left (+y) than the other's, and {_ON_TABLE}",
        "push",
        1,
        _offset(1, 1),
    ),
    "right_of": Sort(
        ("thing", "any"),
        "the {} is right of the {}",
        f"{_APART} to the right (-y) than the other's, and {_ON_TABLE}",
        "push",
        1,
        _offset(1, -1),
    ),
    "behind": Sort(
        ("thing", "any"),
        "the {} is behind the {}",
        f"{_APART} from the robot (+x) than the other's, and {_ON_TABLE}",
        "push",
        1,
        _offset(0, 1),
    ),
    "in_front_of": Sort(
        ("thing", "any"),
        "the {} is in front of the {}",
        f"{_APART} towards the robot (-x) than the other's, and {_ON_TABLE}",
        "push",
        1,
        _offset(0, -1),
    ),
    "pressed": Sort(
        ("button",),
        "the {} has been pressed",
        "it was pressed down at any time",
        "button",
        2,
        _pressed,
    ),
    "lifted": Sort(
        ("thing",),
        "the {} is held up in the air",
        f"the gripper holds it, {100 * CLEARANCE:g} cm above the table or more",
        "lift",
        3,
        _lifted,
    ),
    "open": Sort(
        ("drawer",),
        "the {} is open",
        f"it is drawn out by {100 * OPEN:g} % of its way or more",
        "drawer",
        4,
        _open,
    ),
    "inside": Sort(
        ("thing", "container"),
        "the {} is in the {}, let go",
        f"its middle is between the walls and below their top, {_LET_GO}",
        "pick-place",
        5,
        _inside,
    ),
    "on": Sort(
        ("thing", "support"),
        "the {} stands on the {}, let go",
        f"its middle is over the other's top, at most {100 * CLOSE:g} cm off the height of standing there, {_LET_GO}",
        "stack",
        6,
        _on,
    ),
    "stacked": Sort(
        ("support+",),
        "stacked",
        "each stands on the next, and the gripper touches none but the lowest",
        "stack",
        7,
        _stacked,
    ),
}
FAMILIES = ("reach", "push", "lift", "pick-place", "stack", "drawer", "button")
