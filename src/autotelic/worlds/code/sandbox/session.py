"""A program that stays alive while the host calls its functions and answers its questions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from autotelic.worlds.code.sandbox import values
from autotelic.worlds.code.sandbox.config import Limits
from autotelic.worlds.code.sandbox.outcome import MAX_REASON, Outcome, Remote, outcome_of, session_text
from autotelic.worlds.code.sandbox.servers import LENGTH, Server, frame, readable

if TYPE_CHECKING:
    from autotelic.worlds.code.sandbox.pool import Sandbox

Answer = Callable[[str, str, tuple, dict], Any]  # remote, method, arguments, keyword arguments → value


class RemoteError(Exception):
    """Raised by an `answer` function: the program sees it as an exception of its own, of the builtin type named."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Session:
    """One living program. `call` runs one of its functions; while it runs, its own calls are answered by the host."""

    def __init__(self, sandbox: Sandbox, server: Server, program: str, limits: Limits) -> None:
        self._sandbox = sandbox
        self._limits = limits
        self._closed = False
        self._patience = limits.wall  # seconds left to wait for the program, over all calls
        self._child = server.fork(1, limits)[0]
        self._child.bound = limits.output + MAX_REASON
        self._remotes: set[tuple[str, str]] = set()  # what the program may ask: remote, method
        try:
            self._child.send(frame("J", session_text(program, limits.output)), limits.wall)
            self.loaded = self._converse(None)  # what became of loading the program: ok, syntax, exception, …
        except BaseException:
            self.close()
            raise

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
        if child.status is None and readable(child.channel, 0):
            child.read()
        if child.buffer:  # an answer to a call that had not been made
            child.kill("flood")
        if child.status is not None or child.killed:
            return self._end()
        child.send(frame("C", json.dumps([entry, given])), self._patience)
        return self._converse(answer)

    def close(self) -> None:
        if not self._closed and self._child.status is None:
            self._child.channel.close()
            self._child.kill("wall")
        self._closed = True
        self._sandbox.tidy()

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
                reply = frame("A", values.encode(answer(*asked)))
            except RemoteError as error:
                reply = frame("X", json.dumps([error.kind, str(error)]))
            except BaseException:
                self.close()  # the program would take the next call for its answer
                raise
            if self._child.status is None:  # `answer` may have used the sandbox, which heard of the program's end
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
            if len(buffer) >= LENGTH.size:
                size = LENGTH.unpack_from(buffer)[0]
                if len(buffer) >= LENGTH.size + size and size:
                    said = buffer[LENGTH.size : LENGTH.size + size].decode("ascii", "replace")
                    del buffer[: LENGTH.size + size]
                    return said[0], said[1:]
            if child.status is not None:
                break
            asked = time.monotonic()
            ready = readable(child.channel, self._patience)
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
            self._child.server.await_ends([self._child])
        while self._child.status is None:
            self._sandbox.attend((self._child,))
        return self._child.death()
