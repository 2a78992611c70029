/* SPDX-License-Identifier: MIT */
/*
 * Finds addresses of etched objects that the kernel may get from the program's variables, as in an iovec for readv(2)
 * that the compiler has filled in, or that another function fills in. The address is in a data word, or code stores it
 * to a word at a fixed place. The kernel may use it if a function that makes such a system call (kernel_stores.h)
 * refers to the variable that contains the word.
 */
#include "analysis/addresses/kernel_reach.h"
#include "shared/search.h"
#include "site/linked.h"
#include "support/memory.h"
#include "support/sort.h"

#include <stdlib.h>

/* Compilers give no symbol to a constant from which they fill an array on the stack, so its size is not known. A word
 * is assumed to be in such a constant if it is at most this many bytes after the address in the code: 64 iovecs. */
#define UNNAMED_MOST 1024u

/* A variable that has a symbol. */
struct variable {
	uint64_t start, end; /* end: exclusive */
};

/* The addresses by which a function refers to a variable that contains pointer words (struct pointer_word). */
struct place {
	uint64_t from, to; /* to: exclusive */
	bool used;         /* a function that refers to it makes a system call that takes addresses from memory */
};

/* A word that contains, or may get, the address of an etched object. */
struct pointer_word {
	struct place place;
	size_t site; /* index of the escape in scan.sites */
};

struct pointer_words {
	struct pointer_word *words; /* sorted by place */
	size_t word_count, word_capacity;
	struct place *places; /* the different places of the words, sorted by from */
	uint64_t *reach;      /* per place: the greatest `to` of it and all before it */
	size_t place_count;
	struct variable *variables; /* sorted by start */
	size_t variable_count, variable_capacity;
};

static int by_start(const void *a, const void *b)
{
	const struct variable *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static int by_place(const void *a, const void *b)
{
	const struct place *x = &((const struct pointer_word *)a)->place, *y = &((const struct pointer_word *)b)->place;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

static bool same_place(const struct place *x, const struct place *y) { return x->from == y->from && x->to == y->to; }

static void variables_read(struct pointer_words *w, const struct elf_file *f)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t n = f->symbol_count ? f->symbol_count : f->dynsym_count, i;

	for (i = 1; i < n; i++) {
		if (list[i].type != STT_OBJECT || !list[i].section || !list[i].size ||
		    list[i].size > UINT64_MAX - list[i].value)
			continue;
		mem_reserve(&w->variables, &w->variable_capacity, w->variable_count, sizeof(*w->variables));
		w->variables[w->variable_count++] = (struct variable){list[i].value, list[i].value + list[i].size};
	}
	if (w->variable_count)
		qsort(w->variables, w->variable_count, sizeof(*w->variables), by_start);
}

/* Adds the word at `at`, which belongs to scan.sites[site]. */
static void word_add(struct pointer_words *w, uint64_t at, size_t site)
{
	size_t k = SEARCH(w->variable_count, i, w->variables[i].start <= at);
	struct place x = {.from = at < UNNAMED_MOST ? 0 : at - UNNAMED_MOST, .to = at + 1};

	if (k && at < w->variables[k - 1].end)
		x = (struct place){.from = w->variables[k - 1].start, .to = w->variables[k - 1].end};
	else if (k && x.from < w->variables[k - 1].end)
		x.from = w->variables[k - 1].end;
	mem_reserve(&w->words, &w->word_capacity, w->word_count, sizeof(*w->words));
	w->words[w->word_count++] = (struct pointer_word){x, site};
}

static void places_make(struct pointer_words *w)
{
	size_t i, n = 0;

	qsort(w->words, w->word_count, sizeof(*w->words), by_place);
	w->places = mem_alloc(w->word_count, sizeof(*w->places));
	w->reach = mem_alloc(w->word_count, sizeof(*w->reach));
	for (i = 0; i < w->word_count; i++) {
		const struct place *x = &w->words[i].place;

		if (i && same_place(x, &w->words[i - 1].place))
			continue;
		w->places[n] = *x;
		w->reach[n] = n && w->reach[n - 1] > x->to ? w->reach[n - 1] : x->to;
		n++;
	}
	w->place_count = n;
}

static void words_read(struct pointer_words *w, const struct scan *s)
{
	size_t i;

	for (i = 0; i < s->site_count; i++) {
		const struct site *x = &s->sites[i];

		if (x->kind != SITE_ESCAPE || x->kernel || !(x->in_data || x->stored_at))
			continue;
		if (!w->variables)
			variables_read(w, s->file);
		word_add(w, x->in_data ? x->addr : x->stored_at, i);
	}
	if (w->word_count)
		places_make(w);
}

/* Is there a place that an address refers to? With `use`, marks all of them as used. */
static bool places_at(struct pointer_words *w, uint64_t at, bool use)
{
	size_t k = at ? SEARCH(w->place_count, i, w->places[i].from <= at) : 0;
	bool any = false;

	for (; k && w->reach[k - 1] > at && (use || !any); k--) {
		if (at >= w->places[k - 1].to)
			continue;
		any = true;
		w->places[k - 1].used |= use;
	}
	return any;
}

/* Does a function refer to a place? With `use`, marks all places to which it refers as used. */
static bool function_places(struct pointer_words *w, const struct elf_file *f, const struct func_code *code, bool use)
{
	bool absolute = f->eh.e_type == ET_EXEC, any = false;
	size_t i;

	for (i = 0; i < code->count && (use || !any); i++) {
		const struct insn *in = &code->insns[i];

		any |= places_at(w, insn_place(in, absolute), use);
		if (absolute && in->imm_len >= 4)
			any |= places_at(w, (uint64_t)in->imm, use);
	}
	return any;
}

/* Tells the sites whose words are in used places that the kernel may store to their addresses. */
static void sites_mark(const struct pointer_words *w, struct scan *s)
{
	size_t i, n = 0;

	for (i = 0; i < w->word_count; i++) {
		while (!same_place(&w->places[n], &w->words[i].place))
			n++;
		s->sites[w->words[i].site].kernel |= w->places[n].used;
	}
}

void kernel_data_find(struct scan *s)
{
	struct pointer_words w = {0};
	struct func_code spare = {0};
	size_t k;

	words_read(&w, s);
	for (k = 0; w.word_count && k < s->funcs.count; k++) {
		const struct func_code *code = func_code_of(&s->funcs, k, &spare);

		if (!function_places(&w, s->file, code, false))
			continue;
		scan_lines(s); /* prepares s->kernel */
		if (kernel_reach_in_memory(&s->kernel, &s->funcs.funcs[k], code))
			function_places(&w, s->file, code, true);
	}
	func_code_free(&spare);
	sites_mark(&w, s);
	free(w.words);
	free(w.places);
	free(w.reach);
	free(w.variables);
}
