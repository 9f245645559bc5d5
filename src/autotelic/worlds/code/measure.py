"""How much a program does, read off its syntax tree. A description of difficulty, used by curricula and reports.

`depth` is the number of operations on the longest path from the input to the returned value:
- a parameter has depth 0, a variable has the depth of what was assigned to it; what is made of constants alone is
  not on any path;
- an operator, comparison, call, subscript or slice, and a list or other display, is one more than the deepest of its
  parts;
- a value chosen by `if` is one more than the deepest of test and branches;
- a value built by a loop or comprehension is one more than what the body, followed once, gives it;
- a call of a function of the program's own adds that function's depth.
"""

from __future__ import annotations

import ast

_COMPUTING = (
    ast.BinOp,
    ast.BoolOp,
    ast.Compare,
    ast.Call,
    ast.Subscript,
    ast.IfExp,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.JoinedStr,
    ast.AugAssign,
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
MAX_DEPTH = 1_000_000  # functions that call each other twice double the depth: counted no further
_APART = -1  # the depth of what does not come from the input
_NEVER = -2  # of a name that nothing was assigned to


def features(tree: ast.Module, source: str, entry: str = "f") -> dict[str, float]:
    """depth, operations, lines, branches and loops."""
    nodes = list(ast.walk(tree))
    branches = sum(isinstance(node, ast.If | ast.IfExp) for node in nodes)
    branches += sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    loops = sum(isinstance(node, ast.For | ast.While | ast.comprehension) for node in nodes)
    return {
        "depth": float(depth(tree, entry)),
        "operations": float(sum(_computes(node) for node in nodes)),
        "lines": float(sum(1 for line in source.splitlines() if line.strip())),
        "branches": float(branches),
        "loops": float(loops),
    }


def depth(tree: ast.Module, entry: str = "f") -> int:
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    if entry not in functions:
        return 0
    return max(0, _Follower(functions, _returning(tree)).function(entry))


def _returning(tree: ast.Module) -> set[int]:
    """The ids of all nodes that have a return in them."""
    found: set[int] = set()
    walked = list(ast.walk(tree))  # parents before children
    for node in reversed(walked):
        if isinstance(node, ast.Return) or any(id(child) in found for child in ast.iter_child_nodes(node)):
            found.add(id(node))
    return found


def _computes(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.operand, ast.Constant)
    return isinstance(node, _COMPUTING)


class _Scope:
    """Depths of variables. What a branch changes is taken back at its end and handed over."""

    def __init__(self) -> None:
        self.depths: dict[str, int] = {}
        self.before: list[dict[str, int]] = []  # for each open branch: what it changed, as it was before

    def get(self, name: str, default: int) -> int:
        return self.depths.get(name, default)

    def set(self, name: str, deep: int) -> None:
        if self.before:
            self.before[-1].setdefault(name, self.get(name, _NEVER))
        self.depths[name] = deep

    def enter(self) -> None:
        self.before.append({})

    def leave(self) -> dict[str, int]:
        before = self.before.pop()
        changed = {name: self.depths[name] for name, deep in before.items() if self.depths[name] != deep}
        for name, deep in before.items():
            if deep == _NEVER:
                del self.depths[name]
            else:
                self.depths[name] = deep
        return changed


class _Follower:
    """Follows the depth of every variable through a function, statement by statement."""

    def __init__(self, functions: dict[str, ast.FunctionDef], returning: set[int]) -> None:
        self.functions = functions
        self.returning = returning
        self.known: dict[str, int] = {}

    def function(self, entry: str) -> int:
        """The depth of a function, after those it calls. A stack of our own: calls may chain longer than Python's."""
        waiting, done = [entry], set()
        while waiting:
            name = waiting[-1]
            if name in done:
                waiting.pop()
            elif name not in self.known:
                self.known[name] = 1  # what a call of itself counts while it is being followed
                waiting.extend(called for called in self.called(name) if called not in self.known)
            else:
                # Parameters are at 0, as is all unknown.
                self.known[name] = min(MAX_DEPTH, self.body(self.functions[name].body, _Scope()))
                done.add(name)
        return self.known[entry]

    def called(self, name: str) -> list[str]:
        """The program's own functions that a function calls; not those that functions inside it call."""
        found, waiting = [], list[ast.AST](self.functions[name].body)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.functions:
                found.append(node.func.id)
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                waiting.extend(ast.iter_child_nodes(node))
        return found

    def body(self, statements: list[ast.stmt], env: _Scope) -> int:
        """The depth of the deepest returned value; `env` is changed in place."""
        returned = _APART
        for statement in statements:
            returned = max(returned, self.statement(statement, env))
        return returned

    def statement(self, node: ast.stmt, env: _Scope) -> int:
        if isinstance(node, ast.Return):
            return self.value(node.value, env)
        if isinstance(node, ast.Assign):
            deep = self.value(node.value, env)
            for target in node.targets:
                self.bind(target, deep, env)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.bind(node.target, self.value(node.value, env), env)
        elif isinstance(node, ast.AugAssign):
            self.bind(node.target, _one_more(self.value(node.target, env), self.value(node.value, env)), env)
        elif isinstance(node, ast.If):
            return self.branches(self.value(node.test, env), [node.body, node.orelse], env)
        elif isinstance(node, ast.For):
            bound = self.value(node.iter, env)
            self.bind(node.target, bound, env)
            return self.branches(bound, [node.body + node.orelse], env)
        elif isinstance(node, ast.While):
            return self.branches(self.value(node.test, env), [node.body + node.orelse], env)
        elif isinstance(node, ast.Try):
            handlers = [statement for handler in node.handlers for statement in handler.body]
            return self.body(node.body + handlers + node.orelse + node.finalbody, env)
        elif isinstance(node, ast.With):
            return self.body(node.body, env)
        elif isinstance(node, ast.Expr):
            call = node.value
            deep = self.value(call, env)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                self.bind(call.func.value, deep, env)  # y.append(x) changes y
        return _APART

    def branches(self, test: int, bodies: list[list[ast.stmt]], env: _Scope) -> int:
        returned = _APART
        changes: list[tuple[str, int]] = []
        for body in bodies:
            env.enter()
            deep = self.body(body, env)
            changes.extend(env.leave().items())
            if any(id(statement) in self.returning for statement in body):
                returned = max(returned, _one_more(test, deep))
        for name, value in changes:
            env.set(name, max(env.get(name, _APART), _one_more(test, value)))
        return returned

    def bind(self, target: ast.expr, deep: int, env: _Scope) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                changed_within = isinstance(target, ast.Subscript | ast.Attribute)
                env.set(node.id, max(deep, env.get(node.id, _APART)) if changed_within else deep)

    def value(self, node: ast.expr | None, env: _Scope) -> int:
        if node is None or isinstance(node, ast.Constant):
            return _APART
        if isinstance(node, ast.Name):
            return env.get(node.id, 0)
        if isinstance(node, _COMPREHENSIONS):
            return self.comprehension(node, env)
        if isinstance(node, ast.Lambda):
            return self.value(node.body, env)
        if isinstance(node, ast.NamedExpr):
            deep = self.value(node.value, env)
            self.bind(node.target, deep, env)
            return deep
        parts = [child for child in ast.iter_child_nodes(node) if not _names_function(node, child)]
        deepest = max((self.part(child, env) for child in parts), default=_APART)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.functions:
            return min(MAX_DEPTH, deepest + max(1, self.known.get(node.func.id, 1))) if deepest > _APART else _APART
        return _one_more(deepest) if isinstance(node, _DISPLAYS) or _computes(node) else deepest

    def part(self, node: ast.AST, env: _Scope) -> int:
        if isinstance(node, ast.expr):
            return self.value(node, env)
        return max((self.part(child, env) for child in ast.iter_child_nodes(node)), default=_APART)

    def comprehension(self, node: ast.expr, env: _Scope) -> int:
        deepest = _APART
        env.enter()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.comprehension):
                deep = self.value(child.iter, env)
                self.bind(child.target, deep, env)
                deepest = max([deepest, deep, *(self.value(test, env) for test in child.ifs)])
        elements = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        deepest = _one_more(deepest, *(self.value(element, env) for element in elements))
        env.leave()
        return deepest


def _one_more(*parts: int) -> int:
    deepest = max(parts)
    return deepest + 1 if deepest > _APART else _APART


def _names_function(node: ast.AST, child: ast.AST) -> bool:
    """`len` in `len(x)` is no part of the value."""
    return isinstance(node, ast.Call) and child is node.func and isinstance(child, ast.Name)
