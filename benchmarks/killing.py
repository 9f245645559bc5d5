"""Kills a run at random moments, resumes it each time, and compares what it holds with an uninterrupted run.

    python benchmarks/killing.py [--kills 50] [--steps 12] [--seed 0] [overrides …]

Every life of the run is ended with SIGKILL after a random time, which may fall into start-up, a step, a checkpoint or
the evaluation at the end; a run that finishes is compared and a new one begun, until enough kills have been made.
Prints one JSON line a finished run and a last one with the count, and exits 1 at the first difference.
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

from autotelic.testing import run_digest

RESULTS = Path(__file__).parent / "results" / "killing.jsonl"
AUTOTELIC = [sys.executable, "-m", "autotelic.cli"]


def start(arguments: list[str], folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        AUTOTELIC + arguments, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def finish(process: subprocess.Popen) -> None:
    _, errors = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"exit code {process.returncode}: {errors.decode()[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
        finish(start(["play", "run=whole", *asked], folder))
        span = time.monotonic() - began
        wanted = run_digest(folder / "runs" / "whole")
        kills = runs = 0
        lines = []
        while kills < given.kills:
            name, lives, at = f"killed-{runs}", 0, []
            while True:
                directory = folder / "runs" / name
                begun = (directory / "meta.json").exists()
                process = start(["resume", f"runs/{name}"] if begun else ["play", f"run={name}", *asked], folder)
                moment = chance.uniform(0.0, span)
                lives += 1
                if kills < given.kills:
                    time.sleep(moment)
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.communicate()
                        kills += 1
                        at.append(round(moment, 2))
                        continue
                finish(process)
                break
            runs += 1
            equal = run_digest(directory) == wanted
            line = {"benchmark": "killing", "run": name, "lives": lives, "killed_after_seconds": at, "equal": equal}
            print(json.dumps(line), flush=True)
            lines.append(line)
            if not equal:
                break
    lines.append(
        {"benchmark": "killing", "kills": kills, "runs": runs, "all_equal": all(line["equal"] for line in lines)}
    )
    print(json.dumps(lines[-1]))
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    sys.exit(0 if lines[-1]["all_equal"] else 1)


if __name__ == "__main__":
    main()
