/* SPDX-License-Identifier: MIT */
/*
 * One of the two files that are compared: the results of all checks on it (check/check.h), its functions, and the
 * meaning of its addresses.
 */
#ifndef DIFF_IMAGE_H
#define DIFF_IMAGE_H

#include <string.h>

#include "check/check.h"
#include "diff/names.h"
#include "diff/refs.h"
#include "report/report.h"

#define NO_FUNC UINT32_MAX

enum frame_flags {
	FRAME_DYNAMIC = 1,   /* rsp changes by an amount known only at run time, as for alloca or a variable-length array */
	FRAME_REALIGNED = 2, /* rsp is aligned by masking */
};

/* How a function was matched with a function of the other file. */
enum matched {
	MATCHED_NOT,
	MATCHED_NAME,
	MATCHED_SUFFIX,  /* equal names except for suffixes that compilers add: .constprop.0, .llvm.123 */
	MATCHED_CODE,    /* equal code, but another name or none */
	MATCHED_CONTENT, /* equal names and constants in the code, in the same order */
	MATCHED_CALLS,   /* called at the same position in functions that are matched with each other */
	MATCHED_PLACE,   /* similar code, between neighbours that are matched */
	MATCHED_FOLDED,  /* one of several functions that share their code in the other file */
};

/* A function of one file. */
struct function {
	const char *name; /* null: unknown */
	const char *file; /* source file of a local symbol (STT_FILE), or null */
	uint32_t section;
	bool local;
	bool whole;          /* all of its code can be decoded */
	bool sized;          /* its size is known; false: it ends where the next one begins */
	bool twin;           /* another function of this file has the same name */
	uint8_t how;         /* enum matched: how `pair` was found */
	uint8_t flags;       /* enum frame_flags */
	uint64_t start, end; /* addresses; ET_REL: offsets in the section */
	const uint8_t *bytes;
	uint64_t code;     /* hash of the normalised code, without the targets of `refs` */
	uint64_t content;  /* hash of the names and constants in its code, in order; 0: there are too few */
	uint64_t row_code; /* hash of its unwind rows, which are numbered by instruction rather than address */
	uint32_t insns, rows;
	uint32_t depth;              /* largest known distance from the CFA to rsp, in bytes; 0: unknown */
	uint32_t pair;               /* index of the matched function in the other file, or NO_FUNC */
	uint32_t alias, alias_count; /* all its names: a range in image.aliases */
	size_t ref, ref_count;       /* range in image.refs */
	uint64_t canon;              /* equal in both files if the two functions are matched */
};

/* A file with everything that is compared between two files. */
struct image {
	struct elf_file file;
	struct subject subject;
	struct report report;
	struct check_options options;
	bool nameless; /* .symtab is ignored, since the other file has none */
	struct names names;
	struct places places;
	struct function *funcs; /* sorted by (section, start), without overlaps */
	uint32_t func_count;
	uint32_t *starts_of; /* for each section, the index of its first function in `funcs`; section_count + 1 elements */
	const char **aliases;
	size_t alias_count;
	struct xref *refs; /* references of the kinds REF_FUNCTION and REF_DATA, in order of functions */
	size_t ref_count, ref_capacity;
};

/* Opens a file, runs the checks and makes the report. The caller calls image_close() also after a failure. */
int image_open(struct image *im, const char *path, const struct check_options *o, struct error *e);
/* Does for bytes in memory what image_open() does for a path. Takes ownership of the bytes. */
int image_open_bytes(struct image *im, const char *path, uint8_t *bytes, size_t size, const struct check_options *o,
                     struct error *e);
/* Finds the functions and decodes them. If `nameless`, .symtab is ignored. Returns 0, or -1 and a message. */
int image_read(struct image *im, bool nameless, struct error *e);
void image_close(struct image *im);

/* Returns the index of the function that contains an address, or NO_FUNC. */
uint32_t image_function(const struct image *im, uint32_t section, uint64_t addr);
/* Writes the name for output: "parse"; "parse (file.c)" if several functions have this name; ".text+0x40" if it has
 * none. */
void image_name(const struct image *im, uint32_t func, char *out, size_t size);

/* Returns the length of a name without the suffixes that compilers add. */
size_t name_base(const char *name);

static inline uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9fb21c651e98df25;
	return h ^ h >> 32;
}
uint64_t hash_bytes(const void *p, size_t n);
static inline uint64_t hash_text(const char *s) { return hash_bytes(s, strlen(s)); }

#endif
