# SPDX-License-Identifier: MIT
"""etch check on the tables of rewritten files: tables out of step with the text, and such as
are none. Truth is what each test has changed."""

import re
import shutil
import struct

import pytest
from elftools.elf.elffile import ELFFile

from check_findings import FUNCTION, NOTE, assemble, findings, function
from conftest import Flow, asan_env, call_options, run


# ---- T003 ------------------------------------------------------------------------------------

PROGRAM = """
#include <etch/imv.h>
#include <etch/pv.h>
#include <stdio.h>
struct ops { int (*f)(int); int (*g)(int); };
static int one(int x) { return x + 1 + (int)(unsigned char)"abc"[x & 1]; }
static int two(int x) { return x + 2; }
ETCHED struct { int n, m; } cfg = { 5, 6 };
ETCHED struct ops ops = { one, two };
DEFINE_IMV(int, verbose) = 3;
int take(int x);
__attribute__((noinline)) int take(int x) { volatile char b[40]; b[x & 7] = 1; return pv_call(ops, f, x) + b[0]; }
int read_n(void);
__attribute__((noinline)) int read_n(void) { return imv_read(verbose) + cfg.n; }
int main(void) { printf("%d %d\\n", take(1), read_n()); return 0; }
"""


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory, build):
    """One program for each encoding of its unwind table, rewritten."""
    out = {}
    for encoding in ("block", "orc"):
        flow = Flow(tmp_path_factory.mktemp(encoding), build, "gcc")
        obj = flow.compile(PROGRAM, ("-O2", "-g", *call_options("gcc")))
        flow.rewrite(obj)
        exe = flow.link([obj])
        shutil.copy(exe, flow.tmp / "linked")
        flow.rewrite(exe, args=[f"--encoding={encoding}"])
        out[encoding] = (flow, exe)
    return out


def file_offset(path, addr):
    with open(path, "rb") as f:
        (at,) = [s["p_offset"] + addr - s["p_vaddr"] for s in ELFFile(f).iter_segments()
                 if s["p_type"] == "PT_LOAD" and 0 <= addr - s["p_vaddr"] < s["p_filesz"]]
    return at


def changed(path, tmp, at, change):
    """A copy with the bytes from file offset `at` on changed by a function of bytearray."""
    data = bytearray(path.read_bytes())
    change(memoryview(data)[at:])
    out = tmp / "changed"
    out.write_bytes(data)
    return out


def flip(n):
    def change(m):
        m[n] ^= 1
    return change


TABLES = ("ETCH-T003", "ETCH-T004")


@pytest.mark.parametrize("encoding", ["block", "orc"])
def test_rewritten_is_clean(rewritten, encoding):
    flow, exe = rewritten[encoding]
    assert run([exe]).stdout
    assert findings(flow.etch, exe, *TABLES) == []


def test_rewritten_again_and_otherwise(rewritten, tmp_path):
    """No option of rewrite makes a file that is out of step."""
    flow, exe = rewritten["block"]
    for n, args in enumerate((["--only", "imv"], ["--only", "orc"], ["--no-cfi"], ["--encoding=orc", "--no-cfi"], [])):
        copy = tmp_path / f"copy{n}"
        shutil.copy(exe, copy)
        flow.rewrite(copy, args=args)
        assert findings(flow.etch, copy, *TABLES) == [], args
        assert findings(flow.etch, copy, *TABLES, args=["--no-cfi"]) == [], args


def test_stripped_is_clean(rewritten, tmp_path):
    flow, exe = rewritten["block"]
    for n, args in enumerate((["strip", "-o"], ["strip", "-g", "-o"], ["objcopy", "--only-keep-debug"])[:2]):
        out = tmp_path / f"s{n}"
        run([*args, out, exe])
        assert findings(flow.etch, out, *TABLES) == []


