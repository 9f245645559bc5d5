"""The canonical text of values: one text a value, one value a text."""

import math
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.worlds.code.sandbox import values

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(1 << 600), max_value=1 << 600)
    | st.floats()
    | st.text(st.characters())  # surrogates among them
    | st.binary()
)
hashables = st.recursive(
    scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4) | st.tuples(), max_leaves=8
)
plain = st.recursive(
    hashables,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.sets(hashables, max_size=4)
    ),
    max_leaves=12,
)


def identical(a: Any, b: Any) -> bool:
    """Equality that knows types, signed zeros and NaN, written without the code under test."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(any(identical(k, m) and identical(a[k], b[m]) for m in b) for k in a)
    if isinstance(a, set | frozenset):
        return len(a) == len(b) and all(any(identical(x, y) for y in b) for x in a)
    return a == b


@given(plain)
def test_decoding_gives_back_the_very_value(value: Any) -> None:
    assert identical(values.decode(values.encode(value)), value)


@given(plain, plain)
def test_texts_are_equal_exactly_when_values_are_identical(a: Any, b: Any) -> None:
    assert (values.encode(a) == values.encode(b)) == identical(a, b)


@given(plain)
def test_the_text_is_ascii_without_line_breaks(value: Any) -> None:
    assert values.encode(value).isascii()
    assert "\n" not in values.encode(value)


LOOKALIKES = [
    1,
    True,
    1.0,
    "1",
    b"1",
    [1],
    (1,),
    {1},
    frozenset({1}),
    {1: 1},
    0,
    False,
    0.0,
    -0.0,
    None,
    "",
    b"",
    [],
    (),
]


def test_values_python_calls_equal_stay_apart() -> None:
    texts = [values.encode(value) for value in LOOKALIKES]
    assert len(set(texts)) == len(LOOKALIKES)
    assert len({values.encode([value]) for value in LOOKALIKES}) == len(LOOKALIKES)


def test_nan_is_equal_to_nan_whatever_its_bits() -> None:
    assert values.encode(float("nan")) == values.encode(-float("nan")) == values.encode(math.inf - math.inf)


def test_the_order_of_dicts_and_sets_does_not_matter() -> None:
    assert values.encode({1: 2, "a": 3}) == values.encode({"a": 3, 1: 2})
    assert values.encode({8, 0, 16}) == values.encode({16, 8, 0})


NOT_CANONICAL = [
    "", " ", "1 ", " 1", "01", "-0", "+1", "1.0", "1e3", "NaN", "Infinity", "-Infinity", "nul", "True", "1,2", "1 2",
    "{}", '{"a":1}', "[]", "[1]", "[[1]]", '["l" ]', '["l", 1]', '["q"]', '["ll",1]', '[""]', '["if","0x1"]',
    '["sz"]', '"\u00e9"', '"\\u0061"', '"\\/"', "'a'", '"a', '"\\u00E9"', '"\\ud83d', '["i","0x5"]', '["i","5"]',
    '["i",5]', '["i"]', '["i","0x8000000000000000 "]', '["i","0X8000000000000000"]', '["i","0x08000000000000000"]',
    '["i","0x8000_0000_0000_0000"]', '["i","9223372036854775808"]', '["i","0xffffffffffffffff","x"]',
    "9223372036854775808", "-9223372036854775808", '["f","1.5"]', '["f","0x3p-1"]', '["f","0x1.80p+0"]', '["f","nan "]',
    '["f","-nan"]', '["f","infinity"]', '["f","0x1p99999"]', '["f",1]', '["f","0x0p+0"]', '["b","6"]', '["b","6 1"]',
    '["b","AA"]', '["b","zz"]', '["s",2,1]', '["s",1,1]', '["s",1,true]', '["s",["l"]]', '["z",2,1]', '["d",[1]]',
    '["d",1]', '["d",[2,1],[1,1]]', '["d",[1,1],[1,1]]', '["d",[1,1],[true,1]]', '["d",[["l"],1]]', '["t",1,]', "nulll",
    '["l",1]]', '["l",1]\n', "\ufeff1", "\x00", '"\x00"', '"\n"', "\ud800", '["s",["s"]]', "9" * 5000, '["d",[1,2,3]]',
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_CANONICAL, ids=[ascii(text)[:40] for text in NOT_CANONICAL])
def test_any_other_spelling_is_malformed(text: str) -> None:
    with pytest.raises(values.Malformed):
        values.decode(text)


@given(plain, st.data())
def test_a_changed_text_is_malformed_or_another_value(value: Any, data: st.DataObject) -> None:
    text = values.encode(value)
    at = data.draw(st.integers(0, len(text)))
    changed = text[:at] + data.draw(st.sampled_from([*'[]",0123456789abx-\\ ', ""])) + text[at + 1 :]
    try:
        decoded = values.decode(changed)
    except values.Malformed:
        return
    assert values.encode(decoded) == changed


@settings(max_examples=300)
@given(st.text(st.sampled_from('[]{}",:0123456789ifbltdszx-+.eE\\utrnNa '), max_size=60))
def test_random_text_never_raises_anything_but_malformed(text: str) -> None:
    try:
        values.decode(text)
    except values.Malformed:
        return


COLLIDING = sorted(f'["i","{k * (2**61 - 1):#x}"]' for k in range(5, 25_000))
HOSTILE = {
    "open brackets": "[" * 500_000,
    "open tags": '["t",' * 100_000,
    "open objects": '{"a":' * 100_000,
    "nested beyond the depth": '["t",' * 300 + "1" + "]" * 300,
    "digits": "9" * 1_000_000,
    "hex digits": '["i","0x' + "f" * 1_000_000 + '"]',
    "float digits": '["f","0x' + "f" * 1_000_000 + 'p+0"]',
    "exponent": '["f","0x1p+' + "9" * 1_000_000 + '"]',
    "equal hashes": '["s",' + ",".join(COLLIDING) + "]",
    "equal hashes of keys": '["d",' + ",".join(f"[{key},1]" for key in COLLIDING) + "]",
    "too long": '"' + "a" * (1 << 21) + '"',
    "escapes": '"' + "\\u0000" * 200_000,
    "commas": '["l"' + "," * 500_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_quickly(name: str) -> None:
    start = time.perf_counter()
    with pytest.raises(values.Malformed):
        values.decode(HOSTILE[name])
    assert time.perf_counter() - start < 2.0


class Number(int):
    pass


class Text(str):
    pass


class Table(dict):
    pass


@pytest.mark.parametrize(
    "value",
    [Number(1), Text("a"), Table(), 1j, object(), int, len, range(3), bytearray(b"a"), memoryview(b"a"), iter(()), ...],
    ids=lambda value: type(value).__name__,
)
def test_other_types_are_unsupported_alone_and_inside(value: Any) -> None:
    for wrapped in (value, [value], (value,), {1: value}):
        with pytest.raises(values.Unsupported, match=type(value).__name__):
            values.encode(wrapped)


def test_too_large_is_an_error_and_never_a_cut() -> None:
    loop: list = []
    loop.append(loop)
    deep: Any = ()
    for _ in range(values.MAX_DEPTH + 1):
        deep = (deep,)
    for value, reason in [
        ("a" * values.MAX_BYTES, "size"),
        (b"a" * values.MAX_BYTES, "size"),
        ([0] * values.MAX_BYTES, "size"),
        (1 << values.MAX_INT_BITS, "int"),
        (-(1 << values.MAX_INT_BITS), "int"),
        (loop, "depth"),
        (deep, "depth"),
    ]:
        with pytest.raises(values.TooLarge, match=reason):
            values.encode(value)


def test_the_largest_values_still_cross() -> None:
    deep: Any = 1
    for _ in range(values.MAX_DEPTH):
        deep = [deep]
    for value in (deep, (1 << values.MAX_INT_BITS) - 1, "a" * (values.MAX_BYTES - 2), 2**63, -(2**63), 2**63 - 1):
        assert identical(values.decode(values.encode(value)), value)
