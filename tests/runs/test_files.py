import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotelic.errors import UserError
from autotelic.runs.files import named_errors, sweep_aside, user_error, write_atomic

WRITER = """
import sys
from autotelic.runs.files import write_atomic
print("ready", flush=True)
while True:
    for letter in "ab":
        write_atomic(sys.argv[1], letter * 200_000)
"""


def test_write_atomic_replaces_content_and_leaves_nothing_beside(tmp_path: Path):
    path = tmp_path / "file"
    write_atomic(path, "old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_readers_and_killed_writers_never_see_a_part(tmp_path: Path):
    path = tmp_path / "file"
    for delay in (0.0, 0.007, 0.013, 0.029, 0.041):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            end = time.monotonic() + 0.1 + delay
            while time.monotonic() < end:
                if path.exists():
                    assert path.read_bytes() in (b"a" * 200_000, b"b" * 200_000)
            writer.send_signal(signal.SIGKILL)
        assert path.read_bytes() in (b"a" * 200_000, b"b" * 200_000)
    sweep_aside(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "file"
    write_atomic(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="disk is full"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "disk is full"), (errno.EACCES, "not writable"), (errno.EROFS, "read-only")]
)
def test_disk_errors_name_the_path_and_the_reason(number: int, words: str):
    line = str(user_error(OSError(number, os.strerror(number)), "runs/x"))
    assert "runs/x" in line
    assert words in line
    assert "\n" not in line


def test_a_device_that_is_full_is_one_line():
    with (
        pytest.raises(UserError, match="/dev/full: the disk is full"),
        named_errors("/dev/full"),
        open("/dev/full", "wb", buffering=0) as file,
    ):
        file.write(b"x")


def test_a_file_as_parent_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="not a directory"):
        write_atomic(tmp_path / "file" / "below", "x")
