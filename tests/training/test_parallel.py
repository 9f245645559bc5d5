"""Two processes learn together what one learns alone from both shares."""

import json
import os
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

torch.set_num_threads(1)
SCRIPT = Path(__file__).with_name("parallel_update.py")
Learned = tuple[dict[str, Tensor], dict[str, float]]  # weights and figures


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, commands: Any) -> Path:
    """What two processes learned together, and one alone."""
    folder = tmp_path_factory.mktemp("parallel")
    environ = os.environ | {"GLOO_SOCKET_IFNAME": "lo"}  # their traffic stays on this machine
    program = SCRIPT.read_text()
    started = [commands.start([str(rank), "2", str(folder)], folder, environ, program=program) for rank in range(2)]
    runpy.run_path(str(SCRIPT))["main"](0, 1, folder)
    for process in started:
        assert process.wait() == 0, process.communicate()
    return folder


def learned(folder: Path, minibatches: int, rank: int, processes: int) -> Learned:
    name = f"{minibatches}_{rank}_of_{processes}"
    return load_file(folder / f"{name}.safetensors"), json.loads((folder / f"{name}.json").read_text())


@pytest.mark.parametrize("minibatches", [1, 4])
def test_weights_and_figures_are_the_same_in_both_processes(folder: Path, minibatches: int) -> None:
    (ours, figures), (others, their_figures) = (learned(folder, minibatches, rank, 2) for rank in range(2))
    assert all(torch.equal(values, others[name]) for name, values in ours.items())
    assert figures == their_figures


def test_two_processes_learn_what_one_learns_from_both_shares(folder: Path) -> None:
    (ours, figures), (alone, lone_figures) = learned(folder, 1, 0, 2), learned(folder, 1, 0, 1)
    for name, values in alone.items():
        assert torch.allclose(ours[name], values, atol=1e-5), f"{name} is what one process finds"
    for name in set(figures) - {"explained_variance"}:  # which is a mean of the processes'
        assert figures[name] == pytest.approx(lone_figures[name], rel=1e-3, abs=1e-5), name
