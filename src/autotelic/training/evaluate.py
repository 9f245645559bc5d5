"""How well a policy does when it acts without chance, over whole episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from autotelic.errors import UserError
from autotelic.physics.base import Environment
from autotelic.policies.base import Policy

Evaluation = dict[str, float]
LONGEST = 100_000  # steps of an episode, where a task does not bound them


def as_tensors(obs: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Observations for a policy: the same memory, not a copy."""
    return {name: torch.from_numpy(values) for name, values in obs.items()}


def evaluate(
    environment: Environment,
    policy: Policy,
    episodes: int,
    seed: int,
    progress: Callable[[int], object] | None = None,
) -> Evaluation:
    """Means over episodes: return, length, success where the task knows it, and what else the task says of an episode.

    Every environment plays equally many. Counting the first to end, from all that run, would favour short ones.
    """
    turns = -(-episodes // environment.count)
    left = np.full(environment.count, turns)
    left[: turns * environment.count - episodes] -= 1
    longest = environment.limit or LONGEST
    totals, lengths = np.zeros(environment.count), np.zeros(environment.count, np.int64)
    found: dict[str, list[np.ndarray]] = {"return": [], "length": []}
    obs = as_tensors(environment.reset(seed))
    done = 0
    while done < episodes:
        step = environment.step(policy.act(obs).numpy())
        totals += step.reward
        lengths += 1
        if lengths.max() > longest:
            why = "although that is its time limit" if environment.limit else "and it has no time limit"
            raise UserError(
                f"an episode of {environment.name} is longer than {longest} steps, {why}: it cannot be measured; cut "
                "episodes with env.options.max_episode_steps=N, or train with evaluate=false"
            )
        if len(step.ended):
            counted = left[step.ended] > 0
            ids = step.ended[counted]
            found["return"].append(totals[ids])
            found["length"].append(lengths[ids])
            for name, values in step.episodes.items():
                found.setdefault(name, []).append(values[counted])
            left[ids] -= 1
            done += len(ids)
            totals[step.ended], lengths[step.ended] = 0.0, 0
            if progress is not None:
                progress(done)
        obs = as_tensors(step.obs)
    return _means({name: np.concatenate(values) for name, values in found.items()})


def _means(found: dict[str, np.ndarray]) -> dict[str, Any]:
    """`success` is a share of episodes, and is called so."""
    returns, lengths = found["return"], found["length"]
    figures = {
        "episodes": len(returns),
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "length_mean": float(lengths.mean()),
    }
    said = means({name: values for name, values in found.items() if name not in ("return", "length")}, len(returns))
    return figures | {"success_rate" if name == "success" else name: value for name, value in said.items()}


def means(found: dict[str, np.ndarray], episodes: int) -> dict[str, float]:
    """Of what was said of so many episodes. What none could say (NaN) is left out, but silence about success counts as
    failure."""
    figures = {name: float(np.nanmean(values)) for name, values in found.items() if not np.isnan(values).all()}
    if "success" in found:
        figures["success"] = float(np.nansum(found["success"])) / episodes
    return figures
