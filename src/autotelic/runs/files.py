"""Files that are either written whole or not at all, and disk errors said in one line."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autotelic.errors import UserError

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space, then resume or start again",
    errno.EDQUOT: "the disk quota is used up; free some space, then resume or start again",
    errno.EACCES: "not writable; choose another place with root=DIR",
    errno.EPERM: "not writable; choose another place with root=DIR",
    errno.EROFS: "not writable (read-only file system); choose another place with root=DIR",
    errno.ENOTDIR: "a part of the path is a file, not a directory; choose another place with root=DIR",
    errno.EISDIR: "is a directory; a file was expected",
    errno.ENOENT: "no such file or directory",
    errno.EIO: "the disk reports an input/output error",
    errno.EFBIG: "the file grew beyond the allowed size",
    errno.ENAMETOOLONG: "the name is too long",
}


def user_error(error: OSError, path: str | os.PathLike[str] | None = None) -> UserError:
    """The one line for a disk error. `path` is what the user knows; the error's own may be a file written aside."""
    where = path if path is not None else error.filename
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
    return UserError(f"{os.fspath(where) if where is not None else 'file'}: {reason}")


@contextlib.contextmanager
def named_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns any OSError of the block into one line that names the path."""
    try:
        yield
    except OSError as error:
        raise user_error(error, path) from error


def sync_directory(path: Path) -> None:
    """Makes names created or renamed in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Readers see the old content or the new, never a part."""
    raw = data.encode() if isinstance(data, str) else data
    with named_errors(path), written_aside(path) as aside:
        aside.write_bytes(raw)


@contextlib.contextmanager
def written_aside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Where the block writes a file that then takes its place: synced, renamed, directory synced. A block that fails
    leaves nothing."""
    path = Path(path)
    # The process id keeps two writers apart; what a killed writer left is overwritten or swept by `sweep_aside`.
    aside = path.with_name(f".{path.name}.{os.getpid()}.aside")
    try:
        yield aside
        with named_errors(path):
            sync_file(aside)
            os.replace(aside, path)
            sync_directory(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def sweep_aside(directory: Path) -> None:
    """Removes files that writers killed half-way left behind. Only the holder of the run's lock may call it."""
    for pattern in (".*.aside", ".archive.sqlite.*.new*"):
        for left in directory.glob(pattern):
            if left.is_file():
                left.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_address(*parts: Any) -> str:
    """A short, stable name for plain data: the first 128 bits of its SHA-256, in hex."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def cache_directory() -> Path:
    """Where what can be made again is kept: suites, base weights, converted models."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "autotelic"


def parse_json(text: str) -> Any:
    """JSON and nothing else: no NaN, no infinity, no key twice. ValueError says what is wrong."""
    return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_twice)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    item = dict(pairs)
    if len(item) < len(pairs):
        raise ValueError("a key is given twice")
    return item
