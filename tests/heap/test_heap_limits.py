# SPDX-License-Identifier: MIT
"""Limits x commands: a program that limits itself, or is limited, does under `etch heap` and `etch profile` what it does without, and ends
as it does; and of `etch heap` the sums are right, or a line says what is missing and why (tests/data/heap/limits.c)."""

import os
import re
import signal
import subprocess

import pytest

from conftest import DATA, GLIBC, last_line, run
from test_heap import heap, of, summary

HERE = DATA / "heap"
SPACE = "the address space that its limit allows (RLIMIT_AS) was used up"
SANDBOX = "the program asked for a seccomp filter"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("limits")
    run(["gcc", "-O1", "-pthread", HERE / "limits.c", "-o", out / "limits"])
    run(["gcc", "-O1", HERE / "fill.c", "-o", out / "fill"])
    (out / "jail").mkdir()
    return out


# What limits.c is called with; what etch heap must say (""; it may stop, and says so); the bytes of late(), its children's apart.
WITHIN = [
    (["none"], None, 100000),
    *[(["as", str(mb)], None, 100000) for mb in (8, 1024)],  # the program needs 3 MB
    *[(["data", str(mb)], None, 100000) for mb in (2, 64)],
    *[(["threads", str(mb)], "", None) for mb in (150, 400)],  # arenas of threads take as much as they get
    *[(["maps", str(mb)], SPACE, None) for mb in (30,)],
    (["nofile", "3"], None, 100000),
    (["descriptors"], None, 100000),
    (["descriptors-late"], None, 100000),
    (["descriptors-child"], "1 process is not counted: its recording cannot be created: Too many open files", 100000),
    (["closeall"], None, 100000),
    *[(["fsize", str(n)], None, 100000) for n in (0, 4095)],
    (["stack"], None, 100000),
    (["zero"], None, 100000),
    (["mlockall"], None, 100000),
    (["prctl"], SANDBOX, None),
    (["seccomp"], SANDBOX, None),
    (["chroot", "jail"], "1 process is not recorded: no file for it could be opened: No such file or directory", 100000),
    (["setuid"], "1 process is not recorded: no file for it could be opened: Permission denied", 100000),
    (["daemon"], None, 100000),
    (["vfork"], None, 100000),
]
ROOT_ONLY = ("chroot", "setuid", "mlockall")


def outcome(argv, built):
    p = subprocess.run(list(map(str, argv)), cwd=built, capture_output=True, text=True, timeout=60)
    return p.returncode, p.stdout, p.stderr


@pytest.mark.parametrize("how,says,late", WITHIN, ids=lambda x: "-".join(x) if isinstance(x, list) else "")
def test_limits_that_a_program_sets(etch, built, tmp_path, how, says, late):
    if os.geteuid() and how[0] in ROOT_ONLY:
        pytest.skip("needs root")
    code, out, err = outcome([built / "limits", *how], built)
    assert code == 7 and err == ""
    picture = tmp_path / "folded"
    got = outcome([etch, "heap", "-m", "total", "-o", picture, "--", built / "limits", *how], built)
    assert got[:2] == (code, out), got
    found = [(names.split(";"), int(n)) for names, _, n in (line.rpartition(" ") for line in picture.read_text().splitlines())]
    text = got[2]
    if late is not None:
        assert of(found, "late") == late, text
    assert "code made at run time" not in text and not any("run time" in f for frames, _ in found for f in frames)
    if says or says == "" and re.search("recording stopped|(is|are) not recorded", text):  # "": it may be that something is missing
        assert says in text and "100.00% with a complete stack" not in text, text
        assert "recording stopped" not in text or re.search(r"\d+ later ones are not recorded", text), text
    else:
        assert "100.00% with a complete stack" in text and not re.search("stopped|not recorded|not counted|without a stack|leaked, since", text), text
    if says and how[0] == "prctl":  # with --quiet, too
        assert heap(etch, built / "limits", *how, options=["-q"], ok=7).startswith("recording stopped after 1 allocation: " + says)


@pytest.mark.parametrize("how", [how for how, _, _ in WITHIN if how[0] in ("as", "data", "descriptors", "closeall", "fsize", "prctl", "daemon")][::2],
                         ids="-".join)
def test_profile_of_such_a_program(etch, built, how):
    plain = outcome([built / "limits", *how], built)
    assert outcome([etch, "profile", "-q", "--", built / "limits", *how], built) == plain


