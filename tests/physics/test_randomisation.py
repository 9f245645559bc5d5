from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.physics import chance
from autotelic.physics.humanoid import robot
from autotelic.physics.humanoid.tasks import HumanoidStand, HumanoidWalk
from autotelic.physics.randomisation import PRESETS, Randomisation, Randomiser, resolve
from autotelic.physics.simulation import Simulation
from autotelic.runs.config import Group, compose

IDS = np.arange(4)
FIRST = np.zeros(4, int)


def randomiser(settings: Randomisation, count: int = 4, steps: int = 1200) -> tuple[Randomiser, Simulation]:
    model = robot.build("position")
    simulation = Simulation(model, count, substeps=robot.SUBSTEPS, threads=1)
    feet = np.flatnonzero(model.geom_priority == 1)
    made = Randomiser(settings, simulation, torso="torso", feet=feet, steps=steps, joint_friction=0.3)
    return made, simulation


def walk(**keys) -> HumanoidWalk:
    env = HumanoidWalk(HumanoidWalk.Config(**{"count": 4, "threads": 1, "randomise": "off", **keys}))
    env.reset(1)
    return env


# Settings


def test_a_term_replaces_the_presets() -> None:
    settings = resolve("mild", Randomisation(friction=(0.2, 0.3), noise={"gravity": 0.5}))
    assert settings.friction == (0.2, 0.3)
    assert settings.mass == PRESETS["mild"].mass
    assert settings.noise == {**PRESETS["mild"].noise, "gravity": 0.5}


def test_push_replaces_the_presets_pushes() -> None:
    settings = resolve("sim-to-real", Randomisation(), push=0.5)
    assert settings.push_speed == (0.5, 0.5)
    assert settings.push_every == (5.0, 5.0)


def test_push_wins_over_ranges_that_are_given_too() -> None:
    settings = resolve("off", Randomisation(push_speed=(1.0, 2.0), push_every=(1.0, 2.0)), push=0.5)
    assert settings.push_speed == (0.5, 0.5)
    assert settings.push_every == (5.0, 5.0)


@pytest.mark.parametrize(
    ("mass", "torso_mass"), [(None, (-28.0, 0.0)), (None, (-50.0, 50.0)), ((0.5, 1.0), (-15.0, 0.0))]
)
def test_a_torso_that_could_be_left_without_mass_is_refused(mass, torso_mass) -> None:
    with pytest.raises(UserError, match=r"torso_mass=.*: the torso has [\d.]+ kg, of which something must be left"):
        randomiser(Randomisation(mass=mass, torso_mass=torso_mass))


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: Randomisation(friction=(1.0, 0.5)), r"friction=\[1.0, 0.5\]: must be \[low, high\]"),
        (lambda: Randomisation(gravity=(-1.0, 0.5)), r"gravity=\[-1.0, 0.5\]: must not be below 0"),
        (lambda: Randomisation(mass=(0.0, 1.0)), r"mass=\[0.0, 1.0\]: must be above 0"),
        (lambda: Randomisation(noise={"gravity": -1.0}), r"noise.gravity=-1.0: must be 0 or more"),
        (lambda: Randomisation(noise={"gravity": float("nan")}), r"noise.gravity=nan: must be 0 or more, finite"),
        (lambda: Randomisation(noise={"gravity": float("inf")}), r"noise.gravity=inf: must be 0 or more, finite"),
        (lambda: Randomisation(gains=(1.0, float("inf"))), r"gains=\[1.0, inf\]: must be \[low, high\], finite"),
        (lambda: Randomisation(torso_mass=(float("-inf"), 1.0)), r"torso_mass=\[-inf, 1.0\]: .* finite"),
        (lambda: Randomisation(friction=(float("nan"), 1.0)), r"friction=\[nan, 1.0\]: .* finite"),
        (lambda: resolve("milder", Randomisation()), "randomise=milder: did you mean mild"),
        (lambda: resolve("off", Randomisation(), push=-1.0), "push=-1.0: must be 0 or more"),
        (lambda: resolve("off", Randomisation(), push=float("nan")), "push=nan: must be 0 or more, finite"),
        (lambda: resolve("off", Randomisation(push_speed=(0.1, 1.0))), "push_speed=.* give push_every too"),
        (lambda: HumanoidWalk.Config(randomise="wild"), "randomise=wild"),
        (
            lambda: walk(randomisation=Randomisation(noise={"gravty": 0.1})),
            "randomisation.noise: .*'gravty': .* gravity",
        ),
    ],
)
def test_a_mistake_is_one_line(make, line: str) -> None:
    with pytest.raises(UserError, match=line):
        make()


