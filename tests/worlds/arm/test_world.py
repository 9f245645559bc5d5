"""Admission and judging in the arm world."""

import contextlib
import json
from dataclasses import replace

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.errors import UserError
from autotelic.physics.arm.scenes import COLORS, SHAPES
from autotelic.testing import check_world
from autotelic.worlds.arm import brief
from autotelic.worlds.arm.episodes import Ended, Job
from autotelic.worlds.arm.kinds import base
from autotelic.worlds.arm.kinds.abduction import EXAMPLE
from autotelic.worlds.arm.kinds.base import KindConfig
from autotelic.worlds.arm.library import SEEDS, solution
from autotelic.worlds.arm.tasks import FIXTURES, Setting, read_setting
from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig
from autotelic.worlds.base import KINDS, Answer, Proposal, Rejection, Request, Task, Verdict
from autotelic.worlds.code.kinds.base import RefusedError, answer_text, fence, read_blocks

REACH = brief.program_of(" move red_box")


CARRIED = (" move red_box close middle", " red_box front_left blue_box back_right")
PASSED = (" move red_box close middle", " red_box front_left blue_box back_left")
NEAR = {"ask": [["near", "red_box"]], "object": "blue_box"}
LIFT = brief.program_of(" move red_box close up")
LIFTED = {"ask": [["lifted", "red_box"]], "object": "red_box"}


def control(goal, objects=("red_box",), fixtures=(), **more) -> str:
    return json.dumps({"objects": list(objects), "fixtures": list(fixtures), "goal": [goal], **more})


def question(calls: str, scene: str, **more) -> str:
    return brief.question_proposal(calls, {**brief.read_scene(scene), **more})


def rejection(world, kind: str, text: str) -> str:
    (result,) = world.admit([Proposal(kind, text)], seed=1)
    assert isinstance(result, Rejection), result
    return result.outcome


def test_the_world_keeps_to_its_word(world):
    proposals = [Proposal(kind, text) for kind, text in SEEDS.items()]
    proposals += [Proposal("induction", "nonsense"), Proposal("deduction", question(" move red_box", " red_box left"))]
    answers = [
        Answer(answer_text(REACH)),
        Answer(answer_text("yes left")),
        Answer(answer_text('{"red_box": [0.4, 0]}')),
    ]
    check_world(world, proposals, answers)


def test_the_version_names_the_simulator(world):
    assert f"mujoco-{mujoco.__version__}" in world.version


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("format", "lift the box"),
        ("goal_true", control(["at", "red_box", "left"], [{"color": "red", "shape": "box", "at": [0.4, 0.2]}])),
        (
            "overlap",
            control(["near", "red_box"], [{"color": c, "shape": "box", "at": [0.4, 0.2]} for c in ("red", "blue")]),
        ),
        ("overlap", control(["near", "red_box"], [{"color": "red", "shape": "box", "at": [0.5, -0.2]}], ["bin"])),
        (
            "uncompiled",
            control(["near", "bin"], (), [{"kind": "bin", "at": [0.5, 0.25]}, {"kind": "button", "at": [0.5, 0.25]}]),
        ),
    ],
)
def test_a_task_that_cannot_be_is_refused_by_class(world, outcome: str, text: str):
    assert rejection(world, "induction", text) == outcome


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
        ("goal_true", "abduction", question(" open", " red_box front_left", goal=[["at", "red_box", "left"]])),
    ],
)  # fmt: skip
def test_a_question_without_a_point_is_refused_by_class(world, outcome: str, kind: str, text: str):
    assert rejection(world, kind, text) == outcome


def test_a_controller_has_to_succeed_at_every_start(task_of, verdict_of):
    task = task_of("induction", control(["near", "red_box"], randomisation={"position": 0.6}, success={"draws": 3}))
    blind = "def execute_controller(robot, world):\n    robot.move_to([0.5, 0.0, 0.02])"
    assert verdict_of(task, REACH).solved
    found = verdict_of(task, blind)
    assert found.outcome == "wrong"
    assert "away" in found.detail


