# SPDX-License-Identifier: MIT
"""libetch and call sites, on tables written by hand or at run time: every form and
every kind of target against a model (tests/lib/pv_forms.c), damaged tables, and
single cases (tests/lib/pv_cases.c). Also with the library itself under ASan and UBSan."""

import re

import pytest
from conftest import INCLUDE, ROOT, TESTS, asan_env, run

FORMS = TESTS / "lib" / "pv_forms.c"
CASES = TESTS / "lib" / "pv_cases.c"
PLUGIN = TESTS / "lib" / "pv_plugin.c"
COMMON = ["-std=gnu11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", f"-I{ROOT / 'lib'}"]
# No red zones around globals: see test_lib_forms.py.
SANITIZED = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "--param", "asan-globals=0"]


@pytest.fixture(scope="module", params=["plain", "sanitized"])
def forms(request, build, tmp_path_factory):
    out = tmp_path_factory.mktemp("pv") / "pv_forms"
    argv = ["gcc", *COMMON, "-DETCH_NO_MODULE", "-fno-pie", "-no-pie", "-o", out, FORMS]
    if request.param == "plain":
        run([*argv, "-O2", build / "libetch.a"])
    else:
        run([*argv, *SANITIZED, *sorted((ROOT / "lib").glob("*.[cS]"))])
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
    """1500 tables a seed, linked and not: an error or a right result, no crash."""
    assert run([forms, "damaged", seed, 1500], env=asan_env()).stdout == "1500 damaged tables\n"


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
