/* SPDX-License-Identifier: MIT */
/*
 * All pieces of a file, in rounds: each piece by itself first; then again those
 * that others jump into, and those that call what has turned out not to return;
 * until nothing is new.
 */
#include "code/frames.h"
#include "elf/memory.h"

#include "code/emit.h"
#include "code/noreturn.h"
#include "code/pieces.h"
#include "elf/lines.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Each round knows more than the one before; a file that needs more of them keeps
 * what it has. */
#define ROUNDS_MOST 12

/* Pieces a thread takes at a time: enough to be worth a lock. */
#define CHUNK 64u

struct piece_state {
	struct piece_rows rows;
	uint64_t edges_seen; /* checksum of the edges that it was run with */
	bool fragment;       /* its start is where others jump to in the middle of their work */
	bool returns, noreturn;
	bool switches;       /* a context made by hand begins there */
	bool sound;          /* taken for a function, it ends as one */
	bool evident;        /* something shows that it begins as functions do */
	bool unknown;        /* a fragment only because nothing shows what it is */
	bool run;            /* in the coming round */
};

/* What a chunk of pieces has brought. */
struct chunk {
	struct flow_edge *edges;
	size_t edge_count, edge_room;
	struct flow_exit *exits;
	size_t exit_count, exit_room;
	uint64_t *strays;   /* targets that lie in no piece */
	size_t stray_count, stray_room;
	uint64_t insns;
};

struct work {
	const struct elf_file *file;
	const struct frames_options *options;
	struct frames *out;
	struct cfi_file cfi;
	struct pieces pieces;
	struct piece_state *state;  /* of each piece */
	struct flow_env env;
	uint64_t *noreturn;         /* sorted */
	size_t noreturn_count, noreturn_room;
	uint64_t *noreturn_new;     /* since the last round */
	char **names;               /* functions that DWARF says do not return, sorted */
	size_t name_count, name_room;
	struct flow_edge *edges;    /* sorted by target */
	size_t edge_count, edge_room;
	struct flow_exit *exits;
	size_t exit_count, exit_room;
	uint64_t *strays;
	size_t stray_count, stray_room;
	/* the round */
	uint32_t *list;             /* pieces to run */
	size_t list_count;
	struct chunk *chunks;
	size_t chunk_count, chunk_next;
	pthread_mutex_t lock;
	bool failed;
	bool judged;                /* evidence_judge() has been */
};

static bool room_make(void *array, size_t *room, size_t count, size_t size)
{
	void **p = array, *grown;
	size_t want = *room ? 2 * *room : 64;

	if (count < *room)
		return true;
	grown = realloc(*p, want * size);
	if (!grown)
		return false;
	*p = grown;
	*room = want;
	return true;
}

static int word_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static bool word_has(const uint64_t *list, size_t n, uint64_t word)
{
	return n && bsearch(&word, list, n, sizeof(*list), word_order);
}

static size_t words_unique(uint64_t *list, size_t n)
{
	size_t i, k = 0;

	if (n)
		qsort(list, n, sizeof(*list), word_order);
	for (i = 0; i < n; i++)
		if (!k || list[i] != list[k - 1])
			list[k++] = list[i];
	return k;
}

/* ---- what does not return, by name ----------------------------------------------- */

static bool noreturn_add(struct work *w, uint64_t target)
{
	if (!room_make(&w->noreturn, &w->noreturn_room, w->noreturn_count, sizeof(*w->noreturn)))
		return false;
	w->noreturn[w->noreturn_count++] = target;
	return true;
}

