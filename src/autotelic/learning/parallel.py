"""Sums over the processes of data-parallel training (torch.distributed). With one process they change nothing."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor


def processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def total(tensor: Tensor) -> Tensor:
    """The sum over all processes, in place."""
    if processes() > 1:
        dist.all_reduce(tensor)
    return tensor


def mean(tensor: Tensor) -> Tensor:
    """The mean over all processes, in place."""
    return total(tensor).div_(processes()) if processes() > 1 else tensor


def largest(tensor: Tensor) -> Tensor:
    """The maximum over all processes, in place."""
    if processes() > 1:
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor
