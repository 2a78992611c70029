/* SPDX-License-Identifier: MIT */
/*
 * shared/cfi.h: converts .eh_frame to rows of etch/orc.h. It is internal to etch: the tool and the library share it,
 * it is no interface for programs, and it may change at any time. C only.
 *
 * Sections and numbers: DWARF 5, 6.4 (call frame information) and 2.5 (expressions); Linux Standard Base, "Exception
 * Frames" (the .eh_frame form, augmentations); gcc/dwarf2.h and unwind-pe.h (DW_EH_PE, GNU opcodes).
 *
 * Every byte is checked before it is read. It allocates nothing, calls only memcpy and memcmp of libc, and has no
 * global state: async-signal-safe, and thread-safe as long as a struct etch_cfi stays with one thread.
 * etch_cfi_rows() takes 12 KiB of stack, or less with another ETCH_CFI_DEPTH.
 */
#ifndef ETCH_LIB_SHARED_CFI_H
#define ETCH_LIB_SHARED_CFI_H

#include "shared/cfi_rule.h"

struct etch_cfi_row {
	uint64_t start, end;
	struct etch_rule rule;
	/* Null, or why the rule is weaker than .eh_frame's: its kind is UNDEF, or only bp is UNDEF if nothing else is
	 * wrong. One of a few constant strings. */
	const char *why;
	struct etch_cfi_saves saves; /* with ETCH_CFI_SAVES, else zero */
	/* With ETCH_CFI_ARGS_SIZE, else zero: the bytes of arguments that the code has pushed (DW_CFA_GNU_args_size),
	 * which a landing pad expects to be popped. */
	uint64_t args_size;
	/* Has the FDE's program, from its start up to this row, had a rule by which rax or rdx is saved? libgcc would write
	 * the arguments of a landing pad to the place where it is saved. */
	bool is_result_saved;
};

#define ETCH_CFI_SAVES     1u /* fill in `saves`; rows then also end where the saves change */
#define ETCH_CFI_ARGS_SIZE 2u /* fill in `args_size`; rows then also end where it changes */

typedef void etch_cfi_row_fn(void *ctx, const struct etch_cfi_row *row);

/*
 * Runs an FDE's program: calls fn with its rows in ascending order, without gaps, from start to end; adjacent rows
 * differ. If the program is malformed, the rest of the range is one UNDEF row. The FDE of glibc's __restore_rt starts
 * one byte before the function, and so does its row.
 */
static inline void etch_cfi_rows(const struct etch_fde *fde, unsigned flags, etch_cfi_row_fn *fn, void *ctx);

/* The row of an FDE for an address in its range, or the part of that row up to the address. If there is none, start
 * == end and the kind is UNDEF. */
static inline struct etch_cfi_row etch_cfi_row_at(const struct etch_fde *fde, unsigned flags, uint64_t at);

/* ---- programs --------------------------------------------------------------- */

/* Maximum depth of remember_state; compilers need one or two. */
#ifndef ETCH_CFI_DEPTH
#define ETCH_CFI_DEPTH 64
#endif

struct etch_cfi_run {
	const struct etch_fde *fde;
	etch_cfi_row_fn *fn;
	void *ctx;
	unsigned flags;
	struct etch_cfi_row row; /* not emitted yet: the next row may extend it */
	struct etch_cfi_state state, initial;
	struct etch_cfi_state stack[ETCH_CFI_DEPTH];
	unsigned depth;
	uint64_t at;   /* current location of the program */
	uint64_t from; /* no rows are needed up to here */
	bool in_cie, changed;
	struct etch_rule rule; /* valid for `state` while !changed */
	struct etch_cfi_term step;
	struct etch_cfi_saves saves;
	uint64_t args_size; /* as libgcc treats it: neither remembered nor restored */
	bool is_result_saved;
	const char *why;
};

static inline void etch_cfi_emit(struct etch_cfi_run *run, uint64_t start, uint64_t end, const struct etch_rule *rule)
{
	struct etch_cfi_row *row = &run->row;

	if (row->end == start && row->start != row->end && row->why == run->why && row->args_size == run->args_size &&
	    !memcmp(&row->rule, rule, sizeof(*rule)) && !memcmp(&row->saves, &run->saves, sizeof(row->saves))) {
		row->end = end;
		return;
	}
	if (row->start != row->end)
		run->fn(run->ctx, row);
	row->start = start;
	row->end = end;
	row->rule = *rule;
	row->why = run->why;
	row->saves = run->saves;
	row->args_size = run->args_size;
	row->is_result_saved = run->is_result_saved;
}

