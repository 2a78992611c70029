# SPDX-License-Identifier: MIT
"""etch inspect on files of the Linux kernel: a distribution's modules and vmlinux against
a second reader (tests/kernel/reader.py) and against objtool."""

import bisect
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import reader
from conftest import ROOT, run
from kernel_views import document, orc, tables

MODULES = ["xfs", "kvm", "aesni-intel", "loop", "raid6_pq", "virtio_net"]


@pytest.fixture(scope="session")
def linux():
    """The directory of a distribution's kernel."""
    p = subprocess.run([sys.executable, ROOT / "scripts" / "fetch.py", "linux"], text=True, capture_output=True,
                       timeout=900)
    if p.returncode:
        pytest.skip(f"no kernel package here: {p.stderr.strip().splitlines()[-1][:200]}")
    return Path(p.stdout.strip())


@pytest.fixture(scope="session")
def vmlinux(linux):
    return reader.Kernel(linux / "vmlinux")


def compare(k, name, got, want):
    """Each row of etch's is the reader's, and its name that of a function around it."""
    want = list(want)
    assert len(got) == len(want), name
    for g, (place, w) in zip(got, want):
        assert w.items() <= g.items(), (name, g, w)
        assert g["problem"] == "-", (name, g)
        names = k.functions(place)
        assert not names or g["name"] in names, (name, g, names)
    return len(want)


# ---- a distribution's kernel -----------------------------------------------------------------

@pytest.mark.parametrize("module", MODULES)
def test_module(etch, linux, module):
    path = linux / f"{module}.ko"
    k = reader.Kernel(path)
    got = tables(etch, path)
    here = {n for n in k.names if n in reader.READERS and k.sections[k.index(n)][2]}
    assert here and here == set(got) & set(reader.READERS)
    for name in here:
        assert compare(k, name, got[name][1], k.table(name))
        assert "malformed" not in got[name][0]
    # What stands there is what the tables are about.
    for r in got.get(".smp_locks", ("", []))[1]:
        assert r["now"].startswith("lock "), r
    for r in got.get("__mcount_loc", ("", []))[1]:
        assert r["now"] == "callq __fentry__", r
    for r in got.get(".return_sites", ("", []))[1]:
        assert r["now"] in ("jmp __x86_return_thunk", "retq"), r
    for r in got.get(".retpoline_sites", ("", []))[1]:
        assert re.fullmatch(r"(callq|j\w+) __x86_indirect_thunk_\w+", r["now"]), r
    for r in got.get("__bug_table", ("", []))[1]:
        assert r["name"] != "-" and r["file"].endswith((".c", ".h", ".S")), r


def test_modules_have_every_table(linux):
    """... or the test above would compare nothing."""
    seen = set()
    for m in MODULES:
        seen |= set(reader.Kernel(linux / f"{m}.ko").names)
    assert {"__ex_table", ".altinstructions", "__jump_table", ".static_call_sites", ".smp_locks", ".retpoline_sites",
            ".return_sites", "__mcount_loc", "__bug_table"} <= seen


def test_alternatives_disassembled(etch, linux):
    rows = tables(etch, linux / "xfs.ko")[".altinstructions"][1]
    assert ("callq __sw_hweight32", "popcntl %edi, %eax", "1:ecx bit 23") in {
        (r["original"], r["new"], r["cpuid"]) for r in rows}


@pytest.mark.parametrize("module", ["xfs", "aesni-intel"])
def test_module_orc(etch, linux, module):
    k = reader.Kernel(linux / f"{module}.ko")
    want = ["\t".join((f"{off:x}", f"{size:x}", *rule, "objtool", k.sections[s][0]))
            for s, off, size, rule in reader.orc_rows(k)]
    assert orc(etch, linux / f"{module}.ko") == want and len(want) > 400


def objtool_rule(line):
    """A row of `objtool --dump=orc` of 6.1 in etch's words."""
    sp, bp, kind, end = (x.split(":", 1)[1] for x in line.split()[1:5])
    if end == "1" or sp == "(und)":
        return "undef", "undef", "undef", "end" if end == "1" else "undef"
    base, off = re.fullmatch(r"\(?(\w+)([-+]\d+)?\)?([-+]\d+)?", sp).group(1), int(re.findall(r"[-+]\d+", sp)[0])
    assert kind == "call" and not sp.startswith("("), line
    reg = base if base.startswith("r") else "r" + base
    return (f"{reg}{off:+d}", "same" if bp == "(und)" else bp.replace("prevsp", "cfa") if bp.startswith("prevsp")
            else f"*(r{bp})", "cfa-8", "call")


