"""The parts of a report that show what was learned: held-out accuracy, both roles, how hard tasks are, the learner."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotelic.show import plots
from autotelic.show.figures import ROLES, Floats, in_order
from autotelic.show.markup import Page, card, grid, kind_lines, lines, number, percent, ranked, table

_MAX_CHARTS = 12  # of a group whose names come from the run: features, the learner's own figures
_DEPTHS = ("sky", "purple", "red", "dark", "yellow", "brown", "grey")
_FEATURES = ("depth", "operations")  # shown of attempted tasks too

# What a learner reports: name → title, note. Others are shown by their names.
_WHOLE = {
    "loss": ("Loss", "mean of a step's updates"),
    "grad_norm": ("Gradient norm", "before it is clipped, mean of a step's updates"),
    "replay_loss": ("Loss of remembered texts", "mean of a step's updates"),
    "replay_grad_norm": ("Gradient norm of remembered texts", "before it is clipped, mean of a step's updates"),
    "kl_old": ("Divergence within a step", "from the weights that began it, before any replay, nats a token"),
    "clipped": ("Clipped tokens", "share whose ratio was cut"),
    "ratio_max": ("Largest ratio", "of new to old probability, of a token"),
    "updates": ("Updates", "a step"),
    "replay_updates": ("Updates on remembered texts", "a step"),
}
_BY_KIND = {
    "entropy": ("entropy", "nats a token"),
    "length": ("length", "tokens a text"),
    "zero_variance": ("groups that teach nothing", "share whose samples all earned the same"),
    "kl_old": ("divergence within a step", "from the weights that began it, before any replay, nats a token"),
    "kl_base": ("divergence from the base", "nats a token"),
    "grad_norm": ("gradient norm", "of a step's first update"),
    "finished": ("texts that end", "share not cut by the bound on tokens"),
}
_SHARES = ("clipped", "finished", "zero_variance")
_WHO = {"propose": "Proposer", "solve": "Solver"}


# --- held-out accuracy ----------------------------------------------------------------------------------------------


def heldout_table(page: Page) -> str:
    """Before and after by kind, for the headline."""
    if not page.heldout:
        return ""
    suite = page.run.config().get("evaluate_suite")
    return _before_after(
        f"Held-out accuracy{f': {suite}' if suite else ''}",
        {kind: page.heldout[kind] for kind in in_order(page.heldout)},
        page.colours,
    ).replace('class="card"', 'class="card wide"', 1)


def heldout(page: Page) -> str:
    """By depth before and after; and over time, where it was measured while the run went on."""
    over_time = {name for name in page.curves.under("heldout") if "/" not in name}
    ends, courses = [], []
    if over_time:
        rows = {kind: _over_time(page, kind) for kind in in_order(over_time)}
        courses.append(lines(page, "Held-out accuracy over time", "by kind", rows, page.colours, share=True))
    for kind in in_order(over_time | set(page.heldout)):
        depths = _part(page.heldout.get(kind), "depth")
        known = sorted({*depths, *page.curves.under(f"heldout/{kind}/depth")}, key=_by_number)
        colours = {f"depth {depth}": _DEPTHS[at % len(_DEPTHS)] for at, depth in enumerate(known)}
        rows = {f"depth {depth}": _over_time(page, kind, depth) for depth in known}
        courses.append(lines(page, f"Held-out {kind} over time", "by depth", rows, colours, share=True))
        if len(depths) > 1:
            parts = {f"depth {depth}": depths[depth] for depth in known if depth in depths}
            ends.append(_before_after(f"Held-out {kind} by depth", parts, colours))
    return grid([*ends, *courses])


def _before_after(title: str, parts: Mapping[str, object], colours: Mapping[str, str]) -> str:
    found = {label: _part(part) for label, part in parts.items()}
    ends = {label: (number(part.get("before")), number(part.get("after"))) for label, part in found.items()}
    plot = plots.before_after(title, [(label, colours.get(label, "dark"), *pair) for label, pair in ends.items()])
    counts = {label: part.get("n") for label, part in found.items()}
    columns, rows = ["", "before", "after"], [[label, *map(percent, pair)] for label, pair in ends.items()]
    if any(counts.values()):
        columns, rows = [*columns, "tasks"], [[*row, counts[row[0]] or "-"] for row in rows]
    note = "one greedy attempt a task; hollow: before, full: after"
    return card(title, note, plot + table(columns, rows))


def _over_time(page: Page, kind: str, depth: str | None = None) -> Floats:
    """What was measured in steps; what was measured after the last of them is its figure, if it has none."""
    row = page.curves.get(f"heldout/{kind}" if depth is None else f"heldout/{kind}/depth/{depth}").copy()
    part = _part(page.heldout.get(kind))
    after = number((part if depth is None else _part(_part(part, "depth").get(depth))).get("after"))
    if after is not None and np.isfinite(row).any() and np.isnan(row[-1]):
        row[-1] = after
    return row


def _part(found: object, name: str | None = None) -> Mapping[str, object]:
    """A mapping inside plain data that may be anything."""
    part = found if isinstance(found, dict) else {}
    return part if name is None else _part(part.get(name))


def _by_number(depth: str) -> tuple[float, str]:
    return (float(depth) if depth.replace(".", "", 1).isdigit() else float("inf"), depth)


# --- players, tasks, learner ----------------------------------------------------------------------------------------


def players(page: Page) -> str:
    wanted = [
        ("solve", "solve_rate", "Solve rate", "share of attempts that solved their task", True),
        ("propose", "valid_share", "Valid proposals", "share of proposals the world admitted", True),
        ("solve", "reward", "Solver's reward", "mean an attempt", False),
        ("propose", "reward", "Proposer's reward", "mean a proposal", False),
        ("propose", "duplicate_share", "Duplicates", "share of proposals that were known already", True),
        ("solve", "evidence_share", "Attempts that are evidence", "neither cut by a time limit nor lost", True),
        ("solve", "new_tasks", "New tasks in the batch", "the rest is filled up from the archive", False),
    ]
    cards = [
        kind_lines(page, title, note, f"{role}/{{kind}}/{name}", share=share)
        for role, name, title, note, share in wanted
    ]
    cards.append(kind_lines(page, "Active tasks", "in the archive", "archive/{kind}/active"))
    drawn = grid(cards, "No step has been measured yet.")
    note = (
        '<p class="note">Faint: each step, or the span of neighbouring steps. Strong: their running mean. Beside each '
        "name: mean of the first tenth of the steps → mean of the last.</p>"
    )
    return note + drawn if any(cards) else drawn


def difficulty(page: Page) -> str:
    """How hard tasks are: as attempts measured it, and as their features describe it."""
    of = {"propose": "New tasks", "solve": "Attempted tasks"}
    note = {"propose": "this step's proposals that were admitted", "solve": "new ones and those from the archive"}
    cards = []
    for role in ROLES:
        rate, worth = f"{role}/{{kind}}/solve_rate", f"{role}/{{kind}}/learnability"
        cards.append(kind_lines(page, f"{of[role]}: solve rate", note[role], rate, share=True))
        cards.append(kind_lines(page, f"{of[role]}: learnability", note[role], worth))
    features = {name for role in ROLES for kind in page.kinds for name in page.curves.under(f"{role}/{kind}/feature")}
    charts = [(role, name) for name in _FEATURES for role in ROLES]
    charts += [("propose", name) for name in sorted(features - {*_FEATURES})[:_MAX_CHARTS]]
    for role, name in charts:
        pattern = f"{role}/{{kind}}/feature/{name}"
        cards.append(kind_lines(page, f"{of[role]}: {name}", f"mean of {note[role]}", pattern))
    return grid(cards, "No task has been attempted yet.")


def learner(page: Page) -> str:
    """All that the learner reported: of the whole step, by player where two learn; then by role with a line a kind."""
    found = page.curves.under("learn")
    whole = [name for name in found if name.partition("/")[0] not in ROLES]
    cards = []
    for name in ranked(whole, [f"{who}{what}" for what in _WHOLE for who in ("", "proposer/", "solver/")], _MAX_CHARTS):
        who, _, what = name.rpartition("/")
        title, note = _WHOLE.get(what, (what, ""))
        title = f"{who.capitalize() or 'Learner'}: {title}" if who or what not in _WHOLE else title
        how = {"share": what in _SHARES, "from_zero": False}
        cards.append(lines(page, title, note, {name: found[name]}, {name: "dark"}, **how))
    for role in ROLES:
        by_name = _by_name(page, role)
        for name in ranked(by_name, _BY_KIND, _MAX_CHARTS):
            title, note = _BY_KIND.get(name, (name, ""))
            how = {"share": name in _SHARES}
            cards.append(lines(page, f"{_WHO[role]}: {title}", note, by_name[name], page.colours, **how))
    return grid(cards)


def _by_name(page: Page, role: str) -> dict[str, dict[str, Floats]]:
    """A role's figures by name, then kind. Groups that teach nothing are a share of all groups."""
    found: dict[str, dict[str, Floats]] = {}
    for kind in page.kinds:
        for name, row in page.curves.under(f"learn/{role}/{kind}").items():
            found.setdefault(name, {})[kind] = row
    groups, flat = found.pop("groups", {}), found.pop("zero_variance_groups", {})
    shared = {kind: row / np.maximum(groups[kind], 1) for kind, row in flat.items() if kind in groups}
    return found | ({"zero_variance": shared} if shared else {})
