/* SPDX-License-Identifier: MIT */
/*
 * What is fuzzed: each target takes any bytes, must return, and may neither read nor write what
 * is not its own (ASan, UBSan), nor ask for much memory, nor take long. What must hold
 * besides is written as must().
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/file.h"

struct fuzz_target {
	const char *name;
	void (*run)(const uint8_t *data, size_t size);
	bool elf; /* takes an ELF file: fuzzer.c knows where its fields are */
};

/* Ends with a null name. */
extern const struct fuzz_target fuzz_targets[];
const struct fuzz_target *fuzz_target_find(const char *name);

#define must(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: violated: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

/* A copy in a buffer of just its size; never null. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size)
{
	uint8_t *p = malloc(size ? size : 1);

	if (!p)
		abort();
	return size ? memcpy(p, data, size) : p;
}

/* False: refused. elf_close() in both cases. */
static inline bool fuzz_open(struct elf_file *f, const uint8_t *data, size_t size)
{
	struct error e;

	return !elf_open_bytes(f, "input", fuzz_copy(data, size), size, &e);
}

/* What goes to standard output from fuzz_print() on is kept; at fuzz_printed() nothing in it speaks to
 * a terminal, and JSON is JSON. */
struct fuzz_out {
	FILE *before;
	char *text;
	size_t size;
};
void fuzz_print(struct fuzz_out *p);
void fuzz_printed(struct fuzz_out *p, bool json);
/* A file of these bytes, by a name; its descriptor. */
int fuzz_path(const uint8_t *data, size_t size, char path[32]);

/* target_*.c */
void fuzz_elf(const uint8_t *data, size_t size);
void fuzz_segment(const uint8_t *data, size_t size);
void fuzz_relocs(const uint8_t *data, size_t size);
void fuzz_archive(const uint8_t *data, size_t size);
void fuzz_undo(const uint8_t *data, size_t size);
void fuzz_cfi(const uint8_t *data, size_t size);
void fuzz_lsda(const uint8_t *data, size_t size);
void fuzz_code(const uint8_t *data, size_t size);
void fuzz_block(const uint8_t *data, size_t size);
void fuzz_orc(const uint8_t *data, size_t size);
void fuzz_sites(const uint8_t *data, size_t size);
void fuzz_tables(const uint8_t *data, size_t size);
void fuzz_extable(const uint8_t *data, size_t size);
void fuzz_rewrite(const uint8_t *data, size_t size);
void fuzz_check(const uint8_t *data, size_t size);
void fuzz_faults(const uint8_t *data, size_t size);
void fuzz_module(const uint8_t *data, size_t size);
void fuzz_inspect(const uint8_t *data, size_t size);
void fuzz_diff(const uint8_t *data, size_t size);
void fuzz_texts(const uint8_t *data, size_t size);

/* Those of whole commands, where the last byte does not say how: mutants.c. */
void fuzz_check_how(const uint8_t *data, size_t size, unsigned how);
void fuzz_inspect_how(const uint8_t *data, size_t size, unsigned how);
/* `etch objtool` on an object, with the passes that `how` says: it ends with its change, or with the file as it was. */
void fuzz_objtool_how(const char *path, const uint8_t *data, size_t size, unsigned how);
/* `etch profile` of a process that has mapped the file: stacks by its tables, names by its symbols and DWARF, a format. */
void fuzz_profile_how(const uint8_t *data, size_t size, unsigned how);
/* `etch heap` on a recording with these bytes in it, and frames in this file. */
void fuzz_heap_how(const uint8_t *data, size_t size, unsigned how);
/* A file and another, in either direction, and now and then the other with itself. */
void fuzz_diff_with(const uint8_t *old, size_t old_size, const uint8_t *data, size_t size, unsigned how);

#endif
