"""What is seen of humanoids: a snapshot of the moment, and the vectors that policies and critics get of it.

Vectors on the ground are complex numbers, x + iy: a product turns, a conjugate turns back. In the heading frame x
points to where the torso faces, however it leans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from autotelic.physics.humanoid.robot import HEIGHT, MIRROR_JOINTS, MIRROR_SIGNS

Mirror = tuple[np.ndarray, np.ndarray]  # of a vector v, left and right exchanged: v[..., order] * signs

# A full cycle of the gait (left step, right step) in control steps, and how much of it each foot stands: with 0.8 s and
# 0.6 that is 2.5 steps a second, both feet down for a fifth of the time, never neither.
CYCLE, STANCE_SHARE, CLEARANCE = 48, 0.6, 0.08  # the last: metres that a swinging foot is lifted


def _gait() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each step of the cycle, and in one more row of standing: the clock [2], whether each foot should be down [2],
    how high it should be [2]."""
    phase = np.arange(CYCLE)[:, None] / CYCLE + [0.0, 0.5]  # of the left and the right foot
    swung = np.clip((phase % 1.0 - STANCE_SHARE) / (1.0 - STANCE_SHARE), 0.0, 1.0)
    turn = 2.0 * np.pi * phase[:, 0]
    clock = np.vstack([np.stack([np.sin(turn), np.cos(turn)], axis=1), np.zeros(2)])
    stance = np.vstack([phase % 1.0 < STANCE_SHARE, np.ones(2, bool)])
    return clock, stance, np.vstack([CLEARANCE * np.sin(np.pi * swung), np.zeros(2)])


CLOCK, STANCE, LIFT = _gait()


def _quadratic() -> np.ndarray:
    """Of the products of a quaternion's parts with each other, w x y z: gravity's direction seen from the body (3), and
    on the ground, the direction the body faces (2)."""
    matrix = np.zeros((4, 4, 5))
    w, x, y, z = range(4)
    matrix[w, y, 0], matrix[x, z, 0] = 2, -2
    matrix[w, x, 1], matrix[y, z, 1] = -2, -2
    matrix[x, x, 2] = matrix[y, y, 2] = 1
    matrix[w, w, 2] = matrix[z, z, 2] = -1
    matrix[w, w, 3] = matrix[x, x, 3] = 1
    matrix[y, y, 3] = matrix[z, z, 3] = -1
    matrix[w, z, 4] = matrix[x, y, 4] = 2
    return matrix.reshape(16, 5)


_QUADRATIC = _quadratic()


def plane(vectors: np.ndarray) -> np.ndarray:
    """[…, 2] as complex numbers […]."""
    return np.ascontiguousarray(vectors).view(np.complex128)[..., 0]


def pair(numbers: np.ndarray) -> np.ndarray:
    """Complex numbers [n] as [n, 2]."""
    return numbers[:, None].view(np.float64)


