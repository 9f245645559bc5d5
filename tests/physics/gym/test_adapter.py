import numpy as np
import pytest
from gymnasium import spaces

from autotelic import registry
from autotelic.errors import UserError
from autotelic.physics.base import Environment
from autotelic.physics.gym import adapter
from autotelic.physics.gym.adapter import GymnasiumConfig, GymnasiumEnvironment, WorkerGym, find_spec
from autotelic.physics.gym.native import NativeGym
from autotelic.physics.gym.spaces import Actions, observation_layout, observation_size, row_of
from autotelic.testing import check_environment


def gym(name: str, **settings) -> WorkerGym:
    return WorkerGym(GymnasiumConfig(id=name, **{"count": 3, "processes": 1, **settings}))


# Which one is made


def test_the_native_version_is_taken_where_there_is_one():
    with GymnasiumEnvironment(GymnasiumConfig(id="InvertedPendulum-v5", count=2, threads=1)) as environment:
        assert isinstance(environment, NativeGym)


@pytest.mark.parametrize(
    "settings",
    [
        {"id": "InvertedPendulum-v5", "native": False},
        {"id": "InvertedPendulum-v5", "options": {"max_episode_steps": 7}},
        {"id": "CartPole-v1"},
    ],
)
def test_worker_processes_are_taken_when_asked_with_options_and_for_all_else(
    settings: dict, monkeypatch: pytest.MonkeyPatch
):
    made = []
    monkeypatch.setattr(adapter, "WorkerGym", made.append)
    GymnasiumEnvironment(GymnasiumConfig(**settings))
    assert made == [GymnasiumConfig(**settings)]


def test_the_registry_knows_it():
    assert registry.get("environments", "gymnasium") is GymnasiumEnvironment
    assert registry.config_class("environments", "gymnasium") is GymnasiumConfig
    assert GymnasiumConfig(id="CartPole-v1").count == 16


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [({}, "id is not given"), ({"id": "CartPole-v1", "processes": -1}, "processes=-1"), ({"count": 0}, "count=0")],
)
def test_a_wrong_setting_is_one_line(settings: dict, complaint: str):
    with pytest.raises(UserError, match=complaint):
        GymnasiumConfig(**settings)


def test_what_is_known_of_the_environment_comes_from_gymnasium():
    with gym("CartPole-v1") as environment:
        assert (environment.limit, environment.dt, environment.sizes) == (500, 0.02, {"policy": 4})
        assert environment.name == "CartPole-v1"
        assert not environment.exact


def test_options_reach_gymnasium():
    with gym("Pendulum-v1", count=1, options={"max_episode_steps": 3}) as environment:
        environment.reset(0)
        cut = [environment.step(np.zeros((1, 1))).truncated[0] for _ in range(6)]
    assert environment.limit == 3
    assert cut == [False, False, True, False, False, True]


# Conformance


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_worker_environments_conform(name: str):
    check_environment(lambda: gym(name, options={"max_episode_steps": 20}), steps=60)


def test_native_environments_conform():
    def make() -> Environment:
        return GymnasiumEnvironment(GymnasiumConfig(id="InvertedPendulum-v5", count=3, threads=1))

    check_environment(make, steps=100)


def test_what_is_restored_begins_new_episodes_and_goes_on_counting():
    with gym("CartPole-v1") as environment:
        first = environment.reset(5)["policy"]
        for _ in range(30):
            environment.step(np.zeros(3, np.int64))
        state = environment.state()
        one, two = environment.load_state(state)["policy"], environment.load_state(state)["policy"]
        assert (state["seed"], state["steps"]) == (5, 30)
        assert (state["episodes"] >= 2).all()  # a pole that is always pushed to one side falls in about ten steps
        assert np.array_equal(one, two)
        assert not np.array_equal(one, first)
        assert (np.abs(one) <= 0.05).all()  # where CartPole begins
        later = {**state, "episodes": state["episodes"] + 1}
        assert not np.array_equal(environment.load_state(later)["policy"], one)


def test_a_state_of_another_count_is_one_line():
    with gym("CartPole-v1") as three, gym("CartPole-v1", count=2) as two:
        three.reset(0)
        with pytest.raises(UserError, match="the state is of 3 environments, not 2"):
            two.load_state(three.state())


