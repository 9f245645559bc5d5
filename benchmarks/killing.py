"""Kills a run at random moments, resumes it each time, and compares what it holds with an uninterrupted run.

    python benchmarks/killing.py [--verb play] [--kills 50] [--steps 12] [--seed 0] [overrides …]
    python benchmarks/killing.py --kills 20 --steps 9 world=arm player=grammar loop.batch=4 evaluate_tasks=20
    python benchmarks/killing.py --verb train --kills 20 --steps 16384 env=humanoid-walk env.count=64

Every life of the run is ended with SIGKILL after a random time, which may fall into start-up, a step, a checkpoint, the
copying of a fork or the evaluation at the end. One life in five goes on as a fork of the run at its newest checkpoint,
under a new name. A run that finishes is compared (archive, metrics, checkpoint, result.json, config.yaml) and a new one
begun, until enough kills have been made. Prints one JSON line a finished run and a last one with the count, appends
each to results/killing.jsonl at once, and exits 1 at the first difference.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from records import Records

from autotelic.runs.checkpoints import Checkpoints
from autotelic.testing import run_digest

RECORDS = Records("killing")
AUTOTELIC = [sys.executable, "-m", "autotelic.cli"]


def start(arguments: list[str], folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        AUTOTELIC + arguments, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def finish(process: subprocess.Popen) -> None:
    _, errors = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"exit code {process.returncode}: {errors.decode()[-2000:]}")


def contents(directory: Path) -> list[Any]:
    """All a run holds, except timings and its name."""
    result = json.loads((directory / "result.json").read_text())
    config = yaml.safe_load((directory / "config.yaml").read_text())
    return [run_digest(directory), result | {"minutes": None, "steps_per_second": None}, config | {"run": None}]


class Lives:
    """The lives of one run, each ended by force but the last."""

    def __init__(self, verb: str, name: str, asked: list[str], folder: Path, chance: random.Random) -> None:
        self.verb = verb
        self.name, self.asked, self.folder, self.chance = name, asked, folder, chance
        self.first, self.forks, self.killed = name, 0, []

    @property
    def directory(self) -> Path:
        return self.folder / "runs" / self.name

    def next(self) -> subprocess.Popen:
        """Goes on with the run, or begins it."""
        if not self.directory.exists():
            return start([self.verb, f"run={self.name}", *self.asked], self.folder)
        steps = Checkpoints(self.directory / "checkpoints").steps()
        if not steps or self.chance.random() >= 0.2:
            return start(["resume", f"runs/{self.name}"], self.folder)
        fork = f"{self.first}-fork-{self.forks}"
        return start(["resume", f"runs/{self.name}", f"step={steps[-1]}", f"run={fork}"], self.folder)

    def ended(self) -> None:
        """A fork that came to be is what goes on; one that was killed before leaves its source to go on with."""
        fork = f"{self.first}-fork-{self.forks}"
        if (self.folder / "runs" / fork).exists():
            self.name, self.forks = fork, self.forks + 1

    def kill(self, moment: float) -> bool:
        """One life; False if it came to its own end before the moment."""
        process = self.next()
        time.sleep(moment)
        alive = process.poll() is None
        if alive:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.killed.append(round(moment, 2))
        else:
            finish(process)
        self.ended()
        return alive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verb", default="play", choices=["play", "train"])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    asked = [f"steps={given.steps}", "checkpoint.every=3", f"seed={given.seed}", *given.overrides]

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        began = time.monotonic()
        finish(start([given.verb, "run=whole", *asked], folder))
        span = time.monotonic() - began
        wanted = contents(folder / "runs" / "whole")
        kills = runs = forks = 0
        equal = True
        while kills < given.kills and equal:
            lives = Lives(given.verb, f"killed-{runs}", asked, folder, chance)
            while kills < given.kills and lives.kill(chance.uniform(0.0, span)):
                kills += 1
            if kills == given.kills:
                finish(lives.next())
                lives.ended()
            runs, forks = runs + 1, forks + lives.forks
            equal = contents(lives.directory) == wanted
            figures = {"killed_after_seconds": lives.killed, "forks": lives.forks, "equal": equal}
            RECORDS.add({"benchmark": "killing", "verb": given.verb, "run": lives.first, **figures})
    said = {"benchmark": "killing", "verb": given.verb, "asked": asked}
    RECORDS.add(said | {"kills": kills, "runs": runs, "forks": forks, "all_equal": equal})
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
