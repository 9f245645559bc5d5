"""The learner: what one step's updates do to a mind."""

import copy
import dataclasses
import logging
import math
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from autotelic.errors import UserError
from autotelic.learning import losses
from autotelic.minds import learner as module
from autotelic.minds.base import Generation
from autotelic.minds.config import ESTIMATORS, LearnerConfig
from autotelic.minds.learner import Learner
from autotelic.minds.memory import memory_errors
from autotelic.minds.samples import Graded
from autotelic.minds.tiny.mind import TinyConfig, TinyMind
from autotelic.runs.checkpoints import Checkpoints

TOKENS = ("<ask>", "<answer>", "a", "b", "c", "d")
PROMPTS = ["<ask>a<answer>", "<ask>b<answer>", "<ask>c<answer>", "<ask>d<answer>"]

pytestmark = pytest.mark.usefixtures("one_thread")


def mind_of() -> TinyMind:
    mind = TinyMind(TinyConfig(width=32, heads=2, layers=1, max_tokens=3), TOKENS)
    mind._base = copy.deepcopy(mind.network)
    return mind


def config_of(**changes) -> LearnerConfig:
    return LearnerConfig(**{"lr": 0.003, "minibatch": 1000, "entropy": 0.0} | changes)


def graded(mind: TinyMind, reward, n: int = 8, seed: int = 0, prompts=PROMPTS) -> list[Graded]:
    """Samples whose reward is a function of prompt and text."""
    said = mind.sample(prompts, n, np.random.default_rng(seed))
    return [
        Graded(each, reward(prompts[at // n], each.text), "solve/echo", prompts[at // n])
        for at, each in enumerate(said)
    ]


def echo(prompt: str, text: str) -> float:
    """Right: the letter that was asked."""
    return float(text[:1] == prompt[5])


def shaken(mind: TinyMind, by: float = 0.3, seed: int = 5) -> None:
    """Moves the weights at random."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in mind.parameters():
            weight.add_(by * torch.randn(weight.shape, generator=generator))


def right(mind: TinyMind) -> float:
    said = mind.sample(PROMPTS, 100, np.random.default_rng(77))
    return float(np.mean([echo(PROMPTS[at // 100], each.text) for at, each in enumerate(said)]))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_learns_what_is_rewarded(estimator):
    mind = mind_of()
    learner = Learner(config_of(estimator=estimator, value_lr=0.01, constant=3.0), mind)
    before = right(mind)
    for step in range(80):
        learner.learn(graded(mind, echo, n=32, seed=step))
    assert before < 0.4
    assert right(mind) > 0.9


def test_what_is_not_rewarded_is_not_learned():
    mind = mind_of()
    learner = Learner(config_of(), mind)
    for step in range(20):
        rewards = np.random.default_rng([5, step])
        learner.learn(graded(mind, lambda prompt, text, rewards=rewards: float(rewards.random()), seed=step))
    assert right(mind) < 0.5


def ratios_of(monkeypatch) -> list[torch.Tensor]:
    """The ratios of each update's tokens, as the loss sees them."""
    seen = []
    loss = losses.policy_loss

    def spy(log_probs, old, advantages, mask, **how):
        seen.append((log_probs - old).detach().exp()[mask])
        return loss(log_probs, old, advantages, mask, **how)

    monkeypatch.setattr(losses, "policy_loss", spy)
    return seen


@pytest.mark.parametrize("rescore", [True, False])
def test_the_ratio_is_exactly_1_on_the_first_minibatch(monkeypatch, rescore):
    mind, seen = mind_of(), ratios_of(monkeypatch)
    Learner(config_of(minibatch=8, rescore=rescore), mind).learn(graded(mind, echo))
    assert torch.equal(seen[0], torch.ones_like(seen[0]))
    assert any(not torch.equal(later, torch.ones_like(later)) for later in seen[1:])


def test_old_log_probabilities_are_those_before_the_first_update(monkeypatch):
    """Rescored or as sampled, the later minibatches are compared with the same weights."""
    seen = {}
    for rescore in (True, False):
        with monkeypatch.context() as patch:
            mind, ratios = mind_of(), ratios_of(patch)
            Learner(config_of(minibatch=8, epochs=2, rescore=rescore), mind).learn(graded(mind, echo))
            seen[rescore] = ratios
    for one, other in zip(seen[True], seen[False], strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)


def gradients_of(learner: Learner, samples: list[Graded], monkeypatch) -> list[list[torch.Tensor]]:
    """The gradients of each of a step's updates, none of which moves the weights."""
    seen: list[list[torch.Tensor]] = []

    def spy(weights, loss: float) -> float:
        seen.append([torch.zeros_like(weight) if weight.grad is None else weight.grad.clone() for weight in weights])
        return 0.0

    monkeypatch.setattr(learner, "_move", spy)
    learner.learn(samples)
    return seen


@pytest.mark.parametrize(("shift", "cap", "factor"), [(0.0, 2.0, 1.0), (0.5, 2.0, math.exp(0.5)), (1.0, 2.0, 2.0)])
def test_a_sampler_that_differs_is_corrected_for_up_to_the_cap(monkeypatch, shift: float, cap: float, factor: float):
    mind = mind_of()
    samples = graded(mind, echo)
    rarer = [dataclasses.replace(s.generation, log_probs=s.generation.log_probs - shift) for s in samples]
    shifted = [dataclasses.replace(s, generation=said) for s, said in zip(samples, rarer, strict=True)]
    (plain,) = gradients_of(Learner(config_of(importance_cap=0.0), mind), samples, monkeypatch)
    (found,) = gradients_of(Learner(config_of(importance_cap=cap), mind), shifted, monkeypatch)
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, factor * other, atol=1e-6, rtol=1e-4)


def test_pieces_and_baselines_add_up_to_the_gradient_of_the_whole(monkeypatch):
    moves = []
    for area, by_kind in ((1 << 20, False), (60, False), (60, True)):
        monkeypatch.setattr("autotelic.minds.tiny.mind._AREA", area)
        mind = mind_of()
        samples = graded(mind, echo)
        mixed = [Graded(s.generation, s.reward, f"solve/{'xy'[at % 2]}", s.group) for at, s in enumerate(samples)]
        learner = Learner(config_of(optimizer="adamw", gradients_by_kind=by_kind, grad_clip=0.0), mind)
        with monkeypatch.context() as patch:
            moves += gradients_of(learner, mixed, patch)
    for other in moves[1:]:
        torch.testing.assert_close(other, moves[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("estimator", ["sil", "maxrl", "grpo", "trr++"])
def test_equal_texts_scored_once_give_the_gradient_of_all(monkeypatch, estimator):
    gradients = []
    for folds in (True, False):
        with monkeypatch.context() as patch:
            if not folds:
                patch.setattr(module.Batch, "fold", lambda self: None)
            mind = mind_of()
            learner = Learner(config_of(estimator=estimator, grad_clip=0.0), mind)
            gradients += gradients_of(learner, graded(mind, echo, n=32), patch)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_right_answers_are_remembered_once():
    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=1), mind)
    learner.learn(graded(mind, echo, n=32))
    (known,) = learner.memory.values()
    texts = [
        (mind.vocabulary.decode(each.prompt.tolist()), mind.vocabulary.decode(each.tokens.tolist())) for each in known
    ]
    assert texts
    assert all(echo(prompt, text) for prompt, text in texts)
    assert len(set(texts)) == len(texts)


def test_a_wrong_answer_is_not_remembered_though_others_of_its_group_are_worse():
    """As self-play pays: right 1, wrong -0.5, badly formatted -1."""

    def paid(prompt: str, text: str) -> float:
        return 1.0 if echo(prompt, text) else -0.5 if text[:1] in ("a", "b") else -1.0

    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=1), mind)
    samples = graded(mind, paid, n=8)
    assert {each.reward for each in samples} == {1.0, -0.5, -1.0}
    learner.learn(samples)
    said = {(each.prompt.tobytes(), each.tokens.tobytes()) for each in learner.memory["solve/echo"]}
    right = [each.generation for each in samples if each.reward == 1.0]
    assert said == {(each.prompt.tobytes(), each.tokens.tobytes()) for each in right}


