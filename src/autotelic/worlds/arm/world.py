"""The arm world: a simulated robot arm decides what is true.

`admit` and `judge` collect the episodes of all kinds and players into few batches for the worker processes. What a
controller says of itself is recorded beside the verdict and changes nothing in it.

Classes of rejections:
    format        not JSON, no such blocks, an unknown key, a value of the wrong type
    unknown       a name that is not on the table, or no such shape, colour, predicate, region, robot
    names         two things of one name
    bounds        a number out of its bounds
    too_many      more things, fixtures or predicates than there may be
    unreachable   a place that the robot cannot reach
    ungraspable   a thing too wide for the gripper
    overlap       things stand in each other, or there is no room for all
    uncompiled    the scene cannot be
    unsettled     a thing does not stay where it is put
    contradiction  no state is such that all of the goal holds
    goal_true     the goal holds at the start
    trivial       it comes about by itself; a question's answer does not depend on the controller, or not on the start
    unreached     abduction: the start given does not lead to the goal; induction: nor does the example's controller
    nondeterministic  a question's controller does not do the same each time
    heldout       asks the same as a held-out task
    broken        the simulation flew apart
and of controllers: syntax, no_entry, forbidden, and how an episode can end (see episodes.py). The loop adds
`duplicate`. Outcomes of verdicts: correct, wrong, those of the above that can befall an answer, and
    misplaced     things did not stand where they were put at a start that was drawn: this says nothing of the answer
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import mujoco
import numpy as np

from autotelic.errors import UserError
from autotelic.physics.arm.pictures import Painter
from autotelic.physics.arm.scenes import Placement, Scene, compiled
from autotelic.runs import seeds
from autotelic.runs.files import content_address
from autotelic.worlds.arm import brief, goals, suite
from autotelic.worlds.arm.controllers import ENTRY
from autotelic.worlds.arm.episodes import PICTURES, Ended, Job
from autotelic.worlds.arm.kinds import BUILT_IN, ArmKind, KindConfig, base, load_kinds
from autotelic.worlds.arm.kinds.abduction import Abduction
from autotelic.worlds.arm.kinds.base import Attempt, Draft
from autotelic.worlds.arm.kinds.induction import Induction
from autotelic.worlds.arm.kinds.questions import Question, proposed
from autotelic.worlds.arm.library import SEEDS, ArmLibrary
from autotelic.worlds.arm.places import REGIONS, at_spots
from autotelic.worlds.arm.skills import PREFIX, Skills
from autotelic.worlds.arm.tasks import Setting, read
from autotelic.worlds.arm.workers import Workers
from autotelic.worlds.base import Answer, Clip, Proposal, Rejection, Replay, Task, Verdict, World
from autotelic.worlds.code.kinds.base import Grade, RefusedError
from autotelic.worlds.code.programs import canonical_form
from autotelic.worlds.code.sandbox import SandboxConfig

# What is kept of an episode beside the verdict.
METRICS = ("time", "steps", "calls", "path_length", "path_efficiency", "energy", "smoothness", "collisions")

VERSION = "arm-3"  # of what decides verdicts here, beside the simulator
DOUBTED = 4  # goals of an answer, at most, that are looked at again in hindsight
ASKED = 3  # starts at which an answer is asked about: what it does there teaches more than another answer's one start

_NO_SPEC = (KeyError, TypeError, AttributeError, ValueError, IndexError)  # what is raised by data that is none
_Pair = tuple[str, str]  # the id of a task, and an answer
_Doubt = tuple[Task, tuple[int, ...]]  # a task that an answer may solve, and at which of its starts that is not known


@dataclass
class ArmWorldConfig:
    kinds: list[str] = field(default_factory=lambda: ["deduction", "abduction", "induction"])
    kind: KindConfig = field(default_factory=KindConfig)
    sandbox: SandboxConfig = field(default_factory=lambda: SandboxConfig(servers=2, ahead=2))
    workers: int = 0  # processes that simulate; 0: one a core
    heldout: bool = True  # reject proposals that are in the held-out suite

    # An episode takes as long as a hundred programs: fewer tasks, and more learned from each.
    beside_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "tiny": {
            "loop": {
                "batch": 32,
                "attempts": 4,
                "practice": "learnable",
                "proposals": 24,
                # Most random controllers make nothing true: many are run once, few again.
                "proposals_at": {"abduction": 160},
                "questions": 48,
                # Predictions of one run are judged by one episode, however many there are.
                "attempts_at": {"deduction": 32, "abduction": 6, "induction": 8},
            },
            # Of so few texts, those that went well would soon be known by heart, and no others tried.
            "player": {
                "max_tokens": 32,
                # Few texts, all of them about things with names: without it they are learned by heart.
                "matching": 2,
                "learner": {
                    "replay_size": 384,
                    "replay_proposals": 0.11,
                    "replay_weights": {"abduction": 2.0},  # it takes far more examples than the others
                    "rehearsal": 0.15,
                    "memory": 131072,
                },
            },
        }
    }

    usual_player: ClassVar[str] = "tiny"  # who plays where none is named: the one that learns here from nothing

    # Where tasks are attempted one at a time (`play episodes=N`): tasks of control, any that the library has.
    one_at_a_time: ClassVar[Mapping[str, str]] = {"kinds": "[induction]", "heldout": "false"}

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise UserError(f"world.workers is {self.workers}; it must be 0 or more")


class ArmWorld(World):
    """Tasks for a robot arm."""

    name = "arm"
    Config = ArmWorldConfig
    goals: ClassVar[Mapping[str, str]] = {name: kind.goal_at for name, kind in BUILT_IN.items()}
    seen = True
    kinds: Mapping[str, ArmKind]  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: ArmWorldConfig | None = None) -> None:
        self.config = config or ArmWorldConfig()
        self.withholds = self.config.heldout
        self.skills = Skills()
        self.kinds = load_kinds(self.config.kinds, self.config.kind, self.skills)
        servers = self.config.sandbox.servers
        self.version = f"mujoco-{mujoco.__version__} {VERSION} python-{platform.python_version()} servers-{servers}"
        self.library = ArmLibrary(self.kinds)
        self._workers = Workers(self.config.sandbox, self.config.workers)
        self._painter: Painter | None = None
        self._siblings: dict[str, list[Task]] = {}  # of questions that were admitted last

    def close(self) -> None:
        self._workers.close()
        if self._painter is not None:
            self._painter.close()
            self._painter = None

    def __enter__(self) -> ArmWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, jobs: Sequence[Job]) -> list[Ended]:
        """What comes of episodes, in their order."""
        return self._workers.run(jobs)

    # Admission

    def admit(self, proposals: Sequence[Proposal], seed: int) -> list[Task | Rejection]:
        """Tasks for what holds up. What is drawn here is drawn from the proposal itself: the seed changes nothing."""
        self._siblings.clear()  # not where the held-out suite is made, which may be within an admission
        return [
            self.unless_heldout(result)
            if isinstance(result, Task)
            else replace(result, found=tuple(self._free(result.found)))
            for result in self.admit_freely(proposals)
        ]

    def _free(self, tasks: Iterable[Task]) -> list[Task]:
        """Those that ask nothing that is held out."""
        return [task for task in tasks if isinstance(self.unless_heldout(task), Task)]

    def admit_freely(self, proposals: Sequence[Proposal], thorough: bool = True) -> list[Task | Rejection]:
        """Without a look at the held-out suite, which is itself made with it. What is known not to be trivial need not
        be looked at thoroughly."""
        drafts: list[Draft | RefusedError] = []
        for proposal in proposals:
            try:
                if proposal.kind not in self.kinds:
                    raise RefusedError("format", f"no kind {proposal.kind!r:.60}: one of {', '.join(self.kinds)}")
                drafts.append(self.kinds[proposal.kind].draft(proposal))
            except RefusedError as refused:
                drafts.append(refused)
        ended = iter(self.run([job for draft in drafts if isinstance(draft, Draft) for job in draft.jobs]))
        shown: list[tuple[Draft, list[Ended], tuple[Job, ...]] | RefusedError] = []
        for proposal, draft in zip(proposals, drafts, strict=True):
            if isinstance(draft, RefusedError):
                shown.append(draft)
                continue
            found = [next(ended) for _ in draft.jobs]
            try:
                jobs = self.kinds[proposal.kind].further(draft, found)
                shown.append((draft, found, jobs if thorough else ()))
            except RefusedError as refused:
                shown.append(refused)
        more = iter(self.run([job for each in shown if not isinstance(each, RefusedError) for job in each[2]]))
        results: list[Task | Rejection] = []
        for proposal, each in zip(proposals, shown, strict=True):
            try:
                if isinstance(each, RefusedError):
                    raise each
                draft, found, jobs = each
                seen = [*found, *(next(more) for _ in jobs)]
                results.append(self._task_of(proposal.kind, draft, seen, thorough))
            except RefusedError as refused:
                results.append(Rejection(proposal.kind, refused.outcome, refused.reason or refused.outcome))
        return results

    def _task_of(self, name: str, draft: Draft, seen: Sequence[Ended], thorough: bool) -> Task | Rejection:
        """The task that a draft makes. What else its episodes say is kept for `siblings`, or with the rejection."""
        also = self._also(name, draft, seen) if thorough else []
        try:
            task = self.make_task(name, self.kinds[name].spec(draft, seen))
        except RefusedError as refused:
            return Rejection(name, refused.outcome, refused.reason or refused.outcome, tuple(also))
        self._siblings[task.id] = also
        return task

    def _also(self, name: str, draft: Draft, seen: Sequence[Ended]) -> list[Task]:
        if not isinstance(self.kinds[name], Question):
            return []
        asking = [kind for kind in self.kinds.values() if isinstance(kind, Question)]
        made = [self.make_task(kind.name, spec) for kind in asking for spec in kind.also(draft.spec, seen)]
        return list({task.id: task for task in made}.values())

    def siblings(self, task: Task) -> list[Task]:
        """What else can be asked about the controller and the scene of a question that has just been admitted: the
        episodes which that took say it."""
        return self._free(each for each in self._siblings.pop(task.id, ()) if each.id != task.id)

    def questions(self, task: Task, answer: Answer) -> list[Proposal]:
        """What a controller does in the scene that it was written for, from some starts that chance draws. One that
        calls skills is more than its text says."""
        kind = self.kinds[task.kind]
        asking = [name for name, other in self.kinds.items() if isinstance(other, Question)]
        if not isinstance(kind, Induction) or not asking:
            return []
        try:
            program, scene = kind.read(answer.text), kind.scene(task.spec)
        except RefusedError:  # it is no controller
            return []
        if PREFIX in program or scene.marks or scene.robot != self.config.kind.robot:
            return []
        rng, starts = seeds.generator(0, "questions", content_address(task.id, program)), list[dict[str, Placement]]()
        for _ in range(ASKED):
            start = at_spots(scene, rng, starts)
            starts += [start] if start is not None else []
        # Whichever asks, the others' questions are its siblings, or come with its rejection: but where the controller
        # has done nothing that it could ask about, it is refused before they are looked for.
        name = Abduction.name if Abduction.name in asking else asking[0]
        return [Proposal(name, proposed(Setting(scene, start).plain(), program)) for start in starts]

    def make_task(self, kind: str, spec: Mapping[str, Any]) -> Task:
        """A task with an example is the task that it is without, and a question is the same however its controller is
        written: or each spelling made another."""
        features = self.kinds[kind].features(spec)
        asked = {name: part for name, part in spec.items() if name != "example"}
        if "controller" in asked and brief.calls_of(asked["controller"]) is None:  # brief words have one spelling
            asked["controller"] = canonical_form(asked["controller"], ENTRY)
        return Task(content_address(self.name, kind, asked), self.name, kind, dict(spec), features)

    def seeds(self) -> list[Task]:
        """Reach for a box, in every kind that is played."""
        results = self.admit_freely([Proposal(kind, SEEDS[kind]) for kind in self.kinds])
        refused = [result for result in results if isinstance(result, Rejection)]
        if refused:
            raise UserError(f"the {refused[0].kind} seed task is refused: {refused[0].outcome}, {refused[0].reason}")
        return [result for result in results if isinstance(result, Task)]

    def restate(self, kind: str, spec: Mapping[str, Any]) -> Proposal:
        try:
            return Proposal(kind, self.kinds[kind].restate(spec))
        except (*_NO_SPEC, RefusedError) as error:
            raise ValueError(f"not a spec of {kind}: {type(error).__name__} {error}") from error

    # Judging

    def judge(self, pairs: Sequence[tuple[Task, Answer]], seed: int) -> list[Verdict]:
        """Every pair's verdict. A task and answer that come more than once are judged once; an answer that fails at one
        start is not tried at the next."""
        tasks: dict[str, Task] = {}
        attempts: dict[_Pair, Attempt | Grade] = {}
        for task, answer in pairs:
            tasks.setdefault(task.id, task)
            if (task.id, answer.text) not in attempts:
                attempts[task.id, answer.text] = self._read(task, answer, seed)
        ended = self._tried(tasks, attempts)
        verdicts = {key: self._verdict(tasks[key[0]], attempt, ended[key], seed) for key, attempt in attempts.items()}
        if self.hindsight:
            for key, others in self._achieved(tasks, attempts, ended, verdicts, seed).items():
                verdicts[key] = replace(verdicts[key], achieved=others)
        return [verdicts[task.id, answer.text] for task, answer in pairs]

    def _read(self, task: Task, answer: Answer, seed: int) -> Attempt | Grade:
        if task.world != self.name or task.kind not in self.kinds:
            raise ValueError(f"task {task.id} is of {task.world}/{task.kind}, not of this world")
        try:
            return self.kinds[task.kind].attempt(task, answer.text, seed)
        except RefusedError as refused:
            return Grade(refused.outcome, detail=refused.reason)

    def _tried(self, tasks: Mapping[str, Task], attempts: Mapping[_Pair, Attempt | Grade]) -> dict[_Pair, list[Ended]]:
        """The episodes of each attempt, up to the first that failed; those of all attempts at once."""
        ended: dict[_Pair, list[Ended]] = {key: [] for key in attempts}
        under_way = {key: attempt for key, attempt in attempts.items() if isinstance(attempt, Attempt) and attempt.jobs}
        while under_way:
            jobs = [attempt.jobs[len(ended[key])] for key, attempt in under_way.items()]
            for key, found in zip(list(under_way), self.run(jobs), strict=True):
                ended[key].append(found)
                task = tasks[key[0]]
                if len(ended[key]) == len(under_way[key].jobs) or not self.kinds[task.kind].succeeded(task, found):
                    del under_way[key]
        return ended

    def _verdict(self, task: Task, attempt: Attempt | Grade, ended: Sequence[Ended], seed: int) -> Verdict:
        grade = attempt if isinstance(attempt, Grade) else self.kinds[task.kind].grade(task, attempt, ended)
        metrics = {name: _mean(ended, name) for name in METRICS if ended and name in ended[-1].metrics}
        if any(each.digest for each in ended):  # says whether a replay ended alike, to the bit, at every start
            metrics["state"] = float(int(content_address(*(each.digest for each in ended))[:12], 16))
        if task.kind == "induction" and any(each.claim is not None for each in ended):
            metrics["claimed"] = float(any(each.claim for each in ended))
            # One may say the truth of every start, and fail at the last.
            false = (
                each.claim and base.stood(each) and not self.kinds[task.kind].succeeded(task, each) for each in ended
            )
            metrics["claimed_falsely"] = float(any(false))
        if grade.progress is not None:
            metrics["progress"] = grade.progress
        solved = grade.outcome == "correct"
        return Verdict(solved, grade.outcome, grade.score, grade.detail, metrics, self.version, seed)

    def _achieved(
        self,
        tasks: Mapping[str, Task],
        attempts: Mapping[_Pair, Attempt | Grade],
        ended: Mapping[_Pair, Sequence[Ended]],
        verdicts: Mapping[_Pair, Verdict],
        seed: int,
    ) -> dict[_Pair, tuple[Task, ...]]:
        """What answers are right for beside what was asked. Wrong ones that may be are tried at all starts first."""
        tried: dict[str, dict[_Pair, tuple[Attempt, list[Ended]]]] = {}
        for key, attempt in attempts.items():
            if isinstance(attempt, Attempt) and verdicts[key].outcome in ("correct", "wrong") and ended[key]:
                tried.setdefault(key[0], {})[key] = attempt, list(ended[key])
        missing: list[tuple[list[Ended], Job]] = []
        for identity, answers in tried.items():
            wrong = [each for key, each in answers.items() if verdicts[key].outcome == "wrong"]
            task = tasks[identity]
            promising = self.kinds[task.kind].promising(task, [found[0] for _, found in wrong])
            for (attempt, found), worth in zip(wrong, promising, strict=True):
                missing += [(found, job) for job in attempt.jobs[len(found) :] if worth]
        for (found, _), more in zip(missing, self.run([job for _, job in missing]), strict=True):
            found.append(more)
        right_for: dict[_Pair, list[_Doubt]] = {}
        for identity, answers in tried.items():
            kind = self.kinds[tasks[identity].kind]
            for key, others in zip(answers, kind.hindsight(tasks[identity], list(answers.values())), strict=True):
                made = [(self.make_task(kind.name, other.spec), other.lacking) for other in others]
                right_for[key] = [pair for pair in made if isinstance(self.unless_heldout(pair[0]), Task)]
        return self._confirmed(right_for, seed)

    def _confirmed(self, found: Mapping[_Pair, Sequence[_Doubt]], seed: int) -> dict[_Pair, tuple[Task, ...]]:
        """Those of other tasks that an answer solves. A few of those that lack evidence are tried for it."""
        achieved = {key: [task for task, lacking in others if not lacking] for key, others in found.items()}
        doubted: list[tuple[_Pair, Task, Attempt]] = []
        for key, others in found.items():
            for task, lacking in [pair for pair in others if pair[1]][:DOUBTED]:
                attempt = self._read(task, Answer(key[1]), seed)
                if isinstance(attempt, Attempt):
                    doubted.append((key, task, replace(attempt, jobs=tuple(attempt.jobs[at] for at in lacking))))
        ended = iter(self.run([job for _, _, attempt in doubted for job in attempt.jobs]))
        for key, task, attempt in doubted:
            episodes = [next(ended) for _ in attempt.jobs]
            if all(self.kinds[task.kind].succeeded(task, each) for each in episodes):
                achieved[key].append(task)
        return {key: tuple(others) for key, others in achieved.items()}

    # What has worked

    def recall_from(self, recall: Callable[[str], str | None]) -> None:
        self.skills.recall = recall

    def remember(self, judged: Sequence[tuple[Task, Answer, Verdict]]) -> dict[str, float]:
        for task, answer, verdict in judged:
            kind = self.kinds[task.kind]
            if isinstance(kind, Induction) and verdict.evidence and "steps" in verdict.metrics:  # it ran
                kind.remember(task, answer.text, verdict.solved)
        return {"skills": float(len(self.skills.offered()))}

    def state(self) -> dict[str, Any]:
        return {"skills": self.skills.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.skills.load_state(state.get("skills", ()))

    # Looking

    @classmethod
    def readable(cls, task: Task) -> list[tuple[str, str]]:
        try:
            return load_kinds([task.kind], KindConfig())[task.kind].readable(task.spec)
        except (*_NO_SPEC, RefusedError):  # of another version or damaged: as it is stored
            return super().readable(task)

    def replay(self, task: Task, answer: Answer, seed: int) -> Replay:
        try:
            return self._replay(task, answer, seed)
        except (*_NO_SPEC, RefusedError) as error:
            raise UserError(f"task {task.id} is damaged: {type(error).__name__} {error}") from error

    def _replay(self, task: Task, answer: Answer, seed: int) -> Replay:
        attempt, key = self._read(task, answer, seed), (task.id, answer.text)
        if isinstance(attempt, Attempt):
            attempt = replace(attempt, jobs=tuple(replace(job, filmed=True) for job in attempt.jobs))
        ended = self._tried({task.id: task}, {key: attempt})[key]
        verdict = self._verdict(task, attempt, ended, seed)
        scene = self.kinds[task.kind].scene(task.spec)
        return Replay(verdict, [self._clip(scene, each.film) for each in ended if each.film])

    def _clip(self, scene: Scene, film: Sequence[np.ndarray]) -> Clip:
        def draw(number: int, width: int, height: int) -> np.ndarray:
            if self._painter is None:
                self._painter = Painter()
            return self._painter.draw(compiled(scene), film[number], width, height)

        return Clip(len(film), PICTURES, draw)

    # The brief wording

    @property
    def tokens(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return brief.tokens(list(self.kinds))

    alike = brief.ALIKE

    def babble(self, rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
        names = list(self.kinds)
        return [brief.babble(names[at % len(names)], rng) for at in range(count)]

    def rehearsal(self, rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
        """Random proposals and controllers. Right answers to questions are known from the runs that made them, and
        random ones would only blur them."""
        tried = (brief.PROPOSE, brief.kind(Induction.name))
        found: list[tuple[str, str]] = []
        while len(found) < count:
            found += [pair for pair in self.babble(rng, count) if pair[0].startswith(tried)]
        return found[:count]

    def asks_heldout(self, prompt: str) -> bool:
        """Questions are held out in all colours: none becomes one by others. Control tasks may, in any wording; what
        cannot be read, as of a thing that brief words do not know, might be one."""
        kind = self.kinds.get(Induction.name)
        if not self.withholds or not isinstance(kind, Induction):
            return False
        try:
            return any(key in self.heldout for key in kind.asked(prompt))
        except RefusedError:
            return True

    # Held-out tasks

    def row_of(self, task: Task) -> str:
        """Control tasks are measured by family."""
        return read(task.spec["task"]).family if task.kind == "induction" else task.kind

    def sort_of(self, task: Task) -> str:
        """What is hardest in the goal of a control task. Questions are as frequent as what they ask about."""
        if task.kind != Induction.name:
            return ""
        name, *args = max(task.spec["task"]["goal"], key=lambda row: goals.SORTS[row[0]].level)
        return f"{name}-{args[1]}" if name == "at" and args[1] in REGIONS else name

    @cached_property
    def suite(self) -> list[Task]:
        """The fixed held-out tasks; made at first use and kept in the user's cache."""
        return suite.standard_suite(self)

    def load_suite(self, path: str | Path) -> list[Task]:
        """A user's own tasks, from JSON lines."""
        return suite.load(Path(path), self)


def _mean(ended: Sequence[Ended], name: str) -> float:
    return sum(float(each.metrics.get(name, 0.0)) for each in ended) / len(ended)
