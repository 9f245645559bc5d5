import inspect
import sys
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from packaging.requirements import Requirement

from autotelic.errors import UserError
from autotelic.physics.base import EnvironmentConfig, Observation, Step
from autotelic.physics.gym.native import NativeGym, supported
from autotelic.physics.gym.tasks import TASKS
from autotelic.physics.simulated import ALL, Judgement, Rows
from autotelic.testing import check_environment

if find_spec("imageio") is None:
    # Gymnasium's MuJoCo environments import it, only to save screenshots; nothing here does.
    sys.modules["imageio"] = ModuleType("imageio")

NAMES = list(TASKS)
NOISY = [name for name in NAMES if name not in ("Reacher-v5", "Pusher-v5")]


class Exact(NativeGym):
    """Before the border of float32."""

    judged: Judgement

    def observe(self, rows: Rows, dtype: Any = np.float64) -> Observation:
        return super().observe(rows, dtype)

    def judge(self) -> Judgement:
        self.judged = super().judge()
        return self.judged

    def begin_at(self, ids: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> Observation:
        """Episodes of these environments begin anew at given states; returns their first observations."""
        self.elapsed[ids] = 0
        self.simulation.reset(ids)
        self.simulation.qpos[ids], self.simulation.qvel[ids] = qpos, qvel
        self.simulation.forward(ids)
        self.settle(ids)
        return self.observe(ids)


def native(name: str, count: int = 4, threads: int = 1, seed: int = 0) -> NativeGym:
    env = NativeGym(EnvironmentConfig(count=count, threads=threads), name)
    env.reset(seed)
    return env


def actions(env: NativeGym, steps: int, seed: int = 0) -> np.ndarray:
    shape = env.action_space.shape
    assert shape is not None
    return np.random.default_rng(seed).uniform(-1, 1, (steps, env.count, *shape))


def same(one: Step, other: Step) -> bool:
    """Whether two steps are equal to the last bit."""
    return (
        np.array_equal(one.obs["policy"], other.obs["policy"])
        and np.array_equal(one.final_obs["policy"], other.final_obs["policy"])
        and all(
            np.array_equal(getattr(one, name), getattr(other, name))
            for name in ("reward", "terminated", "truncated", "ended")
        )
        and all(np.array_equal(values, other.terms[name]) for name, values in one.terms.items())
    )


# Against Gymnasium


class Pair:
    """A batch, and for each of its environments one of Gymnasium's in the same state."""

    def __init__(self, name: str, count: int) -> None:
        self.env = Exact(EnvironmentConfig(count=count, threads=1), name)
        self.env.reset(0)
        self.peers = [gymnasium.make(name, disable_env_checker=True) for _ in range(count)]
        self.high = self.env.simulation.model.actuator_ctrlrange[:, 1]
        for at in range(count):
            self.begin(at, seed=at)

    def begin(self, at: int, seed: int | None = None) -> None:
        first, _ = self.peers[at].reset(seed=seed)
        data: Any = self.peers[at].unwrapped
        seen = self.env.begin_at(np.array([at]), data.data.qpos, data.data.qvel)["policy"][0]
        np.testing.assert_allclose(seen, first, rtol=0, atol=1e-9)

    def step(self, action: np.ndarray) -> Step:
        """One step of all, compared; those that ended begin again together."""
        step = self.env.step(action)
        last = step.obs["policy"].copy()
        last[step.ended] = step.final_obs["policy"]
        for at, peer in enumerate(self.peers):
            obs, reward, terminated, truncated, info = peer.step(action[at] * self.high)
            np.testing.assert_allclose(last[at], obs, rtol=0, atol=1e-9)
            assert self.env.judged.reward[at] == pytest.approx(reward, abs=1e-9)
            assert step.terminated[at] == terminated
            assert step.truncated[at] == (truncated and not terminated)
            parts = {name: part for name, part in info.items() if name.startswith("reward_") or "penalty" in name}
            assert {name.removeprefix("reward_") for name in parts} == set(step.terms)
            for name, part in parts.items():
                assert step.terms[name.removeprefix("reward_")][at] == pytest.approx(part, abs=1e-9)
            if terminated or truncated:
                self.begin(at)
        return step


@pytest.mark.parametrize("name", NAMES)
def test_every_step_is_that_of_gymnasium(name: str) -> None:
    pair = Pair(name, count=3)
    assert pair.peers[0].observation_space.shape == (pair.env.sizes["policy"],)
    ends = touched = 0
    for action in actions(pair.env, 210):
        step = pair.step(action)
        ends += len(step.ended)
        touched += bool(step.terms.get("contact", np.zeros(3)).any())
    if name not in ("HalfCheetah-v5", "Swimmer-v5"):  # which never end before their thousand steps
        assert ends > 3
    if TASKS[name].forces:
        assert touched > 20


def test_controls_at_their_bounds_are_those_of_gymnasium() -> None:
    pair = Pair("Humanoid-v5", count=2)
    for action in np.sign(actions(pair.env, 60)):
        pair.step(action)


@pytest.mark.parametrize("name", ["Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5"])
def test_health_ends_where_it_does_in_gymnasium(name: str) -> None:
    env = native(name, count=1)
    peer: Any = gymnasium.make(name, disable_env_checker=True).unwrapped
    ranges = [key for key in dir(TASKS[name]) if key.startswith("healthy_") and key.endswith("_range")]
    bounds = [bound for key in ranges for bound in getattr(TASKS[name], key)]
    values = [value for bound in bounds for value in (bound, np.nextafter(bound, -np.inf), np.nextafter(bound, np.inf))]
    found = set()
    for coordinate in range(env.task.state.shape[1]):
        for value in values:
            state = np.concatenate((env.simulation.model.qpos0, np.zeros(env.simulation.model.nv)))
            state[coordinate] = value
            peer.data.qpos[:], peer.data.qvel[:] = np.split(state, [env.simulation.model.nq])
            env.task.state[:] = state
            healthy = bool(peer.is_healthy)
            assert env.judge().terminated.tolist() == [not healthy], (coordinate, value)
            found.add(healthy)
    assert found == {True, False}


@pytest.mark.parametrize("name", NAMES)
def test_constants_are_the_defaults_of_gymnasium(name: str) -> None:
    # What Gymnasium lets a user switch, and natively is as it is by default.
    fixed = {
        "terminate_when_unhealthy": True,
        "exclude_current_positions_from_observation": True,
        "include_cinert_in_observation": True,
        "include_cvel_in_observation": True,
        "include_qfrc_actuator_in_observation": True,
        "include_cfrc_ext_in_observation": True,
    }
    spec, task = gymnasium.spec(name), TASKS[name]
    assert isinstance(spec.entry_point, str)
    module, _, peer = spec.entry_point.partition(":")
    __import__(module)
    parameters = dict(inspect.signature(getattr(sys.modules[module], peer).__init__).parameters)
    for other in ("self", "kwargs", "default_camera_config"):
        del parameters[other]
    for key, parameter in parameters.items():
        ours = fixed[key] if key in fixed else getattr(task, key)
        assert ours == parameter.default, f"{name}: {key}"
    assert task.limit == spec.max_episode_steps
    assert not spec.kwargs


@pytest.mark.parametrize("name", NAMES)
def test_starts_are_drawn_as_gymnasium_draws_them(name: str) -> None:
    count = 1200
    env = native(name, count)
    ours = np.concatenate((env.simulation.qpos, env.simulation.qvel), axis=1)
    peer: Any = gymnasium.make(name, disable_env_checker=True)
    peer.reset(seed=0)
    theirs = np.empty_like(ours)
    for row in theirs:
        peer.unwrapped.reset()
        row[:] = peer.unwrapped.state_vector()
    spread = theirs.std(axis=0)
    # Where Gymnasium draws nothing, nothing is drawn.
    np.testing.assert_array_equal(ours[:, spread == 0], theirs[:, spread == 0])
    ours, theirs, spread = ours[:, spread > 0], theirs[:, spread > 0], spread[spread > 0]
    assert len(np.unique(ours[:, 0])) == count
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 0.3 * spread).all()
    assert (np.abs(ours.std(axis=0) / spread - 1) < 0.15).all()
    for quantile in (0.05, 0.95):
        far = np.quantile(ours, quantile, axis=0) - np.quantile(theirs, quantile, axis=0)
        assert (np.abs(far) < 0.4 * spread).all()


