"""A player that writes at random: programs of the small language and values of the right type in the code world; in a
world with a library, what that has for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotelic.errors import UserError
from autotelic.play.player import Player, Sample
from autotelic.worlds.base import Request, Task
from autotelic.worlds.code import inference, language, literals
from autotelic.worlds.code.kinds.base import answer_text, arguments_of
from autotelic.worlds.code.sandbox import values
from autotelic.worlds.code.world import CodeWorld


@dataclass
class GrammarConfig:
    min_depth: int = 1  # of random programs, where no difficulty is asked for
    max_depth: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.min_depth <= self.max_depth:
            raise UserError(f"depths {self.min_depth} to {self.max_depth}: needs 1 <= min_depth <= max_depth")


class GrammarPlayer(Player):
    """Knows the language and nothing of what its programs do. The floor that a learner has to leave."""

    name = "grammar"
    Config = GrammarConfig
    config: GrammarConfig
    world: CodeWorld

    def propose(self, requests: Sequence[Request], rng: np.random.Generator) -> list[Sample]:
        library = self.world.library
        if library is not None:
            return [Sample("propose", asked.kind, library.random_proposal(asked, rng)) for asked in requests]
        return [Sample("propose", request.kind, self._proposal(request, rng)) for request in requests]

    def attempt(self, tasks: Sequence[Task], n: int, rng: np.random.Generator, greedy: bool = False) -> list[Sample]:
        library = self.world.library

        def guess(task: Task) -> str:
            return library.random_answer(task, rng) if library is not None else answer_text(self._guess(task, rng))

        return [Sample("solve", task.kind, guess(task), task=task.id) for task in tasks for _ in range(n)]

    def _proposal(self, request: Request, rng: np.random.Generator) -> str:
        if request.base is not None:
            program, takes = request.base.spec["program"], argument_type(first_input(request.base))
        else:
            written = language.random_program(rng, self._wanted_depth(request, rng))
            program, takes = written.program, written.takes
        count = self.world.config.kind.inputs if request.kind == "induction" else 1
        inputs = language.distinct_inputs(rng, takes or _any_type(rng), count)
        return self.world.kinds[request.kind].compose(program, inputs, "A random program.")

    def _wanted_depth(self, request: Request, rng: np.random.Generator) -> int:
        if "depth" not in request.wanted:
            return self._depth(request.difficulty, rng)
        return min(max(round(request.wanted["depth"]), self.config.min_depth), self.config.max_depth)

    def _depth(self, difficulty: float | None, rng: np.random.Generator) -> int:
        low, high = self.config.min_depth, self.config.max_depth
        if difficulty is None:
            return int(rng.integers(low, high + 1))
        return low + round(min(1.0, max(0.0, difficulty)) * (high - low))

    def _guess(self, task: Task, rng: np.random.Generator) -> str:
        spec = task.spec
        if task.kind == "deduction":
            takes = argument_type(spec["input"])
            gives = inference.output_type(spec["program"], takes) if takes else None
            return literals.render(language.random_value(rng, gives or _any_type(rng)))
        if task.kind == "abduction":
            gives = language.type_of(values.decode(spec["output"]))
            fitting = inference.input_types(spec["program"], gives or "")
            takes = fitting[int(rng.integers(len(fitting)))]
            return literals.render_items(language.random_input(rng, takes))
        if task.kind == "induction":  # from the first pair, which is shown
            takes = argument_type(spec["inputs"][0])
            gives = language.type_of(values.decode(spec["outputs"][0]))
            return language.random_program(rng, self._depth(None, rng), takes, gives).program
        raise UserError(f"player=grammar knows no answers to {task.kind} tasks: take another player")


def first_input(task: Task) -> str:
    return task.spec["input"] if "input" in task.spec else task.spec["inputs"][0]


def argument_type(encoded: str) -> str | None:
    """The type of a call's only argument; None if it has more, or one that the language does not know."""
    arguments = arguments_of(encoded)
    return language.type_of(arguments[0]) if len(arguments) == 1 else None


def _any_type(rng: np.random.Generator) -> str:
    return language.INPUT_TYPES[int(rng.integers(len(language.INPUT_TYPES)))]
