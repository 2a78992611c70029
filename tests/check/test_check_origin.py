# SPDX-License-Identifier: MIT
"""What etch check says of findings that no change of the source can correct, of many in one function or one runtime, and of one that
is in an object, an archive and a program: who is asked to correct what, and how often it is told."""

import json

import pytest

from check_files import valid_json, valid_sarif
from check_files import sarif_schema  # noqa: F401  (a fixture)
from conftest import run

# DWARF of a function f in a unit of a language: what a compiler writes.
DWARF = """
	.section .debug_abbrev,"",@progbits
	.byte 1,0x11,1, 0x13,0x05, 0x03,0x08, 0x11,0x01, 0x12,0x07, 0,0
	.byte 2,0x2e,0, 0x03,0x08, 0x11,0x01, 0x12,0x07, 0,0
	.byte 0
	.section .debug_info,"",@progbits
	.long 2f-1f
1:	.short 4
	.long 0
	.byte 8
	.byte 1
	.short LANGUAGE
	.asciz "f.c"
	.quad f
	.quad f_end-f
	.byte 2
	.asciz "f"
	.quad f
	.quad f_end-f
	.byte 0
2:
"""
TAIL = '\t.section .note.GNU-stack,"",@progbits\n'


def function(body):
    return (f"\t.file 1 \"f.c\"\n\t.text\n\t.globl f\n\t.type f,@function\nf:\t.cfi_startproc\n\t.loc 1 1\n{body}\n"
            "\t.cfi_endproc\nf_end:\n\t.size f,.-f\n" + TAIL)


# The directive of the second push comes an instruction late: clang 14 does so between a push and a load.
LATE = function("""
	push %rbx
	.cfi_adjust_cfa_offset 8
	push %rdi
	mov 8(%rsp),%rbx
	.cfi_adjust_cfa_offset 8
	call g
	pop %rcx
	.cfi_adjust_cfa_offset -8
	pop %rbx
	.cfi_adjust_cfa_offset -8
	ret""")
# Of two pops at once: clang 14 with -Oz.
POPS = function("""
	push %rdi
	.cfi_adjust_cfa_offset 8
	push %rsi
	.cfi_adjust_cfa_offset 8
	call g
	pop %rcx
	pop %rdx
	.cfi_adjust_cfa_offset -16
	mov $1,%eax
	ret""")
# After the code that does not go on the table has its frame: no .cfi_remember_state.
CARRIED = function("""
	test %edi,%edi
	js 1f
	sub $24,%rsp
	.cfi_adjust_cfa_offset 24
	call g
	ud2
1:	mov $1,%eax
	ret""")
# What inline assembly does: the table never has the push.
INLINE = function("""
	sub $8,%rsp
	.cfi_adjust_cfa_offset 8
	push %rax
	nop
	pop %rax
	call g
	add $8,%rsp
	.cfi_adjust_cfa_offset -8
	ret""")
C99 = DWARF.replace("LANGUAGE", "0xc")
ASSEMBLY = DWARF.replace("LANGUAGE", "0x8001")


def assemble(directory, source, name="f.o"):
    (directory / "f.s").write_text(source)
    run(["gcc", "-c", "f.s", "-o", name], cwd=directory)
    (directory / "f.s").unlink()
    return name


def check(etch, cwd, *args, ok=0):
    return run([etch, "check", *args], ok=ok, cwd=cwd)


def findings(p, file=0):
    return [x for x in json.loads(p.stdout)["files"][file]["findings"] if x["severity"] != "note" or "origin" in x]


@pytest.mark.parametrize("source", [LATE, POPS, CARRIED], ids=["late", "pops", "carried"])
def test_a_disagreement_that_a_compiler_made_does_not_fail(etch, tmp_path, source):
    """The class: .eh_frame and code of one compiler do not agree, and the source cannot change that."""
    assemble(tmp_path, source + C99)
    p = check(etch, tmp_path, "f.o")
    assert ": note: .eh_frame says CFA" in p.stdout and "(compiler-generated) [ETCH-C001" in p.stdout
    assert p.stdout.endswith("\n1 note in 1 file\n")
    (x,) = findings(check(etch, tmp_path, "--format", "json", "f.o"))
    assert x["origin"] == "compiler" and x["severity"] == "note"


@pytest.mark.parametrize("source", [LATE, POPS, CARRIED, INLINE + C99, LATE + ASSEMBLY],
                         ids=["late", "pops", "carried", "inline", "assembly"])
