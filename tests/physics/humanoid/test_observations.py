import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.physics.humanoid.observations import (
    CLOCK,
    COMPACT32,
    CYCLE,
    FULL,
    LIFT,
    PRIVILEGED,
    STANCE,
    Layout,
    attitude,
)
from autotelic.physics.humanoid.tasks import HumanoidObstacles, HumanoidStand, HumanoidWalk
from autotelic.physics.randomisation import Randomisation
from autotelic.physics.simulated import ALL

law = settings(deadline=None, max_examples=50)  # a busy machine is slow, not wrong


def walk(**keys) -> HumanoidWalk:
    env = HumanoidWalk(HumanoidWalk.Config(**{"count": 2, "threads": 1, "randomise": "off", **keys}))
    env.reset(1)
    return env


def parts(env, name: str = "policy") -> dict[str, np.ndarray]:
    """An observation without scales, by name."""
    vector, found, start = env.observe(ALL)[name].astype(float), {}, 0
    for field in env.layouts[name].fields:
        found[field.name] = vector[:, start : start + field.size] / field.scale
        start += field.size
    return found


# Attitude


@law
@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 0.1))
def test_attitude_is_that_of_the_rotation_matrix(numbers: list[float]) -> None:
    quaternion = np.array(numbers) / np.linalg.norm(numbers)
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    matrix = matrix.reshape(3, 3)
    facing = complex(matrix[0, 0], matrix[1, 0])
    if abs(facing) < 1e-3:
        return  # who looks straight up faces nowhere
    gravity, heading = attitude(quaternion[None])
    assert gravity[0] == pytest.approx(matrix.T @ [0, 0, -1], abs=1e-12)
    assert heading[0] == pytest.approx(facing / abs(facing), abs=1e-9)


# The gait's clock


def test_feet_take_turns_with_double_support_and_without_flight() -> None:
    moving = STANCE[:CYCLE]
    assert moving.mean(axis=0) == pytest.approx([0.6, 0.6], abs=1 / CYCLE)
    assert moving.all(axis=1).mean() == pytest.approx(0.2, abs=2 / CYCLE)
    assert moving.any(axis=1).all()
    landings = (moving & ~np.roll(moving, 1, axis=0)).sum()
    assert landings / (CYCLE / 60) == 2.5


def test_a_foot_is_lifted_exactly_while_it_swings() -> None:
    swings = ~STANCE[:CYCLE]
    assert (LIFT[:CYCLE][~swings] == 0).all()
    assert (LIFT[:CYCLE][swings] >= 0).all()
    assert LIFT.max() == pytest.approx(0.08, abs=1e-3)


