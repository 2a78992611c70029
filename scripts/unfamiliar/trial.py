# SPDX-License-Identifier: MIT
"""One file of a toolchain, and all that is tried with it."""

import ctypes
import glob
import os
import re
import shlex
import shutil
import string
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "scripts" / "programs"), str(ROOT / "tests" / "analysis")]
import coverage  # noqa: E402
import dynamic  # noqa: E402
import enter  # noqa: E402

TIMEOUT = 900       # seconds: what hangs has failed
ADDR_NO_RANDOMIZE = 0x0040000   # personality(2)


@dataclass
class Trial:
    """In make, task, step and file, $DIR is a directory of the trial's own, $WORK the sources that are kept beside this
    script, $VENV a virtual environment with the packages of PyPI, $SITE its site-packages and $FILE the file itself."""
    name: str
    toolchain: str
    packages: str       # by name, of the installer
    file: str           # the file, or a pattern that one file matches
    task: str           # for sh, in $DIR: a real use of the file at its place. What it leaves in out/ is compared, too
    make: str = ""      # for sh -e, in $DIR: makes the file, or what the task needs
    step: str = ""      # a command to run one instruction at a time; empty: the list says why not
    skip: int = 0       # how many of its instructions are watched but not unwound from
    steps: int = 150_000
    installer: str = "apt"
    refused: str = ""   # part of the message with which etch refuses the file, where it should


class Failed(Exception):
    """A trial cannot be done: its file could not be made."""


class Bench:
    """Where trials are made and run."""

    def __init__(self, directory, etch):
        self.directory, self.etch = directory.resolve(), etch.resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.venv = self.directory / "venv"
        self.rows = self.directory / "rows"     # of the modules that are met while stepping

    def begin(self, steps):
        """Rows of an earlier run may be another etch's."""
        shutil.rmtree(self.rows, ignore_errors=True)
        if steps:
            dynamic.build(self.directory)

    def install(self, trial):
        """Installs a trial's packages by their own clients. What cannot be had shows when the trial is made."""
        if trial.installer == "apt":
            command = ["apt-get", "install", "-y", "--no-install-recommends", *trial.packages.split()]
        else:
            if not (self.venv / "bin" / "pip").exists():
                subprocess.run([sys.executable, "-m", "venv", self.venv], check=True)
            command = [self.venv / "bin" / "pip", "install", "-q", *trial.packages.split()]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=False)


