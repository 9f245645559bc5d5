from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from autotelic import registry
from autotelic.errors import UserError
from autotelic.runs.config import Group, compose, expand, plain, restore


@dataclass(frozen=True)
class Limits:
    cpu: int = 1
    wall: float = 5.0

    def __post_init__(self) -> None:
        if not self.wall > 0:
            raise ValueError(f"sandbox.limits.wall is {self.wall}; it must be above 0")
        if self.cpu > self.wall:
            raise ValueError("more processor time\nthan time")


class Code:
    @dataclass
    class Config:
        limits: Limits = field(default_factory=Limits)
        kinds: tuple[str, ...] = ("deduction", "abduction")
        scales: dict[str, float] = field(default_factory=dict)


class Arm:
    @dataclass
    class Config:
        joints: int = 7
        beside_with: ClassVar[dict[str, Any]] = {"busy": {"loop": {"batch": 30}}, "generic": {"player": {"model": "m"}}}

        def __post_init__(self) -> None:
            if self.joints < 1:
                raise ValueError("joints must be at least 1")


class Generic:
    @dataclass
    class Config:
        model: str = ""


class Busy:
    @dataclass
    class Config:
        beside: ClassVar[dict[str, Any]] = {"loop": {"batch": 300}, "world": {"scales": {"usual": 2.0}}}


@dataclass
class LoopConfig:
    batch: int = 8


@dataclass
class Schema:
    run: str | None = None
    steps: int = 10
    minutes: float | None = None
    world: Any = None
    player: Any = None
    solver: Any = None
    loop: LoopConfig = field(default_factory=LoopConfig)


GROUPS = {
    "world": Group("worlds", "code"),
    "player": Group("players", "generic", generic=("generic", "model")),
    "solver": Group("players"),
}


@pytest.fixture(autouse=True)
def built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "worlds", {"code": f"{__name__}:Code", "arm": f"{__name__}:Arm"})
    monkeypatch.setitem(registry.BUILT_IN, "players", {"generic": f"{__name__}:Generic", "busy": f"{__name__}:Busy"})
    classes = {"Code": Code, "Arm": Arm, "Generic": Generic, "Busy": Busy}
    monkeypatch.setattr(registry, "get", lambda group, name: classes[registry.BUILT_IN[group][name].split(":")[1]])


def ask(*overrides: str, **options: Any) -> Schema:
    return compose(Schema, GROUPS, overrides, **options)


