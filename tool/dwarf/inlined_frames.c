/* SPDX-License-Identifier: MIT */
/*
 * Finds inlined functions in DWARF (DWARF 5, 3.3.8). libdw's dwarf_getscopes() walks a unit's whole tree at each call;
 * here the tree of each unit that has an address in a profile is walked once, and the ranges of its functions are
 * sorted.
 */
#include "dwarf/inlined_frames.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "shared/search.h"
#include "support/memory.h"
#include "support/sort.h"

/* The greatest depth of scopes that is followed. */
#define DEPTH_MOST 256
/* The greatest number of ranges that are read in all: DIEs of a malformed file can share lists of ranges. */
#define RANGES_MOST 50000000u
/* The greatest number of ranges examined for one address, backwards from the one that begins nearest before it. */
#define CANDIDATES_MOST 4096u

struct code_span {
	Dwarf_Addr start, end;
	Dwarf_Addr reach; /* the greatest end of this span and those before it */
	uint32_t depth;   /* in a span of a function: the depth of its DIE in the tree */
	uint32_t unit;    /* in a span of a unit: the number of the unit */
	Dwarf_Die die;
};

struct span_list {
	struct code_span *list;
	size_t count, capacity;
};

struct unit {
	Dwarf_Die die;
	Dwarf_Addr bias;
	struct span_list functions;
	bool read;
};

struct inlined_frames {
	Dwfl_Module *module;
	bool lines;    /* source lines are wanted */
	bool complete; /* all units have been listed */
	struct unit *units;
	size_t unit_count, unit_capacity;
	struct span_list spans; /* spans of units */
	size_t ranges;          /* read so far */
};

static int span_order(const void *a, const void *b)
{
	const struct code_span *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end < y->end) - (x->end > y->end);
}

static void spans_sort(struct span_list *l)
{
	sort_if_needed(l->list, l->count, sizeof(*l->list), span_order);
	for (size_t i = 0; i < l->count; i++) {
		l->list[i].reach = l->list[i].end;
		if (i && l->list[i - 1].reach > l->list[i].end)
			l->list[i].reach = l->list[i - 1].reach;
	}
}

/* Adds the ranges of a DIE. Returns false if there are too many. */
static bool spans_add(struct inlined_frames *f, struct span_list *l, struct code_span *span, Dwarf_Addr bias)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(&span->die, at, &base, &start, &end)) > 0) {
		if (++f->ranges > RANGES_MOST)
			return false;
		mem_reserve(&l->list, &l->capacity, l->count, sizeof(*l->list));
		span->start = start + bias;
		span->end = end + bias;
		if (start < end)
			l->list[l->count++] = *span;
	}
	return true;
}

struct inlined_frames *inlined_frames_open(Dwfl_Module *m, bool lines)
{
	struct inlined_frames *f = calloc(1, sizeof(*f));
	Dwarf_Addr bias;

	if (f && !dwfl_module_getdwarf(m, &bias)) {
		free(f);
		return NULL;
	}
	if (f) {
		f->module = m;
		f->lines = lines;
	}
	return f;
}

/* Returns the number of a unit, which is added if it is not among the first `known` units. */
static uint32_t unit_add(struct inlined_frames *f, size_t known, const Dwarf_Die *die, Dwarf_Addr bias)
{
	for (size_t i = known; i-- > 0;)
		if (f->units[i].die.addr == die->addr)
			return (uint32_t)i;
	mem_reserve(&f->units, &f->unit_capacity, f->unit_count, sizeof(*f->units));
	f->units[f->unit_count] = (struct unit){.die = *die, .bias = bias};
	return (uint32_t)f->unit_count++;
}

/* Lists all units by their ranges, for a file whose own table of ranges (.debug_aranges) is incomplete. */
static void units_list(struct inlined_frames *f)
{
	size_t known = f->unit_count;
	Dwarf_Die *die = NULL;
	Dwarf_Addr bias;
	bool good = true;

	f->complete = true;
	while (good && (die = dwfl_module_nextcu(f->module, die, &bias)) != NULL) {
		struct code_span span = {.die = *die};

		span.unit = unit_add(f, known, die, bias);
		good = spans_add(f, &f->spans, &span, bias);
	}
	spans_sort(&f->spans);
}

/* Collects the functions below a DIE, including inlined ones. Returns false if there are too many ranges. */
static bool functions_add(struct inlined_frames *f, struct unit *u, Dwarf_Die *scope, uint32_t depth)
{
	struct code_span span = {.depth = depth};

	if (depth == DEPTH_MOST || dwarf_child(scope, &span.die))
		return true;
	do {
		switch (dwarf_tag(&span.die)) {
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
			if (!spans_add(f, &u->functions, &span, u->bias))
				return false;
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type: break;
		default: continue;
		}
		if (!functions_add(f, u, &span.die, depth + 1))
			return false;
	} while (!dwarf_siblingof(&span.die, &span.die));
	return true;
}

