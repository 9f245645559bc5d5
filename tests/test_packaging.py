import os
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import autotelic
from autotelic.cli.play import compose

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pinned() -> dict[str, str]:
    lines = (line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#"))
    pairs = (re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+!]+)", line) for line in lines)
    return {_normal(pair[1]): pair[2] for pair in pairs if pair}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_constraint_is_one_exact_version(pinned: dict[str, str]):
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(pinned) == len(lines)


def test_every_dependency_has_an_exact_version_within_its_range(pinned: dict[str, str]):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    for requirement in map(Requirement, [*project["dependencies"], *extras]):
        if requirement.name != "autotelic":
            assert pinned[_normal(requirement.name)] in requirement.specifier, requirement.name


def test_the_installed_version_is_the_package_s_own():
    assert version("autotelic") == autotelic.__version__


def test_make_play_names_what_can_be_played():
    (asked,) = re.findall(r"^PLAY \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    config = compose(asked.split(), None)
    assert (config.world.name, config.player.name, config.minutes) == ("code", "tiny", 5.0)


def test_continuous_integration_can_run_its_script():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
