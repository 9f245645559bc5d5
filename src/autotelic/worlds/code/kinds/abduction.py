"""Abduction: given a program and an output, find an input that gives it. Any such input counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotelic.worlds.base import Task
from autotelic.worlds.code import brief
from autotelic.worlds.code.kinds import base
from autotelic.worlds.code.kinds.base import Attempt, Draft, Grade
from autotelic.worlds.code.sandbox import Outcome


class Abduction(base.SingleKind):
    name = "abduction"
    asks = "given a program and its output, find an input."
    answer_form = "the arguments of the call, as Python literals separated by commas"

    def solve_prompt(self, task: Task) -> str:
        return base.paragraphs(
            "With which arguments does f return the value below?",
            base.fence("python", task.spec["program"]),
            base.fence("output", base.show_value(task.spec["output"])),
            base.answer_rules(self.answer_form),
        )

    def brief_solve_prompt(self, task: Task) -> str:
        program, wanted = task.spec["program"], base.show_value(task.spec["output"])
        return f"{brief.kind(self.name)}{program}{brief.OUTPUT}{wanted}{brief.ANSWER}"

    def worked(self) -> Sequence[base.Worked]:
        return base.SINGLE

    def true_answer(self, spec: Mapping[str, Any]) -> str:
        return base.show_arguments(spec["input"])

    def attempt(self, task: Task, text: str) -> Attempt:
        return Attempt(task.spec["program"], (base.read_arguments(base.read_answer(text)),))

    def grade(self, task: Task, attempt: Attempt, outcomes: Sequence[Outcome]) -> Grade:
        (outcome,) = outcomes
        if not outcome.ok:
            return Grade(base.outcome_class(outcome), detail=f"{outcome.detail} {outcome.message}".strip())
        return Grade("correct", 1.0) if outcome.encoded == task.spec["output"] else Grade("wrong")

    def hindsight(self, task: Task, attempt: Attempt, outcomes: Sequence[Outcome]) -> tuple[Draft, list[str]] | None:
        """The output that the input does give."""
        program = base.read_program(task.spec["program"], self.config.rules)
        return Draft(program, attempt.inputs), [outcome.encoded or "" for outcome in outcomes]

    def withheld(self, spec: Mapping[str, Any]) -> list[str]:
        """The output too: whatever the input, it would be the same question."""
        return [spec["key"], base.question(spec)]
