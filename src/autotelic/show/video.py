"""Films of a policy at work, or of an attempt that was judged: MP4 that every browser plays, and a sheet of pictures
for those who cannot wait."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from autotelic.errors import UserError
from autotelic.registry import optional
from autotelic.runs import seeds
from autotelic.runs.files import write_atomic
from autotelic.worlds.base import Clip

if TYPE_CHECKING:
    from autotelic.physics.base import Environment
    from autotelic.policies.base import Policy

FASTEST = 30.0  # pictures a second: more is not seen
_GAP, _PICTURE = 4, 320  # of a sheet: pixels between pictures, and the width of one


@dataclass
class Episode:
    """What was filmed of an episode."""

    total: float = 0.0  # of its rewards
    length: int = 0
    ended: str = ""  # terminated or truncated; empty where the film stopped first
    figures: dict[str, float] = field(default_factory=dict)  # what the task says of it, once it ended


class Film:
    """The first of an environment's simulations while a policy acts in it without chance, in real time. Iterating over
    it makes the pictures, uint8 [height, width, 3], one at a time; meanwhile `episodes` fills."""

    def __init__(
        self,
        environment: Environment,
        policy: Policy,
        *,
        seconds: float = 10.0,
        episodes: int = 1,
        seed: int = 0,
        width: int = 640,
        height: int = 480,
    ) -> None:
        """Of each episode at most so many seconds."""
        self.environment, self.policy, self.seed = environment, policy, seed
        self.count, self.size = episodes, (width, height)
        self.steps = max(1, round(seconds / environment.dt))  # of an episode
        self.skip = max(1, math.ceil(1 / (environment.dt * FASTEST) - 1e-9))  # steps from picture to picture
        self.fps = 1 / (self.skip * environment.dt)
        self.most = episodes * (self.steps // self.skip + 1)  # pictures
        self.episodes: list[Episode] = []

    def __iter__(self) -> Iterator[np.ndarray]:
        self.episodes = []
        for number in range(self.count):
            episode = Episode()
            self.episodes.append(episode)
            yield from self._play(episode, seeds.derive(self.seed, "film", number))

    def _play(self, episode: Episode, seed: int) -> Iterator[np.ndarray]:
        from autotelic.training.evaluate import as_tensors  # policies alone need torch

        obs = as_tensors(self.environment.reset(seed))
        while True:
            if episode.length % self.skip == 0:
                yield self._picture()
            if episode.length >= self.steps:
                return
            step = self.environment.step(self.policy.act(obs).numpy())
            episode.total += float(step.reward[0])
            episode.length += 1
            if step.terminated[0] or step.truncated[0]:  # what could be seen is the next episode already
                episode.ended = "terminated" if step.terminated[0] else "truncated"
                at = int(np.flatnonzero(step.ended == 0)[0])
                figures = {name: float(values[at]) for name, values in step.episodes.items()}
                episode.figures = {name: value for name, value in figures.items() if math.isfinite(value)}
                return
            obs = as_tensors(step.obs)

    def _picture(self) -> np.ndarray:
        with drawing(self.environment.name):
            return self.environment.frame(0, *self.size)


class Shown:
    """Clips one after the other, in real time. Iterating over it makes the pictures."""

    def __init__(self, clips: Sequence[Clip], *, seconds: float = 10.0, width: int = 640, height: int = 480) -> None:
        """Of each clip at most so many seconds."""
        self.size, self.fps = (width, height), clips[0].fps
        self._parts = [(clip, min(clip.count, round(seconds * clip.fps) + 1)) for clip in clips]
        self.most = sum(count for _, count in self._parts)  # pictures

    def __iter__(self) -> Iterator[np.ndarray]:
        for clip, count in self._parts:
            for number in range(count):
                with drawing("the attempt"):
                    picture = clip.draw(number, *self.size)
                yield picture


@contextmanager
def drawing(what: str) -> Iterator[None]:
    """Every way of drawing fails in its own way: one line says what to do."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(
            f"{what} cannot be drawn: {reason}; without a screen set MUJOCO_GL=egl (Debian's libegl1) or "
            "MUJOCO_GL=osmesa (libosmesa6)"
        ) from error


def write_mp4(path: str | Path, frames: Iterable[np.ndarray], fps: float) -> None:
    """H.264 in the form that browsers play. The file is there whole or not at all."""
    av = optional("av", "writing a video")
    buffer = io.BytesIO()
    stream = None
    with av.open(buffer, "w", format="mp4") as container:
        for frame in frames:
            height, width = (side // 2 * 2 for side in frame.shape[:2])  # yuv420p has a colour for each 2 x 2 pixels
            if stream is None:
                if "libx264" not in av.codecs_available:
                    raise UserError("this build of PyAV has no libx264 to write H.264 with: pip install av has it")
                rate = Fraction(fps).limit_denominator(1000)
                stream = container.add_stream("libx264", rate=rate, options={"crf": "20", "preset": "veryfast"})
                stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            picture = np.ascontiguousarray(frame[:height, :width])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        if stream is None:
            raise ValueError("a film without pictures")
        container.mux(stream.encode())
    write_atomic(path, buffer.getvalue())


def pictures_of(path: str | Path, count: int = 12) -> list[tuple[float, np.ndarray]]:
    """Pictures spread evenly over a video, first and last among them, each with its time in seconds."""
    av = optional("av", "reading a video")
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        wanted = {round(at) for at in np.linspace(0, stream.frames - 1, min(count, stream.frames))}
        return [
            (float(frame.time), frame.to_ndarray(format="rgb24"))
            for at, frame in enumerate(container.decode(stream))
            if at in wanted
        ]


def contact_sheet(pictures: Sequence[tuple[float, np.ndarray]], columns: int = 4, colours: int | None = None) -> bytes:
    """Pictures in rows, with the time written on each, as PNG; with fewer colours it takes fewer bytes."""
    height, width = pictures[0][1].shape[:2]
    small = (min(width, _PICTURE), max(1, round(height * min(1.0, _PICTURE / width))))
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    across, down = small[0] + _GAP, small[1] + _GAP
    sheet = Image.new("RGB", (columns * across - _GAP, rows * down - _GAP), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(max(10, small[1] // 14))
    for number, (seconds, picture) in enumerate(pictures):
        row, column = divmod(number, columns)
        corner = (column * across, row * down)
        sheet.paste(Image.fromarray(picture).resize(small, Image.Resampling.LANCZOS), corner)
        place = (corner[0] + 6, corner[1] + 4)
        draw.text(place, f"{seconds:.1f} s", "white", font, stroke_width=2, stroke_fill="black")
    buffer = io.BytesIO()
    if colours is not None:  # not Pillow's usual way, to which the colour of a small thing is nothing
        sheet = sheet.quantize(colours, Image.Quantize.FASTOCTREE)
    sheet.save(buffer, "PNG", optimize=colours is not None)
    return buffer.getvalue()
