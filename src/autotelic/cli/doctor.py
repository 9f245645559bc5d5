"""autotelic doctor: what this machine can do. The sandbox is not believed but attacked."""

from __future__ import annotations

import argparse
import ctypes.util
import importlib.util
from typing import Any

from autotelic.cli.arguments import add_json, print_json
from autotelic.registry import EXTRAS
from autotelic.runs import machine, workers
from autotelic.worlds.code.sandbox import backends, proof
from autotelic.worlds.code.sandbox.config import SandboxConfig

WHAT = {"tensorboardX": "TensorBoard logs", "wandb": "Weights & Biases logs"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    default = SandboxConfig().backend
    sandboxes = {backend: examine(backend) for backend in backends.NAMES}
    report: dict[str, Any] = {
        "sandbox": {"default": default, "backends": sandboxes},
        "machine": machine.describe(),
        "gpu": gpus(),
        "gl": gl(),
        "parts": {
            module: {"present": importlib.util.find_spec(module) is not None, "extra": extra}
            for module, extra in EXTRAS.items()
        },
    }
    report["healthy"] = sandboxes[default]["held"]
    if arguments.json:
        print_json(report)
    else:
        show(report)
    return 0 if report["healthy"] else 1


def examine(backend: str) -> dict[str, Any]:
    """Whether a backend is there, and whether it held against every attempt to break out of it."""
    missing = backends.missing(backend)
    if missing is not None:
        return {"present": False, "held": False, "missing": missing, "attempts": []}
    attempts = [{"name": name, "held": held, "detail": detail} for name, held, detail in proof.prove(backend)]
    return {"present": True, "held": bool(attempts) and all(row["held"] for row in attempts), "attempts": attempts}


def gpus() -> list[str]:
    listed = workers.output(["nvidia-smi", "-L"])
    return [line.strip() for line in listed.splitlines() if line.strip()] if listed else []


def gl() -> list[str]:
    """Ways to render without a screen whose library is installed."""
    return [name for name, library in {"egl": "EGL", "osmesa": "OSMesa"}.items() if ctypes.util.find_library(library)]


def show(report: dict[str, Any]) -> None:
    default = report["sandbox"]["default"]
    for backend, found in report["sandbox"]["backends"].items():
        title = f"sandbox {backend}{' (default)' if backend == default else ''}"
        if not found["present"]:
            print(f"{title}: not here: {found['missing']}")
            continue
        held = sum(row["held"] for row in found["attempts"])
        print(f"{title}: {held} of {len(found['attempts'])} attempts to break it held")
        for row in found["attempts"]:
            detail = f": {row['detail']}" if row["detail"] else ""
            print(f"  {'held  ' if row['held'] else 'BROKEN'}  {row['name']}{detail}")
    about = report["machine"]
    print(f"processor: {about['cpu']}, {about['threads']} threads")
    print(f"python {about['python']}, {', '.join(f'{name} {version}' for name, version in about['versions'].items())}")
    print(f"GPU: {', '.join(report['gpu']) or 'none'}")
    print(f"GL without a screen: {', '.join(report['gl']) or 'none'}")
    for module, part in report["parts"].items():
        state = "present" if part["present"] else f"missing: pip install 'autotelic[{part['extra']}]'"
        print(f"{WHAT.get(module, module)}: {state}")
    if not report["healthy"]:
        print(f"the default sandbox ({default}) does not hold here: do not play with it")
