"""How fast the sandbox runs programs, beside three ways to run them without one.

    python benchmarks/sandbox.py [speed|scaling|memory] [--backend NAME] [--jobs N] [--repeats N] [--reference PATH]

speed    the same programs through (a) a subprocess each, (b) a fork server without any isolation, (c) a pool of warm
         workers that execute one program after another in their own process, and the sandbox; rounds are interleaved,
         and the ratio is of medians. `validate` runs each program twice, as admission does. With --reference, the
         path of a checkout of Absolute-Zero-Reasoner, its own executor validates the same programs as its trainer
         does, one after another (it needs pebble, regex, timeout_decorator and tqdm on PYTHONPATH).
scaling  the sandbox with 1, 2, … lanes.
memory   resident memory of the host and its servers over many jobs.

Prints JSON lines and appends them to benchmarks/results/sandbox.jsonl.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from records import Records

from autotelic.worlds.code.sandbox import Job, Sandbox, SandboxConfig, values

RECORDS = Records("sandbox")
CORES = len(os.sched_getaffinity(0))
ARGUMENTS = values.encode((3,))


def programs(count: int) -> list[str]:
    """Small, all different, of the size a proposer writes."""
    return [
        f"def f(x):\n    y = x * {i % 97} + {i}\n    z = [y, y + 1]\n"
        "    for k in range(3):\n        z.append(z[-1] + k)\n    return sum(z)\n"
        for i in range(count)
    ]


def expected(count: int) -> list[int]:
    answers = []
    for i in range(count):
        y = 3 * (i % 97) + i
        z = [y, y + 1]
        for k in range(3):
            z.append(z[-1] + k)
        answers.append(sum(z))
    return answers


DRIVER = "import json,sys; n={}; exec(sys.stdin.read(), n); print(json.dumps(n['f'](3)))"


def by_subprocess(texts: Sequence[str]) -> list[int]:
    """(a) One interpreter a program, as many at once as there are cores."""

    def one(text: str) -> int:
        done = subprocess.run(
            [sys.executable, "-I", "-c", DRIVER], input=text, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(one, texts))


def _execute(text: str) -> int:
    namespace: dict = {}
    exec(text, namespace)
    return namespace["f"](3)


def _execute_twice(text: str) -> tuple[int, int]:
    return _execute(text), _execute(text)


class WarmPool:
    """(c) Warm workers that execute what they are given in their own process: no isolation at all."""

    def __init__(self) -> None:
        self.pool = concurrent.futures.ProcessPoolExecutor(CORES)
        list(self.pool.map(_execute, programs(2 * CORES)))

    def run(self, texts: Sequence[str]) -> list[int]:
        return [future.result() for future in [self.pool.submit(_execute, text) for text in texts]]

    def validate(self, texts: Sequence[str]) -> list[bool]:
        """One program after another, each twice, as the reference implementation validates."""
        return [len(set(self.pool.submit(_execute_twice, text).result())) == 1 for text in texts]

    def validate_batch(self, texts: Sequence[str]) -> list[bool]:
        futures = [self.pool.submit(_execute_twice, text) for text in texts]
        return [len(set(future.result())) == 1 for future in futures]


class Reference:
    """(c) The executor of Absolute Zero's published code, from a checkout of it."""

    def __init__(self, checkout: str) -> None:
        sys.path.insert(0, checkout)
        module = importlib.import_module("absolute_zero_reasoner.utils.code_utils.python_executor")
        self.executor = module.PythonExecutor(timeout_length=10, ast_check=True, max_workers=CORES)

    def validate(self, texts: Sequence[str]) -> list[bool]:
        return [self.executor.check_all(text, "3", banned_keywords=["os", "sys"])[0] for text in texts]


class ForkServer:
    """(b) Servers that fork a child a job and nothing else: the price of a fresh process without a sandbox."""

    def __init__(self) -> None:
        self.servers = [self._start() for _ in range(CORES)]

    def _start(self) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", BARE_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def run(self, texts: Sequence[str]) -> list[int]:
        answers = [0] * len(texts)
        waiting = iter(enumerate(texts))
        busy: dict[int, tuple[subprocess.Popen, int]] = {}

        def give(server: subprocess.Popen) -> None:
            index, text = next(waiting, (-1, ""))
            if index >= 0:
                data = text.encode()
                assert server.stdin is not None
                assert server.stdout is not None
                server.stdin.write(struct.pack("=I", len(data)) + data)
                busy[server.stdout.fileno()] = (server, index)

        for server in self.servers:
            give(server)
        while busy:
            for descriptor in select.select(list(busy), [], [])[0]:
                server, index = busy.pop(descriptor)
                answers[index] = json.loads(os.read(descriptor, 65536))
                give(server)
        return answers

    def close(self) -> None:
        for server in self.servers:
            server.send_signal(signal.SIGKILL)
            server.wait()


BARE_SERVER = """
import gc, json, os, struct
def job(text):
    namespace = {}
    exec(text, namespace)
    return json.dumps(namespace["f"](3)).encode()
for _ in range(20):
    job("def f(x):\\n    return [x, 'a', 2.5]\\n")
gc.collect(); gc.freeze(); gc.disable()
while True:
    head = os.read(0, 4)
    if not head:
        break
    size = struct.unpack("=I", head)[0]
    text = b""
    while len(text) < size:
        text += os.read(0, size - len(text))
    pid = os.fork()
    if pid == 0:
        os.write(1, job(text.decode()) + b"\\n")
        os._exit(0)
    os.waitpid(pid, 0)
"""


