/* SPDX-License-Identifier: MIT */
/* Finds the raw fields of an instruction: from the result of Zydis, or, for common instructions, directly from the
 * bytes. */
#include "arch/x86/raw.h"
#include "arch/x86/zydis.h"

#include <string.h>

enum {
	PREFIX_66 = 1,
	PREFIX_F2 = 2,
	PREFIX_F3 = 4,
	PREFIX_SEGMENT = 8, /* fs or gs */
};

void raw_of(const ZydisDecodedInstruction *z, struct raw *out)
{
	bool legacy = z->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	unsigned r = legacy ? z->raw.rex.R : !z->raw.vex.R, x = legacy ? z->raw.rex.X : !z->raw.vex.X;
	unsigned b = legacy ? z->raw.rex.B : !z->raw.vex.B, i;

	memset(out, 0, sizeof(*out));
	out->imm = z->raw.imm[0].value.s;
	out->imm2 = z->raw.imm[1].value.s;
	out->imm32 = z->raw.imm[0].size == 32;
	out->far = z->raw.disp.size && (z->raw.disp.value < INT32_MIN || z->raw.disp.value > INT32_MAX);
	out->disp = z->raw.disp.size && !out->far ? (int32_t)z->raw.disp.value : 0;
	out->len = z->length;
	out->opcode = z->opcode;
	out->mod = z->raw.modrm.mod;
	out->field[FIELD_REG] = (uint8_t)(z->raw.modrm.reg | r << 3);
	out->field[FIELD_RM] = (uint8_t)(z->raw.modrm.rm | b << 3);
	if (z->raw.modrm.mod != 3 && z->raw.sib.offset) {
		out->index = (uint8_t)(z->raw.sib.index | x << 3);
		out->base = (uint8_t)(z->raw.sib.base | b << 3);
		out->scale = (uint8_t)(1u << z->raw.sib.scale);
	}
	out->field[FIELD_OPCODE] = (uint8_t)((z->opcode & 7u) | (unsigned)z->raw.rex.B << 3);
	out->field[FIELD_VVVV] = ~z->raw.vex.vvvv & 15u;
	out->legacy = legacy;
	out->rex = z->raw.prefix_count && (z->raw.prefixes[z->raw.prefix_count - 1].value & 0xf0) == 0x40;
	for (i = 0; i < z->raw.prefix_count; i++)
		out->narrow |= z->raw.prefixes[i].value == 0x66;
}

/* Does the field ModRM.rm help to select the instruction? */
static inline bool rm_decides(unsigned map, unsigned opcode)
{
	return (map == 1 && (opcode == 0x01 || opcode == 0x1e || opcode == 0xae || opcode == 0xc7)) ||
	       (map == 0 && opcode >= 0xc6 && opcode <= 0xdf);
}

uint32_t raw_key(const ZydisDecodedInstruction *z)
{
	bool legacy = z->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	unsigned prefix = 0, w, l = 0, rm = 0, i;

	if ((!legacy && z->encoding != ZYDIS_INSTRUCTION_ENCODING_VEX) || z->opcode_map > 3 ||
	    (legacy && z->opcode_map == 0 && z->opcode >= 0xa0 && z->opcode <= 0xa3) || /* moffs64: 64-bit addresses */
	    zydis_is_inline_jump(z))
		return 0;
	for (i = 0; i < z->raw.prefix_count; i++)
		switch (z->raw.prefixes[i].value) {
		case 0x66: prefix |= PREFIX_66; break;
		case 0xf2: prefix |= PREFIX_F2; break;
		case 0xf3: prefix |= PREFIX_F3; break;
		case 0x64:
		case 0x65: prefix |= PREFIX_SEGMENT; break;
		case 0x67: return 0;
		default: break;
		}
	if ((prefix & PREFIX_F2) && (prefix & PREFIX_F3))
		return 0; /* the last of the two counts, but the key does not tell their order */
	w = legacy ? z->raw.rex.W : z->raw.vex.W;
	if (!legacy) {
		l = z->raw.vex.L;
		prefix |= z->raw.vex.pp & 3u;
	}
	if (legacy && z->opcode_map == 0 && z->opcode == 0x90)
		rm = z->raw.rex.B;
	else if (z->raw.modrm.mod == 3 && rm_decides(z->opcode_map, z->opcode))
		rm = z->raw.modrm.rm;
	/* The key does not say whether there is a REX prefix: field_reg() distinguishes ah ch dh bh (without REX) from spl
	 * to dil (with it). */
	return 1u << 31 | (uint32_t)legacy << 30 | (uint32_t)z->opcode_map << 28 | (uint32_t)z->opcode << 20 |
	       prefix << 16 | w << 15 | l << 14 | (uint32_t)(z->raw.modrm.mod == 3) << 13 |
	       (uint32_t)z->raw.modrm.reg << 10 | rm << 7;
}

