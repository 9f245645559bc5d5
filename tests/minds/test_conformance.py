"""check_mind: our own minds pass it, and one that breaks a single promise is told which. (The endpoint mind, which
needs a server, is checked in test_endpoint.py.)"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from autotelic.minds.base import FrozenMind, Generation, Mind, MindConfig
from autotelic.minds.hf import HFConfig, HFMind
from autotelic.minds.tiny.mind import TinyConfig, TinyMind
from autotelic.testing import check_mind

TOKENS = ("<ask>", "<answer>", "a", "b", "c", "d")
PROMPTS = ["<ask>a<answer>", "<ask>bc, d<answer>", "<ask>dd<answer>"]

pytestmark = pytest.mark.usefixtures("one_thread")


def of_class(mind: type[TinyMind]) -> TinyMind:
    """Small, with random base weights: as it would be at the start of a run."""
    made = mind(TinyConfig(width=32, heads=2, layers=1, max_tokens=6), TOKENS)
    made._base = copy.deepcopy(made.network)
    return made


def test_the_tiny_mind_passes():
    check_mind(of_class(TinyMind), PROMPTS)


@pytest.mark.parametrize("settings", [{}, {"lora": 4}, {"temperature": 0.7, "checkpointing": True}], ids=str)
@pytest.mark.parametrize("model", ["qwen", "llama", "opt"])
def test_hugging_face_minds_pass(model, settings, request):
    config = HFConfig(model=str(request.getfixturevalue(model)), max_tokens=12, **settings)
    check_mind(HFMind(config), ["What does this call return?", "hi"])


def test_a_mind_is_left_as_it_was_found():
    mind = of_class(TinyMind)
    before = {name: weight.clone() for name, weight in mind.state().items()}
    check_mind(mind, PROMPTS)
    torch.testing.assert_close(mind.state(), before, rtol=0, atol=0)
    assert all(weight.grad is None for weight in mind.parameters())


# Minds that break one promise each


class OneEach(TinyMind):
    def sample(self, prompts, n, rng, **how):
        return super().sample(prompts, 1, rng, **how)


class Nameless(TinyMind):
    name = ""


class ConfigOfItsOwn(TinyMind):
    Config = dict  # pyright: ignore[reportAssignmentType]


class GreedyTwice(TinyMind):
    def sample(self, prompts, n, rng, *, greedy=False, **how):
        return super().sample(prompts, 2 if greedy else n, rng, greedy=greedy, **how)


class NoChance(TinyMind):
    def sample(self, prompts, n, rng, **how):
        return super().sample(prompts, n, np.random.default_rng(0), **how)


class ChanceOfItsOwn(TinyMind):
    def sample(self, prompts, n, rng, **how):
        rng.random()
        return super().sample(prompts, n, np.random.default_rng(), **how)


class NeverGreedy(TinyMind):
    def sample(self, prompts, n, rng, *, greedy=False, **how):
        return super().sample(prompts, n, rng, **how)


class Backwards(TinyMind):
    def sample(self, prompts, n, rng, **how):
        return super().sample(prompts[::-1], n, rng, **how)


class SampleBySample(TinyMind):
    """All first samples, then all second ones."""

    def sample(self, prompts, n, rng, **how):
        said = super().sample(prompts, n, rng, **how)
        return [said[at * n + turn] for turn in range(n) for at in range(len(prompts))]


class HalfACharacter(TinyMind):
    def _generation(self, *parts):
        return replace(super()._generation(*parts), text="\ud800")


class WithoutLogProbs(TinyMind):
    def _generation(self, *parts):
        return replace(super()._generation(*parts), log_probs=np.zeros(0, np.float32))


class Impossible(TinyMind):
    def _generation(self, *parts):
        said = super()._generation(*parts)
        return replace(said, log_probs=np.full_like(said.log_probs, -np.inf))


class Probabilities(TinyMind):
    def _generation(self, *parts):
        said = super()._generation(*parts)
        return replace(said, log_probs=np.exp(said.log_probs))


class WithoutPrompt(TinyMind):
    def _generation(self, *parts):
        return replace(super()._generation(*parts), prompt=np.zeros(0, np.int32))


class Column(TinyMind):
    def _generation(self, *parts):
        said = super()._generation(*parts)
        return replace(said, prompt=said.prompt[:, None])


class Fractions(TinyMind):
    def _generation(self, *parts):
        said = super()._generation(*parts)
        return replace(said, tokens=said.tokens.astype(np.float32))


class Unbounded(TinyMind):
    def sample(self, prompts, n, rng, *, max_tokens=None, **how):
        return super().sample(prompts, n, rng, **how)


class Longer(TinyMind):
    def sample(self, prompts, n, rng, *, max_tokens=None, **how):
        return super().sample(prompts, n, rng, max_tokens=max_tokens or 40, **how)


class OtherTemperature(TinyMind):
    def score(self, generations):
        self.config.temperature, known = 2.0, self.config.temperature
        scores = super().score(generations)
        self.config.temperature = known
        return scores


class OneTokenLate(TinyMind):
    def score(self, generations):
        scores = super().score(generations)
        return replace(scores, log_probs=scores.log_probs.roll(1, dims=1))


class MaskOfOnes(TinyMind):
    def score(self, generations):
        scores = super().score(generations)
        return replace(scores, mask=torch.ones_like(scores.mask))


class WiderTable(TinyMind):
    def score(self, generations):
        scores = super().score(generations)
        return replace(scores, log_probs=torch.nn.functional.pad(scores.log_probs, (0, 1)))


class EntropyOfNothing(TinyMind):
    def score(self, generations):
        scores = super().score(generations)
        return replace(scores, entropy=scores.entropy / 0)


class NegativeEntropy(TinyMind):
    def score(self, generations):
        scores = super().score(generations)
        return replace(scores, entropy=-scores.entropy)


class OtherWidth(TinyMind):
    @property
    def width(self):
        return 7


class EntropyOfTheBatch(TinyMind):
    def score(self, generations):
        scores = super().score(generations)
        return replace(scores, entropy=scores.entropy * len(generations))


class Detached(TinyMind):
    def score(self, generations):
        scores = super().score(generations)
        return replace(scores, log_probs=scores.log_probs.detach())


class GradientElsewhere(TinyMind):
    def score(self, generations):
        scores = super().score(generations)
        other = torch.zeros(1, requires_grad=True)
        return replace(scores, log_probs=scores.log_probs.detach() + other)


class EndlessGradient(TinyMind):
    def score(self, generations):
        scores = super().score(generations)
        return replace(scores, log_probs=scores.log_probs + (0 * scores.log_probs).sqrt())


class Downhill(TinyMind):
    def score(self, generations):
        scores = super().score(generations)
        return replace(scores, log_probs=2 * scores.log_probs.detach() - scores.log_probs)


class LosesAPiece(TinyMind):
    def pieces(self, generations):
        return [piece[1:] for piece in super().pieces(generations)]


class EveryPieceTwice(TinyMind):
    def pieces(self, generations):
        return [piece for piece in super().pieces(generations) for _ in range(2)]


class PieceOfNothing(TinyMind):
    def pieces(self, generations):
        return list(super().pieces(generations)) or [[0]]


class EmptyPiece(TinyMind):
    def pieces(self, generations):
        return [*super().pieces(generations), []]


class StaysWhereItWas(TinyMind):
    def answering(self, prompt, generation):
        return generation


class SaysSomethingElse(TinyMind):
    def answering(self, prompt, generation):
        moved = super().answering(prompt, generation)
        return replace(moved, tokens=moved.tokens + 1)


class NoParameters(TinyMind):
    def parameters(self):
        return []


class NewParameters(TinyMind):
    def parameters(self):
        return [torch.nn.Parameter(weight.data) for weight in super().parameters()]


class FrozenParameters(TinyMind):
    def parameters(self):
        return [weight.requires_grad_(False) for weight in super().parameters()]


class LosesAMatrix(TinyMind):
    def matrices(self):
        matrices, others = super().matrices()
        return matrices[1:], others


class VectorsAsMatrices(TinyMind):
    def matrices(self):
        matrices, others = super().matrices()
        return [*matrices, *others], []


class BaseThatMoves(TinyMind):
    def base_log_probs(self, generations):
        return self.score(generations).log_probs.detach()


class BaseWithGradient(TinyMind):
    def base_log_probs(self, generations):
        return self.score(generations).log_probs


class ForgetsAWeight(TinyMind):
    def state(self):
        return dict(list(super().state().items())[:-1])

    def load_state(self, state):
        self.network.load_state_dict(dict(state), strict=False)


class TakesNothingBack(TinyMind):
    def load_state(self, state):
        pass


BROKEN = {
    OneEach: "n generations a prompt",
    Nameless: "a mind has a name",
    ConfigOfItsOwn: "is a MindConfig",
    GreedyTwice: "one generation a prompt",
    NoChance: "draws from the generator it is given",
    ChanceOfItsOwn: "equal seeds give equal generations",
    NeverGreedy: "greedy sampling leaves nothing to chance",
    Backwards: "generations come prompt by prompt",
    SampleBySample: "generations come prompt by prompt",
    HalfACharacter: "can be written to a file",
    WithoutLogProbs: "one log-probability a token",
    Impossible: "a finite log-probability",
    Probabilities: "not above 0",
    Column: "prompt is a row of token ids",
    Fractions: "tokens are whole numbers",
    WithoutPrompt: "prompt is never empty",
    Unbounded: "the max_tokens it is given",
    Longer: "longer than max_tokens",
    OtherTemperature: "score gives other log-probabilities than sampling did",
    OneTokenLate: "score gives other log-probabilities than sampling did",
    MaskOfOnes: "the mask of score",
    WiderTable: "log_probs of score is",
    EntropyOfNothing: "entropy is finite",
    NegativeEntropy: "entropy is not below 0",
    OtherWidth: "hidden of score",
    EntropyOfTheBatch: "entropy of score depends on what else is in the batch",
    Detached: "have a gradient",
    GradientElsewhere: "reaches the parameters",
    EndlessGradient: "is finite",
    Downhill: "points to where the generations are likelier",
    LosesAPiece: "every position exactly once",
    EveryPieceTwice: "every position exactly once",
    PieceOfNothing: "no generations, no pieces",
    EmptyPiece: "no piece is empty",
    StaysWhereItWas: "the tokens of another prompt",
    SaysSomethingElse: "leaves what was written",
    NoParameters: "has parameters",
    NewParameters: "the same objects each time",
    FrozenParameters: "want a gradient",
    LosesAMatrix: "every one is in one part",
    VectorsAsMatrices: "are matrices",
    BaseThatMoves: "base_log_probs is not what score said before",
    BaseWithGradient: "base_log_probs has no gradient",
    ForgetsAWeight: "back to the last bit",
    TakesNothingBack: "back to the last bit",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_promise_is_named(broken):
    with pytest.raises(AssertionError, match=BROKEN[broken]):
        check_mind(of_class(broken), PROMPTS)


# Minds that do not learn


class Parrot(FrozenMind):
    name = "parrot"
    Config = MindConfig

    def sample(self, prompts, n, rng, *, greedy=False, max_tokens=None):
        return [Generation(f"{prompt}{'' if greedy else rng.integers(9)}") for prompt in prompts for _ in range(n)]


class BackToFront(Parrot):
    def sample(self, prompts, n, rng, **how):
        return super().sample(prompts[::-1], n, rng, **how)


class Numbers(Parrot):
    def sample(self, prompts, n, rng, **how):
        return [replace(said, text=7) for said in super().sample(prompts, n, rng, **how)]


class Yes(Parrot):
    def sample(self, prompts, n, rng, **how):
        return [replace(said, finished="yes") for said in super().sample(prompts, n, rng, **how)]


class Talkative(Parrot):
    def sample(self, prompts, n, rng, **how):
        return super().sample(prompts or ["hello"], n, rng, **how)


def test_a_mind_that_does_not_learn_is_checked_for_sampling_alone():
    check_mind(Parrot(MindConfig()), PROMPTS)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (BackToFront, "in the order of their prompts"),
        (Numbers, "is a str"),
        (Yes, "finished is a bool"),
        (Talkative, "no prompts, no generations"),
    ],
)
def test_sampling_of_a_mind_that_does_not_learn_is_checked(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_mind(broken(MindConfig()), PROMPTS)


def test_one_prompt_is_too_few_to_see_anything():
    with pytest.raises(AssertionError, match="two different prompts"):
        check_mind(Parrot(MindConfig()), ["a", "a"])


def test_asking_a_frozen_mind_for_what_a_learner_needs_says_that_it_does_not_learn():
    mind, said = Parrot(MindConfig()), [Generation("a")]
    for ask in (mind.parameters, lambda: mind.width, lambda: mind.score(said), lambda: mind.pieces(said)):
        with pytest.raises(TypeError, match="the mind parrot does not learn"):
            ask()
    with pytest.raises(TypeError, match="the mind parrot does not learn"):
        mind.base_log_probs(said)


def test_a_frozen_mind_has_no_state_and_takes_none():
    mind = Parrot(MindConfig())
    assert mind.state() == {}
    mind.load_state({})
    with pytest.raises(ValueError, match="Parrot keeps no state, but was given"):
        mind.load_state({"weight": 1})


def test_a_mind_that_learns_cannot_be_made_without_what_a_learner_needs():
    half = type("Half", (Mind,), {"sample": Parrot.sample, "name": "half", "Config": MindConfig})
    with pytest.raises(TypeError, match=r"base_log_probs.*pieces.*score"):
        half(MindConfig())
