# SPDX-License-Identifier: MIT
"""libetch and call sites, on tables written by hand or at run time: every form and
every kind of target against a model (tests/data/lib/pv_forms.c), damaged tables, and
single cases (tests/data/lib/pv_cases.c). Also with the library itself under ASan and UBSan."""

import os
import re

import pytest

from conftest import DATA, INCLUDE, ROOT, SANITIZED, asan_env, call_options, run

FORMS = DATA / "lib" / "pv_forms.c"
CASES = DATA / "lib" / "pv_cases.c"
PLUGIN = DATA / "lib" / "pv_plugin.c"
COMMON = ["-std=gnu11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", f"-I{ROOT / 'lib'}"]


@pytest.fixture(scope="module", params=["plain", "sanitized"])
def forms(request, build, build_asan, tmp_path_factory):
    out = tmp_path_factory.mktemp("pv") / "pv_forms"
    argv = ["gcc", *COMMON, "-DETCH_NO_MODULE", "-fno-pie", "-no-pie", "-o", out, FORMS]
    if request.param == "plain":
        run([*argv, "-O2", build / "libetch.a"])
    else:
        run([*argv, *SANITIZED, f"-L{build_asan}", "-letch", f"-Wl,-rpath,{build_asan}"])
    return out


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_form(forms, seed):
    """Memory, each site's bytes, verify, info and protection after each of many
    random batches, releases, syncs and seals."""
    out = run([forms, "every", seed, 120], env=asan_env()).stdout
    sites, direct, inline = map(int, re.findall(r"\d+", out))
    assert sites > 7000 and direct > 2500 and inline > 1200


@pytest.mark.parametrize("seed", range(1, 4))
def test_linked(forms, seed):
    """What the link step baked is taken as it is, the rest patched at start."""
    baked, direct, inline = map(int, re.findall(r"\d+", run([forms, "linked", seed, 1], env=asan_env()).stdout))
    assert 300 < baked < direct + inline - 300


@pytest.mark.parametrize("seed", range(1, 5))
def test_damaged_tables(forms, seed):
    """1500 tables a seed (make test: 500), linked and not: an error or a right result, no crash."""
    number = 1500 if os.environ.get("ETCH_TESTS") == "all" else 500
    assert run([forms, "damaged", seed, number], env=asan_env()).stdout == f"{number} damaged tables\n"


@pytest.fixture(scope="module", params=["gcc", "clang"])
def cases(request, build, tmp_path_factory):
    """The program and its plugin."""
    tmp = tmp_path_factory.mktemp("cases")
    lib = [f"-L{build}", "-letch", f"-Wl,-rpath,{build}", "-pthread"]
    program, plugin = tmp / "pv_cases", tmp / "plugin.so"
    run([request.param, *COMMON, "-O2", "-fno-pie", "-no-pie", "-rdynamic", "-o", program, CASES, *lib])
    run([request.param, *COMMON, "-O2", "-fPIC", "-shared", "-o", plugin, PLUGIN, *lib])
    return program, plugin


@pytest.mark.parametrize("case", ["calls", "batch", "foreign", "breakpoint", "seal", "fork", "wild"])
def test_case(cases, case):
    run([cases[0], case])


@pytest.mark.parametrize("case", ["seal_late", "plugin", "mdwe"])
def test_case_with_plugin(cases, case):
    run([cases[0], case, cases[1]])


def test_static(build, tmp_path):
    """The same code in a static program, which has no dynamic linker."""
    out = tmp_path / "static"
    run(["gcc", *COMMON, "-O2", "-static", "-o", out, CASES, build / "libetch.a", "-pthread"])
    for case in ("calls", "seal", "wild"):
        run([out, case])


# ---- targets that only the dynamic linker knows ---------------------------------

LATE_OPS = """
#include <etch/pv.h>
long imported(long);
long exported(long x) { return x * 3 + 1; }
__attribute__((visibility("hidden"))) long hidden(long x) { return x * 5 + 1; }
struct ops { long (*imported)(long), (*exported)(long), (*hidden)(long); };
static DEFINE_PV_OPS(struct ops, ops) = {imported, exported, hidden};
long call_imported(long x) { return ops.imported(x) + 1; }
long call_exported(long x) { return ops.exported(x) + 1; }
long call_hidden(long x) { return ops.hidden(x) + 1; }
int change(void) { return pv_set(ops.imported, NULL); } /* else compilers take them for constants */
"""
LATE_MAIN = """
#include <etch/imv.h>
#include <stdio.h>
long call_imported(long), call_exported(long), call_hidden(long);
int main(void)
{
	struct etch_info i = {.size = sizeof(i)};

	etch_info(&i);
	printf("%ld %ld %ld calls %lu direct %lu start %lu verify %ld\\n", call_imported(2), call_exported(2),
	       call_hidden(2), i.calls, i.calls_direct, i.patched_at_start, etch_verify(NULL, NULL));
}
"""


@pytest.mark.parametrize("stage", ["object", "linked"])
def test_imported_targets(flow, stage):
    """A shared object's slots that hold a function of another one, and one of its own
    that could be another's: direct calls from the start."""
    flags = ("-O2", "-fPIC", *call_options(flow.cc))
    lib = [f"-L{flow.build}", "-letch", f"-Wl,-rpath,{flow.build}", f"-Wl,-rpath,{flow.tmp}", f"-L{flow.tmp}"]
    other = flow.source("long imported(long x) { return x * 2 + 1; }", "other.c")
    run([flow.cc, "-O2", "-fPIC", "-shared", "-o", flow.tmp / "libother.so", other])
    o = flow.compile(LATE_OPS, flags, "ops.o")
    flow.rewrite(o)
    run([flow.cc, "-shared", "-o", flow.tmp / "libops.so", o, *lib, "-lother"])
    if stage == "linked":
        flow.rewrite(flow.tmp / "libops.so")
    run([flow.cc, f"-I{INCLUDE}", "-O2", "-o", flow.tmp / "main", flow.source(LATE_MAIN, "main.c"), "-lops", *lib])
    out = run([flow.tmp / "main"]).stdout
    # The link step knows one of the three.
    assert out == f"6 8 12 calls 3 direct 3 start {2 if stage == 'linked' else 3} verify 0\n"


IFUNC = """
#include <etch/pv.h>
#include <stdio.h>
static long chosen(long x) { return x * 7 + 1; }
static long (*choose(void))(long) { return chosen; }
long picked(long) __attribute__((ifunc("choose")));
struct ops { long (*picked)(long); };
static DEFINE_PV_OPS(struct ops, ops) = {picked};
__attribute__((noinline)) long call(long x) { return ops.picked(x) + 1; }
int main(int argc, char **argv)
{
	struct etch_info i = {.size = sizeof(i)};

	if (argc > 1) /* else compilers take it for a constant */
		return pv_set(ops.picked, (long (*)(long))argv);
	etch_info(&i);
	printf("%ld direct %lu verify %ld\\n", call(2), i.calls_direct, etch_verify(NULL, NULL));
}
"""


@pytest.mark.parametrize("mode", ["-pie", "-no-pie", "-static", "-static-pie"])
def test_ifunc_targets(flow, stage, mode):
    """R_X86_64_IRELATIVE, or the address of a PLT entry: a target like any other."""
    pic = "-fno-pie" if mode in ("-no-pie", "-static") else "-fPIE"
    exe = flow.program(IFUNC, stage, ("-O2", pic, *call_options(flow.cc)), (mode,))
    assert run([exe]).stdout == f"16 direct {0 if stage == 'plain' else 1} verify 0\n"