@pytest.mark.parametrize("kind", ["load", "call"])
def test_changed_site(rewritten, tmp_path, kind):
    """Each byte of each baked site; the finding is there and nowhere else."""
    flow, exe = rewritten["block"]
    sites = flow.inspect("sites", exe)["sites"]
    baked = [s for s in sites if s["kind"] == kind and s.get("state") not in (None, "load", "indirect", "-")]
    assert baked
    for s in baked:
        addr = int(s["address"], 16)
        for k in (0, s["length"] - 1):
            out = changed(exe, tmp_path, file_offset(exe, addr), flip(k))
            got = findings(flow.etch, out, *TABLES)
            hit = [x for x in got if x["id"] == "ETCH-T003" and x["place"].get("address") == f"{addr:x}"]
            assert len(hit) == 1, (s, k, got)
            assert {f["label"] for f in hit[0]["facts"]} >= {"found"}
            # Bytes that are other instructions may change rows, too, but in that function alone.
            assert {function(x) for x in got} == {function(hit[0])}


def test_changed_value(rewritten, tmp_path):
    """Memory says 4, the code 3."""
    flow, exe = rewritten["block"]
    with open(exe, "rb") as f:
        (y,) = ELFFile(f).get_section_by_name(".symtab").get_symbol_by_name("verbose__imv")
        addr = y["st_value"]
    out = changed(exe, tmp_path, file_offset(exe, addr), flip(0))
    (x,) = findings(flow.etch, out, *TABLES)
    facts = {f["label"]: f["text"] for f in x["facts"]}
    assert function(x) == "read_n" and "$3" in facts["found"] and "$2" in facts["expected for the value in memory"]


def test_unpatched_site(rewritten, tmp_path):
    """The load is back, as the linker wrote it, by a tool that does not know the table."""
    flow, exe = rewritten["block"]
    before = flow.tmp / "linked"
    sites = [s for s in flow.inspect("sites", exe)["sites"] if s["kind"] == "load" and s["state"] == "immediate"]
    assert sites
    for s in sites:
        addr, n = int(s["address"], 16), s["length"]
        was, at = file_offset(before, addr), file_offset(exe, addr)
        load = before.read_bytes()[was:was + n]
        out = changed(exe, tmp_path, at, lambda m: m.__setitem__(slice(0, n), load))
        (x,) = findings(flow.etch, out, *TABLES)
        assert x["text"] == "the table says that this load is patched, but it is not"
        assert x["place"]["address"] == s["address"]


def test_table_out_of_order(rewritten, tmp_path):
    flow, exe = rewritten["block"]
    with open(exe, "rb") as f:
        table = ELFFile(f).get_section_by_name("__imv")
        at, n = table["sh_offset"], table["sh_size"] // 12
    data = bytearray(exe.read_bytes())
    entries = [data[at + 12 * i:at + 12 * i + 12] for i in range(n)]
    full = [i for i in range(n) if any(entries[i])]
    a, b = full[0], full[-1]
    assert a != b

    def moved(e, by):
        site, obj = struct.unpack_from("<ii", e)
        return struct.pack("<ii", site + by, obj + by) + e[8:]
    data[at + 12 * a:at + 12 * a + 12] = moved(entries[b], 12 * (b - a))
    data[at + 12 * b:at + 12 * b + 12] = moved(entries[a], 12 * (a - b))
    out = tmp_path / "changed"
    out.write_bytes(data)
    (x,) = findings(flow.etch, out, *TABLES)
    assert "out of order" in x["text"] and x["place"]["section"] == "__imv"


IN_PLACE = """
#include <etch/pv.h>
#define HIDDEN __attribute__((visibility("hidden")))
struct ops { int (*pick)(int); };
HIDDEN int first(int);
int first(int a) { return a; }
HIDDEN int other(int);
int other(int a) { return -a; }
extern HIDDEN struct ops ops;
DEFINE_PV_OPS(struct ops, ops) = { first };
struct ops elsewhere = { other };
__attribute__((noinline)) int work(int x);
__attribute__((noinline)) int work(int x) { return pv_call_inline(ops, pick, first, x + 1, x + 1) ^ 5; }
int main(int c, char **v) { (void)v; return elsewhere.pick(work(c)) == 7; }
"""


