/* SPDX-License-Identifier: MIT */
#include "arch/x86/haskell.h"

#include <string.h>

#define REGISTERS 48 /* rbx rbp r12-r15, from low to high addresses, and the return address behind them */
#define AT_RBP    8

/* Types of closures and frames: from 1 on (rts/storage/ClosureTypes.h). */
#define TYPE_MOST 66u

bool haskell_convention(unsigned major, unsigned minor, struct etch_rule *out)
{
	static const struct etch_rule rule = {
		.kind = ETCH_RULE_CALL, .cfa = ETCH_REG_RSP, .cfa_off = HASKELL_RESERVED + REGISTERS + 8,
		.bp = ETCH_BP_CFA, .bp_off = AT_RBP - REGISTERS - 8,
	};
	bool known = (major == 7 && minor >= 4) || major == 8 || (major == 9 && minor <= 8);

	if (known)
		*out = rule;
	return known;
}

bool haskell_is_entry(const uint8_t *at, uint64_t addr, size_t before)
{
	uint32_t type;

	if (addr % 8 || before < 2 * 8)
		return false;
	memcpy(&type, at - 8, sizeof(type));
	return type && type <= TYPE_MOST;
}
