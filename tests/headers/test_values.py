# SPDX-License-Identifier: MIT
"""etch::value (etch/imv.hpp): values of every kind of C++ variable are found, armed and set while threads read them."""
import re

import pytest

from conftest import CXX, DATA, INCLUDE, Flow, run

LIB = DATA / "lib"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wold-style-cast", "-Wshadow", "-Wconversion", "-Werror"]
# Compiler, flags, flags of the link, static branches at least, before loops are unrolled (they need position-independent code and optimization).
MODES = {
    "g++-O0": ("gcc", ["-O0", "-std=c++17"], [], 0), "g++-O1": ("gcc", ["-O1", "-std=c++20"], [], 4),
    "g++-O2": ("gcc", ["-O2", "-std=c++17"], [], 4), "g++-O3": ("gcc", ["-O3", "-std=c++20"], [], 4),
    "g++-no-pie": ("gcc", ["-O2", "-fno-pie"], ["-no-pie"], 0), "g++-static": ("gcc", ["-Os"], ["-static"], 4),
    "g++-lto": ("gcc", ["-O2", "-flto"], ["-O2", "-flto"], 4), "g++-intel": ("gcc", ["-O2", "-masm=intel"], [], 4),
    "g++-sections": ("gcc", ["-O2", "-fdata-sections", "-ffunction-sections"], ["-Wl,--gc-sections"], 4),
    "clang++-O0": ("clang", ["-O0", "-std=c++17"], [], 0), "clang++-O1": ("clang", ["-O1", "-std=c++20"], [], 4),
    "clang++-O2": ("clang", ["-O2", "-std=c++17"], [], 4), "clang++-O3": ("clang", ["-O3", "-std=c++20"], [], 4),
    "clang++-no-pie": ("clang", ["-O2", "-fno-pie"], ["-no-pie"], 0), "clang++-lld": ("clang", ["-O2"], ["-fuse-ld=lld"], 4),
}
# What values.cc prints, by the C++ meaning of its source. branches(): three times 1 if tracing, 10 if shared, 100 if
# state is on. other_sum(): 1 if shared, and four numbers.
EXPECTED = f"""\
start: 1 1 9 3 3 2 9 0 -4 1.5 -4 1.5 {1 << 40} limit a 1 7 {3 * 110} {1 + 3 + 3 + 9 + 2} 0
set: 2 0 0 0 0 -1 {1 << 30} 0 5 1.5 -4 -0.25 -1 none z 0 8 {3 * 1} {(1 << 30) - 1} 1
elsewhere 10 20 1
threads wrong 0 turn 300 read 1
etch 3 1
verify 0
"""
VALUES = 16  # with static storage and a constant initializer


def made(flow, mode, stage):
    _, flags, ldflags, _ = MODES[mode]
    objects = []
    for name in ("values", "values_other"):
        out = flow.tmp / f"{stage}-{name}.o"
        run([CXX[flow.cc], "-std=c++17", *WARNINGS, *flags, f"-I{INCLUDE}", "-c", "-o", out, LIB / f"{name}.cc"])
        objects.append(out)
    if stage in ("object", "both"):
        flow.rewrite(*objects)
    out = flow.link(objects, ldflags, stage, cxx=True)
    if stage in ("linked", "both"):
        flow.rewrite(out)
        once = out.read_bytes()
        flow.rewrite(out)
        assert out.read_bytes() == once
    return out


