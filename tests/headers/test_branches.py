# SPDX-License-Identifier: MIT
"""Static branches (etch/branch.h): a nop or a jump that follows a variable, at any place, while threads run it."""
import re
import struct
import subprocess

import pytest
from elftools.elf.elffile import ELFFile

from conftest import DATA, Flow, run

SOURCE = DATA / "lib" / "branches.c"
MODES = {
    "gcc-O0": ("gcc", ["-O0"], [], False), "gcc-O2": ("gcc", ["-O2"], [], False), "gcc-packed": ("gcc", ["-O2", "-DETCH_BRANCH_PACKED"], [], False),
    "gcc-Os-static": ("gcc", ["-Os"], ["-static"], False), "gcc-static-pie": ("gcc", ["-O3", "-fPIE", "-fcf-protection=full"], ["-static-pie"], False),
    "gcc-no-pie": ("gcc", ["-O2", "-fno-pie"], ["-no-pie"], False),
    "gcc-gc": ("gcc", ["-O2", "-ffunction-sections"], ["-Wl,--gc-sections"], False), "gcc-intel": ("gcc", ["-O2", "-masm=intel"], [], False),
    "clang-O0": ("clang", ["-O0"], [], False), "clang-packed": ("clang", ["-O2", "-DETCH_BRANCH_PACKED"], [], False),
    "clang-lld": ("clang", ["-O2", "-ffunction-sections"], ["-fuse-ld=lld", "-Wl,--gc-sections"], False),
    "g++-packed": ("gcc", ["-O2", "-DETCH_BRANCH_PACKED"], [], True), "g++-O0": ("gcc", ["-O0"], [], True),
    "clang++-O0": ("clang", ["-O0"], [], True), "clang++-packed": ("clang", ["-O2", "-DETCH_BRANCH_PACKED"], [], True),
}
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wshadow"]


def expected():
    """What the program prints, reckoned from the C meaning of its sources."""
    def loop(flag, on, small):
        total = 0
        for i in range(10):
            total += i if flag else 0
            total ^= 0x55 if small and not on else 0
        return total
    cases = {0: 1, 1: 11, 2: 21, 5: 51, 7: 71, 8: 81, -3: -29}
    rows, color = [], 0
    for name in ("start", "released", "synced"):
        out = f"{name}:"
        for v in range(4):
            flag, on = v * v * 1000, v * 85 % 256
            out += f" {6 if flag else 3},{5 if on else 104},{5 if flag else -5},{loop(flag, on, 0)}"
        out += "".join(f" {1 << v}" for v in range(6))
        for m in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -3, 1 << 40, (1 << 32) + 1, 0]:
            out += f" {cases.get(m, -1)}/{(m + 128) % 256 - 128}"
        rows.append(out + " verify 0\n")
    return "".join(rows)


@pytest.fixture(scope="module", params=MODES)
def mode(request, tmp_path_factory, build):
    cc, flags, ldflags, cxx = MODES[request.param]
    return Flow(tmp_path_factory.mktemp("branches"), build, cc), flags, ldflags, cxx


def made(mode, stage):
    flow, flags, ldflags, cxx = mode
    source = SOURCE
    if cxx:
        source = flow.source(SOURCE.read_text(), "branches.cc")
        flags = [*flags, "-Wno-format"]
    obj = flow.compile(source, [*WARNINGS, *flags], f"{stage}.o")
    if stage in ("object", "both"):
        flow.rewrite(obj)
    out = flow.link([obj], ldflags, stage, cxx=cxx)
    if stage in ("linked", "both"):
        flow.rewrite(out)
        once = out.read_bytes()
        flow.rewrite(out)
        assert out.read_bytes() == once
    return out


@pytest.mark.parametrize("stage", ["plain", "object", "both"])
def test_runs(mode, stage):
    p = run([made(mode, stage), "300" if stage != "plain" else "30"])
    assert p.stdout == expected() + "wrong branches 0 verify 0\nerrors 0\n"
    counts = {m[0]: (int(m[1]), int(m[2])) for m in re.findall(r"^(\w+) (\d+) of (\d+)$", p.stderr, re.M)}
    assert int(re.search(r"(\d+) branches in", p.stderr)[1]) > 0
    assert counts["start"][1] >= 30
    if stage == "plain":
        assert all(n == 0 for n, _ in counts.values())
    else:
        # All but the switches of values that no case is for. What is released reads memory.
        assert all(counts[w][0] >= counts[w][1] - 2 for w in (("start", "synced") if stage == "both" else ("synced",)))
        assert counts["released"][0] < counts["synced"][0]


