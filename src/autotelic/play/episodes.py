"""Self-play one episode at a time: a task is proposed, attempted once, judged, and told."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from autotelic.errors import UserError
from autotelic.play.loop import Loop
from autotelic.worlds.base import Task, Verdict

PATIENCE = 100  # steps in a row without an attempt

_CLAIMS = {None: "claims nothing", True: "claims success", False: "claims failure"}
_UNITS = {
    "time": "{:.2f} s",
    "path_efficiency": "path efficiency {:.2f}",
    "energy": "{:.1f} J",
    "calls": "{:.0f} calls",
}


@dataclass(frozen=True)
class Episode:
    """One attempt at a task, and what came of it."""

    task: Task
    row: str  # what it is counted under: of the arm's control tasks, the family
    description: str  # the task in words
    difficulty: str  # that was asked of the proposer; empty if none was
    answer: str  # what the solver wrote: of a control task, with the controller
    claim: bool | None  # what the answer said of its own success, which decides nothing
    verdict: Verdict

    @property
    def solved(self) -> bool:
        return self.verdict.solved

    @property
    def metrics(self) -> dict[str, float]:
        """What was measured: of the arm, time to completion, path efficiency, energy and more."""
        return dict(self.verdict.metrics)

    def __str__(self) -> str:
        named = f"{self.row} ({self.difficulty})" if self.difficulty else self.row
        judged = "solved" if self.solved else f"not solved: {self.verdict.outcome}"
        measured = [text.format(self.metrics[name]) for name, text in _UNITS.items() if name in self.metrics]
        return ", ".join([f"{named}: {self.description} {judged}", _CLAIMS[self.claim], *measured])


def attempted(loop: Loop) -> list[Episode]:
    """The episodes of the loop's last step."""
    by_id = {task.id: task for task in loop.attempted.tasks}
    difficulty = loop.config.difficulty
    found = []
    for sample, verdict in zip(loop.attempted.samples, loop.attempted.verdicts, strict=True):
        task = by_id[sample.task or ""]
        claimed = verdict.metrics.get("claimed")
        found.append(
            Episode(
                task,
                loop.world.row_of(task),
                " ".join(loop.world.readable(task)[0][1].split()),
                "" if difficulty is None else str(difficulty),
                sample.text,
                sample.claim if claimed is None else bool(claimed),
                verdict,
            )
        )
    return found


class Episodes:
    """A loop by its episodes. Each is archived as in every run."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._waiting: deque[Episode] = deque()

    def run_episode(self) -> Episode:
        """The next one."""
        for _ in range(PATIENCE):
            if self._waiting:
                return self._waiting.popleft()
            self.loop.run_step()
            self._waiting.extend(attempted(self.loop))
        raise UserError(f"{PATIENCE} steps in a row had no task to attempt: the proposer's are all refused")

    def run(self, episodes: int) -> list[Episode]:
        """Some more, then a checkpoint."""
        found = [self.run_episode() for _ in range(episodes)]
        self.loop.save_checkpoint()
        return found
