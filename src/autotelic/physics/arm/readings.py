"""What is known of a cell at one moment, and what contacts mean."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from autotelic.physics.arm.cell import LEFT, RIGHT, Cell

Point = tuple[float, float, float]
Pose = tuple[float, float, float, float, float, float, float]  # position, and w, x, y, z of a unit quaternion


@dataclass(frozen=True)
class Readings:
    """All that is known of a cell at one moment, as plain data."""

    time: float  # s since the reset
    tool: Point  # between the fingertips
    yaw: float
    joints: tuple[float, ...]
    fingers: float  # m between them
    poses: dict[str, Pose]  # of things and fixtures
    held: tuple[str, ...]  # things between both fingers that nothing else carries
    # Pairs of names, each in order. Beside things and fixtures there are table, floor, gripper (its fingers) and robot
    # (the rest of it).
    touching: tuple[tuple[str, str], ...]
    opening: float | None  # of the drawer, 0 to 1; None where there is none
    pressed: bool | None  # whether the button has been since the reset

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def touching(cell: Cell, contacts: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of names; what touches itself does not count."""
    owners = cell.owners
    pairs = {tuple(sorted((owners[one], owners[other]))) for one, other in contacts.geom.tolist()}
    return tuple(sorted((one, other) for one, other in pairs if one != other))


def held(cell: Cell, contacts: Any, qpos: np.ndarray) -> tuple[str, ...]:
    """Things that both fingers touch and that nothing carries: a box on another that is held is not, nor does it keep
    the other from being held."""
    fingers: dict[str, set[int]] = {}
    carried: set[str] = set()
    for pair, height in zip(contacts.geom.tolist(), contacts.pos[:, 2].tolist(), strict=True):
        for one, other in (pair, pair[::-1]):
            name = cell.owners[one]
            if name not in cell.things:
                continue
            kind = int(cell.classes[other])
            if kind in (LEFT, RIGHT):
                fingers.setdefault(name, set()).add(kind)
            elif height < qpos[cell.things[name] + 2]:
                carried.add(name)  # touched below its middle
    return tuple(name for name in cell.things if len(fingers.get(name, ())) == 2 and name not in carried)
