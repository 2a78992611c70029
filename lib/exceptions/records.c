/* SPDX-License-Identifier: MIT */
/*
 * records.c: makes records from .eh_frame, and keeps them.
 *
 * RULES OF THIS FILE. Async-signal-safe: no malloc, no lock; of libc only memcpy and _dl_find_object. Memory is only
 * added: blocks of records stay, and an index that has become too small stays for threads that are reading it. If two
 * threads add a record of the same address at once, or an entry gets lost while the index is replaced, there are two
 * equal records.
 *
 * A module with a frame on the calling thread's stack is not unloaded during the call, so its memory is read where it
 * is. What has been kept from an earlier throw may belong to another file that was at the same place: record_open()
 * compares the build-id.
 */
/* An exception may be thrown on a small stack. Compilers need one or two states, of 250 bytes each. */
#define ETCH_CFI_DEPTH 2

#include <string.h>

#include "common/sys.h"
#include "exceptions/personalities.h"
#include "exceptions/file_places.h"
#include "exceptions/records.h"
#include "unwind/eh_view.h"

/* ---- memory ---------------------------------------------------------------------- */

#define FIRST_BITS 9u

/* A struct record_index: its shift, its mask, its slots. */
static uint32_t first_index[2 + (1u << FIRST_BITS)] = {64 - FIRST_BITS, (1u << FIRST_BITS) - 1};

static struct record first_block[RECORDS_FIRST] __attribute__((aligned(64)));

struct record_index *records_index = (struct record_index *)(void *)first_index;
struct record *records_block[RECORDS_BLOCKS] = {first_block};
static uint32_t records_count;

/* Makes a new record and sets its number; null without memory. */
static struct record *record_new(uint32_t *number)
{
	uint32_t n = __atomic_load_n(&records_count, __ATOMIC_RELAXED), block;
	struct record *none = NULL, *new;
	uint64_t size;

