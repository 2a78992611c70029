# SPDX-License-Identifier: MIT
"""Faults: whatever happens while etch runs, a file is as it was or as it is to be, and nothing
is left beside it but, after a kill at the wrong moment, one file of the documented name.

Killed before each single system call; each single call failing once; disks that are full,
directories that cannot be written, files that change meanwhile. `make soak` (or
ETCH_FAULTS=all) has every call of every case with every error; `make test` has every kill of
the short cases and one error for each of their calls, and a part of the long ones and of what
the dynamic linker calls."""
import fcntl
import os
import re
import resource
import shutil
import signal
import stat
import struct
import subprocess
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import DATA, INCLUDE, Flow, build_id, need, run

ALL = os.environ.get("ETCH_FAULTS") == "all"
ERRORS = ["EIO", "ENOMEM", "EINTR", "ENOSPC", "EDQUOT", "EACCES"]
# docs/security.md: the name of a temporary file.
TEMPORARY = re.compile(r"\.etch-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+")
ROOT_USER = os.geteuid() == 0
SOURCE = """
#include <etch/imv.h>
DEFINE_IMV(int, level) = 3;
int main(void) { return imv_read(level) - 3; }
"""


@pytest.fixture(scope="session")
def made(tmp_path_factory, build):
    """Files to be rewritten: name -> path. An object and a program with sites, for which the
    second decoder is loaded, and a program of the distribution."""
    flow = Flow(tmp_path_factory.mktemp("made"), build, "gcc")
    obj = flow.compile(SOURCE, ["-O2", "-fPIE"], "level.o")
    program = flow.link([obj], ["-pie"], "level", shared_lib=True)
    done = shutil.copy(program, flow.tmp / "done")
    flow.rewrite(done)
    return {"object": obj, "program": program, "done": Path(done), "true": Path(os.path.realpath(shutil.which("true")))}


class Case:
    """A command on files in a directory of its own, and what becomes of them."""

    def __init__(self, etch, root, files, args, new=(), status=0):
        self.etch, self.root, self.files, self.args = etch, root, files, [str(a) for a in args]
        self.setup(root / "good")
        p = self.run(root / "good")
        assert p.returncode == status, p.stderr
        self.status, self.before = status, {n: Path(p).read_bytes() for n, p in files.items()}
        self.after, self.good = contents(root / "good"), p
        assert set(self.after) == set(files) | set(new)

    def setup(self, path):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        for name, source in self.files.items():
            (path / name).parent.mkdir(exist_ok=True)
            shutil.copy(source, path / name)

    def run(self, path, prefix=(), **kw):
        kw.setdefault("capture_output", True)
        return subprocess.run([*prefix, self.etch, *self.args], cwd=path, text=True, timeout=60, **kw)

    def calls(self):
        """(call, how many of its kind before it in its process), of a whole run, in order; and the
        first that may come in main()."""
        path = self.root / "traced"
        self.setup(path)
        log = self.root / "trace"
        p = self.run(path, ["strace", "-f", "-qq", "-o", log])
        assert p.returncode == self.status
        seen, out, main = {}, [], None
        for line in log.read_text().splitlines():
            m = re.match(r"(\d+) +(\w+)\((.*)", line)
            if not m or m[2] in ("execve", "exit_group", "exit", "futex"):
                continue # futex: glibc takes an error that cannot be for a reason to abort
            key = m[1], m[2]
            seen[key] = seen.get(key, 0) + 1
            if main is None and m[2] in ("newfstatat", "stat") and f'"{self.args[-1]}"' in m[3]:
                main = len(out)
            if (m[2], seen[key]) not in out:
                out.append((m[2], seen[key]))
        assert main and len(out) > main + 20
        return out, main

    def injected(self, name, call, nth, fault):
        path = self.root / name
        self.setup(path)
        p = self.run(path, ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                            f"inject={call}:{fault}:when={nth}"])
        deadline = time.monotonic() + 20
        while p.returncode < 0 and workers_of(path) and time.monotonic() < deadline:
            time.sleep(0.005)
        return path, p

    def check_files(self, path, strays=0):
        now = contents(path)
        left = sorted(set(now) - set(self.before) - set(self.after))
        assert all(TEMPORARY.fullmatch(Path(n).name) for n in left) and len(left) <= strays, left
        assert set(self.before) <= set(now)
        for name in set(now) - set(left):
            assert now[name] in (self.before.get(name), self.after.get(name)), f"{name} is neither"
        return now, left


