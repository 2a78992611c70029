# SPDX-License-Identifier: MIT
"""`cmp %reg,obj` that the link step commutes: the program must do what the unprocessed one does, at every value; and
where something else may read the flags, or set them too, the compare stays as it is. The judge is the CPU."""
import re

import pytest

from conftest import run

CONDITIONS = ["e", "ne", "b", "ae", "a", "be", "l", "ge", "g", "le"]
OTHERS = ["s", "ns", "o", "no", "p", "np"]
WIDTH = {"b": ("%dil", 1), "w": ("%di", 2), "l": ("%edi", 4), "q": ("%rdi", 8)}


def function(name, body):
    return f"\t.globl {name}\n\t.type {name}, @function\n{name}:\n{body}\n\t.size {name}, . - {name}\n"


def cmp(width, register=None):
    return f"\tcmp{width} {register or WIDTH[width][0]}, cfg(%rip)\n"


def commuted():
    """Name and body of functions whose compare can be commuted."""
    for w in WIDTH:
        for c in CONDITIONS:
            yield f"j_{w}_{c}", cmp(w) + f"\tmov $1, %eax\n\tj{c} 1f\n\tmov $2, %eax\n1:\tret"
    for c in CONDITIONS:
        yield f"far_{c}", cmp("l") + f"\tmov $1, %eax\n\tj{c} 1f\n\tmov $2, %eax\n\tjmp 1f\n\t.skip 300, 0x90\n1:\tret"
        yield f"set_{c}", "\txor %eax, %eax\n" + cmp("l") + f"\tset{c} %al\n\tret"
        yield f"cmov_{c}", "\tmov $1, %eax\n\tmov $2, %edx\n" + cmp("q", "%r8") + f"\tcmov{c} %edx, %eax\n\tret"
    # several, on several ways, with instructions between that leave flags alone
    yield "many", cmp("l") + ("\tmov $0, %eax\n\tja 2f\n\tlea 1(%rax), %rax\n\tsetb %dl\n\tjl 1f\n\tmovzbl %dl, %eax\n\tret\n"
                              "1:\tsetae %cl\n\tmovzbl %cl, %eax\n\tadd $8, %eax\n\tret\n2:\tmov $20, %eax\n\tcmovg %eax, %eax\n\tjle 3f\n\tret\n"
                              "3:\tmov $30, %eax\n\tret")
    yield "loop", "\txor %eax, %eax\n1:\tadd $1, %eax\n\tcmp $9, %eax\n\tje 2f\n\tadd $3, %edi\n" + cmp("l") + "\tja 1b\n2:\tret"
    yield "then_inc", cmp("l") + "\tja 1f\n\tmov $5, %eax\n\tinc %eax\n\tjz 1f\n\tret\n1:\tmov $7, %eax\n\tret"


def kept():
    """Name and body of functions whose compare must stay as it is."""
    for c in OTHERS:
        yield f"kj_{c}", cmp("l") + f"\tmov $1, %eax\n\tja 2f\n\tj{c} 1f\n\tmov $2, %eax\n1:\tret\n2:\tmov $3, %eax\n\tret"
    yield "k_adc", cmp("l") + "\tmov $1, %eax\n\tadc $0, %eax\n\tret"
    yield "k_sbb", cmp("l") + "\tsbb %eax, %eax\n\tret"
    yield "k_pushf", cmp("l") + "\tja 1f\n\tpushf\n\tpop %rax\n\tand $0x8d5, %eax\n\tret\n1:\tmov $1, %eax\n\tret"
    yield "k_lahf", cmp("l") + "\tja 1f\n\tlahf\n\tmovzbl %ah, %eax\n\tret\n1:\tmov $1, %eax\n\tret"
    # the jump has a second way in, with other flags
    yield "k_two", ("\tmov $0, %eax\n\ttest $1, %sil\n\tjz 2f\n" + cmp("l") + "\tjmp 1f\n2:\tcmp $5, %edi\n1:\tja 3f\n\tret\n3:\tmov $1, %eax\n\tret")
    yield "k_both", ("\tmov $0, %eax\n\ttest $1, %sil\n\tjz 2f\n" + cmp("l") + "\tjmp 1f\n2:" + cmp("l", "%edx") + "1:\tja 3f\n\tret\n3:\tmov $1, %eax\n\tret")
    yield "k_loop", ("\txor %eax, %eax\n" + cmp("l") + "1:\tja 2f\n\tadd $1, %eax\n\tcmp $9, %eax\n\tjmp 1b\n2:\tret")
    # a shift by cl may leave the flags, or set them
    yield "k_shift", cmp("l") + "\tmov %esi, %ecx\n\tmov $6, %eax\n\tshl %cl, %eax\n\tja 1f\n\tret\n1:\tmov $77, %eax\n\tret"
    # inc sets all flags but the carry
    yield "k_inc", cmp("l") + "\tmov $-1, %eax\n\tinc %eax\n\tja 1f\n\tmov $3, %eax\n1:\tret"
    # the jump is another function's target, too
    yield "k_entered", cmp("l") + "k_inside:\tja 1f\n\tmov $3, %eax\n\tret\n1:\tmov $4, %eax\n\tret"
    yield "enters", "\tcmp $3, %edi\n\tjmp k_inside"
    # its address is taken
    yield "k_taken", cmp("l") + "k_label:\tja 1f\n\tmov $3, %eax\n\tret\n1:\tmov $4, %eax\n\tret"
    yield "takes", "\tlea k_label(%rip), %rax\n\tcmp $3, %edi\n\tjmp *%rax"
    # the flags leave the function
    yield "k_leaves", cmp("l") + "\tja k_elsewhere\n\tmov $3, %eax\n\tret"
    yield "k_elsewhere", "\tjb 1f\n\tmov $4, %eax\n\tret\n1:\tmov $5, %eax\n\tret"


