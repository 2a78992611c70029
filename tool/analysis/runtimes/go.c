/* SPDX-License-Identifier: MIT */
/* Go. Its linker writes a table of all functions, which have no .eh_frame and often no symbols. */
#include <stdlib.h>
#include <string.h>

#include "analysis/runtimes/columns.h"
#include "elf/pclntab.h"

/*
 * mcall switches to the thread's stack as the scheduler left it, and does not return, so the function that it calls is
 * the outermost frame there. (morestack and systemstack also switch stacks, but the frame of their caller is on another
 * stack, which no rule can express.)
 */
static bool begins_stack(const char *function) { return !strcmp(function, "runtime.mcall"); }

/* morestack has no return: it jumps back to its caller after it has moved to a larger stack. */
static bool resumes(const char *function) { return !strcmp(function, "runtime.morestack"); }

const struct convention convention_go = {
	.keeps_none = true, .keeps_rbp = true, .jumps_by_any = true, .begins_stack = begins_stack, .resumes = resumes};

int go_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e)
{
	struct go_function *list = NULL;
	long n = go_functions_read(f, &list, e), i;

	(void)space;
	for (i = 0; i < n; i++)
		runtime_code_add(out, (struct runtime_code){.start = list[i].start,
		                                            .end = list[i].end,
		                                            .listed = true,
		                                            .function = list[i].name,
		                                            .outermost = list[i].top});
	free(list);
	return n < 0 ? -1 : 0;
}
