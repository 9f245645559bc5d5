"""Held-out tasks: a fixed suite of the small language, and a reader for a user's own.

The standard suite is sampled by depth, the same number of tasks for each depth from 1 to 4, with a fixed seed, and is
admitted like any proposal. Programs that are constant or the identity on a panel of inputs are left out, and no answer
stands for more than 5 % of a kind, so a player that always says the same gets nowhere.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotelic.errors import UserError
from autotelic.runs.files import named_errors, write_atomic
from autotelic.worlds.base import Rejection, Task, content_address
from autotelic.worlds.code import language, literals, programs
from autotelic.worlds.code.kinds.base import Draft, RefusedError, arguments_of, read_arguments, read_program
from autotelic.worlds.code.sandbox import Job, Outcome, values

if TYPE_CHECKING:
    from autotelic.worlds.code.world import CodeWorld

SEED = 20_250_506
DEPTHS = (1, 2, 3, 4)
TASKS = 80  # a kind and depth
SHARE = 0.05  # of a kind that one answer may stand for
PANEL = 10  # inputs that a program is looked at with
KINDS = ("deduction", "abduction", "induction")
_BATCH = 160
_PATIENCE = 5  # times a limit reached on a busy machine is tried again


# --- the standard suite ---------------------------------------------------------------------------------------------


def standard_suite(world: CodeWorld) -> list[Task]:
    """The suite for the world's kinds, from the user's cache if it is there and whole, else made and kept there."""
    path = cache_directory() / f"suite-{_identity(world)}.json"
    cached = _read_cache(path)
    if cached is not None:
        return cached
    tasks = build_suite(world)
    rows = [asdict(task) for task in tasks]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({"digest": content_address(rows), "tasks": rows}))
    except (OSError, UserError):
        return tasks  # a cache that cannot be written costs time at the next start, nothing else
    return tasks


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "autotelic"


def _identity(world: CodeWorld) -> str:
    """Changes with everything the suite depends on, this package's own code included."""
    folder = Path(__file__).parent
    sources = [folder / f"{name}.py" for name in ("language", "literals", "measure", "programs", "suite", "world")]
    code = [path.read_text(encoding="utf-8") for path in [*sources, *sorted((folder / "kinds").glob("*.py"))]]
    kind = world.config.kind
    return content_address(world.version, list(world.kinds), kind.inputs, kind.max_value, asdict(kind.rules), code)


