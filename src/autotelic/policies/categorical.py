"""Actions that are choices: one of a few, or several such choices that are independent of each other."""

from __future__ import annotations

import torch
from gymnasium import spaces
from torch import Tensor, nn

from autotelic.errors import UserError
from autotelic.policies.networks import Layer


def log_softmax(scores: Tensor, sizes: list[int]) -> Tensor:
    """Log-probabilities [batch, sum of sizes] of choices that stand side by side, each normalised by itself."""
    if len(sizes) == 1:
        return scores.log_softmax(-1)
    return torch.cat([part.log_softmax(-1) for part in scores.split(sizes, -1)], -1)


def entropy(log_probs: Tensor) -> Tensor:
    """[batch]: of independent choices it is the sum of theirs."""
    return -(log_probs.exp() * log_probs).sum(-1)


def kl(old_log_probs: Tensor, log_probs: Tensor) -> Tensor:
    """KL(old || new) [batch], a sum over independent choices too."""
    return (old_log_probs.exp() * (old_log_probs - log_probs)).sum(-1)


class Categorical(nn.Module):
    """A head: features to the log-probabilities of choices.

    What was chosen is int64 [batch, choices], counted from 0; the environment is given it as its space counts.
    """

    first: Tensor
    start: Tensor

    def __init__(self, features: int, space: spaces.Discrete | spaces.MultiDiscrete, *, orthogonal: bool):
        super().__init__()
        self.single = isinstance(space, spaces.Discrete)
        if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim > 1:
            raise UserError(f"actions of shape {space.shape} are not supported: MultiDiscrete must have one dimension")
        self.sizes = sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.tolist()
        self.scores = Layer(features, sum(sizes), 0.01, orthogonal)
        starts = torch.as_tensor(space.start, dtype=torch.int64).reshape(-1)
        self.register_buffer("start", starts, persistent=False)
        self.register_buffer("first", torch.tensor([0, *sizes[:-1]]).cumsum(0), persistent=False)

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        return {"log_probs": log_softmax(self.scores(features), self.sizes)}

    def sample(self, parameters: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        log_probs = parameters["log_probs"]
        # The largest of log p - log(exponential noise) is a draw from p.
        return self._largest(log_probs - torch.empty_like(log_probs).exponential_(generator=generator).log_())

    def mode(self, parameters: dict[str, Tensor]) -> Tensor:
        return self._largest(parameters["log_probs"])

    def _largest(self, scores: Tensor) -> Tensor:
        if len(self.sizes) == 1:
            return scores.argmax(-1, keepdim=True)
        return torch.stack([part.argmax(-1) for part in scores.split(self.sizes, -1)], -1)

    def action(self, chosen: Tensor) -> Tensor:
        shifted = chosen + self.start
        return shifted.squeeze(-1) if self.single else shifted

    def log_prob(self, parameters: dict[str, Tensor], chosen: Tensor) -> Tensor:
        return parameters["log_probs"].gather(-1, chosen + self.first).sum(-1)

    def entropy(self, parameters: dict[str, Tensor]) -> Tensor:
        return entropy(parameters["log_probs"])

    def kl(self, old: dict[str, Tensor], new: dict[str, Tensor]) -> Tensor:
        return kl(old["log_probs"], new["log_probs"])

    def by_row(self, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
        """Parameters that are all [batch, …]."""
        return parameters
