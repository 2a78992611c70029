# SPDX-License-Identifier: MIT
"""What the ways of fuzzing share: the usual options, the sanitizers' options, and jobs until the time is up."""
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
# What tests have as well: mutate, twice, seeds.
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))


def environment():
    """A sanitizer's report is exit status 99."""
    return dict(os.environ, ASAN_OPTIONS="exitcode=99:detect_leaks=1:allocator_may_return_null=1",
                UBSAN_OPTIONS="halt_on_error=1:exitcode=99:print_stacktrace=1", LSAN_OPTIONS="exitcode=99")


def arguments(parser, keep):
    """The options of those ways that take files: `keep` is what --keep is in BUILD."""
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, help=f"default: BUILD/{keep}")
    parser.add_argument("build", type=Path, metavar="BUILD", help="a build of etch with ASan and UBSan (make asan: build-asan)")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.set_defaults(folder=keep)


def keep_make(options):
    options.keep = (options.keep or options.build / options.folder).resolve()
    options.keep.mkdir(parents=True, exist_ok=True)


def results(work, jobs, count):
    """What work(job) returns for each of `jobs`, which may have no end, in `count` processes: as they come."""
    slots = threading.Semaphore(2 * count)

    def limited():  # imap_unordered would take all of an endless list at once
        for job in jobs:
            slots.acquire()
            yield job
    with multiprocessing.Pool(count) as pool:
        for result in pool.imap_unordered(work, limited()):
            slots.release()
            yield result


def minutes_left(options):
    return f"{(options.end - time.monotonic()) / 60:.0f} minutes left:"
