# SPDX-License-Identifier: MIT
"""The compilers of other Debian releases, for scripts/compilers.py: each release has a root directory (scripts/systems.py makes it),
in which the checkout is at its own path and the script runs again."""
import os
import re
import shlex
import shutil
import subprocess

import systems

PACKAGES = systems.INSTALL.format(r"(gcc|g\+\+|clang)-[0-9]+|llvm-[0-9]+-linker-tools|rustc|golang-go|python3|python3-pyelftools|binutils|libc6-dev")
# $1: the root; $2: the checkout; $3: what runs there. It ends with all that it has started: it has a process namespace.
ENTER = """\
set -e
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mkdir -p "$1$2"
mount --bind "$2" "$1$2"
exec chroot "$1" sh -c "cd '$2' && $3"
"""


def enter(system, checkout, command, **kw):
    """Runs a command in a root."""
    env = {k: v for k, v in os.environ.items() if systems.PASSED_ON.fullmatch(k)}
    env |= {"HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", system.root, checkout, command],
                          env=env, stdin=subprocess.DEVNULL, **kw)


def make(folder, suite, mirror):
    """The root of a release with all of its compilers. Raises systems.Failed."""
    if os.geteuid() or not shutil.which("debootstrap"):
        raise systems.Failed("--systems needs root and debootstrap")
    system = systems.System(folder.resolve(), suite, mirror)
    system.make()
    for name in ("/etc/resolv.conf", systems.CERTIFICATES):
        if os.path.exists(name):
            shutil.copy(name, system.root / name[1:])
    stamp = system.logs / "compilers"
    if not stamp.exists():
        p = enter(system, systems.ROOT, f"apt-get -q update && {PACKAGES}", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if p.returncode:
            raise systems.Failed(f"{suite}: no compilers: {p.stdout[-500:]}")
        stamp.write_text(p.stdout)
    return system


def run(system, checkout, arguments):
    """Runs scripts/compilers.py in a root; its messages go where this script's go, its tables nowhere: the results are in --json."""
    return enter(system, checkout, "python3 scripts/compilers.py " + shlex.join(map(str, arguments)), stdout=subprocess.DEVNULL).returncode


def majors(names):
    """What compilers are the same by: gcc 12, of gcc 12.2.0; of Rust and Go the whole version."""
    return {re.sub(r"^(gcc|clang) (\d+).*", r"\1 \2", name) for name in names}
