# SPDX-License-Identifier: MIT
"""The part of scripts/bench/run about coverage: how many reads of a marked object, in programs as people write them,
become immediates. Sources are Debian's, marked with a few lines each, compiled with -O2 by gcc and clang.

Reads are counted by objdump, in the unprocessed program: instructions whose operand is the object's address, or an
offset from a register that holds it (from a lea or mov before, up to the next call or label), except for stores, leas, and
what reads and writes at once. Scalars are all reads but those of array elements (an index in the operand) and those of
several fields at once (16 bytes and more). The program arms everything by one etch_sync an object, beside a thread.
Programs of OWN_SYNC call etch_sync_all where their set-up ends, as a port of them does, and are run up to there: so the
link step sees what runs before. Those of CLOSED, which are linked with -rdynamic, are rewritten with --closed.
"lines" is the size of the port: lines that differ from Debian's source. "-g": with debug information, which tells etch
the members of a struct.
ETCH_MARK=ETCHED_DENSE marks with that in place of ETCHED,
ETCH_LINK has more words for the link command. With ETCH_BEFORE=DIR (a checkout that is built) the same objects are linked with its libetch and rewritten by its etch."""
import collections
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from common import B, OUT, TOP, etch_needed, fail, sh, table

sys.path.append(str(TOP / "scripts"))
import fetch  # noqa: E402

INCLUDE = "#include <etch/imv.h>\n"
UP = r"void etch_up(void); etch_up();\n"


def init(*functions):
    """Edits that mark functions with ETCH_INIT: parsers of keywords, called through tables, at start-up alone."""
    return [(rf"^(?=(static )?int {f}\()", "ETCH_INIT ") for f in functions]


def etch_set(lvalue, operator, right):
    """The edit that makes an assignment an etch_set. The fields of HAProxy that commands, and servers added by them, change."""
    value = right if operator == "=" else f"{lvalue} {operator} {right}"
    return (rf"{re.escape(lvalue)} {re.escape(operator) if operator == '=' else re.escape(operator) + '='} {re.escape(right)};",
            f"etch_set(&{lvalue}, {value});")


HAPROXY = {
    "include/haproxy/global.h": [(r"^#include <haproxy/api-t.h>", INCLUDE + r"\g<0>")],
    "src/haproxy.c": [(r"^(?=struct global global = \{)", "ETCHED "), etch_set("global.mode", "|", "MODE_STOPPING")],
    "src/cli.c": [etch_set("global.maxconn", "=", "v"), *init("cli_parse_global")],
    "src/check.c": [(r"global\.maxsock\+\+;", "etch_set(&global.maxsock, global.maxsock + 1);")],
    "src/proxy.c": [etch_set("global.tune.options", "&", "~GTUNE_BUSY_POLLING"), *init("proxy_parse_close_spread_time")],
    **{f"src/{file}.c": init(function) for file, function in (
        ("cfgparse-global", "cfg_parse_global"), ("log", "cfg_parse_log_forward"),
        ("cfgparse", "cfg_parse_peers"), ("cfgparse-listen", "cfg_parse_listen"), ("server", "cfg_parse_idle_pool_shared"),
        ("listener", "cfg_parse_tune_listener_mq"), ("task", "cfg_parse_tune_sched_low_latency"), ("fd", "cfg_parse_tune_fd_edge_triggered"))},
}
GUC = "src/backend/utils/misc/guc.c"
# Files of PostgreSQL whose settings are marked: those with most of them. The others' lie in no other way.
SETTINGS = [GUC, *(f"src/backend/{f}.c" for f in ("optimizer/path/costsize", "access/transam/xlog", "utils/init/globals", "postmaster/autovacuum",
                                                  "postmaster/postmaster", "storage/buffer/bufmgr", "storage/lmgr/lock", "utils/error/elog"))]


def sets(variable, *fields):
    """Edits that make plain stores to fields of a variable sets."""
    return [(rf"^( +){variable}\.({'|'.join(fields)}) = ([^;]*);", rf"\1etch_set(&{variable}.\2, \3);")]


