/* SPDX-License-Identifier: MIT */
/* Computes hashes of names, in one pass for all long names of a file. */
#include "diff/names.h"

#include "diff/image.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#define PRIME (((uint64_t)1 << 61) - 1)
#define BASE  0x0b97d3c52f1e6a8du

/* A name longer than NAME_SHORT, with its hash. */
struct long_name {
	const char *name;
	uint64_t hash;
};

bool name_is_long(const char *name) { return strnlen(name, NAME_SHORT + 1) > NAME_SHORT; }

/*
 * h is the hash of a suffix. Returns the hash of the longer suffix that also has the bytes [from, to) before it. These
 * are hashed from the last to the first, so that one pass gives the hashes of all suffixes of a string.
 */
static uint64_t tail_hash(const char *from, const char *to, uint64_t h)
{
	while (to > from) {
		unsigned __int128 p = (unsigned __int128)h * (BASE % PRIME) + (unsigned char)*--to + 1;

		h = (uint64_t)(p & PRIME) + (uint64_t)(p >> 61);
		h = h >= PRIME ? h - PRIME : h;
	}
	return h;
}

static void name_add(struct names *n, const char *name)
{
	if (!name_is_long(name))
		return;
	mem_reserve(&n->list, &n->capacity, n->count, sizeof(*n->list));
	n->list[n->count++].name = name;
}

static int address_order(const void *a, const void *b)
{
	const struct long_name *x = a, *y = b;

	return x->name < y->name ? -1 : x->name > y->name;
}

void names_open(const struct elf_file *f, struct names *n)
{
	uint32_t i;
	size_t k;

	for (i = 0; i < f->symbol_count; i++)
		name_add(n, f->symbols[i].name);
	for (i = 0; i < f->dynsym_count; i++)
		name_add(n, f->dynsyms[i].name);
	for (i = 0; i < f->section_count; i++)
		name_add(n, f->sections[i].name);
	if (n->count)
		qsort(n->list, n->count, sizeof(*n->list), address_order);
	for (k = n->count; k-- > 0;) {
		struct long_name *x = &n->list[k];
		const struct long_name *after = k + 1 < n->count ? x + 1 : NULL;
		const char *end = after ? memchr(x->name, 0, (size_t)(after->name - x->name)) : x->name + strlen(x->name);

		x->hash = end ? tail_hash(x->name, end, 1) : tail_hash(x->name, after->name, after->hash);
	}
}

void names_close(struct names *n)
{
	free(n->list);
	*n = (struct names){0};
}

static uint64_t long_hash(const struct names *n, const char *name)
{
	size_t k = SEARCH(n->count, i, n->list[i].name < name);

	return k < n->count && n->list[k].name == name ? n->list[k].hash : tail_hash(name, name + strlen(name), 1);
}

uint64_t name_hash(const struct names *n, const char *name)
{
	return name_is_long(name) ? long_hash(n, name) : hash_text(name);
}

uint64_t name_base_hash(const struct names *n, const char *name)
{
	return name_is_long(name) ? mix(long_hash(n, name), 0)
	                          : mix(hash_bytes(name, name_base(name)), strstr(name, ".cold") != NULL);
}

int name_order(const struct names *m, const char *a, const struct names *n, const char *b)
{
	int c = strncmp(a, b, NAME_SHORT + 1);
	uint64_t x, y;

	if (c || !name_is_long(a))
		return c;
	x = long_hash(m, a);
	y = long_hash(n, b);
	return x < y ? -1 : x > y;
}
