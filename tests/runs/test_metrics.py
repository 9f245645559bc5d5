import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.runs.metrics import LogConfig, Metrics, TensorBoard, WeightsAndBiases, read


def write_steps(path: Path, steps: range) -> Metrics:
    metrics = Metrics(path)
    for step in steps:
        metrics.write(step, {"solved": step / 2})
    return metrics


def test_each_step_is_one_flat_json_line(tmp_path: Path):
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.write(1, {"a/b": np.float32(0.5), "n": np.int64(3), "ok": True, "name": "x"})
    assert json.loads(metrics.path.read_text()) == {"step": 1, "a/b": 0.5, "n": 3, "ok": True, "name": "x"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_figures_json_cannot_hold_become_null(tmp_path: Path, value: float):
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.write(1, {"loss": value})
    assert metrics.path.read_text() == '{"step":1,"loss":null}\n'


def test_nested_figures_are_refused(tmp_path: Path):
    with pytest.raises(TypeError, match="loss"):
        Metrics(tmp_path / "metrics.jsonl").write(1, {"loss": {"a": 1}})


def test_reading_passes_over_a_torn_last_line(tmp_path: Path):
    metrics = write_steps(tmp_path / "metrics.jsonl", range(1, 4))
    with open(metrics.path, "ab") as file:
        file.write(b'{"step":4,"sol')
    assert [line["step"] for line in metrics.read()] == [1, 2, 3]


def test_damage_before_the_end_is_named(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step":1}\nnonsense\n{"step":2}\n')
    with pytest.raises(UserError, match=r"metrics\.jsonl:2"):
        list(read(path))


def test_rewind_drops_newer_lines_and_the_torn_one_and_writing_goes_on(tmp_path: Path):
    metrics = write_steps(tmp_path / "metrics.jsonl", range(1, 6))
    with open(metrics.path, "ab") as file:
        file.write(b'{"step":6')
    metrics.rewind(3)
    metrics.write(4, {"solved": 9})
    assert [(line["step"], line["solved"]) for line in metrics.read()] == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 9)]


def test_a_full_disk_is_one_line():
    with pytest.raises(UserError, match="/dev/full: the disk is full"):
        Metrics(Path("/dev/full")).write(1, {"a": 1})


def test_wandb_mode_is_checked():
    with pytest.raises(UserError, match=r"log\.wandb=on: choose one of off, offline, online"):
        LogConfig(wandb="on")


def test_a_missing_display_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"autotelic\[tensorboard\]"):
        TensorBoard(tmp_path, 1)
    with pytest.raises(UserError, match=r"autotelic\[wandb\]"):
        WeightsAndBiases(tmp_path, "offline", "p", "n", "i")


def test_tensorboard_gets_every_figure(tmp_path: Path):
    pytest.importorskip("tensorboardX", reason="the tensorboard extra is not installed")
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.add_sink(TensorBoard(tmp_path / "tensorboard", 1))
    metrics.write(1, {"solve_rate": 0.25, "loss": math.nan})
    metrics.close()
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"solve_rate" in events.read_bytes()


def test_wandb_writes_offline_without_a_network(tmp_path: Path):
    pytest.importorskip("wandb", reason="the wandb extra is not installed")
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.add_sink(WeightsAndBiases(tmp_path, "offline", "project", "name", "identity"))
    metrics.write(1, {"solve_rate": 0.25})
    metrics.close()
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
