"""The tiny mind: a vocabulary of its own, sampling and scoring that agree, base weights that know form alone."""

import threading
from typing import Any

import numpy as np
import pytest
import torch

from autotelic.errors import UserError
from autotelic.minds.base import Generation
from autotelic.minds.tiny import base
from autotelic.minds.tiny.mind import LONGEST, TinyConfig, TinyMind
from autotelic.minds.tiny.network import Block, Past
from autotelic.minds.tiny.vocabulary import END, UNKNOWN, Vocabulary, padded

TOKENS = ("<ask>", "<input>", "<answer>", "a", "ab", "b", ", ", "1", "12", "-3", "\n")
PROMPTS = ["<ask>a, b<answer>", "<ask>ab<input>1, 12, -3<answer>", "<ask><answer>"]

SHAPES = [{}, {"heads": 8, "matching": 4}]

pytestmark = pytest.mark.usefixtures("one_thread")


def mind_of(**config) -> TinyMind:
    shape: dict[str, Any] = {"width": 32, "heads": 2, "layers": 2, "max_tokens": 12}
    mind = TinyMind(TinyConfig(**shape | config), TOKENS)
    for name, weight in mind.network.named_parameters():
        if name.endswith("favours"):  # some are 0 at first
            torch.nn.init.normal_(weight, generator=torch.Generator().manual_seed(0))
    return mind


def sampled(mind: TinyMind, n: int = 3, seed: int = 0, **how) -> list[Generation]:
    return mind.sample(PROMPTS, n, np.random.default_rng(seed), **how)


def test_a_text_of_known_pieces_comes_back_whole():
    vocabulary = Vocabulary(TOKENS)
    text = "<ask>aab, 12\n-3<answer>"
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_the_longest_piece_is_taken():
    vocabulary = Vocabulary(TOKENS)
    assert [vocabulary.tokens[number] for number in vocabulary.encode("ab12")] == ["ab", "12"]


def test_what_is_in_no_token_is_unknown_a_piece_a_character():
    assert Vocabulary(TOKENS).encode("a?!") == [Vocabulary(TOKENS).encode("a")[0], UNKNOWN, UNKNOWN]


