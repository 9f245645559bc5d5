"""The standard suite's promises, its cache, and a user's own tasks."""

import json
from collections import Counter
from pathlib import Path

import pytest

from autotelic.errors import UserError
from autotelic.worlds.base import Answer, Proposal
from autotelic.worlds.code import suite
from autotelic.worlds.code.kinds.base import answer_text, arguments_of, show_arguments, show_value
from autotelic.worlds.code.sandbox import values
from autotelic.worlds.code.world import CodeWorld, CodeWorldConfig


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def world(cache):
    with pytest.MonkeyPatch.context() as patch, CodeWorld(CodeWorldConfig()) as opened:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield opened


def test_every_kind_has_the_same_number_of_tasks_at_every_depth(world):
    counts = Counter((task.kind, task.features["depth"]) for task in world.suite)
    assert counts == {(kind, depth): 80 for kind in suite.KINDS for depth in (1.0, 2.0, 3.0, 4.0)}
    assert len({task.id for task in world.suite}) == len(world.suite)


def test_no_answer_stands_for_more_than_a_tenth_of_a_kind(world):
    for kind, part in (("deduction", "output"), ("abduction", "input")):
        answers = Counter(task.spec[part] for task in world.suite if task.kind == kind)
        assert max(answers.values()) <= 0.1 * answers.total()


def test_no_task_is_constant_or_the_identity(world):
    for task in world.suite:
        if task.kind == "induction":
            outputs, inputs = task.spec["outputs"], task.spec["inputs"]
            assert len(set(outputs)) > 1
            arguments = [values.encode(arguments_of(given)[0]) for given in inputs]
            assert arguments != outputs
        else:
            assert values.encode(arguments_of(task.spec["input"])[0]) != task.spec["output"]


def test_the_gold_answers_of_the_suite_are_right(world):
    answers = {"deduction": "output", "abduction": "input"}
    pairs = []
    for task in world.suite[::7]:
        if task.kind == "induction":
            body = task.spec["program"]
        else:
            encoded = task.spec[answers[task.kind]]
            body = show_value(encoded) if task.kind == "deduction" else show_arguments(encoded)
        pairs.append((task, Answer(answer_text(body))))
    assert all(verdict.solved for verdict in world.judge(pairs, 5))


def test_a_suite_task_proposed_is_rejected_as_heldout(world):
    task = world.suite[0]
    text = world.kinds["deduction"].compose(task.spec["program"], [arguments_of(task.spec["input"])])
    (result,) = world.admit([Proposal("deduction", text)], 1)
    assert getattr(result, "outcome", "task") == "heldout"


def test_the_cache_gives_the_same_suite_and_a_damaged_one_is_made_again(world, cache, monkeypatch):
    first = world.suite
    (path,) = (cache / "autotelic").glob("suite-*.json")
    whole = path.read_text()
    monkeypatch.setattr(suite, "build_suite", lambda world: pytest.fail("built although cached"))
    assert suite.standard_suite(world) == first
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    path.write_text(whole[: len(whole) // 2])
    assert suite.standard_suite(world) == first
    assert path.read_text() == whole


GOOD = [
    {"kind": "deduction", "program": "def f(a, b):\n    return a + b", "input": "1, 2", "output": "3"},
    {"kind": "abduction", "program": "def f(a):\n    return a[::-1]", "input": "'ab'", "output": "'ba'"},
    {"kind": "induction", "pairs": [["1", "2"], ["2", "4"], ["3", "6"], ["4", "8"]], "message": "doubles"},
]


def write(path, rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


def test_a_users_tasks_are_read_in_order_and_judged(world, tmp_path):
    tasks = world.load_suite(write(tmp_path / "own.jsonl", [GOOD[0], "", GOOD[2], GOOD[1]]))
    assert [task.kind for task in tasks] == ["deduction", "induction", "abduction"]
    bodies = ["3", "def f(x):\n    return x * 2", "'ab'"]
    pairs = [(task, Answer(answer_text(body))) for task, body in zip(tasks, bodies, strict=True)]
    assert all(verdict.solved for verdict in world.judge(pairs, 1))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not a JSON object"),
        ({"kind": "riddle"}, "riddle"),
        ({**GOOD[0], "output": "4"}, "gives 3"),
        ({**GOOD[0], "output": 3}, "output"),
        ({**GOOD[0], "input": "1 +"}, "literal"),
        ({**GOOD[0], "program": "def f(a:"}, "syntax"),
        ({**GOOD[0], "program": "def f(a, b):\n    return 1 / 0"}, "exception"),
        ({"kind": "deduction", "program": "def f(a):\n    return a"}, "input"),
        ({"kind": "induction", "pairs": [["1", "2"]]}, "pairs"),
        ({"kind": "induction", "pairs": [["1", "2"], ["1", "2"]]}, "repeated"),
        ({"kind": "induction", "pairs": [["1", "2"], ["2", 3]]}, "output"),
    ],
)
def test_a_bad_line_is_named(world, tmp_path, row, says):
    path = write(tmp_path / "own.jsonl", [GOOD[0], row])
    with pytest.raises(UserError, match=says) as error:
        world.load_suite(path)
    assert "own.jsonl:2:" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_or_empty_file_is_one_line(world, tmp_path):
    for path in (tmp_path / "none.jsonl", write(tmp_path / "empty.jsonl", [""])):
        with pytest.raises(UserError, match=path.name):
            world.load_suite(path)


def test_the_documented_lines_are_a_suite(world, tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "kinds.md").read_text()
    lines = page.split("```jsonl\n")[1].split("```")[0]
    tasks = world.load_suite(write(tmp_path / "docs.jsonl", lines.splitlines()))
    assert [task.kind for task in tasks] == ["deduction", "abduction", "induction"]
