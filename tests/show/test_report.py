"""report.html: complete, self-contained, inert."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shutil
import sqlite3
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from autotelic.play.archive import Archive
from autotelic.runs.directory import Run
from autotelic.show.markup import embedded, text
from autotelic.show.report import write_report

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<!--<script>--></style><svg onload=document.title='owned'>&lt;/script&gt;\u2028\u202e\x00\ud800 $x_{y$"
)


class Page(HTMLParser):
    """The elements and texts a browser would build, as far as a parser of HTML can tell."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._inside: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "img", "br"):
            self._inside.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "script":
            self.scripts[-1] += data
        else:
            self.words.append(data)

    @property
    def said(self) -> str:
        return " ".join(self.words)

    @property
    def sample(self) -> list[dict]:
        return json.loads(self.scripts[0])

    def policy(self) -> str:
        return next(attrs["content"] or "" for tag, attrs in self.tags if attrs.get("http-equiv"))


def read(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


def digest(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def chromium(page: Path, tmp_path: Path) -> str:
    """The document after a real browser has run it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path}/browser"]
    command = [browser, *flags, "--virtual-time-budget=3000", "--dump-dom", page.resolve().as_uri()]
    return subprocess.run(command, capture_output=True, timeout=90, check=True).stdout.decode("utf-8")


def test_the_report_shows_headline_curves_sample_and_configuration(make_run):
    page = read(write_report(make_run(12)))
    for words in (
        "Held-out accuracy",
        "Solve rate",
        "New tasks: depth",
        "Duplicates",
        "Cheating ledger",
        "Share of time",
    ):
        assert words in page.said
    assert "2.0 %" in page.said
    assert "50.0 %" in page.said
    assert sum(tag == "svg" and attrs.get("class") == "plot" for tag, attrs in page.tags) >= 15
    assert "name: code" in page.said


def test_the_report_shows_where_time_went_by_kind(make_run):
    said = " ".join(read(write_report(make_run(12))).said.split())
    assert "phase seconds share deduction abduction induction" in said
    judge = said[said.index("phase seconds share") :].partition(" judge ")[2].split()
    assert judge[3:6] == ["2.4", "2.4", "2.4"]  # 12 steps of 0.2 seconds


@pytest.fixture
def measured_run(make_run) -> Path:
    """Three more steps, of which the second was not measured; and a measurement after the last."""
    path = make_run(2, config={"seed": 0, "world": {"name": "code"}, "evaluate_suite": "own.jsonl"}, result=False)
    kinds = {
        "deduction": {"before": 0.1, "after": 0.9, "n": 8, "depth": {"10": {"after": 0.8}, "2": {"before": 0.2}}},
        "riddles": {"before": 0.3, "after": 0.4, "n": 5},
    }
    with Run.open(path) as run:
        for step, accuracy in enumerate((0.125, None, 0.625, None), 40):
            names = ("heldout/deduction", "heldout/deduction/depth/10", "heldout/riddles")
            figures = {} if accuracy is None else dict.fromkeys(names, accuracy)
            figures |= {"learn/loss": 3.5, "learn/oddity": 7.0, "learn/solve/deduction/entropy": 0.25}
            figures |= {"learn/solve/deduction/groups": 8.0, "learn/solve/deduction/zero_variance_groups": 2.0}
            figures |= {"solve/deduction/feature/depth": 2.5, "propose/deduction/solve_rate": 0.375}
            run.metrics.write(step, figures | {"time/evaluate": 30.0})
        result = {"verb": "play", "seed": 0, "steps": 43, "minutes": 1.0, "finished": True, "heldout": kinds}
        run.write_result(result)
    return path


def charts(page: Page) -> dict[str, str]:
    """What is written in each figure of the page, by its title."""
    found = {}
    for card in re.findall(r"<figure .*?</figure>", page.source, re.DOTALL):
        said = Page(card).words
        found[said[0]] = " ".join(" ".join(said).split())
    return found


def test_held_out_accuracy_is_shown_before_and_after_by_kind_and_depth(measured_run):
    shown = charts(read(write_report(measured_run)))
    assert shown["Held-out accuracy: own.jsonl"].endswith(
        "before after tasks deduction 10.0 % 90.0 % 8 riddles 30.0 % 40.0 % 5"
    )
    assert shown["Held-out deduction by depth"].endswith("before after depth 2 20.0 % - depth 10 - 80.0 %")
    assert "Held-out riddles by depth" not in shown


def test_held_out_accuracy_over_time_ends_with_what_was_measured_after_the_run(measured_run):
    shown = charts(read(write_report(measured_run)))
    assert shown["Held-out accuracy over time"].endswith("deduction 12.5 % → 90.0 % riddles 12.5 % → 40.0 %")
    assert shown["Held-out deduction over time"].endswith("depth 10 12.5 % → 80.0 %")


def test_a_run_measured_only_before_and_after_has_no_held_out_curve(make_run):
    assert not [title for title in charts(read(write_report(make_run(5)))) if title.endswith("over time")]


def test_what_the_learner_says_is_shown_by_role_with_a_line_a_kind(measured_run):
    shown = charts(read(write_report(measured_run)))
    assert shown["Loss"].endswith("loss 3.5 → 3.5")
    assert shown["Learner: oddity"].endswith("oddity 7 → 7")
    assert shown["Solver: entropy"].endswith("deduction 0.25 → 0.25")
    assert not [title for title in shown if title.startswith(("Proposer: ", "Learner: solve"))]


def test_what_two_players_learned_is_shown_apart(make_run):
    path = make_run(2, result=False)
    with Run.open(path) as run:
        run.metrics.write(41, {"learn/proposer/loss": 1.5, "learn/solver/loss": 2.5})
    shown = charts(read(write_report(path)))
    assert shown["Proposer: Loss"].endswith("1.5 → 1.5")
    assert shown["Solver: Loss"].endswith("2.5 → 2.5")


def test_groups_that_teach_nothing_are_a_share_of_all_groups(measured_run):
    shown = charts(read(write_report(measured_run)))
    assert shown["Solver: groups that teach nothing"].endswith("deduction 25.0 % → 25.0 %")
    assert "Solver: groups" not in shown


def test_difficulty_is_shown_of_new_and_of_attempted_tasks(measured_run):
    shown = charts(read(write_report(measured_run)))
    assert shown["Attempted tasks: depth"].endswith("deduction 2.5 → 2.5")
    assert shown["New tasks: solve rate"].endswith("deduction 37.5 % → 37.5 %")
    assert {"New tasks: depth", "New tasks: operations", "Attempted tasks: learnability"} <= shown.keys()


def test_shares_of_time_are_by_kind_of_work_and_leave_measuring_out(make_run):
    path = make_run(1, result=False)
    with Run.open(path) as run:
        run.metrics.rewind(-1)
        times = {"propose": 3.0, "attempt": 3.0, "admit": 1.0, "judge": 1.0, "learn": 12.0, "evaluate": 100.0}
        run.metrics.write(0, {f"time/{name}": spent for name, spent in times.items()})
    page = read(write_report(path))
    assert "generating 30 %, judging 10 %, learning 60 %, archiving 0 %" in charts(page)["Share of time"]
    assert "Beside these, 100.0 seconds of measuring." in page.said
    assert " 0.3 minutes" in " ".join(page.said.split())


def test_the_sample_holds_tasks_with_their_answers_and_rejections_of_every_kind(make_run):
    items = read(write_report(make_run(6))).sample
    assert {(item["type"], item["kind"]) for item in items} == {
        (what, kind) for what in ("task", "rejection") for kind in ("deduction", "abduction", "induction")
    }
    deduction = next(item for item in items if item["kind"] == "deduction" and item["lineage"])
    assert dict(deduction["spec"])["output"].endswith(", (1.5, None)]")
    assert deduction["answers"][0]["outcome"] in ("correct", "wrong")
    assert deduction["lineage"][0][0] == "reference"
    induction = next(item for item in items if item["kind"] == "induction")
    assert dict(induction["spec"])["pairs"].count("# hidden") == 2


def test_the_page_loads_nothing_from_elsewhere(make_run):
    page = read(write_report(make_run(4)))
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in page.tags}
    for _, attrs in page.tags:
        assert not any(name.startswith("on") or name in ("src", "style", "srcdoc") for name in attrs)
        assert (attrs.get("href") or "#").startswith("#")
        assert (attrs.get("xlink:href") or "#").startswith("#")


def test_the_policy_allows_the_pages_own_script_and_style_only(make_run):
    path = write_report(make_run(4))
    page, source = read(path), path.read_text("utf-8")
    style = re.findall(r"<style>(.*?)</style>", source, re.DOTALL)
    assert len(style) == 1
    assert len(page.scripts) == 2
    allowed = {
        base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (page.scripts[1], style[0])
    }
    assert set(re.findall(r"'sha256-([^']+)'", page.policy())) == allowed
    assert "default-src 'none'" in page.policy()
    assert "unsafe" not in page.policy()


def test_hostile_text_of_players_stays_text(make_run):
    config = {"world": {"name": "code"}, "note": HOSTILE.replace("\ud800", "").replace("\x00", "")}
    path = write_report(make_run(3, program=HOSTILE, answer=HOSTILE, reason=HOSTILE, config=config))
    page = read(path)
    assert len(page.scripts) == 2
    assert "img" not in {tag for tag, _ in page.tags}
    shown = next(item for item in page.sample if item["type"] == "task")
    assert "</script><script>" in dict(shown["spec"])["program"]
    assert "\u202e" not in path.read_text("utf-8")


def test_a_browser_runs_the_page_and_none_of_the_hostile_text(make_run, tmp_path):
    run = make_run(3, program=HOSTILE, answer=HOSTILE, reason=HOSTILE)
    source = write_report(run).read_text("utf-8")
    # A script of the test's own, allowed by its hash, opens every item, so that all foreign text is on the page once.
    driver = (
        "const seen = []; for (const button of document.querySelectorAll('#list button')) { button.click();"
        "seen.push(document.querySelectorAll('#detail script, #detail img, #detail svg').length); }"
        "const said = document.documentElement.dataset;"
        "said.opened = seen.length; said.foreign = Math.max(...seen);"
    )
    mark = digest(driver)
    page = tmp_path / "driven.html"
    driven = source.replace("script-src ", f"script-src 'sha256-{mark}' ", 1).replace(
        "</body>", f"<script>{driver}</script></body>"
    )
    page.write_text(driven, "utf-8")
    dom = chromium(page, tmp_path)
    assert "owned" not in re.findall(r"<title>(.*?)</title>", dom)[0]
    assert f'data-opened="{len(Page(source).sample)}"' in dom
    assert 'data-foreign="0"' in dom


def test_outcome_names_from_a_foreign_world_are_text_in_plots_too(make_run):
    path = make_run(3)
    with Run.open(path) as run:
        names = [f"solve/{HOSTILE[:60]}/outcome/<i>$x_{{y$", "learn/<script>alert(1)</script>"]
        run.metrics.write(3, dict.fromkeys(names, 3.0))
    page = read(write_report(path))
    assert not {"i", "img"} & {tag for tag, _ in page.tags}
    assert len(page.scripts) == 2


def test_a_run_without_a_step_has_a_report(tmp_path):
    with Run.create(tmp_path, "new", {"seed": 0}, verb="play") as run:
        page = read(write_report(run.path))
    assert "No step has been measured yet." in page.said
    assert page.sample == []


def test_a_run_without_a_result_has_a_report(make_run):
    page = read(write_report(make_run(5, result=False)))
    assert "stopped" in page.said
    assert "Held-out accuracy" not in page.said


def test_a_run_that_another_connection_is_writing_to_can_be_reported(make_run):
    path = make_run(5, result=False)
    with Run.open(path) as run, Archive.open(run.archive) as archive, archive.transaction():
        archive.retire(9, [archive.tasks(limit=1)[0].task.id], "stale")
        page = read(write_report(path))
    assert len(page.sample) > 0


def test_gaps_in_the_metrics_stay_gaps(make_run):
    path = make_run(5)
    with Run.open(path) as run:
        run.metrics.write(40, {"solve/deduction/solve_rate": math.nan})
        run.metrics.write(41, {"solve/deduction/solve_rate": 0.5, "learn/loss": 1.0})
    with (path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 42, "torn')
    page = read(write_report(path))
    assert "mean of a step's updates" in page.said
    assert "nan" not in page.said.lower()


def test_equal_runs_give_equal_reports(make_run):
    path = make_run(5)
    first = write_report(path).read_bytes()
    assert write_report(path).read_bytes() == first


def test_the_report_leaves_the_archive_as_it_was(make_run):
    path = make_run(5)
    with Archive.open(path / "archive.sqlite", readonly=True) as archive:
        before = archive.digest()
    write_report(path)
    with Archive.open(path / "archive.sqlite", readonly=True) as archive:
        assert archive.digest() == before


def test_a_long_text_is_cut_and_says_so(make_run):
    program = "def f(a, b):\n    return 0  # " + "x" * 50_000
    path = write_report(make_run(3, program=program))
    assert path.stat().st_size < 1_500_000
    assert "characters in all)" in dict(read(path).sample[0]["spec"])["program"]


def test_rare_outcomes_are_in_the_sample(make_run):
    path = make_run(60, tasks=2, attempts=1)
    connection = sqlite3.connect(path / "archive.sqlite")
    with connection:
        connection.execute(
            "UPDATE verdicts SET outcome = 'limit' WHERE n = (SELECT min(n) FROM verdicts WHERE step = 37)"
        )
    connection.close()
    lines = (path / "metrics.jsonl").read_text().splitlines()
    lines[37] = json.dumps(json.loads(lines[37]) | {"solve/deduction/outcome/limit": 1.0})
    (path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    outcomes = {answer["outcome"] for item in read(write_report(path)).sample for answer in item.get("answers", ())}
    assert "limit" in outcomes


def test_embedded_json_cannot_end_its_element():
    data = [HOSTILE, {"</script>": math.inf}]
    written = embedded(data)
    assert not set("<>&") & set(written)
    assert json.loads(written) == [HOSTILE, {"</script>": None}]


def test_escaped_text_shows_what_it_hides():
    assert text("a\u202eb") == "a\\u202eb"
    assert text('<a href="x">') == "&lt;a href=&quot;x&quot;&gt;"


def test_the_sample_is_bounded_however_much_was_archived(make_run):
    path = write_report(make_run(40, tasks=12, attempts=1))
    items = read(path).sample
    assert 0 < sum(item["type"] == "task" for item in items) <= 180
    assert 0 < sum(item["type"] == "rejection" for item in items) <= 90
    assert len(embedded(items)) < 1_000_000
    assert {item["step"] for item in items} >= {0, 39}, "early and late ones alike"


def test_a_run_held_by_another_process_is_shown_as_running(make_run):
    path = make_run(2, result=False)
    code = f"import sys; from autotelic.runs.directory import Run; Run.open({str(path)!r}); print(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        said = read(write_report(path)).said
        owner.communicate()
    assert "running" in said
