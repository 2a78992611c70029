# SPDX-License-Identifier: MIT
"""A program with a command to try it by: run in a scratch root or in the system as it is,
and all that can be seen of the run as bytes."""

import collections
import functools
import glob
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import enter
import root as roots

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
PATH = "/usr/sbin:/usr/bin"
TIMEOUT = 600       # seconds: a program that hangs is a failure, not a measurement

# What a program sees of the machine: the same in each run.
ENVIRONMENT = {
    "PATH": PATH, "LANG": "C.UTF-8", "TZ": "UTC", "USER": "etch", "LOGNAME": "etch", "TERM": "dumb",
    "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0",
    "SOURCE_DATE_EPOCH": "1000000000",
    "SOURCE": str(SOURCE),                  # for commands: this repository,
    "INPUT": str(HERE / "work"),            # the inputs that are kept as files,
}


@functools.lru_cache(maxsize=1)
def text():
    """... and $TEXT, 20,000 lines of words and numbers, always the same."""
    r = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = ["".join(r.choices(letters, range(26, 0, -1), k=r.randint(1, 11))) for _ in range(3000)]
    lines = (f"{r.randint(0, 99999)}\t{' '.join(r.choices(words, k=r.randint(1, 14)))}." for _ in range(20000))
    return "\n".join(lines) + "\n"


@dataclass
class Output:
    """A run: all that can be compared, and what it took."""
    text: bytes
    status: int
    seconds: float = 0.0
    crashes: collections.Counter = None     # of its processes, by (command, signal); None: not known, who asks is not root


@dataclass
class Program:
    name: str
    package: str                # the Debian packages that it comes with
    script: str                 # for sh -e, in an empty directory; what it leaves in out/ counts as output
    needs: str = ""             # commands, and paths with a slash, that must be there
    times: list = field(default_factory=list)   # (pattern, replacement): times in the output, and nothing else
    known: str = ""             # a pattern of lines that a rewritten run has more, told as such: list.py says why
    more: str = ""              # patterns of files that are rewritten too
    traceable: bool = True      # strace can run it: it traces nothing itself, and is not setuid
    short: bool = False         # on a fresh Debian with what scripts/deps.sh installs, in a second: for the tests
    ok: int = 0                 # the exit status
    fetched: str = ""           # the package of packages.py that it comes with, where it is none of Debian's

    def missing(self):
        """What of it is not installed here, or None."""
        for need in self.needs.split():
            if not (glob.glob(need) if "/" in need else shutil.which(need, path=PATH)):
                return need
        return None

    # ---- which files ---------------------------------------------------------

    def files(self, root):
        """The ELF files that it loads, seen once under strace and remembered in the root."""
        known = root.path / "loaded" / self.name
        if not known.exists() or known.stat().st_mtime < (HERE / "list.py").stat().st_mtime:
            known.parent.mkdir(exist_ok=True)
            found = self._trace() if self.traceable else []
            extra = [shutil.which(n, path=PATH) if "/" not in n else n for n in [*self.needs.split(), "sh"]]
            for pattern in [*self.more.split(), *extra]:
                found += glob.glob(os.path.realpath(pattern))
            found = [os.path.realpath(p) for p in found if roots.is_elf(p)]
            known.write_text("".join(f"{p}\n" for p in sorted({*found, *roots.linked(found)})))
        return known.read_text().splitlines()

    def _trace(self):
        with tempfile.TemporaryDirectory() as logs:
            os.chmod(logs, 0o777)
            strace = ["strace", "-ff", "-qq", "-y", "-z", "-s", "4096", "--seccomp-bpf", "-e", "trace=execve,mmap",
                      "-o", f"{logs}/log"]
            # LeakSanitizer's tracer is not traced, gets ENOSYS for what strace's filter selects, and is waited for.
            self.run(None, {"ASAN_OPTIONS": "detect_leaks=0"}, strace)
            return roots.traced(Path(logs).iterdir(), self._work())

    def prepare(self, root):
        """Rewrites into the root what is not there yet. Returns (loaded, rewritten)."""
        files = self.files(root)
        return len(files), root.add(files)

    def same(self, before, after):
        """Whether a rewritten run has the output of one as it is: "same", "known" or None."""
        if before.text == after.text:
            return "same"
        if self.known and before.text == re.sub(self.known.encode(), b"", after.text, flags=re.M):
            return "known"
        return None

    # ---- a run ---------------------------------------------------------------

    def _work(self):
        # The same name in each run: it is in the output of some programs.
        return Path(os.environ.get("TMPDIR", "/tmp")) / f"etch-programs-{os.getpid()}" / self.name

    def _fill(self):
        work = self._work()
        shutil.rmtree(work, ignore_errors=True)
        (work / "out").mkdir(parents=True)
        (work / "text").write_text(text())
        (work / "script").write_text(self.script)
        os.chmod(work, 0o777)
        return work

    def run(self, root=None, env=None, wrapper=()):
        """Runs it with the files of a Root, or with the system's own (None). `env` is added
        to the environment of its processes."""
        work = self._fill()
        variables = {**ENVIRONMENT, "HOME": str(work), "TMPDIR": str(work), "TEXT": str(work / "text"), **(env or {})}
        begin = time.monotonic()
        ended = work.with_name(f"{self.name}.ended")
        ended.touch()
        argv = [sys.executable, str(HERE / "enter.py"), "--ended", str(ended)]
        for name, value in variables.items():
            argv += ["--env", f"{name}={value}"]
        argv += [str(root.files) if root else "-", *wrapper, "/bin/sh", "-e", "script"]
        with open(work / "stdout", "wb") as out, open(work / "stderr", "wb") as err:
            p = subprocess.Popen(argv, cwd=work, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                 env={"PATH": os.environ["PATH"]}, start_new_session=True)
            try:
                status = p.wait(TIMEOUT)
            except BaseException as why:
                os.killpg(p.pid, signal.SIGKILL)    # enter.py, and with it all of its namespace
                p.wait()
                if not isinstance(why, subprocess.TimeoutExpired):
                    raise
                status = "timeout"
        seconds = time.monotonic() - begin
        if status == enter.REFUSED:
            raise OSError((work / "stderr").read_text())
        output = Output(self._collect(work, status), status, seconds, enter.crashes(ended))
        ended.unlink()
        shutil.rmtree(work, ignore_errors=True)
        return output

    def _collect(self, work, status):
        parts = [(work / "stdout").read_bytes(), b"\n--- stderr\n", (work / "stderr").read_bytes()]
        for pattern, replacement in self.times:
            parts = [re.sub(pattern.encode(), replacement.encode(), p, flags=re.M) for p in parts]
        parts.append(f"\n--- exit {status}\n".encode())
        for path in sorted((work / "out").rglob("*")):
            if path.is_file():
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                parts.append(f"{digest} {path.relative_to(work)}\n".encode())
        return b"".join(parts)
