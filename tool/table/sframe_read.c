/* SPDX-License-Identifier: MIT */
/* Decodes SFrame into rows. The bytes are not trusted: every offset and count is checked before it is used. */
#include "table/sframe.h"

#include "support/memory.h"
#include "support/sort.h"

#include <etch/orc_rule.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An FDE, in a form that serves both versions. */
struct fde {
	uint64_t start, end;
	uint32_t fres, fre_count; /* offset of its first FRE in the FRE part; number of its FREs */
	uint8_t info, rep_size;
	bool flex;
};

/* The state of decoding a section. */
struct reader {
	const uint8_t *bytes; /* the whole section */
	size_t size;
	struct sframe_header h;
	size_t fdes, fres; /* offsets in the section of the FDE part and of the FRE part */
	struct fde *list;  /* the FDEs that cover any code, sorted by start */
	size_t count;
	uint64_t left; /* how many more rows may be read */
	struct row_list *out;
	struct error *e;
};

static int bad(struct reader *r, const char *what) { return error_set(r->e, SFRAME_SECTION " is malformed: %s", what); }

static int header_read(struct reader *r)
{
	const struct sframe_header *h = &r->h;
	uint64_t end, each;

	if (r->size < sizeof(*h))
		return bad(r, "smaller than its header");
	memcpy(&r->h, r->bytes, sizeof(r->h));
	if (h->magic != SFRAME_MAGIC)
		return bad(r, "no SFrame header");
	if (h->version != 2 && h->version != 3)
		return error_set(r->e, SFRAME_SECTION " is of version %u: etch reads 2 and 3", h->version);
	if (h->abi != SFRAME_AMD64)
		return error_set(r->e, SFRAME_SECTION " is for another machine (ABI %u)", h->abi);
	if (h->fixed_ra != SFRAME_RA_OFFSET || h->fixed_fp)
		return bad(r, "the return address is not at CFA-8, or rbp at a fixed place");
	each = h->version < 3 ? sizeof(struct sframe_fde_v2) : sizeof(struct sframe_fde_v3);
	end = sizeof(*h) + (uint64_t)h->aux_size;
	if (end > r->size || h->fde_off > r->size - end || h->fre_off > r->size - end ||
	    h->fde_count > (r->size - end - h->fde_off) / each || h->fre_size > r->size - end - h->fre_off)
		return bad(r, "a part lies outside of it");
	r->fdes = end + h->fde_off;
	r->fres = end + h->fre_off;
	return 0;
}

/* Reads FDE number i of a section at `addr`. */
static int fde_read(struct reader *r, size_t i, uint64_t addr, struct fde *out)
{
	bool pcrel = r->h.flags & SFRAME_START_PCREL;

	memset(out, 0, sizeof(*out));
	if (r->h.version < 3) {
		struct sframe_fde_v2 x;
		size_t at = r->fdes + i * sizeof(x);

		memcpy(&x, r->bytes + at, sizeof(x));
		*out = (struct fde){.start = addr + (pcrel ? at : 0) + (uint64_t)(int64_t)x.start, .info = x.info};
		out->end = out->start + x.size;
		out->fres = x.fre_off;
		out->fre_count = x.fre_count;
		out->rep_size = x.rep_size;
	} else {
		struct sframe_fde_v3 x;
		struct sframe_attr_v3 y;
		size_t at = r->fdes + i * sizeof(x);

		memcpy(&x, r->bytes + at, sizeof(x));
		if (x.fre_off > r->h.fre_size || r->h.fre_size - x.fre_off < sizeof(y))
			return bad(r, "an FDE's rows lie outside of it");
		memcpy(&y, r->bytes + r->fres + x.fre_off, sizeof(y));
		*out = (struct fde){.start = addr + (pcrel ? at : 0) + (uint64_t)x.start, .info = y.info};
		out->end = out->start + x.size;
		out->fres = x.fre_off + (uint32_t)sizeof(y);
		out->fre_count = y.fre_count;
		out->rep_size = y.rep_size;
		out->flex = (y.info2 & 0x1f) == SFRAME_FLEX;
		if ((y.info2 & 0x1f) > SFRAME_FLEX)
			return bad(r, "an FDE of unknown type");
	}
	if (out->fres > r->h.fre_size)
		return bad(r, "an FDE's rows lie outside of it");
	if ((out->info & 15) > 2)
		return bad(r, "an FDE with rows of unknown size");
	if ((out->info & SFRAME_MASK) && !out->rep_size)
		return bad(r, "an FDE of repeated blocks of no size");
	return 0;
}

