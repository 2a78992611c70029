/* SPDX-License-Identifier: MIT */
/*
 * Noreturn functions: by name (a known list, and DW_AT_noreturn of DWARF) before the first round; between rounds by
 * what the code shows, inside the file (inside_judge(), chains) and of imported functions (outside_judge()). Fills
 * work.noreturn.
 */
#include "analysis/facts/noreturn_names.h"
#include "analysis/interproc/work.h"
#include "elf/lines.h"

#include <string.h>

static bool noreturn_add(struct work *w, uint64_t target)
{
	if (!room_make(&w->noreturn, &w->noreturn_room, w->noreturn_count, sizeof(*w->noreturn)))
		return false;
	w->noreturn[w->noreturn_count++] = target;
	return true;
}

/* Sorts the list, and renews the hash bits that noreturn_may_hold() tests first. */
static void noreturn_sort(struct work *w)
{
	size_t i;

	w->noreturn_count = words_unique(w->noreturn, w->noreturn_count);
	w->env.noreturn = w->noreturn;
	w->env.noreturn_count = w->noreturn_count;
	memset(w->env.noreturn_bits, 0, sizeof(w->env.noreturn_bits));
	for (i = 0; i < w->noreturn_count; i++) {
		unsigned h = noreturn_hash(w->noreturn[i]);

		w->env.noreturn_bits[h / 64] |= (uint64_t)1 << h % 64;
	}
}

static int name_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void name_add(void *ctx, const char *name)
{
	struct work *w = ctx;

	if (!room_make(&w->names, &w->name_room, w->name_count, sizeof(*w->names)) ||
	    !(w->names[w->name_count] = strdup(name)))
		w->failed = true;
	else
		w->name_count++;
}

/* Bytes of .debug_info that are read at most: beyond, reading costs more time than the names are worth. */
#define DWARF_MOST ((uint64_t)32 << 20)

/* Reads the names of the functions that DWARF marks as noreturn. 0, or -1 and a message. */
static int dwarf_names(struct work *w, struct error *e)
{
	uint32_t s = elf_section_find(w->file, ".debug_info", 1);
	struct lines *l = s && w->file->sections[s].sh.sh_size <= DWARF_MOST ? lines_open(w->file) : NULL;

	lines_noreturn(l, name_add, w);
	lines_close(l);
	if (w->name_count)
		qsort(w->names, w->name_count, sizeof(*w->names), name_order);
	return w->failed ? error_set(e, "out of memory") : 0;
}

static bool is_noreturn(const struct work *w, const char *name)
{
	return noreturn_known(name) ||
	       (w->name_count && bsearch(&name, w->names, w->name_count, sizeof(*w->names), name_order));
}

/*
 * Adds the symbols with the name of a noreturn function: their addresses, and in an object file with `by_number`
 * (the list is .symtab) also their numbers. False: out of memory.
 */
static bool noreturn_symbols(struct work *w, const struct elf_symbol *list, uint32_t n, bool by_number)
{
	const struct elf_file *f = w->file;
	uint32_t i;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *y = &list[i];
		const struct code_section *c;

		if (!y->name[0] || !is_noreturn(w, y->name))
			continue;
		if (by_number && elf_is_object(f) && !noreturn_add(w, FLOW_EXTERN | i))
			return false;
		c = y->section ? space_of(&w->out->space, y->section) : NULL;
		if (c && !noreturn_add(w, elf_is_object(f) ? c->addr + y->value : y->value))
			return false;
	}
	return true;
}

/* Adds the GOT slots that hold the address of a noreturn function, and the PLT entries that jump through them. 0, or -1
 * and a message. */