@pytest.mark.parametrize("name", NOISY)
def test_first_positions_keep_to_the_range_of_their_noise(name: str) -> None:
    env = native(name, count=100)
    far = np.abs(env.simulation.qpos - env.simulation.model.qpos0)
    assert far.max() <= TASKS[name].reset_noise_scale
    assert far.max() > 0.95 * TASKS[name].reset_noise_scale


def test_goals_are_drawn_where_they_can_be_reached() -> None:
    reacher, pusher = native("Reacher-v5", count=300), native("Pusher-v5", count=300)
    goals = np.linalg.norm(reacher.simulation.qpos[:, -2:], axis=1)
    assert 0.19 < goals.max() < 0.2
    places = pusher.simulation.qpos[:, -4:-2]
    apart = np.linalg.norm(places, axis=1)
    assert 0.17 < apart.min() < 0.18
    assert (places >= (-0.3, -0.2)).all()
    assert (places <= (0.0, 0.2)).all()


# Actions


def test_an_action_means_the_range_of_its_motor() -> None:
    env = native("Humanoid-v5", count=1)
    env.apply(np.linspace(-1, 1, 17)[None])
    np.testing.assert_allclose(env.simulation.ctrl[0], np.linspace(-0.4, 0.4, 17))


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Pusher-v5"])
def test_what_is_beyond_the_bounds_of_an_action_does_nothing_and_costs_nothing(name: str) -> None:
    one, other = native(name), native(name)
    for action in actions(one, 5):
        assert same(one.step(3 * action), other.step(np.clip(3 * action, -1, 1)))


