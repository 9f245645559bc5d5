"""Autotelic: models and robots that learn from tasks they set themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotelic.cli.play import new_loop, open_loop

__version__ = "0.1.0"

__all__ = ["__version__", "new_loop", "open_loop"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: whoever wants one part of the package need not wait for all of it.
    if name in ("new_loop", "open_loop"):
        from autotelic.cli import play

        return getattr(play, name)
    raise AttributeError(f"module 'autotelic' has no attribute '{name}'")
