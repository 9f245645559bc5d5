"""What this machine and this installation are: recorded with every run, compared when one is resumed."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import autotelic
from autotelic.runs import workers

# Packages whose version can change a result.
PACKAGES = ("numpy", "safetensors", "sandlock", "hydra-core", "torch", "mujoco", "transformers", "gymnasium")

CPUINFO = Path("/proc/cpuinfo")

# What must be equal for a resumed run to equal the uninterrupted one.
COMPARED = {"cpu": "CPU", "threads": "thread count", "python": "Python"}


def threads() -> int:
    """Processors this process may use: affinity and OMP_NUM_THREADS count, not what the machine has."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(asked), usable) if asked.isdigit() and int(asked) > 0 else usable


def cpu() -> str:
    """The processor's model name, with its family and model: virtual machines call very different ones the same."""
    try:
        lines = CPUINFO.read_text().partition("\n\n")[0].splitlines()
    except OSError:  # not Linux
        lines = []
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "model name" not in said:
        return platform.processor() or platform.machine()
    exactly = [f"{key.split()[-1]} {said[key]}" for key in ("cpu family", "model") if key in said]
    return f"{said['model name']} ({', '.join(exactly)})" if exactly else said["model name"]


def versions() -> dict[str, str]:
    found = {"autotelic": autotelic.__version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit of the source checkout this package runs from, with -dirty when it was changed; None if installed."""
    root = Path(autotelic.__file__).resolve().parents[2]
    if not (root / ".git").exists() or not (root / "src" / "autotelic").is_dir():
        return None
    return workers.output(["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], cwd=str(root))


def describe() -> dict[str, Any]:
    return {
        "versions": versions(),
        "commit": commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu(),
        "threads": threads(),
    }
