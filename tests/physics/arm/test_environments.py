from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from autotelic import registry
from autotelic.errors import UserError
from autotelic.physics.arm.control import Arm
from autotelic.physics.arm.environment import ArmTask
from autotelic.physics.arm.scenes import compiled
from autotelic.physics.arm.tasks import (
    FAMILIES,
    ArmButton,
    ArmDrawer,
    ArmLift,
    ArmPickPlace,
    ArmPush,
    ArmReach,
    ArmStack,
)
from autotelic.physics.gym import registration
from autotelic.testing import check_environment

absent = pytest.mark.skipif(
    find_spec("ogbench") is None, reason="ogbench, whose files the UR5e is built of, is missing"
)

FORWARD, UP = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])


def make(task: type[ArmTask], seed: int = 1, **keys) -> ArmTask:
    env = task(task.Config(**{"count": 4, "threads": 1, **keys}))
    env.reset(seed)
    return env


def still(env: ArmTask) -> np.ndarray:
    return np.zeros((env.count, 5))


def towards(env: ArmTask, goal: np.ndarray, gripper: float = 0.0) -> np.ndarray:
    """Actions that bring tools to their goals."""
    tool = env.measure(slice(None)).tool
    ahead = env._solver.forward(env.memory["joints"])[0]
    way = goal - 0.5 * (tool + ahead)
    return np.concatenate(
        [np.clip(way / 0.02, -1, 1), np.zeros((env.count, 1)), np.full((env.count, 1), gripper)], axis=1
    )


def go(env: ArmTask, goal: np.ndarray, steps: int, gripper: float = 0.0):
    for _ in range(steps):
        step = env.step(towards(env, goal, gripper))
    return step


# All families


@pytest.mark.parametrize("task", FAMILIES)
def test_families_keep_the_word_of_environments(task: type[ArmTask]) -> None:
    config = task.Config(count=2, threads=1, seconds=0.24)
    check_environment(lambda: task(config), steps=14)


@absent
def test_the_ur5e_keeps_it_too() -> None:
    config = ArmPickPlace.Config(count=2, threads=1, seconds=0.24, robot="ur5e")
    check_environment(lambda: ArmPickPlace(config), steps=14)


@pytest.mark.parametrize("task", FAMILIES)
def test_families_are_found_by_name(task: type[ArmTask]) -> None:
    assert registry.get("environments", task.name) is task
    assert task.name in registration.TASKS


