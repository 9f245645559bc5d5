"""Static checks, canonical form and measures of programs."""

import ast

import pytest

from autotelic.runs.files import content_address
from autotelic.worlds.code.canonical import spell
from autotelic.worlds.code.programs import ProgramError, Rules, check

RULES = Rules()


def refusal(source: str) -> str:
    with pytest.raises(ProgramError) as error:
        check(source, RULES)
    return error.value.outcome


def same(left: str, right: str) -> bool:
    return check(left, RULES).canonical == check(right, RULES).canonical


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import os.path",
        "import math, os.path as p",
        "from os import getcwd",
        "from os.path import join",
        "import importlib.util",
        "from .x import y",
    ],
)
def test_forbidden_modules_are_found_by_exact_dotted_name(source):
    assert refusal(f"{source}\ndef f(a):\n    return a") == "forbidden"


@pytest.mark.parametrize(
    "expression",
    ["__import__('subprocess')", "eval('1')", "().__class__.__base__.__subclasses__()", "open('x')", "input()"],
)
def test_forbidden_names_are_found(expression):
    assert refusal(f"def f(a):\n    return {expression}") == "forbidden"


@pytest.mark.parametrize(
    "source",
    [
        "def process_input(a):\n    return a\ndef f(a):\n    return process_input(a)",
        "def f(input):\n    return input + 1",
        "def f(a):\n    def g(b):\n        return b\n    return g(a)",
        "class C:\n    def m(self, a):\n        return a\ndef f(a):\n    return C().m(a)",
        "import math\nimport collections.abc\ndef f(a):\n    return math.floor(a)",
        "def f(a):\n    return 'import os; open(eval)'",
        "def f(a):\n    return a.osmosis(reopen=1)",
        "f = lambda a: a",
        "def os(a):\n    return a\ndef f(a):\n    return os(a)",
    ],
)
def test_programs_that_only_look_forbidden_pass(source):
    assert check(source, RULES).source == source


def test_forbidden_lists_are_configurable():
    source = "import math\ndef f(a):\n    return math.pi"
    with pytest.raises(ProgramError, match="import math"):
        check(source, Rules(forbidden_modules=["math"]))
    assert check("import os\ndef f(a):\n    return a", Rules(forbidden_modules=[]))


