# SPDX-License-Identifier: MIT
"""libFuzzer's targets (tests/fuzz), one after the other.

BUILD has the fuzzer (make B=build-fuzz ... build-fuzz/fuzzer; `make fuzz` does it) and an
etch, which makes the files to begin with (tests/fuzz/seeds.py); those in tests/data/fuzz are taken
too. Each target runs --minutes, --jobs of them at a time; or all of them --total minutes, in which those
that run a command as a whole get more than the others. What is new stays in DIR/TARGET, inputs
that fail in DIR/TARGET.failed; --minimise puts the fewest that reach all that was reached, the
smallest first, into tests/data/fuzz. Prints a line a target: executions, seconds, edges and features
covered, inputs; --table puts those into FILE (a report), between its two comments. With
--minutes 0 nothing is run: the figures are those of the run whose logs are in DIR. Exit 1 if any
failed.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from progress import Progress

from .common import DATA, ROOT

CORPUS = DATA / "fuzz"
# An input of at most MAX bytes may ask for at most so much at once, and take so long. The
# sanitizers and a busy machine cost a factor of ten.
MAX, MALLOC_MB, RSS_MB, SECONDS = 32768, 64, 2000, 25
FAILURES = 5  # of a target, after each of which it goes on
FILES = 48  # of a target in tests/data/fuzz, at most
# Shares of --total; the others' are 1.
SHARES = {"rewrite": 4, "code": 4, "inspect": 3, "diff": 3, "check": 3, "module": 2}


def targets():
    text = (ROOT / "tests" / "fuzz" / "targets.c").read_text()
    return re.findall(r'^\t\{"(\w+)"', text, re.M)


def environment(target):
    return dict(os.environ, ETCH_FUZZ=target, ETCH_BOUNDS="none", ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=0",
                UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")


class Figures:
    """What a log of libFuzzer's says."""

    def __init__(self, target, status, text):
        def last(pattern):
            return ([int(n) for n in re.findall(pattern, text, re.M)] or [0])[-1]

        self.target, self.status, self.text = target, status, text
        self.edges, self.features, self.inputs = (last(p) for p in (r"cov: (\d+) ft:", r" ft: (\d+) corp", r"corp: (\d+)"))
        self.runs = sum(int(n) for n in re.findall(r"number_of_executed_units: (\d+)", text))
        self.seconds, self.all_edges = last(r"^(\d+) seconds$"), last(r"(\d+) inline 8-bit counters")


def table_write(path, figures):
    """In two columns."""
    half = (len(figures) + 1) // 2
    cells = [f"`{f.target}` | {f.runs:,} | {f.seconds} | {f.edges:,}" for f in figures] + [" | | | "] * (len(figures) % 2)
    lines = ["| target | executions | s | edges |   | target | executions | s | edges |", "|---|---:|---:|---:|---|---|---:|---:|---:|"]
    lines += [f"| {a} | | {b} |" for a, b in zip(cells[:half], cells[half:])]
    lines.append(f"\nEdges are those of the whole program ({figures[0].all_edges:,}), of which most targets can reach a small part.")
    text = path.read_text()
    text, n = re.subn(r"(?s)(<!-- fuzz.py targets --table -->\n).*?(<!-- end -->\n)", lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text)
    assert n == 1, f"{path}: has no place for the table"
    path.write_text(text)


def shared(options, names):
    """--total: the longest first, so that all jobs end at about the same time. {target: minutes}"""
    unit = options.total * min(options.jobs, len(names)) / sum(SHARES.get(t, 1) for t in names)
    return {t: unit * SHARES.get(t, 1) for t in sorted(names, key=lambda t: -SHARES.get(t, 1))}


