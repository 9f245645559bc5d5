"""What was saved: a state as it comes back, and whether two runs hold the same."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autotelic.play.archive import Archive
from autotelic.runs.checkpoints import Checkpoints
from autotelic.runs.directory import Run


def through_checkpoint(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A state as it comes back from the disk."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder))
        checkpoints.save(0, state)
        return checkpoints.load(0)[1]


TIMINGS = ("time/", "steps_per_second")  # how names of figures begin that say how long something took


def run_digest(path: str | Path) -> str:
    """One hash over all that a run holds, except timings: equal for a resumed and an uninterrupted run."""
    with Run.open(path, readonly=True) as run:
        step, state = run.checkpoints.load()
        figures = [
            {name: value for name, value in line.items() if not name.startswith(TIMINGS)} for line in run.metrics.read()
        ]
        plain = {name: value for name, value in state.items() if name != "timings"}
        played = None
        if run.archive.exists():  # only self-play has one
            with Archive.open(run.archive, readonly=True) as archive:
                played = archive.digest()
        parts = [played, figures, step, json.dumps(plain, sort_keys=True, default=_array_digest)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _array_digest(value: object) -> str:
    array = np.asarray(value)
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()
