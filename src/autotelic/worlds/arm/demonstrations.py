"""Controllers shown in an environment of the arm's: what a player answers to the task of an episode becomes actions.

The task is put to the player in the words of the arm world. Its controller runs in the sandbox and drives an `Arm` from
where the episode begins, judged there as the world judges; then the environment is driven along the same way, step by
step, and judges for itself. What is recorded happened in the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from autotelic.data.demonstrations import Found, record
from autotelic.physics.arm import control
from autotelic.physics.arm.control import Arm
from autotelic.physics.arm.environment import SUBSTEPS, ArmTask
from autotelic.physics.arm.scenes import compiled
from autotelic.physics.base import Observation
from autotelic.worlds.arm import episodes
from autotelic.worlds.arm.kinds import ArmKind
from autotelic.worlds.arm.tasks import HORIZON, Setting, read
from autotelic.worlds.arm.world import ArmWorld
from autotelic.worlds.base import Task
from autotelic.worlds.code.kinds.base import RefusedError, read_answer
from autotelic.worlds.code.sandbox import Sandbox

TICKS = SUBSTEPS // control.SUBSTEPS  # of an `Arm` in one step of an environment
HOLD = 0.3  # s that an episode goes on for when the controller has ended
# What each family wants, as the arm world says it.
GOALS: Mapping[str, Sequence[Sequence[str]]] = {
    "arm-reach": [["near", "goal"]],
    "arm-push": [["at", "red_box", "goal"]],
    "arm-lift": [["lifted", "red_box"]],
    "arm-pick-place": [["inside", "red_box", "bin"]],
    "arm-stack": [["on", "red_box", "blue_box"]],
    "arm-drawer": [["open", "drawer"]],
    "arm-button": [["pressed", "button"]],
}


class FailedError(Exception):
    """An answer that shows nothing: the class of what went wrong."""


def task_of(world: ArmWorld, environment: ArmTask) -> Task:
    """What an environment of one asks in the episode that has just begun, as a task of the world."""
    scene, start, _ = environment.scene_of(0)
    # To a gripper half turns are nothing; the world has no larger ones.
    upright = {name: (x, y, control.turned(yaw)) for name, (x, y, yaw) in start.items()}
    assert environment.limit is not None
    seconds = min(HORIZON[1], max(HORIZON[0], environment.limit * environment.dt - HOLD))
    told = {
        **Setting(scene, upright).plain(),
        "goal": [list(row) for row in GOALS[environment.name]],
        "horizon": seconds,
        "success": {"hold": HOLD},
    }
    return world.make_task("induction", {"task": read(told).plain()})


def way_of(answer: str, task: Task, kind: ArmKind, environment: ArmTask, sandbox: Sandbox) -> np.ndarray:
    """What a controller asks of the tool, [steps, 5], as `ArmTask.towards` takes it; FailedError unless the world holds
    the task for solved."""
    try:
        job, *_ = kind.attempt(task, answer, seed=0).jobs  # nothing is drawn: the episode begins as it began
    except RefusedError as refused:
        raise FailedError(refused.outcome) from None
    job = replace(job, joints=environment.scene_of(0)[2])
    asked: list[control.Action] = []
    arm = Arm(compiled(job.scene), watch=lambda _: asked.append(arm.asked))
    ended = episodes.run(job, sandbox, {job.scene: arm})
    if not kind.succeeded(task, ended):
        raise FailedError("wrong" if ended.how == "ended" else ended.how)
    return np.array([*asked[TICKS - 1 :: TICKS], asked[-1]])


def shown(answer: str, task: Task, kind: ArmKind, environment: ArmTask, seed: int, sandbox: Sandbox) -> Found:
    """What an answer comes to in the episode with this seed."""
    environment.reset(seed)
    try:
        way = iter(way_of(answer, task, kind, environment, sandbox))
    except FailedError as failed:
        return str(failed)

    def follow(_: Observation) -> np.ndarray | None:
        pose = next(way, None)
        return None if pose is None else environment.towards(pose[None])

    told = {"task": read(task.spec["task"]).described(), "controller": read_answer(answer).strip("\n")}
    return record(environment, seed, follow, told) or "nothing done"
