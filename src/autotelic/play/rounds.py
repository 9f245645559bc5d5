"""A round of proposals and one of attempts, and what each sample of them earns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotelic.play import rewards
from autotelic.play.player import Sample
from autotelic.play.rewards import RewardConfig
from autotelic.worlds.base import Rejection, Request, Task, Verdict

Pay = list[float | None]  # a reward a sample; None where nothing can be said, and nothing is learned


@dataclass(frozen=True)
class Proposed:
    """A round of proposals, in the order of the requests."""

    requests: list[Request]
    samples: list[Sample]
    results: list[Task | Rejection]
    siblings: Sequence[Task] = ()  # what else the new tasks give to ask

    def tasks(self, kind: str) -> list[Task]:
        """The tasks of a kind that were proposed and admitted."""
        return [result for result in self.results if isinstance(result, Task) and result.kind == kind]


@dataclass(frozen=True)
class Attempted:
    """A round of attempts: n samples a task, then those that were retried; one verdict a sample."""

    tasks: Sequence[Task] = ()
    samples: Sequence[Sample] = ()
    verdicts: Sequence[Verdict] = ()
    critiques: Sequence[Sample] = ()  # what the solver thought of some of them
    practised: Sequence[Task] = ()  # those of the tasks that the curriculum chose from the archive
    questions: Sequence[Task] = ()  # that some of the answers gave to ask


def solve_counts(attempted: Attempted) -> dict[str, tuple[int, int]]:
    """Solved and counted attempts of each task; what is no evidence is in neither, nor is a retry: how hard a task is,
    its first answers say."""
    counts = {task.id: (0, 0) for task in attempted.tasks}
    for sample, verdict in zip(attempted.samples, attempted.verdicts, strict=True):
        if verdict.evidence and sample.task is not None and sample.parent is None:
            solved, n = counts[sample.task]
            counts[sample.task] = (solved + verdict.solved, n + 1)
    return counts


def proposer_pay(proposed: Proposed, attempted: Attempted, config: RewardConfig) -> Pay:
    """Of a task that a batch had no room for nothing is known."""
    rates = solve_counts(attempted)
    pay: Pay = []
    for request, result in zip(proposed.requests, proposed.results, strict=True):
        if isinstance(result, Rejection):
            reward = rewards.proposer_reward(result.outcome != "format", False, config=config)
            pay.append(None if result.outcome == "lost" else reward)  # what the judge lost is nobody's fault
            continue
        if result.id not in rates:
            pay.append(None)
            continue
        distances = [rewards.feature_distance(result.features, task.features) for task in request.references]
        reward = rewards.proposer_reward(
            True,
            True,
            rewards.learnability(*rates[result.id], config),
            rewards.complexity(result.features, config.complexity_half),
            rewards.diversity(distances),
            config,
        )
        pay.append(reward)
    return pay


def solver_pay(attempted: Attempted, config: RewardConfig) -> Pay:
    """A time limit says nothing about the task, but it is paid as a wrong answer: if it were free, a solver would
    learn to take its time instead of being wrong."""
    return [
        rewards.composite_reward(verdict.solved, verdict.outcome != "format", config)
        if verdict.evidence or verdict.outcome == "limit"
        else None
        for verdict in attempted.verdicts
    ]


def graded(samples: Sequence[Sample], pay: Pay) -> list[tuple[Sample, float]]:
    return [(sample, reward) for sample, reward in zip(samples, pay, strict=True) if reward is not None]
