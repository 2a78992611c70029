#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Debian 12, 13 and unstable from nothing: what a newcomer types, in a clean minimal root of each, as one table.

    make systems                                  # all three, an hour or more each; roots in build/systems
    scripts/systems.py --suites trixie --steps demo,headers
    scripts/systems.py --steps test --tests 'tests/faults/test_copy.py tests/site/test_pv_scan.py'

Steps: demo (`make demo`), test (`make test`, with packages that let more of it run), deb (`make deb`, its packages installed,
and the guides followed with these), headers (the public headers with every gcc and clang of the release). What is tested is HEAD, cloned anew; a root that there is
already is taken again. Needs root and debootstrap. Logs are beside the roots. Exit status 1 if a step failed or a release
skips more than --skips tests, 2 if the roots cannot be made.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITES = ["bookworm", "trixie", "sid"]
STEPS = ["demo", "test", "deb", "headers"]
INCLUDE = "git,make,ca-certificates"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# What a network of this machine's needs is said in its environment.
PASSED_ON = re.compile(r"(PIP|npm_config|NODE)_\w+|\w+_proxy|SSL_CERT_FILE|REQUESTS_CA_BUNDLE", re.I)
VERSIONS = {"gcc": "gcc -dumpfullversion", "clang": "clang -dumpversion", "binutils": "ld --version", "glibc": "ldd --version",
            "python": ".venv/bin/python -V"}
INSTALL = "apt-get -q -y --no-install-recommends install $(apt-cache search --names-only '^({})$' | cut -d' ' -f1)"
COMPILERS = INSTALL.format(r"(gcc|g\+\+|clang)-[0-9]+")
# Nobody needs these for etch: with them, tests run that are skipped where they are missing.
MORE = INSTALL.format("|".join(
    "cpio debuginfod dwz gdc gnat gobjc golang-go google-perftools heaptrack ldc libboost-stacktrace-dev libjemalloc2 linux-perf patch sqlite3 systemd".split()))
# A stable release has a newer Rust for its browsers; lib/rust needs 1.87.
MORE += " && (apt-get -q -y --no-install-recommends install rustc-web cargo-web || apt-get -q -y --no-install-recommends install rustc cargo)"
COMMANDS = {
    "demo": "make demo",
    "test": "make deps && " + MORE + " && make test JOBS={jobs} PYTEST_ARGS='-q -rfEs' T='{tests}'",
    "deb": "make deps && apt-get -q -y --no-install-recommends install debhelper && make deb && "
           "apt-get -q -y --no-install-recommends install ./build/deb/etch_*.deb ./build/deb/lib*.deb && "
           "ETCH_GUIDES=installed make test JOBS={jobs} PYTEST_ARGS='-q -rfEs' T=tests/style/test_guides.py",
    "headers": "make deps && " + COMPILERS + " && .venv/bin/python -m pytest -q -rs -n {jobs} tests/headers/test_header_compilers.py",
}


class Failed(Exception):
    """A root cannot be made."""


# A mount namespace whose root is the release's, so that tests can make namespaces of their own there, which a chroot does not
# allow (not pivot_root, which unstable has in no package of its minimal system); and a process namespace, with which all that a
# step has started ends.
ENTER = """\
set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount --move . /
exec chroot . sh -c 'cd /root/etch && exec sh -c "$1"' sh "$2"
"""


class System:
    """The root directory of one release, with a checkout of HEAD."""

    def __init__(self, folder, suite, mirror):
        self.root, self.suite, self.mirror = folder / suite, suite, mirror
        self.logs = folder / f"{suite}.logs"

    def make(self):
        """debootstrap's stamp is written last, so that half a root is made anew."""
        self.logs.mkdir(parents=True, exist_ok=True)
        stamp = self.logs / "made"
        if stamp.exists() and (self.root / "usr/bin/git").exists():
            return
        shutil.rmtree(self.root, ignore_errors=True)
        p = subprocess.run(["debootstrap", "--variant=minbase", f"--include={INCLUDE}", self.suite, self.root, self.mirror],
                           text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        (self.logs / "debootstrap").write_text(p.stdout)
        if p.returncode:
            raise Failed(f"{self.suite}: debootstrap: {p.stdout.strip().splitlines()[-1:]}; see {self.logs}/debootstrap")
        # The lists of a mirror that lags behind have expired; they are still signed.
        (self.root / "etc/apt/apt.conf.d/90systems").write_text('Acquire::Check-Valid-Until "false";\n')
        stamp.write_text("")

    def clone(self):
        for name in ("/etc/resolv.conf", CERTIFICATES):
            if os.path.exists(name):
                shutil.copy(name, self.root / name[1:])
        shutil.rmtree(self.root / "root/etch", ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "--no-local", ROOT, self.root / "root/etch"], check=True)

    def run(self, command, log):
        """The exit status and the output of a command in the checkout; the output is in the log while the command runs."""
        env = {k: v for k, v in os.environ.items() if PASSED_ON.fullmatch(k) and k != "PIP_FIND_LINKS"}
        env |= {"HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        with open(self.logs / log, "w") as out:
            status = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", self.root, command],
                                    env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT).returncode
        return status, (self.logs / log).read_text(errors="replace")

    def version(self, command):
        status, text = self.run(command, "version")
        found = re.findall(r"\d+(?:\.\d+)+", text.splitlines()[0]) if not status and text else []
        return found[-1] if found else "-"


