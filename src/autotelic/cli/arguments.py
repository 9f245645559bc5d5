"""What the verbs' command lines share."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table

from autotelic.errors import UserError
from autotelic.registry import nearest

LEVELS = ("debug", "info", "warning", "error")


class Parser(argparse.ArgumentParser):
    """argparse whose mistakes are one line like all others."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (\S+)", message)
        if unknown:
            options = [option for option in self._option_string_actions if option.startswith("--")]
            message = f"unknown option {unknown[1]}: {nearest(unknown[1], options)}"
        raise UserError(f"{message} (see {self.prog} --help)")


def add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--debug", action="store_true", help="show full tracebacks")
    parser.add_argument("--log-level", default="warning", choices=LEVELS, help="how much the log says (warning)")


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Of a verb that starts runs."""
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="what differs from the defaults")
    parser.add_argument("--config", metavar="FILE", help="YAML with keys and values; overrides win over it")
    parser.add_argument("-m", "--multirun", action="store_true", help="sweep: one run for each of key=a,b,c")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Of a verb that does something with a run."""
    parser.add_argument("run", metavar="RUN", help="a run directory, or the name of one under runs/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="see below")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")


def pairs(arguments: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """key=value arguments of a verb that has a fixed few."""
    found: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise UserError(f"'{argument}' is not key=value; keys: {', '.join(known)}")
        if key not in known:
            raise UserError(f"unknown key '{key}': {nearest(key, list(known))}")
        found[key] = value
    return found


def whole(key: str, text: str, least: int = 0) -> int:
    """A whole number from the command line."""
    if not re.fullmatch(r"\d{1,18}", text) or int(text) < least:
        raise UserError(f"{key}={text}: a whole number of at least {least} is wanted")
    return int(text)


def print_json(data: Mapping[str, Any]) -> None:
    print(json.dumps(data, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout, for people. The first column is a name, the others are figures."""
    table = Table(title=title or None, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def measured(result: Mapping[str, Any]) -> str:
    """What a run was measured to be worth, in short: of self-play by kind, of training its return and successes."""
    rows = result.get("heldout") or {}
    parts = [f"{kind} {figure(row.get('before'))}→{figure(row.get('after'))}" for kind, row in rows.items()]
    found = result.get("eval") or {}
    for name, label in (("return_mean", "return"), ("success_rate", "success")):
        if name in found:
            parts.append(f"{label} {figure(found[name])}")
    return "  ".join(parts)


def figure(value: Any) -> str:
    """A figure as people read it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
