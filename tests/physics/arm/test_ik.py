from importlib.util import find_spec

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.physics.arm import ik, robots

absent = pytest.mark.skipif(
    find_spec("ogbench") is None, reason="ogbench, whose files the UR5e is built of, is missing"
)
ROBOTS = ["arm7", pytest.param("ur5e", marks=absent)]


def near_home(robot: robots.Robot, seed: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    joints = np.array(robot.home) + rng.uniform(-0.5, 0.5, (count, len(robot.joints)))
    return joints, rng.uniform((0.35, -0.3, 0.02), (0.65, 0.3, 0.3), (count, 3)), rng.uniform(-1.5, 1.5, count)


@pytest.mark.parametrize("name", ROBOTS)
def test_many_arms_are_where_mujoco_says(name: str) -> None:
    robot, model = robots.get(name), robots.kinematics(name)
    joints, _, _ = near_home(robot, 1, 5)
    places, frames, jacobians = ik.BatchSolver(robot).forward(joints)
    data = mujoco.MjData(model)
    for row, angles in enumerate(joints):
        data.qpos[: len(angles)] = angles
        mujoco.mj_forward(model, data)
        jacobian = np.zeros((6, model.nv))
        mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], model.site("tool").id)
        assert places[row] == pytest.approx(data.site("tool").xpos, abs=1e-12)
        assert frames[row].ravel() == pytest.approx(data.site("tool").xmat, abs=1e-12)
        assert jacobians[row].ravel() == pytest.approx(jacobian[:, : len(angles)].ravel(), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_one_arm_and_many_take_the_same_steps(seed: int) -> None:
    robot = robots.get("arm7")
    joints, places, yaws = near_home(robot, seed, 3)
    steps = ik.BatchSolver(robot).step(joints, places, yaws, 0.02)
    one = ik.Solver(robot)
    for row in range(3):
        one.reset(joints[row])
        assert one.step(places[row], yaws[row], 0.02) == pytest.approx(steps[row], abs=1e-10)


@pytest.mark.parametrize("name", ROBOTS)
def test_every_place_over_the_table_is_reached(name: str) -> None:
    robot = robots.get(name)
    solver = ik.BatchSolver(robot)
    corners = [(x, y, z) for x in (0.35, 0.5, 0.65) for y in (-0.3, 0.0, 0.3) for z in (0.013, 0.15, 0.35)]
    goals = np.array([*corners, *corners])
    yaws = np.repeat([-1.5, 1.5], len(corners))
    joints = np.tile(robot.home, (len(goals), 1))
    start = solver.forward(joints)[0]
    for tick in range(100):
        part = min(1.0, (tick + 1) / 60)
        joints = joints + solver.step(joints, start + part * (goals - start), part * yaws, 0.02)
    places, frames, _ = solver.forward(joints)
    assert np.linalg.norm(places - goals, axis=1).max() < 0.002
    assert np.abs(np.arctan2(frames[:, 1, 0], frames[:, 0, 0]) - yaws).max() < 0.01
    assert frames[:, 2, 2].min() > 0.999


def test_no_joint_leaves_its_range() -> None:
    robot = robots.get("arm7")
    solver, (low, high) = ik.Solver(robot), robots.kinematics("arm7").jnt_range[:7].T
    rng = np.random.default_rng(0)
    for _ in range(20):
        place = rng.uniform(-2, 2, 3)
        for _ in range(30):
            solver.step(place, float(rng.uniform(-3, 3)), 0.02)
            assert (solver.joints >= low).all()
            assert (solver.joints <= high).all()
