"""Curricula steer self-play in the arm world too: what each wants and makes of a step is measured and shown."""

import pytest

import autotelic
from autotelic.show.report import write_report
from autotelic.worlds.base import KINDS

OPTIONS = (
    *("world=arm", "world.workers=1", "world.heldout=false", "evaluate=false", "player=scripted"),
    *("loop.batch=2", "loop.attempts=2", "loop.seeding=1", "loop.references=0"),
)
# What each says of a kind from the first step on, beside what it wanted.
OWN = {"ladder": "rung", "learnability": "learnability", "alp-gmm": "progress", "plr": "levels"}


@pytest.mark.parametrize(("name", "own"), OWN.items())
def test_a_curriculum_is_measured_in_every_kind_and_shown(tmp_path, name: str, own: str):
    with autotelic.new_loop(*OPTIONS, f"curriculum={name}", f"root={tmp_path}", "run=one") as loop:
        figures = loop.run(3)
    for kind in KINDS:
        assert {f"curriculum/{kind}/{own}", f"curriculum/{kind}/practised"} <= figures.keys()
    assert 'id="curriculum"' in write_report(tmp_path / "one").read_text("utf-8")


@pytest.mark.parametrize("name", OWN)
def test_a_curriculum_chooses_what_is_practised_beside_new_tasks(tmp_path, name: str):
    more = ["world.kinds=[induction]", "loop.batch=4", "loop.proposals=1", f"curriculum={name}"]
    more += ["curriculum.every=4"] if name == "alp-gmm" else []  # tasks that it has to see first
    with autotelic.new_loop(*OPTIONS, *more, f"root={tmp_path}") as loop:
        figures = [loop.run(1) for _ in range(8)]
    assert any(figure["curriculum/induction/practised"] > 0 for figure in figures)
