"""Every command and every piece of Python in README and docs runs, and every link leads somewhere.

A page is run in a folder of its own, from top to bottom. Fenced blocks: `python` is run; with `file=NAME` after its
language a block is saved instead; `toml` with entry points becomes an installed package; in `console` the lines that
start with `$ autotelic` are run with smaller numbers, and must succeed unless they end in `# fails`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autotelic.cli.play import compose

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# What makes a command of the docs small enough for a test. An explicit value in the docs stays, but for the bounds.
SMALL = {
    "evaluate": "false",
    "evaluate_tasks": "30",
    "loop.batch": "2",
    "loop.attempts": "2",
    "loop.seeding": "1",
    "checkpoint.every": "1",
    "checkpoint.keep": "0",
}
SMALL_WORLD = {
    "code": {"world.heldout": "false", "world.sandbox.servers": "2"},
    "arm": {"world.heldout": "false"},
}
SMALL_TINY = {"width": "16", "heads": "4", "layers": "1", "max_tokens": "24", "base_steps": "3"}
SMALL_TRAIN = {
    "env.count": "4",
    "policy.hidden": "[8]",
    "learner.steps": "4",
    "evaluate_episodes": "2",
    "checkpoint.every": "1",
    "checkpoint.keep": "0",
    "video": "false",
}
BOUNDS = {"play": 2, "train": 32, "resume": 3}


@dataclass(frozen=True)
class Block:
    language: str
    file: str | None
    body: str
    line: int


def blocks(page: Path) -> list[Block]:
    found, fence, head, body, line = [], "", "", [], 0
    for number, text in enumerate(page.read_text("utf-8").splitlines(), 1):
        if not fence and (match := re.match(r"(`{3,})(\S.*)?$", text)):
            fence, head, body, line = match[1], match[2] or "", [], number
        elif fence and text.rstrip() == fence:
            language, *options = head.split() or [""]
            named = [option.removeprefix("file=") for option in options if option.startswith("file=")]
            found.append(Block(language, named[0] if named else None, "\n".join(body) + "\n", line))
            fence = ""
        elif fence:
            body.append(text)
    return found


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "100"}


def install(folder: Path, declared: str) -> None:
    """What pip would leave of a package with these entry points."""
    groups = tomllib.loads(declared)["project"]["entry-points"]
    info = folder / "example-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    parts = []
    for group, points in groups.items():
        parts += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(parts) + "\n")


def smaller(words: list[str]) -> list[str]:
    """The same command with fewer steps and smaller batches."""
    verb, rest = words[0], list(words[1:])
    keys = {word.partition("=")[0] for word in rest}
    for at, word in enumerate(rest):
        key, _, value = word.partition("=")
        if key == "steps" and verb in BOUNDS:
            rest[at] = f"steps={min(int(value), BOUNDS[verb])}"
        elif key == "episodes" and verb == "data":
            rest[at] = "episodes=1"
        elif key == "step" and value.isdigit():
            rest[at] = f"step={min(int(value), 1)}"
        elif key in ("checkpoint.every", "loop.batch", "loop.attempts"):
            rest[at] = f"{key}={SMALL[key]}"
    if verb == "play":
        if "episodes" in keys:  # one task at a time is small already
            return [verb, *rest]
        world = next((word.partition("=")[2] for word in rest if word.startswith("world=")), "code")
        small = SMALL | SMALL_WORLD.get(world, {})
        tiny = [role for role in ("player", "proposer", "solver") if f"{role}=tiny" in rest]
        small = small | {f"{role}.{key}": value for role in tiny for key, value in SMALL_TINY.items()}
        if tiny:  # which asks for more proposals than such a batch has
            small = small | {"loop.proposals": SMALL["loop.batch"]}
        rest += [f"{key}={value}" for key, value in small.items() if key not in keys]
        if "steps" not in keys and "--config" not in keys:
            rest.append("steps=2")
    elif verb == "train":
        rest += [f"{key}={value}" for key, value in SMALL_TRAIN.items() if key not in keys]
        if "steps" not in keys:
            rest.append(f"steps={BOUNDS[verb]}")
    elif verb == "eval":
        rest = [word for word in rest if not word.startswith("episodes=")] + ["episodes=6"]
    elif verb == "watch":
        rest += ["seconds=0.2", "width=64", "height=48"]
    return [verb, *rest]


def run_command(run: Callable[..., Any], folder: Path, text: str, where: str) -> None:
    command, _, remark = text.partition("  #")
    words = smaller(shlex.split(command)[1:])
    done = run(words, folder, environment(folder))
    failed = done.code != 0
    assert failed == (remark.strip() == "fails"), f"{where}: {text}\n{done.out[-1500:]}\n{done.err[-1500:]}"
    assert "Traceback" not in done.err, f"{where}: {text}\n{done.err[-1500:]}"


class Interpreter:
    """One process that runs a page's blocks in turn: later ones know what earlier ones defined."""

    DRIVER = (
        "import json, sys, traceback\n"
        "names = {'__name__': '__main__'}\n"
        "channel, sys.stdout = sys.stdout, sys.stderr\n"
        "for line in sys.stdin:\n"
        "    where, source = json.loads(line)\n"
        "    try:\n"
        "        exec(compile(source, where, 'exec'), names)\n"
        "        said = ''\n"
        "    except BaseException:\n"
        "        said = traceback.format_exc()\n"
        "    print(json.dumps(said), file=channel, flush=True)\n"
    )

    def __init__(self, commands: Any, folder: Path) -> None:
        pipes = [folder.with_name(f"{folder.name}-{name}") for name in ("blocks", "answers")]
        for pipe in pipes:
            os.mkfifo(pipe)
        started = {"program": self.DRIVER, "stdin": pipes[0], "stdout": pipes[1]}
        self.process = commands.start([], folder, environment(folder), **started)
        self.blocks, self.answers = pipes[0].open("w"), pipes[1].open()

    def run(self, where: str, source: str) -> str:
        self.blocks.write(json.dumps([where, source]) + "\n")
        self.blocks.flush()
        answer = self.answers.readline()
        return json.loads(answer) if answer else "the interpreter died"

    def close(self) -> None:
        self.blocks.close()
        self.answers.close()
        self.process.wait()


