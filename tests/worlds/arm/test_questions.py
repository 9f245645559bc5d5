"""Which questions about controllers are admitted, and what else is asked beside them."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.physics.arm.scenes import COLORS, SHAPES
from autotelic.worlds.arm import brief
from autotelic.worlds.arm.episodes import Ended
from autotelic.worlds.arm.kinds import base, questions
from autotelic.worlds.arm.library import SEEDS
from autotelic.worlds.arm.tasks import FIXTURES, Setting, read_setting
from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig
from autotelic.worlds.base import Answer, Proposal, Rejection, Request, Task
from autotelic.worlds.code.kinds.base import RefusedError, answer_text, fence, read_blocks

from .texts import CARRIED, NEAR, PASSED, REACH, REJECTIONS, TWO, control, known_answer, program, question, rejection

EITHER = [["at", "red_box", "left"], ["at", "red_box", "right"]]
LIFTED = {"ask": [["lifted", "red_box"]], "object": "red_box"}


@pytest.mark.parametrize(
    ("outcome", "kind", "text"),
    [
        ("format", "deduction", control(["near", "red_box"])),
        ("no_entry", "deduction", f"{fence('json', json.dumps({'objects': ['red_box']}))}\n{fence('python', 'x = 1')}"),
        ("trivial", "deduction", question(" open", " red_box front_left")),
        ("trivial", "deduction", question(" move red_box close up", " red_box front_left", **LIFTED)),
        ("unknown", "deduction", question(" open", " red_box front_left", ask=[["near", "red_box"]], object="bin")),
        ("unreached", "abduction", question(" open", " red_box front_left", goal=[["lifted", "red_box"]])),
        ("unreached", "abduction", question(" open", " red_box front_left")),
        ("trivial", "abduction", question(" move red_box close up", " red_box front_left")),
        ("contradiction", "abduction", question(" open", " red_box front_left", goal=EITHER)),
        ("goal_true", "abduction", question(" open", " red_box front_left", goal=[["at", "red_box", "left"]])),
    ],
)  # fmt: skip
def test_a_question_without_a_point_is_refused_by_class(world, outcome: str, kind: str, text: str):
    assert rejection(world, kind, text) == outcome


def test_what_cannot_hold_at_once_can_be_asked_about(world):
    text = question(" move red_box close middle", " red_box front_left", ask=EITHER, object="red_box")
    assert world.kinds["deduction"].draft(Proposal("deduction", text)).spec["ask"] == EITHER


# Says nothing at any start but its own.
ONLY_HERE = """\
def execute_controller(robot, world):
    x, y, z = world.position('red_box')
    other_x, other_y, _ = world.position('blue_box')
    if max(abs(x - 0.4), abs(y - 0.2), abs(other_x - 0.55), abs(other_y - 0.2)) > 0.01:
        raise ValueError
    robot.move_to([x, y, 0.12])
    robot.move_to([x, y, z])
    robot.close_gripper()
    robot.move_to([x, 0.0, z])"""


def only_here() -> str:
    return f"{fence('json', json.dumps(brief.read_scene(PASSED[1])))}\n{fence('python', ONLY_HERE)}"


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_a_question_that_no_other_start_speaks_to_is_refused(world, kind: str):
    (refused,) = world.admit([Proposal(kind, only_here())], 1)
    assert isinstance(refused, Rejection)
    assert (refused.outcome, refused.found) == ("trivial", ())
    assert "could not be shown" in refused.reason
    (taken,) = world.admit_freely([Proposal(kind, only_here())], thorough=False)
    assert isinstance(taken, Task)


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_a_question_whose_other_starts_were_lost_is_nobodys_fault(world, kind: str):
    draft = world.kinds[kind].draft(Proposal(kind, only_here()))
    (own,) = world.run(draft.jobs)
    for how in ("lost", "limit"):
        with pytest.raises(RefusedError) as refused:
            world.kinds[kind].spec(draft, [own, own, Ended(how), Ended("exception")])
        assert refused.value.outcome == "lost"


def test_a_question_whose_controller_follows_the_order_of_a_set_is_refused(world):
    calls, scene = CARRIED
    names = "sorted({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}, key=hash)"
    program = (
        f"{brief.program_of(calls)}\n    for name in {names}:\n"
        "        robot.move_to(robot.get_end_effector_position(), above=0.002 * (ord(name) - 96))"
    )
    block = fence("json", json.dumps({**brief.read_scene(scene), **NEAR}))
    assert rejection(world, "deduction", f"{block}\n{fence('python', program)}") == "nondeterministic"


# So full that of the starts that are looked for, some are not found.
DENSE = {
    "objects": [
        {"color": color, "shape": "box", "at": at}
        for color, at in (
            ("blue", [0.37, 0.211]),
            ("green", [0.467, -0.016]),
            ("orange", [0.357, -0.025]),
            ("red", [0.604, 0.124]),
            ("yellow", [0.413, -0.007]),
        )
    ],
    "fixtures": ["bin"],
}


def settled(world, results) -> None:
    """Everything that a round of admission gives can be asked."""
    for result in results:
        assert isinstance(result, Task | Rejection)
        found = [result, *world.siblings(result)] if isinstance(result, Task) else result.found
        for task in found:
            assert world.kinds[task.kind].solve_prompt(task)


@pytest.mark.parametrize("missing", [(), (0,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_a_question_about_a_full_table_is_decided_whichever_starts_are_found(world, kind: str, missing, monkeypatch):
    found = base._start_anywhere
    monkeypatch.setattr(base, "_start_anywhere", lambda *said: None if said[-1] in missing else found(*said))
    settled(world, world.admit([Proposal(kind, brief.question_proposal(" move red_box close left", DENSE))], 1))


NAMED = st.tuples(st.sampled_from(list(COLORS)), st.sampled_from(list(SHAPES)))


CELLS = [(0.36 + 0.065 * i, -0.28 + 0.07 * j) for i in range(5) for j in range(9)]


@st.composite
def full_tables(draw) -> dict:
    """As many things as there may be, near to each other, and fixtures, of which some stand in their way."""
    names = draw(st.lists(NAMED, min_size=4, max_size=5, unique=True))
    cells = draw(st.lists(st.sampled_from(CELLS), min_size=5, max_size=5, unique=True))
    off = st.floats(-0.005, 0.005)
    rows = [
        {"color": color, "shape": shape, "at": [x + draw(off), y + draw(off)]}
        for (color, shape), (x, y) in zip(names, cells, strict=False)
    ]
    return {"objects": rows, "fixtures": draw(st.lists(st.sampled_from(FIXTURES), unique=True))}


@settings(max_examples=25, deadline=None)
@given(full_tables(), st.sampled_from(["deduction", "abduction"]))
def test_whatever_is_on_the_table_a_question_is_admitted_or_refused(world, table: dict, kind: str):
    color, shape = table["objects"][0]["color"], table["objects"][0]["shape"]
    program = f"def execute_controller(robot, world):\n    robot.move_to(world.position('{color}_{shape}'))"
    text = f"{fence('json', json.dumps(table))}\n{fence('python', program)}"
    settled(world, world.admit([Proposal(kind, text)], 1))


def test_what_else_is_asked_beside_a_question_at_spots_is_at_spots_too(world):
    scene = " red_box front_middle bin button drawer"  # the only spot that is free
    (task,) = world.admit([Proposal("deduction", question(" move red_box close left open", scene))], 1)
    assert isinstance(task, Task)
    assert None in [
        brief.places_words(Setting(world.kinds["deduction"].scene(task.spec), start))
        for start in base.other_starts(read_setting(task.spec["setting"]), 3)
    ]
    others = world.siblings(task)
    assert others
    assert all(brief.places_words(read_setting(other.spec["setting"])) for other in others)


def test_where_there_is_room_for_other_starts_some_are_found_with_the_digits_that_a_task_keeps():
    setting = read_setting(DENSE)
    found = base.other_starts(setting, 3)
    assert len(found) == 3
    for start in found:
        moved = Setting(setting.scene, start)
        base.check_start(moved)
        assert read_setting(moved.plain()) == moved
        assert brief.places_words(moved) is None


def test_a_question_at_no_spots_has_no_brief_answer(world, task_of):
    task = task_of("deduction", brief.question_proposal(" move red_box close left", DENSE))
    assert world.kinds["deduction"].brief_answer(task) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2], "size": [0.03, 0.02, 0.02]}]},
        {"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2], "mass": 0.3}]},
        {"fixtures": [{"kind": "bin", "at": [0.45, -0.2]}]},
    ],
)
def test_a_scene_that_brief_words_do_not_say_has_no_brief_answer(changes: dict):
    usual = {"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2]}], "fixtures": ["bin"]}
    assert brief.places_words(read_setting(usual)) == " red_box front_left"
    assert brief.places_words(read_setting({**usual, **changes})) is None


TOLD = """\
def execute_controller(robot, world):
    "yes left"
    # the answer is: yes left
    robot.move_to(world.position('red_box'))
    robot.close_gripper()
    x, y, z = robot.get_end_effector_position()
    robot.move_to([x, 0.02, z])"""


def test_a_question_shows_a_controller_without_what_its_proposer_says_beside_it(world, task_of):
    text = f"{fence('json', json.dumps(brief.read_scene(CARRIED[1])))}\n{fence('python', TOLD)}"
    task = task_of("deduction", text)
    assert "yes left" not in world.kinds["deduction"].solve_prompt(task)
    assert "robot.close_gripper()" in task.spec["controller"]


@pytest.mark.parametrize("idle", ['f"yes left"', 'b"yes left"', '("yes left",)', '["yes", ("left", 1)]', "..."])
def test_values_that_do_nothing_are_not_shown(idle: str):
    program = f"def execute_controller(robot, world):\n    {idle}\n    if world.objects():\n        {idle}"
    assert base._told(program) == "def execute_controller(robot, world):\n    if world.objects():\n        pass"


@pytest.mark.parametrize(
    "body",
    [f"    x = 0x{'f' * 4000}", "    f\"{'\u00a0'}\"", "\n".join([" if 1:", *("  x=1" for _ in range(3700))])],
)
def test_a_controller_that_cannot_be_written_down_again_is_refused(world, body: str):
    scene, program = json.dumps(brief.read_scene(CARRIED[1])), f"def execute_controller(robot, world):\n{body}"
    text = f"{fence('json', scene)}\n{fence('python', program)}"
    assert rejection(world, "deduction", text) == "syntax"


def test_a_question_is_the_same_however_its_controller_is_written(world):
    asked = json.dumps({**brief.read_scene(CARRIED[1]), **NEAR})
    programs = (TOLD, TOLD.replace("x, y, z", "a, b, c").replace("[x, 0.02, z]", "[a,  0.02, c]"))
    texts = [f"{fence('json', asked)}\n{fence('python', program)}" for program in programs]
    one, other = world.admit([Proposal("deduction", text) for text in texts], 1)
    assert one.id == other.id


@pytest.mark.parametrize("how", base.UNSEEN)
def test_a_second_run_that_was_not_seen_does_not_speak_against_a_controller(how: str):
    own = Ended("ended", digest="1")
    with pytest.raises(RefusedError) as refused:
        questions.checked([own, Ended(how)])
    assert refused.value.outcome == how


def test_starts_at_which_things_do_not_stay_are_no_evidence_that_a_goal_is_hard_to_reach(world):
    kind = world.kinds["abduction"]
    draft = kind.draft(Proposal("abduction", SEEDS["abduction"]))
    (own,) = world.run(draft.jobs)
    away = replace(own, unsettled="red_box")
    assert list(kind.specs(draft, [own, own, own, away, away])) == []


JUNK = (
    None,
    True,
    -1,
    -0.0,
    1e999,
    float("nan"),
    10**400,
    "",
    "bin",
    "\x00",
    [],
    [[]],
    {},
    ["red_box"],
    {"at": 1},
    "x" * 99,
)


def damaged(text: str, rng: np.random.Generator) -> str:
    """A proposal with a value of its JSON replaced by what may stand nowhere there, or a piece of its text cut out,
    doubled or replaced."""
    if rng.random() < 0.6:
        (_, shown), *_ = blocks = read_blocks(text)
        found = json.loads(shown)
        inner = found
        while True:
            key = (
                list(inner)[int(rng.integers(len(inner)))] if isinstance(inner, dict) else int(rng.integers(len(inner)))
            )
            if not isinstance(inner[key], dict | list) or not inner[key] or rng.random() < 0.3:
                break
            inner = inner[key]
        inner[key] = JUNK[int(rng.integers(len(JUNK)))]
        return "\n".join([fence("json", json.dumps(found)), *(fence(label, body) for label, body in blocks[1:])])
    pieces = ["{", "]", '"', ",", "NaN", '"at"', "```", "\n", "red_box", "``` python", "\ud800", "    ", "[" * 2000]
    at = int(rng.integers(len(text)))
    end = at + int(rng.integers(0, 12))
    return text[:at] + (text[at:end] * 2 if rng.random() < 0.2 else pieces[int(rng.integers(len(pieces)))]) + text[end:]


QUESTIONS = (
    ("deduction", question(*PASSED, **NEAR)),
    ("abduction", SEEDS["abduction"]),
    ("abduction", brief.question_proposal(" move red_box close left", DENSE)),
)


def test_a_damaged_question_is_read_or_refused_by_class(world):
    rng, found = np.random.default_rng(11), set()
    for at in range(3000):
        kind, text = QUESTIONS[at % len(QUESTIONS)]
        try:
            world.kinds[kind].draft(Proposal(kind, damaged(text, rng)))
        except RefusedError as refused:
            found.add(refused.outcome)
    assert {"format", "unknown", "syntax"} <= found <= REJECTIONS


def test_what_can_be_read_of_damaged_questions_is_decided(world):
    rng = np.random.default_rng(12)
    damage = [Proposal(kind, damaged(text, rng)) for kind, text in QUESTIONS for _ in range(12)]
    settled(world, world.admit(damage, 1))


def test_what_else_can_be_asked_of_a_run_comes_with_a_question_and_would_be_admitted(world):
    (task,) = world.admit([Proposal("deduction", question(*PASSED))], 1)
    others = world.siblings(task)
    assert {other.kind for other in others} == {"deduction", "abduction"}
    assert len({other.id for other in others} - {task.id}) == len(others) > 2
    assert world.siblings(task) == []  # once
    assert {other.spec["controller"] for other in others} == {task.spec["controller"]}
    here = [other for other in others if other.spec["setting"] == task.spec["setting"]]
    assert {other.kind for other in here} == {"deduction", "abduction"}
    for other in here:
        (again,) = world.admit([world.restate(other.kind, other.spec)], 2)
        assert again == other


def test_what_nobody_asked_for_is_forgotten_with_the_next_admission(world):
    (task,) = world.admit([Proposal("deduction", question(*PASSED))], 1)
    world.admit([], 1)
    assert world.siblings(task) == []


def test_the_answer_that_comes_with_a_question_is_right_at_every_start(world):
    (task,) = world.admit([Proposal("deduction", question(*PASSED))], 1)
    asked = [task, *world.siblings(task)]
    assert {each.kind for each in asked} == {"deduction", "abduction"}
    assert len({json.dumps(each.spec["setting"]) for each in asked}) > 1
    pairs = [(each, known_answer(world, each)) for each in asked]
    assert all(verdict.solved for verdict in world.judge(pairs, 3))


def test_a_refused_question_gives_what_its_controller_does_at_other_starts(world):
    (refused,) = world.admit(
        [Proposal("abduction", question(" move red_box close left open", " red_box front_right"))], 1
    )
    assert isinstance(refused, Rejection)
    assert refused.outcome == "trivial"
    assert {each.spec["controller"] for each in refused.found} == {brief.program_of(" move red_box close left open")}
    assert all(each.solved for each in world.judge([(each, known_answer(world, each)) for each in refused.found], 3))


def test_a_controller_that_does_nothing_at_its_start_is_not_run_at_others(world, monkeypatch):
    run, many = world.run, []
    monkeypatch.setattr(world, "run", lambda jobs: many.append(len(jobs)) or run(jobs))
    (refused,) = world.admit([Proposal("abduction", question(" up home", " red_box front_right"))], 1)
    assert isinstance(refused, Rejection)
    assert (refused.outcome, sum(many)) == ("unreached", 1)


def with_siblings(world, proposals) -> list[Task]:
    """All tasks that proposals give."""
    results = world.admit(proposals, 1)
    return [
        task for each in results for task in ([each, *world.siblings(each)] if isinstance(each, Task) else each.found)
    ]


def test_a_controller_that_was_an_answer_gives_questions_about_what_it_does(world, task_of):
    task = task_of("induction", control(["lifted", "red_box"], TWO, randomisation={"position": 0.6}))
    program = brief.program_of(" move red_box close back")
    asked = world.questions(task, Answer(answer_text(program)))
    assert len({each.text for each in asked}) == len(asked) > 1  # from several starts
    results = world.admit(asked, 1)
    new = [
        task for each in results for task in ([each, *world.siblings(each)] if isinstance(each, Task) else each.found)
    ]
    assert {each.spec["controller"] for each in new} == {program}
    assert {each.kind for each in new} == {"deduction", "abduction"}
    assert all(verdict.solved for verdict in world.judge([(each, known_answer(world, each)) for each in new], 3))


IN_RED = " move red_box close middle<scene> red_box front_left blue_box back_left"
IN_YELLOW = " move yellow_box close middle<scene> yellow_box front_left red_box back_left"


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
@pytest.mark.parametrize(
    ("other", "same"),
    [
        (IN_YELLOW, True),
        (IN_YELLOW.replace("red_box", "blue_box"), True),
        (IN_RED.replace("blue_box", "blue_sphere"), False),
        (IN_RED.replace("back_left", "back_right"), False),
        (IN_RED.replace("move red_box", "move blue_box"), False),
    ],
)
def test_what_differs_in_colours_alone_is_one_question(world, kind: str, other: str, same: bool):
    one, another = (world.kinds[kind].expand_proposal(text, Request(kind)) for text in (IN_RED, other))
    assert (one == another) is same


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
@pytest.mark.parametrize(
    ("one", "another"),
    [
        # Things without a place, which are written as names alone.
        (" move red_box close left<scene> red_box", " move yellow_box close left<scene> yellow_box"),
        # Things that the controller does not name, listed in another order.
        (f"{IN_RED} green_box back_right", " move red_box close middle<scene> red_box front_left blue_box back_right"
         " green_box back_left"),
        (f"{IN_RED} green_sphere back_right", " move red_box close middle<scene> blue_sphere back_right"
         " red_box front_left yellow_box back_left"),
    ],
)  # fmt: skip
def test_twins_in_other_colours_are_one_question_however_they_are_listed(world, kind: str, one: str, another: str):
    texts = [world.kinds[kind].expand_proposal(text, Request(kind)) for text in (one, another)]
    first, second = (world.kinds[kind].draft(Proposal(kind, text)).spec for text in texts)
    assert first == second


def test_colours_change_nothing_of_what_happens_while_things_keep_their_order(world):
    ended = []
    for text in (IN_RED, IN_YELLOW):
        calls, _, scene = text.partition(brief.SCENE)
        setting = read_setting(brief.read_scene(scene))
        ended += world.run([questions.job(setting, setting.start, brief.program_of(calls))])
    assert ended[0].digest == ended[1].digest
    one, other = (list(each.later.positions.values()) for each in ended)
    assert one != list(ended[0].before.positions.values())
    assert one == other


def test_answers_are_asked_about_in_the_colours_that_come_first(world, task_of):
    task = task_of(
        "induction", control(["lifted", "yellow_box"], ("yellow_box", "blue_box"), randomisation={"position": 0.6})
    )
    asked = world.questions(task, program(" move yellow_box close back"))
    assert asked
    assert all({*re.findall(r"(\w+)_box", each.text)} == {"red"} for each in asked)  # the one that it moves
    assert all({*re.findall(r'"color": "(\w+)"', each.text)} == {"red", "green"} for each in asked)


def test_a_proposal_of_what_is_no_thing_keeps_it(world):
    text = world.kinds["abduction"].expand_proposal(
        " move pink_box<scene> pink_box front_left red", Request("abduction")
    )
    assert "pink_box" in text
    assert rejection(world, "abduction", text) == "unknown"


@pytest.mark.parametrize("text", ["no program", answer_text(f"{REACH}\n    skill_{'0' * 32}(robot, world)")])
def test_no_question_is_made_of_what_is_no_controller_or_more_than_its_text(world, task_of, text: str):
    task = task_of("induction", control(["near", "red_box"], TWO))
    assert world.questions(task, Answer(answer_text(REACH)))
    assert world.questions(task, Answer(text)) == []


def test_no_question_is_made_of_answers_to_questions(world, task_of):
    task = task_of("deduction", question(*PASSED, **NEAR))
    assert world.questions(task, known_answer(world, task)) == []


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_the_kind_of_question_that_is_played_asks(kind: str):
    with ArmWorld(ArmWorldConfig(workers=1, heldout=False, kinds=["induction", kind])) as some:
        (task,) = some.admit([Proposal("induction", control(["lifted", "red_box"], TWO))], 1)
        assert isinstance(task, Task)
        asked = some.questions(task, program(" move red_box close back"))
        assert {each.kind for each in with_siblings(some, asked)} == {kind}


def test_no_question_is_made_where_no_kind_asks_any():
    with ArmWorld(ArmWorldConfig(workers=1, heldout=False, kinds=["induction"])) as alone:
        (task,) = alone.admit([Proposal("induction", control(["near", "red_box"], TWO))], 1)
        assert isinstance(task, Task)
        assert alone.questions(task, Answer(answer_text(REACH))) == []


@pytest.mark.parametrize(
    ("at", "words"),
    [([0.4, 0.2], " red_box front_left"), ([0.41, 0.2], None), ([0.4, 0.2, 0.5], None)],
)
def test_only_a_start_at_a_spot_has_brief_words(at, words):
    assert brief.places_words(read_setting({"objects": [{"color": "red", "shape": "box", "at": at}]})) == words


def test_a_wrong_start_is_told_how_far_from_the_goal_it_ended(task_of, verdict_of):
    task = task_of("abduction", SEEDS["abduction"])
    found = verdict_of(task, json.dumps({name: [0.6, 0.2 * at] for at, name in enumerate(task.spec["start"])}))
    assert found.outcome == "wrong"
    assert re.fullmatch(r"right_of\(red_box, blue_box\) is 0\.\d+ away", found.detail)
