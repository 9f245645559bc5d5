"""Rewards divided by how much returns differ, so that values are of the same size in every task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autotelic.errors import UserError
from autotelic.learning.moments import RunningMoments


class RewardScaling:
    """Divides rewards by the running deviation of the discounted return so far, r + gamma * (the one before).

    A rollout's returns are taken in before its rewards are scaled, all by one factor: the first rollout is scaled too,
    and within an iteration a reward is worth the same everywhere. Rewards are never shifted, which would make living
    longer better or worse.
    """

    def __init__(self, gamma: float, clip: float = 0.0) -> None:
        self.gamma, self.clip = gamma, clip
        self.moments = RunningMoments()
        self.running: np.ndarray | None = None  # float64 [count]: the return of the episode under way

    @property
    def scale(self) -> float:
        """What rewards are divided by."""
        return float((self.moments.variance + 1e-8).sqrt())

    def scaled(self, rewards: Tensor, ended: Tensor) -> Tensor:
        """Takes in the rewards [length, count] of a rollout and returns them scaled and cut."""
        returns = np.empty(rewards.shape)
        earned, goes_on = rewards.numpy(), ~ended.numpy()
        running = np.zeros(rewards.shape[1]) if self.running is None else self.running
        if running.shape != rewards.shape[1:]:
            count = rewards.shape[1]
            raise UserError(
                f"the learner has scaled rewards of {len(running)} environments: it cannot go on with {count}"
            )
        for t in range(len(returns)):
            returns[t] = running = self.gamma * running + earned[t]
            running = running * goes_on[t]
        self.running = running
        self.moments.add(torch.from_numpy(returns).flatten())
        scaled = rewards / self.scale
        return scaled.clamp_(-self.clip, self.clip) if self.clip else scaled

    def state(self) -> dict[str, Any]:
        running = None if self.running is None else self.running.copy()
        return {"running": running, **{name: values.clone() for name, values in self.moments.state_dict().items()}}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.running = None if state["running"] is None else np.array(state["running"])
        self.moments.load_state_dict({name: values for name, values in state.items() if name != "running"})
