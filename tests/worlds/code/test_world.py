"""Admission and judging in the code world, with every mistake of the reference as a test."""

from dataclasses import replace

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.worlds.base import KINDS, Answer, Proposal, Rejection, Task
from autotelic.worlds.code.kinds import load_kinds
from autotelic.worlds.code.kinds.base import KindConfig, answer_text
from autotelic.worlds.code.kinds.deduction import Deduction
from autotelic.worlds.code.sandbox import Job, SandboxConfig, values
from autotelic.worlds.code.world import CodeWorld, CodeWorldConfig


@pytest.fixture(scope="module")
def world():
    with CodeWorld(CodeWorldConfig(heldout=False, kind=KindConfig(inputs=10))) as opened:
        yield opened


def propose(world, kind, program, *inputs, message=""):
    text = world.kinds[kind].compose(program, list(inputs), message)
    (result,) = world.admit([Proposal(kind, text)], seed=1)
    return result


def task_of(world, kind, program, *inputs) -> Task:
    result = propose(world, kind, program, *inputs)
    assert isinstance(result, Task), result
    return result


def verdict(world, task, answer, seed=1):
    (found,) = world.judge([(task, Answer(answer_text(answer)))], seed)
    return found


def rejection(world, program, *arguments) -> str:
    result = propose(world, "deduction", program, arguments)
    assert isinstance(result, Rejection), result
    return result.outcome


TEN = [(k,) for k in range(10)]


# --- admission ------------------------------------------------------------------------------------------------------


def test_the_seeds_are_the_identity_function_in_every_kind(world):
    seeds = world.seeds()
    assert [task.kind for task in seeds] == ["deduction", "abduction", "induction"]
    assert {task.spec["program"] for task in seeds} == {"def f(a):\n    return a"}
    assert values.decode(seeds[0].spec["output"]) == "Hello world"


@pytest.mark.parametrize("kind", KINDS)
def test_proposals_shown_as_examples_are_admitted(world, kind):
    asked = world.kinds[kind]
    for worked, (_, text) in zip(asked.worked(), asked.propose_examples(), strict=True):
        base = Task("", "code", "deduction", {"program": worked.program}) if asked.builds_on else None
        (task,) = world.admit([Proposal(kind, text, base)], seed=1)
        assert isinstance(task, Task), task
        assert task.spec["program"] == worked.program


@pytest.mark.parametrize("kind", KINDS)
def test_answers_shown_as_examples_are_right(world, kind):
    asked = world.kinds[kind]
    for worked, (prompt, text) in zip(asked.worked(), asked.solve_examples(), strict=True):
        task = propose(world, kind, worked.program, *worked.inputs, message=worked.message)
        assert isinstance(task, Task), task
        assert prompt == asked.solve_prompt(task)
        assert world.judge([(task, Answer(text))], seed=1)[0].solved


def test_examples_that_the_rules_refuse_are_not_shown():
    strict = load_kinds(KINDS, KindConfig(max_value=3))
    assert [len(kind.solve_examples()) for kind in strict.values()] == [0, 0, 1]


def test_no_example_is_a_held_out_task():
    with CodeWorld(CodeWorldConfig()) as world:
        for kind in KINDS:
            for worked in world.kinds[kind].worked():
                assert isinstance(propose(world, kind, worked.program, *worked.inputs), Task)


def test_a_kind_without_brief_wording_is_one_line_to_who_wants_to_babble_of_it(world, monkeypatch):
    class Other(Deduction):
        name = "other"

    monkeypatch.setattr(world, "kinds", {**world.kinds, "other": Other(KindConfig())})
    with pytest.raises(UserError, match=r"^tasks of the kind other have no babble"):
        world.babble(np.random.default_rng(0), 8)


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("def f(a:", "syntax"),
        ("def g(a):\n    return a", "no_entry"),
        ("import os.path\ndef f(a):\n    return a", "forbidden"),
        ("def f(a):\n    return __import__('subprocess')", "forbidden"),
        ("def f(a):\n    return a / 0", "exception"),
        ("def f():\n    return 1", "exception"),
        ("def f(a):\n    while True: pass", "limit"),
        ("def f(a):\n    return [0] * 10**9", "size"),
        ("def f(a):\n    return 'x' * 30000", "size"),
        ("def f(a):\n    return f", "unsupported"),
        ("def f(a):\n    a + 1", "no_value"),
        ("def f(a):\n    return list({'a', 'b', 'c', 'd', 'e', 'f', 'g'})", "nondeterministic"),
        ("def f(a):\n    return hash('a')", "nondeterministic"),
        ("def f(a):\n    return id(object()) + hash('b')", "nondeterministic"),
    ],
)
def test_each_fault_has_its_class(world, program, outcome):
    assert rejection(world, program, 3) == outcome


