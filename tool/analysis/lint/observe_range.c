/* SPDX-License-Identifier: MIT */
/*
 * observe_range() makes one pass over the instructions of a code range, in order of address. It adds the findings that
 * need no states (ETCH-D005 to D007, F001, F003, F005, F006, F007, S007). It also decides whether the passes over the
 * states are worth while, since each of them costs as much as making the rows.
 */
#include "analysis/lint/observe_internal.h"

#include "arch/x86/insn.h"
#include "shared/search.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Limit for the ETCH-D006 findings of one code range: in hostile files, instructions may overlap everywhere. */
#define OVERLAPS_MOST 16u
/* The rows of .eh_frame are read only for code ranges of at most this many bytes, since each jump to one reads all of
 * them. If a code range is larger, a symbol decides whether it is a function. */
#define FDE_MOST (64u << 10)
/* Limit for the number of bytes of nops that count as alignment between functions. */
#define PADDING_MOST 256u

/* ---- starts of functions --------------------------------------------------- */

/* Does the row that .eh_frame has for an address fit a function's entry? */
struct first_row {
	uint64_t addr;
	enum witness says;
};

static void first_row_take(void *ctx, const struct etch_cfi_row *row)
{
	struct first_row *x = ctx;
	struct state entry;

	if (row->start > x->addr || row->end <= x->addr || row->rule.kind != ETCH_RULE_CALL)
		return;
	state_entry(&entry);
	x->says = state_witness(&entry, &row->rule);
}

bool observe_is_function(const struct flow_env *env, uint64_t addr)
{
	const struct code_range *p = range_at(env, addr);
	struct first_row x = {addr, WITNESS_SILENT};

	if (!p || p->start != addr)
		return false;
	if (p->fde >= 0 && !p->plt && p->end - p->start <= FDE_MOST) {
		cfi_file_rows(env->cfi, (size_t)p->fde, 0, first_row_take, &x);
		if (x.says != WITNESS_SILENT)
			return x.says == WITNESS_CONFIRMS;
	}
	return p->named || p->plt;
}

/* ---- one instruction ------------------------------------------------------------ */

bool observe_goes_on(const struct observe *o, const struct step *in)
{
	switch (in->flow) {
	case FLOW_NEXT: return in->op != STEP_HALT;
	case FLOW_BRANCH: return true;
	case FLOW_CALL:
	case FLOW_CALL_IND: return flow_comes_back(o->f, in);
	default: return false;
	}
}

/* May the instruction make rsp unknown? A copy from rbp does not: it releases a frame. */
static bool moves_stack(const struct step *in)
{
	if (in->writes >> ETCH_REG_RSP & 1)
		return true;
	switch (in->op) {
	case STEP_SWAP: return in->a == ETCH_REG_RSP || in->b == ETCH_REG_RSP;
	case STEP_MOVE:
	case STEP_ADDRESS: return in->a == ETCH_REG_RSP && in->b != ETCH_REG_RBP && in->b != ETCH_REG_RSP;
	case STEP_LOAD:
	case STEP_EXCHANGE:
	case STEP_ADDREG:
	case STEP_SUBREG:
	case STEP_ALIGN:
	case STEP_CONST:
	case STEP_SUM:
	case STEP_ENTRY:
	case STEP_FETCH:
	case STEP_EXTEND: return in->a == ETCH_REG_RSP;
	default: return false;
	}
}

/* Does a symbol say that a function begins at an address? An FDE does not suffice: one function may have several, e.g.
 * setcontext(). */
static bool is_named(const struct flow_env *env, uint64_t addr)
{
	const struct code_range *p = range_at(env, addr);

	return p && p->start == addr && p->named;
}

/* Adds ETCH-D006 if the next function begins inside the instruction at offset `off`, the last one of the code range.
 * Returns whether it does. */
static bool cut_look(struct observe *o, uint64_t off)
{
	const struct code_range *p = o->f->in.range;
	char inner[DESCRIPTION_MOST];
	struct finding *x;
	struct step s;

	if (!is_named(o->f->in.env, p->end) ||
	    !step_decode(o->f->cache, p->bytes + off, o->f->in.readable - off, p->start + off, &s) ||
	    off + s.len <= o->size)
		return false;
	describe_target(o, p->end, inner);
	x = OBSERVE(o, "ETCH-D006", 0, p->start + off, "%s begins in the middle of this instruction", inner);
	finding_fact_at(x, 0, p->end, "begins here", "%s", inner);
	return true;
}

