"""Players propose tasks and attempt them; some of them learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from autotelic.errors import UserError
from autotelic.worlds.base import Request, Task, Verdict, World

Metrics = dict[str, float]


@dataclass(frozen=True)
class Sample:
    """What a player produced. `trace` is opaque: tokens and log-probabilities that only its own learner reads."""

    role: str  # "propose", "solve", or "criticise": what a solver says of an answer of its own before it is judged
    kind: str
    text: str
    task: str | None = None  # id of the task attempted; None for a proposal
    trace: Mapping[str, Any] = field(default_factory=dict)
    claim: bool | None = None
    parent: str | None = None  # the content address of the answer that this one retries, or criticises
    hindsight: bool = False  # said to another task than the one it is now an answer to
    sort: str = ""  # of the task that it made or is for (`World.sort_of`); the loop says it


class Player(ABC):
    """Proposes and attempts. Samples come back in the order of the requests; attempts task by task, n for each."""

    name: ClassVar[str]
    reads: bool = False  # whether it can be told what was wrong with an answer, and asked what it thinks of one
    exact: bool = True  # whether equal seeds give equal samples; False where something outside decides
    seed: int = 0  # of the run, by role; the loop says it: what is drawn while learning follows from it

    def __init__(self, config: Any, world: World) -> None:
        self.config = config
        self.world = world

    @abstractmethod
    def propose(self, requests: Sequence[Request], rng: np.random.Generator) -> list[Sample]:
        """One proposal a request."""

    @abstractmethod
    def attempt(self, tasks: Sequence[Task], n: int, rng: np.random.Generator, greedy: bool = False) -> list[Sample]:
        """n answers a task. Greedy ones are the player's best guess instead of a sample, where it knows the difference;
        n is then 1."""

    def retry(self, failed: Sequence[tuple[Task, Sample, Verdict]], rng: np.random.Generator) -> list[Sample]:
        """Another answer in place of each that failed, after its verdict was read. Only of players that read."""
        raise UserError(f"the player {self.name} reads no verdicts: set loop.retries=0")

    def criticise(self, answered: Sequence[tuple[Task, Sample]], rng: np.random.Generator) -> list[Sample]:
        """What the player thinks of answers of its own, each with a claim where it says yes or no. Only of players that
        read."""
        raise UserError(f"the player {self.name} has no opinion of its answers: set loop.critiques=0")

    def evaluating(self) -> AbstractContextManager[None]:
        """Around attempts that measure the player: one with better weights than those it learns with uses them."""
        return nullcontext()

    def relabel(self, sample: Sample, task: Task) -> Sample | None:
        """An answer as one to another task, which it happens to solve. None from players that cannot learn from it."""
        return None

    def recite(self, task: Task) -> Sample | None:
        """The answer that came with a task, as if the player had given it. None from players that cannot learn from it,
        and where none came."""
        return None

    def learn(self, graded: Sequence[tuple[Sample, float]]) -> Metrics:
        """Changes weights from (sample, reward) pairs. Players without weights learn nothing."""
        return {}

    def state(self) -> dict[str, Any]:
        """Tensors and plain data that `load_state` needs to go on exactly; empty for players without memory."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but was given {sorted(state)}")

    def close(self) -> None:  # noqa: B027 - a player that holds nothing has nothing to give back
        """Gives back what the player holds: connections, memory."""
