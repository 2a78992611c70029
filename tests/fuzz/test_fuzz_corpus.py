# SPDX-License-Identifier: MIT
"""The fuzz targets (tests/fuzz) on what fuzzing has kept, tests/data/fuzz, and on the files that it
begins with, under ASan and UBSan. Cases that failed once are the files named found-*."""
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import DATA, ROOT, TESTS, asan_env, run

CORPUS = DATA / "fuzz"
TARGETS = re.findall(r'^\t\{"(\w+)"', (TESTS / "fuzz" / "targets.c").read_text(), re.M)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory, build):
    directory = tmp_path_factory.mktemp("seeds")
    run([sys.executable, TESTS / "fuzz" / "seeds.py", build, directory])
    return directory


def test_the_list():
    assert len(TARGETS) >= 19
    assert {p.name for p in CORPUS.iterdir()} <= set(TARGETS)
    assert sum(p.stat().st_size for p in CORPUS.rglob("*") if p.is_file()) < 1 << 20


@pytest.mark.parametrize("target", TARGETS)
def test_replay(build_asan, seeds, target):
    files = sorted([*seeds.joinpath(target).iterdir(), *(CORPUS / target).glob("*")])
    assert files
    p = subprocess.run([build_asan / "replay", target, *files], capture_output=True, text=True, errors="replace",
                       env=dict(asan_env(), ETCH_BOUNDS="none"), timeout=300)
    last = p.stdout.splitlines()[-2:]
    assert p.returncode == 0, f"{last}\n{p.stderr[-3000:]}"
    assert last[-1] == f"{len(files)} files"


def test_replay_notices(build_asan, tmp_path):
    """What does not hold ends it."""
    assert run([build_asan / "replay", "nothing", "x"], ok=2).stderr == "replay: no target nothing\n"
    assert run([build_asan / "replay", "elf", tmp_path / "none"], ok=2).stderr


def test_what_fails_is_kept(tmp_path, build):
    """scripts/fuzz.py files, with a tool that some bytes bring down: exit status 1, and the file that does it."""
    tool, keep, good = tmp_path / "etch", tmp_path / "keep", tmp_path / "good.o"
    tool.write_text("#!/bin/sh\nfor f; do [ -f \"$f\" ] || continue\n"
                    "cmp -sn 16 \"$f\" " + str(good) + " || kill -SEGV $$\necho \"$f: 1 site\"; done\n")
    tool.chmod(0o755)
    run(["gcc", "-x", "c", "-c", "-o", good, "-"], input="int f(void) { return 1; }")
    p = run([sys.executable, ROOT / "scripts" / "fuzz.py", "files", "--minutes", "0.03", "--jobs", "1", "--seed", "1", "--keep", keep, tmp_path, good], ok=1)
    kept = {str(path) for path in keep.iterdir()}
    named = set(re.findall(r"\S+/mutant-\w+", p.stdout))
    assert kept and named <= kept and "problems" in p.stdout.splitlines()[-1] and not p.stderr
    assert all(Path(k).read_bytes()[:16] != good.read_bytes()[:16] for k in kept)
