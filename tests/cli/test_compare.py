"""`autotelic compare`, on run directories made with the real Run."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from autotelic.cli.main import main
from autotelic.runs.directory import Run

BASE = {
    "root": "runs",
    "steps": 5,
    "world": {"name": "code", "heldout": True},
    "player": {"name": "tiny", "width": 128, "learner": {"lr": 0.001}},
    "proposer": None,
    "loop": {"batch": 16, "attempts": 8},
    "log": {"tensorboard": False},
}


def merged(base: dict, changes: dict) -> dict:
    return base | {
        key: merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in changes.items()
    }


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(name: str, after: float, seed: int = 0, *, before: float = 0.1, result: dict | None = None, **changes):
        config = merged(BASE, {"run": name, "seed": seed, **changes})
        with Run.create("runs", name, config, verb="play", seed=seed) as run:
            for step in range(5):
                rise = before + (after - before) * step / 4
                figures = {"solve/deduction/solve_rate": rise, "heldout/deduction": rise, "heldout/abduction": rise / 2}
                run.metrics.write(step, figures)
            said = {
                "verb": "play", "seed": seed, "steps": 5, "minutes": 1.0, "finished": True, "world": "code",
                "heldout": {"deduction": {"before": before, "after": after, "n": 320}},
            }  # fmt: skip
            run.write_result(said | (result or {}))
        return run.path

    return make


@pytest.fixture
def compare(capsys, tmp_path):
    def compare(*arguments: str):
        code = main(["compare", *arguments])
        said = capsys.readouterr()
        if code:
            assert len(said.err.splitlines()) == 1, said.err
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return compare


@pytest.fixture
def six(make):
    """Three seeds each of two settings; what a seed does to both is large, what the setting does is small."""
    for seed, luck in enumerate((0.0, 0.2, 0.4)):
        make(f"base-{seed}", 0.3 + luck, seed)
        make(f"more-{seed}", 0.35 + luck + 0.01 * seed, seed, loop={"attempts": 16})
    return [f"{name}-{seed}" for name in ("base", "more") for seed in range(3)]


def test_groups_have_mean_spread_and_count_and_differences_are_paired_by_seed(six, compare):
    report = json.loads(compare(*reversed(six), "--json").out)
    more, base = report["groups"]
    assert (base["label"], more["label"]) == ("attempts=8", "attempts=16")
    assert (base["seeds"], more["seeds"]) == ([0, 1, 2], [0, 1, 2])
    after = base["figures"]["deduction after"]
    assert (after["mean"], after["std"], after["n"]) == (pytest.approx(0.5), pytest.approx(0.2), 3)
    assert base["figures"]["deduction gain"]["mean"] == pytest.approx(0.4)
    assert base["figures"]["deduction before"]["std"] == pytest.approx(0.0)
    # The differences of the reference from the other are -0.05, -0.06 and -0.07, whatever luck did to both.
    found = base["difference"]["deduction after"]
    reach = 4.302653 * 0.01 / math.sqrt(3)
    assert found["mean"] == pytest.approx(-0.06)
    assert (found["low"], found["high"]) == (pytest.approx(-0.06 - reach), pytest.approx(-0.06 + reach))
    assert more["difference"] is None
    assert base["config"] == {"loop.attempts": 8}


def test_the_tables_show_figures_in_percent_and_only_the_keys_that_differ(six, compare):
    shown = compare(*six).out
    assert "50.0 ± 20.0 %" in shown
    assert "+6.0 [3.5, 8.5]" in shown
    assert "loop.attempts" in shown
    assert "world" not in shown
    assert "95 % t interval of 3 differences, paired by seed (0, 1, 2)" in shown


def test_seeds_without_a_partner_are_left_out_and_named(six, make, compare):
    make("base-9", 1.0, 9)
    done = compare(*six, "base-9")
    assert "+6.0 [3.5, 8.5]" in done.out
    assert "for want of a partner: seeds 9" in done.out


def test_one_pair_has_a_difference_and_no_interval(six, compare):
    done = compare("base-1", "more-1", "--json")
    found = json.loads(done.out)["groups"][1]["difference"]["deduction after"]
    assert found == {"mean": pytest.approx(0.06), "n": 1, "std": None, "low": None, "high": None}
    assert "share one seed (1): a difference, but no interval" in compare("base-1", "more-1").out


def test_groups_without_a_common_seed_have_no_difference(six, compare):
    report = json.loads(compare("base-0", "more-1", "--json").out)
    assert report["groups"][1]["difference"]["deduction after"] is None
    assert "no seed in common" in report["notes"][0]


def test_runs_of_one_configuration_are_one_group(six, make, compare):
    make("logged", 0.5, 7, log={"tensorboard": True})
    report = json.loads(compare("base-0", "base-1", "logged", "--json").out)
    assert [group["seeds"] for group in report["groups"]] == [[0, 1, 7]]
    assert "one configuration" in report["notes"][0]


def test_how_often_a_run_was_measured_is_no_difference(make, compare):
    make("one", 0.3, 0)
    make("two", 0.4, 1, evaluate_every=5)
    (group,) = json.loads(compare("one", "two", "--json").out)["groups"]
    assert group["seeds"] == [0, 1]


def test_another_player_is_one_difference_and_not_one_for_each_of_its_keys(six, make, compare):
    make("plain", 0.1, 0, player={"name": "grammar", "width": None, "learner": None, "max_depth": 4})
    make("both", 0.1, 0, proposer={"name": "grammar", "max_depth": 4})
    (base, plain, both) = json.loads(compare("base-0", "plain", "both", "--json").out)["groups"]
    assert base["config"] == {"player.name": "tiny", "proposer.name": None}
    assert plain["config"] == {"player.name": "grammar", "proposer.name": None}
    assert both["config"] == {"player.name": "tiny", "proposer.name": "grammar"}
    assert [base["label"], plain["label"], both["label"]] == ["A", "B", "C"]


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_the_plot_is_written_in_the_format_of_its_name(six, compare, suffix, tmp_path):
    assert compare(*six, f"plot=figure{suffix}").code == 0
    raw = (tmp_path / f"figure{suffix}").read_bytes()
    assert raw.startswith({".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}[suffix])
    if suffix == ".svg":
        words = set(ElementTree.fromstring(raw).itertext())
        assert {"deduction: held-out accuracy", "abduction: held-out accuracy", "attempts=16 (3)"} <= words
        compare(*six, "plot=again.svg")
        assert (tmp_path / "again.svg").read_bytes() == raw


def test_the_plot_stands_beside_the_first_run_unless_told_otherwise(six, compare, tmp_path):
    assert json.loads(compare(*six, "--json").out)["plot"] == "runs/compare-base-0-more-2.svg"
    assert (tmp_path / "runs" / "compare-base-0-more-2.svg").exists()


def test_runs_without_curves_and_runs_of_different_length_are_plotted(six, make, compare, tmp_path):
    (tmp_path / "runs" / "base-0" / "metrics.jsonl").unlink()
    metrics = tmp_path / "runs" / "base-1" / "metrics.jsonl"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:2]))
    assert compare(*six).code == 0
    assert compare("base-0", "base-1").code == 0


def test_other_verbs_are_compared_by_their_own_headline(make, compare):
    for seed in (0, 1):
        for name, bonus in (("ppo", 0), ("grpo", 50)):
            said = {"return_mean": 100.0 + bonus + seed, "success_rate": 0.5, "episodes": 10}
            result = {"verb": "train", "env": "walk", "eval": said, "heldout": {}}
            make(f"{name}-{seed}", 0.0, seed, result=result, learner={"name": name})
    done = compare("ppo-0", "ppo-1", "grpo-0", "grpo-1")
    assert "return_mean" in done.out
    assert "150.5 ± 0.7071" in done.out
    assert "+50 [50, 50]" in done.out
    assert "episodes" not in done.out
    stages = [{"name": "bc", "success_rate": 0.25}, {"name": "online", "success_rate": 0.75}]
    for seed in (0, 1):
        make(f"tuned-{seed}", 0.0, seed, result={"verb": "finetune", "env": "cube", "stages": stages, "heldout": {}})
    assert "75.0 ± 0.0 %" in compare("tuned-0", "tuned-1").out


def test_depths_are_compared_where_runs_have_them(make, compare, tmp_path):
    for seed in (0, 1):
        row = {"before": 0.0, "after": 0.5, "n": 320, "depth": {"1": {"before": 0.0, "after": 0.75}, "2": {}}}
        make(f"deep-{seed}", 0.5, seed, result={"heldout": {"deduction": row}})
    report = json.loads(compare("deep-0", "deep-1", "plot=bars.svg", "--json").out)
    figures = report["groups"][0]["figures"]
    assert list(figures) == ["deduction before", "deduction after", "deduction gain", "deduction depth 1 after"]
    assert figures["deduction depth 1 after"]["mean"] == 0.75
    assert "deduction depth 1" not in (tmp_path / "bars.svg").read_text()


def test_runs_made_by_different_code_are_said_to_be(six, compare, tmp_path):
    meta = tmp_path / "runs" / "more-1" / "meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"commit": "0123abc"}))
    assert "the runs differ in code: " in compare("base-1", "more-1").out


def complaints(make):
    make("one", 0.5)
    yield ["one"], "compare needs at least two runs"
    yield ["one", "./runs/one"], "runs/one is named twice"
    yield ["one", "onne"], "no run at runs/onne: did you mean one?"
    make("going", 0.5, 1, result={"finished": False})
    yield ["one", "going"], "runs/going: not finished, nothing to compare yet: autotelic resume runs/going"
    (make("young", 0.5, 2) / "result.json").unlink()
    yield ["one", "young"], "runs/young: not finished"
    (make("torn", 0.5, 2) / "result.json").write_text("{")
    yield ["one", "torn"], "result.json: damaged"
    (make("odd", 0.5, 2) / "result.json").write_text('{"finished": true, "heldout": {"a": {"after": 1}}}')
    yield ["one", "odd"], "result.json: damaged: it has no seed"
    make("blind", 0.5, 2, result={"heldout": {}})
    yield ["one", "blind"], "runs/blind: result.json has no figures of an evaluation"
    make("robot", 0.5, 2, result={"world": "arm"})
    yield ["one", "robot"], "runs/robot is play of arm, runs/one is play of code"
    make("walker", 0.5, 2, result={"verb": "train", "world": None, "env": "walk"})
    yield ["one", "walker"], "runs/walker is train of walk"
    make("twin", 0.5)
    yield ["one", "twin"], "runs/one and runs/twin have the same configuration and seed"
    make("two", 0.5, 1)
    yield ["one", "two", "plot=figure.docx"], "plot=figure.docx: choose a name that ends in .svg, .png, .pdf"
    yield ["one", "two", "plt=figure.svg"], "did you mean plot?"
    yield ["one", "two", "plot=nowhere/figure.svg"], "nowhere/figure.svg: no such file or directory"


def test_a_mistake_is_one_line(make, compare, tmp_path):
    for arguments, words in complaints(make):
        done = compare(*arguments)
        assert (done.code, words in done.err) == (2, True), (arguments, done.err)
    assert not list(Path("runs").glob("compare-*"))