# Names


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("HalfCheetah", r"no Gymnasium environment named 'HalfCheetah': did you mean HalfCheetah-v5\?"),
        ("CartPole-v9", r"did you mean CartPole-v1\?"),
        ("halfcheeta-v5", r"did you mean HalfCheetah-v5\?"),
        ("Qqqqqq-v0", r"gymnasium\.pprint_registry\(\) lists them"),
        ("no such", r"with a version: CartPole-v1"),
        ("ALE/Pong-v5", r"install the package that registers 'ALE/…'.* module:ALE/Pong-v5"),
        ("no_such_module:Some-v0", r"env 'no_such_module:Some-v0': No module named 'no_such_module'; install it"),
    ],
)
def test_an_unknown_name_is_one_line_that_says_what_to_do(name: str, complaint: str):
    with pytest.raises(UserError, match=complaint) as caught:
        find_spec(name)
    assert "\n" not in str(caught.value)


def test_a_missing_dependency_is_told_as_gymnasium_tells_it():
    with pytest.raises(UserError, match=r'^LunarLander-v3: Box2D is not installed.*pip install "gymnasium\[box2d\]"'):
        gym("LunarLander-v3")


# Observations


@pytest.mark.parametrize(
    ("space", "observation", "row"),
    [
        (spaces.Box(-1, 1, (3,)), np.array([1.0, 2.0, 3.0]), [1, 2, 3]),
        (spaces.Box(0, 255, (2, 2), np.uint8), np.array([[1, 2], [3, 255]], np.uint8), [1, 2, 3, 255]),
        (spaces.Box(-1, 1, ()), np.float32(0.5), [0.5]),
        (spaces.Discrete(3, start=5), 6, [0, 1, 0]),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), [0, 1, 0, 0, 1]),
        (spaces.MultiBinary(3), np.array([1, 0, 1]), [1, 0, 1]),
        (
            spaces.Dict(b=spaces.Discrete(2), a=spaces.Tuple([spaces.Box(-9, 9, (2,)), spaces.Discrete(2)])),
            {"a": (np.array([7.0, 8.0]), 0), "b": 1},
            [0, 1, 7, 8, 1, 0],
        ),
    ],
)
def test_an_observation_becomes_a_row(space: spaces.Space, observation: object, row: list[float]):
    assert observation_size(space) == len(row)
    assert row_of(space)(observation).tolist() == row


@pytest.mark.parametrize(
    ("space", "layout"),
    [
        (spaces.Box(-1, 1, (2, 3)), [("observation", 6)]),
        (spaces.Discrete(4), [("observation", 4)]),
        (spaces.Tuple([spaces.Box(-1, 1, ()), spaces.Discrete(2)]), [("observation[0]", 1), ("observation[1]", 2)]),
        (
            spaces.Dict(
                b=spaces.Discrete(2),
                a=spaces.Tuple([spaces.Box(-9, 9, (2,)), spaces.MultiBinary(3)]),
                c=spaces.Dict(x=spaces.MultiDiscrete([2, 3])),
            ),
            [("b", 2), ("a[0]", 2), ("a[1]", 3), ("c.x", 5)],
        ),
    ],
)
def test_the_parts_of_a_row_are_named_in_the_order_they_are_flattened(space: spaces.Space, layout: list):
    assert observation_layout(space) == layout
    assert sum(size for _, size in layout) == observation_size(space)


def test_the_contract_says_what_is_seen_and_in_which_order(user_envs: str):
    with gym(f"{user_envs}:Several-v0", count=1) as environment:
        seen = environment.reset(0)["policy"][0]
        layout = environment.contract()["layout"]["policy"]
    assert layout == [["steps", 6, 1.0], ["noise", 4, 1.0], ["flags", 2, 1.0]]
    assert seen[:6].tolist() == [1, 0, 0, 0, 0, 0]  # no step so far
    assert set(seen[10:]) <= {0, 1}


@pytest.mark.parametrize(
    ("space", "complaint"),
    [
        (spaces.Text(5), "observation is a Text space"),
        (spaces.Dict(near=spaces.Tuple([spaces.Text(5)])), r"observation\['near'\]\[0\] is a Text space"),
        (spaces.Sequence(spaces.Discrete(2)), "observation is a Sequence space"),
        (spaces.Graph(spaces.Discrete(2), None), "observation is a Graph space"),
    ],
)
def test_an_observation_without_a_fixed_size_is_refused(space: spaces.Space, complaint: str):
    with pytest.raises(UserError, match=complaint):
        observation_size(space)


def test_an_observation_of_another_shape_is_refused_not_repeated():
    with pytest.raises(UserError, match=r"has shape \(1,\), but its space has \(3,\)"):
        row_of(spaces.Box(-1, 1, (3,)))(np.zeros(1))


# Actions


def written(space: spaces.Space, action: list) -> list:
    actions = Actions(space)
    out = np.zeros((len(action), actions.size), actions.dtype)
    actions.write(np.array(action), out)
    return out.tolist()