@pytest.mark.parametrize(
    "text",
    ["", "def f(a): return a", "```python\ndef f(a):\n    return a\n```", "```input\n1\n```", "```python\n" * 100_000],
)
def test_a_proposal_without_its_blocks_is_badly_formatted(world, text):
    (result,) = world.admit([Proposal("deduction", text)], seed=1)
    assert isinstance(result, Rejection)
    assert result.outcome == "format"


@pytest.mark.parametrize("arguments", ["0) or (True", "x", "1 + 1", "[" * 10_000, "*[1]"])
def test_an_input_is_a_list_of_literals_or_nothing(world, arguments):
    text = f"```python\ndef f(a):\n    return a\n```\n```input\n{arguments}\n```"
    (result,) = world.admit([Proposal("deduction", text)], seed=1)
    assert isinstance(result, Rejection)
    assert result.outcome == "format"


@pytest.mark.parametrize(
    "program",
    [
        "def process_input(a):\n    return a\ndef f(a):\n    return process_input(a)",
        "def f(a):\n    def g(b):\n        return b + 1\n    return g(a)",
        "class C:\n    def m(self, a):\n        return a\ndef f(a):\n    return C().m(a)",
        "def f(a):\n    return 'no error, no Error, no exception'",
    ],
)
def test_programs_that_the_reference_refuses_by_text_search_are_admitted(world, program):
    assert isinstance(propose(world, "deduction", program, (3,)), Task)


def test_long_results_are_kept_whole(world):
    task = task_of(world, "deduction", "def f(a):\n    return a * 700", ("xy",))
    assert values.decode(task.spec["output"]) == "xy" * 700
    assert verdict(world, task, repr("xy" * 700)).solved


def test_a_program_that_remembers_its_inputs_is_nondeterministic(world):
    program = "import math\ndef f(a):\n    math.seen = getattr(math, 'seen', 0) + 1\n    return a + math.seen"
    result = propose(world, "induction", program, *TEN)
    assert isinstance(result, Rejection)
    assert result.outcome == "nondeterministic"


ORDERED = "def f(a):\n    return [y for y in a]"  # of a set of strings, in the order of their hashes
FIRST = "def f(a):\n    y = [z for z in a]\n    return y[0]"
WORDS = {"north", "east", "south", "west", "up", "down"}


def test_the_order_of_a_set_is_nondeterministic(world):
    assert rejection(world, ORDERED, WORDS) == "nondeterministic"


def test_an_abduction_answer_that_is_right_by_the_order_of_a_set_is_wrong(world):
    task = task_of(world, "abduction", FIRST, (["up"],))
    found = [verdict(world, task, repr(WORDS), seed) for seed in range(12)]
    assert not any(each.solved for each in found)
    assert any(each.outcome == "wrong" and "not in the next" in each.detail for each in found)


def test_one_program_cannot_change_the_builtins_of_the_next(world):
    vandal = "def f(a):\n    f.__globals__['__builtins__']['sum'] = len\n    return sum([a, a])"
    honest = "def f(a):\n    return sum([a, a])"
    lenient = CodeWorldConfig(heldout=False)
    lenient.kind.rules.forbidden_names.clear()
    with CodeWorld(lenient) as open_world:
        texts = [open_world.kinds["deduction"].compose(p, [(k,)]) for k in range(20, 40) for p in (vandal, honest)]
        results = open_world.admit([Proposal("deduction", text) for text in texts], seed=1)
        for k, result in zip(range(20, 40), results[1::2], strict=True):
            assert isinstance(result, Task)
            assert values.decode(result.spec["output"]) == 2 * k


