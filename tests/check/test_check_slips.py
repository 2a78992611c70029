# SPDX-License-Identifier: MIT
"""Files of compilers whose .eh_frame does not follow the code (ETCH-N003): clang before 7, icc and icx describe the frame
at calls, and not in epilogues or after them. Without DWARF, what shows it is that many functions of the file are so. Here
a compiler's functions, of which the directives are taken out that such compilers do not write."""

import io
import json
import re

import pytest
from elftools.elf.elffile import ELFFile

import mutants
from check_files import valid_sarif
from check_files import sarif_schema  # noqa: F401  (a fixture)
from conftest import CCS, run

COUNT = 20


def is_restore(line):
    return mutants.word(line).startswith(("pop", "leave")) or re.match(r"\taddq\t\$\d+, %rsp", line)


def no_epilogues(lines):
    """No directive after a restore."""
    out, in_epilogue = [], False
    for line in lines:
        if line.startswith("\t.cfi_") and "endproc" not in line and in_epilogue:
            continue
        if line.startswith("\t.cfi_remember_state") or line.startswith("\t.cfi_restore_state"):
            continue
        in_epilogue |= bool(is_restore(line))
        if mutants.is_label(line) or mutants.is_end(line):
            in_epilogue = False
        out.append(line)
    return out


def no_states(lines):
    """The row of an epilogue goes on after it."""
    return [line for line in lines if "_state" not in line]


def late(lines):
    """The directives of pushes in front of each other come together, after the last."""
    out, held = [], []
    for i, line in enumerate(lines):
        follows = next((x for x in lines[i + 1:] if not x.startswith("\t.cfi_")), "")
        if line.startswith("\t.cfi_") and "_offset" in line and mutants.word(follows).startswith("push"):
            held.append(line)
        else:
            if held and not line.startswith("\tpush"):
                out += held
                held = []
            out.append(line)
    return out


SLIPS = {"no epilogues": no_epilogues, "no states": no_states, "late": late}


def functions(cc, seed, flags=()):
    frame = "-fno-omit-frame-pointer" if seed % 2 else "-fomit-frame-pointer"
    return mutants.functions(mutants.compile_to_assembly(cc, mutants.source(seed, COUNT), ["-O2", "-fPIC", frame, *flags]))


def assembled(directory, parts, name="t", ident=True, flags=()):
    text = "\t.text\n" + "".join(parts) + ('\t.ident\t"Compiler of the test 1.0"\n' if ident else "")
    (directory / f"{name}.s").write_text(text + '\t.section .note.GNU-stack,"",@progbits\n')
    run(["as", *flags, "-o", f"{name}.o", f"{name}.s"], cwd=directory)
    return directory / f"{name}.o"


def linked(directory, obj):
    """The object as a library without symbols, as it is delivered."""
    out = obj.with_suffix(".so")
    run(["gcc", "-shared", "-s", "-o", out, obj])
    return out


def check(etch, path, *args, ok=None):
    p = run([etch, "check", "--format", "json", *args, path], ok=ok)
    found = {}
    for x in json.loads(p.stdout)["files"][0]["findings"]:
        if x["id"] in ("ETCH-C001", "ETCH-N003"):
            found.setdefault((x["id"].removeprefix("ETCH-"), x["severity"]), []).append(x)
    return found, p.returncode


def contradicted(directory, etch, made):
    """How many functions have an ETCH-C001, each taken alone."""
    found, _ = check(etch, assembled(directory, made, "single", ident=False), "--each")
    return {x["place"]["function"] for xs in found.values() for x in xs}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("how", SLIPS)
