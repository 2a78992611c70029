/* SPDX-License-Identifier: MIT */
/*
 * Encodes rows as SFrame. An FDE need not be a function: it can be any range of code without a gap. So the rows between
 * two gaps are divided into FDEs so that the section becomes as small as possible. An FDE has at most FDE_ROWS rows,
 * since a lookup has to scan all of them.
 */
#include "table/sframe.h"

#include "support/memory.h"

#include <etch/orc_rule.h>
#include <stdlib.h>
#include <string.h>

#define FDE_ROWS    32
#define REPEATS_MIN 4  /* a block of the PLT that is repeated at least this often becomes an FDE of its own */
#define BLOCK       16 /* size of a PLT entry in bytes */
#define BLOCK_ROWS  4

/* A row in the form in which it is encoded: an FRE, except for its address. */
struct item {
	uint64_t addr;
	bool gap, flex, signal;
	uint8_t info;
	uint8_t count; /* number of words; each word of a row has 1 << log2 bytes */
	uint8_t log2;
	uint8_t zero[2]; /* explicit padding, since rows are compared as bytes */
	int32_t word[6];
};

/* The state of encoding. */
struct writer {
	unsigned version;
	bool placed;
	struct item *items; /* the last one is a gap */
	size_t count, capacity;
	/* For the first k rows of a run: size of the best encoding, and (in `rows`) number of rows in its last FDE. */
	uint32_t *cost;
	uint8_t *rows;
	struct sframe *out;
	uint8_t *fres; /* contents of the FRE part */
	size_t fre_size, fre_capacity, fde_capacity, start_capacity;
	/* Contents of the table of FDEs. */
	uint8_t *fde;
};

/* ---- rules -------------------------------------------------------------------- */

/* Returns the log2 of the word size that all words of a row fit. Control words are unsigned in the format, but below
 * 128 for all registers that are used here. */
static uint8_t word_log2(const struct item *it)
{
	uint8_t log2 = 0;
	unsigned i;

	for (i = 0; i < it->count; i++) {
		if (it->word[i] != (int8_t)it->word[i] && log2 < 1)
			log2 = 1;
		if (it->word[i] != (int16_t)it->word[i])
			log2 = 2;
	}
	return log2;
}

static void word_add(struct item *it, int32_t word) { it->word[it->count++] = word; }

static void pair_add(struct item *it, uint8_t reg, unsigned flags, int32_t off)
{
	word_add(it, sframe_register(reg) << 3 | (int32_t)flags);
	word_add(it, off);
}

/*
 * Writes a rule as the words of a row in a default FDE: the CFA is relative to rsp or rbp, the return address is at CFA
 * - 8, and rbp is at an offset from the CFA. A row without words has an undefined return address, and is the outermost
 * frame. In version 2, no such row is written, as in files of GNU as up to 2.45: glibc 2.44 takes one for an error and
 * drops the whole stack. If rbp is 0, it ends the stack at code without a row. Returns false if the rule does not
 * fit.
 */
static bool default_encode(const struct etch_rule *r, unsigned version, struct item *it)
{
	if (r->kind == ETCH_RULE_END)
		return version >= 3;
	if (r->kind != ETCH_RULE_CALL || (r->cfa != ETCH_REG_RSP && r->cfa != ETCH_REG_RBP) || r->ra != ETCH_RA_CFA ||
	    (r->bp != ETCH_BP_SAME && r->bp != ETCH_BP_CFA))
		return false;
	it->info = r->cfa == ETCH_REG_RSP ? SFRAME_BASE_SP : SFRAME_BASE_FP;
	word_add(it, r->cfa_off);
	if (r->bp == ETCH_BP_CFA)
		word_add(it, r->bp_off);
	return true;
}

/* Writes a rule as the pairs of words of a row in a flexible FDE (version 3), for the CFA, the return address and rbp.
 * A single word 0 says that the return address is at CFA - 8. Returns false if the rule does not fit. */
