"""The standard suite's promises and its cache."""

import itertools
from collections import Counter

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.runs.files import content_address
from autotelic.worlds.base import Answer, Proposal
from autotelic.worlds.code import language, suite
from autotelic.worlds.code.kinds.base import answer_text, arguments_of, show_arguments, show_value
from autotelic.worlds.code.sandbox import Job, Outcome, values
from autotelic.worlds.code.world import CodeWorld, CodeWorldConfig


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def world(cache):
    with pytest.MonkeyPatch.context() as patch, CodeWorld(CodeWorldConfig()) as opened:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield opened


def test_every_kind_has_the_same_number_of_tasks_at_every_depth(world):
    counts = Counter((task.kind, task.features["depth"]) for task in world.suite)
    assert counts == {(kind, depth): 75 for kind in suite.KINDS for depth in (1.0, 2.0, 3.0, 4.0)}
    assert len({task.id for task in world.suite}) == len(world.suite)


def test_the_suite_is_the_published_one(world):
    """A change of language, seeds or selection makes another suite, whose figures compare with no earlier ones."""
    assert content_address([task.id for task in world.suite]) == "4cfd572c39cd9d713871d9f0f8c57bd4"


def tasks_of(world, kind):
    return [task for task in world.suite if task.kind == kind]


def type_of_input(encoded) -> str:
    return language.type_of(arguments_of(encoded)[0]) or "none of the language"


def best_shares(solved, count):
    """Shares of the tasks that the best single answer solves, and the best answers by type together."""
    best = Counter(answer for _, answer in solved).most_common(1)[0][1]
    types = {kind for kind, _ in solved}
    by_type = sum(Counter(answer for kind, answer in solved if kind == wanted).most_common(1)[0][1] for wanted in types)
    return best / count, by_type / count


def test_no_deduction_answer_is_often_right_nor_is_the_input(world):
    tasks = tasks_of(world, "deduction")
    solved = [(language.type_of(values.decode(task.spec["output"])), task.spec["output"]) for task in tasks]
    single, by_type = best_shares(solved, len(tasks))
    assert single <= 0.05
    assert by_type <= 0.1
    assert all(values.encode(arguments_of(task.spec["input"])[0]) != task.spec["output"] for task in tasks)


def test_no_abduction_answer_is_often_right_nor_is_the_output(world):
    tasks = tasks_of(world, "abduction")
    guesses = {guess for takes in language.INPUT_TYPES for guess in suite.probes(takes)}
    guesses = tuple(sorted(guesses | {task.spec["input"] for task in tasks}))
    copies = [values.encode((values.decode(task.spec["output"]),)) for task in tasks]
    jobs = [Job(task.spec["program"], (copy, *guesses)) for task, copy in zip(tasks, copies, strict=True)]
    solved = []
    for task, (copy, *found) in zip(tasks, world.sandbox.run(jobs), strict=True):
        assert copy.encoded != task.spec["output"]
        right = [guess for guess, outcome in zip(guesses, found, strict=True) if outcome.encoded == task.spec["output"]]
        assert task.spec["input"] in right
        probes = suite.probes(type_of_input(task.spec["input"]))
        assert sum(guess in probes for guess in right) <= len(probes) / 5
        solved += [(type_of_input(task.spec["input"]), guess) for guess in right]
    single, by_type = best_shares(solved, len(tasks))
    assert single <= 0.1
    assert by_type <= 0.2


def test_no_induction_program_is_often_right(world):
    tasks = tasks_of(world, "induction")
    jobs = [Job(task.spec["program"], suite.probes(type_of_input(task.spec["inputs"][0]))) for task in tasks]
    behaviours = Counter(
        (job.inputs, tuple(outcome.encoded for outcome in found))
        for job, found in zip(jobs, world.sandbox.run(jobs), strict=True)
    )
    assert behaviours.most_common(1)[0][1] <= 0.05 * len(tasks)
    assert len(behaviours) > 150


def test_programs_are_neither_constant_nor_the_identity(world):
    rng = np.random.default_rng(8)
    jobs, arguments = [], []
    for task in world.suite:
        drawn = language.distinct_inputs(rng, type_of_input((task.spec.get("inputs") or [task.spec["input"]])[0]), 25)
        jobs.append(Job(task.spec["program"], tuple(values.encode(given) for given in drawn)))
        arguments.append([values.encode(given[0]) for given in drawn])
    for task, given, found in zip(world.suite, arguments, world.sandbox.run(jobs), strict=True):
        outputs = [outcome.encoded for outcome in found]
        kept = sum(one == other for one, other in zip(given, outputs, strict=True))
        assert max(Counter(outputs).values()) <= 0.88 * len(outputs), task.spec["program"]
        assert kept <= 0.88 * len(outputs), task.spec["program"]
        if task.kind == "induction":  # what is hidden tells constants from the rest
            assert len(set(task.spec["outputs"][task.spec["shown"] :])) > 1


