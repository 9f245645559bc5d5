"""Programs that lie: about what they return, about who they are, to the next program, to the parser."""

import json
import struct
from collections.abc import Callable

import pytest

from autotelic.worlds.code.sandbox import Job, Outcome, Sandbox, values

Attempt = Callable[..., Outcome]
FORGED = ("forbidden", "forged")

FORGER = """
import os, struct, sys, time
def say(data):
    while data:
        data = data[os.write(3, data):]
def frame(text):
    data = text if isinstance(text, bytes) else text.encode('latin-1')
    say(struct.pack('=I', len(data)) + data)
def f():
    {}
"""


def forger(*lines: str) -> str:
    return FORGER.format("\n    ".join(lines))


def frame(text: str) -> bytes:
    return struct.pack("=I", len(text)) + text.encode()


def test_a_forged_value_is_worth_what_returning_it_would_be(attempt: Attempt) -> None:
    assert attempt(forger("frame('v[\"t\",1,2]')", "os._exit(0)")) == attempt("def f():\n    return (1, 2)")


def test_a_forged_value_followed_by_a_return_is_a_forgery(attempt: Attempt) -> None:
    outcome = attempt(forger("frame('v1')", "return 2"))
    assert (outcome.kind, outcome.detail) == FORGED


def test_a_forged_value_of_a_process_that_does_not_end_well_is_not_taken(attempt: Attempt) -> None:
    assert attempt(forger("frame('v1')", "time.sleep(100)")) == Outcome("limit", detail="wall")
    assert attempt(forger("frame('v1')", "os._exit(5)")) == Outcome("crash", detail="exit 5")
    assert attempt(forger("frame('v1')", "os.kill(os.getpid(), 11)")) == Outcome("crash", detail="SIGSEGV")
    assert attempt(forger("frame('v1')", "os.fork()")) == Outcome("forbidden", detail="syscall")


def test_values_forged_for_the_other_inputs_do_not_outnumber_them(pool: Sandbox) -> None:
    inputs = tuple(values.encode(()) for _ in range(3))
    assert [o.value for o in pool.run([Job(forger("[frame('v7') for _ in 'abc']", "os._exit(0)"), inputs)])[0]] == [
        7
    ] * 3
    for lines in (["[frame('v7') for _ in 'abcd']", "os._exit(0)"], ["frame('v7')", "return 8"]):
        outcomes = pool.run([Job(forger(*lines), inputs)])[0]
        assert {(outcome.kind, outcome.detail) for outcome in outcomes} == {FORGED}


MEANINGLESS = {
    "unknown-tag": "q1",
    "job-tag": 'J{"program":""}',
    "question": 'h["a","b","[]"]',
    "answer": "A1",
    "tag-alone": "v",
    "empty-kind": "e",
    "zero-byte": "\0",
    "not-canonical": "v 1",
    "float": "v1.0",
    "float-overflow": 'v["f","0x1p99999"]',
    "wrong-order": 'v["s",2,1]',
    "unhashable": 'v["s",["l"]]',
    "two-values": "v1,2",
    "object": 'v{"a":1}',
    "constant": "vNaN",
    "deep": "v" + "[" * 20_000,
    "invalid-utf8": "v\xff\xfe",
    "latin": 'v"\xe9"',
    "line-breaks": "v1\n",
    "unknown-limit": "lpatience",
    "limit-cpu": "lcpu",
    "limit-wall": "lwall",
    "exception-number": "e[1,2]",
    "exception-short": 'e["a"]',
    "exception-object": 'e{"a":1,"b":2}',
    "exception-text": 'e"ab"',
    "exception-deep": "e" + "[" * 5000,
    "exception-long": "e" + json.dumps(["E", "m" * 20_000]),
    "exception-digits": "e" + "9" * 8000,
    "type-long": "u" + "x" * 20_000,
    "syntax-long": "s" + "x" * 20_000,
}


@pytest.mark.parametrize("name", MEANINGLESS)
def test_a_frame_we_would_not_have_sent_is_a_forgery(attempt: Attempt, name: str) -> None:
    outcome = attempt(forger(f"frame({MEANINGLESS[name]!r})", "os._exit(0)"))
    assert (outcome.kind, outcome.detail) == FORGED


