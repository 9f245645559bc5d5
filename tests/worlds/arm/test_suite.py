"""The held-out suite, and tasks from a user's file."""

import json
from collections import Counter

import pytest

from autotelic.errors import UserError
from autotelic.worlds.arm import suite, suite_questions
from autotelic.worlds.arm.goals import FAMILIES
from autotelic.worlds.arm.library import SEEDS
from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig
from autotelic.worlds.base import Proposal, Rejection


@pytest.fixture
def small(monkeypatch):
    """A suite of a few tasks, made as the whole one is."""
    monkeypatch.setattr(suite, "CONTROL", 2)
    monkeypatch.setattr(suite, "_BATCH", 6)
    monkeypatch.setattr(suite, "QUESTIONS", 2)
    for name in ("DEDUCTION", "ABDUCTION"):
        monkeypatch.setattr(suite_questions, name, "\n".join(getattr(suite_questions, name).split("\n")[:3]))


def test_the_suite_has_each_family_and_kind_and_is_the_same_each_time(world, small):
    tasks = suite.build_suite(world)
    assert Counter(map(world.row_of, tasks)) == dict.fromkeys((*FAMILIES, "deduction", "abduction"), 2)
    assert suite.build_suite(world) == tasks


def test_the_whole_suite_is_large_enough():
    assert suite.CONTROL * len(FAMILIES) >= 200
    assert suite.CONTROL >= 28
    for stored in (suite_questions.DEDUCTION, suite_questions.ABDUCTION):
        lines = [line for line in stored.split("\n") if line]
        assert len(set(lines)) == len(lines) >= suite.QUESTIONS == 100


def test_questions_are_looked_for_in_all_colours(world, small, monkeypatch):
    monkeypatch.setattr(suite, "SPARE", 4)
    monkeypatch.setattr(suite, "SHARE", 1.0)
    found = " ".join(suite.find_questions(world, "deduction"))
    assert all(f" {color}_" in found for color in ("red", "green", "blue", "yellow"))


def test_a_task_of_the_suite_is_refused_as_a_proposal(world, small):
    with ArmWorld(ArmWorldConfig(workers=1)) as other:
        other.suite = tasks = suite.build_suite(world)
        for task in tasks:
            (result,) = other.admit([other.restate(task.kind, task.spec)], 1)
            assert isinstance(result, Rejection)
            assert result.outcome == "heldout"


def written(path, *rows) -> str:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_a_users_tasks_are_read_in_their_order(world, tmp_path):
    reach = json.loads(SEEDS["induction"])
    asked = {"objects": ["red_box"], "ask": [["near", "red_box"]], "object": "red_box"}
    program = "def execute_controller(robot, world):\n    robot.move_to(world.position('red_box'))"
    rows = [{"kind": "deduction", "question": asked, "controller": program}, {"kind": "induction", "task": reach}]
    tasks = world.load_suite(written(tmp_path / "own.jsonl", *rows, ""))
    assert [task.kind for task in tasks] == ["deduction", "induction"]
    assert tasks[1] == world.admit([Proposal("induction", SEEDS["induction"])], 1)[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", r"own.jsonl:2: not JSON"),
        ("[]", r"own.jsonl:2: not a JSON object"),
        ('{"kind": "riddle"}', r"own.jsonl:2: kind is 'riddle', not one of deduction"),
        ('{"kind": "induction"}', r"own.jsonl:2: a line of induction has kind, task, and nothing else"),
        ('{"kind": "induction", "task": {"objects": ["red_banana"]}}', r"own.jsonl:2: unknown: no shape 'banana'"),
        ('{"kind": "induction", "task": {"goal": [["near", "x"]]}}', r"own.jsonl:2: format: nothing on the table"),
        ('{"kind": "deduction", "question": {}, "controller": 1}', r"own.jsonl:2: controller is no text"),
    ],
)
def test_a_mistake_in_a_users_file_is_one_line_that_says_where(world, tmp_path, line: str, words: str):
    path = written(tmp_path / "own.jsonl", {"kind": "induction", "task": json.loads(SEEDS["induction"])}, line)
    with pytest.raises(UserError, match=words) as found:
        world.load_suite(path)
    assert "\n" not in str(found.value)


def test_an_empty_file_and_a_missing_one_are_one_line(world, tmp_path):
    with pytest.raises(UserError, match="no tasks"):
        world.load_suite(written(tmp_path / "own.jsonl", ""))
    with pytest.raises(UserError, match="no such file"):
        world.load_suite(tmp_path / "none.jsonl")
