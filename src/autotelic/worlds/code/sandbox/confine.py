"""How a process inside the sandbox gives up what it could do: capabilities, files, signals, system calls.

The server enters one Landlock layer at start-up: it may read the interpreter's own files and nothing else, and write
nowhere. Each job then enters a layer of its own (so that jobs cannot signal one another or the server). System calls
pass two seccomp filters, the stricter answer counts: the server's, which its jobs inherit, and a short one of each
job's own for the few calls that only the server may make or that name a process. They allow a short list, answer
EPERM to what they do not know, and end the process at calls that no honest program makes; the kernel reports that as
SIGSYS, so that a forbidden call is a fact and not a text.

This file is also sent into the sandbox, so it imports the standard library only.
"""

import ctypes
import os
import struct

# name:number on x86-64:number on arm64. Of what tells one machine from another only uname is among them, because some
# modules of the standard library ask it when they are loaded; namespaces give it a name that says nothing.
_ALLOWED = """
access:21: alarm:37: arch_prctl:158: brk:12:214 
close:3:57 close_range:436:436
dup:32:23 dup2:33: dup3:292:24 exit:60:93 exit_group:231:94 faccessat:269:48
faccessat2:439:439 fadvise64:221:223 fstat:5:80 futex:202:98 getcwd:79:17 getdents64:217:61
getegid:108:177 geteuid:107:175 getgid:104:176 getgroups:115:158 getitimer:36:102 getpgrp:111:
getpid:39:172 getppid:110:173 getrandom:318:278 getrlimit:97:163 getrusage:98:165 gettid:186:178
gettimeofday:96:169 getuid:102:174 lseek:8:62 lstat:6: madvise:28:233 membarrier:324:283 mmap:9:222
mprotect:10:226 mremap:25:216 munmap:11:215 nanosleep:35:101 newfstatat:262:79 open:2: openat:257:56 pause:34:
pipe:22: pipe2:293:59 poll:7: ppoll:271:73 pread64:17:67 pselect6:270:72 read:0:63 readlink:89:
readlinkat:267:78 readv:19:65 restart_syscall:219:128 rseq:334:293 rt_sigaction:13:134 rt_sigpending:127:136
rt_sigprocmask:14:135 rt_sigreturn:15:139 rt_sigsuspend:130:133 rt_sigtimedwait:128:137
sched_yield:24:124 select:23: set_robust_list:273:99 set_tid_address:218:96
setitimer:38:103 sigaltstack:131:132 stat:4: statx:332:291 time:201: times:100:153 uname:63:160
write:1:64 writev:20:66
"""
# No honest program makes these: new processes and threads, sockets, other processes' memory, the kernel's controls.
_DEADLY = """
accept:43:202 accept4:288:242 acct:163:89 add_key:248:217 adjtimex:159:171 bind:49:200 bpf:321:280 capset:126:91
chroot:161:51 clock_adjtime:305:266 clock_settime:227:112 clone:56:220 clone3:435:435 connect:42:203
delete_module:176:106 execve:59:221 execveat:322:281 finit_module:313:273 fork:57: fsconfig:431:431
fsmount:432:432 fsopen:430:430 fspick:433:433 getpeername:52:205 getsockname:51:204 getsockopt:55:209
init_module:175:105 io_setup:206:0 io_submit:209:2 io_uring_enter:426:426 io_uring_register:427:427
io_uring_setup:425:425 ioperm:173: iopl:172: kcmp:312:272 kexec_file_load:320:294 kexec_load:246:104
keyctl:250:219 landlock_add_rule:445:445 landlock_create_ruleset:444:444 landlock_restrict_self:446:446
listen:50:201 memfd_create:319:279 memfd_secret:447:447 modify_ldt:154: mount:165:40 mount_setattr:442:442
move_mount:429:429 mq_open:240:180 mq_unlink:241:181 msgctl:71:187 msgget:68:186 msgrcv:70:188 msgsnd:69:189
name_to_handle_at:303:264 open_by_handle_at:304:265 open_tree:428:428 perf_event_open:298:241 personality:135:92
pidfd_getfd:438:438 pidfd_open:434:434 pidfd_send_signal:424:424 pivot_root:155:41 prctl:157:167
process_madvise:440:440 process_mrelease:448:448 process_vm_readv:310:270 process_vm_writev:311:271
ptrace:101:117 quotactl:179:60 reboot:169:142 recvfrom:45:207 recvmmsg:299:243 recvmsg:47:212
request_key:249:218 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 seccomp:317:277 semctl:66:191
semget:64:190 semop:65:193 sendmmsg:307:269 sendmsg:46:211 sendto:44:206 setdomainname:171:162 setfsgid:123:152
setfsuid:122:151 setgid:106:144 setgroups:116:159 sethostname:170:161 setns:308:268 setregid:114:143
setresgid:119:149 setresuid:117:147 setreuid:113:145 setsockopt:54:208 settimeofday:164:170 setuid:105:146
shmat:30:196 shmctl:31:195 shmget:29:194 shutdown:48:210 socket:41:198 socketpair:53:199 swapoff:168:225
swapon:167:224 tkill:200:130 umount2:166:39 unshare:272:97 userfaultfd:323:282 vfork:58:
"""
_BY_ARGUMENT = """
clock_getres:229:114 clock_gettime:228:113 clock_nanosleep:230:115 fcntl:72:25 getpgid:121:155 getsid:124:156
ioctl:16:29 kill:62:129 prlimit64:302:261 tgkill:234:131
"""
# What the server itself does and its jobs may not, and what is decided by the job's own pid: the server's filter lets
# these pass, each job's own filter decides.
_DECIDED_IN_JOBS = """
clone:56:220 fork:57: getpgid:121:155 getsid:124:156 ioctl:16:29 kill:62:129 landlock_restrict_self:446:446
prlimit64:302:261 recvmsg:47:212 seccomp:317:277 sendto:44:206 tgkill:234:131 wait4:61:260
"""

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH

