# SPDX-License-Identifier: MIT
"""The part of scripts/bench/run about rows in other tools' formats."""
import re
import shutil
import sys
from pathlib import Path

from common import B, OUT, TOP, etch_needed, sections, sh, table

sys.path.insert(0, str(TOP / "scripts"))
import fetch  # noqa: E402

OPTIONS = ["--sframe", "--eh-frame", "--fix-cfi", "--eh-frame=all"]
NO_FDES = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]


def counted(*command):
    """Instructions of a command, by cachegrind."""
    log = OUT / "frames" / "log"
    sh("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", f"--log-file={log}", *command)
    return int(re.search(r"I +refs: +([\d,]+)", log.read_text())[1].replace(",", ""))


def files():
    """(name, file) of programs with FDEs, and of SQLite with and without."""
    for path in (Path(shutil.which("git") or "/none"), Path("/usr/lib/x86_64-linux-gnu/libcrypto.so.3")):
        if path.exists():
            yield path.name, path
    source = fetch.fetch("sqlite") / "sqlite3.c"
    for name, flags in (("SQLite", []), ("SQLite without FDEs", NO_FDES)):
        out = OUT / "frames" / name.replace(" ", "-")
        sh("gcc", "-O2", "-fPIC", "-shared", *flags, "-o", out, source)
        yield name, out


def part_frames(args):
    etch_needed()
    print("### frames\n")
    (OUT / "frames").mkdir(parents=True, exist_ok=True)
    made, cost, size = OUT / "frames" / "made", [], []
    for name, path in files():
        base = counted(B / "etch", "rewrite", "-j1", "-o", made, path)
        counts = {o: counted(B / "etch", "rewrite", "-j1", o, "-o", made, path) for o in OPTIONS}
        cost.append([name, f"{base / 1e6:,.0f}"] + [f"{counts[o] / base - 1:+.1%}" for o in OPTIONS])
        row = [name, f"{sections(path)['.eh_frame'] + sections(path)['.eh_frame_hdr']:,}"]
        for option in ("--sframe", "--eh-frame", "--eh-frame=all"):
            sh(B / "etch", "rewrite", option, "-o", made, path)
            found = sections(made)
            row.append(f"{found['.sframe'] or found['.eh_frame'] + found['.eh_frame_hdr']:,}")
        size.append(row + [f"{sections(made)['.etch.unwind']:,}"])
    made.unlink(missing_ok=True)
    print("Instructions of `etch rewrite -j1` (millions, by cachegrind), and what each option adds.\n")
    table(["file", "without", *OPTIONS], cost)
    print("Bytes of what unwinders read: .eh_frame and .eh_frame_hdr together, and .sframe.\n")
    table(["file", "the linker's", ".sframe", "--eh-frame", "--eh-frame=all", ".etch.unwind"], size)
