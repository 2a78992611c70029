/* SPDX-License-Identifier: MIT */
/*
 * cfi_map.c: a module without a table. No table is made of its .eh_frame. Instead, when a walk meets a return address
 * in a granule of code, the rules of the granule's calls are read and kept as a byte of a return-address map; the
 * next walk steps by it as it would by a table's map. Rules that the map cannot express are read at each step
 * (fallback.c).
 *
 * RULES OF THIS FILE. Except for in_place_open(), which maps memory, all of it runs in signal context, on a thread
 * stopped anywhere: no malloc, no lock, no thread-local storage, and of libc only memcpy and memset. Do not introduce
 * any dependency there.
 *
 * Walks store single bytes and words that were zero before, and every thread would store the same values: a granule's
 * byte follows from the file, except for the numbers of the palette, each of which is assigned once.
 */
#define ETCH_CFI_DEPTH 8 /* as in recover.c */

#include "common/sys.h"
#include "shared/search.h"
#include "unwind/calls.h"
#include "unwind/cursor.h"
#include "unwind/eh_view.h"
#include "unwind/plain_frames.h"
#include "unwind/table_cache.h"

#define SHIFT   6u
#define GRANULE ((uint64_t)1 << SHIFT)

/* ---- making ---------------------------------------------------------------------- */

bool in_place_open(const struct prepare_image *im, struct in_place_map *map, struct in_place *in,
                   struct unwind_module *m)
{
	struct etch_cfi_hdr h;
	struct etch_cfi cfi;
	uint64_t lo, hi;

	if (!eh_text(im, &lo, &hi) || !eh_frame_open(im, &h, &cfi) || !h.count)
		return false;
	if (!map && calls_can_be_read(im)) {
		map = sys_map(sizeof(*map) + ((hi - lo) >> SHIFT) + 1, MAP_NORESERVE);
		if (!map)
			return false;
	}
	*in = (struct in_place){.im = *im, .key = fallback_key(im), .map = map};
	m->text = im->bias + lo;
	m->text_size = hi - lo;
	m->encoding = MODULE_IN_PLACE;
	m->in_place = in;
	m->by = PLAIN_FULL;
	if (!map)
		return true;
	m->by = PLAIN_MAP_6_OPEN;
	m->map = (uint64_t)(uintptr_t)map->bytes - (m->text >> SHIFT);
	m->block.map_palette = map->palette;
	m->block.map_codes = ETCH_MAP_CODES;
	return true;
}

int in_place_add(const struct prepare_image *im, const struct identity *id)
{
	const struct cached_table *same = cache_find_file(id);
	struct cached_table *e = cache_new(im, id);

	if (!e || !in_place_open(im, same ? same->in_place.map : NULL, &e->in_place, &e->module))
		return 0;
	cache_publish(e);
	return 1;
}

/* ---- a granule ------------------------------------------------------------------- */

/* Collects the rules of the calls that return into a granule. All addresses are link-time addresses. */
struct granule {
	uint64_t at;
	uint64_t calls; /* bit i: a call ends at at + i */
	uint64_t found; /* bit i: the call that ends at at + i has a rule */
	struct etch_map_rule rule;
	bool mixed;
	bool gone; /* the module could not be read any more */
};

static void calls_find(const struct prepare_image *im, uint64_t text, uint64_t size, struct granule *g)
{
	for (unsigned i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint8_t copy[GRANULE + 64];
		const uint8_t *code = (const uint8_t *)(uintptr_t)(im->bias + p->p_vaddr);
		uint64_t at = g->at - CALL_MAX > p->p_vaddr ? g->at - CALL_MAX - p->p_vaddr : 0,
				 end = g->at + GRANULE - p->p_vaddr;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || g->at + GRANULE <= p->p_vaddr ||
		    !loaded_inside(im, im->bias + p->p_vaddr, p->p_filesz))
			continue;
		end = end < p->p_filesz ? end : p->p_filesz;
		if (im->kept && at < end) {
			/* The copy includes one byte before the code, and after it as many bytes as a call that begins at its
			 * last byte needs. */
			uint64_t first = at ? at - 1 : 0;

			if (!eh_code_copy(im, p->p_vaddr + first, copy, sizeof(copy))) {
				g->mixed = true;
				return;
			}
			code = (const uint8_t *)((uintptr_t)copy - first);
		}
		for (; at < end; at += 16) {
			unsigned maybe = calls_maybe(code + at, p->p_filesz - at), n;

			for (; maybe; maybe &= maybe - 1) {
				uint64_t from = at + (unsigned)__builtin_ctz(maybe), back;

				n = call_length(size, code + from, p->p_filesz - from, p->p_vaddr - text + from,
				                from && code[from - 1] == 0x67);
				back = p->p_vaddr + from + n - g->at;
				if (n && back < GRANULE)
					g->calls |= (uint64_t)1 << back;
			}
		}
	}
}

