"""Episodes in parallel processes, each with a sandbox and simulations of its own.

Results come in the order of the jobs, and equal jobs are run once. All processes are alike: which of them runs a job
changes nothing. One that dies costs the job that it was at, which another is given once more.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict

from autotelic.physics.arm.control import Arm
from autotelic.physics.arm.scenes import Scene
from autotelic.runs.remote import DONE, Channel, Remote, serve
from autotelic.worlds.arm import episodes
from autotelic.worlds.arm.episodes import Ended, Job
from autotelic.worlds.code.sandbox import Limits, Sandbox, SandboxConfig

AHEAD = 2  # jobs that a process is given before it has answered the first
TRIES = 2  # processes that a job is given to: one that ends two is lost


class Workers:
    """Runs jobs: one alone, or with one process all, in this process."""

    def __init__(self, config: SandboxConfig, count: int = 0) -> None:
        self.config = config
        self.count = count or len(os.sched_getaffinity(0))
        self._remotes: list[Remote | None] = [None] * self.count
        self._sandbox: Sandbox | None = None
        self._arms: dict[Scene, Arm] = {}

    def run(self, jobs: Sequence[Job]) -> list[Ended]:
        distinct = list(dict.fromkeys(jobs))
        run = self._run_here if self.count == 1 or len(distinct) == 1 else self._run_there
        results = dict(zip(distinct, run(distinct), strict=True))
        return [results[job] for job in jobs]

    def close(self) -> None:
        for remote in self._remotes:
            if remote is not None:
                remote.hang_up()
        for remote in self._remotes:
            if remote is not None:
                remote.close(patience=2.0)
        self._remotes = [None] * self.count
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _run_here(self, jobs: Sequence[Job]) -> list[Ended]:
        if self._sandbox is None and any(job.controller is not None for job in jobs):
            self._sandbox = Sandbox(self.config)
        return [episodes.run(job, self._sandbox, self._arms) for job in jobs]

    def _run_there(self, jobs: Sequence[Job]) -> list[Ended]:
        results: list[Ended | None] = [None] * len(jobs)
        waiting = deque(range(len(jobs)))
        tries = [0] * len(jobs)
        given: list[deque[int]] = [deque() for _ in range(self.count)]
        try:
            while waiting or any(given):
                for fill in range(1, AHEAD + 1):  # each has one before any has two
                    for rank, queue in enumerate(given):
                        if waiting and len(queue) < fill:
                            self._give(rank, jobs[waiting[0]])
                            queue.append(waiting.popleft())
                for rank in self._ready([rank for rank, queue in enumerate(given) if queue]):
                    try:
                        results[given[rank][0]] = self._answer(rank)
                        given[rank].popleft()
                    except (ConnectionError, EOFError):
                        self._bury(rank, given[rank], tries, results, waiting)
        except BaseException:  # what is under way would be taken for answers to the next jobs
            for rank in range(self.count):
                self._drop(rank)
            raise
        return [result for result in results if result is not None]

    def _give(self, rank: int, job: Job) -> None:
        remote = self._remotes[rank]
        if remote is None:
            remote = self._remotes[rank] = Remote(__name__)
            remote.channel.send_object(asdict(self.config))
        with contextlib.suppress(ConnectionError):  # it is gone: seen when its answer is asked for
            remote.channel.send_object(job)

    def _ready(self, ranks: Sequence[int]) -> list[int]:
        by_end = {remote.channel.end: rank for rank in ranks if (remote := self._remotes[rank]) is not None}
        return [by_end[end] for end in select.select(list(by_end), [], [])[0]]

    def _answer(self, rank: int) -> Ended:
        remote = self._remotes[rank]
        assert remote is not None
        return remote.answer()

    def _bury(
        self, rank: int, queue: deque[int], tries: list[int], results: list[Ended | None], waiting: deque[int]
    ) -> None:
        """A process has died at the first of its jobs: that one has had a try, the others none."""
        self._drop(rank)
        first, *others = queue
        queue.clear()
        tries[first] += 1
        waiting.extendleft(reversed(others))
        if tries[first] < TRIES:
            waiting.appendleft(first)
        else:
            results[first] = Ended("lost", detail="the process that simulated it ended")

    def _drop(self, rank: int) -> None:
        remote = self._remotes[rank]
        if remote is not None:
            remote.close(patience=0.0)
            self._remotes[rank] = None


def main(connection: int) -> None:
    """What the process does."""
    serve(connection, _serve, "a simulation")


def _serve(channel: Channel) -> None:
    """Answers until the other end is closed."""
    told = channel.receive_object()
    config = SandboxConfig(**{**told, "limits": Limits(**told["limits"])})
    arms: dict[Scene, Arm] = {}
    with Sandbox(config) as sandbox:
        while True:
            try:
                job = channel.receive_object()
            except EOFError:
                return
            ended = episodes.run(job, sandbox, arms)
            channel.send(DONE)
            channel.send_object(ended)
