"""The arms: what each is made of, built as MjSpec. Both stand at the origin, reach forward (x) over a table whose top
is z = 0, and end in a gripper of two fingers that points down.

A robot has a site `tool` between its fingertips, whose frame is the world's while the gripper points straight down with
fingers that open along y: turned by `yaw` about the vertical, they open along (-sin yaw, cos yaw).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mujoco

from autotelic.errors import UserError
from autotelic.registry import missing, nearest

TIMESTEP = 0.004
# Which geoms meet: those of which one's contype shares a bit with the other's conaffinity. What is fixed does not meet
# what is fixed, nor the robot itself; what moves in a fixture (a drawer, a button's cap) does not meet its own housing.
FIXED, THINGS, ROBOT, MOVING = 1, 2, 4, 8
TIME_CONSTANT = 0.03  # s, of actuators: without it grasps do not last
_STIFFNESS = 15.0  # 1/s: how many times its damping (kv) a servo is stiff (kp)
# s that a joint follows behind a control that moves evenly; and s² times the acceleration of one that does not.
LAG, DRAG = 1.0 / _STIFFNESS + TIME_CONSTANT, TIME_CONSTANT / _STIFFNESS
# Contacts that hold: stiffer than MuJoCo's own, or a box creeps out of the fingers.
SOLREF, SOLIMP = (0.004, 1.0), (0.95, 0.99, 0.001, 0.5, 2.0)
PAD_FRICTION = (1.5, 0.005, 0.0001)


@dataclass(frozen=True)
class Robot:
    """What others must know of a robot to drive it. Actuators are the joints' servos, in order, then the gripper's."""

    name: str
    joints: tuple[str, ...]
    home: tuple[float, ...]  # joint angles, rad: the gripper over the middle of the table
    spread: tuple[float, ...]  # qpos of the joints that follow, those of the fingers, when the gripper is open
    opened: float  # the gripper's control when it is open, and when it grips
    closed: float
    widest: float  # m between the pads when it is open
    fingers: tuple[str, str]  # the bodies whose pads hold things: left (+y) and right
    pads: tuple[str, str]  # a geom of each, and how thick it is from its middle to where it touches, m
    pad_depth: float
    specify: Callable[[], mujoco.MjSpec]


def get(name: str) -> Robot:
    if name not in ROBOTS:
        raise UserError(f"no robot named '{name}': {nearest(name, list(ROBOTS))}")
    return ROBOTS[name]


@cache
def kinematics(name: str) -> mujoco.MjModel:
    """The robot alone, to compute where its joints put its tool. Nobody may write to it."""
    return get(name).specify().compile()


def add_geom(body: Any, shape: str, size: Sequence[float], pos: Sequence[float] = (0, 0, 0), **fields: Any) -> Any:
    """Weightless and touching nothing unless it is said. Capsules and cylinders may be given by `fromto` instead."""
    kind = getattr(mujoco.mjtGeom, f"mjGEOM_{shape.upper()}")
    fields = {"mass": 0.0, "contype": 0, "conaffinity": 0, "solref": SOLREF, "solimp": SOLIMP, **fields}
    return body.add_geom(type=kind, size=[*size, 0, 0][:3], pos=list(pos), **fields)


def _options(spec: mujoco.MjSpec) -> None:
    spec.compiler.degree = False
    option = spec.option
    option.timestep = TIMESTEP
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = 10.0


def _servo(spec: mujoco.MjSpec, joint: str, kp: float, limit: float) -> None:
    actuator = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    _tune(actuator, kp, kp / _STIFFNESS, limit)


def _tune(actuator: Any, kp: float, kv: float, limit: float) -> None:
    actuator.set_to_position(kp=kp, kv=kv, timeconst=TIME_CONSTANT)
    actuator.forcerange, actuator.forcelimited = [-limit, limit], True


# The arm of primitives: as long as a Panda's, all frames the world's where it stands straight up with its hand down.

_Y, _Z = (0, 1, 0), (0, 0, 1)
_LIGHT, _DARK, _ACCENT = (0.90, 0.91, 0.93, 1), (0.22, 0.24, 0.28, 1), (0.20, 0.48, 0.82, 1)
_RUBBER = (0.42, 0.43, 0.45, 1)
# Of each joint: where it is in the frame of the one before, axis, sign, range, kp, limit (Nm), kg of what it moves.
_ARM7 = (
    ((0, 0, 0.333), _Z, 1, (-2.9, 2.9), 4500, 87, 4.0),
    ((0, 0, 0), _Y, 1, (-1.76, 1.76), 4500, 87, 4.0),
    ((0, 0, 0.316), _Z, 1, (-2.9, 2.9), 3500, 87, 3.0),
    ((0.0825, 0, 0), _Y, -1, (-3.07, -0.07), 3500, 87, 2.7),
    ((-0.0825, 0, 0.384), _Z, 1, (-2.9, 2.9), 2000, 30, 2.0),
    ((0, 0, 0), _Y, -1, (-0.02, 3.75), 2000, 30, 1.5),
    ((0.088, 0, 0), _Z, -1, (-2.9, 2.9), 2000, 30, 0.7),
)
# What each link looks like and touches with: capsules from, to, radius, colour.
_LINKS: tuple[tuple[tuple[Sequence[float], Sequence[float], float, Sequence[float]], ...], ...] = (
    (((0, 0, -0.17), (0, 0, -0.02), 0.068, _LIGHT),),
    (((0, -0.06, 0), (0, 0.06, 0), 0.066, _DARK), ((0, 0, 0.03), (0, 0, 0.14), 0.062, _LIGHT)),
    (((0, 0, -0.14), (0, 0, -0.06), 0.060, _LIGHT), ((0, 0, -0.05), (0.0825, 0, 0), 0.052, _LIGHT)),
    (((0, -0.05, 0), (0, 0.05, 0), 0.058, _DARK), ((-0.02, 0, 0.02), (-0.0825, 0, 0.10), 0.050, _LIGHT)),
    (((0, 0, -0.27), (0, 0, -0.08), 0.048, _LIGHT),),
    (((0, -0.05, 0), (0, 0.05, 0), 0.050, _DARK), ((0.01, 0, 0), (0.075, 0, 0), 0.044, _LIGHT)),
    (((0, 0, -0.01), (0, 0, -0.075), 0.042, _DARK),),
)
_TOOL = -0.232  # of the point between the fingertips, from the last joint, along the hand
_FINGER_TRAVEL, _PAD = 0.04, 0.004


def _arm7() -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.modelname = "arm7"
    _options(spec)
    base = spec.worldbody.add_body(name="base")
    touch: dict[str, Any] = {"contype": ROBOT, "conaffinity": FIXED | THINGS | MOVING}
    add_geom(base, "cylinder", (0.10, 0.012), (0, 0, 0.012), rgba=_DARK)
    add_geom(base, "cylinder", (0.075, 0.065), (0, 0, 0.085), rgba=_LIGHT, conaffinity=THINGS)
    body = base
    for index, ((pos, axis, sign, limits, kp, limit, mass), geoms) in enumerate(zip(_ARM7, _LINKS, strict=True)):
        body = body.add_body(name=f"link{index + 1}", pos=list(pos), gravcomp=1)
        hinge = body.add_joint(name=f"joint{index + 1}", type=mujoco.mjtJoint.mjJNT_HINGE)
        hinge.axis = [sign * part for part in axis]
        hinge.range, hinge.armature, hinge.damping[0] = list(limits), 0.1, 1.0
        for start, end, radius, colour in geoms:
            meets = touch if index >= 2 else {}  # what is lower cannot reach anything
            add_geom(body, "capsule", (radius,), fromto=[*start, *end], rgba=colour, mass=mass / len(geoms), **meets)
        _servo(spec, hinge.name, kp, limit)
    _hand(spec, body, touch)
    return spec


def _hand(spec: mujoco.MjSpec, wrist: Any, touch: dict[str, Any]) -> None:
    hand = wrist.add_body(name="hand", pos=[0, 0, -0.107], gravcomp=1)
    add_geom(hand, "box", (0.026, 0.085, 0.027), (0, 0, -0.028), rgba=_LIGHT, mass=0.6, **touch)
    add_geom(hand, "box", (0.027, 0.030, 0.010), (0, 0, -0.012), rgba=_ACCENT)
    depth = _TOOL + 0.107  # of the tool, in the hand's frame
    hand.add_site(name="tool", pos=[0, 0, depth], size=[0.004] * 3, group=4)
    for side, name in ((1, "left"), (-1, "right")):
        finger = hand.add_body(name=f"{name}_finger", gravcomp=1)
        slide = finger.add_joint(name=f"{name}_finger", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, side, 0])
        slide.range, slide.armature, slide.damping[0] = [0, _FINGER_TRAVEL], 0.5, 30.0
        slide.solref_limit, slide.solimp_limit = SOLREF, SOLIMP
        # Slick outside, so that a thing is pushed along and not down; a pad that grips inside. Priorities make friction
        # their own, whatever they touch. Both reach 9 mm below the tool.
        back: dict[str, Any] = {"friction": (0.2, 0.001, 0.0001), "priority": 1, "rgba": _DARK, "mass": 0.05}
        add_geom(finger, "box", (0.011, 0.004, 0.036), (0, side * 0.008, depth + 0.027), **back, **touch)
        grip: dict[str, Any] = {"friction": PAD_FRICTION, "priority": 2, "condim": 4, "rgba": _RUBBER, "mass": 0.02}
        place = (0, side * _PAD / 2, depth + 0.004)
        add_geom(finger, "box", (0.010, _PAD / 2, 0.0125), place, name=f"{name}_pad", **grip, **touch)
    coupling = spec.add_equality(
        name="fingers", type=mujoco.mjtEq.mjEQ_JOINT, name1="right_finger", name2="left_finger"
    )
    coupling.objtype = mujoco.mjtObj.mjOBJ_JOINT
    coupling.data[:5] = [0, 1, 0, 0, 0]
    coupling.solref, coupling.solimp = SOLREF, SOLIMP
    actuator = spec.add_actuator(name="gripper", target="left_finger", trntype=mujoco.mjtTrn.mjTRN_JOINT)
    _tune(actuator, 2000.0, 100.0, 25.0)


# The Universal Robots UR5e with a Robotiq 2F85, from the files in ogbench's wheel (of MuJoCo Menagerie).

_UR5E_JOINTS = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
_UR5E_TOOL = 0.153  # m along the gripper
_UR5E_GAINS = ((4500, 150), (4500, 150), (4500, 150), (2000, 28), (2000, 28), (2000, 28))  # kp, limit (Nm)


def _ogbench() -> Path:
    found = find_spec("ogbench")  # finds it without running its code, which needs much that is not needed here
    if found is None or found.origin is None:
        raise missing("ogbench", "ogbench", "robot 'ur5e'")
    return Path(found.origin).parent / "manipspace" / "descriptions"


def _ur5e() -> mujoco.MjSpec:
    files = _ogbench()
    spec = mujoco.MjSpec.from_file(str(files / "universal_robots_ur5e" / "ur5e.xml"))
    gripper = mujoco.MjSpec.from_file(str(files / "robotiq_2f85" / "2f85.xml"))
    _options(spec)
    _options(gripper)
    for part in (*spec.keys, *spec.lights):
        spec.delete(part)
    spec.attach(gripper, site=spec.site("attachment_site"), prefix="gripper/")
    for body in spec.bodies[1:]:
        body.gravcomp = 1
    for joint in spec.joints[:6]:
        if joint.name != "elbow_joint":
            joint.range = [-4.5, 4.5]  # not two turns: the ways home are short
    meets: dict[str, int] = {"contype": ROBOT, "conaffinity": FIXED | THINGS | MOVING}
    for geom in spec.geoms:
        touches = geom.type != mujoco.mjtGeom.mjGEOM_MESH and geom.parent.name != "shoulder_link"
        geom.contype, geom.conaffinity = (meets["contype"], meets["conaffinity"]) if touches else (0, 0)
        geom.solref, geom.solimp = SOLREF, SOLIMP
        if geom.name.startswith("gripper/"):  # the pads
            geom.friction, geom.priority, geom.condim = PAD_FRICTION, 2, 4
    base = spec.body("gripper/base")
    add_geom(base, "box", (0.030, 0.045, 0.030), (0, 0, 0.040), group=3, **meets)
    # The tool is as far above the fingertips, when they are shut, as the other arm's.
    base.add_site(name="tool", pos=[0, 0, _UR5E_TOOL], quat=[0, 1, 0, 0], size=[0.004] * 3, group=4)
    for name in ("gripper/left_pad", "gripper/right_pad"):  # slick backs, to push with
        slick: dict[str, Any] = {"friction": (0.2, 0.001, 0.0001), "priority": 1, "group": 3}
        add_geom(spec.body(name), "box", (0.012, 0.003, 0.0195), (0, -0.0004, 0.0190), **slick, **meets)
    for actuator, (kp, limit) in zip(spec.actuators, _UR5E_GAINS, strict=False):
        _tune(actuator, kp, kp / _STIFFNESS, limit)
    _tune(spec.actuators[6], 100.0, 10.0, 5.0)
    return spec


_ARM7_ROBOT = Robot(
    name="arm7",
    joints=tuple(f"joint{number}" for number in range(1, 8)),
    home=(0.0, -0.33, 0.0, -2.43, 0.0, 2.10, 0.0),
    spread=(_FINGER_TRAVEL, _FINGER_TRAVEL),
    opened=_FINGER_TRAVEL,
    closed=-0.01,  # beyond shut: a thin thing is gripped too
    widest=2 * _FINGER_TRAVEL,
    fingers=("left_finger", "right_finger"),
    pads=("left_pad", "right_pad"),
    pad_depth=_PAD / 2,
    specify=_arm7,
)
_UR5E_ROBOT = Robot(
    name="ur5e",
    joints=tuple(f"{joint}_joint" for joint in _UR5E_JOINTS),
    home=(-1.8826, -1.7507, 1.7848, -1.6049, -1.5708, -0.3118),
    spread=(0.0,) * 8,
    opened=0.0,
    closed=0.85,
    widest=0.085,
    fingers=("gripper/left_pad", "gripper/right_pad"),
    pads=("gripper/left_pad1", "gripper/right_pad1"),
    pad_depth=0.004,
    specify=_ur5e,
)
ROBOTS: dict[str, Robot] = {robot.name: robot for robot in (_ARM7_ROBOT, _UR5E_ROBOT)}
