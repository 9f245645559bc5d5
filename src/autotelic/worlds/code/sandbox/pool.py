"""The trusted side of the sandbox: warm servers, a window of waiting children, jobs in batches and sessions.

A job costs one fork inside a server. To hide its latency each server keeps a few children forked ahead, which wait,
already confined, for the one job they will ever read. Results are taken only from a child that has ended by itself
and said neither less nor more than its job asked: everything else is an outcome of its own class.
"""

from __future__ import annotations

import os
import select
import socket
import time
import zlib
from collections import deque
from collections.abc import Collection, Sequence

from autotelic.errors import UserError
from autotelic.runs import workers
from autotelic.worlds.code.sandbox import backends
from autotelic.worlds.code.sandbox.config import Limits, SandboxConfig
from autotelic.worlds.code.sandbox.outcome import MAX_REASON, Job, Outcome
from autotelic.worlds.code.sandbox.servers import Child, Server, frame, readable
from autotelic.worlds.code.sandbox.session import Session

_MAX_ENDING = 32  # children that have said all and whose end is not yet reported
_QUIET = 0.002  # seconds without news after which such ends are asked for


class Sandbox:
    """Runs untrusted programs, in batches or in sessions. Not for sharing among threads."""

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config or SandboxConfig()
        backend = self.config.backend
        if backend not in backends.NAMES:
            raise UserError(f"sandbox: unknown backend {backend!r}; choose one of {', '.join(backends.NAMES)}")
        reason = backends.missing(backend)
        if reason:
            raise UserError(f"sandbox: {reason}")
        self.servers = self.config.servers
        self.lanes = self.config.lanes or 2 * len(os.sched_getaffinity(0))
        self.replaced = 0  # servers that died and were started anew
        self._replacing: int | None = None  # index of the server that is being started anew
        self._poll = select.epoll()
        self._sockets: dict[int, Server | Child] = {}  # by descriptor: what the poll watches
        self._servers: list[Server] = []
        try:
            for index in range(self.servers):
                self._servers.append(Server(self.config, index))
            for server in self._servers:
                self._welcome(server)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, jobs: Sequence[Job]) -> list[tuple[Outcome, ...]]:
        """Runs every job in a process of its own; one outcome an input, in the order of the jobs."""
        self._check_open()
        results: list[tuple[Outcome, ...]] = [()] * len(jobs)
        # Server by server: one that forks in a row does several orders and notices at a time.
        waiting = deque(sorted(range(len(jobs)), key=lambda index: self._server_of(jobs[index])))
        running: dict[Child, int] = {}
        try:
            while waiting or running:
                # A child that is only ending keeps no lane; too many of those wait for their server.
                busy = sum(not child.silent for child in running)
                while waiting and busy < self.lanes and len(running) < self.lanes + _MAX_ENDING:
                    index = waiting.popleft()
                    self._give(jobs[index], index, running)
                    busy += 1
                if not busy or len(running) >= self.lanes + _MAX_ENDING:
                    self._await_ends(running)
                self.attend(running)
                # Asked of each child, for a replaced server's first job may have met the end of others.
                for child in [child for child in running if child.status is not None]:
                    index = running.pop(child)
                    results[index] = child.outcomes(jobs[index].calls, self.config.limits.output)
        except BaseException:
            for child in running:
                self._forget(child)
                child.kill("wall")
            raise
        return results

    def open(self, program: str, *, limits: Limits | None = None, server: int = 0) -> Session:
        """Starts a program that stays alive: its functions can be called, and its own calls are answered here."""
        self._check_open()
        self.tidy()
        return Session(self, self._servers[server % self.servers], program, limits or self.config.limits)

    def tidy(self) -> None:
        """Hears what servers have to say without waiting, and starts those that have died anew."""
        if self._servers:
            self.attend(())

    def _check_open(self) -> None:
        if not self._servers:
            raise ValueError("the sandbox is closed: open another one")

    def close(self) -> None:
        """Ends every server and with it every child. A server whose control socket closes kills its children."""
        for server in self._servers:
            server.alive = False
            server.control.close()
            for child in server.children.values():
                child.channel.close()
        for server in self._servers:
            workers.wait(server.process, 2.0)
            workers.stop(server.process)
        self._servers = []
        self._poll.close()

    def _welcome(self, server: Server) -> None:
        """Waits for a new server and gives it one job: a server that cannot confine its children must not be used."""
        server.await_ready(self.config.backend)
        self._watch(server.control, server)
        probe = self.run([Job("def f():\n    return 1", ('["t"]',), server=server.index)])[0][0]
        if probe.encoded != "1":
            raise UserError(f"sandbox: backend {self.config.backend} starts, but a first job ends in: {probe}")

    def _server_of(self, job: Job) -> int:
        chosen = zlib.crc32(job.program.encode(errors="replace")) if job.server is None else job.server
        return chosen % self.servers

    def _give(self, job: Job, index: int, running: dict[Child, int]) -> None:
        """Gives a job to a child that waits. One that died waiting never saw the job, so the next takes it; should all
        that were forked ahead have died, the last one's end is the job's."""
        limits, ahead = self.config.limits, self.config.ahead
        told = frame("J", job.text(limits.output))
        for left in range(ahead, -1, -1):
            child = self._servers[self._server_of(job)].take(ahead)
            running[child] = index  # before it is given its job: an interrupt must find it
            child.bound = job.calls * (limits.output + MAX_REASON)
            child.deadline = time.monotonic() + limits.wall
            given = child.send(told, limits.wall)
            child.read()  # its first word, said long ago as a rule: one thing less to be woken for
            if given or not child.confined or not left:
                self._watch(child.channel, child)
                return
            del running[child]

    def attend(self, running: Collection[Child]) -> None:
        """Waits until something happens, takes leave of children that have ended, kills what is past its deadline."""
        pause = max(0.0, min((child.deadline for child in running), default=0.0) - time.monotonic())
        ending = any(child.silent and not child.awaited for child in running)
        events = self._poll.poll(min(pause, _QUIET if ending else 1.0))
        if ending and not events:
            self._await_ends(running)
        ended: list[Child] = []
        for descriptor, _ in events:
            watched = self._sockets.get(descriptor)
            if isinstance(watched, Server):
                ended += watched.notices()
            elif watched is not None and not watched.read():
                watched.silent = True
                self._forget(watched, close=False)  # its notice is on the way
        now = time.monotonic()
        for child in running:
            if child.deadline < now and child.status is None:
                if child.killed:
                    ended += child.server.give_up("it stopped obeying")
                else:
                    child.kill("wall")
        for child in ended:
            self._leave(child)
        for server in self._servers.copy():
            if not server.alive:
                self._replace(server)

    def _await_ends(self, running: Collection[Child]) -> None:
        """Asks for the news of children that are only ending. It comes by itself with every order to their server, so
        this is for when there is little to order."""
        for server in self._servers:
            server.await_ends([child for child in running if child.silent and child.server is server])

    def _leave(self, child: Child) -> None:
        """Reads what an ended child had still said, and closes its channel."""
        if child.channel.fileno() < 0:  # closed before it ended: nobody wants to know
            return
        self._unwatch(child.channel)
        while not child.silent and child.read() and not child.killed and readable(child.channel, 0):
            pass
        child.channel.close()

    def _replace(self, dead: Server) -> None:
        if self._replacing == dead.index:  # the new one has not survived its first job: neither would the next
            raise UserError(f"sandbox: a new server of backend {self.config.backend} dies at once: {dead.last_words}")
        if self._replacing is not None:
            return  # its turn comes when the other is in place
        self._unwatch(dead.control)
        dead.control.close()
        self.replaced += 1
        self._replacing = dead.index
        try:
            self._servers[dead.index] = Server(self.config, dead.index)
            self._welcome(self._servers[dead.index])
        finally:
            self._replacing = None

    def _watch(self, watched: socket.socket, owner: Server | Child) -> None:
        self._poll.register(watched, select.EPOLLIN)
        self._sockets[watched.fileno()] = owner

    def _unwatch(self, watched: socket.socket) -> None:
        if self._sockets.pop(watched.fileno(), None) is not None:
            self._poll.unregister(watched)

    def _forget(self, child: Child, close: bool = True) -> None:
        self._unwatch(child.channel)
        if close:
            child.channel.close()
