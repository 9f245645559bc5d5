"""Programs that try to get out: to the network, to files, to other processes, to the kernel."""

import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from autotelic.worlds.code.sandbox import Outcome, values

Attempt = Callable[..., Outcome]
SYSCALL = "forbidden syscall"


def short(outcome: Outcome) -> str:
    return f"{outcome.kind} {outcome.detail}".strip()


# Each names a socket family; whatever it would reach is on this machine.
NETWORK = {
    "inet": "socket.socket(socket.AF_INET, socket.SOCK_STREAM).connect(('127.0.0.1', 22))",
    "inet-udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    "inet-raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "inet-listen": "socket.create_server(('127.0.0.1', 0))",
    "inet6": "socket.socket(socket.AF_INET6, socket.SOCK_STREAM).connect(('::1', 22))",
    "unix": "socket.socket(socket.AF_UNIX).connect('/run/systemd/notify')",
    "unix-abstract": "socket.socket(socket.AF_UNIX).connect(chr(0) + 'anything')",
    "unix-pair": "socket.socketpair()",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
    "packet": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)",
    "vsock": "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).connect((1, 1))",
    "alg": "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
    "bluetooth": "socket.socket(31, socket.SOCK_RAW, 1)",
    "resolver": "socket.getaddrinfo('localhost', 80, proto=socket.IPPROTO_TCP)",
    "job-channel-as-socket": "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=3).send(b'x')",
    "urllib": "__import__('urllib.request').request.urlopen('http://127.0.0.1:1/')",
}


@pytest.mark.parametrize("name", NETWORK)
def test_no_socket_of_any_family(attempt: Attempt, name: str) -> None:
    assert short(attempt(f"import socket\ndef f():\n    {NETWORK[name]}\n    return 'reached'")) == SYSCALL


SECRET = "found-on-the-host"
READS = {
    "passwd": "/etc/passwd",
    "shadow": "/etc/shadow",
    "hostname": "/etc/hostname",
    "own-memory": "/proc/self/mem",
    "own-maps": "/proc/self/maps",
    "own-environment": "/proc/self/environ",
    "own-command": "/proc/self/cmdline",
    "own-status": "/proc/self/status",
    "thread": "/proc/thread-self/stat",
    "first-process": "/proc/1/environ",
    "first-command": "/proc/1/cmdline",
    "parent": "/proc/{parent}/environ",
    "mounts": "/proc/mounts",
    "kernel": "/proc/version",
    "kallsyms": "/proc/kallsyms",
    "network-table": "/proc/net/tcp",
    "sys": "/sys/kernel/uevent_seqnum",
    "memory-device": "/dev/mem",
    "kmsg": "/dev/kmsg",
    "terminal": "/dev/tty",
    "disk": "/dev/vda",
    "shm": "/dev/shm",
    "root": "/",
    "home": "/root",
    "relative": "..",
    "around": "/usr/../etc/passwd",
    "sandbox-source": str(Path(values.__file__)),
    "repository": str(Path(values.__file__).parents[5] / "pyproject.toml"),
    "site-packages": str(Path(pytest.__file__)),
    "host-work-folder": os.getcwd(),
}


HIDDEN = sorted(set(READS) - {"root", "home", "relative", "own-command", "host-work-folder"})


def test_no_host_path_or_process_can_be_seen_to_exist(attempt: Attempt) -> None:
    paths = [READS[name].format(parent=os.getpid()) for name in HIDDEN] + [f"/proc/{os.getppid()}", "/home"]
    program = "import os\ndef f(*paths):\n    return [path for path in paths if os.path.lexists(path)]"
    assert attempt(program, *paths).value == []


