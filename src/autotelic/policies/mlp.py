"""A policy of two multilayer perceptrons, one that acts and one that values, with the normaliser inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from autotelic.errors import UserError
from autotelic.policies.base import Decision, Evaluation, Observations, Policy, PolicyConfig, Trace
from autotelic.policies.categorical import Categorical
from autotelic.policies.gaussian import Gaussian
from autotelic.policies.networks import ACTIVATIONS, MLP, Layer, Normaliser
from autotelic.registry import nearest

STDS = ["shared", "state"]


@dataclass(frozen=True)
class MLPConfig(PolicyConfig):
    """Networks, and how they begin."""

    hidden: tuple[int, ...] = (256, 256)  # units of the hidden layers
    critic_hidden: tuple[int, ...] | None = None  # those of the critic; None: the same
    activation: str = "tanh"  # tanh, relu, elu or silu
    orthogonal: bool = True  # weights begin orthogonal, the policy's last layer small; False: as nn.Linear's begin
    std: str = "shared"  # the deviation of continuous actions: shared by all states, or a function of the state
    initial_std: float = 1.0
    least_std: float = 0.001  # below which it never falls
    normalise: bool = True  # observations are shifted and scaled by their running mean and deviation
    clip_obs: float = 10.0  # and cut at this many deviations

    def __post_init__(self) -> None:
        for name in ("hidden", "critic_hidden"):
            if (sizes := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(sizes))  # a list, where it was read from a file
                if not all(size >= 1 for size in sizes):
                    raise UserError(f"policy.{name}={list(sizes)}: every layer needs at least 1 unit")
        for name, known in (("activation", list(ACTIVATIONS)), ("std", STDS)):
            if (given := getattr(self, name)) not in known:
                raise UserError(f"policy.{name}={given}: {nearest(given, known)}")
        if not 0 < self.least_std < self.initial_std:
            raise UserError(f"policy.least_std={self.least_std}: must be above 0 and below initial_std")
        if not self.clip_obs > 0:
            raise UserError(f"policy.clip_obs={self.clip_obs}: must be above 0")


class Actor(nn.Module):
    """Observations as the environment gives them to the action without chance: all that is needed to run a policy
    elsewhere, and what is exported."""

    def __init__(self, normaliser: Normaliser | nn.Identity, network: MLP, head: Gaussian | Categorical) -> None:
        super().__init__()
        self.normaliser, self.network, self.head = normaliser, network, head

    def forward(self, obs: Tensor) -> Tensor:
        return self.head.action(self.head.mode(self.head(self.network(self.normaliser(obs)))))


class Critic(nn.Module):
    """What it sees is normalised apart where it sees something else than the actor."""

    def __init__(self, normaliser: Normaliser | nn.Identity | None, network: MLP, head: Layer) -> None:
        super().__init__()
        self.normaliser, self.network, self.head = normaliser, network, head


class MLPPolicy(Policy):
    """Gaussian for a Box, categorical for Discrete, a product of categoricals for MultiDiscrete."""

    Config = MLPConfig

    def __init__(self, config: MLPConfig, sizes: dict[str, int], action_space: spaces.Space[Any]) -> None:
        super().__init__(config, sizes, action_space)
        self.normalises = config.normalise
        shape = (config.activation, config.orthogonal)
        network = MLP(sizes["policy"], config.hidden, *shape)
        self.actor = Actor(self._normaliser("policy"), network, self._head(network.features))
        self._parts = (self.actor.normaliser, self.actor.network, self.actor.head)
        self.seen = "critic" if "critic" in sizes else "policy"  # by the critic
        wide = config.hidden if config.critic_hidden is None else config.critic_hidden
        values = MLP(sizes[self.seen], wide, *shape)
        apart = self._normaliser("critic") if self.seen == "critic" else None
        self.critic = Critic(apart, values, Layer(values.features, 1, 1.0, config.orthogonal))

    def _normaliser(self, name: str) -> Normaliser | nn.Identity:
        return Normaliser(self.sizes[name], self.config.clip_obs) if self.config.normalise else nn.Identity()

    def _head(self, features: int) -> Gaussian | Categorical:
        config, space = self.config, self.action_space
        if isinstance(space, spaces.Box):
            spread: dict[str, Any] = {"std": config.initial_std, "least": config.least_std}
            return Gaussian(features, space, **spread, by_state=config.std == "state", orthogonal=config.orthogonal)
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            return Categorical(features, space, orthogonal=config.orthogonal)
        raise UserError(f"actions of {space} are not supported: Box, Discrete and MultiDiscrete are")

    @torch.no_grad()
    def sample(self, obs: Observations, generator: torch.Generator) -> Decision:
        normaliser, network, head = self._parts
        # The functions, not the modules' calls: see MLP.
        parameters = head.forward(network.forward(normaliser.forward(obs["policy"])))
        chosen = head.sample(parameters, generator)
        return Decision(head.action(chosen), {"action": chosen})

    @torch.no_grad()
    def act(self, obs: Observations) -> Tensor:
        return self.actor(obs["policy"])

    @torch.no_grad()
    def prepare(self, obs: Observations) -> Observations:
        ready = {"policy": self.actor.normaliser(obs["policy"])}
        if self.critic.normaliser is not None:
            ready["critic"] = self.critic.normaliser(obs["critic"])
        return ready

    def evaluate(self, obs: Observations, trace: Trace) -> Evaluation:
        head, features = self.actor.head, self.actor.network(obs["policy"])
        value = self.value(obs)
        # In mixed precision too: a mean that is rounded moves by a good part of a small deviation.
        with torch.autocast(features.device.type, enabled=False):
            parameters = head(features.float())
            log_prob, entropy = head.log_prob(parameters, trace["action"]), head.entropy(parameters)
        return Evaluation(log_prob, entropy, value, head.by_row(parameters))

    def value(self, obs: Observations) -> Tensor:
        features = self.critic.network(obs[self.seen])
        with torch.autocast(features.device.type, enabled=False):
            return self.critic.head(features.float()).squeeze(-1)

    def kl(self, old: dict[str, Tensor], new: dict[str, Tensor]) -> Tensor:
        return self.actor.head.kl(old, new)

    def mirrored(self, trace: Trace, order: Tensor, signs: Tensor) -> Trace:
        if isinstance(self.actor.head, Categorical):
            return super().mirrored(trace, order, signs)
        return {"action": trace["action"].index_select(-1, order) * signs}

    def observe(self, obs: Observations) -> None:
        for name, part in (("policy", self.actor), ("critic", self.critic)):
            if isinstance(part.normaliser, Normaliser):
                part.normaliser.add(obs[name])
