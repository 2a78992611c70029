# SPDX-License-Identifier: MIT
"""etch check on code that nobody wrote for it: the archives of Debian's development packages and
the files of tests/data/check/distribution.txt, of Debian 12, 13 and unstable. Every error there has been examined by hand; one that
is not in the tables below is to be examined, and goes into the report or is a bug of etch."""

import json
from collections import Counter
from pathlib import Path

import pytest

from conftest import DATA, ROOT, run

REPORT = sorted((ROOT / "docs" / "reports").glob("*-check-distribution.md"))[-1].read_text()

# Errors, by archive and function, or member where that is no function's; and how many there are at most in a release.
ARCHIVES = {
    ("libc.a", "ETCH-S005", "__swapcontext"): 1,
    ("libc.a", "ETCH-C001", "__mpn_addmul_1"): 1,
    ("libc.a", "ETCH-C001", "__mpn_submul_1"): 1,
    ("libcrypto.a", "ETCH-C001", "_x86_64_AES_set_encrypt_key"): 1,
    ("libcrypto.a", "ETCH-C001", "mulx4x_internal"): 2,
    ("libcrypto.a", "ETCH-C001", "bn_sqrx8x_internal"): 2,
    ("libcrypto.a", "ETCH-C001", "bn_gather5"): 1,
    ("libcrypto.a", "ETCH-C001", "__ecp_nistz256_mul_montq"): 1,
    ("libcrypto.a", "ETCH-C001", "x25519_fe51_sqr"): 1,
    ("libcrypto.a", "ETCH-C001", "x25519_fe64_sqr"): 1,
    ("libcrypto.a", "ETCH-C001", "__poly1305_init_avx"): 1,
    ("libcrypto.a", "ETCH-C001", "sha1_multi_block"): 1,
    ("libcrypto.a", "ETCH-C001", "ossl_bsaes_xts_decrypt"): 1,
    ("libcrypto.a", "ETCH-C001", "libcrypto-lib-aesni-xts-avx512.o"): 8,
    ("libcrypto.a", "ETCH-C001", "libcrypto-lib-sm3-x86_64.o"): 1,
    ("libcrypto.a", "ETCH-C001", "ossl_rsaz_amm52x20_x1_avxifma256"): 1,
    ("libcrypto.a", "ETCH-C001", "ossl_rsaz_amm52x20_x2_avxifma256"): 2,
    ("libcrypto.a", "ETCH-C001", "ossl_rsaz_amm52x30_x1_avxifma256"): 1,
    ("libcrypto.a", "ETCH-C001", "ossl_rsaz_amm52x30_x2_avxifma256"): 1,
    ("libcrypto.a", "ETCH-C001", "ossl_rsaz_amm52x40_x1_avxifma256"): 1,
    ("libcrypto.a", "ETCH-C001", "ossl_rsaz_amm52x40_x2_avxifma256"): 1,
}
# Linked files are stripped: errors by file, in Debian 12, 13 and the unstable of 2026-11.
FILES = {
    ("libc.so.6", "ETCH-S005"): (1, 1, 1),
    ("libc.so.6", "ETCH-C001"): (2, 2, 2),
    ("libcrypto.so.3", "ETCH-C001"): (12, 27, 28),
    ("libmvec.so.1", "ETCH-C001"): (7, 9, 9),
    ("libgcrypt.so.20", "ETCH-C001"): (3, 3, 3),
    # gcc 16 says `rbp at *(rbp+0)` after the pop of rbp in a function that realigns its stack.
    ("git", "ETCH-C001"): (0, 0, 1),
}
# Warnings, by ID: at most so many. Ten of F001 are strcasecmp and strncasecmp of glibc for each kind of processor: a nop in front of
# the _l variants, into which they fall through. That of libgomp in Debian 13 is GOMP_target_map_indirect_ptr, which is endbr64 alone.
WARNINGS = {
    "archives": {"ETCH-D005": 1, "ETCH-F001": 16, "ETCH-H004": 5},
    "files": {"ETCH-F001": (2, 3, 2)},
}


def archives():
    found = [Path("/usr/lib/x86_64-linux-gnu") / f"lib{n}.a" for n in ("c", "z", "crypto")]
    found += sorted(Path("/usr/lib/gcc/x86_64-linux-gnu").glob("*/libstdc++.a"), key=lambda p: int(p.parent.name))[-1:]
    return found


def check(etch, files):
    p = run([etch, "check", "--format", "json", "--fail-on", "never", "-j", "2", *files], timeout=900)
    return json.loads(p.stdout)["files"]


def warnings(files):
    return Counter(x["id"] for f in files for x in f.get("findings", []) if x["severity"] == "warning")


def too_many(found, known):
    return {k: (n, known.get(k, 0)) for k, n in found.items() if n > known.get(k, 0)}


RELEASE = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line).get("VERSION_CODENAME")


def here(table):
    """Its column for this release; what is neither Debian 12 nor 13 is taken for unstable."""
    column = {"bookworm": 0, "trixie": 1}.get(RELEASE, 2)
    return {k: n[column] for k, n in table.items()}


def test_archives(etch):
    names = [a for a in archives() if a.exists()]
    assert {a.name for a in names} >= {"libc.a", "libz.a", "libstdc++.a"}
    files = check(etch, names)
    assert len(files) > 2000 and not [f for f in files if f.get("error")]
    errors = [(f, x) for f in files for x in f["findings"] if x["severity"] == "error"]
    found = Counter((Path(f["path"]).name, x["id"], x["place"].get("function") or f["member"]) for f, x in errors)
    assert not too_many(found, ARCHIVES), "to be examined"
    assert not too_many(warnings(files), WARNINGS["archives"])
    # Warned about or worse: a share far below objtool's 29%.
    loud = sum(any(x["severity"] != "note" for x in f["findings"]) for f in files)
    assert loud < 0.01 * len(files)
    # A check that finds nothing anywhere would pass the rest.
    assert found["libc.a", "ETCH-S005", "__swapcontext"] == 1 and found["libc.a", "ETCH-C001", "__mpn_addmul_1"] == 1


def test_files(etch):
    listed = (DATA / "check" / "distribution.txt").read_text().split()
    assert len(listed) == len(set(listed)) == 100
    present = [f for f in listed if Path(f).exists()]
    assert len(present) >= 40
    files = check(etch, present)
    found = Counter((Path(f["path"]).name, x["id"]) for f in files for x in f.get("findings", []) if x["severity"] == "error")
    assert not too_many(found, here(FILES)), "to be examined"
    assert not too_many(warnings(files), here(WARNINGS["files"]))


@pytest.mark.parametrize("table", [ARCHIVES, FILES])
def test_the_page_has_every_error(table):
    """What is known is in the page, with a verdict."""
    for key in table:
        rows = [line for line in REPORT.splitlines() if line.startswith(f"| {key[1].removeprefix('ETCH-')} |")]
        name = key[2].strip("_") if len(key) == 3 else key[0].split(".")[0]
        assert any("true" in r and (name in r or name.removeprefix("mpn_") in r) for r in rows), key
