"""What deduction and abduction share: a setting and a controller that is run in it."""

from __future__ import annotations

import itertools
import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from autotelic.physics.arm.scenes import COLORS, SHAPES, Placement, Scene
from autotelic.worlds.arm import brief, canonical, controllers
from autotelic.worlds.arm.episodes import Ended, Job
from autotelic.worlds.arm.kinds import base
from autotelic.worlds.arm.kinds.base import ArmKind, Draft
from autotelic.worlds.arm.tasks import Setting, blocks, read_setting
from autotelic.worlds.base import Request
from autotelic.worlds.code.kinds.base import RefusedError, fence, paragraphs
from autotelic.worlds.code.programs import canonical_form

HORIZON = 15.0  # seconds that a controller has
OTHERS = 3  # other starts that a question is tried with
ALSO = 4  # questions of a kind that a controller is good for at each of the starts it was tried with

_THING = re.compile(rf"\b({'|'.join(COLORS)})_({'|'.join(SHAPES)})\b")


class Question(ArmKind):
    """A kind that asks about a controller."""

    idle: ClassVar[tuple[str, str]]  # outcome and reason, where the controller has done nothing to ask about
    trivial: ClassVar[str]  # the reason, where it has, and all that could be asked is the same at other starts

    def further(self, draft: Draft, ended: Sequence[Ended]) -> tuple[Job, ...]:
        """Where the controller has done nothing to ask about, no other start is looked at: most that do nothing at one
        do nothing at any, and for the same episodes many more controllers are seen."""
        base.require_sound(ended[0])
        setting = read_setting(draft.spec["setting"])
        if not any(self.possible(draft, setting, ended[0])):
            raise RefusedError(*self.idle)
        return checks(setting, draft.spec["controller"])

    @abstractmethod
    def possible(self, draft: Draft, setting: Setting, own: Ended) -> Iterator[Any]:
        """What can be asked of the draft's own episode alone."""

    @abstractmethod
    def specs(self, draft: Draft, ended: Sequence[Ended]) -> Iterator[dict[str, Any]]:
        """All tasks that a controller in a scene makes, once all episodes were run."""

    def spec(self, draft: Draft, ended: Sequence[Ended]) -> dict[str, Any]:
        for spec in self.specs(draft, ended):
            return spec
        if not compared(ended):
            lost = any(each.how in ("lost", "limit") for each in checked(ended)[1:])
            raise RefusedError(
                "lost" if lost else "trivial", "it could not be shown that the answer depends on the start"
            )
        raise RefusedError("trivial", self.trivial)

    def also(self, spec: Mapping[str, Any], ended: Sequence[Ended]) -> list[dict[str, Any]]:
        """Some of what this kind can ask about the controller and the scene of a task, of any kind of question: at its
        own start, and at those that it was checked with. Of a task that brief words say exactly, only what they say as
        well: they would name other places."""
        setting, episodes = read_setting(spec["setting"]), checked(ended)
        settings = [setting, *(Setting(setting.scene, start) for start in others(setting))]
        exact = brief.places_words(setting) is not None
        found: list[dict[str, Any]] = []
        for at, (placed, own) in enumerate(zip(settings, episodes, strict=True)):
            if base.sound(own) and (not exact or brief.places_words(placed) is not None):
                draft = Draft({"setting": placed.plain(), "controller": spec["controller"]})
                seen = [own, own, *episodes[:at], *episodes[at + 1 :]]  # once more, as if it had been run again
                found += itertools.islice(self.specs(draft, seen), ALSO)
        return found

    def expand_proposal(self, text: str, request: Request) -> str:
        calls, _, scene = text.partition(brief.SCENE)
        return proposed(brief.read_scene(scene), brief.program_of(calls))

    def scene(self, spec: Mapping[str, Any]) -> Scene:
        return read_setting(spec["setting"]).scene


def job(setting: Setting, start: Mapping[str, Placement], program: str, server: int = 0) -> Job:
    return Job(setting.scene, base.start_of(start), program, HORIZON, server=server)


