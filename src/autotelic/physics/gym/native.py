"""Gymnasium's MuJoCo tasks stepped by one batch of simulations, many times faster: from one state the same actions lead
to the same steps as in Gymnasium's own environments. Where episodes begin is drawn from the same ranges, by other
generators."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Any

import mujoco
import numpy as np
from gymnasium import spaces

from autotelic.errors import UserError
from autotelic.physics.base import EnvironmentConfig, Observation
from autotelic.physics.gym.tasks import TASKS
from autotelic.physics.simulated import Judgement, Rows, SimulatedEnvironment
from autotelic.registry import nearest


def supported(env_id: str) -> bool:
    """Whether `NativeGym` has this task, as `gymnasium.make(env_id)` without further arguments makes it."""
    return env_id in TASKS


class NativeGym(SimulatedEnvironment):
    """One of `TASKS`. Actions are in [-1, 1] and mean the whole range of each motor's control; beyond it they are cut,
    before the simulation and the reward's costs see them."""

    def __init__(self, config: EnvironmentConfig, env_id: str) -> None:
        if not supported(env_id):
            raise UserError(f"no native environment '{env_id}': {nearest(env_id, list(TASKS))}")
        task = TASKS[env_id]
        model = _model(env_id, task.xml_file)
        super().__init__(config, model, substeps=task.frame_skip, limit=task.limit, forces=task.forces)
        self.name = env_id
        self.task = task(self.simulation, self.memory)
        self.sizes = {"policy": sum(size for _, size in self.task.layout())}
        self.action_space = spaces.Box(-1.0, 1.0, (model.nu,), np.float32)
        low, high = model.actuator_ctrlrange.T
        self._middle, self._half = (low + high) / 2, (high - low) / 2
        if mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, "track") >= 0:
            self.camera = "track"

    def begin(self, ids: np.ndarray, keys: np.ndarray) -> None:
        self.simulation.qpos[ids], self.simulation.qvel[ids] = self.task.start(keys)

    def settle(self, ids: np.ndarray) -> None:
        self.task.remember(ids)

    def apply(self, action: np.ndarray) -> None:
        ctrl = self.simulation.ctrl
        np.clip(action, -1.0, 1.0, out=ctrl)
        ctrl *= self._half
        ctrl += self._middle

    def judge(self) -> Judgement:
        return self.task.judge()

    def observe(self, rows: Rows, dtype: type[np.floating[Any]] = np.float32) -> Observation:
        count = self.count if isinstance(rows, slice) else len(rows)
        out = np.empty((count, self.sizes["policy"]), dtype)
        self.task.observe(rows, out)
        return {"policy": out}

    def contract(self) -> dict[str, Any]:
        model = self.simulation.model
        low, high = model.actuator_ctrlrange.T
        return super().contract() | {
            "layout": {"policy": [[name, size, 1.0] for name, size in self.task.layout()]},
            "actions": {
                "meaning": "-1 is the lowest control of the motor, 1 the highest; beyond they are cut",
                "motors": [model.joint(joint).name for joint, _ in model.actuator_trnid],
                "low": low.tolist(),
                "high": high.tolist(),
            },
        }


def _model(env_id: str, name: str) -> mujoco.MjModel:
    source = files("gymnasium") / "envs" / "mujoco" / "assets" / name
    if not source.is_file():
        raise UserError(f"{env_id}: {source} is missing: pip install 'gymnasium>=1.2,<2', which has it")
    with as_file(source) as path:
        return mujoco.MjModel.from_xml_path(str(path))
