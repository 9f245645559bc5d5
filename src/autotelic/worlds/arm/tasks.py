"""Tasks of the arm world: a typed schema, read from JSON by a strict and bounded parser.

    {"objects": ["red_box", {"shape": "cylinder", "color": "blue", "size": [0.02, 0.03], "mass": 0.1, "friction": 1.0,
                             "at": [0.45, 0.1, 0.0]}],
     "fixtures": ["bin", {"kind": "button", "at": [0.42, 0.25]}],
     "robot": "arm7",
     "goal": [["inside", "red_box", "bin"]],
     "randomisation": {"position": 0.6, "yaw": 0.5, "mass": 0.5, "friction": 0.2},
     "horizon": 12,
     "success": {"draws": 3, "hold": 0.3}}

Only `objects` or `fixtures`, and `goal`, must be there. A thing without `at` stands at a spot of its own; what is drawn
anywhere on the table has no place of its own at all. Equal tasks have one canonical form, and so one id, however
they are written. Tasks of an environment also have `marks`, places with a name: {"goal": [x, y, z]}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotelic.physics.arm.control import HIGHEST
from autotelic.physics.arm.scenes import (
    COLORS,
    FIXTURE_RANGES,
    SHAPES,
    X_RANGE,
    Y_RANGE,
    Fixture,
    Mark,
    Placement,
    Scene,
    Thing,
)
from autotelic.runs.files import parse_json
from autotelic.worlds.arm import canonical, goals
from autotelic.worlds.arm.goals import SORTS, Predicate
from autotelic.worlds.arm.places import FIXED, REGIONS, SIZES, SPOTS, free_spots
from autotelic.worlds.code.kinds.base import RefusedError, fence, read_blocks

MAX_TEXT = 20_000  # characters of a proposal
MAX_THINGS = 5
MAX_FIXTURES = 3
MAX_GOAL = 4
ROBOTS = ("arm7", "ur5e")
FIXTURES = ("bin", "drawer", "button")
SETTING = ("objects", "fixtures", "marks", "robot")  # keys
ANYWHERE = 0.6  # metres of randomisation that reach from any place on the table to every other
APART = 0.1  # metres between a thing with a place of its own and one that is given a spot
DIGITS = 4  # of metres, radians and kilograms that are kept

# Lowest and highest value of each number.
SIZE = (0.012, 0.06)
MASS = (0.02, 0.5)
FRICTION = (0.3, 1.5)
PLACE = (-2.0, 2.0)
YAW = (-3.14, 3.14)
HORIZON = (1.0, 30.0)
DRAWS = (1, 8)
CONFIRMED = 2  # starts, at least, that a proposed task confirms a success at
HOLD = (0.1, 2.0)


@dataclass(frozen=True)
class Randomisation:
    position: float = 0.0  # metres that a thing may stand away from its place, along each axis
    yaw: float = 0.0  # radians that it may be turned, either way
    mass: float = 0.0  # share by which it may be heavier, or as many times lighter
    friction: float = 0.0  # share by which it may be rougher, or as many times smoother

    @property
    def width(self) -> float:
        """How much is left to chance, in one number."""
        return self.position + 0.1 * (self.mass + self.friction)

    def plain(self) -> dict[str, float]:
        """Without what goes without saying."""
        loads = {"mass": self.mass, "friction": self.friction}
        return {"position": self.position, "yaw": self.yaw, **{name: share for name, share in loads.items() if share}}


@dataclass(frozen=True)
class Success:
    draws: int = 3  # starts at which a controller has to succeed
    hold: float = 0.3  # seconds after the controller's end at which the goal must hold still, as it must at the end


@dataclass(frozen=True)
class Setting:
    """A scene with a place for each thing: what all kinds of tasks are set in."""

    scene: Scene
    start: Mapping[str, Placement]

    def plain(self) -> dict[str, Any]:
        marks = {mark.name: [mark.x, mark.y, mark.z] for mark in self.scene.marks}
        return {
            "objects": [_plain_thing(thing, self.start[thing.name]) for thing in self.scene.things],
            "fixtures": [
                {"kind": each.kind, "at": [each.x, each.y, each.yaw]}
                for each in self.scene.fixtures
            ],
            "robot": self.scene.robot,
            **({"marks": marks} if marks else {}),
        }  # fmt: skip

    def described(self) -> str:
        """What is on the table, in words."""
        things = [f"a {goals.spoken(thing.name)}" for thing in self.scene.things]
        things += [f"a {goals.spoken(fixture.name)}" for fixture in self.scene.fixtures]
        marks = [f" The {goals.spoken(mark.name)} is {[mark.x, mark.y, mark.z]}." for mark in self.scene.marks]
        robot = "" if self.scene.robot == ROBOTS[0] else f" The robot is the {self.scene.robot}."
        return f"On the table: {', '.join(things) or 'nothing'}.{''.join(marks)}{robot}"


@dataclass(frozen=True)
class ArmTask:
    """A control task: what is there, what is wanted, where it may start, how long it may take, and when it counts."""

    setting: Setting
    goal: tuple[Predicate, ...]
    randomisation: Randomisation = field(default_factory=Randomisation)
    horizon: float = 12.0
    success: Success = field(default_factory=Success)

    @property
    def scene(self) -> Scene:
        return self.setting.scene

    def plain(self) -> dict[str, Any]:
        """The canonical form, as plain data that `read` takes again."""
        return {
            **self.setting.plain(),
            "goal": [predicate.plain() for predicate in self.goal],
            "randomisation": self.randomisation.plain(),
            "horizon": self.horizon,
            "success": {"draws": self.success.draws, "hold": self.success.hold},
        }

    @property
    def question(self) -> str:
        """Equal for tasks that ask the same of the same things, wherever they start, however long and often it is
        tried. Things of other colours are others: there are too few tasks of control to withhold all their twins."""
        return canonical.key(self.setting.plain(), [each.plain() for each in self.goal], colors=True)

    @property
    def family(self) -> str:
        return goals.family(self.goal)

    def described(self) -> str:
        """The task in words, from its structure."""
        return f"Bring it about that {goals.described(self.goal)}. {self.setting.described()}"

    def features(self) -> dict[str, float]:
        return {
            "predicates": float(len(self.goal)),
            "objects": float(len(self.scene.things) + len(self.scene.fixtures)),
            "randomisation": self.randomisation.width,
            "horizon": self.horizon,
            "level": float(max(SORTS[predicate.name].level for predicate in self.goal)),
        }


# Reading


def parse(text: str) -> dict[str, Any]:
    """The JSON object of a proposal: its one ```json block, or the whole text."""
    if len(text) > MAX_TEXT:
        raise RefusedError("format", f"longer than {MAX_TEXT} characters")
    texts = [body for label, body in read_blocks(text) if label in ("json", "task", "")]
    if len(texts) > 1:
        raise RefusedError("format", "more than one ```json block")
    try:
        found = parse_json(texts[0] if texts else text)
    except (ValueError, RecursionError) as error:
        raise RefusedError("format", f"not JSON: {' '.join(str(error).split())[:200]}") from None
    if type(found) is not dict:
        raise RefusedError("format", "not a JSON object")
    if "marks" in found:
        raise RefusedError("format", "a task that is proposed has no marks")
    return found


