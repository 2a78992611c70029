# SPDX-License-Identifier: MIT
"""Runs programs one instruction at a time under step.c (ptrace) or shadow.c (trap
flag, in process) and reads their reports."""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import rows

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = ROOT / "tests" / "data" / "unwind"
WARN = ["-Wall", "-Wextra", "-Werror", "-std=gnu11"]

# What the unwinder may not get wrong; the others are told apart below.
WRONG = ("cfa", "ra", "rbp", "signal", "early-end", "no-end", "memory", "libetch")


def build(out, library=None):
    """step and shadow.so in `out`. library: the build directory of libetch, to
    have it compared in process as well."""
    out = Path(out)
    inc = [f"-I{ROOT / 'lib' / 'include'}", f"-I{PROGRAMS}"]
    tail = [Path(library) / "libetch.a", "-pthread"] if library else []
    extra = ["-DSHADOW_ETCH", "-DSTEP_ETCH"] if library else []
    subprocess.run(["gcc", "-O2", "-g", *WARN, *inc, *extra, "-o", out / "step", PROGRAMS / "step.c", *tail], check=True)
    subprocess.run(["gcc", "-O2", "-g", *WARN, *inc, "-fPIC", "-shared", *extra, "-o", out / "shadow.so",
                    PROGRAMS / "shadow.c", *tail], check=True)


class Rows:
    """A directory of rows, one file a module, made when they are first asked for.
    source: "cfi" (.eh_frame by pyelftools: what tests the truth itself), or
    ["--no-cfi"] or [] as arguments of `etch inspect orc`."""

    def __init__(self, directory, etch, source):
        self.dir = Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.etch, self.source = etch, source

    def make(self, path):
        target = self.dir / (str(path).replace("/", "_") + ".rows")
        if path == "vdso.so":
            path = self.dir / "vdso.so"
        if target.exists():
            return
        if self.source == "cfi":
            r = rows.cfi_rows(path)[0]
        else:
            r = rows.inspect_rows(self.etch, path, *self.source)
        temp = target.with_suffix(f".{os.getpid()}")
        if self.source != "cfi":
            self.table(path, target.with_suffix(".table"))
        rows.write_binary(r, temp)
        os.rename(temp, target)

    def table(self, path, target):
        """The same as libetch reads it: a sidecar, under the name that step.c looks for."""
        with tempfile.TemporaryDirectory(dir=self.dir) as d:
            p = subprocess.run([str(self.etch), "rewrite", "--only", "orc", "--registers", *self.source, "--sidecar", d, str(path)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            made = list(Path(d).iterdir())
            if p.returncode == 0 and len(made) == 1:
                os.rename(made[0], target)

    def sidecar(self, path):
        """libetch's table of a file, in DIR/sidecar; files without a build-id have none."""
        out = self.dir / "sidecar"
        out.mkdir(exist_ok=True)
        subprocess.run([str(self.etch), "rewrite", "--only", "orc", "--registers", *([] if self.source == "cfi" else self.source),
                        "--sidecar", out, path],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def vdso(self):
        """The kernel's vdso as a file: any process has the same one."""
        target = self.dir / "vdso.so"
        if not target.exists():
            at = [line.split() for line in open("/proc/self/maps") if line.rstrip().endswith("[vdso]")]
            lo, hi = (int(x, 16) for x in at[0][0].split("-"))
            target.write_bytes(ctypes.string_at(lo, hi - lo))
        self.make("vdso.so")


class Report:
    def __init__(self, text):
        self.numbers, self.counts, self.trouble = {}, {}, []
        for line in text.splitlines():
            c = line.split()
            if c[0] == "count":
                self.counts[c[1]] = int(c[2])
            elif c[0] == "trouble":
                self.trouble.append(Trouble(c))
            else:
                self.numbers[c[0]] = int(c[1])

    def __getattr__(self, name):
        try:
            return self.numbers[name]
        except KeyError:
            raise AttributeError(name) from None


class Trouble:
    def __init__(self, c):
        self.what, self.file = c[1], c[2]
        self.ip, self.row, self.got, self.want = (int(c[i], 16) for i in (4, 6, 8, 10))
        self.frame, self.step, self.count = int(c[12]), int(c[14]), int(c[16])
        self.rule = " ".join(c[17:])

    def __str__(self):
        return (f"{self.what} {self.file} ip {self.ip:x} row {self.row:x} got {self.got:x} want {self.want:x} "
                f"frame {self.frame} step {self.step} count {self.count} {self.rule}")


def _environment(**more):
    env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR")}
    env.update(LC_ALL="C", PYTHONHASHSEED="0", **{k: str(v) for k, v in more.items()})
    return env


def in_process(tools, table, argv, *, steps=0, skip=0, cwd=None, stdin=None, timeout=900, ok=True, library=False,
               **env):
    """Under the trap flag, from main on. The first run lists what gets loaded."""
    table.vdso()
    tools = Path(tools)
    out = table.dir / f"report.{os.getpid()}"
    listing = _environment(LD_PRELOAD=tools / "shadow.so", SHADOW_LIST=1, SHADOW_OUT=out, **env)
    p = subprocess.run(argv, env=listing, cwd=cwd, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=timeout)
    want = (p.returncode, p.stdout)
    for path in out.read_text().split():
        if path.startswith("/"):
            table.make(path)
            if library:
                table.sidecar(path)
    if library:
        env["ETCH_SIDECAR_DIR"] = table.dir / "sidecar"
    stepping = _environment(LD_PRELOAD=tools / "shadow.so", SHADOW_OUT=out, SHADOW_ROWS=table.dir,
                            SHADOW_STEPS=steps, SHADOW_SKIP=skip, **env)
    out.unlink()
    p = subprocess.run(argv, env=stepping, cwd=cwd, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=timeout)
    if ok and (p.returncode, p.stdout) != want:
        raise RuntimeError(f"{argv}: under steps exit {p.returncode}, alone {want[0]}\n{p.stderr[-2000:]}")
    if not out.exists():
        raise RuntimeError(f"{argv}: no report, exit {p.returncode}\n{p.stderr[-2000:]}")
    r = Report(out.read_text())
    out.unlink()
    return r


def over_ptrace(tools, table, argv, *, entry=False, steps=0, skip=0, inject=(), cwd=None, stdin=None, timeout=900):
    """Under ptrace, from the first instruction of ld.so on; signals too."""
    table.vdso()
    out = table.dir / f"report.{os.getpid()}"
    source = "cfi" if table.source == "cfi" else ",".join(table.source) or "-"
    maker = f"{sys.executable} {HERE / 'dynamic.py'} '{table.etch}' {source}"
    cmd = [Path(tools) / "step", "-r", table.dir, "-g", maker, "-o", out, "-n", str(steps), "-s", str(skip)]
    cmd += ["-e"] if entry else []
    for i in inject:
        cmd += ["-i", i]
    p = subprocess.run([*cmd, *argv], env=_environment(), cwd=cwd, input=stdin, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=timeout)
    if p.returncode or not out.exists():
        raise RuntimeError(f"step: exit {p.returncode}\n{p.stderr[-2000:]}")
    r = Report(out.read_text())
    r.stderr, r.stdout = p.stderr, p.stdout
    out.unlink()
    return r


def main():
    """dynamic.py ETCH SOURCE PATH ROWS: what step.c calls for a file without rows."""
    etch, source, path, target = sys.argv[1:5]
    t = Rows(Path(target).parent, etch, "cfi" if source == "cfi" else [] if source == "-" else source.split(","))
    t.make("vdso.so" if path.endswith("/vdso.so") else path)


if __name__ == "__main__":
    main()
