"""Conformance checks for parts written elsewhere: call them from a test of your own.

Each check exercises a part the way the loop does and raises AssertionError with what was expected.
"""

from __future__ import annotations

import copy
import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotelic.errors import UserError
from autotelic.minds.base import Generation, Mind, MindConfig, Scores
from autotelic.play.archive import Archive
from autotelic.play.player import Player, Sample
from autotelic.runs.checkpoints import Checkpoints
from autotelic.runs.directory import Run
from autotelic.worlds.base import Answer, Proposal, Rejection, Request, Task, Verdict, World

if TYPE_CHECKING:
    import torch

    from autotelic.physics.base import Environment, Observation, Step
    from autotelic.policies.base import Decision, Evaluation, Observations, Policy, Trace


def check_world(world: World, proposals: Sequence[Proposal], answers: Sequence[Answer]) -> None:
    """Admits the proposals and judges every answer for every task: batched, ordered, deterministic, plain data."""
    assert world.name, "a world has a name"
    assert world.version, "a world has a version: it is part of every verdict"
    assert world.kinds, "a world has kinds"
    for name, kind in world.kinds.items():
        assert kind.name == name, f"the kind at {name!r} calls itself {kind.name!r}"
        assert set(kind.builds_on) <= set(world.kinds), f"{name} builds on kinds that the world does not have"

    seeds = world.seeds()
    for task in seeds:
        _check_task(world, task)
    results = world.admit(proposals, seed=1)
    assert len(results) == len(proposals), "admit gives one result a proposal"
    for proposal, result in zip(proposals, results, strict=True):
        assert result.kind == proposal.kind, "a result is of its proposal's kind, in the order given"
        if isinstance(result, Rejection):
            assert result.outcome, "a rejection has a class"
            assert result.reason, "a rejection has a reason"
        else:
            _check_task(world, result)
    assert world.admit(proposals, seed=1) == results, "admit is a function of proposals and seed"
    assert world.admit([], seed=1) == [], "an empty batch is fine"

    admitted = [result for result in results if isinstance(result, Task)]
    tasks = {task.id: task for task in (*seeds, *admitted)}
    pairs = [(task, answer) for task in tasks.values() for answer in (*answers, Answer(""), Answer("\x00<answer>"))]
    verdicts = world.judge(pairs, seed=2)
    assert len(verdicts) == len(pairs), "judge gives one verdict a pair"
    for verdict in verdicts:
        _check_verdict(world, verdict, seed=2)
    assert world.judge(pairs, seed=2) == verdicts, "judge is a function of pairs and seed"
    assert world.judge(pairs[::-1], seed=2) == verdicts[::-1], "a verdict does not depend on its place in the batch"
    claimed = [(task, Answer(answer.text, claim=True)) for task, answer in pairs]
    assert [verdict.solved for verdict in world.judge(claimed, seed=2)] == [verdict.solved for verdict in verdicts], (
        "a claim of success changes nothing"
    )
    assert world.judge([], seed=2) == [], "an empty batch is fine"


def _check_task(world: World, task: Task) -> None:
    assert task.world == world.name, f"task {task.id} is of world {task.world!r}, not {world.name!r}"
    assert task.kind in world.kinds, f"task {task.id} is of unknown kind {task.kind!r}"
    assert json.loads(json.dumps(dict(task.spec))) == dict(task.spec), f"the spec of task {task.id} is not plain data"
    assert all(isinstance(value, int | float) for value in task.features.values()), "features are numbers"
    kind = world.kinds[task.kind]
    assert kind.solve_prompt(task), "a task can be asked"
    assert kind.propose_prompt(Request(task.kind, references=(task,), base=task)), "a kind can be asked for"


def _check_verdict(world: World, verdict: Verdict, seed: int) -> None:
    assert verdict.outcome, "a verdict has a class"
    assert verdict.version == world.version, "a verdict carries the world's version"
    assert verdict.seed == seed, "a verdict carries the seed it was judged with"
    assert 0.0 <= verdict.score <= 1.0, "a score is between 0 and 1"
    assert not verdict.solved or verdict.evidence, "what is no evidence is not solved"


