# SPDX-License-Identifier: MIT
"""Rows of GHC's code, which has one frame on the C stack: StgRun's (docs/correctness.md). A program
that does as GHC's do (unwind/haskell.S) is unwound from each instruction, with a shadow stack as truth."""

import bisect
import shutil

import pytest

import dynamic
from conftest import DATA, need, run

RESERVED = 16384
FRAME = RESERVED + 56
SOURCE = DATA / "unwind" / "haskell.S"


@pytest.fixture(scope="module")
def tools(stepper):
    return stepper()


@pytest.fixture(scope="module")
def table(tmp_path_factory, etch):
    """Rows by etch; those of libc are made once."""
    return dynamic.Rows(tmp_path_factory.mktemp("rows"), etch, [])


def code_library(tmp, name, *flags):
    run(["gcc", "-DCODE", *flags, "-shared", f"-Wl,-soname,{name}", "-o", tmp / name, SOURCE])
    return tmp / name


def program(tmp, *flags, reserved=RESERVED, library=None):
    """With the code in the program, or in a library of that name."""
    out = tmp / "t"
    more = [code_library(tmp, library), f"-Wl,-rpath,{tmp}", "-rdynamic"] if library else ["-DCODE"]
    run(["gcc", "-fPIC", f"-DRESERVED={reserved}", "-DRUN", "-O2", *flags, "-o", out, SOURCE, DATA / "unwind" / "haskell.c", *more])
    return out


def rows(etch, path, *args):
    """(starts, rules): CFA and place of rbp by address."""
    lines = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", *args, path]).stdout.splitlines()[1:]]
    return [int(line[0], 16) for line in lines], [(line[2], line[3]) for line in lines]


def at(table, addr):
    return table[1][bisect.bisect_right(table[0], addr) - 1]


def symbol(path, name):
    for line in run(["nm", path]).stdout.splitlines():
        if line.split()[-1] == name:
            return int(line.split()[0], 16)
    raise KeyError(name)


def places(path):
    """Each instruction of the code: its address, and the bytes by which rsp is below where run() has left it."""
    first, last, down = symbol(path, "work_info"), symbol(path, "last"), 0
    for line in run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=work_info", path]).stdout.splitlines():
        addr, _, insn = line.partition(":\t")
        try:
            addr = int(addr, 16)
        except ValueError:
            continue
        if not first <= addr <= last or insn.startswith("nop"):
            continue
        yield addr, down
        if insn.startswith("sub ") and insn.endswith("%rsp"):
            down += int(insn.split("$")[1].split(",")[0], 16)
        if insn.startswith("add ") and insn.endswith("%rsp"):
            down -= int(insn.split("$")[1].split(",")[0], 16)


def step(tools, table, path):
    """What it runs through that has no row."""
    r = dynamic.over_ptrace(tools, table, [path], entry=True)
    assert r.stdout.splitlines()[-1] == b"42" and r.walked > 2000
    # Rows are right or none; the linker's lazy resolver keeps its frame in rbx.
    wrong = [str(t) for t in r.trouble if t.what not in ("undef", "register", "no-table")]
    assert not wrong, "\n".join(wrong[:20])
    return [str(t) for t in r.trouble if t.what == "undef"]


@pytest.mark.parametrize("flags", [["-pie"], ["-no-pie", "-s"]], ids=["pie", "stripped"])
def test_program(tools, table, flags, tmp_path):
    path = program(tmp_path, "-Wl,-z,now", *flags)
    assert not step(tools, table, path)


def test_library(tools, table, tmp_path):
    path = program(tmp_path, "-Wl,-z,now", library="libHSt-1.0-ghc9.0.2.so")
    assert not step(tools, table, path)


def test_rows(etch, tmp_path):
    """The rule itself, at each instruction of one function, also from code alone."""
    path = program(tmp_path)
    for args in ([], ["--no-cfi"]):
        table = rows(etch, path, *args)
        seen = {(at(table, addr), down) for addr, down in places(path)}
        assert seen == {((f"rsp+{FRAME + down}", "cfa-48"), down) for down in (0, 8)}


def test_a_frame_that_is_aligned(etch, tools, table, tmp_path):
    """Where the CFA is in a slot and the caller's rbp lies at a distance from rsp, both are as far from a lower rsp."""
    path = program(tmp_path, "-DALIGNED", "-Wl,-z,now")
    seen = {(at(rows(etch, path), addr), down) for addr, down in places(path)}
    assert seen == {((f"*(rsp+{RESERVED + 48 + down})+0", f"*(rsp+{RESERVED + 8 + down})"), down) for down in (0, 8)}
    assert not step(tools, table, path)


