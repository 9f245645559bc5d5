"""The brief wording: few words, all of them known, that stand for whole tasks and controllers."""

import ast
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.minds.tiny.vocabulary import UNKNOWN, Vocabulary
from autotelic.worlds.arm import brief, tasks
from autotelic.worlds.base import KINDS, Request

CALLS = st.lists(
    st.sampled_from(sorted(brief.ALONE)).map(lambda word: [word])
    | st.tuples(st.sampled_from(sorted(brief.WITH_NAME)), st.sampled_from([*brief.NAMES, *tasks.FIXTURES])).map(list),
    max_size=6,
).map(lambda rows: brief.worded([word for row in rows for word in row]))


@given(CALLS)
def test_every_sentence_of_call_words_is_a_program_from_which_it_can_be_read_again(calls: str):
    program = brief.program_of(calls)
    ast.parse(program)
    assert brief.calls_of(program) == calls


@pytest.mark.parametrize("text", [" fly", " move", " move close", " red_box", "def f(): pass"])
def test_what_is_no_sentence_is_no_program(text: str):
    assert "execute_controller" not in brief.program_of(text)


def test_babble_is_made_of_known_tokens_and_is_short(world):
    vocabulary = Vocabulary(world.tokens)
    texts = world.babble(np.random.default_rng(3), 300)
    prompts, replies = ([vocabulary.encode(text) for text in side] for side in zip(*texts, strict=True))
    assert not any(UNKNOWN in ids for ids in (*prompts, *replies))
    assert max(map(len, prompts)) <= 40
    assert max(map(len, replies)) <= 24
    assert len(vocabulary) < 80


def test_what_is_rehearsed_has_no_random_answers_to_questions(world):
    prompts = [prompt for prompt, _ in world.rehearsal(np.random.default_rng(0), 200)]
    heads = Counter(
        "propose" if prompt.startswith(brief.PROPOSE) else prompt.partition(">")[0][1:] for prompt in prompts
    )
    assert len(prompts) == 200
    assert heads.keys() == {"propose", "induction"}
    assert heads["induction"] > 30


def test_babble_speaks_of_every_kind_in_both_roles(world):
    heads = {prompt.partition(" ")[0] for prompt, _ in world.babble(np.random.default_rng(1), 60)}
    assert heads == {f"<{kind}>" for kind in KINDS} | {f"<propose><{kind}><answer>" for kind in KINDS}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_babbled_as_a_control_task_is_one(world, seed: int):
    rng = np.random.default_rng(seed)
    prompt = ""
    while not prompt.startswith("<propose>"):
        prompt, reply = brief.babble("induction", rng)
    text = world.kinds["induction"].expand_proposal(reply, Request("induction"))
    task = tasks.read(tasks.parse(text))
    assert [each.plain() for each in task.goal] == sorted(brief.read_goal(reply.partition(brief.SCENE)[0]))


def test_a_goal_of_words_is_read_back():
    assert brief.read_goal(" on red_box blue_box open drawer at red_box left") == [
        ["on", "red_box", "blue_box"],
        ["open", "drawer"],
        ["at", "red_box", "left"],
    ]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*brief.tokens(KINDS)]), max_size=24).map("".join), st.sampled_from(KINDS))
def test_any_reply_at_all_expands_to_a_text(world, reply: str, name: str):
    kind = world.kinds[name]
    assert isinstance(kind.expand_proposal(reply, Request(name)), str)
    assert isinstance(kind.expand_answer(reply), str)
