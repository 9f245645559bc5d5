"""Pictures of cells, from a camera that sees the table, the arm and all fixtures; small ones from nearer, where it sees
the gripper and all that it can reach."""

from __future__ import annotations

from copy import copy

import mujoco
import numpy as np

from autotelic.physics.arm.cell import CAMERA, Cell

SHADOWS = 2048  # pixels across of what they are drawn from: more take longer and are not seen
SMALL = 320  # pixels across a picture, below which things would be specks, and shadows hide more than they show
_MIDDLE, _DISTANCE, _AZIMUTH, _ELEVATION = (0.5, 0.0, 0.1), 1.0, 75.0, -35.0  # of the nearer camera: m, degrees
_ROOM = 500  # geoms that can be drawn: several times what a cell has


class Painter:
    """Draws cells, one after the other. They share a context of the graphics library, in which the first picture takes
    as long as dozens more: `mujoco.Renderer` has a new one for each model."""

    def __init__(self) -> None:
        make = getattr(mujoco, "GLContext", None)  # not there where MUJOCO_GL switches pictures off
        if make is None:
            raise RuntimeError("there is no graphics library to draw with")
        self._graphics = make(640, 480)
        self._context: mujoco.MjrContext | None = None
        self._turned: tuple[Cell, int, int] | None = None  # what the context is for
        self._options = mujoco.MjvOption()

    def draw(self, cell: Cell, positions: np.ndarray, width: int, height: int) -> np.ndarray:
        """The cell with everything where `positions`, its qpos, says: uint8 [height, width, 3]."""
        self._graphics.make_current()
        if self._turned != (cell, width, height):
            self._turn_to(cell, width, height)
        model, data, scene, view = self._model, self._data, self._scene, mujoco.MjrRect(0, 0, width, height)
        data.qpos[:] = positions
        mujoco.mj_fwdPosition(model, data)
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(model, data, self._options, None, self._camera, everything, scene)
        mujoco.mjr_render(view, scene, self._context)
        found = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_readPixels(found, None, view, self._context)
        return found[::-1].copy()  # the graphics library counts rows from below

    def _turn_to(self, cell: Cell, width: int, height: int) -> None:
        self._let_go()
        self._model = model = copy(cell.awake)
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        model.vis.quality.shadowsize = SHADOWS
        self._data, self._scene = mujoco.MjData(model), mujoco.MjvScene(model, maxgeom=_ROOM)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = width >= SMALL
        self._camera = _camera(model, near=width < SMALL)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._turned = (cell, width, height)

    def _let_go(self) -> None:
        if self._context is not None:
            self._context.free()
        self._context = self._turned = None

    def close(self) -> None:
        """Lets go of what draws."""
        if self._context is not None:
            self._graphics.make_current()
            self._let_go()
        self._graphics.free()


def _camera(model: mujoco.MjModel, near: bool) -> mujoco.MjvCamera:
    camera = mujoco.MjvCamera()
    if near:
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        camera.lookat[:] = _MIDDLE
        camera.distance, camera.azimuth, camera.elevation = _DISTANCE, _AZIMUTH, _ELEVATION
    else:
        camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, model.camera(CAMERA).id
    return camera
