"""A player with a library of hand-written tasks and answers. It knows the answers to its own tasks, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autotelic.errors import UserError
from autotelic.play.player import Player, Sample
from autotelic.play.players.grammar import argument_type, first_input
from autotelic.play.players.library import LIBRARY, Entry
from autotelic.worlds.base import Request, Task
from autotelic.worlds.code import language, literals
from autotelic.worlds.code.kinds.base import answer_text, show_arguments, show_value
from autotelic.worlds.code.world import CodeWorld


@dataclass
class ScriptedConfig:
    selection: str = "sequential"  # sequential: one task after the other; random: any
    correct: float = 0.5  # share of right answers to its own tasks
    unformatted: float = 0.0  # share of answers without their <answer> block

    # Where tasks are attempted one at a time (`play episodes=N`): there is no second attempt that could be better.
    one_at_a_time: ClassVar[Mapping[str, str]] = {"correct": "1.0"}

    def __post_init__(self) -> None:
        if self.selection not in ("sequential", "random"):
            raise UserError(f"player.selection is '{self.selection}': sequential or random")
        if self.correct < 0 or self.unformatted < 0 or self.correct + self.unformatted > 1:
            raise UserError("player.correct and player.unformatted are shares: not negative, together at most 1")


class ScriptedPlayer(Player):
    """Proposes from the library and answers what it recognises."""

    name = "scripted"
    Config = ScriptedConfig
    config: ScriptedConfig
    world: CodeWorld

    def __init__(self, config: ScriptedConfig, world: CodeWorld) -> None:
        super().__init__(config, world)
        self.entries = {entry.program: entry for entry in LIBRARY}
        self.position: Counter[str] = Counter()  # proposals made so far, by kind

    def propose(self, requests: Sequence[Request], rng: np.random.Generator) -> list[Sample]:
        return [Sample("propose", request.kind, self._proposal(request, rng)) for request in requests]

    def attempt(self, tasks: Sequence[Task], n: int, rng: np.random.Generator, greedy: bool = False) -> list[Sample]:
        answer = self._answer if self.world.library is None else self._from_library
        return [Sample("solve", task.kind, answer(task, rng, greedy), task=task.id) for task in tasks for _ in range(n)]

    def state(self) -> dict[str, Any]:
        return {"position": dict(self.position)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.position = Counter(state["position"])

    def _proposal(self, request: Request, rng: np.random.Generator) -> str:
        turn = self.position[request.kind]
        self.position[request.kind] += 1
        library = self.world.library
        if self.config.selection == "random":
            turn = int(rng.integers(len(LIBRARY) * len(LIBRARY[0].calls) if library is None else library.size))
        if library is not None:
            return library.proposal(request, turn)
        entry = LIBRARY[turn % len(LIBRARY)]
        kind = self.world.kinds[request.kind]
        if request.kind != "induction":
            arguments, _ = entry.calls[turn // len(LIBRARY) % len(entry.calls)]
            return kind.compose(entry.program, [literals.parse_arguments(arguments)], entry.message)
        if request.base is not None:  # the loop has chosen the program
            found = self.entries.get(request.base.spec["program"])
            if found is None:
                takes = argument_type(first_input(request.base)) or "int"
                inputs = language.distinct_inputs(rng, takes, self.world.config.kind.inputs)
                return kind.compose(request.base.spec["program"], inputs, "A program of somebody else.")
            entry = found
        return kind.compose(entry.program, [literals.parse_arguments(call) for call, _ in entry.calls], entry.message)

    def _from_library(self, task: Task, rng: np.random.Generator, greedy: bool) -> str:
        """The best that the library has, where that is asked for; else right as often as is configured."""
        chance, pick = rng.random(), int(rng.integers(1 << 30))
        if chance < self.config.unformatted and not greedy:
            return "I know this one."
        assert self.world.library is not None
        return self.world.library.answer(task, greedy or chance >= 1 - self.config.correct, pick)

    def _answer(self, task: Task, rng: np.random.Generator, greedy: bool) -> str:
        if task.kind not in ("deduction", "abduction", "induction"):
            raise UserError(f"player=scripted knows no answers to {task.kind} tasks: take another player")
        chance = rng.random()
        pick = int(rng.integers(1 << 30))  # drawn always: one answer takes the same numbers whatever it is
        if chance < self.config.unformatted:
            return "I know this one."
        right = chance >= 1 - self.config.correct
        entry = self.entries.get(task.spec["program"] or "")
        if task.kind == "induction":
            return answer_text(self._program(entry, right))
        return answer_text(self._literal(entry, task, right, pick))

    def _program(self, entry: Entry | None, right: bool) -> str:
        if entry is None:
            return LIBRARY[0].program
        return entry.program if right else entry.wrong

    def _literal(self, entry: Entry | None, task: Task, right: bool, pick: int) -> str:
        """The result of a deduction, the arguments of an abduction: this call's, or those of a call that differs."""
        calls = entry.calls if entry is not None else LIBRARY[0].calls
        given = task.kind == "deduction"
        shown = show_arguments(task.spec["input"]) if given else show_value(task.spec["output"])
        mine = [call for call in calls if entry is not None and call[0 if given else 1] == shown]
        if right and mine:
            return mine[0][1 if given else 0]
        others = [call for call in calls if not mine or call[1] != mine[0][1]]
        return others[pick % len(others)][1 if given else 0]
