"""Programs written to break the trusted process: each is read, refused or admitted, quickly, and nothing else."""

import time
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.worlds.base import Proposal, Rejection, Task
from autotelic.worlds.code import inference
from autotelic.worlds.code.programs import MAX_PROGRAM, ProgramError, Rules, check
from autotelic.worlds.code.world import CodeWorld, CodeWorldConfig

RULES = Rules(forbidden_modules=[], forbidden_names=[])  # what a check refuses first would hide what comes after it
F = "def f(a):\n    return a\n"


def filled(part, before="", after="", length=MAX_PROGRAM):
    """`before`, numbered parts up to the length, `after`."""
    text = before
    pieces = (part.replace("#", str(number)).replace("~", str(number + 1)) for number in count())
    while len(text) + len(piece := next(pieces)) + len(after) <= length:
        text += piece
    return text + after


def nested(opening, inside, start=0, levels=95):
    """Indented blocks, one in the other, around one long line."""
    blocks = "".join(" " * (level + 1) + opening.replace("#", str(level)) + "\n" for level in range(start, levels))
    return filled(inside, "def f(x):\n" + blocks + " " * (levels + 1))


REFUSED = {
    "unclosed": "def f(a:",
    "not indented": "def f(a):\nreturn a",
    "zero byte": "\x00",
    "surrogate": "def f(a):\n    return '\ud800'",
    "too long": "x" * 30_000,
    "brackets": "(" * 10_000,
    "closed brackets": "[" * 100 + "]" * 100,
    "minus": "-" * 15_000 + "1",
    "not": "not " * 4_000 + "1",
    "plus": "1" + "+1" * 9_000,
    "powers": "1" + "**1" * 6_000,
    "attributes": "a" + ".a" * 9_000,
    "calls": "a" + "()" * 9_000,
    "lambdas": "lambda:" * 2_500 + "1",
    "choices": "1 if 1 else " * 1_500 + "1",
    "blocks": "\n".join(" " * depth + "if 1:" for depth in range(150)),
    "elifs": "def f(x):\n if x:0\n" + " elif x:0\n" * 1_500,
    "decimal int": "9" * 10_000,
    "long int": F + "x = 0x" + "f" * 19_900,
    "quotes": "'" * 19_999,
    "escaped quotes": F + "x = '" + "\\'" * 9_000,
    "triple quotes": '"""' * 6_001,
    "escaped triple quotes": F + "'''\\" * 4_900,
    "fields": "f'" + "{f'" * 3_000,
    "async": "async " * 3_000,
    "targets": "x=" * 9_000 + "(" * 50,
    "stars": F + "*" * 10_000 + "a",
    "open with": F + "with " + "(" * 59,
    "open case": F + "match x:\n case " + "[" * 59,
    "open dict case": F + "match x:\n case " + "{1:" * 59,
    "open lambda": F + "lambda x=(" * 59,
    "open call": F + "a(b=" * 59,
    "open generator": F + "a(b for b in " * 59,
    "deep generators": F + "a(b for b in " * 59 + "c" + ")" * 59,
}
ACCEPTED = {
    "hex int": F + "x = 0x" + "f" * 5_000,
    "call chain": filled("def a#(x):return a~(x)\n", "def f(x):return a0(x)\n", "def a(x):return x"),
    "doubling": filled(f"def a#(x):return {'a~(' * 8}x{')' * 8}\n", "def f(x):return a0(x)\n"),
    "mutual recursion": filled("def g#(x):return g~(g#(x))+g0(x)\n", "def f(x):return g0(x)\n"),
    "many calls": filled("g#(x);", filled("def g#(x):0\n", length=10_000) + "def f(x):\n "),
    "names": filled("n#=1\n", F),
    "targets": F + "x=" * 9_000 + "1",
    "targets of a list": filled("n#=", F, "[" + "1," * 4_000 + "]"),
    "local targets": "def f(a):\n    " + "x=" * 4_000 + "(" + "1," * 5_000 + ")",
    "names and ifs": filled(" if x:n#=x\n", filled(" n#=x\n", "def f(x):\n", length=10_000)),
    "names and comprehensions": filled("[i for i in x];", filled("n#=x;", "def f(x):\n ", length=10_000)),
    "nested ifs": nested("if x:", "x;"),
    "nested ifs with names": nested("if x:", "n#=x;"),
    "nested loops": nested("for x in x:", "x;"),
    "nested functions": nested("def g#():", "x;"),
    "nested generators": nested("def g#():", "(i for i in x);"),
    "nested yields": nested("def g#():", "yield;"),
    "nested classes": nested("class C#:", "x;"),
    "nested comprehensions": "def f(x):\n return " + "[i for i in " * 55 + "x" + "]" * 55,
    "nested elements": "def f(x):\n return " + "[" * 55 + "x" + " for i in x]" * 55,
    "elifs": "def f(x):\n if x:0\n" + " elif x:0\n" * 140 + " else:0",
    "dotted import": "import " + "a." * 9_000 + "a\n" + F,
    "dotted from": "from " + "a." * 9_000 + "a import b\n" + F,
    "imports": filled("import a\n", F),
    "decorators": filled("@a\n", "", F),
    "arguments": filled("a#,", "def f(", "):0"),
    "keywords": filled("a#=1,", F + "g(", ")"),
    "globals": filled("a#,", F + "def g():\n global ", "a"),
    "classes": filled("class A#:\n b=1\n", F),
    "lambdas": filled("(lambda a:a);", "def f(x):\n "),
    "default lambdas": "f = " + "lambda x=1:" * 70 + "1",
    "minus": "def f(x):\n return " + "-" * 140 + "x",
    "attributes": "def f(x):\n return x" + ".a" * 140,
    "keyword calls": "def f(x):\n return " + "g(a=" * 58 + "x" + ")" * 58,
    "dicts": "def f(x):\n return " + "{1:" * 58 + "x" + "}" * 58,
    "walrus": "def f(x):\n return " + "(a:=" * 58 + "x" + ")" * 58,
    "choices": "def f(x):\n return " + "x if x else " * 140 + "x",
    "comparisons": F + "a" + "<a" * 9_000,
    "starred targets": F + "a," + "*a," * 6_000 + "=b",
    "deletions": F + "del " + "(" * 59 + "a" + ")" * 59,
    "with": F + "with " + "(" * 59 + "a" + ")" * 59 + " as b: pass",
    "case": F + "match " + "(" * 59 + "a" + ")" * 59 + ":\n case " + "(" * 59 + "_" + ")" * 59 + ": pass",
    "fields": F + "f'" + "{a}" * 6_000 + "'",
    "nested fields": F + "f'{a!r:{b}}'" * 1_000,
    "statements": F + "x;" * 9_900,
    "strings": F + "''" * 9_900,
    "infinities": F + "1e999," * 3_000,
    "complex numbers": F + "1j," * 6_000,
    "lone surrogates": F + "'" + "\\ud800" * 3_000 + "'",
    "letters": F + "".join(f"{chr(0x4E00 + number)}=1\n" for number in range(4_900)),
    "one letter": F + "x" + "\u0301" * 9_000,
    "union": F + "x: " + "a|" * 140 + "a = 1",
    "type comments": "def f(a):  # type: (int) -> int\n    return a  # type: ignore\n",
}
BOUND = 2.0  # seconds of processor time for one part; the slowest takes a quarter of one


