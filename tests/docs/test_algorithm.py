"""docs/algorithm.md: what it names exists, and it leaves out nothing that the learner can be told to do."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import autotelic
from autotelic.cli.play import compose
from autotelic.minds.config import ESTIMATORS
from autotelic.runs.config import plain

PAGE = Path(__file__).parents[2] / "docs" / "algorithm.md"


def prose(text: str) -> str:
    """A page without its fenced blocks, which are run elsewhere."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def names(text: str) -> list[str]:
    """Dotted names in backticks: `losses.policy_loss`, `player.learner.kl`."""
    return re.findall(r"`([A-Za-z_]\w*(?:\.\w+)+)`", prose(text))


def keys(section: Any, prefix: str = "") -> set[str]:
    """All keys of a configuration, in dotted form."""
    found = set()
    for name, value in section.items():
        found |= {f"{prefix}{name}"} | (keys(value, f"{prefix}{name}.") if isinstance(value, dict) else set())
    return found


def resolves(name: str) -> bool:
    """Whether a name is one of the package's: a module, or something in a module that ends in its first part."""
    first, *rest = name.split(".")
    modules = [found.name for found in pkgutil.walk_packages(autotelic.__path__, "autotelic.")]
    if name in modules:
        return True
    for module in (module for module in modules if module.rpartition(".")[2] == first):
        found: Any = importlib.import_module(module)
        for part in rest:
            found = getattr(found, part, None)
        if found is not None:
            return True
    return False


@pytest.fixture(scope="module")
def known_keys() -> set[str]:
    pytest.importorskip("torch")
    return keys(plain(compose(["player=tiny"], None)))


def test_every_name_on_the_page_exists(known_keys):
    found = names(PAGE.read_text("utf-8"))
    assert len(found) > 30
    assert [name for name in found if name not in known_keys and not resolves(name)] == []


@pytest.mark.parametrize(
    "wrong", ["losses.policy_los", "los.policy_loss", "player.learner.kll", "learner.Learner.lear"]
)
def test_a_name_that_does_not_exist_would_be_noticed(known_keys, wrong):
    assert names(f"see `{wrong}` here") == [wrong]
    assert wrong not in known_keys
    assert not resolves(wrong)


@pytest.mark.parametrize("module", ["advantages", "losses", "gae", "muon"])
def test_every_formula_of_the_learning_package_is_on_the_page(module):
    pytest.importorskip("torch")
    found = importlib.import_module(f"autotelic.learning.{module}")
    helpers = {"losses.size"}
    public = {
        f"{module}.{name}"
        for name, value in vars(found).items()
        if inspect.isfunction(value) and value.__module__ == found.__name__ and not name.startswith("_")
    }
    assert public - helpers - set(names(PAGE.read_text("utf-8"))) == set()


def test_every_estimator_has_its_function_on_the_page():
    advantages = pytest.importorskip("autotelic.learning.advantages")
    said = names(PAGE.read_text("utf-8"))
    functions = {name: f"advantages.{found.advantages.__name__}" for name, found in advantages.ESTIMATORS.items()}
    assert functions.keys() | {"ppo"} == set(ESTIMATORS)
    assert [function for function in functions.values() if function not in said] == []
