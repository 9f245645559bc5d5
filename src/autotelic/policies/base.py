"""Policies: networks that act from observations. One interface for all that PPO drives: a Gaussian, a categorical, a
flow.

A policy decides once, in `sample`, and leaves in the `trace` what it needs to say later, in `evaluate`, how likely that
decision is. What is in a trace is its own business: a Gaussian keeps the action before it was cut to bounds, a flow the
path it took from noise to action. Storage keeps a trace as it is: a dict of tensors [batch, …].

`sample` and `act` are given observations as the environment gives them, `evaluate` and `value` what `prepare` made of
them: a learner goes over the same observations many times, and prepares them once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor, nn

from autotelic.errors import UserError

Observations = dict[str, Tensor]  # "policy" [batch, size], and "critic" where the critic sees something else
Trace = dict[str, Tensor]


class Decision(NamedTuple):
    """An action for one step, not a chunk of several; its log-probability is what `evaluate` says of the trace."""

    action: Tensor  # [batch, …], as the environment takes it
    trace: Trace


class Evaluation(NamedTuple):
    log_prob: Tensor  # [batch], of the decision in the trace
    entropy: Tensor | None  # [batch]; None where there is no closed form
    value: Tensor  # [batch]
    parameters: dict[str, Tensor]  # [batch, …] of the distribution, for `kl`; empty where it has none


@dataclass(frozen=True)
class PolicyConfig:
    """What every policy has."""


class Policy(nn.Module, ABC):
    """Made from the sizes of the observations and the space of actions. Its state_dict holds all there is to save, the
    normaliser's statistics too."""

    Config: ClassVar[type[PolicyConfig]] = PolicyConfig
    normalises: bool = False  # whether `observe` changes what an observation means

    def __init__(self, config: Any, sizes: dict[str, int], action_space: spaces.Space[Any]) -> None:
        super().__init__()
        self.config, self.sizes, self.action_space = config, sizes, action_space

    @abstractmethod
    def sample(self, obs: Observations, generator: torch.Generator) -> Decision:
        """Draws an action each, without gradient. How likely it is, is asked of `evaluate` later, for a whole rollout
        at once: the update asks with the same code and finds the same number."""

    @abstractmethod
    def act(self, obs: Observations) -> Tensor:
        """The action without chance, for evaluation and export, without gradient."""

    def prepare(self, obs: Observations) -> Observations:
        """What `evaluate` and `value` take: all that is done to observations before the first weight, without
        gradient. It stays the same until the next `observe`."""
        return obs

    @abstractmethod
    def evaluate(self, obs: Observations, trace: Trace) -> Evaluation:
        """Of prepared observations, with gradient."""

    @abstractmethod
    def value(self, obs: Observations) -> Tensor:
        """[batch], of prepared observations, with gradient: what is expected from here on."""

    def kl(self, old: dict[str, Tensor], new: dict[str, Tensor]) -> Tensor | None:
        """KL(old || new) [batch] from the parameters of two evaluations; None where there is no closed form."""
        return None

    def mirrored(self, trace: Trace, order: Tensor, signs: Tensor) -> Trace:
        """The trace of the same decision seen in a mirror, where an action's image is `action[order] * signs`."""
        raise UserError(f"{type(self).__name__} has no mirror image of {self.action_space}: set learner.symmetry=off")

    def observe(self, obs: Observations) -> None:
        """Takes observations [..., size] into the normaliser's statistics. Called between iterations only: while a
        rollout is collected and learned from, the same observation must mean the same."""
