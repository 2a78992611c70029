# SPDX-License-Identifier: MIT
"""What a parser of a configuration stores before etch_sync keeps no field from being armed by it, even where nobody knows
which bytes: by the code, if it shows that the parser does not run later; by ETCH_INIT, if only the program knows."""
import re

import pytest

from conftest import Flow, run

PROGRAM = """
#include <etch/imv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct g { int maxconn, mode, a, b, c; unsigned req_count; } ;
ETCHED struct g g = { .maxconn = 10 };
int helper_calls;
__attribute__((noinline)) static void helper(int *t, int v) { helper_calls++; *t = v; }
INIT __attribute__((noinline)) void parse(const char *k, int v)
{
	int *t;
	if (!strcmp(k, "a")) t = &g.a;
	else if (!strcmp(k, "b")) t = &g.b;
	else if (!strcmp(k, "c")) t = &g.c;
	else return;
	if (*t) { puts("twice"); return; }
	*t = v;
	HELP
}
struct { const char *name; void (*parse)(const char *, int); } keywords[] = { { "a", parse }, { "c", parse } };
__attribute__((noinline)) int work(int x) { g.req_count++; return x < g.maxconn ? g.mode + g.a + g.c : 7; }
int main(int argc, char **argv)
{
	g.maxconn = 5;
	START
	int err = etch_sync(&g, sizeof g);
	LATER
	printf("%d %d %ld\\n", err, work(argc), etch_verify(0, 0));
	return 0;
}
"""
TABLE = "for (int i = 0; i < 2; i++) keywords[i].parse(argc > 5 ? argv[1] : keywords[i].name, i + 1);"
DIRECT = '(void)keywords[argc - 1].name; parse("a", 1); parse("c", 2);'
WITHOUT_TABLE = "static struct { const char *name; } keywords[1];"


def armed(flow, init, start, later="", table=True):
    text = PROGRAM.replace("INIT", init).replace("HELP", "helper(&g.mode, v + 1);" if table else "").replace("START", start).replace("LATER", later)
    if not table:
        text = "\n".join(WITHOUT_TABLE if "keywords[]" in line else line for line in text.splitlines())
    exe = flow.program(text, "plain", ["-O2", "-g", "-w"])
    if table:  # the object step does not know how many arguments puts() has, and leaves a fact of a register left over
        exe = flow.program(text, "linked", ["-O2", "-g", "-w"])
    else:
        flow.rewrite(exe)
    return exe, {r["field"]: r["armed"] for r in flow.inspect("fields", exe)["fields"]}


@pytest.mark.parametrize("how", ["code", "word"])
def test_a_parser_that_only_runs_before(flow, how):
    exe, f = armed(flow, "", DIRECT, table=False) if how == "code" else armed(flow, "ETCH_INIT", TABLE)
    wanted = ["maxconn", "a", "c"] + (["mode"] if how == "word" else [])
    assert {f.get(n) for n in wanted} == {"by etch_sync"} and f["req_count"] == "no", f
    assert run([exe]).stdout == ("0 3 0\n" if how == "code" else "0 6 0\n")


@pytest.mark.parametrize("how", ["table", "later"])
def test_a_parser_that_may_run_later(flow, how):
    _, f = armed(flow, "", TABLE) if how == "table" else armed(flow, "", DIRECT, 'parse("b", 3);', table=False)
    stored = ("a", "b", "c", "mode") if how == "table" else ("a", "b", "c")
    assert not {"yes", "by etch_sync"} & {f.get(n) for n in (*stored, None)}, f


ONCE = """
#include <etch/imv.h>
#include <stdio.h>
struct g { int a, b; };
ETCHED struct g g = { .a = 1 };
MARK __attribute__((noinline)) static void store(void) { g.b++; }
void (*volatile pointer)(void)POINTER;
__attribute__((noinline)) int work(int x) { return x < 5 ? g.a + g.b : g.b; }
int main(void)
{
	g.a = 5;
	CALL
	int err = etch_sync(&g, sizeof g);
	if (pointer) pointer();
	printf("%d %d %ld\\n", err, work(1), etch_verify(0, 0));
	return 0;
}
"""


@pytest.mark.parametrize("mark,pointer,call,later", [
    ("", " = store", "", True),                                # one pointer to it, outside of a table of constructors
    ("__attribute__((constructor))", " = store", "", True),    # in a table of constructors, and in a pointer
    ("__attribute__((constructor))", "", "", False),           # in a table of constructors alone
    ("", "", "store();", False),
])
def test_a_function_of_which_data_holds_the_address(flow, mark, pointer, call, later):
    text = ONCE.replace("MARK", mark).replace("POINTER", pointer).replace("CALL", call)
    exe = flow.program(text, "plain", ["-O2", "-g", "-w"])
    flow.rewrite(exe)
    f = {r["field"]: r["armed"] for r in flow.inspect("fields", exe)["fields"]}
    assert set(f.values()) == {"guarded" if later else "by etch_sync"}, f  # in one row, whose members have one answer
    assert run([exe]).stdout.endswith(" 0\n")


