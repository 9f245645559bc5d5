"""Muon: updates whose singular values are about equal."""

import pytest
import torch

from autotelic.learning.muon import Muon, orthogonalised


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 6, 20), (2, 20, 6)])
def test_singular_values_come_near_1(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 7
    values = torch.linalg.svdvals(orthogonalised(matrices))
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_the_directions_are_those_of_the_matrix():
    matrix = torch.randn((1, 8, 8), generator=torch.Generator().manual_seed(1))
    left, _, right = torch.linalg.svd(matrix)
    turned = left.mT @ orthogonalised(matrix) @ right.mT
    off = turned - torch.diag_embed(torch.diagonal(turned, dim1=-2, dim2=-1))
    assert off.abs().max() < 0.05


def test_one_matrix_does_not_depend_on_others_of_its_shape():
    matrices = torch.randn((3, 5, 9), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(orthogonalised(matrices)[1:2], orthogonalised(matrices[1:2]))


def test_it_finds_the_least_of_a_quadratic():
    target = torch.randn((6, 4), generator=torch.Generator().manual_seed(3))
    weight = torch.nn.Parameter(torch.zeros(6, 4))
    optimizer = Muon([weight], lr=0.1)
    for step in range(200):
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / 200)
        optimizer.zero_grad()
        ((weight - target) ** 2).sum().backward()
        optimizer.step()
    torch.testing.assert_close(weight.detach(), target, atol=0.05, rtol=0)


def test_weight_decay_shrinks_what_has_no_gradient():
    weight = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = Muon([weight], lr=0.1, weight_decay=0.5)
    weight.grad = torch.zeros(2, 2)
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.full((2, 2), 0.95))


def test_a_weight_that_is_no_matrix_is_refused():
    with pytest.raises(ValueError, match="matrices"):
        Muon([torch.nn.Parameter(torch.zeros(3))], lr=0.1)