def fuzz(options, target, minutes):
    corpus, failed = options.keep / target, options.keep / f"{target}.failed"
    for d in (corpus, failed):
        d.mkdir(parents=True, exist_ok=True)
    argv = [options.build / "fuzzer", f"-max_len={MAX}", "-print_final_stats=1",
            f"-malloc_limit_mb={MALLOC_MB}", f"-rss_limit_mb={RSS_MB}", f"-timeout={SECONDS}", f"-artifact_prefix={failed}/",
            "-verbosity=1", "-reload=0", corpus, options.keep / "seeds" / target]
    if (CORPUS / target).is_dir():
        argv.append(CORPUS / target)
    log, status, begin, failures = options.keep / f"{target}.log", 0, time.monotonic(), 0
    end = begin + 60 * minutes
    with open(log, "w" if minutes else "a") as out:
        while time.monotonic() < end and failures < FAILURES:
            limit = f"-max_total_time={max(1, round(end - time.monotonic()))}"
            one = subprocess.run([*map(str, argv), limit], env=environment(target), stdout=out, stderr=subprocess.STDOUT).returncode
            status, failures = status or one, failures + (one != 0)
        if minutes:
            print(f"{time.monotonic() - begin:.0f} seconds", file=out)
    return Figures(target, status, log.read_text(errors="replace"))


def minimise(options, target):
    """The fewest inputs with all coverage; those of seeds.py, which can be made again, come first."""
    out, tmp = CORPUS / target, options.keep / f"{target}.least"
    shutil.rmtree(tmp, ignore_errors=True)
    tmp.mkdir()
    sources = [options.keep / "seeds" / target, options.keep / target]
    argv = [options.build / "fuzzer", "-set_cover_merge=1", f"-max_len={MAX}", f"-timeout={SECONDS}", tmp, *sources]
    if out.is_dir():
        argv.append(out)
    subprocess.run([str(a) for a in argv], env=environment(target), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seeds = {p.read_bytes() for p in (options.keep / "seeds" / target).iterdir()}
    out.mkdir(parents=True, exist_ok=True)
    for p in out.iterdir():
        if not p.name.startswith(("found-", "check-")):  # cases that failed once, or that show a check, stay
            p.unlink()
    space = options.space << 10
    for p in sorted(tmp.iterdir(), key=lambda p: p.stat().st_size)[:FILES]:
        if p.read_bytes() in seeds:
            continue
        space -= p.stat().st_size
        if space < 0:
            break
        shutil.copyfile(p, out / p.name[:12])


def report(options, f):
    print(f"{f.target:10} {f.runs:11} {f.seconds:7} {f.edges:7} {f.features:9} {f.inputs:7}{'  FAILED' if f.status else ''}", flush=True)
    if f.status:
        print("\n".join(f.text.splitlines()[-60:]))
        for path in re.findall(r"Test unit written to (\S+)", f.text):
            print(f"again: ETCH_BOUNDS=none ETCH_FUZZ={f.target} {options.build / 'fuzzer'} {path}", flush=True)
    if options.minimise:
        minimise(options, f.target)


def arguments(parser):
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--total", type=float)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--space", type=int, default=64, help="KiB for a target's inputs in tests/data/fuzz (64)")
    parser.add_argument("build", type=Path)
    parser.add_argument("targets", nargs="*")


def run(options):
    options.keep = (options.keep or options.build / "corpus").resolve()
    subprocess.run([sys.executable, ROOT / "tests" / "fuzz" / "seeds.py", options.build, options.keep / "seeds"], check=True)
    names = options.targets or targets()
    minutes = shared(options, names) if options.total else dict.fromkeys(names, options.minutes)
    figures, progress = [], Progress()
    print("target      executions       s   edges  features  inputs", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(fuzz, options, t, m) for t, m in minutes.items()}
        while running:
            progress(f"{len(figures)} of {len(names)} targets, {sum(minutes.values()) / options.jobs:.0f} minutes in all")
            done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            progress.end()
            for f in (d.result() for d in done):
                figures.append(f)
                report(options, f)
    if options.table:
        table_write(options.table, sorted(figures, key=lambda f: names.index(f.target)))
    return 1 if any(f.status for f in figures) else 0

