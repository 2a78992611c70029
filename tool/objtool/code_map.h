/* SPDX-License-Identifier: MIT */
/* The code of an object as one space, with its relocations: where branches lead, and which calls do not return. */
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
	size_t near; /* index of the last one found */
};

#define RETURN_THUNK "__x86_return_thunk" /* a return is compiled to a jump to this symbol */

/* The target of a direct jump or call. */
struct target {
	uint64_t at; /* address in the code space; 0: none */
	/* Name of the symbol that is referred to, if it is a function or in another file; otherwise null. */
	const char *name;
	const char *label; /* name of the symbol to which the relocation refers, of any type; otherwise null */
	/* The function that contains `at`; null: none, or the branch is a jump that leads to no function's start. */
	const struct elf_symbol *function;
	size_t number; /* index of that function */
};

struct code_map {
	const struct elf_file *f;
	const struct linux_release *release;
	struct code_space space;
	struct part *parts; /* parallel to space.list */
	struct step_cache *cache;
	/* Functions: those with a size; labels: all symbols with a name, since assembly calls these. */
	struct symbol_index functions, labels;
	struct notes notes;
	uint64_t *kept; /* addresses with LINUX_IGNORE_ALTS, sorted */
	size_t kept_count;
	struct target *known; /* private to code_map.c; for each symbol: where a call of it leads */
	uint8_t *ends;        /* private to code_map.c; two for each function */
	struct once {
		struct symbol_index list; /* symbols with a size: functions, and entry code */
		bool *done;               /* for each symbol of the file; null: no warning has been printed */
	} * warned;                   /* for releases that warn once per symbol */
	/* Each of the following lists has one bit for each byte of the space: */
	uint64_t *fields;  /* the field of a relocation begins there; null: not read */
	uint64_t *entries; /* a function begins there */
	/* An instruction begins there, in the sequence of instructions from the section's start on; null: not known. */
	uint64_t *begins;
	/* Such an instruction that does more than lead to the next one, or has an effect on access to user memory, or is
	 * the last one of its section; null: not known. */
	uint64_t *stops;
};

/* Makes a map with its space and functions. code_map_relocs() also reads the relocations, and code_map_read()
 * everything. Both return 0, or -1 and a message. The caller calls code_map_free(). */
void code_map_open(const struct elf_file *f, const struct linux_release *release, struct code_map *out);
int code_map_relocs(struct code_map *m, struct error *e);
int code_map_read(struct code_map *m, struct error *e);
void code_map_free(struct code_map *m);

/* Returns the section that contains an address, or null. */
const struct part *part_at(const struct code_map *m, uint64_t addr);
/* Returns the function that contains an address, or null. *k is set to its index. */
const struct elf_symbol *function_at(const struct code_map *m, uint64_t addr, size_t *k);
/* Returns the offset in a section at which decoding continues after an undecodable instruction: that of the next
 * function, or the size of the section if there is none. */
uint64_t decoding_resumes(const struct code_map *m, uint32_t section, uint64_t off);
/* Returns the target of the direct branch `s` at an address of a part. */
struct target target_of(const struct code_map *m, const struct part *p, uint64_t at, const struct step *s);
/* Returns the relocation of a field inside an instruction of a part, at an offset, or null. */
const struct elf_reloc *reloc_in(const struct code_map *m, const struct part *p, uint64_t off, unsigned len);
/* Returns the symbol of the relocation inside an instruction, or null. */
const struct elf_symbol *symbol_in(const struct code_map *m, const struct part *p, uint64_t at, const struct step *s);
/* True if an address has the annotation LINUX_IGNORE_ALTS. */
bool code_map_keeps(const struct code_map *m, uint64_t addr);
/* Makes a list of bits, all 0, with one for each byte of the space and one for its end. */
uint64_t *bits_new(const struct code_map *m);
/* `at` counts from the start of the space. */
static inline void bit_set(uint64_t *bits, uint64_t at) { bits[at / 64] |= (uint64_t)1 << at % 64; }
static inline bool bit_has(const uint64_t *bits, uint64_t at) { return bits[at / 64] >> at % 64 & 1; }
/* Returns the function, or the sized symbol of entry code, that contains a place; or null. */
const struct elf_symbol *code_map_sized(const struct code_map *m, uint32_t section, uint64_t off);
/* True if a warning about a place may be printed. Since 6.4 only the first one of each function, or of each sized
 * symbol of entry code, is printed. */
bool warns_first(const struct code_map *m, uint32_t section, uint64_t off);
/* True if the callee does not return. */
bool calls_dead(const struct code_map *m, const struct target *t);

#endif
