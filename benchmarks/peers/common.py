"""What all measurements share: the sizes of an update, our environments as the peers want them, the clock."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from autotelic import registry
from autotelic.physics.base import Environment

EPOCHS, MINIBATCH, HIDDEN = 5, 512, (256, 256)


def rollout_length(count: int) -> int:
    """Steps an environment and rollout: 2,048 samples, or 16 steps each where there are many."""
    return max(2048 // count, 16)


def environment(task: str, count: int) -> Environment:
    """Ours, by the name of its task."""
    known = task in registry.names("environments")
    name = task if known else "gymnasium"
    config = registry.config_class("environments", name)
    given: dict[str, Any] = {"count": count} if known else {"count": count, "id": task}
    return registry.get("environments", name)(config(**given))


def timed(iterate: Callable[[], int], seconds: float, warm: int = 2) -> None:
    """Prints the rate of `iterate`, which says how many steps it took, after some iterations that are not counted."""
    for _ in range(warm):
        iterate()
    began, steps = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds:
        steps += iterate()
    print(json.dumps({"steps_per_second": round(steps / spent, 1), "steps": steps, "seconds": round(spent, 2)}))
