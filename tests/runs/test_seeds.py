import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotelic.runs.seeds import derive, generator


def test_equal_purposes_draw_equal_numbers():
    assert np.array_equal(generator(7, "solve", 3).random(8), generator(7, "solve", 3).random(8))


@pytest.mark.parametrize(
    "other", [(8, "solve", 3), (7, "propose", 3), (7, "solve", 4), (7, "solve"), (7, "solve", "3"), (7, "sol", "ve", 3)]
)
def test_different_purposes_draw_different_numbers(other: tuple):
    assert not np.array_equal(generator(7, "solve", 3).random(8), generator(*other).random(8))
    assert derive(7, "solve", 3) != derive(*other)


def test_numbers_are_the_same_on_every_machine_and_in_every_version():
    assert derive(0, "judge", 1) == 3804979509418218913
    assert generator(0, "solve", 1).integers(1 << 30) == 36085598


@given(st.integers(), st.lists(st.one_of(st.text(max_size=5), st.integers()), max_size=3))
def test_derived_seeds_fit_sqlite_and_are_never_negative(seed: int, purpose: list):
    assert 0 <= derive(seed, *purpose) < 1 << 63
