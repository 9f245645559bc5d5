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
    group: str  # equal for those compared with each other: answers to one task, or all proposals of a kind
    hindsight: bool = False  # sampled for another prompt: to be remembered, not compared
    sort: str = ""  # of task, where its kind has several

    @property
    def shelf(self) -> str:
        """Where it is remembered: each sort of task by itself, so that what rarely succeeds is seen again as often."""
        return f"{self.baseline}/{self.sort}" if self.sort else self.baseline


class Batch:
    """A step's samples as the estimators want them."""

    def __init__(self, graded: Sequence[Graded]) -> None:
        # A reward is for something written: what has no tokens cannot be made likelier.
        graded = [each for each in graded if len(each.generation.tokens)]
        self.generations = [each.generation for each in graded]
        self.names = [each.baseline for each in graded]
        self.shelves = [each.shelf for each in graded]
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
        """Samples in a random order, in parts of about equal size. A group is never divided: the last one of a part
        may take it beyond `size`."""
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
        # Loss and gradient norm of each update. A surrogate and the likelihood of remembered texts have no common mean.
        self.updates: list[tuple[float, float]] = []
        self.replays: list[tuple[float, float]] = []
        self.value_loss = 0.0  # summed over updates; 0 without a critic
        self.gradients: dict[str, float] = {}
        self.moved: list[PolicyFigures] = []
        self.based = False  # whether the base's log-probabilities were asked for
        # By baseline, sums over tokens: how many, their entropy, divergence from the old weights and from the base.
        self.sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)

    def add(
        self, batch: Batch, rows: Sequence[int], scores: Scores, old: Tensor, moved: PolicyFigures, value_loss: float
    ) -> None:
        """What one piece of an update shows."""
        self.moved.append(moved)
        self.value_loss += value_loss
        now, mask = scores.log_probs.detach(), scores.mask
        shown = [mask.sum(1), scores.entropy.detach().masked_fill(~mask, 0.0).sum(1), _divergence(old, now, mask)]
        self.based = bool(batch.base)
        if self.based:
            shown.append(_divergence(now, table([batch.base[at] for at in rows]), mask))
        for at, *figures in zip(rows, *(figure.tolist() for figure in shown), strict=True):
            sums = self.sums[batch.names[at]]
            for which, figure in enumerate(figures):
                sums[which] += figure

    def entropies(self) -> dict[str, float]:
        return {name: total[1] / max(total[0], 1) for name, total in self.sums.items()}

    def figures(self) -> Figures:
        moved = PolicyFigures.joined(self.moved)
        found = {
            **_means("", self.updates),
            "clipped": moved.clipped,
            "kl_old": moved.kl,
            "ratio_max": moved.ratio_max,
        }
        if self.value_loss:
            found["value_loss"] = self.value_loss / len(self.updates)
        if self.replays:
            found |= _means("replay_", self.replays)
        for name, (tokens, _, from_old, from_base) in sorted(self.sums.items()):
            found[f"{name}/kl_old"] = from_old / max(tokens, 1)
            if self.based:
                found[f"{name}/kl_base"] = from_base / max(tokens, 1)
        return found | {f"{name}/grad_norm": norm for name, norm in sorted(self.gradients.items())}


def _means(prefix: str, updates: Sequence[tuple[float, float]]) -> Figures:
    loss, norm = np.mean(updates, axis=0).tolist() if updates else (0.0, 0.0)
    return {f"{prefix}updates": float(len(updates)), f"{prefix}loss": loss, f"{prefix}grad_norm": norm}


def _divergence(drawn: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    """Of each row, the sum over tokens of the divergence of what they were drawn from and another (k3)."""
    distance = (drawn - other).masked_fill(~mask, 0.0)
    return ((-distance).expm1() + distance).sum(1)


def _numbers(labels: Sequence[str]) -> Tensor:
    known: dict[str, int] = {}
    return torch.tensor([known.setdefault(label, len(known)) for label in labels], dtype=torch.long)


def table(rows: Sequence[Tensor]) -> Tensor:
    return nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
