"""What an arm must be able to do: short sequences of commands, each from starts drawn at random, solve what the seven
families of tasks ask."""

from collections.abc import Callable
from importlib.util import find_spec
from math import pi

import numpy as np
import pytest

from autotelic.physics.arm.control import Arm
from autotelic.physics.arm.scenes import Fixture, Placement, Scene, Thing, compiled, in_the_way
from autotelic.runs import seeds

Place = tuple[float, float, float]
absent = pytest.mark.skipif(find_spec("ogbench") is None, reason="its files come with autotelic[ogbench]")


def box(color: str, rng: np.random.Generator, low: float = 0.015, high: float = 0.025) -> Thing:
    half = float(rng.uniform(low, high))
    mass = float(np.exp(rng.uniform(np.log(0.03), np.log(0.5))))
    return Thing(f"{color}_box", "box", (half, half, half), color, mass=mass)


def placed(scene: Scene, rng: np.random.Generator, margin: float = 0.06) -> dict[str, Placement]:
    while True:
        places: dict[str, Placement] = {
            thing.name: (float(rng.uniform(0.37, 0.63)), float(rng.uniform(-0.28, 0.28)), float(rng.uniform(-pi, pi)))
            for thing in scene.things
        }
        if in_the_way(scene, places, margin) is None:
            return places


def above(place: Place, height: float) -> Place:
    return (place[0], place[1], height)


def yaw_of(arm: Arm, name: str) -> float:
    """That fingers close on two sides of a box."""
    _, _, _, w, x, y, z = arm.pose(name)
    yaw = float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))
    return (yaw + pi / 4) % (pi / 2) - pi / 4


def grasp(arm: Arm, name: str) -> None:
    place, yaw = arm.position(name), yaw_of(arm, name)
    arm.move_to(above(place, 0.12), yaw)
    arm.move_to(place)
    arm.close_gripper()


def reach(rng: np.random.Generator, robot: str) -> bool:
    scene = Scene((box("red", rng),), robot=robot)
    arm = Arm(compiled(scene))
    arm.reset(placed(scene, rng), horizon=5.0)
    goal = (float(rng.uniform(0.35, 0.65)), float(rng.uniform(-0.3, 0.3)), float(rng.uniform(0.05, 0.35)))
    there = arm.move_to(goal)
    return there and float(np.linalg.norm(np.subtract(arm.tool(), goal))) < 0.01


def push(rng: np.random.Generator, robot: str) -> bool:
    shape = ("box", "cylinder")[int(rng.integers(2))]
    size = (0.025, 0.025, 0.025) if shape == "box" else (0.025, 0.025)
    scene = Scene((Thing("red_thing", shape, size, "red", mass=float(rng.uniform(0.05, 0.3))),), robot=robot)
    arm = Arm(compiled(scene))
    start = (float(rng.uniform(0.42, 0.58)), float(rng.uniform(-0.15, 0.15)), float(rng.uniform(-pi, pi)))
    arm.reset({"red_thing": start}, horizon=10.0)
    angle = float(rng.uniform(-pi, pi))
    way = np.array([np.cos(angle), np.sin(angle), 0.0])
    goal = np.array(arm.position("red_thing")) + 0.1 * way
    arm.close_gripper()
    back = np.array(arm.position("red_thing")) - 0.07 * way
    arm.move_to(above(tuple(back), 0.1), angle)
    arm.move_to(above(tuple(back), 0.02))
    arm.move_to(above(tuple(goal - 0.035 * way), 0.02))
    return float(np.linalg.norm((np.array(arm.position("red_thing")) - goal)[:2])) < 0.03


def lift(rng: np.random.Generator, robot: str) -> bool:
    scene = Scene((box("red", rng),), robot=robot)
    arm = Arm(compiled(scene))
    arm.reset(placed(scene, rng), horizon=12.0)
    grasp(arm, "red_box")
    arm.move_to(above(arm.tool(), 0.25))
    for _ in range(100):  # held for two seconds, and carried
        arm.apply((0, 0, 0, 0, 0))
    arm.move_to((0.5, float(-np.sign(arm.tool()[1])) * 0.25, 0.25))
    return arm.held("red_box") and arm.position("red_box")[2] > 0.2