# The reads are assembly: -O1 and -O3 change what is around them, as -O2, -Os and LTO do.
@pytest.mark.parametrize("mode", [pytest.param(m, marks=pytest.mark.long) if m.endswith(("-O1", "-O3")) else m for m in MODES])
@pytest.mark.parametrize("stage", ["plain", "linked", "both"])
def test_values_hold_under_threads(tmp_path, build, mode, stage):
    flow = Flow(tmp_path, build, MODES[mode][0])
    p = run([made(flow, mode, stage), "300"])
    assert p.stdout == EXPECTED
    count = [int(n) for n in re.findall(r"\d+", p.stderr)]
    sites, armed, objects_armed, objects, readonly, static, branches = count
    if stage == "plain":
        assert armed == objects == static == 0
        return
    assert objects == objects_armed == VALUES and not readonly
    assert armed >= 20 and branches >= MODES[mode][3] and bool(branches) == bool(MODES[mode][3]) and static == branches
    sites = [s for s in flow.sites(tmp_path / stage) if s["live"] == "yes"]
    assert {s["object"] for s in sites} >= {"shared", "_Z8per_typeIiE", "_ZN8counters8in_classE", "_ZL7tracing", "_ZL4turn"}
    assert len(sites) >= armed - branches


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_errors_are_as_the_standard_librarys(tmp_path, build, cc, standard):
    """After a breakpoint a set fails: by exception or by code, and nothing has changed."""
    flow = Flow(tmp_path, build, cc)
    source = flow.source("""
#include <etch/imv.hpp>
#include <cstdint>
#include <cstdio>
#include <sys/mman.h>
etch::value<int> v{1};
static_assert(!std::is_copy_constructible_v<etch::value<int>> && !std::is_copy_assignable_v<etch::value<int>>);
static_assert(std::is_same_v<decltype(v = 1), int> && std::is_same_v<decltype(etch::value(2L)), etch::value<long>>);
static_assert(noexcept(v.set(1)) && noexcept(v.load()) && !noexcept(v.store(1)));
[[gnu::noinline]] int get() { return v; }
int main()
{
	auto *code = reinterpret_cast<unsigned char *>(reinterpret_cast<std::uintptr_t>(&get));
	void *page = reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(code) & ~std::uintptr_t{4095});
	mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
	while (code[0] != 0xc7 || code[1] != 0xc0) /* mov $1, %eax */
		code++;
	*code = 0xcc;
	const std::error_code ec = v.set(2);
	std::printf("%d %s %d\\n", ec.value(), ec.category().name(), v.load_memory());
	try {
		v = 3;
	} catch (const std::system_error &e) {
		std::printf("%s %d\\n", e.what(), e.code() == ec);
	}
	*code = 0xc7;
	v = 4;
	std::printf("%d ", get());
	std::printf("%d ", v.set(5) ? 1 : 0);
	std::printf("%d\\n", get());
}
""", "t.cc")
    out = flow.tmp / "t"
    obj = flow.tmp / "t.o"
    run([CXX[cc], f"-std={standard}", *WARNINGS, "-O2", f"-I{INCLUDE}", "-c", "-o", obj, source])
    flow.link([obj], out="t", cxx=True)
    flow.rewrite(out)
    busy = "3 etch 1\n"
    assert run([out]).stdout.startswith(busy)
    assert re.fullmatch(busy + r"etch::value: .* 1\n4 0 5\n", run([out]).stdout)
    run([CXX[cc], f"-std={standard}", *WARNINGS, "-fno-exceptions", "-fno-rtti", f"-I{INCLUDE}", "-c", "-o", obj, "-x", "c++", "-"],
        input="#include <etch/imv.hpp>\nint set(etch::value<int> &v);\nint set(etch::value<int> &v) { v = 1; return v; }\n")


@pytest.mark.parametrize("stage", ["linked", "both"])
def test_values_of_a_shared_object_and_of_a_stripped_file(tmp_path, build, cc, stage):
    flow = Flow(tmp_path, build, cc)
    flags = ["-std=c++17", "-O2", "-fPIC", f"-I{INCLUDE}"]
    library = flow.source("""
#include <etch/imv.hpp>
etch::value<int> exported{1};
static etch::value<int> own{10};
int sum() { return exported + own; }
void set(int a, int b) { exported = a; own = b; }
""", "lib.cc")
    program = flow.source("""
#include <etch/imv.hpp>
#include <cstdio>
extern etch::value<int> exported;
int sum(); void set(int a, int b);
int main()
{
	std::printf("%d %d\\n", exported.load(), sum());
	set(2, 20);
	std::printf("%d %d\\n", exported.load(), sum());
	exported = 3;
	std::printf("%d %d %ld\\n", exported.load(), sum(), etch_verify(nullptr, nullptr));
}
""", "main.cc")
    for source in (library, program):
        run([CXX[cc], *flags, "-c", "-o", source.with_suffix(".o"), source])
        if stage == "both":
            flow.rewrite(source.with_suffix(".o"))
    shared = flow.tmp / "libv.so"
    run([CXX[cc], "-shared", "-o", shared, library.with_suffix(".o"), f"-L{build}", "-letch", f"-Wl,-rpath,{build}"])
    out = flow.link([program.with_suffix(".o"), shared], [f"-Wl,-rpath,{flow.tmp}"], cxx=True, shared_lib=True)
    run(["strip", shared])
    flow.rewrite(shared)
    flow.rewrite(out)
    assert run([out]).stdout == "1 11\n2 22\n3 23 0\n"
    assert [s["live"] for s in flow.sites(shared)].count("yes") >= 1
