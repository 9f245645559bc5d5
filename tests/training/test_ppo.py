import copy
import math
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from autotelic import registry
from autotelic.errors import UserError
from autotelic.learning.ppo import normalised
from autotelic.physics.base import Step
from autotelic.policies.base import Evaluation, Observations, Trace
from autotelic.policies.mlp import MLPConfig, MLPPolicy
from autotelic.runs.checkpoints import Checkpoints
from autotelic.runs.config import Group, compose
from autotelic.training import ppo
from autotelic.training.ppo import PPO
from autotelic.training.ppo_config import PPOConfig
from autotelic.training.rollouts import Rollout

torch.set_num_threads(1)
BOX = spaces.Box(-1, 1, (2,))
SIZES = {"policy": 3}
SPACES: list[spaces.Space[Any]] = [BOX, spaces.Discrete(4), spaces.MultiDiscrete([2, 3])]
# What each number of an observation and an action becomes in the mirror.
MIRROR = {"policy": (np.arange(3), -np.ones(3)), "action": (np.arange(2), -np.ones(2))}


def make_policy(space: spaces.Space[Any] = BOX, sizes: dict[str, int] = SIZES, **settings: Any) -> MLPPolicy:
    torch.manual_seed(0)
    return MLPPolicy(MLPConfig(**{"hidden": (16, 16), **settings}), sizes, space)


def config(**settings: Any) -> PPOConfig:
    return PPOConfig(**{"steps": 8, "epochs": 3, "minibatches": 4, "schedule": "constant", "lr": 1e-3, **settings})


