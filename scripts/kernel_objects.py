#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Objects of Debian's Linux as they are before objtool runs, for scripts/parity/kernel.py.

    scripts/kernel_objects.py            makes them, if they are not there; prints the directory

Of Linux 6.1; of 6.12 or 7.2 with ETCH_KERNEL_RELEASE in the environment. Needs apt, gcc, what PACKAGES lists, and 3 GB;
about 20 minutes of two processors. The source is the newest package linux-source-VERSION, of 7.2 that of Debian's unstable; the
configuration is tinyconfig with KERNEL_OPTIONS, which turns on ORC, retpolines, return thunks, static keys and calls, SLS,
modules. That of 7.2 has IBT, FRED and call depth tracking, too, as Debian's. Nothing of it is installed. In DIRECTORY:

    linux-source-6.1/   the source; 6.12 has a directory of its own
    objtool/, etch/     the kernel built by its own objtool; by `etch objtool` (scripts/vm/kernel.py)
    kept/               each object that objtool was run on, as it was before, and NAME.o.args: objtool's options; of 7.2, where
                        it is run on vmlinux.o and modules alone, their parts, too, with the options for vmlinux.o
"""

import argparse
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

# What the kernel's build needs, and Debian's packages for it; installed where the user may.
PACKAGES = {"/usr/bin/flex": "flex", "/usr/bin/bison": "bison", "/usr/bin/bc": "bc", "/usr/include/gelf.h": "libelf-dev"}
RELEASE = os.environ.get("ETCH_KERNEL_RELEASE", "6.1")
DIRECTORY = Path(os.environ.get("ETCH_KERNEL", "/var/tmp/etch-kernel" if RELEASE == "6.1" else f"/var/tmp/etch-kernel-{RELEASE}"))
PACKAGE = f"linux-source-{RELEASE}"
UNSTABLE = "deb http://deb.debian.org/debian unstable main\n"
KERNEL_OPTIONS = """
64BIT PRINTK PRINTK_TIME BUG EARLY_PRINTK TTY SERIAL_8250 SERIAL_8250_CONSOLE PROC_FS PROC_SYSCTL SYSFS TMPFS DEVTMPFS
BLK_DEV_INITRD RD_GZIP BINFMT_ELF BINFMT_SCRIPT MODULES MODULE_UNLOAD KALLSYMS KALLSYMS_ALL DEBUG_KERNEL MAGIC_SYSRQ
KPROBES SMP ACPI PCI HYPERVISOR_GUEST PARAVIRT SPECULATION_MITIGATIONS CPU_MITIGATIONS UNWINDER_ORC STACKTRACE RETPOLINE
RETHUNK SLS CPU_UNRET_ENTRY JUMP_LABEL STATIC_KEYS_SELFTEST STATIC_CALL_SELFTEST FUTEX EPOLL SIGNALFD EVENTFD SHMEM
MULTIUSER POSIX_TIMERS HIGH_RES_TIMERS NO_HZ_IDLE CGROUPS IA32_EMULATION BLOCK EXT2_FS PERF_EVENTS FTRACE
FUNCTION_TRACER DYNAMIC_FTRACE RUNTIME_TESTING_MENU DEBUG_FS IO_URING BPF_SYSCALL SECCOMP AIO RELOCATABLE CRYPTO
CC_OPTIMIZE_FOR_PERFORMANCE KERNEL_GZIP MEMBARRIER ADVISE_SYSCALLS RSEQ UPROBE_EVENTS MEMCG TRANSPARENT_HUGEPAGE HUGETLBFS
SLUB FAULT_INJECTION FAULT_INJECTION_DEBUG_FS FAILSLAB FAIL_PAGE_ALLOC
MITIGATION_RETPOLINE MITIGATION_RETHUNK MITIGATION_SLS MITIGATION_UNRET_ENTRY
"""
MODULES = "LKDTM"
# With IBT objtool runs once, on vmlinux.o, and call depths are tracked by it alone.
DELAYED = "X86_KERNEL_IBT MITIGATION_CALL_DEPTH_TRACKING"
OFF = "RANDOMIZE_BASE"
# Of 7.2 the passes are those of Debian's configuration, which has both, and with DEBUG_ENTRY, as in x86_64_defconfig, --noinstr and
# --unret; the network makes the number of objects that of Debian's core.
DEBIAN_OPTIONS = "DEBUG_ENTRY X86_FRED IRQ_REMAP NET UNIX INET PACKET NAMESPACES NET_NS USER_NS PID_NS"
IS_DELAYED = RELEASE not in ("6.1", "6.12")
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


def install(log):
    missing = [package for path, package in PACKAGES.items() if not Path(path).exists()]
    if missing and os.geteuid():
        sys.exit(f"kernel_objects: needs {', '.join(missing)}")
    if missing:
        call(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing], log)


def apt_of_unstable(where, log):
    """Options by which apt-get knows Debian's unstable, and changes nothing of the system."""
    root = where / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "sources.list").write_text(UNSTABLE)
    options = [f"-oDir::State::lists={root}/lists", f"-oDir::Cache={root}/cache", f"-oDir::Etc::sourcelist={root}/sources.list",
               "-oDir::Etc::sourceparts=-"]
    call(["apt-get", *options, "update", "-q"], log)
    return options