# Of what commands and threads of memcached store to later, what is likely to be: the first such store gives up all of `settings`.
MEMCACHED = {
    "memcached.h": [(r'^#include "protocol_binary.h"', INCLUDE + r"\g<0>")],
    "memcached.c": [(r"^struct settings settings;", "ETCHED struct settings settings;")],
    "slabs.c": sets("settings", "maxbytes"),
    "crawler.c": sets("settings", "lru_crawler"),
    "items.c": sets("settings", "lru_maintainer_thread"),
    "proto_text.c": sets("settings", "verbose", "detail_enabled", "slab_automove", "slab_automove_ratio", "oldest_live", "oldest_cas"),
    "proto_bin.c": sets("settings", "oldest_live", "oldest_cas"),
}
REDIS = {
    "src/server.h": [(r'^#include "fmacros.h"', r"\g<0>\n" + INCLUDE.strip())],
    "src/server.c": [(r"^struct redisServer server;", "ETCHED struct redisServer server;"),
                     (r"^struct sharedObjectsStruct shared;", "ETCHED struct sharedObjectsStruct shared;")],
    # Its table of settings, and what CONFIG SET stores through that.
    "src/config.c": [(r'^#include "server.h"', "#define STORE(p, v) do { __typeof__(*(p)) v_ = (v); if (etch_set(p, v_)) *(p) = v_; } while (0)\n" r"\g<0>"),
                     (r"^standardConfig static_configs\[\] =", "standardConfig static_configs[] ETCH_TABLE ="),
                     (r"server\.notify_keyspace_events = flags;", "etch_set(&server.notify_keyspace_events, flags);"),
                     (r"^( +)(else )?\*\(?(config->data\.[\w.]+)\)? = ((?!.*default_value).*);( \\)?$", r"\1\2STORE(\3, \4);\5")],
}


def setting_names(at):
    """The variables that PostgreSQL's tables of settings name, except for those that each transaction stores to."""
    text = (at / GUC).read_text(errors="surrogateescape")
    return sorted(set(re.findall(r"^\t\t&(\w+),$", text[text.index("ConfigureNamesBool[] ="):], re.M)) - {"XactReadOnly", "XactIsoLevel", "XactDeferrable"})


def postgresql(at):
    """Edits of PostgreSQL: its settings, marked by one expression; and the one setter, for variables of extensions too."""
    mark = [(rf"^(?=(?:static )?(?:bool|int|char[ \t]*\*)[ \t]*(?:{'|'.join(setting_names(at))})\b[^;(]*;)", "ETCHED_SHARED ")]
    out = {file: list(mark) for file in SETTINGS}
    out["src/include/postgres.h"] = [(r'^#include "c.h"', r"\g<0>\n" + INCLUDE.strip())]
    out[GUC] += [(r"^#define CONFIG_FILENAME", r"#define STORE(p, v) do { if (etch_set(p, v)) *(p) = (v); } while (0)\n\g<0>"),
                 (r"\*conf->variable = ([^;]*);", r"STORE(conf->variable, \1);"),
                 (r"^(set_string_field\([^{]*\{[^}]*?)\*field = newval;", r"\1STORE(field, newval);")]
    # The hook of a setting stores to it again: a plain store would give up its page.
    out["src/backend/access/transam/xlog.c"] += [(r"^\tmax_wal_size_mb = newval;", "\tetch_set(&max_wal_size_mb, newval);")]
    return out


def marked_settings(at):
    return sorted(m for f in SETTINGS for m in re.findall(r"^ETCHED\w+ [^;=]*?(\w+)\s*[=;]", (at / f).read_text(errors="surrogateescape"), re.M))


