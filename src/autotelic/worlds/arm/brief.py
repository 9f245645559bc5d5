"""The brief wording: tasks, proposals, controllers and answers in a few words each, for minds with a small vocabulary;
and babble, from which such a mind learns the form of these texts before it has learned what is true.

    induction   <induction> GOAL<scene> NAMES<answer>                                CALLS
    deduction   <deduction> CALLS<scene> PLACES<ask> GOAL<where> NAME<answer>        yes|no for each predicate, REGION
    abduction   <abduction> CALLS<goal> GOAL<scene> NAMES<answer>                    PLACES
    propose     <propose><induction><answer>                                         GOAL<scene> NAMES
                <propose><deduction><answer>                                         CALLS<scene> PLACES
                <propose><abduction><answer>                                         CALLS<scene> PLACES

GOAL is predicates with what they are said of, NAMES is what is on the table, PLACES is each thing with the spot where
it stands, CALLS is a controller: words that stand for a call or two of the interface; `do` and a predicate, which only
induction has, for the call of a skill. Things have their usual sizes, fixtures their usual places; in induction, things
are drawn anywhere on the table. Babble is random in content: a true answer in it is chance.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from autotelic.errors import UserError
from autotelic.physics.arm.scenes import COLORS, SHAPES
from autotelic.worlds.arm.goals import SORTS, Predicate, contradiction, stateable
from autotelic.worlds.arm.places import REGIONS, SPOTS, free_spots
from autotelic.worlds.arm.tasks import ANYWHERE, FIXTURES, Setting, blocks, read_setting
from autotelic.worlds.code.kinds.base import RefusedError

PROPOSE, SCENE, GOAL, ASK, WHERE, ANSWER = "<propose>", "<scene>", "<goal>", "<ask>", "<where>", "<answer>"
DO = "do"
NAMES = tuple(f"{color}_{shape}" for color in list(COLORS)[:4] for shape in SHAPES)
ALIKE = tuple(tuple(f" {color}_{shape}" for shape in SHAPES) for color in list(COLORS)[:4])  # colours mean nothing
ENDINGS = ("left", "middle", "right", "bin", "drawer", "gripper", "floor")  # where a thing may have ended up
SPREAD_YAW = 0.7  # radians that things are turned, where they are drawn
LONGEST = 6  # calls of a random controller


def _beside(place: str) -> tuple[str, ...]:
    there = f"robot.move_to([{place}]"
    return "x, y, z = world.position(X)", f"{there}, above=0.15)", f"{there})"


# What each word of a controller stands for. X is the name that follows it.
WITH_NAME: dict[str, tuple[str, ...]] = {
    "move": ("robot.move_to(world.position(X), above=0.1)", "robot.move_to(world.position(X))"),
    "above": ("robot.move_to(world.position(X), above=0.15)",),
    "on": ("robot.move_to(world.position(X), above=0.2)", "robot.move_to(world.position(X), above=TOP)"),
    "left_of": _beside("x, y + 0.1, z"),
    "right_of": _beside("x, y - 0.1, z"),
    "behind": _beside("x + 0.1, y, z"),
    "in_front_of": _beside("x - 0.1, y, z"),
}
ALONE: dict[str, tuple[str, ...]] = {
    "open": ("robot.open_gripper()",),
    "close": ("robot.close_gripper()",),
    "up": ("robot.move_to(robot.get_end_effector_position(), above=0.15)",),
    "down": ("robot.move_to(robot.get_end_effector_position(), above=-0.04)",),
    "home": ("robot.home()",),
    "left": ("x, y, z = robot.get_end_effector_position()", "robot.move_to([x, 0.24, z])"),
    "middle": ("x, y, z = robot.get_end_effector_position()", "robot.move_to([x, 0.0, z])"),
    "right": ("x, y, z = robot.get_end_effector_position()", "robot.move_to([x, -0.24, z])"),
    "front": ("x, y, z = robot.get_end_effector_position()", "robot.move_to([0.39, y, z])"),
    "back": ("x, y, z = robot.get_end_effector_position()", "robot.move_to([0.61, y, z])"),
}
# How often a random controller has each word: some are of use more often than others, to whatever end.
WEIGHTS: dict[str, int] = {"move": 4, "close": 2, DO: 3}

Call = Callable[[Predicate], str]  # the line that has what is known for a predicate done; RefusedError if nothing is


def kind(name: str) -> str:
    return f"<{name}>"


def tokens(kinds: Sequence[str]) -> tuple[str, ...]:
    """All pieces that brief texts are made of. Words begin with a space, so that a text can be cut again."""
    marks = (PROPOSE, SCENE, GOAL, ASK, WHERE, ANSWER, *map(kind, kinds))
    words = (*NAMES, *FIXTURES, *SORTS, *WITH_NAME, *ALONE, DO, *REGIONS, *SPOTS, *ENDINGS, "yes", "no")
    return (*marks, *(f" {word}" for word in dict.fromkeys(words)))


def worded(words: Sequence[str]) -> str:
    return "".join(f" {word}" for word in words)


# Controllers


def program_of(text: str, call: Call | None = None) -> str:
    """The controller that a text of call words stands for. What cannot be read is left as it is: it is no program."""
    try:
        lines = _lines(text.split(), call)
    except RefusedError:
        return text
    return "\n".join(["def execute_controller(robot, world):", *(f"    {line}" for line in lines or ["pass"])])


def _lines(words: Sequence[str], call: Call | None = None) -> list[str]:
    lines: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ALONE:
            lines += ALONE[word]
        elif word in WITH_NAME:
            name = next(rest, None)
            if name not in (*NAMES, *FIXTURES):
                raise RefusedError("format", f"{word} is not followed by a name")
            top = "0.1" if name in FIXTURES else f"world.size('{name}')[-1] + 0.03"
            lines += [line.replace("(X)", f"('{name}')").replace("TOP", top) for line in WITH_NAME[word]]
        elif word == DO and call is not None:
            lines.append(call(_next_predicate(rest)))
        else:
            raise RefusedError("format", f"no call {word!r:.40}")
    return lines


def _next_predicate(words: Iterator[str]) -> Predicate:
    name = next(words, "")
    if name not in SORTS:
        raise RefusedError("format", f"{DO} is not followed by a predicate")
    known = {*NAMES, *FIXTURES, *REGIONS}
    args = tuple(itertools.islice(words, _arguments(name)))
    if len(args) < _arguments(name) or not set(args) <= known:
        raise RefusedError("format", f"{name} is not said of what it can be said of")
    return Predicate(name, args)


def _arguments(sort: str) -> int:
    return 2 if sort == "stacked" else len(SORTS[sort].roles)


def calls_of(program: str) -> str | None:
    """The words that a program was made from; None for a program that was not made from words."""
    lines = [line.strip() for line in program.split("\n")[1:]]
    words: list[str] = []
    at = 0
    while at < len(lines):
        for word in (*ALONE, *WITH_NAME):
            found = _matched(word, lines[at:])
            if found is not None:
                words += found
                at += len(ALONE.get(word) or WITH_NAME[word])
                break
        else:
            return "" if lines == ["pass"] else None
    text = worded(words)
    return text if program_of(text) == program else None


def _matched(word: str, lines: Sequence[str]) -> list[str] | None:
    if word in ALONE:
        wanted = ALONE[word]
        return [word] if tuple(lines[: len(wanted)]) == wanted else None
    wanted = WITH_NAME[word]
    start = wanted[0].partition("(X)")[0] + "('"
    if len(lines) < len(wanted) or not lines[0].startswith(start):
        return None
    name = lines[0][len(start) :].partition("'")[0]
    return [word, name] if _lines_or_none([word, name]) == list(lines[: len(wanted)]) else None


def _lines_or_none(words: Sequence[str]) -> list[str] | None:
    try:
        return _lines(words)
    except RefusedError:
        return None


# Goals and scenes


def goal_words(goal: Sequence[Predicate]) -> str:
    words = [word for predicate in goal for word in predicate.plain()]
    if "goal" in words:
        raise UserError("a place in numbers has no brief wording: take a player that reads full prompts")
    return worded(words)


def read_goal(text: str) -> list[list[str]]:
    """Predicates from words: each name of one begins another, unless the one before it still wants a name."""
    found: list[list[str]] = []
    for word in text.split():
        if word in SORTS and (not found or _complete(found[-1])):
            found.append([word])
        elif found:
            found[-1].append(word)
        else:
            found.append([word])
    return found


def _complete(row: Sequence[str]) -> bool:
    return len(row) - 1 >= (_arguments(row[0]) if row[0] in SORTS else 0)


def scene_words(setting: Setting, places: bool) -> str:
    """What is on the table; with the spots of things, where each has one."""
    spots = {place: name for name, place in SPOTS.items()}
    words: list[str] = []
    for thing in setting.scene.things:
        words.append(thing.name)
        x, y, _ = setting.start[thing.name]
        if places:
            words.append(spots.get((x, y)) or nearest_spot(x, y))
    return worded([*words, *(fixture.name for fixture in setting.scene.fixtures)])


def places_words(setting: Setting) -> str | None:
    """Each thing with the spot where it stands; None where brief words do not say it all: one stands elsewhere or is
    turned, has no usual size, mass or friction, or a fixture has no usual place."""
    spots = {(*place, 0.0): name for name, place in SPOTS.items()}
    words = [(thing.name, spots.get(setting.start[thing.name])) for thing in setting.scene.things]
    if not all(spot for _, spot in words):
        return None
    usual = read_scene(scene_words(setting, True))
    if read_setting({**usual, "robot": setting.scene.robot}) != setting:
        return None
    return worded([word for pair in words for word in pair if word])


def nearest_spot(x: float, y: float) -> str:
    return min(SPOTS, key=lambda name: (SPOTS[name][0] - x) ** 2 + (SPOTS[name][1] - y) ** 2)


def read_scene(text: str) -> dict[str, Any]:
    """Objects and fixtures as the schema writes them."""
    objects: list[Any] = []
    fixtures: list[str] = []
    for word in text.split():
        if word in FIXTURES:
            fixtures.append(word)
        elif word in SPOTS and objects and isinstance(objects[-1], str):
            color, _, shape = objects[-1].rpartition("_")
            objects[-1] = {"color": color, "shape": shape, "at": list(SPOTS[word])}
        else:
            objects.append(word)
    return {"objects": objects, "fixtures": fixtures}


def control_proposal(text: str) -> str:
    """The JSON of a control task."""
    goal, _, scene = text.partition(SCENE)
    spread = {"randomisation": {"position": ANYWHERE, "yaw": SPREAD_YAW}}
    return json.dumps({**read_scene(scene), "goal": read_goal(goal), **spread})


def question_proposal(text: str, extra: Mapping[str, Any]) -> str:
    """The blocks of a deduction or abduction: a scene with what is asked, and a controller."""
    return blocks(extra, program_of(text))


# Chance


def random_setting(rng: np.random.Generator, most: int = 3) -> Setting:
    """A few things, each at a spot of its own, and perhaps fixtures."""
    names = [NAMES[at] for at in rng.permutation(len(NAMES))[: int(rng.integers(1, most + 1))]]
    fixtures = [name for name in FIXTURES if rng.random() < 0.35]
    free = free_places(fixtures)
    spots = [free[at] for at in rng.permutation(len(free))]
    words = [word for name, spot in zip(names, spots, strict=False) for word in (name, spot)]
    return read_setting(read_scene(worded([*words, *fixtures])))


def free_places(fixtures: Sequence[str]) -> list[str]:
    """Spots that are free beside these fixtures."""
    return _free(tuple(sorted(fixtures)))


@cache
def _free(fixtures: tuple[str, ...]) -> list[str]:
    return free_spots(read_setting({"fixtures": list(fixtures), "objects": ["red_box"]}).scene)


def random_calls(rng: np.random.Generator, names: Sequence[str], do: Sequence[Predicate] = ()) -> str:
    """A controller, of calls and of skills for any of these predicates."""
    words: list[str] = []
    known = (*(WITH_NAME if names else ()), *ALONE, *([DO] if do else []))
    weights = np.array([WEIGHTS.get(word, 1) for word in known], float)
    heaps = np.cumsum(weights / weights.sum())
    for _ in range(int(rng.integers(1, LONGEST + 1))):
        word = known[min(int(np.searchsorted(heaps, rng.random())), len(known) - 1)]
        words.append(word)
        if word in WITH_NAME:
            words.append(names[int(rng.integers(len(names)))])
        elif word == DO:
            words += do[int(rng.integers(len(do)))].plain()
    return worded(words)


def names_of(setting: Setting) -> list[str]:
    return [part.name for part in (*setting.scene.things, *setting.scene.fixtures)]


def random_goal(rng: np.random.Generator, setting: Setting, count: int = 1) -> tuple[Predicate, ...]:
    """Predicates of sorts that are drawn first: those with many arguments to choose from are no more frequent. All can
    hold at once."""
    possible = stateable(setting.scene)
    found: list[Predicate] = []
    for _ in range(count):
        sorts = sorted({predicate.name for predicate in possible})
        name = sorts[int(rng.integers(len(sorts)))]
        rows = [each for each in possible if each.name == name and each not in found]
        rows = [each for each in rows if not contradiction([*found, each])]
        if rows:
            found.append(rows[int(rng.integers(len(rows)))])
    return tuple(sorted(found, key=Predicate.plain))


def random_places(rng: np.random.Generator, setting: Setting) -> str:
    free = free_places([fixture.name for fixture in setting.scene.fixtures])
    spots = [free[at] for at in rng.permutation(len(free))]
    things = [thing.name for thing in setting.scene.things]
    return worded([word for name, spot in zip(things, spots, strict=False) for word in (name, spot)])


def random_outcome(rng: np.random.Generator, asked: int) -> str:
    words = ["yes" if rng.random() < 0.5 else "no" for _ in range(asked)]
    return worded([*words, ENDINGS[int(rng.integers(3))] if rng.random() < 0.8 else ENDINGS[int(rng.integers(3, 7))]])


def babble(name: str, rng: np.random.Generator) -> tuple[str, str]:
    """A prompt and a well-formed reply, half of them proposals."""
    setting = random_setting(rng)
    calls, count = random_calls(rng, names_of(setting)), 1 if rng.random() < 0.7 else 2
    goal = goal_words(random_goal(rng, setting, count))
    names, placed = scene_words(setting, False), scene_words(setting, True)
    if rng.random() < 0.5:
        proposed = f"{goal}{SCENE}{names}" if name == "induction" else f"{calls}{SCENE}{placed}"
        return f"{PROPOSE}{kind(name)}{ANSWER}", proposed
    if name == "induction":
        calls = random_calls(rng, names_of(setting), stateable(setting.scene))
        return f"{kind(name)}{goal}{SCENE}{names}{ANSWER}", calls
    if name == "deduction":
        things = [thing.name for thing in setting.scene.things]
        where = worded([things[int(rng.integers(len(things)))]])
        asked = len(read_goal(goal))
        return f"{kind(name)}{calls}{SCENE}{placed}{ASK}{goal}{WHERE}{where}{ANSWER}", random_outcome(rng, asked)
    return f"{kind(name)}{calls}{GOAL}{goal}{SCENE}{names}{ANSWER}", random_places(rng, setting)