@pytest.mark.parametrize("task", [ArmReach, ArmDrawer])
@pytest.mark.filterwarnings("ignore::UserWarning")  # of bounds that observations do not have
def test_gymnasium_s_checker_is_content(task: type[ArmTask]) -> None:
    made = gymnasium.make(f"autotelic.physics.gym.registration:autotelic/{task.name}-v0")
    check_env(made.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("task", FAMILIES)
def test_doing_nothing_is_no_success_and_breaks_nothing(task: type[ArmTask]) -> None:
    env = make(task, count=16, seconds=1.0)
    before = env.measure(slice(None)).things
    for _ in range(25):
        after = env.measure(slice(None)).things
        step = env.step(still(env))
    assert step.truncated.all()
    assert step.episodes["success"].tolist() == [0.0] * 16
    assert env.broken == 0
    for name, places in before.items():
        assert np.abs(after[name] - places).max() < 0.002


@pytest.mark.parametrize("task", [ArmPickPlace, ArmStack, ArmDrawer])
def test_random_actions_break_nothing(task: type[ArmTask]) -> None:
    env, rng = make(task, count=8), np.random.default_rng(2)
    for _ in range(60):
        step = env.step(rng.uniform(-1, 1, (8, 5)))
        assert np.isfinite(step.obs["policy"]).all()
        assert np.abs(step.obs["policy"]).max() < 30
    assert env.broken == 0
    assert (env._sites[:, env._tool, 2] > 0.0).all()


@pytest.mark.parametrize("task", FAMILIES)
def test_the_layout_of_observations_is_told(task: type[ArmTask]) -> None:
    env = make(task, count=1)
    layout = env.contract()["layout"]["policy"]
    assert sum(size for _, size in layout) == env.sizes["policy"]
    assert (["goal", 3] in layout) == env.has_goal


def test_episodes_begin_as_seed_environment_and_episode_say() -> None:
    few, many = make(ArmStack, count=2), make(ArmStack, count=5)
    assert (few.simulation.qpos == many.simulation.qpos[:2]).all()
    assert (few.simulation.qpos[0] != few.simulation.qpos[1]).any()
    assert (make(ArmStack, seed=2).simulation.qpos[0] != few.simulation.qpos[0]).any()


def test_what_is_placed_is_apart() -> None:
    for task in (ArmStack, ArmPickPlace):
        env = make(task, count=200)
        now = env.measure(slice(None))
        other = now.things["blue_box"] if task is ArmStack else now.fixtures["bin"]
        off = np.abs(now.things["red_box"] - other)[:, :2].max(axis=1)
        assert off.min() > (0.09 if task is ArmStack else 0.12)


def test_actions_move_the_tool_and_the_fingers() -> None:
    env = make(ArmReach)
    before, turned = env.measure(slice(None)), np.arcsin(dict(env._parts(slice(None)))["tool_x_axis"][:, 1])
    for _ in range(5):
        env.step(np.tile([0.0, 1.0, 0.0, 0.5, -0.5], (4, 1)))
    for _ in range(10):
        env.step(still(env))
    after = env.measure(slice(None))
    assert after.tool - before.tool == pytest.approx(np.tile([0.0, 0.1, 0.0], (4, 1)), abs=0.012)
    assert after.fingers == pytest.approx(np.full(4, 0.04), abs=0.012)
    turned = np.arcsin(dict(env._parts(slice(None)))["tool_x_axis"][:, 1]) - turned
    assert turned == pytest.approx(np.full(4, 0.25), abs=0.05)


def test_sparse_rewards_are_paid_while_the_task_is_done() -> None:
    env = make(ArmReach, reward="sparse")
    step = go(env, env.memory["goal"], 40)
    assert list(step.terms) == ["success"]
    assert step.reward.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"robot": "arm8"}, "did you mean arm7"),
        ({"reward": "shapd"}, "did you mean shaped"),
        ({"seconds": 0.0}, "above 0"),
        ({"reward_scales": {"hieght": 1.0}}, "did you mean height"),
    ],
)
def test_settings_that_do_not_fit_are_one_line(keys: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        ArmLift(ArmLift.Config(count=1, threads=1, **keys))


def test_a_term_can_be_switched_off() -> None:
    env = make(ArmLift, reward_scales={"reach": 0.0})
    assert "reach" not in env.step(still(env)).terms


def test_an_episode_that_broke_is_no_success() -> None:
    env = make(ArmButton, seconds=0.4)
    env.memory["pressed"][:] = True
    for _ in range(9):
        env.step(still(env))
    env.simulation.qvel[2] = np.nan
    step = env.step(still(env))
    assert step.episodes["success"].tolist() == [1.0, 1.0, 0.0, 1.0]
    assert np.isnan(step.episodes["done_share"]).tolist() == [False, False, True, False]
    assert all(np.isfinite(values).all() for values in env.memory.values())


# What is done, by actions that know where everything is


def test_reaching_is_done_at_the_goal() -> None:
    env = make(ArmReach, seconds=2.0)
    step = go(env, env.memory["goal"].copy(), 50)
    assert step.episodes["success"].tolist() == [1.0] * 4


def test_a_lifted_box_is_a_success_and_pays_more() -> None:
    env = make(ArmLift, seconds=4.0)
    env.simulation.qpos[:, 9 + 3 : 9 + 7] = [1, 0, 0, 0]  # turned as the gripper is
    box = env.measure(slice(None)).things["red_box"]
    poor = go(env, box + 0.12 * UP, 25).reward
    go(env, box, 25)
    go(env, box, 15, gripper=-1.0)
    step = go(env, box + 0.2 * UP, 35, gripper=-1.0)
    assert step.episodes["success"].tolist() == [1.0] * 4
    assert (step.reward > poor + 0.1).all()


def test_a_drawer_that_is_pulled_open_is_a_success() -> None:
    env = make(ArmDrawer, seconds=4.0)
    handle = env.measure(slice(None)).fixtures["drawer"]
    go(env, handle + 0.1 * UP, 25)
    go(env, handle, 20)
    go(env, handle, 15, gripper=-1.0)
    step = go(env, handle - 0.15 * FORWARD, 40, gripper=-1.0)
    assert step.episodes["success"].tolist() == [1.0] * 4


def test_a_button_that_was_pressed_is_a_success() -> None:
    env = make(ArmButton, seconds=3.0)
    top = env.measure(slice(None)).fixtures["button"]
    go(env, top + 0.1 * UP, 30, gripper=-1.0)
    go(env, top - 0.005 * UP, 20, gripper=-1.0)
    step = go(env, top + 0.1 * UP, 25, gripper=-1.0)
    assert step.episodes["success"].tolist() == [1.0] * 4


def test_a_box_is_not_stacked_or_placed_before_it_is_let_go() -> None:
    env = make(ArmStack)
    now = env.measure(slice(None))
    now.things["red_box"] = now.things["blue_box"] + 0.045 * UP
    now.tool = now.things["red_box"]
    now.fingers = np.full(4, 0.04)
    assert not env.done(now).any()
    now.fingers = np.full(4, 0.06)
    assert env.done(now).all()
    bin_env = make(ArmPickPlace)
    now = bin_env.measure(slice(None))
    now.things["red_box"] = now.fixtures["bin"] + 0.02 * UP
    now.tool, now.fingers = now.things["red_box"].copy(), np.full(4, 0.04)
    assert not bin_env.done(now).any()
    now.fingers = np.full(4, 0.06)
    assert bin_env.done(now).all()


def test_a_box_is_pushed_where_it_lies_at_the_goal_on_the_table() -> None:
    env = make(ArmPush)
    now = env.measure(slice(None))
    assert not env.done(now).any()
    now.things["red_box"] = now.goal + 0.02 * FORWARD
    assert env.done(now).all()
    now.things["red_box"] = now.goal + 0.05 * UP
    assert not env.done(now).any()


# Beside an `Arm`


def test_an_arm_set_where_an_environment_is_has_the_same_before_it() -> None:
    env = make(ArmPickPlace)
    scene, placements, joints = env.scene_of(2)
    arm = Arm(compiled(scene))
    arm.reset(placements, joints)
    now = env.measure(slice(None))
    assert arm.tool() == pytest.approx(now.tool[2], abs=1e-3)
    assert arm.position("red_box") == pytest.approx(now.things["red_box"][2], abs=1e-3)
    assert arm.position("bin") == pytest.approx(now.fixtures["bin"][2], abs=1e-6)


def test_the_goal_of_an_environment_is_a_mark() -> None:
    env = make(ArmReach)
    (mark,) = env.scene_of(1)[0].marks
    assert (mark.x, mark.y, mark.z) == tuple(env.memory["goal"][1])


def test_an_environment_can_be_driven_to_what_an_arm_was_asked() -> None:
    env = make(ArmLift, seconds=10.0)
    asked = np.tile([0.55, 0.1, 0.2, 0.4, 0.03], (env.count, 1))
    for _ in range(40):
        action = env.towards(asked)
        assert np.abs(action).max() <= 1.0
        env.step(action)
    assert np.abs(env.towards(asked)).max() < 0.05
    assert env.measure(slice(None)).tool == pytest.approx(asked[:, :3], abs=0.004)


def test_every_family_says_what_it_wants() -> None:
    assert len({family.instruction for family in FAMILIES}) == len(FAMILIES)