static int noreturn_slots(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	uint32_t i;
	size_t k;

	for (i = 1; i < f->section_count && !elf_is_object(f); i++) {
		struct elf_reloc *r;
		long n, j;
		bool ok = true;

		if (f->sections[i].sh.sh_type != SHT_RELA || f->sections[i].sh.sh_link != f->dynsym || !f->dynsym)
			continue;
		n = elf_relocs(f, i, &r, e);
		if (n < 0)
			continue; /* malformed: this section is ignored */
		for (j = 0; j < n && ok; j++)
			if ((r[j].type == R_X86_64_JUMP_SLOT || r[j].type == R_X86_64_GLOB_DAT) && r[j].symbol < f->dynsym_count &&
			    is_noreturn(w, f->dynsyms[r[j].symbol].name))
				ok = noreturn_add(w, FLOW_SLOT | r[j].offset);
		free(r);
		if (!ok)
			return error_set(e, "out of memory");
	}
	noreturn_sort(w);
	for (k = 0; k < w->ranges.count; k++) {
		const struct code_range *p = &w->ranges.list[k];
		uint64_t slot = p->plt ? plt_slot(p->bytes, p->end - p->start, p->start) : 0;

		if (!slot)
			continue;
		slot |= FLOW_SLOT;
		if (word_has(w->noreturn, w->noreturn_count, slot) && !noreturn_add(w, p->start))
			return error_set(e, "out of memory");
	}
	noreturn_sort(w);
	return 0;
}

int noreturn_names(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	size_t i;

	if (dwarf_names(w, e))
		return -1;
	if (!noreturn_symbols(w, f->symbols, f->symbol_count, true) ||
	    !noreturn_symbols(w, f->dynsyms, f->dynsym_count, false))
		return error_set(e, "out of memory");
	for (i = 0; i < w->ranges.count; i++) {
		const struct code_range *p = &w->ranges.list[i];

		if (p->function && noreturn_known(p->function) && !noreturn_add(w, p->start))
			return error_set(e, "out of memory");
	}
	return noreturn_slots(w, e);
}

/* Number of calls of one imported function: EXIT_LAST (only padding behind the call), and EXIT_FRESH (followed by code
 * that nothing else reaches). */
struct tally {
	uint64_t target;
	uint32_t last, fresh; /* both 0: the slot of the hash table is empty */
};

struct tallies {
	struct tally *list; /* hash table, open addressing */
	size_t count, size;
};

static struct tally *tally_of(const struct tallies *t, uint64_t target)
{
	size_t mask = t->size - 1, h = (size_t)(target * 0x9e3779b97f4a7c15u >> 32) & mask;

	while ((t->list[h].last || t->list[h].fresh) && t->list[h].target != target)
		h = (h + 1) & mask;
	return &t->list[h];
}

static bool tallies_grow(struct tallies *t)
{
	struct tallies more = {.size = t->size ? 2 * t->size : 1024, .count = t->count};
	size_t i;

	more.list = calloc(more.size, sizeof(*more.list));
	for (i = 0; more.list && i < t->size; i++)
		if (t->list[i].last || t->list[i].fresh)
			*tally_of(&more, t->list[i].target) = t->list[i];
	if (!more.list)
		return false;
	free(t->list);
	*t = more;
	return true;
}

static bool tally_add(struct tallies *t, const struct link *x)
{
	struct tally *at;

	if (2 * t->count >= t->size && !tallies_grow(t))
		return false;
	at = tally_of(t, x->target);
	t->count += !at->last && !at->fresh;
	at->target = x->target;
	at->last += x->kind == EXIT_LAST;
	at->fresh += x->kind == EXIT_FRESH;
	return true;
}

/* Functions of other files: noreturn if a call of one is the end of some code, unless more than three times as many
 * calls of it are followed by code that nothing else reaches. */
static int outside_judge(struct work *w, struct error *e)
{
	struct tallies t = {0};
	bool ok = true;
	size_t i;

	for (i = 0; i < w->calls.count && ok; i++) {
		const struct link *x = &w->calls.list[i];

		if (x->outside && (x->kind == EXIT_LAST || x->kind == EXIT_FRESH))
			ok = tally_add(&t, x);
	}
	for (i = 0; i < t.size && ok; i++)
		if (t.list[i].last > 0 && t.list[i].fresh <= 3 * (uint64_t)t.list[i].last)
			ok = noreturn_add(w, t.list[i].target);
	free(t.list);
	return ok ? 0 : error_set(e, "out of memory");
}

