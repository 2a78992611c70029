# SPDX-License-Identifier: MIT
"""etch stat --simulate: counts under valgrind, of one program alone, and of one unit of work."""

import os
import re
import shlex
import sys
import tempfile
import time

import pytest

from conftest import need, run
from test_stat import bin, stat  # noqa: F401 (fixtures)

LOOP = 3  # instructions of a round


def test_simulated_counts(stat, bin):
    need("valgrind")
    r = stat("--simulate", "-r", "1", "--", bin / "load", "--", bin / "load", "loop=400000")
    rows = r["rows"]
    assert list(rows) == ["instructions", "data-accesses", "l1i-misses", "l1d-misses", "cache-references",
                          "cache-misses", "branches", "branch-misses"]
    assert all(row["source"] == "callgrind" for row in rows.values())
    assert LOOP * 400000 <= rows["instructions"]["difference"]["delta"] < LOOP * 400000 + 20000
    assert 400000 <= rows["branches"]["difference"]["delta"] < 404000
    assert rows["branch-misses"]["difference"]["delta"] < 1000
    for side in "ab":
        v = {k: row[side]["median"] for k, row in rows.items()}
        assert v["l1i-misses"] + v["l1d-misses"] == v["cache-references"] >= v["cache-misses"] > 0
    assert re.match(r"I1 \d+ B, 64 B, \d+-way associative; D1 .*; LL ", r["simulation"]["caches"])
    assert (r["simulation"]["doubled"], r["simulation"]["lost"]) == (0, 0)


def test_simulated_counts_are_cachegrinds(stat, bin, tmp_path):
    """... which has the same caches, of a process that does not fork. (Left to itself
    it follows jumps while it translates, and loses half of this loop's branches.)"""
    command = [bin / "load", "pages=50", "loop=100000"]
    rows = stat("--simulate", "-r", "1", "--", *command)["rows"]
    out = tmp_path / "out"
    run(["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", "--vex-guest-chase=no",
         f"--cachegrind-out-file={out}", *command])
    text = out.read_text()
    c = dict(zip(re.search("^events: (.*)", text, re.M).group(1).split(),
                 map(int, re.search("^summary: (.*)", text, re.M).group(1).split())))
    for name, want in {"instructions": c["Ir"], "data-accesses": c["Dr"] + c["Dw"], "branches": c["Bc"] + c["Bi"],
                       "l1d-misses": c["D1mr"] + c["D1mw"], "branch-misses": c["Bcm"] + c["Bim"]}.items():
        # The dynamic linker looks at the environment, which is not quite the same.
        assert rows[name]["a"]["median"] == pytest.approx(want, rel=0.02), name


def test_forked_children_are_counted_once(stat, bin):
    """valgrind gives a forked child its parent's counts; the loop before the fork must not
    be counted twice, nor that in the child not at all."""
    r = stat("--simulate", "-r", "1", "--", bin / "load", "--",
             bin / "load", "loop=300000", "fork=loop=200000,fork=loop=100000", "fork=loop=100000")
    want = LOOP * 700000
    assert want <= r["rows"]["instructions"]["difference"]["delta"] < want + 50000
    assert r["simulation"]["doubled"] == 0


def test_a_fork_that_was_not_seen_is_told(etch, bin):
    p = run([etch, "stat", "--simulate", "-r", "1", "--", bin / "load", "loop=100000", "rawfork=loop=1000"])
    assert "note: forked processes counted with their parent's counts, as their fork was not seen: 1\n" in p.stdout


def test_programs_that_are_executed_are_counted(stat, bin):
    r = stat("--simulate", "-r", "1", "--", "sh", "-c", f"{shlex.quote(str(bin / 'load'))} loop=10; :", "--",
             "sh", "-c", f"{shlex.quote(str(bin / 'load'))} loop=300000; :")
    assert LOOP * 299990 <= r["rows"]["instructions"]["difference"]["delta"] < LOOP * 300000 + 5000


def test_simulated_and_killed(stat, bin):
    """Nothing can be counted of a process that is killed; one that faults is counted."""
    r = stat("--simulate", "-r", "1", "--", bin / "load", "loop=100000", "signal=11", ok=1)
    assert r["rows"]["instructions"]["a"]["median"] > LOOP * 100000
    assert r["commands"][0]["endings"] == [{"signal": 11, "runs": 1}]
    r = stat("--simulate", "-r", "1", "--", "sh", "-c", f"{shlex.quote(str(bin / 'load'))} stay=5000; :")
    assert r["simulation"]["lost"] >= 1  # the daemon runs on


def test_no_valgrind(etch, tmp_path):
    (tmp_path / "true").symlink_to("/bin/true")
    p = run([etch, "stat", "--simulate", "--", "true"], ok=2, env=dict(os.environ, PATH=str(tmp_path)))
    assert not p.stdout
    assert p.stderr == "etch: stat: --simulate needs valgrind, which is not installed (Debian package: valgrind)\n"


def test_simulation_leaves_no_files(etch, bin, tmp_path):
    odd = tmp_path / "a %p 100% place"
    odd.mkdir()
    env = dict(os.environ, TMPDIR=str(odd))
    p = run([etch, "stat", "--simulate", "-r", "1", "--", bin / "load", "fork=loop=10"], env=env)
    assert re.search(r"^instructions +\d{5,}", p.stdout, re.M)
    assert list(odd.iterdir()) == []
    env["TMPDIR"] = str(tmp_path / "nowhere")
    p = run([etch, "stat", "--simulate", "--", "true"], ok=2, env=env)
    assert re.fullmatch(f"etch: stat: {re.escape(str(tmp_path))}/nowhere/etch-stat-\\w{{6}}: cannot make a directory: "
                        "No such file or directory\n", p.stderr)


