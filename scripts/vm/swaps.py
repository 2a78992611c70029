#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Page swaps under other kernels, in virtual machines: the cases of tests/data/lib/edge*.c, among them uprobes, full cgroups,
strict overcommit and failing allocations, and tests/data/lib/swaps.c, readers of sites at every offset against sets.

    scripts/vm/swaps.py [--build build] [--kernel 6.1 --kernel 6.12 --kernel PATH] [--cases A,B] [--reads N --sets N]

A kernel is a release of Debian's, downloaded by apt, or an image, as scripts/kernel_objects.py builds one with fault
injection. qemu translates: what is shown is the kernel's part (mappings, page tables, faults, TLB shootdowns), not the
processor's. Prints a line for each kernel and case; exit status 1 where one failed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "vm"))
import machine  # noqa: E402

# Of test_lib_edge.py's those that a kernel has a part in, and those that need privileges or such a kernel.
CASES = """basic busy mdwe mdwe_start membarrier membarrier_late mprotect_text fork fork_set swap swap_busy swap_mremap
swap_enomem swap_mmap swap_mprotect swap_membarrier swap_second swap_third swap_partly swap_limit swap_mlock swap_hole
swap_fork uprobe swap_memcg swap_overcommit mremap_failnth swap_failnth swap_failing""".split()


def compile_programs(build, out):
    """edge, static; swaps and its plugin, rewritten. {path in the machine: path here}"""
    cc = ["gcc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", f"-I{ROOT / 'lib/include'}", f"-I{ROOT / 'tests/data'}"]
    tests = ROOT / "tests" / "data" / "lib"

    def run(*argv):
        subprocess.run([str(a) for a in argv], check=True, cwd=out, stderr=subprocess.DEVNULL)

    run(*cc, "-static", "-o", "edge", *sorted(tests.glob("edge*.c")), build / "libetch.a", "-pthread")
    for name, flag in (("swaps", "-fPIE"), ("swaps_plugin", "-fPIC")):
        run(*cc, flag, "-c", tests / f"{name}.c")
        run(build / "etch", "rewrite", f"{name}.o")
    library = [f"-L{build}", "-letch", f"-Wl,-rpath,{build}"]
    run("gcc", "-pie", "-rdynamic", "-o", "swaps", "swaps.o", *library, "-pthread")
    run("gcc", "-shared", "-o", "swaps_plugin.so", "swaps_plugin.o", *library)
    run(build / "etch", "rewrite", "swaps", "swaps_plugin.so")
    return {f"/t/{name}": Path(out, name) for name in ("edge", "swaps", "swaps_plugin.so")}


def commands(cases, reads, sets):
    # As in tests/conftest.py: the cases set without a pause, and a variable that is held back would be on a writable page.
    out = [f"echo '@@ {c}'; ETCH_STRAY=eager timeout 250 /t/edge {c} 2>&1; echo \"@@ status $?\"" for c in cases]
    if sets:
        out.append(f"echo '@@ swaps'; /t/swaps {reads} {sets} /t/swaps_plugin.so 2>&1; echo \"@@ status $?\"")
    return "\n".join(out) + "\n"


def results(text):
    """[(case, exit status, what it printed)]; status None where the machine stopped in it."""
    out = []
    for case, said in re.findall(r"^@@ (\w+)\n(.*?)(?=^@@ (?!status)|\Z)", text, re.S | re.M):
        if case != "end":
            status = re.search(r"^@@ status (\d+)", said, re.M)
            lines = [x for x in said.splitlines() if x and not x.startswith("@@ status") and x != "done"]
            out.append((case, int(status.group(1)) if status else None, lines))
    return out


def kernel_image(name):
    return Path(name) if os.sep in name else machine.debian_kernel(name)


def run(kernel, files, cases, reads=0, sets=0, seconds=1800):
    return results(machine.boot(kernel, files, commands(cases, reads, sets), "oops=panic", seconds=seconds))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--build", type=Path, default=ROOT / "build")
    p.add_argument("--kernel", action="append", help="a release of Debian's or an image (6.1 and 6.12)")
    p.add_argument("--cases", default=" ".join(CASES))
    p.add_argument("--reads", type=int, default=10**7)
    p.add_argument("--sets", type=int, default=10**4)
    opt = p.parse_args()
    if not machine.installed():
        sys.exit(f"swaps: needs {', '.join(machine.PACKAGES.values())}")
    bad = 0
    with tempfile.TemporaryDirectory() as d:
        files = compile_programs(opt.build.resolve(), d)
        for name in opt.kernel or ["6.1", "6.12"]:
            image = kernel_image(name)
            got = run(image, files, re.split(r"[ ,]+", opt.cases.strip()), opt.reads, opt.sets) if image else []
            if not got:
                print(f"{name}: did not boot")
            bad += not got
            for case, status, lines in got:
                word = {0: "done", 77: "not here", None: "STOPPED"}.get(status, f"FAILED ({status})")
                bad += status not in (0, 77)
                print(f"{image.name}  {case:16} {word:10} {'; '.join(lines)}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
