"""What a user is told when the file is not what it should be, and what a kill leaves behind."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.play.archive import Archive
from autotelic.play.player import Sample
from autotelic.worlds.base import Task, Verdict

WIDTH = 40  # rows of each table a step


def write_step(archive: Archive, step: int) -> None:
    tasks = [Task(f"{step:08x}{n:024x}", "code", "deduction", {"program": "x" * 200}) for n in range(WIDTH)]
    samples = [Sample("solve", "deduction", f"{step} {n} " + "y" * 100, task.id) for n, task in enumerate(tasks)]
    ids = [task.id for task in tasks]
    with archive.transaction():
        archive.add_tasks(step, tasks)
        numbers = archive.add_samples(step, samples, [0.0] * WIDTH)
        archive.add_verdicts(step, [Verdict(True, "correct", 1.0)] * WIDTH, ids, numbers)
        archive.enforce_capacity(step)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed archive of 20 steps: one file, no log beside it."""
    with Archive.create(tmp_path / "archive.sqlite") as archive:
        for step in range(20):
            write_step(archive, step)
    return tmp_path / "archive.sqlite"


def message_of(action: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    return message


def use_all(path: Path) -> None:
    with Archive.open(path) as archive:
        archive.digest()
        list(archive.verdict_rows())
        archive.sample_references(["deduction"], 10**6, np.random.default_rng(0))
        write_step(archive, archive.step + 1)
        archive.rewind(0)
        archive.check()


def test_a_missing_file_is_named_and_not_created(tmp_path: Path) -> None:
    message = message_of(lambda: Archive.open(tmp_path / "none.sqlite"))
    assert "none.sqlite does not exist" in message
    assert not (tmp_path / "none.sqlite").exists()


def test_a_directory_is_no_archive(tmp_path: Path) -> None:
    assert "is not a file" in message_of(lambda: Archive.open(tmp_path))


def test_an_existing_file_is_never_overwritten(path: Path) -> None:
    before = path.read_bytes()
    assert "exists already" in message_of(lambda: Archive.create(path))
    assert path.read_bytes() == before


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    assert "no/such does not exist" in message_of(lambda: Archive.create(tmp_path / "no/such/a.sqlite"))


def test_another_programs_sqlite_file_is_recognised_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "browser.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE tasks (n)")
    connection.close()
    before = other.read_bytes()
    assert "another program's SQLite file" in message_of(lambda: Archive.open(other))
    assert other.read_bytes() == before


@pytest.mark.parametrize("content", [b"hello, I am text\n" * 500, bytes(5000), b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_sqlite_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.sqlite").write_bytes(content)
    assert "a.sqlite is not an archive" in message_of(lambda: Archive.open(tmp_path / "a.sqlite"))


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").touch()
    assert "is an empty file" in message_of(lambda: Archive.open(tmp_path / "a.sqlite"))


def test_a_newer_schema_asks_for_an_upgrade(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "schema 99" in message_of(lambda: Archive.open(path))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99])
def test_a_file_cut_short_is_named(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))
    assert "cut short" in message_of(lambda: Archive.open(path))


def test_damage_anywhere_is_one_line_or_harmless(path: Path) -> None:
    whole = path.read_bytes()
    rng = random.Random(0)
    explained = 0
    for _ in range(40):
        broken = bytearray(whole)
        at = rng.randrange(100, len(whole) - 600)
        broken[at : at + 600] = rng.randbytes(600)
        path.write_bytes(broken)
        try:
            use_all(path)
        except UserError as error:
            explained += "\n" not in str(error)
    assert explained >= 30  # the rest fell on unused bytes


