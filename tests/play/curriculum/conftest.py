"""A world whose solve probabilities are known by feature, and a proposer that does as it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from autotelic.play.curriculum import Curriculum, Outcome, Wish
from autotelic.runs import seeds
from autotelic.runs.files import content_address
from autotelic.worlds.base import Task


def make_task(kind: str = "reach", **features: float) -> Task:
    return Task(content_address(kind, sorted(features.items())), "known", kind, {}, features)


def make_outcome(solved: int, attempts: int = 8, kind: str = "reach", **features: float) -> Outcome:
    return Outcome(make_task(kind, **features), solved, attempts, solved / attempts)


class Tasks:
    """A pool of these tasks, all active."""

    def __init__(self, tasks: Sequence[Task], rng: np.random.Generator) -> None:
        self.all, self.rng = {task.id: task for task in tasks}, rng

    def __len__(self) -> int:
        return len(self.all)

    def draw(self, count: int) -> list[Task]:
        listed = list(self.all.values())
        return [listed[at] for at in self.rng.permutation(len(listed))[:count].tolist()]

    def active(self, ids: Sequence[str]) -> list[str]:
        return [id for id in ids if id in self.all]

    def tasks(self, ids: Sequence[str]) -> list[Task]:
        return [self.all[id] for id in ids]


@dataclass
class Simulation:
    """Steps of self-play with known chances: what is wanted is proposed, a share at random, and attempted."""

    curriculum: Curriculum
    solves: Callable[[Task, int], float]  # the chance to solve a task at a step
    seed: int = 0
    batch: int = 16
    obeys: float = 0.8
    wishes: list[list[Wish]] = field(default_factory=list)
    figures: list[dict[str, float]] = field(default_factory=list)
    known: list[Task] = field(default_factory=list)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = len(self.wishes)
            rng = seeds.generator(self.seed, "simulation", step)
            wishes = self.curriculum.sample("reach", self.batch, seeds.generator(self.seed, "sample", step))
            tasks = [self.propose(wish, rng) for wish in wishes]
            outcomes = [self.attempt(task, step, rng) for task in {task.id: task for task in tasks}.values()]
            self.known += tasks
            self.wishes.append(wishes)
            self.figures.append(self.curriculum.update(outcomes, seeds.generator(self.seed, "update", step)))

    def propose(self, wish: Wish, rng: np.random.Generator) -> Task:
        x, y = rng.random(2)
        if wish.features and rng.random() < self.obeys:
            x, y = (min(max(wish.features[name] + rng.normal(0, 0.02), 0), 1) for name in ("x", "y"))
        return make_task(x=float(x), y=float(y), constant=3.0)

    def attempt(self, task: Task, step: int, rng: np.random.Generator, n: int = 8) -> Outcome:
        solved = int(rng.binomial(n, self.solves(task, step)))
        return Outcome(task, solved, n, solved / n)

    def practised(self, count: int = 32) -> list[Task]:
        rng = seeds.generator(self.seed, "practise")
        pool = Tasks(self.known, rng)
        return self.curriculum.practise("reach", count, rng, pool)  # type: ignore[arg-type]


@pytest.fixture
def task() -> Callable[..., Task]:
    return make_task


@pytest.fixture
def outcome() -> Callable[..., Outcome]:
    return make_outcome


@pytest.fixture
def pool() -> type[Tasks]:
    return Tasks


@pytest.fixture
def simulation() -> type[Simulation]:
    return Simulation
