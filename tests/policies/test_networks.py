import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from autotelic.policies.networks import ACTIVATIONS, MLP, Layer, Normaliser

torch.set_num_threads(1)
law = settings(deadline=None, max_examples=30)  # a busy machine is slow, not wrong


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Layers


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_mlp_is_linear_layers_with_the_activation_between(activation: str) -> None:
    network, x = MLP(3, (5, 4), activation), numbers(7, 3)
    expected = x
    for layer in network.layers:
        assert isinstance(layer, Layer)
        expected = ACTIVATIONS[activation](nn.functional.linear(expected, layer.weight.T, layer.bias))
    assert torch.allclose(network(x), expected, atol=1e-6)


def test_orthogonal_weights_have_singular_values_of_the_gain() -> None:
    values = torch.linalg.svdvals(Layer(6, 4, 0.01).weight)
    assert values.tolist() == pytest.approx([0.01] * 4)
    hidden = MLP(6, (4,), "tanh").layers[0]
    assert torch.linalg.svdvals(hidden.weight).tolist() == pytest.approx([math.sqrt(2)] * 4)


def test_without_orthogonal_weights_begin_within_the_bounds_of_nn_linear() -> None:
    layer = Layer(16, 300, orthogonal=False)
    assert 0.24 < layer.weight.abs().max().item() <= 0.25
    assert 0.2 < layer.bias.abs().max().item() <= 0.25


def test_without_hidden_layers_features_are_the_inputs() -> None:
    network, x = MLP(3, (), "tanh"), numbers(2, 3)
    assert network.features == 3
    assert torch.equal(network(x), x)


# The normaliser


def test_before_anything_was_seen_observations_pass_as_they_are() -> None:
    obs = numbers(4, 3)
    assert torch.equal(Normaliser(3, 10.0)(obs), obs)


def test_what_was_seen_has_mean_zero_and_deviation_one() -> None:
    normaliser, obs = Normaliser(2, 10.0), numbers(1000, 2) * torch.tensor([0.01, 50.0]) + torch.tensor([3.0, -700.0])
    normaliser.add(obs)
    seen = normaliser(obs)
    assert seen.mean(0).tolist() == pytest.approx([0, 0], abs=1e-3)
    assert seen.std(0).tolist() == pytest.approx([1, 1], abs=2e-3)


def test_a_normalised_observation_is_cut_at_the_bound() -> None:
    normaliser = Normaliser(1, 2.0)
    normaliser.add(numbers(100, 1))
    assert normaliser(torch.tensor([[1e6], [-1e6]])).tolist() == [[2.0], [-2.0]]


def test_an_observation_that_never_changes_is_zero() -> None:
    normaliser = Normaliser(1, 10.0)
    normaliser.add(torch.full((50, 1), 7.3))
    assert normaliser(torch.full((2, 1), 7.3)).tolist() == [[0.0], [0.0]]


def test_time_and_environments_are_both_rows() -> None:
    one, other, obs = Normaliser(3, 10.0), Normaliser(3, 10.0), numbers(5, 4, 3)
    one.add(obs)
    other.add(obs.reshape(20, 3))
    assert torch.equal(one.mean, other.mean)
    assert one.count.item() == 20


@law
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 2**31), st.floats(-1e4, 1e4))
def test_batches_seen_one_by_one_are_as_good_as_all_at_once(sizes: list[int], seed: int, centre: float) -> None:
    whole = numbers(sum(sizes), 2, seed=seed) + centre
    normaliser = Normaliser(2, 10.0)
    for part in whole.split(sizes):
        normaliser.add(part)
    exact = whole.double()
    assert normaliser.count.item() == len(whole)
    assert normaliser.mean.tolist() == pytest.approx(exact.mean(0).tolist(), rel=1e-6, abs=1e-6)
    assert normaliser.variance.tolist() == pytest.approx(exact.var(0, correction=0).tolist(), rel=1e-3, abs=1e-6)


def test_a_long_batch_is_joined_from_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pieces, obs = Normaliser(2, 10.0), Normaliser(2, 10.0), numbers(100, 2)
    whole.add(obs)
    monkeypatch.setattr("autotelic.learning.moments._ROWS", 7)
    pieces.add(obs)
    assert pieces.variance.tolist() == pytest.approx(whole.variance.tolist())


def test_a_normaliser_comes_back_from_its_state_to_the_last_bit() -> None:
    normaliser, other, obs = Normaliser(3, 5.0), Normaliser(3, 5.0), numbers(40, 3) * 3 + 1
    normaliser.add(obs)
    other.load_state_dict(copy.deepcopy(normaliser.state_dict()))
    assert torch.equal(other(obs), normaliser(obs))
    assert set(normaliser.state_dict()) == {"count", "mean", "variance"}
