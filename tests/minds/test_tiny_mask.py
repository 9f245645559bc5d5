"""The tiny mind with `mask`: it writes only what keeps the form of the world's texts, and scores as it samples."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from autotelic.minds.base import Generation
from autotelic.minds.tiny.form import Form
from autotelic.minds.tiny.mind import TinyConfig, TinyMind, _chosen
from autotelic.minds.tiny.vocabulary import END, Vocabulary
from autotelic.testing import check_mind
from autotelic.worlds.code import brief

TOKENS = ("<item>", "<count>", "<input>", "<answer>", "a", "b", ", ", "(", ")", "'", "1", "2", "-3", "\n")
PROMPTS = ["<item>a<answer>", "<item>(a, (b))<answer>", "<count>'ab'<answer>"]
OTHER = "<input>a<answer>"  # asks for what no text of the world asks for

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "autotelic" / "minds"


def item(rng: np.random.Generator, depth: int = 0) -> str:
    if depth < 2 and rng.random() < 0.4:
        return f"({', '.join(item(rng, depth + 1) for _ in range(rng.integers(1, 4)))})"
    if rng.random() < 0.3:
        return f"'{''.join('ab'[k] for k in rng.integers(0, 2, rng.integers(0, 3)))}'"
    return "ab"[rng.integers(0, 2)]


def babble(rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
    """Asked for an item: an item and two numbers. Asked for a count: one number."""
    texts = []
    for at in range(count):
        one, two = rng.integers(1, 3, 2)
        texts.append(
            (f"<item>{item(rng)}<answer>", f"{item(rng)}<input>{one}<input>{two}")
            if at % 2
            else (f"<count>{item(rng)}<answer>", f"{one}")
        )
    return texts


def well_formed(said: Generation) -> bool:
    number = "(1|2|-3)"
    text = re.sub("'[ab]*'|b", "a", said.text)
    while (simpler := re.sub(r"\(a(, a)*\)", "a", text)) != text:
        text = simpler
    counting = said.prompt[0] == Vocabulary(TOKENS).encode("<count>")[0]
    return re.fullmatch(number if counting else f"a<input>{number}<input>{number}", text) is not None


def mind_of(**config) -> TinyMind:
    """Its base weights know next to nothing, unless told otherwise."""
    small: dict[str, Any] = {"width": 32, "heads": 2, "layers": 1, "max_tokens": 40, "base_steps": 1, "mask": True}
    return TinyMind.for_world(TinyConfig(**small | config), TOKENS, babble)


def sampled(mind: TinyMind, n: int = 5, prompts: list[str] = PROMPTS, **how) -> list[Generation]:
    return mind.sample(prompts, n, np.random.default_rng(0), **how)


def written(mind: TinyMind, prompt: str, text: str) -> Generation:
    tokens = [*mind.vocabulary.encode(text), END]
    return Generation(text, mind.encode(prompt), np.array(tokens, np.int32))


@pytest.mark.parametrize("n", [1, 8])
def test_every_text_that_ends_is_well_formed_however_little_the_mind_knows(n):
    # Many prompts whose answers end at different times: rows are dropped on the way.
    said = sampled(mind_of(), n, PROMPTS * 40)
    ended = [each for each in said if each.finished]
    assert len(ended) > 0.5 * len(said)
    assert all(map(well_formed, ended))
    assert {"(" in each.text for each in ended} == {"'" in each.text for each in ended} == {True, False}


def test_greedy_texts_keep_the_form_too():
    mind = mind_of()
    for each in sampled(mind, 1, greedy=True):
        table = torch.from_numpy(each.tokens[None].astype(np.int64))
        assert mind._form is not None
        assert mind._form.places([each.prompt], table).all()


def test_more_texts_of_a_mind_that_knows_some_are_well_formed():
    def share(mask: bool) -> float:
        said = sampled(mind_of(mask=mask, base_steps=60), 100)
        return float(np.mean([each.finished and well_formed(each) for each in said]))

    assert 0.1 < share(False) < share(True) - 0.1


def test_scored_log_probabilities_are_those_of_sampling():
    mind = mind_of(temperature=0.8)
    said = sampled(mind)
    for generations in (said, said[::5]):  # answers that share a prompt, and such that do not
        for row, each in zip(mind.score(generations).log_probs.detach().numpy(), generations, strict=True):
            np.testing.assert_allclose(row[: len(each.tokens)], each.log_probs, atol=1e-4)


def test_sampling_follows_what_is_scored():
    mind = mind_of(max_tokens=1)
    said = mind.sample(["<item>a<answer>"], 4000, np.random.default_rng(0))
    starts = ["a", "b", "(", "'"]
    tokens = [mind.vocabulary.encode(text)[0] for text in starts]
    seen = np.bincount([int(each.tokens[0]) for each in said], minlength=len(mind.vocabulary))[tokens] / len(said)
    scored = mind.score([written(mind, "<item>a<answer>", text) for text in starts]).log_probs[:, 0].exp()
    assert seen.sum() == 1
    assert np.abs(seen - scored.detach().numpy()).max() < 0.03


def test_probabilities_of_what_is_allowed_sum_to_one():
    mind = mind_of()
    ways = {"<count>a<answer>": ["1", "2", "-3"], "<item>a<answer>": ["a", "b", "(", "'"]}
    for prompt, starts in ways.items():
        scores = mind.score([written(mind, prompt, start) for start in starts])
        probabilities = scores.log_probs[:, 0].exp()
        torch.testing.assert_close(probabilities.sum(), torch.tensor(1.0))
        entropy = -(probabilities * probabilities.log()).sum()
        torch.testing.assert_close(scores.entropy[:, 0], entropy.expand(len(starts)))


def test_where_only_one_token_may_follow_nothing_is_left_to_chance():
    mind = mind_of()
    scores = mind.score([written(mind, "<count>a<answer>", "2")])
    assert scores.log_probs[0, 1] == 0
    assert scores.entropy[0, 1] == 0


def test_base_log_probs_are_those_of_the_masked_distribution():
    mind = mind_of()
    said = sampled(mind)
    torch.testing.assert_close(mind.base_log_probs(said), mind.score(said).log_probs.detach())


def test_a_number_may_stand_wherever_numbers_were_heard():
    said = sampled(mind_of(), 20, ["<count>a<answer>"])
    assert {each.text for each in said} == {"1", "2", "-3"}  # no text of babble has -3


def test_a_text_that_breaks_the_form_is_scored_from_there_on_as_without_the_mask():
    mind, plain = mind_of(), mind_of(mask=False)
    text = written(mind, "<item>a<answer>", "(a)), b")
    breaks = 3  # at the second closing bracket
    masked, free = mind.score([text]).log_probs[0], plain.score([text]).log_probs[0]
    torch.testing.assert_close(masked[breaks:], free[breaks:])
    assert (masked[:breaks] > free[:breaks]).all()
    masked.sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in mind.parameters())


def test_a_prompt_that_asks_for_something_else_is_answered_as_without_the_mask():
    said, plain = (sampled(mind_of(mask=mask), prompts=[OTHER, "", "a"]) for mask in (True, False))
    assert [each.tokens.tolist() for each in said] == [each.tokens.tolist() for each in plain]
    assert [each.log_probs.tolist() for each in said] == [each.log_probs.tolist() for each in plain]


def test_a_mind_writes_freely_unless_it_is_told_to_mask():
    assert not TinyConfig().mask
    said = sampled(mind_of(mask=False))
    assert not any(map(well_formed, said))


def test_base_weights_are_the_same_with_and_without_the_mask(cache):
    masked = mind_of(base_steps=3)
    torch.testing.assert_close(mind_of(base_steps=3, mask=False).state(), masked.state(), rtol=0, atol=0)
    assert len(list(cache.iterdir())) == 1


def test_a_masked_mind_passes_the_check_of_minds():
    check_mind(mind_of(), PROMPTS)


def of_texts(tokens: tuple[str, ...], *texts: tuple[str, str]) -> TinyMind:
    config = TinyConfig(width=32, heads=2, layers=1, max_tokens=10, base_steps=1, mask=True)
    return TinyMind.for_world(config, tokens, lambda rng, count: [texts[at % len(texts)] for at in range(count)])


def test_a_vocabulary_without_numbers_has_a_form_too():
    mind = of_texts(("<ask>", "<answer>", "a", "b"), ("<ask>ab<answer>", "ab"))
    assert {each.text for each in sampled(mind, prompts=["<ask>a<answer>"])} == {"ab"}


def test_the_last_mark_of_a_prompt_says_what_is_asked_for_too():
    mind = of_texts(("<ask>", "<one>", "<two>", "a", "b", "c"), ("<ask>c<one>", "a"), ("<ask>c<two>", "b"))
    assert [each.text for each in sampled(mind, 2, ["<ask>c<one>", "<ask>c<two>"])] == ["a", "a", "b", "b"]


def test_a_prompt_without_marks_at_its_end_leads_to_no_dead_end():
    """Its last token is one that replies may take over: they must be able to go on."""
    said = sampled(of_texts(("<ask>", "a", "b"), ("<ask>ab", "a")), 20, ["<ask>ab"])
    assert {each.text for each in said} == {"a", "ab"}


def test_a_token_without_probability_is_not_taken_even_by_the_least_number():
    logits = torch.tensor([[-torch.inf, -torch.inf, 0.0, 0.0]])
    chosen, likelihood = _chosen(logits, torch.zeros(1))
    assert chosen.tolist() == [2]
    assert likelihood.isfinite().all()


def keeps_form(spoken: tuple[Vocabulary, Form], prompt: str, reply: str) -> bool:
    vocabulary, form = spoken
    tokens = torch.tensor([[*vocabulary.encode(reply), END]])
    return bool(form.places([np.array(vocabulary.encode(prompt))], tokens).all())


@pytest.mark.parametrize(("reply", "kept"), [("'(a'", True), ("'(((a'", True), ("'((a", False), ("'((a''", False)])
def test_brackets_inside_quotes_are_letters(reply, kept):
    vocabulary = Vocabulary(("<ask>", "(", "a", "'"))
    form = Form(vocabulary, lambda rng, count: [("<ask>", "'((a'")])
    assert keeps_form((vocabulary, form), "<ask>", reply) is kept


# The texts of the code world

KINDS = ("deduction", "abduction", "induction")


def code_babble(rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
    return [brief.babble(KINDS[at % 3], rng, 6) for at in range(count)]


@pytest.fixture(scope="module")
def code() -> tuple[Vocabulary, Form]:
    vocabulary = Vocabulary(brief.tokens(dict.fromkeys(KINDS)))
    return vocabulary, Form(vocabulary, code_babble)


def test_nearly_every_new_text_of_the_code_world_keeps_the_form(code):
    new = code_babble(np.random.default_rng(9), 2000)
    assert np.mean([keeps_form(code, *text) for text in new]) > 0.993


@pytest.mark.parametrize(
    ("prompt", "reply"),
    [
        ("<deduction>def f(x):\n    return x<input>3<answer>", "-20"),
        ("<deduction>def f(x):\n    return x<input>3<answer>", "[19, -4, 20, 1, 2, 3, 4, 5]"),
        ("<deduction>def f(x):\n    return x<input>3<answer>", "''"),
        ("<propose><induction>def f(x):\n    return x<answer>", "<input>".join("123456")),
        ("<induction><input>1<output>2<answer>", "def f(x):\n    y = x + 1\n    return y"),
    ],
)
def test_true_answers_keep_the_form_of_the_code_world(code, prompt, reply):
    assert keeps_form(code, prompt, reply)


@pytest.mark.parametrize(
    ("prompt", "reply"),
    [
        ("<deduction>def f(x):\n    return x<input>3<answer>", "[1, 2"),
        ("<deduction>def f(x):\n    return x<input>3<answer>", "'ab"),
        ("<deduction>def f(x):\n    return x<input>3<answer>", "3<input>4"),
        ("<abduction>def f(x):\n    return x<output>3<answer>", "def f(x):\n    return x"),
        ("<propose><deduction><answer>", "def f(x):\n    return x + 1"),
        ("<propose><deduction><answer>", "def f(x):\n    return (x + 1<input>3"),
        ("<propose><deduction><answer>", "def f(x):\n    return x + 1)<input>3"),
        ("<propose><deduction><answer>", "def f(x):\n    y = x + 1:\n        y = x - 1\n    return y<input>3"),
        ("<propose><deduction><answer>", "def f(x):\n    y = x + 1\n    return y = x + 1<input>3"),
        ("<propose><induction>def f(x):\n    return x<answer>", "<input>".join("12345")),
    ],
)
def test_broken_texts_do_not_keep_the_form_of_the_code_world(code, prompt, reply):
    assert not keeps_form(code, prompt, reply)