# name: (source of fetch.py, {file: [(regex, replacement)]}, commands before make, make, name in the link command, objects)
PROGRAMS = {
    "memcached": ("memcached", MEMCACHED,
                  "CC='{cc}' CFLAGS='-O2 -I{event}/usr/include' LDFLAGS='-L{event}/usr/lib/x86_64-linux-gnu -Wl,-rpath,{event}/usr/lib/x86_64-linux-gnu' "
                  "./configure --disable-dependency-tracking --disable-coverage",
                  "make -j2 ACLOCAL=: AUTOMAKE=: AUTOCONF=: AUTOHEADER=: memcached CFLAGS='-O2 -I{event}/usr/include -I{include} -w'", "memcached", ["settings"]),
    "redis": ("redis", REDIS,
              "true", "make -j2 V=1 -C src MALLOC=libc USE_SYSTEMD=no CC='{cc}' CFLAGS='-I{include} -w' OPTIMIZATION=-O2 redis-server",
              "redis-server", ["server", "shared"]),
    "nginx": ("nginx", {"src/**/*.c": [(r"^ngx_module_t +(ngx_\w+) = \{", r"ETCHED ngx_module_t \1 = {")],
                        "src/core/ngx_core.h": [(r"^#include <ngx_config.h>", "#include <ngx_config.h>\n" + INCLUDE)]},
              "./configure --without-http_rewrite_module --without-pcre --without-http_gzip_module --with-cc='{cc}' "
              "--with-cc-opt='-O2 -w -Wno-error -DETCH_COVERAGE -I{include}'", "make -j2 -f objs/Makefile binary", "objs/nginx", r"ngx_\w+_module"),
    "lua": ("lua", {"src/lua.c": [(r"^static lua_State \*globalL", INCLUDE + "ETCHED lua_State *globalL"),
                                  (r"^static const char \*progname", "ETCHED const char *progname")]},
            "true", "make -j2 -C src CC='{cc}' MYCFLAGS='-I{include} -w -DLUA_USE_LINUX' MYLIBS='-Wl,-E -ldl' lua", "lua", ["progname", "globalL"]),
    "SQLite": ("sqlite", {"sqlite3.c": [(r"^SQLITE_PRIVATE SQLITE_WSD struct Sqlite3Config sqlite3Config = \{",
                                         INCLUDE + "ETCHED struct Sqlite3Config sqlite3Config = {")]},
               "echo 'int sqlite3_initialize(void); int main(void) {{ return sqlite3_initialize(); }}' > main.c",
               "{cc} -O2 -w -DSQLITE_THREADSAFE=1 -I{include} -c sqlite3.c main.c && echo {cc} -o sqlite sqlite3.o main.o -lm -ldl",
               "sqlite", ["sqlite3Config"]),
    "HAProxy": ("haproxy", HAPROXY, "true", "make -j2 V=1 TARGET=linux-glibc USE_CRYPT_H=1 CC='{cc}' CPU_CFLAGS=-O2 DEBUG_CFLAGS= "
                "ADDINC='-I{include} -w' haproxy", "haproxy", ["global"]),
    "PostgreSQL": ("postgresql", postgresql, "CC='{cc}' CFLAGS='-O2' CPPFLAGS='-I{include}' ./configure --without-readline --without-icu --without-zlib",
                   "make -C src/backend generated-headers && make -C src/backend submake-libpgport && make -j2 -C src/backend postgres",
                   "postgres", marked_settings),
}
COMPILERS = ["gcc", "clang", "etch-cc gcc", "etch-cc clang"]
COMPILERS += [f"{cc} -g" for cc in COMPILERS]      # ETCH_COMPILERS=gcc-16,etch-cc clang-22: others
# Where a program's set-up ends: there a port of it calls etch_sync_all.
OWN_SYNC = {
    "HAProxy": {"src/haproxy.c": [(r"^(?=\tsetup_extra_threads\(&run_thread_poll_loop\);)", UP)]},
    "PostgreSQL": {"src/backend/postmaster/postmaster.c": [(r"^(?=\tstatus = ServerLoop\(\);)", UP)]},
}
CLOSED = ["HAProxy"]
# Arms everything by one etch_sync an object, before main, while another thread runs, and says what is armed.
PROBE = """#include <etch/imv.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
%s
static void *spin(void *arg)
{
	for (;;)
		__asm__ volatile("pause");
	return arg;
}
#ifdef OWN_SYNC
void etch_up(void);
void etch_up(void)
#else
static __attribute__((constructor(60000))) void probe(void)
#endif
{
	struct etch_info i = { .size = sizeof(i) };
	pthread_t other;
	int err = pthread_create(&other, 0, spin, 0);

#ifdef OWN_SYNC
	err |= etch_sync_all();
#else
%s
#endif
	etch_info(&i);
	dprintf(2, "coverage %%d %%lu %%lu %%ld\\n", err, i.sites, i.armed, etch_verify(0, 0));
	_exit(0);
}
"""
HAPROXY_CONFIGURATION = """global
    maxconn 500
    stats socket %(dir)s/cli level admin
    hard-stop-after 1s
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:%(port)d
    default_backend back
backend back
    server self unix@%(dir)s/self
frontend origin
    bind unix@%(dir)s/self
    http-request return status 200 content-type text/plain string "text END"
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def driver(cc):
    """The compiler itself, of a name in COMPILERS."""
    return next(word for word in cc.split() if re.match("gcc|clang", word))


def command_of(cc):
    """The command of a compiler by its name in the table."""
    return cc.replace("etch-cc ", f"{TOP}/tool/etch-cc ")


def event():
    """Where libevent's header and library are, which memcached does not compile without: of Debian's packages where they are not installed."""
    if pathlib.Path("/usr/include/event.h").exists():
        return ""
    into = fetch.CACHE / "libevent"
    if not into.is_dir():
        part = fetch.CACHE / "libevent.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        options = fetch.apt_options("deb")
        fetch.call(["apt-get", "-q", *options, "update"])
        fetch.call(["apt-get", "-q", *options, "download", "libevent-dev", "libevent-2.1-7"], cwd=part)
        for deb in part.glob("*.deb"):
            fetch.call(["dpkg-deb", "-x", deb, part])
        part.rename(into)
    return into


def edits_of(name, at):
    """{file or pattern: [(regex, replacement)]}; at: the source as it was fetched."""
    marks = PROGRAMS[name][1]
    return marks(at) if callable(marks) else marks


def edited(at, marks, mark):
    """Edits the sources; the number of places."""
    lines = 0
    for pattern, edits in marks.items():
        for path in at.glob(pattern):
            text = path.read_text(errors="surrogateescape")
            for old, new in edits:
                text, n = re.subn(old, new if callable(new) else re.sub(r"\bETCHED\b", mark, new), text, flags=re.M)
                lines += n
            path.write_text(text, errors="surrogateescape")
    return lines


def built(name, cc, marked=True, more=None):
    """Fetches, marks and compiles; the directory, the link command, and the objects that the program has. more: other edits,
    also of unmarked sources."""
    source, _, configure, make, program, objects = PROGRAMS[name]
    mark = os.environ.get("ETCH_MARK", "ETCHED") if marked else "unmarked"
    at = OUT / "coverage" / (("load-" if more else "") + ("" if mark == "ETCHED" else mark + "-") + cc.replace(" ", "-")) / name
    words = {"cc": command_of(cc), "include": TOP / "lib/include", "event": event() if name == "memcached" else ""}
    done = at / ".linked-by"
    if not done.exists():
        shutil.rmtree(at, ignore_errors=True)
        shutil.copytree(fetch.fetch(source), at)
        if (marked and not edited(at, edits_of(name, at), mark)) or (more and not edited(at, more, mark)):
            fail(f"coverage: {name}: nothing to mark")
        env = dict(os.environ, ETCH=str(B / "etch"))
        sh("sh", "-c", configure.format(**words), cwd=at, env=env)
        # The link fails, for want of libetch: its command is what is wanted.
        r = subprocess.run(["sh", "-c", make.format(**words)], cwd=at, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = r.stdout.replace("\\\n", " ")
        commands = [line for line in text.splitlines() if re.search(rf"-o {program}(\s|$)", line) and not line.startswith(("make", "+"))]
        if not commands:
            fail(f"coverage: {name}: no link command in\n{text[-3000:]}")
        done.write_text(commands[-1])
    command = done.read_text()
    return at, command, program, objects


def link(command, program, out, cwd, more, main, cc, first=""):
    """The program's own link command, to `out`, with more files. main: a source in the place of main.c, or one with options. first: a file before
    all others."""
    command = re.sub(rf"-o {program}(\s|$)", f"-o {out} {first} ", re.sub(r"^.*?(?<![-\w])(?=(gcc|clang|cc)(-\d+)?\s)", "", command))
    if main:
        sh(driver(cc), "-O2", "-c", "-o", f"{out}.main.o", *([main] if isinstance(main, pathlib.Path) else main))
        command = command.replace(" main.o ", f" {out}.main.o ")
    sh("sh", "-c", f"{command} {' '.join(map(str, more))} -pthread", cwd=cwd)


def linked_in(name, at):
    """Where the program's link command is run."""
    directory = re.search(r"-C (\S+)", PROGRAMS[name][3])
    return at / directory[1] if directory else at


