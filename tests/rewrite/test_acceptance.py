# SPDX-License-Identifier: MIT
"""Every kind of output that the tool writes is accepted by everything that reads
ELF files, runs as before, and comes out the same when asked twice."""
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from conftest import CXX, DATA, Flow, need, run

SOURCES = DATA / "acceptance"
C = ["app.c", "other.c"]
CC = ["cxx1.cc", "cxx2.cc"]
PV = ["../pv/rewrite_main.c"]

# name: (sources, compiler flags, linker flags, compilers). Each is built, processed
# and put before all the judges below.
KINDS = {
    "pie": (C, ["-O2", "-fPIE"], ["-pie"], ["gcc", "clang"]),
    "nopie": (C, ["-O2", "-fno-pie"], ["-no-pie"], ["gcc", "clang"]),
    # valgrind 3.19 cannot read the DWARF 5 of clang 14.
    "O0-debug": (C, ["-O0", "-gdwarf-4", "-fPIE"], ["-pie"], ["gcc", "clang"]),
    "static": (C, ["-O2", "-fno-pie"], ["-static"], ["gcc"]),
    "static-pie": (C, ["-O2", "-fPIE"], ["-static-pie"], ["gcc", "clang"]),
    "pic-now": (C, ["-O2", "-fPIC"], ["-pie", "-Wl,-z,now,-z,relro,-z,separate-code"], ["gcc", "clang"]),
    "noseparate": (C, ["-O2", "-fPIE"], ["-pie", "-Wl,-z,noseparate-code"], ["gcc"]),
    "packed-relocs": (C, ["-O2", "-fPIE"], ["-pie", "-Wl,-z,pack-relative-relocs"], ["gcc", "clang"]),
    "lld": (C, ["-O2", "-fPIE"], ["-pie", "-fuse-ld=lld"], ["gcc", "clang"]),
    "lld-nopie": (C, ["-O1", "-fno-pie"], ["-no-pie", "-fuse-ld=lld"], ["gcc", "clang"]),
    "lld-static": (C, ["-O2", "-fno-pie"], ["-static", "-fuse-ld=lld"], ["clang"]),
    "gc": (C, ["-O2", "-fPIE", "-ffunction-sections", "-fdata-sections"], ["-pie", "-Wl,--gc-sections"], ["gcc", "clang"]),
    "gc-start-stop": (C, ["-O2", "-fPIE", "-ffunction-sections", "-fdata-sections"],
                      ["-pie", "-Wl,--gc-sections,-z,start-stop-gc"], ["gcc", "clang"]),
    "gc-lld": (C, ["-O2", "-fPIE", "-ffunction-sections", "-fdata-sections"],
               ["-pie", "-fuse-ld=lld", "-Wl,--gc-sections"], ["clang"]),
    "icf-lld": (CC, ["-O2", "-fPIE", "-ffunction-sections"], ["-pie", "-fuse-ld=lld", "-Wl,--icf=all"], ["clang"]),
    "cxx": (CC, ["-O2", "-fPIE"], ["-pie"], ["gcc", "clang"]),
    "cxx-O0": (CC, ["-O0", "-fPIE"], ["-pie"], ["gcc", "clang"]),
    "cxx-gc-lld": (CC, ["-O2", "-fPIE", "-ffunction-sections"],
                   ["-pie", "-fuse-ld=lld", "-Wl,--gc-sections"], ["gcc", "clang"]),
    "split": (C, ["-O2", "-fno-pie", "-freorder-blocks-and-partition", "-ffunction-sections"], ["-no-pie"], ["gcc"]),
    "cet": (C, ["-O2", "-fPIE", "-fcf-protection=full"], ["-pie", "-Wl,-z,ibt,-z,shstk"], ["gcc"]),
    "lto": (C, ["-O2", "-fPIE", "-flto"], ["-O2", "-pie", "-flto"], ["gcc"]),
    "lto-lld": (C, ["-O2", "-fPIE", "-flto"], ["-O2", "-pie", "-flto", "-fuse-ld=lld"], ["clang"]),
    "thinlto-lld": (C, ["-O2", "-fPIE", "-flto=thin"], ["-O2", "-pie", "-flto=thin", "-fuse-ld=lld"], ["clang"]),
    "lto-cxx": (CC, ["-O2", "-fPIE", "-flto"], ["-O2", "-pie", "-flto"], ["gcc"]),
    "emit-relocs": (C, ["-O2", "-fPIE"], ["-pie", "-Wl,--emit-relocs"], ["gcc"]),
    "relocatable": (C, ["-O2", "-fPIE"], ["-pie"], ["gcc", "clang"]),       # one ld -r of the rewritten objects
    "relocatable-first": (C, ["-O2", "-fPIE"], ["-pie"], ["gcc", "clang"]), # ld -r, then the object step
    "relocatable-lld": (C, ["-O2", "-fPIE"], ["-pie", "-fuse-ld=lld"], ["clang"]),
    "shared": (["lib.c"], ["-O2", "-fPIC"], ["-shared"], ["gcc", "clang"]),
    "shared-lld": (["lib.c"], ["-O2", "-fPIC"], ["-shared", "-fuse-ld=lld"], ["clang"]),
    "shared-hidden": (["lib.c"], ["-O2", "-fPIC", "-fvisibility=hidden"], ["-shared"], ["gcc"]),
    "pv": (PV, ["-O2", "-fPIE"], ["-pie"], ["gcc", "clang"]),
    "pv-static": (PV, ["-O1", "-fno-pie", "-DABSOLUTE"], ["-static"], ["gcc"]),
    "pv-gc-lld": (PV, ["-O2", "-fPIE", "-ffunction-sections"], ["-pie", "-fuse-ld=lld", "-Wl,--gc-sections"], ["clang"]),
    "shared-static-libgcc": (["lib.c"], ["-Os", "-fPIC"], ["-shared", "-Wl,-z,defs", "-Wl,-Bsymbolic"], ["gcc"]),
}
# Compiled or linked from something that is no machine code yet.
BITCODE = {"lto", "lto-lld", "thinlto-lld", "lto-cxx"}
PARAMS = [(kind, cc) for kind, value in KINDS.items() for cc in value[3]]


