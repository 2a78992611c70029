#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Objects of Debian's Linux 6.1 as they are before objtool runs, for scripts/parity/kernel.py.

    scripts/kernel_objects.py            makes them, if they are not there; prints the directory

Needs apt, gcc, flex, bison, bc, libelf-dev, and 3 GB; about 20 minutes of two processors. The source is the newest
package linux-source-6.1; the configuration is tinyconfig with KERNEL_OPTIONS, which turns on ORC, retpolines, return
thunks, static keys and calls, SLS, modules, ext4, TCP/IP. Nothing of it is installed. In DIRECTORY:

    linux-source-6.1/   the source, with the kernel built by its own objtool
    kept/               each object that objtool was run on, as it was before, and NAME.o.args: objtool's options
"""

import argparse
import os
import stat
import subprocess
import sys
from pathlib import Path

DIRECTORY = Path(os.environ.get("ETCH_KERNEL", "/var/tmp/etch-kernel"))
PACKAGE = "linux-source-6.1"
KERNEL_OPTIONS = """
64BIT PRINTK PRINTK_TIME BUG EARLY_PRINTK TTY SERIAL_8250 SERIAL_8250_CONSOLE PROC_FS PROC_SYSCTL SYSFS TMPFS DEVTMPFS
BLK_DEV_INITRD RD_GZIP BINFMT_ELF BINFMT_SCRIPT MODULES MODULE_UNLOAD KALLSYMS KALLSYMS_ALL DEBUG_KERNEL MAGIC_SYSRQ
KPROBES SMP ACPI PCI HYPERVISOR_GUEST PARAVIRT SPECULATION_MITIGATIONS CPU_MITIGATIONS UNWINDER_ORC STACKTRACE RETPOLINE
RETHUNK SLS CPU_UNRET_ENTRY JUMP_LABEL STATIC_KEYS_SELFTEST STATIC_CALL_SELFTEST FUTEX EPOLL SIGNALFD EVENTFD SHMEM
MULTIUSER POSIX_TIMERS HIGH_RES_TIMERS NO_HZ_IDLE CGROUPS NET UNIX INET IA32_EMULATION BLOCK EXT4_FS PERF_EVENTS FTRACE
FUNCTION_TRACER DYNAMIC_FTRACE RUNTIME_TESTING_MENU DEBUG_FS IO_URING BPF_SYSCALL SECCOMP AIO RELOCATABLE CRYPTO
CC_OPTIMIZE_FOR_PERFORMANCE KERNEL_GZIP
"""
MODULES = "LKDTM"
WRAPPER = """#!/bin/sh
# Keeps an object as it is before objtool runs, and the options.
for file; do :; done
kept=$ETCH_KEPT/${file#./}
mkdir -p "${kept%/*}" && cp -p "$file" "$kept" && echo "$@" >"$kept.args" || exit 1
exec "$ETCH_OBJTOOL" "$@"
"""


def call(argv, log, **more):
    with open(log, "ab") as out:
        done = subprocess.run([str(a) for a in argv], stdout=out, stderr=subprocess.STDOUT, **more)
    if done.returncode:
        sys.exit(f"kernel_objects: {' '.join(map(str, argv[:4]))} failed: see {log}")


def unpack(where, log):
    """The package's tarball, unpacked."""
    call(["apt-get", "download", "-q", PACKAGE], log, cwd=where)
    package = sorted(where.glob(f"{PACKAGE}_*.deb"))[-1]
    call(["sh", "-c", 'dpkg-deb --fsys-tarfile "$0" | tar -xO ./usr/src/"$1".tar.xz | tar -xJ', package.name, PACKAGE], log,
         cwd=where)


def configure(tree, log):
    call(["make", "-s", "tinyconfig"], log, cwd=tree)
    fragment = tree / "etch.config"
    fragment.write_text("".join(f"CONFIG_{name}=y\n" for name in KERNEL_OPTIONS.split()) +
                        "".join(f"CONFIG_{name}=m\n" for name in MODULES.split()) + "CONFIG_RANDOMIZE_BASE=n\n")
    call(["scripts/kconfig/merge_config.sh", "-m", ".config", fragment], log, cwd=tree)
    call(["make", "-s", "olddefconfig"], log, cwd=tree)


def build(tree, kept, jobs, log):
    wrapper = tree.parent / "wrapper"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    call(["make", "-s", f"-j{jobs}", "tools/objtool"], log, cwd=tree)
    env = dict(os.environ, ETCH_KEPT=str(kept), ETCH_OBJTOOL=str(tree / "tools/objtool/objtool"))
    call(["nice", "-n", "10", "make", "-s", f"-j{jobs}", f"objtool={wrapper}", "vmlinux", "modules"], log, cwd=tree, env=env)


def objects(where=DIRECTORY, jobs=2):
    """The directory of kept objects and the path of objtool; makes them where they are missing."""
    tree, kept, log = where / PACKAGE, where / "kept", where / "log"
    where.mkdir(parents=True, exist_ok=True)
    if not (where / "done").exists():
        if not tree.exists():
            unpack(where, log)
        configure(tree, log)
        build(tree, kept, jobs, log)
        (where / "done").touch()
    return kept, tree / "tools/objtool/objtool"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("-j", "--jobs", type=int, default=2)
    print(objects(jobs=p.parse_args().jobs)[0])


if __name__ == "__main__":
    main()
