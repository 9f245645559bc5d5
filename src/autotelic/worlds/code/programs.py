"""What can be said of a program without running it: quick feedback, and a canonical form that finds duplicates.

None of this is for safety. A static check is no boundary (every one of them has been escaped); it only saves the
sandbox work and tells a proposer early what is not wanted. The sandbox is the boundary.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from autotelic.worlds.code import measure

MAX_PROGRAM = 20_000  # characters
MAX_NESTING = 60  # of brackets
MAX_TREE = 150  # levels of the syntax tree: what walks it recursively stays far from Python's own limit
ENTRY = "f"


class ProgramError(Exception):
    """Why a program is not run: a class (syntax, no_entry, forbidden) and a reason."""

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
    program = Program(source, parse(source))
    if not any(_defines(statement, entry) for statement in program.tree.body):
        raise ProgramError("no_entry", f"no function {entry} is defined")
    for found in _forbidden(program.tree, rules):
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
    return tree


def _levels(tree: ast.AST) -> int:
    levels, layer = 0, [tree]
    while layer:
        levels += 1
        layer = [child for node in layer for child in ast.iter_child_nodes(node)]
    return levels


_SKIP_OR_BRACKET = re.compile(
    r"""\#[^\n]*+ | '''(?:[^\\]|\\.)*?''' | \"\"\"(?:[^\\]|\\.)*?\"\"\"
      | '(?:[^'\\\n]++|\\.)*+' | "(?:[^"\\\n]++|\\.)*+" | [\[({] | [\])}]""",
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


def _forbidden(tree: ast.Module, rules: Rules) -> Iterator[str]:
    modules, names = set(rules.forbidden_modules), set(rules.forbidden_names)
    bound = _bound_names(tree)
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
            if node.id in names and (node.id not in bound or _is_dunder(node.id)):
                yield f"name {node.id}"
        elif isinstance(node, ast.Attribute) and node.attr in names and _is_dunder(node.attr):
            yield f"attribute {node.attr}"


def _in_modules(dotted: str, modules: set[str]) -> bool:
    """`os.path` is forbidden by `os`, and `concurrent.futures` by itself."""
    parts = dotted.split(".")
    return any(".".join(parts[: count + 1]) in modules for count in range(len(parts)))


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _bound_names(tree: ast.AST) -> set[str]:
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            bound.add(node.name)
    return bound


# --- canonical form -------------------------------------------------------------------------------------------------

# Where a program can see its own names, a renamed copy may behave differently: then nothing is renamed.
# fmt: off
_REFLECTIVE = frozenset((
    "eval", "exec", "compile", "locals", "globals", "vars", "dir", "help", "getattr", "setattr", "delattr",
    "hasattr", "breakpoint", "attrgetter", "methodcaller", "singledispatch", "singledispatchmethod", "format_map",
))
_PLAIN_MODULES = frozenset((
    "array", "bisect", "collections", "copy", "decimal", "fractions", "functools", "heapq", "itertools", "math",
    "numbers", "operator", "re", "statistics", "string", "textwrap",
))
# fmt: on
_SCOPED = (ast.ClassDef, ast.Global, ast.Nonlocal, ast.Match, ast.AsyncFunctionDef, ast.Await)
_FRAME_ATTRIBUTE = re.compile(r"(gi|cr|ag|f|tb|co)_")
_NEW_NAME = re.compile(r"v\d+")
_BUILTIN_NAMES = frozenset(dir(builtins))


def canonical_form(source: str, entry: str = ENTRY) -> str:
    """A text that renamed copies of a parsable program share.

    Names are renamed all over the program at once, in order of appearance, and only those that are bound in it and
    are nothing but variables: one mapping, one to one, applied everywhere, keeps every binding as it was. A program
    that could see its own names keeps them.
    """
    tree = parse(source)
    if not any(_sees_names(node) for node in ast.walk(tree)):
        tree = _Strip().visit(tree)
        tree = _Rename(_renaming(tree, entry)).visit(tree)
    return ast.dump(tree)


def _sees_names(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _REFLECTIVE or _is_dunder(name)
        case ast.Attribute(attr=name, value=owner):
            if (
                name == "format"
            ):  # "{0.__code__}".format(f): an attribute read through a string put together at run time
                return not isinstance(owner, ast.Constant)
            return name in _REFLECTIVE or _is_dunder(name) or _FRAME_ATTRIBUTE.match(name) is not None
        case ast.Constant(value=str(text)):
            return "__" in text
        case ast.Import(names=names):
            return any(alias.name.split(".")[0] not in _PLAIN_MODULES for alias in names)
        case ast.ImportFrom(module=module, names=names):
            if module == "typing":  # the types themselves, not the functions that read annotations
                return not all(alias.name[0].isupper() for alias in names)
            return module not in _PLAIN_MODULES or any(alias.name in _REFLECTIVE | {"*"} for alias in names)
        case ast.ExceptHandler(name=name):
            return name is not None  # messages name variables and functions
        case ast.keyword(arg=name):
            return name is None  # f(**names)
        case ast.AnnAssign(value=value, target=target):
            return value is None or not isinstance(target, ast.Name)  # a bare annotation makes a name local
        case ast.arg(annotation=annotation) if annotation is not None:
            return _has_effects(annotation)
        case ast.FunctionDef(returns=returns) if returns is not None:
            return _has_effects(returns)
    return isinstance(node, _SCOPED)


def _has_effects(annotation: ast.expr) -> bool:
    return any(isinstance(node, ast.Call | ast.NamedExpr | ast.Yield | ast.YieldFrom) for node in ast.walk(annotation))


class _Strip(ast.NodeTransformer):
    """Drops what does not change behaviour: docstrings, annotations, the `u` of u"text"."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        self.generic_visit(node)
        node.body = _without_docstring(node.body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        node.body = _without_docstring(node.body)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        if node.value is None or _has_effects(node.annotation):
            return node
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        node.kind = None
        return node


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:] or [ast.Pass()]
    return body


def _renaming(tree: ast.Module, entry: str) -> dict[str, str]:
    """New names for the names that are variables and nothing else."""
    ordered: dict[str, None] = {}
    fixed = {entry} | _BUILTIN_NAMES
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    functions: set[str] = set()
    values: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            ordered[node.id] = None
            if id(node) not in called:
                values.add(node.id)
        elif isinstance(node, ast.arg):
            ordered[node.arg] = None
        elif isinstance(node, ast.FunctionDef):
            ordered[node.name] = None
            functions.add(node.name)
            if node.decorator_list:
                values.add(node.name)
        elif isinstance(node, ast.keyword) and node.arg is not None:
            fixed.add(node.arg)
        elif isinstance(node, ast.alias):
            fixed.add((node.asname or node.name).split(".")[0])
    # A function handed around as a value shows its name in str(); an unbound name shows in nothing, but is not ours.
    free = [name for name in ordered if name in _bound_names(tree) - fixed - (functions & values)]
    if any(_NEW_NAME.fullmatch(name) for name in ordered if name not in free):
        return {}
    return {name: f"v{position}" for position, name in enumerate(free)}


class _Rename(ast.NodeTransformer):
    def __init__(self, mapping: dict[str, str]) -> None:
        self.mapping = mapping

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.mapping.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.mapping.get(node.arg, node.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self.mapping.get(node.name, node.name)
        self.generic_visit(node)
        return node
