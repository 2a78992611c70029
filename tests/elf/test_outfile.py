# SPDX-License-Identifier: MIT
"""tool/output/outfile.c: a whole file or nothing, with its mode, owner and attributes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import MEMORY, ROOT, run, tool_objects

NOBODY = 65534


def left(directory):
    return sorted(p.name for p in directory.iterdir())


@pytest.fixture(scope="session")
def tool(tmp_path_factory, build_asan):
    """The module with a small driver, under ASan and UBSan."""
    out = tmp_path_factory.mktemp("outfile") / "outfile_tool"
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{ROOT}/tool",
         "-Wl,--wrap=write,--wrap=openat,--wrap=renameat,--wrap=fsync", ROOT / "tests/data/elf/outfile_tool.c",
         *tool_objects(build_asan, "output/outfile.c", *MEMORY), "-o", out])
    return out


@pytest.fixture(params=["nameless", "named"])
def env(request):
    """Both kinds of temporary file."""
    return {**os.environ, **({"OUTFILE_NO_TMPFILE": "1"} if request.param == "named" else {})}


def test_write_new_and_again(tool, tmp_path, env):
    out = tmp_path / "out"
    old = os.umask(0o027)
    try:
        run([tool, out, 3000000], env=env)
    finally:
        os.umask(old)
    assert out.stat().st_mode & 0o7777 == 0o640
    assert out.read_bytes() == b"x" * 3000000
    os.chmod(out, 0o4755)
    if os.getuid() == 0:
        os.chown(out, NOBODY, NOBODY)
        os.chmod(out, 0o4755)
    os.setxattr(out, "user.note", b"kept")
    before = out.stat()
    run([tool, out, 5], env=env)
    after = out.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode & ~0o6000, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino and out.read_bytes() == b"xxxxx"
    assert os.getxattr(out, "user.note") == b"kept"
    assert left(tmp_path) == ["out"]


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("target", ["old", "new", "dangling"])
def test_memory_ends_in_the_middle(tool, tmp_path, env, target, at):
    """The process ends, and leaves what was there: no temporary file, and no empty one where a link leads."""
    out = tmp_path / "out"
    if target == "old":
        out.write_text("old")
    elif target == "dangling":
        out.symlink_to("none")
    before = left(tmp_path)
    p = run([tool, out, 3000000], ok=2, env={**env, "OUTFILE_HOOK": f"memory@{at}"})
    assert p.stderr == "etch: out of memory\n" and left(tmp_path) == before
    assert target != "old" or out.read_text() == "old"


def test_write_takes_mode_of_model(tool, tmp_path, env):
    model = tmp_path / "model"
    model.write_text("")
    model.chmod(0o4751)
    run([tool, tmp_path / "out", 5, model], env=env)
    assert (tmp_path / "out").stat().st_mode & 0o7777 == 0o751 & ~0o022


@pytest.mark.skipif(os.getuid() != 0, reason="gives a file to another user")
def test_write_drops_setuid_with_owner(tool, tmp_path, env):
    """Who may replace the file but not give it away must not make it their set-id program."""
    box = tmp_path / "box"
    box.mkdir()
    box.chmod(0o777)
    for p in (tmp_path, *tmp_path.parents):
        if p != Path("/") and not p.stat().st_mode & 1:
            p.chmod(p.stat().st_mode | 0o011)
    out = box / "out"
    out.write_text("old")
    out.chmod(0o6755)
    mine = shutil.copy(tool, box / "tool")
    run([mine, out, 5], env=env, user=NOBODY, group=NOBODY, extra_groups=[])
    assert out.stat().st_mode & 0o7777 == 0o755 and out.stat().st_uid == NOBODY


def test_write_through_symlinks(tool, tmp_path, env):
    sub = tmp_path / "sub"
    sub.mkdir()
    (sub / "real").write_text("old")
    (sub / "middle").symlink_to("real")
    link = tmp_path / "link"
    link.symlink_to("sub/middle")
    run([tool, link, 5], env=env)
    assert link.is_symlink() and (sub / "middle").is_symlink()
    assert (sub / "real").read_text() == "xxxxx"
    # One that leads nowhere yet, relative to the working directory.
    (tmp_path / "new").symlink_to("sub/made")
    run([tool, "new", 5], env=env, cwd=tmp_path)
    assert (sub / "made").read_text() == "xxxxx"
    (tmp_path / "loop").symlink_to("loop")
    assert "Too many levels" in run([tool, tmp_path / "loop", 5], ok=1, env=env).stderr


# ---- whose links are followed ------------------------------------------------------------

EVIL, STICKY = 1234, 0o1777


@pytest.mark.skipif(os.getuid() != 0, reason="makes files of other users")
@pytest.mark.parametrize("to", ["file", "nothing", "link", "pipe", "device"])
@pytest.mark.parametrize("owner, directory, mode, followed", [
    (EVIL, 0, 0o1777, False), (EVIL, 0, 0o777, True), (EVIL, 0, 0o1755, True),
    (NOBODY, 0, 0o1777, True), (0, 0, 0o1777, True), (EVIL, EVIL, 0o1777, True), (0, EVIL, 0o1777, False)])
def test_another_users_link_in_a_sticky_directory(tool, tmp_path, env, to, owner, directory, mode, followed):
    """fs.protected_symlinks, whatever the system has set: the writer is NOBODY, the link `owner`'s."""
    for p in (tmp_path, *tmp_path.parents):
        if p != Path("/") and not p.stat().st_mode & 1:
            p.chmod(p.stat().st_mode | 0o011)
    own = tmp_path / "own"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    target = own / "target"
    if to == "file":
        target.write_text("old")
        os.chown(target, NOBODY, NOBODY)
    elif to == "link":
        (own / "real").write_text("old")
        os.chown(own / "real", NOBODY, NOBODY)
        target.symlink_to("real")
    elif to == "pipe":
        os.mkfifo(target)
        os.chown(target, NOBODY, NOBODY)
    elif to == "device":
        target = Path("/dev/null")
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    link = sticky / "out"
    link.symlink_to(target)
    os.lchown(link, owner, owner)
    os.chown(sticky, directory, directory)
    sticky.chmod(mode)
    mine = shutil.copy(tool, tmp_path / "tool")
    before = left(own)
    reader = os.open(target, os.O_RDONLY | os.O_NONBLOCK) if to == "pipe" else -1
    p = run([mine, link, 5], env=env, user=NOBODY, group=NOBODY, extra_groups=[], ok=(0, 1))
    got = os.read(reader, 9).decode() if to == "pipe" else target.read_text() if to != "device" and target.exists() else ""
    if reader >= 0:
        os.close(reader)
    assert link.is_symlink() and left(sticky) == ["out"]
    if followed:
        assert p.returncode == 0 and (to == "device" or got == "xxxxx") and left(own) == sorted({*before} | ({"target"} if to != "device" else set()))
    else:
        assert p.returncode == 1 and "another user's symbolic link" in p.stderr and p.stderr.count("\n") == 1
        assert got == ("old" if to in ("file", "link") else "") and left(own) == before