/* ---- rules -------------------------------------------------------------------- */

/* A row (FRE) in the form that it has in the section. */
struct fre {
	uint32_t off;
	uint8_t info;
	unsigned count;
	int32_t word[15];
};

static int32_t word_at(const uint8_t *p, unsigned log2)
{
	int32_t value = 0;

	memcpy(&value, p, (size_t)1 << log2);
	if (log2 == 0)
		return (int8_t)value;
	return log2 == 1 ? (int16_t)value : value;
}

/* Reads the row at *at, which is an offset in the FRE part. Advances *at to the next row. */
static int fre_read(struct reader *r, const struct fde *f, uint32_t *at, struct fre *out)
{
	const uint8_t *p = r->bytes + r->fres + *at;
	size_t left = r->h.fre_size - *at, need = ((size_t)1 << (f->info & 15)) + 1, i;
	unsigned log2;

	memset(out, 0, sizeof(*out));
	if (left < need)
		return bad(r, "a row lies outside of it");
	memcpy(&out->off, p, need - 1);
	out->info = p[need - 1];
	out->count = out->info >> 1 & 15;
	log2 = out->info >> 5 & 3;
	if (log2 > 2 || ((size_t)out->count << log2) > left - need)
		return bad(r, "a row lies outside of it");
	for (i = 0; i < out->count; i++)
		out->word[i] = word_at(p + need + (i << log2), log2);
	*at += (uint32_t)(need + ((size_t)out->count << log2));
	return 0;
}

static bool default_rule(const struct fre *x, struct etch_rule *out)
{
	out->kind = x->count ? ETCH_RULE_CALL : ETCH_RULE_END;
	if (!x->count)
		return true;
	out->cfa = (x->info & 1) == SFRAME_BASE_SP ? ETCH_REG_RSP : ETCH_REG_RBP;
	out->cfa_off = x->word[0];
	if (x->count > 1) {
		out->bp = ETCH_BP_CFA;
		out->bp_off = x->word[1];
	}
	return x->count <= 2;
}

/* A place that a flexible row describes by a pair of words. */
struct place {
	bool present, deref, is_register;
	uint8_t reg;
	int32_t off;
};

/* Reads the next pair of words, or the single word 0, which stands for no place. Returns false if the control word has
 * unknown bits. */
static bool place_take(const struct fre *x, unsigned log2, unsigned *i, struct place *out)
{
	/* Index: log2 of the size of a word. */
	static const uint32_t masks[] = {0xff, 0xffff, UINT32_MAX, UINT32_MAX};
	uint32_t ctrl = *i < x->count ? (uint32_t)x->word[*i] & masks[log2] : 0;

	memset(out, 0, sizeof(*out));
	++*i;
	if (!ctrl)
		return true;
	if (*i >= x->count || (ctrl & 4) || ctrl >> 3 > 15)
		return false;
	*out = (struct place){true, ctrl & SFRAME_CTRL_DEREF, ctrl & SFRAME_CTRL_REG,
	                      sframe_register_back((uint8_t)(ctrl >> 3)), x->word[*i]};
	++*i;
	return true;
}