def test_a_function_named_to_the_tool(tmp_path, build):
    """--init FUNC says the same as ETCH_INIT, for a program that cannot be changed; it stays in later runs, and goes with --undo."""
    flow = Flow(tmp_path, build)
    text = PROGRAM.replace("INIT", "").replace("HELP", "helper(&g.mode, v + 1);").replace("START", TABLE).replace("LATER", "")
    exe = flow.program(text, "plain", ["-O2", "-g", "-w"])
    plain = exe.read_bytes()
    flow.rewrite(exe)
    before = armed_fields(flow, exe)
    assert {before.get(n) for n in ("mode", "a", "c")} == {"no"}, before
    flow.rewrite(exe, args=["--init", "parse"])
    once, f = exe.read_bytes(), armed_fields(flow, exe)
    assert {f.get(n) for n in ("maxconn", "mode", "a", "c")} == {"by etch_sync"} and f["req_count"] == "no", f
    assert run([exe]).stdout == "0 6 0\n"
    for args in ([], ["--init", "parse"]):
        flow.rewrite(exe, args=args)
        assert exe.read_bytes() == once
    flow.rewrite(exe, args=["--undo"])
    assert exe.read_bytes() == plain
    p = flow.rewrite(exe, args=["--init", "parse", "--init", "parser"], ok=2)
    assert re.fullmatch(r"etch: \S+: --init parser: it has no function of this name \(has the compiler inlined it\?\)\n", p.stderr), p.stderr
    assert exe.read_bytes() == plain
    run(["strip", exe])
    p = flow.rewrite(exe, args=["--init", "parse"], ok=2)
    assert "since it has no symbol table" in p.stderr, p.stderr


def armed_fields(flow, exe):
    return {r["field"]: r["armed"] for r in flow.inspect("fields", exe)["fields"]}


ENDS = """
#include <etch/imv.h>
#include <stdio.h>
#include <stdlib.h>
struct g { int maxconn, mode; unsigned req_count; };
ETCHED struct g g = { .maxconn = 10 };
int late(void);
int late(void) { return etch_sync(&g, sizeof g); }
int work(int x);
__attribute__((noinline)) int work(int x) { g.req_count++; return x + g.maxconn + g.mode; }
__attribute__((noinline)) void ends(int n);
void ends(int n) { printf("ends %d\\n", n); BODY }
int start(int n);
int main(int argc, char **argv) { printf("%d\\n", start(argc)); return 0; }
"""
# The start-up part of a function stands after a call that does not return, so that only its return would lead there again.
ENDS_ASM = """
	.text
	.globl start
	.type start, @function
start:
	push %rbx
	mov %edi, %ebx
	jmp 2f
1:	call late
	test %eax, %eax
	jne 3f
	mov %ebx, %edi
	call work
	pop %rbx
	ret
3:	mov $2, %edi
	call CALLEE
2:	movl $7, g+4(%rip)
	jmp 1b
	.size start, . - start
	.section .note.GNU-stack,"",@progbits
"""


@pytest.mark.parametrize("callee, body, ends", [
    ("exit@PLT", "", True), ("abort@PLT", "", True), ("*exit@GOTPCREL(%rip)", "", True), ("ends", "exit(n);", True),
    ("ends", "if (n > 5) abort(); puts(\"no\"); exit(n);", True), ("ends", "while (n--) puts(\"on\");", False), ("ends", "if (n > 5) abort();", False),
    ("ends", "int (*volatile f)(const char *) = puts; f(\"tail\");", False), ("puts@PLT", "", False)])
def test_what_stands_behind_a_call_that_does_not_return(flow, callee, body, ends):
    main = flow.compile(flow.source(ENDS.replace("BODY", body), "main.c"), ["-O2", "-g", "-w"])
    (flow.tmp / "start.s").write_text(ENDS_ASM.replace("CALLEE", callee))
    run(["gcc", "-c", "-o", flow.tmp / "start.o", flow.tmp / "start.s"])
    exe = flow.link([main, flow.tmp / "start.o"], [], "ends")
    flow.rewrite(exe)
    f = {r["field"]: r["armed"] for r in flow.inspect("fields", exe)["fields"]}
    assert f["mode"] == ("by etch_sync" if ends else "no") and f["req_count"] == "no", f
    assert run([exe]).stdout == "18\n"
