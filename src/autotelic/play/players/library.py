"""Hand-written tasks: a program, what is said of it, ten calls with their results, and a tempting wrong program."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    program: str
    message: str
    calls: tuple[tuple[str, str], ...]  # arguments and result, as literals
    wrong: str  # a program that many would write, and that fails


LIBRARY = (
    Entry(
        ("def f(a):\n    return a"),
        "Gives back what it is given.",
        (
            ("'Hello world'", "'Hello world'"),
            ("'Hello world!'", "'Hello world!'"),
            ("'Hello world!!'", "'Hello world!!'"),
            ("'Hello world!!!'", "'Hello world!!!'"),
            ("'Hello world!!!!'", "'Hello world!!!!'"),
            ("'Hello world!!!!!'", "'Hello world!!!!!'"),
            ("'Hello world!!!!!!'", "'Hello world!!!!!!'"),
            ("'Hello world!!!!!!!'", "'Hello world!!!!!!!'"),
            ("'Hello world!!!!!!!!'", "'Hello world!!!!!!!!'"),
            ("'Hello world!!!!!!!!!'", "'Hello world!!!!!!!!!'"),
        ),
        ("def f(a):\n    return a + '!'"),
    ),
    Entry(
        ("def f(n):\n    return n * (n + 1) // 2"),
        "Adds up all numbers from one.",
        (
            ("1", "1"),
            ("2", "3"),
            ("3", "6"),
            ("4", "10"),
            ("5", "15"),
            ("7", "28"),
            ("9", "45"),
            ("10", "55"),
            ("20", "210"),
            ("100", "5050"),
        ),
        ("def f(n):\n    return n * n // 2"),
    ),
    Entry(
        ("def f(words):\n    return ' '.join(word.capitalize() for word in words.split())"),
        "Makes a headline.",
        (
            ("'a tale of two cities'", "'A Tale Of Two Cities'"),
            ("'the old man'", "'The Old Man'"),
            ("'x'", "'X'"),
            ("'war and peace'", "'War And Peace'"),
            ("'one  two'", "'One Two'"),
            ("'ABC def'", "'Abc Def'"),
            ("'it is'", "'It Is'"),
            ("'q r s'", "'Q R S'"),
            ("'hello world'", "'Hello World'"),
            ("'tabs do not matter'", "'Tabs Do Not Matter'"),
        ),
        ("def f(words):\n    return words.upper()"),
    ),
    Entry(
        (
            "def f(items):\n"
            "    seen = []\n"
            "    for item in items:\n"
            "        if item not in seen:\n"
            "            seen.append(item)\n"
            "    return seen"
        ),
        "Each once, in order.",
        (
            ("[1, 1, 2]", "[1, 2]"),
            ("[3, 1, 3]", "[3, 1]"),
            ("['a', 'b', 'a']", "['a', 'b']"),
            ("[]", "[]"),
            ("[5]", "[5]"),
            ("[2, 2, 2]", "[2]"),
            ("[1, 2, 3, 2, 1]", "[1, 2, 3]"),
            ("[0, 0, 7]", "[0, 7]"),
            ("['x', 'x']", "['x']"),
            ("[9, 8, 9, 8]", "[9, 8]"),
        ),
        ("def f(items):\n    return sorted(set(items))"),
    ),
    Entry(
        (
            "def f(text):\n"
            "    counts = {}\n"
            "    for letter in text:\n"
            "        counts[letter] = counts.get(letter, 0) + 1\n"
            "    return counts"
        ),
        "How often each letter stands there.",
        (
            ("'banana'", "{'a': 3, 'b': 1, 'n': 2}"),
            ("''", "{}"),
            ("'aab'", "{'a': 2, 'b': 1}"),
            ("'hello'", "{'e': 1, 'h': 1, 'l': 2, 'o': 1}"),
            ("'zzz'", "{'z': 3}"),
            ("'abc'", "{'a': 1, 'b': 1, 'c': 1}"),
            ("'mississippi'", "{'i': 4, 'm': 1, 'p': 2, 's': 4}"),
            ("'noon'", "{'n': 2, 'o': 2}"),
            ("'level'", "{'e': 2, 'l': 2, 'v': 1}"),
            ("'xyxy'", "{'x': 2, 'y': 2}"),
        ),
        ("def f(text):\n    return {letter: 1 for letter in text}"),
    ),
    Entry(
        ("def f(a, b):\n    while b:\n        a, b = b, a % b\n    return a"),
        "What two numbers share.",
        (
            ("12, 18", "6"),
            ("7, 3", "1"),
            ("100, 75", "25"),
            ("9, 9", "9"),
            ("0, 5", "5"),
            ("21, 14", "7"),
            ("17, 51", "17"),
            ("8, 12", "4"),
            ("270, 192", "6"),
            ("1, 99", "1"),
        ),
        ("def f(a, b):\n    return min(a, b)"),
    ),
    Entry(
        ("def f(rows):\n    return [list(column) for column in zip(*rows)]"),
        "Lies down what stood.",
        (
            ("[[1, 2], [3, 4]]", "[[1, 3], [2, 4]]"),
            ("[[1, 2, 3]]", "[[1], [2], [3]]"),
            ("[]", "[]"),
            ("[[1], [2]]", "[[1, 2]]"),
            ("[['a', 'b'], ['c', 'd']]", "[['a', 'c'], ['b', 'd']]"),
            ("[[0]]", "[[0]]"),
            ("[[1, 2, 3], [4, 5, 6]]", "[[1, 4], [2, 5], [3, 6]]"),
            ("[[1, 1], [2, 2]]", "[[1, 2], [1, 2]]"),
            ("[[7, 8], [9, 0], [1, 2]]", "[[7, 9, 1], [8, 0, 2]]"),
            ("[['x'], ['y'], ['z']]", "[['x', 'y', 'z']]"),
        ),
        ("def f(rows):\n    return rows[::-1]"),
    ),
    Entry(
        (
            "def f(text, shift):\n"
            "    letters = 'abcdefghijklmnopqrstuvwxyz'\n"
            "    return ''.join(letters[(letters.index(c) + shift) % 26] for c in text)"
        ),
        "A very old cipher.",
        (
            ("'abc', 1", "'bcd'"),
            ("'xyz', 3", "'abc'"),
            ("'hello', 13", "'uryyb'"),
            ("'a', 25", "'z'"),
            ("'zebra', 2", "'bgdtc'"),
            ("'cat', 0", "'cat'"),
            ("'dog', 5", "'itl'"),
            ("'moon', 10", "'wyyx'"),
            ("'sun', 20", "'moh'"),
            ("'z', 1", "'a'"),
        ),
        ("def f(text, shift):\n    return text[shift:] + text[:shift]"),
    ),
    Entry(
        (
            "def f(n):\n"
            "    steps = 0\n"
            "    while n > 1:\n"
            "        n = n // 2 if n % 2 == 0 else 3 * n + 1\n"
            "        steps += 1\n"
            "    return steps"
        ),
        "Up and down until one.",
        (
            ("1", "0"),
            ("2", "1"),
            ("3", "7"),
            ("6", "8"),
            ("7", "16"),
            ("9", "19"),
            ("11", "14"),
            ("16", "4"),
            ("19", "20"),
            ("27", "111"),
        ),
        ("def f(n):\n    return n.bit_length() - 1"),
    ),
    Entry(
        ("def f(a, b):\n    return a & b, a | b, a ^ b"),
        "Three ways to join two sets.",
        (
            ("{1, 2}, {2, 3}", "({2}, {1, 2, 3}, {1, 3})"),
            ("set(), {1}", "(set(), {1}, {1})"),
            ("{1}, {1}", "({1}, {1}, set())"),
            ("{'a'}, {'b'}", "(set(), {'a', 'b'}, {'a', 'b'})"),
            ("{1, 2, 3}, {2}", "({2}, {1, 2, 3}, {1, 3})"),
            ("{5, 6}, {6, 7, 8}", "({6}, {5, 6, 7, 8}, {5, 7, 8})"),
            ("{0}, set()", "(set(), {0}, {0})"),
            ("{9, 8}, {8, 9}", "({8, 9}, {8, 9}, set())"),
            ("{4}, {4, 2}", "({4}, {2, 4}, {2})"),
            ("{'x', 'y'}, {'y'}", "({'y'}, {'x', 'y'}, {'x'})"),
        ),
        ("def f(a, b):\n    return a & b, a | b, a - b"),
    ),
    Entry(
        (
            "def f(n):\n"
            "    if n == 0:\n"
            "        return '0'\n"
            "    digits = ''\n"
            "    while n:\n"
            "        digits = str(n % 2) + digits\n"
            "        n //= 2\n"
            "    return digits"
        ),
        "How a machine writes it.",
        (
            ("0", "'0'"),
            ("1", "'1'"),
            ("2", "'10'"),
            ("5", "'101'"),
            ("8", "'1000'"),
            ("13", "'1101'"),
            ("31", "'11111'"),
            ("64", "'1000000'"),
            ("100", "'1100100'"),
            ("255", "'11111111'"),
        ),
        ("def f(n):\n    return str(n)"),
    ),
    Entry(
        (
            "def f(text):\n"
            "    stack = []\n"
            "    pairs = {')': '(', ']': '['}\n"
            "    for c in text:\n"
            "        if c in '([':\n"
            "            stack.append(c)\n"
            "        elif not stack or stack.pop() != pairs[c]:\n"
            "            return False\n"
            "    return not stack"
        ),
        "Says whether it closes what it opens.",
        (
            ("'()'", "True"),
            ("'(]'", "False"),
            ("'([])'", "True"),
            ("''", "True"),
            ("'('", "False"),
            ("'))'", "False"),
            ("'()[]'", "True"),
            ("'([)]'", "False"),
            ("'[[]]'", "True"),
            ("']['", "False"),
        ),
        ("def f(text):\n    return len(text) % 2 == 0"),
    ),
    Entry(
        (
            "def f(numbers):\n"
            "    total = 0\n"
            "    sums = []\n"
            "    for number in numbers:\n"
            "        total += number\n"
            "        sums.append(total)\n"
            "    return sums"
        ),
        "Each tells how far we are.",
        (
            ("[1, 2, 3]", "[1, 3, 6]"),
            ("[5]", "[5]"),
            ("[]", "[]"),
            ("[0, 0, 1]", "[0, 0, 1]"),
            ("[-1, 1]", "[-1, 0]"),
            ("[10, 20, 30]", "[10, 30, 60]"),
            ("[2, 2, 2, 2]", "[2, 4, 6, 8]"),
            ("[1, -1, 1, -1]", "[1, 0, 1, 0]"),
            ("[7, 3]", "[7, 10]"),
            ("[100, 1]", "[100, 101]"),
        ),
        ("def f(numbers):\n    return sorted(numbers)"),
    ),
    Entry(
        ("def f(x, y):\n    return (x ** 2 + y ** 2) ** 0.5"),
        "As the crow flies.",
        (
            ("3, 4", "5.0"),
            ("0, 0", "0.0"),
            ("6, 8", "10.0"),
            ("5, 12", "13.0"),
            ("8, 15", "17.0"),
            ("1, 0", "1.0"),
            ("0, 2", "2.0"),
            ("9, 12", "15.0"),
            ("7, 24", "25.0"),
            ("20, 21", "29.0"),
        ),
        ("def f(x, y):\n    return float(x + y)"),
    ),
    Entry(
        ("def f(data):\n    return data[::-1] + bytes([len(data)])"),
        "Turns bytes around and signs them.",
        (
            ("b'abc'", "b'cba\\x03'"),
            ("b''", "b'\\x00'"),
            ("b'\\x00\\x01'", "b'\\x01\\x00\\x02'"),
            ("b'hi'", "b'ih\\x02'"),
            ("b'xyz!'", "b'!zyx\\x04'"),
            ("b'\\xff'", "b'\\xff\\x01'"),
            ("b'1234567'", "b'7654321\\x07'"),
            ("b'aa'", "b'aa\\x02'"),
            ("b'ok then'", "b'neht ko\\x07'"),
            ("b'end'", "b'dne\\x03'"),
        ),
        ("def f(data):\n    return data[::-1]"),
    ),
)
