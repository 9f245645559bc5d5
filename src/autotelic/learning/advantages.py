"""How much better a sample was than what it is compared with: the estimators differ in the comparison only.

Every function takes `(rewards, baselines, groups)`, all [B], and gives advantages [B]. `baselines` numbers what a
sample was asked for (role x kind: six in self-play), `groups` the samples that are alike enough to be compared one by
one (answers to one task, or the proposals of a kind); any integers do. A sequence counts once, however many tokens it
has: standardising token by token would let long answers decide the mean they are compared with.

A set (a baseline, a group, the batch) whose rewards are all equal teaches nothing and gets advantage exactly 0. That is
decided by the spread of its rewards, not by adding an epsilon to the standard deviation: the mean of equal rewards is
often not quite that reward (ten times 0.1), and dividing that rounding error by its own size would train on noise.
The published implementations add 1e-8 to 1e-4 to the deviation or its square; none is added here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor

Aggregate = Literal["token", "sequence", "constant"]

# Rewards closer than this (relative to their size, if that is above 1) are equal: float32 has seven digits.
SAME = 1e-6


@dataclass(frozen=True)
class Estimator:
    advantages: Callable[[Tensor, Tensor, Tensor], Tensor]
    aggregate: Aggregate  # how its published loss joins tokens; see `losses.aggregate_terms`


@dataclass(frozen=True)
class _Sets:
    """Rewards seen set by set: tensors are [number of sets], in the order of the sets' numbers; `of` is [B]."""

    of: Tensor  # the set of each sample
    size: Tensor
    mean: Tensor
    varies: Tensor  # bool: whether its rewards differ

    @classmethod
    def split(cls, rewards: Tensor, labels: Tensor) -> _Sets:
        numbers, of = torch.unique(labels, return_inverse=True)
        empty = rewards.new_zeros(len(numbers))
        size = empty.index_add(0, of, torch.ones_like(rewards))
        mean = empty.index_add(0, of, rewards) / size
        lowest = empty.scatter_reduce(0, of, rewards, "amin", include_self=False)
        highest = empty.scatter_reduce(0, of, rewards, "amax", include_self=False)
        largest = torch.maximum(lowest.abs(), highest.abs()).clamp(min=1.0)
        # Negated, so that a reward that is not a number makes its set vary and shows up in the loss.
        varies = ~(highest - lowest <= SAME * largest)
        return cls(of, size, mean, varies)

    def centred(self, rewards: Tensor) -> Tensor:
        return torch.where(self.varies[self.of], rewards - self.mean[self.of], 0.0)


def zero_variance(rewards: Tensor, groups: Tensor) -> Tensor:
    """Which groups have rewards that are all equal: bool [number of groups], in the order of the groups' numbers.

    A group of one sample is not such a group: it has nothing to differ from, and says nothing about the task.
    """
    sets = _Sets.split(rewards, groups)
    return ~sets.varies & (sets.size > 1)


def _standardised(rewards: Tensor, labels: Tensor, *, correction: int) -> Tensor:
    """(r - mean) / std in each set, where the variance is the sum of squares / (n - correction)."""
    sets = _Sets.split(rewards, labels)
    centred = sets.centred(rewards)
    squares = torch.zeros_like(sets.mean).index_add(0, sets.of, centred**2)
    std = (squares / (sets.size - correction)).sqrt()
    return torch.where(sets.varies[sets.of], centred / std[sets.of], 0.0)


def trr(rewards: Tensor, baselines: Tensor, groups: Tensor) -> Tensor:
    """TRR++: (r - mean) / std in each baseline, with the sample deviation (n - 1) that its reference whitens with."""
    return _standardised(rewards, baselines, correction=1)


def reinforce(rewards: Tensor, baselines: Tensor, groups: Tensor) -> Tensor:
    """REINFORCE++: (r - mean) / std over the batch, with the population deviation (n) of its authors' code."""
    return _standardised(rewards, torch.zeros_like(groups), correction=0)


def grpo(rewards: Tensor, baselines: Tensor, groups: Tensor) -> Tensor:
    """GRPO: (r - mean) / std in each group, with the sample deviation (n - 1) its common implementations use."""
    return _standardised(rewards, groups, correction=1)


def dr_grpo(rewards: Tensor, baselines: Tensor, groups: Tensor) -> Tensor:
    """Dr. GRPO: r - mean of the group. Not divided by the deviation, which would favour tasks almost always solved or
    almost never."""
    return _Sets.split(rewards, groups).centred(rewards)


def rloo(rewards: Tensor, baselines: Tensor, groups: Tensor) -> Tensor:
    """RLOO: r - mean of the others of the group, which is n / (n - 1) times r - mean of the group.

    A sample alone in its group has no others: advantage 0, as without comparison its reward says nothing.
    """
    sets = _Sets.split(rewards, groups)
    scale = sets.size / (sets.size - 1).clamp(min=1.0)
    return sets.centred(rewards) * scale[sets.of]


def maximum_likelihood(rewards: Tensor, baselines: Tensor, groups: Tensor) -> Tensor:
    """(r - mean) / mean in each group, where what is below 0 counts as 0: with the rewards of wrong and unreadable
    answers below 0 and that of right ones 1, (r - p) / p with p the share solved.

    Its gradient is that of log p instead of p: the log-likelihood of a right answer. A policy that cannot tell tasks
    apart yet then learns how often each answer is right, while the best it could do for p itself is to say the
    commonest answer always, from which nothing is learned any more.
    """
    earned = rewards.clamp(min=0.0)
    sets = _Sets.split(earned, groups)
    return torch.where(sets.varies[sets.of], sets.centred(earned) / sets.mean[sets.of], 0.0)


def self_imitation(rewards: Tensor, baselines: Tensor, groups: Tensor) -> Tensor:
    """Self-imitation: (r - mean of the group), and 0 where that is negative. What went well is made likelier; what
    went badly is not pushed away, which from a poor start only moves weight between wrong answers."""
    return _Sets.split(rewards, groups).centred(rewards).clamp(min=0.0)


ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {
        "trr++": Estimator(trr, "token"),
        "reinforce++": Estimator(reinforce, "token"),
        "grpo": Estimator(grpo, "sequence"),
        "dr-grpo": Estimator(dr_grpo, "constant"),
        # An answer is one action there, its log-probability a sum over tokens: a mean over tokens would change that.
        "rloo": Estimator(rloo, "constant"),
        "maxrl": Estimator(maximum_likelihood, "token"),
        "sil": Estimator(self_imitation, "sequence"),
    }
)
