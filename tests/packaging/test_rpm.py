# SPDX-License-Identifier: MIT
"""The rpm packages of `make rpm`: what is in which, what they need, and that it works where it is unpacked."""
import os
import shutil
import subprocess

import pytest

from conftest import ROOT, run

pytestmark = pytest.mark.long
NAMES = ["etch", "libetch", "libetch-devel", "libetch-unwind", "libetch-exceptions"]


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    for tool in ("rpmbuild", "rpm2cpio", "cpio"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    folder = tmp_path_factory.mktemp("rpm")
    run([ROOT / "scripts" / "rpm.sh", folder], timeout=1800)
    return {name: next((folder / "rpm").glob(f"{name}-[0-9]*.x86_64.rpm")) for name in NAMES}


def ask(package, *what):
    return run(["rpm", "-qp", "--dbpath", package.parent / "db", *what, package]).stdout.splitlines()


def test_what_is_where(packages):
    files = {name: ask(p, "-l") for name, p in packages.items()}
    assert len(list(packages["etch"].parent.glob("*.rpm"))) == len(NAMES)
    assert {"/usr/bin/etch", "/usr/bin/etch-cc", "/usr/lib64/etch/libetch-heap.so"} <= set(files["etch"])
    assert any(f.startswith("/usr/share/man/man1/etch-rewrite.1") for f in files["etch"])
    assert files["libetch"] == ["/usr/lib64/libetch.so.0"] and files["libetch-unwind"] == ["/usr/lib64/libetch-unwind.so.0"]
    assert files["libetch-exceptions"] == ["/usr/lib64/libetch-exceptions.so.0"]
    assert {"/usr/include/etch/imv.h", "/usr/lib64/libetch.so", "/usr/lib64/libetch.a", "/usr/lib64/pkgconfig/etch.pc"} <= set(files["libetch-devel"])


def test_what_they_need(packages):
    needs = {name: ask(p, "--requires") for name, p in packages.items()}
    assert any(n.startswith("libcapstone.so.") for n in needs["etch"])    # which it loads by name
    assert any(n.startswith("libdw.so.1(ELFUTILS_") for n in needs["etch"])
    version = ask(packages["libetch"], "--queryformat", "%{VERSION}-%{RELEASE}")[0]
    assert {f"{lib}(x86-64) = {version}" for lib in ("libetch", "libetch-unwind", "libetch-exceptions")} <= set(needs["libetch-devel"])
    assert "/sbin/ldconfig" in needs["libetch"] and "/sbin/ldconfig" in needs["libetch-unwind"]
    assert ask(packages["libetch"], "--queryformat", "%{BUILDTIME}") == [run(["git", "-C", ROOT, "log", "-1", "--format=%ct"]).stdout.strip()]


def test_a_program_by_what_is_in_them(packages, tmp_path):
    """Unpacked into one folder: the tool runs, a program is built by pkg-config, rewritten, and sets its value."""
    root = tmp_path / "root"
    root.mkdir()
    for package in packages.values():
        with open(package, "rb") as f:
            archive = subprocess.run(["rpm2cpio", "-"], stdin=f, capture_output=True, check=True).stdout
        run(["cpio", "-idm", "--quiet"], input=archive, cwd=root, text=False)
    (tmp_path / "t.cc").write_text("#include <etch/imv.hpp>\netch::value<int> v{3};\nint main() { int was = v; v = 4; return was * 10 + v; }\n")
    env = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(root), "PKG_CONFIG_PATH": str(root / "usr/lib64/pkgconfig"),
           "LD_LIBRARY_PATH": f"{root}/usr/lib64:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    flags = run(["pkg-config", "--cflags", "--libs", "etch"], env=env).stdout.split()
    run(["g++", "-O2", "-o", tmp_path / "t", tmp_path / "t.cc", *flags, f"-I{root}/usr/include", f"-L{root}/usr/lib64"])
    run([root / "usr/bin/etch", "rewrite", tmp_path / "t"], env=env)
    run([tmp_path / "t"], env=env, ok=34)
    assert b"/rpm/source" not in (root / "usr/bin/etch").read_bytes()