def test_renamed_copies_have_one_content_address_per_kind(world):
    first = task_of(world, "deduction", "def f(a):\n    b = a + 1\n    return b", (3,))
    copy = task_of(world, "deduction", "def f(x):\n    # same\n    y = x + 1\n    return y", (3,))
    other_input = task_of(world, "deduction", "def f(a):\n    b = a + 1\n    return b", (4,))
    other_kind = task_of(world, "abduction", "def f(a):\n    b = a + 1\n    return b", (3,))
    assert first.id == copy.id
    assert len({first.id, other_input.id, other_kind.id}) == 3


def test_results_come_in_the_order_of_the_proposals(world):
    programs = ["def f(a:", "def f(a):\n    return a + 1", "def g(): pass", "def f(a):\n    return a + 2"]
    texts = [world.kinds["deduction"].compose(program, [(5,)]) for program in programs]
    results = world.admit([Proposal("deduction", text) for text in texts], seed=1)
    assert [getattr(result, "outcome", "task") for result in results] == ["syntax", "task", "no_entry", "task"]
    assert values.decode(results[3].spec["output"]) == 7


def test_induction_builds_on_the_program_it_was_given(world):
    base = task_of(world, "deduction", "def f(a):\n    return a * 2", (3,))
    text = world.kinds["induction"].compose("def f(a):\n    return 0", TEN, "doubles")
    (task,) = world.admit([Proposal("induction", text, base=base)], seed=1)
    assert isinstance(task, Task)
    assert task.spec["program"] == base.spec["program"]


def test_induction_needs_different_inputs(world):
    result = propose(world, "induction", "def f(a):\n    return a", *TEN[:9], TEN[0])
    assert isinstance(result, Rejection)
    assert result.outcome == "format"


def test_a_deduction_task_has_the_abduction_task_about_the_same_for_a_sibling(world):
    task = task_of(world, "deduction", "def f(a):\n    return a % 3 + 8", (4,))
    (sibling,) = world.siblings(task)
    assert sibling == task_of(world, "abduction", "def f(a):\n    return a % 3 + 8", (4,))
    assert world.siblings(sibling) == [task]


def test_an_induction_task_has_no_sibling(world):
    assert world.siblings(task_of(world, "induction", "def f(a):\n    return a % 3 + 8", *TEN)) == []


# --- judging --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [("6", "correct"), (" 6\n", "correct"), ("7", "wrong"), ("6.0", "wrong"), ("'6'", "wrong"), ("3 + 3", "format")],
)
def test_deduction_compares_exact_values(world, answer, outcome):
    task = task_of(world, "deduction", "def f(a):\n    return a * 2", (3,))
    found = verdict(world, task, answer)
    assert found.outcome == outcome
    assert found.solved == (outcome == "correct")


def test_true_is_not_one(world):
    task = task_of(world, "deduction", "def f(a):\n    return a > 2", (3,))
    assert verdict(world, task, "1").outcome == "wrong"
    assert verdict(world, task, "True").outcome == "correct"


def test_an_answer_without_its_block_is_badly_formatted(world):
    task = task_of(world, "deduction", "def f(a):\n    return a", (3,))
    texts = ["3", "<think>3</think>", "<answer>3", "</answer>3<answer>", "<answer>" * 50_000]
    assert {found.outcome for found in world.judge([(task, Answer(text)) for text in texts], 1)} == {"format"}


def test_the_last_answer_block_counts(world):
    task = task_of(world, "deduction", "def f(a):\n    return a", (3,))
    (found,) = world.judge([(task, Answer("<think><answer>1</answer></think><answer>3</answer>"))], 1)
    assert found.solved


def test_any_preimage_solves_abduction(world):
    task = task_of(world, "abduction", "def f(a):\n    return a * a", (3,))
    assert verdict(world, task, "-3").solved
    assert verdict(world, task, "3").solved
    assert verdict(world, task, "4").outcome == "wrong"
    assert verdict(world, task, "3.0").outcome == "wrong"
    assert verdict(world, task, "3, 3").outcome == "exception"


