# SPDX-License-Identifier: MIT
"""What `etch objtool` takes for an object like vmlinux.o, where all functions jump to the return thunk and that is code of the same
file: instructions and memory, no time. Numbers of a whole kernel: docs/reports."""
import re
import sys

import pytest

from conftest import ROOT, run

sys.path.insert(0, str(ROOT / "scripts" / "parity"))
import kernel as parity  # noqa: E402

# With the jump and int3, INSNS instructions.
BODY = "push %rbx\n" + 30 * "test %edi, %edi\nje 1f\nmov %edi, %esi\n1: add $3, %eax\n" + "pop %rbx\n"
INSNS, FUNCTIONS = 124, 300
THUNK = '.section .text.thunk, "ax"\n.globl __x86_return_thunk\n__x86_return_thunk: ret\nint3\n'


def functions(count, body):
    return "".join(f".globl f{i}\n.type f{i}, @function\nf{i}: {body}jmp __x86_return_thunk\nint3\n.size f{i}, . - f{i}\n" for i in range(count))


@pytest.fixture
def assemble(tmp_path):
    def assembled(name, *text):
        path = tmp_path / f"{name}.o"
        run(["as", "-o", path, "-"], input="".join(text))
        return path
    return assembled


def counted(etch, path, *options):
    p = run(["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={path}.counts",
             etch, "objtool", "--dry-run", *options, path])
    return int(re.search(r"I +refs: +([\d,]+)", p.stderr)[1].replace(",", ""))


def test_functions_that_end_in_a_thunk_of_the_file(etch, assemble):
    """They are analysed once, as those that end in another file's."""
    code = functions(FUNCTIONS, BODY)
    there, here = (counted(etch, assemble(*x), "--orc") for x in (("there", code), ("here", code, THUNK)))
    assert here / there < 1.3, (there, here)


def test_memory_for_jumps_to_a_thunk_of_the_file(etch, assemble):
    """They bring one state, which is unpacked once: it would have 416 bytes for each."""
    count = 20000
    code = functions(count, "push %rbx\nmov %edi, %ebx\npop %rbx\n")
    memory = []
    for x in (("there", code), ("here", code, THUNK)):
        status, said, used = parity.run([etch, "objtool", "--orc", assemble(*x)])
        assert not status and said.count("\n") == (x[0] == "here"), said  # the thunk, which objtool calls unreachable, too
        memory.append(used.memory)
    assert (memory[1] - memory[0]) * 1024 / count < 400, memory


def test_paths_without_access_to_user_memory(etch, assemble):
    """--uaccess follows all paths if one function has such code, and looks only at what may matter."""
    path = assemble("a", functions(FUNCTIONS, BODY), functions(1, "stac\nclac\n").replace("f0", "user"))
    without, with_ = counted(etch, path, "--sls"), counted(etch, path, "--sls", "--uaccess", "--skip=stackval")
    assert 0 < (with_ - without) / (FUNCTIONS * INSNS) < 120, (without, with_)


# UNWIND_HINT_FUNC of Linux 6.1.
HINT = ".pushsection .discard.unwind_hints\n.long __x86_return_thunk - .\n.short 8\n.byte 4, 3, 0\n.balign 4\n.popsection\n"


def test_jumps_to_a_thunk_whose_frame_is_noted(etch, assemble):
    """They bring it no state."""
    count = 2000
    code = functions(count, "push %rbx\nmov %edi, %ebx\npop %rbx\n")
    there, here, noted = (counted(etch, assemble(*x), "--orc", "--skip=stackval")
                          for x in (("there", code), ("here", code, THUNK), ("noted", code, THUNK, HINT)))
    assert 0 < (noted - there) / count < 1200 and noted - there < (here - there) / 3, (there, here, noted)