@pytest.mark.parametrize("cc", CCS)
def test_one_line(etch, tmp_path, cc, how, seed):
    made = [f.copy(f.name, SLIPS[how](f.lines), True) for f in functions(cc, seed)]
    bad = contradicted(tmp_path, etch, made)
    obj = assembled(tmp_path, made)
    if len(bad) < 8:  # a compiler whose functions have few of these
        assert how != "no epilogues"
        return
    for path in (obj, linked(tmp_path, obj)) if how == "no epilogues" else (obj,):
        found, status = check(etch, path)
        assert list(found) == [("N003", "note")] and status == 0, (path, {k: len(v) for k, v in found.items()}, found)
        ((x,),) = found.values()
        assert re.fullmatch(r"\d+ places in \d+ functions where .eh_frame does not follow the code", x["text"])
        assert int(x["text"].split()[3]) == len(bad)
        assert any(f["text"] == "Compiler of the test 1.0" for f in x["facts"])


def test_severity_and_exit_status(etch, tmp_path, sarif_schema):  # noqa: F811
    obj = assembled(tmp_path, [f.copy(f.name, no_epilogues(f.lines), True) for f in functions("gcc", 1)])
    for option, severity, status in ((None, "note", 0), ("warning", "warning", 1), ("error", "error", 1)):
        args = ["--compiler", option] if option else []
        found, got = check(etch, obj, *args)
        assert list(found) == [("N003", severity)] and got == status
        text = run([etch, "check", *args, obj], ok=status).stdout
        assert text.count("ETCH-N003") == 1 and "ETCH-C001" not in text and "(compiler-generated)" in text
        sarif = valid_sarif(run([etch, "check", "--format", "sarif", *args, obj], ok=status), sarif_schema)
        (x,) = [x for x in sarif["results"] if x["ruleId"] == "ETCH-N003"]
        assert x["level"] == severity
    found, status = check(etch, obj, "--each")  # the single ones, marked
    assert list(found) == [("C001", "note")] and len(found["C001", "note"]) >= 15 and status == 0
    found, status = check(etch, obj, "--compiler", "ignore")
    assert status == 0 and all(x["suppressed"] for xs in found.values() for x in xs if "suppressed" in x)


# A push that the table never has, across a call: exceptions go wrong.
WRONG = """	.globl	wrong
	.type	wrong, @function
wrong:	.cfi_startproc
	pushq	%rbx
	call	g
	popq	%rbx
	ret
	.cfi_endproc
	.size	wrong, .-wrong
"""


def test_real_contradictions_stay_errors(etch, tmp_path):
    made = [f.copy(f.name, no_epilogues(f.lines), True) for f in functions("gcc", 1)]
    for path in (assembled(tmp_path, [*made, WRONG]), linked(tmp_path, assembled(tmp_path, [*made, WRONG], "u"))):
        found, status = check(etch, path)
        assert sorted(found) == [("C001", "error"), ("N003", "note")] and status == 1
        (x,) = found["C001", "error"]
        assert "rsp+8" in x["text"] and "rsp+16" in x["text"]


def test_without_evidence_they_are_errors(etch, tmp_path):
    """Few functions, and assembly: by the lack of .comment in an object, by its lines in DWARF."""
    made = [f.copy(f.name, no_epilogues(f.lines), True) for f in functions("gcc", 1)]
    bad = contradicted(tmp_path, etch, made)
    few = [text for text in made if re.search(r"\.globl\t(\w+)", text)[1] in sorted(bad)[:7]]
    for path in (assembled(tmp_path, few), linked(tmp_path, assembled(tmp_path, few, "few")),
                 assembled(tmp_path, made, "asm", ident=False), assembled(tmp_path, made, "lines", flags=["-g"])):
        found, status = check(etch, path)
        assert list(found) == [("C001", "error")] and status == 1, path


def test_no_comment_in_a_file_is_printed_raw(etch, tmp_path):
    made = [f.copy(f.name, no_epilogues(f.lines), True) for f in functions("gcc", 1)]
    obj = assembled(tmp_path, [*made, '\t.section .comment,"MS",@progbits,1\n\t.ascii "\\033[31mred\\0"\n\t.ascii "no end"\n'])
    assert ELFFile(io.BytesIO(obj.read_bytes())).get_section_by_name(".comment")
    text = run([etch, "check", obj]).stdout
    assert "\033" not in text and "[31mred" in text and "no end" in text
