/* SPDX-License-Identifier: MIT */
/*
 * OCaml. Its native compiler puts the code of each module between the symbols camlMODULE__code_begin and
 * camlMODULE__code_end (since 5.1 with a dot or a dollar sign instead of __). It does the same with caml_startup, which
 * it makes at link time. caml_system is excluded: it is the assembly code of the run-time system, which C calls. If
 * each function has a section of its own, these are called .text.caml.* in object files.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/runtimes/columns.h"
#include "support/memory.h"

/*
 * Functions preserve no registers; r14 and r15 are reserved for the run-time system. Every call except a raise returns
 * to the code after it as far as the compiler knows, even if it never does in fact: only a raise ends a block
 * (has_fallthrough in asmcomp/linear.ml). Exception handlers are linked into a list at run time
 * (analysis/flow/traps.c): see Lpushtrap and Lraise in asmcomp/amd64/emit.mlp. The head of the list is a register and,
 * from 5.0 on, a field of a structure. Up to 4.13, a call pushed the address of a handler. From 5.0 on, C is called on
 * another stack, while a callee-saved register holds rsp.
 */
const struct convention convention_ocaml = {.keeps_none = true, .calls_return = true};

/* A symbol whose name ends in code_begin or code_end. */
struct mark {
	const char *name;
	size_t len; /* length of the prefix with the module's name */
	uint64_t at;
	uint32_t section;
	/* It ends in code_end. */
	bool end;
};

/* Sorted by module; within a module, code_begin before code_end; then by address. */
struct marks {
	struct mark *list;
	size_t count, capacity;
};

static bool ends_in(const char *name, size_t n, const char *end, size_t k)
{
	return n > k && !memcmp(name + n - k, end, k);
}

/* If a symbol's name ends in `what`, returns the length of the prefix with the module's name; otherwise 0. */
static size_t module_of(const char *name, const char *what)
{
	size_t n = strlen(name), k = strlen(what);

	if (!ends_in(name, n, what, k))
		return 0;
	n -= k;
	if (ends_in(name, n, "__", 2))
		return n - 2;
	return ends_in(name, n, ".", 1) || ends_in(name, n, "$", 1) ? n - 1 : 0;
}

/* Reads a symbol into *out. Returns false if it is no mark of a module. */
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

	if (c)
		return c;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	if (x->end != y->end)
		return x->end - y->end;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void marks_take(const struct elf_symbol *list, uint32_t n, struct marks *out)
{
	struct mark m;
	uint32_t i;

	for (i = 1; i < n; i++)
		if (mark_read(&list[i], &m)) {
			mem_reserve(&out->list, &out->capacity, out->count, sizeof(m));
			out->list[out->count++] = m;
		}
	if (out->count)
		qsort(out->list, out->count, sizeof(m), mark_order);
}

/* Appends the code between the marks of each module and, in object files, the sections that contain one function
 * each. */
static void spans_take(const struct elf_file *f, const struct code_space *space, const struct marks *m,
                       struct runtime_codes *out)
{
	size_t i;

	for (i = 0; elf_is_object(f) && i < space->count; i++) {
		const struct code_section *c = &space->list[i];

		if (!strncmp(f->sections[c->section].name, ".text.caml.", 11))
			runtime_code_add(out, (struct runtime_code){.start = c->addr, .end = c->addr + c->size});
	}
	for (i = 0; i + 1 < m->count; i++) {
		const struct mark *x = &m->list[i], *y = &m->list[i + 1];
		/* In a linked file, the last code_end may lie at the end of the section, and its symbol in no section. */
		bool object = elf_is_object(f), near = !object || x->section == y->section;
		const struct code_section *c = object ? space_of(space, x->section) : space_at(space, x->at);
		uint64_t base = c && object ? c->addr : 0;

		if (c && near && !x->end && y->end && x->len == y->len && !memcmp(x->name, y->name, x->len) && x->at <= y->at &&
		    base + y->at <= c->addr + c->size)
			runtime_code_add(out, (struct runtime_code){.start = base + x->at, .end = base + y->at});
	}
}

int ocaml_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e)
{
	struct marks m = {0};

	(void)e;
	marks_take(f->symbols, f->symbol_count, &m);
	if (!m.count)
		marks_take(f->dynsyms, f->dynsym_count, &m);
	if (m.count)
		spans_take(f, space, &m, out);
	free(m.list);
	return 0;
}
