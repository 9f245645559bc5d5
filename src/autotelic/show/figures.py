"""A run's metrics as curves over steps, and the few figures a headline needs. Gaps stay gaps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from autotelic.runs import metrics

Floats = NDArray[np.float64]
ROLES = ("propose", "solve")
_FIRST = ("deduction", "abduction", "induction")


@dataclass(frozen=True)
class Curves:
    """All figures of a run by name, one value a step; NaN where a step did not measure it."""

    steps: Floats
    table: dict[str, Floats]

    @classmethod
    def read(cls, path: Path) -> Curves:
        lines = {int(line["step"] or 0): line for line in metrics.read(path)} if path.exists() else {}
        steps = sorted(lines)
        table: dict[str, Floats] = {}
        for at, step in enumerate(steps):
            for name, value in lines[step].items():
                if name == "step" or isinstance(value, bool) or not isinstance(value, int | float):
                    continue
                if name not in table:
                    table[name] = np.full(len(steps), math.nan)
                table[name][at] = value
        return cls(np.array(steps, dtype=float), table)

    def get(self, name: str) -> Floats:
        return self.table.get(name, np.full(len(self.steps), math.nan))

    def has(self, name: str) -> bool:
        return name in self.table and bool(np.isfinite(self.table[name]).any())

    def kinds(self) -> list[str]:
        parts = (name.split("/") for name in self.table)
        return in_order({part[1] for part in parts if len(part) > 2 and part[0] in ROLES})

    def under(self, prefix: str) -> dict[str, Floats]:
        """The figures below a name: `under("time")` has propose, admit, …"""
        return {name[len(prefix) + 1 :]: row for name, row in self.table.items() if name.startswith(f"{prefix}/")}

    def first_and_last(self, name: str) -> tuple[float, float] | None:
        """How a figure began and ended."""
        return ends(self.get(name))


def ends(values: Floats) -> tuple[float, float] | None:
    """The means over the first and the last tenth of what was measured: single steps are noise."""
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    window = max(1, len(values) // 10)
    return float(values[:window].mean()), float(values[-window:].mean())


def in_order(kinds: Iterable[str]) -> list[str]:
    """Kinds in the order people meet them, unknown ones after the known."""
    found = set(kinds)
    return [kind for kind in _FIRST if kind in found] + sorted(found.difference(_FIRST))