def complaint(*overrides: str, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        ask(*overrides, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_class_brings_defaults_of_other_sections_with_it():
    assert ask("player=busy").loop.batch == 300
    assert ask("player=generic").loop.batch == 8


def test_two_classes_together_bring_other_defaults_than_either_alone():
    assert ask("world=arm", "player=busy").loop.batch == 30
    assert ask("player=busy").loop.batch == 300
    assert ask("world=arm", "player=generic").player.model == "m"
    assert ask("world=arm", "player=generic", "player.model=n").player.model == "n"


def test_what_two_classes_bring_together_is_told_to_whichever_role_has_the_class():
    asked = ask("world=arm", "player=busy", "solver=generic")
    assert asked.solver.model == "m"
    assert not hasattr(asked.player, "model")


def test_what_the_user_says_wins_over_what_a_class_brings(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("loop: {batch: 5}", encoding="utf-8")
    assert ask("player=busy", file=file).loop.batch == 5
    assert ask("player=busy", "loop.batch=4", file=file).loop.batch == 4


def test_a_saved_configuration_keeps_its_values_whatever_a_class_brings():
    saved = plain(ask("player=busy", "loop.batch=4"))
    assert restore(Schema, GROUPS, saved, "config.yaml").loop.batch == 4


def test_a_saved_configuration_keeps_its_mappings_whatever_a_class_brings():
    saved = plain(ask("player=busy", "world.scales={}"))
    assert restore(Schema, GROUPS, saved, "config.yaml").world.scales == {}


def test_defaults_are_typed():
    config = ask()
    assert isinstance(config, Schema)
    assert config.world.name == "code"
    assert isinstance(config.world, Code.Config)
    assert config.world.kinds == ("deduction", "abduction")
    assert config.solver is None


def test_overrides_reach_every_depth_also_into_frozen_sections():
    config = ask("steps=3", "loop.batch=2", "world.limits.cpu=4", "world.kinds=[induction]", "minutes=0.5")
    assert (config.steps, config.loop.batch, config.minutes) == (3, 2, 0.5)
    assert config.world.limits == Limits(cpu=4)
    assert config.world.kinds == ("induction",)


def test_a_group_is_chosen_by_name_and_brings_its_own_keys():
    config = ask("world=arm", "world.joints=6", "solver=generic")
    assert isinstance(config.world, Arm.Config)
    assert (config.world.joints, config.solver.name) == (6, "generic")
    assert "unknown key 'world.joints'" in complaint("world.joints=6")


def test_a_value_that_is_no_name_stands_for_the_generic_option():
    config = ask("player=Qwen/Qwen2.5-Coder-3B")
    assert (config.player.name, config.player.model) == ("generic", "Qwen/Qwen2.5-Coder-3B")


def test_a_preset_sets_keys_of_a_class(tmp_path: Path):
    (tmp_path / "worlds").mkdir()
    (tmp_path / "worlds" / "quick.yaml").write_text("defaults: [code]\nlimits: {cpu: 3}\n")
    config = ask("world=quick", presets=tmp_path)
    assert (config.world.name, config.world.limits.cpu) == ("code", 3)


def test_a_preset_serves_every_key_that_takes_its_class(tmp_path: Path):
    (tmp_path / "players").mkdir()
    (tmp_path / "players" / "big.yaml").write_text("defaults: [generic, _self_]\nmodel: big\n")
    (tmp_path / "players" / "bigger.yaml").write_text("defaults: [big, _self_]\nmodel: bigger\n")
    config = ask("player=big", "solver=bigger", presets=tmp_path)
    assert (config.player.name, config.player.model) == ("generic", "big")
    assert (config.solver.name, config.solver.model) == ("generic", "bigger")
    changed = ask("player=big", "solver=big", "solver.model=mine", presets=tmp_path)
    assert (changed.player.model, changed.solver.model) == ("big", "mine")


def test_a_preset_says_what_goes_well_beside_it(tmp_path: Path):
    (tmp_path / "players").mkdir()
    (tmp_path / "players" / "first.yaml").write_text("defaults: [busy]\nbeside: {loop: {batch: 5}, steps: 7}\n")
    (tmp_path / "players" / "second.yaml").write_text("defaults: [first]\nbeside: {loop: {batch: 6}}\n")
    config = ask("player=second", presets=tmp_path)
    assert (config.player.name, config.loop.batch, config.steps) == ("busy", 6, 7)
    assert ask("player=second", "loop.batch=9", presets=tmp_path).loop.batch == 9


def test_what_goes_well_with_the_usual_class_of_a_group_is_not_forced_on_another(tmp_path: Path):
    (tmp_path / "players").mkdir()
    (tmp_path / "players" / "tuned.yaml").write_text("defaults: [generic]\nbeside: {world: {kinds: [abduction]}}\n")
    assert ask("player=tuned", presets=tmp_path).world.kinds == ("abduction",)
    assert ask("player=tuned", "world=arm", presets=tmp_path).world.joints == 7


def test_presets_are_among_the_names_to_choose_from(tmp_path: Path):
    (tmp_path / "players").mkdir()
    (tmp_path / "players" / "bigger.yaml").write_text("defaults: [generic, _self_]\n")
    assert "no solver named 'biger': did you mean bigger" in complaint("solver=biger", presets=tmp_path)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("stpes=3", "steps"), ("loop.bacth=3", "loop.batch"), ("batch=3", "loop.batch"), ("world.limit.cpu=1", "cpu")],
)
def test_an_unknown_key_gives_the_nearest(wrong: str, right: str):
    line = complaint(wrong)
    assert f"unknown key '{wrong.partition('=')[0]}'" in line
    assert right in line.partition("did you mean")[2]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("steps=many", "steps=many: Value 'many' of type 'str' could not be converted to Integer"),
        ("world=cod", "no world named 'cod': did you mean code?"),
        ("world={a: 1}", "world takes a name"),
        ("world.name=arm", "choose with world=NAME"),
        ("steps=[1", "is not key=value"),
        ("steps", "is not key=value"),
        ("steps=1,2", "sweep with -m"),
        ("+extra=1", "unknown key 'extra'"),
        ("steps@world=1", "a key has no @"),
        ("loop=3", "'loop' is a section, not a value; its keys: loop.batch"),
        ("~steps", "keys cannot be removed"),
    ],
)
def test_a_bad_override_is_one_line(override: str, words: str):
    assert words in complaint(override)


