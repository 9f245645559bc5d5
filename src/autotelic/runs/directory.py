"""A run: one experiment, one directory, one process at a time.

NAME/config.yaml  meta.json  metrics.jsonl  archive.sqlite  checkpoints/  result.json  (+ eval/ videos/ report.html)
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import re
import secrets
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from autotelic.errors import UserError
from autotelic.runs import machine
from autotelic.runs.checkpoints import Checkpoints
from autotelic.runs.config import read_yaml, to_yaml
from autotelic.runs.files import named_errors, sweep_aside, sync_directory, user_error, write_atomic
from autotelic.runs.metrics import LogConfig, Metrics, TensorBoard, WeightsAndBiases

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_FORSAKEN = 60.0  # seconds after which a directory built aside whose lock is free is nobody's


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UserError(
            f"run={name}: a run's name has letters, digits and . _ + - only, and starts with a letter or digit"
        )
    return name


def automatic_name(root: Path, verb: str, subject: str) -> str:
    """verb-subject-date-counter, the first that is free: play-code-20260131-000."""
    stem = f"{verb}-{re.sub(r'[^A-Za-z0-9._+-]', '_', subject)}-{datetime.date.today():%Y%m%d}"
    counter = 0
    while (root / f"{stem}-{counter:03d}").exists():
        counter += 1
    return f"{stem}-{counter:03d}"


class Run:
    """A run directory, locked by this process unless opened to be read only."""

    def __init__(self, path: Path, lock: int | None) -> None:
        """Use `create` or `open`."""
        self.path = path
        self._lock = lock
        self.meta: dict[str, Any] = _read_json(path / "meta.json")
        self.metrics = Metrics(path / "metrics.jsonl")
        self.checkpoints = Checkpoints(path / "checkpoints")

    @classmethod
    def create(
        cls,
        root: str | Path,
        name: str | None,
        config: Mapping[str, Any],
        *,
        verb: str,
        subject: str = "run",
        seed: int = 0,
    ) -> Run:
        """Makes a new run under `root`; without a name one is made up. A name that exists is refused."""
        root = Path(root)
        if name:
            _checked_name(name)
        _make_root(root)
        for _ in range(100):
            chosen = name or automatic_name(root, verb, subject)
            try:
                return cls._create(root / chosen, config, {"verb": verb, "seed": seed})
            except FileExistsError:
                if name:
                    raise UserError(_exists(root / chosen)) from None
        raise UserError(f"{root}: no free run name found; give one with run=NAME")

    @classmethod
    def _create(cls, path: Path, config: Mapping[str, Any], meta: Mapping[str, Any]) -> Run:
        """Built aside and renamed into place, so that a run directory always has its config and its lock."""
        if path.exists() or path.is_symlink():
            raise FileExistsError
        with _built_aside(path) as (aside, lock):
            write_atomic(aside / "config.yaml", to_yaml(dict(config)))
            write_atomic(aside / "meta.json", _json({**_identity(), **meta, **machine.describe()}))
            _claim(aside, path)
            return cls(path, lock)

    @classmethod
    def open(cls, path: str | Path, *, readonly: bool = False) -> Run:
        """Opens an existing run; to write to it, its lock is taken, and another process holding it is one line."""
        path = find(path)
        if readonly:
            return cls(path, None)
        lock = _acquire(path)
        try:
            run = cls(path, lock)
            with named_errors(path):
                sweep_aside(path)
                run.checkpoints.recover()
            return run
        except BaseException:
            os.close(lock)
            raise

    def fork(
        self, step: int, name: str, config: Mapping[str, Any] | None = None, root: str | Path | None = None
    ) -> Run:
        """A new run that holds this one's past up to the checkpoint of `step`, and `config` from there on (this run's
        own when not given). This run is only read.

        The archive is copied whole, also while its owner writes to it; whoever opens it rewinds it to the step.
        """
        path = Path(root or self.path.parent) / _checked_name(name)
        if path.exists():
            raise UserError(_exists(path))
        self.checkpoints.require(step)
        config = self.config() if config is None else config
        _make_root(path.parent)
        origin = {"forked": {"run": str(self.path), "id": self.meta.get("id"), "step": step}}
        meta = {**self.meta, "seed": config.get("seed", self.meta.get("seed")), **origin}
        try:
            with _built_aside(path) as (aside, lock):
                with named_errors(path):
                    self._copy(aside, step)
                    # A bad line of the source must not keep its past from being used.
                    Metrics(aside / "metrics.jsonl").rewind(step, drop_bad=True)
                    write_atomic(aside / "config.yaml", to_yaml(dict(config)))
                    write_atomic(aside / "meta.json", _json({**meta, **_identity(), **machine.describe()}))
                _claim(aside, path)
                return Run(path, lock)
        except FileExistsError:
            raise UserError(_exists(path)) from None

    def discard(self) -> None:
        """Removes the whole run, for a start that came to nothing."""
        aside = _aside(self.path)
        with named_errors(self.path):
            os.rename(self.path, aside)  # at once: no half of a run is ever seen under its name
            shutil.rmtree(aside)
        self.close()

    def _copy(self, target: Path, step: int) -> None:
        if self.metrics.path.exists():
            shutil.copyfile(self.metrics.path, target / self.metrics.path.name)
        (target / "checkpoints").mkdir()
        for kept in self.checkpoints.steps():
            if kept <= step:
                shutil.copytree(self.checkpoints.path(kept), target / "checkpoints" / self.checkpoints.path(kept).name)
        best = self.checkpoints.pointer("best")
        if best is not None and best <= step:
            write_atomic(target / "checkpoints" / "best", self.checkpoints.path(best).name + "\n")
        write_atomic(target / "checkpoints" / "latest", self.checkpoints.path(step).name + "\n")
        if self.archive.exists():
            _copy_sqlite(self.archive, target / self.archive.name)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def archive(self) -> Path:
        return self.path / "archive.sqlite"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def directory(self, name: str) -> Path:
        """A folder of the run (eval, videos), made when first asked for."""
        path = self.path / name
        with named_errors(path):
            path.mkdir(exist_ok=True)
        return path

    def config(self) -> dict[str, Any]:
        """config.yaml as plain data."""
        return read_yaml(self.path / "config.yaml")

    def log_to(self, config: LogConfig, first_step: int) -> None:
        """Adds the displays asked for. `first_step` is the step that will be written next."""
        if config.tensorboard:
            self.metrics.add_sink(TensorBoard(self.path / "tensorboard", first_step))
        if config.wandb != "off":
            identity = str(self.meta.get("id", self.name))
            self.metrics.add_sink(WeightsAndBiases(self.path, config.wandb, config.project, self.name, identity))

    def write_result(self, result: Mapping[str, Any]) -> None:
        """The headline figures, small and stable: what scripts read."""
        needed = {"verb", "seed", "steps", "minutes", "finished"}
        if missing := needed - result.keys():
            raise ValueError(f"result.json needs {', '.join(sorted(missing))}")
        write_atomic(self.path / "result.json", _json(result))

    def result(self) -> dict[str, Any] | None:
        path = self.path / "result.json"
        if not path.exists():
            return None
        result = _read_json(path)
        heldout = result.get("heldout", {})
        if not isinstance(heldout, dict) or not all(isinstance(row, dict) for row in heldout.values()):
            raise UserError(f"{path}: damaged: heldout has no figures by kind")
        return result

    def differences(self) -> list[str]:
        """One line for each way this machine differs from the one the run began on, that can change results."""
        here = machine.describe()
        lines = []
        for key, what in machine.COMPARED.items():
            if self.meta.get(key) != here[key]:
                lines.append(f"{what} differs: {self.meta.get(key)} when the run began, {here[key]} here")
        known = self.meta.get("versions")
        then = known if isinstance(known, dict) else {}
        for package, version in here["versions"].items():
            if then.get(package) not in (None, version):
                lines.append(f"{package} differs: {then[package]} when the run began, {version} here")
        return lines

    def close(self) -> None:
        self.metrics.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def find(path: str | Path) -> Path:
    """A run by its path; a bare name is looked for under runs/ too."""
    path = Path(path)
    candidates = [path] if path.is_absolute() or len(path.parts) > 1 else [path, Path("runs") / path]
    for candidate in candidates:
        if (candidate / "meta.json").is_file() and (candidate / "config.yaml").is_file():
            return candidate
    if path.is_dir():
        raise UserError(f"{path}: not a run directory (no meta.json and config.yaml in it)")
    from autotelic.registry import nearest

    root = candidates[-1].parent
    known = [run.name for run in listing(root)]
    raise UserError(f"no run at {candidates[-1]}: {nearest(path.name, known)}")


def listing(root: str | Path = "runs") -> list[Path]:
    """The run directories under a root, by name."""
    root = Path(root)
    if not root.is_dir():
        return []
    with named_errors(root):
        return sorted(
            entry for entry in root.iterdir() if not entry.name.startswith(".") and (entry / "meta.json").is_file()
        )


def holder(path: Path) -> int | None:
    """The process that holds a run's lock, or None when nobody does."""
    try:
        descriptor = os.open(path / ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(descriptor, 32).decode(errors="replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


def _acquire(path: Path) -> int:
    """The kernel drops the lock when its holder dies, however it dies; the file's text is only for people."""
    file = path / ".lock"
    with named_errors(file):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise UserError(f"{path}: in use by process {pid}; wait for it or stop it (kill {pid})") from None
    except OSError as error:
        os.close(descriptor)
        raise user_error(error, file) from error
    return descriptor


def _make_root(root: Path) -> None:
    """Makes the directory runs are in, and clears away what killed processes were building there."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        line = str(user_error(error, root))
        raise UserError(line if "root=" in line else f"{line}; choose another place with root=DIR") from error
    for left in root.glob(".*.aside"):
        try:
            old = time.time() - left.stat().st_mtime > _FORSAKEN
        except FileNotFoundError:
            continue  # renamed into place meanwhile
        if old and left.is_dir() and holder(left) is None:
            shutil.rmtree(left, ignore_errors=True)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.aside")


@contextlib.contextmanager
def _built_aside(path: Path) -> Iterator[tuple[Path, int]]:
    """A locked directory beside a run's path, to be filled and renamed to it; removed if that fails."""
    aside = _aside(path)
    with named_errors(path):
        aside.mkdir()
    lock = None
    try:
        lock = _acquire(aside)
        yield aside, lock
    except BaseException:
        if lock is not None:
            os.close(lock)
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _claim(aside: Path, path: Path) -> None:
    """Renames onto a name that is free, and stays refused when another process took it meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        path.lstat()
        raise FileExistsError
    try:
        os.rename(aside, path)
    except OSError as error:
        if path.exists():
            raise FileExistsError from error
        raise
    sync_directory(path.parent)


def _exists(path: Path) -> str:
    return f"run {path} exists already: autotelic resume {path}, or choose another name with run=NAME"


def _copy_sqlite(source: Path, target: Path) -> None:
    """SQLite's own copy: consistent, and includes what is still in the write-ahead log."""
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as old,
            contextlib.closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
    except sqlite3.Error as error:
        raise UserError(f"{source}: cannot be copied: {error}") from error


def _identity() -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"id": secrets.token_hex(8), "created": now, "command": sys.argv[1:]}


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _read_json(path: Path) -> dict[str, Any]:
    with named_errors(path):
        raw = path.read_bytes()
    try:
        data = json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: damaged: not JSON") from error
    if not isinstance(data, dict):
        raise UserError(f"{path}: damaged: not a JSON object")
    return data


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
