# SPDX-License-Identifier: MIT
"""The part `load` of scripts/bench/run: the programs of coverage_parts.py under a load of their own, on the loopback:
unmarked, marked only (neither rewritten nor armed), armed by one etch_sync an object behind their set-up, and sealed, where
the program has one thread.

Counts are etch stat's, simulated: a run of N and one of 5 N requests, and of both the difference over 4 N, so that
start-up and arming are not in them. Misses depend on where data lie: all builds are linked in ETCH_LAYOUTS layouts (4), with
paddings before .data and .bss and below the stack, by the same seeds for each build; a cell is the mean, and of misses the range.
ETCH_MINUTES=M: also, without simulation, M minutes of load with changes of settings by the program's own commands: what
has become of what was armed.
ETCH_LAYOUTS=0: no counts, the judge alone.
ETCH_ONE_SET=1: in a data cache of the same size that is one set, where no address excludes another: misses hardly depend on
the layout then, and are those of lines touched, not of lines that share a set.
"immediates of them" is the share of executed scalar reads of marked objects that took no load.
ETCH_TIMES=K: also user and system time a request, of K interleaved runs without simulation.
The judge of `armed` is valgrind's lackey, which prints each access to memory: how
many of the loads that a run of N requests makes after the etch_sync are from the marked objects, and by how many
instructions, beside those that etch says it has left as loads.
ETCH_PROGRAMS, ETCH_REQUESTS (N), ETCH_LOAD_COMPILER as in coverage."""
import collections
import contextlib
import functools
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time

from common import B, HERE, TOP, etch_needed, fail, sh, table
import coverage_parts
from coverage_parts import CLOSED, HAPROXY_CONFIGURATION, OWN_SYNC, UP, built, driver, free_port, linked, linked_in, sites

