# SPDX-License-Identifier: MIT
"""libetch on tables made at run time (tests/data/lib/forms.c): every form under random
sets against a model, and damaged tables. Also under ASan and UBSan,
the library too."""

import os

import pytest

from conftest import DATA, INCLUDE, ROOT, SANITIZED, asan_env, run

PROGRAM = DATA / "lib" / "forms.c"
COMMON = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-DETCH_NO_MODULE", "-g", "-Wall", "-Wextra", "-Werror",
          f"-I{INCLUDE}", f"-I{ROOT / 'lib'}", "-fno-pie", "-no-pie"]


@pytest.fixture(scope="module", params=["plain", "sanitized"])
def forms(request, build, build_asan, tmp_path_factory):
    out = tmp_path_factory.mktemp("forms") / "forms"
    if request.param == "plain":
        run([*COMMON, "-O2", "-o", out, PROGRAM, build / "libetch.a"])
    else:
        run([*COMMON, *SANITIZED, "-o", out, PROGRAM, f"-L{build_asan}", "-letch", f"-Wl,-rpath,{build_asan}"])
    return out


@pytest.mark.parametrize("seed,threads", [(1, []), (2, []), (3, []), (4, ["thread"]), (5, ["thread"]), (6, ["thread"])])
def test_every_form(forms, seed, threads):
    """Memory, each site's bytes, verify, info and protection after each of many
    random batches, releases and syncs; with a second thread sites that cross words
    are changed with their pages."""
    out = run([forms, "every", seed, 120, *threads], env=asan_env()).stdout
    sites, immediates = int(out.split()[0]), int(out.split()[4])
    assert sites > 8000 and immediates > 6000


@pytest.mark.parametrize("seed", range(1, 4))
def test_breakpoint_before_start(forms, seed):
    run([forms, "busy", seed, 1], env=asan_env())


@pytest.mark.parametrize("seed", range(1, 5))
def test_damaged_tables(forms, seed):
    """1500 tables a seed (make test: 500), linked and not: an error or a right result, no crash."""
    number = 1500 if os.environ.get("ETCH_TESTS") == "all" else 500
    assert run([forms, "damaged", seed, number], env=asan_env()).stdout == f"{number} damaged tables\n"
