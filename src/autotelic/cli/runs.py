"""autotelic runs: the runs under a root, with their headline figures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autotelic.cli.arguments import add_json, figure, measured, pairs, print_json, print_table
from autotelic.errors import UserError
from autotelic.runs.directory import Run, holder, listing

EPILOG = "root=DIR   where run directories are (default: runs)\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="see below")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    root = Path(pairs(arguments.overrides, ("root",)).get("root", "runs"))
    found = [summary(path) for path in listing(root)]
    if arguments.json:
        print_json({"root": str(root), "runs": found})
    elif not found:
        print(f"no runs in {root}")
    else:
        columns = ("run", "verb", "seed", "step", "minutes", "state", "measured")
        rows = [
            (
                str(row["run"]),
                *(figure(row.get(name)) for name in ("verb", "seed", "step", "minutes", "state")),
                measured(row.get("result") or {}),
            )
            for row in found
        ]
        print_table("", columns, rows)
    return 0


def summary(path: Path) -> dict[str, Any]:
    """One run in short. A damaged one is listed as such: it must not hide the others."""
    try:
        with Run.open(path, readonly=True) as directory:
            result = directory.result() or {}
            step = directory.checkpoints.pointer("latest")
            pid = holder(path)
            state = (
                f"running ({pid})" if pid is not None else "finished" if result.get("finished") is True else "stopped"
            )
            meta = directory.meta
    except UserError as error:
        return {"run": path.name, "state": "damaged", "problem": str(error)}
    return {
        "run": path.name,
        "verb": meta.get("verb"),
        "seed": meta.get("seed"),
        "step": step,
        "minutes": result.get("minutes"),
        "state": state,
        "result": result or None,
    }
