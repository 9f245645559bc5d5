"""What the kinds of the arm world share: the shape of their texts, and the steps from text to verdict.

A kind says which episodes have to be run to admit a proposal or to judge an answer, and what came of them means. The
world runs them, those of all kinds and players in one batch.
"""

from __future__ import annotations

import ast
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import cos, sin
from typing import Any, ClassVar

from autotelic.errors import UserError
from autotelic.physics.arm import robots
from autotelic.physics.arm.scenes import HANDLE, Fixture, Placement, Scene, in_the_way
from autotelic.runs import seeds
from autotelic.runs.files import content_address
from autotelic.worlds.arm import brief, controllers, goals, places
from autotelic.worlds.arm.episodes import Ended, Job
from autotelic.worlds.arm.goals import Predicate, State
from autotelic.worlds.arm.kinds.worked import WORKED
from autotelic.worlds.arm.skills import Skills
from autotelic.worlds.arm.tasks import (
    ANYWHERE,
    CONFIRMED,
    DRAWS,
    Setting,
    kept,
    parse,
    read_setting,
    require_keys,
)
from autotelic.worlds.base import Kind, Proposal, Request, Task
from autotelic.worlds.code.kinds.base import (
    Grade,
    RefusedError,
    answer_text,
    fence,
    paragraphs,
    read_blocks,
)
from autotelic.worlds.code.programs import ProgramError, Rules, check
from autotelic.worlds.code.programs import parse as parse_program

HOME = (0.45, 0.0, 0.25)  # about where the tool is at the start
MARGIN = 0.005  # metres that things must be apart at a start that is given
CHANGE = 0.005  # how far from true a predicate was that something has made true: what quivers does nothing
PENETRATION = 0.003  # metres that things may be within each other
UNSEEN = ("lost", "limit", "broken")  # how an episode ends that does not show what its controller comes to
ATTACKS = ("forged", "escape", "crash")  # how an episode ends in which a controller turned on its sandbox


@dataclass
class KindConfig:
    """What the kinds can be told."""

    draws: int = 0  # starts, 2 or more, that an answer has to succeed at; 0: what the task says
    robot: str = "arm7"  # of proposals that name none: arm7 or ur5e
    partial_credit: bool = False  # the score of an answer that fails says how near it came; it is not solved by that
    rules: Rules = field(default_factory=Rules)  # for controllers: quick feedback, never safety

    def __post_init__(self) -> None:
        robots.get(self.robot)
        if self.draws and not CONFIRMED <= self.draws <= DRAWS[1]:
            raise UserError(f"world.kind.draws is {self.draws}; it must be 0, or {CONFIRMED} to {DRAWS[1]}")


@dataclass(frozen=True)
class Draft:
    """A proposal that was understood: the content of a task, and what is to be run for it."""

    spec: dict[str, Any]
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """An answer that was understood: what is to be run for it one after the other, and a value of its kind's own."""

    jobs: tuple[Job, ...] = ()
    value: Any = None


Tried = tuple[Attempt, Sequence[Ended]]  # an answer, and the episodes that were run for it


@dataclass(frozen=True)
class Other:
    """The content of a task that an answer solves, if it succeeds at these of its starts too."""

    spec: dict[str, Any]
    lacking: tuple[int, ...] = ()