class Product:
    """One kind, by one compiler, unprocessed, object-rewritten and link-rewritten."""

    def __init__(self, tmp, build, kind, cc):
        self.tmp, self.kind, self.flow = tmp, kind, Flow(tmp, build, cc)
        self.build = build
        sources, self.cflags, self.ldflags, _ = KINDS[kind]
        self.shared = "-shared" in self.ldflags
        self.cxx = sources is CC
        self.pv = sources is PV
        self.inputs = [self.flow.compile(SOURCES / s, self.cflags, Path(s).stem + ".o") for s in sources]
        self.plain = self.link(self.inputs, "plain")
        self.objects = []
        for o in self.inputs:
            self.objects.append(shutil.copy(o, tmp / f"rewritten-{o.name}"))
        if kind == "relocatable-first":
            whole = tmp / "whole.o"
            run(["ld", "-r", "-o", whole, *self.inputs])
            self.inputs = [whole]
            self.objects = [shutil.copy(whole, tmp / "rewritten-whole.o")]
        self.flow.rewrite(*self.objects)
        linked_from = self.objects
        if kind.startswith("relocatable") and kind != "relocatable-first":
            whole = tmp / "rewritten-whole.o"
            run(["ld.lld" if "lld" in kind else "ld", "-r", "-o", whole, *self.objects])
            linked_from = [whole]
        self.object = self.link(linked_from, "object")
        self.linked = shutil.copy(self.object, tmp / "linked")
        self.flow.rewrite(self.linked)

    def link(self, objects, name):
        if self.shared: # libetch is the program's
            out = self.tmp / f"lib{name}.so"
            run([self.flow.cc, *self.ldflags, "-o", out, *objects, f"-L{self.build}", "-letch"])
            return out
        return self.flow.link(objects, self.ldflags, name, cxx=self.cxx)

    def program(self, file):
        """What to run to see `file` work."""
        if not self.shared:
            return file
        directory = self.tmp / f"run-{file.name}"
        if not directory.exists():
            directory.mkdir()
            shutil.copy(file, directory / "libuse.so")
            use = self.flow.compile(SOURCES / "use.c", ["-O2", "-fPIC"], "use.o")
            run([self.flow.cc, "-o", directory / "use", use, directory / "libuse.so", f"-L{self.build}", "-letch",
                 f"-Wl,-rpath,{directory}:{self.build}"])
        return directory / "use"

    def run(self, file, **kw):
        return run([self.program(file)], **kw).stdout

    def outputs(self):
        """(input, output) of every run of etch rewrite."""
        return [*zip(self.inputs, self.objects), (self.object, self.linked)]

    def outputs_elf(self):
        return [(a, b) for a, b in self.outputs() if b.read_bytes()[:4] == b"\x7fELF"]