/* Adds a finding about bytes at offset `to` that do not decode: ETCH-D005 or, if processors may have such an
 * instruction, ETCH-D007. `how` is the beginning of the message, which says how control gets there; the words that say
 * what the bytes are follow it. Returns the finding. */
static struct finding *undecoded_add(struct observe *o, uint64_t to, const char *how)
{
	const uint8_t *bytes = o->f->in.range->bytes + to;
	uint64_t addr = o->f->in.range->start + to;
	/* If the second decoder knows the bytes, they are an instruction, too. */
	bool reserved = insn_is_reserved(bytes, o->size - to) || insn_second_length(bytes, o->size - to, addr);
	unsigned n, byte[4] = {0};

	for (n = 0; n < 4 && to + n < o->size; n++)
		byte[n] = bytes[n];
	return OBSERVE(o, reserved ? "ETCH-D007" : "ETCH-D005", 0, addr, "%s %s: %02x %02x %02x %02x", how,
	               reserved ? "an instruction that this etch does not decode" : "bytes that are not an instruction",
	               byte[0], byte[1], byte[2], byte[3]);
}

/* Adds ETCH-D005 or D007: control gets from offset `off`, by a jump or by falling through, to bytes at offset `to` that
 * do not decode. */
static void no_instruction(struct observe *o, uint64_t off, uint64_t to, bool jumps)
{
	char insn[DESCRIPTION_MOST];
	struct finding *x;

	if (cut_look(o, to))
		return;
	describe_insn(o, off, insn);
	x = undecoded_add(o, to, jumps ? "a jump leads to" : "execution runs into");
	OBSERVE_FACT_AT(o, x, off, "comes from", "%s", insn);
}

/* Adds ETCH-D005 or D007 if a function begins here according to a symbol, and its first bytes do not decode. */
static void start_look(struct observe *o)
{
	const struct code_range *p = o->f->in.range;
	struct step s;

	if (!step_decode(o->f->cache, p->bytes, o->size, p->start, &s) && !cut_look(o, 0))
		undecoded_add(o, 0, "the function begins with");
}

/*
 * Returns the address outside of the code range that control reaches from `at` on, after the nops and zero bytes with
 * which assemblers and linkers align the next function. Zero bytes are the instruction `add %al, (%rax)`; if that does
 * not fault, control continues after it. A code range that was inferred only from the very jump that leads here does
 * not count as a function.
 */
static uint64_t past_padding(struct observe *o, const struct code_section *c, uint64_t at)
{
	uint64_t end = c->addr + c->size, most = at + PADDING_MOST;
	const struct code_range *p;
	struct step s;

	while (at < end && at < most && (!(p = range_at(o->f->in.env, at)) || p->inferred)) {
		const uint8_t *bytes = c->bytes + (at - c->addr);

		if (!*bytes)
			at++;
		else if (step_decode(o->f->cache, bytes, end - at, at, &s) && s.padding && s.flow == FLOW_NEXT)
			at += s.len;
		else
			break;
	}
	return at;
}

/* Does a direct jump or a jump table of the code range lead to an offset in [from, to]? */
static bool is_jumped_to(const struct flow *f, uint64_t from, uint64_t to)
{
	uint64_t start = f->in.range->start;
	size_t i;
	unsigned k;

	for (i = 0; i < f->step_count; i++) {
		const struct step *s = &f->steps[i];

		if (!(f->seen[i] & FLOW_WALKED))
			continue;
		if ((s->flow == FLOW_BRANCH || s->flow == FLOW_JUMP) && (uint64_t)s->imm - start - from <= to - from)
			return true;
		if (s->flow == FLOW_JUMP_IND && s->number)
			for (k = 0; k < f->jumps[s->number - 1].entries; k++)
				if (jump_table_target(f, &f->jumps[s->number - 1].what, k) - start - from <= to - from)
					return true;
	}
	return false;
}

/* Is the last instruction, at `off`, only reached if a call in front of it returns, with nothing but padding between
 * the two? Compilers end a function with a call only if it does not return, and .size may include the padding. */