def test_a_class_may_refuse_a_value():
    assert complaint("world=arm", "world.joints=0") == "world.joints must be at least 1"


def test_a_refused_value_is_named_by_its_full_key_and_not_by_a_file_that_does_not_have_it(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("world: {limits: {wall: 2}}\n")
    assert complaint("world.limits.wall=0", file=file) == "world.limits.wall is 0.0; it must be above 0"
    assert complaint("world.limits.cpu=9") == "world.limits: more processor time than time"


def test_a_free_mapping_that_is_given_whole_has_no_defaults_left(tmp_path):
    assert ask("player=busy", "world.scales.a=1").world.scales == {"usual": 2.0, "a": 1.0}
    assert ask("player=busy", "world.scales={}").world.scales == {}
    assert ask("player=busy", "world.scales={a: 1}").world.scales == {"a": 1.0}
    file = tmp_path / "mine.yaml"
    file.write_text("world: {scales: {}}", encoding="utf-8")
    assert ask("player=busy", file=file).world.scales == {}


def test_free_mappings_take_new_keys():
    assert ask("+world.scales.energy=0.5").world.scales == {"energy": 0.5}
    assert ask("world.scales={energy:0.5}", "world.scales.speed=1").world.scales == {"energy": 0.5, "speed": 1.0}


def test_off_in_a_file_is_a_word(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("run: off\nplayer: {model: no}\n")
    config = ask(file=file)
    assert (config.run, config.player.model) == ("off", "no")


def test_a_file_is_merged_under_the_overrides(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("steps: 4\nloop: {batch: 5}\nworld: {name: arm, joints: 3}\nplayer: some/model\n")
    config = ask("steps=6", file=file)
    assert (config.steps, config.loop.batch, config.world.joints) == (6, 5, 3)
    assert config.player.model == "some/model"
    assert isinstance(ask("world=code", file=file).world, Code.Config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stpes: 4", "unknown key 'stpes': did you mean steps"),
        ("steps: many", "steps: Value 'many'"),
        ("- a", "keys and values"),
        ("a: [", "not YAML"),
        ("loop: 3", "'loop' is a section, not a value; its keys: loop.batch"),
        ("world: cod", "mine.yaml: no world named 'cod': did you mean code?"),
        ("world: {name: arm, joints: 0}", "mine.yaml: world.joints must be at least 1"),
        ("world: {limits: {wall: 0}}", "mine.yaml: world.limits.wall is 0.0; it must be above 0"),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(tmp_path: Path, text: str, words: str):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    line = complaint(file=file)
    assert words in line
    assert "mine.yaml" in line


def test_a_file_that_is_not_text_is_one_line(tmp_path: Path):
    (tmp_path / "mine.yaml").write_bytes(b"steps: \xff\n")
    assert "mine.yaml: not UTF-8 text" in complaint(file=tmp_path / "mine.yaml")


def test_a_group_that_a_file_leaves_empty_is_the_default(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("world:\n")
    assert ask(file=tmp_path / "mine.yaml").world.name == "code"


def test_a_missing_file_is_one_line(tmp_path: Path):
    assert "absent.yaml: no such file" in complaint(file=tmp_path / "absent.yaml")


def test_a_saved_configuration_comes_back_equal():
    config = ask("world=arm", "world.joints=2", "steps=7", "player=a/b", "solver=generic", "minutes=2")
    text = yaml.safe_dump(plain(config))
    again = restore(Schema, GROUPS, yaml.safe_load(text), "config.yaml")
    assert plain(again) == plain(config)
    assert isinstance(again.world, Arm.Config)


def test_a_sweep_is_every_combination():
    assert expand(["seed=1,2", "steps=3", "world=code,arm"]) == [
        ["seed=1", "steps=3", "world=code"],
        ["seed=1", "steps=3", "world=arm"],
        ["seed=2", "steps=3", "world=code"],
        ["seed=2", "steps=3", "world=arm"],
    ]
    assert expand(["seed=range(0,3)"]) == [["seed=0"], ["seed=1"], ["seed=2"]]
