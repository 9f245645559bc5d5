"""A real pretrained model on two cores: what a step of self-play costs, and an hour of it.

    python benchmarks/smollm2.py step [overrides …]
    python benchmarks/smollm2.py hour [--minutes 60] [--every 6] [--folder FOLDER] [overrides …]

`step` plays the step that fills the archive and one full step after it, and says how long its parts took and how much
memory the process had at most. `hour` plays for so long with learning on and measures CodeI/O, 40 tasks of each of its
two kinds, before the first step and after every sixth; a run that was stopped goes on if FOLDER is given again. Both
print JSON lines, one a step in `hour`, and append them to results/smollm2.jsonl.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

from records import Records

import autotelic
from autotelic.play.loop import Loop

RECORDS = Records("smollm2")
# Two cores write about a hundred tokens a second, so a step asks for little.
SMALL = (
    "world=code",
    "player=smollm2",
    "player.max_tokens=128",
    "loop.batch=4",
    "loop.attempts=4",
    "loop.references=2",
    "loop.seeding=1",
)


def write(what: str, overrides: list[str], line: dict[str, Any]) -> None:
    RECORDS.add({"what": what, "overrides": overrides, **line})


def peak_gigabytes() -> float:
    """The most memory that this process, with the model, has had; the sandbox's servers are small beside it."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def looked_at(loop: Loop, figures: dict[str, float]) -> dict[str, Any]:
    """What is shown of a step: rounded, by role and kind where there is one."""
    ends = ("valid_share", "solve_rate", "reward", "length", "grad_norm", "kl_old")
    wanted = {name: round(value, 4) for name, value in figures.items() if name.endswith(ends) or "heldout" in name}
    times = {
        name: round(value, 1) for name, value in figures.items() if name.startswith("time/") and name.count("/") == 1
    }
    return {"step": loop.step, "minutes": round(loop.seconds / 60, 2), "peak_gb": peak_gigabytes(), **times, **wanted}


def one_step(overrides: list[str], folder: Path) -> None:
    began = time.perf_counter()
    with autotelic.new_loop(*SMALL, f"root={folder}", "evaluate=false", *overrides) as loop:
        loaded = time.perf_counter() - began
        loop.run_step()
        began = time.perf_counter()
        figures = loop.run_step()
        seconds = round(time.perf_counter() - began, 1)
        write("step", overrides, {"load": round(loaded, 1), "seconds": seconds, **looked_at(loop, figures)})


def hour(minutes: float, every: int, overrides: list[str], folder: Path) -> None:
    measured = ("evaluate=false", "evaluate_suite=codeio", "evaluate_tasks=80", f"evaluate_every={every}")
    run = folder / "hour"
    settings = (*SMALL, f"root={folder}", "run=hour", "checkpoint.every=1", "checkpoint.keep=1", *measured, *overrides)
    with autotelic.open_loop(str(run)) if run.exists() else autotelic.new_loop(*settings) as loop:
        while loop.seconds < 60 * minutes:
            write("hour", overrides, looked_at(loop, loop.run_step()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["step", "hour"])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=int, default=6)
    parser.add_argument("--folder", type=Path, default=Path("runs/smollm2"))
    arguments, overrides = parser.parse_known_args()
    if arguments.what == "step":
        one_step(overrides, arguments.folder)
    else:
        hour(arguments.minutes, arguments.every, overrides, arguments.folder)


if __name__ == "__main__":
    main()