	do {
		block = 31u - (uint32_t)__builtin_clz(n / RECORDS_FIRST + 1);
		if (block >= RECORDS_BLOCKS)
			return NULL;
		if (!__atomic_load_n(&records_block[block], __ATOMIC_ACQUIRE)) {
			size = ((uint64_t)RECORDS_FIRST << block) * sizeof(struct record);
			new = sys_map(size, 0);
			if (!new)
				return NULL;
			if (!__atomic_compare_exchange_n(&records_block[block], &none, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				sys_munmap(new, size);
			none = NULL;
		}
	} while (!__atomic_compare_exchange_n(&records_count, &n, n + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	*number = n + 1;
	return record_numbered(n);
}

/* Adds the number of a record to an index. */
static void index_enter(struct record_index *index, uint64_t ip, uint32_t number)
{
	uint32_t i = record_slot(index, ip), none = 0;

	while (!__atomic_compare_exchange_n(&index->slot[i], &none, number, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
		i = (i + 1) & index->mask;
		none = 0;
	}
}

/* Makes an index of four times the size, with the contents of this one; null without memory. */
static struct record_index *index_grown(struct record_index *old)
{
	uint64_t slots = ((uint64_t)old->mask + 1) * 4, size = sizeof(*old) + 4 * slots;
	struct record_index *new, *now = old;
	uint32_t n;

	if (slots > (uint64_t)1 << 30)
		return NULL;
	new = sys_map(size, 0);
	if (!new)
		return NULL;
	new->shift = old->shift - 2;
	new->mask = (uint32_t)slots - 1;
	for (uint32_t i = 0; i <= old->mask; i++)
		if ((n = __atomic_load_n(&old->slot[i], __ATOMIC_ACQUIRE)))
			index_enter(new, record_numbered(n - 1)->ip, n);
	if (__atomic_compare_exchange_n(&records_index, &now, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return new;
	sys_munmap(new, size);
	return now;
}

/* Keeps a record; null if there is no memory. */
static const struct record *record_keep(const struct record *r)
{
	struct record_index *index = __atomic_load_n(&records_index, __ATOMIC_ACQUIRE);
	struct record *kept;
	uint32_t number;

	/* If several threads come here at once, the count may exceed this limit by their number; the index is still far
	 * from full. */
	if (__atomic_load_n(&records_count, __ATOMIC_RELAXED) > index->mask / 2)
		index = index_grown(index);
	kept = index ? record_new(&number) : NULL;
	if (!kept)
		return NULL;
	*kept = *r;
	index_enter(index, r->ip, number);
	return kept;
}

/* ---- making ------------------------------------------------------------------------ */

/* The register in the order of enum frame_register; 255 if it is another register. */
static unsigned frame_register_of(unsigned reg)
{
	switch (reg) {
	case ETCH_RBX: return FRAME_RBX;
	case ETCH_RBP: return FRAME_RBP;
	case ETCH_RSP: return FRAME_RSP;
	case ETCH_R12: return FRAME_R12;
	case ETCH_R13: return FRAME_R13;
	case ETCH_R14: return FRAME_R14;
	case ETCH_R15: return FRAME_R15;
	default: return 255;
	}
}

/* Notes where a register is saved. False if a record cannot express it. */
static bool save_take(struct record *r, unsigned reg, uint8_t how, int32_t off)
{
	uint8_t from = how == ETCH_BP_RBP ? RECORD_FROM_RBP : 0;

	if (how == ETCH_BP_SAME)
		return true;
	if ((how != ETCH_BP_CFA && how != ETCH_BP_RBP) || (off & 7) || off / 8 != (int16_t)(off / 8))
		return false;
	if (r->saved && (r->flags & RECORD_FROM_RBP) != from)
		return false;
	r->flags |= from;
	r->saved |= (uint8_t)(1u << reg);
	r->slot[reg] = (int16_t)(off / 8);
	return true;
}

/* Notes how the caller's frame is found. False if a record cannot express it. */
static bool rule_take(struct record *r, const struct etch_cfi_row *row)
{
	static const uint8_t saved[5] = {FRAME_RBX, FRAME_R12, FRAME_R13, FRAME_R14, FRAME_R15};
	const struct etch_rule *rule = &row->rule;
	unsigned base = frame_register_of(rule->cfa & 15);

	if (row->why || rule->kind != ETCH_RULE_CALL || rule->ra != ETCH_RA_CFA || (rule->cfa & ETCH_CFA_INDEX) ||
	    base == 255 || row->args_size > RECORD_ARGS_SIZE || row->is_result_saved)
		return false;
	r->base = (uint8_t)base;
	r->cfa_off = rule->cfa_off;
	r->args_size = (uint16_t)row->args_size;
	if (rule->cfa & ETCH_CFA_DEREF) {
		r->flags |= RECORD_DEREF;
		r->cfa_add = (int16_t)rule->cfa_add;
		if (r->cfa_add != rule->cfa_add)
			return false;
	}
	for (unsigned i = 0; i < 5; i++)
		if (!save_take(r, saved[i], row->saves.how[i], row->saves.off[i]))
			return false;
	return save_take(r, FRAME_RBP, rule->bp, rule->bp_off);
}

static bool delta_take(int32_t *delta, uint64_t ip, uint64_t to)
{
	*delta = (int32_t)(to - ip);
	return *delta == (int64_t)(to - ip);
}

/* Notes what the language's tables say about the call. */
static bool site_take(struct record *r, const struct prepare_image *im, const struct etch_fde *fde)
{
	const struct etch_cie *cie = &fde->cie;
	uint64_t at = im->bias + cie->personality, lsda = fde->lsda ? im->bias + fde->lsda : 0, landing;
	struct call_site_table table;
	enum call_site site;

	if (!delta_take(&r->start, r->ip, im->bias + fde->start))
		return false;
	/* The address of the table is stored elsewhere. */
	if (cie->lsda_encoding != ETCH_PE_OMIT && (cie->lsda_encoding & ETCH_PE_INDIRECT))
		return false;
	if (lsda && (!loaded_inside(im, lsda, 4) || !delta_take(&r->lsda, r->ip, lsda)))
		return false;
	if (lsda)
		r->flags |= RECORD_LSDA;
	if (!cie->personality) {
		r->site = SITE_NONE;
		return true;
	}
	if (!loaded_inside(im, at, 8))
		return false;
	r->personality = (uint16_t)personality_enter(at, cie->personality_indirect);
	if (!r->personality)
		return false;
	table = (struct call_site_table){lsda, im->bias + fde->start, fde->end - fde->start, im->end};
	site = call_site_read((enum language)personalities[r->personality].language, &table, r->ip, &landing);
	r->site = (uint8_t)site;
	return site != SITE_DAMAGED && (site == SITE_ASK || !landing || delta_take(&r->landing, r->ip, landing));
}

/* The address in memory of the function of an entry of .eh_frame_hdr's table; libgcc compares these. */
static uint64_t entry_start(struct eh_view *v, uint64_t i) { return v->im->bias + eh_view_start(v, i); }

/* Finds the entry of the table that libgcc takes for an address, by the same steps, because a damaged table need not
 * be sorted. */
static bool entry_find(struct eh_view *v, uint64_t at, uint64_t *entry)
{
	uint64_t lo = 0, hi = v->h.count - 1, mid = hi;

	if (!v->h.count || at < entry_start(v, 0))
		return false;
	if (at < entry_start(v, hi)) {
		while (lo < hi) {
			mid = lo + (hi - lo) / 2;
			if (at < entry_start(v, mid))
				hi = mid;
			else if (at >= entry_start(v, mid + 1))
				lo = mid + 1;
			else
				break;
		}
		if (lo >= hi)
			return false;
	}
	*entry = mid;
	return true;
}

/* Finds the FDE that libgcc takes for an address. False if there is none, or one that this library and libgcc might
 * read differently. */
static bool fde_find(struct eh_view *v, const struct prepare_image *im, uint64_t at, struct etch_fde *fde)
{
	uint64_t entry;

	if (!eh_view_open(v, im))
		return false;
	/* libgcc takes the start in the table for the function's start, and reads the length as a signed number. */
	if (entry_find(v, at, &entry) && eh_view_fde(v, entry, fde) && fde->start == eh_view_start(v, entry) &&
	    at - im->bias < fde->end && fde->end - fde->start <= INT32_MAX)
		return true;
	eh_view_close(v);
	return false;
}

/* Fills in the zeroed record of r->ip. False if a record cannot express what .eh_frame says. */
static bool record_make(struct record *r, const struct prepare_image *im)
{
	uint64_t ip = r->ip;
	struct etch_cfi_row row;
	struct etch_fde fde;
	struct eh_view v;

	if (!fde_find(&v, im, ip - 1, &fde))
		return false;
	row = etch_cfi_row_at(&fde, ETCH_CFI_SAVES | ETCH_CFI_ARGS_SIZE, ip - 1 - im->bias);
	eh_view_close(&v);
	return !fde.cie.signal && rule_take(r, &row) && site_take(r, im, &fde);
}

/* The record of an address in a module with this number. */
static const struct record *record_of(uint64_t ip, uint32_t module)
{
	const struct record_index *index = __atomic_load_n(&records_index, __ATOMIC_ACQUIRE);
	uint32_t n;

	for (uint32_t i = record_slot(index, ip); (n = __atomic_load_n(&index->slot[i], __ATOMIC_ACQUIRE));
	     i = (i + 1) & index->mask) {
		const struct record *r = record_numbered(n - 1);

		if (r->ip == ip && r->module == module)
			return r;
	}
	return NULL;
}

/* No record is kept for an address outside all modules, where a JIT's code comes and goes. */
const struct record *record_open(struct records_view *v, uint64_t ip)
{
	const struct record *found = record_find(ip);
	struct prepare_image im;
	struct record r;
	uint32_t module = 0;

	if (found && found->module && place_is(found->module, ip - 1)) {
		v->module = found->module;
		return found;
	}
	if (!v->asked)
		loaded_forget();
	v->asked = 1;
	if (!loaded_image(ip - 1, &im))
		return NULL;
	if (!loaded_is_permanent(&im)) {
		module = place_number(&im);
		if (!module)
			return NULL;
		v->module = module;
	}
	found = record_of(ip, module);
	if (found)
		return found;
	memset(&r, 0, sizeof(r));
	r.ip = ip;
	if (!record_make(&r, &im)) {
		memset(&r, 0, sizeof(r));
		r.ip = ip;
		r.base = RECORD_ODD;
	}
	r.module = (uint16_t)module;
	return record_keep(&r);
}
