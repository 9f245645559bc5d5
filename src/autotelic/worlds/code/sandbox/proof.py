"""Tries to break the sandbox and says what held. `autotelic doctor` shows it: isolation is proved, not assumed.

Each attempt is a program that does what a hostile one would, and the one outcome that means it was kept from it. The
test corpus is far longer; this is the part of it that every machine should see before it is trusted.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

from autotelic.errors import UserError
from autotelic.worlds.code.sandbox import values
from autotelic.worlds.code.sandbox.config import Limits, SandboxConfig
from autotelic.worlds.code.sandbox.outcome import Job, Outcome
from autotelic.worlds.code.sandbox.pool import Sandbox

_LIMITS = Limits(cpu=1, wall=3.0, memory=128)
_SECRET = "autotelic-proof-"
_KILLED = "forbidden syscall"

# A program that returns this word was stopped by an error it could catch.
_REFUSED = "refused"
_TRY = """
import os, socket, time
def f(*given):
    try:
        {}
    except OSError:
        return 'refused'
"""


class Held(NamedTuple):
    """One attempt to break out: what was tried, whether the sandbox held, and what came of it."""

    name: str
    held: bool
    detail: str


def prove(backend: str) -> list[Held]:
    """Opens a pool with this backend and attacks it. A backend that cannot start has held nothing."""
    try:
        with Sandbox(SandboxConfig(backend=backend, servers=1, limits=_LIMITS)) as sandbox:
            return [_held(name, attack, sandbox) for name, attack in _ATTACKS.items()]
    except UserError as error:
        return [Held("start", False, str(error))]


def _held(name: str, attack: Callable[[Sandbox], tuple[bool, str]], sandbox: Sandbox) -> Held:
    held, detail = attack(sandbox)
    if sandbox.replaced:
        held, detail = False, f"{detail}; a server died of it"
    return Held(name, held, detail)


def _run(sandbox: Sandbox, program: str, *args: Any) -> Outcome:
    return sandbox.run([Job(program, (values.encode(args),))])[0][0]


def _shown(outcome: Outcome) -> str:
    return f"ok {outcome.encoded}"[:200] if outcome.ok else str(outcome)[:200]


def _expect(line: str, *expected: str) -> Callable[[Sandbox], tuple[bool, str]]:
    """The line, tried by a program, must end in one of these outcomes; `refused` is an error the program saw."""

    def attack(sandbox: Sandbox) -> tuple[bool, str]:
        outcome = _run(sandbox, _TRY.format(line))
        refused = outcome.ok and outcome.value == _REFUSED
        ended = _REFUSED if refused else f"{outcome.kind} {outcome.detail}".strip()
        return ended in expected, _REFUSED if refused else _shown(outcome)

    return attack


def _host_file(sandbox: Sandbox) -> tuple[bool, str]:
    with tempfile.NamedTemporaryFile("w", prefix=_SECRET) as file:
        file.write(_SECRET)
        file.flush()
        os.chmod(file.name, 0o644)
        outcomes = [
            _run(sandbox, _TRY.format("return open(given[0]).read()"), path) for path in (file.name, "/etc/passwd")
        ]
    held = all(outcome.ok and outcome.value == _REFUSED for outcome in outcomes)
    return held, _REFUSED if held else ", ".join(map(_shown, outcomes))


def _whereabouts(sandbox: Sandbox) -> tuple[bool, str]:
    """Which files and processes there are, without opening any."""
    asked = ["/etc/passwd", "/proc/self", f"/proc/{os.getpid()}", os.path.abspath(__file__)]
    program = "import os\ndef f(paths):\n    return [os.path.lexists(path) for path in paths]"
    outcome = _run(sandbox, program, asked)
    return outcome.ok and not any(outcome.value), _shown(outcome)


def _environment(sandbox: Sandbox) -> tuple[bool, str]:
    outcome = _run(sandbox, "import os\ndef f():\n    return sorted(os.environ)")
    return outcome.ok and outcome.value == [], "empty" if outcome.encoded == '["l"]' else _shown(outcome)


def _forged_result(sandbox: Sandbox) -> tuple[bool, str]:
    """A result written into the channel by hand, before the one that the program returns."""
    outcome = _run(sandbox, "import os\ndef f():\n    os.write(3, (2).to_bytes(4, 'little') + b'v1')\n    return 2")
    return (outcome.kind, outcome.detail) == ("forbidden", "forged"), _shown(outcome)


def _next_builtins(sandbox: Sandbox) -> tuple[bool, str]:
    _run(sandbox, "import builtins\ndef f():\n    builtins.sum = builtins.len = lambda *_: 13\n    return 1")
    outcome = _run(sandbox, "def f():\n    return sum([20, 22]), len('ab')")
    return outcome.ok and outcome.value == (42, 2), "untouched" if outcome.encoded == '["t",42,2]' else _shown(outcome)


def _other_memory(sandbox: Sandbox) -> tuple[bool, str]:
    """One job keeps a secret and sleeps; another, beside and after it, looks through every text of its own process."""
    keeper = (
        "import time\ndef f(secret):\n    kept = [secret + str(n) for n in range(99)]\n    time.sleep(.3)\n    return 1"
    )
    hunter = """
import gc, time
def f(first, last):
    time.sleep(.1)
    seen = [t for o in gc.get_objects() for t in gc.get_referents(o) if type(t) is str]
    return sum(first + last in t for t in seen)
"""
    hunt = Job(hunter, (values.encode((_SECRET, "memory")),))
    _, beside = sandbox.run([Job(keeper, (values.encode((_SECRET + "memory",)),)), hunt])
    outcomes = [beside[0], sandbox.run([hunt])[0][0]]
    held = all(outcome.ok and outcome.value == 0 for outcome in outcomes)
    return held, "nothing found" if held else ", ".join(map(_shown, outcomes))


_ATTACKS: dict[str, Callable[[Sandbox], tuple[bool, str]]] = {
    "network": _expect("return socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach()", _KILLED, _REFUSED),
    "host file": _host_file,
    "whereabouts": _whereabouts,
    "write": _expect("return open('/tmp/autotelic-proof', 'w').write('x')", _REFUSED),
    "environment": _environment,
    "signal": _expect("return os.kill(os.getppid(), 0)", _KILLED, _REFUSED),
    "fork": _expect("return os.fork() and 1", _KILLED, _REFUSED),
    "thread": _expect(
        "return __import__('_thread').start_new_thread(time.sleep, (9,))", _KILLED, "exception RuntimeError"
    ),
    "program": _expect("return os.execv('/bin/true', ['true'])", _KILLED, _REFUSED),
    "memory": _expect("return len(bytearray(1 << 32))", "limit memory"),
    "processor": _expect("while True: pass", "limit cpu", "limit wall"),
    "waiting": _expect("time.sleep(100)", "limit wall"),
    "forged result": _forged_result,
    "next job's builtins": _next_builtins,
    "other job's memory": _other_memory,
}
