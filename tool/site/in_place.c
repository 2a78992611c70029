/* SPDX-License-Identifier: MIT */
/* Bakes and restores the sites of pv_call_inline. */
#include "site/in_place.h"
#include "site/linked.h"

#include <inttypes.h>
#include <string.h>

bool in_place_is_dropped(const struct elf_file *f, const struct inline_row *row)
{
	uint32_t s = elf_section_at(f, row->site);

	return !s || !(f->sections[s].sh.sh_flags & SHF_EXECINSTR);
}

static uint8_t *bytes_at(struct elf_file *f, const struct inline_row *row)
{
	return in_place_is_dropped(f, row) ? NULL : (uint8_t *)elf_at(f, row->site, ETCH_INLINE_LEN);
}

int in_place_unbake(struct elf_file *f, const struct linked_tables *t, struct error *e)
{
	size_t i;

	for (i = 0; i < t->inline_count; i++) {
		uint8_t *p = bytes_at(f, &t->inlines[i]);
		char where[200];

		if (!p)
			continue;
		if (etch_inline_state(p) < 0) {
			elf_describe(f, elf_section_at(f, t->inlines[i].site), t->inlines[i].site, where, sizeof(where));
			return error_set(e, "code and tables disagree at %s (%#" PRIx64 "): changed after etch rewrite?", where,
			                 t->inlines[i].site);
		}
		etch_inline_head(0, p);
	}
	return 0;
}

static int site_bake(const struct scan *s, struct elf_file *f, const struct targets *targets,
                     const struct inline_row *row, size_t *baked, struct error *e)
{
	uint8_t *p = bytes_at(f, row), nop[ETCH_INLINE_LEN];
	int32_t object = object_at(s, row->slot, false);
	struct insn in;
	uint64_t target;

	if (!p || object < 0 || !s->objects.list[object].armed || !etch_site_is_live(row->site, ETCH_INLINE_LEN) ||
	    !target_known(targets, row->slot, &target) || target != row->func)
		return 0;
	memcpy(nop, p, sizeof(nop));
	etch_inline_head(1, nop);
	if (!insn_decode(nop, sizeof(nop), row->site, &in) || in.len != sizeof(nop) || in.flow != FLOW_NEXT ||
	    !in.padding || !insn_same_length(nop, sizeof(nop), row->site))
		return error_set(e, "internal error: the decoders disagree on the nop at %#" PRIx64, row->site);
	memcpy(p, nop, ETCH_INLINE_HEAD);
	++*baked;
	return 0;
}

int in_place_bake(const struct scan *s, struct elf_file *f, const struct linked_tables *t, size_t *count, size_t *baked,
                  struct error *e)
{
	struct targets targets;
	size_t i;
	int err;

	*count = *baked = 0;
	if (!t->inline_count)
		return 0;
	err = targets_open(&targets, f, t, e);
	for (i = 0; i < t->inline_count && !err; i++) {
		*count += !in_place_is_dropped(f, &t->inlines[i]);
		err = site_bake(s, f, &targets, &t->inlines[i], baked, e);
	}
	targets_close(&targets);
	return err ? -1 : 0;
}
