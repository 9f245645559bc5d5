import mujoco
import numpy as np
import pytest

from autotelic import registry
from autotelic.errors import UserError
from autotelic.physics.humanoid import obstacles, robot
from autotelic.physics.humanoid.observations import CYCLE
from autotelic.physics.humanoid.tasks import Humanoid, HumanoidObstacles, HumanoidStand, HumanoidWalk
from autotelic.physics.randomisation import Randomisation
from autotelic.physics.simulated import ALL
from autotelic.testing import check_environment

TASKS = [HumanoidStand, HumanoidWalk, HumanoidObstacles]


def make(task: type[Humanoid], seed: int = 1, **keys) -> Humanoid:
    env = task(task.Config(**{"count": 4, "threads": 1, "randomise": "off", **keys}))
    env.reset(seed)
    return env


def still(env: Humanoid) -> np.ndarray:
    return np.zeros((env.count, 12))


# All tasks


@pytest.mark.parametrize("task", TASKS)
def test_tasks_keep_the_word_of_environments(task: type[Humanoid]) -> None:
    config = task.Config(count=3, threads=1, seconds=0.3, randomise="sim-to-real")
    check_environment(lambda: task(config), steps=40)


@pytest.mark.parametrize(
    "keys",
    [
        {"obs": "compact32", "actions": "torque", "reward": "textbook"},
        {"actions": "velocity", "turn": 1.0, "speed": (0.0, 1.5), "change": (0.05, 0.1)},
    ],
)
def test_choices_keep_it_too(keys: dict) -> None:
    config = HumanoidWalk.Config(count=3, threads=1, seconds=0.5, **keys)
    check_environment(lambda: HumanoidWalk(config), steps=40)


@pytest.mark.parametrize("task", TASKS)
def test_tasks_are_found_by_name(task: type[Humanoid]) -> None:
    assert registry.get("environments", task.name) is task


@pytest.mark.parametrize("actions", robot.ACTUATIONS)
def test_nothing_breaks_under_random_actions(actions: str) -> None:
    env = make(HumanoidWalk, count=16, actions=actions, randomise="sim-to-real")
    rng = np.random.default_rng(2)
    for _ in range(100):
        step = env.step(rng.uniform(-1, 1, (16, 12)))
        assert np.isfinite(step.obs["critic"]).all()
        assert (np.abs(step.reward) <= 3.3 + 1e-6).all()
    assert env.broken == 0


def test_a_broken_simulation_is_counted_and_leaves_no_trace() -> None:
    env = make(HumanoidWalk)
    env.step(still(env))
    env.simulation.qvel[2] = np.nan
    step = env.step(still(env))
    assert env.broken == 1
    assert step.truncated.tolist() == [False, False, True, False]
    assert step.reward[2] == 0.0
    assert all(np.isfinite(values).all() for values in (*step.obs.values(), *step.final_obs.values()))
    assert all(np.isfinite(values).all() for values in env.memory.values())


@pytest.mark.parametrize("task", TASKS)
def test_an_episode_that_broke_is_no_success_and_the_rest_of_it_is_not_known(task: type[Humanoid]) -> None:
    env = make(task, seconds=0.1)
    for _ in range(5):
        env.step(still(env))
    env.simulation.qvel[2] = np.nan
    step = env.step(still(env))  # the last, after which who still stands has survived
    episodes = dict(step.episodes)
    assert step.truncated.all()
    assert episodes.pop("survived").tolist() == [1.0, 1.0, 0.0, 1.0]
    assert episodes.pop("success")[2] == 0.0
    assert all(np.isnan(values).tolist() == [False, False, True, False] for values in episodes.values())


def test_standing_until_the_simulation_breaks_in_the_last_step_is_no_success() -> None:
    env = make(HumanoidStand, seconds=0.1)
    for _ in range(5):
        env.step(still(env))
    env.simulation.qvel[2] = np.nan
    assert env.step(still(env)).episodes["success"].tolist() == [1.0, 1.0, 0.0, 1.0]


def test_a_robot_that_lies_down_has_fallen() -> None:
    env = make(HumanoidWalk)
    env.simulation.qpos[1, 2] = 0.4  # too low
    env.simulation.qpos[2, 3:7] = [np.cos(0.6), 0, np.sin(0.6), 0]  # leaning by 1.2 rad
    step = env.step(still(env))
    assert step.terminated.tolist() == [False, True, True, False]
    assert step.terms["fall"].tolist() == [0.0, -3.0, -3.0, 0.0]
    assert step.episodes["success"].tolist() == [0.0, 0.0]


