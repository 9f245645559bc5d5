"""What the processes of environments share with the one that started them: what they are asked, and memory.

The memory is one file without a name (memfd) that all of them map. It is gone with the last of them, however they end.
Everything large is in it, so that a step is one byte to each process and one byte back.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from autotelic.physics.gym.spaces import Actions

RESET, STEP, PICTURE = b"r", b"s", b"p"  # asked of a process


@dataclass(frozen=True)
class Job:
    """What one process is told when it starts: to make the environments `first` to `last - 1` of `count`."""

    spec: EnvSpec
    options: dict[str, Any]
    first: int
    last: int
    count: int
    process: int
    processes: int


@dataclass(frozen=True)
class Made:
    """What one process says of its environments once they are there."""

    observation_size: int
    layout: list[tuple[str, int]]  # the parts of an observation, in order, with their sizes
    action_space: spaces.Space[Any]
    limit: int | None  # steps of an episode
    dt: float  # seconds a step


def places(descriptor: int, processes: int) -> np.ndarray:
    """int32 [processes]: the environment each process is busy with, -1 for none. At the beginning of the memory, there
    before anything is known of the environments: it tells which one a process died of."""
    return np.frombuffer(_map(descriptor, 4 * processes), np.int32, processes)


class Memory:
    """Arrays with a row an environment, the same in every process."""

    def __init__(self, descriptor: int, job: Job, size: int, actions: Actions) -> None:
        count = job.count
        fields: dict[str, tuple[Any, tuple[int, ...]]] = {
            "seeds": (np.uint64, (count,)),
            "action": (actions.dtype, (count, actions.size)),
            "obs": (np.float32, (count, size)),
            "final_obs": (np.float32, (count, size)),  # rows of environments whose episode ended
            "reward": (np.float32, (count,)),
            "terminated": (np.bool_, (count,)),
            "truncated": (np.bool_, (count,)),
            "success": (np.float32, (count,)),  # of those that ended; NaN where nothing was said
        }
        offsets, end = {}, 4 * job.processes
        for name, (dtype, shape) in fields.items():
            offsets[name] = end = -(-end // 64) * 64  # a cache line of its own
            end += int(np.dtype(dtype).itemsize * np.prod(shape))
        buffer = _map(descriptor, end)
        arrays = {name: np.ndarray(shape, dtype, buffer, offsets[name]) for name, (dtype, shape) in fields.items()}
        self.seeds, self.action = arrays["seeds"], arrays["action"]
        self.obs, self.final_obs, self.reward = arrays["obs"], arrays["final_obs"], arrays["reward"]
        self.terminated, self.truncated, self.success = arrays["terminated"], arrays["truncated"], arrays["success"]


def _map(descriptor: int, length: int) -> mmap.mmap:
    # Grows the file, never shrinks it, and fails here where memory is short; after ftruncate the first write would die.
    os.posix_fallocate(descriptor, 0, length)
    return mmap.mmap(descriptor, length)