def test_right_answers_to_tasks_that_are_always_solved_are_remembered():
    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=1), mind)
    samples = graded(mind, lambda prompt, text: 1.0)
    learner.learn(samples)
    said = [(each.prompt.tobytes(), each.tokens.tobytes()) for each in learner.memory["solve/echo"]]
    assert sorted(said) == sorted(
        {(each.generation.prompt.tobytes(), each.generation.tokens.tobytes()) for each in samples}
    )


def test_without_an_anchor_proposals_above_the_mean_are_remembered():
    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=1, anchor=0.0), mind)
    samples = [dataclasses.replace(each, baseline="propose/echo") for each in graded(mind, echo, n=8)]
    learner.learn([*samples, *(dataclasses.replace(each, group="level", reward=0.5) for each in samples)])
    said = {(each.prompt.tobytes(), each.tokens.tobytes()) for each in learner.memory["propose/echo"]}
    better = [each.generation for each in samples if each.reward == 1.0]
    assert said == {(each.prompt.tobytes(), each.tokens.tobytes()) for each in better}


def test_memory_forgets_the_oldest():
    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=1, memory=3), mind)
    for step in range(4):
        learner.learn(graded(mind, echo, n=32, seed=step))
        newest = learner.memory["solve/echo"]
        assert len(newest) <= 3
    before = [each.log_probs.tolist() for each in newest]
    learner.learn(graded(mind, echo, n=32, seed=9))
    assert [each.log_probs.tolist() for each in learner.memory["solve/echo"]] != before


