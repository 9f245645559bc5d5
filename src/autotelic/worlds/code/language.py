"""A small language inside Python: what players without a big model write, and what the held-out suite is made of.

Every program is real Python, run by the real sandbox. It has one parameter `x`, variables `y z w`, loop variable `i`,
constants 0 to 9 and the letters a to f, and one fixed layout, so that a vocabulary of some fifty words and the numbers
spells all of it. Four types: int, bool, list (of ints), str. See docs/language.md.

It is small on purpose: a mind that starts from nothing needs thousands of right answers for each operation there is,
and it finds them by guessing.

Random programs are typed and bounded while they are built: each value carries an interval (of the int, or of the
length and the items), and an operation that could fail or grow beyond the bounds is not chosen. Each program is a
chain from `x` to the result, so its depth (see measure.py) is the depth asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from autotelic.worlds.code import measure, programs

TYPES = ("int", "list", "str", "bool")
INPUT_TYPES = ("int", "list", "str")  # a bool has too few values to ask anything about
_TAKEN = ("int", *INPUT_TYPES)  # by random programs: every other one takes an int
LETTERS = "abcdef"
VARIABLES = "yzw"
MIN_INT, MAX_INT = 0, 9  # of inputs
MAX_ITEM = 5  # of list items in inputs
MAX_LENGTH = 4  # of inputs
BOUND = 20  # on ints in between
LENGTH_BOUND = 8  # on lists and strings in between

# fmt: off
# Every program and value of the language is made of these and of numbers, cut greedily, the longest first.
WORDS = (
    "def f(x):\n    return ", "def f(x):\n    ", "\n    ", "\n        ", "return ", "if ", "else:", " if ", " else ",
    "for i in ", " for i in ", " in ", "not ", " = ", " + ", " - ", " * ", " % ", " < ", " > ", "len(", "sum(", "max(",
    "min(", "sorted(", "(", ")", "[", "]", "[::-1]", "[:", ":]", ":", ", ", "[i + ", "x", *VARIABLES, "i", "'", "True",
    "False", *LETTERS,
)
# fmt: on


_LOOSE, _SUM, _PRODUCT, _ATOM = range(4)  # comparisons and choices, + -, * %, names and calls


class Chance(Protocol):
    """What is asked of a random generator: two of the methods of numpy's."""

    def random(self) -> float: ...

    def integers(self, low: int, high: int, /) -> Any: ...  # from low up to, not including, high


class Written(NamedTuple):
    """A program with the type it takes and the type it gives."""

    program: str
    takes: str
    gives: str


@dataclass(frozen=True)
class _Value:
    """An expression under construction. For list and str, `low` and `high` bound the length, `items` the items."""

    text: str
    type: str
    low: int = 0
    high: int = 0
    items: tuple[int, int] = (0, 0)
    binds: int = _LOOSE  # how tightly its text holds together

    def __str__(self) -> str:
        return self.inside(_ATOM)

    def inside(self, operation: int) -> str:
        """As the left operand of an operation that binds so tightly."""
        return self.text if self.binds >= operation else f"({self.text})"

    @property
    def atom(self) -> bool:
        return self.binds == _ATOM


@lru_cache(maxsize=16384)
def depth(program: str) -> int:
    """Operations on the longest path from input to output."""
    return measure.depth(programs.parse(program))


# --- values ---------------------------------------------------------------------------------------------------------


def random_value(rng: Chance, type_name: str) -> Any:
    """A value of a type, as inputs are."""
    if type_name == "int":
        return int(rng.integers(MIN_INT, MAX_INT + 1))
    if type_name == "bool":
        return bool(rng.integers(0, 2))
    length = int(rng.integers(1, MAX_LENGTH + 1))
    if type_name == "list":
        return [int(rng.integers(0, MAX_ITEM + 1)) for _ in range(length)]
    if type_name == "str":
        return "".join(LETTERS[int(rng.integers(0, len(LETTERS)))] for _ in range(length))
    raise ValueError(f"no type {type_name!r}: one of {', '.join(TYPES)}")


