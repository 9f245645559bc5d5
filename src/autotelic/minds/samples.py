"""What one step's samples are to a learner, and what its updates show of themselves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from autotelic.learning.advantages import zero_variance
from autotelic.learning.losses import PolicyFigures
from autotelic.minds.base import Generation, Scores

Figures = dict[str, float]


@dataclass(frozen=True)
class Graded:
    """A generation and what it earned."""

    generation: Generation
    reward: float
    baseline: str  # what was asked for: a role and a kind, such as solve/deduction
    group: str  # equal for generations that answer the same prompt
    hindsight: bool = False  # sampled for another prompt: to be remembered, not compared


class Batch:
    """A step's samples as the estimators want them."""

    def __init__(self, graded: Sequence[Graded]) -> None:
        # A reward is for something written: what has no tokens cannot be made likelier.
        graded = [each for each in graded if len(each.generation.tokens)]
        self.generations = [each.generation for each in graded]
        self.names = [each.baseline for each in graded]
        self.rewards = torch.tensor([each.reward for each in graded], dtype=torch.float32)
        self.baselines = _numbers(self.names)
        self.groups = _numbers([f"{each.baseline} {each.group}" for each in graded])
        self.lengths = [len(generation.tokens) for generation in self.generations]
        # What is known of each sample, a tensor as long as the answer; empty where it was not asked for.
        self.old: dict[int, Tensor] = {}
        self.base: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        self.returns: dict[int, Tensor] = {}
        self.advantages: dict[int, Tensor] = {}
        self.teaching = set(range(len(graded)))  # the samples that updates look at

    def enter(self, into: dict[int, Tensor], positions: Iterable[int], rows: Tensor) -> None:
        for at, row in zip(positions, rows, strict=True):
            into[at] = row[: self.lengths[at]]

    def __len__(self) -> int:
        return len(self.generations)

    def fold(self) -> None:
        """One sample stands for all of its group with the same text and advantage; those with advantage 0 for none."""
        equal: dict[tuple[int, bytes, bytes, float], list[int]] = defaultdict(list)
        for at, (group, generation) in enumerate(zip(self.groups.tolist(), self.generations, strict=True)):
            advantage = float(self.advantages[at][0])
            equal[group, generation.prompt.tobytes(), generation.tokens.tobytes(), advantage].append(at)
        self.teaching = set()
        for (*_, advantage), members in equal.items():
            if advantage:
                self.teaching.add(members[0])
                self.advantages[members[0]] = self.advantages[members[0]] * len(members)

    def by_baseline(self, part: Iterable[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for at in part:
            found[self.names[at]].append(at)
        return dict(found)

    def minibatches(self, size: int, rng: np.random.Generator) -> list[list[int]]:
        """Samples in a random order, groups kept together: parts of about equal size, `size` or less."""
        groups: dict[int, list[int]] = defaultdict(list)
        for at, group in enumerate(self.groups.tolist()):
            groups[group].append(at)
        shuffled = [groups[number] for number in rng.permutation(len(groups)).tolist()]
        count = max(1, math.ceil(len(self) / size))
        parts: list[list[int]] = [[] for _ in range(count)]
        done = 0
        for members in shuffled:
            parts[min(done * count // max(len(self), 1), count - 1)].extend(members)
            done += len(members)
        return [part for part in parts if part]

    def figures(self) -> Figures:
        """Lengths, the entropy as the samples themselves estimate it, and how many groups teach nothing because all
        their samples earned the same."""
        found: Figures = {}
        for name, members in sorted(self.by_baseline(range(len(self))).items()):
            said = [self.generations[at] for at in members]
            found[f"{name}/length"] = float(np.mean([len(generation.tokens) for generation in said]))
            found[f"{name}/finished"] = float(np.mean([generation.finished for generation in said]))
            found[f"{name}/entropy"] = -float(np.concatenate([generation.log_probs for generation in said]).mean())
            chosen = torch.tensor(members)
            flat = zero_variance(self.rewards[chosen], self.groups[chosen])
            found[f"{name}/zero_variance_groups"] = float(flat.sum())
            found[f"{name}/groups"] = float(len(flat))
        return found


class Tally:
    """What a step's updates show of themselves."""

    def __init__(self) -> None:
        self.norms: list[float] = []
        self.gradients: dict[str, float] = {}
        self.loss = 0.0
        self.losses: list[float] = []
        self.replayed: list[float] = []
        self.moved: list[PolicyFigures] = []
        self.sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])  # tokens, entropy, divergence

    def add(
        self,
        batch: Batch,
        rows: Sequence[int],
        scores: Scores,
        moved: PolicyFigures,
        loss: float,
    ) -> None:
        self.loss = loss
        self.losses.append(loss)
        self.moved.append(moved)
        entropy = scores.entropy.detach().masked_fill(~scores.mask, 0.0).sum(1).tolist()
        tokens = scores.mask.sum(1).tolist()
        away = [0.0] * len(rows)
        if batch.base:
            base = table([batch.base[at] for at in rows])
            distance = (scores.log_probs.detach() - base).masked_fill(~scores.mask, 0.0)
            away = ((-distance).expm1() + distance).sum(1).tolist()
        for at, many, disorder, far in zip(rows, tokens, entropy, away, strict=True):
            total = self.sums[batch.names[at]]
            total[0] += many
            total[1] += disorder
            total[2] += far

    def replay(self, loss: float) -> None:
        self.loss = loss
        self.replayed.append(loss)

    def entropies(self) -> dict[str, float]:
        return {name: total[1] / max(total[0], 1) for name, total in self.sums.items()}

    def figures(self) -> Figures:
        moved = PolicyFigures.joined(self.moved)
        found = {
            "updates": float(len(self.norms)),
            "loss": sum(self.losses) / max(len(self.norms), 1),
            "grad_norm": float(np.mean(self.norms)) if self.norms else 0.0,
            "clipped": moved.clipped,
            "kl_old": moved.kl,
            "ratio_max": moved.ratio_max,
        }
        if self.replayed:
            found["replay_loss"] = float(np.mean(self.replayed))
        for name, total in sorted(self.sums.items()):
            if total[2]:
                found[f"{name}/kl_base"] = total[2] / total[0]
        return found | {f"{name}/grad_norm": norm for name, norm in sorted(self.gradients.items())}


def _numbers(labels: Sequence[str]) -> Tensor:
    known: dict[str, int] = {}
    return torch.tensor([known.setdefault(label, len(known)) for label in labels], dtype=torch.long)


def table(rows: Sequence[Tensor]) -> Tensor:
    return nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
