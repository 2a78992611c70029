# SPDX-License-Identifier: MIT
"""etch stat: what commands cost; test_stat_noise.py has when a difference is one, test_stat_simulated.py counts under
valgrind.

Counts are held against a program that knows what it costs (tests/data/stat/load.c). No test looks at how long
something takes. The processor's counters, which few test machines have, are those of a
preloaded library (tests/data/stat/fake_perf.c).
"""

import json
import os
import pty
import re
import select
import shlex
import signal
import statistics
import subprocess
import sys
import time

import jsonschema
import pytest

from conftest import DATA, ROOT, asan_env, run

HERE = DATA / "stat"
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "stat.json").read_text())
HARDWARE = ["cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses"]
SOFTWARE = ["task-clock", "cpu-migrations", "context-switches", "page-faults"]
ROWS = [*SOFTWARE, *HARDWARE, "elapsed"]
PERF = bool(os.path.exists("/proc/sys/kernel/perf_event_paranoid"))


@pytest.fixture(scope="module")
def bin(tmp_path_factory):
    """The programs of tests/data/stat, and a library."""
    out = tmp_path_factory.mktemp("stat")
    for name in ("load", "no_perf"):
        run(["gcc", "-O2", "-o", out / name, HERE / f"{name}.c"])
    run(["gcc", "-O2", "-shared", "-fPIC", "-o", out / "fake_perf.so", HERE / "fake_perf.c"])
    return out


def valid(text):
    report = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    for command in report["commands"]:
        assert sum(e["runs"] for e in command["endings"]) == command["runs"]
    return report


@pytest.fixture
def stat(etch):
    """etch stat --json OPTIONS -- COMMANDS, checked against its schema: the rows by name."""
    def go(*argv, ok=0, **kw):
        report = valid(run([etch, "stat", "--json", *argv], ok=ok, **kw).stdout)
        report["rows"] = {c["counter"]: c for c in report["counters"]}
        return report
    return go


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


# ---- what is counted -------------------------------------------------------------------


def test_counts_of_a_program_that_knows_them(stat, bin):
    r = stat("-r", "3", "-w", "0", "--", bin / "load", "--", bin / "load", "pages=3000", "sleeps=40", "cpu=40")
    assert list(r["rows"]) == ROWS
    a, b = ({k: v[s] for k, v in r["rows"].items()} for s in "ab")
    for low, high in zip(a["page-faults"]["samples"], b["page-faults"]["samples"]):
        assert 2950 <= high - low < 3100  # of two processes whose own differ by a few
    assert all(v >= 30 for v in b["context-switches"]["samples"])  # a timer that is late by 100 us needs no switch
    assert all(40 <= v < 4000 for v in b["task-clock"]["samples"])
    assert all(v >= 40 + 4 for v in b["elapsed"]["samples"])  # sleeps of 100 us, at the least
    for row in r["rows"].values():
        assert (row["missing"] is None) == (row["a"] is not None) == (row["source"] != "none")


def test_children_are_counted(stat, bin):
    r = stat("-r", "1", "--", bin / "load", "--", bin / "load", "fork=pages=2000,fork=pages=1000")
    assert 2950 <= r["rows"]["page-faults"]["difference"]["delta"] < 3400


def test_migrations(stat, bin):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU")
    r = stat("-r", "1", "--", bin / "load", "hops=60")
    row = r["rows"]["cpu-migrations"]
    if row["source"] == "none":
        assert "not" in row["missing"]
    else:
        assert 59 <= row["a"]["median"] < 120


