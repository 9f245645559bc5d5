"""Running out of memory, said in one line that names the keys to lower."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autotelic.errors import UserError

# torch reports the processor's memory in a plain RuntimeError; only its text tells it from others.
_SAID = ("DefaultCPUAllocator", "not enough memory", "can't allocate memory", "CUDA out of memory")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on a GPU or off it."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID)


@contextmanager
def memory_errors(doing: str, *keys: str, of: object = None) -> Iterator[None]:
    """Turns running out of memory in the block into one line. `keys` are settings that make what it does smaller; with
    `of`, a mind's configuration, only those that it has are named."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        known = [key for key in keys if of is None or hasattr(of, key)]
        lower = f": lower {' or '.join(known)}" if known else ""
        raise UserError(f"out of memory while {doing}{lower}") from error
