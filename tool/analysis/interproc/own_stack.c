/* SPDX-License-Identifier: MIT */
/*
 * Decides whether a file has code with a stack of its own and, after the last round, which code ranges contain such
 * code. Converts the rows of that code, which were made as if the code were C. Interface: own_stack_ranges.h.
 */
#include "analysis/interproc/own_stack_ranges.h"

#include "analysis/interproc/work.h"
#include "support/memory.h"

#include <string.h>

/* ---- which files ------------------------------------------------------------------------ */

/* Takes over the rule for the release that a library's name tells. Sets `differ` if two names give different rules, or
 * if a release is unknown. */
static void name_take(const struct flow_runtime *runtime, struct own_stack *h, const char *name)
{
	struct etch_rule rule;
	int is = runtime->library(name, &rule);

	if (!is)
		return;
	if (is > 0 && (h->rule.kind == ETCH_RULE_UNDEF || !memcmp(&h->rule, &rule, sizeof(rule))))
		h->rule = rule;
	else
		h->differ = true;
}

/* Sets *out to the dynamic string table. Returns its size in bytes, or 0 if there is none or it does not end with a
 * null byte. */
static size_t strings_of(const struct elf_file *f, const char **out)
{
	uint64_t at, size;

	if (!elf_dynamic(f, DT_STRTAB, &at) || !elf_dynamic(f, DT_STRSZ, &size) || !size)
		return 0;
	*out = (const char *)elf_at(f, at, size);
	return *out && !(*out)[size - 1] ? (size_t)size : 0;
}

void own_stack_open(struct work *w)
{
	const struct elf_file *f = w->file;
	const char *strings = NULL;
	size_t size = elf_is_object(f) ? 0 : strings_of(f, &strings);
	uint32_t i;

	for (i = 0; size && i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];
		const uint8_t *bytes = p->p_type == PT_DYNAMIC ? elf_at(f, p->p_vaddr, p->p_filesz) : NULL;
		uint64_t at;
		Elf64_Dyn d = {.d_tag = 1};

		for (at = 0; bytes && d.d_tag != DT_NULL && at + sizeof(d) <= p->p_filesz; at += sizeof(d)) {
			memcpy(&d, bytes + at, sizeof(d));
			if ((d.d_tag == DT_NEEDED || d.d_tag == DT_SONAME) && d.d_un.d_val < size)
				name_take(w->env.runtime, &w->frames.own_stack, strings + d.d_un.d_val);
		}
	}
	if (w->frames.own_stack.differ)
		w->frames.own_stack = (struct own_stack){0};
	w->env.own_stack = w->frames.own_stack.rule.kind != ETCH_RULE_UNDEF;
}

void own_stack_take(struct own_stack *h, const struct etch_rule *run)
{
	h->differ |= h->run && memcmp(&h->rule, run, sizeof(*run));
	h->rule = *run;
	h->run = true;
}

void own_stack_decide(struct work *w)
{
	bool is = w->frames.own_stack.rule.kind != ETCH_RULE_UNDEF && !w->frames.own_stack.differ;
	size_t i;

	if (is == w->env.own_stack)
		return;
	w->env.own_stack = is;
	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];

		if (!w->env.runtime->may_be(&w->ranges.list[i]))
			continue;
		if (s->kind == RANGE_DATA) {
			s->kind = RANGE_FUNCTION;
			s->was_empty = false;
		}
		s->run |= RUN_NEWS;
	}
}

/* ---- rows ---------------------------------------------------------------------------------- */

/*
 * Converts a rule of such code. The analysis assumed that this was a C function, with the return address at rsp at its
 * start. Only one fact is taken from the result: how far rsp is below its value at the start. That distance is added to
 * the rule `run` of the jump from C. If it is unknown, or more than `reserved`, the rule becomes UNDEF.
 */
static void rule_convert(const struct etch_rule *run, int32_t reserved, struct etch_rule *r)
{
	int32_t down = r->cfa_off - 8;
	bool known = r->kind == ETCH_RULE_CALL && r->cfa == ETCH_REG_RSP && down >= 0 && down <= reserved;

	*r = known ? *run : (struct etch_rule){0};
	if (!known)
		return;
	r->cfa_off += down;
	if (r->bp == ETCH_BP_RSP)
		r->bp_off += down;
}

