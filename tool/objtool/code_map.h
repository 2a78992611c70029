/* SPDX-License-Identifier: MIT */
/*
 * Puts all code of an object into one address space, with its relocations, and answers where branches lead and which
 * calls do not return.
 */
#ifndef OBJTOOL_CODE_MAP_H
#define OBJTOOL_CODE_MAP_H

#include "analysis/facts/space.h"
#include "kernel/linux_kernel.h"
#include "arch/x86/fast_decoder.h"
#include "elf/symbols.h"

/* A code section with its relocations. */
struct part {
	const struct code_section *code;
	struct elf_reloc *relocs; /* sorted by offset */
	size_t count;
	size_t near; /* index of the relocation that the last search found */
};

#define RETURN_THUNK "__x86_return_thunk" /* a return is compiled to a jump to this symbol */

/* The target of a direct jump or call. */
struct target {
	uint64_t at; /* address in the code space; 0: none */
	/* Name of the symbol that is referred to, if it is a function or in another file; otherwise null. */
	const char *name;
	const char *label; /* name of the symbol to which the relocation refers, of any type; otherwise null */
	/*
	 * The function that contains `at`. Null if there is none, or if the branch is a jump to an address inside a
	 * function.
	 */
	const struct elf_symbol *function;
	size_t number; /* index of that function */
};

/* Flags of a symbol: a warning about it has been printed; --uaccess has warned of it. */
enum { WARNED_SAID = 1, WARNED_ACCESS = 2 };

struct code_map {
	const struct elf_file *f;
	const struct linux_release *release;
	struct code_space space;
	struct part *parts; /* parallel to space.list */
	struct step_cache *cache;
	/*
	 * functions: all functions with a size. labels: all symbols with a name, since assembly calls symbols that are not
	 * functions.
	 */
	struct symbol_index functions, labels;
	struct notes notes;
	uint64_t *kept; /* addresses with the annotation LINUX_IGNORE_ALTS, sorted */
	size_t kept_count;
	struct target *known; /* private to code_map.c; for each symbol: where a call of it leads */
	uint8_t *ends;        /* private to code_map.c; two elements for each function */
	struct once {
		struct symbol_index list; /* symbols with a size: functions and entry code */
		uint8_t *done;            /* for each symbol of the file: WARNED_*; null: there has been no warning */
	} * warned;                   /* the symbols with warnings, for releases that print one warning per symbol */
	/* Each of the following lists has one bit for each byte of the space: */
	uint64_t *fields;  /* the field of a relocation begins at the byte; null: relocations have not been read */
	uint64_t *entries; /* a function begins at the byte */
	/* If the code is decoded from the start of its section, an instruction begins at the byte; null: not known. */
	uint64_t *begins;
	bool decoded; /* `begins` is known, and all code could be decoded */
	/*
	 * Such an instruction begins at the byte, and it does more than continue with the next one, or affects access to
	 * user memory, or is the last one of its section; null: not known.
	 */
	uint64_t *stops;
};

/*
 * code_map_open() makes a map with its space and functions. code_map_relocs() also reads the relocations, and
 * code_map_read() all the rest; both return 0, or -1 and a message. The caller calls code_map_free().
 */
void code_map_open(const struct elf_file *f, const struct linux_release *release, struct code_map *out);
int code_map_relocs(struct code_map *m, struct error *e);
int code_map_read(struct code_map *m, struct error *e);
void code_map_free(struct code_map *m);

/* Returns the section that contains an address, or null. */
const struct part *part_at(const struct code_map *m, uint64_t addr);
/* Returns the function that contains an address, or null. *k is set to its index. */
const struct elf_symbol *function_at(const struct code_map *m, uint64_t addr, size_t *k);
/*
 * Decoding has failed in a section at an offset. Returns the offset at which it continues: the start of the next
 * function, or the size of the section if there is none.
 */
uint64_t decoding_resumes(const struct code_map *m, uint32_t section, uint64_t off);
/* Returns the target of the direct branch `s`, which is at address `at` in part p. */
struct target target_of(const struct code_map *m, const struct part *p, uint64_t at, const struct step *s);
/*
 * Returns the relocation that applies to a field of the instruction with `len` bytes at offset `off` of a part, or
 * null.
 */
const struct elf_reloc *reloc_in(const struct code_map *m, const struct part *p, uint64_t off, unsigned len);
/* Returns the symbol of the relocation that applies to a field of the instruction `s`, or null. */
const struct elf_symbol *symbol_in(const struct code_map *m, const struct part *p, uint64_t at, const struct step *s);
/* True if an address has the annotation LINUX_IGNORE_ALTS. */
bool code_map_keeps(const struct code_map *m, uint64_t addr);
/* Allocates map.begins and map.stops, and reads the relocations. Returns 0, or -1 and a message. */
int code_map_starts(struct code_map *m, struct error *e);
/* Allocates a list of bits, all 0: one for each byte of the space and one for its end. */
uint64_t *bits_new(const struct code_map *m);
/* In both functions, `at` is an address of the space, which is the number of the bit. */
static inline void bit_set(uint64_t *bits, uint64_t at) { bits[at / 64] |= (uint64_t)1 << at % 64; }
static inline bool bit_has(const uint64_t *bits, uint64_t at) { return bits[at / 64] >> at % 64 & 1; }
/* Returns the number of the first bit from `at` on that is set. There must be one. */
static inline uint64_t bit_next(const uint64_t *bits, uint64_t at)
{
	uint64_t word = bits[at / 64] >> at % 64;

	if (word)
		return at + (uint64_t)__builtin_ctzll(word);
	for (at /= 64; !bits[++at];)
		;
	return 64 * at + (uint64_t)__builtin_ctzll(bits[at]);
}
/*
 * Returns the function that contains a place or, in entry code, the symbol with a size that does; null if there is
 * none.
 */
const struct elf_symbol *code_map_sized(const struct code_map *m, uint32_t section, uint64_t off);
/*
 * True if a warning about a place may be printed: since 6.4, only the first warning in each function (or sized symbol
 * of entry code) is printed.
 */
bool warns_first(const struct code_map *m, uint32_t section, uint64_t off);
/*
 * Records that --uaccess has warned of a function, which objtool then follows no further. access_warned() tells whether
 * this was recorded.
 */
void access_warned_set(const struct code_map *m, const struct elf_symbol *function);
bool access_warned(const struct code_map *m, const struct elf_symbol *function);
/* True if the target of a call is a function that does not return. */
bool calls_dead(const struct code_map *m, const struct target *t);

#endif
