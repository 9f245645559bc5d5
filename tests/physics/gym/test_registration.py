import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from autotelic import registry
from autotelic.errors import UserError
from autotelic.physics.base import Environment, EnvironmentConfig, Observation, Step
from autotelic.physics.gym.adapter import GymnasiumConfig, GymnasiumEnvironment
from autotelic.physics.gym.registration import TASKS, SingleEnvironment
from autotelic.physics.humanoid.observations import attitude
from autotelic.testing import check_environment


@dataclass(frozen=True)
class WalkConfig(EnvironmentConfig):
    far: int = 3  # where an episode terminates


class Walk(Environment):
    """A place on a line that actions move by one; cut after six steps. Where it begins is a matter of chance."""

    Config: ClassVar[type[EnvironmentConfig]] = WalkConfig
    config: WalkConfig

    def __init__(self, config: WalkConfig) -> None:
        self.config, self.count, self.name, self.dt, self.limit = config, config.count, "walk", 0.1, 6
        self.sizes, self.action_space = {"policy": 2}, spaces.Discrete(2)
        self.closed = False

    def reset(self, seed: int) -> Observation:
        self.rng = np.random.default_rng(seed)
        self.place, self.steps = self.rng.random(self.count), np.zeros(self.count, np.int64)
        return self.seen()

    def seen(self) -> Observation:
        return {"policy": np.stack([self.place, self.steps], axis=1).astype(np.float32)}

    def step(self, action: np.ndarray) -> Step:
        self.place, self.steps = self.place + 2 * action - 1, self.steps + 1
        terminated = np.abs(self.place) > self.config.far
        truncated = (self.steps >= 6) & ~terminated
        ended = np.flatnonzero(terminated | truncated)
        final_obs = {"policy": self.seen()["policy"][ended]}
        self.place[ended], self.steps[ended] = self.rng.random(len(ended)), 0
        reward = action.astype(np.float32)
        terms, episodes = {"moved": reward * 2}, {"success": terminated[ended].astype(np.float32)}
        return Step(self.seen(), reward, terminated, truncated, ended, final_obs, terms, episodes)

    def state(self) -> dict[str, Any]:
        rng = str(self.rng.bit_generator.state["state"]["state"]), str(self.rng.bit_generator.state["state"]["inc"])
        return {"place": self.place.copy(), "steps": self.steps.copy(), "rng": list(rng)}

    def load_state(self, state: Mapping[str, Any]) -> Observation:
        self.rng = np.random.default_rng(0)
        inner = {"state": int(state["rng"][0]), "inc": int(state["rng"][1])}
        self.rng.bit_generator.state = {**self.rng.bit_generator.state, "state": inner}
        self.place, self.steps = np.array(state["place"]), np.array(state["steps"])
        return self.seen()

    def frame(self, index: int, width: int, height: int) -> np.ndarray:
        return np.full((height, width, 3), int(self.steps[index]), np.uint8)

    def close(self) -> None:
        self.closed = True


def single(**settings) -> SingleEnvironment:
    return SingleEnvironment(Walk(WalkConfig(count=1)), **settings)


@pytest.fixture
def walk_v0(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "get", lambda group, name: {("environments", "walk"): Walk}[group, name])
    monkeypatch.setitem(
        gymnasium.registry,
        "autotelic/walk-v0",
        EnvSpec("autotelic/walk-v0", "autotelic.physics.gym.registration:make_task", kwargs={"task": "walk"}),
    )


# One environment


@pytest.mark.filterwarnings("ignore::UserWarning")  # of bounds that observations do not have
def test_gymnasium_s_checker_is_content_with_a_task(walk_v0: None):
    check_env(gymnasium.make("autotelic/walk-v0").unwrapped)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("task", ["humanoid-stand", "humanoid-walk", "humanoid-obstacles"])
