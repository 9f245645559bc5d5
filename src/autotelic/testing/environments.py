"""What an environment must keep to: the ends of its episodes, its seed and its bounds, and that it can be restored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from autotelic.testing.saved import through_checkpoint

if TYPE_CHECKING:
    from autotelic.physics.base import Environment, Observation, Step


def check_environment(make: Callable[[], Environment], steps: int = 50) -> None:
    """Steps environments that `make` gives with random actions, half of them out of bounds where there are bounds:
    right shapes and types, finite, the same for the same seed, and where one is `exact` the same after `load_state`.

    Let `steps` be so many that episodes end: what is wrong at their ends shows only then.
    """
    rng = np.random.default_rng(9)
    with make() as one, make() as other:
        assert one.name, "an environment has a name"
        assert one.dt > 0, "dt, the seconds from one action to the next, is positive"
        assert "policy" in one.sizes, "there is an observation for the policy"
        json.dumps(one.contract(), allow_nan=False)
        first = one.reset(7)
        _check_observation(one, first, one.count)
        _assert_same(first, other.reset(7), "reset is a function of the seed")
        given = [(array, array.copy()) for array in first.values()]
        lengths, ended, told_apart = np.zeros(one.count, np.int64), 0, False
        actions, obs = [_random_actions(one, rng) for _ in range(steps)], first
        for action in actions:
            step = one.step(action)
            lengths += 1
            _check_step(one, step, lengths)
            lengths[step.ended], obs = 0, step.obs
            ended += len(step.ended)
            told_apart |= any(not np.array_equal(step.final_obs[name], obs[name][step.ended]) for name in obs)
            found, cut = _arrays(step), _arrays(other.step(_within_bounds(one, action)))
            _assert_same(found, cut, "equal seeds and actions give equal steps; actions are cut to their bounds")
            given += [(array, array.copy()) for array in found.values()]
        assert all(np.array_equal(array, copy) for array, copy in given), (
            "arrays are the caller's to keep: no later step writes into them"
        )
        assert told_apart or not ended, (
            "final_obs is the last observation of an episode that ended, not the first of the next, which is in obs"
        )
        _check_restored(make, one, obs, actions)
        _assert_same(one.reset(7), first, "reset with the same seed begins the same way, whatever came before")


def _random_actions(environment: Environment, rng: np.random.Generator) -> np.ndarray:
    from gymnasium import spaces

    space, count = environment.action_space, environment.count
    if isinstance(space, spaces.Box):
        assert len(space.shape) == 1, f"a Box of actions has one dimension, not {len(space.shape)}"
        return rng.normal(0.0, 1.5, (count, *space.shape)).astype(np.float32)
    if isinstance(space, spaces.Discrete):
        assert space.start == 0, "Discrete actions count from 0"
        return rng.integers(int(space.n), size=count)
    assert isinstance(space, spaces.MultiDiscrete), f"actions are Box, Discrete or MultiDiscrete, not {space}"
    assert space.nvec.ndim == 1, "MultiDiscrete actions are a list of numbers"
    assert not space.start.any(), "MultiDiscrete actions count from 0"
    return rng.integers(space.nvec, size=(count, len(space.nvec)))


def _within_bounds(environment: Environment, action: np.ndarray) -> np.ndarray:
    from gymnasium import spaces

    space = environment.action_space
    return np.clip(action, space.low, space.high) if isinstance(space, spaces.Box) else action


def _check_observation(environment: Environment, obs: Observation, rows: int) -> None:
    assert obs.keys() == environment.sizes.keys(), f"observations are {sorted(environment.sizes)}, not {sorted(obs)}"
    for name, size in environment.sizes.items():
        assert obs[name].dtype == np.float32, f"the {name} observation is float32, not {obs[name].dtype}"
        assert obs[name].shape == (rows, size), f"the {name} observation is {obs[name].shape}, not {(rows, size)}"
        assert np.isfinite(obs[name]).all(), f"the {name} observation is finite"


def _check_step(environment: Environment, step: Step, lengths: np.ndarray) -> None:
    """`lengths` [count]: of the episodes, with this step."""
    _check_observation(environment, step.obs, environment.count)
    for name, dtype in (("reward", np.float32), ("terminated", np.bool_), ("truncated", np.bool_)):
        array = getattr(step, name)
        assert array.dtype == dtype, f"{name} is {np.dtype(dtype)}, not {array.dtype}"
        assert array.shape == (environment.count,), f"{name} has a number for each environment"
    assert np.isfinite(step.reward).all(), "the reward is finite"
    assert not (step.terminated & step.truncated).any(), "what is terminated is not truncated as well"
    assert np.array_equal(step.ended, np.flatnonzero(step.terminated | step.truncated)), (
        "ended are the environments that are terminated or truncated, in order"
    )
    _check_observation(environment, step.final_obs, len(step.ended))
    for name, values in step.terms.items():
        assert values.shape == (environment.count,), f"the term {name} has a number for each environment"
        assert np.isfinite(values).all(), f"the term {name} is finite"
    for name, values in step.episodes.items():
        assert values.shape == (len(step.ended),), f"{name} has a number for each episode that ended"
    assert np.isin(step.episodes.get("success", 0.0), (0.0, 1.0)).all(), "success is 1 or 0"
    if environment.limit is not None:
        over = np.delete(lengths, step.ended) >= environment.limit
        assert not over.any(), f"an episode ends after {environment.limit} steps, its limit"


def _arrays(step: Step) -> dict[str, np.ndarray]:
    """All that a step says, by name; observations by their own."""
    parts = {"final ": step.final_obs, "term ": step.terms, "episode ": step.episodes}
    found = {prefix + name: values for prefix, part in parts.items() for name, values in part.items()}
    names = ("reward", "terminated", "truncated", "ended")
    return {**step.obs, **found, **{name: getattr(step, name) for name in names}}


def _assert_same(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray], what: str) -> None:
    assert found.keys() == wanted.keys(), f"{what}: {sorted(found)} and {sorted(wanted)}"
    for name, values in wanted.items():
        assert np.array_equal(found[name], values, equal_nan=values.dtype.kind == "f"), f"{what}: {name} differs"


def _check_restored(
    make: Callable[[], Environment], one: Environment, obs: Observation, actions: Sequence[np.ndarray]
) -> None:
    """`obs`: what was seen last. An environment that is not exact need only begin the same way each time."""
    state = through_checkpoint(one.state())
    with make() as restored, make() as again:
        seen = restored.load_state(state)
        _check_observation(one, seen, one.count)
        if one.exact:
            _assert_same(seen, obs, "load_state returns the last observation; where it cannot, exact = False")
        else:
            _assert_same(seen, again.load_state(state), "load_state is a function of the state")
        reference = one if one.exact else again
        for action in actions:
            found, wanted = _arrays(restored.step(action)), _arrays(reference.step(action))
            _assert_same(found, wanted, "what is restored goes on as if nothing had happened")
