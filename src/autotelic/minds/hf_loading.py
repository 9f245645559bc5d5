"""Finds and reads the files of a Hugging Face model. Everything that can be wrong with them is one line here.

A hub name is looked for in the hub's cache first, so that what was downloaded once needs no network; HF_HOME says where
the cache is, HF_HUB_OFFLINE=1 forbids downloads. Models are then read from disk alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before the hub's library is imported, which reads it then.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import huggingface_hub
import torch
import transformers
from huggingface_hub import errors
from safetensors import SafetensorError

from autotelic.errors import UserError
from autotelic.minds import smollm2
from autotelic.minds.memory import out_of_memory

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
# What transformers raises for files that are absent, cut short, or say something else than they should.
_REFUSALS = (
    *(OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, ImportError),
    *(SafetensorError, errors.StrictDataclassError),
)
_HUB_ERRORS = (
    *(errors.XetDownloadError, errors.RevisionResolutionError, errors.EntryNotFoundError),
    errors.HTTPError,  # pyright: ignore[reportPrivateImportUsage]
)
# The older weights (*.bin) are pickles, which can run code.
_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]


@dataclass(frozen=True)
class Source:
    """A model: what the user calls it, and the directory its files are in."""

    name: str
    directory: Path
    local: bool  # the user's own directory, not a copy of what the hub has


def find(name: str, revision: str | None = None) -> Source:
    """The directory a name stands for; what is not on disk is fetched from the hub."""
    if name.startswith("wheel:"):
        return Source(name, smollm2.converted(smollm2.inside_wheel(name.removeprefix("wheel:"))), True)
    path = Path(name).expanduser()
    if path.is_file():
        if path.suffix == ".gguf":
            return Source(name, smollm2.converted(path), True)
        raise UserError(f"model {name}: a file; give the directory it is in, or a GGUF file")
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UserError(f"model {name}: the directory has no config.json: not a model, or not all of one")
        return Source(name, path, True)
    if name.startswith(("/", "./", "../", "~")) or not _HUB_NAME.fullmatch(name):
        raise UserError(f"model {name}: no such directory")
    return Source(name, _from_hub(name, revision), False)


def _from_hub(name: str, revision: str | None) -> Path:
    """The files of a hub name. Those that are in the cache are not asked for again, a half download goes on."""

    def fetch(**options: Any) -> Path:
        # Files at the top only: folders hold other formats of the same weights.
        return Path(
            huggingface_hub.snapshot_download(
                name, revision=revision, allow_patterns=_FILES, ignore_patterns=["*/*", "consolidated*"], **options
            )
        )

    try:
        try:
            cached = fetch(local_files_only=True)
            if _whole(Source(name, cached, False)):
                return cached
        except OSError:
            pass  # not in the cache
        return fetch()
    except (OSError, ValueError, *_HUB_ERRORS) as error:
        if isinstance(error, errors.GatedRepoError):
            raise UserError(
                f"model {name}: its owner wants to be asked first: see its page, then hf auth login"
            ) from error
        if isinstance(error, errors.RepositoryNotFoundError | errors.RevisionNotFoundError):
            raise UserError(
                f"model {name}: the hub has no such model or revision, and no such directory is here"
            ) from error
        raise UserError(
            f"model {name}: not all of it is in the cache, and the hub cannot be reached ({_reason(error)}): check the "
            "network, or give a local directory; what was downloaded is kept"
        ) from error


def _whole(source: Source) -> bool:
    """Whether a model's files are all there. The cache shows a file only when it was downloaded to its end."""
    index = source.directory / "model.safetensors.index.json"
    weights = ["model.safetensors"]
    if index.is_file():
        try:
            weights = sorted(map(str, set(json.loads(index.read_text())["weight_map"].values())))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            # It is in the cache, so asking the hub would not bring it again.
            raise UserError(
                f"model {source.name}: cannot read its weights: {index.name} is damaged{_advice(source)}"
            ) from error
    names = ("config.json", "tokenizer_config.json", *weights)
    return all((source.directory / name).is_file() for name in names)


