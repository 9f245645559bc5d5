import json
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict
from math import pi

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotelic.errors import UserError
from autotelic.physics.arm import robots
from autotelic.physics.arm.control import TICK, Arm, Broken, OutOfTime
from autotelic.physics.arm.scenes import Fixture, Scene, Thing, compiled

BOX = Thing("red_box", "box", (0.02, 0.02, 0.02), "red")
BALL = Thing("blue_sphere", "sphere", (0.025,), "blue")
FIXTURES = (
    Fixture("bin", "bin", 0.45, 0.25),
    Fixture("drawer", "drawer", 0.68, -0.05),
    Fixture("button", "button", 0.4, -0.25),
)
FULL = Scene((BOX, BALL), FIXTURES)
PLACES = {"red_box": (0.42, 0.0, 0.3), "blue_sphere": (0.6, 0.2, 0.0)}


def arm_of(scene: Scene = FULL, places: dict | None = None, **keys) -> Arm:
    arm = Arm(compiled(scene))
    arm.reset(PLACES if places is None else places, **keys)
    return arm


def wait(arm: Arm, seconds: float) -> None:
    for _ in range(round(seconds / TICK)):
        arm.apply((0, 0, 0, 0, 0))


def lift(arm: Arm, height: float = 0.2) -> None:
    place = arm.position("red_box")
    arm.move_to((place[0], place[1], 0.12), 0.3)
    arm.move_to(place)
    arm.close_gripper()
    arm.move_to((place[0], place[1], height))


# Moving


def test_it_goes_where_it_is_told_and_says_so() -> None:
    arm = arm_of(Scene(), {})
    assert arm.move_to((0.6, 0.2, 0.15), 0.5)
    assert arm.tool() == pytest.approx((0.6, 0.2, 0.15), abs=0.004)
    assert arm.yaw() == pytest.approx(0.5, abs=0.04)
    assert 0.2 < arm.time < 1.5
    assert arm.steps * 0.004 == pytest.approx(arm.time)


def test_the_tool_moves_in_a_straight_line() -> None:
    arm = arm_of(Scene(), {})
    arm.move_to((0.6, 0.25, 0.05))
    assert arm.metrics["path_efficiency"] > 0.98


def test_a_half_turn_of_the_gripper_is_no_turn() -> None:
    arm = arm_of(Scene(), {})
    assert arm.move_to((0.5, 0.0, 0.2), pi)
    assert arm.yaw() == pytest.approx(0.0, abs=0.04)


def test_a_turn_on_the_spot_is_carried_through() -> None:
    arm = arm_of(Scene(), {})
    arm.move_to((0.5, 0.0, 0.2), -1.5)
    assert arm.move_to((0.5, 0.0, 0.2), 1.5)
    assert arm.yaw() == pytest.approx(1.5, abs=0.04)


@pytest.mark.parametrize("place", [(1.5, 0.0, 0.2), (0.5, 0.0, -0.1), (0.0, 0.0, 0.1), (0.5, 0.0, 2.0)])
def test_a_place_out_of_reach_is_not_reached_and_nothing_is_hit(place: tuple) -> None:
    arm = arm_of(Scene(), {})
    assert not arm.move_to(place)
    assert arm.metrics["collisions"] == 0


def test_what_is_in_the_way_stops_a_move() -> None:
    arm = arm_of(Scene((), (Fixture("drawer", "drawer", 0.65, 0.0),)), {})
    assert not arm.move_to((0.65, 0.0, 0.05))  # the top of the cabinet
    assert arm.tool()[2] > 0.1
    assert arm.metrics["collisions"] >= 1


def test_joints_are_brought_to_their_angles_and_home() -> None:
    arm = arm_of(Scene(), {})
    home = np.array(robots.get("arm7").home)
    assert arm.move_joints((home + 0.3).tolist())
    assert arm.joints() == pytest.approx(home + 0.3, abs=0.03)
    assert arm.home()
    assert arm.joints() == pytest.approx(home, abs=0.03)
    assert not arm.move_joints([9.0] * 7)


def test_joints_that_lead_into_the_table_end_at_it() -> None:
    arm = arm_of(Scene(), {})
    first, second, *others = robots.get("arm7").home
    assert not arm.move_joints([first, second + 1.2, *others])
    assert arm.metrics["collisions"] >= 1
    assert arm.tool()[2] > 0
    assert arm.home()  # nor is anything broken


