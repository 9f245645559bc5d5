import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from autotelic.errors import UserError
from autotelic.physics.gym.adapter import GymnasiumConfig, WorkerGym
from autotelic.runs import workers
from autotelic.testing import check_environment


def gym(name: str, **settings) -> WorkerGym:
    return WorkerGym(GymnasiumConfig(id=name, **{"count": 3, "processes": 1, **settings}))


# The same as Gymnasium


class ByHand:
    """Environments stepped one by one, the way Gymnasium's documentation does it."""

    def __init__(self, name: str, count: int, seed: int, options: dict[str, Any]) -> None:
        self.envs = [gymnasium.make(name, **options) for _ in range(count)]
        self.space = self.envs[0].observation_space
        self.first = self.rows(env.reset(seed=seed + index)[0] for index, env in enumerate(self.envs))

    def rows(self, observations) -> np.ndarray:
        flat = [spaces.flatten(self.space, each) for each in observations]
        return np.array(flat, np.float32).reshape(len(flat), spaces.flatdim(self.space))

    def step(self, actions) -> dict[str, np.ndarray]:
        seen, final, reward, terminated, truncated = [], [], [], [], []
        for env, action in zip(self.envs, actions, strict=True):
            observation, *figures, _ = env.step(action)
            if figures[1] or figures[2]:
                final.append(observation)
                observation = env.reset()[0]
            seen.append(observation)
            reward.append(figures[0])
            terminated.append(figures[1])
            truncated.append(figures[2] and not figures[1])
        return {
            "obs": self.rows(seen),
            "final_obs": self.rows(final),
            "reward": np.array(reward, np.float32),
            "terminated": np.array(terminated, bool),
            "truncated": np.array(truncated, bool),
        }


def assert_same_as_by_hand(name: str, to_env: Callable[[np.ndarray], Any], steps: int = 300, **options) -> int:
    """Returns how many episodes ended."""
    rng, ended = np.random.default_rng(1), 0
    with gym(name, processes=2, options=options) as environment:
        by_hand = ByHand(name, 3, 11, options)
        assert np.array_equal(environment.reset(11)["policy"], by_hand.first)
        space = environment.action_space
        for _ in range(steps):
            if isinstance(space, spaces.Box):
                action = rng.uniform(-1, 1, (3, *space.shape)).astype(np.float32)
            elif isinstance(space, spaces.MultiDiscrete):
                action = rng.integers(space.nvec, size=(3, *space.shape))
            else:
                assert isinstance(space, spaces.Discrete)
                action = rng.integers(space.n, size=3)
            step, wanted = environment.step(action), by_hand.step([to_env(each) for each in action])
            assert np.array_equal(step.obs["policy"], wanted["obs"])
            assert np.array_equal(step.final_obs["policy"], wanted["final_obs"])
            for field in ("reward", "terminated", "truncated"):
                assert np.array_equal(getattr(step, field), wanted[field]), field
            assert np.array_equal(step.ended, np.flatnonzero(wanted["terminated"] | wanted["truncated"]))
            ended += len(step.ended)
    return ended


def test_cartpole_is_gymnasium_s_own_step_for_step():
    assert assert_same_as_by_hand("CartPole-v1", lambda action: action) > 20


def test_pendulum_is_gymnasium_s_own_with_actions_of_one():
    assert assert_same_as_by_hand("Pendulum-v1", lambda action: 2 * action, steps=450) == 6  # of 200 steps each


@pytest.mark.parametrize("name", ["Taxi-v4", "FrozenLake-v1"])
def test_numbered_observations_are_gymnasium_s_own(name: str):
    assert assert_same_as_by_hand(name, lambda action: action, max_episode_steps=50) > 15


def test_several_actions_and_named_observations_are_gymnasium_s_own(user_envs: str):
    name = f"{user_envs}:Several-v0"
    assert assert_same_as_by_hand(name, lambda action: (action + np.array([5, 1])).reshape(1, 2)) > 150


def test_a_named_observation_environment_conforms(user_envs: str):
    check_environment(lambda: gym(f"{user_envs}:Several-v0"), steps=20)


def test_results_do_not_depend_on_the_number_of_processes():
    def run(processes: int) -> np.ndarray:
        with gym("CartPole-v1", count=5, processes=processes) as environment:
            environment.reset(3)
            return np.stack([environment.step(np.arange(5) % 2).obs["policy"] for _ in range(40)])

    alone = run(1)
    assert np.array_equal(run(2), alone)  # blocks of two and three
    assert np.array_equal(run(9), alone)  # more than there are environments: one each


