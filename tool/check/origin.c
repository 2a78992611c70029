/* SPDX-License-Identifier: MIT */
/*
 * Attributes findings to the compiler or to the user. Where .eh_frame contradicts the code (ETCH-C001), the finding is
 * the compiler's if there is evidence that a compiler wrote both, without inline assembly:
 * - the place is in the code of a language runtime, or in a section .plt that a linker has made;
 * - or the place is in a function that DWARF attributes to a language other than assembly (in an object file without
 *    DWARF: the only STT_FILE symbol names a source of such a language), and .eh_frame slips at each such finding in
 *    the function (enum slip):
 *      late: .eh_frame has the right row, but the row begins some instructions too late;
 *      carried on: the place follows a jump, a return or the like, and is reached from elsewhere with another frame,
 *      but in .eh_frame the row of the code before it still applies;
 *      epilogue: the code takes its frame down and returns, while .eh_frame still describes the frame. Such tables are
 *      right at calls, and exceptions need no more than that.
 * - or there is no evidence of where the function comes from, .eh_frame slips in one of these ways at each such
 *    finding in it, and the same holds for many functions of the file: then this is how its compiler writes tables
 *    (clang before 7, icc, icx).
 *
 * Inline assembly that moves the stack pointer looks different: .eh_frame never has a row for it, and the code returns
 * to the row that .eh_frame has throughout. Without evidence a finding is attributed to the user. Findings of the other
 * kinds in runtime_explains() are the compiler's only in a runtime's code.
 */
#include "arch/x86/fast_decoder.h"
#include "check/check.h"
#include "analysis/facts/cfi_file.h"
#include "analysis/runtimes/runtimes.h"
#include "dwarf/lines.h"
#include "shared/search.h"
#include "support/memory.h"

#include <etch/orc_rule.h>
#include <stdlib.h>
#include <string.h>

#define LATE_MOST     128 /* number of bytes by which a row may be late: about one basic block */
#define FUNCTION_MOST 256 /* findings examined per function: each needs a walk over its FDE */

#define EPILOGUE_MOST 64u /* number of instructions */
/* If at least this many functions have slips, the slips show how the file's compiler writes .eh_frame. */
#define FUNCTIONS_FEW 8u

/* The ways in which .eh_frame fails to follow the code at a finding; the head of this file defines them. */
enum slip {
	SLIP_NONE,
	SLIP_LATE,
	SLIP_CARRIED,
	SLIP_EPILOGUE,
};

struct judge {
	struct subject *s;
	struct cfi_file cfi;
	struct runtime_codes runtimes;
	struct lines *lines;
	bool compiled_file; /* the name of the file's source (STT_FILE) is that of a source in a compiled language */
	bool commented;     /* the file has a section .comment, which assemblers write only on request */
	size_t functions;   /* number of functions in which .eh_frame slips at every finding */
	/*
	 * State of instruction_before(). Findings come in order of address, so its walk over a function continues where the
	 * last one ended.
	 */
	uint64_t walk_start, walk_at;
	struct step walk_last;
	bool walk_any;
};

/* ---- language runtimes whose conventions explain findings ------------------------------- */

bool runtime_explains(const struct finding *f)
{
	static const char *const ids[] = {"ETCH-C001", "ETCH-F001", "ETCH-F004", "ETCH-S001",
	                                  "ETCH-S002", "ETCH-S005", "ETCH-S006", "ETCH-S007"};
	size_t i;

	for (i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (!strcmp(f->id, ids[i]))
			return true;
	return false;
}

int subject_runtimes(const struct subject *s, struct runtime_codes *out, struct error *e)
{
	return runtimes_detect(s->file, &s->frames.space, false, out, e);
}

const struct runtime *runtime_at(const struct runtime_codes *r, uint64_t addr)
{
	size_t k = SEARCH(r->count, i, r->list[i].start <= addr);

	while (k && r->list[k - 1].framed) /* its code is inside other code */
		k--;
	return k && addr < r->list[k - 1].end ? r->list[k - 1].runtime : NULL;
}

/* ---- the file and the place ----------------------------------------------------------- */

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	return n > k && !strcmp(name + n - k, end);
}