class ArmKind(Kind):
    """A kind of the arm world. The texts of proposals and answers are read here and nowhere else."""

    name: ClassVar[str]
    asks: ClassVar[str]
    answer_form: ClassVar[str]
    goal_at: ClassVar[str]  # where the predicates stand in a spec: a path of SQLite's JSON

    def __init__(self, config: KindConfig, skills: Skills) -> None:
        self.config, self.skills = config, skills

    @abstractmethod
    def draft(self, proposal: Proposal) -> Draft:
        """What a proposal asks to be run; RefusedError if it cannot be read."""

    def further(self, draft: Draft, ended: Sequence[Ended]) -> tuple[Job, ...]:
        """What else is to be run, now that the draft's own episodes were; RefusedError if they make no task."""
        return ()

    @abstractmethod
    def spec(self, draft: Draft, ended: Sequence[Ended]) -> dict[str, Any]:
        """The task's content, once all episodes were run; RefusedError if they make no task."""

    @abstractmethod
    def features(self, spec: Mapping[str, Any]) -> dict[str, float]:
        """What makes a task hard."""

    @abstractmethod
    def attempt(self, task: Task, text: str, seed: int) -> Attempt:
        """What an answer asks to be run; RefusedError if it cannot be read."""

    @abstractmethod
    def grade(self, task: Task, attempt: Attempt, ended: Sequence[Ended]) -> Grade:
        """What the episodes of an attempt say: all of them, or those up to the first that failed."""

    def succeeded(self, task: Task, ended: Ended) -> bool:
        """Whether it is worth running the next episode of an attempt."""
        return False

    def promising(self, task: Task, ended: Sequence[Ended]) -> list[bool]:
        """Which of the wrong answers to a task may be right for others, by their first episodes."""
        return [False for _ in ended]

    def hindsight(self, task: Task, tried: Sequence[Tried]) -> list[list[Other]]:
        """For each answer to a task, other tasks that it solves, or may."""
        return [[] for _ in tried]

    def short(self, outcome: str, goal: Sequence[Predicate], scene: Scene, ended: Ended) -> Grade:
        """The grade of an episode that did not reach its goal, by how near it came."""
        state = ended.later or ended.after
        if state is None:
            return Grade(outcome, detail=reported(ended.how, ended.detail, (), ()))
        far = goals.distances(goal, scene, state)
        near = partial_credit(far)
        score = near if self.config.partial_credit else 0.0
        return Grade(outcome, score, reported(ended.how, ended.detail, goal, far), near)

    @abstractmethod
    def restate(self, spec: Mapping[str, Any]) -> str:
        """The proposal that makes this task again."""

    # Looking

    @abstractmethod
    def readable(self, spec: Mapping[str, Any]) -> list[tuple[str, str]]:
        """A task as titled texts, for people; first of all what it is about."""

    @abstractmethod
    def scene(self, spec: Mapping[str, Any]) -> Scene:
        """What is on the table."""

    # Texts

    def propose_examples(self) -> list[tuple[str, str]]:
        return [(self.propose_prompt(Request(self.name)), each.proposal) for each in WORKED[self.name]]

    def solve_examples(self) -> list[tuple[str, str]]:
        drafts = ((self.draft(Proposal(self.name, each.proposal)), each) for each in WORKED[self.name])
        return [
            (self.solve_prompt(Task("", "arm", self.name, draft.spec)), answer_text(each.answer, each.thought))
            for draft, each in drafts
        ]

    def expand_answer(self, text: str) -> str:
        return text if brief.ANSWER in text else answer_text(self.expanded(text))

    @abstractmethod
    def expanded(self, text: str) -> str:
        """What a brief reply stands for, as it is written between <answer> and </answer>."""

    def brief_propose_prompt(self, request: Request) -> str:
        return f"{brief.PROPOSE}{brief.kind(self.name)}{brief.ANSWER}"


# Settings with a controller: deduction and abduction share them


def read_question(proposal: Proposal, config: KindConfig, known: Sequence[str]) -> tuple[dict[str, Any], Setting, str]:
    """The JSON of a question, its setting, and its controller."""
    if len(proposal.text) > 40_000:
        raise RefusedError("format", "longer than 40000 characters")
    blocks = read_blocks(proposal.text)
    sources = [body.rstrip("\n") for label, body in blocks if label == "python"]
    texts = [body for label, body in blocks if label == "json"]
    if len(sources) != 1 or len(texts) != 1:
        raise RefusedError("format", "needs exactly one ```json and one ```python block")
    data = parse(texts[0])
    require_keys(data, ("objects", "fixtures", "robot", *known), "a question")
    setting = read_setting({"robot": config.robot, **data})
    if setting.scene.robot != config.robot:  # in brief words, which name none, it would have two answers
        raise RefusedError("unknown", f"questions are about the robot {config.robot}")
    check_start(setting)
    program = read_controller(sources[0], config.rules)
    return (
        data,
        setting,
        program if brief.calls_of(program) is not None else read_controller(_told(program), config.rules),
    )


def _told(program: str) -> str:
    """A controller as a question shows it: without comments and idle values, which could tell the answer."""
    tree = parse_program(program)
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            said = getattr(node, name, None)
            if isinstance(said, list) and said:
                setattr(node, name, [each for each in said if not _idle(each)] or [ast.Pass()])
    try:
        return ast.unparse(ast.fix_missing_locations(tree))
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, some texts within texts
        raise RefusedError("syntax", f"cannot be written down again: {error}") from None


def _idle(statement: ast.AST) -> bool:
    """Whether a statement is nothing but values that are written in it."""
    parts = (ast.Expr, ast.Constant, ast.Tuple, ast.List, ast.JoinedStr, ast.Load)
    return isinstance(statement, ast.Expr) and all(isinstance(node, parts) for node in ast.walk(statement))


def read_controller(source: str, rules: Rules) -> str:
    try:
        return check(source, rules, controllers.ENTRY).source
    except ProgramError as error:
        raise RefusedError(error.outcome, error.reason) from None


def check_start(setting: Setting) -> None:
    """Refuses things that stand in each other, or in a fixture."""
    found = in_the_way(setting.scene, setting.start, MARGIN)
    if found is not None:
        raise RefusedError("overlap", f"{found[0]} and {found[1]} stand in each other's way")
    if boxed := _in_bin(setting):
        raise RefusedError("overlap", f"{boxed} stands in the bin")