@pytest.mark.parametrize("found", ["by PATH", "by a word", "by a word with directories"])
def test_only_one_program_is_simulated(stat, bin, found):
    """A server with its client: of Python, which takes some ten million, nothing is counted."""
    need("valgrind")
    loop = [bin / "load", "loop=300000"]
    server = " ".join(shlex.quote(str(word)) for word in loop)
    client = f"{shlex.quote(sys.executable)} -c 'print(1)'"
    name, command = {"by PATH": ("load", ["sh", "-c", f"{client}; load loop=300000 & wait"]),
                     "by a word": ("load", ["env", "load", "loop=300000"]),
                     "by a word with directories": (bin / "load", ["sh", "-c", f'{client}; "$0" loop=300000; :', bin / "load"])}[found]
    alone = stat("--simulate", "-r", "1", "--", *loop)["rows"]["instructions"]["a"]["median"]
    r = stat("--simulate", "--only", name, "-r", "2", "--", *command, env=dict(os.environ, PATH=f"{bin}:{os.environ['PATH']}"))
    assert r["simulation"]["only"] == str(name) and r["simulation"]["files"] is None and r["simulation"]["lost"] == 0
    assert all(v == pytest.approx(alone, rel=0.02) for v in r["rows"]["instructions"]["a"]["samples"])


def test_only_a_program_that_is_not_there(etch, bin, tmp_path):
    env = dict(os.environ, TMPDIR=str(tmp_path))
    for command in (["sh", "-c", "true"], ["sh", "-c", f"{shlex.quote(str(bin / 'load'))}; :"]):  # not by PATH
        p = run([etch, "stat", "--simulate", "--only", "load", "-r", "1", "--", *command], ok=2, env=env)
        assert "no process of load has left counts" in p.stderr and not p.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_limit_of_open_files(stat, bin):
    """valgrind keeps descriptors above the limit for itself, and refuses one that it has not begun with."""
    need("valgrind")
    command = ["--simulate", "-r", "1", "--", bin / "load", "files=512", "loop=1000"]
    assert stat(*command, ok=1)["commands"][0]["endings"] == [{"exit": 3, "runs": 1}]
    assert stat("--files", "512", *command)["simulation"]["files"] == 512


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_server_that_becomes_another_user(stat, bin, tmp_path):
    """It could not make the file of its counts."""
    need("valgrind")
    become = tmp_path / "become.c"
    become.write_text("#include <unistd.h>\nint main(void) { return setgid(65534) || setuid(65534) || access(\"/\", R_OK); }\n")
    run(["gcc", "-o", tmp_path / "become", become])
    r = stat("--simulate", "--only", tmp_path / "become", "-r", "1", "--", tmp_path / "become")
    assert r["rows"]["instructions"]["a"]["median"] > 10000


def test_values_of_a_unit_of_work(stat, etch, bin):
    """The slope of a program that knows it; set-up (here a loop of 100,000) is not in it."""
    need("valgrind")
    r = stat("--simulate", "-r", "1", "--work", "1000,401000", "--", bin / "load", "loop={}", "--",
             bin / "load", "loop=100000", "fork=loop={},loop={}")
    assert r["work"] == {"small": "1000", "large": "401000"}
    for row, unit in ("instructions", LOOP), ("branches", 1):
        for side, times in ("a", 1), ("b", 2):  # the number has digits more, to be read
            assert r["rows"][row][side]["median"] == pytest.approx(times * unit, rel=0.002), (row, side)
    r = stat("-r", "5", "--work", "100,3100", "--", bin / "load", "pages={}", "--", bin / "load", "pages={}", "pages={}")
    assert r["rows"]["page-faults"]["a"]["median"] == pytest.approx(1, rel=0.05)
    assert r["rows"]["page-faults"]["difference"]["delta"] == pytest.approx(1, rel=0.05)
    text = run([etch, "stat", "--simulate", "-r", "1", "--work", "1000,401000", "--", bin / "load", "loop={}"]).stdout
    assert "; of one unit of work: {} is 1000 and 401000\n" in text
    assert LOOP <= float(re.search(r"^instructions +(\d+\.\d{3}|\d+) *$", text, re.M).group(1)) < LOOP + 0.01


def test_a_size_that_fails(stat, bin):
    """The first run that fails is the last: nothing is a difference."""
    r = stat("--simulate", "-r", "1", "--work", "1,2", "--", bin / "load", "loop=10", "exit={}", ok=1)
    assert r["commands"][0]["endings"] == [{"exit": 1, "runs": 1}]
    assert all(row["a"] is None for row in r["rows"].values())


@pytest.mark.long
def test_memcached_without_its_client(stat, tmp_path):
    """A server that sets its limits, changes its user and is told to end."""
    need("valgrind", "memcached")
    script = tmp_path / "session"
    script.write_text(r'''
memcached -u nobody -s "$2" -t 1 & server=$!
"$3" -c '
import socket, sys, time
for i in range(600):
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[2]); break
    except OSError:
        time.sleep(0.1)
f = s.makefile("rb")
for i in range(int(sys.argv[1])):
    s.sendall(b"set k 0 0 3\r\nabc\r\n")
    assert f.readline() == b"STORED\r\n"
' "$1" "$2" || exit; kill $server; wait
''')
    with tempfile.TemporaryDirectory() as top:  # where another user may write
        os.chmod(top, 0o777)
        r = stat("--simulate", "--only", "memcached", "--files", "1024", "-r", "1", "--work", "100,300", "--",
                 "sh", script, "{}", f"{top}/socket", sys.executable)
    assert 2000 < r["rows"]["instructions"]["a"]["median"] < 12000  # of a request; a start takes nine million
