"""Each way a program can end has its own outcome, decided by what happened and not by what was printed."""

from collections.abc import Callable

import pytest

from autotelic.worlds.code.sandbox import Job, Outcome, Sandbox, values

Attempt = Callable[..., Outcome]


def body(*lines: str) -> str:
    return "import os, sys, ctypes, signal, time\ndef f():\n" + "".join(f"    {line}\n" for line in lines)


ENDS = {
    "value": (body("return 1"), "ok"),
    "nothing": (body("pass"), "ok"),
    "syntax": ("def f(:", "syntax"),
    "indentation": ("def f():\nreturn 1", "syntax"),
    "null-byte": ("def f():\n    return 1\0", "syntax"),
    "surrogate": ("x = '\ud800'\ndef f():\n    return x", "syntax"),
    "nested-parentheses": ("(" * 5000 + ")" * 5000, "syntax"),
    "long-sum": ("x = " + "+".join("1" * 20_000) + "\ndef f():\n    return 1", "ok|syntax|crash SIGSEGV"),
    "no-entry": ("def g():\n    return 1", "exception KeyError"),
    "wrong-arguments": ("def f(a, b):\n    return 1", "exception TypeError"),
    "not-callable": ("f = 3", "exception TypeError"),
    "error": (body("return 1 // 0"), "exception ZeroDivisionError"),
    "error-while-loading": ("1 // 0\ndef f():\n    return 1", "exception ZeroDivisionError"),
    "syntax-error-while-running": (body("return eval('1 +')"), "exception SyntaxError"),
    "sys-exit": (body("sys.exit(0)"), "exception SystemExit"),
    "keyboard-interrupt": (body("raise KeyboardInterrupt"), "exception KeyboardInterrupt"),
    "generator-exit": (body("raise GeneratorExit"), "exception GeneratorExit"),
    "exit-0": (body("os._exit(0)"), "crash exit 0"),
    "exit-1": (body("os._exit(1)"), "crash exit 1"),
    "exit-77": (body("os._exit(77)"), "crash exit 77"),
    "exit-255": (body("os._exit(255)"), "crash exit 255"),
    "abort": (body("os.abort()"), "crash SIGABRT"),
    "segfault": (body("ctypes.string_at(0)"), "crash SIGSEGV"),
    "write-to-nowhere": (body("ctypes.memset(8, 0, 8)"), "crash SIGSEGV"),
    "kill-oneself": (body("os.kill(os.getpid(), 9)"), "crash SIGKILL"),
    "terminate-oneself": (body("os.kill(os.getpid(), 15)"), "crash SIGTERM"),
    "real-time-signal": (body("os.kill(os.getpid(), 40)", "time.sleep(1)"), "crash signal 40"),
    "alarm": (body("signal.alarm(1)", "time.sleep(1.9)"), "crash SIGALRM"),
    "timer": (body("signal.setitimer(signal.ITIMER_REAL, .05)", "time.sleep(1.9)"), "crash SIGALRM"),
    "stop-oneself": (body("os.kill(os.getpid(), signal.SIGSTOP)", "return 1"), "limit wall"),
    "closed-channel": (body("os.close(3)", "return 1"), "crash exit 0"),
    "closed-everything": (body("os.closerange(0, 256)", "return 1"), "crash exit 0"),
    "channel-over-null": (body("os.dup2(0, 3)", "return 1"), "crash exit 0"),
    "channel-over-pipe": (body("os.dup2(os.pipe()[1], 3)", "return 1"), "crash exit 0"),
    "object": (body("return object()"), "unsupported object"),
    "complex": (body("return 1j"), "unsupported complex"),
    "generator": (body("return (i for i in 'ab')"), "unsupported generator"),
    "function": (body("return f"), "unsupported function"),
    "module": (body("return os"), "unsupported module"),
    "type": (body("return int"), "unsupported type"),
    "range": (body("return range(3)"), "unsupported range"),
    "bytearray": (body("return bytearray(3)"), "unsupported bytearray"),
    "ellipsis": (body("return ..."), "unsupported ellipsis"),
    "not-implemented": (body("return NotImplemented"), "unsupported NotImplementedType"),
    "nested-object": (body("return {'a': [(1, {2: object()})]}"), "unsupported object"),
    "self-reference": (body("a = []", "a.append(a)", "return a"), "limit depth"),
    "self-reference-dict": (body("a = {}", "a[1] = [a]", "return a"), "limit depth"),
    "mutual-reference": (body("a, b = [], []", "a.append(b)", "b.append(a)", "return a"), "limit depth"),
    "deep": (body("a = ()", "for _ in range(100000): a = (a,)", "return a"), "limit depth"),
    "wide-reference": (body("a = [1] * 10", "for _ in range(50): a = [a] * 10", "return a"), "limit size"),
    "long-text": (body("return 'a' * 10 ** 7"), "limit size"),
    "long-bytes": (body("return b'a' * 10 ** 7"), "limit size"),
    "long-list": (body("return [0] * 10 ** 6"), "limit size"),
    "huge-int": (body("return 1 << 10 ** 6"), "limit int"),
    "digits": (body("return str(10 ** 5000)"), "exception ValueError"),
    "digits-unlimited": (body("sys.set_int_max_str_digits(0)", "return len(str(10 ** 5000))"), "ok"),
    "breaks-out-of-quotes": ('def f():\n    return \'"]\\n"v"1\'', "ok"),
    "claims-an-error": (body("return 'error: exception limit forbidden crash'"), "ok"),
    "prints": (body("print('v1')", "print('x', file=sys.stderr)", "os.write(1, b'v1')", "return 1"), "ok"),
    "reads-input": (body("return input()"), "exception EOFError"),
}


