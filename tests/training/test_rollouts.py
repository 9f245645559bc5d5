from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from autotelic.errors import UserError
from autotelic.physics.base import Step
from autotelic.training.rollouts import Rollout

torch.set_num_threads(1)


def step(obs: list[float], reward: list[float], terminated: list[int], truncated: dict[int, float]) -> Step:
    """Of environments that see one number each; `truncated` gives the last number an episode that was cut has seen."""
    count = len(obs)
    ended = np.array(sorted({*terminated, *truncated}), np.int64)
    finals = np.array([[truncated.get(int(i), -999.0)] for i in ended], np.float32).reshape(-1, 1)
    return Step(
        obs={"policy": np.array(obs, np.float32)[:, None]},
        reward=np.array(reward, np.float32),
        terminated=np.isin(np.arange(count), terminated),
        truncated=np.isin(np.arange(count), list(truncated)),
        ended=ended,
        final_obs={"policy": finals},
    )


def filled(rows: list[list[float]], steps: list[Step], length: int | None = None) -> Rollout:
    rollout = Rollout(length or len(steps), len(rows[0]), {"policy": 1})
    for t, (row, each) in enumerate(zip(rows, steps, strict=True)):
        seen = {"policy": torch.tensor(row)[:, None]}
        rollout.add(t, seen, {"action": torch.tensor(row)[:, None] * 10}, each)
    rollout.close({"policy": torch.from_numpy(steps[-1].obs["policy"])})
    return rollout


def worth(obs: dict[str, Tensor]) -> Tensor:
    """A value that can be read off the observation: ten times what is seen."""
    return 10 * obs["policy"][..., 0]


def test_a_chain_with_a_time_out_is_valued_by_what_it_truly_saw_last() -> None:
    # One environment sees 1, 2, then 3 in its last step before the limit; the row after it is of a new episode at 5.
    rollout = filled(
        [[1.0], [2.0], [5.0]],
        [step([2.0], [1.0], [], {}), step([5.0], [1.0], [], {0: 3.0}), step([6.0], [1.0], [], {})],
    )
    advantages, returns = rollout.advantages(worth(rollout.obs), worth(rollout.tail()), gamma=0.5, lam=0.5)
    # deltas: 1 + 10 - 10 = 1; 1 + 15 - 20 = -4, worth 30 after it; 1 + 30 - 50 = -19, worth 60 after it.
    assert advantages[:, 0].tolist() == [1 - 4 / 4, -4, -19]
    assert returns[:, 0].tolist() == [10 + 0, 20 - 4, 50 - 19]


def test_nothing_follows_a_terminal_step() -> None:
    rollout = filled([[1.0], [5.0]], [step([5.0], [1.0], [0], {}), step([6.0], [1.0], [], {})])
    advantages, _ = rollout.advantages(worth(rollout.obs), worth(rollout.tail()), gamma=0.5, lam=0.5)
    assert advantages[:, 0].tolist() == [1 - 10, 1 + 30 - 50]


def test_environments_that_end_together_keep_their_own_last_observations() -> None:
    last = step([7.0, 8.0, 9.0], [0.0, 0.0, 0.0], [1], {0: 1.0, 2: 3.0})
    rollout = filled([[0.0, 0.0, 0.0]], [last])
    assert rollout.tail()["policy"][:, 0].tolist() == [7.0, 8.0, 9.0, 1.0, 3.0]
    advantages, _ = rollout.advantages(worth(rollout.obs), worth(rollout.tail()), gamma=1.0, lam=1.0)
    assert advantages[0].tolist() == [10.0, 0.0, 30.0]


def test_rewards_can_be_replaced_by_scaled_ones() -> None:
    rollout = filled([[0.0]], [step([0.0], [4.0], [], {})])
    advantages, _ = rollout.advantages(worth(rollout.obs), worth(rollout.tail()), 0.9, 0.9, rollout.reward / 2)
    assert advantages.tolist() == [[2.0]]


def test_a_rollout_keeps_observations_and_traces_as_they_came() -> None:
    rollout = filled([[1.0, 2.0], [3.0, 4.0]], [step([3.0, 4.0], [0.0, 0.5], [], {}) for _ in range(2)])
    assert rollout.obs["policy"][..., 0].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert rollout.trace["action"][..., 0].tolist() == [[10.0, 20.0], [30.0, 40.0]]
    assert rollout.reward.tolist() == [[0.0, 0.5], [0.0, 0.5]]


def test_a_rollout_that_is_filled_again_has_nothing_of_the_last() -> None:
    ends, goes_on = step([1.0], [1.0], [], {0: 9.0}), step([1.0], [2.0], [], {})
    rollout = filled([[1.0]], [ends])
    memory = rollout.obs["policy"].data_ptr()
    seen = {"policy": torch.tensor([[4.0]])}
    rollout.add(0, seen, {"action": torch.tensor([[5.0]])}, goes_on)
    rollout.close(seen)
    assert rollout.tail()["policy"].tolist() == [[4.0]]
    assert not rollout.ended.any()
    assert rollout.trace["action"].tolist() == [[[5.0]]]
    assert rollout.obs["policy"].data_ptr() == memory


def test_traces_may_be_of_any_names_shapes_and_types() -> None:
    rollout = Rollout(1, 2, {"policy": 1})
    trace = {"path": torch.ones(2, 3, 4), "choice": torch.tensor([5, 6])}
    rollout.add(0, {"policy": torch.zeros(2, 1)}, trace, step([0.0, 0.0], [0.0, 0.0], [], {}))
    assert rollout.trace["path"].shape == (1, 2, 3, 4)
    assert rollout.trace["choice"].tolist() == [[5, 6]]
    assert rollout.trace["choice"].dtype == torch.int64


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["reward", "observation", "final observation"])
def test_what_is_not_finite_is_refused_with_its_environment(where: str, wrong: float) -> None:
    seen = [[0.0, 0.0], [0.0, wrong if where == "observation" else 0.0]]
    earned = [0.0, wrong if where == "reward" else 0.0]
    ends: Any = {0: 0.0, 1: wrong} if where == "final observation" else {}
    rollout = filled(seen, [step([0.0, 0.0], [0.0, 0.0], [], {}), step([0.0, 0.0], earned, [], ends)])
    with pytest.raises(UserError, match=rf"^{where}.* is not finite: environment 1 at step 1 of the rollout"):
        rollout.check()


def test_large_numbers_are_finite() -> None:
    rollout = filled([[3e38, 3e38]], [step([0.0, 0.0], [3e38, 3e38], [], {})])
    rollout.check()
