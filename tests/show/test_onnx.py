"""Exported policies: what ONNX computes is what torch computes, and the contract says what it means."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from gymnasium import spaces
from torch import nn

from autotelic import __version__
from autotelic.errors import UserError
from autotelic.physics.base import Environment, Step
from autotelic.policies.mlp import MLPConfig, MLPPolicy
from autotelic.show import onnx as show_onnx
from autotelic.show.onnx import check_parity, export_policy

BOX, FREE = spaces.Box(-1, 1, (2,)), spaces.Box(-np.inf, np.inf, (2,))
SPACES = {
    "box": BOX,
    "unbounded": FREE,
    "discrete": spaces.Discrete(3, start=5),
    "multidiscrete": spaces.MultiDiscrete([2, 4]),
}


class Still(Environment):
    """Says what it is and how it begins: an export asks for nothing else."""

    name, count, dt, limit = "still", 4, 0.02, 10

    def __init__(self, space: spaces.Space[Any] = BOX, model: str | None = None) -> None:
        self.sizes, self.action_space, self.model = {"policy": 3, "critic": 7}, space, model

    def reset(self, seed: int) -> dict[str, np.ndarray]:
        return {name: np.ones((4, size), np.float32) for name, size in self.sizes.items()}

    def step(self, action: np.ndarray) -> Step:
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        raise NotImplementedError

    def load_state(self, state: Any) -> dict[str, np.ndarray]:
        raise NotImplementedError

    def model_xml(self) -> str | None:
        return self.model


def made(space: spaces.Space[Any], **config: Any) -> MLPPolicy:
    """With weights beyond the small ones it begins with, and a normaliser that has something to do."""
    torch.manual_seed(0)
    sizes = {"policy": 3, "critic": 7}
    policy = MLPPolicy(MLPConfig(hidden=(16, 16), **config), sizes, space)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    policy.observe({name: 50 + 9 * torch.randn(64, size) for name, size in sizes.items()})
    return policy


@dataclass
class Exported:
    policy: MLPPolicy
    folder: Path

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        session = onnxruntime.InferenceSession(self.folder / "policy.onnx")
        return np.asarray(session.run(["action"], {"observation": obs})[0])

    @property
    def contract(self) -> dict[str, Any]:
        return json.loads((self.folder / "policy.json").read_text())


def export(policy: MLPPolicy, folder: Path, model: str | None = None) -> Exported:
    export_policy(policy, Still(policy.action_space, model), folder, {"run": "one", "step": 7})
    return Exported(policy, folder)


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Callable[[str], Exported]:
    """A policy for a space of actions, exported once for all tests: that takes a second. One has no normaliser."""

    def make(name: str) -> Exported:
        return export(made(SPACES[name], normalise=name != "unbounded"), tmp_path_factory.mktemp(name))

    return cache(make)


@pytest.mark.parametrize("name", SPACES)
def test_onnx_acts_as_torch_does_in_batches_of_any_size(name: str, exported):
    rng = np.random.default_rng(2)
    for batch in (1, 2, 33):
        obs = (50 + 20 * rng.standard_normal((batch, 3))).astype(np.float32)
        found, wanted = exported(name)(obs), exported(name).policy.act({"policy": torch.from_numpy(obs)}).numpy()
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted.clip(-1, 1) if name == "box" else wanted, rtol=1e-5, atol=1e-5)


def test_actions_are_cut_at_bounds_inside_and_not_where_there_are_none(exported):
    far = np.random.default_rng(3).uniform(-500, 500, (200, 3)).astype(np.float32)
    assert np.abs(exported("unbounded")(far)).max() > 1.5
    uncut = exported("box").policy.act({"policy": torch.from_numpy(far)}).numpy()
    assert np.abs(uncut).max() > 1.5
    assert np.abs(exported("box")(far)).max() == 1.0


def test_the_graph_is_small_named_and_says_nothing_of_the_machine_it_was_made_on(exported):
    raw = (exported("box").folder / "policy.onnx").read_bytes()
    model = onnx.load_from_string(raw)
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == ["observation"]
    assert [value.name for value in model.graph.output] == ["action"]
    assert {node.op_type for node in model.graph.node} <= {"Sub", "Mul", "Clip", "Gemm", "Tanh", "Max", "Min"}
    assert not any("critic" in weight.name or "std" in weight.name for weight in model.graph.initializer)
    assert b".py" not in raw


def test_equal_policies_give_equal_files_and_a_tasks_own_model_stands_beside(exported, tmp_path):
    again = export(made(BOX), tmp_path, model="<mujoco/>")
    assert (tmp_path / "policy.onnx").read_bytes() == (exported("box").folder / "policy.onnx").read_bytes()
    assert (tmp_path / "model.xml").read_text() == "<mujoco/>"
    assert again.contract == {**exported("box").contract, "model": "model.xml"}


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("box", {"type": "float32", "shape": ["batch", 2], "low": [-1.0, -1.0], "high": [1.0, 1.0]}),
        ("unbounded", {"type": "float32", "shape": ["batch", 2]}),
        ("discrete", {"type": "int64", "shape": ["batch"], "choices": 3, "first": 5}),
        ("multidiscrete", {"type": "int64", "shape": ["batch", 2], "choices": [2, 4], "first": [0, 0]}),
    ],
)
def test_the_contract_says_what_goes_in_and_comes_out(name: str, output: dict[str, Any], exported):
    contract = exported(name).contract
    assert contract["input"] == {"name": "observation", "type": "float32", "shape": ["batch", 3]}
    assert contract["output"] == {"name": "action", **output}


def test_the_contract_says_what_was_exported(exported):
    said = exported("box").contract
    named = ("format", "environment", "dt", "run", "step", "autotelic")
    assert [said[name] for name in named] == [1, "still", 0.02, "one", 7, __version__]
    assert said["opset"] == onnx.load(exported("box").folder / "policy.onnx").opset_import[0].version


class Matrix(nn.Module):
    def __init__(self, weight: np.ndarray, choose: bool) -> None:
        super().__init__()
        self.weight, self.choose = torch.from_numpy(weight), choose

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return (obs @ self.weight).argmax(-1) if self.choose else obs @ self.weight


def network_of(weight: list[list[float]], choose: bool = False) -> tuple[bytes, nn.Module]:
    """A matrix, and the choice of the largest of what comes out, as ONNX and as torch."""
    matrix = np.array(weight, np.float32)
    nodes = [onnx.helper.make_node("MatMul", ["observation", "weight"], ["scores" if choose else "action"])]
    if choose:
        nodes.append(onnx.helper.make_node("ArgMax", ["scores"], ["action"], axis=1, keepdims=0))
    taken = onnx.helper.make_tensor_value_info("observation", onnx.TensorProto.FLOAT, ["batch", matrix.shape[0]])
    kind, shape = (
        (onnx.TensorProto.INT64, ["batch"]) if choose else (onnx.TensorProto.FLOAT, ["batch", matrix.shape[1]])
    )
    given = onnx.helper.make_tensor_value_info("action", kind, shape)
    graph = onnx.helper.make_graph(nodes, "matrix", [taken], [given], [onnx.numpy_helper.from_array(matrix, "weight")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    return model.SerializeToString(), Matrix(matrix, choose)


@pytest.mark.parametrize("wrong", [0.25002, float("nan")])
def test_a_network_that_differs_by_more_than_the_tolerance_is_refused(wrong: float):
    obs = np.ones((4, 2), np.float32)
    network, same = network_of([[0.5], [0.25]])
    check_parity(network, same, obs)
    with pytest.raises(RuntimeError, match="differs from torch's by"):
        check_parity(network, network_of([[0.5], [wrong]])[1], obs)


def grown() -> tuple[MLPPolicy, Still]:
    """As after long training: large weights, and statistics of very different scales."""
    torch.manual_seed(0)
    environment = Still(spaces.Box(-1, 1, (12,)))
    environment.sizes = {"policy": 60}
    policy = MLPPolicy(MLPConfig(hidden=(256, 256), activation="silu"), environment.sizes, environment.action_space)
    with torch.no_grad():
        for layer in ("0", "1"):
            policy.actor.network.layers.get_parameter(f"{layer}.weight").mul_(2)
            policy.actor.network.layers.get_parameter(f"{layer}.bias").normal_()
        policy.actor.head.get_parameter("mean.weight").mul_(300)
    policy.observe({"policy": torch.logspace(-3, 3, 60) * (7 + torch.randn(512, 60))})
    return policy, environment


def test_rounding_alone_refuses_no_export(tmp_path):
    export_policy(*grown(), tmp_path, {})


def in_half_precision(policy: MLPPolicy) -> None:
    for parameter in policy.parameters():
        parameter.copy_(parameter.half())


def with_other_statistics(policy: MLPPolicy) -> None:
    policy.actor.normaliser.get_buffer("scale").mul_(1.0001)


def with_one_weight_wrong(policy: MLPPolicy) -> None:
    policy.actor.network.layers.get_parameter("1.weight")[5, 7] *= 1.01


@pytest.mark.parametrize("spoil", [in_half_precision, with_other_statistics, with_one_weight_wrong])
def test_a_wrong_export_of_a_policy_with_large_weights_is_refused(spoil: Callable[..., None], tmp_path, monkeypatch):
    def wrong(actor: nn.Module, size: int) -> bytes:
        actor = copy.deepcopy(actor)
        with torch.no_grad():
            spoil(actor.policy)
        return right(actor, size)

    right = show_onnx.to_onnx
    monkeypatch.setattr(show_onnx, "to_onnx", wrong)
    with pytest.raises(RuntimeError, match="differs from torch's by"):
        export_policy(*grown(), tmp_path, {})
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_chooses_differently_is_refused():
    obs = np.random.default_rng(5).standard_normal((50, 2)).astype(np.float32)
    network, same = network_of([[1, 0], [0, 1]], choose=True)
    check_parity(network, same, obs)
    with pytest.raises(RuntimeError, match="differs from torch's by 1"):
        check_parity(network, network_of([[0, 1], [1, 0]], choose=True)[1], obs)


def test_a_network_that_gives_another_kind_of_action_is_refused():
    obs = np.ones((4, 2), np.float32)
    with pytest.raises(RuntimeError, match=r"gives int64 \(4,\), torch's float32 \(4, 2\)"):
        check_parity(network_of([[1, 0], [0, 1]], choose=True)[0], network_of([[1, 0], [0, 1]])[1], obs)


def test_a_missing_part_is_one_line_that_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"export needs onnxscript.*pip install 'autotelic\[export\]'"):
        export_policy(made(BOX), Still(), tmp_path, {})
    assert list(tmp_path.iterdir()) == []