/* True for an object file with exactly one source file, whose name has the suffix of a compiled language. */
static bool is_compiled(const struct elf_file *f)
{
	static const char *const ends[] = {".c",  ".cc", ".cpp", ".cxx", ".C",   ".c++", ".m",
	                                   ".mm", ".f",  ".f90", ".F90", ".adb", ".d"};
	const char *name = NULL;
	uint32_t i;
	size_t k;

	if (!elf_is_object(f))
		return false;
	for (i = 1; i < f->symbol_count; i++) {
		if (f->symbols[i].type != STT_FILE)
			continue;
		if (name)
			return false;
		name = f->symbols[i].name;
	}
	for (k = 0; name && k < sizeof(ends) / sizeof(ends[0]); k++)
		if (ends_in(name, ends[k]))
			return true;
	return false;
}

static uint64_t space_addr(const struct subject *s, const struct code_section *c, uint64_t addr)
{
	return elf_is_object(s->file) ? c->addr + addr : addr;
}

/*
 * True if there is evidence that a compiler made the code at a finding. Sets *start to the address where that code
 * begins.
 */
static bool by_compiler(struct judge *j, const struct code_section *c, const struct finding *f, uint64_t *start)
{
	long fde;

	if (lines_compiled(j->lines, f->section, f->addr, start)) {
		*start = space_addr(j->s, c, *start);
		return true;
	}
	fde = j->lines || !j->compiled_file ? -1 : cfi_file_at(&j->cfi, space_addr(j->s, c, f->addr));
	if (fde < 0)
		return false;
	*start = j->cfi.fdes[fde].start;
	return true;
}

/* ---- rows from the code and rows of .eh_frame ------------------------------------------ */

/* Returns the row that the analysis has made from the code for an address, or null. */
static const struct row *code_row(const struct subject *s, uint64_t addr)
{
	const struct row_list *l = &s->frames.rows;
	size_t low = SEARCH(l->count, i, l->rows[i].addr <= addr);

	return low ? &l->rows[low - 1] : NULL;
}

/* The row of .eh_frame at an address, with the row before it and the next rows that begin within LATE_MOST bytes. */
struct table_place {
	uint64_t at;
	struct etch_cfi_row here;
	bool found, any; /* any: there are earlier rows; `before` is the rule of the last of them */
	struct etch_rule before;
	struct {
		uint64_t start;
		struct etch_rule rule;
	} next[8];
	size_t next_count;
};

static void table_row(void *ctx, const struct etch_cfi_row *row)
{
	struct table_place *t = ctx;

	if (row->start <= t->at && t->at < row->end) {
		t->here = *row;
		t->found = true;
	} else if (!t->found) {
		t->before = row->rule;
		t->any = true;
	} else if (t->found && row->start - t->at <= LATE_MOST && t->next_count < sizeof(t->next) / sizeof(t->next[0])) {
		t->next[t->next_count].start = row->start;
		t->next[t->next_count++].rule = row->rule;
	}
}

/* True if the instructions from `at` on end exactly at `to`, and control may continue after each of them. */
static bool is_straight(const struct code_section *c, uint64_t at, uint64_t to)
{
	struct step step;

	while (at < to && step_decode(NULL, c->bytes + (at - c->addr), c->addr + c->size - at, at, &step) &&
	       (step.flow == FLOW_NEXT || step.flow == FLOW_BRANCH))
		at += step.len;
	return at == to;
}

/* True if the code has this rule anywhere in [at, to), according to the analysis. */
static bool has_rule(const struct subject *s, uint64_t at, uint64_t to, const struct etch_rule *rule)
{
	const struct row *r = code_row(s, at), *end = s->frames.rows.rows + s->frames.rows.count;

	for (; r && r < end && r->addr < to; r++)
		if (etch_rule_equal(&r->rule, rule))
			return true;
	return false;
}

/*
 * True if a row of .eh_frame is late: a later row in the same straight-line code agrees with the code again, and until
 * there the code never has the rule of the late row. After inline assembly, by contrast, the code returns to the rule
 * that .eh_frame has throughout.
 */
static bool is_late(const struct judge *j, const struct code_section *c, const struct table_place *t)
{
	size_t i;

	for (i = 0; i < t->next_count && is_straight(c, t->at, t->next[i].start); i++) {
		const struct row *r = code_row(j->s, t->next[i].start);

		if (r && etch_rule_equal(&r->rule, &t->next[i].rule))
			return !has_rule(j->s, t->at, t->next[i].start, &t->here.rule);
	}
	return false;
}

/*
 * Returns the last instruction before an address, ignoring padding, or null if `addr` is not the start of an
 * instruction. The code is decoded from the start of the function.
 */
