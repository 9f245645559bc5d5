from dataclasses import replace

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.physics.humanoid.observations import CYCLE, LIFT, STANCE, Snapshot
from autotelic.physics.humanoid.rewards import PRESETS, TERMS, Preset, Reward
from autotelic.physics.humanoid.robot import HEIGHT, RANGES, STANDING
from autotelic.physics.humanoid.tasks import HumanoidWalk
from autotelic.physics.simulated import ALL


@pytest.fixture(scope="module")
def env() -> HumanoidWalk:
    env = HumanoidWalk(HumanoidWalk.Config(count=2, threads=1, randomise="off"))
    env.reset(1)
    return env


@pytest.fixture
def now(env: HumanoidWalk) -> Snapshot:
    return env.measure(ALL)


def worth(name: str, now: Snapshot, **changes) -> list[float]:
    return TERMS[name](replace(now, **changes)).tolist()


# Terms


def test_the_wanted_velocity_earns_most(now: Snapshot) -> None:
    now, speed = replace(now, error=np.ones(2, complex)), np.array([1.0, 1.0])
    assert worth("speed", now, speed=speed, velocity=np.array([1.0 + 0j, 1.5 + 0j])) == pytest.approx([1, np.exp(-2)])
    assert worth("speed", now, speed=speed, velocity=np.array([1.0 + 0.5j, 0j])) == pytest.approx(
        [np.exp(-2), np.exp(-8)]
    )


def test_progress_grows_up_to_the_wanted_speed_and_no_further(now: Snapshot) -> None:
    now, speed = replace(now, error=np.ones(2, complex)), np.array([1.0, 1.0])
    assert worth("progress", now, speed=speed, velocity=np.array([0.4 + 1j, 3.0])) == pytest.approx([0.4, 1.0])
    assert worth("progress", now, speed=speed, velocity=np.array([-0.4, -30.0])) == pytest.approx([-0.4, -1.0])


def test_who_faces_away_is_paid_for_walking_towards_the_goal_all_the_same(now: Snapshot) -> None:
    now = replace(now, error=-np.ones(2, complex), speed=np.ones(2))  # the goal is behind
    velocity = np.array([1.0 + 0j, -1.0 + 0j])  # ahead, away from it; backwards, towards it
    assert worth("speed", now, velocity=velocity) == pytest.approx([np.exp(-32), 1.0])
    assert worth("progress", now, velocity=velocity) == pytest.approx([-1.0, 1.0])


def test_a_goal_to_the_left_asks_for_a_velocity_to_the_left(now: Snapshot) -> None:
    now = replace(now, error=np.full(2, 1j), speed=np.ones(2))
    velocity = np.array([1.0 + 0j, 1j])
    assert worth("speed", now, velocity=velocity) == pytest.approx([np.exp(-16), 1.0])
    assert worth("progress", now, velocity=velocity) == pytest.approx([0.0, 1.0])


def test_heading_is_by_the_angle_to_the_goal(now: Snapshot) -> None:
    error = np.exp(1j * np.array([0.0, -0.5]))
    assert worth("heading", now, error=error) == pytest.approx([1, np.exp(-8 * (1 - np.cos(0.5)))])
    assert worth("heading_error", now, error=error) == pytest.approx([0, 0.5])


def test_gait_is_the_share_of_feet_that_follow_the_clock(now: Snapshot) -> None:
    swing = int(np.flatnonzero(~STANCE[:CYCLE, 0])[0])  # the left foot should be up, the right down
    contact = np.array([[False, True], [True, True]])
    assert worth("gait", now, gait=np.array([swing, swing]), contact=contact) == [1.0, 0.5]
    assert worth("gait", now, gait=np.array([CYCLE, CYCLE]), contact=contact) == [0.5, 1.0]  # it is to stand


def test_lift_is_best_at_the_height_that_the_clock_says(now: Snapshot) -> None:
    middle = int(LIFT[:, 0].argmax())
    soles = np.zeros((2, 2, 3))
    soles[0, :, 2] = LIFT[middle]
    found = worth("lift", now, gait=np.array([middle, middle]), soles=soles)
    assert found == pytest.approx([1.0, np.exp(-200 * LIFT[middle, 0] ** 2)])


def test_only_feet_on_the_ground_slip(now: Snapshot) -> None:
    velocities = np.full((2, 2, 3), 2.0)
    contact = np.array([[True, False], [False, False]])
    assert worth("slip", now, sole_velocities=velocities, contact=contact) == [8.0, 0.0]


