# SPDX-License-Identifier: MIT
"""tool/output/delta.c: a file told by another in few bytes, and without an index of it where the places are known."""
import random

import pytest

from conftest import MEMORY, ROOT, SANITIZED, run, tool_objects

SIZE = 1 << 16


@pytest.fixture(scope="module")
def told(tmp_path_factory, build_asan):
    """(size of the delta, indices made) of two files and guesses."""
    tmp = tmp_path_factory.mktemp("delta")
    run(["gcc", "-std=gnu11", *SANITIZED, "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/tool", "-Wl,--wrap=calloc",
         ROOT / "tests/data/elf/delta_tool.c", *tool_objects(build_asan, "output/delta.c", *MEMORY), "-o", tmp / "delta_tool"])

    def tell(have, want, *guesses):
        (tmp / "have").write_bytes(have)
        (tmp / "want").write_bytes(want)
        argv = [tmp / "delta_tool", tmp / "have", tmp / "want", *(f"{a}:{b}" for a, b in guesses)]
        return tuple(map(int, run(argv).stdout.split()))
    return tell


@pytest.fixture(scope="module")
def noise():
    return random.Random(7).randbytes(SIZE)


def test_the_same(told, noise):
    assert told(noise, noise) == (5, 0)  # nothing to tell, so many bytes (3), from where it is


def test_guesses(told, noise):
    """Three parts in another order: where they are said to be they are found at once."""
    cuts = 0, 20000, 50000, SIZE
    a, b, c = (noise[x:y] for x, y in zip(cuts, cuts[1:]))
    guesses = (cuts[2], 0), (0, len(c)), (cuts[1], len(c) + len(a))
    size, indices = told(noise, c + a + b, *guesses)
    assert size <= 24 and indices == 0
    size, indices = told(noise, c + a + b)
    assert 64 < size < 600 and indices == 1  # found all the same, by an index, once enough was missed
    # Wrong ones do no harm, beyond the end of the file either.
    size, indices = told(noise, c + a + b, (SIZE - 3, 0), (SIZE + 9, 70), (1, len(c)))
    assert 64 < size < 600 and indices == 1


@pytest.mark.parametrize("length", [1, 8, 24])
def test_numbers_that_changed(told, noise, length):
    """What is behind them goes on where it was: each costs itself and a copy, and nothing is looked for elsewhere."""
    want, n = bytearray(noise), 0
    for at in range(100, SIZE - 200, 80):
        want[at:at + length] = bytes(x ^ 0x55 for x in want[at:at + length])
        n += 1
    size, indices = told(noise, bytes(want))
    assert n * (length + 3) <= size <= n * (length + 4) and indices == 0
    # Too much at once for a number: looked for, as far as that is worth it.
    want[1000:1000 + 400] = bytes(400)
    assert told(noise, bytes(want))[1] == 1


def test_ends(told, noise):
    assert told(noise, b"") == (0, 0) and told(b"", noise)[0] > SIZE
    assert told(noise, noise[:-7])[0] == 5 and told(noise, noise + b"abc")[0] <= 5 + 6