OTHERS = {
    "group": "os.getpgid({pid})",
    "session": "os.getsid({pid})",
    "limits": "__import__('resource').prlimit({pid}, 7)",
    "clock": "__import__('time').clock_gettime((~{pid} << 3) | 2)",
    "clock-resolution": "__import__('time').clock_getres((~{pid} << 3) | 2)",
    "existence": "os.kill({pid}, 0)",
    "priority": "os.getpriority(os.PRIO_PROCESS, {pid})",
    "scheduler": "os.sched_getscheduler({pid})",
    "affinity": "os.sched_getaffinity({pid})",
    "wait": "os.waitpid({pid}, os.WNOHANG)",
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("whose", ["host", "first"])
def test_nothing_can_be_asked_of_another_process(attempt: Attempt, name: str, whose: str) -> None:
    asked = OTHERS[name].format(pid=os.getpid() if whose == "host" else 1)
    program = (
        f"import os\ndef f():\n    try:\n        return str({asked})\n    except OSError:\n        return 'refused'"
    )
    outcome = attempt(program)
    assert short(outcome) == SYSCALL or outcome.value == "refused"


@pytest.mark.parametrize("name", READS)
def test_no_host_file_is_read_or_listed(attempt: Attempt, name: str) -> None:
    program = """
import os
def f(path):
    path = path.format(parent=os.getppid())
    for look in (lambda: open(path, 'rb').read(10), lambda: os.listdir(path), lambda: list(os.scandir(path))):
        try:
            return 'read', str(look())
        except (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError):
            pass
    return 'kept out'
"""
    assert attempt(program, READS[name]).value == "kept out"


def test_a_file_made_for_the_purpose_is_not_read(attempt: Attempt, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o644)
    for folder in [tmp_path, *tmp_path.parents][:3]:
        if folder.owner() == secret.owner() and folder != Path(tempfile.gettempdir()):
            folder.chmod(0o755)
    outcome = attempt("def f(path):\n    return open(path).read()", str(secret))
    assert short(outcome) in ("exception PermissionError", "exception FileNotFoundError")


def test_packages_beside_the_standard_library_cannot_be_imported(attempt: Attempt) -> None:
    program = "def f(name):\n    __import__(name)\n    return 'imported'"
    for name in ("numpy", "sandlock", "autotelic", "pip", "pytest", "confine", "values", "inside"):
        assert short(attempt(program, name)) == "exception ModuleNotFoundError"


def test_the_standard_library_can_be_imported(attempt: Attempt) -> None:
    names = ["statistics", "datetime", "decimal", "fractions", "json", "dataclasses", "hashlib", "zlib", "ctypes"]
    program = "def f(names):\n    return [__import__(name).__name__ for name in names]"
    assert attempt(program, names).value == names


WRITES = {
    "tmp": "open('/tmp/x', 'w')",
    "var-tmp": "open('/var/tmp/x', 'w')",
    "shm": "open('/dev/shm/x', 'w')",
    "here": "open('x', 'w')",
    "create": "os.open('/tmp/y', os.O_CREAT | os.O_RDWR)",
    "unnamed": "os.open('/tmp', os.O_TMPFILE | os.O_RDWR)",
    "library": "open(os.path.join(os.path.dirname(os.__file__), 'x.py'), 'w')",
    "library-file": "open(os.__file__, 'r+')",
    "truncate": "os.truncate(os.__file__, 0)",
    "null": "open('/dev/null', 'w')",
    "mkdir": "os.mkdir('/tmp/d')",
    "unlink": "os.unlink(os.__file__)",
    "rename": "os.rename(os.__file__, os.__file__ + '.old')",
    "symlink": "os.symlink('/etc/passwd', '/tmp/link')",
    "hard-link": "os.link(os.__file__, '/tmp/os.py')",
    "chmod": "os.chmod(os.__file__, 0o777)",
    "chown": "os.chown(os.__file__, 0, 0)",
    "utime": "os.utime(os.__file__, (0, 0))",
    "fifo": "os.mkfifo('/tmp/fifo')",
    "device": "os.mknod('/tmp/null', 0o020666, os.makedev(1, 3))",
    "attribute": "os.setxattr(os.__file__, 'user.x', b'1')",
    "chdir": "os.chdir('/etc')",
    "temporary": "__import__('tempfile').TemporaryFile()",
}


@pytest.mark.parametrize("name", WRITES)
def test_no_path_is_writable(attempt: Attempt, name: str) -> None:
    outcome = attempt(f"import os\ndef f():\n    {WRITES[name]}\n    return 'written'")
    assert outcome.kind == "exception", outcome
    assert outcome.detail in ("PermissionError", "FileNotFoundError", "OSError"), outcome


def test_the_environment_is_empty(attempt: Attempt) -> None:
    assert os.environ["AUTOTELIC_TEST_SECRET"]
    assert attempt("import os\ndef f():\n    return dict(os.environ)").value == {}


def test_the_environment_in_the_process_memory_holds_nothing_of_ours(attempt: Attempt) -> None:
    program = """
import ctypes
def f():
    block = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), 'environ')
    found = []
    while block and block[len(found)]:
        found.append(block[len(found)])
    return found
"""
    outcome = attempt(program)
    assert outcome.ok, outcome
    assert all(entry.split(b"=")[0] in (b"PYTHONHASHSEED", b"PWD", b"LC_CTYPE") for entry in outcome.value)


def test_only_the_null_device_and_the_job_channel_are_open(attempt: Attempt) -> None:
    program = """
import os, stat
def f():
    found = {}
    for number in range(4096):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        found[number] = 'socket' if stat.S_ISSOCK(mode) else 'device' if stat.S_ISCHR(mode) else oct(mode)
    return found
"""
    assert attempt(program).value == {0: "device", 1: "device", 2: "device", 3: "socket"}


def test_the_host_work_folder_is_not_told(attempt: Attempt) -> None:
    assert attempt("import os\ndef f():\n    return os.getcwd()").value == "/"


PROCESSES = {
    "kill-parent": "os.kill(os.getppid(), 9)",
    "kill-everyone": "os.kill(-1, 9)",
    "kill-group": "os.kill(0, 9)",
    "kill-first": "os.kill(1, 9)",
    "probe-sibling": "os.kill(os.getpid() - 1, 0)",
    "kill-group-by-name": "os.killpg(os.getpgrp(), 9)",
    "thread-signal": "libc.syscall(234, os.getppid(), os.getppid(), 9)",
    "tkill": "libc.syscall(200, os.getppid(), 9)",
    "queue": "libc.sigqueue(os.getppid(), 9, None)",
    "pidfd-open": "libc.syscall(434, os.getppid(), 0)",
    "pidfd-signal": "libc.syscall(424, 3, 9, 0, 0)",
    "pidfd-getfd": "libc.syscall(438, 3, 0, 0)",
    "ptrace-attach": "libc.ptrace(16, os.getppid(), 0, 0)",
    "ptrace-traceme": "libc.ptrace(0, 0, 0, 0)",
    "read-memory": "libc.process_vm_readv(os.getppid(), 0, 0, 0, 0, 0)",
    "write-memory": "libc.process_vm_writev(os.getppid(), 0, 0, 0, 0, 0)",
    "compare": "libc.syscall(312, os.getpid(), os.getppid(), 0, 0, 0)",
    "fork": "os.fork()",
    "vfork": "libc.syscall(58)",
    "clone": "libc.syscall(56, 17, 0, 0, 0, 0)",
    "clone3": "libc.syscall(435, 0, 0)",
    "spawn": "os.posix_spawn('/bin/sh', ['sh'], {})",
    "system": "os.system('true')",
    "popen": "os.popen('true').read()",
    "exec": "os.execv('/bin/sh', ['sh', '-c', 'true'])",
    "subprocess": "__import__('subprocess').run(['true'])",
    "thread": "__import__('threading').Thread(target=print).start()",
    "daemon-thread": "__import__('threading').Thread(target=print, daemon=True).start()",
    "raw-thread": "__import__('_thread').start_new_thread(print, ())",
    "fork-bomb": "[os.fork() for _ in range(10 ** 6)]",
    "pool": "__import__('concurrent.futures').futures.ThreadPoolExecutor().submit(print).result()",
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system call numbers of x86-64")
@pytest.mark.parametrize("name", PROCESSES)
def test_no_other_process_is_reached_or_made(attempt: Attempt, name: str) -> None:
    outcome = attempt(
        f"import ctypes, os\nlibc = ctypes.CDLL(None)\ndef f():\n    {PROCESSES[name]}\n    return 'done'"
    )
    assert short(outcome) == SYSCALL


def test_multiprocessing_makes_no_process(attempt: Attempt) -> None:
    outcome = attempt("import multiprocessing as m\ndef f():\n    m.Process(target=print).start()\n    return 'done'")
    assert short(outcome) in (SYSCALL, "exception OSError", "exception PermissionError")


KERNEL = {
    "io-uring": 425,
    "io-setup": 206,
    "keyctl": 250,
    "add-key": 248,
    "bpf": 321,
    "mount": 165,
    "umount": 166,
    "pivot-root": 155,
    "chroot": 161,
    "unshare": 272,
    "setns": 308,
    "userfaultfd": 323,
    "perf": 298,
    "personality": 135,
    "seccomp": 317,
    "prctl": 157,
    "landlock": 444,
    "memfd": 319,
    "memfd-secret": 447,
    "open-by-handle": 304,
    "setuid": 105,
    "setresuid": 117,
    "setgroups": 116,
    "capset": 126,
    "module": 175,
    "kexec": 246,
    "reboot": 169,
    "shared-memory": 29,
    "message-queue": 68,
    "posix-queue": 240,
    "semaphore": 64,
    "ports": 173,
    "clock": 227,
    "x32-getpid": 0x40000000 | 39,
    "x32-write": 0x40000000 | 1,
    "x32-fork": 0x40000000 | 57,
    "x32-socket": 0x40000000 | 41,
    "x32-execve": 0x40000000 | 520,
    "negative": 0xFFFFFFFF,
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system call numbers of x86-64")
@pytest.mark.parametrize("name", KERNEL)
def test_calls_no_honest_program_makes_end_it(attempt: Attempt, name: str) -> None:
    program = "import ctypes\ndef f(n):\n    return ctypes.CDLL(None).syscall(ctypes.c_long(n), 0, 0, 0, 0, 0, 0)"
    assert short(attempt(program, KERNEL[name])) == SYSCALL


REFUSED = {
    "setrlimit": 160,
    "setpriority": 141,
    "sched-setaffinity": 203,
    "setsid": 112,
    "setpgid": 109,
    "umask": 95,
    "sync": 162,
    "inotify": 294,
    "fanotify": 300,
    "timerfd": 283,
    "eventfd": 290,
    "epoll": 291,
    "signalfd": 289,
    "mlockall": 151,
    "vmsplice": 278,
    "splice": 275,
    "sendfile": 40,
    "timer-create": 222,
    "syslog": 103,
    "unknown": 999,
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system call numbers of x86-64")
@pytest.mark.parametrize("name", REFUSED)
def test_calls_off_the_list_are_refused(attempt: Attempt, name: str) -> None:
    program = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def f(n):
    return libc.syscall(n, 0, 0, 0, 0, 0, 0), errno.errorcode.get(ctypes.get_errno())
"""
    assert attempt(program, REFUSED[name]).value == (-1, "EPERM")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_the_32_bit_door_is_shut(attempt: Attempt) -> None:
    program = """
import ctypes, mmap
def f():
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex('b814000000cd80c3'))  # mov eax, 20 (getpid); int 0x80; ret
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
    assert short(attempt(program)) in (SYSCALL, "crash SIGSEGV")  # SIGSEGV where the kernel has no such door


LIMIT_RAISING = {
    "setrlimit": "resource.setrlimit(resource.RLIMIT_CPU, (100, 100))",
    "soft-only": "resource.setrlimit(resource.RLIMIT_AS, (1 << 20, resource.getrlimit(resource.RLIMIT_AS)[1]))",
    "prlimit": "resource.prlimit(0, resource.RLIMIT_NOFILE, (4096, 4096))",
    "prlimit-parent": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
    "owner": "fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid())",
    "owner-ex": "fcntl.fcntl(3, 15, bytes(8))",
    "lease": "fcntl.fcntl(3, fcntl.F_SETLEASE, 0)",
    "pipe-size": "fcntl.fcntl(os.pipe()[0], 1031, 1 << 20)",
    "seal": "fcntl.fcntl(3, 1033, 15)",
    "type-into-terminal": "fcntl.ioctl(0, 0x5412, b'x')",
    "take-terminal": "fcntl.ioctl(0, 0x540E, 1)",
    "nice": "os.nice(-5)",
    "setuid": "os.seteuid(0) if os.geteuid() else os.sched_setaffinity(0, {0})",
}


@pytest.mark.parametrize("name", LIMIT_RAISING)
def test_limits_ownership_and_terminals_stay_as_they_are(attempt: Attempt, name: str) -> None:
    outcome = attempt(f"import fcntl, os, resource\ndef f():\n    {LIMIT_RAISING[name]}\n    return 'changed'")
    assert short(outcome) in ("exception PermissionError", "exception OSError", "exception ValueError", SYSCALL), (
        outcome
    )