static bool flex_encode(const struct etch_rule *r, struct item *it)
{
	const unsigned slot = SFRAME_CTRL_DEREF, reg = SFRAME_CTRL_REG, memory = SFRAME_CTRL_DEREF | SFRAME_CTRL_REG;
	uint8_t base = r->cfa & 15u;

	it->flex = true;
	/* Struct sigcontext has rip 8 bytes after rsp, and rbp 40 bytes before it. */
	if (r->kind == ETCH_RULE_SIGNAL) {
		it->signal = true;
		pair_add(it, base, memory, r->cfa_off);
		pair_add(it, base, memory, r->cfa_off + 8);
		pair_add(it, base, memory, r->cfa_off - 40);
		return true;
	}
	if (r->kind != ETCH_RULE_CALL || (r->cfa & ETCH_CFA_INDEX) || ((r->cfa & ETCH_CFA_DEREF) && r->cfa_add) ||
	    r->bp == ETCH_BP_UNDEF)
		return false;
	it->info = base == ETCH_REG_RSP ? SFRAME_BASE_SP : SFRAME_BASE_FP;
	pair_add(it, base, r->cfa & ETCH_CFA_DEREF ? memory : reg, r->cfa_off);
	if (r->ra & ETCH_RA_REG)
		pair_add(it, r->ra & 15u, reg, 0);
	else if (r->ra == ETCH_RA_SLOT)
		pair_add(it, 0, slot, r->cfa_add);
	else if (r->bp != ETCH_BP_SAME)
		word_add(it, 0);
	if (r->bp == ETCH_BP_CFA)
		pair_add(it, 0, slot, r->bp_off);
	else if (r->bp != ETCH_BP_SAME)
		pair_add(it, r->bp == ETCH_BP_RBP ? ETCH_REG_RBP : ETCH_REG_RSP, memory, r->bp_off);
	return true;
}

static struct item item_of(const struct row *row, unsigned version)
{
	struct item it = {.addr = row->addr};

	if (!default_encode(&row->rule, version, &it)) {
		it = (struct item){.addr = row->addr};
		if (version < 3 || row->rule.kind == ETCH_RULE_UNDEF || !flex_encode(&row->rule, &it))
			it = (struct item){.addr = row->addr, .gap = true};
	}
	it.log2 = word_log2(&it);
	it.info |= (uint8_t)(it.count << 1 | it.log2 << 5);
	return it;
}

static bool item_same(const struct item *a, const struct item *b)
{
	return !memcmp((const char *)a + sizeof(a->addr), (const char *)b + sizeof(b->addr), sizeof(*a) - sizeof(a->addr));
}

static void items_make(struct writer *w, const struct row_list *rows)
{
	size_t i;

	for (i = 0; i < rows->count; i++) {
		struct item it = item_of(&rows->rows[i], w->version);

		if (it.gap && rows->rows[i].rule.kind != ETCH_RULE_UNDEF && i + 1 < rows->count) {
			w->out->gaps += rows->rows[i + 1].addr - rows->rows[i].addr;
			w->out->gap_rows++;
		}
		if (w->count && item_same(&it, &w->items[w->count - 1]))
			continue;
		mem_reserve(&w->items, &w->capacity, w->count, sizeof(*w->items));
		w->items[w->count++] = it;
	}
}

/* ---- FDEs --------------------------------------------------------------------- */

/* Returns the size that an FDE has in the table of FDEs. */
static size_t fde_entry_size(unsigned version)
{
	return version < 3 ? sizeof(struct sframe_fde_v2) : sizeof(struct sframe_fde_v3);
}

/* Returns the size of an FDE, without its rows. */
static uint32_t fde_size(const struct writer *w)
{
	return (uint32_t)(fde_entry_size(w->version) + (w->version < 3 ? 0 : sizeof(struct sframe_attr_v3)));
}

/* Returns the log2 of the size of addresses in FREs, if the last row is `far` bytes after the start of the FDE. */
static unsigned address_log2(uint64_t far)
{
	if (far <= UINT8_MAX)
		return 0;
	return far <= UINT16_MAX ? 1 : 2;
}

static void bytes_add(uint8_t **to, size_t *capacity, size_t *size, const void *data, size_t n)
{
	while (*size + n > *capacity)
		mem_double(to, capacity, 1);
	memcpy(*to + *size, data, n);
	*size += n;
}

static void fre_add(struct writer *w, const struct item *it, uint64_t off, unsigned log2)
{
	uint8_t bytes[4 + 1 + sizeof(it->word)];
	size_t n = (size_t)1 << log2, i;

	memcpy(bytes, &off, n);
	bytes[n++] = it->info;
	for (i = 0; i < it->count; i++) {
		memcpy(bytes + n, &it->word[i], (size_t)1 << it->log2);
		n += (size_t)1 << it->log2;
	}
	w->out->fres++;
	bytes_add(&w->fres, &w->fre_capacity, &w->fre_size, bytes, n);
}

/* Adds an FDE with n rows. `repeat`: number of blocks of BLOCK bytes that have these rows; 0: the rows are not
 * repeated. */