_ALLOW, _KILL, _EPERM, _ENOTTY = 0x7FFF0000, 0x80000000, 0x00050000 | 1, 0x00050000 | 25
_LOAD, _JUMP_EQUAL, _JUMP_GE, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data; argument i stands at 16 + 8 i
_FCNTL_SAFE = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC: not F_SETOWN
_CLOCKS = (0, 1, 2, 3, 4, 5, 6, 7, 11)  # those that all share; others are other processes' clocks
_OWN_PID = 0x5EED1D00  # stands for the job's own pid until `confine_job` knows it

# Landlock: file rights by the ABI version that brought them, lowest first; all are handled, few are granted
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
_READ_FILE, _READ_DIR, _EXECUTE = 1 << 2, 1 << 3, 1 << 0


_RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS = 0, 1, 4, 7, 8, 9
UNLIMITED = (1 << 64) - 1


class ConfinementError(Exception):
    """The kernel refused a part of the confinement; nothing untrusted may run."""


def _libc():
    return ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result < 0:
        raise ConfinementError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def landlock_abi():
    """The kernel's Landlock version; 0 where it has none."""
    return max(0, _libc().syscall(444, None, ctypes.c_size_t(0), 1))


def limit(which, soft, hard):
    """The module resource does the same, but is one more thing to copy with every job."""
    _check(_libc().setrlimit(which, struct.pack("=QQ", soft, hard)), "setrlimit")


