# SPDX-License-Identifier: MIT
"""etch inspect on files of the Linux kernel: a distribution's modules and vmlinux against
a second reader (tests/kernel/reader.py) and against objtool; layouts of other versions
from assembly; what is malformed."""

import bisect
import json
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from conftest import ROOT, TESTS, Flow, asan_env, run
from elftools.elf.elffile import ELFFile

sys.path.insert(0, str(TESTS / "kernel"))
import reader  # noqa: E402

OBJTOOL = Path("/usr/lib/linux-kbuild-6.1/tools/objtool/objtool")
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


def tables(etch, path, *args):
    """name -> (head, rows) of the TSV form."""
    out, head, names = {}, None, None
    for line in run([etch, "inspect", "tables", "--format", "tsv", *args, path]).stdout.splitlines():
        if line.startswith("# "):
            head, names = line[2:], None
            out[head.split(":")[0]] = (head, [])
        elif names is None:
            names = line.split("\t")
        else:
            cells = line.split("\t")
            assert len(cells) == len(names)
            out[head.split(":")[0]][1].append(dict(zip(names, cells)))
    return out


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


def document(etch, view, path, *args):
    """A JSON document, valid by its schema."""
    j = json.loads(run([etch, "inspect", view, "--json", *args, path]).stdout)
    schema = json.loads((ROOT / "docs" / "schemas" / f"{j['format'][5:]}.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(j)
    return j


def orc(etch, path, *args):
    out = run([etch, "inspect", "orc", "--format", "tsv", *args, path]).stdout.splitlines()
    assert out[0].startswith("address\tsize\tcfa\tbp\tra\tkind\tsource")
    return out[1:]


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


@pytest.mark.skipif(not OBJTOOL.exists(), reason="objtool: package linux-kbuild-6.1")
@pytest.mark.parametrize("module", ["xfs", "kvm"])
def test_module_orc_is_what_objtool_prints(etch, linux, module):
    path = linux / f"{module}.ko"
    if reader.Kernel(path).version >= (6, 3):
        pytest.skip("objtool 6.1 reads no newer layout")
    mine = {}
    for line in orc(etch, path):
        addr, _, *rule, _, section = line.split("\t")
        mine[section, int(addr, 16)] = tuple(rule)
    dump = {}
    for line in run([OBJTOOL, "--dump=orc", path]).stdout.splitlines():
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
    # It ascends but for the start of the next part.
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
    assert "another kernel's" in p.stderr and not p.stdout
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


# ---- layouts of other versions ------------------------------------------------------------------

BODY = """
	.text
	.globl f
	.type f, @function
f:	nop
	push %rbp
1:	lock incl (%rdi)
2:	.byte 0x0f, 0x1f, 0x44, 0, 0
3:	call g
4:	mov (%rdi), %rax
5:	pop %rbp
	ret
	.size f, . - f
	.globl g
	.type g, @function
g:	ret
	.size g, . - g
	.section .altinstr_replacement, "ax"
6:	popcnt %edi, %eax
	.data
	.balign 8
	.type key, @object
key:	.quad 0
	.size key, 8
	.section .rodata.str, "a"
7:	.asciz "drivers/x.c"
8:	.asciz "it is %d"
"""

RELEASE = '\t.section .modinfo, "a"\n\t.asciz "vermagic=%s SMP mod_unload "\n'


def build(tmp_path, text, linked, name="k"):
    """An object of `text`; or vmlinux, with a banner instead of .modinfo."""
    if linked:
        text = re.sub(r'(?s)\t\.section \.modinfo.*?vermagic=(\S+) .*?\n',
                      r'\t.section .rodata, "a"\n\t.asciz "Linux version \1 (x@y)"\n\t.section __ksymtab, "a"\n\t.long 0\n', text)
    src = tmp_path / f"{name}.S"
    src.write_text(BODY + text)
    out = tmp_path / f"{name}.o"
    run(["gcc", "-c", "-o", out, src])
    if linked:
        exe = tmp_path / f"{name}.vmlinux"
        run(["ld", "-e", "f", "-Ttext=0xffffffff81000000", "-o", exe, out])
        return exe
    return out


def f_address(path):
    with open(path, "rb") as f:
        return ELFFile(f).get_section_by_name(".symtab").get_symbol_by_name("f")[0]["st_value"]


def at(path, offset):
    """The text of an address of .text."""
    with open(path, "rb") as f:
        if ELFFile(f)["e_type"] == "ET_REL":
            return f".text+0x{offset:x}"
    return f"{f_address(path) + offset:x}"


ALT = {
    "6.3 and later": "\t.long 3b - ., 6b - .\n\t.short 4*32+23, 2\n\t.byte 5, 4\n"
                     "\t.long 4b - ., 6b - .\n\t.short 9*32+3, 1\n\t.byte 3, 0\n",
    "5.13 to 6.2": "\t.long 3b - ., 6b - .\n\t.short 4*32+23\n\t.byte 5, 4\n"
                   "\t.long 4b - ., 6b - .\n\t.short 0x8000 + 9*32+3\n\t.byte 3, 0\n",
    "4.1 to 5.12": "\t.long 3b - ., 6b - .\n\t.short 4*32+23\n\t.byte 5, 4, 0\n"
                   "\t.long 4b - ., 6b - .\n\t.short 0x8000 + 9*32+3\n\t.byte 3, 0, 1\n",
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("layout", ALT)
def test_alternatives_of_versions(etch, tmp_path, layout, linked):
    """Entries tell, whatever the release says: distributions carry changes back."""
    path = build(tmp_path, f'\t.section .altinstructions, "a"\n{ALT[layout]}{RELEASE % "5.10.0"}', linked)
    head, rows = tables(etch, path)[".altinstructions"]
    document(etch, "tables", path)
    assert f"layout of {layout} (as its entries are)" in head and "2 entries" in head
    a, b = rows
    assert (a["instruction"], a["length"], a["new_length"], a["feature"], a["cpuid"]) == (
        at(path, 10), "5", "4", "4*32+23", "1:ecx bit 23")
    assert a["flags"] == ("direct-call" if layout[0] == "6" else "-")
    assert (a["name"], a["original"], a["new"]) == ("f+0xa", "callq g", "popcntl %edi, %eax")
    assert (b["feature"], b["cpuid"], b["flags"], b["new"], b["original"]) == (
        "9*32+3", "7.0:ebx bit 3", "not", "nop", "movq (%rdi), %rax")


EX = {
    "5.16 and later": "\t.long 4b - ., 5b - ., 17 | 2 << 8 | 1 << 12 | (-14 << 16)\n",
    "4.6 to 5.15": "\t.long 4b - ., 5b - ., g - .\n",
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("layout", EX)
def test_exceptions_of_versions(etch, tmp_path, layout, linked):
    path = build(tmp_path, f'\t.section __ex_table, "a"\n{EX[layout]}{RELEASE % "6.1.0"}', linked)
    head, (r,) = tables(etch, path)["__ex_table"]
    document(etch, "tables", path)
    assert f"layout of {layout} (as its entries are)" in head
    assert (r["instruction"], r["fixup"], r["name"], r["to"], r["problem"]) == (
        at(path, 15), at(path, 18), "f+0xf", "f+0x12", "-")
    if layout[0] == "5":
        assert (r["type"], r["register"], r["flags"], r["immediate"]) == ("imm-reg", "2", "1", "-14")
    else:
        assert r["handler"] == "g"


def test_types_of_exceptions(etch, tmp_path):
    """Each as docs/formats.md calls it."""
    text = (ROOT / "docs" / "formats.md").read_text().split("<!-- kernel ex types -->")[1].split("\n\n")[0]
    names = {int(n): name for n, name in re.findall(r"\| (\d+) \| ([\w-]+) (?=\|)", text)}
    assert sorted(names) == list(range(22))
    path = build(tmp_path, '\t.section __ex_table, "a"\n' +
                 "".join(f"\t.long 4b - ., 5b - ., {i}\n" for i in range(24)) + RELEASE % "6.1.0", False)
    got = [r["type"] for r in tables(etch, path)["__ex_table"][1]]
    assert got == [names.get(i, str(i)) for i in range(24)]


BUG = {
    "6.19 and later": "\t.long 5b - ., 8b - ., 7b - .\n\t.short 77, 0x0911\n",
    "before 6.19": "\t.long 5b - ., 7b - .\n\t.short 77, 0x0901\n",
    "without file and line": "\t.long 5b - .\n\t.short 0x0901, 0\n",
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("layout", BUG)
def test_bugs_of_versions(etch, tmp_path, layout, linked):
    path = build(tmp_path, f'\t.section __bug_table, "aw"\n{BUG[layout] * 3}{RELEASE % "6.1.0"}', linked)
    head, rows = tables(etch, path)["__bug_table"]
    document(etch, "tables", path)
    assert f"layout of {layout} (as its entries are)" in head and (len(rows) == 3 or linked)
    r = rows[0]
    assert (r["instruction"], r["name"], r["taint"]) == (at(path, 18), "f+0x12", "9")
    assert r["flags"] == ("warning,format" if layout[0] == "6" else "warning")
    assert r["format"] == ("it is %d" if layout[0] == "6" else "-")
    if layout[0] != "w":
        assert (r["file"], r["line"]) == ("drivers/x.c", "77")


OTHERS = """
	.section .parainstructions, "a"
	.balign 8
	.quad 3b
	.byte 44, 5
	.balign 8
	.section __jump_table, "aw"
	.balign 8
	.long 2b - ., 4b - .
	.quad key + 1 - .
	.long 2b - ., 4b - .
	.quad key + 2 - .
	.section .static_call_sites, "aw"
	.balign 8
	.long 3b - ., key + 1 - .
	.section .smp_locks, "a"
	.long 1b - .
	.section .call_sites, "a"
	.long 3b - .
	.section .ibt_endbr_seal, "a"
	.long f - .
	.section __mcount_loc, "a"
	.quad f
"""


@pytest.mark.parametrize("linked", [False, True])
def test_tables_of_one_layout(etch, tmp_path, linked):
    path = build(tmp_path, OTHERS + RELEASE % "6.1.0", linked)
    document(etch, "tables", path)
    got = {n: [{k: v for k, v in r.items() if k not in ("instruction", "target", "key")} for r in rows]
           for n, (_, rows) in tables(etch, path).items() if rows}
    assert got == {
        ".parainstructions": [{"length": "5", "slot": "44", "name": "f+0xa", "original": "callq g", "problem": "-"}],
        "__jump_table": [{"flags": flags, "name": "f+0x5", "to": "f+0xf", "key_name": "key",
                          "now": "nopl (%rax, %rax)", "problem": "-"} for flags in ("branch", "objtool")],
        ".static_call_sites": [{"flags": "tail", "name": "f+0xa", "key_name": "key", "now": "callq g", "problem": "-"}],
        ".smp_locks": [{"name": "f+0x2", "now": "lock incl (%rdi)", "problem": "-"}],
        ".call_sites": [{"name": "f+0xa", "now": "callq g", "problem": "-"}],
        ".ibt_endbr_seal": [{"name": "f", "now": "nop", "problem": "-"}],
        "__mcount_loc": [{"name": "f", "now": "nop", "problem": "-"}],
    }


SP, BP, PREV, BP_IND, SP_IND, AX, R10 = 5, 4, 1, 8, 9, 10, 6


def orc_text(entries):
    ip = "".join(f"\t.long f + {i} - .\n" for i in range(len(entries)))
    return ('\t.section .orc_unwind_ip, "a"\n' + ip + '\t.section .orc_unwind, "a"\n' +
            "".join(f"\t.short {sp}, {bp}, {spr | bpr << 4 | bits << 8}\n" for sp, bp, spr, bpr, bits in entries))


HASH = {
    "6.3": "db84aed4103b31dd51e017f8f79783ca985c2c51",
    "6.4 and later": "fe5d32bf581bd63b2ca9a5c65ba5a625eab3fe24",
    "new": "00112233445566778899aabbccddeeff00112233",
}


def orc_header(which):
    return '\t.section .orc_header, "a"\n\t.byte ' + ", ".join(f"0x{b:02x}" for b in bytes.fromhex(HASH[which])) + "\n"


# (sp_offset, bp_offset, sp_reg, bp_reg, bits from 8 on) and the row it is.
ROWS = {
    "6.2 and before": [
        ((8, 0, SP, 0, 0), "rsp+8 same cfa-8 call"), ((16, -16, BP, PREV, 0), "rbp+16 cfa-16 cfa-8 call"),
        ((0, 0, SP, 0, 1), "*(rsp+152)+0 *(rsp+32) *(rsp+128) regs"), ((8, 0, SP, 0, 2), "*(rsp+32)+0 same *(rsp+8) partial"),
        ((0, 0, 0, 0, 4), "undef undef undef end"), ((0, 0, 0, 0, 0), "undef undef undef undef"),
        ((-8, 0, BP_IND, BP, 0), "*(rbp-8)+0 *(rbp+0) cfa-8 call"), ((8, 0, SP_IND, 0, 0), "*(rsp+0)+8 same cfa-8 call"),
        ((8, 0, SP, 0, 8), "undef undef undef bad"), ((8, 0, PREV, 0, 0), "undef undef undef bad"),
        ((8, 0, SP, 7, 0), "undef undef undef bad"), ((8, 0, SP, 0, 3), "undef undef undef bad"),
    ],
    "6.3": [
        ((8, 0, SP, 0, 0), "rsp+8 same cfa-8 call"), ((0, 0, SP, 0, 1 | 4), "*(rsp+152)+0 *(rsp+32) *(rsp+128) regs,signal"),
        ((0, 0, 0, 0, 8), "undef undef undef end"), ((8, 0, SP, 0, 16), "undef undef undef bad"),
    ],
    "6.4 and later": [
        ((8, 0, SP, 0, 2), "rsp+8 same cfa-8 call"), ((0, -16, R10, BP, 2), "r10+0 *(rbp-16) cfa-8 call"),
        ((0, 0, AX, 0, 2), "rax+0 same cfa-8 call"), ((0, 0, SP, 0, 3 | 8), "*(rsp+152)+0 *(rsp+32) *(rsp+128) regs,signal"),
        ((0, 0, SP, 0, 4), "*(rsp+24)+0 same *(rsp+0) partial"), ((0, 0, 0, 0, 1), "undef undef undef end"),
        ((0, 0, 0, 0, 0), "undef undef undef undef"), ((8, 0, SP, 0, 7), "undef undef undef bad"),
        ((8, 0, 0, 0, 2), "undef undef undef bad"),
    ],
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("layout,told,by", [
    ("6.2 and before", RELEASE % "6.1.0-13-amd64", "release 6.1.0-13-amd64"),
    ("6.3", RELEASE % "6.3.2", "release 6.3.2"),
    ("6.3", RELEASE % "6.1.0" + orc_header("6.3"), ".orc_header"),
    ("6.4 and later", RELEASE % "6.12.1", "release 6.12.1"),
    ("6.4 and later", RELEASE % "5.14.0-500.el9" + orc_header("6.4 and later"), ".orc_header"),
    ("6.4 and later", RELEASE % "6.1.0" + orc_header("new"), "assumed: the hash in .orc_header is newer than etch"),
    ("6.4 and later", '\t.section __ksymtab, "a"\n\t.long 0\n', "assumed: no .orc_header and no release"),
    ("6.2 and before", '\t.section __ksymtab, "a"\n\t.long 0\n', "assumed: no .orc_header and no release"),
])
def test_orc_of_versions(etch, tmp_path, layout, told, by, linked):
    entries = ROWS[layout]
    path = build(tmp_path, orc_text([e for e, _ in entries]) + told, linked)
    out = run([etch, "inspect", "orc", path]).stdout.splitlines()
    assert f"layout of {layout} ({by}" in out[0]
    assert [" ".join(line.split("\t")[2:6]) for line in orc(etch, path)] == [r for _, r in entries]
    bad = sum(r.endswith("bad") for _, r in entries)
    assert f", {bad} malformed" in out[0] and sum("that the" in x or "for the CFA" in x for x in out[2:]) == bad


def test_indirect_rows_before_5_13(etch, tmp_path):
    path = build(tmp_path, orc_text([(8, 0, SP_IND, 0, 0)]) + RELEASE % "5.10.0", False)
    assert orc(etch, path)[0].split("\t")[2] == "*(rsp+8)+0"


def test_one_address_twice(etch, tmp_path):
    """The end of one section may be the start of the next: its own row counts, not the
    one that ends the other; unsorted rows of a module are put in order."""
    text = ('\t.section .orc_unwind_ip, "a"\n\t.long f + 3 - ., f - ., f - ., f + 7 - .\n'
            '\t.section .orc_unwind, "a"\n\t.short 24, 0, 5, 8, 0, 5, 0, 0, 0, 0, 0, 0\n')
    rows = orc(etch, build(tmp_path, text + RELEASE % "6.1.0", False))
    assert [r.split("\t")[:3] for r in rows] == [["0", "3", "rsp+8"], ["3", "4", "rsp+24"], ["7", "e", "undef"]]


# ---- whose tables they are --------------------------------------------------------------------------

def test_etchs_own_are_etchs(etch, build, tmp_path):
    """Arrays of the same name in etch's objects and __ex_table in its programs."""
    flow = Flow(tmp_path, build)
    obj = flow.compile("int g(int); int f(int x) { return g(x) + 1; }\n")
    run([etch, "rewrite", "--only", "orc", obj])
    out = orc(etch, obj)
    assert out and all("\tobjtool" not in r for r in out)
    run(["ld", "-r", "-o", tmp_path / "r.o", obj])
    assert orc(etch, tmp_path / "r.o") == out
    p = run([etch, "inspect", "tables", obj], ok=2)
    assert "object file" in p.stderr
    p = run([etch, "inspect", "orc", "--symbols", "/dev/null", obj], ok=2)
    assert "no file of the kernel's" in p.stderr and not p.stdout
    p = run([etch, "inspect", "code", "--symbols", "/dev/null", "f", obj], ok=2)
    assert "--symbols is for" in p.stderr


def test_a_sign_of_the_kernel_and_etchs_sections(etch, tmp_path):
    """A program of etch's that has a section of such a name stays etch's."""
    obj = build(tmp_path, '\t.section __jump_table, "aw"\n\t.quad 0\n\t.section __etch_mod, "aw"\n\t.quad 0\n', False)
    assert "is an object file" in run([etch, "inspect", "tables", obj], ok=2).stderr
    obj = build(tmp_path, '\t.section __jump_table, "aw"\n\t.quad 0, 0\n', False, "k2")
    assert "kernel object" in run([etch, "inspect", "tables", obj]).stdout


@pytest.mark.skipif(not OBJTOOL.exists(), reason="objtool: package linux-kbuild-6.1")
def test_objtool_on_an_ordinary_object(etch, tmp_path):
    obj = tmp_path / "t.o"
    (tmp_path / "t.c").write_text("int g(int *); int f(int n) { int a[99]; a[0] = n; return g(a); }\n")
    run(["gcc", "-O2", "-fcf-protection=none", "-c", "-o", obj, tmp_path / "t.c"])
    run([OBJTOOL, "--orc", obj])
    rows = [r.split("\t") for r in orc(etch, obj)]
    assert {r[6] for r in rows} == {"objtool"} and [r[2] for r in rows][0] == "rsp+8" and len(rows) >= 3


# ---- what is malformed --------------------------------------------------------------------------------

def all_tables(alt="5.13 to 6.2"):
    return (OTHERS + f'\t.section .altinstructions, "a"\n{ALT[alt]}\t.section __ex_table, "a"\n{EX["5.16 and later"] * 2}'
            f'\t.section __bug_table, "aw"\n{BUG["before 6.19"] * 2}' + orc_text([e for e, _ in ROWS["6.2 and before"]]) +
            RELEASE % "6.1.0")


def section_header(path, name):
    """(offset of the section's header, offset of its contents, size)."""
    with open(path, "rb") as f:
        elf = ELFFile(f)
        i = next(i for i, s in enumerate(elf.iter_sections()) if s.name == name)
        s = elf.get_section(i)
        return elf["e_shoff"] + i * elf["e_shentsize"], s["sh_offset"], s["sh_size"]


def test_bad_entries_are_shown(etch, tmp_path):
    """Each as what it is, and the others beside it."""
    path = build(tmp_path, all_tables(), True)
    data = bytearray(path.read_bytes())

    def put(name, at_, form, value):
        _, start, _ = section_header(path, name)
        struct.pack_into(form, data, start + at_, value)

    put("__ex_table", 12, "<i", 0x7000000)           # an instruction nowhere
    put("__ex_table", 8, "<I", 200)                  # a type that no kernel has
    put(".altinstructions", 10, "<B", 200)           # more than the section has
    put("__jump_table", 8, "<q", 0x70000000)         # a key nowhere
    put(".smp_locks", 0, "<i", 0x100000)
    put("__bug_table", 16, "<i", 0x7000000)
    header, _, size = section_header(path, "__mcount_loc")
    struct.pack_into("<Q", data, header + 32, size - 3)
    path.write_bytes(data)
    got = tables(etch, path)
    assert [r["problem"] for r in got["__ex_table"][1]] == ["a type that is none of the kernel's",
                                                           "its instruction is not in code"]
    assert got[".altinstructions"][1][0]["problem"] == "its instructions reach past the end of their section"
    assert got[".altinstructions"][1][1]["problem"] == "-"
    assert [r["problem"] for r in got["__jump_table"][1]] == ["its key is in no section", "-"]
    assert got[".smp_locks"][1][0]["problem"] == "its instruction is not in code"
    assert [r["problem"] for r in got["__bug_table"][1]] == ["-", "its file is no string"]
    assert "5 bytes are left over" in got["__mcount_loc"][0]
    assert got[".static_call_sites"][1][0]["problem"] == "-"
    j = document(etch, "tables", path)
    assert [(t["name"], t["malformed"], t["left_over"]) for t in j["tables"] if t["malformed"] or t["left_over"]] == [
        ("__ex_table", 2, 0), (".altinstructions", 1, 0), ("__jump_table", 1, 0), (".smp_locks", 1, 0),
        ("__mcount_loc", 0, 5), ("__bug_table", 1, 0)]
    assert "2 malformed" in got["__ex_table"][0] and "problem" in run([etch, "inspect", "tables", path]).stdout


def test_arrays_of_different_length(etch, tmp_path):
    path = build(tmp_path, all_tables(), False)
    data = bytearray(path.read_bytes())
    header, _, size = section_header(path, ".orc_unwind")
    struct.pack_into("<Q", data, header + 32, size - 7)
    path.write_bytes(data)
    p = run([etch, "inspect", "orc", "--format", "tsv", path], ok=2)
    assert len(p.stderr.splitlines()) == 1 and "not the same number" in p.stderr
    assert len(p.stdout.splitlines()) == len(ROWS["6.2 and before"]) - 2 + 1


@pytest.mark.parametrize("linked", [False, True])
def test_a_row_of_no_code(etch, tmp_path, linked):
    path = build(tmp_path, all_tables(), linked)
    data = bytearray(path.read_bytes())
    if linked:
        _, start, _ = section_header(path, ".orc_unwind_ip")
        struct.pack_into("<i", data, start + 4, 0x7000000)
    else:
        _, start, _ = section_header(path, ".rela.orc_unwind_ip")
        struct.pack_into("<q", data, start + 24 + 16, 0x7000000)
    path.write_bytes(data)
    rows = [r.split("\t") for r in orc(etch, path)]
    want = [r.split(" ") for _, r in ROWS["6.2 and before"]]
    # The one before it goes on; the others are what they were.
    assert sum("problem" in r for r in document(etch, "orc", path)["rows"]) == 1 + sum(w[3] == "bad" for w in want)
    assert [r[2:6] for r in rows] == want[:1] + want[2:] + [["undef", "undef", "undef", "bad"]]
    assert (rows[0][1], rows[-1][1]) == ("2", "0")
    assert int(rows[-1][0], 16) >= f_address(path) + 0x7000000 if linked else rows[-1][0] == "7000000"


def test_a_relocation_that_is_missing(etch, tmp_path):
    path = build(tmp_path, all_tables(), False)
    data = bytearray(path.read_bytes())
    _, start, _ = section_header(path, ".rela.smp_locks")
    struct.pack_into("<Q", data, start, 0x100)
    _, start, _ = section_header(path, ".rela__jump_table")
    struct.pack_into("<I", data, start + 8, 1)  # R_X86_64_64
    path.write_bytes(data)
    got = tables(etch, path)
    assert got[".smp_locks"][1][0]["problem"] == "no relocation for a reference"
    assert got["__jump_table"][1][0]["problem"] == "a relocation of another type than its field"
    assert got["__jump_table"][1][1]["problem"] == "-"


@pytest.mark.parametrize("linked", [False, True])
def test_mutants(etch_asan, tmp_path, linked):
    """Bytes of tables, relocations, symbols and section headers changed at random: rows,
    or one line, and never a crash."""
    path = build(tmp_path, all_tables(), linked)
    whole = path.read_bytes()
    with open(path, "rb") as f:
        elf = ELFFile(f)
        parts = [(s["sh_offset"], s["sh_size"]) for s in elf.iter_sections()
                 if s["sh_size"] and s["sh_type"] != "SHT_NOBITS" and s.name not in (".shstrtab", ".note.gnu.property")]
        headers = elf["e_shoff"], elf["e_shnum"] * elf["e_shentsize"]
    rng = random.Random(7)
    shown = 0
    for n in range(60):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            start, size = headers if n % 4 == 0 else rng.choice(parts)
            data[start + rng.randrange(size)] = rng.choice([0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)])
        if n % 10 == 9:
            del data[rng.randrange(64, len(data)):]
        mutant = tmp_path / "mutant"
        mutant.write_bytes(data)
        what = ["tables", "orc"][n % 2]
        p = run([etch_asan, "inspect", what, "--format", ["text", "tsv", "json"][n % 3], mutant], ok=None,
                env=asan_env(), errors="replace")
        assert p.returncode in (0, 2), (n, p.stderr[-3000:])
        assert len(p.stderr.splitlines()) == (p.returncode == 2), (n, p.stderr)
        shown += p.returncode == 0
    assert shown > 15


def test_a_name_with_anything_in_it(etch, tmp_path):
    path = tmp_path / 'k "\n\t\x1b.o'
    path.write_bytes(build(tmp_path, all_tables(), False).read_bytes())
    for what in ("tables", "orc"):
        assert run([etch, "inspect", what, path]).stdout.splitlines()[0].startswith(f'{tmp_path}/k "\\x0a\\x09\\x1b.o: ')
        assert json.loads(run([etch, "inspect", what, "--json", path]).stdout)["file"] == str(path)
        assert run([etch, "inspect", what, "--format", "tsv", path]).stdout.count("\x1b") == 0


def test_a_broken_pipe(etch, linux):
    with subprocess.Popen([etch, "inspect", "orc", linux / "xfs.ko"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        p.stdout.readline()
        p.stdout.close()
        assert p.stderr.read() == b""