static bool is_after_call(const struct observe *o, uint64_t off, const struct step *in)
{
	return in->padding && o->ended != NO_OFFSET && !is_jumped_to(o->f, o->ended, off);
}

/* Adds ETCH-F001 or F006 if execution falls through the last instruction of a code range, at `off`. */
static void falls_out(struct observe *o, uint64_t off, const struct step *in)
{
	const struct flow_env *env = o->f->in.env;
	const struct code_section *c = space_at(env->space, o->f->in.range->start);
	uint64_t end;
	char insn[DESCRIPTION_MOST], next[DESCRIPTION_MOST];
	struct finding *x;

	/* A call at the very end is assumed not to return. */
	if ((in->flow != FLOW_NEXT && in->flow != FLOW_BRANCH) || in->op == STEP_SYSCALL || is_after_call(o, off, in))
		return;
	describe_insn(o, off, insn);
	end = past_padding(o, c, o->f->in.range->end);
	if (end >= c->addr + c->size) {
		x = OBSERVE(o, "ETCH-F006", 0, o->f->in.range->start + off, "execution runs past the end of the section%s",
		            in->flow == FLOW_BRANCH ? " if this branch is not taken" : "");
		OBSERVE_FACT_AT(o, x, off, "last instruction", "%s", insn);
	} else if (is_named(env, end)) {
		describe_target(o, end, next);
		x = OBSERVE(o, "ETCH-F001", 0, o->f->in.range->start + off, "falls through into %s%s", next,
		            in->flow == FLOW_BRANCH ? " if the branch is not taken" : "");
		OBSERVE_FACT_AT(o, x, off, "last instruction", "%s", insn);
		finding_fact_at(x, 0, end, "next function", "%s", next);
	}
}

/* Does a symbol or an FDE say that a function, or a part of one, begins at an address? */
static bool begins_code(const struct flow_env *env, uint64_t addr)
{
	const struct code_range *p = range_at(env, addr);

	return p && p->start == addr && !p->inferred;
}

/*
 * Adds ETCH-F001 or F006 if a jump at `off` leads past the end of its function: to the end of the section, or to the
 * padding in front of another function. A jump to the very start of another function is a tail call. `entry` is the
 * number of the jump table's entry that leads there, or -1 for a direct jump.
 */
static void jumps_past(struct observe *o, uint64_t off, uint64_t target, long entry)
{
	const struct flow_env *env = o->f->in.env;
	const struct code_section *c = space_at(env->space, o->f->in.range->start);
	const struct code_range *p = range_at(env, target);
	char insn[DESCRIPTION_MOST], next[DESCRIPTION_MOST], by[64] = "the jump";
	struct finding *x;
	uint64_t end;

	if (target < c->addr || target > c->addr + c->size || (p && !p->inferred))
		return;
	end = past_padding(o, c, target);
	if (end < c->addr + c->size && (end == target || end == o->f->in.range->start || !begins_code(env, end)))
		return;
	describe_insn(o, off, insn);
	if (entry >= 0)
		snprintf(by, sizeof(by), "entry %ld of its jump table", entry);
	if (end >= c->addr + c->size) {
		x = OBSERVE(o, "ETCH-F006", 0, o->f->in.range->start + off, "%s leads past the end of the section", by);
		OBSERVE_FACT_AT(o, x, off, "the jump", "%s", insn);
	} else {
		describe_target(o, end, next);
		x = OBSERVE(o, "ETCH-F001", 0, o->f->in.range->start + off,
		            "%s leads past the end of the function, from where execution falls through into %s", by, next);
		OBSERVE_FACT_AT(o, x, off, "the jump", "%s", insn);
		finding_fact_at(x, 0, end, "next function", "%s", next);
	}
	/* clang leaves such entries in a table where it knows that the index cannot have their values. */
	if (entry >= 0)
		x->compiler = true;
}

/* Adds ETCH-F007 if, according to symbols, a jump at `off` leads into the middle of another function. A jump to one of
 * its entries, or between a function and its cold part, does not count. */
