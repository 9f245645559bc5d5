"""The ways to put the server into a sandbox: sandlock (default), bubblewrap, docker. Never another than the one named.

Each starts the same interpreter with the same first words and a control socket; what happens inside is the same for
all (`inside.py`, `confine.py`), so that what differs is only the wall around it.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from autotelic.errors import UserError
from autotelic.runs import workers
from autotelic.worlds.code.sandbox.config import SandboxConfig

_HERE = Path(__file__).parent
NAMES = ("sandlock", "bubblewrap", "docker")

# The first words of a server: fetch its own source over the control socket, so that no file of ours is inside. Another
# process compiles it: what that leaves behind in memory would be copied with every job.
_BOOT = """
import _socket, marshal, posix, sys
if sys.argv[1] == "-":
    control = _socket.socket(fileno=0)
else:
    control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    control.connect(sys.argv[1])
try:
    compiled, told = posix.pipe()
    if posix.fork() == 0:
        try:
            hello = {}
            exec(control.recv(1 << 20) or "raise SystemExit", hello)  # the host may be gone already
            code = [(name, compile(source, f"<{name}>", "exec")) for name, source in hello["sources"].items()]
            data = marshal.dumps((code, hello["settings"]))
            while data:
                data = data[posix.write(told, data) :]
        except Exception as error:
            control.send(f"{type(error).__name__}: {error}".encode()[:1000])
        finally:
            posix._exit(0)
    posix.close(told)
    data = b""
    while more := posix.read(compiled, 1 << 20):
        data += more
    posix.close(compiled)
    posix.wait()
    if not data:
        raise SystemExit
    code, settings = marshal.loads(data)
    modules = {name: type(sys)(name) for name, _ in code}
    sys.modules.update(modules)
    for name, body in code:
        exec(body, modules[name].__dict__)
    for name in modules:
        del sys.modules[name]
    del code, data
    modules["inside"].serve(control, settings)
except Exception as error:
    control.send(f"{type(error).__name__}: {error}".encode()[:1000])
    raise SystemExit(1)
"""
# -s -P and an empty environment are what -I does, except that -I would also ignore PYTHONHASHSEED.
_FLAGS = ["-s", "-P", "-S", "-X", "no_debug_ranges", "-c", _BOOT]


def start(config: SandboxConfig, hash_seed: int) -> tuple[subprocess.Popen, socket.socket]:
    """Starts one server and returns its process and the host's end of the control socket."""
    hello = {"sources": _sources(), "settings": {}}
    hello["settings"] |= {"hash_seed": hash_seed, "memory": config.limits.memory, "preload": list(config.preload)}
    if config.backend == "docker":
        return _start_docker(hash_seed, hello, config.image)
    # In namespaces there is nothing to see but what may be read; without them the server grants each file by name.
    hidden = config.namespaces or config.backend == "bubblewrap"
    hello["settings"]["readable"] = ["/"] if hidden else [*_standard_modules(), *_libraries()]
    hello["settings"]["listable"] = [_standard_library()]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        argv = _sandlock(config.namespaces) if config.backend == "sandlock" else _bubblewrap()
        # What a server does not have, no job can see. Symbols bound at its start need not be looked up in every job.
        environment = {"PYTHONHASHSEED": str(hash_seed), "LD_BIND_NOW": "1"}
        process = workers.start(argv, stdin=theirs.fileno(), env=environment, cwd="/")
    _greet(ours, hello)
    return process, ours


def missing(backend: str) -> str | None:
    """Why a backend cannot run here, or None."""
    if backend == "bubblewrap" and not shutil.which("bwrap"):
        return "bubblewrap is not installed (Debian and Ubuntu: apt-get install bubblewrap)"
    if backend == "docker":
        if not shutil.which("docker"):
            return "the docker client is not installed"
        if workers.output(["docker", "version", "--format", "{{.Server.Version}}"], timeout=10) is None:
            return "no Docker daemon answers"
    if backend == "sandlock":
        import sandlock

        have, need = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
        if have < need:
            return f"sandlock needs Landlock ABI {need}, this kernel has {max(have, 0)}: choose bubblewrap or docker"
    return None


def _greet(control: socket.socket, hello: dict) -> None:
    data = "".join(f"{name} = {value!r}\n" for name, value in hello.items()).encode()
    control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * len(data))
    control.send(data)


@functools.cache
def _sources() -> dict[str, str]:
    return {name: (_HERE / f"{name}.py").read_text() for name in ("values", "confine", "inside")}


@functools.cache
def interpreter() -> str:
    """The real interpreter behind a virtual environment: it finds its own standard library without any of ours."""
    return os.path.realpath(sys.executable)


@functools.cache
def _standard_library() -> str:
    return os.path.realpath(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))