# Episodes


def test_an_episode_is_cut_at_its_limit() -> None:
    env = native("HalfCheetah-v5", count=3)
    env.elapsed[1] = 999
    step = env.step(actions(env, 1)[0])
    assert step.truncated.tolist() == [False, True, False]
    assert not step.terminated.any()
    assert env.elapsed.tolist() == [1, 0, 1]


def test_a_step_that_ends_an_episode_returns_its_last_observation_and_the_first_of_the_next() -> None:
    env = native("Hopper-v5", count=8)
    for action in actions(env, 100):
        step = env.step(action)
        if len(step.ended):
            break
    assert len(step.ended), "a random hopper falls"
    assert step.terminated[step.ended].all()
    heights, angles = step.final_obs["policy"][:, 0], step.final_obs["policy"][:, 1]
    assert ((heights <= 0.7) | (np.abs(angles) >= 0.2)).all()
    first = step.obs["policy"][step.ended]
    assert (np.abs(first - np.r_[1.25, np.zeros(10)]) <= 0.005 + 1e-6).all()
    assert np.array_equal(first, env.observe(step.ended)["policy"])


def test_the_reward_is_the_sum_of_its_terms() -> None:
    env = native("Ant-v5")
    for action in actions(env, 20):
        step = env.step(action)
        np.testing.assert_allclose(sum(step.terms.values()), step.reward, atol=1e-6)


