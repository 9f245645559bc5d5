"""The sandbox holds for a host without privileges too. Where the tests run as another user, all of them say so."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import autotelic

NOBODY = 65534
SCRIPT = """
import json, os, sys
from autotelic.worlds.code.sandbox import Job, Limits, Sandbox, SandboxConfig, proof
programs = json.load(open(sys.argv[2]))
with Sandbox(SandboxConfig(backend=sys.argv[1], servers=2, limits=Limits(wall=3.0, memory=128))) as sandbox:
    outcomes = sandbox.run([Job(program, ('["t"]',)) for program in programs.values()])
ends = {name: f"{o.kind} {o.detail}".strip() for name, (o,) in zip(programs, outcomes)}
held = {h.name: h.held for h in proof.prove(sys.argv[1])}
print(json.dumps({"uid": os.getuid(), "ends": ends, "held": held}))
"""
KEPT_OUT = "def f():\n    try:\n        open({})\n    except OSError:\n        1 // 0"
TRACE = "import ctypes, os\ndef f():\n    ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)"
CORPUS = {
    "honest": ("def f():\n    return 1", "ok"),
    "network": ("import socket\ndef f():\n    socket.socket()", "forbidden syscall"),
    "fork": ("import os\ndef f():\n    os.fork()", "forbidden syscall"),
    "thread": ("import _thread\ndef f():\n    _thread.start_new_thread(print, ())", "forbidden syscall"),
    "kill": ("import os\ndef f():\n    os.kill(os.getppid(), 9)", "forbidden syscall"),
    "kill-all": ("import os\ndef f():\n    os.kill(-1, 9)", "forbidden syscall"),
    "exec": ("import os\ndef f():\n    os.execv('/bin/sh', ['sh'])", "forbidden syscall"),
    "ptrace": (TRACE, "forbidden syscall"),
    "passwd": (KEPT_OUT.format("'/etc/passwd'"), "exception ZeroDivisionError"),
    "own-file": (KEPT_OUT.format("'/proc/self/mem'"), "exception ZeroDivisionError"),
    "write": (KEPT_OUT.format("'/tmp/x', 'w'"), "exception ZeroDivisionError"),
    "limits": ("import resource\ndef f():\n    resource.setrlimit(0, (9, 9))", "exception ValueError"),
    "memory": ("def f():\n    bytearray(1 << 40)", "limit memory"),
    "segfault": ("import ctypes\ndef f():\n    ctypes.string_at(0)", "crash SIGSEGV"),
    "object": ("def f():\n    return object()", "unsupported object"),
}


@pytest.fixture(scope="module")
def reachable(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """An interpreter that another user can start, and a folder with our sources that they can read."""
    if os.getuid() != 0:
        pytest.skip("the whole suite already runs as a user without privileges")
    import sandlock

    interpreter = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not os.path.exists(interpreter):
        pytest.skip(f"no interpreter that another user can reach: {interpreter} is missing")
    folder = tmp_path_factory.mktemp("other-user")
    # An environment of its own: a server's launcher ignores PYTHONPATH.
    subprocess.run([interpreter, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    packages = next((folder / "venv").glob("lib/python*/site-packages"))
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(autotelic.__file__).parent, packages / "autotelic", ignore=ignore)
    for part in Path(sandlock.__file__).parent.parent.glob("sandlock*"):
        if part.is_dir():
            shutil.copytree(part, packages / part.name, ignore=ignore)
    (folder / "corpus.json").write_text(json.dumps({name: program for name, (program, _) in CORPUS.items()}))
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    for parent in folder.parents:
        if parent.stat().st_mode & 0o001 == 0:
            parent.chmod(parent.stat().st_mode | 0o011)
    return str(folder / "venv" / "bin" / "python"), folder


def test_the_sandbox_holds_for_a_user_without_privileges(backend: str, reachable: tuple[str, Path]) -> None:
    interpreter, folder = reachable
    done = subprocess.run(
        [interpreter, "-I", "-c", SCRIPT, backend, str(folder / "corpus.json")],
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["uid"] == NOBODY
    assert said["ends"] == {name: expected for name, (_, expected) in CORPUS.items()}
    assert all(said["held"].values()), said["held"]