def test_ranges_can_be_overridden_on_the_command_line() -> None:
    @dataclass
    class Verb:
        env: Any = field(default_factory=dict)
        # What goes well with a humanoid is said of these.
        usual_steps: int = 0
        evaluate_every: int = 0
        policy: Any = field(default_factory=dict)
        learner: Any = field(default_factory=dict)

    overrides = [
        "env.randomise=sim-to-real",
        "env.randomisation.friction=[0.4,1.0]",
        "env.randomisation.noise.gravity=0.2",
    ]
    config = compose(Verb, {"env": Group("environments", "humanoid-walk")}, [*overrides, "env.speed=[0.5,1.5]"]).env
    assert tuple(config.randomisation.friction) == (0.4, 1.0)
    assert config.randomisation.mass is None
    assert config.randomisation.noise == {"gravity": 0.2}
    assert config.speed == (0.5, 1.5)
    with pytest.raises(UserError, match=r"env.randomisation.friction=\[2.0, 1.0\]"):
        compose(Verb, {"env": Group("environments", "humanoid-walk")}, ["env.randomisation.friction=[2,1]"])


# Draws


def test_draws_are_a_function_of_seed_environment_and_episode() -> None:
    made, _ = randomiser(PRESETS["sim-to-real"])
    alone, _ = randomiser(PRESETS["sim-to-real"], count=1)
    for one, other in (
        (made.draw_start(7, IDS), alone.draw_start(7, np.array([2]))),
        (made.draw_episode(7, IDS, np.array([0, 1, 5, 3])), alone.draw_episode(7, np.array([2]), np.array([5]))),
    ):
        assert one.keys() == other.keys()
        for name in one:
            assert one[name][2].tolist() == other[name][0].tolist(), name
    first = made.draw_episode(7, IDS, FIRST)
    for other in (made.draw_episode(8, IDS, FIRST), made.draw_episode(7, IDS, FIRST + 1)):
        assert all((first[name] != other[name]).any() for name in first)


def test_draws_are_within_their_ranges() -> None:
    settings = PRESETS["sim-to-real"]
    made, _ = randomiser(settings)
    many = np.arange(300)
    drawn = made.draw_start(0, many) | made.draw_episode(0, many, many)
    for name, (low, high) in settings.ranges().items():
        if name.startswith("push"):
            continue
        assert drawn[name].min() >= low
        assert drawn[name].max() <= high
        assert drawn[name].max() - drawn[name].min() > 0.9 * (high - low)
    assert set(np.unique(drawn["latency"])) == {0, 1, 2}
    speeds = np.linalg.norm(drawn["pushes"], axis=2)
    assert 0.1 <= speeds.min() < speeds.max() <= 2.0
    gaps = np.diff(drawn["push_at"], axis=1, prepend=0) / 60
    assert 4.99 <= gaps.min() < gaps.max() <= 10.01


def test_a_change_of_one_term_changes_no_other() -> None:
    made, _ = randomiser(PRESETS["sim-to-real"])
    other, _ = randomiser(replace(PRESETS["sim-to-real"], friction=None, mass=None, push_every=(2.0, 3.0)))
    one, two = made.draw_episode(7, IDS, FIRST), other.draw_episode(7, IDS, FIRST)
    assert "friction" not in two
    for name in ("gains", "gravity", "latency"):
        assert (one[name] == two[name]).all(), name
    assert (made.draw_start(7, IDS)["armature"] == other.draw_start(7, IDS)["armature"]).all()


