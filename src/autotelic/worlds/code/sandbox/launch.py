"""Walls itself in and becomes a server: namespaces of its own, then sandlock's Landlock rules, then exec.

A program of its own, because all of this is for good: see `backends._sandlock`. Namespaces hide what Landlock only
locks: without them a program could still learn which paths and processes there are. They need no root, but some
systems deny them to ordinary users; then starting fails and says so, it does not go on without them.
"""

import ctypes
import json
import os
import sys

import sandlock

_NEW_MOUNTS, _NEW_NAMES, _NEW_IPC, _NEW_USERS, _NEW_NETWORK = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_UID = 1000  # what programs see: an ordinary user

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = (None if part is None else part.encode() for part in (source, target, kind))
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), data and data.encode()), f"mount {target}")


def hide(paths: list[str], masked: list[str]) -> None:
    """Leaves nothing of the file system but `paths` without what is below `masked`; and no other process, network, host
    name or shared memory."""
    uid, gid = os.geteuid(), os.getegid()
    namespaces = _NEW_USERS | _NEW_MOUNTS | _NEW_NETWORK | _NEW_IPC | _NEW_NAMES
    _check(_libc.unshare(namespaces), "namespaces")
    for file, line in (("setgroups", "deny"), ("uid_map", f"{_UID} {uid} 1"), ("gid_map", f"{_UID} {gid} 1")):
        with open(f"/proc/self/{file}", "w") as opened:
            opened.write(line)
    _check(_libc.sethostname(b"sandbox", 7), "sethostname")
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    root = "/tmp"  # covered by a small file system of our own, which becomes the root
    _mount("tmpfs", root, "tmpfs", _NO_SUID | _NO_DEVICES, "size=1m,mode=755")
    old = f"{root}/.old"
    os.mkdir(old)
    _check(_libc.syscall(_PIVOT_ROOT[os.uname().machine], root.encode(), old.encode()), "pivot_root")
    os.chdir("/")
    for path in paths:
        _show(path)
    for path in masked:
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", _READ_ONLY | _NO_SUID | _NO_DEVICES, "size=4k")
    _check(_libc.umount2(b"/.old", _DETACH), "umount")
    os.rmdir("/.old")
    _mount("none", "/", None, _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES)


def _show(path: str) -> None:
    """Makes a path of the old root visible at the same place; links on the way stay links."""
    parts = path.strip("/").split("/")
    for at in range(len(parts)):
        here = "/" + "/".join(parts[: at + 1])
        if os.path.islink(f"/.old{here}"):
            target = os.readlink(f"/.old{here}")
            if not os.path.lexists(here):
                os.symlink(target, here)
            return _show(os.path.normpath(os.path.join(os.path.dirname(here), target, *parts[at + 1 :])))
        if os.path.isdir(f"/.old{here}"):
            os.makedirs(here, exist_ok=True)
    if os.path.exists(f"/.old{path}"):  # a link may lead nowhere
        if not os.path.exists(path):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        _mount(f"/.old{path}", path, None, _BIND | _RECURSIVE)
    return None


def main() -> None:
    request = json.loads(sys.argv[1])
    try:
        readable = request["readable"]
        if request["hide"]:
            hide([*readable, os.devnull], request["masked"])
            readable = ["/"]  # all that is left; a kernel that copies few rules forks faster
        sandlock.confine(sandlock.Sandbox(fs_readable=readable, fs_writable=[os.devnull]))
        os.execv(request["command"][0], request["command"])
    except Exception as error:
        os.write(0, f"{type(error).__name__}: {error}".encode()[:1000])  # the control socket: the host shows it
        sys.exit(1)


if __name__ == "__main__":
    main()