def check_player(player: Player, requests: Sequence[Request], tasks: Sequence[Task]) -> None:
    """Proposes and attempts twice from equal generators: right counts, right labels, equal samples."""
    proposed = player.propose(requests, np.random.default_rng(3))
    assert [sample.kind for sample in proposed] == [request.kind for request in requests], "one sample a request"
    assert all(sample.role == "propose" and sample.task is None for sample in proposed), "proposals are labelled so"
    attempted = player.attempt(tasks, 3, np.random.default_rng(4))
    assert [sample.task for sample in attempted] == [task.id for task in tasks for _ in range(3)], (
        "n samples a task, task by task, each with its task's id"
    )
    assert all(sample.role == "solve" for sample in attempted), "attempts are labelled so"
    assert [sample.kind for sample in attempted] == [task.kind for task in tasks for _ in range(3)]
    assert _texts(player.propose(requests, np.random.default_rng(3))) == _texts(proposed), "seeded"
    assert _texts(player.attempt(tasks, 3, np.random.default_rng(4))) == _texts(attempted), "seeded"
    player.learn([(sample, 1.0) for sample in (*proposed, *attempted)])
    player.load_state(player.state())


def _texts(samples: Sequence[Sample]) -> list[str]:
    return [sample.text for sample in samples]


def check_mind(mind: Mind, prompts: Sequence[str], tolerance: float = 1e-3) -> None:
    """Samples, and where the mind learns also scores, changes and restores it; it is left as it was found.

    Give it at least two different prompts such as it is asked in play, and a mind that has learned nothing yet.
    Log-probabilities of one token are equal if they differ by less than `tolerance`.
    """
    assert len(set(prompts)) > 1, "check_mind needs at least two different prompts"
    assert mind.name, "a mind has a name"
    assert issubclass(mind.Config, MindConfig), "the Config of a mind is a MindConfig with fields of its own"
    said = _check_sampling(mind, prompts)
    if mind.converses:
        conversation: Any = [(prompts[0], "a reply", prompts[1])]
        assert len(mind.sample(conversation, 2, np.random.default_rng(8))) == 2, "a conversation is a prompt like any"
    if mind.learns:
        _check_tokens(mind, prompts, said)
        _check_scores(mind, said, tolerance)
        _check_pieces(mind, said)
        _check_answering(mind, prompts, said)
        _check_learning(mind, said, tolerance)


def _check_sampling(mind: Mind, prompts: Sequence[str]) -> list[Generation]:
    """What holds for every mind; returns three generations a prompt."""
    chance = np.random.default_rng(5)
    untouched = str(chance.bit_generator.state)
    said = mind.sample(prompts, 3, chance)
    assert len(said) == 3 * len(prompts), f"sample gives n generations a prompt: {len(said)} for 3 x {len(prompts)}"
    assert str(chance.bit_generator.state) != untouched, "sample draws from the generator it is given"
    for each in said:
        assert isinstance(each.text, str), "the text of a generation is a str"
        assert each.text == each.text.encode(errors="replace").decode(), "a text can be written to a file"
        assert isinstance(each.finished, bool), "finished is a bool"
    assert mind.sample([], 3, np.random.default_rng(5)) == [], "no prompts, no generations"
    likeliest = mind.sample(prompts, 1, np.random.default_rng(6), greedy=True)
    assert len(likeliest) == len(prompts), "greedy sampling gives one generation a prompt"
    if mind.exact:
        assert _same(mind.sample(prompts, 3, np.random.default_rng(5)), said), (
            "equal seeds give equal generations; a mind for which that does not hold has exact = False"
        )
        assert _same(mind.sample(prompts, 1, np.random.default_rng(7), greedy=True), likeliest), (
            "greedy sampling leaves nothing to chance"
        )
        if not mind.learns:  # those that learn say which prompt each generation is of
            alone = [mind.sample([prompt], 1, np.random.default_rng(6), greedy=True)[0] for prompt in prompts]
            assert _same(alone, likeliest), "generations come in the order of their prompts"
    return said


