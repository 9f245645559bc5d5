"""Accuracy and pass@k by hand-computed numbers."""

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autotelic.play import evaluation
from autotelic.play.evaluation import enter, evaluate, figures, ks, pass_at_k, spread
from autotelic.play.player import Player, Sample
from autotelic.worlds.base import Task, Verdict


class Judge(SimpleNamespace):
    """Calls right what says so, and remembers its seeds and batches."""

    def judge(self, pairs: Any, seed: int) -> list[Verdict]:
        self.seeds.add(seed)
        self.batches.append(len(pairs))
        return [Verdict(answer.text == "right", answer.text, version="1", seed=seed) for _, answer in pairs]

    def row_of(self, task: Task) -> str:
        return self.rows.get(task.id, task.kind)


class Known(Player):
    """Is right as often as the task's spec says, in that many of its sampled attempts; greedily if it says so."""

    name = "known"

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, bool]] = []

    def propose(self, requests: Any, rng: np.random.Generator) -> list[Sample]:
        return []

    def attempt(self, tasks: Any, n: int, rng: np.random.Generator, greedy: bool = False) -> list[Sample]:
        self.asked.append((len(tasks), n, greedy))
        samples = []
        for task in tasks:
            right = n * task.spec["greedy"] if greedy else task.spec["right"]
            texts = ["right"] * right + ["limit"] * (n - right)
            samples += [Sample("solve", task.kind, text, task=task.id) for text in texts]
        return samples


def task(at: int, kind: str, depth: float | None, greedy: bool, right: int) -> Task:
    return Task(
        f"{at}", "toy", kind, {"greedy": greedy, "right": right}, {} if depth is None else {"depth": float(depth)}
    )


SUITE = [
    task(0, "one", 2, True, 4),
    task(1, "one", 1, False, 1),
    task(2, "one", 1, True, 0),
    task(3, "two", None, False, 2),
]


@pytest.fixture
def judge() -> Any:
    return Judge(seeds=set(), batches=[], rows={})


def test_accuracy_is_of_one_greedy_attempt_by_kind_and_depth(judge):
    player = Known()
    rows = evaluate(judge, player, SUITE, 3)
    assert player.asked == [(4, 1, True)]
    assert rows == {
        "one": {
            "accuracy": pytest.approx(2 / 3),
            "n": 3,
            "outcomes": {"limit": 1, "right": 2},
            "depth": {
                "1": {"accuracy": 0.5, "n": 2, "outcomes": {"limit": 1, "right": 1}},
                "2": {"accuracy": 1.0, "n": 1, "outcomes": {"right": 1}},
            },
        },
        "two": {"accuracy": 0.0, "n": 1, "outcomes": {"limit": 1}, "depth": {}},
    }


def test_a_world_may_count_tasks_under_more_than_their_kind(judge):
    judge.rows = {SUITE[0].id: "easy"}
    rows = evaluate(judge, Known(), SUITE, 3)
    assert {name: row["n"] for name, row in rows.items()} == {"easy": 1, "one": 2, "two": 1}


def test_pass_at_k_is_of_sampled_attempts_by_kind_and_depth(judge):
    player = Known()
    rows = evaluate(judge, player, SUITE, 3, samples=4)
    assert player.asked == [(4, 1, True), (4, 4, False)]
    # Right in 4, 1 and 0 of 4: pass@2 is 1, 1 - C(3,2)/C(4,2) = 1/2, and 0.
    assert rows["one"]["pass"] == {
        "1": pytest.approx((1 + 1 / 4 + 0) / 3),
        "2": pytest.approx((1 + 1 / 2 + 0) / 3),
        "4": pytest.approx((1 + 1 + 0) / 3),
    }
    assert rows["one"]["depth"]["1"]["pass"] == {"1": 1 / 8, "2": 1 / 4, "4": 1 / 2}
    # Right in 2 of 4: 1 - C(2,2)/C(4,2) = 5/6.
    assert rows["two"]["pass"] == {"1": 1 / 2, "2": pytest.approx(5 / 6), "4": 1.0}
    assert rows["one"]["accuracy"] == pytest.approx(2 / 3)  # the greedy attempt's, whatever the samples are
    assert len(judge.seeds) == 2


@pytest.mark.parametrize("n", range(1, 7))
def test_pass_at_k_is_the_share_of_k_subsets_with_a_right_one(n):
    for c in range(n + 1):
        attempts = [True] * c + [False] * (n - c)
        for k in range(1, n + 1):
            chosen = list(combinations(attempts, k))
            assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 2, 5), (4, 5, 1), (4, -1, 1), (4, 2, 0)])
def test_what_no_attempts_can_say_is_refused(n, c, k):
    with pytest.raises(ValueError, match="attempts"):
        pass_at_k(n, c, k)


def test_the_k_that_are_shown_are_powers_of_two_and_the_number_of_samples():
    assert [ks(samples) for samples in (0, 1, 4, 10)] == [[], [1], [1, 2, 4], [1, 2, 4, 8, 10]]


def test_a_suite_is_attempted_in_chunks_with_the_same_numbers_and_progress_is_told(judge, monkeypatch):
    whole = evaluate(judge, Known(), SUITE, 3, samples=4)
    judge.batches.clear()
    monkeypatch.setattr(evaluation, "CHUNK", 3)
    told: list[int] = []
    assert evaluate(judge, Known(), SUITE, 3, samples=4, progress=told.append) == whole
    assert judge.batches == [3, 1, 12, 4]
    assert told == [3, 4, 16, 20]


def test_spread_takes_tasks_from_all_over_a_suite():
    tasks = [task(at, "one", None, True, 0) for at in range(10)]
    assert [chosen.id for chosen in spread(tasks, 3)] == ["0", "3", "6"]
    assert spread(tasks, None) == tasks
    assert spread(tasks, 99) == tasks


def test_figures_name_kinds_and_depths(judge):
    assert figures(evaluate(judge, Known(), SUITE, 3)) == {
        "heldout/one": pytest.approx(2 / 3),
        "heldout/one/depth/1": 0.5,
        "heldout/one/depth/2": 1.0,
        "heldout/two": 0.0,
    }


def test_figures_of_another_suite_have_its_name(judge):
    assert figures(evaluate(judge, Known(), SUITE[3:], 3), "codeio") == {"codeio/two": 0.0}


def test_headline_figures_have_before_and_after_by_kind_and_depth(judge):
    headline: dict[str, dict[str, Any]] = {}
    enter(headline, "before", evaluate(judge, Known(), SUITE, 3))
    better = [task(at, known.kind, known.features.get("depth"), True, 1) for at, known in enumerate(SUITE)]
    enter(headline, "after", evaluate(judge, Known(), better, 3))
    assert headline == {
        "one": {
            "before": pytest.approx(2 / 3),
            "after": 1.0,
            "n": 3,
            "depth": {"1": {"before": 0.5, "after": 1.0}, "2": {"before": 1.0, "after": 1.0}},
        },
        "two": {"before": 0.0, "after": 1.0, "n": 1},
    }
