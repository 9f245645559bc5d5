"""Programs that cannot but give the same for the same input: what the small language can say, seen in the tree.

Such a program is one function of local names, constants and a few builtins, which it can only call: it keeps nothing
from one call to the next, reaches no object but plain data of its own, and sees neither hashes, identities, clocks nor
the other calls of its process. So it need not be run again to know that it still gives what it gave, and calls of it
may share a process. But it can go through a set that it is given, whose order is one of hashes: a call with a set
somewhere in its arguments is not pure. This decides how often a program runs, never whether it runs in the sandbox.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from functools import lru_cache

from autotelic.worlds.code import programs

CALLED = frozenset({"len", "sum", "max", "min", "sorted"})
# fmt: off
_NODES = (
    ast.Return, ast.Assign, ast.If, ast.For, ast.Name, ast.Load, ast.Store, ast.Constant, ast.List, ast.ListComp,
    ast.comprehension, ast.Subscript, ast.Slice, ast.IfExp, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call,
    ast.operator, ast.unaryop, ast.boolop, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn,
)
# fmt: on


def is_pure(source: str, inputs: Sequence[str], entry: str = "f") -> bool:
    """Whether calls of the program with these arguments, in canonical text, are. Quotes inside strings are escaped
    there, so nothing but a set reads like one."""
    return _is_pure(source, entry) and not any('["s"' in given or '["z"' in given for given in inputs)


@lru_cache(maxsize=65536)
def _is_pure(source: str, entry: str) -> bool:
    try:
        tree = programs.parse(source)
    except programs.ProgramError:
        return False
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return False
    function = tree.body[0]
    given = function.args
    if function.name != entry or function.decorator_list or function.returns or getattr(function, "type_params", None):
        return False
    if given.defaults or given.kw_defaults or given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg:
        return False
    if any(argument.annotation for argument in given.args):
        return False
    inside = [node for statement in function.body for node in ast.walk(statement)]
    called = {id(node.func) for node in inside if isinstance(node, ast.Call)}
    own = {argument.arg for argument in given.args}
    own |= {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if entry in own or not all(map(_own_name, own)):
        return False
    return all(_allowed(node, own, called) for node in inside)


def _own_name(name: str) -> bool:
    """Whether a name that is stored somewhere can mean nothing else where it is not: the variable of a comprehension
    is unknown outside of it, so there a builtin of that name would be meant."""
    return not name.startswith("_") and not hasattr(builtins, name)


def _allowed(node: ast.AST, own: set[str], called: set[int]) -> bool:
    if not isinstance(node, _NODES):
        return False
    if isinstance(node, ast.Name):
        return node.id in CALLED if id(node) in called else node.id in own
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, bool, str)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and not node.keywords
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load)  # an item that is assigned to would change a list in place
    return True