def test_numbers_agree_with_each_other(stat, bin):
    r = stat("-r", "6", "-w", "0", "--", bin / "load", "pages=9", "--", bin / "load", "pages=900")
    for row in r["rows"].values():
        if not row["difference"]:
            continue
        a, b, d = row["a"], row["b"], row["difference"]
        for s in (a, b):
            assert len(s["samples"]) == 6 and s["counted"] == 1
            assert s["median"] == pytest.approx(statistics.median(s["samples"]), abs=1e-6)
            assert s["mad"] == pytest.approx(statistics.median([abs(v - s["median"]) for v in s["samples"]]), abs=2e-6)
        assert d["delta"] == pytest.approx(b["median"] - a["median"], abs=2e-6)
        assert d["percent"] is None or d["percent"] == pytest.approx(100 * d["delta"] / a["median"], rel=1e-4)
        differences = sorted(y - x for x in a["samples"] for y in b["samples"])
        assert (d["low"], d["high"]) == pytest.approx((differences[2], differences[-3]), abs=2e-6)
        assert d["verdict"] == ("beyond noise" if d["low"] > 0 or d["high"] < 0 else "within noise")
    assert r["rows"]["page-faults"]["difference"]["verdict"] == "beyond noise"


@pytest.mark.parametrize("error", [1, 13, 38], ids=["EPERM", "EACCES", "ENOSYS"])
def test_without_perf(etch, bin, error):
    """Containers refuse perf_event_open: software counts come from wait4(), and nothing is 0
    that was not counted."""
    p = run([bin / "no_perf", error, etch, "stat", "--json", "-r", "1", "--", bin / "load", "--",
             bin / "load", "pages=2000", "sleeps=30", "cpu=30"])
    rows = {c["counter"]: c for c in valid(p.stdout)["counters"]}
    for name in ("task-clock", "context-switches", "page-faults"):
        assert rows[name]["source"] == "rusage" and rows[name]["difference"]
    assert 1950 <= rows["page-faults"]["difference"]["delta"] < 2100  # of two processes whose own differ by a few
    assert rows["context-switches"]["b"]["median"] >= 20  # 30 sleeps; the other command may be interrupted more often
    assert rows["task-clock"]["b"]["median"] >= 29
    for name in ["cpu-migrations", *HARDWARE]:
        assert rows[name]["source"] == "none" and rows[name]["a"] is None
        assert ("not allowed" if error < 38 else "not supported by this kernel") in rows[name]["missing"]
    text = run([bin / "no_perf", error, etch, "stat", "-r", "1", "--", "true"]).stdout
    assert len(re.findall(r"^.* from rusage$", text, re.M)) == 3
    for row in re.findall(r"^(?:CPU|instr|cache|branch).*$", text, re.M):
        assert re.fullmatch(r"[A-Za-z ]+? +not (allowed|supported) .*", row)


# ---- the processor's counters ------------------------------------------------------------


@pytest.fixture
def fake(etch, bin, tmp_path):
    """etch stat on a machine with counters; the events that it opened."""
    def go(how, *argv, text=False):
        env = dict(os.environ, LD_PRELOAD=str(bin / "fake_perf.so"), FAKE_PERF=how, FAKE_LOG=str(tmp_path / "log"))
        p = run([etch, "stat", *([] if text else ["--json"]), *argv], env=env)
        names = "type config of_child group fd inherit disabled on_exec exclude_kernel".split()
        opened = [dict(zip(names, map(int, line.split()))) for line in (tmp_path / "log").read_text().splitlines()]
        if text:
            return p.stdout, opened
        return {c["counter"]: c for c in valid(p.stdout)["counters"]}, opened
    return go


# The numbers of linux/perf_event.h, which the library multiplies by 1000 after adding 1.
CONFIG = {"cycles": 0, "instructions": 1, "cache-references": 2, "cache-misses": 3, "branches": 4, "branch-misses": 5}