# What is written


def test_links_get_their_masses_and_inertias_at_start_up() -> None:
    made, simulation = randomiser(Randomisation(mass=(0.5, 2.0), torso_mass=(-1.0, 1.0), centre_of_mass=(-0.05, 0.05)))
    made.start(3)
    drawn, model, torso = made.draw_start(3, IDS), simulation.model, simulation.model.body("torso").id
    expected = model.body_mass[1:] * drawn["mass"]
    expected[:, torso - 1] += drawn["torso_mass"]
    assert simulation.parameter("body_mass")[:, 1:] == pytest.approx(expected)
    times = expected / model.body_mass[1:]
    assert simulation.parameter("body_inertia")[:, 1:] == pytest.approx(model.body_inertia[1:] * times[:, :, None])
    assert made.memory["mass"] == pytest.approx(expected.sum(axis=1) / 49.0)
    assert simulation.parameter("body_ipos")[:, torso] == pytest.approx(
        model.body_ipos[torso] + drawn["centre_of_mass"]
    )
    # MuJoCo's own constants follow.
    assert simulation.single(2)[0].body_subtreemass[torso] == pytest.approx(expected[2].sum())


def test_joints_get_their_friction_and_armature_at_start_up() -> None:
    made, simulation = randomiser(Randomisation(joint_friction=(0.5, 2.0), armature=(1.0, 1.5)))
    made.start(3)
    drawn = made.draw_start(3, IDS)
    assert simulation.parameter("dof_frictionloss")[:, 6:] == pytest.approx(0.3 * drawn["joint_friction"])
    assert simulation.parameter("dof_armature")[:, 6:] == pytest.approx(
        simulation.model.dof_armature[6:] * drawn["armature"]
    )
    assert not simulation.parameter("dof_frictionloss")[:, :6].any()


def test_what_is_drawn_at_start_up_stays_until_another_seed() -> None:
    env = walk(randomise="sim-to-real", seconds=0.2)
    masses = env.simulation.parameter("body_mass").copy()
    friction = env.memory["friction"].copy()
    for _ in range(13):
        env.step(np.zeros((4, 12)))
    assert (env.episode == 1).all()
    assert (env.simulation.parameter("body_mass") == masses).all()
    assert (env.memory["friction"] != friction).all()
    env.reset(2)
    assert (env.simulation.parameter("body_mass")[:, 1:] != masses[:, 1:]).all()


def test_feet_get_their_friction_at_reset() -> None:
    made, simulation = randomiser(Randomisation(friction=(0.1, 0.9)))
    made.begin(5, np.array([1, 3]), np.array([0, 2]))
    drawn = made.draw_episode(5, np.array([1, 3]), np.array([0, 2]))["friction"]
    values = simulation.parameter("geom_friction")[:, simulation.model.geom_priority == 1, 0]
    assert values == pytest.approx(np.repeat([1.0, drawn[0], 1.0, drawn[1]], 8).reshape(4, 8))


def test_a_robot_slides_further_on_less_friction() -> None:
    env = walk(count=2, randomisation=Randomisation(friction=(0.0, 1.0)))
    env.simulation.parameter("geom_friction")[:, env.simulation.model.geom_priority == 1, 0] = [[0.05], [1.0]]
    env.simulation.qpos[:], env.simulation.qvel[:] = env.simulation.model.key_qpos[0], 0.0
    env.simulation.qvel[:, 1] = 0.4
    for _ in range(20):
        env.step(np.zeros((2, 12)))
    soles = env.simulation.field("sensordata")[:, robot.SOLES].reshape(2, 2, 3)[:, :, 1].mean(axis=1)
    assert soles[0] > 5 * abs(soles[1])


