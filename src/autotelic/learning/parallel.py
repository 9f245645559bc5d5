"""The processes of data-parallel training (torch.distributed): sums over them, and a first one that the others follow.
With one process nothing of it changes anything."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch import Tensor

from autotelic.errors import UserError

PATIENCE = datetime.timedelta(days=1)  # the others wait while the first measures the policy or writes a checkpoint


def processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """0 in the first process, which alone reads and writes the run."""
    return dist.get_rank() if processes() > 1 else 0


@contextmanager
def joined() -> Iterator[None]:
    """Joins the processes that torchrun started, if it did."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    dist.init_process_group("gloo", timeout=PATIENCE)
    try:
        yield
    except RuntimeError as error:
        if "gloo" not in str(error):
            raise
        raise UserError("another of the processes that learn together has ended; see what it said") from error
    finally:
        dist.destroy_process_group()


def tell(message: Any) -> None:
    """From the first process to all others, which wait for it in `told`."""
    if processes() > 1:
        dist.broadcast_object_list([message])


def told() -> Any:
    """What the first process tells."""
    message = [None]
    dist.broadcast_object_list(message)
    return message[0]


def gathered(part: Any) -> list[Any]:
    """The parts of all processes, in the first one; called by all of them."""
    if processes() == 1:
        return [part]
    parts = [None] * processes() if rank() == 0 else None
    dist.gather_object(part, parts)
    return parts or []


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
