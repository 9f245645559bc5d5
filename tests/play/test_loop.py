"""The loop on a world small enough to check by hand: tasks are pairs of numbers, answers their sums."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.play import evaluation, measures
from autotelic.play.archive import Archive, ArchiveConfig
from autotelic.play.exchange import export_jsonl
from autotelic.play.loop import Loop, LoopConfig
from autotelic.play.player import Player, Sample
from autotelic.play.rewards import PUBLISHED, RewardConfig
from autotelic.play.rounds import Attempted
from autotelic.runs.checkpoints import CheckpointConfig
from autotelic.runs.directory import Run
from autotelic.runs.files import content_address
from autotelic.testing import check_player, check_world, run_digest
from autotelic.worlds.base import Answer, Kind, Plain, Proposal, Rejection, Request, Task, Verdict, World


class SumKind(Kind):
    name = "sum"

    def propose_prompt(self, request: Request) -> str:
        return f"Two numbers, unlike {[dict(task.spec) for task in request.references]}."

    def solve_prompt(self, task: Task) -> str:
        return f"{task.spec['a']} + {task.spec['b']} = ?"


class MoreKind(SumKind):
    name = "more"
    builds_on = ("sum",)


def make_task(a: int, b: int, kind: str = "sum") -> Task:
    return Task(content_address(kind, a, b), "sums", kind, {"a": a, "b": b}, {"depth": float(a)})


class SumWorld(World):
    name = "sums"
    version = "sums-1"

    def __init__(self) -> None:
        self.kinds = {"sum": SumKind(), "more": MoreKind()}
        self.unsound: set[str] = set()

    def seeds(self) -> list[Task]:
        return [make_task(0, 0), make_task(0, 0, "more")]

    def admit(self, proposals: Sequence[Proposal], seed: int) -> list[Task | Rejection]:
        return [self._admit(proposal) for proposal in proposals]

    def _admit(self, proposal: Proposal) -> Task | Rejection:
        words = proposal.text.split()
        if len(words) != 2 or not all(word.isdigit() for word in words):
            return Rejection(proposal.kind, "format", "two numbers are wanted")
        if words[0] == "13":
            return Rejection(proposal.kind, "forbidden", "13 is unlucky")
        return make_task(int(words[0]), int(words[1]), proposal.kind)

    def restate(self, kind: str, spec: Mapping[str, Plain]) -> Proposal:
        if not {"a", "b"} <= spec.keys():
            raise ValueError("no numbers")
        return Proposal(kind, f"{spec['a']} {spec['b']}")

    def judge(self, pairs: Sequence[tuple[Task, Answer]], seed: int) -> list[Verdict]:
        return [self._judge(task, answer, seed) for task, answer in pairs]

    def _judge(self, task: Task, answer: Answer, seed: int) -> Verdict:
        def verdict(solved: bool, outcome: str) -> Verdict:
            return Verdict(solved, outcome, float(solved), version=self.version, seed=seed)

        if task.id in self.unsound:
            return verdict(False, "nondeterministic")
        if answer.text in ("slow", "lost"):
            return verdict(False, "limit" if answer.text == "slow" else "lost")
        if not answer.text.lstrip("-").isdigit():
            return verdict(False, "format")
        right = int(answer.text) == task.spec["a"] + task.spec["b"]
        return verdict(right, "correct" if right else "wrong")


@dataclass
class Script(Player):
    """Proposes numbers and answers with a given error; remembers what it was taught."""

    name = "script"
    error: int = 2  # answers are off by 0 … error - 1
    proposals: Sequence[str] = ()
    answers: Sequence[str] = ()
    claim: bool | None = None
    taught: list[list[tuple[Sample, float]]] = field(default_factory=list)
    asked: list[Request] = field(default_factory=list)

    def propose(self, requests: Sequence[Request], rng: np.random.Generator) -> list[Sample]:
        self.asked += requests
        texts = [
            self.proposals[at] if at < len(self.proposals) else f"{rng.integers(1, 12)} {rng.integers(0, 1000)}"
            for at in range(len(requests))
        ]
        return [Sample("propose", request.kind, text) for request, text in zip(requests, texts, strict=True)]

    def attempt(self, tasks: Sequence[Task], n: int, rng: np.random.Generator, greedy: bool = False) -> list[Sample]:
        samples = []
        for task in tasks:
            for turn in range(n):
                right = task.spec["a"] + task.spec["b"] + int(rng.integers(0, self.error))
                text = self.answers[turn % len(self.answers)] if self.answers else str(right)
                samples.append(Sample("solve", task.kind, text, task=task.id, claim=self.claim))
        return samples

    def learn(self, graded: Sequence[tuple[Sample, float]]) -> dict[str, float]:
        self.taught.append(list(graded))
        return {"lessons": float(len(self.taught))}

    def state(self) -> dict[str, object]:
        return {"lessons": len(self.taught)}

    def load_state(self, state: object) -> None:
        self.taught = [[] for _ in range(state["lessons"])]  # type: ignore[index]

    __hash__ = object.__hash__


@pytest.fixture
def make_loop(tmp_path: Path):
    opened = []

    def make(
        player: Player | None = None,
        solver: Player | None = None,
        *,
        name: str = "run",
        seed: int = 0,
        every: int = 2,
        world: World | None = None,
        reward: RewardConfig = PUBLISHED,
        suite: Sequence[Task] = (),
        evaluate_every: int = 0,
        reference_strategy: str = "uniform",
        **config: object,
    ) -> Loop:
        path = tmp_path / name
        fresh = not path.exists()
        run = Run.create(tmp_path, name, {}, verb="play", seed=seed) if fresh else Run.open(path)
        bounds = ArchiveConfig(floor=1, reference_strategy=reference_strategy, recency=1000)
        archive = (Archive.create if fresh else Archive.open)(run.archive, bounds)
        opened.extend((archive, run))
        settings = LoopConfig(**{"batch": 3, "attempts": 4, "references": 2, "seeding": 2} | config)  # type: ignore[arg-type]
        player = player or Script()
        checkpoint = CheckpointConfig(every=every)
        parts = (world or SumWorld(), player, solver or player, archive)
        how = {"reward": reward, "checkpoint": checkpoint, "suite": suite, "evaluate_every": evaluate_every}
        loop = Loop(settings, run, *parts, seed=seed, **how)
        if not fresh:
            loop.restore(*run.checkpoints.load())
        return loop

    yield make
    for part in opened:
        part.close()


def close(loop: Loop) -> None:
    loop.archive.close()
    loop.directory.close()


def test_the_small_world_passes_the_conformance_check():
    proposals = [Proposal("sum", "1 2"), Proposal("more", "x"), Proposal("sum", "13 1")]
    check_world(SumWorld(), proposals, [Answer("3"), Answer("4"), Answer("slow")])


def test_the_scripted_player_passes_the_conformance_check():
    check_player(Script(), [Request("sum"), Request("more")], [make_task(1, 2), make_task(3, 4)])


def test_step_zero_fills_every_kind_without_learning(make_loop):
    player = Script()
    loop = make_loop(player)
    loop.run_step()
    assert loop.step == 0
    assert all(loop.archive.active(kind) >= 6 for kind in ("sum", "more"))
    assert player.taught == []


def test_step_zero_ends_when_the_proposer_has_nothing_to_offer(make_loop):
    loop = make_loop(Script(proposals=["nonsense"] * 6))
    loop.run_step()
    assert loop.archive.active("sum") == 1  # the world's own seed


def test_new_tasks_are_attempted_in_the_step_that_proposed_them(make_loop):
    player = Script()
    loop = make_loop(player)
    loop.run(2)
    new = {entry.task.id for entry in loop.archive.tasks(limit=1000) if entry.step == 1}
    attempted = {sample.task for sample, _ in player.taught[-1] if sample.role == "solve"}
    assert new
    assert new <= attempted


def test_a_batch_short_of_new_tasks_is_filled_up_from_the_archive(make_loop):
    player = Script()
    loop = make_loop(player)
    loop.run_step()
    player.proposals = ["nonsense"] * 6
    loop.run_step()
    solved = [sample for sample, _ in player.taught[-1] if sample.role == "solve"]
    assert len(solved) == 2 * 3 * 4  # kinds, batch, attempts


def test_fewer_proposals_than_a_batch_leave_the_rest_to_the_archive(make_loop):
    player = Script()
    loop = make_loop(player, proposals=1)
    loop.run(2)
    roles = [sample.role for sample, _ in player.taught[-1]]
    assert (roles.count("propose"), roles.count("solve")) == (2, 2 * 3 * 4)


def test_siblings_of_new_tasks_are_archived_and_attempted_if_there_is_room(make_loop, monkeypatch):
    other = {"sum": "more", "more": "sum"}
    siblings = lambda self, task: [make_task(task.spec["a"], task.spec["b"], other[task.kind])]  # noqa: E731
    monkeypatch.setattr(SumWorld, "siblings", siblings)
    player = Script()
    loop = make_loop(player, proposals=1)
    loop.run(2)
    new = [entry.task for entry in loop.archive.tasks(limit=1000) if entry.step == 1]
    assert {(task.kind, task.spec["a"], task.spec["b"]) for task in new} == {
        (kind, task.spec["a"], task.spec["b"]) for task in new for kind in other
    }
    assert {task.id for task in new} <= {sample.task for sample, _ in player.taught[-1] if sample.role == "solve"}


def test_siblings_are_asked_for_before_anything_else_is_admitted(make_loop, monkeypatch):
    admit, newest = SumWorld.admit, list[Task | Rejection]()

    def admitting(self, proposals, seed):
        newest[:] = results = admit(self, proposals, seed)
        return results

    monkeypatch.setattr(SumWorld, "admit", admitting)
    late = list[Task]()
    monkeypatch.setattr(SumWorld, "siblings", lambda self, task: [] if task in newest else late.append(task) or [])
    loop = make_loop(Script(), proposals=1)
    loop.run(3)
    assert {entry.task.kind for entry in loop.archive.tasks(limit=1000)} == {"sum", "more"}
    assert late == []


def test_all_attempts_that_measured_difficulty_are_learned_from(make_loop):
    player = Script()
    loop = make_loop(player)
    loop.run(2)
    roles = [sample.role for sample, _ in player.taught[0]]
    assert roles.count("propose") == 6
    assert roles.count("solve") == 24


def test_kinds_named_are_attempted_as_often_as_said(make_loop):
    loop = make_loop(Script(), attempts=4, attempts_at={"more": 7})
    loop.run_step()
    loop.run_step()
    taught = [sample.kind for sample, _ in loop.solver.taught[-1] if sample.role == "solve"]
    assert (taught.count("sum"), taught.count("more")) == (3 * 4, 3 * 7)
    assert {entry.attempts for entry in loop.archive.tasks("more") if entry.step == 1} == {7}


def test_kinds_named_are_proposed_as_often_as_said(make_loop):
    player = Script()
    loop = make_loop(player, batch=3, proposals=2, proposals_at={"more": 5})
    loop.run(1)
    before = len(player.asked)
    loop.run(1)
    assert Counter(request.kind for request in player.asked[before:]) == {"sum": 2, "more": 5}


def test_tasks_beyond_the_batch_are_kept_and_nothing_is_paid_for_them_yet(make_loop):
    loop = make_loop(Counting(), batch=3, proposals_at={"more": 5})
    figures = loop.run(2)
    assert figures["solve/more/new_tasks"] == 3
    assert [entry.attempts for entry in loop.archive.tasks("more", limit=1000) if entry.step == 1] == [4, 4, 4, 0, 0]
    paid = [sample for sample, _ in loop.solver.taught[-1] if (sample.role, sample.kind) == ("propose", "more")]
    assert len(paid) == 3


class SortedWorld(SumWorld):
    """Tasks whose first number is 0 are of a sort of their own."""

    def sort_of(self, task: Task) -> str:
        return "zero" if task.spec["a"] == 0 else ""


class Counting(Script):
    """Never proposes the same again."""

    def propose(self, requests: Sequence[Request], rng: np.random.Generator) -> list[Sample]:
        self.made = getattr(self, "made", 0) + len(requests)
        texts = [f"{at % 2} {self.made + at}" for at in range(len(requests))]
        return [Sample("propose", request.kind, text) for request, text in zip(requests, texts, strict=True)]


def test_a_learner_is_told_what_sort_of_task_each_text_made_or_was_for(make_loop):
    loop = make_loop(Counting(), world=SortedWorld())
    loop.run_step()
    loop.run_step()
    taught = [sample for sample, _ in loop.solver.taught[-1]]
    solved = [(sample.sort, loop.archive.task(sample.task).spec["a"]) for sample in taught if sample.role == "solve"]
    made = [(sample.sort, int(sample.text.split()[0])) for sample in taught if sample.role == "propose"]
    assert set(solved) == set(made) == {("zero", 0), ("", 1)}


class HindsightWorld(SumWorld):
    """A wrong sum is right for a task with another second number."""

    def _judge(self, task: Task, answer: Answer, seed: int) -> Verdict:
        verdict = super()._judge(task, answer, seed)
        if not self.hindsight or verdict.outcome != "wrong":
            return verdict
        a = int(str(task.spec["a"]))
        return replace(verdict, achieved=(make_task(a, int(answer.text) - a, task.kind),))


class Relabeller(Script):
    def relabel(self, sample: Sample, task: Task) -> Sample | None:
        return replace(sample, task=task.id, hindsight=True)


def test_wrong_answers_are_learned_from_as_right_ones_to_what_they_solve(make_loop):
    loop = make_loop(Relabeller(error=3), world=HindsightWorld(), hindsight=True)
    loop.run_step()
    loop.run_step()
    moved = [(sample, reward) for sample, reward in loop.solver.taught[-1] if sample.hindsight]
    assert moved
    assert len({(sample.task, sample.text) for sample, _ in moved}) == len(moved)
    assert {reward for _, reward in moved} == {1.0}
    said = {sample.task for sample, _ in loop.solver.taught[-1] if not sample.hindsight}
    assert not {sample.task for sample, _ in moved} & said


@pytest.mark.parametrize(("player", "asked"), [(Relabeller, False), (Script, True)], ids=["not asked for", "cannot"])
def test_without_hindsight_only_what_was_said_is_learned_from(make_loop, player, asked):
    loop = make_loop(player(error=3), world=HindsightWorld(), hindsight=asked)
    loop.run_step()
    loop.run_step()
    assert not any(sample.hindsight for sample, _ in loop.solver.taught[-1])


class Reciter(Script):
    def recite(self, task: Task) -> Sample | None:
        text = str(task.spec["a"] + task.spec["b"])
        return Sample("solve", task.kind, text, task=task.id, hindsight=True) if task.kind == "sum" else None


def test_answers_that_new_tasks_come_with_are_learned_from_once(make_loop, monkeypatch):
    siblings = lambda self, task: [make_task(task.spec["a"] + 1, task.spec["b"], task.kind)]  # noqa: E731
    monkeypatch.setattr(SumWorld, "siblings", siblings)
    loop = make_loop(Reciter(), hindsight=True)
    loop.run(2)
    new = [entry.task.id for entry in loop.archive.tasks("sum", limit=1000) if entry.step == 1]
    recited = [(sample.task, reward) for sample, reward in loop.solver.taught[-1] if sample.hindsight]
    assert sorted(recited) == sorted((identity, 1.0) for identity in new)


def asking(self, task: Task, answer: Answer) -> list[Proposal]:
    """Whether its answer, and one more than that, is more than nothing."""
    return [Proposal("more", f"{answer.text} 0"), Proposal("more", f"{answer.text} 1")] if task.kind == "sum" else []


def test_what_answers_give_to_ask_is_archived_and_nobody_is_paid_for_it(make_loop, monkeypatch):
    monkeypatch.setattr(SumWorld, "questions", asking)
    player = Script(answers=["100", "200"])
    loop = make_loop(player, questions=1)
    loop.run(2)
    asked = [entry for entry in loop.archive.tasks("more", limit=1000) if entry.task.spec["a"] >= 100]
    assert len({entry.task.spec["a"] for entry in asked}) == 1  # answer, about which all is asked that it gives
    assert len(asked) == 2
    assert {entry.step for entry in asked} == {1}
    assert not {entry.task.id for entry in asked} & {sample.task for sample, _ in player.taught[-1]}


def test_the_answers_to_what_answers_give_to_ask_are_learned_in_hindsight(make_loop, monkeypatch):
    monkeypatch.setattr(SumWorld, "questions", lambda self, task, answer: [Proposal("sum", f"{answer.text} 0")])
    loop = make_loop(Reciter(answers=["100"]), questions=4, hindsight=True)
    loop.run(2)
    (new,) = [entry.task.id for entry in loop.archive.tasks("sum", limit=1000) if entry.task.spec["a"] == 100]
    assert (new, 1.0) in [(sample.task, reward) for sample, reward in loop.solver.taught[-1] if sample.hindsight]


def test_a_question_that_was_proposed_in_the_same_step_is_asked_once(make_loop, monkeypatch):
    monkeypatch.setattr(SumWorld, "questions", lambda self, task, answer: [Proposal("sum", "7 7")])
    loop = make_loop(Script(proposals=["7 7"]), questions=4, seeding=0)
    loop.run(2)
    assert len([entry for entry in loop.archive.tasks("sum", limit=1000) if entry.task.spec["a"] == 7]) == 1


@pytest.mark.parametrize("said", ["slow", "lost"])
def test_an_answer_that_is_no_evidence_gives_nothing_to_ask(make_loop, monkeypatch, said: str):
    asked: list[str] = []

    def remembering(self, task: Task, answer: Answer) -> list[Proposal]:
        asked.append(answer.text)
        return asking(self, task, answer)

    monkeypatch.setattr(SumWorld, "questions", remembering)
    make_loop(Script(answers=[said, "100"]), questions=4).run(2)
    assert set(asked) == {"100"}


def test_it_is_counted_what_becomes_of_what_answers_give_to_ask(make_loop, monkeypatch):
    monkeypatch.setattr(SumWorld, "questions", lambda self, task, answer: asking(self, task, answer)[:1] * 2)
    figures = make_loop(Script(answers=["100"]), questions=1).run(2)
    assert (figures["questions/admitted"], figures["questions/refused"]) == (1.0, 1.0)  # the second is a duplicate
    assert not [name for name in make_loop(Script(), name="other").run(2) if name.startswith("questions/")]


def test_nothing_is_asked_about_answers_unless_it_is_wanted(make_loop, monkeypatch):
    monkeypatch.setattr(SumWorld, "questions", asking)
    loop = make_loop(Script(answers=["100"]))
    loop.run(2)
    assert not [entry for entry in loop.archive.tasks("more", limit=1000) if entry.task.spec["a"] == 100]


def test_without_hindsight_no_answer_is_recited(make_loop):
    loop = make_loop(Reciter(), hindsight=False)
    loop.run(2)
    assert not any(sample.hindsight for sample, _ in loop.solver.taught[-1])


def test_a_known_task_proposed_again_is_a_duplicate(make_loop):
    loop = make_loop(Script(proposals=["5 5", "5 5"]), batch=2, seeding=1)
    loop.run_step()
    assert loop.became["sum/duplicate"] >= 1
    assert len([entry for entry in loop.archive.tasks(kind="sum") if dict(entry.task.spec) == {"a": 5, "b": 5}]) == 1


@pytest.mark.parametrize("key", ["attempts_at", "proposals_at"])
def test_an_unknown_kind_among_those_named_is_one_line(key: str):
    def named(**many: int) -> LoopConfig:
        keywords: dict[str, Any] = {key: many}
        return LoopConfig(**keywords)

    named(more=7, deduction=3).check_kinds(SumWorld())  # the latter any world may have
    with pytest.raises(UserError, match=rf"^loop\.{key}\.mroe: no such kind; did you mean more"):
        named(mroe=7).check_kinds(SumWorld())
    with pytest.raises(ValueError, match=rf"^loop\.{key}\.more is 0"):
        named(more=0)


def test_seeds_and_imported_tasks_that_the_run_is_measured_with_stay_out(make_loop, tmp_path):
    first = make_loop(name="first")
    first.run_step()
    file = tmp_path / "tasks.jsonl"
    export_jsonl(first.archive, file)
    known = [entry.task for entry in first.archive.tasks(limit=1000)]
    seed, other = (
        SumWorld().seeds()[0],
        next(task for task in known if task.id not in {s.id for s in SumWorld().seeds()}),
    )
    second = make_loop(name="second", seeding=0, tasks=str(file), suite=[seed, other])
    second.run_step()
    assert second.imported is not None
    assert {rejection.outcome for _, rejection in second.imported.rejected} == {"heldout"}
    held = {entry.task.id for entry in second.archive.tasks(limit=1000)}
    assert held == {task.id for task in known} - {seed.id, other.id}


def test_what_a_run_is_measured_with_is_not_learned_in_hindsight(make_loop):
    def moved(name: str, suite: Sequence[Task]) -> set[str]:
        loop = make_loop(Relabeller(error=3), world=HindsightWorld(), hindsight=True, suite=suite, name=name)
        loop.run_step()
        loop.run_step()
        asked = {entry.task.id for entry in loop.archive.tasks(limit=1000)}
        # Of what was proposed itself it would not have got so far.
        return {sample.task or "" for sample, _ in loop.solver.taught[-1] if sample.hindsight} - asked

    achieved = moved("free", [])
    every = {task.id: task for a in range(200) for b in range(-200, 200) for task in [make_task(a, b)]}
    held = next(task for name, task in every.items() if name in achieved)
    assert len(achieved) > 1
    assert moved("measured", [held]) == achieved - {held.id}


def test_a_task_that_the_run_is_measured_with_is_not_admitted(make_loop):
    loop = make_loop(Script(proposals=["5 5", "5 6"]), batch=2, seeding=1, suite=[make_task(5, 5)])
    loop.run_step()
    assert loop.became["sum/heldout"] >= 1
    specs = [dict(entry.task.spec) for entry in loop.archive.tasks(kind="sum")]
    assert {"a": 5, "b": 6} in specs
    assert {"a": 5, "b": 5} not in specs


def test_a_proposer_earns_the_learnability_of_its_task_and_a_solver_its_answer(make_loop):
    player = Script()
    loop = make_loop(player, attempts=4)
    loop.run_step()
    player.proposals, player.answers = ["7 70", "nonsense", "13 1"], ["77", "0", "0", "x"]
    loop.run_step()
    earned = {sample.text: reward for sample, reward in player.taught[-1] if sample.role == "propose"}
    assert earned["7 70"] == 0.75  # one of four attempts right
    assert earned["nonsense"] == -1.0
    assert earned["13 1"] == -0.5
    answers = {sample.text: reward for sample, reward in player.taught[-1] if sample.task == make_task(7, 70).id}
    assert answers == {"77": 1.0, "0": -0.5, "x": -1.0}


def test_an_attempt_cut_by_a_time_limit_earns_what_a_wrong_one_does_but_says_nothing_of_the_task(make_loop):
    player = Script(answers=["slow", "slow", "slow", "0"])
    loop = make_loop(player)
    figures = loop.run(2)
    assert {reward for sample, reward in player.taught[-1] if sample.text == "slow"} == {-0.5}
    assert figures["solve/sum/evidence_share"] == 0.25
    assert {(entry.attempts, entry.solved) for entry in loop.archive.tasks(limit=100) if entry.attempts} == {(1, 0)}


def test_an_attempt_whose_judge_was_lost_is_not_learned_from(make_loop):
    player = Script(answers=["lost", "0"])
    loop = make_loop(player)
    loop.run(2)
    assert all(sample.text != "lost" for sample, _ in player.taught[-1])
    assert sum(sample.role == "solve" for sample, _ in player.taught[-1]) == 12


def test_a_task_that_contradicts_itself_is_retired(make_loop):
    world, player = SumWorld(), Script()
    loop = make_loop(player, world=world)
    loop.run_step()
    player.proposals = ["nonsense"] * 6  # so that archived tasks are practised
    doomed = {entry.task.id for entry in loop.archive.tasks(limit=100)}
    world.unsound = doomed
    loop.run(2)
    retired = {entry.task.id: entry.retired_why for entry in loop.archive.tasks(active=False, limit=1000)}
    assert retired
    assert set(retired) <= doomed
    assert set(retired.values()) == {"nondeterministic"}


def test_two_players_learn_each_from_their_own_role(make_loop):
    proposer, solver = Script(), Script()
    loop = make_loop(proposer, solver)
    loop.run(2)
    assert {sample.role for sample, _ in proposer.taught[0]} == {"propose"}
    assert {sample.role for sample, _ in solver.taught[0]} == {"solve"}


def test_what_two_players_learned_is_told_apart(make_loop):
    proposer, solver = Script(), Script()
    solver.taught.append([])
    figures = make_loop(proposer, solver).run(2)
    assert (figures["learn/proposer/lessons"], figures["learn/solver/lessons"]) == (1.0, 2.0)


def test_a_false_claim_of_success_is_entered_in_the_ledger_and_changes_nothing(make_loop):
    loop = make_loop(Script(answers=["-1"], claim=True))
    figures = loop.run(2)
    assert figures["cheating/false_claims"] == 24
    assert figures["solve/sum/solve_rate"] == 0
    assert loop.result(True)["cheating"]["false_claims"] == 24


def test_a_request_names_references_recent_tasks_and_what_became_of_proposals(make_loop):
    player = Script()
    loop = make_loop(player, difficulty=0.5, recent=3)
    loop.run(2)
    request = player.asked[-1]
    assert len(request.references) == 2
    assert len(request.recent) == 3
    assert request.difficulty == 0.5
    assert request.outcomes["admitted"] > 0
    assert request.base is not None
    assert request.base.kind == "sum"  # where kind `more` builds on


def test_a_request_says_how_attempts_went_lately_and_what_is_older_counts_less(make_loop):
    player = Script(error=1)
    loop = make_loop(player)
    loop.run(2)
    assert loop.lately["sum/"] == [12.0, 12.0]
    player.error, player.answers = 2, ["-1"]
    loop.run(2)
    assert player.asked[-1].lately == {"": pytest.approx(0.8 / 1.8)}
    assert loop.lately["sum/"] == pytest.approx([0.64 * 12, (0.64 + 0.8 + 1) * 12])


def test_how_attempts_went_is_forgotten_where_none_are_made():
    known = {"sum/": [3.0, 12.0], "old/": [0.1, 0.6]}
    assert measures.lately(known, Attempted(), lambda _: "") == {"sum/": pytest.approx([2.4, 9.6])}


def test_how_attempts_went_is_known_again_after_a_resume(make_loop):
    loop = make_loop(Script())
    loop.run(3)
    close(loop)
    assert make_loop(Script()).lately == loop.lately != {}


def test_lineage_names_the_references_a_proposal_was_shown(make_loop):
    player = Script()
    loop = make_loop(player)
    loop.run(2)
    newest = max(entry.sample or 0 for entry in loop.archive.tasks(kind="sum", limit=1000))
    shown = [target for relation, target in loop.archive.lineage(newest) if relation == "reference"]
    assert shown
    assert loop.archive.known(shown) == set(shown)


def test_equal_seeds_give_equal_runs_and_another_seed_another(make_loop, tmp_path):
    digests = []
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        loop = make_loop(name=name, seed=seed)
        loop.run(4)
        close(loop)
        digests.append(run_digest(tmp_path / name))
    assert digests[0] == digests[1] != digests[2]


def test_a_resumed_run_equals_an_uninterrupted_one(make_loop, tmp_path):
    whole = make_loop(name="whole")
    whole.run(7)
    close(whole)
    cut = make_loop(name="cut")
    for _ in range(5):  # the last checkpoint is of step 4; step 5 is begun below and lost
        cut.run_step()
    cut.run_step()
    close(cut)
    resumed = make_loop(name="cut")
    assert resumed.step == 4
    resumed.run(2)
    close(resumed)
    assert run_digest(tmp_path / "cut") == run_digest(tmp_path / "whole")


def test_a_step_that_fails_leaves_no_trace_in_the_archive(make_loop):
    class Broken(SumWorld):
        def judge(self, pairs: Sequence[tuple[Task, Answer]], seed: int) -> list[Verdict]:
            raise RuntimeError("the simulator is gone")

    loop = make_loop(world=Broken())
    loop.run_step()
    before = loop.archive.digest()
    with pytest.raises(RuntimeError, match="gone"):
        loop.run_step()
    assert loop.archive.digest() == before
    assert loop.step == 0


def test_evaluation_reports_accuracy_by_kind_and_depth(make_loop):
    loop = make_loop(Script(error=1))
    suite = [make_task(a, b, kind) for kind in ("sum", "more") for a in (1, 2) for b in range(5)]
    figures = loop.evaluate(suite)
    assert (figures["sum"]["accuracy"], figures["sum"]["n"]) == (1.0, 10)
    assert {depth: row["accuracy"] for depth, row in figures["sum"]["depth"].items()} == {"1": 1.0, "2": 1.0}


SUITE = [make_task(a, b, kind) for kind in ("sum", "more") for a in (1, 2, 3) for b in range(4)]


@dataclass
class Pupil(Script):
    """Solves held-out tasks as deep as it has had lessons; notes how it was asked."""

    seconds: float = 0.0  # that a measurement takes
    lent: bool = False
    measured: list[bool] = field(default_factory=list)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        self.lent = True
        yield
        self.lent = False

    def attempt(self, tasks: Sequence[Task], n: int, rng: np.random.Generator, greedy: bool = False) -> list[Sample]:
        if not greedy:
            return super().attempt(tasks, n, rng)
        time.sleep(self.seconds)
        self.measured.append(self.lent)
        wrong = [int(task.features["depth"] > len(self.taught)) for task in tasks]
        said = [str(task.spec["a"] + task.spec["b"] + off) for task, off in zip(tasks, wrong, strict=True)]
        return [Sample("solve", task.kind, text, task=task.id) for task, text in zip(tasks, said, strict=True)]

    __hash__ = object.__hash__


def lines_of(loop: Loop) -> list[dict[str, float]]:
    return [json.loads(line) for line in loop.directory.metrics.path.read_text().splitlines()]


def heldout(line: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in line.items() if name.startswith("heldout/")}


def test_every_so_many_steps_the_line_has_the_held_out_accuracy(make_loop):
    loop = make_loop(Pupil(), suite=SUITE, evaluate_every=2)
    loop.run(6)
    depths = {"heldout/sum/depth/1": 1.0, "heldout/sum/depth/2": 1.0, "heldout/sum/depth/3": 0.0}
    assert {name: value for name, value in heldout(lines_of(loop)[2]).items() if "sum" in name} == {
        "heldout/sum": pytest.approx(2 / 3),
        **depths,
    }
    assert [line.get("heldout/more") for line in lines_of(loop)] == [0.0, None, pytest.approx(2 / 3), None, 1.0, None]


def test_measuring_in_between_uses_the_weights_that_are_evaluated(make_loop):
    player = Pupil()
    make_loop(player, suite=SUITE, evaluate_every=1).run(3)
    assert player.measured == [True, True, True]


def test_measuring_in_between_changes_nothing_else(make_loop):
    plain, measured = (
        make_loop(Pupil(), name="plain"),
        make_loop(Pupil(), name="measured", suite=SUITE, evaluate_every=1),
    )
    plain.run(4)
    measured.run(4)
    assert plain.archive.digest() == measured.archive.digest()
    assert [
        {name: value for name, value in line.items() if not name.startswith(("time/", "heldout/"))}
        for line in lines_of(measured)
    ] == [{name: value for name, value in line.items() if not name.startswith("time/")} for line in lines_of(plain)]


def test_a_resumed_run_has_the_same_held_out_figures(make_loop, tmp_path):
    how = {"suite": SUITE, "evaluate_every": 3}
    whole = make_loop(Pupil(), name="whole", **how)
    whole.run(8)
    close(whole)
    cut = make_loop(Pupil(), name="cut", **how)
    for _ in range(4):  # the last checkpoint is of step 2; step 3 is measured and lost
        cut.run_step()
    close(cut)
    resumed = make_loop(Pupil(), name="cut", **how)
    assert resumed.step == 2
    resumed.run(5)
    close(resumed)
    assert run_digest(tmp_path / "cut") == run_digest(tmp_path / "whole")
    assert [bool(heldout(line)) for line in lines_of(whole)] == [step % 3 == 0 for step in range(8)]


def test_measuring_takes_none_of_the_time_of_steps(make_loop):
    loop = make_loop(Pupil(seconds=0.3), suite=SUITE, evaluate_every=1)
    loop.run_step()
    figures = loop.run_step()
    assert figures["time/evaluate"] >= 0.3
    assert 0 < loop.seconds < 0.3


def test_what_was_measured_holds_until_something_is_learned(make_loop):
    player = Pupil()
    loop = make_loop(player, suite=SUITE, evaluate_every=1)
    before = loop.measure()
    loop.run_step()
    assert evaluation.figures(before) == heldout(lines_of(loop)[0])
    assert len(player.measured) == 1
    loop.run_step()
    loop.measure()
    assert len(player.measured) == 2


def test_a_step_whose_measuring_fails_leaves_no_trace_in_the_archive(make_loop):
    class Unasked(Pupil):
        def evaluating(self):  # type: ignore[override]
            raise RuntimeError("the server is gone")

    loop = make_loop(Unasked(), suite=SUITE)
    loop.run_step()
    before, loop.evaluate_every = loop.archive.digest(), 1
    with pytest.raises(RuntimeError, match="gone"):
        loop.run_step()
    assert loop.archive.digest() == before
    assert loop.step == 0


def test_references_are_drawn_as_the_archive_is_told(make_loop):
    player = Script()
    loop = make_loop(player, reference_strategy="recent")
    loop.run_step()
    newest = {kind: loop.archive.newest(kind, 2) for kind in ("sum", "more")}
    asked = len(player.asked)
    loop.run_step()
    for request in player.asked[asked:]:
        assert [task.id for task in request.references] == newest[request.kind]
        assert request.base is None or request.base.id == newest["sum"][0]


@pytest.mark.parametrize("practice", ["uniform", "recent"])
def test_batches_are_filled_up_as_practice_says(make_loop, practice):
    player = Script()
    loop = make_loop(player, practice=practice, seeding=8)
    loop.run_step()
    newest, player.proposals = set(loop.archive.newest("sum", 3)), ["nonsense"] * 6
    loop.run_step()
    practised = {sample.task for sample, _ in player.taught[-1] if (sample.role, sample.kind) == ("solve", "sum")}
    assert (practised == newest) is (practice == "recent")


def test_difficulty_is_measured_of_new_tasks_and_of_all_that_were_attempted(make_loop):
    player = Script()
    loop = make_loop(player, attempts=4)
    loop.run_step()
    player.proposals = ["7 70", "3 30", "nonsense"]
    player.answers = ["77", "77", "77", "0"]  # solves the first of the new tasks in 3 of 4 attempts
    figures = loop.run_step()
    assert (figures["propose/sum/solve_rate"], figures["propose/sum/learnability"]) == (3 / 8, 1 / 8)
    assert figures["propose/sum/feature/depth"] == 5.0
    attempted = {sample.task: sample.task for sample, _ in player.taught[-1] if sample.kind == "sum" and sample.task}
    depths = [entry.task.features["depth"] for entry in loop.archive.tasks(limit=1000) if entry.task.id in attempted]
    assert len(depths) == 3
    assert figures["solve/sum/feature/depth"] == pytest.approx(sum(depths) / 3)
    assert figures["solve/sum/solve_rate"] == 3 / 12
    assert figures["solve/sum/learnability"] == pytest.approx(0.25 / 3)


def test_tasks_of_an_exported_archive_are_proposed_again_and_bad_lines_are_named(make_loop, tmp_path):
    first = make_loop(name="first")
    first.run_step()
    file = tmp_path / "tasks.jsonl"
    export_jsonl(first.archive, file)
    task = {"type": "task", "world": "sums", "kind": "sum", "features": {}}
    others = [task | {"spec": {"a": 13, "b": 2}}, task | {"spec": {"x": 1}}, task | {"world": "arm", "spec": {}}]
    file.write_text(file.read_text() + "".join(json.dumps(line) + "\n" for line in others) + "{broken\n")
    second = make_loop(name="second", seed=9, seeding=0, tasks=str(file))
    second.run_step()
    assert second.imported is not None
    ids = {entry.task.id for entry in first.archive.tasks(limit=1000)}
    assert {entry.task.id for entry in second.archive.tasks(limit=1000)} == ids
    assert [rejection.outcome for _, rejection in second.imported.rejected] == ["forbidden", "format", "format"]
    assert len(second.imported.bad) == 1


def test_metrics_hold_one_flat_line_a_step(make_loop):
    loop = make_loop()
    loop.run(3)
    lines = [json.loads(line) for line in (loop.directory.path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2]
    assert {"propose/sum/valid_share", "solve/sum/solve_rate", "time/judge"} <= lines[-1].keys()
    assert all(isinstance(value, int | float) for value in lines[-1].values())


def test_time_is_measured_by_kind(make_loop):
    loop = make_loop()
    loop.run_step()
    figures = loop.run_step()
    for phase in ("propose", "admit", "attempt", "judge"):
        by_kind = [figures[f"time/{phase}/{kind}"] for kind in loop.world.kinds]
        assert sum(by_kind) == pytest.approx(figures[f"time/{phase}"])


@pytest.mark.parametrize(
    ("key", "value"), [("batch", 0), ("attempts", 0), ("practice", "wild"), ("difficulty", 7.0), ("seeding", -1)]
)
def test_a_loop_that_makes_no_sense_is_refused(key, value):
    with pytest.raises(ValueError, match=key):
        LoopConfig(**{key: value})


def test_a_learnability_that_could_never_say_anything_is_refused(make_loop):
    with pytest.raises(UserError, match="says nothing of 2 attempts"):
        make_loop(attempts=2, reward=RewardConfig(learnability="paper-unbiased"))


def test_kinds_that_build_on_others_are_seeded_after_them(make_loop):
    player = Script()
    make_loop(player).run_step()
    kinds = [request.kind for request in player.asked]
    assert kinds == sorted(kinds, key=["sum", "more"].index)
    assert len({request.base.id for request in player.asked if request.base}) > 1


def test_a_proposal_that_the_judge_lost_earns_nothing(make_loop):
    class Losing(SumWorld):
        def admit(self, proposals: Sequence[Proposal], seed: int) -> list[Task | Rejection]:
            return [
                Rejection(proposal.kind, "lost", "the server died") if proposal.text == "9 9" else self._admit(proposal)
                for proposal in proposals
            ]

    player = Script(proposals=["9 9", "13 1"])
    make_loop(player, world=Losing()).run(2)
    assert {s.text: reward for s, reward in player.taught[-1] if s.role == "propose" and s.text in ("9 9", "13 1")} == {
        "13 1": -0.5
    }


def test_figures_without_evidence_are_left_out(make_loop):
    figures = make_loop(Script(answers=["lost"])).run(2)
    assert "solve/sum/solve_rate" not in figures
    assert figures["solve/sum/evidence_share"] == 0


def test_the_ledger_is_also_kept_by_role_and_kind(make_loop):
    player = Script(proposals=["13 1"])
    figures = make_loop(player).run(2)
    kinds = [name for name in figures if name.endswith("/cheating/forbidden_calls")]
    assert "propose/sum/cheating/forbidden_calls" in kinds
    assert figures["cheating/forbidden_calls"] == sum(figures[name] for name in kinds) == 2


def test_running_no_steps_writes_nothing(make_loop):
    loop = make_loop()
    assert loop.run(0) == {}
    assert loop.directory.checkpoints.steps() == []
    assert list((loop.directory.path).glob("checkpoints/*")) == []


# Second looks


class Reader(Script):
    """Is wrong at first and right when it was told so; thinks well of all that it says."""

    name = "reader"
    reads = True

    def retry(self, failed: Sequence[tuple[Task, Sample, Verdict]], rng: np.random.Generator) -> list[Sample]:
        return [
            replace(sample, text=str(task.spec["a"] + task.spec["b"]), parent=content_address(sample.text))
            for task, sample, _ in failed
        ]

    def criticise(self, answered: Sequence[tuple[Task, Sample]], rng: np.random.Generator) -> list[Sample]:
        return [
            replace(sample, role="criticise", text="yes", claim=True, parent=content_address(sample.text))
            for _, sample in answered
        ]


@pytest.fixture
def with_feedback(monkeypatch):
    monkeypatch.setattr(SumKind, "feedback", True)


@pytest.mark.usefixtures("with_feedback")
def test_failed_answers_are_tried_again_within_the_budget(make_loop):
    player = Reader(answers=["0"])
    loop = make_loop(player, retries=2, retry_budget=5)
    loop.run_step()
    figures = loop.run_step()
    again = [sample for sample, _ in player.taught[-1] if sample.parent is not None]
    assert len(again) == 2 * 5  # of two kinds: all are right at the first retry, so there is no second
    assert figures["solve/sum/retries"] == 5
    assert figures["solve/sum/retry_solve_rate"] == 1.0


@pytest.mark.usefixtures("with_feedback")
def test_a_retry_says_nothing_of_how_hard_a_task_is(make_loop):
    loop = make_loop(Reader(answers=["0"]), retries=1)
    loop.run_step()
    assert loop.run_step()["solve/sum/solve_rate"] == 0.0


@pytest.mark.usefixtures("with_feedback")
def test_a_retry_is_archived_with_the_answer_that_it_retries(make_loop):
    loop = make_loop(Reader(answers=["0"]), retries=1, retry_budget=1)
    loop.run(2)
    rows = list(loop.archive.sample_rows())
    linked = [row for row in rows if ("parent", content_address("0")) in loop.archive.lineage(row["n"])]
    assert [row["role"] for row in linked] == ["solve", "solve"]  # one a kind


def test_kinds_whose_verdicts_would_give_the_answer_away_are_not_retried(make_loop):
    player = Reader(answers=["0"])
    loop = make_loop(player, retries=2)
    loop.run(2)
    assert all(sample.parent is None for sample, _ in player.taught[-1])


def test_what_a_solver_thinks_of_its_answers_is_recorded_and_not_learned(make_loop):
    player = Reader(answers=["0", "1"])
    loop = make_loop(player, critiques=2)
    loop.run_step()
    figures = loop.run_step()
    rows = [row for row in loop.archive.sample_rows() if row["role"] == "criticise"]
    assert [(row["text"], row["claim"], row["reward"]) for row in rows] == [("yes", True, None)] * 4
    assert all(sample.role != "criticise" for sample, _ in player.taught[-1])
    assert figures["solve/sum/critiques_right"] == 0.0


@pytest.mark.parametrize("key", ["retries", "critiques"])
def test_a_player_that_reads_nothing_is_not_asked_for_a_second_look(make_loop, key: str):
    with pytest.raises(UserError, match=f"loop.{key}: the player script reads no words"):
        make_loop(Script(), **{key: 1})


# What a world remembers


class Remembering(SumWorld):
    """Counts what was solved."""

    def __init__(self) -> None:
        super().__init__()
        self.solved = 0

    def recall_from(self, recall) -> None:
        self.recall = recall

    def remember(self, judged: Sequence[tuple[Task, Answer, Verdict]]) -> dict[str, float]:
        assert all(self.recall(content_address(answer.text)) for _, answer, verdict in judged if verdict.solved)
        self.solved += sum(verdict.solved for _, _, verdict in judged)
        return {"solved": float(self.solved)}

    def state(self) -> dict[str, Plain]:
        return {"solved": self.solved}

    def load_state(self, state: Mapping[str, Plain]) -> None:
        self.solved = state["solved"]


def test_a_world_is_told_what_was_judged_once_it_can_be_found_in_the_archive(make_loop):
    world = Remembering()
    loop = make_loop(Script(error=1), world=world)
    loop.run_step()
    assert loop.run_step()["world/solved"] == 24.0


def test_what_a_world_remembers_goes_on_with_the_run(make_loop):
    loop = make_loop(Script(error=1), world=Remembering(), every=1)
    loop.run(2)
    close(loop)
    world = Remembering()
    make_loop(Script(error=1), world=world)
    assert world.solved == 24


def test_only_answers_that_solved_something_are_recalled(make_loop):
    loop = make_loop(Script(answers=["12345", "1"]), name="recalled")
    loop.run(2)
    assert loop.archive.solved_answer(content_address("12345")) is None
