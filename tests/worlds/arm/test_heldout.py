"""What asks the same as a held-out task is refused, however it is said."""

import json

import pytest

from autotelic.worlds.arm.kinds.abduction import EXAMPLE
from autotelic.worlds.arm.library import SEEDS
from autotelic.worlds.arm.tasks import read_setting
from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig
from autotelic.worlds.base import Proposal, Task
from autotelic.worlds.code.kinds.base import fence

from .texts import NEAR, PASSED, TWO, control, question, rejection


def test_siblings_that_are_held_out_stay_out():
    with ArmWorld(ArmWorldConfig(workers=1)) as world:
        world.suite = []
        (task,) = world.admit([Proposal("deduction", question(*PASSED))], 1)
        assert isinstance(task, Task)
        (first, *_) = world.siblings(task)
        world.withhold([first])
        world.admit([Proposal("deduction", question(*PASSED))], 1)
        assert first.id not in {other.id for other in world.siblings(task)}


@pytest.fixture
def guarded():
    with ArmWorld(ArmWorldConfig(workers=1)) as world:
        world.suite = []
        yield world


def test_what_leads_to_a_held_out_goal_is_not_asked_as_a_deduction(guarded):
    (found,) = guarded.admit([Proposal("abduction", SEEDS["abduction"])], 1)
    asked = {**found.spec["setting"], "ask": found.spec["goal"], "object": "red_box"}
    text = f"{fence('json', json.dumps(asked))}\n{fence('python', found.spec['controller'])}"
    (free,) = guarded.admit([Proposal("deduction", text)], 1)
    assert isinstance(free, Task), free
    guarded.withhold([found])
    assert rejection(guarded, "deduction", text) == "heldout"


SWEPT = {"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2]}], "fixtures": ["bin"]}


SWEEP = EXAMPLE.replace("-0.2", "-0.02")


def test_where_a_thing_ends_up_is_not_asked_if_a_held_out_question_asks_how_to_get_it_there(guarded):
    blocks = ({"goal": [["at", "red_box", "middle"]]}, {"ask": [["lifted", "red_box"]], "object": "red_box"})
    goal, asked = (f"{fence('json', json.dumps({**SWEPT, **more}))}\n{fence('python', SWEEP)}" for more in blocks)
    found, free = guarded.admit([Proposal("abduction", goal), Proposal("deduction", asked)], 1)
    assert isinstance(free, Task), free
    assert (free.spec["held"], free.spec["region"]) == ([False], "middle")
    guarded.withhold([found])
    assert rejection(guarded, "deduction", asked) == "heldout"


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("middle", ["at", "red_box", "middle"]),
        ("bin", ["inside", "red_box", "bin"]),
        ("gripper", ["lifted", "red_box"]),
    ],
)
def test_an_ending_says_what_a_goal_may_ask_for(world, ending: str, said: list[str]):
    scene = {"setting": read_setting(SWEPT).plain(), "controller": EXAMPLE}
    asked = {**scene, "ask": [["near", "red_box"]], "held": [True], "object": "red_box", "region": ending}
    told = world.kinds["deduction"].asks_about(asked)
    for goal in ([said], [said, ["near", "red_box"]]):
        assert world.kinds["abduction"].withheld({**scene, "goal": goal})[0] in told


def test_a_question_whose_start_answers_a_held_out_one_is_not_asked(guarded):
    rows = [["right_of", "red_box", "blue_box"], ["behind", "blue_box", "red_box"]]
    wide, narrow = (question(*PASSED, goal=goal) for goal in (rows, rows[:1]))
    found, free = guarded.admit([Proposal("abduction", narrow), Proposal("abduction", wide)], 1)
    assert isinstance(free, Task), free
    guarded.withhold([found])
    assert rejection(guarded, "abduction", wide) == "heldout"


@pytest.mark.parametrize("more", [["near", "red_box"], ["near", "blue_box"], ["left_of", "blue_box", "red_box"]])
def test_a_held_out_goal_is_not_asked_with_another_beside_it(guarded, more: list[str]):
    spread = {"randomisation": {"position": 0.6}}
    asked = json.dumps({"objects": TWO, "goal": [["lifted", "red_box"], more], **spread})
    alone = control(["lifted", "red_box"], TWO, **spread)
    found, free = guarded.admit([Proposal("induction", alone), Proposal("induction", asked)], 1)
    assert isinstance(free, Task), free
    guarded.withhold([found])
    assert rejection(guarded, "induction", asked) == "heldout"
    guarded.heldout.clear()
    guarded.withhold([free])
    assert isinstance(guarded.admit([Proposal("induction", alone)], 1)[0], Task)  # it says less


