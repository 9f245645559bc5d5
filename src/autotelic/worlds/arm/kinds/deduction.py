"""Deduction: given a scene and a controller, say what will hold at the end and where a thing will be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autotelic.runs import seeds
from autotelic.runs.files import content_address
from autotelic.worlds.arm import brief, goals
from autotelic.worlds.arm.episodes import Ended
from autotelic.worlds.arm.goals import Predicate
from autotelic.worlds.arm.kinds import base, questions
from autotelic.worlds.arm.kinds.base import Attempt, Draft, Other, Tried
from autotelic.worlds.arm.kinds.questions import Question
from autotelic.worlds.arm.places import INNER, REGIONS
from autotelic.worlds.arm.tasks import Setting, blocks, read_predicates, read_setting
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

CHOICES = 12  # questions that are looked at, where none was proposed


class Deduction(Question):
    name = "deduction"
    asks = "given a scene and a controller, say which predicates hold at the end, and where an object is then."
    goal_at = "$.ask"
    idle = "trivial", "the answer is the same without the controller"
    trivial = "the answer is the same wherever things start"
    answer_form = 'yes or no for each predicate, in their order, and the region, such as "yes no left"'

    # Texts

    def propose_prompt(self, request: Request) -> str:
        return paragraphs(
            f"Write a new task of the kind {self.name}: {self.asks}",
            "Write a scene with a place for each object, one or more predicates to ask about, the object whose region"
            " is asked for, and a controller. The answer must depend on what the controller does and on where things"
            " start. Without ask and object, some are found by running it.",
            base.SCENE_RULES,
            base.goal_rules(),
            base.controller_rules(),
            *questions.references(request),
            propose_context(request),
            "Make it different from the references. Answer in this form:\n"
            + fence(
                "json",
                '{"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2]}], "ask": [["near", "red_box"]],'
                ' "object": "red_box"}',
            )
            + "\n"
            + fence("python", "def execute_controller(robot, world):\n    robot.move_to(world.position('red_box'))"),
        )

    def solve_prompt(self, task: Task) -> str:
        spec = task.spec
        setting = read_setting(spec["setting"])
        return paragraphs(
            "A controller moves a robot arm with a gripper. What holds when it has ended?",
            base.scene_shown(setting, placed=True),
            fence("python", spec["controller"]),
            base.controller_rules(),
            base.goal_rules(),
            f"Predicates: {json.dumps(spec['ask'])}\nRegion of: {spec['object']} (one of {', '.join(brief.ENDINGS)})",
            answer_rules(self.answer_form),
        )

    def brief_solve_prompt(self, task: Task) -> str:
        spec, setting = task.spec, read_setting(task.spec["setting"])
        calls, scene = questions.words_of(spec), brief.scene_words(setting, True)
        asked = brief.goal_words(_asked(spec))
        where = brief.worded([spec["object"]])
        return f"{brief.kind(self.name)}{calls}{brief.SCENE}{scene}{brief.ASK}{asked}{brief.WHERE}{where}{brief.ANSWER}"

    def expanded(self, text: str) -> str:
        return text.strip()

    def brief_answer(self, task: Task) -> str | None:
        """None where the prompt cannot say exactly where things start, or with which robot: what comes of it would not
        be true of what it names."""
        setting = read_setting(task.spec["setting"])
        if brief.places_words(setting) is None:
            return None
        return brief.worded([*("yes" if held else "no" for held in task.spec["held"]), task.spec["region"]])

    # From text to verdict

    def draft(self, proposal: Proposal) -> Draft:
        data, setting, program = base.read_question(proposal, self.config, ("ask", "object"))
        if not setting.start:
            raise RefusedError("trivial", "there is no thing to ask about")
        spec: dict[str, Any] = {"setting": setting.plain(), "controller": program}
        if "ask" in data or "object" in data:
            asked = read_predicates(data.get("ask"), setting.scene, "ask")
            name = data.get("object")
            if not isinstance(name, str) or name not in setting.start:
                raise RefusedError("unknown", f"object is {name!r:.60}, which is no thing on the table")
            spec |= {"ask": [predicate.plain() for predicate in asked], "object": name}
        return Draft(spec, (questions.job(setting, setting.start, program),))

    def possible(
        self, draft: Draft, setting: Setting, own: Ended, *chance: object
    ) -> Iterator[tuple[list[Predicate], str, tuple[list[bool], str]]]:
        """What can be asked, with its answer: what was proposed, or else some of what the controller has made true and
        of what it has not, as chance would have it. Only what is not so without the controller."""
        assert own.before is not None
        assert own.later is not None
        if "ask" in draft.spec:
            choices = [(_asked(draft.spec), draft.spec["object"])]
        else:
            choices = list(_chosen(draft, setting, own, *chance))
        for asked, name in choices:
            answer = base.answer_of(asked, setting.scene, own.later, name)
            if answer != base.answer_of(asked, setting.scene, own.before, name):
                yield asked, name, answer

    def specs(self, draft: Draft, ended: Sequence[Ended]) -> Iterator[dict[str, Any]]:
        """The answer must be another at one of the other starts, or it could be given without a look at this one."""
        own, *others = questions.checked(ended)
        setting = read_setting(draft.spec["setting"])
        for asked, name, answer in self.possible(draft, setting, own):
            sound = (each.later for each in others if base.sound(each))
            elsewhere = [base.answer_of(asked, setting.scene, later, name) for later in sound if later is not None]
            if len(ended) == 1 or any(each != answer for each in elsewhere):
                yield _asking(draft, asked, name, answer)

    def features(self, spec: Mapping[str, Any]) -> dict[str, float]:
        return questions.features_of(spec, len(spec["ask"]))

    def attempt(self, task: Task, text: str, seed: int) -> Attempt:
        words = read_answer(text).replace(",", " ").lower().split()
        *said, region = words or [""]
        if len(said) != len(task.spec["ask"]) or any(word not in ("yes", "no") for word in said):
            raise RefusedError("format", f"needs yes or no for {len(task.spec['ask'])} predicates, then a region")
        if region not in brief.ENDINGS:
            raise RefusedError("format", f"no region {region!r:.40}: one of {', '.join(brief.ENDINGS)}")
        setting = read_setting(task.spec["setting"])
        again = questions.job(setting, setting.start, task.spec["controller"])
        return Attempt((again,), ([word == "yes" for word in said], region))

    def grade(self, task: Task, attempt: Attempt, ended: Sequence[Ended]) -> Grade:
        """The controller is run again, here: what a task says of its own answer is not believed. However it ends, other
        than when it was admitted, the task contradicts itself: that says nothing of the answer."""
        (own,), (said, region) = ended, attempt.value
        if own.how in base.UNSEEN:
            return Grade(own.how, detail=own.detail)
        if own.later is None:
            return Grade("nondeterministic", detail=f"{own.how} {own.detail}".strip())
        seen = base.answer_of(
            _asked(task.spec), read_setting(task.spec["setting"]).scene, own.later, task.spec["object"]
        )
        if seen != (task.spec["held"], task.spec["region"]):
            return Grade("nondeterministic", detail="the controller does not do what the task says")
        right = [one == other for one, other in zip(said, task.spec["held"], strict=True)]
        right.append(region == task.spec["region"])
        if all(right):
            return Grade("correct", 1.0)
        score = sum(right) / len(right) if self.config.partial_credit else 0.0
        return Grade("wrong", min(score, 0.99), f"{sum(right)} of {len(right)} right")

    def hindsight(self, task: Task, tried: Sequence[Tried]) -> list[list[Other]]:
        """Another question about the same scene and controller, of which what was said is the answer."""
        return [self._right_for(task, attempt.value, *ended) for attempt, ended in tried]

    def _right_for(self, task: Task, said: tuple[list[bool], str], ended: Ended) -> list[Other]:
        if said == (task.spec["held"], task.spec["region"]) or ended.before is None or ended.later is None:
            return []
        setting = read_setting(task.spec["setting"])
        draft = Draft({name: task.spec[name] for name in ("setting", "controller")}, ())
        for asked, name, answer in self.possible(draft, setting, ended, said):
            if answer == said:
                return [Other(_asking(draft, asked, name, answer))]
        return []

    def restate(self, spec: Mapping[str, Any]) -> str:
        setting = read_setting(spec["setting"]).plain()
        extra = {**setting, "ask": spec["ask"], "object": spec["object"]}
        return blocks(extra, spec["controller"])

    def withheld(self, spec: Mapping[str, Any]) -> list[str]:
        return [questions.run_of(spec)]

    def asks_about(self, spec: Mapping[str, Any]) -> list[str]:
        """What is said to hold, and where the thing is said to be, abduction may ask for: these places would answer
        it."""
        held = [row for row, holds in zip(spec["ask"], spec["held"], strict=True) if holds]
        return [questions.run_of(spec), *questions.leads_to_all(spec, [*held, *_stated(spec)])]

    # Looking

    def readable(self, spec: Mapping[str, Any]) -> list[tuple[str, str]]:
        setting, asked = read_setting(spec["setting"]), _asked(spec)
        where = f"Where is the {goals.spoken(spec['object'])} when the controller has ended"
        held = ["yes" if held else "no" for held in spec["held"]]
        return [
            ("task", f"{where}, and does it hold that {goals.described(asked)}? {setting.described()}"),
            ("asked", base.listed(asked)),
            ("true", " ".join([*held, spec["region"]])),
            ("controller", spec["controller"]),
            ("scene", json.dumps(spec["setting"])),
        ]


def _asking(draft: Draft, asked: Sequence[Predicate], name: str, answer: tuple[list[bool], str]) -> dict[str, Any]:
    rows = [predicate.plain() for predicate in asked]
    return {**draft.spec, "ask": rows, "object": name, "held": answer[0], "region": answer[1]}


def _stated(spec: Mapping[str, Any]) -> list[list[str]]:
    """The predicate that an ending says of the object, where there is one."""
    name, ending = spec["object"], spec["region"]
    if ending == "gripper":
        return [["lifted", name]]
    if ending in INNER:
        return [["inside", name, ending]]
    return [["at", name, ending]] if ending in REGIONS else []


def _asked(spec: Mapping[str, Any]) -> list[Predicate]:
    return [Predicate(row[0], tuple(row[1:])) for row in spec["ask"]]


def _chosen(draft: Draft, setting: Setting, own: Ended, *chance: object) -> Iterator[tuple[list[Predicate], str]]:
    """Questions in an order that follows from the proposal: one predicate or two, true ones and others, any thing."""
    rng = seeds.generator(0, "questions", content_address(draft.spec, *chance))
    true, possible = base.made_true(setting.scene, own), goals.stateable(setting.scene)
    for _ in range(CHOICES):
        asked = {possible[int(rng.integers(len(possible)))]}
        if true and rng.random() < 0.6:
            one = true[int(rng.integers(len(true)))]
            asked = asked | {one} if rng.random() < 0.5 else {one}
        names = list(setting.start)
        yield sorted(asked, key=Predicate.plain), names[int(rng.integers(len(names)))]
