/* SPDX-License-Identifier: MIT */
/* Makes call frame programs, as short as possible, for sequences of states. */
#include "table/eh_frames.h"

#include "support/memory.h"
#include "table/sframe.h"

#include <stdlib.h>
#include <string.h>

enum { /* DWARF 5, 7.24 */
	   CFA_ADVANCE = 0x40,
	   CFA_OFFSET = 0x80,
	   CFA_RESTORE = 0xc0,
	   CFA_ADVANCE1 = 0x02,
	   CFA_ADVANCE2 = 0x03,
	   CFA_ADVANCE4 = 0x04,
	   CFA_UNDEFINED = 0x07,
	   CFA_REGISTER = 0x09,
	   CFA_REMEMBER = 0x0a,
	   CFA_RESTORE_STATE = 0x0b,
	   CFA_DEF_CFA = 0x0c,
	   CFA_DEF_REGISTER = 0x0d,
	   CFA_DEF_OFFSET = 0x0e,
	   CFA_DEF_EXPRESSION = 0x0f,
	   CFA_EXPRESSION = 0x10,
	   OP_DEREF = 0x06,
	   OP_CONSTS = 0x11,
	   OP_PLUS = 0x22,
	   OP_PLUS_UCONST = 0x23,
	   OP_SHL = 0x24,
	   OP_LIT3 = 0x33,
	   OP_BREG = 0x70,
};

#define REG_RA     16
#define DATA_ALIGN (-8)
#define REGISTERS  6 /* rbx, r12 to r15, rbp, in this order */

static const uint8_t dwarf_of[REGISTERS] = {3, 12, 13, 14, 15, 6};

/* The state at the entry of a function, which the CIE describes. */
static const struct frame_state initial = {
	.rule = {.cfa = ETCH_REG_RSP, .cfa_off = 8, .kind = ETCH_RULE_CALL},
};

void bytes_grow(struct bytes *b, size_t size)
{
	while (b->capacity < b->count + size)
		mem_double(&b->list, &b->capacity, 1);
}

void bytes_put(struct bytes *b, const void *data, size_t size)
{
	bytes_grow(b, size);
	memcpy(b->list + b->count, data, size);
	b->count += size;
}

#define STEP_MOST 256u /* most bytes that a change from one state to the next takes */

/* Instructions of a call frame program, or a DWARF expression. */
struct program {
	uint8_t *bytes; /* STEP_MOST bytes */
	unsigned count;
};

/* Begins a program directly after the bytes of *b. step_end() appends it to them. */
static inline struct program step_begin(struct bytes *b)
{
	bytes_grow(b, STEP_MOST);
	return (struct program){b->list + b->count, 0};
}

static inline void step_end(struct bytes *b, const struct program *p) { b->count += p->count; }

static void put(struct program *p, unsigned byte) { p->bytes[p->count++] = (uint8_t)byte; }

static void put_uleb(struct program *p, uint64_t v)
{
	for (; v > 127; v >>= 7)
		put(p, (unsigned)(v & 127) | 128);
	put(p, (unsigned)v);
}

static void put_sleb(struct program *p, int64_t v)
{
	for (; v < -64 || v > 63; v >>= 7)
		put(p, (unsigned)(v & 127) | 128);
	put(p, (unsigned)(v & 127));
}

/* Appends an expression, preceded by its length. */
static void put_block(struct program *p, const struct program *block)
{
	put_uleb(p, block->count);
	memcpy(p->bytes + p->count, block->bytes, block->count);
	p->count += block->count;
}

static void put_breg(struct program *p, unsigned dwarf, int64_t off)
{
	put(p, OP_BREG + dwarf);
	put_sleb(p, off);
}

/* Appends the rule that a register is saved at address base + off, where the base is rsp or rbp. */
static void put_saved_at(struct program *p, unsigned dwarf, unsigned base, int64_t off)
{
	uint8_t capacity[STEP_MOST];
	struct program block = {capacity, 0};

	put_breg(&block, base, off);
	put(p, CFA_EXPRESSION);
	put_uleb(p, dwarf);
	put_block(p, &block);
}