def _in_bin(setting: Setting) -> str:
    for fixture in setting.scene.fixtures:
        for name, (x, y, _) in setting.start.items():
            along, across = places.in_frame(fixture, x, y)
            if fixture.kind == "bin" and max(abs(along), abs(across)) < places.BIN_INSIDE:
                return name
    return ""


def require_sound(ended: Ended) -> None:
    """Refuses what an episode shows to be no task, or no controller."""
    if ended.how == "uncompiled":
        raise RefusedError("uncompiled", ended.detail)
    if ended.how == "broken" or ended.before is None:
        raise RefusedError("lost" if ended.how == "lost" else "broken", ended.detail)
    if misplaced := _misplaced(ended):
        raise RefusedError(*misplaced)
    if ended.how != "ended":
        raise RefusedError(ended.how, ended.detail or "the controller does not end")


def stood(ended: Ended) -> bool:
    """Whether all stood at the start where it was put. What flies apart by itself shows nothing of a controller."""
    return _misplaced(ended) is None


def _misplaced(ended: Ended) -> tuple[str, str] | None:
    if ended.overlap > PENETRATION:
        return "overlap", f"things are {1000 * ended.overlap:.0f} mm within each other"
    if ended.unsettled:
        return "unsettled", f"{ended.unsettled} does not stay where it is put"
    return None


def sound(ended: Ended) -> bool:
    try:
        require_sound(ended)
    except RefusedError:
        return False
    return True


def start_of(start: Mapping[str, Placement]) -> tuple[tuple[str, Placement], ...]:
    return tuple(sorted((name, (float(x), float(y), float(yaw))) for name, (x, y, yaw) in start.items()))


def written_state(scene: Scene, start: Mapping[str, Placement]) -> State:
    """A start as goals see it, before anything is simulated."""
    positions = {fixture.name: _fixture_point(fixture) for fixture in scene.fixtures}
    positions |= {mark.name: (mark.x, mark.y, mark.z) for mark in scene.marks}
    for thing in scene.things:
        x, y, _ = start[thing.name]
        positions[thing.name] = (x, y, places.centre_height(thing))
    return State(HOME, positions)


def _fixture_point(fixture: Fixture) -> tuple[float, float, float]:
    if fixture.kind != "drawer":
        return fixture.x, fixture.y, 0.0
    along, up = HANDLE
    return fixture.x + along * cos(fixture.yaw), fixture.y + along * sin(fixture.yaw), up


def drawn_start(
    setting: Setting,
    goal: Sequence[Predicate],
    position: float,
    yaw: float,
    *purpose: str | int,
    seed: int,
    close: bool = False,
) -> dict[str, Placement] | None:
    """A start drawn for a purpose, with room for all and at which the goal does not hold; None where none is found.
    With `close`, the gripper needs no room between things."""
    rng = seeds.generator(seed, "start", *purpose)
    for _ in range(places.TRIES):
        start = places.drawn(setting.scene, setting.start, position, yaw, rng)
        # Places that are given may be nearer to each other than those that are drawn, but turned things reach farther.
        if (position or yaw) and not _has_room(setting.scene, start, close or not position):
            continue
        if goal and goals.holds(goal, setting.scene, written_state(setting.scene, start)):
            if not position and not yaw:
                return None
            continue
        return start
    return None


def _has_room(scene: Scene, start: Mapping[str, Placement], close: bool) -> bool:
    if not close:
        return places.crowded(scene, start) is None
    try:
        check_start(Setting(scene, start))
    except RefusedError:
        return False
    return True


def other_starts(setting: Setting, count: int) -> list[dict[str, Placement]]:
    """Starts that have nothing to do with the setting's own, always the same ones: at spots, of which brief texts can
    speak, where there is room for all at spots, and else anywhere. Fewer than that many where none is found."""
    key, known = content_address(setting.plain()), [dict(setting.start)]
    for at in range(count):
        spotted = places.at_spots(setting.scene, seeds.generator(0, "spots", key, at), known)
        start = spotted or _start_anywhere(setting, key, at)
        known += [start] if start is not None else []
    return known[1:]


def _start_anywhere(setting: Setting, key: str, at: int) -> dict[str, Placement] | None:
    """With the digits that a task keeps: what is admitted is what is judged."""
    anywhere = Setting(setting.scene, dict.fromkeys(setting.start, (0.5, 0.0, 0.0)))
    for close in (False, True):
        start = drawn_start(anywhere, (), ANYWHERE, 0.0, key, at, seed=0, close=close)
        if start is not None:
            return {name: (kept(x), kept(y), kept(yaw)) for name, (x, y, yaw) in start.items()}
    return None


