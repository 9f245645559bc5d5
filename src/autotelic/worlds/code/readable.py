"""Tasks of the code world for people: values are shown as the literals they stand for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autotelic.worlds.base import Plain
from autotelic.worlds.code import literals
from autotelic.worlds.code.sandbox import values


def texts(stored: Mapping[str, Plain]) -> list[tuple[str, str]]:
    """A spec as titled texts, its program first."""
    spec: dict[str, Any] = dict(stored)
    parts: list[tuple[str, str]] = []
    if isinstance(spec.get("program"), str):
        parts.append(("program", spec.pop("program")))
    spec.pop("key", None)  # the address of the canonical program: nothing to read
    inputs, outputs = spec.get("inputs"), spec.get("outputs")
    if isinstance(inputs, list) and isinstance(outputs, list) and len(inputs) == len(outputs):
        shown = spec.pop("shown", None)
        del spec["inputs"], spec["outputs"]
        parts += [("pairs", _pairs(inputs, outputs, shown if isinstance(shown, int) else len(inputs)))]
    for key in ("input", "output"):
        if key in spec:
            parts.append((key, _literal(spec.pop(key), arguments=key == "input")))
    others = ((key, value if isinstance(value, str) else json.dumps(value)) for key, value in spec.items() if value)
    return [*parts, *others]


def _pairs(inputs: Sequence[Plain], outputs: Sequence[Plain], shown: int) -> str:
    lines = []
    for at, (given, wanted) in enumerate(zip(inputs, outputs, strict=True)):
        call = f"f({_literal(given, arguments=True)}) == {_literal(wanted)}"
        lines.append(f"{call}{'' if at < shown else '   # hidden'}")
    return "\n".join(lines)


def _literal(encoded: Plain, arguments: bool = False) -> str:
    """A canonical text as a Python literal; as it stands if it is none."""
    if not isinstance(encoded, str):
        return json.dumps(encoded)
    try:
        value = values.decode(encoded)
        return literals.render_items(value) if arguments and isinstance(value, tuple) else literals.render(value)
    except (values.Malformed, ValueError, RecursionError):
        return encoded
