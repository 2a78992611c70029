# SPDX-License-Identifier: MIT
"""lib/unwind/prepare.c, cfi_map.c and recover.c: what libetch makes of the .eh_frame of a loaded module, beside
pyelftools."""

import bisect
import re

import pytest
from elftools.elf.elffile import ELFFile

from cfi_files import HERE, LIBDIR, build_c, check_against, rows, unwinder
from conftest import run


# ---- tables -----------------------------------------------------------------------

@pytest.fixture(scope="session")
def prepared(tmp_path_factory, build):
    return build_c(tmp_path_factory.mktemp("cfi") / "cfi_prepare", ["-O2"], HERE / "cfi_prepare.c",
                   *unwinder(build))


@pytest.mark.parametrize("name", ["libc.so.6", "libgcrypt.so.20", *(pytest.param(n, marks=pytest.mark.long) for n in
                                                                    ("libstdc++.so.6", "libcrypto.so.3"))])
def test_the_table_of_a_loaded_library(prepared, name):
    """Found at every address by the lookup of the block encoding."""
    path = LIBDIR / name
    if not path.exists():
        pytest.skip("not installed")
    check_against(rows.cfi_rows(path)[0], rows.parse_tsv(run([prepared, path]).stdout.splitlines()))


def return_addresses(path):
    """Those of the calls that objdump sees, in hex."""
    returns, call = [], False
    for line in run(["objdump", "-d", "--no-show-raw-insn", path]).stdout.splitlines():
        m = re.match(r" +([0-9a-f]+):\t(.*)", line)
        if m:
            if call:
                returns.append(m.group(1))
            call = re.match(r"((bnd|notrack|data16|rex\.W|addr32) )*call", m.group(2))
    return returns


@pytest.mark.parametrize("name", ["libc.so.6", "libstdc++.so.6"])
def test_the_map_of_a_loaded_library(prepared, name):
    """Right after every call that objdump sees, and used for nearly all of them."""
    returns = return_addresses(LIBDIR / name)
    out = run([prepared, "-m", LIBDIR / name], input="\n".join(returns) + "\n").stdout
    m = re.fullmatch(r"asked (\d+) direct (\d+)\n", out)
    assert m, out
    assert int(m.group(1)) == len(returns) > 10000 and int(m.group(2)) > 0.85 * len(returns)


def uncalled(path, truth, fdes):
    """The addresses around what a signal, clone or makecontext returns to, in hex, and makecontext's."""
    ends = [r[:2] for r in truth if r[2][3] in ("end", "signal")]
    assert len(ends) >= 3
    with open(path, "rb") as f:
        text = ELFFile(f).get_section_by_name(".text")
        code, base = text.data(), text["sh_addr"]
    # __start_context, which no symbol names: mov %rbx,%rsp
    fresh = [s for s, _ in fdes if code[max(s - base, 0):s - base + 3] == b"\x48\x89\xdc"]
    ends += [(s, s) for s in fresh]
    return [f"{at:x}" for start, end in ends for at in range(start, end + 1)], fresh


def test_return_addresses_that_no_call_pushed(prepared):
    """The first addresses of what a signal, clone or makecontext returns to."""
    path = LIBDIR / "libc.so.6"
    asked, fresh = uncalled(path, *rows.cfi_rows(path))
    ask = "\n".join(asked) + "\n"
    assert re.fullmatch(r"asked \d\d+ direct 0\n", run([prepared, "-m", path], input=ask).stdout)
    ours = {r[0]: r for r in rows.parse_tsv(run([prepared, path]).stdout.splitlines())}
    assert fresh and all(ours[s - 1][1] == s and ours[s - 1][2] == rows.END for s in fresh)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("name", ["libc.so.6", "libstdc++.so.6"])
