"""Hand-written tasks, and a controller for every goal: the upper bound, and what demonstrations are made with.

A controller is put together from parts: what its goal's predicates need, each after those that would undo it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotelic.worlds.arm import brief
from autotelic.worlds.arm.brief import NAMES, SCENE
from autotelic.worlds.arm.goals import FAMILIES, SORTS
from autotelic.worlds.arm.tasks import Setting, read, read_setting
from autotelic.worlds.base import Kind, Library, Request, Task
from autotelic.worlds.code.kinds.base import answer_text

PICK = """\
def pick(robot, world, name):
    robot.open_gripper()
    x, y, z = robot.get_end_effector_position()
    robot.move_to([x, y, max(z, 0.2)])
    robot.move_to(world.position(name), above=0.12)
    robot.move_to(world.position(name))
    robot.close_gripper()
    robot.move_to(robot.get_end_effector_position(), above=0.2)
"""
PLACE = """\
def place(robot, world, x, y, z):
    robot.move_to([x, y, 0.24])
    robot.move_to([x, y, z])
    robot.open_gripper()
    robot.move_to([x, y, 0.24])
"""
STACK = """\
def stack(robot, world, name, other):
    x, y, z = world.position(other)
    tool, held = robot.get_end_effector_position(), world.position(name)
    x, y = x + tool[0] - held[0], y + tool[1] - held[1]
    robot.move_to([x, y, 0.24])
    robot.move_to([x, y, z + world.size(other)[-1] + world.size(name)[-1] + tool[2] - held[2] + 0.003])
    robot.open_gripper()
    robot.move_to([x, y, 0.24])
"""
FREE = """\
ROOM = {"bin": 0.15, "drawer": 0.16, "button": 0.09}

def free_place(world, name, fits):
    best, most = None, -1.0
    others = [(other, world.position(other)) for other in world.objects() if other != name]
    for i in range(28):
        for j in range(31):
            x, y = 0.2 + 0.02 * i, -0.45 + 0.03 * j
            if not fits(x, y) or not 0.29 < (x * x + y * y) ** 0.5 < 0.75:
                continue
            least = 0.2 - 0.1 * ((x - 0.5) ** 2 + y ** 2) ** 0.5
            for other, (px, py, _) in others:
                least = min(least, max(abs(x - px), abs(y - py)) - ROOM.get(other, 0.06))
            if least > most:
                best, most = (x, y), least
    return best
"""
REACH = """\
def reach(robot, world, name):
    robot.move_to(world.position(name), above=0.12)
    robot.move_to(world.position(name))
"""
PRESS = """\
def press(robot, world, name):
    robot.move_to(robot.get_end_effector_position(), above=0.1)
    robot.close_gripper()
    robot.move_to(world.position(name), above=0.1)
    robot.move_to(world.position(name), above=-0.03)
    robot.move_to(world.position(name), above=0.15)
"""
PULL = """\
def pull(robot, world, name):
    robot.open_gripper()
    robot.move_to(world.position(name), above=0.12)
    robot.move_to(world.position(name))
    robot.close_gripper()
    x, y, z = robot.get_end_effector_position()
    robot.move_to([x - 0.14, y, z])
    robot.open_gripper()
    robot.move_to([x - 0.14, y, 0.25])