def test_a_bounded_action_is_scaled_from_one_to_its_bounds_and_cut_there():
    space = spaces.Box(np.array([0.0, -4.0], np.float32), np.array([10.0, 4.0], np.float32))
    assert Actions(space).space == spaces.Box(-1, 1, (2,))
    assert written(space, [[-1.0, 0.5], [0.0, 3.0], [9.0, -9.0]]) == [[0, 2], [5, 4], [10, -4]]


def test_bounds_are_met_exactly():
    low, high = np.float32(-0.1), np.float32(0.3)
    space = spaces.Box(low, high, (1,))
    (lowest,), (highest,) = written(space, [[-1.0], [1.0]])
    assert (lowest, highest) == (low, high)


def test_an_action_without_a_bound_is_left_as_it_is_on_that_side():
    inf = np.inf
    space = spaces.Box(np.array([-inf, 2.0, -inf], np.float32), np.array([inf, inf, 3.0], np.float32))
    ours = Actions(space).space
    assert ours == space
    assert written(space, [[7.0, 7.0, 7.0], [-7.0, -7.0, -7.0]]) == [[7, 7, 3], [-7, 2, -7]]


def test_actions_of_any_shape_are_a_row_and_keep_their_type():
    actions = Actions(spaces.Box(-1, 1, (2, 3), np.float64))
    assert (actions.size, actions.shape, actions.dtype) == (6, (2, 3), np.float64)
    assert actions.space.shape == (6,)


def test_numbers_count_from_zero_for_a_policy_and_from_their_start_for_an_environment():
    assert Actions(spaces.Discrete(3, start=-1)).space == spaces.Discrete(3)
    assert written(spaces.Discrete(3, start=-1), [0, 2]) == [[-1], [1]]
    several = spaces.MultiDiscrete(np.array([[2, 3]]), start=np.array([[10, 20]]))
    assert Actions(several).space == spaces.MultiDiscrete([2, 3])
    assert written(several, [[0, 2], [1, 0]]) == [[10, 22], [11, 20]]


@pytest.mark.parametrize(
    "space",
    [spaces.MultiBinary(2), spaces.Dict(a=spaces.Discrete(2)), spaces.Tuple([]), spaces.Box(0, 5, (2,), np.int32)],
)
def test_actions_that_cannot_be_learned_are_refused(space: spaces.Space):
    with pytest.raises(UserError, match=r"actions are a (MultiBinary|Dict|Tuple|Box of int32) space: "):
        Actions(space)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_action_that_is_not_finite_is_one_line_that_blames_the_policy(value: float):
    with gym("Pendulum-v1") as environment:
        environment.reset(0)
        with pytest.raises(UserError, match=r"^Pendulum-v1, environment 2: the policy gave an action"):
            environment.step(np.array([[0.0], [0.0], [value]], np.float32))


@pytest.mark.parametrize(
    ("name", "shape", "complaint"),
    [
        ("Pendulum-v1", (1, 1), r"actions are \[3, 1\], not \[1, 1\]"),
        ("Pendulum-v1", (3,), r"actions are \[3, 1\], not \[3\]"),
        ("CartPole-v1", (3, 1), r"actions are \[3\], not \[3, 1\]"),
        ("CartPole-v1", (1,), r"actions are \[3\], not \[1\]"),
    ],
)
def test_actions_of_another_shape_are_refused_not_spread(name: str, shape: tuple[int, ...], complaint: str):
    with gym(name) as environment:
        environment.reset(0)
        with pytest.raises(ValueError, match=complaint):
            environment.step(np.zeros(shape, np.int64))


# Pictures


def test_an_environment_made_without_pictures_can_be_looked_at_after_a_reset(user_envs: str):
    with gym(f"{user_envs}:Drawn-v0", count=2) as environment:
        first = environment.reset(3)["policy"]
        frame = environment.frame(1, 8, 6)
        assert frame.shape == (6, 8, 3)
        assert frame.dtype == np.uint8
        assert frame[0, 0].tolist() == [int(first[1, 0]), 0, 0]  # it draws what it shows
        environment.step(np.zeros(2, np.int64))
        assert environment.frame(0, 8, 6)[0, 0].tolist() == [int(first[0, 0]) + 1, 0, 0]


def test_an_environment_can_be_looked_at_before_the_first_reset(user_envs: str):
    with gym(f"{user_envs}:Drawn-v0", count=2) as environment:
        assert environment.frame(1, 8, 6).shape == (6, 8, 3)


def test_pictures_cannot_be_had_later(user_envs: str):
    with gym(f"{user_envs}:Drawn-v0", count=1) as environment:
        environment.reset(3)
        environment.step(np.zeros(1, np.int64))
        with pytest.raises(UserError, match=r"was made without pictures: set env\.options\.render_mode=rgb_array"):
            environment.frame(0, 8, 6)
