import json

import pytest

from autotelic.cli import doctor
from autotelic.cli.main import main
from autotelic.worlds.code.sandbox import backends


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Backends that let something through; all are present."""
    leaky: set[str] = set()

    def prove(backend: str) -> list[tuple[str, bool, str]]:
        return [("read a file", True, ""), ("open a socket", backend not in leaky, "connected")]

    monkeypatch.setattr(doctor.proof, "prove", prove)
    monkeypatch.setattr(backends, "missing", lambda backend: "no daemon" if backend == "docker" else None)
    return leaky


def report(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_a_sandbox_that_holds_is_healthy(broken: set[str], capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", "--json"]) == 0
    shown = report(capsys)
    assert shown["healthy"] is True
    assert shown["sandbox"]["backends"]["docker"] == {
        "present": False,
        "held": False,
        "missing": "no daemon",
        "attempts": [],
    }
    assert shown["machine"]["threads"] >= 1
    assert shown["parts"]["wandb"]["extra"] == "wandb"


def test_a_default_sandbox_that_breaks_is_exit_code_1(broken: set[str], capsys: pytest.CaptureFixture[str]):
    broken.add("sandlock")
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "BROKEN  open a socket: connected" in shown
    assert "does not hold here" in shown


def test_another_backend_that_breaks_does_not_make_the_default_unhealthy(
    broken: set[str], capsys: pytest.CaptureFixture[str]
):
    broken.add("bubblewrap")
    assert main(["doctor", "--json"]) == 0
    assert report(capsys)["sandbox"]["backends"]["bubblewrap"]["held"] is False


def test_a_proof_without_attempts_proves_nothing(monkeypatch: pytest.MonkeyPatch, broken: set[str]):
    monkeypatch.setattr(doctor.proof, "prove", lambda backend: [])
    assert main(["doctor", "--json"]) == 1
