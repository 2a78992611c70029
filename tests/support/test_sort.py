# SPDX-License-Identifier: MIT
"""tool/support/sort.c sorts as sorted() does: few and many, near and far apart, those of one address by what else they are."""
import random

import pytest

from conftest import ROOT, SANITIZED, run, tool_objects


@pytest.fixture(scope="module")
def tool(tmp_path_factory, build_asan):
    out = tmp_path_factory.mktemp("sort") / "sort"
    run(["gcc", "-std=gnu11", *SANITIZED, "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/tool", ROOT / "tests/data/support/sort.c",
         *tool_objects(build_asan, "support/sort.c"), "-o", out])
    return out


@pytest.mark.parametrize("count", [0, 1, 256, 257, 3000])
@pytest.mark.parametrize("least,span", [(0, 40), (2**64 - 2**11, 2**11), (2**47, 2**22 + 9), (7, 2**44), (5, 2**44 + 1), (0, 2**64)])
def test_as_python_does(tool, count, least, span):
    r = random.Random(count)
    addrs = [least, least + span - 1, *(least + r.randrange(span) for _ in range(count // 2))]
    pairs = [(r.choice(addrs), r.randrange(count)) for _ in range(count)]
    pairs[:2] = [(addrs[1], 3), (addrs[0], 1)][:count]
    lines = run([tool], input="".join(f"{a} {n}\n" for a, n in pairs)).stdout.splitlines()
    assert [tuple(map(int, line.split())) for line in lines] == sorted(pairs)


@pytest.mark.parametrize("count", [0, 1, 256, 257, 3000])
@pytest.mark.parametrize("least,span", [(0, 40), (2**64 - 2**11, 2**11), (2**47, 2**22 + 9), (7, 2**44), (5, 2**44 + 1), (0, 2**64)])
def test_words(tool, count, least, span):
    r = random.Random(count)
    words = [least, least + span - 1, *(least + r.randrange(span) for _ in range(count))][:count]
    r.shuffle(words)
    out = run([tool, "words"], input="".join(f"{w}\n" for w in words)).stdout
    assert list(map(int, out.split())) == sorted(words)
