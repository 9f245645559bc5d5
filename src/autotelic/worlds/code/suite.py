"""The held-out tasks of a run: a fixed suite of the small language.

It is sampled for each kind by depth, the same number of tasks for each depth from 1 to 4, with fixed
seeds, and is admitted like any proposal. A player that always says the same, or copies what it is shown, gets nowhere:
- programs that are constant or the identity on most of a panel of inputs are left out;
- deduction: the output is not the input, and no output stands for more than a small share of the tasks;
- abduction: each program is run on probes, fixed inputs for each type (all ints of the language, the shortest lists
  and strings): at most a fifth of them may give the output, none of them may solve more than a small share of the
  tasks, and the output, taken as input, does not give itself;
- induction: programs that do the same on the probes are no more than a small share of the tasks.
"""

from __future__ import annotations

import itertools
import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotelic.errors import UserError
from autotelic.runs.files import cache_directory, content_address, write_atomic
from autotelic.worlds.base import Rejection, Task
from autotelic.worlds.code import language, programs
from autotelic.worlds.code.kinds.base import Draft, arguments_of, outcome_class
from autotelic.worlds.code.sandbox import Job, Outcome, values

if TYPE_CHECKING:
    from autotelic.worlds.code.world import CodeWorld

SEED = 20_250_506
DEPTHS = (1, 2, 3, 4)
TASKS = 75  # a kind and depth
SHARE = 0.05  # of a kind that one answer may stand for
REPEATS = 3  # tasks that one program may be tried for: of depth 1 there are few
PANEL = 10  # random inputs that a program is looked at with
KINDS = ("deduction", "abduction", "induction")
_BATCH = 160
_TURNS = 100  # batches that a kind and depth may take
_PATIENCE = 5  # times a limit reached on a busy machine, or a lost server, is tried again
_PASSING = ("limit", "lost")  # classes that say nothing of the program
_TOO_SLOW = "the held-out suite cannot be made: its programs reach the sandbox's limits; raise them"


def standard_suite(world: CodeWorld) -> list[Task]:
    """The suite for the world's kinds, from the user's cache if it is there and whole, else made and kept there."""
    return cached(f"suite-{identity(world)}", lambda: build_suite(world))


def cached(name: str, build: Callable[[], list[Task]]) -> list[Task]:
    """Tasks from the user's cache, or made and kept there. The name changes with everything they depend on."""
    path = cache_directory() / f"{name}.json"
    known = _read_cache(path)
    if known is not None:
        return known
    tasks = build()
    rows = [asdict(task) for task in tasks]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({"digest": content_address(rows), "tasks": rows}))
    except (OSError, UserError):
        return tasks  # a cache that cannot be written costs time at the next start, nothing else
    return tasks


def identity(world: CodeWorld) -> str:
    """Changes with everything the suite depends on, this package's own code included."""
    folder = Path(__file__).parent
    code = [
        path.read_text(encoding="utf-8") for part in (folder, folder / "kinds") for path in sorted(part.glob("*.py"))
    ]
    kind = world.config.kind
    return content_address(world.version, list(world.kinds), kind.inputs, kind.max_value, code)


