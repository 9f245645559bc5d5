import json
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.play.active import learnable_weights
from autotelic.play.archive import Archive, ArchiveConfig
from autotelic.play.player import Sample
from autotelic.runs.files import content_address
from autotelic.worlds.base import Rejection, Task, Verdict

KINDS = ("abduction", "deduction")


def make_task(number: int, kind: str = "deduction") -> Task:
    spec = {"program": f"def f(a):\n    return a + {number}", "inputs": [number, None, "é"]}
    return Task(content_address(kind, spec), "code", kind, spec, {"depth": float(number % 5)})


def attempt(archive: Archive, step: int, task: Task, outcomes: list[str]) -> None:
    """One archived attempt and verdict for each outcome."""
    samples = [Sample("solve", task.kind, f"answer {i}", task.id) for i in range(len(outcomes))]
    numbers = archive.add_samples(step, samples, [0.0] * len(samples))
    verdicts = [Verdict(outcome == "correct", outcome, float(outcome == "correct")) for outcome in outcomes]
    archive.add_verdicts(step, verdicts, [task.id] * len(outcomes), numbers)


def retired(archive: Archive) -> dict[str, str | None]:
    return {entry.task.id: entry.retired_why for entry in archive.tasks(active=False, limit=10**6)}


@pytest.fixture
def archive(tmp_path: Path):
    with Archive.create(tmp_path / "archive.sqlite", ArchiveConfig(floor=0)) as made:
        yield made


def reopened(archive: Archive) -> Archive:
    return Archive.open(archive.path, archive.config, readonly=True)


# Writing and reading back


def test_a_task_reads_back_equal_after_reopening(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(1), make_task(2, "abduction")])
    with reopened(archive) as again:
        assert again.task(make_task(2, "abduction").id) == make_task(2, "abduction")
        assert [entry.task for entry in again.tasks()] == [make_task(1), make_task(2, "abduction")]


def test_a_task_that_is_archived_already_is_refused_and_nothing_of_its_batch_stays(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(1)])
    before = archive.digest()
    with pytest.raises(ValueError, match="archived already"):
        archive.add_tasks(1, [make_task(2), make_task(1)])
    assert archive.digest() == before
    assert archive.active("deduction") == 1


def test_known_tells_archived_ids_also_when_retired(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(1), make_task(2)])
    archive.retire(0, [make_task(1).id], "stale")
    assert archive.known([make_task(1).id, make_task(2).id, make_task(3).id]) == {make_task(1).id, make_task(2).id}


def test_equal_answers_are_stored_once(archive: Archive) -> None:
    samples = [Sample("propose", "deduction", text) for text in ("same", "same", "other")]
    assert archive.add_samples(0, samples, [None, 0.5, 1.0]) == [1, 2, 3]
    archive.add_samples(1, samples[:1], [None])
    assert (archive.counts()["answers"], archive.counts()["samples"]) == (2, 4)


@pytest.mark.parametrize("text", ["", "nul\0inside", "half a pair \ud800", "line\u2028break", "é" * 1000])
def test_any_text_survives(archive: Archive, text: str) -> None:
    archive.add_tasks(0, [make_task(1)])
    numbers = archive.add_samples(0, [Sample("solve", "deduction", text, make_task(1).id, claim=True)], [None])
    archive.add_verdicts(0, [Verdict(False, "wrong", detail=text)], [make_task(1).id], numbers)
    ((task, answer, verdict, sample),) = reopened(archive).verdict_rows()
    assert (task, answer.text, answer.claim, verdict.detail, sample) == (make_task(1), text, True, text, 1)


def test_a_verdict_reads_back_equal(archive: Archive) -> None:
    verdict = Verdict(True, "correct", 0.25, "fine", {"cpu_seconds": 0.5, "hidden": 5.0}, "code 1", 2**64 - 1)
    archive.add_tasks(0, [make_task(1)])
    numbers = archive.add_samples(0, [Sample("solve", "deduction", "1", make_task(1).id)], [1.0])
    archive.add_verdicts(0, [verdict], [make_task(1).id], numbers)
    assert [row[2] for row in archive.verdict_rows()] == [verdict]
    assert archive.attempts(make_task(1).id)[0].verdict == verdict
    assert archive.attempts(make_task(1).id)[0].reward == 1.0