def _read_cache(path: Path) -> list[Task] | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["digest"] == content_address(stored["tasks"]):
            return [Task(**row) for row in stored["tasks"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None


def build_suite(world: CodeWorld) -> list[Task]:
    kinds = [name for name in KINDS if name in world.kinds]
    collection = _Collection(world, kinds)
    for depth in DEPTHS:
        rng = np.random.default_rng([SEED, depth])
        while any(collection.counts[kind, depth] < TASKS for kind in kinds):
            collection.add(depth, _candidates(world, rng, depth))
    return [task for kind in kinds for task in collection.tasks if task.kind == kind]


class _Seen:
    """A program, its panel of inputs, and what it gives for them."""

    def __init__(self, program: programs.Program, inputs: Sequence[str], outcomes: Sequence[Outcome]) -> None:
        self.program = program
        self.inputs = tuple(inputs)
        self.outputs = [outcome.encoded or "" for outcome in outcomes]
        self.arguments = [values.encode(arguments_of(given)[0]) for given in inputs]
        self.ok = all(outcome.ok for outcome in outcomes)

    @property
    def telling(self) -> bool:
        """Neither constant nor the identity, on most of the panel."""
        commonest = max(Counter(self.outputs).values())
        kept = sum(given == found for given, found in zip(self.arguments, self.outputs, strict=True))
        return self.ok and commonest <= 0.6 * len(self.outputs) and kept <= 0.5 * len(self.outputs)


def _candidates(world: CodeWorld, rng: np.random.Generator, depth: int) -> Iterator[_Seen]:
    written = [language.random_program(rng, depth) for _ in range(_BATCH)]
    jobs = []
    for program in written:
        panel = language.distinct_inputs(rng, program.takes, max(PANEL, world.config.kind.inputs))
        jobs.append(Job(program.program, tuple(values.encode(arguments) for arguments in panel)))
    outcomes = world.sandbox.run(jobs)
    for job, found in zip(jobs, outcomes, strict=True):
        for _ in range(_PATIENCE):
            if all(outcome.kind not in ("limit", "crash") for outcome in found):
                break
            (found,) = world.sandbox.run([job])
        seen = _Seen(programs.check(job.program, world.config.kind.rules), job.inputs, found)
        if seen.telling:
            yield seen


class _Collection:
    """The suite as it grows: what is in it, and how often each answer stands in it."""

    def __init__(self, world: CodeWorld, kinds: Sequence[str]) -> None:
        self.world = world
        self.kinds = kinds
        self.tasks: list[Task] = []
        self.counts: Counter[tuple[str, int]] = Counter()
        self.answers: Counter[tuple[str, str]] = Counter()
        self.programs: set[str] = set()
        self.limit = int(SHARE * TASKS * len(DEPTHS))

    def add(self, depth: int, candidates: Iterator[_Seen]) -> None:
        drafts: list[tuple[str, Draft]] = []
        for seen in candidates:
            if seen.program.canonical in self.programs:
                continue
            self.programs.add(seen.program.canonical)
            for kind in self.kinds:
                chosen = self.choose(kind, seen) if self.counts[kind, depth] < TASKS else None
                if chosen is not None:
                    self.counts[kind, depth] += 1
                    drafts.append((kind, Draft(seen.program, chosen)))
        for result in self.admitted(drafts):
            self.tasks.append(result)

    def admitted(self, drafts: Sequence[tuple[str, Draft]]) -> Iterator[Task]:
        waiting = list(drafts)
        for _ in range(_PATIENCE):
            results = self.world.admit_drafts(waiting)
            again = []
            for draft, result in zip(waiting, results, strict=True):
                if isinstance(result, Task):
                    yield result
                elif result.outcome in ("limit", "crash"):
                    again.append(draft)
                else:
                    raise RuntimeError(f"the suite's own program is refused: {result.outcome}: {result.reason}")
            waiting = again
        if waiting:
            raise UserError("the held-out suite cannot be made: its programs reach the sandbox's limits; raise them")

    def choose(self, kind: str, seen: _Seen) -> tuple[str, ...] | None:
        """The inputs with which a program makes a good task of a kind, if any does."""
        if kind == "induction":
            count = self.world.config.kind.inputs
            hidden = seen.outputs[count // 2 : count]
            return seen.inputs[:count] if len(set(hidden)) > 1 or count < 4 else None
        often = Counter(seen.outputs)
        for given, argument, found in zip(seen.inputs, seen.arguments, seen.outputs, strict=True):
            # An output with many pre-images can be had by guessing: no good question for abduction.
            if argument == found or (kind == "abduction" and often[found] > 2):
                continue
            answer = kind, found if kind == "deduction" else given
            if self.answers[answer] < self.limit:
                self.answers[answer] += 1
                return (given,)
        return None


# --- a user's own tasks ---------------------------------------------------------------------------------------------


def load_suite(path: str | Path, world: CodeWorld) -> list[Task]:
    """Tasks from JSON lines; every one is run, and a line that does not hold is named.

    {"kind": "deduction" | "abduction", "program": …, "input": …, "output": …}
    {"kind": "induction", "pairs": [[input, output], …], "message": …}

    An input is the argument list of a call and an output a value, both Python literals in a string.
    """
    with named_errors(path):
        lines = Path(path).read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    tasks: list[Task | None] = []
    drafts: list[tuple[str, Draft]] = []
    wanted: list[tuple[int, int, str]] = []  # position, line number, output
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _read_row(line, world)
            if row["kind"] == "induction":
                tasks.append(_pairs_task(row, world))
                continue
            draft = Draft(read_program(_text(row, "program"), world.config.kind.rules), (_input(_text(row, "input")),))
            wanted.append((len(tasks), number, _output(_text(row, "output"))))
        except RefusedError as refused:
            raise UserError(f"{path}:{number}: {refused.outcome}: {refused.reason}") from None
        drafts.append((row["kind"], draft))
        tasks.append(None)
    for result, (position, number, output) in zip(world.admit_drafts(drafts), wanted, strict=True):
        if isinstance(result, Rejection):
            raise UserError(f"{path}:{number}: {result.outcome}: {result.reason}")
        if result.spec["output"] != output:
            found = literals.render(values.decode(result.spec["output"]))
            raise UserError(f"{path}:{number}: the program gives {found[:200]}, not the output of the line")
        tasks[position] = result
    if not tasks:
        raise UserError(f"{path}: no tasks; one JSON object a line, see docs/kinds.md")
    return [task for task in tasks if task is not None]


def _read_row(line: str, world: CodeWorld) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RefusedError("format", f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise RefusedError("format", "not a JSON object")
    known = [kind for kind in KINDS if kind in world.kinds]
    if row.get("kind") not in known:
        raise RefusedError("format", f"kind is {row.get('kind')!r}, not one of {', '.join(known)}")
    return row


def _text(row: dict[str, Any], key: str) -> str:
    if not isinstance(row.get(key), str):
        raise RefusedError("format", f'"{key}" is missing or no string')
    return row[key]


def _input(text: Any) -> str:
    if not isinstance(text, str):
        raise RefusedError("format", f"an input is a string that holds literals, not {text!r}")
    return read_arguments(text)


def _output(text: Any) -> str:
    if not isinstance(text, str):
        raise RefusedError("format", f"an output is a string that holds a literal, not {text!r}")
    try:
        return values.encode(literals.parse_value(text))
    except literals.LiteralError as error:
        raise RefusedError("format", f"not a literal: {error}") from None


def _pairs_task(row: dict[str, Any], world: CodeWorld) -> Task:
    pairs, message = row.get("pairs"), row.get("message", "")
    if not isinstance(pairs, list) or len(pairs) < 2 or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
        raise RefusedError("format", '"pairs" is not a list of at least two [input, output]')
    if not isinstance(message, str):
        raise RefusedError("format", '"message" is no string')
    inputs = [_input(given) for given, _ in pairs]
    outputs = [_output(found) for _, found in pairs]
    if len(set(inputs)) < len(inputs):
        raise RefusedError("format", "an input is repeated")
    # There is no program of its own to check: the pairs are taken as they are.
    spec = {"program": None, "inputs": inputs, "outputs": outputs, "shown": len(pairs) // 2, "message": message}
    return world.make_task("induction", spec, content_address(inputs, outputs, message), {})