static void jumps_into(struct observe *o, uint64_t off, uint64_t target)
{
	const struct flow_env *env = o->f->in.env;
	const struct code_range *p = range_at(env, target);
	char insn[DESCRIPTION_MOST], to[DESCRIPTION_MOST];
	struct finding *x;
	uint32_t i;

	if (!p || p == o->f->in.range || p->start == target || !p->named || !o->f->in.range->named || p->inferred ||
	    p->open || p->plt)
		return;
	for (i = 0; i < p->entry_count; i++)
		if (env->entries[p->entry + i] == target)
			return;
	describe_insn(o, off, insn);
	describe_target(o, target, to);
	x = OBSERVE(o, "ETCH-F007", 0, o->f->in.range->start + off, "jumps to %s, in the middle of another function", to);
	OBSERVE_FACT_AT(o, x, off, "the jump", "%s", insn);
	finding_fact_at(x, 0, target, "jumps to", "%s", to);
}

/* Adds ETCH-F001 or F006 for entries of jump tables. Only an entry that leads to the very end of the code range counts,
 * since the assumed bound of a table may exceed its size. */
static void tables_look(struct observe *o)
{
	const struct flow *f = o->f;
	size_t i;
	unsigned k;

	for (i = 0; i < f->jump_count; i++) {
		const struct flow_jump *j = &f->jumps[i];
		const struct step *in = &f->steps[j->step];

		if (!j->table || !j->what.off || !j->has_state || j->state.weak || j->state.dead ||
		    elf_is_object(f->in.env->file) || in->flow != FLOW_JUMP_IND || !(f->seen[j->step] & FLOW_WALKED))
			continue;
		for (k = 0; k < j->what.most; k++)
			if (jump_table_target(f, &j->what, k) == f->in.range->end) {
				jumps_past(o, f->step_at[j->step], f->in.range->end, (long)k);
				break;
			}
	}
}

/* Adds ETCH-F005 for a call into the middle of its own function, once per target. */
static void inner_call(struct observe *o, uint64_t off, const struct step *in)
{
	const struct flow *f = o->f;
	uint64_t target = (uint64_t)in->imm;
	char insn[DESCRIPTION_MOST], to[DESCRIPTION_MOST];
	struct finding *x;
	uint32_t i;

	for (i = 0; i < f->in.range->entry_count; i++) /* a function has few entries */
		if (f->in.env->entries[f->in.range->entry + i] == target)
			return;
	for (i = 0; i < INNER_MOST && i < o->inner_count; i++)
		if (o->inner[i] == target)
			return;
	o->inner[o->inner_count++ % INNER_MOST] = target;
	describe_insn(o, off, insn);
	describe_target(o, target, to);
	x = OBSERVE(o, "ETCH-F005", 0, f->in.range->start + off, "calls %s, in the middle of its own function", to);
	OBSERVE_FACT_AT(o, x, off, "the call", "%s", insn);
	finding_fact_at(x, 0, target, "call target", "%s", to);
}

/* Adds the findings about an instruction that need no state. Only called where control certainly gets there. */
static void step_look(struct observe *o, uint64_t off, const struct step *in)
{
	const struct flow *f = o->f;
	uint64_t next = off + in->len, to = (uint64_t)in->imm - f->in.range->start;

	if (in->flow == FLOW_BRANCH || in->flow == FLOW_JUMP) {
		if (to < o->size && !f->at[to])
			no_instruction(o, off, to, true);
		else if (to >= o->size && !((uint64_t)in->imm & (FLOW_EXTERN | FLOW_SLOT))) {
			jumps_past(o, off, (uint64_t)in->imm, -1);
			jumps_into(o, off, (uint64_t)in->imm);
		}
	} else if (in->flow == FLOW_CALL && to < o->size && to) {
		inner_call(o, off, in);
	}
	if (next < o->size ? f->at[next] != 0 : !observe_goes_on(o, in))
		return;
	if (next >= o->size)
		falls_out(o, off, in);
	else if (observe_goes_on(o, in) && in->flow != FLOW_CALL && in->flow != FLOW_CALL_IND && in->op != STEP_SYSCALL)
		no_instruction(o, off, next, false);
}

/* ---- instructions inside others --------------------------------------------------- */

/* Adds ETCH-D006 for two overlapping instructions at the offsets `outer` and `inner`, if a direct branch leads to the
 * inner one, or a function symbol is there. */
