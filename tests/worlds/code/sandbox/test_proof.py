"""The proof that `autotelic doctor` shows: it holds where the sandbox holds, and notices where it does not."""

import pytest

from autotelic.worlds.code.sandbox import backends, proof


def test_every_available_backend_holds(backend: str) -> None:
    assert [held for held in proof.prove(backend) if not held.held] == []


def test_a_backend_that_cannot_start_has_held_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "missing", lambda backend: f"{backend} is not here")
    (only,) = proof.prove("docker")
    assert not only.held
    assert "docker is not here" in only.detail


WEAKENED = {
    "network": ("confine", " socket:41:198", " "),
    "signal": ("confine", '"kill": _argument_is(0, [_OWN_PID], _KILL)', '"kill": _return(_ALLOW)'),
    "fork": ("confine", " clone:56:220", " "),
    "memory": ("inside", "(mebibytes + BASE_MEMORY) << 20,", "confine.UNLIMITED,"),
    "environment": ("inside", "os.environ.clear()", "os.environ['HOME'] = '/root'"),
    "forged result": (
        "inside",
        'send(b"v", encode(call(*args), max_bytes))',
        '(value := call(*args)) == 2 or send(b"v", encode(value, max_bytes))',
    ),
}
# Calls taken off the deadly list must be on the other one, or they are still refused.
ALLOWED = {"network": "socket:41:198", "fork": "clone:56:220"}


@pytest.mark.parametrize("name", WEAKENED)
def test_a_weakened_sandbox_is_noticed(backend: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, strong, weak = WEAKENED[name]
    sources = dict(backends._sources())
    assert strong in sources[file]
    sources[file] = sources[file].replace(strong, weak)
    if name == "signal":  # two walls stand before it
        sources[file] = sources[file].replace('struct.pack("=QQQ", 0, 0, 3)', 'struct.pack("=QQQ", 0, 0, 1)')
    if name in ALLOWED:
        sources[file] = sources[file].replace("\naccess:21:", f"\n{ALLOWED[name]} access:21:")
    monkeypatch.setattr(backends, "_sources", lambda: sources)
    monkeypatch.setattr(proof, "_ATTACKS", {name: proof._ATTACKS[name]})
    (only,) = proof.prove(backend)
    assert (only.name, only.held) == (name, False), only
