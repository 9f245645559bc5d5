"""Random numbers of keys and clocks: even, normal, and of no one else's business."""

import numpy as np
import pytest

from autotelic.physics import chance

FIFTY = np.arange(50)


def unrelated(values: np.ndarray) -> None:
    """[..., n]: whether rows along any axis are as far from each other as chance puts them."""
    for axis in range(values.ndim):
        rows = np.moveaxis(values, axis, 0)[:50]
        related = np.corrcoef(rows.reshape(len(rows), -1)) - np.eye(len(rows))
        assert np.abs(related).max() < 5 / np.sqrt(rows[0].size)  # five times what chance alone is apart


def test_numbers_of_keys_and_steps_are_even_and_know_nothing_of_each_other() -> None:
    keys = chance.keys(0, "test", FIFTY, np.zeros(50, int))
    steps = np.stack([chance.even(keys, 53, clock) for clock in range(200)])  # [steps, keys, columns]
    assert steps.dtype == np.float32
    assert 0.0 <= steps.min() < 0.001 < 0.999 < steps.max() < 1.0
    counts, _ = np.histogram(steps, bins=20, range=(0, 1))
    assert np.abs(counts / steps.size - 0.05).max() < 0.0015
    unrelated(steps)


def test_numbers_of_episodes_environments_seeds_and_purposes_know_nothing_of_each_other() -> None:
    episodes = [chance.even(chance.keys(0, "test", FIFTY, np.full(50, episode)), 40) for episode in range(50)]
    unrelated(np.stack(episodes))
    seeds = [chance.even(chance.keys(seed, "test", FIFTY, FIFTY), 40) for seed in range(50)]
    unrelated(np.stack(seeds))
    one, other = (chance.even(chance.keys(0, purpose, FIFTY, FIFTY), 40) for purpose in ("one", "other"))
    assert (one == other).mean() < 0.01


def test_swapping_environment_and_episode_gives_other_numbers() -> None:
    one, other = (chance.keys(0, "test", np.array([a]), np.array([b])) for a, b in ((1, 2), (2, 1)))
    assert one != other


def test_numbers_of_a_row_do_not_depend_on_the_other_rows() -> None:
    keys = chance.keys(3, "test", FIFTY, FIFTY)
    alone = chance.keys(3, "test", np.array([7]), np.array([7]))
    assert (chance.even(keys, 9)[7] == chance.even(alone, 9)[0]).all()


def test_every_row_may_have_a_clock_of_its_own() -> None:
    keys = chance.keys(0, "test", np.arange(3), np.zeros(3, int))
    mixed = chance.even(keys, 4, np.array([5, 0, 9]))
    assert (mixed[2] == chance.even(keys, 4, 9)[2]).all()


def test_steps_of_different_sizes_share_no_number() -> None:
    keys = chance.keys(0, "test", np.arange(1), np.zeros(1, int))
    drawn = [set(chance.even(keys, size, clock)[0].tolist()) for clock, size in enumerate((40, 4, 11, 2))]
    assert len(set.union(*drawn)) == 57


def test_an_odd_size_is_as_many_as_asked() -> None:
    assert chance.even(np.array([1, 2], np.uint64), 7).shape == (2, 7)


def test_between_reaches_from_low_to_high() -> None:
    drawn = chance.between(chance.keys(0, "test", FIFTY, FIFTY), 200, -3.0, 5.0)
    assert -3.0 <= drawn.min() < -2.95
    assert 4.95 < drawn.max() < 5.0


def test_normal_numbers_are_normal() -> None:
    drawn = chance.normal(chance.keys(0, "test", FIFTY, FIFTY), 2000)
    assert drawn.mean() == pytest.approx(0.0, abs=0.015)
    assert drawn.std() == pytest.approx(1.0, abs=0.015)
    assert (np.abs(drawn) < 1.0).mean() == pytest.approx(0.6827, abs=0.006)
    assert (np.abs(drawn) > 3.0).mean() == pytest.approx(0.0027, abs=0.0006)
    unrelated(drawn[:, :1000])