def test_standing_by_the_servos_alone_is_a_success() -> None:
    env = make(HumanoidStand, seconds=2.0)
    for _ in range(120):
        step = env.step(still(env))
    assert step.truncated.all()
    assert step.episodes["success"].tolist() == [1.0] * 4
    assert step.episodes["double_support"] == pytest.approx(np.ones(4), abs=0.1)
    assert step.episodes["speed"] == pytest.approx(np.zeros(4), abs=0.05)


def test_episodes_begin_as_seed_environment_and_episode_say() -> None:
    few, many = make(HumanoidWalk, count=2), make(HumanoidWalk, count=5)
    assert (few.simulation.qpos == many.simulation.qpos[:2]).all()
    assert (few.simulation.qpos[0] != few.simulation.qpos[1]).any()
    other = make(HumanoidWalk, seed=2)
    assert (few.simulation.qpos[0, 7:] != other.simulation.qpos[0, 7:]).all()
    angles = many.simulation.qpos[:, 7:] - robot.STANDING
    assert 0.03 < np.abs(angles).max() <= 0.05


def test_half_the_episodes_begin_with_the_left_foot() -> None:
    env = make(HumanoidWalk, count=64)
    phases = env.memory["phase"]
    assert set(phases) == {0, CYCLE // 2}
    assert 16 < (phases == 0).sum() < 48


def test_the_first_observation_is_of_the_new_episode() -> None:
    env = make(HumanoidWalk, seconds=0.1)
    for _ in range(6):
        step = env.step(np.full((4, 12), 0.3))
    assert step.truncated.all()
    start = [field.name for field in env.layouts["policy"].fields].index("last_action")
    at = sum(field.size for field in env.layouts["policy"].fields[:start])
    assert (step.final_obs["policy"][:, at : at + 12] == np.float32(0.3)).all()
    assert (step.obs["policy"][:, at : at + 12] == 0).all()
    assert (step.obs["policy"] == env.observe(ALL)["policy"]).all()


# Summaries


def test_steps_flight_and_double_support_are_counted() -> None:
    env = make(HumanoidWalk, count=1)
    #       both  left  none  both  both  right: two touchdowns, one of six in flight, half of six on both feet
    feet = [(1, 1), (1, 0), (0, 0), (1, 1), (1, 1), (0, 1)]
    touch = np.zeros((1, env.simulation.model.nsensordata))
    env._sensed = touch
    for left, right in feet:
        touch[0, :2] = 100.0 * left, 100.0 * right
        env.judge()
    figures = env.summarise(np.array([0]))
    assert figures["steps_per_second"] == pytest.approx([2 / (6 / 60)])
    assert figures["flight"] == pytest.approx([1 / 6])
    assert figures["double_support"] == pytest.approx([3 / 6])


def test_speed_is_the_way_towards_the_goal() -> None:
    env = make(HumanoidWalk, count=2, speed=(0.8, 0.8))
    env.memory["goal"][1] = (0.0, 1.0)
    for _ in range(30):
        env.simulation.qpos[:, 0] += 1.0 / 60
        env.judge()
    figures = env.summarise(np.arange(2))
    assert figures["speed"] == pytest.approx([1.0, 0.0], abs=1e-6)
    assert figures["speed_error"] == pytest.approx([0.2, 0.8], abs=1e-6)


def commanded(speeds: tuple[float, float], turn: bool = False) -> Humanoid:
    """Asked for one speed for 12 steps and for another for 18, ahead or, of the second robot, to the left."""
    env = make(HumanoidWalk, count=2, speed=(0.5, 1.5), change=(0.2, 0.2), seconds=0.5)
    env.memory["speed"][:], env.memory["speeds"][:] = speeds
    env.memory["goals"][:] = (1.0, 0.0)
    if turn:
        env.memory["goals"][1] = (0.0, 1.0)
    env.memory["change_at"][:] = (13, *[1000] * (env.memory["change_at"].shape[1] - 1))
    return env


def test_too_fast_at_one_command_does_not_make_good_for_too_slow_at_the_next() -> None:
    env = commanded((0.8, 1.2))
    for _ in range(30):
        env.simulation.qpos[:, 0] += 1.0 / 60
        env.judge()
    wrong = (12 * 0.2 + 18 * 0.2) / 30  # the sums cancel all but 6 steps of it
    assert env.summarise(np.arange(2))["speed_error"] == pytest.approx([wrong, wrong], abs=1e-6)


def test_the_way_that_counts_turns_with_the_goal() -> None:
    env = commanded((1.0, 1.0), turn=True)
    for _ in range(30):
        env.simulation.qpos[:, 0] += 1.5 / 60
        env.judge()
    wrong = [0.5, (12 * 0.5 + 18 * 1.0) / 30]  # who was to turn has come no nearer to where it was to go
    assert env.summarise(np.arange(2))["speed_error"] == pytest.approx(wrong, abs=1e-6)


def test_an_episode_begins_without_the_errors_of_the_last() -> None:
    env = commanded((0.5, 1.5))
    for _ in range(30):
        env.judge()
    env.begin(np.array([0]), np.zeros(1, np.uint64))
    env.memory["speed"][0] = 0.0
    env.judge()
    found = env.figures(np.arange(2))["speed_error"]
    assert found[0] < 0.5 < found[1]


@pytest.mark.parametrize(("speed", "success"), [(0.95, 1.0), (1.15, 1.0), (1.3, 0.0), (0.0, 0.0)])
def test_a_walk_is_a_success_at_the_wanted_speed(speed: float, success: float) -> None:
    env = make(HumanoidWalk, count=1, seconds=0.5)
    for _ in range(30):
        env.simulation.qpos[:, 0] += speed / 60
        env.judge()
    env.elapsed[:] = env.limit
    assert env.summarise(np.array([0]))["success"].tolist() == [success]
    env.elapsed[:] = env.limit - 1  # cut short: by a broken simulation, for one
    assert env.summarise(np.array([0]))["success"].tolist() == [0.0]


def test_who_wanders_off_did_not_stand() -> None:
    env = make(HumanoidStand, count=2)
    env.simulation.qpos[1, 1] += 0.6
    env.judge()
    env.elapsed[:] = env.limit
    assert env.summarise(np.arange(2))["success"].tolist() == [1.0, 0.0]


def test_head_contacts_are_counted() -> None:
    env = make(HumanoidWalk, count=1)
    env._sensed = np.zeros((1, env.simulation.model.nsensordata))
    env._sensed[0, 3] = 1.0
    env.judge()
    env.judge()
    assert env.summarise(np.array([0]))["head_contacts"].tolist() == [2.0]


# Commands


def test_commands_change_when_and_as_they_were_drawn() -> None:
    env = make(HumanoidWalk, speed=(0.5, 1.5), turn=0.5, change=(0.2, 0.4), seconds=2.0)
    memory = {name: values.copy() for name, values in env.memory.items()}
    gaps = np.diff(memory["change_at"], axis=1, prepend=0)
    assert gaps.min() >= 12
    assert gaps.max() <= 24
    assert (memory["speeds"] >= 0.5).all()
    assert (memory["speeds"] <= 1.5).all()
    headings = np.arctan2(memory["goals"][..., 1], memory["goals"][..., 0])
    turns = np.angle(np.exp(1j * np.diff(headings, axis=1)))
    assert 0.2 < np.abs(turns).max() <= 0.5
    for step in range(1, 40):
        env.step(still(env))
        for index in range(4):
            past = np.flatnonzero(memory["change_at"][index] <= step)
            speed = memory["speeds"][index, past[-1]] if len(past) else memory["speed"][index]
            assert env.memory["speed"][index] == speed


def test_the_default_is_one_metre_a_second_straight_ahead() -> None:
    env = make(HumanoidWalk, count=32)
    assert (env.memory["speed"] == 1.0).all()
    assert (env.memory["goal"] == [1.0, 0.0]).all()
    yaw = 2 * np.arctan2(env.simulation.qpos[:, 6], env.simulation.qpos[:, 3])
    assert 0.05 < np.abs(yaw).max() <= 0.1


def test_who_learns_to_turn_begins_in_any_direction() -> None:
    env = make(HumanoidWalk, count=64, turn=0.5)
    yaw = 2 * np.arctan2(env.simulation.qpos[:, 6], env.simulation.qpos[:, 3])
    assert np.abs(yaw).max() > 2.5
    assert env.measure(ALL).error == pytest.approx(np.ones(64), abs=1e-9)  # facing the goal


def test_who_is_asked_for_little_speed_is_asked_to_stand() -> None:
    env = make(HumanoidWalk, count=64, speed=(0.0, 0.2))
    now = env.measure(ALL)
    assert (now.still == (env.memory["speed"] < 0.1)).all()
    assert 0 < now.still.sum() < 64
    assert ((now.gait == CYCLE) == now.still).all()


# Obstacles


def test_rays_see_what_mujocos_rays_see() -> None:
    env = make(HumanoidObstacles, count=32)
    rng, simulation = np.random.default_rng(6), env.simulation
    simulation.qpos[:, 0], simulation.qpos[:, 1] = rng.uniform(0, 20, 32), 2.0  # beside the posts, not in one
    yaw = rng.uniform(-2.6, -0.5, 32)  # towards them
    simulation.qpos[0, :2], yaw[0] = (0.0, 0.0), 0.0  # along an axis
    simulation.qpos[:, 3:7] = np.stack([np.cos(yaw / 2), 0 * yaw, 0 * yaw, np.sin(yaw / 2)], axis=1)
    angles = yaw[:, None] + np.radians(np.linspace(-70, 70, 15))
    rays = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=-1)
    origin = np.repeat(simulation.qpos[:, None, :3], 15, axis=1)
    # Posts only: MuJoCo tells geoms apart by group, and those of the robot could be in the way.
    simulation.parameter("geom_group")[:, simulation.model.geom_bodyid > 0] = 5
    simulation.parameter("geom_group")[:, simulation.model.body_mocapid[simulation.model.geom_bodyid] >= 0] = 0
    expected, _ = simulation.batch.ray(origin, rays, np.array([1, 0, 0, 0, 0, 0]))
    expected = np.where((expected < 0) | (expected > obstacles.REACH), obstacles.REACH, expected)
    assert (expected < obstacles.REACH).sum() > 50
    assert env.measure(ALL).rays == pytest.approx(expected, abs=1e-9)


