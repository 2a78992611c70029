# SPDX-License-Identifier: MIT
"""libetch at its edges: errors, limits of the system, faults, fork. The program
is tests/data/lib/edge*.c, its tables are written by hand; each case runs in a process
of its own, for each kind of program that libetch serves."""

import re
import shutil
import signal

import pytest

from conftest import DATA, INCLUDE, need, run, stray

CASES = """basic facts errors wide overlap busy code stale mdwe mdwe_start membarrier
membarrier_late membarrier_start mprotect_eperm mprotect_eacces mprotect_einval
mprotect_enomem mprotect_second mprotect_text mprotect_start same blocked fork fork_set
huge cost ignored handler_info handler_plain swap swap_busy swap_busy_load swap_mremap swap_enomem swap_mmap
swap_mprotect swap_membarrier swap_second swap_third swap_partly swap_limit swap_mlock swap_hole
swap_fork swap_ended""".split()

KINDS = {
    "pie": ["-fPIE", "-pie"],
    "no-pie": ["-fno-pie", "-no-pie"],
    "static": ["-fno-pie", "-static"],
    "static-pie": ["-fPIE", "-static-pie"],
    "shared": ["-fPIE", "-pie"],  # with libetch.so
    "lld": ["-fPIE", "-pie", "-fuse-ld=lld"],
}


@pytest.fixture(scope="module")
def edge(build, once, tmp_path_factory):
    made = {}

    def objects(flag):
        """Kinds that only the linker tells apart have them in common."""
        return sorted(once(f"edge{flag}", lambda directory: run(
            ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", flag, "-c",
             *sorted((DATA / "lib").glob("edge*.c"))], cwd=directory)).glob("*.o"))

    def make(kind):
        if kind not in made:
            out = tmp_path_factory.mktemp("edge") / "edge"
            lib = [f"-L{build}", "-letch", f"-Wl,-rpath,{build}"] if kind == "shared" else [build / "libetch.a"]
            run(["gcc", *KINDS[kind], "-o", out, *objects(KINDS[kind][0]), *lib, "-pthread"])
            made[kind] = out
        return made[kind]

    return make


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_case(edge, kind, case):
    assert run([edge(kind), case]).stdout.endswith("done\n")


def test_swap_without_the_file(edge, tmp_path):
    """Its name is gone, and /proc/self/exe is still the file."""
    program = tmp_path / "edge"
    shutil.copy(edge("pie"), program)
    assert run([program, "swap_deleted"]).stdout.endswith("done\n")
    assert not program.exists()


# These need privileges and a suitable kernel; scripts/vm/swaps.py has machines with both.
SYSTEM = "uprobe mremap_failnth swap_failnth swap_failing".split()


@pytest.mark.parametrize("case", SYSTEM)
def test_system_case(edge, case):
    p = run([edge("pie"), case], ok=(0, 77))
    if p.returncode == 77:
        pytest.skip(p.stdout.strip())
    assert p.stdout.endswith("done\n")


