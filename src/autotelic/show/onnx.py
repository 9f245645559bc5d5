"""A policy for use elsewhere: its network as ONNX, normaliser and bounds inside, and a contract that says what its
numbers mean."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from autotelic import __version__
from autotelic.physics.base import Environment
from autotelic.policies.base import Policy
from autotelic.registry import optional
from autotelic.runs.files import write_atomic

FORMAT = 1  # of the contract
OPSET = 18
INPUT, OUTPUT = "observation", "action"
TOLERANCE = 1e-5  # between torch and onnxruntime; relative where an action is above 1
ROUNDINGS = 4  # so many times what rounding was seen to do to an action, where that is more
NUDGES = 32  # times that is tried: once, by luck, an action may stay where it was
TIES = 0.01  # share of observations for which two choices may be too close to call


class _Actor(nn.Module):
    """What an exported policy computes: the action without chance, cut to the bounds it has."""

    low: Tensor
    high: Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy, self.bounded = policy, False
        space = policy.action_space
        if isinstance(space, spaces.Box) and space.is_bounded():
            self.bounded = True
            self.register_buffer("low", torch.as_tensor(space.low, dtype=torch.float32))
            self.register_buffer("high", torch.as_tensor(space.high, dtype=torch.float32))

    def forward(self, observation: Tensor) -> Tensor:
        action = self.policy.act({"policy": observation})
        return torch.clamp(action, self.low, self.high) if self.bounded else action


def export_policy(policy: Policy, environment: Environment, folder: Path, about: Mapping[str, Any]) -> dict[str, Path]:
    """Writes policy.onnx, policy.json and, where a task has a model of its own, model.xml; returns the paths. What is
    written is what onnxruntime was seen to compute as torch does."""
    actor = _Actor(policy).eval()
    network = to_onnx(actor, policy.sizes["policy"])
    obs = observations(policy, environment)
    check_parity(network, actor, obs, rounding(policy, obs) if isinstance(policy.action_space, spaces.Box) else None)
    files = {"policy": folder / "policy.onnx", "contract": folder / "policy.json"}
    contract = {**environment.contract(), **_signature(policy), **about}
    model = environment.model_xml()
    if model is not None:
        files["model"] = folder / "model.xml"
        contract["model"] = files["model"].name
        write_atomic(files["model"], model)
    write_atomic(files["policy"], network)
    write_atomic(files["contract"], json.dumps(contract, indent=1, allow_nan=False) + "\n")
    return files


def to_onnx(actor: nn.Module, size: int) -> bytes:
    """The network over batches of any size."""
    for module in ("onnx", "onnxscript"):
        optional(module, "export")
    example = torch.zeros(2, size)  # not 1: that would be taken for the only size there is
    with _quietly(), torch.no_grad():
        program = torch.onnx.export(
            actor,
            (example,),
            input_names=[INPUT],
            output_names=[OUTPUT],
            opset_version=OPSET,
            dynamic_shapes={INPUT: {0: torch.export.Dim("batch")}},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for node in model.graph.node:  # where in whose source each came from: nothing for others
        node.ClearField("metadata_props")
    return model.SerializeToString()


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """torch's exporter talks about packages that it does not need here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logger.setLevel(level)


def observations(policy: Policy, environment: Environment) -> np.ndarray:
    """Float32 [n, size]: such as the task gives, random ones of all magnitudes, and extreme ones."""
    size, rng = policy.sizes["policy"], np.random.default_rng(0)
    # Without a normaliser nothing bounds the numbers a network adds up, nor what their rounding amounts to.
    most = 6 if policy.normalises else 1
    scattered = rng.standard_normal((256, size)) * 10.0 ** rng.uniform(-2, most, (256, 1))
    extreme = [np.full((1, size), value) for value in (0.0, 10.0**most, -(10.0**most))]
    return np.concatenate([environment.reset(0)["policy"], scattered, *extreme]).astype(np.float32)


@torch.no_grad()
def rounding(policy: Policy, obs: np.ndarray) -> np.ndarray:
    """[n]: how far each action moves when every weight moves to a float32 next to it.

    To add up in another order moves them as much, and onnxruntime has its own order, as torch has another for each
    number of rows. Far from what a policy has seen, actions are small differences of large numbers: float32 does not
    tell them to TOLERANCE.
    """
    given, near, chance = {"policy": torch.from_numpy(obs)}, copy.deepcopy(policy), torch.Generator().manual_seed(0)
    right, most = policy.act(given), torch.zeros(len(obs))
    for _ in range(NUDGES):
        for weight, nudged in zip(policy.parameters(), near.parameters(), strict=True):
            side = torch.rand(weight.shape, generator=chance) - 0.5
            nudged.copy_(torch.nextafter(weight, side * torch.inf))
        most = torch.maximum(most, (near.act(given) - right).abs().amax(-1))
    return most.numpy()


def check_parity(network: bytes, actor: nn.Module, obs: np.ndarray, rounded: np.ndarray | None = None) -> None:
    """That onnxruntime computes what torch does, of all rows and of a single one.

    Actions may differ by TOLERANCE, relative where they are above 1, or by ROUNDINGS times `rounded` [n], what rounding
    does to each of them, where that is more. Choices may differ for a share of TIES.
    """
    session = optional("onnxruntime", "export").InferenceSession(network, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        wanted = actor(torch.from_numpy(obs)).numpy()
    leeway = np.zeros(len(obs)) if rounded is None else ROUNDINGS * rounded
    for rows in (slice(None), slice(1)):
        found, right = session.run([OUTPUT], {INPUT: obs[rows]})[0], wanted[rows]
        if (found.shape, found.dtype) != (right.shape, right.dtype):
            raise RuntimeError(
                f"the exported policy gives {found.dtype} {found.shape}, torch's {right.dtype} {right.shape}"
            )
        if np.issubdtype(right.dtype, np.floating):
            allowed = np.maximum(TOLERANCE * np.maximum(1.0, np.abs(right)), leeway[rows, None])
            apart = np.abs(found - right)
        else:
            allowed, apart = np.array([TIES]), (found != right).reshape(len(right), -1).any(axis=1).mean(keepdims=True)
        worst = np.argmax(apart / allowed)  # NaN, if there is one
        if not apart.flat[worst] <= allowed.flat[worst]:
            raise RuntimeError(
                f"the exported policy differs from torch's by {apart.flat[worst]:.2g}, "
                f"allowed is {allowed.flat[worst]:.2g}"
            )


def _signature(policy: Policy) -> dict[str, Any]:
    """What goes in and comes out."""
    space = policy.action_space
    action: dict[str, Any] = {"name": OUTPUT, "type": "float32" if isinstance(space, spaces.Box) else "int64"}
    if isinstance(space, spaces.Box):
        action["shape"] = ["batch", *space.shape]
        if space.is_bounded():
            action |= {"low": space.low.tolist(), "high": space.high.tolist()}
    elif isinstance(space, spaces.MultiDiscrete):
        action |= {"shape": ["batch", len(space.nvec)], "choices": space.nvec.tolist(), "first": space.start.tolist()}
    elif isinstance(space, spaces.Discrete):
        action |= {"shape": ["batch"], "choices": int(space.n), "first": int(space.start)}
    return {
        "format": FORMAT,
        "autotelic": __version__,
        "opset": OPSET,
        "input": {"name": INPUT, "type": "float32", "shape": ["batch", policy.sizes["policy"]]},
        "output": action,
    }
