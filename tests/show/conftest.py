"""Runs to report on, made with the real run directory and the real archive: no world, no sandbox."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autotelic.play.archive import Archive
from autotelic.play.player import Sample
from autotelic.runs.directory import Run
from autotelic.runs.files import content_address
from autotelic.worlds.base import Rejection, Task, Verdict
from autotelic.worlds.code.sandbox import values

KINDS = ("deduction", "abduction", "induction")
MakeRun = Callable[..., Path]


def task(kind: str, program: str, at: int) -> Task:
    spec = {"program": program}
    if kind == "induction":
        spec |= {
            "inputs": [values.encode((n, at)) for n in range(4)],
            "outputs": [values.encode(n + at) for n in range(4)],
        }
        spec |= {"shown": 2, "message": "a sum"}
    else:
        spec |= {"input": values.encode((at, "x")), "output": values.encode([at, (1.5, None)])}
    return Task(
        content_address(kind, program, at), "code", kind, spec, {"depth": 1.0 + at % 4, "operations": 2.0 + at % 7}
    )


def figures(rng: np.random.Generator, step: int, steps: int) -> dict[str, float]:
    progress = step / max(steps, 1)
    found: dict[str, float] = {}
    for at, kind in enumerate(KINDS):
        valid = min(1.0, 0.45 + 0.3 * progress + 0.05 * at + 0.08 * rng.standard_normal())
        found |= {
            f"propose/{kind}/valid_share": valid,
            f"propose/{kind}/duplicate_share": 0.1 * rng.random(),
            f"propose/{kind}/rejected/format": float(rng.integers(1, 4)),
            f"propose/{kind}/rejected/syntax": float(rng.integers(1, 3)),
            f"propose/{kind}/rejected/exception": float(rng.integers(0, 4)),
            f"propose/{kind}/feature/depth": 1 + 2 * progress + 0.2 * rng.random(),
            f"propose/{kind}/feature/operations": 2 + 5 * progress + rng.random(),
            f"archive/{kind}/active": 64.0 + 9 * step,
        }
        if step:
            solved = max(0.0, 0.1 * at + 0.5 * progress + 0.07 * rng.standard_normal())
            found |= {
                f"solve/{kind}/solve_rate": solved,
                f"solve/{kind}/evidence_share": 0.97 + 0.02 * rng.random(),
                f"solve/{kind}/learnability": 0.3 * solved,
                f"solve/{kind}/new_tasks": float(rng.integers(4, 12)),
                f"solve/{kind}/outcome/correct": 128 * solved,
                f"solve/{kind}/outcome/wrong": 100 * (1 - solved),
                f"solve/{kind}/outcome/format": 20 * (1 - progress),
                f"solve/{kind}/reward": solved - 0.5,
                f"propose/{kind}/reward": 0.3 * solved - 0.2,
            }
    phases = {"propose": 0.1, "admit": 0.3, "attempt": 0.15, "judge": 0.5, "learn": 0.02, "archive": 0.05}
    found |= {f"time/{name}": spent * (1 + 0.2 * rng.random()) for name, spent in phases.items()}
    found |= {f"time/judge/{kind}": 0.2 for kind in KINDS}
    found |= {f"cheating/{name}": 0.0 for name in ("forged_results", "false_claims", "escapes_attempted")}
    found["cheating/forbidden_calls"] = float(rng.integers(0, 3))
    return found


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    def make(
        steps: int = 6,
        *,
        name: str = "a-run",
        tasks: int = 4,
        attempts: int = 3,
        program: str = "def f(a, b):\n    return [a, (1.5, None)]",
        answer: str = "<think></think><answer>[0, (1.5, None)]</answer>",
        reason: str = "IndexError: list index out of range",
        result: bool = True,
        config: dict | None = None,
    ) -> Path:
        """A run of some steps, each with some tasks a kind, all of them attempted, and some rejections."""
        rng = np.random.default_rng(1)
        run = Run.create(tmp_path, name, config or {"seed": 0, "world": {"name": "code"}}, verb="play", seed=0)
        with run, Archive.create(run.archive) as archive:
            for step in range(steps):
                run.metrics.write(step, figures(rng, step, steps))
                with archive.transaction():
                    fill(archive, rng, step, tasks, attempts, program, answer, reason)
            if result:
                heldout = {kind: {"before": 0.02, "after": 0.3 + 0.1 * at, "n": 300} for at, kind in enumerate(KINDS)}
                run.write_result(
                    {"verb": "play", "seed": 0, "steps": steps - 1, "minutes": 1.25, "finished": True}
                    | {"world": "code", "heldout": heldout, "archive": archive.counts()}
                    | {"cheating": {"forbidden_calls": 5}}
                )
        return run.path

    return make


def fill(
    archive: Archive, rng: np.random.Generator, step: int, tasks: int, n: int, program: str, answer: str, reason: str
) -> None:
    known = [row.task.id for row in archive.tasks(limit=6)]
    new = [task(kind, program, step * tasks + at) for kind in KINDS for at in range(tasks)]
    proposals = [Sample("propose", item.kind, f"```python\n{program}\n```\n```input\n{item.id}\n```") for item in new]
    rows = archive.add_samples(step, proposals, [0.25] * len(new), [known] * len(new))
    archive.add_tasks(step, new, rows)
    refused = [Sample("propose", kind, f"{program} ```") for kind in KINDS]
    rows = archive.add_samples(step, refused, [-0.5] * len(KINDS))
    outcome = ("format", "exception", "forbidden")[step % 3]
    archive.add_rejections(step, [Rejection(kind, outcome, reason) for kind in KINDS], rows)
    asked = [item for item in new for _ in range(n)]
    texts = [f"{answer} {int(rng.integers(3))}" for _ in asked]
    samples = [Sample("solve", item.kind, text, item.id) for item, text in zip(asked, texts, strict=True)]
    hits = rng.random(len(asked)) < 0.4
    rows = archive.add_samples(step, samples, [1.0 if hit else -0.5 for hit in hits])
    verdicts = [
        Verdict(bool(hit), "correct" if hit else "wrong", float(hit), detail=reason, version="1", seed=step)
        for hit in hits
    ]
    archive.add_verdicts(step, verdicts, [item.id for item in asked], rows)
