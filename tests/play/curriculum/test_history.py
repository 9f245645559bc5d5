import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.play.curriculum.history import History, Scale, hardness

FEATURES = st.dictionaries(st.sampled_from("abc"), st.floats(-1e6, 1e6), max_size=3)


def test_a_coordinate_is_the_rank_among_distinct_values():
    scale = Scale.of([{"depth": value} for value in (1.0, 1.0, 1.0, 2.0, 4.0, 1e6)])
    assert scale.place([{"depth": 1}, {"depth": 2}, {"depth": 3}, {"depth": 4}])[:, 0] == pytest.approx(
        [0, 1 / 3, 0.5, 2 / 3]
    )


def test_what_lies_beyond_all_that_was_seen_is_at_the_edge():
    scale = Scale.of([{"depth": 1.0}, {"depth": 2.0}])
    assert scale.place([{"depth": -5.0}, {"depth": 9.0}, {}])[:, 0].tolist() == [0, 1, 0]


def test_a_feature_that_never_varied_is_no_axis():
    assert Scale.of([{"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 3.0}]).names == ["b"]


def test_only_features_named_are_used():
    assert Scale.of([{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 3.0}], only=("a",)).names == ["a"]


@settings(max_examples=40)
@given(st.lists(FEATURES, min_size=1, max_size=10))
def test_features_of_a_place_are_those_that_were_placed(seen):
    scale = Scale.of(seen)
    for features, place in zip(seen, scale.place(seen), strict=True):
        assert (place >= 0).all()
        assert (place <= 1).all()
        back = scale.features(place[None])[0] if len(scale) else {}
        assert back == pytest.approx({name: features.get(name, 0.0) for name in scale.names}, rel=1e-6, abs=1e-6)


def test_a_scale_of_many_values_keeps_few_and_the_ends():
    scale = Scale.of([{"x": float(value)} for value in range(1000)])
    assert len(scale.values["x"]) <= 64
    assert scale.features(np.array([[0.0], [1.0]])) == [{"x": 0.0}, {"x": 999.0}]
    assert scale.place([{"x": 499.5}])[0, 0] == pytest.approx(0.5, abs=0.01)


def test_the_history_forgets_what_is_older_than_its_window(outcome):
    history = History(2)
    history.add([outcome(at, x=float(at)) for at in range(5)])
    assert [seen.solved for seen in history.of("reach")] == [3, 4]
    assert history.of("other") == []


def test_hardness_is_half_looks_and_half_what_attempts_said():
    place = np.array([0.0, 1.0, 0.5])
    assert hardness(place, 0, 0) == 0.5
    assert hardness(place, 8, 8) == pytest.approx((0.5 + 1 / 10) / 2)
    assert hardness(place, 0, 8, progress=0.5) == pytest.approx((0.5 + (9 / 10 + 0.5) / 2) / 2)
    assert hardness(np.zeros(0), 0, 8) == pytest.approx(9 / 10)


@given(st.integers(0, 8), st.floats(0, 1), st.lists(st.floats(0, 1), max_size=4))
def test_hardness_is_a_share_that_falls_with_success_and_rises_with_looks(solved, progress, place):
    hard = hardness(np.array(place), solved, 8, progress)
    assert 0 <= hard <= 1
    assert hardness(np.array(place), min(solved + 1, 8), 8, progress) <= hard
    assert hardness(np.array([math.sqrt(x) for x in place]), solved, 8, progress) >= hard - 1e-12
