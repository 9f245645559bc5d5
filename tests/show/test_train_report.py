"""The report and the table of a run of training, made with the real run directory: nothing is trained."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from autotelic.runs.directory import Run
from autotelic.show import plots
from autotelic.show.plots import Curve
from autotelic.show.report import write_report
from autotelic.show.summary import summary_table

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"
EVAL = {"episodes": 100, "return_mean": 812.5, "return_std": 21.5, "length_mean": 950.0, "success_rate": 0.97}


def figures(at: int, steps: int) -> dict[str, float]:
    progress = at / steps
    learned = {"policy_loss": -0.01, "value_loss": 2.0 - progress, "kl": 0.012, "lr": 3e-4, "entropy": 4.0 - progress}
    learned |= {"std": 0.8, "explained_variance": progress, "clipped": 0.1, "grad_norm": 0.4, "oddity": 7.0}
    return {
        "episode/return": 100 + 700 * progress,
        "episode/length": 50 + 900 * progress,
        "episode/success": progress,
        "episode/speed": 1.0,
        "episode/ended": 12.0,
        "reward/velocity": 0.5 + progress,
        "reward/fall": -0.25,
        **{f"learn/{name}": value for name, value in learned.items()},
        "steps_per_second": 9000.0,
        "broken": 0.0,
        "iteration": float(at),
        "time/rollout": 3.0,
        "time/learn": 1.0,
    }


Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(
        iterations: int = 10,
        *,
        evaluated: tuple[int, ...] = (),
        result: dict[str, Any] | None = None,
        env: str = "Hopper-v5",
        more: dict[str, float] | None = None,
    ) -> Path:
        config = {"seed": 3, "env": {"name": "gymnasium", "id": env}}
        with Run.create(tmp_path, "a-run", config, verb="train", seed=3) as run:
            for at in range(1, iterations + 1):
                measured = {f"eval/{name}": value for name, value in EVAL.items()} | {"eval/return_mean": 100.0 * at}
                line = figures(at, iterations) | (more or {}) | (measured if at in evaluated else {})
                run.metrics.write(1000 * at, line)
            if result is not None:
                about = {"verb": "train", "seed": 3, "steps": 1000 * iterations, "minutes": 2.5, "finished": True}
                run.write_result(about | {"env": env, "steps_per_second": 6700.0, "broken": 0} | result)
        return run.path

    return made


def film(path: Path, step: int) -> None:
    (path / "videos").mkdir(exist_ok=True)
    for suffix in ("mp4", "png"):
        (path / "videos" / f"step_{step:06d}.{suffix}").write_bytes(b"")


class Seen(HTMLParser):
    """Elements and words of a page."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def policy(self) -> str:
        return next(attrs["content"] or "" for _, attrs in self.tags if attrs.get("http-equiv"))

    def found(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def report(path: Path) -> Seen:
    return Seen(write_report(path).read_text("utf-8"))


def charts(path: Path) -> dict[str, str]:
    """What is written in each figure of the page, by its title; those of one title in one text."""
    found: dict[str, str] = {}
    for figure in re.findall(r"<figure .*?</figure>", write_report(path).read_text("utf-8"), re.DOTALL):
        seen = Seen(figure)
        found[seen.words[0]] = found.get(seen.words[0], "") + seen.said
    return found


def test_the_headline_is_what_was_measured(make):
    said = report(make(result={"eval": EVAL})).said
    assert "812 ± 21.5 return, mean of 100 episodes" in said
    assert "97.0 % success, mean of 100 episodes" in said
    assert "6,700 steps a second" in said
    assert "2.5 minutes" in said
    assert "environment Hopper-v5" in said


def test_a_run_that_was_not_measured_is_headed_by_what_it_learned_from(make):
    said = report(make()).said
    assert "800 return, while it learned" in said
    assert "100.0 % success, while it learned" in said
    assert "Nothing was measured yet." in said
    assert "0.7 minutes" in said, "ten iterations of four seconds"


def test_what_episodes_earned_and_what_the_learner_said_is_drawn(make):
    shown = charts(make())
    assert shown["Return"].endswith("return 170 → 800")
    assert shown["Success"].endswith("success 10.0 % → 100.0 %")
    assert shown["Speed"].endswith("speed 1 → 1")
    assert shown["Explained variance"].endswith("explained_variance 0.1 → 1")
    assert shown["Learning rate"].endswith("lr 0.0003 → 0.0003")
    assert shown["Clipped"].endswith("clipped 10.0 % → 10.0 %")
    assert shown["Oddity"].endswith("oddity 7 → 7")
    assert "Ended" not in shown


def test_terms_of_the_reward_that_count_are_lines_of_one_chart_the_greatest_first(make):
    shown = charts(make(more={"reward/unused": 0.0}))
    assert shown["Terms of the reward"].endswith("velocity 0.6 → 1.5 fall -0.25 → -0.25")


def test_many_terms_of_the_reward_are_parted_by_size_each_with_a_colour_of_its_own(make):
    path = make(3, more={f"reward/t{at}": 0.001 * (at + 1) for at in range(12)})
    shown = charts(path)
    assert "t11" in shown["Terms of the reward"]
    assert "t0" in shown["Terms of the reward, from the 10th"]
    for figure in re.findall(r"<figure .*?</figure>", (path / "report.html").read_text(), re.DOTALL):
        used = re.findall(r'rx="2" fill="var\(--(\w+)\)"', figure)
        assert len(set(used)) == len(used)


def test_measurements_over_time_are_drawn_and_listed_the_newest_first(make):
    path = make(evaluated=(2, 6), result={"eval": EVAL})
    said = report(path).said
    listed = said[said.index("All measurements") :]
    assert listed.startswith(
        "All measurements step return mean length mean success rate return std episodes "
        "10,000 812 950 97.0 % 21.5 100 6,000 600 950 97.0 % 21.5 100 2,000 200 950 97.0 % 21.5 100"
    )
    assert "band: deviation between episodes" in charts(path)["Return"]


def test_a_single_measurement_is_listed_and_not_drawn(make):
    path = make(result={"eval": EVAL})
    assert "band" not in charts(path)["Return"]
    assert "10,000 812 950" in report(path).said


def test_a_long_list_of_measurements_is_cut_and_says_so(make):
    assert "and 15 earlier ones" in report(make(75, evaluated=tuple(range(1, 76)))).said


def test_where_time_went_is_shown_by_phase(make):
    path = make(more={"time/evaluate": 10.0})
    shown = charts(path)
    assert shown["Share of time"].endswith("rollout 75 % learn 25 %")
    assert shown["Steps a second"].endswith("9k → 9k")
    assert "Beside these, 100.0 seconds of measuring." in report(path).said


def test_the_newest_film_is_shown_from_the_file_beside_the_page(make):
    path = make()
    assert not report(path).found("video")
    for step in (900_000, 1_000_000):
        film(path, step)
    page = report(path)
    (video,) = page.found("video")
    assert video["src"] == "videos/step_1000000.mp4"
    assert "autoplay" not in video
    assert [picture["src"] for picture in page.found("img")] == ["videos/step_1000000.png"]
    assert "The policy after step 1,000,000" in page.said


def test_the_policy_allows_files_beside_the_page_and_no_script(make):
    page = report(make())
    assert "default-src 'none'" in page.policy
    assert "media-src 'self'" in page.policy
    assert "script-src" not in page.policy
    assert "unsafe" not in page.policy
    assert not page.found("script")


@pytest.mark.parametrize("broken", [0, 4])
def test_simulations_that_broke_are_a_warning_in_the_headline(make, broken: int):
    page = report(make(more={"broken": float(broken)}))
    assert ("4 simulations broke and were reset" in page.said) == bool(broken)
    assert ("tile warn" in [attrs.get("class") for attrs in page.found("div")]) == bool(broken)


def test_hostile_names_stay_text(make):
    path = make(env=HOSTILE, more={f"reward/{HOSTILE}": 1.0, f"learn/{HOSTILE}": 1.0, f"episode/{HOSTILE}": 1.0})
    page = report(path)
    assert not page.found("img")
    assert not page.found("script")


def test_a_run_without_a_step_has_a_report_and_a_table(make):
    path = make(0)
    said = report(path).said
    assert "No episode has ended yet." in said
    assert "Nothing was learned yet." in said
    with Run.open(path, readonly=True) as run:
        assert "0 steps" in printed(run)


def test_equal_runs_give_equal_reports(make):
    path = make(evaluated=(3,), result={"eval": EVAL})
    first = write_report(path).read_bytes()
    assert write_report(path).read_bytes() == first


def printed(run: Run) -> str:
    console = Console(width=120, file=io.StringIO())
    with console.capture() as said:
        console.print(summary_table(run))
    return said.get()


def test_the_table_has_first_last_and_measured_and_says_where_to_look(make):
    path = make(result={"eval": EVAL, "broken": 2})
    film(path, 10_000)
    write_report(path)
    with Run.open(path, readonly=True) as run:
        said = printed(run)
    cells = {
        row[0]: row[1:]
        for line in said.splitlines()
        if len(row := [c.strip() for c in line.strip("│").split("│")]) == 4
    }
    assert cells["return"] == ["170", "800", "812 ± 21.5"]
    assert cells["success"] == ["10.0 %", "100.0 %", "97.0 %"]
    assert cells["speed"] == ["1", "1", "-"]
    assert "10,000 steps in 2.5 minutes, 6,700 a second" in said
    assert "2 simulations broke" in said
    assert f"video: {path}/videos/step_010000.mp4" in said
    assert f"report: {path}/report.html" in said


def test_a_band_around_a_curve_reaches_as_far_as_its_spread():
    bare = plots.lines("x", [0, 1], [Curve("a", "blue", [1.0, 1.0])])
    wide = plots.lines("x", [0, 1], [Curve("a", "blue", [1.0, 1.0], np.array([5.0, 5.0]))])
    assert bare.count("var(--blue)") < wide.count("var(--blue)")

    def lowest(svg: str) -> float:
        return min(float(label) for label in re.findall(r">(-?[\d.]+)</text>", svg))

    assert lowest(bare) >= 0
    assert lowest(wide) <= -2.5