def contents(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file() and not p.is_symlink()}


def workers_of(path):
    """Processes whose working directory that is."""
    out = []
    for p in Path("/proc").iterdir():
        try:
            if p.name.isdigit() and os.readlink(p / "cwd") == str(path):
                out.append(int(p.name))
        except OSError:
            pass
    return out


CASES = {
    "in-place": lambda e, r, m: Case(e, r, {"f": m["true"]}, ["rewrite", "f"]),
    "object": lambda e, r, m: Case(e, r, {"f.o": m["object"]}, ["rewrite", "f.o"]),
    "new": lambda e, r, m: Case(e, r, {"f": m["program"]}, ["rewrite", "-o", "out", "f"], ["out"]),
    "over": lambda e, r, m: Case(e, r, {"f": m["program"], "out": m["true"]}, ["rewrite", "-o", "out", "f"]),
    "undo": lambda e, r, m: Case(e, r, {"f": m["done"]}, ["rewrite", "--undo", "f"]),
    "sidecar": lambda e, r, m: Case(e, r, {"f": m["true"], "d/note": m["object"]}, ["rewrite", "--sidecar", "d", "f"],
                                    ["d/" + build_id(m["true"])]),
    "many": lambda e, r, m: Case(e, r, {"d/f": m["true"], "d/g": m["program"], "d/h.o": m["object"], "d/i": m["true"]},
                                 ["rewrite", "-j2", "d"]),
}


@pytest.fixture(params=CASES)
def case(request, tmp_path, etch, made):
    need("strace")
    return CASES[request.param](etch, tmp_path, made)


def part(calls, of_many=7, main=0):
    """All of a short run, some of a long one; of the dynamic linker's, before `main`, a part."""
    if ALL:
        return calls
    return calls[:main:4] + calls[main:] if len(calls) < 200 else calls[len(calls) % of_many::of_many]


def test_killed_before_every_call(case):
    calls, main = case.calls()

    def one(item):
        i, (call, nth) = item
        path, p = case.injected(f"run{i}", call, nth, "signal=KILL")
        strays = len(case.files) if "-j2" in case.args else 1 # one for each process that is killed there
        now, left = case.check_files(path, strays if call in ("close", "rt_sigpending", "renameat", "unlinkat", "newfstatat", "stat") else 0)
        for name in left:
            assert now[name] in case.after.values() # complete, and found in its directory
        if call == "renameat" and "-j2" not in case.args:
            assert left
        shutil.rmtree(path)
        return p.returncode

    with ThreadPoolExecutor(2) as pool:
        statuses = list(pool.map(one, enumerate(part(calls, main=main))))
    # Of several processes not each comes to its nth call in every run: it is who is quick that makes it.
    assert len(statuses) > 20 and statuses.count(-signal.SIGKILL) + statuses.count(2) > len(statuses) * \
        (0.5 if "-j2" in case.args else 0.9)


def really_failing(calls):
    """Without close(2): Linux closes, whatever it then says. A pipe that strace keeps open has no end
    for who reads it."""
    return [c for c in calls if c[0] != "close"]


def test_every_call_fails_once(case):
    calls, main = case.calls()
    many = "-j2" in case.args
    early = set(calls[:main])
    if many:
        calls = really_failing(calls)

    def one(item):
        i, (call, nth) = item
        for error in ERRORS if ALL else [ERRORS[i % len(ERRORS)]]:
            # brk fails by doing nothing.
            path, p = case.injected(f"run{i}", call, nth, "retval=0" if call == "brk" else f"error={error}")
            now, _ = case.check_files(path, call in ("unlinkat",))
            what = f"{call} #{nth} {error}: {p.returncode} {p.stderr}"
            if (call, nth) in early:
                continue # the dynamic linker's: it ends as that does
            assert p.returncode in (case.status, 2), what
            lines = p.stderr.splitlines()
            if p.returncode == 2:
                assert lines and all(line.startswith("etch: ") for line in lines), what
                assert many or len(lines) == 1, what
            else:
                # A write may have been of a note to standard error.
                assert now == case.after and (p.stderr == case.good.stderr or call == "write"), what
            shutil.rmtree(path)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, enumerate(part(calls, main=main))))