@pytest.mark.parametrize("module", ["xfs", "kvm"])
def test_module_orc_is_what_objtool_prints(etch, linux, objtool, module):
    path = linux / f"{module}.ko"
    if reader.Kernel(path).version >= (6, 3):
        pytest.skip("objtool 6.1 reads no newer layout")
    mine = {}
    for line in orc(etch, path):
        addr, _, *rule, _, section = line.split("\t")
        mine[section, int(addr, 16)] = tuple(rule)
    dump = {}
    for line in run([objtool, "--dump=orc", path]).stdout.splitlines():
        name, off = re.match(r"(\S+?)\+([0-9a-f]+):", line).groups()
        dump[name, int(off, 16)] = line
    compared = 0
    for where, line in dump.items():
        if " type:call " in line and "sp:(bp" not in line and "sp:(sp" not in line and where in mine:
            assert mine[where] == objtool_rule(line), (where, line)
            compared += 1
    assert compared > 0.95 * len(dump) and len(dump) > 5000
    # What is not shown is the end of a section.
    assert all("sp:(und)" in dump[w] for w in dump.keys() - mine.keys())
    assert mine.keys() <= dump.keys()


@pytest.mark.long
def test_vmlinux_orc(etch, linux, vmlinux):
    want = [f"{vmlinux.sections[s][1] + off:x}\t{size:x}\t" + "\t".join(rule) + "\tobjtool"
            for s, off, size, rule in reader.orc_rows(vmlinux)]
    got = orc(etch, linux / "vmlinux")
    assert got == want and len(want) > 100000
    kinds = {line.split("\t")[5].split(",")[0] for line in got}
    assert kinds == {"call", "regs", "partial", "undef", "end"}
    head = run([etch, "inspect", "orc", "--at", got[0].split("\t")[0], linux / "vmlinux"]).stdout.splitlines()
    assert re.search(r"layout of 6\.\d.* \((release 6\.\d+\S* in its banner|\.orc_header)\)$", head[0]) and len(head) == 3


def test_vmlinux_tables(etch, linux, vmlinux):
    got = tables(etch, linux / "vmlinux")
    here = {n for n in vmlinux.names if n in reader.READERS}
    assert {"__ex_table", ".altinstructions", ".smp_locks", ".return_sites", "__bug_table"} <= here
    for name in here:
        assert compare(vmlinux, name, got[name][1], vmlinux.table(name)) > 500
        assert "malformed" not in got[name][0]
        # No symbols: sections.
        assert all(re.fullmatch(r"\.\w[\w.]*\+0x[0-9a-f]+", r["name"]) for r in got[name][1])
    assert ", sorted" in got["__ex_table"][0]
    assert "--symbols" in got["__jump_table"][0] and not got["__jump_table"][1]


def runs(values, good):
    """The longest run of entries that are good: (first, end)."""
    best, start = (0, 0), None
    for i, v in enumerate(values):
        if good(v, i):
            start = i if start is None else start
            if i + 1 - start > best[1] - best[0]:
                best = start, i + 1
        else:
            start = None
    return best


def hidden_tables(k):
    """Where vmlinux has the tables inside other sections, by what their entries look like:
    name -> (section, start, end)."""
    code = [(a, e) for a, e, i in k.alloc if k.sections[i][3] & reader.SHF_EXECINSTR]
    data = [(a, e) for a, e, i in k.alloc if not k.sections[i][3] & reader.SHF_EXECINSTR]

    def within(ranges, x):
        return any(a <= x < e for a, e in ranges)

    out = {}
    s = k.index(".init.data")
    _, addr, _, _, raw = k.sections[s]
    raw = raw[:len(raw) & ~7]
    words = [w for w, in struct.iter_unpack("<Q", raw)]
    a, e = runs(words, lambda w, i: (w >> 32) == 0xffffffff and within(code, w) and (not i or words[i - 1] < w or
                                                                                    not within(code, words[i - 1])))
    # It ascends except for the start of the next part.
    out["__mcount_loc"] = s, 8 * a, 8 * e
    s = k.index(".rodata")
    _, addr, _, _, raw = k.sections[s]
    jumps = [(c, t, key) for c, t, key in struct.iter_unpack("<iiq", raw[:len(raw) & ~15])]
    a, e = runs(jumps, lambda j, i: within(code, addr + 16 * i + j[0]) and within(code, addr + 16 * i + 4 + j[1]) and
                within(data, addr + 16 * i + 8 + (j[2] & ~3)) and j[0] and j[1])
    out["__jump_table"] = s, 16 * a, 16 * e
    at = 16 * e
    calls = [(c, key) for c, key in struct.iter_unpack("<ii", raw[at:at + 65536][:len(raw) - at & ~7])]
    n = next(i for i, (c, key) in enumerate(calls)
             if not (within(code, addr + at + 8 * i + c) and within(data, addr + at + 8 * i + 4 + (key & ~3))))
    out[".static_call_sites"] = s, at, at + 8 * n
    return out