def object_sizes(at, objects):
    text = sh("sh", "-c", f"find {at} -name '*.o' ! -name 'probe*' | xargs nm -S 2>&1")
    return {w[3]: int(w[1], 16) for w in map(str.split, text.splitlines()) if len(w) == 4 and w[3] in objects and w[2] in "dDbB"}


def linked(name, cc, root, tag, text=PROBE, main=None, more=None, first="", options=(), but=()):
    """The program, unprocessed and rewritten, with the libetch of a checkout, and its objects. options: of etch rewrite.
    but: objects that are not armed."""
    at, command, program, objects = built(name, cc, more=more)
    cwd = linked_in(name, at)
    out = at / f"etched.{tag}"
    if callable(objects):
        objects = objects(at)
    elif isinstance(objects, str):
        have = " ".join(p.read_text(errors="replace") for p in at.glob("objs/*.c")) if name == "nginx" else ""
        objects = sorted(set(re.findall(rf"extern ngx_module_t\s+({objects});", have)))
    objects = [o for o in objects if o not in but]
    probe = at / f"probe.{tag}.c"
    size = object_sizes(at, objects) if "void *tell(" in text else {}
    states = "".join(f"\t\tif (!etch_state_bytes(ETCH_ADDR({o}), {size[o]}, &s))\n\t\t\tgiven_up += s.given_up, held_back += !!s.held_back, set_often += s.set_often;\n" for o in objects if o in size)
    probe.write_text(text % ("".join(f"extern char {o}[];\n" for o in objects), *([states] if "void *tell(" in text else []),
                             "".join(f"\terr |= etch_sync(&{o}[0], 1);\n" for o in objects)))
    sh(driver(cc), "-O1", f"-I{root}/lib/include", *(["-DOWN_SYNC"] if name in OWN_SYNC else []), "-c", "-o", probe.with_suffix(".o"), probe)
    link(command, program, out, cwd, [probe.with_suffix(".o"), f"{root}/build/libetch.a", *os.environ.get("ETCH_LINK", "").split()], main, cc, first)
    plain = out.with_suffix(out.suffix + ".plain")
    shutil.copy(out, plain)
    subprocess.run([f"{root}/build/etch", "rewrite", *options, out], check=True, capture_output=True)
    return plain, out, objects


