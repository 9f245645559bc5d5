import mujoco
import numpy as np
import pytest

from autotelic.physics.humanoid import robot
from autotelic.physics.humanoid.robot import JOINTS, SOLES, STANDING, TOUCH, build


def standing(actuation: str = "position") -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = build(actuation)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return model, data


def names(model: mujoco.MjModel, data: mujoco.MjData) -> set[tuple[str, str]]:
    """The bodies that touch."""
    return {
        tuple(sorted(model.body(model.geom_bodyid[geom]).name for geom in contact.geom)) for contact in data.contact
    }


def test_it_weighs_49_kg() -> None:
    model, _ = standing()
    assert model.body_mass.sum() == pytest.approx(49.0)
    assert model.body("torso").mass == pytest.approx(28.0)  # with its head
    for side in robot.SIDES:
        assert [model.body(f"{side}_{part}").mass[0] for part in ("thigh", "shin", "foot")] == [6.0, 3.5, 1.0]


def test_actuators_drive_the_joints_in_the_documented_order() -> None:
    model, _ = standing()
    assert [model.joint(joint).name for joint, _ in model.actuator_trnid] == [joint.name for joint in JOINTS]
    assert [joint.name for joint in JOINTS[:6]] == [
        f"left_{name}" for name in ("hip_yaw", "hip_roll", "hip_pitch", "knee", "ankle_pitch", "ankle_roll")
    ]
    assert list(model.jnt_qposadr[1:]) == list(range(7, 19))  # so joint angles are qpos[7:], in that order


def test_joint_limits_are_in_radians() -> None:
    model, _ = standing()
    assert model.joint("left_knee").range.tolist() == [0.0, 2.3]
    assert model.joint("left_hip_roll").range.tolist() == [-0.4, 0.7]
    assert model.joint("right_hip_roll").range.tolist() == [-0.7, 0.4]


def test_every_joint_has_its_limits_and_only_the_torso_is_free() -> None:
    model, _ = standing()
    assert model.jnt_limited.tolist() == [0] + [1] * 12
    assert model.jnt_range[1:].tolist() == robot.RANGES.tolist()


@pytest.mark.parametrize("joint", range(12))
def test_no_torque_takes_a_joint_far_beyond_its_limit(joint: int) -> None:
    model, data = standing("torque")
    model.opt.gravity[:] = 0.0
    for side, sign in enumerate((-1.0, 1.0)):
        mujoco.mj_resetDataKeyframe(model, data, 0)
        data.qpos[2], data.ctrl[joint] = 3.0, 1000.0 * sign  # in the air
        mujoco.mj_step(model, data, 240)
        assert data.qpos[7 + joint] == pytest.approx(robot.RANGES[joint, side], abs=0.15)


def test_it_stands_flat_on_the_floor() -> None:
    model, data = standing()
    heights = data.sensordata[SOLES].reshape(2, 3)[:, 2]
    assert heights == pytest.approx([0.0, 0.0], abs=1e-9)
    corners = data.geom_xpos[model.geom_priority == 1, 2] - 0.02
    assert len(corners) == 8
    assert corners == pytest.approx(np.zeros(8), abs=1e-9)


def test_its_servos_keep_it_standing() -> None:
    model, data = standing()
    data.ctrl[:] = STANDING
    mujoco.mj_step(model, data, 5 * 240)
    assert data.qpos[2] == pytest.approx(robot.HEIGHT, abs=0.01)
    assert data.qpos[3] > 0.999
    assert data.sensordata[TOUCH] == pytest.approx([49 * 9.81 / 2, 49 * 9.81 / 2, 0, 0], rel=0.01)


def test_a_velocity_target_is_reached() -> None:
    model, data = standing("velocity")
    data.qpos[2] = 3.0  # in the air
    data.ctrl[3] = robot.FASTEST_TARGET
    mujoco.mj_step(model, data, 48)
    assert data.qvel[6 + 3] == pytest.approx(robot.FASTEST_TARGET, rel=0.05)


def test_torques_are_cut_at_the_limit_of_each_joint() -> None:
    model, data = standing("torque")
    data.ctrl[:] = 1000.0
    mujoco.mj_forward(model, data)
    assert data.actuator_force.tolist() == robot.LIMITS.tolist()
    assert robot.LIMITS.max() == 100.0


def test_crossed_legs_touch_each_other() -> None:
    model, data = standing()
    data.qpos[2] = 3.0
    data.qpos[7 + 1], data.qpos[7 + 7] = -0.15, 0.15  # both legs inwards
    mujoco.mj_forward(model, data)
    touching = names(model, data)
    assert touching
    assert all({part.split("_")[0] for part in pair} == {"left", "right"} for pair in touching)
    assert all(part.split("_")[1] in ("shin", "foot") for pair in touching for part in pair)


def test_only_feet_torso_and_head_touch_the_floor() -> None:
    model, data = standing()
    data.qpos[2:7] = [0.05, np.sqrt(0.5), 0, np.sqrt(0.5), 0]  # flat on its face
    mujoco.mj_forward(model, data)
    assert {part for pair in names(model, data) for part in pair} == {"world", "torso", "left_foot", "right_foot"}
    assert (data.sensordata[TOUCH][2:] > 0).all()  # torso and head


def test_the_friction_of_the_feet_alone_counts() -> None:
    model, data = standing()
    model.geom("floor").friction[0] = 1.5
    model.geom_friction[model.geom_priority == 1, 0] = 0.3
    mujoco.mj_forward(model, data)
    assert {float(contact.friction[0]) for contact in data.contact} == {0.3}


def test_boxes_stand_where_they_are_put_and_stop_a_shin() -> None:
    model = build("position", [(0.1, 0.1, 0.6)])
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    assert names(model, data) == {("left_foot", "world"), ("right_foot", "world")}  # it begins out of the way
    data.mocap_pos[0] = [0.13, 0.1, 0.6]
    mujoco.mj_forward(model, data)
    assert ("box_0", "left_shin") in names(model, data)
