"""How long the humanoid takes to walk, and what the walk is worth.

    python benchmarks/walking.py learn    [--seeds 0 1 2] [--steps 6000000]
    python benchmarks/walking.py variants [--only NAME …] [--minutes 30]
    python benchmarks/walking.py probe
    python benchmarks/walking.py steps    [--seconds 4]
    python benchmarks/walking.py table

`learn` trains with the default configuration and says after how many minutes of learning the policy walks: the first of
three measurements in a row in which at least 95 of 100 episodes under mild randomisation last 20 s and come within
0.2 m/s of the 1.0 m/s that are wanted, with at most 4 steps a second, less than 5 % flight, and double support.
`variants` trains with other settings. `probe` measures what is there at other speeds, in turns and under pushes.
`steps` prints when each foot was on the ground, a character every 1/30 s. While a run trains, its memory is looked at
every minute.
Runs are kept under --root (default runs/walking), and go on where they were stopped; what is in results/walking.jsonl
is not measured again. `table` prints it. Nothing else should run beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from records import Records, commit_of, learns, memory_of

from autotelic.cli import train_session
from autotelic.cli.train import restore
from autotelic.runs.directory import Run
from autotelic.training.evaluate import as_tensors

RECORDS = Records("walking")
VARIANTS = {
    "commands": ("env.speed=[0,1.5]", "env.turn=1.5708"),
    "sim-to-real": ("env.randomise=sim-to-real",),
    "compact32": ("env.obs=compact32",),
    "textbook": ("env.reward=textbook",),
    "torque": ("env.actions=torque",),
}
SPEEDS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
PUSHES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
FIGURES = (
    "success_rate",
    "survived",
    "speed",
    "speed_error",
    "steps_per_second",
    "flight",
    "double_support",
    "length_mean",  # of an episode, in steps of control, 60 a second
)


def autotelic(*arguments: str) -> str:
    command = [sys.executable, "-m", "autotelic.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def train(root: Path, name: str, *keys: str) -> Path:
    """A run to its end: made, or gone on with, or there already."""
    run = root / name
    if not run.exists():
        learns(run, "train", "env=humanoid-walk", f"root={root}", f"run={name}", *keys)
    elif not json.loads((run / "result.json").read_text() if (run / "result.json").exists() else "{}").get("finished"):
        learns(run, "resume", str(run))
    return run


def measurements(run: Path) -> list[dict[str, float]]:
    """What was measured while it learned, with the minutes of learning before each."""
    found, seconds = [], 0.0
    for text in (run / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        seconds += line["time/rollout"] + line["time/learn"]
        if "eval/success_rate" in line:
            figures = {name: line[f"eval/{name}"] for name in FIGURES}
            found.append({"minutes": seconds / 60, "steps": line["step"], **figures})
    return found


def walks(row: dict[str, float]) -> bool:
    calm = row["steps_per_second"] <= 4.0 and row["flight"] < 0.05 and row["double_support"] > 0.01
    return row["success_rate"] >= 0.95 and calm


def first_walk(rows: list[dict[str, float]]) -> dict[str, float] | None:
    for index in range(len(rows) - 2):
        if all(map(walks, rows[index : index + 3])):
            return rows[index]
    return None


def record(run: Path) -> None:
    """When it walked, how it does at the end, and the timeline."""
    if any(line["what"] == "learn" and line["run"] == run.name for line in RECORDS.lines()):
        return
    rows = measurements(run)
    result, first = json.loads((run / "result.json").read_text()), first_walk(rows)
    timeline = [
        [round(row["minutes"], 2), row["steps"], row["success_rate"], round(row["speed"], 2)]
        + [round(row[name], 3) for name in ("steps_per_second", "flight", "double_support", "length_mean")]
        for row in rows
    ]
    RECORDS.add(
        {
            "what": "learn",
            "run": run.name,
            "walks_after_minutes": None if first is None else round(first["minutes"], 2),
            "walks_after_steps": None if first is None else first["steps"],
            "minutes": result["minutes"],
            "steps": result["steps"],
            "steps_per_second": result["steps_per_second"],
            "end": {name: round(result["eval"][name], 3) for name in FIGURES},
            "commit": commit_of(run),
            "MB": memory_of(run),
            "timeline": timeline,  # minutes, steps, success, speed, steps a second, flight, double support, length
        }
    )


def measure(run: Path, what: str, **keys: Any) -> None:
    asked = {name: list(value) if isinstance(value, tuple) else value for name, value in keys.items()}
    if any(line["what"] == what and line["run"] == run.name and line["asked"] == asked for line in RECORDS.lines()):
        return
    overrides = [f"env.{name}={value}".replace(" ", "") for name, value in asked.items()]
    found = json.loads(autotelic("eval", str(run), "episodes=100", "seed=12345", *overrides, "--json"))["eval"]
    RECORDS.add({"what": what, "run": run.name, "asked": asked, **{name: round(found[name], 3) for name in FIGURES}})


def probe(root: Path) -> None:
    for run in sorted(path for path in root.iterdir() if (path / "result.json").exists()):
        if run.name.startswith(("default", "sim-to-real", "commands")):
            for push in PUSHES:
                measure(run, "push", push=push)
        if run.name.startswith("commands"):  # the others have never been asked for another speed than 1 m/s
            for speed in SPEEDS:
                measure(run, "speed", speed=(speed, speed), turn=0.0)
            measure(run, "turns", speed=(1.0, 1.0), turn=1.5708)
            measure(run, "turns", speed=(0.0, 1.5), turn=1.5708)


def steps(root: Path, seconds: float) -> None:
    """The feet of the policies at the end, 5 s after a start."""
    for path in sorted(path for path in root.iterdir() if (path / "result.json").exists()):
        with (
            Run.open(path, readonly=True) as run,
            train_session.open_to_look(run, restore(run), count=1) as (_, environment, policy),
        ):
            obs, down = environment.reset(12345), []
            for _ in range(round((5 + seconds) / environment.dt)):
                obs = environment.step(policy.act(as_tensors(obs)).numpy()).obs
                down.append(environment.memory["contact"][0].copy())  # type: ignore[attr-defined]
            shown = np.array(down)[round(5 / environment.dt) :: 2].T
            print(path.name)
            for name, foot in zip(("left ", "right"), shown, strict=True):
                print(f"    {name} {''.join('#' if touches else '.' for touches in foot)}")


def table() -> None:
    print("| run | walks after | steps | at the end: success | speed | steps a second | flight | double support |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for line in RECORDS.lines():
        if line["what"] == "learn":
            end, after = line["end"], line["walks_after_minutes"]
            print(
                f"| {line['run']} | {'-' if after is None else f'{after:.1f} min'} | {line['steps'] / 1e6:.1f} M "
                f"| {end['success_rate']:.0%} | {end['speed']:.2f} | {end['steps_per_second']:.1f} "
                f"| {end['flight']:.0%} | {end['double_support']:.0%} |"
            )
    for line in RECORDS.lines():
        if line["what"] == "learn" and line.get("MB"):
            print(f"{line['run']}, MB a minute:", *line["MB"])
        elif line["what"] != "learn":
            print(
                line["what"], line["run"], line["asked"], *(f"{name} {line[name]}" for name in FIGURES if name in line)
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["learn", "variants", "probe", "steps", "table"])
    parser.add_argument("--root", type=Path, default=Path("runs/walking"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=6_000_000)
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--minutes", type=float, default=30, help="of learning, of a variant")
    parser.add_argument("--seconds", type=float, default=4.0)
    arguments = parser.parse_args()
    if arguments.what == "learn":
        for seed in arguments.seeds:
            record(train(arguments.root, f"default-{seed}", f"seed={seed}", f"steps={arguments.steps}"))
    elif arguments.what == "variants":
        for name in arguments.only:
            record(train(arguments.root, name, f"minutes={arguments.minutes}", *VARIANTS[name]))
    elif arguments.what == "probe":
        probe(arguments.root)
    elif arguments.what == "steps":
        steps(arguments.root, arguments.seconds)
    else:
        table()


if __name__ == "__main__":
    main()
