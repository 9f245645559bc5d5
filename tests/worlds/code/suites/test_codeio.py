"""CodeI/O: the fixed suite's promises, how rows become tasks, and what is said when the data is not there."""

import importlib.util
import sys
from collections import Counter

import pytest

from autotelic.errors import UserError
from autotelic.runs.files import content_address
from autotelic.worlds.base import Answer
from autotelic.worlds.code import literals
from autotelic.worlds.code.kinds.base import answer_text, arguments_of, show_arguments, show_value
from autotelic.worlds.code.sandbox import Outcome, values
from autotelic.worlds.code.suites import codeio, data
from autotelic.worlds.code.suites.codeio import RowError, drafted, drawing, renamed
from autotelic.worlds.code.world import CodeWorld, CodeWorldConfig

needs_data = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None, reason="the extra eval is not installed"
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, CodeWorld() as opened:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield opened


@pytest.fixture(scope="module")
def suite(world):
    return world.load_suite("codeio")


@needs_data
def test_the_suite_is_the_published_one(suite):
    assert Counter(task.kind for task in suite) == {"deduction": 200, "abduction": 200}
    assert len({task.spec["program"] for task in suite}) == 400
    assert content_address([task.id for task in suite]) == "3800bc3b9b0ab136fb2ba78a19b3b198"


@needs_data
def test_the_package_with_the_data_is_not_imported(suite):
    assert "reasoning_gym" not in sys.modules


@needs_data
def test_no_deduction_answer_is_often_right(suite):
    outputs = Counter(task.spec["output"] for task in suite if task.kind == "deduction")
    assert outputs.most_common(1)[0][1] <= 5


@needs_data
def test_tasks_fit_into_a_prompt_and_have_no_depth(suite, world):
    assert max(len(world.kinds[task.kind].solve_prompt(task)) for task in suite) < 3000
    assert all("depth" not in task.features for task in suite)
    assert max(len(show_value(task.spec["output"])) for task in suite) <= 200


@needs_data
def test_gold_answers_are_right_and_others_wrong(suite, world):
    chosen = suite[::8]
    bodies = [
        show_value(task.spec["output"]) if task.kind == "deduction" else show_arguments(task.spec["input"])
        for task in chosen
    ]
    right = world.judge([(task, Answer(answer_text(body))) for task, body in zip(chosen, bodies, strict=True)], 1)
    assert all(verdict.solved for verdict in right)
    wrong = world.judge([(task, Answer(answer_text("'no such thing'"))) for task in chosen], 1)
    assert not any(verdict.solved for verdict in wrong)


@needs_data
def test_the_suite_comes_from_the_cache_the_second_time(suite, world, monkeypatch):
    monkeypatch.setattr(world.sandbox, "run", lambda jobs: pytest.fail("made again"))
    assert world.load_suite("codeio") == suite


@needs_data
def test_a_world_without_its_kinds_is_one_line():
    config = CodeWorldConfig(kinds=["induction"])
    with CodeWorld(config) as other, pytest.raises(UserError, match="has tasks of deduction and abduction"):
        other.load_suite("codeio")


def test_a_package_that_is_not_there_is_one_line_that_names_the_extra(world, monkeypatch):
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"suite=codeio needs reasoning_gym.*autotelic\[eval\]"):
        world.load_suite("codeio")


@needs_data
def test_data_of_another_release_is_one_line_that_names_the_right_one(world, monkeypatch):
    monkeypatch.setattr(codeio, "SHA256", "0" * 64)
    with pytest.raises(UserError, match=r"not the file of reasoning-gym==0\.1\.25"):
        world.load_suite("codeio")


PROGRAM = "import math\n\ndef main_solution(low, high=9):\n    # of main_solution\n    return [low, high]\n"
GENERATOR = "def generate_inputs(rng: Random) -> dict:\n    return {'high': rng.randint(5, 9), 'low': math.floor(1.5)}"
ROW = {"code_sample": PROGRAM, "input_generator": GENERATOR}


def test_a_row_is_drawn_in_the_sandbox_and_its_arguments_take_their_places(world):
    ((first, second, again),) = world.sandbox.run([drawing(ROW, [1, 2, 1])])
    assert first == again
    assert first != second
    draft = drafted(ROW, first)
    assert draft.program.source == PROGRAM.replace("main_solution", "f").strip()
    low, high = arguments_of(draft.inputs[0])
    assert (low, 5 <= high <= 9) == (1, True)
    assert drafted(ROW, Outcome("ok", values.encode({"low": 4}))).inputs == (values.encode((4,)),)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("def main_solution(a:", "syntax"),
        ("def main_solution(f):\n    return f", "has a name f already"),
        ("import os\ndef main_solution(a):\n    return a", "forbidden: import os"),
        ("def solution(a):\n    return a", "no_entry"),
    ],
)
def test_a_program_that_is_not_taken_says_why(program, reason):
    with pytest.raises(RowError, match=reason):
        renamed(program)


@pytest.mark.parametrize(
    ("program", "outcome", "reason"),
    [
        (PROGRAM, Outcome("limit", detail="cpu"), "drawing: limit cpu"),
        (PROGRAM, Outcome("ok", "5"), "no arguments by name"),
        (PROGRAM, Outcome("ok", values.encode({"high": 4})), "no place"),
        (PROGRAM, Outcome("ok", values.encode({"low": 4, "height": 4})), "no place"),
        ("def main_solution(*low):\n    return low", Outcome("ok", values.encode({"low": 4})), "no place"),
        ("main_solution = lambda low: low", Outcome("ok", values.encode({"low": 4})), "no arguments by name"),
    ],
)
def test_arguments_that_are_not_taken_say_why(program, outcome, reason):
    with pytest.raises(RowError, match=reason):
        drafted({"code_sample": program}, outcome)


def test_literals_of_a_drawn_input_are_read_back(world):
    ((drawn,),) = world.sandbox.run([drawing(ROW, [3])])
    given = drafted(ROW, drawn).inputs[0]
    assert literals.parse_arguments(show_arguments(given)) == arguments_of(given)
