"""The pool when things go wrong on the host's side: dead and stuck servers, signals, a host that is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autotelic.errors import UserError
from autotelic.runs import workers
from autotelic.worlds.code.sandbox import Job, Limits, Outcome, Sandbox, SandboxConfig, backends, values

NO_INPUT = values.encode(())
HONEST = "def f(a):\n    return a * 2"


def honest(n: int, server: int | None = None) -> Job:
    return Job(HONEST, (values.encode((n,)),), server=server)


def server_pid(sandbox: Sandbox, index: int, descendants: Callable[[int], list[int]]) -> int:
    """The interpreter that forks: where the backend keeps it under others, the third in the line."""
    top = sandbox._servers[index].process.pid
    return top if sandbox.config.backend == "sandlock" else descendants(top)[1]


def test_a_mixed_batch_has_its_outcomes_in_order(pool: Sandbox, healthy: Callable[[Sandbox], None]) -> None:
    bad = {
        5: ("def f():\n    while True: pass", ("limit cpu", "limit wall")),
        25: ("import time\ndef f():\n    time.sleep(100)", ("limit wall",)),
        45: ("import os\ndef f():\n    os.fork()", ("forbidden syscall",)),
        65: ("import ctypes\ndef f():\n    ctypes.string_at(0)", ("crash SIGSEGV",)),
        85: ("def f(:", ("syntax",)),
        105: ("def f():\n    return object()", ("unsupported object",)),
        125: ("def f():\n    return 1 // 0", ("exception ZeroDivisionError",)),
        145: ("def f():\n    return bytearray(1 << 40)", ("limit memory",)),
        165: ("import os\ndef f():\n    os._exit(0)", ("crash exit 0",)),
        185: ("import os\ndef f():\n    while True: os.write(3, bytes(65536))", ("forbidden forged",)),
    }
    jobs = [Job(bad[n][0], (NO_INPUT,)) if n in bad else honest(n) for n in range(200)]
    for n, (outcome,) in enumerate(pool.run(jobs)):
        if n in bad:
            assert f"{outcome.kind} {outcome.detail}".strip() in bad[n][1]
        else:
            assert outcome.value == 2 * n
    healthy(pool)


def test_jobs_that_come_after_another_have_their_outcomes_in_order(pool: Sandbox) -> None:
    after = (Job("def g(a):\n    return a // 0", (values.encode((1,)),), "g"), Job("def f(:", (NO_INPUT,)), honest(5))
    shared = Job(HONEST, (values.encode((1,)), values.encode((2,))), after=after)
    (alone,), found = pool.run([honest(7), shared])
    assert alone.value == 14
    assert [outcome.kind for outcome in found] == ["ok", "ok", "exception", "syntax", "ok"]
    assert [outcome.value for outcome in found if outcome.ok] == [2, 4, 10]


def test_the_same_job_meets_the_same_server(pool: Sandbox) -> None:
    job = Job("def f():\n    return hash('a')", (NO_INPUT,))
    assert len({pool.run([honest(n), job])[1][0].encoded for n in range(4)}) == 1


def test_a_killed_server_is_replaced_and_only_its_jobs_are_lost(
    own_pool: Sandbox, descendants: Callable[[int], list[int]], healthy: Callable[[Sandbox], None]
) -> None:
    pid = server_pid(own_pool, 0, descendants)
    # A process of its own kills it, while the batch runs.
    killer = subprocess.Popen([sys.executable, "-c", f"import os, time; time.sleep(.4); os.kill({pid}, 9)"])
    sleeper = "import time\ndef f():\n    time.sleep(1.2)\n    return 1"
    jobs = [Job(sleeper, (NO_INPUT,), server=0), Job(sleeper, (NO_INPUT,), server=1)]
    lost, kept = own_pool.run(jobs)
    killer.wait()
    assert (lost[0].kind, lost[0].detail) == ("crash", "server")
    assert kept[0].value == 1
    assert own_pool.replaced == 1
    assert [outcome.value for (outcome,) in own_pool.run([honest(n) for n in range(20)])] == [2 * n for n in range(20)]
    healthy(own_pool)


def test_every_server_killed_at_rest_is_replaced(
    own_pool: Sandbox, descendants: Callable[[int], list[int]], healthy: Callable[[Sandbox], None]
) -> None:
    for index in range(2):
        os.kill(server_pid(own_pool, index, descendants), signal.SIGKILL)
    time.sleep(0.2)
    own_pool.run([honest(1, server=0), honest(1, server=1)])  # these may be lost
    assert own_pool.replaced == 2
    healthy(own_pool)


def test_a_waiting_child_killed_from_outside_costs_no_job(
    own_pool: Sandbox, descendants: Callable[[int], list[int]], healthy: Callable[[Sandbox], None]
) -> None:
    healthy(own_pool)
    children = descendants(server_pid(own_pool, 0, descendants))
    assert children
    for child in children:
        os.kill(child, signal.SIGKILL)
    time.sleep(0.2)
    outcomes = [outcome for (outcome,) in own_pool.run([honest(n, server=0) for n in range(10)])]
    assert [outcome.value for outcome in outcomes] == [2 * n for n in range(10)]
    assert own_pool.replaced == 0
    healthy(own_pool)


@pytest.mark.parametrize("server", [0, 1])
@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        (HONEST, Outcome("ok", encoded="2")),
        ("import os\ndef f(a):\n    os.fork()", Outcome("forbidden", detail="syscall")),
    ],
)
def test_an_end_beside_a_slow_program_is_not_taken_for_a_time_limit(
    pool: Sandbox, program: str, outcome: Outcome, server: int
) -> None:
    slow = "import time\ndef f(a):\n    time.sleep(100)"
    given = (values.encode((1,)),)
    outcomes = pool.run([Job(program, given, server=0), *[Job(slow, given, server=server)] * 3])
    assert [found for (found,) in outcomes] == [outcome, *[Outcome("limit", detail="wall")] * 3]


def test_programs_that_end_while_the_host_is_away_have_their_outcomes(
    pool: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    give = pool._give

    def give_and_sleep(*given) -> None:
        give(*given)
        time.sleep(1.1 * pool.config.limits.wall)

    monkeypatch.setattr(pool, "_give", give_and_sleep)
    assert pool.run([honest(4)])[0][0].value == 8


def test_a_server_that_dies_without_children_is_replaced(backend: str, healthy: Callable[[Sandbox], None]) -> None:
    with Sandbox(SandboxConfig(backend=backend, servers=1, ahead=1)) as sandbox:
        while sandbox._servers[0].children:
            sandbox.run([honest(1)])
        workers.stop(sandbox._servers[0].process)
        time.sleep(0.2)  # where the backend keeps the server under others, it dies after them
        sandbox.tidy()
        assert sandbox.replaced == 1
        healthy(sandbox)


def test_a_server_whose_source_does_not_compile_says_so(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_sources", lambda: {"inside": "def serve(:"})
    with pytest.raises(UserError, match="SyntaxError"):
        Sandbox(SandboxConfig(backend=backend, servers=1))


def test_a_stopped_server_does_not_hold_the_pool(
    own_pool: Sandbox,
    descendants: Callable[[int], list[int]],
    eventually: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autotelic.worlds.code.sandbox.servers.KILL_TIMEOUT", 1.0)
    pid = server_pid(own_pool, 0, descendants)
    os.kill(pid, signal.SIGSTOP)
    start = time.monotonic()
    big = "x = '" + "a" * 2_000_000 + "'\n" + HONEST
    outcomes = [outcome for (outcome,) in own_pool.run([honest(1, 1), Job(big, ('["t",1]',), server=0), honest(2, 1)])]
    assert outcomes[0].value == 2
    assert outcomes[1].kind in ("limit", "crash")
    assert outcomes[2].value == 4
    assert time.monotonic() - start < 20
    assert own_pool.replaced == 1
    assert eventually(lambda: not Path(f"/proc/{pid}").exists() or b") Z" in Path(f"/proc/{pid}/stat").read_bytes())
    assert own_pool.run([honest(3, server=0)])[0][0].value == 6


def test_a_stopped_server_does_not_hold_a_session(
    own_pool: Sandbox, descendants: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotelic.worlds.code.sandbox.servers.KILL_TIMEOUT", 1.0)
    os.kill(server_pid(own_pool, 0, descendants), signal.SIGSTOP)
    start = time.monotonic()
    session = own_pool.open(HONEST, limits=Limits(wall=0.5))
    assert session.loaded.kind in ("limit", "crash")
    assert time.monotonic() - start < 15
    session.close()
    assert own_pool.open(HONEST).call("f", 4).value == 8


HOST = """
import sys, time
from autotelic.worlds.code.sandbox import Job, Limits, Sandbox, SandboxConfig
program = "import signal, time\\n[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\\ndef f():\\n    time.sleep(60)"
sandbox = Sandbox(SandboxConfig(backend=sys.argv[1], servers=2, limits=Limits(wall=60)))
print([server.process.pid for server in sandbox._servers], flush=True)
time.sleep(.1)
{}
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("managed", [True, False])
def test_a_host_that_ends_leaves_no_process_behind(
    backend: str, number: signal.Signals, managed: bool, descendants: Callable, eventually: Callable[..., bool]
) -> None:
    run = "sandbox.run([Job(program, ('[\"t\"]',))] * 4)"
    script = HOST.format(f"with sandbox:\n    {run}" if managed else run)
    host = subprocess.Popen([sys.executable, "-c", script, backend], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert host.stdout is not None
    host.stdout.readline()
    time.sleep(0.5)
    born = descendants(host.pid)
    assert len(born) >= 4
    host.send_signal(number)
    host.wait(timeout=10)
    host.stdout.close()

    def gone(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    assert eventually(lambda: all(map(gone, born)), seconds=6.0)


def test_an_interrupted_batch_leaves_the_pool_usable(own_pool: Sandbox, healthy: Callable[[Sandbox], None]) -> None:
    previous = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            own_pool.run([Job("import time\ndef f():\n    time.sleep(1.5)", (NO_INPUT,))] * 4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    healthy(own_pool)
    assert own_pool.replaced == 0


def test_closing_ends_every_process_and_may_be_repeated(
    backend: str, descendants: Callable[[int], list[int]], eventually: Callable[..., bool]
) -> None:
    sandbox = Sandbox(SandboxConfig(backend=backend, servers=2))
    sandbox.run([honest(1, 0), honest(1, 1)])
    tops = [server.process.pid for server in sandbox._servers]
    born = [pid for top in tops for pid in [top, *descendants(top)]]
    session = sandbox.open(HONEST)
    sandbox.close()
    sandbox.close()
    session.close()
    assert eventually(lambda: not set(born) & {*descendants(1), *descendants(os.getpid())})


def test_an_unknown_backend_is_named_with_the_choices() -> None:
    with pytest.raises(UserError, match="sandlock, bubblewrap, docker"):
        Sandbox(SandboxConfig(backend="none"))


def test_a_backend_that_cannot_start_is_never_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotelic.worlds.code.sandbox.backends.missing", lambda backend: f"{backend} is not here")
    with pytest.raises(UserError, match="sandlock is not here"):
        Sandbox(SandboxConfig())


@pytest.mark.parametrize(
    ("key", "value"), [("servers", 0), ("servers", 65), ("lanes", -1), ("ahead", 0), ("ahead", 200)]
)
def test_settings_that_make_no_pool_are_refused(key: str, value: int) -> None:
    with pytest.raises(ValueError, match=key):
        SandboxConfig(**{key: value})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("key", ["cpu", "wall", "memory", "output"])
def test_limits_that_leave_nothing_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        Limits(**{key: 0})


def test_a_job_that_no_process_could_be_made_for_is_lost_and_nothing_else(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = dict(backends._sources())
    real = "fork = libc.fork"
    assert real in sources["inside"]
    failing = "calls = iter(range(10**9)); fork = lambda: -1 if next(calls) % 5 == 4 else libc.fork()"
    sources["inside"] = sources["inside"].replace(real, failing)
    monkeypatch.setattr(backends, "_sources", lambda: sources)
    with Sandbox(SandboxConfig(backend=backend, servers=1, ahead=1)) as sandbox:
        outcomes = [outcome for (outcome,) in sandbox.run([honest(n) for n in range(20)])]
        assert sandbox.replaced == 0
    lost = [outcome for outcome in outcomes if not outcome.ok]
    assert lost
    assert {(outcome.kind, outcome.detail) for outcome in lost} == {("crash", "server")}
    assert all(outcome.value == 2 * n for n, outcome in enumerate(outcomes) if outcome.ok)


def test_a_server_that_cannot_even_start_again_is_one_error(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(SandboxConfig(backend=backend, servers=1)) as sandbox:
        sources = dict(backends._sources())
        sources["inside"] = sources["inside"].replace("pid = fork()", "raise OSError('no more')")
        monkeypatch.setattr(backends, "_sources", lambda: sources)
        workers.stop(sandbox._servers[0].process)
        with pytest.raises(UserError, match="dies at once: OSError: no more"):
            sandbox.run([honest(1)])


def test_a_closed_sandbox_says_so(backend: str) -> None:
    sandbox = Sandbox(SandboxConfig(backend=backend, servers=1))
    sandbox.close()
    with pytest.raises(ValueError, match="closed"):
        sandbox.run([honest(1)])
    with pytest.raises(ValueError, match="closed"):
        sandbox.open(HONEST)