static void fde_add(struct writer *w, const struct item *it, size_t n, uint64_t size, size_t repeat)
{
	unsigned log2 = address_log2(it[n - 1].addr - it->addr);
	uint8_t info = (uint8_t)(log2 | (repeat ? SFRAME_MASK : 0) | (it->signal ? SFRAME_SIGNAL : 0));
	uint8_t rep = repeat ? BLOCK : 0;
	size_t at = w->out->fdes, bytes = at * fde_entry_size(w->version), i;
	struct sframe_fde_v2 two = {0, (uint32_t)size, (uint32_t)w->fre_size, (uint32_t)n, info, rep, 0};
	struct sframe_fde_v3 three = {0, (uint32_t)size, (uint32_t)w->fre_size};
	struct sframe_attr_v3 attr = {(uint16_t)n, info, it->flex ? SFRAME_FLEX : SFRAME_DEFAULT, rep};

	mem_reserve(&w->out->starts, &w->start_capacity, at, sizeof(*w->out->starts));
	w->out->starts[at] = it->addr;
	if (w->version < 3) {
		bytes_add(&w->fde, &w->fde_capacity, &bytes, &two, sizeof(two));
	} else {
		bytes_add(&w->fde, &w->fde_capacity, &bytes, &three, sizeof(three));
		bytes_add(&w->fres, &w->fre_capacity, &w->fre_size, &attr, sizeof(attr));
	}
	w->out->fdes++;
	for (i = 0; i < n; i++)
		fre_add(w, &it[i], it[i].addr - it->addr, log2);
}

/* For an FDE whose last row is k - 1: the lowest possible first row, if addresses have 1, 2 or 4 bytes. All three can
 * only increase with k. */
struct reach {
	size_t from[3];
};

/* Advances to FDEs whose last row is k - 1. The rows of one FDE are either all flexible or all default, and the row of
 * a signal frame is alone in its FDE. */
static void reach_advance(struct reach *r, const struct item *it, size_t k)
{
	static const uint64_t far[3] = {UINT8_MAX, UINT16_MAX, UINT32_MAX};
	const struct item *last = &it[k - 1];
	size_t low = k > FDE_ROWS ? k - FDE_ROWS : 0;
	unsigned i;

	if (k > 1 && (last->flex != last[-1].flex || last->signal || last[-1].signal))
		low = k - 1;
	for (i = 0; i < 3; i++) {
		if (r->from[i] < low)
			r->from[i] = low;
		while (last->addr - it[r->from[i]].addr > far[i])
			r->from[i]++;
	}
}

/*
 * Writes n rows without a gap, which end at address `end`, in those FDEs that take the fewest bytes. cost[k] is the
 * number of bytes that FDEs and addresses take for the first k rows; all else takes the same number in any encoding.
 */
static void run_cut(struct writer *w, const struct item *it, size_t n, uint64_t end)
{
	struct reach reach = {{0}};
	uint32_t *cost = w->cost;
	size_t k, j, at;
	unsigned log2;

	cost[0] = 0;
	for (k = 1; k <= n; k++) {
		uint32_t best = UINT32_MAX, addresses = 0, size;
		size_t from = 0;

		reach_advance(&reach, it, k);
		for (log2 = 0, j = k; log2 < 3; log2++) {
			addresses = (uint32_t)(k - j) << log2;
			while (j > reach.from[log2]) {
				addresses += 1u << log2;
				size = cost[--j] + addresses;
				if (size < best) {
					best = size;
					from = j;
				}
			}
		}
		cost[k] = best + fde_size(w);
		w->rows[k] = (uint8_t)(k - from);
	}
	for (k = n; k > 0; k = at) { /* finds where FDEs begin, from the last one to the first */
		at = k - w->rows[k];
		cost[at] = (uint32_t)k;
	}
	for (k = 0; k < n; k = at) {
		at = cost[k];
		fde_add(w, &it[k], at - k, (at < n ? it[at].addr : end) - it[k].addr, 0);
	}
}

/* If a block of BLOCK bytes that may be repeated begins with row i, returns the number of its rows; otherwise 0. */
static size_t block_rows(const struct writer *w, size_t i)
{
	const struct item *it = &w->items[i];
	size_t n = 1, k;

	if (it->addr % BLOCK)
		return 0;
	while (n < BLOCK_ROWS && i + n < w->count && it[n].addr < it->addr + BLOCK)
		n++;
	if (n < 2 || i + n >= w->count || it[n].addr != it->addr + BLOCK)
		return 0;
	for (k = 0; k < n; k++)
		if (it[k].gap || it[k].flex)
			return 0;
	return n;
}

/* Are the n rows of the block that begins with row i found again, `times` blocks later? */
static bool is_repeated(const struct writer *w, size_t i, size_t n, size_t times)
{
	size_t k;

	if (i + (times + 1) * n > w->count)
		return false;
	for (k = 0; k < n; k++) {
		const struct item *it = &w->items[i + k], *x = it + times * n;

		if (x->addr != it->addr + times * BLOCK || !item_same(x, it))
			return false;
	}
	return true;
}

/* If a block that begins with row i is repeated often enough, returns the number of its occurrences, and sets *rows to
 * the number of its rows. Otherwise returns 0. */
