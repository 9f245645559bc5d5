"""Actions that are vectors of numbers, drawn from a Gaussian with a deviation for each.

The formulas are written out: torch.distributions checks and broadcasts for longer than they take to compute.
"""

from __future__ import annotations

import math

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from autotelic.errors import UserError
from autotelic.policies.networks import Layer

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def log_prob(action: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """[batch]; `std` is [batch, size] or, one for all rows, [size]."""
    distance = ((action - mean) / std).square().sum(-1)
    return -0.5 * distance - (std.log().sum(-1) + _HALF_LOG_2PI * mean.shape[-1])


def entropy(std: Tensor) -> Tensor:
    """Of shape `std` without its last."""
    return std.log().sum(-1) + (0.5 + _HALF_LOG_2PI) * std.shape[-1]


def kl(old_mean: Tensor, old_std: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """KL(old || new) [batch]: sum of log(s / s_old) + (s_old^2 + (m_old - m)^2) / (2 s^2) - 1/2."""
    variance = std.square()
    ratio = old_std.square() / variance
    return 0.5 * (ratio + (old_mean - mean).square() / variance - ratio.log() - 1.0).sum(-1)


class Gaussian(nn.Module):
    """A head: features to the parameters of a Gaussian. The deviation is one for all states, or read from features.

    It is above `least` whatever the weights are. The floor is added, not cut at: a deviation that was cut would have no
    gradient to come back by. Read from features it grows no faster than they do (softplus, not exp).
    """

    def __init__(self, features: int, space: spaces.Box, *, std: float, least: float, by_state: bool, orthogonal: bool):
        super().__init__()
        if len(space.shape) != 1:
            raise UserError(f"actions of shape {space.shape} are not supported: a Box must have one dimension")
        size, spread = space.shape[0], std - least
        self.least = least
        self.mean = Layer(features, size, 0.01, orthogonal)
        self.std: Layer | None = Layer(features, size, 0.01, orthogonal) if by_state else None
        if self.std is None:
            self.log_std = nn.Parameter(torch.full((size,), math.log(spread)))
        else:
            nn.init.constant_(self.std.bias, spread + math.log(-math.expm1(-spread)))  # softplus, backwards

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        spread = self.log_std.exp() if self.std is None else functional.softplus(self.std(features))
        return {"mean": self.mean.forward(features), "std": spread + self.least}

    def sample(self, parameters: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        mean = parameters["mean"]
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        return torch.addcmul(mean, noise, parameters["std"])

    def mode(self, parameters: dict[str, Tensor]) -> Tensor:
        return parameters["mean"]

    def action(self, chosen: Tensor) -> Tensor:
        """As the environment takes it: it cuts at its bounds itself."""
        return chosen

    def log_prob(self, parameters: dict[str, Tensor], chosen: Tensor) -> Tensor:
        return log_prob(chosen, **parameters)

    def entropy(self, parameters: dict[str, Tensor]) -> Tensor:
        return entropy(parameters["std"]).expand(len(parameters["mean"]))

    def kl(self, old: dict[str, Tensor], new: dict[str, Tensor]) -> Tensor:
        return kl(old["mean"], old["std"], new["mean"], new["std"])

    def by_row(self, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
        """Parameters that are all [batch, …]."""
        return {name: values.expand_as(parameters["mean"]) for name, values in parameters.items()}
