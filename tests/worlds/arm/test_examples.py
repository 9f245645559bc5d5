"""Control tasks that come with an example of how they can end."""

import json
from dataclasses import replace

import pytest

from autotelic.worlds.arm.library import solution
from autotelic.worlds.base import Proposal, Rejection, Task
from autotelic.worlds.code.kinds.base import RefusedError, fence

LIFT = {"objects": ["red_box", "blue_sphere"], "goal": [["lifted", "red_box"]], "randomisation": {"position": 0.6}}
LIFTS = solution(LIFT["goal"])


def proposed(*programs: str) -> Proposal:
    return Proposal("induction", "\n".join([fence("json", json.dumps(LIFT)), *(fence("python", p) for p in programs)]))


@pytest.fixture(scope="module")
def lift(task_of) -> Task:
    return task_of("induction", proposed(LIFTS).text)


def test_a_controller_that_reaches_the_goal_gives_an_example(lift):
    example = lift.spec["example"]
    assert example["start"].keys() == {"red_box", "blue_sphere"}
    assert example["end"]["red_box"][2] > 0.1
    assert example["end"]["blue_sphere"][:2] == pytest.approx(example["start"]["blue_sphere"][:2], abs=0.003)


def test_the_solver_sees_where_things_ended_and_not_how(world, lift):
    prompt = world.kinds["induction"].solve_prompt(lift)
    assert json.dumps(lift.spec["example"]["end"]) in prompt
    assert "def pick" not in prompt
    without = Task(lift.id, "arm", "induction", {"task": lift.spec["task"]}, lift.features)
    assert "example of how it can end" not in world.kinds["induction"].solve_prompt(without)


@pytest.mark.parametrize(
    ("programs", "outcome"),
    [
        (["def execute_controller(robot, world):\n    pass"], "unreached"),
        (["def execute_controller(robot, world):\n    raise ValueError"], "exception"),
        (["def execute_controller(robot, world):\n    return 'continue'"], "calls"),
        (["def execute_controller(robot, world):\n    while True:\n        pass"], "limit"),
        (["import os\n\n\ndef execute_controller(robot, world):\n    pass"], "forbidden"),
        ([LIFTS, LIFTS], "format"),
    ],
)
def test_an_example_that_is_none_is_refused(world, programs: list[str], outcome: str):
    (result,) = world.admit([proposed(*programs)], 1)
    assert isinstance(result, Rejection)
    assert result.outcome == outcome


def test_an_example_whose_things_do_not_stand_where_they_are_put_is_refused_as_such(world):
    kind = world.kinds["induction"]
    draft = kind.draft(proposed(LIFTS))
    idle, shown = world.run(draft.jobs)
    with pytest.raises(RefusedError) as refused:
        kind.spec(draft, [idle, replace(shown, unsettled="red_box")])
    assert refused.value.outcome == "unsettled"


def test_a_task_with_an_example_is_made_again(world, lift):
    (again,) = world.admit([world.restate("induction", lift.spec)], 1)
    assert again == lift


def test_with_another_example_or_none_it_is_the_same_task(task_of, lift):
    assert task_of("induction", proposed(f"{LIFTS}\n# again").text).id == lift.id
    assert task_of("induction", proposed().text).id == lift.id


def test_what_reached_the_goal_in_the_example_is_judged_like_any_answer(lift, verdict_of):
    assert verdict_of(lift, LIFTS).solved
    assert not verdict_of(lift, "def execute_controller(robot, world):\n    return 'success'").solved
