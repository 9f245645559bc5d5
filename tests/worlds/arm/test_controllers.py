"""The interface of controllers: what prompts say of it, and what it takes for an argument."""

import inspect

import pytest

from autotelic.worlds.arm import controllers
from autotelic.worlds.arm.controllers import Robot, World, interface_text, methods

ASKED_FOR = {
    "get_end_effector_position",
    "get_joint_positions",
    "apply_action",
    "get_actions",
    "get_path_efficiency",
    "get_energy_efficiency",
    "move_to",
    "move_joints",
    "open_gripper",
    "close_gripper",
    "home",
}


def test_the_prompt_names_every_method_with_its_signature_and_says_what_it_does():
    text = interface_text()
    assert set(methods(Robot)) == ASKED_FOR
    assert set(methods(World)) == {"objects", "position", "pose", "size", "color", "region"}
    assert "robot.move_to(position: list[float], yaw: float | None = None, above: float = 0.0) -> bool" in text
    for side in (Robot, World):
        for name in methods(side):
            assert " ".join((inspect.getdoc(getattr(side, name)) or "?").split()) in text


def returned(verdict_of, task, body: str) -> str:
    """What a controller found out, through an exception of its own."""
    found = verdict_of(task, f"def execute_controller(robot, world):\n    {body}")
    return f"{found.outcome} {found.detail}"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("robot.move_to([float('nan'), 0.0, 0.1])", "ValueError"),
        ("robot.move_to([0.4, 0.0, float('inf')])", "ValueError"),
        ("robot.move_to([10**400, 0, 0])", "ValueError"),
        ("robot.move_to([1e308, 0, 0])", "ValueError"),
        ("robot.move_to([0.4, 0.1])", "TypeError"),
        ("robot.move_to('red_box')", "TypeError"),
        ("robot.move_to(None)", "TypeError"),
        ("robot.move_to([True, 0.0, 0.1])", "TypeError"),
        ("robot.move_to({0: 1, 1: 2, 2: 3})", "TypeError"),
        ("robot.move_to([0.4, 0.0, 0.1], yaw='north')", "TypeError"),
        ("robot.move_to([0.4, 0.0, 0.1], sideways=1)", "TypeError"),
        ("robot.move_to()", "TypeError"),
        ("robot.move_joints([0.0])", "TypeError"),
        ("robot.move_joints([float('nan')] * 7)", "ValueError"),
        ("robot.apply_action([1, 2, 3])", "TypeError"),
        ("robot.apply_action([0, 0, 0, 0, float('nan')])", "ValueError"),
        ("world.position('green_box')", "ValueError"),
        ("world.position(['red_box'])", "ValueError"),
        ("world.size()", "TypeError"),
        ("robot.fly()", "AttributeError"),
    ],
)
def test_a_bad_argument_is_an_exception_in_the_program(reach, verdict_of, call: str, error: str):
    assert returned(verdict_of, reach, call).startswith(f"exception start 1 of 2: exception: {error}")


def test_a_program_can_go_on_after_a_bad_argument(reach, verdict_of):
    careful = "\n    ".join(
        ["try:", "    robot.move_to(None)", "except TypeError:", "    robot.move_to(world.position('red_box'))"]
    )
    assert verdict_of(reach, f"def execute_controller(robot, world):\n    {careful}").solved


def test_what_the_world_says_of_things(task_of, verdict_of):
    scene = '"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2]}, "blue_sphere"], "fixtures": ["drawer"]'
    task = task_of("induction", f'{{{scene}, "goal": [["near", "red_box"]], "success": {{"draws": 2}}}}')
    checks = [
        "assert world.objects() == ['blue_sphere', 'red_box', 'drawer']",
        "assert world.size('red_box') == [0.02, 0.02, 0.02] and world.color('blue_sphere') == 'blue'",
        "assert world.region('red_box') == 'left' and len(world.pose('drawer')) == 7",
        "x, y, z = world.position('red_box')",
        "assert abs(x - 0.4) + abs(y - 0.2) + abs(z - 0.02) < 0.005",
        "assert len(robot.get_joint_positions()) == 7 and robot.get_actions() == []",
        "assert robot.move_to([x, y, z], above=0.1) and robot.move_to([x, y, z])",
        "assert robot.get_actions() == ['move_to', 'move_to']",
        "assert 0 < robot.get_path_efficiency() <= 1 and robot.get_energy_efficiency() > 0",
    ]
    found = verdict_of(task, "def execute_controller(robot, world):\n    " + "\n    ".join(checks))
    assert found.solved, found


def test_small_steps_move_the_arm(reach, verdict_of):
    body = """
def execute_controller(robot, world):
    for _ in range(400):
        here, there = robot.get_end_effector_position(), world.position('red_box')
        robot.apply_action([20 * (b - a) for a, b in zip(here, there)] + [0, 0])"""
    assert verdict_of(reach, body).solved


def test_a_program_may_be_called_step_by_step(reach, verdict_of):
    body = """
turn = 0
def execute_controller(robot, world):
    global turn
    turn += 1
    robot.move_to(world.position('red_box'), above=0.1 if turn == 1 else 0.0)
    return "continue" if turn < 3 else "success" """
    found = verdict_of(reach, body)
    assert found.solved
    assert found.metrics["claimed"] == 1.0
    assert found.metrics["calls"] == 3 + 6  # of it, and by it


def test_statuses_are_named_as_the_issue_names_them():
    assert controllers.STATUSES == {"success": True, "failure": False, "continue": None}
