"""The outer loop of training: collect, learn, measure, record, make safe.

An iteration is one rollout and one update. A step is one action of one environment: what `steps=` bounds, what metrics
and checkpoints are numbered by. All randomness is a function of (seed, iteration, purpose) or part of the environment's
state, so a run that resumes from a checkpoint does what the uninterrupted one would have done. But a learning rate that
falls with the minutes of a run follows the clock, which no two runs share.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotelic.errors import UserError
from autotelic.learning import parallel
from autotelic.physics.base import Environment
from autotelic.policies.base import Policy
from autotelic.runs.checkpoints import CheckpointConfig
from autotelic.runs.directory import Run
from autotelic.training.collecting import Collector, Metrics
from autotelic.training.collectors import Collectors, joined_figures
from autotelic.training.evaluate import Evaluation, evaluate
from autotelic.training.ppo import PPO


@dataclass(frozen=True)
class Exam:
    """How a policy is measured, and which result is enough."""

    make: Callable[[], Environment]  # environments of its own, apart from those it learns in
    episodes: int
    seed: int
    every: int = 0  # iterations from one measurement to the next; 0: only when asked
    target: float | None = None  # a mean return
    target_success: float | None = None  # a share of successes


class Training:
    """One run of training. An iteration that returned is recorded; a checkpoint makes it safe."""

    def __init__(
        self,
        run: Run | None,
        collector: Collector | Collectors,
        policy: Policy,
        learner: PPO,
        *,
        seed: int = 0,
        checkpoint: CheckpointConfig | None = None,
        last_step: int | None = None,
        last_minutes: float | None = None,
        exam: Exam | None = None,
    ) -> None:
        """`run`: None in a process that follows the first."""
        learner.config.minibatch(collector.rollout.count)  # a batch that does not divide is said at once
        self._run, self.collector, self.policy, self.learner = run, collector, policy, learner
        self.environment = collector.environment
        self.seed, self.checkpoint, self.last_step = seed, checkpoint or CheckpointConfig(), last_step
        self.exam, self.last_minutes = exam, last_minutes
        self._exam: Environment | None = None
        self.step = 0  # of all environments together
        self.iteration = 0
        self.seconds = 0.0  # spent in iterations, without measuring, over all the processes this run has had
        self.measured: Evaluation | None = None  # since something was last learned
        self.best: tuple[float, ...] | None = None  # the best score an evaluation had
        self.broken = 0  # simulations, of all processes
        self.begun_anew = False  # whether environments are not as the checkpoint left them, because they are others
        self.rescheduled = False  # whether the learning rate falls towards another end than before
        self._times: dict[str, float] = {}

    @property
    def directory(self) -> Run:
        assert self._run is not None, "only the first process reads and writes"
        return self._run

    def run_step(self) -> Metrics:
        """One iteration; returns its figures."""
        began = time.perf_counter()
        self._times = {}
        parallel.tell(self.seconds)  # one clock for all: a schedule may follow it
        figures = self._iterate()
        figures |= self._measure_if_due()
        self.seconds += time.perf_counter() - began - self._times.get("evaluate", 0.0)
        return self._record(figures)

    def _iterate(self) -> Metrics:
        with self._timed("rollout"):
            figures = self.collector.collect(self.iteration, self.step)
            if parts := parallel.gathered(figures):
                figures = joined_figures(parts) if len(parts) > 1 else figures
                self.broken = int(figures["broken"])
        with self._timed("learn"):
            figures |= self._learn()
        self.iteration += 1
        self.step += self.steps_an_iteration
        return figures

    @property
    def steps_an_iteration(self) -> int:
        return self.collector.rollout.length * self.collector.rollout.count * parallel.processes()

    def follow(self) -> None:
        """What a process that is not the first does: the same iterations, with environments of its own."""
        while (told := parallel.told()) != "end":
            if isinstance(told, float):
                self.seconds = told
                self._iterate()
            elif told == "save":
                parallel.gathered(self._own_state())
            else:
                self._restore(*told)

    @property
    def progress(self) -> float | None:
        """The share of the run that is done, if anything bounds it."""
        shares = [self.step / self.last_step] if self.last_step is not None else []
        if self.last_minutes is not None:
            shares.append(self.seconds / (60 * self.last_minutes))
        return min(max(shares), 1.0) if shares else None

    def _learn(self) -> Metrics:
        self.measured = None
        learned: Metrics = {}
        rollout = self.collector.rollout
        # Until it has observed one, a normaliser knows nothing: what was collected by then is only looked at.
        if self.iteration > self.collector.lag or not self.policy.normalises:
            learned = self.learner.update(rollout, self.progress, self.collector.actor)
        else:
            rollout.check()
        self.policy.observe(rollout.obs)
        return {f"learn/{name}": value for name, value in learned.items()}

    def measure(self, progress: Callable[[int], object] | None = None) -> Evaluation:
        """The policy as it is, without chance. What was measured holds until something is learned."""
        if self.measured is None:
            if self.exam is None:
                raise ValueError("nothing was said of how to measure")
            with self._timed("evaluate"):
                if self._exam is None:
                    self._exam = self.exam.make()
                self.measured = evaluate(self._exam, self.policy, self.exam.episodes, self.exam.seed, progress)
        return self.measured

    @property
    def target_reached(self) -> bool:
        """Whether the last measurement is as good as was asked for."""
        found, exam = self.measured, self.exam
        if found is None or exam is None:
            return False
        wanted = {"return_mean": exam.target, "success_rate": exam.target_success}
        return any(least is not None and found.get(name, -np.inf) >= least for name, least in wanted.items())

    def _measure_if_due(self) -> Metrics:
        if self.exam is None or not self.exam.every or self.iteration % self.exam.every:
            return {}
        return {f"eval/{name}": float(value) for name, value in self.measure().items()}

    @staticmethod
    def score(measured: Evaluation) -> tuple[float, ...]:
        """What the best checkpoint is chosen by: successes, then return."""
        return measured.get("success_rate", 0.0), measured["return_mean"]

    def _record(self, figures: Metrics) -> Metrics:
        spent = self._times["rollout"] + self._times["learn"]
        figures["steps_per_second"] = self.steps_an_iteration / spent
        figures["iteration"] = float(self.iteration)
        figures |= {f"time/{name}": value for name, value in self._times.items()}
        self.directory.metrics.write(self.step, figures)
        if self.iteration == 1 or self.iteration % self.checkpoint.every == 0 or "evaluate" in self._times:
            self.save_checkpoint()
        return figures

    def save_checkpoint(self) -> None:
        """The commit point: what is newer is dropped on resume."""
        self.directory.metrics.sync()
        best = False
        if self.measured is not None:
            score = self.score(self.measured)
            best = self.best is None or score >= self.best  # also once more, if a kill came before it was noted
            self.best = score if best else self.best
        parallel.tell("save")
        state: dict[str, Any] = {
            "policy": dict(self.policy.state_dict()),
            "processes": parallel.gathered(self._own_state()),
            "iteration": self.iteration,
            "best": self.best,
            "measured": self.measured,
            "measured_by": self._measured_by,
            "broken": self.broken,
            "bounds": self._bounds,
            "task": self.task,
            "timings": {"seconds": self.seconds},
        }
        self.directory.checkpoints.save(self.step, state, best=best)

    @property
    def _measured_by(self) -> list[Any] | None:
        """What a measurement depends on, beside the policy."""
        return self.exam and [self.collector.settings, self.exam.episodes, self.exam.seed]

    @property
    def _bounds(self) -> list[float | None]:
        return [self.last_step, self.last_minutes]

    def _own_state(self) -> dict[str, Any]:
        """What each process has for itself; of the learner, the returns under way."""
        return {
            "learner": self.learner.state(),
            "collector": self.collector.state(self.step),
            "task": self.collector.settings,
        }

    @property
    def task(self) -> dict[str, Any]:
        """What a checkpoint's weights are for."""
        return {"environment": self.environment.name, "sizes": dict(self.environment.sizes)}

    def restore(self, step: int, state: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint: metrics forget what is newer, once the state has been taken over."""
        if (made := len(state["processes"])) != parallel.processes():
            raise UserError(f"the checkpoint is of {made} processes, not of {parallel.processes()}: start as many")
        parallel.tell((step, dict(state)))
        self._restore(step, state)
        if state.get("measured_by", self._measured_by) == self._measured_by:  # what a fork is measured by may be other
            self.best, self.measured = state["best"] and tuple(state["best"]), state["measured"]
        self.broken = state.get("broken", self.collector.broken)
        falling = self.learner.config.schedule == "linear"
        self.rescheduled = falling and state.get("bounds", self._bounds) != self._bounds
        self.seconds = state["timings"]["seconds"]
        self.directory.metrics.rewind(step)

    def _restore(self, step: int, state: Mapping[str, Any]) -> None:
        load_policy(self.policy, state, self.task)
        self.step, self.iteration = step, state["iteration"]
        own = state["processes"][parallel.rank()]
        self.learner.load_state(own["learner"])
        if own["task"] != self.collector.settings:  # a fork goes on in other environments, which have no such state
            self.learner.begin_episodes()
            self.begun_anew = True
            return
        self.collector.load_state(own["collector"])
        if not self.environment.exact:  # all of them have begun a new episode
            self.learner.begin_episodes()

    def result(self, finished: bool) -> dict[str, Any]:
        """The run's headline figures, as result.json has them."""
        return {
            "verb": "train",
            "seed": self.seed,
            "steps": self.step,
            "minutes": round(self.seconds / 60, 3),
            "finished": finished,
            "env": self.environment.name,
            "steps_per_second": round(self.step / self.seconds, 1) if self.seconds else 0.0,
            "eval": self.measured,
            "broken": self.broken,
        }

    def end(self) -> None:
        """Lets the other processes go; not where this one has failed: they may be waiting for something else."""
        if parallel.rank() == 0:
            parallel.tell("end")

    def close(self) -> None:
        if self._exam is not None:
            self._exam.close()
            self._exam = None

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._times[phase] = self._times.get(phase, 0.0) + time.perf_counter() - began


def load_policy(policy: Policy, state: Mapping[str, Any], task: Mapping[str, Any]) -> None:
    """Takes over the weights of a checkpoint, if they are for this task."""
    if (made := state["task"]) != task:
        raise UserError(
            f"the checkpoint is of {made['environment']} with observations {made['sizes']}, not of "
            f"{task['environment']} with {task['sizes']}: leave out the env.KEY=VALUE that changes them, or start a "
            "new run"
        )
    try:
        policy.load_state_dict(state["policy"])
    except RuntimeError as error:
        reason = " ".join(str(error).split()).partition(":")[2].strip()
        raise UserError(f"the checkpoint's weights do not fit: keep policy as it was ({reason})") from error