def test_vmlinux_with_a_map(etch, linux, vmlinux, tmp_path):
    """Tables inside other sections by symbols, and names: from a System.map, which a
    distribution keeps elsewhere; this one has what the test finds by itself."""
    found = hidden_tables(vmlinux)
    symbols = {"__mcount_loc": "mcount_loc", "__jump_table": "___jump_table", ".static_call_sites": "_static_call_sites"}
    lines, starts = [], []
    for name, (s, start, end) in found.items():
        assert end - start > 2000, name
        base = vmlinux.sections[s][1]
        middle = symbols[name] if symbols[name].startswith("_") else "_" + symbols[name]
        lines += [f"{base + start:016x} D __start{middle}", f"{base + end:016x} D __stop{middle}"]
    s, start, end = found["__mcount_loc"]
    for w, in struct.iter_unpack("<Q", vmlinux.sections[s][4][start:end]):
        starts.append(w)
        lines.append(f"{w:016x} {'tT'[w >> 4 & 1]} f_{w:x}")
    lines += [f"{vmlinux.sections[vmlinux.index('.text')][1]:016x} T _text", "0000000000001000 A fixed_percpu_data"]
    random.Random(1).shuffle(lines)
    path = tmp_path / "System.map"
    path.write_text("\n".join(lines) + "\n")
    got = tables(etch, linux / "vmlinux", "--symbols", path)
    for name, (s, start, end) in found.items():
        assert f" in {vmlinux.sections[s][0]}" in got[name][0] and "malformed" not in got[name][0]
        assert len(got[name][1]) == compare(vmlinux, name, got[name][1], vmlinux.table(name, start, end, s))
    # All call the same.
    assert len({r["now"] for r in got["__mcount_loc"][1]}) == 1
    text = vmlinux.sections[vmlinux.index(".text")]
    starts = sorted({*starts, text[1]})
    for r in got[".return_sites"][1][::50]:
        addr = int(r["instruction"], 16)
        f = starts[bisect.bisect_right(starts, addr) - 1]
        if addr < text[1] + text[2]:
            assert r["name"] == (f"f_{f:x}" if f > text[1] else "_text") + (f"+0x{addr - f:x}" if addr > f else "")
    # One function's rows, by name; the map must be this kernel's.
    f = starts[1000]
    rows = orc(etch, linux / "vmlinux", "--symbols", path, "--at", f"f_{f:x}")
    assert int(rows[0].split("\t")[0], 16) <= f and f < int(rows[-1].split("\t")[0], 16) + 1 <= starts[1001]
    assert orc(etch, linux / "vmlinux", "--symbols", path, "--at", f"f_{f:x}+0x0") == rows[:1]
    path.write_text(path.read_text().replace(f"{text[1]:016x} T _text", f"{text[1] + 4096:016x} T _text"))
    p = run([etch, "inspect", "tables", "--symbols", path, linux / "vmlinux"], ok=2)
    assert "symbols of another kernel" in p.stderr and not p.stdout
    p = run([etch, "inspect", "tables", "--symbols", path, linux / "loop.ko"], ok=2)
    assert "symbols of its own" in p.stderr and not p.stdout


def test_json_says_what_tsv_says(etch, linux):
    path = linux / "loop.ko"
    j = document(etch, "tables", path)
    assert (j["format"], j["version"]) == ("etch-inspect-kernel", 1)
    assert (j["kind"], j["release_from"], j["missing"]) == ("kernel module", ".modinfo", [])
    assert j["orc"]["count"] > 100 and j["orc"]["layout"]
    for name, (_, rows) in tables(etch, path).items():
        if not rows:
            continue
        t, = (t for t in j["tables"] if t["name"] == name)
        assert t["count"] == len(t["entries"]) == len(rows) and t["malformed"] == 0
        for a, b in zip(t["entries"], rows):
            assert {k: "-" if v is None else str(v) for k, v in a.items()} == b
    text = run([etch, "inspect", "tables", path]).stdout
    assert "problem" not in text and all(r["name"] in text for t in j["tables"] for r in t["entries"])
    j = document(etch, "orc", path)
    assert (j["table"], j["generated"], j["malformed"]) == ("kernel", False, 0)
    assert [f"{r['address']}\t{r['size']:x}\t{r['cfa']}\t{r['bp']}\t{r['ra']}\t{r['kind']}\tobjtool\t{r['section']}"
            for r in j["rows"]] == orc(etch, path)


def test_other_views_of_a_module(etch, linux):
    """They do not stumble over arrays that are not etch's; rows from the code go on."""
    path = linux / "loop.ko"
    assert "unwind" in run([etch, "inspect", path]).stdout
    assert "callq" in run([etch, "inspect", "code", "loop_init", path]).stdout
    own = orc(etch, path, "--no-cfi")
    assert own != orc(etch, path) and all("\tobjtool\t" not in r for r in own)


def test_objtool_on_an_ordinary_object(etch, objtool, tmp_path):
    obj = tmp_path / "t.o"
    (tmp_path / "t.c").write_text("int g(int *); int f(int n) { int a[99]; a[0] = n; return g(a); }\n")
    run(["gcc", "-O2", "-fcf-protection=none", "-c", "-o", obj, tmp_path / "t.c"])
    run([objtool, "--orc", obj])
    rows = [r.split("\t") for r in orc(etch, obj)]
    assert {r[6] for r in rows} == {"objtool"} and [r[2] for r in rows][0] == "rsp+8" and len(rows) >= 3


def test_a_broken_pipe(etch, linux):
    with subprocess.Popen([etch, "inspect", "orc", linux / "xfs.ko"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        p.stdout.readline()
        p.stdout.close()
        assert p.stderr.read() == b""