"""
_PARTS = {
    "pick(": PICK,
    "place(": PLACE,
    "stack(": STACK,
    "free_place(": FREE,
    "reach(": REACH,
    "press(": PRESS,
    "pull(": PULL,
}
_FITS = {
    "left": "y >= 0.16",
    "right": "y <= -0.16",
    "middle": "abs(y) <= 0.05",
    "front": "x <= 0.4",
    "back": "x >= 0.6",
    "left_of": "y >= {y} + 0.075",
    "right_of": "y <= {y} - 0.075",
    "behind": "x >= {x} + 0.075",
    "in_front_of": "x <= {x} - 0.075",
}
_ORDER = ("open", "pressed", "at", "left_of", "right_of", "behind", "in_front_of", "inside", "on", "stacked")


def solution(goal: Sequence[Sequence[str]]) -> str:
    """A controller for a goal."""
    lines: list[str] = []
    parts: dict[str, None] = {}
    for name, *args in sorted(goal, key=lambda row: (*_ORDER, "lifted", "near").index(row[0])):
        if name == "stacked":
            for upper, lower in list(itertools.pairwise(args))[::-1]:
                lines += _on(upper, lower)
        elif name == "on":
            lines += _on(*args)
        elif name == "inside":
            lines += _inside(*args)
        elif name in ("near", "pressed", "open", "lifted"):
            action = {"near": "reach", "pressed": "press", "open": "pull", "lifted": "pick"}[name]
            lines.append(f"{action}(robot, world, '{args[0]}')")
        else:
            lines += _beside(name, *args)
    for word, part in _PARTS.items():
        if any(word in line for line in lines):
            parts[part] = None
    body = "\n".join(f"    {line}" for line in lines)
    return "\n".join([*parts, f'def execute_controller(robot, world):\n{body}\n    return "success"'])


def _on(upper: str, lower: str) -> list[str]:
    return [f"pick(robot, world, '{upper}')", f"stack(robot, world, '{upper}', '{lower}')"]


def _inside(name: str, container: str) -> list[str]:
    pick = f"pick(robot, world, '{name}')"
    if container == "drawer":
        there = "x, y, z = world.position('drawer')"
        return ["pull(robot, world, 'drawer')", pick, there, "place(robot, world, x + 0.141, y, 0.09)"]
    return [pick, f"x, y, z = world.position('{container}')", "place(robot, world, x, y, 0.07)"]


def _beside(relation: str, name: str, other: str) -> list[str]:
    if relation == "at" and other not in _FITS:
        there = f"x, y, z = world.position('{other}')"
        return [f"pick(robot, world, '{name}')", there, f"place(robot, world, x, y, world.size('{name}')[-1] + 0.003)"]
    fits = _FITS[other] if relation == "at" else _FITS[relation].format(x="px", y="py")
    there = [] if relation == "at" else [f"px, py, pz = world.position('{other}')"]
    return [
        *there,
        f"fits = lambda x, y: {fits}",
        "for _ in range(2):  # a cylinder may tip over when it is let go",
        f"    x, y = free_place(world, '{name}', fits)",
        f"    pick(robot, world, '{name}')",
        f"    place(robot, world, x, y, world.size('{name}')[-1] + 0.003)",
        f"    if fits(*world.position('{name}')[:2]):",
        "        break",
    ]


WRONG = 'def execute_controller(robot, world):\n    robot.home()\n    return "failure"'

SEEDS: dict[str, str] = {
    "induction": json.dumps(
        {"objects": ["red_box"], "goal": [["near", "red_box"]], "randomisation": {"position": 0.6}}
    ),
    "deduction": brief.question_proposal(
        " move red_box",
        {**brief.read_scene(" red_box front_left"), "ask": [["near", "red_box"]], "object": "red_box"},
    ),
    "abduction": brief.question_proposal(
        " move red_box close middle",
        {**brief.read_scene(" red_box front_left blue_box back_left"), "goal": [["right_of", "red_box", "blue_box"]]},
    ),
}

# Controllers in brief words, of a thing A and another B, for questions. Where B is decides what comes of most of them.
_DEEDS: tuple[tuple[str, str], ...] = (
    (" move A close left_of B open", ""),
    (" move A close middle open", ""),
    (" move A close right_of B open up", ""),
    (" move A close behind B open", ""),
    (" move A close on B up", ""),
    (" move A close in_front_of B open", ""),
    (" move A close middle open", " button"),
    (" move A close left_of B open home", " drawer"),
    (" close move B right", ""),
)


class ArmLibrary(Library):
    """Hand-written and random texts of the arm world."""

    size = 420  # of control tasks: every family with all pairs of things and all regions that it meets

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._kinds = kinds

    def proposal(self, request: Request, turn: int) -> str:
        one, other = NAMES[turn % len(NAMES)], NAMES[(turn // 7 + turn * 5 + 3) % len(NAMES)]
        if one == other:
            other = NAMES[(NAMES.index(one) + 1) % len(NAMES)]
        if request.kind == "induction":
            families = FAMILIES if request.difficulty is None else _as_hard_as(request.difficulty)
            return json.dumps(_family_task(families[turn % len(families)], one, other, turn))
        calls, fixtures = (text.replace("A", one).replace("B", other) for text in _DEEDS[turn % len(_DEEDS)])
        free = brief.free_places(fixtures.split())
        at, away = free[turn // len(_DEEDS) % len(free)], free[(turn // 3 + 1) % len(free)]
        if at == away:
            away = free[(free.index(at) + 1) % len(free)]
        scene = f"{brief.worded([one, at, other, away])}{fixtures}"
        return self._kinds[request.kind].expand_proposal(f"{calls}{SCENE}{scene}", request)

    def answer(self, task: Task, right: bool, pick: int) -> str:
        """Knows a controller for every goal, and the answers to questions about its own controllers."""
        spec = task.spec
        if task.kind == "induction":
            return answer_text(solution(spec["task"]["goal"]) if right else WRONG)
        if right and self._is_mine(spec["controller"]):
            if task.kind == "deduction":
                return answer_text(" ".join([*("yes" if held else "no" for held in spec["held"]), spec["region"]]))
            return answer_text(json.dumps(spec["start"]))
        return self.random_answer(task, np.random.default_rng(pick))

    def _is_mine(self, controller: str) -> bool:
        words = brief.calls_of(controller) or ""
        return any(_shape(words) == _shape(calls) for calls, _ in _DEEDS) or controller in SEEDS["deduction"]

    def random_proposal(self, request: Request, rng: np.random.Generator) -> str:
        kind = self._kinds[request.kind]
        prompt = ""
        while not prompt.startswith(brief.PROPOSE):
            prompt, reply = brief.babble(request.kind, rng)
        return kind.expand_proposal(reply, request)  # pyright: ignore[reportPossiblyUnboundVariable]

    def random_answer(self, task: Task, rng: np.random.Generator) -> str:
        kind = self._kinds[task.kind]
        if task.kind == "induction":
            return kind.expand_answer(brief.random_calls(rng, brief.names_of(_setting(task.spec["task"]))))
        setting = _setting(task.spec["setting"])
        if task.kind == "deduction":
            return kind.expand_answer(brief.random_outcome(rng, len(task.spec["ask"])))
        return kind.expand_answer(brief.random_places(rng, setting))


def _shape(calls: str) -> list[str | int]:
    """Call words with their things by number: equal for controllers that do the same to others."""
    words = calls.split()
    things = [word for word in dict.fromkeys(words) if word in (*NAMES, "A", "B")]
    return [things.index(word) if word in things else word for word in words]


def _setting(plain: Mapping[str, Any]) -> Setting:
    return read(plain).setting if "goal" in plain else read_setting(plain)


def _as_hard_as(difficulty: float) -> Sequence[str]:
    """The third of the families that is nearest to a difficulty from 0 to 1, when all are ordered by how much it takes
    to reach their goals."""
    level = {sort.family: sort.level for sort in reversed(SORTS.values())}  # of the easiest predicate of each
    ordered = sorted(FAMILIES, key=level.__getitem__)
    place = {family: (at + 0.5) / len(ordered) for at, family in enumerate(ordered)}
    nearest = sorted(ordered, key=lambda family: abs(place[family] - difficulty))[: round(len(ordered) / 3) + 1]
    return sorted(nearest, key=ordered.index)


def _family_task(family: str, one: str, other: str, turn: int) -> dict[str, Any]:
    """A task of a family, said of two things; more of them are there each time the families have been gone through."""
    support = other if not other.endswith("sphere") else f"{other.rpartition('_')[0]}_box"
    if support == one:
        support = next(name for name in NAMES if name not in (one, support) and not name.endswith("sphere"))
    goals: dict[str, tuple[list[str], list[str]]] = {
        "reach": (["near", one], []),
        "push": (["at", one, ("left", "right", "front", "back", "middle")[turn // 7 % 5]], []),
        "lift": (["lifted", one], []),
        "pick-place": (["inside", one, "bin"], ["bin"]),
        "stack": (["on", one, support], []),
        "drawer": (["open", "drawer"], ["drawer"]),
        "button": (["pressed", "button"], ["button"]),
    }
    goal, fixtures = goals[family]
    names = [name for name in dict.fromkeys((one, support)) if name in goal or turn >= 7]
    assert goal[0] in SORTS
    spread = {"position": 0.6, "yaw": brief.SPREAD_YAW}
    return {"objects": names or [one], "fixtures": fixtures, "goal": [goal], "randomisation": spread}
