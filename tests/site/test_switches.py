# SPDX-License-Identifier: MIT
"""An etched object's address in a register across a switch: followed into the arms where the jump table is certainly the
function's own, else into none. Both steps, and the link step alone."""
import pytest

from conftest import run

# pick(k): reads obj[64 + k] by a register that was loaded before the switch. What the other ways do is in OTHER.
PROGRAM = r"""
#include <etch/imv.h>
#include <stdio.h>
ETCHED int obj[100] = { [64] = 10, 11, 12 };
int plain[100] = { [64] = 20, 21, 22 };
int pick(long k), other(long k);
__asm__(".text\n"
"	.type pick,@function\n"
"pick:	lea obj(%rip),%rsi\n"
"	lea table(%rip),%rcx\n"
"	cmp $2,%rdi\n"
"	ja 9f\n"
"	SPILL\n"
"	movslq (%rcx,%rdi,4),%rax\n"
"	add %rcx,%rax\n"
"	jmp *%rax\n"
"arm0:	mov 256(%rsi),%eax\n"
"	ret\n"
"arm1:	mov 260(%rsi),%eax\n"
"	ret\n"
"arm2:	mov 264(%rsi),%eax\n"
"	ret\n"
"9:	xor %eax,%eax\n"
"	ret\n"
"SECOND\n"
"	.size pick,.-pick\n"
"	.type other,@function\n"
"other:	OTHER\n"
"	ret\n"
"	.size other,.-other\n"
"	.section .rodata\n"
"	.balign 4\n"
"table:	.long arm0-table,arm1-table,arm2-table MORE\n"
"	.text\n");
int main(void)
{
	for (long k = 0; k < 4; k++)
		printf("%d ", pick(k));
	for (long k = 0; k < 3; k++)
		printf("%d ", other(k));
	printf("%ld\n", etch_verify(0, 0));
	return 0;
}
"""
JUMP = r"lea plain(%rip),%rsi\n lea table(%rip),%rcx\n movslq (%rcx,%rdi,4),%rax\n add %rcx,%rax\n jmp *%rax"
WAYS = {  # SPILL, SECOND, OTHER, MORE; are the arms followed?
    "own": ("nop", "", "xor %eax,%eax", "", True),
    "base copied": (r"push %rdi\n mov %rcx,%rdx\n mov %rdx,%rcx\n pop %rdi", "", "xor %eax,%eax", "", True),
    "base on the stack": (r"push %rcx\n pop %rcx", "", "xor %eax,%eax", "", False),
    "another function jumps there": ("nop", "", JUMP, "", False),
    "another function has the table": ("nop", "", r"lea plain(%rip),%rsi\n lea table(%rip),%rcx\n mov (%rcx,%rdi,4),%eax\n cltq\n"
                                       r" add %rcx,%rax\n jmp *%rax", "", False),
    "another jump of the function": ("nop", "inside: " + JUMP.replace("movslq (%rcx,%rdi,4),%rax", r"mov (%rcx,%rdi,4),%eax\n cltq"),
                                     "jmp inside", "", False),
    "another jump, in another state": ("nop", "inside: " + JUMP, "jmp inside", "", False),
    "a target elsewhere": ("nop", "", r"lea plain(%rip),%rsi\nelsewhere: movl $7,4(%rsi)\n mov 4(%rsi),%eax", ",elsewhere-table", False),
}


@pytest.mark.parametrize("way", WAYS)
def test_arms(flow_gcc, way):
    flow = flow_gcc
    spill, second, other, more, followed = WAYS[way]
    text = PROGRAM.replace("SPILL", spill).replace("SECOND", second).replace("OTHER", other).replace("MORE", more)
    o = flow.compile(text, ["-O2", "-w"])
    for stage in ("link", "both"):
        if stage == "both":
            flow.rewrite(o)
        exe = flow.link([o], [], stage)
        want = run([exe]).stdout
        flow.rewrite(exe)
        assert run([exe]).stdout == want
        sites = flow.sites(exe)
        arms = [s["offset"] for s in sites if s["kind"] == "load" and s["live"] in ("yes", "swap")]
        assert arms == (["256", "260", "264"] if followed else []), (stage, sites)
        assert bool([s for s in sites if s["kind"] == "escape"]) == (not followed and "another jump" not in way), sites


def test_arms_of_compiled_switches(flow):
    """Of both compilers' switches: what the arms read by a register is a site, as far as its instruction has space."""
    arms = "".join(f"case {k}: return s.x{k % 8} * {k + 3} + f({k});\n" for k in range(20))
    fields = "".join(f"int x{k};" for k in range(8))
    source = flow.source(f"""#include <etch/imv.h>
        struct settings {{ char pad[400]; {fields} }};
        extern struct settings s; int f(int);
        int pick(int k, int n) {{ int t = s.x1 + s.x2; while (n--) t += f(s.x3 + t); if (t) switch (k) {{ {arms} }} return t; }}
        """, "arms.c")
    main = flow.source(f"""#include <etch/imv.h>
        #include <stdio.h>
        struct settings {{ char pad[400]; {fields} }};
        ETCHED struct settings s = {{ "", 1, 2, 3, 4, 5, 6, 7, 8 }};
        int pick(int k, int n), f(int); int f(int k) {{ return k % 5; }}
        int main(void) {{ int t = 0; for (int k = -1; k < 22; k++) t = t * 3 + pick(k, k + 1); printf("%d\\n", t); return 0; }}
        """, "main.c")
    exe = flow.link([flow.compile(p, ["-O2", "-fPIC"]) for p in (source, main)], [], "arms")
    want = run([exe]).stdout
    flow.rewrite(exe)
    assert run([exe]).stdout == want
    assert not [s for s in flow.sites(exe) if "differs" in s["live"] or s["kind"] == "escape"]
