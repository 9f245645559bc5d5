"""Proximal policy optimisation: a rollout in, better weights out.

An update looks at the policy as it was when the rollout was collected (how likely its decisions were, what it expected)
with the same code, in batches of the same shape, as the first pass over them: in its first minibatch the ratio of every
decision that was taken is exactly 1. Mirrored ones (symmetry=augment) are compared with what they mirror. What a policy
says there of an observation must not depend on anything that an update changes, so normaliser statistics move between
updates only, and observations are prepared once for all passes.

A rollout may have been collected by the policy as it was an update earlier. The advantage of a row, normalised, is then
multiplied by how much likelier its decision has become since. Nothing else is weighted: not the returns that values
learn, nor entropy, nor what advantages are computed from; and ratios are to the policy as it is before the update.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from autotelic.errors import UserError
from autotelic.learning import parallel
from autotelic.learning import ppo as rules
from autotelic.learning.moments import RunningMoments
from autotelic.learning.optimizers import Adam
from autotelic.policies.base import Evaluation, Observations, Policy, Trace
from autotelic.registry import nearest
from autotelic.runs import seeds
from autotelic.training.ppo_config import PPOConfig
from autotelic.training.reward_scaling import RewardScaling
from autotelic.training.rollouts import Rollout

Figures = dict[str, float]

HEAVIEST = 2.0  # the most a row counts that the policy has come to like since it was collected
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Batch(NamedTuple):
    """A rollout without time: a row a decision. With symmetry, `obs` and `trace` go on with the mirror image of each
    row, in the same order, and are twice as long as the rest."""

    obs: Observations  # prepared
    trace: Trace
    parameters: dict[str, Tensor]  # of the old distribution
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    returns: Tensor
    weight: Tensor | None  # how much likelier the decision was than for who took it; None: as likely

    def select(self, rows: Tensor) -> Batch:
        size = len(self.log_prob)
        both = rows if len(next(iter(self.obs.values()))) == size else torch.cat([rows, rows + size])
        return Batch(
            _rows(self.obs, both),
            _rows(self.trace, both),
            _rows(self.parameters, rows),
            self.log_prob.index_select(0, rows),
            self.value.index_select(0, rows),
            self.advantage.index_select(0, rows),
            self.returns.index_select(0, rows),
            None if self.weight is None else self.weight.index_select(0, rows),
        )


class PPO:
    """Changes a policy's weights, one `update` a rollout. Everything is a function of the seed, the weights and the
    rollouts; `state` makes a resumed run do what the uninterrupted one would have done.

    `mirror` is the environment's (see `Environment.mirror`), needed where symmetry is used.
    """

    Config = PPOConfig

    def __init__(
        self,
        config: PPOConfig,
        policy: Policy,
        mirror: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        seed: int = 0,
    ) -> None:
        self.config, self.policy, self.seed = config, policy, seed
        self.updates = 0  # how many there were: decides the shuffles of the next
        self.lr = config.lr
        self.frozen = _frozen(policy, config.frozen)
        self.named = {name: weight for name, weight in policy.named_parameters() if weight.requires_grad}
        if not self.named:
            raise UserError("learner.frozen: nothing is left that could learn")
        self.weights = list(self.named.values())
        self.optimizer = Adam(self.weights, config.lr, eps=config.adam_eps, fused=True)
        self.scaling = RewardScaling(config.gamma, config.reward_clip) if config.reward_scaling else None
        self.scaler = torch.amp.GradScaler("cpu") if config.precision == "fp16" else None
        self.mirror = self._mirror(mirror) if config.symmetry != "off" else {}
        self._loss_of = torch.compile(self._loss, dynamic=False) if config.compile else self._loss

    def _mirror(self, mirror: Mapping[str, tuple[np.ndarray, np.ndarray]] | None) -> dict[str, tuple[Tensor, Tensor]]:
        symmetry = f"learner.symmetry={self.config.symmetry}"
        if mirror is None:
            raise UserError(f"{symmetry}: this environment does not know its mirror image; set learner.symmetry=off")
        if lacking := {"action", *self.policy.sizes} - set(mirror):
            raise UserError(f"{symmetry}: the environment's mirror lacks {', '.join(sorted(lacking))}")
        return {
            name: (
                torch.as_tensor(order, dtype=torch.int64),
                torch.as_tensor(signs, dtype=torch.float32),
            )
            for name, (order, signs) in mirror.items()
        }

    def begin_episodes(self) -> None:
        """Says that all environments are at the start of an episode, though none has ended."""
        if self.scaling is not None:
            self.scaling.running = None

    # One update

    def update(self, rollout: Rollout, progress: float | None = None, actor: Policy | None = None) -> Figures:
        """Learns from a rollout. `progress` is the share of the run that is done, for a schedule; None: unknown.
        `actor` is the policy that collected it; None: the one that learns, as it is."""
        size = self.config.minibatch(rollout.count, rollout.length)
        rollout.check()
        self._begin(progress)
        kept = [weight.clone() for weight in self.frozen.values()]
        with _deterministic(self.config.deterministic):
            first = self._shuffled(0, rollout.length * rollout.count)
            batch, figures = self._batch(rollout, first, size, actor)
            figures |= self._passes(batch, first, size)
        for (name, weight), before in zip(self.frozen.items(), kept, strict=True):
            if not torch.equal(weight, before):
                raise RuntimeError(f"{name} is frozen, and an update has changed it")
        self.updates += 1
        return figures

    def _begin(self, progress: float | None) -> None:
        if self.config.schedule == "linear":
            if progress is None:
                raise UserError("learner.schedule=linear needs to know how long the run is: give steps=N")
            self.lr = rules.annealed(self.config.lr, progress)
        self._set_lr(self.lr)

    def _set_lr(self, lr: float) -> None:
        self.lr = lr
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def _shuffled(self, epoch: int, size: int) -> Tensor:
        order = seeds.generator(self.seed, "shuffle", self.updates, epoch).permutation(size)
        return torch.from_numpy(order)

    # What is known before anything changes

    @torch.no_grad()
    def _batch(self, rollout: Rollout, order: Tensor, size: int, actor: Policy | None = None) -> tuple[Batch, Figures]:
        config, figures = self.config, {}
        raw = {name: values.flatten(0, 1) for name, values in rollout.obs.items()}
        trace = {name: values.flatten(0, 1) for name, values in rollout.trace.items()}
        obs = self.policy.prepare(raw)
        old = self._evaluated(self.policy, obs, trace, order, size)
        weight = None
        if actor is not None and actor is not self.policy:
            taken = self._evaluated(actor, actor.prepare(raw), trace, order, size)
            weight = (old.log_prob - taken.log_prob).exp().clamp(max=HEAVIEST)
        tail = self.policy.prepare(rollout.tail())
        rewards = rollout.reward
        if self.scaling is not None:
            rewards = self.scaling.scaled(rewards, rollout.ended)
            figures["reward_scale"] = self.scaling.scale
        shape = rollout.reward.shape
        advantages, returns = rollout.advantages(
            old.value.view(shape), self._values(tail, size), config.gamma, config.lam, rewards
        )
        advantages, returns = advantages.flatten(), returns.flatten()
        figures["explained_variance"] = float(parallel.mean(rules.explained_variance(old.value, returns)))
        if config.normalise_advantages == "rollout":
            advantages = rules.normalised(advantages)
        if self.mirror:
            image = self.policy.prepare({name: _mirrored(raw[name], *self.mirror[name]) for name in raw})
            obs = {name: torch.cat([values, image[name]]) for name, values in obs.items()}
            turned = self.policy.mirrored(trace, *self.mirror["action"])
            trace = {name: torch.cat([values, turned[name]]) for name, values in trace.items()}
        return Batch(obs, trace, old.parameters, old.log_prob, old.value, advantages, returns, weight), figures

    def _evaluated(self, policy: Policy, obs: Observations, trace: Trace, order: Tensor, size: int) -> Evaluation:
        """All rows, looked at as the first pass will: those of its first minibatch in the same places of a batch of the
        same length, because a product of another shape is rounded in another way."""
        found: list[Evaluation] = []
        length = 2 * size if self.mirror else size  # a minibatch has the mirror images of its rows too
        whole = math.ceil(len(order) / length) * length
        for rows in torch.cat([order, order])[:whole].split(length):
            with self._precision():
                found.append(policy.evaluate(_rows(obs, rows), _rows(trace, rows)))
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        if self.config.entropy and found[0].entropy is None:
            raise UserError("learner.entropy: this policy cannot say how much chance it leaves; set it to 0")
        if self.config.symmetry == "loss" and "mean" not in found[0].parameters:
            raise UserError("learner.symmetry=loss: this policy has no mean to mirror; set it to augment or off")
        return Evaluation(
            torch.cat([each.log_prob for each in found]).index_select(0, back),
            None,
            torch.cat([each.value for each in found]).index_select(0, back),
            {
                name: torch.cat([each.parameters[name] for each in found]).index_select(0, back)
                for name in found[0].parameters
            },
        )

    def _values(self, obs: Observations, size: int) -> Tensor:
        pieces = zip(*(values.split(size) for values in obs.values()), strict=True)
        with self._precision():
            return torch.cat([self.policy.value(dict(zip(obs, piece, strict=True))) for piece in pieces])

    # What changes

    def _passes(self, batch: Batch, order: Tensor, size: int) -> Figures:
        config = self.config
        found: list[Tensor] = []
        kl, epoch = 0.0, 0
        for epoch in range(config.epochs):
            if epoch:
                order = self._shuffled(epoch, len(order))
            parts = enumerate(order.split(size), start=epoch)
            found.append(torch.stack([self._minibatch(batch.select(rows), moved=at > 0) for at, rows in parts]))
            kl = float(parallel.mean(found[-1][:, _KL].mean()))
            if config.early_stop and kl > config.target_kl:
                break
        figures = self._figures(torch.cat(found)) | {"kl": kl, "lr": self.lr, "epochs": float(epoch + 1)}
        if config.schedule == "adaptive" and config.adapt == "update":
            self._adapt(kl)
        return figures

    def _adapt(self, kl: float) -> None:
        if kl == 0.0 and self.frozen:
            return  # what acts is frozen: that it does not move is not for want of speed
        self._set_lr(rules.adapted(self.lr, kl, self.config.target_kl))

    def _minibatch(self, part: Batch, moved: bool = True) -> Tensor:
        """One step of the optimiser; returns figures, in the order of `_NAMES`. Nothing has `moved` yet in an update's
        first."""
        if self.config.normalise_advantages == "minibatch":
            part = part._replace(advantage=rules.normalised(part.advantage))
        if part.weight is not None:
            part = part._replace(advantage=part.advantage * part.weight, weight=None)
        for weight in self.weights:
            weight.grad = None
        with self._precision():
            loss, figures = self._loss_of(part)
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        if moved and self.config.schedule == "adaptive" and self.config.adapt == "minibatch":
            kl = float(parallel.mean(figures[_KL].clone()))
            self._adapt(kl)
        norm = self._step(loss.detach(), figures)
        return torch.cat([figures, norm[None]])

    def _loss(self, part: Batch) -> tuple[Tensor, Tensor]:
        """Of a minibatch, with the figures that are seen on the way."""
        config = self.config
        found = self.policy.evaluate(part.obs, part.trace)
        size = len(part.log_prob)
        # A mirrored decision counts like its original. It was as likely as that one: it is one of the mirrored policy.
        learned = len(found.log_prob) if config.symmetry == "augment" else size
        old_log_prob, old_value, advantage, returns = (
            values.repeat(learned // size) if learned > size else values
            for values in (part.log_prob, part.value, part.advantage, part.returns)
        )
        policy, clipped, ratio = rules.surrogate_loss(
            found.log_prob[:learned], old_log_prob, advantage, config.clip, config.clip_high or config.clip
        )
        value = rules.value_loss(found.value[:learned], old_value, returns, config.value_clip)
        loss = policy + config.value_weight * value
        entropy = -found.log_prob[:size].detach().mean()
        if found.entropy is not None:
            entropy = found.entropy[:learned].mean()
            if config.entropy:
                loss = loss - config.entropy * entropy
        mirror = torch.zeros_like(policy)
        if config.symmetry == "loss":
            mean = found.parameters["mean"]
            mirror = rules.mirror_loss(mean[size:], _mirrored(mean[:size], *self.mirror["action"]))
            loss = loss + config.mirror_weight * mirror
        with torch.no_grad():  # of decisions that were taken; `clipped` and `ratio` are of mirrored ones too
            new = {name: values[:size] for name, values in found.parameters.items()}
            exact = self.policy.kl(part.parameters, new) if new else None
            kl = rules.sampled_kl(found.log_prob[:size], part.log_prob) if exact is None else exact.mean()
            std = new["std"].mean() if "std" in new else torch.zeros_like(kl)
            figures = torch.stack([policy, value, entropy, mirror, kl, clipped, std, ratio])
        return loss, figures

    def _step(self, loss: Tensor, figures: Tensor) -> Tensor:
        """Moves the weights by their gradients; returns the norm those had."""
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        _averaged(gradients)
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        # What torch.nn.utils.clip_grad_norm_ does, in half the time: it sorts the tensors by device first.
        norms = torch._foreach_norm(gradients)  # pyright: ignore[reportPrivateImportUsage]
        norm = torch.linalg.vector_norm(torch.stack(norms))
        if not math.isfinite(float(norm + loss)):
            self._explain(loss, figures)
        if self.config.max_grad_norm:
            scale = (self.config.max_grad_norm / (norm + 1e-6)).clamp_(max=1.0)
            torch._foreach_mul_(gradients, scale)  # pyright: ignore[reportPrivateImportUsage]
        if self.scaler is None:
            self.optimizer.step()
        else:  # which leaves a step out where a scaled gradient overflowed, and scales less from then on
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return norm

    def _explain(self, loss: Tensor, figures: Tensor) -> None:
        """Says what is not finite, before it is in the weights."""
        where = f"update {self.updates}"
        for name, value in zip(_NAMES, figures.tolist(), strict=False):
            if name in ("policy_loss", "value_loss", "entropy", "mirror_loss") and not math.isfinite(value):
                raise UserError(f"{name} is not finite in {where}: lower learner.lr, or look at the rewards")
        if not torch.isfinite(loss):
            raise UserError(f"the loss is not finite in {where}: lower learner.lr, or look at the rewards")
        if self.scaler is not None and self.scaler.get_scale() > 1.0:
            return
        for name, weight in self.named.items():
            if weight.grad is not None and not torch.isfinite(weight.grad).all():
                raise UserError(f"the gradient of {name} is not finite in {where}: lower learner.lr")
        raise UserError(f"the norm of the gradient is not finite in {where}: lower learner.lr")

    def _figures(self, found: Tensor) -> Figures:
        """Means over minibatches [minibatches, figures] and processes; of the ratio the largest."""
        means, ratio = parallel.mean(found.mean(0)).tolist(), float(parallel.largest(found[:, _RATIO].max()))
        figures = dict(zip(_NAMES, means, strict=True)) | {"ratio_max": ratio}
        if self.config.symmetry != "loss":
            del figures["mirror_loss"]
        if not figures["std"]:
            del figures["std"]
        return figures

    def _precision(self) -> AbstractContextManager[Any]:
        dtype = _DTYPES.get(self.config.precision)
        return nullcontext() if dtype is None else torch.autocast("cpu", dtype)

    # Resume

    def state(self) -> dict[str, Any]:
        remembered, names = self.optimizer.state_dict()["state"], list(self.named)
        return {
            "updates": self.updates,
            "lr": self.lr,
            "first_lr": self.config.lr,
            "optimizer": {
                names[at]: {key: value.clone() for key, value in of.items()} for at, of in remembered.items()
            },
            "scaling": self.scaling.state() if self.scaling is not None else None,
            "scaler": self.scaler.state_dict() if self.scaler is not None else None,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave. A fork may have other settings: what they have no use for is left out, and what
        the state lacks starts as in a new run."""
        self.updates = state["updates"]
        adapted = self.config.schedule == "adaptive" and state["first_lr"] == self.config.lr
        self.lr = state["lr"] if adapted else self.config.lr
        groups, remembered = self.optimizer.state_dict()["param_groups"], dict[int, Any]()
        for at, (name, weight) in enumerate(self.named.items()):
            if name in state["optimizer"]:
                remembered[at] = {key: value.clone() for key, value in state["optimizer"][name].items()}
                if remembered[at]["exp_avg"].shape != weight.shape:
                    raise UserError(f"the learner's state is of other weights ({name}): keep policy as it was")
        self.optimizer.load_state_dict({"state": remembered, "param_groups": groups})
        if self.scaling is not None and state["scaling"] is not None:
            self.scaling.load_state(state["scaling"])
        if self.scaler is not None and state["scaler"] is not None:
            self.scaler.load_state_dict(dict(state["scaler"]))


