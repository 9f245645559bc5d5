"""A small decoder-only transformer whose blocks are run several times over, for prompts that many answers share.

A prompt is read once, whatever the number of answers to it: `read` gives its keys and values, and `follow` carries on
from them, either a whole answer at a time (scoring) or a token at a time (sampling). Both are the same arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

_PERIODS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 32, 50, 64, 100, 128, 200, 256, 400)

Cache = list[tuple[Tensor, Tensor]]  # keys and values of each pass through a block


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.value, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def heads_of(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of [batch, answers, time, width], each [batch, heads, answers, time, part]."""
        x = self.norm1(x)
        batch, answers, time, width = x.shape
        shape = (batch, answers, time, self.heads, width // self.heads)
        query, key, value = (
            part(x).view(shape).permute(0, 3, 1, 2, 4).contiguous() for part in (self.query, self.key, self.value)
        )
        return query, key, value

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.out(attended.permute(0, 2, 3, 1, 4).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Network(nn.Module):
    """`layers` different blocks, run `loops` times over: what is learned of one operation serves the next one too."""

    cosines: Tensor
    sines: Tensor

    def __init__(
        self, tokens: int, numbers: Mapping[int, int], width: int, heads: int, layers: int, loops: int, longest: int
    ) -> None:
        super().__init__()
        self.heads, self.loops, self.passes = heads, loops, layers * loops
        self.embedding = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.sharpness = nn.Parameter(torch.tensor(1 / math.sqrt(width)))
        part = width // heads
        angles = torch.arange(longest)[:, None] / 100 ** (torch.arange(0, part, 2) / part)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)
        with torch.no_grad():
            self._initialise(numbers, width)

    def _initialise(self, numbers: Mapping[int, int], width: int) -> None:
        self.embedding.weight.normal_()
        for name, weight in self.blocks.named_parameters():
            if weight.dim() == 2:
                weight.normal_(std=1 / math.sqrt(weight.shape[1]))
            if name.endswith(("out.weight", "down.weight")):
                weight /= math.sqrt(2 * self.passes)
        # Numbers start as points on circles of several sizes, so that near ones are alike and adding is turning.
        for token, number in numbers.items():
            waves = [wave(2 * math.pi * number / period) for period in _PERIODS for wave in (math.cos, math.sin)]
            known = 1.4 * torch.tensor([*waves, number / 20, abs(number) / 20, 1.0])[: width // 2]
            self.embedding.weight[token, : len(known)] = known
            self.embedding.weight[token, len(known) :] *= 0.1

    def _turn(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """Rotary positions."""
        one, other = x.chunk(2, -1)
        return torch.cat([one * cosines - other * sines, one * sines + other * cosines], -1)

    def read(self, ids: Tensor) -> tuple[Tensor, Cache]:
        """Prompts [batch, time], padded on the right: their hidden states, and what answers look back at."""
        x, cache = self.embedding(ids)[:, None], []
        cosines, sines = self.cosines[: ids.shape[1]], self.sines[: ids.shape[1]]
        for block in self._passes():
            query, key, value = block.heads_of(x)
            query, key = self._turn(query, cosines, sines), self._turn(key, cosines, sines)
            query, key, value = query[:, :, 0], key[:, :, 0], value[:, :, 0]
            attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = block.finish(x, attended[:, :, None])
            cache.append((key, value))
        return self.norm(x[:, 0]), cache

    def follow(self, ids: Tensor, lengths: Tensor, prompts: Cache, past: Past | None = None) -> Tensor:
        """The hidden states [batch, answers, time, width] of answers [batch, answers, time] to prompts of these
        lengths. With `past` they carry on from the tokens in it, and are added to it."""
        x = self.embedding(ids)
        time, before = ids.shape[2], 0 if past is None else past.length
        positions = lengths[:, None, None] + torch.arange(before, before + time)
        cosines, sines = self.cosines[positions][:, None], self.sines[positions][:, None]
        beyond = torch.arange(prompts[0][0].shape[2]) >= lengths[:, None]
        blocked = torch.zeros(beyond.shape).masked_fill(beyond, -torch.inf)[:, None, None, None]
        causal = torch.full((time, before + time), -torch.inf).triu(before + 1)
        for turn, (block, (prompt_key, prompt_value)) in enumerate(zip(self._passes(), prompts, strict=True)):
            query, key, value = block.heads_of(x)
            query, key = self._turn(query, cosines, sines), self._turn(key, cosines, sines)
            if past is not None:
                key, value = past.grown(turn, key, value)
            x = block.finish(x, _attend(query, key, value, prompt_key, prompt_value, blocked, causal))
        if past is not None:
            past.length += time
        return self.norm(x)

    def _passes(self) -> Iterator[Block]:
        for _ in range(self.loops):
            for block in self.blocks:
                assert isinstance(block, Block)
                yield block

    def matrices(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """The weights apart: matrices of the blocks, and all others."""
        inside = [weight for weight in self.blocks.parameters() if weight.dim() == 2]
        known = {id(weight) for weight in inside}
        return inside, [weight for weight in self.parameters() if id(weight) not in known]

    def logits(self, hidden: Tensor) -> Tensor:
        return functional.linear(hidden * self.sharpness, self.embedding.weight)


class Past:
    """Keys and values of the tokens written so far, in memory that is there from the start."""

    def __init__(self, network: Network, batch: int, answers: int, longest: int) -> None:
        heads, width = network.heads, network.embedding.embedding_dim
        shape = (batch, heads, answers, longest, width // heads)
        self._memory = [(torch.empty(shape), torch.empty(shape)) for _ in range(network.passes)]
        self.length = 0

    def grown(self, turn: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self._memory[turn]
        end = self.length + key.shape[3]
        keys[:, :, :, self.length : end], values[:, :, :, self.length : end] = key, value
        return keys[:, :, :, :end], values[:, :, :, :end]

    def keep(self, rows: Tensor) -> None:
        self._memory = [(keys[rows], values[rows]) for keys, values in self._memory]


def _attend(
    query: Tensor, key: Tensor, value: Tensor, prompt_key: Tensor, prompt_value: Tensor, blocked: Tensor, causal: Tensor
) -> Tensor:
    """Attention of answers [batch, heads, answers, time, part] to their prompt [batch, heads, prompt, part], which all
    answers share without a copy, and to themselves."""
    batch, heads, answers, time, part = query.shape
    query = query / math.sqrt(part)
    to_prompt = query.reshape(batch, heads, answers * time, part) @ prompt_key.mT
    to_prompt = to_prompt.view(batch, heads, answers, time, -1) + blocked
    to_self = query @ key.mT + causal
    weights = torch.cat([to_prompt, to_self], -1).softmax(-1)
    from_prompt, from_self = weights.split([to_prompt.shape[-1], to_self.shape[-1]], -1)
    shared = from_prompt.reshape(batch, heads, answers * time, -1) @ prompt_value
    return shared.view(batch, heads, answers, time, part) + from_self @ value
