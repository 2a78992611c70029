# SPDX-License-Identifier: MIT
"""Virtual machines for tests: a kernel of Debian's or our own, a root file system of busybox and a test's files, qemu.

qemu translates (TCG), so nothing is asked of the host's processor. Needs the packages of PACKAGES, which are installed
where they are missing and the user may; Debian's kernels are downloaded to DIRECTORY, not installed.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

DIRECTORY = Path(os.environ.get("ETCH_VM", "/var/tmp/etch-vm"))
PACKAGES = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static"}
BUSYBOX = Path("/bin/busybox")
QEMU = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-m", "768"]

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /tmp /run
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tracefs trace /sys/kernel/tracing 2>/dev/null
mount -t debugfs debug /sys/kernel/debug 2>/dev/null
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
ip link set lo up 2>/dev/null
echo 1 >/proc/sys/kernel/printk
/bin/busybox sh /commands
echo; echo "@@ end"
sync
poweroff -f
"""


def installed():
    """The programs are there, or could be installed."""
    missing = [package for program, package in PACKAGES.items() if not shutil.which(program)]
    if missing and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return all(shutil.which(program) for program in PACKAGES) and "statically" in subprocess.run(
        ["sh", "-c", "ldd /bin/busybox 2>&1 || echo statically"], capture_output=True, text=True, check=False).stdout


def version(name):
    return [int(n) for n in re.findall(r"\d+", name)]


def debian_kernel(release):
    """The newest of Debian's kernels of a release ('6.1'), as the path of its image; None where apt has none."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    have = sorted(DIRECTORY.glob(f"vmlinuz-{release}.*"), key=lambda p: version(p.name))
    if have:
        return have[-1]
    names = subprocess.run(["apt-cache", "pkgnames", f"linux-image-{release}."], capture_output=True, text=True, check=False)
    names = [n for n in names.stdout.split() if n.endswith("-cloud-amd64-unsigned")]
    for name in sorted(names, key=version, reverse=True)[:3]:
        with tempfile.TemporaryDirectory(dir=DIRECTORY) as d:
            if subprocess.run(["apt-get", "download", "-q", name], cwd=d, capture_output=True, check=False).returncode:
                continue
            subprocess.run(["sh", "-c", "dpkg-deb --fsys-tarfile *.deb | tar -x ./boot"], cwd=d, check=True)
            image = next(Path(d, "boot").glob("vmlinuz-*"))
            return Path(shutil.copy(image, DIRECTORY))
    return None


def libraries(program):
    """Shared objects that a dynamic program needs, by their paths."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return {Path(p) for p in re.findall(r"(?:=> )?(/\S+) \(0x", out)}


def cpio(entries):
    """An initramfs (the kernel's Documentation/driver-api/early-userspace/buffer-format.rst): {path: bytes or None}."""
    out = bytearray()

    def add(name, mode, data):
        head = [len(out) + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        out.extend(b"070701" + b"".join(b"%08x" % n for n in head) + name.encode() + b"\0")
        out.extend(b"\0" * (-len(out) % 4) + data)
        out.extend(b"\0" * (-len(out) % 4))

    made = set()
    for path, data in sorted(entries.items()):
        for parent in list(Path(path).parents)[-2::-1]:
            if str(parent) not in made:
                made.add(str(parent))
                add(str(parent), stat.S_IFDIR | 0o755, b"")
        add(path, stat.S_IFREG | 0o755, data)
    add("TRAILER!!!", 0, b"")
    return bytes(out)


def initramfs(files, commands):
    """files: {path in the machine: path here}; programs bring their libraries."""
    entries = {"init": INIT.encode(), "commands": commands.encode(), "bin/busybox": BUSYBOX.read_bytes()}
    for to, path in files.items():
        path = Path(path)
        entries[to.lstrip("/")] = path.read_bytes()
        for library in libraries(path):
            entries.setdefault(str(library).lstrip("/"), library.read_bytes())
    return cpio(entries)


def boot(kernel, files, commands, append="", cpus=2, seconds=600, accel=("-accel", "tcg,thread=multi"), cpu="max"):
    """Boots, runs the commands (a script of busybox's shell) and stops. Returns what was printed on the serial line; what
    was printed so far where `seconds` were not enough (it then does not end in '@@ end')."""
    with tempfile.TemporaryDirectory() as d:
        root, log = Path(d, "root"), Path(d, "log")
        root.write_bytes(initramfs(files, commands))
        argv = [*QEMU, "-cpu", cpu, "-smp", str(cpus), *accel, "-serial", f"file:{log}", "-kernel", kernel,
                "-initrd", root, "-append", f"console=ttyS0 quiet panic=-1 no_timer_check {append}"]
        try:
            # It warns of each feature of a processor that it has not.
            p = subprocess.run([str(a) for a in argv], timeout=seconds, check=False, stderr=subprocess.PIPE, text=True)
            if p.returncode:
                print(p.stderr, file=sys.stderr)
        except subprocess.TimeoutExpired:
            pass
        return log.read_text(errors="replace").replace("\r", "") if log.exists() else ""