# In all builds. HOOKED: the program calls etch_up() after its set-up; else a thread waits until it is up. With SYNC all
# objects are armed then.
PROBE = """#ifdef SYNC
#include <etch/imv.h>
#ifdef SEAL
#undef etch_sync
#define etch_sync(p, size) etch_seal(p, size)
#endif
#endif
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
%s
volatile int coverage_armed;
static char up[200], done[200]; /* nginx makes an environment of its own, redis writes over it */
#ifdef SYNC
/* At each request by the same way: what has become of what was armed. */
static void *tell(void *path)
{
	char c;
	int fd;

	for (;;) {
		struct etch_info i = { .size = sizeof(i) };
		struct etch_state s = { .size = sizeof(s) };
		unsigned long given_up = 0, held_back = 0, set_often = 0;

		fd = open(path, O_RDONLY);
		if (fd < 0 || read(fd, &c, 1) != 1)
			return 0;
		close(fd);
%s
		etch_info(&i);
		fd = open(done, O_WRONLY);
		dprintf(fd, "armed %%lu given up %%lu held back %%lu set often %%lu differ %%ld\\n", i.armed, given_up, held_back, set_often, etch_verify(0, 0));
		close(fd);
	}
}
#endif
static void *arm(void *path)
{
	unsigned long sites = 0, armed = 0, unfit = 0;
	int err = 0, fd = open(path, O_RDONLY);
	char c, text[200];

	if (fd < 0 || read(fd, &c, 1) != 1)
		return 0;
	close(fd);
#ifdef SYNC
	struct etch_info i = { .size = sizeof(i) };
#ifdef OWN_SYNC
	err = etch_sync_all();
#else
%s
#endif
	etch_info(&i);
	sites = i.sites, armed = i.armed, unfit = i.unfit;
#endif
	snprintf(text, sizeof(text), "armed %%d %%lu %%lu %%lu %%p\\n", err, sites, armed, unfit, (void *)&coverage_armed);
	coverage_armed = 1;
	fd = open(done, O_WRONLY);
	dprintf(2, "%%s", text);
	dprintf(fd, "%%s", text);
	close(fd);
#ifdef SYNC
	if (getenv("ETCH_TELL")) {
		pthread_t t;

		pthread_create(&t, 0, tell, path);
	}
#endif
	return 0;
}
#ifdef HOOKED
void etch_up(void);
void etch_up(void)
{
	if (*up && *done)
		arm(up);
}
#endif
static void __attribute__((constructor(60000))) probe(void)
{
	if (getenv("ETCH_ARM") && getenv("ETCH_DONE"))
		snprintf(up, sizeof(up), "%%s", getenv("ETCH_ARM")), snprintf(done, sizeof(done), "%%s", getenv("ETCH_DONE"));
#ifndef HOOKED
	pthread_t t;

	if (*up)
		pthread_create(&t, 0, arm, up);
#endif
}
"""
HOOKS = {
    "memcached": {"memcached.c": [(r"^    /\* enter the event loop \*/", UP)]},
    "redis": {"src/server.c": [(r"^    (?=aeMain\(server\.el\);)", UP)]},
    "nginx": {"src/os/unix/ngx_process_cycle.c": [(r"^(ngx_single_process_cycle\((?s:.*?))^(?=    for \( ;; \) \{)", r"\1" + UP)]},
    "SQLite": {"sqlite3.c": [(r"\A", "/* by coverage-sqlite.c */ ")]},
    **OWN_SYNC,
}
ONE_THREAD = ["nginx", "SQLite"]  # with the hook
REWRITE = {name: ["--closed"] for name in ("redis", *CLOSED)}  # linked with -rdynamic
NOT_SYNCED = {"redis": os.environ.get("ETCH_NOT_SYNCED", "").split()}
LUA = """
local path, n = os.getenv("ETCH_ARM"), tonumber(arg[1])
if path then
  local f = io.open(path, "w"); f:write("x"); f:close()
  f = io.open(os.getenv("ETCH_DONE")); f:read("l"); f:close()
end
local function fib(k) if k < 2 then return k end return fib(k - 1) + fib(k - 2) end
local t = {}
for i = 1, n do
  t[#t + 1] = string.format("%d:%s", fib(8), tostring(i)):rep(2)
  if i % 16 == 0 then table.sort(t); t = {table.concat(t):sub(1, 40)} end
end
"""
NGINX = """daemon off; master_process off; error_log %(dir)s/error.log; pid %(dir)s/pid;
events { worker_connections 64; }
http { access_log off; keepalive_requests 1000000; client_body_temp_path %(dir)s/a; proxy_temp_path %(dir)s/b;
fastcgi_temp_path %(dir)s/c; uwsgi_temp_path %(dir)s/d; scgi_temp_path %(dir)s/e;
server { listen 127.0.0.1:%(port)d; root %(dir)s; } }
"""


def connected(p, port, seconds=600):
    end = time.time() + seconds
    while True:
        if p.poll() is not None:
            fail(f"load: the server has ended with {p.returncode}: {p.stderr.read().decode(errors='replace')[-1500:]}")
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=seconds)
        except OSError:
            if time.time() > end:
                raise
            time.sleep(0.05)


def ask(s, data, end):
    """Sends a request, and reads up to the end of its answer."""
    s.sendall(data)
    have = b""
    while not end(have):
        more = s.recv(65536)
        if not more:
            fail(f"load: the server has closed: {have[-200:]}")
        have += more


def memcached(s, n):
    for i in range(n):
        ask(s, b"set key%d 0 0 10\r\n0123456789\r\n" % (i % 100), lambda b: b.endswith(b"STORED\r\n"))
        ask(s, b"get key%d\r\n" % (i % 100), lambda b: b.endswith(b"END\r\n"))
        ask(s, b"incr none 1\r\n", lambda b: b.endswith(b"NOT_FOUND\r\n"))


