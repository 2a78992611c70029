# SPDX-License-Identifier: MIT
"""Structural mutants of ELF files and archives (tests/fuzz/structure.c), and every command on each.

BUILD has the program (make asan: build-asan/mutants) and an etch, which makes the files to begin with
(tests/fuzz/seeds.py) where no FILEs are named. The mutants of a seed are numbered: the same number
is the same mutant for the same files. One that ends the program is kept in DIR (BUILD/structure) as
mutant-SEED-NUMBER, and beside it, in .txt, of which file it is, what was changed, which command it was, and what
was said; then it goes on with the next. So are mutants that, once rewritten, are refused or another
file when they are rewritten again. Prints each problem once by its place, and the count at the end; the count so far
is in DIR/count. Exit 1 if there was any, or if nothing was done.
"""
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from progress import Progress

from .common import arguments as common_arguments, keep_make
import seeds

BATCH = 1000
LEAK = 3  # exit status of mutants where memory was lost
AGAIN_MOST = 30  # files kept that are not the same when they are rewritten again


def environment(one):
    """LeakSanitizer's own run at exit is not wanted: the program asks for it. One mutant alone has the stacks of allocations."""
    env = {k: v for k, v in os.environ.items() if k not in ("ASAN_OPTIONS", "LSAN_OPTIONS")}
    return dict(env, LSAN_OPTIONS="exitcode=0", UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
                **({"ASAN_OPTIONS": "malloc_context_size=30"} if one else {}))


def place(text):
    """Where it happened, without addresses and numbers: the same for mutants that find the same."""
    frames = re.findall(r" in (\w+) ", text)
    said = re.findall(r"violated: .*|runtime error: .*|ERROR: \w+: [\w-]+", text)
    return re.sub(r"0x[0-9a-f]+|\d+", "N", " ".join(said[:1] + [f for f in frames if not f.startswith("__")][:4])) or text[-200:]


class Mutants:
    def __init__(self, options, files):
        self.o, self.files = options, [str(f) for f in files]
        self.next, self.lock = options.first, threading.Lock()
        self.done = self.opened = self.failed = 0
        self.again, self.seen = [], {}
        self.progress = Progress()
        self.end = time.monotonic() + 60 * options.minutes

    def take(self):
        with self.lock:
            left = self.o.first + self.o.mutants - self.next if self.o.mutants else BATCH
            if left <= 0 or (not self.o.mutants and self.done and time.monotonic() > self.end):
                return 0, 0
            first, count = self.next, min(BATCH, left)
            self.next += count
            return first, count

    def judge(self, first, count, state):
        p = subprocess.run([str(self.o.build / "mutants"), str(self.o.seed), str(first), str(count), str(state), *self.files],
                           stdin=subprocess.DEVNULL, capture_output=True, env=environment(count == 1))
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")

    def keep(self, number, stage, status, said):
        path = self.o.keep / f"mutant-{self.o.seed}-{number}"
        _, what, _ = self.judge(number, 0, path)
        path.with_suffix(".txt").write_text(f"{what}in {stage}, exit status {status}\n{said[-20000:]}")
        return path, what

    def problem(self, number, stage, status, said):
        path, what = self.keep(number, stage, status, said)
        key = f"{stage}: {place(said)}"
        with self.lock:
            self.failed += 1
            first = key not in self.seen
            self.seen[key] = self.seen.get(key, 0) + 1
            if first:
                self.progress.end()
                print(f"mutant {number} of seed {self.o.seed} in {stage}, exit status {status}: {path}\n{what}{said[:3000]}", flush=True)

    def leak(self, first, count, state):
        """Which of them lost memory."""
        if count == 1:
            status, _, said = self.judge(first, 1, state)
            if status == LEAK:
                self.problem(first, "leak", status, said)
            return
        for at, n in ((first, count // 2), (first + count // 2, count - count // 2)):
            if self.judge(at, n, state)[0] == LEAK:
                self.leak(at, n, state)

    def batch(self, first, count, state):
        end = first + count
        while first < end:
            status, out, said = self.judge(first, end - first, state)
            again = [int(n) for n in re.findall(r"^again (\d+)", out, re.M)]
            at, reached = (end, end) if status in (0, LEAK) else (None, None)
            if at is None:
                where = state.read_text(errors="replace").split()
                if len(where) != 2:
                    sys.exit(f"mutants ended before it began: {said[-3000:]}")
                at, reached = int(where[0]), int(where[0]) + 1
                self.problem(at, where[1], status, said)
            if status == LEAK:
                self.leak(first, end - first, state)
            with self.lock:
                self.done += reached - first
                self.opened += sum(int(n) for n in re.findall(r"opened (\d+)", out))
                new = again[:max(0, AGAIN_MOST - len(self.again))]
                self.again += again
                so_far = f"{self.done} mutants of seed {self.o.seed} from {self.o.first} on, {self.failed} failed, "
                (self.o.keep / "count").write_text(f"{so_far}{len(self.again)} not the same when rewritten again\n")
                self.progress(f"{self.done} mutants, {len(self.seen)} problems, {len(self.again)} not the same again:")
            for number in new:
                self.keep(number, "rewrite", 0, "another file, or refused, when it is rewritten again\n")
            first = reached

    def job(self, directory, k):
        while True:
            first, count = self.take()
            if not count:
                return
            self.batch(first, count, Path(directory) / f"state-{k}")


def arguments(parser):
    common_arguments(parser, "structure")
    parser.add_argument("--mutants", type=int, default=0, help="so many, however long it takes")
    parser.add_argument("--first", type=int, default=0, help="the number to begin with (0)")


def run(options):
    keep_make(options)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # each mutant writes four files
    with tempfile.TemporaryDirectory(prefix="etch-structure-", dir=memory) as directory:
        files = options.files or sorted(seeds.structure_make(options.build / "etch", Path(directory)))
        mutants = Mutants(options, files)
        print(f"seed {options.seed}, {len(files)} files, {options.jobs} jobs", flush=True)
        threads = [threading.Thread(target=mutants.job, args=(directory, k)) for k in range(options.jobs)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        mutants.progress.end()
    for key, n in mutants.seen.items():
        print(f"{n} times: {key}")
    print(f"{mutants.done} mutants, {mutants.failed} failed, {len(mutants.again)} not the same when rewritten again")
    return 1 if mutants.failed or mutants.again or not mutants.done else 0
