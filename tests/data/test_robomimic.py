"""The file: robomimic's layout, read with plain h5py and played again with plain Gymnasium."""

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from autotelic.data.demonstrations import Demonstration, record
from autotelic.data.robomimic import writing
from autotelic.errors import UserError
from autotelic.physics.arm.environment import ArmTask
from autotelic.physics.arm.tasks import ArmReach

h5py = pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def environment() -> ArmTask:
    return ArmReach(ArmReach.Config(count=1, threads=1, seconds=3.0, reward="sparse"))


@pytest.fixture(scope="module")
def demonstrations(environment) -> list[Demonstration]:
    def decide(obs):
        goal = np.array([[*environment.memory["goal"][0], 0.0, environment.robot.widest]])
        return environment.towards(goal) if environment.elapsed[0] < 30 else None

    found = [record(environment, seed, decide, {"controller": "by hand"}) for seed in (5, 6)]
    return [demo for demo in found if demo is not None]


def written(path: Path, environment: ArmTask, demonstrations: list[Demonstration]) -> Path:
    with writing(path, environment, {"player": "hand", "seed": 1}) as writer:
        for demo in demonstrations:
            writer.add(demo)
    return path


@pytest.fixture
def file(tmp_path, environment, demonstrations):
    with h5py.File(written(tmp_path / "a.hdf5", environment, demonstrations), "r") as opened:
        yield opened


def test_groups_and_attributes_are_where_robomimic_looks_for_them(file, environment):
    data = file["data"]
    assert list(data) == ["demo_0", "demo_1"]
    assert data.attrs["total"] == sum(data[name].attrs["num_samples"] for name in data) == 60
    demo = data["demo_0"]
    assert set(demo) == {"obs", "next_obs", "actions", "rewards", "dones", "states"}
    assert demo["obs/policy"].shape == demo["next_obs/policy"].shape == (30, environment.sizes["policy"])
    assert demo["actions"].shape == (30, 5)
    assert np.abs(demo["actions"]).max() <= 1
    assert demo["dones"][:].tolist() == [0] * 29 + [1]
    assert demo.attrs["instruction"] == "bring the gripper to the goal"
    assert demo.attrs["controller"] == "by hand"
    assert demo.attrs["model_file"].startswith("<mujoco")


def test_the_file_says_where_it_is_from(file):
    attrs = file["data"].attrs
    assert (attrs["player"], attrs["seed"]) == ("hand", 1)
    assert attrs["mujoco"].count(".") == 2
    contract = json.loads(attrs["contract"])
    assert sum(size for _, size in contract["layout"]["policy"]) == file["data/demo_0/obs/policy"].shape[1]


def test_an_episode_can_be_played_again_with_gymnasium(file):
    made = json.loads(file["data"].attrs["env_args"])
    assert made["env_kwargs"] == {"seconds": 3.0, "reward": "sparse"}
    env = gymnasium.make(made["env_name"], **made["env_kwargs"])
    for demo in file["data"].values():
        obs, _ = env.reset(seed=int(demo.attrs["seed"]))
        for before, action, reward, after in zip(
            demo["obs/policy"], demo["actions"], demo["rewards"], demo["next_obs/policy"], strict=True
        ):
            assert np.array_equal(obs, before)
            obs, earned, *_ = env.step(action)
            assert earned == reward
            assert np.array_equal(obs, after)
        assert earned == 1.0  # done, as the sparse reward says
    env.close()


def test_equal_demonstrations_are_equal_files(tmp_path, environment, demonstrations):
    one, other = (written(tmp_path / name, environment, demonstrations) for name in ("one.hdf5", "other.hdf5"))
    assert one.read_bytes() == other.read_bytes()


def test_a_writer_that_fails_leaves_what_was_there(tmp_path, environment, demonstrations):
    path = tmp_path / "a.hdf5"
    path.write_text("before")

    def fail():
        with writing(path, environment, {}) as writer:
            writer.add(demonstrations[0])
            raise UserError("stop")

    with pytest.raises(UserError, match=r"^stop$"):
        fail()
    assert [(left.name, left.read_text()) for left in tmp_path.iterdir()] == [("a.hdf5", "before")]


def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path, environment):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"a\.hdf5: "), writing(tmp_path / "file" / "a.hdf5", environment, {}):
        pass
