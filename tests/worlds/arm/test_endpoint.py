"""Self-play in the arm world with a model behind a server: full prompts, real controllers, second looks.

The server keeps to OpenAI's contract: what it says follows from the conversation that a request holds, and from nothing
else. So it mends a controller only if it is told what went wrong.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import autotelic
from autotelic.play.loop import Loop
from autotelic.play.players.mind import CRITICISE
from autotelic.play.records import Attempt, Entry
from autotelic.runs.files import content_address
from autotelic.worlds.arm.controllers import Robot, World, methods
from autotelic.worlds.base import KINDS
from autotelic.worlds.code.kinds.base import fence

from ...chat_server import Handler, Server, answer, completion

OPTIONS = (
    *("world=arm", "world.workers=1", "world.heldout=false", "evaluate=false", "player=endpoint"),
    *("loop.batch=1", "loop.attempts=2", "loop.seeding=2", "loop.references=2", "loop.retries=1", "loop.critiques=2"),
)

CARRY = """\
def execute_controller(robot, world):
    x, y, z = world.position('red_box')
    robot.move_to([x, y, z], above=0.1)
    robot.move_to([x, y, z])
    robot.close_gripper()
    robot.move_to([x, 0.0, z])
    robot.open_gripper()
    return "success"
"""
PICK = """\
def execute_controller(robot, world):
    robot.move_to(world.position('NAME'), above=0.12)
    robot.move_to(world.position('NAME'))
    robot.close_gripper()
    robot.move_to(robot.get_end_effector_position(), above=0.2)
    return "success"
"""
# What it writes first, by choice: two controllers that do not do it, and what a report has to say for it to see why.
BLIND = """\
def execute_controller(robot, world):
    robot.move_to(world.position('NAME'), above=0.12)
    robot.grasp('NAME')
    return "success"
"""
SHORT = """\
def execute_controller(robot, world):
    robot.move_to(world.position('NAME'), above=0.12)
    robot.close_gripper()
    return "success"
"""
MISTAKES = ((BLIND, "no attribute 'grasp'"), (SHORT, "wrong: "))


def picking(name: str) -> str:
    return PICK.replace("NAME", name)


def proposal(kind: str, number: int) -> str:
    """An idea of that number, in Markdown as models write it."""
    if kind == "induction":
        name = ("red_box", "blue_cylinder")[number % 2]
        asked = {"objects": ["red_box", "blue_cylinder"], "goal": [["lifted", name]]}
        blocks = (
            fence("json", json.dumps({**asked, "randomisation": {"position": 0.6}})),
            fence("python", picking(name)),
        )
        return "\n\n".join(["Something has to be picked up:", *blocks])
    things = [
        {"color": "red", "shape": "box", "at": [0.4 + 0.05 * number, 0.2]},
        {"color": "blue", "shape": "cylinder", "at": [0.55, -0.2]},
    ]
    asked = {"ask": [["near", "red_box"]], "object": "blue_cylinder"}
    wanted = asked if kind == "deduction" else {"goal": [["at", "red_box", "middle"]]}
    blocks = fence("json", json.dumps({"objects": things, **wanted})), fence("python", CARRY)
    return "\n\n".join(["The box is carried:", *blocks, "It depends on where things start."])


def controller(program: str, name: str) -> str:
    return f"<think>I take the {name}.</think><answer>\n{program.replace('NAME', name)}</answer>"


def said(turns: list[str], choice: int) -> str:
    """What the model says to a conversation, as one of several choices."""
    question, *talk = turns
    if asked := re.match(r"Write a new task of the kind (\w+)", question):
        return proposal(asked[1], question.count("\nReference "))
    if talk and talk[-1] == CRITICISE:
        return "No: I know of no grasp." if "grasp" in talk[0] else "Yes, all was thought of."
    if question.startswith("Write a controller"):
        name = re.findall(r'"(\w+)"', question.partition("Goal, ")[2].partition("\n")[0])[-1]
        if not talk:
            return controller(MISTAKES[choice][0], name)
        (needed,) = (words for program, words in MISTAKES if talk[0] == controller(program, name))
        return controller(PICK, name) if needed in talk[1] else talk[0]
    if "What holds when it has ended?" in question:
        return "<think>Nothing touches the cylinder.</think><answer>yes right</answer>"
    return '<think>Anywhere.</think><answer>{"red_box": [0.5, -0.2, 0.3], "blue_cylinder": [0.4, 0.2]}</answer>'


def turns_of(body: dict[str, Any]) -> list[str]:
    return [turn["content"] for turn in body["messages"]]


def model(handler: Handler, body: dict[str, Any]) -> None:
    if handler.path == "/v1/models":
        answer(handler, body)
    else:
        handler.reply(200, completion([said(turns_of(body), choice) for choice in range(body.get("n", 1))]))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    serving = Server()
    serving.always = model
    yield serving
    serving.stop()


@dataclass
class Played:
    """A run's first steps, and the conversations that were sent in each."""

    loop: Loop
    figures: list[dict[str, float]]
    talks: list[list[list[str]]]

    def proposed(self, kind: str) -> Entry:
        """What came of the proposal of a kind in step 1."""
        (entry,) = (each for each in self.loop.archive.tasks(kind) if each.step == 1 and each.sample is not None)
        return entry

    def attempts(self, kind: str) -> list[Attempt]:
        """At that task in step 1."""
        return [each for each in self.loop.archive.attempts(self.proposed(kind).task.id) if each.step == 1]

    def row(self, sample: int | None) -> dict[str, Any]:
        (row,) = (row for row in self.loop.archive.sample_rows() if row["n"] == sample)
        return row

    def talk(self, begin: str, step: int = 1) -> list[list[str]]:
        """The conversations of a step whose question begins so."""
        return [turns for turns in self.talks[step] if turns[0].startswith(begin)]


