/* SPDX-License-Identifier: MIT */
/* Recognizes Python's trampolines (trampoline.h) by the bytes of their instructions. */
#include "arch/x86/trampoline.h"

#include <stddef.h>
#include <string.h>

struct form {
	uint8_t bytes[16], size;
	struct trampoline how;
};

static const struct form forms[] = {
	/* Python 3.12: sub $8,%rsp; call *%rcx; add $8,%rsp; ret. Then the same after endbr64. */
	{{0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3}, 11, {0, 4, 10, 6, false}},
	{{0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3},
     15,
     {0, 8, 14, 10, false}},
	/* Later releases: push %rbp; mov %rsp,%rbp; call *%rcx; pop %rbp; ret. Then the same after endbr64. */
	{{0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3}, 8, {0, 1, 7, 6, true}},
	{{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3}, 12, {0, 5, 11, 10, true}},
};

bool trampoline_recognize(const uint8_t bytes[TRAMPOLINE_BYTES], struct trampoline *out)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		const struct form *f = &forms[i];

		if (memcmp(bytes, f->bytes, f->size))
			continue;
		/* The position of the second copy tells how the copies are aligned. */
		for (unsigned stride = f->size; stride <= TRAMPOLINE_BYTES / 2; stride++)
			if (!memcmp(bytes + stride, f->bytes, f->size)) {
				*out = f->how;
				out->stride = (uint8_t)stride;
				return true;
			}
	}
	return false;
}
