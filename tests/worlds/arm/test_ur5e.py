"""The second robot, in the world."""

import json
from importlib.util import find_spec

import pytest

from autotelic.errors import UserError
from autotelic.physics.arm import robots
from autotelic.worlds.arm import suite, suite_questions
from autotelic.worlds.arm.goals import FAMILIES
from autotelic.worlds.arm.kinds import KindConfig
from autotelic.worlds.arm.library import SEEDS
from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig
from autotelic.worlds.base import Answer, Proposal, Rejection, Request, Task
from autotelic.worlds.code.kinds.base import answer_text

from .texts import REACH

absent = pytest.mark.skipif(find_spec("ogbench") is None, reason="its files come with autotelic[ogbench]")


@pytest.fixture(scope="module")
def other():
    with ArmWorld(ArmWorldConfig(workers=1, heldout=False, kind=KindConfig(robot="ur5e"))) as opened:
        yield opened


@absent
@pytest.mark.parametrize("at", range(len(FAMILIES)), ids=FAMILIES)
def test_hand_written_controllers_solve_each_family_with_the_ur5e(other, at: int):
    (task,) = other.admit([Proposal("induction", other.library.proposal(Request("induction"), at))], 1)
    assert isinstance(task, Task), task
    assert task.spec["task"]["robot"] == "ur5e"
    (found,) = other.judge([(task, Answer(other.library.answer(task, True, 0)))], 1)
    assert found.solved, found.detail


@absent
@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_questions_are_about_the_robot_that_is_played_with(other, kind: str):
    (task,) = other.admit([Proposal(kind, SEEDS[kind])], 1)
    assert isinstance(task, Task), task
    assert task.spec["setting"]["robot"] == "ur5e"


def test_a_proposal_may_name_the_other_robot(other):
    spec = {**json.loads(SEEDS["induction"]), "robot": "arm7"}
    (task,) = other.admit([Proposal("induction", json.dumps(spec))], 1)
    assert isinstance(task, Task), task
    assert task.spec["task"]["robot"] == "arm7"


def test_prompts_say_which_robot_it_is_where_it_is_not_the_usual_one(other, world):
    text = SEEDS["induction"]
    said = [w.kinds["induction"].draft(Proposal("induction", text)).spec["task"] for w in (other, world)]
    tasks = [Task("x", "arm", "induction", {"task": spec}) for spec in said]
    assert ["ur5e" in world.kinds["induction"].solve_prompt(task) for task in tasks] == [True, False]
    assert "arm7, ur5e" in world.kinds["induction"].propose_prompt(Request("induction"))


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_a_question_about_another_robot_than_is_played_with_is_refused(world, kind: str):
    """Brief words name no robot: the same question would have two answers."""
    text = SEEDS[kind].replace('{"objects"', '{"robot": "ur5e", "objects"', 1)
    assert "ur5e" in text
    (found,) = world.admit([Proposal(kind, text)], 1)
    assert isinstance(found, Rejection)
    assert (found.outcome, found.reason) == ("unknown", "questions are about the robot arm7")


def test_what_an_answer_does_is_not_asked_about_another_robot(other, world, task_of):
    task, answer = task_of("induction", SEEDS["induction"]), Answer(answer_text(REACH))
    assert world.questions(task, answer)
    assert other.questions(task, answer) == []


def test_a_robot_that_there_is_not_is_named():
    with pytest.raises(UserError, match="did you mean ur5e"):
        KindConfig(robot="ur5")


def test_the_two_robots_have_suites_of_their_own(other, world):
    assert suite.identity(other) != suite.identity(world)


def test_the_suite_of_a_robot_that_is_not_installed_is_one_line(other, monkeypatch):
    monkeypatch.setattr("autotelic.physics.arm.robots.find_spec", lambda name: None)
    robots.kinematics.cache_clear()
    with pytest.raises(UserError, match=r"robot 'ur5e' needs ogbench, .*pip install 'autotelic\[ogbench\]'"):
        suite.build_suite(other)


TRIVIAL = " move red_box close up<scene> red_box front_left<ask> lifted red_box<where> red_box"


@pytest.mark.parametrize(("name", "kept"), [("arm7", 1), pytest.param("ur5e", 0, marks=absent)])
def test_questions_that_were_found_with_one_robot_are_looked_at_anew_with_another(monkeypatch, name: str, kept: int):
    monkeypatch.setattr(suite, "QUESTIONS", 1)
    monkeypatch.setattr(suite_questions, "DEDUCTION", TRIVIAL)
    config = ArmWorldConfig(workers=1, heldout=False, kinds=["deduction"], kind=KindConfig(robot=name))
    with ArmWorld(config) as some:
        proposal = Proposal("deduction", suite._question("deduction", TRIVIAL))
        assert isinstance(some.admit_freely([proposal], thorough=False)[0], Task)
        assert len(suite.build_suite(some)) == kept


def test_a_proposal_of_a_robot_that_is_not_installed_is_refused(world, monkeypatch):
    def absent():
        raise UserError("ogbench is missing: pip install 'autotelic[ogbench]'")

    monkeypatch.setattr("autotelic.physics.arm.robots._ogbench", absent)
    spec = {
        "objects": ["white_sphere"],
        "goal": [["near", "white_sphere"]],
        "robot": "ur5e",
    }  # compiled by no other test
    (result,) = world.admit([Proposal("induction", json.dumps(spec))], 1)
    assert isinstance(result, Rejection)
    assert (result.outcome, "autotelic[ogbench]" in result.reason) == ("uncompiled", True)
