"""The humanoid's tasks: standing, walking where and as fast as it is told, walking between posts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, inf, pi
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from autotelic.errors import UserError
from autotelic.physics import chance
from autotelic.physics.base import EnvironmentConfig, Observation
from autotelic.physics.humanoid import observations, obstacles, rewards, robot
from autotelic.physics.humanoid.observations import CYCLE, Field, Layout, Mirror, Snapshot, attitude, plane
from autotelic.physics.humanoid.robot import HEIGHT, JOINTS, STANDING
from autotelic.physics.randomisation import Randomisation, Randomiser, resolve
from autotelic.physics.simulated import ALL, Judgement, Rows, SimulatedEnvironment
from autotelic.registry import nearest

STEP = robot.TIMESTEP * robot.SUBSTEPS  # s from one action to the next
# Of the torso, past which nobody recovers: its height in metres, and gravity's part along it (at 60 degrees).
LOWEST, STEEPEST = 0.5, -0.5
FOOTING = 5.0  # N from which on a foot is on the ground
STILL = 0.1  # m/s: who is asked for less is asked to stand
START_ANGLES, START_SPEEDS, START_YAW = 0.05, 0.1, 0.1  # by how much beginnings differ: rad, rad/s and m/s, rad
ASTRAY, DRIFT = 0.2, 0.5  # m/s of mean speed at a command, and metres while standing, by which a success may miss


@dataclass(frozen=True)
class HumanoidConfig(EnvironmentConfig):
    """What all tasks have."""

    actions: str = "position"  # what an action asks of the joints: position, velocity or torque
    action_scale: float = 1.0  # times the reach of each joint, where actions are positions
    obs: str = "full"  # what the policy sees: full, or compact32 (no velocity, contact, last action or clock)
    reward: str = "walk"  # walk or textbook
    reward_scales: dict[str, float] = field(default_factory=dict)  # of single terms; 0 switches one off
    seconds: float = 20.0  # after which an episode is cut
    randomise: str = "mild"  # how much differs between robots and episodes: off, mild or sim-to-real
    randomisation: Randomisation = field(default_factory=Randomisation)  # ranges of single terms
    push: float = 0.0  # m/s; above 0: pushes of exactly this speed every 5 s

    # Small networks see enough, and are quick. Left and right are learned from each other's steps.
    beside: ClassVar[Mapping[str, Any]] = {
        "usual_steps": 6_000_000,
        "evaluate_every": 60,
        "policy": {"hidden": [128, 128], "activation": "elu", "initial_std": 0.3},
        "learner": {"steps": 32, "epochs": 4, "minibatches": 4, "symmetry": "augment"},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, known in (
            ("actions", robot.ACTUATIONS),
            ("obs", observations.CHOICES),
            ("reward", rewards.PRESETS),
        ):
            if getattr(self, key) not in known:
                raise UserError(f"{key}={getattr(self, key)}: {nearest(getattr(self, key), list(known))}")
        for key in ("action_scale", "seconds"):
            _check_positive(key, getattr(self, key))
        rewards.check(self.reward_scales)
        pushes = resolve(self.randomise, self.randomisation, self.push).push_every
        if pushes is not None:
            _check_seconds("randomisation.push_every", pushes)
        noisy = sorted({part.noise for part in observations.FULL if part.noise})
        for name in self.randomisation.noise:
            if name not in noisy:
                raise UserError(f"randomisation.noise: nothing that is seen is named '{name}': {nearest(name, noisy)}")


def _check_positive(key: str, value: float) -> None:
    if not 0 < value < inf:
        raise UserError(f"{key}={value}: must be above 0, finite")


def _check_seconds(key: str, value: tuple[float, float]) -> None:
    if value[0] < STEP:
        raise UserError(f"{key}={list(value)}: must not be below {STEP:.4f} s, a control step")


class Humanoid(SimulatedEnvironment):
    """What all tasks share. A task says how fast to go (`speed`, from and to), how far the goal turns at once (`turn`),
    after how many seconds either changes (`change`), what stands around, and when an episode is a success."""

    Config: ClassVar[type[HumanoidConfig]] = HumanoidConfig
    camera = "track"
    config: HumanoidConfig
    own_scales: ClassVar[Mapping[str, float]] = {}  # of reward terms, where a task needs others than `walk` has

    def __init__(
        self,
        config: HumanoidConfig,
        *,
        speed: tuple[float, float] = (0.0, 0.0),
        turn: float = 0.0,
        change: tuple[float, float] = (5.0, 10.0),
        posts: int = 0,
    ) -> None:
        model = robot.build(config.actions, obstacles.sizes(posts))
        limit = max(1, round(config.seconds / STEP))
        super().__init__(config, model, substeps=robot.SUBSTEPS, limit=limit)
        self._speed, self._turn, self._change = speed, turn, change
        self._halves = np.array(obstacles.sizes(posts)).reshape(posts, 3)
        self._posts = self.simulation.batch.bind("mocap_pos") if posts else np.zeros((self.count, 0, 3))
        self._sensed = self.simulation.field("sensordata")
        self._torques = self.simulation.field("actuator_force")
        self._set_actions(config)
        seen = (*observations.FULL, *((observations.rays_field(obstacles.RAYS, obstacles.REACH),) if posts else ()))
        chosen = seen if config.obs == "full" else (*observations.CHOICES[config.obs], *seen[len(observations.FULL) :])
        self._set_observations(chosen, (*seen, *observations.PRIVILEGED))
        settings = resolve(config.randomise, config.randomisation, config.push)
        self._noise = self.layouts["policy"].noise(settings.noise)
        self.randomiser = Randomiser(
            settings,
            self.simulation,
            torso="torso",
            feet=np.flatnonzero(model.geom_priority == 1),
            steps=limit,
            joint_friction=robot.JOINT_FRICTION,
        )
        clocked = any(field.name == "gait_clock" for field in chosen)
        changes = {**self.own_scales, **({} if clocked else rewards.CLOCKLESS)} if config.reward == "walk" else {}
        self.reward = rewards.Reward(rewards.PRESETS[config.reward], {**changes, **config.reward_scales}, self.dt)
        self._set_memory()
        self._now: Snapshot | None = None

    def _set_actions(self, config: HumanoidConfig) -> None:
        self.action_space = spaces.Box(-1.0, 1.0, (len(JOINTS),), np.float32)
        # An action a means rest + reach * a to the actuators.
        self._rest, self._reach = {
            "position": (STANDING, robot.REACH * config.action_scale),
            "velocity": (np.zeros(12), np.full(12, robot.FASTEST_TARGET)),
            "torque": (np.zeros(12), robot.LIMITS),
        }[config.actions]

    def _set_observations(self, policy: tuple[Field, ...], critic: tuple[Field, ...]) -> None:
        self.layouts = {"policy": Layout(policy), "critic": Layout(critic)}
        self.sizes = {name: layout.size for name, layout in self.layouts.items()}
        self._shared = critic[: len(policy)] == policy  # the critic's begins with the policy's

    def _set_memory(self) -> None:
        count, changes = self.count, 0
        if self._turn or self._speed[0] < self._speed[1]:
            changes = ceil(self.limit * self.dt / self._change[0])
        self.memory = {
            **self.randomiser.memory,
            "clock": np.zeros(count, np.int64),  # control steps since the episode began
            "noise": np.zeros(count, np.uint64),  # what the noise of the episode is drawn from
            "phase": np.zeros(count, np.int64),  # of the gait: a row of its tables
            "action": np.zeros((count, 12)),
            "action_before": np.zeros((count, 12)),
            "change_at": np.zeros((count, changes), np.int64),  # when the command changes
            "speeds": np.zeros((count, changes)),  # to what
            "goals": np.zeros((count, changes, 2)),
            "speed": np.zeros(count),  # the command
            "goal": np.zeros((count, 2)),
            "place": np.zeros((count, 2)),  # one control step ago; an episode begins at 0, 0
            "contact": np.zeros((count, 2), bool),  # one control step ago
            "air": np.zeros((count, 2)),  # s that a foot has been up
            # Sums over the episode
            "moved": np.zeros(count),
            "wanted": np.zeros(count),
            "ahead": np.zeros(count),  # moved less wanted, when the command last changed
            "astray": np.zeros(count),  # m that were too far or too short, of commands that hold no more
            "touchdowns": np.zeros(count),
            "flight": np.zeros(count),
            "double": np.zeros(count),
            "heads": np.zeros(count),
            "fallen": np.zeros(count, bool),
        }

    # Episodes

    def reset(self, seed: int) -> Observation:
        self.randomiser.start(seed)
        return super().reset(seed)

    def begin(self, ids: np.ndarray, keys: np.ndarray) -> None:
        memory, simulation = self.memory, self.simulation
        self.randomiser.begin(self.seed, ids, self.episode[ids])
        changes, posts = memory["change_at"].shape[1], len(self._halves)
        # The numbers that depend on the configuration come last: an episode begins alike whatever it is.
        drawn = chance.even(keys, 34 + 2 * posts + 3 * changes).astype(np.float64)
        even = 2.0 * drawn[:, :32] - 1.0
        simulation.qpos[ids, :3] = (0.0, 0.0, HEIGHT + 0.01)
        simulation.qpos[ids, 7:] = STANDING + START_ANGLES * even[:, :12]
        simulation.qvel[ids] = START_SPEEDS * even[:, 12:30]
        # Who learns to turn begins anywhere; who goes straight ahead begins nearly so.
        yaw = even[:, 30] * (pi if self._turn else START_YAW)
        simulation.qpos[ids, 3], simulation.qpos[ids, 6] = np.cos(yaw / 2), np.sin(yaw / 2)
        self._command(ids, yaw, drawn[:, 33], drawn[:, 34 + 2 * posts :])
        if posts:
            self._posts[ids] = obstacles.places(drawn[:, 34 : 34 + 2 * posts], self._halves)
        memory["noise"][ids] = chance.keys(self.seed, "noise", ids, self.episode[ids])
        memory["phase"][ids] = np.where(drawn[:, 32] < 0.5, 0, CYCLE // 2)
        memory["contact"][ids] = True  # it begins on its feet: landing from a centimetre is no step
        for name in ("clock", "action", "action_before", "place", "air"):
            memory[name][ids] = 0
        for name in ("moved", "wanted", "ahead", "astray", "touchdowns", "flight", "double", "heads", "fallen"):
            memory[name][ids] = 0

    def _command(self, ids: np.ndarray, yaw: np.ndarray, first: np.ndarray, later: np.ndarray) -> None:
        """Draws the command and all its changes in the episode."""
        memory, (low, high), changes = self.memory, self._speed, self.memory["change_at"].shape[1]
        memory["speed"][ids] = low + (high - low) * first
        goal = yaw if self._turn else np.zeros(len(ids))
        memory["goal"][ids] = np.stack([np.cos(goal), np.sin(goal)], axis=1)
        if changes:
            every, speed, turn = np.moveaxis(later.reshape(len(ids), changes, 3), 2, 0)
            seconds = np.cumsum(self._change[0] + (self._change[1] - self._change[0]) * every, axis=1)
            memory["change_at"][ids] = np.rint(seconds / self.dt)
            memory["speeds"][ids] = low + (high - low) * speed
            goals = goal[:, None] + np.cumsum(self._turn * (2.0 * turn - 1.0), axis=1)
            memory["goals"][ids] = np.stack([np.cos(goals), np.sin(goals)], axis=-1)

    def apply(self, action: np.ndarray) -> None:
        memory = self.memory
        memory["action_before"][:] = memory["action"]
        np.clip(action, -1.0, 1.0, out=memory["action"])
        arrived = self.randomiser.delay(memory["action"], memory["clock"])
        np.multiply(arrived, self._reach, out=self.simulation.ctrl)
        self.simulation.ctrl[:] += self._rest
        self.randomiser.push(memory["clock"])

    def _advance(self) -> None:
        """The clock, the gait's phase and the command at the end of a step."""
        memory = self.memory
        memory["clock"] += 1
        memory["phase"] += 1
        memory["phase"] %= CYCLE
        if memory["change_at"].shape[1]:
            due = memory["change_at"] == memory["clock"][:, None]
            if due.any():
                rows, which = np.nonzero(due)
                memory["astray"][rows] = self._astray(rows)
                memory["ahead"][rows] = memory["moved"][rows] - memory["wanted"][rows]
                memory["speed"][rows] = memory["speeds"][rows, which]
                memory["goal"][rows] = memory["goals"][rows, which]

    def _astray(self, ids: np.ndarray) -> np.ndarray:
        """m that were too far or too short so far. Each command counts by itself: who was too fast at one has not made
        good for being too slow at another."""
        memory = self.memory
        missed = memory["moved"][ids] - memory["wanted"][ids] - memory["ahead"][ids]
        return memory["astray"][ids] + np.abs(missed)

    # What is seen and earned

    def measure(self, rows: Rows) -> Snapshot:
        """These environments as they are now."""
        memory = {name: values[rows] for name, values in self.memory.items()}
        qpos, qvel, sensed = self.simulation.qpos[rows], self.simulation.qvel[rows], self._sensed[rows]
        gravity, heading = attitude(qpos[:, 3:7])
        place, goal = plane(qpos[:, :2]), plane(memory["goal"])
        touch = sensed[:, robot.TOUCH]
        contact, before = touch[:, :2] > FOOTING, memory["contact"]
        still = memory["speed"] < STILL
        height = qpos[:, 2]
        return Snapshot(
            angles=qpos[:, 7:] - STANDING,
            speeds=qvel[:, 6:],
            torques=self._torques[rows],
            action=memory["action"],
            action_before=memory["action_before"],
            gravity=gravity,
            rates=qvel[:, 3:6],  # a free joint's are in the frame of its body
            heading=heading,
            height=height,
            velocity=plane(qvel[:, :2]) * heading.conj(),
            climb=qvel[:, 2],
            touch=touch,
            contact=contact,
            touchdown=contact & ~before,
            air=(memory["air"] + self.dt) * ~before,
            soles=sensed[:, robot.SOLES].reshape(-1, 2, 3),
            sole_velocities=sensed[:, robot.SOLE_VELOCITIES].reshape(-1, 2, 3),
            centre_of_mass=sensed[:, robot.CENTRE_OF_MASS],
            speed=memory["speed"],
            error=goal * heading.conj(),
            still=still,
            moved=np.real((place - plane(memory["place"])) * goal.conj()),
            gait=np.where(still, CYCLE, memory["phase"]),
            rays=self._rays(rows, place, heading),
            fallen=(height < LOWEST) | (gravity[:, 2] > STEEPEST),
            friction=memory["friction"],
            mass=memory["mass"],
            pushed=plane(memory["pushed"]),
        )

    def _rays(self, rows: Rows, place: np.ndarray, heading: np.ndarray) -> np.ndarray:
        if not len(self._halves):
            return np.empty((len(place), 0))
        return obstacles.distances(place, heading, self._posts[rows], self._halves)

    def judge(self) -> Judgement:
        self._advance()
        self._now = now = self.measure(ALL)
        reward, terms = self.reward(now)
        self._record(now)
        return Judgement(reward, now.fallen, terms)

    def _record(self, now: Snapshot) -> None:
        memory, down = self.memory, now.contact.sum(axis=1)
        memory["moved"] += now.moved
        memory["wanted"] += now.speed * self.dt
        memory["touchdowns"] += now.touchdown.sum(axis=1)
        memory["flight"] += down == 0
        memory["double"] += down == 2
        memory["heads"] += now.touch[:, 3] > 0.0
        memory["fallen"][:] = now.fallen
        memory["place"][:] = self.simulation.qpos[:, :2]
        memory["air"][:] = now.air * ~now.contact
        memory["contact"][:] = now.contact

    def observe(self, rows: Rows) -> Observation:
        now, self._now = self._now, None  # of all, measured when this step was judged
        if now is None or not isinstance(rows, slice):
            now = self.measure(rows)
        critic = self.layouts["critic"].read(now)
        policy = critic[:, : self.sizes["policy"]].copy() if self._shared else self.layouts["policy"].read(now)
        if self._noise.any():
            keys, clock = self.memory["noise"][rows], self.memory["clock"][rows]
            policy += (2.0 * chance.even(keys, self.sizes["policy"], clock) - 1.0) * self._noise
        return {"policy": policy, "critic": critic}

    def summarise(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        figures, failed = self.figures(ids), self.failed[ids]
        survived = (self.elapsed[ids] >= self.limit) & ~self.memory["fallen"][ids] & ~failed
        success = survived & self.succeeded(ids, figures)
        known = {name: np.where(failed, np.nan, values) for name, values in figures.items()}
        return {"success": success.astype(float), "survived": survived.astype(float), **known}

    def figures(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """What is measured of an episode."""
        memory, steps = {name: values[ids] for name, values in self.memory.items()}, self.memory["clock"][ids]
        seconds = steps * self.dt
        return {
            "speed": memory["moved"] / seconds,  # towards the goal
            "speed_error": self._astray(ids) / seconds,
            "steps_per_second": memory["touchdowns"] / seconds,
            "flight": memory["flight"] / steps,  # shares of the time that no foot, or both, were on the ground
            "double_support": memory["double"] / steps,
            "head_contacts": memory["heads"],
        }

    def succeeded(self, ids: np.ndarray, figures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Of episodes that were survived: whether the task was done."""
        return figures["speed_error"] <= ASTRAY

    # What others need to know

    def mirror(self) -> dict[str, Mirror]:
        """How left and right are exchanged in observations and actions: `vector[..., order] * signs`."""
        action = (robot.MIRROR_JOINTS, robot.MIRROR_SIGNS.astype(np.float32))
        return {**{name: layout.mirror() for name, layout in self.layouts.items()}, "action": action}

    def contract(self) -> dict[str, Any]:
        kind = self.config.actions
        unit = {"position": "an angle (rad)", "velocity": "a velocity (rad/s)", "torque": "a torque (Nm)"}[kind]
        actions: dict[str, Any] = {
            "meaning": f"offset + scale * action is {unit}; actions beyond -1 and 1 are cut",
            "kind": kind,
            "motors": [joint.name for joint in JOINTS],
            "offset": self._rest.tolist(),
            "scale": self._reach.tolist(),
            "torque_limits": robot.LIMITS.tolist(),
        }
        if kind == "position":
            actions |= {"kp": [joint.kp for joint in JOINTS], "kv": [joint.kv for joint in JOINTS]}
        elif kind == "velocity":
            actions |= {"kv": robot.LIMITS.tolist()}
        return super().contract() | {
            "layout": {"policy": self.layouts["policy"].describe()},
            **self._meanings(),
            "actions": actions,
            "standing": {"height": HEIGHT, "joints": dict(zip(actions["motors"], STANDING.tolist(), strict=True))},
            "gait_cycle": CYCLE * self.dt,
            "footing": FOOTING,  # N of touch above which a foot is in contact
            "still": STILL,  # m/s of command below which it is to stand, and the gait's clock is 0
            "physics": {"timestep": robot.TIMESTEP, "substeps": robot.SUBSTEPS},
        }

    def _meanings(self) -> dict[str, Any]:
        """Of the parts of an observation that a name does not explain."""
        known = {
            "command": ["speed (m/s)", "cosine of the angle to the goal", "sine of it, positive to the left"],
            "goal": ["speed (m/s) times the cosine of the angle to the goal", "times the sine, positive to the left"],
            "rays": {
                "meaning": "m to the nearest post along level rays from the torso's origin; reach where there is none",
                "angles": obstacles.ANGLES.tolist(),
                "angles_meaning": "rad from where the torso faces, positive to the left",
                "reach": obstacles.REACH,
            },
        }
        seen = {part.name for part in self.layouts["policy"].fields}
        return {name: meaning for name, meaning in known.items() if name in seen}

    def model_xml(self) -> str:
        spec = robot.specify(self.config.actions, obstacles.sizes(len(self._halves)))
        spec.compile()  # writing needs it
        return spec.to_xml()


class HumanoidStand(Humanoid):
    """To stay upright, where it is."""

    name = "humanoid-stand"

    def succeeded(self, ids: np.ndarray, figures: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.abs(plane(self.memory["place"][ids])) <= DRIFT


@dataclass(frozen=True)
class HumanoidWalkConfig(HumanoidConfig):
    """Where and how fast to go."""

    speed: tuple[float, float] = (1.0, 1.0)  # m/s, from and to; below 0.1 it is to stand
    turn: float = 0.0  # rad, up to which the goal turns to either side at a change of command
    change: tuple[float, float] = (5.0, 10.0)  # s from one change of command to the next, where speed or goal vary

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("speed", "change"):
            value = getattr(self, key)
            if len(value) != 2 or not 0 <= value[0] <= value[1] < inf:
                raise UserError(f"{key}={list(value)}: must be [low, high], not below 0, finite")
        _check_seconds("change", self.change)
        if not 0 <= self.turn <= pi:
            raise UserError(f"turn={self.turn}: must be between 0 and pi")


class HumanoidWalk(Humanoid):
    """To walk towards a goal at the speed that is wanted."""

    name = "humanoid-walk"
    Config: ClassVar[type[HumanoidWalkConfig]] = HumanoidWalkConfig
    config: HumanoidWalkConfig

    def __init__(self, config: HumanoidWalkConfig) -> None:
        super().__init__(config, speed=config.speed, turn=config.turn, change=config.change)


@dataclass(frozen=True)
class HumanoidObstaclesConfig(HumanoidConfig):
    """What stands in the way."""

    speed: float = 1.0  # m/s
    posts: int = 8  # one every 2.2 m, somewhere across the way
    distance: float = 10.0  # m towards the goal that make a success

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.posts < 1:
            raise UserError(f"posts={self.posts}: must be at least 1")
        for key in ("speed", "distance"):
            _check_positive(key, getattr(self, key))


class HumanoidObstacles(Humanoid):
    """To walk ahead where posts stand that it sees by rays: between them, or past them all on one side."""

    name = "humanoid-obstacles"
    Config: ClassVar[type[HumanoidObstaclesConfig]] = HumanoidObstaclesConfig
    own_scales: ClassVar[Mapping[str, float]] = {"heading": 0.2, "distance": 1.0, "clearance": -2.0}

    def __init__(self, config: HumanoidObstaclesConfig) -> None:
        super().__init__(config, speed=(config.speed, config.speed), posts=config.posts)
        self._distance = config.distance

    def figures(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        return {**super().figures(ids), "distance": self.memory["moved"][ids]}

    def succeeded(self, ids: np.ndarray, figures: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.memory["moved"][ids] >= self._distance
