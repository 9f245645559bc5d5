"""report.html of a run of training: how well the policy does, a film of it, and how it came to that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autotelic.runs.directory import Run
from autotelic.show import plots
from autotelic.show.document import configuration, cost, document, minutes, tiles
from autotelic.show.figures import Curves, Floats, ends
from autotelic.show.markup import Page, card, grid, lines, number, percent, ranked, table, text, two
from autotelic.show.plots import Curve

_MAX_CHARTS = 24  # of a group whose names come from the run
_MAX_LINES = 9  # of a chart
_MAX_ROWS = 60  # of the table of measurements
_COLOURS = ("blue", "orange", "green", "red", "purple", "sky", "brown", "yellow", "grey")
_PHASES = {"rollout": "blue", "learn": "purple"}
_STEP = re.compile(r"step_(\d{6,})\.mp4")

# Figures of episodes, as they are learned from and as they are measured: title, note.
_EPISODE = {
    "return": ("Return", "sum of an episode's rewards"),
    "length": ("Length", "steps of an episode"),
    "success": ("Success", "share of episodes"),
}
_MEASURED = {"return_mean": "return", "length_mean": "length", "success_rate": "success"}  # as measurements name them
_SHARES = ("success", "clipped")

# What the learner reports: title, note. Others are shown by their names.
_LEARNER = {
    "policy_loss": ("Policy's loss", "mean of an update's minibatches"),
    "value_loss": ("Value's loss", "mean of an update's minibatches"),
    "mirror_loss": ("Mirror loss", "how far actions are from those in the mirror"),
    "kl": ("Divergence", "of the new policy from the one that acted, nats"),
    "lr": ("Learning rate", ""),
    "entropy": ("Entropy", "nats an action"),
    "std": ("Deviation", "of an action, mean over its parts"),
    "explained_variance": ("Explained variance", "of returns by the values expected; 1 is all of it"),
    "clipped": ("Clipped", "share of decisions whose ratio was cut, mirrored ones counted"),
    "ratio_max": ("Largest ratio", "of new to old probability of a decision, mirrored ones counted"),
    "grad_norm": ("Gradient norm", "before it is clipped"),
    "epochs": ("Passes", "over a rollout, before the divergence stopped them"),
}


def shown(run: Run) -> str:
    """The page of a run of training."""
    page = Page(run, Curves.read(run.metrics.path), run.result() or {})
    sections = [
        ("headline", "Headline", _headline(page)),
        ("film", "Film", _film(run)),
        ("measured", "Measured without chance", _measured(page)),
        ("episodes", "Episodes", _episodes(page)),
        ("reward", "Reward", _reward(page)),
        ("learner", "Learning", _learner(page)),
        ("cost", "Cost", _cost(page)),
        ("configuration", "Configuration", configuration(page)),
    ]
    return document(page, f"environment {environment_of(run)}", sections, files=True)


def environment_of(run: Run) -> str:
    """The task's name, as a user gives it."""
    section = run.config().get("env")
    section = section if isinstance(section, dict) else {}
    return str(section.get("id") or section.get("name") or "unknown")


def measured_of(result: Mapping[str, Any]) -> dict[str, float]:
    """What the run measured last, by the names of figures."""
    found = result.get("eval")
    figures = {name: number(value) for name, value in found.items()} if isinstance(found, dict) else {}
    return {name: value for name, value in figures.items() if value is not None}


