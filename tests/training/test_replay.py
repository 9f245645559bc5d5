from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.errors import UserError
from autotelic.training.replay import Replay

law = settings(deadline=None, max_examples=100)  # a busy machine is slow, not wrong
NEVER: set[tuple[int, int]] = set()


def transition(t: int, count: int, ends: set[tuple[int, int]] = NEVER) -> dict[str, np.ndarray]:
    """Says when and where it was; `ends` are (time, environment)."""
    return {
        "time": np.full(count, t),
        "environment": np.arange(count),
        "obs": np.full((count, 2), t, np.float32),
        "ended": np.array([(t, i) in ends for i in range(count)]),
    }


def filled(capacity: int, count: int, steps: int, ends: set[tuple[int, int]] = NEVER) -> Replay:
    replay = Replay(capacity, transition(0, count))
    for t in range(steps):
        replay.add(transition(t, count, ends))
    return replay


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    count, rows, steps = draw(st.integers(1, 3)), draw(st.integers(1, 8)), draw(st.integers(1, 25))
    ends = draw(st.sets(st.tuples(st.integers(0, steps - 1), st.integers(0, count - 1)), max_size=8))
    return {"capacity": count * rows + draw(st.integers(0, count - 1)), "count": count, "steps": steps, "ends": ends}


@law
@given(histories(), st.integers(0, 2**31))
def test_what_is_sampled_is_among_the_newest_and_whole(history: dict[str, Any], seed: int) -> None:
    replay = filled(**history)
    kept = min(history["steps"], history["capacity"] // history["count"])
    assert len(replay) == kept * history["count"]
    found = replay.sample(20, np.random.default_rng(seed))
    assert found["obs"].shape == (20, 2)
    columns = (found[name] for name in ("time", "environment", "obs", "ended"))
    for time, environment, obs, ended in zip(*columns, strict=True):
        assert history["steps"] - kept <= time < history["steps"]
        assert obs.tolist() == [time, time]
        assert ended == ((time, environment) in history["ends"])


@law
@given(histories(), st.integers(1, 8), st.integers(0, 2**31))
def test_a_sequence_is_a_piece_of_one_episode_as_it_was_added(history: dict[str, Any], length: int, seed: int) -> None:
    replay, (steps, ends) = filled(**history), (history["steps"], history["ends"])
    kept = min(steps, history["capacity"] // history["count"])
    possible = {
        (start, i)
        for start in range(steps - kept, steps - length + 1)
        for i in range(history["count"])
        if not any((t, i) in ends for t in range(start, start + length - 1))
    }
    if not possible:
        with pytest.raises(UserError):
            replay.sequences(5, length, np.random.default_rng(seed))
        return
    found = replay.sequences(30, length, np.random.default_rng(seed))
    assert found["obs"].shape == (30, length, 2)
    for times, environments in zip(found["time"], found["environment"], strict=True):
        assert times.tolist() == list(range(times[0], times[0] + length))
        assert len(set(environments)) == 1
        assert (times[0], environments[0]) in possible


@law
@given(histories(), st.integers(1, 8), st.integers(0, 2**31))
def test_across_episodes_the_mask_ends_with_the_first(history: dict[str, Any], length: int, seed: int) -> None:
    replay, steps = filled(**history), history["steps"]
    kept = min(steps, history["capacity"] // history["count"])
    if kept < length:
        with pytest.raises(UserError, match=f"holds {kept} steps of each environment, {length} are needed"):
            replay.sequences(5, length, np.random.default_rng(seed), across=True)
        return
    found = replay.sequences(10, length, np.random.default_rng(seed), across=True)
    for times, environments, mask in zip(found["time"], found["environment"], found["mask"], strict=True):
        assert times.tolist() == list(range(times[0], times[0] + length))
        assert times[0] >= steps - kept
        goes_on = True
        for t, environment, valid in zip(times, environments, mask, strict=True):
            assert valid == goes_on
            goes_on = goes_on and (t, environment) not in history["ends"]


def test_every_sequence_is_as_likely_as_any_other() -> None:
    # Episodes of 3, 1 and 6 steps in one environment: 2, 0 and 5 sequences of two steps.
    replay = filled(10, 1, 10, {(2, 0), (3, 0)})
    starts = replay.sequences(14_000, 2, np.random.default_rng(0))["time"][:, 0]
    assert np.bincount(starts, minlength=9).tolist() == pytest.approx([2000, 2000, 0, 0, *[2000] * 5], abs=200)


def test_a_large_ring_is_sampled_evenly_across_its_seam() -> None:
    # 4 environments x 2,750 steps in a ring of 2,500: the newest row, 2,749, lies before the oldest, 250.
    ends = {(t, i) for t in range(30, 2750, 100) for i in range(4)}
    replay, rng = filled(10_000, 4, 2750, ends), np.random.default_rng(0)
    assert len(replay) == 10_000
    times = replay.sample(20_000, rng)["time"]
    assert (times.min(), times.max()) == (250, 2749)
    assert np.bincount((times - 250) // 500).tolist() == pytest.approx([4000] * 5, rel=0.1)
    found = replay.sequences(20_000, 8, rng)["time"]
    assert (np.diff(found, axis=1) == 1).all(), "none goes from the newest on to the oldest"
    assert (found.min(), found.max()) == (250, 2749)
    # The last row of the memory is that of step 2,499: what goes on after it is at the beginning.
    assert ((found[:, 0] <= 2499) & (found[:, -1] >= 2500)).sum() > 20
    assert not (found[:, :-1] % 100 == 30).any(), "none goes on after an end"


def test_a_sequence_that_luck_hardly_finds_is_found() -> None:
    ends = {(t, i) for t in range(500) for i in range(4)} - {(250, 2), (251, 2)}
    found = filled(2000, 4, 500, ends).sequences(5, 3, np.random.default_rng(0))
    assert found["time"].tolist() == [[250, 251, 252]] * 5
    assert (found["environment"] == 2).all()


def test_sequences_longer_than_any_episode_are_refused() -> None:
    replay = filled(20, 1, 20, {(t, 0) for t in range(0, 20, 2)})
    with pytest.raises(UserError, match="no episode in the replay has 3 steps"):
        replay.sequences(5, 3, np.random.default_rng(0))


def test_equal_generators_give_equal_samples() -> None:
    replay = filled(40, 2, 30)
    one, other = (replay.sequences(5, 3, np.random.default_rng(4))["time"] for _ in range(2))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("steps", [3, 25])
def test_a_replay_goes_on_from_its_state(steps: int) -> None:
    replay, other = filled(20, 2, steps, {(1, 0), (20, 1)}), filled(20, 2, 7)
    other.load_state(replay.state())
    for each in (replay, other):
        each.add(transition(99, 2))
    ours, theirs = (each.sequences(8, 2, np.random.default_rng(1), across=True) for each in (replay, other))
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert len(other) == len(replay)


def test_the_state_of_another_replay_is_refused() -> None:
    with pytest.raises(UserError, match="another size"):
        filled(20, 2, 5).load_state(filled(30, 2, 5).state())


def test_an_empty_replay_has_nothing_to_sample() -> None:
    with pytest.raises(UserError, match="holds 0 steps"):
        filled(10, 2, 0).sample(1, np.random.default_rng(0))


def test_a_replay_smaller_than_a_step_is_refused() -> None:
    with pytest.raises(UserError, match="too small for 4 environments"):
        Replay(3, transition(0, 4))


def test_transitions_say_where_episodes_end() -> None:
    with pytest.raises(ValueError, match="need 'ended'"):
        Replay(3, {"obs": np.zeros((1, 2))})
