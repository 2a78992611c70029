/* SPDX-License-Identifier: MIT */
/*
 * One of the two files that are compared: what all checks find in it (check/check.h), its
 * functions by name, and what an address in it means.
 */
#ifndef DIFF_IMAGE_H
#define DIFF_IMAGE_H

#include <string.h>

#include "check/check.h"
#include "diff/refs.h"
#include "report/report.h"

#define NO_FUNC UINT32_MAX

enum frame_flags {
	FRAME_DYNAMIC = 1,   /* rsp moves by what only the program knows: alloca, arrays of variable length */
	FRAME_REALIGNED = 2, /* rsp is rounded down */
};

/* How two functions were found to be the same one. */
enum matched {
	MATCHED_NOT,
	MATCHED_NAME,
	MATCHED_SUFFIX, /* one name but for what compilers append: .constprop.0, .llvm.123 */
	MATCHED_CODE,   /* the same code under another name, or none */
	MATCHED_CONTENT, /* the same names and constants in it, in the same order */
	MATCHED_CALLS,  /* what functions that are the same one call in the same place */
	MATCHED_PLACE,  /* between the same neighbours, and alike */
	MATCHED_FOLDED, /* one of several that share their code in the other file */
};

struct function {
	const char *name;  /* null: none is known */
	const char *file;  /* source of a local symbol (STT_FILE), or null */
	uint32_t section;
	bool local;
	bool whole;        /* decodes to its end */
	bool sized;        /* its end is known, not only where the next one begins */
	bool twin;         /* others of this file have its name too */
	uint8_t how;       /* enum matched */
	uint8_t flags;     /* enum frame_flags */
	uint64_t start, end; /* addresses; ET_REL: offsets in the section */
	const uint8_t *bytes;
	uint64_t code;     /* hash of the normalised code without what `refs` are to */
	uint64_t about;    /* hash of the names and constants in it, in order; 0: too few */
	uint64_t row_code; /* hash of its unwind rows, by instruction */
	uint32_t insns, rows;
	uint32_t depth;    /* the deepest known distance from CFA to rsp; 0: nothing is known */
	uint32_t pair;     /* the same function in the other file, or NO_FUNC */
	uint32_t alias, alias_count; /* in image.aliases: all its names */
	size_t ref, ref_count; /* in image.refs */
	uint64_t canon;    /* equal in both files of what is the same function */
};

struct image {
	struct elf_file file;
	struct subject subject;
	struct report report;
	struct check_options options;
	bool nameless;      /* local symbols are not looked at: the other file has none */
	struct places places;
	struct function *funcs; /* by (section, start); none overlap */
	uint32_t func_count;
	uint32_t *starts_of; /* first function of each section, section_count + 1 */
	const char **aliases;
	size_t alias_count;
	struct xref *refs;   /* kinds REF_FUNCTION and REF_DATA, by function */
	size_t ref_count, ref_room;
};

/* Opens, checks and reports on a file. image_close() also after a failure. */
int image_open(struct image *im, const char *path, const struct check_options *o, struct error *e);
/* The same for bytes, which it takes over. */
int image_open_bytes(struct image *im, const char *path, uint8_t *bytes, size_t size, const struct check_options *o,
                     struct error *e);
/* Finds functions and what they are made of. */
int image_read(struct image *im, bool nameless, struct error *e);
void image_close(struct image *im);

/* Number of the function that holds an address, or NO_FUNC. */
uint32_t image_function(const struct image *im, uint32_t section, uint64_t addr);
/* "parse", "parse (file.c)" where several have that name, "at 1234"; for people. */
void image_name(const struct image *im, uint32_t func, char *out, size_t size);

/* Length of a name without what compilers append to it. */
size_t name_base(const char *name);

static inline uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9fb21c651e98df25;
	return h ^ h >> 32;
}
uint64_t hash_bytes(const void *p, size_t n);
static inline uint64_t hash_text(const char *s) { return hash_bytes(s, strlen(s)); }

#endif