def pick_place(rng: np.random.Generator, robot: str) -> bool:
    shape = ("box", "cylinder", "sphere")[int(rng.integers(3))]
    size = {"box": (0.02, 0.02, 0.02), "cylinder": (0.02, 0.025), "sphere": (0.022,)}[shape]
    side = float(rng.choice([-1, 1]))
    bin_ = Fixture("bin", "bin", float(rng.uniform(0.42, 0.58)), side * float(rng.uniform(0.15, 0.28)))
    scene = Scene((Thing("red_thing", shape, size, "red"),), (bin_,), robot)
    arm = Arm(compiled(scene))
    arm.reset(placed(scene, rng), horizon=12.0)
    grasp(arm, "red_thing")
    arm.move_to(above(arm.tool(), 0.2))
    middle = arm.position("bin")
    arm.move_to(above(middle, 0.2))
    arm.move_to(above(middle, 0.08))
    arm.open_gripper()
    arm.move_to(above(middle, 0.2))
    off = np.abs(np.subtract(arm.position("red_thing"), middle))
    return bool(off[0] < 0.085 and off[1] < 0.085 and off[2] < 0.06)


def stack(rng: np.random.Generator, robot: str) -> bool:
    scene = Scene((box("red", rng), box("blue", rng, 0.02)), robot=robot)
    arm = Arm(compiled(scene))
    arm.reset(placed(scene, rng), horizon=12.0)
    grasp(arm, "red_box")
    arm.move_to(above(arm.tool(), 0.15))
    under = arm.position("blue_box")
    arm.move_to(above(under, 0.15), yaw_of(arm, "blue_box"))
    arm.move_to(above(under, under[2] + sum(thing.half_height for thing in scene.things) + 0.003))
    arm.open_gripper()
    arm.move_to(above(under, 0.2))
    arm.home()
    readings = arm.readings()
    return ("blue_box", "red_box") in readings.touching and ("red_box", "table") not in readings.touching


def drawer(rng: np.random.Generator, robot: str) -> bool:
    x, y, yaw = float(rng.uniform(0.63, 0.72)), float(rng.uniform(-0.2, 0.2)), float(rng.uniform(-0.3, 0.3))
    arm = Arm(compiled(Scene((), (Fixture("drawer", "drawer", x, y, yaw),), robot)))
    arm.reset({}, horizon=12.0)
    handle = arm.position("drawer")
    arm.move_to(above(handle, 0.16), yaw)
    arm.move_to(handle)
    arm.close_gripper()
    arm.move_to((handle[0] - 0.14 * np.cos(yaw), handle[1] - 0.14 * np.sin(yaw), handle[2]))
    arm.open_gripper()
    return arm.opening() > 0.8


def button(rng: np.random.Generator, robot: str) -> bool:
    place = Fixture("button", "button", float(rng.uniform(0.36, 0.64)), float(rng.uniform(-0.29, 0.29)))
    arm = Arm(compiled(Scene((), (place,), robot)))
    arm.reset({}, horizon=8.0)
    arm.close_gripper()
    top = arm.position("button")
    arm.move_to(above(top, 0.1))
    arm.move_to(top)
    arm.move_to(above(top, 0.15))
    return arm.pressed()


FAMILIES: dict[str, Callable[[np.random.Generator, str], bool]] = {
    "reach": reach,
    "push": push,
    "lift": lift,
    "pick-place": pick_place,
    "stack": stack,
    "drawer": drawer,
    "button": button,
}


@pytest.mark.parametrize("robot", ["arm7", pytest.param("ur5e", marks=absent)])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_sequence_of_commands_solves_the_family(family: str, robot: str) -> None:
    solved = [FAMILIES[family](seeds.generator(3, family, number), robot) for number in range(4)]
    assert solved == [True] * 4
