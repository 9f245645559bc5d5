"""autotelic verify: judges an archive again, here, and prints every verdict that differs."""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from autotelic.cli import play, play_session
from autotelic.cli.arguments import add_json, print_json
from autotelic.errors import UserError
from autotelic.play.archive import Archive
from autotelic.runs.directory import Run
from autotelic.runs.progress import Display
from autotelic.worlds.base import Answer, Task, Verdict, World

BATCH = 512

Row = tuple[Task, Answer, Verdict, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory, or the name of one under runs/")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    with Run.open(arguments.run, readonly=True) as directory:
        config = play.restore(directory)
        with Archive.open(directory.archive, config.archive, readonly=True) as archive:
            archive.check()
            total = int(archive.counts()["verdicts"])
            with play_session.build_world(config) as world, Display("verify", total, unit="verdicts") as display:
                world.recall_from(archive.solved_answer)
                differing, judged, others = [], 0, Counter[str]()
                for batch in _batches(archive, world.version, others):
                    differing += judge_again(world, batch)
                    judged += len(batch)
                    display.update(judged + others.total())
                if others and not judged:
                    raise UserError(
                        f"the archive was judged by {_named(others)}, this is {world.version}: "
                        "install that version to verify it"
                    )
    if arguments.json:
        found = {"verdicts": judged, "different": len(differing), "other_versions": others.total(), "rows": differing}
        print_json({"run": str(directory.path)} | found)
    else:
        for row in differing:
            print(f"sample {row['sample']} task {row['task']}: was {row['was']}, is {row['is']}")
        if others:
            print(f"{others.total()} verdicts of {_named(others)} left out: this is {world.version}")
        print(f"{judged} verdicts judged again, {len(differing)} differ")
    return 1 if differing else 0


def _batches(archive: Archive, version: str, others: Counter[str]) -> Iterator[list[Row]]:
    """Neighbours judged under one seed, together: in the order they were judged first. Those of other versions, which
    a run has that was resumed under a new one, are counted in `others`."""
    for (seen, _), rows in itertools.groupby(archive.verdict_rows(), key=lambda row: (row[2].version, row[2].seed)):
        if seen != version:
            others[seen] += sum(1 for _ in rows)
            continue
        while batch := list(itertools.islice(rows, BATCH)):
            yield batch


def _named(versions: Iterable[str]) -> str:
    return ", ".join(version or "an unknown version" for version in versions)


def judge_again(world: World, batch: list[Row]) -> list[dict[str, Any]]:
    """The verdicts of a batch that come out different."""
    again = world.judge([(task, answer) for task, answer, _, _ in batch], batch[0][2].seed)
    return [
        {"sample": sample, "task": task.id, "was": before.judgement, "is": after.judgement}
        for (task, _, before, sample), after in zip(batch, again, strict=True)
        if before.judgement != after.judgement
    ]
