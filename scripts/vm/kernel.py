#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two kernels, the same source and configuration: one built with objtool, one with `etch objtool` in its place. Both are
booted and made to walk their stacks, and what they print is compared.

    scripts/vm/kernel.py [--etch build/etch] [-j 2] [--only BOOT] [--again] [--keep DIRECTORY]

Builds what scripts/kernel_objects.py has not built yet. In each kernel: the self-tests of static keys and static calls at
boot; /proc/*/stack; sysrq l, t, w; tracepoints, the function tracer and a kprobe, on and off; a WARN, an exception and a BUG
of lkdtm; modules loaded and unloaded; tests/data/kernel/walks, which unwinds what a timer interrupts, and says what the kernel's
code is then. So for each of BOOTS, whose command lines choose mitigations. Exit status 1 where anything is not the same.

What is the same. Two boots of one kernel are not: qemu's processors are threads. --again shows it, by a second boot of
objtool's kernel in the place of etch's. So:
- A stack is the names and offsets of its frames, from the innermost on, of those that the unwinder vouches for. Entries with
  '?' are words that lie on the stack from earlier calls. Where a walk breaks off the frames behind are such entries, and the
  stack is another.
- All tasks are compared by name, stack and number, but those of TIMED: how many workers there are, and what they did last, which
  their names end in, depends on when work came, as what RCU's thread waits for does. Their stacks have to be whole: they end
  where objtool's kernel lets a stack end.
- So do the stacks of what a processor was interrupted in by sysrq l: it is a matter of time what that was.
- Of a task that is running /proc has no stack: it is asked for again, ten times. A walk that breaks off stays as it is.
- Nor has sysrq t: an empty trace is left out. One that breaks off has at least the frame of __schedule(). In __switch_to() the
  kernel itself takes no stack for the running task's: such a trace is empty, too.
- Of code each page: those alone differ that differ in the files (they name the ends of ORC's tables).
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
from elftools.elf.elffile import ELFFile  # noqa: E402

WALKS = ROOT / "tests" / "data" / "kernel" / "walks"
TIMED = ("kworker", "rcu_sched", "rcu_preempt", "interrupted")
# Command lines, and the processor that asks for it: Zen 2 needs its returns untrained.
BOOTS = {
    "as it comes": ("", "max"),
    "retpoline, unret": ("spectre_v2=retpoline retbleed=unret spec_rstack_overflow=safe-ret", "EPYC-Rome"),
    "retpoline, returns as they are": ("spectre_v2=retpoline retbleed=off spec_rstack_overflow=off", "EPYC-Rome"),
    "no mitigations": ("mitigations=off", "EPYC-Rome"),
}
# Parts are divided by lines of '@@'. A part that ends its process runs in a shell of its own. What the kernel says of it goes to
# the serial line at once, between what is still in the terminal's buffer: therefore the pauses.
COMMANDS = r"""
T=/sys/kernel/tracing
part() { echo; echo "@@ $1"; }
part boot; dmesg
part vulnerabilities; for f in /sys/devices/system/cpu/vulnerabilities/*; do echo "${f##*/}: $(cat $f)"; done
part stacks
for p in /proc/[0-9]*; do
	echo "task $(cat $p/comm)"
	for try in 1 2 3 4 5 6 7 8 9 10; do stack=$(cat $p/stack); [ "$stack" ] && break; sleep 0.1; done
	echo "$stack"
done
part sysrq; sleep 1; dmesg -c >/dev/null
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
insmod /t/etch_walks.ko walks=WALKS period=200; kill $!; wait; rmmod etch_walks; dmesg | grep etch_walks:
part modules
for i in 1 2 3; do insmod /t/lkdtm.ko; rmmod lkdtm; done; insmod /t/lkdtm.ko && echo loaded
for crash in WARNING EXCEPTION BUG; do
	part $crash; dmesg -c >/dev/null; sleep 1; (echo $crash >/sys/kernel/debug/provoke-crash/DIRECT) 2>/dev/null; sleep 1
	dmesg -c; sleep 1
