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

#include "exceptions/start.h"
#include "unwind/unwind_internal.h"

#define RAISE "_Unwind_RaiseException"

/* dlsym(3) is missing in a static program. */
extern void *dlsym(void *, const char *) __attribute__((weak));

struct callers {
	/* This library, and a sanitizer, which has a function of that name that calls this library's. */
	struct prepare_image own, passer;
	bool first; /* a slot that is yet to be bound will be bound to one of these two */
	char *out;
	size_t size, length;
	unsigned count;
};

static bool is_inside(const struct prepare_image *im, uint64_t at) { return at - im->start < im->end - im->start; }

static bool leads_here(const struct callers *c, uint64_t to)
{
	return is_inside(&c->own, to) || is_inside(&c->passer, to);
}

/* Is this a relocation against _Unwind_RaiseException, and do calls through it reach this library? */
static bool comes_here(const struct callers *c, const struct prepare_image *im, const struct dynamic_tables *t,
                       const Elf64_Rela *r)
{
	const Elf64_Sym *s = (const Elf64_Sym *)(uintptr_t)t->symbols + ELF64_R_SYM(r->r_info);
	uint64_t at = im->bias + r->r_offset, to;

	if (!ELF64_R_SYM(r->r_info) || !loaded_inside(im, (uint64_t)(uintptr_t)s, sizeof(*s)) ||
	    s->st_name > t->strings_size || t->strings_size - s->st_name < sizeof(RAISE) ||
	    memcmp((const char *)(uintptr_t)t->strings + s->st_name, RAISE, sizeof(RAISE)) != 0 ||
	    !loaded_inside(im, at, 8))
		return false;
	memcpy(&to, (const void *)(uintptr_t)at, 8);
	/* Until the first call binds a lazily bound slot, it holds an address in its own file. */
	return leads_here(c, to) || (c->first && is_inside(im, to));
}

/* Is comes_here() true for one of the relocations at `at`? */
static bool one_comes_here(const struct callers *c, const struct prepare_image *im, const struct dynamic_tables *t,
                           uint64_t at, uint64_t size)
{
	if (!loaded_inside(im, at, size))
		return false;
	for (uint64_t i = 0; i < size / sizeof(Elf64_Rela); i++)
		if (comes_here(c, im, t, (const Elf64_Rela *)(uintptr_t)at + i))
			return true;
	return false;
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
	struct dynamic_tables t;

	(void)size;
	loaded_from(info, &im);
	/* libgcc calls the function itself, for _Unwind_Resume_or_Rethrow(). */
	if (im.start >= im.end || im.start == c->own.start || strstr(info->dlpi_name, "/libgcc_s.so") ||
	    (im.start == c->passer.start && *info->dlpi_name))
		return 0;
	t = dynamic_tables_read(&im);
	if (loaded_inside(&im, t.symbols, sizeof(Elf64_Sym)) && loaded_inside(&im, t.strings, t.strings_size) &&
	    (one_comes_here(c, &im, &t, t.plt.at, t.plt.size) || one_comes_here(c, &im, &t, t.rela.at, t.rela.size)))
		name_add(c, info->dlpi_name);
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