static size_t repeats(const struct writer *w, size_t i, size_t *rows)
{
	size_t n = w->placed ? block_rows(w, i) : 0, times = 1;

	if (!n)
		return 0;
	while (is_repeated(w, i, n, times))
		times++;
	*rows = n;
	return times < REPEATS_MIN ? 0 : times;
}

/* Adds an FDE for a repeated block, and advances *i to the next row. If the last row of the block extends past the last
 * occurrence, row *i is what is left of it. */
static void blocks_add(struct writer *w, size_t *i, size_t times, size_t rows)
{
	uint64_t end = w->items[*i].addr + times * BLOCK;
	struct item rest;

	fde_add(w, &w->items[*i], rows, times * BLOCK, times);
	*i += times * rows - 1;
	rest = w->items[*i];
	if (w->items[*i + 1].addr > end) {
		rest.addr = end;
		w->items[*i] = rest;
	} else {
		++*i;
	}
}

/* Adds all FDEs. */
static void fdes_make(struct writer *w)
{
	size_t i = 0, n, rows;

	while (i + 1 < w->count) {
		size_t times = repeats(w, i, &rows);

		if (w->items[i].gap) {
			i++;
			continue;
		}
		/* The last block of a PLT is incomplete if it ends in a gap: the row in front of the gap must extend to its
		 * end. */
		while (times && w->items[i + times * rows].addr < w->items[i].addr + times * BLOCK)
			times--;
		if (times >= REPEATS_MIN) {
			blocks_add(w, &i, times, rows);
			continue;
		}
		for (n = 1; !w->items[i + n].gap; n++)
			if (repeats(w, i + n, &rows))
				break;
		run_cut(w, &w->items[i], n, w->items[i + n].addr);
		i += n;
	}
}

static int finish(struct writer *w, struct error *e)
{
	struct sframe *out = w->out;
	size_t fde_bytes = out->fdes * fde_entry_size(w->version);
	/* Binutils up to 2.44 refuse the second flag. They do not need it in object files, where they use the
	 * relocation. */
	bool pcrel = w->placed || w->version >= 3;
	uint8_t flags = (w->placed ? SFRAME_SORTED : 0) | (pcrel ? SFRAME_START_PCREL : 0);
	struct sframe_header h = {.magic = SFRAME_MAGIC,
	                          .version = (uint8_t)w->version,
	                          .flags = flags,
	                          .abi = SFRAME_AMD64,
	                          .fixed_ra = SFRAME_RA_OFFSET,
	                          .fde_count = (uint32_t)out->fdes,
	                          .fre_count = (uint32_t)out->fres,
	                          .fre_size = (uint32_t)w->fre_size,
	                          .fre_off = (uint32_t)fde_bytes};

	if (fde_bytes > INT32_MAX || w->fre_size > INT32_MAX)
		return error_set(e, "its unwind rows are too many for " SFRAME_SECTION);
	out->version = w->version;
	out->size = sizeof(h) + fde_bytes + w->fre_size;
	out->bytes = mem_alloc(out->size, 1);
	memcpy(out->bytes, &h, sizeof(h));
	if (fde_bytes)
		memcpy(out->bytes + sizeof(h), w->fde, fde_bytes);
	if (w->fre_size)
		memcpy(out->bytes + sizeof(h) + fde_bytes, w->fres, w->fre_size);
	return 0;
}

int sframe_encode(const struct row_list *rows, unsigned version, bool placed, struct sframe *out, struct error *e)
{
	struct writer w = {.version = version, .placed = placed, .out = out};
	int err;

	memset(out, 0, sizeof(*out));
	items_make(&w, rows);
	w.cost = mem_alloc(w.count + 1, sizeof(*w.cost));
	w.rows = mem_alloc(w.count + 1, 1);
	fdes_make(&w);
	err = finish(&w, e);
	free(w.items);
	free(w.cost);
	free(w.rows);
	free(w.fres);
	free(w.fde);
	return err;
}

size_t sframe_start_at(const struct sframe *s, size_t i)
{
	return sizeof(struct sframe_header) + i * fde_entry_size(s->version);
}

int sframe_place(struct sframe *s, uint64_t addr, struct error *e)
{
	size_t i;

	for (i = 0; i < s->fdes; i++) {
		size_t at = sframe_start_at(s, i);
		int64_t start = (int64_t)(s->starts[i] - (addr + at));
		int32_t narrow = (int32_t)start;

		if (s->version < 3 && narrow != start)
			return error_set(e, SFRAME_SECTION ": the code is more than 2 GiB away (use --sframe=3)");
		if (s->version < 3)
			memcpy(s->bytes + at, &narrow, sizeof(narrow));
		else
			memcpy(s->bytes + at, &start, sizeof(start));
	}
	return 0;
}

void sframe_free(struct sframe *s)
{
	free(s->bytes);
	free(s->starts);
	memset(s, 0, sizeof(*s));
}
