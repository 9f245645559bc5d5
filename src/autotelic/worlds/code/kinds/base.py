"""What the kinds of the code world share: the shape of their texts, and the steps from text to verdict.

A kind says how a task is asked and answered, which programs are run to admit a proposal or judge an answer, and what
their outcomes mean. The world runs them, all kinds in one batch. To add a kind, write a class like these three and
name it in `kinds/__init__.py`, or in the entry point group `autotelic.kinds`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from autotelic.errors import UserError
from autotelic.runs.files import content_address
from autotelic.worlds.base import Kind, Proposal, Request, Task
from autotelic.worlds.code import brief, literals
from autotelic.worlds.code.literals import MAX_TEXT
from autotelic.worlds.code.programs import Program, ProgramError, Rules, canonical_form, check
from autotelic.worlds.code.sandbox import Outcome, values

MAX_MESSAGE = 2_000


class RefusedError(Exception):
    """A proposal or an answer that comes to nothing: its class and the reason."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


@dataclass
class KindConfig:
    """What the kinds can be told."""

    inputs: int = 6  # of an induction task; the first half is shown, the other half is hidden (published: 10)
    partial_credit: bool = False  # induction: the score is the share of hidden pairs; solved still means all of them
    max_value: int = 20_000  # characters of an input or output as a literal: it has to fit into a prompt
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True)
class Draft:
    """A proposal that was understood: what is to be run, each input a canonical text of a tuple of arguments."""

    program: Program
    inputs: tuple[str, ...]
    message: str = ""


@dataclass(frozen=True)
class Attempt:
    """An answer that was understood: a program to run on inputs, or, where nothing is run, a value."""

    program: str | None = None
    inputs: tuple[str, ...] = ()
    value: str | None = None


@dataclass(frozen=True)
class Grade:
    """What the outcomes of an attempt mean."""

    outcome: str
    score: float = 0.0
    detail: str = ""
    progress: float | None = None  # how far the attempt came, 0 to 1, where the score does not say it


@dataclass(frozen=True)
class Worked:
    """A worked example: a task with its outputs, and how its answer is found."""

    program: str
    inputs: tuple[tuple[Any, ...], ...]
    outputs: tuple[Any, ...]
    thought: str
    message: str = ""


def outcome_class(outcome: Outcome) -> str:
    """The class of a rejection or verdict that an outcome stands for. Time limits stay apart from the other limits,
    because they alone depend on the machine; so do the three ways to go around the judge."""
    if outcome.kind == "limit":
        return "limit" if outcome.detail in ("cpu", "wall") else "size"
    if outcome.kind == "forbidden":
        return "forged" if outcome.detail == "forged" else "escape"
    if outcome.kind == "crash":
        return "lost" if outcome.detail == "server" else "crash"
    return outcome.kind