/* Is a value stored in memory at an offset from a register? */
static bool is_in_memory(const struct place *x, uint8_t reg, int64_t off)
{
	return x->present && x->deref && x->is_register && x->reg == reg && (int64_t)x->off == off;
}

/* Takes the place of the return address over into a rule. Returns false if no rule can have it there. */
static bool ra_take(const struct place *x, struct etch_rule *out)
{
	if (!x->present)
		return true;
	if (x->is_register && !x->deref && !x->off) {
		out->ra = (uint8_t)(ETCH_RA_REG | x->reg);
		return true;
	}
	if (x->is_register || !x->deref)
		return false;
	if (x->off == SFRAME_RA_OFFSET) {
		out->ra = ETCH_RA_CFA;
		out->cfa_add = 0;
	} else {
		out->ra = ETCH_RA_SLOT;
		out->cfa_add = x->off;
	}
	return true;
}

/* Takes the place of rbp over into a rule. Returns false if no rule can have it there. */
static bool bp_take(const struct place *x, struct etch_rule *out)
{
	if (!x->present)
		return true;
	out->bp_off = x->off;
	if (!x->is_register) {
		out->bp = ETCH_BP_CFA;
		return x->deref;
	}
	out->bp = x->reg == ETCH_REG_RBP ? ETCH_BP_RBP : ETCH_BP_RSP;
	return x->deref && (x->reg == ETCH_REG_RBP || x->reg == ETCH_REG_RSP);
}

/* Finds the rule of a flexible row. Returns false if no rule of etch says the same. */
static bool flex_rule(const struct fre *x, bool signal, struct etch_rule *out)
{
	unsigned i = 0, log2 = x->info >> 5 & 3;
	struct place cfa, ra, bp;

	if (!x->count) {
		out->kind = ETCH_RULE_END;
		return true;
	}
	if (!place_take(x, log2, &i, &cfa) || !place_take(x, log2, &i, &ra) || !place_take(x, log2, &i, &bp) ||
	    i < x->count || !cfa.present || !cfa.is_register)
		return false;
	out->kind = signal ? ETCH_RULE_SIGNAL : ETCH_RULE_CALL;
	out->cfa = (uint8_t)(cfa.reg | (cfa.deref ? ETCH_CFA_DEREF : 0));
	out->cfa_off = cfa.off;
	if (signal) /* struct sigcontext has rip 8 bytes after rsp, and rbp 40 bytes before it */
		return is_in_memory(&ra, cfa.reg, (int64_t)cfa.off + 8) && is_in_memory(&bp, cfa.reg, (int64_t)cfa.off - 40);
	return ra_take(&ra, out) && bp_take(&bp, out);
}

/* ---- rows --------------------------------------------------------------------- */

static void row_add(struct reader *r, uint64_t addr, const struct etch_rule *rule)
{
	struct row_list *l = r->out;
	struct row *last = l->count ? &l->rows[l->count - 1] : NULL;

	if (last && last->addr == addr) /* the last row covers no byte */
		l->count--;
	if (l->count && etch_rule_equal(&l->rows[l->count - 1].rule, rule))
		return;
	mem_reserve(&l->rows, &l->capacity, l->count, sizeof(*l->rows));
	memset(&l->rows[l->count], 0, sizeof(l->rows[l->count]));
	l->rows[l->count].addr = addr;
	l->rows[l->count++].rule = *rule;
}

/*
 * Returns the greatest number of rows that may be read. FDEs may share rows, and the rows of an FDE for repeated blocks
 * are read once for each block, so the size of the section alone is no bound. But useful rows begin at different bytes
 * of code, except for one in front of each FDE. So the number of bytes of code, plus a number proportional to the
 * section, is enough.
 */
static uint64_t rows_most(const struct reader *r, const struct code_space *space)
{
	uint64_t n = r->size + r->h.fde_count;
	size_t i;

	for (i = 0; i < space->count; i++)
		n += space->list[i].size;
	return n;
}