def test_samples_come_prompt_by_prompt():
    mind = mind_of()
    said = sampled(mind)
    assert [each.prompt.tolist() for each in said] == [mind.vocabulary.encode(p) for p in PROMPTS for _ in range(3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scored_log_probabilities_are_those_of_sampling(shape):
    mind = mind_of(**shape)
    said = sampled(mind, n=5)
    scores = mind.score(said)
    for row, each in zip(scores.log_probs.detach().numpy(), said, strict=True):
        np.testing.assert_allclose(row[: len(each.tokens)], each.log_probs, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_score_does_not_depend_on_what_else_is_in_the_batch(shape):
    mind = mind_of(**shape)
    said = sampled(mind)
    together = mind.score(said)
    for at, each in enumerate(said):
        alone = mind.score([each])
        length = len(each.tokens)
        torch.testing.assert_close(alone.log_probs[0], together.log_probs[at, :length], atol=1e-4, rtol=0)
        torch.testing.assert_close(alone.entropy[0], together.entropy[at, :length], atol=1e-4, rtol=0)
        torch.testing.assert_close(alone.hidden[0], together.hidden[at, :length], atol=1e-4, rtol=0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_answers_that_share_their_prompt_score_as_each_does_alone(shape):
    mind = mind_of(**shape)
    prompt = np.array(mind.vocabulary.encode("<ask>ab, 12, -3<input>b, ab, 12<answer>"), np.int32)
    texts = ("12, ab", "<answer>12", "ab", "b, b, 12")
    said = [Generation("", prompt, np.array(mind.vocabulary.encode(text), np.int32)) for text in texts]
    together = mind.score(said).log_probs
    for row, each in zip(together, said, strict=True):
        alone = mind.score([each]).log_probs[0]
        torch.testing.assert_close(row[: len(alone)], alone, atol=1e-4, rtol=0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_answer_reads_like_the_same_tokens_in_a_prompt(shape):
    """Marks inside an answer count as they do inside a prompt: what is learned from whole texts holds when writing."""
    mind = mind_of(**shape)
    ids = mind.vocabulary.encode("<ask>ab, 12<answer>ab<input>12, ab")
    cut = mind.vocabulary.encode("<ask>ab, 12<answer>")
    whole, _ = mind.network.read(torch.tensor([ids]), torch.tensor([len(ids)]))
    answer = np.array(ids[len(cut) :], np.int32)
    scores = mind.score([Generation("", np.array(cut, np.int32), answer)])
    torch.testing.assert_close(scores.hidden[0], whole[0, len(cut) - 1 : -1], atol=1e-4, rtol=0)


@torch.no_grad()
def test_what_is_read_stays_right_when_prompts_whose_answers_have_ended_are_dropped():
    """One prompt of many goes on: the rest is cut away between two tokens."""
    mind = mind_of(heads=4, matching=2)
    ids, lengths = padded([mind.vocabulary.encode(text) for text in PROMPTS])
    _, prompts = mind.network.read(ids, lengths)
    past = Past(mind.network, prompts, 1)
    first, then = torch.tensor([[[4]], [[4]], [[4]]]), torch.tensor([[[10]]])
    mind.network.follow(first, torch.ones_like(first, dtype=torch.bool), prompts, past)
    kept = torch.tensor([False, True, False])
    past.keep(kept)
    cut = mind.network.follow(then, torch.ones_like(then, dtype=torch.bool), prompts.keep(kept), past)
    said = Generation("", ids[1, : lengths[1]].numpy().astype(np.int32), np.array([4, 10, END], np.int32))
    torch.testing.assert_close(cut[0, 0, 0], mind.score([said]).hidden[0, 2], atol=1e-4, rtol=0)


def test_matching_finds_the_same_token_and_what_stands_behind_it():
    mind = mind_of(heads=4, matching=2)
    ids = torch.tensor([[5, 6, 7, 5]])
    line = torch.cat([torch.zeros((1, 2), dtype=torch.long), ids], 1)
    same = mind.network._same(ids, line)
    assert same is not None
    # From the last token: itself and the first; what is one place behind the first, and two.
    assert same[0, :, 3].tolist() == [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]


def test_a_head_attends_to_what_matching_favours():
    """From the second `a`, the token behind the first counts for more in a head whose favour is large."""
    mind = mind_of(matching=1, layers=1, heads=4)
    (block,) = mind.network.blocks
    assert isinstance(block, Block)
    assert block.favours is not None
    ids, lengths = torch.tensor([mind.vocabulary.encode("ab, 12ab")]), torch.tensor([4])
    read = []
    for favour in (0.0, 50.0):
        with torch.no_grad():
            block.favours.zero_()
            block.favours.view(4, 2)[:, 1] = favour
        read.append(mind.network.read(ids, lengths)[0])
    told, asked = ids.clone(), 3
    told[0, 1] = mind.vocabulary.encode("b")[0]  # what stands behind the first one is another
    with torch.no_grad():
        other = mind.network.read(told, lengths)[0]
    moved = (other - read[1])[0, asked].norm()
    with torch.no_grad():
        block.favours.zero_()
        unfavoured = (mind.network.read(told, lengths)[0] - read[0])[0, asked].norm()
    assert moved > 2 * unfavoured > 0


def test_equal_seeds_give_equal_texts_whatever_torch_has_drawn():
    mind = mind_of()
    first = [each.text for each in sampled(mind)]
    torch.manual_seed(99)
    assert [each.text for each in sampled(mind)] == first
    assert [each.text for each in sampled(mind, seed=1)] != first


def test_greedy_is_the_likeliest_token_each_time():
    mind = mind_of()
    for each in sampled(mind, n=1, greedy=True):
        scores = mind.score([each])
        logits = mind.network.logits(scores.hidden[0])
        logits[:, 0] = -torch.inf
        assert logits.argmax(-1).tolist() == each.tokens.tolist()


def test_sampling_follows_the_distribution():
    mind = mind_of(max_tokens=1)
    said = mind.sample(["<ask>a<answer>"], 4000, np.random.default_rng(0))
    seen = np.bincount([int(each.tokens[0]) for each in said], minlength=len(mind.vocabulary)) / len(said)
    hidden = mind.score(said[:1]).hidden[0, 0]
    logits = mind.network.logits(hidden)
    logits[0] = -torch.inf
    assert np.abs(seen - logits.softmax(-1).detach().numpy()).max() < 0.03


def test_an_answer_that_ends_holds_its_end_and_one_that_is_cut_says_so():
    said = sampled(mind_of(), n=50)
    assert {each.finished for each in said} == {True, False}
    for each in said:
        assert (each.tokens[-1] == END) is np.bool_(each.finished)
        assert END not in each.tokens[:-1]


def test_a_prompt_that_leaves_no_room_stays_unanswered():
    mind, room = mind_of(), LONGEST - 12
    first, *full = mind.sample(["a" * room, "a" * (room + 1)], 2, np.random.default_rng(0))[1:]
    assert len(first.tokens) > 0
    assert [(each.text, len(each.tokens), each.finished) for each in full] == [("", 0, False)] * 2


def test_an_answer_moves_to_another_prompt_only_where_it_fits():
    mind = mind_of()
    said = Generation("aa", tokens=np.array(mind.vocabulary.encode("aa"), np.int32))
    assert len(mind.answering("b" * (LONGEST - 2), said).tokens) == 2
    assert len(mind.answering("b" * (LONGEST - 1), said).tokens) == 0


def test_pieces_hold_every_generation_once(monkeypatch):
    monkeypatch.setattr("autotelic.minds.tiny.mind._AREA", 400)
    mind = mind_of()
    said = sampled(mind, n=4)
    pieces = list(mind.pieces(said))
    assert sorted(at for piece in pieces for at in piece) == list(range(len(said)))
    assert len(pieces) > 1


def test_answers_that_are_short_beside_their_prompt_are_scored_together(monkeypatch):
    monkeypatch.setattr("autotelic.minds.tiny.mind._AREA", 40)
    mind = mind_of(max_tokens=1)
    said = sampled(mind, n=4)
    pieces = list(mind.pieces(said))
    assert len(pieces) > 1
    homes = {said[at].prompt.tobytes(): number for number, piece in enumerate(pieces) for at in piece}
    assert all(homes[said[at].prompt.tobytes()] == number for number, piece in enumerate(pieces) for at in piece)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_gradient_reaches_every_weight(shape):
    mind = mind_of(**shape)
    mind.score(sampled(mind)).log_probs.sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in mind.parameters())


def test_state_brings_back_the_same_mind():
    mind, other = mind_of(), mind_of()
    with torch.no_grad():
        for weight in mind.parameters():
            weight.add_(0.1)
    other.load_state(mind.state())
    assert [each.text for each in sampled(other)] == [each.text for each in sampled(mind)]


def babble(rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
    letters = rng.integers(0, 2, (count, 3))
    return [(f"<ask>{'ab'[x]}<answer>", f"{'ab'[y]}, {'ab'[z]}") for x, y, z in letters]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "autotelic" / "minds"


def trained(**config) -> TinyMind:
    small: dict[str, Any] = {"width": 32, "heads": 2, "layers": 1, "max_tokens": 12, "base_steps": 150}
    return TinyMind.for_world(TinyConfig(**small | config), TOKENS, babble)


def test_base_weights_speak_in_the_form_of_the_babble(cache):
    said = trained().sample(["<ask>a<answer>"], 40, np.random.default_rng(0))
    formed = [each.text in {"a, a", "a, b", "b, a", "b, b"} for each in said]
    assert np.mean(formed) > 0.8


def test_base_weights_are_trained_once_and_kept(cache, monkeypatch):
    first = trained()
    monkeypatch.setattr(base, "train_base", None)  # would fail if it were called
    torch.testing.assert_close(trained().state(), first.state())


def test_other_babble_means_other_base_weights(cache):
    first = trained(base_steps=10)
    TinyMind.for_world(first.config, TOKENS, lambda rng, count: [("<ask>a<answer>", "b")] * count)
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("other", [{"heads": 4}, {"loops": 2}, {"heads": 4, "matching": 1}, {"base_steps": 11}])
def test_another_network_means_other_base_weights(cache, other):
    trained(base_steps=10)
    trained(**{"base_steps": 10} | other)
    assert len(list(cache.iterdir())) == 2


def test_making_a_mind_leaves_the_random_numbers_of_others_alone():
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    mind_of()
    assert torch.equal(torch.rand(2), wanted)


def test_weights_of_another_shape_are_one_line():
    with pytest.raises(UserError, match="another shape"):
        mind_of().load_state(mind_of(layers=1).state())


def test_damaged_base_weights_are_made_again(cache):
    first = trained()
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes()[:100])
    torch.testing.assert_close(trained().state(), first.state())


def test_base_log_probs_stay_those_of_the_base_when_the_mind_changes(cache):
    mind = trained()
    said = sampled(mind)
    before = mind.score(said).log_probs.detach()
    with torch.no_grad():
        for weight in mind.parameters():
            weight.mul_(1.1)
    torch.testing.assert_close(mind.base_log_probs(said), before)


def test_a_world_without_tokens_is_refused():
    with pytest.raises(UserError, match="brief wording"):
        TinyMind.for_world(TinyConfig(), (), babble)


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 30, "heads": 4},
        {"layers": 0},
        {"max_tokens": 4000},
        {"temperature": 0.0},
        {"matching": -1},
        {"matching": 3},
    ],
)
def test_a_shape_that_cannot_be_is_one_line(wrong):
    with pytest.raises(UserError):
        TinyConfig(**wrong)


def test_prompts_are_answered_side_by_side(monkeypatch):
    torch.set_num_threads(2)
    mind = mind_of()
    both, write = threading.Barrier(2, timeout=20), mind._write
    monkeypatch.setattr(mind, "_write", lambda *given: (both.wait(), write(*given))[1])
    assert len(sampled(mind, n=1)) == len(PROMPTS)


def test_running_out_of_memory_while_it_writes_is_one_line(monkeypatch):
    mind = mind_of()

    def exhaust(*_) -> None:
        raise MemoryError

    monkeypatch.setattr(mind, "_write", exhaust)
    with pytest.raises(UserError, match=r"^out of memory while generating: lower max_tokens$"):
        sampled(mind)
