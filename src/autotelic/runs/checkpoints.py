"""Checkpoints: a directory a step, complete or absent, checked when read. Arrays as safetensors, the rest as JSON.

    checkpoints/step_000123/state.json            plain data, with places for the arrays
                            arrays.safetensors    numpy arrays
                            tensors.safetensors   torch tensors, if there are any
                            manifest.json         size and SHA-256 of each
    checkpoints/latest, best                      the name of a step's directory, in a one-line file

A step's directory is renamed into place once all of it is on disk; that rename is the moment a checkpoint exists.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from autotelic.errors import UserError
from autotelic.runs.files import named_errors, sha256, sync_directory, sync_file, write_atomic

FORMAT = 1
_STEP = re.compile(r"step_(\d{6,})")


@dataclass
class CheckpointConfig:
    """How often a run is made safe, and how much of that is kept."""

    every: int = 10  # steps between checkpoints
    keep: int = 3  # newest checkpoints kept; the best one is kept beside them. 0 keeps all

    def __post_init__(self) -> None:
        if self.every < 1:
            raise UserError(f"checkpoint.every={self.every}: must be at least 1")
        if self.keep < 0:
            raise UserError(f"checkpoint.keep={self.keep}: must be 0 (keep all) or more")


class _Packer:
    """Takes nested data apart: arrays and tensors to one side, plain JSON to the other, nothing lost in between."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.tensors: dict[str, Any] = {}

    def pack(self, value: Any, path: str) -> Any:
        if value is None or isinstance(value, bool | str) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, np.generic):
            return {"$scalar": self._keep(np.asarray(value), path)}
        if isinstance(value, np.ndarray):
            return {"$array": self._keep(value, path)}
        torch = sys.modules.get("torch")  # a tensor cannot exist before torch is imported
        if torch is not None and isinstance(value, torch.Tensor):
            self.tensors[path] = value
            return {"$tensor": path}
        if isinstance(value, bytes):
            return {"$bytes": value.hex()}
        if isinstance(value, tuple):
            return {"$tuple": [self.pack(item, f"{path}/{i}") for i, item in enumerate(value)]}
        if isinstance(value, list):
            return [self.pack(item, f"{path}/{i}") for i, item in enumerate(value)]
        if isinstance(value, Mapping):
            return self._pack_mapping(value, path)
        raise TypeError(f"checkpoint state {path or '/'}: {type(value).__name__} is not plain data, array or tensor")

    def _pack_mapping(self, value: Mapping[Any, Any], path: str) -> Any:
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: self.pack(item, f"{path}/{key}") for key, item in value.items()}
        pairs = enumerate(value.items())
        return {"$items": [[self.pack(k, f"{path}/{i}k"), self.pack(v, f"{path}/{i}v")] for i, (k, v) in pairs]}

    def _keep(self, array: np.ndarray, path: str) -> str:
        if array.dtype.kind not in "biuf":
            raise TypeError(f"checkpoint state {path}: arrays of {array.dtype} cannot be stored")
        # safetensors writes the memory as it lies: contiguous and in the machine's byte order.
        self.arrays[path] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        return path


