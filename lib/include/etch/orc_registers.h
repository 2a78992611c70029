/* SPDX-License-Identifier: MIT */
/*
 * etch/orc_registers.h: the register table, which says where the caller's rbx and r12 to r15 are. It is optional, and
 * follows a block table of etch/orc.h, at the next multiple of 8, for the same bytes of code. It is a block table
 * too, without a map, whose palette has a struct etch_saves in place of each rule. Signal safety, thread safety and
 * hostile tables: as in etch/orc_lookup.h.
 */
#ifndef ETCH_ORC_REGISTERS_H
#define ETCH_ORC_REGISTERS_H

#include <etch/orc_lookup.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ETCH_SEC_REGISTERS      ".etch.registers"
#define ETCH_ENCODING_REGISTERS 3u
#define ETCH_REGISTERS_VERSION  1u

/* Where the caller's value of a register is (etch_saves.how). */
enum etch_saves_how {
	ETCH_SAVES_UNKNOWN = 0,
	ETCH_SAVES_SAME = 1, /* unchanged, in the register */
	ETCH_SAVES_CFA = 2,  /* *(CFA + 8 * at) */
	ETCH_SAVES_RBP = 3,  /* *(rbp + 8 * at) */
	ETCH_SAVES_RSP = 4,  /* *(rsp + 8 * at) */
};

/* 16 bytes, for rbx, r12, r13, r14, r15. CFA, rbp and rsp are those of the frame itself. The record has no meaning if
 * the rule is not of kind ETCH_RULE_CALL. If it is all zero, nothing is known. */
struct etch_saves {
	int16_t at[5];
	uint8_t how[5]; /* enum etch_saves_how */
	uint8_t zero;
};

#ifdef __cplusplus
static_assert(sizeof(struct etch_saves) == sizeof(struct etch_rule), "takes a rule's place in a palette");
#else
_Static_assert(sizeof(struct etch_saves) == sizeof(struct etch_rule), "takes a rule's place in a palette");
#endif

/* Is a record as defined above, with unused fields zero? 1 or 0. */
static inline int etch_saves_valid(const struct etch_saves *s)
{
	unsigned i;

	for (i = 0; i < 5; i++)
		if (s->how[i] > ETCH_SAVES_RSP || (s->how[i] < ETCH_SAVES_CFA && s->at[i]))
			return 0;
	return !s->zero;
}

/* Can lookups be made in the register table of at most `size` bytes at `table`, for the same code as `u`? The
 * conditions are those of etch_unwind_header_valid(). */
static inline int etch_registers_header_valid(const struct etch_unwind *u, const void *table, uint64_t size)
{
	const struct etch_unwind *r = (const struct etch_unwind *)table;

	return size >= sizeof(*r) && r->magic == ETCH_UNWIND_MAGIC && r->encoding == ETCH_ENCODING_REGISTERS &&
	       r->version == ETCH_REGISTERS_VERSION && r->size == sizeof(*r) && r->bytes >= sizeof(*r) &&
	       r->bytes <= size && r->bytes <= UINT32_MAX && !r->zero2 && r->text == u->text &&
	       r->text_size == u->text_size && etch_block_arrays_valid(r) && etch_block_has_no_map(r) && !r->map_rbp &&
	       !memcmp(r->build_id, u->build_id, sizeof(r->build_id));
}

/* The register table after the block table *u, whose header is valid and of which `size` bytes are readable; null if
 * there is none. Takes constant time. */
static inline const struct etch_unwind *etch_registers_behind(const struct etch_unwind *u, uint64_t size)
{
	uint64_t at = (u->bytes + 7) & ~(uint64_t)7;
	const void *table = (const uint8_t *)u + at;

	if (u->encoding != ETCH_ENCODING_BLOCK || at > size || !etch_registers_header_valid(u, table, size - at))
		return NULL;
	return (const struct etch_unwind *)table;
}

/* Tells where the caller's registers are when the program counter is `offset` bytes from text. For a return address
 * look up the byte before it. Outside of text, and where a table contradicts itself, nothing is known. */
static inline void etch_registers_find(const struct etch_unwind *table, uint64_t offset, struct etch_saves *out)
{
	static const struct etch_saves unknown = {{0}, {0}, 0};

	memcpy(out, etch_block_find(table, offset), sizeof(*out));
	if (!etch_saves_valid(out))
		*out = unknown;
}

/* Validates a whole register table for the code of `u`. Takes linear time. Returns 1 for a table as the tool writes
 * it, 0 for a malformed one. */
static inline int etch_registers_valid(const struct etch_unwind *u, const void *table, uint64_t size)
{
	const struct etch_unwind *r = (const struct etch_unwind *)table;
	struct etch_saves s;
	struct etch_block t;
	uint32_t i;

	if (!etch_registers_header_valid(u, table, size))
		return 0;
	etch_block_open(r, &t);
	for (i = 0; i < t.palette_count; i++) {
		memcpy(&s, &t.palette[i], sizeof(s));
		if (!etch_saves_valid(&s))
			return 0;
	}
	return etch_block_records_valid(r, &t);
}

#ifdef __cplusplus
}
#endif
#endif