@pytest.mark.parametrize("answer", ["0) or (True", "3); import os; (", "lambda: 9", "f(3)", "**{}"])
def test_an_abduction_answer_cannot_leave_its_place(world, answer):
    task = task_of(world, "abduction", "def f(a):\n    return a * a", (3,))
    assert verdict(world, task, answer).outcome == "format"


ALWAYS_EQUAL = (
    "class E:\n    def __eq__(self, other):\n        return True\n    def __hash__(self):\n        return 0\n"
)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("def f(x):\n    return x * 3", "correct"),
        ("```python\ndef f(x):\n    return x * 3\n```", "correct"),
        ("def f(x):\n    return x + 2", "wrong"),
        ("def f(x):\n    return x * 3.0", "wrong"),
        (ALWAYS_EQUAL + "def f(x):\n    return E()", "unsupported"),
        ("class I(int):\n    __eq__ = lambda s, o: True\ndef f(x):\n    return I(1)", "unsupported"),
        ("def f(x):\n    return x / 0", "exception"),
        ("def f(x):\n    while True: pass", "limit"),
        ("def g(x):\n    return x", "no_entry"),
        ("def f(x) return", "syntax"),
        ("import os\ndef f(x):\n    return x * 3", "forbidden"),
        ("x * 3", "no_entry"),
    ],
)
def test_induction_is_judged_on_what_the_program_returns(world, answer, outcome):
    task = task_of(world, "induction", "def f(a):\n    return a * 3", *TEN)
    found = verdict(world, task, answer)
    assert found.outcome == outcome
    assert found.solved == (outcome == "correct")
    assert found.evidence == (outcome != "limit")


def test_induction_is_decided_by_the_hidden_pairs(world):
    task = task_of(world, "induction", "def f(a):\n    return a * 3", *TEN)
    memory = "def f(x):\n    return {0: 0, 1: 3, 2: 6, 3: 9, 4: 12}.get(x, 0)"
    assert verdict(world, task, memory).outcome == "wrong"
    all_but_one = "def f(x):\n    return x * 3 if x != 9 else 0"
    assert verdict(world, task, all_but_one).score == 0.0


def test_partial_credit_is_a_score_and_never_a_solution():
    with CodeWorld(CodeWorldConfig(heldout=False, kind=KindConfig(inputs=10, partial_credit=True))) as lenient:
        task = task_of(lenient, "induction", "def f(a):\n    return a * 3", *TEN)
        found = verdict(lenient, task, "def f(x):\n    return x * 3 if x != 9 else 0")
        assert found.score == pytest.approx(0.8)
        assert not found.solved
        assert found.outcome == "wrong"


def test_an_answer_that_is_right_by_luck_of_the_hash_seed_is_wrong(world):
    task = task_of(world, "induction", "def f(a):\n    return a * 3", *TEN)
    servers = world.sandbox.servers
    lucky = "def f(x):\n    return x * 3 if hash('a') in SEEN else 0\n"
    # One hash value is enough for exactly one server.
    seen = [world.sandbox.run([_hash_job(server)])[0][0].value for server in range(servers)]
    for one in seen:
        assert not verdict(world, task, f"SEEN = {{{one}}}\n{lucky}").solved


def _hash_job(server):
    return Job("def f():\n    return hash('a')", (values.encode(()),), server=server)


def test_a_task_that_changes_its_answer_is_nondeterministic_for_all_its_pairs(world):
    task = task_of(world, "deduction", "def f(a):\n    return a * 2", (3,))
    changed = Task(task.id, task.world, task.kind, {**task.spec, "output": values.encode(7)})
    found = world.judge([(changed, Answer(answer_text("7"))), (changed, Answer("?"))], 1)
    assert [verdict.outcome for verdict in found] == ["nondeterministic", "nondeterministic"]
    assert not any(verdict.solved or verdict.evidence for verdict in found)


