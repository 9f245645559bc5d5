"""Posts on the ground: where they stand, and rays that see them."""

from __future__ import annotations

import numpy as np

# Half length, half width, half height; repeated for more than four. All are higher than the rays, which start at the
# hips: a ray on the ground tells all there is to know.
_SIZES = ((0.20, 0.20, 0.6), (0.15, 0.40, 0.6), (0.30, 0.15, 0.6), (0.25, 0.25, 0.6))
FIRST, APART, JITTER, ASIDE = 3.0, 2.2, 0.5, 1.2  # metres ahead, between posts, either way along and across

RAYS, REACH = 15, 4.0  # how many, and how far they see
ANGLES = np.radians(np.linspace(-70.0, 70.0, RAYS))  # from the right to the left of where the torso faces
_FAN = np.exp(1j * ANGLES)


def sizes(count: int) -> list[tuple[float, float, float]]:
    return [_SIZES[index % len(_SIZES)] for index in range(count)]


def places(chance: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """Posts along the x axis [n, posts, 3] from random numbers [n, 2 * posts]."""
    posts = len(halves)
    along, across = np.split(2.0 * chance - 1.0, 2, axis=1)
    x = FIRST + APART * np.arange(posts) + JITTER * along
    return np.stack([x, ASIDE * across, np.broadcast_to(halves[:, 2], x.shape)], axis=-1)


def distances(place: np.ndarray, heading: np.ndarray, posts: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """[n, RAYS]: metres from each place [n] along each ray to the nearest post [n, posts, 3], at most REACH."""
    rays, ahead = heading[:, None] * _FAN, posts[..., 0] + 1j * posts[..., 1] - place[:, None]
    # Along x and along y: where a ray meets the two sides of a rectangle. It is inside from the last entry to the first
    # exit. A ray along one axis never meets the sides of the other.
    slopes = np.stack([np.real(rays), np.imag(rays)])[..., None]
    slopes = np.where(np.abs(slopes) < 1e-9, 1e-9, slopes)
    centres, half = np.stack([np.real(ahead), np.imag(ahead)])[:, :, None], halves[:, :2].T[:, None, None]
    near, far = (centres - half) / slopes, (centres + half) / slopes
    enter, leave = np.maximum(*np.minimum(near, far)), np.minimum(*np.maximum(near, far))
    hit = np.where((leave >= enter) & (leave >= 0.0), np.maximum(enter, 0.0), REACH)
    return hit.min(axis=2, initial=REACH)
