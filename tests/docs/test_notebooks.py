"""Notebooks run from top to bottom, and are kept without what they once showed."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

# What makes a notebook small enough for a test.
SMALLER = {
    "player.base_steps=100": "player.base_steps=3",
    '"player=tiny",': '"player=tiny", "player.width=16", "player.heads=2", "player.layers=1", "player.max_tokens=24",',
    "loop.batch=48": "loop.batch=8",
    "loop.proposals=24": "loop.proposals=4",
    "// 10)": "// 30)",
}
# Code cells in order, in one namespace, as a kernel runs them; pictures are drawn and not shown.
DRIVER = """
import json, sys
names = {"__name__": "__main__"}
for number, cell in enumerate(json.load(open(sys.argv[1], encoding="utf-8"))["cells"]):
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
"""


def smaller(notebook: Path, folder: Path) -> Path:
    """A copy that does the same with smaller numbers."""
    text = notebook.read_text("utf-8")
    for large, small in SMALLER.items():
        large, small = (json.dumps(part)[1:-1] for part in (large, small))  # as they stand in the file
        assert large in text, f"{notebook.name} has no {large}"
        text = text.replace(large, small)
    copy = folder / notebook.name
    copy.write_text(text, "utf-8")
    return copy


def run(commands: Any, notebook: Path, folder: Path) -> Any:
    env = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    return commands.run([str(notebook)], folder, env, program=DRIVER)


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs(notebook, tmp_path, commands):
    pytest.importorskip("torch")
    ran = run(commands, smaller(notebook, tmp_path), tmp_path)
    assert ran.code == 0, ran.out[-1500:] + ran.err[-1500:]
    assert (tmp_path / "runs").is_dir()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_kept_without_outputs(notebook):
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count") is not None] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_links_of_a_notebook_lead_somewhere(notebook):
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    said = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for target in re.findall(r"\]\(([^)#]+)\)", said):
        assert target.startswith("https://") or (notebook.parent / target).exists(), target


def test_a_notebook_whose_cell_fails_is_caught(tmp_path, commands):
    cells = [{"cell_type": "code", "source": ["a = 1\n", "b = 2"]}, {"cell_type": "code", "source": ["assert a == b"]}]
    (tmp_path / "bad.ipynb").write_text(json.dumps({"cells": cells}))
    ran = run(commands, tmp_path / "bad.ipynb", tmp_path)
    assert ran.code != 0
    assert "cell 1" in ran.err
