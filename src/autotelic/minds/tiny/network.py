"""A small decoder-only transformer whose blocks are run several times over, for prompts that many answers share.

A prompt is read once, whatever the number of answers to it: `read` gives its keys and values, and `follow` carries on
from them, either a whole answer at a time (scoring) or a token at a time (sampling). Both are the same arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from autotelic.minds.tiny.vocabulary import PAD, Vocabulary

_PERIODS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 32, 50, 64, 100, 128, 200, 256, 400)

_FIRST = 16  # tokens that there is memory for at first
_FAR = 128  # distances from a mark that are told apart
_FAVOUR = 2.0  # what is added to attention where a head favours it, at first


@dataclass(frozen=True)
class Prompts:
    """What answers need of the prompts they follow, a row each."""

    line: Tensor  # their tokens, behind as much padding as there are in a tail
    lengths: Tensor
    tail: Tensor  # the last tokens
    mark: Tensor  # the last mark
    distance: Tensor  # of the first token of an answer from that mark
    cache: list[tuple[Tensor, Tensor]]  # keys and values [batch, heads, time, part] of each pass through a block

    def keep(self, rows: Tensor) -> Prompts:
        cache = [(key[rows], value[rows]) for key, value in self.cache]
        line, tail = self.line[rows], self.tail[rows]
        return Prompts(line, self.lengths[rows], tail, self.mark[rows], self.distance[rows], cache)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, matching: int) -> None:
        super().__init__()
        self.heads = heads
        # What each head adds to its attention to tokens that are the same, or 1, 2 … places behind such (see `_same`):
        # at first one head each. One row, as it is no matrix to Muon, nor to be filled with noise.
        favours = _FAVOUR * torch.eye(heads, matching + 1).flatten()
        self.favours = nn.Parameter(favours) if matching else None
        inner = 8 * width // 3
        # Not RMSNorm: only this one is a single operation on a CPU.
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.value, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.gate = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def heads_of(self, x: Tensor, turns: Tensor) -> Tensor:
        """Query, key and value [tokens, 3, heads, part] of tokens [tokens, width] at positions that turn them so."""
        joined = torch.cat([self.query.weight, self.key.weight, self.value.weight])
        x = functional.linear(self.norm1(x), joined).view(len(x), 3, self.heads, -1, 2)
        return torch.view_as_real(torch.view_as_complex(x) * turns).flatten(-2)

    def favoured(self, same: Tensor | None, blocked: Tensor) -> Tensor:
        """What is added to attention: what blocks it, and for each head what it favours."""
        if self.favours is None or same is None:
            return blocked
        return torch.einsum("ho,bo...->bh...", self.favours.view(self.heads, -1), same) + blocked

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.out(attended)
        inner = functional.linear(self.norm2(x), torch.cat([self.up.weight, self.gate.weight]))
        one, other = inner.chunk(2, -1)
        # Products of what two units see: arithmetic is made of them.
        return x + self.down(one * other)


class Network(nn.Module):
    """`layers` different blocks, run `loops` times over: what is learned of one operation serves the next one too.

    A token is seen with the last mark before it (`<input>`, `<answer>`) and its distance from that mark: the third item
    of an answer finds the third item of an input without counting. With `matching`, heads look from the start for where
    the same token stood before, and so many places behind: what was said of a name is found by the name. That can be
    learned too, but late, and meanwhile texts are learned by heart. Tokens are computed on side by side, without the
    padding between them; only attention lays them out in rows.
    """

    turns: Tensor
    is_mark: Tensor

    def __init__(
        self, vocabulary: Vocabulary, width: int, heads: int, layers: int, loops: int, matching: int, longest: int
    ) -> None:
        super().__init__()
        self.heads, self.loops, self.passes, self.matching = heads, loops, layers * loops, matching
        tokens = len(vocabulary)
        self.embedding = nn.Embedding(tokens, width)
        self.mark, self.distance = nn.Embedding(tokens, width), nn.Embedding(_FAR, width)
        self.blocks = nn.ModuleList(Block(width, heads, matching) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)
        self.sharpness = nn.Parameter(torch.tensor(1 / math.sqrt(width)))
        # Rotary positions: queries and keys are turned, as complex numbers, and values are not.
        part = width // heads
        angles = torch.arange(longest)[:, None] / 100 ** (torch.arange(0, part, 2) / part)
        angles = torch.stack([angles, angles, torch.zeros_like(angles)], 1)[:, :, None]
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)
        self.register_buffer("is_mark", torch.tensor(vocabulary.marks()), persistent=False)
        with torch.no_grad():
            self._initialise(vocabulary.numbers(), width)

    def _initialise(self, numbers: Mapping[int, int], width: int) -> None:
        self.embedding.weight.normal_()
        self.mark.weight.normal_(std=0.5)
        waves = torch.arange(_FAR)[:, None] / 30 ** (torch.arange(width // 2) / (width // 2))
        self.distance.weight[:, torch.randperm(width)] = torch.cat([waves.sin(), waves.cos()], 1)
        for name, weight in self.blocks.named_parameters():
            if weight.dim() == 2:
                weight.normal_(std=1 / math.sqrt(weight.shape[1]))
            if name.endswith(("out.weight", "down.weight")):
                weight /= math.sqrt(2 * self.passes)
        # Numbers start as points on circles of several sizes, so that near ones are alike and adding is turning.
        for token, number in numbers.items():
            turned = [wave(2 * math.pi * number / period) for period in _PERIODS for wave in (math.cos, math.sin)]
            known = 1.4 * torch.tensor([*turned, number / 20, abs(number) / 20, 1.0])[: width // 2]
            self.embedding.weight[token, : len(known)] = known
            self.embedding.weight[token, len(known) :] *= 0.1

    def read(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Prompts]:
        """Prompts [batch, time], padded on the right: the hidden states [batch, time, width], and what answers need."""
        batch, time = ids.shape
        mark, distance = self._marks(ids, ids[:, 0], torch.zeros_like(lengths))
        places = (torch.arange(time) < lengths[:, None]).flatten().nonzero()[:, 0]
        x = self._seen(ids.flatten()[places], mark.flatten()[places], distance.flatten()[places])
        turns = self.turns[places % time]
        line = torch.cat([ids.new_full((batch, self.matching), PAD), ids], 1)
        same = self._same(ids, line)
        causal = torch.full((1, time, time), -torch.inf).triu(1)
        cache = []
        for block in self._passes():
            query, key, value = _rows(block.heads_of(x, turns), (batch, time), places)
            attended = _attend_self(query, key, value, block.favoured(same, causal))
            x = block.finish(x, attended.transpose(1, 2).reshape(batch * time, -1)[places])
            cache.append((key, value))
        whole = x.new_zeros(batch * time, x.shape[-1]).index_copy(0, places, self.norm(x)).view(batch, time, -1)
        ends = torch.arange(batch), lengths - 1
        tail = line.gather(1, lengths[:, None] + torch.arange(self.matching))
        return whole, Prompts(line, lengths, tail, mark[ends], distance[ends] + 1, cache)

    def _same(self, ids: Tensor, line: Tensor) -> Tensor | None:
        """[batch, matching + 1, …, time, keys]: which tokens of a line, but for its first `matching`, are the same as
        each of these, or 1, 2 … places behind one that is."""
        if not self.matching:
            return None
        before = line.unfold(-1, self.matching + 1, 1).flip(-1)  # each, and those before it
        return (before.movedim(-1, 1)[..., None, :] == ids[:, None, ..., None]).float()

    def _marks(self, ids: Tensor, mark: Tensor, distance: Tensor) -> tuple[Tensor, Tensor]:
        """The last mark at or before each token [..., time] and its distance from it, where the first token stands at
        this distance from this mark, unless it is one."""
        steps = torch.arange(ids.shape[-1])
        last = torch.where(self.is_mark[ids], steps, -1).cummax(-1).values
        own = last >= 0
        marks = torch.where(own, ids.gather(-1, last.clamp(min=0)), mark[..., None])
        return marks, torch.where(own, steps - last, distance[..., None] + steps)

    def _seen(self, ids: Tensor, mark: Tensor, distance: Tensor) -> Tensor:
        return self.embedding(ids) + self.mark(mark) + self.distance(distance.clamp(max=_FAR - 1))

    def follow(self, ids: Tensor, known: Tensor, prompts: Prompts, past: Past | None = None) -> Tensor:
        """The hidden states [batch, answers, time, width] of answers [batch, answers, time] to prompts, where `known`
        says that there is a token. With `past` they carry on from the tokens in it, and are added to it."""
        batch, answers, time = ids.shape
        before = 0 if past is None else past.length
        if past is None:
            mark, distance = self._marks(ids, prompts.mark[:, None], prompts.distance[:, None])
            line = torch.cat([prompts.tail[:, None].expand(-1, answers, -1), ids], -1)
        else:
            mark, distance = self._marks(ids, past.mark, past.distance)
            line = torch.cat([past.line, ids], -1) if self.matching else past.line
            past.mark, past.distance, past.line = mark[..., -1], distance[..., -1] + 1, line
        places = known.flatten().nonzero()[:, 0]
        x = self._seen(ids.flatten()[places], mark.flatten()[places], distance.flatten()[places])
        turns = self.turns[prompts.lengths[places // (answers * time)] + before + places % time]
        beyond = torch.arange(prompts.cache[0][0].shape[2]) >= prompts.lengths[:, None]
        blocked = torch.zeros(beyond.shape).masked_fill(beyond, -torch.inf)[:, None, None, None]
        causal = torch.full((time, before + time), -torch.inf).triu(before + 1)
        same_in_prompt, same = self._same(ids, prompts.line[:, None]), self._same(ids, line)
        for turn, block in enumerate(self._passes()):
            query, key, value = _rows(block.heads_of(x, turns), (batch, answers, time), places)
            if past is not None:
                key, value = past.grown(turn, key, value)
            added = block.favoured(same_in_prompt, blocked), block.favoured(same, causal)
            attended = _attend(query, key, value, *prompts.cache[turn], *added)
            x = block.finish(x, attended.permute(0, 2, 3, 1, 4).reshape(batch * answers * time, -1)[places])
        if past is not None:
            past.length += time
        whole = x.new_zeros(known.numel(), x.shape[-1]).index_copy(0, places, self.norm(x))
        return whole.view(batch, answers, time, -1)

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
    """Keys and values of the tokens written so far, in memory that doubles when it is full."""

    def __init__(self, network: Network, prompts: Prompts, answers: int) -> None:
        heads, width, batch = network.heads, network.embedding.embedding_dim, len(prompts.lengths)
        self.mark = prompts.mark[:, None].expand(-1, answers)  # the last one before the next token,
        self.distance = prompts.distance[:, None].expand(-1, answers)  # and how far that token is from it
        self.line = prompts.tail[:, None].expand(-1, answers, -1)  # the prompt's last tokens, and all since
        shape = (batch, heads, answers, _FIRST, width // heads)
        self._memory = [(torch.empty(shape), torch.empty(shape)) for _ in range(network.passes)]
        self.length = 0

    def grown(self, turn: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self._memory[turn]
        end = self.length + key.shape[3]
        if end > keys.shape[3]:
            every = torch.arange(len(keys))
            keys, values = self._moved(keys, every, 2 * end), self._moved(values, every, 2 * end)
            self._memory[turn] = keys, values
        keys[:, :, :, self.length : end], values[:, :, :, self.length : end] = key, value
        return keys[:, :, :, :end], values[:, :, :, :end]

    def keep(self, rows: Tensor) -> None:
        """Forgets all other rows."""
        self.mark, self.distance, self.line = self.mark[rows], self.distance[rows], self.line[rows]
        rows = rows.nonzero()[:, 0]
        room = self._memory[0][0].shape[3]
        self._memory = [
            (self._moved(keys, rows, room), self._moved(values, rows, room)) for keys, values in self._memory
        ]

    def _moved(self, table: Tensor, rows: Tensor, room: int) -> Tensor:
        """Rows in memory of their own, with room for so many tokens. Only what is written is copied."""
        new = table.new_empty(len(rows), *table.shape[1:3], room, table.shape[4])
        torch.index_select(table[:, :, :, : self.length], 0, rows, out=new[:, :, :, : self.length])
        return new


def _rows(tokens: Tensor, shape: tuple[int, ...], places: Tensor) -> Tensor:
    """Queries, keys and values [tokens, 3, heads, part] in rows [3, batch, heads, …, time, part]: zeros where there is
    no token."""
    table = tokens.new_zeros(math.prod(shape), *tokens.shape[1:]).index_copy(0, places, tokens)
    return table.unflatten(0, shape).movedim((-3, -2), (0, 2)).contiguous()


def _attend_self(query: Tensor, key: Tensor, value: Tensor, added: Tensor) -> Tensor:
    """Attention of texts [batch, heads, time, part] to themselves. They are short: for such, whole tables of weights
    take a third of the time that torch's own attention does."""
    query, key, value, shape = query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1), query.shape
    weights = torch.baddbmm(added.flatten(0, -3), query, key.mT, alpha=1 / math.sqrt(shape[-1])).softmax(-1)
    return torch.bmm(weights, value).view(shape)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    prompt_key: Tensor,
    prompt_value: Tensor,
    added_to_prompt: Tensor,
    added: Tensor,
) -> Tensor:
    """Attention of answers [batch, heads, answers, time, part] to their prompt [batch, heads, prompt, part], which all
    answers share without a copy, and to themselves."""
    batch, heads, answers, time, part = query.shape
    query = query / math.sqrt(part)
    to_prompt = query.reshape(batch, heads, answers * time, part) @ prompt_key.mT
    to_prompt = to_prompt.view(batch, heads, answers, time, -1) + added_to_prompt
    to_self = query @ key.mT + added
    weights = torch.cat([to_prompt, to_self], -1).softmax(-1)
    from_prompt, from_self = weights.split([to_prompt.shape[-1], to_self.shape[-1]], -1)
    shared = from_prompt.reshape(batch, heads, answers * time, -1) @ prompt_value
    return shared.view(batch, heads, answers, time, part) + from_self @ value