def test_the_map_that_walks_fill_in(prepared, name, order):
    """Without a table: after every call that objdump sees the rule is pyelftools', and nearly all have one. The addresses that no call
    pushed have none, whatever is filled in around them."""
    path = LIBDIR / name
    truth, fdes = rows.cfi_rows(path)
    starts = [r[0] for r in truth]
    returns = return_addresses(path)
    rare = uncalled(path, truth, fdes)[0] if name == "libc.so.6" else []
    said = [line.split("\t") for line in
            run([prepared, "-i", path], input="\n".join([*returns[::order], *rare]) + "\n").stdout.splitlines()]
    assert len(returns) > 10000 and len(said) > 0.8 * len(returns)
    assert not {line[0] for line in said} & (set(rare) - set(returns))
    for at, cfa, bp in said:
        row = truth[bisect.bisect_right(starts, int(at, 16) - 1) - 1]
        assert row[1] >= int(at, 16) and row[2] == (cfa, bp, "cfa-8", "call"), (at, cfa, bp, row)


BESIDE = """	.text
	.p2align 6
	.globl caller, back, outermost
caller:
	.cfi_startproc
	sub $24, %rsp
	.cfi_def_cfa_offset 32
	call caller
	.globl returned
returned:
	add $24, %rsp
	ret
	.cfi_endproc
	nop
back:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_escape 0x0f, 4, 0x77, 0xa0, 1, 6
	.cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0
	.cfi_escape 0x10, 16, 3, 0x77, 0xa8, 1
	nop
	.cfi_endproc
	.p2align 6
	.cfi_startproc
	sub $24, %rsp
	.cfi_def_cfa_offset 32
	call caller
	.globl again
again:
	ud2
	.cfi_endproc
	nop
outermost:
	.cfi_startproc
	.cfi_undefined rip
	nop
	.cfi_endproc
"""


def test_a_map_byte_is_not_for_what_no_call_pushed(prepared, tmp_path):
    """A signal's restorer and the first address of a thread, in a granule of 64 bytes with a call that has a rule."""
    (tmp_path / "beside.s").write_text(BESIDE)
    run(["gcc", "-shared", "-nostdlib", "-Wl,-z,noexecstack", "-o", tmp_path / "beside.so", tmp_path / "beside.s"])
    at = {line.split()[2]: line.split()[0] for line in run(["nm", tmp_path / "beside.so"]).stdout.splitlines()}
    for call, other in (("returned", "back"), ("again", "outermost")):
        out = run([prepared, "-i", tmp_path / "beside.so"], input=f"{at[call]}\n{at[other]}\n").stdout
        assert out == "", out


def test_the_table_of_the_vdso(prepared):
    got = rows.parse_tsv(run([prepared, "vdso"]).stdout.splitlines())
    assert got and all(r[2][3] == "call" for r in got)


# ---- registers of outer frames ------------------------------------------------------------------

@pytest.mark.parametrize("libetch", ["libetch.a", "libetch.so"])
def test_walks_out_of_the_lazy_resolver(build, tmp_path, libetch):
    """Its CFA is in rbx, which no table follows: lib/unwind/recover.c finds it."""
    exe = build_c(tmp_path / "recover", ["-O1"], HERE / "cfi_recover.c", "-Wl,-z,lazy", build / libetch, "-lm",
                  f"-Wl,-rpath,{build}")
    out = run([exe]).stdout
    m = re.match(r"steps (\d+) whole (\d+) bare (\d+) deepest (\d+) first 0\n", out)
    assert m, out
    steps, whole, bare, deepest = map(int, m.groups())
    assert steps == whole + bare and whole > 5000 and bare < 50 and deepest >= 8
    assert "status 3" not in out


def test_walks_out_of_an_array(build, tmp_path):
    """OpenSSL's CFA with an index: read from .eh_frame at run time, and as a row of the tool's."""
    exe = build_c(tmp_path / "index", ["-O1"], HERE / "cfi_index.c", build / "libetch.a")
    said = run([build / "etch", "rewrite", "-v", "-o", tmp_path / "etched", exe]).stderr
    assert "mulmont" not in said, said
    orc = run([build / "etch", "inspect", "orc", "--at", "mulmont", "--format", "tsv", tmp_path / "etched"]).stdout
    assert "\t*(rsp+8*r9+8)+8\tcfa-24\tcfa-8\tcall\tcfi\t" in orc, orc
    for argv in ([exe], [tmp_path / "etched"]):
        m = re.match(r"steps (\d+) whole (\d+) sum (\d+)\n", run(argv).stdout)
        assert m and int(m[1]) == int(m[2]) > 400, (argv, m)
        assert int(m[3]) == sum(n * n for n in range(1, 40, 9))