/* Does execution resume behind a call of this function, though it has no return? (By convention of its language.) */
static bool resumes(const struct code_range *p)
{
	return p->function && code_convention(p)->resumes && code_convention(p)->resumes(p->function);
}

/*
 * Functions of this file: noreturn if they neither contain a return nor tail-call a function that may return. A
 * worklist propagates "returns" from tail-call targets back to those that jump to them; the rest is noreturn.
 */
static int inside_judge(struct work *w, struct error *e)
{
	const struct links *tails = &w->tails;
	uint32_t *back = malloc((tails->count + 1) * sizeof(*back)); /* sources of tail calls, grouped by target */
	uint32_t *first = calloc(w->ranges.count + 2, sizeof(*first)), *todo;
	bool *returns = calloc(w->ranges.count + 1, sizeof(*returns)), ok = true;
	size_t count = 0, i;

	todo = malloc((w->ranges.count + 1) * sizeof(*todo));
	if (!back || !first || !returns || !todo) {
		ok = false;
		goto out;
	}
	for (i = 0; i < tails->count; i++) { /* count by target */
		const struct link *x = &tails->list[i];

		if (x->to != NO_RANGE)
			first[x->to + 1]++;
		else if (!word_has(w->noreturn, w->noreturn_count, x->target))
			returns[x->from] = true;
	}
	for (i = 0; i < w->ranges.count; i++)
		first[i + 1] += first[i];
	for (i = 0; i < tails->count; i++)
		if (tails->list[i].to != NO_RANGE)
			back[first[tails->list[i].to]++] = tails->list[i].from;
	for (i = 0; i < w->ranges.count; i++) {
		bool known = w->state[i].noreturn ||
		             (w->ranges.list[i].plt && word_has(w->noreturn, w->noreturn_count, w->ranges.list[i].start));

		returns[i] = !known && (returns[i] || w->state[i].returns || w->state[i].run || w->ranges.list[i].plt ||
		                        resumes(&w->ranges.list[i]));
		if (returns[i])
			todo[count++] = (uint32_t)i;
	}
	while (count) {
		uint32_t to = todo[--count];

		for (i = to ? first[to - 1] : 0; i < first[to]; i++) /* first[to] is now the end of the group of `to` */
			if (!returns[back[i]] && !w->state[back[i]].noreturn) {
				returns[back[i]] = true;
				todo[count++] = back[i];
			}
	}
	for (i = 0; i < w->ranges.count && ok; i++)
		if (!returns[i] && !w->state[i].noreturn && !w->ranges.list[i].plt) {
			w->state[i].noreturn = true;
			ok = noreturn_add(w, w->ranges.list[i].start);
		}
	noreturn_sort(w);
out:
	free(back);
	free(first);
	free(returns);
	free(todo);
	return ok ? 0 : error_set(e, "out of memory");
}

/* Marks the code ranges that call a function newly found to be noreturn and have code behind the call: that code may
 * have become unreachable. */
static void callers_run(struct work *w, const uint64_t *fresh, size_t count)
{
	size_t i;

	for (i = 0; i < w->calls.count; i++) {
		const struct link *x = &w->calls.list[i];

		if ((x->kind == EXIT_CALL || x->kind == EXIT_FRESH) && noreturn_may_hold(&w->env, x->target) &&
		    word_has(fresh, count, x->target))
			w->state[x->from].run |= RUN_NEWS;
	}
}

