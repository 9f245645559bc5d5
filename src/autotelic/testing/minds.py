"""What a mind must keep to: that it scores what it said as it said it, learns from that, and can be restored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autotelic.errors import UserError
from autotelic.minds.base import Generation, Mind, MindConfig, Scores
from autotelic.testing.saved import through_checkpoint

if TYPE_CHECKING:
    import torch


def check_mind(mind: Mind, prompts: Sequence[str], tolerance: float = 1e-3) -> None:
    """Samples, and where the mind learns also scores, changes and restores it; it is left as it was found.

    Give it at least two different prompts such as it is asked in play, and a mind that has learned nothing yet.
    Log-probabilities of one token are equal if they differ by less than `tolerance`.
    """
    assert len(set(prompts)) > 1, "check_mind needs at least two different prompts"
    assert mind.name, "a mind has a name"
    assert issubclass(mind.Config, MindConfig), "the Config of a mind is a MindConfig with fields of its own"
    said = _check_sampling(mind, prompts)
    if mind.converses:
        conversation: Any = [(prompts[0], "a reply", prompts[1])]
        assert len(mind.sample(conversation, 2, np.random.default_rng(8))) == 2, "a conversation is a prompt like any"
    if mind.learns:
        _check_tokens(mind, prompts, said)
        _check_scores(mind, said, tolerance)
        _check_pieces(mind, said)
        _check_answering(mind, prompts, said)
        _check_learning(mind, said, tolerance)


def _check_sampling(mind: Mind, prompts: Sequence[str]) -> list[Generation]:
    """What holds for every mind; returns three generations a prompt."""
    chance = np.random.default_rng(5)
    untouched = str(chance.bit_generator.state)
    said = mind.sample(prompts, 3, chance)
    assert len(said) == 3 * len(prompts), f"sample gives n generations a prompt: {len(said)} for 3 x {len(prompts)}"
    assert str(chance.bit_generator.state) != untouched, "sample draws from the generator it is given"
    for each in said:
        assert isinstance(each.text, str), "the text of a generation is a str"
        assert each.text == each.text.encode(errors="replace").decode(), "a text can be written to a file"
        assert isinstance(each.finished, bool), "finished is a bool"
    assert mind.sample([], 3, np.random.default_rng(5)) == [], "no prompts, no generations"
    likeliest = mind.sample(prompts, 1, np.random.default_rng(6), greedy=True)
    assert len(likeliest) == len(prompts), "greedy sampling gives one generation a prompt"
    if mind.exact:
        assert _same(mind.sample(prompts, 3, np.random.default_rng(5)), said), (
            "equal seeds give equal generations; a mind for which that does not hold has exact = False"
        )
        assert _same(mind.sample(prompts, 1, np.random.default_rng(7), greedy=True), likeliest), (
            "greedy sampling leaves nothing to chance"
        )
        if not mind.learns:  # those that learn say which prompt each generation is of
            alone = [mind.sample([prompt], 1, np.random.default_rng(6), greedy=True)[0] for prompt in prompts]
            assert _same(alone, likeliest), "generations come in the order of their prompts"
    return said


def _same(some: Sequence[Generation], others: Sequence[Generation]) -> bool:
    """Whether generations are equal to the last bit."""
    return len(some) == len(others) and all(
        one.text == other.text
        and one.finished == other.finished
        and np.array_equal(one.prompt, other.prompt)
        and np.array_equal(one.tokens, other.tokens)
        and np.array_equal(one.log_probs, other.log_probs)
        for one, other in zip(some, others, strict=True)
    )


def _check_tokens(mind: Mind, prompts: Sequence[str], said: Sequence[Generation]) -> None:
    for each in said:
        for name, array in (("prompt", each.prompt), ("tokens", each.tokens)):
            assert array.ndim == 1, f"{name} is a row of token ids"
            assert array.dtype.kind == "i", f"{name} are whole numbers"
            assert len(array), f"{name} is never empty: a generation has at least its end token"
        assert each.log_probs.shape == each.tokens.shape, "one log-probability a token"
        assert np.isfinite(each.log_probs).all(), "what was sampled has a finite log-probability"
        assert (each.log_probs <= 1e-6).all(), "a log-probability is not above 0"
        assert len(each.tokens) <= mind.config.max_tokens, "no generation is longer than max_tokens"
    for at, prompt in enumerate(prompts):
        (alone,) = mind.sample([prompt], 1, np.random.default_rng(8))
        assert all(np.array_equal(each.prompt, alone.prompt) for each in said[3 * at : 3 * at + 3]), (
            "generations come prompt by prompt, each with its own prompt's tokens"
        )
    short = mind.sample(prompts, 2, np.random.default_rng(9), max_tokens=1)
    assert all(len(each.tokens) == 1 for each in short), "sample keeps to the max_tokens it is given"


def _check_scores(mind: Mind, said: Sequence[Generation], tolerance: float) -> None:
    scores = mind.score(said)
    lengths = [len(each.tokens) for each in said]
    shape = (len(said), max(lengths))
    for name, found in (("log_probs", scores.log_probs), ("entropy", scores.entropy), ("mask", scores.mask)):
        assert found.shape == shape, f"{name} of score is [batch, longest answer]: {tuple(found.shape)}, not {shape}"
    assert scores.hidden.shape == (*shape, mind.width), "hidden of score is [batch, longest answer, width]"
    assert scores.mask.tolist() == [[at < length for at in range(shape[1])] for length in lengths], (
        "the mask of score is True for the tokens of an answer, which come first in their row"
    )
    for row, each in enumerate(said):
        scored = _row(scores.log_probs, row, each)
        _assert_close(scored, each.log_probs, tolerance, "score gives other log-probabilities than sampling did")
        entropy = _row(scores.entropy, row, each)
        assert np.isfinite(entropy).all(), "entropy is finite"
        assert (entropy >= -tolerance).all(), "entropy is not below 0"
        alone = mind.score([each])
        for name in ("log_probs", "entropy"):
            one, beside = _row(getattr(alone, name), 0, each), _row(getattr(scores, name), row, each)
            _assert_close(one, beside, tolerance, f"{name} of score depends on what else is in the batch")


def _row(table: torch.Tensor, row: int, generation: Generation) -> np.ndarray:
    return table[row, : len(generation.tokens)].detach().float().cpu().numpy()


def _assert_close(found: np.ndarray, wanted: np.ndarray, tolerance: float, what: str) -> None:
    far = float(np.abs(found - wanted).max())
    # Not a number is never within the tolerance.
    assert far <= tolerance, f"{what}: a token differs by {far:.3g}, allowed is {tolerance:g}"


def _check_pieces(mind: Mind, said: Sequence[Generation]) -> None:
    pieces = [list(piece) for piece in mind.pieces(said)]
    assert all(pieces), "no piece is empty"
    assert sorted(at for piece in pieces for at in piece) == list(range(len(said))), (
        f"pieces hold every position exactly once: {pieces} for {len(said)} generations"
    )
    assert list(mind.pieces([])) == [], "no generations, no pieces"


def _check_answering(mind: Mind, prompts: Sequence[str], said: Sequence[Generation]) -> None:
    moved = mind.answering(prompts[-1], said[0])
    assert np.array_equal(moved.prompt, said[-1].prompt), "answering gives a generation the tokens of another prompt"
    assert np.array_equal(moved.tokens, said[0].tokens), "answering leaves what was written as it was"
    mind.score([moved])


def _check_learning(mind: Mind, said: Sequence[Generation], tolerance: float) -> None:
    weights = mind.parameters()
    assert weights, "a mind that learns has parameters"
    assert all(weight.requires_grad for weight in weights), "parameters want a gradient"
    assert [id(weight) for weight in mind.parameters()] == [id(weight) for weight in weights], (
        "parameters are the same objects each time: an optimiser holds on to them"
    )
    _check_matrices(mind, weights)
    if mind.brief:
        _check_prompt_text(mind, said[0].prompt)
    before, saved = mind.score(said), through_checkpoint(mind.state())
    slope = _slope(weights, before)
    likelier = _moved(mind, said, weights, slope, 1.0)
    base = mind.base_log_probs(said)
    assert not base.requires_grad, "base_log_probs has no gradient"
    for row, each in enumerate(said):
        wanted = _row(before.log_probs, row, each)
        what = "base_log_probs is not what score said before anything was learned"
        _assert_close(_row(base, row, each), wanted, tolerance, what)
    assert likelier > _moved(mind, said, weights, slope, -2.0), (
        "the gradient of score points to where the generations are likelier"
    )
    mind.load_state(saved)
    restored = mind.score(said).log_probs == before.log_probs
    assert bool(restored[before.mask].all()), "load_state(state()) brings the log-probabilities back to the last bit"


def _check_prompt_text(mind: Mind, prompt: np.ndarray) -> None:
    try:
        text = mind.prompt_text(prompt)
    except UserError:
        return  # not every mind is for worlds of things that are alike
    assert np.array_equal(mind.encode(text), prompt), "prompt_text gives back the prompt that was encoded"


def _check_matrices(mind: Mind, weights: Sequence[torch.nn.Parameter]) -> None:
    try:
        matrices, others = mind.matrices()
    except UserError:
        return  # not every mind is for Muon
    assert all(weight.dim() == 2 for weight in matrices), "the first part of matrices() are matrices"
    assert sorted(map(id, [*matrices, *others])) == sorted(map(id, weights)), (
        "matrices() parts the parameters: every one is in one part"
    )


def _slope(weights: Sequence[torch.nn.Parameter], scores: Scores) -> list[torch.Tensor | None]:
    """The gradient of the log-likelihood, scaled to a step that should change it by about 1."""
    assert scores.log_probs.requires_grad, "the log-probabilities of score have a gradient"
    for weight in weights:
        weight.grad = None
    scores.log_probs.masked_fill(~scores.mask, 0.0).sum().backward()
    found = [weight.grad for weight in weights]
    for weight in weights:
        weight.grad = None
    size = float(np.sqrt(sum(float(part.square().sum()) for part in found if part is not None)))
    assert np.isfinite(size), "the gradient of score is finite"
    assert size > 0, "the gradient of score reaches the parameters"
    return [None if part is None else part / max(size, size**2) for part in found]


def _moved(
    mind: Mind,
    said: Sequence[Generation],
    weights: Sequence[torch.nn.Parameter],
    slope: Sequence[torch.Tensor | None],
    far: float,
) -> float:
    """The log-likelihood of what was said, once the weights have moved so far along the slope."""
    for weight, part in zip(weights, slope, strict=True):
        if part is not None:
            weight.data.add_(part, alpha=far)
    scores = mind.score(said)
    return float(scores.log_probs.detach().masked_fill(~scores.mask, 0.0).sum())
