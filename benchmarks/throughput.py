"""Training steps a second, end to end, beside the peers; and stepping alone.

    python benchmarks/throughput.py train [--task HalfCheetah-v5] [--count 16] [--seconds 20] [--repeats 3] [--who …]
    python benchmarks/throughput.py step  [--task …] [--count 16] …
    python benchmarks/throughput.py table

`train` runs PPO (rollout and update) of autotelic, stable-baselines3, rsl_rl and CleanRL's algorithm on the same task
with the same network, epochs and minibatch (autotelic-ahead has collectors=1). `step` steps environments without
learning: rollout asks a policy too, and says how fast MuJoCo alone goes through the same states. Each measurement has
a process of its own; all of a repeat follow each other in one run, so that what the machine does to one it does to all.
JSON lines are printed and appended to results/throughput.jsonl; `table` prints medians and ratios of what is there.
`--repeats N` asks for N measurements of each at this commit and on this processor: what is there already is not
measured again, so a run that was stopped goes on.
The peers are installed with pip install 'autotelic[peers]'.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from records import Records

from autotelic.runs import machine, workers

RECORDS = Records("throughput")
WHO = {
    "train": ("autotelic", "autotelic-ahead", "sb3", "sb3-processes", "rsl_rl", "cleanrl"),
    "step": ("autotelic", "rollout", "gymnasium", "envpool"),
}
OURS = ("humanoid-walk",)  # tasks that only our own simulation has


def measure(what: str, who: str, task: str, count: int, seconds: float) -> dict[str, object]:
    command = [sys.executable, str(Path(__file__).parent / "peers" / f"{what}.py"), who, task, str(count), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{who} on {task}: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def code() -> str | None:
    """The commit, which the results written here do not make dirty: a run that goes on looks for its own."""
    commit, root = machine.commit(), str(Path(__file__).parents[1])
    changed = workers.output(["git", "status", "--porcelain", "--", ".", ":!benchmarks/results"], cwd=root)
    return commit.removesuffix("-dirty") if commit and changed == "" else commit


def side_by_side(arguments: argparse.Namespace) -> None:
    here = {"commit": code(), "cpu": machine.cpu()}
    lines = [line for line in RECORDS.lines() if here.items() <= line.items()]
    done = Counter((line["what"], line["who"], line["task"], line["count"]) for line in lines)
    for repeat in range(arguments.repeats):
        for task in arguments.task:
            for count in arguments.count:
                for who in arguments.who or WHO[arguments.what]:
                    if task in OURS and who in ("sb3-processes", "cleanrl", "gymnasium", "envpool"):
                        continue
                    if done[arguments.what, who, task, count] > repeat:
                        continue
                    found = measure(arguments.what, who, task, count, arguments.seconds)
                    line = {"what": arguments.what, "who": who, "task": task, "count": count, "repeat": repeat, **found}
                    RECORDS.add(line | here)


def table() -> None:
    """Medians over repeats, and how many times faster autotelic is."""
    found: dict[tuple[str, str, int, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in RECORDS.lines():
        rates = found[line["what"], line["task"], line["count"], f"{line['commit']} ({line['cpu']})"]
        rates[line["who"]].append(line["steps_per_second"])
        if "raw_steps_per_second" in line:
            rates["MuJoCo alone"].append(line["raw_steps_per_second"])
    print("| what | task | environments | who | steps a second | autotelic is | at |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for (what, task, count, where), rows in sorted(found.items()):
        medians = {who: statistics.median(values) for who, values in rows.items()}
        for who, value in medians.items():
            ratio = f"{medians['autotelic'] / value:.2f} times" if "autotelic" in medians else "-"
            spread = f"{min(rows[who]):,.0f} to {max(rows[who]):,.0f}"
            print(f"| {what} | {task} | {count} | {who} | {value:,.0f} ({spread}) | {ratio} | {where} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "step", "table"])
    parser.add_argument("--task", nargs="+", default=["HalfCheetah-v5", "Humanoid-v5"])
    parser.add_argument("--count", nargs="+", type=int, default=[16])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--who", nargs="+")
    arguments = parser.parse_args()
    if arguments.what == "table":
        table()
    else:
        side_by_side(arguments)


if __name__ == "__main__":
    main()
