"""Films: what is in them, how fast they run, what becomes of them on disk."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import Any

import av
import numpy as np
import pytest
import torch
from gymnasium import spaces
from PIL import Image

from autotelic.errors import UserError
from autotelic.physics.base import Environment, Step
from autotelic.show.video import Film, contact_sheet, pictures_of, write_mp4


class Clock(Environment):
    """A picture's brightness tells the step of the episode; an action's size is its reward."""

    name = "clock"
    action_space = spaces.Box(-1, 1, (1,))

    def __init__(self, dt: float = 0.05, limit: int = 1000, falls_at: int = 1000) -> None:
        self.count, self.dt, self.limit, self.falls_at, self.sizes = 1, dt, limit, falls_at, {"policy": 1}
        self.elapsed = 0
        self.seeds: list[int] = []

    def _obs(self) -> dict[str, np.ndarray]:
        return {"policy": np.full((1, 1), self.elapsed, np.float32)}

    def reset(self, seed: int) -> dict[str, np.ndarray]:
        self.seeds.append(seed)
        self.elapsed = 0
        return self._obs()

    def step(self, action: np.ndarray) -> Step:
        self.elapsed += 1
        fallen, late = self.elapsed == self.falls_at, self.elapsed == self.limit
        final = self._obs()
        ended = np.flatnonzero([fallen or late])
        if fallen or late:
            self.elapsed = 0
        return Step(
            self._obs(),
            action[:, 0].astype(np.float32),
            np.array([fallen]),
            np.array([late and not fallen]),
            ended,
            {name: values[ended] for name, values in final.items()},
            episodes={"success": np.array([float(late)])[: len(ended)]},
        )

    def frame(self, index: int, width: int, height: int) -> np.ndarray:
        return np.full((height, width, 3), self.elapsed, np.uint8)

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Any) -> dict[str, np.ndarray]:
        return self._obs()


class Half:
    """Acts with a half, always."""

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.full((1, 1), 0.5)


def film(environment: Environment, **options: Any) -> Film:
    return Film(environment, Half(), width=32, height=16, **options)  # type: ignore[arg-type]


def shown(filmed: Film) -> list[int]:
    """The step that each picture shows."""
    return [int(picture[0, 0, 0]) for picture in filmed]


@pytest.mark.parametrize(
    ("dt", "skip", "fps"),
    [(1 / 60, 2, 30.0), (1 / 30, 1, 30.0), (0.05, 1, 20.0), (0.008, 5, 25.0), (0.02, 2, 25.0), (0.5, 1, 2.0)],
)
def test_a_film_runs_in_real_time_at_most_30_pictures_a_second(dt: float, skip: int, fps: float):
    filmed = film(Clock(dt))
    assert (filmed.skip, filmed.fps) == (skip, pytest.approx(fps))


def test_pictures_are_of_every_skipth_step_from_the_start_to_the_bound():
    assert shown(film(Clock(0.01), seconds=0.2)) == [0, 4, 8, 12, 16, 20]


def test_a_film_ends_with_its_episode_before_the_next_is_seen():
    filmed = film(Clock(falls_at=3))
    assert shown(filmed) == [0, 1, 2]
    (episode,) = filmed.episodes
    assert (episode.total, episode.length, episode.ended) == (1.5, 3, "terminated")
    assert episode.figures == {"success": 0.0}


def test_an_episode_that_the_film_cuts_has_not_ended():
    filmed = film(Clock(), seconds=0.5)
    assert shown(filmed) == list(range(11))
    (episode,) = filmed.episodes
    assert (episode.length, episode.ended, episode.figures) == (10, "", {})


def test_an_episode_cut_by_its_limit_is_truncated():
    filmed = film(Clock(limit=4))
    shown(filmed)
    assert (filmed.episodes[0].ended, filmed.episodes[0].figures) == ("truncated", {"success": 1.0})


def test_several_episodes_start_differently_and_the_same_each_time():
    clock = Clock(falls_at=2)
    filmed = film(clock, episodes=2, seed=3)
    assert shown(filmed) == [0, 1, 0, 1]
    assert shown(filmed) == [0, 1, 0, 1]
    assert clock.seeds[0] != clock.seeds[1]
    assert clock.seeds[:2] == clock.seeds[2:]
    assert [episode.total for episode in filmed.episodes] == [1.0, 1.0]


def test_what_fails_in_drawing_is_one_line_that_names_the_way_out():
    class Blind(Clock):
        def frame(self, index: int, width: int, height: int) -> np.ndarray:
            raise RuntimeError("no OpenGL\ncontext")

    with pytest.raises(UserError) as caught:
        shown(film(Blind()))
    line = str(caught.value)
    assert "\n" not in line
    for words in ("clock cannot be drawn", "no OpenGL context", "MUJOCO_GL", "libegl1", "libosmesa6"):
        assert words in line


def test_a_task_without_pictures_says_so_itself():
    class Bare(Clock):
        frame = Environment.frame

    with pytest.raises(UserError, match="clock cannot be looked at: it has no pictures"):
        shown(film(Bare()))


def test_a_video_is_h264_that_browsers_play_with_every_picture_in_order(tmp_path):
    path = tmp_path / "film.mp4"
    grey = [np.full((48, 64, 3), 20 * at, np.uint8) for at in range(10)]
    write_mp4(path, iter(grey), 12.5)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert (stream.width, stream.height, stream.frames, stream.average_rate) == (64, 48, 10, 12.5)
        levels = [frame.to_ndarray(format="rgb24").mean() for frame in container.decode(stream)]
    assert np.abs(np.array(levels) - 20 * np.arange(10)).max() < 6


def test_odd_sizes_lose_their_last_row_and_column(tmp_path):
    write_mp4(tmp_path / "film.mp4", [np.zeros((33, 65, 3), np.uint8)], 10)
    ((_, picture),) = pictures_of(tmp_path / "film.mp4")
    assert picture.shape == (32, 64, 3)


def test_a_video_that_fails_half_way_leaves_the_old_one(tmp_path):
    path = tmp_path / "film.mp4"
    path.write_bytes(b"old")

    def broken():
        yield np.zeros((16, 16, 3), np.uint8)
        raise UserError("the light went out")

    with pytest.raises(UserError, match="the light went out"):
        write_mp4(path, broken(), 10)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["film.mp4"]


def test_pictures_of_a_video_are_spread_from_its_first_to_its_last(tmp_path):
    path = tmp_path / "film.mp4"
    write_mp4(path, [np.full((16, 16, 3), 2 * at, np.uint8) for at in range(101)], 10)
    found = pictures_of(path, 5)
    assert [time for time, _ in found] == pytest.approx([0, 2.5, 5, 7.5, 10])
    assert np.abs(np.array([picture.mean() for _, picture in found]) - [0, 50, 100, 150, 200]).max() < 8


def test_a_short_video_gives_all_its_pictures(tmp_path):
    write_mp4(tmp_path / "film.mp4", [np.zeros((16, 16, 3), np.uint8)] * 3, 10)
    assert len(pictures_of(tmp_path / "film.mp4", 12)) == 3


def test_a_sheet_has_its_pictures_row_by_row_with_times_on_them():
    colours = [(200, 0, 0), (0, 200, 0), (0, 0, 200), (200, 200, 0), (0, 200, 200)]
    pictures = [(float(at), np.full((240, 320, 3), colour, np.uint8)) for at, colour in enumerate(colours)]
    sheet = np.asarray(Image.open(io.BytesIO(contact_sheet(pictures, columns=3))))
    assert sheet.shape == (2 * 244 - 4, 3 * 324 - 4, 3)
    for at, colour in enumerate(colours):
        row, column = divmod(at, 3)
        assert tuple(sheet[row * 244 + 200, column * 324 + 200]) == colour
        label = sheet[row * 244 : row * 244 + 30, column * 324 : column * 324 + 80]
        assert (label == 255).all(axis=2).any(), "the time is written in white"
    assert (sheet[300, 900] == 255).all(), "where there is no picture it is empty"


def test_equal_pictures_with_other_times_are_told_apart():
    picture = np.zeros((240, 320, 3), np.uint8)
    assert contact_sheet([(1.0, picture)]) != contact_sheet([(2.0, picture)])


def chosen(**environment: str) -> str:
    """What MUJOCO_GL is once the package has decided."""
    clean = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "DISPLAY")}
    clean.pop("WAYLAND_DISPLAY", None)
    code = "import autotelic.physics, os; print(os.environ.get('MUJOCO_GL'))"
    done = subprocess.run([sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.splitlines()[-1]


def test_without_a_screen_drawing_is_offscreen_and_a_choice_of_the_user_stays():
    from autotelic.physics import OFFSCREEN, _loads

    there = [way for way, (library, _) in OFFSCREEN.items() if _loads(library)]
    assert chosen() == (there[0] if there else "None")
    assert chosen(DISPLAY=":0") == "None"
    assert chosen(MUJOCO_GL="glfw") == "glfw"


def test_a_way_to_draw_that_is_not_installed_is_one_line(monkeypatch):
    from autotelic import physics

    monkeypatch.setattr(physics, "OFFSCREEN", {"egl": ("libNowhere.so.1", "libnowhere1")})
    monkeypatch.setenv("MUJOCO_GL", "egl")
    with pytest.raises(UserError, match=r"MUJOCO_GL=egl: libNowhere\.so\.1 is not installed: apt install libnowhere1"):
        physics.choose_gl()
    monkeypatch.delenv("MUJOCO_GL")
    monkeypatch.delenv("DISPLAY", raising=False)
    physics.choose_gl()
    assert "MUJOCO_GL" not in os.environ
