# SPDX-License-Identifier: MIT
"""libetch's unwinder. The program is tests/data/unwind/walks.c, which compares it with
glibc's backtrace(3), an interpreter of .eh_frame, at every place that it walks from."""

import os
import re
import shutil
import struct

import pytest
from elftools.elf.elffile import ELFFile

from conftest import DATA, INCLUDE, build_id, need, run

LIB = INCLUDE.parent
SOURCES = [DATA / "unwind" / f"walks{of}.c" for of in ("", "_stacks", "_modules", "_reuse", "_corrupt", "_remote")]
PLUGIN = DATA / "unwind" / "walks_plugin.c"

# compiler, flags, options of etch rewrite
KINDS = {
    "pie": ("gcc", ["-O2", "-pie"], []),
    "no-pie": ("gcc", ["-O2", "-fno-pie", "-no-pie"], []),
    "static": ("gcc", ["-O2", "-fno-pie", "-static"], []),
    "static-pie": ("gcc", ["-O2", "-static-pie"], []),
    "shared": ("gcc", ["-O2"], []),  # with libetch.so
    "O0": ("gcc", ["-O0"], []),
    "clang": ("clang", ["-O2"], []),
    "lld": ("clang", ["-O2", "-fuse-ld=lld"], ["--unwind-map=128"]),
    "now": ("gcc", ["-O2", "-Wl,-z,now,--build-id=none"], ["--unwind-map=none"]),
    "avx": ("gcc", ["-O3", "-mstackrealign", "-fstack-clash-protection", "-fcf-protection"], []),
    "orc": ("gcc", ["-O2"], ["--encoding", "orc"]),
    "no-cfi": ("gcc", ["-O2"], ["--no-cfi"]),
    "no-dlfo": ("gcc", ["-O2"], []),  # with the library as it is where _dl_find_object is missing
}


@pytest.fixture(scope="session")
def walks(build, once):
    """The program of a kind; `rewritten` says whether it has a table of its own."""
    def library(kind, directory):
        """How to link the library that it walks with."""
        if kind != "no-dlfo":
            return [f"-L{build}", "-letch", f"-Wl,-rpath,{build}"] if kind == "shared" else [build / "libetch.a"]
        header = directory / "no-dlfo.h"
        header.write_text("#include <dlfcn.h>\n#undef DLFO_STRUCT_HAS_EH_DBASE\n")
        other = [c for c in sorted(LIB.glob("*/*.c"))
                 if c.parent.name != "exceptions" and "DLFO_STRUCT_HAS_EH_DBASE" in c.read_text()]
        same = [o for o in sorted((build / "o" / "lib").glob("*/*.o"))
                if o.stem not in {c.stem for c in other} and o.parent.name not in ("heap", "interfaces", "exceptions")]
        run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-DETCH_NO_MODULE", "-O2", "-fPIC", "-shared", "-include", header,
             f"-I{LIB}", f"-I{INCLUDE}", "-o", directory / "libetch.so", *other, *same, "-pthread"])
        assert "_dl_find_object" not in run(["nm", "-D", directory / "libetch.so"]).stdout
        return [f"-L{directory}", "-letch", f"-Wl,-rpath,{directory}"]

    def objects(cc, flags):
        """Kinds that only the linker tells apart have them in common."""
        flags = [f for f in flags if f.startswith(("-O", "-f", "-m")) and not f.startswith("-fuse-ld")]

        def make(directory):
            run([cc, "-std=gnu11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", *flags, "-c", *SOURCES],
                cwd=directory)
        return sorted(once("-".join(["walks", cc, *(f.strip("-") for f in flags)]), make).glob("*.o"))

    def get(kind, rewritten=True):
        cc, flags, options = KINDS[kind]

        def make(directory):
            out = directory / "walks"
            run([cc, *flags, "-o", out, *objects(cc, flags), *library(kind, directory), "-pthread", "-ldl"])
            if rewritten:
                run([build / "etch", "rewrite", "--only", "orc", *options, out])
        return once(f"walks-{kind}" + ("" if rewritten else "-plain"), make) / "walks"

    return get


