"""export of a run of training, and the example that runs what was exported in plain MuJoCo."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from autotelic.physics.humanoid.tasks import HumanoidWalk, HumanoidWalkConfig

EXAMPLE = Path(__file__).parents[2] / "examples" / "run_exported_policy.py"
SMALL = ("env=humanoid-walk", "env.count=4", "policy.hidden=[8]", "learner.steps=16", "learner.minibatches=2")
SMALL += ("steps=128", "checkpoint.every=1", "checkpoint.keep=0", "video=false", "evaluate=false", "run=one")


@pytest.fixture
def trained(autotelic):
    """A humanoid's run `one` of two iterations, trained and exported once for all tests."""
    kept, one = autotelic.finished / "exported", autotelic.cwd / "runs" / "one"
    if not kept.exists():
        assert (done := autotelic("train", *SMALL)).code == 0, done.err
        assert (done := autotelic("export", "one")).code == 0, done.err
        assert done.out.splitlines() == [
            "policy: runs/one/export/policy.onnx",
            "contract: runs/one/export/policy.json",
            "model: runs/one/export/model.xml",
        ]
        shutil.copytree(one, kept)
    else:
        shutil.copytree(kept, one)
    return autotelic


def contract(folder: Path) -> dict:
    return json.loads((folder / "policy.json").read_text())


def test_a_policy_is_exported_with_a_contract_that_names_run_and_step(trained):
    folder = trained.cwd / "runs" / "one" / "export"
    said = contract(folder)
    assert (said["environment"], said["run"], said["step"]) == ("humanoid-walk", "one", 128)
    sizes = [size for _, size, _ in said["layout"]["policy"]]
    assert said["input"]["shape"] == ["batch", sum(sizes)]
    session = onnxruntime.InferenceSession(folder / "policy.onnx")
    (action,) = session.run(None, {"observation": np.zeros((3, sum(sizes)), np.float32)})
    assert np.asarray(action).shape == (3, 12)


def test_a_policy_of_choices_in_a_foreign_environment_is_exported_too(autotelic):
    small = ("env=CartPole-v1", "env.count=4", "learner.steps=16", "learner.minibatches=2", "steps=64")
    done = autotelic("train", *small, "video=false", "evaluate=false", "run=cart")
    assert done.code == 0, done.err
    done = autotelic("export", "cart")
    assert done.code == 0, done.err
    folder = autotelic.cwd / "runs" / "cart" / "export"
    session = onnxruntime.InferenceSession(folder / "policy.onnx")
    (action,) = session.run(None, {"observation": np.zeros((3, 4), np.float32)})
    assert np.asarray(action).shape == (3,)
    assert set(np.asarray(action).tolist()) <= {0, 1}
    assert contract(folder)["environment"] == "CartPole-v1"


def test_another_checkpoint_is_exported_elsewhere_when_asked(trained):
    done = trained("export", "one", "step=64", "--out", "elsewhere/here", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "step": 64,
        "policy": "elsewhere/here/policy.onnx",
        "contract": "elsewhere/here/policy.json",
        "model": "elsewhere/here/model.xml",
    }
    assert contract(trained.cwd / "elsewhere" / "here")["step"] == 64


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("step=65",), "no checkpoint of step 65"),
        (("steps=64",), "did you mean step?"),
        (("--out", "file"), "file: "),
    ],
)
def test_a_mistake_is_one_line(trained, arguments: tuple[str, ...], words: str):
    (trained.cwd / "file").write_text("in the way")
    assert words in trained("export", "one", *arguments).complaint()


def test_the_export_of_self_play_has_no_keys(autotelic):
    autotelic.given()
    assert "has no keys" in autotelic("export", "one", "step=2").complaint()


@pytest.mark.parametrize("obs", ["full", "compact32"])
@pytest.mark.parametrize("actions", ["position", "velocity", "torque"])
def test_a_robot_run_by_the_contract_alone_sees_what_the_environment_shows(obs: str, actions: str, tmp_path, example):
    config = HumanoidWalkConfig(count=1, obs=obs, actions=actions, randomise="off")
    environment = HumanoidWalk(config)
    with environment:
        (tmp_path / "policy.json").write_text(json.dumps(environment.contract() | {"model": "model.xml"}))
        (tmp_path / "model.xml").write_text(environment.model_xml())
        robot = example.Robot(tmp_path)
        shown, simulation = environment.reset(5)["policy"][0], environment.simulation
        robot.steps, robot.speed = int(environment.memory["phase"][0]), 1.0
        rng = np.random.default_rng(6)
        for number in range(15):
            if number:
                np.testing.assert_allclose(robot.observe(), shown, atol=1e-4)
            # What the model's file rounds off must not add up.
            robot.data.qpos[:], robot.data.qvel[:] = simulation.qpos[0], simulation.qvel[0]
            action = rng.uniform(-1.2, 1.2, 12)
            robot.act(action)
            step = environment.step(action[None])
            assert not len(step.ended), "it stays up long enough to be compared"
            shown = step.obs["policy"][0]


def test_the_example_runs_what_was_exported_and_says_how_far_it_came(trained):
    folder = trained.cwd / "runs" / "one" / "export"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(EXAMPLE), str(folder), "--seconds", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, env=clean, cwd=trained.cwd, check=True)
    assert "after 0.5 s" in done.stdout
    assert "m towards the goal" in done.stdout


def test_the_example_imports_nothing_of_ours():
    imported = [
        node for node in ast.walk(ast.parse(EXAMPLE.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = {getattr(node, "module", None) or alias.name for node in imported for alias in node.names}
    assert not [name for name in names if name.split(".")[0] == "autotelic"]
    assert "mujoco" in names
