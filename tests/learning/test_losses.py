import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from autotelic.learning.advantages import Aggregate
from autotelic.learning.losses import (
    PolicyFigures,
    aggregate_terms,
    entropy_terms,
    importance_weights,
    kl_penalty,
    policy_loss,
    size,
    value_loss,
)

torch.set_num_threads(1)
law = settings(deadline=None, max_examples=50)  # a busy machine is slow, not wrong

AGGREGATES: tuple[Aggregate, ...] = ("token", "sequence", "constant")
LEAST, MOST = 0.8, 1.3  # how far a ratio may go: clip_low 0.2, clip_high 0.3
CLIP: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.3}


def logs(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).log()


def ones(*shape: int) -> Tensor:
    return torch.ones(*shape, dtype=torch.bool)


# Joining tokens


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    # Row sums 6 and 10 over 3 and 1 tokens; the third row is all padding and counts as no sequence.
    [("token", 16 / 4), ("sequence", (6 / 3 + 10 / 1) / 2), ("constant", (6 / 8 + 10 / 8) / 2)],
)
def test_tokens_are_joined_as_named(aggregate: Aggregate, expected: float) -> None:
    terms = torch.tensor([[1.0, 2.0, 3.0], [10.0, math.nan, math.inf], [math.nan, math.nan, math.nan]])
    mask = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    assert aggregate_terms(terms, mask, aggregate, constant=8.0).item() == pytest.approx(expected)
    assert size(mask, aggregate) == (4 if aggregate == "token" else 2)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_total_replaces_the_size_of_the_call(aggregate: Aggregate) -> None:
    terms = torch.tensor([[3.0], [5.0]])
    whole = aggregate_terms(terms, ones(2, 1), aggregate, constant=1.0)
    assert aggregate_terms(terms, ones(2, 1), aggregate, total=8, constant=1.0).item() == whole.item() / 4


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_without_any_token_the_loss_is_zero(aggregate: Aggregate) -> None:
    assert aggregate_terms(torch.full((2, 3), math.nan), ~ones(2, 3), aggregate, constant=1.0).item() == 0.0
    assert aggregate_terms(torch.zeros(2, 0), ones(2, 0), aggregate, constant=1.0).item() == 0.0


@pytest.mark.parametrize("constant", [None, 0.0, -1.0, math.nan])
def test_joining_by_a_constant_needs_one(constant: float | None) -> None:
    with pytest.raises(ValueError, match="constant above 0"):
        aggregate_terms(torch.ones(1, 1), ones(1, 1), "constant", constant=constant)


def test_an_unknown_way_of_joining_is_refused() -> None:
    unknown: Any = "tokens"
    with pytest.raises(ValueError, match="known are token, sequence and constant"):
        aggregate_terms(torch.ones(1, 1), ones(1, 1), unknown)


# Importance


def test_importance_is_the_ratio_capped_and_zero_on_padding() -> None:
    scorer = logs([0.5, 0.9, 0.3, 0.5]).requires_grad_()
    sampler = logs([0.25, 0.1, 0.6, 0.5])
    sampler[0, 3] = math.nan
    mask = torch.tensor([[True, True, True, False]])
    weights = importance_weights(scorer, sampler, mask, cap=3.0)
    assert weights[0].tolist() == pytest.approx([2.0, 3.0, 0.5, 0.0])
    assert not weights.requires_grad


def test_an_overflowing_ratio_is_capped() -> None:
    scorer, sampler = torch.zeros(1, 1), torch.full((1, 1), -1e4)
    assert importance_weights(scorer, sampler, ones(1, 1), cap=2.0).item() == 2.0


@pytest.mark.parametrize("cap", [0.0, -1.0, math.nan])
def test_a_cap_that_is_not_positive_is_refused(cap: float) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        importance_weights(torch.zeros(1, 1), torch.zeros(1, 1), ones(1, 1), cap)


# The clipped surrogate


@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "flows"),
    [
        (1.1, 2.0, 2.2, True),
        (1.5, 2.0, MOST * 2.0, False),  # better than old already, and bound by clip_high
        (0.5, 2.0, 1.0, True),  # a good answer that became rarer is always pulled back
        (0.9, -2.0, -1.8, True),
        (0.5, -2.0, LEAST * -2.0, False),  # rarer already, and bound by clip_low
        (1.5, -2.0, -3.0, True),  # a bad answer that became likelier is always pushed down
        (1.5, 0.0, 0.0, False),
    ],
)
def test_the_clip_bounds_gains_and_never_losses(ratio: float, advantage: float, value: float, flows: bool) -> None:
    old = logs([0.25])
    log_probs = logs([0.25 * ratio]).requires_grad_()
    loss, figures = policy_loss(log_probs, old, torch.tensor([advantage]), ones(1, 1), **CLIP)
    (gradient,) = torch.autograd.grad(loss, log_probs)
    assert loss.item() == pytest.approx(-value)
    assert gradient.item() == pytest.approx(-ratio * advantage if flows else 0.0)
    assert figures.clipped == float(not flows and advantage != 0)