def test_a_step_writes_into_no_array_of_the_one_before() -> None:
    env = native("Humanoid-v5")
    some, more = actions(env, 2)
    step = env.step(some)
    kept = {name: values.copy() for name, values in {**step.terms, **step.obs, "reward": step.reward}.items()}
    env.step(more)
    for name, values in {**step.terms, **step.obs, "reward": step.reward}.items():
        assert np.array_equal(values, kept[name]), name


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Humanoid-v5"])
def test_a_broken_simulation_is_cut_and_counted_and_harms_no_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broken, whole = native(name), native(name)
    steps = actions(broken, 6)
    broken.step(steps[0])
    whole.step(steps[0])
    before = broken._obs["policy"][2].copy()
    broken.simulation.qvel[2, 1] = np.nan
    others = [0, 1, 3]
    for at, action in enumerate(steps[1:]):
        step, unharmed = broken.step(action), whole.step(action)
        assert np.array_equal(step.obs["policy"][others], unharmed.obs["policy"][others])
        assert np.array_equal(step.reward[others], unharmed.reward[others])
        assert np.isfinite(step.obs["policy"]).all()
        if at == 0:
            assert step.truncated.tolist() == [False, False, True, False]
            assert not step.terminated.any()
            assert step.reward[2] == 0
            assert np.array_equal(step.final_obs["policy"], before[None])
    assert (broken.broken, whole.broken) == (1, 0)
    assert not list(tmp_path.iterdir()), "MuJoCo leaves no log where a user happens to be"


# Exactness


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "Reacher-v5"])
def test_a_state_goes_on_to_the_last_bit_in_another_instance(name: str) -> None:
    env = native(name)
    steps = actions(env, 80)
    for action in steps[:30]:
        last = env.step(action)
    other = NativeGym(EnvironmentConfig(count=4, threads=1), name)
    assert np.array_equal(other.load_state(env.state())["policy"], last.obs["policy"])
    for action in steps[30:]:
        assert same(other.step(action), env.step(action))


@pytest.mark.parametrize("name", ["Walker2d-v5", "Humanoid-v5"])
def test_the_same_seed_gives_the_same_episodes_on_any_number_of_threads(name: str) -> None:
    one, two, another = native(name, threads=1), native(name, threads=2), native(name, seed=1)
    assert not np.array_equal(one._obs["policy"], another._obs["policy"])
    for action in actions(one, 40):
        assert same(one.step(action), two.step(action))


# The rest


@pytest.mark.parametrize("name", NAMES)
def test_every_task_is_an_environment_like_any(name: str) -> None:
    check_environment(lambda: NativeGym(EnvironmentConfig(count=3, threads=1), name), steps=55)


def test_only_the_ten_tasks_are_native() -> None:
    assert len(NAMES) == 10
    assert all(supported(name) for name in NAMES)
    assert not supported("HalfCheetah-v4")
    with pytest.raises(UserError, match=r"no native environment 'HalfCheeta-v5': did you mean HalfCheetah-v5"):
        NativeGym(EnvironmentConfig(count=1), "HalfCheeta-v5")


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_names_all_that_is_seen_and_every_motor(name: str) -> None:
    env = native(name, count=1)
    contract = env.contract()
    layout = contract["layout"]["policy"]
    assert sum(size for _, size, _ in layout) == env.observe(ALL)["policy"].shape[1]
    assert all(scale == 1.0 for _, _, scale in layout)
    motors = contract["actions"]["motors"]
    assert len(set(motors)) == env.simulation.model.nu
    assert all(motors)


def test_a_model_that_gymnasium_lacks_is_one_line_that_names_the_versions_we_require(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (required,) = (line for line in requires("autotelic") or [] if line.startswith("gymnasium[mujoco]"))
    monkeypatch.setattr("autotelic.physics.gym.native.files", lambda package: tmp_path)
    with pytest.raises(UserError, match=r"^Ant-v5: .*ant\.xml is missing: pip install '(.*)', which has it$") as caught:
        native("Ant-v5", count=1)
    told = Requirement(str(caught.value).split("'")[1])
    assert told.specifier == Requirement(required).specifier


def test_pictures_follow_the_robot_where_the_model_has_a_camera_for_it() -> None:
    assert native("Ant-v5", count=1).camera == "track"
    assert native("Reacher-v5", count=1).camera == -1