@pytest.fixture(scope="module")
def played(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    figures, talks = [], []
    root = tmp_path_factory.mktemp("runs")
    with autotelic.new_loop(*OPTIONS, f"player.url={server.url}", f"root={root}", "run=one") as loop:
        for _ in range(3):
            before = len(server.bodies)
            figures.append(loop.run_step())
            talks.append([turns_of(body) for body in server.bodies[before:] if body])
        yield Played(loop, figures, talks)


# What is asked

QUESTIONS = {
    "propose-induction": "Write a new task of the kind induction",
    "propose-deduction": "Write a new task of the kind deduction",
    "propose-abduction": "Write a new task of the kind abduction",
    "deduction": "A controller moves a robot arm with a gripper. What holds",
    "abduction": "A controller moves a robot arm with a gripper. Where must",
    "induction": "Write a controller for a robot arm",
}


@pytest.mark.parametrize("begin", QUESTIONS.values(), ids=list(QUESTIONS))
def test_who_writes_or_reads_a_controller_is_told_all_that_it_may_call(played: Played, begin: str):
    prompt = played.talk(begin)[0][0]
    for side, kind in (("robot", Robot), ("world", World)):
        for name in methods(kind):
            method = getattr(kind, name)
            given = ", ".join(map(str, list(inspect.signature(method).parameters.values())[1:])).replace("'", "")
            assert f"{side}.{name}({given}) -> " in prompt
            assert " ".join((inspect.getdoc(method) or "?").split()) in prompt


@pytest.mark.parametrize("kind", KINDS)
def test_a_proposer_is_shown_as_many_references_as_were_asked_for(played: Played, kind: str):
    ((prompt,),) = played.talk(f"Write a new task of the kind {kind}")
    shown = re.findall(r"^Reference \d \((\w+)\):$", prompt, re.MULTILINE)
    assert len(set(shown)) == len(shown) == 2
    archive = played.loop.archive
    tasks = [archive.task(id) for id in shown]
    assert {task.kind for task in tasks} == {kind}
    assert all(task.spec["controller"] in prompt for task in tasks if kind != "induction")
    assert archive.lineage(played.proposed(kind).sample or 0) == [("reference", id) for id in shown]


def test_a_solver_is_shown_the_controllers_that_have_worked_before(played: Played):
    worked = controller(PICK, "red_box")
    (first, *_), (later, *_) = (played.talk(QUESTIONS["induction"], step)[0] for step in (1, 2))
    assert "def execute_controller" not in first  # though one came with the task
    assert f"Reference 1, skill_{content_address(worked)}:\n\n{fence('python', picking('red_box').rstrip())}" in later


# What becomes of what is said


@pytest.mark.parametrize("kind", KINDS)
def test_a_proposal_of_every_kind_becomes_a_task(played: Played, kind: str):
    entry = played.proposed(kind)
    assert played.row(entry.sample)["text"] == proposal(kind, 2)
    spec = entry.task.spec
    if kind == "induction":
        assert spec["task"]["goal"] == [["lifted", "red_box"]]
        assert spec["example"]["controller"] == picking("red_box").rstrip()
    else:
        assert spec["controller"] == ast.unparse(ast.parse(CARRY))
    assert played.figures[1][f"propose/{kind}/valid_share"] == 1.0


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_right_answers_to_questions_are_read_from_what_a_model_writes(played: Played, kind: str):
    assert [attempt.verdict.outcome for attempt in played.attempts(kind)] == ["correct", "correct"]


def test_a_controller_that_says_it_succeeded_has_not_if_physics_says_no(played: Played):
    _, short, *_ = played.attempts("induction")
    assert short.answer.text == controller(SHORT, "red_box")
    assert short.verdict.metrics["claimed"] == 1.0
    assert not short.verdict.solved
    assert played.figures[1]["solve/induction/cheating/false_claims"] == 1.0


# Second looks


@pytest.mark.parametrize("choice", [0, 1], ids=["exception", "wrong"])
def test_a_failed_controller_is_tried_again_after_its_error_report(played: Played, choice: int):
    failed = played.attempts("induction")[choice]
    assert not failed.verdict.solved
    assert MISTAKES[choice][1] in f"{failed.verdict.outcome}: {failed.verdict.detail}"
    begun = played.talk(QUESTIONS["induction"])
    (report,) = (turns[2] for turns in begun if turns[1:2] == [failed.answer.text] and turns[2] != CRITICISE)
    assert f"({failed.verdict.outcome}: {failed.verdict.detail})" in report


def test_a_retry_goes_on_from_the_question_that_was_asked_first(played: Played):
    begun = played.talk(QUESTIONS["induction"])
    assert [len(turns) for turns in begun] == [1, 3, 3, 3, 3]
    assert {turns[0] for turns in begun} == {begun[0][0]}


def test_a_controller_that_was_mended_solves_its_task_by_physics_at_other_starts(played: Played):
    first, _, *again = played.attempts("induction")
    assert [attempt.answer.text for attempt in again] == [controller(PICK, "red_box")] * 2
    assert [attempt.verdict.outcome for attempt in again] == ["correct", "correct"]
    assert {attempt.verdict.seed for attempt in again}.isdisjoint({first.verdict.seed})
    assert all(attempt.verdict.metrics["steps"] > 200 for attempt in again)


def test_a_retry_is_archived_with_the_answer_that_it_mends(played: Played):
    *failed, one, other = played.attempts("induction")
    parents = [played.loop.archive.lineage(each.sample) for each in (one, other)]
    assert parents == [[("parent", content_address(each.answer.text))] for each in failed]


def critiques(played: Played, kind: str) -> list[tuple[bool | None, bool]]:
    """Of each critique of step 1 what it foretells, and what the verdict on the same answer is."""
    archive, judged = played.loop.archive, played.attempts(kind)
    rows = [row for row in archive.sample_rows() if (row["role"], row["kind"], row["step"]) == ("criticise", kind, 1)]
    came = {content_address(attempt.answer.text): attempt.verdict.solved for attempt in judged}
    assert {row["task"] for row in rows} == {played.proposed(kind).task.id}
    return [(row["claim"], came[target]) for row in rows for _, target in archive.lineage(row["n"])]


def test_what_a_model_thinks_of_its_answers_is_recorded_beside_their_verdicts(played: Played):
    assert critiques(played, "induction") == [(False, False), (True, False)]
    assert critiques(played, "abduction") == [(True, True), (True, True)]
    assert played.figures[1]["solve/induction/critiques_right"] == 0.5


def test_what_a_model_thinks_is_asked_before_it_can_know_the_verdict(played: Played):
    begun = played.talk(QUESTIONS["induction"])
    assert [turns[2] == CRITICISE for turns in begun[1:]] == [True, True, False, False]


def test_what_was_played_with_a_server_can_be_judged_again_without_one(server, run_autotelic, tmp_path):
    options = (*OPTIONS, f"player.url={server.url}", "world.kinds=[induction]", "steps=1", "run=one")
    done = run_autotelic(["play", *options], tmp_path, dict(os.environ))
    assert done.code == 0, done.err
    asked = len(server.seen)
    again = run_autotelic(["verify", "one"], tmp_path, dict(os.environ))
    assert "4 verdicts judged again, 0 differ" in again.out
    assert len(server.seen) == asked