def test_without_evidence_it_stays_the_users(etch, tmp_path, source):
    """No DWARF, DWARF of an assembler, or code that no compiler's table is late for."""
    assemble(tmp_path, source)
    p = check(etch, tmp_path, "f.o", ok=1)
    assert ": error: .eh_frame says" in p.stdout and "compiler's)" not in p.stdout
    assert all("origin" not in x for x in findings(check(etch, tmp_path, "--format", "json", "f.o", ok=1)))


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("level", ["-O1", "-O2", "-Os"])
def test_inline_assembly_is_the_users(etch, tmp_path, cc, level):
    (tmp_path / "a.c").write_text('extern int h(int,int);\nint f(int x)\n{\n\tint a = h(5,6);\n'
                                  '\tasm volatile("push %%rax\\n nop\\n pop %%rax" ::: "memory");\n\treturn a + x;\n}\n'
                                  'int g(int x)\n{\n\tint a = h(5,6);\n\tasm volatile("push %%rax" ::: "memory");\n'
                                  '\tif (h(x,3)) a = h(a,5);\n\tasm volatile("pop %%rax" ::: "memory");\n\treturn a + x;\n}\n')
    run([cc, level, "-g", "-fomit-frame-pointer", "-c", "a.c"], cwd=tmp_path)
    p = check(etch, tmp_path, "--format", "json", "a.o", ok=1)
    assert {x["place"]["function"] for x in findings(p)} == {"f", "g"}
    assert all("origin" not in x and x["severity"] == "error" for x in findings(p))


def test_one_of_the_users_in_a_function_makes_all_of_it_the_users(etch, tmp_path):
    """What inline assembly has moved may be seen after a jump first."""
    assemble(tmp_path, LATE.replace("\tcall g\n", "\tcall g\n\tpush %rax\n\tcall g\n\tpop %rax\n", 1) + C99)
    p = check(etch, tmp_path, "--format", "json", "f.o", ok=1)
    assert len(findings(p)) == 2 and not any("origin" in x for x in findings(p))


def test_an_object_without_dwarf_by_the_name_of_its_source(etch, tmp_path):
    assemble(tmp_path, '\t.file "f.c"\n' + LATE.replace('\t.file 1 "f.c"\n', "").replace("\t.loc 1 1\n", ""))
    assert "(compiler-generated)" in check(etch, tmp_path, "f.o").stdout
    assemble(tmp_path, '\t.file "f.S"\n' + LATE.replace('\t.file 1 "f.c"\n', "").replace("\t.loc 1 1\n", ""))
    assert "(compiler-generated)" not in check(etch, tmp_path, "f.o", ok=1).stdout


@pytest.mark.parametrize("word,status,line", [
    ("error", 1, "1 error in 1 file"), ("warning", 1, "1 warning in 1 file"), ("note", 0, "1 note in 1 file"),
    ("ignore", 0, "no findings in 1 file (1 suppressed)")])
def test_what_the_compilers_count_as(etch, tmp_path, sarif_schema, word, status, line):  # noqa: F811
    assemble(tmp_path, LATE + C99)
    assert check(etch, tmp_path, "--compiler", word, "f.o", ok=status).stdout.splitlines()[-1] == line
    check(etch, tmp_path, f"--compiler={word}", "--fail-on", "error", "f.o", ok=int(word == "error"))
    d = valid_json(check(etch, tmp_path, "--format", "json", "--compiler", word, "f.o", ok=status))
    x = next(x for x in d["files"][0]["findings"] if x["id"] == "ETCH-C001")
    assert x["severity"] == ("note" if word == "ignore" else word) and d["exit"] == status
    assert x.get("suppressed") == ("--compiler=ignore" if word == "ignore" else None)
    r = valid_sarif(check(etch, tmp_path, "--format", "sarif", "--compiler", word, "f.o", ok=status), sarif_schema)
    (x,) = r["results"]
    assert x["level"] == ("note" if word == "ignore" else word) and x["properties"]["origin"] == "compiler"
    assert bool(x.get("suppressions")) == (word == "ignore")


# ---- the same place in several files ------------------------------------------------------


@pytest.fixture
def built(tmp_path):
    """An object, an archive with it, a library linked from it, and that without DWARF."""
    assemble(tmp_path, LATE + C99)
    run(["ar", "rc", "libf.a", "f.o"], cwd=tmp_path)
    run(["ld", "-shared", "--unresolved-symbols=ignore-all", "-o", "f.so", "f.o"], cwd=tmp_path)
    run(["strip", "-g", "-o", "bare.so", "f.so"], cwd=tmp_path)
    return tmp_path


