"""One library's PPO on one task for some seconds: python train.py WHO TASK COUNT SECONDS. Run by throughput.py.

All have the same sizes (see common.py) and begin with a deviation of 1, because how an untrained robot moves decides
how often it falls, and what the simulation costs. What still differs: each has coefficients of its own (learning
rate, discount, weights in the loss), and in the humanoid's tasks our critic also sees what only a simulator knows, the
peers' just what the policy sees.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import EPOCHS, HIDDEN, MINIBATCH, environment, rollout_length, timed
from gymnasium import spaces

from autotelic.physics.base import Environment

Iterate = Callable[[], int]
open_run = contextlib.ExitStack()  # closed at the end: what it holds would be closed with the function that made it


def autotelic(task: str, count: int, *, collectors: int = 0) -> Iterate:
    from autotelic.cli import train, train_session
    from autotelic.runs import config as configuration
    from autotelic.runs.directory import Run

    length = rollout_length(count)
    root = tempfile.mkdtemp(prefix="throughput-")
    overrides = [
        f"env={task}",
        f"env.count={count}",
        f"collectors={collectors}",
        f"root={root}",
        "run=one",
        f"policy.hidden=[{','.join(map(str, HIDDEN))}]",
        "policy.activation=tanh",
        "policy.initial_std=1.0",
        f"learner.steps={length}",
        f"learner.epochs={EPOCHS}",
        f"learner.minibatches={length * count // MINIBATCH}",
        "learner.early_stop=false",
        "learner.symmetry='off'",
        "checkpoint.every=1000000",
        "evaluate_every=0",
    ]
    config = train.compose(overrides, None)
    plain = configuration.plain(config)
    directory = open_run.enter_context(Run.create(config.root, config.run, plain, verb="train", subject=task, seed=0))
    training = open_run.enter_context(train_session.open_training(directory, config))

    def iterate() -> int:
        training.run_step()
        return length * count

    return iterate


class Ours:
    """Our environment as stable-baselines3 wants it, made when that is imported."""

    def __new__(cls, inner: Environment) -> Any:
        from stable_baselines3.common.vec_env import VecEnv

        class Adapter(VecEnv):
            def __init__(self) -> None:
                size, action = inner.sizes["policy"], inner.action_space
                super().__init__(inner.count, spaces.Box(-np.inf, np.inf, (size,), np.float32), action)

            def reset(self) -> np.ndarray:
                return inner.reset(0)["policy"]

            def step_async(self, actions: np.ndarray) -> None:
                self.actions = actions

            def step_wait(self) -> Any:
                step = inner.step(self.actions)
                infos: list[dict[str, Any]] = [{} for _ in range(inner.count)]
                for row, index in enumerate(step.ended):
                    infos[index] = {
                        "terminal_observation": step.final_obs["policy"][row],
                        "TimeLimit.truncated": bool(step.truncated[index]),
                    }
                return step.obs["policy"], step.reward, step.terminated | step.truncated, infos

            def close(self) -> None:
                inner.close()

            def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
                return [None] * inner.count

            def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
                raise NotImplementedError

            def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
                raise NotImplementedError

            def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
                return [False] * inner.count

        return Adapter()


def sb3(task: str, count: int, *, processes: bool = False) -> Iterate:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

    length = rollout_length(count)
    if task.startswith("humanoid-"):
        inner = Ours(environment(task, count))
    else:
        inner = make_vec_env(task, count, vec_env_cls=SubprocVecEnv if processes else None)
    # Observations and rewards are normalised here too: autotelic does so.
    model = PPO(
        "MlpPolicy",
        VecNormalize(inner),
        n_steps=length,
        batch_size=MINIBATCH,
        n_epochs=EPOCHS,
        policy_kwargs={"net_arch": list(HIDDEN)},
        device="cpu",
    )
    model.learn(length * count)

    def iterate() -> int:
        model.learn(length * count, reset_num_timesteps=False)
        return length * count

    return iterate


class RslEnvironment:
    """An environment of ours, or Gymnasium's vector, as rsl_rl wants it."""

    def __init__(self, task: str, count: int) -> None:
        from tensordict import TensorDict

        self._dict = TensorDict
        self.num_envs, self.device, self.cfg = count, "cpu", {}
        self.episode_length_buf = torch.zeros(count, dtype=torch.long)
        self.inner = environment(task, count) if task.startswith("humanoid-") else None
        if self.inner is not None:
            self.num_actions, self.max_episode_length = self.inner.action_space.shape[0], self.inner.limit
            self._obs = self.inner.reset(0)["policy"]
        else:
            import gymnasium

            self.vector = gymnasium.vector.SyncVectorEnv(
                [lambda: gymnasium.make(task)] * count, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
            )
            self.num_actions, self.max_episode_length = self.vector.single_action_space.shape[0], 1000
            self._obs = self.vector.reset(seed=0)[0]

    def get_observations(self) -> Any:
        return self._dict({"policy": torch.as_tensor(self._obs, dtype=torch.float32)}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> Any:
        if self.inner is not None:
            step = self.inner.step(actions.numpy())
            self._obs, reward, terminated, truncated = step.obs["policy"], step.reward, step.terminated, step.truncated
        else:
            space = self.vector.single_action_space
            self._obs, reward, terminated, truncated, _ = self.vector.step(
                np.clip(actions.numpy(), space.low, space.high)
            )
        extras = {"time_outs": torch.as_tensor(truncated)}
        dones = torch.as_tensor(terminated | truncated)
        return self.get_observations(), torch.as_tensor(reward, dtype=torch.float32), dones, extras


def rsl_rl(task: str, count: int) -> Iterate:
    from rsl_rl.runners import OnPolicyRunner

    length = rollout_length(count)
    network = {"class_name": "MLPModel", "hidden_dims": list(HIDDEN), "activation": "tanh", "obs_normalization": True}
    config = {
        "num_steps_per_env": length,
        "save_interval": 10**9,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": network | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
        "critic": network,
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": EPOCHS,
            "num_mini_batches": length * count // MINIBATCH,
        },
    }
    runner = OnPolicyRunner(RslEnvironment(task, count), config, log_dir=None, device="cpu")  # type: ignore[arg-type]

    def iterate() -> int:
        runner.learn(1)
        return length * count

    return iterate


