"""Chooses the rows of CodeI/O that make the suite, and says what became of all others.

    python benchmarks/codeio.py [--write] [--results FILE]

A row is left out if its program breaks the rules of proposals, imports what the sandbox has not, cannot be drawn,
fails, takes too long, disagrees with itself under another hash seed, is long, has long values or numbers of many digits
(which measure arithmetic by heart, not reasoning), or gives the same on most draws. The rest is shuffled by a fixed
seed; deduction and abduction take rows in turn, no output stands for more than a fortieth of the deductions, and
to copy the input (deduction) or the output (abduction) is no answer.

`--write` puts the choice into the package. Without it, nothing is changed, and the choice is only compared with the one
that is there. Prints one JSON object a line and appends the same lines to the results file, if one is given.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotelic.worlds.code import literals
from autotelic.worlds.code.kinds.base import arguments_of, outcome_class
from autotelic.worlds.code.programs import Program
from autotelic.worlds.code.sandbox import Job, Outcome, values
from autotelic.worlds.code.suites import codeio, codeio_rows
from autotelic.worlds.code.suites.codeio import RowError
from autotelic.worlds.code.world import CodeWorld

SEED = 20_250_211
TASKS = 200  # a kind
DRAWS = 6  # inputs that a program is looked at with
DISTINCT = 3  # outputs it must give for them
MAX_PROGRAM, MAX_VALUE, MAX_NUMBER = 2_000, 200, 8  # characters: of a program, of an input or output, of a number
SHARE = 1 / 40  # of the deductions that one output may stand for


@dataclass(frozen=True)
class Candidate:
    row: int
    program: Program
    inputs: list[str]  # one a draw
    outputs: list[str]

    def fitting(self) -> Iterator[int]:
        """Draws whose input and output are short."""
        for draw, (given, found) in enumerate(zip(self.inputs, self.outputs, strict=True)):
            value: Any = values.decode(found)
            shown = literals.render_items(arguments_of(given)), literals.render(value)
            digits = max((len(repr(part)) for part in numbers((arguments_of(given), value))), default=0)
            if max(map(len, shown)) <= MAX_VALUE and digits <= MAX_NUMBER:
                yield draw


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, dict):
        yield from numbers([*value, *value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from numbers(part)


def imported(program: Program) -> set[str]:
    found = set()
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


class Selection:
    """The rows of the data, step by step fewer, and what the others were left out for."""

    def __init__(self, world: CodeWorld) -> None:
        self.world, self.rows, self.refused = world, codeio.rows(), Counter[str]()

    def candidates(self) -> list[Candidate]:
        readable = list(self._readable())
        drawn = self.world.sandbox.run([codeio.drawing(self.rows[at], range(DRAWS)) for at, _ in readable])
        runnable = []
        for (at, program), outcomes in zip(readable, drawn, strict=True):
            try:
                inputs = [codeio.drafted(self.rows[at], outcome).inputs[0] for outcome in outcomes]
                runnable.append((at, program, inputs))
            except RowError as error:
                self.refused[f"arguments: {str(error).partition(':')[0]}"] += 1
        # Another server the second time, and so another hash seed, and the inputs in another order.
        first = self._run([Job(program.source, tuple(inputs), server=0) for _, program, inputs in runnable])
        second = self._run([Job(program.source, tuple(inputs[::-1]), server=1) for _, program, inputs in runnable])
        found = []
        for (at, program, inputs), one, other in zip(runnable, first, second, strict=True):
            reason = self._fault(one, other[::-1])
            if reason:
                self.refused[reason] += 1
            else:
                found.append(Candidate(at, program, inputs, [outcome.encoded or "" for outcome in one]))
        return [candidate for candidate in found if self._telling(candidate)]

    def _readable(self) -> Iterator[tuple[int, Program]]:
        for at, row in enumerate(self.rows):
            try:
                program = codeio.renamed(row["code_sample"])
                absent = imported(program) - sys.stdlib_module_names
                if absent:
                    raise RowError(f"imports {sorted(absent)[0]}")
                if len(program.source) > MAX_PROGRAM:
                    raise RowError("long program")
                yield at, program
            except RowError as error:
                self.refused[str(error)] += 1

    def _run(self, jobs: Sequence[Job]) -> list[tuple[Outcome, ...]]:
        """Programs that meet a time limit have a second chance, for the machine may be busy."""
        outcomes = self.world.sandbox.run(jobs)
        again = [at for at, found in enumerate(outcomes) if any(outcome_class(part) == "limit" for part in found)]
        for at, found in zip(again, self.world.sandbox.run([jobs[at] for at in again]), strict=True):
            outcomes[at] = found
        return outcomes

    def _fault(self, one: Sequence[Outcome], other: Sequence[Outcome]) -> str:
        for outcome in (*one, *other):
            if not outcome.ok:
                return f"run: {outcome_class(outcome)} {outcome.detail}".strip()
            if outcome.encoded == "null":
                return "run: no value"
        return "" if [x.encoded for x in one] == [x.encoded for x in other] else "run: nondeterministic"

    def _telling(self, candidate: Candidate) -> bool:
        if len(set(candidate.outputs)) < DISTINCT:
            self.refused["gives the same on most draws"] += 1
        elif not list(candidate.fitting()):
            self.refused["long values or numbers"] += 1
        else:
            return True
        return False

    def choose(self, candidates: Sequence[Candidate]) -> dict[str, list[tuple[int, int]]]:
        chance = random.Random(SEED)
        shuffled = sorted(candidates, key=lambda candidate: (chance.random(), candidate.row))
        copied = self._copied(shuffled)
        chosen: dict[str, list[tuple[int, int]]] = {"deduction": [], "abduction": []}
        answers, seen = Counter[str](), set[str]()
        for candidate in shuffled:
            if candidate.program.canonical in seen:
                continue
            seen.add(candidate.program.canonical)
            for kind in sorted(chosen, key=lambda kind: len(chosen[kind])):
                draw = self._draw(kind, candidate, answers, copied)
                if draw is not None and len(chosen[kind]) < TASKS:
                    chosen[kind].append((candidate.row, draw))
                    answers[candidate.outputs[draw]] += kind == "deduction"
                    break
        return {kind: sorted(pairs) for kind, pairs in chosen.items()}

    def _draw(self, kind: str, candidate: Candidate, answers: Counter[str], copied: set[tuple[int, int]]) -> int | None:
        for draw in candidate.fitting():
            given, found = candidate.inputs[draw], candidate.outputs[draw]
            if kind == "abduction":
                if (candidate.row, draw) not in copied:
                    return draw
            elif answers[found] < SHARE * TASKS and given != values.encode((values.decode(found),)):
                return draw
        return None

    def _copied(self, candidates: Sequence[Candidate]) -> set[tuple[int, int]]:
        """Rows and draws whose output, taken as input, gives itself."""
        jobs = [
            Job(each.program.source, tuple(values.encode((values.decode(found),)) for found in each.outputs))
            for each in candidates
        ]
        return {
            (each.row, draw)
            for each, outcomes in zip(candidates, self.world.sandbox.run(jobs), strict=True)
            for draw, outcome in enumerate(outcomes)
            if outcome.encoded == each.outputs[draw]
        }


def write(chosen: dict[str, list[tuple[int, int]]]) -> None:
    path = Path(codeio_rows.__file__)
    head, tail = path.read_text(encoding="utf-8").split("DEDUCTION = ")[0], "\n\n\ndef _pairs"
    rest = tail.lstrip() + path.read_text(encoding="utf-8").partition(tail)[2]
    body = ""
    for kind, pairs in chosen.items():
        words = textwrap.fill(" ".join(f"{row}.{seed}" for row, seed in pairs), 116)
        body += f'{kind.upper()} = """\n{words}\n"""\n'
    path.write_text(f"{head}{body}\n\n{rest}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the choice into the package")
    parser.add_argument("--results", type=Path, help="append the lines to this file")
    arguments = parser.parse_args()
    with CodeWorld() as world:
        selection = Selection(world)
        candidates = selection.candidates()
        chosen = selection.choose(candidates)
    refused = dict(selection.refused.most_common())
    line = {
        "rows": len(selection.rows),
        "candidates": len(candidates),
        "refused": refused,
        "chosen": {kind: len(pairs) for kind, pairs in chosen.items()},
        "as_before": chosen == codeio_rows.CHOSEN,
    }
    print(json.dumps(line))
    if arguments.results:
        with arguments.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
    if arguments.write:
        write(chosen)


if __name__ == "__main__":
    main()