def test_hardware_counters(fake):
    rows, opened = fake("plain", "-r", "2", "-w", "0", "--", "true", "--", "true")
    for name, config in CONFIG.items():
        assert rows[name]["source"] == "perf" and not rows[name]["user_only"] and not rows[name]["missing"]
        assert rows[name]["a"]["samples"] == [1000 * (config + 1), 3000 * (config + 1)]
        assert rows[name]["b"]["samples"] == [2000 * (config + 1), 4000 * (config + 1)]
    of_child = [o for o in opened if o["of_child"] and o["type"] == 0]
    assert len(of_child) == 6 * 4 and all(o["inherit"] for o in of_child)
    for first in range(0, 24, 6):
        one = {o["config"]: o for o in of_child[first:first + 6]}
        for leader, others in ((0, (1, 4, 5)), (2, (3,))):
            # A leader begins with the command, the others with their leader.
            assert (one[leader]["group"], one[leader]["disabled"], one[leader]["on_exec"]) == (-1, 1, 1)
            for o in others:
                assert (one[o]["group"], one[o]["disabled"], one[o]["on_exec"]) == (one[leader]["fd"], 0, 0)
    assert [rows[n]["group"] for n in HARDWARE] == [1, 1, 2, 2, 1, 1]


def test_scaling_is_done_and_said(fake):
    rows, _ = fake("shared", "-r", "1", "--", "true")
    assert rows["cache-misses"]["a"]["samples"] == [4 * 4000]
    assert rows["cache-misses"]["a"]["counted"] == 0.25
    assert rows["cache-references"]["a"]["counted"] == 1
    assert rows["branch-misses"]["a"] is None  # never counted: no number, and not 0
    text, _ = fake("shared", "-r", "1", "--", "true", text=True)
    assert re.search(r"^cache misses +16000 +A: scaled, counted 25% of the time or more, in group 2$", text, re.M)
    assert re.search(r"^branch misses +A: counted in 0 of 1 runs$", text, re.M)


def test_user_space_only(fake):
    rows, opened = fake("paranoid", "-r", "1", "--", "true")
    assert all(rows[n]["user_only"] and rows[n]["a"]["median"] == 1000 * (CONFIG[n] + 1) for n in HARDWARE)
    assert all(o["exclude_kernel"] for o in opened if o["of_child"] and o["type"] == 0)
    # Context switches happen in the kernel: without it they would all be 0.
    assert not any(o["exclude_kernel"] for o in opened if o["type"] == 1)
    text, _ = fake("paranoid", "-r", "1", "--", "true", text=True)
    assert len(re.findall("user space only", text)) == 6


def test_a_group_that_does_not_fit(fake):
    rows, opened = fake("nogroup3", "-r", "1", "--", "true")
    assert [rows[n]["group"] for n in HARDWARE] == [1, 1, 2, 2, None, None]
    assert all(rows[n]["a"]["median"] == 1000 * (CONFIG[n] + 1) for n in HARDWARE)
    alone = [o for o in opened if o["of_child"] and o["type"] == 0 and o["config"] in (4, 5)]
    assert all((o["group"], o["disabled"], o["on_exec"]) == (-1, 1, 1) for o in alone) and len(alone) == 2


# ---- the command line --------------------------------------------------------------------------


def test_golden_table(fake):
    """Reviewed by eye: two commands, one row each way. Times are left out."""
    text, _ = fake("plain", "-r", "5", "-w", "0", "--", "true", "--", "true", "a b", text=True)
    text = re.sub(r"^(task clock|CPU migrations|context switches|page faults|time elapsed).*\n", "", text, flags=re.M)
    assert not re.search(" $", text, re.M)
    text = re.sub(" {2,}", "  ", text)
    assert text == """\
5 runs of each, in turn (A B A B ...)
  A  true
  B  true 'a b'

  A  spread  B  spread  delta  interval
CPU cycles  5000  40.00%  6000  33.33%  +20.00%  -100.00% .. +180.00%  within noise
instructions  10000  40.00%  12000  33.33%  +20.00%  -100.00% .. +180.00%  within noise
cache references  15000  40.00%  18000  33.33%  +20.00%  -100.00% .. +180.00%  within noise
cache misses  20000  40.00%  24000  33.33%  +20.00%  -100.00% .. +180.00%  within noise
branches  25000  40.00%  30000  33.33%  +20.00%  -100.00% .. +180.00%  within noise
branch misses  30000  40.00%  36000  33.33%  +20.00%  -100.00% .. +180.00%  within noise

A, B: median of the runs. Spread: median distance from it, in % of it.
Interval: of B - A, in % of A (rank test, 99%). Beyond noise: 0 is outside it.
"""


