"""The process that steps some of an environment's many copies, one after another; `workers` starts it."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any

import gymnasium
import numpy as np

from autotelic.errors import UserError
from autotelic.physics.gym.shared import RESET, STEP, Job, Made, Memory, places
from autotelic.physics.gym.spaces import Actions, observation_layout, observation_size, row_of
from autotelic.runs import workers
from autotelic.runs.remote import DONE, Channel, described


class Worker:
    """Some environments, whose rows of the memory nobody else writes."""

    def __init__(self, name: str, job: Job, memory: int) -> None:
        self.name, self.job, self.descriptor = name, job, memory
        self.place = places(memory, job.processes)[job.process :][:1]  # the environment that is being worked on
        self.doing = "make"

    def make(self) -> Made:
        self.envs = [self._make(index) for index in range(self.job.first, self.job.last)]
        self.place[0] = -1
        made = [_described(env) for env in self.envs]
        for index, other in enumerate(made, start=self.job.first):
            if other != made[0]:
                raise UserError(f"environment {index} has other spaces than environment {self.job.first}")
        self.row, self.actions = row_of(self.envs[0].observation_space), Actions(made[0].action_space)
        everyone = Memory(self.descriptor, self.job, made[0].observation_size, self.actions)
        mine = slice(self.job.first, self.job.last)
        self.seeds, self.action = everyone.seeds[mine], everyone.action[mine]
        self.obs, self.final_obs, self.reward = everyone.obs[mine], everyone.final_obs[mine], everyone.reward[mine]
        self.terminated, self.truncated = everyone.terminated[mine], everyone.truncated[mine]
        self.success = everyone.success[mine]
        return made[0]

    def _make(self, index: int) -> gymnasium.Env[Any, Any]:
        self.place[0] = index
        # Gymnasium's own checker would repeat its advice in every process, for every environment.
        return gymnasium.make(self.job.spec, **{"disable_env_checker": True, **self.job.options})

    def reset(self) -> None:
        self.doing = "reset"
        for k, (env, seed) in enumerate(zip(self.envs, self.seeds.tolist(), strict=True)):
            self.place[0] = self.job.first + k
            observation, _ = env.reset(seed=seed)
            self.obs[k] = self.row(observation)
        self.place[0] = -1

    def step(self) -> None:
        # A copy: an environment may keep the action it was given, and must still find it there at the next step.
        actions = self.action.copy().reshape(len(self.envs), *self.actions.shape)
        for k, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            self.place[0] = self.job.first + k
            self.doing = "step"
            observation, reward, terminated, truncated, info = env.step(action)
            self.reward[k] = reward
            self.terminated[k], self.truncated[k] = terminated, truncated and not terminated
            if terminated or truncated:
                self.final_obs[k] = self.row(observation)
                success = info.get("is_success", info.get("success"))
                self.success[k] = np.nan if success is None else bool(success)
                self.doing = "reset"
                observation, _ = env.reset()
            self.obs[k] = self.row(observation)
        self.place[0] = -1

    def picture(self, index: int) -> np.ndarray:
        self.doing, self.place[0] = "render", index
        picture = np.asarray(self.envs[index - self.job.first].render())
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise UserError(f"its picture is {picture.dtype} {list(picture.shape)}, not uint8 [height, width, 3]")
        self.place[0] = -1
        return picture

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def failure(self, error: BaseException) -> str:
        """What went wrong, where, in one line."""
        if isinstance(error, gymnasium.error.DependencyNotInstalled):
            return f"{self.name}: {' '.join(str(error).split())}"
        if isinstance(error, ModuleNotFoundError) and self.doing == "make":
            return f"{self.name}: {error}: install it, or the extra of Gymnasium that brings it"
        which = f"{self.name}, environment {self.place[0]}" if self.place[0] >= 0 else self.name
        return f"{which}: {error if isinstance(error, UserError) else f'{self.doing} raised {described(error)}'}"


def _described(env: gymnasium.Env[Any, Any]) -> Made:
    limit = env.spec.max_episode_steps if env.spec is not None else None
    # Where an environment says nothing of time, a step is a second.
    seconds, frames = getattr(env.unwrapped, "dt", None), env.metadata.get("render_fps")
    if not (isinstance(seconds, int | float) and seconds > 0):
        seconds = 1.0 / frames if frames else 1.0
    size = observation_size(env.observation_space)
    return Made(size, observation_layout(env.observation_space), env.action_space, limit, float(seconds))


def _serve(worker: Worker, channel: Channel) -> None:
    """Answers until the other end is closed."""
    made = worker.make()
    channel.send(DONE)
    channel.send_object(made)
    while command := channel.receive(1):
        if command == STEP:
            worker.step()
            channel.send(DONE)
        elif command == RESET:
            worker.reset()
            channel.send(DONE)
        else:
            (index,) = struct.unpack("!I", channel.receive(4))
            picture = worker.picture(index)
            channel.send(DONE)
            channel.send_object(picture)
    worker.close()


def main(connection: int, name: str, memory: str) -> None:
    workers.follow_lifeline()
    channel = Channel(socket.socket(fileno=connection))
    worker: Worker | None = None
    try:
        worker = Worker(name, channel.receive_object(), int(memory))
        _serve(worker, channel)
    except BaseException as error:  # of an environment: SystemExit too. It is told to who asked, and this process ends
        if worker is None:  # a job that holds a class is received by importing the module of that class
            line = f"{name} cannot be made in another process: {described(error)}"
        else:
            line = worker.failure(error)
        with contextlib.suppress(OSError):  # unless nobody is there any more
            channel.fail(line)
