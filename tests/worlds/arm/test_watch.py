"""Attempts in the arm world, judged once more to be looked at, and the films that `watch` makes of them."""

import json
import sqlite3
from dataclasses import replace

import av
import pytest
from PIL import Image

from autotelic.cli.main import main
from autotelic.cli.play import compose
from autotelic.errors import UserError
from autotelic.play.archive import Archive
from autotelic.play.player import Sample
from autotelic.runs.config import plain
from autotelic.runs.directory import Run
from autotelic.worlds.arm import brief
from autotelic.worlds.arm.library import SEEDS
from autotelic.worlds.base import Answer
from autotelic.worlds.code.kinds.base import answer_text

REACH, STAY = brief.program_of(" move red_box"), brief.program_of(" open")
SIZE = ("width=32", "height=24", "seconds=0.2")
FILES = (("video", "mp4"), ("sheet", "png"))
WANTED = {"objects": ["red_box"], "goal": [["near", "red_box"]], "success": {"draws": 2, "hold": 0.1}}


@pytest.fixture(scope="session")
def attempts(world, task_of):
    """Tasks of every kind with answers, as they were judged: a failure and a success each, and one that ran nothing."""
    control = task_of("induction", json.dumps(WANTED))
    asked, start = (task_of(kind, SEEDS[kind]) for kind in ("deduction", "abduction"))
    held = ["yes" if held else "no" for held in asked.spec["held"]]
    pairs = [(control, answer_text(text)) for text in (STAY, REACH, "import")]
    pairs += [(asked, answer_text(" ".join([*held, asked.spec["region"]])))]
    pairs += [(start, answer_text(json.dumps(start.spec["start"])))]
    pairs = [(task, Answer(text)) for task, text in pairs]
    verdicts = world.judge(pairs, seed=5)
    assert [verdict.outcome for verdict in verdicts] == ["wrong", "correct", "syntax", "correct", "correct"]
    return [(task, answer, verdict) for (task, answer), verdict in zip(pairs, verdicts, strict=True)]


@pytest.mark.parametrize("at", [0, 1, 3, 4], ids=["failed", "solved", "deduction", "abduction"])
def test_an_attempt_ends_again_as_it_was_judged_to_the_bit(world, attempts, at: int):
    task, answer, verdict = attempts[at]
    replay = world.replay(task, answer, verdict.seed)
    assert replay.verdict.judgement == verdict.judgement
    assert "state" in replay.verdict.metrics


def test_every_start_that_was_judged_can_be_seen_from_its_beginning_to_its_end(world, attempts):
    (_, failed, _), (task, solved, verdict), *_ = attempts
    assert [len(world.replay(task, answer, verdict.seed).clips) for answer in (failed, solved)] == [1, 2]
    clip = world.replay(task, solved, verdict.seed).clips[-1]
    assert (clip.count - 1) / clip.fps == pytest.approx(verdict.metrics["time"] + 0.1, abs=0.5)
    first, last = (clip.draw(at, 64, 48) for at in (0, clip.count - 1))
    assert first.shape == last.shape == (48, 64, 3)
    assert abs(first.astype(float) - last).mean() > 1, "the arm has moved"


def test_an_answer_that_ran_nothing_has_nothing_to_see(world, attempts):
    task, answer, verdict = attempts[2]
    replay = world.replay(task, answer, verdict.seed)
    assert (replay.verdict.outcome, replay.clips) == ("syntax", [])


def test_a_question_whose_truth_has_changed_is_noticed(world, attempts):
    task, answer, verdict = attempts[3]
    changed = replace(task, spec={**task.spec, "held": [not held for held in task.spec["held"]]})
    assert world.replay(changed, answer, verdict.seed).verdict.outcome == "nondeterministic"


def test_a_task_that_is_none_is_one_line(world, attempts):
    task, answer, verdict = attempts[0]
    with pytest.raises(UserError, match=f"task {task.id} is damaged: KeyError"):
        world.replay(replace(task, spec={}), answer, verdict.seed)


@pytest.fixture
def watch(attempts, tmp_path, monkeypatch, capsys):
    """A run `one` with these attempts, and the command: what it prints, or its complaint."""
    monkeypatch.chdir(tmp_path)
    config = plain(compose(["world=arm", "world.workers=1", "world.heldout=false", "run=one"], None))
    with Run.create("runs", "one", config, verb="play") as run, Archive.create(run.archive) as archive:
        tasks = {task.id: task for task, _, _ in attempts}
        samples = [Sample("solve", task.kind, answer.text, task.id) for task, answer, _ in attempts]
        archive.add_tasks(0, list(tasks.values()))
        rows = archive.add_samples(1, samples, [0.0] * len(samples))
        archive.add_verdicts(1, [verdict for *_, verdict in attempts], [task.id for task, *_ in attempts], rows)

    def run_it(*arguments: str) -> str:
        code = main(["watch", "one", *SIZE, *arguments])
        said = capsys.readouterr()
        assert (code == 0) == bool(said.out), said.err
        return said.out if not code else said.err.splitlines()[-1]

    return run_it


def test_the_newest_solved_control_task_is_filmed_and_its_state_is_the_same(watch, attempts, tmp_path):
    task = attempts[0][0]
    said = json.loads(watch("--json"))
    assert (said["task"], said["attempt"], said["attempts"], said["same"]) == (task.id, 2, 3, True)
    assert said["video"] == f"runs/one/videos/task_{task.id[:12]}_2.mp4"
    with av.open(said["video"]) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate, stream.frames) == (32, 24, 25, 12)
    assert Image.open(said["sheet"]).size[0] > 32


def test_what_was_asked_and_what_came_of_it_is_said(watch, attempts):
    task = attempts[0][0]
    lines = watch(f"task={task.id[:8]}", "attempt=1", "episodes=1").splitlines()
    assert lines[0].startswith(f"task {task.id}, induction: Bring it about that the gripper is at the red box.")
    assert lines[1].startswith("attempt 1 of 3, step 1: wrong: start 1 of 2: near(red_box) is")
    assert lines[2] == "it ended as it did when it was judged"
    assert lines[3:] == [f"{what}: runs/one/videos/task_{task.id[:12]}_1.{end}" for what, end in FILES]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "UPDATE verdicts SET metrics = json_set(metrics, '$.state', 1.0), version = 'mujoco-3.0'",
            "state 1), now it is solved (correct, score 1.0, state ",
        ),
        ("UPDATE specs SET spec = replace(spec, 'red', 'blue')", "now it is not solved (exception"),
    ],
    ids=["another simulator", "another task"],
)
def test_what_ends_otherwise_than_it_was_judged_is_said_in_a_line(watch, change: str, words: str):
    with sqlite3.connect("runs/one/archive.sqlite") as file:
        file.execute(change)
    file.close()
    line = watch("episodes=1").splitlines()[2]
    assert line.startswith("note: this is not what was judged: it was solved (correct, score 1.0")
    assert words in line
    assert ("judged by mujoco-3.0, this is mujoco-" in line) == ("mujoco-3.0" in change)


def test_mistakes_are_one_line(watch, attempts):
    task, start = attempts[0][0], attempts[4][0]
    assert f"nearest: {task.id}" in watch(f"task={task.id[:5]}zz")
    assert "several tasks begin so: " in watch("task=")
    assert watch("attempt=4").endswith(f"attempt=4: task {task.id} has 3 attempts")
    assert "ran nothing that could be seen: syntax" in watch(f"task={task.id}", "attempt=3")
    assert "attempt=0: a whole number of at least 1" in watch(f"task={start.id}", "attempt=0")
    assert "unknown key 'step'" in watch("step=3")