def test_an_environment_may_keep_its_action_and_use_one_buffer_for_all_observations(user_envs: str):
    with gym(f"{user_envs}:Keeper-v0", count=2, processes=1) as environment:
        environment.reset(0)
        shown = []
        for number in (0.1, 0.2, 0.3, 0.4):
            step = environment.step(np.full((2, 2), number, np.float32))
            shown.append((step.obs["policy"][1, 0], step.final_obs["policy"].tolist()))
    # Each step shows the action before it; the third is the last of its episode, and the next begins at -1.
    last = [np.full(2, 0.2, np.float32).tolist()] * 2
    assert shown == [(0, []), (np.float32(0.1), []), (-1, last), (0, [])]


@pytest.mark.parametrize(("truncates", "length"), [(False, 5), (True, 3)])
def test_one_that_begins_anew_by_itself_shows_its_end_and_loses_no_step(user_envs: str, truncates: bool, length: int):
    with gym(f"{user_envs}:Again-v0", count=2, options={"truncates": truncates}) as environment:
        assert environment.reset(0)["policy"][:, 0].tolist() == [0, 0]
        for number in range(1, 3 * length + 1):
            step = environment.step(np.ones(2, np.int64))
            ends = number % length == 0
            assert (step.terminated.all(), step.truncated.all()) == (ends and not truncates, ends and truncates)
            assert step.obs["policy"][:, 0].tolist() == [number % length] * 2
            assert step.final_obs["policy"][:, 0].tolist() == ([length] * 2 if ends else [])
            assert step.reward.tolist() == [1.0, 1.0], "every step is one of the environment's"


def test_one_registered_in_this_process_alone_is_found(user_envs: str):
    gymnasium.register("Elsewhere-v0", "environments_of_a_user:Counter", max_episode_steps=2)
    with gym("Elsewhere-v0") as environment:
        assert environment.limit == 2


@pytest.mark.parametrize("key", ["is_success", "success"])
def test_success_is_told_of_episodes_that_ended(user_envs: str, key: str):
    told = [None, True, False, None, np.bool_(True)]
    with gym(f"{user_envs}:Told-v0", count=1, options={"key": key, "told": told}) as environment:
        environment.reset(0)
        steps = [environment.step(np.zeros(1, np.int64)) for _ in range(25)]
    found = [dict(step.episodes) for step in steps if len(step.ended)]
    # Nothing is known until something was told; from then on silence is failure.
    assert found == [{}, {"success": [1]}, {"success": [0]}, {"success": [0]}, {"success": [1]}]
    assert all(not step.episodes for step in steps if not len(step.ended))


def test_what_was_told_before_a_reset_says_nothing_after_it(user_envs: str):
    with gym(f"{user_envs}:Told-v0", count=1, options={"key": "success", "told": [True, None, None]}) as environment:
        for expected in ([1], None):
            environment.reset(0)
            ended: list[dict] = []
            while not ended:
                step = environment.step(np.zeros(1, np.int64))
                ended += [dict(step.episodes)] if len(step.ended) else []
            assert ended[0].get("success") == expected


# What goes wrong


def complaint(module: str, kind: str, who: int = 1, processes: int = 1) -> str:
    """What is said when environment `who` is in trouble; afterwards all processes are gone."""
    before = workers.live()

    def play() -> None:
        options = {"kind": kind, "seed": who}
        with gym(f"{module}:Trouble-v0", processes=processes, options=options) as environment:
            environment.reset(0)
            for _ in range(3):
                environment.step(np.zeros(3, np.int64))

    with pytest.raises(UserError) as caught:
        play()
    assert workers.live() == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_environment_that_raises_is_one_line_with_the_user_s_own_line(user_envs: str, trouble_line: str):
    text = complaint(user_envs, "step", who=2, processes=2)
    assert re.match(rf"{user_envs}:Trouble-v0, environment 2: step raised ValueError: cannot reshape array", text)
    assert text.endswith(f"({trouble_line})")


def test_what_was_raised_is_kept_whole_for_debugging(user_envs: str):
    with (
        gym(f"{user_envs}:Trouble-v0", options={"kind": "reset", "seed": 4}) as environment,
        pytest.raises(UserError) as caught,
    ):
        environment.reset(3)
    (note,) = caught.value.__notes__
    assert "Traceback (most recent call last)" in note
    assert "cannot begin\nat all" in note


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("make", r"environment 0: make raised KeyError: 'no such thing' \(.*environments_of_a_user\.py:\d+\)"),
        ("reset", r"environment 1: reset raised ValueError: cannot begin at all \(.*environments_of_a_user\.py:\d+\)"),
        ("sys.exit", r"environment 1: step raised SystemExit: 3 \(.*environments_of_a_user\.py:\d+\)"),
        ("old", r"environment 1: step raised ValueError: not enough values to unpack \(expected 5, got 4\)"),
        ("shape", r"environment 1: an observation has shape \(1,\), but its space has \(2,\)"),
        ("exit in make", r"environment 0: the process ended with exit code 5"),
        ("exit", r"environment 1: the process ended with exit code 7"),
        ("kill", r"environment 1: the process was ended by SIGKILL"),
        ("reward", r"environment 1: its reward is nan after 3 steps"),
        ("observation", r"environment 1: its observation is inf after 3 steps"),
        ("last observation", r"environment 1: its observation is nan after 3 steps"),
    ],
)
def test_trouble_is_one_line_that_names_the_environment(user_envs: str, kind: str, wanted: str):
    assert re.fullmatch(f"{user_envs}:Trouble-v0, {wanted}", complaint(user_envs, kind))


