"""The mind `tiny`: a small transformer, a vocabulary given by the world, and nothing known but form.

Its base weights are trained at first use on babble, texts of the right form whose answers are random, and kept in the
user's cache. What is true it can learn only from what a world has run: from rewards and, with hindsight, from answers
that running a proposal or an attempt has shown to be right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from autotelic.errors import UserError
from autotelic.learning.threads import side_by_side
from autotelic.minds.base import Babble, Generation, Mind, MindConfig, Scores
from autotelic.minds.config import LearnerConfig
from autotelic.minds.memory import memory_errors
from autotelic.minds.tiny.base import base_weights
from autotelic.minds.tiny.form import Form
from autotelic.minds.tiny.network import Network, Past
from autotelic.minds.tiny.vocabulary import END, PAD, Vocabulary, padded

LONGEST = 1024  # positions: prompt and answer together
_ROWS = 4096  # answers written at once, by one thread
_AREA = 1 << 17  # pairs of tokens that see each other, scored at once


@dataclass
class TinyConfig(MindConfig):
    max_tokens: int = 112
    width: int = 64
    heads: int = 4
    layers: int = 3  # different blocks
    loops: int = 1  # times that they are run over
    matching: int = 0  # if not 0: heads look for tokens like the one they look from, and so many places behind such
    base_steps: int = 300  # updates of the base weights, 64 texts each
    mask: bool = False  # whether it writes only what keeps the form of the world's texts
    learner: LearnerConfig = field(
        default_factory=lambda: LearnerConfig(
            estimator="sil",
            optimizer="muon",
            lr=0.01,
            adam_lr=0.005,
            value_lr=0.005,
            minibatch=8192,
            entropy=0.0,
            rescore=False,
            replay=20,
            anchor=2.0,
            memory=32768,
            average=0.99,
            gradients_by_kind=False,
        )
    )

    # Much of what is cheap: short answers are guessed until one is right, and few tasks are seen twice.
    beside: ClassVar[Mapping[str, Any]] = {
        "loop": {
            "batch": 384,
            "attempts": 4,
            "proposals": 224,
            "references": 0,
            "seeding": 1,
            "practice": "recent",
            "hindsight": True,
            "attempts_at": {"deduction": 16},
        }
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("width", "heads", "layers", "loops"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least 1")
        most = max(0, self.heads - 2)  # a head for the token itself, and one that stays free
        if not 0 <= self.matching <= most:
            raise UserError(f"matching is {self.matching}; with {self.heads} heads it must be 0 to {most}")
        if self.width % (2 * self.heads):
            raise UserError(f"width is {self.width}; it must be a multiple of 2 x heads = {2 * self.heads}")
        if not self.max_tokens < LONGEST:
            raise UserError(f"max_tokens is {self.max_tokens}; it must be below {LONGEST}")


def _by_prompt(generations: Sequence[Generation]) -> list[list[int]]:
    """Positions of the generations that are read together: those that answer the same prompt, where reading it once
    saves half of their tokens, and every other by itself."""
    rows: dict[bytes, list[int]] = {}
    for position, generation in enumerate(generations):
        rows.setdefault(generation.prompt.tobytes(), []).append(position)
    found: list[list[int]] = []
    for positions in rows.values():
        prompt = len(generations[positions[0]].prompt)
        whole = sum(prompt + len(generations[position].tokens) for position in positions)
        shared = 2 * (len(positions) - 1) * prompt >= whole
        found += [positions] if shared else [[position] for position in positions]
    return found


def _chosen(logits: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor]:
    """Tokens and their log-probabilities: the likeliest, or one for each uniform number."""
    log_probs = logits.log_softmax(-1)
    if chance is None:
        likelihood, chosen = log_probs.max(-1)
        return chosen, likelihood
    # A number is turned into a token by the cumulated probabilities. Not by 0: a token without any may be the first.
    heaps = log_probs.exp().cumsum(-1)
    reached = (chance * heaps[..., -1]).clamp_(min=torch.finfo(heaps.dtype).tiny)
    chosen = torch.searchsorted(heaps, reached[..., None])[..., 0]
    chosen = chosen.clamp_(max=heaps.shape[-1] - 1)
    return chosen, log_probs.gather(-1, chosen[..., None])[..., 0]


class TinyMind(Mind):
    name = "tiny"
    Config = TinyConfig
    brief = True
    small = True
    config: TinyConfig

    def __init__(self, config: TinyConfig, tokens: Sequence[str]) -> None:
        super().__init__(config)
        self.vocabulary = Vocabulary(tokens)
        self.network = self._network()
        self._base: Network | None = None  # as it was before it played
        self._form: Form | None = None  # that what it writes must keep

    @classmethod
    def for_world(cls, config: TinyConfig, tokens: Sequence[str], babble: Babble) -> TinyMind:
        if not tokens:
            raise UserError("player=tiny needs a world with a brief wording")
        mind = cls(config, tokens)
        mind.network = base_weights(mind._network, mind.vocabulary, babble, config.base_steps)
        mind._base = mind._network()
        mind._base.load_state_dict(mind.network.state_dict())
        if config.mask:
            mind._form = Form(mind.vocabulary, babble)
        return mind

    def _network(self) -> Network:
        config = self.config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            shape = config.width, config.heads, config.layers, config.loops, config.matching
            return Network(self.vocabulary, *shape, LONGEST)

    # Sampling

    def sample(
        self,
        prompts: Sequence[str],
        n: int,
        rng: np.random.Generator,
        *,
        greedy: bool = False,
        max_tokens: int | None = None,
    ) -> list[Generation]:
        bound = max_tokens or self.config.max_tokens
        if n == 1 and len(set(prompts)) == 1 and len(prompts) > torch.get_num_threads():
            # One prompt, asked many times: it is read once, by each thread.
            few, many = torch.get_num_threads(), len(prompts)
            return self.sample(prompts[:few], math.ceil(many / few), rng, greedy=greedy, max_tokens=max_tokens)[:many]
        encoded = [self.encode(prompt) for prompt in prompts]
        # To a prompt that leaves no room nothing is written: of half a question, no answer is worth anything.
        written = [Generation("", prompt, finished=False) for prompt in encoded for _ in range(n)]
        fitting = [k for k, prompt in enumerate(encoded) if len(prompt) + bound <= LONGEST]
        # Neighbours in length together: what pads a batch costs as much as what is read.
        order = sorted(fitting, key=lambda k: len(encoded[k]))
        share = math.ceil(len(order) / torch.get_num_threads())
        width = max(1, min(share, _ROWS // n))
        parts = [order[start : start + width] for start in range(0, len(order), width)]

        def write(at: int) -> tuple[np.ndarray, np.ndarray]:
            return self._write([encoded[k] for k in parts[at]], n, bound, chances[at])

        with memory_errors("generating", "max_tokens"):
            chances = [None if greedy else rng.random((bound, len(part), n), dtype=np.float32) for part in parts]
            for part, (tokens, log_probs) in zip(parts, side_by_side(write, range(len(parts))), strict=True):
                for row, k in enumerate(part):
                    for at in range(n):
                        written[k * n + at] = self._generation(encoded[k], tokens[row, at], log_probs[row, at])
        return written

    def encode(self, prompt: str) -> np.ndarray:
        return np.array(self.vocabulary.encode(prompt), np.int32)

    def prompt_text(self, prompt: np.ndarray) -> str:
        return self.vocabulary.decode(prompt.tolist())

    def answering(self, prompt: str, generation: Generation) -> Generation:
        moved = super().answering(prompt, generation)
        if len(moved.prompt) + len(moved.tokens) <= LONGEST:
            return moved
        return Generation("", moved.prompt, finished=False)

    def reciting(self, prompt: str, reply: str) -> Generation:
        tokens = np.array([*self.vocabulary.encode(reply), END], np.int32)
        return Generation(reply, self.encode(prompt), tokens)

    def _generation(self, prompt: np.ndarray, tokens: np.ndarray, log_probs: np.ndarray) -> Generation:
        ends = np.flatnonzero(tokens == END)
        length = int(ends[0]) + 1 if len(ends) else len(tokens)
        text = self.vocabulary.decode(tokens[:length].tolist())
        return Generation(text, prompt, tokens[:length].astype(np.int32), log_probs[:length].copy(), bool(len(ends)))

    @torch.inference_mode()
    def _write(
        self, prompts: Sequence[np.ndarray], n: int, bound: int, chances: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """n answers a prompt, token by token: ids and log-probabilities, each [prompts, n, longest]."""
        chance = None if chances is None else torch.from_numpy(chances)
        ids, lengths = padded(prompts)
        hidden, context = self.network.read(ids, lengths)
        hidden = hidden[torch.arange(len(ids)), lengths - 1][:, None].expand(-1, n, -1)
        tokens = torch.full((bound, len(ids), n), PAD)
        log_probs = torch.zeros((bound, len(ids), n))
        going, alive = torch.arange(len(ids)), torch.ones((len(ids), n), dtype=torch.bool)
        past = Past(self.network, context, n)
        places = None if self._form is None else self._form.starts(prompts)[:, None].expand(-1, n)
        for time in range(bound):
            logits = self._logits(self.network, hidden, places)
            chosen, likelihood = _chosen(logits, None if chance is None else chance[time, going])
            chosen = torch.where(alive, chosen, PAD)
            tokens[time, going], log_probs[time, going] = chosen, likelihood
            if self._form is not None:
                places = self._form.after[places, chosen]
            alive &= chosen != END
            busy = alive.any(1)
            if not busy.any():
                break
            # Prompts whose answers have all ended are dropped once they are many: cutting the cache has its price.
            if busy.sum() < 0.7 * len(busy):
                going, alive, chosen = going[busy], alive[busy], chosen[busy]
                context = context.keep(busy)
                past.keep(busy)
                places = None if places is None else places[busy]
            hidden = self.network.follow(chosen[:, :, None], alive[:, :, None], context, past)[:, :, 0]
        return tokens.permute(1, 2, 0).numpy(), log_probs.permute(1, 2, 0).numpy()

    def _logits(self, network: Network, hidden: Tensor, places: Tensor | None) -> Tensor:
        """At the temperature of sampling; what no text may hold is never written."""
        logits = network.logits(hidden) / self.config.temperature
        if self._form is not None and places is not None:
            return logits + self._form.bars(places)
        return logits.index_fill_(-1, torch.tensor([PAD]), -torch.inf)

    # Scoring

    @property
    def width(self) -> int:
        return self.config.width

    def parameters(self) -> list[torch.nn.Parameter]:
        return list(self.network.parameters())

    def matrices(self) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
        return self.network.matrices()

    def score(self, generations: Sequence[Generation]) -> Scores:
        return self._score(self.network, generations)

    @torch.no_grad()
    def base_log_probs(self, generations: Sequence[Generation]) -> Tensor:
        if self._base is None:
            raise ValueError("this mind was not made for a world: it has no base weights")
        return self._score(self._base, generations).log_probs

    def _score(self, network: Network, generations: Sequence[Generation]) -> Scores:
        rows = _by_prompt(generations)
        table, _ = padded([generation.tokens for generation in generations])
        mask = table != PAD
        read = self._read_whole if len(rows) == len(generations) else self._read_shared
        hidden = read(network, generations, rows, table)
        log_probs = hidden.new_zeros(table.shape)
        entropy = hidden.new_zeros(table.shape)
        places = None if self._form is None else self._form.places([each.prompt for each in generations], table)[mask]
        every = self._logits(network, hidden[mask], places).log_softmax(-1)
        log_probs[mask] = every.gather(-1, table[mask][:, None])[:, 0]
        entropy[mask] = -(every.exp() * every.masked_fill(every == -torch.inf, 0.0)).sum(-1)
        return Scores(log_probs, entropy, hidden, mask)

    def _read_whole(
        self, network: Network, generations: Sequence[Generation], rows: Sequence[list[int]], table: Tensor
    ) -> Tensor:
        """The hidden states that answers come from, where each has a prompt of its own: both are read in one go."""
        ids, lengths = padded([np.concatenate([each.prompt, each.tokens[:-1]]) for each in generations])
        hidden, _ = network.read(ids, lengths)
        begins = torch.tensor([len(each.prompt) for each in generations])[:, None] - 1
        places = (begins + torch.arange(table.shape[1])).clamp(max=ids.shape[1] - 1)
        return hidden[torch.arange(len(ids))[:, None], places]

    def _read_shared(
        self, network: Network, generations: Sequence[Generation], rows: Sequence[list[int]], table: Tensor
    ) -> Tensor:
        """Answers to one prompt side by side, the prompt read once."""
        answers = max(map(len, rows))
        ids, lengths = padded([generations[positions[0]].prompt for positions in rows])
        place = torch.empty(len(generations), dtype=torch.long)  # of each generation among [prompts x answers]
        for row, positions in enumerate(rows):
            place[positions] = row * answers + torch.arange(len(positions))
        grid = torch.full((len(rows) * answers, table.shape[1]), PAD)
        grid[place] = table
        grid = grid.view(len(rows), answers, -1)
        hidden, context = network.read(ids, lengths)
        first = hidden[torch.arange(len(ids)), lengths - 1][:, None, None].expand(-1, answers, 1, -1)
        # The last token of an answer predicts nothing.
        rest = first[:, :, :0]
        if grid.shape[2] > 1:
            rest = network.follow(grid[:, :, :-1], grid[:, :, 1:] != PAD, context)
        return torch.cat([first, rest], 2).flatten(0, 1)[place]

    def pieces(self, generations: Sequence[Generation]) -> Iterator[list[int]]:
        """Answers to one prompt stay together, with others as many and about as long: attention pads to the longest."""
        rows = _by_prompt(generations)
        shapes = []  # answers to a prompt, how long what is read together is, what attention over it costs
        for positions in rows:
            prompt, longest = len(generations[positions[0]].prompt), max(len(generations[k].tokens) for k in positions)
            many = len(positions)
            whole = prompt + longest
            shapes.append((many, whole, whole * whole) if many == 1 else (many, longest, many * longest * whole))
        piece: list[int] = []
        first, size = (0, 0, 0), 0
        # The largest first: threads that take pieces in turn end at about the same time.
        for at in sorted(range(len(rows)), key=shapes.__getitem__, reverse=True):
            answers, longest, cost = shapes[at]
            size += cost
            if piece and (answers != first[0] or 1.5 * longest + 4 < first[1] or size > _AREA):
                yield piece
                piece, size = [], cost
            if not piece:
                first = shapes[at]
            piece = piece + rows[at]
        if piece:
            yield piece

    # Saving

    def state(self) -> dict[str, Any]:
        return dict(self.network.state_dict())

    def load_state(self, state: Mapping[str, Any]) -> None:
        known = {name: tuple(weight.shape) for name, weight in self.network.state_dict().items()}
        if {name: tuple(weight.shape) for name, weight in state.items()} != known:
            raise UserError(
                "the weights saved are of a network of another shape: "
                "width, layers, matching or the world's vocabulary differ"
            )
        self.network.load_state_dict(dict(state))