def done(argv, env=None):
    env = dict(env or os.environ)
    if "orc" in str(argv[0]):
        env["WALKS_ORC"] = "1"
    p = run(argv, env=env)
    assert p.stdout.endswith("done\n"), p.stdout
    return p


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["plain", "signal", "altstack", "first", "limits", "coroutine"])
def test_places(walks, kind, case):
    done([walks(kind), case])


@pytest.mark.parametrize("kind", KINDS)
def test_every_instruction(walks, kind):
    """Stepped with the trap flag: prologues, epilogues, PLT, the lazy resolver, libc."""
    p = done([walks(kind), "step", "4000"], env={**os.environ, "LD_BIND_NOW": ""})
    assert int(re.search(r"(\d+) steps", p.stdout)[1]) > 2000


@pytest.mark.parametrize("kind", ["pie", "static", "shared", "clang", "lld", "avx", "orc"])
def test_profiler(walks, kind):
    done([walks(kind), "prof", "300"])


@pytest.mark.parametrize("kind", ["pie", "static", "lld", "now", "no-dlfo"])
def test_reuse(walks, kind):
    """A walk that reuses the previous one finds what a walk finds that does not."""
    done([walks(kind), "reuse"])
    done([walks(kind), "deep"])


@pytest.mark.parametrize("kind", ["pie", "static", "lld", "now", "orc"])
def test_corrupt(walks, kind):
    """Wild registers and wild words on the stack end a walk with a status."""
    done([walks(kind), "corrupt", "60000"])
    done([walks(kind), "smash"])


def test_corrupt_asan(build_asan, tmp_path):
    """The same with the library under ASan and UBSan."""
    out = tmp_path / "walks"
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", f"-I{INCLUDE}", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=undefined", "-o", out, *SOURCES, build_asan / "libetch.a", "-pthread", "-ldl"])
    run([build_asan / "etch", "rewrite", "--only", "orc", out])
    env = {**os.environ, "ASAN_OPTIONS": "detect_stack_use_after_return=0:detect_leaks=0"}
    done([out, "corrupt", "10000"], env=env)
    done([out, "reuse"], env=env)
    # Tables of a smaller file, in both encodings; a cursor over each mutant that passes.
    for encoding in ("block", "orc"):
        file = tmp_path / encoding
        run(["gcc", "-O2", "-fPIC", "-shared", "-DFRAME=40", "-o", file, PLUGIN])
        run([build_asan / "etch", "rewrite", "--only", "orc", "--encoding", encoding, file])
        done([out, "file", file, "1000"], env=env)


@pytest.mark.parametrize("kind", ["pie", "static"])
def test_fork(walks, kind):
    done([walks(kind), "fork"])


def test_no_table(walks):
    """Without etch_unwind_prepare() a trace ends where libc begins, and says why."""
    done([walks("pie"), "notable", "14"])
    # Not even a first frame's caller is known without the program's own table.
    done([walks("pie", rewritten=False), "notable", "1"])


def test_no_rewrite(walks):
    """Tables from .eh_frame alone."""
    for case in (["plain"], ["signal"], ["altstack"], ["first"], ["step", "3000"], ["coroutine"], ["limits"], ["reuse"]):
        done([walks("pie", rewritten=False), *case])


# ---- modules ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def plugins(build, tmp_path_factory):
    """Two plugins of the same layout with frames of different sizes: [HOW][BUILD_ID]."""
    dir_ = tmp_path_factory.mktemp("plugins")
    made = {}
    for id_ in ("none", "sha1"):
        for how in ("made", "own"):
            made[how, id_] = []
            for frame in (40, 72):
                out = dir_ / f"{how}-{id_}-{frame}.so"
                run(["gcc", "-O2", "-fPIC", "-shared", f"-Wl,--build-id={id_}", f"-DFRAME={frame}", "-o", out, PLUGIN])
                if how == "own":
                    run([build / "etch", "rewrite", "--only", "orc", out])
                made[how, id_].append(out)
    return made


