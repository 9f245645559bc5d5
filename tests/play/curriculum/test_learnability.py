import math

import numpy as np
import pytest

from autotelic.play.curriculum.learnability import Evidence, Learnability, LearnabilityConfig


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def learnable(task) -> float:
    """Solved for sure on the left, never on the right, half the time in between."""
    x = task.features["x"]
    return 1.0 if x < 0.4 else 0.0 if x > 0.6 else 0.5


def test_a_cells_score_is_its_posterior_variance_and_a_bonus_for_few_tasks():
    assert Evidence(3, 5, [0]).score(0.0) == pytest.approx(4 * 6 / (10 * 11))
    assert Evidence().score(0.0) == pytest.approx(1 / 6)
    assert Evidence(3, 5, [0, 1, 2]).score(0.1) == pytest.approx(4 * 6 / (10 * 11) + 0.1 / math.sqrt(4))


def test_tasks_that_look_alike_share_a_cell(outcome, rng):
    curriculum = Learnability(LearnabilityConfig(bins=2))
    curriculum.update([outcome(8, x=0.0), outcome(6, x=1.0), outcome(0, x=9.0), outcome(1, x=10.0)], rng)
    cells = curriculum.grid("reach").cells
    assert {cell: (found.solved, found.failed) for cell, found in cells.items()} == {(0,): (14, 2), (1,): (1, 15)}


def test_cells_are_drawn_by_score_to_the_power_of_sharpness(outcome, rng):
    curriculum = Learnability(LearnabilityConfig(bins=2, novelty=0.0, explore=0.0))
    curriculum.update([outcome(4, x=0.0), outcome(0, x=1.0)], rng)
    scores = 5 * 5 / (10 * 11), 1 * 9 / (10 * 11)
    wishes = curriculum.sample("reach", 4000, rng)
    share = np.mean([wish.features["x"] == 0.0 for wish in wishes])
    assert share == pytest.approx(scores[0] ** 2 / (scores[0] ** 2 + scores[1] ** 2), abs=0.02)


def test_the_difficulty_wanted_is_the_share_that_fails_in_the_cell(outcome, rng):
    curriculum = Learnability(LearnabilityConfig(explore=0.0))
    curriculum.update([outcome(6, x=0.0), outcome(0, x=1.0)], rng)
    wanted = {wish.features["x"]: wish.difficulty for wish in curriculum.sample("reach", 100, rng)}
    assert wanted == {0.0: 3 / 10, 1.0: 9 / 10}


def test_a_rarely_seen_cell_is_wanted_more_than_one_as_learnable(outcome, rng):
    curriculum = Learnability(LearnabilityConfig(bins=2))
    often = [outcome(0, 80, x=0.0, at=0.0) for _ in range(30)]
    curriculum.update([*often, outcome(0, 2400, x=1.0, at=0.0)], rng)
    weights = dict(zip(curriculum.grid("reach").cells, curriculum.grid("reach").weights([(0,), (1,)]), strict=True))
    assert weights[(1,)] > 5 * weights[(0,)]


def test_a_share_of_wishes_is_for_cells_beside_those_seen(outcome, rng):
    curriculum = Learnability(LearnabilityConfig(bins=2, explore=0.25))
    curriculum.update([outcome(4, x=0.0, y=0.0), outcome(4, x=1.0, y=1.0)], rng)
    assert len(curriculum.grid("reach").beside()) == 2
    wishes = curriculum.sample("reach", 2000, rng)
    seen = [(wish.features["x"], wish.features["y"]) in ((0.0, 0.0), (1.0, 1.0)) for wish in wishes]
    assert np.mean(seen) == pytest.approx(0.75, abs=0.03)


def test_without_features_half_of_all_attempts_should_fail(outcome, rng):
    curriculum = Learnability()
    assert curriculum.sample("reach", 1, rng)[0].difficulty == 0.5
    curriculum.update([outcome(8), outcome(7)], rng)
    assert [(wish.difficulty, dict(wish.features)) for wish in curriculum.sample("reach", 2, rng)] == [(0.5, {})] * 2


def test_wishes_concentrate_on_what_is_solved_sometimes(simulation):
    played = simulation(Learnability(), lambda task, step: learnable(task))
    played.run(40)
    late = [wish.features["x"] for wishes in played.wishes[-10:] for wish in wishes]
    assert np.mean([0.35 < x < 0.65 for x in late]) > 0.6  # 0.3 of what there is


def test_practice_concentrates_on_what_is_solved_sometimes(simulation):
    played = simulation(Learnability(), lambda task, step: learnable(task), obeys=0.0)
    played.run(40)
    assert np.mean([0.35 < task.features["x"] < 0.65 for task in played.practised()]) > 0.5


def test_wishes_follow_a_learner_that_gets_better(simulation):
    played = simulation(
        Learnability(LearnabilityConfig(window=300)),
        lambda task, step: 1 / (1 + math.exp(30 * (task.features["x"] - step / 80))),
    )
    played.run(60)
    early, late = (
        np.median([wish.features["x"] for wishes in part for wish in wishes])
        for part in (played.wishes[10:20], played.wishes[-10:])
    )
    assert early < 0.4
    assert late > early + 0.2
