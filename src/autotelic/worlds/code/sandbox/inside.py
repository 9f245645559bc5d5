"""The server: the process inside the sandbox that forks one child for each job. It never sees a job itself.

The host sends it one end of a socket pair for each job; the server forks, and only the child reads from that end.
So no job, and no expected answer, is ever in the memory that the next job's process is copied from. The server
knows ids, pids and exit statuses, and reports the latter.

Messages on the control socket (one packet each): host → server b"F" and (id, CPU seconds, MiB) for each descriptor
that comes with it: fork; b"K" id: kill; server → host: id, wait status, processor milliseconds. Frames on a job's own
socket: length, one byte saying what, payload. This file is sent into the sandbox. It imports
little, and C modules without their Python wrappers: every job's process is a copy of this one, and what is not there
need not be copied.
"""

import _signal  # pyright: ignore[reportMissingImports]
import _socket
import builtins
import ctypes
import gc
import os
import select
import struct
import sys
from _json import encode_basestring_ascii as quote

import confine  # pyright: ignore[reportMissingImports]  # sent along with this file
import values  # pyright: ignore[reportMissingImports]

FORK = struct.Struct("=III")
NOTICE = struct.Struct("=IiI")
LENGTH = struct.Struct("=I")
CONTROL_PACKET = 4096
GARBAGE = 20_000  # new objects before a job's garbage is looked for: most end without
GATHER = 0.002  # seconds to wait for more ends to report
ANCILLARY = 512  # bytes of descriptors that one control packet may carry
JOB_FD = 3
CONFINED = b"\x01"  # a child's first word
NOTICES = 300  # that one packet may carry
FIRST_FREE = 10  # descriptors of the server itself start here
MAX_DESCRIPTORS = 256  # of the server, all closed in its children
CANNOT_CONFINE = 77  # exit status of a child that could not confine itself and therefore read no job
MAX_MESSAGE = 500
BASE_MEMORY = 64  # MiB of address space that the interpreter itself takes

ERRORS = {error.__name__: error for error in (ValueError, TypeError, RuntimeError, KeyError, TimeoutError)}


# The C library's fork, with the interpreter's lock held: os.fork would also run what modules ask to be run in every
# child (random seeds itself anew, threading rebuilds its tables), which touches pages and undoes `random.seed`. It is
# safe because the server has one thread.
fork = ctypes.PyDLL(None).fork


class Channel:
    """Frames over the job's own socket."""

    def __init__(self, descriptor):
        self._descriptor = descriptor

    def send(self, tag, text):
        data = text.encode("ascii", "backslashreplace")
        data = LENGTH.pack(len(data) + 1) + tag + data
        while data:
            data = data[os.write(self._descriptor, data) :]

    def receive(self):
        """The next frame. The host sends one at a time, so what arrives belongs to it."""
        data = self._read()
        while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
            data += self._read()
        return data[LENGTH.size : LENGTH.size + 1], data[LENGTH.size + 1 :].decode("ascii")

    def _read(self):
        data = os.read(self._descriptor, 1 << 16)
        if not data:
            os._exit(0)  # the host has closed the session
        return data


class Answerer:
    """Makes the program's remote objects: each of their calls is a question to the host."""

    def __init__(self, channel):
        self._channel = channel

    def remote(self, name, methods):
        members = {method: self._method(name, method) for method in methods}
        return type(name, (), {"__slots__": (), **members})()

    def _method(self, name, method):
        def ask(_, *args, **kwargs):
            self._channel.send(b"h", list_of(name, method, values.encode((args, kwargs))))
            tag, text = self._channel.receive()
            if tag == b"A":
                return values.parse(text)
            kind, message = values.scan(text)
            raise ERRORS.get(kind, RuntimeError)(message)

        ask.__name__ = method
        return ask


def list_of(*texts):
    """JSON of a list of texts."""
    return f"[{','.join(map(quote, texts))}]"