static const struct step *instruction_before(struct judge *j, const struct code_section *c, uint64_t start,
                                             uint64_t addr)
{
	struct step step;

	if (j->walk_start != start || j->walk_at > addr || !j->walk_any) {
		j->walk_start = j->walk_at = start;
		j->walk_any = false;
	}
	while (j->walk_at < addr &&
	       step_decode(NULL, c->bytes + (j->walk_at - c->addr), c->addr + c->size - j->walk_at, j->walk_at, &step)) {
		j->walk_at += step.len;
		if (!step.padding || step.flow == FLOW_STOP) {
			j->walk_last = step;
			j->walk_any = true;
		}
	}
	return j->walk_at == addr && j->walk_any ? &j->walk_last : NULL;
}

static bool is_carried(struct judge *j, const struct code_section *c, uint64_t start, const struct table_place *t)
{
	const struct step *last = instruction_before(j, c, start, t->at);
	const struct row *here = code_row(j->s, t->at), *before = t->at ? code_row(j->s, t->at - 1) : NULL;

	if (!last || t->here.start >= t->at)
		return false;
	switch (last->flow) {
	case FLOW_JUMP:
	case FLOW_JUMP_IND:
	case FLOW_RETURN:
	case FLOW_STOP: return true;
	case FLOW_CALL:
	case FLOW_CALL_IND:
		/* A call that returns has the same row before and after it. So if the rows differ, the call does not return. */
		return here && before && !etch_rule_equal(&here->rule, &before->rule);
	default: return false;
	}
}

static bool same_cfa(const struct etch_rule *a, const struct etch_rule *b)
{
	return a->kind == b->kind && a->cfa == b->cfa && a->cfa_off == b->cfa_off;
}

/* True if the code has the CFA of this rule anywhere in [at, to). */
static bool has_cfa(const struct subject *s, uint64_t at, uint64_t to, const struct etch_rule *rule)
{
	const struct row *r = code_row(s, at), *end = s->frames.rows.rows + s->frames.rows.count;

	for (; r && r < end && r->addr < to; r++)
		if (same_cfa(&r->rule, rule))
			return true;
	return false;
}

/* Returns the address of the return or jump at the end of straight-line code that pushes nothing, or UINT64_MAX. */
static uint64_t epilogue_end(const struct code_section *c, uint64_t at)
{
	uint64_t end = c->addr + c->size;
	struct step step;
	unsigned n;

	for (n = 0; n < EPILOGUE_MOST && at < end; n++, at += step.len) {
		if (!step_decode(NULL, c->bytes + (at - c->addr), end - at, at, &step))
			return UINT64_MAX;
		if (step.flow == FLOW_RETURN || step.flow == FLOW_JUMP || step.flow == FLOW_JUMP_IND)
			return at;
		if (step.flow != FLOW_NEXT || step_pushes(&step))
			return UINT64_MAX;
	}
	return UINT64_MAX;
}

/*
 * True if .eh_frame slips in an epilogue: straight-line code takes its frame down, and leaves the function with the
 * frame of its entry. In one case .eh_frame still has the CFA of the body, which the code does not have again up to the
 * end. In the other, .eh_frame has the right CFA but another place of rbp than the code, as when the row for the pop of
 * rbp begins before the pop.
 */
static bool is_epilogue(const struct judge *j, const struct code_section *c, const struct table_place *t)
{
	const struct row *here = code_row(j->s, t->at), *out;
	uint64_t leaves;

	if (!here || here->rule.kind != ETCH_RULE_CALL || t->here.rule.kind != ETCH_RULE_CALL)
		return false;
	if (t->here.start >= t->at &&
	    (!t->any || (!same_cfa(&t->before, &t->here.rule) && !same_cfa(&here->rule, &t->here.rule))))
		return false;
	leaves = epilogue_end(c, t->at);
	out = leaves != UINT64_MAX ? code_row(j->s, leaves) : NULL;
	return out && out->rule.kind == ETCH_RULE_CALL && out->rule.cfa == ETCH_REG_RSP && out->rule.cfa_off == 8 &&
	       (same_cfa(&here->rule, &t->here.rule) || !has_cfa(j->s, t->at, leaves + 1, &t->here.rule));
}

/* Returns how .eh_frame slips at a finding, as the head of this file defines it. */
static enum slip slip_of(struct judge *j, const struct code_section *c, uint64_t start, uint64_t addr)
{
	struct table_place t = {.at = addr};
	long fde = cfi_file_at(&j->cfi, addr);

	if (fde < 0)
		return SLIP_NONE;
	cfi_file_rows(&j->cfi, (size_t)fde, 0, table_row, &t);
	if (!t.found)
		return SLIP_NONE;
	if (is_late(j, c, &t))
		return SLIP_LATE;
	if (is_carried(j, c, start, &t))
		return SLIP_CARRIED;
	return is_epilogue(j, c, &t) ? SLIP_EPILOGUE : SLIP_NONE;
}

