"""Typed configuration: Hydra's Compose API and override grammar over dataclasses.

A verb has a schema, a dataclass, and groups: keys whose value names a class of the registry (`world=code`) and whose
content is that class's own Config. The name stays in the composed section (`world.name`), so that config.yaml alone
rebuilds a run. A preset, a YAML file in a folder named after a group of the registry, sets some keys of a class and can
be named wherever one of that group can: `presets/players/NAME.yaml` is for player, proposer and solver alike. A
Config or a preset can say what goes well with it elsewhere: its `beside` are defaults of other sections when it is
chosen, and a Config's `beside_with` are those for when another, of the name given there, is chosen as well, in whatever
role. A free mapping (dict[str, …]) that is given whole has no defaults left. A mistake is one line with the nearest
right key, before anything starts.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import itertools
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml
from hydra import compose as hydra_compose
from hydra import initialize
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from autotelic import registry
from autotelic.errors import UserError
from autotelic.runs.files import named_errors

S = TypeVar("S")

_ROOT, _SCHEMA, _BESIDE = "autotelic_root", "autotelic_schema", "autotelic_beside"


@dataclasses.dataclass(frozen=True)
class Group:
    """A key that names a class. `generic` is the (name, key) that a value which is no known name stands for, if it fits
    the pattern; by default if it is a path or has a slash. `changeable` says that a fork may choose another."""

    registry: str
    default: str | None = None
    generic: tuple[str, str] | None = None
    pattern: str | None = None
    changeable: bool = False

    def stands_for_generic(self, name: str) -> bool:
        if self.generic is None:
            return False
        if self.pattern is not None:
            return re.fullmatch(self.pattern, name) is not None
        # A hub name or a path: a word alone is more likely a slip of the pen than a model.
        return "/" in name or Path(name).exists()


def compose(
    schema: type[S],
    groups: Mapping[str, Group],
    overrides: Sequence[str] = (),
    *,
    file: str | Path | None = None,
    presets: Path | None = None,
) -> S:
    """The configuration a command line asks for: defaults, then the file, then the overrides."""
    data: dict[str, Any] = {}
    if file is not None:
        data = read_yaml(Path(file))
    return _build(schema, groups, parse(overrides), data, presets, str(file))


def restore(
    schema: type[S], groups: Mapping[str, Group], data: Mapping[str, Any], where: str, overrides: Sequence[str] = ()
) -> S:
    """The configuration of a saved config.yaml, with changes, checked like any other."""
    return _build(schema, groups, parse(overrides), copy.deepcopy(dict(data)), None, where)


def require_sections(data: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    """Refuses a saved configuration that does not say what the run was of: defaults in its place would go on with
    another than the one that was begun."""
    if absent := [key for key in keys if not data.get(key)]:
        raise UserError(f"{where}: names no {' and no '.join(absent)}: only code that made this run can go on with it")


def parse(overrides: Sequence[str]) -> list[Override]:
    """Hydra's grammar, with its complaints in one line."""
    parsed = []
    for text in overrides:
        try:
            parsed += OverridesParser.create().parse_overrides([text])
        except HydraException as error:
            reason = str(error).partition("\n")[0]
            raise UserError(f"'{text}' is not key=value: {reason}") from error
    return parsed


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """Every combination of the values of a sweep: ["a=1,2", "b=3"] is [["a=1", "b=3"], ["a=2", "b=3"]]."""
    choices: list[list[str]] = []
    for override in parse(overrides):
        if override.is_sweep_override():
            choices.append([f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()])
        else:
            choices.append([str(override.input_line)])
    return [list(combination) for combination in itertools.product(*choices)]


def plain(value: Any) -> Any:
    """A configuration as data that YAML and JSON hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.name
    return str(value) if isinstance(value, Path) else value


def to_yaml(config: Any) -> str:
    """A configuration as the text of config.yaml."""
    return yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True)


class _Loader(yaml.SafeLoader):
    """YAML with the booleans of its version 1.2: `off` and `no` are words, which settings have as values."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:bool"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|True|TRUE|false|False|FALSE"), list("tTfF"))