def device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(name)
    except RuntimeError:
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise UserError(f"device is {name!r}; known are auto, cpu, cuda and cuda:N")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise UserError(f"device is {name!r}, but torch sees {torch.cuda.device_count()} GPUs here; use auto or cpu")
    return found


def dtype(name: str, where: torch.device) -> torch.dtype:
    if name != "auto":
        return getattr(torch, name)
    if where.type == "cpu":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16


def config(source: Source) -> Any:
    """What the model is, without dropout: what was sampled and what is scored must be one distribution."""
    found = _load(source, "config.json", transformers.AutoConfig.from_pretrained)
    for key, value in found.to_dict().items():
        if "drop" in key and isinstance(value, float):
            setattr(found, key, 0.0)
    return found


def tokenizer(source: Source) -> Any:
    found = _load(source, "tokenizer", transformers.AutoTokenizer.from_pretrained)
    # Special tokens alone are control tokens. Else those that the chat template names were too, and where <think> is
    # one of them, a prompt that asks for <think> would not mean it.
    found.chat_control_tokens = []
    # Without its files transformers makes an empty tokenizer of the right class rather than none.
    if not found("a b c", add_special_tokens=False)["input_ids"]:
        raise UserError(f"model {source.name}: its tokenizer is missing or empty{_advice(source)}")
    return found


def model(source: Source, settings: Any, stored: torch.dtype) -> Any:
    """The model with all of its weights."""

    def weights(directory: str, **options: Any) -> Any:
        return transformers.AutoModelForCausalLM.from_pretrained(
            directory,
            config=settings,
            dtype=stored,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **options,
        )

    found, report = _load(source, "weights", weights)
    for keys, problem in ((report["missing_keys"], "missing"), (report["mismatched_keys"], "of another shape")):
        if keys:
            # transformers would go on with random numbers in their place.
            first = min(key if isinstance(key, str) else key[0] for key in keys)
            more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            raise UserError(
                f"model {source.name}: its weights are not those of its config.json: {first}{more} {problem}"
                f"{_advice(source)}"
            )
    return found


def check_vocabulary(source: Source, found: Any, words: Any) -> None:
    """Refuses a tokenizer that writes tokens the model does not have."""
    have, need = found.get_input_embeddings().weight.shape[0], max(words.get_vocab().values()) + 1
    if need > have:
        raise UserError(
            f"model {source.name}: its tokenizer has {need} tokens, its weights {have}: they do not belong together"
        )


def _load(source: Source, part: str, read: Callable[..., Any]) -> Any:
    """One part of a model."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()  # reading from disk takes seconds
    try:
        return read(str(source.directory), trust_remote_code=False, local_files_only=True)
    except _REFUSALS as error:
        if out_of_memory(error):
            raise
        broken = isinstance(error, OSError | json.JSONDecodeError | SafetensorError)
        advice = _advice(source) if broken else ""
        raise UserError(f"model {source.name}: cannot read its {part}: {_reason(error)}{advice}") from error
    finally:
        transformers.utils.logging.enable_progress_bar()


def _reason(error: BaseException) -> str:
    """The first sentence of what is often a page."""
    said = " ".join(str(error).split()) or type(error).__name__
    if "trust_remote_code" in said:
        return "it comes with code of its own, which is never run here"
    if isinstance(error, SafetensorError):
        return f"a file is damaged or cut short ({said})"
    if isinstance(error, KeyError):
        return f"{said} is not there"
    first = said.partition(". ")[0].rstrip(".")
    return first if len(first) <= 200 else f"{first[:200]} …"


def _advice(source: Source) -> str:
    if source.local:
        return "; copy or download the model again"
    return f"; remove {source.directory.parent.parent}, and it is downloaded again"
