/* SPDX-License-Identifier: MIT */
/*
 * Which calls do not come back: by name (known ones, and those that DWARF marks),
 * and by what the code shows, until nothing new is found.
 */
#include "code/noreturn.h"
#include "code/work.h"
#include "elf/lines.h"

#include <string.h>

static bool noreturn_add(struct work *w, uint64_t target)
{
	if (!room_make(&w->noreturn, &w->noreturn_room, w->noreturn_count, sizeof(*w->noreturn)))
		return false;
	w->noreturn[w->noreturn_count++] = target;
	return true;
}

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

static int name_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void name_add(void *ctx, const char *name)
{
	struct work *w = ctx;

	if (!room_make(&w->names, &w->name_room, w->name_count, sizeof(*w->names)) ||
	    !(w->names[w->name_count] = strdup(name)))
		w->failed = true;
	else
		w->name_count++;
}

/* More DWARF than this takes longer to read than what it is good for. */
#define DWARF_MOST ((uint64_t)32 << 20)

/* The functions that DWARF marks. */
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

static bool noreturn_symbols(struct work *w, const struct elf_symbol *list, uint32_t n, bool numbered)
{
	const struct elf_file *f = w->file;
	uint32_t i;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *y = &list[i];
		const struct code_section *c;

		if (!y->name[0] || !is_noreturn(w, y->name))
			continue;
		if (numbered && elf_is_object(f) && !noreturn_add(w, FLOW_EXTERN | i))
			return false;
		c = y->section ? space_of(&w->out->space, y->section) : NULL;
		if (c && !noreturn_add(w, elf_is_object(f) ? c->addr + y->value : y->value))
			return false;
	}
	return true;
}

/* Slots of the GOT that hold such a function's address, and the PLT entries that
 * jump through them. */
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
			continue; /* malformed: nothing is known from it */
		for (j = 0; j < n && ok; j++)
			if ((r[j].type == R_X86_64_JUMP_SLOT || r[j].type == R_X86_64_GLOB_DAT) &&
			    r[j].symbol < f->dynsym_count && is_noreturn(w, f->dynsyms[r[j].symbol].name))
				ok = noreturn_add(w, FLOW_SLOT | r[j].offset);
		free(r);
		if (!ok)
			return error_set(e, "out of memory");
	}
	noreturn_sort(w);
	for (k = 0; k < w->pieces.count; k++) {
		const struct piece *p = &w->pieces.list[k];
		uint64_t slot = p->plt ? plt_slot(p->bytes, p->end - p->start, p->start) : 0;

		if (!slot)
			continue;
		slot |= FLOW_SLOT;
		if (word_has(w->noreturn, w->noreturn_count, slot) &&
		    !noreturn_add(w, p->start))
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
	for (i = 0; i < w->pieces.count; i++) {
		const struct piece *p = &w->pieces.list[i];

		if (p->go && noreturn_known(p->go) && !noreturn_add(w, p->start))
			return error_set(e, "out of memory");
	}
	return noreturn_slots(w, e);
}

/* Of calls of one place outside: with nothing behind them, with code that only they lead to. */
struct tally {
	uint64_t target;
	uint32_t last, fresh; /* both 0: nothing here */
};

struct tallies {
	struct tally *list; /* a hash */
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

/* Functions of other files: one that code ends with a call of does not return,
 * unless as many calls of it are followed by code that nothing else leads to. */
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

/* Go's morestack never returns, but jumps to behind its call with a larger stack. */
static bool resumes(const struct piece *p) { return p->go && !strcmp(p->go, "runtime.morestack"); }

/*
 * Functions of this file, until no more are found: no return in them, and no jump
 * to one that returns. From each that does return, back to all that jump to it;
 * the others do not.
 */
static int inside_judge(struct work *w, struct error *e)
{
	const struct links *tails = &w->tails;
	uint32_t *back = malloc((tails->count + 1) * sizeof(*back)); /* from where, by where to */
	uint32_t *first = calloc(w->pieces.count + 2, sizeof(*first)), *todo;
	bool *returns = calloc(w->pieces.count + 1, sizeof(*returns)), ok = true;
	size_t count = 0, i;

	todo = malloc((w->pieces.count + 1) * sizeof(*todo));
	if (!back || !first || !returns || !todo) {
		ok = false;
		goto out;
	}
	for (i = 0; i < tails->count; i++) { /* counted by where they lead */
		const struct link *x = &tails->list[i];

		if (x->to != NO_PIECE)
			first[x->to + 1]++;
		else if (!word_has(w->noreturn, w->noreturn_count, x->target))
			returns[x->from] = true;
	}
	for (i = 0; i < w->pieces.count; i++)
		first[i + 1] += first[i];
	for (i = 0; i < tails->count; i++)
		if (tails->list[i].to != NO_PIECE)
			back[first[tails->list[i].to]++] = tails->list[i].from;
	for (i = 0; i < w->pieces.count; i++) {
		bool known = w->state[i].noreturn ||
		             (w->pieces.list[i].plt && word_has(w->noreturn, w->noreturn_count, w->pieces.list[i].start));

		returns[i] = !known && (returns[i] || w->state[i].returns || w->state[i].run || w->pieces.list[i].plt ||
		                         resumes(&w->pieces.list[i]));
		if (returns[i])
			todo[count++] = (uint32_t)i;
	}
	while (count) {
		uint32_t to = todo[--count];

		for (i = to ? first[to - 1] : 0; i < first[to]; i++) /* first[] has moved on by one */
			if (!returns[back[i]] && !w->state[back[i]].noreturn) {
				returns[back[i]] = true;
				todo[count++] = back[i];
			}
	}
	for (i = 0; i < w->pieces.count && ok; i++)
		if (!returns[i] && !w->state[i].noreturn && !w->pieces.list[i].plt) {
			w->state[i].noreturn = true;
			ok = noreturn_add(w, w->pieces.list[i].start);
		}
	noreturn_sort(w);
out:
	free(back);
	free(first);
	free(returns);
	free(todo);
	return ok ? 0 : error_set(e, "out of memory");
}

/* Who calls what is new on the list, other than at its end, has code that is not reached by that call. */
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

int noreturn_find(struct work *w, struct error *e)
{
	size_t n = w->noreturn_count, fresh = 0, i;
	uint64_t *before = malloc((n + 1) * sizeof(*before)), *list;

	if (!before)
		return error_set(e, "out of memory");
	if (n)
		memcpy(before, w->noreturn, n * sizeof(*before));
	if (outside_judge(w, e)) {
		free(before);
		return -1;
	}
	noreturn_sort(w);
	if (inside_judge(w, e)) {
		free(before);
		return -1;
	}
	list = malloc((w->noreturn_count + 1) * sizeof(*list));
	for (i = 0; list && i < w->noreturn_count; i++)
		if (!word_has(before, n, w->noreturn[i]))
			list[fresh++] = w->noreturn[i];
	if (fresh)
		callers_run(w, list, fresh);
	free(before);
	free(list);
	return list ? 0 : error_set(e, "out of memory");
}