def _same(some: Sequence[Generation], others: Sequence[Generation]) -> bool:
    """Whether generations are equal to the last bit."""
    return len(some) == len(others) and all(
        one.text == other.text
        and one.finished == other.finished
        and np.array_equal(one.prompt, other.prompt)
        and np.array_equal(one.tokens, other.tokens)
        and np.array_equal(one.log_probs, other.log_probs)
        for one, other in zip(some, others, strict=True)
    )


def _check_tokens(mind: Mind, prompts: Sequence[str], said: Sequence[Generation]) -> None:
    for each in said:
        for name, array in (("prompt", each.prompt), ("tokens", each.tokens)):
            assert array.ndim == 1, f"{name} is a row of token ids"
            assert array.dtype.kind == "i", f"{name} are whole numbers"
            assert len(array), f"{name} is never empty: a generation has at least its end token"
        assert each.log_probs.shape == each.tokens.shape, "one log-probability a token"
        assert np.isfinite(each.log_probs).all(), "what was sampled has a finite log-probability"
        assert (each.log_probs <= 1e-6).all(), "a log-probability is not above 0"
        assert len(each.tokens) <= mind.config.max_tokens, "no generation is longer than max_tokens"
    for at, prompt in enumerate(prompts):
        (alone,) = mind.sample([prompt], 1, np.random.default_rng(8))
        assert all(np.array_equal(each.prompt, alone.prompt) for each in said[3 * at : 3 * at + 3]), (
            "generations come prompt by prompt, each with its own prompt's tokens"
        )
    short = mind.sample(prompts, 2, np.random.default_rng(9), max_tokens=1)
    assert all(len(each.tokens) == 1 for each in short), "sample keeps to the max_tokens it is given"


def _check_scores(mind: Mind, said: Sequence[Generation], tolerance: float) -> None:
    scores = mind.score(said)
    lengths = [len(each.tokens) for each in said]
    shape = (len(said), max(lengths))
    for name, found in (("log_probs", scores.log_probs), ("entropy", scores.entropy), ("mask", scores.mask)):
        assert found.shape == shape, f"{name} of score is [batch, longest answer]: {tuple(found.shape)}, not {shape}"
    assert scores.hidden.shape == (*shape, mind.width), "hidden of score is [batch, longest answer, width]"
    assert scores.mask.tolist() == [[at < length for at in range(shape[1])] for length in lengths], (
        "the mask of score is True for the tokens of an answer, which come first in their row"
    )
    for row, each in enumerate(said):
        scored = _row(scores.log_probs, row, each)
        _assert_close(scored, each.log_probs, tolerance, "score gives other log-probabilities than sampling did")
        entropy = _row(scores.entropy, row, each)
        assert np.isfinite(entropy).all(), "entropy is finite"
        assert (entropy >= -tolerance).all(), "entropy is not below 0"
        alone = mind.score([each])
        for name in ("log_probs", "entropy"):
            one, beside = _row(getattr(alone, name), 0, each), _row(getattr(scores, name), row, each)
            _assert_close(one, beside, tolerance, f"{name} of score depends on what else is in the batch")


def _row(table: torch.Tensor, row: int, generation: Generation) -> np.ndarray:
    return table[row, : len(generation.tokens)].detach().float().cpu().numpy()


def _assert_close(found: np.ndarray, wanted: np.ndarray, tolerance: float, what: str) -> None:
    far = float(np.abs(found - wanted).max())
    # Not a number is never within the tolerance.
    assert far <= tolerance, f"{what}: a token differs by {far:.3g}, allowed is {tolerance:g}"


