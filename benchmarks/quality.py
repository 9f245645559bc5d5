"""How well PPO learns Gymnasium's tasks, beside stable-baselines3 with the settings its zoo has tuned for them.

    python benchmarks/quality.py run [--who autotelic sb3] [--task Hopper-v5 …] [--seeds 0 1 2] [--jobs 2] [--key …]
    python benchmarks/quality.py table

Every run is `autotelic train env=TASK`, as a user gets it, or benchmarks/peers/tuned.py, for the same number of steps;
then the policy at its end plays 100 episodes without chance. A benchmark that was stopped goes on: a run that is in
results/quality.jsonl is not repeated, others resume from their checkpoints under --root (default runs/quality). Each
line has the commit it was measured at; each of ours also a hash of its `settings`, and where the configuration is
another today it is measured again. `table` shows the newest. Runs have one thread each, and --jobs of them are side by
side: what is measured is what was learned, not how fast. `--key KEY=VALUE` tries other settings of ours, kept apart in
the results. stable-baselines3 is installed with pip install 'autotelic[peers]'.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import zlib
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from records import Records, commit_of, learns, memory_of

from autotelic.cli import train
from autotelic.runs import config, machine

RECORDS = Records("quality")
STEPS = {
    "CartPole-v1": 100_000,
    "Pendulum-v1": 100_000,
    "Hopper-v5": 1_000_000,
    "HalfCheetah-v5": 1_000_000,
    "Walker2d-v5": 1_000_000,
    "Humanoid-v5": 2_000_000,
}
EPISODES = 100


def measure(who: str, task: str, seed: int, keys: list[str], today: str, root: Path) -> None:
    line: dict[str, Any] = {"who": who, "task": task, "seed": seed, "keys": keys, "steps": STEPS[task]}
    RECORDS.add(line | (stable_baselines3(task, seed, root) if who == "sb3" else ours(task, seed, keys, today, root)))


def stable_baselines3(task: str, seed: int, root: Path) -> dict[str, Any]:
    tuned, commit = Path(__file__).parent / "peers" / "tuned.py", machine.commit()
    command = [str(tuned), task, str(STEPS[task]), str(seed), str(EPISODES), str(root / f"sb3-{task}-{seed}")]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"sb3 on {task}: {(done.stderr.strip().splitlines() or [done.returncode])[-1]}")
    return {**json.loads(done.stdout.strip().splitlines()[-1]), "commit": commit}


def asked(task: str, keys: list[str]) -> list[str]:
    return [f"env={task}", f"steps={STEPS[task]}", "env.threads=1", *keys]


def settings(configuration: Mapping[str, Any]) -> str:
    """A hash of what decides what is learned."""
    deciding = {name: configuration[name] for name in ("env", "policy", "learner")}
    return f"{zlib.crc32(json.dumps(deciding, sort_keys=True).encode()):08x}"


def settings_of(run: Path) -> str:
    return settings(config.read_yaml(run / "config.yaml"))


def settings_today(task: str, keys: list[str]) -> str:
    return settings(config.plain(train.compose(asked(task, keys), None)))


def ours(task: str, seed: int, keys: list[str], today: str, root: Path) -> dict[str, Any]:
    apart = [f"{zlib.crc32(' '.join(keys).encode()):08x}"] if keys else []
    run = root / "-".join([task, str(seed), *apart])
    if run.exists() and settings_of(run) != today:
        run = run.with_name(f"{run.name}-{today}")
    if run.exists():
        learns(run, "resume", str(run))
    else:
        others = [f"seed={seed}", f"root={root}", f"run={run.name}", f"evaluate_episodes={EPISODES}", "video=false"]
        learns(run, "train", *others, *asked(task, keys))
    result = json.loads((run / "result.json").read_text())
    found = {name: result["eval"][name] for name in ("return_mean", "return_std")}
    found |= {"minutes": round(result["minutes"], 2), "MB": memory_of(run), "commit": commit_of(run)}
    return {**found, "settings": settings_of(run)}


def run(arguments: argparse.Namespace) -> None:
    # Composed here, because Hydra does so in one thread at a time. Lines of peers have no settings, nor have old ones.
    today = {task: settings_today(task, arguments.key) for task in arguments.task}
    lines = [line for line in RECORDS.lines() if line.get("settings") in (None, today.get(line["task"]))]
    known = {(line["who"], line["task"], line["seed"], *line["keys"]) for line in lines}
    missing = [
        (who, task, seed, arguments.key if who == "autotelic" else [])
        for seed in arguments.seeds
        for task in arguments.task
        for who in arguments.who
    ]
    missing = [each for each in missing if (*each[:3], *each[3]) not in known]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for future in [pool.submit(measure, *each, today[each[1]], arguments.root) for each in missing]:
            future.result()


def table() -> None:
    """Means over seeds with the deviation between them, and each seed, of the newest configuration."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in RECORDS.lines():
        found[line["task"], " ".join([line["who"], *line["keys"]])].append(line)
    shown: list[dict[str, Any]] = []
    print("| task | steps | who | mean return | deviation over seeds | each seed |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (task, who), every in sorted(found.items()):
        lines = [line for line in every if line.get("settings") == every[-1].get("settings")]
        shown += lines
        means = [line["return_mean"] for line in sorted(lines, key=lambda line: line["seed"])]
        spread = f"{statistics.stdev(means):,.0f}" if len(means) > 1 else "-"
        each = ", ".join(f"{mean:,.0f}" for mean in means)
        print(f"| {task} | {STEPS[task]:,} | {who} | {statistics.mean(means):,.0f} | {spread} | {each} |")
    print("measured at", ", ".join(sorted({f"{line['commit']} ({line['cpu']})" for line in shown})))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--who", nargs="+", default=["autotelic", "sb3"], choices=["autotelic", "sb3"])
    parser.add_argument("--task", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--key", nargs="+", default=[])
    parser.add_argument("--root", type=Path, default=Path("runs/quality"))
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    if arguments.what == "table":
        table()
    else:
        run(arguments)


if __name__ == "__main__":
    main()
