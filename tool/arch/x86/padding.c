/* SPDX-License-Identifier: MIT */
#include "arch/x86/padding.h"
#include "arch/x86/opcodes.h"

size_t padding_zeros(const uint8_t *bytes, size_t avail)
{
	size_t n = 0;

	while (n < avail && !bytes[n])
		n++;
	return n;
}

#define ADD_SIZE 2u /* bytes of add %al, (%rax), which zero bytes encode */

size_t padding_after_call(const uint8_t *bytes, size_t avail, uint64_t addr, unsigned align)
{
	size_t n = padding_zeros(bytes, avail);

	return n >= 2 * ADD_SIZE || (addr + n) % align == 0 ? n : 0;
}

/* Do the bytes begin with hlt or ud2, which fault? Linkers write them so that a jump into the padding faults. *len
 * becomes the length of the instruction, or 0. */
static bool is_trap(const uint8_t *bytes, size_t avail, size_t *len)
{
	*len = 0;
	if (avail && bytes[0] == 0xf4)
		*len = 1;
	else if (avail > 1 && bytes[0] == 0x0f && bytes[1] == 0x0b)
		*len = 2;
	return *len != 0;
}

size_t padding_size(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, bool *filler)
{
	size_t n = 0, len;
	bool fills = false;
	struct step s;

	for (; n < avail; n += len) {
		if ((len = padding_zeros(bytes + n, avail - n)) != 0 || insn_is_int3(bytes + n, avail - n)) {
			len = len ? len : 1;
			fills = true;
		} else if (!is_trap(bytes + n, avail - n, &len)) {
			if (!step_decode(cache, bytes + n, avail - n, addr + n, &s) || !s.padding ||
			    insn_is_endbr(bytes + n, s.len))
				break;
			len = s.len;
		}
	}
	if (filler)
		*filler = fills;
	return n;
}
