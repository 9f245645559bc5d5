import mujoco
import numpy as np
import pytest
from mujoco.batch import Batch

from autotelic.physics.forces import ContactForces
from autotelic.physics.simulation import Simulation

BALL = """
<mujoco>
  <option integrator="{integrator}"/>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body pos="0 0 0.0999"><freejoint/><geom size="0.1" mass="2"/></body>
  </worldbody>
</mujoco>
"""


def model(integrator: str = "RK4") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(BALL.format(integrator=integrator))


@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicitfast"])
def test_forces_are_those_mujoco_computes_for_one_simulation(integrator: str) -> None:
    simulation = Simulation(model(integrator), 3, substeps=2, threads=1, forces=True)
    simulation.qpos[:, 2] += (0.0, -0.003, 0.5)
    peers = [mujoco.MjData(simulation.model) for _ in range(3)]
    for peer, qpos in zip(peers, simulation.qpos, strict=True):
        peer.qpos[:] = qpos
    # The batch computed each simulation once, from another height, to learn where it is.
    simulation.batch.bind("qacc_warmstart")[:] = 0
    for _ in range(20):
        simulation.step()
        for at, peer in enumerate(peers):
            mujoco.mj_step(simulation.model, peer, 2)
            mujoco.mj_rnePostConstraint(simulation.model, peer)
            assert np.array_equal(simulation.field("cfrc_ext")[at], peer.cfrc_ext)
    assert simulation.field("cfrc_ext")[1, 1].any()
    assert not simulation.field("cfrc_ext")[2, 1].any()


def test_a_ball_at_rest_is_carried_by_its_weight() -> None:
    simulation = Simulation(model(), 1, substeps=500, threads=1, forces=True)
    simulation.step()
    assert simulation.field("cfrc_ext")[0, 1, 5] == pytest.approx(2 * 9.81, rel=1e-3)


def test_simulations_given_up_are_not_asked() -> None:
    batch = Batch(model(), 2, 1, persistent=True)
    forces, found = ContactForces(batch), batch.bind("cfrc_ext")
    batch.reset()
    batch.step()
    forces.compute(failed=np.array([True, False]))
    assert not found[0].any()
    assert found[1].any()


def test_shared_data_is_refused() -> None:
    with pytest.raises(ValueError, match="persistent"):
        ContactForces(Batch(model(), 2, 1))


def test_no_callback_is_left_behind() -> None:
    before = mujoco.get_mjcb_control()
    ContactForces(Batch(model(), 2, 1, persistent=True))
    assert before is None
    assert mujoco.get_mjcb_control() is None
