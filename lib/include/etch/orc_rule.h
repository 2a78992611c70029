/* SPDX-License-Identifier: MIT */
/*
 * etch/orc_rule.h: the rules of rows (etch/orc.h), whatever encodes them.
 * What etch/orc_lookup.h says of signals, threads and hostile tables holds.
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

#define ETCH_ODD(x) __builtin_expect(!!(x), 0)

/* What a lookup says where there is no row. */
static const struct etch_rule etch_rule_undef = { 0, 0, 0, 0, 0, ETCH_RULE_UNDEF, 0 };

/* 1 when *r is a rule as etch/orc.h has them, unused fields zero; else 0. */
static inline int etch_rule_valid(const struct etch_rule *r)
{
	int used = r->cfa || r->cfa_off || r->cfa_add || r->bp || r->bp_off;

	if (r->kind > ETCH_RULE_END)
		return 0;
	if (r->kind == ETCH_RULE_UNDEF)
		return !used && !r->ra;
	if (r->kind == ETCH_RULE_SIGNAL)
		return r->cfa == (ETCH_REG_RSP | ETCH_CFA_DEREF) && !r->cfa_add && !r->bp && !r->bp_off && !r->ra;
	if ((r->cfa & ~(ETCH_CFA_INDEX | ETCH_CFA_DEREF | 15u)) || (!(r->cfa & ETCH_CFA_DEREF) && r->cfa_add))
		return 0;
	if ((r->cfa & ETCH_CFA_INDEX) && (!(r->cfa & ETCH_CFA_DEREF) || (r->cfa & 15u) == ETCH_REG_RSP))
		return 0;
	if (r->bp > ETCH_BP_UNDEF || ((r->bp == ETCH_BP_SAME || r->bp == ETCH_BP_UNDEF) && r->bp_off))
		return 0;
	if (r->kind == ETCH_RULE_END)
		return !r->ra;
	return r->ra == ETCH_RA_CFA || (r->ra & ~15u) == ETCH_RA_REG;
}

static inline int etch_rule_equal(const struct etch_rule *a, const struct etch_rule *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* The version of a table with these rules. */
static inline uint16_t etch_rules_version(const struct etch_rule *rules, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (rules[i].cfa & ETCH_CFA_INDEX)
			return ETCH_UNWIND_VERSION_INDEX;
	return ETCH_UNWIND_VERSION;
}

#ifdef __cplusplus
}
#endif
#endif