def test_later_uses_run_on_servers_that_did_not_admit_the_task(world):
    task = task_of(world, "deduction", "def f(a):\n    return a * 2", (3,))
    admitted = {world._server(task.spec["key"], turn) for turn in (0, 1)}
    used = {world._judging_server(task, seed, 0) for seed in range(8)}
    assert not used & admitted
    assert len(used) == world.sandbox.servers - 2


def test_verdicts_are_the_same_for_the_same_seed_and_carry_version_and_seed(world):
    task = task_of(world, "abduction", "def f(a):\n    return a % 3", (4,))
    pairs = [(task, Answer(answer_text(text))) for text in ("1", "2", "1", "x", "7")]
    first, second = world.judge(pairs, 9), world.judge(pairs, 9)
    assert first == second
    assert [found.outcome for found in first] == ["correct", "wrong", "correct", "format", "correct"]
    assert {(found.seed, found.version) for found in first} == {(9, world.version)}


@pytest.fixture
def hindsight(world, monkeypatch):
    monkeypatch.setattr(world, "hindsight", True)
    return world


def test_a_wrong_abduction_answer_solves_the_task_of_the_output_it_gives(hindsight):
    task = task_of(hindsight, "abduction", "def f(a):\n    return a * 3", (4,))
    (achieved,) = verdict(hindsight, task, "5").achieved
    assert (achieved.kind, values.decode(achieved.spec["output"])) == ("abduction", 15)
    assert verdict(hindsight, achieved, "5").solved
    assert not verdict(hindsight, achieved, "4").solved


def test_a_wrong_induction_answer_solves_the_task_of_the_pairs_it_gives(hindsight):
    task = task_of(hindsight, "induction", "def f(a):\n    return a * 3", *TEN)
    (achieved,) = verdict(hindsight, task, "def f(a):\n    return a + 3").achieved
    assert achieved.kind == "induction"
    assert [values.decode(output) for output in achieved.spec["outputs"]] == list(range(3, 13))
    assert verdict(hindsight, achieved, "def f(b):\n    return 3 + b").solved
    assert not verdict(hindsight, achieved, "def f(a):\n    return a * 3").solved


def test_a_task_achieved_is_the_one_that_a_proposal_of_it_makes(hindsight):
    program = "def f(a):\n    return a * 3"
    (achieved,) = verdict(hindsight, task_of(hindsight, "abduction", program, (4,)), "5").achieved
    assert achieved.id == task_of(hindsight, "abduction", program, (5,)).id


@pytest.mark.parametrize(
    "answer",
    ["def f(a):\n    return 7", "def f(a):\n    return a", "def f(a):\n    return a / 0", "def f(a:"],
    ids=["constant", "identity", "fails", "no program"],
)
def test_an_induction_answer_that_says_nothing_achieves_nothing(hindsight, answer):
    task = task_of(hindsight, "induction", "def f(a):\n    return a * 3", *TEN)
    assert verdict(hindsight, task, answer).achieved == ()


def test_a_program_that_may_give_another_result_the_next_time_achieves_nothing(hindsight):
    task = task_of(hindsight, "induction", "def f(a):\n    return a * 3", *TEN)
    answer = "seen = []\ndef f(a):\n    seen.append(a)\n    return len(seen)"
    assert verdict(hindsight, task, answer).achieved == ()


@pytest.mark.parametrize(("kind", "answer"), [("deduction", "13"), ("abduction", "4"), ("abduction", "'no' 'literal")])
def test_a_value_said_a_right_answer_and_one_that_cannot_be_read_achieve_nothing(hindsight, kind, answer):
    task = task_of(hindsight, kind, "def f(a):\n    return a * 3", (4,))
    assert verdict(hindsight, task, answer).achieved == ()


def deductions(world, *given):
    return [task_of(world, "deduction", "def f(a):\n    return a * 3", (number,)) for number in given]


def achieved(world, *pairs):
    """By the pairs of task and value said: the tasks that they solve instead."""
    said = [(task, Answer(f"<answer>{value}</answer>")) for task, value in pairs]
    return [verdict.achieved for verdict in world.judge(said, 0)]


