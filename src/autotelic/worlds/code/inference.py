"""Types of programs of the small language, read off the tree: which type comes out for a type that goes in."""

from __future__ import annotations

import ast

from autotelic.worlds.code import programs
from autotelic.worlds.code.language import INPUT_TYPES, TYPES, type_of


def output_type(program: str, takes: str) -> str | None:
    """The type a program gives for an input type, read off its tree; None where it fails or is not of this language."""
    try:
        tree = programs.parse(program)
    except programs.ProgramError:
        return None
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "f"), None)
    if function is None or len(function.args.args) != 1:
        return None
    try:
        return _returned(function.body, {function.args.args[0].arg: takes})
    except _UntypedError:
        return None


def input_types(program: str, gives: str) -> list[str]:
    """The input types for which a program gives a type; all of INPUT_TYPES if that cannot be told."""
    fitting = [takes for takes in INPUT_TYPES if output_type(program, takes) == gives]
    return fitting or list(INPUT_TYPES)


class _UntypedError(Exception):
    """Not of this language, or an operation on types that it does not take."""


def _returned(statements: list[ast.stmt], env: dict[str, str]) -> str | None:
    """Follows the statements, `env` in place, to the type of the first return."""
    for statement in statements:
        match statement:
            case ast.Return(value=ast.expr() as value):
                return _type(value, env)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                env[name] = _type(value, env)
            case ast.If(test=test, body=body, orelse=orelse):
                _type(test, env)
                for branch in (body, orelse):
                    if (found := _returned(branch, env)) is not None:
                        return found
            case ast.For(target=ast.Name(id=name), iter=iterated, body=body):
                env[name] = _item_type(iterated, env)
                if (found := _returned(body, env)) is not None:
                    return found
            case _:
                raise _UntypedError
    return None


_NUMBERS = frozenset(("int", "bool"))
_SEQUENCES = frozenset(("list", "str"))
# What a builtin of one argument takes and gives.
_CALLS = {
    "len": (_SEQUENCES, "int"),
    "sum": (frozenset(("list",)), "int"),
    "sorted": (frozenset(("list",)), "list"),
    "max": (frozenset(("list",)), "int"),
    "min": (frozenset(("list",)), "int"),
}


def _need(found: str, wanted: frozenset[str]) -> str:
    if found not in wanted:
        raise _UntypedError
    return found


def _item_type(node: ast.expr, env: dict[str, str]) -> str:
    return "int" if _need(_type(node, env), _SEQUENCES) == "list" else "str"


def _type(node: ast.expr, env: dict[str, str]) -> str:
    match node:
        case ast.Constant(value=value):
            return _need(type_of(value) or "", frozenset(TYPES))
        case ast.Name(id=name):
            return _need(env.get(name, ""), frozenset(TYPES))
        case ast.List(elts=elements):
            for element in elements:
                _need(_type(element, env), frozenset(("int",)))
            return "list"
        case ast.ListComp(
            elt=element, generators=[ast.comprehension(target=ast.Name(id=name), iter=iterated, ifs=ifs)]
        ):
            inner = {**env, name: _item_type(iterated, env)}
            for test in ifs:
                _type(test, inner)
            _need(_type(element, inner), frozenset(("int",)))
            return "list"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(op, _type(left, env), _type(right, env))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            _type(operand, env)
            return "bool"
        case ast.UnaryOp(operand=operand):
            _need(_type(operand, env), _NUMBERS)
            return "int"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            _type(test, env)
            return _need(_type(body, env), frozenset((_type(orelse, env),)))
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _type(left, env), _type(right, env))
        case ast.Subscript(value=value, slice=index):
            owner = _need(_type(value, env), _SEQUENCES)
            return "int" if owner == "list" and not isinstance(index, ast.Slice) else owner
        case ast.Call(func=ast.Name(id="max" | "min"), args=[first, second]):
            for argument in (first, second):
                _need(_type(argument, env), _NUMBERS)
            return "int"
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _CALLS:
            wanted, gives = _CALLS[name]
            _need(_type(argument, env), wanted)
            return gives
    raise _UntypedError


def _compared(op: ast.cmpop, left: str, right: str) -> str:
    if isinstance(op, ast.In):
        _need(left, _NUMBERS if _need(right, _SEQUENCES) == "list" else frozenset(("str",)))
    elif not isinstance(op, ast.Eq) and not {left, right} <= _NUMBERS:
        _need(left, frozenset((right,)))
    return "bool"


def _binary(op: ast.operator, left: str, right: str) -> str:
    if {left, right} <= _NUMBERS:
        return "int"
    if isinstance(op, ast.Add) and left == right:
        return left
    if isinstance(op, ast.Mult) and {left, right} & _NUMBERS:
        return left if left in _SEQUENCES else right
    raise _UntypedError
