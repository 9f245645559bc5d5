"""Hand-written tasks and controllers, and random ones."""

import json

import numpy as np
import pytest

from autotelic.play.players.grammar import GrammarConfig, GrammarPlayer
from autotelic.play.players.scripted import ScriptedConfig, ScriptedPlayer
from autotelic.worlds.arm.goals import FAMILIES
from autotelic.worlds.arm.library import solution
from autotelic.worlds.arm.tasks import read
from autotelic.worlds.base import KINDS, Answer, Proposal, Rejection, Request, Task


def proposed(world, player, kind: str, count: int) -> list[Task | Rejection]:
    samples = player.propose([Request(kind)] * count, np.random.default_rng(0))
    return world.admit([Proposal(kind, sample.text) for sample in samples], 1)


def test_the_scripted_player_goes_through_the_families_and_solves_them(world):
    player = ScriptedPlayer(ScriptedConfig(), world)
    tasks = [task for task in proposed(world, player, "induction", 7) if isinstance(task, Task)]
    assert [read(task.spec["task"]).family for task in tasks] == list(FAMILIES)
    samples = player.attempt(tasks, 1, np.random.default_rng(0), greedy=True)
    verdicts = world.judge([(task, Answer(each.text)) for task, each in zip(tasks, samples, strict=True)], 1)
    assert [verdict.detail for verdict in verdicts if not verdict.solved] == []


def test_a_random_selection_is_of_all_that_the_library_has(world, monkeypatch):
    turns: list[int] = []
    monkeypatch.setattr(world.library, "proposal", lambda request, turn: (turns.append(turn), "{}")[1])
    player = ScriptedPlayer(ScriptedConfig(selection="random"), world)
    player.propose([Request("induction")] * 400, np.random.default_rng(0))
    assert max(turns) < world.library.size
    assert len({turn * 10 // world.library.size for turn in turns}) == 10


def test_the_library_has_as_many_tasks_as_it_says_and_then_begins_again(world):
    size = world.library.size
    wanted = Request("induction")
    tasks = [world.library.proposal(wanted, turn) for turn in range(7, 7 + 2 * size)]  # the first have fewer things
    assert tasks[:size] == tasks[size:]


@pytest.mark.parametrize(
    ("difficulty", "families"),
    [
        (0.2, ["reach", "push", "button"]),
        (0.5, ["button", "lift", "drawer"]),
        (0.8, ["drawer", "pick-place", "stack"]),
    ],
)
def test_families_are_as_hard_as_is_wanted(world, difficulty: float, families: list[str]):
    wanted = Request("induction", difficulty=difficulty)
    tasks = [json.loads(world.library.proposal(wanted, turn)) for turn in range(6)]
    assert [read(task).family for task in tasks] == families * 2


def test_the_scripted_player_is_as_often_wrong_as_it_is_told(world, reach):
    rng = np.random.default_rng(1)
    never = ScriptedPlayer(ScriptedConfig(correct=0.0), world).attempt([reach], 3, rng)
    verdicts = world.judge([(reach, Answer(sample.text)) for sample in never], 1)
    assert not any(verdict.solved for verdict in verdicts)


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_the_scripted_player_knows_the_answers_to_its_own_questions(world, kind: str):
    player = ScriptedPlayer(ScriptedConfig(), world)
    tasks = [task for task in proposed(world, player, kind, 4) if isinstance(task, Task)]
    assert tasks
    samples = player.attempt(tasks, 1, np.random.default_rng(0), greedy=True)
    verdicts = world.judge([(task, Answer(each.text)) for task, each in zip(tasks, samples, strict=True)], 1)
    assert all(verdict.solved for verdict in verdicts)


@pytest.mark.parametrize("kind", KINDS)
def test_the_random_player_keeps_to_the_form(world, task_of, kind: str):
    player = GrammarPlayer(GrammarConfig(), world)
    results = proposed(world, player, kind, 8)
    assert not any(isinstance(each, Rejection) and each.outcome in ("format", "unknown", "syntax") for each in results)
    task = task_of(kind, world.library.proposal(Request(kind), 1))
    for sample in player.attempt([task], 4, np.random.default_rng(2)):
        assert world.judge([(task, Answer(sample.text))], 1)[0].outcome not in ("format", "syntax", "exception")


@pytest.mark.parametrize(
    "goal",
    [
        [["stacked", "red_box", "blue_box", "green_box"]],
        [["open", "drawer"], ["lifted", "red_box"]],
        [["left_of", "red_box", "blue_box"], ["near", "blue_box"]],
        [["inside", "red_box", "drawer"]],
    ],
)
def test_there_is_a_controller_for_goals_of_several_parts(world, task_of, goal: list[list[str]]):
    fixtures = ["drawer"] if "drawer" in json.dumps(goal) else []
    things = ["red_box", "blue_box", "green_box"] if "green_box" in json.dumps(goal) else ["red_box", "blue_box"]
    spread = {"position": 0.02, "yaw": 0.1}
    text = {"objects": things, "fixtures": fixtures, "goal": goal, "randomisation": spread, "horizon": 25}
    task = task_of("induction", json.dumps({**text, "success": {"draws": 2}}))
    (found,) = world.judge([(task, Answer(f"<answer>{solution(goal)}</answer>"))], 1)
    assert found.solved, found.detail
