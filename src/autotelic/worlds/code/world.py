"""The code world: a Python interpreter in a sandbox decides what is true.

`admit` and `judge` collect the programs of all kinds into few batches for the sandbox. Nothing a player wrote is ever
joined into code: programs run as they are, arguments and results cross as plain data, and comparing is done here, on
canonical texts.

Classes of rejections:
    format            the text has no such blocks, or a value is no literal
    syntax            not Python, or too long or too deeply nested
    no_entry          no function f
    forbidden         names a module or name that is not allowed
    escape            made a call that the kernel ended it for
    forged            wrote a result of its own making
    exception         the program raised
    limit             took too long
    size              took too much memory, or a value is too large
    unsupported       a result that is no plain value
    no_value          returned None
    crash             the program killed its interpreter
    lost              the server died, or the task's own program met a time limit: the judge's failure, not the player's
    nondeterministic  two servers with different hash seeds, or two orders of inputs, disagree
    heldout           equal to a task of the held-out suite
The loop adds `duplicate`. Outcomes of verdicts: correct, wrong, and those of the above that can befall an answer;
nondeterministic means that the task itself no longer gives its own answer.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from autotelic.errors import UserError
from autotelic.runs.files import content_address
from autotelic.worlds.base import KINDS, Answer, Kind, Proposal, Rejection, Task, Verdict, World
from autotelic.worlds.code import brief, readable, suite, suites
from autotelic.worlds.code.kinds import CodeKind, KindConfig, load_kinds
from autotelic.worlds.code.kinds.base import Attempt, Draft, Grade, RefusedError, arguments_of, outcome_class
from autotelic.worlds.code.kinds.humaneval import HumanEval
from autotelic.worlds.code.purity import is_pure
from autotelic.worlds.code.sandbox import Job, Outcome, Sandbox, SandboxConfig, values

IDENTITY = "def f(a):\n    return a"
GREETING = "Hello world"
_SHARING = 64  # calls after which a process is shared no further


_Pair = tuple[str, str]  # the id of a task, and an answer


@dataclass
class CodeWorldConfig:
    kinds: list[str] = field(default_factory=lambda: ["deduction", "abduction", "induction"])
    kind: KindConfig = field(default_factory=KindConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    heldout: bool = True  # reject proposals that are in the held-out suite

    # Where tasks are attempted one at a time (`play episodes=N`).
    one_at_a_time: ClassVar[Mapping[str, str]] = {"kinds": "[deduction]", "heldout": "false"}


class CodeWorld(World):
    """Python programs as tasks."""

    name = "code"
    Config = CodeWorldConfig
    kinds: Mapping[str, CodeKind]  # pyright: ignore[reportIncompatibleVariableOverride]
    exams: Mapping[str, HumanEval] = MappingProxyType({HumanEval.name: HumanEval()})  # only to measure with

    def __init__(self, config: CodeWorldConfig | None = None) -> None:
        self.config = config or CodeWorldConfig()
        self.withholds = self.config.heldout
        if self.config.kind.inputs < 2:
            raise UserError(f"world.kind.inputs is {self.config.kind.inputs}; induction needs at least 2")
        self.kinds = load_kinds(self.config.kinds, self.config.kind)
        # The servers are part of it: they are the hash seeds that decide whether a program is deterministic.
        self.version = f"python-{platform.python_version()} values-1 servers-{self.config.sandbox.servers}"
        self._proven: set[str] = set()  # what pure programs were seen to give in this process: see _claims
        self.sandbox = Sandbox(self.config.sandbox)
        if self.sandbox.servers < 2:
            self.sandbox.close()
            raise UserError("world.sandbox.servers is 1; determinism is checked on two, each with its own hash seed")

    def close(self) -> None:
        self.sandbox.close()

    def __enter__(self) -> CodeWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Admission

    def seeds(self) -> list[Task]:
        """The identity function, with "Hello world" as in the paper; for induction with longer greetings as well."""
        words = [(GREETING + "!" * count,) for count in range(self.config.kind.inputs)]
        message = "Gives back what it is given."
        proposals = [Proposal(name, kind.compose(IDENTITY, words, message)) for name, kind in self.kinds.items()]
        tasks = []
        for result in self._admit(proposals):
            if isinstance(result, Rejection):
                raise UserError(f"the {result.kind} seed task is refused: {result.outcome}, {result.reason}")
            tasks.append(result)
        return tasks

    def admit(self, proposals: Sequence[Proposal], seed: int) -> list[Task | Rejection]:
        """Tasks for what holds up. Nothing here is left to chance, so the seed changes nothing."""
        results = self._admit(proposals)
        return [self.unless_heldout(result) if isinstance(result, Task) else result for result in results]

    def _admit(self, proposals: Sequence[Proposal]) -> list[Task | Rejection]:
        drafts: list[tuple[str, Draft | RefusedError]] = []
        for proposal in proposals:
            try:
                if proposal.kind not in self.kinds:
                    raise RefusedError("format", f"no kind {proposal.kind!r}: one of {', '.join(self.kinds)}")
                drafts.append((proposal.kind, self.kinds[proposal.kind].draft(proposal)))
            except RefusedError as refused:
                drafts.append((proposal.kind, refused))
        return self.admit_drafts(drafts)

    def admit_drafts(self, drafts: Sequence[tuple[str, Draft | RefusedError]]) -> list[Task | Rejection]:
        """Admission of what was read already, without a look at the held-out suite, which is itself made with it."""
        jobs: dict[int, tuple[Job, Job | None]] = {}
        for position, (_, draft) in enumerate(drafts):
            if isinstance(draft, Draft):
                one, other = (self._server(_draft_key(draft), turn) for turn in (0, 1))
                source = draft.program.source
                # Reversed the second time: inputs of one job share a process, and a program may remember them.
                again = None if is_pure(source, draft.inputs) else Job(source, draft.inputs[::-1], server=other)
                jobs[position] = Job(source, draft.inputs, server=one), again
        batch = _Batch(self.sandbox)
        batch.run([job for pair in jobs.values() for job in pair])
        results: list[Task | Rejection] = []
        for position, (name, draft) in enumerate(drafts):
            try:
                if isinstance(draft, RefusedError):
                    raise draft
                first, again = jobs[position]
                outputs = _agreed_outputs(batch[first], batch[again][::-1] if again else batch[first])
                spec = self.kinds[name].spec(draft, outputs)
                task = self.make_task(name, spec, _draft_key(draft), draft.program.features)
                if is_pure(draft.program.source, draft.inputs):
                    self._proven.add(_claims(self.kinds[name], task))
                results.append(task)
            except RefusedError as refused:
                results.append(Rejection(name, refused.outcome, refused.reason))
        return results

    def make_task(self, kind: str, spec: Mapping[str, Any], key: str, features: Mapping[str, float]) -> Task:
        """`key` says what the task is about, whatever its kind; with the kind it makes the content address."""
        return Task(content_address(self.name, kind, key), self.name, kind, {**spec, "key": key}, dict(features))

    @classmethod
    def readable(cls, task: Task) -> list[tuple[str, str]]:
        return readable.texts(task.spec)

    def siblings(self, task: Task) -> list[Task]:
        """Of a program, an input and an output, deduction hides the one and abduction the other."""
        other = {"deduction": "abduction", "abduction": "deduction"}.get(task.kind)
        if other is None or other not in self.kinds:
            return []
        spec = {name: value for name, value in task.spec.items() if name != "key"}
        sibling = self.make_task(other, spec, task.spec["key"], task.features)
        if not self._doubted(task):
            self._proven.add(_claims(self.kinds[other], sibling))
        return [sibling]

    def restate(self, kind: str, spec: Mapping[str, Any]) -> Proposal:
        """Made from the program, the inputs and the message alone: outputs are found by running, not believed."""
        try:
            inputs = spec["inputs"] if "inputs" in spec else [spec["input"]]
            arguments = [arguments_of(text) for text in inputs]
            if not isinstance(spec["program"], str) or not all(isinstance(given, tuple) for given in arguments):
                raise TypeError("program or input")
            return Proposal(kind, self.kinds[kind].compose(spec["program"], arguments, spec.get("message", "")))
        except (KeyError, TypeError, AttributeError, values.Malformed) as error:
            raise ValueError(f"not a spec of {kind}: {type(error).__name__} {error}") from error

    # Judging

    def judge(self, pairs: Sequence[tuple[Task, Answer]], seed: int) -> list[Verdict]:
        """Every pair's verdict. A task and answer that come more than once are judged once."""
        batch = iter(self._judge_batch([pair for pair in pairs if pair[0].kind not in self.exams], seed))
        examined: dict[tuple[str, str], Verdict] = {}
        verdicts = []
        for task, answer in pairs:
            key = task.id, answer.text
            if task.kind in self.exams and key not in examined:
                examined[key] = self._verdict(self._examine(task, answer, seed), seed)
            verdicts.append(examined[key] if task.kind in self.exams else next(batch))
        return verdicts

    def _examine(self, task: Task, answer: Answer, seed: int) -> Grade:
        """What is right is right twice, under two hash seeds."""
        exam = self.exams[task.kind]
        grade = exam.examine(task, answer.text, self.sandbox, self._judging_server(task, seed, 0))
        if grade.outcome != "correct":
            return grade
        return _confirmed(exam.examine(task, answer.text, self.sandbox, self._judging_server(task, seed, 1)))

    def _judge_batch(self, pairs: Sequence[tuple[Task, Answer]], seed: int) -> list[Verdict]:
        attempts: dict[_Pair, Attempt | Grade] = {}
        tasks: dict[str, Task] = {}
        for task, answer in pairs:
            tasks.setdefault(task.id, task)
            if (task.id, answer.text) not in attempts:
                attempts[task.id, answer.text] = self._read(task, answer)
        batch = _Batch(self.sandbox)
        golds = {identity: self._gold_job(task, seed) for identity, task in tasks.items()}
        runs = {key: self._attempt_job(tasks[key[0]], attempt, seed, 0) for key, attempt in attempts.items()}
        # Not in one call: what an answer is compared with shares no process with any answer.
        batch.run(list(golds.values()))
        batch.run(list(runs.values()))
        faults = {identity: self._fault(tasks[identity], batch[job]) for identity, job in golds.items()}
        grades: dict[_Pair, Grade] = {}
        for key, attempt in attempts.items():
            fault = faults[key[0]]
            grades[key] = fault or self._grade(tasks[key[0]], attempt, batch[runs[key]])
        self._confirm(batch, tasks, attempts, grades, seed)
        verdicts = {key: self._verdict(grade, seed) for key, grade in grades.items()}
        if self.hindsight:
            achieved = self._achieved(tasks, attempts, grades, lambda key: batch[runs[key]])
            for key, task in {**achieved, **self._right_elsewhere(tasks, attempts, grades)}.items():
                verdicts[key] = replace(verdicts[key], achieved=(task,))
        return [verdicts[task.id, answer.text] for task, answer in pairs]

    def _achieved(
        self,
        tasks: Mapping[str, Task],
        attempts: Mapping[_Pair, Attempt | Grade],
        grades: Mapping[_Pair, Grade],
        outcomes: Callable[[_Pair], Sequence[Outcome]],
    ) -> dict[_Pair, Task]:
        """What wrong answers are right for, one a task. Programs that cannot give another result only: for them one run
        is proof."""
        found: dict[str, tuple[_Pair, Task]] = {}
        for key, attempt in attempts.items():
            task = tasks[key[0]]
            if task.id in found or grades[key].outcome != "wrong" or not isinstance(attempt, Attempt):
                continue
            if attempt.program is None or not is_pure(attempt.program, attempt.inputs):
                continue
            ran = outcomes(key)
            if not all(outcome.ok and outcome.encoded != "null" for outcome in ran):
                continue
            kind = self.kinds[task.kind]
            try:
                achieved = kind.hindsight(task, attempt, ran)
                if achieved is None:
                    continue
                draft, outputs = achieved
                other = self.make_task(task.kind, kind.spec(draft, outputs), _draft_key(draft), {})
            except RefusedError:
                continue
            if isinstance(self.unless_heldout(other), Task):
                found[task.id] = key, other
        return dict(found.values())

    def _right_elsewhere(
        self, tasks: Mapping[str, Task], attempts: Mapping[_Pair, Attempt | Grade], grades: Mapping[_Pair, Grade]
    ) -> dict[_Pair, Task]:
        """Values that are wrong where they were said but right for another of the tasks, one that nobody solved."""
        solved = {identity for (identity, _), grade in grades.items() if grade.outcome == "correct"}
        sound = {identity for (identity, _), grade in grades.items() if grade.outcome not in Verdict.NOT_EVIDENCE}
        unsolved: dict[tuple[str, str], list[Task]] = {}
        for identity in sorted(sound - solved):
            task = tasks[identity]
            unsolved.setdefault((task.kind, self.kinds[task.kind].gold(task.spec)[1][0]), []).append(task)
        found: dict[_Pair, Task] = {}
        for key, attempt in attempts.items():
            if isinstance(attempt, Attempt) and attempt.value is not None and grades[key].outcome == "wrong":
                kind = tasks[key[0]].kind
                others = unsolved.get((kind, attempt.value))
                if others and self.kinds[kind].grade(others[-1], attempt, ()).outcome == "correct":
                    found[key] = others.pop()
        return found

    def _read(self, task: Task, answer: Answer) -> Attempt | Grade:
        if task.world != self.name or task.kind not in self.kinds:
            raise ValueError(f"task {task.id} is of {task.world}/{task.kind}, not of this world")
        try:
            return self.kinds[task.kind].attempt(task, answer.text)
        except RefusedError as refused:
            return Grade(refused.outcome, detail=refused.reason)

    def _gold_job(self, task: Task, seed: int) -> Job | None:
        """Each use of a task runs its own program again, on another server than those that admitted it, unless it can
        be seen to give what it gave."""
        if not self._doubted(task):
            return None
        inputs, _ = self.kinds[task.kind].gold(task.spec)
        return Job(task.spec["program"], inputs, server=self._judging_server(task, seed, 0))

    def _doubted(self, task: Task) -> bool:
        """Whether the program has to be run to be sure of the task's own answer. Not if it was seen to give that answer
        before and cannot give another; nor for a user's induction task, which has pairs only."""
        return task.spec["program"] is not None and _claims(self.kinds[task.kind], task) not in self._proven

    def _attempt_job(self, task: Task, attempt: Attempt | Grade, seed: int, turn: int) -> Job | None:
        if isinstance(attempt, Grade) or attempt.program is None:
            return None
        return Job(attempt.program, attempt.inputs, server=self._judging_server(task, seed, turn))

    def _fault(self, task: Task, outcomes: Sequence[Outcome]) -> Grade | None:
        """What keeps the task from being judged now: it took too long, or its answer is no longer its own."""
        if not self._doubted(task):
            return None
        kind = self.kinds[task.kind]
        inputs, wanted = kind.gold(task.spec)
        for outcome, output in zip(outcomes, wanted, strict=True):
            if outcome_class(outcome) in Verdict.NOT_EVIDENCE:
                return Grade("lost", detail=f"the task's own program: {outcome}")
            if outcome.encoded != output:
                return Grade("nondeterministic", detail="the task's own program gives another result than before")
        if is_pure(task.spec["program"], inputs):
            self._proven.add(_claims(kind, task))
        return None

    def _grade(self, task: Task, attempt: Attempt | Grade, outcomes: Sequence[Outcome]) -> Grade:
        if isinstance(attempt, Grade):
            return attempt
        return self.kinds[task.kind].grade(task, attempt, outcomes)

    def _confirm(
        self,
        batch: _Batch,
        tasks: Mapping[str, Task],
        attempts: Mapping[_Pair, Attempt | Grade],
        grades: dict[_Pair, Grade],
        seed: int,
    ) -> None:
        """What was right by running is run once more under another hash seed: luck is not an answer."""
        again = {}
        for key, attempt in attempts.items():
            job = self._attempt_job(tasks[key[0]], attempt, seed, 1)
            if job is not None and grades[key].outcome == "correct" and not is_pure(job.program, job.inputs):
                again[key] = job
        batch.run(list(again.values()))
        for key, job in again.items():
            grades[key] = _confirmed(self._grade(tasks[key[0]], attempts[key], batch[job]))

    def _verdict(self, grade: Grade, seed: int) -> Verdict:
        solved = grade.outcome == "correct"
        return Verdict(solved, grade.outcome, grade.score, grade.detail, version=self.version, seed=seed)

    def _server(self, key: str, turn: int) -> int:
        return (int(key[:8], 16) + turn) % self.sandbox.servers

    def _judging_server(self, task: Task, seed: int, turn: int) -> int:
        """Another server each time a task is used; the first is none of the two that admitted it, if there are more."""
        others = max(1, self.sandbox.servers - 2)
        return self._server(task.spec["key"], 2 + seed % others + turn)

    # The brief wording

    @property
    def tokens(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return brief.tokens(self.kinds)

    def babble(self, rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
        names = list(self.kinds)
        if strange := [name for name in names if name not in KINDS]:
            raise UserError(f"tasks of the kind {strange[0]} have no babble: take a player that reads full prompts")
        return [brief.babble(names[at % len(names)], rng, self.config.kind.inputs) for at in range(count)]

    # Held-out tasks

    def kind_of(self, task: Task) -> Kind:
        return self.exams[task.kind] if task.kind in self.exams else self.kinds[task.kind]

    @cached_property
    def suite(self) -> list[Task]:
        """The fixed held-out tasks of the small language; made at first use and kept in the user's cache."""
        return suite.standard_suite(self)

    def load_suite(self, path: str | Path) -> list[Task]:
        """A suite by its name, or a user's own tasks from JSON lines."""
        return suites.load_suite(path, self)


class _Batch:
    """Runs jobs, equal ones once, and knows what came of them. Calls of pure programs share a process."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.outcomes: dict[Job, tuple[Outcome, ...]] = {}

    def run(self, jobs: Sequence[Job | None]) -> None:
        new = list(dict.fromkeys(job for job in jobs if job is not None and job not in self.outcomes))
        groups = list(_together(new))
        alone: list[Job] = []
        shared = [replace(group[0], after=tuple(group[1:])) for group in groups]
        for group, outcomes in zip(groups, self.sandbox.run(shared), strict=True):
            # A limit or a crash may be the doing of another call: then each has a process of its own after all.
            if len(group) > 1 and any(each.kind not in ("ok", "exception") for each in outcomes):
                alone += group
                continue
            found = iter(outcomes)
            for job in group:
                self.outcomes[job] = tuple(islice(found, len(job.inputs)))
        if alone:
            self.outcomes.update(zip(alone, self.sandbox.run(alone), strict=True))

    def __getitem__(self, job: Job | None) -> tuple[Outcome, ...]:
        return self.outcomes[job] if job is not None else ()


def _together(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs in groups that may share a process: calls of pure programs, on the server that each would have had."""
    groups: dict[int, list[Job]] = {}
    for job in jobs:
        if job.server is None or not is_pure(job.program, job.inputs, job.entry):
            yield [job]
            continue
        group = groups.setdefault(job.server, [])
        group.append(job)
        if sum(len(member.inputs) for member in group) >= _SHARING:
            yield groups.pop(job.server)
    yield from groups.values()


def _claims(kind: CodeKind, task: Task) -> str:
    """A task's program with its inputs and outputs, in short."""
    return content_address(task.spec["program"], kind.gold(task.spec))


def _agreed_outputs(first: Sequence[Outcome], second: Sequence[Outcome]) -> list[str]:
    """The outputs of a deterministic program that returns values; RefusedError for every other."""
    for outcome in (*first, *second):
        if outcome.kind in ("forbidden", "limit", "crash"):  # what one run shows is enough
            raise RefusedError(outcome_class(outcome), f"{outcome.detail} {outcome.message}".strip())
    for one, other in zip(first, second, strict=True):
        if (one.kind, one.encoded, one.detail) != (other.kind, other.encoded, other.detail):
            raise RefusedError("nondeterministic", "two runs under different hash seeds disagree")
        if not one.ok:
            raise RefusedError(one.kind, f"{one.detail} {one.message}".strip())
        if one.encoded == "null":
            raise RefusedError("no_value", "returned None")
    return [outcome.encoded for outcome in first if outcome.encoded is not None]


def _confirmed(second: Grade) -> Grade:
    """The grade of what was right once, after a second run."""
    if second.outcome == "correct" or second.outcome in Verdict.NOT_EVIDENCE:
        return second
    return Grade("wrong", detail="right in one run, not in the next")


def _draft_key(draft: Draft) -> str:
    """Equal for renamed copies of a program with the same inputs."""
    return content_address(draft.program.canonical, sorted(draft.inputs))
