# SPDX-License-Identifier: MIT
"""Both encodings of the unwind tables (etch/orc_lookup.h, tool/table/unwind_tables.c)
against plain lists of rows, damaged tables under sanitizers, and the list of
possible return addresses against Zydis. See unwind/tables.c; scripts/fuzz.py
runs the same for long."""
import os
import shutil
from pathlib import Path

import pytest

from conftest import DATA, INCLUDE, ROOT, asan_env, run, tool_objects

UNWIND = DATA / "unwind"
DRIVER = sorted(UNWIND.glob("tables*.c"))
# All that has the headers of the formats in it, and then the rest.
HEADED = ["table/unwind_map.c", "table/unwind_numbered.c", "table/unwind_tables.c"]
PARTS = [*HEADED, "table/unwind_rows.c", "table/unwind_runs.c", "arch/x86/byte_scan.c"]
OTHERS = ["arch/x86/rule_text.c", "arch/x86/fast_decoder.c", "arch/x86/encoding.c", "arch/x86/form.c", "arch/x86/shape.c",
          "arch/x86/step_full.c", "arch/x86/raw.c", "arch/x86/zydis.c", "arch/x86/newer.c", "arch/x86/newer_vector.c", "arch/x86/decode.c", "arch/x86/effects.c",
          "analysis/facts/space.c", "elf/file.c", "elf/file_lookup.c", "elf/section_at.c", "support/bounds.c", "support/ending.c", "support/error.c", "support/hash_index.c", "support/memory.c",
          "support/plain.c", "support/sort.c"]
