# SPDX-License-Identifier: MIT
"""Programs that run rewritten, sampled: where do walks of their stacks end? A short version of
scripts/programs/sample.py; and what longer runs have found: assembly that nothing covers, a
CFA in a register that callees may change."""

import collections
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from conftest import DATA, INCLUDE, ROOT, run

sys.path.insert(0, str(ROOT / "scripts" / "programs"))
import enter  # noqa: E402
import root as roots  # noqa: E402
import sample  # noqa: E402
import samples  # noqa: E402
from program import Program  # noqa: E402

HERE = DATA / "sampler"
PYTHON = os.path.realpath("/usr/bin/python3")
COMMAND = ["-I", "-c", """
import hashlib, json, re
d = [{str(i): [i, str(i) * 3, {"x": i * 1.5}]} for i in range(2000)]
for _ in range(60):
    t = json.dumps(d, indent=1)
    d = json.loads(t)
    hashlib.md5(t.encode()).digest()
print(len(re.findall(r"(\\d+)(\\d)", t)), len(sorted(t.split(), key=lambda s: s[::-1])))
"""]


# ---- samples ------------------------------------------------------------------------------------

class Sampled:
    """Programs with all that they load rewritten, mounted over the system's; where the machine
    has no namespaces, the system's own with tables from .eh_frame."""

    def __init__(self, etch, build, where):
        self.root = roots.Root(where / "root", etch)
        plain = samples.compile_to(build, where / "plain.so")
        self.library, self.where, self.runs = where / "sampler.so", where, 0
        run([etch, "rewrite", "-o", self.library, plain])

    def run(self, argv, *, rewritten=True, prepare=True, more=()):
        """(output, what the sampler counted)"""
        self.runs += 1
        out = self.where / f"out{self.runs}"
        env = samples.environment(out, self.library, compare=8, prepare=prepare)
        if rewritten:
            self.root.add(roots.linked([str(argv[0]), *map(str, more)]))
            assert not self.root.refused
        files = self.root.files if rewritten else "-"
        start = [sys.executable, ROOT / "scripts/programs/enter.py", *(x for k, v in env.items() for x in ("--env", f"{k}={v}"))]
        p = run([*start, files, *argv], ok=None)
        if p.returncode == enter.REFUSED:
            p = run(argv, ok=None, env={**os.environ, **env})
            rewritten = False
        assert p.returncode == 0, p.stderr
        return p.stdout, samples.Sum(samples.read(out)), rewritten


@pytest.fixture(scope="module")
def sampled(etch, build, tmp_path_factory):
    return Sampled(etch, build, tmp_path_factory.mktemp("sampled"))


def ends(s):
    """Where complete walks end: how many in each function that may be."""
    found = collections.Counter()
    for count, p in s.listed(lambda kind, *_: kind == samples.END):
        with open(p.module, "rb") as f:
            entry = ELFFile(f)["e_entry"]
        if 0 < p.offset - entry <= 64:
            found["_start"] += count
        else:
            name = samples.Names().at(p.module, p.offset, True).split(":")[1].split("+")[0]
            # A name in parentheses: after the end of that function. makecontext's has none.
            found["" if name[0] == "(" and "libc." in p.module else name] += count
    return found


def installs(p):
    """Before it goes to a landing pad libgcc writes the registers of that frame, and its address,
    over those that it has saved: for some instructions the stack makes no sense to anybody."""
    names = samples.Names()
    return any(m and "libgcc_s" in m and "_Unwind_" in names.at(m, at, True) for m, at in p.ours[max(0, p.at - p.first - 2):])


def complete(s, rewritten):
    """All that must hold of a run outside of JIT code."""
    told = [(samples.STATUS[p.kind], n, samples.Names().lines(p)) for n, p in s.listed(lambda kind, *_: kind < 0)]
    assert s.samples >= 50 and not s.full, vars(s)
    stopped = sum(n for n, p in s.listed(lambda kind, where, *_: kind < 0 and where not in samples.JIT) if not installs(p))
    assert stopped <= s.samples // 1000, told
    assert s.jit == 0, told
    differ = [(samples.DIFFER[p.kind], n, samples.Names().lines(p)) for n, p in s.listed(lambda kind, *_: kind in (102, 103, 104))
              if not installs(p)]
    assert s.compared >= 5 and not differ
    if rewritten:
        assert not [n for n in s.without_table if "vdso" not in n and "libunwind" not in n and "lzma" not in n]


def test_python(sampled):
    text, s, rewritten = sampled.run([PYTHON, *COMMAND], more=Path("/usr/lib").glob("python3.[0-9]*/lib-dynload/_[hj]*.so"))
    assert re.fullmatch(r"\d+ \d+\n", text)
    complete(s, rewritten)
    assert s.processes == 1 and set(ends(s)) == {"_start"}


def test_threads_and_children(sampled, tmp_path):
    exe = tmp_path / "work"
    # At fixed addresses, with pages left out between its segments.
    run(["g++", "-O2", "-no-pie", "-Wl,-Tdata=0x800000", "-o", exe, HERE / "work.cc", "-pthread"])
    text, s, rewritten = sampled.run([exe])
    assert text == run([exe]).stdout
    complete(s, rewritten)
    assert s.processes == 2 and len(s.unfinished) == 1   # the child ends by _exit(2)
    found = ends(s)
    assert set(found) <= {"_start", "clone3", "__clone3", "clone", "__start_context", ""}, found
    assert found["_start"] >= 10 and sum(found.values()) - found["_start"] >= 10, found


