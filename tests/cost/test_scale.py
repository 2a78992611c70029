# SPDX-License-Identifier: MIT
"""No shape of code makes etch slow: each of tests/cost/shapes.py goes through rewrite and
check, and of some the instructions that etch takes are counted: four times as much code takes
about four times as many (docs/reports, scale). No time is compared; that of one shape, at most half
a second, has a bound a hundred times as high, for what is quadratic."""
import re
import resource
import subprocess

import pytest

import shapes
from conftest import run

HANG = 40  # s of CPU


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (HANG, HANG))


def assemble(source, path):
    subprocess.run(["as", "-o", path, "-"], input=source, text=True, check=True)
    return path


@pytest.mark.parametrize("name", shapes.SHAPES)
def test_in_a_moment(etch, tmp_path, name):
    source, n = shapes.SHAPES[name]
    if source not in (shapes.long_function, shapes.blocks, shapes.switch):
        n //= 8  # scripts/bench/run shapes has all in full
    path, out = assemble(source(n), tmp_path / "a.o"), tmp_path / "b.o"
    run([etch, "rewrite", "-o", out, path], preexec_fn=limit)
    assert b".orc_unwind" in out.read_bytes(), "no rows"
    run([etch, "check", "-q", "--fail-on", "never", path], preexec_fn=limit)


@pytest.fixture(scope="module")
def start(etch, tmp_path_factory):
    """Instructions that etch takes for an object of next to nothing."""
    tmp_path = tmp_path_factory.mktemp("start")
    return counted(etch, assemble(shapes.blocks(2), tmp_path / "0.o"), tmp_path)


def counted(etch, path, tmp_path):
    p = run(["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={tmp_path / 'counts'}",
             etch, "rewrite", "-o", tmp_path / "out.o", path])
    return int(re.search(r"I +refs: +([\d,]+)", p.stderr)[1].replace(",", ""))


COUNTED = [shapes.blocks, shapes.switch, shapes.landing_pads, shapes.noreturn_links, shapes.handed_on]
MORE = [shapes.switches, shapes.chain, shapes.shared_call_sites, shapes.entries]  # in full in the test above, too


@pytest.mark.parametrize("shape", [*COUNTED, *(pytest.param(s, marks=pytest.mark.long) for s in MORE)], ids=lambda s: s.__name__)
def test_instructions_grow_as_the_code_does(etch, tmp_path, start, shape):
    few, many = 500, 2000
    a = counted(etch, assemble(shape(few), tmp_path / "1.o"), tmp_path) - start
    b = counted(etch, assemble(shape(many), tmp_path / "2.o"), tmp_path) - start
    # 4, what sorting adds, and blocks of the record of --undo that meet by chance; quadratic would be 16.
    assert 2.5 < b / a < 7, (start, a, b)
