import numpy as np
import pytest

from autotelic.physics.base import Step
from autotelic.training.collecting import Episodes


def step(reward, ended=(), terms=None, episodes=None):
    count = len(reward)
    truncated = np.zeros(count, bool)
    truncated[list(ended)] = True
    return Step(
        {},
        np.array(reward, np.float32),
        np.zeros(count, bool),
        truncated,
        np.array(ended, int),
        {},
        terms or {},
        episodes or {},
    )


def test_a_return_is_the_sum_of_an_episodes_rewards():
    episodes = Episodes(2)
    episodes.add(step([1, 10]))
    episodes.add(step([2, 20], ended=[0]))
    episodes.add(step([4, 40], ended=[1]))
    found = episodes.figures()
    assert found["episode/return"] == (3 + 70) / 2
    assert found["episode/length"] == (2 + 3) / 2
    assert found["episode/ended"] == 2


def test_an_episode_goes_on_from_one_iteration_to_the_next():
    episodes = Episodes(1)
    episodes.add(step([1]))
    assert "episode/return" not in episodes.figures()
    episodes.add(step([2], ended=[0]))
    assert episodes.figures()["episode/return"] == 3


def test_where_no_episode_ended_the_last_figures_hold():
    episodes = Episodes(1)
    episodes.add(step([5], ended=[0]))
    episodes.figures()
    episodes.add(step([1]))
    found = episodes.figures()
    assert found["episode/return"] == 5
    assert found["episode/ended"] == 0


def test_a_first_episode_that_pretends_to_have_begun_before_is_not_counted():
    episodes = Episodes(1)
    episodes.staggered()
    episodes.add(step([100], ended=[0]))
    episodes.add(step([1], ended=[0]))
    assert episodes.figures()["episode/return"] == 1


def test_terms_are_means_over_steps_and_environments():
    episodes = Episodes(2)
    episodes.add(step([0, 0], terms={"alive": np.array([1.0, 3.0])}))
    episodes.add(step([0, 0], terms={"alive": np.array([5.0, 7.0])}))
    assert episodes.figures()["reward/alive"] == 4.0


def test_what_a_task_says_of_its_episodes_is_averaged():
    episodes = Episodes(2)
    episodes.add(step([0, 0], ended=[0, 1], episodes={"success": np.array([1.0, 0.0])}))
    assert episodes.figures()["episode/success"] == 0.5


def test_an_episode_of_which_nothing_is_said_is_no_success():
    episodes = Episodes(1)
    episodes.add(step([1], ended=[0], episodes={"success": np.array([1.0])}))
    episodes.add(step([1], ended=[0]))
    assert episodes.figures()["episode/success"] == 0.5


def test_what_no_episode_can_say_is_left_out():
    episodes = Episodes(1)
    episodes.add(step([1.0], ended=[0], episodes={"cadence": np.array([np.nan]), "success": np.array([1.0])}))
    figures = episodes.figures()
    assert "episode/cadence" not in figures
    assert figures["episode/success"] == 1.0


def test_episodes_under_way_survive_a_checkpoint():
    episodes, other = Episodes(1), Episodes(1)
    episodes.add(step([1]))
    episodes.figures()
    other.load_state(episodes.state())
    for each in (episodes, other):
        each.add(step([2], ended=[0]))
    assert other.figures() == episodes.figures()
    assert other.figures()["episode/return"] == pytest.approx(3)