def _check_pieces(mind: Mind, said: Sequence[Generation]) -> None:
    pieces = [list(piece) for piece in mind.pieces(said)]
    assert all(pieces), "no piece is empty"
    assert sorted(at for piece in pieces for at in piece) == list(range(len(said))), (
        f"pieces hold every position exactly once: {pieces} for {len(said)} generations"
    )
    assert list(mind.pieces([])) == [], "no generations, no pieces"


def _check_answering(mind: Mind, prompts: Sequence[str], said: Sequence[Generation]) -> None:
    moved = mind.answering(prompts[-1], said[0])
    assert np.array_equal(moved.prompt, said[-1].prompt), "answering gives a generation the tokens of another prompt"
    assert np.array_equal(moved.tokens, said[0].tokens), "answering leaves what was written as it was"
    mind.score([moved])


def _check_learning(mind: Mind, said: Sequence[Generation], tolerance: float) -> None:
    weights = mind.parameters()
    assert weights, "a mind that learns has parameters"
    assert all(weight.requires_grad for weight in weights), "parameters want a gradient"
    assert [id(weight) for weight in mind.parameters()] == [id(weight) for weight in weights], (
        "parameters are the same objects each time: an optimiser holds on to them"
    )
    _check_matrices(mind, weights)
    before, saved = mind.score(said), _through_checkpoint(mind.state())
    slope = _slope(weights, before)
    likelier = _moved(mind, said, weights, slope, 1.0)
    base = mind.base_log_probs(said)
    assert not base.requires_grad, "base_log_probs has no gradient"
    for row, each in enumerate(said):
        wanted = _row(before.log_probs, row, each)
        what = "base_log_probs is not what score said before anything was learned"
        _assert_close(_row(base, row, each), wanted, tolerance, what)
    assert likelier > _moved(mind, said, weights, slope, -2.0), (
        "the gradient of score points to where the generations are likelier"
    )
    mind.load_state(saved)
    restored = mind.score(said).log_probs == before.log_probs
    assert bool(restored[before.mask].all()), "load_state(state()) brings the log-probabilities back to the last bit"


def _check_matrices(mind: Mind, weights: Sequence[torch.nn.Parameter]) -> None:
    try:
        matrices, others = mind.matrices()
    except UserError:
        return  # not every mind is for Muon
    assert all(weight.dim() == 2 for weight in matrices), "the first part of matrices() are matrices"
    assert sorted(map(id, [*matrices, *others])) == sorted(map(id, weights)), (
        "matrices() parts the parameters: every one is in one part"
    )


