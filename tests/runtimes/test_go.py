# SPDX-License-Identifier: MIT
"""Go programs have no .eh_frame, and those of a distribution no symbols: their functions are
found by the table that the Go linker leaves in .gopclntab (tool/elf/pclntab.c)."""

import bisect
import json
import os
import re
import shutil
import struct
import subprocess

import pytest
from elftools.elf.elffile import ELFFile

import gotable
import rows
from conftest import run


# Nothing calls `hidden`, and nothing but the table says that it is there. `user` is as Go's
# compiler makes them: after the call of gopanic, which does have a return, its block is over,
# and morestack, which has none, comes back.
SOURCE = r"""
	.text
	.globl _start
_start:
	lea hidden(%rip), %rax
	xor %edi, %edi
	mov $60, %eax
	syscall
	.p2align 5, 0xcc
hidden:
	push %rbp
	mov %rsp, %rbp
	sub $48, %rsp
	add $48, %rsp
	pop %rbp
	ret
	.p2align 5, 0xcc
user:
	cmp 16(%r14), %rsp
	jbe 1f
	sub $24, %rsp
	test %rbx, %rbx
	je 2f
	add $24, %rsp
	ret
2:	call gopanic
	nop
1:	mov %rax, 8(%rsp)
	call morestack
	mov 8(%rsp), %rax
	jmp user
	.p2align 5, 0xcc
gopanic:
	sub $8, %rsp
	add $8, %rsp
	ret
	.p2align 5, 0xcc
morestack:
	mov (%rbx), %rsp
	call *%rax
	ud2
	.p2align 5, 0xcc
goexit:
	nop
	and $-16, %rsp
	call hidden
	nop
	.p2align 5, 0xcc
mcall:
	mov %rax, %rdx
	mov 0x38(%r14), %rsp
	push %rax
	call *(%rdx)
	hlt
	.p2align 5, 0xcc
over:
	.section .gopclntab, "a"
	.p2align 5
table:
	.long @MAGIC@
	.byte 0, 0, 1, 8
	.quad 6, 0, 0, names - table, names - table, names - table, names - table, functab - table
names:	.asciz "main.hidden", "main.user", "runtime.gopanic", "runtime.morestack", "runtime.goexit", "runtime.mcall"
	.p2align 2
functab:
	.long hidden - hidden, f0 - functab, user - hidden, f1 - functab, gopanic - hidden, f2 - functab
	.long morestack - hidden, f3 - functab, goexit - hidden, f4 - functab
	.long mcall - hidden, f5 - functab, over - hidden
	.macro record label, entry, name, flag
\label:	.long \entry - hidden, \name
	.skip @FLAG@ - 8
	.byte \flag, 0, 0
	.endm
	record f0, hidden, 0, 0
	record f1, user, 12, 0
	record f2, gopanic, 22, 0
	record f3, morestack, 38, 2
	record f4, goexit, 56, 1
	record f5, mcall, 71, 2
	.section .go.module, "aw"
	.p2align 3
	.quad table
	.skip 19 * 8
	.quad @MIN@, @MAX@
"""
KINDS = {"exe": ["-static", "-no-pie"], "pie": ["-static-pie", "-fPIE"]}


def build(dir_, kind="exe", magic=0xFFFFFFF1, low="hidden", high="over"):
    text = SOURCE.replace("@MAGIC@", hex(magic)).replace("@FLAG@", "41" if magic & 1 else "37")
    source = dir_ / "go.s"
    source.write_text(text.replace("@MIN@", low).replace("@MAX@", high))
    out = dir_ / f"go-{kind}"
    run(["gcc", "-nostdlib", *KINDS[kind], "-o", out, source])
    at = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", out]).stdout.splitlines()}
    run(["strip", out])
    return out, at


def rules(etch, program, at):
    """Of each function its rules in order, as CFA and kind."""
    run([etch, "rewrite", "--only", "orc", program])
    ours = rows.inspect_rows(etch, program)
    names = sorted((a, n) for n, a in at.items() if n in ("hidden", "user", "gopanic", "morestack", "goexit", "mcall", "over"))
    return {n: [(r[2][0], r[2][3]) for r in ours if a < r[1] and r[0] < names[i + 1][0]]
            for i, (a, n) in enumerate(names[:-1])}


def test_calls_that_do_not_return(etch, tmp_path):
    """gopanic's does not, though it has a return; morestack's does, which has none."""
    program, at = build(tmp_path)
    shown = json.loads(run([etch, "inspect", "code", "--json", hex(at["user"]), program]).stdout)
    assert {i["target"]["address"]: i["comes_back"] for i in shown["code"] if i["flow"] == "call"} == {
        f"{at['gopanic']:x}": False, f"{at['morestack']:x}": True}


@pytest.mark.parametrize("magic", [0xFFFFFFF0, 0xFFFFFFF1])
@pytest.mark.parametrize("kind", KINDS)
def test_functions_that_only_the_table_names(etch, tmp_path, kind, magic):
    program, at = build(tmp_path, kind, magic)
    r = rules(etch, program, at)
    assert r["hidden"][:3] == [("rsp+8", "call"), ("rsp+16", "call"), ("rbp+16", "call")]
    assert r["user"] == [("rsp+8", "call"), ("rsp+32", "call"), ("rsp+8", "call"), ("rsp+32", "call"), ("rsp+8", "call")]
    assert {kind for _, kind in r["goexit"]} == {"end"}  # after the and, too, where no CFA is known
    assert r["morestack"] == [("rsp+8", "call"), ("undef", "undef")]
    assert r["mcall"] == [("rsp+8", "call"), ("undef", "end")]  # from where it takes the other stack on
    check = run([etch, "check", "--fail-on", "never", "--level", "note", program]).stdout
    assert "ETCH-S005" not in check and "ETCH-D005" not in check and "ETCH-T" not in check


