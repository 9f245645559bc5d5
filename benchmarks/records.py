"""What benchmarks have measured: JSON lines in results/, each with the commit and the processor it was measured at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autotelic.runs import machine


class Records:
    """The lines of one benchmark."""

    def __init__(self, name: str) -> None:
        self.path = Path(__file__).parent / "results" / f"{name}.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def add(self, line: dict[str, Any], *, quiet: bool = False) -> None:
        text = json.dumps(line | {"commit": machine.commit(), "cpu": machine.cpu()})
        if not quiet:
            print(text, flush=True)
        self.path.parent.mkdir(exist_ok=True)
        with self.path.open("a") as file:
            file.write(text + "\n")
