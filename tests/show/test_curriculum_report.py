"""The part of the report that shows where the curriculum led."""

import re
from html import unescape

import pytest

from autotelic.cli import play_session
from autotelic.runs.directory import Run
from autotelic.show.report import write_report


def section(path) -> str:
    """The words of the curriculum's section, without its drawings; empty where there is none."""
    page = path.read_text("utf-8")
    found = re.search(r'<section id="curriculum">(.*?)</section>', page, re.DOTALL)
    words = re.sub(r"<svg.*?</svg>", "", found[1], flags=re.DOTALL) if found else ""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", words)).split())


@pytest.fixture
def steered(make_run):
    """Two steps in which a curriculum wanted ever more."""
    path = make_run(2, result=False, config={"seed": 0, "curriculum": {"name": "ladder"}})
    with Run.open(path) as run:
        for step, (difficulty, depth, rung) in enumerate([(0.2, 1.5, 0.0), (0.8, 4.0, 2.0)], 40):
            asked = {"difficulty": difficulty, "wanted/depth": depth, "practised": 3.0, "practised/depth": 2.0}
            own = {"rung": rung, "success": 0.9, "oddity": 7.0}
            figures = {f"curriculum/deduction/{name}": value for name, value in (asked | own).items()}
            run.metrics.write(step, figures | {"propose/deduction/solve_rate": 0.25})
    return path


def test_what_was_wanted_is_shown_from_first_to_last(steered):
    shown = section(write_report(steered))
    assert (
        "Wanted difficulty share of attempts that should fail; the mean of a step's requests deduction 20.0 % → 80.0 %"
        in shown
    )
    assert "Wanted: depth mean of a step, in the world's units deduction 1.5 → 4" in shown


def test_what_was_wanted_is_shown_beside_what_was_got(steered):
    shown = section(write_report(steered))
    assert "wanted, and at the tasks then proposed wanted 20.0 % → 80.0 % new tasks 75.0 % → 75.0 %" in shown


def test_favoured_features_are_listed_with_what_was_proposed_and_practised(steered):
    shown = section(write_report(steered))
    assert "Features favoured by ladder" in shown
    assert re.search(r"feature wanted proposed practised deduction: depth 1\.5 → 4 \S+ → \S+ 2 → 2", shown)


def test_a_curriculums_own_figures_are_shown_known_or_not(steered):
    shown = section(write_report(steered))
    assert "Rung 0 easy, 1 medium, 2 hard deduction 0 → 2" in shown
    assert "oddity deduction 7 → 7" in shown


def test_a_run_without_a_curriculum_has_no_such_section(make_run):
    assert section(write_report(make_run(2))) == ""


def test_hostile_names_of_features_stay_text(make_run):
    path = make_run(1, result=False)
    with Run.open(path) as run:
        run.metrics.write(40, {"curriculum/deduction/wanted/<u>x": 1.0, "curriculum/deduction/<u>y": 1.0})
    page = write_report(path).read_text("utf-8")
    assert "&lt;u&gt;x" in page
    assert "<u>" not in page


def test_what_is_wanted_is_shown_beside_the_bar():
    figures = {f"curriculum/a/wanted/{name}": 1.0 for name in "wxyz"}
    figures |= {"propose/a/valid_share": 0.5, "solve/a/solve_rate": 0.25, "solve/b/solve_rate": 0.75}
    figures |= {"propose/a/solve_rate": 0.9, "curriculum/a/difficulty": 0.2, "curriculum/b/difficulty": 0.4}
    shown = play_session._shown(figures | {"curriculum/a/rung": 1.0})
    assert shown == pytest.approx(
        {"valid_share": 0.5, "solve_rate": 0.5, "wanted": 0.3, "rung": 1, "wanted w": 1, "wanted x": 1, "wanted y": 1}
    )