def test_the_commands_need_no_dashes(stat):
    """Up to the separator, and options of a command are its own."""
    r = stat("-r", "1", "true", "-q", "--", "true", "-x")
    assert [c["argv"][1:] for c in r["commands"]] == [["-q"], ["-x"]]


def test_streams(etch):
    """Standard output is the table's; with another place for it, the command's."""
    say = ["sh", "-c", "echo out; echo err >&2"]
    p = run([etch, "stat", "--json", "-r", "2", "-w", "0", "--", *say])
    valid(p.stdout)
    assert p.stderr == "out\nerr\n" * 2
    p = run([etch, "stat", "--json", "-r", "1", "-q", "--", *say])
    valid(p.stdout)
    assert p.stderr == "err\n"
    p = run([etch, "stat", "--json", "-r", "1", "--log-fd", "2", "--", *say])
    assert p.stdout == "out\n" and p.stderr.startswith("err\n")
    valid(p.stderr[4:])


def test_output_file(etch, tmp_path):
    out = tmp_path / "a table"
    p = run([etch, "stat", "--json", "-r", "1", "-o", out, "--", "echo", "hi"])
    assert (p.stdout, p.stderr) == ("hi\n", "")
    valid(out.read_text())


def test_tsv_is_the_json(etch, bin):
    p = run([etch, "stat", "--format", "tsv", "-r", "1", "--", "true", "--", bin / "load", "pages=100"])
    lines = [line.split("\t") for line in p.stdout.splitlines()]
    assert [line[0] for line in lines] == ["counter", *ROWS] and {len(line) for line in lines} == {14}
    row = dict(zip(lines[0], lines[1 + ROWS.index("page-faults")]))
    assert float(row["delta"]) == float(row["b"]) - float(row["a"]) > 0
    assert (row["runs_a"], row["mad_a"], row["low"], row["verdict"]) == ("1", "-", "-", "too few runs")


