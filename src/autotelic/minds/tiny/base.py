"""Base weights: what a tiny mind knows before it plays. Trained once on babble and kept in the user's cache."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch.nn import functional

from autotelic.errors import UserError
from autotelic.learning import muon, optimizers
from autotelic.learning.threads import alone
from autotelic.minds.base import Babble
from autotelic.minds.tiny.network import Network
from autotelic.minds.tiny.vocabulary import END, PAD, Vocabulary, padded
from autotelic.runs.files import cache_directory, content_address, write_atomic
from autotelic.runs.progress import Display

BATCH = 64  # texts an update
_LR, _ADAM_LR = 0.02, 0.003


def base_weights(make: Callable[[], Network], vocabulary: Vocabulary, babble: Babble, steps: int) -> Network:
    """A network with base weights, from the cache if they are there and whole, else trained and kept there."""
    network = make()
    # What the weights depend on: the shape, this code, and what the babble says.
    shapes = {name: list(weight.shape) for name, weight in network.state_dict().items()}
    folder = Path(__file__).parent
    files = [folder / f"{name}.py" for name in ("base", "network", "vocabulary")]
    files += [Path(muon.__file__), Path(optimizers.__file__)]
    code = [file.read_text(encoding="utf-8") for file in files]
    heard = babble(np.random.default_rng(1), 1024)
    form = shapes, network.heads, network.loops
    identity = content_address(torch.__version__, form, vocabulary.tokens, code, heard, steps)
    path = cache_directory() / "minds" / f"tiny-{identity}.safetensors"
    if path.is_file():
        try:
            network.load_state_dict(load_file(path))
            return network
        except (OSError, SafetensorError, RuntimeError):
            pass  # cut short or damaged: made again
    train_base(network, vocabulary, babble, steps)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, save(network.state_dict()))
    except (OSError, UserError) as error:
        logging.getLogger(__name__).warning("base weights are not kept: %s", error)
    return network


def train_base(
    network: Network,
    vocabulary: Vocabulary,
    babble: Babble,
    steps: int,
) -> None:
    """Next-token prediction on whole texts, the prompts as well as the replies."""
    rng = np.random.default_rng(0)
    matrices, others = network.matrices()
    parts = [muon.Muon(matrices, _LR), optimizers.Adam(others, _ADAM_LR, betas=(0.9, 0.98))]
    first = [part.param_groups[0]["lr"] for part in parts]
    with alone(), Display("base weights, trained once", steps) as display:
        for step in range(steps):
            rate = min(1.0, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * step / steps))
            for part, lr in zip(parts, first, strict=True):
                part.param_groups[0]["lr"] = lr * rate
                part.zero_grad()
            loss = _loss(network, vocabulary, babble(rng, BATCH))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            for part in parts:
                part.step()
            display.update(step + 1, {"loss": loss.item()})


def _loss(network: Network, vocabulary: Vocabulary, pairs: Sequence[tuple[str, str]]) -> torch.Tensor:
    ids, lengths = padded([[*vocabulary.encode(prompt + reply), END] for prompt, reply in pairs])
    hidden, _ = network.read(ids[:, :-1], lengths - 1)
    known = ids[:, 1:] != PAD
    return functional.cross_entropy(network.logits(hidden[known]), ids[:, 1:][known])