def test_air_time_pays_at_touchdown_for_long_swings(now: Snapshot) -> None:
    air, touchdown = np.array([[0.35, 0.35], [0.05, 2.0]]), np.array([[True, False], [True, True]])
    still = np.array([False, False])
    found = worth("air_time", now, air=air, touchdown=touchdown, still=still)
    assert found == pytest.approx([0.1, -0.2 + 0.25])
    assert worth("air_time", now, air=air, touchdown=touchdown, still=~still) == [0.0, 0.0]


def test_flight_is_the_time_without_a_foot_on_the_ground(now: Snapshot) -> None:
    contact = np.array([[False, False], [True, False]])
    assert worth("flight", now, contact=contact) == [1.0, 0.0]
    _, terms = Reward(PRESETS["walk"], {}, dt=0.1)(replace(now, contact=contact))
    assert terms["flight"].tolist() == pytest.approx([-0.4, 0.0])  # a rate: by how long a step is


def test_feet_that_come_down_are_counted(now: Snapshot) -> None:
    touchdown = np.array([[True, True], [False, True]])
    assert worth("touchdowns", now, touchdown=touchdown) == [2.0, 1.0]
    _, terms = Reward(PRESETS["walk"], {}, dt=0.1)(replace(now, touchdown=touchdown))
    assert terms["touchdowns"].tolist() == pytest.approx([-0.4, -0.2])  # events: however long a step is


def test_a_head_that_touches_something_costs(now: Snapshot) -> None:
    touch = np.array([[300.0, 300.0, 50.0, 0.0], [0.0, 0.0, 0.0, 0.1]])  # of the feet, the torso, the head
    assert worth("head", now, touch=touch) == [0.0, 1.0]


def test_nine_tenths_of_a_joints_range_are_free(now: Snapshot) -> None:
    angles = np.zeros((2, 12)) + RANGES.mean(axis=1) - STANDING
    angles[1, 3] = RANGES[3, 1] - STANDING[3]  # a knee bent as far as it goes
    assert worth("joint_limits", now, angles=angles) == pytest.approx([0.0, 0.05 * 2.3])


def test_posture_counts_only_while_it_is_to_stand(now: Snapshot) -> None:
    angles = np.full((2, 12), 0.5)
    assert worth("posture", now, angles=angles, still=np.array([True, False])) == pytest.approx([3.0, 0.0])


def test_costs_of_moving(now: Snapshot) -> None:
    torques, speeds = np.full((2, 12), -50.0), np.full((2, 12), 2.0)
    assert worth("torque", now, torques=torques) == pytest.approx([3.0, 3.0])
    assert worth("energy", now, torques=torques, speeds=speeds) == pytest.approx([1.2, 1.2])
    action = np.zeros((2, 12))
    assert worth("action_rate", now, action=action, action_before=action + 0.5) == pytest.approx([3.0, 3.0])


def test_shapes_of_the_body(now: Snapshot) -> None:
    gravity = np.array([[0.3, 0.4, -0.866], [0.0, 0.0, -1.0]])
    assert worth("upright", now, gravity=gravity) == pytest.approx([0.25, 0.0])
    assert worth("height", now, height=np.array([HEIGHT - 0.1, HEIGHT])) == pytest.approx([0.01, 0.0])
    assert worth("vertical", now, climb=np.array([0.5, -0.5])) == [0.25, 0.25]
    assert worth("sway", now, rates=np.array([[1.0, 2.0, 9.0], [0.0, 0.0, 9.0]])) == [5.0, 0.0]
    angles = np.zeros((2, 12))
    angles[0, [0, 1, 6, 7]], angles[1, [2, 3, 4, 5]] = 0.5, 0.5
    assert worth("hips", now, angles=angles) == [1.0, 0.0]


def test_clearance_is_what_is_missing_to_the_nearest_post(now: Snapshot) -> None:
    assert worth("clearance", now, rays=np.array([[4.0, 0.5], [0.8, 4.0]])) == pytest.approx([0.2, 0.0])
    assert worth("clearance", now, rays=np.empty((2, 0))) == [0.0, 0.0]


# Presets


@pytest.mark.parametrize("preset", PRESETS)
def test_terms_add_up_to_the_reward(preset: str) -> None:
    env = HumanoidWalk(HumanoidWalk.Config(count=8, threads=1, reward=preset))
    env.reset(2)
    rng = np.random.default_rng(3)
    for _ in range(30):
        step = env.step(rng.normal(0, 1, (8, 12)))
        assert sum(step.terms.values()) == pytest.approx(step.reward, abs=1e-6)


