/* SPDX-License-Identifier: MIT */
/*
 * Reads instructions as hexadecimal digits, one a line, and prints what arch/x86 makes of each, tab-separated: length,
 * text, step.op, a, b, imm, registers that the step writes, and what struct insn reads and writes. A length of 0: not
 * decoded, followed by insn_is_reserved().
 */
#include <stdio.h>
#include <string.h>

#include "arch/x86/insn.h"
#include "arch/x86/fast_decoder.h"

#define MOST 15 /* bytes of an instruction */

int main(void)
{
	char line[256], text[128];

	while (fgets(line, sizeof(line), stdin)) {
		uint8_t bytes[MOST];
		struct insn in;
		struct step s;
		unsigned n = 0, x;

		while (n < MOST && sscanf(line + 2 * n, "%2x", &x) == 1)
			bytes[n++] = (uint8_t)x;
		if (step_decode(NULL, bytes, n, 0x1000, &s) != insn_decode(bytes, n, 0x1000, &in)) {
			fprintf(stderr, "the two records differ: %s", line);
			return 1;
		}
		if (!insn_decode(bytes, n, 0x1000, &in)) {
			printf("0\t%d\n", insn_is_reserved(bytes, n));
			continue;
		}
		insn_text(bytes, n, 0x1000, text, sizeof(text));
		printf("%u\t%s\t%u\t%u\t%u\t%lld\t%x\t%x\t%x\t%d\t%u\n", in.len, text, s.op, s.a, s.b, (long long)s.imm,
		       s.writes, in.reads, in.writes, in.newer, s.len);
	}
	return 0;
}