class CodeKind(Kind):
    """A kind of the code world. The texts of proposals and answers are read here and nowhere else."""

    name: ClassVar[str]
    asks: ClassVar[str]  # one line: what a solver is given and has to find
    answer_form: ClassVar[str]  # what stands between <answer> and </answer>

    def __init__(self, config: KindConfig) -> None:
        self.config = config

    # Texts

    @abstractmethod
    def compose(self, program: str, inputs: Sequence[tuple[Any, ...]], message: str = "") -> str:
        """A proposal, as a player that has its parts writes it."""

    def expand_answer(self, text: str) -> str:
        """The brief wording has one answer and nothing before it: a text with a second mark is left without a block."""
        return text if brief.ANSWER in text else answer_text(text)

    def true_answer(self, spec: Mapping[str, Any]) -> str:
        """A right answer, from the facts of a task: what stands in its <answer> block."""
        raise UserError(f"tasks of the kind {self.name} come without right answers: they cannot be shown or taught")

    def worked(self) -> Sequence[Worked]:
        """What examples are made of; a kind that has any says `true_answer` as well."""
        return ()

    def propose_examples(self) -> list[tuple[str, str]]:
        found = []
        for worked, _ in self._worked_specs():
            base = Task("", "code", self.name, {"program": worked.program}) if self.builds_on else None
            found.append((self.propose_prompt(Request(self.name, base=base)), self.example_proposal(worked)))
        return found

    def solve_examples(self) -> list[tuple[str, str]]:
        return [
            (self.solve_prompt(Task("", "code", self.name, spec)), answer_text(self.true_answer(spec), worked.thought))
            for worked, spec in self._worked_specs()
        ]

    def example_proposal(self, worked: Worked) -> str:
        return self.compose(worked.program, worked.inputs, worked.message)

    def _worked_specs(self) -> Iterator[tuple[Worked, dict[str, Any]]]:
        """The worked examples as tasks, without those that are against the rules as they are configured."""
        for worked in self.worked():
            inputs = tuple(values.encode(arguments) for arguments in worked.inputs)
            try:
                draft = Draft(read_program(worked.program, self.config.rules), inputs, worked.message)
                yield worked, self.spec(draft, [values.encode(output) for output in worked.outputs])
            except RefusedError:
                continue

    # From text to verdict

    @abstractmethod
    def draft(self, proposal: Proposal) -> Draft:
        """What a proposal asks to be run; RefusedError if it cannot be read."""

    @abstractmethod
    def spec(self, draft: Draft, outputs: Sequence[str]) -> dict[str, Any]:
        """The task's content, from the outputs that two servers agreed on; RefusedError if it makes no task."""

    @abstractmethod
    def attempt(self, task: Task, text: str) -> Attempt:
        """What an answer asks to be run; RefusedError if it cannot be read."""

    @abstractmethod
    def grade(self, task: Task, attempt: Attempt, outcomes: Sequence[Outcome]) -> Grade:
        """What the outcomes of an attempt's program say; none where it runs nothing."""

    def gold(self, spec: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The inputs and outputs that the task's own program must still agree with whenever the task is used."""
        return (spec["input"],), (spec["output"],)

    def hindsight(self, task: Task, attempt: Attempt, outcomes: Sequence[Outcome]) -> tuple[Draft, list[str]] | None:
        """What a wrong answer is right for: the draft of another task, and its outputs. None where an answer is no part
        of a task, as a value that a program never gave."""
        return None

    def withheld(self, spec: Mapping[str, Any]) -> list[str]:
        """What no proposal may ask about if this task is held out: here the program together with its inputs."""
        return [spec["key"]]


# --- reading --------------------------------------------------------------------------------------------------------


def read_blocks(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a text: (label, content)."""
    if len(text) > MAX_TEXT:
        raise RefusedError("format", f"longer than {MAX_TEXT} characters")
    blocks: list[tuple[str, str]] = []
    label, body = None, []
    # Line by line, not by a regular expression: a text full of opened fences must not take quadratic time.
    for line in text.replace("\r\n", "\n").split("\n"):
        if label is None:
            if line.startswith("```"):
                label, body = line[3:].strip().lower(), []
        elif line.rstrip() == "```":
            blocks.append((label, "\n".join(body)))
            label = None
        else:
            body.append(line)
    return blocks


def read_program(source: str, rules: Rules) -> Program:
    try:
        return check(source, rules)
    except ProgramError as error:
        raise RefusedError(error.outcome, error.reason) from None


def read_arguments(text: str) -> str:
    """The canonical text of an argument list."""
    try:
        return values.encode(literals.parse_arguments(text))
    except literals.LiteralError as error:
        raise RefusedError("format", f"not a list of literals: {error}") from None


def read_answer(text: str) -> str:
    """What stands in the last <answer> block; thinking before it is free."""
    if len(text) > MAX_TEXT:
        raise RefusedError("format", f"longer than {MAX_TEXT} characters")
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, max(end, 0))
    if start < 0:
        raise RefusedError("format", "no <answer> block")
    body = text[start + len("<answer>") : end].strip()
    blocks = read_blocks(body) if body.startswith("```") and body.endswith("```") else []
    return blocks[0][1] if len(blocks) == 1 else body


def require_short(encoded: str, limit: int) -> None:
    """Refuses a value that does not fit into a prompt. Values are never cut."""
    if len(encoded) > 4 * limit or len(literals.render(values.decode(encoded))) > limit:
        raise RefusedError("size", f"a value of more than {limit} characters")


# --- writing --------------------------------------------------------------------------------------------------------


def fence(label: str, body: str) -> str:
    return f"```{label}\n{body}\n```"


def arguments_of(encoded: str) -> tuple[Any, ...]:
    """The arguments that an input's canonical text stands for."""
    arguments: Any = values.decode(encoded)
    return arguments


def show_arguments(encoded: str) -> str:
    return literals.render_items(arguments_of(encoded))


def show_value(encoded: str) -> str:
    return literals.render(values.decode(encoded))


def answer_text(body: str, thought: str = "") -> str:
    """An answer in the form every kind reads."""
    return f"<think>{thought}</think><answer>{body}</answer>"


def propose_context(request: Request) -> str:
    """What a proposer is told of the run so far."""
    lines = []
    if request.difficulty is not None:
        lines.append(f"Wanted difficulty: about {round(100 * request.difficulty)} % of attempts should fail.")
    if request.wanted:
        features = ", ".join(f"{name} {value:.3g}" for name, value in sorted(request.wanted.items()))
        lines.append(f"Features wanted, about: {features}.")
    if request.recent:
        lines.append(f"Newest tasks, do not repeat them: {', '.join(request.recent)}.")
    if request.outcomes:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(request.outcomes.items()))
        lines.append(f"Proposals so far: {counts}.")
    if request.lately:
        rates = ", ".join(
            f"{sort} {100 * rate:.0f} %".strip()
            for sort, rate in sorted(request.lately.items(), key=lambda row: row[1])
        )
        lines.append(f"Attempts that succeeded lately: {rates}.")
    return "\n".join(lines)


def paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def answer_rules(form: str) -> str:
    return f"Think first, then answer, in this form:\n<think>your reasoning</think><answer>{form}</answer>"


# --- proposals of one program with one input: deduction and abduction share them ------------------------------------


SINGLE = (
    Worked("def f(a):\n    return a[::-1] + '!'", (("cat",),), ("tac!",), "'cat' backwards is 'tac'; then '!'."),
    Worked("def f(a, b):\n    return [a] * b + [b]", ((7, 2),), ([7, 7, 2],), "[7] twice is [7, 7]; then [2]."),
)


class SingleKind(CodeKind):
    """A task made of a program, one input and its output."""

    def compose(self, program: str, inputs: Sequence[tuple[Any, ...]], message: str = "") -> str:
        return f"{fence('python', program)}\n{fence('input', literals.render_items(inputs[0]))}"

    def propose_prompt(self, request: Request) -> str:
        references = [
            paragraphs(
                f"Reference {number} ({task.id}):",
                fence("python", task.spec["program"]),
                fence("input", show_arguments(task.spec["input"])),
            )
            for number, task in enumerate(request.references, 1)
        ]
        return paragraphs(
            f"Write a new task of the kind {self.name}: {self.asks}",
            "Write one Python program with a function f, and one input for it. The program must be deterministic, must"
            " return a value, and may not read files, the clock or chance. The input is the argument list of one call,"
            " made of literals.",
            *references,
            propose_context(request),
            "Make it different from the references. Answer in this form:\n"
            + fence("python", "def f(a):\n    return a")
            + "\n"
            + fence("input", "1"),
        )

    def brief_propose_prompt(self, request: Request) -> str:
        shown = "".join(
            f"{brief.REFERENCE}{task.spec['program']}{brief.INPUT}{show_arguments(task.spec['input'])}"
            for task in request.references
        )
        return f"{brief.PROPOSE}{brief.kind(self.name)}{shown}{brief.ANSWER}"

    def expand_proposal(self, text: str, request: Request) -> str:
        program, _, given = text.partition(brief.INPUT)
        return f"{fence('python', program)}\n{fence('input', given)}"

    def draft(self, proposal: Proposal) -> Draft:
        blocks = read_blocks(proposal.text)
        sources = [body for label, body in blocks if label == "python"]
        inputs = [body for label, body in blocks if label == "input"]
        if len(sources) != 1 or len(inputs) != 1:
            raise RefusedError("format", "needs exactly one ```python and one ```input block")
        arguments = read_arguments(inputs[0])
        require_short(arguments, self.config.max_value)
        return Draft(read_program(sources[0].rstrip("\n"), self.config.rules), (arguments,))

    def spec(self, draft: Draft, outputs: Sequence[str]) -> dict[str, Any]:
        require_short(outputs[0], self.config.max_value)
        return {"program": draft.program.source, "input": draft.inputs[0], "output": outputs[0]}

    def asks_about(self, spec: Mapping[str, Any]) -> list[str]:
        """The program with the input, and with the output: the same three are asked in both kinds."""
        return [spec["key"], question(spec)]


def question(spec: Mapping[str, Any]) -> str:
    """What abduction asks: renamed copies of a program that shall give an output are one question."""
    return content_address(canonical_form(spec["program"]), "gives", spec["output"])