def test_of_another_file_and_module(flow, tmp_path):
    """A variable of a shared object: by DECLARE_IMV the branch reads, in the object itself it is static."""
    lib = flow.compile(flow.source("""#include <etch/branch.h>
        DEFINE_IMV(int, far) = 0; static DEFINE_IMV(int, near) = 0;
        int set_near(int v); int near_is(void); int far_is_here(void);
        int set_near(int v) { return imv_set(near, v); }
        int near_is(void) { return imv_unlikely(near) ? 1 : 0; }
        int far_is_here(void) { return imv_unlikely(far) ? 1 : 0; }""", "lib.c"), ["-O2", "-fPIC"])
    main = flow.compile(flow.source("""#include <etch/branch.h>
        #include <stdio.h>
        DECLARE_IMV(int, far); DECLARE_IMV_LOCAL(int, other);
        int set_near(int v), near_is(void), far_is_here(void), set_other(int v);
        int main(void) {
            struct etch_info i = { .size = sizeof(i) };
            for (int v = 0; v < 3; v++) {
                int e = imv_set(far, v) | set_near(v) | set_other(v);
                printf("%d: %d %d %d %d verify %ld\\n", e, near_is(), far_is_here(), imv_true(far) ? 1 : 0,
                       imv_likely(other) ? 1 : 0, etch_verify(0, 0));
            }
            etch_info(&i);
            fprintf(stderr, "%lu of %lu\\n", i.branches_static, i.branches);
            return 0; }""", "main.c"), ["-O2", "-fPIC"])
    other = flow.compile(flow.source("#include <etch/branch.h>\nint set_other(int v);\nDEFINE_IMV(int, other) = 0;\n"
                                     "int set_other(int v) { return imv_set(other, v); }\n", "other.c"), ["-O2", "-fPIE"])
    so = tmp_path / "libfar.so"
    run([flow.cc, "-shared", "-o", so, lib, f"-L{flow.build}", "-letch", f"-Wl,-rpath,{flow.build}"])
    out = flow.link([main, other, so], [f"-Wl,-rpath,{tmp_path}"], shared_lib=True)
    want = "".join(f"0: {int(v > 0)} {int(v > 0)} {int(v > 0)} {int(v > 0)} verify 0\n" for v in range(3))
    assert run([out]).stdout == want
    flow.rewrite(so, out)
    p = run([out])
    assert p.stdout == want
    live, of = map(int, re.search(r"(\d+) of (\d+)", p.stderr).groups())
    assert live == of >= 2  # near, other, which a compiler may test more than once: that of far has no variable that the table could name


def test_rows_of_all_ways(flow):
    """The code that a branch or a marker can go to is reached: rows from the code alone are those of .eh_frame."""
    obj = flow.compile(SOURCE, ("-O2", "-fno-pie"))
    out = flow.link([obj], ["-no-pie"], shared_lib=True)

    def rows(*how):
        flow.rewrite(out, args=["--only", "orc", *how])
        cfa = {}
        with open(out, "rb") as f:
            syms = {s.name: s for s in ELFFile(f).get_section_by_name(".symtab").iter_symbols()}
        for name in [n for n in syms if re.fullmatch(r"f_[a-z]+|kinds|(site|way)_\d+", n)]:
            at, size = syms[name]["st_value"], syms[name]["st_size"]
            text = run([flow.etch, "inspect", "orc", "--at", name, "--format", "tsv", out]).stdout
            for r in text.splitlines()[1:]:
                start, n, rule, _, ra, kind = r.split("\t")[:6]
                cfa.update({a: (rule, ra, kind) for a in range(int(start, 16), int(start, 16) + int(n, 16)) if at <= a < at + size})
        return cfa
    with_cfi, code = rows(), rows("--no-cfi")
    both = [a for a in with_cfi if with_cfi[a][2] == "call"]
    assert len(both) > 100
    assert not [(hex(a), code.get(a), with_cfi[a]) for a in both if code.get(a) != with_cfi[a]]


@pytest.mark.parametrize("harm", ["site", "kind", "size", "load", "code"])
def test_damaged(flow_gcc, harm):
    """libetch ignores a module with a malformed table, or the record; a site with other bytes is an error of the set."""
    out = flow_gcc.program(SOURCE, "linked")
    with open(out, "rb") as f:
        elf = ELFFile(f)
        s = elf.get_section_by_name("__etch_branch")
        off, addr = s["sh_offset"], s["sh_addr"]
        data = bytearray(out.read_bytes())
        site = addr + 8 + struct.unpack_from("<i", data, off + 8)[0]
        p = next(p for p in elf.iter_segments() if p["p_type"] == "PT_LOAD" and p["p_vaddr"] <= site < p["p_vaddr"] + p["p_filesz"])
        code = p["p_offset"] + site - p["p_vaddr"]
    if harm == "site":
        data[off + 8:off + 12] = struct.pack("<i", 0x7f000000)
    elif harm == "kind":
        data[off + 1] = 9
    elif harm == "size":
        data[off] = 3
    elif harm == "load":
        data[off + 12:off + 16] = struct.pack("<i", 0x7f000000)
    else:
        data[code + 1] ^= 1
    out.write_bytes(data)
    p = subprocess.run([flow_gcc.etch, "rewrite", out], capture_output=True, text=True)
    assert p.returncode in (0, 2) and p.stderr.count("\n") <= 1
    p = subprocess.run([out], capture_output=True, text=True)
    if harm == "site":  # one branch less
        assert p.stdout == expected() + "errors 0\n"
    elif harm == "code":  # the code itself is damaged: only that libetch did not change it can be said
        assert "other" in p.stdout or "neither" in p.stdout or p.returncode < 0
    else:
        assert "malformed" in p.stdout and p.returncode == 0
