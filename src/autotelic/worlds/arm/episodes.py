"""One controller against one start: the program in the sandbox, the simulation outside, and what came of it.

Nothing that the program says decides anything. What happened is read from the simulation, at the moment when the
program ended and again a short while later. How a program ended is a class of its own:

    ended       it returned, None or one of the statuses
    returned    it returned something else
    unsupported  it returned what is no plain data
    exception   it raised
    horizon     its simulated time was over
    calls       it made more calls than it may
    limit       it took too long, in processor time or by the clock
    size        it took too much memory, or said too much
    syntax      it is no Python, or lacks its function
    forged      it said what it was not asked
    escape      it made a call that the kernel ended it for
    crash       it killed its interpreter
    uncompiled  the scene cannot be
    broken      the simulation flew apart
    lost        the judge failed: a server died
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import mujoco
import numpy as np

from autotelic.errors import UserError
from autotelic.physics.arm.control import SUBSTEPS, TICK, Arm, Broken, OutOfTime
from autotelic.physics.arm.scenes import Load, Placement, Scene, compiled
from autotelic.worlds.arm.controllers import ENTRY, ROBOT, STATUSES, WORLD, Host, OutOfCallsError, state_of
from autotelic.worlds.arm.goals import State
from autotelic.worlds.code.kinds.base import outcome_class
from autotelic.worlds.code.sandbox import Outcome, Sandbox

CALLS = 2_000  # that a program may make, and times that it may be called itself
STILL = (0.0, 0.0, 0.0, 0.0, 0.0)
EVERY = 2  # ticks from picture to picture of what is filmed
PICTURES = 1 / (EVERY * TICK)  # a second
MOVED = 0.02  # metres that a thing may be from where it was put, once it has settled


@dataclass(frozen=True)
class Job:
    """What is to be run: hashable, so that equal jobs are run once."""

    scene: Scene
    start: tuple[tuple[str, Placement], ...]
    controller: str | None = None  # None: nobody moves
    horizon: float = 15.0
    hold: float = 0.3
    server: int = 0  # of the sandbox: each has a hash seed of its own
    loads: tuple[tuple[str, Load], ...] = ()  # things that are heavier or rougher than their scene says
    joints: tuple[float, ...] | None = None  # at the start; None: at home
    filmed: bool = False  # whether it is kept what pictures of it can be drawn from


@dataclass(frozen=True)
class Ended:
    """What came of a job."""

    how: str
    before: State | None = None  # once things had settled
    after: State | None = None  # when the program ended
    later: State | None = None  # when it had been over for a while
    detail: str = ""
    claim: bool | None = None  # what the program said of itself
    unsettled: str = ""  # a thing that did not stay where it was put
    overlap: float = 0.0  # metres that things were within each other when they were put down
    metrics: Mapping[str, float] = field(default_factory=dict)  # up to when the program ended
    digest: str = ""  # of the exact final state
    # Where all was, from the start to the end, if it was filmed.
    film: tuple[np.ndarray, ...] = field(default=(), compare=False, repr=False)


def run(job: Job, sandbox: Sandbox | None, arms: dict[Scene, Arm]) -> Ended:
    """Runs a job. `arms` keeps simulations of scenes that were met before."""
    arm = arms.get(job.scene)
    if arm is None:
        if len(arms) >= 64:
            arms.clear()
        try:
            arm = arms[job.scene] = Arm(compiled(job.scene))
        except UserError as error:
            return Ended("uncompiled", detail=str(error))
    start, film = dict(job.start), list[np.ndarray]()
    try:
        arm.reset(start, job.joints, horizon=job.horizon + job.hold + 0.1, loads=dict(job.loads))
        with _filming(arm, job.filmed, film):
            before = state_of(arm)
            unsettled = _unsettled(before, start)
            how, detail, claim, calls = _drive(arm, job, sandbox)
            after = state_of(arm)
            metrics = {"time": arm.time, "steps": float(arm.steps), "calls": float(calls), **arm.metrics}
            later = None
            if how == "ended":
                for _ in range(round(job.hold / 0.02)):
                    arm.apply(STILL)
                later = state_of(arm)
    except (Broken, mujoco.FatalError) as error:
        arms.pop(job.scene)
        return Ended("broken", detail=str(error), film=tuple(film))
    digest = arm.state_digest()
    return Ended(how, before, after, later, detail, claim, unsettled, arm.overlap, metrics, digest, tuple(film))


@contextmanager
def _filming(arm: Arm, filmed: bool, film: list[np.ndarray]) -> Iterator[None]:
    """Keeps where all is at even distances in time, and at the end."""
    if not filmed:
        yield
        return

    def look(_: object) -> None:
        if arm.steps % (EVERY * SUBSTEPS) == 0:
            film.append(arm.positions())

    film.append(arm.positions())
    before, arm.watch = arm.watch, look
    try:
        yield
        if arm.steps % (EVERY * SUBSTEPS):
            film.append(arm.positions())
    finally:
        arm.watch = before


def _drive(arm: Arm, job: Job, sandbox: Sandbox | None) -> tuple[str, str, bool | None, int]:
    """How the program ended, what there is to say of it, what it claims, and how many calls it made."""
    if job.controller is None:
        return "ended", "", None, 0
    if sandbox is None:
        raise ValueError("a controller runs in a sandbox or not at all")
    host = Host(arm, job.scene, CALLS, job.horizon)
    try:
        with sandbox.open(job.controller, server=job.server) as session:
            outcome, claim = session.loaded, None
            again = outcome.ok
            while again:
                host.spend()
                outcome = session.call(ENTRY, ROBOT, WORLD, answer=host.answer)
                again = outcome.ok and outcome.value == "continue" and type(outcome.value) is str
    except OutOfTime:
        return "horizon", f"{job.horizon:g} s of simulated time are over", None, CALLS - host.left
    except OutOfCallsError:
        return "calls", f"more than {CALLS} calls", None, CALLS
    calls = CALLS - host.left
    if not outcome.ok:
        return outcome_class(outcome), _said(outcome), None, calls
    if outcome.value is not None and not (type(outcome.value) is str and outcome.value in STATUSES):
        return "returned", "returned something that is no status", None, calls
    claim = STATUSES[outcome.value] if outcome.value is not None else None
    return "ended", "", claim, calls


def _said(outcome: Outcome) -> str:
    return f"{outcome.detail} {outcome.message}".strip()[:300]


def _unsettled(state: State, start: Mapping[str, Placement]) -> str:
    for name, (x, y, _) in start.items():
        at_x, at_y, _ = state.positions[name]
        if max(abs(x - at_x), abs(y - at_y)) > MOVED:
            return name
    return ""
