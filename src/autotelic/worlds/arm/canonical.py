"""What tasks ask, in one form: equal for tasks that are the same but for how they are written.

Whoever has practised such a twin of a held-out task has practised that task. So goals are compared by what they say,
and numbers coarsely. What a thing weighs, how rough it is and which robot moves it hardly ever change what is to be
done: they are left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from autotelic.runs.files import content_address
from autotelic.worlds.arm.places import FIXED, SIZES

CONVERSE = {"right_of": "left_of", "in_front_of": "behind"}
STEP = 0.05  # metres that places are rounded to: spots are in the middle of what is rounded to them
TURN = 0.4  # radians, as well
FINE = 5  # parts of its usual length that a size is rounded to: what is less than a tenth away is usual
MANY = 4  # predicates, beyond which not all parts of a goal are told apart

Rows = Sequence[Sequence[str]]  # predicates, as specs have them


def goal(rows: Iterable[Sequence[str]]) -> Rows:
    """What a goal says: a stack in pairs, one of each two converse relations, everything once and in order.

    Of converse relations each wants another of the two things to stand on the table, and whoever can bring about one
    can bring about the other.
    """
    said: set[tuple[str, ...]] = set()
    for name, *args in rows:
        if name == "stacked":
            said |= {("on", *pair) for pair in itertools.pairwise(args)}
        elif name in CONVERSE:
            said.add((CONVERSE[name], *reversed(args)))
        else:
            said.add((name, *args))
    return sorted(said)


def parts(rows: Iterable[Sequence[str]]) -> list[Rows]:
    """All goals that are reached where this one is: what it says, and any part of that."""
    whole = goal(rows)
    counts = sorted({*range(1, min(len(whole), MANY) + 1), len(whole)})
    return [part for count in counts for part in itertools.combinations(whole, count)]


def key(
    setting: Mapping[str, Any], rows: Rows, program: str = "", *, placed: bool = False, colors: bool = False
) -> str:
    """Equal where the same goal is asked of the same scene and canonical program. With or without the places of things;
    without `colors`, things may have those of others, all through."""
    things = {f"{row['color']}_{row['shape']}": _thing(row, placed) for row in setting["objects"]}
    fixtures = sorted([each["kind"], *_coarse(each["at"], FIXED[each["kind"]])] for each in setting["fixtures"])
    rest = [fixtures, setting.get("marks", {})]
    if colors:
        return content_address("arm-asked", things, rest, program, goal(rows))
    said, mentioned = goal(rows), _mentioned(program, things)
    new = {name: f"#{at}" for at, name in enumerate(mentioned)}
    text = re.sub(_QUOTED, lambda found: f'"{new.get(found[1], found[1])}"', program)
    form = min(_named([*mentioned, *order], things, said) for order in _orders(mentioned, things))
    return content_address("arm-asked", form, rest, text)


_QUOTED = re.compile(r'"(\w+)"')


def _mentioned(program: str, things: Mapping[str, Any]) -> list[str]:
    """The things that a program names, in its order: that is the same whatever they are called."""
    return list(dict.fromkeys(name for name in _QUOTED.findall(program) if name in things))


def _orders(mentioned: Sequence[str], things: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    return itertools.permutations(name for name in things if name not in mentioned)


def _named(names: Sequence[str], things: Mapping[str, Any], said: Rows) -> tuple[list[Any], list[list[str]]]:
    """Things and what is said of them, with numbers for names."""
    number = {name: f"#{at}" for at, name in enumerate(names)}
    return [things[name] for name in names], sorted([number.get(word, word) for word in row] for row in said)


def _thing(row: Mapping[str, Any], placed: bool) -> list[Any]:
    usual = SIZES[row["shape"]]
    size = [round(FINE * length / other) for length, other in zip(row["size"], usual, strict=True)]
    return [row["shape"], *size, *(_coarse(row["at"]) if placed else ())]


def _coarse(place: Sequence[float], middle: Sequence[float] = (0.0, 0.0, 0.0)) -> list[int]:
    steps = (STEP, STEP, TURN)
    return [round((value - other) / step) for value, other, step in zip(place, middle, steps, strict=True)]
