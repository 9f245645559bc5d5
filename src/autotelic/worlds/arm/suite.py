"""The held-out tasks of a run, and tasks from a user's file.

Control tasks are drawn for each family, questions for their kind, from fixed seeds, and are admitted like any proposal.
To find good questions takes thousands of episodes. They were found once, by `python -m autotelic.worlds.arm.suite`, and
are kept in suite_questions.py; only what comes of them is found again.
They were found with the first robot. With another they have other ends, or none to ask about: they are looked at anew,
and the suite has those that hold.
A player that always says the same gets nowhere: no answer of deduction stands for more than a small share of the
questions, and most starts do not solve an abduction.

A file of a user's own has one JSON object a line:
    {"kind": "induction", "task": {…}}                                          a task, as tasks.py writes it
    {"kind": "deduction" | "abduction", "question": {…}, "controller": "…"}     as it is proposed
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotelic.errors import UserError
from autotelic.physics.arm import robots
from autotelic.runs import seeds
from autotelic.runs.files import content_address, named_errors
from autotelic.worlds.arm import brief, goals, suite_questions
from autotelic.worlds.arm.goals import FAMILIES
from autotelic.worlds.arm.tasks import ROBOTS, blocks, read_setting
from autotelic.worlds.base import Proposal, Rejection, Task
from autotelic.worlds.code.suite import cached

if TYPE_CHECKING:
    from autotelic.worlds.arm.world import ArmWorld

SEED = 20_261_117
CONTROL = 30  # tasks a family
QUESTIONS = 100  # a kind
SPARE = 10  # questions more than that are kept, should some not hold with another version of the simulator
SHARE = 0.12  # of the questions that one answer may stand for
_BATCH = 60
_TURNS = 60


def standard_suite(world: ArmWorld) -> list[Task]:
    """The suite for the world's kinds, from the user's cache if it is there and whole, else made and kept there."""
    return cached(f"arm-suite-{identity(world)}", lambda: build_suite(world))


def identity(world: ArmWorld) -> str:
    """Changes with everything the suite depends on: the code of this package, and of the arm's physics."""
    from autotelic.physics.arm import scenes

    folders = (Path(__file__).parent, Path(__file__).parent / "kinds", Path(scenes.__file__).parent)
    code = [path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.glob("*.py"))]
    return content_address(world.version, np.__version__, list(world.kinds), world.config.kind.robot, code)


def build_suite(world: ArmWorld) -> list[Task]:
    robot, tasks = world.config.kind.robot, list[Task]()
    robots.kinematics(robot)  # one whose files are not installed says so; no task of it could be
    for kind, stored in (("deduction", suite_questions.DEDUCTION), ("abduction", suite_questions.ABDUCTION)):
        if kind in world.kinds:
            proposals = [Proposal(kind, _question(kind, line)) for line in stored.split("\n") if line]
            admitted = world.admit_freely(proposals, thorough=robot != ROBOTS[0])
            found = [result for result in admitted if isinstance(result, Task)]
            if len(found) < QUESTIONS and robot == ROBOTS[0]:
                raise RuntimeError(f"{len(found)} of {len(proposals)} {kind} questions still hold: find new ones")
            tasks += found[:QUESTIONS]
    return tasks + (_controls(world) if "induction" in world.kinds else [])


def _question(kind: str, line: str) -> str:
    """A stored question as it is proposed."""
    if kind == "deduction":
        calls, _, rest = line.partition(brief.SCENE)
        scene, _, rest = rest.partition(brief.ASK)
        asked, _, where = rest.partition(brief.WHERE)
        extra = {**brief.read_scene(scene), "ask": brief.read_goal(asked), "object": where.strip()}
    else:
        calls, _, rest = line.partition(brief.GOAL)
        goal, _, scene = rest.partition(brief.SCENE)
        extra = {**brief.read_scene(scene), "goal": brief.read_goal(goal)}
    return brief.question_proposal(calls, extra)


def _controls(world: ArmWorld) -> list[Task]:
    """The same number for each family. What is on the table beside what is spoken of is chance."""
    found: list[Task] = []
    for family in FAMILIES:
        kept: dict[str, Task] = {}
        rng = seeds.generator(SEED, "control", family)
        for _ in range(_TURNS):
            texts = [_control(family, rng) for _ in range(_BATCH)]
            for result in world.admit_freely([Proposal("induction", text) for text in texts]):
                if isinstance(result, Task) and len(kept) < CONTROL:
                    kept.setdefault(world.kinds["induction"].withheld(result.spec)[0], result)
            if len(kept) == CONTROL:
                break
        else:
            raise RuntimeError(f"too few tasks of the family {family}")
        found += kept.values()
    return found


