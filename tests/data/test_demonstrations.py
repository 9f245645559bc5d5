"""Episodes that are recorded, repeated and kept."""

from dataclasses import replace

import numpy as np
import pytest

from autotelic.data.demonstrations import Decide, Demonstration, collect, record, repeats
from autotelic.physics.arm.environment import ArmTask
from autotelic.physics.arm.tasks import ArmReach


@pytest.fixture(scope="module")
def environment() -> ArmTask:
    return ArmReach(ArmReach.Config(count=1, threads=1))


def to_goal(environment: ArmTask, steps: int = 30) -> Decide:
    """Brings the tool to the goal, and says no more after so many steps."""
    left = iter(range(steps))

    def decide(_):
        goal = [*environment.memory["goal"][0], 0.0, environment.robot.widest]
        return environment.towards(np.array([goal])) if next(left, None) is not None else None

    return decide


def shown(environment: ArmTask, seed: int = 3, steps: int = 30) -> Demonstration:
    found = record(environment, seed, to_goal(environment, steps))
    assert found is not None
    return found


def test_what_is_seen_after_an_action_is_what_is_seen_before_the_next(environment):
    found = shown(environment)
    assert found.success
    assert found.steps == 30
    assert found.obs["policy"].shape == found.next_obs["policy"].shape == (30, environment.sizes["policy"])
    assert np.array_equal(found.next_obs["policy"][:-1], found.obs["policy"][1:])
    assert np.array_equal(found.obs["policy"][0], environment.reset(3)["policy"][0])
    assert np.array_equal(found.states[0], environment.simulation.batch.state[0])


def test_an_episode_that_the_environment_ends_ends_with_its_last_observation(environment):
    found = shown(environment, steps=1000)
    assert found.steps == environment.limit
    assert found.success
    assert np.abs(found.next_obs["policy"][-1] - found.obs["policy"][-1]).max() < 0.05  # no start of another episode


def test_actions_are_kept_within_bounds_and_as_they_were_given(environment):
    found = record(environment, 0, lambda _: np.full((1, 5), 7.0))
    assert found is not None
    assert found.actions.dtype == np.float32
    assert found.actions.max() == 1.0


def test_nothing_decided_is_nothing_recorded(environment):
    assert record(environment, 0, lambda _: None) is None


def test_a_success_repeats(environment):
    assert repeats(environment, shown(environment))


@pytest.mark.parametrize("part", ["seed", "actions", "obs", "rewards", "steps"])
def test_a_success_that_was_tampered_with_does_not_repeat(environment, part):
    found = shown(environment)
    wrong = {
        "seed": {"seed": 4},
        "actions": {"actions": np.zeros_like(found.actions)},
        "obs": {"obs": {"policy": found.obs["policy"] + 1e-6}},
        "rewards": {"rewards": found.rewards + 1.0},
        "steps": {"actions": found.actions[:20]},
    }[part]
    assert not repeats(environment, replace(found, **wrong))


def test_a_failure_does_not_repeat_as_a_success(environment):
    assert not repeats(environment, replace(shown(environment, steps=2), success=True))


def collected(environment, source, episodes: int, tries: int) -> tuple[list[Demonstration], dict[str, int]]:
    kept: list[Demonstration] = []
    return kept, dict(collect(environment, source, episodes, tries, 0, kept.append))


def test_only_verified_successes_are_kept_and_the_others_counted(environment):
    def source(chosen, tried):
        for at, seed in enumerate(chosen, tried):
            if at == 0:
                yield "wrong"
            elif at == 1:
                yield shown(environment, seed, steps=2)
            elif at == 2:
                yield replace(shown(environment, seed), rewards=np.zeros(30, np.float32))
            else:
                yield shown(environment, seed)

    kept, failed = collected(environment, source, 2, 10)
    assert failed == {"wrong": 1, "failed": 1, "unrepeatable": 1}
    assert len({demo.seed for demo in kept}) == 2
    assert all(demo.success for demo in kept)


def test_tries_are_bounded(environment):
    kept, failed = collected(environment, lambda chosen, tried: ["wrong" for _ in chosen], 100, 41)
    assert kept == []
    assert failed == {"wrong": 41}
