/* SPDX-License-Identifier: MIT */
/*
 * Walks over a stack of which a part has gone since this thread was told that it can be
 * read: unwind MODE walk|reuse|step. MODE: plain, fault (etch_fault_init) or strict.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <etch/extable.h>
#include <etch/unwind.h>

#include "../check.h"

#define PAGE 4096
#define MOST 4096

/* A frame of this is a return address, after a call as the tables want it, and nothing else; rbp is what it was. */
void frame(void);
extern char frame_here[];
__asm__(".text\n\t.globl frame, frame_here\n\t.type frame, @function\n"
        "frame:\n\t.cfi_startproc\n\tcall frame\n"
        "frame_here:\n\tnop\n\tret\n\t.cfi_endproc\n\t.size frame, . - frame\n");

static struct etch_walk state;
static void *ips[MOST];

static int walk(const char *how, const ucontext_t *u, int *status)
{
	struct etch_cursor c;
	int n = 1;

	if (!strcmp(how, "walk"))
		return etch_backtrace_from(u, ips, MOST, status);
	if (!strcmp(how, "reuse"))
		return etch_backtrace_reuse(&state, u, ips, MOST, status);
	CHECK(!etch_cursor_init(&c, u));
	while (!(*status = etch_step(&c)))
		n++;
	return n;
}

int main(int argc, char **argv)
{
	int status, before, after;
	uintptr_t *stack;
	ucontext_t u;

	CHECK(argc == 3);
	/* Not next to anything: pages after it cannot be read. */
	stack = (uintptr_t *)((char *)mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 2 * PAGE);
	CHECK(!mprotect(stack, 4 * PAGE, PROT_READ | PROT_WRITE));
	for (unsigned i = 0; i < 4 * PAGE / 8; i++)
		stack[i] = (uintptr_t)frame_here;
	CHECK(!etch_unwind_prepare());
	if (!strcmp(argv[1], "fault"))
		CHECK(!etch_fault_init());
	if (!strcmp(argv[1], "strict"))
		etch_unwind_strict(1);
	getcontext(&u);
	u.uc_mcontext.gregs[REG_RIP] = (greg_t)frame_here;
	u.uc_mcontext.gregs[REG_RSP] = (greg_t)stack;
	before = walk(argv[2], &u, &status);
	CHECK(before == 4 * PAGE / 8 + 1 && status == ETCH_UNWIND_MEMORY);
	for (int i = 0; i < 3; i++) {
		CHECK(!mprotect((char *)stack + (3 - i) * PAGE, PAGE, PROT_NONE));
		after = walk(argv[2], &u, &status);
		/* Memory that is gone ends the walk, or is taken for a return address of 0. */
		CHECK(after >= (3 - i) * PAGE / 8 && after <= (3 - i) * PAGE / 8 + 2);
		CHECK(status == ETCH_UNWIND_MEMORY || status == ETCH_UNWIND_NOTABLE);
	}
	puts("done");
	return 0;
}
