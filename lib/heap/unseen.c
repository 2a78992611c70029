/* SPDX-License-Identifier: MIT */
/*
 * unseen.c: finds and counts the code whose calls of malloc(3) bypass the recorder: libraries that dlopen(3) has loaded
 * with RTLD_DEEPBIND, and libraries of other namespaces, which dlmopen(3) makes, each with a libc of its own.
 *
 * dlopen(3) and dlmopen(3) act for the library that calls them, with its namespace and its RUNPATH. They find that
 * library by their return address, so they must be jumped to, not called (load_entry.c), and the outcome of a call is
 * examined later: before the next call, before dlclose(3), and at exit(3). If a process ends before that, the head
 * says how many calls were made.
 */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "heap/recorder.h"
#include "unwind/loaded.h"

/* As of glibc 2.35, the namespaces form a list if there is more than one. */
struct namespaces {
	struct r_debug base;
	struct namespaces *next;
};

extern struct r_debug _r_debug __attribute__((weak));

/* The first namespace of the list; null if the dynamic linker has no list. */
static const struct namespaces *namespaces_first(void)
{
	const char *version = gnu_get_libc_version(), *dot = strchr(version, '.');
	const struct r_debug *first = &_r_debug;
	struct prepare_image im;

	if (!first || (atol(version) <= 2 && !(dot && atol(dot + 1) >= 35)))
		return NULL;
	/* A program that refers to the variable has a copy of it, which is not in the list. */
	if (!loaded_image((uint64_t)(uintptr_t)first, &im) || loaded_is_program(&im))
		return NULL;
	__asm__("" : "+r"(first)); /* the object is longer than its declaration says */
	return (const struct namespaces *)(const void *)first;
}

static struct {
	unsigned deep, spaces; /* calls whose outcome has not been examined */
	size_t modules;        /* number of modules before the first of these calls */
	unsigned known_spaces; /* number of namespaces at the last look, without the program's own */
} calls;

/* The result of a look. */
struct found {
	unsigned deep, spaces;
	size_t used;
	char names[HEAP_UNSEEN_NAMES];
};

/* Names that do not fit are left out; the numbers count all modules. */
static void name_add(struct found *f, const char *name)
{
	size_t n = strlen(name);

	if (f->used + n + 2 > sizeof(f->names))
		return;
	memcpy(f->names + f->used, name, n);
	f->used += n;
	f->names[f->used++] = '\n';
	f->names[f->used] = 0;
}

/* ---- RTLD_DEEPBIND: the library's own libraries come before the recorder ----------------- */

static bool is_allocation(const char *name)
{
	static const char *const names[] = {"malloc",        "calloc",   "realloc", "reallocarray", "posix_memalign",
	                                    "aligned_alloc", "memalign", "valloc",  "pvalloc"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* The address of a table; null if there is none. */
static const void *address_of(const struct prepare_image *im, uint64_t value)
{
	return value ? (const void *)(uintptr_t)dynamic_address(im, value) : NULL;
}

/* Does one of these relocations bind an allocation function to something other than the recorder? A slot that leads
 * into its own module is bound at its first call. */
static bool binds_elsewhere(const struct prepare_image *im, const struct dynamic_tables *t, uint64_t relocations,
                            size_t size)
{
	const Elf64_Sym *symbols = address_of(im, t->symbols);
	const char *names = address_of(im, t->strings);
	const Elf64_Rela *r = address_of(im, relocations);
	struct prepare_image own;

	if (!symbols || !names || !r || !loaded_image((uint64_t)(uintptr_t)unseen_look, &own))
		return false;
	for (size_t i = 0; i < size / sizeof(*r); i++) {
		uint32_t type = ELF64_R_TYPE(r[i].r_info), symbol = ELF64_R_SYM(r[i].r_info);
		uint64_t at = im->bias + r[i].r_offset, to;

		if (!symbol || (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) ||
		    !loaded_inside(im, at, sizeof(to)) || !is_allocation(names + symbols[symbol].st_name))
			continue;
		memcpy(&to, (const void *)(uintptr_t)at, sizeof(to));
		if (to && !loaded_inside(&own, to, 1))
			return true;
	}
	return false;
}

/* Do calls of malloc(3) in this module reach a function other than the recorder's? */
static bool is_unseen(const struct dl_phdr_info *info)
{
	struct prepare_image im;
	struct dynamic_tables t;

	loaded_from(info, &im);
	if (im.start >= im.end)
		return false;
	t = dynamic_tables_read(&im);
	return binds_elsewhere(&im, &t, t.plt.at, t.plt.size) || binds_elsewhere(&im, &t, t.rela.at, t.rela.size);
}

/* ---- namespaces ------------------------------------------------------------------------ */

/* Counts the namespaces other than the program's. If f is not null, adds the names of those from the first `known` on
 * to it. */
static unsigned namespaces_count(struct found *f, unsigned known)
{
	const struct namespaces *n = namespaces_first();
	unsigned count = 0;

	if (!n || n->base.r_version < 2)
		return 0;
	for (n = n->next; n; n = n->next) {
		if (!n->base.r_map)
			continue;
		if (f && count >= known)
			name_add(f, n->base.r_map->l_name);
		count++;
	}
	return count;
}

/* ---- looking ----------------------------------------------------------------------------- */

struct look {
	struct found found;
	size_t index;
	unsigned spaces;
};

/* Called for the modules of the program's namespace, in the order in which they were loaded, while none can come or go.
 */
static int module_look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct look *look = arg;

	(void)size;
	if (!look->index && calls.spaces) {
		look->spaces = namespaces_count(&look->found, calls.known_spaces);
		if (look->spaces > calls.known_spaces)
			look->found.spaces = look->spaces - calls.known_spaces;
		if (!namespaces_first())
			look->found.spaces = calls.spaces; /* this counts the calls that failed, too */
	}
	if (calls.deep && look->index >= calls.modules && is_unseen(info)) {
		look->found.deep++;
		name_add(&look->found, info->dlpi_name);
	}
	look->index++;
	return 0;
}

static void found_note(struct heap_head *h, void *arg)
{
	const struct found *f = arg;
	size_t used = strnlen(h->unseen_names, sizeof(h->unseen_names));

	h->unseen_deep += f->deep;
	h->unseen_spaces += f->spaces;
	h->unseen_calls = 0;
	if (f->used && used + f->used < sizeof(h->unseen_names))
		memcpy(h->unseen_names + used, f->names, f->used + 1);
}

void unseen_look(void)
{
	static struct look look; /* static, because the program's stack may be small; calls of other threads at this moment
	                          * are not told apart */

	if (!calls.deep && !calls.spaces)
		return;
	memset(&look, 0, sizeof(look));
	dl_iterate_phdr(module_look, &look);
	if (calls.spaces)
		calls.known_spaces = look.spaces;
	calls.deep = calls.spaces = 0;
	recorder_note(found_note, &look.found);
}

/* ---- before the calls ---------------------------------------------------------------------- */

static int module_count(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	++*(size_t *)arg;
	return 0;
}

static void call_note(struct heap_head *h, void *arg)
{
	(void)arg;
	h->unseen_calls++;
}

void unseen_call(bool deep)
{
	unseen_look();
	if (deep) {
		calls.modules = 0;
		dl_iterate_phdr(module_count, &calls.modules);
		calls.deep++;
	} else {
		calls.spaces++;
	}
	recorder_note(call_note, NULL);
}

static __attribute__((destructor)) void unseen_end(void) { unseen_look(); }