def read_yaml(path: Path) -> dict[str, Any]:
    with named_errors(path):
        raw = path.read_bytes()
    try:
        data = yaml.load(raw.decode(), _Loader)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise UserError(f"{path}: nested too deeply") from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UserError(f"{path}: a configuration is keys and values, not a {type(data).__name__}")
    return data


def _build(
    schema: type[S],
    groups: Mapping[str, Group],
    overrides: list[Override],
    data: dict[str, Any],
    presets: Path | None,
    where: str,
) -> S:
    chosen, overrides = _choose(groups, overrides, data, presets, where)
    store = ConfigStore.instance()
    store.store(_SCHEMA, _writable(OmegaConf.structured(schema)))
    beside: dict[str, Any] = {}
    for key, name in chosen.items():
        if name:
            found = OmegaConf.merge(beside, *_stored(name, presets, groups[key].registry))
            beside = typing.cast(dict[str, Any], OmegaConf.to_container(found))
    for key, group in groups.items():
        if chosen[key] != group.default:
            beside.pop(key, None)  # what goes well with the usual class may be unknown to this one
    classes = [(key, name) for key, name in chosen.items() if name]
    for (key, name), (other, called) in itertools.permutations(classes, 2):
        together = _beside_with(groups[key].registry, name, presets).get(called, {})
        together = {_role(section, other, groups): values for section, values in together.items()}
        beside = typing.cast(dict[str, Any], OmegaConf.to_container(OmegaConf.merge(beside, together)))
    # GROUP@KEY: taken from the folder GROUP, put at KEY.
    sections = ({f"{groups[key].registry}@{key}": name} for key, name in chosen.items() if name)
    store.store(_BESIDE, beside)
    store.store(_ROOT, {"defaults": [_SCHEMA, *sections, _BESIDE, "_self_"]})
    base = _hydra()
    known = _keys(base)
    for key, value in _leaves(data):
        _check_key(key, known, base, where)
        _check_section(key, value, base, f"{where}: ")
    for override in overrides:
        key = override.key_or_group
        if override.is_sweep_override():
            raise UserError(f"'{override.input_line}' has several values: sweep with -m, or quote the value")
        if key.rpartition(".")[0] in groups and key.endswith(".name"):
            raise UserError(f"'{override.input_line}': choose with {key.removesuffix('.name')}=NAME")
        if override.is_delete():
            raise UserError(f"'{override.input_line}': keys cannot be removed")
        if override.package is not None:
            raise UserError(f"'{override.input_line}': a key has no @")
        _check_key(key, known, base, "")
        _check_section(key, override.value(), base, "")
    composed = _merged(base, data, where) if data else base
    for override in overrides:
        _set(composed, override)
    refused = _refused(composed)
    if refused is not None:
        key, line, error = refused
        given = [override.key_or_group for override in overrides]
        named = _within(key, (name for name, _ in _leaves(data))) and not _within(key, given)
        raise UserError(f"{where}: {line}" if named else line) from error
    return _with_tuples(OmegaConf.to_object(composed))


