"""`autotelic` run by a process that has loaded it already: a test of a command waits for the command, not for imports.

Each command still has a process of its own, forked when it is asked for, which can be signalled and killed like any
other; tests of how a process starts start theirs themselves.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from autotelic import physics as physics  # decides where MuJoCo draws, before a test loads it

# As many tests as cores run side by side: more threads in each would wait for each other, spinning.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell lets what it runs in the background ignore Ctrl-C, and all that is started from there: the programs that tests
# interrupt too.
signal.signal(signal.SIGINT, signal.default_int_handler)

LOADED = [f"autotelic.cli.{verb}" for verb in ("play", "resume", "eval", "verify", "compare", "export", "runs")]
LOADED += ["autotelic.show.report", "autotelic.show.compare_plot", "autotelic.minds.learner", "hydra", "numpy"]
LOADED += ["autotelic.cli.train", "autotelic.training.ppo", "autotelic.policies.mlp", "autotelic.physics.gym.native"]
LOADED += ["autotelic.cli.data", "autotelic.play.demonstrating", "autotelic.data.robomimic"]
LOADED += ["autotelic.show.video", "torch._dynamo"]  # the last: every optimizer of torch loads it
SERVER = """
import gc, importlib, json, os, sys, traceback
from autotelic.cli.main import leave, main

def load(names):
    for name in names:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is loaded stays in memory that parent and children share
    print(flush=True)

load(json.loads(sys.argv[1]))
for line in sys.stdin:
    asked = json.loads(line)
    if "load" in asked:
        load(asked["load"])
        continue
    if "ended" in asked:
        print(os.waitstatus_to_exitcode(os.waitpid(asked["ended"], 0)[1]), flush=True)
        continue
    child = os.fork()
    if not child:
        for number, path in enumerate([asked["in"], asked["out"], asked["err"]]):
            os.dup2(os.open(path, os.O_RDONLY if not number else os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdin = open(0, closefd=False)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        sys.path[:0] = [asked["cwd"], *filter(None, asked["env"].get("PYTHONPATH", "").split(os.pathsep))]
        try:
            if asked["program"] is None:
                code = main(asked["arguments"])
            else:
                sys.argv[1:], code = asked["arguments"], 0
                exec(asked["program"], {"__name__": "__main__"})
        except SystemExit as ended:
            code = ended.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
        leave(code)
    print(child, flush=True)
"""
PATIENCE = 100.0  # seconds that a command may take


@dataclass
class Done:
    """What became of a command."""

    code: int
    out: str
    err: str

    def complaint(self) -> str:
        """The one line of a mistake."""
        assert self.code == 2, self
        assert len(self.err.splitlines()) == 1, self.err
        assert self.err.startswith("autotelic: ")
        return self.err.strip()


class Started:
    """A command that runs, and what is asked of a `subprocess.Popen`."""

    def __init__(self, server: Server, pid: int, out: Path, err: Path) -> None:
        self.server, self.pid, self.out, self.err = server, pid, out, err
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return None if self.returncode is None and running(self.pid) else self.wait()

    def wait(self) -> int:
        if self.returncode is None:  # until it is asked for, the number stays this command's
            self.returncode = int(self.server.ask({"ended": self.pid}))
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        self.wait()
        return self.out.read_text(), self.err.read_text()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Server:
    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, 0
        self.process: subprocess.Popen[str] | None = None

    def start(
        self,
        arguments: list[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        program: str | None = None,
        stdin: Path = Path(os.devnull),
        stdout: Path | None = None,
    ) -> Started:
        """With a program, that of Python instead of the command."""
        self.started += 1
        out, err = stdout or self.folder / f"out-{self.started}", self.folder / f"err-{self.started}"
        asked = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "program": program}
        asked |= {"in": str(stdin), "out": str(out), "err": str(err)}
        return Started(self, int(self.ask(asked)), out, err)

    def run(self, arguments: list[str], cwd: Path, env: Mapping[str, str], *, program: str | None = None) -> Done:
        command = self.start(arguments, cwd, env, program=program)
        return Done(command.wait(), *command.communicate())

    def load(self, *modules: str) -> None:
        """What several commands will want, and few tests."""
        self.ask({"load": modules})

    def ask(self, asked: Mapping[str, object]) -> str:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVER, json.dumps(LOADED)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            self._answer(self.process)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return self._answer(self.process)

    def _answer(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        if select.select([process.stdout], [], [], PATIENCE)[0] and (line := process.stdout.readline()):
            return line
        self.close()
        raise TimeoutError(f"the server of commands died, or a command took over {PATIENCE:g} s")

    def close(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            self.process = None


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Starts `autotelic` with arguments, in a folder, with an environment."""
    server = Server(tmp_path_factory.mktemp("commands"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def run_autotelic(commands: Server) -> Callable[..., Done]:
    """Runs `autotelic` with arguments, in a folder, with an environment, to its end."""
    return commands.run


@pytest.fixture(scope="session")
def together(commands: Server) -> Callable[..., list[Done]]:
    """Runs two commands, or programs, that meet as those of torchrun do: at a store that none of them holds."""
    pytest.importorskip("torch")
    from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

    def run(arguments: list[str], cwd: Path, program: str | None = None) -> list[Done]:
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "GLOO_SOCKET_IFNAME": "lo"}
        torchrun = {"WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
        ranks = [{**os.environ, **meeting, **torchrun, "RANK": str(rank)} for rank in range(2)]
        started = [commands.start(arguments, cwd, env, program=program) for env in ranks]
        return [Done(command.wait(), *command.communicate()) for command in started]

    return run


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


@pytest.fixture(scope="session")
def eventually() -> Callable[..., bool]:
    """Whether a condition comes true in so many seconds."""
    return wait_until


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture(scope="session")
def alive() -> Callable[[int], bool]:
    """Whether there is a process of this number that has not ended."""
    return running


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small tensors are slower on several threads, and other tests want the cores."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def example() -> ModuleType:
    """The example that runs an exported policy."""
    pytest.importorskip("onnxruntime")
    file = Path(__file__).parents[1] / "examples" / "run_exported_policy.py"
    spec = importlib.util.spec_from_file_location("run_exported_policy", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
