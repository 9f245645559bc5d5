"""Worked examples, which `player.shots` shows."""

import pytest

from autotelic.worlds.arm.kinds import BUILT_IN
from autotelic.worlds.arm.kinds.worked import WORKED
from autotelic.worlds.arm.suite_questions import ABDUCTION, DEDUCTION
from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig
from autotelic.worlds.base import Answer, Proposal, Task

EACH = [(kind, at) for kind in BUILT_IN for at in range(2)]


@pytest.mark.parametrize(("kind", "at"), EACH)
def test_a_worked_proposal_is_admitted_and_its_answer_is_right(world, kind: str, at: int):
    _, proposal = world.kinds[kind].propose_examples()[at]
    prompt, answer = world.kinds[kind].solve_examples()[at]
    (task,) = world.admit([Proposal(kind, proposal)], 1)
    assert isinstance(task, Task), task
    (found,) = world.judge([(task, Answer(answer))], 1)
    assert found.solved, found
    assert prompt == world.kinds[kind].solve_prompt(task)


@pytest.fixture(scope="module")
def heldout() -> set[str]:
    """What no proposal may ask, of the whole suite: questions whatever their colours."""
    with ArmWorld(ArmWorldConfig(workers=1)) as guarded:
        return set(guarded.heldout)


@pytest.mark.parametrize(("kind", "at"), EACH)
def test_an_example_asks_nothing_that_is_held_out(task_of, world, heldout: set[str], kind: str, at: int):
    _, proposal = world.kinds[kind].propose_examples()[at]
    assert heldout.isdisjoint(world.kinds[kind].asks_about(task_of(kind, proposal).spec))


def test_examples_have_colours_that_no_held_out_task_has():
    texts = [each.proposal for worked in WORKED.values() for each in worked]
    assert not any(color in text for text in texts for color in ("red", "green", "blue", "yellow"))
    assert not any(color in stored for stored in (ABDUCTION, DEDUCTION) for color in ("orange", "purple", "white"))
