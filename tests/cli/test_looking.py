"""verify, eval, runs: verbs that look at runs and change nothing."""

import json
import sqlite3

import pytest


@pytest.fixture
def played(autotelic):
    autotelic.given()
    return autotelic


def contents(played) -> dict[str, bytes]:
    run = played.cwd / "runs" / "one"
    skipped = ("archive.sqlite-shm", "archive.sqlite-wal")
    return {str(p): p.read_bytes() for p in run.rglob("*") if p.is_file() and p.name not in skipped}


def test_verify_finds_no_difference_in_an_honest_archive(played):
    before = contents(played)
    done = played("verify", "runs/one")
    assert done.code == 0, done.err
    assert done.out.endswith("0 differ\n")
    assert not done.out.startswith("0 verdicts")
    assert contents(played) == before


def test_verify_prints_every_verdict_that_differs(played):
    done = played("verify", "one", "--json", SUMS_OFFSET="1")
    assert done.code == 1
    report = json.loads(done.out)
    assert report["different"] == report["verdicts"] == len(report["rows"]) > 0
    lines = played("verify", "one", SUMS_OFFSET="1").out.splitlines()
    assert len(lines) == report["different"] + 1
    assert "was solved (correct, score 1.0), is not solved (wrong, score 0.0)" in "\n".join(lines)


def test_verify_of_one_forged_verdict_names_it(played):
    connection = sqlite3.connect(played.cwd / "runs" / "one" / "archive.sqlite")
    connection.execute("UPDATE verdicts SET solved = 1 - solved WHERE n = 2")
    connection.commit()
    connection.close()
    done = played("verify", "one", "--json")
    assert done.code == 1
    assert json.loads(done.out)["different"] == 1


def test_verify_under_another_version_is_one_line(played):
    done = played("verify", "one", SUMS_VERSION="sums-2")
    assert done.code == 2
    assert "the archive was judged by sums-1, this is sums-2" in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


def test_verify_judges_what_is_of_its_version_and_counts_the_rest(played):
    resumed = played("resume", "one", "steps=6", SUMS_VERSION="sums-2")
    assert resumed.code == 0, resumed.err
    old, new = (json.loads(played("verify", "one", "--json", SUMS_VERSION=f"sums-{at}").out) for at in (1, 2))
    assert old["different"] == new["different"] == 0
    assert (old["verdicts"], old["other_versions"]) == (new["other_versions"], new["verdicts"])
    assert min(old["verdicts"], new["verdicts"]) > 0
    lines = played("verify", "one", SUMS_VERSION="sums-2").out.splitlines()
    assert lines[0] == f"{old['verdicts']} verdicts of sums-1 left out: this is sums-2"
    assert lines[1:] == [f"{new['verdicts']} verdicts judged again, 0 differ"]
    differing = played("verify", "one", "--json", SUMS_VERSION="sums-2", SUMS_OFFSET="1")
    assert json.loads(differing.out)["different"] == new["verdicts"]


def test_a_damaged_archive_is_one_line(played):
    path = played.cwd / "runs" / "one" / "archive.sqlite"
    path.write_bytes(b"not a database" * 1000)
    for verb in ("verify", "resume", "eval"):
        done = played(verb, "one", *(["steps=9"] if verb == "resume" else []))
        assert done.code == 2
        assert "archive.sqlite" in done.err.splitlines()[-1]
        assert "Traceback" not in done.err


def test_eval_measures_the_held_out_suite_and_keeps_the_figures(played):
    done = played("eval", "one", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["step"], report["kinds"]["add"]["n"]) == (4, 20)
    (kept,) = (played.cwd / "runs" / "one" / "eval").iterdir()
    assert json.loads(kept.read_text()) == report
    assert json.loads(played("eval", "one", "episodes=5", "--json").out)["kinds"]["add"]["n"] == 5
    assert "accuracy" in played("eval", "one").out


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("suite=absent.jsonl", "suite=absent.jsonl: no such file"),
        ("episodes=0", "episodes=0: a whole number of at least 1"),
        ("sute=x", "did you mean suite?"),
        ("x", "is not key=value"),
    ],
)
def test_a_mistaken_eval_is_one_line(played, argument: str, words: str):
    assert words in played("eval", "one", argument).complaint()


def test_runs_lists_each_run_with_its_figures_and_a_damaged_one_as_such(played):
    assert played.play("run=two", "steps=1").code == 0
    (played.cwd / "runs" / "two" / "meta.json").write_text("{")
    report = json.loads(played("runs", "--json").out)
    assert [(row["run"], row["state"]) for row in report["runs"]] == [("one", "finished"), ("two", "damaged")]
    assert report["runs"][0]["result"]["steps"] == 4
    (played.cwd / "runs" / "two" / "meta.json").write_text("{}")
    (played.cwd / "runs" / "two" / "result.json").write_text('{"heldout": {"add": NaN}}')
    assert json.loads(played("runs", "--json").out)["runs"][1]["state"] == "damaged"
    shown = played("runs").out
    assert "one" in shown
    assert "finished" in shown


def test_an_unknown_run_gives_the_nearest(played):
    assert "no run at runs/onne: did you mean one?" in played("verify", "onne").complaint()


def test_export_needs_no_world(played):
    config = played.cwd / "runs" / "one" / "config.yaml"
    config.write_text(config.read_text().replace("name: sums", "name: gone"))
    assert "config.yaml: no world named 'gone'" in played("verify", "one").complaint()
    done = played("export", "one", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["lines"] > 0


def test_a_run_that_names_no_world_is_not_taken_for_one_of_the_defaults(played):
    config = played.cwd / "runs" / "one" / "config.yaml"
    config.write_text("{}")
    for verb in ("resume", "eval", "verify"):
        assert "config.yaml: names no world and no player" in played(verb, "one").complaint()
