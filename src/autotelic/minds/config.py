"""How minds learn: the settings of the learner, in a module of their own so that reading them needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotelic.errors import UserError

ESTIMATORS = ("trr++", "reinforce++", "grpo", "rloo", "dr-grpo", "maxrl", "sil", "ppo")
OPTIMIZERS = ("adamw", "muon")
AGGREGATES = ("default", "token", "sequence", "constant")


@dataclass
class LearnerConfig:
    """How weights change. `estimator` names what a reward is compared with."""

    enabled: bool = True  # False: play on, change nothing
    estimator: str = "trr++"  # trr++, reinforce++, grpo, rloo, dr-grpo, maxrl, sil or ppo
    aggregate: str = "default"  # how tokens become a loss: token, sequence or constant; default is the estimator's own
    optimizer: str = "adamw"  # adamw, or muon: faster for small networks trained from nothing
    lr: float = 1e-6  # of matrices under muon
    adam_lr: float = 0.001  # under muon, of all that is no matrix
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    constant: float = 100.0  # tokens that aggregate=constant divides by
    gradients_by_kind: bool = True  # also show the gradient's norm by role and kind; keeps one more copy of it
    grad_clip: float = 1.0  # norm of the gradient of one update; 0 switches it off
    minibatch: int = 128  # samples an update
    epochs: int = 1  # passes over a step's samples
    clip_low: float = 0.2  # the ratio stays above 1 - clip_low where that would lower the loss
    clip_high: float = 0.2  # and below 1 + clip_high
    kl: float = 0.0  # weight of the divergence from the base weights
    entropy: float = 0.001  # weight of the entropy bonus
    entropy_floor: float = 0.0  # nats a token; below it entropy is pushed up by entropy_push
    entropy_push: float = 0.1
    rescore: bool = True  # old log-probabilities from the scorer, not the sampler, where an update is not the first
    importance_cap: float = 2.0  # on the correction for a sampler that differs from the scorer; 0 switches it off
    replay: int = 0  # updates a step on texts, old and new, that went well: right answers, proposals above the mean
    replay_size: int = 288  # texts such an update sees
    replay_proposals: float = 0.25  # share of proposals among them
    replay_weights: dict[str, float] = field(default_factory=dict)  # of kinds named, among what is recalled; others: 1
    rehearsal: float = 0.0  # random texts beside them, as a share of replay_size: what was learned is not all it tries
    anchor: float = 0.0  # if not 0: proposals are remembered about as often as base * exp(pay / anchor) writes them
    memory: int = 4096  # such texts remembered for each role, kind and sort of task; the oldest are forgotten
    average: float = 0.0  # weights are averaged over updates, each old one kept at this share, and evaluated so; 0: not
    gamma: float = 1.0  # ppo: discount a token
    gae_lambda: float = 1.0  # ppo
    value_lr: float = 1e-4  # ppo: of the value head
    value_clip: float = 0.0  # ppo: how far a value may move in one step's updates; 0 switches it off

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise UserError(f"estimator is {self.estimator!r}; known are {', '.join(ESTIMATORS)}")
        if self.aggregate not in AGGREGATES:
            raise UserError(f"aggregate is {self.aggregate!r}; known are {', '.join(AGGREGATES)}")
        if self.optimizer not in OPTIMIZERS:
            raise UserError(f"optimizer is {self.optimizer!r}; known are {', '.join(OPTIMIZERS)}")
        for name, least in {"minibatch": 1, "epochs": 1, "replay": 0, "replay_size": 1, "memory": 1}.items():
            if getattr(self, name) < least:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if not self.constant > 0:
            raise UserError(f"constant is {self.constant}; it must be above 0")
        rates = ("lr", "adam_lr", "value_lr", "weight_decay", "grad_clip", "clip_low", "clip_high", "value_clip")
        for name in (*rates, "kl", "entropy", "entropy_floor", "entropy_push", "importance_cap", "anchor", "rehearsal"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise UserError(f"betas is {tuple(self.betas)}; it must be two numbers, each 0 or more and below 1")
        self.betas = (self.betas[0], self.betas[1])  # a list, where it was read from a file
        for kind, weight in self.replay_weights.items():
            if not weight > 0:
                raise UserError(f"replay_weights.{kind} is {weight}; it must be above 0")
        if not 0 <= self.average < 1:
            raise UserError(f"average is {self.average}; it must be 0 or more and below 1")
        for name in ("gamma", "gae_lambda", "replay_proposals"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} is {getattr(self, name)}; it must be 0 to 1")
