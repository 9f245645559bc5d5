"""Base weights: what a tiny mind knows before it plays. Trained once on babble and kept in the user's cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn import functional

from autotelic.learning.muon import Muon
from autotelic.minds.tiny.network import Network
from autotelic.minds.tiny.vocabulary import END, PAD, Vocabulary

Babble = Callable[[np.random.Generator, int], list[tuple[str, str]]]  # so many prompts with replies

BATCH = 64  # texts an update
_LR, _ADAM_LR = 0.02, 0.003


def optimizers(network: Network, lr: float, adam_lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the blocks, Adam for the rest."""
    inside = {id(weight) for weight in network.blocks.parameters() if weight.dim() == 2}
    matrices = [weight for weight in network.parameters() if id(weight) in inside]
    others = [weight for weight in network.parameters() if id(weight) not in inside]
    return [Muon(matrices, lr), torch.optim.Adam(others, adam_lr, betas=(0.9, 0.98))]


def train_base(
    network: Network,
    vocabulary: Vocabulary,
    babble: Babble,
    steps: int,
    tell: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Next-token prediction on whole texts, the prompts as well as the replies."""
    rng = np.random.default_rng(0)
    parts = optimizers(network, _LR, _ADAM_LR)
    first = [part.param_groups[0]["lr"] for part in parts]
    for step in range(steps):
        rate = min(1.0, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * step / steps))
        for part, lr in zip(parts, first, strict=True):
            part.param_groups[0]["lr"] = lr * rate
            part.zero_grad()
        loss = _loss(network, _texts(vocabulary, babble(rng, BATCH)))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for part in parts:
            part.step()
        tell(step + 1, loss.item())


def _texts(vocabulary: Vocabulary, pairs: Sequence[tuple[str, str]]) -> torch.Tensor:
    rows = [[*vocabulary.encode(prompt + reply), END] for prompt, reply in pairs]
    table = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(table)


def _loss(network: Network, ids: torch.Tensor) -> torch.Tensor:
    hidden, _ = network.read(ids[:, :-1])
    known = ids[:, 1:] != PAD
    return functional.cross_entropy(network.logits(hidden[known]), ids[:, 1:][known])