static void noreturn_sort(struct work *w)
{
	w->noreturn_count = words_unique(w->noreturn, w->noreturn_count);
	w->env.noreturn = w->noreturn;
	w->env.noreturn_count = w->noreturn_count;
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
static int noreturn_names(struct work *w, struct error *e)
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

/* ---- object files ------------------------------------------------------------------ */

static int reloc_order(const void *a, const void *b)
{
	const struct flow_reloc *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* What the branches of an object file refer to. */
static int relocs_read(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	struct flow_reloc *list = NULL;
	size_t count = 0, room = 0;
	uint32_t i;

	for (i = 1; i < f->section_count && elf_is_object(f); i++) {
		const struct code_section *c;
		struct elf_reloc *r;
		long n, k;

		if (f->sections[i].sh.sh_type != SHT_RELA)
			continue;
		c = space_of(&w->out->space, f->sections[i].sh.sh_info);
		if (!c)
			continue;
		n = elf_relocs(f, i, &r, e);
		if (n < 0) {
			free(list);
			return -1;
		}
		for (k = 0; k < n; k++) {
			const struct elf_symbol *y = r[k].symbol < f->symbol_count ? &f->symbols[r[k].symbol] : NULL;
			const struct code_section *to = y && y->section ? space_of(&w->out->space, y->section) : NULL;
			struct flow_reloc x = {c->addr + r[k].offset, FLOW_EXTERN | r[k].symbol};
			bool direct = r[k].type == R_X86_64_PC32 || r[k].type == R_X86_64_PLT32;

			if (!direct && r[k].type != R_X86_64_GOTPCREL && r[k].type != R_X86_64_GOTPCRELX &&
			    r[k].type != R_X86_64_REX_GOTPCRELX)
				continue;
			if (direct && to)
				x.target = to->addr + y->value + (uint64_t)r[k].addend + 4;
			if (!room_make(&list, &room, count, sizeof(*list))) {
				free(list);
				free(r);
				return error_set(e, "out of memory");
			}
			list[count++] = x;
		}
		free(r);
	}
	if (count)
		qsort(list, count, sizeof(*list), reloc_order);
	w->env.relocs = list;
	w->env.reloc_count = count;
	return 0;
}

/* ---- a round ------------------------------------------------------------------------- */

static size_t edges_from(const struct work *w, uint64_t addr)
{
	size_t lo = 0, hi = w->edge_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (w->edges[mid].target < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool chunk_keep(struct work *w, struct chunk *c, const struct flow *f)
{
	size_t i;

	for (i = 0; i < f->edge_count; i++) {
		if (!room_make(&c->edges, &c->edge_room, c->edge_count, sizeof(*c->edges)))
			return false;
		c->edges[c->edge_count++] = f->edges[i];
	}
	for (i = 0; i < f->exit_count; i++) {
		uint64_t target = f->exits[i].target;

		if (!room_make(&c->exits, &c->exit_room, c->exit_count, sizeof(*c->exits)))
			return false;
		c->exits[c->exit_count++] = f->exits[i];
		if (target & (FLOW_EXTERN | FLOW_SLOT) || f->exits[i].to != NO_PIECE)
			continue;
		if (!room_make(&c->strays, &c->stray_room, c->stray_count, sizeof(*c->strays)))
			return false;
		c->strays[c->stray_count++] = target;
	}
	for (i = 0; i < f->edge_count; i++) {
		if (piece_at(&w->env, f->edges[i].target))
			continue;
		if (!room_make(&c->strays, &c->stray_room, c->stray_count, sizeof(*c->strays)))
			return false;
		c->strays[c->stray_count++] = f->edges[i].target;
	}
	c->insns += f->fresh;
	return true;
}

/* How a piece begins. What .eh_frame says counts most; but most parts of
 * functions begin in the entry's state by its rows too. */
static enum flow_start piece_start(const struct piece *p, const struct piece_state *s, const struct emit *e)
{
	enum flow_start start = emit_start(e);

	if (start != START_ASSUMED)
		return start;
	if (p->named)
		return START_FUNCTION;
	return s->fragment ? START_PART : s->evident ? START_FUNCTION : START_ASSUMED;
}

static void *worker(void *arg)
{
	struct work *w = arg;
	struct flow flow = {0};
	struct emit emit = {0};
	bool ok = true;

	while (ok) {
		size_t n, i;

		pthread_mutex_lock(&w->lock);
		n = w->chunk_next++;
		ok = !w->failed;
		pthread_mutex_unlock(&w->lock);
		if (n >= w->chunk_count)
			break;
		for (i = n * CHUNK; ok && i < w->list_count && i < (n + 1) * CHUNK; i++) {
			uint32_t number = w->list[i];
			const struct piece *p = &w->pieces.list[number];
			struct piece_state *s = &w->state[number];
			size_t from = edges_from(w, p->start), to = from;

			while (to < w->edge_count && w->edges[to].target < p->end)
				to++;
			piece_rows_free(&s->rows);
			ok = emit_begin(&emit, &w->env, number, w->options->no_cfi) &&
			     flow_run(&flow, &w->env, number, w->edges + from, to - from, piece_start(p, s, &emit)) &&
			     emit_rows(&emit, &flow, &s->rows) && chunk_keep(w, &w->chunks[n], &flow);
			s->returns = flow.returns;
			s->switches = flow.switches;
			if (piece_start(p, s, &emit) != START_PART)
				s->sound = flow.ends && !flow.unbalanced;
		}
	}
	if (!ok) {
		pthread_mutex_lock(&w->lock);
		w->failed = true;
		pthread_mutex_unlock(&w->lock);
	}
	flow_free(&flow);
	emit_free(&emit);
	return NULL;
}

static int edge_order(const void *a, const void *b)
{
	const struct flow_edge *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* What the pieces of this round said before no longer counts. */
static void results_drop(struct work *w)
{
	size_t i, k;

	for (i = k = 0; i < w->edge_count; i++)
		if (!w->state[w->edges[i].from].run)
			w->edges[k++] = w->edges[i];
	w->edge_count = k;
	for (i = k = 0; i < w->exit_count; i++)
		if (!w->state[w->exits[i].from].run)
			w->exits[k++] = w->exits[i];
	w->exit_count = k;
}

static bool results_take(struct work *w, const struct chunk *c)
{
	size_t i;

	for (i = 0; i < c->edge_count; i++) {
		if (!room_make(&w->edges, &w->edge_room, w->edge_count, sizeof(*w->edges)))
			return false;
		w->edges[w->edge_count++] = c->edges[i];
	}
	for (i = 0; i < c->exit_count; i++) {
		if (!room_make(&w->exits, &w->exit_room, w->exit_count, sizeof(*w->exits)))
			return false;
		w->exits[w->exit_count++] = c->exits[i];
	}
	for (i = 0; i < c->stray_count; i++) {
		if (!room_make(&w->strays, &w->stray_room, w->stray_count, sizeof(*w->strays)))
			return false;
		w->strays[w->stray_count++] = c->strays[i];
	}
	w->out->insns += c->insns;
	return true;
}

static int round_run(struct work *w, struct error *e)
{
	int jobs = w->options->jobs > 1 ? w->options->jobs : 1, started = 0, i;
	pthread_t *threads = calloc((size_t)jobs, sizeof(*threads));
	bool ok;
	size_t k;

	w->list = calloc(w->pieces.count + 1, sizeof(*w->list));
	w->list_count = 0;
	for (k = 0; w->list && k < w->pieces.count; k++)
		if (w->state[k].run)
			w->list[w->list_count++] = (uint32_t)k;
	w->chunk_count = (w->list_count + CHUNK - 1) / CHUNK;
	w->chunk_next = 0;
	w->chunks = calloc(w->chunk_count + 1, sizeof(*w->chunks));
	ok = threads && w->list && w->chunks;
	if (ok) {
		for (i = 1; i < jobs && (size_t)i < w->chunk_count; i++)
			if (!pthread_create(&threads[started], NULL, worker, w))
				started++;
		worker(w);
		while (started)
			pthread_join(threads[--started], NULL);
		ok = !w->failed;
		results_drop(w);
		for (k = 0; k < w->chunk_count && ok; k++) /* in order: the same for any number of threads */
			ok = results_take(w, &w->chunks[k]);
		if (w->edge_count)
			qsort(w->edges, w->edge_count, sizeof(*w->edges), edge_order);
	}
	for (k = 0; w->chunks && k < w->chunk_count; k++) {
		free(w->chunks[k].edges);
		free(w->chunks[k].exits);
		free(w->chunks[k].strays);
	}
	free(w->chunks);
	free(w->list);
	free(threads);
	w->chunks = NULL;
	w->list = NULL;
	return ok ? 0 : error_set(e, "out of memory");
}

/* ---- what the next round is for -------------------------------------------------------- */

/* Calls lead into code that is no piece yet: it is one now. */
static int strays_add(struct work *w, struct error *e)
{
	struct pieces before = w->pieces;
	struct piece_state *state;
	uint32_t *moved;
	size_t i, k;
	long added;

	w->stray_count = words_unique(w->strays, w->stray_count);
	if (!w->stray_count)
		return 0;
	moved = calloc(before.count + 1, sizeof(*moved));
	if (!moved)
		return error_set(e, "out of memory");
	{
		uint64_t *starts = malloc((before.count + 1) * sizeof(*starts));

		if (!starts) {
			free(moved);
			return error_set(e, "out of memory");
		}
		for (i = 0; i < before.count; i++)
			starts[i] = before.list[i].start;
		added = pieces_add(&w->pieces, &w->out->space, w->strays, w->stray_count, e);
		for (i = k = 0; added > 0 && i < before.count; i++) {
			while (w->pieces.list[k].start != starts[i])
				k++;
			moved[i] = (uint32_t)k;
		}
		free(starts);
	}
	w->stray_count = 0;
	w->env.pieces = w->pieces.list;
	w->env.piece_count = w->pieces.count;
	if (added <= 0) {
		free(moved);
		return (int)added;
	}
	state = calloc(w->pieces.count + 1, sizeof(*state));
	if (!state) {
		free(moved);
		return error_set(e, "out of memory");
	}
	for (i = 0; i < w->pieces.count; i++)
		state[i].run = true;
	for (i = 0; i < before.count; i++) {
		state[moved[i]] = w->state[i];
		state[moved[i]].run = false;
	}
	for (i = 0; i < w->edge_count; i++)
		w->edges[i].from = moved[w->edges[i].from];
	if (!pieces_index(&w->env)) {
		free(state);
		free(moved);
		return error_set(e, "out of memory");
	}
	for (i = 0; i < w->exit_count; i++) {
		w->exits[i].from = moved[w->exits[i].from];
		w->exits[i].to = piece_number(&w->env, w->exits[i].target);
	}
	free(w->state);
	w->state = state;
	free(moved);
	return 0;
}

/* Data that holds a piece's address: relocations that put it there, or words as
 * they are in the file. */
static int evidence_data(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	uint32_t i;
	uint64_t at, word;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];
		uint32_t k;

		if (elf_is_object(f) || !s->data || !(s->sh.sh_flags & SHF_ALLOC) || (s->sh.sh_flags & SHF_EXECINSTR))
			continue;
		if (s->sh.sh_type == SHT_RELA) {
			struct elf_reloc *r;
			long n = elf_relocs(f, i, &r, e), j;

			for (j = 0; j < n; j++) {
				k = r[j].type == R_X86_64_RELATIVE || r[j].type == R_X86_64_IRELATIVE
				            ? piece_number(&w->env, (uint64_t)r[j].addend & ~(FLOW_EXTERN | FLOW_SLOT)) : NO_PIECE;
				if (k != NO_PIECE && w->pieces.list[k].start == (uint64_t)r[j].addend)
					w->state[k].evident = true;
			}
			if (n >= 0)
				free(r);
			continue;
		}
		if (s->sh.sh_type != SHT_PROGBITS && s->sh.sh_type != SHT_INIT_ARRAY && s->sh.sh_type != SHT_FINI_ARRAY &&
		    s->sh.sh_type != SHT_PREINIT_ARRAY)
			continue;
		for (at = (8 - s->sh.sh_addr % 8) % 8; at + 8 <= s->sh.sh_size; at += 8) {
			memcpy(&word, s->data + at, 8);
			if (word - w->env.index_base >= w->env.index_span)
				continue;
			k = piece_number(&w->env, word);
			if (k != NO_PIECE && w->pieces.list[k].start == word)
				w->state[k].evident = true;
		}
	}
	return 0;
}

/*
 * Without .eh_frame's rows, what is called, jumped to as if to call it, or has its
 * address taken is known to begin as functions do; and what ends as they do, every
 * register back and the return address on top, wherever it returns.
 */
static void evidence_judge(struct work *w)
{
	size_t i;

	for (i = 0; i < w->exit_count; i++) {
		const struct flow_exit *x = &w->exits[i];

		if (x->kind != EXIT_PART && x->to != NO_PIECE && w->pieces.list[x->to].start == x->target)
			w->state[x->to].evident = true;
	}
	for (i = 0; i < w->pieces.count; i++) {
		struct piece_state *s = &w->state[i];

		if (!s->evident && !s->sound && !w->pieces.list[i].named && !w->pieces.list[i].plt && !s->fragment) {
			s->fragment = s->unknown = s->run = true;
		} else if (s->evident && s->unknown) { /* now it is */
			s->fragment = s->unknown = false;
			s->run = true;
		}
	}
}

/* A start that others jump to with a frame of theirs, that has no name and that
 * nobody calls: a part of them. What such a piece said while it was taken for a
 * function is void. */
static int fragments_find(struct work *w, struct error *e)
{
	uint64_t *starts = malloc((w->edge_count + 1) * sizeof(*starts));
	size_t n = 0, i, k;
	bool *called;

	if (!starts)
		return error_set(e, "out of memory");
	for (i = 0; i < w->edge_count; i++) {
		const struct piece *p = piece_at(&w->env, w->edges[i].target);

		if (p && p->start == w->edges[i].target && !p->named && !p->outermost &&
		    !state_is_entry(&w->edges[i].state))
			starts[n++] = p->start;
	}
	n = words_unique(starts, n);
	called = calloc(n + 1, sizeof(*called));
	if (!called) {
		free(starts);
		return error_set(e, "out of memory");
	}
	for (i = 0; i < w->exit_count && n; i++) {
		const struct flow_exit *x = &w->exits[i];
		const uint64_t *at;

		if (x->kind == EXIT_PART || x->to == NO_PIECE || w->pieces.list[x->to].named)
			continue;
		at = bsearch(&x->target, starts, n, sizeof(*starts), word_order);
		if (at)
			called[at - starts] = true;
	}
	for (i = k = 0; i < w->pieces.count; i++) {
		struct piece_state *s = &w->state[i];
		bool fragment = false;

		while (k < n && starts[k] < w->pieces.list[i].start)
			k++;
		if (k < n && starts[k] == w->pieces.list[i].start)
			fragment = !called[k] && !(s->evident && s->sound); /* data may be a jump table */
		/* Once a fragment, always one: that its edges are gone for a round means nothing. */
		if (fragment && s->unknown)
			s->unknown = false;
		if (fragment && !s->fragment)
			s->fragment = s->run = true;
	}
	free(starts);
	free(called);
	if (w->judged)
		evidence_judge(w);
	/* Their edges go now, before they mislead others. */
	for (i = k = 0; i < w->edge_count; i++)
		if (!w->state[w->edges[i].from].run)
			w->edges[k++] = w->edges[i];
	w->edge_count = k;
	return 0;
}

static int exit_order(const void *a, const void *b)
{
	const struct flow_exit *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->kind < y->kind ? -1 : x->kind > y->kind;
}

/* Functions of other files: one that code ends with a call of does not return,
 * unless as many calls of it are followed by code that nothing else leads to. */
static int outside_judge(struct work *w, struct error *e)
{
	struct flow_exit *list = malloc((w->exit_count + 1) * sizeof(*list));
	size_t n = 0, i, k;
	bool ok = true;

	if (!list)
		return error_set(e, "out of memory");
	for (i = 0; i < w->exit_count; i++)
		if (w->exits[i].to == NO_PIECE || w->pieces.list[w->exits[i].to].plt)
			list[n++] = w->exits[i];
	if (n)
		qsort(list, n, sizeof(*list), exit_order);
	for (i = 0; i < n && ok; i = k) {
		size_t last = 0, fresh = 0;

		for (k = i; k < n && list[k].target == list[i].target; k++) {
			last += list[k].kind == EXIT_LAST;
			fresh += list[k].kind == EXIT_FRESH;
		}
		if (last > 0 && fresh <= 3 * last)
			ok = noreturn_add(w, list[i].target);
	}
	free(list);
	return ok ? 0 : error_set(e, "out of memory");
}

/*
 * Functions of this file, until no more are found: no return in them, and no jump
 * to one that returns. From each that does return, back to all that jump to it;
 * the others do not.
 */
static int inside_judge(struct work *w, struct error *e)
{
	struct flow_exit *tails = malloc((w->exit_count + 1) * sizeof(*tails));
	uint32_t *first = calloc(w->pieces.count + 2, sizeof(*first)), *todo;
	bool *returns = calloc(w->pieces.count + 1, sizeof(*returns)), ok = true;
	size_t n = 0, count = 0, i;

	todo = malloc((w->pieces.count + 1) * sizeof(*todo));
	if (!tails || !first || !returns || !todo) {
		ok = false;
		goto out;
	}
	for (i = 0; i < w->exit_count; i++) { /* counted by where they lead */
		const struct flow_exit *x = &w->exits[i];

		if (x->kind != EXIT_TAIL && x->kind != EXIT_PART)
			continue;
		if (x->to != NO_PIECE)
			first[x->to + 1]++;
		else if (!word_has(w->noreturn, w->noreturn_count, x->target))
			returns[x->from] = true;
	}
	for (i = 0; i < w->pieces.count; i++)
		first[i + 1] += first[i];
	for (i = 0; i < w->exit_count; i++) {
		const struct flow_exit *x = &w->exits[i];

		if ((x->kind == EXIT_TAIL || x->kind == EXIT_PART) && x->to != NO_PIECE) {
			tails[first[x->to]++] = *x;
			n++;
		}
	}
	for (i = 0; i < w->pieces.count; i++) {
		bool known = w->state[i].noreturn ||
		             (w->pieces.list[i].plt && word_has(w->noreturn, w->noreturn_count, w->pieces.list[i].start));

		returns[i] = !known && (returns[i] || w->state[i].returns || w->state[i].run || w->pieces.list[i].plt);
		if (returns[i])
			todo[count++] = (uint32_t)i;
	}
	while (count) {
		uint32_t to = todo[--count];

		for (i = to ? first[to - 1] : 0; i < first[to]; i++) /* first[] has moved on by one */
			if (!returns[tails[i].from] && !w->state[tails[i].from].noreturn) {
				returns[tails[i].from] = true;
				todo[count++] = tails[i].from;
			}
	}
	for (i = 0; i < w->pieces.count && ok; i++)
		if (!returns[i] && !w->state[i].noreturn && !w->pieces.list[i].plt) {
			w->state[i].noreturn = true;
			ok = noreturn_add(w, w->pieces.list[i].start);
		}
	noreturn_sort(w);
out:
	free(tails);
	free(first);
	free(returns);
	free(todo);
	return ok ? 0 : error_set(e, "out of memory");
}

static int noreturn_find(struct work *w, struct error *e)
{
	uint64_t *before = malloc((w->noreturn_count + 1) * sizeof(*before));
	size_t n = w->noreturn_count, i;

	if (!before)
		return error_set(e, "out of memory");
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
	free(w->noreturn_new);
	w->noreturn_new = malloc((w->noreturn_count + 1) * sizeof(*w->noreturn_new));
	if (!w->noreturn_new) {
		free(before);
		return error_set(e, "out of memory");
	}
	/* Who calls what is new on the list, other than at its end, has code that
	 * is not reached by that call. */
	if (w->noreturn_count > n) {
		size_t fresh = 0;

		for (i = 0; i < w->noreturn_count; i++) /* only what is new: few */
			if (!word_has(before, n, w->noreturn[i]))
				w->noreturn_new[fresh++] = w->noreturn[i];
		for (i = 0; i < w->exit_count; i++) {
			const struct flow_exit *x = &w->exits[i];

			if ((x->kind == EXIT_CALL || x->kind == EXIT_FRESH) &&
			    word_has(w->noreturn_new, fresh, x->target))
				w->state[x->from].run = true;
		}
	}
	free(before);
	return 0;
}

static uint64_t checksum(uint64_t sum, const void *bytes, size_t size)
{
	const uint8_t *p = bytes;

	while (size--)
		sum = (sum ^ *p++) * 0x100000001b3u; /* FNV-1a */
	return sum;
}

/* The row that a piece has for an address. */
static const struct row *row_of(const struct piece_rows *r, uint64_t addr)
{
	size_t lo = 0, hi = r->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->rows[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &r->rows[lo - 1] : NULL;
}

/* Pieces that are jumped into with something that their rows do not know. */
static void edges_apply(struct work *w)
{
	size_t i, k = 0;

	for (i = 0; i < w->pieces.count; i++) {
		const struct piece *p = &w->pieces.list[i];
		struct piece_state *s = &w->state[i];
		uint64_t sum = 0;
		bool known = true;

		while (k < w->edge_count && w->edges[k].target < p->start)
			k++;
		for (; k < w->edge_count && w->edges[k].target < p->end; k++) {
			const struct flow_edge *x = &w->edges[k];
			const struct row *row = row_of(&s->rows, x->target);
			struct etch_rule rule;

			state_rule(&x->state, &rule);
			sum = checksum(checksum(sum, &x->target, sizeof(x->target)), &rule, sizeof(rule));
			known &= row && row->source != ETCH_SOURCE_CFI &&
			         state_witness(&x->state, &row->rule) == WITNESS_CONFIRMS;
		}
		if (sum != s->edges_seen && (!known || s->fragment || s->run))
			s->run = true;
		if (s->run)
			s->edges_seen = sum;
	}
}

/* Marks the pieces of the next round. Returns whether there are any, or -1. */
static int round_prepare(struct work *w, struct error *e)
{
	size_t i;

	for (i = 0; i < w->pieces.count; i++)
		w->state[i].run = false;
	if (strays_add(w, e) || fragments_find(w, e) || noreturn_find(w, e))
		return -1;
	edges_apply(w);
	for (i = 0; i < w->pieces.count; i++)
		if (w->state[i].run)
			return 1;
	if (w->options->no_cfi && !w->judged) { /* all is known that can be: what is still without a sign */
		w->judged = true;
		evidence_judge(w);
		for (i = 0; i < w->pieces.count; i++)
			if (w->state[i].run)
				return 1;
	}
	return 0;
}

/* ---- the result -------------------------------------------------------------------------- */

static bool row_append(struct row_list *l, uint64_t addr, const struct etch_rule *rule, unsigned source)
{
	struct row *last = l->count ? &l->rows[l->count - 1] : NULL;

	if (last && !memcmp(&last->rule, rule, sizeof(*rule)) &&
	    (last->source == source || rule->kind == ETCH_RULE_UNDEF))
		return true;
	if (last && last->addr == addr) {
		last->rule = *rule;
		last->source = (uint8_t)source;
		return true;
	}
	if (!room_make(&l->rows, &l->room, l->count, sizeof(*l->rows)))
		return false;
	memset(&l->rows[l->count], 0, sizeof(l->rows[l->count]));
	l->rows[l->count].addr = addr;
	l->rows[l->count].rule = *rule;
	l->rows[l->count++].source = (uint8_t)source;
	return true;
}

static int rows_join(struct work *w, struct error *e)
{
	static const struct etch_rule none, end = {.kind = ETCH_RULE_END};
	struct frames *out = w->out;
	uint64_t at = 0;
	size_t i, k, total = 0;

	for (i = 0; i < w->pieces.count; i++)
		total += w->state[i].rows.count;
	out->rows.room = total + total / 8 + 64;
	out->rows.rows = big_alloc(out->rows.room * sizeof(*out->rows.rows));
	if (!out->rows.rows)
		return error_set(e, "out of memory");
	for (i = 0; i < w->pieces.count; i++) {
		const struct piece *p = &w->pieces.list[i];
		struct piece_rows *r = &w->state[i].rows;

		if (i && at != p->start && !row_append(&out->rows, at, &none, ETCH_SOURCE_CODE))
			return error_set(e, "out of memory");
		/* Its first address is a return address that no call has made: who looks up
		 * the byte before finds the end of the stack. */
		if (w->state[i].switches && i && at < p->start && !row_append(&out->rows, p->start - 1, &end, ETCH_SOURCE_CODE))
			return error_set(e, "out of memory");
		for (k = 0; k < r->count; k++) {
			uint64_t end = k + 1 < r->count ? r->rows[k + 1].addr : p->end;

			if (!row_append(&out->rows, r->rows[k].addr, &r->rows[k].rule, r->rows[k].source))
				return error_set(e, "out of memory");
			if (r->rows[k].rule.kind != ETCH_RULE_UNDEF)
				out->covered += end - r->rows[k].addr;
		}
		out->undefined += r->undefined;
		for (k = 0; k < r->finding_count; k++) {
			if (out->finding_count % 64 == 0) {
				void *grown = realloc(out->findings, (out->finding_count + 64) * sizeof(*out->findings));

				if (!grown)
					return error_set(e, "out of memory");
				out->findings = grown;
			}
			out->findings[out->finding_count++] = r->findings[k];
		}
		at = p->end;
		piece_rows_free(r);
	}
	if (w->pieces.count && !row_append(&out->rows, at, &none, ETCH_SOURCE_CODE))
		return error_set(e, "out of memory");
	out->functions = w->pieces.count;
	return 0;
}

int frames_find(const struct elf_file *f, const struct frames_options *o, struct frames *out, struct error *e)
{
	struct work w = {.file = f, .options = o, .out = out, .lock = PTHREAD_MUTEX_INITIALIZER};
	int err = -1, more = 1, rounds;
	size_t i;

	memset(out, 0, sizeof(*out));
	/* The code, what .eh_frame knows of it, and where it can be cut. */
	if (space_build(f, &out->space, e) || cfi_file_open(f, &out->space, &w.cfi, e) ||
	    pieces_build(f, &out->space, &w.cfi, &w.pieces, e))
		goto out;
	w.env = (struct flow_env){.file = f, .cfi = &w.cfi, .pieces = w.pieces.list, .piece_count = w.pieces.count,
	                          .entries = w.pieces.entries, .space = &out->space};
	if (noreturn_names(&w, e))
		goto out;
	if (!noreturn_symbols(&w, f->symbols, f->symbol_count, true) ||
	    !noreturn_symbols(&w, f->dynsyms, f->dynsym_count, false)) {
		error_set(e, "out of memory");
		goto out;
	}
	if (!pieces_index(&w.env)) {
		error_set(e, "out of memory");
		goto out;
	}
	if (noreturn_slots(&w, e) || relocs_read(&w, e))
		goto out;
	w.state = calloc(w.pieces.count + 1, sizeof(*w.state));
	if (!w.state) {
		error_set(e, "out of memory");
		goto out;
	}
	if (o->no_cfi && evidence_data(&w, e))
		goto out;
	for (i = 0; i < w.pieces.count; i++)
		w.state[i].run = true;
	for (rounds = 0; more > 0 && rounds < ROUNDS_MOST; rounds++) {
		if (round_run(&w, e))
			goto out;
		more = round_prepare(&w, e);
		if (more < 0)
			goto out;
	}
	err = rows_join(&w, e);
out:
	for (i = 0; w.state && i < w.pieces.count; i++)
		piece_rows_free(&w.state[i].rows);
	free(w.state);
	free(w.edges);
	free(w.exits);
	free(w.strays);
	free(w.noreturn);
	free(w.noreturn_new);
	for (i = 0; i < w.name_count; i++)
		free(w.names[i]);
	free(w.names);
	free(w.env.index);
	free(w.env.relocs);
	pieces_free(&w.pieces);
	cfi_file_close(&w.cfi);
	return err;
}

void frames_free(struct frames *fr)
{
	free(fr->rows.rows);
	free(fr->findings);
	space_free(&fr->space);
	memset(fr, 0, sizeof(*fr));
}