@pytest.mark.parametrize("argv,said", [
    ([], "no command to run; see etch stat --help"),
    (["--"], "no command to run; see etch stat --help"),
    (["--", "--", "true"], "no command to run; see etch stat --help"),
    (["--", "true", "--"], "no command after the separator; see etch stat --help"),
    (["--", "true", "--", "true", "--", "true"],
     "more than two commands (use --separator if -- is an argument of one)"),
    (["--no-such"], "unrecognized option '--no-such'; see etch stat --help"),
    (["-r", "0", "--", "true"], "--runs must be a number from 1 to 1000000, not '0'"),
    (["-r", "1000001", "--", "true"], "--runs must be a number from 1 to 1000000, not '1000001'"),
    (["-r", "", "--", "true"], "--runs must be a number from 1 to 1000000, not ''"),
    (["-w", "-1", "--", "true"], "--warmup must be a number from 0 to 1000000, not '-1'"),
    (["-w", "2x", "--", "true"], "--warmup must be a number from 0 to 1000000, not '2x'"),
    (["--pin=1023", "--", "true"], "--pin: CPU 1023 does not exist or is not allowed"),
    (["--only", "true", "--", "true"], "--only needs --simulate"),
    (["--files", "9", "--", "true"], "--files needs --simulate"),
    (["--simulate", "--files", "0", "--", "true"], "--files must be a number from 1 to 1048576, not '0'"),
    (["--work", "5", "--", "echo", "{}"], "--work: takes two numbers, the smaller first, such as 1000,11000, not '5'"),
    (["--work", "5,5", "--", "echo", "{}"], "--work: takes two numbers, the smaller first, such as 1000,11000, not '5,5'"),
    (["--work", "5,+9", "--", "echo", "{}"], "--work: takes two numbers, the smaller first, such as 1000,11000, not '5,+9'"),
    (["--work", "5,9,12", "--", "echo", "{}"], "--work: takes two numbers, the smaller first, such as 1000,11000, not '5,9,12'"),
    (["--work", ",9", "--", "echo", "{}"], "--work: takes two numbers, the smaller first, such as 1000,11000, not ',9'"),
    (["--work", "5,99999999999999999999", "--", "echo", "{}"],
     "--work: takes two numbers, the smaller first, such as 1000,11000, not '5,99999999999999999999'"),
    (["--work", "5,9", "--work", "5,9", "--", "echo", "{}"], "--work: is given twice"),
    (["--work", "5,9", "--", "echo", "{}", "--", "echo", "5"], "--work: the command echo has no argument with {}, which stands for the size"),
    (["--format", "xml", "--", "true"], "--format must be text, tsv or json, not 'xml'"),
    (["--log-fd", "99", "--", "true"], "--log-fd: 99 is not an open file descriptor"),
    (["--log-fd", "1", "-o", "x", "--", "true"], "--output cannot be combined with --log-fd"),
    (["-o", "/no such/x", "--", "true"], "/no such/x: No such file or directory"),
    (["-o", "/", "--", "true"], "/: Is a directory"),
    (["-i", "/no such", "--", "true"], "/no such: No such file or directory"),
    (["--", "no such command"], "no such command: command not found"),
    (["--", "touch", "MARK", "--", "/no/such"], "/no/such: No such file or directory"),
    (["--", "/etc"], "/etc: Is a directory"),
    (["--", "/etc/passwd"], "/etc/passwd: Permission denied"),
    (["--", ""], ": empty command name"),
    (["--", "a\nb\x1b[2J"], "a\\x0ab\\x1b[2J: command not found"),
    (["-i", "/no\nsuch", "--", "true"], "/no\\x0asuch: No such file or directory"),
    (["-o", "/no\nsuch/x", "--", "true"], "/no\\x0asuch/x: No such file or directory"),
])
def test_what_cannot_be_done_is_said_in_a_line(etch, argv, said, tmp_path):
    mark = tmp_path / "mark"
    p = run([etch, "stat", *[str(mark) if a == "MARK" else a for a in argv]], ok=2)
    assert (p.stdout, p.stderr) == ("", f"etch: {said}\n")
    assert not mark.exists()  # nothing ran


def test_a_command_that_the_kernel_refuses(etch, tmp_path):
    bad = tmp_path / "bad"
    bad.write_text("#!/no/such/interpreter\n")
    bad.chmod(0o755)
    p = run([etch, "stat", "--", bad], ok=2)
    assert (p.stdout, p.stderr) == ("", f"etch: {bad}: No such file or directory\n")
    bad.write_text("exit 0\n")  # a script without a first line, as a shell would run it
    run([etch, "stat", "-r", "1", "--", bad])


def test_words_can_be_given_to_a_shell(etch, tmp_path):
    """What the table shows of a command is, told to bash, that command; and a terminal has
    nothing to act on."""
    words = ["printf", "%s\\n", "", "a b", "it's", "$HOME `x` \\", "new\nline", "\x1b[31m", "\u00e4\u20ac", "\u0085", "\u202egnp.exe", "~", "#",
             "*", "-", "a=b;c", b"\xff\xfe'\\".decode("utf-8", "surrogateescape"), "tab\t1"]
    p = run([etch, "stat", "-q", "-r", "1", "--", *words], errors="surrogateescape")
    line = re.search(r"^  A  (.*)$", p.stdout, re.M).group(1)
    assert not re.search("[\x00-\x1f\x7f\x80-\x9f\u202e\udc80-\udcff]", line)
    want = run([words[0], *words[1:]], errors="surrogateescape").stdout
    assert run(["bash", "-c", line], errors="surrogateescape", env=dict(os.environ, LC_ALL="C.UTF-8")).stdout == want
    report = valid(run([etch, "stat", "--json", "-q", "-r", "1", "--", *words]).stdout)
    shown = [re.sub("[\udc80-\udcff]", "\ufffd", w) for w in words]
    assert report["commands"][0]["argv"] == shown