def test_the_gripper_opens_and_closes() -> None:
    arm = arm_of(Scene(), {})
    assert arm.close_gripper()
    assert arm.fingers() < 0.001
    assert arm.open_gripper()
    assert arm.fingers() == pytest.approx(0.08, abs=0.004)


def test_an_action_moves_the_tool_by_a_centimetre() -> None:
    arm = arm_of(Scene(), {})
    start = arm.tool()
    for _ in range(10):
        arm.apply((1, 0, 0, 0, -0.5))
    wait(arm, 0.3)
    assert np.subtract(arm.tool(), start) == pytest.approx((0.1, 0, 0), abs=0.004)
    assert arm.fingers() == pytest.approx(0.04, abs=0.012)


@pytest.mark.parametrize("bad", [(0.5, 0.0), (0.5, 0.0, float("nan")), "abc", None, (0.5, 0.0, "x"), [[0.5], [0], [0]]])
def test_nonsense_is_one_line_and_moves_nothing(bad: object) -> None:
    arm = arm_of(Scene(), {})
    for command in (arm.move_to, arm.move_joints, arm.apply):
        with pytest.raises(UserError, match="finite number"):
            command(bad)  # pyright: ignore[reportArgumentType]
    assert arm.steps == 0


def test_who_watches_is_told_actions_that_do_the_same() -> None:
    actions: list = []
    arm = Arm(compiled(FULL), watch=actions.append)
    arm.reset(PLACES)
    lift(arm)
    arm.home()
    assert len(actions) == arm.steps // 5
    assert np.abs(actions).max() <= 1.0
    again = arm_of()
    for action in actions:
        again.apply(action)
    assert again.held("red_box")
    assert again.tool() == pytest.approx(arm.tool(), abs=0.01)
    assert again.position("red_box") == pytest.approx(arm.position("red_box"), abs=0.01)


def test_a_picture_shows_the_cell_and_changes_nothing() -> None:
    arm, other = arm_of(), arm_of()
    picture = arm.frame(64, 48)
    arm.close()
    assert picture.shape == (48, 64, 3)
    assert picture.std() > 10
    lift(arm)
    lift(other)
    assert arm.state_digest() == other.state_digest()


def test_time_that_is_over_raises() -> None:
    arm = arm_of(Scene(), {}, horizon=0.1)
    with pytest.raises(OutOfTime):
        arm.move_to((0.6, 0.2, 0.15))
    assert arm.time == pytest.approx(0.1)


def test_a_simulation_that_flies_apart_raises() -> None:
    arm = arm_of()
    arm._data.qvel[-1] = np.nan
    with pytest.raises(Broken):
        arm.apply((0, 0, 0, 0, 0))


# Things


def test_a_lifted_box_is_held_until_it_is_let_go() -> None:
    arm = arm_of()
    assert not arm.held("red_box")
    lift(arm)
    readings = arm.readings()
    assert readings.held == ("red_box",)
    assert ("gripper", "red_box") in readings.touching
    assert ("red_box", "table") not in readings.touching
    arm.open_gripper()
    wait(arm, 0.5)
    assert not arm.held("red_box")
    assert ("red_box", "table") in arm.readings().touching


def test_a_box_that_is_gripped_on_the_table_is_not_held() -> None:
    arm = arm_of()
    place = arm.position("red_box")
    arm.move_to(place, 0.3)
    arm.close_gripper()
    readings = arm.readings()
    assert ("gripper", "red_box") in readings.touching
    assert readings.held == ()


@pytest.mark.parametrize("half", [0.015, 0.025])
@pytest.mark.parametrize("mass", [0.03, 0.5])
def test_a_box_does_not_slip_while_it_is_carried(half: float, mass: float) -> None:
    arm = arm_of(Scene((Thing("red_box", "box", (half,) * 3, "red", mass=mass),)), {"red_box": (0.45, -0.2, 0.3)})
    lift(arm, 0.25)
    before = np.subtract(arm.position("red_box"), arm.tool())
    wait(arm, 2.0)
    arm.move_to((0.5, 0.25, 0.25))
    arm.move_to((0.6, -0.2, 0.2))
    after = np.subtract(arm.position("red_box"), arm.tool())
    assert arm.held("red_box")
    assert np.abs(after - before).max() < 0.003


