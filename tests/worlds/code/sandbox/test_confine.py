"""The filter, decided by an interpreter of its instructions instead of the kernel."""

import struct

import pytest

from autotelic.worlds.code.sandbox import confine

COLUMN, ARCH = confine._column()
PID = confine._OWN_PID
NAMES = {
    name: number
    for table in (confine._ALLOWED, confine._DEADLY, confine._BY_ARGUMENT)
    for number, name in confine._numbers(table, COLUMN).items()
}


DECIDED_IN_JOBS = confine._numbers(confine._DECIDED_IN_JOBS, COLUMN)


def decide(number: int, *arguments: int, arch: int = ARCH) -> int:
    """What the two filters answer to a job's call: the stricter answer, which is the smaller as a signed number."""
    answers = [run(program, number, arguments, arch) for program in confine.filter_programs()]
    return min(answers, key=lambda answer: answer - (1 << 32) if answer >> 31 else answer)


def run(program: list[bytes], number: int, arguments: tuple[int, ...] = (), arch: int = ARCH) -> int:
    data = struct.pack("=IIQ6Q", number, arch, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    at, register = 0, 0
    while True:
        code, on_true, on_false, operand = struct.unpack("=HBBI", program[at])
        at += 1
        if code == confine._LOAD:
            (register,) = struct.unpack_from("=I", data, operand)
        elif code == confine._RETURN:
            return operand
        else:
            held = register == operand if code == confine._JUMP_EQUAL else register >= operand
            at += on_true if held else on_false


@pytest.mark.parametrize("name", ["clone", "recvmsg", "sendto", "seccomp", "landlock_restrict_self", "prlimit64"])
def test_the_server_may_do_what_a_job_may_not(name: str) -> None:
    server, job = confine.filter_programs()
    assert run(server, NAMES[name], (1, 1, 1)) == confine._ALLOW
    assert run(job, NAMES[name], (1, 1, 1)) != confine._ALLOW


def test_every_call_is_decided_as_the_tables_say() -> None:
    for name in confine._numbers(confine._ALLOWED, COLUMN).values():
        assert decide(NAMES[name]) == confine._ALLOW, name
    for name in confine._numbers(confine._DEADLY, COLUMN).values():
        assert decide(NAMES[name]) == confine._KILL, name
    unknown = set(range(600)) - set(NAMES.values())
    assert {decide(number) for number in unknown} == {confine._EPERM}


@pytest.mark.parametrize("number", [1 << 30, (1 << 30) + 41, (1 << 32) - 1])
def test_the_second_set_of_numbers_is_deadly(number: int) -> None:
    assert decide(number) == confine._KILL


def test_calls_of_another_architecture_are_deadly() -> None:
    assert decide(NAMES["read"], arch=0x40000003) == confine._KILL


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("kill", (PID,), confine._ALLOW),
        ("kill", (PID + 1,), confine._KILL),
        ("kill", ((1 << 32) - 1,), confine._KILL),
        ("tgkill", (1,), confine._KILL),
        ("fcntl", (3, 3), confine._ALLOW),
        ("fcntl", (3, 8), confine._EPERM),
        ("ioctl", (0, 0x5412), confine._ENOTTY),
        ("prlimit64", (0, 7, 0), confine._ALLOW),
        ("prlimit64", (PID, 7, 0), confine._ALLOW),
        ("prlimit64", (0, 7, 1), confine._EPERM),
        ("prlimit64", (0, 7, 1 << 40), confine._EPERM),
        ("prlimit64", (1, 7, 0), confine._EPERM),
        ("getpgid", (0,), confine._ALLOW),
        ("getpgid", (1,), confine._EPERM),
        ("clock_gettime", (1,), confine._ALLOW),
        ("clock_gettime", ((~1 << 3 | 2) & 0xFFFFFFFF,), confine._EPERM),
    ],
)
def test_some_calls_are_decided_by_their_arguments(name: str, arguments: tuple[int, ...], answer: int) -> None:
    assert decide(NAMES[name], *arguments) == answer