def _through_checkpoint(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A state as it comes back from the disk."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder))
        checkpoints.save(0, state)
        return checkpoints.load(0)[1]


def _slope(weights: Sequence[torch.nn.Parameter], scores: Scores) -> list[torch.Tensor | None]:
    """The gradient of the log-likelihood, scaled to a step that should change it by about 1."""
    assert scores.log_probs.requires_grad, "the log-probabilities of score have a gradient"
    for weight in weights:
        weight.grad = None
    scores.log_probs.masked_fill(~scores.mask, 0.0).sum().backward()
    found = [weight.grad for weight in weights]
    for weight in weights:
        weight.grad = None
    size = float(np.sqrt(sum(float(part.square().sum()) for part in found if part is not None)))
    assert np.isfinite(size), "the gradient of score is finite"
    assert size > 0, "the gradient of score reaches the parameters"
    return [None if part is None else part / max(size, size**2) for part in found]


def _moved(
    mind: Mind,
    said: Sequence[Generation],
    weights: Sequence[torch.nn.Parameter],
    slope: Sequence[torch.Tensor | None],
    far: float,
) -> float:
    """The log-likelihood of what was said, once the weights have moved so far along the slope."""
    for weight, part in zip(weights, slope, strict=True):
        if part is not None:
            weight.data.add_(part, alpha=far)
    scores = mind.score(said)
    return float(scores.log_probs.detach().masked_fill(~scores.mask, 0.0).sum())


def check_environment(make: Callable[[], Environment], steps: int = 50) -> None:
    """Steps environments that `make` gives with random actions, half of them out of bounds where there are bounds:
    right shapes and types, finite, the same for the same seed, and where one is `exact` the same after `load_state`.

    Let `steps` be so many that episodes end: what is wrong at their ends shows only then.
    """
    rng = np.random.default_rng(9)
    with make() as one, make() as other:
        assert one.name, "an environment has a name"
        assert one.dt > 0, "dt, the seconds from one action to the next, is positive"
        assert "policy" in one.sizes, "there is an observation for the policy"
        json.dumps(one.contract(), allow_nan=False)
        first = one.reset(7)
        _check_observation(one, first, one.count)
        _assert_same(first, other.reset(7), "reset is a function of the seed")
        given = [(array, array.copy()) for array in first.values()]
        lengths, ended, told_apart = np.zeros(one.count, np.int64), 0, False
        actions, obs = [_random_actions(one, rng) for _ in range(steps)], first
        for action in actions:
            step = one.step(action)
            lengths += 1
            _check_step(one, step, lengths)
            lengths[step.ended], obs = 0, step.obs
            ended += len(step.ended)
            told_apart |= any(not np.array_equal(step.final_obs[name], obs[name][step.ended]) for name in obs)
            found, cut = _arrays(step), _arrays(other.step(_within_bounds(one, action)))
            _assert_same(found, cut, "equal seeds and actions give equal steps; actions are cut to their bounds")
            given += [(array, array.copy()) for array in found.values()]
        assert all(np.array_equal(array, copy) for array, copy in given), (
            "arrays are the caller's to keep: no later step writes into them"
        )
        assert told_apart or not ended, (
            "final_obs is the last observation of an episode that ended, not the first of the next, which is in obs"
        )
        _check_restored(make, one, obs, actions)
        _assert_same(one.reset(7), first, "reset with the same seed begins the same way, whatever came before")


def _random_actions(environment: Environment, rng: np.random.Generator) -> np.ndarray:
    from gymnasium import spaces

    space, count = environment.action_space, environment.count
    if isinstance(space, spaces.Box):
        assert len(space.shape) == 1, f"a Box of actions has one dimension, not {len(space.shape)}"
        return rng.normal(0.0, 1.5, (count, *space.shape)).astype(np.float32)
    if isinstance(space, spaces.Discrete):
        assert space.start == 0, "Discrete actions count from 0"
        return rng.integers(int(space.n), size=count)
    assert isinstance(space, spaces.MultiDiscrete), f"actions are Box, Discrete or MultiDiscrete, not {space}"
    assert space.nvec.ndim == 1, "MultiDiscrete actions are a list of numbers"
    assert not space.start.any(), "MultiDiscrete actions count from 0"
    return rng.integers(space.nvec, size=(count, len(space.nvec)))


def _within_bounds(environment: Environment, action: np.ndarray) -> np.ndarray:
    from gymnasium import spaces

    space = environment.action_space
    return np.clip(action, space.low, space.high) if isinstance(space, spaces.Box) else action


def _check_observation(environment: Environment, obs: Observation, rows: int) -> None:
    assert obs.keys() == environment.sizes.keys(), f"observations are {sorted(environment.sizes)}, not {sorted(obs)}"
    for name, size in environment.sizes.items():
        assert obs[name].dtype == np.float32, f"the {name} observation is float32, not {obs[name].dtype}"
        assert obs[name].shape == (rows, size), f"the {name} observation is {obs[name].shape}, not {(rows, size)}"
        assert np.isfinite(obs[name]).all(), f"the {name} observation is finite"


def _check_step(environment: Environment, step: Step, lengths: np.ndarray) -> None:
    """`lengths` [count]: of the episodes, with this step."""
    _check_observation(environment, step.obs, environment.count)
    for name, dtype in (("reward", np.float32), ("terminated", np.bool_), ("truncated", np.bool_)):
        array = getattr(step, name)
        assert array.dtype == dtype, f"{name} is {np.dtype(dtype)}, not {array.dtype}"
        assert array.shape == (environment.count,), f"{name} has a number for each environment"
    assert np.isfinite(step.reward).all(), "the reward is finite"
    assert not (step.terminated & step.truncated).any(), "what is terminated is not truncated as well"
    assert np.array_equal(step.ended, np.flatnonzero(step.terminated | step.truncated)), (
        "ended are the environments that are terminated or truncated, in order"
    )
    _check_observation(environment, step.final_obs, len(step.ended))
    for name, values in step.terms.items():
        assert values.shape == (environment.count,), f"the term {name} has a number for each environment"
        assert np.isfinite(values).all(), f"the term {name} is finite"
    for name, values in step.episodes.items():
        assert values.shape == (len(step.ended),), f"{name} has a number for each episode that ended"
    assert np.isin(step.episodes.get("success", 0.0), (0.0, 1.0)).all(), "success is 1 or 0"
    if environment.limit is not None:
        over = np.delete(lengths, step.ended) >= environment.limit
        assert not over.any(), f"an episode ends after {environment.limit} steps, its limit"


def _arrays(step: Step) -> dict[str, np.ndarray]:
    """All that a step says, by name; observations by their own."""
    parts = {"final ": step.final_obs, "term ": step.terms, "episode ": step.episodes}
    found = {prefix + name: values for prefix, part in parts.items() for name, values in part.items()}
    names = ("reward", "terminated", "truncated", "ended")
    return {**step.obs, **found, **{name: getattr(step, name) for name in names}}


def _assert_same(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray], what: str) -> None:
    assert found.keys() == wanted.keys(), f"{what}: {sorted(found)} and {sorted(wanted)}"
    for name, values in wanted.items():
        assert np.array_equal(found[name], values, equal_nan=values.dtype.kind == "f"), f"{what}: {name} differs"


