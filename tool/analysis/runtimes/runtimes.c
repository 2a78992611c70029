/* SPDX-License-Identifier: MIT */
/* The table of language runtimes, and the questions that concern all of its rows: which code in a file belongs to
 * runtimes, and which names are those of noreturn functions. */
#include "analysis/runtimes/runtimes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/runtimes/columns.h"
#include "support/memory.h"
#include "support/strings.h"

/* The code of GHC is found during the analysis, by the jump from C to it. Dart's code has no convention here, so it is
 * treated as C. */
const struct runtime runtimes[] = {
	{.name = "C", .noreturn = noreturn_c},
	{.name = "OCaml", .detect = ocaml_detect, .convention = &convention_ocaml, .noreturn = noreturn_ocaml},
	{.name = "Dart", .detect = dart_detect, .lists = true},
	{.name = "V8", .detect = v8_detect, .lists = true, .convention = &convention_v8},
	{.name = "Go", .detect = go_detect, .convention = &convention_go, .noreturn = noreturn_go},
	{.name = "GHC", .own_stack = &ghc_flow},
	{.name = "Mono", .noreturn = noreturn_mono},
};
const size_t runtime_count = sizeof(runtimes) / sizeof(runtimes[0]);

void runtime_code_add(struct runtime_codes *out, struct runtime_code x)
{
	mem_reserve(&out->list, &out->capacity, out->count, sizeof(x));
	out->list[out->count++] = x;
}

void runtime_symbols_add(const struct elf_file *f, const struct code_space *space, bool (*is)(const char *name),
                         struct runtime_codes *out)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t count = f->symbol_count ? f->symbol_count : f->dynsym_count, i;

	for (i = 1; i < count; i++) {
		const struct elf_symbol *y = &list[i];
		const struct code_section *c = is(y->name) && y->section && y->size ? space_of(space, y->section) : NULL;
		uint64_t at = y->value;

		if (!c)
			continue;
		if (elf_is_object(f))
			at += c->addr;
		runtime_code_add(out, (struct runtime_code){.start = at, .end = at + y->size});
	}
}

static int code_order(const void *a, const void *b)
{
	const struct runtime_code *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

int runtimes_detect(const struct elf_file *f, const struct code_space *space, bool followed, struct runtime_codes *out,
                    struct error *e)
{
	size_t i, k = 0;

	for (i = 0; i < runtime_count; i++) {
		if (!runtimes[i].detect || (followed && !runtimes[i].convention && !runtimes[i].lists))
			continue;
		if (runtimes[i].detect(f, space, out, e))
			return -1;
		for (; k < out->count; k++)
			out->list[k].runtime = &runtimes[i];
	}
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), code_order);
	return 0;
}

/* Sets the conventions of the code ranges that begin in `codes`. Both lists are sorted. */
static void classify(const struct runtime_codes *codes, struct code_ranges *ranges)
{
	size_t i, k = 0;

	for (i = 0; i < codes->count; i++) {
		const struct runtime_code *x = &codes->list[i];

		if (x->listed)
			continue; /* ranges_build() has already made a code range of it */
		while (k < ranges->count && ranges->list[k].start < x->start)
			k++;
		for (; k < ranges->count && ranges->list[k].start < x->end; k++)
			ranges->list[k].convention = x->runtime->convention;
	}
}

int runtimes_ranges(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi,
                    struct code_ranges *out, struct error *e)
{
	struct runtime_codes codes = {0};
	int err = runtimes_detect(f, space, true, &codes, e);

	memset(out, 0, sizeof(*out));
	if (!err) {
		ranges_build(f, space, cfi, &codes, out);
		classify(&codes, out);
	}
	free(codes.list);
	return err;
}

const struct flow_runtime *runtimes_own_stack(void)
{
	size_t i;

	for (i = 0; i + 1 < runtime_count && !runtimes[i].own_stack; i++)
		;
	return runtimes[i].own_stack;
}

/* ---- functions that do not return ------------------------------------------------------------ */

/* The names of all rows, sorted; and bits that are hashes of first letters and length, which quickly reject most other
 * names. */
#define NAMES_MOST 256u
#define BITS       1024u
static const char *names[NAMES_MOST];
static size_t name_count;
static uint64_t bits[BITS / 64];
static pthread_once_t names_once = PTHREAD_ONCE_INIT;

static unsigned bit_of(const char *name)
{
	return name[0] ? ((uint8_t)name[0] * 31u + (uint8_t)name[1] * 7u + (unsigned)strlen(name)) % BITS : 0;
}

static void names_make(void)
{
	const char *const *name;
	size_t i;

	for (i = 0; i < runtime_count; i++)
		for (name = runtimes[i].noreturn; name && *name && name_count < NAMES_MOST; name++) {
			names[name_count++] = *name;
			bits[bit_of(*name) / 64] |= (uint64_t)1 << bit_of(*name) % 64;
		}
	qsort(names, name_count, sizeof(*names), string_order);
}

bool runtimes_noreturn(const char *name)
{
	unsigned bit = bit_of(name);

	pthread_once(&names_once, names_make);
	return (bits[bit / 64] >> bit % 64 & 1) && bsearch(&name, names, name_count, sizeof(*names), string_order) != NULL;
}