def proposed(scene: Mapping[str, Any], program: str) -> str:
    """A question about a controller and a scene, as it is proposed. Its colours are those that come first: in the order
    in which the controller speaks of them, then by the shapes and the places of the other things, which are the same
    in other colours. What differs in colours alone would take as many episodes and say the same."""
    rows = [_read_thing(row) for row in scene["objects"]]
    things = sorted((row for row in rows if isinstance(row, dict)), key=lambda row: (row["shape"], row.get("at", [])))
    spoken = [*(color for color, _ in _THING.findall(program)), *(row["color"] for row in things)]
    new = dict(zip(dict.fromkeys(color for color in spoken if color in COLORS), COLORS, strict=False))
    objects = [{**row, "color": new.get(row["color"], row["color"])} if isinstance(row, dict) else row for row in rows]
    program = _THING.sub(lambda found: f"{new[found[1]]}_{found[2]}", program)
    return blocks({**scene, "objects": objects}, program)


def _read_thing(row: Any) -> Any:
    """A thing that is written as its name, as one with a place is; what is no thing, as it is."""
    named = _THING.fullmatch(row) if isinstance(row, str) else None
    return {"color": named[1], "shape": named[2]} if named else row


def checks(setting: Setting, program: str) -> tuple[Job, ...]:
    """What shows whether a question is one: its controller once more, where sets and dicts have another order, and at
    some other starts."""
    again = job(setting, setting.start, program, server=1)
    return again, *(job(setting, start, program) for start in others(setting))


def others(setting: Setting) -> list[dict[str, Placement]]:
    """The other starts that a question is tried with: fewer where things leave little room. Which are found depends on
    how many are looked for, so all that asks for them asks here."""
    return base.other_starts(setting, OTHERS)


def checked(ended: Sequence[Ended]) -> list[Ended]:
    """The question's own episode and those of other starts; RefusedError if its controller does not do the same twice.
    Where nothing was to be checked, the first alone."""
    own, *rest = ended
    if rest and rest[0].how in base.UNSEEN:  # that says nothing of the controller
        raise RefusedError(rest[0].how, rest[0].detail)
    if rest and rest[0].digest != own.digest:
        raise RefusedError("nondeterministic", "the controller does not do the same each time")
    return [own, *rest[1:]]


def compared(ended: Sequence[Ended]) -> bool:
    """Whether there is an end at another start to compare a question's own with. Where nothing was to be checked, none
    is asked for."""
    return len(ended) == 1 or any(map(base.sound, checked(ended)[1:]))


def run_of(spec: Mapping[str, Any]) -> str:
    """A controller in a scene with its places: whatever is asked about it says something of what else could be."""
    return canonical.key(spec["setting"], (), _program(spec), placed=True)


def leads_to(spec: Mapping[str, Any], goal: Sequence[Sequence[str]]) -> str:
    """A controller and what it shall lead to: without the start, which is what abduction asks for."""
    return canonical.key(spec["setting"], goal, _program(spec))


def leads_to_all(spec: Mapping[str, Any], rows: Sequence[Sequence[str]]) -> list[str]:
    """What a start at which all this comes true is an answer to."""
    return [leads_to(spec, part) for part in canonical.parts(rows)]


def _program(spec: Mapping[str, Any]) -> str:
    return canonical_form(spec["controller"], controllers.ENTRY)


def words_of(spec: Mapping[str, Any]) -> str:
    """A controller in brief words; one that was not written in them has none."""
    return brief.calls_of(spec["controller"]) or ""


def features_of(spec: Mapping[str, Any], predicates: int) -> dict[str, float]:
    things = len(spec["setting"]["objects"]) + len(spec["setting"]["fixtures"])
    lines = spec["controller"].count("robot.") + spec["controller"].count("world.")
    return {"predicates": float(predicates), "objects": float(things), "calls": float(lines)}


def references(request: Request) -> list[str]:
    """What a proposer sees of earlier questions: all but their answers."""
    shown = []
    for number, task in enumerate(request.references, 1):
        extra = {key: task.spec[key] for key in ("ask", "object", "goal") if key in task.spec}
        scene = {**task.spec["setting"], **extra}
        shown.append(
            paragraphs(
                f"Reference {number} ({task.id}):",
                fence("json", json.dumps(scene)),
                fence("python", task.spec["controller"]),
            )
        )
    return shown
