# SPDX-License-Identifier: MIT
"""What the parts of scripts/bench/run share: commands, numbers, tables."""
import collections
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
B = TOP / os.environ.get("B", "build")
OUT = B / "bench"


def fail(text):
    sys.exit(f"bench: {text}")


def sh(*command, **kw):
    """Runs a command; its standard output, or the end of everything."""
    command = [str(c) for c in command]
    r = subprocess.run(command, capture_output=True, text=True, **kw)
    if r.returncode:
        fail(f"`{' '.join(command)}` ended with {r.returncode}:\n{r.stdout[-2000:]}{r.stderr[-4000:]}")
    return r.stdout


def etch_needed():
    for f in (B / "etch", B / "libetch.a"):
        if not f.exists():
            fail(f"{f.name} is missing in {B.name}/: run make first")


CFLAGS = ["-O2", "-g", "-Wall", "-Wextra", "-I", str(TOP / "lib/include"), "-I", str(HERE)]
# ---- building ---------------------------------------------------------------

compiled = {}


def build(cc, name, sources, steps, extra=()):
    """One program. steps: 0 unprocessed, 1 objects rewritten, 2 the program too."""
    etch_needed()
    dir_ = OUT / cc / f"{name}.{steps}"
    shutil.rmtree(dir_, ignore_errors=True)
    dir_.mkdir(parents=True)
    objects = []
    for source in sources:
        o = dir_ / (pathlib.Path(source).stem + ".o")
        key = (cc, source, *extra)
        if key not in compiled:  # once: 4,096 flags take their time
            compiled[key] = OUT / cc / f"{name}.{o.name}"
            sh(cc, *CFLAGS, *extra, "-c", source, "-o", compiled[key])
        shutil.copy(compiled[key], o)
        objects.append(o)
    if steps >= 1:
        sh(B / "etch", "rewrite", "--only", "imv", *objects)
    program = dir_ / name
    sh(cc, "-o", program, *objects, B / "libetch.a", "-pthread")
    if steps >= 2:
        sh(B / "etch", "rewrite", "--only", "imv", program)
    return program


# ---- numbers ----------------------------------------------------------------

def quartiles(v):
    v = sorted(v)
    at = lambda q: v[min(len(v) - 1, int(q * len(v)))]
    return at(0.25), at(0.5), at(0.75)


def median_interval(v):
    """95% confidence interval of the median, by order statistics."""
    v = sorted(v)
    half = 0.98 * len(v) ** 0.5
    return v[max(0, int(len(v) / 2 - half))], v[min(len(v) - 1, int(len(v) / 2 + half))]


def spread(v, digits=2):
    if not v:
        return "no samples"
    lo, mid, hi = quartiles(v)
    if len(v) < 10:
        return f"{mid:,.{digits}f} (of {len(v)})"
    return f"{mid:,.{digits}f} ({lo:,.{digits}f} to {hi:,.{digits}f})"


def table(head, rows):
    """Markdown, so that a report of docs/reports can hold it as it is."""
    rows = [[str(c) for c in r] for r in rows]
    width = [max(len(r[i]) for r in [head] + rows) for i in range(len(head))]
    line = lambda r: "| " + " | ".join(
        c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, width))) + " |"
    print(line(head))
    print("|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(width)) + "|")
    for r in rows:
        print(line(r))
    print(flush=True)


def parse(text):
    """Sample lines as lists; the '# key value ...' lines as one dictionary."""
    info, rows = {}, []
    for line in text.splitlines():
        c = line.split("\t")
        if line.startswith("# "):
            c[0] = c[0][2:]
            info.update({k: float(v) for k, v in zip(c[::2], c[1::2])})
        else:
            rows.append(c)
    return info, rows


def state(info):
    keys = ("sites", "armed", "loads", "patched_at_start")
    return ", ".join(f"{int(info[k]):,} {k.replace('_', ' ')}" for k in keys if k in info)


def sections(path):
    """Section sizes by name."""
    found = collections.Counter()
    for line in sh("readelf", "-SW", path).splitlines():
        m = re.match(r"\s*\[ *\d+\] (\S+) +\S+ +[0-9a-f]{8,} [0-9a-f]+ ([0-9a-f]+)", line)
        if m:
            found[m[1]] += int(m[2], 16)
    return found


def machine(args):
    cpu = {}
    for line in open("/proc/cpuinfo"):
        k, _, v = line.partition(":")
        cpu.setdefault(k.strip(), v.strip())
    flags = cpu.get("flags", "").split()
    conf = {c: int(sh("getconf", n).strip() or 0) for c, n in
            (("L1d", "LEVEL1_DCACHE_SIZE"), ("L1i", "LEVEL1_ICACHE_SIZE"), ("L2", "LEVEL2_CACHE_SIZE"),
             ("L3", "LEVEL3_CACHE_SIZE"))}
    print("## Machine\n")
    print(f"- CPU: {cpu.get('model name')}, family {cpu.get('cpu family')} model {cpu.get('model')} stepping "
          f"{cpu.get('stepping')}, {len(os.sched_getaffinity(0))} CPUs" +
          (", virtual machine" if "hypervisor" in flags else "") +
          (", AMX" if "amx_tile" in flags else ""))
    print("- Caches: " + ", ".join(f"{k} {v >> 10:,} KiB" for k, v in conf.items()))
    print(f"- Kernel: {platform.system()} {platform.release()}, transparent huge pages " +
          re.sub(r".*\[(\w+)\].*", r"\1", pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text().strip()))
    tools = args.cc + ["ld", "valgrind"]
    print("- Tools: " + "; ".join(sh(t, "--version").splitlines()[0] for t in tools if shutil.which(t)))
    print(f"- Load average at the start: {os.getloadavg()[0]:.2f} (noise: every cell has its spread)\n", flush=True)
