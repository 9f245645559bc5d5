"""The scripted player: a true library, the share of right answers asked for, an order that can be resumed."""

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.play.players.library import LIBRARY
from autotelic.play.players.scripted import ScriptedConfig, ScriptedPlayer
from autotelic.worlds.base import Answer, Proposal, Request, Task

KINDS = ("deduction", "abduction", "induction")


@pytest.fixture(scope="module")
def tasks(world):
    player = ScriptedPlayer(ScriptedConfig(), world)
    samples = player.propose([Request(kind) for kind in KINDS for _ in LIBRARY], np.random.default_rng(1))
    results = world.admit([Proposal(sample.kind, sample.text) for sample in samples], 1)
    assert all(isinstance(result, Task) for result in results), results
    return results


def judged(world, player, tasks, n=1):
    samples = player.attempt(tasks, n, np.random.default_rng(2))
    pairs = [(task, n) for task in tasks for _ in range(n)]
    return world.judge([(task, Answer(s.text)) for (task, _), s in zip(pairs, samples, strict=True)], 1)


def test_the_library_has_more_than_a_dozen_tasks_of_every_kind(tasks):
    assert len(LIBRARY) > 12
    assert len({task.id for task in tasks}) == 3 * len(LIBRARY)


def test_it_solves_its_own_tasks(world, tasks):
    player = ScriptedPlayer(ScriptedConfig(correct=1.0), world)
    assert all(verdict.solved for verdict in judged(world, player, [*tasks, *world.seeds()]))


def test_its_wrong_answers_are_well_formatted_and_wrong(world, tasks):
    player = ScriptedPlayer(ScriptedConfig(correct=0.0), world)
    assert {verdict.outcome for verdict in judged(world, player, tasks, 3)} == {"wrong"}


def test_the_shares_are_the_ones_asked_for(world, tasks):
    player = ScriptedPlayer(ScriptedConfig(correct=0.5, unformatted=0.25), world)
    verdicts = judged(world, player, tasks[:20], 30)
    share = {name: sum(v.outcome == name for v in verdicts) / len(verdicts) for name in ("correct", "format")}
    assert share["correct"] == pytest.approx(0.5, abs=0.07)
    assert share["format"] == pytest.approx(0.25, abs=0.07)


def test_it_goes_on_where_its_state_says(world):
    requests = [Request("deduction")] * 5
    whole = ScriptedPlayer(ScriptedConfig(), world)
    texts = [s.text for _ in range(2) for s in whole.propose(requests, np.random.default_rng(1))]
    first, second = (ScriptedPlayer(ScriptedConfig(), world) for _ in range(2))
    parts = [s.text for s in first.propose(requests, np.random.default_rng(1))]
    second.load_state(first.state())
    parts += [s.text for s in second.propose(requests, np.random.default_rng(1))]
    assert parts == texts
    assert len(set(texts)) == 10


def test_random_selection_is_fixed_by_the_generator(world):
    player = ScriptedPlayer(ScriptedConfig(selection="random"), world)
    first, second = (player.propose([Request("abduction")] * 9, np.random.default_rng(7)) for _ in range(2))
    assert first == second
    assert len({sample.text for sample in first}) > 3


def test_a_task_it_does_not_know_gets_an_answer_all_the_same(world):
    text = world.kinds["deduction"].compose("def f(a):\n    return a * 17", [(3,)])
    (task,) = world.admit([Proposal("deduction", text)], 1)
    player = ScriptedPlayer(ScriptedConfig(correct=1.0), world)
    (verdict,) = judged(world, player, [task])
    assert verdict.outcome == "wrong"
    (sample,) = player.propose([Request("induction", base=task)], np.random.default_rng(1))
    (built,) = world.admit([Proposal("induction", sample.text, base=task)], 1)
    assert isinstance(built, Task)


def test_bad_settings_are_one_line():
    with pytest.raises(UserError, match="selection"):
        ScriptedConfig(selection="sorted")
    with pytest.raises(UserError, match="shares"):
        ScriptedConfig(correct=0.9, unformatted=0.2)
