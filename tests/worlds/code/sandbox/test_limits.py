"""Programs that take too much of something, and what stops them."""

import time
from collections.abc import Callable

import pytest

from autotelic.worlds.code.sandbox import Job, Limits, Outcome, Sandbox, SandboxConfig

Attempt = Callable[..., Outcome]


def body(*lines: str) -> str:
    return "import os, sys, ctypes, mmap, signal, time\ndef f():\n" + "".join(f"    {line}\n" for line in lines)


MEMORY = {
    "list": body("a = []", "while True: a.append(a * 2 or [0] * 10 ** 6)"),
    "bytearray": body("return len(bytearray(1 << 40))"),
    "bytearray-steps": body("a = []", "while True: a.append(bytearray(1 << 22))"),
    "text": body("a = 'x'", "while True: a += a"),
    "shift": body("return 1 << (1 << 40)"),
    "power": body("a = 3", "while True: a = a * a"),
    "while-loading": "x = bytearray(1 << 40)\ndef f():\n    return 1",
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_limited(attempt: Attempt, name: str) -> None:
    outcome = attempt(MEMORY[name])
    allowed = ("limit memory", "limit cpu", "limit wall") if name == "power" else ("limit memory",)
    assert f"{outcome.kind} {outcome.detail}" in allowed


def test_mapped_memory_is_limited(attempt: Attempt) -> None:
    program = body(
        "held = []",
        "try:",
        "    while len(held) < 4096: held.append(mmap.mmap(-1, 1 << 20))",
        "except OSError:",
        "    pass",
        "return len(held)",
    )
    assert attempt(program).value < 256


def test_memory_from_the_c_library_is_limited(attempt: Attempt) -> None:
    program = body(
        "libc = ctypes.CDLL(None)",
        "libc.malloc.restype = ctypes.c_void_p",
        "return libc.malloc(ctypes.c_size_t(1 << 31))",
    )
    assert attempt(program).value is None


def test_all_of_the_promised_memory_can_be_used(attempt: Attempt) -> None:
    assert attempt(body("a = bytearray(100 << 20)", "a[::4096] = b'x' * len(a[::4096])", "return len(a)")).ok


PROCESSOR = {
    "loop": body("while True: pass"),
    "ignoring-the-signal": body("signal.signal(signal.SIGXCPU, lambda *_: None)", "while True: pass"),
    "blocking-all-signals": body("signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))", "while True: pass"),
    "catching": body("while True:", "    try:", "        while True: pass", "    except BaseException: pass"),
    "arithmetic": body("return pow(7, 1 << 10 ** 6, 10 ** 20000) % 10"),
    "regular-expression": "import re\ndef f():\n    return re.match('(a*)*$', 'a' * 40 + 'b') is None",
    "print": body("while True: print('x' * 1000)"),
    "while-loading": "while True: pass",
}


@pytest.mark.parametrize("name", PROCESSOR)
def test_processor_time_is_limited(attempt: Attempt, name: str) -> None:
    start = time.monotonic()
    outcome = attempt(PROCESSOR[name])
    # On a machine busy with other work the wall clock may run out first.
    assert f"{outcome.kind} {outcome.detail}" in ("limit cpu", "limit wall")
    assert time.monotonic() - start < 4.0


WALL = {
    "sleep": body("time.sleep(100)"),
    "ignoring-signals": body("[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 13, 15, 24)]", "time.sleep(100)"),
    "pause": body("signal.pause()"),
    "read-own-channel": body("os.read(3, 1)"),
    "read-pipe": body("os.read(os.pipe()[0], 1)"),
    "lock": "import _thread\ndef f():\n    lock = _thread.allocate_lock()\n    lock.acquire()\n    lock.acquire()",
    "after-answering": body("os.write(3, (2).to_bytes(4, 'little') + b'v1')", "time.sleep(100)"),
    "in-a-finaliser": "import time\nclass A:\n    def __del__(self):\n        time.sleep(100)\ndef f():\n    A()",
    "closed-channel": body("os.close(3)", "time.sleep(100)"),
}


def test_waiting_is_limited(backend: str, healthy: Callable[[Sandbox], None]) -> None:
    start = time.monotonic()
    with Sandbox(SandboxConfig(backend=backend, servers=2, lanes=len(WALL), limits=Limits(wall=1.0))) as sandbox:
        outcomes = sandbox.run([Job(program, ('["t"]',)) for program in WALL.values()])
        ends = {name: str(outcome) for name, (outcome,) in zip(WALL, outcomes, strict=True)}
        assert ends == dict.fromkeys(WALL, "limit wall")
        assert time.monotonic() - start < 10.0
        healthy(sandbox)


RECURSION = {
    "plain": ("def f():\n    return f()", ("exception RecursionError",)),
    "raised": (
        "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f():\n    return f()",
        ("exception RecursionError", "limit memory", "limit cpu", "limit wall", "crash SIGSEGV"),
    ),
    "raised-through-c": (
        "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f():\n    return sorted([0], key=lambda _: f())",
        ("exception RecursionError", "limit memory", "limit cpu", "limit wall", "crash SIGSEGV"),
    ),
    "repr": (
        "def f():\n    a = []\n    for _ in range(10 ** 5): a = [a]\n    return repr(a)",
        ("exception RecursionError",),
    ),
    "freed": ("def f():\n    a = []\n    for _ in range(10 ** 6): a = [a]\n    return 1", ("ok",)),
    "parser": ("def f():\n    return eval('(' * 150 + '1' + ')' * 150)", ("ok",)),
    "parser-too-deep": ("def f():\n    return eval('-' * 10 ** 6 + '1')",
                        ("exception RecursionError", "exception MemoryError", "limit memory", "crash SIGSEGV")),
}  # fmt: skip


@pytest.mark.parametrize("name", RECURSION)
def test_recursion_ends_in_a_class_of_its_own(attempt: Attempt, name: str) -> None:
    program, allowed = RECURSION[name]
    outcome = attempt(program)
    assert f"{outcome.kind} {outcome.detail}".strip() in allowed


FLOODS = {
    "bytes": body("while True: os.write(3, b'x' * 65536)"),
    "frames": body("frame = ((2).to_bytes(4, 'little') + b'v1') * 10000", "while True: os.write(3, frame)"),
    "one-huge-frame": body("os.write(3, (1 << 31).to_bytes(4, 'little'))", "while True: os.write(3, b'x' * 65536)"),
    "empty-frames": body("while True: os.write(3, bytes(65536))"),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_on_the_channel_is_a_forgery(attempt: Attempt, name: str) -> None:
    outcome = attempt(FLOODS[name])
    assert (outcome.kind, outcome.detail) == ("forbidden", "forged")


def test_descriptors_are_limited(attempt: Attempt) -> None:
    program = body("n = 0", "try:", "    while n < 100000: os.dup(0); n += 1", "except OSError: pass", "return n")
    assert attempt(program).value <= 256


def test_pipes_cannot_hold_much(attempt: Attempt) -> None:
    program = body(
        "total = 0",
        "try:",
        "    while True:",
        "        r, w = os.pipe()",
        "        os.set_blocking(w, False)",
        "        try:",
        "            while True: total += os.write(w, bytes(65536))",
        "        except BlockingIOError: pass",
        "except OSError: return total",
    )
    assert attempt(program).value <= 16 << 20


@pytest.mark.parametrize("name", ["SIGXCPU", "SIGKILL"])
def test_a_time_limit_cannot_be_claimed_without_using_the_time(pool: Sandbox, name: str) -> None:
    program = f"import os, signal\ndef f():\n    os.kill(os.getpid(), signal.{name})"
    assert pool.run([Job(program, ('["t"]',))])[0][0] == Outcome("crash", detail=name)
