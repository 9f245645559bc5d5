"""Where joints must go for the tool to be where it is wanted: damped least squares, one step at a time.

    (JᵀJ + damping + posture) dq = Jᵀ error + posture (home - q)

J has the tool's velocity and, weighted, its turning. Damping keeps steps small where the arm is stretched; posture lets
what the tool leaves free drift home. There is one way for one arm, through MuJoCo, and one for many, through NumPy.
"""

from __future__ import annotations

from math import atan2, cos, sin

import mujoco
import numpy as np

from autotelic.physics.arm import robots

DAMPING, POSTURE = 1e-3, 5e-5
TURN = 0.4  # m: what a radian of error counts for
FASTEST = 4.0  # rad/s that any joint is asked for


class Solver:
    """For one arm: what joints it was told last, and the next."""

    def __init__(self, robot: robots.Robot) -> None:
        self._model = robots.kinematics(robot.name)
        self._data = mujoco.MjData(self._model)
        self._site = self._model.site("tool").id
        size = self._size = len(robot.joints)
        self._home = np.array(robot.home)
        self._low, self._high = self._model.jnt_range[:size].T.copy()
        self._angles = self._data.qpos[:size]
        self._tool, self._frame = self._data.site_xpos[self._site], self._data.site_xmat[self._site]
        self._weights = np.diag([1.0, 1.0, 1.0, TURN, TURN, TURN])
        self._jacobian = np.zeros((6, self._model.nv))
        self._place, self._turn = self._jacobian[:3], self._jacobian[3:]
        self._error, self._step = np.zeros(6), np.zeros(size)
        self._diagonal = (DAMPING + POSTURE) * np.eye(size)
        self.joints = self._home.copy()

    def reset(self, joints: np.ndarray) -> None:
        self.joints[:] = joints

    def pose(self) -> tuple[np.ndarray, float]:
        """Where `joints` put the tool, and its yaw."""
        self._angles[:] = self.joints
        mujoco.mj_kinematics(self._model, self._data)
        return self._tool, atan2(self._frame[3], self._frame[0])

    def step(self, position: np.ndarray, yaw: float, dt: float) -> np.ndarray:
        """Moves `joints` towards this pose of the tool; the step they made."""
        model, data, joints = self._model, self._data, self.joints
        self._angles[:] = joints
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacSite(model, data, self._place, self._turn, self._site)
        error = self._error
        np.subtract(position, self._tool, out=error[:3])
        error[3:] = _turn_error(self._frame, yaw)
        weighted = self._weights @ self._jacobian[:, : self._size]
        matrix = weighted.T @ weighted
        matrix += self._diagonal
        step = self._step
        mujoco.mju_cholFactor(matrix, 0.0)
        mujoco.mju_cholSolve(step, matrix, error @ weighted + POSTURE * (self._home - joints))
        largest = max(map(abs, step.tolist()))
        if largest > FASTEST * dt:
            step *= FASTEST * dt / largest
        step += joints
        np.maximum(step, self._low, out=step)
        np.minimum(step, self._high, out=step)
        step -= joints
        joints += step
        return step


def _turn_error(matrix: np.ndarray, yaw: float) -> tuple[float, float, float]:
    """The rotation vector (times its sine) from a site's frame, nine numbers, to one that is upright and turned by
    `yaw`, weighted: half the sum of the cross products of each axis with where it should be."""
    xx, yx, zx, xy, yy, zy, xz, yz, _ = matrix.tolist()
    across, along = sin(yaw), cos(yaw)
    half = 0.5 * TURN
    return (
        half * (zy - xz * across - yz * along),
        half * (xz * along - yz * across - zx),
        half * (xx * across - xy * along + yx * along + yy * across),
    )


class BatchSolver:
    """The same for many arms, [count, …] each."""

    def __init__(self, robot: robots.Robot) -> None:
        model = robots.kinematics(robot.name)
        size = len(robot.joints)
        self._home = np.array(robot.home)
        self._low, self._high = model.jnt_range[:size].T.copy()
        self._diagonal = (DAMPING + POSTURE) * np.eye(size)
        # From the base to the tool: fixed places and turns, each followed by a joint's axis, or by none at the end.
        self._links: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []
        site = model.site("tool").id
        body = int(model.site_bodyid[site])
        self._links.append((model.site_pos[site].copy(), _matrix(model.site_quat[site]), None))
        while body:
            axis = None
            if model.body_jntnum[body]:
                joint = int(model.body_jntadr[body])
                assert not model.jnt_pos[joint].any(), "joints are at the origin of what they move"
                axis = model.jnt_axis[joint].copy()
            self._links.append((model.body_pos[body].copy(), _matrix(model.body_quat[body]), axis))
            body = int(model.body_parentid[body])
        self._links.reverse()

    def forward(self, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The tool's place [count, 3], its frame [count, 3, 3], and its Jacobian [count, 6, joints]."""
        count, size = joints.shape
        place, frame = np.zeros((count, 3)), np.broadcast_to(np.eye(3), (count, 3, 3))
        origins, axes = np.empty((size, count, 3)), np.empty((size, count, 3))
        cosines, sines = np.cos(joints), np.sin(joints)
        joint = 0
        for offset, turned, axis in self._links:
            place = place + frame @ offset
            frame = frame @ turned
            if axis is None:
                continue
            origins[joint], axes[joint] = place, frame @ axis
            along, around = np.outer(axis, axis), _cross(axis)
            rest = (np.eye(3) - along) * cosines[:, joint, None, None]
            frame = frame @ (along + rest + around * sines[:, joint, None, None])
            joint += 1
        jacobian = np.empty((count, 6, size))
        jacobian[:, :3] = np.cross(axes, place - origins).transpose(1, 2, 0)
        jacobian[:, 3:] = axes.transpose(1, 2, 0)
        return place, frame, jacobian

    def step(
        self,
        joints: np.ndarray,
        position: np.ndarray,
        yaw: np.ndarray,
        dt: float,
        known: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """The step that joints make towards these poses of their tools. `known`: what `forward` said of them, where it
        was asked already; its Jacobian is written to."""
        place, frame, jacobian = known or self.forward(joints)
        error = np.empty((len(joints), 6))
        error[:, :3] = position - place
        across, along = np.sin(yaw), np.cos(yaw)
        error[:, 3] = frame[:, 1, 2] - frame[:, 2, 0] * across - frame[:, 2, 1] * along
        error[:, 4] = frame[:, 2, 0] * along - frame[:, 2, 1] * across - frame[:, 0, 2]
        error[:, 5] = (frame[:, 0, 0] + frame[:, 1, 1]) * across + (frame[:, 0, 1] - frame[:, 1, 0]) * along
        error[:, 3:] *= 0.5 * TURN
        jacobian[:, 3:] *= TURN
        transposed = jacobian.transpose(0, 2, 1)
        wanted = np.einsum("njk,nk->nj", transposed, error) + POSTURE * (self._home - joints)
        step = np.linalg.solve(transposed @ jacobian + self._diagonal, wanted[:, :, None])[:, :, 0]
        largest = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1.0, FASTEST * dt / np.maximum(largest, 1e-12))
        return np.clip(joints + step, self._low, self._high) - joints


def _matrix(quaternion: np.ndarray) -> np.ndarray:
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


def _cross(axis: np.ndarray) -> np.ndarray:
    """The matrix that makes the cross product with an axis."""
    x, y, z = axis
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