def test_damage_that_sqlite_does_not_see_is_named(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE specs SET spec = '{\"program' WHERE n = 3")
    connection.close()
    with Archive.open(path) as archive:
        assert "is damaged" in message_of(lambda: archive.tasks())


def test_a_lost_log_leaves_an_archive_of_whole_steps(path: Path, tmp_path: Path) -> None:
    """The log is cut at every so many bytes: what is left opens and ends at the end of a step."""
    archive = Archive.open(path)
    for step in range(20, 30):
        write_step(archive, step)
    log = Path(f"{path}-wal").read_bytes()
    for cut in range(0, len(log), len(log) // 7):
        copy = tmp_path / f"cut{cut}.sqlite"
        shutil.copy(path, copy)
        Path(f"{copy}-wal").write_bytes(log[:cut])
        assert_whole_steps(copy)
    archive.close()


def test_a_full_disk_is_named_and_nothing_of_the_step_stays(path: Path) -> None:
    with Archive.open(path) as archive:
        before = archive.digest()
        archive._store.write(f"PRAGMA max_page_count = {archive._store.value('PRAGMA page_count') + 2}")
        assert "disk is full" in message_of(lambda: write_step(archive, 20))
        assert archive.digest() == before
        archive._store.write("PRAGMA max_page_count = 1000000")
        write_step(archive, 20)
    assert assert_whole_steps(path) == 20


def test_writing_past_the_limit_of_the_file_size_is_one_line(path: Path) -> None:
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_archive_damage import Archive, UserError, write_step\n"
        "archive = Archive.open(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    for step in range(20, 200): write_step(archive, step)\n"
        "except UserError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.startswith(f"archive {path} could not be")
    assert done.stdout.count("\n") == 1
    assert_whole_steps(path)


@pytest.fixture
def unwritable():
    """A directory with an archive in it that this process may read but not write, also when it runs as root."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    with Archive.create(directory / "archive.sqlite") as archive:
        write_step(archive, 0)
    directory.chmod(0o555)
    (directory / "archive.sqlite").chmod(0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield directory
    if root:
        os.seteuid(0)
    directory.chmod(0o755)
    shutil.rmtree(directory)


def test_an_unwritable_directory_is_named(unwritable: Path) -> None:
    assert "cannot be" in message_of(lambda: Archive.create(unwritable / "new.sqlite"))
    assert sorted(os.listdir(unwritable)) == ["archive.sqlite"]


def test_an_archive_that_cannot_be_written_says_so(unwritable: Path) -> None:
    def write() -> None:
        with Archive.open(unwritable / "archive.sqlite") as archive:
            write_step(archive, 1)

    assert "writ" in message_of(write)


def test_an_archive_in_an_unwritable_directory_can_be_read(unwritable: Path) -> None:
    with Archive.open(unwritable / "archive.sqlite", readonly=True) as archive:
        assert archive.counts()["tasks"] == WIDTH


def test_an_archive_opened_to_read_refuses_to_write(path: Path) -> None:
    with Archive.open(path, readonly=True) as archive:
        assert "read only" in message_of(lambda: write_step(archive, 20))


def test_a_second_writer_is_noticed_before_anything_is_mixed(path: Path) -> None:
    with Archive.open(path) as first, Archive.open(path) as second:
        write_step(second, 20)
        assert "changed by another process" in message_of(lambda: write_step(first, 20))
        write_step(second, 21)


def test_a_reader_beside_the_writer_does_not_disturb_it(path: Path) -> None:
    with Archive.open(path) as writer:
        for step in range(20, 23):
            with Archive.open(path, readonly=True) as reader:
                assert reader.step == step - 1
            write_step(writer, step)
            writer.flush()


def test_flushing_does_not_wait_for_a_reader_that_stays(path: Path) -> None:
    with Archive.open(path) as writer:
        reader = sqlite3.connect(path)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM tasks").fetchall()
        write_step(writer, 20)
        began = time.perf_counter()
        writer.flush()
        assert time.perf_counter() - began < 5
        reader.close()
    assert assert_whole_steps(path) == 20


# Killing


def assert_whole_steps(path: Path) -> int:
    """The file opens, is sound, and every step up to the newest is complete. Returns the newest step."""
    with Archive.open(path) as archive:
        archive.check()
        newest = archive.step
        counts = archive.counts()
        assert counts["tasks"] == counts["samples"] == counts["verdicts"] == (newest + 1) * WIDTH
        steps = Counter(row["step"] for row in archive.sample_rows())
        assert set(steps.values()) == {WIDTH}
        return newest


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    head = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_archive_damage import Archive, write_step\n"
    )
    return subprocess.Popen([sys.executable, "-c", head + script, *arguments], stdout=subprocess.PIPE, text=True)


def kill_after_ready(process: subprocess.Popen[str], seconds: float) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_a_kill_while_writing_leaves_whole_steps(tmp_path: Path) -> None:
    path = tmp_path / "archive.sqlite"
    Archive.create(path).close()
    script = (
        "archive = Archive.open(sys.argv[1]); print('ready', flush=True)\n"
        "for step in range(archive.step + 1, 10**6):\n"
        "    write_step(archive, step)\n"
        "    if step % 7 == 0: archive.flush()\n"
    )
    rng = random.Random(1)
    newest = []
    for _ in range(8):
        kill_after_ready(start(script, str(path)), rng.uniform(0.0, 0.25))
        newest.append(assert_whole_steps(path))
    assert newest == sorted(newest)
    assert newest[-1] > 8


def test_a_kill_while_rewinding_leaves_the_file_before_or_after(path: Path) -> None:
    with Archive.open(path) as archive:
        before = archive.digest()
        archive.rewind(9)
        after = archive.digest()
        for step in range(10, 20):
            write_step(archive, step)
        assert archive.digest() == before
    script = "archive = Archive.open(sys.argv[1]); print('ready', flush=True)\narchive.rewind(9)\n"
    rng = random.Random(2)
    for number in range(6):
        copy = path.with_name(f"copy{number}.sqlite")
        shutil.copy(path, copy)
        kill_after_ready(start(script, str(copy)), rng.uniform(0.0, 0.02))
        with Archive.open(copy) as archive:
            assert archive.digest() in (before, after)
