# SPDX-License-Identifier: MIT
"""The crate of lib/rust: its own tests, in programs as cargo makes them and rewritten; the users it must fit."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import DATA, INCLUDE, ROOT, run

CRATE = ROOT / "lib" / "rust"


def cargo_version():
    try:
        return tuple(map(int, re.search(r"(\d+)\.(\d+)", run(["rustc", "--version"]).stdout).groups()))
    except FileNotFoundError:
        return None


pytestmark = pytest.mark.skipif(
    not shutil.which("cargo") or (cargo_version() or (0,)) < (1, 87), reason="needs cargo, and rustc 1.87 or later (labels in asm!)")


class Cargo:
    """cargo in a directory of its own."""

    def __init__(self, build, directory):
        self.build, self.dir = build, directory
        self.env = dict(os.environ, CARGO_TARGET_DIR=str(directory / "target"), ETCH_LIB_DIR=str(build), CARGO_NET_OFFLINE="true")
        for name in ("RUSTFLAGS", "ETCH_DYNAMIC", "MAKEFLAGS", "CARGO_MAKEFLAGS"):
            self.env.pop(name, None)

    def __call__(self, *args, cwd=None, ok=0, timeout=300, **env):
        return run(["cargo", *args], cwd=cwd or self.dir / "crate", env={**self.env, **env}, ok=ok, timeout=timeout)

    def built(self, *args, **kw):
        """The program that a command of cargo has made last."""
        out = self(*args, **kw).stderr
        return self.dir / re.findall(r"\((/\S+)\)$", out, re.M)[-1]

    def package(self, name, source, edition="2021", lib=False, more=""):
        """A package that uses the crate."""
        at = self.dir / name
        (at / "src").mkdir(parents=True)
        shutil.copy(source, at / "src" / ("lib.rs" if lib else "main.rs"))
        (at / "Cargo.toml").write_text(f"""[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "{edition}"
[dependencies]\netch = {{ path = "../crate" }}\n{'[lib]' + chr(10) + 'crate-type = ["cdylib"]' if lib else ""}
{more}""")
        return at


@pytest.fixture(scope="module")
def cargo(build, tmp_path_factory):
    tmp = tmp_path_factory.mktemp("rust")
    shutil.copytree(CRATE, tmp / "crate", ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    return Cargo(build, tmp)


def test_its_tests_and_examples_hold_in_a_program_as_cargo_makes_it(cargo):
    out = cargo("test").stdout
    assert len(re.findall(r"^test .* ok$", out, re.M)) >= 13 and "values.rs" not in out


MODES = {
    "debug": ([], ""), "release": (["--release"], ""), "bfd": (["--release"], "-C link-arg=-fuse-ld=bfd"),
    "lto": (["--release"], "-C lto=fat -C embed-bitcode=yes -C codegen-units=1"), "size": (["--release"], "-C opt-level=z"),
    "static": (["--release"], "-C target-feature=+crt-static"),
    "no-pie": (["--release"], "-C target-feature=+crt-static -C relocation-model=static"),
    "v0": ([], "-C symbol-mangling-version=v0"),
}


@pytest.mark.parametrize("mode", [pytest.param(m, marks=[pytest.mark.long] * (m not in ("debug", "release"))) for m in MODES])
def test_its_tests_hold_rewritten_and_every_value_is_armed(cargo, etch, mode):
    options, flags = MODES[mode]
    program = cargo.built("test", "--test", "values", "--no-run", *options, RUSTFLAGS=flags)
    run([etch, "rewrite", program])
    once = program.read_bytes()
    run([etch, "rewrite", program])
    assert program.read_bytes() == once
    out = run([program, "--nocapture", "--test-threads=1"]).stdout
    assert re.search(r"^test result: ok\. 9 passed", out, re.M)
    count = {name: int(n) for name, n in re.findall(r"^(?:test counts \.\.\. )?([a-z ]+): (\d+)$", out, re.M)}
    assert count["modules"] == 1 and count["objects"] == count["armed objects"] == 30
    assert count["armed"] >= 80 and count["branches"] == count["static branches"] >= 6


def test_the_code_of_a_rewritten_program(cargo, etch):
    """By objdump: no load of a value, no test of a flag."""
    cargo("build", "--example", "server", "--release")
    program = cargo.dir / "target/release/examples/server"
    before = run([program]).stdout
    run([etch, "rewrite", program])
    assert run([program]).stdout == before == "503\nrequest 200\n200\n0 instructions differ from memory\n"
    code = run(["objdump", "-d", "--no-show-raw-insn", program]).stdout
    name, handle = re.search(r"<(_ZN6server6handle17h\w+|_RNv\w*_6server6handle)>:\n(.*?)\n\n", code, re.S).groups()
    fast = handle[:handle.index("ret")]
    assert "mov    $0x64,%e" in fast and "LIMIT" not in fast and "test" not in fast
    live = run(["gdb", "-batch", "-nx", *(x for c in ("break main", "run", f"disassemble {name}") for x in ("-ex", c)), program]).stdout
    assert re.search(r"nopl   0x0\(%rax,%rax,1\)", live), live  # libetch has made a nop of the branch


def test_what_it_repeats_is_what_the_headers_say(build, tmp_path):
    (tmp_path / "t.c").write_text("""
#define ETCH_NO_MODULE
#include <etch/imv.h>
#include <etch/unwind.h>
#include <stdio.h>
int main(void)
{
	printf("%x %u %zu %lx %lx %zu %zu\\n", ETCH_MODULE_MAGIC, ETCH_MODULE_VERSION, sizeof(struct etch_module), (long)ETCH_VALUE_MARK_0, (long)ETCH_VALUE_MARK_1, sizeof(struct etch_walk), sizeof(struct etch_info) / 8);
	printf("%d %d %d %d %d %d %d %d\\n", ETCH_ENOTETCHED, ETCH_EBUSY, ETCH_ECODE, ETCH_EPERM, ETCH_ENOSYNC, ETCH_ENOMEM, ETCH_EFORMAT, ETCH_ETHREADS);
	return 0;
}""")
    run(["gcc", f"-I{INCLUDE}", "-o", tmp_path / "t", tmp_path / "t.c"])
    first, second = run([tmp_path / "t"]).stdout.splitlines()
    source = {p.stem: p.read_text() for p in (CRATE / "src").glob("*.rs")}
    magic, version, size = re.search(r"long 0x(\w+).*?short (\d), (\d+)", source["module"], re.S).groups()
    marks = re.search(r"MARK: \[u64; 2\] = \[0x(\w+), 0x(\w+)\]", source["value"]).groups()
    walk = 8 * int(re.search(r"Walk\(\[u64; (\d+)\]\)", source["backtrace"])[1])
    info = re.search(r"let mut info = \[0; (\d+)\]", (CRATE / "tests/values.rs").read_text())[1]
    assert [magic, version, size, *(m.replace("_", "") for m in marks), str(walk), info] == first.split()
    errors = re.search(r"NOT_ETCHED: c_int = (\d)", source["sys"])[1], *re.findall(r"(\d) => Error::\w+,", source["error"])
    assert list(errors) == second.split()


def miri():
    """The toolchain that has it, or null."""
    return next((t for t in ("+stable", "+nightly")
                 if not subprocess.run(["cargo", t, "miri", "--version"], capture_output=True).returncode), None)


def test_under_miri(cargo):
    """What Miri can run of it, by Miri where cargo has it; the code for that by the compiler in any case."""
    out = cargo("test", "--tests", RUSTFLAGS="--cfg miri", CARGO_TARGET_DIR=str(cargo.dir / "miri"))
    assert re.search(r"^test result: ok\. 7 passed", out.stdout, re.M) and "warning" not in out.stderr
    if toolchain := miri():
        out = cargo(toolchain, "miri", "test", "--tests", timeout=1800).stdout
        assert re.search(r"^test result: ok\. 7 passed", out, re.M)


@pytest.mark.long
def test_under_miri_by_both_models_of_aliasing(cargo):
    """With threads in eight orders; examples of the documentation, too."""
    toolchain = miri()
    if not toolchain:
        pytest.skip("cargo has no miri: rustup component add --toolchain nightly miri rust-src")
    cargo(toolchain, "miri", "test", "--tests", timeout=1800,
          MIRIFLAGS="-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check -Zmiri-many-seeds=0..8")
    cargo(toolchain, "miri", "test", "--tests", timeout=1800, MIRIFLAGS="-Zmiri-tree-borrows")
    out = cargo(toolchain, "miri", "test", "--doc", timeout=1800).stdout
    assert re.search(r"^test result: ok\. 4 passed; 0 failed", out, re.M)
    out = cargo(toolchain, "miri", "run", "--example", "server", timeout=1800).stdout
    assert out == "503\nrequest 200\n200\n0 instructions differ from memory\n"


def test_a_program_with_panic_abort_and_without_unwind_data_is_walked(cargo, etch):
    at = cargo.package("abort", DATA / "rust" / "abort.rs", more='[profile.release]\npanic = "abort"\n')
    cargo("build", "--release", cwd=at, RUSTFLAGS="-C force-unwind-tables=no -C relocation-model=static")
    program = cargo.dir / "target/release/abort"
    symbols = [(int(a, 16), int(size, 16), name) for a, size, name in
               re.findall(r"^(\w{16}) (\w{16}) [tT] (?:_ZN|_RNv\w*_)5abort\d+([a-z_]+)(?:17h\w+)?$", run(["nm", "-S", program]).stdout, re.M)]

    def walked():
        etchs, stds = run([program], ok=-6).stdout.split("std\n")
        ips = [int(ip, 16) for ip in etchs.split()[etchs.split().index("true" if "true" in etchs else "false") + 1:]]
        names = [name for ip in ips for start, size, name in symbols if start <= ip < start + size]
        return "true" in etchs, [n for n in names if n in ("inner", "by_closure", "with_frame")], stds

    complete, names, stds = walked()
    assert names != ["inner", "by_closure", "with_frame"] and "by_closure" not in stds  # its .eh_frame does not say
    run([etch, "rewrite", program])
    complete, names, _ = walked()
    assert complete and names == ["inner", "by_closure", "with_frame"]


USER = '''//! A user with principles.
#![forbid(unsafe_code)]
#![deny(missing_docs, warnings)]

mod settings {
    //! Of others.
    etch::imv! {
        /// Is it?
        pub static VERBOSE: bool = false;
        pub(crate) static LIMIT: u32 = 3;
    }
}
use settings::{LIMIT, VERBOSE};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if etch::imv_unlikely!(settings::VERBOSE) {
        println!("no");
    }
    VERBOSE.set(true)?;
    LIMIT.set(LIMIT.get() + 1)?;
    if etch::imv_unlikely!(VERBOSE) {
        println!("yes {}", LIMIT.get());
    }
    Ok(())
}
'''


def test_a_user_who_forbids_unsafe_code(cargo, tmp_path):
    (tmp_path / "user.rs").write_text(USER)
    at = cargo.package("user", tmp_path / "user.rs", edition="2024")
    assert cargo("run", "-q", cwd=at).stdout == "yes 4\n"
    (at / "src" / "main.rs").write_text(USER.replace("u32 = 3", "[u8; 3] = [1, 2, 3]"))
    assert "`[u8; 3]: Scalar` is not satisfied" in cargo("build", cwd=at, ok=101).stderr


def test_it_is_formatted_and_clippy_has_nothing_to_say(cargo):
    for tool in ("clippy", "fmt"):
        if subprocess.run(["cargo", tool, "--version"], capture_output=True).returncode:
            pytest.skip(f"cargo {tool} is not installed")
    cargo("fmt", "--check")
    cargo("clippy", "--all-targets", "--", "-D", "warnings")


def test_a_program_and_a_library_that_it_loads(cargo, build, etch):
    """Each is a module, which goes when it is unloaded."""
    host, plugin = (cargo.package(n, DATA / "rust" / f"{n}.rs", lib=n == "plugin") for n in ("host", "plugin"))
    for at in (host, plugin):
        cargo("build", cwd=at, ETCH_DYNAMIC="1")
    out = cargo.dir / "target/debug"
    env = dict(os.environ, LD_LIBRARY_PATH=str(build))
    values = "".join(f"7 0 {9 + n} 0 -1 {n} %s\n" for n in range(3))
    assert run([out / "host", out / "libplugin.so"], env=env).stdout == values % ((("(2, 0, 0)",) * 3)) + "(1, 0, 0)\n"
    run([etch, "rewrite", out / "host", out / "libplugin.so"])
    rewritten = run([out / "host", out / "libplugin.so"], env=env).stdout
    both, own = re.search(r"\(2, (\d+), \1\)", rewritten), re.search(r"\(1, (\d+), \1\)$", rewritten)
    assert int(both[1]) > int(own[1]) >= 1 and re.sub(r"\(2, \d+, \d+\)", "%s", rewritten[:own.start()]) == values


def test_without_libetch_the_build_says_what_to_do(cargo, tmp_path):
    out = cargo("build", ok=101, ETCH_LIB_DIR=str(tmp_path / "none"), PKG_CONFIG="false")
    assert "etch: no libetch.a: set ETCH_LIB_DIR to the directory that has it" in out.stderr