def test_gravity_is_what_falls() -> None:
    made, simulation = randomiser(Randomisation(gravity=(5.0, 15.0)))
    made.begin(5, IDS, FIRST)
    simulation.qpos[:, 2] += 5.0
    simulation.forward()
    simulation.step()
    expected = -made.draw_episode(5, IDS, FIRST)["gravity"] * simulation.dt
    assert simulation.qvel[:, 2] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("actuation", robot.ACTUATIONS)
def test_gains_multiply_what_motors_give(actuation: str) -> None:
    env = HumanoidStand(
        HumanoidStand.Config(
            count=2,
            threads=1,
            actions=actuation,
            randomise="off",
            randomisation=Randomisation(gains=(0.5, 1.5)),
        )
    )
    env.reset(1)
    gains = env.randomiser.draw_episode(1, np.arange(2), np.zeros(2, int))["gains"]
    simulation = env.simulation
    simulation.qpos[:] = simulation.model.key_qpos[0]
    simulation.qpos[:, 2] += 3.0
    simulation.qvel[:] = 0.0
    simulation.ctrl[:] = env._rest + 0.1 * env._reach
    simulation.forward()
    stiffness = np.array([joint.kp for joint in robot.JOINTS])
    gain = {"position": stiffness, "velocity": robot.LIMITS, "torque": np.ones(12)}[actuation]
    expected = np.minimum(gain * 0.1 * env._reach * gains, robot.LIMITS)
    assert simulation.field("actuator_force") == pytest.approx(expected)


def test_actions_arrive_late_by_the_latency_of_the_episode() -> None:
    env = walk(randomisation=Randomisation(latency=(0, 3)), count=16)
    latency = env.memory["latency"]
    assert set(latency) == {0, 1, 2, 3}
    sent = np.random.default_rng(0).uniform(-0.2, 0.2, (8, 16, 12))
    for step, action in enumerate(sent):
        env.step(action)
        for index in range(16):
            at = step - latency[index]
            arrived = sent[at, index] if at >= 0 else np.zeros(12)
            assert env.simulation.ctrl[index] == pytest.approx(env._rest + env._reach * arrived)


def test_pushes_come_when_and_as_hard_as_they_were_drawn() -> None:
    env = walk(randomisation=Randomisation(push_speed=(0.5, 1.0), push_every=(0.1, 0.3)), seconds=2.0)
    drawn = env.randomiser.draw_episode(1, IDS, FIRST)
    pushed, clock = 0, np.zeros(4, int)
    for _ in range(60):
        before = env.simulation.qvel[:, :2].copy()
        env.apply(np.zeros((4, 12)))
        change = env.simulation.qvel[:, :2] - before
        for index in range(4):
            due = np.flatnonzero(drawn["push_at"][index] == clock[index])
            expected = drawn["pushes"][index, due].sum(axis=0)
            assert change[index] == pytest.approx(expected)
            pushed += len(due)
        env.memory["clock"] += 1
        clock += 1
    assert pushed >= 12


def test_two_pushes_in_one_step_add_up() -> None:
    env = walk(randomisation=Randomisation(push_speed=(0.5, 1.0), push_every=(0.1, 0.3)))
    env.memory["push_at"][1, :2], env.memory["clock"][:] = 1000, 1000
    before = env.simulation.qvel[:, :2].copy()
    env.apply(np.zeros((4, 12)))
    both = env.memory["pushes"][1, :2].sum(axis=0)
    assert env.simulation.qvel[1, :2] - before[1] == pytest.approx(both)
    assert env.memory["pushed"][1] == pytest.approx(both)


def test_push_is_of_exactly_that_speed_every_five_seconds() -> None:
    env = walk(push=0.5, randomise="mild")
    drawn = env.randomiser.draw_episode(1, IDS, FIRST)
    assert drawn["push_at"][:, :3].tolist() == [[300, 600, 900]] * 4
    assert np.linalg.norm(drawn["pushes"], axis=2) == pytest.approx(np.full(drawn["push_at"].shape, 0.5))


# Noise


