"""The small language: random programs are typed, bounded, of the depth asked for, and of one fixed surface."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from autotelic.worlds.code import inference, language, programs
from autotelic.worlds.code.sandbox import Job, values

TOKENS = re.compile(
    r"\n(?:    )*|def f\(x\):|return|for|in|if|else|not|[xyzwi]\b|\d|'[a-h]'|len|sum|max|min|sorted|[-+*%<>=,:()\[\]]| "
)
REACH = {"int": ("int", "bool"), "list": ("int", "list", "bool"), "str": ("int", "str", "bool")}


@pytest.fixture(scope="module")
def written():
    rng = np.random.default_rng(5)
    return [(depth, language.random_program(rng, depth)) for depth in (1, 2, 3, 4) for _ in range(150)]


def test_random_programs_have_the_depth_asked_for(written):
    assert all(language.depth(program.program) == depth for depth, program in written)


def test_the_surface_is_made_of_a_small_vocabulary(written):
    for _, program in written:
        assert TOKENS.sub("", program.program) == "", program.program
    assert len({token for _, program in written for token in TOKENS.findall(program.program)}) < 60


def test_programs_are_varied(written):
    counts = Counter(programs.canonical_form(program.program) for _, program in written)
    assert len(counts) > 400
    assert {program.gives for _, program in written} == set(language.TYPES)
    assert any("for i in" in program.program for _, program in written)
    assert any("else:" in program.program for _, program in written)


def test_inferred_types_are_those_of_the_generator(written):
    for _, program in written:
        assert inference.output_type(program.program, program.takes) == program.gives, program.program
        assert program.takes in inference.input_types(program.program, program.gives)


def test_random_programs_run_small_and_depend_on_their_input(written, sandbox):
    rng = np.random.default_rng(6)
    panels = [language.distinct_inputs(rng, program.takes, 10) for _, program in written]
    jobs = [
        Job(program.program, tuple(values.encode(arguments) for arguments in panel))
        for (_, program), panel in zip(written, panels, strict=True)
    ]
    results = sandbox.run(jobs)
    plain = 0
    for (_, program), panel, outcomes in zip(written, panels, results, strict=True):
        assert all(outcome.ok for outcome in outcomes), (program.program, [str(outcome) for outcome in outcomes])
        for outcome in outcomes:
            assert language.type_of(outcome.value) == program.gives, program.program
            assert len(outcome.encoded) < 200
        constant = len({outcome.encoded for outcome in outcomes}) == 1
        identity = all(outcome.value == arguments[0] for outcome, arguments in zip(outcomes, panel, strict=True))
        plain += constant or identity
    assert plain < 0.12 * len(written)


@pytest.mark.parametrize(("takes", "gives"), [(takes, gives) for takes, all_ in REACH.items() for gives in all_])
def test_types_asked_for_are_given(takes, gives):
    rng = np.random.default_rng(7)
    program = language.random_program(rng, 3, takes, gives)
    assert (program.takes, program.gives) == (takes, gives)


def test_a_type_out_of_reach_gives_a_program_all_the_same():
    assert language.random_program(np.random.default_rng(7), 3, "int", "str").gives in REACH["int"]


def test_the_same_generator_state_writes_the_same_program():
    first, second = (language.random_program(np.random.default_rng(3), 4) for _ in range(2))
    assert first == second


def test_types_outside_the_language_are_unknown():
    assert inference.output_type("def f(x):\n    return {x}", "int") is None
    assert inference.output_type("not python", "int") is None
    assert inference.output_type("def f(x):\n    return x + [1]", "int") is None
    assert inference.output_type("def f(x):\n    return max(x, 3)", "list") is None
    assert inference.output_type("def f(x):\n    return x < 3", "str") is None
    assert language.type_of(["a"]) is None
    assert language.type_of(1.5) is None


def test_the_documented_depths_are_true():
    page = (Path(__file__).parents[3] / "docs" / "language.md").read_text()
    rows = re.findall(r"^\| `(return .*)` \| (\d) \|$", page, re.MULTILINE)
    assert len(rows) >= 6
    for body, depth in rows:
        assert language.depth(f"def f(x):\n    {body}") == int(depth), body


@pytest.mark.parametrize("type_name", language.TYPES)
def test_guesses_at_outputs_have_the_type_and_go_beyond_inputs(type_name):
    rng = np.random.default_rng(0)
    guesses = [language.random_output(rng, type_name) for _ in range(300)]
    assert {language.type_of(guess) for guess in guesses} == {type_name}
    assert type_name == "bool" or {repr(guess) for guess in guesses} - {
        repr(language.random_value(rng, type_name)) for _ in range(5000)
    }
