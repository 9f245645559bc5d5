"""Programs that cannot but give the same for the same input: what the small language can say, seen in the tree.

Such a program is one function of local names, constants and a few builtins: it keeps nothing from one call to the next
and sees neither hashes, identities, clocks nor the other calls of its process. So it need not be run again to know that
it still gives what it gave, and calls of it may share a process. This decides how often a program runs, never whether
it runs in the sandbox.
"""

from __future__ import annotations

import ast
from functools import lru_cache

from autotelic.worlds.code import programs

BUILTINS = frozenset({"abs", "len", "sum", "max", "min", "sorted", "str", "list", "range"})
METHODS = frozenset({"count"})
# fmt: off
_NODES = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.If, ast.For, ast.Name, ast.Load,
    ast.Store, ast.Constant, ast.List, ast.ListComp, ast.comprehension, ast.Subscript, ast.Slice, ast.IfExp, ast.BinOp,
    ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.Attribute, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)
# fmt: on


@lru_cache(maxsize=65536)
def is_pure(source: str, entry: str = "f") -> bool:
    try:
        tree = programs.parse(source)
    except programs.ProgramError:
        return False
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return False
    function = tree.body[0]
    if function.name != entry:
        return False
    plain = [argument.arg for argument in function.args.args]
    given = function.args
    if given.defaults or given.kw_defaults or given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg:
        return False
    if function.decorator_list or function.returns or any(argument.annotation for argument in given.args):
        return False
    inside = [node for statement in function.body for node in ast.walk(statement)]
    stored = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return all(_allowed(node, {*plain, *stored, *BUILTINS}) for node in inside) and all(
        isinstance(node, _NODES) for node in ast.walk(tree)
    )


def _allowed(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, bool, str)
    if isinstance(node, ast.Call):
        called = node.func
        known = isinstance(called, ast.Name) or (isinstance(called, ast.Attribute) and called.attr in METHODS)
        return known and not node.keywords
    if isinstance(node, ast.Attribute):
        return node.attr in METHODS
    # An item that is assigned to would change a list in place; a nested function could keep one.
    return not isinstance(node, ast.FunctionDef)