MAIN = """
#include <etch/imv.h>
#include <stdint.h>
#include <stdio.h>
ETCHED union { uint8_t b; uint16_t w; uint32_t l; uint64_t q; } cfg = { .q = 5 };
typedef long fn(long, long, long, long, long);
#define F(name) extern fn name;
#include "names.h"
#undef F
#define F(name) { #name, name },
static const struct { const char *name; fn *f; } all[] = {
#include "names.h"
};
static const uint64_t values[] = { 5, 0, 1, 4, 6, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
                                   0x100000005, 0x7fffffffffffffff, 0x8000000000000000, -1ull, -2ull };
int main(void)
{
	struct etch_info info = { .size = sizeof(info) };
	unsigned n = sizeof(values) / sizeof(values[0]);

	for (unsigned v = 0; v < n; v++) {
		if (v && etch_set(&cfg.q, values[v]))
			return 1;
		for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			uint64_t sum = 0;

			for (unsigned a = 0; a < n; a++)
				for (unsigned b = 0; b < 3; b++)
					sum = sum * 31 + (uint32_t)all[i].f(values[a], b, values[(a + b) % n], 3, values[a]);
			printf("%s %lx\\n", all[i].name, sum);
		}
	}
	etch_info(&info);
	fprintf(stderr, "%lu %lu %ld\\n", info.sites, info.armed, etch_verify(0, 0));
	return 0;
}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory, build):
    from conftest import Flow
    flow = Flow(tmp_path_factory.mktemp("commuted"), build)
    functions = [*commuted(), *kept()]
    (flow.tmp / "names.h").write_text("".join(f"F({n})\n" for n, _ in functions))
    (flow.tmp / "a.s").write_text("\t.text\n" + "".join(function(n, b) for n, b in functions) + '\t.section .note.GNU-stack,"",@progbits\n')
    run(["gcc", "-c", "-o", flow.tmp / "a.o", flow.tmp / "a.s"])
    main = flow.compile(flow.source(MAIN, "main.c"), ["-O1", f"-I{flow.tmp}", "-fvisibility=hidden"])
    flow.exe = flow.link([main, flow.tmp / "a.o"], ["-Wl,-Bsymbolic"], "commuted")
    flow.want = run([flow.exe]).stdout
    flow.plain = flow.exe.read_bytes()
    flow.rewrite(flow.exe)
    return flow


def test_a_commuted_compare_does_what_it_did(made):
    p = run([made.exe])
    assert p.stdout == made.want and p.stdout.count("\n") > 1500
    sites, armed, stale = map(int, p.stderr.split())
    assert stale == 0 and armed > 0.6 * sites


def test_all_that_can_be_commuted_are_and_no_other(made):
    code = run(["objdump", "-d", "--no-show-raw-insn", made.exe]).stdout
    body = {n: re.search(rf"<{n}>:\n(.*?)\n\n", code + "\n\n", re.S)[1] for n, _ in [*commuted(), *kept()]}
    left = {n for n, b in body.items() if re.search(r"cmp[bwlq]? +%\w+,0x\w+\(%rip\)", b)}
    # equality needs no commuting: `cmp %reg,obj` takes an immediate
    equal = {n for n, _ in commuted() if n.rsplit("_", 1)[-1] in ("e", "ne")}
    assert left - equal == {n for n, b in kept() if "cfg" in b}, left - equal


def test_rewriting_twice_is_once_and_undo_gives_the_file_back(made):
    once = made.exe.read_bytes()
    made.rewrite(made.exe)
    assert made.exe.read_bytes() == once
    copy = made.tmp / "copy"
    copy.write_bytes(once)
    run([made.etch, "rewrite", "--undo", copy])
    assert copy.read_bytes() == made.plain
    assert run([made.etch, "check", made.exe], ok=None).stdout.count("ETCH-T") == 0
