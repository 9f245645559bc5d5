"""What can be said of a program without running it: quick feedback, and a canonical form that finds duplicates.

None of this is for safety. A static check is no boundary (every one of them has been escaped); it only saves the
sandbox work and tells a proposer early what is not wanted. The sandbox is the boundary.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from autotelic.worlds.code import canonical, measure
from autotelic.worlds.code.sandbox import values

MAX_PROGRAM = 20_000  # characters
MAX_NESTING = 60  # of brackets
MAX_TREE = 150  # levels of the syntax tree: what walks it recursively stays far from Python's own limit
ENTRY = "f"


class ProgramError(Exception):
    """Why a program is not run: a class (syntax, size, no_entry, forbidden) and a reason."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


# fmt: off
FORBIDDEN_MODULES = (
    "asyncio", "builtins", "calendar", "code", "concurrent", "ctypes", "datetime", "faulthandler", "gc", "glob",
    "http", "importlib", "inspect", "io", "logging", "marshal", "mmap", "multiprocessing", "os", "pathlib",
    "pickle", "pkgutil", "posix", "random", "resource", "runpy", "secrets", "select", "shutil", "signal", "socket",
    "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid", "_thread",
)
FORBIDDEN_NAMES = (
    "__import__", "__builtins__", "__subclasses__", "__globals__", "__code__", "breakpoint", "compile", "eval",
    "exec", "exit", "globals", "help", "input", "locals", "open", "print", "quit",
)
# fmt: on


@dataclass
class Rules:
    """What is not wanted in a program, by exact name."""

    forbidden_modules: list[str] = field(default_factory=lambda: list(FORBIDDEN_MODULES))
    forbidden_names: list[str] = field(default_factory=lambda: list(FORBIDDEN_NAMES))


@dataclass(frozen=True)
class Program:
    """A program that parses and has its entry function."""

    source: str
    tree: ast.Module

    @cached_property
    def canonical(self) -> str:
        """Equal for programs that differ only in names of local things, comments, annotations and layout."""
        return canonical_form(self.source)

    @cached_property
    def features(self) -> dict[str, float]:
        return measure.features(self.tree, self.source)


def check(source: str, rules: Rules, entry: str = ENTRY) -> Program:
    """The program, or ProgramError with the class of the first thing that is wrong with it."""
    return _checked(source, tuple(rules.forbidden_modules), tuple(rules.forbidden_names), entry)


# Players write the same program many times over.
@lru_cache(maxsize=16384)
def _checked(source: str, modules: tuple[str, ...], names: tuple[str, ...], entry: str) -> Program:
    program = Program(source, parse(source))
    if not any(_defines(statement, entry) for statement in program.tree.body):
        raise ProgramError("no_entry", f"no function {entry} is defined")
    for found in _forbidden(program.tree, modules, names):
        raise ProgramError("forbidden", found)
    return program


def parse(source: str) -> ast.Module:
    """The syntax tree. Length and nesting are bounded first: the parser runs in the trusted process."""
    if len(source) > MAX_PROGRAM:
        raise ProgramError("syntax", f"longer than {MAX_PROGRAM} characters")
    if _nesting(source) > MAX_NESTING:
        raise ProgramError("syntax", f"nested deeper than {MAX_NESTING}")
    try:
        with warnings.catch_warnings():  # an odd escape in a player's text is no news for the user's terminal
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        raise ProgramError("syntax", f"line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        # NUL and lone surrogates; long chains of operators, which nest without brackets
        raise ProgramError("syntax", f"cannot be parsed: {type(error).__name__}") from None
    if _levels(tree) > MAX_TREE:
        raise ProgramError("syntax", f"more than {MAX_TREE} levels deep")
    if any(_over_bound(node) for node in ast.walk(tree)):
        raise ProgramError("size", f"an int of more than {values.MAX_INT_BITS} bits")
    return tree


@lru_cache(maxsize=16384)
def canonical_form(source: str, entry: str = ENTRY) -> str:
    """A text that renamed copies of a parsable program share."""
    return canonical.canonical_form(parse(source), entry)


def _over_bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value.bit_length() > values.MAX_INT_BITS


def _levels(tree: ast.AST) -> int:
    levels, layer = 0, [tree]
    while layer:
        levels += 1
        layer = [child for node in layer for child in ast.iter_child_nodes(node)]
    return levels


# A string that is never closed is skipped as well: to look again from each quote in it would take quadratic time.
_SKIP_OR_BRACKET = re.compile(
    r"""\#[^\n]*+ | '''(?:[^\\]|\\.)*?(?:'''|\\?\Z) | \"\"\"(?:[^\\]|\\.)*?(?:\"\"\"|\\?\Z)
      | '(?:[^'\\\n]++|\\.)*+'?+ | "(?:[^"\\\n]++|\\.)*+"?+ | [\[({] | [\])}]""",
    re.VERBOSE | re.DOTALL,
)


def _nesting(source: str) -> int:
    brackets = deepest = 0
    for match in _SKIP_OR_BRACKET.finditer(source):
        if match.group() in "[({":
            brackets += 1
            deepest = max(deepest, brackets)
        elif match.group() in "])}":
            brackets = max(0, brackets - 1)
    return deepest


def _defines(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.FunctionDef):
        return statement.name == name
    if isinstance(statement, ast.Assign):
        targets = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        return name in targets and isinstance(statement.value, ast.Lambda)
    return False


def _forbidden(tree: ast.Module, modules: Collection[str], names: Collection[str]) -> Iterator[str]:
    bound = canonical.bound_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _in_modules(alias.name, modules):
                    yield f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            if node.level or _in_modules(node.module or "", modules):
                yield f"from {'.' * node.level}{node.module or ''} import"
        elif isinstance(node, ast.Name):
            # A parameter called `input` is the program's own; a dunder is never taken for one.
            if node.id in names and (node.id not in bound or canonical.is_dunder(node.id)):
                yield f"name {node.id}"
        elif isinstance(node, ast.Attribute) and node.attr in names and canonical.is_dunder(node.attr):
            yield f"attribute {node.attr}"


def _in_modules(dotted: str, modules: Collection[str]) -> bool:
    """`os.path` is forbidden by `os`, and `concurrent.futures` by itself."""
    parts = dotted.split(".", 1 + max((name.count(".") for name in modules), default=0))
    return any(".".join(parts[: count + 1]) in modules for count in range(len(parts)))
