"""What networks of policies are made of: layers, and a normaliser of observations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from autotelic.learning.moments import RunningMoments

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"tanh": torch.tanh, "relu": torch.relu, "elu": functional.elu, "silu": functional.silu}
)


class Layer(nn.Module):
    """x @ weight + bias. The weight is [inputs, outputs], the transpose of nn.Linear's: with the few rows of a
    control step the product is half again as fast so."""

    def __init__(self, inputs: int, outputs: int, gain: float = math.sqrt(2), orthogonal: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        if orthogonal:
            nn.init.orthogonal_(self.weight, gain)
        else:  # as nn.Linear begins
            bound = 1 / math.sqrt(inputs)
            nn.init.uniform_(self.weight, -bound, bound)
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight)


class MLP(nn.Module):
    """Hidden layers, each followed by the activation; what comes out are the features a head reads."""

    def __init__(self, inputs: int, hidden: Sequence[int], activation: str, orthogonal: bool = True) -> None:
        super().__init__()
        sizes = [inputs, *hidden]
        self.activation = ACTIVATIONS[activation]
        layers = [Layer(*pair, orthogonal=orthogonal) for pair in pairwise(sizes)]
        self.layers = nn.ModuleList(layers)
        # The same weights again, at hand: to call a module and to look for its weights takes as long as the product of
        # the few rows of a control step.
        self._weights = [(layer.bias, layer.weight) for layer in layers]
        self.features = sizes[-1]

    def forward(self, x: Tensor) -> Tensor:
        activation = self.activation
        for bias, weight in self._weights:
            x = activation(torch.addmm(bias, x, weight))
        return x


class Normaliser(RunningMoments):
    """Observations less their mean, over their deviation, cut at a bound. Statistics move in `add` alone."""

    shift: Tensor
    scale: Tensor

    def __init__(self, size: int, clip: float) -> None:
        super().__init__(size)
        self.clip = clip
        # What is computed with: in the precision of observations, and not part of what is saved.
        self.register_buffer("shift", torch.zeros(size), persistent=False)
        self.register_buffer("scale", torch.ones(size), persistent=False)
        self.register_load_state_dict_post_hook(_derived)

    def add(self, batch: Tensor) -> None:
        super().add(batch.reshape(-1, batch.shape[-1]))
        _derived(self)

    def forward(self, obs: Tensor) -> Tensor:
        return (obs - self.shift).mul_(self.scale).clamp_(-self.clip, self.clip)


@torch.no_grad()
def _derived(normaliser: Any, _: object = None) -> None:
    """What is computed with, from the statistics."""
    normaliser.shift.copy_(normaliser.mean)
    # A number that never changes is 0 once it is normalised, not nan.
    normaliser.scale.copy_((normaliser.variance + 1e-8).rsqrt())
