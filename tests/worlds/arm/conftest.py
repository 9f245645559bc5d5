import pytest

from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig
from autotelic.worlds.base import Answer, Proposal, Task
from autotelic.worlds.code.kinds.base import answer_text

from .texts import unchecked


@pytest.fixture(scope="session")
def world():
    """In this process, and without a look at the held-out suite."""
    with ArmWorld(ArmWorldConfig(workers=1, heldout=False)) as opened:
        yield opened


@pytest.fixture(scope="session")
def free():
    """A world that checks nothing before it runs a program: the sandbox alone stands between it and us."""
    with ArmWorld(unchecked()) as opened:
        yield opened


@pytest.fixture(scope="session")
def task_of(world):
    """The task that a proposal makes."""

    def make(kind: str, text: str) -> Task:
        (result,) = world.admit([Proposal(kind, text)], seed=1)
        assert isinstance(result, Task), result
        return result

    return make


@pytest.fixture(scope="session")
def verdict_of(world):
    def judge(task: Task, body: str, seed: int = 1):
        (found,) = world.judge([(task, Answer(answer_text(body)))], seed)
        return found

    return judge


@pytest.fixture(scope="session")
def reach(task_of):
    return task_of("induction", '{"objects": ["red_box"], "goal": [["near", "red_box"]], "success": {"draws": 2}}')