def test_contacts_of_things_that_sleep_are_seen() -> None:
    arm = arm_of()
    wait(arm, 2.0)
    assert {("red_box", "table"), ("blue_sphere", "table")} <= set(arm.readings().touching)


def test_readings_are_plain_data() -> None:
    readings = arm_of().readings()
    assert json.loads(json.dumps(readings.as_dict()))["poses"]["bin"][:2] == [0.45, 0.25]
    assert asdict(readings) == readings.as_dict()
    with pytest.raises(FrozenInstanceError):
        readings.time = 3.0  # pyright: ignore[reportAttributeAccessIssue]


def test_a_name_that_is_not_there_is_one_line() -> None:
    arm = arm_of()
    for ask in (arm.position, arm.pose, arm.held):
        with pytest.raises(UserError, match="did you mean red_box"):
            ask("red_bix")
    with pytest.raises(UserError, match="no drawer"):
        arm_of(Scene(), {}).opening()
    with pytest.raises(UserError, match="no button"):
        arm_of(Scene(), {}).pressed()


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({"red_box": (0.4, 0, 0)}, "'blue_sphere' has none"),
        ({**PLACES, "green_box": (0.4, 0, 0)}, "named 'green_box'"),
        ({**PLACES, "red_box": (0.4, float("inf"), 0)}, "three finite numbers"),
        ({**PLACES, "red_box": (0.4, 0.1)}, "three finite numbers"),
    ],
)
def test_placements_that_do_not_fit_are_one_line(places: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Arm(compiled(FULL)).reset(places)


def test_things_within_each_other_are_seen() -> None:
    arm = arm_of(places={"red_box": (0.5, 0.0, 0.0), "blue_sphere": (0.51, 0.0, 0.0)})
    assert arm.overlap > 0.01
    assert arm_of().overlap < 1e-6


# What must not happen by itself


def test_nothing_comes_true_while_nothing_is_done() -> None:
    arm = arm_of()
    before = arm.readings()
    wait(arm, 3.0)
    after = arm.readings()
    assert (after.opening, after.pressed, after.held) == (0.0, False, ())
    for name, pose in before.poses.items():
        assert after.poses[name] == pytest.approx(pose, abs=0.001)


def test_a_thing_that_is_pressed_down_stays_above_the_table() -> None:
    arm = arm_of()
    arm.close_gripper()
    x, y, z = arm.position("red_box")
    arm.move_to((x, y, 0.15))
    arm.move_to((x, y, 0.0), seconds=2.0)
    assert arm.position("red_box")[2] > z - 0.004


def test_a_drawer_stays_where_it_was_left() -> None:
    arm = arm_of(Scene((), (FIXTURES[1],)), {})
    handle = arm.position("drawer")
    arm.move_to((handle[0], handle[1], 0.16))
    arm.move_to(handle)
    arm.close_gripper()
    arm.move_to((handle[0] - 0.07, handle[1], handle[2]))
    arm.open_gripper()
    arm.home()
    left = arm.opening()
    assert 0.3 < left < 0.6
    wait(arm, 2.0)
    assert arm.opening() == pytest.approx(left, abs=0.005)


def test_a_drawer_can_be_hooked_open_with_shut_fingers() -> None:
    arm = arm_of(Scene((), (FIXTURES[1],)), {})
    x, y, z = arm.position("drawer")
    arm.close_gripper()
    arm.move_to((x + 0.027, y + 0.02, 0.16))
    arm.move_to((x + 0.027, y + 0.02, z))
    arm.move_to((x - 0.11, y + 0.02, z))
    assert arm.opening() > 0.7


def test_a_button_springs_back_and_is_remembered() -> None:
    arm = arm_of(Scene((), (FIXTURES[2],)), {})
    top = arm.position("button")
    arm.close_gripper()
    arm.move_to((top[0], top[1], 0.1))
    assert not arm.pressed()
    arm.move_to(top)
    assert arm.position("button")[2] < top[2] - 0.005
    arm.move_to((top[0], top[1], 0.1))
    assert arm.pressed()
    assert arm.position("button")[2] == pytest.approx(top[2], abs=0.001)
    arm.reset({})
    assert not arm.pressed()


# The same again


def work(arm: Arm) -> str:
    """A bit of everything."""
    arm.reset(PLACES)
    lift(arm)
    arm.move_to((0.45, 0.25, 0.15), 0.0)
    arm.open_gripper()
    for number in range(20):
        arm.apply((np.sin(number), 0.5, -0.2, 0.3, 1.0))
    arm.home()
    return arm.state_digest()


def test_the_same_commands_give_the_same_to_the_last_bit() -> None:
    fresh, used = Arm(compiled(FULL)), Arm(compiled(FULL))
    used.reset({"red_box": (0.5, 0.1, 1.0), "blue_sphere": (0.5, -0.1, 0.0)})
    used.move_to((0.5, 0.1, 0.02), 1.0)
    used.close_gripper()
    used.apply((1, 1, 1, 1, 1))
    digest = work(fresh)
    assert work(used) == digest
    assert work(fresh) == digest
    code = f"import sys; sys.path.insert(0, {str(__file__).rpartition('/')[0]!r}); import test_control as t; "
    code += "print(t.work(t.Arm(t.compiled(t.FULL))))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest


def test_a_thing_that_was_heavier_once_is_as_heavy_as_ever_afterwards() -> None:
    fresh, used = arm_of(), arm_of(loads={"red_box": (3.0, 0.5)})
    lift(used)
    used.reset(PLACES)
    lift(fresh)
    lift(used)
    assert used.state_digest() == fresh.state_digest()


def test_loads_of_one_arm_are_not_those_of_another_in_the_same_scene() -> None:
    cell = compiled(FULL)
    one, other, alone = Arm(cell), Arm(cell), arm_of()
    other.reset(PLACES)
    one.reset(PLACES, loads={"red_box": (3.0, 1.0)})
    lift(other)
    lift(alone)
    assert other.state_digest() == alone.state_digest()


def test_a_heavier_thing_takes_more_force_to_hold() -> None:
    """Known answer: what the joints carry grows by its weight times its lever."""
    torques = []
    for factor in (1.0, 4.0):
        arm = arm_of(loads={"red_box": (factor, 1.0)})
        lift(arm)
        wait(arm, 1.0)
        torques.append(arm._data.qfrc_actuator[1])
    lever = float(np.hypot(*arm.tool()[:2]))
    expected = 3.0 * BOX.mass * 9.81 * lever
    assert abs(torques[1] - torques[0]) == pytest.approx(expected, rel=0.15)


def test_another_command_gives_another_digest() -> None:
    one, other = arm_of(), arm_of()
    assert one.state_digest() == other.state_digest()
    other.apply((0, 0, 1e-9, 0, 0))
    one.apply((0, 0, 0, 0, 0))
    assert one.state_digest() != other.state_digest()


def test_looking_changes_nothing() -> None:
    one, other = arm_of(), arm_of()
    for arm in (one, other):
        for _ in range(20):
            arm.apply((1, 0, -1, 0, 0))
            if arm is one:
                assert arm.readings().time == arm.time
                assert arm.metrics["path_length"] >= 0
    assert one.state_digest() == other.state_digest()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.floats(-3, 3), min_size=5, max_size=5), min_size=1, max_size=30))