def _refused(node: DictConfig, path: str = "") -> tuple[str, str, Exception] | None:
    """The key a class refuses, in the innermost section, with what it says in one line."""
    for key in node:
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not (child._is_none() or child._is_missing() or child._is_interpolation()):
            found = _refused(child, f"{path}{key}.")
            if found is not None:
                return found
    try:
        OmegaConf.to_object(node)
    except OmegaConfBaseException as error:
        key = error.full_key or path.rstrip(".")
        return key, f"{key}: {_reason(error)}", error
    except (UserError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        # A class does not know what it is called here: it says `servers` or `sandbox.servers` for its own key.
        said = re.match(r"(?:\w+\.)*(\w+)", reason)
        if said is not None and said[1] in node:
            return f"{path}{said[1]}", f"{path}{reason[said.start(1) :]}", error
        section = path.rstrip(".")
        return section, f"{section}: {reason}" if section else reason, error
    return None


def _within(section: str, keys: Iterable[str]) -> bool:
    return any(not section or key == section or key.startswith(f"{section}.") for key in keys)


def _choose(
    groups: Mapping[str, Group], overrides: list[Override], data: dict[str, Any], presets: Path | None, where: str
) -> tuple[dict[str, str | None], list[Override]]:
    """Which class each group uses, and the overrides that remain. Takes the choices out of the file's data too."""
    chosen = {key: group.default for key, group in groups.items()}
    for key in groups:
        section = data.get(key)
        if isinstance(section, str) or section is None:
            chosen[key] = data.pop(key, None) or groups[key].default
        elif isinstance(section, dict) and "name" in section:
            chosen[key] = str(section.pop("name"))
    remaining: list[Override] = []
    for override in overrides:
        key = override.key_or_group
        if key not in groups:
            remaining.append(override)
            continue
        name = override.value()
        if override.is_sweep_override():
            raise UserError(f"'{override.input_line}' has several values: sweep with -m")
        if not (isinstance(name, str) or (name is None and groups[key].default is None)):
            raise UserError(f"'{override.input_line}': {key} takes a name: {', '.join(_options(key, groups, presets))}")
        if name != chosen[key]:
            data.pop(key, None)  # the file's section was for the class it named
        chosen[key] = name
    for key, name in chosen.items():
        generic = groups[key].generic
        if name is None or name in _options(key, groups, presets):
            continue
        if generic is None or not groups[key].stands_for_generic(name):
            at = "" if any(override.key_or_group == key for override in overrides) else f"{where}: "
            raise UserError(f"{at}no {key} named '{name}': {registry.nearest(name, _options(key, groups, presets))}")
        chosen[key] = generic[0]
        quoted = name.replace("\\", "\\\\").replace("'", "\\'")
        remaining = [*parse([f"{key}.{generic[1]}='{quoted}'"]), *remaining]
    return chosen, remaining


def _options(key: str, groups: Mapping[str, Group], presets: Path | None) -> list[str]:
    """Classes of the registry and presets (YAML files that set some keys of one)."""
    files = sorted((presets / groups[key].registry).glob("*.yaml")) if presets else []
    return sorted({*registry.names(groups[key].registry), *(path.stem for path in files)})


def _stored(name: str, presets: Path | None, kind: str) -> list[Mapping[str, Any]]:
    """Gives Hydra what is behind a name: its class, or its preset and what that builds on. Returns what each of them
    wants beside it."""
    path = presets / kind / f"{name}.yaml" if presets else None
    if path is None or not path.is_file():
        ConfigStore.instance().store(name, _section(kind, name), group=kind)
        return [getattr(registry.config_class(kind, name), "beside", {})]
    preset = read_yaml(path)
    base = [entry for entry in preset.get("defaults", []) if isinstance(entry, str) and entry != "_self_"]
    beside = preset.pop("beside", {})
    ConfigStore.instance().store(name, preset, group=kind)
    return [*(found for entry in base for found in _stored(entry, presets, kind)), beside]


def _beside_with(kind: str, name: str, presets: Path | None) -> Mapping[str, Mapping[str, Any]]:
    """What goes well with a class when another, of a name given there, is chosen as well."""
    if presets is not None and (presets / kind / f"{name}.yaml").is_file():
        return {}
    return getattr(registry.config_class(kind, name), "beside_with", {})


def _role(section: str, key: str, groups: Mapping[str, Group]) -> str:
    """Where values go that are for a class chosen at `key`: what `player` is to be told, a `solver` is told as well."""
    return key if section in groups and groups[section].registry == groups[key].registry else section


def _section(group: str, name: str) -> DictConfig:
    """A class's Config with the name it was chosen by as one more field."""
    config = registry.config_class(group, name)
    if not any(field.name == "name" for field in dataclasses.fields(config)):
        frozen = config.__dataclass_params__.frozen
        config = dataclasses.make_dataclass(config.__qualname__, [("name", str, name)], bases=(config,), frozen=frozen)
    try:
        return _writable(OmegaConf.structured(config))
    except OmegaConfBaseException as error:
        raise UserError(f"{group} '{name}': its Config cannot be used: {_reason(error)}") from error


def _writable(node: Any) -> Any:
    """OmegaConf takes frozen dataclasses for read-only sections, which no override could change."""
    if isinstance(node, DictConfig) and not node._is_none() and not node._is_missing():
        OmegaConf.set_readonly(node, None)
        for key in node:
            _writable(node._get_node(key))
    return node


def _hydra() -> DictConfig:
    try:
        with initialize(version_base="1.3", config_path=None):
            return hydra_compose(_ROOT)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_reason(error)) from error


