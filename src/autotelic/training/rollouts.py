"""What was seen, done and earned over a number of steps of all environments, kept for one update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autotelic.errors import UserError
from autotelic.learning.gae import gae
from autotelic.physics.base import Observation, Step
from autotelic.policies.base import Observations, Trace


class Rollout:
    """Tensors are [length, count, …]: time, then environment. Made once and filled again in every iteration.

    `add` a step at a time from t = 0, then `close`. Where an episode was cut, the next row is already of another one:
    its last observation is kept apart, so that the value of what was cut off can be asked for (`tail`).
    """

    def __init__(self, length: int, count: int, sizes: dict[str, int]) -> None:
        self.length, self.count = length, count
        self.obs: Observations = {name: torch.zeros(length, count, size) for name, size in sizes.items()}
        self.trace: Trace = {}  # a policy's first decision says what is in it
        self.reward = torch.zeros(length, count)
        self.terminated = torch.zeros(length, count, dtype=torch.bool)
        self.ended = torch.zeros(length, count, dtype=torch.bool)  # terminated or cut
        self._last: Observations = {}
        self._cut: list[tuple[int, np.ndarray, Observation]] = []  # step, environments, final observations
        # One row a step, made once: indexing a tensor costs as much as copying a row.
        self._obs = {name: values.unbind() for name, values in self.obs.items()}
        self._trace: dict[str, tuple[Tensor, ...]] = {}
        self._reward, self._terminated, self._ended = self.reward.numpy(), self.terminated.numpy(), self.ended.numpy()

    def add(self, t: int, obs: Observations, trace: Trace, step: Step) -> None:
        """What was seen at step t, what was decided, and what followed."""
        if t == 0:
            self._cut.clear()
        if not self.trace:
            self._allocate(trace)
        for name, rows in self._obs.items():
            rows[t].copy_(obs[name])
        for name, rows in self._trace.items():
            rows[t].copy_(trace[name])
        self._reward[t] = step.reward
        self._terminated[t] = step.terminated
        self._ended[t] = step.terminated
        if len(step.ended):
            self._ended[t, step.ended] = True
            cut = step.truncated[step.ended]
            if cut.any():  # nothing follows what terminated: nobody asks for the value of its end
                finals = {name: values[cut] for name, values in step.final_obs.items()}
                self._cut.append((t, step.ended[cut], finals))

    def _allocate(self, trace: Trace) -> None:
        self.trace = {
            name: torch.zeros(self.length, *values.shape, dtype=values.dtype) for name, values in trace.items()
        }
        self._trace = {name: values.unbind() for name, values in self.trace.items()}

    def close(self, obs: Observations) -> None:
        """The observation after the last step."""
        self._last = {name: obs[name].clone() for name in self.obs}

    def packed(self) -> dict[str, Any]:
        """All of it, to be sent to another process."""
        return {
            "obs": {name: values.numpy() for name, values in self.obs.items()},
            "trace": {name: values.numpy() for name, values in self.trace.items()},
            "reward": self._reward,
            "terminated": self._terminated,
            "ended": self._ended,
            "last": {name: values.numpy() for name, values in self._last.items()},
            "cut": self._cut,
        }

    def unpack(self, first: int, packed: Mapping[str, Any]) -> None:
        """Takes what another process collected in the environments from `first` on; call it for all of them, in
        order."""
        reward = packed["reward"]
        rows = slice(first, first + reward.shape[1])
        if first == 0:
            self._cut.clear()
            self._last = {name: torch.zeros(values.shape[1:]) for name, values in self.obs.items()}
        if not self.trace:
            whole = (self.length, self.count)
            self.trace = {
                name: torch.zeros(whole + values.shape[2:], dtype=torch.from_numpy(values).dtype)
                for name, values in packed["trace"].items()
            }
        for mine, sent in ((self.obs, packed["obs"]), (self.trace, packed["trace"])):
            for name, values in sent.items():
                mine[name][:, rows] = torch.from_numpy(values)
        for name, values in packed["last"].items():
            self._last[name][rows] = torch.from_numpy(values)
        self._reward[:, rows], self._terminated[:, rows] = reward, packed["terminated"]
        self._ended[:, rows] = packed["ended"]
        self._cut += [(t, ids + first, finals) for t, ids, finals in packed["cut"]]

    def tail(self) -> Observations:
        """The observations that are in no row but whose values advantages bootstrap from: after the last step [count],
        then the final ones of episodes that were cut, in one batch."""
        return {
            name: torch.cat([self._last[name], *(torch.from_numpy(finals[name]) for _, _, finals in self._cut)])
            for name in self.obs
        }

    def advantages(
        self, values: Tensor, tail_values: Tensor, gamma: float, lam: float, rewards: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Advantages and returns [length, count] from the values of `obs` and of `tail`. Where a rollout or an episode
        is cut they bootstrap from the value of what was seen last, where an episode terminated from nothing. `rewards`
        replace those that were earned, where a learner scales them."""
        following = torch.empty_like(values)
        following[:-1] = values[1:]
        following[-1] = tail_values[: self.count]
        if self._cut:
            steps = np.concatenate([np.full(len(ids), t) for t, ids, _ in self._cut])
            environments = np.concatenate([ids for _, ids, _ in self._cut])
            following[torch.from_numpy(steps), torch.from_numpy(environments)] = tail_values[self.count :]
        rewards = self.reward if rewards is None else rewards
        return gae(rewards, values, following, self.terminated, self.ended, gamma, lam)

    def check(self) -> None:
        """Refuses what nothing can be learned from: a reward or an observation that is not finite."""
        _check(self.reward, "reward")
        for name, values in self.obs.items():
            _check(values, f"observation ({name})")
            _check(self._last[name][None], f"last observation ({name})", self.length)
        for t, ids, finals in self._cut:
            for name, values in finals.items():
                if not np.isfinite(values).all():
                    row = int(np.argwhere(~np.isfinite(values))[0][0])
                    raise _broken(f"final observation ({name})", t, int(ids[row]))


def _check(values: Tensor, what: str, first: int = 0) -> None:
    # The sum is quick, and not finite if anything in it is not; if it overflowed, the search finds nothing.
    if not torch.isfinite(values.sum()) and len(places := torch.argwhere(~torch.isfinite(values))):
        t, environment, *_ = places[0].tolist()
        raise _broken(what, first + t, environment)


def _broken(what: str, t: int, environment: int) -> UserError:
    return UserError(
        f"{what} is not finite: environment {environment} at step {t} of the rollout; "
        "the environment must not give nan or inf"
    )