def test_in_place(flow_gcc, tmp_path):
    """The nop of a case compiled in place; damaged; and with another function in its slot."""
    obj = flow_gcc.compile(IN_PLACE, ("-O2", "-fno-pie"))
    flow_gcc.rewrite(obj)
    exe = flow_gcc.link([obj], ["-no-pie"])
    flow_gcc.rewrite(exe)
    assert findings(flow_gcc.etch, exe, *TABLES) == []
    (s,) = [s for s in flow_gcc.inspect("sites", exe)["sites"] if s["kind"] == "inline"]
    assert s["state"] == "in place"
    addr = int(s["address"], 16)
    (x,) = findings(flow_gcc.etch, changed(exe, tmp_path, file_offset(exe, addr), flip(2)), "ETCH-T003")
    assert x["place"]["address"] == s["address"] and "neither the jump" in x["text"]
    with open(exe, "rb") as f:
        tab = ELFFile(f).get_section_by_name(".symtab")
        ops, other = (tab.get_symbol_by_name(n)[0]["st_value"] for n in ("ops", "other"))
    out = changed(exe, tmp_path, file_offset(exe, ops), lambda m: struct.pack_into("<Q", m, 0, other))
    got = [x for x in findings(flow_gcc.etch, out, *TABLES) if "inline copy" in x["text"]]
    assert [x["place"]["address"] for x in got] == [s["address"]]


def test_malformed_descriptor(rewritten, tmp_path):
    flow, exe = rewritten["block"]
    with open(exe, "rb") as f:
        at = ELFFile(f).get_section_by_name("__etch_mod")["sh_offset"]
    out = changed(exe, tmp_path, at, flip(4))  # its version
    got = findings(flow.etch, out, "ETCH-T003")
    assert len(got) == 1 and "module descriptor" in got[0]["text"]


def test_new_store_to_an_armed_object(rewritten, tmp_path):
    """A record says armed, and code that stores to it has come in: here by changing a load."""
    flow, exe = rewritten["block"]
    with open(exe, "rb") as f:
        e = ELFFile(f)
        tab = e.get_section_by_name(".symtab")
        cfg, main = tab.get_symbol_by_name("cfg")[0]["st_value"], tab.get_symbol_by_name("main")[0]["st_value"]
    store = b"\xc7\x05" + struct.pack("<i", cfg - main - 10) + struct.pack("<i", 1)  # movl $1, cfg(%rip)
    data = bytearray(exe.read_bytes())
    at = file_offset(exe, main)
    data[at:at + len(store)] = store
    out = tmp_path / "changed"
    out.write_bytes(data)
    got = [x for x in findings(flow.etch, out, "ETCH-T003") if "the record of cfg" in x["text"]]
    assert len(got) == 1 and "stores to it" in got[0]["text"]
    assert got[0]["facts"][0]["label"] == "stored to" and got[0]["facts"][0]["place"]["function"] == "main"


@pytest.mark.parametrize("encoding", ["block", "orc"])
def test_changed_text_under_the_unwind_table(rewritten, tmp_path, encoding):
    """The frame of take() has another size than when the table was made."""
    flow, exe = rewritten[encoding]
    with open(exe, "rb") as f:
        (y,) = ELFFile(f).get_section_by_name(".symtab").get_symbol_by_name("take")
    start, size = file_offset(exe, y["st_value"]), y["st_size"]
    body = exe.read_bytes()[start:start + size]
    at = body.index(b"\x48\x83\xec")  # sub $imm8, %rsp

    def grow(m):
        m[at + 3] += 16
    out = changed(exe, tmp_path, start, grow)
    got = findings(flow.etch, out, *TABLES)
    assert {x["id"] for x in got} == {"ETCH-T003"} and {function(x) for x in got} == {"take"}
    assert got[0]["facts"][0]["label"] == "the table" and got[0]["facts"][0]["text"] != got[0]["facts"][1]["text"]


def test_table_of_another_build(rewritten, tmp_path):
    flow, exe = rewritten["block"]
    with open(exe, "rb") as f:
        at = ELFFile(f).get_section_by_name(".note.gnu.build-id")["sh_offset"] + 16
    (x,) = findings(flow.etch, changed(exe, tmp_path, at, flip(0)), *TABLES)
    assert "build-id" in x["text"]


# ---- T004 ------------------------------------------------------------------------------------