@pytest.mark.parametrize("order", [("f.o", "libf.a", "f.so"), ("f.so", "f.o", "libf.a"), ("bare.so", "libf.a")])
@pytest.mark.parametrize("jobs", [[], ["-j2"]])
def test_a_place_is_told_once_with_all_files_that_have_it(etch, built, sarif_schema, order, jobs):  # noqa: F811
    p = check(etch, built, *jobs, *order)
    assert p.stdout.count("[ETCH-C001") == 1
    shown = ["libf.a(f.o)" if x == "libf.a" else x for x in order]
    assert p.stdout.startswith(shown[0] + ": f+") and f"    also in: {', '.join(shown[1:])}\n" in p.stdout
    assert p.stdout.endswith(f"\n1 note in {len(order)} files\n")
    d = valid_json(check(etch, built, *jobs, "--format", "json", *order))
    assert d["summary"]["found"] == {"errors": 0, "warnings": 0, "notes": 1}
    names = [{"path": x} | ({"member": "f.o"} if x == "libf.a" else {}) for x in order]
    one = [next(x for x in f["findings"] if x["id"] == "ETCH-C001") for f in d["files"]]
    assert one[0]["also_in"] == names[1:] and [x.get("same_as") for x in one] == [None] + [names[0]] * (len(order) - 1)
    # A stripped library is known by the object's evidence.
    assert all(x["origin"] == "compiler" for x in one)
    r = valid_sarif(check(etch, built, "--format", "sarif", *order), sarif_schema)
    (x,) = r["results"]
    said = [y["message"]["text"] for y in x["relatedLocations"]]
    assert said.count("the same in another file") == len(order) - 1


def test_other_code_of_the_same_name_is_another_place(etch, tmp_path):
    """Objects of other names are other code; so is a function of another length in what is linked."""
    for name in ("a.o", "b.o"):
        assemble(tmp_path, LATE, name)
    assert check(etch, tmp_path, "a.o", "b.o", ok=1).stdout.count("[ETCH-C001") == 2
    run(["ld", "-shared", "--unresolved-symbols=ignore-all", "-o", "a.so", "a.o"], cwd=tmp_path)
    assemble(tmp_path, LATE.replace("\tret", "\tnop\n\tret"), "c.o")
    p = check(etch, tmp_path, "a.so", "c.o", ok=1)
    assert p.stdout.count("[ETCH-C001") == 2 and "also in" not in p.stdout


def test_what_is_suppressed_in_one_file_counts_in_another(etch, built):
    p = check(etch, built, "--compiler=error", "--ignore", "*:f.o", "f.o", "bare.so", ok=1)
    assert p.stdout.endswith("1 error in 2 files (1 suppressed)\n") and "also in" not in p.stdout


# ---- many in one function or runtime --------------------------------------------------------

LEAK = "\t.text\n\t.globl {0}\n\t.type {0},@function\n{0}:\n{1}\t.size {0},.-{0}\n"


def leaks(name, n):
    """A function with n returns that have a word too many on the stack."""
    tests = "".join(f"\tcmp ${i},%edi\n\tje {i + 1}f\n" for i in range(n - 1))
    ends = "".join(f"{i + 1}:\tmov ${i},%eax\n\tsub $24,%rsp\n\tcall g\n\tadd $16,%rsp\n\tret\n" for i in range(n - 1))
    return LEAK.format(name, tests + "\tsub $24,%rsp\n\tcall g\n\tadd $16,%rsp\n\tret\n" + ends)


def test_many_of_one_kind_in_a_function_are_one(etch, tmp_path, sarif_schema):  # noqa: F811
    assemble(tmp_path, leaks("many", 12) + leaks("few", 3) + TAIL)
    p = check(etch, tmp_path, "f.o", ok=1)
    many = [x for x in p.stdout.splitlines() if "f.o: many+" in x]
    assert len(many) == 1 and "(and at 11 more places) [ETCH-S002" in many[0]
    assert "    also: at many+" in p.stdout and " and 6 more\n" in p.stdout
    d = valid_json(check(etch, tmp_path, "--format", "json", "f.o", ok=1))
    x = [x for x in d["files"][0]["findings"] if x["id"] == "ETCH-S002"]
    assert [(y["place"]["function"], y.get("places")) for y in x] == [("many", 12)] + [("few", None)] * 3
    assert len(x[0]["also"]) == 9 and x[0]["also"][-1]["offset"] > x[0]["also"][-2]["offset"]
    each = valid_json(check(etch, tmp_path, "--each", "--format", "json", "f.o", ok=1))["files"][0]["findings"]
    assert sum(y["id"] == "ETCH-S002" for y in each) == 15 and not any("places" in y for y in each)
    valid_sarif(check(etch, tmp_path, "--format", "sarif", "f.o", ok=1), sarif_schema)