def blocks(data: Mapping[str, Any], program: str) -> str:
    """A proposal that has a controller: the content of its JSON object, and the program."""
    return f"{fence('json', json.dumps(data))}\n{fence('python', program)}"


def read(data: Mapping[str, Any]) -> ArmTask:
    """A task from the content of its JSON object; RefusedError says what is wrong with it."""
    require_keys(
        data, ("objects", "fixtures", "marks", "robot", "goal", "randomisation", "horizon", "success"), "a task"
    )
    randomisation = _randomisation(data.get("randomisation", {}))
    setting = read_setting(data, anywhere=randomisation.position >= ANYWHERE)
    goal = read_predicates(data.get("goal"), setting.scene, "goal")
    horizon = number(data.get("horizon", 12.0), "horizon", HORIZON)
    success = data.get("success", {})
    require_keys(success, ("draws", "hold"), "success")
    draws = success.get("draws", 3)
    if type(draws) is not int or not DRAWS[0] <= draws <= DRAWS[1]:
        raise RefusedError("bounds", f"success.draws is not {DRAWS[0]} to {DRAWS[1]}")
    hold = number(success.get("hold", 0.3), "success.hold", HOLD)
    return ArmTask(setting, goal, randomisation, horizon, Success(draws, hold))


def read_setting(data: Mapping[str, Any], *, anywhere: bool = False) -> Setting:
    """The scene and its start. With `anywhere`, places are drawn from all of the table: none is kept."""
    robot = data.get("robot", "arm7")
    if robot not in ROBOTS:
        raise RefusedError("unknown", f"no robot {robot!r:.60}: one of {', '.join(ROBOTS)}")
    fixtures = [_fixture(row) for row in _rows(data.get("fixtures", []), "fixtures", MAX_FIXTURES)]
    if len({fixture.kind for fixture in fixtures}) < len(fixtures):
        raise RefusedError("names", "two fixtures of one kind")
    rows = [_thing(row) for row in _rows(data.get("objects", []), "objects", MAX_THINGS)]
    if len({thing.name for thing, _ in rows}) < len(rows):
        raise RefusedError("names", "two objects of one colour and shape: they would have one name")
    marks = _marks(data.get("marks", {}))
    if not rows and not fixtures and not marks:
        raise RefusedError("format", "nothing on the table")
    rows.sort(key=lambda row: row[0].name)
    fixtures.sort(key=lambda fixture: fixture.name)
    scene = Scene(tuple(thing for thing, _ in rows), tuple(fixtures), robot, marks)
    if anywhere:
        return Setting(scene, {thing.name: (0.5, 0.0, 0.0) for thing, _ in rows})
    given = [place for _, place in rows if place is not None]
    free = [*(name for name in free_spots(scene) if not _taken(SPOTS[name], given)), *SPOTS]
    spots = iter([(*SPOTS[name], 0.0) for name in free])
    return Setting(scene, {thing.name: place or next(spots) for thing, place in rows})