def drop_capabilities(libc):
    """A root that holds no capability cannot raise its limits again, mount, or look into other processes."""
    _check(libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
    header = struct.pack("=Ii", 0x20080522, 0)
    number = (126, 91)[_column()[0]]
    _check(libc.syscall(number, header, bytes(24)), "capset")


def _column():
    try:
        return _MACHINES[os.uname().machine]  # the module platform would keep the host's name for every job to see
    except KeyError:
        raise ConfinementError(f"no table of system calls for {os.uname().machine}") from None


def _ruleset(libc, readable, listable, abi):
    """A Landlock ruleset that handles every right of this kernel and grants reading files below `readable` and seeing
    which there are below `listable`."""
    rights = (1 << max(bits for version, bits in _FILE_RIGHTS.items() if version <= abi)) - 1
    network, scoped = (3 if abi >= 4 else 0), (3 if abi >= 6 else 0)
    attributes = struct.pack("=QQQ", rights, network, scoped)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    ruleset = _check(libc.syscall(444, attributes, ctypes.c_size_t(len(attributes)), 0), "landlock_create_ruleset")
    rules = [(path, _READ_FILE | _EXECUTE) for path in readable] + [(path, _READ_DIR) for path in listable]
    for path, granted in rules:
        try:
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        _check(libc.syscall(445, ruleset, 1, struct.pack("=Qi", granted, parent), 0), f"landlock_add_rule {path}")
        os.close(parent)
    return ruleset


def _instruction(code, on_true, on_false, operand):
    return struct.pack("=HBBI", code, on_true, on_false, operand)


def _return(action):
    return [_instruction(_RETURN, 0, 0, action)]


def _argument_is(index, allowed, otherwise, then=None):
    """Goes on with `then`, by default allows the call, when the low half of an argument is among `allowed`."""
    code = [_instruction(_LOAD, 0, 0, 16 + 8 * index)]
    for position, value in enumerate(allowed):
        code.append(_instruction(_JUMP_EQUAL, len(allowed) - position, 0, value))
    return code + _return(otherwise) + (then or _return(_ALLOW))


def _pointer_is_null(index):
    low, high = 16 + 8 * index, 20 + 8 * index
    test = _instruction(_JUMP_EQUAL, 1, 0, 0)
    return [_instruction(_LOAD, 0, 0, low), test, *_return(_EPERM),
            _instruction(_LOAD, 0, 0, high), test, *_return(_EPERM), *_return(_ALLOW)]  # fmt: skip


def _numbers(table, column):
    pairs = (entry.split(":") for entry in table.split())
    return {int(entry[1 + column]): entry[0] for entry in pairs if entry[1 + column]}


def filter_programs():
    """The server's seccomp filter and the job's own, each a list of BPF instructions.

    The kernel checks, compiles and tries a filter when it is installed, for every call number that the filters before
    it allow: what can be settled once for all jobs is in the server's.
    """
    column, arch = _column()
    leaves = {number: _return(_ALLOW) for number in _numbers(_ALLOWED, column)}
    leaves |= {number: _return(_KILL) for number in _numbers(_DEADLY, column)}
    special = {
        "kill": _argument_is(0, [_OWN_PID], _KILL),
        "tgkill": _argument_is(0, [_OWN_PID], _KILL),
        "fcntl": _argument_is(1, _FCNTL_SAFE, _EPERM),
        "ioctl": _return(_ENOTTY),
        # Its own limits may be read, not set; nothing may be asked of another process, not even whether it exists.
        "prlimit64": _argument_is(0, [0, _OWN_PID], _EPERM, _pointer_is_null(2)),
        "getpgid": _argument_is(0, [0, _OWN_PID], _EPERM),
        "getsid": _argument_is(0, [0, _OWN_PID], _EPERM),
        "clock_gettime": _argument_is(0, _CLOCKS, _EPERM),
        "clock_getres": _argument_is(0, _CLOCKS, _EPERM),
        "clock_nanosleep": _argument_is(0, _CLOCKS, _EPERM),
    }
    leaves |= {number: special[name] for number, name in _numbers(_BY_ARGUMENT, column).items()}
    own = _numbers(_DECIDED_IN_JOBS, column)
    check_arch = [_instruction(_LOAD, 0, 0, _ARCH), _instruction(_JUMP_EQUAL, 1, 0, arch), *_return(_KILL)]
    load_number = _instruction(_LOAD, 0, 0, _NUMBER)
    server = _starts(leaves | {number: _return(_ALLOW) for number in own}, _return(_EPERM))
    server.append((1 << 30, _return(_KILL)))  # the x32 numbers: a second way to every call
    job = _starts({number: leaves.get(number, _return(_EPERM)) for number in own}, _return(_ALLOW))
    return [*check_arch, load_number, *_search(server)], [load_number, *_search(job)]


def _starts(leaves, default):
    """Where the answer changes along the call numbers: (number, leaf) in ascending order."""
    starts = [(0, leaves.get(0, default))]
    for number in range(1, max(leaves) + 2):
        leaf = leaves.get(number, default)
        if leaf != starts[-1][1]:
            starts.append((number, leaf))
    return starts


def _search(starts):
    """Binary search for the last of `starts`, (number, leaf) in ascending order, that is not above the call's number.

    The comparisons stand first and every different leaf once behind them: each instruction costs each job.
    """
    comparisons = [b""] * (len(starts) - 1)
    places, leaves = {}, []
    for _, leaf in starts:
        if tuple(leaf) not in places:
            places[tuple(leaf)] = len(comparisons) + len(leaves)
            leaves += leaf

    def place(low, high, at):
        """Where the search among starts[low:high] begins: at a leaf, or with the comparison that is put there."""
        if high - low == 1:
            return places[tuple(starts[low][1])]
        middle = (low + high) // 2
        below = place(low, middle, at + 1)
        above = place(middle, high, at + middle - low)
        comparisons[at] = _instruction(_JUMP_GE, above - at - 1, below - at - 1, starts[middle][0])
        return at

    place(0, len(starts), 0)
    return [*comparisons, *leaves]


def confine_server(readable, listable):
    """Confines the calling process for good and returns the function that each of its children confines itself with:
    it takes the seconds of processor time that the child may use."""
    libc = _libc()
    drop_capabilities(libc)
    abi = landlock_abi()
    if abi < 1:
        raise ConfinementError("this kernel has no Landlock (Linux 5.13 or newer with landlock in its LSM list)")
    server_layer = _ruleset(libc, readable, listable, abi)
    _check(libc.syscall(446, server_layer, 0), "landlock_restrict_self")
    os.close(server_layer)
    # Only the scope of signals and sockets changes from job to job: the files are settled by the layer above.
    scope = struct.pack("=QQQ", 0, 0, 3) if abi >= 6 else struct.pack("=Q", 1 << 1)
    job_layer = _check(libc.syscall(444, scope, ctypes.c_size_t(len(scope)), 0), "landlock_create_ruleset")
    server_filter, job_filter = (ctypes.create_string_buffer(b"".join(code)) for code in filter_programs())
    words = memoryview(job_filter).cast("B")[: len(job_filter) - 1].cast("I")
    pid_at = [at for at in range(1, len(words), 2) if words[at] == _OWN_PID]
    job_rules = _rules(job_filter)
    prlimit, seccomp = ((302, 317), (261, 277))[_column()[0]]
    _check(libc.syscall(seccomp, 1, 0, _rules(server_filter)), "seccomp")
    call, getpid, pack = ctypes.PyDLL(None).syscall, os.getpid, struct.Struct("=QQ").pack

    def confine_job(cpu):
        pid = getpid()
        for at in pid_at:
            words[at] = pid
        # One second lies between SIGXCPU, which names the limit, and SIGKILL for those that do not hear it.
        if call(prlimit, 0, _RLIMIT_CPU, pack(cpu, cpu + 1), None):
            raise ConfinementError("prlimit")
        if call(446, job_layer, 0):
            raise ConfinementError("landlock_restrict_self")
        if call(seccomp, 1, 0, job_rules):
            raise ConfinementError("seccomp")

    return confine_job


def _rules(code):
    """struct sock_fprog: how many instructions (of 8 bytes, in a buffer that ends in a null), and where."""
    return struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(code))
