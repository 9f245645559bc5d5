"""Runs a humanoid's exported policy in plain MuJoCo: nothing of Autotelic is imported.

    autotelic export RUN
    python examples/run_exported_policy.py runs/RUN/export --seconds 20 --speed 1.0

The folder holds policy.onnx, model.xml and the contract, policy.json, which says what the numbers mean: the parts of an
observation with their sizes and scales, in order, and what an action asks of the motors. A robot is run the same way:
what `Robot` reads from the simulation comes from its sensors there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import mujoco
import numpy as np
import onnxruntime


class Robot:
    """The humanoid in a simulation, seen and moved as the contract says."""

    def __init__(self, folder: Path) -> None:
        self.contract = json.loads((folder / "policy.json").read_text())
        if "model" not in self.contract:
            raise SystemExit(f"{folder}: {self.contract['environment']} was exported without a model to run it in")
        for name, *_ in self.contract["layout"]["policy"]:
            if not callable(getattr(self, name, None)):
                raise SystemExit(f"{folder}: its policy sees '{name}', which this example cannot read")
        self.model = mujoco.MjModel.from_xml_path(str(folder / self.contract["model"]))
        self.data = mujoco.MjData(self.model)
        mujoco.mj_resetDataKeyframe(self.model, self.data, self.model.key("standing").id)
        mujoco.mj_forward(self.model, self.data)
        joints = self.contract["standing"]["joints"]
        motors = self.contract["actions"]["motors"]
        self.standing = np.array([joints[name] for name in motors])
        self.motors = [self.model.actuator(name).id for name in motors]
        self.angles = [self.model.joint(name).qposadr[0] for name in motors]
        self.speeds = [self.model.joint(name).dofadr[0] for name in motors]
        self.action = np.zeros(len(motors))
        self.speed, self.direction = 0.0, 0.0  # the command: m/s, and rad on the ground, to the left of ahead
        self.steps = 0

    def sensor(self, name: str) -> np.ndarray:
        return self.data.sensor(name).data

    def observe(self) -> np.ndarray:
        """The parts that the contract names, scaled, one after the other."""
        parts = [np.atleast_1d(getattr(self, name)()) * scale for name, _, scale in self.contract["layout"]["policy"]]
        sizes = [size for _, size, _ in self.contract["layout"]["policy"]]
        assert [len(part) for part in parts] == sizes, "the contract is of another robot"
        return np.concatenate(parts).astype(np.float32)

    def act(self, action: np.ndarray) -> None:
        """One control step: as many steps of physics as the contract says."""
        meaning = self.contract["actions"]
        self.action = np.clip(action, -1.0, 1.0).astype(float)
        self.data.ctrl[self.motors] = np.array(meaning["offset"]) + np.array(meaning["scale"]) * self.action
        mujoco.mj_step(self.model, self.data, self.contract["physics"]["substeps"])
        self.steps += 1

    # Parts of observations, each under its name in the contract

    def joint_angles(self) -> np.ndarray:
        return self.data.qpos[self.angles] - self.standing

    def joint_velocities(self) -> np.ndarray:
        return self.data.qvel[self.speeds]

    def gravity(self) -> np.ndarray:
        """Its direction, seen from the torso."""
        return -self._turned()[2]

    def angular_velocity(self) -> np.ndarray:
        return self.data.qvel[3:6]  # of a free joint: in the torso's frame

    def velocity(self) -> np.ndarray:
        """Ahead, to the left and up, as the torso faces."""
        return np.array([*self._from_heading(self.data.qvel[:2]), self.data.qvel[2]])

    def height(self) -> float:
        return self.data.qpos[2] - self.contract["standing"]["height"]

    def last_action(self) -> np.ndarray:
        return self.action

    def command(self) -> np.ndarray:
        return np.array([self.speed, *self._to_goal()])

    def gait_clock(self) -> np.ndarray:
        """Sine and cosine of how far the two steps of a cycle are; zeros when it is to stand."""
        if self.speed < self.contract["still"]:
            return np.zeros(2)
        turn = 2 * np.pi * self.steps * self.contract["dt"] / self.contract["gait_cycle"]
        return np.array([np.sin(turn), np.cos(turn)])

    def foot_contacts(self) -> np.ndarray:
        return np.array([self.sensor(f"{side}_foot_touch")[0] > self.contract["footing"] for side in ("left", "right")])

    def roll_pitch_yaw(self) -> np.ndarray:
        x, y, z = self.gravity()
        return np.array([np.arctan2(-y, -z), np.arcsin(np.clip(x, -1, 1)), self._yaw()])

    def centre_of_mass(self) -> np.ndarray:
        """From the middle between the soles, as the torso faces."""
        soles = (self.sensor("left_sole_position") + self.sensor("right_sole_position")) / 2
        offset = self.sensor("centre_of_mass") - soles
        return np.array([*self._from_heading(offset[:2]), offset[2]])

    def goal(self) -> np.ndarray:
        return self.speed * self._to_goal()

    # Frames

    def _turned(self) -> np.ndarray:
        """The torso's axes in the world, a column each."""
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, self.data.qpos[3:7])
        return matrix.reshape(3, 3)

    def _yaw(self) -> float:
        ahead = self._turned()[:, 0]
        return float(np.arctan2(ahead[1], ahead[0]))

    def _from_heading(self, vector: np.ndarray) -> np.ndarray:
        cosine, sine = np.cos(self._yaw()), np.sin(self._yaw())
        return np.array([cosine * vector[0] + sine * vector[1], cosine * vector[1] - sine * vector[0]])

    def _to_goal(self) -> np.ndarray:
        return self._from_heading(np.array([np.cos(self.direction), np.sin(self.direction)]))

    def fallen(self) -> bool:
        return bool(self.data.qpos[2] < 0.6 * self.contract["standing"]["height"])


def main() -> None:
    parser = argparse.ArgumentParser(description="runs a humanoid's exported policy in plain MuJoCo")
    parser.add_argument("folder", type=Path, help="what autotelic export wrote")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--speed", type=float, default=1.0, help="m/s that are wanted")
    parser.add_argument("--direction", type=float, default=0.0, help="rad to the left of where it faces first")
    options = parser.parse_args()
    session = onnxruntime.InferenceSession(options.folder / "policy.onnx")
    robot = Robot(options.folder)
    robot.speed, robot.direction = options.speed, options.direction
    while robot.steps * robot.contract["dt"] < options.seconds and not robot.fallen():
        (action,) = session.run(["action"], {"observation": robot.observe()[None]})
        robot.act(np.asarray(action)[0])
    seconds = robot.steps * robot.contract["dt"]
    distance = float(robot.data.qpos[:2] @ [np.cos(robot.direction), np.sin(robot.direction)])
    how = f"fell after {seconds:.1f} s" if robot.fallen() else f"still up after {seconds:.1f} s"
    print(f"{how}, {distance:.2f} m towards the goal, {distance / seconds:.2f} m/s")


if __name__ == "__main__":
    main()
