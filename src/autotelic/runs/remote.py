"""A module of ours in a process of its own, and the connection to it.

The module's `main` is given the number of its end of the connection and further arguments. Both ends are this
program's, so objects go through it pickled.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autotelic.errors import UserError
from autotelic.runs import workers

# What is importable here is importable there, in the same order, without a variable that programs which an environment
# starts would inherit.
PROGRAM = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main(int(sys.argv[3]), *sys.argv[4:])"
)
DONE, FAILED = b"+", b"-"  # answers; a failure is followed by what there is to say of it
PATIENCE = 10.0  # seconds it has to end by itself
HERE = f"{Path(__file__).parents[1]}/"  # this package
LIBRARIES = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "purelib", "platlib"))


class Channel:
    """One end of a connection. Single bytes go as they are, objects are pickled."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.send = end.sendall
        self.receive = end.recv

    def send_object(self, value: Any) -> None:
        content = pickle.dumps(value)
        self.send(struct.pack("!Q", len(content)) + content)

    def receive_object(self) -> Any:
        (length,) = struct.unpack("!Q", self._receive_all(8))
        return pickle.loads(self._receive_all(length))

    def _receive_all(self, length: int) -> bytes:
        content = bytearray()
        while len(content) < length:
            part = self.receive(min(length - len(content), 1 << 20))
            if not part:
                raise EOFError("the other end of the connection is gone")
            content += part
        return bytes(content)

    def fail(self, line: str) -> None:
        """Tells of the exception that is being handled: `line` to the user, where it happened to who debugs."""
        self.send(FAILED)
        self.send_object((line, traceback.format_exc()))

    def close(self) -> None:
        self.end.close()


class Remote:
    """The process, seen from here."""

    def __init__(self, module: str, *arguments: str, pass_fds: Sequence[int] = ()) -> None:
        here, there = socket.socketpair()
        with there:
            path = json.dumps([entry or os.getcwd() for entry in sys.path])
            self.process: subprocess.Popen[bytes] = workers.start(
                [sys.executable, "-c", PROGRAM, path, module, str(there.fileno()), *arguments],
                stdout=2,  # what environments print must not come between the lines of a result
                pass_fds=[there.fileno(), *pass_fds],
                env={**os.environ, "OMP_NUM_THREADS": "1"},  # the processes share the processors already
                lifeline=True,
            )
        self.channel = Channel(here)

    def answer(self, *, objects: bool = True) -> Any:
        """What it answers. A failure of its own is raised here; so is EOFError or ConnectionError, when it is gone."""
        answer = self.channel.receive(1)
        if answer == FAILED:
            line, where = self.channel.receive_object()
            error = UserError(line)
            error.add_note(where)  # for --debug
            raise error
        if answer != DONE:
            raise EOFError("it closed its connection")
        return self.channel.receive_object() if objects else None

    def how_it_ended(self) -> str:
        code = workers.wait(self.process, PATIENCE)
        if code is None:
            return "closed its connection"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def hang_up(self) -> None:
        """Asks it to end."""
        self.channel.close()

    def close(self, patience: float = PATIENCE) -> None:
        """After so many seconds it is stopped."""
        self.hang_up()
        if patience > 0:
            workers.wait(self.process, patience)
        workers.stop(self.process)


def serve(connection: int, answers: Callable[[Channel], None], who: str) -> None:
    """What a module's `main` does: answers until the other end is closed. An exception is told to who asked, as one of
    `who`, and the process ends."""
    workers.follow_lifeline()
    channel = Channel(socket.socket(fileno=connection))
    try:
        answers(channel)
    except BaseException as error:
        line = str(error) if isinstance(error, UserError) else f"{who} raised {described(error)}"
        with contextlib.suppress(OSError):  # unless nobody is there any more
            channel.fail(line)


def described(error: BaseException) -> str:
    """An exception in one line: its class, its message, and the last line it came through that is the user's own; where
    it came through none, that of a library."""
    message = " ".join(str(error).split())[:1000]
    line = f"{type(error).__name__}: {message}" if message else type(error).__name__
    passed = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in passed if not frame.filename.startswith((HERE, "<"))]
    own = [frame for frame in frames if not frame.filename.startswith(LIBRARIES)]
    for frame in (own or frames)[-1:]:
        line += f" ({frame.filename}:{frame.lineno})"
    return line