def test_a_baseline_counts_places(etch, tmp_path):
    """As many as there were are known, told together or one by one; one more is new."""
    def document(n, *args):
        assemble(tmp_path, leaks("f", n) + TAIL)
        return check(etch, tmp_path, "--format", "json", *args, "f.o", ok=1).stdout
    for n, args in (3, []), (6, []), (6, ["--each"]):
        (tmp_path / "old.json").write_text(document(n, *args))
        assert "no findings" in check(etch, tmp_path, "--baseline", "old.json", "f.o").stdout
        for more in (n + 1, 9):
            document(more)
            check(etch, tmp_path, "--baseline", "old.json", "f.o", ok=1)
        document(2)
        check(etch, tmp_path, "--baseline", "old.json", "f.o")


RUNTIMES = {
    "OCaml": "\t.globl camlM__code_begin\ncamlM__code_begin:\n{}\t.globl camlM__code_end\ncamlM__code_end:\n",
    "Dart": "\t.globl _kDartSnapshotText\n\t.type _kDartSnapshotText,@object\n_kDartSnapshotText:\n{}"
            "\t.size _kDartSnapshotText,.-_kDartSnapshotText\n",
    "V8": "{}" + LEAK.format("Builtins_InterpreterEntryTrampoline", "\tret\n") + LEAK.format("Builtins_CEntry_Return1", "\tret\n"),
}


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_runtime_is_one_finding(etch, tmp_path, name):
    """The class: code by other conventions than the psABI's, by design; what is not of it is told as ever."""
    prefix = "Builtins_" if name == "V8" else "caml"
    inner = "".join(leaks(f"{prefix}{i}", 2) for i in range(5))
    assemble(tmp_path, "\t.text\n" + RUNTIMES[name].format(inner) + TAIL)
    run(["ld", "-shared", "--unresolved-symbols=ignore-all", "-o", "r.so", "f.o"], cwd=tmp_path)
    for path in ("f.o", "r.so"):
        p = check(etch, tmp_path, path)
        assert f"{path}: note: code of {name}: 5 functions with non-psABI conventions" in p.stdout
        assert p.stdout.count("[ETCH-") == 1 and "(10 places in 5 functions)" in p.stdout
        check(etch, tmp_path, "--compiler=warning", path, ok=1)
        each = [x for x in findings(check(etch, tmp_path, "--each", "--format", "json", path)) if x["id"] == "ETCH-S002"]
        assert len(each) == 10 and all(x["origin"] == "compiler" for x in each)
    assemble(tmp_path, "\t.text\n" + RUNTIMES[name].format(inner) + leaks("mine", 1) + TAIL)
    assert [x["place"].get("function") for x in findings(check(etch, tmp_path, "--format", "json", "f.o", ok=1))] == [None, "mine"]


def test_a_plt_that_a_linker_made_is_the_linkers(etch, tmp_path):
    """Some linkers have no row for what a lazy entry pushes: one block, whatever the number of entries."""
    entry = "\tjmp *0x2000(%rip)\n\tpush ${}\n\tjmp first\n"
    (tmp_path / "p.s").write_text("\t.section .plt,\"ax\",@progbits\n\t.cfi_startproc\nfirst:\tpush 0x2000(%rip)\n"
                                  "\tjmp *0x2000(%rip)\n\tnopl 0(%rax)\n" + "".join(entry.format(i) for i in range(20)) +
                                  "\t.cfi_endproc\n" + TAIL)
    run(["gcc", "-c", "p.s", "-o", "p.o"], cwd=tmp_path)
    run(["ld", "-shared", "-o", "p.so", "p.o"], cwd=tmp_path)
    found = [x for x in findings(check(etch, tmp_path, "--format", "json", "p.so")) if x["id"] == "ETCH-C001"]
    assert found and all(x["origin"] == "compiler" for x in found) and sum(x.get("places", 1) for x in found) > len(found)