@pytest.mark.parametrize(
    ("prompt", "asks"),
    [
        (" left_of blue_box red_box<scene> red_box blue_box", True),
        (" right_of red_box blue_box<scene> blue_box red_box", True),
        (" near red_box left_of blue_box red_box<scene> red_box blue_box", True),
        (" left_of red_box blue_box<scene> red_box blue_box", False),
        (" left_of blue_box red_box<scene> red_box blue_box bin", False),
        (" near red_box<scene> red_box blue_box", False),
        (" near red_box<scene> red_box<unknown><unknown>", True),
    ],
)
def test_a_text_in_other_colours_asks_what_is_held_out_in_any_wording(guarded, prompt: str, asks: bool):
    text = control(["left_of", "blue_box", "red_box"], TWO, randomisation={"position": 0.6})
    guarded.withhold(guarded.admit([Proposal("induction", text)], 1))
    assert guarded.asks_heldout(f"<induction>{prompt}<answer>") is asks
    assert not guarded.asks_heldout(f"<abduction> open<goal>{prompt}<answer>")


def test_nothing_is_asked_about_a_held_out_run(guarded):
    (found,) = guarded.admit([Proposal("deduction", question(*PASSED, **NEAR))], 1)
    other = question(*PASSED, goal=[["right_of", "red_box", "blue_box"]])
    (free,) = guarded.admit([Proposal("abduction", other)], 1)
    assert isinstance(free, Task), free
    guarded.withhold([found])
    assert rejection(guarded, "abduction", other) == "heldout"
    assert rejection(guarded, "deduction", question(*PASSED)) == "heldout"


@pytest.mark.parametrize("more", [{"randomisation": {"position": 0.59}}, {}])
def test_a_held_out_goal_is_not_asked_from_other_starts_nor_in_other_words(guarded, more):
    things = ["red_box", "blue_box"]
    (found,) = guarded.admit(
        [Proposal("induction", control(["on", "red_box", "blue_box"], things, randomisation={"position": 0.6}))], 1
    )
    guarded.withhold([found])
    for name in ("on", "stacked"):
        assert rejection(guarded, "induction", control([name, "red_box", "blue_box"], things, **more)) == "heldout"


LOOSE = [
    {"color": color, "shape": "box", "mass": 0.1001, "friction": 0.9, "size": [0.021] * 3} for color in ("red", "blue")
]


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (["left_of", "red_box", "blue_box"], control(["right_of", "blue_box", "red_box"], TWO)),
        (
            ["in_front_of", "red_box", "bin"],
            control(["in_front_of", "red_box", "bin"], TWO, [{"kind": "bin", "at": [0.501, -0.2]}]),
        ),
        (["lifted", "red_box"], control(["lifted", "red_box"], LOOSE, horizon=12.0001)),
    ],
    ids=["converse", "fixture", "numbers"],
)
def test_a_held_out_goal_is_not_asked_as_its_converse_nor_with_other_numbers(guarded, held, asked):
    fixtures = ["bin"] if "bin" in held else []
    (found,) = guarded.admit([Proposal("induction", control(held, TWO, fixtures, randomisation={"position": 0.6}))], 1)
    asked = json.dumps({**json.loads(asked), "randomisation": {"position": 0.6}})
    (free,) = guarded.admit([Proposal("induction", asked)], 1)
    assert isinstance(free, Task), free
    guarded.withhold([found])
    assert rejection(guarded, "induction", asked) == "heldout"


OTHERWISE = {
    "comment": lambda text: text.replace("    robot", "    # carry it\n    robot", 1),
    "space": lambda text: text.replace("above=", "above = "),
    "variable": lambda text: text.replace("world", "w"),
    "colour": lambda text: text.replace("blue", "cyan"),
    "exchange": lambda text: text.replace("blue", "?").replace("red", "blue").replace("?", "red"),
    "place": lambda text: text.replace("0.55", "0.551"),
    "mass": lambda text: text.replace('"shape"', '"mass": 0.1001, "shape"'),
}


@pytest.mark.parametrize(
    ("kind", "how"),
    [("deduction", how) for how in OTHERWISE] + [("abduction", how) for how in OTHERWISE if how != "place"],
)
def test_a_held_out_question_is_not_asked_otherwise_written(guarded, kind: str, how: str):
    more = NEAR if kind == "deduction" else {"goal": [["right_of", "red_box", "blue_box"]]}
    text = question(*PASSED, **more)
    asked = OTHERWISE[how](text)
    assert asked != text
    found, free = guarded.admit([Proposal(kind, text), Proposal(kind, asked)], 1)
    assert isinstance(free, Task), free
    guarded.withhold([found])
    assert rejection(guarded, kind, asked) == "heldout"
