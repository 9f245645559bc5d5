"""The trusted side's view of a server and of the children it forks, one for each job.

Frames on a job's own socket: length, one byte saying what, payload. Before any of them a child says one byte: that it
is confined. A child that has not said it has not read its job.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence

from autotelic.errors import UserError
from autotelic.runs import workers
from autotelic.worlds.code.sandbox import backends
from autotelic.worlds.code.sandbox.config import Limits, SandboxConfig
from autotelic.worlds.code.sandbox.outcome import MAX_REASON, Outcome, outcome_of

FORK = struct.Struct("=III")
NOTICE = struct.Struct("=IiI")
LENGTH = struct.Struct("=I")
IDENTITY = struct.Struct("=I")
CONFINED = b"\x01"
START_TIMEOUT = 60.0
CONTROL_TIMEOUT = 10  # seconds: a server that takes no order for this long is as good as dead
KILL_TIMEOUT = 5.0  # seconds from the order to kill a child to the news of its end; later its server is given up
GONE = (BrokenPipeError, ConnectionResetError)


def frame(tag: str, text: str) -> bytes:
    data = (tag + text).encode("ascii")
    return LENGTH.pack(len(data)) + data


def readable(channel: socket.socket, seconds: float) -> bool:
    """Whether something arrives within a time. Not by select, which knows no descriptor above 1023."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(1000 * max(0.0, seconds)))


class Child:
    """The host's view of one job's process: its socket, what it has said so far, and how it ended."""

    __slots__ = (
        "awaited",
        "bound",
        "buffer",
        "channel",
        "confined",
        "cpu",
        "deadline",
        "identity",
        "killed",
        "server",
        "silent",
        "status",
        "used",
    )

    def __init__(self, server: Server, identity: int, channel: socket.socket, limits: Limits) -> None:
        self.server = server
        self.identity = identity
        self.channel = channel
        self.cpu = limits.cpu
        self.buffer = bytearray()
        self.bound = MAX_REASON  # bytes it may send
        self.confined = False
        self.deadline = float("inf")
        self.killed = ""  # what we killed it for
        self.awaited = False  # its server has been asked to say when it has ended
        self.silent = False  # it has closed its end of the channel: it is ending
        self.status: int | None = None  # wait status, once it has ended
        self.used = 0  # milliseconds of processor time

    def send(self, frame: bytes, patience: float) -> bool:
        """Whether there was anybody to send to. A program that asks and does not read the answers must not hold us: one
        that takes too long is killed."""
        try:
            sent = self.channel.send(frame)
        except BlockingIOError:
            sent = 0
        except GONE:
            return False
        if sent < len(frame):
            self.channel.settimeout(max(0.01, patience))
            try:
                self.channel.sendall(frame[sent:])
            except TimeoutError:
                self.kill("wall")
            except GONE:
                return False
            finally:
                self.channel.setblocking(False)
        return True

    def read(self) -> bool:
        """Takes what has arrived; False at the end of the stream. One that floods us is killed."""
        try:
            data = self.channel.recv(1 << 18)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self.buffer += data
        if not self.confined and self.buffer.startswith(CONFINED):
            self.confined = True
            del self.buffer[:1]
        if len(self.buffer) > self.bound:
            self.kill("flood")
            self.buffer.clear()
        return bool(data)

    def kill(self, reason: str) -> None:
        if not self.killed:
            self.killed, self.deadline = reason, time.monotonic() + KILL_TIMEOUT
            self.awaited = True
            self.server.order(b"K" + IDENTITY.pack(self.identity))

    def outcomes(self, wanted: int, output: int) -> tuple[Outcome, ...]:
        """One outcome an input. All that was asked counts only if the process then ended by itself and said no more; of
        one that died on the way counts what it had said of earlier inputs."""
        frames = []
        view = memoryview(self.buffer)
        while len(view) >= LENGTH.size and len(frames) < wanted:
            end = LENGTH.size + LENGTH.unpack_from(view)[0]
            if end == LENGTH.size or len(view) < end:
                break
            frames.append(bytes(view[LENGTH.size : end]).decode("ascii", "replace"))
            view = view[end:]
        clean = self.status == 0 and not self.killed
        if len(view) and (clean or len(frames) == wanted):
            return (Outcome("forbidden", detail="forged", message="said more than it was asked"),) * wanted
        if len(frames) == wanted and not clean:
            return (self.death(),) * wanted
        told = [outcome_of(said[0], said[1:], output) for said in frames]
        return (*told, *(self.death() for _ in range(wanted - len(told))))

    def death(self) -> Outcome:
        """The outcome of a job whose process did not end by itself with all said that was asked."""
        if not self.confined and not self.killed:
            return Outcome("crash", detail="server", message="no process could be made or confined for the job")
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
        # Both can be had without using the time. The kernel counts ticks for the limit and exact time for us, which on
        # a busy machine differ by a quarter and more.
        if number in (signal.SIGXCPU, signal.SIGKILL) and self.used >= 500 * self.cpu:
            return Outcome("limit", detail="cpu")
        if number == signal.SIGXFSZ:
            return Outcome("limit", detail="file")
        named = number in signal.Signals.__members__.values()  # most real-time signals have no name
        return Outcome("crash", detail=signal.Signals(number).name if named else f"signal {number}")


