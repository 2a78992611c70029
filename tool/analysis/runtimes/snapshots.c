/* SPDX-License-Identifier: MIT */
/* Code that a virtual machine's build has compiled ahead of time, under symbols of its own: the snapshots of Dart. */
#include <string.h>

#include "analysis/runtimes/columns.h"

static bool starts_in(const char *name, const char *start) { return !strncmp(name, start, strlen(start)); }

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	return n >= k && !strcmp(name + n - k, end);
}

static bool is_snapshot(const char *name)
{
	return starts_in(name, "_kDart") && (ends_in(name, "SnapshotText") || ends_in(name, "SnapshotInstructions"));
}

void runtime_symbols_add(const struct elf_file *f, const struct code_space *space, bool (*is)(const char *name),
                         struct runtime_codes *out)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t count = f->symbol_count ? f->symbol_count : f->dynsym_count, i;

	for (i = 1; i < count; i++) {
		const struct elf_symbol *y = &list[i];
		const struct code_section *c = is(y->name) && y->section && y->size ? space_of(space, y->section) : NULL;
		uint64_t at = c ? y->value + (elf_is_object(f) ? c->addr : 0) : 0;

		if (c)
			runtime_code_add(out, (struct runtime_code){.start = at, .end = at + y->size});
	}
}

int dart_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e)
{
	(void)e;
	runtime_symbols_add(f, space, is_snapshot, out);
	return 0;
}