def attitude(quaternion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gravity's direction in the body's frame [n, 3], and the heading on the ground, of length 1 [n] (complex)."""
    # All products in one call and all sums in another: a call costs more than the numbers in it.
    seen = (quaternion[:, :, None] * quaternion[:, None]).reshape(-1, 16) @ _QUADRATIC
    facing = plane(seen[:, 3:])
    facing += 1e-300  # a torso that faces straight up or down has no heading: it is given one, where 0 / 0 would be NaN
    return seen[:, :3], facing / np.abs(facing)


@dataclass(slots=True)
class Snapshot:
    """Humanoids at one moment; a row each. Rewards and observations are functions of it."""

    angles: np.ndarray  # [n, 12] from the standing pose
    speeds: np.ndarray  # [n, 12]
    torques: np.ndarray  # [n, 12], Nm
    action: np.ndarray  # [n, 12], the last, within [-1, 1]
    action_before: np.ndarray  # [n, 12]
    gravity: np.ndarray  # [n, 3], its direction in the torso's frame
    rates: np.ndarray  # [n, 3], angular velocity in the torso's frame
    heading: np.ndarray  # [n] complex, in the world
    height: np.ndarray  # [n] of the torso's origin
    velocity: np.ndarray  # [n] complex, in the heading frame
    climb: np.ndarray  # [n], vertical velocity
    touch: np.ndarray  # [n, 4], N: left foot, right foot, torso, head
    contact: np.ndarray  # bool [n, 2], of the feet
    touchdown: np.ndarray  # bool [n, 2]: those that were not in contact one control step before
    air: np.ndarray  # [n, 2], s since a foot left the ground, at touchdown since it had left it
    soles: np.ndarray  # [n, 2, 3], where they are in the world
    sole_velocities: np.ndarray  # [n, 2, 3]
    centre_of_mass: np.ndarray  # [n, 3], in the world
    speed: np.ndarray  # [n], m/s that are wanted
    error: np.ndarray  # [n] complex, of length 1: where the goal is, in the heading frame
    still: np.ndarray  # bool [n]: it is to stand
    moved: np.ndarray  # [n], m in the goal's direction in this control step
    gait: np.ndarray  # int [n], a row of CLOCK, STANCE and LIFT
    rays: np.ndarray  # [n, rays], m to what stands in the way; [n, 0] where nothing can
    fallen: np.ndarray  # bool [n]
    friction: np.ndarray  # [n], of the feet
    mass: np.ndarray  # [n], of the whole, as a multiple of the model's
    pushed: np.ndarray  # [n] complex, m/s of the last push, fading, in the world


class Field(NamedTuple):
    """A part of an observation. `order` and `signs` mirror it; `noise` is the randomisation's name for its noise."""

    name: str
    size: int
    read: Callable[[Snapshot], np.ndarray]  # [n, size], or [n] where the size is 1
    scale: float = 1.0
    signs: np.ndarray | Sequence[float] = (1.0,)
    order: np.ndarray | Sequence[int] | None = None
    noise: str = ""


def _velocity(now: Snapshot) -> np.ndarray:
    return np.column_stack([pair(now.velocity), now.climb])


def _command(now: Snapshot) -> np.ndarray:
    return np.column_stack([now.speed, pair(now.error)])


def _roll_pitch_yaw(now: Snapshot) -> np.ndarray:
    x, y, z = now.gravity.T
    return np.stack([np.arctan2(-y, -z), np.arcsin(np.clip(x, -1.0, 1.0)), np.angle(now.heading)], axis=1)


def _centre_of_mass(now: Snapshot) -> np.ndarray:
    """From the middle between the soles, in the heading frame."""
    offset = now.centre_of_mass - now.soles.mean(axis=1)
    return np.column_stack([pair(plane(offset[:, :2]) * now.heading.conj()), offset[:, 2]])


def _pushed(now: Snapshot) -> np.ndarray:
    return pair(now.pushed * now.heading.conj())


_JOINT_ANGLES = Field("joint_angles", 12, lambda now: now.angles, 1.0, MIRROR_SIGNS, MIRROR_JOINTS, "joint_angles")
_JOINT_VELOCITIES = Field(
    "joint_velocities", 12, lambda now: now.speeds, 0.1, MIRROR_SIGNS, MIRROR_JOINTS, "joint_velocities"
)
FULL = (
    _JOINT_ANGLES,
    _JOINT_VELOCITIES,
    Field("gravity", 3, lambda now: now.gravity, 1.0, (1, -1, 1), noise="gravity"),
    Field("angular_velocity", 3, lambda now: now.rates, 0.25, (-1, 1, -1), noise="angular_velocity"),
    Field("velocity", 3, _velocity, 1.0, (1, -1, 1), noise="velocity"),
    Field("height", 1, lambda now: now.height - HEIGHT, 5.0),
    Field("last_action", 12, lambda now: now.action, 1.0, MIRROR_SIGNS, MIRROR_JOINTS),
    Field("command", 3, _command, 1.0, (1, 1, -1)),  # speed; cosine and sine of the angle to the goal
    Field("gait_clock", 2, lambda now: CLOCK[now.gait], 1.0, (-1, -1)),  # sine, cosine; zeros when it is to stand
    Field("foot_contacts", 2, lambda now: now.contact, 1.0, (1, 1), (1, 0)),
)
COMPACT32 = (
    _JOINT_ANGLES,
    _JOINT_VELOCITIES,
    Field("roll_pitch_yaw", 3, _roll_pitch_yaw, 1.0, (-1, 1, -1), noise="gravity"),
    Field("centre_of_mass", 3, _centre_of_mass, 1.0, (1, -1, 1)),
    # The direction to the goal in the heading frame, as long as the speed that is wanted.
    Field("goal", 2, lambda now: pair(now.error * now.speed), 1.0, (1, -1)),
)
PRIVILEGED = (  # what only a simulator knows
    Field("foot_forces", 2, lambda now: now.touch[:, :2], 0.002, (1, 1), (1, 0)),
    Field("friction", 1, lambda now: now.friction),
    Field("push", 2, _pushed, 1.0, (1, -1)),
    Field("mass", 1, lambda now: now.mass - 1.0, 10.0),
)
CHOICES: dict[str, tuple[Field, ...]] = {"full": FULL, "compact32": COMPACT32}


def rays_field(count: int, reach: float) -> Field:
    """Rays from the right to the left, 1 where there is nothing within reach."""
    return Field("rays", count, lambda now: now.rays, 1.0 / reach, np.ones(count), range(count)[::-1])


class Layout:
    """Fields one after the other in one vector."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        ends = np.cumsum([field.size for field in fields])
        self.size = int(ends[-1])
        self._parts = [slice(int(end) - field.size, int(end)) for field, end in zip(fields, ends, strict=True)]
        self._scale = self._spread(lambda field: field.scale)

    def _spread(self, value: Callable[[Field], float]) -> np.ndarray:
        return np.concatenate([np.full(field.size, value(field), np.float32) for field in self.fields])

    def read(self, now: Snapshot) -> np.ndarray:
        """float32 [n, size], scaled."""
        rows = np.empty((len(now.height), self.size), np.float32)
        for field, part in zip(self.fields, self._parts, strict=True):
            rows[:, part] = field.read(now) if field.size > 1 else field.read(now)[:, None]
        rows *= self._scale
        return rows

    def noise(self, levels: Mapping[str, float]) -> np.ndarray:
        """float32 [size]: the noise of each number, scaled as it is."""
        return self._spread(lambda field: levels.get(field.noise, 0.0)) * self._scale

    def mirror(self) -> Mirror:
        order = [
            part.start + at
            for field, part in zip(self.fields, self._parts, strict=True)
            for at in (range(field.size) if field.order is None else field.order)
        ]
        return np.array(order), np.concatenate([np.asarray(field.signs, np.float32) for field in self.fields])

    def describe(self) -> list[list[str | int | float]]:
        """Name, size and scale of each field."""
        return [[field.name, field.size, field.scale] for field in self.fields]
