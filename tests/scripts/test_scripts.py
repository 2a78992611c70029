# SPDX-License-Identifier: MIT
"""scripts/: each can be started by itself, by a Python that has no package of ours."""

import os
import subprocess
import sys

import pytest

from conftest import ROOT

PINNED = sorted(p.relative_to(ROOT) for p in (ROOT / "scripts").glob("**/*")
                if p.is_file() and "\nimport pinned" in p.read_text(errors="replace"))


@pytest.mark.parametrize("script", PINNED, ids=str)
def test_help_by_a_bare_python(script, tmp_path):
    env = dict(os.environ, PYTHONNOUSERSITE="1")
    p = subprocess.run(["/usr/bin/python3", ROOT / script, "--help"], text=True, capture_output=True, env=env, cwd=tmp_path)
    assert p.returncode == 0 and p.stdout.startswith("usage:"), p.stderr


def test_scripts_are_found():
    assert len(PINNED) >= 6


def compare_builds(old, new, *words, paths=("/bin/true", "/bin/false")):
    return subprocess.run([ROOT / "scripts" / "compare_builds", *words, old, new, *paths],
                          text=True, capture_output=True)


def filtered(build, tmp_path, command, awk):
    """A build of etch whose output of one command goes through awk."""
    (tmp_path / "filter.awk").write_text(awk)
    other = tmp_path / "etch"
    other.write_text(f"""#!/bin/sh
[ "$1 $2" = "{command}" ] || exec {build / "etch"} "$@"
out=$({build / "etch"} "$@")
status=$?
printf '%s\\n' "$out" | awk -F'\\t' -vOFS='\\t' -f {tmp_path / "filter.awk"}
exit $status
""")
    other.chmod(0o755)
    return other


def appending(build, tmp_path, command):
    """A build of etch that writes one byte more by one command."""
    other = tmp_path / "etch"
    other.write_text(f"""#!/bin/sh
{build / "etch"} "$@" || exit
[ "$1 $2" = "{command}" ] && printf x >>"$3"
exit 0
""")
    other.chmod(0o755)
    return other


def test_a_build_is_the_same_as_itself(build):
    p = compare_builds(build / "etch", build / "etch", "--views", "rewrite,undo,check,orc,rows,findings,restored")
    assert (p.returncode, p.stdout) == (0, "2 files, 2 the same in every view, 0 not\n")


def test_a_build_that_writes_one_byte_differently_is_told(build, tmp_path):
    other = appending(build, tmp_path, "rewrite -o")
    p = compare_builds(build / "etch", other, "--views", "rewrite,check")
    assert p.returncode == 1 and "2 files, 0 the same in every view, 2 not; rewrite 2\n" in p.stdout
    assert p.stdout.count(": rewrite: other bytes") == 2


FRAMES = """
.globl f, g
.type f, @function
.type g, @function
f: .cfi_startproc
   push %rbx
   .cfi_adjust_cfa_offset 8
   call g
   pop %rbx
   .cfi_adjust_cfa_offset -8
   ret
   .cfi_endproc
g: .cfi_startproc
   nop
   ret
   .cfi_endproc
"""


@pytest.mark.parametrize("awk, what", [
    ('$3 == "rsp+16" { $3 = $4 = $5 = $6 = "undef" } 1', "lost 6 (two.o .text 1 rsp+16 cfa-8 call same for none)"),
    ('$3 == "rsp+16" { $3 = "rsp+24" } 1', "another 6 (two.o .text 1 rsp+16 cfa-8 call same for rsp+24 cfa-8 call same)"),
    ('$3 == "rsp+16" { $4 = "undef" } 1', "rbp 6 (two.o .text 1 rsp+16 cfa-8 call same for rsp+16 cfa-8 call undef)"),
    # The same rows, cut in other places.
    ('$3 == "rsp+16" { $2 = 5; print; $1 = 6; $2 = 1 } 1', None),
])
def test_rows_are_compared_by_byte(build, tmp_path, awk, what):
    """push of f is one byte, what lies after it up to the end of pop six; f is in the archive's second member."""
    for name, text in (("one", "nop\n"), ("two", FRAMES)):
        (tmp_path / f"{name}.s").write_text(text)
        subprocess.run(["gcc", "-c", "-o", tmp_path / f"{name}.o", tmp_path / f"{name}.s"], check=True)
    archive = tmp_path / "lib.a"
    subprocess.run(["ar", "rcs", archive, tmp_path / "one.o", tmp_path / "two.o"], check=True)
    p = compare_builds(build / "etch", filtered(build, tmp_path, "inspect orc", awk), "--views", "rows", paths=[archive])
    if what is None:
        assert (p.returncode, p.stdout) == (0, "1 files, 1 the same in every view, 0 not\n")
    else:
        assert (p.returncode, p.stdout.splitlines()[0]) == (1, f"{archive}: rows: {what}")


def test_findings_are_compared_by_place(build, tmp_path):
    """A finding that is gone is told, another text is not."""
    (tmp_path / "f.s").write_text(FRAMES.replace(".cfi_adjust_cfa_offset 8", ".cfi_adjust_cfa_offset 16"))
    subprocess.run(["gcc", "-c", "-o", tmp_path / "f.o", tmp_path / "f.s"], check=True)
    for awk, what in (('{ sub(/"text": "[^"]*"/, "\\"text\\": \\"x\\"") } 1', None),
                      ('{ sub("ETCH-C001", "ETCH-C999") } 1', "gone ETCH-C001 1")):
        p = compare_builds(build / "etch", filtered(build, tmp_path, "check --format", awk), "--views", "findings",
                           paths=[tmp_path / "f.o"])
        assert p.returncode == (what is not None), p.stdout + p.stderr
        assert what is None or what in p.stdout and "new ETCH-C999 1" in p.stdout


def test_an_input_that_does_not_come_back_is_told(build, tmp_path):
    p = compare_builds(build / "etch", appending(build, tmp_path, "rewrite --undo"), "--views", "restored")
    assert p.returncode == 1 and p.stdout.count(": restored: [0, 0, 'the input'] for [0, 0, 'other bytes']") == 2


def test_cells_without_samples(monkeypatch, capsys):
    """A sibling that never ran while sets were measured, as on a machine with other work."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts" / "bench"), *sys.path])
    import set_parts

    class Args:
        cc, quick = ["gcc"], True

    def rows(program, siblings, rounds):
        print_these = names if not siblings else names[:1]
        return "# sites\t1\tarmed\t1\tloads\t0\tticks_per_ns\t1\n" + "".join(f"{n}\t3000\n" * rounds for n in print_these)

    monkeypatch.setattr(set_parts, "build", lambda *_: "program")
    monkeypatch.setattr(set_parts, "sh", rows)
    names = ["floor: membarrier SYNC_CORE", "floor: mprotect pair, data"]
    names += [f"floor: mprotect pair, text of {n}" for n in ("1", "64", "4096", "batch")]
    names += ["imv_set 1 site", "imv_set 64 sites", "imv_set 4096 sites", "batch of 100"]
    set_parts.part_set(Args)
    out = capsys.readouterr().out
    assert "; 0 to 10 samples a cell" in out and out.count("3.00 (3.00 to 3.00)") == len(names) + 1
    assert out.count("no samples") == len(names) - 1 + 2 * 4
    assert "-6,000" in out  # 3 us less three floors of 3 us, by one site
    names = ["floor: membarrier SYNC_CORE", "1 site, across: a swap"]
    set_parts.part_swap(Args)
    assert capsys.readouterr().out.count("no samples") == 1