def within_bound(work):
    start = time.process_time()
    result = work()
    assert time.process_time() - start < BOUND
    return result


def refusal(source):
    with pytest.raises(ProgramError) as error:
        check(source, RULES)
    return error.value.outcome


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_source_is_refused_quickly(name):
    assert within_bound(lambda: refusal(REFUSED[name])) in ("syntax", "no_entry", "size")


def test_an_int_over_the_bound_on_values_is_refused_by_its_size():
    assert refusal(REFUSED["long int"]) == "size"


@pytest.mark.parametrize("name", ACCEPTED)
def test_every_part_of_reading_an_accepted_source_is_quick(name):
    source = ACCEPTED[name]
    program = within_bound(lambda: check(source, RULES))
    assert within_bound(lambda: program.canonical)
    assert within_bound(lambda: program.features)["depth"] >= 0
    within_bound(lambda: inference.output_type(source, "int"))


@pytest.fixture(scope="module")
def world():
    config = CodeWorldConfig(heldout=False)
    config.kind.rules = RULES
    with CodeWorld(config) as opened:
        yield opened


@pytest.mark.parametrize("sources", [REFUSED, ACCEPTED], ids=["refused", "accepted"])
def test_every_hostile_source_becomes_a_task_or_a_rejection(world, sources):
    texts = [f"```python\n{source}\n```\n```input\n3\n```" for source in sources.values()]
    results = world.admit([Proposal("deduction", text) for text in texts], 1)
    assert all(isinstance(result, Task | Rejection) for result in results)
    if sources is REFUSED:
        assert {result.outcome for result in results} <= {"syntax", "no_entry", "size"}


