import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from autotelic.errors import UserError
from autotelic.runs import workers

WITH_CHILD = """
import os, sys, time
child = os.fork()
if child:
    print(child, flush=True)
    if sys.argv[1] == "end":
        os._exit(0)
time.sleep(60)
"""


def test_stopping_a_worker_stops_what_it_started(alive: Callable[[int], bool], eventually: Callable[..., bool]):
    worker = workers.start([sys.executable, "-c", WITH_CHILD, "stay"], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    child = int(worker.stdout.readline())
    assert alive(child)
    assert workers.stop(worker) == -signal.SIGKILL
    assert eventually(lambda: not alive(child))
    assert worker not in workers.live()


def test_what_an_ended_worker_left_behind_is_stopped_too(alive: Callable[[int], bool], eventually: Callable[..., bool]):
    worker = workers.start([sys.executable, "-c", WITH_CHILD, "end"], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    child = int(worker.stdout.readline())
    assert workers.wait(worker, 30) == 0
    assert alive(child)
    workers.stop(worker)
    assert eventually(lambda: not alive(child))


def test_a_patient_stop_lets_a_worker_finish():
    program = (
        "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(7))\nprint(1, flush=True)\ntime.sleep(60)"
    )
    worker = workers.start([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    worker.stdout.readline()
    assert workers.stop(worker, patience=10) == 7


def test_a_worker_gets_only_the_descriptors_and_environment_it_is_given():
    read, write = os.pipe()
    inherited, other = os.pipe()
    program = f"import os\nos.write({write}, repr(sorted(os.environ)).encode())\nos.fstat({inherited})"
    worker = workers.start([sys.executable, "-c", program], pass_fds=[write], env={"A": "1"}, stderr=subprocess.DEVNULL)
    assert worker.wait(30) == 1
    names = os.read(read, 1000).decode()
    assert "'A'" in names
    assert "PATH" not in names
    workers.stop(worker)
    for descriptor in (read, write, inherited, other):
        os.close(descriptor)


def test_a_program_that_is_not_there_is_one_line():
    with pytest.raises(UserError, match=r"cannot start /no/such: No such file"):
        workers.start(["/no/such"])


def test_output_is_none_when_a_command_fails_hangs_or_is_missing():
    before = workers.live()  # of other tests' fixtures
    assert workers.output([sys.executable, "-c", "print(3)"]) == "3"
    assert workers.output([sys.executable, "-c", "raise SystemExit(1)"]) is None
    assert workers.output([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.2) is None
    assert workers.output(["/no/such"]) is None
    assert workers.live() == before


PARENT = """
import signal, sys, time
from autotelic.runs import workers
workers.exit_on_sigterm()
worker = workers.start([sys.executable, "-c", "import time; time.sleep(60)"])
print(worker.pid, flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "number"),
    [("time.sleep(60)", signal.SIGTERM), ("time.sleep(60)", signal.SIGINT), ("", None), ("raise ValueError", None)],
)
def test_workers_end_with_the_process_that_started_them(
    end: str, number: int | None, alive: Callable[[int], bool], eventually: Callable[..., bool]
):
    command = [sys.executable, "-c", PARENT.format(end=end)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        if number is not None:
            parent.send_signal(number)
        parent.wait(30)
    assert eventually(lambda: not alive(worker))


FOLLOWER = """
import sys, time
from autotelic.runs import workers
workers.exit_on_sigterm()
workers.follow_lifeline()
print("following", flush=True)
time.sleep(60)
"""


def test_a_worker_with_a_lifeline_notices_that_its_parent_was_killed(
    alive: Callable[[int], bool], eventually: Callable[..., bool]
):
    program = (
        "import sys, time\nfrom autotelic.runs import workers\n"
        f"worker = workers.start([sys.executable, '-c', {FOLLOWER!r}], lifeline=True)\n"
        "print(worker.pid, flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert parent.stdout.readline() == b"following\n"
        parent.send_signal(signal.SIGKILL)
        assert eventually(lambda: not alive(worker))


STOPPABLE = """
import sys, time
from autotelic.runs import workers
with workers.graceful_stop(lambda line: print(line, flush=True)) as stop:
    print("ready", flush=True)
    while not stop.requested:
        time.sleep(0.01)
    if sys.argv[1] == "linger":
        print("lingering", flush=True)
        time.sleep(60)
print("saved", flush=True)
sys.exit(stop.exit_code)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_lets_the_step_finish(number: int, code: int):
    with subprocess.Popen([sys.executable, "-c", STOPPABLE, "save"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.read().endswith(b"saved\n")
        assert process.wait(30) == code


def test_the_second_signal_ends_at_once():
    with subprocess.Popen([sys.executable, "-c", STOPPABLE, "linger"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        while process.stdout.readline() != b"lingering\n":
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_signal_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT)
    with workers.graceful_stop():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