def collected(policy: MLPPolicy, *, seed: int = 0, length: int = 8, count: int = 4) -> Rollout:
    """Random observations, the policy's decisions, rewards that depend on both, and episodes that end both ways."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    rollout = Rollout(length, count, policy.sizes)

    def seen(rows: int) -> dict[str, np.ndarray]:
        return {name: rng.normal(size=(rows, size)).astype(np.float32) for name, size in policy.sizes.items()}

    obs = seen(count)
    for t in range(length):
        tensors = {name: torch.from_numpy(values) for name, values in obs.items()}
        decision = policy.sample(tensors, generator)
        reward = 3 * decision.action.reshape(count, -1)[:, 0].numpy() + obs["policy"][:, 0]
        terminated, truncated = rng.random((2, count)) < 0.1
        truncated &= ~terminated
        ended = np.flatnonzero(terminated | truncated)
        after = seen(count)
        step = Step(after, reward.astype(np.float32), terminated, truncated, ended, seen(len(ended)))
        rollout.add(t, tensors, decision.trace, step)
        obs = after
    rollout.close({name: torch.from_numpy(values) for name, values in obs.items()})
    return rollout


def weights(policy: MLPPolicy) -> dict[str, Tensor]:
    return {name: values.clone() for name, values in policy.state_dict().items()}


def same(some: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(values, others[name]) for name, values in some.items())


def furthest(some: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> float:
    return max(float((values - others[name]).abs().max()) for name, values in some.items())


# Settings


def test_it_is_found_by_name_and_configured_from_a_command_line() -> None:
    from dataclasses import dataclass

    @dataclass
    class Schema:
        learner: Any = None

    asked = ["learner.frozen=[critic]", "learner.clip=0.1"]
    found = compose(Schema, {"learner": Group("learners", "ppo")}, asked).learner
    assert (found.frozen, found.clip, found.name) == (("critic",), 0.1, "ppo")
    assert registry.get("learners", "ppo") is PPO


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"schedule": "adaptiv"}, r"learner\.schedule=adaptiv: did you mean adaptive"),
        ({"precision": "float16"}, r"learner\.precision=float16"),
        ({"epochs": 0}, r"learner\.epochs=0: must be at least 1"),
        ({"lr": 0.0}, r"learner\.lr=0\.0: must be above 0"),
        ({"entropy": -0.1}, r"learner\.entropy=-0\.1: must be 0 or more"),
        ({"gamma": 1.1}, r"learner\.gamma=1\.1: must be 0 to 1"),
        ({"value_weight": math.nan}, r"learner\.value_weight=nan"),
        ({"epochs": 1, "schedule": "adaptive"}, r"learner\.schedule=adaptive needs epochs=2"),
        ({"epochs": 1, "schedule": "adaptive", "adapt": "minibatch", "minibatches": 1}, "needs epochs=2"),
        ({"epochs": 1, "early_stop": True}, r"learner\.early_stop needs epochs=2"),
    ],
)
def test_a_bad_setting_is_one_line(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        config(**settings)


@pytest.mark.parametrize(
    ("minibatches", "near"), [(5, "set it to 4 or 6"), (7, "set it to 6 or 8"), (25, "set it to 24$")]
)
def test_a_batch_that_does_not_divide_names_both_numbers_and_the_nearest(minibatches: int, near: str) -> None:
    complaint = rf"minibatches={minibatches} does not divide the 24 steps of an update \(8 steps x 3 env.*{near}"
    with pytest.raises(UserError, match=complaint):
        config(minibatches=minibatches).minibatch(3)


def test_the_linear_schedule_needs_to_know_the_end() -> None:
    policy = make_policy()
    with pytest.raises(UserError, match="give steps=N"):
        PPO(config(schedule="linear"), policy).update(collected(policy), None)


# What an update looks at


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("normalise", [True, False])
def test_the_ratio_is_exactly_one_in_the_first_minibatch(space: spaces.Space[Any], normalise: bool) -> None:
    policy = make_policy(space, hidden=(64, 64), normalise=normalise)
    policy.observe({"policy": torch.randn(100, 3, generator=torch.Generator().manual_seed(0)) * 3 + 1})
    ratios: list[Tensor] = []
    learner = PPO(config(minibatches=3, epochs=1, steps=33), policy)
    inner = learner._loss_of

    def watched(part: ppo.Batch) -> tuple[Tensor, Tensor]:
        ratios.append((policy.evaluate(part.obs, part.trace).log_prob - part.log_prob).detach().exp())
        return inner(part)

    learner._loss_of = watched
    learner.update(collected(policy, length=33, count=5))
    assert bool((ratios[0] == 1.0).all())
    assert not bool((ratios[1] == 1.0).all()), "by then the weights have moved"


@pytest.mark.parametrize("minibatches", [1, 3, 165])  # products of one row are computed in another way than of two
@pytest.mark.parametrize("symmetry", ["off", "augment", "loss"])
def test_so_it_is_of_what_was_done_with_symmetry_and_where_the_critic_sees_more(
    symmetry: str, minibatches: int
) -> None:
    policy = make_policy(sizes={"policy": 3, "critic": 7}, hidden=(64, 64))
    policy.observe(collected(policy, seed=9).obs)
    mirror = {**MIRROR, "critic": (np.arange(7), -np.ones(7))}
    learner = PPO(config(minibatches=minibatches, epochs=2, steps=33, symmetry=symmetry), policy, mirror=mirror)
    inner, ratios, changed = learner._loss_of, list[Tensor](), list[Tensor]()

    def watched(part: ppo.Batch) -> tuple[Tensor, Tensor]:
        found, size = policy.evaluate(part.obs, part.trace), len(part.log_prob)
        ratios.append((found.log_prob[:size] - part.log_prob).detach().exp())
        changed.append((found.value[:size] - part.value).detach())
        return inner(part)

    learner._loss_of = watched
    learner.update(collected(policy, length=33, count=5))
    assert bool((ratios[0] == 1.0).all())
    assert bool((changed[0] == 0.0).all())
    assert not bool((ratios[1] == 1.0).all()), "by then the weights have moved"


def test_the_first_minibatch_has_no_kl_and_clips_nothing() -> None:
    policy = make_policy()
    figures = PPO(config(minibatches=1, epochs=1), policy).update(collected(policy))
    assert (figures["kl"], figures["ratio_max"], figures["clipped"]) == (0.0, 1.0, 0.0)


def test_old_values_and_log_probs_belong_to_their_rows() -> None:
    policy = make_policy()
    rollout, learner = collected(policy), PPO(config(reward_scaling=False, normalise_advantages="off"), policy)
    batch, _ = learner._batch(rollout, learner._shuffled(0, 32), 8)
    obs = policy.prepare({"policy": rollout.obs["policy"].flatten(0, 1)})
    wanted = policy.evaluate(obs, {"action": rollout.trace["action"].flatten(0, 1)})
    assert torch.allclose(batch.log_prob, wanted.log_prob, atol=1e-5)
    assert torch.allclose(batch.value, wanted.value, atol=1e-5)
    values, tail = wanted.value.view(8, 4).detach(), policy.value(policy.prepare(rollout.tail())).detach()
    advantages, returns = rollout.advantages(values, tail, 0.99, 0.95)
    assert torch.allclose(batch.advantage, advantages.flatten(), atol=1e-4)
    assert torch.allclose(batch.returns, returns.flatten(), atol=1e-4)


def test_every_decision_is_seen_once_a_pass_in_another_order_each_time() -> None:
    policy = make_policy()
    learner = PPO(config(), policy)
    seen: list[list[float]] = []
    inner = learner._loss_of

    def watched(part: ppo.Batch) -> tuple[Tensor, Tensor]:
        seen.append(part.log_prob.tolist())
        return inner(part)

    learner._loss_of = watched
    learner.update(collected(policy))
    passes = [[each for part in seen[at : at + 4] for each in part] for at in (0, 4, 8)]
    assert len({tuple(sorted(each)) for each in passes}) == 1
    assert len({tuple(each) for each in passes}) == 3
    assert len(set(passes[0])) == 32


@pytest.mark.parametrize("over", ["rollout", "minibatch"])
def test_advantages_are_normalised_over_what_is_asked(over: str) -> None:
    policy = make_policy()
    learner = PPO(config(normalise_advantages=over), policy)
    seen: list[Tensor] = []
    inner = learner._loss_of

    def watched(part: ppo.Batch) -> tuple[Tensor, Tensor]:
        seen.append(part.advantage)
        return inner(part)

    learner._loss_of = watched
    learner.update(collected(policy))
    means = [each.mean().item() for each in seen[:4]]
    assert torch.cat(seen[:4]).mean().item() == pytest.approx(0, abs=1e-5)
    if over == "minibatch":
        assert means == pytest.approx([0] * 4, abs=1e-5)
    else:
        assert max(map(abs, means)) > 0.01


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"reward_scaling": False}, [1.0, 2.0, 3.0, 4.0]),
        ({"reward_scaling": True}, [reward / 1.25**0.5 for reward in (1.0, 2.0, 3.0, 4.0)]),  # of variance 1.25
        ({"reward_scaling": True, "reward_clip": 2.0}, [1 / 1.25**0.5, 2 / 1.25**0.5, 2.0, 2.0]),
    ],
)
def test_returns_are_of_rewards_that_are_scaled_and_then_cut(settings: dict[str, Any], wanted: list[float]) -> None:
    policy = make_policy()
    rollout = collected(policy, length=4, count=1)
    rollout.reward[:, 0] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    learner = PPO(config(gamma=0.0, normalise_advantages="off", **settings), policy)  # a return is its own reward
    batch, _ = learner._batch(rollout, torch.arange(4), 4)
    assert batch.returns.tolist() == pytest.approx(wanted)
    assert batch.advantage.tolist() == pytest.approx((batch.returns - batch.value).tolist())


# The loss


def looked_at(**settings: Any) -> tuple[PPO, ppo.Batch]:
    """A learner, and decisions that are neither good nor bad and whose returns are 2 above what was expected."""
    policy = make_policy()
    learner = PPO(config(**settings), policy)
    batch, _ = learner._batch(collected(policy), torch.arange(32), 32)
    return learner, batch._replace(advantage=torch.zeros(32), returns=batch.value + 2.0)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, 0.5 * 1.0**2),
        ({"value_clip": 0.25}, 0.5 * 1.75**2),
        ({"value_clip": 1.5}, 0.5 * 1.0**2),
        ({"value_weight": 3.0}, 3.0 * 0.5 * 1.0**2),
        ({"value_weight": 0.0}, 0.0),
    ],
)
def test_values_count_as_they_are_weighted_and_as_far_as_they_may_move(settings: dict[str, Any], wanted: float) -> None:
    learner, batch = looked_at(**settings)
    with torch.no_grad():
        learner.policy.get_parameter("critic.head.bias").add_(1.0)  # half way to the returns
    loss, _ = learner._loss(batch)
    assert loss.item() == pytest.approx(wanted, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "settings", "wanted"),
    [
        (1.5, 1.0, {"clip": 0.2}, -1.2),
        (1.5, 1.0, {"clip": 0.2, "clip_high": 0.4}, -1.4),
        (1.5, 1.0, {"clip": 0.2, "clip_high": 0.6}, -1.5),
        (0.5, -1.0, {"clip": 0.2, "clip_high": 0.6}, 0.8),  # below, it is as it was
    ],
)
def test_a_ratio_counts_up_to_its_bounds(
    ratio: float, advantage: float, settings: dict[str, Any], wanted: float
) -> None:
    learner, batch = looked_at(value_weight=0.0, **settings)
    grown = batch._replace(log_prob=batch.log_prob - math.log(ratio), advantage=torch.full((32,), advantage))
    loss, _ = learner._loss(grown)
    assert loss.item() == pytest.approx(wanted, rel=1e-4)


# What an update changes


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_a_first_step_is_as_long_as_adam_says(eps: float) -> None:
    policy = make_policy()
    before = weights(policy)
    learner = PPO(config(epochs=1, minibatches=1, max_grad_norm=0.0, lr=0.01, adam_eps=eps), policy)
    learner.update(collected(policy))
    for name, weight in learner.named.items():
        assert weight.grad is not None
        wanted = before[name] - 0.01 * weight.grad / (weight.grad.abs() + eps)
        assert torch.allclose(weight.detach(), wanted, atol=1e-6), name


@pytest.mark.parametrize("space", SPACES)
def test_an_update_makes_what_went_well_likelier_and_values_righter(space: spaces.Space[Any]) -> None:
    policy = make_policy(space)
    rollout, learner = collected(policy, length=16), PPO(config(steps=16, epochs=10), policy)
    batch, _ = learner._batch(rollout, learner._shuffled(0, 64), 16)
    learner.scaling = PPO(learner.config, policy).scaling
    learner.update(rollout)
    after = policy.evaluate(batch.obs, batch.trace)
    gain = ((after.log_prob - batch.log_prob) * batch.advantage).mean()
    assert gain > 0.01
    assert (after.value - batch.returns).square().mean() < (batch.value - batch.returns).square().mean()


def test_figures_are_plain_finite_numbers() -> None:
    policy = make_policy()
    figures = PPO(config(), policy).update(collected(policy))
    wanted = {"policy_loss", "value_loss", "entropy", "kl", "clipped", "ratio_max", "grad_norm", "lr", "std", "epochs"}
    assert set(figures) == wanted | {"explained_variance", "reward_scale"}
    assert all(type(value) is float and math.isfinite(value) for value in figures.values())
    assert figures["epochs"] == 3.0
    assert figures["kl"] > 0


def test_kl_is_sampled_where_a_policy_has_no_closed_form() -> None:
    class Flow(MLPPolicy):
        """Knows how likely a decision is, and nothing else about its distribution."""

        def evaluate(self, obs: Observations, trace: Trace) -> Evaluation:
            return super().evaluate(obs, trace)._replace(entropy=None, parameters={})

    plain, flow = make_policy(), Flow(MLPConfig(hidden=(16, 16)), SIZES, BOX)
    flow.load_state_dict(plain.state_dict())
    exact = PPO(config(), plain).update(collected(plain, length=100))
    sampled = PPO(config(), flow).update(collected(flow, length=100))
    assert same(weights(plain), weights(flow))
    assert sampled["kl"] == pytest.approx(exact["kl"], rel=0.5)
    assert sampled["kl"] != exact["kl"]
    assert "std" not in sampled
    with pytest.raises(UserError, match=r"learner\.entropy"):
        PPO(config(entropy=0.01), flow).update(collected(flow))


def test_an_entropy_bonus_widens_the_distribution() -> None:
    found = []
    for entropy in (0.0, 1.0):
        policy = make_policy()
        learner = PPO(config(entropy=entropy, epochs=10), policy)
        found.append([learner.update(collected(policy, seed=seed))["entropy"] for seed in range(2)][-1])
    assert found[1] > found[0] + 0.02


def test_the_gradient_norm_that_is_reported_is_that_before_the_clip() -> None:
    norms, moved = [], []
    for bound in (0.0, 0.1):
        policy = make_policy()
        before = weights(policy)
        # Plain descent: Adam would hide the size of a gradient.
        learner = PPO(config(epochs=1, minibatches=1, lr=1.0, max_grad_norm=bound), policy)
        learner.optimizer = torch.optim.SGD(learner.weights, 1.0)  # pyright: ignore[reportAttributeAccessIssue]
        norms.append(learner.update(collected(policy))["grad_norm"])
        steps = [(weights(policy)[name] - before[name]).square().sum() for name in learner.named]
        moved.append(float(torch.stack(steps).sum().sqrt()))
    assert norms[0] == norms[1] > 0.5
    assert moved == pytest.approx([norms[0], 0.1], rel=1e-3)


# How far


def test_a_pass_that_moved_too_far_is_the_last() -> None:
    found = []
    for early_stop in (False, True):
        policy = make_policy()
        learner = PPO(config(lr=0.05, epochs=6, early_stop=early_stop, target_kl=0.01), policy)
        found.append(learner.update(collected(policy)))
    assert found[0]["epochs"] == 6.0
    assert 1.0 <= found[1]["epochs"] < 6.0
    assert found[1]["kl"] > 0.01


def test_early_stop_looks_at_the_mean_of_a_pass() -> None:
    policy = make_policy()
    learner = PPO(config(epochs=4, early_stop=True, target_kl=0.5), policy)
    inner, kls = learner._loss_of, iter([0.0, 0.9, 0.9, 0.1, *[0.6] * 4])

    def pretended(part: ppo.Batch) -> tuple[Tensor, Tensor]:
        loss, figures = inner(part)
        figures = figures.clone()
        figures[ppo._KL] = next(kls)
        return loss, figures

    learner._loss_of = pretended
    figures = learner.update(collected(policy))
    assert figures["epochs"] == 2.0, "single minibatches above the target stop nothing, a pass above it does"
    assert figures["kl"] == pytest.approx(0.6)


def test_the_adaptive_learning_rate_follows_the_kl_of_an_update() -> None:
    policy = make_policy()
    learner = PPO(config(schedule="adaptive", lr=0.05, target_kl=0.01), policy)
    assert learner.update(collected(policy))["lr"] == 0.05
    assert learner.lr == pytest.approx(0.05 / 1.5)
    policy = make_policy()
    learner = PPO(config(schedule="adaptive", lr=1e-5, target_kl=0.01), policy)
    learner.update(collected(policy))
    assert learner.lr == pytest.approx(1.5e-5)
    assert learner.update(collected(policy, seed=1))["lr"] == pytest.approx(1.5e-5)


def test_the_adaptive_learning_rate_can_act_at_every_minibatch() -> None:
    policy = make_policy()
    learner = PPO(config(schedule="adaptive", adapt="minibatch", lr=1e-5, target_kl=0.01), policy)
    learner.update(collected(policy))
    assert learner.lr == pytest.approx(1e-5 * 1.5**11)  # in the first of twelve nothing has moved yet


def test_a_policy_that_is_frozen_does_not_make_the_learning_rate_grow() -> None:
    policy = make_policy()
    learner = PPO(config(schedule="adaptive", lr=1e-4, frozen=("actor",)), policy)
    learner.update(collected(policy))
    assert learner.lr == 1e-4


def test_a_state_taken_over_with_another_learning_rate_begins_with_that() -> None:
    policy = make_policy()
    learner = PPO(config(schedule="adaptive", lr=1e-4), policy)
    learner.update(collected(policy))
    state = learner.state()
    same, other = (PPO(config(schedule="adaptive", lr=lr), make_policy()) for lr in (1e-4, 1e-5))
    same.load_state(state)
    other.load_state(state)
    assert (same.lr, other.lr) == (learner.lr, 1e-5)


def test_what_was_frozen_begins_to_learn_without_a_past() -> None:
    policy = make_policy()
    learner = PPO(config(frozen=("actor",)), policy)
    learner.update(collected(policy))
    policy = make_policy()
    thawed = PPO(config(), policy)
    thawed.load_state(learner.state())
    thawed.update(collected(policy))
    steps = {name: float(of["step"]) for name, of in thawed.state()["optimizer"].items()}
    assert {count for name, count in steps.items() if name.startswith("actor.")} == {12.0}
    assert {count for name, count in steps.items() if name.startswith("critic.")} == {24.0}


def test_the_linear_schedule_ends_with_weights_that_stay() -> None:
    policy = make_policy()
    learner = PPO(config(schedule="linear"), policy)
    assert learner.update(collected(policy), 0.5)["lr"] == pytest.approx(5e-4)
    before = weights(policy)
    learner.update(collected(policy), 1.0)
    assert same(before, weights(policy))


# Symmetry


def oddness(policy: MLPPolicy) -> float:
    """How far the action in the mirror is from the mirrored action."""
    obs = torch.randn(50, 3, generator=torch.Generator().manual_seed(5))
    return float((policy.act({"policy": -obs}) + policy.act({"policy": obs})).abs().max())


def trained(symmetry: str, **settings: Any) -> MLPPolicy:
    policy = make_policy(hidden=(16,))  # tanh, biases 0: it does in the mirror what is mirrored
    PPO(config(symmetry=symmetry, lr=0.01, **settings), policy, mirror=MIRROR).update(collected(policy))
    return policy


def test_an_augmented_step_leaves_a_mirrored_policy_mirrored() -> None:
    # One step: what rounding leaves of a gradient that is 0, Adam makes as large as any other in a few.
    assert oddness(trained("off", epochs=1, minibatches=1)) > 0.01
    assert oddness(trained("augment", epochs=1, minibatches=1)) < 1e-4


def test_augmentation_doubles_what_is_learned_from() -> None:
    policy = make_policy()
    learner = PPO(config(symmetry="augment"), policy, mirror=MIRROR)
    batch, _ = learner._batch(collected(policy), learner._shuffled(0, 32), 8)
    assert len(batch.obs["policy"]) == len(batch.trace["action"]) == 64
    part = batch.select(torch.tensor([3, 7]))
    assert torch.equal(part.obs["policy"], batch.obs["policy"][[3, 7, 35, 39]])
    assert torch.equal(part.obs["policy"][2:], -part.obs["policy"][:2])
    assert torch.equal(part.trace["action"][2:], -part.trace["action"][:2])
    assert torch.equal(part.log_prob, batch.log_prob[[3, 7]])


def test_observations_are_mirrored_before_they_are_normalised() -> None:
    policy = make_policy()
    policy.observe({"policy": torch.randn(100, 3, generator=torch.Generator().manual_seed(0)) * 2 + 5})
    learner, rollout = PPO(config(symmetry="augment"), policy, mirror=MIRROR), collected(policy)
    batch, _ = learner._batch(rollout, learner._shuffled(0, 32), 8)
    wanted = policy.prepare({"policy": -rollout.obs["policy"].flatten(0, 1)})["policy"]
    assert torch.equal(batch.obs["policy"][32:], wanted)


def test_the_mirror_loss_draws_a_policy_to_its_mirror_image() -> None:
    without, light, strong = trained("off"), trained("loss", mirror_weight=1.0), trained("loss", mirror_weight=100.0)
    assert oddness(strong) < oddness(light) < oddness(without)


@pytest.mark.parametrize(
    ("mirror", "complaint"),
    [(None, "does not know its mirror image"), ({"action": MIRROR["action"]}, "mirror lacks policy")],
)
def test_symmetry_needs_a_mirror(mirror: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        PPO(config(symmetry="augment"), make_policy(), mirror=mirror)


# What must not change


def test_frozen_weights_stay_to_the_last_bit_and_the_others_learn() -> None:
    policy = make_policy()
    before = weights(policy)
    PPO(config(frozen=("actor.network", "critic.head")), policy).update(collected(policy))
    after = weights(policy)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {
        "actor.head.mean.weight",
        "actor.head.mean.bias",
        "actor.head.log_std",
        *(f"critic.network.layers.{at}.{part}" for at in (0, 1) for part in ("weight", "bias")),
    }


def test_a_frozen_weight_that_changes_is_an_error() -> None:
    policy = make_policy()
    learner = PPO(config(frozen=("critic.head.bias",)), policy)
    inner = learner._loss_of

    def meddling(part: ppo.Batch) -> tuple[Tensor, Tensor]:
        policy.critic.head.bias.data += 1e-7
        return inner(part)

    learner._loss_of = meddling
    with pytest.raises(RuntimeError, match=r"critic\.head\.bias is frozen"):
        learner.update(collected(policy))


@pytest.mark.parametrize(
    ("frozen", "complaint"),
    [("actr.network", "no weight begins with 'actr.network': did you mean"), ("", "nothing is left")],
)
def test_what_cannot_be_frozen_is_refused(frozen: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        PPO(config(frozen=(frozen,)), make_policy())


# What is not finite


def test_a_reward_that_is_not_finite_is_named() -> None:
    policy = make_policy()
    rollout = collected(policy)
    rollout.reward[2, 3] = math.nan
    before = weights(policy)
    with pytest.raises(UserError, match="reward is not finite: environment 3 at step 2"):
        PPO(config(), policy).update(rollout)
    assert same(before, weights(policy))


def with_gradient(policy: MLPPolicy, name: str, value: float) -> None:
    dict(policy.named_parameters())[name].register_hook(lambda gradient: torch.full_like(gradient, value))


def test_a_gradient_that_is_not_finite_is_named_before_it_is_in_the_weights() -> None:
    policy = make_policy()
    with_gradient(policy, "critic.head.weight", math.inf)
    before = weights(policy)
    with pytest.raises(UserError, match=r"gradient of critic\.head\.weight is not finite in update 0"):
        PPO(config(), policy).update(collected(policy))
    assert same(before, weights(policy))


def test_a_loss_that_is_not_finite_is_named() -> None:
    policy = make_policy()
    torch.nn.init.constant_(policy.critic.head.bias, 1e25)
    with pytest.raises(UserError, match="value_loss is not finite"):
        PPO(config(reward_scaling=False), policy).update(collected(policy))


# Again


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    found = []
    for seed in (1, 1, 2):
        policy = make_policy()
        PPO(config(), policy, seed=seed).update(collected(policy))
        found.append(weights(policy))
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


@pytest.mark.parametrize(
    "settings", [{"schedule": "adaptive"}, {"precision": "fp16"}, {"frozen": ("actor.network",), "early_stop": True}]
)
def test_a_resumed_learner_does_what_the_uninterrupted_one_does(settings: dict[str, Any], tmp_path: Any) -> None:
    policy = make_policy()
    learner = PPO(config(**settings), policy, seed=3)
    learner.update(collected(policy, seed=0))
    policy.observe(collected(policy, seed=0).obs)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"policy": dict(policy.state_dict()), "learner": learner.state()})
    rollout = collected(policy, seed=1)
    figures = learner.update(rollout)

    torch.manual_seed(99)
    other = MLPPolicy(policy.config, SIZES, BOX)
    resumed = PPO(config(**settings), other, seed=3)
    state = checkpoints.load(1)[1]
    other.load_state_dict(state["policy"])
    resumed.load_state(state["learner"])
    assert resumed.update(rollout) == figures
    assert same(weights(policy), weights(other))
    assert resumed.lr == learner.lr


def test_a_state_does_not_move_with_the_learner() -> None:
    policy = make_policy()
    learner = PPO(config(), policy)
    learner.update(collected(policy))
    state = learner.state()
    before = copy.deepcopy(state)
    learner.update(collected(policy, seed=1))
    for name, moments in state["optimizer"].items():
        assert torch.equal(moments["exp_avg"], before["optimizer"][name]["exp_avg"])
    assert torch.equal(state["scaling"]["mean"], before["scaling"]["mean"])


def test_a_state_of_other_weights_is_refused() -> None:
    policy = make_policy()
    learner = PPO(config(), policy)
    learner.update(collected(policy))
    with pytest.raises(UserError, match="state is of other weights"):
        PPO(config(), make_policy(hidden=(8,))).load_state(learner.state())


# Precision and compilation


def one_update(**settings: Any) -> tuple[dict[str, Tensor], dict[str, float]]:
    policy = make_policy()
    figures = PPO(config(**settings), policy).update(collected(policy))
    return {name: values.float() for name, values in weights(policy).items()}, figures


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_stays_close_to_float32(precision: str) -> None:
    whole, wanted = one_update()
    mixed, figures = one_update(precision=precision)
    # Twelve steps of Adam at 1e-3 go 12e-3 far at most; rounding turns the sign of some small gradients.
    assert 0 < furthest(whole, mixed) < 12e-3
    far = torch.cat([(whole[name] - mixed[name]).abs().flatten() for name in whole])
    assert far.mean() < 1e-3
    # Of gradients as they are, not as fp16 has them, scaled by 65536.
    assert figures["grad_norm"] == pytest.approx(wanted["grad_norm"], rel=0.02)
    assert figures["value_loss"] == pytest.approx(wanted["value_loss"], rel=0.02)


def test_mixed_precision_too_begins_with_a_ratio_of_one() -> None:
    assert one_update(precision="bf16", epochs=1, minibatches=1)[1]["ratio_max"] == 1.0


def test_fp16_leaves_out_a_step_that_overflows_and_scales_less() -> None:
    policy = make_policy()
    learner = PPO(config(precision="fp16", epochs=1, minibatches=1), policy)
    assert learner.scaler is not None
    handle = policy.critic.head.weight.register_hook(lambda gradient: torch.full_like(gradient, math.inf))
    before, scale = weights(policy), learner.scaler.get_scale()
    learner.update(collected(policy))
    assert same(before, weights(policy))
    assert learner.scaler.get_scale() < scale
    handle.remove()
    learner.update(collected(policy))
    assert not same(before, weights(policy))


def test_fp16_gives_up_where_scaling_less_does_not_help() -> None:
    policy = make_policy()
    learner = PPO(config(precision="fp16", epochs=8), policy)
    with_gradient(policy, "critic.head.weight", math.inf)
    with pytest.raises(UserError, match=r"gradient of critic\.head\.weight is not finite"):
        learner.update(collected(policy))


def test_deterministic_algorithms_are_asked_for_during_an_update_only() -> None:
    policy = make_policy()
    learner = PPO(config(deterministic=True), policy)
    inner, asked = learner._loss_of, []

    def watched(part: ppo.Batch) -> tuple[Tensor, Tensor]:
        asked.append(torch.are_deterministic_algorithms_enabled())
        return inner(part)

    learner._loss_of = watched
    learner.update(collected(policy))
    assert all(asked)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_update_is_the_same_within_rounding() -> None:
    eager, figures = one_update()
    compiled, fast = one_update(compile=True)
    assert furthest(eager, compiled) < 1e-4
    assert fast["kl"] == pytest.approx(figures["kl"], rel=1e-3)


# Learning


class Points:
    """Points on a line that are pushed left and right, and paid for being near 0. An episode is 20 steps."""

    def __init__(self, count: int, seed: int) -> None:
        self.rng, self.count = np.random.default_rng(seed), count
        self.at, self.age = self.rng.uniform(-1, 1, count), self.rng.integers(0, 20, count)

    def seen(self) -> Observations:
        return {"policy": torch.from_numpy(np.stack([self.at, np.ones(self.count)], 1).astype(np.float32))}

    def step(self, push: np.ndarray) -> Step:
        self.at = self.at + 0.2 * np.clip(push, -1, 1)
        self.age += 1
        reward = -np.abs(self.at)
        truncated = self.age >= 20
        ended = np.flatnonzero(truncated)
        finals = {"policy": self.seen()["policy"].numpy()[ended]}
        self.at[ended], self.age[ended] = self.rng.uniform(-1, 1, len(ended)), 0
        obs = {"policy": self.seen()["policy"].numpy()}
        return Step(obs, reward.astype(np.float32), np.zeros_like(truncated), truncated, ended, finals)


@pytest.mark.parametrize(
    ("space", "push"),
    [
        (spaces.Box(-1, 1, (1,)), lambda action: action[:, 0]),
        (spaces.Discrete(3), lambda action: action - 1.0),
    ],
)
def test_a_policy_learns_to_stay_where_it_is_paid(
    space: spaces.Space[Any], push: Callable[[np.ndarray], np.ndarray]
) -> None:
    policy = make_policy(space, {"policy": 2}, hidden=(32,))
    learner = PPO(config(steps=20, lr=3e-3, epochs=5, gamma=0.9), policy)
    points, rollout, generator = Points(32, seed=0), Rollout(20, 32, {"policy": 2}), torch.Generator().manual_seed(0)
    earned = []
    for _ in range(15):
        for t in range(20):
            obs = points.seen()
            decision = policy.sample(obs, generator)
            rollout.add(t, obs, decision.trace, points.step(push(decision.action.numpy())))
        rollout.close(points.seen())
        earned.append(rollout.reward.mean().item())
        learner.update(rollout)
        policy.observe(rollout.obs)
    assert earned[0] < -0.5
    assert np.mean(earned[-3:]) > -0.3


# Rollouts of an earlier policy


def test_an_actor_that_is_the_policy_changes_nothing() -> None:
    policies = make_policy(), make_policy()
    policies[1].load_state_dict(policies[0].state_dict())
    rollout = collected(policies[0])
    for policy, actor in zip(policies, (None, copy.deepcopy(policies[1])), strict=True):
        PPO(config(), policy).update(rollout, actor=actor)
    assert same(weights(policies[0]), weights(policies[1]))


def test_a_decision_counts_by_how_much_likelier_it_has_become() -> None:
    actor = make_policy()
    policy = copy.deepcopy(actor)
    with torch.no_grad():
        policy.get_parameter("actor.head.mean.bias").add_(0.3)
    rollout, learner = collected(actor), PPO(config(), policy)
    order = torch.arange(rollout.length * rollout.count)
    with torch.no_grad():
        batch, _ = learner._batch(rollout, order, len(order), actor)
        found = [
            each.evaluate(each.prepare({"policy": rollout.obs["policy"].flatten(0, 1)}), batch.trace).log_prob
            for each in (policy, actor)
        ]
    assert batch.weight is not None
    assert torch.allclose(batch.weight, (found[0] - found[1]).exp().clamp(max=2.0))
    assert batch.weight.max() > 1.1 > 0.9 > batch.weight.min()
    assert torch.equal(batch.log_prob, found[0])


def test_the_weight_goes_into_the_loss_after_advantages_are_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy()
    learner = PPO(config(normalise_advantages="minibatch"), policy)
    rollout = collected(policy)
    order = torch.arange(rollout.length * rollout.count)
    with torch.no_grad():
        batch, _ = learner._batch(rollout, order, len(order))
    weight = torch.linspace(0.5, 2.0, len(order))
    seen = []
    monkeypatch.setattr(learner, "_loss_of", lambda part: seen.append(part.advantage) or learner._loss(part))
    learner._minibatch(batch._replace(weight=weight))
    assert torch.allclose(seen[0], normalised(batch.advantage) * weight)