def test_separator(stat):
    r = stat("-q", "-r", "1", "--separator", "VS", "--", "echo", "--", "VS", "echo", "a", "--", "b")
    assert [c["argv"] for c in r["commands"]] == [["echo", "--"], ["echo", "a", "--", "b"]]


def test_in_turn_after_warming_up(etch, tmp_path):
    log = tmp_path / "log"
    a, b = (["sh", "-c", f"echo {x} >>{shlex.quote(str(log))}"] for x in "ab")
    run([etch, "stat", "-r", "3", "--", *a, "--", *b])
    assert log.read_text().split() == list("ab" * 4)
    log.unlink()
    run([etch, "stat", "-r", "2", "-w", "3", "--", *a])
    assert log.read_text().split() == ["a"] * 5
    log.unlink()
    run([etch, "stat", "-r", "1", "--", *a])
    assert log.read_text().split() == ["a"]


def test_pin(stat):
    allowed = sorted(os.sched_getaffinity(0))
    show = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status >&2"]
    r = stat("--pin", "-r", "1", "--", *show)
    assert r["cpu"] == allowed[-1]
    assert stat(f"--pin={allowed[0]}", "-r", "1", "--", *show)["cpu"] == allowed[0]
    assert stat("-r", "1", "--", "true")["cpu"] is None


def test_pin_is_true(etch):
    cpu = min(os.sched_getaffinity(0))
    p = run([etch, "stat", f"--pin={cpu}", "-r", "1", "--", "grep", "Cpus_allowed_list", "/proc/self/status"])
    assert p.stderr.split() == ["Cpus_allowed_list:", str(cpu)]
    assert f"on CPU {cpu}\n" in p.stdout


def test_input(etch, tmp_path):
    text = tmp_path / "text"
    text.write_text("12345678\n" * 3)
    count = [etch, "stat", "-r", "2", "-w", "0", "--log-fd", "2"]
    with open(text) as f:
        assert run([*count, "--", "wc", "-c"], stdin=f).stdout == "27\n27\n"
    with open(text) as f:  # from where it is
        os.lseek(f.fileno(), 9, os.SEEK_SET)
        assert run([*count, "--", "wc", "-c"], stdin=f).stdout == "18\n18\n"
    assert run([*count, "-i", text, "--", "wc", "-c"], input="x").stdout == "27\n27\n"
    # A pipe can be read once: by the only run, or by none.
    assert run([*count, "--", "wc", "-c"], input="abc").stdout == "0\n0\n"
    assert run([etch, "stat", "-r", "1", "--log-fd", "2", "--", "wc", "-c"], input="abc").stdout == "3\n"


def test_failing_commands(etch, stat, bin):
    r = stat("-r", "2", "-w", "0", "--", bin / "load", "exit=3", "--", bin / "load", "signal=9", ok=1)
    assert [c["endings"] for c in r["commands"]] == [[{"exit": 3, "runs": 2}], [{"signal": 9, "runs": 2}]]
    p = run([etch, "stat", "-r", "2", "-w", "0", "--", bin / "load", "exit=3", "--", bin / "load", "signal=9"], ok=1)
    assert "note: A: 2 of 2 runs ended with exit status 3; they count like the others\n" in p.stdout
    assert "note: B: 2 of 2 runs ended by signal 9 (Killed); they count up to that point\n" in p.stdout


# ---- signals and terminals ---------------------------------------------------------------------------


