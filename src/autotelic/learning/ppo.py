"""PPO's loss for networks that act, piece by piece, and the rules its learning rate follows. Tensors are [batch].

Old log-probabilities, old values, advantages and returns are constants: they carry no gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from autotelic.learning import parallel
from autotelic.learning.losses import clipped_error, clipped_surrogate
from autotelic.learning.moments import moments

# Bounds of the adaptive learning rate, its factor, and how far KL may be from its target before it acts.
SLOWEST, FASTEST, FACTOR, LEEWAY = 1e-5, 1e-2, 1.5, 2.0


def surrogate_loss(
    log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The mean clipped surrogate, the share of the batch whose gradient the clip took away, and the largest ratio."""
    log_ratio = log_prob - old_log_prob
    terms, clipped = clipped_surrogate(log_ratio, advantages, clip_low, clip_high)
    return terms.mean(), clipped.to(terms.dtype).mean(), log_ratio.detach().max().exp()


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float) -> Tensor:
    """Half the mean squared error; with `clip` above 0, of values held near the old ones."""
    return clipped_error(values, old_values, returns, clip)[0].mean()


def mirror_loss(means: Tensor, mirrored: Tensor) -> Tensor:
    """Mean squared distance between what is done in the mirror and the mirror image of what is done: [batch, size]."""
    return (means - mirrored).square().mean()


@torch.no_grad()
def sampled_kl(log_prob: Tensor, old_log_prob: Tensor) -> Tensor:
    """KL(old || new) estimated on decisions of old (k3: ratio - 1 - log ratio, never negative, right on average)."""
    log_ratio = log_prob - old_log_prob
    return (log_ratio.expm1() - log_ratio).mean()


@torch.no_grad()
def normalised(advantages: Tensor) -> Tensor:
    """Less their mean, over their deviation, both over all processes."""
    if parallel.processes() == 1:
        variance, mean = torch.var_mean(advantages, correction=0)
        return (advantages - mean) / (variance.sqrt() + 1e-8)
    count, mean, squares = moments(advantages)
    std = (squares / count).sqrt()
    return (advantages - mean.to(advantages.dtype)) / (std.to(advantages.dtype) + 1e-8)


def explained_variance(values: Tensor, returns: Tensor) -> Tensor:
    """1: values were what came; 0: no better than one number for all; nan where all returns are equal."""
    spread = returns.var(correction=0)
    return torch.where(spread > 0, 1 - (returns - values).var(correction=0) / spread, torch.nan)


def adapted(lr: float, kl: float, target: float) -> float:
    """The learning rate after an update that moved the policy by `kl`: slower if too far, faster if hardly at all."""
    # One that was set beyond a bound stays there: slowing down never makes it faster.
    if kl > LEEWAY * target:
        return min(lr, max(lr / FACTOR, SLOWEST))
    if kl < target / LEEWAY:
        return max(lr, min(lr * FACTOR, FASTEST))
    return lr


def annealed(lr: float, progress: float) -> float:
    """The linear schedule: what is left of the learning rate when `progress` of a run (0 to 1) is done."""
    return lr * (1.0 - progress)
