"""Worked examples of each kind, for minds that have to see one before they keep to a form. Their colours are none that
the held-out suite has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from autotelic.worlds.arm.tasks import blocks


@dataclass(frozen=True)
class Worked:
    proposal: str
    answer: str  # which is right for the task that the proposal makes
    thought: str  # that leads to it


def _things(**places: list[float]) -> list[dict[str, Any]]:
    split = ((name.split("_"), at) for name, at in places.items())
    return [{"color": color, "shape": shape, "at": at} for (color, shape), at in split]


_LIFT = """\
def execute_controller(robot, world):
    robot.move_to(world.position("orange_box"), above=0.1)
    robot.move_to(world.position("orange_box"))
    robot.close_gripper()
    robot.move_to(robot.get_end_effector_position(), above=0.15)
    return "success\""""

_PUT = """\
def execute_controller(robot, world):
    robot.move_to(world.position("cyan_cylinder"), above=0.1)
    robot.move_to(world.position("cyan_cylinder"))
    robot.close_gripper()
    robot.move_to(world.position("cyan_cylinder"), above=0.2)
    robot.move_to(world.position("bin"), above=0.2)
    robot.open_gripper()"""

_TOUCH = """\
def execute_controller(robot, world):
    robot.move_to(world.position("purple_box"))"""

_CARRY = """\
def execute_controller(robot, world):
    robot.move_to(world.position("orange_box"), above=0.1)
    robot.move_to(world.position("orange_box"))
    robot.close_gripper()
    x, y, z = robot.get_end_effector_position()
    robot.move_to([x, 0.24, z])
    robot.open_gripper()"""

_SWEEP = """\
def execute_controller(robot, world):
    robot.close_gripper()
    robot.move_to([0.6, 0.28, 0.02], above=0.1)
    robot.move_to([0.6, 0.28, 0.02])
    robot.move_to([0.6, -0.2, 0.02])"""

WORKED: dict[str, tuple[Worked, ...]] = {
    "induction": (
        Worked(
            json.dumps(
                {
                    "objects": ["orange_box", "cyan_cylinder"],
                    "goal": [["lifted", "orange_box"]],
                    "randomisation": {"position": 0.6, "yaw": 0.5},
                }
            ),
            _LIFT,
            "From above down to the box, wherever it is; grip it; then up.",
        ),
        Worked(
            json.dumps(
                {
                    "objects": ["cyan_cylinder"],
                    "fixtures": ["bin"],
                    "goal": [["inside", "cyan_cylinder", "bin"]],
                    "randomisation": {"position": 0.6},
                    "horizon": 15,
                }
            ),
            _PUT,
            "Grip the cylinder, carry it high enough to clear the bin's walls, and let go over the bin.",
        ),
    ),
    "deduction": (
        Worked(
            blocks(
                {
                    "objects": _things(purple_box=[0.4, 0.2], white_sphere=[0.6, -0.2]),
                    "ask": [["near", "purple_box"], ["near", "white_sphere"]],
                    "object": "white_sphere",
                },
                _TOUCH,
            ),
            "yes no right",
            "The gripper goes to the box and stays there. The sphere is not touched: y is -0.2, which is right.",
        ),
        Worked(
            blocks(
                {
                    "objects": _things(orange_box=[0.4, -0.2], white_box=[0.6, 0.0]),
                    "ask": [["left_of", "orange_box", "white_box"]],
                    "object": "orange_box",
                },
                _CARRY,
            ),
            "yes left",
            "The box is gripped, drawn over the table to y = 0.24, and let go of there, on the left. The white one is"
            " not in its way and stays at y = 0.",
        ),
    ),
    "abduction": (
        Worked(
            blocks(
                {
                    "objects": _things(orange_box=[0.4, -0.2], white_box=[0.6, 0.0]),
                    "goal": [["left_of", "orange_box", "white_box"]],
                },
                _CARRY,
            ),
            '{"orange_box": [0.4, -0.2], "white_box": [0.6, 0.0]}',
            "The orange box ends at y = 0.24. So it must start right of the white box, which must be right of 0.24 and"
            " out of its way.",
        ),
        Worked(
            blocks({"objects": _things(purple_box=[0.6, 0.1]), "goal": [["at", "purple_box", "right"]]}, _SWEEP),
            '{"purple_box": [0.6, 0.1]}',
            "The closed gripper passes over the table along x = 0.6, from y = 0.28 to -0.2, and takes along what stands"
            " there. So the box must be at x = 0.6, and not on the right already.",
        ),
    ),
}
