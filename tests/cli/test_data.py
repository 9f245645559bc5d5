"""autotelic data collect: who collects, what is written, and mistakes in a line."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")
pytest.importorskip("mujoco")

import gymnasium  # noqa: E402 - loads after it is known that there is MuJoCo

from autotelic.worlds.arm.demonstrations import GOALS  # noqa: E402

SMALL = ("env.count=4", "policy.hidden=[8]", "learner.steps=4", "evaluate_episodes=2", "video=false", "steps=16")


def collect(autotelic, *arguments: str):
    return autotelic("data", "collect", *arguments)


def content(path: Path) -> list[bytes]:
    with h5py.File(path, "r") as file:
        return [demo["actions"][:].tobytes() for demo in file["data"].values()]


def played_again(path: Path) -> list[bool]:
    """Whether each episode of a file, played again with Gymnasium alone, shows what is in the file, to a success."""
    with h5py.File(path, "r") as file:
        made, found = json.loads(file["data"].attrs["env_args"]), []
        env = gymnasium.make(made["env_name"], **made["env_kwargs"])
        for demo in file["data"].values():
            seen, info = env.reset(seed=int(demo.attrs["seed"]))[0], {}
            for before, action, after in zip(demo["obs/policy"], demo["actions"], demo["next_obs/policy"], strict=True):
                assert np.array_equal(seen, before)
                seen, *_, info = env.step(action)
                assert np.array_equal(seen, after)
            found.append(info["terms"]["success"] > 0)
        env.close()
    return found


def test_a_player_shows_as_many_episodes_as_are_wanted(autotelic):
    done = collect(autotelic, "env=arm-reach", "player=scripted", "episodes=2", "out=a.hdf5", "seed=4", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["episodes"], said["tries"], said["failed"]) == (2, 2, {})
    with h5py.File(autotelic.cwd / "a.hdf5", "r") as file:
        assert file["data"].attrs["player"] == "scripted"
        assert file["data"].attrs["total"] == said["steps"]
        assert all(demo["dones"][-1] == 1 for demo in file["data"].values())


@pytest.mark.parametrize("family", GOALS)
def test_the_scripted_player_shows_a_success_in_every_family(autotelic, family: str):
    done = collect(autotelic, f"env={family}", "player=scripted", "episodes=1", "out=a.hdf5")
    assert done.code == 0, done.err
    assert list(autotelic.cwd.iterdir()) == [autotelic.cwd / "a.hdf5"]
    assert played_again(autotelic.cwd / "a.hdf5") == [True]


def test_the_same_seed_gives_the_same_file(autotelic):
    for name in "ab":
        assert collect(autotelic, "env=arm-reach", "episodes=1", f"out={name}.hdf5", "seed=4").code == 0
    one, other = ((autotelic.cwd / f"{name}.hdf5").read_bytes() for name in "ab")
    assert one == other


def test_a_file_that_is_there_is_written_over_where_that_is_asked(autotelic):
    (autotelic.cwd / "a.hdf5").write_text("before")
    assert collect(autotelic, "env=arm-reach", "episodes=1", "out=a.hdf5", "overwrite=true").code == 0
    assert len(content(autotelic.cwd / "a.hdf5")) == 1


def test_wrong_answers_are_counted_and_too_few_successes_are_said(autotelic):
    arguments = ("player.correct=0.5", "sample=true", "episodes=8", "tries=8", "out=a.hdf5")
    done = collect(autotelic, "env=arm-reach", *arguments)
    assert done.code == 1
    assert "8 tries are over: 8 episodes were wanted" in done.out
    wrong = 8 - len(content(autotelic.cwd / "a.hdf5"))
    assert f"not written: {wrong} wrong" in done.out


def test_the_player_of_a_run_collects(autotelic):
    options = ("world=arm", "world.workers=1", "player=scripted", "episodes=1", "run=played")
    assert autotelic("play", *options).code == 0
    assert collect(autotelic, "env=arm-button", "player=played", "episodes=1", "out=a.hdf5").code == 0
    assert len(content(autotelic.cwd / "a.hdf5")) == 1
    assert "a run of play, not of train" in collect(autotelic, "policy=played", "out=b.hdf5").complaint()


def test_a_policy_collects_in_the_environment_it_was_trained_in(autotelic):
    assert autotelic("train", "env=arm-reach", *SMALL, "run=trained").code == 0
    hopeless = collect(autotelic, "policy=trained", "episodes=1", "tries=2", "out=a.hdf5")
    assert hopeless.code == 2
    assert hopeless.err.splitlines()[-1] == (
        "autotelic: none of 2 tries was a success (2 failed); nothing was written to a.hdf5"
    )
    assert list(autotelic.cwd.glob("*a.hdf5*")) == []
    other = collect(autotelic, "policy=trained", "env=arm-lift", "out=a.hdf5").complaint()
    assert "policy=trained: was trained in arm-reach, not in arm-lift" in other
    assert "policy=trained" in collect(autotelic, "env=arm-lift", "player=trained", "out=a.hdf5").complaint()


def test_a_policy_of_another_robot_is_refused(autotelic):
    assert autotelic("train", "env=InvertedPendulum-v5", *SMALL, "run=other").code == 0
    assert "which is no task of the arm's" in collect(autotelic, "policy=other", "out=a.hdf5").complaint()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["env=arm-pick-plaice", "out=a.hdf5"], "did you mean arm-pick-place"),
        (["env=humanoid-walk", "out=a.hdf5"], "env=humanoid-walk: no family of the arm's; known: arm-button"),
        (["out=a.hdf5"], "env= is missing: one of arm-reach"),
        (["env=arm-lift"], "out= is missing"),
        (["env=arm-lift", "out=there.hdf5"], "exists already; choose another name, or add overwrite=true"),
        (["env=arm-lift", "out=no/a.hdf5"], "there is no directory no"),
        (["env=arm-lift", "out=there.hdf5/a.hdf5"], "there is no directory there.hdf5"),
        (["env=arm-lift", "out=a.txt"], "ends in .hdf5"),
        (["env=arm-lift", "out=a.hdf5", "player=scriptd"], "no player named 'scriptd': did you mean scripted?"),
        (["env=arm-lift", "out=a.hdf5", "player.corect=1"], "did you mean player.correct?"),
        (["env=arm-lift", "out=a.hdf5", "env.secnds=1"], "did you mean env.seconds?"),
        (["env=arm-lift", "out=a.hdf5", "episodes=0"], "episodes=0"),
        (["env=arm-lift", "out=a.hdf5", "tires=3"], "unknown key 'tires': did you mean tries?"),
        (["env=arm-lift", "out=a.hdf5", "player=scripted", "policy=x"], "not both"),
        (["out=a.hdf5", "policy=nowhere"], "no run at runs/nowhere"),
    ],
)
def test_a_mistake_is_one_line(autotelic, arguments, words):
    (autotelic.cwd / "there.hdf5").write_text("")
    assert words in collect(autotelic, *arguments).complaint()
    assert list(autotelic.cwd.iterdir()) == [autotelic.cwd / "there.hdf5"]


def test_an_unknown_action_is_one_line(autotelic):
    assert "no action 'colect': did you mean collect?" in autotelic("data", "colect").complaint()


def test_one_that_is_stopped_leaves_no_file(autotelic):
    process = autotelic.start("data", "collect", "env=arm-reach", "episodes=100000", "out=a.hdf5")
    autotelic.until(lambda: any(autotelic.cwd.glob(".a.hdf5.*")), process)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode == 143, said
    assert list(autotelic.cwd.iterdir()) == []
