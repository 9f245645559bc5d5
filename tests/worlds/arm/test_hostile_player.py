"""A step of the loop with a player whose answers hang, crash, flood, import and talk nonsense."""

from collections import Counter
from itertools import cycle, islice

from autotelic.play.archive import Archive
from autotelic.play.loop import Loop, LoopConfig
from autotelic.play.player import Player, Sample
from autotelic.runs.directory import Run
from autotelic.worlds.arm.world import ArmWorld
from autotelic.worlds.code.kinds.base import answer_text

from .texts import REACH, control, unchecked

DEF = "def execute_controller(robot, world):\n    "
FLOOD = "[os.write(3, b'\\x01\\x00\\x00\\x00v' * 1000) for _ in range(100)]"
ANSWERS = {
    "is right": (answer_text(REACH), "correct"),
    "hangs": (answer_text(f"{DEF}while True: pass"), "limit"),
    "sleeps": (answer_text(f"import time\n{DEF}time.sleep(60)"), "limit"),
    "ends its process": (answer_text(f"import os\n{DEF}os._exit(0)"), "crash"),
    "aborts": (answer_text(f"import os\n{DEF}os.abort()"), "crash"),
    "floods": (answer_text(f"import os\n{DEF}{FLOOD}"), "forged"),
    "starts a child": (answer_text(f"import os\n{DEF}os.fork()"), "escape"),
    "imports the judge": (answer_text(f"import autotelic.worlds.arm.goals\n{DEF}pass"), "exception"),
    "returns nonsense": (answer_text(f"{DEF}return 42"), "returned"),
    "claims": (answer_text(f"{DEF}return 'success'"), "wrong"),
    "says nothing": ("", "format"),
    "talks": ("I would rather not. \ud800\x00", "format"),
}


class Hostile(Player):
    """Proposes to reach for a box, and answers with all of the above in turn."""

    name = "hostile"

    def __init__(self) -> None:
        pass

    def propose(self, requests, rng):
        text = control(["near", "red_box"], ["red_box", "blue_sphere"])
        return [Sample("propose", request.kind, text) for request in requests]

    def attempt(self, tasks, n, rng, greedy=False):
        texts = [text for text, _ in ANSWERS.values()]
        return [Sample("solve", task.kind, text, task=task.id) for task in tasks for text in islice(cycle(texts), n)]


def test_a_step_with_a_hostile_player_ends_and_every_answer_has_its_class(tmp_path):
    player, config = Hostile(), LoopConfig(batch=1, attempts=len(ANSWERS), seeding=1, references=0)
    with (
        ArmWorld(unchecked(kinds=["induction"])) as world,
        Run.create(tmp_path, "run", {}, verb="play", seed=0) as run,
        Archive.create(run.archive) as archive,
    ):
        loop = Loop(config, run, world, player, player, archive)
        loop.run(2)
        found = [(answer.text, verdict.outcome) for _, answer, verdict, _ in archive.verdict_rows()]
        ledger = loop.result(True)["cheating"]
    assert Counter(found) == Counter(ANSWERS.values())
    assert ledger == {"forged_results": 1, "false_claims": 1, "forbidden_calls": 0, "escapes_attempted": 1}
