"""Gymnasium's environments as ours: `env=gymnasium env.id=CartPole-v1`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec, find_highest_version, get_env_id, parse_env_id

from autotelic.errors import UserError
from autotelic.physics.base import Environment, EnvironmentConfig, Observation, Step
from autotelic.physics.gym.workers import Workers
from autotelic.runs import machine, seeds
from autotelic.runs.remote import described

SEEDS = 2**31  # older environments hand their seed to generators that take no more than 32 bits


@dataclass(frozen=True)
class GymnasiumConfig(EnvironmentConfig):
    """Which environment of Gymnasium, and how many of it."""

    count: int = 16  # environments side by side
    id: str = ""  # as gymnasium.make takes it: CartPole-v1, or module:Name-v0 for one that a module registers
    options: dict[str, Any] = field(default_factory=dict)  # further arguments of gymnasium.make
    native: bool = True  # use the version made for many environments at once, where there is one and options are empty
    processes: int = 0  # that environments are spread over where there is none; 0: one a processor

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.id:
            raise UserError("id is not given: a name such as HalfCheetah-v5 or CartPole-v1")
        if self.processes < 0:
            raise UserError(f"processes={self.processes}: must be 0 (one a processor) or more")


class GymnasiumEnvironment:
    """Makes what an id stands for: natively batched where we have it so, worker processes for everything else."""

    Config: ClassVar[type[GymnasiumConfig]] = GymnasiumConfig

    def __new__(cls, config: GymnasiumConfig) -> Environment:
        from autotelic.physics.gym import native

        if config.native and not config.options and native.supported(config.id):
            return native.NativeGym(config, config.id)
        return WorkerGym(config)


class WorkerGym(Environment):
    """Any environment of Gymnasium, many times over in a few processes.

    Environment i is reset with seed + i once (the seed taken modulo 2**31), and without a seed at the end of each
    episode, as Gymnasium means it to be. Such an environment cannot say what state it is in, so it is not restored
    exactly: after `load_state` all of them begin a new episode, with seeds that follow from the old one, the episodes
    they have had and the steps taken.
    """

    Config: ClassVar[type[EnvironmentConfig]] = GymnasiumConfig
    exact: ClassVar[bool] = False
    config: GymnasiumConfig

    def __init__(self, config: GymnasiumConfig) -> None:
        self.config, self.name, self.count = config, config.id, config.count
        self._open(config.options)
        made, self._actions = self._workers.made, self._workers.actions
        self.dt, self.limit = made.dt, made.limit
        self.sizes = {"policy": made.observation_size}
        self.action_space = self._actions.space
        self._seed, self._steps, self._stepped = 0, 0, False  # the last: since they were reset
        self._episodes = np.zeros(self.count, np.int64)  # that each environment has finished
        self._tells_success = False

    def _open(self, options: dict[str, Any]) -> None:
        processes = min(self.config.processes or machine.threads(), self.count)
        self._workers = Workers(self.name, find_spec(self.name), options, self.count, processes)
        self._memory = self._workers.memory
        self._pictures = options.get("render_mode") == "rgb_array"

    def reset(self, seed: int) -> Observation:
        self._seed, self._steps, self._tells_success = seed, 0, False
        self._episodes[:] = 0
        return self._reset([seed % SEEDS + index for index in range(self.count)])

    def _reset(self, each: list[int]) -> Observation:
        self._memory.seeds[:], self._stepped = each, False
        self._workers.reset()
        obs = self._memory.obs.copy()
        self._check("observation", obs)
        return {"policy": obs}

    def step(self, action: np.ndarray) -> Step:
        memory, action = self._memory, np.asarray(action)
        self.check_action(action)
        self._actions.write(action, memory.action)
        self._workers.step()
        self._steps, self._stepped = self._steps + 1, True
        obs, reward = memory.obs.copy(), memory.reward.copy()
        terminated, truncated = memory.terminated.copy(), memory.truncated.copy()
        ended = np.flatnonzero(terminated | truncated)
        final_obs = memory.final_obs[ended]
        self._check("reward", reward)
        self._check("observation", obs)
        episodes = {}
        if len(ended):
            self._check("observation", final_obs, ended)
            self._episodes[ended] += 1
            episodes = self._summary(memory.success[ended])
        return Step({"policy": obs}, reward, terminated, truncated, ended, {"policy": final_obs}, episodes=episodes)

    def _summary(self, success: np.ndarray) -> dict[str, np.ndarray]:
        """Some environments speak of success only where there is one: once any did, silence is failure."""
        told = np.isfinite(success)
        self._tells_success |= bool(told.any())
        return {"success": np.where(told, success, np.float32(0.0))} if self._tells_success else {}

    def _check(self, what: str, values: np.ndarray, environments: np.ndarray | None = None) -> None:
        finite = np.isfinite(values)
        if not finite.all():
            row = int(np.argwhere(~finite)[0, 0])
            index = row if environments is None else int(environments[row])
            wrong = values[row][~finite[row]].flat[0]
            raise UserError(f"{self.name}, environment {index}: its {what} is {wrong} after {self._steps} steps")

    def state(self) -> dict[str, Any]:
        return {
            "seed": self._seed,
            "steps": self._steps,
            "episodes": self._episodes.copy(),
            "tells_success": self._tells_success,
        }

    def load_state(self, state: Mapping[str, Any]) -> Observation:
        if len(state["episodes"]) != self.count:
            raise UserError(f"{self.name}: the state is of {len(state['episodes'])} environments, not {self.count}")
        self._seed, self._steps, self._tells_success = state["seed"], state["steps"], state["tells_success"]
        self._episodes[:] = state["episodes"]
        past = ((index, int(episodes), self._steps) for index, episodes in enumerate(self._episodes))
        return self._reset([seeds.derive(self._seed, "restored", *each) % SEEDS for each in past])

    def frame(self, index: int, width: int = 640, height: int = 480) -> np.ndarray:
        """As the environment draws itself, made larger or smaller without smoothing."""
        if not self._pictures:
            self._open_with_pictures()
        picture = self._workers.picture(index)
        rows, columns = np.arange(height) * len(picture) // height, np.arange(width) * picture.shape[1] // width
        return picture[rows[:, None], columns]

    def _open_with_pictures(self) -> None:
        """Gymnasium wants to know of pictures when it makes an environment. Those that were made without are made again
        and reset once more; after a step it is too late for that."""
        if self._stepped or "render_mode" in self.config.options:
            raise UserError(f"{self.name} was made without pictures: set env.options.render_mode=rgb_array")
        each = self._memory.seeds.tolist()
        self.close()
        self._open({**self.config.options, "render_mode": "rgb_array"})
        self._reset(each)

    def contract(self) -> dict[str, Any]:
        return super().contract() | {
            "options": self.config.options,
            "layout": {"policy": [[name, size, 1.0] for name, size in self._workers.made.layout]},
            "actions": self._actions.contract(),
        }

    def close(self) -> None:
        self._workers.close()


def find_spec(name: str) -> EnvSpec:
    """What Gymnasium has registered under this name, after importing the module it names, if it does."""
    module, _, wanted = name.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise UserError(f"env '{name}': {error}; install it, or put its folder on PYTHONPATH") from error
        except Exception as error:
            raise UserError(f"env '{name}': importing {module} raised {described(error)}") from error
    spec = gymnasium.registry.get(wanted)
    if spec is None:
        raise UserError(f"no Gymnasium environment named '{wanted}': {_hint(wanted)}")
    return spec


def _hint(wanted: str) -> str:
    """The newest version of what was meant, or names that look like it."""
    try:
        namespace, name, _ = parse_env_id(wanted)
    except gymnasium.error.Error:
        return "a name is letters, digits and dashes, with a version: CartPole-v1"
    newest = find_highest_version(namespace, name)
    if newest is not None:
        return f"did you mean {get_env_id(namespace, name, newest)}?"
    known = {get_env_id(spec.namespace, spec.name, None): spec for spec in gymnasium.registry.values()}
    if namespace is not None and namespace not in {spec.namespace for spec in known.values()}:
        return f"install the package that registers '{namespace}/…', and name its module too, as in module:{wanted}"
    close = get_close_matches(get_env_id(namespace, name, None), list(known), n=3, cutoff=0.6)
    if not close:
        return "gymnasium.pprint_registry() lists them; one that a package registers is named module:Name-v0"
    specs = [known[match] for match in close]
    names = [get_env_id(spec.namespace, spec.name, find_highest_version(spec.namespace, spec.name)) for spec in specs]
    return f"did you mean {' or '.join(names)}?"