class Terminal:
    """A command on a terminal. When the first process of a session ends, what it wrote and nobody has read yet is gone:
    that one is not the command, but waits for it, and then for the reader."""

    def __init__(self, argv, **env):
        told, tell = os.pipe()
        self.leader, self.fd = pty.fork()
        if not self.leader:
            os.close(told)
            pid = os.fork()
            if not pid:
                os.close(tell)
                os.environ.update(env)
                os.execv(argv[0], [str(a) for a in argv])
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.write(tell, b"%d" % os.waitpid(pid, 0)[1])
            os.close(tell)
            signal.pause()
        os.close(tell)
        self.told = told
        self.said = b""

    def until(self, what, timeout=60):
        end = time.monotonic() + timeout
        while what not in self.said:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(self.said)
            try:
                got = os.read(self.fd, 4096)
            except OSError:
                got = b""
            if not got:
                raise AssertionError(self.said)
            self.said += got

    def end(self):
        quiet = False
        while not quiet:
            ready, _, _ = select.select([self.fd, self.told], [], [], 60)
            if self.fd in ready:
                self.said += os.read(self.fd, 4096)
            else:
                assert self.told in ready, self.said
                quiet = not select.select([self.fd], [], [], 0.3)[0]
        status = int(os.read(self.told, 16))
        os.kill(self.leader, signal.SIGKILL)
        os.waitpid(self.leader, 0)
        os.close(self.fd)
        os.close(self.told)
        return status, self.said.decode().replace("\r\n", "\n")


def test_interrupt(etch):
    """^C ends the command, and the runs that are done are shown."""
    script = "if [ -e \"$0\" ]; then echo second; exec sleep 60; fi; touch \"$0\""
    flag = f"/tmp/etch-stat-test-{os.getpid()}"
    try:
        t = Terminal([etch, "stat", "-r", "4", "-w", "0", "--", "sh", "-c", script, flag])
        t.until(b"second")
        os.write(t.fd, b"\x03")
        status, said = t.end()
    finally:
        if os.path.exists(flag):
            os.unlink(flag)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT
    assert re.search(r"^time elapsed, ms +\d+\.\d+ *$", said, re.M)
    assert "note: A: stopped (Interrupt) after 1 of 4 runs\n" in said


def test_interrupt_of_the_only_run(etch):
    """As with perf: what a server has cost until ^C. One that ends well by itself included."""
    t = Terminal([etch, "stat", "--", "sh", "-c", "trap 'echo bye; exit 0' INT; echo ready; while :; do sleep 0.1; done"])
    t.until(b"ready")
    os.write(t.fd, b"\x03")
    status, said = t.end()
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT
    assert said.count("bye\n") == 1 and said.count("ready\n") == 1
    assert "note: A: its only run was cut short\n" in said and re.search(r"^task clock, ms +\d", said, re.M)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_etch_alone_is_passed_on(etch, sig, tmp_path):
    script = f"trap 'echo got it; exit 7' {sig.name[3:]}; echo ready; while :; do sleep 0.1; done"
    p = subprocess.Popen([etch, "stat", "-r", "2", "-w", "0", "--log-fd", "2", "--", "sh", "-c", script],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    p.send_signal(sig)
    out, err = p.communicate(timeout=60)
    assert out == "got it\n" and p.returncode == -sig
    assert "its only run was cut short" in err


def test_ignored_signals_stay_ignored(etch):
    """nohup etch stat -- ...: neither etch nor the command takes SIGHUP."""
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # which must not lose the command's end

    script = "import os, signal; os.kill(os.getppid(), signal.SIGHUP); os.kill(os.getpid(), signal.SIGHUP);" \
             "print(signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN)"
    p = run([etch, "stat", "-r", "1", "--log-fd", "2", "--", sys.executable, "-c", script], preexec_fn=ignore)
    assert p.stdout == "True\n"


def test_the_command_gets_plain_signals(etch):
    script = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), " \
             "signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGCHLD))"
    plain = run([sys.executable, "-c", script]).stdout
    assert run([etch, "stat", "-r", "1", "--log-fd", "2", "--", sys.executable, "-c", script]).stdout == plain


