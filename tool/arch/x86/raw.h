/* SPDX-License-Identifier: MIT */
/*
 * The raw fields of an instruction's encoding (SDM vol. 2, 2.1 and 2.2): these differ between two instructions of one
 * form (arch/x86/form.h).
 */
#ifndef X86_RAW_H
#define X86_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <Zydis/Zydis.h>

/* The fields that can hold a register number. */
enum raw_field {
	FIELD_NONE,
	FIELD_REG, /* ModRM.reg */
	FIELD_RM,
	FIELD_OPCODE,
	FIELD_VVVV, /* VEX.vvvv */
	FIELDS,
};

/* The raw fields of one instruction. */
struct raw {
	int64_t imm; /* the first immediate; 0 = none */
	int64_t imm2;
	int32_t disp;
	uint8_t len, opcode, mod;
	uint8_t field[FIELDS];      /* register numbers, with the bit from REX or VEX */
	uint8_t index, base, scale; /* of the SIB byte; scale 0: there is none */
	bool legacy;                /* no VEX prefix */
	bool rex, narrow;           /* prefixes REX, 66 */
	bool imm32;                 /* the immediate is four bytes long */
	bool far;                   /* the displacement does not fit `disp`, which is 0 then */
};

/* Sets *out to the fields of an instruction that Zydis has decoded. */
void raw_of(const ZydisDecodedInstruction *z, struct raw *out);

/*
 * Reads the fields before the immediate, of an instruction without VEX and with the prefixes that compilers use.
 * *imm_at becomes the offset where an immediate would start. Reads RAW_BYTES. Returns the raw_key() of the instruction,
 * or 0 if Zydis must decode it. The bytes may still be no instruction, and the size of the immediate is not known yet.
 */
uint32_t raw_read(const uint8_t *bytes, struct raw *out, unsigned *imm_at);
#define RAW_BYTES 16u

/* What follows an opcode of the one-byte or the two-byte map. */
enum {
	RAW_NO,    /* unknown: it depends on more than the opcode */
	RAW_PLAIN, /* an immediate or nothing */
	RAW_MODRM, /* a bit: ModRM follows */
};
extern const uint8_t raw_follows[2][256];

/* Returns the key that selects an instruction's form, or 0 if the instruction has none and is decoded in full. */
uint32_t raw_key(const ZydisDecodedInstruction *z);

#endif