def test_other_seeds_draw_other_starts_and_equal_seeds_the_same(task_of, verdict_of):
    task = task_of("induction", control(["near", "red_box"], randomisation={"position": 0.6}, success={"draws": 1}))
    one, again, other = (verdict_of(task, REACH, seed).metrics["state"] for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_the_state_of_a_verdict_is_that_of_every_start(world, task_of):
    task = task_of("induction", control(["near", "red_box"], randomisation={"position": 0.6}, success={"draws": 2}))
    attempt = world.kinds["induction"].attempt(task, answer_text(REACH), seed=1)
    first, last = world.run(attempt.jobs)
    assert world._verdict(task, attempt, [first, last], 1) == world._verdict(task, attempt, [first, last], 1)
    states = [
        world._verdict(task, attempt, ended, 1).metrics["state"] for ended in ([first, last], [last, last], [last])
    ]
    assert len(set(states)) == 3


def test_the_goal_must_hold_when_the_controller_has_ended(task_of, verdict_of):
    task = task_of("induction", control(["near", "red_box"], success={"draws": 1}))
    assert not verdict_of(task, brief.program_of(" move red_box home")).solved


def test_what_is_thrown_up_is_not_lifted_and_what_is_held_is(task_of, verdict_of):
    task = task_of("induction", control(["lifted", "red_box"], success={"draws": 1}))
    assert verdict_of(task, brief.program_of(" move red_box close up")).solved
    assert not verdict_of(task, brief.program_of(" move red_box close up open")).solved


def test_metrics_are_in_simulated_time(reach, verdict_of):
    found = verdict_of(reach, REACH).metrics
    assert 0.2 < found["time"] < 3
    assert found["steps"] > 50
    assert {"path_efficiency", "energy", "smoothness", "collisions"} <= set(found)
    assert found == verdict_of(reach, REACH).metrics


def test_partial_credit_is_for_being_near_and_never_counts_as_solved():
    with ArmWorld(ArmWorldConfig(workers=1, heldout=False, kind=KindConfig(partial_credit=True))) as world:
        (task,) = world.admit([Proposal("induction", control(["near", "red_box"]))], 1)
        assert isinstance(task, Task)
        near, far = (
            world.judge([(task, Answer(answer_text(brief.program_of(calls))))], 1)[0]
            for calls in (" above red_box", " open")
        )
    assert 0 < far.score < near.score < 1
    assert not near.solved


@pytest.mark.parametrize(
    ("how", "outcome"), [("uncompiled", "lost"), ("broken", "broken"), ("horizon", "horizon"), ("ended", "wrong")]
)
def test_how_an_episode_ended_is_the_outcome_of_its_answer(world, reach, how: str, outcome: str):
    attempt = world.kinds["induction"].attempt(reach, answer_text(REACH), seed=1)
    assert world.kinds["induction"].grade(reach, attempt, [Ended(how)]).outcome == outcome


def test_a_deduction_that_was_altered_in_the_archive_is_found_out(task_of, verdict_of):
    task = task_of("deduction", question(*CARRIED, **NEAR))
    altered = replace(task, spec={**task.spec, "region": "bin"})
    assert verdict_of(task, "yes right").solved
    assert verdict_of(altered, "yes bin").outcome == "nondeterministic"


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


@pytest.mark.parametrize("how", ["limit", "broken", "lost"])
@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_an_episode_that_was_cut_does_not_contradict_its_question(world, task_of, kind: str, how: str):
    task = task_of(kind, SEEDS[kind])
    attempt = world.kinds[kind].attempt(task, known_answer(world, task).text, seed=1)
    found = world.kinds[kind].grade(task, attempt, [Ended(how, detail="cut")])
    assert (found.outcome, found.detail) == (how, "cut")


def test_a_question_whose_controller_follows_the_order_of_a_set_is_refused(world):
    calls, scene = CARRIED
    names = "sorted({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}, key=hash)"
    program = (
        f"{brief.program_of(calls)}\n    for name in {names}:\n"
        "        robot.move_to(robot.get_end_effector_position(), above=0.002 * (ord(name) - 96))"
    )
    block = fence("json", json.dumps({**brief.read_scene(scene), **NEAR}))
    assert rejection(world, "deduction", f"{block}\n{fence('python', program)}") == "nondeterministic"


def test_mass_and_friction_are_drawn_where_a_task_says_so(task_of, verdict_of):
    still, loaded = ({"position": 0.6}, {"position": 0.6, "mass": 1.0, "friction": 1.0})
    states = [
        verdict_of(task_of("induction", control(["lifted", "red_box"], randomisation=spread)), LIFT).metrics["state"]
        for spread in (still, loaded)
    ]
    assert len(set(states)) == 2


def test_a_deduction_is_right_when_all_of_it_is(task_of, verdict_of):
    text = question(
        " move red_box close middle", " red_box front_left blue_box back_right",
        ask=[["near", "red_box"], ["lifted", "red_box"]], object="blue_box",
    )  # fmt: skip
    task = task_of("deduction", text)
    assert (task.spec["ask"][0][0], task.spec["held"], task.spec["region"]) == ("lifted", [False, True], "right")
    assert verdict_of(task, "no yes right").solved
    assert verdict_of(task, "yes yes right").outcome == "wrong"
    assert verdict_of(task, "no yes left").outcome == "wrong"
    assert verdict_of(task, "no yes").outcome == "format"
    assert verdict_of(task, "perhaps yes right").outcome == "format"


def test_any_start_that_works_solves_an_abduction(task_of, verdict_of):
    task = task_of("abduction", SEEDS["abduction"])
    assert verdict_of(task, json.dumps(task.spec["start"])).solved
    assert verdict_of(task, '{"red_box": [0.5, 0.25, 0.3], "blue_box": [0.4, 0.15]}').solved
    assert verdict_of(task, '{"red_box": [0.4, 0.2], "blue_box": [0.5, -0.2]}').outcome == "wrong"


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("left", "format"),
        ('{"red_box": [0.4, 0.2]}', "format"),
        ('{"red_box": [0.4, 0.2], "blue_box": null}', "format"),
        ('{"red_box": [0.4, 0.2], "blue_box": [NaN, 0]}', "format"),
        ('{"red_box": [0.4, 0.2], "blue_box": [1e999, 0]}', "bounds"),
        ('{"red_box": [0.4, 0.2], "blue_box": [0.9, 0]}', "unreachable"),
        ('{"red_box": [0.4, 0.2], "blue_box": [0.41, 0.21]}', "overlap"),
        ('{"red_box": [0.4, -0.2], "blue_box": [0.5, 0.2]}', "goal_true"),
    ],
)
def test_a_start_that_cannot_be_has_a_class(task_of, verdict_of, said: str, outcome: str):
    assert verdict_of(task_of("abduction", SEEDS["abduction"]), said).outcome == outcome


