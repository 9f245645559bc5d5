"""The one place that starts processes and listens to signals.

Every worker leads its own session, so that stopping it stops what it started, and Ctrl-C in the terminal reaches this
process alone, which decides. Workers are stopped when this process ends in any way it can notice. For the way it
cannot (SIGKILL) each worker is given one end of a lifeline pipe, which closes with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from autotelic.errors import UserError

LIFELINE = "AUTOTELIC_LIFELINE"

_live: dict[int, subprocess.Popen[Any]] = {}
_guard = threading.RLock()
_lifeline: tuple[int, int] | None = None


def _lifeline_read_end() -> int:
    """A pipe nobody writes to: its read end reports the end of file once this process is gone."""
    global _lifeline
    with _guard:
        if _lifeline is None:
            _lifeline = os.pipe()
        return _lifeline[0]


def start(
    argv: Sequence[str],
    *,
    stdin: int | IO[Any] | None = None,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    pass_fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    lifeline: bool = False,
) -> subprocess.Popen[bytes]:
    """Starts a program, never through a shell. `stdin` is empty unless given; `env` replaces the whole environment.

    With `lifeline` the worker can learn of this process's death: see `follow_lifeline`.
    """
    environment = dict(os.environ if env is None else env)
    descriptors = list(pass_fds)
    if lifeline:
        descriptors.append(_lifeline_read_end())
        environment[LIFELINE] = str(descriptors[-1])
    try:
        worker = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(descriptors),
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(f"cannot start {argv[0]}: {error.strerror or error}") from error
    with _guard:
        _live[worker.pid] = worker
    return worker


def stop(worker: subprocess.Popen[Any], *, patience: float = 0.0) -> int:
    """Ends a worker and everything in its process group; returns its exit code. `patience` seconds pass between
    asking (SIGTERM) and killing (SIGKILL); 0 kills at once."""
    if patience > 0 and worker.poll() is None:
        _signal_group(worker.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(patience)
    _kill_group(worker)
    code = worker.wait()
    with _guard:
        _live.pop(worker.pid, None)
    for stream in (worker.stdin, worker.stdout, worker.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    return code


def wait(worker: subprocess.Popen[Any], seconds: float) -> int | None:
    """The exit code of a worker that ends within the time, or None."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return worker.wait(seconds)
    return None


def live() -> list[subprocess.Popen[Any]]:
    """Workers that were started and not stopped."""
    with _guard:
        return list(_live.values())


def stop_all() -> None:
    for worker in live():
        _kill_group(worker)
    for worker in live():
        stop(worker)


def output(argv: Sequence[str], *, timeout: float = 10.0, cwd: str | None = None) -> str | None:
    """What a short command prints, or None when it is missing, fails or takes too long."""
    try:
        worker = start(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd)
    except UserError:
        return None
    try:
        printed, _ = worker.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        stop(worker)
    return printed.decode(errors="replace").strip() if worker.returncode == 0 else None


def follow_lifeline() -> None:
    """In a worker started with `lifeline`: asks this process to stop (SIGTERM) when the one that started it is gone."""
    descriptor = os.environ.pop(LIFELINE, None)
    if descriptor is None or not descriptor.isdigit():
        return

    def wait_for_the_end(read_end: int) -> None:
        try:
            os.read(read_end, 1)
        except OSError:
            return  # not our descriptor: the variable was inherited through a program that closed it
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_for_the_end, args=(int(descriptor),), daemon=True, name="lifeline").start()


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _kill_group(worker: subprocess.Popen[Any]) -> None:
    """Until the worker is reaped its number is its own. After that the number may be anybody's, unless members of its
    session remain: only then is it signalled."""
    if worker.returncode is None or _session_members(worker.pid):
        _signal_group(worker.pid, signal.SIGKILL)


def _session_members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        if int(fields[3]) == session:
            found.append(int(entry.parent.name))
    return found


def _forget_in_fork() -> None:
    # A fork of this process must not end its parent's workers when it exits.
    global _lifeline
    _live.clear()
    _lifeline = None


atexit.register(stop_all)
os.register_at_fork(after_in_child=_forget_in_fork)


@dataclass
class Stop:
    """Whether the user asked to stop, and how."""

    signal: int | None = None

    @property
    def requested(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program ended by that signal: 130 for Ctrl-C, 143 for SIGTERM."""
        return 0 if self.signal is None else 128 + self.signal


@contextlib.contextmanager
def graceful_stop(announce: Callable[[str], None] | None = None) -> Iterator[Stop]:
    """Inside the block the first SIGINT or SIGTERM only sets a flag; the second ends the process at once.

    `announce` is given one line on the first signal. It runs inside the handler: print, nothing more.
    """
    asked = Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        if asked.requested:
            stop_all()
            os._exit(128 + number)
        asked.signal = number
        if announce is not None:
            announce("stopping after this step; once more to stop at once")

    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, handle) for number in numbers]
    try:
        yield asked
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)


class TerminatedError(SystemExit):
    """SIGTERM, where nothing listens to it in another way."""

    # Whether one was raised since we listen: code that is not Python's may turn it into an error of its own.
    came = False


def exit_on_sigterm() -> None:
    """Makes SIGTERM end this process the orderly way, so that workers are stopped; for the command line's start."""
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread may say what a signal does

    def handle(number: int, frame: FrameType | None) -> None:
        TerminatedError.came = True
        raise TerminatedError(128 + number)

    TerminatedError.came = False
    signal.signal(signal.SIGTERM, handle)