def counts(text):
    """What pytest's closing line counts, and the reasons of what was skipped. The last run in a log counts."""
    closing = re.findall(r"^=* ?((?:\d+ (?:passed|failed|skipped|deselected|errors?|xfailed|xpassed|warnings?)(?:, )?)+) in ", text, re.M)
    found = {word.rstrip("s") if word.startswith("error") else word: int(n) for n, word in re.findall(r"(\d+) (\w+)", closing[-1] if closing else "")}
    reasons = collections.Counter()
    for n, reason in re.findall(r"^SKIPPED \[(\d+)\] \S+?(?::\d+)?: (.*)$", text, re.M):
        reasons[reason] += int(n)
    return found, reasons


def cell(step, status, found):
    """A step of a release, in the table."""
    if step == "demo":
        return "runs" if not status else "fails"
    if not found:
        return "fails"
    words = [f"{found[word]:,} {word}" for word in ("passed", "failed", "error", "skipped") if found.get(word)]
    return ", ".join(words) + (" (fails)" if status and not (found.get("failed") or found.get("error")) else "")


def table(results):
    """Releases by steps, in Markdown."""
    steps = [s for s in STEPS if any(s in r["steps"] for r in results.values())]
    names = list(VERSIONS)
    lines = ["| release | " + " | ".join(names + steps) + " |", "|---" * (1 + len(names) + len(steps)) + "|"]
    for suite, r in results.items():
        cells = [r["versions"].get(n, "-") for n in names] + [r["steps"].get(s, ("-",))[0] for s in steps]
        lines.append(f"| {suite} | " + " | ".join(cells) + " |")
    for suite, r in results.items():
        for step, (_, reasons) in r["steps"].items():
            if reasons:
                lines += ["", f"{suite}, {step}: skipped", ""]
                lines += [f"- {n}: {reason}" for reason, n in reasons.most_common()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "systems", help="where the roots are (build/systems)")
    parser.add_argument("--suites", default=",".join(SUITES), help="releases, by debootstrap's names (%(default)s)")
    parser.add_argument("--steps", default=",".join(STEPS), help="(%(default)s)")
    parser.add_argument("--tests", default="tests", help="what make test runs (%(default)s)")
    parser.add_argument("--jobs", "-j", type=int, default=2)
    parser.add_argument("--mirror", default="http://deb.debian.org/debian")
    parser.add_argument("--skips", type=int, default=40, help="most tests that a release may skip (%(default)s)")
    args = parser.parse_args()
    suites, steps = args.suites.split(","), args.steps.split(",")
    for unknown in [s for s in steps if s not in STEPS]:
        parser.error(f"{unknown}: not a step; they are {', '.join(STEPS)}")
    if not shutil.which("debootstrap"):
        sys.exit(fail("debootstrap is not installed; on Debian and Ubuntu: apt-get install debootstrap"))
    if os.geteuid():
        sys.exit(fail("needs root, for debootstrap and mount"))
    results, wrong = {}, False
    for suite in suites:
        result = results[suite] = {"versions": {}, "steps": {}}
        try:
            system = System(args.folder.resolve(), suite, args.mirror)
            system.make()
            system.clone()
            for step in steps:
                start = time.monotonic()
                status, text = system.run(COMMANDS[step].format(jobs=args.jobs, tests=args.tests), step)
                found, reasons = counts(text)
                result["steps"][step] = cell(step, status, found), reasons
                wrong |= bool(status) or found.get("skipped", 0) > args.skips
                print(f"systems: {suite}, {step}: {result['steps'][step][0]}, {time.monotonic() - start:.0f} s "
                      f"({system.logs}/{step})", file=sys.stderr, flush=True)
            result["versions"] = {name: system.version(command) for name, command in VERSIONS.items()}
        except (Failed, subprocess.CalledProcessError, OSError) as e:
            sys.exit(fail(e))
    print(table(results))
    sys.exit(wrong)


def fail(why):
    print(f"systems: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
