"""Environments that a user might have written, in a module of their own: worker processes import it too."""

import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

MODULE = "environments_of_a_user"
SOURCE = '''
import os

import gymnasium
import numpy as np
from gymnasium import spaces


class Counter(gymnasium.Env):
    """Shows how many steps it has had; ends after five."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.seen(), {}

    def step(self, action):
        self.steps += 1
        return self.seen(), float(action), self.steps >= 5, False, {}

    def seen(self):
        return np.array([self.steps, self.np_random.random()], np.float32)


class Trouble(Counter):
    """Does something wrong in its third step, if the seed that it began with is this one."""

    def __init__(self, kind, seed=0):
        self.kind, self.who, self.mine = kind, seed, None
        if kind == "make":
            raise KeyError("no such thing")
        if kind == "exit in make":
            os._exit(5)

    def reset(self, *, seed=None, options=None):
        self.mine = self.mine if seed is None else seed
        if self.kind == "reset" and self.mine == self.who:
            raise ValueError("cannot begin\\nat all")
        return super().reset(seed=seed)

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if self.mine != self.who or self.steps != 3:
            return observation, reward, terminated, truncated, info
        if self.kind == "step":
            np.zeros(2).reshape(3)  # LINE
        if self.kind == "exit":
            os._exit(7)
        if self.kind == "kill":
            os.kill(os.getpid(), 9)
        if self.kind == "sys.exit":
            raise SystemExit(3)
        if self.kind == "reward":
            reward = float("nan")
        if self.kind == "observation":
            observation[1] = np.inf
        if self.kind == "last observation":
            observation, terminated = observation * np.nan, True
        if self.kind == "shape":
            observation = observation[:1]
        if self.kind == "old":
            return observation, reward, terminated, info
        return observation, reward, terminated, truncated, info


class Keeper(Counter):
    """Keeps the action it was given, and shows the last one; writes into what it returned before."""

    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self):
        self.buffer, self.last = np.zeros(2, np.float32), np.zeros(2, np.float32)

    def step(self, action):
        self.steps += 1
        self.buffer[:] = self.last
        self.last = action
        return self.buffer, 0.0, self.steps >= 3, False, {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.buffer[:], self.last = -1.0, np.zeros(2, np.float32)
        return self.buffer, {}


class Several(Counter):
    """Acts with a table of numbers, sees named parts."""

    action_space = spaces.MultiDiscrete(np.array([[3, 2]]), start=np.array([[5, 1]]))
    observation_space = spaces.Dict(
        steps=spaces.Discrete(6), noise=spaces.Box(-9, 9, (2, 2), np.float64), flags=spaces.MultiBinary(2)
    )

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        reward = float(10 * action[0, 0] + action[0, 1]) + self.np_random.random()
        return self.seen(), reward, self.steps >= 5, self.steps >= 5 or self.np_random.random() < 0.1, {}

    def seen(self):
        noise = self.np_random.normal(size=(2, 2))
        return {"steps": self.steps, "noise": noise, "flags": self.np_random.integers(2, size=2, dtype=np.int8)}


def again(truncates=False):
    """One that begins anew by itself, in the step after an end."""
    counter = Counter()
    limited = gymnasium.wrappers.TimeLimit(counter, 3) if truncates else counter
    return gymnasium.wrappers.Autoreset(limited)


class Told(Counter):
    """Says of success what it is made to say."""

    def __init__(self, key, told):
        self.key, self.told, self.episodes = key, told, 0

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        info = {self.key: self.told[self.episodes]} if terminated and self.told[self.episodes] is not None else {}
        self.episodes += terminated
        return observation, reward, terminated, truncated, info


class Drawn(Counter):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def seen(self):
        return np.array([self.steps + self.start, 0], np.float32)

    def reset(self, *, seed=None, options=None):
        self.start = 100 if seed is None else 10 * seed
        return super().reset(seed=seed)

    def render(self):
        picture = np.zeros((3, 4, 3), np.uint8)
        picture[..., 0] = self.steps + self.start
        return picture


class Different(Counter):
    """No two of them act alike."""

    made = 0

    def __init__(self):
        Different.made += 1
        self.action_space = spaces.Discrete(Different.made + 1)


for each in (Counter, Trouble, Keeper, Several, Told, Drawn, Different):
    gymnasium.register(f"{each.__name__}-v0", f"{__name__}:{each.__name__}")
gymnasium.register("Again-v0", f"{__name__}:again")
'''
FILE = f"{MODULE}.py"


@pytest.fixture
def user_envs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The module's name: it can be imported here and in workers, and is gone afterwards."""
    (tmp_path / FILE).write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    known = dict(gymnasium.registry)
    yield MODULE
    gymnasium.registry.clear()
    gymnasium.registry.update(known)
    sys.modules.pop(MODULE, None)


@pytest.fixture
def trouble_line(user_envs: str, tmp_path: Path) -> str:
    """Where Trouble raises, as an error names it."""
    lines = SOURCE.splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if line.endswith("# LINE"))
    return f"{tmp_path / FILE}:{number}"
