"""Random numbers for many environments at once: a function of a key and a clock, not of what was drawn before.

A generator (`runs.seeds`) takes tens of microseconds to make; here are as many rows as environments for that price.
Each episode of each environment has keys of its own, one a purpose, so that its draws can be said again, whatever else
is simulated beside it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from autotelic.runs import seeds

# Of SplitMix64 (Steele, Lea and Flood): from one number to the next, and what makes a random one of each.
_GAMMA, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

_ROOM = np.uint64(20)  # bits of a counter that count within a step: steps of any size never draw the same


def keys(seed: int, purpose: str, ids: np.ndarray, episodes: np.ndarray) -> np.ndarray:
    """uint64 [n]: what these environments draw from in these episodes (0 is the first)."""
    found = np.full(len(ids), _first_key(seed, purpose), np.uint64)
    for numbers in (ids, episodes):
        found = _mixed(found + (numbers.astype(np.uint64) + np.uint64(1)) * _GAMMA)
    return found


def even(keys: np.ndarray, size: int, clock: np.ndarray | int = 0) -> np.ndarray:
    """float32 [n, size], evenly from 0 up to 1: as many for each key and step of its clock, [n] or one for all."""
    pairs = -(-size // 2)  # 64 random bits are two numbers
    steps = np.broadcast_to(np.asarray(clock, np.uint64), keys.shape)
    bits = (steps[:, None] << _ROOM) + np.arange(1, pairs + 1, dtype=np.uint64)
    bits *= _GAMMA
    bits += keys[:, None]
    whole = _mixed(bits).view(np.uint32)[:, :size] >> np.uint32(8)  # as many bits as a float32 holds exactly
    return whole.astype(np.float32) * np.float32(2.0**-24)


def between(keys: np.ndarray, size: int, low: float, high: float, clock: int = 0) -> np.ndarray:
    """float64 [n, size], evenly from `low` up to `high`."""
    return low + (high - low) * even(keys, size, clock).astype(np.float64)


def normal(keys: np.ndarray, size: int, clock: int = 0) -> np.ndarray:
    """float64 [n, size] of the standard normal distribution."""
    drawn = even(keys, 2 * size, clock).astype(np.float64)
    # Box and Muller's way; 1 - u is never 0.
    return np.sqrt(-2.0 * np.log(1.0 - drawn[:, :size])) * np.cos(2.0 * np.pi * drawn[:, size:])


def _mixed(bits: np.ndarray) -> np.ndarray:
    """Numbers that differ in one bit differ in half of them after this. Written in place."""
    bits ^= bits >> np.uint64(30)
    bits *= _FIRST
    bits ^= bits >> np.uint64(27)
    bits *= _SECOND
    bits ^= bits >> np.uint64(31)
    return bits


@lru_cache(maxsize=256)
def _first_key(seed: int, purpose: str) -> np.uint64:
    return np.uint64(seeds.derive(seed, purpose))
