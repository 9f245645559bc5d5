"""Generalised advantage estimation, one for robots and tokens alike."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    ended: Tensor,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns (what values should have been), without gradient. Everything is [T, N], time first.

    `next_values` are of the observation that truly followed: where an episode was cut by a time-out that is its final
    observation, not the first one after the reset. A cut episode would have gone on, so its future still counts: it is
    bootstrapped from that value.
    `terminated` (bool): nothing followed; the next value is not looked at and may be anything.
    `ended` (bool): terminated or cut by a time-out; the next row belongs to another episode, so nothing flows back.

        delta_t = r_t + gamma * V(s_t+1) - V(s_t)            A_t = delta_t + gamma * lam * A_t+1
    """
    next_values = next_values.masked_fill(terminated, 0.0)
    deltas = rewards + gamma * next_values - values
    carry = gamma * lam * (~(ended | terminated)).to(deltas.dtype)
    advantages = torch.zeros_like(deltas)
    running = deltas.new_zeros(deltas.shape[1:])
    for t in reversed(range(len(deltas))):
        running = deltas[t] + carry[t] * running
        advantages[t] = running
    return advantages, advantages + values


def token_advantages(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Advantages and returns [B, T] of answers whose reward [B] comes with their last token; zeros on padding.

    `values` [B, T]: what was expected before each token. `mask` (bool): True for tokens, which come before padding.
    An answer that reached the bound on tokens ends like any other: it is judged as it stands and nothing follows.
    """
    if (mask[:, 1:] & ~mask[:, :-1]).any():
        raise ValueError("a token follows padding: answers must be padded on the right")
    last = mask.clone()
    last[:, :-1] &= ~mask[:, 1:]
    values = values.masked_fill(~mask, 0.0)
    next_values = torch.zeros_like(values)
    next_values[:, :-1] = values[:, 1:]
    at_last = torch.where(last, rewards[:, None], 0.0)
    ends = last | ~mask
    advantages, returns = gae(at_last.T, values.T, next_values.T, ends.T, ends.T, gamma, lam)
    return advantages.T, returns.T
