/* SPDX-License-Identifier: MIT */
/* Constants of GHC's run-time system on x86-64. */
#include "arch/x86/ghc_code.h"

#include <string.h>

/* The size of the saved registers below the return address: rbx rbp r12-r15, in ascending order of address. */
#define REGISTERS 48
#define AT_RBP    8

/* The types of closures and frames are the numbers from 1 to this one (rts/storage/ClosureTypes.h). */
#define TYPE_MOST 66u

bool ghc_convention(unsigned major, unsigned minor, struct etch_rule *out)
{
	static const struct etch_rule rule = {
		.kind = ETCH_RULE_CALL,
		.cfa = ETCH_REG_RSP,
		.cfa_off = GHC_RESERVED + REGISTERS + 8,
		.bp = ETCH_BP_CFA,
		.bp_off = AT_RBP - REGISTERS - 8,
	};
	bool known = (major == 7 && minor >= 4) || major == 8 || (major == 9 && minor <= 8);

	if (known)
		*out = rule;
	return known;
}

bool ghc_is_entry(const uint8_t *at, uint64_t addr, size_t before)
{
	uint32_t type;

	if (addr % 8 || before < 2 * 8)
		return false;
	memcpy(&type, at - 8, sizeof(type));
	return type && type <= TYPE_MOST;
}
