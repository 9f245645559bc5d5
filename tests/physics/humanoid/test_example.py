"""examples/run_exported_policy.py, given exports that it cannot run."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from autotelic.physics.base import Environment, EnvironmentConfig
from autotelic.physics.gym.native import NativeGym
from autotelic.physics.humanoid.tasks import HumanoidObstacles


def export(folder: Path, environment: Environment) -> Path:
    contract, model = environment.contract(), environment.model_xml()
    if model is not None:
        (folder / "model.xml").write_text(model)
        contract["model"] = "model.xml"
    (folder / "policy.json").write_text(json.dumps(contract))
    return folder


def test_a_part_of_an_observation_that_it_cannot_read_is_one_line(example: ModuleType, tmp_path: Path) -> None:
    folder = export(tmp_path, HumanoidObstacles(HumanoidObstacles.Config(count=1, threads=1)))
    with pytest.raises(SystemExit, match=r"its policy sees 'rays', which this example cannot read$"):
        example.Robot(folder)


def test_an_export_without_a_model_is_one_line(example: ModuleType, tmp_path: Path) -> None:
    folder = export(tmp_path, NativeGym(EnvironmentConfig(count=1, threads=1), "Hopper-v5"))
    with pytest.raises(SystemExit, match=r"Hopper-v5 was exported without a model to run it in$"):
        example.Robot(folder)
