"""autotelic eval: measures a run's player or policy, as it is at the last checkpoint."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotelic.cli import carry, play, play_session
from autotelic.cli.arguments import add_json, add_run, figure, pairs, print_json, print_table, whole
from autotelic.errors import UserError
from autotelic.play import evaluation
from autotelic.runs.directory import Run
from autotelic.runs.files import write_atomic
from autotelic.runs.progress import Display

EPILOG = """\
of self-play:
  suite=NAME         one of the world's own suites (code: humaneval, codeio); default: its held-out suite
  suite=FILE.jsonl   your own tasks, one JSON object a line
  episodes=N         tasks attempted, spread evenly over the suite (default: all)
  samples=N          beside the greedy attempt, N sampled ones a task, for pass@k (default: none)
of training:
  episodes=N         episodes played (default: as many as the run itself is measured with)
  seed=N             of the episodes (default: the run's own)
  step=N             a checkpoint's step, or best (default: the newest checkpoint)
  env.KEY=VALUE      what is to be different: env.push=0.5, env.randomise=off
"""

Report = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    with Run.open(arguments.run, readonly=True) as directory:
        carry.verb_of(directory)
        trained = directory.meta.get("verb") == "train"
        report = (_policy if trained else _player)(directory, arguments.overrides)
        now = datetime.datetime.now(datetime.UTC)
        path = directory.directory("eval") / f"step_{report['step']:06d}_{now:%Y%m%dT%H%M%S%f}.json"
        write_atomic(path, json.dumps(report, indent=1, allow_nan=False) + "\n")
    if arguments.json:
        print_json(report)
        return 0
    if trained:
        print_table("", ("", "mean"), [(name, figure(value)) for name, value in report["eval"].items()])
    else:
        passes = next(iter(report["kinds"].values())).get("pass", {})
        print_table("", ("kind", "tasks", "accuracy", *(f"pass@{k}" for k in passes)), list(_lines(report["kinds"])))
    print(f"written to {path}")
    return 0


def _player(directory: Run, overrides: Sequence[str]) -> Report:
    given = pairs(overrides, ("suite", "episodes", "samples"))
    episodes = whole("episodes", given["episodes"], least=1) if "episodes" in given else None
    samples = whole("samples", given["samples"], least=1) if "samples" in given else 0
    suite = given.get("suite")
    if suite is not None and Path(suite).suffix and not Path(suite).is_file():
        raise UserError(f"suite={suite}: no such file")
    config = play.restore(directory)
    with play_session.open_to_look(directory, config) as loop:
        found = loop.world.load_suite(suite) if suite is not None else loop.world.suite
        tasks = evaluation.spread(found, episodes)
        if not tasks:
            raise UserError(f"{suite or config.world.name}: no held-out tasks to measure on; give suite=FILE.jsonl")
        with Display("eval", len(tasks) * (1 + samples), unit="attempts") as display:
            kinds = loop.evaluate(tasks, samples, display.update)
        return {"run": str(directory.path), "step": loop.step, "suite": suite or "held out", "kinds": kinds}


def _policy(directory: Run, overrides: Sequence[str]) -> Report:
    from autotelic.cli import train, train_session
    from autotelic.training.evaluate import evaluate

    changes = [text for text in overrides if text.startswith("env.")]
    given = pairs([text for text in overrides if text not in changes], ("episodes", "seed", "step"))
    config = train.restore(directory, changes)
    episodes = whole("episodes", given["episodes"], least=1) if "episodes" in given else config.evaluate_episodes
    seed = whole("seed", given["seed"]) if "seed" in given else train_session.exam_seed(config)
    count, at = min(episodes, config.env.count), carry.chosen_step(directory, given.get("step"))
    with (
        train_session.open_to_look(directory, config, at, count=count) as (step, environment, policy),
        Display("eval", episodes, unit="episodes") as display,
    ):
        found = evaluate(environment, policy, episodes, seed, display.update)
    return {"run": str(directory.path), "step": step, "changes": changes, "eval": found}


def _lines(kinds: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """A line a kind, and below it one for each depth."""
    for kind, row in kinds.items():
        parts = {kind: row, **{f"  depth {depth}": part for depth, part in row["depth"].items()}}
        for label, part in parts.items():
            yield (label, str(part["n"]), _share(part["accuracy"]), *map(_share, part.get("pass", {}).values()))


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"