@pytest.mark.parametrize("id_", ["none", "sha1"])
@pytest.mark.parametrize("how", ["own", "made"])
def test_one_in_the_place_of_another(walks, plugins, how, id_):
    """dlclose and dlopen at the same address, of a file that differs in its rows only."""
    a, b = plugins[how, id_]
    layout = [run(["readelf", "-lW", x]).stdout for x in (a, b)]
    assert layout[0] == layout[1]
    done([walks("pie"), "modules", how, a, b])


@pytest.mark.parametrize("kind", ["shared", "no-dlfo"])
@pytest.mark.parametrize("how", ["own", "made"])
def test_threads(walks, plugins, how, kind):
    done([walks(kind), "threads", *plugins[how, "sha1"]])


def headers_moved(path, out, at):
    """A copy with its program headers at another offset; `at` None: after all else."""
    data = bytearray(path.read_bytes())
    phoff, = struct.unpack_from("<Q", data, 32)
    table = data[phoff:phoff + 56 * struct.unpack_from("<H", data, 56)[0]]
    at = (len(data) + 7) & ~7 if at is None else at
    data += bytes(max(0, at + len(table) - len(data)))
    data[at:at + len(table)] = table
    struct.pack_into("<Q", data, 32, at)
    out.write_bytes(data)
    return out


def test_headers_that_moved(build, tmp_path):
    """The dynamic linker reads program headers from the file; as far after the ELF header in memory
    there may be a gap that nobody can read, or other bytes. Then there is no table, and nothing else."""
    program, plugin, apart, bss = (tmp_path / n for n in ("headers", "plugin.so", "apart.so", "bss.so"))
    run(["gcc", "-O2", "-D_GNU_SOURCE", f"-I{INCLUDE}", "-o", program, DATA / "unwind" / "headers.c", build / "libetch.a", "-pthread"])
    flags = ["-O2", "-fPIC", "-shared", "-DFRAME=40", PLUGIN]
    run(["gcc", *flags, "-o", plugin])
    run(["gcc", *flags, "-Wl,-z,max-page-size=0x200000", "-o", apart])
    run(["gcc", *flags, "-x", "c", "-", "-o", bss], input="char space[1 << 20];")
    for path in (plugin, apart, bss):
        run([build / "etch", "rewrite", "--only", "orc", path])
    run([build / "etch", "rewrite", "--only", "orc", program])
    gap = headers_moved(apart, tmp_path / "gap.so", None)
    zeros = headers_moved(bss, tmp_path / "zeros.so", None)
    other = headers_moved(plugin, tmp_path / "other.so", 0x5000)  # where others are in memory
    lines = run([program, plugin, apart, bss, gap, zeros, other]).stdout.split("\n")
    assert all(int(n) > 12 for line in lines[:3] for n in line.split()), lines
    assert lines[3:6] == ["2 2"] * 3, lines