def unpack(where, log):
    """The package's tarball, unpacked."""
    options = apt_of_unstable(where, log) if IS_DELAYED else []
    call(["apt-get", *options, "download", "-q", PACKAGE], log, cwd=where)
    package = sorted(where.glob(f"{PACKAGE}_*.deb"))[-1]
    call(["sh", "-c", 'dpkg-deb --fsys-tarfile "$0" | tar -xO ./usr/src/"$1".tar.xz | tar -xJ', package.name, PACKAGE], log,
         cwd=where)


def make(tree, out, log, *args, **more):
    """The kernel's make with its results in `out`; ccache, where there is one, lets the next kernel be cheap."""
    cc = ["CC=ccache gcc"] if shutil.which("ccache") else []
    env = dict(os.environ, CCACHE_DIR=str(tree.parent / "ccache"), CCACHE_MAXSIZE="2G", **more)
    call(["make", "-s", f"O={out}", *cc, *args], log, cwd=tree, env=env)


def configure(tree, out, log):
    out.mkdir(exist_ok=True)
    make(tree, out, log, "tinyconfig")
    fragment = out / "etch.config"
    wanted = [(KERNEL_OPTIONS, "y"), (MODULES, "m"), (OFF, "n")]
    wanted += [(DEBIAN_OPTIONS, "y"), (DELAYED, "y")] if IS_DELAYED else [(DELAYED, "n")]
    fragment.write_text("".join(f"CONFIG_{name}={value}\n" for names, value in wanted for name in names.split()))
    call([tree / "scripts/kconfig/merge_config.sh", "-m", "-O", out, out / ".config", fragment], log, cwd=out)
    make(tree, out, log, "olddefconfig")


def build(tree, out, kept, jobs, log):
    wrapper = tree.parent / "wrapper"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    make(tree, out, log, f"-j{jobs}", "tools/objtool")
    make(tree, out, log, f"-j{jobs}", f"objtool={wrapper}", "bzImage", "modules",
         ETCH_KEPT=str(kept), ETCH_OBJTOOL=str(out / "tools/objtool/objtool"))


def parts_keep(out, kept):
    """Copies the parts of vmlinux.o, which objtool has not seen one by one."""
    options = " ".join((kept / "vmlinux.o.args").read_text().split()[:-1])
    archives = [out / "vmlinux.a", *(out / "arch/x86/lib").glob("lib.a"), *(out / "lib").glob("lib.a")]
    for archive in archives:
        listed = subprocess.run(["ar", "t", archive], check=True, capture_output=True, text=True, cwd=out).stdout.split()
        for name in listed:
            part = out / name if (out / name).exists() else archive.parent / name
            to = kept / part.relative_to(out)
            if to.exists():
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(part, to)
            Path(f"{to}.args").write_text(f"{options} {to.relative_to(kept)}")


def objects(where=DIRECTORY, jobs=2):
    """The directory of kept objects and the path of objtool; makes them where they are missing."""
    tree, out, kept, log = where / PACKAGE, where / "objtool", where / "kept", where / "log"
    where.mkdir(parents=True, exist_ok=True)
    if not (where / "done").exists():
        install(log)
        if not tree.exists():
            unpack(where, log)
        configure(tree, out, log)
        build(tree, out, kept, jobs, log)
        if IS_DELAYED:
            parts_keep(out, kept)
        (where / "done").touch()
    return kept, out / "tools/objtool/objtool"


def kernel_by_etch(etch, where=DIRECTORY, jobs=2):
    """The same kernel with `etch objtool` in objtool's place, as docs/guides/kernel.md says; afresh for another etch, which
    make knows nothing of. Returns its directory."""
    tree, out, log, by = where / PACKAGE, where / "etch", where / "log.etch", where / "etch-built-by"
    digest = hashlib.sha256(Path(etch).read_bytes()).hexdigest()
    objects(where, jobs)
    if not by.exists() or by.read_text() != digest:
        shutil.rmtree(out, ignore_errors=True)
        by.write_text(digest)
    if not (out / ".config").exists():
        out.mkdir(exist_ok=True)
        shutil.copy(where / "objtool" / ".config", out)
    make(tree, out, log, "olddefconfig")
    make(tree, out, log, f"-j{jobs}", f"objtool={etch} objtool", "bzImage", "modules")
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("-j", "--jobs", type=int, default=2)
    print(objects(jobs=p.parse_args().jobs)[0])


if __name__ == "__main__":
    main()
