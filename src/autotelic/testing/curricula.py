"""What a curriculum must keep to: a wish a proposal, no chance but the caller's, and all it knows in what it dumps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from autotelic.play.curriculum import Curriculum, Outcome, Pool
from autotelic.testing.saved import through_checkpoint
from autotelic.worlds.base import Task


def check_curriculum(make: Callable[[], Curriculum], outcomes: Sequence[Sequence[Outcome]]) -> None:
    """Tells two of them the same, one of them in two lives; `outcomes` are those of some steps, of one kind or more.

    `make` gives a new one with the same settings each time.
    """
    whole, cut = make(), make()
    kinds = [*dict.fromkeys(outcome.task.kind for step in outcomes for outcome in step), "never attempted"]
    pool = _Known([outcome.task for step in outcomes for outcome in step])
    for number, step in enumerate(outcomes):
        for kind in kinds:
            before = whole.dump()
            asked = _asked(whole, kind, pool)
            assert whole.dump() == before, "only `update` changes a curriculum"
            assert asked == _asked(whole, kind, pool), "seeded"
            assert asked == _asked(cut, kind, pool), "all it knows is in what it dumps"
        figures = whole.update(step, np.random.default_rng(number))
        assert figures == cut.update(step, np.random.default_rng(number)), "seeded"
        assert all(name.partition("/")[0] in kinds for name in figures), "figures are named KIND/NAME"
        state, cut = cut.dump(), make()
        cut.load(through_checkpoint(state))
        assert cut.dump() == whole.dump() == state, "what is loaded is what was dumped"


def _asked(curriculum: Curriculum, kind: str, pool: _Known) -> list[object]:
    """All that it wants, with the promises that hold for any."""
    wishes = curriculum.sample(kind, 5, np.random.default_rng(3))
    assert len(wishes) == 5, "a wish for each proposal"
    assert all(wish.difficulty is None or 0 <= wish.difficulty <= 1 for wish in wishes), "a difficulty is a share"
    assert all(np.isfinite(list(wish.features.values())).all() for wish in wishes), "wanted features are numbers"
    among = pool.of(kind)
    tasks = curriculum.practise(kind, 4, np.random.default_rng(4), cast(Pool, among))
    ids = [task.id for task in tasks]
    assert len(ids) == len(set(ids)) <= 4, "no task twice, and no more than asked for"
    assert set(ids) <= set(among.listed), "practice is of active tasks of the kind"
    assert curriculum.sample(kind, 0, np.random.default_rng(3)) == [], "nothing wanted of no proposals"
    return [*((wish.difficulty, dict(wish.features)) for wish in wishes), ids]


class _Known:
    """A pool that needs no archive."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.listed = {task.id: task for task in tasks}

    def of(self, kind: str) -> _Known:
        return _Known([task for task in self.listed.values() if task.kind == kind])

    def __len__(self) -> int:
        return len(self.listed)

    def draw(self, count: int) -> list[Task]:
        return list(self.listed.values())[:count]

    def active(self, ids: Sequence[str]) -> list[str]:
        return [id for id in ids if id in self.listed]

    def tasks(self, ids: Sequence[str]) -> list[Task]:
        return [self.listed[id] for id in ids]
