/* SPDX-License-Identifier: MIT */
/* Says why stacks are incomplete (writers.h). */
#include "profile/writers.h"

#include <inttypes.h>

#include "report/text.h"

#define FILES_SHOWN 3

/* Could `etch rewrite` make rules for the code of this file that this profile lacked? It could not if the rules already
 * came from an analysis. */
static bool rewrite_may_help(const struct binary *b, bool in_process)
{
	if (b->kind != BINARY_FILE)
		return false;
	return b->table_from == TABLE_EH_FRAME || b->table_from == TABLE_NONE || b->table_from == TABLE_UNASKED ||
	       (in_process && b->table_from == TABLE_ANALYSED);
}

/* Finds the files in whose code walks ended for this reason: at most `most` numbers, each once. */
static size_t files_find(const struct profile *p, enum stop s, bool in_process, size_t most, uint32_t *files)
{
	size_t count = 0, k;

	for (size_t i = 1; i < p->stacks.count && count < most; i++) {
		const struct key *caller = &p->stacks.list[key_caller(&p->stacks.list[i])];
		uint32_t binary = key_kind(&p->stacks.list[i]);

		if (key_kind(caller) != STACK_STOP || caller->b != s || binary >= p->binaries.count ||
		    !rewrite_may_help(p->binaries.list[binary], in_process))
			continue;
		for (k = 0; k < count && files[k] != binary; k++)
			;
		if (k == count)
			files[count++] = binary;
	}
	return count;
}

static void advice_put(const struct profile *p, enum stop s, bool in_process, FILE *out)
{
	uint32_t files[FILES_SHOWN];
	size_t count;

	if (s == STOP_COPY && p->stack < PERF_STACK_MOST / 8 * 8)
		fputs(" (use a larger --stack)", out);
	if (s != STOP_CODE && s != STOP_NO_RULE && s != STOP_NO_TABLE)
		return;
	count = files_find(p, s, in_process, FILES_SHOWN, files);
	if (count) {
		fputs(" (it can be made from the code: etch rewrite", out);
		for (size_t i = 0; i < count; i++) {
			putc(' ', out);
			text_clean(out, p->binaries.list[files[i]]->path);
		}
		putc(')', out);
	} else if (!p->frame_pointers && (s == STOP_CODE || !in_process)) {
		fputs(" (try --frame-pointers)", out);
	}
}

void stop_lines_put(const struct profile *p, bool in_process, FILE *out)
{
	for (int i = 0; i < STOP_COUNT; i++) {
		if (i == STOP_END || !p->stops[i] || (in_process && i == STOP_NO_SPACE))
			continue;
		fprintf(out, "%" PRIu64 " stack%s incomplete: %s", p->stops[i], p->stops[i] == 1 ? " is" : "s are",
		        stop_text((enum stop)i));
		advice_put(p, (enum stop)i, in_process, out);
		putc('\n', out);
	}
}