static void overlap_report(struct observe *o, uint64_t outer, uint64_t inner)
{
	const struct flow *f = o->f;
	char a[DESCRIPTION_MOST], b[DESCRIPTION_MOST], c[DESCRIPTION_MOST];
	struct finding *x;
	size_t i;

	describe_insn(o, outer, a);
	describe_insn(o, inner, b);
	for (i = 0; i < f->step_count; i++) {
		const struct step *s = &f->steps[i];

		if (!(f->seen[i] & FLOW_WALKED) || (s->flow != FLOW_BRANCH && s->flow != FLOW_JUMP) ||
		    (uint64_t)s->imm != f->in.range->start + inner)
			continue;
		describe_insn(o, f->step_at[i], c);
		x = OBSERVE(o, "ETCH-D006", 0, f->in.range->start + f->step_at[i],
		            inner == outer + 1 && !strncmp(a, "lock", 4) ? "branches past a lock prefix"
		                                                         : "branches into the middle of an instruction");
		OBSERVE_FACT_AT(o, x, f->step_at[i], "the branch", "%s", c);
		OBSERVE_FACT_AT(o, x, outer, "one way to read the bytes", "%s", a);
		OBSERVE_FACT_AT(o, x, inner, "the other", "%s", b);
		return;
	}
	for (i = 0; i < f->in.range->entry_count; i++) {
		if (f->in.env->entries[f->in.range->entry + i] != f->in.range->start + inner)
			continue;
		x = OBSERVE(o, "ETCH-D006", 0, f->in.range->start + inner,
		            "a function begins in the middle of an instruction of another");
		OBSERVE_FACT_AT(o, x, outer, "one way to read the bytes", "%s", a);
		OBSERVE_FACT_AT(o, x, inner, "the other", "%s", b);
	}
}

/* Looks for reached instructions that begin inside another one, and adds ETCH-D006. */
static void overlaps_look(struct observe *o)
{
	const struct flow *f = o->f;
	uint64_t off, end = 0, outer = 0;
	unsigned reported = 0;

	for (off = 0; off < o->size && reported < OVERLAPS_MOST; off++) {
		if (!flow_walked(f, off))
			continue;
		if (off < end) {
			overlap_report(o, outer, off);
			reported++;
		}
		if (off + f->steps[f->at[off] - 1].len > end) {
			end = off + f->steps[f->at[off] - 1].len;
			outer = off;
		}
	}
}

/* ---- targets outside of the code --------------------------------------------------------- */

/* Is a target data, or in no section? Address 0 belongs to an undefined weak symbol, for which the code tests first. */
static bool is_missing(const struct flow_env *env, uint64_t target)
{
	const struct elf_file *file = env->file;
	uint64_t n = target & ~FLOW_EXTERN;

	if (target & FLOW_SLOT)
		return false;
	if (target & FLOW_EXTERN)
		return n && n < file->symbol_count && file->symbols[n].section &&
		       !(file->sections[file->symbols[n].section].sh.sh_flags & SHF_EXECINSTR);
	return target && !elf_is_object(file) && !space_at(env->space, target);
}

/* Is a target the end of the section that contains the code range? ETCH-F006 reports such jumps. */
static bool is_section_end(const struct flow *f, uint64_t target)
{
	const struct code_section *c = space_at(f->in.env->space, f->in.range->start);

	return c && target == c->addr + c->size;
}

/* Does the operand of the instruction at `off` have a relocation, in an object file? */
static bool is_relocated(const struct flow *f, uint64_t off, unsigned len)
{
	const struct flow_env *env = f->in.env;
	uint64_t addr = f->in.range->start + off;
	size_t i = SEARCH(env->reloc_count, k, env->relocs[k].addr < addr);

	return i < env->reloc_count && env->relocs[i].addr - addr < len;
}

/* Does a direct call or jump in an object file lead out of its section, without a relocation that says where? */
static bool leaves_section(const struct flow *f, uint64_t off, const struct step *in)
{
	const struct code_section *c = space_at(f->in.env->space, f->in.range->start);
	uint64_t target = (uint64_t)in->imm;

	return elf_is_object(f->in.env->file) && !(target & (FLOW_EXTERN | FLOW_SLOT)) && c &&
	       target - c->addr >= c->size && !is_relocated(f, off, in->len);
}

/* Returns the section that contains a target which is not code; 0 if it is in none, or if that is unknown. */
static uint32_t section_of(const struct elf_file *file, uint64_t target)
{
	if (target & FLOW_EXTERN)
		return file->symbols[target & ~FLOW_EXTERN].section;
	return elf_is_object(file) ? 0 : elf_section_at(file, target);
}

