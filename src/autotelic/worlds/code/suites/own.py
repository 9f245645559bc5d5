"""A user's own tasks, from a file of JSON lines. Every one is run, and a line that does not hold is named.

    {"kind": "deduction" | "abduction", "program": …, "input": …, "output": …}
    {"kind": "induction", "pairs": [[input, output], …], "message": …}

An input is the argument list of a call and an output a value, both Python literals in a string.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotelic.errors import UserError
from autotelic.runs.files import content_address, named_errors
from autotelic.worlds.base import Rejection, Task
from autotelic.worlds.code import literals
from autotelic.worlds.code.kinds.base import (
    MAX_MESSAGE,
    Draft,
    RefusedError,
    read_arguments,
    read_program,
    require_short,
)
from autotelic.worlds.code.sandbox import values
from autotelic.worlds.code.suite import KINDS, admit_patiently

if TYPE_CHECKING:
    from autotelic.worlds.code.world import CodeWorld


def load(path: Path, world: CodeWorld) -> list[Task]:
    """The tasks of a file, in the order of its lines."""
    with named_errors(path):
        lines = path.read_text(encoding="utf-8-sig", errors="surrogateescape").split("\n")
    tasks: list[Task | None] = []
    drafts: list[tuple[str, Draft]] = []
    wanted: list[tuple[int, int, str]] = []  # position, line number, output
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _read_row(line, world)
            if row["kind"] == "induction":
                tasks.append(_pairs_task(row, world))
                continue
            source, given = _text(row, "program"), _input(_text(row, "input"), world)
            drafts.append((row["kind"], Draft(read_program(source, world.config.kind.rules), (given,))))
            wanted.append((len(tasks), number, _output(_text(row, "output"), world)))
            tasks.append(None)
        except RefusedError as refused:
            raise UserError(f"{path}:{number}: {refused.outcome}: {refused.reason}") from None
    for result, (position, number, output) in zip(admit_patiently(world, drafts), wanted, strict=True):
        if isinstance(result, Rejection):
            raise UserError(f"{path}:{number}: {result.outcome}: {result.reason}")
        if result.spec["output"] != output:
            found = literals.render(values.decode(result.spec["output"]))
            raise UserError(f"{path}:{number}: the program gives {found[:200]}, not the output of the line")
        tasks[position] = result
    if not tasks:
        raise UserError(f"{path}: no tasks; one JSON object a line, see docs/evaluation.md")
    return [task for task in tasks if task is not None]


def _read_row(line: str, world: CodeWorld) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RefusedError("format", f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise RefusedError("format", "not a JSON object")
    known = [kind for kind in KINDS if kind in world.kinds]
    if row.get("kind") not in known:
        raise RefusedError("format", f"kind is {row.get('kind')!r}, not one of {', '.join(known)}")
    return row


def _text(row: dict[str, Any], key: str) -> str:
    if not isinstance(row.get(key), str):
        raise RefusedError("format", f'"{key}" is missing or no string')
    return row[key]


def _input(text: Any, world: CodeWorld) -> str:
    if not isinstance(text, str):
        raise RefusedError("format", f"an input is a string that holds literals, not {text!r:.100}")
    encoded = read_arguments(text)
    require_short(encoded, world.config.kind.max_value)
    return encoded


def _output(text: Any, world: CodeWorld) -> str:
    if not isinstance(text, str):
        raise RefusedError("format", f"an output is a string that holds a literal, not {text!r:.100}")
    try:
        encoded = values.encode(literals.parse_value(text))
    except literals.LiteralError as error:
        raise RefusedError("format", f"not a literal: {error}") from None
    require_short(encoded, world.config.kind.max_value)
    return encoded


def _pairs_task(row: dict[str, Any], world: CodeWorld) -> Task:
    pairs, message = row.get("pairs"), row.get("message", "")
    if not isinstance(pairs, list) or len(pairs) < 2 or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
        raise RefusedError("format", '"pairs" is not a list of at least two [input, output]')
    if not isinstance(message, str) or len(message) > MAX_MESSAGE:
        raise RefusedError("format", f'"message" is no string of at most {MAX_MESSAGE} characters')
    inputs = [_input(given, world) for given, _ in pairs]
    outputs = [_output(found, world) for _, found in pairs]
    if len(set(inputs)) < len(inputs):
        raise RefusedError("format", "an input is repeated")
    # There is no program of its own to check: the pairs are taken as they are.
    spec = {"program": None, "inputs": inputs, "outputs": outputs, "shown": len(pairs) // 2, "message": message}
    return world.make_task("induction", spec, content_address(inputs, outputs, message), {})