@functools.cache
def _standard_modules() -> tuple[str, ...]:
    """What is in the standard library's folder, without what is installed beside it."""
    library = _standard_library()
    names = sorted(set(os.listdir(library)) - {os.path.basename(path) for path in _installed_beside()})
    return tuple(os.path.join(library, name) for name in names)


@functools.cache
def _libraries() -> tuple[str, ...]:
    """The shared libraries that the interpreter and its extension modules load, asked of a process that loads them."""
    probe = (
        "import ctypes, glob, os, sys\n"
        "for path in glob.glob(os.path.join(os.path.dirname(os.__file__), 'lib-dynload', '*.so')):\n"
        "    try:\n        ctypes.CDLL(path)\n    except OSError:\n        pass\n"
        "for line in open('/proc/self/maps'):\n"
        "    path = line.split(maxsplit=5)[5:]\n"
        "    if path and path[0].startswith('/') and '.so' in path[0]: print(path[0].strip())\n"
    )
    found = workers.output([interpreter(), "-I", "-S", "-c", probe], timeout=60)
    if found is None:
        raise UserError(f"sandbox: the interpreter {interpreter()} does not run")
    inside_library = _standard_library() + os.sep
    paths = {path for path in found.split("\n") if path and not path.startswith(inside_library)}
    # The loader opens libraries by the names the dynamic linker knows, which may be links to the files mapped.
    names = {os.path.join(os.path.dirname(path), name) for path in paths for name in _links_to(path)}
    return tuple(sorted(paths | names | {"/etc/ld.so.cache", interpreter()}))


def _links_to(path: str) -> list[str]:
    folder, stem = os.path.dirname(path), os.path.basename(path).split(".so")[0]
    return [name for name in os.listdir(folder) if name.startswith(stem) and ".so" in name]


def _sandlock(namespaces: bool) -> list[str]:
    """sandlock confines a process in place, for good and through exec. Its supervised mode is not used: the supervisor
    would be asked at every fork, which costs each job a third of a millisecond and adds nothing to what jobs deny
    themselves in `confine.py`. A program of its own does it, because our process must stay free.
    """
    request = {
        "hide": namespaces,
        "readable": [*_libraries(), *_loaders(), _standard_library()],
        "masked": _installed_beside(),
        "command": [interpreter(), *_FLAGS, "-"],
    }
    return [sys.executable, "-I", str(_HERE / "launch.py"), json.dumps(request)]


def _installed_beside() -> list[str]:
    """Where packages are installed inside the standard library's folder: not part of it."""
    return [os.path.join(_standard_library(), name) for name in ("site-packages", "dist-packages")]


def _loaders() -> list[str]:
    """The dynamic loader, where it is reached by a name of its own."""
    return [path for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if os.path.exists(path)]


def _bubblewrap() -> list[str]:
    library = _standard_library()
    binds = [part for path in (*_libraries(), *_loaders()) for part in ("--ro-bind", path, path)]
    hidden = [part for path in _installed_beside() if os.path.isdir(path) for part in ("--tmpfs", path)]
    # fmt: off
    return [
        shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        "--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox",
        *binds, "--ro-bind", library, library, *hidden,
        "--dev-bind", "/dev/null", "/dev/null", "--size", str(1 << 20), "--tmpfs", "/tmp", "--chdir", "/tmp",
        interpreter(), *_FLAGS, "-",
    ]
    # fmt: on


def _start_docker(hash_seed: int, hello: dict, image: str) -> tuple[subprocess.Popen, socket.socket]:
    """A container reaches us through a socket in a folder of its own: descriptors cannot pass through the daemon."""
    hello["settings"]["readable"] = ["/lib", "/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/bin"]
    hello["settings"]["listable"] = ["/usr/lib", "/usr/local/lib"]
    folder = Path(tempfile.mkdtemp(prefix="autotelic-"))
    folder.chmod(0o755)
    address = folder / "control"
    # fmt: off
    argv = [
        "docker", "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", "--user", "65534:65534",
        "--security-opt", "no-new-privileges", "--pids-limit", "256", "--env", f"PYTHONHASHSEED={hash_seed}",
        "--volume", f"{folder}:/run/autotelic", "--tmpfs", "/tmp:size=1m", "--workdir", "/tmp",
        "--entrypoint", "python3", image, *_FLAGS, "/run/autotelic/control",
    ]
    # fmt: on
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(address))
            address.chmod(0o666)
            listener.listen(1)
            listener.settimeout(120)
            process = workers.start(argv, env=None)
            try:
                control, _ = listener.accept()
            except TimeoutError:
                workers.stop(process)
                raise UserError(f"sandbox: the container of image {image} did not answer within two minutes") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    control.settimeout(None)
    _greet(control, hello)
    return process, control
