/* SPDX-License-Identifier: MIT */
/*
 * The fields of an instruction's encoding (SDM vol. 2, 2.1 and 2.2): what of it differs between
 * two instructions of one form (arch/x86/stack.c).
 */
#ifndef X86_RAW_H
#define X86_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <Zydis/Zydis.h>

/* Fields that have a register. */
enum raw_field {
	FIELD_NONE,
	FIELD_REG,    /* of ModRM */
	FIELD_RM,
	FIELD_OPCODE,
	FIELD_VVVV,   /* of VEX */
	FIELDS,
};

struct raw {
	int64_t imm;       /* the first immediate; 0 = none */
	int64_t imm2;
	int32_t disp;
	uint8_t len, opcode, mod;
	uint8_t field[FIELDS];      /* registers with their bit of REX or VEX */
	uint8_t index, base, scale; /* of a SIB byte; scale 0: none */
	bool legacy;       /* no VEX */
	bool rex, narrow;  /* prefixes REX, 66 */
	bool imm32;        /* the immediate has four bytes */
	bool far;          /* the displacement does not fit disp */
};

/* Of what Zydis has decoded. */
void raw_of(const ZydisDecodedInstruction *z, struct raw *out);

/*
 * The fields up to the immediate of an instruction without VEX, with the prefixes that
 * compilers use; *imm_at is where an immediate would begin. Reads RAW_BYTES.
 * Returns its raw_key(), or 0: something else, for Zydis to decode. That the bytes are an
 * instruction, and how long its immediate is, is not known yet.
 */
uint32_t raw_read(const uint8_t *bytes, struct raw *out, unsigned *imm_at);
#define RAW_BYTES 16u

/* What follows an opcode of the one-byte and the two-byte map. */
enum {
	RAW_NO,    /* not to be told so simply */
	RAW_PLAIN, /* an immediate, or nothing */
	RAW_MODRM, /* this bit: ModRM */
};
extern const uint8_t raw_follows[2][256];

/* What decides which form an instruction has; 0: what is to be decoded in full. */
uint32_t raw_key(const ZydisDecodedInstruction *z);

#endif