# Limits from outside: shell commands before the program is executed; what etch heap must say of it, if it is not recorded.
BEFORE = {
    # A program needs more address space with a later glibc.
    f"ulimit -v {3000 if GLIBC <= (2, 36) else 4000}": "1 process is not counted: its limits of memory leave no space for the recorder",
    "ulimit -v 6000": None,
    "ulimit -d 1500": "allocations are not recorded: there was no space for what the recorder keeps for a thread",
    "ulimit -d 4000": None,
    "ulimit -f 0": "1 process is not counted: its limit of file size (RLIMIT_FSIZE) is too low for a recording",
    "ulimit -f 200": None,
    "ulimit -n 4": None,
    "exec unshare -m sh -c 'mount -t tmpfs none /proc; exec $0 none' $0": None,
}


@pytest.mark.parametrize("before", BEFORE)
def test_limits_from_before(etch, built, before):
    if "unshare" in before and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs a mount namespace")
    command = before if "unshare" in before else f"{before}; exec $0 none"
    plain = outcome(["sh", "-c", command, built / "limits"], built)
    got = outcome([etch, "heap", "--", "sh", "-c", command, built / "limits"], built)
    assert plain[0] == 7 and got[:2] == plain[:2], got
    if BEFORE[before]:
        assert BEFORE[before] in got[2], got[2]
    else:
        assert "limits" in got[2] and "late" in got[2] and "100.00% with a complete stack" in got[2] and "not counted" not in got[2], got[2]


def test_address_space_of_any_size(etch, built):
    """fill.c takes all that RLIMIT_AS leaves: of 1,000-byte blocks, no more fail than fit in the recorder's code and fixed memory, and each
    allocation is recorded, or counted as made after the recording stopped."""
    for mb in (6, 12, 23, 30):
        code, out, _ = outcome([built / "fill", mb], built)
        got = outcome([etch, "heap", "--", built / "fill", mb], built)
        failed, now = int(out), int(got[1])
        assert got[0] == code and failed <= now <= failed + 1500 and (failed or not now or mb < 27), (mb, out, got)
        recorded = summary(got[2])[2][1]
        stopped = re.search(r"recording stopped after (\d+) allocations: .*; (\d+) later ones are not recorded", got[2])
        missed = int(stopped[2]) if stopped else 0
        assert recorded + missed == 20000 - now, got[2]
        assert bool(stopped) == bool(now) and ("100.00%" in got[2]) == (not stopped), got[2]


def test_python_that_limits_itself(etch, tmp_path):
    (tmp_path / "a.py").write_text("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
                                   "x = [bytes(100000) for _ in range(100)]\nprint('fine')\n")
    p = run([etch, "heap", "--", "/usr/bin/python3", tmp_path / "a.py"])
    assert p.stdout == "fine\n" and summary(p.stderr)[2][0] > 10000000


# ---- allocations that are not seen ----------------------------------------------------------------


UNSEEN = {
    "plain": ('a = load("plug.so", RTLD_NOW); a(5555); dlclose(h);', None),
    "deep": ('a = load("plug.so", RTLD_NOW | RTLD_DEEPBIND); a(5555);', r"not seen: the allocations of 1 library loaded with RTLD_DEEPBIND \(.*plug.so\)"),
    "lazy": ('a = load("plug.so", RTLD_LAZY | RTLD_DEEPBIND); a(5555);', r"not seen: the allocations of 1 library loaded with RTLD_DEEPBIND \(.*plug.so\)"),
    "closed": ('a = load("plug.so", RTLD_NOW | RTLD_DEEPBIND); a(5555); dlclose(h);', r"not seen: the allocations of 1 library loaded with RTLD_DEEPBIND"),
    "without": ('load("calm.so", RTLD_NOW | RTLD_DEEPBIND);', None),
    "failed": ('dlopen("./missing.so", RTLD_NOW | RTLD_DEEPBIND); dlmopen(LM_ID_NEWLM, "./missing.so", RTLD_NOW);', None),
    "space": ('h = dlmopen(LM_ID_NEWLM, "./plug.so", RTLD_NOW); a = dlsym(h, "plug_alloc"); a(6666);',
              r"not seen: the allocations of 1 namespace of dlmopen\(3\) \(.*plug.so\)"),
    "both": ('a = load("plug.so", RTLD_NOW | RTLD_DEEPBIND); a(5555); h = dlmopen(LM_ID_NEWLM, "./plug.so", RTLD_NOW);'
             ' a = dlsym(h, "plug_alloc"); a(6666);', r"not seen: the allocations of 1 library loaded with RTLD_DEEPBIND; 1 namespace of dlmopen\(3\) \(.*plug.so, .*plug.so\)"),
    "killed": ('a = load("plug.so", RTLD_NOW | RTLD_DEEPBIND); a(5555); _exit(0);', r"not seen: the allocations of 1 call of dlopen\(3\) with RTLD_DEEPBIND, .* of what it loaded"),
}


