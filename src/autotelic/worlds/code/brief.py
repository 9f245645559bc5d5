"""The brief wording: tasks, proposals and answers of the small language in a few tokens, for minds with a vocabulary of
their own; and babble, from which such a mind learns the form of these texts before it has learned what is true.

    deduction   <deduction>PROGRAM<input>ARGUMENTS<answer>                          VALUE
    abduction   <abduction>PROGRAM<output>VALUE<answer>                             ARGUMENTS
    induction   <induction><input>ARGUMENTS<output>VALUE<input>…<answer>            PROGRAM
    propose     <propose><deduction><answer>                                        PROGRAM<input>ARGUMENTS
                <propose><deduction><reference>PROGRAM<input>ARGUMENTS<answer>      the same, like the one shown or not
                <propose><abduction>…                                               the same
                <propose><induction>PROGRAM<answer>                                 ARGUMENTS<input>ARGUMENTS<input>…

Babble is random programs and random answers of the right type. Its answers are drawn without running anything: a true
one among them is chance, and nothing tells it apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from autotelic.worlds.code import language, literals
from autotelic.worlds.code.language import Chance

PROPOSE, REFERENCE, INPUT, OUTPUT, ANSWER = "<propose>", "<reference>", "<input>", "<output>", "<answer>"
PAIRS = 3  # of input and output that an induction task shows: they are most of what there is to read


def kind(name: str) -> str:
    return f"<{name}>"


def tokens(kinds: Mapping[str, object]) -> tuple[str, ...]:
    """All pieces that texts of the small language are cut into; a number within its bounds is one of them."""
    marks = (PROPOSE, REFERENCE, INPUT, OUTPUT, ANSWER, *(kind(name) for name in kinds))
    return (*marks, *language.WORDS, *(str(number) for number in range(-language.BOUND, language.BOUND + 1)))


Babble = Callable[[Chance, int], tuple[str, str]]  # from chance and a number of inputs: a prompt and a reply to it


def babble(name: str, chance: Chance, inputs: int) -> tuple[str, str]:
    """A prompt and a well-formed reply, half of them proposals."""
    proposing = chance.random() < 0.5
    return (_PROPOSALS if proposing else _ANSWERS)[name](chance, inputs)


def _written(chance: Chance) -> language.Written:
    return language.random_program(chance, int(chance.integers(1, 5)))


def _value(chance: Chance, type_name: str) -> str:
    return literals.render(language.random_value(chance, type_name))


def _guess(chance: Chance, type_name: str) -> str:
    return literals.render(language.random_output(chance, type_name))


def _deduction(chance: Chance, inputs: int) -> tuple[str, str]:
    written = _written(chance)
    prompt = f"{kind('deduction')}{written.program}{INPUT}{_value(chance, written.takes)}{ANSWER}"
    return prompt, _guess(chance, written.gives)


def _abduction(chance: Chance, inputs: int) -> tuple[str, str]:
    written = _written(chance)
    prompt = f"{kind('abduction')}{written.program}{OUTPUT}{_guess(chance, written.gives)}{ANSWER}"
    return prompt, _value(chance, written.takes)


def _induction(chance: Chance, inputs: int) -> tuple[str, str]:
    written = _written(chance)
    pairs = "".join(
        f"{INPUT}{_value(chance, written.takes)}{OUTPUT}{_guess(chance, written.gives)}"
        for _ in range(min(PAIRS, inputs // 2))
    )
    return f"{kind('induction')}{pairs}{ANSWER}", written.program


def _single(name: str) -> Babble:
    def propose(chance: Chance, inputs: int) -> tuple[str, str]:
        own, reference = _written(chance), ""
        if chance.random() < 0.5:
            shown = _written(chance)
            if chance.random() < 0.5:
                own = shown._replace(program=_varied(shown.program, chance))
            reference = f"{REFERENCE}{shown.program}{INPUT}{_value(chance, shown.takes)}"
        return f"{PROPOSE}{kind(name)}{reference}{ANSWER}", f"{own.program}{INPUT}{_value(chance, own.takes)}"

    return propose


def _varied(program: str, chance: Chance) -> str:
    """The program with other constants. None becomes 0, so that no division fails."""

    def other(found: re.Match[str]) -> str:
        return found[0] if chance.random() < 0.5 else str(chance.integers(1, 10))

    return re.sub(r"(?<![\w\[:-])[1-9]\b", other, program)


def _inputs(chance: Chance, inputs: int) -> tuple[str, str]:
    written = _written(chance)
    drawn = language.distinct_inputs(chance, written.takes, inputs)
    reply = INPUT.join(literals.render_items(arguments) for arguments in drawn)
    return f"{PROPOSE}{kind('induction')}{written.program}{ANSWER}", reply


_ANSWERS: dict[str, Babble] = {"deduction": _deduction, "abduction": _abduction, "induction": _induction}
_PROPOSALS: dict[str, Babble] = {
    "deduction": _single("deduction"),
    "abduction": _single("abduction"),
    "induction": _inputs,
}