static void range_convert(const struct work *w, struct range_state *s)
{
	struct range_rows *r = &s->rows;
	uint32_t i;

	for (i = 0; i < r->count; i++)
		rule_convert(&w->frames.own_stack.rule, w->env.runtime->reserved, &r->rows[i].rule);
}

/* Is a code range C code? C code is called, or returns; code with a stack of its own does neither. */
static bool is_c(const struct work *w, size_t i)
{
	return w->state[i].returns_as_c || (w->state[i].entered & ENTRY_CALLED);
}

/* Marks the functions that tail-call C code: they are C code themselves, e.g. frame_dummy in crtbegin.o. */
static void tails_mark(struct work *w)
{
	size_t i;

	for (i = 0; i < w->graph.tails.count; i++) {
		const struct link *x = &w->graph.tails.list[i];

		if (x->kind == EXIT_TAIL && x->start && !x->outside && !w->state[w->graph.place[x->from]].non_c_frame &&
		    (w->ranges.list[w->graph.place[x->to]].fde >= 0 ||
		     (!w->state[w->graph.place[x->to]].non_c_frame && is_c(w, w->graph.place[x->to]))))
			w->state[w->graph.place[x->from]].returns_as_c = true;
	}
}

void own_stack_rows(struct work *w)
{
	size_t i;

	if (!w->env.own_stack)
		return;
	tails_mark(w);
	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];

		if (!w->env.runtime->may_be(&w->ranges.list[i]) || (!s->non_c_frame && is_c(w, i)))
			continue;
		if (s->non_c_frame && !is_c(w, i)) {
			range_convert(w, s);
			s->non_c_frame = false;
		} else {
			s->non_c_frame = true; /* it may be C or not, so it gets no rows */
		}
	}
}

/* ---- code that jumps connect with such code ------------------------------------- */

/*
 * If jumps connect two pieces of code, in either direction, and one of them has no frames of C's kind, neither has the
 * other. Union-find gives the sets of code ranges that jumps connect.
 */

/* Returns the representative of the set that contains code range i. All code ranges of a set share non_c_frame. Uses
 * path halving. */
static uint32_t set_of(uint32_t *in, uint32_t i)
{
	while (in[i] != i)
		i = in[i] = in[in[i]];
	return i;
}

/* Joins the sets of two code ranges, unless an FDE or the PLT says what one of them is. */
static void non_c_frames_join(const struct work *w, uint32_t *in, uint32_t from, uint32_t to)
{
	const struct code_range *a = &w->ranges.list[from], *b = &w->ranges.list[to];

	if (a->fde < 0 && b->fde < 0 && !a->plt && !b->plt)
		in[set_of(in, from)] = set_of(in, to);
}

/* Joins the sets of code ranges that edges connect: if code jumps into the middle of a code range that has been cut
 * there since, there is an edge, but no link. */
static void non_c_edges(const struct work *w, uint32_t *in)
{
	uint32_t k = 0;
	size_t i;

	for (i = 0; i < w->graph.edges.count; i++) {
		while (k + 1 < w->ranges.count && w->ranges.list[k + 1].start <= w->graph.edges.list[i].target)
			k++;
		if (w->ranges.list[k].start <= w->graph.edges.list[i].target &&
		    w->graph.edges.list[i].target < w->ranges.list[k].end)
			non_c_frames_join(w, in, w->graph.edges.list[i].from, k);
	}
}

void non_c_frames_spread(struct work *w)
{
	uint32_t *in = mem_alloc(w->ranges.count, sizeof(*in));
	bool *non_c_frame = mem_zero(w->ranges.count, sizeof(*non_c_frame)); /* by representative */
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		in[i] = (uint32_t)i;
	for (i = 0; i < w->graph.tails.count; i++)
		if (w->graph.tails.list[i].to != NO_RANGE)
			non_c_frames_join(w, in, w->graph.place[w->graph.tails.list[i].from],
			                  w->graph.place[w->graph.tails.list[i].to]);
	if (w->env.own_stack)
		non_c_edges(w, in);
	for (i = 0; i < w->ranges.count; i++)
		non_c_frame[set_of(in, (uint32_t)i)] |= w->state[i].non_c_frame;
	for (i = 0; i < w->ranges.count; i++)
		w->state[i].non_c_frame = non_c_frame[set_of(in, (uint32_t)i)];
	free(in);
	free(non_c_frame);
}
