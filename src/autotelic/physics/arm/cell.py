"""A scene as a MuJoCo model, and where its parts are in it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from math import cos, sin
from typing import Any

import mujoco
import numpy as np

from autotelic.physics.arm import robots
from autotelic.physics.arm.robots import FIXED, MOVING, ROBOT, SOLIMP, SOLREF, THINGS, Robot, add_geom
from autotelic.physics.arm.scenes import (
    BIN_HEIGHT,
    BIN_INSIDE,
    BIN_WALL,
    BUTTON,
    CABINET,
    COLORS,
    HANDLE,
    TRAVEL,
    Scene,
    Thing,
)

PRESS = 0.012  # m that a button's cap goes down
PRESSED = 0.006  # m from which on it is pressed: fingertips are that far below a tool that is sent to its top
CAMERA = "front"
_WOOD_ON_WOOD = 0.6  # the coefficient of things whose friction is 1; the pads of fingers have their own
_WOOD, _METAL, _PALE = (0.76, 0.66, 0.54, 1), (0.55, 0.57, 0.60, 1), (0.86, 0.84, 0.80, 1)

# What a geom is of, where contacts are counted.
TABLE, HOUSING, OTHER, LINK, LEFT, RIGHT = range(6)  # HOUSING: of a fixture, and fixed; OTHER: can be moved


@dataclass(frozen=True, eq=False)
class Cell:
    """A compiled scene. The model is shared by all who simulate it: nobody may write to it."""

    scene: Scene
    robot: Robot
    model: mujoco.MjModel
    awake: mujoco.MjModel  # the same, where nothing sleeps
    dof: int  # the arm's joints: the first of qpos, qvel and ctrl
    grip: int  # the gripper's actuator
    tool: int  # the site
    pads: tuple[int, int]  # geoms
    things: dict[str, int]  # where each one's seven numbers begin in qpos
    fixtures: dict[str, int]  # the site that is a fixture's position
    drawer: int | None  # where in qpos
    button: int | None
    owners: tuple[str, ...]  # of each geom: the name of a thing or fixture, "table", "robot" or "gripper"
    classes: np.ndarray  # int [geoms]: TABLE, HOUSING …
    start: np.ndarray  # qpos with the robot at home and open, the drawer shut; things are not placed


def specify(scene: Scene, movable: bool = False) -> mujoco.MjSpec:
    """`movable`: fixtures can be put elsewhere in a simulation: their places are `mocap_pos` and `mocap_quat`, in the
    order of the scene."""
    spec = robots.get(scene.robot).specify()
    _scenery(spec)
    for fixture in scene.fixtures:
        turned = [cos(fixture.yaw / 2), 0, 0, sin(fixture.yaw / 2)]
        place = [fixture.x, fixture.y, 0]
        body = spec.worldbody.add_body(name=fixture.name, pos=place, quat=turned, mocap=movable)
        _FIXTURES[fixture.kind](body, fixture.name)
    for thing in scene.things:
        _thing(spec, thing)
    spec.memory = 2**22  # bytes for contacts and constraints: seven times what eight things in a heap need
    # MuJoCo's own answer to a NaN is a silent reset.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    return spec


def build(scene: Scene) -> Cell:
    robot, spec = robots.get(scene.robot), specify(scene)
    size = len(robot.joints)
    # Things that lie still cost nothing until something touches them.
    spec.option.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
    model = spec.compile()
    awake = copy(model)
    awake.opt.enableflags &= ~mujoco.mjtEnableBit.mjENBL_SLEEP.value
    owners, classes = _owners(model, scene, robot)
    moving = {part.kind: int(model.joint(part.name).qposadr[0]) for part in scene.fixtures if part.kind != "bin"}
    return Cell(
        scene=scene,
        robot=robot,
        model=model,
        awake=awake,
        dof=size,
        grip=size,
        tool=model.site("tool").id,
        pads=(model.geom(robot.pads[0]).id, model.geom(robot.pads[1]).id),
        things={thing.name: int(model.joint(thing.name).qposadr[0]) for thing in scene.things},
        fixtures={fixture.name: model.site(fixture.name).id for fixture in scene.fixtures},
        drawer=moving.get("drawer"),
        button=moving.get("button"),
        owners=owners,
        classes=classes,
        start=np.array([*robot.home, *robot.spread, *model.qpos0[size + len(robot.spread) :]]),
    )


def _owners(model: mujoco.MjModel, scene: Scene, robot: Robot) -> tuple[tuple[str, ...], np.ndarray]:
    owners, classes = [], []
    parts = {part.name for part in (*scene.things, *scene.fixtures)}
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        # Parts of a fixture are bodies below the one that has its name.
        above = body
        while above and model.body(above).name not in parts:
            above = int(model.body_parentid[above])
        name = model.body(body).name
        if above:
            owner = model.body(above).name
            fixed = model.body_weldid[body] == 0
            kind = HOUSING if fixed else OTHER
        elif name in robot.fingers:
            owner, kind = "gripper", (LEFT, RIGHT)[robot.fingers.index(name)]
        elif body == 0:
            owner, kind = model.geom(geom).name or "table", TABLE
        else:
            owner, kind = "robot", LINK
        owners.append(owner)
        classes.append(kind)
    return tuple(owners), np.array(classes)


# Building


def _scenery(spec: mujoco.MjSpec) -> None:
    builtin, texture = mujoco.mjtBuiltin, mujoco.mjtTexture
    sky = {"rgb1": [0.62, 0.72, 0.82], "rgb2": [0.95, 0.96, 0.97], "width": 64, "height": 384}
    spec.add_texture(name="sky", type=texture.mjTEXTURE_SKYBOX, builtin=builtin.mjBUILTIN_GRADIENT, **sky)
    grey = {"rgb1": [0.45, 0.48, 0.51], "rgb2": [0.50, 0.53, 0.56], "width": 128, "height": 128}
    spec.add_texture(name="tiles", type=texture.mjTEXTURE_2D, builtin=builtin.mjBUILTIN_CHECKER, **grey)
    tiles = spec.add_material(name="tiles", texrepeat=[2, 2], texuniform=True)
    tiles.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "tiles"
    world = spec.worldbody
    # Friction is the larger of two: these are slick, so that it is the thing's own.
    slick: dict[str, Any] = {"friction": (0.05, 0.0001, 0.00001), "contype": FIXED}
    add_geom(world, "plane", (0, 0, 1), (0, 0, -0.7), name="floor", material="tiles", **slick)
    # Thick enough that nothing passes through it between two steps.
    add_geom(world, "box", (0.52, 0.50, 0.05), (0.38, 0, -0.05), name="table", rgba=_WOOD, **slick)
    for x in (-0.08, 0.84):
        for y in (-0.44, 0.44):
            add_geom(world, "box", (0.03, 0.03, 0.30), (x, y, -0.40), rgba=_METAL)
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1920, 1440  # the largest picture
    light = spec.visual.headlight
    light.ambient, light.diffuse, light.specular = [0.38] * 3, [0.28] * 3, [0.0] * 3
    spec.stat.extent, spec.stat.center, spec.visual.quality.shadowsize = 1.2, [0.4, 0, 0.2], 4096
    sun = {"type": mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, "pos": [0.2, -1.0, 2.5], "dir": [0.15, 0.35, -1]}
    world.add_light(name="sun", diffuse=[0.6] * 3, specular=[0.15] * 3, **sun)
    place, looks_at = np.array([0.12, -1.30, 0.88]), np.array([0.38, 0.0, 0.20])
    right = np.cross(looks_at - place, (0, 0, 1))
    camera = world.add_camera(name=CAMERA, pos=place, fovy=42)
    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    camera.alt.xyaxes = [*right, *np.cross(right, looks_at - place)]


def _thing(spec: mujoco.MjSpec, thing: Thing) -> None:
    body = spec.worldbody.add_body(name=thing.name, pos=[0.5, 0, thing.half_height])
    body.add_freejoint(name=thing.name)
    # What is round must have something that stops it from rolling for ever.
    round_ = thing.shape != "box"
    add_geom(
        body,
        thing.shape,
        thing.size,
        name=thing.name,
        rgba=COLORS[thing.color],
        mass=thing.mass,
        friction=(_WOOD_ON_WOOD * thing.friction, 0.005, 0.001 if round_ else 0.0001),
        condim=6 if round_ else 3,
        contype=THINGS,
        conaffinity=FIXED | THINGS | ROBOT | MOVING,
    )


def _fixed(body: Any, size: Sequence[float], pos: Sequence[float], rgba: Sequence[float]) -> None:
    add_geom(body, "box", size, pos, rgba=rgba, contype=FIXED, friction=(0.05, 0.0001, 0.00001))


_MOVES: dict[str, Any] = {"contype": MOVING, "conaffinity": THINGS | ROBOT}


def _bin(body: Any, name: str) -> None:
    """Four walls around a piece of the table, which is its floor."""
    blue = (0.30, 0.42, 0.55, 1)
    add_geom(body, "box", (BIN_INSIDE, BIN_INSIDE, 0.0005), (0, 0, 0.0005), rgba=(0.38, 0.50, 0.62, 1))
    far, high = BIN_INSIDE + BIN_WALL, BIN_HEIGHT / 2
    for side in (-1, 1):
        _fixed(body, (BIN_WALL, BIN_INSIDE + 2 * BIN_WALL, high), (side * far, 0, high), blue)
        _fixed(body, (BIN_INSIDE, BIN_WALL, high), (0, side * far, high), blue)
    body.add_site(name=name, pos=[0, 0, 0], size=[0.004] * 3, group=4)


def _drawer(body: Any, name: str) -> None:
    """A cabinet, and in it a tray that slides towards the robot. Friction keeps it where it was left."""
    (depth, width, height), wall = CABINET, 0.005
    for side in (-1, 1):
        _fixed(body, (depth, wall, height / 2), (0, side * (width - wall), height / 2), _PALE)
    _fixed(body, (wall, width - 2 * wall, height / 2), (depth - wall, 0, height / 2), _PALE)
    _fixed(body, (depth, width - 2 * wall, wall), (0, 0, height - wall), _PALE)
    tray = body.add_body(name=f"{name}_tray", gravcomp=1)
    slide = tray.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[-1, 0, 0])
    slide.range, slide.armature, slide.damping[0], slide.frictionloss = [0, TRAVEL], 0.2, 8.0, 3.0
    slide.solref_limit, slide.solimp_limit = SOLREF, SOLIMP
    slide.solref_friction = SOLREF
    panel: dict[str, Any] = {"rgba": (0.70, 0.52, 0.36, 1), "mass": 0.1, **_MOVES}
    inside: dict[str, Any] = {"rgba": (0.82, 0.70, 0.56, 1), "mass": 0.1, **_MOVES}
    add_geom(tray, "box", (0.006, width - 0.002, 0.052), (-depth - 0.006, 0, 0.057), **panel)
    add_geom(tray, "box", (0.086, 0.092, 0.003), (-0.012, 0, 0.008), **inside)
    add_geom(tray, "box", (0.003, 0.092, 0.025), (0.071, 0, 0.034), **inside)
    for side in (-1, 1):
        add_geom(tray, "box", (0.084, 0.003, 0.025), (-0.014, side * 0.089, 0.034), **inside)
    along, up = HANDLE
    grip: dict[str, Any] = {"rgba": _METAL, "mass": 0.05, **_MOVES}
    add_geom(tray, "box", (0.009, 0.020, 0.013), (along, 0, up), **grip)  # a bar to grip, or to hook behind
    stem = (-depth - 0.012 - along) / 2
    add_geom(tray, "box", (stem, 0.006, 0.008), (along + stem, 0, up), **grip)
    tray.add_site(name=name, pos=[along, 0, up], size=[0.004] * 3, group=4)


def _button(body: Any, name: str) -> None:
    """A cap on a spring, which holds it up with 4 N and lets it down to its end at 10."""
    _fixed(body, (BUTTON, BUTTON, 0.012), (0, 0, 0.012), _METAL)
    cap = body.add_body(name=f"{name}_cap", gravcomp=1)
    slide = cap.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 0, -1])
    slide.range, slide.armature, slide.damping[0] = [0, PRESS], 0.05, 6.0
    slide.stiffness[0], slide.springref = 420.0, -0.0095
    slide.solref_limit, slide.solimp_limit = SOLREF, SOLIMP
    red = {"rgba": (0.80, 0.16, 0.16, 1), "mass": 0.05}
    add_geom(cap, "cylinder", (0.025, 0.011), (0, 0, 0.033), **red, **_MOVES)
    cap.add_site(name=name, pos=[0, 0, 0.044], size=[0.004] * 3, group=4)


_FIXTURES = {"bin": _bin, "drawer": _drawer, "button": _button}
