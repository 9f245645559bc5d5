"""The plain values that cross the sandbox's border, in one canonical text form.

None, bool, int, float, str, bytes, list, tuple, dict, set and frozenset, of exactly these types, nested within
bounds. Equal values have equal text and different values (1, True and 1.0 among them) have different text, so
equality in the trusted process is equality of strings: no method of a foreign object is ever called.

    None null · True true · 5 5 · 2**70 ["i","0x4…"] · 1.5 ["f","0x1.8p+0"] · "a" "a" · b"a" ["b","61"]
    [..] ["l",..] · (..) ["t",..] · {k: v} ["d",[k,v],..] · {..} ["s",..] · frozenset ["z",..]

NaN equals NaN, -0.0 stays apart from 0.0, the order of dicts and sets is ignored. This file is also sent into the
sandbox, so it imports the standard library only.
"""

from _json import encode_basestring_ascii as _quote
from _json import make_scanner

MAX_BYTES = 1 << 20  # of canonical text
MAX_DEPTH = 64  # of nesting
MAX_INT_BITS = 1 << 16
MAX_COLLISIONS = 100  # of hashes in one set or dict: beyond that, building it takes quadratic time
_SMALL = 1 << 63  # ints below this are JSON numbers, larger ones hex


_name_of_type = type.__dict__["__name__"].__get__


class Unsupported(Exception):
    """A value of a type that does not cross the border; the argument names the type."""


class TooLarge(Exception):
    """A value over a bound; the argument names it: size, depth or int."""


class Malformed(Exception):
    """Text that is not the canonical form of any value."""


def encode(value, max_bytes=MAX_BYTES):
    """The canonical text of a value. Exact types only: a subclass could carry behaviour of its own."""
    budget = [max_bytes]
    text = _encode(value, 0, budget)
    if len(text) > max_bytes:
        raise TooLarge("size")
    return text


def _encode(value, depth, budget):
    kind = type(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        if -_SMALL < value < _SMALL:
            return int.__repr__(value)
        if int.bit_length(value) > MAX_INT_BITS:
            raise TooLarge("int")
        return f'["i","{value:#x}"]'
    if kind is str:
        if len(value) > budget[0]:
            raise TooLarge("size")
        text = _quote(value)
        _spend(budget, len(text))
        return text
    if kind is float:
        return f'["f","{float.hex(value)}"]'
    if kind is bytes:
        _spend(budget, 2 * len(value))
        return f'["b","{value.hex()}"]'
    if depth >= MAX_DEPTH:
        raise TooLarge("depth")
    if kind is list or kind is tuple:
        parts = [_item(item, depth, budget) for item in value]
        return _tagged("l" if kind is list else "t", parts)
    if kind is dict:
        pairs = [f"[{_item(key, depth + 1, budget)},{_item(item, depth + 1, budget)}]" for key, item in value.items()]
        return _tagged("d", sorted(pairs))
    if kind is set or kind is frozenset:
        return _tagged("s" if kind is set else "z", sorted(_item(item, depth, budget) for item in value))
    raise Unsupported(_name_of_type(kind))  # not kind.__name__: a metaclass may have code of its own there


def _item(value, depth, budget):
    _spend(budget, 2)
    return _encode(value, depth + 1, budget)


def _spend(budget, count):
    budget[0] -= count
    if budget[0] < 0:
        raise TooLarge("size")


def _tagged(tag, parts):
    return f'["{tag}",{",".join(parts)}]' if parts else f'["{tag}"]'


def decode(text, max_bytes=MAX_BYTES):
    """The value of a canonical text. Strict: any other spelling of the same value is Malformed."""
    if len(text) > max_bytes:
        raise Malformed("too long")
    try:
        value = parse(text)
        spelled = encode(value, max_bytes)
    except (
        StopIteration,
        ValueError,
        OverflowError,
        RecursionError,
        TypeError,
        TooLarge,
        Unsupported,
    ) as error:
        raise Malformed(type(error).__name__) from None
    if spelled != text:
        raise Malformed("not canonical")
    return value


def parse(text):
    """The value of a text that the trusted side wrote: `decode` without the check that it is canonical."""
    return _decode(scan(text), 0)


def scan(text):
    """JSON to lists, dicts, texts, ints, booleans and null. Text after the first value is not looked at."""
    return _scan(text, 0)[0]


def _refuse(text):
    raise Malformed(f"bare number {text[:20]}")


def _parse_int(text):
    if len(text) > 20:
        raise Malformed("bare int too long")
    return int(text)


class Grammar:
    """What the C scanner behind json.loads asks of its caller. Used by itself it spares the server the json package and
    the regular expressions that come with it, memory that every job's process would be a copy of."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_constant, parse_int = staticmethod(_refuse), staticmethod(_refuse), staticmethod(_parse_int)


_scan = make_scanner(Grammar)  # pyright: ignore[reportArgumentType]


def _decode(tree, depth):
    if type(tree) is not list:
        if type(tree) is dict:
            raise Malformed("object")
        return tree
    if not tree or type(tree[0]) is not str or depth > MAX_DEPTH + 1:
        raise Malformed("tag")
    tag, rest = tree[0], tree[1:]
    if tag in "ifb":
        if len(rest) != 1 or type(rest[0]) is not str:
            raise Malformed(tag)
        if tag == "i":
            if len(rest[0]) > MAX_INT_BITS // 4 + 4:
                raise Malformed("int")
            return int(rest[0], 16)
        return float.fromhex(rest[0]) if tag == "f" else bytes.fromhex(rest[0])
    if tag == "d":
        pairs = [_pair(pair, depth) for pair in rest]
        _refuse_collisions([key for key, _ in pairs])
        value = dict(pairs)
        if len(value) != len(pairs):
            raise Malformed("repeated key")
        return value
    items = [_decode(item, depth + 1) for item in rest]
    if tag == "l":
        return items
    if tag == "t":
        return tuple(items)
    if tag in "sz":
        _refuse_collisions(items)
        return set(items) if tag == "s" else frozenset(items)
    raise Malformed(f"tag {tag[:8]}")


def _refuse_collisions(items):
    """Hashes of numbers are public arithmetic: a text of a megabyte can be made to stall a set for half a minute."""
    if len(items) > MAX_COLLISIONS:
        seen = {}
        for item in items:
            mark = hash(item)
            seen[mark] = seen.get(mark, 0) + 1
        if max(seen.values()) > MAX_COLLISIONS:
            raise Malformed("colliding hashes")


def _pair(pair, depth):
    if type(pair) is not list or len(pair) != 2:
        raise Malformed("pair")
    return _decode(pair[0], depth + 2), _decode(pair[1], depth + 2)