def test_lineage_names_references_in_order_and_the_parent(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(1), make_task(2)])
    shown = [make_task(2).id, make_task(1).id]
    (number,) = archive.add_samples(1, [Sample("propose", "deduction", "x", parent="7")], [None], [shown])
    assert archive.lineage(number) == [("reference", shown[0]), ("reference", shown[1]), ("parent", "7")]


def test_only_evidence_counts_as_an_attempt(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(1)])
    attempt(archive, 1, make_task(1), ["correct", "wrong", "limit", "lost", "correct"])
    (entry,) = archive.tasks()
    assert (entry.attempts, entry.solved) == (3, 2)


def test_a_step_before_the_newest_is_refused(archive: Archive) -> None:
    archive.add_tasks(5, [make_task(1)])
    with pytest.raises(ValueError, match="before step 5"):
        archive.add_tasks(4, [make_task(2)])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_that_is_not_finite_is_refused(archive: Archive, value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        archive.add_samples(0, [Sample("propose", "deduction", "x")], [value])


def test_unequal_lengths_are_refused(archive: Archive) -> None:
    with pytest.raises(ValueError, match="2 samples, 1 rewards"):
        archive.add_samples(0, [Sample("propose", "deduction", "x")] * 2, [0.0], [(), ()])


def test_an_exception_in_a_transaction_undoes_file_and_memory(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(n) for n in range(20)])
    before, drawn = archive.digest(), archive.sample_references(["deduction"], 6, np.random.default_rng(0))

    class Stop(BaseException):
        pass

    def interrupted_step() -> None:
        with archive.transaction():
            archive.add_tasks(1, [make_task(n) for n in range(20, 40)])
            attempt(archive, 1, make_task(3), ["wrong"] * 9)
            archive.retire(1, [make_task(4).id], "stale")
            raise Stop

    with pytest.raises(Stop):
        interrupted_step()
    assert archive.digest() == before
    assert archive.step == 0
    assert archive.sample_references(["deduction"], 6, np.random.default_rng(0)) == drawn


def test_a_transaction_is_invisible_to_readers_until_it_ends(archive: Archive) -> None:
    with archive.transaction():
        archive.add_tasks(0, [make_task(1)])
        with reopened(archive) as reader:
            assert reader.counts()["tasks"] == 0
    with reopened(archive) as reader:
        assert reader.counts()["tasks"] == 1


def test_counts_sum_up_what_became_of_proposals_and_answers(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(1)])
    archive.add_samples(1, [Sample("propose", "deduction", "p")] * 3, [0.5, -0.5, None])
    archive.add_tasks(1, [make_task(2)], [1])
    archive.add_rejections(
        1, [Rejection("deduction", "syntax", "line 1"), Rejection("deduction", "duplicate", "")], [2, 3]
    )
    attempt(archive, 1, make_task(1), ["correct", "wrong", "limit"])
    counts = archive.counts()
    assert counts["rejected"] == {"duplicate": 1, "syntax": 1}
    assert counts["outcomes"] == {"correct": 1, "limit": 1, "wrong": 1}
    assert counts["active"] == {"deduction": 2}


def test_pages_go_on_after_the_last_entry(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(n, KINDS[n % 2]) for n in range(10)])
    archive.retire(0, [make_task(0, KINDS[0]).id], "stale")
    first = archive.tasks(kind=KINDS[0], active=True, limit=2)
    second = archive.tasks(kind=KINDS[0], active=True, after=first[-1].n, limit=10)
    assert [entry.n for entry in first + second] == [3, 5, 7, 9]


# Sampling


def test_references_are_distinct_active_and_of_the_kinds_asked_for(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(n, KINDS[n % 2]) for n in range(40)])
    archive.retire(0, [make_task(1, KINDS[1]).id], "stale")
    drawn = archive.sample_references([KINDS[1]], 100, np.random.default_rng(0))
    assert {task.id for task in drawn} == {make_task(n, KINDS[1]).id for n in range(3, 40, 2)}
    assert len(drawn) == 19
    union = archive.sample_references(KINDS, 100, np.random.default_rng(0))
    assert len({task.id for task in union}) == len(union) == 39