static void granule_note(struct granule *g, uint64_t calls, const struct etch_rule *r)
{
	struct etch_map_rule packed;

	if (!etch_map_rule_pack(r, &packed) || (g->found && memcmp(&packed, &g->rule, sizeof(packed))))
		g->mixed = true;
	g->rule = packed;
	g->found |= calls;
}

/* A row is looked up at the byte before the return address. Two kinds of return addresses were pushed by no call: a
 * signal's restorer, and the first address of a thread or a context, which is looked up in the row after it. */
static void granule_row(void *ctx, const struct etch_cfi_row *row)
{
	struct granule *g = ctx;
	uint64_t from = row->start + 1 > g->at ? row->start + 1 - g->at : 0, to = row->end - g->at, calls;

	if (row->end < g->at || row->start > g->at + GRANULE)
		return;
	if (row->rule.kind == ETCH_RULE_SIGNAL || row->rule.kind == ETCH_RULE_END)
		g->mixed = true;
	if (from >= GRANULE)
		return;
	calls = g->calls & ~(uint64_t)0 << from & (to >= GRANULE - 1 ? ~(uint64_t)0 : ((uint64_t)2 << to) - 1);
	if (calls)
		granule_note(g, calls, &row->rule);
}

/* As in prepare.c, the one of overlapping FDEs that starts last wins; of two with the same start, the first wins. */
static void rules_find(const struct prepare_image *im, struct granule *g)
{
	uint64_t limit = UINT64_MAX;
	struct etch_fde fde;
	struct eh_view v;
	size_t k;

	if (!eh_view_open(&v, im)) {
		g->gone = v.gone;
		return;
	}
	k = SEARCH(v.h.count, i, eh_view_start(&v, i) <= g->at + GRANULE);
	while (k-- && !g->mixed && !v.gone && limit >= g->at) {
		if ((k && eh_view_start(&v, k - 1) == eh_view_start(&v, k)) || !eh_view_fde(&v, k, &fde) ||
		    fde.end <= fde.start)
			continue;
		g->mixed = fde.start >= g->at && fde.start <= g->at + GRANULE && eh_view_discards_stack(im, fde.start);
		if (fde.end > limit)
			fde.end = limit;
		limit = fde.start;
		if (fde.end > g->at + GRANULE + 1)
			fde.end = g->at + GRANULE + 1; /* later rows are not needed */
		etch_cfi_rows_from(&fde, 0, g->at - 1, granule_row, g);
	}
	g->gone = v.gone;
	eh_view_close(&v);
}

/* The number of a rule in the palette; a new rule is added if the palette is not full. ETCH_MAP_FULL if it is. */
static unsigned palette_add(struct in_place_map *map, const struct etch_map_rule *rule)
{
	uint64_t want, was;

	memcpy(&want, rule, sizeof(want));
	if (!want)
		return ETCH_MAP_FULL;
	for (unsigned i = 0; i < ETCH_MAP_CODES - ETCH_MAP_STEPS; i++) {
		uint64_t *slot = (uint64_t *)(void *)&map->palette[i];

		was = __atomic_load_n(slot, __ATOMIC_RELAXED);
		if (was == want ||
		    (!was &&
		     (__atomic_compare_exchange_n(slot, &was, want, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) || was == want)))
			return ETCH_MAP_STEPS + i;
	}
	return ETCH_MAP_FULL;
}

void in_place_meet(const struct unwind_module *m, uint64_t ip)
{
	const struct in_place *in = m->in_place;
	uint64_t text = m->text - in->im.bias, offset = ip - m->text;
	struct granule g = {.at = text + (offset & -GRANULE), .calls = (uint64_t)1 << (offset & (GRANULE - 1))};
	uint8_t *byte = &in->map->bytes[offset >> SHIFT];
	unsigned code = ETCH_MAP_FULL;

	if (__atomic_load_n(byte, __ATOMIC_RELAXED))
		return;
	calls_find(&in->im, text, m->text_size, &g);
	rules_find(&in->im, &g);
	if (!g.mixed && g.calls == g.found) {
		code = etch_map_step(&g.rule);
		if (code == ETCH_MAP_FULL || !code)
			code = palette_add(in->map, &g.rule);
	}
	/* Were the code and .eh_frame that have been read those of this module, or was it unloaded in the meantime? */
	if (in->im.kept && (g.gone || !loaded_still(&in->im)))
		return;
	__atomic_store_n(byte, (uint8_t)code, __ATOMIC_RELEASE);
}

/* ---- a step ---------------------------------------------------------------------- */

NO_ASAN int in_place_step(struct plain *p, struct frame *f, bool returned)
{
	const struct in_place *in = p->m->in_place;
	struct etch_rule r;

	if (f->ip - 1 - p->m->text >= p->m->text_size || !fallback_rule(&in->im, in->key, f->ip - 1, &r))
		return 0;
	if (returned)
		in_place_meet(p->m, f->ip);
	p->ended = r.kind == ETCH_RULE_END && etch_rule_valid(&r);
	return fallback_move(&p->window, f, &r);
}
