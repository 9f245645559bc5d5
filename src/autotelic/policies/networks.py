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

# The activations whose gradient needs no more than what came out: oneDNN applies them while it multiplies.
_FUSED: Mapping[Callable[[Tensor], Tensor], str] = MappingProxyType({torch.tanh: "tanh", torch.relu: "relu"})
MANY = 64  # rows from which oneDNN is worth its preparations


class _Dense(torch.autograd.Function):
    """activation(x @ weight + bias), by oneDNN. What torch multiplies with otherwise (MKL) leaves half of the vector
    units unused on processors that are not Intel's, and tanh by itself takes half as long as the product before it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, activation: str) -> Tensor:
        y = _product(x, weight.t(), bias, activation)
        ctx.activation = activation
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        (gradient,) = gradients
        if ctx.activation == "tanh":
            gradient = torch.ops.aten.tanh_backward(gradient, y)
        elif ctx.activation == "relu":
            gradient = torch.ops.aten.threshold_backward(gradient, y, 0)
        of_x, of_weight, of_bias = ctx.needs_input_grad[:3]
        return (
            _product(gradient, weight) if of_x else None,
            _product(x.t(), gradient.t()) if of_weight else None,
            gradient.sum(0) if of_bias else None,
            None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """activation(x @ weight.t() + bias)"""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], "")


def dense(x: Tensor, weight: Tensor, bias: Tensor, activation: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """activation(x @ weight + bias), by what is fastest for as many rows: equal rows in batches of equal length give
    equal results, with gradients or without."""
    if _plain(x):
        y = torch.addmm(bias, x, weight)
        return y if activation is None else activation(y)
    fused = _FUSED.get(activation, "none") if activation is not None else "none"
    y = _Dense.apply(x, weight, bias, fused) if torch.is_grad_enabled() else _product(x, weight.t(), bias, fused)
    return y if activation is None or fused != "none" else activation(y)


def _plain(x: Tensor) -> bool:
    """Whether torch does it by itself: for few rows, in another precision, where its compiler or an export looks on."""
    if torch.compiler.is_compiling() or len(x) < MANY or torch.is_autocast_enabled(x.device.type):
        return True
    return x.device.type != "cpu" or x.dtype != torch.float32 or not torch.backends.mkldnn.is_available()


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
        return dense(x, self.weight, self.bias)


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
        if _plain(x):  # such as the few rows of a control step: not a call more than is needed
            for bias, weight in self._weights:
                x = activation(torch.addmm(bias, x, weight))
            return x
        for bias, weight in self._weights:
            x = dense(x, weight, bias, activation)
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