def test_perf_symbols(edge, tmp_path):
    """Samples on a page that was swapped have their names: the page is still a mapping of the file."""
    if not shutil.which("perf"):
        pytest.skip("perf is not installed, and not needed to build etch")
    data = tmp_path / "data"
    p = run(["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "250", "-o", data, edge("pie"), "swap_spin"], ok=None)
    if p.returncode:
        pytest.skip("perf may not record")
    lines = run(["perf", "script", "-i", data, "-F", "ip,sym,dso"]).stdout.splitlines()
    spins = [x for x in lines if "moved_spin" in x]
    assert len(spins) > 10 and len(spins) > 0.8 * len(lines)
    assert all(x.rstrip().endswith("/edge)") for x in spins)


# What a person reads when a plain store meets a read-only object.
STRAY = {
    "stray": r"stray_store\+0x[0-9a-f]+ at \S*edge_faults\.c:\d+ \(\S*/edge\) stores to the etched object plain\+0x0,",
    "stray_field": r"stray_store\+0x[0-9a-f]+ at \S*edge_faults\.c:\d+ \(\S*/edge\) stores to the etched object pair\+0x4,",
    # by libc, on the program's behalf; its local symbols may be stripped
    "stray_memcpy": r"\S.* \(\S+\) stores to the etched object wide\+0x[0-7],",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", STRAY)
def test_stray_store(edge, kind, case):
    assert "done" in run([edge(kind), case]).stdout
    warned = stray([edge(kind), case], "warn")
    assert "done" in warned.stdout and "ETCH-I102" in warned.stderr and re.match(r"etch: stray store: " + STRAY[case], warned.stderr)
    p = stray([edge(kind), case], ok=-signal.SIGSEGV)
    assert "done" not in p.stdout
    assert re.match(r"etch: stray store: " + STRAY[case], p.stderr), p.stderr
    assert "etch_set or imv_set" in p.stderr and "etch_release" in p.stderr and "ETCH-I101" in p.stderr
    assert p.stderr.count("\n") == 2


@pytest.mark.parametrize("case", ["null", "read", "raise", "kill", "handler_once"])
def test_other_faults_are_not_ours(edge, case):
    """They end the process as they would without libetch, and without a word."""
    p = run([edge("pie"), case], ok=-signal.SIGSEGV)
    assert p.stderr == "" and "done" not in p.stdout


@pytest.mark.parametrize("kind", ["pie", "static"])
def test_gdb_breakpoint(edge, kind):
    """A breakpoint of a real debugger on a site: busy, and nothing changed."""
    need("gdb")
    p = run(["gdb", "-q", "-batch", "-nx", "-ex", "break gdb_here", "-ex", "run gdb", "-ex", "break *&far2",
             "-ex", "continue", "-ex", "delete", "-ex", "continue", edge(kind)])
    lines = p.stdout.splitlines()
    assert [x for x in lines if x.startswith(("set ", "memory "))] == [
        "set 3", "memory 7 site 7 verify 0", "set 0"], p.stdout
    assert "exited normally" in p.stdout


@pytest.mark.parametrize("kind", ["pie", "static"])
def test_gdb_takes_a_breakpoint_away_during_a_swap(edge, kind):
    """A breakpoint on a page that is swapped, deleted between the last comparison and the move: it does not come back."""
    need("gdb")
    p = run(["gdb", "-q", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-ex", "break moved_start", "-ex", "run swap_gdb",
             "-ex", "delete", "-ex", "break *&moved_page", "-ex", "catch syscall mremap",
             # the page of the variable: before and after; then the first of text
             *("-ex", "continue") * 3, "-ex", "delete", "-ex", "continue", edge(kind)])
    assert p.stdout.count("(call to syscall mremap)") == 2 and "exited normally" in p.stdout, p.stdout + p.stderr


@pytest.mark.parametrize("case", ["basic", "facts", "wide", "stale"])
def test_valgrind(edge, case):
    """valgrind sees the changes of code without --smc-check."""
    need("valgrind")
    run(["valgrind", "-q", "--error-exitcode=9", edge("pie"), case])


@pytest.mark.parametrize("mode", ["thp", "hugetlb"])
def test_huge_text(build, tmp_path, mode):
    """Text that lies on whole 2 MiB pages: set and read back, or a clear error
    with nothing changed; hugetlbfs can only refuse."""
    out = tmp_path / "huge"
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", f"-I{INCLUDE}", "-fno-pie", "-no-pie",
         "-Wl,-z,max-page-size=0x200000", "-o", out, DATA / "lib" / "huge.c", build / "libetch.a"])
    p = run([out, mode], ok=(0, 77))
    if p.returncode == 77:
        pytest.skip(p.stdout.strip())
    assert p.stdout.endswith("done\n")


def test_stray_store_stripped(edge, tmp_path):
    """Without symbols, the message says where in the file."""
    out = tmp_path / "edge"
    run(["strip", "-o", out, edge("pie")])
    p = stray([out, "stray"], ok=-signal.SIGSEGV)
    assert re.match(r"etch: stray store: code at 0x[0-9a-f]+ \(\S*/edge\) stores to .* plain\+0x0,", p.stderr), p.stderr


def test_names_of_the_archive_are_its_own(build, tmp_path):
    """Whatever a program's functions are called, it links with libetch.a."""
    names = [line.split()[-1] for line in run(["nm", "-g", "--defined-only", build / "libetch.a"]).stdout.splitlines()
             if len(line.split()) == 3]
    assert len(names) > 60 and all(n.startswith("etch_") for n in names), names
    source = tmp_path / "t.c"
    source.write_text("#include <etch/imv.h>\n#include <etch/unwind.h>\nDEFINE_IMV(int, level) = 3;\n"
                      "void list_sort(void); void list_sort(void) {}\nint lookup_table[4] = {1};\n"
                      "int main(void) { void *ip; return imv_set(level, 4) || imv_read(level) != 4 || etch_backtrace(&ip, 1) != 1; }\n")
    run(["gcc", f"-I{INCLUDE}", "-o", tmp_path / "t", source, build / "libetch.a"])
    run([tmp_path / "t"])


def test_library_is_self_contained(build):
    """Versioned symbols only, nothing but libc needed, no executable stack."""
    dyn = run(["readelf", "-dW", build / "libetch.so"]).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", dyn) == ["libc.so.6"]
    assert "TEXTREL" not in dyn
    names = set()
    for line in run(["nm", "-D", "--defined-only", build / "libetch.so"]).stdout.splitlines():
        kind, name = line.split()[1:]
        if kind != "A":
            names.add(name)
    assert names == {f"etch_{n}@@ETCH_0.1" for n in (
        "set_bytes imv_set_bytes set_batch sync_bytes seal_bytes release_bytes state_bytes verify info strerror "
        "module_load_v1 module_load_v2 module_load_v3 module_unload_v1 part_core part_others part_objects part_branches "
        "mark_attach mark_detach mark_each mark_self_ mark_generation_ mark_register_ "
        "backtrace backtrace_from backtrace_reuse walk_reset cursor_init cursor_init_target step get_reg find_reg interrupted "
        "table_in_file unwind_prepare unwind_sidecars unwind_strict unwind_strerror "
        "fault_init fixup_exception fault_expected extable_load_v1 extable_unload_v1 "
        "copy copy_from copy_to copy_from_zeroing copy_nt copy_from_nocache copy_to_nocache "
        "copy_from_zeroing_nocache copy_threshold copy_set_threshold copy_variant copy_use "
        "strncpy_from probe_read_8 probe_read_16 probe_read_32 probe_read_64").split()} | {
            f"etch_{n}@@ETCH_0.2" for n in ("assumed", "dump", "backtrace_from_2", "backtrace_reuse_2", "stray", "stray_store", "sync_all", "sync_module", "tick")}