def test_no_actions_break_the_simulation_or_push_the_tool_into_the_table(actions: list) -> None:
    arm = arm_of()
    for action in actions:
        for _ in range(3):
            arm.apply(action)
    assert arm.tool()[2] > 0.005
    assert np.isfinite(list(arm.metrics.values())).all()
    assert all(arm.position(name)[2] > -0.01 for name in PLACES)


# The second robot


@pytest.fixture(scope="module")
def ur5e() -> Arm:
    pytest.importorskip("mujoco")
    if robots.find_spec("ogbench") is None:
        pytest.skip("ogbench, whose files the UR5e is built of, is missing")
    return Arm(compiled(Scene((BOX,), robot="ur5e")))


def test_the_ur5e_lifts_with_the_same_commands(ur5e: Arm) -> None:
    ur5e.reset({"red_box": (0.45, 0.1, 0.3)})
    lift(ur5e)
    assert ur5e.held("red_box")
    assert ur5e.position("red_box")[2] > 0.18
    assert len(ur5e.joints()) == 6


def test_the_ur5e_is_the_same_again_too(ur5e: Arm) -> None:
    digests = []
    for _ in range(2):
        ur5e.reset({"red_box": (0.45, 0.1, 0.3)})
        lift(ur5e)
        digests.append(ur5e.state_digest())
    assert digests[0] == digests[1]


def test_without_ogbench_the_ur5e_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"autotelic\[ogbench\]"):
        compiled(Scene((BALL,), robot="ur5e"))