def _merged(base: DictConfig, data: Mapping[str, Any], where: str) -> DictConfig:
    try:
        with open_dict(base):  # unknown keys were refused; those of free mappings are the user's own
            for key, value in _leaves(data):
                if isinstance(value, dict) and _open_dict(base, key):
                    OmegaConf.update(base, key, {}, merge=False)
            return typing.cast(DictConfig, OmegaConf.merge(base, data))
    except OmegaConfBaseException as error:
        raise UserError(f"{where}: {error.full_key or ''}: {_reason(error)}") from error


def _set(config: DictConfig, override: Override) -> None:
    try:
        merge = not _open_dict(config, override.key_or_group)
        OmegaConf.update(config, override.key_or_group, override.value(), merge=merge, force_add=True)
    except OmegaConfBaseException as error:
        raise UserError(f"{str(override.input_line).lstrip('+')}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """What went wrong in one line."""
    return str(error).partition("\n")[0]


def _keys(node: DictConfig, prefix: str = "") -> list[str]:
    """All keys, sections included, in dotted form."""
    found = []
    for key in node:
        child = node._get_node(key)
        found.append(f"{prefix}{key}")
        if isinstance(child, DictConfig) and not child._is_none():
            found += _keys(child, f"{prefix}{key}.")
    return found


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in data.items():
        yield f"{prefix}{key}", value
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")


def _check_key(key: str, known: list[str], base: DictConfig, where: str) -> None:
    if key in known or _open_dict(base, key.rpartition(".")[0]):
        return
    at = f"{where}: " if where else ""
    raise UserError(f"{at}unknown key '{key}': {_nearest_key(key, known)}")


def _check_section(key: str, value: Any, base: DictConfig, where: str) -> None:
    section = OmegaConf.select(base, key)
    if isinstance(section, DictConfig) and not isinstance(value, dict):
        inside = ", ".join(f"{key}.{name}" for name in section)
        raise UserError(f"{where}'{key}' is a section, not a value; its keys: {inside or 'any'}")


def _open_dict(base: DictConfig, key: str) -> bool:
    """Whether a key holds a free mapping (dict[str, …]), to which keys may be added."""
    node = OmegaConf.select(base, key) if key else base
    return isinstance(node, DictConfig) and not dataclasses.is_dataclass(OmegaConf.get_type(node)) and bool(key)


def _nearest_key(key: str, known: list[str]) -> str:
    """The key most alike, and others only when they are as near: by the full name, else by its last part."""
    leaf = key.rpartition(".")[2]
    close = [full for full in known if full.rpartition(".")[2] == leaf] or _most_alike(key, known)
    if not close:
        leaves = {full.rpartition(".")[2]: full for full in known}
        close = [leaves[found] for found in _most_alike(leaf, list(leaves))]
    if close:
        return f"did you mean {' or '.join(close[:3])}?"
    return f"known keys: {', '.join(full for full in known if '.' not in full)}"


def _most_alike(word: str, known: list[str]) -> list[str]:
    def likeness(other: str) -> float:
        return SequenceMatcher(None, other, word).ratio()

    close = get_close_matches(word, known, n=3, cutoff=0.6)
    return [found for found in close if likeness(found) > likeness(close[0]) - 0.05]


def _with_tuples(value: Any) -> Any:
    """OmegaConf has lists only; fields declared as tuples get tuples back."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value))
        for field in dataclasses.fields(value):
            item = _with_tuples(getattr(value, field.name))
            if isinstance(item, list) and typing.get_origin(hints[field.name]) is tuple:
                object.__setattr__(value, field.name, tuple(item))  # also where the dataclass is frozen
    elif isinstance(value, list):
        for item in value:
            _with_tuples(item)
    elif isinstance(value, dict):
        for item in value.values():
            _with_tuples(item)
    return value
