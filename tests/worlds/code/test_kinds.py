"""Prompts: they carry what they should and never the answer."""

import pytest

from autotelic.errors import UserError
from autotelic.worlds.base import Request, Task
from autotelic.worlds.code.kinds import CodeKind, KindConfig, load_kinds
from autotelic.worlds.code.kinds.base import RefusedError, read_answer, read_blocks
from autotelic.worlds.code.kinds.deduction import Deduction
from autotelic.worlds.code.sandbox import values

KINDS = load_kinds(["deduction", "abduction", "induction"], KindConfig())
SINGLE = {
    "program": "def f(a):\n    return a + 4000",
    "input": values.encode((111,)),
    "output": values.encode(4111),
    "key": "k",
}
PAIRS = {
    "program": "def f(a):\n    return secret(a)",
    "inputs": [values.encode((100 + k,)) for k in range(10)],
    "outputs": [values.encode(7000 + k) for k in range(10)],
    "shown": 5,
    "message": "a hint",
    "key": "k",
}
TASKS = {
    "deduction": Task("id-d", "code", "deduction", SINGLE),
    "abduction": Task("id-a", "code", "abduction", SINGLE),
    "induction": Task("id-i", "code", "induction", PAIRS),
}


def test_the_deduction_prompt_has_program_and_input_but_not_the_output():
    prompt = KINDS["deduction"].solve_prompt(TASKS["deduction"])
    assert "a + 4000" in prompt
    assert "f(111)" in prompt
    assert "4111" not in prompt


def test_the_abduction_prompt_has_program_and_output_but_not_the_input():
    prompt = KINDS["abduction"].solve_prompt(TASKS["abduction"])
    assert "a + 4000" in prompt
    assert "4111" in prompt
    assert "f(111)" not in prompt
    assert "111" not in prompt.replace("4111", "")


def test_the_induction_prompt_has_the_shown_pairs_only():
    prompt = KINDS["induction"].solve_prompt(TASKS["induction"])
    assert "secret" not in prompt
    assert "a hint" in prompt
    for k in range(10):
        assert (f"f({100 + k})" in prompt) == (k < 5)
        assert (str(7000 + k) in prompt) == (k < 5)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_propose_prompt_carries_references_and_context(kind):
    request = Request(
        kind,
        references=(TASKS[kind], TASKS[kind]),
        difficulty=0.5,
        wanted={"depth": 2.0, "branches": 1.25},
        recent=("recent-1", "recent-2"),
        outcomes={"exception": 3, "admitted": 9},
        lately={"": 0.42},
    )
    prompt = KINDS[kind].propose_prompt(request)
    for part in (
        "Reference 2",
        "50 %",
        "branches 1.25, depth 2",
        "recent-2",
        "exception 3",
        "admitted 9",
        "succeeded lately: 42 %.",
        TASKS[kind].spec["program"],
    ):
        assert part in prompt
    assert "Reference" not in KINDS[kind].propose_prompt(Request(kind))


def test_the_induction_proposer_sees_the_program_it_builds_on():
    prompt = KINDS["induction"].propose_prompt(Request("induction", base=TASKS["deduction"]))
    assert "a + 4000" in prompt


def test_induction_references_may_be_tasks_of_pairs_alone():
    task = Task("id", "code", "induction", {**PAIRS, "program": None})
    assert "Reference 1" in KINDS["induction"].propose_prompt(Request("induction", references=(task,)))


def test_blocks_are_read_line_by_line():
    text = "talk\n```python\ndef f(a):\n    return a\n```\nmore\n```input\n1\n```\n```message\nunclosed"
    assert read_blocks(text) == [("python", "def f(a):\n    return a"), ("input", "1")]


def test_text_over_the_bound_is_not_read():
    for read in (read_blocks, read_answer):
        with pytest.raises(RefusedError, match="longer"):
            read("x" * (1 << 21))


def test_a_kind_without_right_answers_says_so_and_shows_no_examples():
    class Open(Deduction):
        name = "open"
        worked, true_answer = CodeKind.worked, CodeKind.true_answer

    kind = Open(KindConfig())
    assert (kind.propose_examples(), kind.solve_examples()) == ([], [])
    with pytest.raises(UserError, match=r"^tasks of the kind open come without right answers"):
        kind.true_answer(SINGLE)
