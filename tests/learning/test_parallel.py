"""Processes that learn together, when one of them ends."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("left_alone.py")
ALONE = "autotelic: another of the processes that learn together has ended; see what it said\n"
MISTAKEN = "autotelic: internal error: RuntimeError: shapes do not match; run again with --debug to see where\n"


@pytest.mark.parametrize(("end", "ended"), [("killed", (-9, "")), ("mistaken", (1, MISTAKEN))])
def test_who_is_left_alone_ends_with_one_line_and_the_other_with_its_own_words(
    end: str, ended: tuple[int, str], together, tmp_path
):
    done = together([end], tmp_path, SCRIPT.read_text())
    assert [(each.code, each.err) for each in done] == [(2, ALONE), ended]