def test_posts_stand_differently_in_every_episode_along_the_way() -> None:
    env = make(HumanoidObstacles, seconds=0.1)
    first = env.simulation.batch.bind("mocap_pos").copy()
    assert (first[0, :, :2] != first[1, :, :2]).all()
    assert (np.diff(first[:, :, 0], axis=1) > 0.5).all()
    assert first[:, :, 0].min() > 2.0
    assert np.abs(first[:, :, 1]).max() <= 1.2
    for _ in range(6):
        env.step(still(env))
    assert (env.simulation.batch.bind("mocap_pos")[:, :, :2] != first[:, :, :2]).all()


def test_a_post_stops_the_robot() -> None:
    env = make(HumanoidObstacles, count=2)
    posts = env.simulation.batch.bind("mocap_pos")
    posts[0, 0] = (0.45, 0.0, 0.6)
    env.simulation.qvel[:, 0] = 2.0
    for _ in range(15):
        env.step(still(env))
    assert env.simulation.qpos[0, 0] < env.simulation.qpos[1, 0] - 0.05


def test_obstacles_are_a_success_when_they_are_passed() -> None:
    env = make(HumanoidObstacles, count=2, distance=5.0)
    env.memory["moved"][:], env.memory["clock"][:] = (5.1, 4.9), env.limit
    env.elapsed[:] = env.limit
    figures = env.summarise(np.arange(2))
    assert figures["success"].tolist() == [1.0, 0.0]
    assert figures["distance"].tolist() == [5.1, 4.9]


