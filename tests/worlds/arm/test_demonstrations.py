"""Controllers shown in environments: the task that is put, and what comes of an answer."""

import pytest

from autotelic.data.demonstrations import Demonstration
from autotelic.physics.arm.environment import ArmTask
from autotelic.physics.arm.tasks import FAMILIES, ArmLift, ArmPickPlace, ArmReach
from autotelic.worlds.arm.demonstrations import GOALS, shown, task_of
from autotelic.worlds.arm.tasks import read
from autotelic.worlds.code.kinds.base import answer_text
from autotelic.worlds.code.sandbox import Sandbox, SandboxConfig


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(SandboxConfig(servers=1, ahead=1)) as opened:
        yield opened


def made(family: type[ArmTask], seed: int = 1, **keys) -> ArmTask:
    environment = family(family.Config(**{"count": 1, "threads": 1, "seconds": 15.0, **keys}))
    environment.reset(seed)
    return environment


def test_every_family_has_a_goal():
    assert list(GOALS) == [family.name for family in FAMILIES]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_hand_written_controller_succeeds_in_the_environment(world, sandbox, family):
    environment = made(family)
    task = task_of(world, environment)
    answer = world.library.answer(task, True, 0)
    found = shown(answer, task, world.kinds["induction"], environment, 1, sandbox)
    assert isinstance(found, Demonstration), found
    assert found.success
    assert found.about["controller"] in answer


def test_the_task_is_set_where_the_episode_begins(world):
    environment = made(ArmPickPlace, seed=7)
    control = read(task_of(world, environment).spec["task"])
    now = environment.measure(slice(None))
    assert control.setting.start["red_box"][:2] == pytest.approx(now.things["red_box"][0, :2], abs=1e-4)
    (bin_,) = control.scene.fixtures
    assert (bin_.x, bin_.y) == pytest.approx(now.fixtures["bin"][0, :2], abs=1e-4)
    assert control.horizon == pytest.approx(14.7)


def test_a_place_to_reach_is_marked_and_said_in_words(world):
    environment = made(ArmReach)
    task = task_of(world, environment)
    (mark,) = read(task.spec["task"]).scene.marks
    assert (mark.x, mark.y, mark.z) == pytest.approx(environment.memory["goal"][0], abs=1e-4)
    prompt = world.kinds["induction"].solve_prompt(task)
    assert "the gripper is at the goal" in prompt
    assert f"The goal is [{mark.x}, {mark.y}, {mark.z}]" in prompt


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ('def execute_controller(robot, world):\n    return "success"', "wrong"),
        ("def execute_controller(robot, world):\n    raise ValueError", "exception"),
        ("def execute_controller(robot, world):\n    while True:\n        robot.close_gripper()", "horizon"),
        ("def something_else():\n    pass", "no_entry"),
        ("no program", "syntax"),
    ],
)
def test_an_answer_that_does_not_solve_the_task_shows_nothing(world, sandbox, body, outcome):
    environment = made(ArmLift, seconds=3.0)
    task = task_of(world, environment)
    found = shown(answer_text(body), task, world.kinds["induction"], environment, 1, sandbox)
    assert found == outcome
