"""The grammar player: its proposals hold, its guesses are of the right type, and one generator fixes all of it."""

from collections import Counter

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.play.players.grammar import GrammarConfig, GrammarPlayer
from autotelic.worlds.base import Answer, Proposal, Request, Task
from autotelic.worlds.code import language

KINDS = ("deduction", "abduction", "induction")


@pytest.fixture(scope="module")
def tasks(world):
    player = GrammarPlayer(GrammarConfig(), world)
    requests = [Request(kind) for kind in KINDS for _ in range(40)]
    samples = player.propose(requests, np.random.default_rng(1))
    results = world.admit([Proposal(sample.kind, sample.text) for sample in samples], 1)
    return [result for result in results if isinstance(result, Task)]


def test_nearly_all_proposals_are_admitted(tasks):
    assert len(tasks) >= 0.95 * 120
    assert set(Counter(task.kind for task in tasks)) == set(KINDS)


def test_guesses_are_well_formed_and_some_are_right(world, tasks):
    player = GrammarPlayer(GrammarConfig(), world)
    samples = player.attempt(tasks, 4, np.random.default_rng(2))
    assert [sample.task for sample in samples] == [task.id for task in tasks for _ in range(4)]
    by_id = {task.id: task for task in tasks}
    verdicts = world.judge([(by_id[sample.task], Answer(sample.text)) for sample in samples], 1)
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    assert outcomes["correct"] > 0
    assert set(outcomes) <= {"correct", "wrong", "exception"}
    assert outcomes["exception"] < 0.1 * outcomes.total()


def test_the_same_generator_gives_the_same_samples(world, tasks):
    player = GrammarPlayer(GrammarConfig(), world)
    first, second = (player.attempt(tasks[:20], 2, np.random.default_rng(3)) for _ in range(2))
    assert first == second
    first, second = (player.propose([Request("induction")] * 3, np.random.default_rng(3)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("difficulty", "depth"), [(0.0, 1), (1.0, 4), (0.34, 2)])
def test_the_difficulty_wanted_decides_the_depth(world, difficulty, depth):
    player = GrammarPlayer(GrammarConfig(), world)
    samples = player.propose([Request("deduction", difficulty=difficulty)] * 10, np.random.default_rng(4))
    for sample in samples:
        program = sample.text.split("```python\n")[1].split("\n```")[0]
        assert language.depth(program) == depth


@pytest.mark.parametrize(("wanted", "depth"), [(0.0, 1), (2.4, 2), (99.0, 4)])
def test_a_wanted_depth_goes_before_the_difficulty(world, wanted, depth):
    request = Request("deduction", difficulty=1.0, wanted={"depth": wanted, "elsewhere": 7.0})
    for sample in GrammarPlayer(GrammarConfig(), world).propose([request] * 5, np.random.default_rng(4)):
        program = sample.text.split("```python\n")[1].split("\n```")[0]
        assert language.depth(program) == depth


def test_induction_builds_on_the_base_it_is_given(world, tasks):
    player = GrammarPlayer(GrammarConfig(), world)
    bases = [task for task in tasks if task.kind == "abduction"][:10]
    samples = player.propose([Request("induction", base=base) for base in bases], np.random.default_rng(5))
    proposals = [Proposal("induction", s.text, base=b) for s, b in zip(samples, bases, strict=True)]
    results = world.admit(proposals, 1)
    assert [getattr(r, "spec", {}).get("program") for r in results] == [base.spec["program"] for base in bases]


def test_bad_depths_are_refused():
    with pytest.raises(UserError, match="min_depth"):
        GrammarConfig(min_depth=3, max_depth=2)