def test_a_file_of_the_name_of_one_that_stays(build, tmp_path):
    """What the program needs is never unloaded. Another file of that name, which a library's constructor has loaded before
    the unwinder starts, can be, and a third one comes to its place: its frames have other sizes."""
    (tmp_path / "early.c").write_text("""#include <dlfcn.h>
#include <stdlib.h>
void *early;
__attribute__((constructor)) static void start(void) { early = dlopen(getenv("EARLY"), RTLD_NOW); }
""")
    (tmp_path / "main.c").write_text("""#include <dlfcn.h>
#include <stdio.h>
#include <etch/unwind.h>
extern void *early;
extern int plugin_call(int, void (*)(void));
static int frames;
static void trace(void)
{
	void *ips[64];
	int status;

	frames = etch_backtrace_from(NULL, ips, 64, &status);
	printf("%d %d ", frames, status);
}
int main(int argc, char **argv)
{
	trace();
	puts("");
	for (int i = 0; i < argc; i++) {
		void *file = i ? dlopen(argv[i], RTLD_NOW) : early;
		int (*call)(int, void (*)(void)) = (int (*)(int, void (*)(void)))dlsym(file, "plugin_call");

		if (etch_unwind_prepare())
			return 1;
		call(9, trace);
		printf("%d\\n", call == plugin_call ? 0 : (int)(((unsigned long)call >> 8) % 1000000000));
		dlclose(file);
	}
	plugin_call(9, trace);
	return 0;
}
""".replace("\\\\", "\\"))
    for n, frame in enumerate((40, 72, 104)):
        (tmp_path / str(n)).mkdir()
        run(["gcc", "-O2", "-fPIC", "-shared", "-Wl,-soname,libplugin.so", f"-DFRAME={frame}", "-o", tmp_path / str(n) / "libplugin.so", PLUGIN])
    needed, a, b = (tmp_path / str(n) / "libplugin.so" for n in range(3))
    run(["gcc", "-O2", "-fPIC", "-shared", "-o", tmp_path / "libearly.so", tmp_path / "early.c"])
    run(["gcc", "-O2", f"-I{INCLUDE}", "-o", tmp_path / "main", tmp_path / "main.c", f"-L{tmp_path}", "-learly", needed,
         f"-Wl,-rpath,{tmp_path}:{needed.parent}", build / "libetch.a", "-pthread"])
    first, *lines = run([tmp_path / "main", b, a, b], env={**os.environ, "EARLY": str(a)}).stdout.splitlines()
    places = [line.split()[2:] for line in lines[:4]]
    assert places[0] != ["0"] and places == [places[0]] * 4, "not at the same place"
    assert first.split() == ["1", "-1"]  # ETCH_UNWIND_NOTABLE, which is not kept once there are tables
    assert [line.split()[:2] for line in lines] == [["15", "1"]] * 5, lines  # 10 of the file, up to _start: ETCH_UNWIND_END


def test_another_table_in_the_place_of_one(build, tmp_path):
    """dlclose, and dlopen of a file with the same build-id whose table is cut off by its segment, as its program headers say:
    what is known of the first is not used for it. Where build-id and program headers are the same it is the same file, and
    the copy of the first one's table serves (table_copy.c), whatever this one's says of itself."""
    source = DATA / "unwind" / "headers.c"
    program, plugin, later, short = (tmp_path / n for n in ("headers", "plugin.so", "later.so", "short.so"))
    run(["gcc", "-O2", "-D_GNU_SOURCE", "-DCLOSE", f"-I{INCLUDE}", "-o", program, source, build / "libetch.a", "-pthread"])
    run(["gcc", "-O2", "-fPIC", "-shared", "-DFRAME=40", PLUGIN, "-o", plugin])
    for path in (program, plugin):
        run([build / "etch", "rewrite", "--only", "orc", path])
    with open(plugin, "rb") as f:
        elf = ELFFile(f)
        table = elf.get_section_by_name(".etch.unwind")["sh_offset"]
        number, start = next((i, p["p_offset"]) for i, p in enumerate(elf.iter_segments())
                             if p["p_type"] == "PT_LOAD" and 0 <= table - p["p_offset"] < p["p_filesz"])
        filesz = elf["e_phoff"] + 56 * number + 32
    data = plugin.read_bytes()
    later.write_bytes(data[:table + 4] + b"\x09" + data[table + 5:])  # orc.h: version, after magic; then size, and bytes
    end = table + struct.unpack_from("<Q", data, table + 8)[0]
    short.write_bytes(data[:filesz] + struct.pack("<Q", end - 1 - start) + data[filesz + 8:])
    lines = run([program, plugin, later, plugin, short, plugin]).stdout.splitlines()
    assert len({line.split()[1] for line in lines}) == 1, lines  # all at one address
    counts = [int(line.split()[0]) for line in lines]
    assert counts[0] > 12 and counts == [counts[0], counts[0], counts[0], 2, counts[0]], lines


