"""Does self-play learn, and what of it is worth what? Held-out accuracy before and after, against controls.

    python benchmarks/learning.py controls   [--minutes 10] [--seeds 3]
    python benchmarks/learning.py estimators [--minutes 5]  [--seeds 1]
    python benchmarks/learning.py rewards    [--minutes 5]  [--seeds 1]
    python benchmarks/learning.py sizes      [--minutes 5]  [--seeds 1]
    python benchmarks/learning.py table controls|estimators|rewards|sizes

Every arm is `player=tiny` for the same learning time, but for what its name says; the arms of one seed follow each
other. `learning off` is played for a tenth of it: its weights stay as they are. `supervised` is the upper reference:
the same weights, optimiser and number of steps as self-play with that seed, on as many right answers as it found, but
true ones to tasks drawn from the grammar that the held-out suite is drawn from. A run that is in the results, with the
suite as it is, is not repeated, so a benchmark that was stopped goes on. Prints and appends one JSON line a run to
results/learning.jsonl; `table` prints means and spreads of what is there.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from functools import cache
from typing import Any

import numpy as np
from records import Records

import autotelic
from autotelic.minds.base import Generation
from autotelic.minds.samples import Graded
from autotelic.minds.tiny.mind import TinyMind
from autotelic.minds.tiny.vocabulary import END
from autotelic.play.evaluation import Row
from autotelic.play.loop import Loop
from autotelic.play.players.mind import MindPlayer
from autotelic.play.rewards import LEARNABILITY
from autotelic.runs.files import content_address
from autotelic.show.intervals import t_quantile
from autotelic.worlds.base import Proposal, Task
from autotelic.worlds.code import language
from autotelic.worlds.code.world import CodeWorld, CodeWorldConfig

RECORDS = Records("learning")
SELF_PLAY = "self-play"
# No memory: the estimator alone teaches. With Muon at the rate that suits imitation it unteaches; Adam's keeps them up.
PUBLISHED = (
    "player.learner.replay=0",
    "loop.hindsight=false",
    "player.learner.minibatch=512",
    "player.learner.optimizer=adamw",
    "player.learner.lr=0.001",
)
# Of the texts that a player of both roles sees again in an update, three quarters are answers.
ANSWERS_ALONE = "learner.replay_size=216"
ARMS: dict[str, dict[str, tuple[str, ...]]] = {
    "controls": {
        SELF_PLAY: ("player=tiny",),
        "learning off": ("player=tiny", "player.learner.enabled=false"),
        "proposer not trained": (
            "proposer=tiny",
            "solver=tiny",
            "proposer.learner.enabled=false",
            f"solver.{ANSWERS_ALONE}",
        ),
        "deduction only": ("player=tiny", "world.kinds=[deduction]"),
        "supervised": ("player=tiny", f"player.{ANSWERS_ALONE}"),
    },
    "estimators": {
        SELF_PLAY: ("player=tiny",),
        "without hindsight": ("player=tiny", "loop.hindsight=false"),
        "without replay": (
            "player=tiny",
            "player.learner.replay=0",
            "loop.hindsight=false",
            "player.learner.epochs=20",
        ),
    }
    | {
        name: ("player=tiny", f"player.learner.estimator={name}", *PUBLISHED)
        for name in ("sil", "trr++", "reinforce++", "grpo", "rloo", "dr-grpo", "maxrl", "ppo")
    },
    "rewards": {name: ("player=tiny", f"reward.learnability={name}") for name in LEARNABILITY},
    "sizes": {
        "0.17 M": ("player=tiny",),
        "0.47 M": ("player=tiny", "player.width=96", "player.layers=4"),
        "1.03 M": ("player=tiny", "player.width=128", "player.layers=5"),
    },
}


PHASES = {
    "generate": ("propose", "attempt"),
    "judge": ("admit", "judge"),
    "learn": ("learn",),
    "archive": ("archive",),
}


def shares(lines: list[dict[str, float]]) -> dict[str, float]:
    """Shares of the time in steps: generating, judging (admission included), learning, and the rest."""
    spent = {
        name: sum(line.get(f"time/{part}", 0.0) for line in lines for part in parts) for name, parts in PHASES.items()
    }
    return {name: round(seconds / max(sum(spent.values()), 1e-9), 3) for name, seconds in spent.items()}


def generated(loop: Loop, line: dict[str, float]) -> float:
    """Tokens written in a step."""
    config, total = loop.config, 0.0
    for kind in loop.world.kinds:
        asked = min(config.proposals or config.batch, config.batch)
        answered = config.batch * config.attempts_at.get(kind, config.attempts)
        total += asked * line.get(f"learn/propose/{kind}/length", 0.0)
        total += answered * line.get(f"learn/solve/{kind}/length", 0.0)
    return total


def play(overrides: tuple[str, ...], seed: int, minutes: float, folder: str) -> dict[str, Any]:
    common = ("world=code", f"root={folder}", f"seed={seed}", "evaluate=false", "checkpoint.every=1000000")
    with autotelic.new_loop(*common, *overrides) as loop:
        before, lines, tokens = loop.evaluate(loop.world.suite), [], 0.0
        found, late = dict.fromkeys(loop.world.kinds, 0.0), dict.fromkeys(loop.world.kinds, 0.0)
        while loop.seconds < 60 * minutes:
            lines.append(loop.run_step())
            tokens += generated(loop, lines[-1])
            for kind in found:
                found[kind] += lines[-1].get(f"learn/solve/{kind}/remembered", 0.0)
                late[kind] += lines[-1].get(f"learn/solve/{kind}/remembered_in_hindsight", 0.0)
        after = loop.evaluate(loop.world.suite)
        writing = sum(line.get("time/propose", 0.0) + line.get("time/attempt", 0.0) for line in lines[1:])
        return {
            "before": before,
            "after": after,
            "steps": loop.step,
            "seconds": round(loop.seconds, 1),
            "shares": shares(lines[1:]),
            "tokens_per_second": round(tokens / writing) if tokens else None,
            "remembered": found,
            "remembered_in_hindsight": late,
            "valid": {kind: lines[-1].get(f"propose/{kind}/valid_share") for kind in loop.world.kinds},
        }


def true_answers(loop: Loop, kind: str, count: int, rng: np.random.Generator) -> list[Graded]:
    """Right answers to random tasks of the grammar, from running them; held-out tasks are refused like any proposal."""
    assert isinstance(loop.solver, MindPlayer)
    assert isinstance(loop.solver.mind, TinyMind)
    assert isinstance(loop.world, CodeWorld)
    mind, world, found = loop.solver.mind, loop.world, []
    asked, many = world.kinds[kind], world.config.kind.inputs if kind == "induction" else 1
    while len(found) < count:
        proposals = []
        for _ in range(count):
            written = language.random_program(rng, int(rng.integers(1, 5)))
            inputs = language.distinct_inputs(rng, written.takes, many)
            proposals.append(Proposal(kind, asked.compose(written.program, inputs)))
        for task in world.admit(proposals, 0):
            if isinstance(task, Task):
                text = asked.true_answer(task.spec)
                tokens = np.array([*mind.vocabulary.encode(text), END], np.int32)
                said = Generation(text, mind.encode(asked.brief_solve_prompt(task)), tokens)
                found.append(Graded(said, 1.0, f"solve/{kind}", task.id, hindsight=True))
    return found[:count]


def supervise(overrides: tuple[str, ...], seed: int, like: dict[str, Any], folder: str) -> dict[str, Any]:
    """As many updates, on as many right answers of each kind, as a run of self-play had."""
    common = ("world=code", f"root={folder}", f"seed={seed}", "evaluate=false", "checkpoint.every=1000000")
    rng, began = np.random.default_rng(seed), time.perf_counter()
    with autotelic.new_loop(*common, *overrides) as loop:
        before = loop.evaluate(loop.world.suite)
        assert isinstance(loop.solver, MindPlayer)
        assert loop.solver.learner is not None
        for _ in range(like["steps"]):
            each = {kind: max(1, round(count / like["steps"])) for kind, count in like["remembered"].items()}
            loop.solver.learner.learn(
                [graded for kind, count in each.items() for graded in true_answers(loop, kind, count, rng)]
            )
        after = loop.evaluate(loop.world.suite)
    return {"before": before, "after": after, "steps": like["steps"], "seconds": round(time.perf_counter() - began, 1)}


@cache
def suite() -> str:
    with CodeWorld(CodeWorldConfig()) as world:
        return content_address([task.id for task in world.suite])


def known() -> list[dict[str, Any]]:
    """What was measured with the suite as it is."""
    return [row for row in RECORDS.lines() if row["suite"] == suite()]


def run(group: str, minutes: float, seeds: int) -> None:
    for seed in range(seeds):
        for arm, overrides in ARMS[group].items():
            done = {(row["arm"], row["seed"], row["minutes"]): row for row in known() if row["group"] == group}
            if (arm, seed, minutes) in done:
                continue
            with tempfile.TemporaryDirectory() as folder:
                if arm == "supervised":
                    figures = supervise(overrides, seed, done[SELF_PLAY, seed, minutes], folder)
                else:
                    figures = play(overrides, seed, minutes / 10 if arm == "learning off" else minutes, folder)
            about = {"group": group, "arm": arm, "seed": seed, "minutes": minutes, "suite": suite()}
            RECORDS.add({**about, **figures})


def spread(values: list[float]) -> str:
    if len(values) == 1:
        return f"{100 * values[0]:.1f}"
    return f"{100 * statistics.mean(values):.1f} ± {100 * statistics.stdev(values):.1f}"


def by_depth(rows: list[Row]) -> str:
    depths = sorted({depth for row in rows for depth in row.get("depth", {})}, key=float)
    means = [statistics.mean(row["depth"][depth]["accuracy"] for row in rows) for depth in depths]
    return " ".join(f"{100 * mean:.0f}" for mean in means)


def ahead(rows: list[dict[str, Any]], kind: str, of: list[dict[str, Any]]) -> str:
    """How far self-play is ahead of an arm: paired by seed, with the 95 % interval of the mean."""
    best = {row["seed"]: row["after"].get(kind) for row in rows if row["arm"] == SELF_PLAY}
    pairs = [(best[row["seed"]], row["after"][kind]) for row in of if best.get(row["seed"]) and row["arm"] != SELF_PLAY]
    gaps = [mine["accuracy"] - other["accuracy"] for mine, other in pairs]
    if len(gaps) < 2:
        return ""
    reach = t_quantile(len(gaps) - 1) * statistics.stdev(gaps) / math.sqrt(len(gaps))
    return f"self-play ahead by {100 * statistics.mean(gaps):.1f} ± {100 * reach:.1f}"


def table(group: str) -> None:
    rows = [row for row in known() if row["group"] == group]
    for minutes in sorted({row["minutes"] for row in rows}):
        print(f"{minutes:g} minutes; held-out accuracy in %, mean ± standard deviation over seeds, [by depth 1 to 4]")
        for arm in ARMS[group]:
            of = [row for row in rows if row["arm"] == arm and row["minutes"] == minutes]
            kinds = list(of[0]["after"]) if of else []
            for kind in kinds:
                before, after = ([row[when][kind] for row in of] for when in ("before", "after"))
                gains = [late["accuracy"] - early["accuracy"] for early, late in zip(before, after, strict=True)]
                accuracies = [row["accuracy"] for row in before], [row["accuracy"] for row in after]
                print(
                    f"{arm:22} {kind:10} {len(of)} seeds  {spread(accuracies[0])} -> {spread(accuracies[1])}"
                    f"  gain {spread(gains)}  [{by_depth(after)}]  {ahead(rows, kind, of)}"
                )
        print("commits:", *sorted({row["commit"][:7] for row in rows if row["minutes"] == minutes}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*ARMS, "table"])
    parser.add_argument("group", nargs="?", choices=list(ARMS), default="controls")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seeds", type=int)
    arguments = parser.parse_args()
    if arguments.what == "table":
        table(arguments.group)
        return
    long, many = (10.0, 3) if arguments.what == "controls" else (5.0, 1)
    run(arguments.what, arguments.minutes or long, arguments.seeds or many)


if __name__ == "__main__":
    main()
