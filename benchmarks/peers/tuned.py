"""stable-baselines3's PPO with the settings its zoo has tuned for a task: python tuned.py TASK STEPS SEED EPISODES DIR.

Run by quality.py. One thread: networks of this size are no faster with two, and two runs fit side by side. DIR keeps a
checkpoint, and a run that was stopped goes on from it; the episodes that were under way begin anew.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize
from torch import nn

EVERY = 25_000  # steps between checkpoints


def falling(start: float) -> Callable[[float], float]:
    """To 0 at the end of the run."""
    return lambda left: left * start


WIDE = {
    "log_std_init": -2,
    "ortho_init": False,
    "activation_fn": nn.ReLU,
    "net_arch": {"pi": [256, 256], "vf": [256, 256]},
}
# hyperparams/ppo.yml of rl-baselines3-zoo, April 2026; there for the v4 tasks.
SETTINGS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {
        "n_envs": 4,
        "n_steps": 1024,
        "gae_lambda": 0.95,
        "gamma": 0.9,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 1e-3,
        "clip_range": 0.2,
        "use_sde": True,
        "sde_sample_freq": 4,
    },
    "CartPole-v1": {
        "n_envs": 8,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": falling(1e-3),
        "clip_range": falling(0.2),
    },
    "HalfCheetah-v5": {
        "normalize": True,
        "batch_size": 64,
        "n_steps": 512,
        "gamma": 0.98,
        "learning_rate": 2.0633e-05,
        "ent_coef": 0.000401762,
        "clip_range": 0.1,
        "n_epochs": 20,
        "gae_lambda": 0.92,
        "max_grad_norm": 0.8,
        "vf_coef": 0.58096,
        "policy_kwargs": WIDE,
    },
    "Hopper-v5": {
        "normalize": True,
        "batch_size": 32,
        "n_steps": 512,
        "gamma": 0.999,
        "learning_rate": 9.80828e-05,
        "ent_coef": 0.00229519,
        "clip_range": 0.2,
        "n_epochs": 5,
        "gae_lambda": 0.99,
        "max_grad_norm": 0.7,
        "vf_coef": 0.835671,
        "policy_kwargs": WIDE,
    },
    "Walker2d-v5": {
        "normalize": True,
        "batch_size": 32,
        "n_steps": 512,
        "gamma": 0.99,
        "learning_rate": 5.05041e-05,
        "ent_coef": 0.000585045,
        "clip_range": 0.1,
        "n_epochs": 20,
        "gae_lambda": 0.95,
        "max_grad_norm": 1,
        "vf_coef": 0.871923,
    },
    "Humanoid-v5": {
        "normalize": True,
        "batch_size": 256,
        "n_steps": 512,
        "gamma": 0.95,
        "learning_rate": 3.56987e-05,
        "ent_coef": 0.00238306,
        "clip_range": 0.3,
        "n_epochs": 5,
        "gae_lambda": 0.9,
        "max_grad_norm": 2,
        "vf_coef": 0.431892,
        "policy_kwargs": WIDE,
    },
}


class Checkpoint(BaseCallback):
    """Writes the model, what its observations are normalised with, and the minutes so far."""

    def __init__(self, directory: Path, minutes: float) -> None:
        super().__init__()
        self.directory, self.minutes = directory, minutes
        self._began, self._saved = time.process_time(), 0

    def spent(self) -> float:
        return self.minutes + (time.process_time() - self._began) / 60

    def _on_training_start(self) -> None:
        self._saved = self.num_timesteps

    def _on_rollout_start(self) -> None:  # after an update
        if self.num_timesteps < self._saved + EVERY:
            return
        self._saved = self.num_timesteps
        aside = self.directory.with_suffix(".new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        self.model.save(aside / "model.zip")
        if isinstance(self.training_env, VecNormalize):
            self.training_env.save(str(aside / "normal.pkl"))
        (aside / "minutes").write_text(str(self.spent()))
        shutil.rmtree(self.directory, ignore_errors=True)
        aside.rename(self.directory)

    def _on_step(self) -> bool:
        return True


def main() -> None:
    task, steps, seed, episodes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    directory = Path(sys.argv[5])
    torch.set_num_threads(1)
    settings = dict(SETTINGS[task])
    normalised = settings.pop("normalize", False)
    envs = make_vec_env(task, settings.pop("n_envs", 1), seed=seed)
    there = directory.exists()
    if normalised:
        normal = str(directory / "normal.pkl")
        envs = VecNormalize.load(normal, envs) if there else VecNormalize(envs, gamma=settings["gamma"])
    if there:
        model = PPO.load(directory / "model.zip", envs, device="cpu")
    else:
        # Adam as stable-baselines3 sets it up, in one kernel: the same steps, a fifth less time.
        kwargs = {**settings.pop("policy_kwargs", {}), "optimizer_kwargs": {"eps": 1e-5, "fused": True}}
        model = PPO("MlpPolicy", envs, seed=seed, device="cpu", policy_kwargs=kwargs, **settings)
    checkpoint = Checkpoint(directory, float((directory / "minutes").read_text()) if there else 0.0)
    model.learn(steps - model.num_timesteps, callback=checkpoint, reset_num_timesteps=not there)
    spent = checkpoint.spent()
    exam = make_vec_env(task, 1, seed=seed + 10_000)
    if isinstance(envs, VecNormalize):
        exam = VecNormalize(exam, training=False, norm_reward=False)
        exam.obs_rms = envs.obs_rms
    mean, std = evaluate_policy(model, exam, episodes, deterministic=True)
    print(json.dumps({"return_mean": mean, "return_std": std, "minutes": round(spent, 2)}))


if __name__ == "__main__":
    main()
