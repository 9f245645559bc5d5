"""autotelic watch: films a run's policy, as it is at a checkpoint, or an archived attempt, as it was judged."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotelic import registry
from autotelic.cli import carry, play, play_session
from autotelic.cli.arguments import add_json, add_run, figure, pairs, print_json, whole
from autotelic.errors import UserError
from autotelic.play.archive import Archive, Attempt
from autotelic.runs.directory import Run
from autotelic.runs.files import write_atomic
from autotelic.runs.progress import Display

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from autotelic.cli.train import TrainConfig
    from autotelic.show.video import Episode, Film, Shown
    from autotelic.worlds.base import Replay

EPILOG = """\
seconds=X       of each episode at most so much (default: 10)
width=N height=N   of the picture (default: 640 x 480)
of training:
  episodes=N      episodes filmed (default: 1)
  step=N          a checkpoint's step, or best (default: the newest checkpoint)
  seed=N          of the episodes (default: the run's own)
  env.KEY=VALUE   what is to be different: env.push=0.5, env.randomise=off
of self-play, where there is something to see (world=arm):
  task=ID         the beginning of a task's id (default: the control task that was solved last)
  attempt=N       at it, in the order they were made (default: the newest that solved it, else the newest)
  episodes=N      the last N of the starts that it was judged at (default: all)
"""
CONTROL = "induction"  # the kind whose answers are seen at work
LISTED = 4  # ids that a complaint names


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
            return _show_attempt(directory, arguments)
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


# Policies


def _watch(directory: Run, overrides: Sequence[str]) -> Watched:
    from autotelic.cli import train

    changes = [text for text in overrides if text.startswith("env.")]
    known = ("episodes", "seconds", "step", "seed", "width", "height")
    given = pairs([text for text in overrides if text not in changes], known)
    options = _options(given, ("episodes", 1), ("seed", 0))
    step = carry.chosen_step(directory, given.get("step"))
    return film_run(directory, train.restore(directory, changes), step, **options)


def film_run(
    directory: Run, config: TrainConfig, step: int | None = None, console: Console | None = None, **options: Any
) -> Watched:
    """Films a checkpoint's policy (the newest by default) into the run's folder of videos. `options` are Film's."""
    from autotelic.cli import train_session
    from autotelic.show.video import Film

    with train_session.open_to_look(directory, config, step, count=1) as (step, environment, policy):
        film = Film(environment, policy, **{"seed": config.seed, **options})
        video, sheet = _write(film, directory, f"step_{step:06d}", console)
    return Watched(step, video, sheet, environment.dt, film.episodes)


# Attempts


def _show_attempt(directory: Run, arguments: argparse.Namespace) -> int:
    """Runs an archived attempt again, as it was judged, and films it."""
    from autotelic.show.specimens import visible
    from autotelic.show.video import Shown

    config = play.restore(directory)
    if not registry.get("worlds", config.world.name).seen:
        raise UserError(
            f"{directory.path}: of an attempt in the world {config.world.name} there is nothing to see but text: it is "
            f"in {directory.report.name}. Runs of 'autotelic train' and of world=arm can be watched"
        )
    given = pairs(arguments.overrides, ("task", "attempt", "episodes", "seconds", "width", "height"))
    options = _options(given)
    last = whole("episodes", given["episodes"], 1) if "episodes" in given else 0
    with Archive.open(directory.archive, config.archive, readonly=True) as archive:
        task = archive.task(_task_id(archive, given.get("task")))
        number, count = _chosen(archive, task.id, given.get("attempt"))
        (attempt,) = archive.attempts(task.id, limit=1, skip=number - 1)
        with play_session.build_world(config) as world:
            world.recall_from(archive.solved_answer)
            replay = world.replay(task, attempt.answer, attempt.verdict.seed)
            detail = visible(" ".join(attempt.verdict.detail.split()))  # may quote what a controller raised
            outcome = f"{attempt.verdict.outcome}: {detail}".rstrip(": ")
            if not replay.clips:
                raise UserError(
                    f"attempt {number} of {count} at task {task.id} ran nothing that could be seen: {outcome}"
                )
            name = "".join(filter(str.isalnum, task.id))[:12]  # an archive may come from anywhere
            film = Shown(replay.clips[-last:], **options)
            video, sheet = _write(film, directory, f"task_{name}_{number}")
            about = world.readable(task)[0][1]
    again = _difference(attempt, replay, world.version)
    files = {"video": str(video), "sheet": str(sheet)}
    if arguments.json:
        said = {"outcome": attempt.verdict.outcome, "solved": attempt.verdict.solved, "same": not again}
        where = {"run": str(directory.path), "task": task.id, "kind": task.kind, "attempt": number, "attempts": count}
        print_json({**where, "step": attempt.step, **said, **files})
        return 0
    print(f"task {task.id}, {task.kind}: {about}")
    print(f"attempt {number} of {count}, step {attempt.step}: {outcome}")
    print(again or "it ended as it did when it was judged")
    print("\n".join(f"{name}: {path}" for name, path in files.items()))
    return 0


def _task_id(archive: Archive, given: str | None) -> str:
    """The task whose id begins as it is given, or the control task that was solved last."""
    if given is None:
        found = archive.newest_solved(CONTROL)
        if found is None:
            raise UserError(f"{archive.path}: no control task was solved yet; name a task: task=ID")
        return found
    found = archive.beginning(given, LISTED + 1)
    if given in found or len(found) == 1:
        return found[0]
    if found:
        more = " …" if len(found) > LISTED else ""
        raise UserError(f"task={given}: several tasks begin so: {', '.join(found[:LISTED])}{more}; give more of it")
    near = next((ids for at in range(len(given) - 1, -1, -1) if (ids := archive.beginning(given[:at], LISTED))), [])
    raise UserError(f"task={given}: no task begins so; {'nearest: ' + ', '.join(near) if near else 'there is none'}")


def _chosen(archive: Archive, id: str, given: str | None) -> tuple[int, int]:
    """The number of the attempt that is wanted, and how many there are."""
    solved = archive.solved(id)
    if not solved:
        raise UserError(f"task {id} was never attempted: there is nothing to run again")
    if given is None:
        return max((at for at, hit in enumerate(solved, 1) if hit), default=len(solved)), len(solved)
    number = whole("attempt", given, 1)
    if number > len(solved):
        raise UserError(f"attempt={given}: task {id} has {len(solved)} attempts")
    return number, len(solved)


def _difference(attempt: Attempt, replay: Replay, version: str) -> str:
    """A line that says what came out otherwise than it was judged; empty where nothing did."""
    was, now = attempt.verdict.judgement, replay.verdict.judgement
    if was == now:
        return ""
    judged = attempt.verdict.version
    why = f"judged by {judged or 'an unknown version'}, this is {version}" if judged != version else "the same version"
    return f"note: this is not what was judged: it was {was}, now it is {now} ({why})"


# What both share


def _options(given: Mapping[str, str], *numbers: tuple[str, int]) -> dict[str, Any]:
    """What a film is told: whole numbers with the least that each may be, and seconds."""
    known = (*numbers, ("width", 16), ("height", 16))
    found: dict[str, Any] = {name: whole(name, given[name], least) for name, least in known if name in given}
    return found | ({"seconds": _seconds(given["seconds"])} if "seconds" in given else {})


def _write(film: Film | Shown, directory: Run, name: str, console: Console | None = None) -> tuple[Path, Path]:
    """A film and a sheet of it, in the run's folder of videos."""
    from autotelic.show.video import contact_sheet, pictures_of, write_mp4

    video = directory.directory("videos") / f"{name}.mp4"
    with Display("film", film.most, unit="pictures", console=console) as display:
        write_mp4(video, _counted(film, display), film.fps)
    sheet = video.with_suffix(".png")
    write_atomic(sheet, contact_sheet(pictures_of(video)))
    return video, sheet


def _counted(film: Film | Shown, display: Display) -> Iterator[np.ndarray]:
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
