"""Mean and variance of all that was ever seen, without keeping it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from autotelic.learning import parallel

_ROWS = 16384  # looked at at once: bounds the memory for a rollout of any length


def moments(batch: Tensor) -> tuple[float, Tensor, Tensor]:
    """Rows, mean and sum of squared distances from it, in float64, over the rows of a batch [rows, …] and over all
    processes. Distances are taken from a centre near by: the mean of the squares less the square of the mean would
    lose a small spread around a large value to rounding. (torch.var_mean does that too, many times slower.)"""
    count, mean, squares = 0.0, batch.new_zeros((), dtype=torch.float64), batch.new_zeros((), dtype=torch.float64)
    for part in batch.split(_ROWS):
        centre = part.mean(0)
        apart = part - centre
        rest = apart.mean(0).double()  # what rounding left in the centre
        spread = (apart.square_().sum(0).double() - len(part) * rest**2).clamp(min=0.0)
        count, mean, squares = joined_moments(count, mean, squares, len(part), centre.double() + rest, spread)
    if parallel.processes() > 1:
        sums = torch.stack([mean * count, squares + count * mean**2, torch.full_like(mean, count)])
        first, second, number = parallel.total(sums).unbind()
        count, mean = float(number.flatten()[0]), first / number
        squares = (second - count * mean**2).clamp(min=0.0)
    return count, mean, squares


def joined_moments(
    count: float, mean: Tensor, squares: Tensor, more: float, other_mean: Tensor, other_squares: Tensor
) -> tuple[float, Tensor, Tensor]:
    """The moments of two sets together (Chan's rule)."""
    total = count + more
    apart = other_mean - mean
    return (
        total,
        mean + apart * (more / total),
        squares + other_squares + apart**2 * (count * more / total),
    )


class RunningMoments(nn.Module):
    """Running mean and variance, in float64, of numbers of one shape. Before anything was seen: 0 and 1."""

    count: Tensor
    mean: Tensor
    variance: Tensor
    frozen = False  # nothing is taken in any more

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float64))

    @torch.no_grad()
    def add(self, batch: Tensor) -> None:
        """Takes in the rows of a batch [rows, *shape], of all processes."""
        if self.frozen:
            return
        before = float(self.count)
        found = moments(batch)
        count, mean, squares = joined_moments(before, self.mean, self.variance * before, *found)
        self.count.fill_(count)
        self.mean.copy_(mean)
        self.variance.copy_(squares / count)