# Bad input


@pytest.mark.parametrize(
    ("task", "keys", "line"),
    [
        (HumanoidWalk, {"actions": "positon"}, "actions=positon: did you mean position"),
        (HumanoidWalk, {"obs": "compact"}, "obs=compact: did you mean compact32"),
        (HumanoidWalk, {"reward": "run"}, "reward=run: known: textbook, walk"),
        (HumanoidWalk, {"action_scale": 0.0}, "action_scale=0.0: must be above 0"),
        (HumanoidWalk, {"seconds": 0.0}, "seconds=0.0: must be above 0"),
        (HumanoidWalk, {"seconds": float("inf")}, "seconds=inf: must be above 0, finite"),
        (HumanoidWalk, {"speed": (1.0, 0.5)}, r"speed=\[1.0, 0.5\]: must be \[low, high\]"),
        (HumanoidWalk, {"speed": (1.0,)}, r"speed=\[1.0\]: must be \[low, high\]"),
        (HumanoidWalk, {"speed": (1.0, float("inf"))}, r"speed=\[1.0, inf\]: must be \[low, high\], .* finite"),
        (HumanoidWalk, {"change": (1.0, 2.0, 3.0)}, r"change=\[1.0, 2.0, 3.0\]: must be \[low, high\]"),
        (HumanoidWalk, {"change": (float("nan"), 1.0)}, r"change=\[nan, 1.0\]: must be \[low, high\]"),
        (HumanoidWalk, {"change": (0.01, 1.0)}, r"change=\[0.01, 1.0\]: must not be below 0.0167 s, a control step"),
        (
            HumanoidStand,
            {"randomisation": Randomisation(push_every=(0.01, 1.0))},
            r"randomisation.push_every=\[0.01, 1.0\]: must not be below 0.0167 s, a control step",
        ),
        (HumanoidWalk, {"turn": -1.0}, "turn=-1.0: must be between 0 and pi"),
        (HumanoidObstacles, {"posts": 0}, "posts=0: must be at least 1"),
        (HumanoidObstacles, {"distance": -1.0}, "distance=-1.0: must be above 0"),
        (HumanoidObstacles, {"speed": float("nan")}, "speed=nan: must be above 0"),
        (HumanoidStand, {"count": 0}, "count=0: must be at least 1"),
    ],
)
def test_a_mistake_is_one_line(task: type[Humanoid], keys: dict, line: str) -> None:
    with pytest.raises(UserError, match=line):
        task.Config(**keys)


