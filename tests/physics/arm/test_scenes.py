from math import pi

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.errors import UserError
from autotelic.physics.arm.control import Arm
from autotelic.physics.arm.scenes import COLORS, SHAPES, Fixture, Scene, Thing, compiled, in_the_way

BOX = Thing("red_box", "box", (0.02, 0.02, 0.02), "red")
BALL = Thing("blue_sphere", "sphere", (0.025,), "blue")
BIN = Fixture("bin", "bin", 0.5, 0.2)
DRAWER = Fixture("drawer", "drawer", 0.68, -0.1)


def test_a_scene_is_compiled_once() -> None:
    assert compiled(Scene((BOX,))) is compiled(Scene((BOX,)))


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (Scene((Thing("a", "boxx", (0.02,) * 3, "red"),)), "did you mean box"),
        (Scene((Thing("a", "box", (0.02,) * 3, "rde"),)), "did you mean red"),
        (Scene((Thing("a", "box", (0.02,), "red"),)), "the size of a box is 3 numbers, not 1"),
        (Scene((Thing("a", "sphere", (0.2,), "red"),)), "size 0.2 must be a number from 0.008 to 0.06"),
        (Scene((Thing("a", "sphere", (float("nan"),), "red"),)), "size nan"),
        (Scene((Thing("a", "sphere", (0.02,), "red", mass=-1.0),)), "mass -1.0 must be"),
        (Scene((Thing("a", "sphere", (0.02,), "red", friction=9.0),)), "friction 9.0 must be"),
        (Scene((Thing("red box", "sphere", (0.02,), "red"),)), "'red box' is no name"),
        (Scene((Thing("table", "sphere", (0.02,), "red"),)), "'table' is the name of something"),
        (Scene((BOX, BOX)), "'red_box' is there 2 times"),
        (Scene(tuple(Thing(f"a{n}", "sphere", (0.02,), "red") for n in range(9))), "at most 8"),
        (Scene((), (Fixture("bin", "bun", 0.5, 0.0),)), "did you mean button or bin"),
        (Scene((), (Fixture("bin", "bin", 0.9, 0.0),)), "x 0.9 must be a number from 0.4 to 0.62"),
        (Scene((), (Fixture("one", "bin", 0.5, 0.2), Fixture("two", "bin", 0.5, -0.2))), "2 fixtures of kind bin"),
        (Scene((), (Fixture("bin", "bin", 0.45, -0.1), DRAWER)), "stand in each other's way"),
        (Scene((Thing("a", "sphere", ("big",), "red"),)), "size big must be a number"),  # pyright: ignore[reportArgumentType]
        (Scene((Thing("a", "sphere", [0.02], "red"),)), "plain values"),  # pyright: ignore[reportArgumentType]
        (Scene(robot="arm8"), "did you mean arm7"),
    ],
)
def test_a_scene_that_cannot_be_is_one_line(scene: Scene, said: str) -> None:
    with pytest.raises(UserError) as error:
        compiled(scene)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_things_that_are_put_into_each_other_are_named() -> None:
    scene = Scene((BOX, BALL), (BIN,))
    assert in_the_way(scene, {"red_box": (0.5, 0.0, 0.3), "blue_sphere": (0.53, 0.0, 0.0)}) == (
        "red_box",
        "blue_sphere",
    )
    assert in_the_way(scene, {"red_box": (0.5, 0.1, 0.0), "blue_sphere": (0.4, -0.2, 0.0)}) == ("red_box", "bin")
    assert in_the_way(scene, {"red_box": (0.5, 0.0, 0.0), "blue_sphere": (0.4, -0.2, 0.0)}) is None


def test_a_thing_may_begin_within_a_bin() -> None:
    assert in_the_way(Scene((BOX,), (BIN,)), {"red_box": (0.5, 0.2, 0.5)}) is None


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.floats(0.38, 0.62), st.floats(-0.3, 0.3), st.floats(-pi, pi)),
    st.tuples(st.floats(0.38, 0.62), st.floats(-0.3, 0.3), st.floats(-pi, pi)),
)
def test_what_is_not_in_the_way_does_not_overlap_in_the_simulation(one: tuple, other: tuple) -> None:
    scene = Scene((BOX, Thing("blue_box", "box", (0.03, 0.02, 0.02), "blue")), (BIN,))
    places = {"red_box": one, "blue_box": other}
    if in_the_way(scene, places, margin=0.001) is None:
        arm = Arm(compiled(scene))
        arm.reset(places)
        assert arm.overlap < 0.0005
        moved = np.subtract(arm.position("red_box"), (one[0], one[1], 0.02))
        assert np.abs(moved).max() < 0.001


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("half", [0.008, 0.06])
def test_the_smallest_and_the_largest_things_stand_still(shape: str, half: float) -> None:
    arm = Arm(compiled(Scene((Thing("it", shape, (half,) * SHAPES[shape], next(iter(COLORS))),))))
    arm.reset({"it": (0.5, 0.1, 0.4)})
    for _ in range(50):
        arm.apply((0, 0, 0, 0, 0))
    assert np.subtract(arm.position("it"), (0.5, 0.1, half)) == pytest.approx(np.zeros(3), abs=0.001)
