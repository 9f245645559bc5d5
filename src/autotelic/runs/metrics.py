"""metrics.jsonl: one flat JSON object a step. TensorBoard and W&B are written beside it when asked."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from autotelic.errors import UserError
from autotelic.registry import optional
from autotelic.runs.files import named_errors, write_atomic

Value = float | int | str | bool | None

WANDB_MODES = ("off", "offline", "online")


@dataclass
class LogConfig:
    """Where figures go beside metrics.jsonl."""

    tensorboard: bool = False  # event files in the run directory, under tensorboard/
    wandb: str = "off"  # off, offline (files only, to sync later) or online
    project: str = "autotelic"  # the W&B project

    def __post_init__(self) -> None:
        if self.wandb not in WANDB_MODES:
            raise UserError(f"log.wandb={self.wandb}: choose one of {', '.join(WANDB_MODES)}")


class Sink(Protocol):
    """Something that shows figures elsewhere."""

    def write(self, step: int, figures: Mapping[str, Value]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files by tensorboardX, which needs neither torch nor TensorFlow."""

    def __init__(self, directory: Path, first_step: int) -> None:
        writer = optional("tensorboardX", "log.tensorboard=true").SummaryWriter
        # purge_step hides what a killed run wrote beyond its last checkpoint.
        self._writer = writer(logdir=str(directory), purge_step=first_step)

    def write(self, step: int, figures: Mapping[str, Value]) -> None:
        for name, value in figures.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(name, value, global_step=step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A W&B run; `offline` writes files only."""

    def __init__(self, directory: Path, mode: str, project: str, name: str, identity: str) -> None:
        wandb = optional("wandb", f"log.wandb={mode}")
        # Its own output would tear the progress display, and it must not take over ours.
        settings = wandb.Settings(silent=True, console="off")
        where = {"project": project, "name": name, "id": identity, "dir": str(directory)}
        try:
            self._run = wandb.init(**where, mode=mode, resume="allow", settings=settings)
        except wandb.Error as error:
            reason = " ".join(str(error).split())
            raise UserError(f"log.wandb={mode}: {reason} (log.wandb=offline needs no account)") from error

    def write(self, step: int, figures: Mapping[str, Value]) -> None:
        self._run.log({name: value for name, value in figures.items() if value is not None}, step=step)

    def close(self) -> None:
        self._run.finish()


def _plain(name: str, value: Any) -> Value:
    """A JSON value. NaN and infinities have no place in JSON: they become null."""
    if value is None or isinstance(value, str | bool):
        return value
    if hasattr(value, "item"):  # numpy and torch scalars
        value = value.item()
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    raise TypeError(f"metric {name}: {type(value).__name__} is not a figure")


def read(path: Path) -> Iterator[dict[str, Value]]:
    """The lines of a metrics file. A torn last line, left by a kill, is passed over; damage before it is an error."""
    with named_errors(path), open(path, "rb") as file:
        for number, raw in enumerate(file, 1):
            line = _parse(raw)
            if line is not None:
                yield line
            elif raw.endswith(b"\n"):
                raise _bad_line(path, number)


def _bad_line(path: Path, number: int) -> UserError:
    return UserError(
        f"{path}:{number}: not a metrics line (a JSON object with a step); delete that line and try again: "
        f"sed -i {number}d {path}"
    )


def _parse(raw: bytes) -> dict[str, Value] | None:
    if not raw.endswith(b"\n"):
        return None
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and isinstance(line.get("step"), int) else None


class Metrics:
    """The writer. A line reaches the kernel when it is written, and the disk at `sync`, before a checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = None
        self._sinks: list[Sink] = []

    def add_sink(self, sink: Sink) -> None:
        self._sinks.append(sink)

    def write(self, step: int, figures: Mapping[str, Any]) -> None:
        line = {"step": step, **{name: _plain(name, value) for name, value in figures.items() if name != "step"}}
        raw = json.dumps(line, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        with named_errors(self.path):
            if self._file is None:
                # Unbuffered: one write a line, so that a kill tears at most the last one.
                self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - open for the run's life
            written = self._file.write(raw)
            while written < len(raw):  # a disk that is nearly full takes a part, then says so
                written += self._file.write(raw[written:])
        for sink in self._sinks:
            sink.write(step, {name: value for name, value in line.items() if name != "step"})

    def sync(self) -> None:
        if self._file is not None:
            with named_errors(self.path):
                os.fsync(self._file.fileno())

    def rewind(self, step: int, *, drop_bad: bool = False) -> None:
        """Drops lines newer than the step, and a torn last line. Any other bad line is an error unless it is to be
        dropped too. Atomic."""
        self._close_file()
        if not self.path.exists():
            return
        with named_errors(self.path):
            before = self.path.read_bytes()
        kept: list[bytes] = []
        for number, raw in enumerate(before.splitlines(keepends=True), 1):
            line = _parse(raw)
            if line is None:
                if raw.endswith(b"\n") and not drop_bad:
                    raise _bad_line(self.path, number)
                continue
            if int(line["step"] or 0) <= step:
                kept.append(raw)
        after = b"".join(kept)
        if after != before:
            write_atomic(self.path, after)

    def read(self) -> list[dict[str, Value]]:
        return list(read(self.path)) if self.path.exists() else []

    def last(self) -> dict[str, Value] | None:
        lines = self.read()
        return lines[-1] if lines else None

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()
        self._sinks.clear()
        self._close_file()
