"""What a world must keep to: its tasks and its verdicts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from autotelic.worlds.base import Answer, Proposal, Rejection, Request, Task, Verdict, World


def check_world(world: World, proposals: Sequence[Proposal], answers: Sequence[Answer]) -> None:
    """Admits the proposals and judges every answer for every task: batched, ordered, deterministic, plain data."""
    assert world.name, "a world has a name"
    assert world.version, "a world has a version: it is part of every verdict"
    assert world.kinds, "a world has kinds"
    for name, kind in world.kinds.items():
        assert kind.name == name, f"the kind at {name!r} calls itself {kind.name!r}"
        assert set(kind.builds_on) <= set(world.kinds), f"{name} builds on kinds that the world does not have"

    if world.alike:
        assert isinstance(world.asks_heldout(""), bool), "where words are alike, asks_heldout says what is held out"
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
