import subprocess
import sys
from pathlib import Path

import pytest

from autotelic import registry
from autotelic.errors import UserError

MODULE = """
from dataclasses import dataclass

class ChessWorld:
    @dataclass
    class Config:
        board: int = 8

class Bare:
    pass
"""

ENTRY_POINTS = """
[autotelic.worlds]
chess = third_party:ChessWorld
code = third_party:ChessWorld
bare = third_party:Bare
broken = third_party:Missing
needy = third_party_needy:World
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that extends the worlds by entry point."""
    (tmp_path / "third_party.py").write_text(MODULE)
    (tmp_path / "third_party_needy.py").write_text("import wandb\n")
    info = tmp_path / "third_party-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "third_party", raising=False)


@pytest.mark.usefixtures("third_party")
def test_another_package_adds_a_world_by_entry_point():
    assert "chess" in registry.names("worlds")
    assert registry.get("worlds", "chess").__name__ == "ChessWorld"
    assert registry.config_class("worlds", "chess")().board == 8


@pytest.mark.usefixtures("third_party")
def test_a_built_in_name_cannot_be_taken_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.BUILT_IN["worlds"], "code", "pathlib:Path")
    assert registry.get("worlds", "code") is Path


def test_naming_does_not_import():
    code = (
        "import sys; from autotelic import registry; print(registry.names('players'));"
        "print([t for t in registry.BUILT_IN['minds'].values() if t.partition(':')[0] in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert "'grammar'" in said[0]
    assert "'tiny'" in said[0]
    assert said[1] == "[]"


def test_an_unknown_name_gives_the_nearest():
    with pytest.raises(UserError, match="no players named 'gramar': did you mean grammar"):
        registry.get("players", "gramar")
    with pytest.raises(UserError, match=r"known: .*code"):
        registry.get("worlds", "xyzzy")


@pytest.mark.usefixtures("third_party")
def test_a_broken_entry_point_is_one_line():
    with pytest.raises(UserError, match=r"worlds 'broken' \(third_party:Missing\) does not load"):
        registry.get("worlds", "broken")
    with pytest.raises(UserError, match="has no Config dataclass"):
        registry.config_class("worlds", "bare")


@pytest.mark.usefixtures("third_party")
def test_a_missing_optional_part_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"worlds 'needy' needs wandb, .* pip install 'autotelic\[wandb\]'"):
        registry.get("worlds", "needy")


def test_every_built_in_loads_and_has_a_config():
    for group, entries in registry.BUILT_IN.items():
        for name in entries:
            registry.config_class(group, name)
