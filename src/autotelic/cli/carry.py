"""Carries a run to its bound, safely: what every verb that learns shares."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from rich.console import Console

from autotelic.cli.arguments import whole
from autotelic.errors import UserError
from autotelic.runs.checkpoints import CheckpointConfig
from autotelic.runs.config import Group
from autotelic.runs.directory import Run
from autotelic.runs.metrics import LogConfig
from autotelic.runs.progress import Display, stderr_console
from autotelic.runs.workers import Stop, graceful_stop


@dataclass
class RunConfig:
    """What every run that learns is asked."""

    run: str | None = None  # the run's name; made up when not given
    root: str = "runs"  # where run directories are
    seed: int = 0
    steps: int | None = None  # a bound
    minutes: float | None = None  # a bound on the time spent learning
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise UserError(f"steps={self.steps}: must be at least 1")
        if self.minutes is not None and not self.minutes > 0:
            raise UserError(f"minutes={self.minutes}: must be above 0")

    @property
    def last_step(self) -> int | None:
        """The step that ends the run, unless time does so first."""
        return self.steps

    @property
    def total(self) -> int | None:
        """What a bar of steps counts to, where that is known."""
        return self.last_step

    def reached(self, loop: Any) -> bool:
        """Whether a loop is at its nearest bound."""
        last, minutes = self.last_step, self.minutes
        return (last is not None and loop.step >= last) or (minutes is not None and loop.seconds >= minutes * 60)


class Verb(Protocol):
    """A module of this folder whose verb makes runs that learn."""

    GROUPS: dict[str, Group]

    def restore(self, directory: Run, changes: Sequence[str] = ()) -> Any: ...

    def carry_on(self, directory: Run, config: Any) -> int: ...

    def require_whole(self, directory: Run) -> None: ...


def verb_of(directory: Run) -> Verb:
    """The verb that made a run, which alone can go on with it."""
    verb = directory.meta.get("verb")
    if verb not in ("play", "train"):
        raise UserError(f"{directory.path}: a run of '{verb}' cannot be resumed by this version")
    return cast(Verb, importlib.import_module(f"autotelic.cli.{verb}"))


def chosen_step(directory: Run, given: str | None) -> int | None:
    """The checkpoint that `step=` names: a step, or the best one measured; None for the newest."""
    if given != "best":
        return None if given is None else whole("step", given)
    best = directory.checkpoints.pointer("best")
    if best is None:
        raise UserError(
            f"step=best: no checkpoint of {directory.path} was measured while it was trained (evaluate_every=N); "
            "leave step= out for the newest"
        )
    return best


class Loop(Protocol):
    """What is carried: the loop of self-play, or of training."""

    step: int
    seconds: float

    @property
    def target_reached(self) -> bool: ...

    def run_step(self) -> dict[str, float]: ...

    def save_checkpoint(self) -> None: ...

    def result(self, finished: bool) -> dict[str, Any]: ...


def bound_reached(loop: Loop, config: RunConfig) -> bool:
    return loop.target_reached or config.reached(loop)


def to_bound(
    loop: Loop,
    directory: Run,
    config: RunConfig,
    label: str,
    shown: Callable[[Mapping[str, float]], Mapping[str, float]],
    *,
    begun: bool,
    note: str = "",
    first: Callable[[Console], None] | None = None,
    after_step: Callable[[Display], None] | None = None,
    last: Callable[[Console], None] | None = None,
) -> int:
    """Takes a run to the nearer bound and writes its checkpoint and result; returns the exit code, 0 if it got there.

    `shown` picks the few figures beside the bar. `begun` says that the run goes on from a checkpoint, `note` what is
    then to be said of it. `first` comes before the first step of a new run, `last` once the bound is reached.
    """
    console = stderr_console()

    def say(line: str) -> None:
        console.print(line, markup=False)

    with graceful_stop(say) as stop:
        directory.log_to(config.log, loop.step + 1)
        if bound_reached(loop, config):
            if loop.target_reached:
                say("its target is reached already; for more, fork it with another: run=NEW target=X")
            else:
                say(f"at its bound already; for more: autotelic resume {directory.path} steps=N, or minutes=N")
        else:
            if (directory.path / "result.json").exists():
                directory.write_result(loop.result(False))  # a kill must not leave it finished
            if begun and note:
                say(f"note: {note}; results may differ from an uninterrupted run")
        if first is not None and not begun:
            first(console)
        _advance(loop, directory, config, stop, console, label, shown, after_step)
        finished = bound_reached(loop, config)
        if loop.step >= 0:
            loop.save_checkpoint()
        if last is not None and finished:
            last(console)
        result = loop.result(finished)
        directory.write_result(result)
    if not finished:
        say(f"stopped after step {result['steps']}; go on with: autotelic resume {directory.path}")
        return stop.exit_code
    return 0


def _advance(
    loop: Loop,
    directory: Run,
    config: RunConfig,
    stop: Stop,
    console: Console,
    label: str,
    shown: Callable[[Mapping[str, float]], Mapping[str, float]],
    after_step: Callable[[Display], None] | None,
) -> None:
    left = None if config.minutes is None else config.minutes - loop.seconds / 60
    done = max(loop.step, 0)
    where = str(directory.path)
    with Display(label, config.total, done=done, minutes=left, results=where, console=console) as display:
        while not stop.requested and not bound_reached(loop, config):
            with _safe_point_named(loop, directory):
                figures = loop.run_step()
            if display.minutes is not None:
                display.minutes += figures.get("time/evaluate", 0.0) / 60  # the bound is on learning
            display.update(loop.step, shown(figures))
            if after_step is not None:
                after_step(display)


@contextlib.contextmanager
def _safe_point_named(loop: Loop, directory: Run) -> Iterator[None]:
    """What ends a run in the middle (a server gone, memory used up, weights that went astray) is said together with
    where the run is whole."""
    try:
        yield
    except UserError as error:
        steps = directory.checkpoints.steps()
        if not steps:
            raise
        safe = directory.checkpoints.path(steps[-1])
        reason, again = str(error).rstrip("."), f"autotelic resume {directory.path}"
        # Going on as before does what was done before: other settings need a fork.
        raise UserError(
            f"step {loop.step + 1}: {reason}; whole up to {safe}: {again}, or {again} run=NEW KEY=VALUE"
        ) from error


@contextlib.contextmanager
def damage_named(checkpoint: Path) -> Iterator[None]:
    """A checkpoint whose files are whole may still not hold what this version looks for."""
    try:
        yield
    except KeyError as error:
        raise UserError(f"checkpoint {checkpoint} lacks {error}: made by another version or damaged") from error
    except (TypeError, ValueError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"checkpoint {checkpoint}: made by another version or damaged: {reason}") from error


@contextlib.contextmanager
def discarded_on_failure(directory: Run) -> Iterator[None]:
    """A new run whose start fails is removed, unless it has reached a checkpoint of its own: the name stays free."""
    before = directory.checkpoints.steps()
    try:
        yield
    except BaseException:
        if directory.checkpoints.steps() == before:
            directory.discard()
        raise


def refuse_lost_checkpoints(directory: Run, newest: int = 0, first: int = 0) -> None:
    """A run without a checkpoint begins again. Where it has steps after the `first` that a checkpoint follows,
    checkpoints were lost: nothing is touched."""
    finished = (directory.result() or {}).get("steps")
    recorded = (int(line["step"] or 0) for line in directory.metrics.read())
    newest = max([newest, finished if isinstance(finished, int) else 0, *recorded])
    if newest > first:
        raise UserError(
            f"{directory.checkpoints.directory}: no checkpoint, but the run has {newest} steps: restore a copy of its "
            "checkpoints, or start a new run; nothing was changed"
        )