#define R(from, to) [from... to]

enum { PLAIN = RAW_PLAIN, MODRM = RAW_MODRM, RM = 4 }; /* RM: rm_decides() is true */

/*
 * What follows each opcode of the one-byte and the two-byte map (SDM vol. 2, appendix A). In the other maps ModRM
 * always follows. 0: raw_read() leaves the instruction to Zydis, because it is rare, or invalid, or its form depends on
 * more than raw_key() contains.
 */
const uint8_t raw_follows[2][256] = {
	{
		R(0x00, 0x03) = MODRM,
		R(0x04, 0x05) = PLAIN,
		R(0x08, 0x0b) = MODRM,
		R(0x0c, 0x0d) = PLAIN,
		R(0x10, 0x13) = MODRM,
		R(0x14, 0x15) = PLAIN,
		R(0x18, 0x1b) = MODRM,
		R(0x1c, 0x1d) = PLAIN,
		R(0x20, 0x23) = MODRM,
		R(0x24, 0x25) = PLAIN,
		R(0x28, 0x2b) = MODRM,
		R(0x2c, 0x2d) = PLAIN,
		R(0x30, 0x33) = MODRM,
		R(0x34, 0x35) = PLAIN,
		R(0x38, 0x3b) = MODRM,
		R(0x3c, 0x3d) = PLAIN,
		R(0x50, 0x5f) = PLAIN,
		[0x63] = MODRM,
		[0x68] = PLAIN,
		[0x69] = MODRM,
		[0x6a] = PLAIN,
		[0x6b] = MODRM,
		R(0x70, 0x7f) = PLAIN,
		R(0x80, 0x8b) = MODRM,
		[0x8d] = MODRM,
		R(0x90, 0x99) = PLAIN,
		R(0xa4, 0xbf) = PLAIN,
		R(0xc0, 0xc1) = MODRM,
		R(0xc2, 0xc3) = PLAIN,
		R(0xc6, 0xc7) = MODRM | RM,
		[0xc9] = PLAIN,
		[0xcc] = PLAIN,
		R(0xd0, 0xd3) = MODRM | RM,
		R(0xd8, 0xdf) = MODRM | RM,
		R(0xe8, 0xe9) = PLAIN,
		[0xeb] = PLAIN,
		[0xf4] = PLAIN,
		R(0xf6, 0xf7) = MODRM,
		R(0xfe, 0xff) = MODRM,
		[0x0f] = RAW_ESCAPE,
		[0x2e] = RAW_PREFIX,
		[0x3e] = RAW_PREFIX,
		R(0x40, 0x4f) = RAW_REX,
		R(0x64, 0x66) = RAW_PREFIX,
		[0xc4] = RAW_VEX3,
		[0xc5] = RAW_VEX2,
		[0xf0] = RAW_PREFIX,
		R(0xf2, 0xf3) = RAW_PREFIX,
	},
	{
		[0x05] = PLAIN,        [0x0b] = PLAIN,        R(0x10, 0x17) = MODRM, [0x1e] = MODRM | RM,
		[0x1f] = MODRM,        R(0x28, 0x2f) = MODRM, R(0x40, 0x4f) = MODRM, R(0x50, 0x76) = MODRM,
		R(0x7c, 0x7f) = MODRM, R(0x80, 0x8f) = PLAIN, R(0x90, 0x9f) = MODRM, [0xa2] = PLAIN,
		R(0xa3, 0xa5) = MODRM, R(0xab, 0xad) = MODRM, R(0xaf, 0xb1) = MODRM, [0xb3] = MODRM,
		R(0xb6, 0xb7) = MODRM, R(0xba, 0xc6) = MODRM, R(0xc8, 0xcf) = PLAIN, R(0xd0, 0xfe) = MODRM,
	}};

