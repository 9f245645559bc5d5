"""Deduction: given a program and an input, say the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotelic.worlds.base import Task
from autotelic.worlds.code import brief, literals
from autotelic.worlds.code.kinds import base
from autotelic.worlds.code.kinds.base import Attempt, Grade, RefusedError
from autotelic.worlds.code.sandbox import Outcome, values


class Deduction(base.SingleKind):
    name = "deduction"
    asks = "given a program and its input, find the output."
    answer_form = "the value, as a Python literal"

    def solve_prompt(self, task: Task) -> str:
        return base.paragraphs(
            "What does this call return?",
            base.fence("python", task.spec["program"]),
            base.fence("python", f"f({base.show_arguments(task.spec['input'])})"),
            base.answer_rules(self.answer_form),
        )

    def brief_solve_prompt(self, task: Task) -> str:
        program, given = task.spec["program"], base.show_arguments(task.spec["input"])
        return f"{brief.kind(self.name)}{program}{brief.INPUT}{given}{brief.ANSWER}"

    def worked(self) -> Sequence[base.Worked]:
        return base.SINGLE

    def true_answer(self, spec: Mapping[str, Any]) -> str:
        return base.show_value(spec["output"])

    def attempt(self, task: Task, text: str) -> Attempt:
        try:
            return Attempt(value=values.encode(literals.parse_value(base.read_answer(text))))
        except literals.LiteralError as error:
            raise RefusedError("format", f"not a literal: {error}") from None

    def grade(self, task: Task, attempt: Attempt, outcomes: Sequence[Outcome]) -> Grade:
        return Grade("correct", 1.0) if attempt.value == task.spec["output"] else Grade("wrong")