def _taken(spot: tuple[float, float], places: Sequence[Placement]) -> bool:
    return any(max(abs(spot[0] - x), abs(spot[1] - y)) < APART for x, y, _ in places)


def check_goal(goal: Sequence[Predicate], scene: Scene) -> None:
    """Refuses a goal that nothing can bring about, where one is proposed."""
    if reason := goals.contradiction(goal):
        raise RefusedError("contradiction", reason)
    if (height := goals.highest(goal, scene)) > HIGHEST:
        raise RefusedError("unreachable", f"a stack of {height:.2f} m is too high: at most {HIGHEST:g}")


def read_predicates(rows: Any, scene: Scene, what: str) -> tuple[Predicate, ...]:
    found = [_predicate(row, scene, what) for row in _rows(rows, what, MAX_GOAL)]
    if not found:
        raise RefusedError("format", f"{what} is empty")
    if len(set(found)) < len(found):
        raise RefusedError("format", f"{what} says something twice")
    return tuple(sorted(found, key=Predicate.plain))


def require_keys(data: Any, known: Sequence[str], what: str) -> None:
    if not isinstance(data, Mapping):
        raise RefusedError("format", f"{what} is no object")
    if strange := [key for key in data if key not in known]:
        raise RefusedError("format", f"{what} has no key {strange[0]!r:.60}: {', '.join(known)}")


def number(value: Any, what: str, bounds: tuple[float, float]) -> float:
    if type(value) not in (int, float):
        raise RefusedError("format", f"{what} is no number")
    low, high = bounds
    if not low <= value <= high:  # NaN is not between them either
        raise RefusedError("bounds", f"{what} is not between {low:g} and {high:g}")
    return kept(float(value))


def kept(value: float) -> float:
    """A number as a task keeps it."""
    return round(value, DIGITS) + 0.0  # not -0.0, which is written in another way


def _rows(rows: Any, what: str, most: int) -> list[Any]:
    if not isinstance(rows, list):
        raise RefusedError("format", f"{what} is no list")
    if len(rows) > most:
        raise RefusedError("too_many", f"{what} has more than {most} entries")
    return rows


def _randomisation(data: Any) -> Randomisation:
    most = {"position": ANYWHERE, "yaw": YAW[1], "mass": 1.0, "friction": 1.0}
    require_keys(data, tuple(most), "randomisation")
    return Randomisation(
        **{name: number(data.get(name, 0.0), f"randomisation.{name}", (0.0, high)) for name, high in most.items()}
    )


def _place(
    at: Any, what: str, ranges: tuple[tuple[float, float], tuple[float, float], float] = (X_RANGE, Y_RANGE, YAW[1])
) -> Placement | None:
    """A place on the table, within the ranges that can be reached there: of x, of y, and of the turn either way."""
    if at is None:
        return None
    if not isinstance(at, list) or len(at) not in (2, 3):
        raise RefusedError("format", f"the place of {what} is not [x, y] or [x, y, yaw]")
    x, y = (number(value, f"the place of {what}", PLACE) for value in at[:2])
    (low, high), (right, left), turn = ranges
    if not (low <= x <= high and right <= y <= left):
        raise RefusedError("unreachable", f"{what} is out of reach: x {low:g} to {high:g}, y {right:g} to {left:g}")
    return x, y, number(at[2], f"the yaw of {what}", (-min(turn, YAW[1]), min(turn, YAW[1]))) if len(at) == 3 else 0.0