def cleanrl(task: str, count: int) -> Iterate:
    """PPO for continuous actions the way CleanRL does it: wrappers around each environment, everything asked of the
    network at each step, one file."""
    import gymnasium
    from torch import nn
    from torch.distributions import Normal

    length = rollout_length(count)

    def one() -> Any:
        env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(task))
        env = gymnasium.wrappers.NormalizeObservation(gymnasium.wrappers.ClipAction(env))
        bounds = spaces.Box(-10, 10, env.observation_space.shape)
        env = gymnasium.wrappers.TransformObservation(env, lambda obs: np.clip(obs, -10, 10), bounds)
        env = gymnasium.wrappers.NormalizeReward(env, gamma=0.99)
        return gymnasium.wrappers.TransformReward(env, lambda reward: float(np.clip(reward, -10, 10)))

    envs = gymnasium.vector.SyncVectorEnv([one] * count, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    size, actions = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]

    def network(out: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(size, HIDDEN[0]), nn.Tanh(), nn.Linear(HIDDEN[0], HIDDEN[1]), nn.Tanh(), nn.Linear(HIDDEN[1], out)
        )

    actor, critic, log_std = network(actions), network(1), nn.Parameter(torch.zeros(1, actions))
    parameters = [*actor.parameters(), *critic.parameters(), log_std]
    optimizer = torch.optim.Adam(parameters, lr=3e-4, eps=1e-5)
    obs, done = torch.as_tensor(envs.reset(seed=0)[0], dtype=torch.float32), torch.zeros(count)
    names = ("obs", "action", "log_prob", "reward", "done", "value")
    shapes = ((size,), (actions,), (), (), (), ())
    store = {name: torch.zeros(length, count, *shape) for name, shape in zip(names, shapes, strict=True)}

    def ask(obs: torch.Tensor, action: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        mean = actor(obs)
        distribution = Normal(mean, log_std.expand_as(mean).exp())
        action = distribution.sample() if action is None else action
        return action, distribution.log_prob(action).sum(1), distribution.entropy().sum(1), critic(obs)

    def collect() -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal obs, done
        for t in range(length):
            store["obs"][t], store["done"][t] = obs, done
            with torch.no_grad():
                action, log_prob, _, value = ask(obs)
            store["action"][t], store["log_prob"][t], store["value"][t] = action, log_prob, value.flatten()
            seen, reward, terminated, truncated, _ = envs.step(action.numpy())
            done = torch.as_tensor(np.logical_or(terminated, truncated), dtype=torch.float32)
            store["reward"][t] = torch.as_tensor(reward, dtype=torch.float32)
            obs = torch.as_tensor(seen, dtype=torch.float32)
        with torch.no_grad():
            following = critic(obs).flatten()
        advantages, last = torch.zeros(length, count), torch.zeros(count)
        for t in reversed(range(length)):
            alive = 1.0 - (done if t == length - 1 else store["done"][t + 1])
            after = following if t == length - 1 else store["value"][t + 1]
            delta = store["reward"][t] + 0.99 * after * alive - store["value"][t]
            advantages[t] = last = delta + 0.99 * 0.95 * alive * last
        return advantages, advantages + store["value"]

    def iterate() -> int:
        advantages, returns = collect()
        batch = {name: values.flatten(0, 1) for name, values in store.items()}
        advantages, returns = advantages.flatten(), returns.flatten()
        for _ in range(EPOCHS):
            order = np.random.permutation(length * count)
            for start in range(0, length * count, MINIBATCH):
                rows = order[start : start + MINIBATCH]
                _, log_prob, entropy, value = ask(batch["obs"][rows], batch["action"][rows])
                ratio = (log_prob - batch["log_prob"][rows]).exp()
                gains = advantages[rows]
                gains = (gains - gains.mean()) / (gains.std() + 1e-8)
                policy_loss = torch.max(-gains * ratio, -gains * ratio.clamp(0.8, 1.2)).mean()
                held = batch["value"][rows] + (value.flatten() - batch["value"][rows]).clamp(-0.2, 0.2)
                errors = torch.max((value.flatten() - returns[rows]) ** 2, (held - returns[rows]) ** 2)
                loss = policy_loss + 0.5 * 0.5 * errors.mean() - 0.0 * entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()
        return length * count

    return iterate


def main() -> None:
    who, task, count, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    makers: dict[str, Callable[[str, int], Iterate]] = {
        "autotelic": autotelic,
        "autotelic-ahead": lambda task, count: autotelic(task, count, collectors=1),
        "sb3": sb3,
        "sb3-processes": lambda task, count: sb3(task, count, processes=True),
        "rsl_rl": rsl_rl,
        "cleanrl": cleanrl,
    }
    with open_run:
        timed(makers[who](task, count), seconds)


if __name__ == "__main__":
    main()
