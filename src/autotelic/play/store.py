"""The archive's SQLite file: its schema, how it is opened, and what the user is told when that fails."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotelic.errors import UserError
from autotelic.runs.files import sync_directory, sync_file

APPLICATION_ID = 0x4175746F  # "Auto": how this file is told from another program's
SCHEMA_VERSION = 1

# Row numbers grow with the step and only the newest rows are ever dropped, so after a rewind the same numbers are
# given out again. `specs` is apart from `tasks` so that a scan over counters does not read every program.
SCHEMA = """
CREATE TABLE tasks (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, step INTEGER NOT NULL, world TEXT NOT NULL, kind TEXT NOT NULL,
    sample INTEGER,                             -- the proposal it came from; none for seeds and imports
    attempts INTEGER NOT NULL DEFAULT 0, solved INTEGER NOT NULL DEFAULT 0,    -- of verdicts that are evidence
    streak INTEGER NOT NULL DEFAULT 0,          -- solved attempts in a row, up to the newest
    touched INTEGER NOT NULL,                   -- step of the newest verdict, or its own
    unsound INTEGER NOT NULL DEFAULT 0,         -- verdicts that found it non-deterministic
    retired_step INTEGER, retired_why TEXT);
CREATE TABLE specs (n INTEGER PRIMARY KEY, step INTEGER NOT NULL, spec TEXT NOT NULL, features TEXT NOT NULL);
CREATE TABLE answers (n INTEGER PRIMARY KEY, address TEXT NOT NULL UNIQUE, step INTEGER NOT NULL, text NOT NULL);
CREATE TABLE samples (
    n INTEGER PRIMARY KEY, step INTEGER NOT NULL, role TEXT NOT NULL, kind TEXT NOT NULL, answer INTEGER NOT NULL,
    task INTEGER, claim INTEGER, reward REAL);
CREATE TABLE verdicts (
    n INTEGER PRIMARY KEY, step INTEGER NOT NULL, task INTEGER NOT NULL, sample INTEGER NOT NULL,
    solved INTEGER NOT NULL, evidence INTEGER NOT NULL, outcome TEXT NOT NULL, score REAL NOT NULL, detail NOT NULL,
    metrics TEXT NOT NULL, version TEXT NOT NULL, seed TEXT NOT NULL,
    timings TEXT NOT NULL);                     -- metrics that are durations: not part of the digest
CREATE TABLE rejections (
    n INTEGER PRIMARY KEY, step INTEGER NOT NULL, kind TEXT NOT NULL, sample INTEGER, outcome TEXT NOT NULL,
    reason NOT NULL);
CREATE TABLE lineage (
    n INTEGER PRIMARY KEY, step INTEGER NOT NULL, sample INTEGER NOT NULL,
    relation TEXT NOT NULL,                     -- reference: a task it was shown; parent: the answer it retries
    target TEXT NOT NULL);
