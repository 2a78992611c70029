#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two kernels, the same source and configuration: one built with objtool, one with `etch objtool` in its place. Both are
booted and made to walk their stacks, and what they print is compared.

    scripts/vm/kernel.py [--etch build/etch] [-j 2] [--append OPTIONS] [--keep DIRECTORY]

Builds what scripts/kernel_objects.py has not built yet. In each kernel: the self-tests of static keys and static calls at
boot; /proc/*/stack; sysrq l, t, w; tracepoints, the function tracer and a kprobe, on and off; a WARN, an exception and a BUG
of lkdtm; modules loaded and unloaded; tests/kernel/walks, which unwinds what a timer interrupts. Exit status 1 where the kernel of etch breaks off a walk that the other does not, prints
another stack of a sleeping task, or a warning that the other does not.
"""

import argparse
import collections
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "vm")]
import kernel_objects  # noqa: E402
import machine  # noqa: E402

WALKS = ROOT / "tests" / "kernel" / "walks"
# Parts are divided by lines of '@@'. A part that ends its process runs in a shell of its own.
COMMANDS = r"""
T=/sys/kernel/tracing
part() { echo; echo "@@ $1"; }
part boot; dmesg
part vulnerabilities; for f in /sys/devices/system/cpu/vulnerabilities/*; do echo "${f##*/}: $(cat $f)"; done
part stacks
for p in /proc/[0-9]*; do echo "task $(cat $p/comm)"; cat $p/stack; done
part sysrq; dmesg -c >/dev/null
for key in l t w; do echo $key >/proc/sysrq-trigger; done; sleep 1; dmesg -c
part tracepoints
echo 1 >$T/events/sched/enable; echo 1 >$T/options/stacktrace; ls -R /proc/sys >/dev/null; echo 0 >$T/events/sched/enable
echo 0 >$T/options/stacktrace; [ $(grep -c sched_ $T/trace) -gt 20 ] && echo traced; echo >$T/trace
sleep 1; [ $(grep -c sched_ $T/trace) = 0 ] && echo quiet
part functions
echo vfs_read >$T/set_ftrace_filter; echo function >$T/current_tracer; echo 1 >$T/options/func_stack_trace
cat /proc/version >/dev/null; grep -A12 vfs_read $T/trace | grep '=>' | head -12; echo nop >$T/current_tracer
part kprobe
echo 'p:etch_open do_sys_openat2' >>$T/kprobe_events; echo stacktrace >$T/events/kprobes/etch_open/trigger
echo 1 >$T/events/kprobes/etch_open/enable; cat /proc/version >/dev/null; echo 0 >$T/events/kprobes/etch_open/enable
grep -A12 etch_open $T/trace | grep '=>' | head -12; echo >$T/kprobe_events
part walks
(while :; do ls -lR /proc /sys >/dev/null 2>&1; dd if=/dev/zero of=/tmp/x bs=64k count=200 2>/dev/null; (exit); done) &
insmod /t/etch_walks.ko walks=30000 period=200; kill $!; wait; rmmod etch_walks; dmesg | grep etch_walks:
part modules
for i in 1 2 3; do insmod /t/lkdtm.ko; rmmod lkdtm; done; insmod /t/lkdtm.ko && echo loaded
for crash in WARNING EXCEPTION BUG; do
	part $crash; dmesg -c >/dev/null; (echo $crash >/sys/kernel/debug/provoke-crash/DIRECT) 2>/dev/null; dmesg -c
done
"""


def module(out, directory, jobs, objtool):
    """tests/kernel/walks for the kernel of a directory."""
    where = Path(directory)
    for path in WALKS.iterdir():
        (where / path.name).write_bytes(path.read_bytes())
    args = [f"objtool={objtool}"] if objtool else []
    kernel_objects.make(kernel_objects.DIRECTORY / kernel_objects.PACKAGE, out, where / "log", f"-j{jobs}", *args,
                        f"M={where}", "modules")
    return where / "etch_walks.ko"


def run(out, jobs, append, objtool=""):
    with tempfile.TemporaryDirectory() as d:
        files = {"/t/etch_walks.ko": module(out, d, jobs, objtool), "/t/lkdtm.ko": out / "drivers/misc/lkdtm/lkdtm.ko"}
        return machine.boot(out / "arch/x86/boot/bzImage", files, COMMANDS, f"tsc=reliable log_buf_len=8M {append}",
                            seconds=3600)


def parts(text):
    out = collections.OrderedDict()
    for name, said in re.findall(r"^@@ (\w+)\n(.*?)(?=^@@ |\Z)", text, re.S | re.M):
        out[name] = re.sub(r"^\[ *[\d.]+\] ", "", said, flags=re.M)
    return out


def stacks(text):
    """Stacks of /proc, by the task's name."""
    out = collections.Counter()
    for task, said in re.findall(r"^task (.*)\n((?:\[<0>\].*\n)*)", text, re.M):
        out[re.sub(r"\d+", "N", re.sub(r"^(kworker/[^-]*).*", r"\1", task)), said] += 1
    return out


