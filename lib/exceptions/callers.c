/* SPDX-License-Identifier: MIT */
/*
 * callers.c: finds out whose exceptions reach this library, for the line at the start of a program. A file that
 * raises exceptions through a libgcc of its own has no relocation to _Unwind_RaiseException, or one that is bound to
 * another definition.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "exceptions/callers.h"
#include "exceptions/start.h"
#include "unwind/unwind_internal.h"

#define RAISE "_Unwind_RaiseException"

/* dlsym(3) is missing in a static program. */
extern void *dlsym(void *, const char *) __attribute__((weak));

struct callers {
	/* This library, and a sanitizer, which has a function of that name that calls this library's. */
	struct prepare_image own, passer;
	bool first; /* slots that are bound later are bound to one of them */
	char *out;
	size_t size, length;
	unsigned count;
};

static bool is_inside(const struct prepare_image *im, uint64_t at) { return at - im->start < im->end - im->start; }

static bool leads_here(const struct callers *c, uint64_t to)
{
	return is_inside(&c->own, to) || is_inside(&c->passer, to);
}

struct tables {
	const Elf64_Sym *symbols;
	const char *strings;
	uint64_t strings_size;
	uint64_t at[2], bytes[2]; /* DT_JMPREL, DT_RELA */
};

static bool tables_open(const struct prepare_image *im, struct tables *t)
{
	const Elf64_Dyn *d = loaded_dynamic(im);
	uint64_t symbols = 0, strings = 0;

	memset(t, 0, sizeof(*t));
	for (; d && d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB: symbols = d->d_un.d_ptr; break;
		case DT_STRTAB: strings = d->d_un.d_ptr; break;
		case DT_STRSZ: t->strings_size = d->d_un.d_val; break;
		case DT_JMPREL: t->at[0] = d->d_un.d_ptr; break;
		case DT_PLTRELSZ: t->bytes[0] = d->d_un.d_val; break;
		case DT_RELA: t->at[1] = d->d_un.d_ptr; break;
		case DT_RELASZ: t->bytes[1] = d->d_un.d_val; break;
		default: break;
		}
	for (unsigned i = 0; i < 2; i++)
		if (!loaded_inside(im, t->at[i], t->bytes[i]))
			t->bytes[i] = 0;
	t->symbols = (const Elf64_Sym *)(uintptr_t)symbols;
	t->strings = (const char *)(uintptr_t)strings;
	return loaded_inside(im, symbols, sizeof(Elf64_Sym)) && loaded_inside(im, strings, t->strings_size);
}

/* Is a relocation one against the symbol, and does the call through it come here? */
static bool comes_here(const struct callers *c, const struct prepare_image *im, const struct tables *t,
                       const Elf64_Rela *r)
{
	const Elf64_Sym *s = &t->symbols[ELF64_R_SYM(r->r_info)];
	uint64_t at = im->bias + r->r_offset, to;

	if (!ELF64_R_SYM(r->r_info) || !loaded_inside(im, (uint64_t)(uintptr_t)s, sizeof(*s)) ||
	    s->st_name > t->strings_size || t->strings_size - s->st_name < sizeof(RAISE) ||
	    memcmp(t->strings + s->st_name, RAISE, sizeof(RAISE)) != 0 || !loaded_inside(im, at, 8))
		return false;
	memcpy(&to, (const void *)(uintptr_t)at, 8);
	/* Until the first call binds a lazily bound slot, it holds an address in its own file. */
	return leads_here(c, to) || (c->first && is_inside(im, to));
}

static void name_add(struct callers *c, const char *name)
{
	const char *slash = strrchr(name, '/'), *words = slash ? slash + 1 : name;
	size_t comma = c->length ? 2 : 0, length;

	if (!*words)
		words = "the program";
	length = strlen(words);
	c->count++;
	if (c->length + comma + length >= c->size)
		return;
	memcpy(c->out + c->length, ", ", comma);
	memcpy(c->out + c->length + comma, words, length + 1);
	c->length += comma + length;
}

static int file_look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct callers *c = arg;
	struct prepare_image im;
	struct tables t;

	(void)size;
	loaded_from(info, &im);
	/* libgcc calls the function itself, for _Unwind_Resume_or_Rethrow(). */
	if (im.start >= im.end || im.start == c->own.start || strstr(info->dlpi_name, "/libgcc_s.so") ||
	    (im.start == c->passer.start && *info->dlpi_name) || !tables_open(&im, &t))
		return 0;
	for (unsigned k = 0; k < 2; k++)
		for (uint64_t i = 0; i < t.bytes[k] / sizeof(Elf64_Rela); i++)
			if (comes_here(c, &im, &t, (const Elf64_Rela *)(uintptr_t)t.at[k] + i)) {
				name_add(c, info->dlpi_name);
				return 0;
			}
	return 0;
}

unsigned callers_list(char *out, size_t size)
{
	static const char *const interceptors[] = {"__interceptor_" RAISE, "___interceptor_" RAISE};
	struct callers c = {.out = out, .size = size};
	void *found;

	*out = 0;
	if (!dlsym || !loaded_image((uint64_t)(uintptr_t)&exceptions_mode, &c.own))
		return 0;
	for (unsigned i = 0; i < sizeof(interceptors) / sizeof(*interceptors); i++)
		if ((found = dlsym(RTLD_DEFAULT, interceptors[i])) && !loaded_image((uint64_t)(uintptr_t)found, &c.passer))
			memset(&c.passer, 0, sizeof(c.passer));
	c.first = leads_here(&c, (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, RAISE));
	dl_iterate_phdr(file_look, &c);
	return c.count;
}
