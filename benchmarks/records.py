"""What benchmarks have measured: JSON lines in results/, each with the commit and the processor it was measured at."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from autotelic.runs import machine


def commit_of(run: Path) -> str | None:
    """The commit that a run was begun at."""
    return json.loads((run / "meta.json").read_text())["commit"]


def learns(run: Path, *arguments: str) -> None:
    """Runs a command that learns in `run`, and keeps there how many MB its process takes, a figure a minute."""
    process = subprocess.Popen([sys.executable, "-m", "autotelic.cli", *arguments], stdout=subprocess.DEVNULL)
    minute = time.monotonic() + 60
    while process.poll() is None:
        time.sleep(0.5)
        if time.monotonic() > minute:
            minute += 60
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            found = [int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")]
            with (run / "memory.txt").open("a") as file:
                file.writelines(f"{each}\n" for each in found)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {process.returncode}")


def memory_of(run: Path) -> list[int]:
    """MB, a figure a minute."""
    kept = run / "memory.txt"
    return [int(line) for line in kept.read_text().split()] if kept.exists() else []


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