done
"""


def module(out, directory, jobs, objtool):
    """tests/data/kernel/walks for the kernel of a directory."""
    where = Path(directory)
    for path in WALKS.iterdir():
        (where / path.name).write_bytes(path.read_bytes())
    args = [f"objtool={objtool}"] if objtool else []
    kernel_objects.make(kernel_objects.DIRECTORY / kernel_objects.PACKAGE, out, where / "log", f"-j{jobs}", *args,
                        f"M={where}", "modules")
    return where / "etch_walks.ko"


def run(out, boot, opt, objtool=""):
    append, cpu = BOOTS[boot]
    walks = opt.walks if boot == next(iter(BOOTS)) else opt.walks // 10
    with tempfile.TemporaryDirectory() as d:
        files = {"/t/etch_walks.ko": module(out, d, opt.jobs, objtool), "/t/lkdtm.ko": out / "drivers/misc/lkdtm/lkdtm.ko"}
        return machine.boot(out / "arch/x86/boot/bzImage", files, COMMANDS.replace("WALKS", str(walks)),
                            f"tsc=reliable log_buf_len=8M {append}", seconds=3600, cpu=cpu)


def parts(text):
    out = collections.OrderedDict()
    for name, said in re.findall(r"^@@ (\w+)\n(.*?)(?=^@@ |\Z)", text, re.S | re.M):
        said = re.sub(r"^\[ *[\d.]+\] ", "", said, flags=re.M)
        out[name] = re.sub(r"^INFO: NMI handler .*\n", "", said, flags=re.M)  # of one processor, in the trace of another
    return out


def tasks(found):
    """Counts of (task, stack), by the rules above."""
    out = collections.Counter()
    for task, frames in found:
        task = task.split("/")[0] if task.startswith("kworker/") else task
        key = task, tuple(frames[-1:] if task in TIMED else frames)
        out[key] = 1 if task in TIMED else out[key] + 1
    return out


def stacks(text):
    """Of /proc."""
    return tasks((task, said.split("\n")[:-1]) for task, said in re.findall(r"^task (.*)\n((?:\[<0>\].*\n)*)", text, re.M))


def traces(text):
    """Of a log."""
    found, task, frames, running = [], "", None, False
    for line in [*text.splitlines(), ""]:
        if frames is not None and not line.startswith(" "):
            if frames or not running:
                found.append((task, frames))
            task, frames, running = "", None, False
        said = re.match(r"task:(\S+)", line)
        task, running = (said.group(1), True) if said else (task, running)
        if line.startswith("NMI backtrace for cpu"):
            task = "?"
        if line.startswith("RIP: 0010:") and task == "?":
            task, running = "interrupted", line.startswith("RIP: 0010:__switch_to+")
        if line == "Call Trace:":
            frames = []
        elif frames is not None and re.match(r" +[\w.]+\+0x", line):
            frames.append(line.strip())
    return tasks(found)


def whole(counts, ends):
    """Without the stacks of TIMED that end where stacks may end."""
    return collections.Counter({x: n for x, n in counts.items() if x[0] not in TIMED or x[1] not in ends})


def pages(text):
    return dict(re.findall(r"etch_walks: text (\w+) (\w+)", text))


def file_pages(out):
    """The same pages of the kernel's file."""
    with open(out / "vmlinux", "rb") as f:
        elf = ELFFile(f)
        text = elf.get_section_by_name(".text")
        data, start = text.data(), text["sh_addr"]
    return {f"{start + at:x}": data[at:at + 4096] for at in range(0, len(data), 4096)}


