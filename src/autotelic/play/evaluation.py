"""Measures a player on tasks it has not learned from: greedy accuracy, and pass@k from sampled attempts.

The headline is one greedy attempt a task. pass@k is the chance that at least one of k attempts is right; it is
estimated from n attempts of which c are right without bias by 1 - C(n-c, k) / C(n, k) (Chen et al., arXiv 2107.03374,
equation 1). A time limit is a failure here: that an answer takes too long is the answer's fault as a rule.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from autotelic.play.player import Player
from autotelic.runs import seeds
from autotelic.worlds.base import Answer, Task, Verdict, World

CHUNK = 128  # tasks attempted and judged at once: a player fills its batches, and progress is seen

Row = dict[str, Any]  # accuracy, n, outcomes; pass, if attempts were sampled; depth, with a row for each
Progress = Callable[[int], None]  # told the attempts made so far


def evaluate(
    world: World,
    player: Player,
    tasks: Sequence[Task],
    seed: int,
    *,
    samples: int = 0,
    progress: Progress | None = None,
) -> dict[str, Row]:
    """One row a kind, or whatever the world counts a task under, in the order of the tasks: `accuracy` of one greedy
    attempt a task, `n` tasks, the `outcomes` of those attempts by class, and the same by `depth` where tasks say it.
    With `samples` also `pass`: pass@k of so many attempts at the player's own temperature."""

    def told(done: int) -> None:
        if progress is not None:
            progress(done)

    more: list[list[Verdict]] = []
    with player.evaluating():
        first = _judged(world, player, tasks, 1, seed, ("evaluate",), told, greedy=True)
        if samples:
            purpose = ("evaluate", "samples")
            more = _judged(world, player, tasks, samples, seed, purpose, lambda done: told(len(tasks) + done))
    kinds: dict[str, list[int]] = defaultdict(list)
    for at, task in enumerate(tasks):
        kinds[world.row_of(task)].append(at)
    rows: dict[str, Row] = {}
    for kind, members in kinds.items():
        depths: dict[float, list[int]] = defaultdict(list)
        for at in members:
            if "depth" in tasks[at].features:
                depths[tasks[at].features["depth"]].append(at)
        by_depth = {f"{depth:g}": _row(depths[depth], first, more) for depth in sorted(depths)}
        rows[kind] = _row(members, first, more) | {"depth": by_depth}
    return rows


def _judged(
    world: World,
    player: Player,
    tasks: Sequence[Task],
    n: int,
    seed: int,
    purpose: tuple[str, ...],
    told: Progress,
    **how: bool,
) -> list[list[Verdict]]:
    """The n verdicts of each task."""
    rng, judging = seeds.generator(seed, *purpose), seeds.derive(seed, *purpose)
    verdicts: list[list[Verdict]] = []
    for start in range(0, len(tasks), CHUNK):
        chunk = tasks[start : start + CHUNK]
        said = player.attempt(chunk, n, rng, **how)
        pairs = [(chunk[at // n], Answer(sample.text, sample.claim)) for at, sample in enumerate(said)]
        flat = world.judge(pairs, judging)
        verdicts += [flat[at * n : (at + 1) * n] for at in range(len(chunk))]
        told(n * len(verdicts))
    return verdicts


def _row(members: Sequence[int], first: Sequence[Sequence[Verdict]], more: Sequence[Sequence[Verdict]]) -> Row:
    greedy = [first[at][0] for at in members]
    row: Row = {
        "accuracy": fmean(verdict.solved for verdict in greedy),
        "n": len(members),
        "outcomes": dict(sorted(Counter(verdict.outcome for verdict in greedy).items())),
    }
    if more:
        n, solved = len(more[0]), [sum(verdict.solved for verdict in more[at]) for at in members]
        row["pass"] = {str(k): fmean(pass_at_k(n, c, k) for c in solved) for k in ks(n)}
    return row


def pass_at_k(n: int, c: int, k: int) -> float:
    """The unbiased estimate of the chance that one of k attempts is right, from n attempts of which c were right."""
    if not 1 <= k <= n or not 0 <= c <= n:
        raise ValueError(f"pass@{k} of {c} right in {n} attempts")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def ks(samples: int) -> list[int]:
    """The k that are reported: 1, 2, 4, 8 … and the number of samples itself."""
    return sorted({*(1 << power for power in range(samples.bit_length())), samples}) if samples else []


def spread(tasks: Sequence[Task], wanted: int | None) -> list[Task]:
    """So many of the tasks, spread evenly over a suite, which is ordered by kind and depth."""
    if wanted is None or wanted >= len(tasks):
        return list(tasks)
    return [tasks[index * len(tasks) // wanted] for index in range(wanted)]


def figures(rows: Mapping[str, Row], prefix: str = "heldout") -> dict[str, float]:
    """The rows as figures of a step: heldout/KIND, and heldout/KIND/depth/DEPTH where there is more than one."""
    found: dict[str, float] = {}
    for kind, row in rows.items():
        found[f"{prefix}/{kind}"] = row["accuracy"]
        if len(row["depth"]) > 1:
            found |= {f"{prefix}/{kind}/depth/{depth}": part["accuracy"] for depth, part in row["depth"].items()}
    return found


def enter(headline: dict[str, dict[str, Any]], when: str, rows: Mapping[str, Row]) -> None:
    """Enters the rows into a run's headline figures, as they are before or after learning:
    {kind: {"before": …, "after": …, "n": …, "depth": {"1": {"before": …, "after": …}, …}}}."""
    for kind, row in rows.items():
        known = headline.setdefault(kind, {})
        known |= {when: row["accuracy"], "n": row["n"]}
        for depth, part in row["depth"].items():
            known.setdefault("depth", {}).setdefault(depth, {})[when] = part["accuracy"]