@pytest.fixture
def looking_back(world):
    """The world, which says what else answers are right for."""
    world.hindsight = True
    yield world
    world.hindsight = False


def program(words: str) -> Answer:
    return Answer(answer_text(brief.program_of(words)))


def goals_of(verdict: Verdict) -> list[list[list[str]]]:
    return [other.spec["task"]["goal"] for other in verdict.achieved]


@pytest.fixture
def reaching(task_of):
    """To reach for the blue one of two boxes."""
    return task_of("induction", control(["near", "blue_box"], ["red_box", "blue_box"], randomisation={"position": 0.6}))


def test_what_a_failed_controller_did_reach_is_a_task_that_it_solves(looking_back, reaching):
    (found,) = looking_back.judge([(reaching, answer := program(" move red_box close up"))], 3)
    assert found.outcome == "wrong"
    assert goals_of(found) == [[["lifted", "red_box"]]]
    assert looking_back.judge([(found.achieved[0], answer)], 4)[0].solved


def test_it_solves_every_task_whose_goal_it_reached_at_all_starts(looking_back, reaching):
    (found,) = looking_back.judge([(reaching, answer := program(" move red_box close left_of blue_box open up"))], 3)
    goals = goals_of(found)
    assert [["left_of", "red_box", "blue_box"]] in goals
    assert [verdict.solved for verdict in looking_back.judge([(other, answer) for other in found.achieved], 3)] == [
        True for _ in goals
    ]


def test_what_solved_its_task_solves_others_too(looking_back, reaching):
    (found,) = looking_back.judge([(reaching, program(" move red_box close left open up move blue_box"))], 3)
    assert found.solved
    assert [["at", "red_box", "left"]] in goals_of(found)
    assert [["near", "blue_box"]] not in goals_of(found)


