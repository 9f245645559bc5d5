"""CodeI/O (arXiv 2502.07316), from the data of the reasoning-gym package: predict the output, predict an input.

A row has a program, `main_solution(…)`, and `generate_inputs(rng)`, which draws arguments for it. Both are foreign code
and run in the sandbox only. Output prediction is deduction and input prediction is abduction, judged like any other:
by running, so that every input that gives the output counts, not only the one that was drawn.

Which rows make the suite was decided once, by `benchmarks/codeio.py`, and is written down in `CHOSEN`: the suite must
not depend on how fast the machine is that makes it. Here they are drawn, run and admitted again.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotelic.errors import UserError
from autotelic.runs.files import content_address
from autotelic.worlds.base import Rejection, Task
from autotelic.worlds.code import canonical, programs, suite
from autotelic.worlds.code.kinds.base import Draft
from autotelic.worlds.code.sandbox import Job, Outcome, values
from autotelic.worlds.code.suites.codeio_rows import CHOSEN
from autotelic.worlds.code.suites.data import read_rows

if TYPE_CHECKING:
    from autotelic.worlds.code.world import CodeWorld

SHA256 = "a088810cf4d020279ec50dc5e64f25b7eccc8a428a6f76a25c70c126e4370f33"
RELEASE = "reasoning-gym==0.1.25"
GIVEN_NAME = "main_solution"  # of the program's function, which is called f here


def load(world: CodeWorld) -> list[Task]:
    """The suite, for those of its two kinds that the world has; made at first use and kept in the user's cache."""
    kinds = [kind for kind in CHOSEN if kind in world.kinds]
    if not kinds:
        raise UserError(f"suite=codeio has tasks of {' and '.join(CHOSEN)}, this world has {', '.join(world.kinds)}")
    found = rows()
    code = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("codeio*.py"))]
    return suite.cached(
        f"codeio-{content_address(suite.identity(world), SHA256, kinds, code)}", lambda: _build(world, kinds, found)
    )


def rows() -> list[dict[str, Any]]:
    return read_rows("reasoning_gym", "data/codeio.jsonl.gz", SHA256, RELEASE, "suite=codeio")


def _build(world: CodeWorld, kinds: Sequence[str], found: Sequence[dict[str, Any]]) -> list[Task]:
    wanted = [(kind, found[row], seed) for kind in kinds for row, seed in CHOSEN[kind]]
    drawn = suite.ran(world, [drawing(row, [seed]) for _, row, seed in wanted])
    drafts = [(kind, drafted(row, outcomes[0])) for (kind, row, _), outcomes in zip(wanted, drawn, strict=True)]
    tasks = []
    for result in suite.admit_patiently(world, drafts):
        if isinstance(result, Rejection):
            raise UserError(f"suite=codeio cannot be made here: {result.outcome}: {result.reason}")
        # Depths of the small language mean something else than those of real programs.
        features = {name: value for name, value in result.features.items() if name != "depth"}
        tasks.append(dataclasses.replace(result, features=features))
    return tasks


class RowError(Exception):
    """Why a row makes no task, in a word or two."""


def renamed(source: str) -> programs.Program:
    """A row's program, its function called f like that of all programs."""
    try:
        if programs.ENTRY in canonical.bound_names(programs.parse(source)):
            raise RowError(f"has a name {programs.ENTRY} already")
        return programs.check(re.sub(rf"\b{GIVEN_NAME}\b", programs.ENTRY, source).strip("\n"), programs.Rules())
    except programs.ProgramError as error:
        raise RowError(f"{error.outcome}: {error.reason}") from error


def drawing(row: dict[str, Any], seeds: Sequence[int]) -> Job:
    """A job that draws the arguments of a row, by name, once for each seed."""
    source = "\n\n".join(
        (
            "from random import Random",
            row["code_sample"],  # the generator may use its imports
            row["input_generator"],
            "def draw(seed):\n    return generate_inputs(Random(seed))",
        )
    )
    return Job(source, tuple(values.encode((seed,)) for seed in seeds), entry="draw")


def drafted(row: dict[str, Any], outcome: Outcome) -> Draft:
    """What a row and drawn arguments ask to be run."""
    if not outcome.ok:
        raise RowError(f"drawing: {outcome.kind} {outcome.detail}")
    program = renamed(row["code_sample"])
    return Draft(program, (values.encode(_in_order(program, outcome.value)),))


def _in_order(program: programs.Program, drawn: Any) -> tuple[Any, ...]:
    """The arguments by place. Rows give them by name."""
    functions = [
        part for part in program.tree.body if isinstance(part, ast.FunctionDef) and part.name == programs.ENTRY
    ]
    if not functions or not isinstance(drawn, dict):
        raise RowError("no arguments by name")
    said = functions[-1].args
    names = [argument.arg for argument in said.args][: len(drawn)]
    if said.posonlyargs or said.kwonlyargs or said.vararg or said.kwarg or set(names) != set(drawn):
        raise RowError("arguments that have no place")
    return tuple(drawn[name] for name in names)