/* Returns the number of spans that begin at or before an address. */
static size_t spans_above(const struct span_list *l, Dwarf_Addr at)
{
	return SEARCH(l->count, i, l->list[i].start <= at);
}

/* Finds the unit of an address in the list of all units. */
static struct unit *unit_listed(struct inlined_frames *f, Dwarf_Addr at)
{
	size_t i, seen = 0;

	if (!f->complete)
		units_list(f);
	i = spans_above(&f->spans, at);
	while (i-- && f->spans.list[i].reach > at && seen++ < CANDIDATES_MOST)
		if (f->spans.list[i].end > at)
			return &f->units[f->spans.list[i].unit];
	return NULL;
}

/* Finds the unit of an address by .debug_aranges, which many compilers write, or else by the ranges of all units. */
static struct unit *unit_find(struct inlined_frames *f, Dwarf_Addr at)
{
	Dwarf_Addr bias;
	Dwarf_Die *die = dwfl_module_addrdie(f->module, at, &bias);
	uint32_t number;

	if (!die)
		return unit_listed(f, at);
	number = unit_add(f, f->unit_count, die, bias); /* moves f->units */
	return &f->units[number];
}

static const char *die_name(Dwarf_Die *die)
{
	Dwarf_Attribute a;
	const char *name = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &a) || dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a))
		name = dwarf_formstring(&a);
	if (!name)
		name = dwarf_diename(die);
	return name;
}

/* Writes the source line that calls an inlined function. */
static void call_place(struct unit *u, Dwarf_Die *die, struct source_frame *out)
{
	Dwarf_Attribute a;
	Dwarf_Files *files;
	Dwarf_Word line = 0, file = 0;
	size_t count;

	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &a), &line) ||
	    dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &a), &file) || dwarf_getsrcfiles(&u->die, &files, &count) ||
	    file >= count)
		return;
	out->line = (unsigned)line;
	out->file = dwarf_filesrc(files, file, NULL, NULL);
}

/* Writes the source line of an address. */
static void own_place(struct unit *u, Dwarf_Addr at, struct source_frame *out)
{
	Dwarf_Line *line = dwarf_getsrc_die(&u->die, at - u->bias);
	int number = 0;

	if (!line)
		return;
	out->file = dwarf_linesrc(line, NULL, NULL);
	out->line = dwarf_lineno(line, &number) || number < 0 ? 0 : (unsigned)number;
}

size_t inlined_frames_find(struct inlined_frames *f, Dwarf_Addr at, struct source_frame out[SOURCE_FRAMES_MOST])
{
	struct unit *u = f ? unit_find(f, at) : NULL;
	struct code_span *found[SOURCE_FRAMES_MOST];
	size_t n = 0, k, i, seen = 0;

	if (!u)
		return 0;
	if (!u->read) {
		u->read = true;
		if (!functions_add(f, u, &u->die, 0))
			u->functions.count = 0;
		spans_sort(&u->functions);
	}
	/* Sort the functions by depth, deepest first: the deepest DIE is the innermost function. */
	for (i = spans_above(&u->functions, at); i-- && u->functions.list[i].reach > at && seen++ < CANDIDATES_MOST;) {
		struct code_span *s = &u->functions.list[i];

		if (s->end <= at || n == SOURCE_FRAMES_MOST)
			continue;
		for (k = n++; k && found[k - 1]->depth < s->depth; k--)
			found[k] = found[k - 1];
		found[k] = s;
	}
	/* A function that is defined inside another one is no frame of that one, so the chain of inlined functions ends at
	 * the first subprogram. */
	for (i = 0; i < n; i++) {
		const char *name = die_name(&found[i]->die);

		out[i] = (struct source_frame){.name = name ? name : ""};
		out[i].inlined = dwarf_tag(&found[i]->die) == DW_TAG_inlined_subroutine && i + 1 < n;
		if (f->lines && i)
			call_place(u, &found[i - 1]->die, &out[i]);
		else if (f->lines)
			own_place(u, at, &out[0]);
		if (!out[i].inlined)
			return i + 1;
	}
	return n;
}

void inlined_frames_close(struct inlined_frames *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->unit_count; i++)
		free(f->units[i].functions.list);
	free(f->units);
	free(f->spans.list);
	free(f);
}
