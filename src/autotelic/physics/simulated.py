"""What all environments on `Simulation` share: episodes, time limits, partial resets, final observations, broken
simulations, pictures, an exact state. A task says how an episode begins, what an action does, what is seen and what it
earns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import mujoco
import numpy as np

from autotelic.errors import UserError
from autotelic.physics import chance
from autotelic.physics.base import Environment, EnvironmentConfig, Observation, Step
from autotelic.physics.simulation import Simulation, different

Rows = slice | np.ndarray  # all environments, or some by index
ALL = slice(None)


def squares(rows: np.ndarray) -> np.ndarray:
    """The sum of squares of each row."""
    return np.einsum("ij,ij->i", rows, rows)


class Judgement(NamedTuple):
    reward: np.ndarray  # float [count]
    terminated: np.ndarray  # bool [count]
    terms: dict[str, np.ndarray]  # the parts of the reward


class SimulatedEnvironment(Environment):
    """Subclasses set `sizes`, `action_space`, `name` and what they keep from step to step in `memory`."""

    limit: int

    def __init__(
        self,
        config: EnvironmentConfig,
        model: mujoco.MjModel,
        *,
        substeps: int,
        limit: int,
        forces: bool = False,
    ) -> None:
        self.config, self.count, self.limit = config, config.count, limit
        self.simulation = Simulation(model, config.count, substeps=substeps, threads=config.threads, forces=forces)
        self.dt = self.simulation.dt
        self.seed = 0
        self.elapsed = np.zeros(self.count, np.int64)  # steps of the episode so far
        self.episode = np.full(self.count, -1)  # how many each environment has had before this one
        self.memory: dict[str, np.ndarray] = {}  # [count, …]: what a task keeps from step to step
        self.failed = np.zeros(self.count, bool)  # whose simulation broke in the last step
        self._broken = 0
        self._obs: Observation = {}
        self._renderer: mujoco.Renderer | None = None

    # What a task says

    @abstractmethod
    def begin(self, ids: np.ndarray, keys: np.ndarray) -> None:
        """Writes how the next episode of these environments begins: their simulations are at the model's own start.
        Each has a key to draw from (`chance`), a function of seed, environment and episode."""

    @abstractmethod
    def apply(self, action: np.ndarray) -> None:
        """Writes what an action means to the simulation. `action` is float64 and may be out of bounds."""

    @abstractmethod
    def observe(self, rows: Rows) -> Observation:
        """What is seen of these environments now, in new float32 arrays."""

    @abstractmethod
    def judge(self) -> Judgement:
        """What the last step earned. Rows of simulations that broke (`failed`) are not looked at."""

    def summarise(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """Of episodes that ended: what is known of them beside return and length. One whose simulation broke (`failed`)
        is no success, and what else it came to is not known: NaN."""
        return {}

    def settle(self, ids: np.ndarray) -> None:
        """After a start was computed: what a task remembers of it."""

    # What all have

    def reset(self, seed: int) -> Observation:
        self.seed = seed
        self.elapsed[:] = 0
        self.episode[:] = -1
        self._begin(np.arange(self.count))
        self._obs = self.observe(ALL)
        return self._obs

    def stagger(self, rng: np.random.Generator) -> bool:
        self.elapsed[:] = rng.integers(0, self.limit, self.count)
        return True

    def step(self, action: np.ndarray) -> Step:
        action = np.asarray(action, np.float64)
        self.check_action(action)
        self.apply(action)
        self.failed = broken = self.simulation.step()
        if broken.any():
            # Judged as at the model's own start: a NaN would go into what a task sums up. A reset alone leaves what
            # MuJoCo computes (places, sensors) at zero, where no robot ever is.
            self.simulation.reset(np.flatnonzero(broken))
            self.simulation.forward(np.flatnonzero(broken))
        reward, terminated, terms = self.judge()
        obs = self.observe(ALL)
        self.elapsed += 1
        if broken.any():
            self._broken += int(broken.sum())
            reward, terminated = np.where(broken, 0.0, reward), terminated & ~broken
            terms = {name: np.where(broken, 0.0, values) for name, values in terms.items()}
            for name, values in obs.items():
                values[broken] = self._obs[name][broken]  # the last that meant something
        truncated = ((self.elapsed >= self.limit) | broken) & ~terminated
        ended = np.flatnonzero(terminated | truncated)
        final_obs = {name: values[ended] for name, values in obs.items()}
        episodes: dict[str, np.ndarray] = {}
        if len(ended):
            episodes = self.summarise(ended)
            self._begin(ended)
            for name, values in self.observe(ended).items():
                obs[name][ended] = values
        self._obs = obs
        return Step(obs, reward.astype(np.float32), terminated, truncated, ended, final_obs, terms, episodes)

    def _begin(self, ids: np.ndarray) -> None:
        self.episode[ids] += 1
        self.elapsed[ids] = 0
        self.simulation.reset(ids)
        self.begin(ids, chance.keys(self.seed, "episode", ids, self.episode[ids]))
        self.simulation.forward(ids)
        self.settle(ids)

    @property
    def broken(self) -> int:
        return self._broken

    def state(self) -> dict[str, Any]:
        return {
            "simulation": self.simulation.state(),
            "seed": self.seed,
            "elapsed": self.elapsed.copy(),
            "episode": self.episode.copy(),
            "memory": {name: values.copy() for name, values in self.memory.items()},
            "obs": {name: values.copy() for name, values in self._obs.items()},
            "broken": self._broken,
        }

    def load_state(self, state: Mapping[str, Any]) -> Observation:
        self._check_state(state)
        self.simulation.load_state(state["simulation"])
        self.seed, self._broken = state["seed"], state["broken"]
        self.elapsed[:], self.episode[:] = state["elapsed"], state["episode"]
        for name, values in state["memory"].items():
            self.memory[name][:] = values
        self._obs = {name: values.copy() for name, values in state["obs"].items()}
        return self._obs

    def _check_state(self, state: Mapping[str, Any]) -> None:
        """Before anything is written: whether all of it is of such environments."""
        if len(state["elapsed"]) != self.count:
            raise UserError(f"{self.name}: the state is of {len(state['elapsed'])} environments, not {self.count}")
        seen = {name: np.empty((self.count, size)) for name, size in self.sizes.items()}
        for part, there in (("memory", self.memory), ("obs", seen)):
            if names := different(state[part], there):
                raise UserError(f"{self.name}: the state is of other settings ({part}: {', '.join(names)})")

    # Looking

    camera: str | int = -1  # the model's camera that pictures are taken with; -1 is a free one

    def frame(self, index: int, width: int = 640, height: int = 480) -> np.ndarray:
        model, data = self.simulation.single(index)
        renderer = self._renderer
        if renderer is None or (renderer.width, renderer.height) != (width, height):
            self.close()
            model.vis.global_.offwidth, model.vis.global_.offheight = width, height
            self._renderer = renderer = mujoco.Renderer(model, height, width)
        renderer.update_scene(data, self.camera)
        return renderer.render()

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