/* ---- the CFA ------------------------------------------------------------------ */

static bool is_plain(const struct etch_rule *r) { return !(r->cfa & ETCH_CFA_DEREF) && r->cfa_off >= 0; }

/* Appends the rule of a CFA that needs an expression. */
static void cfa_expression_put(struct program *p, const struct etch_rule *r, unsigned reg)
{
	uint8_t capacity[STEP_MOST];
	struct program block = {capacity, 0};

	if (r->cfa & ETCH_CFA_INDEX) {
		put_breg(&block, reg, 0);
		put(&block, OP_LIT3);
		put(&block, OP_SHL);
		put_breg(&block, 7, r->cfa_off);
		put(&block, OP_PLUS);
	} else {
		put_breg(&block, reg, r->cfa_off);
	}
	if (r->cfa & ETCH_CFA_DEREF) {
		put(&block, OP_DEREF);
		if (r->cfa_add > 0) {
			put(&block, OP_PLUS_UCONST);
			put_uleb(&block, (uint64_t)r->cfa_add);
		} else if (r->cfa_add) {
			put(&block, OP_CONSTS);
			put_sleb(&block, r->cfa_add);
			put(&block, OP_PLUS);
		}
	}
	put(p, CFA_DEF_EXPRESSION);
	put_block(p, &block);
}

/* Appends the shortest instruction that changes the CFA from that of `was` to that of `r`; if no other suffices, one
 * with an expression. */
static void cfa_put(struct program *p, const struct etch_rule *was, const struct etch_rule *r)
{
	unsigned reg = sframe_register(r->cfa & 15u);

	if (is_plain(r) && is_plain(was) && (was->cfa == r->cfa || was->cfa_off == r->cfa_off)) {
		put(p, was->cfa == r->cfa ? CFA_DEF_OFFSET : CFA_DEF_REGISTER);
		put_uleb(p, was->cfa == r->cfa ? (uint64_t)r->cfa_off : reg);
	} else if (is_plain(r)) {
		put(p, CFA_DEF_CFA);
		put_uleb(p, reg);
		put_uleb(p, (uint64_t)r->cfa_off);
	} else {
		cfa_expression_put(p, r, reg);
	}
}

static bool cfa_same(const struct etch_rule *a, const struct etch_rule *b)
{
	bool deref = a->cfa & ETCH_CFA_DEREF;

	return a->cfa == b->cfa && a->cfa_off == b->cfa_off && (!deref || a->cfa_add == b->cfa_add);
}

/* ---- registers ---------------------------------------------------------------- */

/* Where a register of the caller is. */
struct place {
	uint8_t how; /* enum etch_cfi_save_how */
	int32_t off;
};

static struct place place_of(const struct frame_state *s, unsigned i)
{
	if (i < 5)
		return (struct place){s->saves.how[i], s->saves.off[i]};
	/* Enum etch_rule_bp has the same numbers as enum etch_cfi_save_how. */
	return (struct place){s->rule.bp, s->rule.bp_off};
}

/* Appends the rule that a register is saved at an offset from the CFA which no shorter instruction can express. */
static void odd_offset_put(struct program *p, unsigned dwarf, int64_t off)
{
	uint8_t capacity[STEP_MOST];
	struct program block = {capacity, 0};

	put(&block, OP_CONSTS); /* an unwinder has already pushed the CFA */
	put_sleb(&block, off);
	put(&block, OP_PLUS);
	put(p, CFA_EXPRESSION);
	put_uleb(p, dwarf);
	put_block(p, &block);
}

static void offset_put(struct program *p, unsigned dwarf, int64_t off)
{
	if (off % DATA_ALIGN || off > 0) {
		odd_offset_put(p, dwarf, off);
		return;
	}
	put(p, CFA_OFFSET | dwarf);
	put_uleb(p, (uint64_t)(off / DATA_ALIGN));
}

