"""Skills: controllers that have reached a goal, for later controllers to call by name.

A skill's name is the content address of the answer it was in, so a controller that calls one means the same program for
ever. Every thing that its program names is an argument, by that name: one that has lifted a red box lifts anything.

    skill_3f0c…(robot, world, red_box="blue_cylinder")

A controller is linked before it is run: behind its own program stand those of all skills that it calls, and of those
that they call. Of many programs for one sort of goal, the one that has succeeded most reliably is offered.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autotelic.physics.arm.scenes import COLORS, SHAPES
from autotelic.runs.files import content_address
from autotelic.worlds.arm.controllers import ENTRY
from autotelic.worlds.arm.goals import Predicate
from autotelic.worlds.code import programs
from autotelic.worlds.code.kinds.base import RefusedError, read_answer

PREFIX = "skill_"
MOST_LINKED = 16  # skills that a controller may call, with those that they call
MOST_KEPT = 8  # programs for one sort of goal that are told apart
_CALLED = re.compile(rf"{PREFIX}([0-9a-f]{{32}})")

THINGS = frozenset(f"{color}_{shape}" for color in COLORS for shape in SHAPES)

Sort = tuple[str, ...]  # a predicate without the things that it is said of: ("lifted",), ("inside", "bin")


@dataclass
class Skill:
    """A program that has reached a goal, and how often it has."""

    address: str  # of the answer it was in
    goal: Predicate  # that it reached
    form: str  # says which programs do the same to other things
    tried: int = 0
    solved: int = 0

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.address}"

    @property
    def trust(self) -> float:
        """How likely it is to succeed again, as far as one can tell: the mean of a Beta posterior."""
        return (self.solved + 1) / (self.tried + 2)


class Skills:
    """What is known to work, by sort of goal. `recall` finds the text of an earlier answer by its content address."""

    def __init__(self) -> None:
        self.recall: Callable[[str], str | None] = lambda _: None
        self._sources: dict[str, str] = {}
        self._kept: dict[Sort, list[Skill]] = {}

    def offered(self) -> list[Skill]:
        """The best program for each sort of goal that one is known for."""
        return [max(kept, key=lambda skill: skill.trust) for _, kept in sorted(self._kept.items())]

    def best(self, predicate: Predicate) -> Skill | None:
        kept = self._kept.get(sort_of(predicate), [])
        return max(kept, key=lambda skill: skill.trust, default=None)

    def program(self, skill: Skill) -> str:
        """Its controller, as it was written."""
        return self._source(skill.address)

    def remember(self, goal: Sequence[Predicate], source: str, address: str, solved: bool) -> None:
        """Takes note of a controller that was judged. Only what was brought about alone says how: goals of one
        predicate."""
        if len(goal) != 1:
            return
        (predicate,) = goal
        kept = self._kept.setdefault(sort_of(predicate), [])
        called = set(_called(source))
        skill = next((each for each in kept if each.address in called), None)  # it is that one that did it
        if skill is None and _can_be_called(source):
            form = _form(source, tuple(things_of(predicate)))
            skill = next((each for each in kept if each.form == form), None)
            if skill is None and solved:
                skill = Skill(address, predicate, form)
                kept.append(skill)
        if skill is not None:
            skill.tried += 1
            skill.solved += solved
        if len(kept) > MOST_KEPT:
            kept.remove(min(kept, key=lambda skill: skill.trust))
        if not kept:
            del self._kept[sort_of(predicate)]

    def linked(self, source: str) -> str:
        """A controller with all that it calls behind it; RefusedError if there is no such skill."""
        order: list[str] = []
        self._collect(_called(source), order)
        if not order:
            return source
        called = (_as_function(self._source(address), f"{PREFIX}{address}") for address in order)
        return "\n\n".join([source, *called])

    def _collect(self, addresses: Sequence[str], order: list[str]) -> None:
        """What is called before what calls it. Addresses are of texts that hold those of others: there is no circle."""
        for address in addresses:
            if address not in order:
                self._collect(_called(self._source(address)), order)
                order.append(address)
            if len(order) > MOST_LINKED:
                raise RefusedError("too_many", f"calls more than {MOST_LINKED} skills")

    def _source(self, address: str) -> str:
        if address not in self._sources:
            text = self.recall(address)
            if text is None:
                raise RefusedError("unknown", f"no skill {PREFIX}{address}")
            source = read_answer(text).strip("\n")
            try:
                programs.parse(source)
            except programs.ProgramError:
                raise RefusedError("unknown", f"{PREFIX}{address} is no controller") from None
            self._sources[address] = source
        return self._sources[address]

    # A run that goes on

    def state(self) -> list[dict[str, Any]]:
        return [
            {
                "address": skill.address,
                "goal": skill.goal.plain(),
                "form": skill.form,
                "tried": skill.tried,
                "solved": skill.solved,
            }
            for kept in self._kept.values()
            for skill in kept
        ]

    def load_state(self, state: Sequence[Mapping[str, Any]]) -> None:
        self._kept = {}
        for row in state:
            goal = Predicate(row["goal"][0], tuple(row["goal"][1:]))
            skill = Skill(row["address"], goal, row["form"], row["tried"], row["solved"])
            self._kept.setdefault(sort_of(goal), []).append(skill)


def sort_of(predicate: Predicate) -> Sort:
    """What a predicate says, whatever things it is said of. Stacks of other heights are other sorts."""
    count = [str(len(predicate.args))] if predicate.name == "stacked" else []
    return predicate.name, *count, *(arg for arg in predicate.args if arg not in THINGS)


def things_of(predicate: Predicate) -> list[str]:
    return [arg for arg in predicate.args if arg in THINGS]


def call_of(skill: Skill, predicate: Predicate) -> str:
    """The line that has a skill do for one predicate what it did for its own."""
    # All that it names, even where nothing changes: who calls it may itself be called, for other things.
    given = [f"{old}={new!r}" for old, new in zip(things_of(skill.goal), things_of(predicate), strict=True)]
    return f"{skill.name}({', '.join(['robot', 'world', *given])})"


# Programs as functions


@lru_cache(maxsize=4096)
def _called(source: str) -> tuple[str, ...]:
    """Addresses of the skills that a program calls, in the order of its text."""
    names = (node.id for node in ast.walk(programs.parse(source)) if isinstance(node, ast.Name))
    return tuple(dict.fromkeys(found[1] for name in names if (found := _CALLED.fullmatch(name))))


@lru_cache(maxsize=4096)
def _form(source: str, names: tuple[str, ...]) -> str:
    opened = _Opened({name: ast.Constant(f"<{at}>") for at, name in enumerate(names)})
    return content_address(ast.unparse(opened.visit(copy.deepcopy(programs.parse(source)))))


@lru_cache(maxsize=1024)
def _as_function(source: str, name: str) -> str:
    """A program as one function, whose arguments are the things that it names. What it does when it is loaded, it does
    when it is called, and it is called again for as long as it says so."""
    tree = copy.deepcopy(programs.parse(source))
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    things = sorted({value for value in constants if isinstance(value, str) and value in THINGS})
    # The arguments are kept under names that no program has, or one with a variable of that name would lose it.
    body = _Opened({thing: ast.Name(f"_given_{thing}", ast.Load()) for thing in things}).visit(tree).body
    head = ", ".join(["robot", "world", *(f"{thing}={thing!r}" for thing in things)])
    lines = [f"def {name}({head}):", *(f"    _given_{thing} = {thing}" for thing in things)]
    lines += [f"    while {ENTRY}(robot, world) == 'continue':", "        pass"]
    (function,) = ast.parse("\n".join(lines)).body
    assert isinstance(function, ast.FunctionDef)
    function.body[-1:-1] = [each for each in body if not _for_files_alone(each)]
    return ast.unparse(ast.fix_missing_locations(function))


@lru_cache(maxsize=4096)
def _can_be_called(source: str) -> bool:
    """Whether a program does the same within a function as by itself: there, what is global is not its own, and not
    all of a module can be imported. Some cannot be written down again, for numbers of thousands of digits."""
    tree = programs.parse(source)
    try:
        ast.unparse(tree)
    except (ValueError, RecursionError):
        return False
    return not any(
        isinstance(node, ast.Global) or (isinstance(node, ast.ImportFrom) and node.names[0].name == "*")
        for node in ast.walk(tree)
    )


def _for_files_alone(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


class _Opened(ast.NodeTransformer):
    """Puts something else where strings stand that name things."""

    def __init__(self, instead: Mapping[str, ast.expr]) -> None:
        self._instead = instead

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self._instead.get(node.value, node) if isinstance(node.value, str) else node

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.MatchValue:
        return node  # a name would be no pattern

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        return node  # its pieces are no names
