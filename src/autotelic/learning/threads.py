"""Small networks on several cores: whole pieces of work side by side, where one operation is too small to be shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TypeVar

import torch

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def side_by_side(work: Callable[[_Part], _Result], parts: Iterable[_Part]) -> list[_Result]:
    """What `work` makes of each part, in the order of the parts: as many at a time as torch has threads, one a part."""
    parts, threads = list(parts), torch.get_num_threads()
    if threads == 1 or len(parts) == 1:
        return [work(part) for part in parts]

    def by_itself(part: _Part) -> _Result:
        torch.set_num_threads(1)  # kept for each thread apart, but a new one begins with what was last set anywhere
        return work(part)

    return list(_pool(threads).map(by_itself, parts))


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """This thread works with so many for a while. Threads that share an operation wait for each other at its end: where
    it takes microseconds and something else wants a core, most of the time goes into waiting."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(threads, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def alone() -> AbstractContextManager[None]:
    """This thread works by itself for a while."""
    return at_most(1)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)