/*
 * Chains of calls. Once a function is known to be noreturn, its callers may have lost their only way out, and so on. A
 * worklist follows these chains from callee to caller without waiting for a round. It ends, since noreturn is never
 * withdrawn. The worklist is ordered by size, the smallest first: a large code range is looked at again only after the
 * smaller ones are done.
 */

/* First round in which chains are followed: in earlier ones most callers are analysed again in any case. */
#define CHAINS_FROM 4u
#define CLASSES     33u /* of sizes, by the highest bit */

struct chain {
	struct work *w;
	struct flow flow;
	uint32_t *first, *from;   /* predecessors of code range i: from[first[i]] up to from[first[i + 1]] */
	uint32_t *next;           /* the next code range on the same stack, + 1; 0: none */
	uint32_t stacks[CLASSES]; /* worklist: top code range of each class, + 1; 0: empty */
	bool *waits, *stops;      /* on a stack; found here to be noreturn */
	uint64_t *in;             /* targets of the edges into the current code range */
	size_t in_room;
	bool failed;
};

static bool leads_to(const struct link *x)
{
	return x->to != NO_RANGE && x->start && (link_is_tail(x->kind) || x->kind == EXIT_CALL || x->kind == EXIT_FRESH);
}

/* Builds the predecessor lists. False: out of memory; chain_close() is still needed. */
static bool chain_open(struct chain *c, struct work *w)
{
	const struct links *each[] = {&w->calls, &w->tails};
	size_t n = w->ranges.count, k, i, count = 0;

	c->w = w;
	c->first = calloc(n + 2, sizeof(*c->first));
	c->next = calloc(n + 1, sizeof(*c->next));
	c->waits = calloc(n + 1, sizeof(*c->waits));
	c->stops = calloc(n + 1, sizeof(*c->stops));
	for (k = 0; c->first && k < 2; k++)
		for (i = 0; i < each[k]->count; i++)
			if (leads_to(&each[k]->list[i])) {
				c->first[each[k]->list[i].to + 2]++;
				count++;
			}
	c->from = malloc((count + 1) * sizeof(*c->from));
	if (!c->first || !c->from || !c->next || !c->waits || !c->stops)
		return false;
	for (i = 2; i < n + 2; i++)
		c->first[i] += c->first[i - 1];
	for (k = 0; k < 2; k++)
		for (i = 0; i < each[k]->count; i++)
			if (leads_to(&each[k]->list[i]))
				c->from[c->first[each[k]->list[i].to + 1]++] = each[k]->list[i].from;
	return true;
}

static void chain_close(struct chain *c)
{
	flow_free(&c->flow);
	free(c->first);
	free(c->from);
	free(c->next);
	free(c->waits);
	free(c->stops);
	free(c->in);
}

/* Puts a code range on the worklist, unless it is known or cannot become noreturn. */
static void chain_add(struct chain *c, uint32_t i)
{
	const struct code_range *p = &c->w->ranges.list[i];
	const struct range_state *s = &c->w->state[i];
	uint64_t size = p->end - p->start;
	uint32_t *stack = &c->stacks[size > UINT32_MAX ? CLASSES - 1
	                             : size            ? 31 - (unsigned)__builtin_clz((uint32_t)size)
	                                               : 0];

	if (c->waits[i] || c->stops[i] || s->noreturn || s->run || s->unsettled || p->plt || p->outermost || resumes(p))
		return;
	c->waits[i] = true;
	c->next[i] = *stack;
	*stack = i + 1;
}

/* Collects the targets of the edges into a code range. False: they have changed since it was last analysed, so that the
 * next round has to judge it; or out of memory (c->failed). */
static bool chain_edges(struct chain *c, uint32_t i, size_t *count)
{
	const struct edges *l = &c->w->edges;
	const struct code_range *p = &c->w->ranges.list[i];
	uint64_t sum = 0;
	size_t k;

	*count = 0;
	for (k = edges_from(l, p->start); k < l->count && l->list[k].target < p->end; k++) {
		if (!room_make(&c->in, &c->in_room, *count, sizeof(*c->in))) {
			c->failed = true;
			return false;
		}
		c->in[(*count)++] = l->list[k].target;
		sum = edges_sum(sum, &l->list[k]);
	}
	return sum == c->w->state[i].edges_seen && !c->w->state[i].joined;
}