/* Emits rows for the current state from run->at to `end`. */
static inline void etch_cfi_hold(struct etch_cfi_run *run, uint64_t end)
{
	uint64_t at = run->at;

	if (end > run->fde->end)
		end = run->fde->end;
	if (at >= end)
		return;
	run->at = end;
	if (end <= run->from)
		return;
	if (run->changed) {
		memset(&run->saves, 0, sizeof(run->saves));
		run->why = etch_cfi_rule(run->fde, &run->state, &run->rule, &run->step,
		                         run->flags & ETCH_CFI_SAVES ? &run->saves : NULL);
		run->changed = false;
		/* A PLT has 16 bytes per entry and two rows for each: a range of more than 16 million entries is no PLT. */
		if (run->step.kind && end - at > (uint64_t)1 << 28) {
			memset(&run->rule, 0, sizeof(run->rule));
			memset(&run->saves, 0, sizeof(run->saves));
			run->step.kind = ETCH_TERM_NONE;
			run->why = "a CFA expression of unknown form";
		}
	}
	if (!run->step.kind) {
		etch_cfi_emit(run, at, end, &run->rule);
		return;
	}
	while (at < end) {
		struct etch_rule rule = run->rule;
		uint64_t low = at & 15, next = at - low + 16;

		if (low < run->step.step)
			next = at - low + run->step.step;
		else
			rule.cfa_off += (int32_t)run->step.off;
		if (next > end)
			next = end;
		etch_cfi_emit(run, at, next, &rule);
		at = next;
	}
}

static inline void etch_cfi_advance(struct etch_cfi_run *run, uint64_t delta)
{
	uint64_t by, to;

	if (run->in_cie) /* initial instructions have no location */
		return;
	if (__builtin_mul_overflow(delta, run->fde->cie.code_align, &by) || __builtin_add_overflow(run->at, by, &to))
		to = UINT64_MAX;
	etch_cfi_hold(run, to);
}

static inline void etch_cfi_set(struct etch_cfi_run *run, uint64_t reg, uint8_t how, int64_t factor, bool scaled)
{
	struct etch_cfi_reg *r = &run->state.cols[etch_cfi_column(reg)];

	*r = (struct etch_cfi_reg){how, 0, 0, factor};
	if (scaled && __builtin_mul_overflow(factor, run->fde->cie.data_align, &r->off))
		r->how = ETCH_HOW_TOO_BIG;
	run->is_result_saved |= reg < 2 && how != ETCH_HOW_SAME && how != ETCH_HOW_UNDEF;
	run->changed = true;
}

static inline void etch_cfi_set_cfa(struct etch_cfi_run *run, int64_t off, bool scaled)
{
	struct etch_cfi_state *s = &run->state;

	s->cfa_big = scaled && __builtin_mul_overflow(off, run->fde->cie.data_align, &off);
	s->cfa_off = off;
	run->changed = true;
}

static inline void etch_cfi_set_cfa_reg(struct etch_cfi_run *run, uint64_t reg)
{
	run->state.cfa_how = ETCH_HOW_OFFSET;
	run->state.cfa_reg = (uint8_t)(reg < 255 ? reg : 255);
	run->changed = true;
}

static inline void etch_cfi_args_size(struct etch_cfi_run *run, uint64_t size)
{
	if (run->flags & ETCH_CFI_ARGS_SIZE)
		run->args_size = size;
}

/* Reads an unsigned number as an offset; a number beyond 63 bits is malformed. */
static inline int64_t etch_cfi_offset(struct etch_cfi_in *in)
{
	uint64_t v = etch_cfi_uleb(in);

	if (v > INT64_MAX)
		in->bad = true;
	return (int64_t)v;
}

static inline bool etch_cfi_block(struct etch_cfi_in *in, struct etch_cfi_reg *r)
{
	uint64_t length = etch_cfi_uleb(in);

	if (in->bad || length > in->end - in->at || length > UINT32_MAX)
		return false;
	r->length = (uint32_t)length;
	r->off = (int64_t)in->at;
	in->at += length;
	return true;
}

static inline void etch_cfi_restore(struct etch_cfi_run *run, uint64_t reg)
{
	run->state.cols[etch_cfi_column(reg)] = run->initial.cols[etch_cfi_column(reg)];
	run->changed = true;
}

/* Runs an instruction that advances the location. False if it is malformed. */
static inline bool etch_cfi_op_location(struct etch_cfi_run *run, struct etch_cfi_in *in, uint8_t op)
{
	uint64_t to;

	switch (op) {
	case 0x01: /* set_loc */
		to = etch_cfi_pointer(in, run->fde->cie.fde_encoding, run->fde->start);
		if (in->bad || run->in_cie || to < run->at)
			return false;
		etch_cfi_hold(run, to);
		break;
	case 0x02: etch_cfi_advance(run, etch_cfi_u(in, 1)); break;
	case 0x03: etch_cfi_advance(run, etch_cfi_u(in, 2)); break;
	case 0x04: etch_cfi_advance(run, etch_cfi_u(in, 4)); break;
	case 0x1d: etch_cfi_advance(run, etch_cfi_u(in, 8)); break; /* MIPS_advance_loc8, which gas also writes */
	}
	return true;
}