_products = {}


@pytest.fixture(params=PARAMS, ids=lambda p: "-".join(p))
def product(request, tmp_path_factory, build):
    """Built once a process, whichever tests ask for it."""
    if request.param not in _products:
        _products[request.param] = Product(tmp_path_factory.mktemp("-".join(request.param)), build, *request.param)
    return _products[request.param]


def sites_armed(flow, file):
    return [s for s in flow.sites(file) if s["form"] not in ("", "-", "none")]


def test_runs_the_same(product):
    want = product.run(product.plain)
    assert "0 sets failed, 0 sites differ" in want
    assert product.run(product.object) == want
    assert product.run(product.linked) == want
    assert sites_armed(product.flow, product.linked)


def test_twice_is_once(product):
    """Rewriting twice gives the bytes of once; two runs, also with
    another number of threads and another file name, give the same bytes."""
    # The objects as the one command that they were, for one may define what
    # another reads.
    for n, (sources, results) in enumerate(((product.inputs, product.objects), ([product.object], [product.linked]))):
        once = [r.read_bytes() for r in results]
        again = [shutil.copy(r, product.tmp / f"again{n}-{r.name}") for r in results]
        product.flow.rewrite(*again)
        assert [a.read_bytes() for a in again] == once
        for k, args in enumerate(([], ["-j", "1"], ["-j", "4"])):
            other = [shutil.copy(s, product.tmp / f"copy{n}{k}-{s.name}") for s in sources]
            product.flow.rewrite(*other, args=args)
            assert [o.read_bytes() for o in other] == once


def test_output_option(product):
    """-o writes the same bytes elsewhere and leaves the input alone."""
    before = product.object.read_bytes()
    out = product.tmp / "elsewhere"
    product.flow.rewrite("-o", out, product.object)
    assert product.object.read_bytes() == before
    assert out.read_bytes() == product.linked.read_bytes()
    assert out.stat().st_mode & 0o777 == product.object.stat().st_mode & 0o777


def complaints(argv, strip=()):
    """The lines of a tool that speak of trouble, as a multiset, without what
    differs between input and output: names, numbers."""
    p = run(argv, ok=None)
    text = p.stderr if p.returncode == 0 else p.stderr + p.stdout
    lines = []
    for line in text.splitlines():
        for s in strip:
            line = line.replace(str(s), "FILE")
        lines.append(re.sub(r"(0x)?[0-9a-f]*[0-9][0-9a-f]*", "N", line))
    return p.returncode, Counter(lines)


# By default each kind by one compiler, in turns.
ALL = os.environ.get("ETCH_TESTS") == "all"
READ = PARAMS if ALL else [(kind, value[3][i % len(value[3])]) for i, (kind, value) in enumerate(KINDS.items())]