def test_a_register_that_the_callee_had_changed(build, tmp_path):
    """rax is what a caller's CFA counts from, and .eh_frame does not say that its callee leaves it alone. Where it does
    the trace goes on; where it does not, there is no return address at that place, and the trace ends there."""
    program = tmp_path / "scratch"
    run(["gcc", "-O2", "-D_GNU_SOURCE", f"-I{INCLUDE}", "-o", program, DATA / "unwind" / "scratch.c", build / "libetch.a", "-pthread"])
    assert run([program]).stdout == "kept: 1 frame, then main\nchanged: 1 frame, then status -3\n"


# A library's constructor: its stack begins in the dynamic linker, below what that calls.
BEGINNING = """
#include <etch/unwind.h>
#include <stdio.h>
__attribute__((constructor)) static void begin(void)
{
	void *ips[64];
	int status = 0, n = etch_backtrace_from(NULL, ips, 64, &status);

	printf("%d %d\\n", n > 3, status);
}
"""


@pytest.mark.parametrize("rewritten", [True, False], ids=["rewritten", "as it is"])
def test_the_dynamic_linkers_own_table(build, tmp_path, rewritten):
    """It lies after what the linker knows to be its own end; END is 1, no table -1."""
    (tmp_path / "b.c").write_text(BEGINNING)
    (tmp_path / "m.c").write_text("int main(void) { return 0; }\n")
    library, program, linker = tmp_path / "libb.so", tmp_path / "m", tmp_path / "ld.so"
    shutil.copy("/lib64/ld-linux-x86-64.so.2", linker)
    run(["gcc", "-shared", "-fPIC", "-O2", f"-I{INCLUDE}", "-o", library, tmp_path / "b.c", build / "libetch.a", "-pthread"])
    run(["gcc", "-o", program, tmp_path / "m.c", "-Wl,--no-as-needed", library, f"-Wl,--dynamic-linker={linker}"])
    for path in [library, program, *([linker] if rewritten else [])]:
        run([build / "etch", "rewrite", "--only", "orc", path])
    for argv in ([program], [linker, program]): # by the kernel, and as a program
        assert run(argv).stdout.split() == (["1", "1"] if rewritten else ["0", "-1"])


def test_a_static_program_that_lld_links_with_thread_local_variables(build, tmp_path):
    """Nothing defines __tls_get_addr there, to which its own code refers, in sequences that the linker replaces."""
    (tmp_path / "a.c").write_text("__thread int here;\n")
    (tmp_path / "b.c").write_text("""#include <etch/unwind.h>
extern __thread int here;
int main(void)
{
	void *ips[4];

	here = etch_unwind_prepare();
	return here || !etch_backtrace(ips, 4);
}
""")
    run(["clang", "-O2", "-fPIC", "-static", "-fuse-ld=lld", f"-I{INCLUDE}", "-o", tmp_path / "p", tmp_path / "a.c", tmp_path / "b.c",
         build / "libetch.a", "-pthread"])
    run([tmp_path / "p"])


@pytest.mark.parametrize("kind", ["pie", "shared"])
def test_lazy_resolver(walks, tmp_path, kind):
    """Its CFA counts from rbx, which tables do not follow in outer frames."""
    out = tmp_path / "lazy.so"
    run(["gcc", "-O2", "-fPIC", "-shared", "-Wl,-z,lazy", "-o", out, DATA / "unwind" / "walks_lazy.c"])
    env = {k: v for k, v in os.environ.items() if k != "LD_BIND_NOW"}
    done([walks(kind), "lazy", out], env=env)


def libc_of(program):
    return [line.split()[2] if "=>" in line else line.split()[0]
            for line in run(["ldd", program]).stdout.splitlines() if "libc.so" in line or "ld-linux" in line]


