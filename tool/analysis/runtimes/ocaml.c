/* SPDX-License-Identifier: MIT */
/*
 * The compiler puts the code of each module between the symbols camlMODULE__code_begin and camlMODULE__code_end (since
 * 5.1 with a dot or a dollar sign in place of __); likewise caml_startup, which it makes at link time. caml_system is
 * excluded: the run-time system's assembly, which C calls. With a section per function, the names in object files are
 * .text.caml.*.
 */
#include "analysis/runtimes/ocaml.h"

#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* A symbol code_begin or code_end. */
struct mark {
	const char *name;
	size_t len; /* of its prefix with the module's name */
	uint64_t at;
	uint32_t section;
	bool end;
};

struct marks {
	struct mark *list;
	size_t count, room;
};

struct span {
	uint64_t start, end;
};

static bool ends_in(const char *name, size_t n, const char *end, size_t k)
{
	return n > k && !memcmp(name + n - k, end, k);
}

/* Length of the prefix with the module's name, of a symbol that ends in `what`; 0: it does not. */
static size_t module_of(const char *name, const char *what)
{
	size_t n = strlen(name), k = strlen(what);

	if (!ends_in(name, n, what, k))
		return 0;
	n -= k;
	return ends_in(name, n, "__", 2) ? n - 2 : ends_in(name, n, ".", 1) || ends_in(name, n, "$", 1) ? n - 1 : 0;
}

static bool mark_read(const struct elf_symbol *y, struct mark *out)
{
	*out = (struct mark){.name = y->name, .at = y->value, .section = y->section};
	if (strncmp(y->name, "caml", 4) || !strcmp(y->name, "caml_system__code_begin") || (!y->section && !y->special))
		return false;
	out->len = module_of(y->name, "code_begin");
	if (out->len)
		return true;
	out->len = module_of(y->name, "code_end");
	out->end = out->len != 0;
	return out->end;
}

static int mark_order(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;
	int c = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	if (c || x->len != y->len)
		return c ? c : x->len < y->len ? -1 : 1;
	if (x->end != y->end)
		return x->end - y->end;
	return x->at < y->at ? -1 : x->at > y->at;
}

static int span_order(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void marks_take(const struct elf_symbol *list, uint32_t n, struct marks *out)
{
	struct mark m;
	uint32_t i;

	for (i = 1; i < n; i++)
		if (mark_read(&list[i], &m)) {
			mem_room(&out->list, &out->room, out->count, sizeof(m));
			out->list[out->count++] = m;
		}
	if (out->count)
		qsort(out->list, out->count, sizeof(m), mark_order);
}

/* Fills `out`, of m->count + space->count elements, with the spans between the marks of modules and, in object files,
 * the sections of functions. Returns their number. */
static size_t spans_make(const struct elf_file *f, const struct code_space *space, const struct marks *m,
                         struct span *out)
{
	size_t i, n = 0;

	for (i = 0; elf_is_object(f) && i < space->count; i++)
		if (!strncmp(f->sections[space->list[i].section].name, ".text.caml.", 11))
			out[n++] = (struct span){space->list[i].addr, space->list[i].addr + space->list[i].size};
	for (i = 0; i + 1 < m->count; i++) {
		const struct mark *x = &m->list[i], *y = &m->list[i + 1];
		/* In a linked file the last code_end may lie at the end of the section, and its symbol in no section. */
		bool object = elf_is_object(f), near = !object || x->section == y->section;
		const struct code_section *c = object ? space_of(space, x->section) : space_at(space, x->at);
		uint64_t base = c && object ? c->addr : 0;

		if (c && near && !x->end && y->end && x->len == y->len && !memcmp(x->name, y->name, x->len) && x->at <= y->at &&
		    base + y->at <= c->addr + c->size)
			out[n++] = (struct span){base + x->at, base + y->at};
	}
	if (n)
		qsort(out, n, sizeof(*out), span_order);
	return n;
}

void ocaml_mark(const struct elf_file *f, const struct code_space *space, struct code_ranges *p)
{
	struct marks m = {0};
	struct span *spans;
	size_t i, n, k = 0;

	marks_take(f->symbols, f->symbol_count, &m);
	if (!m.count)
		marks_take(f->dynsyms, f->dynsym_count, &m);
	if (!m.count)
		return;
	spans = mem_alloc(m.count + space->count, sizeof(*spans));
	n = spans_make(f, space, &m, spans);
	for (i = 0; i < n; i++) {
		while (k < p->count && p->list[k].start < spans[i].start)
			k++;
		for (; k < p->count && p->list[k].start < spans[i].end; k++)
			p->list[k].convention = &convention_ocaml;
	}
	free(spans);
	free(m.list);
}
