import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotelic.play.curriculum.plr import PLR, PLRConfig, draw, score_chances, stale_chances


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_chances_by_score_follow_the_rank_alone():
    weights = np.array([1, 1 / 4, 1 / 9])
    expected = (weights / weights.sum())[[1, 2, 0]]
    assert score_chances([0.2, 0.1, 0.9], beta=0.5) == pytest.approx(expected)
    assert score_chances([20, 10, 21], beta=0.5) == pytest.approx(expected)


def test_of_equal_scores_the_newest_has_the_better_rank():
    assert score_chances([0.5, 0.5], beta=1.0) == pytest.approx([1 / 3, 2 / 3])


def test_chances_by_staleness_follow_the_steps_waited():
    assert stale_chances([1, 0, 3]).tolist() == [0.25, 0.0, 0.75]
    assert stale_chances([0, 0]).tolist() == [0.5, 0.5]


def test_chances_mix_score_and_staleness(outcome, rng):
    plr = PLR(PLRConfig(rho=0.25, beta=1.0))
    plr.update([outcome(8, x=0.0)], rng)
    plr.update([outcome(4, x=1.0)], rng)
    levels = list(plr._levels["reach"].values())
    assert [level.score for level in levels] == pytest.approx([9 / 110, 25 / 110])
    chances = plr.chances("reach", levels)
    assert [each.tolist() for each in chances] == [pytest.approx([1 / 3, 2 / 3]), [1.0, 0.0]]
    first = [draw(*chances, plr.config.rho, 1, rng)[0] for _ in range(4000)]
    assert first.count(0) / 4000 == pytest.approx(0.75 / 3 + 0.25, abs=0.03)


def test_staleness_keeps_its_share_of_a_large_draw(rng):
    by_score = score_chances(range(100), beta=0.3)  # the last are the best
    by_staleness = np.concatenate([np.ones(50), np.zeros(50)]) / 50
    drawn = [at for _ in range(50) for at in draw(by_score, by_staleness, 0.3, 20, rng)]
    assert np.mean([at < 50 for at in drawn]) == pytest.approx(0.3, abs=0.05)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.floats(0.05, 5))
def test_chances_by_score_sum_to_one_and_never_prefer_the_worse(scores, beta):
    chances = score_chances(scores, beta)
    assert chances.sum() == pytest.approx(1)
    order = np.argsort(scores, kind="stable")
    assert (np.diff(chances[order]) >= 0).all()


def test_the_newest_attempts_at_a_task_replace_its_score(outcome, rng):
    plr = PLR()
    plr.update([outcome(0, x=0.0)], rng)
    plr.update([outcome(4, x=0.0)], rng)
    (level,) = plr._levels["reach"].values()
    assert (level.score, level.step) == (25 / 110, 2)


def test_the_least_scores_make_room_the_oldest_first(outcome, rng):
    plr = PLR(PLRConfig(capacity=2))
    plr.update([outcome(8, x=0.0), outcome(4, x=1.0), outcome(8, x=2.0)], rng)
    kept = {level.id for level in plr._levels["reach"].values()}
    assert kept == {outcome(4, x=1.0).task.id, outcome(8, x=2.0).task.id}


def test_retired_tasks_are_not_practised(outcome, pool, rng):
    plr = PLR()
    there, gone = outcome(4, x=0.0), outcome(4, x=1.0)
    plr.update([there, gone], rng)
    assert plr.practise("reach", 5, rng, pool([there.task], rng)) == [there.task]
    assert plr.practise("push", 5, rng, pool([there.task], rng)) == []


def test_practice_is_of_distinct_tasks(outcome, pool, rng):
    plr = PLR()
    found = [outcome(at % 9, x=float(at)) for at in range(20)]
    plr.update(found, rng)
    tasks = plr.practise("reach", 12, rng, pool([each.task for each in found], rng))
    assert len({task.id for task in tasks}) == 12


def test_practice_concentrates_on_what_is_solved_sometimes(simulation):
    def solves(task, step):
        x = task.features["x"]
        return 1.0 if x < 0.4 else 0.0 if x > 0.6 else 0.5

    played = simulation(PLR(), solves)
    played.run(30)
    assert np.mean([0.4 <= task.features["x"] <= 0.6 for task in played.practised(16)]) > 0.6  # 0.2 of what there is


def test_proposals_are_left_alone(outcome, rng):
    plr = PLR()
    plr.update([outcome(4, x=0.0), outcome(2, x=1.0)], rng)
    assert [(wish.difficulty, dict(wish.features)) for wish in plr.sample("reach", 2, rng)] == [(None, {})] * 2
