/* SPDX-License-Identifier: MIT */
/*
 * etch/orc_rule.h: validity and comparison of unwind rules (etch/orc.h), for both encodings.
 * Signal safety, thread safety and hostile tables: as in etch/orc_lookup.h.
 */
#ifndef ETCH_ORC_RULE_H
#define ETCH_ORC_RULE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <etch/orc.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ETCH_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The result of a lookup that finds no row. */
static const struct etch_rule etch_rule_undef = {0, 0, 0, 0, 0, ETCH_RULE_UNDEF, 0};

/* Is *r a rule as defined in etch/orc.h, with unused fields zero? 1 or 0. */
static inline int etch_rule_valid(const struct etch_rule *r)
{
	int used = r->cfa || r->cfa_off || r->cfa_add || r->bp || r->bp_off;

	if (r->kind > ETCH_RULE_END)
		return 0;
	if (r->kind == ETCH_RULE_UNDEF)
		return !used && !r->ra;
	if (r->kind == ETCH_RULE_SIGNAL)
		return r->cfa == (ETCH_REG_RSP | ETCH_CFA_DEREF) && !r->cfa_add && !r->bp && !r->bp_off && !r->ra;
	if ((r->cfa & ~(ETCH_CFA_INDEX | ETCH_CFA_DEREF | 15u)) ||
	    (!(r->cfa & ETCH_CFA_DEREF) && r->ra != ETCH_RA_SLOT && r->cfa_add))
		return 0;
	if ((r->cfa & ETCH_CFA_INDEX) && (!(r->cfa & ETCH_CFA_DEREF) || (r->cfa & 15u) == ETCH_REG_RSP))
		return 0;
	if (r->bp > ETCH_BP_UNDEF || ((r->bp == ETCH_BP_SAME || r->bp == ETCH_BP_UNDEF) && r->bp_off))
		return 0;
	if (r->kind == ETCH_RULE_END)
		return !r->ra;
	if (r->ra == ETCH_RA_SLOT)
		return !(r->cfa & ETCH_CFA_DEREF) && r->cfa_add != -8;
	return r->ra == ETCH_RA_CFA || (r->ra & ~15u) == ETCH_RA_REG;
}

static inline int etch_rule_equal(const struct etch_rule *a, const struct etch_rule *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* The lowest table version that can hold these rules. */
static inline uint16_t etch_rules_version(const struct etch_rule *rules, uint32_t count)
{
	uint16_t version = ETCH_UNWIND_VERSION;
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (rules[i].ra == ETCH_RA_SLOT)
			return ETCH_UNWIND_VERSION_SLOT;
		if (rules[i].cfa & ETCH_CFA_INDEX)
			version = ETCH_UNWIND_VERSION_INDEX;
	}
	return version;
}

#ifdef __cplusplus
}
#endif
#endif
