"""Controllers that have worked, and those that call them."""

import json

import pytest

from autotelic.runs.files import content_address
from autotelic.testing.saved import through_checkpoint
from autotelic.worlds.arm import brief
from autotelic.worlds.arm.goals import Predicate
from autotelic.worlds.arm.skills import MOST_KEPT, MOST_LINKED, Skill, Skills, call_of
from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig
from autotelic.worlds.base import Answer, Proposal, Task
from autotelic.worlds.code.kinds.base import RefusedError, answer_text

LIFT = brief.program_of(" move red_box close up")
LIFTED = Predicate("lifted", ("red_box",))


def run_here(source: str, entry: str, *args, **keys):
    """What a linked program does, called as the sandbox would. Only programs of this file are."""
    names: dict = {}
    exec(source, names)
    return names[entry](*args, **keys)


def skills_with(*sources: str) -> tuple[Skills, list[str]]:
    """Skills that know these programs by address, whatever they are good for."""
    skills, texts = Skills(), {content_address(answer_text(source)): answer_text(source) for source in sources}
    skills.recall = texts.get
    return skills, [f"skill_{address}" for address in texts]


def remembered(skills: Skills, source: str, *judgements: bool, goal: Predicate = LIFTED) -> str:
    address = content_address(answer_text(source))
    for solved in judgements:
        skills.remember([goal], source, address, solved)
    return address