def objdump_reads(path, objects):
    """Reads of the objects, by objdump alone: (relative to rip or absolute, relative to a register, updates)."""
    ranges = []
    for line in sh("nm", "-S", path).splitlines():
        w = line.split()
        if len(w) == 4 and w[3].split(".")[0] in objects:
            ranges.append((int(w[0], 16), int(w[0], 16) + int(w[1], 16)))
    inside = lambda a: any(lo <= a < hi for lo, hi in ranges)
    direct = based = updates = 0
    held = {}
    text = sh("objdump", "-d", "--no-show-raw-insn", path)
    targets = set(re.findall(r"\bj\w+\s+([0-9a-f]+) <", text))
    names = {}
    for group in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp"):
        for n in ("r" + group, "e" + group, group, group[0] + "l" if group[1] == "x" else group + "l"):
            names[n] = "r" + group
    for i in range(8, 16):
        for suffix in ("", "d", "w", "b"):
            names[f"r{i}{suffix}"] = f"r{i}"
    for line in text.splitlines():
        if line.endswith(">:"):
            held = {}
        m = re.match(r"\s*([0-9a-f]+):\t(\S+)\s*(.*)", line)
        if not m:
            continue
        if m.group(1) in targets:
            held = {}
        op, rest = m.group(2), m.group(3)
        while op in ("ds", "cs", "lock", "rep", "repz", "repnz", "notrack", "data16", "addr32", "bnd"):
            op, _, rest = rest.partition(" ")
            rest = rest.strip()
        operands = re.split(r",(?![^(]*\))", rest.split("#")[0].split("<")[0].strip())
        memory = [k for k, o in enumerate(operands) if "(" in o or re.fullmatch(r"0x[0-9a-f]+", o)]
        ripped = re.search(r"# ([0-9a-f]+) <", rest)
        if op.startswith("call"):
            for r in ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"):
                held.pop(r, None)
            continue
        reads = memory and not op.startswith(("lea", "nop", "prefetch", "j")) and \
            (memory[0] < len(operands) - 1 or re.match(r"(cmp|test|push|bt\b|btl|btq|mul|imul|div|idiv|inc|dec|not|neg|add|sub|and|or|xor|adc|sbb|sh|sa|f)", op)) \
            and not (memory[0] == len(operands) - 1 and len(operands) > 1 and op.startswith("mov"))
        write_only = memory and memory[0] == len(operands) - 1 and (op.startswith("mov") or op.startswith("set"))
        # Read and written: a store, which makes its field one that is not armed.
        update = reads and len(operands) - 1 == memory[0] and re.match(r"(inc|dec|not|neg|add|sub|and|or|xor|adc|sbb|sh|sa|ro|bts|btr|xadd|cmpxchg|xchg)", op)
        if update and ripped and "(%rip)" in operands[memory[0]]:
            updates += inside(int(ripped.group(1), 16))
        elif reads and not write_only and not update:
            o = operands[memory[0]]
            b = re.fullmatch(r"(-?0x[0-9a-f]+)?\(%(\w+)\)", o)
            if ripped and "(%rip)" in o:
                direct += inside(int(ripped.group(1), 16))
            elif re.fullmatch(r"0x[0-9a-f]+", o):
                direct += inside(int(o, 16))
            elif b and b.group(2) in held:
                based += inside(held[b.group(2)] + int(b.group(1) or "0", 16))
        d = re.fullmatch(r"%(\w+)", operands[-1]) if operands else None
        if d and d.group(1) in names:
            held.pop(names[d.group(1)], None)
            if op == "lea" and ripped and inside(int(ripped.group(1), 16)):
                held[names[d.group(1)]] = int(ripped.group(1), 16)
            elif op == "mov" and re.fullmatch(r"\$0x[0-9a-f]+", operands[0]) and inside(int(operands[0][1:], 16)):
                held[names[d.group(1)]] = int(operands[0][1:], 16)
    return direct, based, updates


