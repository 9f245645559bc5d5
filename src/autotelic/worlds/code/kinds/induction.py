"""Induction: given some input/output pairs and a message, write the program. Judged on pairs that were not shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotelic.runs.files import content_address
from autotelic.worlds.base import Proposal, Request, Task
from autotelic.worlds.code import brief, language, literals
from autotelic.worlds.code.kinds import base
from autotelic.worlds.code.kinds.base import MAX_MESSAGE, Attempt, Draft, Grade, RefusedError, Worked
from autotelic.worlds.code.programs import canonical_form
from autotelic.worlds.code.sandbox import Outcome, values

# What a failed pair says of the program, the most telling first. The last two are no evidence.
_SEVERITY = ("forged", "escape", "syntax", "exception", "unsupported", "crash", "size", "wrong", "limit", "lost")


class Induction(base.CodeKind):
    name = "induction"
    builds_on = ("deduction", "abduction")
    asks = "given input/output pairs and a message, find the program."
    answer_form = "a Python program with a function f"

    def worked(self) -> Sequence[Worked]:
        """With as many inputs as a task has; what is thought holds however few of them are shown."""
        count = self.config.inputs
        numbers, words = range(-1, count - 1), [("abc" * count)[: n + 1] for n in range(count)]
        return (
            Worked(
                "def f(a):\n    return a * a + 1",
                tuple((n,) for n in numbers),
                tuple(n * n + 1 for n in numbers),
                "The square of -1 is 1, and one more is 2.",
                "Think of squares.",
            ),
            Worked(
                "def f(a):\n    return [len(a), a[-1]]",
                tuple((word,) for word in words),
                tuple([len(word), word[-1]] for word in words),
                "'a' has 1 letter, and 'a' is the last of them.",
                "Count the letters, and look at the last.",
            ),
        )

    def example_proposal(self, worked: Worked) -> str:
        """Without the program, which the question gives."""
        return self._blocks(worked.inputs, worked.message)

    def compose(self, program: str, inputs: Sequence[tuple[Any, ...]], message: str = "") -> str:
        return f"{base.fence('python', program)}\n{self._blocks(inputs, message)}"

    def _blocks(self, inputs: Sequence[tuple[Any, ...]], message: str) -> str:
        blocks = [base.fence("input", literals.render_items(arguments)) for arguments in inputs]
        return "\n".join([*blocks, base.fence("message", message)])

    def propose_prompt(self, request: Request) -> str:
        program = request.base.spec["program"] if request.base is not None else None
        count = self.config.inputs
        task = f"write {count} different inputs for it, and a message that helps to find the program from"
        return base.paragraphs(
            f"Write a new task of the kind {self.name}: {self.asks}",
            f"Here is a program; {task} them."
            if program
            else f"Write a Python program with a function f; {task} them.",
            base.fence("python", program) if program else "",
            f"Each input is the argument list of one call, made of literals. The first {count // 2} pairs are shown to"
            " the solver with the message; the others are hidden and decide. Do not give the program away.",
            *(_reference(number, task) for number, task in enumerate(request.references, 1)),
            base.propose_context(request),
            f"Answer in this form, with {count} input blocks:\n"
            + ("" if program else base.fence("python", "def f(a):\n    return a") + "\n")
            + base.fence("input", "1")
            + "\n"
            + base.fence("message", "one or two sentences"),
        )

    def solve_prompt(self, task: Task) -> str:
        spec = task.spec
        shown = zip(spec["inputs"][: spec["shown"]], spec["outputs"][: spec["shown"]], strict=True)
        pairs = "\n".join(f"f({base.show_arguments(given)}) == {base.show_value(wanted)}" for given, wanted in shown)
        return base.paragraphs(
            "Write a Python program with a function f that does this, for these inputs and for others like them:",
            base.fence("python", pairs),
            f"Message: {spec['message']}" if spec["message"] else "",
            base.answer_rules(self.answer_form),
        )

    def brief_propose_prompt(self, request: Request) -> str:
        program = request.base.spec["program"] if request.base is not None else ""
        return f"{brief.PROPOSE}{brief.kind(self.name)}{program}{brief.ANSWER}"

    def brief_solve_prompt(self, task: Task) -> str:
        """A few of the pairs that may be shown; the message is left out, for the small language has no words."""
        spec = task.spec
        count = min(spec["shown"], brief.PAIRS)
        shown = zip(spec["inputs"][:count], spec["outputs"][:count], strict=True)
        pairs = "".join(
            f"{brief.INPUT}{base.show_arguments(given)}{brief.OUTPUT}{base.show_value(wanted)}"
            for given, wanted in shown
        )
        return f"{brief.kind(self.name)}{pairs}{brief.ANSWER}"

    def expand_proposal(self, text: str, request: Request) -> str:
        """Inputs alone for a program that was given; else the program comes first."""
        program, *inputs = ["", *text.split(brief.INPUT)] if request.base is not None else text.split(brief.INPUT)
        blocks = [base.fence("python", program)] if program else []
        return "\n".join([*blocks, *(base.fence("input", given) for given in inputs)])

    def draft(self, proposal: Proposal) -> Draft:
        blocks = base.read_blocks(proposal.text)
        sources = [body for label, body in blocks if label == "python"]
        messages = [body.strip() for label, body in blocks if label == "message"]
        # Repeated inputs would show a hidden pair, so only different ones count.
        inputs = list(dict.fromkeys(base.read_arguments(body) for label, body in blocks if label == "input"))
        if len(messages) > 1 or any(len(message) > MAX_MESSAGE for message in messages):
            raise RefusedError("format", f"needs at most one ```message of at most {MAX_MESSAGE} characters")
        if len(inputs) < self.config.inputs:
            raise RefusedError("format", f"needs {self.config.inputs} different ```input blocks, found {len(inputs)}")
        given = proposal.base.spec["program"] if proposal.base is not None else None
        if given is not None:  # what the proposer repeats of it does not matter
            source = given
        elif len(sources) == 1:
            source = sources[0].rstrip("\n")
        else:
            raise RefusedError("format", "needs exactly one ```python block")
        inputs = inputs[: self.config.inputs]
        for arguments in inputs:
            base.require_short(arguments, self.config.max_value)
        program = base.read_program(source, self.config.rules)
        return Draft(program, tuple(inputs), messages[0] if messages else "")

    def spec(self, draft: Draft, outputs: Sequence[str]) -> dict[str, Any]:
        for output in outputs:
            base.require_short(output, self.config.max_value)
        return {
            "program": draft.program.source,
            "inputs": list(draft.inputs),
            "outputs": list(outputs),
            "shown": len(outputs) // 2,
            "message": draft.message,
        }

    def true_answer(self, spec: Mapping[str, Any]) -> str:
        return spec["program"]

    def attempt(self, task: Task, text: str) -> Attempt:
        program = base.read_program(base.read_answer(text).rstrip("\n"), self.config.rules)
        return Attempt(program.source, tuple(task.spec["inputs"]))

    def grade(self, task: Task, attempt: Attempt, outcomes: Sequence[Outcome]) -> Grade:
        wanted = task.spec["outputs"][task.spec["shown"] :]
        found = [
            ("correct" if outcome.encoded == output else "wrong") if outcome.ok else base.outcome_class(outcome)
            for outcome, output in zip(outcomes[task.spec["shown"] :], wanted, strict=True)
        ]
        passed = found.count("correct")
        if passed == len(wanted):
            return Grade("correct", 1.0)
        worst = min((kind for kind in found if kind != "correct"), key=_SEVERITY.index)
        outcome = outcomes[task.spec["shown"] + found.index(worst)]
        detail = f"{outcome.detail} {outcome.message}".strip()
        score = passed / len(wanted) if self.config.partial_credit else 0.0
        return Grade(worst, score, detail or f"{passed} of {len(wanted)} hidden pairs")

    def hindsight(self, task: Task, attempt: Attempt, outcomes: Sequence[Outcome]) -> tuple[Draft, list[str]] | None:
        """The pairs that the program does give, unless they are constant or the inputs themselves."""
        outputs = [outcome.encoded or "" for outcome in outcomes]
        arguments = [values.encode(base.arguments_of(given)[0]) for given in attempt.inputs]
        if len(set(outputs[task.spec["shown"] :])) == 1 or outputs == arguments:
            return None
        return Draft(base.read_program(attempt.program or "", self.config.rules), attempt.inputs), outputs

    def gold(self, spec: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(spec["inputs"]), tuple(spec["outputs"])

    def withheld(self, spec: Mapping[str, Any]) -> list[str]:
        """The program alone, for it is the answer, whatever the inputs. But there are so few of depth 1 that hardly one
        would be left to practise: they are withheld with their inputs. A user's task has pairs and no program."""
        program = spec["program"]
        if program is None:
            return [_pairs(spec)]
        return [spec["key"]] if language.depth(program) == 1 else [content_address(canonical_form(program))]

    def asks_about(self, spec: Mapping[str, Any]) -> list[str]:
        return [*self.withheld(spec), _pairs(spec)]


def _pairs(spec: Mapping[str, Any]) -> str:
    """What an induction task gives and wants, whatever its program, its message and the order of its pairs."""
    return content_address("pairs", sorted(zip(spec["inputs"], spec["outputs"], strict=True)))


def _reference(number: int, task: Task) -> str:
    """What a proposer sees of an earlier induction task: its program and message, and the inputs chosen for it."""
    spec = task.spec
    inputs = "\n".join(
        base.fence("input", base.show_arguments(given)) for given in spec.get("inputs", [spec.get("input")])
    )
    program = base.fence("python", spec["program"]) if spec["program"] else ""
    return base.paragraphs(
        f"Reference {number} ({task.id}):", program, inputs, base.fence("message", spec.get("message", ""))
    )
