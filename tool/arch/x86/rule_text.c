/* SPDX-License-Identifier: MIT */
/* Unwind rules as text. This file is in this folder because it names registers. */
#include <stdbool.h>
#include <stdio.h>

#include "arch/x86/rule_text.h"

static const char *const names[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};

/* Does a rule say nothing about CFA and rbp? This is so if its kind is UNDEF, or if it is END and no other member is
 * set. */
static bool is_bare(const struct etch_rule *r)
{
	return r->kind == ETCH_RULE_UNDEF || (r->kind == ETCH_RULE_END && !r->cfa && !r->cfa_off && !r->bp && !r->bp_off);
}

void rule_cfa_text(const struct etch_rule *r, char *out, size_t size)
{
	if (is_bare(r))
		snprintf(out, size, "undef");
	else if (r->cfa & ETCH_CFA_INDEX)
		snprintf(out, size, "*(rsp+8*%s%+d)%+d", names[r->cfa & 15], r->cfa_off, r->cfa_add);
	else if (r->cfa & ETCH_CFA_DEREF)
		snprintf(out, size, "*(%s%+d)%+d", names[r->cfa & 15], r->cfa_off, r->cfa_add);
	else
		snprintf(out, size, "%s%+d", names[r->cfa & 15], r->cfa_off);
}

void rule_bp_text(const struct etch_rule *r, char *out, size_t size)
{
	/* In a signal frame the interrupted rbp is 40 bytes below the slot of rsp (etch/orc.h). */
	if (r->kind == ETCH_RULE_SIGNAL)
		snprintf(out, size, "*(rsp%+d)", r->cfa_off - 40);
	else if (is_bare(r) || r->bp == ETCH_BP_UNDEF)
		snprintf(out, size, "undef");
	else if (r->bp == ETCH_BP_CFA)
		snprintf(out, size, "cfa%+d", r->bp_off);
	else if (r->bp == ETCH_BP_RBP || r->bp == ETCH_BP_RSP)
		snprintf(out, size, "*(%s%+d)", r->bp == ETCH_BP_RBP ? "rbp" : "rsp", r->bp_off);
	else
		snprintf(out, size, "same");
}

void rule_ra_text(const struct etch_rule *r, char *out, size_t size)
{
	if (r->kind == ETCH_RULE_SIGNAL)
		snprintf(out, size, "*(rsp%+d)", r->cfa_off + 8);
	else if (r->kind != ETCH_RULE_CALL)
		snprintf(out, size, "undef");
	else if (r->ra == ETCH_RA_SLOT)
		snprintf(out, size, "cfa%+d", r->cfa_add);
	else if (r->ra & ETCH_RA_REG)
		snprintf(out, size, "%s", names[r->ra & 15]);
	else
		snprintf(out, size, "cfa-8");
}

const char *rule_kind_text(const struct etch_rule *r)
{
	static const char *const text[] = {"undef", "call", "signal", "end"};

	return text[r->kind & 3];
}

const char *row_source_text(unsigned source)
{
	static const char *const text[] = {"code", "cfi", "both", "plt"};

	return text[source & 3];
}

const char *reg_text(unsigned r) { return names[r & 15]; }

const char *saved_reg_text(unsigned i)
{
	static const uint8_t saved[5] = {3, 12, 13, 14, 15};

	return names[saved[i]];
}