def by_sandbox(sandbox: Sandbox, texts: Sequence[str]) -> list[int]:
    return [outcomes[0].value for outcomes in sandbox.run([Job(text, (ARGUMENTS,)) for text in texts])]


def validate_by_sandbox(sandbox: Sandbox, texts: Sequence[str]) -> list[bool]:
    """Each program on two servers with different hash seeds."""
    jobs = [Job(text, (ARGUMENTS,), server=at + turn) for at, text in enumerate(texts) for turn in (0, 1)]
    results = [outcomes[0].encoded for outcomes in sandbox.run(jobs)]
    return [results[at] == results[at + 1] for at in range(0, len(results), 2)]


def rate(work: Callable[[Sequence[str]], list], count: int, right: list) -> float:
    texts = programs(count)
    began = time.perf_counter()
    answers = work(texts)
    spent = time.perf_counter() - began
    if answers != right:
        raise SystemExit(f"{work} gave wrong answers")
    return count / spent


def speed(backend: str, jobs: int, repeats: int, reference: str | None) -> list[dict]:
    pool, server = WarmPool(), ForkServer()
    with Sandbox(SandboxConfig(backend=backend)) as sandbox:
        ways: dict[str, tuple[Callable[[Sequence[str]], list], int, list]] = {
            "a: one subprocess a job": (by_subprocess, max(20, jobs // 20), expected(max(20, jobs // 20))),
            "b: bare fork server": (server.run, jobs, expected(jobs)),
            "c: warm pool, in process": (pool.run, jobs, expected(jobs)),
            "sandbox": (lambda texts: by_sandbox(sandbox, texts), jobs, expected(jobs)),
            "c: validate, one by one": (pool.validate, jobs, [True] * jobs),
            "c: validate, batch": (pool.validate_batch, jobs, [True] * jobs),
            "sandbox: validate": (lambda texts: validate_by_sandbox(sandbox, texts), jobs, [True] * jobs),
        }
        if reference:
            ways["c: validate, reference's executor"] = (Reference(reference).validate, jobs, [True] * jobs)
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeats):
            for name, (work, count, right) in ways.items():
                rates[name].append(rate(work, count, right))
    server.close()
    pool.pool.shutdown()
    middle = {name: median(found) for name, found in rates.items()}
    lines = [
        {
            "way": name,
            "per_second": round(middle[name], 1),
            "spread": [round(min(found), 1), round(max(found), 1)],
            "ratio": round(middle["sandbox: validate" if "validate" in name else "sandbox"] / middle[name], 3),
        }
        for name, found in rates.items()
    ]
    return [
        {"benchmark": "sandbox speed", "backend": backend, "repeats": repeats, "jobs": jobs} | line for line in lines
    ]


def scaling(backend: str, jobs: int, repeats: int) -> list[dict]:
    lines = []
    for lanes in sorted({1, 2, CORES, 2 * CORES}):
        with Sandbox(SandboxConfig(backend=backend, lanes=lanes)) as sandbox:
            found = [rate(lambda texts, s=sandbox: by_sandbox(s, texts), jobs, expected(jobs)) for _ in range(repeats)]
        lines.append({"benchmark": "sandbox scaling", "backend": backend, "lanes": lanes, "per_second": median(found)})
    return [line | {"ratio": line["per_second"] / lines[0]["per_second"]} for line in lines]


def memory(backend: str, jobs: int, repeats: int) -> list[dict]:
    lines = []
    with Sandbox(SandboxConfig(backend=backend)) as sandbox:
        done = 0
        while True:
            tree = resident_tree(os.getpid())
            lines.append({"benchmark": "sandbox memory", "backend": backend, "jobs": done, **tree})
            print(json.dumps(lines[-1]), flush=True)
            if done >= jobs:
                return lines
            for _ in range(10):
                if by_sandbox(sandbox, programs(1000)) != expected(1000):
                    raise SystemExit("wrong answers")
            done += 10_000


def resident_tree(root: int) -> dict[str, float]:
    """MiB resident in this process and in all below it, and how many those are."""
    parents: dict[int, int] = {}
    sizes: dict[int, float] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                sizes[int(entry)] = int(Path(f"/proc/{entry}/statm").read_text().split()[1]) / 256
                parents[int(entry)] = int(fields[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    below = [pid for pid in sizes if pid != root and _is_below(pid, root, parents)]
    return {
        "host_mib": round(sizes[root], 1),
        "below_mib": round(sum(sizes[p] for p in below), 1),
        "processes": len(below),
    }


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == root:
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "scaling", "memory"], nargs="?", default="speed")
    parser.add_argument("--backend", default="sandlock")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--reference", help="a checkout of Absolute-Zero-Reasoner")
    given = parser.parse_args()
    jobs = given.jobs or {"speed": 1000, "scaling": 1000, "memory": 100_000}[given.what]
    if given.what == "speed":
        lines = speed(given.backend, jobs, given.repeats, given.reference)
    else:
        lines = {"scaling": scaling, "memory": memory}[given.what](given.backend, jobs, given.repeats)
    for line in lines:
        RECORDS.add(line, quiet=given.what == "memory")


if __name__ == "__main__":
    main()
