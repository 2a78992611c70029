# SPDX-License-Identifier: MIT
"""Whether a file's entry point has a caller depends on who starts it: the kernel and dynamic linkers jump there, klibc's
interpreter calls it."""

import shutil

import pytest

import dynamic
import rows
from conftest import run


# As klibc: the interpreter is all of the C library, and calls the address of AT_ENTRY as main.
INTERPRETER = r"""
__asm__(".globl _start\n.type _start, @function\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call begin\n hlt\n.size _start, . - _start");
void begin(long *sp)
{
	char **envp = (char **)sp + sp[0] + 2, **p = envp;
	long *aux, status;
	while (*p++)
		;
	for (aux = (long *)p; aux[0] != 9; aux += 2)
		;
	status = ((int (*)(long, char **, char **))aux[1])(sp[0], (char **)sp + 1, envp);
	__asm__ volatile("syscall" : : "a"(60), "D"(status));
	__builtin_unreachable();
}
"""
PROGRAM = r"""
__attribute__((noinline)) static int twice(int x) { __asm__ volatile("" : "+r"(x)); return 2 * x; }
int main(int argc, char **argv)
{
	int i, s = 0;
	for (i = 0; i < 5; i++)
		s += twice(argv[0][i]) + argc;
	return s == 3 ? 1 : 42;
}
"""
# Another entry point, which jumps on: the rest has the same caller, or none.
JUMP = '__asm__(".globl start\\n.type start, @function\\nstart: nop\\n jmp main\\n.size start, . - start");'
# Of the C libraries, by the names that their programs have, and of none.
LINKERS = ["ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1", "ld.so.1", "ld64-uClibc.so.0", "linker64"]
OTHERS = ["klibc-XX6cASCB7KZyJWpIJW79y94XHBY.so", "loader", "linker64x"]


BARE = ["gcc", "-O2", "-w", "-nostdlib", "-fno-stack-protector", "-fcf-protection=none"]


@pytest.fixture
def program_of(once, tmp_path):
    """A program that is started by an interpreter of this name, beside it."""
    def interpreter(out):
        (out / "i.c").write_text(INTERPRETER)
        run([*BARE, "-static", "-no-pie", "-Wl,-Ttext-segment=0x10000000", "-fno-asynchronous-unwind-tables", "-o", out / "i", out / "i.c"])
        # Programs that need a library have PT_INTERP.
        (out / "empty.c").write_text("")
        run([*BARE, "-shared", "-o", out / "empty.so", out / "empty.c"])

    def get(name, kind="pie", fdes=False, jump=False):
        parts = once("entry-callers", interpreter)
        shutil.copy(parts / "i", tmp_path / name)
        (tmp_path / "p.c").write_text((JUMP if jump else "") + PROGRAM)
        program = tmp_path / "program"
        run([*BARE, *(["-pie", "-fPIE"] if kind == "pie" else ["-no-pie"]), *([] if fdes else ["-fno-asynchronous-unwind-tables"]),
             f"-Wl,--dynamic-linker={tmp_path / name},-e,{'start' if jump else 'main'},--no-as-needed", "-o", program,
             tmp_path / "p.c", parts / "empty.so"])
        return program
    return get


def kinds(etch, program, *symbols):
    """The kinds of the rows of these functions."""
    place = {c[3]: (int(c[0], 16), int(c[1], 16))
             for c in (line.split() for line in run(["nm", "-S", program]).stdout.splitlines()) if len(c) == 4}
    found = set()
    for name in symbols:
        start, size = place[name]
        at = start
        for a, b, rule, _ in rows.inspect_rows(etch, program):
            if b > start and a < start + size:
                found |= {"undef"} if a > at else set()
                found.add(rule[3])
                at = b
        found |= {"undef"} if at < start + size else set()
    return found


@pytest.mark.parametrize("jump", [False, True], ids=["called", "jumps"])
@pytest.mark.parametrize("name, kind", [*((name, "pie") for name in OTHERS), (OTHERS[0], "no-pie")])
def test_an_interpreter_that_may_call(etch, program_of, name, kind, jump):
    program = program_of(name, kind, jump=jump)
    assert run([program], ok=None).returncode == 42
    assert kinds(etch, program, *(["start", "main"] if jump else ["main"])) == {"undef"}
    assert kinds(etch, program, "twice") == {"call"}


@pytest.mark.parametrize("kind", ["pie", "no-pie"])
def test_eh_frame_tells(etch, program_of, kind):
    assert kinds(etch, program_of(OTHERS[0], kind, fdes=True), "main") == {"call"}


@pytest.mark.parametrize("name", LINKERS)
def test_dynamic_linkers_jump(etch, program_of, name):
    assert kinds(etch, program_of(name, jump=True), "start", "main") == {"end"}


def test_without_an_interpreter(etch, program_of):
    """The kernel starts it, and jumps."""
    assert kinds(etch, program_of(OTHERS[0]).parent / OTHERS[0], "_start") == {"end"}


@pytest.mark.parametrize("jump", [False, True], ids=["called", "jumps"])
def test_steps(etch, tmp_path, program_of, stepper, jump):
    """No row says that the stack ends where it does not."""
    r = dynamic.over_ptrace(stepper(), dynamic.Rows(tmp_path / "rows", etch, []), [program_of(OTHERS[0], jump=jump)])
    assert r.checked > 50 and sum(r.counts.get(w, 0) for w in dynamic.WRONG) == 0, [str(t) for t in r.trouble]
    assert r.counts["undef"] > 0