def test_a_rename_that_fails_leaves_nothing(tmp_path, etch, made):
    """The loop above can see it: where taking the temporary file away fails too, it stays."""
    case = CASES["in-place"](etch, tmp_path, made)
    path, p = case.injected("one", "renameat", 1, "error=EIO")
    assert p.returncode == 2 and not case.check_files(path)[1]
    path = case.root / "two"
    case.setup(path)
    p = case.run(path, ["strace", "-o", "/dev/null", "-e", "inject=renameat,unlinkat:error=EIO"])
    assert p.returncode == 2 and len(case.check_files(path, 1)[1]) == 1
    assert p.stderr == "etch: f: cannot replace: Input/output error\n"


@pytest.mark.parametrize("fault", ["kill", "error"])
def test_check_of_an_archive(tmp_path, etch, made, fault):
    """Many members, read only: the archive stays, and no result is a wrong one."""
    need("strace")
    members = []
    for i in range(12):
        members.append(shutil.copy(made["object"], tmp_path / f"m{i}.o"))
    run(["ar", "rc", tmp_path / "a.a", *members])
    case = Case(etch, tmp_path, {"a.a": tmp_path / "a.a"}, ["check", "-j2", "--format", "json", "a.a"])
    calls, main = case.calls()
    early = set(calls[:main])
    if fault == "error":
        calls = really_failing(calls)

    def one(item):
        i, (call, nth) = item
        error = "retval=0" if call == "brk" else f"error={ERRORS[i % len(ERRORS)]}"
        path, p = case.injected(f"run{i}", call, nth, "signal=KILL" if fault == "kill" else error)
        case.check_files(path)
        if (call, nth) not in early and p.returncode >= 0:
            assert p.returncode in (0, 2), (call, nth, p.returncode, p.stderr)
            assert p.returncode == 2 or p.stdout == case.good.stdout, (call, nth, p.stderr)
        shutil.rmtree(path)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, enumerate(part(calls, 5))))


# ---- no memory --------------------------------------------------------------------

@pytest.fixture(scope="session")
def nomem(tmp_path_factory):
    out = tmp_path_factory.mktemp("nomem") / "nomem.so"
    run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", out, DATA / "interruptions" / "nomem.c"])
    return out


@pytest.mark.parametrize("name", ["in-place", "object", "new", "undo", "check"])
def test_every_allocation_fails_once(tmp_path, etch, made, nomem, name):
    """Also those of the second decoder and of libelf: an error, and never a result that is only
    worse (a bound on memory, docs/security.md, is met in the same way)."""
    case = CASES[name](etch, tmp_path, made) if name != "check" else Case(etch, tmp_path, {"f": made["object"]}, ["check", "f"])

    def once(n):
        path = tmp_path / f"run{n}"
        case.setup(path)
        return path, case.run(path, env={**os.environ, "LD_PRELOAD": str(nomem), "NOMEM": str(n)})

    def one(n):
        path, p = once(n)
        now, _ = case.check_files(path)
        what = f"allocation {n}: {p.returncode} {p.stdout} {p.stderr}"
        if p.returncode == 2:
            assert re.fullmatch("etch: .*\n", p.stderr) and all(now[k] == v for k, v in case.before.items()), what
        else:
            assert p.returncode == case.status and now == case.after and p.stdout == case.good.stdout, what
        shutil.rmtree(path)
        return p.returncode

    total = int(re.search("allocations: (\\d+)", once(0)[1].stderr)[1])
    with ThreadPoolExecutor(2) as pool:
        statuses = list(pool.map(one, range(1, total + 1, 1 if ALL else 4)))
    assert statuses.count(2) > len(statuses) / 3