def test_a_value_that_is_wrong_for_one_task_may_be_right_for_another_that_nobody_solved(hindsight):
    one, other = deductions(hindsight, 4, 5)
    assert achieved(hindsight, (one, "15"), (other, "16")) == [(other,), ()]
    assert achieved(hindsight, (one, "15"), (other, "12")) == [(other,), (one,)]


def test_a_value_of_another_type_is_right_nowhere(hindsight):
    one, other = deductions(hindsight, 4, 5)
    assert achieved(hindsight, (one, "15.0"), (one, "'15'"), (other, "16")) == [(), (), ()]


def test_a_task_that_was_solved_needs_no_answer_from_elsewhere(hindsight):
    one, other = deductions(hindsight, 4, 5)
    assert achieved(hindsight, (one, "15"), (other, "15")) == [(), ()]


def test_a_task_gets_one_answer_from_elsewhere(hindsight):
    one, two, other = deductions(hindsight, 4, 3, 5)
    assert achieved(hindsight, (one, "15"), (two, "15"), (other, "16")).count((other,)) == 1


def test_one_wrong_answer_a_task_says_what_it_achieves(hindsight):
    task = task_of(hindsight, "abduction", "def f(a):\n    return a * 3", (4,))
    verdicts = hindsight.judge([(task, Answer(answer_text(str(number)))) for number in (4, 5, 6, 7)], 1)
    assert [bool(found.achieved) for found in verdicts] == [False, True, False, False]


def test_nothing_is_said_of_what_was_achieved_unless_asked(world):
    task = task_of(world, "abduction", "def f(a):\n    return a * 3", (4,))
    assert verdict(world, task, "5").achieved == ()


@pytest.fixture
def ran(world, monkeypatch):
    """The jobs that the world has run since."""
    jobs = []
    run = world.sandbox.run
    monkeypatch.setattr(world.sandbox, "run", lambda given: jobs.extend(given) or run(given))
    return jobs


IMPURE = "def f(a):\n    return list({a: 1})[0] % 3"


def test_equal_answers_are_run_once(world, ran):
    task = task_of(world, "abduction", IMPURE, (4,))
    ran.clear()
    world.judge([(task, Answer(answer_text("2")))] * 50, 1)
    assert len(ran) == 2  # the task's own program, and the answer


def test_answers_to_a_pure_program_share_a_process(world, ran):
    task = task_of(world, "abduction", "def f(a):\n    return a % 3", (4,))
    ran.clear()
    verdicts = world.judge([(task, Answer(answer_text(text))) for text in ("1", "2", "7", "'x'")], 1)
    assert [verdict.outcome for verdict in verdicts] == ["correct", "wrong", "correct", "exception"]
    assert len(ran) == 1


def many(world, *programs):
    compose = world.kinds["deduction"].compose
    return world.admit([Proposal("deduction", compose(program, [(4,)])) for program in programs], 1)


def test_pure_programs_share_processes_when_they_are_admitted(world, ran):
    tasks = many(world, *(f"def f(a):\n    return a * {n}" for n in range(40)))
    assert [task.spec["output"] for task in tasks] == [values.encode(4 * n) for n in range(40)]
    assert len(ran) <= world.sandbox.servers


def test_programs_that_are_not_pure_share_no_process(world, ran):
    many(world, *(f"def f(a):\n    return list({{a: 1}})[0] * {n}" for n in range(10)), "def f(a):\n    return a")
    assert len(ran) == 21
    assert not any(job.after for job in ran)


def test_a_pure_program_that_takes_too_much_costs_other_proposals_nothing(world):
    greedy = "def f(a):\n    return len(list(range(99999999999)))"
    results = many(world, *(f"def f(a):\n    return a + {n}" for n in range(20)), greedy)
    assert [task.spec["output"] for task in results[:20]] == [values.encode(4 + n) for n in range(20)]
    assert results[20].outcome == "size"


def test_answers_to_a_program_that_is_not_pure_have_a_process_each(world, ran):
    task = task_of(world, "abduction", IMPURE, (4,))
    ran.clear()
    world.judge([(task, Answer(answer_text(text))) for text in ("2", "5")], 1)
    assert len(ran) == 3  # and the task's own program


