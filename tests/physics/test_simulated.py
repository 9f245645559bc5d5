"""What all environments on simulations share; seen in two of them."""

from typing import Any

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.physics.base import EnvironmentConfig
from autotelic.physics.gym.native import NativeGym
from autotelic.physics.humanoid.tasks import HumanoidStand, HumanoidWalk
from autotelic.physics.randomisation import Randomisation
from autotelic.physics.simulated import SimulatedEnvironment


def pendulum(count: int = 4) -> NativeGym:
    env = NativeGym(EnvironmentConfig(count=count, threads=1), "InvertedPendulum-v5")
    env.reset(0)
    return env


def walk(**keys: Any) -> HumanoidWalk:
    env = HumanoidWalk(HumanoidWalk.Config(**{"count": 4, "threads": 1, "randomise": "off", **keys}))
    env.reset(0)
    return env


# Actions


@pytest.mark.parametrize("shape", [(4,), (1, 1), (3, 1), (4, 2), (4, 1, 1)])
def test_an_action_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    env = pendulum()
    with pytest.raises(ValueError, match=r"InvertedPendulum-v5: actions are \[4, 1\], not \["):
        env.step(np.zeros(shape))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_action_that_is_not_finite_is_one_line_and_moves_nothing(value: float) -> None:
    env = pendulum()
    before, action = env.simulation.qpos.copy(), np.zeros((4, 1))
    action[2] = value
    with pytest.raises(UserError, match=r"^InvertedPendulum-v5, environment 2: the policy gave an action that is not"):
        env.step(action)
    assert (env.simulation.qpos == before).all()
    assert env.broken == 0


# Broken simulations


def test_a_task_is_told_which_simulations_broke_in_the_last_step() -> None:
    env = walk()
    env.simulation.qvel[1] = np.nan
    env.step(np.zeros((4, 12)))
    assert env.failed.tolist() == [False, True, False, False]
    env.step(np.zeros((4, 12)))
    assert not env.failed.any()


def test_what_broke_is_judged_with_all_computed_at_the_models_own_start(monkeypatch: pytest.MonkeyPatch) -> None:
    env = walk()
    places, found = env.simulation.field("xpos"), []
    judge = env.judge
    monkeypatch.setattr(env, "judge", lambda: (found.append(places[1].copy()), judge())[1])
    env.simulation.qvel[1] = np.nan
    env.step(np.zeros((4, 12)))
    env.simulation.reset(np.array([0]))
    env.simulation.forward(np.array([0]))
    assert found[0] == pytest.approx(places[0])
    assert places[0].any()


# Episodes


def test_staggered_environments_do_not_end_their_first_episodes_together() -> None:
    env = HumanoidStand(HumanoidStand.Config(count=64, threads=1, randomise="off", seconds=1.0))
    env.reset(0)
    assert env.stagger(np.random.default_rng(0))
    ends = np.zeros(64, int)
    for number in range(1, env.limit + 1):
        ended = env.step(np.zeros((64, 12))).ended
        first = ended[ends[ended] == 0]
        ends[first] = number
    assert ends.min() >= 1  # none is left after a limit
    assert len(np.unique(ends)) > 30
    assert np.bincount((ends - 1) // 15, minlength=4).min() > 5  # in every quarter of it


def test_without_stagger_they_do() -> None:
    env = HumanoidStand(HumanoidStand.Config(count=8, threads=1, randomise="off", seconds=0.1))
    env.reset(0)
    ends = [len(env.step(np.zeros((8, 12))).ended) for _ in range(env.limit)]
    assert ends == [0] * (env.limit - 1) + [8]


# States


def refused(env: SimulatedEnvironment, state: dict[str, Any]) -> str:
    """What is said of a state that does not fit; nothing of it was written."""
    before = env.state()
    with pytest.raises(UserError) as caught:
        env.load_state(state)
    after = env.state()
    assert (after["simulation"]["rows"] == before["simulation"]["rows"]).all()
    for part in ("memory", "obs"):
        assert all((after[part][name] == values).all() for name, values in before[part].items())
    assert (after["elapsed"] == before["elapsed"]).all()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("mine", "others"), [(4, 1), (1, 4), (4, 3)])
def test_a_state_of_another_count_is_refused(mine: int, others: int) -> None:
    wanted = f"InvertedPendulum-v5: the state is of {others} environments, not {mine}"
    assert refused(pendulum(mine), pendulum(others).state()) == wanted


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"turn": 0.5}, "(memory: change_at, goals, speeds)"),
        ({"push": 0.5}, "(memory: push_at, pushes)"),
        ({"obs": "compact32"}, "(obs: policy)"),
        ({"randomisation": Randomisation(friction=(0.5, 1.0))}, "(parameters: geom_friction)"),
    ],
)
def test_a_state_of_other_settings_is_refused_by_the_names_of_what_differs(keys: dict[str, Any], what: str) -> None:
    assert refused(walk(), walk(**keys).state()).endswith(f"the state is of other settings {what}")
    assert refused(walk(**keys), walk().state()).endswith(f"the state is of other settings {what}")


def test_a_state_is_taken_by_an_environment_that_was_never_reset() -> None:
    env = walk(randomise="sim-to-real")
    other = HumanoidWalk(env.config)
    assert (other.load_state(env.state())["policy"] == env.state()["obs"]["policy"]).all()