def _read_cache(path: Path) -> list[Task] | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["digest"] == content_address(stored["tasks"]):
            return [Task(**row) for row in stored["tasks"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None


class _Stream:
    """Random numbers that are the same for ever. Python promises that of `random.Random.random` and its seeds; numpy
    does not of its generators' methods, and the suite must not change with its version."""

    def __init__(self, *seed: object) -> None:
        self._random = random.Random(":".join(map(str, seed)))

    def random(self) -> float:
        return self._random.random()

    def integers(self, low: int, high: int, /) -> int:
        return low + int(self._random.random() * (high - low))


def build_suite(world: CodeWorld) -> list[Task]:
    """Each kind draws programs of its own, so that the kinds are independent samples."""
    tasks = []
    for kind in (name for name in KINDS if name in world.kinds):
        collection = _COLLECTIONS[kind](world, kind)
        for depth in DEPTHS:
            stream = _Stream(SEED, kind, depth)
            for _ in range(_TURNS):
                if collection.counts[depth] == TASKS:
                    break
                collection.add(depth, stream)
            else:
                raise RuntimeError(f"the language has too few programs of depth {depth} for {TASKS} of {kind}")
        tasks += collection.tasks
    return tasks


@cache
def probes(takes: str) -> tuple[str, ...]:
    """Inputs that every program of a type is tried with: those that come to mind first, and for ints all there are."""
    if takes == "int":
        found: list[Any] = list(range(language.MIN_INT, language.MAX_INT + 1))
    elif takes == "list":
        digits = range(language.MAX_ITEM + 1)
        found = [[digit] for digit in digits] + [[digit, digit] for digit in digits]
        found += [list(range(start, start + length)) for length in (2, 3, 4, 5) for start in (0, 1, 2)]
        found += [[0] * length for length in (3, 4, 5)] + [[1] * length for length in (3, 4, 5)]
    else:
        found = ["".join(part) for length in (1, 2) for part in itertools.product(language.LETTERS, repeat=length)]
        found += [language.LETTERS[:length] for length in (3, 4, 5)] + ["a" * length for length in (3, 4, 5)]
    return tuple(values.encode((value,)) for value in found)


def ran(world: CodeWorld, jobs: Sequence[Job]) -> list[tuple[Outcome, ...]]:
    """What the jobs give. A slow machine waits or fails, but never gets another suite."""
    outcomes = world.sandbox.run(jobs)
    for _ in range(_PATIENCE):
        again = [k for k, found in enumerate(outcomes) if any(outcome_class(part) in _PASSING for part in found)]
        if not again:
            return outcomes
        for k, found in zip(again, world.sandbox.run([jobs[k] for k in again]), strict=True):
            outcomes[k] = found
    raise UserError(_TOO_SLOW)


def admit_patiently(world: CodeWorld, drafts: Sequence[tuple[str, Draft]]) -> list[Task | Rejection]:
    """What the drafts make, in their order. One that meets a time limit or loses its server is tried again."""
    results = world.admit_drafts(drafts)
    for _ in range(_PATIENCE - 1):
        again = [at for at, no in enumerate(results) if isinstance(no, Rejection) and no.outcome in _PASSING]
        for at, result in zip(again, world.admit_drafts([drafts[at] for at in again]), strict=True):
            results[at] = result
    return results


class _Seen:
    """A program, its panel of random inputs, the probes of its type, and what it gives for them."""

    def __init__(self, program: programs.Program, panel: Sequence[str], tried: Sequence[str], found: Sequence[Outcome]):
        self.program = program
        self.inputs = tuple(panel)
        self.outputs = [outcome.encoded or "" for outcome in found[: len(panel)]]
        self.arguments = [values.encode(arguments_of(given)[0]) for given in panel]
        self.probed = {given: outcome.encoded or "" for given, outcome in zip(tried, found[len(panel) :], strict=True)}
        self.ok = all(outcome.ok for outcome in found)

    @property
    def telling(self) -> bool:
        """Neither constant nor the identity, on most of the panel."""
        commonest = max(Counter(self.outputs).values())
        kept = sum(given == found for given, found in zip(self.arguments, self.outputs, strict=True))
        return self.ok and commonest <= 0.6 * len(self.outputs) and kept <= 0.5 * len(self.outputs)

    def gives(self, given: str) -> str:
        """The output for an input of the panel."""
        return self.outputs[self.inputs.index(given)]

    def preimages(self, output: str) -> set[str]:
        """The inputs, of all that were tried, that give an output."""
        tried = itertools.chain(zip(self.inputs, self.outputs, strict=True), self.probed.items())
        return {given for given, found in tried if found == output}


class _Collection(ABC):
    """The tasks of a kind as they grow, and how often each answer stands in them."""

    probing = True

    def __init__(self, world: CodeWorld, kind: str) -> None:
        self.world = world
        self.kind = kind
        self.tasks: list[Task] = []
        self.counts: Counter[int] = Counter()
        self.answers: Counter[str] = Counter()
        self.programs: Counter[str] = Counter()
        self.asked: set[tuple[str, ...]] = set()
        self.limit = int(SHARE * TASKS * len(DEPTHS))

    def add(self, depth: int, chance: language.Chance) -> None:
        """Tasks from one batch of random programs."""
        drafts: list[Draft] = []
        for seen in self.prepared(list(self.candidates(depth, chance))):
            chosen = self.choose(seen) if self.counts[depth] < TASKS else None
            if chosen is not None and (question := self.question(seen, chosen)) not in self.asked:
                self.asked.add(question)
                self.counts[depth] += 1
                drafts.append(Draft(seen.program, chosen))
        self.tasks += self.admitted(drafts)

    def candidates(self, depth: int, chance: language.Chance) -> Iterator[_Seen]:
        """Programs that tell something and were not seen too often, after a run on their panel and the probes."""
        jobs, panels = [], []
        for written in [language.random_program(chance, depth) for _ in range(_BATCH)]:
            drawn = language.distinct_inputs(chance, written.takes, max(PANEL, self.world.config.kind.inputs))
            panel = tuple(values.encode(arguments) for arguments in drawn)
            tried = probes(written.takes) if self.probing else ()
            panels.append((panel, tried))
            jobs.append(Job(written.program, panel + tried))
        for job, (panel, tried), found in zip(jobs, panels, ran(self.world, jobs), strict=True):
            seen = _Seen(programs.check(job.program, programs.Rules()), panel, tried, found)
            if seen.telling and self.programs[seen.program.canonical] < REPEATS:
                self.programs[seen.program.canonical] += 1
                yield seen

    def prepared(self, candidates: list[_Seen]) -> list[_Seen]:
        """The candidates, after whatever more has to be found out about them."""
        return candidates

    @abstractmethod
    def choose(self, seen: _Seen) -> tuple[str, ...] | None:
        """The inputs with which a program makes a good task, if any does."""

    @abstractmethod
    def question(self, seen: _Seen, chosen: tuple[str, ...]) -> tuple[str, ...]:
        """What a solver is shown of a task with these inputs: nothing is asked twice."""

    def admitted(self, drafts: Sequence[Draft]) -> list[Task]:
        tasks: list[Task] = []
        for result in admit_patiently(self.world, [(self.kind, draft) for draft in drafts]):
            if isinstance(result, Rejection):
                if result.outcome in _PASSING:
                    raise UserError(_TOO_SLOW)
                raise RuntimeError(f"the suite's own program is refused: {result.outcome}: {result.reason}")
            tasks.append(result)
        return tasks


class _Deductions(_Collection):
    probing = False

    def choose(self, seen: _Seen) -> tuple[str, ...] | None:
        for given, argument, found in zip(seen.inputs, seen.arguments, seen.outputs, strict=True):
            if argument != found and self.answers[found] < self.limit:
                self.answers[found] += 1
                return (given,)
        return None

    def question(self, seen: _Seen, chosen: tuple[str, ...]) -> tuple[str, ...]:
        return seen.program.canonical, *chosen


class _Abductions(_Collection):
    def prepared(self, candidates: list[_Seen]) -> list[_Seen]:
        """Runs each program on its own outputs: where one gives itself, copying it would be an answer."""
        distinct = [tuple(dict.fromkeys(seen.outputs)) for seen in candidates]
        jobs = [
            Job(seen.program.source, tuple(values.encode((values.decode(output),)) for output in outputs))
            for seen, outputs in zip(candidates, distinct, strict=True)
        ]
        self.copied = {
            (seen.program.source, output)
            for seen, outputs, found in zip(candidates, distinct, ran(self.world, jobs), strict=True)
            for output, outcome in zip(outputs, found, strict=True)
            if outcome.encoded == output
        }
        return candidates

    def choose(self, seen: _Seen) -> tuple[str, ...] | None:
        for given, found in zip(seen.inputs, seen.outputs, strict=True):
            solving = seen.preimages(found)
            if len(solving) > len(seen.probed) // 5 or (seen.program.source, found) in self.copied:
                continue
            if all(self.answers[answer] < self.limit for answer in solving):
                self.answers.update(solving)
                return (given,)
        return None

    def question(self, seen: _Seen, chosen: tuple[str, ...]) -> tuple[str, ...]:
        return seen.program.canonical, seen.gives(chosen[0])


class _Inductions(_Collection):
    def choose(self, seen: _Seen) -> tuple[str, ...] | None:
        count = self.world.config.kind.inputs
        behaviour = content_address(sorted(seen.probed.items()))
        if self.answers[behaviour] == self.limit or (len(set(seen.outputs[count // 2 : count])) < 2 and count >= 4):
            return None
        self.answers[behaviour] += 1
        return seen.inputs[:count]

    def question(self, seen: _Seen, chosen: tuple[str, ...]) -> tuple[str, ...]:
        shown = chosen[: len(chosen) // 2]
        return *shown, *map(seen.gives, shown)


_COLLECTIONS: dict[str, type[_Collection]] = {
    "deduction": _Deductions,
    "abduction": _Abductions,
    "induction": _Inductions,
}