def _thing(row: Any) -> tuple[Thing, Placement | None]:
    if isinstance(row, str):
        color, _, shape = row.rpartition("_")
        row = {"color": color, "shape": shape}
    require_keys(row, ("shape", "color", "size", "mass", "friction", "at"), "an object")
    shape, color = row.get("shape"), row.get("color")
    if not isinstance(shape, str) or shape not in SHAPES:
        raise RefusedError("unknown", f"no shape {shape!r:.60}: one of {', '.join(SHAPES)}")
    if not isinstance(color, str) or color not in COLORS:
        raise RefusedError("unknown", f"no color {color!r:.60}: one of {', '.join(COLORS)}")
    name = f"{color}_{shape}"
    usual = SIZES[shape]
    size = row.get("size", list(usual))
    if not isinstance(size, list) or len(size) != len(usual):
        raise RefusedError("format", f"the size of {name} is not a list of {len(usual)} numbers")
    extents = tuple(number(value, f"the size of {name}", SIZE) for value in size)
    mass = number(row.get("mass", 0.1), f"the mass of {name}", MASS)
    friction = number(row.get("friction", 1.0), f"the friction of {name}", FRICTION)
    return Thing(name, shape, extents, color, mass, friction), _place(row.get("at"), name)


def _fixture(row: Any) -> Fixture:
    if isinstance(row, str):
        row = {"kind": row}
    require_keys(row, ("kind", "at"), "a fixture")
    kind = row.get("kind")
    if kind not in FIXTURES:
        raise RefusedError("unknown", f"no fixture {kind!r:.60}: one of {', '.join(FIXTURES)}")
    return Fixture(kind, kind, *(_place(row.get("at"), kind, FIXTURE_RANGES[kind]) or FIXED[kind]))


def _marks(data: Any) -> tuple[Mark, ...]:
    require_keys(data, ("goal",), "marks")
    found = []
    for name, at in data.items():
        if not isinstance(at, list) or len(at) != 3:
            raise RefusedError("format", f"the place of {name} is not [x, y, z]")
        found.append(Mark(name, *(number(value, f"the place of {name}", PLACE) for value in at)))
    return tuple(found)


def _predicate(row: Any, scene: Scene, what: str) -> Predicate:
    if not isinstance(row, list) or not row or not all(isinstance(part, str) for part in row):
        raise RefusedError("format", f'{what} is not a list of predicates such as ["lifted", "red_box"]')
    name, *args = row
    sort = SORTS.get(name)
    if sort is None:
        raise RefusedError("unknown", f"no predicate {name!r:.60}: one of {', '.join(SORTS)}")
    roles = sort.roles
    if roles[-1].endswith("+"):
        if not 2 <= len(args) <= MAX_THINGS:
            raise RefusedError("format", f"{name} takes two things or more")
        roles = ("thing", *("support" for _ in args[1:]))
    if len(args) != len(roles):
        raise RefusedError("format", f"{name} takes {len(roles)} names, not {len(args)}")
    if len(set(args)) < len(args):
        raise RefusedError("format", f"{name} is said of a thing and itself")
    for role, arg in zip(roles, args, strict=True):
        _check_role(role, arg, scene, name)
    return Predicate("on" if name == "stacked" and len(args) == 2 else name, tuple(args))  # one way to say it


def _check_role(role: str, arg: str, scene: Scene, name: str) -> None:
    if role in ("region", "any") and any(mark.name == arg for mark in scene.marks):
        return
    if role == "region":
        if arg not in REGIONS:
            raise RefusedError("unknown", f"no region {arg!r:.60}: one of {', '.join(REGIONS)}")
        return
    thing = next((thing for thing in scene.things if thing.name == arg), None)
    fixture = next((each for each in scene.fixtures if each.name == arg), None)
    if thing is None and fixture is None:
        raise RefusedError("unknown", f"{arg!r:.60} is not on the table")
    fitting = {
        "any": True,
        "thing": thing is not None,
        "support": thing is not None and thing.shape != "sphere",
        "container": fixture is not None and fixture.kind in ("bin", "drawer"),
        "drawer": fixture is not None and fixture.kind == "drawer",
        "button": fixture is not None and fixture.kind == "button",
    }[role]
    if not fitting:
        raise RefusedError("unknown", f"{name} cannot be said of {arg}")
    if thing is not None and role == "thing" and not goals.graspable(name, thing):
        raise RefusedError("ungraspable", f"{arg} is too wide for the gripper: at most {goals.GRASP:g} from its middle")


def _plain_thing(thing: Thing, place: Placement) -> dict[str, Any]:
    return {
        "shape": thing.shape,
        "color": thing.color,
        "size": list(thing.size),
        "mass": thing.mass,
        "friction": thing.friction,
        "at": list(place),
    }