LENGTHS = {
    "trailing-byte": "frame('v1'); say(b'x')",
    "trailing-frame": "frame('v1'); frame('v1')",
    "empty-frame": "say(bytes(4))",
    "half-a-length": "say(b'ab')",
    "too-short": "say(struct.pack('=I', 1) + b'v1')",
    "too-long": "say(struct.pack('=I', 9) + b'v1')",
    "gigantic": "say(struct.pack('=I', 0xFFFFFFFF) + b'v1')",
}


@pytest.mark.parametrize("name", LENGTHS)
def test_a_frame_of_a_wrong_length_is_a_forgery(attempt: Attempt, name: str) -> None:
    outcome = attempt(forger(LENGTHS[name], "os._exit(0)"))
    assert (outcome.kind, outcome.detail) == FORGED


def test_a_forged_value_over_the_size_limit_is_a_forgery(attempt: Attempt, pool: Sandbox) -> None:
    lines = ["frame('v\"' + 'a' * (1 << 18) + '\"')", "os._exit(0)"]
    outcome = attempt(forger(*lines))
    assert (outcome.kind, outcome.detail) == FORGED
    several = pool.run([Job(forger(*lines), ('["t"]', '["t"]'))])[0]
    assert (several[0].kind, several[0].detail) == FORGED


def test_a_forged_value_that_would_stall_the_parser_is_refused(attempt: Attempt) -> None:
    items = "','.join(sorted('[\"i\",\"%s\"]' % hex(k * (2 ** 61 - 1)) for k in range(5, 8000)))"
    outcome = attempt(forger(f"frame('v[\"s\",' + {items} + ']')", "os._exit(0)"))
    assert (outcome.kind, outcome.detail) == FORGED


