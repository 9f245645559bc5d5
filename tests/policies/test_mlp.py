import copy
from typing import Any

import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from autotelic import registry
from autotelic.errors import UserError
from autotelic.policies.base import Observations
from autotelic.policies.mlp import MLPConfig, MLPPolicy
from autotelic.policies.networks import Layer
from autotelic.runs.config import Group, compose

torch.set_num_threads(1)
BOX = spaces.Box(-1, 1, (2,))
SIZES = {"policy": 3}


def policy(space: spaces.Space[Any] = BOX, sizes: dict[str, int] = SIZES, **settings: Any) -> MLPPolicy:
    torch.manual_seed(0)
    return MLPPolicy(MLPConfig(**{"hidden": (8, 8), **settings}), sizes, space)


def observations(rows: int = 5, seed: int = 0, **sizes: int) -> Observations:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(rows, size, generator=generator) for name, size in (sizes or SIZES).items()}


def test_it_is_found_by_name_and_configured_from_a_command_line() -> None:
    from dataclasses import dataclass

    @dataclass
    class Schema:
        policy: Any = None

    asked = ["policy.hidden=[32,16]", "policy.critic_hidden=[64]", "policy.activation=elu"]
    config = compose(Schema, {"policy": Group("policies", "mlp")}, asked).policy
    assert (config.hidden, config.critic_hidden, config.activation) == ((32, 16), (64,), "elu")
    assert registry.get("policies", "mlp") is MLPPolicy


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"activation": "tan"}, "policy.activation=tan: did you mean tanh"),
        ({"std": "stat"}, "did you mean state"),
        ({"hidden": (8, 0)}, r"policy.hidden=\[8, 0\]"),
        ({"initial_std": 0.0}, "below initial_std"),
        ({"clip_obs": 0.0}, "policy.clip_obs"),
    ],
)
def test_a_bad_setting_is_one_line(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        MLPConfig(**settings)


def test_an_action_space_of_another_kind_is_refused() -> None:
    with pytest.raises(UserError, match="Box, Discrete and MultiDiscrete are"):
        policy(spaces.MultiBinary(3))


def test_it_begins_with_small_actions_and_a_value_layer_of_gain_one() -> None:
    found = policy(hidden=(64, 64))
    assert found.act(observations(200)).abs().max() < 0.1
    assert torch.linalg.svdvals(found.critic.head.weight).tolist() == pytest.approx([1.0])


def test_log_prob_is_of_the_action_before_it_is_cut_to_bounds() -> None:
    found, obs = policy(initial_std=5.0), observations(200)
    decision = found.sample(obs, torch.Generator().manual_seed(0))
    action = decision.trace["action"]
    assert (action.abs() > 1).any(1).sum() > 100, "most are out of bounds"
    assert torch.equal(decision.action, action)
    wanted = torch.distributions.Normal(found.act(obs), 5.0).log_prob(action).sum(-1)
    assert torch.allclose(found.evaluate(found.prepare(obs), decision.trace).log_prob, wanted, atol=1e-5)


def test_sampling_draws_from_its_generator_alone() -> None:
    found, obs = policy(), observations()
    state = torch.get_rng_state()
    one, other = (found.sample(obs, torch.Generator().manual_seed(3)).action for _ in range(2))
    assert torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_what_is_sampled_and_done_carries_no_gradient() -> None:
    found, obs = policy(), observations()
    assert not found.sample(obs, torch.Generator()).action.requires_grad
    assert not found.act(obs).requires_grad


def test_actor_and_critic_share_no_weight() -> None:
    found, obs = policy(), observations()
    ready = found.prepare(obs)
    found.value(ready).sum().backward()
    assert all(weight.grad is None for weight in found.actor.parameters())
    assert all(weight.grad is not None for weight in found.critic.parameters())
    for weight in found.parameters():
        weight.grad = None
    trace = found.sample(obs, torch.Generator()).trace
    found.evaluate(ready, trace).log_prob.sum().backward()
    assert all(weight.grad is not None for weight in found.actor.parameters())


def test_the_critic_sees_its_own_observation_where_there_is_one() -> None:
    found = policy(sizes={"policy": 3, "critic": 7}, critic_hidden=(16,))
    obs = observations(policy=3, critic=7)
    changed = {**obs, "critic": obs["critic"] + 1.0}
    assert not torch.equal(found.value(found.prepare(obs)), found.value(found.prepare(changed)))
    assert torch.equal(found.act(obs), found.act(changed))
    assert found.state_dict()["critic.network.layers.0.weight"].shape == (7, 16)


def test_each_observation_has_its_own_statistics() -> None:
    found = policy(sizes={"policy": 3, "critic": 7})
    found.observe(observations(50, policy=3, critic=7))
    state = found.state_dict()
    assert state["actor.normaliser.mean"].shape == (3,)
    assert state["critic.normaliser.mean"].shape == (7,)
    assert state["critic.normaliser.count"].item() == 50


def test_only_observe_changes_what_an_observation_means() -> None:
    found, obs = policy(), observations()
    before = found.prepare(obs)["policy"]
    found.sample(obs, torch.Generator())
    found.act(obs)
    found.value(found.prepare(obs))
    assert torch.equal(found.prepare(obs)["policy"], before)
    found.observe({"policy": obs["policy"] * 3 + 1})
    assert not torch.equal(found.prepare(obs)["policy"], before)


def test_a_deviation_of_the_state_is_wider_where_the_state_says_so() -> None:
    found, obs = policy(std="state", initial_std=0.5), observations(2000)
    assert "actor.head.log_std" not in found.state_dict()
    ready, trace = found.prepare(obs), found.sample(obs, torch.Generator().manual_seed(0)).trace
    assert found.evaluate(ready, trace).parameters["std"].mean().item() == pytest.approx(0.5, abs=0.05)
    with torch.no_grad():
        found.get_parameter("actor.head.std.weight").normal_(0.0, 2.0, generator=torch.Generator().manual_seed(1))
    trace = found.sample(obs, torch.Generator().manual_seed(0)).trace
    said = found.evaluate(ready, trace)
    mean, std = said.parameters["mean"], said.parameters["std"]
    wide = std > std.median()
    assert std[wide].mean() > 3 * std[~wide].mean()
    drawn = (trace["action"] - mean).abs()
    assert drawn[wide].mean() > 3 * drawn[~wide].mean(), "what is drawn follows it"
    wanted = torch.distributions.Normal(mean, std).log_prob(trace["action"]).sum(-1)
    assert torch.allclose(said.log_prob, wanted, atol=1e-5)


def test_observations_are_cut_at_so_many_deviations() -> None:
    found = policy(sizes={"policy": 3, "critic": 2}, clip_obs=2.0)
    found.observe(observations(500, policy=3, critic=2))
    seen = {name: torch.stack([torch.full((size,), by) for by in (100.0, 200.0)]) for name, size in found.sizes.items()}
    ready = found.prepare(seen)
    assert all((values == 2.0).all() for values in ready.values())
    assert all((values == -2.0).all() for values in found.prepare({name: -row for name, row in seen.items()}).values())
    one, other = found.act(seen)
    assert torch.equal(one, other), "who acts sees no difference beyond"
    near = found.prepare(observations(500, policy=3, critic=2))["policy"]
    assert (near.abs() < 2.0).float().mean() > 0.9


def test_without_a_normaliser_observations_stay_as_they_are() -> None:
    found, obs = policy(normalise=False), observations()
    found.observe({"policy": obs["policy"] * 100})
    assert torch.equal(found.prepare(obs)["policy"], obs["policy"])
    assert not found.normalises


def test_the_state_holds_weights_and_statistics() -> None:
    found, obs = policy(), observations(50)
    found.observe(obs)
    other = MLPPolicy(found.config, SIZES, BOX)
    other.load_state_dict(found.state_dict())
    assert torch.equal(other.act(obs), found.act(obs))
    assert torch.equal(other.value(other.prepare(obs)), found.value(found.prepare(obs)))


def test_a_copy_decides_with_its_own_weights() -> None:
    found, obs = policy(), observations()
    other = copy.deepcopy(found)
    with torch.no_grad():
        for weight in other.actor.network.parameters():
            weight.fill_(0.0)
    same = other.sample({"policy": obs["policy"][:1].repeat(2, 1) * torch.tensor([[1.0], [5.0]])}, torch.Generator())
    zeros = {"policy": torch.zeros(2, 3)}
    assert torch.equal(same.action, other.sample(zeros, torch.Generator()).action), "the copy sees nothing any more"
    assert not torch.equal(found.sample(obs, torch.Generator()).action, other.sample(obs, torch.Generator()).action)


@pytest.mark.parametrize("space", [BOX, spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 3])])
def test_the_actor_alone_does_what_the_policy_does(space: spaces.Space[Any]) -> None:
    found, obs = policy(space), observations(50)
    found.observe({"policy": obs["policy"] * 3 + 1})
    elsewhere = copy.deepcopy(found.actor)
    assert torch.equal(elsewhere(obs["policy"]), found.act(obs))