/* Runs an instruction that defines the CFA. False if it is malformed. */
static inline bool etch_cfi_op_cfa(struct etch_cfi_run *run, struct etch_cfi_in *in, uint8_t op)
{
	int64_t off;

	switch (op) {
	case 0x0c: /* def_cfa */
	case 0x12: /* def_cfa_sf */
		etch_cfi_set_cfa_reg(run, etch_cfi_uleb(in));
		off = op == 0x0c ? etch_cfi_offset(in) : etch_cfi_sleb(in);
		etch_cfi_set_cfa(run, off, op == 0x12);
		break;
	case 0x0d: /* def_cfa_register */ etch_cfi_set_cfa_reg(run, etch_cfi_uleb(in)); break;
	case 0x0e: /* def_cfa_offset */
	case 0x13: /* def_cfa_offset_sf */
		off = op == 0x0e ? etch_cfi_offset(in) : etch_cfi_sleb(in);
		etch_cfi_set_cfa(run, off, op == 0x13);
		break;
	case 0x0f: /* def_cfa_expression */
		run->state.cfa_how = ETCH_HOW_EXPR;
		run->changed = true;
		return etch_cfi_block(in, &run->state.cfa_expr);
	}
	return true;
}

/* Runs an instruction that defines the rule of a register. False if it is malformed. */
static inline bool etch_cfi_op_register(struct etch_cfi_run *run, struct etch_cfi_in *in, uint8_t op)
{
	uint64_t reg = etch_cfi_uleb(in), to;
	struct etch_cfi_reg *col = &run->state.cols[etch_cfi_column(reg)];
	int64_t off;

	switch (op) {
	case 0x05: /* offset_extended */
	case 0x14: /* val_offset */
		off = etch_cfi_offset(in);
		etch_cfi_set(run, reg, op == 0x05 ? ETCH_HOW_OFFSET : ETCH_HOW_VAL_OFFSET, off, true);
		break;
	case 0x06: /* restore_extended */ etch_cfi_restore(run, reg); break;
	case 0x07: etch_cfi_set(run, reg, ETCH_HOW_UNDEF, 0, false); break;
	case 0x08: etch_cfi_set(run, reg, ETCH_HOW_SAME, 0, false); break;
	case 0x09: /* register */
		to = etch_cfi_uleb(in);
		etch_cfi_set(run, reg, ETCH_HOW_REGISTER, 0, false);
		col->reg = (uint8_t)(to < 255 ? to : 255);
		break;
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		etch_cfi_set(run, reg, op == 0x10 ? ETCH_HOW_EXPR : ETCH_HOW_VAL_EXPR, 0, false);
		return etch_cfi_block(in, col);
	case 0x11: /* offset_extended_sf */
	case 0x15: /* val_offset_sf */
		off = etch_cfi_sleb(in);
		etch_cfi_set(run, reg, op == 0x11 ? ETCH_HOW_OFFSET : ETCH_HOW_VAL_OFFSET, off, true);
		break;
	case 0x2f: /* GNU_negative_offset_extended */
		off = etch_cfi_offset(in);
		etch_cfi_set(run, reg, ETCH_HOW_OFFSET, -off, true);
		break;
	}
	return true;
}

/* Runs remember_state or restore_state. False if the stack of states is full or empty. */
static inline bool etch_cfi_op_stack(struct etch_cfi_run *run, uint8_t op)
{
	if (op == 0x0a) {
		if (run->depth == sizeof(run->stack) / sizeof(run->stack[0]))
			return false;
		run->stack[run->depth++] = run->state;
		return true;
	}
	if (!run->depth)
		return false;
	run->state = run->stack[--run->depth];
	run->changed = true;
	return true;
}

/* Runs an instruction whose opcode holds no operand. False if it is malformed or unknown. */
static inline bool etch_cfi_op(struct etch_cfi_run *run, struct etch_cfi_in *in, uint8_t op)
{
	switch (op) {
	case 0x00: /* nop */
	case 0x2d: /* GNU_window_save: SPARC only */ return true;
	case 0x01:
	case 0x02:
	case 0x03:
	case 0x04:
	case 0x1d: return etch_cfi_op_location(run, in, op);
	case 0x05:
	case 0x06:
	case 0x07:
	case 0x08:
	case 0x09:
	case 0x10:
	case 0x11:
	case 0x14:
	case 0x15:
	case 0x16:
	case 0x2f: return etch_cfi_op_register(run, in, op);
	case 0x0a:
	case 0x0b: return etch_cfi_op_stack(run, op);
	case 0x0c:
	case 0x0d:
	case 0x0e:
	case 0x0f:
	case 0x12:
	case 0x13: return etch_cfi_op_cfa(run, in, op);
	case 0x2e: /* GNU_args_size */ etch_cfi_args_size(run, etch_cfi_uleb(in)); return true;
	default: return false;
	}
}

