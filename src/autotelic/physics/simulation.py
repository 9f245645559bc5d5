"""Thousands of MuJoCo simulations of one model, stepped by its thread pool (`mujoco.batch`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError

from autotelic.errors import UserError
from autotelic.physics.forces import ContactForces
from autotelic.runs import machine

FASTEST = 1e4  # a velocity (m/s, rad/s) above which a simulation has flown apart

# MuJoCo would print its warnings over a progress bar and write MUJOCO_LOG.TXT wherever the process happens to run. What
# matters of them is counted here: a simulation that breaks.
if mujoco.get_mju_user_warning() is None:
    mujoco.set_mju_user_warning(logging.getLogger(__name__).info)


class Simulation:
    """The batch, with what an environment needs of it: broken simulations found, per-simulation parameters, a state."""

    def __init__(
        self, model: mujoco.MjModel, count: int, *, substeps: int, threads: int = 0, forces: bool = False
    ) -> None:
        """`forces`: the field cfrc_ext is computed too, at the cost of some 200 kB and 5 microseconds a simulation."""
        # MuJoCo's own answer to a NaN is a silent reset in the middle of an episode.
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self.model, self.count, self.substeps = model, count, substeps
        self.batch = Batch(model, count, min(threads or machine.threads(), count), persistent=forces)
        self.dt = model.opt.timestep * substeps
        self.qpos: np.ndarray = self.batch.bind("qpos")
        self.qvel: np.ndarray = self.batch.bind("qvel")
        self.ctrl: np.ndarray = self.batch.bind("ctrl")
        self._start: np.ndarray = self.batch.state[0].copy()
        self._parameters: dict[str, np.ndarray] = {}
        self._forces = ContactForces(self.batch) if forces else None

    def field(self, name: str) -> np.ndarray:
        """A live array [count, …] of what MuJoCo computes (xpos, sensordata): refreshed by every call, and one substep
        behind the state after `step`."""
        return self.batch.bind(name)

    def parameter(self, name: str) -> np.ndarray:
        """A live array [count, …] of a model's field that may differ between simulations; `settle` after writing. Ask
        for all when an environment is made: a state is loaded only where the same ones are."""
        if self._forces is not None:
            # Forces are computed outside the batch, by a model that such fields are not written to.
            raise RuntimeError(f"parameter {name}: contact forces would be computed without it")
        if name not in self._parameters:
            self._parameters[name] = self.batch.expand(name)
        return self._parameters[name]

    def settle(self) -> None:
        """Lets what MuJoCo derives from parameters (inertias, weights of constraints) follow them."""
        self.batch.set_const()

    def step(self) -> np.ndarray:
        """All simulations to the next control step; bool [count]: those that broke, whose state means nothing."""
        broken = np.zeros(self.count, bool)
        try:
            self.batch.step(nstep=self.substeps)
        except SimulationError as error:
            broken[error.ids] = True
        if self._forces is not None:
            self._forces.compute(failed=broken)
        # NaN is not below anything. That none broke, which is nearly always, is seen in one look at all.
        if not (np.abs(self.qvel).max(initial=0.0) < FASTEST and np.isfinite(self.qpos).all()):
            broken |= ~(np.abs(self.qvel).max(axis=1, initial=0.0) < FASTEST)
            broken |= ~np.isfinite(self.qpos).all(axis=1)
        return broken

    def reset(self, ids: np.ndarray) -> None:
        """The model's own start, nothing computed yet: write qpos and qvel, then `forward`."""
        if self._forces is None:
            # Rows are all there is of a simulation. The batch's own reset goes through an MjData, and takes as long as
            # all else that begins an episode.
            self.batch.state[ids] = self._start
        else:  # it has data of its own, with forces that a reset takes back
            self.batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE.value)

    def forward(self, ids: np.ndarray | None = None) -> None:
        """Computes all fields at the state as it is."""
        self.batch.forward(ids)

    def state(self) -> dict[str, Any]:
        return {"rows": self.batch.state.copy(), "parameters": {k: v.copy() for k, v in self._parameters.items()}}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Fields are not part of a state: until the next call they are what they were."""
        rows, parameters = np.shape(state["rows"]), state["parameters"]
        if rows[0] != self.count:
            raise UserError(f"the state is of {rows[0]} simulations, not {self.count}")
        if rows != self.batch.state.shape:
            raise UserError(f"the state is of another model ({rows[1]} numbers, not {self.batch.state.shape[1]})")
        if names := different(parameters, self._parameters):
            raise UserError(f"the state is of other settings (parameters: {', '.join(names)})")
        for name, values in parameters.items():
            self._parameters[name][:] = values
        if self._parameters:
            self.settle()
        self.batch.state[:] = state["rows"]

    def single(self, index: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """One simulation's model and data, all computed, to be rendered."""
        model, data = self.batch.get_model(index), self.batch.get_data(index)
        mujoco.mj_forward(model, data)
        return model, data


def different(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> list[str]:
    """Names that only one of the two has, or whose arrays differ in shape: NumPy would spread one row over all."""
    shapes, others = ({name: np.shape(values) for name, values in arrays.items()} for arrays in (found, wanted))
    return sorted(name for name in shapes.keys() | others.keys() if shapes.get(name) != others.get(name))