static void place_put(struct program *p, unsigned dwarf, struct place x)
{
	switch (x.how) {
	case ETCH_SAVE_SAME: put(p, CFA_RESTORE | dwarf); break;
	case ETCH_SAVE_CFA: offset_put(p, dwarf, x.off); break;
	case ETCH_SAVE_RBP: put_saved_at(p, dwarf, 6, x.off); break;
	case ETCH_SAVE_RSP: put_saved_at(p, dwarf, 7, x.off); break;
	default: put(p, CFA_UNDEFINED), put_uleb(p, dwarf);
	}
}

/* Appends the rule that says where the return address is, or that it is undefined, as in the outermost frame. */
static void ra_put(struct program *p, const struct etch_rule *r)
{
	if (r->kind == ETCH_RULE_END) {
		put(p, CFA_UNDEFINED);
		put_uleb(p, REG_RA);
	} else if (r->ra & ETCH_RA_REG) {
		put(p, CFA_REGISTER);
		put_uleb(p, REG_RA);
		put_uleb(p, sframe_register(r->ra & 15u));
	} else {
		offset_put(p, REG_RA, r->ra == ETCH_RA_SLOT ? r->cfa_add : DATA_ALIGN);
	}
}

static bool ra_same(const struct etch_rule *a, const struct etch_rule *b)
{
	if (a->kind == ETCH_RULE_END || b->kind == ETCH_RULE_END)
		return a->kind == b->kind;
	return a->ra == b->ra && (a->ra != ETCH_RA_SLOT || a->cfa_add == b->cfa_add);
}

/* Appends the instructions that change one state into another. */
static void change_put(struct program *p, const struct frame_state *was, const struct frame_state *to)
{
	bool saves = memcmp(&was->saves, &to->saves, sizeof(was->saves));
	unsigned i;

	if (!cfa_same(&was->rule, &to->rule))
		cfa_put(p, &was->rule, &to->rule);
	for (i = saves ? 0 : REGISTERS - 1; i < REGISTERS; i++) {
		struct place a = place_of(was, i), b = place_of(to, i);

		if (a.how != b.how || a.off != b.off)
			place_put(p, dwarf_of[i], b);
	}
	if (!ra_same(&was->rule, &to->rule))
		ra_put(p, &to->rule);
}

/* Appends an instruction that advances the location. */
static void advance_put(struct program *p, uint64_t by)
{
	unsigned size, i;

	if (by < 64) {
		put(p, CFA_ADVANCE | (unsigned)by);
		return;
	}
	if (by <= UINT8_MAX) {
		put(p, CFA_ADVANCE1);
		size = 1;
	} else if (by <= UINT16_MAX) {
		put(p, CFA_ADVANCE2);
		size = 2;
	} else {
		put(p, CFA_ADVANCE4);
		size = 4;
	}
	for (i = 0; i < size; i++)
		put(p, (unsigned)(by >> 8 * i) & 255);
}

/* ---- remember and restore ------------------------------------------------------ */

#define INTERVALS 64 /* most pairs of remember_state and restore_state in one FDE */

/* A pair of remember_state and restore_state. */
struct interval {
	size_t from, to; /* the state of row `from` is remembered, and comes back at row `to` */
};

/* Finds the pair that ends at row `to`: it begins at the last earlier row with the same state. It must not begin before
 * the end of the previous pair, since some readers can remember only one state (async-profiler) or two (OpenTelemetry's
 * profiler). Returns false if there is no such row. */
static bool interval_find(const struct frame_row *p, size_t to, size_t last_end, struct interval *out)
{
	size_t from = to - 1;

	while (from-- > last_end && to - from < 256)
		if (!memcmp(&p[from].state, &p[to].state, sizeof(p[from].state))) {
			*out = (struct interval){from, to};
			return true;
		}
	return false;
}

/* Does it take more bytes to change the state than to remember and restore it? */
static bool is_worth_it(const struct frame_state *was, const struct frame_state *to)
{
	uint8_t capacity[STEP_MOST];
	struct program step = {capacity, 0};

	change_put(&step, was, to);
	return step.count > 2;
}

