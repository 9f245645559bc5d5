"""The server: the process inside the sandbox that forks one child for each job. It never sees a job itself.

The host sends it one end of a socket pair for each job; the server forks, and only the child reads from that end.
So no job, and no expected answer, is ever in the memory that the next job's process is copied from. The server
knows ids, pids and exit statuses, and reports the latter.

Messages on the control socket (one packet each): host → server b"F" and (id, CPU seconds, MiB) for each descriptor
that comes with it: fork; b"K" and ids: kill; b"W" and ids: say when they have ended; server → host: id, wait status,
processor milliseconds, of all that have ended, at every message. Frames on a job's own socket: length, one byte saying
what, payload.

This file is sent into the sandbox. A page of memory that a job's process writes is copied by the kernel, and reading
a name's value writes its reference count: those copies are most of what a job costs. So it imports little, and what
every job runs (`child`, `run_job`) looks few names up.
"""

import _signal  # pyright: ignore[reportMissingImports]
import _socket
import builtins
import ctypes
import gc
import os
import struct
import sys
from _json import encode_basestring_ascii as quote
from gc import enable as collect_garbage
from os import closerange, dup2, read, write

import confine  # pyright: ignore[reportMissingImports]  # sent along with this file
from values import TooLarge, Unsupported, encode, parse, scan  # pyright: ignore[reportMissingImports]

FORK = struct.Struct("=III")
NOTICE = struct.Struct("=IiI")
LENGTH = struct.Struct("=I")
CONTROL_PACKET = 8192  # as long as the ids of all that can run at once
GARBAGE = 20_000  # new objects before a job's garbage is looked for: most end without
SOON = 0.001  # seconds until an end that the host waits for is looked for again
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
libc = ctypes.PyDLL(None)
fork = libc.fork


def send(tag, text, pack=LENGTH.pack):
    data = text.encode("ascii", "backslashreplace")
    data = pack(len(data) + 1) + tag + data
    while data:
        data = data[write(JOB_FD, data) :]


def receive(read=read, size=LENGTH.size, unpack=LENGTH.unpack_from):
    """The next frame's text. The host sends one at a time, so what arrives belongs to it."""
    data = b""
    while len(data) < size or len(data) < size + unpack(data)[0]:
        more = read(JOB_FD, 1 << 16)
        if not more:
            os._exit(0)  # the host has closed the session
        data += more
    return data[size:].decode("ascii")


def remote(name, methods):
    """An object that lives with the host: each call of one of its methods is a question to it."""
    return type(name, (), {"__slots__": (), **{method: question(name, method) for method in methods}})()


def question(name, method):
    def ask(_, *args, **kwargs):
        send(b"h", list_of(name, method, encode((args, kwargs))))
        said = receive()
        if said[0] == "A":
            return parse(said[1:])
        kind, message = scan(said[1:])
        raise ERRORS.get(kind, RuntimeError)(message)

    ask.__name__ = method
    return ask


def list_of(*texts):
    """JSON of a list of texts."""
    return f"[{','.join(map(quote, texts))}]"


def report(max_bytes, call, *args):
    """Calls, and sends what became of it. No method of a foreign object is called on the way."""
    try:
        send(b"v", encode(call(*args), max_bytes))
    except Unsupported as error:
        send(b"u", str(error)[:MAX_MESSAGE])
    except TooLarge as error:
        send(b"l", str(error))
    except MemoryError:
        send(b"l", "memory")
    except BaseException as error:
        name = type.__dict__["__name__"].__get__(type(error))
        send(b"e", list_of(name[:100], text_of(error)))


def text_of(error):
    """The first argument of an exception when it is plain text; asking for str(error) would run its code."""
    args = vars(BaseException)["args"].__get__(error)
    return args[0][:MAX_MESSAGE] if args and type(args[0]) is str else ""


