"""Archives as JSON Lines: everything goes out; only tasks come back in, and only through the world's own door.

A file from elsewhere is data. Its verdicts and counters are not evidence here and its expected outputs are not gold:
each task line becomes a Record, and the caller's `admit` runs it again and says Task or Rejection. What `admit`
returns is archived, never the line itself.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from autotelic.errors import UserError
from autotelic.play.archive import Archive
from autotelic.play.records import Records
from autotelic.runs.files import parse_json
from autotelic.worlds.base import Plain, Rejection, Task

FORMAT = "autotelic-archive"
VERSION = 1
MAX_LINE = 4 << 20  # bytes
_MAX_NAME = 64  # characters of a world, kind or feature name
_BATCH = 256  # records handed to `admit` at once


@dataclass(frozen=True)
class Record:
    """One task line, types checked, nothing believed."""

    line: int
    world: str
    kind: str
    spec: Mapping[str, Plain]
    features: Mapping[str, float]


@dataclass(frozen=True)
class BadLine:
    """A line that was skipped, and why."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.why}; skipped"


@dataclass
class Imported:
    """What became of a file's lines."""

    tasks: list[str] = field(default_factory=list)  # ids of the tasks archived
    duplicates: int = 0  # tasks that were archived already
    rejected: list[tuple[int, Rejection]] = field(default_factory=list)  # line number and the world's reason
    ignored: int = 0  # lines about samples, verdicts and rejections of the other run
    bad: list[BadLine] = field(default_factory=list)


Admit = Callable[[Sequence[Record]], Sequence[Task | Rejection]]


def export_jsonl(records: Records, path: str | PathLike[str]) -> int:
    """Writes tasks, samples, rejections and verdicts, one object a line, complete or not at all; returns how many."""
    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}.new")
    lines = 0
    try:
        with aside.open("x", encoding="ascii", newline="\n") as file:
            file.write(json.dumps({"type": "header", "format": FORMAT, "version": VERSION}) + "\n")
            for item in _items(records):
                file.write(json.dumps(item, allow_nan=False, separators=(",", ":")) + "\n")
                lines += 1
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, target)
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}; check the directory and the disk's space") from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
    return lines


def _items(records: Records) -> Iterator[dict[str, Plain]]:
    after, page = 0, records.tasks(limit=1000)
    while page:
        for entry in page:
            task, after = entry.task, entry.n
            known = {"attempts": entry.attempts, "solved": entry.solved}
            retired = {"retired_step": entry.retired_step, "retired_why": entry.retired_why}
            content = {"id": task.id, "world": task.world, "kind": task.kind, "spec": task.spec}
            yield {"type": "task", "step": entry.step, **content, "features": task.features, **known, **retired}
        page = records.tasks(after=after, limit=1000)
    yield from records.sample_rows()
    yield from records.rejection_rows()
    for task, answer, verdict, sample in records.verdict_rows():
        said = {"solved": verdict.solved, "outcome": verdict.outcome, "score": verdict.score, "detail": verdict.detail}
        made = {"metrics": dict(verdict.metrics), "version": verdict.version, "seed": verdict.seed}
        yield {"type": "verdict", "task": task.id, "sample": sample, "claim": answer.claim, **said, **made}


def import_jsonl(archive: Archive, path: str | PathLike[str], step: int, admit: Admit) -> Imported:
    """Adds the tasks of a file that `admit` lets in. A bad line is named and skipped, it never ends the import."""
    source = Path(path)
    result = Imported()
    batch: list[Record] = []
    with archive.transaction():
        for number, line in _lines(source):
            record = _read(source, number, line, result)
            if record is not None:
                batch.append(record)
            if len(batch) == _BATCH:
                _take(archive, step, batch, admit, result)
                batch = []
        _take(archive, step, batch, admit, result)
    return result


def _lines(source: Path) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None for one over the limit, of which no more than the limit is ever held."""
    try:
        with source.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) <= MAX_LINE or line.endswith(b"\n"):
                    yield number, line
                    continue
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE)
                yield number, None
    except OSError as error:
        raise UserError(f"cannot read {source}: {error.strerror}; give a file that `export` wrote") from error


def _read(source: Path, number: int, line: bytes | None, result: Imported) -> Record | None:
    try:
        if line is None:
            raise ValueError(f"longer than {MAX_LINE} bytes")
        if not line.strip():
            return None
        item = _parse(line)
        kind = item.get("type")
        if kind == "task":
            return _record(number, item)
        if kind == "header":
            _check_header(item)
        elif kind in ("sample", "verdict", "rejection"):
            result.ignored += 1
        else:
            raise ValueError(f"its type is {str(kind)[:40]!r}, not task, sample, verdict or rejection")
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())[:200]
        result.bad.append(BadLine(str(source), number, why))
    return None


def _parse(line: bytes) -> dict[str, Any]:
    try:
        item = parse_json(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, column {error.colno})") from None
    if type(item) is not dict:
        raise ValueError("not a JSON object")
    return item


def _check_header(item: Mapping[str, Any]) -> None:
    if item.get("format") != FORMAT:
        raise ValueError(f"its format is {str(item.get('format'))[:40]!r}, not {FORMAT!r}")
    version = item.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(f"its version is {str(version)[:40]!r}, this program reads up to {VERSION}")


def _record(number: int, item: Mapping[str, Any]) -> Record:
    for name in ("world", "kind"):
        _check_name(name, item.get(name))
    spec, features = item.get("spec"), item.get("features", {})
    if type(spec) is not dict:
        raise ValueError("spec is not an object")
    if type(features) is not dict:
        raise ValueError("features is not an object")
    figures: dict[str, float] = {}
    for name, value in features.items():
        _check_name("a feature's name", name)
        if type(value) not in (int, float) or abs(value) > 1e300 or not math.isfinite(value):
            raise ValueError(f"feature {name} is not a finite number")
        figures[name] = float(value)
    return Record(number, item["world"], item["kind"], spec, figures)


def _check_name(what: str, name: object) -> None:
    if type(name) is not str or not 0 < len(name) <= _MAX_NAME or not name.isascii() or not name.isprintable():
        raise ValueError(f"{what} is not a printable text of 1 to {_MAX_NAME} characters")


def _take(archive: Archive, step: int, batch: Sequence[Record], admit: Admit, result: Imported) -> None:
    if not batch:
        return
    judged = admit(batch)
    if len(judged) != len(batch):
        raise ValueError(f"admit was given {len(batch)} records and returned {len(judged)}")
    seen = archive.known(item.id for item in judged if isinstance(item, Task))
    tasks: list[Task] = []
    for record, item in zip(batch, judged, strict=True):
        if isinstance(item, Rejection):
            result.rejected.append((record.line, item))
        elif item.id in seen:
            result.duplicates += 1
        else:
            seen.add(item.id)
            tasks.append(item)
    archive.add_tasks(step, tasks)
    result.tasks += [task.id for task in tasks]
