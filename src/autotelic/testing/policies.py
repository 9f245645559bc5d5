"""What a policy must keep to: that it evaluates what it decided, learns from that, and can be restored."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotelic.policies.base import Decision, Evaluation, Observations, Policy, Trace


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