def test_an_empty_archive_has_no_references(archive: Archive) -> None:
    assert archive.sample_references(["deduction"], 6, np.random.default_rng(0)) == []
    assert archive.newest("deduction", 3) == []


def test_excluded_tasks_are_not_drawn(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(n) for n in range(5)])
    drawn = archive.sample_references(["deduction"], 9, np.random.default_rng(0), exclude=[make_task(2).id, "unknown"])
    assert {task.id for task in drawn} == {make_task(n).id for n in (0, 1, 3, 4)}


def test_newest_come_newest_first_without_retired_ones(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(n) for n in range(5)])
    archive.retire(0, [make_task(3).id], "stale")
    assert archive.newest("deduction", 3) == [make_task(n).id for n in (4, 2, 1)]


def test_the_active_among_some_ids_come_in_their_order(archive: Archive) -> None:
    archive.add_tasks(0, [*(make_task(n) for n in range(5)), make_task(9, "abduction")])
    archive.retire(0, [make_task(3).id], "stale")
    asked = [make_task(4).id, "unknown", make_task(3).id, make_task(9, "abduction").id, make_task(0).id]
    assert archive.active_among("deduction", asked) == [make_task(4).id, make_task(0).id]
    assert archive.active_among("induction", asked) == []


def shares(archive: Archive, strategy: str, draws: int = 3000) -> dict[str, float]:
    rng = np.random.default_rng(0)
    drawn = [archive.sample_references(["deduction"], 1, rng, strategy)[0].id for _ in range(draws)]
    return {id: drawn.count(id) / draws for id in drawn}


def test_learnable_references_follow_the_posterior_variance(archive: Archive) -> None:
    tasks = [make_task(n) for n in range(3)]
    archive.add_tasks(0, tasks)
    attempt(archive, 0, tasks[1], ["correct"] * 4 + ["wrong"] * 4)
    attempt(archive, 0, tasks[2], ["correct"] * 8)
    weights = [1 / 6, 25 / 110, 9 / 110]
    found = shares(archive, "learnable")
    assert [found[task.id] for task in tasks] == pytest.approx([w / sum(weights) for w in weights], abs=0.03)


def test_recent_references_favour_new_tasks(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(n) for n in range(100)])
    found = shares(archive, "recent")
    assert sum(found.get(make_task(n).id, 0) for n in range(90, 100)) == pytest.approx(1 - 0.9**4, abs=0.03)


def test_an_unknown_strategy_names_the_known_ones(archive: Archive) -> None:
    with pytest.raises(ValueError, match="uniform, recent, learnable"):
        archive.sample_references(["deduction"], 1, np.random.default_rng(0), "newest")


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 2000)), min_size=1))
def test_learnable_weights_are_the_scaled_formula_and_never_zero(pairs: list[tuple[int, int]]) -> None:
    solved, failed = np.array(pairs).T
    exact = (solved + 1) * (failed + 1) / ((solved + failed + 2) * (solved + failed + 3))
    weights = learnable_weights(solved + failed, solved)
    assert (weights >= 1).all()
    assert weights == pytest.approx(exact * (1 << 20), abs=1)


# The bounded active set


def test_a_full_archive_keeps_the_newest_and_drops_old_ones(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path / "a.sqlite", ArchiveConfig(capacity=10))
    for step in range(10):
        archive.add_tasks(step, [make_task(step * 5 + n) for n in range(5)])
        archive.enforce_capacity(step)
        assert archive.active("deduction") <= 10
        assert archive.newest("deduction", 5) == [make_task(step * 5 + n).id for n in reversed(range(5))]
    assert archive.counts()["retired"] == {"capacity": 40}


def test_capacity_drops_the_least_learnable_of_the_older_half(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path / "a.sqlite", ArchiveConfig(capacity=6, solved_out=0))
    archive.add_tasks(0, [make_task(n) for n in range(8)])
    for number, outcomes in {0: ["correct"] * 4 + ["wrong"] * 4, 1: ["wrong"] * 8, 3: ["correct"] * 9}.items():
        attempt(archive, 0, make_task(number), outcomes)
    attempt(archive, 0, make_task(7), ["wrong"] * 50)
    assert archive.enforce_capacity(1) == {"capacity": 2}
    assert retired(archive) == {make_task(1).id: "capacity", make_task(3).id: "capacity"}


