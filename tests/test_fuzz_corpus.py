# SPDX-License-Identifier: MIT
"""The fuzz targets (tests/fuzz) on what fuzzing has kept, fixtures/fuzz, and on the files that it
begins with, under ASan and UBSan. Cases that failed once are the files named found-*."""
import re
import subprocess
import sys

import pytest

from conftest import ROOT, TESTS, asan_env, run

CORPUS = ROOT / "fixtures" / "fuzz"
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
