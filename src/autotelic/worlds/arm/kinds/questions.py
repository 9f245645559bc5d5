"""What deduction and abduction share: a setting and a controller that is run in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from autotelic.physics.arm.scenes import Placement, Scene
from autotelic.worlds.arm import brief
from autotelic.worlds.arm.episodes import Job
from autotelic.worlds.arm.kinds import base
from autotelic.worlds.arm.kinds.base import ArmKind
from autotelic.worlds.arm.tasks import Setting, read_setting
from autotelic.worlds.base import Request
from autotelic.worlds.code.kinds.base import fence, paragraphs

HORIZON = 15.0  # seconds that a controller has


class Question(ArmKind):
    """A kind that asks about a controller."""

    def expand_proposal(self, text: str, request: Request) -> str:
        calls, _, scene = text.partition(brief.SCENE)
        return brief.question_proposal(calls, brief.read_scene(scene))

    def scene(self, spec: Mapping[str, Any]) -> Scene:
        return read_setting(spec["setting"]).scene


def job(setting: Setting, start: Mapping[str, Placement], program: str) -> Job:
    return Job(setting.scene, base.start_of(start), program, HORIZON)


def words_of(spec: Mapping[str, Any]) -> str:
    """A controller in brief words; one that was not written in them has none."""
    return brief.calls_of(spec["controller"]) or ""


def features_of(spec: Mapping[str, Any], predicates: int) -> dict[str, float]:
    things = len(spec["setting"]["objects"]) + len(spec["setting"]["fixtures"])
    lines = spec["controller"].count("robot.") + spec["controller"].count("world.")
    return {"predicates": float(predicates), "objects": float(things), "calls": float(lines)}


def references(request: Request) -> list[str]:
    """What a proposer sees of earlier questions: all but their answers."""
    shown = []
    for number, task in enumerate(request.references, 1):
        extra = {key: task.spec[key] for key in ("ask", "object", "goal") if key in task.spec}
        scene = {**task.spec["setting"], **extra}
        shown.append(
            paragraphs(
                f"Reference {number} ({task.id}):",
                fence("json", json.dumps(scene)),
                fence("python", task.spec["controller"]),
            )
        )
    return shown