def test_replay_makes_remembered_answers_likelier():
    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=10), mind)
    said = graded(mind, echo, n=32)
    learner.learn(said)
    (known,) = learner.memory.values()
    with torch.no_grad():
        before = mind.score(known).log_probs.sum()
    # Nothing to compare in this step: all that is learned is replayed.
    learner.learn([dataclasses.replace(each, reward=0.0) for each in said])
    with torch.no_grad():
        assert mind.score(known).log_probs.sum() > before


def test_what_is_right_in_hindsight_is_remembered_and_not_compared():
    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=1), mind)
    samples = graded(mind, lambda prompt, text: 0.0)
    moved = mind.answering(PROMPTS[1], samples[0].generation)
    figures = learner.learn([*samples, Graded(moved, 1.0, "solve/echo", "elsewhere", hindsight=True)])
    assert [each.prompt.tolist() for each in learner.memory["solve/echo"]] == [mind.encode(PROMPTS[1]).tolist()]
    assert learner.memory["solve/echo"][0].tokens.tolist() == samples[0].generation.tokens.tolist()
    assert figures["solve/echo/groups"] == len(PROMPTS)


def test_what_did_not_fit_after_its_prompt_in_hindsight_is_not_remembered():
    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=1), mind)
    unsaid = Generation("", mind.encode(PROMPTS[1]), finished=False)
    learner.learn([*graded(mind, echo, n=32), Graded(unsaid, 1.0, "solve/echo", "elsewhere", hindsight=True)])
    assert all(len(each.tokens) for each in learner.memory["solve/echo"])


def test_hindsight_without_replay_is_refused():
    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=0), mind)
    (said, *_) = graded(mind, lambda prompt, text: 0.0)
    with pytest.raises(ValueError, match=r"replay is 0$"):
        learner.learn([dataclasses.replace(said, hindsight=True)])


def recalled(shares: dict[str, int], roles: set[str], **changes) -> dict[str, int]:
    """How many texts of each role and kind one update of a learner with such a memory sees."""
    mind = mind_of()
    learner = Learner(config_of(replay=1, replay_size=120, **changes), mind)
    (said,) = mind.sample(PROMPTS[:1], 1, np.random.default_rng(0))
    learner.memory = {name: [dataclasses.replace(said, text=name)] * many for name, many in shares.items()}
    learner.roles = roles
    seen = learner._recalled(np.random.default_rng(1))
    return {name: sum(each.text == name for each in seen) for name in shares}


def test_replay_sees_as_many_answers_of_each_kind_and_a_share_of_proposals():
    known = {"propose/one": 10, "propose/two": 70, "solve/one": 30, "solve/two": 90}
    assert recalled(known, {"propose", "solve"}, replay_proposals=0.25) == {
        "propose/one": 15,
        "propose/two": 15,
        "solve/one": 45,
        "solve/two": 45,
    }


def test_replay_of_a_player_with_one_role_is_all_of_that_role():
    known = {"solve/one": 30, "solve/two": 90}
    assert recalled(known, {"solve"}, replay_proposals=0.25) == {"solve/one": 60, "solve/two": 60}


def test_what_is_right_in_hindsight_is_counted_apart():
    mind = mind_of()
    first, *others = graded(mind, lambda prompt, text: float("a" in text))
    learner = Learner(config_of(estimator="sil", replay=1), mind)
    figures = learner.learn([*others, dataclasses.replace(first, hindsight=True)])
    assert figures["solve/echo/remembered_in_hindsight"] == 1
    assert figures["solve/echo/remembered"] == len(learner.memory["solve/echo"]) > 1


@pytest.mark.parametrize(("estimator", "known"), [("ppo", True), ("trr++", False)])
def test_the_error_of_the_critic_is_a_figure_where_there_is_one(estimator: str, known: bool):
    mind = mind_of()
    figures = Learner(config_of(estimator=estimator), mind).learn(graded(mind, lambda prompt, text: 1.0))
    # It starts at 0 everywhere, and the reward of 1 comes without discount: half of a square of 1.
    assert figures.get("value_loss") == (pytest.approx(0.5) if known else None)


def test_replay_of_proposals_stays_at_its_share_while_no_answer_was_right():
    assert recalled({"propose/one": 30}, {"propose", "solve"}, replay_proposals=0.25) == {"propose/one": 30}


def test_replay_sees_as_many_of_each_sort_of_task_within_a_kind():
    known = {"solve/one/easy": 900, "solve/one/hard": 40, "solve/two": 90}
    seen = {"solve/one/easy": 30, "solve/one/hard": 30, "solve/two": 60}
    assert recalled(known, {"solve"}) == seen


