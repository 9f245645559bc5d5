"""The humanoid: a torso with a head on two legs of six joints, 49 kg and 1.6 m, built in code.

x points forward, y to the left, z up; the torso's origin is between the hips. Positive angles: yaw turns the toes to
the left, roll moves the leg to the left, pitch moves what is below the joint backwards (so it bends the knee, and at
the ankle lowers the toes). Both legs have the same axes: a mirrored pose has legs swapped, yaw and roll negated.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos
from typing import Any, NamedTuple

import mujoco
import numpy as np

TIMESTEP, SUBSTEPS = 1 / 240, 4  # 60 control steps a second
THIGH, SHIN, ANKLE = 0.40, 0.40, 0.07  # two lengths, and how high the ankle is above the sole
HIPS = 0.10  # from the middle to each side
HEEL, TOE, HALF_WIDTH = -0.08, 0.14, 0.045  # of a foot, from its ankle
SIDES = ("left", "right")
ACTUATIONS = ("position", "velocity", "torque")
FASTEST_TARGET = 2.0  # rad/s that an action of 1 asks for, where actions are velocities
JOINT_FRICTION = 0.3  # Nm, what randomisation multiplies; the model itself has none, which is a tenth faster


class Joint(NamedTuple):
    """An action of 1 means `standing + reach` as a position, FASTEST_TARGET as a velocity, `limit` as a torque."""

    name: str
    axis: tuple[int, int, int]
    range: tuple[float, float]
    standing: float  # the angle at which the robot stands
    reach: float
    kp: float  # Nm/rad and, next, Nm s/rad of the position servo: stiff enough to stand by itself
    kv: float
    limit: float  # Nm
    armature: float


_X, _Y, _Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
_THIGH_JOINTS = (
    Joint("hip_yaw", _Z, (-0.6, 0.6), 0.0, 0.3, 290, 10, 60, 0.03),
    Joint("hip_roll", _X, (-0.4, 0.7), 0.0, 0.3, 510, 16, 100, 0.05),
    Joint("hip_pitch", _Y, (-1.8, 0.9), -0.2, 0.8, 510, 16, 100, 0.05),
)
_SHIN_JOINTS = (Joint("knee", _Y, (0.0, 2.3), 0.4, 0.9, 510, 16, 100, 0.05),)
_FOOT_JOINTS = (
    Joint("ankle_pitch", _Y, (-0.8, 0.8), -0.2, 0.5, 450, 12, 80, 0.03),
    Joint("ankle_roll", _X, (-0.4, 0.4), 0.0, 0.3, 256, 8, 40, 0.02),
)


def _sided(joints: Sequence[Joint], side: str) -> list[Joint]:
    """The joints above are the left leg's."""
    mirrored = {joint: (-joint.range[1], -joint.range[0]) for joint in joints if side == "right" and joint.axis != _Y}
    return [joint._replace(name=f"{side}_{joint.name}", range=mirrored.get(joint, joint.range)) for joint in joints]


_LEG = (*_THIGH_JOINTS, *_SHIN_JOINTS, *_FOOT_JOINTS)
JOINTS: tuple[Joint, ...] = (*_sided(_LEG, "left"), *_sided(_LEG, "right"))  # in the order of actions
STANDING = np.array([joint.standing for joint in JOINTS])
REACH = np.array([joint.reach for joint in JOINTS])
LIMITS = np.array([joint.limit for joint in JOINTS])
RANGES = np.array([joint.range for joint in JOINTS])
HEIGHT = THIGH * cos(STANDING[2]) + SHIN * cos(STANDING[2] + STANDING[3]) + ANKLE  # of the torso's origin, standing

# Left and right exchanged: a mirrored row of joints is `row[..., MIRROR_JOINTS] * MIRROR_SIGNS`.
MIRROR_JOINTS = np.array([*range(6, 12), *range(6)])
MIRROR_SIGNS = np.array([1.0 if joint.axis == _Y else -1.0 for joint in JOINTS])

# The parts of `sensordata`: normal forces (N), then the soles' places and velocities, then the centre of mass.
TOUCH, SOLES, SOLE_VELOCITIES, CENTRE_OF_MASS = slice(0, 4), slice(4, 10), slice(10, 16), slice(16, 19)
TOUCHING = ("left_foot", "right_foot", "torso", "head")  # the order within TOUCH

# Which geoms meet: those of which one's contype shares a bit with the other's conaffinity.
_GROUND, _LEGS, _BOXES = 1, 2, 4
_LIGHT, _DARK = (0.82, 0.84, 0.87, 1), (0.20, 0.22, 0.26, 1)
_COLOURS = {"left": (0.20, 0.48, 0.82, 1), "right": (0.88, 0.36, 0.26, 1)}


