"""Environments in a few processes: started, asked, waited for, and stopped together."""

from __future__ import annotations

import os
import pickle
import select
import struct
import time
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from gymnasium.envs.registration import EnvSpec

from autotelic.errors import UserError
from autotelic.physics.gym import worker_main
from autotelic.physics.gym.shared import PICTURE, RESET, STEP, Job, Made, Memory, places
from autotelic.physics.gym.spaces import Actions
from autotelic.runs.remote import PATIENCE, Remote


@dataclass
class Child:
    job: Job
    remote: Remote


class Workers:
    """`count` environments in contiguous blocks, a block a process. When one fails, all are stopped."""

    def __init__(self, name: str, spec: EnvSpec, options: dict[str, Any], count: int, processes: int) -> None:
        self.name = name
        self._children: list[Child] = []
        _check_portable(name, spec, options)
        descriptor = os.memfd_create("autotelic-environments")
        try:
            self._places = places(descriptor, processes)
            self._places[:] = -1
            edges = [count * process // processes for process in range(processes + 1)]
            for process in range(processes):
                first, last = edges[process : process + 2]
                self._start(Job(spec, options, first, last, count, process, processes), descriptor)
            self._by_descriptor = {child.remote.channel.end.fileno(): child for child in self._children}
            self._poll = select.poll()
            for end in self._by_descriptor:
                self._poll.register(end, select.POLLIN)
            self.made = self._agreed(self._wait(processes, objects=True))
            self.actions = Actions(self.made.action_space)
            self.memory = Memory(descriptor, self._children[0].job, self.made.observation_size, self.actions)
        except BaseException:
            self.close(patience=0)
            raise
        finally:
            os.close(descriptor)

    def _start(self, job: Job, memory: int) -> None:
        child = Child(job, Remote(worker_main.__name__, self.name, str(memory), pass_fds=[memory]))
        self._children.append(child)
        try:
            child.remote.channel.send_object(job)
        except ConnectionError:
            self._died(child)

    def _agreed(self, made: dict[int, Made]) -> Made:
        for child in self._children:
            if made[child.job.process] != made[0]:
                raise UserError(f"{self.name}: environment {child.job.first} has other spaces than environment 0")
        return made[0]

    def reset(self) -> None:
        """All environments, with the seeds in the memory."""
        self._ask(self._children, RESET)

    def step(self) -> None:
        """All environments, with the actions in the memory."""
        self._ask(self._children, STEP)

    def picture(self, index: int) -> np.ndarray:
        """One environment as it is: uint8 [height, width, 3]."""
        asked = [child for child in self._children if child.job.first <= index < child.job.last]
        return self._ask(asked, PICTURE + struct.pack("!I", index), objects=True)[asked[0].job.process]

    def _ask(self, children: list[Child], command: bytes, *, objects: bool = False) -> dict[int, Any]:
        if not children:
            raise RuntimeError(f"{self.name} is closed")
        try:
            for child in children:
                try:
                    child.remote.channel.send(command)
                except ConnectionError:
                    self._died(child)
            return self._wait(len(children), objects=objects)
        except BaseException:  # Ctrl-C too: an answer nobody waited for would be taken for that of the next step
            self.close(patience=0)
            raise

    def _wait(self, awaited: int, *, objects: bool = False) -> dict[int, Any]:
        """As many answers, in whatever order they come: a process that died is noticed while others are at work."""
        found: dict[int, Any] = {}
        while awaited:
            for descriptor, _ in self._poll.poll():
                child = self._by_descriptor[descriptor]
                try:
                    found[child.job.process] = child.remote.answer(objects=objects)
                except (ConnectionError, EOFError):
                    self._died(child)
                awaited -= 1
        return found

    def _died(self, child: Child) -> NoReturn:
        how = child.remote.how_it_ended()
        index, job = int(self._places[child.job.process]), child.job
        which = f"environment {index}" if index >= 0 else f"environments {job.first} to {job.last - 1}"
        raise UserError(f"{self.name}, {which}: the process {how}")

    def close(self, *, patience: float = PATIENCE) -> None:
        """Environments close themselves if they have the time."""
        children, self._children = self._children, []
        for child in children:
            child.remote.hang_up()
        end = time.monotonic() + patience
        for child in children:
            child.remote.close(end - time.monotonic())


def _check_portable(name: str, spec: EnvSpec, options: dict[str, Any]) -> None:
    """Another process imports what makes an environment; it cannot be given what exists in this one only."""
    try:
        pickle.dumps((spec, options))
        reason = "it is defined in __main__" if getattr(spec.entry_point, "__module__", "") == "__main__" else ""
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        reason = str(error)
    if reason:
        raise UserError(f"{name} cannot be made in another process ({reason}): register it as 'module:Class'")