def test_what_is_always_reached_is_said_of_one_answer_a_task(looking_back, reaching):
    words = [" move red_box", " home move red_box", " down home move red_box"]
    found = looking_back.judge([(reaching, program(each)) for each in words], 3)
    assert [goals_of(each) for each in found] == [[[["near", "red_box"]]], [], []]


def test_a_doubt_is_settled_at_starts_that_were_not_seen_before(looking_back, reaching, monkeypatch):
    ran: list[Job] = []
    run = looking_back.run
    monkeypatch.setattr(looking_back, "run", lambda jobs: (ran.extend(jobs), run(jobs))[1])
    doubted = 0
    for seed in range(8):
        ran.clear()
        (found,) = looking_back.judge([(reaching, program(" move red_box close left open up"))], seed)
        assert len(set(ran)) == len(ran)
        doubted += len(ran) > 3 and [["at", "red_box", "left"]] in goals_of(found)
    assert doubted


def test_what_is_too_wide_to_be_wanted_in_the_air_is_not_said_to_be_reached(looking_back, task_of):
    wide = {"color": "red", "shape": "box", "size": [0.037, 0.037, 0.02]}
    task = task_of("induction", control(["near", "blue_box"], [wide, "blue_box"], randomisation={"position": 0.6}))
    (found,) = looking_back.judge([(task, program(" move red_box close up"))], 3)
    assert [["lifted", "red_box"]] not in goals_of(found)


def test_nothing_is_said_of_what_else_was_reached_unless_asked(world, reaching):
    assert world.judge([(reaching, program(" move red_box close up"))], 3)[0].achieved == ()


def test_a_start_solves_the_tasks_of_goals_that_it_leads_to_and_not_every_start_does(looking_back, task_of):
    task = task_of("abduction", SEEDS["abduction"])
    pairs = [{"red_box": [0.4, 0.2], "blue_box": [0.6, 0.1]}, {"red_box": [0.6, -0.2], "blue_box": [0.4, -0.2]}]
    starts = [Answer(f"<answer>{json.dumps(pair)}</answer>") for pair in pairs]
    found = looking_back.judge([(task, start) for start in starts], 3)
    others = [(start, other) for start, each in zip(starts, found, strict=True) for other in each.achieved]
    assert others
    assert all(other.spec["goal"] != task.spec["goal"] for _, other in others)
    assert all(verdict.solved for verdict in looking_back.judge([(other, start) for start, other in others], 4))
    for _, other in others:  # some start is wrong
        assert not all(verdict.solved for verdict in looking_back.judge([(other, start) for start in starts], 5))


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


def test_a_damaged_question_is_read_or_refused(world):
    rng = np.random.default_rng(11)
    for at in range(3000):
        kind, text = QUESTIONS[at % len(QUESTIONS)]
        with contextlib.suppress(RefusedError):
            world.kinds[kind].draft(Proposal(kind, damaged(text, rng)))


def test_what_can_be_read_of_damaged_questions_is_decided(world):
    rng = np.random.default_rng(12)
    damage = [Proposal(kind, damaged(text, rng)) for kind, text in QUESTIONS for _ in range(12)]
    settled(world, world.admit(damage, 1))


def known_answer(world, task):
    kind = world.kinds[task.kind]
    return Answer(kind.expand_answer(kind.brief_answer(task)))


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


def test_the_answer_that_comes_with_a_question_is_right_at_every_start(world):
    (task,) = world.admit([Proposal("deduction", question(*PASSED))], 1)
    asked = [task, *world.siblings(task)]
    assert {each.kind for each in asked} == {"deduction", "abduction"}
    assert len({json.dumps(each.spec["setting"]) for each in asked}) > 1
    pairs = [(each, known_answer(world, each)) for each in asked]
    assert all(verdict.solved for verdict in world.judge(pairs, 3))


def test_a_refused_question_gives_what_its_controller_does_at_other_starts(world):
    (refused,) = world.admit([Proposal("abduction", question(" move red_box right", " red_box front_right"))], 1)
    assert isinstance(refused, Rejection)
    assert {each.spec["controller"] for each in refused.found} == {brief.program_of(" move red_box right")}
    assert all(each.solved for each in world.judge([(each, known_answer(world, each)) for each in refused.found], 3))