def test_gymnasium_s_checker_is_content_with_humanoids(task: str):
    made = gymnasium.make(f"autotelic/{task}-v0")
    check_env(made.unwrapped, skip_render_check=True)
    made.close()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_s_checker_is_content_with_a_native_environment():
    environment = GymnasiumEnvironment(GymnasiumConfig(id="InvertedPendulum-v5", count=1, threads=1))
    check_env(SingleEnvironment(environment), skip_render_check=True)


def test_an_episode_s_last_step_shows_its_end_and_reset_shows_the_next():
    env, whole = single(), Walk(WalkConfig(count=1))
    first, _ = env.reset(seed=4)
    assert np.array_equal(first, whole.reset(4)["policy"][0])
    for number in range(1, 7):
        observation, reward, terminated, truncated, _ = env.step(number % 2)
        step = whole.step(np.array([number % 2]))
        assert (reward, terminated, truncated) == (number % 2, False, number == 6)
    assert observation.tolist() == step.final_obs["policy"][0].tolist()
    assert observation[1] == 6
    following, _ = env.reset()
    assert following.tolist() == step.obs["policy"][0].tolist()
    assert following[1] == 0


def test_stepping_on_after_the_end_is_an_error():
    env = single()
    env.reset(seed=0)
    while not any(env.step(1)[2:4]):
        pass
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(1)


def test_a_seed_begins_anew_also_after_an_end():
    env = single()
    first, _ = env.reset(seed=8)
    while not any(env.step(1)[2:4]):
        pass
    again, _ = env.reset(seed=8)
    assert np.array_equal(again, first)


def test_a_reset_within_an_episode_begins_another_that_follows_from_the_seed():
    def starts(seed: int) -> list[float]:
        env = single()
        found = [float(env.reset(seed=seed)[0][0])]
        for _ in range(3):
            env.step(0)
            found.append(float(env.reset()[0][0]))
        return found

    assert starts(1) == starts(1)
    assert starts(1) != starts(2)
    assert len(set(starts(1))) == 4


def test_what_is_known_beside_the_reward_is_in_info():
    env = single()
    env.reset(seed=0)
    *_, info = env.step(1)
    assert info == {"terms": {"moved": 2.0}}
    while not any((step := env.step(1))[2:4]):
        pass
    assert step[4] == {"terms": {"moved": 2.0}, "success": 1.0}


def test_pictures_are_the_environment_s_own():
    env = single(render_mode="rgb_array", width=8, height=6)
    env.reset(seed=0)
    env.step(1)
    picture = env.render()
    assert picture is not None
    assert picture.shape == (6, 8, 3)
    assert (picture == 1).all()
    assert env.metadata["render_fps"] == 10


def test_another_render_mode_is_refused():
    with pytest.raises(gymnasium.error.UnsupportedMode, match="render_mode='human'"):
        single(render_mode="human")


def test_many_environments_are_not_one():
    with pytest.raises(ValueError, match="of one, not of 2"):
        SingleEnvironment(Walk(WalkConfig(count=2)))


def test_closing_closes_the_environment():
    env = single()
    env.close()
    assert isinstance(env.environment, Walk)
    assert env.environment.closed


def test_settings_of_a_task_are_arguments_of_make(walk_v0: None):
    env: Any = gymnasium.make("autotelic/walk-v0", far=50)
    assert env.unwrapped.environment.config == WalkConfig(count=1, threads=1, far=50)


def test_more_than_one_environment_is_refused(walk_v0: None):
    with pytest.raises(UserError, match="count=8: Gymnasium makes one environment at a time"):
        gymnasium.make("autotelic/walk-v0", count=8)


def test_our_tasks_are_registered_under_their_names():
    assert [f"autotelic/{task}-v0" for task in TASKS] == [name for name in gymnasium.registry if "autotelic/" in name]
    assert set(TASKS) <= set(registry.names("environments"))


ALONE = """
import sys, warnings
warnings.simplefilter("error")  # to register a name twice is one
import autotelic.physics.gym.registration, gymnasium
assert "mujoco" not in sys.modules, "loaded before a task is made"
for name in ("autotelic/humanoid-stand-v0", "autotelic.physics.gym.registration:autotelic/humanoid-stand-v0"):
    gymnasium.make(name, disable_env_checker=True).close()
"""


