import json
import signal
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
    for name in ("one", "two"):
        assert autotelic.play("steps=5", f"run={name}", "seed=3").code == 0
    assert autotelic.play("steps=5", "run=other", "seed=4").code == 0
    runs = autotelic.cwd / "runs"
    assert metrics(runs / "one") == metrics(runs / "two") != metrics(runs / "other")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("stpes=3", "unknown key 'stpes': did you mean steps?"),
        ("player.dely=3", "did you mean player.delay?"),
        ("steps=0", "steps=0: must be at least 1"),
        ("steps=x", "could not be converted to Integer"),
        ("world=sum", "no world named 'sum': did you mean sums?"),
        ("minutes=-1", "minutes=-1.0: must be above 0"),
        ("checkpoint.every=0", "checkpoint.every=0"),
        ("loop.batch=0", "loop.batch"),
        ("run=../x", "a run's name"),
        ("seed=1,2", "sweep with -m"),
        ("root=/proc/nope", "/proc/nope"),
    ],
)
def test_a_mistake_is_said_before_anything_starts(autotelic, override: str, words: str):
    assert words in autotelic.play(override).complaint()
    assert not (autotelic.cwd / "runs").exists()


def test_a_name_that_exists_is_refused(autotelic):
    assert autotelic.play("steps=1", "run=one").code == 0
    assert "exists already: autotelic resume runs/one" in autotelic.play("steps=1", "run=one").complaint()


def test_a_config_file_is_read_under_the_overrides(autotelic):
    (autotelic.cwd / "mine.yaml").write_text(
        "world: sums\nplayer: {name: counter, delay: 0.001}\nsteps: 2\nrun: mine\n"
    )
    done = autotelic("play", "--config", "mine.yaml", "steps=1", "loop.batch=1")
    assert done.code == 0, done.err
    config = yaml.safe_load((autotelic.cwd / "runs" / "mine" / "config.yaml").read_text())
    assert (config["steps"], config["player"]["delay"]) == (1, 0.001)


def test_time_ends_a_run_too(autotelic):
    done = autotelic.play("steps=100000", "minutes=0.005", "run=one")
    assert done.code == 0, done.err
    assert result(autotelic.cwd / "runs" / "one")["finished"] is True


def test_a_signal_ends_the_step_saves_and_says_how_to_go_on(autotelic, stop_signal):
    process = autotelic.start_slow("one")
    process.send_signal(stop_signal)
    _, err = process.communicate(timeout=60)
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
    options = ("steps=40", "checkpoint.every=3", "loop.seeding=1")
    assert autotelic.play("run=whole", *options).code == 0
    process = autotelic.start_slow("killed")
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
    assert autotelic.play("run=whole", "steps=3").code == 0
    assert autotelic.play("run=early", "steps=3").code == 0
    early = autotelic.cwd / "runs" / "early"
    subprocess.run(["rm", "-r", str(early / "checkpoints")], check=True)
    assert autotelic("resume", "runs/early").code == 0
    assert metrics(early) == metrics(autotelic.cwd / "runs" / "whole")


def test_a_finished_run_goes_on_with_a_farther_bound(autotelic):
    assert autotelic.play("run=one", "steps=3").code == 0
    assert autotelic.play("run=whole", "steps=6").code == 0
    assert autotelic("resume", "one", "steps=6").code == 0
    runs = autotelic.cwd / "runs"
    assert metrics(runs / "one") == metrics(runs / "whole")
    assert yaml.safe_load((runs / "one" / "config.yaml").read_text())["steps"] == 6


def test_a_fork_goes_on_from_its_step_under_a_new_name(autotelic):
    assert autotelic.play("run=one", "steps=6", "checkpoint.every=2", "checkpoint.keep=0").code == 0
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
    assert autotelic.play("run=one", "steps=4", "checkpoint.every=2", "checkpoint.keep=0").code == 0
    assert words in autotelic("resume", "runs/one", *arguments).complaint()
    assert [path.name for path in (autotelic.cwd / "runs").iterdir()] == ["one"]


def test_a_damaged_checkpoint_is_named_with_the_way_out_that_works(autotelic):
    assert autotelic.play("run=one", "steps=4", "checkpoint.every=2", "checkpoint.keep=0").code == 0
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


def test_a_mistake_in_one_job_of_a_sweep_is_said_before_any_starts(autotelic):
    assert "steps=0: must be at least 1" in autotelic.play("-m", "steps=2,0").complaint()
    assert "no key has any" in autotelic.play("-m", "steps=2").complaint()
    assert not (autotelic.cwd / "runs").exists()
