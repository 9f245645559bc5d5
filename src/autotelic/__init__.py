"""Autotelic: models and robots that learn from tasks they set themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotelic.cli.play import new_episodes, new_loop, open_loop

__version__ = "0.1.0"

__all__ = ["__version__", "new_episodes", "new_loop", "open_loop"]


def _avoid_broken_amx() -> None:
    """Some virtual machines show AMX and do not give it: bfloat16 in torch then dies of an illegal instruction. Has to
    be said before torch is loaded, so it stands where every import of this package passes."""
    try:
        shown = "amx_tile" in Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return
    if shown and not _amx_given():
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


def _amx_given() -> bool:
    """Whether the kernel lets this process use AMX: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True).syscall(158, 0x1023, 18) == 0


_avoid_broken_amx()


def __getattr__(name: str) -> Any:
    # Loaded when asked for: whoever wants one part of the package need not wait for all of it.
    if name in ("new_episodes", "new_loop", "open_loop"):
        from autotelic.cli import play

        return getattr(play, name)
    raise AttributeError(f"module 'autotelic' has no attribute '{name}'")
