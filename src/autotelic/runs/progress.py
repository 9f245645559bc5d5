"""The one progress display: a live bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

PLAIN_SECONDS = 10.0  # between plain lines


def stderr_console() -> Console:
    """Progress and remarks go to stderr: stdout is for results, which scripts read."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """A time people read: 0:07, 12:30, 3:05:00."""
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{whole:02d}" if hours else f"{minutes}:{whole:02d}"


class Display:
    """Shows how far long work is, how fast it goes, what is left, and where its results go.

    `total` counts units; with `minutes` the bound on time may be the nearer one, and what is left follows it.
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        *,
        done: int = 0,
        unit: str = "steps",
        minutes: float | None = None,
        results: str = "",
        console: Console | None = None,
        plain_seconds: float = PLAIN_SECONDS,
    ) -> None:
        self.label, self.total, self.unit, self.minutes, self.results = label, total, unit, minutes, results
        self.console = console or stderr_console()
        self._plain_seconds = plain_seconds
        self._first = self._done = done
        self._began = self._shown = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> Display:
        self._began = self._shown = time.monotonic()
        if self.results:
            self.console.print(f"{self.label}: results go to {self.results}", markup=False)
        if self.console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.completed}/{task.fields[bound]}"),
                TextColumn("{task.fields[rate]}"),
                TextColumn("{task.fields[left]}"),
                TextColumn("{task.fields[figures]}", style="dim", markup=False),
                console=self.console,
                transient=True,
            )
            fields = {"bound": self.total or "?", "rate": "", "left": "", "figures": ""}
            self._task = self._bar.add_task(self.label, total=self.total, completed=self._first, **fields)
            self._bar.start()
        return self

    def rate(self) -> float:
        """Units a second since the display began."""
        elapsed = time.monotonic() - self._began
        return (self._done - self._first) / elapsed if elapsed > 0 else 0.0

    def left(self) -> float | None:
        """Seconds to the nearer bound, or None while nothing is known."""
        rate, bounds = self.rate(), []
        if self.total is not None and rate > 0:
            bounds.append((self.total - self._done) / rate)
        if self.minutes is not None:
            bounds.append(self.minutes * 60 - (time.monotonic() - self._began))
        return max(min(bounds), 0.0) if bounds else None

    def update(self, done: int, figures: Mapping[str, float] | None = None) -> None:
        self._done = done
        shown = "  ".join(f"{name} {value:.3g}" for name, value in (figures or {}).items())
        if self._bar is not None:
            rate = f"{self.rate():.3g} {self.unit}/s"
            self._bar.update(self._task, completed=done, rate=rate, left=self._left(), figures=shown)
        elif time.monotonic() - self._shown >= self._plain_seconds:
            self._shown = time.monotonic()
            self._line(shown)

    def say(self, text: str) -> None:
        """A remark, printed above the bar."""
        self.console.print(text, markup=False)

    def _left(self) -> str:
        left = self.left()
        return f"{duration(left)} left" if left is not None else ""

    def _line(self, figures: str) -> None:
        parts = [
            f"{self.label}: {self._done}/{self.total if self.total is not None else '?'} {self.unit}",
            f"{self.rate():.3g} {self.unit}/s",
            self._left(),
            figures,
        ]
        self.console.print("  ".join(part for part in parts if part), markup=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elapsed = duration(time.monotonic() - self._began)
        self.console.print(
            f"{self.label}: {self._done} {self.unit} done, {elapsed}, {self.rate():.3g} {self.unit}/s", markup=False
        )
