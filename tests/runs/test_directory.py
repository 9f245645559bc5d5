import contextlib
import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.runs.directory import Run, automatic_name, find, holder, listing

CONFIG = {"steps": 3, "world": {"name": "code"}}

HOLDER = """
import sys, time
from autotelic.runs.directory import Run
run = Run.open(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def create(root: Path, name: str | None = "one") -> Run:
    return Run.create(root, name, CONFIG, verb="play", subject="code", seed=5)


def test_a_new_run_has_its_config_and_what_it_ran_on(tmp_path: Path):
    with create(tmp_path) as run:
        assert run.path == tmp_path / "one"
        assert run.config() == CONFIG
        meta = json.loads((run.path / "meta.json").read_text())
    assert meta["verb"] == "play"
    assert meta["seed"] == 5
    assert meta["versions"]["numpy"] == np.__version__
    assert {"commit", "python", "cpu", "threads", "platform"} <= meta.keys()


def test_a_name_that_exists_is_refused_with_the_two_ways_on(tmp_path: Path):
    with create(tmp_path), pytest.raises(UserError, match=r"exists already: autotelic resume .*one, or .* run=NAME"):
        create(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["one"]


def test_runs_without_a_name_get_one_each(tmp_path: Path):
    with create(tmp_path, None) as first, create(tmp_path, None) as second:
        assert first.name.startswith("play-code-")
        assert first.name.endswith("-000")
        assert second.name.endswith("-001")


def test_an_automatic_name_is_a_file_name(tmp_path: Path):
    assert "/" not in automatic_name(tmp_path, "train", "Isaac/Humanoid-v0")


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "a b", ""])
def test_a_name_that_would_leave_the_root_is_refused(tmp_path: Path, name: str):
    if name:
        with pytest.raises(UserError, match="a run's name"):
            create(tmp_path, name)
    assert not (tmp_path.parent / "up").exists()


def test_an_unwritable_root_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/runs: .*not a directory") as caught:
        create(tmp_path / "file" / "runs")
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"/proc/nope: .*choose another place with root=DIR"):
        create(Path("/proc/nope"))


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 256 KiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_full_disk_is_one_line_and_the_last_checkpoint_stays_whole(small_disk: Path):
    with create(small_disk) as run:
        run.checkpoints.save(1, {"w": np.zeros(1000)})
        with pytest.raises(UserError, match="disk is full") as caught:
            run.checkpoints.save(2, {"w": np.zeros(100_000)})
        assert "\n" not in str(caught.value)
        assert run.checkpoints.steps() == [1]
        assert run.checkpoints.load()[1]["w"].shape == (1000,)


def test_a_second_process_is_told_who_holds_the_run(tmp_path: Path):
    with create(tmp_path) as run:
        path = run.path
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match=f"in use by process {process.pid}"):
            Run.open(path)
        assert holder(path) == process.pid
        Run.open(path, readonly=True).close()
        process.send_signal(signal.SIGKILL)
    assert holder(path) is None
    Run.open(path).close()


def test_a_run_being_created_is_already_locked(tmp_path: Path):
    with create(tmp_path) as run, pytest.raises(UserError, match=f"in use by process {os.getpid()}"):
        Run.open(run.path)


def _create_and_report(root: str, results: multiprocessing.Queue) -> None:
    try:
        Run.create(root, "one", CONFIG, verb="play").close()
        results.put("made")
    except UserError:
        results.put("refused")


def test_of_several_processes_creating_one_name_only_one_succeeds(tmp_path: Path):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=_create_and_report, args=(str(tmp_path), results)) for _ in range(4)]
    for process in processes:
        process.start()
    assert sorted(results.get(timeout=60) for _ in processes) == ["made", "refused", "refused", "refused"]
    for process in processes:
        process.join()


def test_opening_something_else_is_one_line(tmp_path: Path):
    with create(tmp_path, "walker"):
        pass
    with pytest.raises(UserError, match="did you mean walker"):
        find(tmp_path / "walkr")
    with pytest.raises(UserError, match="not a run directory"):
        find(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", ""])
def test_a_damaged_meta_file_is_named(tmp_path: Path, content: str):
    with create(tmp_path) as run:
        (run.path / "meta.json").write_text(content)
    with pytest.raises(UserError, match=r"meta\.json: damaged"):
        Run.open(run.path)
    (run.path / "meta.json").write_text("{}")
    Run.open(run.path).close()  # the failed attempt let go of the lock


def test_listing_finds_runs_and_nothing_else(tmp_path: Path):
    for name in ("b", "a"):
        create(tmp_path, name).close()
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("")
    assert [path.name for path in listing(tmp_path)] == ["a", "b"]
    assert listing(tmp_path / "absent") == []


def test_a_result_needs_its_stable_fields(tmp_path: Path):
    with create(tmp_path) as run:
        with pytest.raises(ValueError, match="finished"):
            run.write_result({"verb": "play", "seed": 0, "steps": 1, "minutes": 0.1})
        run.write_result({"verb": "play", "seed": 0, "steps": 1, "minutes": 0.1, "finished": True})
        assert run.result() == json.loads((run.path / "result.json").read_text())


def test_a_machine_that_differs_is_one_line_each(tmp_path: Path):
    with create(tmp_path) as run:
        assert run.differences() == []
        run.meta["threads"] = 999
        run.meta["versions"]["numpy"] = "0.1"
        lines = run.differences()
    assert len(lines) == 2
    assert lines[0].startswith("thread count differs: 999 when the run began")
    assert lines[1].startswith("numpy differs: 0.1")


def filled(root: Path) -> Run:
    run = create(root)
    run.checkpoints.keep = 0
    for step in range(1, 7):
        run.metrics.write(step, {"x": step})
        if step % 2 == 0:
            run.checkpoints.save(step, {"step": step})
    return run


def test_a_fork_holds_the_past_up_to_its_step_and_leaves_the_source_alone(tmp_path: Path):
    with filled(tmp_path) as run:
        connection = sqlite3.connect(run.archive)
        with contextlib.closing(connection):
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE tasks (step INTEGER)")
            connection.execute("INSERT INTO tasks VALUES (1)")
            connection.commit()
            before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
            with run.fork(4, "two") as fork:
                assert fork.config() == CONFIG
                assert fork.checkpoints.steps() == [2, 4]
                assert fork.checkpoints.pointer("latest") == 4
                assert [line["step"] for line in fork.metrics.read()] == [1, 2, 3, 4]
                assert fork.meta["forked"]["step"] == 4
                assert fork.meta["id"] != run.meta["id"]
                with contextlib.closing(sqlite3.connect(fork.archive)) as copy:
                    assert copy.execute("SELECT step FROM tasks").fetchall() == [(1,)]
            after = {path: path.read_bytes() for path in before if not path.name.startswith("archive.sqlite-")}
        assert all(before[path] == content for path, content in after.items())


def test_a_fork_of_a_missing_step_or_onto_an_existing_run_is_refused(tmp_path: Path):
    with filled(tmp_path) as run:
        with pytest.raises(UserError, match="no checkpoint of step 3; there are: 2, 4, 6"):
            run.fork(3, "two")
        with pytest.raises(UserError, match="exists already"):
            run.fork(4, "one")
    assert [entry.name for entry in tmp_path.iterdir()] == ["one"]


def test_a_fork_has_its_own_configuration_seed_and_place(tmp_path: Path):
    with filled(tmp_path) as run, run.fork(4, "two", {**CONFIG, "steps": 9, "seed": 8}, tmp_path / "other") as fork:
        assert fork.path == tmp_path / "other" / "two"
        assert (fork.config()["steps"], fork.meta["seed"]) == (9, 8)
    with Run.open(tmp_path / "one") as run, run.fork(4, "three") as fork:
        assert (fork.config(), fork.meta["seed"]) == (CONFIG, 5)


def test_a_bad_metrics_line_does_not_keep_a_run_from_being_forked(tmp_path: Path):
    with filled(tmp_path) as run:
        run.metrics.path.write_bytes(b"rubbish\n" + run.metrics.path.read_bytes())
        with run.fork(4, "two") as fork:
            assert [line["step"] for line in fork.metrics.read()] == [1, 2, 3, 4]


def test_a_discarded_run_leaves_its_name_free_and_nothing_beside(tmp_path: Path):
    create(tmp_path).discard()
    assert list(tmp_path.iterdir()) == []
    create(tmp_path).close()


def test_what_killed_processes_built_aside_is_cleared_away_but_not_what_a_living_one_builds(tmp_path: Path):
    for name in ("dead", "living"):
        create(tmp_path, name).close()
        (tmp_path / name).rename(tmp_path / f".{name}.1234.aside")
    (tmp_path / ".young.1234.aside").mkdir()
    living = tmp_path / ".living.1234.aside"
    with Run.open(living):
        for path in (living, tmp_path / ".dead.1234.aside"):
            os.utime(path, (time.time() - 1000, time.time() - 1000))
        create(tmp_path, "new").close()
        assert sorted(entry.name for entry in tmp_path.iterdir()) == [
            ".living.1234.aside",
            ".young.1234.aside",
            "new",
        ]


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"minutes": NaN}', '{"heldout": 3}', '{"heldout": {"add": 3}}', "[" * 10**5]
)
def test_a_damaged_result_is_one_line(tmp_path: Path, content: str):
    with create(tmp_path) as run:
        (run.path / "result.json").write_text(content)
        with pytest.raises(UserError, match=r"result\.json: damaged"):
            run.result()
