"""Our tasks as Gymnasium's environments, for code that wants one at a time:

    gymnasium.make("autotelic.physics.gym.registration:autotelic/humanoid-walk-v0")

Importing this module registers them, which is what the name before the colon makes Gymnasium do. There is no other way:
since 1.0 Gymnasium reads no entry points of other packages. MuJoCo is loaded when a task is made, not here.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from autotelic import registry
from autotelic.errors import UserError
from autotelic.physics.base import Environment, Step

_FAMILIES = ("reach", "push", "lift", "pick-place", "stack", "drawer", "button")
TASKS = ("humanoid-stand", "humanoid-walk", "humanoid-obstacles", *(f"arm-{family}" for family in _FAMILIES))


class SingleEnvironment(gymnasium.Env[np.ndarray, Any]):
    """An `Environment` of one, the way Gymnasium steps it: an episode's last step returns its final observation, and
    the next episode begins at `reset`."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(
        self, environment: Environment, render_mode: str | None = None, width: int = 640, height: int = 480
    ) -> None:
        if environment.count != 1:
            raise ValueError(f"a single environment is of one, not of {environment.count}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise gymnasium.error.UnsupportedMode(f"render_mode={render_mode!r}: only 'rgb_array' is there")
        self.environment, self.render_mode = environment, render_mode
        self.width, self.height = width, height
        self.metadata = {**self.metadata, "render_fps": round(1 / environment.dt)}
        self.observation_space = spaces.Box(-np.inf, np.inf, (environment.sizes["policy"],), np.float32)
        self.action_space = environment.action_space
        self._following: np.ndarray | None = None  # where the next episode begins, once one has ended

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """With a seed everything begins anew. Without one the next episode begins, or, in the middle of an episode,
        another that follows from the last seed."""
        super().reset(seed=seed)
        observation, self._following = self._following, None
        if seed is not None or observation is None:
            start = int(self.np_random.integers(2**31)) if seed is None else seed
            observation = self.environment.reset(start)["policy"][0].copy()
        return observation, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._following is not None:
            raise gymnasium.error.ResetNeeded("the episode has ended: call reset()")
        step = self.environment.step(np.asarray(action)[None])
        observation = step.obs["policy"][0].copy()
        if len(step.ended):
            observation, self._following = step.final_obs["policy"][0].copy(), observation
        return observation, float(step.reward[0]), bool(step.terminated[0]), bool(step.truncated[0]), _info(step)

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride] - of one mode only
        """After an episode's last step the next one is seen already."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render mode: make the environment with render_mode='rgb_array'")
            return None
        return self.environment.frame(0, self.width, self.height)

    def close(self) -> None:
        self.environment.close()


def _info(step: Step) -> dict[str, Any]:
    """The parts of the reward, and what is known of an episode that ended."""
    info: dict[str, Any] = {"terms": {name: float(values[0]) for name, values in step.terms.items()}}
    return info | {name: float(values[0]) for name, values in step.episodes.items() if len(step.ended)}


def make_task(
    task: str, render_mode: str | None = None, width: int = 640, height: int = 480, **config: Any
) -> SingleEnvironment:
    """One environment of the registry; `config` are fields of its Config."""
    if "count" in config:
        raise UserError(f"count={config['count']}: Gymnasium makes one environment at a time; leave it out")
    made = registry.get("environments", task)
    return SingleEnvironment(made(made.Config(**{"threads": 1, "count": 1, **config})), render_mode, width, height)


for _task in TASKS:
    gymnasium.register(f"autotelic/{_task}-v0", f"{__name__}:make_task", kwargs={"task": _task})
