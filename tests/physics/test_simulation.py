import mujoco
import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.physics.simulation import FASTEST, Simulation

CUBES = 6


def model(memory: str = "1M", cubes: int = CUBES) -> mujoco.MjModel:
    """Cubes above a plane."""
    cube = '<body pos="{} 0 1"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>'
    bodies = "".join(cube.format(index) for index in range(cubes))
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><size memory="{memory}"/><worldbody><geom type="plane" size="9 9 1"/>{bodies}</worldbody></mujoco>'
    )


def simulation(count: int = 3, **keys) -> Simulation:
    return Simulation(model(**keys), count, substeps=2, threads=1)


# Broken simulations


def test_none_breaks_in_free_fall() -> None:
    falling = simulation()
    for _ in range(5):
        assert not falling.step().any()


def test_a_simulation_that_mujoco_gives_up_has_broken_and_no_other() -> None:
    # So little memory that MuJoCo raises an error once all cubes touch the ground.
    falling = simulation(memory="72K")
    falling.qpos[1, 2::7] = 0.09
    assert falling.step().tolist() == [False, True, False]
    assert "stack overflow" in falling.batch.error(1)


@pytest.mark.parametrize(("speed", "broken"), [(2.0 * FASTEST, True), (-2.0 * FASTEST, True), (0.5 * FASTEST, False)])
def test_a_simulation_that_flies_apart_has_broken_though_its_numbers_are_finite(speed: float, broken: bool) -> None:
    falling = simulation()
    falling.qvel[2, 0] = speed
    assert falling.step().tolist() == [False, False, broken]
    assert np.isfinite(falling.qvel).all()


def test_a_simulation_with_a_nan_has_broken() -> None:
    falling = simulation()
    falling.qpos[0, 1] = np.nan
    assert falling.step().tolist() == [True, False, False]


# Resets


@pytest.mark.parametrize("forces", [False, True])
def test_a_simulation_that_was_reset_goes_on_as_one_that_has_just_been_made(forces: bool) -> None:
    falling = Simulation(model(), 3, substeps=2, threads=1, forces=forces)
    falling.qpos[:, 2::7] = 0.1  # on the ground: solving contacts leaves more behind than places and speeds
    falling.qvel[1] = 0.3
    for _ in range(3):
        falling.step()
    falling.reset(np.array([1]))
    falling.forward(np.array([1]))
    new = Simulation(model(), 3, substeps=2, threads=1, forces=forces)
    new.forward()
    assert np.array_equal(falling.batch.state[1], new.batch.state[1])
    for _ in range(30):
        for each in (falling, new):
            each.qpos[1, 2::7] -= 0.05
            each.step()
    assert np.array_equal(falling.batch.state[1], new.batch.state[1])
    assert not np.array_equal(falling.batch.state[0], new.batch.state[0])


# Parameters


def test_a_parameter_is_each_simulations_own() -> None:
    falling = simulation()
    falling.parameter("opt.gravity")[:, 2] = (0.0, -5.0, -10.0)
    falling.step()
    assert falling.qvel[:, 2] == pytest.approx(np.array([0.0, -5.0, -10.0]) * falling.dt)


def test_parameters_are_refused_where_contact_forces_are_computed() -> None:
    with pytest.raises(RuntimeError, match="body_mass: contact forces"):
        Simulation(model(), 2, substeps=1, threads=1, forces=True).parameter("body_mass")


# States


def test_a_state_goes_on_with_its_parameters() -> None:
    one, other = simulation(), simulation()
    for each in (one, other):
        each.parameter("opt.gravity")
    one.parameter("opt.gravity")[1] = 0.0
    one.step()
    other.load_state(one.state())
    one.step()
    other.step()
    assert (one.qpos == other.qpos).all()


def test_a_state_of_another_count_is_refused_before_anything_is_written() -> None:
    one, three = simulation(1), simulation(3)
    one.qpos[:] = 7.0
    before = three.batch.state.copy()
    with pytest.raises(UserError, match="the state is of 1 simulations, not 3"):
        three.load_state(one.state())
    assert (three.batch.state == before).all()


def test_a_state_of_another_model_is_refused() -> None:
    with pytest.raises(UserError, match="the state is of another model"):
        simulation().load_state(simulation(cubes=2).state())


@pytest.mark.parametrize("there", [[], ["body_mass"]])
def test_a_state_with_other_parameters_is_refused_before_anything_is_written(there: list[str]) -> None:
    one, other = simulation(), simulation()
    one.parameter("opt.gravity")
    one.qpos[:] = 7.0
    for name in there:
        other.parameter(name)
    before = other.batch.state.copy()
    with pytest.raises(UserError, match=rf"of other settings \(parameters: {', '.join([*there, 'opt.gravity'])}\)"):
        other.load_state(one.state())
    assert (other.batch.state == before).all()