def test_once_the_module_is_loaded_a_plain_name_is_found_and_mujoco_waits_until_then():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("pitch", [1, -1])
def test_a_humanoid_that_faces_straight_up_or_down_is_seen_without_a_nan(pitch: int):
    task = registry.get("environments", "humanoid-walk")
    with task(task.Config(count=2, threads=1)) as environment:
        environment.reset(0)
        environment.simulation.qpos[1, 3:7] = [0.5**0.5, 0.0, pitch * 0.5**0.5, 0.0]
        environment.simulation.forward(np.array([1]))
        gravity, heading = attitude(environment.simulation.qpos[:, 3:7])
        assert np.abs(gravity[1, 0]) == pytest.approx(1.0)
        assert np.abs(heading).tolist() == pytest.approx([1.0, 1.0])
        step = environment.step(np.zeros((2, 12)))
    assert environment.broken == 0
    assert all(np.isfinite(values).all() for values in (*step.obs.values(), step.reward, *step.terms.values()))


# The conformance check itself


def test_the_check_is_content_with_a_right_environment():
    check_environment(lambda: Walk(WalkConfig(count=3)), steps=30)


def test_the_check_asks_nothing_of_ends_that_it_has_not_seen():
    check_environment(lambda: Walk(WalkConfig(count=3)), steps=1)


class Unclipped(Walk):
    def __init__(self, config: WalkConfig) -> None:
        super().__init__(config)
        self.action_space = spaces.Box(-1, 1, (1,))

    def step(self, action: np.ndarray) -> Step:
        return super().step(action[:, 0])


class Reusing(Walk):
    buffer = None

    def seen(self) -> Observation:
        if self.buffer is None:
            self.buffer = super().seen()["policy"]
        self.buffer[:] = super().seen()["policy"]
        return {"policy": self.buffer}


class Forgetful(Walk):
    def load_state(self, state: Mapping[str, Any]) -> Observation:
        super().load_state(state)
        self.rng = np.random.default_rng(0)
        return self.seen()


class Unseeded(Walk):
    def reset(self, seed: int) -> Observation:
        return super().reset(id(self) % 1000003)


class Double(Walk):
    def seen(self) -> Observation:
        return {"policy": super().seen()["policy"].astype(np.float64)}


class Both(Walk):
    def step(self, action: np.ndarray) -> Step:
        step = super().step(action)
        both = step.terminated | step.truncated
        return Step(step.obs, step.reward, both, both, step.ended, step.final_obs)


class NoFinal(Walk):
    def step(self, action: np.ndarray) -> Step:
        step = super().step(action)
        final_obs = {"policy": step.obs["policy"][step.ended]}
        return Step(step.obs, step.reward, step.terminated, step.truncated, step.ended, final_obs)


class Endless(Walk):
    def __init__(self, config: WalkConfig) -> None:
        super().__init__(config)
        self.limit = 4


class NotANumber(Walk):
    def step(self, action: np.ndarray) -> Step:
        step = super().step(action)
        step.reward[0] = np.nan
        return step


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (Unclipped, "actions are cut to their bounds"),
        (Reusing, "arrays are the caller's to keep"),
        (Forgetful, "what is restored goes on as if nothing had happened"),
        (Unseeded, "reset is a function of the seed"),
        (Double, "is float32, not float64"),
        (Both, "what is terminated is not truncated as well"),
        (NoFinal, "final_obs is the last observation of an episode that ended"),
        (Endless, "an episode ends after 4 steps"),
        (NotANumber, "the reward is finite"),
    ],
)
def test_the_check_finds_what_is_wrong(wrong: type[Walk], complaint: str):
    with pytest.raises(AssertionError, match=complaint):
        check_environment(lambda: wrong(WalkConfig(count=3)), steps=30)