# For use elsewhere


def test_the_contract_says_what_every_number_means() -> None:
    env = make(HumanoidWalk, action_scale=0.5)
    contract = env.contract()
    assert sum(size for _, size, _ in contract["layout"]["policy"]) == env.sizes["policy"]
    assert contract["layout"]["policy"][1] == ["joint_velocities", 12, 0.1]
    assert contract["actions"]["motors"] == [joint.name for joint in robot.JOINTS]
    assert contract["actions"]["scale"] == (0.5 * robot.REACH).tolist()
    assert contract["actions"]["offset"] == robot.STANDING.tolist()
    assert contract["dt"] == pytest.approx(1 / 60)
    for kind, scale in (("velocity", [2.0] * 12), ("torque", robot.LIMITS.tolist())):
        other = make(HumanoidWalk, actions=kind).contract()["actions"]
        assert other["kind"] == kind
        assert other["offset"] == [0.0] * 12
        assert other["scale"] == scale
        assert "kp" not in other


@pytest.mark.parametrize("kind", robot.ACTUATIONS)
def test_motors_are_told_what_the_contract_says_of_an_action(kind: str) -> None:
    env = make(HumanoidWalk, actions=kind, action_scale=0.5)
    actions, action = env.contract()["actions"], np.random.default_rng(0).uniform(-2, 2, (4, 12))
    env.step(action)
    wanted = np.array(actions["offset"]) + np.array(actions["scale"]) * np.clip(action, -1, 1)
    assert env.simulation.ctrl == pytest.approx(wanted)


def test_the_contract_says_what_is_commanded_as_the_policy_sees_it() -> None:
    full, compact = make(HumanoidWalk).contract(), make(HumanoidWalk, obs="compact32").contract()
    assert (len(full["command"]), "goal" in full) == (3, False)
    assert (len(compact["goal"]), "command" in compact) == (2, False)
    assert not {"rays"} & (full.keys() | compact.keys())


@pytest.mark.parametrize("obs", ["full", "compact32"])
def test_the_contract_of_obstacles_says_where_rays_go(obs: str) -> None:
    env = make(HumanoidObstacles, count=1, obs=obs, posts=1)
    rays = env.contract()["rays"]
    name, size, scale = env.contract()["layout"]["policy"][-1]
    assert (name, size) == ("rays", len(rays["angles"]))
    assert scale * rays["reach"] == 1.0
    # It faces along x, and a post stands a metre away where the last ray but one goes.
    env.simulation.qpos[0, 3:7] = [1.0, 0.0, 0.0, 0.0]
    angle = rays["angles"][-2]
    env.simulation.batch.bind("mocap_pos")[0, 0, :2] = np.array([np.cos(angle), np.sin(angle)])
    seen = env.observe(ALL)["policy"][0, -size:] / scale
    assert angle > 0
    assert seen[-2] < seen[0] == pytest.approx(rays["reach"])


def test_the_model_moves_in_plain_mujoco_as_it_does_here() -> None:
    env = make(HumanoidObstacles, count=1)
    model = mujoco.MjModel.from_xml_string(env.model_xml())
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = env.simulation.qpos[0], env.simulation.qvel[0]
    data.mocap_pos[:] = env.simulation.batch.bind("mocap_pos")[0]
    mujoco.mj_forward(model, data)
    actions, contract = env.contract()["actions"], env.contract()["physics"]
    for action in np.random.default_rng(7).uniform(-0.3, 0.3, (10, 1, 12)):
        env.step(action)
        data.ctrl[:] = np.array(actions["offset"]) + np.array(actions["scale"]) * action[0]
        mujoco.mj_step(model, data, contract["substeps"])
    assert data.qpos == pytest.approx(env.simulation.qpos[0], abs=1e-5)


def test_pictures_show_the_robot() -> None:
    env = make(HumanoidWalk, count=1)
    try:
        picture = env.frame(0, 64, 48)
    finally:
        env.close()
    assert picture.shape == (48, 64, 3)
    red = (picture[..., 0] > 1.5 * picture[..., 2]).sum()  # the right leg
    assert red > 5
