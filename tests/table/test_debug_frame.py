# SPDX-License-Identifier: MIT
"""`etch rewrite --eh-frame=OUT`: the missing FDEs as .debug_frame of a separate debug file, read by pyelftools, gdb and elfutils."""

import re
import shutil
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import rows
from conftest import run
from every_option import every_option_tried

SOURCE = """#include <unistd.h>
__attribute__((noinline)) int leaf(int n) { char b[64]; return read(0, b, (size_t)n & 63) + n; }
__attribute__((noinline)) int inner(int n) { return leaf(n) + 1; }
__attribute__((noinline)) int outer(int n) { return inner(n) * 2; }
int main(void) { return outer(3) == 0; }
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Programs without .eh_frame of their own that read from standard input four frames deep."""
    top = tmp_path_factory.mktemp("quiet")
    (top / "q.c").write_text(SOURCE)
    flags = ["-O2", "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer", "-Wl,--build-id"]
    run(["gcc", *flags, "-pie", "-fPIE", "-o", top / "pie", top / "q.c"])
    run(["gcc", *flags, "-static", "-o", top / "static", top / "q.c"])
    run(["objcopy", "--remove-section", ".eh_frame", "--remove-section", ".eh_frame_hdr", top / "static"])
    return top


def entries(path, section):
    """(start, end) -> decoded table of each FDE, by pyelftools."""
    with open(path, "rb") as f:
        info = ELFFile(f).get_dwarf_info()
        found = info.CFI_entries() if section == ".debug_frame" else info.EH_CFI_entries()
        return {(e["initial_location"], e["initial_location"] + e["address_range"]): [str(line) for line in e.get_decoded().table]
                for e in found if isinstance(e, rows.FDE)}


@pytest.mark.parametrize("name", ["pie", "static", "/usr/bin/tar", pytest.param("/usr/bin/git", marks=pytest.mark.long)])
def test_it_says_what_eh_frame_says(name, programs, build, tmp_path):
    """The FDEs are those that --eh-frame adds; the program is not touched; headers are those of the program."""
    was, t, out = programs / name, tmp_path / "t", tmp_path / "t.debug"
    shutil.copy(was, t)
    if name.startswith("/"):
        run(["objcopy", "--remove-section", ".eh_frame", "--remove-section", ".eh_frame_hdr", t])
    mark = t.read_bytes(), t.stat().st_mtime_ns, t.stat().st_ino
    run([build / "etch", "rewrite", f"--eh-frame={out}", t])
    assert (t.read_bytes(), t.stat().st_mtime_ns, t.stat().st_ino) == mark
    before = entries(t, ".eh_frame") if name == "pie" else {}
    got = entries(out, ".debug_frame")
    run([build / "etch", "rewrite", "--eh-frame", t])
    want = {k: v for k, v in entries(t, ".eh_frame").items() if k not in before}
    assert got == want and len(got) > 3
    assert "FDE" in run(["readelf", "--debug-dump=frames-interp", out], ok=None).stdout  # 1: .eh_frame has no contents here
    if shutil.which("eu-elflint") and not name.startswith("/"):
        run(["eu-elflint", "--gnu-ld", "-d", out])
    again = tmp_path / "again"
    run([build / "etch", "rewrite", f"--eh-frame={again}", t])  # of the rewritten file: the same
    assert entries(again, ".debug_frame") == got
    with open(out, "rb") as f:
        ours, theirs = ELFFile(f), ELFFile(BytesIO(mark[0]))
        assert [(p["p_type"], p["p_vaddr"], p["p_memsz"]) for p in ours.iter_segments()] == [
            (p["p_type"], p["p_vaddr"], p["p_memsz"]) for p in theirs.iter_segments()]


def stack_of(process, tool):
    """Names of its frames by gdb or eu-stack, the innermost first."""
    p = subprocess.run([str(x) for x in tool] + ["-p", str(process.pid)], text=True, capture_output=True, timeout=60)
    return re.findall(r"^#\d+ +0x[0-9a-f]+ +(?:in )?(\w+)", p.stdout, re.M)


