"""Contact forces on bodies (`cfrc_ext`), which MuJoCo computes only when it is asked, and `mujoco.batch` does not ask.

A sensor that needs them (an accelerometer) makes MuJoCo's Euler and implicit integrators ask, but not Runge-Kutta: its
last stages, whose contacts are the ones left behind, skip the sensors. So they are asked for here, by the function
that does it for one simulation.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import mujoco
import numpy as np
from mujoco.batch import Batch

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class ContactForces:
    """Fills `cfrc_ext` of a batch whose simulations each have their own data (`persistent=True`)."""

    def __init__(self, batch: Batch) -> None:
        if not batch.persistent:
            raise ValueError("contact forces need a persistent batch: another's contacts are in shared data")
        self.batch = batch
        self._ask = _library().mj_rnePostConstraint
        self._ask.argtypes, self._ask.restype = (ctypes.c_void_p, ctypes.c_void_p), None
        self._simulations = _addresses(batch)

    def compute(self, failed: np.ndarray) -> None:
        """After a step: the forces of its last contacts. `failed`: bool [count], simulations it was given up in, whose
        contacts mean nothing."""
        ask = self._ask
        if failed.any():
            for at in np.flatnonzero(~failed):
                ask(*self._simulations[at])
        else:
            for model, data in self._simulations:
                ask(model, data)
        self.batch.forward(stage=mujoco.mjtStage.mjSTAGE_NONE.value)  # computes nothing, copies out what is bound


@cache
def _library() -> ctypes.PyDLL:
    """MuJoCo's own library, which its Python package has loaded. Calls keep the interpreter's lock: they take a few
    microseconds each, and letting go of it costs as much."""
    folder = Path(mujoco.__file__).parent
    found = [path for name in ("libmujoco.so*", "libmujoco*.dylib", "mujoco.dll") for path in folder.glob(name)]
    if not found:
        raise RuntimeError(f"no MuJoCo library in {folder}")
    return ctypes.PyDLL(str(found[0]))


def _addresses(batch: Batch) -> list[tuple[int, int]]:
    """Where each simulation's mjModel and mjData are. Python is not told; the control callback is, so one is installed
    for as long as it takes to compute each simulation once."""
    found: list[tuple[int, int]] = []
    callback = _Callback(lambda model, data: found.append((model, data)))
    hook = ctypes.c_void_p.in_dll(_library(), "mjcb_control")
    before, hook.value = hook.value, ctypes.cast(callback, ctypes.c_void_p).value
    try:
        for sim in range(batch.nsim):
            batch.forward(np.array([sim]))
    finally:
        hook.value = before
    if len(set(found)) != batch.nsim or len(found) != batch.nsim:
        raise RuntimeError(f"{batch.nsim} simulations gave {len(found)} addresses ({len(set(found))} different)")
    return found
