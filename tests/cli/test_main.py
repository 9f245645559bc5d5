import re
import subprocess
import sys
from pathlib import Path

import pytest

import autotelic as package
from autotelic.cli.main import VERBS, main
from autotelic.runs.directory import Run


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


def test_our_own_mistakes_are_one_line_and_a_traceback_when_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def broken(root: object) -> list:
        raise TypeError("two\nlines")

    monkeypatch.setattr("autotelic.cli.runs.listing", broken)
    assert main(["runs"]) == 1
    line = "autotelic: internal error: TypeError: two lines; run again with --debug to see where\n"
    assert capsys.readouterr().err == line
    with pytest.raises(TypeError):
        main(["runs", "--debug"])


MADE_AN_ERROR = """
import os, signal, sys
import autotelic.cli.main as cli
import autotelic.cli.runs as runs

def library(root):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except BaseException:
        raise TypeError("incompatible arguments") from None

def broken(root):
    raise TypeError("our own")

runs.listing = library
"""


def terminated(code: str) -> tuple[int, str]:
    """The exit code, and what is said, where a library made another error of SIGTERM."""
    done = subprocess.run([sys.executable, "-c", MADE_AN_ERROR + code], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_termination_that_a_library_made_an_error_of_is_a_stop():
    assert terminated("sys.exit(cli.main(['runs']))") == (143, "autotelic: stopped\n")


def test_the_error_that_a_termination_became_is_said_where_debugging_is_asked_for():
    code, said = terminated("sys.exit(cli.main(['runs', '--log-level', 'debug']))")
    assert (code, said.splitlines()[-1]) == (143, "autotelic: stopped")
    assert "TypeError: incompatible arguments" in said


def test_a_stop_is_over_with_the_command_that_it_ended():
    code, said = terminated("cli.main(['runs'])\nruns.listing = broken\nsys.exit(cli.main(['runs']))")
    assert code == 1
    assert said.splitlines()[-1].startswith("autotelic: internal error: TypeError: our own")


WITHOUT = "import sys; part, *arguments = sys.argv[1:]; sys.modules[part] = None; import autotelic.cli.main as cli"


def run_without(part: str, *arguments: str) -> tuple[int, str]:
    """The exit code, and what is said, where a part is not installed."""
    code = f"{WITHOUT}; sys.exit(cli.main(arguments))"
    done = subprocess.run([sys.executable, "-c", code, part, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("part", ["torch", "gymnasium", "mujoco"])
def test_training_without_a_part_is_one_line_that_names_the_extra(part: str, tmp_path: Path):
    code, said = run_without(part, "train", f"root={tmp_path}")
    assert code == 2
    line = rf"autotelic: .* needs {part}, which is not installed: pip install 'autotelic\[physics\]'\n"
    assert re.fullmatch(line, said)


@pytest.mark.parametrize(("verb", "part"), [("watch", "torch"), ("export", "gymnasium"), ("eval", "torch")])
def test_a_trained_run_is_not_looked_at_without_a_part_and_the_extra_is_named(verb: str, part: str, tmp_path: Path):
    with Run.create(tmp_path, "walk", {}, verb="train", subject="humanoid-walk", seed=0) as run:
        where = str(run.path)
    line = f"autotelic: autotelic {verb} needs {part}, which is not installed: pip install 'autotelic[physics]'\n"
    assert run_without(part, verb, where) == (2, line)


@pytest.mark.parametrize("name", ["autotelic.no_such_module", "torch.no_such_module", "numpy"])
def test_a_module_that_is_missing_from_something_installed_is_our_own_mistake(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def broken(root: object) -> list:
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    monkeypatch.setattr("autotelic.cli.runs.listing", broken)
    assert main(["runs"]) == 1
    assert capsys.readouterr().err.startswith(
        f"autotelic: internal error: ModuleNotFoundError: No module named '{name}'"
    )


def test_loading_the_command_takes_no_time_in_which_a_signal_would_show_a_traceback():
    heavy = "{'rich', 'numpy', 'yaml', 'hydra', 'argparse'}"
    code = f"import sys, autotelic.cli.main; print(*sorted({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_loops_are_at_the_top_of_the_package():
    from autotelic.cli import play

    assert (package.new_loop, package.open_loop) == (play.new_loop, play.open_loop)
    with pytest.raises(AttributeError, match="has no attribute 'new_lop'"):
        _ = package.new_lop  # pyright: ignore[reportAttributeAccessIssue]


def test_options_may_stand_before_the_verb(capsys: pytest.CaptureFixture[str], tmp_path):
    assert main(["--log-level", "info", "runs", f"root={tmp_path}"]) == 0
    assert "no runs" in capsys.readouterr().out


def test_a_process_that_leaves_says_what_it_had_to_say_and_does_what_it_had_put_off():
    code = "import atexit; from autotelic.cli.main import leave; atexit.register(print, 'later'); print(1); leave(3)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (3, ["1", "later"])
