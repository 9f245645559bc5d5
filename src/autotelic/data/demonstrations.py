"""Demonstrations: episodes of an environment that succeed, and that anybody can repeat.

An episode begins as an environment of one does that is reset with its seed. What is kept is what the environment gave
and was given, step by step. Nobody's word is taken for its success: before it is kept, its actions are played again
from the same start, and must lead to the same observations, the same rewards and success.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotelic.physics.arm.environment import ArmTask
from autotelic.physics.base import Observation
from autotelic.runs import seeds

TOGETHER = 16  # episodes that are asked for at once, at most


@dataclass(frozen=True)
class Demonstration:
    """One episode, a row a step."""

    seed: int
    obs: Observation  # float32 [steps, size] each: what was seen before each action
    next_obs: Observation  # and after it
    actions: np.ndarray  # float32 [steps, size]
    rewards: np.ndarray  # float32 [steps]
    states: np.ndarray  # float64 [steps, size]: MuJoCo's, before each action (mjSTATE_INTEGRATION)
    success: bool  # at the last step, as the environment says
    about: dict[str, str] = field(default_factory=dict)  # where it comes from, in words

    @property
    def steps(self) -> int:
        return len(self.actions)


Decide = Callable[[Observation], np.ndarray | None]  # an action [1, size] for what is seen, or None: that was all
Found = Demonstration | str  # a demonstration, or the class of why there is none
# Of seeds, and how many were tried before them: what comes of an episode each, in their order.
Source = Callable[[Sequence[int], int], Iterable[Found]]


def record(
    environment: ArmTask, seed: int, decide: Decide, about: dict[str, str] | None = None
) -> Demonstration | None:
    """An episode until it ends or nothing more is decided; None if nothing was."""
    if environment.count != 1:
        raise ValueError(f"episodes are recorded one at a time, not {environment.count}")
    rows: dict[str, list[np.ndarray]] = {"actions": [], "rewards": [], "states": []}
    before: list[Observation] = []
    after: list[Observation] = []
    obs, success, ended = environment.reset(seed), False, False
    while not ended and (decided := decide(obs)) is not None:
        action = np.clip(decided, -1.0, 1.0).astype(np.float32)  # as it is stored: played again it is the same
        rows["states"].append(environment.simulation.batch.state[0].copy())
        step = environment.step(action)
        ended = bool(len(step.ended))
        success = bool(step.episodes["success"][0]) if ended else bool(environment.memory["done"][0])
        before.append(obs)
        after.append(step.final_obs if ended else step.obs)
        rows["actions"].append(action[0])
        rows["rewards"].append(step.reward[0])
        obs = step.obs
    if not before:
        return None
    stacked = {name: np.stack(values) for name, values in rows.items()}
    seen, then = ({name: np.concatenate([obs[name] for obs in each]) for name in obs} for each in (before, after))
    return Demonstration(seed, seen, then, **stacked, success=success, about=about or {})


def repeats(environment: ArmTask, shown: Demonstration) -> bool:
    """Whether the actions, played from the start again, lead to the same and to success."""
    actions = iter(shown.actions)
    again = record(environment, shown.seed, lambda _: None if (next_ := next(actions, None)) is None else next_[None])
    return (
        again is not None
        and again.success
        and again.steps == shown.steps
        and np.array_equal(again.rewards, shown.rewards)
        and all(np.array_equal(again.obs[name], values) for name, values in shown.obs.items())
        and all(np.array_equal(again.next_obs[name], values) for name, values in shown.next_obs.items())
    )


def collect(
    environment: ArmTask, source: Source, episodes: int, tries: int, seed: int, keep: Callable[[Demonstration], object]
) -> Counter[str]:
    """Keeps as many verified successes as are wanted, or as many as there are in so many tries. What became of the
    others, by class."""
    failed: Counter[str] = Counter()
    kept = tried = 0
    while kept < episodes and tried < tries:
        many = min(TOGETHER, episodes - kept, tries - tried)
        # Of 31 bits: what Gymnasium and all else takes for a seed.
        chosen = [seeds.derive(seed, "demonstration", tried + at) % 2**31 for at in range(many)]
        for found in source(chosen, tried):
            if isinstance(found, Demonstration):
                found = found if found.success else "failed"
            if isinstance(found, Demonstration) and not repeats(environment, found):
                found = "unrepeatable"
            if isinstance(found, Demonstration):
                keep(found)
                kept += 1
            else:
                failed[found] += 1
        tried += many
    return failed