TWO = ("red_box", "blue_box")


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


def test_a_wrong_prediction_is_the_right_answer_to_another_question(looking_back, task_of):
    task, world = task_of("deduction", question(*CARRIED, **NEAR)), looking_back
    kind = world.kinds["deduction"]
    words = [" ".join([*said, where]) for said in (["yes"], ["no"]) for where in ("left", "gripper")]
    found = world.judge([(task, Answer(f"<answer>{said}</answer>")) for said in words], 3)
    achieved = [(said, other) for said, each in zip(words, found, strict=True) for other in each.achieved]
    assert achieved
    for said, other in achieved:
        assert other.id != task.id
        assert (other.spec["setting"], other.spec["controller"]) == (task.spec["setting"], task.spec["controller"])
        assert kind.brief_solve_prompt(other)
        assert world.judge([(other, Answer(f"<answer>{said}</answer>"))], 4)[0].solved


def test_a_held_out_task_is_neither_admitted_nor_achieved_in_hindsight(task_of):
    text = control(["lifted", "red_box"], ["red_box", "blue_box"], randomisation={"position": 0.6})
    other = control(["near", "blue_box"], ["red_box", "blue_box"], randomisation={"position": 0.6})
    with ArmWorld(ArmWorldConfig(workers=1)) as world:
        world.suite = [task_of("induction", text)]
        (refused,) = world.admit([Proposal("induction", json.dumps({**json.loads(text), "horizon": 20}))], 1)
        assert isinstance(refused, Rejection)
        assert refused.outcome == "heldout"
        (task,) = world.admit([Proposal("induction", other)], 1)
        assert isinstance(task, Task)
        world.hindsight = True
        (found,) = world.judge([(task, Answer(answer_text(brief.program_of(" move red_box close up"))))], 3)
        assert goals_of(found) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_from_elsewhere_is_made_again_and_not_believed(world, task_of, kind: str):
    task = task_of(kind, SEEDS[kind])
    (again,) = world.admit([world.restate(kind, task.spec)], 1)
    assert again == task
    with pytest.raises(ValueError, match="not a spec"):
        world.restate(kind, {"program": "x"})


@pytest.mark.parametrize("kind", KINDS)
def test_full_prompts_say_all_that_is_needed(world, task_of, kind: str):
    task = task_of(kind, SEEDS[kind])
    asked = world.kinds[kind].propose_prompt(
        Request(kind, references=(task,), difficulty=0.5, recent=("abc",), outcomes={"overlap": 3})
    )
    assert task.id in asked
    assert "overlap 3" in asked
    assert "50 %" in asked
    prompt = world.kinds[kind].solve_prompt(task)
    assert "robot.move_to(" in prompt
    assert "<answer>" in prompt
    if kind == "abduction":
        assert json.dumps(task.spec["start"]["red_box"])[:-1] not in prompt  # the start is the answer


@pytest.mark.parametrize("kind", KINDS)
def test_the_form_that_a_prompt_shows_is_admitted(world, kind: str):
    asked = world.kinds[kind].propose_prompt(Request(kind))
    (result,) = world.admit([Proposal(kind, asked[asked.rindex("Answer in this form:") :])], 1)
    assert isinstance(result, Task), result


def test_two_processes_say_what_one_says(task_of, world):
    rng = np.random.default_rng(5)
    task = task_of("induction", control(["lifted", "red_box"], ["red_box", "blue_sphere"], ["bin"]))
    pairs = [(task, Answer(world.library.random_answer(task, rng))) for _ in range(6)]
    pairs += [(task, Answer(answer_text(solution([["lifted", "red_box"]]))))]
    with ArmWorld(ArmWorldConfig(workers=2, heldout=False)) as other:
        assert other.judge(pairs, 7) == world.judge(pairs, 7)


def test_an_unknown_kind_is_one_line():
    with pytest.raises(UserError, match="no kind 'deducton' in the arm world: did you mean deduction"):
        ArmWorld(ArmWorldConfig(kinds=["deducton"]))