/* Lists the pairs that save bytes, among the first `count` rows. Returns their number. */
static size_t intervals_find(const struct frame_row *p, size_t count, struct interval *list)
{
	size_t n = 0, i;

	for (i = 2; i < count && n < INTERVALS; i++)
		n += !p[i].brief && interval_find(p, i, n ? list[n - 1].to : 0, &list[n]) &&
		     is_worth_it(&p[i - 1].state, &p[i].state);
	return n;
}

/* ---- PLT ---------------------------------------------------------------------- */

#define PLT_BLOCK  16
#define PLT_BLOCKS 4 /* fewest repetitions for which the expression is smaller */

/* Returns how many rows, from row i on, alternate between the two states of a PLT entry: the CFA is rsp + 8, then rsp +
 * 16 from byte *push of each block on. Returns 0 if there are too few. `end` is the end of the last row. */
static size_t plt_run(const struct frame_row *p, size_t i, size_t count, uint64_t end, uint64_t *push)
{
	static const struct frame_state pushed = {
		.rule = {.cfa = ETCH_REG_RSP, .cfa_off = PLT_BLOCK, .kind = ETCH_RULE_CALL},
	};
	size_t n = 0;

	if (p[i].addr % PLT_BLOCK || i + 1 >= count || p[i + 1].addr - p[i].addr >= PLT_BLOCK)
		return 0;
	*push = p[i + 1].addr - p[i].addr;
	for (; i + n + 1 < count; n += 2) {
		const struct frame_row *x = &p[i + n];
		uint64_t next = i + n + 2 < count ? x[2].addr : end;

		if (x->addr != p[i].addr + n / 2 * PLT_BLOCK || x[1].addr != x->addr + *push || next > x->addr + PLT_BLOCK ||
		    memcmp(&x->state, &initial, sizeof(initial)) || memcmp(&x[1].state, &pushed, sizeof(pushed)))
			break;
	}
	return n < 2 * PLT_BLOCKS ? 0 : n;
}

/* Appends the rule that the CFA is rsp + 8 + ((rip & 15) >= push) * 8, in the form that GNU ld uses. */
static void plt_put(struct bytes *b, uint64_t push)
{
	enum { OP_LIT0 = 0x30, OP_AND = 0x1a, OP_GE = 0x2a };
	uint8_t capacity[2][STEP_MOST];
	struct program p = {capacity[0], 0}, block = {capacity[1], 0};

	put_breg(&block, 7, 8);
	put_breg(&block, REG_RA, 0);
	put(&block, OP_LIT0 + PLT_BLOCK - 1);
	put(&block, OP_AND);
	put(&block, OP_LIT0 + (unsigned)push);
	put(&block, OP_GE);
	put(&block, OP_LIT3);
	put(&block, OP_SHL);
	put(&block, OP_PLUS);
	put(&p, CFA_DEF_EXPRESSION);
	put_block(&p, &block);
	bytes_put(b, p.bytes, p.count);
}

/* Appends the states of the rows, starting from state `was`. The first row's state takes effect without an advance. */
static void states_put(struct bytes *b, const struct frame_state *was, const struct frame_row *rows, size_t count)
{
	struct interval list[INTERVALS];
	size_t n = intervals_find(rows, count, list), i, k = 0;

	for (i = 0; i < count; i++) {
		struct program step = step_begin(b);

		if (i)
			advance_put(&step, rows[i].addr - rows[i - 1].addr);
		if (k < n && list[k].to == i) {
			put(&step, CFA_RESTORE_STATE);
			k++;
		} else if (i && rows[i].brief) {
			put(&step, CFA_DEF_OFFSET);
			put(&step, (unsigned)rows[i].state.rule.cfa_off);
		} else {
			change_put(&step, was, &rows[i].state);
		}
		if (k < n && list[k].from == i)
			put(&step, CFA_REMEMBER);
		step_end(b, &step);
		was = &rows[i].state;
	}
}

