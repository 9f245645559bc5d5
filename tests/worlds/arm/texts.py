"""Proposals and answers, as tests of the arm world write them."""

import json
import re

from autotelic.worlds.arm import brief, episodes
from autotelic.worlds.arm import world as worlds
from autotelic.worlds.arm.kinds import KindConfig
from autotelic.worlds.arm.world import ArmWorldConfig
from autotelic.worlds.base import Answer, Proposal, Rejection
from autotelic.worlds.code.kinds.base import answer_text
from autotelic.worlds.code.programs import Rules
from autotelic.worlds.code.sandbox import Limits, SandboxConfig


def _listed(text: str | None) -> set[str]:
    return set(re.findall(r"^    (\w+) +\S", text or "", re.MULTILINE))


# The classes that are documented: of rejections, and of verdicts.
REJECTIONS = _listed(worlds.__doc__) - {"misplaced"} | _listed(episodes.__doc__) - {"ended"}
REJECTIONS |= {"syntax", "no_entry", "forbidden", "duplicate"}
ANSWERS = REJECTIONS | {"correct", "wrong", "misplaced"}

REACH = brief.program_of(" move red_box")
TWO = ("red_box", "blue_box")
# Calls and scenes of questions: the red box is carried away from the blue one, or past it.
CARRIED = (" move red_box close middle", " red_box front_left blue_box back_right")
PASSED = (" move red_box close middle", " red_box front_left blue_box back_left")
NEAR = {"ask": [["near", "red_box"]], "object": "blue_box"}


def control(goal, objects=("red_box",), fixtures=(), **more) -> str:
    """A task of induction."""
    return json.dumps({"objects": list(objects), "fixtures": list(fixtures), "goal": [goal], **more})


def question(calls: str, scene: str, **more) -> str:
    """A deduction or an abduction, in brief words."""
    return brief.question_proposal(calls, {**brief.read_scene(scene), **more})


def program(words: str) -> Answer:
    """A controller in brief words."""
    return Answer(answer_text(brief.program_of(words)))


def known_answer(world, task):
    """That with which a question was admitted."""
    kind = world.kinds[task.kind]
    return Answer(kind.expand_answer(kind.brief_answer(task)))


def rejection(world, kind: str, text: str) -> str:
    """The class of why a proposal is refused."""
    (result,) = world.admit([Proposal(kind, text)], seed=1)
    assert isinstance(result, Rejection), result
    return result.outcome


def unchecked(**more) -> ArmWorldConfig:
    """Of a world that has no rules for programs."""
    sandbox = SandboxConfig(servers=1, ahead=1, limits=Limits(wall=1.0))
    kind = KindConfig(rules=Rules([], []))
    return ArmWorldConfig(workers=1, heldout=False, kind=kind, sandbox=sandbox, **more)