@pytest.mark.parametrize("name,known", [
    ("libHSt-1.0-ghc7.4.1.so", True), ("libHSt-1.0-ghc7.2.2.so", False), ("libHSt-1.0_thr-ghc9.8.4.so", True),
    ("libHSt-1.0-ghc9.10.1.so", False), ("libHSt-1.0.so", False), ("libt-ghc9.0.2.so", False),
])
def test_release(etch, name, known, tmp_path):
    """A library says by its name alone which release of GHC it is of; later ones have another frame."""
    library = code_library(tmp_path, name)
    first = at(rows(etch, library), symbol(library, "work_info"))
    assert (first == (f"rsp+{FRAME}", "cfa-48")) == known and (known or first[0] == "undef")


def test_not_so(etch, tmp_path):
    """What C calls, or what returns, may be C's: no row. Without StgRun's frame there is nothing to say at all."""
    path = program(tmp_path)
    table = rows(etch, path)
    for name, rule in (("work_info", f"rsp+{FRAME}"), ("middle", f"rsp+{FRAME}"), ("called_info", "undef"),
                       ("returns_info", "undef"), ("outside", "rsp+8")):
        assert at(table, symbol(path, name))[0] == rule
    path = program(tmp_path, reserved=8192)
    assert at(rows(etch, path), symbol(path, "work_info"))[0] == "undef"


def test_two_run_time_systems(etch, tmp_path):
    """One that makes another frame may have entered the same code: no row then."""
    other = tmp_path / "other.o"
    run(["gcc", "-c", "-DRUN", f"-DRESERVED={RESERVED + 4096}", "-o", other, SOURCE])
    run(["objcopy", "--redefine-sym", "run=run2", "--redefine-sym", "back=back2", other])
    path = program(tmp_path, other)
    assert at(rows(etch, path), symbol(path, "work_info"))[0] == "undef"


@pytest.mark.parametrize("other,known", [("libHSu-1.0-ghc9.8.4.so", True), ("libHSu-1.0-ghc9.10.1.so", False)])
def test_two_releases(etch, other, known, tmp_path):
    """Of the libraries that are named, a release whose frame is not known leaves nothing to say."""
    needed = code_library(tmp_path, other)
    library = code_library(tmp_path, "libHSt-1.0-ghc9.0.2.so", "-Wl,--no-as-needed", needed)
    assert other in run(["readelf", "-dW", library]).stdout
    first = at(rows(etch, library), symbol(library, "work_info"))
    assert (first == (f"rsp+{FRAME}", "cfa-48")) == known and (known or first[0] == "undef")


def test_looked_through_twice(etch, tmp_path):
    """What is left where code has been found by an address begins in the state that the jumps agree on, also where they did
    before and none is new: not with what was on the stack, of which valgrind knows."""
    need("valgrind")
    library = code_library(tmp_path, "libHSt-1.0-ghc9.0.2.so", "-DTWICE")
    run(["valgrind", "-q", "--error-exitcode=9", etch, "inspect", "orc", library])
    table = rows(etch, library)
    for name in ("twice_info", "found_info", "held"):
        assert at(table, symbol(library, name)) == (f"rsp+{FRAME}", "cfa-48")


HASKELL = r"""import Control.Exception
import Foreign
import Foreign.C
import qualified Data.Map as M
foreign import ccall "wrapper" export :: (Ptr CInt -> Ptr CInt -> IO CInt) -> IO (FunPtr (Ptr CInt -> Ptr CInt -> IO CInt))
foreign import ccall "qsort" sort :: Ptr CInt -> CSize -> CSize -> FunPtr (Ptr CInt -> Ptr CInt -> IO CInt) -> IO ()
main :: IO ()
main = do
  order <- export (\a b -> fromIntegral . subtract 1 . fromEnum <$> (compare <$> peek a <*> peek b))
  withArrayLen [x * 7 `mod` 31 | x <- [1 .. 20]] $ \n p -> sort p (fromIntegral n) 4 order >> peekArray n p >>= print
  print (M.foldr (+) 0 (M.fromListWith (+) [(i `mod` 17, i * i) | i <- [1 .. 500 :: Integer]]))
  r <- try (evaluate (1 `div` (0 :: Int)))
  print (r :: Either ArithException Int)
"""


@pytest.mark.long
@pytest.mark.parametrize("flags", [[], ["-dynamic"], ["-threaded"]], ids=["static", "dynamic", "threaded"])
def test_ghc(tools, table, flags, tmp_path):
    """What GHC itself makes, where there is one: C sorts by Haskell, and a division fails."""
    if not shutil.which("ghc"):
        pytest.skip("no ghc here")
    (tmp_path / "w.hs").write_text(HASKELL)
    run(["ghc", "-v0", "-O1", *flags, "-o", tmp_path / "w", tmp_path / "w.hs"], cwd=tmp_path)
    r = dynamic.in_process(tools, table, [tmp_path / "w"], steps=150_000, ok=False)
    assert r.walked > 50_000 and r.calls > 1000
    # qsort's callback comes by code that is made at run time.
    wrong = [str(t) for t in r.trouble if t.what not in ("undef", "register", "no-table")]
    assert not wrong, "\n".join(wrong[:20])
    assert sum(t.count for t in r.trouble if t.what == "undef") < r.walked / 1000
