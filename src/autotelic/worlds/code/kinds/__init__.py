"""The kinds of the code world, by name. One file each; another package adds one in the group `autotelic.kinds`."""

from __future__ import annotations

from collections.abc import Sequence

from autotelic import registry
from autotelic.worlds.code.kinds.abduction import Abduction
from autotelic.worlds.code.kinds.base import CodeKind, KindConfig
from autotelic.worlds.code.kinds.deduction import Deduction
from autotelic.worlds.code.kinds.induction import Induction

BUILT_IN: dict[str, type[CodeKind]] = {kind.name: kind for kind in (Deduction, Abduction, Induction)}


def load_kinds(names: Sequence[str], config: KindConfig) -> dict[str, CodeKind]:
    """The kinds of these names, each building only on others that are there."""
    kinds = {name: (BUILT_IN.get(name) or registry.get("kinds", name))(config) for name in names}
    for kind in kinds.values():
        kind.builds_on = tuple(name for name in type(kind).builds_on if name in kinds)
    return kinds