/* Adds ETCH-F003: the target of a direct call or jump at `off` is not code. */
static void missing_report(struct observe *o, uint64_t off, uint64_t target)
{
	const struct elf_file *file = o->f->in.env->file;
	uint32_t section = section_of(file, target);
	char insn[DESCRIPTION_MOST], to[DESCRIPTION_MOST];
	struct finding *x;

	describe_insn(o, off, insn);
	describe_target(o, target, to);
	if (elf_is_object(file) && !(target & FLOW_EXTERN))
		x = OBSERVE(o, "ETCH-F003", 0, o->f->in.range->start + off,
		            "its target is outside of its section, and no relocation says where");
	else if (section)
		x = OBSERVE(o, "ETCH-F003", 0, o->f->in.range->start + off, "its target %s is data, in section %s", to,
		            file->sections[section].name);
	else
		x = OBSERVE(o, "ETCH-F003", 0, o->f->in.range->start + off, "its target %s is outside all sections of the file",
		            to);
	OBSERVE_FACT_AT(o, x, off, "the instruction", "%s", insn);
}

/* May `target`, to which the analysis has seen a direct call or jump lead, be no code? */
static bool may_miss(const struct flow *f, uint64_t target)
{
	const struct code_section *c = space_at(f->in.env->space, f->in.range->start);

	return is_missing(f->in.env, target) || (elf_is_object(f->in.env->file) && !(target & (FLOW_EXTERN | FLOW_SLOT)) &&
	                                         c && target - c->addr >= c->size);
}

/* Does any exit or edge of the code range lead to a target that may be no code? */
static bool any_missing(const struct flow *f)
{
	size_t i;

	for (i = 0; i < f->found.exit_count; i++)
		if (f->found.exits[i].to == NO_RANGE && may_miss(f, f->found.exits[i].target))
			return true;
	for (i = 0; i < f->found.edge_count; i++)
		if (may_miss(f, f->found.edges[i].target))
			return true;
	return false;
}

/* Is the instruction at `off` a direct call or jump whose target is not code? */
static bool misses(const struct flow *f, uint64_t off, const struct step *in)
{
	uint64_t target = (uint64_t)in->imm;

	if ((in->flow != FLOW_CALL && in->flow != FLOW_JUMP && in->flow != FLOW_BRANCH) || flow_inside(f, target) ||
	    (in->flow != FLOW_CALL && is_section_end(f, target)))
		return false;
	return is_missing(f->in.env, target) || leaves_section(f, off, in);
}

/* ---- a code range ---------------------------------------------------------------------------- */

/* Does the code range jump to the start of a function while it has a frame? */
static bool exits_with_frame(const struct flow *f)
{
	uint64_t asked = 0;
	size_t i;

	for (i = 0; i < f->found.exit_count; i++) {
		const struct flow_exit *x = &f->found.exits[i];

		if (x->kind != EXIT_PART || x->to == NO_RANGE || x->target == asked)
			continue;
		asked = x->target;
		if (observe_is_function(f->in.env, asked))
			return true;
	}
	return false;
}

/* Is there a basic block without a row for its state, so that a join of paths has lost the frame? */
static bool loses_frame(const struct flow *f)
{
	struct etch_rule rule;
	size_t k;

	for (k = 0; k < f->state_count; k++) {
		const struct state *s = &f->states[k];

		if (!(f->state_live[k] & LIVE) || s->dead || s->reg[ETCH_REG_RSP].kind == VALUE_CFA ||
		    s->reg[ETCH_REG_RBP].kind == VALUE_CFA)
			continue;
		state_rule(s, &rule);
		if (rule.kind == ETCH_RULE_UNDEF)
			return true;
	}
	return false;
}

/* Visits the instructions in order of address, except for those inside others, and the unreachable gaps between them.
 * `missing`: some target is not code. Returns the number of instructions visited. */
