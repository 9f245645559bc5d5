"""How fast the archive is at 10,000 and at 1,000,000 tasks: inserting, opening, drawing references, a step's writes.

    python benchmarks/archive.py [--sizes 10000 1000000] [--repeats 5] [--results FILE]

Prints one JSON object a line and appends the same lines to the results file, if one is given.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from autotelic.play.archive import Archive, ArchiveConfig
from autotelic.play.player import Sample
from autotelic.runs.files import content_address
from autotelic.worlds.base import Task, Verdict

KINDS = ("abduction", "deduction", "induction")
STRATEGIES = ("uniform", "recent", "learnable")
REFERENCES = 6  # drawn for one proposal, as published
CHUNK = 5000  # tasks a step while building


def make_task(number: int) -> Task:
    program = f"def f(a, b):\n    total = {number}\n    for x in a:\n        total += x * b\n    return total"
    spec = {"program": program, "input": [[number, 1, 2], 3], "output": number * 3 + 9}
    return Task(
        content_address(number), "code", KINDS[number % 3], spec, {"depth": float(number % 7), "operations": 3.0}
    )


def spread(measure: Callable[[], float], repeats: int) -> dict[str, float]:
    """Median, least and most of a duration in milliseconds."""
    times = [1000 * measure() for _ in range(repeats)]
    return {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)}


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def build(path: Path, config: ArchiveConfig, size: int) -> float:
    """Archives `size` tasks; returns the seconds spent in the archive."""
    spent = 0.0
    with Archive.create(path, config) as archive:
        for step, first in enumerate(range(0, size, CHUNK)):
            tasks = [make_task(number) for number in range(first, min(first + CHUNK, size))]
            spent += seconds(lambda step=step, tasks=tasks: archive.add_tasks(step, tasks))
        spent += seconds(archive.flush)
    return spent


def draw_time(archive: Archive, strategy: str, draws: int, rng: np.random.Generator) -> float:
    """Seconds for one proposal's references, mean over `draws`."""

    def draw() -> None:
        for number in range(draws):
            archive.sample_references([KINDS[number % 3]], REFERENCES, rng, strategy)

    return seconds(draw) / draws


def step_time(archive: Archive, rng: np.random.Generator) -> float:
    """Seconds to archive one step: 192 attempts on 24 tasks, their verdicts, the bound on the active set."""
    tasks = [task for task in archive.sample_references(KINDS, 24, rng) for _ in range(8)]
    step = archive.step + 1
    samples = [Sample("solve", task.kind, f"{step} {n}", task.id) for n, task in enumerate(tasks)]
    verdicts = [Verdict(bool(n % 2), "correct" if n % 2 else "wrong") for n in range(len(tasks))]

    def write() -> None:
        with archive.transaction():
            numbers = archive.add_samples(step, samples, [0.0] * len(samples))
            archive.add_verdicts(step, verdicts, [task.id for task in tasks], numbers)
            archive.enforce_capacity(step)

    return seconds(write)


def measure(size: int, repeats: int, directory: Path) -> list[dict[str, object]]:
    config = ArchiveConfig(capacity=max(size, 1), stale_after=0)
    path = directory / f"{size}.sqlite"
    inserting = build(path, config, size)
    lines: list[dict[str, object]] = [
        {
            "measure": "insert",
            "tasks": size,
            "tasks_per_second": size / inserting,
            "megabytes": path.stat().st_size / 1e6,
        }
    ]

    def reopen() -> float:
        return seconds(lambda: Archive.open(path, config).close())

    lines.append({"measure": "open", "tasks": size, **spread(reopen, repeats)})
    rng = np.random.default_rng(0)
    with Archive.open(path, config) as archive:
        for strategy in STRATEGIES:
            times = spread(lambda strategy=strategy: draw_time(archive, strategy, 300, rng), repeats)
            lines.append({"measure": "sample", "tasks": size, "strategy": strategy, "k": REFERENCES, **times})
        trees = [archive._active[kind].learnable for kind in KINDS]
        targets = rng.integers(trees[0].total, size=1000)
        lines.append(
            {"measure": "find 1000", "tasks": size, **spread(lambda: seconds(lambda: trees[0].find(targets)), repeats)}
        )
        lines.append({"measure": "step", "tasks": size, **spread(lambda: step_time(archive, rng), repeats)})
        lines.append(
            {"measure": "rewind", "tasks": size, **spread(lambda: seconds(lambda: archive.rewind(archive.step - 1)), 1)}
        )
        lines.append({"measure": "digest", "tasks": size, **spread(lambda: seconds(archive.digest), 1)})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--results", type=Path, help="file the lines are appended to")
    options = parser.parse_args()
    lines: list[dict[str, object]] = []

    def say(line: dict[str, object]) -> None:
        lines.append(line)
        print(json.dumps(line), flush=True)
        if options.results:
            with options.results.open("a") as file:
                file.write(json.dumps(line) + "\n")

    with tempfile.TemporaryDirectory() as directory:
        for size in options.sizes:
            for line in measure(size, options.repeats, Path(directory)):
                say(line)
    least, most = min(options.sizes), max(options.sizes)
    for strategy in STRATEGIES:
        found = {line["tasks"]: line["median_ms"] for line in lines if line.get("strategy") == strategy}
        ratio = float(str(found[most])) / float(str(found[least]))
        say({"measure": "sample ratio", "strategy": strategy, "from": least, "to": most, "ratio": ratio})


if __name__ == "__main__":
    main()