def sites(root, path):
    lines = sh(f"{root}/build/etch", "inspect", "sites", "--format", "tsv", path).splitlines()
    head = lines[0].split("\t")
    return [s for s in (dict(zip(head, line.split("\t"))) for line in lines[1:]) if s["kind"] == "load"]


def port_size(name, at):
    """Lines of the port that Debian's source does not have; one that was changed counts once, and where more than one is
    marked, as one expression does, marks apart."""
    source = PROGRAMS[name][0]
    lines = marks = 0
    for pattern in edits_of(name, fetch.CACHE / source):
        for path in at.glob(pattern):
            old = (fetch.CACHE / source / path.relative_to(at)).read_text(errors="surrogateescape").splitlines()
            have = collections.Counter(path.read_text(errors="surrogateescape").splitlines())
            new = have - collections.Counter(old)
            marks += sum(n for line, n in new.items() if line.startswith("ETCHED"))
            lines += new.total()
    return f"{lines - marks} + {marks} marks" if marks > 1 else lines


def postgresql_server(exe, d):
    """The command of a server of PostgreSQL with a new database in directory d, run as somebody who is not root."""
    inst = exe.parent / "pgsql"  # a name without pgsql would put its files into share/postgresql
    if not (inst / "bin/initdb").exists():
        shutil.copy(exe, exe.parent / "src/backend/postgres")  # which make is not to link
        for part in ("backend", "timezone", "interfaces/libpq", "bin/initdb", "backend/snowball", "pl/plpgsql/src"):
            sh("make", "-C", exe.parent / "src" / part, "-o", "postgres", "install", f"prefix={inst}")
    shutil.copy(exe, inst / "bin/postgres")
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    if user:
        os.chown(d, 65534, 65534)
    sh(*user, inst / "bin/initdb", "-A", "trust", "-U", "postgres", "-N", "-D", f"{d}/data")
    return [*user, inst / "bin/postgres", "-D", f"{d}/data", "-c", "listen_addresses=", "-c", f"unix_socket_directories={d}", "-c", "fsync=off"]