def _control(family: str, rng: np.random.Generator) -> str:
    """A random task of a family: scenes are drawn until one has something of it to say."""
    while True:
        setting = brief.random_setting(rng)
        possible = [each for each in goals.stateable(setting.scene) if goals.SORTS[each.name].family == family]
        if family in ("reach", "push", "stack"):
            sorts = sorted({predicate.name for predicate in possible})
            wanted = sorts[int(rng.integers(len(sorts)))] if sorts else ""
            possible = [predicate for predicate in possible if predicate.name == wanted]
        if family == "pick-place":
            possible = [predicate for predicate in possible if predicate.args[1] == "bin"]
        if possible:
            goal = brief.goal_words([possible[int(rng.integers(len(possible)))]])
            return brief.control_proposal(f"{goal}{brief.SCENE}{brief.scene_words(setting, False)}")


# Finding questions


def find_questions(world: ArmWorld, name: str) -> list[str]:
    """Random controllers in random scenes, and what the world finds to ask about them. No answer of deduction, and no
    sort of goals of abduction, stands for more than its share."""
    kind, rng, counts = world.kinds[name], seeds.generator(SEED, name), Counter[str]()
    limit = QUESTIONS * (SHARE if name == "deduction" else 1 / 3)
    kept: dict[str, str] = {}
    while len(kept) < QUESTIONS + SPARE:
        texts = []
        for _ in range(_BATCH):
            setting = brief.random_setting(rng)
            calls = brief.random_calls(rng, brief.names_of(setting))
            texts.append(brief.question_proposal(calls, brief.read_scene(brief.scene_words(setting, True))))
        for result in world.admit_freely([Proposal(name, text) for text in texts]):
            if isinstance(result, Task):
                spec = result.spec
                sort = json.dumps([spec["held"], spec["region"]]) if name == "deduction" else spec["goal"][0][0]
                if counts[sort] < limit and kind.withheld(spec)[0] not in kept:
                    counts[sort] += 1
                    kept[kind.withheld(spec)[0]] = _stored(name, spec)
    return list(kept.values())[: QUESTIONS + SPARE]


def _stored(name: str, spec: Mapping[str, Any]) -> str:
    calls, scene = brief.calls_of(spec["controller"]), brief.scene_words(read_setting(spec["setting"]), True)
    words = brief.worded([word for row in spec["ask" if name == "deduction" else "goal"] for word in row])
    if name == "deduction":
        return f"{calls}{brief.SCENE}{scene}{brief.ASK}{words}{brief.WHERE} {spec['object']}"
    return f"{calls}{brief.GOAL}{words}{brief.SCENE}{scene}"


def main() -> None:
    """Prints suite_questions.py anew."""
    from autotelic.worlds.arm.world import ArmWorld, ArmWorldConfig

    with ArmWorld(ArmWorldConfig(heldout=False)) as world:
        found = {name: find_questions(world, name) for name in ("deduction", "abduction")}
    print(f'# ruff: noqa: E501\n"""{suite_questions.__doc__}"""\n')
    for name, lines in found.items():
        print(f'{name.upper()} = """\\')
        print("\n".join(lines))
        print('"""')


# A user's file


def load(path: Path, world: ArmWorld) -> list[Task]:
    """The tasks of a file, in the order of its lines; the first line that does not hold is named."""
    with named_errors(path):
        lines = path.read_text(encoding="utf-8-sig", errors="surrogateescape").split("\n")
    proposals: list[tuple[int, Proposal]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            proposals.append((number, _proposal(line, world)))
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from None
    if not proposals:
        raise UserError(f'{path}: no tasks; one JSON object a line, such as {{"kind": "induction", "task": {{…}}}}')
    tasks: list[Task] = []
    for (number, _), result in zip(proposals, world.admit_freely([each for _, each in proposals]), strict=True):
        if isinstance(result, Rejection):
            raise UserError(f"{path}:{number}: {result.outcome}: {result.reason}")
        tasks.append(result)
    return tasks


def _proposal(line: str, world: ArmWorld) -> Proposal:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    kind: Any = row.get("kind")
    if kind not in world.kinds:
        raise ValueError(f"kind is {kind!r:.60}, not one of {', '.join(world.kinds)}")
    known = {"kind", "task"} if kind == "induction" else {"kind", "question", "controller"}
    if set(row) != known:
        raise ValueError(f"a line of {kind} has {', '.join(sorted(known))}, and nothing else")
    if kind == "induction":
        return Proposal(kind, json.dumps(row["task"]))
    if not isinstance(row["controller"], str):
        raise ValueError("controller is no text")
    return Proposal(kind, blocks(row["question"], row["controller"]))


if __name__ == "__main__":
    main()
