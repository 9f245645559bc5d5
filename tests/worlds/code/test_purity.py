"""Which programs can be seen to give the same for the same input."""

import numpy as np
import pytest

from autotelic.worlds.code import language
from autotelic.worlds.code.purity import is_pure
from autotelic.worlds.code.sandbox import values


def test_all_of_the_small_language_is_pure():
    rng = np.random.default_rng(0)
    programs = [language.random_program(rng, 1 + at % 4).program for at in range(400)]
    assert all(is_pure(program, ['["t",[1,["l",2]]]']) for program in programs)


@pytest.mark.parametrize(
    "body",
    [
        "def f(a, seen=[]):\n    return len(seen)",
        "def f(*a):\n    return len(a)",
        "def f(a: int):\n    return a",
        "seen = []\ndef f(a):\n    return len(seen)",
        "def f(a):\n    return hash(a)",
        "def f(a):\n    return id(a)",
        "def f(a):\n    global b\n    b = a\n    return b",
        "def f(a):\n    f.b = a\n    return f.b",
        "def f(a):\n    return a.append(1)",
        "def f(a):\n    return len({1, 2})",
        "def f(a):\n    return {1: a}[1]",
        "def f(a):\n    return f'{a}'",
        "def f(a):\n    return (lambda: a)()",
        "def f(a):\n    def g():\n        return a\n    return g()",
        "def f(a):\n    import time\n    return 1",
        "def f(a):\n    while a:\n        a = a - 1\n    return a",
        "def f(a):\n    return sorted(a, key=id)",
        "def f(a):\n    return sum([i for i in a if (b := i)])",
        "def f(a):\n    return 0.1",
        "def f(a):\n    return __builtins__",
        "def f(a):\n    return f",
        "def f(a):\n    a[0] = 1\n    return a",
        "def f(a):\n    return (y for y in a)",
        "def f(a):\n    y = [0 for eval in '']\n    return eval('1')",
        "def f(a):\n    y = [0 for vars in '']\n    return len(vars())",
        "def f(a):\n    y = [0 for __builtins__ in '']\n    return len(__builtins__)",
        "def f(a):\n    y = [0 for f in '']\n    return f",
        "def f(len):\n    return len",
        "def f(a):\n    return '%s' % len",
        "def f(a):\n    return str(a.count)",
        "def f(a):\n    return a.count(1)",
        "def f(a):\n    return a is 1",
        "def f[T: eval('1')](a):\n    return a",
        "def f(a):\n    return a[0](1)",
        "@str\ndef f(a):\n    return a",
        "not python",
    ],
)
def test_what_could_remember_or_vary_is_not(body):
    assert not is_pure(body, [])


@pytest.mark.parametrize("given", [{"a", "b"}, [1, {"k": frozenset("ab")}]])
def test_a_call_with_a_set_inside_is_not(given):
    program = "def f(a):\n    return [y for y in a]"
    assert is_pure(program, [values.encode(('words like ["s"', [1]))])
    assert not is_pure(program, [values.encode((given,))])