@pytest.mark.parametrize("product", READ, ids="-".join, indirect=True)
@pytest.mark.parametrize("judge", [["objdump", "-d"], ["objdump", "-x"], ["readelf", "-aW"], ["readelf", "-wiW"],
                                   ["llvm-readelf", "-a"], ["llvm-objdump", "-d"], ["eu-readelf", "-a"]],
                         ids=lambda j: "".join(j))
def test_readers(product, judge):
    need(judge[0])
    for source, result in product.outputs_elf():
        was, now = (complaints([*judge, f], [f, f.name]) for f in (source, result))
        assert now[0] == was[0]
        assert not now[1] - was[1]


def test_elflint(product):
    need("eu-elflint")
    for source, result in product.outputs_elf():
        findings = []
        for f in (source, result):
            p = run(["eu-elflint", "--gnu-ld", f], ok=None)
            # Section numbers and addresses may move; what is said may not.
            findings.append(Counter(re.sub(r"(0x)?\b[0-9a-f]*[0-9][0-9a-f]*\b", "N", line)
                                    for line in (p.stdout + p.stderr).splitlines()))
        assert not findings[1] - findings[0]


def test_strip(product):
    want = product.run(product.plain)
    for file in (product.object, product.linked):
        for option in ("--strip-all", "--strip-debug"):
            stripped = product.tmp / f"stripped{option}-{file.name}"
            run(["strip", option, "-o", stripped, file])
            assert product.run(stripped) == want
            # What has been stripped can still be linked-rewritten, and then runs.
            product.flow.rewrite(stripped)
            shutil.rmtree(product.tmp / f"run-{stripped.name}", ignore_errors=True)
            assert product.run(stripped) == want


def test_objects_after_strip(product):
    """strip --strip-debug and objcopy of a rewritten object, then the link."""
    if product.kind in BITCODE:
        pytest.skip("no machine code in these objects")
    stripped = []
    for o in product.objects:
        out = product.tmp / f"stripped-{o.name}"
        run(["strip", "--strip-debug", "-o", out, o])
        run(["objcopy", out, out])
        stripped.append(out)
    linked = product.link(stripped, "from-stripped")
    product.flow.rewrite(linked)
    assert product.run(linked) == product.run(product.plain)
    assert len(product.flow.sites(linked)) == len(product.flow.sites(product.linked))


def test_relink(product):
    """ld -r of what the object step wrote, and a final link of that."""
    if product.kind in BITCODE:
        pytest.skip("no machine code in these objects")
    whole = product.tmp / "relinked.o"
    run(["ld", "-r", "-o", whole, *product.objects])
    linked = product.link([whole], "relinked")
    product.flow.rewrite(linked)
    assert product.run(linked) == product.run(product.plain)


def test_gdb(product):
    """gdb loads it, stops in it, and prints an etched object's value."""
    need("gdb")
    what = "setup.width" if product.cxx else "lib_config.level" if product.shared else "cfg.level"
    value = "4" if product.cxx else "1" if product.shared else "3"
    # Without DWARF the type has to be told.
    expression = f"print *(int *)&{what.split('.')[0]}"
    shown = f"= {value}\n"
    if product.pv:
        expression, shown = "info symbol *(long *)((char *)&pv_table + 24)", "add in section .text"
    p = run(["gdb", "-batch", "-nx", "-ex", "set confirm off", "-ex", "set startup-with-shell off",
             "-ex", "break main", "-ex", "run", "-ex", expression, "-ex", "continue", product.program(product.linked)],
            ok=None, env={**os.environ, "DEBUGINFOD_URLS": ""})
    assert p.returncode == 0, p.stderr
    assert "exited normally" in p.stdout, p.stdout + p.stderr
    assert shown in p.stdout, p.stdout
    for line in product.run(product.plain).splitlines():
        assert line in p.stdout


