/* SPDX-License-Identifier: MIT */
/*
 * The raw fields of an instruction's encoding (SDM vol. 2, 2.1 and 2.2). Two instructions of one form (arch/x86/form.h)
 * differ only in these fields.
 */
#ifndef X86_RAW_H
#define X86_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <Zydis/Zydis.h>

/* The fields of an encoding that can hold a register number. */
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
	int64_t imm; /* the first immediate; 0 if there is none */
	int64_t imm2;
	int32_t disp;
	uint8_t len, opcode, mod;
	uint8_t field[FIELDS];      /* register numbers, with the bit from REX or VEX */
	uint8_t index, base, scale; /* of the SIB byte; scale 0: there is none */
	bool legacy;                /* the instruction has no VEX prefix */
	bool rex, narrow;           /* the instruction has a REX prefix; a 66 prefix */
	bool imm32;                 /* the immediate is four bytes long */
	bool far;                   /* the displacement does not fit in `disp`, so `disp` is 0 */
};

/* Sets *out to the fields of an instruction that Zydis has decoded. */
void raw_of(const ZydisDecodedInstruction *z, struct raw *out);

/*
 * Reads the fields in front of the immediate, for instructions without VEX and with no prefixes but those that
 * compilers use. Returns the raw_key() of the instruction, or 0 if Zydis must decode it. *imm_at becomes the offset
 * where an immediate would start; its size is not known yet, and the bytes may still be no valid instruction. RAW_BYTES
 * must be readable.
 */
uint32_t raw_read(const uint8_t *bytes, struct raw *out, unsigned *imm_at);
#define RAW_BYTES 16u

/* What follows an opcode: raw_follows[0] is for the one-byte opcodes, raw_follows[1] for those after 0f. In
 * raw_follows[0], bytes that are no opcode have one of the last kinds. */
enum {
	RAW_NO,         /* unknown: it depends on more than the opcode */
	RAW_PLAIN,      /* an immediate or nothing */
	RAW_MODRM,      /* ModRM follows; this is a bit */
	RAW_PREFIX = 8, /* the byte is a legacy prefix */
	RAW_REX,
	RAW_ESCAPE, /* 0f: the opcode has more bytes */
	RAW_VEX2,   /* the byte begins a VEX prefix of two or three bytes */
	RAW_VEX3,
};
extern const uint8_t raw_follows[2][256];

/* Returns the key that selects an instruction's form, or 0 if the instruction has none and is decoded in full. */
uint32_t raw_key(const ZydisDecodedInstruction *z);

#endif
