"""HumanEval (arXiv 2107.03374): given a signature and a docstring, write the function. A hidden test decides.

Only to measure with: nobody proposes such tasks. The test is code, `check(candidate)`, and neither it nor the answer is
trusted. Were they to share a process, as they do in the published harness, the answer could end it with success, patch
what the test calls, return an object that is equal to everything, or look for the expected values in the test's memory.
So each has a sandboxed process of its own, and the host stands between them: when the test calls its candidate, the
host takes the arguments, which are plain data, calls the answer in the other process, and gives back what came out, if
that is plain data as well. The answer meets no expected value, and no object of its making reaches the test.

An answer that fails in any call has failed, whatever the test makes of it; and a test that asks nothing proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autotelic.worlds.base import Kind, Request, Task
from autotelic.worlds.code import programs
from autotelic.worlds.code.kinds import base
from autotelic.worlds.code.kinds.base import Grade, RefusedError
from autotelic.worlds.code.sandbox import Outcome, Remote, RemoteError, Sandbox, values

# How values travel between the two processes: containers become tagged lists, because a dict would lose its order at
# the border. Instances of subclasses become what they are instances of: a Counter is equal to a dict, and is one here.
PACKING = """
def pack(value):
    for tag, kind in kinds.items():
        if isinstance(value, kind):
            return [tag, *map(pack, value.items() if kind is dict else value)]
    for kind in (bool, int, float, str, bytes):
        if isinstance(value, kind):
            return value if type(value) is kind else kind(value)
    return value

def unpack(value):
    return kinds[value[0]](map(unpack, value[1:])) if type(value) is list else value

kinds = {"d": dict, "l": list, "t": tuple, "s": set, "z": frozenset}
"""

# What the answer's process runs. The answer comes as data, after the prompt, whose imports and helpers it may use. It
# can change all of this, but whatever it does, only plain data leaves its process.
ANSWERING = f"""{PACKING}
names = {{"__name__": "__program__"}}

def load(source):
    exec(compile(source, "<program>", "exec"), names)

def call(entry, args, keywords):
    return pack(names[entry](*unpack(args), **unpack(keywords)))
"""

# What the test's process runs, after the prompt and the test: one test calls its candidate by the function's own name.
EXAMINING = f"""{PACKING}
def examine(entry, answer):
    def candidate(*args, **keywords):
        return unpack(answer.call(pack(args), pack(keywords)))

    globals()[entry] = candidate
    check(candidate)
"""


class HumanEval(Kind):
    name = "humaneval"

    def propose_prompt(self, request: Request) -> str:
        raise ValueError("tasks of the kind humaneval are given, not proposed")

    def solve_prompt(self, task: Task) -> str:
        return base.paragraphs(
            "Write this function, so that it does what is said of it:",
            base.fence("python", task.spec["prompt"].strip("\n")),
            base.answer_rules(f"a Python program with the whole function {task.spec['entry']}"),
        )

    def examine(self, task: Task, text: str, sandbox: Sandbox, server: int) -> Grade:
        """What the hidden test says of an answer."""
        entry = task.spec["entry"]
        try:
            source = base.read_answer(text)
            programs.check(source, programs.Rules([], []), entry)
        except RefusedError as refused:
            return Grade(refused.outcome, detail=refused.reason)
        except programs.ProgramError as error:
            return Grade(error.outcome, detail=error.reason)
        # What leaves one process has to enter the other.
        limits = replace(sandbox.config.limits, output=min(sandbox.config.limits.output, values.MAX_BYTES))
        with sandbox.open(ANSWERING, limits=limits, server=server) as answering:
            for part in (task.spec["prompt"], source):
                loaded = answering.call("load", part)
                if not loaded.ok:
                    return _failed(loaded)
            calls: list[Outcome] = []

            def answer(_remote: str, _method: str, args: tuple[Any, ...], _keywords: dict[str, Any]) -> Any:
                calls.append(answering.call("call", entry, *args))
                if calls[-1].ok:
                    return calls[-1].value
                raise RemoteError("RuntimeError", "the candidate failed")

            hidden = "\n\n".join((task.spec["prompt"], task.spec["test"], EXAMINING))
            with sandbox.open(hidden, limits=limits, server=server + 1) as examining:
                found = examining.loaded
                if found.ok:
                    found = examining.call("examine", entry, Remote("answer", ("call",)), answer=answer)
        return _judged(calls, found)


def _judged(calls: Sequence[Outcome], found: Outcome) -> Grade:
    """From what became of the calls of the candidate, and of the test."""
    failure = next((call for call in calls if not call.ok), None)
    if failure is not None:
        return _failed(failure)
    if found.kind == "exception":
        return Grade("wrong", detail=f"the test ends in {found.detail}")
    if not found.ok:
        return _failed(found)
    return Grade("correct", 1.0) if calls else Grade("wrong", detail="the test asked nothing")


def _failed(outcome: Outcome) -> Grade:
    return Grade(base.outcome_class(outcome), detail=f"{outcome.detail} {outcome.message}".strip())
