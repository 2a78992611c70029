# SPDX-License-Identifier: MIT
"""scripts/compilers.py in short: the compilers at hand over a small corpus, what it says where something is wrong, and its table."""
import collections
import json
import re
import subprocess
import sys

import pytest

import compilers
from conftest import ROOT

SCRIPT = ROOT / "scripts" / "compilers.py"


@pytest.fixture
def job(build, tmp_path):
    return compilers.Job(build / "etch", build, "gcc", "-O2", tmp_path, None)


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("cc, parts", [("gcc", "branches,frames"), ("clang", "reads")])
def test_the_compilers_at_hand(build, tmp_path, cc, parts):
    """Same output, rows that agree, no step that is wrong; and there was something to look at."""
    out = tmp_path / "out.json"
    p = subprocess.run([sys.executable, SCRIPT, "--build", build, "--compilers", cc, "--options=-O2", "--parts", parts, "--scale", "0.3", "--json", out],
                       capture_output=True, text=True)
    assert p.returncode == 0, p.stdout + p.stderr
    results = json.loads(out.read_text())["results"]
    assert [r["part"] for r in sorted(results, key=lambda r: r["part"])] == parts.split(",")
    assert not [w for r in results for w in r["wrong"]]
    n = collections.Counter()
    for r in results:
        n.update(r["numbers"])
    assert n["same"] == n["runs"] >= 1
    if cc == "gcc":
        assert n["branches_armed"] >= n["branches"] - 2 >= 20
        assert n["covered_cfi"] == n["covered_code"] > 5000 and not n["differ_cfi"] and not n["differ_code"]
        assert n["frames"] > 50_000 and not n["wrong_frames"]
    else:
        assert n["reads"] >= n["reads_live"] > n["reads"] * 3 // 4 > 15
    # The same numbers again, from the file.
    again = subprocess.run([sys.executable, SCRIPT, "--merge", out], capture_output=True, text=True)
    assert again.returncode == 0 and again.stdout == p.stdout
    assert re.search(rf"^\| {cc} \d+\.\d+", p.stdout, re.M)


@pytest.mark.parametrize("plain, etched, wrong", [
    ("echo a", "echo a", None), ("echo a", "echo b", "another output"), ("echo a", "echo a; exit 3", "ends with 3"),
    ("exit 4", "exit 4", "as it comes from the compiler"),
])
def test_an_output_that_differs_is_wrong(job, tmp_path, plain, etched, wrong):
    job.same_output(program(tmp_path / "plain", plain), program(tmp_path / "etched", etched))
    assert len(job.out["wrong"]) == bool(wrong) and (not wrong or wrong in job.out["wrong"][0])
    assert job.out["numbers"]["same"] == (not wrong)


def test_rows_that_differ_are_wrong(job, tmp_path):
    """A frame that .eh_frame describes in another way than the code has it, and the witness cannot tell why."""
    (tmp_path / "t.s").write_text("\t.globl f\n\t.type f,@function\nf:\t.cfi_startproc\n\tpush %rbx\n\t.cfi_def_cfa_offset 24\n\tcall *%rdi\n"
                                  "\tpop %rbx\n\t.cfi_def_cfa_offset 8\n\tret\n\t.cfi_endproc\n\t.size f,.-f\n")
    made = job.link([job.compile(tmp_path / "t.s")], "-shared", "-nostdlib", name="t.so")
    job.rewrite(made)
    job.rows(made)
    assert job.out["findings"]["ETCH-C001 error"] == 1
    numbers = job.out["numbers"]
    assert numbers["explained_code"] + numbers["differ_code"] > 0 and numbers["covered_code"] == 5


def test_what_a_compiler_does_not_know_is_said_not_counted(build, tmp_path):
    assert compilers.knows("gcc", "-O2") and not compilers.knows("gcc", "-O2 -fno-such-option")
    p = subprocess.run([sys.executable, SCRIPT, "--build", build, "--compilers", "gcc", "--options=-fno-such-option", "--parts", "branches"],
                       capture_output=True, text=True)
    assert p.returncode == 0 and re.search(r"^Not known to the compiler, or not to be linked here: `gcc [0-9.]+ -fno-such-option`\.$", p.stdout, re.M)


@pytest.mark.parametrize("arguments, why", [
    (["--compilers", "gcc-0"], "compilers: no compiler is installed\n"),
    (["--build", "/nowhere"], "compilers: /nowhere/etch is missing: run make first\n"),
    (["--parts", "reads,raeds"], "raeds: not a part; they are"),
])
def test_what_cannot_be_run(build, arguments, why):
    p = subprocess.run([sys.executable, SCRIPT, "--build", build, *arguments], capture_output=True, text=True)
    assert p.returncode == 2 and why in p.stderr and not p.stdout


@pytest.mark.parametrize("cc, cxx", [("gcc", "g++"), ("gcc-16", "g++-16"), ("clang", "clang++"), ("clang-22", "clang++-22")])
def test_the_name_of_the_cxx_compiler(cc, cxx):
    assert compilers.of_cxx(cc) == cxx and compilers.order("gcc-9") < compilers.order("gcc-10") < compilers.order("gcc 12.2.0")


def test_compilers_that_were_looked_at_are_left_out(build):
    """As in a root of another release, which has gcc 12 or clang 14 once more. Of Rust and Go each version counts."""
    names = ["gcc 12.2.0", "clang 14.0.6", "rustc 1.97.0", "go 1.24.4"]
    assert compilers.compiler_roots.majors(names) == {"gcc 12", "clang 14", "rustc 1.97.0", "go 1.24.4"}
    here = ",".join(compilers.compiler_roots.majors([compilers.version("gcc")]))
    p = subprocess.run([sys.executable, SCRIPT, "--build", build, "--compilers", "gcc", "--without", here], capture_output=True, text=True)
    assert p.returncode == 2 and p.stderr == "compilers: no compiler is installed\n"
