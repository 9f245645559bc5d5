"""The kinds of the arm world, by name. One file each."""

from __future__ import annotations

from collections.abc import Sequence

from autotelic.errors import UserError
from autotelic.registry import nearest
from autotelic.worlds.arm.kinds.abduction import Abduction
from autotelic.worlds.arm.kinds.base import ArmKind, KindConfig
from autotelic.worlds.arm.kinds.deduction import Deduction
from autotelic.worlds.arm.kinds.induction import Induction
from autotelic.worlds.arm.skills import Skills

BUILT_IN: dict[str, type[ArmKind]] = {kind.name: kind for kind in (Deduction, Abduction, Induction)}


def load_kinds(names: Sequence[str], config: KindConfig, skills: Skills | None = None) -> dict[str, ArmKind]:
    """The kinds, which share what is known to work."""
    shared = skills or Skills()
    for name in names:
        if name not in BUILT_IN:
            raise UserError(f"world.kinds: no kind '{name}' in the arm world: {nearest(name, list(BUILT_IN))}")
    return {name: BUILT_IN[name](config, shared) for name in names}
