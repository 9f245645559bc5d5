"""What a step of self-play shows of itself: shares, rates and counts, by role and kind; and the cheating ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from autotelic.play import rewards
from autotelic.play.curriculum import Outcome
from autotelic.play.player import Sample
from autotelic.play.rounds import Attempted, Pay, Proposed, solve_counts
from autotelic.runs.files import content_address
from autotelic.worlds.base import Rejection, Request, Task, Verdict

# How each class that a world may report is entered in the ledger.
_LEDGER = {"forged": "forged_results", "forbidden": "forbidden_calls", "escape": "escapes_attempted"}
FADING = 0.8  # of attempts in what proposers are told of them, from one step to the next
_FORGOTTEN = 0.5  # attempts, faded, of which nothing is told any more
NO_CHEATING = {"forged_results": 0, "false_claims": 0, "forbidden_calls": 0, "escapes_attempted": 0}


def _entries(proposed: Proposed, attempted: Attempted) -> Iterator[tuple[str, str, str]]:
    """Role, kind and ledger entry of everything that was tried instead of the task, by proposals and by answers."""
    for result in proposed.results:
        if isinstance(result, Rejection) and result.outcome in _LEDGER:
            yield "propose", result.kind, _LEDGER[result.outcome]
    for sample, verdict in zip(attempted.samples, attempted.verdicts, strict=True):
        if verdict.outcome in _LEDGER:
            yield "solve", sample.kind, _LEDGER[verdict.outcome]
        # What a controller returned is found out when it is run, and may differ from start to start: the world says
        # beside the verdict whether any of it was false.
        if (sample.claim is True and not verdict.solved) or verdict.metrics.get("claimed_falsely") == 1.0:
            yield "solve", sample.kind, "false_claims"


def cheating(proposed: Proposed, attempted: Attempted) -> dict[str, int]:
    """The ledger of a step."""
    return NO_CHEATING | Counter(entry for _, _, entry in _entries(proposed, attempted))


def cheating_by_role(proposed: Proposed, attempted: Attempted) -> dict[str, float]:
    """ROLE/KIND/cheating/ENTRY, where there is any. In abduction the program that ran is the task's own."""
    counts = Counter(f"{role}/{kind}/cheating/{entry}" for role, kind, entry in _entries(proposed, attempted))
    return {name: float(count) for name, count in sorted(counts.items())}


def outcomes(attempted: Attempted) -> list[Outcome]:
    """What the step says of each task, for the curriculum; tasks without evidence are not among them."""
    counts, came = solve_counts(attempted), defaultdict[str, list[float]](list)
    for sample, verdict in zip(attempted.samples, attempted.verdicts, strict=True):
        if verdict.evidence and sample.task is not None and sample.parent is None:
            came[sample.task].append(verdict.progress)
    tasks = {task.id: task for task in attempted.tasks}
    return [Outcome(tasks[id], solved, n, fmean(came[id])) for id, (solved, n) in counts.items() if n]


def lately(
    known: Mapping[str, Sequence[float]], attempted: Attempted, sort_of: Callable[[Task], str]
) -> dict[str, list[float]]:
    """By "kind/sort", attempts that succeeded and all of them: those known, which fade, and this step's."""
    faded = {name: [FADING * count for count in both] for name, both in known.items()}
    counts = {name: both for name, both in faded.items() if both[1] > _FORGOTTEN}
    for outcome in outcomes(attempted):
        both = counts.setdefault(f"{outcome.task.kind}/{sort_of(outcome.task)}", [0.0, 0.0])
        both[0] += outcome.solved
        both[1] += outcome.attempts
    return counts


def rates(counts: Mapping[str, Sequence[float]], kind: str) -> dict[str, float]:
    """The share that succeeded, of each sort of a kind."""
    found = (name.partition("/") for name in counts)
    return {sort: counts[f"{kind}/{sort}"][0] / counts[f"{kind}/{sort}"][1] for of, _, sort in found if of == kind}


def wanted(requests: Sequence[Request], practised: Sequence[Task]) -> dict[str, float]:
    """What the curriculum asked for, by kind: KIND/difficulty, KIND/wanted/FEATURE, KIND/practised, and the features of
    what it chose to practise, KIND/practised/FEATURE."""
    figures: dict[str, float] = {}
    for kind in dict.fromkeys(request.kind for request in requests):
        asked = [request for request in requests if request.kind == kind]
        hard = (request.difficulty for request in asked if request.difficulty is not None)
        figures |= _mean(f"{kind}/difficulty", hard)
        for name in sorted({name for request in asked for name in request.wanted}):
            found = (request.wanted[name] for request in asked if name in request.wanted)
            figures |= _mean(f"{kind}/wanted/{name}", found)
        again = [task for task in practised if task.kind == kind]
        figures[f"{kind}/practised"] = float(len(again))
        for name in sorted({name for task in again for name in task.features}):
            figures |= _mean(f"{kind}/practised/{name}", (task.features.get(name, 0.0) for task in again))
    return figures


