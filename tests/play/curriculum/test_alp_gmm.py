import numpy as np
import pytest

from autotelic.play.curriculum.alp_gmm import ALPGMM, ALPGMMConfig, Regions, learning_progress
from autotelic.play.curriculum.history import Scale
from autotelic.play.curriculum.mixture import Mixture


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def regions(*progress: float) -> Regions:
    """Narrow components side by side, with so much learning progress each."""
    count = len(progress)
    means = np.array([[(at + 0.5) / count, value] for at, value in enumerate(progress)])
    mixture = Mixture(np.full(count, 1 / count), means, np.repeat(1e-6 * np.eye(2)[None], count, axis=0))
    return Regions(mixture, Scale({"x": [0.0, 1.0]}))


def test_learning_progress_is_the_distance_to_the_rate_of_the_nearest_task():
    old, rates = np.array([[0.0], [1.0]]), np.array([0.25, 1.0])
    found = learning_progress(np.array([[0.1], [0.9], [0.4]]), np.array([0.75, 0.5, 0.0]), old, rates)
    assert found.tolist() == [0.5, 0.5, 0.25]


def test_of_tasks_as_near_the_newest_is_compared_with():
    old = np.zeros((3, 2))
    assert learning_progress(np.zeros((1, 2)), np.array([1.0]), old, np.array([0.0, 0.25, 0.5])).tolist() == [0.5]


def test_components_are_sampled_in_proportion_to_their_learning_progress(rng):
    found = regions(0.1, 0.3, 0.0)
    assert found.chances().tolist() == pytest.approx([0.25, 0.75, 0.0])
    drawn = (3 * found.sample(2000, rng)[:, 0] - 0.5).round().tolist()
    assert [drawn.count(at) / 2000 for at in range(3)] == pytest.approx([0.25, 0.75, 0.0], abs=0.03)


def test_without_learning_progress_all_components_are_alike():
    assert regions(0.0, -0.1).chances().tolist() == [0.5, 0.5]


def test_progress_to_expect_is_that_of_the_component_at_hand():
    assert regions(0.1, 0.3).expected(np.array([[0.25], [0.75]])).tolist() == pytest.approx([0.1, 0.3])


def test_a_fifth_of_wishes_is_from_anywhere(outcome, rng):
    curriculum = ALPGMM()
    curriculum.update([outcome(4, x=float(at)) for at in range(2)], rng)
    curriculum.load(
        curriculum.dump() | {"regions": {"reach": {"mixture": regions(0.5).mixture.dump(), "scale": {"x": [0, 1]}}}}
    )
    far = [abs(wish.features["x"] - 0.5) > 0.01 for wish in curriculum.sample("reach", 3000, rng)]
    assert np.mean(far) == pytest.approx(0.2 * 0.98, abs=0.03)


def test_before_the_first_fit_wishes_are_from_anywhere(outcome, rng):
    curriculum = ALPGMM()
    assert dict(curriculum.sample("reach", 1, rng)[0].features) == {}
    curriculum.update([outcome(4, x=0.0), outcome(4, x=1.0)], rng)
    drawn = [wish.features["x"] for wish in curriculum.sample("reach", 1000, rng)]
    assert np.histogram(drawn, bins=4, range=(0, 1))[0] == pytest.approx([250] * 4, abs=60)


def test_it_fits_after_so_many_tasks_to_the_newest_of_them(outcome, rng):
    curriculum = ALPGMM(ALPGMMConfig(every=10, window=20, memory=40))
    fitted = []
    for step in range(12):
        figures = curriculum.update([outcome(at, x=float(10 * step + at)) for at in range(5)], rng)
        fitted.append("reach/components" in figures)
    assert fitted == [False] * 2 + [True] * 10
    assert len(curriculum.dump()["progress"]["reach"]) == 20


def test_the_difficulty_wanted_is_the_share_that_fails_nearby(outcome, rng):
    curriculum = ALPGMM()
    curriculum.update([outcome(8 if at < 50 else 2, x=float(at)) for at in range(100)], rng)
    for wish in curriculum.sample("reach", 100, rng):
        if abs(wish.features["x"] - 49.5) > 5:
            assert wish.difficulty == (0.0 if wish.features["x"] < 49.5 else 0.75)


def test_wishes_concentrate_where_success_changes(simulation):
    """Solved for sure on the left, never on the right; in the middle it comes and goes."""

    def solves(task, step):
        x = task.features["x"]
        return 1.0 if x < 0.4 else 0.0 if x > 0.6 else float(step // 4 % 2)

    played = simulation(ALPGMM(), solves)
    played.run(50)
    late = [wish.features["x"] for wishes in played.wishes[-15:] for wish in wishes]
    assert np.mean([0.35 < x < 0.65 for x in late]) > 0.55  # 0.3 of what there is
    assert np.mean([0.35 < task.features["x"] < 0.65 for task in played.practised()]) > 0.5


def test_a_new_feature_is_wanted_from_the_next_fit_on(outcome, rng):
    curriculum = ALPGMM(ALPGMMConfig(every=10, window=20, memory=40))
    for step in range(3):
        curriculum.update([outcome(at, x=float(10 * step + at)) for at in range(6)], rng)
    assert list(curriculum.sample("reach", 1, rng)[0].features) == ["x"]
    curriculum.update([outcome(4, x=0.0, y=1.0)], rng)
    assert list(curriculum.sample("reach", 1, rng)[0].features) == ["x"]
    curriculum.update([outcome(at, x=float(at), y=float(at)) for at in range(9)], rng)
    assert list(curriculum.sample("reach", 1, rng)[0].features) == ["x", "y"]