def test_policy_figures_by_hand() -> None:
    old = logs([0.2, 0.2, 0.2, 0.2])
    log_probs = logs([0.4, 0.05, 0.2, 0.9])
    mask = torch.tensor([[True, True, True, False]])
    _, figures = policy_loss(log_probs, old, torch.tensor([1.0]), mask, **CLIP)
    k3 = (2 - 1 - math.log(2) + 0.25 - 1 - math.log(0.25) + 0) / 3
    assert figures == pytest.approx(PolicyFigures(3, 1 / 3, k3, 3.25 / 3, 2.0))


def test_an_advantage_of_each_token_can_be_given() -> None:
    old = logs([0.5, 0.5], [0.5, 0.5])
    advantages = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    assert policy_loss(old, old, advantages, ones(2, 2), **CLIP)[0].item() == -15 / 4
    assert policy_loss(old, old, advantages[:, 0], ones(2, 2), **CLIP)[0].item() == -10 / 4


def test_weights_multiply_the_terms_of_their_tokens() -> None:
    old = logs([0.5, 0.5])
    log_probs = logs([0.5, 0.5]).requires_grad_()
    weights = torch.tensor([[2.0, 0.5]])
    loss, _ = policy_loss(log_probs, old, torch.tensor([3.0]), ones(1, 2), weights=weights, **CLIP)
    (gradient,) = torch.autograd.grad(loss, log_probs)
    assert gradient.tolist() == [[-2.0 * 3 / 2, -0.5 * 3 / 2]]


def test_no_gradient_reaches_what_is_compared_with() -> None:
    live, advantages = logs([0.6]).requires_grad_(), torch.ones(1, requires_grad=True)
    old, base, weights, returns = (torch.ones(1, 1, requires_grad=True) for _ in range(4))
    policy_loss(live, old, advantages, ones(1, 1), weights=weights, **CLIP)[0].backward()
    kl_penalty(live, base, ones(1, 1), weights=weights)[0].backward()
    value_loss(live, old, returns, ones(1, 1), clip=0.5)[0].backward()
    assert live.grad is not None
    assert [tensor.grad for tensor in (old, base, advantages, weights, returns)] == [None] * 5


