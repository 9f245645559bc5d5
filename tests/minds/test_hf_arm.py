"""A Hugging Face mind at the arm's full prompts: they fit its window, or it says that they do not."""

import json
import logging
import shutil
from pathlib import Path

import pytest

import autotelic
from autotelic.worlds.base import KINDS

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("mujoco")

OPTIONS = (
    *("world=arm", "world.workers=1", "world.heldout=false", "evaluate=false", "player=hf", "player.max_tokens=8"),
    *("loop.batch=1", "loop.attempts=2", "loop.seeding=1", "loop.references=1", "player.micro_batch=1"),
)


def played(model: Path, root: Path):
    """Proposals, answers and verdicts of a step."""
    with autotelic.new_loop(*OPTIONS, f"player.model={model}", f"root={root}", "run=one") as loop:
        loop.run(2)
        samples = [row for row in loop.archive.sample_rows() if row["step"] == 1]
        verdicts = list(loop.archive.verdict_rows())
    did = {(row["role"], row["kind"]) for row in samples}
    assert did == {(role, kind) for role in ("propose", "solve") for kind in KINDS}
    assert {task.kind for task, *_ in verdicts} == set(KINDS)
    return samples, [verdict for _, _, verdict, _ in verdicts]


def test_in_a_large_window_every_prompt_is_answered_and_judged(qwen, tmp_path, caplog):
    model = tmp_path / "model"
    shutil.copytree(qwen, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 16_384}))
    samples, verdicts = played(model, tmp_path)
    assert "window" not in caplog.text
    assert all(row["text"] for row in samples)
    assert all(verdict.outcome == "format" and verdict.evidence and not verdict.solved for verdict in verdicts)


def test_prompts_beyond_a_window_are_said_once_and_stay_unanswered(qwen, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        samples, verdicts = played(qwen, tmp_path)
    assert caplog.text.count("leaves no room in its window of 256") == 1
    assert all(row["text"] == "" for row in samples)
    assert {verdict.outcome for verdict in verdicts} == {"format"}
