"""What else answers are right for than what was asked."""

import json

import pytest

from autotelic.worlds.arm import brief
from autotelic.worlds.arm.episodes import Job
from autotelic.worlds.arm.library import SEEDS
from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig
from autotelic.worlds.base import Answer, Proposal, Rejection, Task, Verdict
from autotelic.worlds.code.kinds.base import answer_text

from .texts import CARRIED, NEAR, control, program, question


@pytest.fixture
def looking_back(world):
    """The world, which says what else answers are right for."""
    world.hindsight = True
    yield world
    world.hindsight = False


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


ONLY_FROM_ELSEWHERE = """\
def execute_controller(robot, world):
    x, y, z = world.position("red_box")
    if y < 0.1:
        robot.move_to([x, y, z], above=0.1)
        robot.move_to([x, y, z])
        robot.close_gripper()
        robot.move_to([x, -0.24, z])
        robot.open_gripper()"""


def test_another_task_is_solved_at_its_own_starts_and_not_at_those_of_what_was_asked(looking_back, task_of):
    spread = {"randomisation": {"position": 0.6}, "success": {"draws": 2}}
    task = task_of("induction", control(["at", "red_box", "left"], **spread))
    answer = Answer(answer_text(ONLY_FROM_ELSEWHERE))
    again: list[Verdict] = []
    for seed in range(12):
        (found,) = looking_back.judge([(task, answer)], seed)
        again += looking_back.judge([(other, answer) for other in found.achieved], seed)
    assert again
    assert all(verdict.solved for verdict in again)


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
