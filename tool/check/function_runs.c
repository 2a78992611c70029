/* SPDX-License-Identifier: MIT */
/* Combines findings about runs of neighbouring functions, and recognizes the start-up functions of gcc and glibc. */
#include "check/function_runs.h"

#include <string.h>

void runs_report(struct subject *s, const char *id, const struct run_item *list, size_t count, run_text_fn *text)
{
	size_t i, k, step;
	char what[400];

	for (i = 0; i < count; i += step) {
		const struct elf_symbol *y = list[i].function;

		for (k = i + 1; k < count && list[k].place == list[k - 1].place + 1 && list[k].function->section == y->section;
		     k++)
			;
		step = k - i > RUN_MOST ? k - i : 1;
		text(&list[i], what, sizeof(what));
		if (step > 1)
			finding_add(&s->found, id, y->section, y->value, "%s; likewise the next %zu functions, up to %s", what,
			            step - 1, list[k - 1].function->name);
		else
			finding_add(&s->found, id, y->section, y->value, "%s", what);
	}
}

bool function_is_startup(const struct elf_symbol *y)
{
	static const char *const names[] = {"_init",
	                                    "_fini",
	                                    "_start",
	                                    "deregister_tm_clones",
	                                    "register_tm_clones",
	                                    "__do_global_dtors_aux",
	                                    "__do_global_ctors_aux",
	                                    "frame_dummy"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(y->name, names[i]))
			return true;
	return false;
}