ASAN = ["-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def command(compiler="gcc", include=INCLUDE):
    return [compiler, "-std=gnu11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", f"-I{include}", f"-I{ROOT / 'tool'}"]


def link(out, flags, sources, objects):
    run([*flags, "-o", out, *sources, *objects, "-lZydis", "-lelf", "-ldw"])
    return out


def drive(program, *args, ok=0):
    """The numbers of the last line."""
    p = run([program, *args], ok=ok, env=asan_env())
    return {k: int(v) for k, v in (w.split("=") for w in p.stdout.split())} if ok == 0 else p.stdout


@pytest.fixture(scope="module")
def program(once, build_asan):
    def make(directory):
        link(directory / "tables", [*command(), *ASAN], DRIVER, tool_objects(build_asan, *PARTS, *OTHERS))
    return once("tables", make) / "tables"


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_every_byte_says_what_its_row_says(program, seed):
    n = drive(program, "lookup", seed, 80)
    # Every part of the formats was in use...
    assert n["bytes"] > 1_000_000 and n["escapes"] > 1000 and n["long_blocks"] > 100
    assert n["exceptions"] > 1000 and n["orc_unfit"] > 500 and n["runs"] > 100 and n["in_runs"] > 5000
    # ... and the map knew nearly everything that it has a form for.
    assert n["answered"] > 0.9 * n["packable"]


@pytest.mark.long
def test_without_sanitizers_and_with_another_compiler(tmp_path, build):
    program = link(tmp_path / "t", [*command("clang"), "-O3", "-march=x86-64"], [*DRIVER, *(ROOT / "tool" / p for p in PARTS)],
                   tool_objects(build, *OTHERS))
    n = drive(program, "lookup", 3, 80)
    assert n["lists"] == 80


def test_damaged_tables(program):
    tables = 40 if os.environ.get("ETCH_TESTS") == "all" else 10
    n = drive(program, "mutate", 1, tables, 400)
    assert n["mutants"] == tables * 400
    # Damage of each kind: seen in the header, harmless in a lookup, and such that
    # the table is only another one.
    assert n["refused"] > 100 * tables and n["looked_up"] > 100 * tables and n["accepted"] > 10 * tables


def test_no_call_is_missed(program):
    n = drive(program, "calls", 1, 60_000, program, "/usr/lib/x86_64-linux-gnu/libz.so.1")
    assert n["calls"] > 10_000 and n["indirect"] > 5_000
    assert n["calls"] <= 2 * n["candidates"]


def test_canonical_rows(program):
    n = drive(program, "canonical", 1, 150)
    assert n["absorbed"] > 500 and n["merged"] > 500 and n["early"] > 50


def test_lists_that_are_none(program):
    assert len(run([program, "refuse", 0], env=asan_env()).stdout.splitlines()) == 6


# One plausible mistake each, which the driver must notice: it is the only proof
# that the checks above check something. (file, mode, what, instead)
SABOTAGE = {
    "a row begins one byte late": ("etch/orc_block.h", "lookup",
        "_mm_min_epu8(v, a), v)",
        "_mm_min_epu8(v, a), a)"),
    "blocks of more than 16 rows": ("etch/orc_block.h", "lookup",
        "ETCH_UNLIKELY(k == 16) || ",
        ""),
    "what a block inherits": ("etch/orc_block.h", "lookup",
        "if (!ETCH_UNLIKELY(k == 0))",
        "if (1)"),
    "what a block inherits of a run": ("etch/orc_block.h", "lookup",
        "etch_block_rule(t, s - 1, 255);",
        "etch_block_rule(t, s - 1, 0);"),
    "the rows of a run": ("etch/orc_block.h", "lookup",
        "r->off[k] <= after",
        "r->off[k] < after"),
    "runs that are not checked": ("etch/orc_block.h", "mutate",
        "return r->idx[k - 1] < t->direct ?",
        "return 1 ?"),
    "more runs than there are": ("etch/orc_block.h", "mutate",
        "if (idx != ETCH_IDX_ESCAPE && idx >= t->first_run) {",
        "if (idx != ETCH_IDX_ESCAPE) {"),
    "a run over the end of its block": ("etch/orc_lookup.h", "accept",
        "if (off > 255 || off >= left ||",
        "if (off >= left ||"),
    "a run over the next row": ("etch/orc_lookup.h", "accept",
        "(i + 1 < c && off >= t->pool[at + i + 1])",
        "(i + 1 < c && t->pool[at + i] >= t->pool[at + i + 1])"),
    "a run through two blocks": ("table/unwind_runs.c", "lookup",
        "rows[end].addr >> ETCH_BLOCK_SHIFT == block",
        "block"),
    "gaps in runs": ("table/unwind_runs.c", "lookup",
        "(i && f->tokens[a + i].gap != f->tokens[b + i].gap)",
        "0"),
    "escapes": ("etch/orc_block.h", "lookup",
        "if (t->escape[mid].at < at)",
        "if (t->escape[mid].at <= at)"),
    "the end of text": ("etch/orc_block.h", "lookup",
        "if (ETCH_UNLIKELY(offset >= t->text_size))",
        "if (0)"),
    "a map by the byte before": ("etch/orc_block.h", "lookup",
        "code = t->map[offset >>",
        "code = t->map[(offset - 1) >>"),
    "the split of a granule": ("etch/orc_block.h", "lookup",
        "code = in < p[0] ? p[1]",
        "code = in <= p[0] ? p[1]"),
    "a pool that is not checked": ("etch/orc_block.h", "mutate",
        "ETCH_UNLIKELY(e > t->pool_end)",
        "0"),
    "a palette that is not checked": ("etch/orc_block.h", "mutate",
        "ETCH_UNLIKELY(idx >= t->direct)",
        "ETCH_UNLIKELY(idx >= t->first_run)"),
    "map rules that are not checked": ("etch/orc_block.h", "mutate",
        "return code < t->map_codes ? code : ETCH_MAP_FULL;",
        "return code;"),
    "units that are not checked": ("etch/orc_block.h", "mutate",
        "&& unit < t->map_unit_count;",
        ";"),
    "offsets out of order accepted": ("etch/orc_lookup.h", "accept",
        "(i + 1 < c && off >= t->pool[at + i + 1])",
        "0"),
    "arrays outside of the table": ("etch/orc_block.h", "mutate",
        "count <= (u->bytes - at) / each",
        "1"),
    "orc: negative offsets": ("etch/orc_arrays.h", "lookup",
        "sp / 8 * 64 +",
        "(sp & 0xfff) * 8 +"),
    "orc: too large cut off": ("etch/orc_arrays.h", "lookup",
        "if (sp != (int16_t)sp || ",
        "if ("),
    "orc: rows at the block's end": ("etch/orc_arrays.h", "lookup",
        "hi = etch_orc_word(t->lookup, b + 1);",
        "hi = lo + 1;"),
    "no space in a page": ("table/unwind_map.c", "lookup",
        "if (m->units - page_unit > ETCH_MAP_UNIT - ETCH_MAP_CODES)",
        "if (0)"),
    "signal frames in the map": ("table/unwind_map.c", "lookup",
        "return n->rows[*row].addr < hi;",
        "return false;"),
    "return addresses in registers": ("etch/orc_block.h", "lookup",
        " || r->ra != ETCH_RA_CFA)",
        ")"),
    "a group's base": ("table/unwind_tables.c", "lookup",
        "hd[b] = (uint16_t)(at - base",
        "hd[b] = (uint16_t)(at - 1 - base"),
    "two gaps together": ("table/unwind_rows.c", "canonical",
        "in->rows[next].addr - from >= UNWIND_PADDING",
        "in->rows[i + 1].addr - from >= UNWIND_PADDING"),
    "code taken for padding": ("table/unwind_rows.c", "canonical",
        "|| !insn.padding",
        ""),
    "call through SIB": ("arch/x86/byte_scan.c", "calls",
        "(p[2] & 7) == 5",
        "0"),
    "call through rip": ("arch/x86/byte_scan.c", "calls",
        "} else if (!mod && rm == 5) {",
        "} else if (0) {"),
    "call at the very end": ("arch/x86/byte_scan.c", "calls",
        "return n <= avail ? n : 0;",
        "return n < avail ? n : 0;"),
    "calls that overlap": ("arch/x86/byte_scan.c", "calls",
        "e->pending |= (uint64_t)1 << n;",
        "e->pending = (uint64_t)1 << n;"),
}
# accept: mutants without sanitizers, where it is the answers that are wrong.
COUNTS = {"lookup": ["60"], "mutate": ["30", "400"], "accept": ["30", "400"], "canonical": ["60"], "calls": ["30000"]}
SEEDS = {"mutate": 2}  # with which the mistakes are noticed after few mutants


# Compiled as fast as gcc does it: a mistake is noticed early.
QUICK = {"mutate": ["-O0", *ASAN[1:]], "": ["-O0"]}


@pytest.fixture(scope="module")
def right(once):
    """Objects of what has no mistake."""
    def get(mode):
        def compile_all(directory):
            run([*command(), *QUICK[mode], "-c", *(ROOT / "tool" / p for p in PARTS), *DRIVER], cwd=directory)
        return once(f"tables-{mode or 'plain'}", compile_all).glob("*.o")
    return get


@pytest.mark.parametrize("name", SABOTAGE)
def test_mistakes_are_noticed(tmp_path, build, name, right):
    path, mode, old, new = SABOTAGE[name]
    kind = "mutate" if mode == "mutate" else ""
    header = path.startswith("etch/")
    shutil.copytree(INCLUDE / "etch", tmp_path / "etch")
    target = tmp_path / (path if header else Path(path).name)
    text = (INCLUDE / path if header else ROOT / "tool" / path).read_text()
    assert text.count(old) >= 1, "the line is no more: update this test"
    target.write_text(text.replace(old, new))
    # Those that have the header in them, or the one file.
    which = UNWIND / f"tables_{mode.replace('accept', 'mutate')}.c"
    sources = [which, *(ROOT / "tool" / p for p in HEADED)] if header else [target]
    objects = [o for o in right(kind) if o.stem not in {s.stem for s in sources}]
    program = link(tmp_path / "t", [*command(include=tmp_path), f"-I{INCLUDE}", *QUICK[kind], "-Wno-error"], sources,
                   [*objects, *tool_objects(build, *OTHERS)])
    p = run([program, mode.replace("accept", "mutate"), SEEDS.get(mode, 5), *COUNTS[mode]], ok=None, env=asan_env())
    assert p.returncode != 0, p.stdout