/* Adds the rows of an FDE for the code in [start, end), which is all of its code, or one of its repeated blocks. */
static int rows_add(struct reader *r, const struct fde *f, uint64_t start, uint64_t end)
{
	uint32_t at = f->fres, i;
	uint64_t last = 0;
	struct fre x;

	for (i = 0; i < f->fre_count; i++) {
		struct etch_rule rule = {0};

		if (!r->left--)
			return bad(r, "its rows add up to more than the bytes of code");
		if (fre_read(r, f, &at, &x))
			return -1;
		if (i && x.off <= last)
			return bad(r, "rows out of order");
		last = x.off;
		if (!(f->flex ? flex_rule(&x, f->info & SFRAME_SIGNAL, &rule) : default_rule(&x, &rule)))
			rule = etch_rule_undef; /* the row is valid, but etch has no rule for it */
		if (!etch_rule_valid(&rule))
			rule = etch_rule_undef;
		if (x.off < end - start)
			row_add(r, start + x.off, &rule);
	}
	return 0;
}

static int fde_rows(struct reader *r, const struct fde *f)
{
	uint64_t at, block = f->info & SFRAME_MASK ? f->rep_size : f->end - f->start;

	row_add(r, f->start, &etch_rule_undef); /* for code in front of the first row */
	/* Blocks are counted from address 0: an unwinder uses the remainder of the program counter. */
	for (at = f->start; at < f->end; at = at - (f->info & SFRAME_MASK ? at % block : 0) + block) {
		uint64_t from = f->info & SFRAME_MASK ? at - at % block : at;

		if (from < f->start)
			return bad(r, "repeated blocks that do not begin at a multiple of their size");
		if (rows_add(r, f, from, f->end - from < block ? f->end : from + block))
			return -1;
	}
	row_add(r, f->end, &etch_rule_undef);
	return 0;
}

static int fde_order(const void *a, const void *b)
{
	const struct fde *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Reads all FDEs, and checks that each of them lies in code, and that no two overlap. */
static int fdes_read(struct reader *r, uint64_t addr, const struct code_space *space)
{
	size_t i;

	r->list = mem_zero(r->h.fde_count, sizeof(*r->list));
	for (i = 0; i < r->h.fde_count; i++) {
		struct fde *f = &r->list[r->count];
		const struct code_section *c, *last;

		if (fde_read(r, i, addr, f))
			return -1;
		if (f->end <= f->start)
			continue;
		r->count++;
		/* A row may begin one byte before a function. It may also extend over padding up to the next section, or into
		 * it. */
		c = space_at(space, f->start);
		c = c ? c : space_at(space, f->start + 1);
		last = space_at(space, f->end - 1);
		last = last ? last : space_at(space, f->end);
		if (!c || !last || ((f->info & SFRAME_MASK) && c != last))
			return error_set(r->e,
			                 SFRAME_SECTION " is malformed: FDE %zu (%#" PRIx64 " to %#" PRIx64
			                                ") is for no code of this file",
			                 i, f->start, f->end);
	}
	sort_if_needed(r->list, r->count, sizeof(*r->list), fde_order);
	for (i = 1; i < r->count; i++)
		if (r->list[i].start < r->list[i - 1].end)
			return error_set(r->e, SFRAME_SECTION " is malformed: two FDEs for %#" PRIx64, r->list[i].start);
	return 0;
}

int sframe_decode(const uint8_t *bytes, size_t size, uint64_t addr, const struct code_space *space,
                  struct row_list *out, struct error *e)
{
	struct reader r = {.bytes = bytes, .size = size, .out = out, .e = e};
	size_t i;
	int err;

	memset(out, 0, sizeof(*out));
	err = header_read(&r) || fdes_read(&r, addr, space);
	r.left = rows_most(&r, space);
	for (i = 0; !err && i < r.count; i++)
		err = fde_rows(&r, &r.list[i]);
	free(r.list);
	return err ? -1 : 0;
}