def compiled(program, times):
    """The program's code, or None after saying `times` times what is wrong with it."""
    try:
        return compile(program, "<program>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        for _ in range(times):
            send(b"s", text_of(error))
        return None


def load(program):
    namespace = {"__name__": "__program__", "__builtins__": builtins}
    exec(program, namespace)
    return namespace


def load_and_call(program, entry, given):
    return load(program)[entry](*parse(given))


def run_job(program, output, entry, inputs, *after):
    """A program over its inputs, loaded afresh for each, one frame an input; then those that come after it."""
    jobs = [program, entry, inputs, *after]
    while jobs:
        program, entry, inputs, *jobs = jobs
        code = compiled(program, len(inputs))
        if code is not None:
            for given in inputs:
                report(output, load_and_call, code, entry, given)


def run_session(program, output):
    """A program that stays loaded while the host calls its functions and answers its questions."""
    namespace = {}
    code = compiled(program, 1)
    if code is None:
        return
    report(output, lambda: namespace.update(load(code)))
    while True:
        entry, given = scan(receive()[1:])
        report(output, call_of_session, namespace, entry, given)


def call_of_session(namespace, entry, given):
    return namespace[entry](*(remote(*item) if type(item) is list else parse(item) for item in given))


def child(descriptor, cpu, memory, confine_job, default_memory):
    """The job's process, from fork to exit. It reads its job only after every door is shut."""
    try:
        if memory != default_memory:
            limit_memory(memory)
        confine_job(cpu)
        dup2(descriptor, JOB_FD, inheritable=False)
        closerange(JOB_FD + 1, MAX_DESCRIPTORS)
        write(JOB_FD, CONFINED)
    except BaseException:
        os._exit(CANNOT_CONFINE)
    job = scan(receive()[1:])
    collect_garbage()
    (run_job if len(job) > 2 else run_session)(*job)


def warm_up():
    """Does some times what every job will do, so that its names are looked up and its memory is in place. What jobs say
    here goes to the null device."""
    program = "def f(a):\n    b = [a, 2.5, 'c']\n    for i in range(3):\n        b += [i]\n    return b, {'k': a}\n"
    told = list_of(program)[:-1] + ',1000,"f",[' + quote(encode((1,))) + "]]"
    data = LENGTH.pack(len(told) + 1) + b"J" + told.encode("ascii")
    for _ in range(20):
        run_job(*scan(receive(read=lambda *_: data)[1:]))
        run_job("def f(:", 1000, "f", ["null"])


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
        confine_job = prepare(settings)
        control.send(b"ready")
        limit_memory(settings["memory"])  # which jobs inherit
        attend(control, confine_job, settings["memory"])
    except Exception as error:
        words = f"{type(error).__name__}: {error}".encode()[:1000]
        # Of a length that no packet of notices has.
        control.send(words + b" " * ((1 - len(words)) % NOTICE.size))


def prepare(settings):
    """All that jobs share, done once: modules loaded, doors shut, pages touched. Returns what confines a job."""
    sys.meta_path.insert(0, SeededRandom(settings["hash_seed"]))
    for name in settings["preload"]:
        __import__(name)
    confine_job = confine.confine_server(settings["readable"], settings["listable"])
    warm_up()
    gc.collect()
    gc.freeze()
    gc.disable()
    gc.set_threshold(GARBAGE)
    if hasattr(libc, "malloc_trim"):  # glibc's own
        libc.malloc_trim(0)
    return confine_job


def attend(control, confine_job, default_memory):
    """Forks and kills as told and reports the ends, until the host is gone."""
    running = {}  # pid → id
    awaited = set()  # ids of children whose end the host waits for
    try:
        while True:
            message, ancillary = hear(control, SOON if awaited else None)
            if message == b"":
                break
            if message is not None:
                obey(control, message, descriptors_of(ancillary), running, awaited, confine_job, default_memory)
            reap(control, running, awaited)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the host is gone, and with it the reason for any child
    for pid in running:
        os.kill(pid, _signal.SIGKILL)


def hear(control, seconds):
    """The next message, None if there is none in time."""
    if seconds is None:
        return control.recvmsg(CONTROL_PACKET, ANCILLARY)[:2]
    control.settimeout(seconds)
    try:
        return control.recvmsg(CONTROL_PACKET, ANCILLARY)[:2]
    except TimeoutError:
        return None, ()
    finally:
        control.settimeout(None)  # an answer may take its time


def descriptors_of(ancillary):
    return [number for _, _, data in ancillary for (number,) in struct.iter_unpack("=i", data)]


def obey(control, message, descriptors, running, awaited, confine_job, default_memory):
    if message[:1] != b"F":
        named = {identity for (identity,) in struct.iter_unpack("=I", message[1:])}.intersection(running.values())
        awaited |= named
        if message[:1] == b"K":
            for pid, identity in running.items():
                if identity in named:
                    os.kill(pid, _signal.SIGKILL)
        return
    orders = list(FORK.iter_unpack(message[1:]))
    pids = []
    for (_, cpu, memory), descriptor in zip(orders, descriptors, strict=True):
        pid = fork()  # after it every page written here is copied: the rest waits until all are born
        if pid == 0:
            try:
                child(descriptor, cpu, memory, confine_job, default_memory)
            finally:
                os._exit(0)
        pids.append(pid)
    for descriptor in descriptors:
        os.close(descriptor)
    for (identity, _, _), pid in zip(orders, pids, strict=True):
        if pid > 0:
            running[pid] = identity
        else:  # there is no room for a process now: the host must not wait for its end
            control.send(NOTICE.pack(identity, 0, 0))


def reap(control, running, awaited):
    """Reports the children that have ended, many in one packet."""
    notices = []
    while running and len(notices) < NOTICES:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            break
        identity = running.pop(pid)
        awaited.discard(identity)
        notices.append(NOTICE.pack(identity, status, int((usage.ru_utime + usage.ru_stime) * 1000)))
    if notices:
        control.send(b"".join(notices))
        reap(control, running, awaited)
