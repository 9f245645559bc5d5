"""What may follow what in the texts of a world, learned from its babble. With `mask` a tiny mind writes nothing else.

A text is sections between marks. Which sections a reply has, and what each begins with, is decided by what the prompt
asks for and by the marks since then. Inside a section, a token may stand where it was heard: after the same token, in a
line that began alike, in the same open brackets and quotes. There all sections count, those of prompts too. Numbers are
alike: a mind that never heard a number in an answer must still be able to give it.

What was heard makes an automaton: places in texts, and the place that each token leads to. It has no dead ends, since
every place lies on the way to the end of some text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from autotelic.minds.base import Babble
from autotelic.minds.tiny.vocabulary import END, PAD, Vocabulary

_TEXTS = 10_000  # that are listened to
_ANYWHERE, _OVER = 0, 1  # places: where nothing is known and everything is allowed, and after the end
_QUOTES = ("'", '"')
_CLOSING = {"(": ")", "[": "]", "{": "}"} | {quote: quote for quote in _QUOTES}

# Where a section stands: the token that its line began with (None: the next one), what is open, the token before.
_Context = tuple[int | None, str, int]
_Asked = tuple[int, ...]  # what a prompt asks for, and the marks that came since
_Place = tuple[_Asked, _Context | None]


class Form:
    """The automaton, as tables. From `_ANYWHERE` and after what is not allowed it goes to `_ANYWHERE`."""

    def __init__(self, vocabulary: Vocabulary, babble: Babble) -> None:
        self._is_mark = vocabulary.marks()
        ear = _Ear(vocabulary)
        for prompt, reply in babble(np.random.default_rng(2), _TEXTS):
            ids = vocabulary.encode(prompt)
            ear.hear([*ids, END], None)
            ear.hear([*vocabulary.encode(reply), END], self._asked(ids))
        self._starts, self._after = ear.automaton()
        self.after = torch.from_numpy(self._after)  # [places, tokens]: the place that a token leads to
        barred = self.after == _ANYWHERE
        barred[[_ANYWHERE, _OVER]] = False
        barred[:, PAD] = True
        self._bars = torch.zeros(barred.shape).masked_fill(barred, -torch.inf)

    def _asked(self, prompt: Sequence[int]) -> _Asked:
        """What a prompt asks for: its leading marks, and its last one."""
        last = next((token for token in reversed(prompt) if self._is_mark[token]), END)
        return (*takewhile(self._is_mark.__getitem__, prompt), last)

    def starts(self, prompts: Sequence[np.ndarray]) -> Tensor:
        """The places where replies to these prompts start."""
        return torch.tensor([self._starts.get(self._asked(prompt.tolist()), _ANYWHERE) for prompt in prompts])

    def bars(self, places: Tensor) -> Tensor:
        """What is added to the logits [..., tokens] of the tokens at these places: nothing, or minus infinity."""
        return functional.embedding(places, self._bars)

    def places(self, prompts: Sequence[np.ndarray], tokens: Tensor) -> Tensor:
        """The place of each token of replies [replies, time]. A text that was not written here may break the form: what
        breaks it, and all that follows, is anywhere."""
        place, written = self.starts(prompts).numpy(), tokens.numpy()
        places = np.empty(written.shape, np.int64)
        for time in range(written.shape[1]):
            following = self._after[place, written[:, time]]
            places[:, time] = np.where(following == _ANYWHERE, _ANYWHERE, place)
            place = following
        return torch.from_numpy(places)


class _Ear:
    """What was heard of texts: how sections begin, go on and end."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.tokens, self.is_mark = vocabulary.tokens, vocabulary.marks()
        self.numbers = sorted(vocabulary.numbers())
        self.alike = dict.fromkeys(self.numbers, min(self.numbers, default=END))
        self.asked: set[_Asked] = set()
        # Inside sections; END is the end of the section.
        self.inside: dict[_Context, set[int]] = defaultdict(set)
        # By what was asked and the marks since: what sections begin with, and what comes after them.
        self.begins: dict[_Asked, set[int]] = defaultdict(set)
        self.ends: dict[_Asked, set[int]] = defaultdict(set)
        self.then = cache(self._then)

    def hear(self, ids: Sequence[int], asked: _Asked | None) -> None:
        """A reply to what was asked, or a prompt."""
        context = None
        if asked is not None:
            self.asked.add(asked)
        for token in ids:
            token = self.alike.get(token, token)
            closes = token == END or self.is_mark[token]
            if context is not None:
                self.inside[context].add(END if closes else token)
            if asked is not None:
                if context is None:
                    self.begins[asked].add(token)
                elif closes:
                    self.ends[asked].add(token)
                if closes:
                    asked = (*asked, token)
            context = None if closes else self.then(context, token)

    def _then(self, context: _Context | None, token: int) -> _Context:
        """The context after a token."""
        line, opened, _ = context or (None, "", END)
        text = self.tokens[token]
        if "\n" in text:
            line = token if text.rpartition("\n")[2].strip() else None
        elif line is None:
            line = token
        for letter in text:
            if opened and letter == _CLOSING[opened[-1]]:
                opened = opened[:-1]
            elif letter in _CLOSING and opened[-1:] not in _QUOTES:
                opened += letter
        return line, opened, token

    def automaton(self) -> tuple[dict[_Asked, int], np.ndarray]:
        """The places where replies start, by what is asked, and the table of places that tokens lead to."""
        places: dict[_Place, int] = {(asked, None): at for at, asked in enumerate(self.asked, _OVER + 1)}
        rows = [[_ANYWHERE] * len(self.tokens) for _ in (_ANYWHERE, _OVER)]
        todo = list(places)
        for asked, context in todo:  # it grows meanwhile
            row = [_ANYWHERE] * len(self.tokens)
            for token in self._allowed(asked, context):
                if token == END:
                    row[END] = _OVER
                    continue
                place = ((*asked, token), None) if self.is_mark[token] else (asked, self.then(context, token))
                if place not in places:
                    places[place] = len(places) + _OVER + 1
                    todo.append(place)
                row[token] = places[place]
            rows.append(row)
        table = np.array(rows)
        table[:, self.numbers] = table[:, self.numbers[:1]]
        return {asked: places[asked, None] for asked in self.asked}, table

    def _allowed(self, asked: _Asked, context: _Context | None) -> set[int]:
        if context is None:
            return self.begins[asked]
        heard = self.inside[context]
        return (heard - {END}) | self.ends[asked] if END in heard else heard