def error(env: HumanoidWalk, obs: dict[str, np.ndarray]) -> np.ndarray:
    """What the policy sees of the noise."""
    return obs["policy"] - obs["critic"][:, : env.sizes["policy"]]


def test_noise_is_bounded_and_only_the_policy_sees_it() -> None:
    levels = {"joint_angles": 0.1, "angular_velocity": 0.4}
    env = walk(count=200, randomisation=Randomisation(noise=levels))
    wrong = error(env, env.step(np.zeros((200, 12))).obs)
    start, scales = 0, {field.name: (field.size, field.scale) for field in env.layouts["policy"].fields}
    for name, (size, scale) in scales.items():
        part, bound = wrong[:, start : start + size], levels.get(name, 0.0) * scale
        assert np.abs(part).max() <= bound + 1e-6, name
        assert part.std() == pytest.approx(bound / np.sqrt(3), rel=0.1), name  # evenly spread
        start += size


def test_the_noise_of_compact32_is_in_what_a_robot_would_measure() -> None:
    levels = {"joint_angles": 0.1, "joint_velocities": 0.5, "gravity": 0.2}
    noisy, exact = (
        walk(count=200, obs="compact32", randomisation=Randomisation(noise=noise)) for noise in (levels, {})
    )
    action = np.zeros((200, 12))
    wrong = noisy.step(action).obs["policy"] - exact.step(action).obs["policy"]
    bounds = {"joint_angles": 0.1, "joint_velocities": 0.5 * 0.1, "roll_pitch_yaw": 0.2}  # scaled as they are seen
    start = 0
    for seen in noisy.layouts["policy"].fields:
        part, bound = wrong[:, start : start + seen.size], bounds.get(seen.name, 0.0)
        assert np.abs(part).max() <= bound + 1e-6, seen.name
        assert part.std() == pytest.approx(bound / np.sqrt(3), rel=0.1), seen.name  # evenly spread
        start += seen.size
    assert start == 32


def test_noise_goes_on_from_a_state() -> None:
    env = walk(randomise="sim-to-real")
    action = np.zeros((4, 12))
    for _ in range(3):
        env.step(action)
    other = HumanoidWalk(env.config)
    other.load_state(env.state())
    assert (env.step(action).obs["policy"] == other.step(action).obs["policy"]).all()


def test_noise_does_not_depend_on_how_many_environments_there_are() -> None:
    few, many = walk(randomise="mild", count=2), walk(randomise="mild", count=5)
    for _ in range(3):
        one, other = few.step(np.zeros((2, 12))).obs, many.step(np.zeros((5, 12))).obs
        assert (one["policy"] == other["policy"][:2]).all()


def test_noise_can_be_said_again() -> None:
    env = walk(randomisation=Randomisation(noise={"joint_angles": 0.1}))
    obs = env.step(np.zeros((4, 12))).obs
    keys = chance.keys(1, "noise", np.arange(4), np.zeros(4, int))
    expected = 0.1 * (2.0 * chance.even(keys, env.sizes["policy"], clock=1)[:, :12] - 1.0)
    assert error(env, obs)[:, :12] == pytest.approx(expected, abs=1e-6)


def test_the_end_of_an_episode_and_the_beginning_of_the_next_have_noise_of_their_own() -> None:
    env = walk(randomisation=Randomisation(noise={"joint_angles": 0.1}), seconds=1 / 60)
    first = error(env, env.reset(1))[:, :12]
    step = env.step(np.zeros((4, 12)))
    last, following = error(env, dict(step.final_obs))[:, :12], error(env, step.obs)[:, :12]
    assert step.truncated.all()
    assert all((one != other).all() for one, other in ((first, last), (last, following), (first, following)))


def test_without_randomisation_every_robot_is_the_model() -> None:
    env = walk()
    assert env.simulation.state()["parameters"] == {}
    obs = env.step(np.zeros((4, 12))).obs
    assert (obs["policy"] == obs["critic"][:, : env.sizes["policy"]]).all()