def build(actuation: str, boxes: Sequence[tuple[float, float, float]] = ()) -> mujoco.MjModel:
    return specify(actuation, boxes).compile()


def specify(actuation: str, boxes: Sequence[tuple[float, float, float]] = ()) -> mujoco.MjSpec:
    """The model, whose actuators take angles, velocities or torques in the order of JOINTS. For each size (half length,
    half width, half height) it has a box that can be put anywhere: their places are `mocap_pos`."""
    assert actuation in ACTUATIONS, actuation
    spec = mujoco.MjSpec()
    spec.modelname = "humanoid"
    spec.compiler.degree = False
    option = spec.option
    option.timestep = TIMESTEP
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    # Against a converged solver, accelerations are 0.7 % off on average; with two iterations 5 %, with four 0.1 %.
    option.iterations, option.ls_iterations = 3, 4
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND  # there is only one island, the robot
    _scenery(spec)
    torso = spec.worldbody.add_body(name="torso", pos=[0, 0, HEIGHT])
    torso.add_freejoint(name="root")
    _trunk(torso)
    for side in SIDES:
        _leg(torso, side)
    for joint in JOINTS:
        _actuator(spec, joint, actuation)
    _sensors(spec)
    for index, size in enumerate(boxes):
        body = spec.worldbody.add_body(name=f"box_{index}", pos=[0, 0, -2 * size[2]], mocap=True)
        _geom(body, "box", size, name=f"box_{index}", rgba=(0.86, 0.62, 0.25, 1), contype=_GROUND | _BOXES)
    spec.add_key(name="standing", qpos=[0, 0, HEIGHT, 1, 0, 0, 0, *STANDING])
    return spec


def _scenery(spec: mujoco.MjSpec) -> None:
    builtin, texture = mujoco.mjtBuiltin, mujoco.mjtTexture
    sky = {"rgb1": [0.50, 0.67, 0.86], "rgb2": [0.93, 0.95, 0.97], "width": 64, "height": 384}
    spec.add_texture(name="sky", type=texture.mjTEXTURE_SKYBOX, builtin=builtin.mjBUILTIN_GRADIENT, **sky)
    grey = {"rgb1": [0.43, 0.47, 0.51], "rgb2": [0.52, 0.56, 0.60], "width": 256, "height": 256}
    spec.add_texture(name="tiles", type=texture.mjTEXTURE_2D, builtin=builtin.mjBUILTIN_CHECKER, **grey)
    # A tile is half a metre wide, so that one can see how far a step goes.
    tiles = spec.add_material(name="tiles", texrepeat=[2, 2], texuniform=True, reflectance=0.05)
    tiles.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "tiles"
    _geom(spec.worldbody, "plane", (0, 0, 1), name="floor", material="tiles", contype=_GROUND)
    light = spec.visual.headlight
    light.ambient, light.diffuse, light.specular = [0.35] * 3, [0.3] * 3, [0.0] * 3
    # The sun's shadow is drawn over this many metres: fewer make its edge sharper.
    spec.stat.extent, spec.visual.quality.shadowsize = 2.0, 4096


def _trunk(torso: Any) -> None:
    chest, head = (0.01, 0, 0.26), (0.01, 0, 0.62)
    _geom(torso, "box", (0.09, 0.15, 0.20), chest, name="torso", mass=24.0, rgba=_LIGHT, conaffinity=_GROUND)
    _geom(torso, "sphere", (0.11,), head, name="head", mass=4.0, rgba=_LIGHT, conaffinity=_GROUND)
    _geom(torso, "capsule", (0.065, 0.09), (0, 0, 0.01), along=_Y, rgba=_DARK)  # the pelvis
    _geom(torso, "capsule", (0.05, 0.04), (0.01, 0, 0.49), rgba=_DARK)  # the neck
    _geom(torso, "capsule", (0.028, 0.05), (0.10, 0, 0.63), along=_Y, rgba=_DARK)  # eyes: where it looks
    shape, tracking = mujoco.mjtGeom, mujoco.mjtCamLight.mjCAMLIGHT_TRACK
    torso.add_site(name="torso", type=shape.mjGEOM_BOX, size=[0.10, 0.16, 0.21], pos=chest, group=4)
    torso.add_site(name="head", type=shape.mjGEOM_SPHERE, size=[0.12, 0, 0], pos=head, group=4)
    sun = {"type": mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, "pos": [-1, -2, 4], "dir": [0.25, 0.5, -1]}
    torso.add_light(name="sun", mode=tracking, diffuse=[0.65] * 3, specular=[0.2] * 3, **sun)
    place, looks_at = np.array([1.4, -3.0, 0.35]), np.array([0.0, 0.0, -0.05])
    right = np.cross(looks_at - place, _Z)
    camera = torso.add_camera(name="track", mode=tracking, pos=place, fovy=40)
    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    camera.alt.xyaxes = [*right, *np.cross(right, looks_at - place)]


