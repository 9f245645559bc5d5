"""What benchmarks have measured: JSON lines in results/, each with the commit and the processor it was measured at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autotelic.runs import machine


def commit_of(run: Path) -> str | None:
    """The commit that a run was begun at."""
    return json.loads((run / "meta.json").read_text())["commit"]


class Records:
    """The lines of one benchmark."""

    def __init__(self, name: str) -> None:
        self.path = Path(__file__).parent / "results" / f"{name}.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def add(self, line: dict[str, Any], *, quiet: bool = False) -> None:
        """A line may say itself at which commit it was measured; else it was at this one."""
        text = json.dumps({"commit": machine.commit(), "cpu": machine.cpu()} | line)
        if not quiet:
            print(text, flush=True)
        self.path.parent.mkdir(exist_ok=True)
        with self.path.open("a") as file:
            file.write(text + "\n")