/* Runs the most frequent instructions, advance_loc and def_cfa_offset with an operand of one byte, up to the first one
 * of another kind or to where rows are needed. */
static inline void etch_cfi_forward(struct etch_cfi_run *run, struct etch_cfi_in *in)
{
	const uint8_t *bytes = in->cfi->bytes;
	uint64_t limit = run->from < run->fde->end ? run->from : run->fde->end, align = run->fde->cie.code_align;
	uint64_t at = run->at, i = in->at;

	if (align > UINT8_MAX || at >= limit)
		return;
	for (; i + 1 < in->end; i++) {
		if (bytes[i] >> 6 == 1) {
			uint64_t by = (bytes[i] & 0x3f) * align;

			if (by > limit - at)
				break;
			at += by;
		} else if (bytes[i] == 0x0e && bytes[i + 1] < 0x80) {
			run->state.cfa_off = bytes[++i];
			run->state.cfa_big = false;
			run->changed = true;
		} else {
			break;
		}
	}
	run->at = at;
	in->at = i;
}

/* Runs the instructions at [at, end); false if they are malformed. */
static inline bool etch_cfi_program(struct etch_cfi_run *run, uint64_t at, uint64_t end)
{
	struct etch_cfi_in in = {run->fde->cfi, at, end, false};
	int64_t off;

	while (in.at < in.end && !in.bad && (run->in_cie || run->at < run->fde->end)) {
		uint8_t op;

		if (run->at < run->from && !run->in_cie) {
			etch_cfi_forward(run, &in);
			if (in.at >= in.end || run->at >= run->fde->end)
				break;
		}
		op = in.cfi->bytes[in.at++];
		switch (op >> 6) {
		case 1: /* advance_loc */ etch_cfi_advance(run, op & 0x3f); break;
		case 2: /* offset */
			off = etch_cfi_offset(&in);
			etch_cfi_set(run, op & 0x3f, ETCH_HOW_OFFSET, off, true);
			break;
		case 3: /* restore */ etch_cfi_restore(run, op & 0x3f); break;
		default:
			if (!etch_cfi_op(run, &in, op))
				return false;
		}
	}
	return !in.bad;
}

/* Does what etch_cfi_rows() does, but leaves out the rows that end at `from` or below; the first row may begin later
 * than its FDE says. */
static inline void etch_cfi_rows_from(const struct etch_fde *fde, unsigned flags, uint64_t from, etch_cfi_row_fn *fn,
                                      void *ctx)
{
	struct etch_cfi_run run;
	bool good;

	run.fde = fde;
	run.fn = fn;
	run.ctx = ctx;
	run.flags = flags;
	memset(&run.row, 0, sizeof(run.row));
	memset(&run.state, 0, sizeof(run.state));
	run.depth = 0;
	run.args_size = 0;
	run.is_result_saved = false;
	run.at = fde->start;
	run.from = from;
	run.in_cie = true;
	run.changed = true;
	good = etch_cfi_program(&run, fde->cie.program, fde->cie.program_end);
	run.initial = run.state;
	run.in_cie = false;
	good = good && etch_cfi_program(&run, fde->program, fde->program_end);
	if (!good) {
		memset(&run.rule, 0, sizeof(run.rule));
		memset(&run.saves, 0, sizeof(run.saves));
		run.why = "malformed call frame instructions";
		run.step.kind = ETCH_TERM_NONE;
		run.changed = false;
	}
	etch_cfi_hold(&run, fde->end);
	if (run.row.start != run.row.end)
		fn(ctx, &run.row);
}

static inline void etch_cfi_rows(const struct etch_fde *fde, unsigned flags, etch_cfi_row_fn *fn, void *ctx)
{
	etch_cfi_rows_from(fde, flags, 0, fn, ctx);
}

struct etch_cfi_wanted {
	uint64_t at;
	struct etch_cfi_row row;
};

static inline void etch_cfi_row_take(void *ctx, const struct etch_cfi_row *row)
{
	struct etch_cfi_wanted *w = ctx;

	if (w->at - row->start < row->end - row->start)
		w->row = *row;
}

static inline struct etch_cfi_row etch_cfi_row_at(const struct etch_fde *fde, unsigned flags, uint64_t at)
{
	struct etch_cfi_wanted w;
	struct etch_fde upto = *fde;

	memset(&w, 0, sizeof(w));
	w.at = at;
	w.row.rule.kind = ETCH_RULE_UNDEF;
	upto.end = at + 1; /* later rows are not needed */
	etch_cfi_rows_from(&upto, flags, at, etch_cfi_row_take, &w);
	return w.row;
}

#endif
