"""What holds for every curriculum."""

import numpy as np
import pytest

from autotelic import registry
from autotelic.play.curriculum import Wish
from autotelic.play.curriculum.alp_gmm import ALPGMM, ALPGMMConfig
from autotelic.play.curriculum.ladder import Ladder
from autotelic.testing import check_curriculum

NAMES = registry.names("curricula")


def steps(outcome, count: int = 5):
    """Of two kinds, with features that vary, do not, or are missing."""
    rng = np.random.default_rng(5)

    def one(step: int, at: int):
        features = {"x": float(rng.integers(4)), "y": float(rng.random()), "constant": 1.0}
        if at % 5 == 0:
            del features["x"]
        return outcome(int(rng.integers(9)), 8, kind=("reach", "push")[at % 2], step=float(step), **features)

    return [[one(step, at) for at in range(12)] for step in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_curriculum_passes_the_conformance_check(name, outcome):
    check_curriculum(registry.get("curricula", name), steps(outcome))


def test_a_mixture_that_was_fitted_comes_back_as_it_was(outcome):
    config = ALPGMMConfig(every=10, window=30, memory=60)
    found = ALPGMM(config)
    for at, step in enumerate(steps(outcome)):
        found.update(step, np.random.default_rng(at))
    assert found.dump()["regions"].keys() == {"reach", "push"}
    check_curriculum(lambda: ALPGMM(config), steps(outcome))


@pytest.mark.parametrize("name", NAMES)
def test_tasks_without_features_are_no_trouble(name, outcome):
    check_curriculum(registry.get("curricula", name), [[outcome(at) for at in range(step, 9)] for step in range(7)])


@pytest.mark.parametrize("name", NAMES)
def test_a_step_without_evidence_is_no_trouble(name, outcome):
    check_curriculum(registry.get("curricula", name), [[], *steps(outcome, 2), []])


class Forgetful(Ladder):
    """Keeps something back from what it dumps."""

    def dump(self):
        return super().dump() | {"rungs": {}}


class Drifting(Ladder):
    def sample(self, kind, count, rng):
        self.history.window += 1
        self._rungs["reach"] = "hard"
        return super().sample(kind, count, rng)


class Lazy(Ladder):
    def sample(self, kind, count, rng):
        return [Wish(0.5)]


@pytest.mark.parametrize(
    ("curriculum", "words"),
    [(Forgetful, "in what it dumps"), (Drifting, "only `update` changes"), (Lazy, "a wish for each proposal")],
)
def test_a_curriculum_that_breaks_a_promise_is_caught(curriculum, words, outcome):
    easy = [[outcome(8, x=float(at), y=float(step)) for at in range(12)] for step in range(4)]
    with pytest.raises(AssertionError, match=words):
        check_curriculum(curriculum, easy)
