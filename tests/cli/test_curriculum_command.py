"""curriculum= on the command line: chosen by name, resumed, changed by a fork, brought by another package."""

import json
from pathlib import Path

import pytest
import yaml

MODULE = '''
from dataclasses import dataclass

from autotelic.play.curriculum import Curriculum, Wish


class Stubborn(Curriculum):
    """Always wants the same."""

    name = "stubborn"

    @dataclass
    class Config:
        share: float = 0.5

    def sample(self, kind, count, rng):
        return [Wish(self.config.share)] * count

    def update(self, outcomes, rng):
        return {}

    def dump(self):
        return {}

    def load(self, state):
        pass
'''


def metrics(path: Path) -> list[dict]:
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith("time/")} for line in lines]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("curriculum=laddr", "no curriculum named 'laddr': did you mean ladder or plr?"),
        ("curriculum.rho=0.1", "unknown key 'curriculum.rho'"),
        ("curriculum=3", "curriculum takes a name: alp-gmm, ladder, learnability, none, plr"),
    ],
)
def test_a_curriculum_that_is_not_there_is_one_line(autotelic, override, words):
    assert words in autotelic.play(override).complaint()


@pytest.mark.parametrize(
    ("chosen", "override", "words"),
    [
        ("ladder", "curriculum.up=2", "curriculum.up is 2; it must be 0 to 1"),
        ("learnability", "curriculum.bins=1", "curriculum.bins is 1; it must be at least 2"),
        ("alp-gmm", "curriculum.window=10", "curriculum.window is 10; it must be at least 50"),
        ("plr", "curriculum.beta=0", "curriculum.beta is 0; it must be above 0"),
        ("plr", "curriculum.rho=x", "curriculum.rho=x"),
    ],
)
def test_a_setting_that_cannot_be_is_one_line(autotelic, chosen, override, words):
    assert words in autotelic.play(f"curriculum={chosen}", override).complaint()
    assert not (autotelic.cwd / "runs").exists()


def test_a_resumed_run_equals_the_uninterrupted_one_and_is_shown(autotelic):
    how = ("curriculum=ladder", "curriculum.episodes=4", "evaluate=false")
    assert autotelic.play("steps=6", "run=whole", "checkpoint.every=3", "checkpoint.keep=0", *how).code == 0
    assert autotelic("resume", "whole", "step=3", "run=one").code == 0
    runs = autotelic.cwd / "runs"
    assert metrics(runs / "one") == metrics(runs / "whole")
    assert "curriculum/add/rung" in metrics(runs / "one")[-1]
    assert 'id="curriculum"' in (runs / "one" / "report.html").read_text()


def test_a_fork_may_go_on_with_another_curriculum(autotelic):
    autotelic.given()
    assert "would change the run's past" in autotelic("resume", "one", "curriculum=plr").complaint()
    done = autotelic("resume", "one", "step=2", "run=two", "curriculum=plr", "curriculum.rho=0.2")
    assert done.code == 0, done.err
    two = autotelic.cwd / "runs" / "two"
    assert yaml.safe_load((two / "config.yaml").read_text())["curriculum"]["rho"] == 0.2
    assert ["curriculum/add/levels" in line for line in metrics(two)] == [False] * 3 + [True] * 2
    done = autotelic("resume", "two", "run=three", "curriculum=none", "steps=5")
    assert done.code == 0, done.err
    assert "curriculum/add/levels" not in metrics(autotelic.cwd / "runs" / "three")[-1]


def test_a_run_from_before_there_were_curricula_goes_on(autotelic):
    autotelic.given()
    one = autotelic.cwd / "runs" / "one"
    config = yaml.safe_load((one / "config.yaml").read_text())
    del config["curriculum"]
    (one / "config.yaml").write_text(yaml.safe_dump(config))
    assert autotelic("resume", "one", "steps=5").code == 0


def test_another_package_brings_a_curriculum(autotelic):
    package = Path(autotelic.env["PYTHONPATH"])
    (package / "stubborn.py").write_text(MODULE)
    points = package / "toy_package-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text() + "[autotelic.curricula]\nstubborn = stubborn:Stubborn\n")
    done = autotelic.play("curriculum=stubborn", "curriculum.share=0.3", "steps=2", "run=one", "evaluate=false")
    assert done.code == 0, done.err
    assert metrics(autotelic.cwd / "runs" / "one")[-1]["curriculum/add/difficulty"] == 0.3
