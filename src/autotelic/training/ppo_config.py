"""The settings of PPO."""

from __future__ import annotations

from dataclasses import dataclass

from autotelic.errors import UserError
from autotelic.registry import nearest

_CHOICES = {
    "schedule": ["constant", "linear", "adaptive"],
    "adapt": ["update", "minibatch"],
    "normalise_advantages": ["rollout", "minibatch", "off"],
    "symmetry": ["off", "augment", "loss"],
    "precision": ["float32", "bf16", "fp16"],
}


@dataclass(frozen=True)
class PPOConfig:
    """How weights change. An update learns from `steps` steps of every environment."""

    steps: int = 32  # steps of each environment that are collected for an update
    epochs: int = 5  # passes over them
    minibatches: int = 4  # parts of a pass, each a step of the optimiser; must divide steps x environments
    lr: float = 3e-4  # learning rate at the beginning
    schedule: str = "adaptive"  # constant, linear (to 0 at the end of the run) or adaptive (keeps KL near target_kl)
    adapt: str = "update"  # when adaptive acts: after an update, or at every minibatch, where it swings
    target_kl: float = 0.015  # how far an update should move the policy
    early_stop: bool = False  # no further pass once the KL of one, averaged, is above target_kl
    clip: float = 0.2  # the ratio stays above 1 - clip and below 1 + clip where leaving would lower the loss
    clip_high: float = 0.0  # if not 0: below 1 + clip_high instead
    value_clip: float = 0.0  # how far a value may move in an update; 0: as far as it likes
    value_weight: float = 1.0  # of half the squared error of values
    entropy: float = 0.0  # weight of the entropy bonus
    gamma: float = 0.99  # discount a step
    lam: float = 0.95  # of generalised advantage estimation
    # Over the rollout: one scale for all its minibatches, so that a small one of mostly bad steps stays a bad one.
    normalise_advantages: str = "rollout"  # to mean 0 and deviation 1 over the rollout, over each minibatch, or off
    reward_scaling: bool = True  # rewards are divided by the running deviation of the discounted return
    reward_clip: float = 10.0  # and then cut here, above and below; 0: not
    max_grad_norm: float = 0.5  # of all gradients together; 0: not bounded
    adam_eps: float = 1e-5
    symmetry: str = "off"  # off, augment (learn from mirrored steps too) or loss (do in the mirror what is mirrored)
    mirror_weight: float = 1.0  # of symmetry=loss
    precision: str = "float32"  # of the networks in an update: float32, bf16 or fp16
    # torch.compile for the loss: slow to begin, fast afterwards. What it is compared with is not compiled: an update's
    # first ratios are 1 up to rounding only.
    compile: bool = False
    deterministic: bool = False  # only deterministic algorithms, where torch has others
    frozen: tuple[str, ...] = ()  # weights that must not change: what their names begin with

    def __post_init__(self) -> None:
        object.__setattr__(self, "frozen", tuple(self.frozen))  # a list, where it was read from a file
        for name, known in _CHOICES.items():
            if (given := getattr(self, name)) not in known:
                raise UserError(f"learner.{name}={given}: {nearest(given, known)}")
        for name in ("steps", "epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise UserError(f"learner.{name}={getattr(self, name)}: must be at least 1")
        for name in ("lr", "target_kl", "clip", "adam_eps"):
            if not getattr(self, name) > 0:
                raise UserError(f"learner.{name}={getattr(self, name)}: must be above 0")
        weights = ("value_weight", "entropy", "mirror_weight")
        for name in (*weights, "clip_high", "value_clip", "reward_clip", "max_grad_norm"):
            if not getattr(self, name) >= 0:
                raise UserError(f"learner.{name}={getattr(self, name)}: must be 0 or more")
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"learner.{name}={getattr(self, name)}: must be 0 to 1")
        within = self.adapt == "minibatch" and self.minibatches > 1  # how far one went is seen in the next
        if self.epochs == 1 and ((self.schedule == "adaptive" and not within) or self.early_stop):
            asked = "early_stop" if self.early_stop else "schedule=adaptive"
            raise UserError(f"learner.{asked} needs epochs=2 or more: how far one pass moved is seen in the next")

    def minibatch(self, count: int, steps: int | None = None) -> int:
        """The decisions of a minibatch, with so many environments."""
        steps = self.steps if steps is None else steps
        size, parts = steps * count, self.minibatches
        if size % parts:
            fitting = [number for number in range(1, size + 1) if size % number == 0]
            below = max(number for number in fitting if number < parts)
            above = min((number for number in fitting if number > parts), default=below)
            near = f"{below}" if above == below else f"{below} or {above}"
            raise UserError(
                f"learner.minibatches={parts} does not divide the {size} steps of an update "
                f"({steps} steps x {count} environments): set it to {near}"
            )
        return size // parts