@pytest.mark.parametrize("source", ["", "def g(a):\n    return a", "class f: pass", "f = 3", "if 1:\n  pass"])
def test_a_program_without_entry_function_is_refused(source):
    assert refusal(source) == "no_entry"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("def f(a):\n    return a", "def f(b):\n    # a comment\n    return b\n"),
        ("def f(a):\n    return (a)", 'def f(x: int) -> int:\n    """Doc."""\n    return x'),
        (
            "def f(a, n):\n    t = 0\n    for i in a:\n        t += i\n    return t",
            "def f(x, y):\n    z: int = 0\n    for w in x:\n        z += w\n    return z",
        ),
        (
            "def g(a):\n    return a\ndef f(a):\n    return [g(b) for b in a]",
            "def h(q):\n    return q\ndef f(q):\n    return [h(k) for k in q]",
        ),
        ("def f(a):\n    return (lambda b: b + a)(1)", "def f(x):\n    return (lambda y: y + x)(1)"),
        ("def f(a):\n    return f'{a} b'", "def f(x):\n    return f'{x} b'"),
        (
            "def g(a):\n    return sum(b for b in a)\ndef f(a):\n    return g(a)",
            "def h(a):\n    return sum(c for c in a)\ndef f(a):\n    return h(a)",
        ),
        (
            "def g(a):\n    def h(b):\n        return b\n    return h(a)\ndef f(a):\n    return g(a)",
            "def k(a):\n    def m(b):\n        return b\n    return m(a)\ndef f(a):\n    return k(a)",
        ),
        ("def f(a):\n    return '{:.2f}'.format(a)", "def f(b):\n    return '{:.2f}'.format(b)"),
    ],
)
def test_renamed_copies_share_a_canonical_form(left, right):
    assert same(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("def f(a, b):\n    return a - b", "def f(b, a):\n    return a - b"),
        ("def f(a):\n    return a.x", "def f(a):\n    return a.y"),
        ("def f(a):\n    return f'{a=}'", "def f(b):\n    return f'{b=}'"),
        ("def f(a):\n    return locals()", "def f(b):\n    return locals()"),
        ("def f(a):\n    return dict(a=a)", "def f(b):\n    return dict(b=b)"),
        ("def f(a):\n    return dict(a=a)", "def f(b):\n    return dict(a=b, b=1)"),
        (
            "def g(a=0):\n    return a\ndef f(x):\n    return g(**{'a': x})",
            "def g(b=0):\n    return b\ndef f(x):\n    return g(**{'a': x})",
        ),
        (
            "def f(x):\n    try:\n        return a\n        a = 1\n    except NameError as e:\n        return str(e)",
            "def f(x):\n    try:\n        return b\n        b = 1\n    except NameError as e:\n        return str(e)",
        ),
        (
            "def f(x):\n    def g(): pass\n    return str(g)[:30]",
            "def f(x):\n    def h(): pass\n    return str(h)[:30]",
        ),
        (
            "def g():\n    yield 1\ndef f(a):\n    return str(g())[18:31]",
            "def h():\n    yield 1\ndef f(a):\n    return str(h())[18:31]",
        ),
        (
            "def g():\n    return lambda: 1\ndef f(a):\n    return str(g())[10:20]",
            "def h():\n    return lambda: 1\ndef f(a):\n    return str(h())[10:20]",
        ),
        (
            "def g():\n    return (b for b in [1])\ndef f(a):\n    return str(g())[18:31]",
            "def h():\n    return (b for b in [1])\ndef f(a):\n    return str(h())[18:31]",
        ),
        (
            "def sum(a):\n    return str(a)\ndef g():\n    return sum(b for b in [1])\ndef f(a):\n    return g()",
            "def sum(a):\n    return str(a)\ndef h():\n    return sum(b for b in [1])\ndef f(a):\n    return h()",
        ),
        (
            "def g():\n    def i(): pass\n    return i\ndef f(a):\n    return str(g())[10:20]",
            "def h():\n    def i(): pass\n    return i\ndef f(a):\n    return str(h())[10:20]",
        ),
        (
            "def g():\n    def h():\n        yield\n    return h()\ndef f(a):\n    return str(g())",
            "def i():\n    def h():\n        yield\n    return h()\ndef f(a):\n    return str(i())",
        ),
        (
            "def g():\n    yield 1\ndef f(a):\n    return '{0.gi_code}'.format(g())",
            "def h():\n    yield 1\ndef f(a):\n    return '{0.gi_code}'.format(h())",
        ),
        (
            "import statistics\ndef f(a):\n    try:\n        b\n    except NameError:\n"
            "        return str(statistics.sys.exc_info())\n    b = 1",
            "import statistics\ndef f(a):\n    try:\n        c\n    except NameError:\n"
            "        return str(statistics.sys.exc_info())\n    c = 1",
        ),
        (
            "def f(a):\n    try:\n        def g(b: nowhere): pass\n    except NameError:\n        return 1",
            "def f(a):\n    try:\n        def g(b: int): pass\n    except NameError:\n        return 1",
        ),
        ("def f(a):\n    return f.__code__.co_varnames", "def f(b):\n    return f.__code__.co_varnames"),
        (
            "def f(a):\n    return '{0.__code__.co_varnames}'.format(f)",
            "def f(b):\n    return '{0.__code__.co_varnames}'.format(f)",
        ),
        (
            "def f(a):\n    s = '{0._'\n    return (s + '_code_' + '_}').format(f)",
            "def f(b):\n    s = '{0._'\n    return (s + '_code_' + '_}').format(f)",
        ),
        (
            "def f(a):\n    return (a for a in [1]).gi_frame.f_locals",
            "def f(b):\n    return (b for b in [1]).gi_frame.f_locals",
        ),
        (
            "def f(a):\n    class C:\n        x = 1\n    return C().x",
            "def f(a):\n    class C:\n        y = 1\n    return C().x",
        ),
        ("def f(len):\n    return len", "def f(a):\n    return len"),
        ("def f(a):\n    v0 = a\n    return v0(x=1)", "def f(v0):\n    a = v0\n    return a(x=v0)"),
        (
            "x = 1\ndef f(a):\n    global x\n    x = a\n    return x",
            "y = 1\ndef f(a):\n    global x\n    x = a\n    return x",
        ),
        (
            "from math import floor\ndef f(a):\n    return floor(a)",
            "from math import ceil\ndef f(a):\n    return ceil(a)",
        ),
        ("def f(a):\n    return 1", "def f(a):\n    return True"),
        ("def f(a):\n    return 1", "def f(a):\n    return 1.0"),
        ("def f(a):\n    return 0.0", "def f(a):\n    return -0.0"),
        (
            "def f(a):\n    x = 1\n    def g():\n        return x\n    return g()",
            "def f(a):\n    x = 1\n    def g():\n        x: int\n        return x\n    return g()",
        ),
    ],
)
def test_programs_that_may_differ_are_never_merged(left, right):
    rules = Rules(forbidden_names=[])
    assert check(left, rules).canonical != check(right, rules).canonical


