# SPDX-License-Identifier: MIT
"""tool/elf/outfile.c: a whole file or nothing, with its mode, owner and attributes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, run, tool_objects

NOBODY = 65534


def left(directory):
    return sorted(p.name for p in directory.iterdir())


@pytest.fixture(scope="session")
def tool(tmp_path_factory, build_asan):
    """The module with a small driver, under ASan and UBSan."""
    out = tmp_path_factory.mktemp("outfile") / "outfile_tool"
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{ROOT}/tool",
         "-Wl,--wrap=write,--wrap=open,--wrap=rename,--wrap=fsync", ROOT / "tests/elf/outfile_tool.c",
         *tool_objects(build_asan, "elf/outfile.c", "support/bounds.c", "support/plain.c"), "-o", out])
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
