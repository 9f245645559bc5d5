"""Demonstrations as an HDF5 file in robomimic's layout.

    data                      attrs: total, env_args (JSON: env_name, env_version, type, env_kwargs), its source
      demo_0 …                attrs: num_samples, seed, instruction, model_file
        obs/NAME, next_obs/NAME, actions, rewards, dones, states

`gymnasium.make(env_name, **env_kwargs)` is the environment, `reset(seed=…)` with a demonstration's seed its start.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from autotelic import __version__, registry
from autotelic.data.demonstrations import Demonstration
from autotelic.physics.arm.environment import ArmTask
from autotelic.runs.config import plain
from autotelic.runs.files import named_errors, written_aside

GYMNASIUM = 2  # robomimic's number of environments that Gymnasium makes


class Writer:
    """Adds demonstrations to an open file."""

    def __init__(self, file: Any, path: Path, environment: ArmTask, about: Mapping[str, Any]) -> None:
        self._path = path
        self._data, self._environment = file.create_group("data"), environment
        self._model, self.episodes, self.steps = environment.model_xml(), 0, 0
        self._data.attrs.update(
            {
                "env_args": json.dumps(env_args(environment)),
                "contract": json.dumps(environment.contract()),
                "autotelic": __version__,
                "mujoco": version("mujoco"),
                **about,
            }
        )
        self._count()

    def add(self, shown: Demonstration) -> None:
        with named_errors(self._path):
            self._add(shown)

    def _add(self, shown: Demonstration) -> None:
        demo = self._data.create_group(f"demo_{self.episodes}")
        demo.attrs.update(
            {
                "num_samples": shown.steps,
                "seed": shown.seed,
                "instruction": self._environment.instruction,
                "model_file": self._model,
                **shown.about,
            }
        )
        dones = [0] * (shown.steps - 1) + [1]
        demo.create_dataset("dones", data=dones, dtype="uint8")
        arrays = {"actions": shown.actions, "rewards": shown.rewards, "states": shown.states}
        for part, seen in (("obs", shown.obs), ("next_obs", shown.next_obs)):
            arrays |= {f"{part}/{name}": values for name, values in seen.items()}
        for name, values in arrays.items():
            demo.create_dataset(name, data=values, compression="gzip")
        self.episodes, self.steps = self.episodes + 1, self.steps + shown.steps
        self._count()

    def _count(self) -> None:
        self._data.attrs.update({"total": self.steps, "num_demos": self.episodes})


@contextmanager
def writing(path: Path, environment: ArmTask, about: Mapping[str, Any]) -> Iterator[Writer]:
    """The file takes its place when all is written."""
    h5py = registry.optional("h5py", "writing demonstrations")
    with written_aside(path) as aside:
        with named_errors(path):
            file = h5py.File(aside, "w")
        try:
            yield Writer(file, path, environment, about)
        finally:
            with named_errors(path):
                file.close()


def env_args(environment: ArmTask) -> dict[str, Any]:
    """What makes the environment again, one at a time."""
    usual, config = type(environment).Config(), environment.config
    names = [field.name for field in dataclasses.fields(usual) if field.name not in ("count", "threads")]
    changed = {name: plain(getattr(config, name)) for name in names if getattr(config, name) != getattr(usual, name)}
    return {
        "env_name": f"autotelic.physics.gym.registration:autotelic/{environment.name}-v0",
        "env_version": __version__,
        "type": GYMNASIUM,
        "env_kwargs": changed,
    }
