/* SPDX-License-Identifier: MIT */
/* What compilers use an instruction for, where the tracking of addresses asks. */
#include "arch/x86/insn.h"

/* Behind REX.W: 89, c7 mov to memory; 50 to 57, also behind 41, push; 66 REX.W 0f 6e movq to a vector register. */
bool insn_hands_on(const uint8_t *bytes, const struct insn *in)
{
	if (in->string && in->flow == FLOW_NEXT && !in->barrier)
		return true;
	if ((bytes[0] & 0xf8) == 0x50 || (bytes[0] == 0x41 && (bytes[1] & 0xf8) == 0x50))
		return true;
	if (in->len > 3 && bytes[0] == 0x66 && (bytes[1] & 0xf8) == 0x48 && bytes[2] == 0x0f && bytes[3] == 0x6e)
		return true;
	return in->mem == MEM_WRITE && in->mem_size == 8 && !in->segment && in->base != 4 && in->base != 5 &&
	       (bytes[0] & 0xf8) == 0x48 && (bytes[1] == 0x89 || bytes[1] == 0xc7);
}

/* 8a and b0 to b7 mov of a byte, 0f 90 to 9f setcc of a register; behind 66: 8b mov of two bytes. */
bool insn_replaces_part(const uint8_t *bytes, const struct insn *in)
{
	unsigned word = bytes[0] == 0x66, at = word + ((bytes[word] & 0xf0) == 0x40);

	if (at + 1u >= in->len || in->string)
		return false;
	if (bytes[at] == 0x0f)
		return (bytes[at + 1] & 0xf0) == 0x90 && in->mem == MEM_NONE;
	return word ? bytes[at] == 0x8b : bytes[at] == 0x8a || (bytes[at] & 0xf8) == 0xb0;
}

/* Behind REX: 38 to 3b cmp, 84 and 85 test. */
bool insn_only_compares(const uint8_t *bytes, const struct insn *in)
{
	return (in->mem == MEM_NONE || in->mem == MEM_READ) && !in->writes && !in->string && in->flow == FLOW_NEXT &&
	       (bytes[0] & 0xf0) == 0x40 && ((bytes[1] & 0xfc) == 0x38 || (bytes[1] & 0xfe) == 0x84);
}

/* 0f 40 to 4f cmov, 0f 90 to 9f setcc, 10 to 1f adc and sbb, 80 to 83 with /2 and /3 the same of an immediate. */
bool insn_makes_choice(const uint8_t *bytes, const struct insn *in)
{
	unsigned at = (bytes[0] & 0xf0) == 0x40;

	if (at + 1u < in->len && bytes[at] == 0x0f)
		return (bytes[at + 1] & 0xf0) == 0x40 || (bytes[at + 1] & 0xf0) == 0x90;
	return (bytes[at] >= 0x10 && bytes[at] <= 0x1f) ||
	       (at + 1u < in->len && (bytes[at] & 0xfc) == 0x80 && (bytes[at + 1] & 0x30) == 0x10);
}
