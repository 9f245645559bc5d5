"""One form of what tasks ask."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotelic.worlds.arm import canonical, goals
from autotelic.worlds.arm.goals import Predicate, State
from autotelic.worlds.arm.tasks import read_setting

THREE = read_setting({"objects": ["red_box", "blue_box", "green_box"]})
MOVE = 'f("red_box")'


def key(objects, rows=(), program: str = "", **more) -> str:
    return canonical.key(read_setting({"objects": list(objects)}).plain(), rows, program, **more)


places = st.tuples(*(st.floats(-0.3, 0.3) for _ in range(2)), st.just(0.02))


@given(places, places)
def test_converse_relations_hold_together_where_both_things_stand(one, other):
    state = State((0.0, 0.0, 0.3), {"red_box": one, "blue_box": other})
    for name, converse in canonical.CONVERSE.items():
        pair = Predicate(name, ("red_box", "blue_box")), Predicate(converse, ("blue_box", "red_box"))
        assert len({goals.distance(each, THREE.scene, state) for each in pair}) == 1
        assert canonical.goal([pair[0].plain()]) == canonical.goal([pair[1].plain()])


@given(places, places, places)
def test_a_stack_is_its_pairs(one, other, third):
    state = State((0.0, 0.0, 0.3), {"red_box": one, "blue_box": other, "green_box": third})
    stack = [["stacked", "red_box", "blue_box", "green_box"]]
    pairs = [["on", "blue_box", "green_box"], ["on", "red_box", "blue_box"]]
    assert canonical.goal(stack) == canonical.goal(pairs) == canonical.goal(pairs[::-1] + stack)
    far = [
        max(goals.distance(Predicate(row[0], tuple(row[1:])), THREE.scene, state) for row in rows)
        for rows in (stack, pairs)
    ]
    assert far[0] == far[1]


def test_the_parts_of_a_goal_are_all_that_it_says_some_of():
    rows = [["near", "red_box"], ["right_of", "red_box", "blue_box"], ["lifted", "red_box"]]
    assert len(canonical.parts(rows)) == 7
    assert canonical.goal(rows[1:2]) in [list(part) for part in canonical.parts(rows)]
    assert tuple(canonical.goal(rows)) in canonical.parts(rows)


def test_a_long_goal_has_not_all_too_many_parts():
    stacks = [["stacked", *(f"{name}{at}" for name in "abcde")] for at in range(4)]
    parts = canonical.parts(stacks)
    assert len(parts) < 3000
    assert len(parts[-1]) == 16


@pytest.mark.parametrize(
    ("objects", "rows"),
    [
        (["cyan_box", "blue_box"], [["on", "cyan_box", "blue_box"]]),
        (["blue_box", "red_box"], [["on", "blue_box", "red_box"]]),
    ],
)
def test_things_are_the_same_in_other_colours(objects, rows):
    assert key(objects, rows) == key(["red_box", "blue_box"], [["on", "red_box", "blue_box"]])
    assert key(objects, rows, colors=True) != key(["red_box", "blue_box"], [["on", "red_box", "blue_box"]], colors=True)


@pytest.mark.parametrize(
    ("objects", "rows", "program"),
    [
        (["red_box", "blue_box"], [["lifted", "blue_box"]], MOVE),  # the one that the program does not name
        (["red_box", "blue_cylinder"], [["lifted", "red_box"]], MOVE),
        (["red_box", "blue_box", "cyan_box"], [["lifted", "red_box"]], MOVE),
        (["red_box", {"color": "blue", "shape": "box", "size": [0.03] * 3}], [["lifted", "red_box"]], MOVE),
        (["red_box", "blue_box"], [["lifted", "red_box"]], MOVE + "g()"),
        (["red_box", "blue_box"], [["near", "red_box"]], MOVE),
    ],
)
def test_another_question_has_another_key(objects, rows, program: str):
    assert key(objects, rows, program) != key(["red_box", "blue_box"], [["lifted", "red_box"]], MOVE)


def at(*places: list[float]):
    names = zip(("red", "blue"), places, strict=False)
    return [{"color": color, "shape": "box", "at": place} for color, place in names]


def test_places_count_where_they_are_asked_for_and_roughly():
    spots, near, far = ([[0.4, 0.2], other] for other in ([0.4, -0.2], [0.41, -0.21, 0.1], [0.55, 0.0]))
    assert key(at(*spots), placed=True) == key(at(*near), placed=True) != key(at(*far), placed=True)
    assert key(at(*spots)) == key(at(*far))
    assert key(at(*spots), placed=True) == key(at(*spots[::-1]), placed=True)  # colours exchanged
    assert key(at(*spots), (), MOVE, placed=True) != key(at(*spots[::-1]), (), MOVE, placed=True)


def test_whichever_robot_moves_it_the_question_is_the_same():
    one, other = (read_setting({"objects": ["red_box"], "robot": robot}).plain() for robot in ("arm7", "ur5e"))
    assert canonical.key(one, [["lifted", "red_box"]]) == canonical.key(other, [["lifted", "red_box"]])


@pytest.mark.parametrize("share", [0.905, 1.095])
def test_a_size_that_is_nearly_usual_is_usual(share: float):
    other = {"color": "red", "shape": "box", "size": [0.02 * share] * 3, "mass": 0.2, "friction": 0.5}
    assert key([other]) == key(["red_box"])