def test_half_a_cycle_exchanges_left_and_right() -> None:
    half = np.roll(np.arange(CYCLE), CYCLE // 2)
    assert (STANCE[half] == STANCE[:CYCLE, ::-1]).all()
    assert CLOCK[half] == pytest.approx(-CLOCK[:CYCLE])


def test_who_stands_has_both_feet_down_and_no_clock() -> None:
    assert STANCE[CYCLE].all()
    assert not LIFT[CYCLE].any()
    assert not CLOCK[CYCLE].any()
    env = HumanoidStand(HumanoidStand.Config(count=2, threads=1, randomise="off"))
    env.reset(1)
    assert not parts(env)["gait_clock"].any()


# Vectors


def test_compact32_has_32_numbers() -> None:
    assert Layout(COMPACT32).size == 32
    assert [(field.name, field.size) for field in COMPACT32] == [
        ("joint_angles", 12),
        ("joint_velocities", 12),
        ("roll_pitch_yaw", 3),
        ("centre_of_mass", 3),
        ("goal", 2),
    ]


def test_the_critic_sees_all_the_policy_sees_and_more() -> None:
    env = walk()
    obs = env.observe(ALL)
    size = Layout(FULL).size
    assert env.sizes == {"policy": size, "critic": size + Layout(PRIVILEGED).size}
    assert (obs["critic"][:, :size] == obs["policy"]).all()


def test_the_critic_sees_forces_friction_pushes_and_masses() -> None:
    env = walk(randomisation=Randomisation(friction=(0.3, 1.5), mass=(0.8, 1.2)))
    for _ in range(15):  # it begins a centimetre above the ground
        env.step(np.zeros((2, 12)))
    simulation, model = env.simulation, env.simulation.model
    turned = np.array([np.cos(0.25 * np.pi), 0, 0, np.sin(0.25 * np.pi)])  # by a quarter, to the left
    simulation.qpos[0, 3:7] = turned
    env.memory["pushed"][0] = (0.0, 0.4)  # in the world, so ahead of who faces that way
    seen = parts(env, "critic")
    feet = np.flatnonzero(model.geom_priority == 1)
    assert seen["friction"][:, 0] == pytest.approx(simulation.parameter("geom_friction")[:, feet[0], 0], rel=1e-6)
    masses = simulation.parameter("body_mass").sum(axis=1) / model.body_mass.sum() - 1.0
    assert seen["mass"][:, 0] == pytest.approx(masses, abs=1e-6)
    assert np.abs(masses).max() > 0.01
    assert seen["push"][0] == pytest.approx([0.4, 0.0], abs=1e-6)
    forces = simulation.field("sensordata")[:, :2]
    assert forces.max() > 50
    assert seen["foot_forces"] == pytest.approx(forces, rel=1e-5, abs=1e-3)


def test_what_is_seen_is_what_is_simulated() -> None:
    env = walk()
    simulation = env.simulation
    env.step(np.full((2, 12), 0.5))
    simulation.qvel[0, :6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    simulation.qpos[0, 2:7] = [0.9, np.cos(0.2), 0, 0, np.sin(0.2)]  # turned left by 0.4
    simulation.qpos[0, 7:] = np.linspace(-0.3, 0.3, 12)
    simulation.forward()
    seen = {name: values[0] for name, values in parts(env).items()}
    assert seen["joint_angles"] == pytest.approx(np.linspace(-0.3, 0.3, 12) - env._rest, abs=1e-6)
    assert seen["joint_velocities"] == pytest.approx(simulation.qvel[0, 6:], abs=1e-5)
    assert seen["gravity"] == pytest.approx([0, 0, -1], abs=1e-6)
    assert seen["angular_velocity"] == pytest.approx([4, 5, 6], abs=1e-5)
    c, s = np.cos(0.4), np.sin(0.4)
    assert seen["velocity"] == pytest.approx([c * 1 + s * 2, c * 2 - s * 1, 3], abs=1e-6)
    assert seen["height"] == pytest.approx([0.9 - 0.8540533], abs=1e-6)
    assert seen["last_action"] == pytest.approx(np.full(12, 0.5))
    assert seen["command"] == pytest.approx([1.0, np.cos(0.4), -np.sin(0.4)], abs=1e-6)  # the goal is to the right


def test_compact32_sees_angles_of_the_torso_and_the_goal() -> None:
    env = walk(obs="compact32", speed=(0.5, 0.5))
    roll, pitch, yaw = 0.1, -0.2, 0.7
    quaternion = np.empty(4)
    mujoco.mju_euler2Quat(quaternion, [yaw, pitch, roll], "zyx")
    env.simulation.qpos[0, 3:7] = quaternion
    env.simulation.forward()
    seen = {name: values[0] for name, values in parts(env).items()}
    assert seen["roll_pitch_yaw"] == pytest.approx([roll, pitch, yaw], abs=1e-6)
    assert seen["goal"] == pytest.approx([0.5 * np.cos(yaw), -0.5 * np.sin(yaw)], abs=1e-6)


@pytest.mark.parametrize("obs", ["full", "compact32"])
def test_turning_the_world_changes_nothing_but_the_yaw(obs: str) -> None:
    env = walk(obs=obs)
    for _ in range(20):
        env.step(np.random.default_rng(0).normal(0, 0.3, (2, 12)))
    turn, simulation = 1.1, env.simulation
    spin = np.exp(1j * turn)
    for array in (simulation.qpos[:, :2], simulation.qvel[:, :2], env.memory["goal"]):
        turned = (array[0, 0] + 1j * array[0, 1]) * spin
        array[1] = turned.real, turned.imag
    quaternion = np.empty(4)
    mujoco.mju_mulQuat(quaternion, [np.cos(turn / 2), 0, 0, np.sin(turn / 2)], simulation.qpos[0, 3:7])
    simulation.qpos[1, 2], simulation.qpos[1, 3:7], simulation.qpos[1, 7:] = (
        simulation.qpos[0, 2],
        quaternion,
        simulation.qpos[0, 7:],
    )
    simulation.qvel[1, 2:] = simulation.qvel[0, 2:]
    for name in ("phase", "action", "speed"):
        env.memory[name][1] = env.memory[name][0]
    simulation.forward()
    for name, (one, other) in parts(env).items():
        if name == "roll_pitch_yaw":
            assert other[2] == pytest.approx(one[2] + turn, abs=1e-6)
            one, other = one[:2], other[:2]
        assert other == pytest.approx(one, abs=1e-5), name


# The mirror


def mirror_row(env) -> None:
    """Environment 1 becomes the mirror image of environment 0."""
    (joints, signs), simulation, memory = env.mirror()["action"], env.simulation, env.memory
    flat, spin = np.array([1, -1, 1]), np.array([-1, 1, -1])
    simulation.qpos[1, :3] = simulation.qpos[0, :3] * flat
    simulation.qpos[1, 3:7] = simulation.qpos[0, 3:7] * [1, -1, 1, -1]
    simulation.qpos[1, 7:] = simulation.qpos[0, 7:][joints] * signs
    for array in (simulation.qvel, simulation.batch.bind("qacc_warmstart")):
        array[1, :3], array[1, 3:6] = array[0, :3] * flat, array[0, 3:6] * spin
        array[1, 6:] = array[0, 6:][joints] * signs
    for name, values in memory.items():
        if name in ("action", "action_before"):
            values[1] = values[0][joints] * signs
        elif name in ("contact", "air"):
            values[1] = values[0, ::-1]
        elif name in ("goal", "goals", "place", "pushes", "pushed"):
            values[1] = values[0] * [1, -1]
        else:
            values[1] = values[0]
    memory["phase"][1] = (memory["phase"][0] + CYCLE // 2) % CYCLE
    if isinstance(env, HumanoidObstacles):
        posts = simulation.batch.bind("mocap_pos")
        posts[1] = posts[0] * flat


@pytest.mark.parametrize(
    ("task", "keys"),
    [
        (HumanoidWalk, {"turn": 0.5}),
        (HumanoidWalk, {"obs": "compact32"}),
        (HumanoidWalk, {"reward": "textbook", "actions": "torque"}),
        (HumanoidObstacles, {"actions": "velocity"}),
        (HumanoidStand, {}),
    ],
)
def test_a_mirrored_robot_that_acts_mirrored_sees_the_mirror_image_and_earns_the_same(task, keys) -> None:
    env = task(task.Config(count=2, threads=1, randomise="off", **keys))
    env.reset(3)
    rng, mirror = np.random.default_rng(4), env.mirror()
    order, signs = mirror["action"]
    compared, sees = 0, "rays" in [field.name for field in env.layouts["policy"].fields]
    nearest = np.inf
    for _ in range(40):
        action = rng.normal(0, 0.4, (2, 12))
        mirror_row(env)
        action[1] = action[0][order] * signs
        step = env.step(action)
        if len(step.ended):
            continue
        compared += 1
        assert step.reward[1] == pytest.approx(step.reward[0], abs=1e-6)
        for name, values in step.terms.items():
            assert values[1] == pytest.approx(values[0], abs=1e-6), name
        for name, values in step.obs.items():
            order_of, signs_of = mirror[name]
            assert values[1] == pytest.approx(values[0][order_of] * signs_of, abs=2e-6), name
        nearest = min(nearest, parts(env)["rays"].min() if sees else 0.0)
    assert compared >= 20
    assert nearest < 4.0  # where there are posts, one was seen


@pytest.mark.parametrize("task", [HumanoidWalk, HumanoidObstacles])
def test_the_mirror_image_of_a_mirror_image_is_the_thing_itself(task) -> None:
    env = task(task.Config(count=1, threads=1))
    for name, (order, signs) in env.mirror().items():
        vector = np.random.default_rng(5).normal(size=len(order))
        assert sorted(order) == list(range(len(order))), name
        assert ((vector[order] * signs)[order] * signs).tolist() == vector.tolist(), name
