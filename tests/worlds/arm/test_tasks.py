"""The schema of control tasks: what is read, what is refused and under which class, and one form for equal tasks."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.physics.arm.scenes import COLORS
from autotelic.worlds.arm import tasks
from autotelic.worlds.arm.goals import FAMILIES, SORTS
from autotelic.worlds.arm.kinds import KindConfig, load_kinds
from autotelic.worlds.base import Proposal, Rejection
from autotelic.worlds.code.kinds.base import RefusedError

from .texts import REJECTIONS

PLAIN = {"objects": ["red_box", "blue_cylinder"], "fixtures": ["bin"], "goal": [["inside", "red_box", "bin"]]}
TALL = [{"color": c, "shape": "cylinder", "size": [0.02, 0.06]} for c in list(COLORS)[:5]]
CLASSES = {"format", "unknown", "names", "bounds", "too_many", "unreachable", "ungraspable", "contradiction"}


def read(**changes) -> tasks.ArmTask:
    return tasks.read(tasks.parse(json.dumps({**PLAIN, **changes})))


def refused(text: str) -> str:
    with pytest.raises(RefusedError) as found:
        tasks.read(tasks.parse(text))
    assert found.value.reason
    return found.value.outcome


def test_the_canonical_form_of_a_task_reads_as_the_same_task():
    task = read(randomisation={"position": 0.6, "yaw": 0.5}, horizon=20, success={"draws": 2, "hold": 0.5})
    assert tasks.read(task.plain()) == task


def test_equal_tasks_have_one_form_however_they_are_written():
    longer = {"color": "red", "shape": "box", "size": [0.02, 0.02, 0.02], "mass": 0.1, "friction": 1}
    other = read(objects=["blue_cylinder", longer], fixtures=[{"kind": "bin"}], randomisation={"position": 0.6})
    assert other == read(randomisation={"position": 0.6, "yaw": 0})


def test_a_fenced_proposal_is_read_like_a_plain_one():
    assert tasks.parse(f"Here it is:\n```json\n{json.dumps(PLAIN)}\n```\nThat is all.") == PLAIN


def test_what_is_drawn_anywhere_has_no_place_of_its_own():
    one = {"color": "red", "shape": "box", "at": [0.4, 0.1]}
    other = {**one, "at": [0.6, -0.1]}
    spread = {"randomisation": {"position": 0.6}}
    assert read(objects=[one], **spread) == read(objects=[other], **spread)
    assert read(objects=[one]) != read(objects=[other])


def test_the_description_is_made_from_the_structure():
    words = read().described()
    assert "the red box is in the bin" in words
    assert "a blue cylinder" in words


def test_features_say_what_makes_a_task_hard():
    found = read(goal=[["lifted", "red_box"], ["near", "bin"]], horizon=9).features()
    assert found == {"predicates": 2.0, "objects": 3.0, "randomisation": 0.0, "horizon": 9.0, "level": 3.0}


def test_a_task_belongs_to_the_family_of_the_hardest_of_its_goals():
    assert read(goal=[["near", "red_box"], ["inside", "red_box", "bin"]]).family == "pick-place"
    assert {sort.family for sort in SORTS.values()} == set(FAMILIES)


@pytest.mark.parametrize(
    ("outcome", "changes"),
    [
        ("format", {"goal": []}),
        ("format", {"goal": "lift it"}),
        ("format", {"goal": [["lifted"]]}),
        ("format", {"goal": [["on", "red_box", "red_box"]]}),
        ("format", {"goal": [["near", "bin"], ["near", "bin"]]}),
        ("format", {"objects": [], "fixtures": []}),
        ("format", {"objects": "red_box"}),
        ("format", {"gaol": []}),
        ("format", {"horizon": "long"}),
        ("format", {"horizon": True}),
        ("format", {"objects": [{"color": "red", "shape": "box", "size": [0.02]}]}),
        ("unknown", {"objects": ["red_banana"]}),
        ("unknown", {"objects": ["pinkish_box"]}),
        ("unknown", {"objects": [{"shape": ["box"], "color": "red"}]}),
        ("unknown", {"fixtures": ["sink"]}),
        ("unknown", {"robot": "r2d2"}),
        ("unknown", {"goal": [["levitates", "red_box"]]}),
        ("unknown", {"goal": [["near", "green_box"]]}),
        ("unknown", {"goal": [["inside", "red_box", "blue_cylinder"]]}),
        ("unknown", {"goal": [["at", "red_box", "moon"]]}),
        ("unknown", {"goal": [["open", "drawer"]]}),
        ("names", {"objects": ["red_box", "red_box"]}),
        ("names", {"fixtures": ["bin", "bin"]}),
        ("bounds", {"horizon": 1e9}),
        ("bounds", {"horizon": -1}),
        ("bounds", {"horizon": 10**400}),
        ("bounds", {"success": {"draws": 99}}),
        ("bounds", {"success": {"draws": 0}}),
        ("bounds", {"randomisation": {"position": 2}}),
        ("bounds", {"objects": [{"color": "red", "shape": "box", "mass": 50}]}),
        ("bounds", {"objects": [{"color": "red", "shape": "box", "at": [1e300, 0]}]}),
        ("too_many", {"objects": [f"{c}_{s}" for c in ("red", "blue") for s in ("box", "cylinder", "sphere")]}),
        ("too_many", {"goal": [["near", "bin"]] * 5}),
        ("unreachable", {"objects": [{"color": "red", "shape": "box", "at": [1.2, 0]}]}),
        ("unreachable", {"fixtures": [{"kind": "drawer", "at": [0.4, 0]}]}),
        ("ungraspable", {"objects": [{"color": "red", "shape": "box", "size": [0.05, 0.05, 0.02]}]}),
    ],
)
def test_what_is_wrong_with_a_task_has_a_class(outcome: str, changes: dict):
    assert refused(json.dumps({**PLAIN, **changes})) == outcome


@pytest.mark.parametrize(
    ("outcome", "changes"),
    [
        ("contradiction", {"goal": [["at", "red_box", "left"], ["at", "red_box", "right"]]}),
        ("bounds", {"success": {"draws": 1}}),
        ("unreachable", {"objects": TALL, "goal": [["stacked", *(f"{row['color']}_cylinder" for row in TALL)]]}),
    ],
)
def test_a_task_may_be_kept_that_may_not_be_proposed(world, outcome: str, changes: dict):
    """What an older archive holds is still read."""
    assert read(**changes)
    (found,) = world.admit([Proposal("induction", json.dumps({**PLAIN, **changes}))], seed=0)
    assert isinstance(found, Rejection)
    assert found.outcome == outcome


@pytest.mark.parametrize(
    "text",
    ["", "lift the box", "[]", "null", '{"objects": NaN}', '{"goal": 1, "goal": 2}', "{" * 5000, "[" * 100_000, "\x00"],
)
def test_what_is_no_json_object_is_a_matter_of_format(text: str):
    assert refused(text) == "format"


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
WORDS = st.sampled_from(
    ["red_box", "blue_sphere", "bin", "drawer", "near", "on", "lifted", "at", "left", "box", "red", "stacked", "arm7"]
)
VALUES = st.recursive(
    LEAVES | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["shape", "color", "size", "at", "mass", "kind", "position", "yaw", "draws", "hold", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
KEYS = st.sampled_from([*PLAIN, "robot", "randomisation", "horizon", "success", "more"])


def class_of(text: str) -> str | None:
    """None for a task."""
    try:
        task = tasks.read(tasks.parse(text))
    except RefusedError as refused:
        return refused.outcome
    assert tasks.read(task.plain()) == task
    return None


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=6), st.booleans())
def test_a_malformed_task_never_raises_anything_else(changes: dict, whole: bool):
    assert class_of(json.dumps({**PLAIN, **changes} if whole else changes)) in {*CLASSES, None}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=80).map(lambda raw: raw.decode("latin-1")))
def test_any_text_at_all_is_a_task_or_a_class(text: str):
    assert class_of(text) in {*CLASSES, None}


def test_thousands_of_damaged_tasks_each_have_a_class():
    chance = random.Random(7)
    whole = json.dumps(read(randomisation={"position": 0.3}, horizon=20).plain())
    pieces = [
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "-",
        "e9",
        "null",
        "1e999",
        "NaN",
        "\\u0000",
        "red_box",
        "0",
        "\n```\n",
    ]
    kind = load_kinds(["induction"], KindConfig())["induction"]
    found, drafted = set(), set()
    for _ in range(4000):
        text = whole
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice(pieces) + text[at + chance.randint(0, 6) :]
        found.add(class_of(text))
        try:
            kind.draft(Proposal("induction", text))
        except RefusedError as refused:
            drafted.add(refused.outcome)
    assert found <= {*CLASSES, None}
    assert {"format", "bounds", "unknown"} <= found
    assert found - {None} <= drafted <= REJECTIONS


def test_a_task_of_an_environment_has_marks_that_goals_may_name():
    plain = {"objects": ["red_box"], "marks": {"goal": [0.5, 0.1, 0.02]}, "goal": [["at", "red_box", "goal"]]}
    task = tasks.read(plain)
    assert tasks.read(task.plain()) == task
    assert "the red box is at the goal" in task.described()
    assert "marks" not in read().plain()


@pytest.mark.parametrize(
    ("marks", "outcome"),
    [({"goal": [0.5, 0.1]}, "format"), ({"home": [0.5, 0.1, 0.1]}, "format"), ({"goal": [9, 0, 0]}, "bounds")],
)
def test_marks_that_cannot_be_are_refused(marks, outcome):
    with pytest.raises(RefusedError) as found:
        tasks.read({"marks": marks, "goal": [["near", "goal"]]})
    assert found.value.outcome == outcome


def test_a_proposal_has_no_marks():
    assert refused(json.dumps({**PLAIN, "marks": {"goal": [0.5, 0.1, 0.1]}})) == "format"