def test_the_command_is_on_the_terminal(etch):
    """It is in the foreground, and can ask a question."""
    t = Terminal([etch, "stat", "-r", "1", "--", "sh", "-c", "[ -t 0 ] && [ -t 1 ] && read x && echo \"<$x>\""])
    os.write(t.fd, b"an answer\n")
    status, said = t.end()
    assert "<an answer>\n" in said and status == 0


def test_no_file_is_left_open(etch):
    """The command has the descriptors that etch was given, and no others."""
    p = run([etch, "stat", "-r", "1", "--log-fd", "2", "--", "ls", "/proc/self/fd"])
    assert p.stdout.split() == run(["ls", "/proc/self/fd"]).stdout.split()


# ---- an unfriendly world, with the sanitizers ------------------------------------------------------------


@pytest.fixture
def hard(etch_asan):
    def go(*argv, ok=0, **kw):
        p = run([etch_asan, "stat", *argv], ok=ok, env=asan_env(), **kw)
        assert "Sanitizer" not in p.stderr and "runtime error" not in p.stderr
        return p
    return go


def test_daemons_closers_and_killers(hard, bin):
    p = hard("--json", "-r", "2", "--", bin / "load", "stay=3000", "--", bin / "load", "close", "signal=15", ok=1)
    r = valid(p.stdout)
    assert [c["runs"] for c in r["commands"]] == [2, 2]
    assert r["commands"][1]["endings"] == [{"signal": 15, "runs": 2}]
    assert "elapsed" in [c["counter"] for c in r["counters"] if c["a"]]


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_closed_streams(hard, closed):
    p = hard("-r", "2", "--", "cat", ok=2 if closed == 1 else (0, 1), preexec_fn=lambda: os.close(closed),
             **({} if closed == 0 else {"stdin": subprocess.DEVNULL}))
    if closed == 1:
        assert p.stderr == "etch: standard output: cannot write: Bad file descriptor\n"
    else:
        assert "time elapsed" in p.stdout


def test_full_disks(hard, tmp_path):
    with open("/dev/full", "w") as full:
        p = hard("-r", "1", "--", "true", stdout=full, stderr=subprocess.PIPE, ok=2)
    assert p.stderr == "etch: standard output: cannot write: No space left on device\n"
    # The runs are not to be lost.
    p = hard("-r", "1", "-o", "/dev/full", "--", "true", ok=2)
    assert p.stderr.startswith("etch: /dev/full: cannot write: No space left on device\n1 run\n")
    p = hard("-r", "1", "--log-fd", "1", "--", "true", stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, ok=2)
    assert p.stderr == "etch: descriptor 1: cannot write: No space left on device\n"


@pytest.mark.parametrize("files", range(4, 16))
def test_few_descriptors(hard, files):
    """As far as they go, or a line that says why not. With the sanitizers' runtime, that
    needs none, and their report, which does not come."""
    import resource
    p = hard("-r", "1", "--", "true", ok=(0, 2),
             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    assert p.returncode == 0 or re.fullmatch(r"etch: .*Too many open files\n", p.stderr) or files < 5
    assert ("time elapsed" in p.stdout) == (p.returncode == 0)


def test_many_runs_of_nothing(hard):
    p = hard("--json", "-r", "300", "-w", "0", "--", "true")
    assert all(len(c["a"]["samples"]) == 300 for c in valid(p.stdout)["counters"] if c["a"])


def test_a_great_deal_of_output(etch):
    p = run([etch, "stat", "-r", "1", "-q", "--", "head", "-c", "300000000", "/dev/zero"])
    assert not p.stderr
    p = subprocess.Popen([etch, "stat", "-r", "1", "--log-fd", "2", "--", "yes"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    assert p.stdout.read(200000) == b"y\n" * 100000
    p.stdout.close()  # the command has its own trouble with that, not etch
    err = p.communicate(timeout=60)[1].decode()
    assert p.returncode == 1 and "ended by signal 13" in err