# --- anything that can be written ------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "f", "g", "x", "_", "v0", "len", "type", "__name__", "e\u0301"])
ATOMS = NAMES | st.sampled_from(
    ["0", "-1", "0xffffffffffffffffffff", "1.5", "1e999", "2j", "'s'", "b'\\xff'", "'\\ud800'", "None", "...", "True",
     "f'{a}'", "f'{a!r:>{b}}'", "f'{f\"{a=}\"}'", "()", "[]", "{}", "*a", "**a", "a.b", "(yield)", "(await a)"]
)  # fmt: skip


def templates(*forms):
    """Texts with their holes filled: E an expression, N a name, S a statement's block."""

    def fill(inner):
        return st.sampled_from(forms).flatmap(
            lambda form: st.tuples(*[inner if mark == "E" else NAMES for mark in form if mark in "EN"]).map(
                lambda parts: _filled(form, parts)
            )
        )

    return fill


def _filled(form, parts):
    left = iter(parts)
    return "".join(next(left) if mark in "EN" else mark for mark in form)


EXPRESSIONS = st.recursive(
    ATOMS,
    templates(
        "(E + E)", "(E < E <= E)", "(E and E)", "(not E)", "-E", "E(E)", "E(N=E)", "E(*E, **E)", "E.N", "E[E]",
        "E[E:E]", "[E, *E]", "{E: E}", "{**E}", "{E}", "(lambda N, /, *N, N=E: E)", "(E if E else E)", "(N := E)",
        "[E for N in E]", "{E: E for N, N in E if E}", "(E for N in E for N in E)", "[E async for N in E]",
        "(yield from E)", "f'{E}'", "'{0.N}'.format(E)", "E @ E",
    ),
    max_leaves=8,
)  # fmt: skip
STATEMENTS = EXPRESSIONS.flatmap(
    lambda shared: templates(
        "E", "N = E", "N = N = E", "N: E = E", "N: E", "(N): E = E", "E.N = E", "E[E] += E", "N, *N = E", "del N, E.N",
        "return E", "global N", "nonlocal N", "assert E, E", "raise E from E", "import N.N as N", "from N import N",
        "pass", "from . import *", "if E: N = E", "for N in E: N = E", "while E: break", "with E as N, E: E",
        "class N(E, N=E): N = E",
        "def N(N, N=E, *, N: E = E, **N) -> E: return E", "@E\n    def N(): yield E", "async def N(): await E",
        "async def N():\n        async with E as N: pass", "async def N():\n        async for N in E: pass",
        "try: E\n    except E as N: E\n    else: E\n    finally: E", "try: E\n    except* E: E",
        "match E:\n        case [1, *N] | {'a': N, **N} if E: E\n        case N(b=None) as N: E\n        case -1+2j: E",
        "def N():\n        def N():\n            nonlocal N\n            return E\n        return N",
        "x = 1  # type: int",
    )(st.just(shared) | EXPRESSIONS)
)  # fmt: skip


@given(st.lists(STATEMENTS, min_size=1, max_size=4), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_program_is_read_or_refused(statements, inside):
    body = "".join(f"    {statement}\n" for statement in statements)
    source = f"def f(a):\n{body}" if inside else f"if 1:\n{body}def f(a):\n    return g(a)\n"
    for text in (source, body.replace("\n    ", "\n").strip() + "\n" + F):
        try:
            program = check(text, RULES)
        except ProgramError:
            continue
        assert program.canonical
        assert program.features["operations"] >= 0
        assert inference.input_types(text, "int")


@given(st.text() | st.text("def f(a):\n    return a[]{}'\"\\#+-*=\x00\t"))
@settings(max_examples=300)
def test_any_text_is_a_program_or_a_program_error(text):
    try:
        program = check(F + text, RULES)
    except ProgramError:
        return
    assert program.canonical
    assert program.features["operations"] >= 0