CREATE INDEX tasks_active ON tasks (kind) WHERE retired_step IS NULL;
CREATE INDEX tasks_retired ON tasks (retired_step) WHERE retired_step IS NOT NULL;
CREATE INDEX tasks_sample ON tasks (sample) WHERE sample IS NOT NULL;
CREATE INDEX verdicts_task ON verdicts (task);
CREATE INDEX lineage_sample ON lineage (sample);
CREATE INDEX tasks_step ON tasks (step);
CREATE INDEX specs_step ON specs (step);
CREATE INDEX answers_step ON answers (step);
CREATE INDEX samples_step ON samples (step);
CREATE INDEX verdicts_step ON verdicts (step);
CREATE INDEX rejections_step ON rejections (step);
CREATE INDEX lineage_step ON lineage (step);
"""
TABLES = ("tasks", "specs", "answers", "samples", "verdicts", "rejections", "lineage")

_SMALL_FILE = 64 << 20  # bytes up to which a file is checked page by page when opened
_ADVICE = {
    "SQLITE_NOTADB": "is not an archive: it is no SQLite file, or its first page is damaged; give another file",
    "SQLITE_CORRUPT": "is damaged or cut short; restore a copy of it, or rescue rows with `sqlite3 FILE .recover`",
    "SQLITE_FULL": "could not be written: the disk is full; free some space and resume, complete steps are kept",
    "SQLITE_READONLY": "cannot be written; make the file and its directory writable, or copy the run elsewhere",
    "SQLITE_CANTOPEN": "cannot be opened; check that it and its directory exist and can be read and written",
    "SQLITE_PERM": "cannot be opened; check its permissions",
    "SQLITE_AUTH": "cannot be opened; check its permissions",
    "SQLITE_BUSY": "is being written by another process; wait until that has ended",
    "SQLITE_LOCKED": "is being written by another process; wait until that has ended",
    "SQLITE_IOERR": "could not be read or written (disk error); check the disk's space and health, then resume",
    "SQLITE_PROTOCOL": "cannot be locked; put it on a local disk",
}


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turns what can go wrong with a file into one line for the user; mistakes in our own SQL stay as they are."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", None) or ""
        if "Could not decode to UTF-8" in str(error):  # found by Python's module, which gives it no code
            name = "SQLITE_CORRUPT"
        advice = next((text for code, text in _ADVICE.items() if name.startswith(code)), None)
        if advice is None:
            raise
        raise UserError(f"archive {path} {advice}") from error


class Store:
    """One connection to one archive file. Every statement goes through here, so every failure is explained."""

    def __init__(self, path: Path, connection: sqlite3.Connection, readonly: bool) -> None:
        self.path = path
        self.readonly = readonly
        self._connection = connection
        self._seen = 0  # SQLite's data version after our own last look: it moves when someone else commits

    @classmethod
    def create(cls, path: Path) -> Store:
        """A new file, complete or not there at all: built aside, then renamed."""
        if path.exists():
            raise UserError(f"archive {path} exists already; open it, or give another path")
        if not path.parent.is_dir():
            raise UserError(f"archive {path} cannot be created: directory {path.parent} does not exist; create it")
        aside = path.with_name(f".{path.name}.{os.getpid()}.new")
        try:
            with _explained(path):
                connection = sqlite3.connect(aside, isolation_level=None)
                try:
                    connection.execute("PRAGMA page_size = 4096")
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.executescript(
                        f"BEGIN; {SCHEMA} PRAGMA application_id = {APPLICATION_ID};"
                        f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
                    )
                finally:
                    connection.close()
            sync_file(aside)
            os.rename(aside, path)
            sync_directory(path.parent)
        except OSError as error:
            raise UserError(f"archive {path} cannot be created: {error.strerror}; check the directory") from error
        finally:
            for leftover in (aside, Path(f"{aside}-wal"), Path(f"{aside}-shm")):
                with suppress(OSError):
                    leftover.unlink(missing_ok=True)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, readonly: bool = False) -> Store:
        if not path.is_file():
            found = "is not a file" if path.exists() else "does not exist"
            raise UserError(f"archive {path} {found}; give the path of an archive.sqlite")
        with _explained(path):
            connection = _connect(path, readonly)
            try:
                _recognise(path, connection)
                # NORMAL syncs at WAL checkpoints only: a killed process loses nothing (the pages are the kernel's),
                # a power cut may lose the newest whole steps but not the file. `flush` syncs before a checkpoint
                # of the run relies on them. FULL would cost one fsync a step for rows that resume drops anyway.
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute("PRAGMA cache_size = -65536")
                connection.execute("PRAGMA temp_store = MEMORY")
                if path.stat().st_size <= _SMALL_FILE:
                    _check(path, connection, "quick_check")
            except BaseException:
                connection.close()
                raise
        store = cls(path, connection, readonly)
        store._seen = store.value("PRAGMA data_version")
        return store

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        with _explained(self.path):
            for row in self._connection.execute(sql, parameters):  # noqa: UP028 -- `yield from` closes a dead cursor
                yield row

    def integers(self, sql: str, parameters: Sequence[Any] = (), width: int = 1) -> NDArray[np.int64]:
        """All rows of `width` integer columns as one array; no Python statement runs per row."""
        row = np.dtype([(str(column), np.int64) for column in range(width)])
        with _explained(self.path):
            return np.fromiter(self._connection.execute(sql, parameters), dtype=row).view(np.int64).reshape(-1, width)

    def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _explained(self.path):
            return self._connection.execute(sql, parameters).fetchall()

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first column of the first row, or None."""
        found = self.all(sql, parameters)
        return found[0][0] if found else None

    @property
    def changes(self) -> int:
        """Rows changed so far through this connection."""
        return self._connection.total_changes

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with _explained(self.path):
            self._connection.execute(sql, parameters)

    def write_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        with _explained(self.path):
            self._connection.executemany(sql, rows)

    def begin(self) -> None:
        if self.readonly:
            raise UserError(f"archive {self.path} was opened to read only; open it for writing to change it")
        with _explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
        if self.value("PRAGMA data_version") != self._seen:
            self.rollback()
            raise UserError(f"archive {self.path} was changed by another process; end one of the two and resume")

    def commit(self) -> None:
        with _explained(self.path):
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        with _explained(self.path):
            if self._connection.in_transaction:  # a full disk makes SQLite roll back by itself
                self._connection.execute("ROLLBACK")

    def flush(self) -> None:
        """Makes all committed steps safe against a power cut, and moves what readers allow from the log to the file."""
        log = Path(f"{self.path}-wal")
        try:
            if log.exists():
                sync_file(log)  # SQLite skips this sync while a reader holds the log back; no lock is on this file
        except OSError as error:
            raise UserError(f"archive {self.path} {_ADVICE['SQLITE_IOERR']}") from error
        with _explained(self.path):
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def check(self) -> None:
        """Reads every page and every index; raises a UserError that says what is damaged."""
        with _explained(self.path):
            _check(self.path, self._connection, "integrity_check")

    def close(self) -> None:
        with _explained(self.path):
            self._connection.close()


def _connect(path: Path, readonly: bool) -> sqlite3.Connection:
    uri = path.absolute().as_uri()
    if not readonly:
        return sqlite3.connect(f"{uri}?mode=rw", uri=True, isolation_level=None, timeout=10)
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, isolation_level=None, timeout=10)
    try:
        connection.execute("PRAGMA user_version").fetchall()
    except sqlite3.OperationalError:
        # A WAL file needs its index beside it even for readers. In a directory we may not write, the file alone is
        # complete as long as no log is left over; a log that holds rows must not be ignored.
        connection.close()
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise
        connection = sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None)
    return connection


def _recognise(path: Path, connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        what = "another program's SQLite file" if path.stat().st_size else "an empty file"
        raise UserError(f"archive {path} is {what}; give the path of an archive.sqlite")
    if version > SCHEMA_VERSION:
        raise UserError(
            f"archive {path} has schema {version}, this version reads up to {SCHEMA_VERSION}; upgrade autotelic"
        )
    if version < 1:
        raise UserError(f"archive {path} has the unknown schema {version}; restore a copy of it")


def _check(path: Path, connection: sqlite3.Connection, pragma: str) -> None:
    found = connection.execute(f"PRAGMA {pragma}(1)").fetchone()
    if found is None or found[0] != "ok":
        said = " ".join(str(found[0]).split()) if found else "no answer"
        raise UserError(f"archive {path} {_ADVICE['SQLITE_CORRUPT']} (found: {said[:120]})")
