"""Jobs and what came of them: plain data on both sides."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from autotelic.worlds.code.sandbox import values

MAX_REASON = 8192  # bytes of a frame that carries no value


@dataclass(frozen=True)
class Job:
    """One program and the inputs to call it with, each a canonical text of the tuple of arguments.

    The program is loaded afresh for every input. `server` picks the server, and with it the hash seed; None lets
    the job's own content decide, so that the same job always meets the same hash seed.

    `after` are jobs that the same process does next, whose outcomes follow. A process is never shared by programs that
    could touch it: see purity.py.
    """

    program: str
    inputs: tuple[str, ...]
    entry: str = "f"
    server: int | None = None
    after: tuple[Job, ...] = ()

    @property
    def calls(self) -> int:
        return len(self.inputs) + sum(len(job.inputs) for job in self.after)

    def text(self, output: int) -> str:
        """What a child is told of its job, and how many bytes a value may have."""
        parts = [part for job in self.after for part in (job.program, job.entry, job.inputs)]
        return json.dumps([self.program, output, self.entry, self.inputs, *parts])


def session_text(program: str, output: int) -> str:
    """What the child of a session is told."""
    return json.dumps([program, output])


@dataclass(frozen=True)
class Remote:
    """An object that lives with the host: in the program it has these methods, and each call is answered outside."""

    name: str
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of one call. The class is data, decided by the kernel and the trusted side, never found in text."""

    kind: str
    encoded: str | None = None  # canonical text of the value, for ok
    detail: str = ""  # which limit, exception, signal, type or way to cheat: see `death` in servers.py and `outcome_of`
    message: str = ""

    KINDS: ClassVar[tuple[str, ...]] = ("ok", "syntax", "exception", "limit", "forbidden", "crash", "unsupported")

    @property
    def ok(self) -> bool:
        return self.kind == "ok"

    @cached_property
    def value(self) -> Any:
        if self.encoded is None:
            raise ValueError(f"no value: the outcome is {self.kind} {self.detail}")
        return values.decode(self.encoded, max_bytes=values.MAX_BYTES + 2 * len(self.encoded))

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.detail, self.message) if part)


def outcome_of(tag: str, text: str, output: int) -> Outcome:
    """What a frame says, if it is one that our side of the process could have sent; any other is a forgery."""
    try:
        if tag == "v":
            values.decode(text, max_bytes=output)
            return Outcome("ok", encoded=text)
        if len(text) > MAX_REASON:
            raise ValueError("a reason longer than ours")
        if tag == "l" and text in ("size", "depth", "int", "memory"):
            return Outcome("limit", detail=text)
        if tag == "u":
            return Outcome("unsupported", detail=text)
        if tag == "s":
            return Outcome("syntax", message=text)
        if tag == "e":
            told = json.loads(text)
            if type(told) is list and [type(part) for part in told] == [str, str]:
                return Outcome("exception", detail=_writable(told[0]), message=_writable(told[1]))
    except (ValueError, TypeError, RecursionError, values.Malformed):
        pass
    return Outcome("forbidden", detail="forged", message=f"a frame that means nothing: {tag!r}")


def _writable(text: str) -> str:
    """Without lone surrogates, which no file, terminal or database takes."""
    return text.encode(errors="backslashreplace").decode()
