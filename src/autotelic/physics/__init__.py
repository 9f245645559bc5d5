"""Where MuJoCo draws is decided here, because every import of it in this package passes here first: MuJoCo reads
MUJOCO_GL once, when it is loaded."""

from __future__ import annotations

import ctypes
import os
import sys

from autotelic.errors import UserError

# Ways to draw without a screen: the library each needs, and Debian's package of it.
OFFSCREEN = {"egl": ("libEGL.so.1", "libegl1"), "osmesa": ("libOSMesa.so.8", "libosmesa6")}


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def choose_gl() -> None:
    """Without a screen, the first way to draw whose library is here, unless MUJOCO_GL says otherwise. Where there is
    none it stays open: simulations need no pictures, while MuJoCo does not even load if a way is named that is not
    there."""
    if sys.platform != "linux":
        return
    named = os.environ.get("MUJOCO_GL", "").strip().lower()
    if named in OFFSCREEN:
        library, package = OFFSCREEN[named]
        if not _loads(library):
            raise UserError(f"MUJOCO_GL={named}: {library} is not installed: apt install {package}, or unset MUJOCO_GL")
    elif not named and not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        found = next((way for way, (library, _) in OFFSCREEN.items() if _loads(library)), None)
        if found is not None:
            os.environ["MUJOCO_GL"] = found


choose_gl()
