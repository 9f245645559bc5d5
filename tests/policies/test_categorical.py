import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.distributions import Categorical as Theirs
from torch.distributions import kl_divergence

from autotelic.errors import UserError
from autotelic.policies.categorical import Categorical

torch.set_num_threads(1)
SPACES: list[spaces.Discrete | spaces.MultiDiscrete] = [
    spaces.Discrete(4),
    spaces.MultiDiscrete([4]),
    spaces.MultiDiscrete([2, 4, 3]),
]


def head(space: spaces.Discrete | spaces.MultiDiscrete) -> Categorical:
    torch.manual_seed(0)
    found = Categorical(5, space, orthogonal=True)
    torch.nn.init.normal_(found.scores.weight)
    return found


def parameters(found: Categorical, seed: int = 0, rows: int = 6) -> dict[str, Tensor]:
    return found(torch.randn(rows, 5, generator=torch.Generator().manual_seed(seed)))


def parts(found: Categorical, log_probs: Tensor) -> list[Theirs]:
    return [Theirs(logits=part) for part in log_probs.split(found.sizes, -1)]


@pytest.mark.parametrize("space", SPACES)
def test_log_prob_entropy_and_kl_are_sums_over_torch_distributions(space: spaces.Discrete) -> None:
    found = head(space)
    old, new = parameters(found), parameters(found, seed=1)
    chosen = found.sample(new, torch.Generator().manual_seed(0))
    ours, theirs = parts(found, new["log_probs"]), parts(found, old["log_probs"])
    wanted = sum(part.log_prob(choice) for part, choice in zip(ours, chosen.unbind(-1), strict=True))
    assert torch.allclose(found.log_prob(new, chosen), torch.as_tensor(wanted), atol=1e-6)
    assert torch.allclose(found.entropy(new), torch.stack([part.entropy() for part in ours]).sum(0), atol=1e-6)
    wanted = torch.stack([kl_divergence(one, other) for one, other in zip(theirs, ours, strict=True)]).sum(0)
    assert torch.allclose(found.kl(old, new), wanted, atol=1e-6)


@pytest.mark.parametrize("space", SPACES)
def test_choices_are_drawn_as_often_as_they_are_likely(space: spaces.Discrete) -> None:
    found = head(space)
    log_probs = parameters(found, rows=1)["log_probs"]
    rows = {"log_probs": log_probs.expand(20_000, -1)}
    drawn = found.sample(rows, torch.Generator().manual_seed(0))
    for part, choice in zip(log_probs[0].exp().split(found.sizes), drawn.unbind(-1), strict=True):
        shares = torch.bincount(choice, minlength=len(part)) / len(drawn)
        assert (shares - part).abs().max() < 0.015


def test_the_mode_is_the_likeliest_of_each() -> None:
    found = head(spaces.MultiDiscrete([2, 3]))
    log_probs = torch.tensor([[0.4, 0.6, 0.5, 0.2, 0.3], [0.9, 0.1, 0.1, 0.1, 0.8]]).log()
    assert found.mode({"log_probs": log_probs}).tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize(
    ("space", "wanted"),
    [
        (spaces.Discrete(3), [2, 0]),
        (spaces.Discrete(3, start=5), [7, 5]),
        (spaces.MultiDiscrete([3]), [[2], [0]]),
        (spaces.MultiDiscrete([3], start=[-1]), [[1], [-1]]),
    ],
)
def test_the_environment_is_given_choices_as_its_space_counts(
    space: spaces.Discrete, wanted: list[int] | list[list[int]]
) -> None:
    action = head(space).action(torch.tensor([[2], [0]]))
    assert action.tolist() == wanted
    assert all(space.contains(np.asarray(each)[()]) for each in action.numpy())


def test_choices_in_several_dimensions_are_refused() -> None:
    with pytest.raises(UserError, match="one dimension"):
        Categorical(5, spaces.MultiDiscrete(np.array([[2, 3], [2, 3]])), orthogonal=True)
