/* SPDX-License-Identifier: MIT */
/* The code of an object as one space, by its relocations: where branches lead, and which calls do not return. */
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
	size_t near; /* the last one found */
};

#define RETURN_THUNK "__x86_return_thunk" /* what a return is compiled to as a jump to it */

/* Where a direct jump or call leads. */
struct target {
	uint64_t at;       /* address of the code space; 0: none */
	const char *name;  /* of the symbol that is named, if it is a function, or another file's; or null */
	const char *label; /* of the symbol that is named by the relocation, of any type; or null */
	const struct elf_symbol *function; /* that holds `at`; null: none, or s is a jump to the start of none */
	size_t number;                     /* its index */
};

struct code_map {
	const struct elf_file *f;
	const struct linux_release *release;
	struct code_space space;
	struct part *parts; /* as space.list */
	struct step_cache *cache;
	struct symbol_index functions, labels; /* those with a size; all that have a name, as assembly calls them */
	struct notes notes;
	uint64_t *kept; /* sorted: addresses with LINUX_IGNORE_ALTS */
	size_t kept_count;
	struct target *known; /* of code_map.c, per symbol: where a call of it leads */
	uint8_t *ends;        /* of code_map.c, two per function */
	struct once {
		struct symbol_index list; /* what has a size: functions, and entry code */
		bool *done;               /* per symbol of the file; null: nothing has been warned of */
	} * warned;                   /* for releases that warn once of a symbol's code */
	/* A bit of each byte of the space: */
	uint64_t *fields;  /* a relocation's field begins there; null: not read */
	uint64_t *entries; /* a function does */
	uint64_t *begins;  /* an instruction begins there, of those that follow each other from the section's
	                    * start on; null: not known */
	uint64_t *stops;   /* likewise, of these: it does more than lead to the next, or has an effect on access to user
	                    * memory, or is a section's last */
};

/* A map with its space and functions; code_map_relocs() reads the relocations too, and code_map_read() all. 0, or -1
 * and a message. code_map_free() when done.
 */
void code_map_open(const struct elf_file *f, const struct linux_release *release, struct code_map *out);
int code_map_relocs(struct code_map *m, struct error *e);
int code_map_read(struct code_map *m, struct error *e);
void code_map_free(struct code_map *m);

/* The section that holds an address, or null. */
const struct part *part_at(const struct code_map *m, uint64_t addr);
/* The function that holds an address, or null; *k: its index. */
const struct elf_symbol *function_at(const struct code_map *m, uint64_t addr, size_t *k);
/* Where decoding goes on after an instruction that does not decode, at an offset in a section: the next function; the
 * section's size if there is none. */
uint64_t decoding_resumes(const struct code_map *m, uint32_t section, uint64_t off);
/* The target of the direct branch `s` at an address of a part. */
struct target target_of(const struct code_map *m, const struct part *p, uint64_t at, const struct step *s);
/* The relocation of a field inside an instruction of a part, at an offset, or null. */
const struct elf_reloc *reloc_in(const struct code_map *m, const struct part *p, uint64_t off, unsigned len);
/* The symbol of the relocation inside an instruction, or null. */
const struct elf_symbol *symbol_in(const struct code_map *m, const struct part *p, uint64_t at, const struct step *s);
/* Has an address LINUX_IGNORE_ALTS? */
bool code_map_keeps(const struct code_map *m, uint64_t addr);
/* A list of bits, all 0, one for each byte of the space and its end. */
uint64_t *bits_new(const struct code_map *m);
/* `at` counts from the start of the space. */
static inline void bit_set(uint64_t *bits, uint64_t at) { bits[at / 64] |= (uint64_t)1 << at % 64; }
static inline bool bit_has(const uint64_t *bits, uint64_t at) { return bits[at / 64] >> at % 64 & 1; }
/* The function, or sized symbol of entry code, that holds a place; or null. */
const struct elf_symbol *code_map_sized(const struct code_map *m, uint32_t section, uint64_t off);
/* May a warning of a place be printed? Since 6.4 only the first of each function, or sized symbol of entry code. */
bool warns_first(const struct code_map *m, uint32_t section, uint64_t off);
/* Does what is called not return? */
bool calls_dead(const struct code_map *m, const struct target *t);

#endif
