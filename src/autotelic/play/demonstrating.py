"""Demonstrations by a player: it answers the tasks of episodes, and its controllers are shown in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotelic.data.demonstrations import Found, Source
from autotelic.physics.arm.environment import ArmTask
from autotelic.play.player import Player
from autotelic.runs import seeds
from autotelic.worlds.arm.demonstrations import shown, task_of
from autotelic.worlds.arm.world import ArmWorld
from autotelic.worlds.code.sandbox import Sandbox


def by_player(
    world: ArmWorld, player: Player, environment: ArmTask, sandbox: Sandbox, seed: int, sample: bool
) -> Source:
    """What the player holds for best, or with `sample` what it draws."""

    def source(chosen: Sequence[int], tried: int) -> Iterator[Found]:
        tasks = []
        for each in chosen:
            environment.reset(each)
            tasks.append(task_of(world, environment))
        rng = seeds.generator(seed, "attempt", tried)
        with player.evaluating():
            answers = player.attempt(tasks, 1, rng, greedy=not sample)
        for each, task, answer in zip(chosen, tasks, answers, strict=True):
            yield shown(answer.text, task, world.kinds["induction"], environment, each, sandbox)

    return source