def traces(text):
    """Call traces of a log: tuples of functions, without what the unwinder only found on the stack ('?'), and without
    the idle task, which of the processors' it is."""
    out = collections.Counter()
    for said in re.findall(r"Call Trace:\n((?: .*\n)+)", text):
        names = [x.strip() for x in said.splitlines()]
        frames = tuple(x for x in names if re.match(r"[\w.]+\+0x", x))
        out[frames] += not any(x.startswith("do_idle+") for x in frames)
    return out


def compare(theirs, mine):
    """Prints the table; the number of things that are worse with etch."""
    worse = 0

    def row(what, a, b, bad):
        nonlocal worse
        worse += bool(bad)
        print(f"| {what} | {a} | {b} | {'**differs**' if bad else 'ok'} |", flush=True)

    print("| | objtool | etch | |\n|---|---|---|---|")
    row("parts", len(theirs), len(mine), list(theirs) != list(mine) or "end" not in mine)
    warned = [len(re.findall(r"WARNING|BUG:|jump_label: Fatal|Oops", p.get("boot", ""))) for p in (theirs, mine)]
    row("warnings at boot, self-tests among them", *warned, warned[1] > warned[0])
    a, b = (stacks(p.get("stacks", "")) for p in (theirs, mine))
    row("/proc/*/stack: tasks, the same", sum(a.values()), sum((a & b).values()), not a or sum((a & b).values()) < sum(a.values()))
    for part in ("sysrq", "WARNING", "EXCEPTION", "BUG"):
        a, b = (traces(p.get(part, "")) for p in (theirs, mine))
        row(f"{part}: call traces, the same", sum(a.values()), sum((a & b).values()), not a or sum((a & b).values()) < sum(a.values()))
    for part in ("tracepoints", "functions", "kprobe", "modules", "vulnerabilities"):
        a, b = theirs.get(part, ""), mine.get(part, "")
        row(f"{part}: lines", len(a.split("\n")), len(b.split("\n")), not a.strip() or a != b)
    a, b = (re.search(r"ticks (\d+) user (\d+) whole (\d+) broken (\d+)", p.get("walks", "")) for p in (theirs, mine))
    row("walks of interrupted stacks: ticks, in user space, whole, broken off", a and " ".join(a.groups()), b and " ".join(b.groups()),
        not a or not b or int(b.group(4)) > int(a.group(4)))
    for who, p in (("objtool", theirs), ("etch", mine)):
        for where, n in collections.Counter(re.findall(r"broken at (\S+?)\+", p.get("walks", ""))).most_common(8):
            print(f"\nbroken off, {who}: {n} at {where}")
    return worse


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--etch", type=Path, default=ROOT / "build" / "etch")
    p.add_argument("-j", "--jobs", type=int, default=2)
    p.add_argument("--append", default="", help="more for the kernels' command line")
    p.add_argument("--keep", type=Path, help="where to keep what they print")
    opt = p.parse_args()
    if not machine.installed():
        sys.exit(f"kernel: needs {', '.join(machine.PACKAGES.values())}")
    etch = opt.etch.resolve()
    built = kernel_objects.kernel_by_etch(etch, jobs=opt.jobs)
    said = [run(kernel_objects.DIRECTORY / "objtool", opt.jobs, opt.append),
            run(built, opt.jobs, opt.append, f"{etch} objtool --skip=uaccess")]
    if opt.keep:
        opt.keep.mkdir(parents=True, exist_ok=True)
        for name, text in zip(("objtool", "etch"), said):
            (opt.keep / name).write_text(text)
    return 1 if compare(*map(parts, said)) else 0


if __name__ == "__main__":
    sys.exit(main())