def test_kinds_have_programs_of_their_own(world):
    programs = [
        {task.spec["program"] for task in tasks_of(world, kind) if task.features["depth"] > 2} for kind in suite.KINDS
    ]
    assert all(len(part) > 140 for part in programs)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert len(programs[one] & programs[other]) < 10


def test_the_gold_answers_of_the_suite_are_right(world):
    answers = {"deduction": "output", "abduction": "input"}
    pairs = []
    for task in world.suite[::7]:
        if task.kind == "induction":
            body = task.spec["program"]
        else:
            encoded = task.spec[answers[task.kind]]
            body = show_value(encoded) if task.kind == "deduction" else show_arguments(encoded)
        pairs.append((task, Answer(answer_text(body))))
    assert all(verdict.solved for verdict in world.judge(pairs, 5))


def outcome_of(world, kind, program, inputs):
    (result,) = world.admit([Proposal(kind, world.kinds[kind].compose(program, inputs))], 1)
    return getattr(result, "outcome", "task")


def test_the_program_and_input_of_a_suite_task_are_held_out_in_both_kinds_that_have_one_input(world):
    for task in (tasks_of(world, "deduction")[0], tasks_of(world, "abduction")[0]):
        given = arguments_of(task.spec["input"])
        for kind in ("deduction", "abduction"):
            assert outcome_of(world, kind, task.spec["program"].replace("x", "q"), [given]) == "heldout"
            assert outcome_of(world, kind, task.spec["program"], [(given[0] * 3,)]) == "task"


def test_no_question_is_asked_twice(world):
    asked = [(task.kind, world.kinds[task.kind].solve_prompt(task)) for task in world.suite]
    assert len(set(asked)) == len(asked)


def induction_task_on_ints(world, depths):
    return next(
        task
        for task in tasks_of(world, "induction")
        if type_of_input(task.spec["inputs"][0]) == "int" and task.features["depth"] in depths
    )


def test_the_program_of_an_induction_task_is_held_out_whatever_the_inputs(world):
    task = induction_task_on_ints(world, (2, 3, 4))
    others = [(number,) for number in range(30, 40)]
    assert outcome_of(world, "induction", task.spec["program"].replace("x", "q"), others) == "heldout"
    assert outcome_of(world, "induction", "def f(x):\n    return x * 7 + 5 * x - 31", others) == "task"
    assert outcome_of(world, "deduction", task.spec["program"], others[:1]) == "task"


def test_an_induction_program_of_depth_one_is_held_out_with_its_inputs_in_any_order(world):
    task = induction_task_on_ints(world, (1,))
    inputs = [arguments_of(given) for given in task.spec["inputs"]]
    assert outcome_of(world, "induction", task.spec["program"].replace("x", "q"), inputs[::-1]) == "heldout"
    assert outcome_of(world, "induction", task.spec["program"], [(number,) for number in range(30, 40)]) == "task"


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(suite, "TASKS", 4)
    monkeypatch.setattr(suite, "DEPTHS", (2,))
    monkeypatch.setattr(suite, "SHARE", 1.0)


@pytest.mark.parametrize("passing", [Outcome("limit", detail="wall"), Outcome("crash", detail="server")], ids=str)
def test_a_busy_machine_makes_the_same_suite(world, small, monkeypatch, passing):
    wanted = suite.build_suite(world)
    calls = itertools.count()
    run = world.sandbox.run

    def busy(jobs):
        """Every other call, one job in three comes to nothing."""
        results = run(jobs)
        if next(calls) % 2 == 0:
            results[::3] = [(passing,) * len(found) for found in results[::3]]
        return results

    monkeypatch.setattr(world.sandbox, "run", busy)
    assert suite.build_suite(world) == wanted


def test_a_machine_too_slow_for_the_suite_gets_none(world, small, monkeypatch):
    stuck = Outcome("limit", detail="cpu")
    monkeypatch.setattr(world.sandbox, "run", lambda jobs: [(stuck,) * len(job.inputs) for job in jobs])
    with pytest.raises(UserError, match="limits"):
        suite.build_suite(world)


def test_the_cache_gives_the_same_suite_and_a_damaged_one_is_made_again(world, cache, monkeypatch):
    first = world.suite
    (path,) = (cache / "autotelic").glob("suite-*.json")
    whole = path.read_text()
    monkeypatch.setattr(suite, "build_suite", lambda world: pytest.fail("built although cached"))
    assert suite.standard_suite(world) == first
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    path.write_text(whole[: len(whole) // 2])
    assert suite.standard_suite(world) == first
    assert path.read_text() == whole