def test_a_death_stops_the_processes_that_live(user_envs: str):
    assert complaint(user_envs, "exit", who=0, processes=3).endswith(
        "environment 0: the process ended with exit code 7"
    )


def test_environments_whose_spaces_differ_are_refused(user_envs: str):
    with pytest.raises(UserError, match=r"Different-v0: environment 1 has other spaces than environment 0"):
        gym(f"{user_envs}:Different-v0")


def test_a_process_that_dies_between_steps_is_noticed(alive: Callable[[int], bool]):
    before = workers.live()
    with gym("CartPole-v1", count=4, processes=2) as environment:
        environment.reset(0)
        mine = [worker for worker in workers.live() if worker not in before]
        os.kill(mine[1].pid, signal.SIGTERM)
        mine[1].wait(20)
        with pytest.raises(UserError, match="CartPole-v1, environments 2 to 3: the process was ended by SIGTERM"):
            environment.step(np.zeros(4, np.int64))
        assert not any(alive(worker.pid) for worker in mine)


@pytest.mark.parametrize("entry", [lambda: None, type("Local", (gymnasium.Env,), {"__module__": "__main__"})])
def test_what_other_processes_cannot_import_is_one_line(user_envs: str, entry: Callable):
    gymnasium.register("Local-v0", entry)
    with pytest.raises(UserError, match=r"Local-v0 cannot be made in another process \(.*\): register it as 'module:"):
        gym("Local-v0")


def test_a_class_of_a_module_that_is_only_here_is_one_line(user_envs: str, monkeypatch: pytest.MonkeyPatch):
    only_here: Any = ModuleType("only_here")
    vars(only_here)["Local"] = type("Local", (gymnasium.Env,), {"__module__": "only_here"})
    monkeypatch.setitem(sys.modules, "only_here", only_here)
    gymnasium.register("Local-v0", only_here.Local)
    before = workers.live()
    with pytest.raises(UserError) as caught:
        gym("Local-v0", processes=2)
    wanted = r"Local-v0 cannot be made in another process: ModuleNotFoundError: No module named 'only_here'.*"
    assert re.fullmatch(wanted, str(caught.value))
    assert workers.live() == before


def test_a_module_that_does_not_import_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "broken_module_of_a_user.py").write_text("value = 1\nvalue.missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"importing broken_module_of_a_user raised AttributeError: .*user\.py:2\)$"):
        gym("broken_module_of_a_user:Some-v0")


# Ends


def test_closing_ends_the_processes_and_may_be_repeated():
    before = workers.live()
    environment = gym("CartPole-v1", processes=2)
    mine = [worker for worker in workers.live() if worker not in before]
    assert len(mine) == 2
    environment.close()
    environment.close()
    assert [worker.returncode for worker in mine] == [0, 0]
    with pytest.raises(RuntimeError, match="CartPole-v1 is closed"):
        environment.reset(0)


KILLED = """
import time
import numpy as np
from autotelic.physics.gym.adapter import GymnasiumConfig, WorkerGym
from autotelic.runs import workers
environment = WorkerGym(GymnasiumConfig(id="CartPole-v1", count=4, processes=2))
environment.reset(0)
print(*(worker.pid for worker in workers.live()), flush=True)
while True:
    environment.step(np.zeros(4, np.int64))
    time.sleep(0.01)
"""


def test_a_killed_parent_leaves_no_process_behind(alive: Callable[[int], bool], eventually: Callable[..., bool]):
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        children = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(children) == 2
        assert all(map(alive, children))
        parent.kill()
        parent.wait()
    assert eventually(lambda: not any(map(alive, children)))


def test_what_environments_print_stays_out_of_the_standard_output(tmp_path: Path):
    (tmp_path / "talker.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Talker(CartPoleEnv):\n    def __init__(self):\n        print('hello', flush=True)\n"
        "        super().__init__()\ngymnasium.register('Talker-v0', 'talker:Talker')\n"
    )
    program = (
        "from autotelic.physics.gym.adapter import GymnasiumConfig, WorkerGym\n"
        "WorkerGym(GymnasiumConfig(id='talker:Talker-v0', count=1)).close()\nprint('result')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("result\n", "hello\n")
