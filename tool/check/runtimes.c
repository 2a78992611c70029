/* SPDX-License-Identifier: MIT */
/* Finds the code of language runtimes by the symbols and sections that their tools leave in the file. */
#include "check/check.h"
#include "elf/pclntab.h"

#include <stdlib.h>
#include <string.h>

const char *runtime_name(enum runtime kind)
{
	static const char *const names[RUNTIMES] = {"", "OCaml", "Dart", "V8", "Go"};

	return names[kind];
}

bool runtime_explains(const struct finding *f)
{
	static const char *const ids[] = {"ETCH-C001", "ETCH-F001", "ETCH-F004", "ETCH-S001",
	                                  "ETCH-S002", "ETCH-S005", "ETCH-S006"};
	size_t i;

	for (i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (!strcmp(f->id, ids[i]))
			return true;
	return false;
}

static bool range_add(struct runtimes *r, uint64_t start, uint64_t end, enum runtime kind)
{
	struct runtime_range *grown;

	if (r->count == r->room) {
		grown = realloc(r->list, (2 * r->room + 16) * sizeof(*grown));
		if (!grown)
			return false;
		r->list = grown;
		r->room = 2 * r->room + 16;
	}
	r->list[r->count++] = (struct runtime_range){start, end, kind};
	return true;
}

static bool starts_in(const char *name, const char *start) { return !strncmp(name, start, strlen(start)); }

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	return n >= k && !strcmp(name + n - k, end);
}

/* ---- symbols ------------------------------------------------------------------------ */

/* One of the two symbols around the code of a module of ocamlopt: camlMODULE__code_begin, camlMODULE__code_end
 * (analysis/runtimes/ocaml.c). */
struct mark {
	const char *name;
	size_t len; /* length of camlMODULE in it */
	uint64_t at;
	uint32_t section;
	bool end;
};

struct marks {
	struct mark *list;
	size_t count;
};

/* Sorts the two marks of a module next to each other. */
static int mark_order(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;
	int c = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	if (c || x->len != y->len)
		return c ? c : x->len < y->len ? -1 : 1;
	if (x->end != y->end)
		return x->end - y->end;
	return (x->at > y->at) - (x->at < y->at);
}

static int range_order(const void *a, const void *b)
{
	const struct runtime_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static uint64_t symbol_addr(const struct subject *s, const struct elf_symbol *y)
{
	const struct code_section *c = elf_is_object(s->file) && y->section ? space_of(&s->frames.space, y->section) : NULL;

	return y->value + (c ? c->addr : 0);
}

/* Reads a mark; false: the symbol is none. caml_system is left out: the runtime's assembly, which C code calls, too. */
static bool mark_read(const struct elf_symbol *y, uint64_t at, struct mark *out)
{
	static const char *const separators[] = {"__", ".", "$"};
	const char *what = ends_in(y->name, "code_end") ? "code_end" : "code_begin";
	size_t n, k, i;

	*out = (struct mark){.name = y->name, .at = at, .section = y->section, .end = !strcmp(what, "code_end")};
	if (!starts_in(y->name, "caml") || starts_in(y->name, "caml_system_") || !ends_in(y->name, what))
		return false;
	n = strlen(y->name) - strlen(what);
	for (i = 0; i < sizeof(separators) / sizeof(separators[0]); i++) {
		k = strlen(separators[i]);
		if (n > k && !memcmp(y->name + n - k, separators[i], k)) {
			out->len = n - k;
			return true;
		}
	}
	return false;
}

/* True if the file has V8's embedded builtins, known by two of them. */
static bool has_builtins(const struct elf_symbol *list, uint32_t count)
{
	bool trampoline = false, call = false;
	uint32_t i;

	for (i = 1; i < count; i++) {
		if (!starts_in(list[i].name, "Builtins_"))
			continue;
		trampoline |= !strcmp(list[i].name, "Builtins_InterpreterEntryTrampoline");
		call |= starts_in(list[i].name, "Builtins_CEntry_");
	}
	return trampoline && call;
}

static bool symbols_take(const struct subject *s, const struct elf_symbol *list, uint32_t count, struct marks *m,
                         struct runtimes *out)
{
	bool builtins = has_builtins(list, count);
	uint32_t i;

	for (i = 1; i < count; i++) {
		const struct elf_symbol *y = &list[i];
		uint64_t at = symbol_addr(s, y);
		enum runtime kind = RUNTIME_NONE;

		m->count += mark_read(y, at, &m->list[m->count]);
		if (!y->section || !y->size || !space_of(&s->frames.space, y->section))
			continue;
		if (builtins && starts_in(y->name, "Builtins_"))
			kind = RUNTIME_V8;
		else if (starts_in(y->name, "_kDart") &&
		         (ends_in(y->name, "SnapshotText") || ends_in(y->name, "SnapshotInstructions")))
			kind = RUNTIME_DART;
		if (kind && !range_add(out, at, at + y->size, kind))
			return false;
	}
	return true;
}

static bool modules_take(const struct subject *s, struct marks *m, struct runtimes *out)
{
	size_t i;

	if (m->count)
		qsort(m->list, m->count, sizeof(*m->list), mark_order);
	for (i = 0; i + 1 < m->count; i++) {
		const struct mark *x = &m->list[i], *y = &m->list[i + 1];
		const struct code_section *c = space_at(&s->frames.space, x->at);

		if (!c || x->end || !y->end || x->len != y->len || memcmp(x->name, y->name, x->len) || x->at > y->at ||
		    y->at > c->addr + c->size || (elf_is_object(s->file) && x->section != y->section))
			continue;
		if (!range_add(out, x->at, y->at, RUNTIME_OCAML))
			return false;
	}
	return true;
}

static int go_take(const struct subject *s, struct runtimes *out, struct error *e)
{
	struct go_function *list = NULL;
	long n = go_functions_read(s->file, &list, e), i;
	bool good = true;

	for (i = 0; i < n && good; i++)
		good = range_add(out, list[i].start, list[i].end, RUNTIME_GO);
	free(list);
	if (n >= 0 && !good)
		error_set(e, "out of memory");
	return n < 0 || !good ? -1 : 0;
}

int runtimes_find(const struct subject *s, struct runtimes *out, struct error *e)
{
	const struct elf_file *f = s->file;
	struct marks m = {0};
	bool good;

	*out = (struct runtimes){0};
	m.list = malloc(((size_t)f->symbol_count + f->dynsym_count + 1) * sizeof(*m.list));
	good = m.list && symbols_take(s, f->symbols, f->symbol_count, &m, out) &&
	       (f->symbol_count || symbols_take(s, f->dynsyms, f->dynsym_count, &m, out)) && modules_take(s, &m, out);
	free(m.list);
	if (!good)
		return error_set(e, "out of memory");
	if (go_take(s, out, e))
		return -1;
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), range_order);
	return 0;
}

void runtimes_free(struct runtimes *r)
{
	free(r->list);
	*r = (struct runtimes){0};
}

enum runtime runtime_at(const struct runtimes *r, uint64_t addr)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (r->list[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low && addr < r->list[low - 1].end ? r->list[low - 1].kind : RUNTIME_NONE;
}