@pytest.mark.parametrize("change", [{"low": "0"}, {"high": "over + 1"}, {"magic": 0xFFFFFFFB}, {"low": "user", "high": "over"}])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_is_not_confirmed(etch, tmp_path, kind, change):
    """Its base is not where the module data says, or its format is another one."""
    program, at = build(tmp_path, kind, **change)
    assert all(kind == "undef" for _, kind in rules(etch, program, at)["goexit"])


def test_hostile_tables(etch, build_asan, tmp_path):
    program, _ = build(tmp_path)
    data = program.read_bytes()
    with open(program, "rb") as f:
        elf = ELFFile(f)
        table, text = elf.get_section_by_name(".gopclntab"), elf.get_section_by_name(".text")
        at, size = table["sh_offset"], table["sh_size"]
    bad = tmp_path / "bad"
    values = (0x7FFFFFFF, text["sh_size"])
    for i, place in enumerate([8, 32, 64, *range(72, size - 3, 4)]):
        for value in values if os.environ.get("ETCH_TESTS") == "all" else values[i % 2:][:1]:
            bad.write_bytes(data[:at + place] + struct.pack("<I", value) + data[at + place + 4:])
            p = subprocess.run([build_asan / "etch", "rewrite", "-o", tmp_path / "out", bad], capture_output=True, text=True)
            assert p.returncode in (0, 1, 2) and "Sanitizer" not in p.stderr, (place, value, p.stderr)


# ---- real ones ------------------------------------------------------------------------------

PROGRAM = r"""
package main
import ("fmt"; "os"; "sort"; "strings"; "sync")
type pair struct{ a, b int }
func work(n int) (r []string) {
	m := map[int]pair{}
	for i := 0; i < n; i++ { m[i*7919%10007] = pair{i, i * i} }
	for k, v := range m { r = append(r, fmt.Sprintf("%d:%d:%d", k, v.a, v.b)) }
	sort.Strings(r)
	return
}
func deep(n int) int { if n == 0 { return 0 }; var x [64]int; x[n%64] = n; return deep(n-1) + x[n%64] }
func main() {
	defer func() { fmt.Println("recovered", recover()) }()
	var wg sync.WaitGroup
	out := make([]int, 8)
	for i := range out { wg.Add(1); go func(i int) { defer wg.Done(); out[i] = deep(20000 + i) }(i) }
	wg.Wait()
	s := work(5000)
	fmt.Println(out, len(s), strings.Join(s[:3], ","), len(os.Args))
	var none []int
	fmt.Println(none[len(s)])
}
"""
NOPS = re.compile(rb"(?:(?:\x66*\x2e?(?:\x0f\x1f[\x00-\xff]{1,6}|\x90))|\xcc)+")


def differences(etch, program, text_at=None):
    """Bytes by what our rows say of them beside Go's own table of the rewritten program."""
    ours, count, wrong = rows.inspect_rows(etch, program), {}, []
    starts = [r[0] for r in ours]
    with open(program, "rb") as f:
        text = ELFFile(f).get_section_by_name(".text")
        code, base = text.data(), text["sh_addr"]
    for f in gotable.functions(program, text_at):
        if f.flag & (gotable.TOP_FRAME | gotable.SP_WRITE):
            continue
        for a, b, below in f.frames:
            for k in range(max(bisect.bisect_right(starts, a) - 1, 0), bisect.bisect_left(starts, b)):
                s, e = max(a, ours[k][0]), min(b, ours[k][1])
                cfa, _, _, kind = ours[k][2]
                what = kind if kind != "call" else "rbp" if cfa.startswith("rbp") else \
                    "right" if cfa == f"rsp+{below + 8}" else "padding" if NOPS.fullmatch(code[s - base:e - base]) else "wrong"
                count[what] = count.get(what, 0) + max(e - s, 0)
                if what == "wrong" and s < e:
                    wrong.append((f.name, hex(s), below + 8, ours[k]))
    return count, wrong


@pytest.mark.parametrize("kind", ["exe", "pie"] if os.environ.get("ETCH_TESTS") == "all" and shutil.which("go") else [])
def test_rows_are_those_of_the_go_linker(etch, go, tmp_path, kind):
    (tmp_path / "main.go").write_text(PROGRAM)
    go("build", "-ldflags=-s -w", f"-buildmode={kind}", "-o", "a", "main.go", cwd=tmp_path, GOFLAGS="-mod=mod")
    before = run([tmp_path / "a"]).stdout
    run([etch, "rewrite", tmp_path / "a"])
    assert run([tmp_path / "a"]).stdout == before
    with open(tmp_path / "a", "rb") as f:
        text = ELFFile(f).get_section_by_name(".text")
    count, wrong = differences(etch, tmp_path / "a", text["sh_addr"])
    assert not wrong and count["right"] > 100000 and count.get("undef", 0) < sum(count.values()) / 100, (count, wrong[:5])
