import numpy as np
import pytest

from autotelic.play.curriculum.ladder import Ladder, LadderConfig


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def climb(ladder, outcome, rng, *rates):
    """The rung after each of some tasks with these shares of ten attempts solved."""
    rungs = []
    for at, rate in enumerate(rates):
        ladder.update([outcome(round(10 * rate), 10, x=float(at))], rng)
        rungs.append(ladder.rung("reach"))
    return rungs


def test_eighty_percent_goes_up_and_twenty_percent_down(outcome, rng):
    ladder = Ladder(LadderConfig(episodes=10))
    assert climb(ladder, outcome, rng, 0.7, 0.8, 0.3, 0.2, 0.2) == ["easy", "medium", "medium", "easy", "easy"]


def test_the_highest_rung_stays(outcome, rng):
    assert climb(Ladder(LadderConfig(episodes=10)), outcome, rng, 1, 1, 1, 0.5) == ["medium", "hard", "hard", "hard"]


def test_no_rung_is_left_before_enough_attempts_on_it(outcome, rng):
    ladder = Ladder(LadderConfig(episodes=30))
    assert climb(ladder, outcome, rng, 1, 1, 1, 1, 1, 1) == ["easy", "easy", "medium", "medium", "medium", "hard"]


def test_only_the_last_attempts_count(outcome, rng):
    ladder = Ladder(LadderConfig(episodes=20))
    assert climb(ladder, outcome, rng, 0.5, 0.5, 0.5, 0.9, 0.9)[-2:] == ["easy", "medium"]


def test_kinds_climb_apart(outcome, rng):
    ladder = Ladder(LadderConfig(episodes=10))
    ladder.update([outcome(10, 10, x=1.0), outcome(5, 10, kind="push", x=1.0)], rng)
    assert (ladder.rung("reach"), ladder.rung("push"), ladder.rung("lift")) == ("medium", "easy", "easy")


def test_a_higher_rung_wants_more_failures_and_more_of_every_feature(outcome, rng):
    wanted = {}
    for start in ("easy", "medium", "hard"):
        ladder = Ladder(LadderConfig(start=start, episodes=10_000))
        ladder.update([outcome(5, 10, x=float(at), y=-float(100 - at)) for at in range(101)], rng)
        wishes = ladder.sample("reach", 200, rng)
        assert {wish.difficulty for wish in wishes} == {getattr(LadderConfig(), start)}
        wanted[start] = [np.mean([wish.features[name] for wish in wishes]) for name in ("x", "y")]
    assert wanted["easy"] == pytest.approx([20, -80], abs=3)
    assert wanted["medium"] == pytest.approx([50, -50], abs=3)
    assert wanted["hard"] == pytest.approx([80, -20], abs=3)


def test_before_any_task_only_a_difficulty_is_wanted(rng):
    assert [(wish.difficulty, dict(wish.features)) for wish in Ladder().sample("reach", 2, rng)] == [(0.2, {})] * 2


def test_practice_is_about_as_hard_as_the_rung(simulation):
    hard = {}
    for start in ("easy", "hard"):
        played = simulation(
            Ladder(LadderConfig(start=start, episodes=10**6)), lambda task, step: 1 - task.features["x"]
        )
        played.obeys = 0.0
        played.run(20)
        hard[start] = np.mean([task.features["x"] for task in played.practised()])
    assert hard["easy"] < 0.4 < 0.6 < hard["hard"]


def test_the_ladder_climbs_as_a_learner_learns(simulation):
    played = simulation(Ladder(), lambda task, step: min(1.0, step / 40) if task.features["x"] < 2 else 0.0)
    played.run(60)
    rungs = [figures["reach/rung"] for figures in played.figures]
    assert (rungs[0], rungs[-1]) == (0, 2)
    assert rungs == sorted(rungs)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"easy": 0.9}, "must rise"),
        ({"down": 0.9}, "below curriculum.up"),
        ({"start": "top"}, "known are easy, medium, hard"),
        ({"episodes": 0}, "curriculum.episodes is 0; it must be at least 1"),
        ({"hard": 1.5}, "curriculum.hard is 1.5; it must be 0 to 1"),
    ],
)
def test_a_setting_that_cannot_be_is_one_line(settings, words):
    with pytest.raises(ValueError, match=words):
        LadderConfig(**settings)
