import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from autotelic.errors import UserError
from autotelic.policies.gaussian import Gaussian, entropy, kl, log_prob

torch.set_num_threads(1)
BOX = spaces.Box(-1, 1, (3,))


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def head(*, by_state: bool = False, std: float = 0.5, least: float = 0.001) -> Gaussian:
    return Gaussian(4, BOX, std=std, least=least, by_state=by_state, orthogonal=True)


def theirs(mean: Tensor, std: Tensor) -> Independent:
    return Independent(Normal(mean, std.expand_as(mean)), 1)


@pytest.mark.parametrize("shape", [(3,), (6, 3)])
def test_log_prob_and_entropy_are_those_of_torch_distributions(shape: tuple[int, ...]) -> None:
    mean, std, action = draws(6, 3), draws(*shape, seed=1).exp(), draws(6, 3, seed=2) * 5
    wanted = theirs(mean, std)
    assert torch.allclose(log_prob(action, mean, std), wanted.log_prob(action))
    assert torch.allclose(entropy(std).expand(6), wanted.entropy())


def test_kl_is_that_of_torch_distributions() -> None:
    old, new = (draws(6, 3), draws(6, 3, seed=1).exp()), (draws(6, 3, seed=2), draws(6, 3, seed=3).exp())
    assert torch.allclose(kl(*old, *new), kl_divergence(theirs(*old), theirs(*new)))


def test_kl_from_a_policy_to_itself_is_zero() -> None:
    mean, std = draws(6, 3), draws(6, 3, seed=1).exp()
    assert kl(mean, std, mean, std).tolist() == [0.0] * 6


@pytest.mark.parametrize("by_state", [False, True])
def test_a_deviation_begins_as_asked(by_state: bool) -> None:
    found = head(by_state=by_state, std=0.2)(torch.zeros(2, 4))["std"]
    assert found.flatten().tolist() == pytest.approx([0.2] * found.numel())


@pytest.mark.parametrize("by_state", [False, True])
def test_a_deviation_stays_above_its_floor_and_keeps_a_gradient(by_state: bool) -> None:
    gaussian = head(by_state=by_state, least=0.01)
    weight = gaussian.std.bias if gaussian.std is not None else gaussian.log_std
    torch.nn.init.constant_(weight, -20.0)
    std = gaussian(torch.zeros(1, 4))["std"]
    std.sum().backward()
    assert (std >= 0.01).all()
    assert weight.grad is not None
    assert (weight.grad > 0).all()


def test_a_deviation_by_state_differs_between_states() -> None:
    gaussian = head(by_state=True)
    torch.nn.init.ones_(gaussian.std.weight)  # pyright: ignore[reportOptionalMemberAccess]
    found = gaussian(torch.tensor([[1.0] * 4, [-1.0] * 4]))["std"]
    assert (found[0] > found[1]).all()


def test_samples_have_the_mean_and_deviation_of_their_parameters() -> None:
    mean, std = torch.tensor([[1.0, -2.0, 0.0]]).expand(20_000, 3), torch.tensor([0.1, 1.0, 3.0])
    found = head().sample({"mean": mean, "std": std}, torch.Generator().manual_seed(0))
    assert (found.mean(0) - mean[0]).abs().div(std).max() < 0.03
    assert (found.std(0) / std - 1).abs().max() < 0.03


def test_a_box_of_several_dimensions_is_refused() -> None:
    with pytest.raises(UserError, match="one dimension"):
        Gaussian(4, spaces.Box(-1, 1, (2, 3)), std=1.0, least=0.1, by_state=False, orthogonal=True)
