"""Judging in the arm world, admission of control tasks, and prompts."""

import json
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.physics.arm.robots import TIMESTEP
from autotelic.play import measures
from autotelic.play.player import Sample
from autotelic.play.rounds import Attempted
from autotelic.testing import check_world
from autotelic.worlds.arm import brief
from autotelic.worlds.arm.episodes import Ended
from autotelic.worlds.arm.kinds.abduction import EXAMPLE
from autotelic.worlds.arm.kinds.base import KindConfig
from autotelic.worlds.arm.library import SEEDS, solution
from autotelic.worlds.arm.tasks import read_setting
from autotelic.worlds.arm.world import METRICS, ArmWorld, ArmWorldConfig
from autotelic.worlds.base import KINDS, Answer, Proposal, Request, Task, Verdict
from autotelic.worlds.code.kinds.base import answer_text

from .texts import CARRIED, NEAR, REACH, control, known_answer, question, rejection

LIFT = brief.program_of(" move red_box close up")


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


def test_a_controller_has_to_succeed_at_every_start(task_of, verdict_of):
    task = task_of("induction", control(["near", "red_box"], randomisation={"position": 0.6}, success={"draws": 3}))
    blind = "def execute_controller(robot, world):\n    robot.move_to([0.5, 0.0, 0.02])"
    assert verdict_of(task, REACH).solved
    found = verdict_of(task, blind)
    assert found.outcome == "wrong"
    assert "away" in found.detail


@pytest.mark.parametrize("draws", [1, -1, 9])
def test_no_setting_makes_one_start_a_success(draws: int):
    with pytest.raises(UserError, match=rf"world\.kind\.draws is {draws}; it must be 0, or 2 to 8"):
        KindConfig(draws=draws)


def test_other_seeds_draw_other_starts_and_equal_seeds_the_same(task_of, verdict_of):
    task = task_of("induction", control(["near", "red_box"], randomisation={"position": 0.6}, success={"draws": 2}))
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
    task = task_of("induction", control(["near", "red_box"], success={"draws": 2}))
    assert not verdict_of(task, brief.program_of(" move red_box home")).solved


def test_what_is_thrown_up_is_not_lifted_and_what_is_held_is(task_of, verdict_of):
    task = task_of("induction", control(["lifted", "red_box"], success={"draws": 2}))
    assert verdict_of(task, brief.program_of(" move red_box close up")).solved
    assert not verdict_of(task, brief.program_of(" move red_box close up open")).solved


def test_the_goal_must_hold_a_moment_later_too(world, reach):
    (ended,) = world.run(world.kinds["induction"].attempt(reach, answer_text(REACH), seed=1).jobs[:1])
    assert world.kinds["induction"].succeeded(reach, ended)
    assert not world.kinds["induction"].succeeded(reach, replace(ended, later=ended.before))


def test_a_simulation_that_mujoco_gives_up_costs_its_job_alone(world, reach, monkeypatch):
    def fatal(*_):
        raise mujoco.FatalError("out of memory")

    monkeypatch.setattr("autotelic.worlds.arm.episodes._unsettled", fatal)
    (found,) = world.judge([(reach, Answer(answer_text(REACH)))], 1)
    assert found.outcome == "broken"


def test_metrics_are_in_simulated_time(reach, verdict_of):
    found = verdict_of(reach, REACH).metrics
    assert 0.2 < found["time"] < 3
    assert found["steps"] > 50
    assert {"path_efficiency", "energy", "smoothness", "collisions"} <= set(found)
    assert found == verdict_of(reach, REACH).metrics


@pytest.mark.parametrize("hold", [0.1, 2.0])
def test_metrics_are_those_of_when_the_program_ended(task_of, verdict_of, hold: float):
    task = task_of("induction", control(["near", "red_box"], success={"hold": hold}))
    straight = verdict_of(task, "def execute_controller(robot, world):\n    robot.move_to([0.45, 0.2, 0.25])").metrics
    assert straight["steps"] * TIMESTEP == pytest.approx(straight["time"])
    assert straight["path_length"] == pytest.approx(0.2, abs=0.01)
    assert straight["path_efficiency"] > 0.98
    assert straight["energy"] > 0.1
    still = verdict_of(task, "def execute_controller(robot, world):\n    pass").metrics
    assert {name for name in METRICS if still[name]} == {"calls", "path_efficiency"}  # called once, and not astray


def test_partial_credit_is_for_being_near_and_never_counts_as_solved():
    with ArmWorld(ArmWorldConfig(workers=1, heldout=False, kind=KindConfig(partial_credit=True))) as world:
        (task,) = world.admit([Proposal("induction", control(["near", "red_box"]))], 1)
        assert isinstance(task, Task)
        near, far = (
            world.judge([(task, Answer(answer_text(brief.program_of(calls))))], 1)[0]
            for calls in (" above red_box", " open")
        )
    assert 0 < far.score < near.score < 1
    assert (far.score, near.score) == (far.progress, near.progress)
    assert not near.solved


