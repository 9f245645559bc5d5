"""What every world shares: tasks, answers, verdicts, and the two interfaces that decide what is true.

A world admits proposals and judges answers. A kind is how a task is asked and answered in text. Both are
batched and deterministic given their seeds; neither takes a player's word for anything.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from autotelic.errors import UserError
from autotelic.runs.files import content_address as content_address  # how a world names its tasks

KINDS = ("deduction", "abduction", "induction")  # what every world can ask; some ask more
Plain = Any  # None, bool, int, float, str, and lists and dicts of these: what JSON can hold


@dataclass(frozen=True)
class Task:
    """An admitted task. `spec` holds all that is needed to ask and judge it, as plain data."""

    id: str
    world: str
    kind: str
    spec: Mapping[str, Plain]
    features: Mapping[str, float] = field(default_factory=dict)  # difficulty described: depth, operations, …


@dataclass(frozen=True)
class Proposal:
    """Raw text from a proposer. `base` is the task it was asked to build on, chosen by the loop, not the player."""

    kind: str
    text: str
    base: Task | None = None


@dataclass(frozen=True)
class Rejection:
    """Why a proposal did not become a task: a class that is counted and a reason a reader understands."""

    kind: str
    outcome: str
    reason: str
    found: tuple[Task, ...] = ()  # what else could be asked of what was run for it


@dataclass(frozen=True)
class Answer:
    """Raw text from a solver. Its own claim of success is recorded, never believed."""

    text: str
    claim: bool | None = None


@dataclass(frozen=True)
class Verdict:
    """What the world says of one answer.

    `outcome` is a class that is counted: correct, wrong, format, or a world's own. Four of them are no evidence of how
    hard the task is: a time limit, a task that contradicts itself, a start that the world drew and that cannot be, and
    a judge that was lost on the way. Every other failure counts as one, or a solver could crash its way out of a wrong
    answer.
    """

    solved: bool
    outcome: str
    score: float = 0.0
    detail: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    version: str = ""
    seed: int = 0
    achieved: tuple[Task, ...] = ()  # other tasks that this answer solves, where the world says so

    NOT_EVIDENCE: ClassVar[frozenset[str]] = frozenset({"limit", "nondeterministic", "misplaced", "lost"})

    @property
    def evidence(self) -> bool:
        return self.outcome not in self.NOT_EVIDENCE

    @property
    def progress(self) -> float:
        """How far the attempt came, 0 to 1: what the world has measured, or else the score."""
        return 1.0 if self.solved else min(max(self.metrics.get("progress", self.score), 0.0), 1.0)

    @property
    def judgement(self) -> str:
        """What must come out the same when it is judged again. Timings and wording may differ."""
        state = f", state {self.metrics['state']:.0f}" if "state" in self.metrics else ""  # where it ended, exactly
        return f"{'solved' if self.solved else 'not solved'} ({self.outcome}, score {self.score!r}{state})"


@dataclass(frozen=True)
class Clip:
    """What was to be seen of an episode: pictures at even distances in time, drawn when they are asked for."""

    count: int  # of pictures
    fps: float  # of them a second
    draw: Callable[[int, int, int], np.ndarray]  # number, width, height: uint8 [height, width, 3]


@dataclass(frozen=True)
class Replay:
    """An answer that was judged once more: what the world says of it now, and what there was to see."""

    verdict: Verdict
    clips: Sequence[Clip] = ()  # none where nothing came to be run


@dataclass(frozen=True)
class Request:
    """What a proposer is asked for: a kind, K reference tasks, and the context of the run so far."""

    kind: str
    references: tuple[Task, ...] = ()
    base: Task | None = None  # the task to build on, where the kind asks for one (see Kind.builds_on)
    difficulty: float | None = None  # wanted share of attempts that fail, 0 to 1
    wanted: Mapping[str, float] = field(default_factory=dict)  # features that the task should have about, if it can
    recent: tuple[str, ...] = ()  # ids of the newest tasks, so that they are not proposed again
    outcomes: Mapping[str, int] = field(default_factory=dict)  # what became of earlier proposals, by class
    # Share of attempts that succeeded, by sort (World.sort_of).
    lately: Mapping[str, float] = field(default_factory=dict)


class Kind(ABC):
    """How tasks of one kind are asked and answered in text."""

    name: ClassVar[str]
    builds_on: tuple[str, ...] = ()  # kinds from whose tasks the loop draws a `base` for each request
    feedback: ClassVar[bool] = False  # whether a verdict's detail may be shown to the solver: it gives no answer away

    @abstractmethod
    def propose_prompt(self, request: Request) -> str:
        """The text a proposer sees."""

    @abstractmethod
    def solve_prompt(self, task: Task) -> str:
        """The text a solver sees. Never holds the answer."""

    def withheld(self, spec: Mapping[str, Plain]) -> list[str]:
        """What no proposal may ask about if this task is held out. None here: only the very same task is refused."""
        return []

    def asks_about(self, spec: Mapping[str, Plain]) -> list[str]:
        """What a task would teach the answers to, itself or asked in another kind: none of it may be withheld."""
        return self.withheld(spec)

    # Questions with good replies, for minds that have to see one before they keep to a form. No task of the world's own
    # suite is among them.

    def propose_examples(self) -> Sequence[tuple[str, str]]:
        return ()

    def solve_examples(self) -> Sequence[tuple[str, str]]:
        return ()

    # The brief wording, for minds with a small vocabulary of their own (`World.tokens`): the same in a few tokens.

    def brief_propose_prompt(self, request: Request) -> str:
        raise self._no_brief_wording()

    def brief_solve_prompt(self, task: Task) -> str:
        raise self._no_brief_wording()

    def expand_proposal(self, text: str, request: Request) -> str:
        """The proposal that a reply to the brief prompt stands for."""
        raise self._no_brief_wording()

    def expand_answer(self, text: str) -> str:
        """The answer that a reply to the brief prompt stands for."""
        raise self._no_brief_wording()

    def brief_answer(self, task: Task) -> str | None:
        """The reply to the brief prompt that came with a task: an answer which its admission has shown to be right."""
        return None

    def _no_brief_wording(self) -> UserError:
        return UserError(f"tasks of the kind {self.name} have no brief wording: take a player that reads full prompts")


class Library(ABC):
    """What the players that need no model take from a world: hand-written tasks and answers, and random ones."""

    size: ClassVar[int] = 1 << 30  # hand-written proposals, before they begin again; more than there are does no harm

    @abstractmethod
    def proposal(self, request: Request, turn: int) -> str:
        """The hand-written proposal of that number; they begin again when all have been made."""

    @abstractmethod
    def answer(self, task: Task, right: bool, pick: int) -> str:
        """A hand-written answer to a task, as right as it can be, or a wrong one. Where there is a choice, `pick`
        decides."""

    @abstractmethod
    def random_proposal(self, request: Request, rng: np.random.Generator) -> str:
        """A proposal that is right in form."""

    @abstractmethod
    def random_answer(self, task: Task, rng: np.random.Generator) -> str:
        """An answer that is right in form."""


class World(ABC):
    """Decides what is true about tasks. Batched; deterministic given seeds."""

    name: ClassVar[str]
    version: str  # part of every verdict: what must be equal for a replay to be a replay
    kinds: Mapping[str, Kind]
    tokens: Sequence[str] = ()  # all pieces that texts in the brief wording are made of; none: there is no such wording
    alike: Sequence[Sequence[str]] = ()  # rows of such pieces that may change places: all true texts stay true
    suite: Sequence[Task] = ()  # held-out tasks, to measure with; no proposal equal to one is admitted
    library: Library | None = None  # for players without a model; those of the code world bring their own
    hindsight: bool = False  # asked for: let verdicts say which other tasks answers solve
    # Where the predicates of a task's goal stand in its spec, by kind: paths of SQLite's JSON to lists of rows that
    # begin with a name. Solve rates are shown by these names.
    goals: ClassVar[Mapping[str, str]] = {}
    seen: ClassVar[bool] = False  # whether there is something to see of an attempt: `replay`

    @abstractmethod
    def seeds(self) -> list[Task]:
        """The tasks a run starts from."""

    @abstractmethod
    def admit(self, proposals: Sequence[Proposal], seed: int) -> list[Task | Rejection]:
        """A task or a rejection for each proposal, in their order."""

    @abstractmethod
    def judge(self, pairs: Sequence[tuple[Task, Answer]], seed: int) -> list[Verdict]:
        """A verdict for each pair, in their order, whatever else is in the batch."""

    def restate(self, kind: str, spec: Mapping[str, Plain]) -> Proposal:
        """The proposal that makes this task again: how tasks from elsewhere are admitted here, never taken as they are.
        ValueError if the spec is none of this world's."""
        raise ValueError(f"the world {self.name} takes no tasks from elsewhere")

    @classmethod
    def readable(cls, task: Task) -> list[tuple[str, str]]:
        """A task as titled texts, for people; first of all what it is about."""
        return [
            (key, value if isinstance(value, str) else json.dumps(value)) for key, value in task.spec.items() if value
        ]

    def replay(self, task: Task, answer: Answer, seed: int) -> Replay:
        """Judges an answer once more, exactly as with this seed before, and keeps what there is to see of it."""
        raise UserError(f"of an attempt in the world {self.name} there is nothing to see but text")

    def siblings(self, task: Task) -> list[Task]:
        """The same facts asked in other kinds: tasks that need no admission of their own. To be asked for before
        anything else is admitted."""
        return []

    def questions(self, task: Task, answer: Answer) -> list[Proposal]:
        """Proposals that ask what an answer does: where answers are mechanisms, other kinds can ask about them."""
        return []

    def row_of(self, task: Task) -> str:
        """What a held-out task is counted under: its kind, or something that says more."""
        return task.kind

    def sort_of(self, task: Task) -> str:
        """What is asked for, where a kind asks for several things of which some are much rarer than others: learners
        practise them equally. Empty where the kind says it all."""
        return ""

    def kind_of(self, task: Task) -> Kind:
        """The kind of a task: how it is asked. Some kinds are not played, only measured with."""
        return self.kinds[task.kind]

    def rehearsal(self, rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
        """Babble of what has to be found by trying: texts that learners see beside what went well, so that they go on
        to try others."""
        return self.babble(rng, count)

    def babble(self, rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
        """Brief prompts of all kinds and roles with replies that are right in form and random in content: nothing that
        could be learned from them is true of this world."""
        raise UserError(f"the world {self.name} has no brief wording: take a player that reads full prompts")

    def load_suite(self, path: str | Path) -> list[Task]:
        """A user's own tasks to measure with."""
        raise UserError(f"suite={path}: the world {self.name} reads no suites")

    # What is held out, no proposal may ask

    withholds: bool = True  # whether proposals that ask what is held out are refused
    withheld: Sequence[Task] = ()  # what else is held out than the suite: see `withhold`

    @cached_property
    def heldout(self) -> dict[str, str]:
        """What no proposal may share with a held-out task (see Kind.withheld), and that task's id."""
        return self._withheld(self.suite)

    def withhold(self, tasks: Sequence[Task]) -> None:
        """A run is to be measured with these: what they ask is refused from now on. Those of kinds that are not played
        nobody can propose."""
        if self.withholds:
            played = [task for task in tasks if task.kind in self.kinds]
            self.withheld = [*self.withheld, *played]
            self.heldout.update(self._withheld(played))

    def unless_heldout(self, task: Task) -> Task | Rejection:
        """The task, or its rejection where it asks what is held out."""
        if self.withholds:
            for key in self.kinds[task.kind].asks_about(task.spec):
                if key in self.heldout:
                    return Rejection(task.kind, "heldout", f"equal to held-out task {self.heldout[key]}")
        return task

    def asks_heldout(self, prompt: str) -> bool:
        """Whether a solver's brief prompt asks what is held out, once things that are `alike` have changed places."""
        raise UserError(f"the world {self.name} does not say what is held out in other words: set learner.replay to 0")

    def _withheld(self, tasks: Sequence[Task]) -> dict[str, str]:
        return {key: task.id for task in tasks for key in self.kinds[task.kind].withheld(task.spec)}

    # What has worked: a world may let answers build on earlier ones

    def recall_from(self, recall: Callable[[str], str | None]) -> None:  # noqa: B027 - most worlds look back at nothing
        """Says where texts of answers that have solved a task are found, by their content address."""

    def remember(self, judged: Sequence[tuple[Task, Answer, Verdict]]) -> dict[str, float]:
        """Takes note of what a step has shown, once all of it is archived; returns figures of what is known now."""
        return {}

    def state(self) -> dict[str, Plain]:
        """What `load_state` needs to go on exactly; empty for worlds that remember nothing."""
        return {}

    def load_state(self, state: Mapping[str, Plain]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but was given {sorted(state)}")

    def close(self) -> None:  # noqa: B027 - a world that started nothing has nothing to end
        """Ends what the world started: servers, simulators."""