/* Pops the next code range, or NO_RANGE. */
static uint32_t chain_next(struct chain *c)
{
	unsigned k = 0;
	uint32_t i;

	while (k < CLASSES && !c->stacks[k])
		k++;
	if (k == CLASSES)
		return NO_RANGE;
	i = c->stacks[k] - 1;
	c->stacks[k] = c->next[i];
	c->waits[i] = false;
	return i;
}

static void chain_follow(struct chain *c)
{
	struct work *w = c->w;
	size_t count, k;
	uint32_t i;

	w->env.stops = c->stops;
	while (!c->failed && (i = chain_next(c)) != NO_RANGE) {
		if (!chain_edges(c, i, &count) || flow_gets_out(&c->flow, &w->env, i, c->in, count))
			continue;
		c->stops[i] = true;
		for (k = c->first[i]; k < c->first[i + 1]; k++)
			chain_add(c, c->from[k]);
	}
	w->env.stops = NULL;
}

/* Follows the chains from the callers of the functions in `fresh` (sorted). 0, or -1 and a message. */
static int chain_judge(struct work *w, const uint64_t *fresh, size_t count, struct error *e)
{
	const struct links *each[] = {&w->calls, &w->tails};
	struct chain c = {0};
	bool ok = chain_open(&c, w);
	size_t k, i;

	for (k = 0; ok && k < 2; k++)
		for (i = 0; i < each[k]->count; i++) {
			const struct link *x = &each[k]->list[i];

			if (x->kind != EXIT_LAST && x->kind != EXIT_REF && noreturn_may_hold(&w->env, x->target) &&
			    word_has(fresh, count, x->target))
				chain_add(&c, x->from);
		}
	if (ok)
		chain_follow(&c);
	ok = ok && !c.failed;
	for (i = 0; ok && i < w->ranges.count; i++)
		if (c.stops[i]) {
			w->state[i].noreturn = true;
			ok = noreturn_add(w, w->ranges.list[i].start);
		}
	chain_close(&c);
	if (ok)
		noreturn_sort(w);
	return ok ? 0 : error_set(e, "out of memory");
}

/* The noreturn functions that are not in `before` (sorted). From malloc(), or null: out of memory. */
static uint64_t *noreturn_fresh(const struct work *w, const uint64_t *before, size_t n, size_t *count)
{
	uint64_t *list = malloc((w->noreturn_count + 1) * sizeof(*list));
	size_t i;

	*count = 0;
	for (i = 0; list && i < w->noreturn_count; i++)
		if (!word_has(before, n, w->noreturn[i]))
			list[(*count)++] = w->noreturn[i];
	return list;
}

int noreturn_find(struct work *w, struct error *e)
{
	size_t n = w->noreturn_count, fresh = 0;
	uint64_t *before = malloc((n + 1) * sizeof(*before)), *list = NULL;
	int err = -1;

	if (!before) {
		error_set(e, "out of memory");
		goto out;
	}
	if (n)
		memcpy(before, w->noreturn, n * sizeof(*before));
	if (outside_judge(w, e))
		goto out;
	noreturn_sort(w);
	if (inside_judge(w, e))
		goto out;
	list = noreturn_fresh(w, before, n, &fresh);
	if (list && fresh && w->round >= CHAINS_FROM) {
		if (chain_judge(w, list, fresh, e))
			goto out;
		free(list);
		list = noreturn_fresh(w, before, n, &fresh);
	}
	if (!list) {
		error_set(e, "out of memory");
		goto out;
	}
	if (fresh)
		callers_run(w, list, fresh);
	err = 0;
out:
	free(before);
	free(list);
	return err;
}
