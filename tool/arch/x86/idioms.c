/* SPDX-License-Identifier: MIT */
/* Recognizes instructions by what compilers use them for. This serves to track addresses. */
#include "arch/x86/insn.h"

/* After REX.W: 89 and c7 are mov to memory. 50 to 57, also after 41, are push. 66 REX.W 0f 6e is movq to a vector
 * register. */
bool insn_captures_pointer(const uint8_t *bytes, const struct insn *in)
{
	if (in->newer)
		return in->copies;
	if (in->string && in->flow == FLOW_NEXT && !in->barrier)
		return true;
	if ((bytes[0] & 0xf8) == 0x50 || (bytes[0] == 0x41 && (bytes[1] & 0xf8) == 0x50))
		return true;
	if (in->len > 3 && bytes[0] == 0x66 && (bytes[1] & 0xf8) == 0x48 && bytes[2] == 0x0f && bytes[3] == 0x6e)
		return true;
	return in->mem == MEM_WRITE && in->mem_size == 8 && !in->segment && in->base != 4 && in->base != 5 &&
	       (bytes[0] & 0xf8) == 0x48 && (bytes[1] == 0x89 || bytes[1] == 0xc7);
}

/* 8a and b0 to b7 are mov of a byte, 0f 90 to 9f are setcc of a register; after 66, 8b is mov of two bytes. */
bool insn_replaces_part(const uint8_t *bytes, const struct insn *in)
{
	unsigned word = bytes[0] == 0x66, at = word + ((bytes[word] & 0xf0) == 0x40);

	if (at + 1u >= in->len || in->string)
		return false;
	if (bytes[at] == 0x0f)
		return (bytes[at + 1] & 0xf0) == 0x90 && in->mem == MEM_NONE;
	return word ? bytes[at] == 0x8b : bytes[at] == 0x8a || (bytes[at] & 0xf8) == 0xb0;
}

/* After REX: 38 to 3b are cmp, 84 and 85 are test. */
bool insn_only_compares(const uint8_t *bytes, const struct insn *in)
{
	return (in->mem == MEM_NONE || in->mem == MEM_READ) && !in->writes && !in->string && in->flow == FLOW_NEXT &&
	       (bytes[0] & 0xf0) == 0x40 && ((bytes[1] & 0xfc) == 0x38 || (bytes[1] & 0xfe) == 0x84);
}

/* 3d is cmp of eax or rax with an immediate, 81 /7 is cmp of a register or memory with one. */
bool insn_compares_constant(const uint8_t *bytes, const struct insn *in)
{
	unsigned at = (bytes[0] & 0xf0) == 0x40;

	return !in->writes && in->imm_len == 4 && in->flow == FLOW_NEXT &&
	       (bytes[at] == 0x3d || (bytes[at] == 0x81 && (bytes[at + 1] & 0x38) == 0x38));
}

/* 0f 40 to 4f are cmov, 0f 90 to 9f are setcc, 10 to 1f are adc and sbb; 80 to 83 with /2 and /3 are adc and sbb of an
 * immediate. */
bool insn_makes_choice(const uint8_t *bytes, const struct insn *in)
{
	unsigned at = (bytes[0] & 0xf0) == 0x40;

	if (in->newer)
		return true;
	if (at + 1u < in->len && bytes[at] == 0x0f)
		return (bytes[at + 1] & 0xf0) == 0x40 || (bytes[at + 1] & 0xf0) == 0x90;
	return (bytes[at] >= 0x10 && bytes[at] <= 0x1f) ||
	       (at + 1u < in->len && (bytes[at] & 0xfc) == 0x80 && (bytes[at + 1] & 0x30) == 0x10);
}

bool insn_clears_register(const uint8_t *bytes, const struct insn *in)
{
	unsigned at = (bytes[0] & 0xf0) == 0x40, rex = at ? bytes[0] : 0;
	uint8_t op = bytes[at];

	/* 31 and 33 are xor, 29 and 2b are sub; both operands must be the same register */
	return in->len == at + 2 && (op == 0x31 || op == 0x33 || op == 0x29 || op == 0x2b) && bytes[at + 1] >> 6 == 3 &&
	       (bytes[at + 1] >> 3 & 7) == (bytes[at + 1] & 7) && (rex >> 2 & 1) == (rex & 1);
}

unsigned insn_setcc_register(const uint8_t *bytes, const struct insn *in)
{
	unsigned at = (bytes[0] & 0xf0) == 0x40, r = at ? (bytes[0] & 1u) << 3 : 0;

	if (in->len != at + 3 || bytes[at] != 0x0f || (bytes[at + 1] & 0xf0) != 0x90 || bytes[at + 2] >> 6 != 3 ||
	    (!at && (bytes[2] & 7) >= 4)) /* without REX, 4 to 7 are ah to bh */
		return INSN_NO_REG;
	return r | (bytes[at + 2] & 7u);
}

unsigned insn_left_shift(const uint8_t *bytes, const struct insn *in)
{
	unsigned at = (bytes[0] & 0xf0) == 0x40;

	if (in->len != at + 3 || bytes[at] != 0xc1 || (bytes[at + 1] & 0xf8) != 0xe0 || bytes[at + 2] > 31)
		return 0;
	return bytes[at + 2];
}

unsigned insn_cmov_source(const uint8_t *bytes, const struct insn *in)
{
	if (in->len != 4 || (bytes[0] & 0xf8) != 0x48 || bytes[1] != 0x0f || (bytes[2] & 0xf0) != 0x40 ||
	    bytes[3] >> 6 != 3)
		return INSN_NO_REG;
	return (bytes[3] & 7u) | (bytes[0] & 1u) << 3;
}