@pytest.mark.parametrize("name", ENDS)
def test_every_end_has_its_outcome(attempt: Attempt, name: str) -> None:
    program, expected = ENDS[name]
    outcome = attempt(program)
    assert outcome.kind in Outcome.KINDS
    assert f"{outcome.kind} {outcome.detail}".strip() in expected.split("|"), outcome


def test_the_message_of_an_exception_is_its_first_argument(attempt: Attempt) -> None:
    assert attempt("def f():\n    raise ValueError('why', 2)") == Outcome("exception", None, "ValueError", "why")
    assert attempt("def f():\n    raise ValueError(2)").message == ""


def test_a_message_can_always_be_written_down(attempt: Attempt) -> None:
    outcome = attempt("def f():\n    raise ValueError(chr(0xd800) + 'x' * 10 ** 6)")
    outcome.message.encode()
    assert len(outcome.message) < 1000


def test_inputs_of_one_job_have_outcomes_of_their_own(pool: Sandbox) -> None:
    program = "seen = []\ndef f(a):\n    seen.append(a)\n    return 6 // a, len(seen)"
    given = tuple(values.encode((a,)) for a in (1, 0, 2))
    one, none, two = pool.run([Job(program, given)])[0]
    assert (one.value, none.detail, two.value) == ((6, 1), "ZeroDivisionError", (3, 1))


def test_inputs_after_a_crash_are_reported_as_crashed(pool: Sandbox) -> None:
    program = "import os\ndef f(a):\n    return a if a else os._exit(3)"
    outcomes = pool.run([Job(program, tuple(values.encode((a,)) for a in (1, 0, 2)))])[0]
    assert [str(outcome) for outcome in outcomes] == ["ok", "crash exit 3", "crash exit 3"]


def test_a_job_without_inputs_has_no_outcomes(pool: Sandbox) -> None:
    assert pool.run([Job("def f():\n    return 1", ())]) == [()]
    assert pool.run([]) == []


DEPENDENT = {
    "hash-seed": ("def f():\n    return hash('a')", True),
    "set-order": ("def f():\n    return list({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})", True),
    "random": ("import random\ndef f():\n    return random.random()", True),
    "id": ("def f():\n    return id(object)", None),
    "pid": ("import os\ndef f():\n    return os.getpid()", False),
    "time": ("import time\ndef f():\n    return time.time_ns()", False),
    "urandom": ("import os\ndef f():\n    return os.urandom(8)", False),
    "fresh-random": ("import random\ndef f():\n    return random.SystemRandom().random()", False),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_what_depends_on_chance_differs_between_servers(attempt: Attempt, name: str) -> None:
    program, repeats = DEPENDENT[name]
    first, again, other = (attempt(program, server=server).encoded for server in (0, 0, 1))
    if name != "pid":  # in namespaces of their own two servers may count alike
        assert first != other
    if repeats is not None:
        assert (first == again) is repeats
