#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a command in a system whose ELF files are those of a scratch root.

    scripts/programs/enter.py ROOT COMMAND...

In namespaces of its own each file ROOT/usr/lib/x.so is mounted over /usr/lib/x.so, so
that every program is started under its own name, and finds its libraries, as always. The
network is an own loopback: ports are free, and nothing reaches out of the machine. The
processes are numbered from 2, and none outlives the command. For a user who is not root
the namespaces are those of a user namespace. `--env NAME=VALUE` before ROOT sets a
variable for the command alone; `-` for ROOT is the system as it is. `--ended FILE` has the
kernel write there how each process ended (acct(2)), where it is root who asks; see crashes().
"""

import collections
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

# Signals that nobody sends: a process that ends by one has crashed. SIGPROF is the sampler's.
CRASHES = (signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGPROF, signal.SIGSYS)

# acct(5), version 3: exit status, and name of the command; and how long such a record is.
ACCT = struct.Struct("<xB2xI40x16s")

REFUSED = 125      # the exit status where the machine allows no namespaces

libc = ctypes.CDLL(None, use_errno=True)


def _call(function, *args):
    if function(*args):
        number = ctypes.get_errno()
        raise OSError(number, f"{function.__name__}: {os.strerror(number)}")


def _mount(source, target, flags, kind=None):
    _call(libc.mount, source and os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), None)


def _loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(s, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def _namespaces():
    own = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID
    try:
        _call(libc.unshare, own)
    except OSError as why:
        if why.errno != errno.EPERM:
            raise
        uid, gid = os.getuid(), os.getgid()
        _call(libc.unshare, CLONE_NEWUSER | own)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _become_first():
    """Goes on in a child that is process 1 of the namespace: what is left is killed with it."""
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        os._exit(os.waitstatus_to_exitcode(status) & 255)
    _call(libc.prctl, PR_SET_PDEATHSIG, int(signal.SIGKILL))
    _mount("proc", "/proc", 0, b"proc")


def crashes(path):
    """Who has crashed of the processes that are in an --ended FILE: how many by (command, signal).
    None where the kernel has written nothing there."""
    data = Path(path).read_bytes()
    if not data:
        return None
    ends = [ACCT.unpack_from(data, at) for at in range(0, len(data) - ACCT.size + 1, ACCT.size)]
    return collections.Counter((name.split(b"\0")[0].decode(errors="replace"), signal.Signals(status & 127).name)
                               for _, status, name in ends if status & 127 in CRASHES)


def enter(root, ended=None):
    """Takes this process there. None: no file is another."""
    _namespaces()
    _mount(None, "/", MS_REC | MS_PRIVATE)
    for path in sorted(Path(root).rglob("*")) if root else []:
        if path.is_file():
            _mount(path, "/" / path.relative_to(root), MS_BIND)
    _loopback_up()
    _become_first()
    if ended:
        libc.acct(os.fsencode(ended))   # refused to who is not root: the file stays empty


def run(argv, env):
    """A process 1 that waits for one command, and for what others leave behind meanwhile."""
    command = os.fork()
    if not command:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):     # Python ignores them, and that is inherited
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvpe(argv[0], argv, env)
        except OSError as why:
            print(f"enter.py: {argv[0]}: {why.strerror}", file=sys.stderr, flush=True)
        os._exit(127)
    while True:
        child, status = os.wait()
        if child == command:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def main():
    argv, env, ended = sys.argv[1:], dict(os.environ), None
    while len(argv) > 1 and argv[0] in ("--env", "--ended"):
        name, _, value = argv[1].partition("=")
        if argv[0] == "--env":
            env[name] = value
        else:
            ended = argv[1]
        argv = argv[2:]
    if len(argv) < 2:
        sys.exit(__doc__)
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))     # nor does it outlive who asked for it
    try:
        enter(argv[0] if argv[0] != "-" else None, ended)
    except OSError as why:
        print(f"enter.py: {why}", file=sys.stderr)
        sys.exit(REFUSED)
    run(argv[1:], env)


if __name__ == "__main__":
    main()
