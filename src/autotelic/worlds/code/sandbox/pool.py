"""The trusted side of the sandbox: warm servers, a window of waiting children, jobs in batches and sessions.

A job costs one fork inside a server. To hide its latency each server keeps a few children forked ahead, which wait,
already confined, for the one job they will ever read. Results are taken only from a child that has ended by itself
and said neither less nor more than its job asked: everything else is an outcome of its own class.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotelic.errors import UserError
from autotelic.runs import workers
from autotelic.worlds.code.sandbox import backends, values
from autotelic.worlds.code.sandbox.outcome import MAX_REASON, Job, Limits, Outcome, Remote, outcome_of

_FORK = struct.Struct("=III")
_NOTICE = struct.Struct("=IiI")
_LENGTH = struct.Struct("=I")
_START_TIMEOUT = 60.0
_MAX_ENDING = 32  # children that have said all and whose end is not yet reported
_CONTROL_TIMEOUT = 10  # seconds: a server that takes no order for this long is as good as dead
_KILL_TIMEOUT = 5.0  # seconds from the order to kill a child to the news of its end; later its server is given up
_GONE = (BrokenPipeError, ConnectionResetError)

Answer = Callable[[str, str, tuple, dict], Any]  # remote, method, arguments, keyword arguments → value


@dataclass
class SandboxConfig:
    backend: str = "sandlock"  # sandlock, bubblewrap or docker; never another than the one named
    servers: int = 0  # warm servers, each with a hash seed of its own; 0: one a core, at least 4
    lanes: int = 0  # jobs that run at once; 0: two a core, so that a core is busy while a job starts or ends
    preload: list[str] = field(
        default_factory=lambda: ["math"]
    )  # modules that jobs need not load; each slows every fork
    ahead: int = 8  # children that a server forks ahead at a time
    namespaces: bool = True  # sandlock only: also hide which paths and processes exist; false where a system denies it
    image: str = "python:3.11-slim"  # docker only
    limits: Limits = field(default_factory=Limits)


class RemoteError(Exception):
    """Raised by an `answer` function: the program sees it as an exception of its own, of the builtin type named."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _Child:
    """The host's view of one job's process: its socket, what it has said so far, and how it ended."""

    __slots__ = (
        "bound",
        "buffer",
        "channel",
        "cpu",
        "deadline",
        "identity",
        "killed",
        "server",
        "silent",
        "status",
        "used",
    )

    def __init__(self, server: _Server, identity: int, channel: socket.socket, limits: Limits) -> None:
        self.server = server
        self.identity = identity
        self.channel = channel
        self.cpu = limits.cpu
        self.buffer = bytearray()
        self.bound = MAX_REASON  # bytes it may send
        self.deadline = float("inf")
        self.killed = ""  # what we killed it for
        self.silent = False  # it has closed its end of the channel: it is ending
        self.status: int | None = None  # wait status, once it has ended
        self.used = 0  # milliseconds of processor time

    def send(self, frame: bytes, patience: float) -> None:
        """A program that asks and does not read the answers must not hold us: one that takes too long is killed."""
        self.channel.settimeout(max(0.01, patience))
        try:
            self.channel.sendall(frame)
        except TimeoutError:
            self.kill("wall")
        except _GONE:
            pass  # a dead child's end is on its way as a notice

    def read(self) -> bool:
        """Takes what has arrived; False at the end of the stream. One that floods us is killed."""
        try:
            data = self.channel.recv(1 << 18)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self.buffer += data
        if len(self.buffer) > self.bound:
            self.kill("flood")
            self.buffer.clear()
        return bool(data)

    def kill(self, reason: str) -> None:
        if not self.killed:
            self.killed, self.deadline = reason, time.monotonic() + _KILL_TIMEOUT
            self.server.order(b"K" + struct.pack("=I", self.identity))

    def death(self) -> Outcome:
        """The outcome of a job whose process did not end by itself with all said that was asked."""
        if self.killed:
            return {
                "wall": Outcome("limit", detail="wall"),
                "flood": Outcome("forbidden", detail="forged", message="sent more than it was asked for"),
                "server": Outcome("crash", detail="server", message=self.server.last_words),
            }[self.killed]
        status = self.status or 0
        if not os.WIFSIGNALED(status):
            return Outcome("crash", detail=f"exit {os.waitstatus_to_exitcode(status)}")
        number = os.WTERMSIG(status)
        if number == signal.SIGSYS:
            return Outcome("forbidden", detail="syscall")
        # SIGKILL is for those that will not hear SIGXCPU; the kernel counts ticks there, and exact time for us.
        if number == signal.SIGXCPU or (number == signal.SIGKILL and self.used >= 700 * self.cpu):
            return Outcome("limit", detail="cpu")
        if number == signal.SIGXFSZ:
            return Outcome("limit", detail="file")
        named = number in signal.Signals.__members__.values()  # most real-time signals have no name
        return Outcome("crash", detail=signal.Signals(number).name if named else f"signal {number}")