@pytest.fixture(scope="module")
def plugs(tmp_path_factory):
    out = tmp_path_factory.mktemp("plugs")
    (out / "plug.c").write_text("#include <stdlib.h>\nvoid *plug_alloc(int n) { char *p = malloc(n); p[0] = 1; return p; }\n")
    (out / "calm.c").write_text("void *plug_alloc(int n) { return 0; }\n")
    for name in ("plug", "calm"):
        run(["gcc", "-O1", "-shared", "-fPIC", f"{name}.c", "-o", f"{name}.so"], cwd=out)
    return out


@pytest.mark.parametrize("how", UNSEEN)
def test_code_with_another_malloc(etch, plugs, tmp_path, how):
    body, says = UNSEEN[how]
    (tmp_path / "a.c").write_text("""#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static void *h, *(*a)(int);
static void *(*load(const char *name, int mode))(int)
{
	char path[100] = "./";
	for (int i = 0; (path[i + 2] = name[i]); i++);
	h = dlopen(path, mode);
	if (!h) abort();
	return (void *(*)(int))dlsym(h, "plug_alloc");
}
int main(void) { (void)load; (void)a; %s return 0; }
""" % body)
    run(["gcc", "-O1", tmp_path / "a.c", "-o", tmp_path / "a"])
    for options in [[], ["-q"]] if how == "both" else [[]]:
        text = run([etch, "heap", *options, "--", tmp_path / "a"], cwd=plugs).stderr
        assert re.search(says, text) if says else "seen" not in text, text
        if says and not options:
            assert "each stack that was seen is complete" in text and "100.00%" not in text
            assert last_line(text).startswith("not seen: "), text


def test_programs_without_the_recorder_are_counted(etch, tmp_path):
    """Static ones, and those whose environment was emptied: in the last line, and no share is one of all."""
    (tmp_path / "a.c").write_text("#include <stdlib.h>\nint main(void) { return malloc(100) == 0; }\n")
    run(["gcc", "-static", tmp_path / "a.c", "-o", tmp_path / "lonely"])
    run(["gcc", tmp_path / "a.c", "-o", tmp_path / "other"])
    text = run([etch, "heap", "--", "sh", "-c", "./lonely; env -i ./other; ./other; ./lonely"], cwd=tmp_path).stderr
    assert last_line(text) == ("not seen: the allocations of 3 programs without the recorder, as static or set-user-ID ones "
                                     "(lonely, other)"), text
    assert "100.00%" not in text and "each stack that was seen is complete" in text
    assert "not seen" not in run([etch, "heap", "--", "sh", "-c", "./other; ./other"], cwd=tmp_path).stderr


def test_dlopen_still_acts_for_its_caller(etch, tmp_path):
    """A library finds another by its own RUNPATH, as without the recorder."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "in.c").write_text("int in(void) { return 5; }\n")
    (tmp_path / "out.c").write_text('#include <dlfcn.h>\nint out(void) { void *h = dlopen("libin.so", RTLD_NOW); return h ? ((int (*)(void))dlsym(h, "in"))() : 1; }\n')
    (tmp_path / "a.c").write_text("int out(void);\nint main(void) { return out(); }\n")
    run(["gcc", "-shared", "-fPIC", "in.c", "-o", "sub/libin.so"], cwd=tmp_path)
    run(["gcc", "-shared", "-fPIC", "out.c", "-o", "libout.so", f"-Wl,--enable-new-dtags,-rpath,{tmp_path}/sub"], cwd=tmp_path)
    run(["gcc", "a.c", "./libout.so", "-o", "a"], cwd=tmp_path)
    run([etch, "heap", "-q", "--", "./a"], ok=5, cwd=tmp_path)


# ---- exit statuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["heap", "profile"])
def test_the_status_of_the_command(etch, tmp_path, verb):
    for status in (0, 1, 3, 127):
        assert run([etch, verb, "-q", "--", "sh", "-c", f"exit {status}"], ok=status).stderr == ""
    for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGUSR1):
        run([etch, verb, "-q", "--", "sh", "-c", f"kill -{int(number)} $$"], ok=128 + number)
    # etch's own failures
    assert run([etch, verb, "--", "/nonexistent/command"], ok=2).stderr == "etch: /nonexistent/command: No such file or directory\n"
    (tmp_path / "plain").write_text("no program\n")
    assert run([etch, verb, "--", tmp_path / "plain"], ok=2).stderr == f"etch: {tmp_path}/plain: Permission denied\n"
    (tmp_path / "full").mkdir()
    assert "Is a directory" in run([etch, verb, "-q", "-o", tmp_path / "full", "--", "sh", "-c", "exit 0"], ok=2).stderr