class Run:
    """One trial on a bench. After done(), `words` has what the table says, by column."""

    def __init__(self, bench, trial):
        self.bench, self.trial = bench, trial
        self.dir = bench.directory / trial.name
        self.dir.mkdir(exist_ok=True)
        site = next(bench.venv.glob("lib/python3*/site-packages"), bench.venv)
        self.variables = {"DIR": str(self.dir), "WORK": str(HERE / "work"), "VENV": str(bench.venv), "SITE": str(site)}
        self.words = {}
        self.bad = []       # why the trial has failed

    def expand(self, text):
        return string.Template(text).substitute(self.variables)

    def etch(self, *args):
        return subprocess.run([self.bench.etch, *args], capture_output=True, text=True, errors="replace")

    def fail(self, why):
        self.bad.append(f"{self.trial.name}: {why}")

    def done(self, steps):
        self.make()
        made = self.rewrite()
        self.cover()
        self.compare(made)
        if steps and self.trial.step:
            self.step()
        return self

    # ---- the file --------------------------------------------------------------

    def make(self):
        if self.trial.make and not (self.dir / "made").exists():
            p = subprocess.run(["sh", "-ec", self.trial.make], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C", **self.variables})
            if p.returncode:
                raise Failed(f"not made: {p.stdout.decode(errors='replace').strip()[-300:]}")
            (self.dir / "made").touch()
        found = sorted(glob.glob(self.expand(self.trial.file)))
        if len(found) != 1:
            raise Failed(f"{len(found)} files match {self.trial.file}")
        self.file = Path(os.path.realpath(found[0]))
        self.variables["FILE"] = str(self.file)

    def rewrite(self):
        """The rewritten file, under its own name below a directory of its own, or None where etch refuses it. Rewriting again
        must change nothing, and --undo bring back every byte."""
        root = self.dir / "root"
        shutil.rmtree(root, ignore_errors=True)
        made = root / self.file.relative_to("/")
        made.parent.mkdir(parents=True)
        p = self.etch("rewrite", "-v", "-o", made, self.file)
        said = re.search(r"([\d.]+)% of the code covered", p.stdout)
        self.words["said"] = f"{said[1]}%" if said else ""
        if p.returncode:
            why = p.stderr.strip().splitlines()[-1].partition(": ")[2].partition(": ")[2]
            self.words["task"] = f"refused: {why}"
            if not self.trial.refused or self.trial.refused not in why:
                self.fail(f"refused: {why}")
            return None
        if self.trial.refused:
            self.fail(f"is not refused ({self.trial.refused})")
        again, undone = self.dir / "again", self.dir / "undone"
        for out, arguments, wanted, what in ((again, [], made, "a second rewrite changes it"),
                                             (undone, ["--undo"], self.file, "--undo does not restore it")):
            p = self.etch("rewrite", *arguments, "-o", out, made)
            if p.returncode or out.read_bytes() != wanted.read_bytes():
                self.fail(f"{what} {p.stderr.strip()[-200:]}")
            out.unlink(missing_ok=True)
        return root

    def cover(self):
        total, covered = coverage.measure(self.bench.etch, self.file)
        self.words["code"] = f"{total:,}"
        self.words["covered"] = f"{100 * covered / total:.3f}%" if covered else ""

    # ---- its task --------------------------------------------------------------

    def task(self, root):
        """All that can be seen of the task with a rewritten file, or with the file as it is (None): exit status, output, the
        files that it leaves, and its processes that crashed."""
        out, home, ended = self.dir / "out", self.dir / "home", self.dir / "ended"
        for d in (out, home):
            shutil.rmtree(d, ignore_errors=True)
            d.mkdir()
        ended.write_bytes(b"")
        command = [sys.executable, enter.__file__, "--ended", ended, root or "-", "sh", "-c", self.trial.task]
        p = subprocess.run(command, cwd=self.dir, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT,
                           env={**os.environ, "LC_ALL": "C", "HOME": str(home), **self.variables})
        if p.returncode == enter.REFUSED:
            raise Failed(p.stderr.decode(errors="replace"))
        files = {str(f.relative_to(out)): f.read_bytes() for f in sorted(out.rglob("*")) if f.is_file()}
        return p.returncode, p.stdout, p.stderr, files, enter.crashes(ended)

    def compare(self, root):
        before = self.task(None)
        (self.dir / "before").write_text(repr(before))
        if before[0] or before[4] or not before[1]:
            self.fail(f"the task does not work with the file as it is: exit {before[0]}, {len(before[1])} bytes of output")
        if not root:
            return
        after = self.task(root)
        (self.dir / "after").write_text(repr(after))
        if before == after:
            self.words["task"] = f"same, {len(before[1]) + sum(map(len, before[3].values())):,} bytes"
        elif self.task(None) != before:
            self.words["task"] = "never the same twice"
            self.fail("the task never gives the same twice")
        else:
            self.words["task"] = "differs"
            self.fail(f"the task differs: see {self.dir}/before and after")

    # ---- single steps ----------------------------------------------------------

    def step(self):
        """Every frame at every instruction, of whatever module, through rows, with a shadow stack as the truth."""
        # CLISP and SBCL execute themselves again where addresses are random, which step.c does not follow.
        libc = ctypes.CDLL(None)
        old = libc.personality(0xffffffff)
        libc.personality(old | ADDR_NO_RANDOMIZE)
        try:
            r = dynamic.over_ptrace(self.bench.directory, dynamic.Rows(self.bench.rows, self.bench.etch, []),
                                    shlex.split(self.expand(self.trial.step)), steps=self.trial.steps + self.trial.skip,
                                    skip=self.trial.skip, cwd=self.dir / "out", timeout=TIMEOUT)
        finally:
            libc.personality(old)
        wrong = sum(r.counts.get(w, 0) for w in dynamic.WRONG)
        (self.dir / "steps").write_text(f"{r.numbers} {r.counts}\n" + "".join(f"{t}\n" for t in r.trouble))
        self.words.update(steps=f"{r.walked:,}", frames=f"{r.checked:,}", wrong=f"{wrong:,}",
                          ended=f"{r.counts.get('undef', 0) + r.counts.get('register', 0):,}")
        if wrong or not r.checked:
            self.fail(f"{wrong} wrong rows in {r.checked} frames: see {self.dir}/steps")
