"""watch: films of a run's policy, written beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import av
import pytest
from PIL import Image

SMALL = ("env=InvertedPendulum-v5", "env.count=4", "policy.hidden=[8]", "learner.steps=16", "learner.minibatches=2")
SMALL += ("steps=128", "checkpoint.every=1", "checkpoint.keep=0", "video=false", "evaluate=false", "run=one")
SIZE = ("width=64", "height=48")


@pytest.fixture
def trained(autotelic):
    """A run `one` of two iterations, trained once for all tests."""
    kept, one = autotelic.finished / "trained", autotelic.cwd / "runs" / "one"
    if not kept.exists():
        done = autotelic("train", *SMALL)
        assert done.code == 0, done.err
        shutil.copytree(one, kept)
    else:
        shutil.copytree(kept, one)
    return autotelic


def watch(trained, *arguments: str) -> dict:
    done = trained("watch", "one", *SIZE, *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_film_and_a_sheet_are_written_beside_the_run(trained):
    found = watch(trained, "seconds=0.4")
    video, sheet = trained.cwd / found["video"], trained.cwd / found["sheet"]
    assert (video.name, sheet.name) == ("step_000128.mp4", "step_000128.png")
    assert video.parent == trained.cwd / "runs" / "one" / "videos"
    with av.open(str(video)) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (64, 48, 25)
        assert 1 <= stream.frames <= 11
    assert Image.open(sheet).size[0] >= 64


def test_what_happened_in_each_episode_is_said(trained):
    done = trained("watch", "one", *SIZE, "episodes=2", "seconds=0.2")
    lines = done.out.splitlines()
    assert lines[0].startswith("episode 1: return ")
    assert "5 steps (0.2 s), cut by the film" in lines[0]
    assert lines[1].startswith("episode 2: return ")
    assert lines[2:] == ["video: runs/one/videos/step_000128.mp4", "sheet: runs/one/videos/step_000128.png"]


def test_the_same_seed_gives_the_same_film(trained):
    files = [Path(trained.cwd, watch(trained, "seconds=0.2", "seed=1")["video"]).read_bytes() for _ in range(2)]
    assert files[0] == files[1]


def test_another_checkpoint_is_filmed_when_it_is_named(trained):
    assert watch(trained, "step=64", "seconds=0.1")["video"] == "runs/one/videos/step_000064.mp4"


def test_nothing_else_of_the_run_changes(trained):
    run = trained.cwd / "runs" / "one"

    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.parent.name != "videos"}

    before = contents()
    watch(trained, "seconds=0.1")
    assert contents() == before


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("step=65", "no checkpoint of step 65; there are: 64, 128"),
        ("step=best", "step=best: no checkpoint of runs/one was measured"),
        ("step=last", "step=last: a whole number"),
        ("seconds=0", "seconds=0: a number above 0 is wanted"),
        ("seconds=long", "seconds=long: a number above 0 is wanted"),
        ("episodes=0", "episodes=0: a whole number of at least 1"),
        ("width=1", "width=1: a whole number of at least 16"),
        ("episode=2", "did you mean episodes"),
        ("env.cuont=2", "did you mean"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(trained, argument: str, words: str):
    assert words in trained("watch", "one", argument).complaint()
    assert not (trained.cwd / "runs" / "one" / "videos").exists()


def test_a_run_of_self_play_without_anything_to_see_says_what_can_be_watched(autotelic):
    autotelic.given()
    line = autotelic("watch", "one").complaint()
    assert "of an attempt in the world sums there is nothing to see but text" in line
    assert "report.html" in line
    assert "autotelic train" in line