def redis(s, n):
    def command(*words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
    for i in range(n):
        key = b"key%d" % (i % 100)
        for c in (command(b"SET", key, b"0123456789"), command(b"GET", key), command(b"INCR", b"n"), command(b"LPUSH", b"l", key), command(b"LPOP", b"l")):
            ask(s, c, lambda b: b.endswith(b"\r\n") and (b[:1] != b"$" or b.count(b"\r\n") == 2))


def nginx(s, n):
    for i in range(n):
        ask(s, b"GET /%s HTTP/1.1\r\nHost: l\r\n\r\n" % (b"file" if i % 4 else b"none"), lambda b: b.endswith((b"END\n", b"</html>\r\n")))


def haproxy(s, n):
    for i in range(n):
        ask(s, b"GET /%d HTTP/1.1\r\nHost: l\r\n\r\n" % i, lambda b: b.endswith(b"text END"))


@functools.lru_cache
def files():
    """The limit of open files under valgrind, which keeps some for itself and lets nobody set another: memcached sets
    its limit to what -c asks for, and ends where it cannot."""
    return sh("valgrind", "-q", "--tool=none", "sh", "-c", "ulimit -Hn").strip()


# name: (arguments of the program, its client or None where N is an argument, requests)
LOADS = {
    "memcached": (lambda d, port, n: ["-u", "root", "-U", "0", "-c", files(), "-l", "127.0.0.1", "-p", str(port), "-t", "1", "-o", "no_lru_crawler,no_lru_maintainer"], memcached, 400),
    "redis": (lambda d, port, n: ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", d, "--hz", "1", "--activerehashing", "no"], redis, 300),
    "nginx": (lambda d, port, n: ["-p", d, "-c", f"{d}/nginx.conf"], nginx, 400),
    "HAProxy": (lambda d, port, n: ["-db", "-f", f"{d}/haproxy.cfg"], haproxy, 300),
    "lua": (lambda d, port, n: [f"{d}/load.lua", str(n)], None, 3000),
    "SQLite": (lambda d, port, n: [str(n)], None, 1000),
}


def change_haproxy(s, d, i):
    """Sets the limit of connections by the program's own command, and asks for it; how many changes."""
    del s
    with socket.socket(socket.AF_UNIX) as cli:
        cli.connect(f"{d}/cli")
        cli.sendall(b"set maxconn global %d; set rate-limit sessions global %d; show info\n" % (100 + i % 300, 1000 + i))
        text = b"".join(iter(lambda: cli.recv(65536), b""))
    if b"\nMaxconn: %d\n" % (100 + i % 300) not in text or b"\nSessRateLimit: %d\n" % (1000 + i) not in text:
        fail(f"load: HAProxy still has another limit: {text}")
    return 2


def change_memcached(s, d, i):
    del d
    ask(s, b"cache_memlimit %d\r\n" % (64 + i % 100), lambda b: b.endswith(b"OK\r\n"))
    s.sendall(b"stats settings\r\n")
    text = b""
    while not text.endswith(b"END\r\n"):
        text += s.recv(65536)
    if b"maxbytes %d\r\n" % ((64 + i % 100) << 20) not in text:
        fail(f"load: memcached still has another limit: {text}")
    return 1


def change_redis(s, d, i):
    del d
    value = str(1000 + i).encode()
    ask(s, b"CONFIG SET slowlog-log-slower-than %s\r\n" % value, lambda b: b.endswith(b"+OK\r\n"))
    s.sendall(b"CONFIG GET slowlog-log-slower-than\r\n")
    text = b""
    while text.count(b"\r\n") < 5:
        text += s.recv(65536)
    if b"\r\n" + value + b"\r\n" not in text:
        fail(f"load: redis still has another value: {text}")
    return 1


CHANGES = {"HAProxy": change_haproxy, "memcached": change_memcached, "redis": change_redis}


def meet(d):
    pathlib.Path(f"{d}/arm").write_text("x")
    return pathlib.Path(f"{d}/done").read_text()  # nginx takes its standard error to a file


ONE_SET = {"VALGRIND_OPTS": "--callgrind:D1=32768,512,64"} if os.environ.get("ETCH_ONE_SET") else {}


def run_load(name, exe, n, wrap, directory, stack=0, hooked=True, minutes=0):
    """Runs the program under `wrap` with N requests; what `wrap` printed and the probe's answer. hooked: as HOOKS say. minutes: as
    many requests as fit in, and then what has become of what was armed, with what the program wrote to standard error."""
    arguments, client, _ = LOADS[name]
    port = free_port()
    env = {k: v for k, v in os.environ.items() if not k.startswith("ETCH_")} | ONE_SET
    with tempfile.TemporaryDirectory(dir=directory) as d:
        (pathlib.Path(d) / "load.lua").write_text(LUA)
        (pathlib.Path(d) / "nginx.conf").write_text(NGINX % {"dir": d, "port": port})
        (pathlib.Path(d) / "haproxy.cfg").write_text(HAPROXY_CONFIGURATION % {"dir": d, "port": port})
        (pathlib.Path(d) / "file").write_text("text " * 100 + "END\n")
        (pathlib.Path(d) / "logs").mkdir()
        if minutes:
            env.update(ETCH_TELL="1", ETCH_STRAY="warn")
        env.update(ETCH_ARM=f"{d}/arm", ETCH_DONE=f"{d}/done", PADDING="x" * stack)
        shutil.copy(exe, f"{d}/program")  # a path of one length
        os.mkfifo(f"{d}/arm")
        os.mkfifo(f"{d}/done")
        p = subprocess.Popen([*map(str, wrap), f"{d}/program", *arguments(d, port, n)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=d)
        watch = threading.Timer(1800, p.kill)
        watch.start()
        said = ""
        try:
            if client:
                s = connected(p, port)
                said = meet(d)
                client(s, n)
                told = [meet(d)] if minutes else []
                requests = changes = next_change = 0
                end = time.time() + 60 * minutes
                while minutes and time.time() < end:
                    client(s, n)
                    requests += n
                    if time.time() >= next_change:  # seldom enough that what is set stays armed
                        changes += CHANGES[name](s, d, changes)
                        next_change = time.time() + 1
                if minutes:
                    told.append(meet(d))
                s.close()
                stop(p)
            elif hooked and name in HOOKS:
                threading.Thread(target=meet, args=[d], daemon=True).start()
            out, err = p.communicate()
        finally:
            watch.cancel()
            with contextlib.suppress(OSError):
                p.kill()
        answer = re.search(r"armed (\d+) (\d+) (\d+) (\d+) 0x([0-9a-f]+)", said + err.decode(errors="replace"))
        if p.returncode not in (0, -signal.SIGTERM) or not answer or answer.group(1) != "0":
            fail(f"load: {name}: {exe} {n}: ended with {p.returncode}: {err.decode(errors='replace')[-1500:]}")
        if minutes:
            return requests, changes, told, [line for line in err.decode(errors="replace").splitlines() if "ETCH" in line]
        return out.decode(errors="replace"), answer


def stop(p):
    """SIGTERM to the program: the process, or the child that etch stat has made of it; again where it came between a
    look at what it had done and the wait for a request."""
    children = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()
    pid = int(children[0]) if children else p.pid
    for _ in range(100):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(1.5)
            return


def counts(name, exe, n, directory, stack=0):
    wrap = [B / "etch", "stat", "--simulate", "-r", "1", "--warmup", "0", "--format", "tsv", "--"]
    text, _ = run_load(name, exe, n, wrap, directory, stack)
    have = {}
    for line in text.splitlines():
        w = line.split("\t")
        if w[0] in ("instructions", "data-accesses", "l1d-misses"):
            have[w[0]] = float(w[4])
    if len(have) != 3:
        fail(f"load: {name}: no counts in\n{text}")
    return have


def loads_of_objects(name, exe, objects, n, directory):
    """By lackey: (loads after the etch_sync, of them from the objects, {instruction: how often}, how often instructions were
    executed that etch has made of loads)."""
    ranges, marker = [], 0
    for line in sh("nm", "-S", exe).splitlines():
        w = line.split()
        if len(w) == 4 and w[3].split(".")[0] in objects:
            ranges.append((int(w[0], 16), int(w[0], 16) + int(w[1], 16)))
        if w[-1] == "coverage_armed":
            marker = int(w[0], 16)
    log = pathlib.Path(directory) / "lackey"
    log.unlink(missing_ok=True)
    _, answer = run_load(name, exe, n, ["valgrind", "--tool=lackey", "--smc-check=all", "--trace-mem=yes", "--basic-counts=no", f"--log-file={log}"], directory)
    base = int(answer.group(5), 16) - marker
    ranges = [(lo + base, hi + base) for lo, hi in ranges]
    begin, after, total, at, found = f" S {marker + base:08x},4", False, 0, "", {}
    live = {f"{int(s['address'], 16) + base:08x}" for s in sites(TOP, exe) if s["live"] in ("yes", "swap")}
    executed = collections.Counter()
    lowest, highest = min(r[0] for r in ranges), max(r[1] for r in ranges)
    with open(log, errors="replace") as f:
        for line in f:
            kind = line[:2]
            if kind == "I ":
                at = line[3:line.find(",")]
                if after and at in live:
                    executed[int(at, 16) - base] += 1
            elif after and kind in (" L", " M"):
                total += 1
                a = int(line[3:line.find(",")], 16)
                if lowest <= a < highest and any(lo <= a < hi for lo, hi in ranges):
                    where = int(at, 16) - base
                    found[where] = found.get(where, 0) + 1
            elif not after and line.startswith(begin):
                after = True
    log.unlink()
    if not after:
        fail(f"load: {name}: lackey saw no etch_sync")
    # A site that is not armed has made a load; what is left are immediates.
    return total, sum(found.values()), found, sum(n - found.get(a, 0) for a, n in executed.items())


def builds(name, cc, layout, few):
    """{build: path}, and the marked objects; `marked` is read as it was compiled. layout: bytes before .data and .bss. few: `armed` alone."""
    main = (HERE / "coverage-sqlite.c", "-DHOOKED") if name == "SQLite" else None
    hooks = HOOKS.get(name)
    define = "#define HOOKED\n" if hooks else ""
    out, objects, tag = {}, [], "-".join(map(str, layout))
    pads = coverage_parts.OUT / "coverage" / f"pads-{tag}.o"
    pads.parent.mkdir(parents=True, exist_ok=True)
    pads.with_suffix(".c").write_text("char etch_pad_data[%d] = {1}, etch_pad_bss[%d];\n" % tuple(x + 1 for x in layout))
    sh("gcc", "-c", "-o", pads, pads.with_suffix(".c"))
    steps = {"marked": "", "armed": "#define SYNC\n", "sealed": "#define SYNC\n#define SEAL\n"}
    for what, defines in steps.items():
        if few and what != "armed":
            continue
        if what == "marked" or name not in os.environ.get("ETCH_NOT_ARMED", "").split() and (what == "armed" or name in ONE_THREAD):
            plain, rewritten, objects = linked(name, cc, TOP, f"{what}-{tag}", define + defines + PROBE, main=main, more=hooks, first=pads,
                                               options=REWRITE.get(name, ()), but=NOT_SYNCED.get(name, ()))
            out[what] = plain if what == "marked" else rewritten
    return (out if few else {"unmarked": unmarked(name, cc, main, hooks, define, pads, tag), **out}), objects


def unmarked(name, cc, main, hooks, define, pads, tag):
    at, command, program, _ = built(name, cc, marked=False, more=hooks)
    out = at / f"unmarked-{tag}"
    cwd = linked_in(name, at)
    probe = at / "probe.unmarked.c"
    probe.write_text(define + PROBE % ("", "", ""))
    sh(driver(cc), "-O1", "-c", "-o", probe.with_suffix(".o"), probe)
    coverage_parts.link(command, program, out, cwd, [probe.with_suffix(".o")], main, cc, pads)
    return out


def layouts():
    """[(bytes before .data, before .bss, below the stack)]"""
    rng = random.Random(22)
    return [(0, 0, 0)] + [tuple(64 * rng.randrange(64) for _ in range(3)) for _ in range(int(os.environ.get("ETCH_LAYOUTS", 4)) - 1)]


MINUTES = float(os.environ.get("ETCH_MINUTES", 0))
KINDS = ("instructions", "data-accesses", "l1d-misses")


def counted(name, made, n, directory):
    """{build: [{kind: count a request} of each layout]}"""
    per = {}
    for stack, paths in made:
        for what, exe in paths.items():
            few, many = (counts(name, exe, k * n, directory, stack) for k in (1, 5))
            per.setdefault(what, []).append({k: (many[k] - few[k]) / (4 * n) for k in few})
            print(f"load: {name}: {what}, {len(per[what])} of {len(made)}:", *(f"{per[what][-1][k]:.2f}" for k in KINDS), flush=True)
    return per


def timed(name, paths, n, directory):
    """{build: [microseconds a request]}, without simulation: user and system time of processes of N and of 5 N requests."""
    def cpu(exe, k):
        def used():
            r = resource.getrusage(resource.RUSAGE_CHILDREN)
            return r.ru_utime + r.ru_stime
        before = used()
        run_load(name, exe, k * n, ["env"], directory)
        return used() - before
    out = {what: [] for what in paths}
    for _ in range(int(os.environ.get("ETCH_TIMES", 0))):
        for what, exe in paths.items():
            out[what].append(1e6 * (cpu(exe, 10) - cpu(exe, 2)) / (8 * n))
    return out


def cells(name, per, times):
    mean = {what: {k: statistics.mean(c[k] for c in all_) for k in KINDS} for what, all_ in per.items()}
    base = mean["unmarked"]
    for what, m in mean.items():
        change = {k: f"{m[k]:,.2f} ({100 * m[k] / base[k] - 100:+.2f}%)" if base[k] else f"{m[k]:,.2f}" for k in KINDS}
        misses = [c["l1d-misses"] for c in per[what]]
        yield [name, what, *change.values(), f"{min(misses):,.2f} to {max(misses):,.2f}",
               f"{statistics.median(times[what]):,.2f} ({min(times[what]):,.2f} to {max(times[what]):,.2f})" if times[what] else ""]


def part_load(args):
    """Counts of the same programs under a load, unmarked, marked, armed and sealed; and the judge of what is armed."""
    etch_needed()
    del args
    cc = os.environ.get("ETCH_LOAD_COMPILER", "gcc")
    rows, judged, lasted = [], [], []
    for name in os.environ.get("ETCH_PROGRAMS", " ".join(LOADS)).split():
        n = int(os.environ.get("ETCH_REQUESTS", LOADS[name][2]))
        made, few = [], os.environ.get("ETCH_LAYOUTS") == "0"
        for data, bss, stack in layouts():
            paths, objects = builds(name, cc, (data, bss), few)
            made.append((stack, paths))
        with tempfile.TemporaryDirectory(prefix="etch-load-") as directory:
            if not few:
                rows += cells(name, counted(name, made, n, directory), timed(name, made[0][1], n, directory))
            armed = made[0][1].get("armed")
            if armed and MINUTES and name in CHANGES:
                requests, changes, told, said = run_load(name, armed, n, [], directory, minutes=MINUTES)
                lasted.append([name, requests, changes, told[0].strip(), told[1].strip(), len(said), said[0] if said else ""])
                print(f"load: {name}: {lasted[-1]}", flush=True)
            if armed:
                scalar = {int(s["address"], 16) for s in sites(TOP, armed) if "indexed" not in s["live"] and int(s["size"]) <= 8}
                left = {int(s["address"], 16) for s in sites(TOP, armed) if s["live"] not in ("yes", "swap")}
                total, of_objects, found, immediate = loads_of_objects(name, armed, objects, max(n // 10, 10), directory)
                loaded = sum(k for a, k in found.items() if a in scalar)
                # A site of an armed object whose 64-bit value does not fit is a load too; etch_info counts those.
                judged.append([name, total, immediate, loaded, f"{100 * immediate / max(immediate + loaded, 1):.1f}%", of_objects, len(found), len([a for a in found if a in left]),
                               " ".join(f"{a:x}" for a in sorted(found) if a not in left)[:60]])
    if rows:
        table(["program", "", "instructions a request", "data accesses", "L1d misses", "from layout to layout", "us of CPU"], rows)
    if lasted:
        print(f"\nAfter {MINUTES:g} minutes of load, with changes of settings by the program's own commands, each of which shows its new value:\n")
        table(["program", "requests", "changes", "before", "after", "lines of ETCH_STRAY=warn", "the first"], lasted)
    print("\nLoads by lackey, from the etch_sync on:\n")
    table(["program", "loads", "immediates executed", "scalar reads left", "immediates of them", "loads of marked objects", "by instructions", "of these, said to stay loads", "others"], judged)
