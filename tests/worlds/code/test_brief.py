"""The brief wording: what a mind with a small vocabulary reads and writes, and babble, which has its form alone."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from autotelic.worlds.base import Answer, Proposal, Request, Task
from autotelic.worlds.code import brief, inference, language, literals
from autotelic.worlds.code.kinds.base import KindConfig
from autotelic.worlds.code.sandbox import Job, values
from autotelic.worlds.code.world import CodeWorld, CodeWorldConfig

KINDS = ("deduction", "abduction", "induction")
PROGRAM = "def f(x):\n    return x + 3"


@pytest.fixture(scope="module")
def world():
    with CodeWorld(CodeWorldConfig(heldout=False, kind=KindConfig(inputs=6))) as opened:
        yield opened


def single(kind: str) -> Task:
    return Task("id", "code", kind, {"program": PROGRAM, "input": values.encode((5,)), "output": values.encode(8)})


def several(shown: int) -> Task:
    inputs, outputs = zip(*((values.encode((k,)), values.encode(k + 3)) for k in range(2 * shown)), strict=True)
    spec = {"program": PROGRAM, "inputs": list(inputs), "outputs": list(outputs), "shown": shown, "message": "adds"}
    return Task("id", "code", "induction", spec)


# Wording


def test_a_deduction_is_asked_with_program_and_input(world):
    assert world.kinds["deduction"].brief_solve_prompt(single("deduction")) == (f"<deduction>{PROGRAM}<input>5<answer>")


def test_an_abduction_is_asked_with_program_and_output(world):
    assert world.kinds["abduction"].brief_solve_prompt(single("abduction")) == (
        f"<abduction>{PROGRAM}<output>8<answer>"
    )


def test_an_induction_is_asked_with_pairs_that_are_shown(world):
    prompt = world.kinds["induction"].brief_solve_prompt(several(2))
    assert prompt == "<induction><input>0<output>3<input>1<output>4<answer>"


def test_an_induction_shows_no_more_pairs_than_are_read(world):
    prompt = world.kinds["induction"].brief_solve_prompt(several(brief.PAIRS + 2))
    assert prompt.count(brief.OUTPUT) == brief.PAIRS


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_a_proposal_is_asked_for_with_its_references(world, kind):
    ask = world.kinds[kind].brief_propose_prompt
    assert ask(Request(kind)) == f"<propose><{kind}><answer>"
    assert ask(Request(kind, references=(single(kind),))) == (f"<propose><{kind}><reference>{PROGRAM}<input>5<answer>")


def test_inputs_are_asked_for_with_the_program_to_build_on(world):
    prompt = world.kinds["induction"].brief_propose_prompt(Request("induction", base=single("abduction")))
    assert prompt == f"<propose><induction>{PROGRAM}<answer>"


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_a_brief_proposal_becomes_the_task_it_stands_for(world, kind):
    text = world.kinds[kind].expand_proposal(f"{PROGRAM}<input>5", Request(kind))
    (task,) = world.admit([Proposal(kind, text)], seed=0)
    assert {name: task.spec[name] for name in ("program", "input", "output")} == single(kind).spec


@pytest.mark.parametrize("given", [None, single("deduction")], ids=["own program", "given program"])
def test_brief_inputs_become_the_induction_they_stand_for(world, given):
    inputs = "<input>".join(map(str, range(6)))
    text = inputs if given else f"{PROGRAM}<input>{inputs}"
    expanded = world.kinds["induction"].expand_proposal(text, Request("induction", base=given))
    (task,) = world.admit([Proposal("induction", expanded, base=given)], seed=0)
    assert (task.spec["program"], task.spec["inputs"]) == (PROGRAM, several(3).spec["inputs"])


@pytest.mark.parametrize(("kind", "right"), [("deduction", "8"), ("abduction", "5"), ("induction", PROGRAM)])
def test_a_brief_answer_is_judged_like_any_other(world, kind, right):
    proposal = world.restate(kind, several(3).spec if kind == "induction" else single(kind).spec)
    (task,) = world.admit([proposal], seed=0)
    said = world.kinds[kind].expand_answer(right)
    assert world.judge([(task, Answer(said))], seed=0)[0].solved


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
@pytest.mark.parametrize("said", ["", "<input>", f"{PROGRAM}", f"{PROGRAM}<input>", f"{PROGRAM}<input>5<input>6"])
def test_a_brief_proposal_out_of_form_is_rejected_not_an_error(world, kind, said):
    (result,) = world.admit([Proposal(kind, world.kinds[kind].expand_proposal(said, Request(kind)))], seed=0)
    assert not isinstance(result, Task)


# Babble


def heard(world: CodeWorld, count: int = 360) -> list[tuple[str, str]]:
    return world.babble(np.random.default_rng(11), count)


def of_kind(world: CodeWorld, start: str, count: int = 360) -> list[tuple[str, str]]:
    found = [pair for pair in heard(world, count) if pair[0].startswith(start)]
    assert len(found) > count / 12, f"hardly any babble begins with {start}"
    return found


def encoded(arguments: str) -> str:
    return values.encode(literals.parse_arguments(arguments))


def between(prompt: str, before: str, after: str) -> list[str]:
    return re.findall(f"{before}(.*?)(?={after}|$)", prompt, re.DOTALL)


def test_babble_is_of_every_kind_in_both_roles(world):
    beginnings = {re.sub(r"^((?:<propose>)?<\w+>).*", r"\1", prompt, flags=re.DOTALL) for prompt, _ in heard(world)}
    assert beginnings == {f"{role}<{kind}>" for kind in KINDS for role in ("", "<propose>")}


def test_babble_is_made_of_the_tokens_of_the_world(world):
    pieces = re.compile("(?:" + "|".join(map(re.escape, sorted(world.tokens, key=len, reverse=True))) + ")*")
    for prompt, reply in heard(world):
        assert pieces.fullmatch(prompt), prompt
        assert pieces.fullmatch(reply), reply
        assert reply


def test_equal_generators_babble_equally_and_others_do_not(world):
    assert heard(world, 30) == heard(world, 30)
    assert world.babble(np.random.default_rng(12), 30) != heard(world, 30)


def test_babble_asks_for_deductions_as_the_kind_does(world):
    for prompt, _ in of_kind(world, "<deduction>"):
        (program,), (given,) = between(prompt, "<deduction>", "<input>"), between(prompt, "<input>", "<answer>")
        task = Task("id", "code", "deduction", {"program": program, "input": encoded(given)})
        assert world.kinds["deduction"].brief_solve_prompt(task) == prompt


def test_babble_asks_for_abductions_as_the_kind_does(world):
    for prompt, _ in of_kind(world, "<abduction>"):
        (program,), (wanted,) = between(prompt, "<abduction>", "<output>"), between(prompt, "<output>", "<answer>")
        spec = {"program": program, "output": values.encode(literals.parse_value(wanted))}
        assert world.kinds["abduction"].brief_solve_prompt(Task("id", "code", "abduction", spec)) == prompt


def test_babble_asks_for_inductions_as_the_kind_does(world):
    for prompt, _ in of_kind(world, "<induction>"):
        inputs = [encoded(given) for given in between(prompt, "<input>", "<output>")]
        outputs = [
            values.encode(literals.parse_value(text)) for text in between(prompt, "<output>", "<input>|<answer>")
        ]
        spec = {"inputs": inputs * 2, "outputs": outputs * 2, "shown": world.config.kind.inputs // 2}
        assert world.kinds["induction"].brief_solve_prompt(Task("id", "code", "induction", spec)) == prompt


@pytest.mark.parametrize("kind", ["deduction", "abduction"])
def test_babble_asks_for_proposals_as_the_kind_does(world, kind):
    for prompt, _ in of_kind(world, f"<propose><{kind}>"):
        shown = [reference.split("<input>") for reference in between(prompt, "<reference>", "<reference>|<answer>")]
        specs = [{"program": program, "input": encoded(given)} for program, given in shown]
        request = Request(kind, references=tuple(Task("id", "code", kind, spec) for spec in specs))
        assert world.kinds[kind].brief_propose_prompt(request) == prompt


def test_babble_asks_for_inputs_as_the_kind_does(world):
    for prompt, _ in of_kind(world, "<propose><induction>"):
        (program,) = between(prompt, "<induction>", "<answer>")
        request = Request("induction", base=Task("id", "code", "deduction", {"program": program}))
        assert world.kinds["induction"].brief_propose_prompt(request) == prompt


@pytest.mark.parametrize("kind", KINDS)
def test_proposals_of_babble_become_tasks(world, kind):
    proposals = []
    for prompt, reply in of_kind(world, f"<propose><{kind}>"):
        base = None
        if kind == "induction":
            base = Task("id", "code", "deduction", {"program": between(prompt, "<induction>", "<answer>")[0]})
        text = world.kinds[kind].expand_proposal(reply, Request(kind, base=base))
        proposals.append(Proposal(kind, text, base=base))
    results = world.admit(proposals, seed=0)
    assert sum(isinstance(result, Task) for result in results) >= 0.95 * len(results)
    assert all(isinstance(result, Task) or result.outcome != "format" for result in results)


def test_answers_of_babble_are_values_of_the_right_type(world):
    for prompt, reply in of_kind(world, "<deduction>"):
        (program,), (given,) = between(prompt, "<deduction>", "<input>"), between(prompt, "<input>", "<answer>")
        takes = language.type_of(literals.parse_value(given))
        assert language.type_of(literals.parse_value(reply)) == inference.output_type(program, takes or "")
    for prompt, reply in of_kind(world, "<abduction>"):
        (program,) = between(prompt, "<abduction>", "<output>")
        assert inference.output_type(program, language.type_of(literals.parse_value(reply)) or "")


def test_programs_that_babble_answers_with_take_the_inputs_shown(world):
    for prompt, reply in of_kind(world, "<induction>"):
        takes = {language.type_of(literals.parse_value(given)) for given in between(prompt, "<input>", "<output>")}
        gives = {
            language.type_of(literals.parse_value(text)) for text in between(prompt, "<output>", "<input>|<answer>")
        }
        (takes,) = takes
        assert {inference.output_type(reply, takes or "")} == gives


# Nothing to learn: an answer of babble is no truer than another one of its type.


def run(world: CodeWorld, jobs: list[tuple[str, str]]) -> list[str | None]:
    """What each program gives for an argument list; None if nothing."""
    outcomes = world.sandbox.run([Job(program, (encoded(given),)) for program, given in jobs])
    return [outcome.encoded if outcome.ok else None for (outcome,) in outcomes]


def swapped(replies: list[str]) -> list[str]:
    """For each reply the next one of its type."""
    places: dict[str, list[int]] = {}
    for at, reply in enumerate(replies):
        places.setdefault(str(language.type_of(literals.parse_value(reply))), []).append(at)
    others = list(replies)
    for members in places.values():
        for at, other in zip(members, members[1:] + members[:1], strict=True):
            others[at] = replies[other]
    return others


def assert_chance(own: int, others: int) -> None:
    assert own <= others + 4 * math.sqrt(own + others + 1), f"{own} answers of babble are true, by chance {others}"


def test_outputs_of_babble_are_true_by_chance_only(world):
    pairs = of_kind(world, "<deduction>", 1500)
    asked = [prompt.removeprefix("<deduction>").removesuffix("<answer>").split("<input>") for prompt, _ in pairs]
    truths = run(world, [(program, given) for program, given in asked])
    replies = [reply for _, reply in pairs]
    own, others = (
        sum(values.encode(literals.parse_value(said)) == truth for said, truth in zip(some, truths, strict=True))
        for some in (replies, swapped(replies))
    )
    assert_chance(own, others)


def test_inputs_of_babble_are_true_by_chance_only(world):
    pairs = of_kind(world, "<abduction>", 1500)
    asked = [prompt.removeprefix("<abduction>").removesuffix("<answer>").split("<output>") for prompt, _ in pairs]
    replies = [reply for _, reply in pairs]
    wanted = [values.encode(literals.parse_value(output)) for _, output in asked]
    own, others = (
        sum(
            found == output
            for found, output in zip(
                run(world, [(program, said) for (program, _), said in zip(asked, some, strict=True)]),
                wanted,
                strict=True,
            )
        )
        for some in (replies, swapped(replies))
    )
    assert_chance(own, others)


def test_pairs_of_babble_are_true_of_its_program_by_chance_only(world):
    shown, programs, wanted = [], [], []
    for prompt, reply in of_kind(world, "<induction>", 1500):
        shown.append(between(prompt, "<input>", "<output>")[0])
        wanted.append(between(prompt, "<output>", "<input>|<answer>")[0])
        programs.append(reply)
    truths = run(world, list(zip(programs, shown, strict=True)))
    own, others = (
        sum(values.encode(literals.parse_value(said)) == truth for said, truth in zip(some, truths, strict=True))
        for some in (wanted, swapped(wanted))
    )
    assert_chance(own, others)


@pytest.mark.parametrize("kind", ["deduction", "abduction", "induction"])
@pytest.mark.parametrize("text", ["<answer>5", "4<answer>5", "<answer><answer>5"])
def test_a_brief_answer_has_no_second_mark(world, kind, text):
    task = next(task for task in world.seeds() if task.kind == kind)
    (verdict,) = world.judge([(task, Answer(world.kinds[kind].expand_answer(text)))], 1)
    assert verdict.outcome == "format"