def test_valgrind(product):
    """With its default options, which trust text that comes from a file to stay as
    it is: libetch has to say what it changed."""
    need("valgrind")
    # In a static libc memcheck finds fault with set_robust_list and strlen, with or
    # without us, for it cannot put its own there: run those, without its judgement.
    static = {"-static", "-static-pie"} & set(product.ldflags)
    options = ["--tool=none"] if static else ["--error-exitcode=9"]
    p = run(["valgrind", "-q", *options, product.program(product.linked)], ok=None)
    assert p.returncode == 0, p.stderr
    assert p.stdout == product.run(product.plain)


def dynamic_relocations(file):
    """Offsets that the dynamic linker changes in file."""
    text = run(["readelf", "-rW", "--use-dynamic", file]).stdout
    return [int(m[1], 16) for m in re.finditer(r"^([0-9a-f]{8,16})\s+(?:[0-9a-f]{8,16}\s|\s*[0-9a-f]{12})", text, re.M)]


def sections(file):
    """name: [(address, size)], as readelf shows them."""
    out = {}
    for m in re.finditer(r"^\s*\[\s*\d+\]\s+(\S+)\s+\S+\s+([0-9a-f]{16})\s+[0-9a-f]{6,}\s+([0-9a-f]{6,})",
                         run(["readelf", "-SW", file]).stdout, re.M):
        out.setdefault(m[1], []).append((int(m[2], 16), int(m[3], 16)))
    return out


def test_no_dynamic_relocation(product):
    """The tables refer to sites and objects relative to themselves. The objects
    may have such relocations (a pointer's initial value), as without the tool."""
    static = "-static" in product.ldflags
    for file in (product.object, product.linked):
        relocations, secs = dynamic_relocations(file), sections(file)
        assert relocations or static or "-no-pie" in product.ldflags
        if product.kind not in BITCODE:
            assert "__imv" in secs and "__etch_obj" in secs
        for name in ("__imv", "__etch_obj", "__etch_mod", ".rodata.etch"):
            for start, size in secs.get(name, []):
                assert not [hex(r) for r in relocations if start <= r < start + size]
        # No text relocation either.
        assert "TEXTREL" not in run(["readelf", "-dW", file]).stdout
    assert len(dynamic_relocations(product.linked)) == len(dynamic_relocations(product.object))


def test_segments_keep_their_protection(product):
    """No segment becomes writable and executable, and none that was is not."""
    flags = []
    for file in (product.object, product.linked):
        text = run(["readelf", "-lW", file]).stdout
        flags.append(Counter(m[1].replace(" ", "") for m in re.finditer(r"^\s+LOAD\s+(?:0x\w+\s+){5}(.{3})", text, re.M)))
    assert not [f for f in flags[1] if "W" in f and "E" in f]
    assert not flags[0] - flags[1]  # a segment for moved tables may be added: read-only
    assert set((flags[1] - flags[0]).elements()) <= {"R"}


def test_dropped_with_the_code(tmp_path, build, cc):
    """--gc-sections drops the entries of the functions it drops, and the entries
    of a function that stays do not keep another one. GNU ld has to be told: by
    default it keeps all of a section whose __start_ symbol is used."""
    flow = Flow(tmp_path, build, cc)
    flags = ["-O2", "-fPIE", "-ffunction-sections"]
    objects = [flow.compile(SOURCES / s, flags) for s in C]
    flow.rewrite(*objects)
    counts = {}
    for name, extra in (("kept", []), ("dropped", ["-Wl,--gc-sections,-z,start-stop-gc"]),
                        ("lld", ["-fuse-ld=lld", "-Wl,--gc-sections"])):
        exe = flow.link(objects, ["-pie", *extra], name)
        assert ("dead_work" in run(["nm", exe]).stdout) == (name == "kept")
        flow.rewrite(exe)
        counts[name] = len(flow.sites(exe))
        assert run([exe]).stdout == run([flow.link(objects, ["-pie"], "all")]).stdout
    assert counts["dropped"] < counts["kept"]
    assert counts["lld"] == counts["dropped"]


