"""The tensors of a Hugging Face mind: generation with a cache, and scores with gradient, within bounded memory.

The layers (`backbone`) and the projection to the vocabulary (`head`) are called apart, so that logits exist only for
answer tokens, `logit_tokens` of them at a time, and are computed again in the backward pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.modeling_layers import GradientCheckpointingLayer

from autotelic.errors import UserError
from autotelic.minds.base import Generation, Scores
from autotelic.minds.hf import HFConfig

# float16 ends at 6e-8, and the gradient of one token among thousands is about there. It is made this much larger on its
# way through the layers and smaller again, in float32, where it reaches a weight.
_HALF_SCALE = 1024.0

Row = tuple[list[int], list[float], bool]  # tokens, their log-probabilities, whether an end was reached


def storage(config: HFConfig, compute: torch.dtype) -> torch.dtype:
    """What the pretrained weights are kept in: float32 if they learn, what is computed in if they do not."""
    return compute if config.lora else torch.float32


class Network:
    """A causal model on its device, with adapters if it learns by them."""

    def __init__(self, model: Any, config: HFConfig, compute: torch.dtype) -> None:
        self.config, self.compute = config, compute
        self.device = torch.device(model.device)
        self.adapters = _with_lora(model, config) if config.lora else None
        self.model = model.eval()
        self.backbone, self.head = model.get_decoder(), model.get_output_embeddings()
        text = model.config.get_text_config(decoder=True)
        self.window: int | None = getattr(text, "max_position_embeddings", None)
        self._cap: float | None = getattr(text, "final_logit_softcapping", None)
        self._factor = (getattr(text, "logit_scale", None) or 1.0) / (getattr(text, "logits_scaling", None) or 1.0)
        self._positioned = "position_ids" in inspect.signature(self.backbone.forward).parameters
        self._layers = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
        if config.checkpointing:
            if not self._layers:
                raise UserError(f"model {config.model} has no gradient checkpointing; set checkpointing=false")
            options = {"use_reentrant": False, "preserve_rng_state": False}
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
        if compute == torch.float16:
            for weight in self.learning().values():
                weight.register_hook(lambda gradient: gradient / _HALF_SCALE)
        self.width = self._prove()

    def learning(self) -> dict[str, torch.nn.Parameter]:
        """The weights that change, by name; tied ones once."""
        return {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}

    # The two halves of the model

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=self.compute, enabled=self.compute != torch.float32)

    def _put(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """As the model shapes them; float32, whatever the layers are computed in."""
        logits = self.head(hidden).float()
        if self._factor != 1:  # most models need no more, and each pass over a hundred thousand figures a token counts
            logits = logits * self._factor
        return self._cap * torch.tanh(logits / self._cap) if self._cap else logits

    def _log_probs(self, hidden: torch.Tensor) -> torch.Tensor:
        logits, temperature = self._logits(hidden), self.config.temperature
        return torch.log_softmax(logits if temperature == 1 else logits / temperature, -1)

    def _read(self, prompts: Sequence[np.ndarray], cache: DynamicCache | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states and mask of left-padded prompts: [batch, longest]."""
        longest = max(len(prompt) for prompt in prompts)
        ids = np.zeros((len(prompts), longest), np.int64)
        mask = np.zeros((len(prompts), longest), np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = prompt
            mask[row, longest - len(prompt) :] = 1
        seen = self._put(mask)
        return self._step(self._put(ids), seen, cache), seen

    def _step(self, ids: torch.Tensor, mask: torch.Tensor, cache: DynamicCache | None) -> torch.Tensor:
        """Hidden states of the newest tokens. Positions count what is no padding."""
        # Lines that are over still grow, and a model that learned its positions has none past its window.
        last = None if self.window is None else self.window - 1
        positions = (mask.cumsum(1) - 1).clamp(min=0, max=last)[:, -ids.shape[1] :]
        options = {"position_ids": positions} if self._positioned else {}
        out = self.backbone(
            input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=cache is not None, **options
        )
        return out.last_hidden_state

    @torch.no_grad()
    def _prove(self) -> int:
        """The width of the hidden states, once padding and the two halves are seen to give what the whole model does.

        Some models shape their logits in ways of their own, others cannot be padded: refused, not taught wrongly.
        """
        probe = np.arange(3) % self.head.weight.shape[0]
        with self._autocast():
            try:
                whole = self.model(input_ids=self._put(probe[None]), use_cache=False).logits
                hidden, _ = self._read([probe, np.resize(probe, 5)], None)
                parts = self._logits(hidden[:1, -3:])
            except (AttributeError, TypeError, ValueError) as error:
                raise UserError(f"model {self.config.model} is no plain causal language model: {error}") from error
        difference = (parts - whole.float()).norm() / whole.float().norm().clamp(min=1e-6)
        if not difference < (1e-3 if self.compute == torch.float32 else 0.05):
            raise UserError(
                f"model {self.config.model} ({self.model.config.model_type}) shapes its logits or places its tokens in "
                "a way that is not known here; use another model, or serve it and use player=endpoint"
            )
        return hidden.shape[-1]

    # Generation

    @torch.inference_mode()
    def generate(
        self,
        prompts: Sequence[np.ndarray],
        copies: int,
        limit: int,
        chances: np.ndarray | None,
        ends: frozenset[int],
        stopped: Callable[[Sequence[int]], bool] | None,
    ) -> list[Row]:
        """What follows each prompt, `copies` times; by `chances` [rows, limit] in [0, 1), the likeliest without."""
        rows: list[Row] = [([], [], False) for _ in range(len(prompts) * copies)]
        room = [limit if self.window is None else min(limit, self.window - len(prompt)) for prompt in prompts]
        alive = np.arange(len(rows))  # the row each line of the batch belongs to
        with self._autocast():  # once around it all: weights are cast once, not once a token
            cache = _cache(self.model)
            hidden, mask = self._read(prompts, cache)
            cache.batch_repeat_interleave(copies)
            mask, hidden = mask.repeat_interleave(copies, 0), hidden[:, -1].repeat_interleave(copies, 0)
            for position in range(max(room)):
                log_probs = self._log_probs(hidden)
                chosen = _draw(log_probs, None if chances is None else chances[alive, position])
                values = log_probs.gather(1, chosen[:, None])[:, 0].tolist()
                going = []
                for line, (row, token, value) in enumerate(zip(alive, chosen.tolist(), values, strict=True)):
                    tokens, figures, over = rows[row]
                    if over or len(tokens) == room[row // copies]:
                        continue
                    tokens.append(token)
                    figures.append(value)
                    over = token in ends or (stopped is not None and stopped(tokens))
                    rows[row] = (tokens, figures, over)
                    if not over and len(tokens) < room[row // copies]:
                        going.append(line)
                if not going:
                    break
                # Lines that are over cost as much as others, but taking them out copies the cache.
                if len(going) <= 0.75 * len(alive):
                    kept = torch.tensor(going, device=self.device)
                    cache.batch_select_indices(kept)
                    mask, chosen, alive = mask[kept], chosen[kept], alive[going]
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
                hidden = self._step(chosen[:, None], mask, cache)[:, -1]
        return rows

    # Scores

    def score(self, generations: Sequence[Generation]) -> Scores:
        """On the CPU, wherever the model is. Rows are padded on the right, where causal attention never looks: no mask
        is needed."""
        prompts = [len(generation.prompt) for generation in generations]
        answers = [len(generation.tokens) for generation in generations]
        ids = np.zeros((len(generations), max(p + a for p, a in zip(prompts, answers, strict=True))), np.int64)
        for row, generation in enumerate(generations):
            ids[row, : prompts[row]] = generation.prompt
            ids[row, prompts[row] : prompts[row] + answers[row]] = generation.tokens
        # Where the answer tokens are predicted from, one after the other.
        rows = np.repeat(np.arange(len(generations)), answers)
        at = np.concatenate([np.arange(answer) + prompt - 1 for prompt, answer in zip(prompts, answers, strict=True)])
        targets = np.concatenate([generation.tokens for generation in generations]).astype(np.int64)
        with self._autocast(), self._checkpointed():
            # The last token predicts nothing that is scored.
            states = self.backbone(input_ids=self._put(ids[:, :-1] if ids.shape[1] > 1 else ids), use_cache=False)
            hidden = states.last_hidden_state[self._put(rows), self._put(at)]
            log_probs, entropy = self._in_pieces(hidden, self._put(targets))
        parts = (log_probs, entropy, hidden.float())
        if self.compute == torch.float16:
            parts = tuple(_Enlarged.apply(part) for part in parts)
        tables = (pad_sequence(list(part.cpu().split(answers)), batch_first=True) for part in parts)
        return Scores(*tables, mask=torch.arange(max(answers)) < torch.tensor(answers)[:, None])

    def _in_pieces(self, hidden: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies of answer tokens; the logits of one piece at a time exist, both ways."""
        parts, size = [], self.config.logit_tokens
        for start in range(0, max(len(targets), 1), size):
            piece = hidden[start : start + size], targets[start : start + size]
            parts.append(checkpoint(self._figures, *piece, use_reentrant=False, preserve_rng_state=False))
        log_probs, entropies = zip(*parts, strict=True)
        return torch.cat(log_probs), torch.cat(entropies)

    def _figures(self, hidden: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        log_probs = self._log_probs(hidden)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        return log_probs.gather(1, targets[:, None])[:, 0], entropy

    @torch.no_grad()
    def frozen_log_probs(self, generations: Sequence[Generation]) -> torch.Tensor:
        """What `score` says without the adapters."""
        if self.adapters is None:
            return self.score(generations).log_probs
        with self.adapters.disable_adapter():
            return self.score(generations).log_probs

    @contextmanager
    def _checkpointed(self) -> Iterator[None]:
        """transformers checkpoints only layers that are training. Only they are told so, and only meanwhile: what is
        inside them stays as in evaluation, without dropout, and generation keeps its cache."""
        use = self.config.checkpointing and torch.is_grad_enabled()
        for layer in self._layers:
            layer.training = use
        try:
            yield
        finally:
            for layer in self._layers:
                layer.training = False


class _Enlarged(torch.autograd.Function):
    """Itself; its gradient is larger by _HALF_SCALE."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0] * _HALF_SCALE


class _RoomyLayer(DynamicLayer):
    """Keys and values with room to grow: a token is written in place, where the plain layer copies all before it."""

    _room: list[torch.Tensor] | None = None

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        have = self.get_seq_length()
        need, news = have + key_states.shape[-2], (key_states, value_states)
        if self._room is None or self._room[0].shape[-2] < need:
            more = need + max(need // 4, 64)
            self._room = [new.new_empty(*new.shape[:-2], more, new.shape[-1]) for new in news]
            for room, old in zip(self._room, (self.keys, self.values), strict=True):
                if have and old is not None:
                    room[..., :have, :] = old
        for room, new in zip(self._room, news, strict=True):
            room[..., have:need, :] = new
        self.keys, self.values = (room[..., :need, :] for room in self._room)
        return self.keys, self.values

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        self._room = None

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self._room = None


def _cache(model: Any) -> DynamicCache:
    """The model's own kind of cache; layers of the plain kind are given room."""
    cache = DynamicCache(config=model.config)
    cache.layers = [_RoomyLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def _draw(log_probs: torch.Tensor, chances: np.ndarray | None) -> torch.Tensor:
    """One token a row: the first whose cumulative probability exceeds the row's chance, the likeliest without."""
    if chances is None:
        return log_probs.argmax(-1)
    # In float64: over a hundred thousand tokens, rounding in float32 would take from the rare ones.
    cumulative = log_probs.exp().double().cumsum(-1)
    total = cumulative[:, -1:]
    if not bool(torch.isfinite(total).all()):
        raise UserError("the model gives no probabilities (NaN): its weights are broken; resume an earlier checkpoint")
    wanted = torch.from_numpy(chances).to(log_probs.device)[:, None] * total
    return torch.searchsorted(cumulative, wanted, right=True)[:, 0].clamp(max=log_probs.shape[1] - 1)


def _with_lora(model: Any, config: HFConfig) -> Any:
    """Adds adapters to the model in place; they alone learn. The wrapper can switch them off."""
    import peft

    every = config.lora_targets == ["all-linear"]
    settings = peft.LoraConfig(
        r=config.lora,
        lora_alpha=config.lora_alpha,  # pyright: ignore[reportArgumentType]
        lora_dropout=0.0,
        target_modules="all-linear" if every else list(config.lora_targets),
        task_type="CAUSAL_LM",
    )
    # Adapters start from random numbers: the same ones in every run, and no other draw is disturbed.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return peft.get_peft_model(model, settings)
        except ValueError as error:
            raise UserError(f"lora_targets: {' '.join(str(error).split())}") from error
