"""A process of data-parallel learning: `parallel_update.py RANK PROCESSES FOLDER`. It has its share of environments,
learns from two rollouts, in one minibatch and in four, and writes its weights and figures into FOLDER."""

import faulthandler
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from gymnasium import spaces
from safetensors.torch import save_file

from autotelic.cli.main import leave
from autotelic.physics.base import Step
from autotelic.policies.mlp import MLPConfig, MLPPolicy
from autotelic.training.ppo import PPO
from autotelic.training.ppo_config import PPOConfig
from autotelic.training.rollouts import Rollout

LENGTH, COUNT, SIZES = 8, 6, {"policy": 3}


def rollout(seed: int, share: slice) -> Rollout:
    """The share of a rollout of all environments."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(LENGTH + 1, COUNT, 3)).astype(np.float32) * 4 + np.arange(COUNT, dtype=np.float32)[:, None]
    action = torch.from_numpy(rng.normal(size=(LENGTH, COUNT, 2)).astype(np.float32))
    reward = rng.normal(size=(LENGTH, COUNT)).astype(np.float32) * 3 + np.arange(COUNT, dtype=np.float32)
    truncated = rng.random((LENGTH, COUNT)) < 0.2
    finals = rng.normal(size=(LENGTH, COUNT, 3)).astype(np.float32)
    count = len(range(COUNT)[share])
    found = Rollout(LENGTH, count, SIZES)
    for t in range(LENGTH):
        ended = np.flatnonzero(truncated[t, share])
        step = Step(
            {"policy": obs[t + 1, share]},
            reward[t, share],
            np.zeros(count, bool),
            truncated[t, share],
            ended,
            {"policy": finals[t, share][ended]},
        )
        found.add(t, {"policy": torch.from_numpy(obs[t, share])}, {"action": action[t, share]}, step)
    found.close({"policy": torch.from_numpy(obs[-1, share])})
    return found


def learn(rank: int, processes: int, folder: Path, minibatches: int) -> None:
    torch.manual_seed(0)
    policy = MLPPolicy(MLPConfig(hidden=(16,)), SIZES, spaces.Box(-1, 1, (2,)))
    config = PPOConfig(steps=LENGTH, minibatches=minibatches, epochs=3, lr=1e-3, target_kl=0.05, entropy=0.01)
    learner = PPO(config, policy, seed=5)
    part = COUNT // processes
    figures: dict[str, float] = {}
    for seed in range(2):
        found = rollout(seed, slice(rank * part, (rank + 1) * part))
        policy.observe(found.obs)
        figures = learner.update(found)
    name = f"{minibatches}_{rank}_of_{processes}"
    save_file(policy.state_dict(), folder / f"{name}.safetensors")
    (folder / f"{name}.json").write_text(json.dumps(figures | {"next_lr": learner.lr}))


def main(rank: int, processes: int, folder: Path) -> None:
    torch.set_num_threads(1)
    if processes > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=processes)
    for minibatches in (1, 4):
        learn(rank, processes, folder, minibatches)
    if processes > 1:
        dist.barrier()  # who leaves first must not close what the other still reads from
        dist.destroy_process_group()


if __name__ == "__main__":
    faulthandler.enable()  # a process that is aborted says where it was
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    leave(0)