class Server:
    """One sandboxed fork server and its living children."""

    def __init__(self, config: SandboxConfig, index: int) -> None:
        self.limits = config.limits
        self.index = index
        self.process, self.control = backends.start(config, index + 1)
        self.alive = True
        self.last_words = ""
        self.ready: deque[Child] = deque()  # forked ahead, without a job yet
        self.children: dict[int, Child] = {}
        self._last_identity = 0

    def await_ready(self, backend: str) -> None:
        self.control.settimeout(START_TIMEOUT)
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
        self.control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("=qq", CONTROL_TIMEOUT, 0))

    def order(self, packet: bytes, descriptors: Sequence[int] = ()) -> None:
        if not self.alive:
            return
        try:
            socket.send_fds(self.control, [packet], descriptors)
        except (*GONE, BlockingIOError):
            workers.stop(self.process)  # the end of its control socket is read as its death

    def fork(self, count: int, limits: Limits) -> list[Child]:
        """Asks for children in one packet; each gets a socket that no other process holds once it has a job."""
        born, theirs = [], []
        for _ in range(count):
            ours, other = socket.socketpair()
            ours.setblocking(False)
            self._last_identity += 1
            born.append(Child(self, self._last_identity, ours, limits))
            theirs.append(other)
        orders = b"".join(FORK.pack(child.identity, limits.cpu, limits.memory) for child in born)
        self.children.update((child.identity, child) for child in born)
        self.order(b"F" + orders, [other.fileno() for other in theirs])
        for other in theirs:
            other.close()
        return born

    def await_ends(self, children: Sequence[Child]) -> None:
        """Asks the server to say at once when these have ended; it says so of others whenever it is told something."""
        asked = [child for child in children if not child.awaited]
        for child in asked:
            child.awaited = True
        if asked:
            self.order(b"W" + b"".join(IDENTITY.pack(child.identity) for child in asked))

    def take(self, ahead: int) -> Child:
        """A child that waits for a job. More are ordered, several at a time, when half of them are given away."""
        while self.ready and self.ready[0].status is not None:  # died waiting
            self.ready.popleft()
        if len(self.ready) <= ahead // 2:
            self.ready += self.fork(1 + ahead - len(self.ready), self.limits)
        return self.ready.popleft()

    def notices(self) -> list[Child]:
        """The children that have ended since the last look; all of them if the server itself has."""
        ended = []
        while self.alive:
            try:
                packet = self.control.recv(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return ended
            except ConnectionResetError:
                packet = b""
            if not packet or len(packet) % NOTICE.size:  # its last words, or none
                return ended + self.give_up(packet.decode(errors="replace").strip())
            for identity, status, used in NOTICE.iter_unpack(packet):
                child = self.children.pop(identity)
                child.status, child.used = status, used
                if child.killed == "wall" and os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
                    child.killed = ""  # it had ended by itself: our order came too late
                ended.append(child)
        return ended

    def give_up(self, last_words: str) -> list[Child]:
        """Counts the server and all its children as dead, and makes it so."""
        self.alive = False
        self.last_words = last_words
        workers.stop(self.process)
        for child in self.children.values():
            child.status, child.killed = 0, child.killed or "server"
        return list(self.children.values())
