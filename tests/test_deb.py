# SPDX-License-Identifier: MIT
"""The Debian packages of `make deb`: the same bytes wherever they are built, without an error of lintian's, and what a
new user types in a clean system of Debian's own packages."""
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, run

pytestmark = pytest.mark.long
# Releases of Debian, and where the package of the tool is that fits them: the disassemblers are of other versions in the second.
SUITES = {"bookworm": ".", "trixie": "other-releases"}
TRY = """\
set -e
cd /root/$PLACE
apt-get update -qq
apt install -y -qq ./etch*.deb >/dev/null
python3 -c 'import json; json.dump([{"a": [i, str(i), i / 7]} for i in range(150000)], open("big.json", "w"))'
etch profile -o picture.svg -- python3 -m json.tool big.json out.json
grep -c '^<svg' picture.svg
cd /root
etch heap -- python3 -m json.tool $PLACE/big.json out.json 2>&1 | grep -c 'in all'
# A system whose every file has its table: those that are there, and what comes later.
apt-get install -y -qq ./etch-tables_*.deb >/dev/null
etch tables status /bin/sh | grep -c /var/cache/etch
apt-get install -y -qq file >/dev/null
etch tables status /usr/bin/file | grep -c /var/cache/etch
etch tables update
etch tables --format json >tables
apt-get install -y -qq ./libetch0_*.deb ./libetch-dev_*.deb ./libetch-unwind0_*.deb g++ pkgconf >/dev/null
cat >t.cc <<'END'
#include <etch/imv.hpp>
etch::value<int> v{3};
int main() { int was = v; v = 4; return was * 10 + v; }
END
g++ -O2 -o t t.cc $(pkg-config --cflags --libs etch)
etch rewrite t
./t || echo "exit $?"
apt-get purge -y -qq 'etch*' 'libetch*' >/dev/null
find / -xdev -path /root -prune -o -path /proc -prune -o \\( -name 'etch*' -o -name 'libetch*' -o -name _etch \\) -print >left
test -s left && cat left || echo nothing left
cat tables
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Two builds, in folders of different names."""
    for tool in ("dh", "lintian"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    out = []
    for name in ("a", "another"):
        folder = tmp_path_factory.mktemp(name)
        run([ROOT / "scripts" / "deb.sh", folder], timeout=1800)
        out.append(folder / "deb")
    return out


def test_the_same_tree_gives_the_same_bytes(packages):
    first, second = ({p.name: p.read_bytes() for p in folder.rglob("*.deb")} for folder in packages)
    assert len(first) >= 10 and first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_lintian_has_no_errors(packages):
    run(["lintian", "--fail-on", "error", *sorted(packages[0].rglob("*.deb"))])


@pytest.mark.parametrize("suite", SUITES)
def test_a_clean_system(packages, tmp_path_factory, suite):
    """Installs, profiles, records an allocator, makes tables, builds and rewrites a program, removes."""
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    root = tmp_path_factory.mktemp(suite)
    p = run(["debootstrap", "--variant=minbase", "--include=ca-certificates,python3", suite, root], ok=None, timeout=900)
    if p.returncode:
        pytest.skip("debootstrap cannot fetch the packages: " + p.stdout.splitlines()[-1])
    shutil.copytree(packages[0], root / "root", dirs_exist_ok=True)
    shutil.copy("/etc/resolv.conf", root / "etc")
    run(["mount", "-t", "proc", "proc", root / "proc"])
    try:
        p = run(["chroot", root, "sh", "-c", TRY], timeout=900, env={**os.environ, "PLACE": SUITES[suite]})
    finally:
        subprocess.run(["umount", root / "proc"], check=True)
    # The table goes to standard error.
    assert "_PyEval_EvalFrameDefault" in p.stderr and "with a complete stack" in p.stderr, p.stderr
    # A picture, a table of the allocator, tables of what was there and of what came later, the program's value.
    lines = p.stdout.splitlines()
    assert lines[:4] == ["1", "1", "1", "1"] and re.match(r"\d+ tables? made, 0 removed;", lines[4]) and lines[5:7] == ["exit 34", "nothing left"]
    counts = json.loads("".join(lines[7:]))
    assert counts["end"] == "complete" and counts["files"]["table"] > 300 and not counts["files"]["missing"], counts
