"""Induction: given a goal in a scene, write a controller that brings it about, wherever things start.

A task may come with an example, where things began once and where they ended: the proposer shows it by a controller of
its own, which reaches the goal in the simulation or the proposal is refused. The solver sees the places alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotelic.physics.arm.scenes import Placement, Scene
from autotelic.runs import seeds
from autotelic.runs.files import content_address
from autotelic.worlds.arm import brief, canonical, goals
from autotelic.worlds.arm.episodes import Ended, Job
from autotelic.worlds.arm.goals import SORTS, Predicate
from autotelic.worlds.arm.kinds import base
from autotelic.worlds.arm.kinds.base import ArmKind, Attempt, Draft, Other, Tried
from autotelic.worlds.arm.places import drawn_loads
from autotelic.worlds.arm.skills import PREFIX, call_of, sort_of
from autotelic.worlds.arm.tasks import ANYWHERE, CONFIRMED, ROBOTS, ArmTask, blocks, check_goal, parse, read
from autotelic.worlds.base import Proposal, Request, Task
from autotelic.worlds.code.kinds.base import (
    Grade,
    RefusedError,
    answer_rules,
    fence,
    paragraphs,
    propose_context,
    read_answer,
    read_blocks,
)

SHOWN = 2  # skills whose programs a solver is shown
LOOKED_AT = 12  # starts that are drawn to see whether the goal holds by itself
Reached = dict[Predicate, tuple[int, ...]]  # goals, and the episodes that do not show how to reach them
_CHEAP = ("near",)  # goals that are reached all the time: hindsight has one of them a task, not one an answer


class Induction(ArmKind):
    name = "induction"
    feedback = True
    asks = "given a goal, write a controller for the robot arm that reaches it."
    answer_form = "a Python program with the function execute_controller(robot, world)"
    goal_at = "$.task.goal"

    # Texts

    def propose_prompt(self, request: Request) -> str:
        references = [
            paragraphs(f"Reference {number} ({task.id}):", fence("json", _written(task.spec)))
            for number, task in enumerate(request.references, 1)
        ]
        return paragraphs(
            f"Write a new task of the kind {self.name}: {self.asks}",
            "A task says what is on the table and what shall hold at the end, as a list of predicates that must all"
            " hold. It must not hold at the start, and the robot must be able to reach it.",
            base.SCENE_RULES,
            base.goal_rules(),
            "randomisation.position is how far things may start from their place, up to 0.6, which is anywhere on the"
            " table; randomisation.yaw how far they may be turned; randomisation.mass and randomisation.friction, up to"
            " 1, by what share they may be heavier and rougher; horizon the seconds there are."
            f" A robot may be named, one of {', '.join(ROBOTS)}.",
            "A controller that reaches the goal may follow, in a ```python block. Then it is shown with the task where"
            " things began and ended once.",
            base.controller_rules(),
            *references,
            propose_context(request),
            "Make it different from the references. Answer in this form:\n"
            + fence(
                "json",
                '{"objects": ["red_box", "blue_cylinder"], "fixtures": ["bin"], "goal": [["inside", "red_box", "bin"]],'
                ' "randomisation": {"position": 0.6, "yaw": 0.5}, "horizon": 15}',
            ),
        )

    def solve_prompt(self, task: Task) -> str:
        control = read(task.spec["task"])
        start = base.drawn_start(control.setting, control.goal, *_spread(control), "shown", seed=0)
        return paragraphs(
            "Write a controller for a robot arm with a gripper.",
            f"Bring it about that {goals.described(control.goal)}.",
            base.scene_shown(control.setting, placed=control.randomisation.position < ANYWHERE),
            f"Goal, which must hold when the controller has ended: {json.dumps(task.spec['task']['goal'])}",
            f"There are {control.horizon:g} seconds. Each time it starts anew, with {_drawn(control)}, for example:\n"
            + fence("json", json.dumps(_rounded(start or control.setting.start))),
            *_example_shown(task.spec),
            base.goal_rules(),
            base.controller_rules(),
            *self._skills_for(control),
            answer_rules(self.answer_form),
        )

    def _skills_for(self, control: ArmTask) -> list[str]:
        """What has worked before: all by name, those nearest to this goal with their programs."""
        offered = self.skills.offered()
        if not offered:
            return []
        wanted = {sort_of(predicate) for predicate in control.goal}
        near = sorted(offered, key=lambda skill: (sort_of(skill.goal) not in wanted, _other_level(skill.goal, control)))
        lines = [f"  {call_of(skill, skill.goal)}: {skill.goal.words()}" for skill in offered]
        shown = [
            paragraphs(f"Reference {number}, {skill.name}:", fence("python", self.skills.program(skill)))
            for number, skill in enumerate(near[:SHOWN], 1)
        ]
        return [
            "Controllers that have worked, to be called by name. Each thing that one names can be replaced, as in"
            f" {PREFIX}…(robot, world, red_box='blue_cylinder'):\n" + "\n".join(lines),
            *shown,
        ]

    def brief_solve_prompt(self, task: Task) -> str:
        control = read(task.spec["task"])
        wanted, scene = brief.goal_words(control.goal), brief.scene_words(control.setting, False)
        return f"{brief.kind(self.name)}{wanted}{brief.SCENE}{scene}{brief.ANSWER}"

    def expand_proposal(self, text: str, request: Request) -> str:
        return brief.control_proposal(text)

    def expanded(self, text: str) -> str:
        return brief.program_of(text, self._called)

    def _called(self, predicate: Predicate) -> str:
        """The call of the best skill for a predicate."""
        skill = self.skills.best(predicate)
        if skill is None:
            raise RefusedError("unknown", f"nothing is known that makes {predicate} true")
        return call_of(skill, predicate)

    # From text to verdict

    def draft(self, proposal: Proposal) -> Draft:
        control = read({"robot": self.config.robot, **parse(proposal.text)})
        check_goal(control.goal, control.scene)
        if control.success.draws < CONFIRMED:
            raise RefusedError(
                "bounds", f"success.draws is below {CONFIRMED}: a success is confirmed at several starts"
            )
        shown = [body.rstrip("\n") for label, body in read_blocks(proposal.text) if label == "python"]
        if len(shown) > 1:
            raise RefusedError("format", "more than one ```python block")
        program = base.read_controller(shown[0], self.config.rules) if shown else None
        if control.randomisation.position == 0:
            base.check_start(control.setting)
        key = control.question
        if base.drawn_start(control.setting, (), *_spread(control), key, "room", seed=0) is None:
            raise RefusedError("overlap", "there is no room for all of these things")
        starts = [
            base.drawn_start(control.setting, control.goal, *_spread(control), key, at, seed=0)
            for at in range(LOOKED_AT)
        ]
        found = [start for start in starts if start is not None]
        if len(found) < LOOKED_AT:
            raise RefusedError("goal_true", "the goal holds at the start")
        spec, jobs = {"task": control.plain()}, [_job(control, found[0], None)]
        if program is not None:
            spec["example"] = {"controller": program, "start": _rounded(found[1])}
            jobs.append(_job(control, found[1], program))
        return Draft(spec, tuple(jobs))

    def spec(self, draft: Draft, ended: Sequence[Ended]) -> dict[str, Any]:
        control = read(draft.spec["task"])
        idle, *shown = ended
        base.require_sound(idle)
        assert idle.before is not None
        assert idle.later is not None
        if goals.holds(control.goal, control.scene, idle.before):
            raise RefusedError("goal_true", "the goal holds at the start")
        if goals.holds(control.goal, control.scene, idle.later):
            raise RefusedError("trivial", "the goal comes about by itself")
        if shown:
            (example,) = shown
            base.require_sound(example)  # by the class of how it ended: forgeries are counted as such
            if not base.reached(control.goal, control.scene, example):
                raise RefusedError("unreached", "the controller given does not reach the goal")
            assert example.later is not None
            return {**draft.spec, "example": {**draft.spec["example"], "end": _rounded(example.later.positions)}}
        return draft.spec

    def features(self, spec: Mapping[str, Any]) -> dict[str, float]:
        return read(spec["task"]).features()

    def attempt(self, task: Task, text: str, seed: int) -> Attempt:
        control = read(task.spec["task"])
        program = self.skills.linked(self.read(text))
        key = content_address(control.setting.plain(), task.spec["task"]["randomisation"])
        jobs = []
        for at in range(self.config.draws or control.success.draws):
            start = self._start(control, control.goal, key, at, seed)
            if start is None:
                raise RefusedError("lost", "no start could be drawn")
            spread = control.randomisation.mass, control.randomisation.friction
            loads = drawn_loads(control.scene, *spread, seeds.generator(seed, "loads", key, at))
            jobs.append(replace(_job(control, start, program), server=at, loads=tuple(sorted(loads.items()))))
        return Attempt(tuple(jobs), (key, seed))

    @staticmethod
    def _start(
        control: ArmTask, goal: Sequence[Predicate], key: str, at: int, seed: int
    ) -> dict[str, Placement] | None:
        """The start of that number that an answer is tried at."""
        return base.drawn_start(control.setting, goal, *_spread(control), key, at, seed=seed)

    def read(self, text: str) -> str:
        """The controller in an answer."""
        return base.read_controller(read_answer(text).strip("\n"), self.config.rules)

    def remember(self, task: Task, text: str, solved: bool) -> None:
        """Takes note of a controller that was judged, for others to call."""
        self.skills.remember(read(task.spec["task"]).goal, self.read(text), content_address(text), solved)

    def succeeded(self, task: Task, ended: Ended) -> bool:
        control = read(task.spec["task"])
        return base.reached(control.goal, control.scene, ended)

    def grade(self, task: Task, attempt: Attempt, ended: Sequence[Ended]) -> Grade:
        control, last = read(task.spec["task"]), ended[-1]
        if len(ended) == len(attempt.jobs) and all(self.succeeded(task, each) for each in ended):
            return Grade("correct", 1.0, progress=1.0)
        if not base.stood(last):
            return Grade("misplaced", detail=f"start {len(ended)} of {len(attempt.jobs)}: things did not stay in place")
        # The scene was compiled when the task was admitted: where it is not, that is no fault of the answer.
        outcome = {"ended": "wrong", "uncompiled": "lost"}.get(last.how, last.how)
        grade = self.short(outcome, control.goal, control.scene, last)
        return replace(grade, detail=f"start {len(ended)} of {len(attempt.jobs)}: {grade.detail}")

    def promising(self, task: Task, ended: Sequence[Ended]) -> list[bool]:
        """Those that reached something else; of those that reached no more than is always reached, the first."""
        return [bool(found) for found in _once_cheap(self._reached(task, [each]) for each in ended)]

    def hindsight(self, task: Task, tried: Sequence[Tried]) -> list[list[Other]]:
        """The same scene with other goals that held after every start. Where a goal had held before as well it shows
        nothing, and the controller is to be tried at a start of the other task instead."""
        control = read(task.spec["task"])
        all_starts = (self._reached(task, ended) if len(ended) == len(attempt.jobs) else {} for attempt, ended in tried)
        others: list[list[Other]] = []
        for (attempt, _), found in zip(tried, _once_cheap(all_starts), strict=True):
            hardest_first = sorted(found, key=lambda predicate: (-SORTS[predicate.name].level, predicate.plain()))
            others.append(
                [
                    Other(
                        {"task": {**task.spec["task"], "goal": [predicate.plain()]}},
                        self._lacking(control, predicate, attempt, found[predicate]),
                    )
                    for predicate in hardest_first
                ]
            )
        return others

    def _lacking(self, control: ArmTask, goal: Predicate, attempt: Attempt, unmade: Sequence[int]) -> tuple[int, ...]:
        """Starts that are to be tried for another goal: those that did not show how to reach it, and those where it
        would have begun elsewhere, for starts at which a goal holds are drawn again."""
        key, seed = attempt.value
        starts = [self._start(control, (goal,), key, at, seed) for at in range(len(attempt.jobs))]
        moved = [
            at for at, start in enumerate(starts) if start is None or base.start_of(start) != attempt.jobs[at].start
        ]
        return tuple(sorted({*unmade, *moved}))

    def _reached(self, task: Task, ended: Sequence[Ended]) -> Reached:
        """What held after all these episodes and was made true in one."""
        control = read(task.spec["task"])
        if not all(map(base.whole, ended)):
            return {}
        held = set.intersection(*(set(base.true_at_end(control.scene, each)) for each in ended))
        made = [set(base.made_true(control.scene, each)) for each in ended]
        return {
            predicate: tuple(at for at, those in enumerate(made) if predicate not in those)
            for predicate in held & set().union(*made)
            if (predicate,) != control.goal
        }

    def restate(self, spec: Mapping[str, Any]) -> str:
        if "example" not in spec:
            return json.dumps(spec["task"])
        return blocks(spec["task"], spec["example"]["controller"])

    def withheld(self, spec: Mapping[str, Any]) -> list[str]:
        return [read(spec["task"]).question]

    def asks_about(self, spec: Mapping[str, Any]) -> list[str]:
        """A controller that reaches the goal reaches every part of it."""
        control = read(spec["task"])
        asked = (
            [Predicate(name, tuple(args)) for name, *args in part] for part in canonical.parts(spec["task"]["goal"])
        )
        return [replace(control, goal=tuple(goal)).question for goal in asked]

    def asked(self, prompt: str) -> list[str]:
        """What a brief prompt of a solver asks about; nothing, if it is of another kind."""
        if not prompt.startswith(brief.kind(self.name)):
            return []
        text = prompt.removeprefix(brief.kind(self.name)).removesuffix(brief.ANSWER)
        control = read({"robot": self.config.robot, **parse(brief.control_proposal(text))})
        return self.asks_about({"task": control.plain()})

    # Looking

    def readable(self, spec: Mapping[str, Any]) -> list[tuple[str, str]]:
        control = read(spec["task"])
        return [
            ("task", control.described()),
            ("goal", base.listed(control.goal)),
            ("starts", f"{control.success.draws} of them, {_drawn(control)}; {control.horizon:g} s each"),
            ("scene", json.dumps(control.setting.plain())),
            *([("example", json.dumps(spec["example"]))] if "example" in spec else []),
        ]

    def scene(self, spec: Mapping[str, Any]) -> Scene:
        return read(spec["task"]).scene


def _once_cheap(reached: Iterable[Reached]) -> Iterator[Reached]:
    """Without what is always reached, but for the first that reached nothing else."""
    seen = False
    for found in reached:
        dear = {predicate: lacking for predicate, lacking in found.items() if predicate.name not in _CHEAP}
        yield dear if dear or seen else found
        seen = seen or bool(found and not dear)


def _drawn(control: ArmTask) -> str:
    """How starts are drawn, in words."""
    position, yaw = _spread(control)
    where = "anywhere on the table" if position >= ANYWHERE else f"up to {position:g} m from their places"
    loads = [(name, share) for name, share in control.randomisation.plain().items() if name in ("mass", "friction")]
    return ", ".join(
        [
            f"things {where if position else 'at their places'}",
            *([f"turned by up to {yaw:g} rad"] if yaw else []),
            *(f"{name} changed by up to {100 * share:g} %" for name, share in loads),
        ]
    )


def _job(control: ArmTask, start: Mapping[str, Placement], program: str | None) -> Job:
    return Job(control.scene, base.start_of(start), program, control.horizon, control.success.hold)


def _spread(control: ArmTask) -> tuple[float, float]:
    return control.randomisation.position, control.randomisation.yaw


def _example_shown(spec: Mapping[str, Any]) -> list[str]:
    """From where to where: not the controller, which would be the answer."""
    if "example" not in spec:
        return []
    places = {when: spec["example"][when] for when in ("start", "end")}
    return [
        "An example of how it can end: starts are [x, y, yaw], ends [x, y, z].\n" + fence("json", json.dumps(places))
    ]


def _other_level(predicate: Predicate, control: ArmTask) -> float:
    """How much harder or easier it is to make a predicate true than what is wanted."""
    return abs(SORTS[predicate.name].level - control.features()["level"])


def _rounded(places: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    return {name: [round(value, 3) for value in place] for name, place in places.items()}


def _written(spec: Mapping[str, Any]) -> str:
    """A task as a proposer would write it: what is drawn from all of the table has no places."""
    task = spec["task"]
    anywhere = task["randomisation"]["position"] >= ANYWHERE
    objects = [{key: value for key, value in row.items() if key != "at" or not anywhere} for row in task["objects"]]
    return json.dumps({**task, "objects": objects})
