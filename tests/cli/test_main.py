import pytest

import autotelic as package
from autotelic.cli.main import VERBS, main


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb} " in shown for verb in VERBS)


def test_version(capsys: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"autotelic {package.__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main([verb, "--help"])
    assert caught.value.code == 0
    assert f"autotelic {verb}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["ply"], "no verb 'ply': did you mean play?"),
        (["steps=3", "play"], "no verb 'steps=3'"),
        (["runs", "--jsn"], "unknown option --jsn: did you mean --json?"),
        (["runs", "rot=x"], "unknown key 'rot': did you mean root?"),
        (["resume"], "the following arguments are required: RUN"),
        (["runs", "--log-level", "loud"], "invalid choice: 'loud'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]):
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert line in shown.err
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""


def test_options_may_stand_before_the_verb(capsys: pytest.CaptureFixture[str], tmp_path):
    assert main(["--log-level", "info", "runs", f"root={tmp_path}"]) == 0
    assert "no runs" in capsys.readouterr().out