def test_how_far_an_attempt_came_is_known_without_its_score(reach, task_of, verdict_of):
    far, near, there = (
        verdict_of(reach, brief.program_of(calls)) for calls in (" open", " above red_box", " move red_box")
    )
    assert 0 < far.metrics["progress"] < near.metrics["progress"] < 1 == there.metrics["progress"]
    assert (far.score, near.score, there.score) == (0, 0, 1)
    task = task_of("abduction", SEEDS["abduction"])
    beside, right = (
        verdict_of(task, json.dumps({"red_box": at, "blue_box": [0.4, 0.15]})) for at in ([0.4, 0.28], [0.5, 0.25])
    )
    assert 0 < beside.metrics["progress"] < 1 == right.metrics["progress"]
    assert beside.score == 0


def test_curricula_are_told_how_far_attempts_came(reach, verdict_of):
    said = [verdict_of(reach, brief.program_of(calls)) for calls in (" open", " above red_box", " move red_box")]
    samples = [Sample("solve", "induction", "", task=reach.id) for _ in said]
    (outcome,) = measures.outcomes(Attempted([reach], samples, said))
    assert outcome.progress == pytest.approx(sum(each.metrics["progress"] for each in said) / 3)


@pytest.mark.parametrize(
    ("verdict", "progress"),
    [
        (Verdict(True, "correct"), 1.0),
        (Verdict(False, "wrong"), 0.0),
        (Verdict(False, "wrong", score=0.4), 0.4),
        (Verdict(False, "wrong", score=0.4, metrics={"progress": 0.7}), 0.7),
        (Verdict(False, "wrong", score=9.0), 1.0),
    ],
)
def test_progress_is_what_was_measured_or_else_the_score(verdict: Verdict, progress: float):
    assert verdict.progress == progress


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


@pytest.mark.parametrize("how", ["limit", "broken", "lost"])
@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_an_episode_that_was_cut_does_not_contradict_its_question(world, task_of, kind: str, how: str):
    task = task_of(kind, SEEDS[kind])
    attempt = world.kinds[kind].attempt(task, known_answer(world, task).text, seed=1)
    found = world.kinds[kind].grade(task, attempt, [Ended(how, detail="cut")])
    assert (found.outcome, found.detail) == (how, "cut")


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
@pytest.mark.parametrize(
    "other",
    [
        {"fixtures": [{"kind": "bin", "at": [0.45, -0.2]}]},
        {"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2], "size": [0.03, 0.02, 0.02]}]},
        {"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2], "mass": 0.3}]},
    ],
)
def test_a_task_in_another_scene_has_another_prompt(world, kind: str, other: dict):
    usual = {"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2]}], "fixtures": ["bin"]}
    rest = {"controller": EXAMPLE, "ask": [], "object": "red_box", "goal": []}
    settings = [read_setting({**usual, **more}).plain() for more in ({}, other)]
    specs = [{"setting": each, "task": {**each, "goal": [["near", "bin"]]}, **rest} for each in settings]
    one, another = (world.kinds[kind].solve_prompt(Task("", "arm", kind, spec)) for spec in specs)
    assert one != another


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_say_exactly_when_a_goal_holds(world, task_of, kind: str):
    prompt = world.kinds[kind].solve_prompt(task_of(kind, SEEDS[kind]))
    assert "within 5 cm of its position" in prompt
    assert "left: x 0.2 to 0.85, y 0.12 to 0.6" in prompt


@pytest.mark.parametrize("kind", KINDS)
def test_the_form_that_a_prompt_shows_is_admitted(world, kind: str):
    asked = world.kinds[kind].propose_prompt(Request(kind))
    (result,) = world.admit([Proposal(kind, asked[asked.rindex("Answer in this form:") :])], 1)
    assert isinstance(result, Task), result


def test_equal_pairs_are_judged_once(world, reach, monkeypatch):
    run, many = world.run, []
    monkeypatch.setattr(world, "run", lambda jobs: many.extend(jobs) or run(jobs))
    right, wrong = Answer(answer_text(REACH)), Answer(answer_text(brief.program_of(" open")))
    found = world.judge([(reach, right), (reach, wrong), (reach, right), (reach, right)], 1)
    assert [verdict.solved for verdict in found] == [True, False, True, True]
    assert len(many) == 3  # two starts of what succeeds, one of what does not


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


def test_control_tasks_are_of_sorts_by_what_is_hardest_and_questions_of_none(world, task_of):
    goal = [["near", "red_box"], ["lifted", "red_box"]]
    task = task_of("induction", json.dumps({"objects": ["red_box"], "goal": goal}))
    assert world.sort_of(task) == "lifted"
    region = task_of("induction", control(["at", "red_box", "left"], randomisation={"position": 0.6}))
    assert world.sort_of(region) == "at-left"
    assert [world.sort_of(task_of(kind, SEEDS[kind])) for kind in ("deduction", "abduction")] == ["", ""]