@pytest.mark.parametrize("kind", ["pie", "static", "orc"])
def test_another_process(walks, etch, tmp_path, kind):
    """A stopped child through ptrace, with the tables of its files."""
    program = walks(kind)
    side = tmp_path / "side"
    side.mkdir()
    if kind != "static":
        for lib in libc_of(program):
            run([etch, "rewrite", "--only", "orc", "--sidecar", side, lib])
            (side / build_id(lib)).rename(side / os.path.basename(lib))
    done([program, "remote", side])


class TestSidecars:
    @pytest.fixture
    def side(self, walks, etch, once, tmp_path):
        def make(directory):
            for lib in libc_of(walks("pie")):
                run([etch, "rewrite", "--only", "orc", "--sidecar", directory, lib])
            assert len(list(directory.iterdir())) == 2
        return shutil.copytree(once("sidecars", make), tmp_path / "side")

    def opened(self, program, side, tmp_path):
        """Sidecars that a run has opened."""
        log = tmp_path / "log"
        done(["strace", "-f", "-y", "-e", "trace=open,openat", "-o", log, program, "prepare", "0"],
             env={**os.environ, "ETCH_SIDECAR_DIR": str(side)})
        return [line for line in log.read_text().splitlines() if f'{side}>, "' in line and "ENOENT" not in line]

    def test_used(self, walks, side, tmp_path):
        need("strace")
        assert len(self.opened(walks("pie"), side, tmp_path)) == 2
        done([walks("pie"), "step", "3000"], env={**os.environ, "ETCH_SIDECAR_DIR": str(side)})

    def test_with_a_map_of_an_earlier_version(self, walks, side, tmp_path):
        need("strace")
        convert = tmp_path / "convert"
        run(["gcc", "-std=gnu11", "-DOLD_MAIN", "-O1", f"-I{INCLUDE}", f"-I{INCLUDE.parents[1] / 'tool'}", "-o", convert,
             DATA / "unwind/tables_old.c"])
        for path in side.iterdir():
            head, table = path.read_bytes()[:128], path.read_bytes()[128:]
            assert struct.unpack_from("<H", table, 4) == (4,)
            (tmp_path / "table").write_bytes(table)
            run([convert, tmp_path / "table", tmp_path / "old"])
            table = (tmp_path / "old").read_bytes()
            path.write_bytes(head[:8] + struct.pack("<Q", len(table)) + head[16:] + table)
            assert struct.unpack_from("<H", table, 4) < (4,)
        assert len(self.opened(walks("pie"), side, tmp_path)) == 2
        done([walks("pie"), "step", "3000"], env={**os.environ, "ETCH_SIDECAR_DIR": str(side)})

    def test_a_fifo_in_place_of_one_is_passed_over(self, walks, side):
        for path in list(side.iterdir()):
            path.unlink()
            os.mkfifo(path)
        done([walks("pie"), "step", "3000"], env={**os.environ, "ETCH_SIDECAR_DIR": str(side)})

    @pytest.mark.parametrize("system", ["/usr/lib/etch/unwind", "/var/cache/etch"])
    def test_of_the_system(self, walks, side, tmp_path, system):
        """Of the system's directories, after the one that was set: seen by an open(2) that has them elsewhere."""
        shim, source, log = tmp_path / "shim.so", tmp_path / "shim.c", tmp_path / "log"
        source.write_text('''
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static char names[64][256];
int open(const char *path, int flags, ...)
{
	int system = !strcmp(path, "/usr/lib/etch/unwind") || !strcmp(path, "/var/cache/etch");
	const char *there = !system ? path : !strcmp(path, getenv("SHIM_SYSTEM")) ? getenv("SHIM_SIDE") : getenv("ETCH_SIDECAR_DIR");
	int fd = openat(AT_FDCWD, there, flags);

	if (fd >= 0 && fd < 64)
		snprintf(names[fd], sizeof(names[fd]), "%s", path);
	return fd;
}
int faccessat(int fd, const char *name, int mode, int flags)
{
	long ret = syscall(SYS_faccessat2, fd, name, mode, flags);
	int log = openat(AT_FDCWD, getenv("SHIM_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);

	dprintf(log, "%s/%s %d\\n", names[fd], name, !ret);
	close(log);
	return ret ? -1 : 0;
}
''')
        run(["gcc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-o", shim, source])
        (tmp_path / "empty").mkdir()
        done([walks("pie"), "prepare", "0"], env={**os.environ, "LD_PRELOAD": str(shim), "SHIM_LOG": str(log), "SHIM_SIDE": str(side),
             "SHIM_SYSTEM": system, "ETCH_SIDECAR_DIR": str(tmp_path / "empty")})
        order = [f"{tmp_path}/empty", "/usr/lib/etch/unwind", "/var/cache/etch"]
        for path in side.iterdir():
            asked = [line for line in log.read_text().splitlines() if path.name in line]
            assert asked == [f"{place}/{path.name} {int(place == system)}" for place in order[:order.index(system) + 1]]

    @pytest.mark.parametrize("harm", ["cut", "grown", "id", "magic", "garbage", "empty", "directory", "pool"])
    def test_harmed(self, walks, side, tmp_path, harm):
        """One that is not what it should be is not used: .eh_frame is."""
        for path in side.iterdir():
            data = bytearray(path.read_bytes())
            if harm == "cut":
                data = data[: len(data) // 2]
            elif harm == "grown":
                data += bytes(100)
            elif harm == "id":
                at = data.index(bytes.fromhex(path.name))
                data[at] ^= 1
            elif harm == "magic":
                data[0] ^= 1
            elif harm == "garbage":
                data = bytearray(os.urandom(len(data)))
            elif harm == "empty":
                data = b""
            elif harm == "pool":
                data[200 : len(data) // 2] = bytes(b ^ 0xFF for b in data[200 : len(data) // 2])
            path.unlink()
            if harm == "directory":
                path.mkdir()
            else:
                path.write_bytes(data)
        self.opened(walks("pie"), side, tmp_path)


    @pytest.mark.parametrize("lie", ["another file's", "another file's, without a head", "its own, without a head", "layout", "magic",
                                     "version", "size", "bytes", "another's id in the table", "refusal"])
    def test_lies(self, walks, etch, side, tmp_path, lie):
        """A table under libc's build-id that was made of another file, or says so: .eh_frame is used, and walks are
        right. Where the first name has such a one, the second is read."""
        need("strace")
        (tmp_path / "main.c").write_text("int f(int x) { return x; }\nint main(void) { return f(0); }\n")
        for path in list(side.iterdir()):
            whole = path.read_bytes()
            run(["gcc", "-O0", f"-Wl,--build-id=0x{path.name}", "-o", tmp_path / "other", tmp_path / "main.c"])
            (tmp_path / "of").mkdir(exist_ok=True)
            run([etch, "rewrite", "--only", "orc", "--sidecar", tmp_path / "of", tmp_path / "other"])
            other = (tmp_path / "of" / path.name).read_bytes()
            at = whole.index(bytes.fromhex(path.name), 128)
            changed = {"another file's": other, "another file's, without a head": other[128:], "its own, without a head": whole[128:],
                       "layout": whole[:16] + other[16:48] + whole[48:], "magic": b"etuw" + whole[4:],
                       "version": whole[:4] + b"\2" + whole[5:], "size": whole[:6] + b"\0" + whole[7:],
                       "bytes": whole[:8] + struct.pack("<Q", len(whole)) + whole[16:],
                       "another's id in the table": whole[:at] + bytes(4) + whole[at + 4:],
                       "refusal": whole[:8] + bytes(8) + whole[16:128]}[lie]
            path.write_bytes(changed)
            (tmp_path / f"{path.name}-{whole[16:24].hex()}").write_bytes(whole)
        done([walks("pie"), "step", "3000"], env={**os.environ, "ETCH_SIDECAR_DIR": str(side)})
        assert len(self.opened(walks("pie"), side, tmp_path)) == 2    # looked at, both
        for path in tmp_path.glob("*-????????????????"):
            path.rename(side / path.name)
        assert len(self.opened(walks("pie"), side, tmp_path)) == 4
        done([walks("pie"), "step", "3000"], env={**os.environ, "ETCH_SIDECAR_DIR": str(side)})

    @pytest.mark.skipif(os.getuid() != 0, reason="makes files of other users")
    @pytest.mark.parametrize("owner, directory, taken", [(0, 0, True), (1234, 0, False), (1234, 1234, True), (0, 1234, True)])
    def test_whose_tables_are_read(self, walks, side, tmp_path, owner, directory, taken):
        """Root's, one's own, and those of the directory's owner: an invalid map byte in them is not met otherwise."""
        need("strace")
        os.chown(side, directory, directory)
        for path in side.iterdir():
            os.chown(path, owner, owner)
        log = tmp_path / "log"
        done(["strace", "-f", "-y", "-e", "trace=pread64", "-o", log, walks("pie"), "prepare", "0"],
             env={**os.environ, "ETCH_SIDECAR_DIR": str(side)})
        assert log.read_text().count(f"<{side}/") == (2 if taken else 0)

    def test_a_link_is_not_followed(self, walks, side, tmp_path):
        need("strace")
        side.rename(tmp_path / "real")
        side.mkdir()
        for path in (tmp_path / "real").iterdir():
            (side / path.name).symlink_to(path)
        assert all("ELOOP" in line for line in self.opened(walks("pie"), side, tmp_path))


# ---- a program that nobody here wrote -----------------------------------------------------


def python_files():
    """/usr/bin/python3 and all that sampled.py makes it load."""
    program = os.path.realpath("/usr/bin/python3")
    mapped = run([program, "-c", "import ctypes, decimal, hashlib, json, sqlite3, zlib; print(open('/proc/self/maps').read())"])
    return [program] + sorted({m for m in re.findall(r"(/\S+)$", mapped.stdout, re.M) if ".so" in m})


@pytest.mark.parametrize("tables", ["made", "generated", "no-cfi"])
def test_sampled_python(build, tmp_path, tables):
    """Samples of the Python interpreter, of its modules and libraries, from wherever a
    timer interrupts them, are those of backtrace(3)."""
    library, out, side = tmp_path / "sampler.so", tmp_path / "out", tmp_path / "side"
    run(["gcc", "-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{INCLUDE}", "-o", library,
         DATA / "unwind" / "sampler.c", f"-L{build}", "-letch", f"-Wl,-rpath,{build}", "-pthread"])
    side.mkdir()
    program, *libraries = python_files()
    if tables != "made":
        for path in [program, *libraries]:
            run([build / "etch", "rewrite", "--only", "orc", *(["--no-cfi"] if tables == "no-cfi" else []),
                 "--sidecar", side, path])
        assert len(list(side.iterdir())) >= len(libraries)
    p = run([program, DATA / "unwind" / "sampled.py", "8"],
            env={**os.environ, "ETCH_SIDECAR_DIR": str(side), "SAMPLER_OUT": str(out), "SAMPLER_PREPARE": "1",
                 "LD_PRELOAD": str(library)})
    assert p.stdout == "without a table: 0\n"
    log = out.read_text()
    n = {k: int(v) for k, v in re.findall(r"(\w+) (\d+)", log.splitlines()[-1])}
    assert n["samples"] >= 50 and n["reuse"] == n["samples"], log
    # From code alone a function may have no rule: the trace is right up to there, and
    # says so. (Where glibc's own ends at the same frame the two are the same.)
    assert n["wrong"] == 0, log
    assert n["short"] <= n["other"] <= (n["samples"] / 10 if tables == "no-cfi" else 0), log


def test_other_failures(walks):
    """The program says 2 for a case that it does not know: the tests above did run."""
    run([walks("pie"), "no such case"], ok=2)
    run([walks("pie"), "notable", "3"], ok=1)