def _leg(torso: Any, side: str) -> None:
    left, colour = side == "left", _COLOURS[side]
    thigh = torso.add_body(name=f"{side}_thigh", pos=[0, HIPS if left else -HIPS, 0])
    shin = thigh.add_body(name=f"{side}_shin", pos=[0, 0, -THIGH])
    foot = shin.add_body(name=f"{side}_foot", pos=[0, 0, -SHIN])
    for body, joints in ((thigh, _THIGH_JOINTS), (shin, _SHIN_JOINTS), (foot, _FOOT_JOINTS)):
        for joint in _sided(joints, side):
            hinge = body.add_joint(name=joint.name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=list(joint.axis))
            hinge.range, hinge.armature, hinge.damping[0] = list(joint.range), joint.armature, 1.0
    # Shins and feet meet those of the other leg, never their own: the left offers what the right looks for.
    legs: dict[str, Any] = {"contype": _LEGS if left else 0, "conaffinity": _BOXES | (0 if left else _LEGS)}
    length, middle = (TOE - HEEL) / 2, (TOE + HEEL) / 2
    _geom(thigh, "capsule", (0.065, 0.14), (0, 0, -0.19), mass=6.0, rgba=colour, conaffinity=_BOXES)
    _geom(shin, "sphere", (0.058,), (0.01, 0, 0), rgba=_DARK)  # the knee
    _geom(shin, "capsule", (0.045, 0.15), (0, 0, -0.20), mass=3.5, rgba=colour, **legs)
    _geom(foot, "box", (length, HALF_WIDTH, 0.025), (middle, 0, 0.025 - ANKLE), mass=1.0, rgba=_DARK)
    _geom(foot, "capsule", (0.035, length - 0.035), (middle, 0, 0.04 - ANKLE), along=_X, group=3, **legs)
    radius = 0.02  # of what touches the ground, at each corner
    for x in (HEEL + radius, TOE - radius):
        for y in (HALF_WIDTH - radius, radius - HALF_WIDTH):
            # Its priority makes the friction the foot's alone, whatever it stands on.
            contact: dict[str, Any] = {"conaffinity": _GROUND, "priority": 1, "friction": [1.0, 0.005, 0.0001]}
            _geom(foot, "sphere", (radius,), (x, y, radius - ANKLE), group=3, **contact)
    sole = {"size": [length + 0.01, HALF_WIDTH + 0.01, 0.012], "pos": [middle, 0, -ANKLE]}
    foot.add_site(name=f"{side}_foot", type=mujoco.mjtGeom.mjGEOM_BOX, group=4, **sole)


def _geom(
    body: Any,
    shape: str,
    size: Sequence[float],
    pos: Sequence[float] = (0, 0, 0),
    along: tuple[int, int, int] = _Z,
    **fields: Any,
) -> None:
    """Weightless and touching nothing unless it is said. The size of a capsule is its radius and half its length."""
    turned = {_X: [1, 0, 1, 0], _Y: [1, 1, 0, 0], _Z: [1, 0, 0, 0]}[along]
    fields = {"mass": 0.0, "contype": 0, "conaffinity": 0, **fields}
    kind = getattr(mujoco.mjtGeom, f"mjGEOM_{shape.upper()}")
    body.add_geom(type=kind, size=[*size, 0, 0][:3], pos=list(pos), quat=turned, **fields)


def _actuator(spec: mujoco.MjSpec, joint: Joint, actuation: str) -> None:
    actuator = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    if actuation == "position":
        actuator.set_to_position(kp=joint.kp, kv=joint.kv)
    elif actuation == "velocity":
        actuator.set_to_velocity(kv=joint.limit)  # all its torque at an error of 1 rad/s
    else:
        actuator.set_to_motor()
    actuator.forcerange, actuator.forcelimited = [-joint.limit, joint.limit], True


def _sensors(spec: mujoco.MjSpec) -> None:
    sensor, site = mujoco.mjtSensor, mujoco.mjtObj.mjOBJ_SITE
    for name in TOUCHING:
        spec.add_sensor(name=f"{name}_touch", type=sensor.mjSENS_TOUCH, objtype=site, objname=name)
    for kind, what in ((sensor.mjSENS_FRAMEPOS, "position"), (sensor.mjSENS_FRAMELINVEL, "velocity")):
        for side in SIDES:
            spec.add_sensor(name=f"{side}_sole_{what}", type=kind, objtype=site, objname=f"{side}_foot")
    body = mujoco.mjtObj.mjOBJ_BODY
    spec.add_sensor(name="centre_of_mass", type=sensor.mjSENS_SUBTREECOM, objtype=body, objname="torso")
