"""Predicates: what they say of a state, and how far they are from true."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.physics.arm.scenes import TRAVEL
from autotelic.worlds.arm import goals
from autotelic.worlds.arm.goals import Predicate, State
from autotelic.worlds.arm.kinds.base import written_state
from autotelic.worlds.arm.tasks import read_setting

SETTING = read_setting({"objects": ["red_box", "blue_box"], "fixtures": ["bin", "button", "drawer"]})
SCENE = SETTING.scene
START = written_state(SCENE, {"red_box": (0.4, 0.2, 0.0), "blue_box": (0.5, 0.0, 0.0)})


def moved(name: str, *place: float, **changes) -> State:
    return replace(START, positions={**START.positions, name: place}, **changes)


def far(state: State, *words: str) -> float:
    return goals.distance(Predicate(words[0], words[1:]), SCENE, state)


HOLDING = {"held": frozenset({"red_box"}), "touched": frozenset({"red_box"})}


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("near", "red_box"), replace(START, tool=(0.4, 0.2, 0.03))),
        (("at", "red_box", "left"), START),
        (("left_of", "red_box", "blue_box"), START),
        (("in_front_of", "red_box", "blue_box"), START),
        (("right_of", "blue_box", "red_box"), START),
        (("behind", "blue_box", "red_box"), START),
        (("pressed", "button"), replace(START, pressed=True)),
        (("open", "drawer"), replace(START, opening=0.7)),
        (("lifted", "red_box"), moved("red_box", 0.4, 0.2, 0.09, **HOLDING)),
        (("on", "red_box", "blue_box"), moved("red_box", 0.505, 0.0, 0.06)),
        (("stacked", "red_box", "blue_box"), moved("red_box", 0.505, 0.0, 0.06)),
        (("inside", "red_box", "bin"), moved("red_box", 0.5, -0.2, 0.02)),
    ],
)
def test_each_predicate_can_hold(words: tuple[str, ...], state: State):
    assert far(state, *words) == 0.0


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("near", "red_box"), START),
        (("at", "red_box", "left"), moved("red_box", 0.4, 0.2, 0.2, **HOLDING)),  # held above it
        (("left_of", "blue_box", "red_box"), START),
        (("lifted", "red_box"), moved("red_box", 0.4, 0.2, 0.09)),  # thrown, not held
        (("lifted", "red_box"), moved("red_box", 0.4, 0.2, 0.03, **HOLDING)),
        (("on", "red_box", "blue_box"), moved("red_box", 0.5, 0.0, 0.06, **HOLDING)),  # not let go
        (("on", "red_box", "blue_box"), moved("red_box", 0.5, 0.0, 0.12)),
        (("inside", "red_box", "bin"), moved("red_box", 0.5, -0.2, 0.02, touched=frozenset({"red_box"}))),
        (("inside", "red_box", "bin"), moved("red_box", 0.5, -0.2, 0.2)),
        (("inside", "red_box", "bin"), moved("red_box", 0.5, -0.2, -0.7)),  # on the floor below it
        (("open", "drawer"), replace(START, opening=0.3)),
        (("pressed", "button"), START),
    ],
)
def test_each_predicate_can_fail_by_a_little(words: tuple[str, ...], state: State):
    assert far(state, *words) > 0.0


def test_the_distance_is_how_far_there_is_to_go():
    assert far(moved("red_box", 0.4, 0.02, 0.02), "at", "red_box", "left") == pytest.approx(0.1)
    assert far(replace(START, tool=(0.4, 0.2, 0.17)), "near", "red_box") == pytest.approx(0.1)


def test_a_goal_holds_when_all_of_it_does():
    left, near = Predicate("at", ("red_box", "left")), Predicate("near", ("red_box",))
    assert goals.holds([left], SCENE, START)
    assert not goals.holds([left, near], SCENE, START)


def test_everything_that_can_be_said_of_a_scene_is_said_once_and_the_hardest_first():
    found = goals.stateable(SCENE)
    assert len(set(found)) == len(found)
    levels = [goals.SORTS[predicate.name].level for predicate in found]
    assert levels == sorted(levels, reverse=True)
    assert {predicate.name for predicate in found} == set(goals.SORTS) - {"stacked"}


@given(*[st.floats(-1, 1) for _ in range(3)])
def test_a_distance_is_never_negative(x: float, y: float, z: float):
    state = moved("red_box", x, y, z)
    assert all(goals.distance(predicate, SCENE, state) >= 0.0 for predicate in goals.stateable(SCENE))


def test_what_is_at_a_mark_stands_near_it():
    plain = {"objects": ["red_box"], "marks": {"goal": [0.5, 0.0, 0.02]}}
    scene = read_setting(plain).scene
    goal = Predicate("at", ("red_box", "goal"))
    near, away = (written_state(scene, {"red_box": (0.5, y, 0.0)}) for y in (0.02, 0.1))
    assert goals.distance(goal, scene, near) == 0.0
    assert goals.distance(goal, scene, away) == pytest.approx(0.07)
    lifted = replace(near, positions={**near.positions, "red_box": (0.5, 0.0, 0.2)})
    assert goals.distance(goal, scene, lifted) > 0.0


THREE = read_setting({"objects": ["red_box", "blue_box", "green_cylinder"], "fixtures": ["bin", "drawer"]}).scene
BELOW = written_state(THREE, {thing.name: (0.5, 0.0, 0.0) for thing in THREE.things})


@st.composite
def states(draw) -> State:
    """In which much holds: things stand at a few places, on each other, in containers, or are held up."""
    xs, ys = st.sampled_from([0.3, 0.4, 0.5, 0.6, 0.7]), st.sampled_from([-0.2, -0.1, 0.0, 0.1, 0.2])
    heights = st.sampled_from([-0.7, 0.012, 0.02, 0.03, 0.06, 0.07, 0.08, 0.1, 0.11]) | st.floats(0, 0.2)
    handle, opening = BELOW.positions["drawer"], draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    positions = {**BELOW.positions, "drawer": (handle[0] - opening * TRAVEL, *handle[1:])}
    positions |= {thing.name: (draw(xs), draw(ys), draw(heights)) for thing in THREE.things}
    names = st.frozensets(st.sampled_from([thing.name for thing in THREE.things]))
    held = draw(names)
    return State((0.4, 0.0, 0.1), positions, held, held | draw(names), opening)


SAID = [
    *goals.stateable(THREE),
    *(Predicate("stacked", names) for names in itertools.permutations(thing.name for thing in THREE.things)),
]


@settings(max_examples=1000, deadline=None)
@given(states())
def test_whatever_holds_at_once_is_no_contradiction(state: State):
    assert goals.contradiction([each for each in SAID if goals.distance(each, THREE, state) == 0.0]) == ""


RED, BLUE, GREEN = "red_box", "blue_box", "green_cylinder"


@pytest.mark.parametrize(
    "rows",
    [
        [("at", RED, "left"), ("at", RED, "right")],
        [("at", RED, "middle"), ("at", RED, "right")],
        [("at", RED, "front"), ("at", RED, "back")],
        *([("lifted", RED), (name, RED, other)] for name, other in (("on", BLUE), ("inside", "bin"), ("at", "left"))),
        *([("lifted", RED), (name, RED, BLUE)] for name in ("left_of", "right_of", "behind", "in_front_of")),
        [("lifted", RED), ("stacked", BLUE, RED, GREEN)],
        [("inside", RED, "bin"), ("inside", RED, "drawer")],
        [("on", RED, BLUE), ("on", BLUE, RED)],
        [("stacked", RED, BLUE, GREEN), ("on", GREEN, RED)],
        [("left_of", RED, BLUE), ("left_of", BLUE, RED)],
        [("left_of", RED, BLUE), ("right_of", RED, BLUE)],
        [("left_of", RED, BLUE), ("right_of", GREEN, BLUE), ("left_of", GREEN, RED), ("right_of", BLUE, GREEN)],
        [("behind", RED, BLUE), ("in_front_of", RED, BLUE)],
    ],
)
def test_what_cannot_hold_at_once_is_a_contradiction(rows: list[tuple[str, ...]]):
    goal = [Predicate(name, tuple(args)) for name, *args in rows]
    assert goals.contradiction(goal)
    assert goals.contradiction(goal[::-1])


@pytest.mark.parametrize(
    "rows",
    [
        [("at", RED, "left"), ("at", RED, "front")],
        [("lifted", RED), ("lifted", BLUE)],
        [("lifted", RED), ("near", RED), ("left_of", BLUE, RED)],
        [("lifted", RED), ("on", BLUE, GREEN), ("on", GREEN, RED)],
        [("at", RED, "left"), ("at", BLUE, "right")],
        [("left_of", RED, BLUE), ("right_of", BLUE, RED), ("behind", BLUE, RED)],
        [("left_of", RED, BLUE), ("left_of", RED, GREEN), ("left_of", BLUE, GREEN)],
        [("inside", RED, "bin"), ("inside", BLUE, "drawer"), ("at", RED, "right")],
    ],
)
def test_what_may_hold_at_once_is_none(rows: list[tuple[str, ...]]):
    assert goals.contradiction([Predicate(name, tuple(args)) for name, *args in rows]) == ""
