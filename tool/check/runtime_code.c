/* SPDX-License-Identifier: MIT */
/* Finds the code of language runtimes whose conventions explain findings, using the table of analysis/runtimes. */
#include "analysis/runtimes/runtimes.h"
#include "check/check.h"
#include "shared/search.h"

#include <string.h>

bool runtime_explains(const struct finding *f)
{
	static const char *const ids[] = {"ETCH-C001", "ETCH-F001", "ETCH-F004", "ETCH-S001",
	                                  "ETCH-S002", "ETCH-S005", "ETCH-S006", "ETCH-S007"};
	size_t i;

	for (i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (!strcmp(f->id, ids[i]))
			return true;
	return false;
}

int subject_runtimes(const struct subject *s, struct runtime_codes *out, struct error *e)
{
	return runtimes_detect(s->file, &s->frames.space, false, out, e);
}

const struct runtime *runtime_at(const struct runtime_codes *r, uint64_t addr)
{
	size_t k = SEARCH(r->count, i, r->list[i].start <= addr);

	while (k && r->list[k - 1].framed) /* it lies inside of other code */
		k--;
	return k && addr < r->list[k - 1].end ? r->list[k - 1].runtime : NULL;
}
