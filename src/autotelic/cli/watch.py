"""autotelic watch: films a run's policy, as it is at a checkpoint."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotelic.cli import carry
from autotelic.cli.arguments import add_json, add_run, figure, pairs, print_json, whole
from autotelic.errors import UserError
from autotelic.runs.directory import Run
from autotelic.runs.files import write_atomic
from autotelic.runs.progress import Display

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from autotelic.cli.train import TrainConfig
    from autotelic.show.video import Episode, Film

EPILOG = """\
episodes=N      episodes filmed (default: 1)
seconds=X       of each at most so much (default: 10)
step=N          a checkpoint's step, or best (default: the newest checkpoint)
seed=N          of the episodes (default: the run's own)
width=N height=N   of the picture (default: 640 x 480)
env.KEY=VALUE   what is to be different: env.push=0.5, env.randomise=off
"""


@dataclass(frozen=True)
class Watched:
    """A film of a run and what happened in it."""

    step: int
    video: Path
    sheet: Path
    dt: float
    episodes: list[Episode]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    with Run.open(arguments.run, readonly=True) as directory:
        carry.verb_of(directory)
        if directory.meta.get("verb") != "train":
            raise UserError(
                f"{directory.path}: a run of self-play has no policy to film; its tasks and answers are in "
                f"{directory.report.name}. Runs of 'autotelic train' can be watched"
            )
        watched = _watch(directory, arguments.overrides)
    if arguments.json:
        episodes = [{"return": e.total, "length": e.length, "ended": e.ended, **e.figures} for e in watched.episodes]
        files = {"video": str(watched.video), "sheet": str(watched.sheet)}
        print_json({"run": str(directory.path), "step": watched.step, **files, "episodes": episodes})
        return 0
    for number, episode in enumerate(watched.episodes, 1):
        print(f"episode {number}: {_line(episode, watched.dt)}")
    print(f"video: {watched.video}\nsheet: {watched.sheet}")
    return 0


def _watch(directory: Run, overrides: Sequence[str]) -> Watched:
    from autotelic.cli import train

    changes = [text for text in overrides if text.startswith("env.")]
    known = ("episodes", "seconds", "step", "seed", "width", "height")
    given = pairs([text for text in overrides if text not in changes], known)
    options: dict[str, Any] = {
        name: whole(name, given[name], least)
        for name, least in (("episodes", 1), ("seed", 0), ("width", 16), ("height", 16))
        if name in given
    }
    if "seconds" in given:
        options["seconds"] = _seconds(given["seconds"])
    step = carry.chosen_step(directory, given.get("step"))
    return film_run(directory, train.restore(directory, changes), step, **options)


def film_run(
    directory: Run, config: TrainConfig, step: int | None = None, console: Console | None = None, **options: Any
) -> Watched:
    """Films a checkpoint's policy (the newest by default) into the run's folder of videos. `options` are Film's."""
    from autotelic.cli import train_session
    from autotelic.show.video import Film, contact_sheet, pictures_of, write_mp4

    with train_session.open_to_look(directory, config, step, count=1) as (step, environment, policy):
        film = Film(environment, policy, **{"seed": config.seed, **options})
        video = directory.directory("videos") / f"step_{step:06d}.mp4"
        with Display("film", film.most, unit="pictures", console=console) as display:
            write_mp4(video, _shown(film, display), film.fps)
    sheet = video.with_suffix(".png")
    write_atomic(sheet, contact_sheet(pictures_of(video)))
    return Watched(step, video, sheet, environment.dt, film.episodes)


def _shown(film: Film, display: Display) -> Iterator[np.ndarray]:
    for number, picture in enumerate(film, 1):
        yield picture
        display.update(number)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UserError(f"seconds={text}: a number above 0 is wanted")
    return seconds


def _line(episode: Episode, dt: float) -> str:
    """What happened in an episode, in a line."""
    how = episode.ended or "cut by the film"
    others = "".join(f", {name} {figure(value)}" for name, value in episode.figures.items())
    return f"return {episode.total:.4g}, {episode.length} steps ({episode.length * dt:.1f} s), {how}{others}"
