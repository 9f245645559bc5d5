import pytest

from autotelic.worlds.code.sandbox import Sandbox, SandboxConfig


@pytest.fixture(scope="session")
def sandbox():
    with Sandbox(SandboxConfig()) as opened:
        yield opened