@pytest.fixture(scope="session")
def sourced(tmp_path_factory):
    """Two objects with DWARF, a jump table, calls that do not return, and findings."""
    tmp = tmp_path_factory.mktemp("sourced")
    (tmp / "s.c").write_text("""
#include <etch/imv.h>
DEFINE_IMV(int, level) = 3;
void exit(int) __attribute__((noreturn));
__attribute__((noreturn)) void stop(void);
void stop(void) { exit(imv_read(level)); }
int g(int);
int f(int x) { switch (x) { case 0: return 5; case 1: g(x); return 7; case 2: return 9; case 3: stop(); case 4: return g(2);
	case 5: return 1; } return imv_read(level) * x; }
int h(void) { volatile int s = f(1); return s; }
__asm__(".globl k\\nk: push %rbx\\n test %edi, %edi\\n jz 1f\\n ret\\n1: pop %rbx\\n ret\\n.type k, @function\\n.size k, . - k");
""")
    for name, flags in (("a.o", ["-O2"]), ("b.o", ["-O1"])):
        run(["gcc", "-g", *flags, f"-I{INCLUDE}", "-c", "-o", tmp / name, tmp / "s.c"])
    return tmp


@pytest.mark.parametrize("args", ["inspect code f a.o", "inspect code --json f a.o", "inspect --json a.o", "inspect sites a.o",
                                  "inspect orc --json a.o", "check --level note a.o", "check --format sarif --level note a.o",
                                  "check -j2 --format json a.o b.o", "diff a.o b.o", "diff --format json a.o b.o",
                                  "diff --show f a.o b.o", "rewrite -v -o out a.o"])
