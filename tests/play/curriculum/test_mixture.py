import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.play.curriculum.mixture import FLOOR, Mixture, best_fit, fit


def cloud(rng, mean, deviation, count):
    return rng.normal(mean, deviation, size=(count, len(mean)))


@pytest.fixture
def two_clouds():
    rng = np.random.default_rng(1)
    return np.concatenate([cloud(rng, (0.2, 0.2), 0.05, 150), cloud(rng, (0.8, 0.7), 0.1, 50)])


def test_the_density_is_that_of_the_normal_distribution():
    mixture = Mixture(np.array([0.25, 0.75]), np.array([[0.0], [2.0]]), np.array([[[1.0]], [[4.0]]]))
    normal = [math.exp(-((1 - m) ** 2) / (2 * v)) / math.sqrt(2 * math.pi * v) for m, v in ((0, 1), (2, 4))]
    expected = 0.25 * normal[0] + 0.75 * normal[1]
    assert mixture.log_likelihood(np.array([[1.0]])) == pytest.approx(math.log(expected))


def test_a_density_in_the_plane_knows_of_correlation():
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    mixture = Mixture(np.ones(1), np.zeros((1, 2)), covariance[None])
    point = np.array([0.5, -1.0])
    expected = (
        -point @ np.linalg.inv(covariance) @ point / 2 - math.log(2 * math.pi) - math.log(np.linalg.det(covariance)) / 2
    )
    assert mixture.log_likelihood(point[None]) == pytest.approx(expected)


def test_one_component_has_the_mean_and_covariance_of_the_points():
    points = np.random.default_rng(0).random((40, 3))
    mixture = fit(points, 1, np.random.default_rng(0))
    assert mixture.weights.tolist() == [1.0]
    assert mixture.means[0] == pytest.approx(points.mean(axis=0))
    assert mixture.covariances[0] == pytest.approx(np.cov(points.T, bias=True) + FLOOR * np.eye(3))


def test_two_clouds_are_found_with_their_sizes_and_spreads(two_clouds):
    mixture = fit(two_clouds, 2, np.random.default_rng(0))
    order = np.argsort(mixture.means[:, 0])
    assert mixture.weights[order] == pytest.approx([0.75, 0.25], abs=0.01)
    assert mixture.means[order] == pytest.approx(np.array([[0.2, 0.2], [0.8, 0.7]]), abs=0.03)
    spreads = np.sqrt(mixture.covariances[order][:, 0, 0] - FLOOR)
    assert spreads == pytest.approx([0.05, 0.1], abs=0.02)


def test_aic_counts_means_covariances_and_weights():
    mixture = Mixture(np.full(3, 1 / 3), np.zeros((3, 2)), np.repeat(np.eye(2)[None], 3, axis=0))
    assert mixture.parameters() == 3 * 2 + 3 * 3 + 2
    assert mixture.aic(np.zeros((5, 2))) == pytest.approx(2 * 17 + 2 * 5 * math.log(2 * math.pi))


def test_as_many_components_are_chosen_as_there_are_clouds(two_clouds):
    assert len(best_fit(two_clouds, range(1, 6), np.random.default_rng(0))) == 2


def test_points_that_are_all_the_same_can_be_fitted():
    mixture = best_fit(np.full((20, 2), 0.5), range(2, 4), np.random.default_rng(0))
    assert np.isfinite(mixture.log_likelihood(np.full((1, 2), 0.5)))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_a_fit_is_a_mixture_at_least_as_likely_as_one_component(seed, components):
    rng = np.random.default_rng(seed)
    points = rng.random((60, 3))
    mixture = fit(points, components, rng)
    assert mixture.weights.sum() == pytest.approx(1)
    assert (np.linalg.eigvalsh(mixture.covariances) > 0).all()
    assert mixture.log_likelihood(points) > fit(points, 1, rng).log_likelihood(points) - 1


def test_a_marginal_is_the_mixture_of_its_first_dimensions(two_clouds):
    mixture = fit(two_clouds, 2, np.random.default_rng(0))
    alone = mixture.marginal(1)
    whole = fit(two_clouds[:, :1], 2, np.random.default_rng(0))
    assert alone.log_likelihood(two_clouds[:, :1]) == pytest.approx(whole.log_likelihood(two_clouds[:, :1]), rel=0.01)