/* ---- findings ---------------------------------------------------------------------------- */

static bool is_plt(const struct elf_file *f, uint32_t section)
{
	return !elf_is_object(f) && !strncmp(f->sections[section].name, ".plt", 4);
}

/*
 * For a finding whose origin is unknown: sets *start to the start of the FDE, which is assumed to be the start of the
 * function. Returns false if there is evidence that the function is assembly.
 */
static bool by_nobody(struct judge *j, const struct code_section *c, const struct finding *f, uint64_t *start)
{
	long fde = cfi_file_at(&j->cfi, space_addr(j->s, c, f->addr));
	int line;

	if (fde < 0 || (elf_is_object(j->s->file) && !j->commented) || lines_source(j->lines, f->section, f->addr, &line))
		return false;
	*start = j->cfi.fdes[fde].start;
	return true;
}

/*
 * Decides the origin of the findings at the start of `list` that are in one function: either all of them are attributed
 * to the compiler, or none. For a function of unknown origin, only records whether .eh_frame slips at all of them.
 * Returns their number.
 */
static size_t function_judge(struct judge *j, struct finding **list, size_t count)
{
	const struct code_section *c = space_of(&j->s->frames.space, list[0]->section);
	uint64_t start, other;
	size_t n = 1, i;
	bool known, slips;

	if (!c || (!(known = by_compiler(j, c, list[0], &start)) && !by_nobody(j, c, list[0], &start)))
		return 1;
	while (n < count && list[n]->section == list[0]->section &&
	       (known ? by_compiler(j, c, list[n], &other) : by_nobody(j, c, list[n], &other)) && other == start)
		n++;
	slips = true;
	for (i = 0; i < n && (slips || !known); i++) {
		enum slip slip = i < FUNCTION_MOST ? slip_of(j, c, start, space_addr(j->s, c, list[i]->addr)) : SLIP_NONE;

		slips &= slip != SLIP_NONE;
		list[i]->slip = (uint8_t)slip;
	}
	for (i = 0; i < n && known; i++) {
		list[i]->compiler = slips;
		list[i]->slip = slips ? list[i]->slip : SLIP_NONE;
	}
	j->functions += slips;
	return n;
}

/*
 * True if a finding is attributed to the compiler because it is in the code of a language runtime or in a .plt that a
 * linker has made.
 */
static bool by_place(const struct judge *j, const struct finding *f)
{
	const struct code_section *c = space_of(&j->s->frames.space, f->section);

	if (!c || !runtime_explains(f))
		return false;
	return runtime_at(&j->runtimes, space_addr(j->s, c, f->addr)) ||
	       (!strcmp(f->id, "ETCH-C001") && is_plt(j->s->file, f->section));
}

static bool is_asked(const struct finding *f) { return !f->compiler && !strcmp(f->id, "ETCH-C001"); }

static void functions_judge(struct judge *j)
{
	struct findings *l = &j->s->found;
	struct finding **asked = mem_alloc(l->count, sizeof(*asked));
	size_t n = 0, i;

	for (i = 0; i < l->count; i++)
		if (is_asked(&l->list[i]))
			asked[n++] = &l->list[i];
	if (n) {
		j->lines = lines_open(j->s->file);
		j->compiled_file = is_compiled(j->s->file);
		j->commented = elf_section_find(j->s->file, ".comment", 1);
	}
	for (i = 0; i < n; i += function_judge(j, asked + i, n - i))
		;
	for (i = 0; i < n; i++)
		if (j->functions < FUNCTIONS_FEW)
			asked[i]->slip = SLIP_NONE;
		else if (asked[i]->slip)
			asked[i]->compiler = true;
	lines_close(j->lines);
	free(asked);
}

int check_origin(struct subject *s, struct error *e)
{
	struct judge j = {.s = s};
	size_t i, n = 0;
	int err;

	findings_sort(&s->found);
	for (i = 0; i < s->found.count; i++)
		n += runtime_explains(&s->found.list[i]);
	if (!n)
		return 0;
	err = subject_runtimes(s, &j.runtimes, e);
	for (i = 0; !err && i < s->found.count; i++)
		s->found.list[i].compiler |= by_place(&j, &s->found.list[i]);
	cfi_file_open(s->file, &s->frames.space, &j.cfi);
	if (!err)
		functions_judge(&j);
	cfi_file_close(&j.cfi);
	free(j.runtimes.list);
	return err;
}
