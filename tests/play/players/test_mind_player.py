"""Any mind as a player: what it is asked, what becomes of what it says, and what its learner is told."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

import autotelic
from autotelic import registry
from autotelic.errors import UserError
from autotelic.minds.base import FrozenMind, Generation, Mind, MindConfig
from autotelic.play.player import Sample
from autotelic.play.players.mind import MindPlayer, player_of
from autotelic.runs.files import content_address
from autotelic.testing import check_player, run_digest
from autotelic.worlds.base import Answer, Proposal, Request, Task, Verdict

torch = pytest.importorskip("torch")

from autotelic.minds.tiny.mind import TinyConfig  # noqa: E402 - needs torch

KINDS = ("deduction", "abduction", "induction")


class Recorder(FrozenMind):
    """Remembers what it was asked, and says it back with a number."""

    name = "recorder"
    Config = MindConfig

    def __init__(self, config):
        super().__init__(config)
        self.asked = []
        self.closed = False

    def sample(self, prompts, n, rng, *, greedy=False, max_tokens=None):
        self.asked.append((list(prompts), n, greedy))
        chances = ["" if greedy else str(rng.integers(1000)) for _ in range(len(prompts) * n)]
        return [Generation(f"{prompts[at // n]}|{chance}") for at, chance in enumerate(chances)]

    def close(self):
        self.closed = True


class BriefRecorder(Recorder):
    name = "brief-recorder"
    brief = True


def player_with(world, mind: type[Recorder], **config) -> tuple[MindPlayer, Recorder]:
    player = player_of(mind)(MindConfig(**config), world)
    assert isinstance(player.mind, Recorder)
    return player, player.mind


@pytest.fixture(scope="module")
def tasks(world) -> list[Task]:
    return world.seeds()


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# What is asked and what is said


def test_a_mind_in_the_registry_is_a_player():
    player = registry.get("players", "endpoint")
    assert issubclass(player, MindPlayer)
    assert (player.name, player.mind_class) == ("endpoint", registry.get("minds", "endpoint"))
    assert registry.config_class("players", "endpoint") is registry.config_class("minds", "endpoint")


@pytest.mark.parametrize("mind", [Recorder, BriefRecorder])
def test_it_keeps_the_promises_of_a_player(world, tasks, mind):
    check_player(player_with(world, mind)[0], [Request(kind) for kind in KINDS], tasks)


def test_proposals_are_asked_for_in_the_words_of_the_kinds(world, tasks):
    player, mind = player_with(world, Recorder)
    requests = [Request(kind, references=(tasks[0],), base=tasks[0]) for kind in KINDS[:2]]
    said = player.propose(requests, rng())
    prompts = [world.kinds[request.kind].propose_prompt(request) for request in requests]
    assert mind.asked == [(prompts, 1, False)]
    assert [sample.text.rpartition("|")[0] for sample in said] == prompts


def test_attempts_are_asked_for_in_the_words_of_the_kinds(world, tasks):
    player, mind = player_with(world, Recorder)
    said = player.attempt(tasks, 2, rng())
    prompts = [world.kinds[task.kind].solve_prompt(task) for task in tasks]
    assert mind.asked == [(prompts, 2, False)]
    assert [sample.text.rpartition("|")[0] for sample in said] == [prompt for prompt in prompts for _ in range(2)]


def test_a_brief_mind_is_asked_in_the_brief_wording(world, tasks):
    player, mind = player_with(world, BriefRecorder)
    requests = [Request(kind, base=tasks[0]) for kind in KINDS]
    player.propose(requests, rng())
    player.attempt(tasks, 1, rng())
    assert mind.asked[0][0] == [world.kinds[request.kind].brief_propose_prompt(request) for request in requests]
    assert mind.asked[1][0] == [world.kinds[task.kind].brief_solve_prompt(task) for task in tasks]


class Conversing(Recorder):
    name = "conversing"
    converses = True


@pytest.mark.parametrize("shots", [1, 2])
def test_worked_examples_of_the_kind_go_before_each_question(world, tasks, shots: int):
    player, mind = player_with(world, Conversing, shots=shots)
    requests = [Request(kind, base=tasks[0]) for kind in KINDS]
    player.propose(requests, rng())
    player.attempt(tasks, 1, rng())
    proposing, solving = (asked for asked, *_ in mind.asked)
    for request, prompt in zip(requests, proposing, strict=True):
        kind = world.kinds[request.kind]
        shown = [text for pair in kind.propose_examples()[:shots] for text in pair]
        assert prompt == (*shown, kind.propose_prompt(request))
    for task, prompt in zip(tasks, solving, strict=True):
        kind = world.kinds[task.kind]
        shown = [text for pair in kind.solve_examples()[:shots] for text in pair]
        assert prompt == (*shown, kind.solve_prompt(task))


def test_worked_examples_for_a_mind_that_does_not_converse_are_one_line(world):
    with pytest.raises(UserError, match=r"^shots is 1, but recorder is asked one thing at a time: it must be 0$"):
        player_with(world, Recorder, shots=1)


def test_kinds_that_replay_weighs_and_that_are_none_are_named(world):
    config = TinyConfig()
    config.learner.replay_weights = {"abdction": 2.0}
    with pytest.raises(UserError, match=r"^learner\.replay_weights\.abdction: no such kind; did you mean abduction"):
        registry.get("players", "tiny")(config, world)


def test_an_answer_relabelled_is_the_same_text_under_the_prompt_of_another_task(world, tasks):
    player = registry.get("players", "tiny")(TinyConfig(width=16, heads=2, layers=1, base_steps=1), world)
    one, other = (
        replace(tasks[0], id=name, spec={**tasks[0].spec, "program": f"def f(x):\n    return x + {name}"})
        for name in "12"
    )
    (said,) = player.attempt([one], 1, rng())
    moved = player.relabel(said, other)
    assert (moved.text, moved.task, moved.hindsight) == (said.text, "2", True)
    prompt = world.kinds["deduction"].brief_solve_prompt(other)
    assert moved.trace["generation"].prompt.tolist() == player.mind.encode(prompt).tolist()


def test_a_player_whose_mind_does_not_learn_relabels_nothing(world, tasks):
    player, _ = player_with(world, Recorder)
    (said,) = player.attempt(tasks[:1], 1, rng())
    assert player.relabel(said, tasks[0]) is None


class Wise(BriefRecorder):
    """Knows the identity, in brief."""

    def sample(self, prompts, n, rng, *, greedy=False, max_tokens=None):
        program = "def f(x):\n    return x"
        said = {
            "<propose><deduction>": f"{program} + 1<input>4",
            "<propose><abduction>": f"{program} + 2<input>4",
            "<propose><induction>": "<input>".join(map(str, range(10))),
            "<deduction>": "'Hello world'",
            "<abduction>": "'Hello world'",
            "<induction>": program,
        }
        return [
            Generation(next(text for begin, text in said.items() if prompt.startswith(begin)))
            for prompt in prompts
            for _ in range(n)
        ]


def test_brief_proposals_are_spelled_out_for_the_world(world, tasks):
    player, _ = player_with(world, Wise)
    requests = [Request("deduction"), Request("abduction"), Request("induction", base=tasks[0])]
    said = player.propose(requests, rng())
    proposals = [
        Proposal(sample.kind, sample.text, request.base) for sample, request in zip(said, requests, strict=True)
    ]
    results = world.admit(proposals, seed=0)
    assert [type(result) for result in results] == [Task] * 3, results


def test_brief_answers_are_spelled_out_for_the_world(world, tasks):
    player, _ = player_with(world, Wise)
    identities = [task for task in tasks if task.kind != "induction"]
    said = player.attempt(identities, 2, rng())
    pairs = [(identities[at // 2], Answer(sample.text)) for at, sample in enumerate(said)]
    assert all(verdict.solved for verdict in world.judge(pairs, seed=0))


def test_each_attempt_carries_its_task_and_kind(world, tasks):
    player, _ = player_with(world, BriefRecorder)
    said = player.attempt(tasks, 3, rng())
    assert [(sample.task, sample.kind) for sample in said] == [(task.id, task.kind) for task in tasks for _ in range(3)]


def test_the_trace_of_a_sample_is_what_the_mind_wrote(world, tasks):
    player, _ = player_with(world, BriefRecorder)
    (said,) = player.attempt(tasks[:1], 1, rng())
    (proposed,) = player.propose([Request("deduction")], rng())
    assert said.trace["generation"].text.startswith("<deduction>")
    assert proposed.trace["generation"].text.startswith("<propose><deduction>")


def test_greedy_attempts_are_written_once_and_given_as_often_as_asked(world, tasks):
    player, mind = player_with(world, Recorder)
    said = player.attempt(tasks[:2], 3, rng(), greedy=True)
    assert mind.asked == [([world.kinds[task.kind].solve_prompt(task) for task in tasks[:2]], 1, True)]
    assert [sample.task for sample in said] == [task.id for task in tasks[:2] for _ in range(3)]
    assert len({sample.text for sample in said}) == 2


def test_kinds_that_are_only_measured_with_are_asked_too(world):
    player, mind = player_with(world, Recorder)
    task = Task("id", "code", "humaneval", {"prompt": "def g(x):\n", "entry": "g", "test": ""})
    player.attempt([task], 1, rng())
    assert mind.asked[0][0] == [world.kind_of(task).solve_prompt(task)]


def test_closing_the_player_closes_the_mind(world):
    player, mind = player_with(world, Recorder)
    player.close()
    assert mind.closed


# Minds that do not learn


def test_a_frozen_mind_learns_nothing_and_keeps_nothing(world):
    player, _ = player_with(world, Recorder)
    assert player.learner is None
    assert (
        player.learn([(Sample("solve", "deduction", "x", task="t", trace={"generation": Generation("x")}), 1.0)]) == {}
    )
    assert player.state() == {}
    player.load_state({})
    with player.evaluating():
        pass


def test_a_frozen_mind_has_no_use_for_hindsight(world, tasks):
    player, _ = player_with(world, Recorder)
    (said,) = player.attempt(tasks[:1], 1, rng())
    assert player.relabel(said, tasks[1]) is None


def test_a_state_for_a_mind_that_keeps_none_is_refused(world):
    with pytest.raises(ValueError, match="keeps no state"):
        player_with(world, Recorder)[0].load_state({"mind": {}})


# Minds that learn


@pytest.fixture(scope="module")
def tiny(world, tmp_path_factory):
    """A tiny player with a few steps of base training, made in a cache of its own."""
    from autotelic.minds.tiny.mind import TinyConfig

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        config = TinyConfig(width=16, heads=2, layers=1, max_tokens=16, base_steps=3)
        config.learner.average = 0.5
        yield lambda: registry.get("players", "tiny")(config, world)
        torch.set_num_threads(threads)


def graded(player: MindPlayer, tasks: list[Task], seed: int = 0) -> list[tuple[Sample, float]]:
    """Whatever begins with an odd token earns."""
    draw = np.random.default_rng(seed)
    said = [*player.propose([Request(kind) for kind in KINDS], draw), *player.attempt(tasks, 4, draw)]
    return [(sample, float(sample.trace["generation"].tokens[0] % 2)) for sample in said]


def test_samples_are_learned_from_by_role_and_kind_and_compared_within_their_task(tiny, tasks, monkeypatch):
    player, seen = tiny(), []
    monkeypatch.setattr(player.learner, "learn", lambda rows: seen.extend(rows) or {"loss": 1.0})
    lessons = graded(player, tasks)
    assert player.learn(lessons) == {"loss": 1.0}
    assert [row.generation for row in seen] == [sample.trace["generation"] for sample, _ in lessons]
    assert [row.reward for row in seen] == [reward for _, reward in lessons]
    assert [row.baseline for row in seen] == [f"{sample.role}/{sample.kind}" for sample, _ in lessons]
    assert [row.group for row in seen] == [sample.task or "" for sample, _ in lessons]


def test_an_answer_is_relabelled_as_one_to_another_task(tiny, world, tasks):
    player, (one, other) = tiny(), tasks[:2]
    (said,) = player.attempt([one], 1, rng())
    moved = player.relabel(said, other)
    generation, before = moved.trace["generation"], said.trace["generation"]
    assert (moved.task, moved.hindsight, said.hindsight) == (other.id, True, False)
    assert generation.tokens.tolist() == before.tokens.tolist()
    prompt = world.kinds[other.kind].brief_solve_prompt(other)
    assert generation.prompt.tolist() == player.mind.vocabulary.encode(prompt)


def test_the_answer_that_a_task_came_with_is_recited_under_its_prompt(tiny, world, tasks, monkeypatch):
    player, task = tiny(), tasks[0]
    kind = world.kinds[task.kind]
    monkeypatch.setattr(type(kind), "brief_answer", lambda self, task: "7")
    sample = player.recite(task)
    generation = sample.trace["generation"]
    assert (sample.task, sample.role, sample.text, sample.hindsight) == (
        task.id,
        "solve",
        kind.expand_answer("7"),
        True,
    )
    assert generation.prompt.tolist() == player.mind.vocabulary.encode(kind.brief_solve_prompt(task))
    assert player.mind.vocabulary.decode(generation.tokens.tolist()) == "7"


def test_nothing_is_recited_where_no_answer_came_with_a_task(tiny, tasks):
    assert tiny().recite(tasks[0]) is None


def test_a_player_whose_mind_does_not_learn_recites_nothing(world, tasks, monkeypatch):
    monkeypatch.setattr(type(world.kinds[tasks[0].kind]), "brief_answer", lambda self, task: "7")
    player, _ = player_with(world, BriefRecorder)
    assert player.recite(tasks[0]) is None


def test_hindsight_is_told_to_the_learner(tiny, tasks, monkeypatch):
    player, seen = tiny(), []
    monkeypatch.setattr(player.learner, "learn", lambda rows: seen.extend(rows) or {})
    (said,) = player.attempt(tasks[:1], 1, rng())
    player.learn([(said, 0.0), (player.relabel(said, tasks[1]), 1.0)])
    assert [row.hindsight for row in seen] == [False, True]


def test_learning_changes_the_mind(tiny, tasks):
    player = tiny()
    before = [weight.detach().clone() for weight in player.mind.parameters()]
    assert player.learn(graded(player, tasks))
    assert any(not torch.equal(one, other) for one, other in zip(player.mind.parameters(), before, strict=True))


def test_a_restored_player_goes_on_exactly(tiny, tasks):
    one, other = tiny(), tiny()
    one.learn(graded(one, tasks))
    other.load_state(copy.deepcopy(one.state()))
    for player in (one, other):
        player.learn(graded(player, tasks, seed=1))
    assert all(
        torch.equal(mine, theirs) for mine, theirs in zip(one.mind.parameters(), other.mind.parameters(), strict=True)
    )
    with one.evaluating(), other.evaluating():
        for mine, theirs in zip(one.mind.parameters(), other.mind.parameters(), strict=True):
            assert torch.equal(mine, theirs)


def test_a_player_is_measured_with_its_averaged_weights(tiny, tasks):
    player = tiny()
    player.learn(graded(player, tasks))
    live = [weight.detach().clone() for weight in player.mind.parameters()]
    with player.evaluating():
        assert any(not torch.equal(one, other) for one, other in zip(player.mind.parameters(), live, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(player.mind.parameters(), live, strict=True))


def test_the_mind_is_made_for_the_world_it_plays_in(world, monkeypatch):
    seen = []

    class Curious(Recorder):
        @classmethod
        def for_world(cls, config, tokens, babble) -> Mind:
            seen.append((config, tokens, babble(np.random.default_rng(0), 2)))
            return cls(config)

    config = MindConfig()
    player_of(Curious)(config, world)
    assert seen == [(config, world.tokens, world.babble(np.random.default_rng(0), 2))]


@pytest.mark.parametrize("estimator", ["sil", "ppo"])
def test_a_resumed_run_of_a_learning_mind_is_equal_to_one_that_was_not_interrupted(tmp_path, estimator: str):
    shape = ("player.width=16", "player.heads=2", "player.layers=1", "player.base_steps=3", "player.max_tokens=24")
    small = ("loop.batch=4", "loop.proposals=4", "loop.attempts=2", "checkpoint.every=2", "evaluate=false")
    small += ("world.heldout=false", "world.sandbox.servers=2")
    common = ("player=tiny", *shape, *small, f"player.learner.estimator={estimator}", f"root={tmp_path}")
    with autotelic.new_loop(*common, "run=whole") as loop:
        loop.run(5)
    with autotelic.new_loop(*common, "run=broken") as loop:
        for _ in range(4):  # the last of which no checkpoint holds
            loop.run_step()
    with autotelic.open_loop(tmp_path / "broken") as loop:
        assert loop.step == 2
        loop.run(2)
    assert run_digest(tmp_path / "broken") == run_digest(tmp_path / "whole")


# Second looks


class Talker(Conversing):
    """Has an opinion."""

    name = "talker"

    def sample(self, prompts, n, rng, *, greedy=False, max_tokens=None):
        self.asked.append((list(prompts), n, greedy))
        return [Generation("No: it will fall.")] * len(prompts)


def test_a_retry_follows_the_question_the_answer_and_the_verdict(world, tasks):
    player, mind = player_with(world, Talker)
    task, sample = tasks[0], Sample("solve", tasks[0].kind, "my answer", task=tasks[0].id)
    (again,) = player.retry([(task, sample, Verdict(False, "wrong", detail="0.2 away"))], rng())
    ((question, answer, feedback),) = mind.asked[0][0]
    assert (question, answer) == (world.kinds[task.kind].solve_prompt(task), "my answer")
    assert "wrong: 0.2 away" in feedback
    assert (again.role, again.task, again.parent) == ("solve", task.id, content_address("my answer"))


@pytest.mark.parametrize(("said", "claim"), [("No: it will fall.", False), ("**Yes**, it is", True), ("Nothing", None)])
def test_a_critique_has_a_claim_where_it_says_yes_or_no(world, tasks, monkeypatch, said: str, claim: bool | None):
    monkeypatch.setattr(Talker, "sample", lambda *_, **__: [Generation(said)])
    player, _ = player_with(world, Talker)
    sample = Sample("solve", tasks[0].kind, "my answer", task=tasks[0].id)
    (thought,) = player.criticise([(tasks[0], sample)], rng())
    assert (thought.role, thought.text, thought.claim) == ("criticise", said, claim)
    assert thought.parent == content_address("my answer")


def test_only_minds_that_converse_are_told_what_was_wrong(world):
    assert player_with(world, Talker)[0].reads
    assert not player_with(world, BriefRecorder)[0].reads
