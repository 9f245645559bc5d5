"""Conformance checks for parts written elsewhere: call them from a test of your own.

Each check exercises a part the way the loop does and raises AssertionError with what was expected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autotelic.play.archive import Archive
from autotelic.play.player import Player, Sample
from autotelic.runs.directory import Run
from autotelic.worlds.base import Answer, Proposal, Rejection, Request, Task, Verdict, World


def check_world(world: World, proposals: Sequence[Proposal], answers: Sequence[Answer]) -> None:
    """Admits the proposals and judges every answer for every task: batched, ordered, deterministic, plain data."""
    assert world.name, "a world has a name"
    assert world.version, "a world has a version: it is part of every verdict"
    assert world.kinds, "a world has kinds"
    for name, kind in world.kinds.items():
        assert kind.name == name, f"the kind at {name!r} calls itself {kind.name!r}"
        assert set(kind.builds_on) <= set(world.kinds), f"{name} builds on kinds that the world does not have"

    seeds = world.seeds()
    for task in seeds:
        _check_task(world, task)
    results = world.admit(proposals, seed=1)
    assert len(results) == len(proposals), "admit gives one result a proposal"
    for proposal, result in zip(proposals, results, strict=True):
        assert result.kind == proposal.kind, "a result is of its proposal's kind, in the order given"
        if isinstance(result, Rejection):
            assert result.outcome, "a rejection has a class"
            assert result.reason, "a rejection has a reason"
        else:
            _check_task(world, result)
    assert world.admit(proposals, seed=1) == results, "admit is a function of proposals and seed"
    assert world.admit([], seed=1) == [], "an empty batch is fine"

    admitted = [result for result in results if isinstance(result, Task)]
    tasks = {task.id: task for task in (*seeds, *admitted)}
    pairs = [(task, answer) for task in tasks.values() for answer in (*answers, Answer(""), Answer("\x00<answer>"))]
    verdicts = world.judge(pairs, seed=2)
    assert len(verdicts) == len(pairs), "judge gives one verdict a pair"
    for verdict in verdicts:
        _check_verdict(world, verdict, seed=2)
    assert world.judge(pairs, seed=2) == verdicts, "judge is a function of pairs and seed"
    assert world.judge(pairs[::-1], seed=2) == verdicts[::-1], "a verdict does not depend on its place in the batch"
    claimed = [(task, Answer(answer.text, claim=True)) for task, answer in pairs]
    assert [verdict.solved for verdict in world.judge(claimed, seed=2)] == [verdict.solved for verdict in verdicts], (
        "a claim of success changes nothing"
    )
    assert world.judge([], seed=2) == [], "an empty batch is fine"


def _check_task(world: World, task: Task) -> None:
    assert task.world == world.name, f"task {task.id} is of world {task.world!r}, not {world.name!r}"
    assert task.kind in world.kinds, f"task {task.id} is of unknown kind {task.kind!r}"
    assert json.loads(json.dumps(dict(task.spec))) == dict(task.spec), f"the spec of task {task.id} is not plain data"
    assert all(isinstance(value, int | float) for value in task.features.values()), "features are numbers"
    kind = world.kinds[task.kind]
    assert kind.solve_prompt(task), "a task can be asked"
    assert kind.propose_prompt(Request(task.kind, references=(task,), base=task)), "a kind can be asked for"


def _check_verdict(world: World, verdict: Verdict, seed: int) -> None:
    assert verdict.outcome, "a verdict has a class"
    assert verdict.version == world.version, "a verdict carries the world's version"
    assert verdict.seed == seed, "a verdict carries the seed it was judged with"
    assert 0.0 <= verdict.score <= 1.0, "a score is between 0 and 1"
    assert not verdict.solved or verdict.evidence, "what is no evidence is not solved"


def check_player(player: Player, requests: Sequence[Request], tasks: Sequence[Task]) -> None:
    """Proposes and attempts twice from equal generators: right counts, right labels, equal samples."""
    proposed = player.propose(requests, np.random.default_rng(3))
    assert [sample.kind for sample in proposed] == [request.kind for request in requests], "one sample a request"
    assert all(sample.role == "propose" and sample.task is None for sample in proposed), "proposals are labelled so"
    attempted = player.attempt(tasks, 3, np.random.default_rng(4))
    assert [sample.task for sample in attempted] == [task.id for task in tasks for _ in range(3)], (
        "n samples a task, task by task, each with its task's id"
    )
    assert all(sample.role == "solve" for sample in attempted), "attempts are labelled so"
    assert [sample.kind for sample in attempted] == [task.kind for task in tasks for _ in range(3)]
    assert _texts(player.propose(requests, np.random.default_rng(3))) == _texts(proposed), "seeded"
    assert _texts(player.attempt(tasks, 3, np.random.default_rng(4))) == _texts(attempted), "seeded"
    player.learn([(sample, 1.0) for sample in (*proposed, *attempted)])
    player.load_state(player.state())


def _texts(samples: Sequence[Sample]) -> list[str]:
    return [sample.text for sample in samples]


def run_digest(path: str | Path) -> str:
    """One hash over all that a self-play run holds, except timings: equal for a resumed and an uninterrupted run."""
    with Run.open(path, readonly=True) as run, Archive.open(run.archive, readonly=True) as archive:
        step, state = run.checkpoints.load()
        figures = [
            {name: value for name, value in line.items() if not name.startswith("time/")} for line in run.metrics.read()
        ]
        plain = {name: value for name, value in state.items() if name != "timings"}
        parts = [archive.digest(), figures, step, json.dumps(plain, sort_keys=True, default=_array_digest)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _array_digest(value: object) -> str:
    array = np.asarray(value)
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()