@pytest.mark.parametrize("aggregate", AGGREGATES)
@law
@given(seed=st.integers(0, 2**31), lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_on_policy_the_gradient_is_that_of_reinforce(aggregate: Aggregate, seed: int, lengths: list[int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(lengths), 4, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    tokens = torch.randint(5, (len(lengths), 4, 1), generator=generator)
    advantages = torch.randn(len(lengths), generator=generator, dtype=torch.float64)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    log_probs = logits.log_softmax(-1).gather(-1, tokens)[..., 0]
    loss, figures = policy_loss(
        log_probs, log_probs.detach(), advantages, mask, aggregate=aggregate, constant=4.0, **CLIP
    )
    assert (figures.ratio, figures.ratio_max, figures.kl, figures.clipped) == (1.0, 1.0, 0.0, 0.0)
    reinforce = aggregate_terms(-advantages[:, None] * log_probs, mask, aggregate, constant=4.0)
    (one,) = torch.autograd.grad(loss, logits, retain_graph=True)
    (other,) = torch.autograd.grad(reinforce, logits)
    assert torch.allclose(one, other)


# Divergence from the base


@pytest.mark.parametrize("seed", range(5))
def test_the_expected_gradient_of_the_penalty_is_that_of_the_exact_divergence(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(6, generator=generator, dtype=torch.float64, requires_grad=True)
    base = torch.randn(6, generator=generator, dtype=torch.float64).log_softmax(0)
    log_probs = logits.log_softmax(0)
    probs = log_probs.detach().exp()
    exact = (log_probs.exp() * (log_probs - base)).sum()
    (wanted,) = torch.autograd.grad(exact, logits, retain_graph=True)

    figure = 0.0
    expected = torch.zeros_like(wanted)
    for token in range(6):
        loss, distance = kl_penalty(log_probs[token].view(1, 1), base[token].view(1, 1), ones(1, 1))
        (gradient,) = torch.autograd.grad(loss, logits, retain_graph=True)
        expected += probs[token] * gradient
        figure += probs[token].item() * distance
    assert wanted.norm() > 0.1  # an estimator that does nothing would not pass
    assert torch.allclose(expected, wanted)
    assert figure == pytest.approx(exact.item())


def test_the_penalty_and_its_figure_by_hand() -> None:
    log_probs, base = logs([0.5, 0.1, 0.3]), logs([0.25, 0.2, 0.9])
    mask = torch.tensor([[True, True, False]])
    loss, figure = kl_penalty(log_probs, base, mask)
    assert loss.item() == pytest.approx(0.5 * math.log(2) ** 2)
    assert figure == pytest.approx((0.5 - 1 + math.log(2) + 2 - 1 - math.log(2)) / 2)


def test_weights_make_the_penalty_right_for_tokens_of_another_policy() -> None:
    logits = torch.tensor([0.3, -0.5, 1.0], dtype=torch.float64, requires_grad=True)
    base = torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64).log_softmax(0)
    sampler = torch.tensor([0.5, 0.2, 0.0], dtype=torch.float64).log_softmax(0)
    log_probs = logits.log_softmax(0)
    (wanted,) = torch.autograd.grad((log_probs.exp() * (log_probs - base)).sum(), logits, retain_graph=True)
    expected = torch.zeros_like(wanted)
    for token in range(3):
        weights = importance_weights(log_probs[token].view(1, 1), sampler[token].view(1, 1), ones(1, 1), cap=100.0)
        loss, _ = kl_penalty(log_probs[token].view(1, 1), base[token].view(1, 1), ones(1, 1), weights=weights)
        expected += sampler[token].exp() * torch.autograd.grad(loss, logits, retain_graph=True)[0]
    assert torch.allclose(expected, wanted)


# Entropy


@pytest.mark.parametrize(
    ("floor", "level", "rate"),
    [(0.0, None, 0.01), (1.0, None, 0.01), (1.01, None, 0.51), (1.01, 1.2, 0.01), (0.5, 0.4, 0.51), (0.5, 0.5, 0.01)],
)
def test_entropy_is_pushed_only_below_the_floor(floor: float, level: float | None, rate: float) -> None:
    entropy = torch.tensor([[0.5, 1.5, 9.0]], dtype=torch.float64, requires_grad=True)  # mean 1 over two tokens
    mask = torch.tensor([[True, True, False]])
    loss, mean = entropy_terms(entropy, mask, weight=0.01, floor=floor, push=0.5, level=level)
    (gradient,) = torch.autograd.grad(loss, entropy)
    assert mean == 1.0
    assert loss.item() == pytest.approx(-rate * 1.0)
    assert gradient[0].tolist() == pytest.approx([-rate / 2, -rate / 2, 0.0])


def test_above_the_floor_nothing_but_the_bonus_is_left() -> None:
    entropy = torch.tensor([[2.0, 3.0]], requires_grad=True)
    loss, _ = entropy_terms(entropy, ones(1, 2), weight=0.0, floor=1.0, push=0.5)
    assert torch.autograd.grad(loss, entropy)[0].tolist() == [[0.0, 0.0]]
    assert loss.item() == 0.0


# Values


@pytest.mark.parametrize(
    ("value", "clip", "expected", "gradient", "clipped"),
    [
        (1.0, 0.0, 0.5 * 1**2, 1.0, 0.0),  # the return is 0, the old value 4: no clip
        (3.5, 1.0, 0.5 * 3.5**2, 3.5, 0.0),  # within reach of the old value
        (1.0, 1.0, 0.5 * 3**2, 0.0, 1.0),  # moved too far towards the return: held at 3
        (7.0, 1.0, 0.5 * 7**2, 7.0, 0.0),  # moved away: its own error counts
    ],
)
def test_the_value_clip_holds_values_that_gained_enough(
    value: float, clip: float, expected: float, gradient: float, clipped: float
) -> None:
    values = torch.tensor([[value]], requires_grad=True)
    loss, share = value_loss(values, torch.tensor([[4.0]]), torch.zeros(1, 1), ones(1, 1), clip)
    assert loss.item() == pytest.approx(expected)
    assert torch.autograd.grad(loss, values)[0].item() == pytest.approx(gradient)
    assert share == clipped


# Laws of all losses: pieces add up, padding is nothing

Loss = Callable[..., tuple[Tensor, Any]]


def policy(inputs: dict[str, Tensor], mask: Tensor, **options: Any) -> tuple[Tensor, Any]:
    return policy_loss(
        inputs["live"], inputs["old"], inputs["gains"], mask, weights=inputs["weights"], **CLIP, **options
    )


def divergence(inputs: dict[str, Tensor], mask: Tensor, **options: Any) -> tuple[Tensor, Any]:
    return kl_penalty(inputs["live"], inputs["old"], mask, weights=inputs["weights"], **options)


def entropies(inputs: dict[str, Tensor], mask: Tensor, **options: Any) -> tuple[Tensor, Any]:
    return entropy_terms(inputs["live"], mask, weight=0.1, floor=0.5, push=1.0, level=0.2, **options)


def worth(inputs: dict[str, Tensor], mask: Tensor, **options: Any) -> tuple[Tensor, Any]:
    return value_loss(inputs["live"], inputs["old"], inputs["gains"], mask, 0.2, **options)


LOSSES: tuple[Loss, ...] = (policy, divergence, entropies, worth)


def some_inputs(rows: int, width: int, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    names = ("live", "old", "gains", "weights")
    return {name: torch.randn(rows, width, generator=generator, dtype=torch.float64) for name in names}


def with_gradient(loss: Loss, inputs: dict[str, Tensor], mask: Tensor, **options: Any) -> tuple[float, Tensor, Any]:
    live = inputs["live"].clone().requires_grad_()
    value, figures = loss({**inputs, "live": live}, mask, **options)
    value.backward()
    assert live.grad is not None
    return value.item(), live.grad, figures


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("aggregate", AGGREGATES)
@law
@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=6), seed=st.integers(0, 2**31), cut=st.integers(1, 5))
def test_the_losses_of_pieces_add_up_to_the_loss_of_the_whole(
    loss: Loss, aggregate: Aggregate, lengths: list[int], seed: int, cut: int
) -> None:
    inputs = some_inputs(len(lengths), 4, seed)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    whole, gradient, _ = with_gradient(loss, inputs, mask, aggregate=aggregate, constant=3.0)
    value = 0.0
    gradients = []
    for start in range(0, len(lengths), cut):
        part = {name: tensor[start : start + cut] for name, tensor in inputs.items()}
        piece, of_piece, _ = with_gradient(
            loss, part, mask[start : start + cut], aggregate=aggregate, total=size(mask, aggregate), constant=3.0
        )
        value += piece
        gradients.append(of_piece)
    assert value == pytest.approx(whole, abs=1e-12)
    assert torch.allclose(torch.cat(gradients), gradient, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("filling", [math.nan, math.inf, -math.inf, 7.0])
def test_padding_adds_nothing_whatever_it_holds(loss: Loss, aggregate: Aggregate, filling: float) -> None:
    mask = torch.arange(4) < torch.tensor([4, 1, 0])[:, None]
    inputs = some_inputs(3, 4, seed=0)
    filled = {name: tensor.masked_fill(~mask, filling) for name, tensor in inputs.items()}
    value, gradient, figures = with_gradient(loss, inputs, mask, aggregate=aggregate, constant=3.0)
    same, of_filled, of_figures = with_gradient(loss, filled, mask, aggregate=aggregate, constant=3.0)
    assert same == value
    assert torch.equal(of_filled, gradient)
    assert of_figures == figures
    assert gradient[~mask].tolist() == [0.0] * 7


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_wider_padding_changes_nothing(loss: Loss, aggregate: Aggregate) -> None:
    inputs = some_inputs(2, 3, seed=1)
    wider = {name: torch.cat([tensor, torch.ones(2, 2)], dim=1) for name, tensor in inputs.items()}
    mask = torch.tensor([[True, True, True], [True, False, False]])
    narrow, _, _ = with_gradient(loss, inputs, mask, aggregate=aggregate, constant=3.0)
    wide, _, _ = with_gradient(loss, wider, torch.cat([mask, ~ones(2, 2)], dim=1), aggregate=aggregate, constant=3.0)
    assert wide == pytest.approx(narrow)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_piece_without_tokens_has_loss_and_gradient_zero(loss: Loss) -> None:
    inputs = some_inputs(2, 3, seed=2)
    value, gradient, _ = with_gradient(loss, inputs, ~ones(2, 3))
    assert value == 0.0
    assert gradient.abs().sum().item() == 0.0


@law
@given(lengths=st.lists(st.integers(0, 4), min_size=2, max_size=6), seed=st.integers(0, 2**31))
def test_the_policy_figures_of_pieces_join_to_those_of_the_whole(lengths: list[int], seed: int) -> None:
    inputs = some_inputs(len(lengths), 4, seed)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    pieces = []
    for start in range(0, len(lengths), 2):
        part = {name: tensor[start : start + 2] for name, tensor in inputs.items()}
        pieces.append(policy(part, mask[start : start + 2])[1])
    assert PolicyFigures.joined(pieces) == pytest.approx(policy(inputs, mask)[1])