@pytest.mark.parametrize(
    ("body", "depth"),
    [
        ("return x", 0),
        ("return 7", 0),
        ("return -7", 0),
        ("return x + 1", 1),
        ("return -x", 1),
        ("return (x + 1) * 2", 2),
        ("return x[::-1]", 1),
        ("return x[1:]", 1),
        ("return sorted(x)[0]", 2),
        ("y = x + 1\n    z = y * 2\n    return z - x", 3),
        ("return x if x > 3 else 0", 2),
        ("if x > 3:\n        return 1\n    return 0", 2),
        ("y = 0\n    for i in x:\n        y = y + i\n    return y", 2),
        ("return [i + 1 for i in x]", 2),
        ("y = x\n    for i in range(3):\n        y = y * 2\n    return y", 2),
        ("return [1, 2] + [x]", 2),
        ("return (1 + 2) * 3", 0),
        ("return 'a'.join(x).upper()", 2),
        ("def g(a):\n        return a + 1\n    return g(g(x))", 2),
        ("return f(x - 1) if x else 0", 3),
    ],
)
def test_depth_counts_operations_on_the_longest_path(body, depth):
    assert check(f"def f(x):\n    {body}", RULES).features["depth"] == depth


def test_features_count_what_they_name():
    source = "def f(x):\n    y = 0\n\n    for i in x:\n        if i > 2:\n            y += i\n    return y\n"
    assert check(source, RULES).features == {"depth": 3, "operations": 2, "lines": 6, "branches": 1, "loops": 1}


EVERYTHING = """
import math as m
from collections import Counter, deque
K = {1: 0x10, 'a\\n\\u00e9': b'\\x00\\xff', **{}}
def g(p, /, q: int = 1.5, *r, s=None, **t) -> int:
    'Says nothing.'
    return sum(u for u in r if u is not ...) or -q
def f(x, y=10 ** 3):
    z: list = [i * 2 for i in x if i > 1]
    for i, *j in z:
        while not i: break
        else: continue
    w = lambda k: k if k else 1e999 + 2j
    return f'{x!r:>{y}}', z[1:2], g(*x, s=y), (n := 3), w(True), {1, 2}, m.pi < y <= 3
"""


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("def f(a):\n    return a", "b7895ccc1987637809aaba066ae6b5ff"),
        (EVERYTHING, "27d8d764e48f6f05a65bc02db86f2206"),
        (
            "def f(a):\n    match a:\n        case None | [1, *_] | {'k': v}:\n            return 1",
            "630cd303cc52bc40fc1f949cb1cc016c",
        ),
    ],
)
def test_the_canonical_form_never_changes(source, address):
    """Content addresses are made of it: archives of other versions of Python and of this package rely on it."""
    assert content_address(check(source, RULES).canonical) == address


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("x = None", 'Assign(targets=[Name(id="x")],value=Constant(value=None))'),
        (
            "255, True, 1.0",
            "Expr(value=Tuple(elts=[Constant(value=0xff),Constant(value=True),Constant(value=0x1.0000000000000p+0)]))",
        ),
        (r"'\u00e9', b'\xff'", r'Expr(value=Tuple(elts=[Constant(value="\u00e9"),Constant(value=bytes(ff))]))'),
        ("{**a}", 'Expr(value=Dict(keys=[None],values=[Name(id="a")]))'),
        ("def f(): pass", 'FunctionDef(args=arguments(),body=[Pass()],name="f")'),
    ],
)
def test_a_tree_is_spelled_by_what_it_says_alone(source, text):
    assert spell(ast.parse(source)) == f"Module(body=[{text}])"