def test_the_mirror_image_of_a_decision_is_of_its_action() -> None:
    trace = {"action": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}
    found = policy().mirrored(trace, torch.tensor([1, 0]), torch.tensor([1.0, -1.0]))
    assert found["action"].tolist() == [[2.0, -1.0], [4.0, -3.0]]


def test_choices_have_no_mirror_image() -> None:
    nothing: Tensor = torch.zeros(0)
    with pytest.raises(UserError, match=r"learner\.symmetry=off"):
        policy(spaces.Discrete(3)).mirrored({"action": nothing}, nothing, nothing)


def test_heads_keep_full_precision_in_mixed_precision() -> None:
    found, obs = policy(), observations()
    trace = found.sample(obs, torch.Generator()).trace
    with torch.autocast("cpu", torch.bfloat16):
        low = found.evaluate(found.prepare(obs), trace)
    whole = found.evaluate(found.prepare(obs), trace)
    assert low.log_prob.dtype == low.value.dtype == low.parameters["mean"].dtype == torch.float32
    assert torch.allclose(low.log_prob, whole.log_prob, atol=0.01)
    assert not torch.equal(low.value, whole.value), "the hidden layers were computed in less"


def test_a_single_layer_is_a_policy_too() -> None:
    found = policy(hidden=())
    assert isinstance(found.critic.head, Layer)
    assert found.act(observations()).shape == (5, 2)
