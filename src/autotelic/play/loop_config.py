"""The settings of the self-play loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotelic import registry
from autotelic.errors import UserError
from autotelic.play.active import STRATEGIES
from autotelic.play.curriculum.ladder import RUNGS, LadderConfig
from autotelic.worlds.base import KINDS, World

_LEAST = {
    "batch": 1,
    "attempts": 1,
    "references": 0,
    "seeding": 0,
    "recent": 0,
    "retries": 0,
    "retry_budget": 0,
    "critiques": 0,
    "questions": 0,
}


@dataclass(frozen=True)
class LoopConfig:
    batch: int = 16  # tasks a kind and step that are attempted
    proposals: int | None = None  # proposals a kind and step, if fewer than that; the archive fills up the batch
    proposals_at: dict[str, int] = field(default_factory=dict)  # proposals of the kinds named, where not as many
    attempts: int = 8  # attempts a task: they measure its difficulty, and they are learned from
    attempts_at: dict[str, int] = field(default_factory=dict)  # attempts at tasks of the kinds named, where not as many
    references: int = 6  # tasks a proposer is shown
    seeding: int = 4  # batches a kind that step 0 fills the archive with
    practice: str = "uniform"  # how a batch is filled up from the archive: uniform, recent or learnable
    retries: int = 0  # times that a failed answer may be tried again, after its verdict was read
    retry_budget: int = 64  # such tries a kind and step, at most
    critiques: int = 0  # answers a kind and step of which the solver is asked, before they are judged, what it thinks
    hindsight: bool = False  # learn from answers as from right ones to other tasks that they happen to solve
    questions: int = 0  # answers a step that other kinds of tasks are made of: what do they do?
    # Share of attempts that should fail, told to the proposer: a number, or easy, medium, hard as the ladder has them.
    difficulty: float | str | None = None
    recent: int = 8  # ids of the newest tasks, told to the proposer
    tasks: str | None = None  # an exported archive (JSON lines) whose tasks step 0 proposes to this world again

    def __post_init__(self) -> None:
        if self.proposals is not None and self.proposals < 1:
            raise ValueError(f"loop.proposals is {self.proposals}; it must be at least 1")
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"loop.{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("proposals_at", "attempts_at"):
            for kind, many in getattr(self, name).items():
                if many < 1:
                    raise ValueError(f"loop.{name}.{kind} is {many}; it must be at least 1")
        if self.practice not in STRATEGIES:
            raise ValueError(f"loop.practice is {self.practice!r}; known are {', '.join(STRATEGIES)}")
        if isinstance(self.difficulty, str) and self.difficulty not in RUNGS:
            raise ValueError(f"loop.difficulty is '{self.difficulty}': {', '.join(RUNGS)}, or a number from 0 to 1")
        if self.wanted is not None and not 0 <= self.wanted <= 1:
            raise ValueError(f"loop.difficulty is {self.difficulty}; it must be 0 to 1")

    @property
    def wanted(self) -> float | None:
        """The difficulty as a number."""
        return float(getattr(LadderConfig, self.difficulty)) if isinstance(self.difficulty, str) else self.difficulty

    def asked_for(self, kind: str) -> int:
        """Proposals of a kind and step."""
        return self.proposals_at.get(kind, min(self.proposals or self.batch, self.batch))

    def check_kinds(self, world: World) -> None:
        """Whether all kinds that are named are this world's, or one of those that every world may have."""
        known = [*world.kinds, *(kind for kind in KINDS if kind not in world.kinds)]
        for name in ("proposals_at", "attempts_at"):
            if strange := [kind for kind in getattr(self, name) if kind not in known]:
                raise UserError(f"loop.{name}.{strange[0]}: no such kind; {registry.nearest(strange[0], known)}")
