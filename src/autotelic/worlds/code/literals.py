"""Reads and writes Python literals: the only way a player's text becomes a value.

Strict and bounded. There are no expressions, no complex numbers, no f-strings and no implicit concatenation, so an
answer such as `0) or (True` is not a value. Every bound is checked before the work it bounds: hostile text costs
time in proportion to its length and ends in LiteralError.

Accepted: None, True, False, ints (decimal or 0x…, no underscores), floats (also inf and nan, as `repr` spells them),
str and bytes in any of Python's quotes, lists, tuples, dicts, sets, `set()`, `frozenset()` and `frozenset({…})`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from autotelic.worlds.code.sandbox import values

MAX_TEXT = values.MAX_BYTES  # characters of a literal, and of any text of a player
MAX_ITEMS = 1 << 17  # over all containers together
MAX_DIGITS = 4300  # of a decimal int: more cannot be read by int() itself; hex goes up to values.MAX_INT_BITS
MAX_FLOAT_TEXT = 1000


class LiteralError(ValueError):
    """The text is not a literal, or is over a bound."""


_TOKEN = re.compile(
    r"""[ \t\r\n\f]*(?:
      (?P<float>-?(?:[0-9]++\.[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?![\w.]) | -?[0-9]++[eE][+-]?[0-9]++(?![\w.]))
    | (?P<hex>-?0x[0-9a-fA-F]++(?![\w.]))
    | (?P<int>-?(?:0|[1-9][0-9]*+)(?![\w.]))
    | (?P<str>[bB]?(?:
          '''(?:[^'\\\0]++|\\[^\0]|'(?!''))*+'''
        | \"\"\"(?:[^"\\\0]++|\\[^\0]|"(?!""))*+\"\"\"
        | '(?!'')(?:[^'\\\n\r\0]++|\\[^\0])*+'
        | "(?!"")(?:[^"\\\n\r\0]++|\\[^\0])*+"
      )(?!['"]))
    | (?P<name>-?[A-Za-z_]\w*+)
    | (?P<mark>[\[\](){},:])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_CONSTANTS = {
    "None": None,
    "True": True,
    "False": False,
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|\r\n|[\s\S])")
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"'}


def parse_value(text: str) -> Any:
    """The value of one literal."""
    reader = _Reader(text)
    value = reader.value(0)
    reader.expect("end")
    _check_bounds(value)
    return value


def parse_arguments(text: str) -> tuple[Any, ...]:
    """The arguments of a call, as they stand between its parentheses: `1, "a"` gives (1, "a"), nothing gives ()."""
    reader = _Reader(text)
    arguments = tuple(reader.items("end", 1))
    _check_bounds(arguments)
    return arguments


def render(value: Any) -> str:
    """Literal text that `parse_value` reads back as the same value. Sets come in a fixed order."""
    kind = type(value)
    if value is None or kind in (bool, float, str, bytes):
        return repr(value)
    if kind is int:
        # Decimal conversion is refused by Python itself beyond MAX_DIGITS, hex never is.
        return repr(value) if value.bit_length() < 3 * MAX_DIGITS else hex(value)
    if kind is list:
        return f"[{render_items(value)}]"
    if kind is tuple:
        return f"({render(value[0])},)" if len(value) == 1 else f"({render_items(value)})"
    if kind is dict:
        return "{" + ", ".join(f"{render(key)}: {render(item)}" for key, item in value.items()) + "}"
    if kind is set or kind is frozenset:
        body = "{" + render_items(sorted(value, key=values.encode)) + "}" if value else ""
        if kind is set:
            return body or "set()"
        return f"frozenset({body})"
    raise TypeError(f"{kind.__name__} is no plain value")


def render_items(items: Iterable[Any]) -> str:
    """The values one after another, as the arguments of a call."""
    return ", ".join(render(item) for item in items)


def _check_bounds(value: Any) -> None:
    try:
        values.encode(value)
    except values.TooLarge as error:
        raise LiteralError(f"value too large: {error}") from None


class _Reader:
    """A recursive descent over tokens; the recursion is bounded by values.MAX_DEPTH."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise LiteralError(f"longer than {MAX_TEXT} characters")
        self.text = text
        self.position = 0
        self.count = 0
        self.kind = ""
        self.token = ""
        self.advance()

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.position)
        if match is None or match.lastgroup is None:
            raise LiteralError(f"no literal at character {self.position}: {self.text[self.position :][:20]!r}")
        self.position = match.end()
        self.token = match.group(match.lastgroup)
        self.kind = self.token if match.lastgroup == "mark" else match.lastgroup

    def expect(self, kind: str) -> None:
        if self.kind != kind:
            wanted = "the end" if kind == "end" else repr(kind)
            raise LiteralError(f"expected {wanted}, found {self.token[:20]!r} before character {self.position}")
        if kind != "end":
            self.advance()

    def value(self, depth: int) -> Any:
        kind, token = self.kind, self.token
        if depth > values.MAX_DEPTH:
            raise LiteralError(f"nested deeper than {values.MAX_DEPTH}")
        self.count += 1
        if self.count > MAX_ITEMS:
            raise LiteralError(f"more than {MAX_ITEMS} items")
        self.advance()
        if kind == "int":
            if len(token) > MAX_DIGITS:
                raise LiteralError(f"int of more than {MAX_DIGITS} digits")
            return int(token)
        if kind == "hex":
            if len(token) > values.MAX_INT_BITS // 4 + 3:
                raise LiteralError("int too large")
            return int(token, 16)
        if kind == "float":
            if len(token) > MAX_FLOAT_TEXT:
                raise LiteralError(f"float of more than {MAX_FLOAT_TEXT} characters")
            return float(token)
        if kind == "str":
            return _string(token)
        if kind == "name":
            return self.named(token, depth)
        if kind == "[":
            return self.items("]", depth + 1)
        if kind == "(":
            return self.parenthesised(depth)
        if kind == "{":
            return self.braced(depth)
        raise LiteralError(f"no value at {token[:20]!r}")

    def named(self, name: str, depth: int) -> Any:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name not in ("set", "frozenset"):
            raise LiteralError(f"name {name[:20]!r} is no literal")
        self.expect("(")
        items: Any = ()
        if name == "frozenset" and self.kind == "{":
            self.advance()
            items = self.braced(depth)
            if type(items) is not set:
                raise LiteralError("frozenset of a dict")
        self.expect(")")
        return set() if name == "set" else frozenset(items)

    def items(self, end: str, depth: int) -> list[Any]:
        """Values separated by commas, a trailing comma allowed, through the closing mark."""
        found = []
        while self.kind != end:
            found.append(self.value(depth))
            if self.kind != end:
                self.expect(",")
        self.expect(end)
        return found

    def parenthesised(self, depth: int) -> Any:
        if self.kind == ")":
            self.advance()
            return ()
        first = self.value(depth + 1)
        if self.kind == ")":
            self.advance()
            return first
        self.expect(",")
        return (first, *self.items(")", depth + 1))

    def braced(self, depth: int) -> Any:
        if self.kind == "}":
            self.advance()
            return {}
        first = self.value(depth + 1)
        if self.kind != ":":
            rest = []
            if self.kind != "}":
                self.expect(",")
                rest = self.items("}", depth + 1)
            else:
                self.advance()
            members = [first, *rest]
            _check_hashes(members)
            return set(members)
        self.advance()
        pairs = [(first, self.value(depth + 1))]
        while self.kind != "}":
            self.expect(",")
            if self.kind == "}":
                break
            key = self.value(depth + 1)
            self.expect(":")
            pairs.append((key, self.value(depth + 1)))
        self.advance()
        _check_hashes([key for key, _ in pairs])
        return dict(pairs)


def _check_hashes(keys: list[Any]) -> None:
    """Multiples of 2**61 - 1 all hash to 0: a set of many of them takes quadratic time to build."""
    try:
        hashes = [hash(key) for key in keys]
    except TypeError:
        raise LiteralError("a list, dict or set cannot be in a set or a key") from None
    if len(keys) > values.MAX_COLLISIONS and max(Counter(hashes).values()) > values.MAX_COLLISIONS:
        raise LiteralError(f"more than {values.MAX_COLLISIONS} items with one hash")


def _string(token: str) -> str | bytes:
    is_bytes = token[0] in "bB"
    body = token[1:] if is_bytes else token
    width = 3 if body[:3] in ("'''", '"""') else 1
    body = body[width:-width]
    if is_bytes:
        if not body.isascii():
            raise LiteralError("bytes hold ASCII characters only")
        return _ESCAPE.sub(_byte_escape, body).encode("latin-1") if "\\" in body else body.encode("ascii")
    return _ESCAPE.sub(_text_escape, body) if "\\" in body else body


def _text_escape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code in _SIMPLE:
        return _SIMPLE[code]
    if code[0] in "01234567":
        return chr(int(code, 8))
    if code in ("\n", "\r\n", "\r"):
        return ""
    if len(code) > 1:
        point = int(code[1:], 16)
        if point > 0x10FFFF:
            raise LiteralError("no such character")
        return chr(point)
    if code in "xuUN":
        raise LiteralError(f"broken or unsupported escape \\{code}")
    return "\\" + code  # Python keeps the backslash of an escape it does not know


def _byte_escape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] in "uUN":
        return "\\" + code  # no escapes in bytes
    if code[0] in "01234567" and int(code, 8) > 255:
        raise LiteralError("byte above 255")
    return _text_escape(match)