def step_figures(
    proposed: Proposed, attempted: Attempted, reward: rewards.RewardConfig, kinds: Iterable[str]
) -> dict[str, float]:
    """One flat dict: propose/KIND/…, solve/KIND/…"""
    figures: dict[str, float] = {}
    counts = solve_counts(attempted)
    for kind in kinds:
        results = [result for result in proposed.results if result.kind == kind]
        if results:
            figures |= _proposals(f"propose/{kind}", results)
        judged = [
            verdict
            for sample, verdict in zip(attempted.samples, attempted.verdicts, strict=True)
            if sample.kind == kind
        ]
        if judged:
            new = proposed.tasks(kind)
            tasks = [task for task in attempted.tasks if task.kind == kind]
            figures |= _attempts(f"solve/{kind}", judged)
            tried = [task for task in new if task.id in counts]
            figures[f"solve/{kind}/new_tasks"] = float(len(tried))
            figures |= _difficulty(f"propose/{kind}", tried, counts, reward)
            figures |= _difficulty(f"solve/{kind}", tasks, counts, reward) | _features(f"solve/{kind}", tasks)
            figures |= _second_looks(f"solve/{kind}", kind, attempted)
    return figures


def _second_looks(prefix: str, kind: str, attempted: Attempted) -> dict[str, float]:
    """How many retries succeeded, and how often a critique was right about what came of its answer."""
    judged = [pair for pair in zip(attempted.samples, attempted.verdicts, strict=True) if pair[0].kind == kind]
    again = [float(verdict.solved) for sample, verdict in judged if sample.parent is not None]
    figures = {f"{prefix}/retries": float(len(again))} | _mean(f"{prefix}/retry_solve_rate", again) if again else {}
    came = {(sample.task, content_address(sample.text)): verdict.solved for sample, verdict in judged}
    thought = [sample for sample in attempted.critiques if sample.kind == kind and sample.claim is not None]
    right = (float(sample.claim == came[sample.task, sample.parent or ""]) for sample in thought)
    return figures | _mean(f"{prefix}/critiques_right", right)


def _difficulty(
    prefix: str, tasks: Sequence[Task], counts: Mapping[str, tuple[int, int]], reward: rewards.RewardConfig
) -> dict[str, float]:
    """How hard tasks are as the attempts at them measured it."""
    solved, attempts = (sum(counts[task.id][at] for task in tasks) for at in (0, 1))
    figures = {f"{prefix}/solve_rate": solved / attempts} if attempts else {}
    worth = (rewards.learnability(*counts[task.id], reward) for task in tasks)
    return figures | _mean(f"{prefix}/learnability", (value for value in worth if value is not None))


def _features(prefix: str, tasks: Sequence[Task]) -> dict[str, float]:
    """How hard tasks look: the mean of all that describes them."""
    figures: dict[str, float] = {}
    for name in sorted({name for task in tasks for name in task.features}):
        figures |= _mean(f"{prefix}/feature/{name}", (task.features.get(name, 0.0) for task in tasks))
    return figures


def mean_pay(role: str, samples: Sequence[Sample], pay: Pay) -> dict[str, float]:
    """ROLE/KIND/reward: what the samples of a kind earned on average."""
    earned: dict[str, list[float]] = defaultdict(list)
    for sample, reward in zip(samples, pay, strict=True):
        if reward is not None:
            earned[f"{role}/{sample.kind}/reward"].append(reward)
    return {name: fmean(values) for name, values in earned.items()}


def _proposals(prefix: str, results: Sequence[Task | Rejection]) -> dict[str, float]:
    tasks = [result for result in results if isinstance(result, Task)]
    refused = Counter(result.outcome for result in results if isinstance(result, Rejection))
    figures = {f"{prefix}/valid_share": len(tasks) / len(results)}
    figures[f"{prefix}/duplicate_share"] = refused["duplicate"] / len(results)
    figures |= {f"{prefix}/rejected/{outcome}": float(count) for outcome, count in sorted(refused.items())}
    return figures | _features(prefix, tasks)


def _attempts(prefix: str, verdicts: Sequence[Verdict]) -> dict[str, float]:
    evidence = [verdict for verdict in verdicts if verdict.evidence]
    figures = {f"{prefix}/evidence_share": len(evidence) / len(verdicts)}
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    return figures | {f"{prefix}/outcome/{outcome}": float(count) for outcome, count in sorted(outcomes.items())}


def _mean(name: str, values: Iterable[float]) -> dict[str, float]:
    """A figure by its name; none where there is nothing to take the mean of."""
    found = list(values)
    return {name: fmean(found)} if found else {}