class _Server:
    """One sandboxed fork server and its living children."""

    def __init__(self, config: SandboxConfig, index: int) -> None:
        self.limits = config.limits
        self.index = index
        self.process, self.control = backends.start(config, index + 1)
        self.alive = True
        self.last_words = ""
        self.ready: deque[_Child] = deque()  # forked ahead, without a job yet
        self.children: dict[int, _Child] = {}
        self._last_identity = 0

    def await_ready(self, backend: str) -> None:
        self.control.settimeout(_START_TIMEOUT)
        try:
            word = self.control.recv(4096)
        except (TimeoutError, ConnectionError) as error:
            word = str(error).encode()
        if word != b"ready":
            code = workers.stop(self.process)
            reason = word.decode(errors="replace") or f"the server ended with code {code}"
            advice = ""
            if backend == "sandlock" and "namespaces" in reason:
                advice = "; use bubblewrap or docker, or show programs which paths exist with sandbox.namespaces=false"
            raise UserError(f"sandbox: {backend} does not start here: {reason}{advice}; see `autotelic doctor`")
        # Only sending may take time: `settimeout` would make the look for notices wait as well.
        self.control.settimeout(None)
        self.control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("=qq", _CONTROL_TIMEOUT, 0))

    def order(self, packet: bytes, descriptors: Sequence[int] = ()) -> None:
        if not self.alive:
            return
        try:
            socket.send_fds(self.control, [packet], descriptors)
        except (*_GONE, BlockingIOError):
            workers.stop(self.process)  # the end of its control socket is read as its death

    def fork(self, count: int, limits: Limits) -> list[_Child]:
        """Asks for children in one packet; each gets a socket that no other process holds."""
        born, theirs = [], []
        for _ in range(count):
            ours, other = socket.socketpair()
            self._last_identity += 1
            born.append(_Child(self, self._last_identity, ours, limits))
            theirs.append(other)
        orders = b"".join(_FORK.pack(child.identity, limits.cpu, limits.memory) for child in born)
        self.children.update((child.identity, child) for child in born)
        self.order(b"F" + orders, [other.fileno() for other in theirs])
        for other in theirs:
            other.close()
        return born

    def take(self, ahead: int) -> _Child:
        """A child that waits for a job. More are ordered, several at a time, before the last of them is given away."""
        while self.ready and self.ready[0].status is not None:  # died waiting
            self.ready.popleft()
        if len(self.ready) <= ahead // 2:
            self.ready += self.fork(1 + ahead - len(self.ready), self.limits)
        return self.ready.popleft()

    def notices(self) -> list[_Child]:
        """The children that have ended since the last look; all of them if the server itself has."""
        ended = []
        while self.alive:
            try:
                packet = self.control.recv(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return ended
            except ConnectionResetError:
                packet = b""
            if not packet or len(packet) % _NOTICE.size:  # its last words, or none
                return ended + self.give_up(packet.decode(errors="replace"))
            for identity, status, used in _NOTICE.iter_unpack(packet):
                child = self.children.pop(identity)
                child.status, child.used = status, used
                ended.append(child)
        return ended

    def give_up(self, last_words: str) -> list[_Child]:
        """Counts the server and all its children as dead, and makes it so."""
        self.alive = False
        self.last_words = last_words
        workers.stop(self.process)
        for child in self.children.values():
            child.status, child.killed = 0, child.killed or "server"
        return list(self.children.values())


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
        cores = len(os.sched_getaffinity(0))
        self.servers = self.config.servers or max(4, cores)
        self.lanes = self.config.lanes or 2 * cores
        self.replaced = 0  # servers that died and were started anew
        self._poll = select.epoll()
        self._sockets: dict[int, _Server | _Child] = {}  # by descriptor: what the poll watches
        self._servers: list[_Server] = []
        try:
            for index in range(self.servers):
                self._servers.append(_Server(self.config, index))
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
        results: list[tuple[Outcome, ...]] = [()] * len(jobs)
        # Server by server: one that forks in a row does several orders and notices at a time.
        waiting = deque(sorted(range(len(jobs)), key=lambda index: self._server_of(jobs[index])))
        running: dict[_Child, int] = {}
        try:
            while waiting or running:
                # A child that is only ending keeps no lane; too many of those wait for their server.
                busy = sum(not child.silent for child in running)
                while waiting and busy < self.lanes and len(running) < self.lanes + _MAX_ENDING:
                    index = waiting.popleft()
                    running[self._start(jobs[index])] = index
                    busy += 1
                self._attend(running)
                # Asked of each child, for a replaced server's first job may have met the end of others.
                for child in [child for child in running if child.status is not None]:
                    index = running.pop(child)
                    results[index] = _outcomes(child, len(jobs[index].inputs), self.config.limits.output)
        except BaseException:
            for child in running:
                self._forget(child)
                child.kill("wall")
            raise
        return results

    def open(self, program: str, *, limits: Limits | None = None, server: int = 0) -> Session:
        """Starts a program that stays alive: its functions can be called, and its own calls are answered here."""
        return Session(self, self._servers[server % self.servers], program, limits or self.config.limits)

    def close(self) -> None:
        """Ends every server and with it every child. A server whose control socket closes kills its children."""
        for server in self._servers:
            server.alive = False
            server.control.close()
            for child in server.children.values():
                child.channel.close()
        for server in self._servers:
            with contextlib.suppress(Exception):
                server.process.wait(timeout=2.0)
            workers.stop(server.process)
        self._servers = []
        self._poll.close()

    def _welcome(self, server: _Server) -> None:
        """Waits for a new server and gives it one job: a server that cannot confine its children must not be used."""
        server.await_ready(self.config.backend)
        self._watch(server.control, server)
        probe = self.run([Job("def f():\n    return 1", ('["t"]',), server=server.index)])[0][0]
        if probe.encoded != "1":
            raise UserError(f"sandbox: backend {self.config.backend} starts, but a first job ends in: {probe}")

    def _server_of(self, job: Job) -> int:
        chosen = zlib.crc32(job.program.encode(errors="replace")) if job.server is None else job.server
        return chosen % self.servers

    def _start(self, job: Job) -> _Child:
        child = self._servers[self._server_of(job)].take(self.config.ahead)
        limits = self.config.limits
        child.bound = len(job.inputs) * (limits.output + MAX_REASON)
        child.deadline = time.monotonic() + limits.wall
        frame = _frame("J", _job(job.program, limits.output, entry=job.entry, inputs=job.inputs, session=False))
        child.send(frame, limits.wall)
        child.channel.setblocking(False)
        self._watch(child.channel, child)
        return child

    def _attend(self, running: Collection[_Child]) -> None:
        """Waits until something happens, takes leave of children that have ended, kills what is past its deadline."""
        pause = min((child.deadline for child in running), default=0.0) - time.monotonic()
        ended: list[_Child] = []
        for descriptor, _ in self._poll.poll(min(max(0.0, pause), 1.0)):
            watched = self._sockets.get(descriptor)
            if isinstance(watched, _Server):
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
        for server in {child.server for child in ended if not child.server.alive}:
            self._replace(server)

    def _leave(self, child: _Child) -> None:
        """Reads what an ended child had still said, and closes its channel."""
        if child.channel.fileno() < 0:  # closed before it ended: nobody wants to know
            return
        self._unwatch(child.channel)
        child.channel.setblocking(False)
        while child.read() and not child.killed and select.select([child.channel], [], [], 0)[0]:
            pass
        child.channel.close()

    def _replace(self, dead: _Server) -> None:
        self._unwatch(dead.control)
        dead.control.close()
        self.replaced += 1
        self._servers[dead.index] = _Server(self.config, dead.index)
        self._welcome(self._servers[dead.index])

    def _watch(self, watched: socket.socket, owner: _Server | _Child) -> None:
        self._poll.register(watched, select.EPOLLIN)
        self._sockets[watched.fileno()] = owner

    def _unwatch(self, watched: socket.socket) -> None:
        if self._sockets.pop(watched.fileno(), None) is not None:
            self._poll.unregister(watched)

    def _forget(self, child: _Child, close: bool = True) -> None:
        self._unwatch(child.channel)
        if close:
            child.channel.close()


class Session:
    """One living program. `call` runs one of its functions; while it runs, its own calls are answered by the host."""

    def __init__(self, sandbox: Sandbox, server: _Server, program: str, limits: Limits) -> None:
        self._sandbox = sandbox
        self._limits = limits
        self._closed = False
        self._patience = limits.wall  # seconds left to wait for the program, over all calls
        self._child = server.fork(1, limits)[0]
        self._child.bound = limits.output + MAX_REASON
        self._remotes: set[tuple[str, str]] = set()  # what the program may ask: remote, method
        self._child.send(_frame("J", _job(program, limits.output, entry="", inputs=(), session=True)), limits.wall)
        self.loaded = self._converse(None)  # what became of loading the program: ok, syntax, exception, …

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, entry: str, *args: Any, answer: Answer | None = None) -> Outcome:
        """Calls a function of the program. A Remote argument becomes an object whose calls reach `answer`."""
        if not self.loaded.ok or self._closed:
            raise ValueError("the session has ended: open another one")
        given = [[arg.name, arg.methods] if isinstance(arg, Remote) else values.encode(arg) for arg in args]
        self._remotes |= {(arg.name, method) for arg in args if isinstance(arg, Remote) for method in arg.methods}
        child = self._child
        if child.status is None and select.select([child.channel], [], [], 0)[0]:
            child.read()
        if child.buffer:  # an answer to a call that had not been made
            child.kill("flood")
        if child.status is not None or child.killed:
            return self._end()
        child.send(_frame("C", json.dumps([entry, given])), self._patience)
        return self._converse(answer)

    def close(self) -> None:
        if not self._closed and self._child.status is None:
            self._child.channel.close()
            self._child.kill("wall")
        self._closed = True

    def _converse(self, answer: Answer | None) -> Outcome:
        while True:
            tag, text = self._receive()
            if tag != "h":
                return outcome_of(tag, text, self._limits.output) if tag else self._end()
            try:
                asked = self._question(text)
                if answer is None or self._child.buffer:  # who waits for an answer says nothing meanwhile
                    raise values.Malformed("a question nobody answers")
            except (ValueError, TypeError, RecursionError, values.Malformed):
                self._child.kill("flood")
                return self._end()
            try:
                reply = _frame("A", values.encode(answer(*asked)))
            except RemoteError as error:
                reply = _frame("X", json.dumps([error.kind, str(error)]))
            except BaseException:
                self.close()  # the program would take the next call for its answer
                raise
            self._child.send(reply, self._patience)

    def _question(self, text: str) -> tuple[str, str, tuple, dict]:
        """What the program asks of one of the remotes it was given; anything else is Malformed or of a wrong type."""
        remote, method, packed = json.loads(text)
        asked: Any = values.decode(packed)
        args, keywords = asked
        if (remote, method) not in self._remotes or (type(args), type(keywords)) != (tuple, dict):
            raise values.Malformed("no such question")
        if any(type(name) is not str for name in keywords):
            raise values.Malformed("a keyword that is no name")
        return remote, method, args, keywords

    def _receive(self) -> tuple[str, str]:
        """The next frame, or two empty strings when the program has died or may not go on."""
        child, buffer = self._child, self._child.buffer
        while not child.killed:
            if len(buffer) >= _LENGTH.size:
                size = _LENGTH.unpack_from(buffer)[0]
                if len(buffer) >= _LENGTH.size + size and size:
                    frame = buffer[_LENGTH.size : _LENGTH.size + size].decode("ascii", "replace")
                    del buffer[: _LENGTH.size + size]
                    return frame[0], frame[1:]
            if child.status is not None:
                break
            asked = time.monotonic()
            ready, _, _ = select.select([child.channel], [], [], max(0.0, self._patience))
            self._patience -= time.monotonic() - asked
            if not ready:
                child.kill("wall")
            elif not child.read():
                break
        return "", ""

    def _end(self) -> Outcome:
        """The program has died, or soon will: one that only closed its channel has the rest of its time to do so."""
        if not self._child.killed:
            self._child.deadline = time.monotonic() + max(0.0, self._patience)
        while self._child.status is None:
            self._sandbox._attend((self._child,))
        return self._child.death()


def _job(program: str, output: int, **rest: object) -> str:
    return json.dumps({"program": program, "output": output, **rest})


def _frame(tag: str, text: str) -> bytes:
    data = (tag + text).encode("ascii")
    return _LENGTH.pack(len(data)) + data


def _outcomes(child: _Child, wanted: int, output: int) -> tuple[Outcome, ...]:
    """One outcome an input. What a process said counts only if it then ended by itself and said nothing more."""
    frames = []
    view = memoryview(child.buffer)
    while len(view) >= _LENGTH.size and len(frames) < wanted:
        end = _LENGTH.size + _LENGTH.unpack_from(view)[0]
        if end == _LENGTH.size or len(view) < end:
            break
        frames.append(bytes(view[_LENGTH.size : end]).decode("ascii", "replace"))
        view = view[end:]
    clean = child.status == 0 and not child.killed
    if len(view) and (clean or len(frames) == wanted):
        return (Outcome("forbidden", detail="forged", message="said more than it was asked"),) * wanted
    if len(frames) == wanted and not clean:
        return (child.death(),) * wanted
    told = [outcome_of(frame[0], frame[1:], output) for frame in frames]
    return (*told, *[child.death()] * (wanted - len(told)))
