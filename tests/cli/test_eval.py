"""`autotelic eval` as a user runs it."""

import json

import pytest


@pytest.fixture
def played(autotelic):
    autotelic.given()
    return autotelic


def test_samples_add_pass_at_k_beside_the_greedy_accuracy(played):
    done = played("eval", "one", "samples=4", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    row = report["kinds"]["add"]
    assert list(row["pass"]) == list(row["depth"]["1"]["pass"]) == ["1", "2", "4"]
    assert row["pass"]["1"] < row["pass"]["2"] < row["pass"]["4"]
    assert sum(row["outcomes"].values()) == row["n"] == 20
    (kept,) = (played.cwd / "runs" / "one" / "eval").iterdir()
    assert json.loads(kept.read_text()) == report


def test_the_table_has_a_column_for_each_k_and_a_line_for_each_depth(played):
    shown = played("eval", "one", "samples=3").out
    assert all(word in shown for word in ("accuracy", "pass@1", "pass@2", "pass@3", "depth 1", "written to"))
    assert "pass@" not in played("eval", "one").out


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("samples=0", "samples=0: a whole number of at least 1"),
        ("samples=many", "samples=many: a whole number"),
        ("sample=3", "did you mean samples?"),
        ("suite=humaneval", "suite=humaneval: the world sums reads no suites"),
    ],
)
def test_a_mistake_is_one_line(played, argument, words):
    assert words in played("eval", "one", argument).complaint()