def _unpack(value: Any, arrays: Mapping[str, np.ndarray], tensors: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, arrays, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag == "$float":
            return float(content)
        if tag == "$array":
            return arrays[content]
        if tag == "$scalar":
            return arrays[content][()]
        if tag == "$tensor":
            return tensors[content]
        if tag == "$bytes":
            return bytes.fromhex(content)
        if tag == "$tuple":
            return tuple(_unpack(item, arrays, tensors) for item in content)
        if tag == "$items":
            return {_unpack(k, arrays, tensors): _unpack(v, arrays, tensors) for k, v in content}
    return {key: _unpack(item, arrays, tensors) for key, item in value.items()}


@contextlib.contextmanager
def _os_errors() -> Iterator[None]:
    """safetensors reports a full disk in an error of its own, with the number in its text."""
    try:
        yield
    except SafetensorError as error:
        if found := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
        raise


class _DamagedError(Exception):
    """What is wrong, and with which file."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.directory = directory
        self.keep = keep

    def path(self, step: int) -> Path:
        return self.directory / f"step_{step:06d}"

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, oldest first."""
        if not self.directory.is_dir():
            return []
        found = (_STEP.fullmatch(entry.name) for entry in self.directory.iterdir() if entry.is_dir())
        return sorted(int(match[1]) for match in found if match)

    def save(self, step: int, state: Mapping[str, Any], *, best: bool = False) -> Path:
        """Writes a checkpoint and makes it the latest. Saving the same state of a step again changes nothing."""
        packer = _Packer()
        plain = packer.pack(state, "")
        final = self.path(step)
        aside = self._aside(step, "new")
        with named_errors(final):
            self.directory.mkdir(parents=True, exist_ok=True)
            self.recover()
            aside.mkdir()
            try:
                self._write(aside, step, plain, packer)
                if self._same(aside, final):
                    shutil.rmtree(aside)
                else:
                    if final.exists():
                        os.rename(final, self._aside(step, "old"))  # a kill here is repaired by `recover`
                    os.rename(aside, final)
                sync_directory(self.directory)
            except BaseException:
                self.recover()
                raise
        self._point("latest", final.name)
        if best:
            self._point("best", final.name)
        self._retire()
        return final

    def _same(self, written: Path, final: Path) -> bool:
        """Whether the step is already there, whole, with this very content."""
        manifests = (written / "manifest.json", final / "manifest.json")
        return _whole(final, _step(final.name)) and manifests[0].read_bytes() == manifests[1].read_bytes()

    def _write(self, directory: Path, step: int, plain: Any, packer: _Packer) -> None:
        (directory / "state.json").write_text(json.dumps(plain, allow_nan=False))
        if packer.arrays:
            with _os_errors():
                safetensors_numpy.save_file(packer.arrays, directory / "arrays.safetensors")
        if packer.tensors:
            from safetensors import torch as safetensors_torch

            # Each its own memory: tied weights would otherwise be refused.
            tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in packer.tensors.items()}
            with _os_errors():
                safetensors_torch.save_file(tensors, directory / "tensors.safetensors")
        files = {}
        for path in sorted(directory.iterdir()):
            sync_file(path)
            files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
        manifest = directory / "manifest.json"
        manifest.write_text(json.dumps({"format": FORMAT, "step": step, "files": files}, indent=1))
        sync_file(manifest)
        sync_directory(directory)

    def load(self, step: int | None = None) -> tuple[int, dict[str, Any]]:
        """The step and state of a checkpoint, by default the newest. Damage is one line that names a good one."""
        step = self.require(step)
        return step, self._read(step)

    def require(self, step: int | None = None) -> int:
        """The step (by default the newest) if its checkpoint is there and whole."""
        steps = self.steps()
        if step is None:
            if not steps:
                raise UserError(f"{self.directory}: no checkpoint yet; start the run again under a new name")
            step = steps[-1]
        elif step not in steps:
            there = ", ".join(map(str, steps)) or "none"
            raise UserError(f"{self.directory}: no checkpoint of step {step}; there are: {there}")
        try:
            self.check(step)
        except _DamagedError as damage:
            raise UserError(f"{damage}; {self._way_out()}") from damage
        return step

    def _read(self, step: int) -> dict[str, Any]:
        directory = self.path(step)
        files = {path.name for path in directory.iterdir()}
        arrays: dict[str, np.ndarray] = {}
        tensors: dict[str, Any] = {}
        if "arrays.safetensors" in files:
            arrays = safetensors_numpy.load_file(directory / "arrays.safetensors")
        if "tensors.safetensors" in files:
            from safetensors import torch as safetensors_torch

            tensors = safetensors_torch.load_file(directory / "tensors.safetensors")
        return _unpack(json.loads((directory / "state.json").read_text()), arrays, tensors)

    def check(self, step: int) -> None:
        """Compares every file with the manifest, and raises at the first that differs."""
        _check(self.path(step), step)

    def last_good(self) -> int | None:
        return next((step for step in reversed(self.steps()) if _whole(self.path(step), step)), None)

    def _way_out(self) -> str:
        good = self.last_good()
        if good is None:
            return "no checkpoint of this run is whole; start it again under a new name"
        return f"the last good checkpoint is step {good}: autotelic resume {self.directory.parent} step={good} run=NEW"

    def pointer(self, name: str) -> int | None:
        """The step `latest` or `best` names, or None."""
        try:
            match = _STEP.fullmatch((self.directory / name).read_text().strip())
        except (OSError, UnicodeDecodeError):
            return None
        return int(match[1]) if match else None

    def _point(self, name: str, target: str) -> None:
        write_atomic(self.directory / name, target + "\n")

    def _retire(self) -> None:
        if self.keep == 0:
            return
        best = self.pointer("best")
        for step in self.steps()[: -self.keep]:
            if step != best:
                # Renamed first: a kill half-way must not leave a step's directory with files missing.
                gone = self._aside(step, "gone")
                os.rename(self.path(step), gone)
                shutil.rmtree(gone)

    def _aside(self, step: int, why: str) -> Path:
        return self.directory / f".{self.path(step).name}.{why}.aside"

    def recover(self) -> None:
        """Puts back a step whose replacement was cut short, and removes what a killed process left half-written or
        half-deleted. Only the holder of the run's lock may call it."""
        for old in self.directory.glob(".step_*.old.aside"):
            step = _step(old.name.split(".")[1])
            final = self.path(step)
            for candidate in (self._aside(step, "new"), old):
                if not final.exists() and _whole(candidate, step):
                    os.rename(candidate, final)
                    sync_directory(self.directory)
        for left in self.directory.glob(".*.aside"):
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def _step(name: str) -> int:
    return int(name.removeprefix("step_"))


def _whole(directory: Path, step: int) -> bool:
    try:
        _check(directory, step)
    except _DamagedError:
        return False
    return True


def _check(directory: Path, step: int) -> None:
    path = directory / "manifest.json"
    try:
        manifest = json.loads(path.read_bytes())
        files = {str(name): (int(entry["bytes"]), entry["sha256"]) for name, entry in manifest["files"].items()}
        written = (manifest["format"], manifest["step"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _DamagedError(path, "damaged or missing") from error
    if written[0] != FORMAT:
        raise _DamagedError(path, f"written in format {written[0]}, this version reads {FORMAT}")
    if written[1] != step:
        raise _DamagedError(path, f"is of step {written[1]}")
    for name, (size, digest) in files.items():
        path = directory / name
        try:
            if path.stat().st_size != size:
                raise _DamagedError(path, f"damaged: {path.stat().st_size} bytes, {size} were written")
            if sha256(path) != digest:
                raise _DamagedError(path, "damaged: its SHA-256 is not the one written")
        except OSError as error:
            raise _DamagedError(path, f"cannot be read: {error.strerror}") from error
    if "state.json" not in files:
        raise _DamagedError(directory / "manifest.json", "names no state.json")