PRETENDERS = {
    "int-subclass": ("class T(int): pass", "T(1)", "T"),
    "str-subclass": ("class T(str): pass", "T('a')", "T"),
    "list-subclass": ("class T(list): pass", "T()", "T"),
    "dict-subclass": ("class T(dict): pass", "T()", "T"),
    "tuple-subclass": ("class T(tuple): pass", "T()", "T"),
    "float-subclass": ("class T(float): pass", "T(1)", "T"),
    "named-tuple": ("from collections import namedtuple", "namedtuple('P', 'x')(1)", "P"),
    "ordered-dict": ("from collections import OrderedDict as T", "T()", "OrderedDict"),
    "enum": ("import enum", "enum.IntEnum('E', 'a').a", "E"),
    "named-int": ("", "type('int', (int,), {})(1)", "int"),
    "always-equal": ("class T:\n    def __eq__(self, o): return True\n    __hash__ = None", "T()", "T"),
    "always-true": ("class T:\n    def __bool__(self): return True", "T()", "T"),
    "equal-int": ("class T(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__", "T(1)", "T"),
    "says-class-int": ("class T:\n    __class__ = property(lambda self: int)", "T()", "T"),
    "metaclass": (
        "class M(type):\n    def __eq__(self, o): return True\n    __hash__ = type.__hash__\n"
        "    __name__ = property(lambda self: 'int')\n    def __instancecheck__(self, o): return True\n"
        "class T(metaclass=M): pass",
        "T()", None,
    ),
    "reduce": ("import os\nclass T:\n    def __reduce__(self): return (os._exit, (0,))", "T()", "T"),
    "repr": ("class T:\n    def __repr__(self): return '1'\n    __str__ = __repr__", "T()", "T"),
    "iterates": ("class T:\n    def __iter__(self): return iter([1])\n    def keys(self): return []", "T()", "T"),
    "hostile-everything": (
        "class T:\n    def __getattribute__(self, n): raise BaseException\n    def __repr__(self): raise BaseException",
        "T()", "T",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRETENDERS)
def test_an_object_that_pretends_to_be_a_value_is_unsupported(attempt: Attempt, name: str) -> None:
    definition, expression, type_name = PRETENDERS[name]
    for wrapped in (expression, f"[1, ({expression},)]", f"{{'k': {expression}}}"):
        outcome = attempt(f"{definition}\ndef f():\n    return {wrapped}")
        assert outcome.kind == "unsupported"
        assert type_name is None or outcome.detail == type_name


def test_a_key_with_a_hostile_hash_is_unsupported(attempt: Attempt) -> None:
    key = "class K(str):\n    def __hash__(self): return 1\n    def __eq__(self, o): return True\n"
    assert attempt(key + "def f():\n    return {K('a'): 1}") == Outcome("unsupported", detail="K")


EXCEPTIONS = {
    "str": "def __str__(self): os._exit(0)",
    "repr": "def __repr__(self): os._exit(0)",
    "args": "args = property(lambda self: os._exit(0))",
    "reduce": "def __reduce__(self): os._exit(0)",
    "attributes": "def __getattribute__(self, name): os._exit(0)",
    "new-class": "__class__ = property(lambda self: os._exit(0))",
    "traceback": "__traceback__ = property(lambda self: os._exit(0))",
}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_the_methods_of_an_exception_are_not_called(attempt: Attempt, name: str) -> None:
    program = f"import os\nclass E(BaseException):\n    {EXCEPTIONS[name]}\ndef f():\n    raise E('told')"
    assert attempt(program) == Outcome("exception", detail="E", message="told")


def test_the_name_of_a_type_is_told_without_running_its_metaclass(attempt: Attempt) -> None:
    program = """
class M(type):
    @property
    def __name__(cls):
        raise SystemExit("ran")
class T(metaclass=M):
    pass
def f():
    return T()
"""
    assert attempt(program) == Outcome("unsupported", detail="T")


def test_the_name_of_an_exception_cannot_be_made_up_by_its_metaclass(attempt: Attempt) -> None:
    program = """
class M(type):
    __name__ = property(lambda self: 1 // 0)
class E(Exception, metaclass=M):
    pass
def f():
    raise E('told')
"""
    assert attempt(program) == Outcome("exception", detail="E", message="told")


def test_an_exception_whose_argument_is_hostile_has_no_message(attempt: Attempt) -> None:
    program = "class S(str):\n    def __getitem__(self, i): return 'forged'\ndef f():\n    raise ValueError(S('x'))"
    assert attempt(program) == Outcome("exception", detail="ValueError")


VANDALS = {
    "builtins": "import builtins\nbuiltins.sum = lambda *a: 13\nbuiltins.len = builtins.sorted = None",
    "builtins-through-globals": "__builtins__.sum = lambda *a: 13",
    "json": "import json\njson.dumps = json.loads = lambda *a: '13'",
    "modules": "import sys\nsys.modules.clear()",
    "struct": "import struct\nstruct.pack = struct.Struct = None",
    "frames": (
        "import sys\nframe = sys._getframe()\nwhile frame:\n"
        "    for name in list(frame.f_globals):\n"
        "        if name in ('report', 'run_job', 'obey', 'load', 'Channel', 'fork'): frame.f_globals[name] = None\n"
        "    frame = frame.f_back"
    ),
    "harness-encode": (
        "import sys\nframe = sys._getframe()\nwhile frame:\n"
        "    if 'values' in frame.f_globals: frame.f_globals['values'].encode = lambda *a: '13'\n"
        "    frame = frame.f_back"
    ),
    "collector": (
        "import gc\nfor thing in gc.get_objects():\n"
        "    if type(thing) is dict and 'encode' in thing and 'decode' in thing: thing['_encode'] = lambda *a: '13'"
    ),
    "trace": "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)",
    "audit": "import sys\nsys.addaudithook(lambda *a: 1 // 0)",
    "codecs": "import codecs\ncodecs.register_error('backslashreplace', lambda e: ('', 99))",
    "small-int": "import ctypes\nctypes.c_long.from_address(id(42) + 24).value = 13",
    "true": "import ctypes\nctypes.memmove(id(True) + 24, id(False) + 24, 8)",
    "int-type": "import ctypes, gc\ngc.get_referents(int.__dict__)[0]['__repr__'] = lambda self: '13'",
    "seed": "import random\nrandom.seed(13)\nrandom.random = lambda: 13",
    "import": "import builtins\nbuiltins.__import__ = None",
    "exit": "import os\nos._exit = lambda n: None",
    "write": "import os\nos.write = lambda *a: 1",
    "os-read": "import os\nos.read = os.close = os.dup2 = None",
}  # fmt: skip


@pytest.mark.parametrize("name", VANDALS)
def test_what_a_program_breaks_is_whole_for_the_next(attempt: Attempt, name: str) -> None:
    honest = "import random\ndef f():\n    return sum([20, 22]), len('ab'), sorted([2, 1]), 42, True, random.random()"
    before = attempt(honest, server=0)
    attempt(f"def f():\n    exec({VANDALS[name]!r}, globals())\n    return 1", server=0)
    assert before.ok
    assert attempt(honest, server=0) == before


NEEDLE = "needle-of-{}"
HUNTER = """
import ctypes, gc, re, sys
def f(needle):
    pattern, raw = re.compile(needle), re.compile(needle.encode())  # a spelling that does not match itself
    own = []
    for thing in gc.get_objects():
        for inner in (thing, *gc.get_referents(thing)):
            if type(inner) is str and pattern.search(inner): own.append('object')
    frame = sys._getframe()
    while frame:
        if any(type(v) is str and pattern.search(v) for v in frame.f_locals.values()): own.append('frame')
        frame = frame.f_back
    # The heap around what we know of: arenas of the allocator are a megabyte, aligned.
    spots = {id(thing) >> 20 for thing in (*gc.get_objects(), *map(str, range(999)))}
    found = 0
    for spot in sorted(spots)[:60]:
        try:
            found += len(raw.findall(READ(spot << 20, 1 << 20)))
        except OSError:
            pass
    return own, found
"""


def test_a_secret_of_one_job_is_not_found_by_the_next(attempt: Attempt) -> None:
    # Memory is read only where the process itself has mapped it: pipe() refuses the rest instead of ending us.
    reader = """
import os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
def READ(address, size):
    r, w = os.pipe()
    out = []
    for at in range(address, address + size, 4096):
        if libc.write(w, ctypes.c_void_p(at), 4096) == 4096:
            out.append(os.read(r, 4096))
    os.close(r); os.close(w)
    return b''.join(out)
"""
    hunter = reader + HUNTER
    keeper = "kept = []\ndef f(secret):\n    kept.append(secret * 50)\n    return len(kept[0])"
    secret = NEEDLE.format("one-job")
    assert attempt(keeper, secret, server=0).value == 50 * len(secret)
    assert attempt(hunter, "needle-of-one-jo[b]", server=0).value == ([], 0)
    # The hunt itself works: it finds what is there.
    own = hunter.replace(
        "def f(needle):", "planted = ['needle-of-' + 'one-job' + str(i) for i in range(99)]\ndef f(needle):"
    )
    objects, found = attempt(own, "needle-of-one-jo[b]", server=0).value
    assert objects
    assert found > 0


def test_a_secret_of_one_job_is_not_found_by_one_beside_it(pool: Sandbox) -> None:
    keeper = "import time\ndef f(secret):\n    kept = [secret] * 9\n    time.sleep(.5)\n    return len(kept)"
    hunter = "import time\ntime.sleep(.2)\nREAD = lambda *a: b''\n" + HUNTER
    jobs = [
        Job(keeper, (values.encode((NEEDLE.format("a-neighbour"),)),), server=0),
        Job(hunter, (values.encode(("needle-of-a-neighbou[r]",)),), server=0),
    ]
    kept, hunted = (outcomes[0].value for outcomes in pool.run(jobs))
    assert (kept, hunted) == (9, ([], 0))


def test_the_job_knows_nothing_but_itself(attempt: Attempt) -> None:
    program = """
import gc
def f():
    return [k for d in gc.get_objects() if type(d) is dict for k in d if k in ('expected', 'gold', 'answer', 'outcome')]
"""
    assert attempt(program).value == []
