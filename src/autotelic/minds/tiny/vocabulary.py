"""A closed vocabulary: texts cut greedily into known pieces, the longest first, and put together again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

PAD, END, UNKNOWN = 0, 1, 2
_SPECIAL = ("<pad>", "<end>", "<unknown>")


class Vocabulary:
    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = (*_SPECIAL, *dict.fromkeys(tokens))
        self._ids = {token: number for number, token in enumerate(self.tokens)}
        known = sorted(self.tokens[len(_SPECIAL) :], key=len, reverse=True)
        # What is in no token is unknown, a piece a character: a prompt from elsewhere is hard to read, not refused.
        self._pieces = re.compile("|".join(map(re.escape, known)) + "|.", re.DOTALL)

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(piece, UNKNOWN) for piece in self._pieces.findall(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text up to the end token."""
        pieces = []
        for number in ids:
            if number == END:
                break
            pieces.append(self.tokens[number])
        return "".join(pieces)

    def numbers(self) -> dict[int, int]:
        """The ids of tokens that are whole numbers, and their values."""
        return {number: int(token) for token, number in self._ids.items() if re.fullmatch(r"-?\d+", token)}

    def marks(self) -> list[bool]:
        """Which tokens are marks such as <input>: they say what the tokens after them are."""
        return [re.fullmatch(r"<\w+>", token) is not None for token in self.tokens]


def padded(rows: Sequence[Sequence[int] | np.ndarray]) -> tuple[Tensor, Tensor]:
    """Rows of ids side by side, padded on the right, and their lengths."""
    lengths = np.array([len(row) for row in rows])
    table = np.full((len(rows), max(int(lengths.max()), 1)), PAD, np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(table), torch.from_numpy(lengths)