def test_no_answer_is_less_for_want_of_memory(sourced, etch, nomem, tmp_path, args):
    """libdw would show no source lines then, json-c leave members out, or abort."""
    for name in ("a.o", "b.o"):
        shutil.copy(sourced / name, tmp_path)

    def once(n):
        (tmp_path / "out").unlink(missing_ok=True)
        return subprocess.run([etch, *args.split()], env={**os.environ, "LD_PRELOAD": str(nomem), "NOMEM": str(n)}, cwd=tmp_path,
                              text=True, capture_output=True, timeout=60)

    good = once(0)
    numbers = [int(n) for n in re.findall("allocations: (\\d+)", good.stderr)]
    said = re.sub("allocations: \\d+\n", "", good.stderr)
    assert good.returncode in (0, 1) and good.stdout and numbers
    refused = 0
    for n in range(1, max(numbers) + 1, 1 if ALL else max(numbers) // 12):
        p = once(n)
        if p.returncode == 2:
            refused += 1
            assert "out of memory" in p.stderr or "out of memory" in p.stdout, (n, p.stderr)
            assert len(p.stderr.splitlines()) <= len(said.splitlines()) + 3 and not (tmp_path / "out").exists(), (n, p.stderr)
        else:
            assert (p.returncode, p.stdout, p.stderr) == (good.returncode, good.stdout, said), n
    assert refused > 3


# ---- no space ----------------------------------------------------------------------

def mounted(script, *args):
    """Runs a shell script in a mount namespace of its own; skips where there is none to have."""
    for prefix in (["unshare", "-m"], ["unshare", "-Urm"]):
        if subprocess.run([*prefix, "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True).returncode == 0:
            return run([*prefix, "sh", "-c", script, "sh", *args])
    pytest.skip("no mount namespace may be made here")


@pytest.mark.parametrize("disk", ["size=44k", "size=60k", "size=76k", "nr_inodes=2", "ro"])
@pytest.mark.parametrize("how", ["in-place", "new"])
def test_a_small_disk(tmp_path, etch, made, disk, how):
    options = "size=1m" if disk == "ro" else disk
    args = "-o out p" if how == "new" else "p"
    script = f"""mount -t tmpfs -o {options} none "$1" && cd "$1" && cp "$2" p || exit 9
        [ {disk} = ro ] && mount -o remount,ro "$1"
        "$3" rewrite {args} 2>&1; echo "status $?"; cmp p "$2" && echo intact; ls -A"""
    out = mounted(script, tmp_path, made["true"], etch).stdout.splitlines()
    reason = "Read-only file system" if disk == "ro" else "No space left on device"
    place = "out" if how == "new" else "p"
    assert re.fullmatch(f"etch: {place}: cannot .*: {reason}", out[0])
    assert out[1:] == ["status 2", "intact", "p"]


def test_a_disk_of_just_the_size(tmp_path, etch, made):
    """The tests above fail because of the small disk alone."""
    out = mounted('mount -t tmpfs -o size=128k none "$1" && cd "$1" && cp "$2" p && "$3" rewrite p && ls -A && '
                  '"$3" rewrite --undo p && cmp p "$2"', tmp_path, made["true"], etch).stdout
    assert out == "p\n"


@pytest.mark.parametrize("limit", [0, 1, 4096, 40000])
def test_a_file_size_limit(tmp_path, etch, made, limit):
    """SIGXFSZ, by default the end of the program; here an error like any other."""
    path = shutil.copy(made["true"], tmp_path / "p")

    def limit_set():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL) # Python ignores it

    p = run([etch, "rewrite", path], ok=2, preexec_fn=limit_set)
    assert p.stderr == f"etch: {path}: cannot write: File too large\n" and os.listdir(tmp_path) == ["p"]
    assert Path(path).read_bytes() == made["true"].read_bytes()


def test_full_devices(tmp_path, etch, made):
    path = shutil.copy(made["true"], tmp_path / "p")
    p = run([etch, "rewrite", "-o", "/dev/full", path], ok=2)
    assert p.stderr == "etch: /dev/full: cannot write: No space left on device\n"
    assert Path(path).read_bytes() == made["true"].read_bytes()
    with open("/dev/full", "w") as full: # the words alone are lost
        p = run([etch, "rewrite", "-v", path], ok=2, stdout=full, stderr=subprocess.PIPE)
    assert p.stderr == "etch: standard output: cannot write: No space left on device\n"
    assert os.listdir(tmp_path) == ["p"] and b".etch.unwind" in Path(path).read_bytes()
    run([etch, "rewrite", "--undo", path])
    assert Path(path).read_bytes() == made["true"].read_bytes()


# ---- permissions --------------------------------------------------------------------

def without(*capabilities):
    """A prefix that takes capabilities of root's away: with it, root is as others are."""
    need("setpriv")
    return ["setpriv", "--bounding-set", ",".join("-" + c for c in capabilities)] if ROOT_USER else []


def test_a_directory_that_cannot_be_written(tmp_path, etch, made):
    d = tmp_path / "d"
    d.mkdir()
    path = shutil.copy(made["true"], d / "p")
    os.chmod(path, 0o777)
    d.chmod(0o555)
    prefix = without("dac_override", "dac_read_search", "fowner")
    try:
        for args, names in ((["p"], "p"), (["-o", "out", "p"], "out"), (["--sidecar", ".", "p"], "\\./[0-9a-f]+")):
            p = run([*prefix, etch, "rewrite", *args], ok=2, cwd=d)
            assert re.fullmatch(f"etch: {names}: cannot create a temporary file beside it: Permission denied\n", p.stderr)
            assert os.listdir(d) == ["p"] and Path(path).read_bytes() == made["true"].read_bytes()
        d.chmod(0o755)
        shutil.copy(path, d / "q")
        d.chmod(0o555)
        p = run([*prefix, etch, "rewrite", "-j2", "p", "q"], ok=2, cwd=d)
        assert p.stderr.count("Permission denied") == 2
    finally:
        d.chmod(0o755)


def acl(*entries):
    """The value of system.posix_acl_*: version 2, (tag, permissions, id) each."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)


NOBODY_ELSE = 0xffffffff
# u::rwx, u:1234:rwx, g::---, m::rwx, o::---. The mode says 0770; without the list, that would
# let the group in.
LIST = acl((1, 7, NOBODY_ELSE), (2, 7, 1234), (4, 0, NOBODY_ELSE), (16, 7, NOBODY_ELSE), (32, 0, NOBODY_ELSE))


def acl_set(path, name, value=LIST):
    try:
        os.setxattr(path, "system.posix_acl_" + name, value)
    except OSError:
        pytest.skip("the file system has no access control lists")


@pytest.mark.parametrize("way", ["nameless", "named"])
def test_what_a_file_is_stays(tmp_path, etch, made, way):
    """Mode with set-id bits, owner, group, attributes, list; through a symbolic link, too. With
    and without O_TMPFILE."""
    d, path, link = tmp_path / "d", tmp_path / "d" / "p", tmp_path / "link"
    d.mkdir()
    shutil.copy(made["true"], path)
    link.symlink_to("d/p")
    if ROOT_USER:
        os.chown(path, 1234, 2345)
    acl_set(path, "access")
    os.setxattr(path, "user.note", b"kept")
    path.chmod(0o6770)
    before, other = path.stat(), os.link(path, d / "q")
    # EISDIR and EOPNOTSUPP are what file systems without nameless files say. The first call opens the directory.
    prefix = ["strace", "-o", "/dev/null", "-P", str(d), "-P", str(d) + "/", "-e", "inject=openat:error=EOPNOTSUPP:when=2"]
    p = run([*(prefix if way == "named" else []), etch, "rewrite", "-v", link])
    after = path.stat()
    assert link.is_symlink() and os.readlink(link) == "d/p" and sorted(os.listdir(d)) == ["p", "q"]
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.getxattr(path, "user.note") == b"kept" and os.getxattr(path, "system.posix_acl_access") == LIST
    assert after.st_ino != before.st_ino and after.st_nlink == 1
    # The other name leads to the old file, and that is said.
    assert (d / "q").read_bytes() == made["true"].read_bytes()
    assert f"{link}: 1 more hard links still lead to the old contents\n" in p.stdout


def test_set_id_goes_with_the_owner(tmp_path, etch, made):
    if not ROOT_USER:
        pytest.skip("only root can give a file away")
    path = shutil.copy(made["true"], tmp_path / "p")
    os.chown(path, 1234, 2345)
    os.chmod(path, 0o6755)
    run([*without("chown"), etch, "rewrite", path])
    now = os.stat(path)
    assert (now.st_uid, stat.S_IMODE(now.st_mode)) == (0, 0o755)


def test_no_list_but_the_files_own(tmp_path, etch, made):
    """A directory's default list goes to new files, and the one that takes an old one's place is
    none: it would let somebody in whom the old one did not."""
    acl_set(tmp_path, "default")
    path = tmp_path / "p"
    shutil.copyfile(made["true"], path)
    os.removexattr(path, "system.posix_acl_access")
    path.chmod(0o750)
    run([etch, "rewrite", path])
    assert os.listxattr(path) == [] and stat.S_IMODE(path.stat().st_mode) == 0o750


def test_a_list_that_is_lost_is_an_error(tmp_path, etch, made):
    need("strace")
    path = tmp_path / "p"
    shutil.copy(made["true"], path)
    acl_set(path, "access")
    for fault in ("fsetxattr:error=ENOSPC", "llistxattr:error=EIO", "lgetxattr:error=EIO"):
        p = run(["strace", "-o", "/dev/null", "-e", "inject=" + fault, etch, "rewrite", path], ok=2)
        assert p.stderr.startswith(f"etch: {path}: cannot set its permissions: ")
        assert path.read_bytes() == made["true"].read_bytes() and os.listdir(tmp_path) == ["p"]
        assert os.getxattr(path, "system.posix_acl_access") == LIST


# ---- a file that changes ---------------------------------------------------------------

@pytest.fixture(scope="session")
def meddle(tmp_path_factory):
    out = tmp_path_factory.mktemp("meddle") / "meddle.so"
    run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-D_GNU_SOURCE", "-o", out, DATA / "interruptions" / "meddle.c", "-ldl"])
    return out


@pytest.mark.parametrize("args", [["rewrite"], ["rewrite", "--undo"], ["rewrite", "-o", "out"]], ids=" ".join)
@pytest.mark.parametrize("when", ["read", "fsync"])
@pytest.mark.parametrize("action", ["truncate", "append", "replace", "remove"])
def test_changed_meanwhile(tmp_path, etch, made, meddle, args, when, action):
    """By somebody else, while etch reads it (read) and when it has the result (fsync): what they
    made of it is what there is in the end. With -o a later change does no harm."""
    path, other = tmp_path / "p", tmp_path / "other"
    shutil.copy(made["done"], path)
    shutil.copy(made["true"], other)
    if args == ["rewrite"]:
        run([etch, "rewrite", "--undo", path])
    original = path.read_bytes()
    env = {"LD_PRELOAD": str(meddle), "MEDDLE": f"{when}:1:{action}", "MEDDLE_FILE": str(path), "MEDDLE_WITH": str(other)}
    # A replaced or removed file is whole for who has it open: nothing is wrong with that at first.
    harmless = "-o" in args and (when == "fsync" or action in ("replace", "remove"))
    p = run([etch, *args, path], ok=0 if harmless else 2, cwd=tmp_path, env={**os.environ, **env})
    want = {"truncate": original[:len(original) // 2], "append": original + b"more",
            "replace": made["true"].read_bytes(), "remove": None}[action]
    assert (path.read_bytes() if path.exists() else None) == want
    assert set(os.listdir(tmp_path)) - {"p", "other"} == ({"out"} if harmless else set())
    if not harmless:
        assert p.stderr in (f"etch: {path}: changed while etch read it\n",
                            f"etch: {path}: has changed since etch read it, and is left alone\n")


@pytest.mark.parametrize("action", ["truncate", "append", "replace"])
def test_an_archive_changed_meanwhile(tmp_path, etch, made, meddle, action):
    """Truncated after its members have been found: an error, no signal (nothing of it is mapped)."""
    path, other = tmp_path / "a.a", tmp_path / "other"
    run(["ar", "rc", path, made["object"], made["true"]])
    shutil.copy(made["true"], other)
    trace = run(["strace", "-fy", "-o", "/dev/stdout", "-e", "trace=pread64", etch, "check", path]).stdout
    total = len(re.findall(r"pread64\(\d+<[^>]*/a\.a>", trace))
    assert total >= 6
    for nth in range(1, total + 1):
        now = shutil.copy(path, tmp_path / "now.a")
        env = {"LD_PRELOAD": str(meddle), "MEDDLE": f"pread:{nth}:{action}", "MEDDLE_FILE": str(now), "MEDDLE_WITH": str(other)}
        p = run([etch, "check", now], ok=(0, 2), env={**os.environ, **env})
        assert p.returncode == 2 or action != "truncate", nth
        shutil.copy(made["true"], other)


# ---- signals ------------------------------------------------------------------------------

@pytest.fixture
def tree(tmp_path, made):
    d = tmp_path / "d"
    d.mkdir()
    for i in range(24):
        shutil.copy(made["true"], d / f"f{i}")
    return d


@pytest.fixture
def tokens(tmp_path):
    """A jobserver with three tokens, by its descriptor, and the environment that names it."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    fd = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    os.write(fd, b"abc")
    yield fd, {**os.environ, "MAKEFLAGS": f" -j4 --jobserver-auth=fifo:{fifo}"}
    os.close(fd)


def process(pid):
    """Its state and its parent's number."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return fields[0], int(fields[1])


@pytest.mark.parametrize("sig", ["TERM", "INT", "HUP", "KILL"])
def test_a_signal_while_workers_write(tmp_path, etch, tree, made, tokens, meddle, sig):
    """The parent is ended while each worker is between giving its file a name and putting it in
    place: the workers take those away, and make has its tokens back."""
    fd, env = tokens
    env.update(LD_PRELOAD=str(meddle), MEDDLE="linkat:2:stop", MEDDLE_FILE="")
    p = subprocess.Popen([etch, "rewrite", "-j4", "."], cwd=tree, env=env, start_new_session=True,
                         preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))  # not as nohup has it
    deadline = time.monotonic() + 60
    while True:
        workers = [w for w in workers_of(tree) if w != p.pid]
        if len(workers) == 4 and all(process(w) == ("T", p.pid) for w in workers):
            break
        assert p.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    assert sum(TEMPORARY.fullmatch(n) is not None for n in os.listdir(tree)) == 4
    p.send_signal(getattr(signal, "SIG" + sig))
    assert p.wait(timeout=30) == -getattr(signal, "SIG" + sig)
    if sig == "KILL": # nobody has woken them
        for w in workers:
            os.kill(w, signal.SIGCONT)
        while any(w in workers for w in workers_of(tree)) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert workers_of(tree) == []
    now, plain = contents(tree), made["true"].read_bytes()
    assert set(now) == {f"f{i}" for i in range(24)}, "a temporary file was left"
    assert sum(v != plain for v in now.values()) == 4
    if sig != "KILL":
        assert sorted(os.read(fd, 9)) == sorted(b"abc")


def test_memory_ends_while_workers_write(tmp_path, etch, tree, made, nomem, tokens):
    """Each allocation of the parent fails in turn: it ends, and as with a signal no worker and no temporary file is
    left, and make has its tokens back."""
    fd, env = tokens
    for name in sorted(os.listdir(tree))[8:]:
        os.unlink(tree / name)
    names, plain = sorted(os.listdir(tree)), made["true"].read_bytes()
    env.update(LD_PRELOAD=str(nomem))

    def once(n):
        for name in names:
            shutil.copy(made["true"], tree / name)
        return subprocess.run([etch, "rewrite", "-j4", "."], cwd=tree, env={**env, "NOMEM": str(n)}, capture_output=True,
                              text=True, timeout=120)

    total = int(re.search("allocations: (\\d+)", once(0).stderr)[1])
    done, midway = contents(tree), 0
    for n in range(1, total + 1, 1 if ALL else max(total // 200, 1)):
        p = once(n)
        assert p.returncode in (0, 2), (n, p.stderr)
        now = contents(tree)
        assert set(now) == set(names) and all(now[k] in (plain, done[k]) for k in now), n
        assert workers_of(tree) == [] and sorted(os.read(fd, 9)) == sorted(b"abc"), n
        os.write(fd, b"abc")
        if p.returncode == 2 and p.stderr.endswith("etch: out of memory\n"):
            midway += any(now[k] != plain for k in now)
        else:
            assert p.returncode == 0 or re.search("out of memory|Cannot allocate memory", p.stderr), (n, p.stderr)
    assert midway, total


def test_who_waits_holds_no_token(etch, tree, tokens, meddle):
    """Five files and four workers: one of them is at a second file, and make has the other tokens back."""
    fd, env = tokens
    for name in sorted(os.listdir(tree))[5:]:
        os.unlink(tree / name)
    env.update(LD_PRELOAD=str(meddle), MEDDLE="linkat:2:stop", MEDDLE_FILE="")
    p = subprocess.Popen([etch, "rewrite", "-j4", "."], cwd=tree, env=env)
    deadline = time.monotonic() + 60
    while True:
        stopped = [w for w in workers_of(tree) if process(w)[0] == "T"]
        back = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]
        if stopped and back >= 2:
            break
        assert p.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(stopped[0], signal.SIGCONT)
    assert p.wait(timeout=60) == 0
    assert sorted(os.read(fd, 9)) == sorted(b"abc")


def test_a_closed_pipe_gives_tokens_back(etch, tree, tokens):
    """etch rewrite -v | head -1"""
    fd, env = tokens
    reader, writer = os.pipe()
    p = subprocess.Popen(["stdbuf", "-oL", etch, "rewrite", "-v", "-j4", tree], stdout=writer, env=env)
    os.close(writer)
    os.close(reader)
    assert p.wait(timeout=60) == -signal.SIGPIPE
    assert sorted(os.read(fd, 9)) == sorted(b"abc")


def test_ignored_signals_stay_ignored(etch, tree, meddle):
    """nohup etch rewrite DIR &"""
    env = {**os.environ, "LD_PRELOAD": str(meddle), "MEDDLE": "linkat:2:stop", "MEDDLE_FILE": ""}
    p = subprocess.Popen([etch, "rewrite", "-j2", "."], cwd=tree, env=env,
                         preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    while len(stopped := [w for w in workers_of(tree) if process(w)[0] == "T"]) < 2:
        assert p.poll() is None
        time.sleep(0.01)
    p.send_signal(signal.SIGHUP)
    time.sleep(0.05)
    for w in stopped:
        os.kill(w, signal.SIGCONT)
    assert p.wait(timeout=60) == 0
    assert all(b".etch.unwind" in v for v in contents(tree).values())


# ---- names --------------------------------------------------------------------------------

def test_names_do_not_speak_to_the_terminal(tmp_path, etch, made):
    name = tmp_path / "a\x1b]0;owned\x07\nb"
    shutil.copy(made["true"], name)
    os.truncate(name, 3000)
    shown = str(tmp_path) + "/a\\x1b]0;owned\\x07\\x0ab"
    for args in (["rewrite"], ["rewrite", "-j2", tmp_path / "none"], ["rewrite", "--undo"], ["check"], ["inspect", "summary"],
                 ["diff", made["true"]], ["rewrite", "-o", tmp_path / "d\x1bir" / "x"]):
        p = run([etch, *args, name], ok=2)
        assert shown in p.stderr and "\x1b" not in p.stderr, p.stderr
    for args in (["rewrite", "--only", "a\x1b"], ["stat", "-r", "a\x1b"], ["stat", "a\x1b"], ["rewrite", "-ja\x1b", "x"], ["a\x1b"]):
        p = run([etch, *args], ok=2)
        assert "a\\x1b" in p.stderr and "\x1b" not in p.stderr, p.stderr