def test_replay_sees_more_of_the_kinds_that_weigh_more():
    known = {"solve/one/easy": 900, "solve/one/hard": 900, "solve/two": 900, "propose/two": 900}
    found = recalled(known, {"solve", "propose"}, replay_weights={"two": 3.0}, replay_proposals=0.25)
    shares = {name: many / sum(found.values()) for name, many in found.items()}
    expected = {"solve/one/easy": 0.75 / 8, "solve/one/hard": 0.75 / 8, "solve/two": 0.75 * 0.75, "propose/two": 0.25}
    assert shares == pytest.approx(expected, abs=0.02)


def test_a_kind_that_weighs_nothing_is_one_line():
    with pytest.raises(UserError, match=r"^replay_weights\.two is 0"):
        LearnerConfig(replay_weights={"two": 0.0})


def test_replay_does_not_learn_the_little_there_is_by_heart():
    assert recalled({"solve/one/easy": 90, "solve/one/hard": 3}, {"solve"}) == {
        "solve/one/easy": 60,
        "solve/one/hard": 2 * 3,
    }


def test_texts_are_remembered_by_sort_of_task():
    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=1), mind)
    said = [dataclasses.replace(each, sort="easy") for each in graded(mind, lambda prompt, text: 1.0)]
    figures = learner.learn(said)
    assert list(learner.memory) == ["solve/echo/easy"]
    assert figures["solve/echo/easy/remembered"] == figures["solve/echo/remembered"] > 0


def imitated(learner: Learner, monkeypatch) -> list[Generation]:
    """All texts that the replay of a step sees."""
    seen: list[Generation] = []
    assert isinstance(learner.mind, TinyMind)
    monkeypatch.setattr(learner, "_imitate", lambda said, tally: seen.extend(said))
    learner.learn(graded(learner.mind, lambda prompt, text: 1.0, prompts=PROMPTS[:1]))
    return seen


def test_rows_of_tokens_that_are_alike_change_places_in_prompt_and_answer_together(monkeypatch):
    mind = mind_of()
    learner = Learner(config_of(estimator="sil", replay=3), mind, alike=[["a", "c"], ["b", "d"]])
    seen = imitated(learner, monkeypatch)
    (asked, *_), kept = mind.encode("a"), {each.tokens.tobytes() for each in learner.memory["solve/echo"]}
    other = {letter: mind.encode(letter)[0] for letter in "abcd"}
    swapped = {other["a"]: other["b"], other["b"]: other["a"], other["c"]: other["d"], other["d"]: other["c"]}
    as_it_was = [each for each in seen if each.prompt[1] == asked]
    others = [each for each in seen if each.prompt[1] == other["b"]]
    assert len(as_it_was) + len(others) == len(seen)
    assert as_it_was
    assert others
    for each in others:
        back = np.array([swapped.get(token, token) for token in each.tokens.tolist()], np.int32)
        assert back.tobytes() in kept


def test_no_text_is_changed_into_one_that_is_held_out(monkeypatch):
    rest = {"alike": [["a"], ["b"]], "withheld": lambda prompt: prompt == PROMPTS[1]}
    learner = Learner(config_of(estimator="sil", replay=3), mind := mind_of(), **rest)
    assert {each.prompt[1] for each in imitated(learner, monkeypatch)} == {mind.encode("a")[0]}