def test_comdat_once(tmp_path, build, cc):
    """A template that two files instantiate has its sites listed once."""
    flow = Flow(tmp_path, build, cc)
    objects = [flow.compile(SOURCES / s, ["-O0", "-fPIE"]) for s in CC]
    flow.rewrite(*objects)
    exe = flow.link(objects, ["-pie"], "cxx", cxx=True)
    for step in range(2):
        addresses = [s["address"] for s in flow.sites(exe) if s["address"].strip("0")]
        assert addresses and len(addresses) == len(set(addresses))
        flow.rewrite(exe)


# How the program reaches the library's objects: by copy relocation (gcc -fPIE and
# -fno-pie do that, by default), or through the GOT.
USES = {
    "nopie": (["-fno-pie"], ["-no-pie"]),
    "pie": (["-fPIE"], ["-pie"]),
    "pic": (["-fPIC"], ["-pie"]),
    "nocopy": (["-fPIE", "-mno-direct-extern-access"], ["-pie"]),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("rewritten", ["neither", "library", "program", "objects", "both"])
def test_across_modules(tmp_path, build, cc, use, level, rewritten):
    """DEFINE_IMV and EXPORT_IMV_SYMBOL, and a plain ETCHED struct, in a library;
    read and set by both, whichever of them has been through the tool."""
    cflags, ldflags = USES[use]
    if use == "nocopy" and cc == "clang":
        cflags = ["-fPIE", "-fno-direct-access-external-data"]
    flow = Flow(tmp_path, build, cc)
    lib_o = flow.compile(SOURCES / "lib.c", [level, "-fPIC"])
    use_o = flow.compile(SOURCES / "use.c", [level, *cflags])
    if rewritten in ("library", "objects", "both"):
        flow.rewrite(lib_o)
    if rewritten in ("program", "objects", "both"):
        flow.rewrite(use_o)
    lib, exe = tmp_path / "libuse.so", tmp_path / "use"
    run([cc, "-shared", "-o", lib, lib_o, f"-L{build}", "-letch"])
    run([cc, *ldflags, "-o", exe, use_o, lib, f"-L{build}", "-letch", f"-Wl,-rpath,{tmp_path}:{build}"])
    if rewritten in ("library", "both"):
        flow.rewrite(lib)
    if rewritten in ("program", "both"):
        flow.rewrite(exe)
    want = []
    level_, limit, flag, verbose, imv_limit = 1, 2, 5, 10, 1 << 40

    def line(prefix=""):
        total = level_ + limit * 3 + flag + verbose + imv_limit
        want.append(f"{prefix}{total} {total}")

    line()
    for i in range(4):
        n = i * 10
        level_, flag, verbose, imv_limit = n, (n + 1) & 255, n + 2, n + 3
        line("library set: ")
        level_, limit, verbose, imv_limit = -i, 1 << (i * 15), i * i, -i
        line("program set: ")
    want.append("0 sets failed, 0 sites differ")
    assert run([exe]).stdout.splitlines() == want


def test_modes_and_links(tmp_path, build):
    """The file keeps its permission bits; a symbolic link stays one; another hard
    link keeps the old bytes (the new file is renamed into place)."""
    flow = Flow(tmp_path, build, "gcc")
    o = flow.compile(SOURCES / "app.c", ["-O2"])
    before = o.read_bytes()
    o.chmod(0o640)
    os.link(o, tmp_path / "hard.o")
    (tmp_path / "soft.o").symlink_to("app.o")
    flow.rewrite(tmp_path / "soft.o")
    assert (tmp_path / "soft.o").is_symlink()
    assert o.read_bytes() != before
    assert o.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "hard.o").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["app.o", "hard.o", "soft.o"]
