"""A user's own tasks: what is read, what is refused, and how that is said."""

import itertools
import json
from pathlib import Path

import pytest

from autotelic.errors import UserError
from autotelic.worlds.base import Answer, Proposal
from autotelic.worlds.code.kinds.base import answer_text
from autotelic.worlds.code.sandbox import Outcome
from autotelic.worlds.code.world import CodeWorld, CodeWorldConfig


@pytest.fixture(scope="module")
def world():
    with CodeWorld(CodeWorldConfig()) as opened:
        yield opened


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
        ({**GOOD[2], "message": 7}, "message"),
        ({**GOOD[2], "message": "m" * 2001}, "message"),
        ({**GOOD[2], "pairs": [["1", "2"], ["2", f"'{'b' * 20_001}'"]]}, "size"),
        ({**GOOD[0], "input": f"'{'b' * 20_001}', 2"}, "size"),
    ],
)
def test_a_bad_line_is_named(world, tmp_path, row, says):
    path = write(tmp_path / "own.jsonl", [GOOD[0], row])
    with pytest.raises(UserError, match=says) as error:
        world.load_suite(path)
    assert "own.jsonl:2:" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("factor", "outcome"), [(3, "heldout"), (5, None)])
def test_a_proposal_with_the_pairs_of_a_users_induction_task_is_held_out(tmp_path, factor, outcome):
    with CodeWorld(CodeWorldConfig()) as world:
        inputs = [(number,) for number in range(world.config.kind.inputs)]
        pairs = [[str(number), str(3 * number)] for (number,) in inputs]
        world.withhold(world.load_suite(write(tmp_path / "own.jsonl", [{"kind": "induction", "pairs": pairs}])))
        program = f"def f(a):\n    y = a * {factor} + 1\n    return y - 1"
        text = world.kinds["induction"].compose(program, inputs[::-1], "another message")
        (result,) = world.admit([Proposal("induction", text)], 1)
        assert getattr(result, "outcome", None) == outcome


def test_a_missing_or_empty_file_is_one_line(world, tmp_path):
    for path in (tmp_path / "none.jsonl", write(tmp_path / "empty.jsonl", [""])):
        with pytest.raises(UserError, match=path.name):
            world.load_suite(path)


def test_a_name_that_is_no_file_gives_the_nearest_suite(world):
    with pytest.raises(UserError, match="did you mean codeio"):
        world.load_suite("codoi")


def test_a_file_of_another_editor_is_read(world, tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD[0]).encode() + b"\r\n")
    assert len(world.load_suite(path)) == 1


def test_a_line_that_meets_a_time_limit_on_a_busy_machine_is_tried_again(world, tmp_path, monkeypatch):
    path, calls, run = write(tmp_path / "own.jsonl", GOOD), itertools.count(), world.sandbox.run

    def busy(jobs):
        results = run(jobs)
        return [(Outcome("limit", detail="wall"),) * len(job.inputs) for job in jobs] if next(calls) < 2 else results

    monkeypatch.setattr(world.sandbox, "run", busy)
    assert len(world.load_suite(path)) == 3


def test_the_documented_lines_are_a_suite(world, tmp_path):
    page = (Path(__file__).parents[4] / "docs" / "evaluation.md").read_text()
    lines = page.split("```jsonl file=own.jsonl\n")[1].split("```")[0]
    tasks = world.load_suite(write(tmp_path / "docs.jsonl", lines.splitlines()))
    assert {task.kind for task in tasks} == {"deduction", "abduction", "induction"}