class Table:
    """Says which names it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def position(self, name: str) -> list[float]:
        self.asked.append(name)
        return [0.0, 0.0, 0.0]


def test_a_success_is_offered_and_a_failure_is_not():
    skills = Skills()
    remembered(skills, LIFT, False)
    assert skills.offered() == []
    remembered(skills, LIFT, True)
    assert [skill.goal for skill in skills.offered()] == [LIFTED]


def test_a_skill_is_named_by_the_content_address_of_its_answer():
    skills = Skills()
    address = remembered(skills, LIFT, True)
    assert skills.offered()[0].name == f"skill_{address}"


def test_the_same_program_for_another_thing_is_the_same_skill():
    skills = Skills()
    first = remembered(skills, LIFT, True)
    remembered(skills, LIFT.replace("red_box", "blue_sphere"), True, goal=Predicate("lifted", ("blue_sphere",)))
    (skill,) = skills.offered()
    assert (skill.address, skill.tried, skill.solved) == (first, 2, 2)


def test_of_two_programs_the_more_reliable_one_is_offered():
    skills = Skills()
    remembered(skills, LIFT, True, False, False)
    better = remembered(skills, LIFT + "\n    robot.home()", True, True)
    assert [skill.address for skill in skills.offered()] == [better]


def test_programs_that_fail_most_are_forgotten_first():
    skills = Skills()
    programs = [f"{LIFT}\n    x = {at}" for at in range(MOST_KEPT + 1)]
    addresses = [remembered(skills, program, True, *([False] * (at == 3))) for at, program in enumerate(programs)]
    kept = {row["address"] for row in skills.state()}
    assert kept == set(addresses) - {addresses[3]}


def test_sorts_of_goals_have_skills_of_their_own():
    skills = Skills()
    remembered(skills, LIFT, True)
    remembered(skills, LIFT, True, goal=Predicate("at", ("red_box", "left")))
    remembered(skills, LIFT, True, goal=Predicate("at", ("red_box", "right")))
    assert len(skills.offered()) == 3


def test_who_calls_a_skill_for_its_own_goal_adds_to_what_is_known_of_it():
    skills = Skills()
    address = remembered(skills, LIFT, True)
    caller = f"def execute_controller(robot, world):\n    skill_{address}(robot, world)"
    remembered(skills, caller, True, False)
    (skill,) = skills.offered()
    assert (skill.address, skill.tried, skill.solved) == (address, 3, 2)


def test_what_is_called_stands_behind_the_program():
    skills, (name,) = skills_with("def execute_controller(robot, world):\n    world.position('red_box')")
    table = Table()
    source = f"def execute_controller(robot, world):\n    {name}(robot, world)"
    run_here(skills.linked(source), "execute_controller", None, table)
    assert table.asked == ["red_box"]


def test_a_thing_that_a_skill_names_can_be_replaced():
    held = "def execute_controller(robot, world):\n    red_box = world.position('red_box')\n    world.position('bin')"
    skills, (name,) = skills_with(held)
    table = Table()
    source = f"def execute_controller(robot, world):\n    {name}(robot, world, red_box='blue_sphere')"
    run_here(skills.linked(source), "execute_controller", None, table)
    assert table.asked == ["blue_sphere", "bin"]


def test_a_skill_that_wants_to_be_called_again_is():
    held = (
        "turns = []\ndef execute_controller(robot, world):\n    turns.append(world.position('red_box'))\n"
        "    return 'continue' if len(turns) < 3 else None"
    )
    skills, (name,) = skills_with(held)
    table = Table()
    run_here(
        skills.linked(f"def execute_controller(robot, world):\n    {name}(robot, world)"),
        "execute_controller",
        None,
        table,
    )
    assert len(table.asked) == 3


def test_skills_may_call_skills():
    inner = "def execute_controller(robot, world):\n    world.position('red_box')"
    name = f"skill_{content_address(answer_text(inner))}"
    outer = f"def execute_controller(robot, world):\n    {name}(robot, world, red_box='green_box')"
    skills, names = skills_with(inner, outer)
    table = Table()
    source = f"def execute_controller(robot, world):\n    {names[1]}(robot, world)"
    run_here(skills.linked(source), "execute_controller", None, table)
    assert table.asked == ["green_box"]


def test_a_program_that_begins_with_an_import_from_the_future_can_be_called_and_can_call():
    future = "from __future__ import annotations\n"
    skills, (name,) = skills_with(f"{future}def execute_controller(robot, world):\n    world.position('red_box')")
    source = f"{future}def execute_controller(robot, world):\n    {name}(robot, world)"
    compile(skills.linked(source), "controller", "exec")


@pytest.mark.parametrize(
    "source",
    [
        "phase = 0\ndef execute_controller(robot, world):\n    global phase\n    phase += 1",
        "from math import *\ndef execute_controller(robot, world):\n    robot.move_to([cos(0), 0, 0.2])",
        f"def execute_controller(robot, world):\n    x = 0x{'f' * 4000}",
    ],
)
def test_a_program_that_would_do_something_else_within_a_function_is_no_skill(source: str):
    skills = Skills()
    remembered(skills, source, True)
    assert skills.offered() == []


def test_stacks_of_other_heights_are_other_sorts():
    skills = Skills()
    three = Predicate("stacked", ("red_box", "blue_box", "green_box"))
    remembered(skills, LIFT, True, goal=three)
    assert skills.best(three) is not None
    assert skills.best(Predicate("stacked", ("red_box", "blue_box"))) is None


def test_a_name_that_nothing_is_known_by_is_refused():
    with pytest.raises(RefusedError, match="no skill"):
        Skills().linked(f"def execute_controller(robot, world):\n    skill_{'0' * 32}(robot, world)")


def test_too_many_skills_are_refused():
    skills, names = skills_with(
        *(f"def execute_controller(robot, world):\n    x = {at}" for at in range(MOST_LINKED + 1))
    )
    calls = "\n".join(f"    {name}(robot, world)" for name in names)
    with pytest.raises(RefusedError, match="more than"):
        skills.linked(f"def execute_controller(robot, world):\n{calls}")


def test_what_is_known_survives_a_restart():
    skills, other = Skills(), Skills()
    remembered(skills, LIFT, True, False)
    other.load_state(json.loads(json.dumps(skills.state())))
    assert other.offered() == skills.offered()


@pytest.fixture(scope="module")
def learned():
    """A world that has seen a red box lifted."""
    with ArmWorld(ArmWorldConfig(workers=1, heldout=False)) as world:
        texts: dict[str, str] = {}
        world.recall_from(texts.get)
        text = '{"objects": ["red_box"], "goal": [["lifted", "red_box"]], "success": {"draws": 2}}'
        (task,) = world.admit([Proposal("induction", text)], seed=1)
        assert isinstance(task, Task)
        answer = Answer(answer_text(LIFT))
        (verdict,) = world.judge([(task, answer)], 1)
        assert verdict.solved
        texts[content_address(answer.text)] = answer.text
        assert world.remember([(task, answer, verdict)]) == {"skills": 1.0}
        yield world


def test_a_skill_that_was_seen_to_work_lifts_another_thing(learned):
    text = '{"objects": ["blue_cylinder"], "goal": [["lifted", "blue_cylinder"]], "randomisation": {"position": 0.6}}'
    (task,) = learned.admit([Proposal("induction", text)], seed=1)
    words = learned.kinds["induction"].expand_answer(" do lifted blue_cylinder")
    (verdict,) = learned.judge([(task, Answer(words))], 1)
    assert verdict.solved, verdict
    assert "robot.close_gripper" not in words  # it is the skill that does


def test_a_world_knows_what_has_worked_when_a_run_is_taken_up_again(learned):
    with ArmWorld(ArmWorldConfig(workers=1, heldout=False)) as other:
        other.load_state(through_checkpoint(learned.state()))
        assert other.skills.offered() == learned.skills.offered() != []


def test_a_skill_made_of_skills_works_for_other_things():
    skills, (name,) = skills_with("def execute_controller(robot, world):\n    world.position('red_box')")
    inner = Skill(name.removeprefix("skill_"), LIFTED, "")
    caller = f"def execute_controller(robot, world):\n    {call_of(inner, LIFTED)}"
    texts = {inner.address: skills.recall(inner.address), (address := content_address("caller")): answer_text(caller)}
    skills.recall = texts.get
    outer = call_of(Skill(address, LIFTED, ""), Predicate("lifted", ("blue_box",)))
    table = Table()
    run_here(skills.linked(f"def execute_controller(robot, world):\n    {outer}"), "execute_controller", None, table)
    assert table.asked == ["blue_box"]


def test_an_answer_that_is_no_program_is_no_skill():
    skills = Skills()
    skills.recall = {(address := content_address("x")): answer_text("yes left")}.get
    with pytest.raises(RefusedError, match="is no controller"):
        skills.linked(f"def execute_controller(robot, world):\n    skill_{address}(robot, world)")


def test_a_failure_of_any_sort_tells_against_a_skill(learned):
    (skill,) = learned.skills.offered()
    before = skill.trust, skill.tried
    text = '{"objects": ["blue_box"], "goal": [["lifted", "blue_box"]], "success": {"draws": 2}}'
    (task,) = learned.admit([Proposal("induction", text)], 1)
    answer = Answer(answer_text(f"def execute_controller(robot, world):\n    {call_of(skill, skill.goal)}"))
    (verdict,) = learned.judge([(task, answer)], 1)  # there is no red box
    assert verdict.outcome == "exception"
    learned.remember([(task, answer, verdict)])
    assert (skill.trust < before[0], skill.tried) == (True, before[1] + 1)


def test_a_solver_is_shown_what_has_worked(learned, task_of):
    (skill,) = learned.skills.offered()
    task = task_of("induction", '{"objects": ["red_box"], "goal": [["near", "red_box"]]}')
    prompt = learned.kinds["induction"].solve_prompt(task)
    assert call_of(skill, skill.goal) in prompt
    assert LIFT in prompt


def test_to_do_what_nothing_is_known_for_is_no_program(learned):
    words = learned.kinds["induction"].expand_answer(" do pressed button")
    assert "execute_controller" not in words


def test_questions_have_no_skills(learned):
    (skill,) = learned.skills.offered()
    program = f"def execute_controller(robot, world):\n    {skill.name}(robot, world)"
    block = '```json\n{"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.2]}]}\n```'
    (result,) = learned.admit([Proposal("deduction", f"{block}\n```python\n{program}\n```")], seed=1)
    assert result.outcome == "exception"