def test_textbook_by_hand() -> None:
    env = HumanoidWalk(HumanoidWalk.Config(count=4, threads=1, reward="textbook", randomise="off"))
    env.reset(2)
    rng, falls = np.random.default_rng(3), 0
    for _ in range(90):
        before = env.simulation.qpos[:, 0].copy()
        step = env.step(rng.normal(0, 1, (4, 12)))
        kept = np.setdiff1d(np.arange(4), step.ended)
        moved = env.simulation.qpos[kept, 0] - before[kept]
        w, x, y, z = env.simulation.qpos[kept, 3:7].T
        yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
        torque = env.simulation.field("actuator_force")[kept] / 100
        expected = 10 * moved + 1 - 0.01 * (torque**2).sum(axis=1) - 0.1 * np.abs(yaw)
        assert step.reward[kept] == pytest.approx(expected, abs=1e-6)
        falls += int(step.terminated.sum())
        assert step.terms["fall"].tolist() == [-10.0 * fell for fell in step.terminated]
    assert falls


def test_rates_are_a_second_and_events_are_not(now: Snapshot) -> None:
    now = replace(now, fallen=np.array([True, False]))
    _, terms = Reward(Preset({"alive": 3.0, "fall": -3.0}, a_second=True, bound=1.0), {}, dt=0.1)(now)
    assert terms["alive"].tolist() == pytest.approx([0.3, 0.3])
    assert terms["fall"].tolist() == [-3.0, 0.0]
    _, terms = Reward(Preset({"alive": 3.0, "fall": -3.0}, a_second=False, bound=10.0), {}, dt=0.1)(now)
    assert terms["alive"].tolist() == [3.0, 3.0]


def test_one_bad_simulation_cannot_earn_or_cost_without_bound(now: Snapshot) -> None:
    reward = Reward(PRESETS["walk"], {}, dt=1 / 60)
    wild = replace(now, speeds=np.full((2, 12), 9e3), climb=np.array([9e3, 0.0]), fallen=np.array([True, False]))
    total, terms = reward(wild)
    assert total == pytest.approx([-0.3 - 3.0, -0.3])
    assert (terms["bound"] > 0).all()
    fast = Reward(PRESETS["textbook"], {}, dt=1 / 60)(replace(now, moved=np.array([150.0, 0.0])))[0]
    assert fast[0] == pytest.approx(5.0)


def test_a_scale_of_zero_switches_a_term_off(now: Snapshot) -> None:
    _, terms = Reward(PRESETS["walk"], {"gait": 0.0, "alive": 2.0}, dt=1.0)(now)
    assert "gait" not in terms
    assert terms["alive"].tolist() == [2.0, 2.0]


def test_a_term_that_the_preset_lacks_can_be_added(now: Snapshot) -> None:
    _, terms = Reward(PRESETS["walk"], {"air_time": 1.0}, dt=1.0)(now)
    assert "air_time" in terms


def test_an_unknown_term_is_one_line_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"reward_scales: no term named 'gate': did you mean gait"):
        HumanoidWalk.Config(reward_scales={"gate": 1.0})


@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
def test_a_scale_that_is_no_number_is_one_line(scale: float) -> None:
    with pytest.raises(UserError, match="reward_scales: alive is"):
        HumanoidWalk.Config(reward_scales={"alive": scale})


def test_without_a_clock_nothing_is_asked_that_depends_on_it() -> None:
    env = HumanoidWalk(HumanoidWalk.Config(count=1, threads=1, obs="compact32"))
    assert {"gait", "lift"}.isdisjoint(env.reward.scales)
    assert "air_time" in env.reward.scales
    asked = HumanoidWalk(HumanoidWalk.Config(count=1, threads=1, obs="compact32", reward_scales={"gait": 1.0}))
    assert asked.reward.scales["gait"] == 1.0


def test_without_a_clock_a_step_pays() -> None:
    env = HumanoidWalk(HumanoidWalk.Config(count=1, threads=1, obs="compact32", randomise="off"))
    env.reset(1)
    step = replace(env.measure(ALL), air=np.array([[0.5, 0.0]]), touchdown=np.array([[True, False]]))
    none = replace(step, touchdown=np.array([[False, False]]))
    assert env.reward(step)[0] > env.reward(none)[0]


def test_to_stand_still_earns_less_than_to_walk_as_wanted(env: HumanoidWalk, now: Snapshot) -> None:
    """The trap of the textbook reward; `walk` must not have it."""
    calm = replace(
        now,
        angles=np.zeros((2, 12)),
        speeds=np.zeros((2, 12)),
        rates=np.zeros((2, 3)),
        climb=np.zeros(2),
        velocity=np.array([0j, 1.0 + 0j]),
        contact=np.array([[True, True], STANCE[0]]),
        gait=np.zeros(2, int),
    )
    total, _ = env.reward(calm)
    assert total[1] > 1.4 * total[0] > 0