def armed_after_sync(name, path):
    with tempfile.TemporaryDirectory(prefix="etch-coverage-") as d:
        (pathlib.Path(d) / "haproxy.cfg").write_text(HAPROXY_CONFIGURATION % {"dir": d, "port": free_port()})
        command = [path, *({"HAProxy": ["-db", "-f", f"{d}/haproxy.cfg"]}.get(name, []))]
        if name == "PostgreSQL":
            command = postgresql_server(path, d)
        r = subprocess.run(command, capture_output=True, text=True, timeout=600)
    m = re.search(r"coverage (\d+) (\d+) (\d+) (-?\d+)", r.stderr)
    if not m or m.group(4) != "0":
        fail(f"coverage: {path}: {r.stderr[-500:]}")
    return int(m.group(3)), int(m.group(1))


def part_coverage(args):
    """Reads of marked objects in real programs: sites, live, armed."""
    etch_needed()
    del args
    roots = [("after", TOP)]
    if "ETCH_BEFORE" in os.environ:
        roots.insert(0, ("before", pathlib.Path(os.environ["ETCH_BEFORE"]).resolve()))
    only = os.environ.get("ETCH_PROGRAMS", " ".join(PROGRAMS)).split()
    rows, reasons = [], []
    for name in only:
        for cc in os.environ.get("ETCH_COMPILERS", ",".join(COMPILERS)).split(","):
            for tag, root in roots:
                try:
                    plain, out, objects = linked(name, cc, root, tag, more=OWN_SYNC.get(name), options=["--closed"] if name in CLOSED else [])
                except fetch.Unavailable as e:
                    print(f"coverage: {name}: {e}", file=sys.stderr)
                    break
                direct, based, updates = objdump_reads(plain, objects)
                found = sites(root, out)
                formed = [s for s in found if s["form"] != "-"]
                live = [s for s in found if s["live"] in ("yes", "swap")]
                armed, err = armed_after_sync(name, out)
                total = max(direct + based, len(found), 1)  # some registers that hold the address only etch follows
                others = sum("indexed" in s["live"] or int(s["size"]) > 8 for s in found)
                rows.append([name, cc, tag, port_size(name, out.parent), direct, based, updates, len(found), len(formed), len(live), armed, f"{100 * armed / total:.1f}%",
                             total - others, f"{100 * armed / (total - others):.1f}%" + (f" (error {err})" if err else "")])
                why = collections.Counter(s["live"].removeprefix("no: ") for s in found if s["live"] not in ("yes", "swap"))
                reasons += [[name, cc, tag, n, reason] for reason, n in why.most_common()]
    table(["program", "compiler", "", "lines", "reads (objdump)", "by register", "updates", "reads (etch)", "with a form", "live", "armed after etch_sync",
           "of reads", "reads of scalars", "of them"], rows)
    print("\nReads that stay loads while threads run, by reason:\n")
    table(["program", "compiler", "", "reads", "reason"], reasons)
