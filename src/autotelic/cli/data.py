"""autotelic data: demonstrations as files. One action so far: collect."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotelic import registry
from autotelic.cli import play, play_session
from autotelic.cli.arguments import add_json, pairs, print_json, whole
from autotelic.errors import UserError
from autotelic.runs.directory import Run, find
from autotelic.runs.progress import Display

EPILOG = """\
autotelic data collect env=arm-pick-place player=scripted episodes=100 out=FILE.hdf5
  env=NAME         one of the arm's families: arm-reach, arm-push, arm-lift, arm-pick-place, arm-stack, arm-drawer,
                   arm-button; env.KEY=VALUE as for train
  player=NAME      who writes the controllers, named as for play (default: scripted), with player.KEY=VALUE; or a run
                   of play in the arm world, whose solver is taken as it is at the last checkpoint
  policy=RUN       instead of a player: a run of train in such an environment
  episodes=N       verified successes that are written (default: 10)
  tries=N          episodes after which to give up (default: four for each that is wanted, and 20)
  seed=N           of starts and of chance (default: 0)
  sample=true      answers or actions are drawn; default: what the player or policy holds for best
  out=FILE.hdf5    in robomimic's layout; overwrite=true where there is such a file already
"""

SECONDS = 15.0  # that episodes with a player may last, if nothing else is said: controllers take their time
KEYS = ("env", "player", "policy", "episodes", "tries", "seed", "sample", "out", "overwrite")


@dataclass
class Asked:
    """What `collect` was asked for."""

    out: Path
    episodes: int
    tries: int
    seed: int
    sample: bool
    env: str | None
    player: str | None
    policy: str | None
    environment: list[str]  # changes to the environment: env.KEY=VALUE
    others: list[str]  # to the player and the world


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", help="collect")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="see below")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.action not in ACTIONS:
        raise UserError(f"no action '{arguments.action}': {registry.nearest(arguments.action, list(ACTIONS))}")
    return ACTIONS[arguments.action](arguments)


def _collect(arguments: argparse.Namespace) -> int:
    asked = _read(arguments.overrides)
    from autotelic.data.demonstrations import Demonstration, collect
    from autotelic.data.robomimic import writing

    with (
        (_by_policy if asked.policy is not None else _by_player)(asked) as (environment, source, about),
        Display("collect", asked.episodes, unit="episodes", results=str(asked.out)) as display,
        writing(asked.out, environment, {"seed": asked.seed, **about}) as writer,
    ):

        def keep(shown: Demonstration) -> None:
            writer.add(shown)
            display.update(writer.episodes)

        failed = collect(environment, source, asked.episodes, asked.tries, asked.seed, keep)
        if not writer.episodes:
            why = _classes(failed)
            raise UserError(f"none of {asked.tries} tries was a success ({why}); nothing was written to {asked.out}")
    found = {
        "out": str(asked.out),
        "episodes": writer.episodes,
        "steps": writer.steps,
        "tries": writer.episodes + sum(failed.values()),
        "failed": dict(sorted(failed.items())),
    }
    if arguments.json:
        print_json(found)
    else:
        rest = f"; not written: {_classes(failed)}" if failed else ""
        print(f"{writer.episodes} episodes, {writer.steps} steps, written to {asked.out}{rest}")
        if writer.episodes < asked.episodes:
            print(f"{asked.tries} tries are over: {asked.episodes} episodes were wanted; allow more with tries=N")
    return int(writer.episodes < asked.episodes)


ACTIONS = {"collect": _collect}


def _classes(failed: Counter[str]) -> str:
    return ", ".join(f"{n} {outcome}" for outcome, n in sorted(failed.items()))


# What was asked


def _read(overrides: Sequence[str]) -> Asked:
    environment = [text for text in overrides if text.startswith("env.")]
    others = [text for text in overrides if text.startswith(("player.", "world."))]
    given = pairs([text for text in overrides if text not in (*environment, *others)], KEYS)
    if "player" in given and "policy" in given:
        raise UserError("player= and policy=: one of them collects, not both")
    if "policy" in given and others:
        raise UserError(f"'{others[0]}': with policy= there is no player")
    if "env" not in given and "policy" not in given:
        raise UserError(f"env= is missing: one of {', '.join(_families())}")
    episodes = whole("episodes", given.get("episodes", "10"), least=1)
    tries = whole("tries", given["tries"], least=1) if "tries" in given else 4 * episodes + 20
    return Asked(
        out=_out(given.get("out"), _flag(given, "overwrite")),
        episodes=episodes,
        tries=tries,
        seed=whole("seed", given.get("seed", "0")),
        sample=_flag(given, "sample"),
        env=given.get("env"),
        player=given.get("player"),
        policy=given.get("policy"),
        environment=environment,
        others=others,
    )


def _flag(given: dict[str, str], key: str) -> bool:
    text = given.get(key, "false").lower()
    if text not in ("true", "false"):
        raise UserError(f"{key}={text}: true or false")
    return text == "true"


def _out(text: str | None, overwrite: bool) -> Path:
    """Where the file goes, looked at before anything is done for it."""
    if not text:
        raise UserError("out= is missing: out=FILE.hdf5 is where the episodes go")
    out = Path(text)
    if out.suffix not in (".hdf5", ".h5"):
        raise UserError(f"out={text}: the name of an HDF5 file ends in .hdf5")
    if out.is_dir():
        raise UserError(f"out={text}: is a directory")
    if not out.parent.is_dir():
        raise UserError(f"out={text}: there is no directory {out.parent}")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise UserError(f"out={text}: {out.parent} is not writable")
    if out.exists() and not overwrite:
        raise UserError(f"out={text}: exists already; choose another name, or add overwrite=true")
    return out


def _families() -> list[str]:
    from autotelic.worlds.arm.demonstrations import GOALS

    return list(GOALS)


# Who shows


@contextlib.contextmanager
def _by_policy(asked: Asked) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    from autotelic.cli import train, train_session
    from autotelic.physics.arm.environment import ArmTask
    from autotelic.training.demonstrating import by_policy

    assert asked.policy is not None
    with Run.open(asked.policy, readonly=True) as directory:
        if directory.meta.get("verb") != "train":
            raise UserError(f"policy={asked.policy}: a run of {directory.meta.get('verb')}, not of train")
        config = train.restore(directory, asked.environment)
        if asked.env is not None and asked.env != config.env.name:
            raise UserError(f"policy={asked.policy}: was trained in {config.env.name}, not in {asked.env}")
        if not issubclass(registry.get("environments", config.env.name), ArmTask):
            raise UserError(f"policy={asked.policy}: was trained in {config.env.name}, which is no task of the arm's")
        with train_session.open_to_look(directory, config, count=1, threads=1) as (step, environment, policy):
            assert isinstance(environment, ArmTask)
            about = {"policy": directory.path.name, "step": step}
            yield environment, by_policy(policy, environment, asked.seed, asked.sample), about


@contextlib.contextmanager
def _by_player(asked: Asked) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    from autotelic.cli import train, train_session
    from autotelic.physics.arm.environment import ArmTask
    from autotelic.play.demonstrating import by_player
    from autotelic.worlds.code.sandbox import Sandbox

    assert asked.env is not None
    if asked.env not in _families():
        raise UserError(f"env={asked.env}: no family of the arm's; {registry.nearest(asked.env, _families())}")
    chosen = [f"env={asked.env}", f"env.seconds={SECONDS}", *asked.environment]
    section = train.compose(chosen, None).env
    with (
        _solver(asked) as (world, player, name),
        train_session.build_environment(section, count=1, threads=1) as environment,
        Sandbox(world.config.sandbox) as sandbox,
    ):
        assert isinstance(environment, ArmTask)
        yield environment, by_player(world, player, environment, sandbox, asked.seed, asked.sample), {"player": name}


@contextlib.contextmanager
def _solver(asked: Asked) -> Iterator[tuple[Any, Any, str]]:
    """The world, who solves its tasks, and what it is called."""
    name = asked.player or "scripted"
    path = _run_of_play(name)
    if path is None:
        config = play.compose(["world=arm", "world.heldout=false", f"player={name}", *asked.others], None)
        with play_session.build(config) as parts:
            parts.solver.seed = asked.seed
            yield parts.world, parts.solver, name
        return
    if asked.others:
        raise UserError(f"'{asked.others[0]}': a run keeps its player and its world")
    with Run.open(path, readonly=True) as directory:
        if directory.meta.get("verb") != "play":
            raise UserError(
                f"player={name}: a run of {directory.meta.get('verb')}, not of play; for train: policy={name}"
            )
        config = play.restore(directory)
        if config.world.name != "arm" or "induction" not in config.world.kinds:
            raise UserError(f"player={name}: it never wrote a controller: take a run with world=arm and its induction")
        with play_session.open_to_look(directory, config) as loop:
            yield loop.world, loop.solver, directory.path.name


def _run_of_play(name: str) -> Path | None:
    """The run that a player's name stands for, unless it is that of a player."""
    if name in registry.names("players") or (play.PRESETS / "players" / f"{name}.yaml").is_file():
        return None
    try:
        return find(name)
    except UserError:
        return None
