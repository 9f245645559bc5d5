import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotelic.errors import UserError
from autotelic.runs.checkpoints import CheckpointConfig, Checkpoints

STATE: dict[str, Any] = {
    "weights": {"a": np.arange(12, dtype=np.float32).reshape(3, 4).T, "b": np.array(3.5), "none": np.zeros((0, 2))},
    "counts": [1, 2.5, None, "text", True],
    "pair": (1, (2, "three")),
    "by_step": {1: "one", 2: "two"},
    "dollar": {"$array": "not one"},
    "scalar": np.float16(0.5),
    "generator": {"state": 2**127 + 1},
    "raw": b"\x00\xff",
}

SAVER = """
import sys
from pathlib import Path
import numpy as np
from autotelic.runs.checkpoints import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]), keep=2)
step = (checkpoints.steps() or [0])[-1]
print("ready", flush=True)
while True:
    step += 1
    checkpoints.save(step, {"step": step, "w": np.full(50_000, step)})
"""


def equal(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and bool(np.array_equal(left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return repr(left) == repr(right)


def saved(directory: Path, *steps: int, keep: int = 0) -> Checkpoints:
    checkpoints = Checkpoints(directory / "checkpoints", keep)
    for step in steps:
        checkpoints.save(step, {"step": step, "w": np.full(100, step)})
    return checkpoints


def test_state_comes_back_exactly(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(123, STATE)
    step, state = checkpoints.load()
    assert step == 123
    assert (tmp_path / "step_000123").is_dir()
    assert equal(state, STATE)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(state=st.dictionaries(st.text(max_size=6), plain, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
def test_any_plain_state_comes_back_exactly(tmp_path: Path, state: dict):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, state)
    assert equal(checkpoints.load()[1], state)


def test_state_is_strict_json(tmp_path: Path):
    path = Checkpoints(tmp_path).save(1, {"loss": math.nan, "best": -math.inf})

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    json.loads((path / "state.json").read_text(), parse_constant=refuse)


def test_what_is_not_plain_data_is_refused_by_name(tmp_path: Path):
    with pytest.raises(TypeError, match="/player/thing"):
        Checkpoints(tmp_path).save(1, {"player": {"thing": object()}})
    with pytest.raises(TypeError, match="/objects"):
        Checkpoints(tmp_path).save(1, {"objects": np.array([object()])})
    assert Checkpoints(tmp_path).steps() == []


def test_torch_tensors_come_back_as_tensors(tmp_path: Path):
    torch = pytest.importorskip("torch")
    tied = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"a": tied, "b": tied.T})
    state = checkpoints.load()[1]
    assert torch.equal(state["a"], tied)
    assert torch.equal(state["b"], tied.T)


def test_retention_keeps_the_newest_and_the_best(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(1, 7):
        checkpoints.save(step, {}, best=step == 2)
    assert checkpoints.steps() == [2, 5, 6]
    assert (checkpoints.pointer("latest"), checkpoints.pointer("best")) == (6, 2)


def test_keeping_zero_keeps_all(tmp_path: Path):
    assert saved(tmp_path, *range(1, 8), keep=0).steps() == [1, 2, 3, 4, 5, 6, 7]


def test_saving_a_step_again_takes_the_newer_state(tmp_path: Path):
    checkpoints = saved(tmp_path, 1, 2)
    checkpoints.save(2, {"step": 2, "w": np.full(100, 2)})
    assert checkpoints.load()[1]["step"] == 2
    checkpoints.save(2, {"step": "other"})
    assert checkpoints.load()[1] == {"step": "other"}


@pytest.mark.parametrize("new_is_whole", [True, False])
def test_a_kill_between_the_renames_of_a_replacement_loses_nothing(tmp_path: Path, new_is_whole: bool):
    checkpoints = saved(tmp_path, 1, 2)
    before = checkpoints.load(2)[1]["step"]
    newer = Checkpoints(tmp_path / "newer")
    newer.save(2, {"step": "newer"})
    checkpoints.path(2).rename(checkpoints.directory / ".step_000002.old.aside")
    newer.path(2).rename(checkpoints.directory / ".step_000002.new.aside")
    if not new_is_whole:
        truncate(checkpoints.directory / ".step_000002.new.aside" / "state.json")
    checkpoints.recover()
    assert checkpoints.load()[1]["step"] == ("newer" if new_is_whole else before)
    assert sorted(entry.name for entry in checkpoints.directory.iterdir()) == ["latest", "step_000001", "step_000002"]


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip_a_byte(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("damage", [truncate, flip_a_byte, Path.unlink])
@pytest.mark.parametrize("name", ["arrays.safetensors", "state.json", "manifest.json"])
def test_damage_is_one_line_with_the_file_and_the_last_good_checkpoint(tmp_path: Path, damage: Any, name: str):
    checkpoints = saved(tmp_path, 10, 20)
    path = checkpoints.path(20) / name
    damage(path)
    if name == "manifest.json" and damage is flip_a_byte:
        path.write_bytes(b"{" + path.read_bytes())  # a flip in white space alone would be no damage
    with pytest.raises(UserError) as caught:
        checkpoints.load()
    line = str(caught.value)
    assert str(path) in line
    assert f"resume {tmp_path} step=10 run=NEW" in line
    assert "\n" not in line
    assert checkpoints.load(10)[1]["step"] == 10


def test_no_good_checkpoint_left_is_said(tmp_path: Path):
    checkpoints = saved(tmp_path, 10)
    truncate(checkpoints.path(10) / "state.json")
    with pytest.raises(UserError, match="no checkpoint of this run is whole"):
        checkpoints.load()


def test_a_step_without_a_checkpoint_names_those_there_are(tmp_path: Path):
    with pytest.raises(UserError, match="no checkpoint of step 15; there are: 10, 20"):
        saved(tmp_path, 10, 20).load(15)
    with pytest.raises(UserError, match="no checkpoint yet"):
        Checkpoints(tmp_path / "other").load()


def test_every_checkpoint_is_whole_after_kills_at_any_moment(tmp_path: Path):
    for turn in range(6):
        with subprocess.Popen([sys.executable, "-c", SAVER, str(tmp_path)], stdout=subprocess.PIPE) as saver:
            assert saver.stdout is not None
            saver.stdout.readline()
            time.sleep(0.1 + 0.017 * turn)
            saver.send_signal(signal.SIGKILL)
        checkpoints = Checkpoints(tmp_path, keep=2)
        for step in checkpoints.steps():
            assert checkpoints.load(step)[1]["w"][0] == step
    checkpoints.save(checkpoints.steps()[-1] + 1, {})
    assert not [entry for entry in tmp_path.iterdir() if entry.name.endswith(".aside")]


def test_configuration_is_checked():
    with pytest.raises(UserError, match=r"checkpoint\.every=0"):
        CheckpointConfig(every=0)