_NAMES = ("policy_loss", "value_loss", "entropy", "mirror_loss", "kl", "clipped", "std", "ratio_max", "grad_norm")
_KL, _RATIO = _NAMES.index("kl"), _NAMES.index("ratio_max")


def _rows(tensors: dict[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
    return {name: values.index_select(0, rows) for name, values in tensors.items()}


def _mirrored(vectors: Tensor, order: Tensor, signs: Tensor) -> Tensor:
    return vectors.index_select(-1, order) * signs


def _averaged(gradients: list[Tensor]) -> None:
    """Over processes, in one message."""
    if parallel.processes() == 1:
        return
    flat = parallel.mean(torch.cat([gradient.flatten() for gradient in gradients]))
    for gradient, part in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def _frozen(policy: Policy, prefixes: tuple[str, ...]) -> dict[str, nn.Parameter]:
    """The weights whose names begin so, which want no gradient from now on; statistics of such names stay too."""
    weights = dict(policy.named_parameters())
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in weights):
            known = sorted({name.rpartition(".")[0] for name in weights})
            raise UserError(f"learner.frozen: no weight begins with '{prefix}': {nearest(prefix, known)}")
    found = {name: weight for name, weight in weights.items() if name.startswith(tuple(prefixes))}
    for weight in found.values():
        weight.requires_grad_(False)
    for name, module in policy.named_modules():
        if isinstance(module, RunningMoments) and f"{name}.".startswith(tuple(prefixes)):
            module.frozen = True
    return found


@contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
    """Only algorithms that give the same bits each time, where torch has others too."""
    if not wanted:  # to set it, even to what it is, loads torch's compiler
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