def test_capacity_holds_for_each_kind_by_itself(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path / "a.sqlite", ArchiveConfig(capacity=3))
    archive.add_tasks(0, [make_task(n, KINDS[0]) for n in range(5)] + [make_task(n, KINDS[1]) for n in range(2)])
    archive.enforce_capacity(0)
    assert archive.counts()["active"] == {KINDS[0]: 3, KINDS[1]: 2}


def test_a_task_solved_often_in_a_row_is_retired_as_solved_out(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(1), make_task(2)])
    attempt(archive, 1, make_task(1), ["wrong"] * 20 + ["correct"] * 16)
    attempt(archive, 1, make_task(2), ["correct"] * 15 + ["wrong"] + ["correct"] * 15)
    assert archive.enforce_capacity(1) == {"solved-out": 1}
    (entry,) = archive.tasks(active=False)
    assert (entry.task, entry.retired_step, entry.retired_why) == (make_task(1), 1, "solved-out")


def test_a_task_nobody_attempts_for_long_is_retired_as_stale(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path / "a.sqlite", ArchiveConfig(stale_after=10, floor=0))
    archive.add_tasks(0, [make_task(1), make_task(2)])
    attempt(archive, 5, make_task(2), ["limit"])
    assert archive.enforce_capacity(10) == {}
    assert archive.enforce_capacity(11) == {"stale": 1}
    assert retired(archive) == {make_task(1).id: "stale"}


def test_a_non_deterministic_task_is_retired_even_below_the_floor(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path / "a.sqlite", ArchiveConfig(floor=64))
    archive.add_tasks(0, [make_task(1)])
    attempt(archive, 0, make_task(1), ["nondeterministic"])
    assert archive.enforce_capacity(0) == {"nondeterministic": 1}
    assert archive.sample_references(["deduction"], 1, np.random.default_rng(0)) == []


def test_the_floor_keeps_enough_tasks_to_go_on(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path / "a.sqlite", ArchiveConfig(stale_after=5, floor=3))
    archive.add_tasks(0, [make_task(n) for n in range(10)])
    archive.enforce_capacity(100)
    assert archive.newest("deduction", 10) == [make_task(n).id for n in (9, 8, 7)]


def test_the_first_reason_of_retirement_stays(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(1)])
    archive.retire(1, [make_task(1).id], "nondeterministic")
    archive.retire(2, [make_task(1).id], "stale")
    assert retired(archive) == {make_task(1).id: "nondeterministic"}


@pytest.mark.parametrize("bad", [{"capacity": 0}, {"recency": 0}, {"reference_strategy": "best"}, {"floor": -1}])
def test_a_bad_configuration_names_the_key(bad: dict) -> None:
    with pytest.raises(ValueError, match=f"archive.{next(iter(bad))}"):
        ArchiveConfig(**bad)


# Digest, rewind


def test_the_digest_sees_content_but_not_timings(tmp_path: Path) -> None:
    def digest(name: str, metrics: dict[str, float]) -> str:
        with Archive.create(tmp_path / name) as archive:
            archive.add_tasks(0, [make_task(1)])
            numbers = archive.add_samples(0, [Sample("solve", "deduction", "1", make_task(1).id)], [1.0])
            archive.add_verdicts(0, [Verdict(True, "correct", metrics=metrics)], [make_task(1).id], numbers)
            return archive.digest()

    first = digest("a", {"seconds": 1.0, "hidden": 5.0})
    assert digest("b", {"seconds": 2.0, "hidden": 5.0}) == first
    assert digest("c", {"seconds": 1.0, "hidden": 4.0}) != first


CONFIG = ArchiveConfig(capacity=12, solved_out=3, stale_after=3, floor=2)


