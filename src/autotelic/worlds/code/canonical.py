"""The canonical form of a program: one text for copies that differ in names of local things, comments and layout.

Its hash is part of every content address, so it is spelled by this file alone and is the same under every version of
Python that parses the program.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
from typing import Any

# Where a program can see its own names, a renamed copy may behave differently: then nothing is renamed.
# fmt: off
_REFLECTIVE = frozenset((
    "eval", "exec", "compile", "locals", "globals", "vars", "dir", "help", "getattr", "setattr", "delattr",
    "hasattr", "breakpoint", "attrgetter", "methodcaller", "singledispatch", "singledispatchmethod", "format_map",
    "Formatter", "vformat", "get_field", "sys", "exc_info",
    "type",  # type(name, bases, body) makes a class, and a class can catch an error and read its message
))
_PLAIN_MODULES = frozenset((
    "array", "bisect", "collections", "copy", "decimal", "fractions", "functools", "heapq", "itertools", "math",
    "numbers", "operator", "re", "statistics", "string", "textwrap",
))
# Nodes that bind or show names in ways of their own; by name, for not every version of Python has all of them.
_SCOPED = frozenset((
    "ClassDef", "Global", "Nonlocal", "Match", "AsyncFunctionDef", "Await",
    "TypeAlias", "TypeVar", "ParamSpec", "TypeVarTuple", "TemplateStr", "Interpolation",
))
# Calls that use up a generator and cannot show it.
_CONSUMERS = frozenset((
    "all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple",
))
# fmt: on
_FRAME_ATTRIBUTE = re.compile(r"(gi|cr|ag|f|tb|co)_")
_FIELD_LOOKUP = re.compile(r"\{[^{}]*\[|\{[^{}:!]*\.")  # "{0.name}" and "{0[key]…}", not "{:.2f}"
_NEW_NAME = re.compile(r"v\d+")
_BUILTIN_NAMES = frozenset(dir(builtins))
_CATCHING = tuple(getattr(ast, name) for name in ("Try", "TryStar") if hasattr(ast, name))


def canonical_form(tree: ast.Module, entry: str) -> str:
    """A text that renamed copies share. The tree is changed on the way.

    Names are renamed all over the program at once, in order of appearance, and only those that are bound in it and
    are nothing but variables: one mapping, one to one, applied everywhere, keeps every binding as it was. A program
    that could see its own names keeps them.
    """
    nodes = list(ast.walk(tree))
    catches = any(isinstance(node, _CATCHING) for node in nodes)
    if not any(_sees_names(node, catches) for node in nodes):
        tree = _Strip().visit(tree)
        tree = _Rename(_renaming(tree, entry)).visit(tree)
    return spell(tree)


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def bound_names(tree: ast.AST) -> set[str]:
    """The names of variables, parameters and functions that a program makes."""
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            bound.add(node.name)
    return bound


# --- spelling -------------------------------------------------------------------------------------------------------

_UNSAID = frozenset(("ctx", "kind", "type_comment", "type_ignores"))  # follow from the rest, or change nothing


def spell(node: Any) -> str:
    """A syntax tree as text: fields in alphabetical order, those that are empty left out.

    Not ast.dump, which spells one tree differently from version to version, and ints in decimal, which Python refuses
    for long ones.
    """
    if isinstance(node, ast.AST):
        is_value = isinstance(node, ast.Constant | ast.MatchSingleton)  # there None is something said
        fields = [
            f"{name}={spell(part)}"
            for name, part in sorted(ast.iter_fields(node), key=lambda field: field[0])
            if name not in _UNSAID and (is_value or (part is not None and part != []))
        ]
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(spell, node))}]"
    return _spell_constant(node)


def _spell_constant(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return json.dumps(value)
    if kind is int:
        return hex(value)
    if kind is float:
        return value.hex()
    if kind is complex:
        return f"complex({value.real.hex()},{value.imag.hex()})"
    if kind is bytes:
        return f"bytes({value.hex()})"
    return repr(value)  # None, True, False, Ellipsis


# --- what a program could see of its names --------------------------------------------------------------------------


def _sees_names(node: ast.AST, catches: bool) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _REFLECTIVE or is_dunder(name)
        case ast.Attribute(attr=name, value=owner):
            if name == "format":  # "{0.gi_code}".format(g): an attribute read through a string
                text = owner.value if isinstance(owner, ast.Constant) else None
                return not isinstance(text, str) or _FIELD_LOOKUP.search(text) is not None
            return name in _REFLECTIVE or name.startswith("_") or _FRAME_ATTRIBUTE.match(name) is not None
        case ast.Constant(value=str(text)):
            return "__" in text
        case ast.Import(names=names):
            return any(alias.name.split(".")[0] not in _PLAIN_MODULES for alias in names)
        case ast.ImportFrom(module=module, names=names):
            if module == "typing":  # the types themselves, not the functions that read annotations
                return not all(alias.name[0].isupper() for alias in names)
            shown = any(alias.name in _REFLECTIVE | {"*"} or alias.name.startswith("_") for alias in names)
            return shown or module not in _PLAIN_MODULES
        case ast.ExceptHandler(name=name):
            return name is not None  # messages name variables and functions
        case ast.keyword(arg=name):
            return name is None  # f(**names)
        case ast.AnnAssign(value=value, target=target, annotation=annotation):
            # A bare annotation makes a name local.
            return value is None or not isinstance(target, ast.Name) or _has_effects(annotation, catches)
        case ast.arg(annotation=annotation) if annotation is not None:
            return _has_effects(annotation, catches)
        case ast.FunctionDef(returns=returns) if returns is not None:
            return _has_effects(returns, catches) or bool(getattr(node, "type_params", None))
    return type(node).__name__ in _SCOPED


def _has_effects(annotation: ast.expr, catches: bool) -> bool:
    """Whether leaving an annotation out could be noticed; an error in it only where errors are caught."""
    nodes = list(ast.walk(annotation))
    if any(isinstance(node, ast.Call | ast.NamedExpr | ast.Yield | ast.YieldFrom) for node in nodes):
        return True
    harmless = (ast.Constant, ast.expr_context)
    return catches and not all(
        isinstance(node, harmless) or (isinstance(node, ast.Name) and node.id in _BUILTIN_NAMES) for node in nodes
    )


# --- renaming -------------------------------------------------------------------------------------------------------


class _Strip(ast.NodeTransformer):
    """Drops what does not change behaviour: docstrings and annotations."""

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
        if node.value is None:
            return node
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:] or [ast.Pass()]
    return body


def _renaming(tree: ast.Module, entry: str) -> dict[str, str]:
    """New names for the names that are variables and nothing else."""
    ordered: dict[str, None] = {}
    fixed = {entry} | _BUILTIN_NAMES
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            ordered[node.id] = None
        elif isinstance(node, ast.arg):
            ordered[node.arg] = None
        elif isinstance(node, ast.FunctionDef):
            ordered[node.name] = None
        elif isinstance(node, ast.keyword) and node.arg is not None:
            fixed.add(node.arg)
        elif isinstance(node, ast.alias):
            fixed.add((node.asname or node.name).split(".")[0])
    # An unbound name shows in nothing, but is not ours to change.
    bound = bound_names(tree)
    ours = bound - fixed - _shown_functions(tree, bound)
    free = dict.fromkeys(name for name in ordered if name in ours)
    if any(_NEW_NAME.fullmatch(name) for name in ordered if name not in free):
        return {}
    return {name: f"v{position}" for position, name in enumerate(free)}


def _shown_functions(tree: ast.Module, bound: set[str]) -> set[str]:
    """Functions whose names str() could show: of a function handed around as a value, of a generator, and of whatever
    is defined inside them, for a qualified name begins with the names of the functions around it."""
    values = _value_names(tree)
    consumed = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and len(node.args) == 1 and _consumes(node.func, bound)
    }
    shown: set[str] = set()

    def visit(node: ast.AST, around: tuple[str, ...]) -> None:
        if isinstance(node, ast.FunctionDef):
            around = (*around, node.name)
            seen = bool(node.decorator_list) or node.name in values
        elif isinstance(node, ast.GeneratorExp):
            seen = id(node) not in consumed
        else:
            seen = isinstance(node, ast.Lambda | ast.Yield | ast.YieldFrom)
        if seen:
            shown.update(around)
        for child in ast.iter_child_nodes(node):
            visit(child, around)

    visit(tree, ())
    return shown


def _value_names(tree: ast.AST) -> set[str]:
    """Names that are used otherwise than by calling them."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}


def _consumes(function: ast.expr, bound: set[str]) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _CONSUMERS and function.id not in bound
    return isinstance(function, ast.Attribute) and function.attr == "join" and isinstance(function.value, ast.Constant)


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
