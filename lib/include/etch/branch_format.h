/* SPDX-License-Identifier: MIT */
/*
 * etch/branch_format.h: the tables of static branches and of markers, which the macros of
 * etch/branch.h and etch/mark.h emit and which the tool and libetch read. docs/formats.md describes
 * them to the bit.
 */
#ifndef ETCH_BRANCH_FORMAT_H
#define ETCH_BRANCH_FORMAT_H

#include <etch/format.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ETCH_SEC_BRANCH    "__etch_branch"  /* struct etch_branch[] */
#define ETCH_SEC_MARK      "__etch_mark"    /* struct etch_mark_site[] */
#define ETCH_SEC_MARK_INFO "__etch_mark_in" /* struct etch_mark, of callbacks; not a table */
#define ETCH_SEC_MARK_HEAD "__etch_mark_on" /* struct etch_mark_head; not a table */

/* A site of either table: one instruction of five bytes, a jump with a rel32 or a nop. */
#define ETCH_BRANCH_LEN 5u

/* How a static branch depends on the value of its variable (etch_branch.kind). */
enum etch_branch_kind {
	ETCH_BRANCH_NONE = 0,    /* empty: the rest of the record has no meaning */
	ETCH_BRANCH_NONZERO = 1, /* jumps to `target` while the value is not 0, else is a nop */
	ETCH_BRANCH_ZERO = 2,    /* jumps to `target` while the value is 0, else is a nop */
	ETCH_BRANCH_EQUAL = 3,   /* goes to `target` while the variable has the value `value`: by a jump, or, if `target` is
	                          * the next instruction, as a nop */
};

#define ETCH_BRANCH_LEA 0x058du /* lea rel32(%rip), %eax, as the assembler wrote it */

/*
 * A static branch. In an unprocessed file the site jumps to `load`, code that reads the variable.
 * Several adjacent records of one site, all of kind EQUAL, are one imv_switch: while the variable
 * has none of their values, the site jumps to `load`. 24 bytes, 4-byte aligned.
 */
struct etch_branch {
	uint8_t size;   /* size of the variable: 1, 2, 4 or 8 bytes */
	uint8_t kind;   /* enum etch_branch_kind */
	uint16_t lea;   /* ETCH_BRANCH_LEA */
	int32_t obj;    /* the variable, relative to the end of this field */
	int32_t site;   /* the instruction, relative to &site */
	int32_t load;   /* the code that reads the variable, relative to &load */
	int32_t target; /* the code that the kind selects, relative to &target */
	uint16_t value; /* kind EQUAL: the value for which the site goes to `target`; else 0 */
	uint16_t zero;
};

#define ETCH_MARK_ARGS 8u /* maximum number of arguments of a marker */

/* Types of arguments, before the default promotions. */
enum etch_mark_type {
	ETCH_MARK_END = 0, /* follows the types of all arguments */
	ETCH_MARK_I8 = 1,
	ETCH_MARK_U8 = 2,
	ETCH_MARK_I16 = 3,
	ETCH_MARK_U16 = 4,
	ETCH_MARK_I32 = 5,
	ETCH_MARK_U32 = 6,
	ETCH_MARK_I64 = 7,
	ETCH_MARK_U64 = 8,
	ETCH_MARK_BOOL = 9,
	ETCH_MARK_DOUBLE = 10,      /* float too: it is passed as double */
	ETCH_MARK_LONG_DOUBLE = 11, /* 16 bytes on the stack */
	ETCH_MARK_STRING = 12,      /* pointer to char */
	ETCH_MARK_POINTER = 13,
	ETCH_MARK_OTHER = 14, /* a structure, by value */
};

/* What a callback learns about the marker that calls it. References are relative to their field. 32 bytes, 4-byte
 * aligned. */
struct etch_mark {
	int32_t name; /* NUL-terminated */
	int32_t args; /* the text of the arguments, NUL-terminated, the name first: "name, arg1, arg2" */
	int32_t file; /* source file as the compiler was given it, NUL-terminated */
	uint32_t line;
	uint8_t count;                /* number of arguments */
	uint8_t type[ETCH_MARK_ARGS]; /* enum etch_mark_type; those from `count` on are ETCH_MARK_END */
	uint8_t zero[7];
};

/*
 * A marker's site: a nop, or, while something is attached, a jump to `target`, the code that calls
 * it. 44 bytes, 4-byte aligned. A record is empty if the linker has dropped its code: its site is
 * then in no executable section.
 */
struct etch_mark_site {
	int32_t site;   /* the instruction, relative to &site */
	int32_t target; /* the code that calls what is attached, relative to &target */
	int32_t head;   /* the struct etch_mark_head of its name in this module, relative to &head */
	struct etch_mark mark;
};

#ifdef __cplusplus
static_assert(sizeof(struct etch_branch) == 24 && sizeof(struct etch_mark) == 32 && sizeof(struct etch_mark_site) == 44,
              "table layouts are fixed");
#else
/* Separate assertions, because clang 16 warns about a constant operand of && in C23. */
_Static_assert(sizeof(struct etch_branch) == 24, "table layouts are fixed");
_Static_assert(sizeof(struct etch_mark) == 32, "table layouts are fixed");
_Static_assert(sizeof(struct etch_mark_site) == 44, "table layouts are fixed");
#endif

#ifndef __cplusplus /* for the tool and the library, which are C */
static inline void etch_branch_nop(uint8_t out[5])
{
	out[0] = 0x0f;
	out[1] = 0x1f;
	out[2] = 0x44;
	out[3] = 0x00;
	out[4] = 0x00; /* nopl 0(%rax,%rax,1): the five-byte nop of both vendors' manuals */
}

/* Writes the bytes that make a site continue at `to`: a nop if that is the next instruction, else a jump. Returns 0
 * if the jump cannot reach it. */
static inline int etch_branch_image(uint64_t site, uint64_t to, uint8_t out[5])
{
	uint64_t rel = to - (site + ETCH_BRANCH_LEN);

	if (rel + 0x80000000u > 0xffffffffu)
		return 0;
	if (!rel) {
		etch_branch_nop(out);
		return 1;
	}
	out[0] = 0xe9;
	for (unsigned i = 0; i < 4; i++)
		out[i + 1] = (uint8_t)(rel >> (8 * i));
	return 1;
}

/* Is a record well formed? The references in it are not checked. */
static inline int etch_branch_valid(const struct etch_branch *x)
{
	if (x->kind == ETCH_BRANCH_NONE)
		return 1;
	return x->kind <= ETCH_BRANCH_EQUAL && x->lea == ETCH_BRANCH_LEA && !x->zero &&
	       (x->size == 1 || x->size == 2 || x->size == 4 || x->size == 8) &&
	       (x->kind == ETCH_BRANCH_EQUAL || !x->value);
}

/* Does a site take the record's target while its variable has this value (zero-extended)? */
static inline int etch_branch_takes(const struct etch_branch *x, uint64_t value)
{
	return x->kind == ETCH_BRANCH_EQUAL ? value == x->value : (x->kind == ETCH_BRANCH_NONZERO) == !!value;
}

static inline int etch_mark_valid(const struct etch_mark *x)
{
	if (x->count > ETCH_MARK_ARGS)
		return 0;
	for (unsigned i = 0; i < ETCH_MARK_ARGS; i++)
		if (x->type[i] > ETCH_MARK_OTHER || (x->type[i] == ETCH_MARK_END) != (i >= x->count))
			return 0;
	for (unsigned i = 0; i < sizeof(x->zero); i++)
		if (x->zero[i])
			return 0;
	return 1;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
