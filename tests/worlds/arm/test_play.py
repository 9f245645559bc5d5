"""Self-play in the arm world from the command line: it runs, can be judged again, and can be killed."""

import base64
import json
import os
import random
import time
from pathlib import Path

import mujoco
import pytest

from autotelic.cli.main import main
from autotelic.play.archive import Archive
from autotelic.runs import machine

ALL_KINDS = (
    *("world=arm", "world.heldout=false", "evaluate=false", "loop.attempts=2", "loop.seeding=1", "loop.references=0"),
    "checkpoint.every=1",
)
OPTIONS = (*ALL_KINDS, "world.workers=1", "world.kinds=[induction]", "loop.batch=1")


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


def test_a_run_of_all_kinds_in_two_processes_is_the_same_when_it_is_killed_twice_and_when_it_is_judged_again(
    autotelic, commands, tmp_path, eventually
):
    chance = random.Random(0)
    asked = ["play", *ALL_KINDS, "world.workers=2", "loop.batch=2", "proposer=grammar", "solver=scripted", "steps=3"]
    autotelic(*asked, "run=whole")
    killed, whole = tmp_path / "runs" / "killed", tmp_path / "runs" / "whole"
    log = killed / "metrics.jsonl"
    for life, command in enumerate(([*asked, "run=killed"], ["resume", "runs/killed"]), 1):
        process = commands.start(command, tmp_path, dict(os.environ))
        assert eventually(lambda: log.exists() and log.read_bytes().count(b"\n") >= life, 60)  # noqa: B023
        time.sleep(chance.uniform(0, 0.3))
        process.kill()
        process.wait()
    autotelic("resume", "runs/killed")
    assert figures(killed) == figures(whole)
    assert digest(killed) == digest(whole)
    assert "0 differ" in autotelic("verify", "whole").out


def test_the_report_of_a_run_has_pictures_of_its_attempts(autotelic, tmp_path):
    autotelic("play", *OPTIONS, "player=scripted", "steps=1", "run=one")
    page = (tmp_path / "runs" / "one" / "report.html").read_text("utf-8")
    gallery = page.partition('<section id="gallery">')[2].partition("</section>")[0]
    if "cannot be drawn" in gallery:
        pytest.skip(gallery.partition("No pictures: ")[2].partition("<")[0])
    _, *pictures = gallery.split('<img src="data:image/png;base64,')
    assert len(pictures) == gallery.count("<figure") > 0
    assert all(base64.b64decode(each.partition('"')[0]).startswith(b"\x89PNG") for each in pictures)


def test_a_run_resumed_under_another_mujoco_says_so_in_a_line(autotelic, tmp_path, monkeypatch, capsys):
    autotelic("play", *OPTIONS, "player=scripted", "steps=1", "run=one")
    here = machine.versions()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "versions", lambda: here | {"mujoco": "3.9.9"})
    monkeypatch.setattr(mujoco, "__version__", "3.9.9")
    assert main(["resume", "one", "steps=2"]) == 0
    (note,) = " ".join(capsys.readouterr().err.split()).split("note: ")[1:]  # lines are wrapped
    assert note.startswith(f"mujoco differs: {here['mujoco']} when the run began, 3.9.9 here; results may differ")
    assert main(["verify", "one"]) == 0
    left_out, judged = capsys.readouterr().out.splitlines()
    assert f"verdicts of mujoco-{here['mujoco']} arm-" in left_out
    assert judged.endswith(" 0 differ")


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
