"""Runs side by side: groups of equal configuration, their figures over seeds, and differences paired by seed.

Runs whose configuration differs in nothing but the seed are one group. The first group is the reference: every other
is compared with it on the seeds that both have, so that what a seed does to both cancels out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autotelic.errors import UserError
from autotelic.runs.directory import Run
from autotelic.show.figures import Curves, in_order
from autotelic.show.intervals import LEVEL, Estimate, estimate

# Parts of a configuration that cannot change what is learned.
_ASIDE = ("seed", "run", "root", "log", "checkpoint", "evaluate_every")
_MACHINE = {"commit": "code", "cpu": "CPU", "threads": "thread count"}
_LABEL = 30  # characters of a group's name; a longer one is a letter


@dataclass(frozen=True)
class Compared:
    """A finished run: what was asked, and its headline figures, "deduction after" and so on."""

    path: Path
    verb: str
    subject: str  # the world or environment
    seed: int
    config: Mapping[str, Any]  # by dotted key, without what is None
    figures: Mapping[str, float]
    curves: Curves
    meta: Mapping[str, Any]


@dataclass
class Group:
    """Runs that differ in their seed only."""

    runs: list[Compared]
    label: str = ""
    config: dict[str, Any] = field(default_factory=dict)  # of the keys that differ between groups

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    def estimate(self, figure: str) -> Estimate | None:
        values = [run.figures[figure] for run in self.runs if figure in run.figures]
        return estimate(values) if values else None


@dataclass(frozen=True)
class Comparison:
    verb: str
    subject: str
    figures: list[str]
    groups: list[Group]
    notes: list[str]

    def difference(self, group: Group, figure: str) -> Estimate | None:
        """Of a group from the first, over the seeds that both have; None if they share none."""
        reference = {run.seed: run.figures.get(figure) for run in self.groups[0].runs}
        pairs = [(run.figures.get(figure), reference.get(run.seed)) for run in group.runs]
        paired = [one - other for one, other in pairs if one is not None and other is not None]
        return estimate(paired) if paired else None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for scripts."""
        return {
            "verb": self.verb,
            "subject": self.subject,
            "level": LEVEL,
            "groups": [
                {
                    "label": group.label,
                    "config": group.config,
                    "runs": [str(run.path) for run in group.runs],
                    "seeds": group.seeds,
                    "figures": {figure: _plain(group.estimate(figure)) for figure in self.figures},
                    "difference": None
                    if group is self.groups[0]
                    else {figure: _plain(self.difference(group, figure)) for figure in self.figures},
                }
                for group in self.groups
            ],
            "notes": self.notes,
        }


def _plain(found: Estimate | None) -> dict[str, Any] | None:
    return asdict(found) if found is not None else None


# --- reading --------------------------------------------------------------------------------------------------------


def read_run(path: str | Path) -> Compared:
    """A run to compare; UserError for one that has no figures yet."""
    with Run.open(path, readonly=True) as run:
        result = run.result()
        if result is None or result.get("finished") is not True:
            raise UserError(f"{run.path}: not finished, nothing to compare yet: autotelic resume {run.path}")
        if type(result.get("seed")) is not int:
            raise UserError(f"{run.path / 'result.json'}: damaged: it has no seed")
        figures = headline(result)
        if not figures:
            raise UserError(
                f"{run.path}: result.json has no figures of an evaluation (was it run with evaluate=false?)"
            )
        config = dict(flat({key: value for key, value in run.config().items() if key not in _ASIDE}))
        subject = str(result.get("world") or result.get("env") or "")
        curves = Curves.read(run.metrics.path)
        return Compared(run.path, str(result.get("verb")), subject, result["seed"], config, figures, curves, run.meta)