def hashed(data):
    """FNV-1a, as the module has it."""
    out = 0xcbf29ce484222325
    for byte in data:
        out = (out ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return f"{out:016x}"


def differing(a, b):
    return {x for x in a.keys() | b.keys() if a.get(x) != b.get(x)}


def compare(boot, theirs, mine, files, names):
    """Prints the table; the number of things that are not the same."""
    worse = 0

    def row(what, a, b, bad):
        nonlocal worse
        worse += bool(bad)
        print(f"| {what} | {a} | {b} | {'**differs**' if bad else 'ok'} |", flush=True)

    def both(what, a, b):
        ends = {x[1][-1:] for x in a if x[1]}
        a, b = whole(a, ends), whole(b, ends)
        row(what, sum(a.values()), sum((a & b).values()), not a or a != b)
        for who, more in zip(names, (a - b, b - a)):
            for task, frames in more:
                shown.append(f"{what}, {who} alone: {task} {' '.join(frames)}")

    shown = []
    print(f"\n| {boot} | {names[0]} | {names[1]} | |\n|---|---|---|---|")
    row("parts", len(theirs), len(mine), list(theirs) != list(mine) or "end" not in mine)
    warned = [len(re.findall(r"WARNING: CPU|BUG:|jump_label: Fatal|Oops", p.get("boot", ""))) for p in (theirs, mine)]
    row("warnings at boot, self-tests among them", *warned, warned[1] > warned[0])
    both("/proc/*/stack: the same", *(stacks(p.get("stacks", "")) for p in (theirs, mine)))
    for part in ("sysrq", "WARNING", "EXCEPTION", "BUG"):
        both(f"{part}: call traces, the same", *(traces(p.get(part, "")) for p in (theirs, mine)))
    for part in ("tracepoints", "functions", "kprobe", "modules", "vulnerabilities"):
        a, b = theirs.get(part, ""), mine.get(part, "")
        row(f"{part}: lines", len(a.split("\n")), len(b.split("\n")), not a.strip() or a != b)
    a, b = (pages(p.get("walks", "")) for p in (theirs, mine))
    changed = [differing(p, {x: hashed(data) for x, data in f.items()}) for p, f in zip((a, b), files)]
    row("pages of code, patched", *(f"{len(p)}, {len(c)}" for p, c in zip((a, b), changed)),
        not a or differing(a, b) != differing(*files) & a.keys())
    a, b = (re.search(r"ticks (\d+) user (\d+) whole (\d+) broken (\d+)", p.get("walks", "")) for p in (theirs, mine))
    row("walks of interrupted stacks: ticks, in user space, whole, broken off", a and " ".join(a.groups()), b and " ".join(b.groups()),
        not a or not b or int(b.group(4)) > int(a.group(4)))
    for who, p in zip(names, (theirs, mine)):
        for where, n in collections.Counter(re.findall(r"broken at (\S+?)\+", p.get("walks", ""))).most_common(8):
            shown.append(f"broken off, {who}: {n} at {where}")
    for what in re.findall(r"^(?:retbleed|spectre_v2|spec_rstack_overflow): .*", mine.get("vulnerabilities", ""), re.M):
        shown.append(what)
    print("\n" + "\n".join(shown), flush=True)
    return worse


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--etch", type=Path, default=ROOT / "build" / "etch")
    p.add_argument("-j", "--jobs", type=int, default=2)
    p.add_argument("--only", choices=[*BOOTS], help="one boot of each kernel")
    p.add_argument("--again", action="store_true", help="objtool's kernel twice")
    p.add_argument("--walks", type=int, default=30000, help="of the first boot; of the others a tenth")
    p.add_argument("--keep", type=Path, help="where to keep what they print")
    opt = p.parse_args()
    if not machine.installed():
        sys.exit(f"kernel: needs {', '.join(machine.PACKAGES.values())}")
    etch = opt.etch.resolve()
    theirs = kernel_objects.DIRECTORY / "objtool"
    built = kernel_objects.kernel_by_etch(etch, jobs=opt.jobs)
    kernels = [(theirs, "")] * 2 if opt.again else [(theirs, ""), (built, f"{etch} objtool")]
    names = ("objtool", "again") if opt.again else ("objtool", "etch")
    files = [file_pages(out) for out, _ in kernels]
    worse = 0
    for boot in [opt.only] if opt.only else BOOTS:
        said = [run(out, boot, opt, objtool) for out, objtool in kernels]
        for name, text in zip(names, said) if opt.keep else ():
            opt.keep.mkdir(parents=True, exist_ok=True)
            (opt.keep / f"{name} {boot}").write_text(text)
        worse += compare(boot, *map(parts, said), files, names)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
