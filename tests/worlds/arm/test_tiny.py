"""Self-play in the arm world with a small model that learns: brief words, a few steps, a run that goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import autotelic
from autotelic.play.loop import Loop
from autotelic.play.players.mind import MindPlayer, player_of
from autotelic.testing import run_digest
from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig
from autotelic.worlds.base import KINDS

from .texts import control

torch = pytest.importorskip("torch")
from autotelic.minds.tiny.mind import TinyConfig, TinyMind  # noqa: E402

# Untrained as it is, it keeps to the form of most texts.
SHAPE = ("player.width=16", "player.heads=4", "player.layers=1", "player.max_tokens=24", "player.base_steps=3")
OPTIONS = (
    *("world=arm", "world.workers=1", "world.heldout=false", "evaluate=false", "player=tiny", "player.mask=true"),
    *("loop.batch=4", "loop.proposals=4", "loop.attempts=2", "loop.questions=2", "checkpoint.every=2", *SHAPE),
    "loop.attempts_at={deduction: 4, abduction: 3, induction: 3}",
    "loop.proposals_at.abduction=4",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where runs go. The weights that they begin with are made in a cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield tmp_path_factory.mktemp("runs")


@dataclass
class Played:
    """A run of two steps after the one that fills the archive, and the weights after each."""

    loop: Loop
    figures: list[dict[str, float]]
    weights: list[list[Any]]


@pytest.fixture(scope="module")
def played(root: Path) -> Iterator[Played]:
    with autotelic.new_loop(*OPTIONS, f"root={root}", "run=one") as loop:
        assert isinstance(loop.solver, MindPlayer)
        figures, weights = [], []
        for _ in range(3):
            figures.append(loop.run_step())
            weights.append([weight.detach().clone() for weight in loop.solver.mind.parameters()])
        yield Played(loop, figures, weights)


def test_what_learns_asks_the_world_what_is_held_out(task_of, root: Path):
    with ArmWorld(ArmWorldConfig(workers=1)) as world:
        world.suite = []
        world.withhold([task_of("induction", control(["lifted", "red_box"], randomisation={"position": 0.6}))])
        config = TinyConfig(width=16, heads=4, layers=1, max_tokens=24, base_steps=3)
        player = player_of(TinyMind)(config, world)
        assert player.learner is not None
        prompts = [f"<induction> {goal} red_box<scene> red_box<answer>" for goal in ("lifted", "near")]
        found = [player.learner._withheld(player.mind.encode(prompt).tobytes()) for prompt in prompts]
    assert found == [True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_samples_and_verdicts_of_every_kind_are_archived(played: Played, kind: str):
    archive = played.loop.archive
    assert archive.tasks(kind)
    roles = Counter((row["role"], row["step"]) for row in archive.sample_rows() if row["kind"] == kind)
    assert roles["propose", 0] > 0
    assert [roles["propose", step] for step in (1, 2)] == [4, 4]
    judged = Counter(sample for task, _, _, sample in archive.verdict_rows() if task.kind == kind)
    assert judged == Counter(row["n"] for row in archive.sample_rows() if (row["role"], row["kind"]) == ("solve", kind))
    assert set(judged.values()) == {1}


def test_a_proposal_that_is_no_task_is_archived_with_the_class_of_why(played: Played):
    archive = played.loop.archive
    refused = {row["sample"]: row for row in archive.rejection_rows()}
    taken = {entry.sample for entry in archive.tasks(limit=1000)} - {None}
    assert refused
    assert all(row["outcome"] and row["reason"] for row in refused.values())
    proposed = {row["n"] for row in archive.sample_rows() if row["role"] == "propose"}
    assert proposed == refused.keys() | taken
    assert refused.keys().isdisjoint(taken)


def test_some_of_what_an_untrained_model_answers_is_simulated(played: Played):
    assert any(verdict.metrics.get("steps", 0) > 0 for _, _, verdict, _ in played.loop.archive.verdict_rows())


def test_learning_begins_once_the_archive_is_filled(played: Played):
    filled, first, second = played.weights
    assert not any(name.startswith("learn/") for name in played.figures[0])
    assert all(figures["learn/updates"] > 0 for figures in played.figures[1:])
    for before, after in ((filled, first), (first, second)):
        assert not all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_run_that_is_taken_up_again_is_equal_to_one_that_was_not_interrupted(played: Played, root: Path):
    with autotelic.new_loop(*OPTIONS, f"root={root}", "run=two") as loop:
        loop.run(2)
    with autotelic.open_loop(root / "two") as loop:
        assert loop.step == 1
        loop.run(1)
    assert run_digest(root / "two") == run_digest(root / "one")
