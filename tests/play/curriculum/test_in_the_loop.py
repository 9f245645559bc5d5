"""Curricula in the loop: a world of levels, of which some are too easy, some too hard, and the rest worth learning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from autotelic import registry
from autotelic.play.archive import Archive, ArchiveConfig
from autotelic.play.curriculum import Curriculum, NoCurriculum
from autotelic.play.curriculum.alp_gmm import ALPGMM, ALPGMMConfig
from autotelic.play.curriculum.ladder import Ladder, LadderConfig
from autotelic.play.curriculum.learnability import Learnability
from autotelic.play.curriculum.plr import PLR
from autotelic.play.loop import Loop, LoopConfig
from autotelic.play.player import Player, Sample
from autotelic.runs.checkpoints import CheckpointConfig
from autotelic.runs.directory import Run
from autotelic.runs.files import content_address
from autotelic.testing import run_digest
from autotelic.worlds.base import Answer, Kind, Proposal, Rejection, Request, Task, Verdict, World

CHANCES = (1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0)  # of a task to be solved, by its level
LEARNABLE = (4, 5)


class Climb(Kind):
    name = "climb"

    def propose_prompt(self, request: Request) -> str:
        return "A level."

    def solve_prompt(self, task: Task) -> str:
        return f"Climb {task.spec['level']}."


class Fall(Climb):
    name = "fall"


class Levels(World):
    name, version = "levels", "1"

    def __init__(self) -> None:
        self.kinds = {"climb": Climb(), "fall": Fall()}

    def task(self, kind: str, level: int, at: int) -> Task:
        features = {"level": float(level), "width": float(at % 3)}
        return Task(content_address(kind, level, at), self.name, kind, {"level": level, "at": at}, features)

    def seeds(self) -> list[Task]:
        return [self.task(kind, 0, 0) for kind in self.kinds]

    def admit(self, proposals: Sequence[Proposal], seed: int) -> list[Task | Rejection]:
        return [self.task(proposal.kind, *map(int, proposal.text.split())) for proposal in proposals]

    def judge(self, pairs: Sequence[tuple[Task, Answer]], seed: int) -> list[Verdict]:
        return [self._judge(answer, seed) for _, answer in pairs]

    def _judge(self, answer: Answer, seed: int) -> Verdict:
        solved = answer.text == "up"
        return Verdict(solved, "correct" if solved else "wrong", float(solved), version=self.version, seed=seed)


class Obedient(Player):
    """Proposes what is wanted if it can, and climbs with known chances."""

    name = "obedient"

    def __init__(self) -> None:
        super().__init__(None, Levels())
        self.asked: list[Request] = []

    def propose(self, requests: Sequence[Request], rng: np.random.Generator) -> list[Sample]:
        self.asked += requests
        samples = []
        for request in requests:
            anything = int(rng.integers(10))
            level = round(request.wanted.get("level", anything)) if rng.random() < 0.8 else anything
            samples.append(Sample("propose", request.kind, f"{level} {rng.integers(10**6)}"))
        return samples

    def attempt(self, tasks: Sequence[Task], n: int, rng: np.random.Generator, greedy: bool = False) -> list[Sample]:
        def climb(task: Task) -> str:
            return "up" if rng.random() < CHANCES[task.spec["level"]] else "down"

        return [Sample("solve", task.kind, climb(task), task=task.id) for task in tasks for _ in range(n)]


@pytest.fixture
def make_loop(tmp_path: Path):
    opened = []

    def make(curriculum: Curriculum | None, *, name: str = "run", **config: object) -> Loop:
        path = tmp_path / name
        fresh = not path.exists()
        run = Run.create(tmp_path, name, {}, verb="play") if fresh else Run.open(path)
        archive = (Archive.create if fresh else Archive.open)(run.archive, ArchiveConfig(solved_out=0))
        opened.extend((archive, run))
        player, settings = Obedient(), {"batch": 8, "proposals": 4, "attempts": 8, "seeding": 1} | config
        loop = Loop(
            LoopConfig(**settings),  # type: ignore[arg-type]
            run,
            player.world,
            player,
            player,
            archive,
            curriculum=curriculum,
            checkpoint=CheckpointConfig(every=2),
        )
        if not fresh:
            loop.restore(*run.checkpoints.load())
        return loop

    yield make
    for part in opened:
        part.close()


def close(loop: Loop) -> None:
    loop.archive.close()
    loop.directory.close()


def test_without_a_curriculum_nothing_is_wanted_and_nothing_shown(make_loop):
    loop = make_loop(None)
    figures = loop.run(3)
    assert not [name for name in figures if name.startswith("curriculum")]
    assert {(request.difficulty, len(request.wanted)) for request in loop.proposer.asked} == {(None, 0)}


class Content(NoCurriculum):
    """Wants nothing, but is asked and told like any other."""

    steers = True


def test_asking_a_curriculum_changes_no_draw_of_the_loop(make_loop):
    plain, asked = make_loop(None, name="plain"), make_loop(Content(), name="asked")
    plain.run(5)
    figures = asked.run(5)
    assert plain.archive.digest() == asked.archive.digest()
    assert figures["curriculum/climb/practised"] == 0.0


@pytest.mark.parametrize("name", registry.names("curricula"))
def test_a_run_that_was_killed_and_resumed_equals_the_uninterrupted_one(make_loop, tmp_path, name):
    made = registry.get("curricula", name)
    if name == "alp-gmm":  # soon enough to be in a checkpoint

        def made():
            return ALPGMM(ALPGMMConfig(every=10, window=40, memory=80))

    whole = make_loop(made(), name="whole")
    whole.run(8)
    close(whole)
    cut = make_loop(made(), name="cut")
    for _ in range(6):
        cut.run_step()  # one past the last checkpoint, which is lost
    close(cut)
    again = make_loop(made(), name="cut")
    assert again.step == 4
    again.run(3)
    close(again)
    assert run_digest(tmp_path / "cut") == run_digest(tmp_path / "whole")


def levels(loop: Loop, steps: int) -> list[float]:
    assert isinstance(loop.proposer, Obedient)
    asked = loop.proposer.asked
    return [request.wanted["level"] for request in asked[-8 * steps :] if "level" in request.wanted]


@pytest.mark.parametrize("curriculum", [Learnability, lambda: ALPGMM(ALPGMMConfig(every=20))])
def test_what_is_wanted_concentrates_on_levels_worth_learning(make_loop, curriculum):
    loop = make_loop(curriculum())
    loop.run(24)
    late = levels(loop, 10)
    assert np.mean([3.5 <= level <= 5.5 for level in late]) > 0.45  # 0.2 of what there is


@pytest.mark.parametrize("curriculum", [PLR, Learnability])
def test_what_is_practised_concentrates_on_levels_worth_learning(make_loop, curriculum):
    loop = make_loop(curriculum())
    loop.run(12)
    share = []
    for _ in range(8):
        attempted = loop._attempt(loop.step + 1, loop._propose(loop.step + 1, ["climb"] * 2))
        share += [task.spec["level"] in LEARNABLE for task in attempted.practised]
        loop.run_step()
    assert np.mean(share) > 0.4  # 0.2 of what there is


def test_the_ladder_climbs_from_what_is_easy(make_loop):
    loop = make_loop(Ladder(LadderConfig(episodes=64)))
    loop.run(12)
    wanted = [line["curriculum/climb/difficulty"] for line in loop.directory.metrics.read()]
    assert wanted[0] == 0.2
    assert max(wanted) > 0.2
    asked = {request.wanted["level"] for request in loop.proposer.asked if request.difficulty == 0.2 and request.wanted}
    higher = {request.wanted["level"] for request in loop.proposer.asked if request.difficulty == 0.5}
    assert np.mean(list(asked)) + 1 < np.mean(list(higher))


def test_the_loops_own_practice_fills_up_what_a_curriculum_leaves(make_loop):
    loop = make_loop(PLR())
    loop.run_step()
    figures = loop.run_step()  # nothing was attempted before: there is nothing to replay
    assert figures["curriculum/climb/practised"] == 0
    assert figures["solve/climb/outcome/correct"] + figures.get("solve/climb/outcome/wrong", 0) == 8 * 8
    figures = loop.run(1)
    assert figures["curriculum/climb/practised"] == 4
    assert figures["solve/climb/outcome/correct"] + figures.get("solve/climb/outcome/wrong", 0) == 8 * 8


def test_no_task_is_practised_twice_in_a_step(make_loop):
    loop = make_loop(PLR(), proposals=1)
    loop.run(4)
    attempted = loop._attempt(5, loop._propose(5, ["climb"]))
    ids = [task.id for task in attempted.tasks]
    assert len(ids) == len(set(ids))


def test_what_is_wanted_and_practised_is_in_the_metrics(make_loop):
    loop = make_loop(Learnability())
    figures = loop.run(4)
    names = ("difficulty", "wanted/level", "practised", "practised/level", "cells", "learnability")
    assert {f"curriculum/{kind}/{name}" for kind in ("climb", "fall") for name in names} <= figures.keys()


def test_a_curriculums_difficulty_goes_before_the_loops(make_loop):
    loop = make_loop(Ladder(), difficulty=0.9)
    loop.run(2)
    assert {request.difficulty for request in loop.proposer.asked} == {0.2}
    loop = make_loop(PLR(), name="other", difficulty=0.9)
    loop.run(2)
    assert {request.difficulty for request in loop.proposer.asked} == {0.9}


def test_a_run_goes_on_with_another_curriculum_which_knows_nothing_yet(make_loop):
    loop = make_loop(Ladder())
    loop.run(5)
    close(loop)
    other = make_loop(PLR())
    assert other.step == 4
    assert other.curriculum.dump() == PLR().dump()
    other.run(2)


def test_a_run_goes_on_with_other_settings_and_what_was_known(make_loop):
    loop = make_loop(Ladder(LadderConfig(start="hard")))
    loop.run(5)
    known = loop.curriculum.dump()["history"]
    close(loop)
    other = make_loop(Ladder(LadderConfig(start="easy", window=5)))
    assert {kind: kept[-5:] for kind, kept in known.items()} == other.curriculum.dump()["history"]
    other.run(2)


def test_a_checkpoint_from_before_there_were_curricula_goes_on(make_loop):
    loop = make_loop(None)
    loop.run(3)
    step, state = loop.directory.checkpoints.load()
    close(loop)
    del state["curriculum"]
    other = make_loop(Learnability())
    other.restore(step, state)
    other.run(1)
