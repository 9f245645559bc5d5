"""The arm world: is it fair, does self-play learn in it, how fast is it, and does it judge the same twice?

    python benchmarks/arm.py fair                                   hand-written and random controllers, on the suite
    python benchmarks/arm.py learn [--minutes 15] [--seeds 0 1 2] [--arms …] [--key …]
    python benchmarks/arm.py speed [--episodes 60] [--repeats 3]    episodes a second, and what they take their time for
    python benchmarks/arm.py replay [--verdicts 1000]               archived attempts judged again
    python benchmarks/arm.py table

`learn` plays `autotelic play world=arm`, as a user gets it, beside its controls: `learning off` keeps the weights as
they are, though what happens to work becomes a skill there too; `random proposer` learns to solve tasks that the
grammar proposes, from as many answers an update. A run in this version of the
world, with the settings as they are (SETTINGS), that is in results/arm.jsonl is not repeated; one that was stopped goes
on from its checkpoint under --root. `speed` runs the same scripted episodes in one process with clocks around all that
the simulation and the sandbox do, then in as many processes as there are cores. Shares are of the time that the
episodes take in one process; the player's answers are made before them, and timed beside it. Prints JSON lines and
appends them to the results; `table` prints what is there.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from records import Records, commit_of

import autotelic
from autotelic.physics.arm.control import Arm
from autotelic.play.evaluation import evaluate
from autotelic.worlds.arm.controllers import Host
from autotelic.worlds.arm.episodes import Job
from autotelic.worlds.arm.world import VERSION, ArmWorld, ArmWorldConfig
from autotelic.worlds.base import Task
from autotelic.worlds.code.sandbox import Sandbox
from autotelic.worlds.code.sandbox.session import Session

RECORDS = Records("arm")
ARMS: dict[str, tuple[str, ...]] = {
    "self-play": ("player=tiny",),
    "learning off": ("player=tiny", "player.learner.enabled=false"),
    # Of the 384 texts that a player of both roles sees again in an update, 342 are answers.
    "random proposer": ("proposer=grammar", "solver=tiny", "solver.learner.replay_size=342"),
}
LEARNER = {"random proposer": "solver"}  # the role that `player.KEY=` is about, where it is not both
EVERY = 10  # steps between checkpoints
SETTINGS = 6  # of what learns here: raised where that changes, so that what was measured stays and is measured anew
GUESSES = 16  # random answers to each held-out task: one each would say what guessing comes to within 4 % at best


def command(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "autotelic.cli", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"autotelic {arguments[0]}: {(done.stderr.strip().splitlines() or [done.returncode])[-1]}")
    return done.stdout


def fair() -> None:
    for player, robot, samples in (("scripted", "arm7", 0), ("scripted", "ur5e", 0), ("grammar", "arm7", GUESSES)):
        with autotelic.new_loop("world=arm", f"player={player}", f"world.kind.robot={robot}", "evaluate=false") as loop:
            found = evaluate(loop.world, loop.solver, loop.world.suite, 0, samples=samples)
        shares = {row: each["pass"]["1"] if samples else each["accuracy"] for row, each in found.items()}
        RECORDS.add({"what": "fair", "world": VERSION, "player": player, "robot": robot, "heldout": shares})


def learn(arms: list[str], seeds: list[int], minutes: float, keys: list[str], root: Path) -> None:
    rows = measured("learn", settings=SETTINGS)
    known = {(row["arm"], row["seed"], row["minutes"], *row["keys"]) for row in rows}
    for seed in seeds:
        for arm in arms:
            if (arm, seed, minutes, *keys) in known:
                continue
            now = [VERSION, f"settings-{SETTINGS}"]  # else a run from before they changed would be taken for a new one
            name = "-".join([*now, arm.replace(" ", "-"), f"{minutes:g}", str(seed), *keys]).replace("=", "-")
            if (root / name).exists():
                command("resume", str(root / name))
            else:
                said = [key.replace("player.", f"{LEARNER.get(arm, 'player')}.", 1) for key in keys]
                overrides = [*ARMS[arm], *said, f"minutes={minutes:g}", f"seed={seed}", f"root={root}", f"run={name}"]
                command("play", "world=arm", *overrides, f"checkpoint.every={EVERY}")
            result = json.loads((root / name / "result.json").read_text())
            line = {"what": "learn", "world": VERSION, "arm": arm, "seed": seed, "minutes": minutes, "keys": keys}
            line |= {"settings": SETTINGS, "commit": commit_of(root / name)}
            RECORDS.add(line | {name: result[name] for name in ("steps", "heldout", "archive", "cheating")})


def measured(what: str, **settings: Any) -> list[dict[str, Any]]:
    """What was measured in the world as it is now."""
    now = {"what": what, "world": VERSION} | settings
    return [row for row in RECORDS.lines() if now.items() <= row.items()]


def tasks_of(world: ArmWorld, episodes: int) -> list[Task]:
    """Held-out control tasks of all families."""
    tasks = [task for task in world.suite if task.kind == "induction"]
    return tasks[:: max(1, len(tasks) // episodes)][:episodes]


def answers_to(world: ArmWorld, tasks: Sequence[Task]) -> list[str]:
    """The controllers that are known to solve tasks, as the scripted player says them."""
    library = world.library
    assert library is not None
    return [library.answer(task, True, 0) for task in tasks]


def jobs_of(world: ArmWorld, tasks: Sequence[Task], answers: Sequence[str]) -> list[Job]:
    """The first start of each task."""
    pairs = zip(tasks, answers, strict=True)
    return [world.kinds[task.kind].attempt(task, said, 0).jobs[0] for task, said in pairs]


class Clock:
    """Adds up what is spent in functions that are given to it; one within another is counted once."""

    def __init__(self) -> None:
        self.spent, self._depth = 0.0, 0

    def around(self, owner: type, name: str) -> Callable[[], None]:
        """Puts the clock around a method; returns what takes it away again."""
        inner = getattr(owner, name)

        def timed(*args: Any, **keywords: Any) -> Any:
            began, self._depth = time.perf_counter(), self._depth + 1
            try:
                return inner(*args, **keywords)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.spent += time.perf_counter() - began

        setattr(owner, name, timed)
        return lambda: setattr(owner, name, inner)


def speed(episodes: int, repeats: int) -> None:
    with ArmWorld(ArmWorldConfig(workers=1)) as alone, ArmWorld(ArmWorldConfig()) as both:
        tasks = tasks_of(both, episodes)
        jobs = jobs_of(both, tasks, answers_to(both, tasks))
        for world in (alone, both):
            world.run(jobs)  # simulations are compiled, sandboxes started
        for repeat in range(repeats):
            physics, calls, sandbox = Clock(), Clock(), Clock()
            undo = [physics.around(Host, "answer"), physics.around(Arm, "reset"), physics.around(Arm, "apply")]
            undo += [calls.around(Host, "answer"), sandbox.around(Sandbox, "open"), sandbox.around(Session, "call")]
            undo += [sandbox.around(Session, "__exit__")]
            began = time.perf_counter()
            answers_to(alone, tasks)
            player = time.perf_counter() - began
            began = time.perf_counter()
            ended = alone.run(jobs)
            one = time.perf_counter() - began
            for each in reversed(undo):
                each()
            spent = {"physics": physics.spent, "sandbox": sandbox.spent - calls.spent, "player": player}
            began = time.perf_counter()
            both.run(jobs)
            two = time.perf_counter() - began
            RECORDS.add(
                {
                    "what": "speed",
                    "world": VERSION,
                    "repeat": repeat,
                    "episodes": len(jobs),
                    "per_second_one_process": round(len(jobs) / one, 2),
                    "per_second": round(len(jobs) / two, 2),
                    "simulated_seconds": round(sum(each.metrics["time"] for each in ended) / len(jobs), 2),
                    **{f"{name}_share": round(seconds / one, 4) for name, seconds in spent.items()},
                }
            )


def replay(verdicts: int, root: Path) -> None:
    """Plays until there is enough, with random answers too, so that all ways to fail are among them; then verifies."""
    run = root / f"{VERSION}-replay-{verdicts}"
    if run.exists():
        command("resume", str(run))
    else:
        steps = math.ceil(verdicts / (3 * 16 * 4))
        overrides = ["proposer=scripted", "solver=grammar", "loop.batch=16", "loop.attempts=4", f"steps={steps}"]
        command("play", "world=arm", *overrides, "evaluate=false", f"root={root}", f"run={run.name}")
    done = subprocess.run(
        [sys.executable, "-m", "autotelic.cli", "verify", str(run), "--json"], capture_output=True, text=True
    )
    if done.returncode > 1:  # 1: some differ, which is what is to be found out
        raise SystemExit(f"autotelic verify: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    if found["verdicts"] < verdicts:
        raise SystemExit(f"{run}: {found['verdicts']} verdicts are fewer than {verdicts}")
    RECORDS.add({"what": "replay", "world": VERSION, **{name: found[name] for name in ("verdicts", "different")}})


def table() -> None:
    for row in measured("fair"):
        shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in row["heldout"].items())
        print(f"{row['player']}, {row['robot']}: {shares}")
    found: dict[tuple[int, str, float], list[dict[str, Any]]] = defaultdict(list)
    for row in measured("learn"):
        found[row["settings"], " ".join([row["arm"], *row["keys"]]), row["minutes"]].append(row)
    for (settings, arm, minutes), lines in sorted(found.items()):
        lines.sort(key=lambda line: line["seed"])
        seeds = ", ".join(f"{line['seed']} ({line['steps']} steps, {line['commit'][:7]})" for line in lines)
        print(f"\n{arm}, {minutes:g} minutes, settings {settings}, seeds {seeds}")
        print("| family | before | after | each seed |\n| --- | --- | --- | --- |")
        for name in lines[0]["heldout"]:
            before, after = ([line["heldout"][name][when] for line in lines] for when in ("before", "after"))
            each = ", ".join(f"{100 * share:.0f}" for share in after)
            print(f"| {name} | {100 * statistics.mean(before):.1f} % | {100 * statistics.mean(after):.1f} % | {each} |")
    for row in [*measured("speed"), *measured("replay")]:
        print(json.dumps(row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fair", "learn", "speed", "replay", "table"])
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--key", nargs="+", default=[])
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--verdicts", type=int, default=1000)
    parser.add_argument("--root", type=Path, default=Path("runs/arm"))
    arguments = parser.parse_args()
    if arguments.what == "learn":
        learn(arguments.arms, arguments.seeds, arguments.minutes, arguments.key, arguments.root)
    elif arguments.what == "speed":
        speed(arguments.episodes, arguments.repeats)
    elif arguments.what == "replay":
        replay(arguments.verdicts, arguments.root)
    else:
        {"fair": fair, "table": table}[arguments.what]()


if __name__ == "__main__":
    main()
