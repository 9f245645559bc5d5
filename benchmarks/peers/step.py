"""One library stepped without learning: python step.py WHO TASK COUNT SECONDS. Run by throughput.py."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from common import HIDDEN, environment, timed

from autotelic.physics.simulated import SimulatedEnvironment
from autotelic.policies.mlp import MLPConfig, MLPPolicy
from autotelic.training.collecting import Collector

Iterate = Callable[[], int]
STEPS = 64  # between looks at the clock


def collector(task: str, count: int) -> Collector:
    """Environments of ours and a policy that knows nothing, some episodes after the start."""
    inner = environment(task, count)
    usual = getattr(inner.config, "beside", {}).get("policy", {"hidden": HIDDEN})  # as the task is trained
    policy = MLPPolicy(MLPConfig(**usual), inner.sizes, inner.action_space)
    found = Collector(inner, policy, STEPS, seed=0)
    for turn in range(4):
        found.collect(turn, 0)
    return found


def autotelic(task: str, count: int) -> Iterate:
    """Environments given the same actions again."""
    found = collector(task, count)
    space = found.environment.action_space
    actions = np.random.default_rng(0).uniform(space.low, space.high, (STEPS, count, *space.shape))

    def iterate() -> int:
        for action in actions:
            found.environment.step(action)
        return STEPS * count

    return iterate


def rollout(task: str, count: int, seconds: float) -> None:
    """A policy asked for every action, and all kept that learning needs; and in turn with it MuJoCo's own batch, which
    goes through the same states: no observation, no reward, and what reset is put where it was then."""
    found = collector(task, count)
    inner = found.environment
    assert isinstance(inner, SimulatedEnvironment)
    simulation = inner.simulation
    spent: list[float] = []
    raw: list[float] = []
    while sum(spent) < seconds:
        before = inner.state()
        began = time.perf_counter()
        found.collect(4 + len(spent), 0)
        spent.append(time.perf_counter() - began)
        after = inner.state()
        inner.load_state(before)
        controls, places = [], []
        for action in found.rollout.trace["action"].numpy():
            ended = inner.step(action).ended
            places.append((ended, simulation.batch.state[ended].copy()))
            controls.append(simulation.ctrl.copy())
        simulation.load_state(before["simulation"])
        began = time.perf_counter()
        for control, (ended, states) in zip(controls, places, strict=True):
            simulation.ctrl[:] = control
            simulation.batch.step(nstep=simulation.substeps)
            if len(ended):
                simulation.batch.state[ended] = states
        raw.append(time.perf_counter() - began)
        inner.load_state(after)
    steps = STEPS * count
    # Medians: on a shared machine a single turn can take twice as long as its neighbours.
    rates = {
        "steps_per_second": steps / statistics.median(spent),
        "raw_steps_per_second": steps / statistics.median(raw),
    }
    rounded = {name: round(rate, 1) for name, rate in rates.items()}
    print(json.dumps({**rounded, "steps": len(spent) * steps, "seconds": round(sum(spent), 2)}))


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
    if who == "rollout":
        rollout(task, count, seconds)
        return
    makers: dict[str, Callable[[str, int], Iterate]] = {
        "autotelic": autotelic,
        "gymnasium": gymnasium,
        "envpool": envpool,
    }
    timed(makers[who](task, count), seconds)


if __name__ == "__main__":
    main()