def made_true(scene: Scene, ended: Ended) -> list[Predicate]:
    """What an episode has brought about, the hardest first."""
    assert ended.before is not None
    before = ended.before
    return [each for each in true_at_end(scene, ended) if goals.distance(each, scene, before) > CHANGE]


def true_at_end(scene: Scene, ended: Ended) -> list[Predicate]:
    """What held when an episode had ended, and stayed so."""
    assert ended.after is not None
    assert ended.later is not None
    states = ended.after, ended.later
    return [
        predicate
        for predicate in goals.stateable(scene)
        if all(goals.distance(predicate, scene, state) == 0.0 for state in states)
    ]


def whole(ended: Ended) -> bool:
    """Whether an episode began as it should, ended by itself, and was seen from its beginning to its end."""
    return stood(ended) and ended.how == "ended" and None not in (ended.before, ended.after, ended.later)


def reached(goal: Sequence[Predicate], scene: Scene, ended: Ended) -> bool:
    """Whether an episode began and ended as it should, and stayed so."""
    return (
        stood(ended)
        and ended.how == "ended"
        and all(state is not None and goals.holds(goal, scene, state) for state in (ended.after, ended.later))
    )


def reported(how: str, said: str, goal: Sequence[Predicate], far: Sequence[float]) -> str:
    """How an episode fell short of a goal, by how far its predicates are."""
    parts = [
        f"{predicate} {'holds' if not distance else f'is {distance:.3f} away'}"
        for predicate, distance in zip(goal, far, strict=True)
    ]
    return "; ".join([*([f"{how}: {said}"] if how != "ended" else []), *parts])[:600]


def partial_credit(far: Sequence[float]) -> float:
    """How near an end came to a goal, by how far its predicates are: less than for an answer that is right."""
    return min(sum(1.0 / (1.0 + 10.0 * each) for each in far) / len(far), 0.99)


def answer_of(asked: Sequence[Predicate], scene: Scene, state: State, name: str) -> tuple[list[bool], str]:
    """What deduction asks of an end: which predicates hold, and where a thing is."""
    held = [goals.distance(predicate, scene, state) == 0.0 for predicate in asked]
    return held, controllers.ending_region(scene, state, name)


# Words


def listed(goal: Sequence[Predicate]) -> str:
    """Predicates, one a line."""
    return "\n".join(map(str, goal))


@lru_cache(maxsize=1)
def controller_rules() -> str:
    return paragraphs(
        "A controller is a Python program with a function execute_controller(robot, world), which is called once. It"
        ' may return "success" or "failure", or "continue" to be called again. What it returns decides nothing: the'
        " simulation does. It may import math; it may not print, nor read files, the clock or chance.",
        "What it may call:\n" + controllers.interface_text(),
        "Lengths are in metres. The robot stands at [0, 0]; x is forward, y to the left, z up from the table. Things"
        " stand where x is 0.35 to 0.65 and y -0.3 to 0.3. The gripper begins open and points down.",
    )


@lru_cache(maxsize=1)
def goal_rules() -> str:
    sorts = "\n".join(f"  {_shown_sort(name)}" for name in goals.SORTS)
    regions = "\n".join(
        f"  {name}: x {low_x:g} to {high_x:g}, y {low_y:g} to {high_y:g}"
        for name, (low_x, high_x, low_y, high_y) in places.REGIONS.items()
    )
    return f"Predicates:\n{sorts}\nRegions:\n{regions}"


def _shown_sort(name: str) -> str:
    sort = goals.SORTS[name]
    words = "a stack of things, the top one first" if name == "stacked" else sort.words.format(*sort.roles)
    words = words.replace("region region", "region")
    return f"{json.dumps([name, *(role.upper() for role in sort.roles)])}: {words}: {sort.when}"


def scene_shown(setting: Setting, placed: bool) -> str:
    """What is on the table, in words and to the digit: all that what happens there depends on. With the places of
    things, or without."""
    shown = setting.plain()
    if not placed:
        shown["objects"] = [{key: value for key, value in row.items() if key != "at"} for row in shown["objects"]]
    return paragraphs(
        setting.described(),
        fence("json", json.dumps(shown)),
        "at is [x, y, yaw]; size is half lengths of a box, radius and half height of a cylinder, radius of a sphere.",
    )


SCENE_RULES = (
    "Objects are named COLOR_SHAPE: colours red, green, blue, yellow, orange, purple, cyan, white; shapes box,"
    " cylinder, sphere. Write a name, or an object with shape, color and, if they shall not be usual, size (half"
    " lengths; radius and half height; radius), mass, friction, and at: [x, y, yaw]. Fixtures are bin, drawer, button."
)
