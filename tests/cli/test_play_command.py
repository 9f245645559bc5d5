import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
import yaml


def metrics(path: Path) -> list[dict]:
    """The figures of a run without its timings."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith("time/")} for line in lines]


def result(path: Path) -> dict:
    return {name: value for name, value in json.loads((path / "result.json").read_text()).items() if name != "minutes"}


def test_a_run_writes_its_directory_and_says_where(autotelic):
    done = autotelic.play("steps=4", "run=one", "seed=3")
    assert done.code == 0, done.err
    run = autotelic.cwd / "runs" / "one"
    assert "runs/one" in done.err
    assert "held out" in done.out
    assert "runs/one/report.html" in done.out
    assert (run / "report.html").is_file()
    assert yaml.safe_load((run / "config.yaml").read_text())["world"]["name"] == "sums"
    figures = result(run)
    assert (figures["verb"], figures["seed"], figures["steps"], figures["finished"]) == ("play", 3, 4, True)
    assert figures["heldout"]["add"]["n"] == 20
    assert {"before", "after"} <= figures["heldout"]["add"].keys()
    assert [line["step"] for line in metrics(run)] == [0, 1, 2, 3, 4]


def test_the_same_seed_gives_the_same_run(autotelic):
    one = autotelic.given()
    for name, seed in (("two", 3), ("other", 4)):
        assert autotelic.play("steps=4", f"run={name}", f"seed={seed}").code == 0
    runs = autotelic.cwd / "runs"
    assert metrics(one) == metrics(runs / "two") != metrics(runs / "other")


def test_a_bound_on_episodes_ends_the_run_after_the_step_that_reaches_it(autotelic):
    assert autotelic.play("episodes=10", "run=one", "evaluate=false").code == 0  # 4 attempts a step
    run = autotelic.cwd / "runs" / "one"
    assert (result(run)["steps"], result(run)["finished"]) == (3, True)
    assert autotelic("resume", "one", "episodes=13").code == 0
    assert result(run)["steps"] == 4


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("stpes=3", "unknown key 'stpes': did you mean steps?"),
        ("player.dely=3", "did you mean player.delay?"),
        ("steps=0", "steps=0: must be at least 1"),
        ("steps=x", "could not be converted to Integer"),
        ("world.largest=x", "world.largest=x"),
        ("world=sum", "no world named 'sum': did you mean sums?"),
        ("minutes=-1", "minutes=-1.0: must be above 0"),
        ("episodes=0", "episodes=0: must be at least 1"),
        ("loop.difficulty=hrad", "loop.difficulty is 'hrad': easy, medium, hard, or a number from 0 to 1"),
        ("evaluate_every=-1", "evaluate_every=-1: must be 0"),
        ("evaluate_tasks=0", "evaluate_tasks=0: must be at least 1"),
        ("checkpoint.every=0", "checkpoint.every=0"),
        ("loop.batch=0", "loop.batch"),
        ("run=../x", "a run's name"),
        ("seed=1,2", "sweep with -m"),
        ("root=/proc/nope", "choose another place with root=DIR"),
    ],
)
def test_a_mistake_is_said_before_anything_starts(autotelic, override: str, words: str):
    assert words in autotelic.play(override).complaint()
    assert not (autotelic.cwd / "runs").exists()


def test_a_name_that_exists_is_refused(autotelic):
    autotelic.given()
    assert "exists already: autotelic resume runs/one" in autotelic.play("steps=1", "run=one").complaint()


def test_a_config_file_is_read_under_the_overrides(autotelic):
    (autotelic.cwd / "mine.yaml").write_text(
        "world: sums\nplayer: {name: counter, delay: 0.001}\nsteps: 2\nrun: mine\n"
    )
    done = autotelic("play", "--config", "mine.yaml", "steps=1", "loop.batch=1")
    assert done.code == 0, done.err
    config = yaml.safe_load((autotelic.cwd / "runs" / "mine" / "config.yaml").read_text())
    assert (config["steps"], config["player"]["delay"]) == (1, 0.001)


def test_held_out_accuracy_is_measured_as_often_and_with_as_many_tasks_as_asked(autotelic):
    done = autotelic.play("steps=4", "run=one", "evaluate_every=2", "evaluate_tasks=5")
    assert done.code == 0, done.err
    run = autotelic.cwd / "runs" / "one"
    over_time = [line.get("heldout/add") for line in metrics(run)]
    assert [at for at, value in enumerate(over_time) if value is not None] == [0, 2, 4]
    headline = result(run)["heldout"]["add"]
    assert (headline["before"], headline["after"], headline["n"]) == (over_time[0], over_time[4], 5)


def test_a_run_can_be_measured_with_another_suite(autotelic):
    (autotelic.cwd / "own.txt").write_text("1 2 3")
    done = autotelic.play("steps=2", "run=one", "evaluate_suite=own.txt", "evaluate=false", "evaluate_every=1")
    assert done.code == 0, done.err
    assert {line["heldout/add"] for line in metrics(autotelic.cwd / "runs" / "one")} <= {0.0, 1 / 3, 2 / 3, 1.0}
    assert result(autotelic.cwd / "runs" / "one")["heldout"] == {}
    done = autotelic.play("steps=1", "run=two", "evaluate_suite=own.txt")
    assert result(autotelic.cwd / "runs" / "two")["heldout"]["add"]["n"] == 3
    assert "held out: own.txt" in done.out


def test_a_suite_without_tasks_is_one_line_and_makes_no_run(autotelic):
    (autotelic.cwd / "none.txt").write_text("")
    line = autotelic.play("steps=2", "evaluate_suite=none.txt").complaint()
    assert "none.txt has no held-out tasks to measure with" in line
    assert list((autotelic.cwd / "runs").iterdir()) == []


def test_time_ends_a_run_too(autotelic):
    done = autotelic.play("steps=100000", "minutes=0.005", "run=one")
    assert done.code == 0, done.err
    assert result(autotelic.cwd / "runs" / "one")["finished"] is True


def test_a_signal_ends_the_step_saves_and_says_how_to_go_on(autotelic, stop_signal):
    process = autotelic.start_slow("one")
    process.send_signal(stop_signal)
    _, err = process.communicate()
    assert process.returncode == 128 + stop_signal
    assert "go on with: autotelic resume runs/one" in err
    assert "Traceback" not in err
    figures = result(autotelic.cwd / "runs" / "one")
    assert figures["finished"] is False
    checkpoint = (autotelic.cwd / "runs" / "one" / "checkpoints" / "latest").read_text().strip()
    assert checkpoint == f"step_{figures['steps']:06d}"


def test_a_second_process_on_a_run_is_told_who_has_it(autotelic):
    process = autotelic.start_slow("one")
    assert f"in use by process {process.pid}" in autotelic("resume", "runs/one").complaint()
    listed = json.loads(autotelic("runs", "--json").out)["runs"][0]
    assert listed["state"] == f"running ({process.pid})"
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_run_killed_at_any_moment_and_resumed_equals_the_uninterrupted_one(autotelic):
    options = ("steps=40", "checkpoint.every=3", "loop.seeding=1", "evaluate_every=2")
    assert autotelic.play("run=whole", *options).code == 0
    process = autotelic.start_slow("killed", "evaluate_every=2")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    process = autotelic.start("resume", "runs/killed", "steps=40")
    log = autotelic.cwd / "runs" / "killed" / "metrics.jsonl"
    autotelic.until(lambda: log.read_bytes().count(b"\n") > 15, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = autotelic("resume", "runs/killed")
    assert done.code == 0, done.err
    runs = autotelic.cwd / "runs"
    assert metrics(runs / "killed") == metrics(runs / "whole")
    assert result(runs / "killed") == result(runs / "whole")
    assert digest(runs / "killed") == digest(runs / "whole")


def digest(path: Path) -> str:
    from autotelic.play.archive import Archive

    with Archive.open(path / "archive.sqlite", readonly=True) as archive:
        return archive.digest()


def test_a_run_killed_before_its_first_checkpoint_starts_again(autotelic):
    options = ("steps=2", "loop.batch=2", "loop.attempts=2", "player.delay=0.3")
    assert autotelic.play("run=whole", *options).code == 0
    process = autotelic.start("play", "world=sums", "player=counter", "run=early", *options)
    early = autotelic.cwd / "runs" / "early"
    autotelic.until(lambda: tasks(early) > 0, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (early / "checkpoints").exists()
    (early / "archive.sqlite.bak").write_text("mine")
    done = autotelic("resume", "runs/early")
    assert done.code == 0, done.err
    assert metrics(early) == metrics(autotelic.cwd / "runs" / "whole")
    assert (early / "archive.sqlite.bak").read_text() == "mine"


def tasks(path: Path) -> int:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}/archive.sqlite?mode=ro", uri=True)) as archive:
            return archive.execute("SELECT count(*) FROM tasks").fetchone()[0]
    except sqlite3.OperationalError:
        return 0  # not there yet


@pytest.mark.parametrize("also_gone", ["", "metrics.jsonl", "archive.sqlite"])
def test_a_run_that_lost_its_checkpoints_is_refused_and_left_alone(autotelic, also_gone: str):
    autotelic.given()
    one = autotelic.cwd / "runs" / "one"
    shutil.rmtree(one / "checkpoints")
    if also_gone:
        (one / also_gone).unlink()
    kept = ("config.yaml", "metrics.jsonl", "archive.sqlite", "result.json", "report.html")
    before = {name: (one / name).read_bytes() for name in kept if name != also_gone}
    assert "no checkpoint, but the run has 4 steps" in autotelic("resume", "one").complaint()
    assert {name: (one / name).read_bytes() for name in before} == before


def test_a_run_that_lost_its_archive_is_one_line(autotelic):
    autotelic.given()
    (autotelic.cwd / "runs" / "one" / "archive.sqlite").unlink()
    for changes in (("steps=5",), ("run=two",)):
        assert "archive.sqlite: gone" in autotelic("resume", "one", *changes).complaint()
    assert not (autotelic.cwd / "runs" / "two").exists()


def test_a_bad_metrics_line_is_named_with_what_to_do_which_works(autotelic):
    autotelic.given()
    path = autotelic.cwd / "runs" / "one" / "metrics.jsonl"
    path.write_text(path.read_text().replace("\n", "\nrubbish\n", 1))
    line = autotelic("resume", "one", "steps=5").complaint()
    assert "metrics.jsonl:2: not a metrics line" in line
    subprocess.run(line.partition("try again: ")[2].split(), cwd=autotelic.cwd, check=True)
    assert autotelic("resume", "one", "steps=5").code == 0
    assert [figures["step"] for figures in metrics(path.parent)] == [0, 1, 2, 3, 4, 5]


def test_a_checkpoint_without_what_is_looked_for_is_one_line(autotelic):
    from autotelic.runs.checkpoints import Checkpoints

    autotelic.given()
    checkpoints = Checkpoints(autotelic.cwd / "runs" / "one" / "checkpoints")
    step, state = checkpoints.load()
    del state["proposer"]
    checkpoints.save(step, state)
    for arguments in (("resume", "one", "steps=5"), ("eval", "one")):
        assert "step_000004 lacks 'proposer': made by another version or damaged" in autotelic(*arguments).complaint()


def test_a_finished_run_killed_while_it_is_extended_is_not_finished(autotelic):
    autotelic.given()
    process = autotelic.start("resume", "one", "steps=100000")
    one = autotelic.cwd / "runs" / "one"
    autotelic.until(lambda: (one / "metrics.jsonl").read_bytes().count(b"\n") > 6, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert result(one)["finished"] is False
    assert json.loads(autotelic("runs", "--json").out)["runs"][0]["state"] == "stopped"


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (("world=code", "player=grammar", "world.sandbox.backend=foo"), "foo"),
        (("loop.tasks=absent.jsonl",), "absent.jsonl"),
    ],
)
def test_a_start_that_fails_leaves_the_name_free(autotelic, mistake: tuple[str, ...], words: str):
    done = autotelic.play("run=one", "steps=1", *mistake)
    assert done.code == 2, done
    assert words in done.err.splitlines()[-1]
    assert list((autotelic.cwd / "runs").iterdir()) == []
    assert autotelic.play("run=one", "steps=2").code == 0
    done = autotelic("resume", "one", "run=two", "loop.practice=absurd", "steps=3")
    assert done.code != 0
    assert not (autotelic.cwd / "runs" / "two").exists()


def test_a_signal_before_the_run_begins_is_one_line(autotelic, stop_signal):
    process = autotelic.start_anew("play", "world=sums", "player=counter", TOY_SLOW="1")
    autotelic.until((autotelic.cwd / "loading").exists, process)
    process.send_signal(stop_signal)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + stop_signal, "autotelic: stopped\n")


def test_time_alone_is_a_bound(autotelic):
    done = autotelic.play("minutes=0.04", "run=one", "evaluate=false", "loop.batch=1", "loop.seeding=0")
    assert done.code == 0, done.err
    one = autotelic.cwd / "runs" / "one"
    assert result(one)["steps"] > 100
    assert yaml.safe_load((one / "config.yaml").read_text())["steps"] is None


def test_what_became_of_imported_tasks_is_said(autotelic):
    autotelic.given()
    assert autotelic("export", "one", "--out", "tasks.jsonl").code == 0
    file = autotelic.cwd / "tasks.jsonl"
    file.write_text(file.read_text() + "rubbish\n" * 25)
    lines = autotelic.play("run=two", "steps=1", "loop.tasks=tasks.jsonl").err.splitlines()
    assert len([line for line in lines if "not JSON" in line and line.startswith("tasks.jsonl, line ")]) == 20
    assert "tasks.jsonl: 5 more bad lines skipped" in lines
    assert any("tasks imported" in line and "25 bad lines" in line for line in lines)


@pytest.mark.parametrize("env", [{}, {"COUNTER_GUESSES": "1"}], ids=["exact", "not exact"])
def test_a_run_that_cannot_be_repeated_says_so_when_it_goes_on(autotelic, env: dict[str, str]):
    small = ("world=sums", "player=counter", "loop.batch=2", "loop.attempts=2")
    assert "note:" not in autotelic("play", *small, "run=one", "steps=1", **env).err
    done = autotelic("resume", "one", "steps=2", **env)
    assert ("note: what this player says is not decided here" in done.err) is bool(env)


def test_a_finished_run_goes_on_with_a_farther_bound(autotelic):
    autotelic.given()
    assert autotelic.play("run=whole", "steps=6", "seed=3").code == 0
    assert autotelic("resume", "one", "steps=6").code == 0
    runs = autotelic.cwd / "runs"
    assert metrics(runs / "one") == metrics(runs / "whole")
    assert yaml.safe_load((runs / "one" / "config.yaml").read_text())["steps"] == 6


def test_a_fork_goes_on_from_its_step_under_a_new_name(autotelic):
    autotelic.given()
    runs = autotelic.cwd / "runs"
    before = metrics(runs / "one")
    done = autotelic("resume", "runs/one", "step=2", "run=two")
    assert done.code == 0, done.err
    assert metrics(runs / "two") == before
    assert digest(runs / "two") == digest(runs / "one")
    done = autotelic("resume", "runs/one", "step=2", "run=three", "loop.attempts=1", "steps=4")
    assert done.code == 0, done.err
    assert metrics(runs / "three")[:3] == before[:3]
    assert metrics(runs / "three")[3] != before[3]
    assert metrics(runs / "one") == before


FORK_AND_DIE = """
import os, signal
from autotelic.cli import main, play
play.carry_on = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main.main(["resume", "runs/one", "step=2", "run=two", "seed=9", "loop.attempts=1", "root=others", "steps=4"])
"""


def test_a_fork_killed_at_once_has_all_that_was_asked_for(autotelic):
    autotelic.given()
    env = {**os.environ, **autotelic.env}
    assert autotelic.commands.run([], autotelic.cwd, env, program=FORK_AND_DIE).code == -signal.SIGKILL
    two = autotelic.cwd / "others" / "two"
    config = yaml.safe_load((two / "config.yaml").read_text())
    assert (config["run"], config["seed"], config["root"], config["loop"]["attempts"]) == ("two", 9, "others", 1)
    assert json.loads((two / "meta.json").read_text())["seed"] == 9
    assert autotelic("resume", "others/two").code == 0
    asked = ("step=2", "run=three", "seed=9", "loop.attempts=1", "steps=4")
    assert autotelic("resume", "runs/one", *asked).code == 0
    assert metrics(two) == metrics(autotelic.cwd / "runs" / "three")


def test_a_fork_says_how_this_machine_differs_from_the_one_its_past_is_from(autotelic):
    autotelic.given()
    path = autotelic.cwd / "runs" / "one" / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "threads": 999}))
    assert "thread count differs: 999" in autotelic("resume", "one", "run=two", "steps=5").err
    assert "thread count differs" not in autotelic("resume", "runs/two", "steps=6").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("step=2",), "name the new one with run=NEW"),
        (("loop.batch=3",), "would change the run's past"),
        (("step=3", "run=two"), "no checkpoint of step 3; there are: 0, 2, 4"),
        (("step=x", "run=two"), "a whole number"),
        (("step=2", "run=one"), "exists already"),
        (("step=2", "run=two", "player=grammar"), "a run keeps its player"),
        (("step=2", "run=two", "stpes=3"), "did you mean steps?"),
    ],
)
def test_a_mistaken_resume_is_one_line_and_makes_no_run(autotelic, arguments: tuple[str, ...], words: str):
    autotelic.given()
    assert words in autotelic("resume", "runs/one", *arguments).complaint()
    assert [path.name for path in (autotelic.cwd / "runs").iterdir()] == ["one"]


def test_a_damaged_checkpoint_is_named_with_the_way_out_that_works(autotelic):
    autotelic.given()
    path = autotelic.cwd / "runs" / "one" / "checkpoints" / "step_000004" / "state.json"
    path.write_bytes(path.read_bytes()[:-5])
    line = autotelic("resume", "runs/one", "steps=6").complaint()
    assert "step_000004/state.json: damaged" in line
    way_out = line.partition("autotelic resume ")[2].split()
    assert way_out == ["runs/one", "step=2", "run=NEW"]
    assert autotelic("resume", *way_out).code == 0


def test_a_sweep_makes_one_run_a_value_and_a_table(autotelic):
    done = autotelic.play("-m", "seed=1,2", "steps=2", "run=swept")
    assert done.code == 0, done.err
    runs = autotelic.cwd / "runs"
    assert sorted(path.name for path in runs.iterdir()) == ["swept-000", "swept-001"]
    assert [result(runs / f"swept-00{index}")["seed"] for index in (0, 1)] == [1, 2]
    assert "seed=1" in done.out
    assert "swept-001" in done.out


def test_a_sweep_passes_its_options_on(autotelic):
    (autotelic.cwd / "runs").mkdir()
    (autotelic.cwd / "absent.yaml").write_text("loop: {tasks: absent.jsonl}\n")
    done = autotelic.play("-m", "seed=1,2", "steps=2", "--config", "absent.yaml", "--debug")
    assert done.code == 1
    assert done.err.count("Traceback (most recent call last)") >= 2


def test_a_mistake_in_one_job_of_a_sweep_is_said_before_any_starts(autotelic):
    assert "steps=0: must be at least 1" in autotelic.play("-m", "steps=2,0").complaint()
    assert "no key has any" in autotelic.play("-m", "steps=2").complaint()
    assert not (autotelic.cwd / "runs").exists()
