"""The literal parser: everything plain goes through, nothing else does, and hostile text is cheap."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.worlds.code.literals import MAX_TEXT, LiteralError, parse_arguments, parse_value, render
from autotelic.worlds.code.sandbox import values

HASHABLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.text(st.characters()) | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
PLAIN = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_a_rendered_value_reads_back_as_itself(value):
    assert values.encode(parse_value(render(value))) == values.encode(value)


@given(st.lists(PLAIN, max_size=3))
def test_rendered_arguments_read_back_as_themselves(arguments):
    text = ", ".join(render(argument) for argument in arguments)
    assert values.encode(parse_arguments(text)) == values.encode(tuple(arguments))


@given(st.text() | st.text("[](){},:'\"\\b0123456789.eE-+ NoneTrueset\n\x00x"))
@settings(max_examples=500)
def test_any_text_is_a_value_or_a_literal_error(text):
    for parse in (parse_value, parse_arguments):
        try:
            values.encode(parse(text))
        except LiteralError:
            continue


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-17", -17),
        ("0xff", 255),
        ("-0.0", -0.0),
        ("1e5", 1e5),
        (".5", 0.5),
        ("5.", 5.0),
        ("inf", math.inf),
        ("-inf", -math.inf),
        (" [1, 2.0, 'a', ]\n", [1, 2.0, "a"]),
        ("(1)", 1),
        ("(1,)", (1,)),
        ("()", ()),
        ("{}", {}),
        ("set()", set()),
        ("{1}", {1}),
        ("{1: [2], 'a': {3}}", {1: [2], "a": {3}}),
        ("frozenset({1, 2})", frozenset({1, 2})),
        ("frozenset()", frozenset()),
        ("''", ""),
        ('"""a\n"b"""', 'a\n"b'),
        (r"'\x41\u00e9\101\n\d\''", "A\u00e9A\n\\d'"),
        (r"b'\x00\xffa'", b"\x00\xffa"),
    ],
)
def test_python_spellings(text, value):
    assert values.encode(parse_value(text)) == values.encode(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1+2",
        "--1",
        "+1",
        "0) or (True",
        "1 2",
        "1,",
        "1_000",
        "007",
        "1j",
        "1+2j",
        "f'a'",
        "r'a'",
        "u'a'",
        "'a' 'b'",
        "'a''b'",
        "'a",
        "'a\nb'",
        "[1",
        "[,]",
        "{[1]}",
        "{[]: 1}",
        "{1: 2, 3}",
        "{**{}}",
        "[*[]]",
        "set([1])",
        "frozenset({1: 2})",
        "float('nan')",
        "abs(1)",
        "x",
        "__import__('os')",
        "...",
        "1 # one",
        "'\\U00110000'",
        "'\\xg0'",
        "'\\N{BULLET}'",
        "b'\u00e9'",
        "'\x00'",
        "\x00",
        "[1]\\",
    ],
)
def test_everything_else_is_refused(text):
    with pytest.raises(LiteralError):
        parse_value(text)


def test_arguments_are_separated_by_commas():
    assert parse_arguments("1, 'a', [2]") == (1, "a", [2])
    assert parse_arguments("") == ()
    assert parse_arguments("(1, 2)") == ((1, 2),)
    assert parse_arguments("1,") == (1,)


@pytest.mark.parametrize("text", ["0) or (True", "1) + f(2", "*[1]", "x=1", "1;2", ",", "1,,2"])
def test_arguments_cannot_leave_their_parentheses(text):
    with pytest.raises(LiteralError):
        parse_arguments(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "(" * 1_000_000,
        "{" * 1_000_000,
        "[" * 500_000 + "]" * 500_000,
        "9" * 1_000_000,
        "0x" + "f" * 1_000_000,
        "1." + "1" * 1_000_000,
        "1e" + "9" * 1_000_000,
        "-" * 1_000_000,
        "'" * 1_000_001,
        "'" + "\\" * 1_000_001,
        "'" + "a" * 1_000_000,
        "'''" + "'" * 1_000_000 + "a",
        "[" + "1," * 500_000,
        " " * 1_000_000,
        "\ud800" * 1_000_000,
        "\x00" * 1_000_000,
        "frozenset({" * 90_000,
        "{" + ",".join(str(k * (2**61 - 1)) for k in range(45_000)) + "}",
        "{" + ",".join(f"({k * (2**61 - 1)},):0" for k in range(40_000)) + "}",
        "a" * (MAX_TEXT + 1),
    ],
)
def test_hostile_text_is_refused_quickly(text):
    start = time.perf_counter()
    with pytest.raises(LiteralError):
        parse_value(text)
    assert time.perf_counter() - start < 2.0


def test_nesting_up_to_the_bound_is_read():
    deep = "[" * values.MAX_DEPTH + "]" * values.MAX_DEPTH
    assert render(parse_value(deep)) == deep
    with pytest.raises(LiteralError):
        parse_value("[" + deep + "]")


def test_long_values_are_never_cut():
    value = ["x" * 5000, list(range(2000)), 10**4000, -(1 << 60_000)]
    assert parse_value(render(value)) == value