def test_rehearsal_adds_a_share_of_random_texts(monkeypatch):
    def babble(rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
        return [("<ask>d<answer>", "dd")] * count

    config = config_of(estimator="sil", replay=2, replay_size=100, rehearsal=0.3)
    learner = Learner(config, mind := mind_of(), babble=babble)
    seen = imitated(learner, monkeypatch)
    random = [each for each in seen if each.prompt[1] == mind.encode("d")[0]]
    assert len(random) == 2 * 30
    assert all(each.tokens.tolist() == [*mind.vocabulary.encode("dd"), 1] for each in random)


def anchored(mind: TinyMind, anchor: float, extra: list[float], pay: list[float]) -> list[int]:
    """Of 4,000 proposals that take turns, how many of each are remembered, where they were sampled so many nats
    likelier than the base would have written them, and earned so much."""
    said = mind.sample(PROMPTS[:1], 4000, np.random.default_rng(0))
    turns = [at % len(pay) for at in range(len(said))]
    samples = [
        Graded(
            dataclasses.replace(each, log_probs=each.log_probs + extra[turn] / len(each.tokens), text=f"{turn}"),
            pay[turn],
            "propose/echo",
            "",
        )
        for each, turn in zip(said, turns, strict=True)
    ]
    learner = Learner(config_of(estimator="sil", replay=1, anchor=anchor, lr=0.0), mind)
    learner.learn(samples)
    kept = [each.text for each in learner.memory["propose/echo"]]
    return [kept.count(f"{turn}") for turn in range(len(pay))]


def test_anchored_proposals_are_remembered_as_often_as_the_base_would_write_them():
    kept = anchored(mind_of(), 1.0, [0.0, math.log(4.0)], [0.5, 0.5])
    assert kept[0] == 2000
    assert kept[1] == pytest.approx(0.4 * 2000, abs=100)  # 1/4 of the mean of 1 and 1/4


def test_anchored_proposals_are_remembered_more_often_the_more_they_earned():
    kept = anchored(mind_of(), 0.5, [0.0, 0.0], [0.5 * math.log(4.0), 0.0])  # exp(pay / anchor) is 4 and 1
    assert kept[0] == 2000
    assert kept[1] == pytest.approx(0.4 * 2000, abs=100)


def test_what_pads_the_base_log_probabilities_of_short_proposals_counts_nothing(monkeypatch):
    mind = mind_of()
    wanted = anchored(mind, 1.0, [0.0, math.log(4.0)], [0.5, 0.5])
    known = mind.base_log_probs

    def padded(generations):
        """A mind promises nothing of what is behind a row's tokens."""
        table = known(generations).clone()
        for row, each in zip(table, generations, strict=True):
            row[len(each.tokens) :] = -7.0
        return table

    monkeypatch.setattr(mind, "base_log_probs", padded)
    assert anchored(mind, 1.0, [0.0, math.log(4.0)], [0.5, 0.5]) == wanted


def test_refused_proposals_are_not_remembered():
    assert anchored(mind_of(), 1.0, [0.0, 0.0], [0.5, -0.5])[1] == 0


@pytest.mark.parametrize("role", ["propose", "solve"])
def test_answers_are_not_anchored(role: str):
    mind = mind_of()
    shaken(mind)  # away from its base: proposals that the base would not have written are left out
    learner = Learner(config_of(estimator="sil", replay=1, anchor=1.0), mind)
    samples = [dataclasses.replace(each, baseline=f"{role}/echo") for each in graded(mind, echo, n=64)]
    learner.learn(samples)
    better = {(each.generation.prompt.tobytes(), each.generation.tokens.tobytes()) for each in samples if each.reward}
    (known,) = learner.memory.values()
    assert len(known) == len(better) if role == "solve" else 0 < len(known) < 0.8 * len(samples)


def test_weights_that_are_not_finite_after_an_update_are_one_line():
    mind = mind_of()
    with pytest.raises(UserError, match=r"weights are not finite .* lower learner\.lr$"):
        Learner(config_of(lr=math.inf), mind).learn(graded(mind, echo))


def test_averaged_weights_are_lent_and_given_back():
    mind = mind_of()
    first = [weight.detach().clone() for weight in mind.parameters()]
    learner = Learner(config_of(average=0.75), mind)
    learner.learn(graded(mind, echo))
    live = [weight.detach().clone() for weight in mind.parameters()]
    with learner.averaged():
        for weight, old, new in zip(mind.parameters(), first, live, strict=True):
            torch.testing.assert_close(weight.detach(), 0.75 * old + 0.25 * new)
    assert all(torch.equal(weight, known) for weight, known in zip(mind.parameters(), live, strict=True))


def test_minibatches_hold_every_sample_once_and_keep_groups_together():
    mind = mind_of()
    batch = module.Batch(graded(mind, echo))
    parts = batch.minibatches(10, np.random.default_rng(0))
    assert sorted(at for part in parts for at in part) == list(range(32))
    assert len(parts) == 4
    for part in parts:
        assert sorted(part) == list(range(min(part), min(part) + 8))


@pytest.mark.parametrize("estimator", ["trr++", "ppo"])
def test_all_equal_rewards_change_nothing_and_are_counted(estimator: str):
    mind = mind_of()
    before = {name: weight.clone() for name, weight in mind.state().items()}
    figures = Learner(config_of(estimator=estimator), mind).learn(graded(mind, lambda prompt, text: 0.1))
    torch.testing.assert_close(mind.state(), before, rtol=0, atol=0)
    assert figures["solve/echo/zero_variance_groups"] == figures["solve/echo/groups"] == 4


def test_the_divergence_from_the_base_pulls_back():
    def drift(kl: float) -> float:
        mind = mind_of()
        learner = Learner(config_of(kl=kl), mind)
        for step in range(25):
            figures = learner.learn(graded(mind, lambda prompt, text: float("a" in text), seed=step))
            assert ("solve/echo/kl_base" in figures) is (kl > 0)  # at the first step too, where it is 0
        said = mind.sample(PROMPTS, 50, np.random.default_rng(3))
        scores = mind.score(said)
        return float((scores.log_probs.detach() - mind.base_log_probs(said))[scores.mask].mean())

    assert drift(2.0) < 0.5 * drift(0.0)


@pytest.mark.parametrize("cap", [2.0, 0.0])
def test_the_divergence_is_that_of_the_weights_as_they_are_in_every_update(monkeypatch, cap: float):
    mind, other = mind_of(), mind_of()
    shaken(other, 0.1, seed=6)
    mind._base = other.network
    samples = graded(mind, lambda prompt, text: 0.0, n=32)  # nothing to compare: all that pulls is the divergence
    said = [each.generation for each in samples]
    found, wanted, unweighted = [], [], []

    def moved(weights, loss: float) -> float:
        found.append([weight.grad.clone() for weight in weights])
        scores, known = mind.score(said), mind.base_log_probs(said)
        sampler = module.table([torch.from_numpy(each.log_probs) for each in said])
        square = 0.5 * (scores.log_probs - known) ** 2
        ratio = (scores.log_probs.detach() - sampler).exp().clamp(max=cap or math.inf)
        for into, terms in ((wanted, ratio * square), (unweighted, square)):
            into.append(torch.autograd.grad(terms[scores.mask].mean(), weights, retain_graph=True))
        shaken(mind, 0.05)
        return 0.0

    learner = Learner(config_of(kl=1.0, epochs=2, importance_cap=cap, grad_clip=0.0), mind)
    monkeypatch.setattr(learner, "_move", moved)
    learner.learn(samples)
    assert len(found) == 2
    for update in range(2):
        for one, other in zip(found[update], wanted[update], strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)
    far = max(float((one - other).abs().max()) for one, other in zip(wanted[1], unweighted[1], strict=True))
    assert far > 1e-2  # the weights have moved far enough to matter


def test_entropy_below_the_floor_is_pushed_up():
    def disorder(floor: float) -> float:
        mind = mind_of()
        learner = Learner(config_of(entropy_floor=floor, entropy_push=0.5), mind)
        for step in range(60):
            figures = learner.learn(graded(mind, lambda prompt, text: float("a" in text), seed=step))
        return figures["solve/echo/entropy"]

    assert disorder(0.0) < 0.4
    assert disorder(1.0) > 0.6


def test_a_learner_that_is_off_changes_nothing():
    mind = mind_of()
    before = {name: weight.clone() for name, weight in mind.state().items()}
    assert Learner(config_of(enabled=False), mind).learn(graded(mind, echo)) == {}
    torch.testing.assert_close(mind.state(), before, rtol=0, atol=0)


LASTING = {"estimator": "sil", "replay": 2, "average": 0.9}


@pytest.mark.parametrize("changes", [{}, {"optimizer": "muon"}, {"estimator": "ppo"}, {"entropy_floor": 1.0}, LASTING])
def test_a_restored_learner_goes_on_exactly(changes):
    straight, broken = mind_of(), mind_of()
    whole, first = (Learner(config_of(minibatch=8, **changes), mind) for mind in (straight, broken))
    for step in range(3):
        whole.learn(graded(straight, echo, seed=step))
    for step in range(2):
        first.learn(graded(broken, echo, seed=step))
    later = mind_of()
    later.load_state({name: weight.clone() for name, weight in broken.state().items()})
    second = Learner(config_of(minibatch=8, **changes), later)
    second.load_state(first.state())
    second.learn(graded(later, echo, seed=2))
    torch.testing.assert_close(later.state(), straight.state(), rtol=0, atol=0)
    torch.testing.assert_close(second.averages, whole.averages, rtol=0, atol=0)


def both_roles(mind: TinyMind, seed: int) -> list[Graded]:
    """A step's samples: proposals, which are one group, and answers."""
    asked = graded(mind, lambda prompt, text: 0.5 * ("a" in text) - 0.5 * (len(text) > 2), n=16, seed=100 + seed)
    proposals = [dataclasses.replace(each, baseline="propose/echo", group="") for each in asked]
    return proposals + graded(mind, echo, n=16, seed=seed)


EXACT = [
    {"estimator": "sil", "optimizer": "muon", "anchor": 0.5, "average": 0.9, "replay": 3, "replay_size": 8},
    {"estimator": "ppo", "kl": 0.1, "entropy_floor": 1.5, "epochs": 2},
    {"estimator": "trr++"},
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("changes", EXACT, ids=lambda changes: changes["estimator"])
def test_a_learner_restored_from_disk_goes_on_to_the_bit(tmp_path: Path, changes, threads: int):
    torch.set_num_threads(threads)  # set back by the fixture of all tests here
    config = config_of(minibatch=48, **changes)

    def learned(mind: TinyMind, learner: Learner, steps: range, into: str) -> bytes:
        """Learns, and says which digests the files of the checkpoint have."""
        for step in steps:
            learner.learn(both_roles(mind, seed=step))
        saved = Checkpoints(tmp_path / into).save(
            steps.stop, {"proposer": {"mind": mind.state(), "learner": learner.state()}}
        )
        return (saved / "manifest.json").read_bytes()

    mind = mind_of()
    whole = learned(mind, Learner(config, mind, seed=3), range(5), "whole")
    mind = mind_of()
    learned(mind, Learner(config, mind, seed=3), range(3), "broken")
    mind = mind_of()
    learner = Learner(config, mind, seed=3)
    step, state = Checkpoints(tmp_path / "broken").load()
    mind.load_state(state["proposer"]["mind"])
    learner.load_state(state["proposer"]["learner"])
    assert learned(mind, learner, range(step, 5), "broken") == whole


FORKS = [
    ({}, {"average": 0.9}),
    ({"average": 0.9}, {}),
    ({}, {"estimator": "ppo"}),
    ({"estimator": "ppo"}, {}),
    ({}, {"optimizer": "muon"}),
    ({"optimizer": "muon"}, {}),
    ({"estimator": "ppo"}, {"estimator": "ppo", "optimizer": "muon"}),
    ({"optimizer": "muon"}, {"estimator": "ppo"}),  # two optimisers before and after, of other weights
    ({"estimator": "ppo", "optimizer": "muon", "average": 0.9}, {"estimator": "sil", "replay": 2}),
]


@pytest.mark.parametrize(("before", "after"), FORKS)
def test_a_fork_with_other_settings_learns_on(before, after):
    mind = mind_of()
    first = Learner(config_of(**before), mind)
    first.learn(graded(mind, echo))
    fork = Learner(config_of(**after), mind)
    fork.load_state(first.state())
    if fork.averages:  # those of the mind as it is
        assert all(torch.equal(mean, weight) for mean, weight in zip(fork.averages, mind.parameters(), strict=True))
    figures = fork.learn(graded(mind, lambda prompt, text: float(text[:1] < "c"), n=64, seed=1))
    assert figures["updates"] == 1
    assert fork.steps == 2


def test_what_a_fork_keeps_of_its_settings_it_keeps_of_its_state(caplog):
    """Here the value head and its optimiser, while the mind's own optimiser is another, and the user is told."""
    mind = mind_of()
    first = Learner(config_of(estimator="ppo"), mind)
    first.learn(graded(mind, echo))
    fork = Learner(config_of(estimator="ppo", optimizer="muon"), mind)
    with caplog.at_level(logging.WARNING):
        fork.load_state(first.state())
    assert [each.getMessage() for each in caplog.records] == [
        "learner.optimizer was adamw and is muon: it starts with no memory of gradients"
    ]
    assert first.values is not None
    assert fork.values is not None
    torch.testing.assert_close(fork.values.state_dict(), first.values.state_dict(), rtol=0, atol=0)
    states = [optimizer.state_dict()["state"] for optimizer in fork.optimizers]
    assert states[:2] == [{}, {}]
    torch.testing.assert_close(states[2], first.optimizers[1].state_dict()["state"], rtol=0, atol=0)


def test_a_fork_with_a_smaller_memory_forgets_at_once():
    mind = mind_of()
    first = Learner(config_of(estimator="sil", replay=1), mind)
    first.learn(graded(mind, lambda prompt, text: float(text[:1] < "c"), n=64))
    fork = Learner(config_of(estimator="sil", replay=1, memory=3), mind)
    fork.load_state(first.state())
    assert len(first.memory["solve/echo"]) > 3
    newest = [each.tokens.tolist() for each in first.memory["solve/echo"][-3:]]
    assert [each.tokens.tolist() for each in fork.memory["solve/echo"]] == newest


def test_the_seed_decides_how_samples_are_shuffled():
    learned = []
    for seed in (0, 0, 1):
        mind = mind_of()
        Learner(config_of(minibatch=8), mind, seed).learn(graded(mind, echo))
        learned.append(torch.cat([weight.detach().flatten() for weight in mind.parameters()]))
    assert torch.equal(learned[0], learned[1])
    assert not torch.equal(learned[0], learned[2])


def exhaust(*_, **__):
    """Asks for what no machine has."""
    return torch.empty(1 << 60)


def test_running_out_of_memory_in_an_optimiser_is_one_line_with_keys_that_the_mind_has(monkeypatch):
    mind = mind_of()
    learner = Learner(config_of(), mind)
    monkeypatch.setattr(learner.optimizers[0], "step", exhaust)
    with pytest.raises(UserError, match=r"^out of memory while learning: lower max_tokens$"):
        learner.learn(graded(mind, echo))


def test_running_out_of_memory_for_averages_is_one_line(monkeypatch):
    mind = mind_of()
    learner = Learner(config_of(average=0.9), mind)
    monkeypatch.setattr(torch.Tensor, "clone", exhaust)
    line = r"^out of memory while .* lower learner\.average to 0$"
    with pytest.raises(UserError, match=line):
        Learner(config_of(average=0.9), mind)
    with pytest.raises(UserError, match=line), learner.averaged():
        pass


def test_a_lack_of_memory_that_no_key_helps_against_is_one_line():
    with (
        pytest.raises(UserError, match=r"^out of memory while thinking$"),
        memory_errors("thinking", "micro_batch", of=TinyConfig()),
    ):
        exhaust()


def test_a_loss_that_is_not_finite_is_one_line_and_changes_nothing():
    mind = mind_of()
    before = {name: weight.clone() for name, weight in mind.state().items()}
    with pytest.raises(UserError, match="not finite"):
        Learner(config_of(), mind).learn(graded(mind, lambda prompt, text: math.nan))
    torch.testing.assert_close(mind.state(), before, rtol=0, atol=0)


def test_figures_are_by_role_and_kind():
    mind = mind_of()
    figures = Learner(config_of(), mind).learn(graded(mind, echo))
    assert {f"solve/echo/{name}" for name in ("entropy", "length", "finished", "grad_norm")} <= figures.keys()
    assert figures["updates"] == 1
    assert 0 < figures["solve/echo/entropy"] < math.log(len(mind.vocabulary))
    assert 1 <= figures["solve/echo/length"] <= 3


@pytest.mark.parametrize("small", [True, False])
def test_losses_and_norms_are_means_over_updates_of_their_sort(monkeypatch, small: bool):
    """However many pieces an update has. A learning rate of 0 makes equal updates of all of a sort."""
    monkeypatch.setattr(TinyMind, "small", small)
    monkeypatch.setattr("autotelic.minds.tiny.mind._AREA", 60)
    mind = mind_of()
    samples = graded(mind, echo, n=32)
    sil = config_of(estimator="sil", lr=0.0, epochs=2)
    alone = Learner(sil, mind).learn(samples)
    learner = Learner(dataclasses.replace(sil, replay=3), mind)
    monkeypatch.setattr(learner, "_recalled", lambda rng: learner.memory["solve/echo"])
    found = learner.learn(samples)
    known = learner.memory["solve/echo"]
    assert len(list(mind.pieces(known))) > 1
    scores = mind.score(known)
    likelihoods = (scores.log_probs * scores.mask).sum(1) / scores.mask.sum(1)
    gradients = torch.autograd.grad(-likelihoods.mean(), mind.parameters(), allow_unused=True)
    norm = math.sqrt(sum(float(part.square().sum()) for part in gradients if part is not None))
    groups = np.array([each.reward for each in samples]).reshape(4, 32)
    gain = np.maximum(groups - groups.mean(1, keepdims=True), 0).mean()
    assert (found["updates"], found["replay_updates"]) == (2.0, 3.0)
    assert found["loss"] == pytest.approx(-gain, rel=1e-3)
    assert found["replay_loss"] == pytest.approx(-float(likelihoods.detach().mean()), rel=1e-4)
    assert found["replay_grad_norm"] == pytest.approx(norm, rel=1e-3)
    assert [found[name] for name in ("loss", "grad_norm")] == [alone[name] for name in ("loss", "grad_norm")]
    assert not any(name.startswith("replay") for name in alone)


def test_how_far_a_step_moved_is_also_said_by_role_and_kind():
    mind = mind_of()
    samples = [dataclasses.replace(s, baseline=f"solve/{'xy'[at % 2]}") for at, s in enumerate(graded(mind, echo))]
    figures = Learner(config_of(epochs=4, lr=0.01, entropy=1e-9), mind).learn(samples)
    tokens = [sum(len(s.generation.tokens) for s in samples if s.baseline == f"solve/{kind}") for kind in "xy"]
    by_kind = [figures[f"solve/{kind}/kl_old"] for kind in "xy"]
    assert min(by_kind) > 0
    assert by_kind[0] != by_kind[1]
    assert np.average(by_kind, weights=tokens) == pytest.approx(figures["kl_old"], rel=1e-4)


def test_muon_is_refused_by_a_mind_without_matrices(monkeypatch):
    from autotelic.minds.base import Mind

    monkeypatch.setattr(TinyMind, "matrices", Mind.matrices)
    with pytest.raises(UserError, match="adamw"):
        Learner(config_of(optimizer="muon"), mind_of())


@pytest.mark.parametrize(
    "wrong",
    [
        {"estimator": "x"},
        {"aggregate": "x"},
        {"optimizer": "x"},
        {"minibatch": 0},
        {"kl": -1.0},
        {"gamma": 2.0},
        {"betas": (2.0, 0.9)},
        {"betas": (0.9, 1.0)},
        {"betas": (0.9, math.nan)},
        {"betas": (0.9,)},
    ],
)
def test_a_setting_that_cannot_be_is_one_line(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        LearnerConfig(**wrong)


def test_the_pieces_of_an_update_are_worked_on_side_by_side(monkeypatch):
    torch.set_num_threads(2)
    mind = mind_of()
    samples = graded(mind, echo)
    both, score = threading.Barrier(2, timeout=20), mind.score
    monkeypatch.setattr(mind, "pieces", lambda said: [[*range(0, len(said), 2)], [*range(1, len(said), 2)]])
    monkeypatch.setattr(mind, "score", lambda said: (both.wait(), score(said))[1])
    assert Learner(config_of(gradients_by_kind=False), mind).learn(samples)["updates"] == 1