def run_page(commands: Any, page: Path, folder: Path) -> None:
    if "from transformers" in page.read_text("utf-8"):
        commands.load("autotelic.minds.hf_network", "transformers.models.qwen2.modeling_qwen2", "peft")
    interpreter = Interpreter(commands, folder)
    try:
        for block in blocks(page):
            where = f"{page.name}:{block.line}"
            if block.file:
                (folder / block.file).write_text(block.body)
            elif block.language == "toml" and "entry-points" in block.body:
                install(folder, block.body)
            elif block.language == "python":
                said = interpreter.run(where, block.body)
                assert not said, f"{where}\n{said}"
            elif block.language in ("console", "bash"):
                for line in block.body.splitlines():
                    if line.startswith("$ autotelic"):
                        run_command(commands.run, folder, line.removeprefix("$ "), where)
    finally:
        interpreter.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_runs(page, tmp_path, commands):
    run_page(commands, page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", page.read_text("utf-8"))
    targets = [one or other for one, other in links]
    for target in (target.partition("#")[0] for target in targets if not re.match(r"https?:|#", target)):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_every_page_is_reached_from_the_readme():
    said = (ROOT / "README.md").read_text("utf-8")
    assert [page.name for page in PAGES[1:] if f"docs/{page.name}" not in said] == []


def test_shell_blocks_hold_nothing_that_goes_unrun():
    for page in PAGES:
        for block in blocks(page):
            if block.language in ("console", "bash"):
                commands = [line for line in block.body.splitlines() if line.startswith("$ ")]
                assert all(line.startswith("$ autotelic ") for line in commands), f"{page.name}:{block.line}"


SHELL = [(page, block) for page in PAGES for block in blocks(page) if block.language == "sh"]


@pytest.mark.parametrize(("page", "block"), SHELL, ids=lambda part: part.stem if isinstance(part, Path) else part.line)
def test_what_only_another_machine_can_run_is_sound(page, block):
    """It is shell, and what it asks to be played could be."""
    read = subprocess.run(["bash", "-n"], input=block.body, capture_output=True, text=True, check=False)
    assert read.returncode == 0, f"{page.name}:{block.line}: {read.stderr}"
    for line in block.body.replace("\\\n", " ").splitlines():
        if line.startswith("autotelic play "):
            compose(shlex.split(line, comments=True)[2:], None)


def test_a_page_whose_python_fails_is_caught(tmp_path, commands):
    page = tmp_path / "page.md"
    page.write_text("```python\nvalue = 1\n```\n\n```python\nassert value == 2\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:5"):
        run_page(commands, page, tmp_path)


def test_a_page_whose_command_fails_is_caught(tmp_path, commands):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ autotelic play loop.bach=3\n```\n")
    with pytest.raises(AssertionError, match="did you mean loop"):
        run_page(commands, page, tmp_path)
