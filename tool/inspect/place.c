/* SPDX-License-Identifier: MIT */
/*
 * Finds the place that a user names, in one of these forms: a function by its symbol, by the name that people write for
 * it ("work(int)", "work"), or by any part of that name; "name+0x12"; a hexadecimal address.
 */
#include "inspect/inspect.h"

#include "elf/symbols.h"
#include "support/demangle.h"
#include "support/typed_name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MOST 4 /* number of functions that are listed if a name may mean several */

/* The functions whose names match the user's text best so far. */
struct candidates {
	enum fit fit;
	size_t count;                                   /* number of candidates at different places */
	const struct elf_symbol *list[CANDIDATES_MOST]; /* the first of the candidates */
};

static bool is_same_place(const struct elf_symbol *a, const struct elf_symbol *b)
{
	return a->section == b->section && a->value == b->value;
}

static void candidate_add(struct candidates *c, enum fit fit, const struct elf_symbol *s)
{
	size_t i, listed;

	if (fit == FIT_NONE || fit < c->fit)
		return;
	if (fit > c->fit)
		*c = (struct candidates){.fit = fit};
	listed = c->count < CANDIDATES_MOST ? c->count : CANDIDATES_MOST;
	for (i = 0; i < listed; i++)
		if (is_same_place(c->list[i], s))
			return;
	if (c->count < CANDIDATES_MOST)
		c->list[c->count] = s;
	c->count++;
}

static void candidates_find(const struct elf_file *f, const struct elf_symbol *list, uint32_t count, const char *text,
                            struct candidates *c)
{
	uint32_t i;

	for (i = 1; i < count; i++)
		if (symbol_is_function(f, &list[i]))
			candidate_add(c, name_fit(list[i].name, text), &list[i]);
}

static void symbol_place(const struct elf_symbol *s, struct place *out)
{
	*out = (struct place){s->section, s->value, s->value + (s->size ? s->size : 1), s->size != 0};
}

static bool symbol_find(const struct elf_file *f, const struct elf_symbol *list, uint32_t count, const char *name,
                        struct place *out)
{
	const struct elf_symbol *best = NULL;
	uint32_t i;

	for (i = 1; i < count; i++)
		if (symbol_is_function(f, &list[i]) && !strcmp(list[i].name, name) && (!best || list[i].bind != STB_LOCAL))
			best = &list[i];
	if (best)
		symbol_place(best, out);
	return best != NULL;
}

static int candidates_error(const struct candidates *c, const char *text, struct error *e)
{
	char list[CANDIDATES_MOST * 128] = "", shown[DEMANGLED_MOST];
	size_t i, n = 0;

	for (i = 0; i < c->count && i < CANDIDATES_MOST && n < sizeof(list); i++) {
		const char *name = demangle(c->list[i]->name, DEMANGLED_FULL, shown) ? shown : c->list[i]->name;

		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%.100s", i ? ", " : "", name);
	}
	return error_set(e, "has %zu functions that '%.100s' may mean: %s%s", c->count, text, list,
	                 c->count > CANDIDATES_MOST ? ", ..." : "");
}

/*
 * Finds a function by its symbol or, if no symbol matches, by a name that people write for it; `least` is the loosest
 * match that counts. Returns 1 if one function is found, 0 if none is, and -1 if there are several, which the message
 * lists.
 */
static int function_named(const struct elf_file *f, const char *text, enum fit least, struct place *out,
                          struct error *e)
{
	struct candidates c = {FIT_NONE};

	if (symbol_find(f, f->symbols, f->symbol_count, text, out) ||
	    symbol_find(f, f->dynsyms, f->dynsym_count, text, out))
		return 1;
	if (!*text)
		return 0;
	candidates_find(f, f->symbols, f->symbol_count, text, &c);
	candidates_find(f, f->dynsyms, f->dynsym_count, text, &c);
	if (c.fit < least || !c.count)
		return 0;
	if (c.count > 1)
		return candidates_error(&c, text, e);
	symbol_place(c.list[0], out);
	return 1;
}

/*
 * Finds "name+0x12" or "section+0x12", which is how findings name places. Returns 1 if one place is found, 0 if none
 * is, and -1 if there are several.
 */
static int offset_find(const struct elf_file *f, const char *at, struct place *out, struct error *e)
{
	const char *plus = strrchr(at, '+');
	char name[512], *end;
	uint64_t off;
	int found;

	if (!plus || strncmp(plus, "+0x", 3) || (size_t)(plus - at) >= sizeof(name))
		return 0;
	memcpy(name, at, (size_t)(plus - at));
	name[plus - at] = 0;
	off = strtoull(plus + 3, &end, 16);
	if (*end || end == plus + 3)
		return 0;
	found = function_named(f, name, FIT_INNER, out, e);
	if (found < 0)
		return -1;
	if (!found) {
		uint32_t section = elf_section_find(f, name, 1);

		if (!section)
			return 0;
		*out = (struct place){.section = section, .start = elf_is_object(f) ? 0 : f->sections[section].sh.sh_addr};
	}
	*out = (struct place){out->section, out->start + off, out->start + off + 1, false};
	return 1;
}

int place_find(const struct elf_file *f, const char *at, struct place *out, struct error *e)
{
	char *end;
	uint64_t addr;
	int found = function_named(f, at, FIT_INNER, out, e);

	if (!found)
		found = offset_find(f, at, out, e);
	if (found)
		return found < 0 ? -1 : 0;
	errno = 0;
	addr = strtoull(at, &end, 16);
	if (end != at && !*end && !errno) {
		*out = (struct place){elf_is_object(f) ? 0 : elf_section_at(f, addr), addr, addr + 1, false};
		return 0;
	}
	found = function_named(f, at, FIT_PART, out, e);
	if (!found)
		return error_set(e, "has no function '%.200s' (nor is that a hexadecimal address)", at);
	return found < 0 ? -1 : 0;
}
