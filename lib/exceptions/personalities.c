/* SPDX-License-Identifier: MIT */
/*
 * personalities.c: a list of personality routines, to which entries are only added. A process has one entry for each
 * module and language, because each module has a pointer of its own.
 *
 * A routine whose tables are known is recognized by its name in the dynamic symbol table of its module: libstdc++ may
 * be loaded late, and more than once. A program with a routine of its own has that name only in a table for
 * debuggers, which is not read.
 *
 * RULES OF THIS FILE. Async-signal-safe: no malloc, no lock; of libc only memcpy and strcmp.
 */
#include <elf.h>
#include <string.h>

#include "exceptions/personalities.h"
#include "exceptions/file_places.h"

struct personality personalities[PERSONALITIES];
static uint32_t entered = 1; /* 0 stands for none */

/* The routines that the program sees; in a static program they are the only ones. */
extern void __gxx_personality_v0(void) __attribute__((weak));
extern void __gcc_personality_v0(void) __attribute__((weak));
extern void rust_eh_personality(void) __attribute__((weak));

static const struct {
	const char *name;
	void (*function)(void);
	enum language language;
} known[] = {
	{"__gxx_personality_v0", __gxx_personality_v0, LANGUAGE_CXX},
	{"__gcc_personality_v0", __gcc_personality_v0, LANGUAGE_C},
	{"rust_eh_personality", rust_eh_personality, LANGUAGE_RUST},
};

/* ---- names of a module that stays loaded ---------------------------------------------- */

struct names {
	const Elf64_Sym *symbols;
	const char *strings;
	const uint32_t *hash; /* DT_GNU_HASH */
};

static bool names_open(const struct prepare_image *im, struct names *n)
{
	struct dynamic_tables t = dynamic_tables_read(im);

	n->symbols = (const Elf64_Sym *)(uintptr_t)t.symbols;
	n->strings = (const char *)(uintptr_t)t.strings;
	n->hash = (const uint32_t *)(uintptr_t)t.gnu_hash;
	return loaded_inside(im, t.symbols, 16) && loaded_inside(im, t.strings, 16) && loaded_inside(im, t.gnu_hash, 16);
}

/* The address of a symbol that the module defines; 0 if there is none. The hash:
 * https://flapenguin.me/elf-dt-gnu-hash */
static uint64_t names_find(const struct prepare_image *im, const struct names *n, const char *name)
{
	const uint32_t *bucket = n->hash + 4 + 2 * n->hash[2], *chain = bucket + n->hash[0];
	uint32_t hash = 5381, i, first = n->hash[1];

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	i = n->hash[0] ? bucket[hash % n->hash[0]] : 0;
	if (i < first)
		return 0;
	for (;; i++) {
		const Elf64_Sym *s = &n->symbols[i];

		if ((chain[i - first] | 1) == (hash | 1) && !strcmp(n->strings + s->st_name, name))
			return s->st_shndx == SHN_UNDEF ? 0 : im->bias + s->st_value;
		if (chain[i - first] & 1)
			return 0;
	}
}

/* ---- the list ------------------------------------------------------------------------ */

/* Finds out which language and which module the function belongs to. */
static void function_look(struct personality *p)
{
	struct prepare_image im;
	struct names names;
	bool stays;

	for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (p->function == (uint64_t)(uintptr_t)known[i].function) {
			p->language = (uint8_t)known[i].language;
			return;
		}
	if (!loaded_image(p->function, &im) || !names_open(&im, &names))
		return;
	stays = loaded_is_permanent(&im);
	p->module = stays ? 0 : place_number(&im);
	if (!stays && !p->module)
		return;
	for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (names_find(&im, &names, known[i].name) == p->function)
			p->language = (uint8_t)known[i].language;
}

unsigned personality_enter(uint64_t at, bool indirect)
{
	struct personality new = {.at = at, .indirect = indirect};
	uint32_t n = __atomic_load_n(&entered, __ATOMIC_ACQUIRE);

	new.function = personality_function(&new);
	function_look(&new);
	for (uint32_t i = 1; i < n && i < PERSONALITIES; i++) {
		const struct personality *p = &personalities[i];

		if (__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) && p->at == at && p->indirect == indirect &&
		    p->function == new.function && p->module == new.module && p->language == new.language)
			return i;
	}
	if (n >= PERSONALITIES)
		return 0;
	n = __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
	if (n >= PERSONALITIES)
		return 0;
	personalities[n] = new;
	__atomic_store_n(&personalities[n].ready, 1, __ATOMIC_RELEASE);
	return n;
}
