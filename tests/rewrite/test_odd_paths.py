# SPDX-License-Identifier: MIT
"""Files by odd ways: one file under several names, output to what is no file, links that somebody puts
there meanwhile, few descriptors, many names."""
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import DATA, run


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    out = tmp_path_factory.mktemp("program") / "program"
    run(["gcc", "-O2", "-x", "c", "-o", out, "-"], input="int main(void) { return 3; }\n")
    return out


@pytest.fixture(scope="module")
def rewritten(etch, program):
    out = program.with_name("rewritten")
    run([etch, "rewrite", "-o", out, program])
    assert out.read_bytes() != program.read_bytes()
    return out


@pytest.fixture(scope="module")
def meddle(tmp_path_factory):
    out = tmp_path_factory.mktemp("meddle") / "meddle.so"
    run(["gcc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-o", out, DATA / "interruptions" / "meddle.c", "-ldl"])
    return out


def test_one_file_under_several_names(etch, tmp_path, program, rewritten):
    """It is rewritten once, whoever comes first."""
    f, linked = shutil.copy(program, tmp_path / "f"), tmp_path / "link"
    linked.symlink_to("f")
    for _ in range(4):
        p = run([etch, "rewrite", "-v", "-j2", "f", f, "./f", linked, *["f"] * 2000], cwd=tmp_path)
        assert not p.stderr and p.stdout.count("unwind rows") == 1
        assert f.read_bytes() == rewritten.read_bytes()
        run([etch, "rewrite", "--undo", "-j2", "f", linked, "../" + tmp_path.name + "/f"], cwd=tmp_path)
        assert f.read_bytes() == program.read_bytes()


def names_of(path):
    """Whatever is there, by inode."""
    by = {}
    for p in path.rglob("*"):
        if p.is_file() and not p.is_symlink():
            by.setdefault(p.stat().st_ino, set()).add(str(p.relative_to(path)))
    return sorted(map(sorted, by.values()))


@pytest.mark.parametrize("way", ["named", "directory"])
def test_hard_links_of_one_call_stay_one_file(etch, tmp_path, program, rewritten, way):
    """It is rewritten once, and all the names that were given lead to the result; one that was not leads to what was."""
    d = tmp_path / "d"
    (d / "sub").mkdir(parents=True)
    shutil.copy(program, d / "a")
    os.link(d / "a", d / "b")
    os.link(d / "a", d / "sub" / "c")
    (d / "link").symlink_to("sub/c")
    os.link(d / "a", tmp_path / "outside")
    files = [d] if way == "directory" else [d / "link", d / "b", d / "a", d / "b"]
    names = [["a", "b", "sub/c"]]
    for args, want in ((["-j2"], rewritten), (["-j2"], rewritten), (["--undo"], program), ([], rewritten)):
        p = run([etch, "rewrite", "-v", *args, *files])
        assert not p.stderr and names_of(d) == names and (d / "a").read_bytes() == want.read_bytes()
        assert p.stdout.count("unwind rows") + p.stdout.count(": restored, ") == 1
    assert (d / "link").is_symlink() and (tmp_path / "outside").read_bytes() == program.read_bytes()
    assert not (tmp_path / "outside").samefile(d / "a") and len(list(d.rglob("*"))) == 5