def report(channel, call, max_bytes):
    """Runs `call` and sends what became of it. No method of a foreign object is called on the way."""
    try:
        channel.send(b"v", values.encode(call(), max_bytes))
    except values.Unsupported as error:
        channel.send(b"u", str(error)[:MAX_MESSAGE])
    except values.TooLarge as error:
        channel.send(b"l", str(error))
    except MemoryError:
        channel.send(b"l", "memory")
    except BaseException as error:
        name = type.__dict__["__name__"].__get__(type(error))
        channel.send(b"e", list_of(name[:100], text_of(error)))


def text_of(error):
    """The first argument of an exception when it is plain text; asking for str(error) would run its code."""
    args = vars(BaseException)["args"].__get__(error)
    return args[0][:MAX_MESSAGE] if args and type(args[0]) is str else ""


def compiled(channel, program, times):
    """The program's code, or None after saying `times` times what is wrong with it."""
    try:
        return compile(program, "<program>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        for _ in range(times):
            channel.send(b"s", text_of(error))
        return None


def load(program):
    namespace = {"__name__": "__program__", "__builtins__": builtins}
    exec(program, namespace)
    return namespace


def run_job(channel, job):
    """A program over its inputs, loaded afresh for each, one frame an input."""
    program = compiled(channel, job["program"], len(job["inputs"]))
    if program is None:
        return
    for arguments in job["inputs"]:
        report(channel, lambda given=arguments: load(program)[job["entry"]](*values.parse(given)), job["output"])


def run_session(channel, job):
    """A program that stays loaded while the host calls its functions and answers its questions."""
    namespace = {}
    answerer = Answerer(channel)
    program = compiled(channel, job["program"], 1)
    if program is None:
        return
    report(channel, lambda: namespace.update(load(program)), job["output"])
    while True:
        entry, given = values.scan(channel.receive()[1])
        report(
            channel,
            lambda entry=entry, given=given: namespace[entry](
                *(answerer.remote(*item) if type(item) is list else values.parse(item) for item in given)
            ),
            job["output"],
        )


def child(descriptor, cpu, memory, confinement, default_memory):
    """The job's process, from fork to exit. It reads its job only after every door is shut."""
    try:
        if memory != default_memory:
            limit_memory(memory)
        confinement.enter(cpu)
        os.dup2(descriptor, JOB_FD, inheritable=False)
        os.closerange(JOB_FD + 1, MAX_DESCRIPTORS)
        os.write(JOB_FD, CONFINED)
    except BaseException:
        os._exit(CANNOT_CONFINE)
    channel = Channel(JOB_FD)
    job = values.scan(channel.receive()[1])
    gc.enable()
    (run_session if job["session"] else run_job)(channel, job)


def warm_up():
    """Does once what every job would do first, so that the pages it touches are shared instead of copied."""
    ours, theirs = _socket.socketpair()
    channel = Channel(ours.fileno())
    program = "def f(a):\n    b = [a, 2.5, 'c']\n    for i in range(3):\n        b += [i]\n    return b, {'k': a}\n"
    for _ in range(20):
        run_job(channel, {"program": program, "entry": "f", "inputs": [values.encode((1,))], "output": 1000})
        run_job(channel, {"program": "def f(:", "entry": "f", "inputs": ["null"], "output": 1000})
    ours.close()
    theirs.close()


def settle(control):
    """Puts null where jobs look for standard streams, the control socket out of the way, and what is the same for all
    jobs into limits that they inherit."""
    null = os.open(os.devnull, os.O_RDWR)
    moved = _socket.socket(fileno=os.dup2(control.fileno(), FIRST_FREE, inheritable=False))
    control.close()
    for stream in range(JOB_FD + 1):
        os.dup2(null, stream)  # descriptor 3 is taken too: nothing of ours may end up there
    for limit, value in (
        (confine.RLIMIT_FSIZE, 0),
        (confine.RLIMIT_CORE, 0),
        (confine.RLIMIT_MEMLOCK, 0),
        (confine.RLIMIT_NOFILE, MAX_DESCRIPTORS),
    ):
        confine.limit(limit, value, value)
    os.environ.clear()
    os.chdir("/")  # where the host stands is not for the jobs to know
    return moved


def limit_memory(mebibytes):
    """The soft limit only: a job cannot change it, the filter sees to that, and a session may need more than others."""
    confine.limit(confine.RLIMIT_AS, (mebibytes + BASE_MEMORY) << 20, confine.UNLIMITED)


class SeededRandom:
    """Gives every job that imports random the same numbers on the same server: chance would make a run irreproducible,
    and a program that depends on it is caught by the other servers' differing numbers."""

    def __init__(self, seed):
        self._seed = seed

    def find_spec(self, name, path=None, target=None):
        if name != "random":
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(found for found in others if found is not None and found.loader is not None)
        load = spec.loader.exec_module  # pyright: ignore[reportOptionalMemberAccess]

        def load_and_seed(module):
            load(module)
            module.seed(self._seed)

        spec.loader.exec_module = load_and_seed  # pyright: ignore[reportOptionalMemberAccess]
        return spec


def serve(control, settings):
    control = settle(control)
    try:
        confinement = prepare(settings)
        control.send(b"ready")
        limit_memory(settings["memory"])  # which jobs inherit
        attend(control, confinement, settings["memory"])
    except Exception as error:
        words = f"{type(error).__name__}: {error}".encode()[:1000]
        # Of a length that no packet of notices has.
        control.send(words + b" " * ((1 - len(words)) % NOTICE.size))


def prepare(settings):
    """All that jobs share, done once: modules loaded, doors shut, pages touched."""
    sys.meta_path.insert(0, SeededRandom(settings["hash_seed"]))
    for name in settings["preload"]:
        __import__(name)
    confinement = confine.Confinement(settings["readable"], settings["listable"])
    warm_up()
    gc.collect()
    gc.freeze()
    gc.disable()
    gc.set_threshold(GARBAGE)
    return confinement


def attend(control, confinement, default_memory):
    """Forks and kills as told and reports the ends, until the host is gone."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    _signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    running = {}  # pid → id
    while True:
        ready, _, _ = select.select([control, wake_read], [], [])
        if control not in ready:
            # A child has ended. Others are about to: their ends are reported together, unless an order comes.
            ready, _, _ = select.select([control], [], [], GATHER)
        drain(wake_read)
        try:
            reap(control, running)
            if not ready:
                continue
            message, ancillary = control.recvmsg(CONTROL_PACKET, ANCILLARY)[:2]
        except (BrokenPipeError, ConnectionResetError):
            message, ancillary = b"", ()
        if not message:  # the host is gone, and with it the reason for any child
            break
        obey(control, message, descriptors_of(ancillary), running, confinement, default_memory)
    for pid in running:
        os.kill(pid, _signal.SIGKILL)


def drain(descriptor):
    try:
        os.read(descriptor, 4096)
    except BlockingIOError:
        return


def descriptors_of(ancillary):
    return [number for _, _, data in ancillary for (number,) in struct.iter_unpack("=i", data)]


def obey(control, message, descriptors, running, confinement, default_memory):
    if message[:1] == b"K":
        (doomed,) = struct.unpack("=I", message[1:])
        for pid, identity in running.items():
            if identity == doomed:
                os.kill(pid, _signal.SIGKILL)
        return
    for (identity, cpu, memory), descriptor in zip(FORK.iter_unpack(message[1:]), descriptors, strict=True):
        pid = fork()
        if pid == 0:
            try:
                child(descriptor, cpu, memory, confinement, default_memory)
            finally:
                os._exit(0)
        os.close(descriptor)
        if pid > 0:
            running[pid] = identity
        else:  # there is no room for a process now: the host must not wait for its end
            control.send(NOTICE.pack(identity, 0, 0))


def reap(control, running):
    """Reports the children that have ended, many in one packet."""
    notices = []
    while running and len(notices) < NOTICES:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            break
        milliseconds = int((usage.ru_utime + usage.ru_stime) * 1000)
        notices.append(NOTICE.pack(running.pop(pid), status, milliseconds))
    if notices:
        control.send(b"".join(notices))
        reap(control, running)