def _check_restored(
    make: Callable[[], Environment], one: Environment, obs: Observation, actions: Sequence[np.ndarray]
) -> None:
    """`obs`: what was seen last. An environment that is not exact need only begin the same way each time."""
    state = _through_checkpoint(one.state())
    with make() as restored, make() as again:
        seen = restored.load_state(state)
        _check_observation(one, seen, one.count)
        if one.exact:
            _assert_same(seen, obs, "load_state returns the last observation; where it cannot, exact = False")
        else:
            _assert_same(seen, again.load_state(state), "load_state is a function of the state")
        reference = one if one.exact else again
        for action in actions:
            found, wanted = _arrays(restored.step(action)), _arrays(reference.step(action))
            _assert_same(found, wanted, "what is restored goes on as if nothing had happened")


def check_policy(policy: Policy, obs: Observations) -> None:
    """Samples, evaluates, learns and restores it; it is left as it was found.

    Give it a policy that has learned nothing yet, and at least eight different observations.
    """
    import torch

    from autotelic.policies.base import PolicyConfig

    assert len(obs["policy"]) >= 8, "check_policy needs at least eight observations"
    assert issubclass(policy.Config, PolicyConfig), "the Config of a policy is a PolicyConfig with fields of its own"
    kept = copy.deepcopy(policy.state_dict())
    decision = _check_decisions(policy, obs)
    found = policy.evaluate(policy.prepare(obs), decision.trace)
    _check_evaluated(policy, obs, found)
    one = policy.prepare({name: values[:1] for name, values in obs.items()})
    alone = policy.evaluate(one, {name: values[:1] for name, values in decision.trace.items()})
    assert torch.allclose(alone.log_prob, found.log_prob[:1], atol=1e-4), "a row does not depend on the others"
    _check_gradients(policy, obs, decision.trace, found)
    _check_statistics(policy, obs)
    policy.load_state_dict(kept)
    again = policy.evaluate(policy.prepare(obs), decision.trace)
    assert torch.equal(again.log_prob, found.log_prob), "a state_dict brings the log-probabilities back to the last bit"
    assert torch.equal(again.value, found.value), "and the values"