def test_a_hard_link_that_cannot_be_one_is_a_file_of_its_own(etch, tmp_path, program, rewritten):
    """As where it is in another mount of the same file system (EXDEV), or links of others are protected (EPERM)."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    a, b = shutil.copy(program, tmp_path / "a"), tmp_path / "b"
    os.link(a, b)
    run(["strace", "-o", "/dev/null", "-e", "inject=linkat:error=EXDEV:when=2", etch, "rewrite", a, b])
    assert a.read_bytes() == b.read_bytes() == rewritten.read_bytes() and sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_hard_link_that_others_have_changed_is_left_to_them(etch, tmp_path, program, meddle):
    a, b, other = shutil.copy(program, tmp_path / "a"), tmp_path / "b", tmp_path / "other"
    os.link(a, b)
    other.write_text("new")
    env = {**os.environ, "LD_PRELOAD": str(meddle), "MEDDLE": "fsync:1:replace", "MEDDLE_FILE": str(b), "MEDDLE_WITH": str(other)}
    p = run([etch, "rewrite", a, b], env=env, ok=2)
    assert p.stderr == f"etch: {b}: has changed since etch read it, and is left alone\n"
    assert b.read_text() == "new" and a.read_bytes() == program.read_bytes() and sorted(os.listdir(tmp_path)) == ["a", "b"]


CAPABILITY = bytes.fromhex("0100000200040000000000000000000000000000")  # cap_net_bind_service+ep, version 2


@pytest.mark.parametrize("who", ["root", "other"])
@pytest.mark.parametrize("command", ["rewrite", "undo", "check"])
def test_output_gets_no_privileges_of_what_was_there(etch, tmp_path, program, rewritten, command, who):
    """Set-id bits and capabilities were given to other contents. All else stays, as cp has it. In place they stay
    too: test_what_a_file_is_stays."""
    root, d = os.getuid() == 0, tmp_path / "d"
    if who == "root" and not root:
        pytest.skip("not root")
    d.mkdir()
    tool, f, out = shutil.copy(etch, d / "etch"), shutil.copy(rewritten if command == "undo" else program, d / "f"), d / "out"
    out.write_text("old")
    kept = os.stat(out)
    as_user = {}
    if root:
        owner = 1234 if who == "root" else 65534
        os.chown(out, owner, owner)
        kept = os.stat(out)
        for p in (tmp_path, *tmp_path.parents):
            if p != Path("/") and not p.stat().st_mode & 1:
                p.chmod(p.stat().st_mode | 0o011)
        d.chmod(0o777)
        as_user = {} if who == "root" else {"user": 65534, "group": 65534, "extra_groups": []}
    out.chmod(0o6751)
    os.setxattr(out, "user.note", b"kept")
    if root:
        os.setxattr(out, "security.capability", CAPABILITY)
    args = {"rewrite": ["rewrite"], "undo": ["rewrite", "--undo"], "check": ["check"]}[command]
    run([tool, *args, "-o", out, f], ok=(0, 1), **as_user)
    now = out.stat()
    assert (now.st_mode & 0o7777, now.st_uid, now.st_gid) == (0o751, kept.st_uid, kept.st_gid)
    assert os.listxattr(out) == ["user.note"] and out.read_bytes() != b"old"


@pytest.mark.skipif(os.getuid() != 0, reason="sets a capability")
def test_privileges_stay_in_place(etch, tmp_path, program):
    path = Path(shutil.copy(program, tmp_path / "f"))
    os.chown(path, 1234, 1234)
    path.chmod(0o6755)
    os.setxattr(path, "security.capability", CAPABILITY)
    for args in ([], ["--undo"]):
        run([etch, "rewrite", *args, path])
        assert (path.stat().st_mode & 0o7777, path.stat().st_uid, os.getxattr(path, "security.capability")) == (0o6755, 1234, CAPABILITY)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_waiting_for_a_reader_can_be_ended(etch, tmp_path, program, sig):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    p = subprocess.Popen([etch, "rewrite", "-o", pipe, program], stderr=subprocess.PIPE)
    wchan = Path(f"/proc/{p.pid}/syscall")
    deadline = time.monotonic() + 30
    while not wchan.read_text().startswith("257 ") and time.monotonic() < deadline:  # openat: it waits
        time.sleep(0.01)
    p.send_signal(sig)
    try:
        assert p.wait(30) == -sig
    finally:
        p.kill()


def test_a_pipe_gets_all_of_it(etch, tmp_path, program, rewritten):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    p = subprocess.Popen([etch, "rewrite", "-o", pipe, program])
    assert pipe.read_bytes() == rewritten.read_bytes() and p.wait(30) == 0


def test_another_file_that_looks_the_same(etch, tmp_path, program, meddle):
    """As long, as old, under the same name: not the one that was read, so it is not replaced, and
    what it is (set-id bits!) is not taken over."""
    f, other = shutil.copy2(program, tmp_path / "f"), tmp_path / "other"
    other.write_bytes(bytes(program.stat().st_size))
    other.chmod(0o4755)
    for path in (f, other):
        os.utime(path, ns=(10**18, 10**18))
    env = {**os.environ, "LD_PRELOAD": str(meddle), "MEDDLE": "read:1:replace", "MEDDLE_FILE": str(f), "MEDDLE_WITH": str(other)}
    for _ in range(2):
        p = run([etch, "rewrite", f], env=env, ok=(0, 2))
        if not other.exists():
            break
    else:
        pytest.fail("nothing was replaced")
    assert p.returncode == 2
    assert p.stderr == f"etch: {f}: has changed since etch read it, and is left alone\n"
    assert not any(f.read_bytes()) and os.listdir(tmp_path) == ["f"]


def test_a_link_to_the_same_file_put_in_its_place(etch, tmp_path, program, meddle):
    """The input moves away and a link to it comes: what the link leads to is not followed blindly."""
    f, moved, link = shutil.copy2(program, tmp_path / "f"), tmp_path / "moved", tmp_path / "l"
    os.link(f, moved)
    link.symlink_to("moved")
    env = {**os.environ, "LD_PRELOAD": str(meddle), "MEDDLE": "fsync:1:replace", "MEDDLE_FILE": str(f), "MEDDLE_WITH": str(link)}
    p = run([etch, "rewrite", f], env=env, ok=2)
    assert "has changed" in p.stderr
    assert f.is_symlink() and moved.read_bytes() == program.read_bytes() and sorted(os.listdir(tmp_path)) == ["f", "moved"]


@pytest.mark.parametrize("most", [4, 5, 6, 8])
def test_few_descriptors(etch, tmp_path, program, rewritten, most):
    names = [shutil.copy(program, tmp_path / f"p{i}") for i in range(5)]
    before = sorted(os.listdir(tmp_path))

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    want = run([etch, "check", "--level", "note", *names]).stdout
    assert run([etch, "check", "--level", "note", "-j3", *names], preexec_fn=few).stdout == want
    # A result needs two at a time: the directory that it is put into, and the temporary file.
    p = run([etch, "rewrite", "-j3", *names], preexec_fn=few, ok=0 if most > 6 else (0, 2))
    done = [n for n in names if n.read_bytes() == rewritten.read_bytes()]
    left = [n for n in names if n.read_bytes() == program.read_bytes()]
    assert len(done) + len(left) == len(names) and sorted(os.listdir(tmp_path)) == before
    assert p.stderr.splitlines() == [f"etch: {n}: cannot create a temporary file beside it: Too many open files" for n in left]
    want = run([etch, "inspect", "code", "main", program]).stdout
    assert run([etch, "inspect", "code", "main", program], preexec_fn=few).stdout == want


@pytest.mark.parametrize("command", ["rewrite", "check", "inspect"])
def test_many_names(etch, tmp_path, command):
    """A line each, in order."""
    names = [f"no-such-{i}" for i in range(3000 if command == "check" else 10000)]
    p = run([etch, command, *names], cwd=tmp_path, ok=2)
    assert p.stderr.splitlines() == [f"etch: {n}: No such file or directory" for n in names]


def test_a_directory_that_holds_itself(etch, tmp_path, program, rewritten):
    (tmp_path / "sub").mkdir()
    f = shutil.copy(program, tmp_path / "sub" / "f")
    (tmp_path / "sub" / "up").symlink_to("..")
    (tmp_path / "sub" / "loop").symlink_to("loop")
    run([etch, "rewrite", "-j2", tmp_path])
    assert f.read_bytes() == rewritten.read_bytes()
    p = run([etch, "rewrite", tmp_path / "sub" / "loop"], ok=2)
    assert p.stderr == f"etch: {tmp_path}/sub/loop: Too many levels of symbolic links\n"


def test_a_compilation_database_that_names_itself(etch, tmp_path, program):
    """It was read again and again, until the stack was full."""
    base = tmp_path / "compile_commands.json"
    shutil.copy(program, tmp_path / "a.o")
    base.write_text(json.dumps([{"directory": str(tmp_path), "file": "a.c", "output": name}
                                for name in ("a.o", base.name, str(base), "other.json")]))
    p = run([etch, "check", base], ok=2)
    why = "is not an object, though a compilation database says so"
    assert p.stderr.splitlines() == [f"etch: {base}: {why}", f"etch: {tmp_path}/other.json: {why}"]


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full", "/dev/tty", "/proc/self/mem", "/proc/kcore", "/dev/loop-control"])
def test_what_is_no_program(etch, tmp_path, path):
    """No waiting, no reading for ever."""
    if not os.path.exists(path):
        pytest.skip(f"no {path} here")
    for command in (["rewrite", "-o", tmp_path / "out"], ["check"], ["inspect"]):
        p = run([etch, *command, path], ok=2, timeout=60)
        assert p.stderr.startswith(f"etch: {path}: ") and p.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_itself(etch, tmp_path):
    """/proc/self/exe: the tool, by a link."""
    out = tmp_path / "etch"
    run([etch, "rewrite", "-o", out, "/proc/self/exe"])
    run([etch, "rewrite", "-o", tmp_path / "again", etch])
    assert out.read_bytes() == (tmp_path / "again").read_bytes()
    assert run([out, "--version"]).stdout == run([etch, "--version"]).stdout


def test_a_script(etch, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexit 0\n")
    assert run([etch, "rewrite", script], ok=2).stderr == f"etch: {script}: is not an ELF file\n"
    assert script.read_text() == "#!/bin/sh\nexit 0\n"