static const uint8_t prefixes[256] = {
	[0x66] = PREFIX_66, [0xf2] = PREFIX_F2, [0xf3] = PREFIX_F3, [0x64] = PREFIX_SEGMENT, [0x65] = PREFIX_SEGMENT,
};

/* Reads ModRM, SIB and displacement at offset `at`. Returns the offset after them. */
static inline unsigned modrm_read(const uint8_t *bytes, unsigned at, unsigned rex, struct raw *out)
{
	unsigned modrm = bytes[at++], rm = modrm & 7, base = rm;
	int32_t disp;

	out->mod = (uint8_t)(modrm >> 6);
	out->field[FIELD_REG] = (uint8_t)((modrm >> 3 & 7) | (rex << 1 & 8));
	out->field[FIELD_RM] = (uint8_t)(rm | (rex << 3 & 8));
	if (out->mod == 3)
		return at;
	if (rm == 4) {
		unsigned sib = bytes[at++];

		base = sib & 7;
		out->index = (uint8_t)((sib >> 3 & 7) | (rex << 2 & 8));
		out->base = (uint8_t)(base | (rex << 3 & 8));
		out->scale = (uint8_t)(1u << (sib >> 6));
	}
	if (out->mod == 1) {
		out->disp = (int8_t)bytes[at++];
	} else if (out->mod == 2 || base == 5) {
		memcpy(&disp, bytes + at, sizeof(disp));
		out->disp = disp;
		at += 4;
	}
	return at;
}

uint32_t raw_read(const uint8_t *bytes, struct raw *out, unsigned *imm_at)
{
	unsigned at = 0, prefix = 0, rex = 0, map = 0, rm = 0, opcode, kind;

	memset(out, 0, sizeof(*out));
	for (;; at++) {
		unsigned one = prefixes[bytes[at]];

		if (!one)
			break;
		if (prefix & (one == PREFIX_SEGMENT ? PREFIX_SEGMENT : PREFIX_66 | PREFIX_F2 | PREFIX_F3))
			return 0;
		prefix |= one;
	}
	if ((bytes[at] & 0xf0) == 0x40)
		rex = bytes[at++];
	opcode = bytes[at++];
	if (opcode == 0x0f) {
		map = 1;
		opcode = bytes[at++];
		if (opcode == 0x38 || opcode == 0x3a) {
			map = opcode == 0x38 ? 2 : 3;
			opcode = bytes[at++];
		}
	}
	kind = map < 2 ? raw_follows[map][opcode] : MODRM;
	if (kind == RAW_NO || kind >= RAW_PREFIX)
		return 0;
	if (kind & MODRM)
		at = modrm_read(bytes, at, rex, out);
	else /* without ModRM, set these fields to the bits of REX, as Zydis does */
		out->field[FIELD_REG] = (uint8_t)(rex << 1 & 8), out->field[FIELD_RM] = (uint8_t)(rex << 3 & 8);
	if (!map && opcode == 0x90)
		rm = rex & 1;
	else if (out->mod == 3 && (kind & RM))
		rm = out->field[FIELD_RM] & 7;
	out->opcode = (uint8_t)opcode;
	out->field[FIELD_OPCODE] = (uint8_t)((opcode & 7) | (rex << 3 & 8));
	out->field[FIELD_VVVV] = 15;
	out->legacy = true;
	out->rex = rex;
	out->narrow = prefix & PREFIX_66;
	*imm_at = at;
	return 1u << 31 | 1u << 30 | map << 28 | opcode << 20 | prefix << 16 | (rex >> 3 & 1) << 15 |
	       (uint32_t)(out->mod == 3) << 13 | (out->field[FIELD_REG] & 7u) << 10 | rm << 7;
}
