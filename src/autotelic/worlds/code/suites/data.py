"""Data files inside installed packages, read without importing the package."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import zlib
from pathlib import Path
from typing import Any

from autotelic import registry
from autotelic.errors import UserError
from autotelic.runs.files import named_errors


def read_rows(module: str, file: str, sha256: str, release: str, what: str) -> list[dict[str, Any]]:
    """The rows of a compressed file of JSON lines in a package. Only the very file that is known is read: another one
    would be another suite, whose figures compare with nothing."""
    found = importlib.util.find_spec(module)  # looks, but does not import
    if found is None or not found.submodule_search_locations:
        raise registry.missing(module, registry.EXTRAS[module], what)
    path = Path(found.submodule_search_locations[0]) / file
    with named_errors(path):
        raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise UserError(f"{path}: not the file of {release}, which {what} is made from: pip install {release}")
    try:
        return [json.loads(line) for line in gzip.decompress(raw).split(b"\n") if line.strip()]
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise UserError(f"{path}: damaged: {error}") from error