def headline(result: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a result.json that runs are compared by, in the order they are shown."""
    found: dict[str, Any] = {}
    heldout = result.get("heldout") or {}
    for kind in in_order(heldout):
        before, after = heldout[kind].get("before"), heldout[kind].get("after")
        found |= {f"{kind} before": before, f"{kind} after": after}
        if _is_number(before) and _is_number(after):
            found[f"{kind} gain"] = after - before
        depths = heldout[kind].get("depth")
        for depth, part in depths.items() if isinstance(depths, Mapping) else ():
            found[f"{kind} depth {depth} after"] = part.get("after") if isinstance(part, Mapping) else None
    measured = result.get("eval")
    if isinstance(measured, Mapping):
        found |= {name: value for name, value in measured.items() if name != "episodes"}
    for stage in result.get("stages") or []:
        if isinstance(stage, Mapping):
            found[f"{stage.get('name')} success_rate"] = stage.get("success_rate")
    return {name: float(value) for name, value in found.items() if _is_number(value)}


def is_share(figure: str) -> bool:
    """Whether a figure is a share of one, shown in percent."""
    return figure.endswith((" before", " after", " gain", "success_rate"))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """A nested configuration by dotted keys. What is None says as much as what is absent."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


# --- comparing ------------------------------------------------------------------------------------------------------


def compare(runs: Sequence[Compared]) -> Comparison:
    """Groups in the order their first runs were named; within a group by seed."""
    if len(runs) < 2:
        raise UserError("compare needs at least two runs")
    first = runs[0]
    places: set[Path] = set()
    for run in runs:
        if run.path.resolve() in places:
            raise UserError(f"{run.path} is named twice")
        places.add(run.path.resolve())
        if (run.verb, run.subject) != (first.verb, first.subject):
            raise UserError(
                f"{run.path} is {run.verb} of {run.subject}, {first.path} is {first.verb} of {first.subject}: "
                "only runs of one kind can be compared"
            )
    groups = _grouped(runs)
    figures = list(dict.fromkeys(name for run in runs for name in run.figures))
    return Comparison(first.verb, first.subject, figures, groups, _notes(runs, groups))


def _grouped(runs: Sequence[Compared]) -> list[Group]:
    groups: list[Group] = []
    for run in runs:
        mine = next((group for group in groups if group.runs[0].config == run.config), None)
        if mine is None:
            groups.append(mine := Group([]))
        twin = next((other for other in mine.runs if other.seed == run.seed), None)
        if twin is not None:
            raise UserError(f"{twin.path} and {run.path} have the same configuration and seed: name one of them")
        mine.runs.append(run)
    keys = _telling([group.runs[0].config for group in groups])
    for at, group in enumerate(groups):
        group.runs.sort(key=lambda run: run.seed)
        group.config = {key: group.runs[0].config.get(key) for key in keys}
        group.label = _label(at, group.config, len(groups))
    return groups


def _telling(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys that differ. Where a part is another one altogether (player.name), its own keys follow from that."""
    keys = list(dict.fromkeys(key for config in configs for key in config))
    differ = [key for key in keys if any(config.get(key) != configs[0].get(key) for config in configs)]
    replaced = tuple(key.removesuffix("name") for key in differ if key.endswith(".name"))

    def follows(key: str) -> bool:
        inside = key.startswith(replaced) and not key.endswith(".name")
        return inside and any(config.get(key) is None for config in configs)

    return [key for key in differ if not follows(key)]


def _label(at: int, config: Mapping[str, Any], groups: int) -> str:
    """What sets a group apart if that is one short setting, else a letter."""
    if groups == 1:
        return "all"
    if len(config) == 1:
        (key, value) = next(iter(config.items()))
        said = f"{key.removesuffix('.name').rpartition('.')[2]}={show(value)}"
        if len(said) <= _LABEL:
            return said
    return chr(ord("A") + at) if at < 26 else f"group {at + 1}"


def show(value: Any) -> str:
    """A setting in few characters."""
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _notes(runs: Sequence[Compared], groups: Sequence[Group]) -> list[str]:
    """What a reader of the figures has to know."""
    notes = []
    if len(groups) == 1:
        notes.append("one configuration: nothing to tell apart")
    for group in groups[1:]:
        shared = sorted(set(group.seeds) & set(groups[0].seeds))
        pair = f"{group.label} and {groups[0].label}"
        if not shared:
            notes.append(f"{pair} have no seed in common: no paired difference")
        elif len(shared) == 1:
            notes.append(f"{pair} share one seed ({shared[0]}): a difference, but no interval")
        else:
            listed = ", ".join(map(str, shared[:12])) + (", …" if len(shared) > 12 else "")
            notes.append(
                f"{pair}: {100 * LEVEL:g} % t interval of {len(shared)} differences, paired by seed ({listed})"
            )
        alone = sorted(set(group.seeds) ^ set(groups[0].seeds))
        if shared and alone:
            notes.append(
                f"{pair}: left out of the differences, for want of a partner: seeds {', '.join(map(str, alone))}"
            )
    for key, what in _MACHINE.items():
        found = dict.fromkeys(show(run.meta.get(key))[:60] for run in runs)
        if len(found) > 1:
            notes.append(f"the runs differ in {what}: {', '.join(found)}")
    return notes
