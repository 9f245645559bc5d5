"""One pool a backend for the whole corpus, and what must be true of it after every attempt on it."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autotelic.worlds.code.sandbox import Job, Limits, Outcome, Sandbox, SandboxConfig, backends, values

LIMITS = Limits(cpu=1, wall=1.6, memory=128, output=1 << 18)
# Processes below the one we started that are no job: the server, where the backend keeps it under others.
KEEPERS = {"sandlock": 0, "bubblewrap": 2}


@pytest.fixture(scope="session", params=backends.NAMES)
def backend(request: pytest.FixtureRequest) -> str:
    reason = backends.missing(request.param)
    if reason:
        pytest.skip(reason)
    return request.param


@pytest.fixture(scope="session")
def pool(backend: str) -> Iterator[Sandbox]:
    with Sandbox(SandboxConfig(backend=backend, servers=2, limits=LIMITS)) as sandbox:
        yield sandbox


@pytest.fixture
def own_pool(backend: str) -> Iterator[Sandbox]:
    """For tests that break servers."""
    with Sandbox(SandboxConfig(backend=backend, servers=2, limits=LIMITS)) as sandbox:
        yield sandbox


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False  # ended meanwhile


def below(pid: int) -> list[int]:
    """Every process that descends from this one and is no zombie."""
    found = [pid]
    for one in found:
        for listed in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += filter(running, map(int, listed.read_text().split()))
    return found[1:]


@pytest.fixture(scope="session")
def descendants() -> Callable[[int], list[int]]:
    return below


def one_job(sandbox: Sandbox, program: str, *args: Any, server: int | None = None) -> Outcome:
    return sandbox.run([Job(program, (values.encode(args),), server=server)])[0][0]


def no_stray_process(sandbox: Sandbox) -> bool:
    keepers = KEEPERS.get(sandbox.config.backend)
    if keepers is None:
        return True  # docker: the processes are the daemon's
    return all(len(below(server.process.pid)) == keepers + len(server.ready) for server in sandbox._servers)


def check_health(sandbox: Sandbox, eventually: Callable[..., bool]) -> None:
    for index in range(sandbox.servers):
        outcome = one_job(sandbox, "def f(a):\n    return sum([a, len('xy')]), sorted({3: 1, 2: 1})", 40, server=index)
        assert outcome == Outcome("ok", encoded='["t",42,["l",2,3]]')
    assert eventually(lambda: no_stray_process(sandbox)), "a process outlived its job"


@pytest.fixture(scope="session")
def healthy(eventually: Callable[..., bool]) -> Callable[[Sandbox], None]:
    return functools.partial(check_health, eventually=eventually)


@pytest.fixture
def attempt(pool: Sandbox, healthy: Callable[[Sandbox], None]) -> Iterator[Callable[..., Outcome]]:
    """Runs a program in the shared pool; afterwards the pool must be as good as new, with the very same servers."""
    before = [server.process.pid for server in pool._servers]

    def run(program: str, *args: Any, server: int | None = None) -> Outcome:
        return one_job(pool, program, *args, server=server)

    yield run
    healthy(pool)
    assert [server.process.pid for server in pool._servers] == before, "a server had to be replaced"


@pytest.fixture(scope="session")
def job() -> Callable[..., Outcome]:
    return one_job


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("AUTOTELIC_TEST_SECRET", "kept-from-every-job")