static size_t steps_look(struct observe *o, bool missing)
{
	struct flow *f = o->f;
	uint64_t off = 0, gap = 0;
	uint32_t before = NO_STEP;
	bool dead = false, weak = false;
	size_t visited = 0;

	while (off < o->size) {
		uint32_t i = f->at[off] - 1, k;
		const struct step *in;

		if (!f->at[off] || !(f->seen[i] & FLOW_WALKED)) {
			off++;
			continue;
		}
		k = f->leader[i];
		if (k && (f->state_live[k - 1] & LIVE)) {
			dead = f->states[k - 1].dead;
			weak = f->states[k - 1].weak;
		}
		if (!dead && gap < off) { /* the end of an unreachable gap */
			observe_dead(o, gap, off, before);
			gap = off;
		}
		visited++;
		in = &f->steps[i]; /* observe_dead() may have decoded further steps and moved the array */
		if (!in->padding)
			o->ended = NO_OFFSET;
		if (!dead) {
			o->stack |= moves_stack(in);
			o->flag |= in->direction == DIRECTION_DOWN;
			if (!weak && o->certain)
				step_look(o, off, in);
			if (missing && !weak && o->certain && misses(f, off, in))
				missing_report(o, off, (uint64_t)in->imm);
			in = &f->steps[i]; /* so may the findings */
			gap = off + in->len;
			before = i;
		}
		if (in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND || in->op == STEP_SYSCALL)
			o->ended = off + in->len;
		off += in->len;
	}
	if (gap < o->size)
		observe_dead(o, gap, o->size, before);
	return visited;
}

/*
 * Adds ETCH-S007 if all exits of a function without .eh_frame take more bytes off the stack than a call puts there, by
 * the same number. The analysis assumes that these bytes were pushed before the function was entered (flow.in.pushed),
 * as for the resolvers of ld.so; but that is not true of a function that other files call.
 */
static void pushed_look(struct observe *o)
{
	const struct flow *f = o->f;
	char insn[DESCRIPTION_MOST];
	struct finding *x;
	uint64_t off;

	if (!f->in.pushed || !f->in.range->exported || f->in.range->fde >= 0 || f->in.start == START_PART)
		return;
	for (off = 0; off < o->size; off++)
		if (flow_walked(f, off) && f->steps[f->at[off] - 1].flow == FLOW_RETURN)
			break;
	if (off == o->size)
		return;
	x = OBSERVE(o, "ETCH-S007", 0, f->in.range->start + off,
	            "returns with %" PRId32 " bytes more taken off the stack than a call puts there", f->in.pushed);
	describe_insn(o, off, insn);
	OBSERVE_FACT_AT(o, x, off, "here", "%s", insn);
}

/* May a pass over the states find anything? If not, it is left out, since it costs as much as making the rows. */
static bool wants_stack_pass(const struct observe *o)
{
	const struct flow *f = o->f;

	return f->found.returns_unbalanced || f->found.exit_sp_mismatch || f->found.exit_sp_unknown || o->stack ||
	       exits_with_frame(f) || loses_frame(f);
}

/* Is the state that was assumed at the start of a code range certain? */
static bool is_certain(const struct flow *f)
{
	const struct code_range *p = f->in.range;

	if (f->in.pushed || f->found.replaces_sp || p->outermost)
		return false;
	return p->fde >= 0 || (p->named && f->in.start != START_PART);
}

void observe_range(struct flow *f, struct findings *out)
{
	const struct code_range *p = f->in.range;
	const struct code_section *c = space_at(f->in.env->space, p->start);
	struct observe o = {.f = f, .out = out, .size = p->end - p->start, .ended = NO_OFFSET};
	size_t visited, walked = 0, i;
	uint64_t fresh;

	for (i = 0; i < f->step_count; i++)
		walked += f->seen[i] / FLOW_WALKED & 1;
	if (!walked && p->named && !p->plt && c && !p->part)
		start_look(&o);
	if (!walked || p->plt || !c || code_is_sigreturn(p->bytes, o.size))
		return;
	if (elf_is_object(f->in.env->file))
		o.base = c->addr;
	o.certain = is_certain(f);
	fresh = f->found.insn_count;
	visited = steps_look(&o, any_missing(f));
	if (o.certain)
		tables_look(&o);
	pushed_look(&o);
	if (visited != walked)
		overlaps_look(&o);
	if (wants_stack_pass(&o))
		observe_stack(&o);
	if (o.flag)
		observe_flag(&o);
	f->found.insn_count = fresh; /* instructions that were decoded only for findings do not count */
}