@pytest.mark.parametrize("name", ["pie", "static"])
@pytest.mark.parametrize("reader", ["gdb", "eu-stack"])
def test_debuggers_find_it(name, reader, programs, build, tmp_path):
    """By build-id, in a directory: the whole stack, where there were one or two frames."""
    if not shutil.which(reader):
        pytest.skip(f"no {reader}")
    tools = {"gdb": lambda d: ["gdb", "-nx", "-q", "-batch", "-iex", f"set debug-file-directory {d}", "-ex", "bt"],
             "eu-stack": lambda d: ["eu-stack", f"--debuginfo-path={d}"]}
    (tmp_path / "empty").mkdir()
    (tmp_path / "debug").mkdir()
    for _ in range(2):  # the second time the folders are there
        run([build / "etch", "rewrite", f"--eh-frame={tmp_path / 'debug'}", programs / name])
    assert len(list(tmp_path.glob("debug/.build-id/??/*.debug"))) == 1
    process = subprocess.Popen([programs / name], stdin=subprocess.PIPE)
    try:
        while Path(f"/proc/{process.pid}/wchan").read_text() in ("", "0") and process.poll() is None:
            if Path(f"/proc/{process.pid}/syscall").read_text().startswith("0 "):
                break
        without, found = (stack_of(process, tools[reader](tmp_path / d)) for d in ("empty", "debug"))
    finally:
        process.stdin.close()
        process.wait()
    assert [x for x in found if x in ("leaf", "inner", "outer", "main")] == ["leaf", "inner", "outer", "main"], found
    assert found[found.index("leaf"):][:4] == ["leaf", "inner", "outer", "main"] != without[1:5], without


def test_other_options(programs, build, tmp_path):
    """Of all options that --help lists: each is refused in one line that names it, because it would do nothing, or taken."""
    taken = every_option_tried(build / "etch", [f"--eh-frame={tmp_path / 'out'}"], programs / "pie", tmp_path, "--eh-frame=OUT", refused_so={
        "--undo": "etch: --eh-frame cannot be combined with --undo\n",
        "--eh-frame": "etch: --eh-frame=OUT cannot be combined with --eh-frame=missing\n"})
    assert taken == {"--no-cfi", "--jobs", "--werror", "--quiet", "--verbose", "--yes", "--help"}
    assert not (tmp_path / "written").exists()


def test_refusals(programs, build, tmp_path):
    etch, program = build / "etch", programs / "pie"
    obj, bare = tmp_path / "t.o", tmp_path / "bare"
    run(["gcc", "-c", "-o", obj, programs / "q.c"])
    run(["gcc", "-O2", "-fno-asynchronous-unwind-tables", "-static", "-Wl,--build-id=none", "-o", bare, programs / "q.c"])
    for args, file, said in ((["--eh-frame=x", "--fix-cfi"], program, "--eh-frame=OUT"), (["--eh-frame="], program, "the value is empty"),
                             (["--eh-frame=x", "-o", tmp_path / "y"], program, "--eh-frame=OUT"),
                             (["--eh-frame=x", "--sframe"], program, "--eh-frame=OUT"),
                             (["--eh-frame=x", "--undo"], program, "--"), ([f"--eh-frame={tmp_path / 'x'}"], obj, "object file"),
                             ([f"--eh-frame={tmp_path}"], bare, "build-id"),
                             ([f"--eh-frame={tmp_path / 'none' / 'x'}"], program, "No such file"),
                             (["--eh-frame=/dev/full"], program, "No space left")):
        p = run([etch, "rewrite", *args, file], ok=2)
        assert said in p.stderr and len(p.stderr.splitlines()) == 1, (args, p.stderr)
    assert not (tmp_path / "x").exists() and not (tmp_path / "y").exists() and not (tmp_path / ".build-id").exists()
    run([etch, "rewrite", "--eh-frame=missing", "-o", tmp_path / "y", program])
    p = run([etch, "rewrite", f"--eh-frame={tmp_path / 'z'}", "/usr/bin/true"])
    assert (tmp_path / "z").exists() or "no debug file" in p.stderr
