"""The report's gallery of attempts, and solve rates by predicate and difficulty."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.play.archive import Archive
from autotelic.play.player import Sample
from autotelic.play.store import Store
from autotelic.runs.directory import Run
from autotelic.show import gallery, rates
from autotelic.show.report import write_report
from autotelic.worlds.arm.tasks import read
from autotelic.worlds.arm.world import ArmWorld
from autotelic.worlds.base import Answer, Clip, Replay, Task, Verdict, content_address

GOAL = ArmWorld.goals["induction"]
ANSWER = "def execute_controller(robot, world): ..."
Attempts = Sequence[tuple[int, bool]]  # steps, and whether they solved the task


def control(*goal: list[str], things: int = 1) -> Task:
    """A control task with this goal and so many more things than it needs."""
    colours = ["green", "yellow", "orange"][: things - 1]
    data = {"objects": ["red_box", "blue_box", *(f"{colour}_sphere" for colour in colours)], "goal": list(goal)}
    task = read({**data, "fixtures": ["button"]})
    spec = {"task": task.plain()}
    return Task(content_address(spec), "arm", "induction", spec, task.features())


def make(root: Path, rows: Sequence[tuple[Task, Attempts]], answer: str = ANSWER) -> Path:
    """A run in which these tasks were attempted so."""
    steps = sorted({step for _, attempts in rows for step, _ in attempts})
    with (
        Run.create(root, "robot", {"world": {"name": "arm"}}, verb="play") as run,
        Archive.create(run.archive) as archive,
    ):
        archive.add_tasks(0, [task for task, _ in rows])
        for step in steps:
            run.metrics.write(step, {"solve/induction/solve_rate": 0.5})
            made = [(task, hit) for task, attempts in rows for at, hit in attempts if at == step]
            samples = [Sample("solve", task.kind, answer, task.id) for task, _ in made]
            verdicts = [
                Verdict(hit, "correct" if hit else "wrong", float(hit), "" if hit else "near(red_box) is 0.2 away <b>")
                for _, hit in made
            ]
            numbers = archive.add_samples(step, samples, [None] * len(samples))
            archive.add_verdicts(step, verdicts, [task.id for task, _ in made], numbers)
    return run.path


def section(page: str, name: str) -> str:
    return re.search(rf'<section id="{name}">(.*?)</section>', page, re.DOTALL)[1]  # type: ignore[index]


def words(page: str) -> str:
    without = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", without)).split())


@pytest.fixture
def counted(tmp_path):
    """Five tasks whose rates are known."""
    path = make(
        tmp_path,
        [
            (control(["near", "red_box"]), [(1, True), (1, False), (2, True)]),
            (control(["near", "blue_box"], ["near", "red_box"], things=2), [(1, False)]),
            (control(["near", "button"], ["pressed", "button"], things=3), [(2, True), (2, True)]),
            (control(["on", "red_box", "blue_box"], things=4), [(2, False), (3, False)]),
            (control(["on", "blue_box", "red_box"], things=4), [(3, True)]),
        ],
    )
    store = Store.open(path / "archive.sqlite", readonly=True)
    yield store
    store.close()


def test_rates_by_predicate_count_an_attempt_once_for_every_name_in_its_goal(counted):
    assert rates.by_predicate(counted, "induction", GOAL) == {
        "near": {1: (1, 3), 2: (3, 3)},
        "pressed": {2: (2, 2)},
        "on": {2: (0, 1), 3: (1, 2)},
    }


def test_rates_by_difficulty_are_of_thirds_by_the_ranks_of_features(counted):
    # Means of ranks: 0 and 0.44 (near), 0.72 (pressed), 0.67 twice (on); which are alike are in one third.
    assert rates.by_difficulty(counted, "induction") == {
        "easy": {1: (1, 3), 2: (1, 1)},
        "medium": {2: (0, 1), 3: (1, 2)},
        "hard": {2: (2, 2)},
    }


def test_what_is_no_evidence_and_other_kinds_count_for_nothing(tmp_path):
    path = make(tmp_path, [(control(["near", "red_box"]), [(1, True)])])
    with Archive.open(path / "archive.sqlite") as archive:
        (entry,) = archive.tasks()
        rows = archive.add_samples(2, [Sample("solve", "induction", "", entry.task.id)], [None])
        archive.add_verdicts(2, [Verdict(False, "limit")], [entry.task.id], rows)
    store = Store.open(path / "archive.sqlite", readonly=True)
    assert rates.by_predicate(store, "induction", GOAL) == {"near": {1: (1, 1)}}
    assert rates.by_difficulty(store, "induction") == {}, "one task is neither easy nor hard"
    assert rates.by_predicate(store, "deduction", GOAL) == {}
    store.close()


def test_the_report_shows_rates_over_steps(counted):
    shown = words(section(write_report(counted.path.parent).read_text("utf-8"), "rates"))
    assert "Solve rate by predicate: induction" in shown
    assert "near 66.7 % of 6, 33.3 % → 100.0 %" in shown
    assert "Solve rate by difficulty: induction" in shown
    assert "hard 100.0 % of 2, 100.0 % → 100.0 %" in shown


def test_a_card_says_all_of_an_attempt_and_nothing_in_it_is_markup(tmp_path):
    hostile = "def execute_controller(robot, world):\n    '</pre><script>alert(1)</script>'"
    task = control(["near", "red_box"])
    page = write_report(make(tmp_path, [(task, [(1, True), (1, False)])], hostile)).read_text("utf-8")
    card = section(page, "gallery")
    assert "<script>" not in card
    assert "<b>" not in card
    shown = words(card)
    assert "Bring it about that the gripper is at the red box. On the table: a blue box" in shown
    assert "goal near(red_box)" in shown
    assert "'</pre><script>alert(1)</script>'" in shown
    assert "wrong attempt 2 of 2 · step 1" in shown
    assert "No pictures: they are drawn when a run reaches its bound." in shown
    assert "near(red_box) is 0.2 away <b>" in shown
    assert f"autotelic watch robot task={task.id[:12]} attempt=2" in shown


def test_a_critique_stands_beside_the_verdict_on_its_answer_and_is_no_markup(tmp_path):
    task, other = control(["near", "red_box"]), control(["lifted", "blue_box"])
    path = make(tmp_path, [(task, [(1, False)]), (other, [(1, False)])])
    thought = Sample(
        "criticise", task.kind, "<i>Yes</i>, it gets there.", task.id, claim=True, parent=content_address(ANSWER)
    )
    with Archive.open(path / "archive.sqlite") as archive:
        archive.add_samples(1, [thought], [None])
    page = write_report(path).read_text("utf-8")
    without, card = re.findall(r"<figure.*?</figure>", section(page, "gallery"), re.DOTALL)
    assert "its own critique, before it was judged: it is right <i>Yes</i>, it gets there." in words(card)
    assert "<i>" not in card
    assert "critique" not in without
    rows = json.loads(re.search(r'id="sample">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    said = {row["id"]: row["answers"][0]["critiques"] for row in rows}
    assert said[task.id] == [["its own critique, before it was judged: it is right", thought.text]]
    assert said[other.id] == []


def test_the_cards_are_few_always_the_same_and_of_all_sorts(tmp_path):
    goals = [["near", "red_box"], ["lifted", "red_box"], ["pressed", "button"], ["left_of", "red_box", "blue_box"]]
    rows = [
        (control(goal, things=things), [(1, (things + at) % 2 == 0)])
        for at, goal in enumerate(goals)
        for things in range(1, 5)
    ]
    path = make(tmp_path, rows) / "archive.sqlite"
    found = gallery.chosen(path, ArmWorld.goals)
    assert found == gallery.chosen(path, ArmWorld.goals)
    assert len(found) == len({exhibit.task.id for exhibit in found}) == gallery.CARDS
    few = gallery.chosen(path, ArmWorld.goals, 4)
    assert {exhibit.sort for exhibit in few} == {goal[0] for goal in goals}
    assert {exhibit.attempt.verdict.solved for exhibit in few} == {True, False}
    assert {exhibit.third for exhibit in few} == set(rates.THIRDS)


class Seen(ArmWorld):
    """Shows clips of its own instead of running anything."""

    def __init__(self, draw, outcome: str = "correct", clips: int = 1) -> None:
        self.draw, self.outcome, self.clips, self.asked = draw, outcome, clips, 0

    def replay(self, task: Task, answer: Answer, seed: int) -> Replay:
        self.asked += 1
        verdict = Verdict(self.outcome == "correct", self.outcome, float(self.outcome == "correct"))
        return Replay(verdict, [Clip(51, 25.0, self.draw)] * self.clips)


@pytest.fixture
def solved(tmp_path) -> Path:
    return make(tmp_path, [(control(["near", "red_box"], things=things), [(1, True)]) for things in (1, 2)])


def test_pictures_are_inside_the_page_spread_over_the_attempt(solved):
    drawn: list[tuple[int, int, int]] = []

    def draw(number: int, width: int, height: int) -> np.ndarray:
        drawn.append((number, width, height))
        return np.full((height, width, 3), number, np.uint8)

    page = write_report(solved, Seen(draw)).read_text("utf-8")
    assert drawn == [(number, 160, 120) for number in (0, 10, 20, 30, 40, 50)] * 2
    assert section(page, "gallery").count('<img src="data:image/png;base64,') == 2
    assert "img-src data:; " in page
    assert "It is not as it was judged" not in page


def test_an_attempt_that_ends_otherwise_now_says_so(solved):
    page = write_report(solved, Seen(lambda number, width, height: np.zeros((height, width, 3), np.uint8), "wrong"))
    assert "It is not as it was judged: now it is not solved (wrong, score 0.0)." in page.read_text("utf-8")


def test_without_a_way_to_draw_the_cards_say_so_and_nothing_is_run_in_vain(solved):
    def draw(number: int, width: int, height: int) -> np.ndarray:
        raise RuntimeError("no display")

    world = Seen(draw)
    shown = words(section(write_report(solved, world).read_text("utf-8"), "gallery"))
    assert shown.count("No pictures: the attempt cannot be drawn: RuntimeError: no display; without a screen") == 2
    assert world.asked == 1


def test_an_attempt_that_ran_nothing_or_is_damaged_has_words_instead(solved):
    class Damaged(Seen):
        def replay(self, task: Task, answer: Answer, seed: int) -> Replay:
            raise UserError("task is damaged")

    shown = words(write_report(solved, Seen(None, clips=0)).read_text("utf-8"))
    assert "No pictures: nothing came to be run." in shown
    assert "No pictures: task is damaged" in words(write_report(solved, Damaged(None)).read_text("utf-8"))


def test_a_world_with_nothing_to_see_has_no_gallery(make_run):
    page = write_report(make_run(2)).read_text("utf-8")
    assert 'id="gallery"' not in page
    assert 'id="rates"' not in page
    assert "img-src" not in page
