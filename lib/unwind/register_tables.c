/* SPDX-License-Identifier: MIT */
/*
 * register_tables.c: looks up register tables (etch/orc_registers.h). Walks do not need them, only callers that ask for
 * a register.
 *
 * It runs in signal context: no malloc, no lock, no thread-local storage, and of libc only memcpy.
 */
#define ETCH_CFI_DEPTH 8 /* as in recover.c */

#include <etch/orc_registers.h>

#include "shared/cfi.h"
#include "shared/search.h"
#include "unwind/recover.h"
#include "unwind/table_cache.h"
#include "unwind/table_copy.h"

static bool table_row(const struct etch_unwind *u, uint64_t size, uint64_t at, struct etch_cfi_row *out)
{
	static const uint8_t how[] = {ETCH_SAVE_OTHER, ETCH_SAVE_SAME, ETCH_SAVE_CFA, ETCH_SAVE_RBP, ETCH_SAVE_RSP};
	const struct etch_unwind *registers;
	struct etch_saves saves;

	if (!u || !etch_unwind_header_valid(u, size) || at - u->text >= u->text_size)
		return false;
	registers = etch_registers_behind(u, size);
	if (!registers)
		return false;
	memset(out, 0, sizeof(*out));
	out->start = at;
	out->end = at + 1;
	out->rule = *etch_block_find(u, at - u->text);
	etch_registers_find(registers, at - u->text, &saves);
	for (unsigned i = 0; i < 5; i++) {
		out->saves.how[i] = how[saves.how[i]];
		out->saves.off[i] = saves.at[i] * 8;
	}
	/* The table may be malformed: only its header has been validated. */
	return out->rule.kind == ETCH_RULE_CALL && etch_rule_valid(&out->rule);
}

bool registers_row(const struct prepare_image *im, uint64_t at, struct etch_cfi_row *out)
{
	const struct cached_table *e = cache_find(im);
	const struct etch_unwind *u = e ? e->table : NULL;
	uint64_t size = e ? e->size : 0;
	const struct table_copy *t;
	unsigned index;

	if (!u && im->kept) {
		t = table_copy_of(im);
		u = t ? table_copy_table(t) : NULL;
		size = u ? t->part[COPY_TABLE].size : 0;
	} else if (!u) {
		u = lookup_table(im, &index, &size);
	}
	return table_row(u, size, at - im->bias, out);
}

bool registers_target_row(const struct etch_target *target, uint64_t at, struct etch_cfi_row *out)
{
	const struct etch_target_module *t;
	size_t k = SEARCH(target->module_count, i, target->modules[i].end <= at);

	if (k == target->module_count)
		return false;
	t = &target->modules[k];
	return at >= t->start && table_row(t->table, t->size, at - t->bias, out);
}
