"""Tasks to measure with, by name or from a file. The suite that every run is measured with is in `suite.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from autotelic.errors import UserError
from autotelic.registry import nearest
from autotelic.worlds.base import Task
from autotelic.worlds.code.suites import codeio, humaneval, own

if TYPE_CHECKING:
    from autotelic.worlds.code.world import CodeWorld

NAMED: dict[str, Callable[[CodeWorld], list[Task]]] = {"codeio": codeio.load, "humaneval": humaneval.load}


def load_suite(name: str | Path, world: CodeWorld) -> list[Task]:
    """The suite of that name; any other name is a file's."""
    load = NAMED.get(str(name))
    if load is not None:
        return load(world)
    path = Path(name)
    if not path.suffix and not path.exists():
        raise UserError(f"suite={name}: neither a file nor a suite: {nearest(str(name), list(NAMED))}")
    return own.load(path, world)