def random_step(archive: Archive, step: int, seed: int) -> None:
    """One step of everything a loop does, as a function of seed and step alone."""
    rng = np.random.default_rng([seed, step])
    with archive.transaction():
        tasks = [make_task(int(n), str(rng.choice(KINDS))) for n in rng.integers(0, 10**6, rng.integers(0, 8))]
        tasks = [task for task in {task.id: task for task in tasks}.values() if not archive.known([task.id])]
        shown = archive.sample_references(KINDS, 3, rng, "learnable")
        samples = [Sample("propose", task.kind, task.id, parent="1") for task in tasks]
        rewards = rng.normal(size=len(tasks)).tolist()
        numbers = archive.add_samples(step, samples, rewards, [[task.id for task in shown]] * len(tasks))
        archive.add_tasks(step, tasks, numbers)
        archive.add_rejections(step, [Rejection("deduction", "syntax", "bad")] * int(rng.integers(0, 3)))
        for task in archive.sample_references(KINDS, int(rng.integers(0, 6)), rng, "recent"):
            outcomes = ["correct", "wrong", "limit", "nondeterministic"]
            attempt(archive, step, task, rng.choice(outcomes, 3, p=[0.6, 0.2, 0.1, 0.1]).tolist())
        if rng.random() < 0.3:
            archive.retire(step, [task.id for task in archive.sample_references(KINDS, 1, rng)], "by hand")
        archive.enforce_capacity(step)


def draws(archive: Archive) -> list[list[str]]:
    rng = np.random.default_rng(7)
    strategies = ("uniform", "recent", "learnable")
    drawn = [[task.id for task in archive.sample_references(KINDS, 4, rng, strategy)] for strategy in strategies]
    return drawn + [archive.newest(kind, 5) for kind in KINDS]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(0, 8), st.integers(0, 8))
def test_rewinding_is_as_if_later_steps_had_never_happened(seed: int, kept: int, later: int) -> None:
    with tempfile.TemporaryDirectory() as directory, Archive.create(Path(directory) / "a", CONFIG) as archive:
        for step in range(kept):
            random_step(archive, step, seed)
        digest, drawn, newest = archive.digest(), draws(archive), archive.step
        for step in range(kept, kept + later):
            random_step(archive, step, seed + 1)
        archive.rewind(kept - 1)
        assert (archive.digest(), draws(archive), archive.step) == (digest, drawn, newest)
        archive.check()
        for step in range(kept, kept + later):
            random_step(archive, step, seed)
        ended = archive.digest()
        with Archive.create(Path(directory) / "b", CONFIG) as straight:
            for step in range(kept + later):
                random_step(straight, step, seed)
            assert straight.digest() == ended


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_an_archive_opened_again_draws_as_the_one_that_was_kept_open(seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as directory, Archive.create(Path(directory) / "a", CONFIG) as archive:
        for step in range(steps):
            random_step(archive, step, seed)
        with reopened(archive) as again:
            assert draws(again) == draws(archive)
            assert again.digest() == archive.digest()


def test_compaction_does_not_change_what_is_drawn(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path / "a", ArchiveConfig(capacity=100))
    for step in range(30):
        archive.add_tasks(step, [make_task(step * 100 + n) for n in range(100)])
        archive.enforce_capacity(step)
    assert len(archive._active["deduction"].uniform) < 2000
    assert draws(reopened(archive)) == draws(archive)


def test_a_rewind_brings_back_what_was_retired_later(archive: Archive) -> None:
    archive.add_tasks(0, [make_task(1), make_task(2)])
    archive.retire(1, [make_task(1).id], "stale")
    archive.retire(2, [make_task(2).id], "stale")
    archive.rewind(1)
    assert archive.newest("deduction", 5) == [make_task(2).id]


def test_a_rewind_to_before_the_beginning_empties_the_archive(archive: Archive) -> None:
    empty = archive.digest()
    random_step(archive, 0, 1)
    archive.rewind(-1)
    assert archive.digest() == empty
    assert archive.step == -1


def test_the_file_is_marked_as_an_archive(archive: Archive) -> None:
    with sqlite3.connect(archive.path) as connection:
        assert connection.execute("PRAGMA application_id").fetchone()[0] == 0x4175746F
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        columns = json.dumps(connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'").fetchall())
    assert columns.count("step INTEGER NOT NULL") == 7