def _check_decisions(policy: Policy, obs: Observations) -> Decision:
    import torch

    decision, same = (policy.sample(obs, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(decision.action, same.action), "equal generators give equal actions"
    other = policy.sample(obs, torch.Generator().manual_seed(2))
    assert not torch.equal(other.action, decision.action), "sample draws from the generator it is given"
    wanted = (len(obs["policy"]), *(policy.action_space.shape or ()))
    assert decision.action.shape == wanted, f"an action a row: {tuple(decision.action.shape)}, not {wanted}"
    assert policy.act(obs).shape == wanted, "act gives an action a row"
    assert torch.equal(policy.act(obs), policy.act(obs)), "act leaves nothing to chance"
    for name, values in {"action": decision.action, **decision.trace}.items():
        assert len(values) == len(obs["policy"]), f"{name} has a row an observation"
        assert not values.requires_grad, f"{name} carries no gradient"
    return decision


def _check_evaluated(policy: Policy, obs: Observations, found: Evaluation) -> None:
    import torch

    shape = (len(obs["policy"]),)
    for name, values in (("log_prob", found.log_prob), ("value", found.value), ("entropy", found.entropy)):
        if values is None:  # as an entropy may be
            continue
        assert values.shape == shape, f"{name} is [batch]: {tuple(values.shape)}, not {shape}"
        assert torch.isfinite(values).all(), f"{name} is finite"
    assert torch.equal(policy.value(policy.prepare(obs)), found.value), "value is what evaluate says"
    assert all(len(values) == shape[0] for values in found.parameters.values()), "parameters have a row an observation"
    if (kl := policy.kl(found.parameters, found.parameters)) is not None:
        assert kl.shape == shape, "kl is [batch]"
        assert kl.abs().max() < 1e-5, "kl to itself is 0"


def _check_gradients(policy: Policy, obs: Observations, trace: Trace, found: Evaluation) -> None:
    import torch

    weights = [weight for weight in policy.parameters() if weight.requires_grad]
    slopes = torch.autograd.grad(found.log_prob.sum() - found.value.sum(), weights, allow_unused=True)
    size = sum(float(slope.square().sum()) for slope in slopes if slope is not None)
    assert 0 < size < float("inf"), "log-probabilities and values have a gradient, and it is finite"
    with torch.no_grad():
        for weight, slope in zip(weights, slopes, strict=True):
            if slope is not None:
                weight.add_(slope, alpha=1e-3 / size**0.5)
    moved = policy.evaluate(policy.prepare(obs), trace)
    assert (moved.log_prob.sum() - moved.value.sum()) > (found.log_prob.sum() - found.value.sum()), (
        "the gradient points to where decisions are likelier and values lower"
    )
    if (kl := policy.kl(found.parameters, moved.parameters)) is not None:
        assert kl.mean() > 0, "kl sees that the policy has moved"


def _check_statistics(policy: Policy, obs: Observations) -> None:
    import torch

    before = policy.prepare(obs)
    policy.sample(obs, torch.Generator().manual_seed(1))
    assert all(torch.equal(values, before[name]) for name, values in policy.prepare(obs).items()), (
        "what an observation means changes in observe alone"
    )
    policy.observe({name: values * 5.0 + 1.0 for name, values in obs.items()})
    same = all(torch.equal(values, before[name]) for name, values in policy.prepare(obs).items())
    assert same != policy.normalises, "normalises says whether observe changes what an observation means"


def run_digest(path: str | Path) -> str:
    """One hash over all that a self-play run holds, except timings: equal for a resumed and an uninterrupted run."""
    with Run.open(path, readonly=True) as run, Archive.open(run.archive, readonly=True) as archive:
        step, state = run.checkpoints.load()
        figures = [
            {name: value for name, value in line.items() if not name.startswith("time/")} for line in run.metrics.read()
        ]
        plain = {name: value for name, value in state.items() if name != "timings"}
        parts = [archive.digest(), figures, step, json.dumps(plain, sort_keys=True, default=_array_digest)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _array_digest(value: object) -> str:
    array = np.asarray(value)
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()