/* Advances the location from *at to `addr`, if that is higher. */
static void advance_to(struct bytes *b, uint64_t *at, uint64_t addr)
{
	if (addr > *at) {
		struct program step = step_begin(b);

		advance_put(&step, addr - *at);
		step_end(b, &step);
	}
	*at = addr;
}

void eh_program_put(struct bytes *b, const struct frame_row *rows, size_t count, uint64_t end)
{
	struct frame_state was = initial;
	uint64_t at = rows[0].addr, push = 0;
	size_t from, to, n = 0;

	for (from = 0; from < count; from = to + n) {
		for (to = from; to < count && !(n = plt_run(rows, to, count, end, &push)); to++)
			;
		if (to > from) {
			advance_to(b, &at, rows[from].addr);
			states_put(b, &was, rows + from, to - from);
			at = rows[to - 1].addr;
		}
		if (to == count)
			return;
		advance_to(b, &at, rows[to].addr);
		plt_put(b, push);
		was = initial;
		was.rule.cfa |= ETCH_CFA_DEREF; /* it is an expression, so the next state must define its CFA in full */
	}
}

/* ---- CIE ---------------------------------------------------------------------- */

/* Appends a CIE for .debug_frame: its id is -1, and the addresses in its FDEs are absolute. */
static void debug_cie(struct bytes *b, bool signal)
{
	static const uint8_t plain[] = {
		0, 0, 0, 0, 255, 255, 255, 255, 1, 0, 1, 0x78, REG_RA, CFA_DEF_CFA, 7, 8, CFA_OFFSET | REG_RA, 1};
	static const uint8_t frame[] = {0, 0, 0, 0, 255, 255, 255, 255, 1, 'z', 'S', 0, 1, 0x78, REG_RA, 0};

	bytes_put(b, signal ? frame : plain, signal ? sizeof(frame) : sizeof(plain));
}

void eh_cie_put(struct bytes *b, bool signal, bool debug)
{
	/* The bytes are: length 0, id 0, version 1, code alignment 1, data alignment -8, return address register 16, one
	 * byte of augmentation data, which says that addresses are pcrel | sdata4. */
	static const uint8_t plain[] = {
		0, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, REG_RA, 1, 0x1b, CFA_DEF_CFA, 7, 8, CFA_OFFSET | REG_RA, 1};
	static const uint8_t frame[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 'S', 0, 1, 0x78, REG_RA, 1, 0x1b};
	size_t at = b->count;
	uint32_t length;

	if (debug)
		debug_cie(b, signal);
	else
		bytes_put(b, signal ? frame : plain, signal ? sizeof(frame) : sizeof(plain));
	while (b->count & (debug ? 7 : 3))
		bytes_put(b, "", 1); /* DW_CFA_nop */
	length = (uint32_t)(b->count - at - 4);
	memcpy(b->list + at, &length, sizeof(length));
}

void eh_signal_put(struct bytes *b, int32_t rsp)
{
	static const struct {
		uint8_t dwarf;
		int8_t from_rsp;
	} saved[] = {{8, -120}, {9, -112}, {10, -104}, {11, -96}, {12, -88}, {13, -80}, {14, -72}, {15, -64},
	             {5, -56},  {4, -48},  {6, -40},   {3, -32},  {1, -24},  {0, -16},  {2, -8},   {REG_RA, 8}};
	uint8_t capacity[2][STEP_MOST];
	struct program p = {capacity[0], 0}, block = {capacity[1], 0};
	size_t i;

	put_breg(&block, 7, rsp);
	put(&block, OP_DEREF);
	put(&p, CFA_DEF_EXPRESSION);
	put_block(&p, &block);
	for (i = 0; i < sizeof(saved) / sizeof(*saved); i++)
		put_saved_at(&p, saved[i].dwarf, 7, (int64_t)rsp + saved[i].from_rsp);
	bytes_put(b, p.bytes, p.count);
}