@pytest.mark.skipif(os.getuid() != 0, reason="makes files of other users")
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_another_users_file_in_a_sticky_directory(tool, tmp_path, env, kind):
    """fs.protected_regular and fs.protected_fifos: root does not make its output another's file, nor write to
    another's pipe."""
    tmp_path.chmod(STICKY)
    out = tmp_path / "out"
    out.write_text("old") if kind == "file" else os.mkfifo(out)
    os.chown(out, EVIL, EVIL)
    p = run([tool, out, 5], env=env, ok=1, timeout=20)
    assert "another user's file in a sticky directory" in p.stderr
    assert out.lstat().st_uid == EVIL and left(tmp_path) == ["out"] and (kind == "pipe" or out.read_text() == "old")
    os.chown(out, 0, 0)
    if kind == "file":
        run([tool, out, 5], env=env)
        assert out.read_text() == "xxxxx"


def test_a_link_to_nothing_leaves_nothing_where_the_write_fails(tool, tmp_path, env):
    (tmp_path / "out").symlink_to("new")
    run([tool, tmp_path / "out", 5], env={**env, "OUTFILE_HOOK": "enospc"}, ok=1)
    assert left(tmp_path) == ["out"]
    run([tool, tmp_path / "out", 5], env=env)
    assert left(tmp_path) == ["new", "out"] and (tmp_path / "new").stat().st_mode & 0o777 == 0o644


def test_what_has_lost_its_name_is_not_written(tool, tmp_path, env):
    """/dev/stdout of a file that was removed, and of one that is another's by now."""
    for again in (False, True):
        f = tmp_path / "out"
        with open(f, "w", encoding="utf-8") as out:
            f.unlink()
            if again:
                Path(f"{f} (deleted)").write_text("not this")
            p = run([tool, "/dev/stdout", 5], env=env, ok=1, stdout=out, stderr=subprocess.PIPE)
        assert "/dev/stdout: cannot follow" in p.stderr and os.path.islink("/dev/stdout")
    assert Path(f"{f} (deleted)").read_text() == "not this"


