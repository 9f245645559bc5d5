import pytest

from autotelic.worlds.code.kinds.base import KindConfig
from autotelic.worlds.code.world import CodeWorld, CodeWorldConfig


@pytest.fixture(scope="module")
def world():
    with CodeWorld(CodeWorldConfig(heldout=False, kind=KindConfig(inputs=10))) as opened:
        yield opened