def figure(name: str, value: float | None) -> str:
    """A figure of episodes as people read it: 0.25, 12.5, 5,819; shares in percent."""
    if value is None or not np.isfinite(value):
        return "-"
    if name in ("success", "success_rate"):
        return percent(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else plots.short(value)


def newest_video(run: Run) -> Path | None:
    """The film of the latest step that has one."""
    found = {int(match[1]): path for path in run.path.glob("videos/*.mp4") if (match := _STEP.fullmatch(path.name))}
    return found[max(found)] if found else None


# --- sections -------------------------------------------------------------------------------------------------------


def _headline(page: Page) -> str:
    curves, measured = page.curves, measured_of(page.result)
    steps = int(curves.steps.max()) if len(curves.steps) else 0
    spent, speed = minutes(page), number(page.result.get("steps_per_second"))
    broken = ends(curves.get("broken")) and int(np.nanmax(curves.get("broken")))
    last = {name: pair[1] for name in _EPISODE if (pair := curves.first_and_last(f"episode/{name}"))}
    of = "while it learned" if "return_mean" not in measured else f"mean of {measured.get('episodes', 0):.0f} episodes"
    best = {**last, **{_MEASURED[name]: value for name, value in measured.items() if name in _MEASURED}}
    spread = f" ± {figure('return', measured['return_std'])}" if "return_std" in measured else ""
    chosen = [
        (f"{figure('return', best['return'])}{spread}", f"return, {of}", "") if "return" in best else None,
        (percent(best["success"]), f"success, {of}", "") if "success" in best else None,
        (f"{best['length']:,.0f}", f"steps an episode, {of}", "") if "length" in best else None,
        (f"{steps:,}", "steps", ""),
        (f"{speed:,.0f}", "steps a second", "") if speed else None,
        (f"{spent:.1f}" if spent is not None else "-", "minutes", ""),
        (f"{broken:,}", "simulations broke and were reset", " warn") if broken else None,
    ]
    return tiles([tile for tile in chosen if tile is not None])


def _film(run: Run) -> str:
    video = newest_video(run)
    if video is None:
        return ""
    name = f"videos/{video.name}"
    sheet = video.with_suffix(".png")
    pictures = (
        f'<figure class="card"><h3>Sheet</h3><figcaption>pictures of the film, with their times</figcaption>'
        f'<a href="videos/{sheet.name}"><img src="videos/{sheet.name}" alt="pictures of the film"></a></figure>'
        if sheet.exists()
        else ""
    )
    step = int(video.stem.removeprefix("step_"))
    return (
        f'<div class="two"><figure class="card"><h3>The policy after step {step:,}</h3>'
        f"<figcaption>acting without chance, in real time; {text(name)}</figcaption>"
        f'<video controls loop muted playsinline preload="metadata" src="{name}"></video></figure>{pictures}</div>'
    )


def _measured(page: Page) -> str:
    curves = {name: row.copy() for name, row in page.curves.under("eval").items()}
    final = measured_of(page.result)
    steps = page.curves.steps
    if final and len(steps):  # measured after the last step, if not in it
        for name, value in final.items():
            row = curves.setdefault(name, np.full(len(steps), np.nan))
            if np.isnan(row[-1]):
                row[-1] = value
    if not curves:
        return '<p class="soft">Nothing was measured yet.</p>'
    cards = []
    charted = [name for name in curves if name not in ("episodes", "return_std")]
    for name in ranked(charted, _MEASURED, _MAX_CHARTS):
        called = _MEASURED.get(name, name)
        title, note = _EPISODE.get(called, (called, ""))
        share, spread = called in _SHARES, curves.get("return_std") if called == "return" else None
        note = f"{note}; band: deviation between episodes" if spread is not None else note
        if np.isfinite(curves[name]).sum() > 1:
            plot = plots.lines(f"measured {title}", steps, [Curve(called, "blue", curves[name], spread)], percent=share)
            cards.append(card(title, note, plot))
    return grid(cards) + _table(steps, curves)


def _table(steps: Floats, curves: Mapping[str, Floats]) -> str:
    """All figures of all measurements, the newest first."""
    there = np.flatnonzero(np.any([np.isfinite(row) for row in curves.values()], axis=0))[::-1]
    names = ranked(curves, [*_MEASURED, "return_std", "episodes"], _MAX_CHARTS)
    rows = [
        (f"{steps[at]:,.0f}", *(figure(name, float(curves[name][at])) for name in names)) for at in there[:_MAX_ROWS]
    ]
    left = f'<p class="soft">and {len(there) - _MAX_ROWS:,} earlier ones</p>' if len(there) > _MAX_ROWS else ""
    titles = [name.replace("_", " ") for name in names]
    return f'<div class="card"><h3>All measurements</h3>{table(("step", *titles), rows)}{left}</div>'


def _episodes(page: Page) -> str:
    found = page.curves.under("episode")
    cards = []
    for name in ranked([name for name in found if name != "ended"], _EPISODE, _MAX_CHARTS):
        title, note = _EPISODE.get(name, (name.replace("_", " ").capitalize(), ""))
        cards.append(lines(page, title, note, {name: found[name]}, {name: "blue"}, share=name in _SHARES))
    drawn = grid(cards, "No episode has ended yet.")
    if not cards:
        return drawn
    return '<p class="note">Episodes the policy learned from, in which it acts by chance.</p>' + drawn


def _reward(page: Page) -> str:
    """A line a term, the greatest first; small ones in a chart of their own, where they can be seen."""
    found = page.curves.under("reward")
    sizes = {name: float(np.nanmean(np.abs(row))) if np.isfinite(row).any() else 0.0 for name, row in found.items()}
    ordered = sorted((name for name in found if sizes[name]), key=lambda name: (-sizes[name], name))
    cards = []
    for at in range(0, len(ordered), _MAX_LINES):
        names = ordered[at : at + _MAX_LINES]
        colours = dict(zip(names, _COLOURS, strict=False))
        title = "Terms of the reward" if not at else f"Terms of the reward, from the {at + 1}th"
        cards.append(lines(page, title, "mean a step", {name: found[name] for name in names}, colours))
    return two(cards)


def _learner(page: Page) -> str:
    found = page.curves.under("learn")
    cards = []
    for name in ranked(found, _LEARNER, _MAX_CHARTS):
        title, note = _LEARNER.get(name, (name.replace("_", " ").capitalize(), ""))
        how = {"share": name in _SHARES, "from_zero": name in ("kl", "lr", "grad_norm", "epochs")}
        cards.append(lines(page, title, note, {name: found[name]}, {name: "dark"}, **how))
    return grid(cards, "Nothing was learned yet.")


def _cost(page: Page) -> str:
    speed = {"steps a second": page.curves.get("steps_per_second")}
    fast = lines(page, "Steps a second", "rollout and update", speed, {"steps a second": "blue"})
    return two([fast, *cost(page, _PHASES, unit="iteration")], "No time was measured yet.")
