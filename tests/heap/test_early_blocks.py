# SPDX-License-Identifier: MIT
"""The recorder's own memory for dlsym(3) (lib/heap/next_malloc.c), which it must tell from blocks of the program's allocator by
their address: free() of a block of another allocator would end the program."""

import pytest

from conftest import DATA, ROOT, run


@pytest.fixture(scope="module")
def early(tmp_path_factory):
    out = tmp_path_factory.mktemp("early") / "early"
    run(["gcc", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-D_GNU_SOURCE", "-I", ROOT / "lib", "-o", out,
         DATA / "heap" / "early.c", ROOT / "lib" / "heap" / "next_malloc.c"])
    return out


@pytest.mark.parametrize("size,count", [(0, 2048), (1, 2048), (16, 2048), (17, 65536 // 48), (32768, 1), (32769, 0)])
def test_blocks_of_every_size(early, size, count):
    assert run([early, size]).stdout == f"{count}\n"