def test_an_answer_that_takes_too_much_costs_its_neighbours_nothing(world):
    task = task_of(world, "abduction", "def f(a):\n    return len(list(range(a)))", (4,))
    verdicts = world.judge([(task, Answer(answer_text(text))) for text in ("4", "99999999999", "3")], 1)
    assert [verdict.outcome for verdict in verdicts] == ["correct", "size", "wrong"]


def test_a_pure_task_from_elsewhere_is_run_before_it_is_believed(world, ran):
    task = task_of(world, "deduction", "def f(a):\n    return a % 5 + 1", (4,))
    forged = replace(task, spec={**task.spec, "output": "7"})
    ran.clear()
    (verdict,) = world.judge([(forged, Answer(answer_text("7")))], 1)
    assert (verdict.outcome, len(ran)) == ("nondeterministic", 1)


FORGED = """
import os, struct
def f(x):
    frame = b"v" + str(x * 3).encode()
    os.write(3, (struct.pack("=I", len(frame)) + frame) * 6)
    return x * 3
"""


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("import socket\ndef f(x):\n    socket.socket()\n    return x * 3", "escape"),
        (FORGED, "forged"),
        ("import ctypes\ndef f(x):\n    return ctypes.string_at(0)", "crash"),
    ],
)
def test_going_around_the_judge_has_a_class_of_its_own_and_counts_as_failure(world, answer, outcome):
    task = task_of(world, "induction", "def f(a):\n    return a * 3", *TEN)
    assert verdict(world, task, answer).outcome == "forbidden"  # the static check sees it first
    lenient = CodeWorldConfig(heldout=False)
    lenient.kind.rules.forbidden_modules.clear()
    with CodeWorld(lenient) as open_world:
        found = verdict(open_world, task, answer)
    assert (found.solved, found.outcome, found.evidence) == (False, outcome, True)


@pytest.mark.parametrize("kind", ["deduction", "abduction", "induction"])
def test_a_task_restated_is_the_same_task(world, kind):
    task = task_of(world, kind, "def f(a):\n    return a * 3", *(TEN if kind == "induction" else TEN[:1]))
    assert world.admit([world.restate(kind, task.spec)], 0) == [task]


def test_a_restated_task_with_a_forged_output_is_admitted_with_the_true_one(world):
    task = task_of(world, "deduction", "def f(a):\n    return a * 3", TEN[0])
    forged = {**task.spec, "output": "99"}
    assert world.admit([world.restate("deduction", forged)], 0) == [task]


@pytest.mark.parametrize("spec", [{}, {"program": 3, "input": "1"}, {"program": "x", "input": "["}, {"inputs": None}])
def test_a_spec_of_another_making_cannot_be_restated(world, spec):
    with pytest.raises(ValueError, match="not a spec"):
        world.restate("deduction", spec)


def test_a_single_server_is_refused_because_it_has_a_single_hash_seed():
    with pytest.raises(UserError, match="hash seed"):
        CodeWorld(CodeWorldConfig(sandbox=SandboxConfig(servers=1)))


def test_a_heldout_task_is_never_achieved():
    program = "def f(a):\n    return a * 3"
    with CodeWorld(CodeWorldConfig()) as opened:
        opened.hindsight = True
        heldout = task_of(opened, "abduction", program, (5,))
        task = task_of(opened, "abduction", program, (4,))
        opened.withhold([heldout])
        assert verdict(opened, task, "5").achieved == ()
        assert verdict(opened, task, "6").achieved != ()


def test_a_heldout_abduction_is_not_achieved_with_another_input_either():
    program = "def f(a):\n    return a % 3"
    with CodeWorld(CodeWorldConfig()) as opened:
        opened.hindsight = True
        heldout, task = (task_of(opened, "abduction", program, (given,)) for given in (2, 4))
        opened.withhold([heldout])
        assert verdict(opened, task, "5").achieved == ()
        assert verdict(opened, task, "6").achieved != ()


