"""Losses of policy-gradient learning on language models. Tensors are [B, T]: a row a sequence, then padding.

Padding (mask False) adds nothing to a value or a gradient, whatever it holds. A row that is all padding is no sequence.

An update is split into pieces that fit in memory, and its gradient is the sum of theirs. So every loss is divided by
`total`, the `size` of the whole minibatch, not of the piece: the pieces' losses then add up to the loss of the whole.
Without `total` the call is the whole. `aggregate` says how tokens are joined:

    token      sum over all tokens / tokens: every token weighs the same
    sequence   sum over sequences of their mean over tokens / sequences: every answer weighs the same
    constant   sum over all tokens / constant / sequences: the weight of a token depends on the length of no answer

Figures are plain numbers, means over the tokens of the call: weigh them by tokens to join those of pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from autotelic.learning.advantages import Aggregate


class PolicyFigures(NamedTuple):
    """How far the policy has moved from the one that is remembered as old."""

    tokens: int
    clipped: float  # share of tokens whose gradient the clip took away
    kl: float  # from old to new, estimated on tokens of old (k3: never negative)
    ratio: float  # mean of new / old probability
    ratio_max: float

    @classmethod
    def joined(cls, pieces: Sequence[PolicyFigures]) -> PolicyFigures:
        """The figures of the whole, from those of its pieces."""
        tokens = sum(piece.tokens for piece in pieces)
        clipped, kl, ratio = (
            sum(piece.tokens * piece[field] for piece in pieces) / max(tokens, 1) for field in range(1, 4)
        )
        return cls(tokens, clipped, kl, ratio, max((piece.ratio_max for piece in pieces), default=0.0))


def size(mask: Tensor, aggregate: Aggregate) -> int:
    """What a loss is divided by: tokens, or sequences that have any. Of the whole minibatch, it is the `total`."""
    counted = mask if aggregate == "token" else mask.any(dim=1)
    return int(counted.sum())


def aggregate_terms(
    terms: Tensor, mask: Tensor, aggregate: Aggregate, total: int | None = None, constant: float | None = None
) -> Tensor:
    """One number from the terms of all tokens; see the module."""
    terms = terms.masked_fill(~mask, 0.0)
    if aggregate == "token":
        joined = terms.sum()
    elif aggregate == "sequence":
        joined = (terms.sum(dim=1) / mask.sum(dim=1).clamp(min=1)).sum()
    elif aggregate == "constant":
        if constant is None or not constant > 0:
            raise ValueError(f"aggregate constant needs a constant above 0, got {constant}")
        joined = terms.sum() / constant
    else:
        raise ValueError(f"aggregate is {aggregate!r}; known are token, sequence and constant")
    # A minibatch without a single token has loss 0.
    return joined / max(size(mask, aggregate) if total is None else total, 1)


@torch.no_grad()
def importance_weights(scorer: Tensor, sampler: Tensor, mask: Tensor, cap: float) -> Tensor:
    """min(p_scorer / p_sampler, cap) of each token, without gradient; 0 on padding.

    Corrects for tokens drawn by a sampler that does not quite agree with the model that learns (another precision,
    another kernel, older weights). The cap keeps one token the sampler thought absurd from deciding the update.
    """
    if not cap > 0:
        raise ValueError(f"cap is {cap}; it must be above 0")
    return (scorer - sampler).exp().clamp(max=cap).masked_fill(~mask, 0.0)


def clipped_surrogate(
    log_ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> tuple[Tensor, Tensor]:
    """-min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A) of each element, and (bool) where the clip took
    the gradient away. One for tokens and for robots."""
    ratio = log_ratio.exp()
    free = ratio * advantages
    with torch.no_grad():  # what is at its bound has no gradient: to say so is half the work of a minimum
        bound = ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages
        clipped = bound < free
    return -torch.where(clipped, bound, free), clipped


def clipped_error(values: Tensor, old_values: Tensor, returns: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """Half the squared error of each value, and (bool) where the clip took the gradient away.

    With `clip` above 0, a value that has moved further than that from `old_values` gains nothing by moving on: the
    larger of its error and of its error when held at the bound counts.
    """
    errors = (values - returns).square()
    if clip <= 0:
        return 0.5 * errors, torch.zeros_like(errors, dtype=torch.bool)
    held = (old_values + (values - old_values).clamp(-clip, clip) - returns).square()
    return 0.5 * torch.maximum(errors, held), (held > errors).detach()


def policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    weights: Tensor | None = None,
    aggregate: Aggregate = "token",
    total: int | None = None,
    constant: float | None = None,
) -> tuple[Tensor, PolicyFigures]:
    """The clipped surrogate of PPO, with figures.

    `advantages` are [B], one for all tokens of an answer, or [B, T]. `weights` (of `importance_weights`) multiply the
    terms. Where old and new agree the ratio is 1 and the gradient that of REINFORCE, -A * grad log p.
    """
    # Filled before anything is computed from it: zero times the gradient at inf or nan would still be nan.
    log_ratio = (log_probs - old_log_probs.detach()).masked_fill(~mask, 0.0)
    gains = (advantages[:, None] if advantages.dim() == 1 else advantages).detach()
    terms, clipped = clipped_surrogate(log_ratio, gains, clip_low, clip_high)
    if weights is not None:
        terms = terms * weights.detach()
    loss = aggregate_terms(terms, mask, aggregate, total, constant)
    return loss, _figures(log_ratio.detach(), clipped, mask)


def _figures(log_ratio: Tensor, clipped: Tensor, mask: Tensor) -> PolicyFigures:
    tokens = int(mask.sum())
    if not tokens:
        return PolicyFigures(0, 0.0, 0.0, 0.0, 0.0)
    log_ratio = log_ratio[mask]
    ratio = log_ratio.exp()
    means = (clipped[mask].to(ratio.dtype).mean(), (log_ratio.expm1() - log_ratio).mean(), ratio.mean(), ratio.max())
    return PolicyFigures(tokens, *torch.stack(means).tolist())


def kl_penalty(
    log_probs: Tensor,
    base_log_probs: Tensor,
    mask: Tensor,
    *,
    weights: Tensor | None = None,
    aggregate: Aggregate = "token",
    total: int | None = None,
    constant: float | None = None,
) -> tuple[Tensor, float]:
    """Divergence KL(policy || base) as a loss with the right gradient, and its value (k3, a mean over tokens).

    With d = log p - log base on tokens drawn from p, three estimators are common, and the one with the right mean is
    not the one with the right gradient. The gradient of k1 = d is grad log p, which is zero on average: it does
    nothing. That of k3 = exp(-d) - 1 + d is (1 - exp(-d)) grad log p, on average the gradient of KL(base || p): another
    divergence. That of k2 = d^2 / 2 is d * grad log p, on average exactly the gradient of KL(p || base). So k2 is
    minimised; its value is biased, so k3, whose value is not, is reported.

    That is the divergence at each token after the text before it; what a token does to the tokens after it is left out.
    It holds for tokens drawn from the policy as it is. Where they were not, `weights` (p / sampler) multiply the terms
    of the loss; the figure is not corrected.
    """
    difference = (log_probs - base_log_probs.detach()).masked_fill(~mask, 0.0)
    terms = 0.5 * difference**2
    if weights is not None:
        terms = terms * weights.detach()
    loss = aggregate_terms(terms, mask, aggregate, total, constant)
    distance = difference.detach()
    return loss, _token_mean((-distance).expm1() + distance, mask)


def entropy_terms(
    entropy: Tensor,
    mask: Tensor,
    *,
    weight: float,
    floor: float,
    push: float,
    level: float | Tensor | None = None,
    aggregate: Aggregate = "token",
    total: int | None = None,
    constant: float | None = None,
) -> tuple[Tensor, float]:
    """-weight * entropy, and -push * entropy on top while entropy is below the floor, with its mean over tokens.

    The floor (nats a token) is compared with `level`, the mean over the tokens of the whole minibatch, or of what each
    sequence belongs to ([B]), as far as the caller knows it: all pieces must be pushed or none. Without it the mean of
    this call decides. At or above the floor the push is exactly zero.
    """
    mean = _token_mean(entropy.detach(), mask)
    known = torch.as_tensor(mean if level is None else level, dtype=entropy.dtype).expand(len(entropy))
    rate = weight + push * (known < floor)
    return -aggregate_terms(rate[:, None] * entropy.masked_fill(~mask, 0.0), mask, aggregate, total, constant), mean


def value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    mask: Tensor,
    clip: float,
    *,
    aggregate: Aggregate = "token",
    total: int | None = None,
    constant: float | None = None,
) -> tuple[Tensor, float]:
    """Half the squared error of values (see `clipped_error`), and the share of tokens whose gradient the clip took
    away."""
    terms, clipped = clipped_error(values.masked_fill(~mask, 0.0), old_values.detach(), returns.detach(), clip)
    return aggregate_terms(terms, mask, aggregate, total, constant), _token_mean(clipped.to(values.dtype), mask)


def _token_mean(terms: Tensor, mask: Tensor) -> float:
    return float(terms[mask].mean()) if mask.any() else 0.0
