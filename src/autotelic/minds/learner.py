"""Changes a mind's weights from what its generations earned: one step's samples, a few updates.

An update is the clipped surrogate of PPO on advantages of the estimator that is configured (autotelic/learning), with
entropy, and the divergence from the base weights if wanted. The first update of a step sees the weights that wrote the
samples, so its old log-probabilities are the scorer's own and every ratio is exactly 1.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from autotelic.errors import UserError
from autotelic.learning import losses
from autotelic.learning.advantages import ESTIMATORS, Aggregate
from autotelic.learning.gae import token_advantages
from autotelic.learning.muon import Muon
from autotelic.learning.optimizers import AdamW
from autotelic.learning.threads import alone, side_by_side
from autotelic.minds.base import Babble, Generation, Mind
from autotelic.minds.config import LearnerConfig
from autotelic.minds.memory import memory_errors
from autotelic.minds.samples import Batch, Figures, Graded, Tally, table
from autotelic.runs import seeds

_log = logging.getLogger(__name__)

OFTEN = 2  # times that an update sees one remembered text, at most, on average
CACHED = 65536  # prompts of which it is kept whether they ask what is withheld

# A loss, and what notes its figures once its gradient is there.
_Loss = tuple[Tensor, Callable[[], None]]


class Learner:
    """`learn` once a step. Its state makes a resumed run learn what the uninterrupted one would have.

    A mind's weights may be anywhere, but its scores come on the CPU, where everything is computed from them. `seed`
    decides how samples are shuffled and which remembered texts are seen again. `babble` is what is rehearsed; `alike`
    are rows of tokens, such as the things of one colour: rows may change places in a remembered text, which stays as
    true, unless the prompt then asks what is `withheld`.
    """

    def __init__(
        self,
        config: LearnerConfig,
        mind: Mind,
        seed: int = 0,
        *,
        babble: Babble | None = None,
        alike: Sequence[Sequence[str]] = (),
        withheld: Callable[[str], bool] = lambda prompt: False,
    ) -> None:
        self.config, self.mind, self.seed, self.babble = config, mind, seed, babble
        self.alike = np.array([np.concatenate([mind.encode(token) for token in row]) for row in alike])
        self._withheld = lru_cache(CACHED)(lambda said: withheld(mind.prompt_text(np.frombuffer(said, np.int32))))
        self.steps = 0
        self.levels: dict[str, float] = {}  # entropy by baseline, as it was in the last step
        self.memory: dict[str, list[Generation]] = {}  # by shelf (see `Graded`), the oldest first
        self.roles: set[str] = set()  # that anything was ever learned from in
        with memory_errors("copying the weights to average them", "learner.average to 0"):
            self.averages = [weight.detach().clone() for weight in mind.parameters()] if config.average else []
        self.values = nn.Linear(mind.width, 1) if config.estimator == "ppo" else None
        if self.values is not None:
            nn.init.zeros_(self.values.weight)
            nn.init.zeros_(self.values.bias)
        self.optimizers = self._optimizers()
        estimator = ESTIMATORS.get(config.estimator)
        chosen = config.aggregate if config.aggregate != "default" else (estimator.aggregate if estimator else "token")
        self.aggregate = cast(Aggregate, chosen)

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        config, weights = self.config, self.mind.parameters()
        adam = {"betas": config.betas, "weight_decay": config.weight_decay}
        found: list[torch.optim.Optimizer] = []
        if config.optimizer == "muon":
            matrices, others = self.mind.matrices()
            found.append(Muon(matrices, config.lr, weight_decay=config.weight_decay))
            found.append(AdamW(others, config.adam_lr, **adam))
        else:
            found.append(AdamW(weights, config.lr, **adam))
        if self.values is not None:
            found.append(AdamW(self.values.parameters(), config.value_lr, betas=config.betas))
        return found

    # One step

    def learn(self, graded: Sequence[Graded]) -> Figures:
        """Changes the weights; returns figures, by role and kind where that makes sense."""
        with memory_errors("learning", "micro_batch", "max_tokens", of=self.mind.config):
            return self._learn(graded)

    def _learn(self, graded: Sequence[Graded]) -> Figures:
        batch = Batch([each for each in graded if not each.hindsight])
        hindsight = [each for each in graded if each.hindsight and len(each.generation.tokens)]
        if not (len(batch) or hindsight) or not self.config.enabled:
            return {}
        if hindsight and not self.config.replay:
            raise ValueError("what is right in hindsight is learned by replay alone, and replay is 0")
        self.roles |= {each.baseline.partition("/")[0] for each in graded}
        figures = batch.figures()
        self._look_before(batch)
        self._compare(batch)
        # Where advantages are all that counts, those of equal texts are added up, and what has none is left out.
        folded = self.values is None and not (self.config.kl or self.config.entropy or self.config.entropy_floor)
        if folded:
            batch.fold()
        tally = Tally()
        rng = seeds.generator(self.seed, "learn", self.steps)
        first = True
        for _ in range(self.config.epochs):
            for part in batch.minibatches(self.config.minibatch, rng):
                first = not self._update(batch, part, tally, first) and first
        figures |= self._remember(batch, hindsight, rng)
        self._replay(rng, tally)
        self.steps += 1
        if not folded:
            self.levels |= tally.entropies()
            figures |= {f"{name}/entropy": entropy for name, entropy in sorted(tally.entropies().items())}
        return figures | tally.figures()

    def _look_before(self, batch: Batch) -> None:
        """What has to be known of the weights before they change: old log-probabilities, the base's, and values."""
        several = self.config.epochs > 1 or self.config.minibatch < len(batch)
        rescore = self.values is not None or (self.config.rescore and several)
        if not rescore and not self.config.kl:
            return
        with torch.no_grad():
            for piece in self.mind.pieces(batch.generations):
                said = [batch.generations[at] for at in piece]
                if rescore:
                    scores = self.mind.score(said)
                    batch.enter(batch.old, piece, scores.log_probs)
                    if self.values is not None:
                        batch.enter(batch.values, piece, self.values(scores.hidden)[..., 0])
                if self.config.kl:
                    batch.enter(batch.base, piece, self.mind.base_log_probs(said))

    def _compare(self, batch: Batch) -> None:
        """Advantages, one a token: for the estimators that compare whole answers, the same for all of an answer's."""
        if not len(batch):
            return
        if self.values is None:
            whole = ESTIMATORS[self.config.estimator].advantages(batch.rewards, batch.baselines, batch.groups)
            batch.enter(batch.advantages, range(len(batch)), whole[:, None].expand(-1, max(batch.lengths)))
            return
        known = table([batch.values[at] for at in range(len(batch))])
        mask = torch.arange(known.shape[1]) < torch.tensor(batch.lengths)[:, None]
        found, returns = token_advantages(batch.rewards, known, mask, self.config.gamma, self.config.gae_lambda)
        if bool((batch.rewards != batch.rewards[0]).any()):
            found = (found - found[mask].mean()) / (found[mask].std() + 1e-8)
        else:
            found = torch.zeros_like(found)  # all that is left to compare are the critic's own errors
        batch.enter(batch.advantages, range(len(batch)), found)
        batch.enter(batch.returns, range(len(batch)), returns)

    def _update(self, batch: Batch, part: Sequence[int], tally: Tally, first: bool) -> bool:
        """One minibatch: gradients piece by piece, then one move. Says whether there was anything to learn."""
        total = sum(batch.lengths[at] for at in part) if self.aggregate == "token" else len(part)
        part = [at for at in part if at in batch.teaching]
        if not part:
            return False
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        weights = [*self.mind.parameters(), *(self.values.parameters() if self.values is not None else ())]
        kept: list[Tensor] | None = None
        loss = 0.0
        # The first update goes baseline by baseline, to see which of them pulls how hard.
        shares = batch.by_baseline(part) if first and self.config.gradients_by_kind else {"": list(part)}
        for name, members in shares.items():
            pieces = [
                [members[at] for at in piece] for piece in self.mind.pieces([batch.generations[at] for at in members])
            ]
            loss += self._descend(weights, pieces, lambda piece: self._loss(batch, piece, total, tally, first))
            if name:
                tally.gradients[name] = _norm(weight.grad for weight in weights)
                kept = _taken(weights, kept)
        if kept is not None:
            for weight, gradient in zip(weights, kept, strict=True):
                weight.grad = gradient
        tally.updates.append((loss, self._move(weights, loss)))
        return True

    def _descend(
        self, weights: Sequence[nn.Parameter], pieces: Sequence[list[int]], loss: Callable[[list[int]], _Loss]
    ) -> float:
        """Adds the gradients of the pieces' losses to those of the weights, in the order of the pieces. Returns the
        loss of the whole, which is the sum of theirs."""

        def gradients(piece: list[int]) -> tuple[Sequence[Tensor | None], Tensor, Callable[[], None]]:
            found, note = loss(piece)
            return torch.autograd.grad(found, weights, allow_unused=True), found.detach(), note

        whole = 0.0
        if not self.mind.small:
            for piece in pieces:
                found, note = loss(piece)
                found.backward()
                whole += float(found.detach())
                note()
            return whole
        for parts, found, note in side_by_side(gradients, pieces):
            for weight, part in zip(weights, parts, strict=True):
                if part is not None:
                    weight.grad = part if weight.grad is None else weight.grad.add_(part)
            whole += float(found)
            note()
        return whole

    def _loss(self, batch: Batch, rows: Sequence[int], total: int, tally: Tally, first: bool) -> _Loss:
        """Of one piece of a minibatch."""
        config, said = self.config, [batch.generations[at] for at in rows]
        scores = self.mind.score(said)
        mask, join = scores.mask, {"aggregate": self.aggregate, "total": total, "constant": config.constant}
        sampler = table([torch.from_numpy(generation.log_probs) for generation in said])
        old = scores.log_probs.detach() if first else table([batch.old[at] for at in rows]) if batch.old else sampler
        cap = config.importance_cap
        weights = losses.importance_weights(old, sampler, mask, cap) if cap else None
        loss, moved = losses.policy_loss(
            scores.log_probs,
            old,
            table([batch.advantages[at] for at in rows]),
            mask,
            clip_low=config.clip_low,
            clip_high=config.clip_high,
            weights=weights,
            **join,
        )
        if config.entropy or config.entropy_floor:
            levels = torch.tensor([self.levels.get(batch.names[at], math.inf) for at in rows])
            floor = {"floor": config.entropy_floor, "push": config.entropy_push, "level": levels}
            bonus, _ = losses.entropy_terms(scores.entropy, mask, weight=config.entropy, **floor, **join)
            loss = loss + bonus
        if config.kl:
            base = table([batch.base[at] for at in rows])
            # It is the divergence of the policy as it is now, which earlier updates have moved from the old one.
            now = losses.importance_weights(scores.log_probs, sampler if cap else old, mask, cap or math.inf)
            loss = loss + config.kl * losses.kl_penalty(scores.log_probs, base, mask, weights=now, **join)[0]
        error = torch.zeros(())
        if self.values is not None:
            guess = self.values(scores.hidden)[..., 0]
            known, wanted = table([batch.values[at] for at in rows]), table([batch.returns[at] for at in rows])
            error, _ = losses.value_loss(guess, known, wanted, mask, config.value_clip, **join)
            loss = loss + error
        return loss, lambda: tally.add(batch, rows, scores, old, moved, float(error.detach()))

    def _remember(self, batch: Batch, hindsight: Sequence[Graded], rng: np.random.Generator) -> Figures:
        """Keeps this step's answers that are right, once each, those that are right in hindsight, and proposals that
        were better than what they were compared with. Of all roles and kinds, and of tasks that are always solved too:
        a network that is reminded of some of its skills only loses the others."""
        if not self.config.replay:
            return {}
        new: dict[str, list[Generation]] = defaultdict(list)
        right: dict[tuple[bytes, bytes], int] = {}
        admitted: list[int] = []
        for at, (name, reward) in enumerate(zip(batch.names, batch.rewards.tolist(), strict=True)):
            if name.startswith("propose/"):
                # One at 0 was at least admitted; while hardly any task is solved, that is all there is to learn from.
                admitted += [at] if reward >= 0 else []
            elif reward > 0:
                said = batch.generations[at]
                right.setdefault((said.prompt.tobytes(), said.tokens.tobytes()), at)
        if self.config.anchor:
            parts = batch.by_baseline(admitted).values()
            proposed = [at for members in parts for at in self._anchored(batch, members, rng)]
        else:
            proposed = [at for at in admitted if at in batch.teaching and float(batch.advantages[at][0]) > 0]
        for at in [*proposed, *right.values()]:
            new[batch.shelves[at]].append(batch.generations[at])
        for each in hindsight:
            new[each.shelf].append(each.generation)
        many: Counter[str] = Counter()
        for shelf, said in new.items():
            self.memory[shelf] = [*self.memory.get(shelf, []), *said][-self.config.memory :]
            many.update({name: len(said) for name in {shelf, _kind(shelf)}})
        late = Counter(each.baseline for each in hindsight)
        figures = {f"{name}/remembered": float(count) for name, count in sorted(many.items())}
        return figures | {f"{name}/remembered_in_hindsight": float(count) for name, count in sorted(late.items())}

    def _anchored(self, batch: Batch, members: Sequence[int], rng: np.random.Generator) -> list[int]:
        """A part of the proposals, each with a chance in proportion to how much oftener base * exp(pay / anchor) would
        have written it; what is at the mean of that or above is always kept. A proposer that
        imitates what it is paid for proposes ever more of the same, and forgets what nobody can solve yet; so it goes
        no further from its base than the pay itself leads."""
        said = [batch.generations[at] for at in members]
        away = np.empty(len(said))  # how much likelier each is there than where it was sampled, in nats
        for piece in self.mind.pieces(said):
            known = self.mind.base_log_probs([said[at] for at in piece]).double().numpy()
            for at, row in zip(piece, known, strict=True):
                generation = said[at]
                away[at] = row[: len(generation.tokens)].sum() - generation.log_probs.sum(dtype=np.float64)
        away += batch.rewards[list(members)].double().numpy() / self.config.anchor
        weights = np.exp(away - away.max())
        keep = rng.random(len(said)) * weights.mean() < weights
        return [at for at, kept in zip(members, keep, strict=True) if kept]

    def _replay(self, rng: np.random.Generator, tally: Tally) -> None:
        """Updates that make remembered texts likelier."""
        if not self.memory or not self.config.replay:
            return
        random: list[Generation] = []
        if self.config.rehearsal and self.babble is not None:
            random = [self.mind.reciting(*pair) for pair in self.babble(rng, self.config.replay_size)]
        for _ in range(self.config.replay):
            self._imitate(
                [*self._recalled(rng), *_drawn(random, self.config.rehearsal * self.config.replay_size, rng)], tally
            )

    def _imitate(self, said: Sequence[Generation], tally: Tally) -> None:
        """One update that makes texts likelier."""
        total = sum(len(generation.tokens) for generation in said) if self.aggregate == "token" else len(said)
        join = {"aggregate": self.aggregate, "total": total, "constant": self.config.constant}
        weights = self.mind.parameters()
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

        def loss(piece: list[int]) -> _Loss:
            scores = self.mind.score([said[at] for at in piece])
            return losses.aggregate_terms(-scores.log_probs, scores.mask, **join), lambda: None

        whole = self._descend(weights, list(self.mind.pieces(said)), loss)
        tally.replays.append((whole, self._move(weights, whole)))

    def _recalled(self, rng: np.random.Generator) -> list[Generation]:
        """As many texts of each kind, but for `replay_weights`, and within it of each sort of task, of both roles
        apart: answers need more practice than proposals do."""
        said: list[Generation] = []
        for proposals in (True, False):
            shelves = [shelf for shelf in sorted(self.memory) if shelf.startswith("propose/") is proposals]
            kinds = Counter(map(_kind, shelves))
            weights = {kind: self.config.replay_weights.get(kind.partition("/")[2], 1.0) for kind in kinds}
            share = self.config.replay_proposals if proposals else 1 - self.config.replay_proposals
            if len(self.roles) == 1:
                share = 1.0
            for shelf in shelves:
                kind = _kind(shelf)
                many = share * self.config.replay_size * weights[kind] / sum(weights.values()) / kinds[kind]
                known = self.memory[shelf]
                said += [self._varied(one, rng) for one in _drawn(known, min(many, OFTEN * len(known)), rng)]
        return said

    def _varied(self, generation: Generation, rng: np.random.Generator) -> Generation:
        """The same text with rows of tokens that are alike in other places."""
        if not len(self.alike):
            return generation
        tokens = np.arange(
            max(int(part.max(initial=0)) for part in (self.alike, generation.prompt, generation.tokens)) + 1
        )
        tokens[self.alike] = self.alike[rng.permutation(len(self.alike))]
        prompt = tokens[generation.prompt].astype(np.int32)
        if self._withheld(prompt.tobytes()):
            return generation
        return Generation("", prompt, tokens[generation.tokens].astype(np.int32))

    def _move(self, weights: Sequence[nn.Parameter], loss: float) -> float:
        """Changes the weights by their gradients. Returns the gradient's norm, as it was before it was clipped."""
        with alone() if self.mind.small else nullcontext():
            return self._moved(weights, loss)

    def _moved(self, weights: Sequence[nn.Parameter], loss: float) -> float:
        bound = self.config.grad_clip or math.inf
        norm = float(nn.utils.clip_grad_norm_(weights, bound))
        if not math.isfinite(norm) or not math.isfinite(loss):
            what = "loss" if not math.isfinite(loss) else "gradient"
            raise UserError(f"the {what} is not finite (nan or inf): lower learner.lr")
        for optimizer in self.optimizers:
            optimizer.step()
        if not all(bool(torch.isfinite(weight).all()) for weight in weights):
            raise UserError("the weights are not finite (nan or inf) after an update: lower learner.lr")
        with torch.no_grad():
            for mean, weight in zip(self.averages, self.mind.parameters(), strict=False):
                mean.lerp_(weight, 1 - self.config.average)
        return norm

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The mind has the averaged weights for a while: steps of a size that learns fast leave the last ones noisy."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        with memory_errors("exchanging weights for their averages", "learner.average to 0"):
            for mean, weight in zip(self.averages, self.mind.parameters(), strict=False):
                kept = weight.clone()
                weight.copy_(mean)
                mean.copy_(kept)

    # Saving

    def state(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "levels": dict(self.levels),
            "values": dict(self.values.state_dict()) if self.values is not None else {},
            "optimizer": self.config.optimizer,
            "optimizers": [optimizer.state_dict()["state"] for optimizer in self.optimizers],
            "averages": list(self.averages),
            "memory": {name: _packed(known) for name, known in self.memory.items()},
            "roles": sorted(self.roles),
        }

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave; the mind must have its weights by then.

        A fork may have other settings. What they have no use for is left out, and what the state lacks starts as in a
        new run: averages at the weights, values at 0, another optimizer with no memory of gradients, which is logged.
        """
        self.steps, self.levels = state["steps"], dict(state["levels"])
        self.roles = set(state["roles"])
        self.memory = {name: _unpacked(packed)[-self.config.memory :] for name, packed in state["memory"].items()}
        if self.averages:
            for mean, saved in zip(self.averages, state["averages"] or self.mind.parameters(), strict=True):
                mean.copy_(saved)
        optimizers, states = list(self.optimizers), list(state["optimizers"])
        of_values = states.pop() if state["values"] else None
        if self.values is not None:
            optimizer = optimizers.pop()
            if of_values is not None:
                self.values.load_state_dict(dict(state["values"]))
                _restore(optimizer, of_values)
        before = state.get("optimizer", self.config.optimizer)
        if before != self.config.optimizer:
            changed = "learner.optimizer was %s and is %s: it starts with no memory of gradients"
            _log.warning(changed, before, self.config.optimizer)
            return
        for optimizer, saved in zip(optimizers, states, strict=True):
            _restore(optimizer, saved)


def _restore(optimizer: torch.optim.Optimizer, saved: Mapping[Any, Any]) -> None:
    """What an optimiser remembers, not its settings: those are as configured."""
    optimizer.load_state_dict({"state": dict(saved), "param_groups": optimizer.state_dict()["param_groups"]})


def _packed(known: Sequence[Generation]) -> dict[str, Any]:
    """Generations as plain tensors; what they were sampled with is not needed any more."""
    rows = [(generation.prompt, generation.tokens) for generation in known]
    return {
        "lengths": torch.tensor([[len(prompt), len(tokens)] for prompt, tokens in rows], dtype=torch.int32),
        "tokens": torch.from_numpy(np.concatenate([part for row in rows for part in row])),
    }


def _unpacked(packed: Mapping[str, Any]) -> list[Generation]:
    lengths = packed["lengths"].flatten().tolist()
    parts = [part.numpy() for part in packed["tokens"].split(lengths)]
    return [Generation("", prompt, tokens) for prompt, tokens in zip(parts[::2], parts[1::2], strict=True)]


def _kind(shelf: str) -> str:
    """The role and kind of a shelf of the memory."""
    return "/".join(shelf.split("/")[:2])


def _drawn(known: Sequence[Generation], many: float, rng: np.random.Generator) -> list[Generation]:
    return [known[int(at * len(known))] for at in rng.random(math.ceil(many) if known else 0)]


def _norm(gradients: Iterable[Tensor | None]) -> float:
    return math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients if gradient is not None))


def _taken(weights: Sequence[nn.Parameter], kept: list[Tensor] | None) -> list[Tensor]:
    """Takes the gradients out of the weights and adds them to those kept."""
    found = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
    for weight in weights:
        weight.grad = None
    return found if kept is None else [one.add_(other) for one, other in zip(kept, found, strict=True)]