def random_output(rng: Chance, type_name: str) -> Any:
    """A well-typed guess at an output: operations lead further than inputs go."""
    if type_name == "int":
        return int(rng.integers(-BOUND // 2, BOUND - 4))
    if type_name == "bool":
        return bool(rng.integers(0, 2))
    length = int(rng.integers(0, MAX_LENGTH + 3))
    if type_name == "list":
        return [int(rng.integers(0, 2 * MAX_ITEM)) for _ in range(length)]
    return "".join(LETTERS[int(rng.integers(0, len(LETTERS)))] for _ in range(length))


def random_input(rng: Chance, type_name: str) -> tuple[Any]:
    """The arguments of one call."""
    return (random_value(rng, type_name),)


def distinct_inputs(rng: Chance, type_name: str, count: int) -> list[tuple[Any]]:
    """Different arguments, as many as asked for or as the type has within reach."""
    found: dict[str, tuple[Any]] = {}
    for _ in range(20 * count):
        arguments = random_input(rng, type_name)
        found.setdefault(repr(arguments), arguments)
        if len(found) == count:
            break
    return list(found.values())


def type_of(value: Any) -> str | None:
    """The type of a value, None if it has none in this language."""
    name = type(value).__name__
    if name == "list":
        return "list" if all(type(item) is int for item in value) else None
    return name if name in TYPES else None


# --- programs -------------------------------------------------------------------------------------------------------


def random_program(
    rng: Chance, depth: int, takes: str | None = None, gives: str | None = None, tries: int = 200
) -> Written:
    """A random program of a depth from 1, with the types asked for where that is possible."""
    written = None
    for _ in range(tries):
        written = _Writer(rng, takes or _TAKEN[int(rng.integers(0, len(_TAKEN)))]).write(depth)
        if written is not None and (gives is None or written.gives == gives):
            return written
    if written is None:
        raise ValueError(f"no program of depth {depth} takes {takes} in {tries} tries")
    return written


class _Writer:
    """Builds one program: a chain of operations, some bound to variables, some in loops and branches."""

    def __init__(self, rng: Chance, takes: str) -> None:
        self.rng = rng
        self.takes = takes
        self.lines: list[str] = []
        self.free = list(VARIABLES)
        bounds = {
            "int": _Value("x", "int", MIN_INT, MAX_INT),
            "bool": _Value("x", "bool"),
            "list": _Value("x", "list", 1, MAX_LENGTH, (0, MAX_ITEM)),
            "str": _Value("x", "str", 1, MAX_LENGTH),
        }
        self.value = replace(bounds[takes], binds=_ATOM)

    def write(self, depth: int) -> Written | None:
        left = depth
        while left:
            options = [step for step in _STEPS[self.value.type] if step.cost <= left]
            result, step = None, None
            for _ in range(20):
                step = self.weighted(options)
                result = step.make(self, self.value)
                if result is not None and _bounded(result):
                    break
                result = None
            if result is None or step is None:
                return None
            self.value = result
            left -= step.cost
            if left and self.free and not self.value.atom and self.rng.random() < 0.4:
                self.bind()
        body = "".join(f"    {line}\n" for line in self.lines)
        return Written(f"def f(x):\n{body}    return {self.value.text}", self.takes, self.value.type)

    def bind(self) -> None:
        name = self.free.pop(0)
        self.lines.append(f"{name} = {self.value.text}")
        self.value = replace(self.value, text=name, binds=_ATOM)

    def digit(self, low: int = 0, high: int = 9) -> int:
        return int(self.rng.integers(low, high + 1))

    def letter(self) -> str:
        return f"'{LETTERS[int(self.rng.integers(0, len(LETTERS)))]}'"

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(0, len(options)))]

    def weighted(self, options: Sequence[_Step]) -> _Step:
        left = self.rng.random() * sum(step.weight for step in options)
        for step in options:
            left -= step.weight
            if left < 0:
                return step
        return options[-1]


def _bounded(value: _Value) -> bool:
    if value.type == "int":
        return -BOUND <= value.low <= value.high <= BOUND
    if value.type == "bool":
        return True
    return value.high <= LENGTH_BOUND and value.high > 0 and -BOUND <= value.items[0] <= value.items[1] <= BOUND


_Make = Callable[[_Writer, _Value], "_Value | None"]


class _Step(NamedTuple):
    make: _Make
    cost: int  # what it adds to the depth
    weight: float


def _int(text: str, *ends: int, binds: int = _ATOM) -> _Value:
    return _Value(text, "int", min(ends), max(ends), binds=binds)


def _add(w: _Writer, v: _Value) -> _Value:
    c, sign = w.digit(1, 5), w.pick((1, -1))
    return _int(f"{v.inside(_SUM)} {'+' if sign > 0 else '-'} {c}", v.low + sign * c, v.high + sign * c, binds=_SUM)


def _from(w: _Writer, v: _Value) -> _Value:
    c = w.digit(5, 9)
    return _int(f"{c} - {v.inside(_PRODUCT)}", c - v.low, c - v.high, binds=_SUM)


def _double(w: _Writer, v: _Value) -> _Value:
    return _int(f"{v.inside(_PRODUCT)} * 2", v.low * 2, v.high * 2, binds=_PRODUCT)


def _modulo(w: _Writer, v: _Value) -> _Value | None:
    c = w.digit(2, 5)
    return _int(f"{v.inside(_PRODUCT)} % {c}", 0, c - 1, binds=_PRODUCT) if v.high - v.low >= c else None


def _compare(w: _Writer, v: _Value) -> _Value | None:
    c = w.digit()
    return _Value(f"{v.inside(_SUM)} {w.pick('<>')} {c}", "bool") if v.low < c < v.high else None


