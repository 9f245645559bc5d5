"""Self-play in the arm world from the command line: it runs, can be judged again, and can be killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autotelic.play.archive import Archive

OPTIONS = (
    *("world=arm", "world.workers=1", "world.heldout=false", "world.kinds=[induction]", "evaluate=false"),
    *("loop.batch=1", "loop.attempts=2", "loop.seeding=1", "loop.references=0", "checkpoint.every=1"),
)


@pytest.fixture
def autotelic(tmp_path, run_autotelic):
    def run(*arguments: str):
        done = run_autotelic(list(arguments), tmp_path, dict(os.environ))
        assert done.code == 0, done.err
        return done

    return run


def figures(run: Path) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith("time/")} for line in lines]


def digest(run: Path) -> str:
    with Archive.open(run / "archive.sqlite", readonly=True) as archive:
        return archive.digest()


def test_a_run_is_the_same_when_it_is_killed_and_resumed_and_when_it_is_judged_again(autotelic, tmp_path, eventually):
    autotelic("play", *OPTIONS, "player=scripted", "steps=2", "run=whole")
    killed, whole = tmp_path / "runs" / "killed", tmp_path / "runs" / "whole"
    process = subprocess.Popen(
        [sys.executable, "-m", "autotelic.cli", "play", *OPTIONS, "player=scripted", "steps=2", "run=killed"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    log = killed / "metrics.jsonl"
    assert eventually(lambda: log.exists() and log.read_bytes().count(b"\n") > 0, 60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    autotelic("resume", "runs/killed", "steps=2")
    assert figures(killed) == figures(whole)
    assert digest(killed) == digest(whole)
    assert "0 differ" in autotelic("verify", "whole").out


def test_the_tasks_of_a_family_are_a_row_of_the_result(autotelic, tmp_path):
    spread = {"position": 0.1}
    rows = [
        {"kind": "induction", "task": {"objects": ["red_box"], "goal": [goal], "randomisation": spread}}
        for goal in (["near", "red_box"], ["lifted", "red_box"])
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = [option for option in OPTIONS if option != "evaluate=false"]
    autotelic("play", *options, "player=scripted", "steps=1", "run=one", "evaluate_suite=own.jsonl")
    heldout = json.loads((tmp_path / "runs" / "one" / "result.json").read_text())["heldout"]
    assert {name: (row["after"], row["n"]) for name, row in heldout.items()} == {"reach": (1.0, 1), "lift": (1.0, 1)}


def test_three_episodes_are_three_tasks_each_said_in_a_line(autotelic, tmp_path):
    options = ("world=arm", "world.workers=1", "player=scripted", "loop.difficulty=easy", "run=three")
    done = autotelic("play", *options, "episodes=3")
    lines = [line for line in done.out.splitlines() if " s, path efficiency " in line]
    assert [line.partition(":")[0] for line in lines] == ["1. reach (easy)", "2. push (easy)", "3. button (easy)"]
    assert all("solved, claims success" in line for line in lines)
    with Archive.open(tmp_path / "runs" / "three" / "archive.sqlite", readonly=True) as archive:
        assert archive.counts()["verdicts"] == 3
    assert (tmp_path / "runs" / "three" / "report.html").is_file()
