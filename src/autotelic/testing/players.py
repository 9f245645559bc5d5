"""What a player must keep to: samples in the order they were asked for, and no chance but the caller's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotelic.play.player import Player, Sample
from autotelic.worlds.base import Request, Task


def check_player(player: Player, requests: Sequence[Request], tasks: Sequence[Task]) -> None:
    """Proposes and attempts twice from equal generators: right counts, right labels, equal samples."""
    proposed = player.propose(requests, np.random.default_rng(3))
    assert [sample.kind for sample in proposed] == [request.kind for request in requests], "one sample a request"
    assert all(sample.role == "propose" and sample.task is None for sample in proposed), "proposals are labelled so"
    attempted = player.attempt(tasks, 3, np.random.default_rng(4))
    assert [sample.task for sample in attempted] == [task.id for task in tasks for _ in range(3)], (
        "n samples a task, task by task, each with its task's id"
    )
    assert all(sample.role == "solve" for sample in attempted), "attempts are labelled so"
    assert [sample.kind for sample in attempted] == [task.kind for task in tasks for _ in range(3)]
    assert _texts(player.propose(requests, np.random.default_rng(3))) == _texts(proposed), "seeded"
    assert _texts(player.attempt(tasks, 3, np.random.default_rng(4))) == _texts(attempted), "seeded"
    player.learn([(sample, 1.0) for sample in (*proposed, *attempted)])
    player.load_state(player.state())


def _texts(samples: Sequence[Sample]) -> list[str]:
    return [sample.text for sample in samples]