def _choose_int(w: _Writer, v: _Value) -> _Value | None:
    """if/else as a statement: both branches start from the value."""
    c, a, b = w.digit(), w.digit(1, 5), w.digit(1, 5)
    if not w.free or not v.low < c < v.high:
        return None
    name = w.free.pop(0)
    given = v.inside(_SUM)
    w.lines += [
        f"if {given} {w.pick('<>')} {c}:",
        f"    {name} = {given} - {a}",
        "else:",
        f"    {name} = {given} + {b}",
    ]
    return _int(name, v.low - a, v.high + b)


def _truth(w: _Writer, v: _Value) -> _Value:
    a = w.digit()
    b = (a + w.digit(1, 9)) % 10
    return _int(f"{a} if {v.text} else {b}", a, b, binds=_LOOSE)


def _invert(w: _Writer, v: _Value) -> _Value:
    return _Value(f"not {v}", "bool")


def _reverse(w: _Writer, v: _Value) -> _Value:
    return replace(v, text=f"{v}[::-1]", binds=_ATOM)


def _slice(w: _Writer, v: _Value) -> _Value | None:
    if v.high < 2:
        return None
    c = w.digit(1, 2)
    if w.rng.random() < 0.5:
        return replace(v, text=f"{v}[:{c}]", low=min(v.low, c), high=min(v.high, c), binds=_ATOM)
    return replace(v, text=f"{v}[{c}:]", low=max(0, v.low - c), high=v.high - c, binds=_ATOM)


def _extend(w: _Writer, v: _Value) -> _Value:
    c = f"[{w.digit()}]" if v.type == "list" else w.letter()
    text = f"{v.inside(_SUM)} + {c}" if w.rng.random() < 0.5 else f"{c} + {v.inside(_PRODUCT)}"
    items = (min(0, v.items[0]), max(9, v.items[1])) if v.type == "list" else v.items
    return replace(v, text=text, low=v.low + 1, high=v.high + 1, items=items, binds=_SUM)


def _repeat(w: _Writer, v: _Value) -> _Value:
    return replace(v, text=f"{v.inside(_PRODUCT)} * 2", low=2 * v.low, high=2 * v.high, binds=_PRODUCT)


def _sort(w: _Writer, v: _Value) -> _Value:
    return replace(v, text=f"sorted({v.text})", binds=_ATOM)


def _length(w: _Writer, v: _Value) -> _Value | None:
    return _int(f"len({v.text})", v.low, v.high) if v.low < v.high else None


def _sum(w: _Writer, v: _Value) -> _Value:
    low, high = v.items
    return _int(f"sum({v.text})", min(0, low * v.high), max(0, high * v.high))


def _extreme(w: _Writer, v: _Value) -> _Value | None:
    return _int(f"{w.pick(('max', 'min'))}({v.text})", *v.items) if v.low > 0 else None


def _item(w: _Writer, v: _Value) -> _Value | None:
    if v.low < 1:
        return None
    text = f"{v}[{w.pick(('0', '-1'))}]"
    return _int(text, *v.items) if v.type == "list" else replace(v, text=text, low=1, high=1, binds=_ATOM)


def _contains(w: _Writer, v: _Value) -> _Value:
    return _Value(f"{w.digit(0, MAX_ITEM) if v.type == 'list' else w.letter()} in {v}", "bool")


def _mapped(w: _Writer, v: _Value) -> _Value:
    c = w.digit(1, 5)
    return replace(v, text=f"[i + {c} for i in {v}]", items=(v.items[0] + c, v.items[1] + c), binds=_ATOM)


def _loop(w: _Writer, v: _Value) -> _Value | None:
    """for over the items: adds them up into a variable, from a start of its own."""
    if not w.free:
        return None
    start = w.digit(0, 5)
    name = w.free.pop(0)
    w.lines += [f"{name} = {start}", f"for i in {v}:", f"    {name} = {name} + i"]
    return _int(name, start, start + min(0, v.items[0] * v.high), start + max(0, v.items[1] * v.high))


_STEPS: dict[str, list[_Step]] = {
    "int": [
        _Step(_add, 1, 8),
        _Step(_from, 1, 0.4),
        _Step(_double, 1, 0.4),
        _Step(_modulo, 1, 0.4),
        _Step(_compare, 1, 0.3),
        _Step(_choose_int, 2, 0.6),
    ],
    "bool": [_Step(_truth, 1, 3), _Step(_invert, 1, 1)],
    "list": [
        _Step(_reverse, 1, 0.5),
        _Step(_slice, 1, 1),
        _Step(_extend, 1, 0.5),
        _Step(_sort, 1, 0.3),
        _Step(_length, 1, 2),
        _Step(_sum, 1, 0.5),
        _Step(_extreme, 1, 1),
        _Step(_item, 1, 3),
        _Step(_contains, 1, 0.2),
        _Step(_mapped, 2, 1.5),
        _Step(_loop, 2, 0.3),
    ],
    "str": [
        _Step(_reverse, 1, 1),
        _Step(_slice, 1, 1.5),
        _Step(_extend, 1, 3),
        _Step(_repeat, 1, 0.3),
        _Step(_item, 1, 0.5),
        _Step(_length, 1, 1),
        _Step(_contains, 1, 0.2),
    ],
}
