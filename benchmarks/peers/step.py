"""One library stepped with random actions: python step.py WHO TASK COUNT SECONDS. Run by throughput.py."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from common import environment, timed

Iterate = Callable[[], int]
STEPS = 64  # between looks at the clock


def autotelic(task: str, count: int) -> Iterate:
    inner = environment(task, count)
    inner.reset(0)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (STEPS, count, *(inner.action_space.shape or ()))).astype(np.float32)

    def iterate() -> int:
        for action in actions:
            inner.step(action)
        return STEPS * count

    return iterate


def batch(task: str, count: int) -> Iterate:
    """MuJoCo's own batch of the same model and substeps: no observation, no reward; simulations reset when asked."""
    from autotelic.physics.simulated import SimulatedEnvironment

    inner = environment(task, count)
    assert isinstance(inner, SimulatedEnvironment)
    inner.reset(0)
    simulation = inner.simulation
    rng = np.random.default_rng(0)
    low, high = simulation.model.actuator_ctrlrange.T
    controls = rng.uniform(low, high, (STEPS, count, simulation.model.nu))

    def iterate() -> int:
        for control in controls:
            simulation.ctrl[:] = control
            simulation.batch.step(nstep=simulation.substeps)
        fallen = ~np.isfinite(simulation.qpos).all(axis=1)
        if fallen.any():
            simulation.batch.reset(np.flatnonzero(fallen))
        return STEPS * count

    return iterate


def gymnasium(task: str, count: int) -> Iterate:
    import gymnasium as library

    mode = library.vector.AutoresetMode.SAME_STEP
    envs = library.vector.SyncVectorEnv([lambda: library.make(task)] * count, autoreset_mode=mode)
    envs.reset(seed=0)
    actions = [envs.action_space.sample() for _ in range(STEPS)]

    def iterate() -> int:
        for action in actions:
            envs.step(action)
        return STEPS * count

    return iterate


def envpool(task: str, count: int) -> Iterate:
    import envpool as library

    envs = library.make(task, env_type="gymnasium", num_envs=count)
    envs.reset()
    rng = np.random.default_rng(0)
    low, high = envs.action_space.low, envs.action_space.high
    actions = rng.uniform(low, high, (STEPS, count, *low.shape))

    def iterate() -> int:
        for action in actions:
            envs.step(action)
        return STEPS * count

    return iterate


def main() -> None:
    who, task, count, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    makers: dict[str, Callable[[str, int], Iterate]] = {
        "autotelic": autotelic,
        "batch": batch,
        "gymnasium": gymnasium,
        "envpool": envpool,
    }
    timed(makers[who](task, count), seconds)


if __name__ == "__main__":
    main()
