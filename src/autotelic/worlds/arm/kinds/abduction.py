"""Abduction: given a controller and an outcome, find a start that leads to it. Any that works counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autotelic.physics.arm.scenes import Placement, Scene
from autotelic.worlds.arm import brief, goals
from autotelic.worlds.arm.episodes import Ended
from autotelic.worlds.arm.goals import Predicate
from autotelic.worlds.arm.kinds import base, questions
from autotelic.worlds.arm.kinds.base import Attempt, Draft, Other, Tried
from autotelic.worlds.arm.kinds.questions import Question
from autotelic.worlds.arm.tasks import MAX_TEXT, Setting, blocks, check_goal, parse, read_predicates, read_setting
from autotelic.worlds.base import Proposal, Request, Task
from autotelic.worlds.code.kinds.base import (
    Grade,
    RefusedError,
    answer_rules,
    fence,
    paragraphs,
    propose_context,
    read_answer,
)

EXAMPLE = """\
def execute_controller(robot, world):
    robot.close_gripper()
    robot.move_to([0.4, 0.28, 0.02], above=0.1)
    robot.move_to([0.4, 0.28, 0.02])
    robot.move_to([0.4, -0.2, 0.02])"""


class Abduction(Question):
    name = "abduction"
    feedback = True
    asks = "given a controller and what shall hold at the end, find a place to start for each object."
    goal_at = "$.goal"
    idle = "unreached", "this start does not lead to the goal"
    trivial = "most other starts lead to the goal as well"
    answer_form = 'the start, as JSON: {"red_box": [x, y, yaw], …}, yaw may be left out'

    # Texts

    def propose_prompt(self, request: Request) -> str:
        return paragraphs(
            f"Write a new task of the kind {self.name}: {self.asks}",
            "Write a scene with a place for each object, a controller, and predicates that do not hold at the start and"
            " do hold at the end. Few other starts may lead there. Without a goal, one is found by running it.",
            base.SCENE_RULES,
            base.goal_rules(),
            base.controller_rules(),
            *questions.references(request),
            propose_context(request),
            "Make it different from the references. Answer in this form:\n"
            + fence(
                "json",
                '{"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2]}],'
                ' "goal": [["at", "red_box", "right"]]}',
            )
            + "\n"
            + fence("python", EXAMPLE),
        )

    def solve_prompt(self, task: Task) -> str:
        spec = task.spec
        setting = read_setting(spec["setting"])
        return paragraphs(
            "A controller moves a robot arm with a gripper. Where must things start, so that the goal holds when it has"
            " ended? It must not hold at the start.",
            base.scene_shown(setting, placed=False),
            f"Goal: {json.dumps(spec['goal'])}",
            fence("python", spec["controller"]),
            base.controller_rules(),
            base.goal_rules(),
            f"Places for: {', '.join(setting.start)}. x is 0.35 to 0.65, y is -0.3 to 0.3; things must not touch.",
            answer_rules(self.answer_form),
        )

    def brief_solve_prompt(self, task: Task) -> str:
        spec = task.spec
        scene = brief.scene_words(read_setting(spec["setting"]), False)
        wanted = brief.goal_words(_goal(spec))
        head = f"{brief.kind(self.name)}{questions.words_of(spec)}"
        return f"{head}{brief.GOAL}{wanted}{brief.SCENE}{scene}{brief.ANSWER}"

    def expanded(self, text: str) -> str:
        rows = [row for row in brief.read_scene(text)["objects"] if isinstance(row, dict)]
        return json.dumps({f"{row['color']}_{row['shape']}": row["at"] for row in rows})

    def brief_answer(self, task: Task) -> str | None:
        return brief.places_words(read_setting(task.spec["setting"]))

    # From text to verdict

    def draft(self, proposal: Proposal) -> Draft:
        data, setting, program = base.read_question(proposal, self.config, ("goal",))
        if not setting.start:
            raise RefusedError("trivial", "there is no thing to place")
        spec: dict[str, Any] = {"setting": setting.plain(), "controller": program}
        if "goal" in data:
            goal = read_predicates(data["goal"], setting.scene, "goal")
            check_goal(goal, setting.scene)
            if goals.holds(goal, setting.scene, base.written_state(setting.scene, setting.start)):
                raise RefusedError("goal_true", "the goal holds at the start")
            spec["goal"] = [predicate.plain() for predicate in goal]
        return Draft(spec, (questions.job(setting, setting.start, program),))

    def possible(self, draft: Draft, setting: Setting, own: Ended) -> Iterator[list[Predicate]]:
        """Goals that are reached from the start given: the one that was proposed, or else any but that the gripper is
        somewhere, the hardest first."""
        if "goal" in draft.spec:
            goal = _goal(draft.spec)
            if own.before is not None and goals.holds(goal, setting.scene, own.before):
                raise RefusedError("goal_true", "the goal holds at the start")
            if base.reached(goal, setting.scene, own):
                yield goal
            return
        for predicate in base.made_true(setting.scene, own):
            if predicate.name != "near":
                yield [predicate]

    def specs(self, draft: Draft, ended: Sequence[Ended]) -> Iterator[dict[str, Any]]:
        """At most half of the starts whose end was seen may lead to the goal: chance would answer it."""
        own, *rest = questions.checked(ended)
        others = [each for each in rest if each.how not in base.UNSEEN and base.stood(each)]
        setting = read_setting(draft.spec["setting"])
        if not questions.compared(ended):
            return
        for goal in self.possible(draft, setting, own):
            leading = 1 + sum(_works(goal, setting, each) for each in others)
            if len(ended) == 1 or 2 * leading <= 1 + len(others):
                start = {name: list(place) for name, place in setting.start.items()}
                yield {**draft.spec, "goal": [predicate.plain() for predicate in goal], "start": start}

    def features(self, spec: Mapping[str, Any]) -> dict[str, float]:
        return questions.features_of(spec, len(spec["goal"]))

    def attempt(self, task: Task, text: str, seed: int) -> Attempt:
        setting = read_setting(task.spec["setting"])
        start = _read_start(read_answer(text), setting)
        placed = Setting(setting.scene, start)
        base.check_start(placed)
        if goals.holds(_goal(task.spec), setting.scene, base.written_state(setting.scene, start)):
            raise RefusedError("goal_true", "the goal holds at the start")
        return Attempt((questions.job(placed, start, task.spec["controller"]),))

    def grade(self, task: Task, attempt: Attempt, ended: Sequence[Ended]) -> Grade:
        setting, (only,) = read_setting(task.spec["setting"]), ended
        goal = _goal(task.spec)
        if only.how in (*base.UNSEEN, *base.ATTACKS):
            return Grade(only.how, detail=only.detail)
        if only.before is not None and goals.holds(goal, setting.scene, only.before):
            return Grade("goal_true", detail="the goal holds at the start")
        if not base.stood(only):
            return Grade("overlap", detail="things do not stand where they are put")
        if _works(goal, setting, only):
            return Grade("correct", 1.0, progress=1.0)
        return self.short("wrong", goal, setting.scene, only)

    def hindsight(self, task: Task, tried: Sequence[Tried]) -> list[list[Other]]:
        """The same controller with other goals that it reached from this start, and not from most that were tried."""
        scene = read_setting(task.spec["setting"]).scene
        reached = [set(base.made_true(scene, only)) if base.whole(only) else set[Predicate]() for _, (only,) in tried]
        apart = {attempt.jobs[0].start: found for (attempt, _), found in zip(tried, reached, strict=True)}
        many = Counter(goal for found in apart.values() for goal in found)
        known = {goal for goal, times in many.items() if 2 * times > len(apart)}
        known |= set(_goal(task.spec)) if len(task.spec["goal"]) == 1 else set()
        return [
            [
                Other(_started(task, scene, attempt.jobs[0].start, goal))
                for goal in sorted(found - known, key=str)
                if goal.name != "near"
            ]
            for (attempt, _), found in zip(tried, reached, strict=True)
        ]

    def restate(self, spec: Mapping[str, Any]) -> str:
        extra = {**read_setting(spec["setting"]).plain(), "goal": spec["goal"]}
        return blocks(extra, spec["controller"])

    def withheld(self, spec: Mapping[str, Any]) -> list[str]:
        return [questions.leads_to(spec, spec["goal"])]

    def asks_about(self, spec: Mapping[str, Any]) -> list[str]:
        """With the start that answers it: that it leads to the goal, deduction may ask, and it leads to each part."""
        return [questions.run_of(spec), *questions.leads_to_all(spec, spec["goal"])]

    # Looking

    def readable(self, spec: Mapping[str, Any]) -> list[tuple[str, str]]:
        goal, setting = _goal(spec), read_setting(spec["setting"])
        return [
            (
                "task",
                f"Find a start from which the controller brings it about that {goals.described(goal)}. "
                f"{setting.described()}",
            ),
            ("goal", base.listed(goal)),
            ("a start that does", json.dumps(spec["start"])),
            ("controller", spec["controller"]),
        ]


def _started(task: Task, scene: Scene, start: Sequence[tuple[str, Placement]], goal: Predicate) -> dict[str, Any]:
    """A task's controller, with a goal that it reaches from this start."""
    setting = Setting(scene, dict(start))
    places = {name: list(place) for name, place in start}
    rest = {"controller": task.spec["controller"], "goal": [goal.plain()], "start": places}
    return {"setting": setting.plain(), **rest}


def _goal(spec: Mapping[str, Any]) -> list[Predicate]:
    return [Predicate(row[0], tuple(row[1:])) for row in spec["goal"]]


def _works(goal: Sequence[Predicate], setting: Setting, ended: Ended) -> bool:
    """Whether an episode reaches a goal that did not hold at its start."""
    if ended.before is None or goals.holds(goal, setting.scene, ended.before):
        return False
    return base.reached(goal, setting.scene, ended)


def _read_start(text: str, setting: Setting) -> dict[str, Placement]:
    """A place for each thing, by the rules of the schema."""
    if len(text) > MAX_TEXT:
        raise RefusedError("format", "too long")
    said = parse(text)
    if sorted(said) != sorted(setting.start):
        raise RefusedError("format", f"needs a place for each of {', '.join(setting.start)}, and no other")
    plain = setting.plain()
    rows = [{**row, "at": said[f"{row['color']}_{row['shape']}"]} for row in plain["objects"]]
    if any(row["at"] is None for row in rows):
        raise RefusedError("format", "a place is missing")
    return dict(read_setting({**plain, "objects": rows}).start)
