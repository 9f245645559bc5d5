import pytest

from autotelic.worlds.code.world import CodeWorld, CodeWorldConfig


@pytest.fixture(scope="module")
def world():
    with CodeWorld(CodeWorldConfig(heldout=False)) as opened:
        yield opened
