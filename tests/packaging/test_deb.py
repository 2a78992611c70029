# SPDX-License-Identifier: MIT
"""The Debian packages of `make deb`: the same bytes wherever they are built, without an error of lintian's, and what a
new user types in a clean system of Debian's own packages; the timer under systemd."""
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
# A system whose every file has its table: those that are there, and what comes later. The installation makes tables for
# half a minute at most.
apt-get install -y -qq ./etch-tables_*.deb >/dev/null
etch tables | grep -c 'last update: '
etch tables update -q
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
# In a system that systemd has started: what the installation starts, what the timer does, what removal leaves.
TIMER = """\
exec >/root/said 2>/root/errors
service() { systemctl show etch-tables.service -P $1; }
ended() { until [ "$(service ActiveState)" = inactive ] && [ "$(service ExecMainStartTimestamp)" != "$1" ]; do sleep 0.2; done; }
dpkg -i /root/etch-tables_*.deb >&2
systemctl is-active etch-tables.timer
ended ''
service Result
etch tables --format json >/root/installed
first=$(service ExecMainStartTimestamp)
etch tables clear -q
mkdir /etc/systemd/system/etch-tables.timer.d
printf '[Timer]\\nOnCalendar=\\nOnActiveSec=1\\nRandomizedDelaySec=0\\nAccuracySec=1s\\n' >/etc/systemd/system/etch-tables.timer.d/now.conf
systemctl daemon-reload
systemctl restart etch-tables.timer
ended "$first"
service Result
etch tables --format json >/root/timed
rm -r /etc/systemd/system/etch-tables.timer.d
systemctl daemon-reload
dpkg --purge etch-tables >&2
find /etc /usr /var -path /usr/share/man -prune -o -name '*etch-tables*' -print -o -path /var/cache/etch -print
systemctl poweroff
"""
START = """\
[Unit]
After=multi-user.target
[Service]
ExecStart=/bin/sh /root/timer
ExecStopPost=/bin/systemctl poweroff
[Install]
WantedBy=multi-user.target
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
        run([ROOT / "scripts" / "deb.sh", folder], timeout=3600)
        out.append(folder / "deb")
    return out


def test_the_same_tree_gives_the_same_bytes(packages):
    first, second = ({p.name: p.read_bytes() for p in folder.rglob("*.deb")} for folder in packages)
    packages = {name.partition("_")[0] for name in first if "-dbgsym_" not in name}
    assert {"etch", "etch-tables", "libetch0", "libetch-dev", "libetch-unwind0", "libetch-exceptions0"} <= packages and first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_lintian_has_no_errors(packages):
    run(["lintian", "--fail-on", "error", *sorted(packages[0].rglob("*.deb"))])


def clean_system(packages, root, suite, include):
    """The packages in /root of a Debian with little else."""
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    p = run(["debootstrap", "--variant=minbase", f"--include={include}", suite, root], ok=None, timeout=3600)
    root.chmod(0o755)    # pytest makes directories for root alone; this one is `/` of the system's users, too
    if p.returncode:
        pytest.skip("debootstrap cannot fetch the packages: " + p.stdout.splitlines()[-1])
    shutil.copytree(packages[0], root / "root", dirs_exist_ok=True)
    shutil.copy("/etc/resolv.conf", root / "etc")


@pytest.mark.parametrize("suite", SUITES)
def test_a_clean_system(packages, tmp_path_factory, suite):
    """Installs, profiles, records an allocator, makes tables, builds and rewrites a program, removes."""
    if not list((packages[0] / SUITES[suite]).glob("etch*.deb")):
        pytest.skip("etch-static is left out: no source of zydis")
    root = tmp_path_factory.mktemp(suite)
    clean_system(packages, root, suite, "ca-certificates,python3")
    run(["mount", "-t", "proc", "proc", root / "proc"])
    try:
        p = run(["chroot", root, "sh", "-c", TRY], timeout=3600, env={**os.environ, "PLACE": SUITES[suite]})
    finally:
        subprocess.run(["umount", root / "proc"], check=True)
    # The table goes to standard error.
    assert "_PyEval_EvalFrameDefault" in p.stderr and "with a complete stack" in p.stderr, p.stderr
    # A picture, a table of the allocator, tables of what was there and of what came later, the program's value.
    lines = p.stdout.splitlines()
    assert lines[:5] == ["1"] * 5 and re.match(r"\d+ tables? made, 0 removed;", lines[5]) and lines[6:8] == ["exit 34", "nothing left"]
    counts = json.loads("".join(lines[8:]))
    assert counts["end"] == "complete" and counts["files"]["table"] > 300 and not counts["files"]["missing"], counts


def test_the_timer_under_systemd(packages, tmp_path_factory):
    if not shutil.which("systemd-nspawn"):
        pytest.skip("systemd-nspawn is not installed")
    root = tmp_path_factory.mktemp("systemd")
    clean_system(packages, root, "bookworm", "ca-certificates,systemd,systemd-sysv,dbus")
    run(["chroot", root, "sh", "-c", "apt-get update -qq && apt-get install -y -qq /root/etch_*.deb"], timeout=3600)
    (root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
    (root / "root/timer").write_text(TIMER)
    (root / "etc/systemd/system/timer-test.service").write_text(START)
    run(["chroot", root, "systemctl", "enable", "timer-test.service"])
    run(["systemd-nspawn", "-D", root, "-b", "--register=no", "--keep-unit", "--console=pipe"], stdin=subprocess.DEVNULL, timeout=3600)
    said, installed, timed = ((root / "root" / name).read_text() for name in ("said", "installed", "timed"))
    assert said.split("\n") == ["active", "success", "success", ""], said + (root / "root/errors").read_text()
    for counts in (json.loads(installed), json.loads(timed)):
        assert counts["end"] == "complete" and counts["files"]["table"] > 300 and not counts["files"]["missing"], counts
