"""Self-play one episode at a time, from Python and by the example."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import autotelic
from autotelic.cli.play import compose
from autotelic.play.archive import Archive

pytest.importorskip("mujoco")

ARM = ("world=arm", "player=scripted", "world.workers=1", "run=one")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_episode_is_one_task_attempted_once_and_archived(folder):
    with autotelic.new_episodes(*ARM) as episodes:
        first = episodes.run_episode()
        others = episodes.run(2)
    assert [episode.row for episode in (first, *others)] == ["reach", "push", "lift"]
    assert all(episode.solved and episode.claim for episode in (first, *others))
    assert first.metrics["time"] > 0
    assert 0 < first.metrics["path_efficiency"] <= 1
    assert "execute_controller" in first.answer
    assert str(first).startswith("reach: Bring it about that the gripper is at the red box.")
    with Archive.open(folder / "runs" / "one" / "archive.sqlite", readonly=True) as archive:
        assert archive.counts()["verdicts"] == 3


def test_a_wrong_answer_says_what_became_of_it(folder):
    with autotelic.new_episodes(*ARM, "player.correct=0") as episodes:
        episode = episodes.run_episode()
    assert not episode.solved
    assert episode.claim is False
    assert "not solved: wrong, claims failure" in str(episode)


def test_episodes_are_as_hard_as_is_asked(folder):
    with autotelic.new_episodes(*ARM, "loop.difficulty=medium", "player.selection=random") as episodes:
        episode = episodes.run_episode()
    assert episode.row in ("button", "lift", "drawer")
    assert "(medium)" in str(episode)


def test_where_nobody_learns_a_bound_on_episodes_makes_steps_of_one_attempt():
    config = compose(["world=arm", "player=scripted", "episodes=3"], None)
    assert (config.loop.batch, config.loop.attempts, config.world.kinds, config.evaluate) == (
        1,
        1,
        ["induction"],
        False,
    )
    assert config.last_step is None


def test_what_the_user_says_wins():
    assert compose(["world=arm", "player=scripted", "episodes=3", "loop.attempts=4"], None).loop.attempts == 4


def test_the_example_runs(folder, capsys):
    file = Path(__file__).parents[2] / "examples" / "arm_episodes.py"
    spec = importlib.util.spec_from_file_location("arm_episodes", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(["--episodes", "1", "--difficulty", "easy"])
    assert "1 of 1 solved" in capsys.readouterr().out
