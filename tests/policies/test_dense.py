"""Layers by oneDNN, beside what torch does by itself."""

import pytest
import torch
from torch.nn import functional

from autotelic.policies.networks import ACTIVATIONS, MANY, MLP, dense


def layer(rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    x, weight, bias = (torch.randn(*shape, generator=generator) for shape in ((rows, 9), (9, 33), (33,)))
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()


def gradients(y: torch.Tensor, *of: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum(), of)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS.values()])
@pytest.mark.parametrize("rows", [1, MANY - 1, MANY, 300])
def test_a_layer_and_its_gradients_are_what_torch_says(rows: int, activation):
    x, weight, bias = layer(rows)
    wanted = functional.linear(x, weight.t(), bias)
    wanted = wanted if activation is None else activation(wanted)
    found = dense(x, weight, bias, activation)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    pairs = zip(gradients(found, x, weight, bias), gradients(wanted, x, weight, bias), strict=True)
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [MANY - 1, MANY])
def test_a_layer_gives_the_same_to_the_bit_with_gradients_and_without(rows: int):
    x, weight, bias = layer(rows)
    with torch.no_grad():
        without = dense(x, weight, bias, torch.tanh)
    assert torch.equal(dense(x, weight, bias, torch.tanh), without)


def test_many_rows_are_multiplied_by_onednn_and_few_are_not():
    network = MLP(9, (33,), "tanh")
    assert "_Dense" in type(network(torch.zeros(MANY, 9)).grad_fn).__name__
    assert "Tanh" in type(network(torch.zeros(MANY - 1, 9)).grad_fn).__name__


def test_what_is_frozen_gets_no_gradient():
    x, weight, bias = layer(MANY)
    weight = weight.detach()
    dense(x, weight, bias, torch.tanh).sum().backward()
    assert weight.grad is None
    assert bias.grad is not None


def test_other_precisions_are_left_to_torch():
    x, weight, bias = (values.detach().double() for values in layer(MANY))
    assert dense(x, weight, bias, torch.tanh).dtype == torch.float64
    with torch.autocast("cpu", torch.bfloat16):
        assert dense(*layer(MANY)).dtype == torch.bfloat16