def orc_section(exe, name):
    with open(exe, "rb") as f:
        s = [s for s in ELFFile(f).iter_sections() if s.name == name][-1]
        return s["sh_offset"], s["sh_size"]


@pytest.mark.parametrize("name,change,said", [
    (".orc_unwind_ip", lambda m: swap(m, 40, 4), "not sorted"),
    (".orc_lookup", lambda m: flip(8)(m), "entry 2 of .orc_lookup"),
    (".orc_unwind", lambda m: m.__setitem__(slice(6 * 5 + 4, 6 * 5 + 6), b"\xff\xff"), "row 5, for"),
    (".etch.unwind", lambda m: flip(16)(m), "malformed"),
])
def test_malformed_orc(rewritten, tmp_path, name, change, said):
    flow, exe = rewritten["orc"]
    at, _ = orc_section(exe, name)
    got = findings(flow.etch, changed(exe, tmp_path, at, change), *TABLES)
    assert [x["id"] for x in got] == ["ETCH-T004"] and said in got[0]["text"], got


def swap(m, at, n):
    """Exchanges what two self-relative fields refer to."""
    a, b = struct.unpack_from("<ii", m, at)
    struct.pack_into("<ii", m, at, b + n, a - n)


def test_malformed_block_table(rewritten, tmp_path):
    flow, exe = rewritten["block"]
    at, size = orc_section(exe, ".etch.unwind")
    out = changed(exe, tmp_path, at, lambda m: struct.pack_into("<I", m, 20, 7))
    assert [x["id"] for x in findings(flow.etch, out, *TABLES)] == ["ETCH-T004"]


def test_classic_arrays(etch, tmp_path):
    def arrays(ip, orc):
        return FUNCTION + f'\t.section .orc_unwind_ip,"a"\n{ip}\t.section .orc_unwind,"a"\n{orc}' + NOTE
    row = "\t.value 8, 0, 0x205\n"
    ip = "\t.long f - .\n"
    for name, text, n in (("good", arrays(ip * 2, row * 2), 0), ("odd", arrays(ip + "\t.byte 1\n", row), 1),
                          ("fewer", arrays(ip * 2, row), 1), ("alone", arrays(ip, "").split("\t.section .orc_unwind,")[0] + NOTE, 1)):
        obj = assemble(tmp_path, text, name)
        assert len(findings(etch, obj, "ETCH-T004")) == n, name
    obj = assemble(tmp_path, arrays("\t.long f + 1 - .\n" + ip, row * 2), "order")
    so = tmp_path / "order"
    main = assemble(tmp_path, "\t.text\n\t.globl main\nmain:\tret\n" + NOTE, "main")
    run(["gcc", "-no-pie", "-o", so, obj, main])
    (x,) = findings(etch, so, "ETCH-T004")
    assert "not sorted" in x["text"]
    run([etch, "rewrite", so])
    assert findings(etch, so, *TABLES) == []


# ---- hostile input -----------------------------------------------------------------------------------

def test_damaged_files_are_said_so_or_refused(etch_asan, rewritten, tmp_path):
    """Bytes of tables and notes changed one by one: never more than findings or one line."""
    flow, exe = rewritten["orc"]
    with open(exe, "rb") as f:
        spans = [(s["sh_offset"], s["sh_size"]) for s in ELFFile(f).iter_sections()
                 if s.name in ("__imv", "__pv_sites", "__etch_obj", "__etch_mod", ".eh_frame", ".orc_lookup", ".dynamic",
                               ".etch.unwind", ".rela.dyn")]
    data = exe.read_bytes()
    out = tmp_path / "damaged"
    for n, (at, size) in enumerate(spans):
        for k in (n % 3,):
            copy = bytearray(data)
            for j in range(at + k * 7 + n, at + size, 97 + 31 * k):
                copy[j] ^= 0x80 >> (k + n) % 8
            out.write_bytes(copy)
            p = run([etch_asan, "check", "--format", "json", "--fail-on", "never", out], ok=(0, 2), env=asan_env())
            assert p.returncode == 0 or re.fullmatch(r"etch: [^\n]*\n", p.stderr), p.stderr
