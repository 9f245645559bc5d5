"""A small world and player in a package of their own, found by entry point, and the command line run on them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PACKAGE = '''
import os, time
from dataclasses import dataclass

if os.environ.get("TOY_SLOW"):
    open("loading", "w").close()
    time.sleep(60)

from autotelic.play.player import Player, Sample
from autotelic.runs.files import content_address
from autotelic.worlds.base import Kind, Proposal, Rejection, Task, Verdict, World


class Add(Kind):
    name = "add"

    def propose_prompt(self, request):
        return "Two numbers."

    def solve_prompt(self, task):
        return f"{task.spec['a']} + {task.spec['b']}"


class Sums(World):
    """Tasks are sums. The environment can make it a world of another version, or one that judges otherwise."""

    name = "sums"
    kinds = {"add": Add()}

    @dataclass
    class Config:
        largest: int = 1000

    def __init__(self, config):
        self.config = config
        self.version = os.environ.get("SUMS_VERSION", "sums-1")
        self.offset = int(os.environ.get("SUMS_OFFSET", "0"))
        self.suite = [self.task(n, n) for n in range(20)]

    def load_suite(self, path):
        if not str(path).endswith(".txt"):
            return super().load_suite(path)
        return [self.task(int(number), 1) for number in open(path).read().split()]

    def task(self, a, b):
        return Task(content_address("sums", a, b), "sums", "add", {"a": a, "b": b}, {"depth": 1.0})

    def seeds(self):
        return [self.task(0, 0)]

    def admit(self, proposals, seed):
        results = []
        for proposal in proposals:
            a, b = map(int, proposal.text.split("+"))
            large = max(a, b) > self.config.largest
            results.append(Rejection("add", "large", "too large") if large else self.task(a, b))
        return results

    def restate(self, kind, spec):
        return Proposal(kind, f"{spec['a']}+{spec['b']}")

    def judge(self, pairs, seed):
        verdicts = []
        for task, answer in pairs:
            solved = int(answer.text) == task.spec["a"] + task.spec["b"] + self.offset
            outcome = "correct" if solved else "wrong"
            verdicts.append(Verdict(solved, outcome, float(solved), version=self.version, seed=seed))
        return verdicts


class Counter(Player):
    """Proposes random sums, answers right half the time, and remembers how often it learned."""

    name = "counter"
    exact = "COUNTER_GUESSES" not in os.environ

    @dataclass
    class Config:
        delay: float = 0.0

    def __init__(self, config, world):
        super().__init__(config, world)
        self.learned = 0

    def propose(self, requests, rng):
        time.sleep(self.config.delay)
        return [Sample("propose", r.kind, f"{rng.integers(1100)}+{rng.integers(1100)}") for r in requests]

    def attempt(self, tasks, n, rng, greedy=False):
        return [
            Sample("solve", t.kind, str(t.spec["a"] + t.spec["b"] + int(rng.integers(2))), task=t.id)
            for t in tasks
            for _ in range(n)
        ]

    def learn(self, graded):
        self.learned += 1
        return {"learned": float(self.learned)}

    def state(self):
        return {"learned": self.learned}

    def load_state(self, state):
        self.learned = state["learned"]
'''

ENTRY_POINTS = "[autotelic.worlds]\nsums = toy_package:Sums\n[autotelic.players]\ncounter = toy_package:Counter\n"
TOY = ("world=sums", "player=counter", "loop.batch=2", "loop.attempts=2")


@dataclass
class Command:
    """`autotelic` as a user runs it: a process of its own, in a directory of its own."""

    commands: Any
    finished: Path  # runs that tests were given
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, **env: str) -> Any:
        return self.commands.run(list(arguments), self.cwd, {**os.environ, **self.env, **env})

    def start(self, *arguments: str, **env: str) -> Any:
        """The same, not waited for."""
        return self.commands.start(list(arguments), self.cwd, {**os.environ, **self.env, **env})

    def start_anew(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """The same, by an interpreter that has yet to load everything."""
        return subprocess.Popen(
            [sys.executable, "-m", "autotelic.cli", *arguments],
            cwd=self.cwd,
            env={**os.environ, **self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def play(self, *arguments: str) -> Any:
        return self("play", *TOY, *arguments)

    def given(self) -> Path:
        """A finished run `one` of self-play: four steps, with checkpoints of 0, 2 and 4."""
        return self.made("play", *TOY, "steps=4", "checkpoint.every=2", "checkpoint.keep=0", "seed=3")

    def made(self, *command: str) -> Path:
        """The run `one` of a command; made once for all tests that want it."""
        kept, one = self.finished / " ".join(command), self.cwd / "runs" / "one"
        if not kept.exists():
            assert (done := self(*command, "run=one")).code == 0, done.err
            shutil.copytree(one, kept)
        else:
            shutil.copytree(kept, one)
        return one

    def start_slow(self, name: str, *arguments: str) -> Any:
        """A run of many slow steps, once it has taken the first few."""
        process = self.start(
            *("play", *TOY, "loop.seeding=1", "player.delay=0.02", "checkpoint.every=3"),
            *("steps=100000", f"run={name}", *arguments),
        )
        metrics = self.cwd / "runs" / name / "metrics.jsonl"
        self.until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") > 5, process)
        return process

    def until(self, condition: Callable[[], bool], process: Any) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("finished")


@pytest.fixture
def autotelic(tmp_path: Path, commands, finished: Path) -> Command:
    package = tmp_path / "package"
    info = package / "toy_package-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "toy_package.py").write_text(PACKAGE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    return Command(commands, finished, cwd, {"PYTHONPATH": str(package), "COLUMNS": "200", "TERM": "dumb"})


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def stop_signal(request: pytest.FixtureRequest) -> signal.Signals:
    return request.param
