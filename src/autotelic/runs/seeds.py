"""Random numbers as a function of the seed and a purpose.

A generator is made where it is needed, from what it is for: `generator(seed, "solve", step)`. Nothing carries over
from one use to the next, so a resumed run draws what the uninterrupted one would have, and adding a draw in one place
changes no other.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np


def _entropy(seed: int, purpose: tuple[str | int, ...]) -> bytes:
    # JSON keeps 1 and "1" apart, and ("a", "b") apart from ("ab",).
    text = json.dumps([int(seed), *(int(part) if not isinstance(part, str) else part for part in purpose)])
    return hashlib.sha256(text.encode()).digest()


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A fresh generator; equal arguments give equal numbers, different ones independent numbers."""
    entropy = int.from_bytes(_entropy(seed, purpose), "big")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


def derive(seed: int, *purpose: str | int) -> int:
    """A seed for something else (a world, a sandbox, torch): 63 bits, never negative, fits SQLite and C longs."""
    return int.from_bytes(_entropy(seed, (*purpose, "derived"))[:8], "big") >> 1