def test_a_directory_that_is_moved_away_meanwhile(tool, tmp_path, env):
    """Its name leads elsewhere by the time of the rename: the file is written where the path led at first."""
    (tmp_path / "d").mkdir()
    (tmp_path / "else").mkdir()
    (tmp_path / "else/out").write_text("not this")
    run([tool, tmp_path / "d/out", 5], env={**env, "OUTFILE_HOOK": "move", "OUTFILE_MOVE": str(tmp_path)})
    assert (tmp_path / "else/out").read_text() == "not this" and (tmp_path / "moved/out").read_text() == "xxxxx"


def test_write_hard_link(tool, tmp_path, env):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("old")
    os.link(a, b)
    run([tool, a, 5], env=env)
    assert (a.read_text(), b.read_text()) == ("xxxxx", "old")


def test_write_to_what_is_no_file(tool, tmp_path):
    run([tool, "/dev/null", 5])
    assert run([tool, "/dev/stdout", 5]).stdout == "xxxxx"
    assert "No space left" in run([tool, "/dev/full", 5], ok=1).stderr
    assert os.path.exists("/dev/null") and not os.path.isfile("/dev/null")
    p = run([tool, tmp_path, 5], ok=1)
    assert p.stderr == f"{tmp_path}: cannot write: Is a directory\n"
    p = run([tool, tmp_path / "no" / "such", 5], ok=1)
    assert p.stderr.startswith(f"{tmp_path}/no/such: ") and p.stderr.endswith("No such file or directory\n")


@pytest.mark.parametrize("hook,why", [
    ("enospc@2", "No space left on device"), ("sigint@2", "Interrupted"), ("rename", "Invalid cross-device link"),
    ("fsync", "Input/output error"),
])
def test_failed_write_changes_nothing(tool, tmp_path, env, hook, why):
    out = tmp_path / "out"
    out.write_text("old")
    p = run([tool, out, 3 << 20], ok=None, env={**env, "OUTFILE_HOOK": hook})
    if hook.startswith("sigint"):
        assert p.returncode == -2  # and the signal arrives afterwards
    else:
        assert p.returncode == 1
        assert p.stderr.startswith(f"{out}: ") and p.stderr.endswith(why + "\n") and p.stderr.count("\n") == 1
    assert out.read_text() == "old" and left(tmp_path) == ["out"]


def test_file_size_limit(tool, tmp_path, env):
    out = tmp_path / "out"
    out.write_text("old")
    p = run(["prlimit", "--fsize=100000", tool, out, 3 << 20], ok=1, env=env)
    assert p.stderr.endswith("File too large\n")
    assert out.read_text() == "old" and left(tmp_path) == ["out"]


@pytest.mark.skipif(subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0,
                    reason="mounts a file system of 1 MiB")
def test_full_and_read_only_file_systems(tool, tmp_path, env):
    script = (f"mount -t tmpfs -o size=1m none {tmp_path} && cd {tmp_path} && echo old > out && chmod 755 out && "
              f"! {tool} out 3000000 && ls -A && cat out && mount -o remount,ro {tmp_path} && "
              f"! {tool} out 5 && cat out")
    p = run(["unshare", "-rm", "sh", "-c", script], env=env)
    assert p.stdout == "out\nold\nold\n"
    assert "No space left on device" in p.stderr and "Read-only file system" in p.stderr


def test_read_only_directory(tool, tmp_path, env):
    if os.getuid() == 0:
        for p in (tool.parent, *tool.parents, *tmp_path.parents):
            if p != Path("/") and not p.stat().st_mode & 1:
                p.chmod(p.stat().st_mode | 0o011)
        tool.chmod(0o755)
    tmp_path.chmod(0o755)
    (tmp_path / "out").write_text("old")
    tmp_path.chmod(0o555)
    who = dict(user=NOBODY, group=NOBODY, extra_groups=[]) if os.getuid() == 0 else {}
    p = run([tool, tmp_path / "out", 5], ok=1, env=env, **who)
    assert p.stderr == f"{tmp_path}/out: cannot create a temporary file beside it: Permission denied\n"
    tmp_path.chmod(0o755)
    assert (tmp_path / "out").read_text() == "old" and left(tmp_path) == ["out"]