def test_the_sampler_sees_what_is_missing(sampled):
    """Without tables every walk stops at once, and libunwind goes on."""
    _, s, _ = sampled.run([PYTHON, *COMMAND], rewritten=False, prepare=False)
    assert s.samples >= 20 and s.share == 0 and s.complete == 0 and s.jit == 0
    assert s.different == s.compared >= 5
    assert sum(on for on, _ in s.theirs.values()) == s.samples
    assert PYTHON in s.without_table


# ---- what is another output due to? ---------------------------------------------------------------

@pytest.fixture(scope="module")
def disturbed(sampled):
    """disturbed.c as it is, and the program that stands for what etch makes of it."""
    out = []
    for name, more in (("plain", []), ("instead", ["-DREWRITTEN"])):
        exe = sampled.where / name / "disturbed"
        exe.parent.mkdir()
        run(["gcc", "-O1", *more, "-o", exe, HERE / "disturbed.c"])
        out.append(exe)
    if run([sys.executable, ROOT / "scripts/programs/enter.py", "-", "true"], ok=None).returncode:
        pytest.skip("this machine allows no namespaces")
    return out


def look(sampled, exe, what, instead=None):
    """What sample.py says of disturbed.c."""
    program = Program("disturbed", "", f"{exe} {what}", needs=str(exe), traceable=False)
    program.prepare(sampled.root)
    copy = sampled.root.files / str(exe).lstrip("/")
    if instead:
        shutil.copy(instead, copy)
    s, word, why = sample.Sampler(sampled.root, sampled.library, 8).look(program)
    if instead:
        copy.unlink()
    return s, word, why


@pytest.mark.parametrize("what", ["same", "loaded", "signals"])
def test_the_sampler_alone(sampled, disturbed, what, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    s, word, why = look(sampled, disturbed[0], what)
    assert word == what and bool(why) == (what != "same"), why
    assert s.incomplete == 0 and not s.without_table or what != "same"


@pytest.mark.parametrize(("what", "want"), [("other", "DIFFERS"), ("crash", "CRASHES")])
def test_not_the_sampler_alone(sampled, disturbed, what, want, monkeypatch, tmp_path):
    """Rewritten it does another thing: that is told from what signals do."""
    if what == "crash" and os.getuid():
        pytest.skip("who crashes is told to root")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    _, word, why = look(sampled, disturbed[0], what, instead=disturbed[1])
    assert word == want and why, (word, why)
    if what == "crash":
        assert why[0] == "disturbed ended by SIGABRT, 1 times more"


@pytest.mark.parametrize("what", ["confined", "defaults"])
def test_the_sampler_does_no_harm(sampled, disturbed, what, monkeypatch, tmp_path):
    """To a program that may make few system calls, nor to one that takes its handler away."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    _, word, why = look(sampled, disturbed[0], what)
    assert word == "same", why


def test_a_deep_stack(sampled, disturbed, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    s, word, _ = look(sampled, disturbed[0], "deep")
    assert word == "same" and s.deepest > 400000 and s.complete >= 10
    assert s.incomplete == s.deeper == 0


# ---- what samples have found ----------------------------------------------------------------------

@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_assembly_that_nothing_covers(etch, tmp_path, linker):
    """Functions of it are known by lea and by relocations; data among them is not taken for one."""
    source, whole, bare = HERE / "uncovered.s", tmp_path / "whole.so", tmp_path / "bare.so"
    run(["gcc", "-shared", "-nostdlib", f"-fuse-ld={linker}", "-o", whole, source])
    run(["strip", "-o", bare, whole])
    with open(whole, "rb") as f:
        at = {s.name: s["st_value"] for s in ELFFile(f).get_section_by_name(".symtab").iter_symbols()}
    want = [m.groups() for m in re.finditer(r"# row (\w+) (\S+) (\S+)$", source.read_text(), re.M)]
    assert len(want) > 15
    rows = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", bare]).stdout.splitlines()[1:]]
    for label, cfa, bp in want:
        [row] = [r for r in rows if int(r[0], 16) <= at[label] < int(r[0], 16) + int(r[1], 16)]
        assert (label, row[2], row[3]) == (label, cfa, bp), row
    # It is guessed only in so far as rows go: no finding is about what may be data.
    assert "undef" in {c for _, c, _ in want}
    check = run([etch, "check", "--format", "json", bare], ok=None)
    assert not re.findall(r"ETCH-S\d+", check.stdout), check.stdout


def test_a_cfa_in_a_register_that_callees_may_change(build, tmp_path):
    exe = tmp_path / "scratch"
    run(["gcc", "-O1", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-mno-red-zone",
         "-fno-omit-frame-pointer", f"-I{INCLUDE}", "-o", exe,
         HERE / "scratch.c", build / "libetch.a", "-pthread"])
    got = {n: (int(a), int(b), int(c)) for n, a, b, c in
           re.findall(r"^(\w+) steps (\d+) whole (\d+) wrong (\d+)$", run([exe]).stdout, re.M)}
    assert set(got) == {"keeps", "changes", "deeper"} and all(wrong == 0 for _, _, wrong in got.values()), got
    steps, whole, _ = got["keeps"]
    assert steps == whole >= 10
    # In two instructions rax is another; and a callee's callee is too far.
    assert got["changes"][0] - got["changes"][1] == 2 and got["deeper"][0] - got["deeper"][1] == 4, got