def test_what_gives_none_is_not_achieved():
    program = "def f(a):\n    if a > 3:\n        return a"
    with CodeWorld(CodeWorldConfig(heldout=False)) as opened:
        opened.hindsight = True
        task = task_of(opened, "abduction", program, (4,))
        assert verdict(opened, task, "1").achieved == ()
        assert verdict(opened, task, "5").achieved != ()


def test_a_proposal_equal_to_a_heldout_task_is_rejected():
    with CodeWorld(CodeWorldConfig()) as guarded:
        guarded.withhold([task_of(guarded, "deduction", "def f(a):\n    return a * 2", (3,))])
        for kind in ("deduction", "abduction"):
            result = propose(guarded, kind, "def f(q):\n    return q * 2", (3,))
            assert isinstance(result, Rejection)
            assert result.outcome == "heldout"
        assert isinstance(propose(guarded, "deduction", "def f(q):\n    return q * 2", (4,)), Task)


@pytest.mark.parametrize("kind", ["deduction", "abduction"])  # a deduction is asked as an abduction too
def test_another_input_with_the_same_output_is_the_same_heldout_abduction(kind):
    with CodeWorld(CodeWorldConfig()) as guarded:
        guarded.withhold([task_of(guarded, "abduction", "def f(a):\n    return a % 3", (2,))])
        result = propose(guarded, kind, "def f(q):\n    return q % 3", (5,))
        assert isinstance(result, Rejection)
        assert result.outcome == "heldout"
        assert isinstance(propose(guarded, kind, "def f(q):\n    return q % 3", (4,)), Task)


def test_a_heldout_deduction_leaves_other_inputs_with_its_output_to_practise():
    with CodeWorld(CodeWorldConfig()) as guarded:
        guarded.withhold([task_of(guarded, "deduction", "def f(a):\n    return a % 3", (2,))])
        assert isinstance(propose(guarded, "deduction", "def f(q):\n    return q % 3", (5,)), Task)


# The variable of a comprehension is unknown outside of it: what looks like a local name there is the builtin.
POISON = """def f(x):
    y = [0 for eval in '']
    return eval("__import__('builtins').__dict__.__setitem__('sorted', lambda a: [7])")"""
THIEF = """def f(x):
    y = [0 for eval in '']
    g = eval("(lambda look: look(look, __import__('sys')._getframe()))(lambda look, fr: (lambda ns: (exec(next(p for\
 p in (lambda j: [j[0], *j[4::3]])(fr.f_locals['job']) if 'job' not in p), ns), ns['f'])[1])({}) if 'job' in\
 fr.f_locals else look(look, fr.f_back))")
    return g(x)"""


def test_a_program_changes_nothing_for_others_that_are_proposed_with_it(world):
    compose = world.kinds["deduction"].compose
    texts = [compose(POISON, [([number],)]) for number in range(8)]
    texts += [compose(f"def f(x):\n    return sorted(x) + [{number}]", [([3, 1, 2],)]) for number in range(8)]
    results = world.admit([Proposal("deduction", text) for text in texts], 0)
    assert [result.spec["output"] for result in results[8:]] == [f'["l",1,2,3,{number}]' for number in range(8)]


def test_a_program_changes_nothing_for_others_that_are_judged_with_it(world):
    gold = "def f(x):\n    return sorted(x)[::-1]"
    task = task_of(world, "induction", gold, *(([number, 5, number + 1],) for number in range(10)))
    answers = [Answer(f"<answer>{text}</answer>") for text in (POISON, gold)]
    assert world.judge([(task, answer) for answer in answers], 0)[1].solved


def test_an_answer_finds_no_other_program_in_its_process(world):
    gold = "def f(x):\n    return sorted(x)[::-1]"
    task = task_of(world, "induction", gold, *(([number, 5, number + 1],) for number in range(10)))
    with CodeWorld(world.config) as fresh:  # one that has yet to see what the task's own program gives
        wrong, thief = (Answer(f"<answer>{text}</answer>") for text in ("def f(x):\n    return x", THIEF))
        assert not any(verdict.solved for verdict in fresh.judge([(task, wrong), (task, thief)], 0))
